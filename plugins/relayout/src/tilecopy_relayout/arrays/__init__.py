"""Arrays of all frameworks: readers of their address, shape, strides and device, and functions that create results."""
