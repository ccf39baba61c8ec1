"""The planner. From shapes and strides, it finds the normal form and the cheapest tiling, and builds the kernel."""
