"""Sizes of memory and of an SM that all architectures from sm_75 on share, as Nsight Compute counts them."""

SECTOR_BYTES, LINE_BYTES = 32, 128
"""A sector of global memory, and a line of four."""
BANKS, BANK_BYTES = 32, 4
"""Banks of shared memory, each a word wide."""
