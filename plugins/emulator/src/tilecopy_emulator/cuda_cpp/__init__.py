"""CUDA C++ on the emulator. :func:`run_cuda` compiles a kernel with NVRTC and runs the resulting PTX."""

from .compiler import compile_cuda, run_cuda

__all__ = ["compile_cuda", "run_cuda"]
