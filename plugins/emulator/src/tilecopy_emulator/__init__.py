"""An emulator that runs PTX without a GPU and reports behaviour that is undefined on hardware.

It raises :class:`tilecopy.HazardError` for uninitialised memory or registers, races, misaligned or
out-of-bounds accesses, missing waits, fences and barriers.

Terms: a *space* is a state space of PTX, and a *memory* holds its bytes. An *access* is a read or write by one instruction.
A *place* is a byte of shared memory, counted over the CTAs of a machine. A *cell* is the bytes that share a stamp.
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
