"""The table of instructions: those of this package, and those of others by entry point ``tilecopy.instructions.v1``.

An entry point of the group gives a module or object with ``INSTRUCTIONS``: a mapping from an opcode, or a longer dotted
prefix of one (``"mma.sync"``), to a *handler*. A handler is called once for each instruction of a program and returns its
*step*, which the machine calls whenever lanes execute it; see :class:`.machine.Machine` for what a step may do. What an
entry point names comes before what this package has under the same prefix; two entry points may not name the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache, wraps
from importlib.metadata import entry_points
from typing import Any

from tilecopy_core import PluginError, TilecopyError

from . import accesses, arithmetic, control, copies, matrices, moves, tensor, warp
from .access import Together
from .alu import UndefinedResultError
from .demands import shown
from .machine import Diverged, Machine
from .operands import Handler, Lanes, Step, hold, refuse
from .program import Instruction, Program, UnsupportedPtxError
from .shadow import Conflict

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
        PluginError: an entry point does not load or has what is no handler, or two name the same prefix.
    """
    found: dict[str, Handler] = {}
    for table in _OWN:
        found.update(table)
    owners: dict[str, str] = {}
    given: dict[str, tuple[Handler, str]] = {}
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
            given[prefix] = handler, f"entry point '{point.name}' ({point.value})"
    for prefix, (handler, owner) in given.items():
        if not isinstance(prefix, str) or not callable(handler):
            raise PluginError(
                f"instructions of {owner}: INSTRUCTIONS has {shown(prefix)}: {shown(handler)}; it goes from opcodes to "
                "functions of an Instruction and a Program"
            )
        found[prefix] = _answering(handler, owner)
    return found


def _answering(handler: Handler, owner: str) -> Handler:
    """A handler of another package: what it and its steps raise that is no error of ours is the package's fault, and says so."""

    def fault(instruction: Instruction, what: str, error: Exception) -> PluginError:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return PluginError(f"PTX line {instruction.line}: '{instruction.text}': {what} of {owner} raised {said}")

    @wraps(handler)
    def handle(instruction: Instruction, program: Program) -> Step:
        try:
            step = handler(instruction, program)
        except TilecopyError:
            raise
        except Exception as error:
            raise fault(instruction, "the handler", error) from error
        if not callable(step):
            raise PluginError(
                f"PTX line {instruction.line}: '{instruction.text}': the handler of {owner} gave {shown(step)}, and a step is "
                "a function of a machine and its lanes"
            )

        def run(machine: Machine, lanes: Lanes) -> None:
            try:
                step(machine, lanes)
            except (TilecopyError, Diverged, Together, Conflict, UndefinedResultError):  # the machine's own
                raise
            except Exception as error:
                raise fault(instruction, "a step", error) from error

        return run

    return handle


def _taught(opcode: tuple[str, ...]) -> bool:
    """Whether another package has taught an opcode."""
    points = [point for point in entry_points(group=GROUP) if not point.value.startswith(f"{__package__}.")]
    return any(
        ".".join([*opcode, ""]).startswith(f"{prefix}.") for point in points for prefix in point.load().INSTRUCTIONS
    )


def _no_such(instruction: Instruction, program: Program, handler: Handler) -> UnsupportedPtxError:
    """The error for an opcode that PTX does not have; its handler may say more of what is wrong."""
    try:
        handler(instruction, program)
    except Exception as error:  # handlers count on an opcode that exists
        if isinstance(error, UnsupportedPtxError):
            return error
    return refuse(instruction, f"PTX has no '{instruction.spelled}'")


@lru_cache(maxsize=32)
def compile_program(program: Program) -> tuple[list[Step], list[int]]:
    """A step for each instruction, and how many instructions it covers.

    Raises:
        UnsupportedPtxError: an instruction that is not known; the message names the line.
    """
    table = handlers()
    steps, held = [], {""}
    for instruction in program.instructions:
        handler: Any = None
        for length in range(len(instruction.opcode), 0, -1):
            handler = table.get(".".join(instruction.opcode[:length]))
            if handler is not None:
                break
        if handler is None:
            raise UnsupportedPtxError(f"'{instruction.text}': '{instruction.opcode[0]}' is not known", instruction.line)
        if instruction.spelled not in held:
            found = hold(instruction, program)
            if not found.needs.known and not _taught(instruction.opcode):
                raise _no_such(instruction, program, handler)
            if not found.varies:
                held.add(instruction.spelled)
        steps.append(handler(instruction, program))
    lengths = [1] * (len(steps) + 1)
    for first, count in accesses.runs(program):
        part = slice(first, first + count)
        steps[first] = accesses.several(list(program.instructions[part]), steps[part], program)
        lengths[first] = count
    return steps, lengths
