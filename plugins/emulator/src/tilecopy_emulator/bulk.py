"""The bulk engine's instructions, known by the entry point that a third party's would use.

``cp.async.bulk`` (global to shared memory, shared to global, CTA to CTA, and the groups) and ``cp.reduce.async.bulk``.
"""

from __future__ import annotations

from .opcodes.copies import bulk, bulk_reduction
from .opcodes.operands import Handler

INSTRUCTIONS: dict[str, Handler] = {
    "cp.async.bulk": bulk,
    "cp.reduce.async.bulk": bulk_reduction,
}
