"""The table of instruction handlers from this package and from entry points ``tilecopy.instructions.v1``.

An entry point of the group is a module or object with ``INSTRUCTIONS``: a mapping from an opcode, or a longer dotted
prefix of one (``"mma.sync"``), to a *handler*. A handler is called once for each instruction of a program and returns its
*step*, which the machine calls whenever lanes execute it; :class:`..machine.machine.Machine` has the interface for steps.

Other packages are imported and tried at the first instruction that the emulator refuses or only skips. A package that
cannot be used is ignored, and the error of an instruction that stays unsupported says why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache, lru_cache, partial, wraps
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs

from tilecopy_core import PluginError, TilecopyError
from tilecopy_core.errors import short_repr
from tilecopy_core.ptx.instructions import instruction_of

from ..alu import UndefinedResultError
from ..machine.machine import Machine
from ..memory_model.access import IntraWarpConflict
from ..memory_model.shadow import Conflict
from ..program import Instruction, Program, UnsupportedPtxError
from ..threads.threads import CopiesDiverged
from . import (
    arithmetic,
    atomics,
    cache_lines,
    control,
    copies,
    loads,
    matrices,
    moves,
    printing,
    tensor_memory,
    tensor_products,
    warp,
    wgmma,
    wmma,
)
from .operands import Handler, Lanes, Step, hold, refuse
from .rules import demand_operands, demand_together

if TYPE_CHECKING:
    from tilecopy_core.registry import Source

__all__ = ["GROUP", "Handler", "Package", "Step", "compile_program", "handlers", "packages"]

GROUP = "tilecopy.instructions.v1"
"""The entry-point group; its number is the version of the machine's interface."""
_OWN_PACKAGE = "tilecopy-emulator"
_MOST_PREFIXES = 1 << 14
"""The largest number of opcode prefixes of a package; the ISA has about a hundred opcodes."""
_MOST_TOLD, _MOST_TOLD_CHARACTERS = 4, 300
"""The largest number of ignored packages in a message, and of characters for each."""

_OF_MACHINE = (CopiesDiverged, IntraWarpConflict, Conflict, UndefinedResultError)
"""Exceptions by which the machine leaves a step."""

_OWN: tuple[ModuleType, ...] = (arithmetic, moves, warp, matrices, wmma, loads, atomics, control, cache_lines)
_OWN += (printing, copies, tensor_memory, tensor_products, wgmma)


@attrs.frozen(eq=False)
class Package:
    """A loaded entry point of the group ``tilecopy.instructions.v1``.

    ``name``: of the entry point; ``owner``: the distribution that declares it, and its version; ``table``: its handlers
    by prefix; ``reason``: why it is ignored, or "".
    """

    name: str
    owner: str
    table: Mapping[str, Handler] = attrs.field(factory=dict)
    reason: str = ""


@cache
def _sources() -> list[Source]:
    from tilecopy_core.registry import installed_sources

    return installed_sources(GROUP)


@cache
def packages(*, own: bool = False) -> tuple[Package, ...]:
    """Return the entry points of other packages, or of this package if ``own`` is True. The first call imports them."""
    from tilecopy_core.registry import load_unique

    entries = []
    for source in _sources():
        if (source.package.lower().replace("_", "-") == _OWN_PACKAGE) != own:
            continue
        make = partial(_table, owner=f"entry point '{source.name}' ({source.owner})", taken=() if own else handlers())
        try:
            entries.append(Package(source.name, source.owner, load_unique([source], make)))
        except PluginError as error:
            entries.append(Package(source.name, source.owner, reason=str(error)))
    return tuple(entries)


def _table(plugin: Any, owner: str, taken: Collection[str]) -> dict[str, Handler]:
    """Return the handlers of a package.

    Raises:
        PluginError: one is not a handler, or its prefix belongs to the emulator.
    """
    table: dict[str, Handler] = {}
    for prefix, handler in islice(plugin.INSTRUCTIONS.items(), _MOST_PREFIXES + 1):
        if type(prefix) is not str or not callable(handler):
            raise PluginError(
                f"INSTRUCTIONS must map opcodes to functions of an Instruction and a Program, got {short_repr(prefix)}: {short_repr(handler)}"
            )
        if prefix in taken:
            raise PluginError(f"INSTRUCTIONS must not have '{prefix}', an opcode of the emulator: use a longer prefix")
        table[prefix] = _answering(handler, owner)
    if len(table) > _MOST_PREFIXES:
        raise PluginError(f"INSTRUCTIONS must have at most {_MOST_PREFIXES} opcodes, got more")
    return table


@cache
def _builtin() -> dict[str, Handler]:
    return {prefix: handler for module in _OWN for prefix, handler in module.INSTRUCTIONS.items()}


@cache
def handlers() -> dict[str, Handler]:
    """Return the handlers of this package and of its entry points, as a dict from opcode prefix to handler."""
    return _builtin() | {prefix: handler for package in packages(own=True) for prefix, handler in package.table.items()}


@cache
def _others() -> dict[str, Handler]:
    """Return the handlers of other packages, with an error for a prefix of two packages, and the default for bulk prefetches."""
    owners: dict[str, list[str]] = {}
    by_prefix: dict[str, Handler] = {"cp.async.bulk.prefetch": cache_lines.bulk_prefetch}
    for package in packages():
        for prefix, handler in package.table.items():
            owners.setdefault(prefix, []).append(f"'{package.name}' ({package.owner})")
            by_prefix[prefix] = handler if len(owners[prefix]) == 1 else _conflict(prefix, owners[prefix])
    return by_prefix


def _conflict(prefix: str, owners: list[str]) -> Handler:
    def refuse(instruction: Instruction, program: Program) -> Step:
        raise PluginError(
            f"PTX line {instruction.line}: '{instruction.text}': two entry points of {GROUP} have the "
            f"opcode prefix '{prefix}': {' and '.join(owners)}; pip uninstall one of them"
        )

    return refuse


def _step(instruction: Instruction, program: Program, *, in_ptx: bool) -> Step:
    """Return the step of an instruction, from the handler with the longest prefix in each table in turn.

    A later table is tried if a handler refuses, and only with a longer prefix. An opcode that PTX does not have is
    supported only by other packages; the emulator's handlers may still say what is wrong with it.
    """
    refusal: UnsupportedPtxError | None = None
    refused = 0
    for table in (_builtin, handlers, _others):
        names = table()
        for length in range(len(instruction.opcode), refused, -1):
            handler = names.get(".".join(instruction.opcode[:length]))
            if handler is None:
                continue
            try:
                step = handler(instruction, program)
                if in_ptx or (table is _others and handler is not cache_lines.bulk_prefetch):
                    return step
                raise refuse(instruction, f"PTX has no '{instruction.spelled}'")
            except UnsupportedPtxError as error:
                refusal, refused = error, length
                break
            except Exception:  # a handler of this package expects an opcode that exists
                if in_ptx or table is _others:
                    raise
                refusal, refused = refuse(instruction, f"PTX has no '{instruction.spelled}'"), length
                break
    if refusal is None:
        refusal = refuse(instruction, f"'{instruction.opcode[0]}' is not supported")
    aside = [f"'{package.name}': {package.reason}"[:_MOST_TOLD_CHARACTERS] for package in packages() if package.reason]
    if aside:
        more = f"; and {len(aside) - _MOST_TOLD} more: run tilecopy doctor" if len(aside) > _MOST_TOLD else ""
        refusal.args = (f"{refusal}; ignored entry points: {'; '.join(aside[:_MOST_TOLD])}{more}",)
    raise refusal


def _answering(handler: Handler, owner: str) -> Handler:
    """Return a handler of another package, with its other errors and those of its steps as a PluginError of the package."""

    def fault(instruction: Instruction, what: str, error: BaseException) -> PluginError:
        return PluginError(
            f"PTX line {instruction.line}: '{instruction.text}': {what} of {owner} raised {short_repr(error)}"
        )

    @wraps(handler)
    def handle(instruction: Instruction, program: Program) -> Step:
        try:
            step = handler(instruction, program)
        except (TilecopyError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise fault(instruction, "the handler", error) from error
        if not callable(step):
            raise PluginError(
                f"PTX line {instruction.line}: '{instruction.text}': the handler of {owner} must return a function of a machine "
                f"and its lanes, got {short_repr(step)}"
            )

        def run(machine: Machine, lanes: Lanes) -> None:
            try:
                step(machine, lanes)
            except (TilecopyError, KeyboardInterrupt, *_OF_MACHINE):
                raise
            except BaseException as error:
                raise fault(instruction, "a step", error) from error

        return run

    return handle


@lru_cache(maxsize=32)
def compile_program(program: Program) -> tuple[list[Step], list[int]]:
    """Compile a program. Return one step per instruction, and the number of instructions that each step executes."""
    steps, in_ptx = [], {"": instruction_of("ret")}
    for instruction in program.instructions:
        needed = in_ptx.get(instruction.spelled)
        if needed is None:
            needed = hold(instruction, program)
            if not needed.varies:
                in_ptx[instruction.spelled] = needed
        known = needed.needs.known
        if known and instruction.spelled:
            demand_operands(instruction, needed, program)
        steps.append(_step(instruction, program, in_ptx=known))
    demand_together(program)
    lengths = [1] * (len(steps) + 1)
    for first, count in loads.runs(program):
        part = slice(first, first + count)
        steps[first] = loads.several(list(program.instructions[part]), steps[part], program)
        lengths[first] = count
    wgmma.watch(program, steps, lengths)
    return steps, lengths
