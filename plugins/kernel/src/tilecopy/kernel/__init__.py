"""Kernels around tile copies. KernelBuilder describes a kernel, ``build`` lowers it, and an executor launches it."""
