"""Copies and kernels that leave: functions of CUDA C++ (and of what other packages make of them), kernels in folders."""

from .arguments import Argument, Number, Operand
from .cuda import cuda_function, cuda_header
from .function import BlockOperand, Function, Move, function_of

__all__ = [
    "Argument",
    "BlockOperand",
    "Function",
    "Move",
    "Number",
    "Operand",
    "cuda_function",
    "cuda_header",
    "function_of",
]
