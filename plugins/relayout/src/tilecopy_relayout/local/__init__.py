"""A relayout in one process: the words to move, host arrays piece by piece, and launches that are remembered."""
