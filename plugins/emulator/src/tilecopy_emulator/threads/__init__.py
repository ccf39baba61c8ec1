"""The threads of a batch of clusters, their registers and their synchronisation."""
