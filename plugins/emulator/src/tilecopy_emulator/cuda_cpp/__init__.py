"""Kernels of CUDA C++ on the emulator: their compilation by NVRTC, and :func:`run_cuda`."""

from .compiler import compile_cuda, run_cuda

__all__ = ["compile_cuda", "run_cuda"]
