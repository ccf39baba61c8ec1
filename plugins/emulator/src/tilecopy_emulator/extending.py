"""The interface for packages that add instructions to the emulator.

Register a module (or any object) under the entry-point group ``tilecopy.instructions.v1``::

    [project.entry-points."tilecopy.instructions.v1"]
    acme = "acme_tilecopy.instructions"

It has ``INSTRUCTIONS``: a mapping from an opcode, or from your longest dotted prefix (``"cp.async.acme"``), to a
*handler*. A handler is called once for each instruction of a program, with the :class:`Instruction` and the :class:`Program`. It
checks every modifier and operand, raises :func:`refuse` (which names the line) for what it does not support, and returns a *step*.
The machine calls the step with itself and the lanes whenever lanes execute the instruction; the guard has been applied.

Values. A step reads operands by :func:`reader` and writes results by :func:`writer`: unsigned bits, in arrays of shape
``(lanes or 1, copies or 1)``. A *copy* is a CTA (or cluster) that has so far executed the same as the others of its batch: values may
differ between copies, order and control flow may not. A value that decides a shared address, a branch or an order goes through
``machine.uniform(values, lanes)`` (one value per lane) before the first side effect. Never change arrays in place that were
read or written. :func:`arithmetic` makes handlers from :func:`form` tables, for instructions on registers only.

Memory. :func:`address_reader` reads an operand in brackets. ``machine.load(lanes, access, addresses)`` gives the bytes of an
:class:`AccessKind` in an array ``(lanes or 1, copies or 1, bytes)``; ``machine.store(lanes, access, addresses, raw)`` writes them. Both check
bounds, alignment, poison, races and proxies.

Order. ``clock = machine.order.release(machine.index(lanes))`` is what happened before in the lanes; ``machine.order.acquire(lanes, clock)``
orders other lanes after it. ``machine.converge(lanes, mask)`` joins the lanes of a ``.sync`` instruction and returns those that are complete.

Asynchronous copies. :func:`start_copy` starts a bulk copy as ``cp.async.bulk`` does: it completes as late as the memory model lets
it, on an mbarrier (which counts its bytes) or in the bulk group of the thread. :func:`check_global` only checks an address and
a size against the arrays.

Faults. ``machine.hazard(kind, message, lanes, position)`` raises :class:`tilecopy.HazardError` for one of the lanes.

The emulator's own ``cp.async.bulk`` is registered by such an entry point (:mod:`tilecopy_emulator.bulk`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .alu import Form, Mode, UndefinedResultError
from .alu.forms import form
from .machine.machine import Machine
from .memory_model.access import AccessKind
from .opcodes.arithmetic import compile_arithmetic
from .opcodes.copies import demand_bulk_size, global_bytes, issue_copy
from .opcodes.loads import address_reader, demand_parts
from .opcodes.operands import Handler, Lanes, Reader, Step, Writer, is_constant, reader, refuse, width_of, writer
from .program import (
    Braces,
    Instruction,
    Memory,
    Negated,
    Offset,
    Pair,
    Program,
    TensorAddress,
    UnsupportedPtxError,
)

__all__ = [
    "AccessKind",
    "Form",
    "Handler",
    "Instruction",
    "Lanes",
    "Machine",
    "Memory",
    "Mode",
    "Negated",
    "Offset",
    "Pair",
]
__all__ += [
    "Program",
    "Reader",
    "Step",
    "TensorAddress",
    "UndefinedResultError",
    "UnsupportedPtxError",
    "Braces",
    "Writer",
]
__all__ += ["address_reader", "arithmetic", "check_global", "demand_parts", "form", "is_constant", "reader", "refuse"]
__all__ += ["start_copy", "width_of", "writer"]


def arithmetic(*forms: Form) -> dict[str, Handler]:
    """Return the handlers of instructions that use only registers. Describe each instruction with :func:`form`.

    For example ``arithmetic(form("acme.avg", "u32 u64", "t = t t", lambda mode: lambda a, b: (a & b) + ((a ^ b) >> 1)))``: the opcode with
    its modifiers, the types, the roles of results and operands, and a function from the mode to a function of unsigned NumPy arrays.
    """
    table: dict[str, Sequence[Form]] = {}
    for entry in forms:
        table[entry.name] = (*table.get(entry.name, ()), entry)

    def handler(instruction: Instruction, program: Program) -> Step:
        return compile_arithmetic(instruction, program, table)

    return dict.fromkeys(table, handler)


def check_global(machine: Machine, lane: int, address: Any, size_bytes: int) -> None:
    """Check that a bulk copy's global address and size are multiples of 16, and that one array contains all bytes.

    Args:
        machine: the machine whose step calls this.
        lane: the lane that issues the copy (a number of ``machine.index(lanes)``).
        address: of shape ``(1, copies or 1)``.
        size_bytes: number of bytes.

    Raises:
        HazardError: the bytes break one of these rules.
    """
    one = np.array([lane])
    demand_bulk_size(machine, one, size_bytes)
    global_bytes(machine, one, address, size_bytes)


def start_copy(
    machine: Machine, lane: int, size_bytes: int, *, to: tuple[str, Any], source: tuple[str, Any], mbarrier: Any = None
) -> None:
    """Start a bulk copy that one lane issues.

    Args:
        machine: the machine whose step calls this.
        lane: the lane that issues the copy (a number of ``machine.index(lanes)``).
        size_bytes: a multiple of 16.
        to: state space (``"global"``, ``"shared::cta"``, ``"shared::cluster"``) and address, of shape ``(1, copies or 1)``.
        source: state space and address.
        mbarrier: shared address of the mbarrier whose phase counts the bytes; without one, the copy is in the bulk group of the lane.

    Raises:
        HazardError: the size or an address is misaligned or out of bounds, or the bytes were not fenced for the async proxy.
    """
    one = np.array([lane])
    demand_bulk_size(machine, one, size_bytes)
    issue_copy(machine, one, size_bytes, to, source, mbarrier, None, 1, -1)
