"""Relayouts as lazy or recorded operations of a framework: operators of torch, blocks of Dask."""
