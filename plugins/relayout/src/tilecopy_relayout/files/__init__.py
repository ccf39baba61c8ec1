"""A relayout of array files, piece by piece."""
