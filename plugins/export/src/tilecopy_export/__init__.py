"""Copies exported to other languages: CUDA C++ functions, and records from which other packages write their functions."""

from .arguments import Argument, BufferArgument, ScalarArgument
from .cuda import cuda_function, cuda_header
from .function import AsmOperand, CopyFunction, RegisterMove, function_of

__all__ = [
    "Argument",
    "AsmOperand",
    "CopyFunction",
    "RegisterMove",
    "ScalarArgument",
    "BufferArgument",
    "cuda_function",
    "cuda_header",
    "function_of",
]
