"""The handlers of bulk and tensor copy instructions. An entry point registers these handlers with the emulator.

``cp.async.bulk`` (global to shared memory, shared to global, CTA to CTA, and the groups), ``cp.reduce.async.bulk``, prefetches, and tensor copies.
"""

from __future__ import annotations

from .opcodes.copies import bulk, bulk_reduction
from .opcodes.operands import Handler
from .opcodes.tensor_copies import TENSOR_COPIES

INSTRUCTIONS: dict[str, Handler] = {"cp.async.bulk": bulk, "cp.reduce.async.bulk": bulk_reduction, **TENSOR_COPIES}
