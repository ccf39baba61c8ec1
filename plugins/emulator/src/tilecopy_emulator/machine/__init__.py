"""The machine that runs a batch of clusters, and its asynchronous operations."""
