"""Export of copies as CUDA C++. Other packages can generate other languages from the record of a copy."""

from .cuda import cuda_function, cuda_header
from .function import AsmOperand, CopyFunction, RegisterMove, function_of
from .function_arguments import Argument, BufferArgument, ScalarArgument

__all__ = ["Argument", "AsmOperand", "BufferArgument", "CopyFunction", "RegisterMove", "ScalarArgument"]
__all__ += ["cuda_function", "cuda_header", "function_of"]
