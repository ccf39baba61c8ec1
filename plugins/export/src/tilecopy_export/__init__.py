"""Copies for other languages: functions of CUDA C++, and the records from which other packages write theirs."""

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
