"""Functions that read any framework's array (address, shape, strides, device) or create an array for a result."""
