"""A relayout of an array that is divided among the ranks of a process group."""
