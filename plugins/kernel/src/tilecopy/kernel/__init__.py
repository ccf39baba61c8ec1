"""Kernels around tile copies: KernelBuilder describes one, ``build`` lowers it, and an executor launches the built kernel."""
