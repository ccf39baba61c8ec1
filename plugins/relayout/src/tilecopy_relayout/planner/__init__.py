"""The planner. It finds the normal form of a relayout and the cheapest tiling, and builds the kernel."""
