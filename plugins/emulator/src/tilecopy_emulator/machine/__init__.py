"""The execution of a batch of clusters, with its mbarriers and asynchronous operations."""
