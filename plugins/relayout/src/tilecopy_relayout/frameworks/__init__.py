"""Relayouts as torch operators, and as lazy operations on the blocks of Dask arrays."""
