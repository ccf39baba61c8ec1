"""Runs the PTX text of tilecopy kernels with no GPU, exactly and strictly.

Where hardware is only undefined, this raises :class:`tilecopy.HazardError`: uninitialised memory or registers,
races, misaligned or outside accesses, missing waits, fences and barriers.

The words: a *space* is a state space of PTX, a *memory* holds its bytes; an *access* is what one instruction does to them;
a *place* is a byte of shared memory, counted over the CTAs of a machine; a *cell* is the bytes that share a stamp.
"""

import numpy.ma  # noqa: F401 (np.unique asks for it: with the package, no fork shall meet it half imported)

from .api import run_ptx
from .arguments import Pointer, Struct
from .cuda_cpp import run_cuda
from .executor import EmulatorExecutor, executor
from .memory.observed import AccessEvent, Transfer, TransferEnd
from .memory.tensor_maps import TensorMap, tensor_map
from .parser.module import parse
from .program import BudgetError, Program, UnsupportedPtxError
from .run import Report

__all__ = [
    "AccessEvent",
    "BudgetError",
    "EmulatorExecutor",
    "Pointer",
    "Program",
    "Report",
    "TransferEnd",
    "Struct",
    "TensorMap",
]
__all__ += ["Transfer", "UnsupportedPtxError", "executor", "parse", "run_cuda", "run_ptx", "tensor_map"]
__version__ = "0.2.0"
