"""Asynchronous operations, and the machine that runs a batch of clusters."""
