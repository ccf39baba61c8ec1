"""CUDA C++ on the emulator: NVRTC makes PTX with line information, :func:`run_cuda` runs it."""

from .compiler import compile_cuda, run_cuda

__all__ = ["compile_cuda", "run_cuda"]
