"""Functions that read the address, shape, strides and device of any framework's array, or create result arrays."""
