"""The table of instructions: those of this package, and those of others by entry point ``tilecopy.instructions.v1``.

An entry point of the group gives a module or object with ``INSTRUCTIONS``: a mapping from an opcode, or a longer dotted
prefix of one (``"mma.sync"``), to a *handler*. A handler is called once for each instruction of a program and returns its
*step*, which the machine calls whenever lanes execute it; see :class:`.machine.Machine` for what a step may do. What an
entry point names comes before what this package has under the same prefix; two entry points may not name the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import entry_points
from typing import Any

from tilecopy_core import PluginError

from . import accesses, arithmetic, control, copies, matrices, moves, tensor, warp
from .operands import Handler, Step
from .program import Program, UnsupportedPtxError

__all__ = ["GROUP", "Handler", "Step", "compile_program", "handlers"]

GROUP = "tilecopy.instructions.v1"
"""The entry-point group; the number is the version of the machine's interface."""

_OWN: tuple[Mapping[str, Handler], ...] = (
    arithmetic.INSTRUCTIONS,
    moves.INSTRUCTIONS,
    warp.INSTRUCTIONS,
    matrices.INSTRUCTIONS,
    accesses.INSTRUCTIONS,
    control.INSTRUCTIONS,
    copies.INSTRUCTIONS,
    tensor.INSTRUCTIONS,
)


@cache
def handlers() -> dict[str, Handler]:
    """Every known prefix and its handler.

    Raises:
        PluginError: an entry point does not load, or two name the same prefix.
    """
    found: dict[str, Handler] = {}
    for table in _OWN:
        found.update(table)
    owners: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: p.name):
        try:
            table = point.load().INSTRUCTIONS
            items = dict(table.items())
        except Exception as error:
            raise PluginError(
                f"instructions of entry point '{point.name}' ({point.value}) do not load: {error}"
            ) from error
        for prefix, handler in items.items():
            if prefix in owners:
                raise PluginError(f"'{prefix}' is named by two entry points of {GROUP}: {owners[prefix]}, {point.name}")
            owners[prefix] = point.name
            found[prefix] = handler
    return found


@lru_cache(maxsize=32)
def compile_program(program: Program) -> tuple[list[Step], list[int]]:
    """A step for each instruction, and how many instructions it covers.

    Raises:
        UnsupportedPtxError: an instruction that is not known; the message names the line.
    """
    table = handlers()
    steps = []
    for instruction in program.instructions:
        handler: Any = None
        for length in range(len(instruction.opcode), 0, -1):
            handler = table.get(".".join(instruction.opcode[:length]))
            if handler is not None:
                break
        if handler is None:
            raise UnsupportedPtxError(f"'{instruction.text}': '{instruction.opcode[0]}' is not known", instruction.line)
        steps.append(handler(instruction, program))
    lengths = [1] * (len(steps) + 1)
    for first, count in accesses.runs(program):
        part = slice(first, first + count)
        steps[first] = accesses.several(list(program.instructions[part]), steps[part], program)
        lengths[first] = count
    return steps, lengths
