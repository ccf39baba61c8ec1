"""The arrays of all frameworks: address, extents, strides and device of one, and how each framework makes a result."""
