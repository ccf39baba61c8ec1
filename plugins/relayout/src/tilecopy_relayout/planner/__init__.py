"""The planner: from shapes and strides to the normal form, the cheapest tiling and the built kernel."""
