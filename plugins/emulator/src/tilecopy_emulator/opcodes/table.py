"""The table of instructions: those of this package, and those of others by entry point ``tilecopy.instructions.v1``.

An entry point of the group gives a module or object with ``INSTRUCTIONS``: a mapping from an opcode, or a longer dotted
prefix of one (``"mma.sync"``), to a *handler*. A handler is called once for each instruction of a program and returns its
*step*, which the machine calls whenever lanes execute it; see :class:`..machine.machine.Machine` for what a step may do.

Other packages are asked for what the emulator refuses or only skips, and are imported when that is met for the first time.
One that cannot be used is set aside, and an instruction that is then still unknown says why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache, lru_cache, partial, wraps
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs

from tilecopy_core import PluginError, TilecopyError
from tilecopy_core.ptx.instructions import instruction_of

from ..alu import UndefinedResultError
from ..demands import short_repr
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
    tensor,
    tensor_products,
    warp,
    wgmma,
    wmma,
)
from .operands import Handler, Lanes, Step, hold, refuse
from .rules import demand_operands, demand_together

if TYPE_CHECKING:
    from types import ModuleType

    from tilecopy_core.registry import Source

__all__ = ["GROUP", "Handler", "Package", "Step", "compile_program", "handlers", "packages"]

GROUP = "tilecopy.instructions.v1"
"""The entry-point group; the number is the version of the machine's interface."""
_OWN_PACKAGE = "tilecopy-emulator"
_MOST_PREFIXES = 1 << 14
"""Most opcode prefixes of a package; the ISA has some hundred opcodes."""
_MOST_TOLD, _MOST_TOLD_CHARACTERS = 4, 300
"""Packages that were set aside in one message, and of each."""

_OWN: tuple[ModuleType, ...] = (arithmetic, moves, warp, matrices, wmma, loads, atomics, control, cache_lines)
_OWN += (printing, copies, tensor, tensor_products, wgmma)


@attrs.frozen(eq=False)
class Package:
    """What an entry point of the group came to.

    ``name``: of the entry point; ``owner``: the distribution that declares it, and its version; ``table``: its handlers
    by prefix; ``reason``: why it is set aside, or "".
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
    """The entry points of other packages, or this one's ``own``, in the order of names; imported at the first call."""
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
    """The handlers of a package.

    Raises:
        PluginError: one is not a handler, or stands under a prefix that is the emulator's.
    """
    table: dict[str, Handler] = {}
    for prefix, handler in islice(plugin.INSTRUCTIONS.items(), _MOST_PREFIXES + 1):
        if type(prefix) is not str or not callable(handler):
            raise PluginError(
                f"INSTRUCTIONS has {short_repr(prefix)}: {short_repr(handler)}; it goes from opcodes to functions of an Instruction and a Program"
            )
        if prefix in taken:
            raise PluginError(
                f"INSTRUCTIONS has '{prefix}', which is the emulator's own; name an opcode of yours, or a longer prefix"
            )
        table[prefix] = _answering(handler, owner)
    if len(table) > _MOST_PREFIXES:
        raise PluginError(f"INSTRUCTIONS has more than {_MOST_PREFIXES} opcodes")
    return table


@cache
def _builtin() -> dict[str, Handler]:
    return {prefix: handler for module in _OWN for prefix, handler in module.INSTRUCTIONS.items()}


@cache
def handlers() -> dict[str, Handler]:
    """Every prefix that the emulator knows by itself, and its handler; bulk copies and matrix products come by entry point."""
    return _builtin() | {prefix: handler for package in packages(own=True) for prefix, handler in package.table.items()}


@cache
def _others() -> dict[str, Handler]:
    """The handlers of other packages, a prefix that two of them have being nobody's; and bulk prefetches where they have none."""
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
            f"PTX line {instruction.line}: '{instruction.text}': '{prefix}' is named by two entry points of {GROUP}, "
            f"{' and '.join(owners)}; pip uninstall one of them"
        )

    return refuse


def _step(instruction: Instruction, program: Program, *, in_ptx: bool) -> Step:
    """The step of an instruction: by the longest prefix of those that know it best, asked one after the other.

    Who comes later is asked for what was refused, and only under a longer prefix. An opcode that PTX does not have is
    known to other packages alone; here a handler may say what is wrong with it.
    """
    refusal = UnsupportedPtxError(f"'{instruction.text}': '{instruction.opcode[0]}' is not known", instruction.line)
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
            except Exception:  # a handler of this package counts on an opcode that exists
                if in_ptx or table is _others:
                    raise
                refusal, refused = refuse(instruction, f"PTX has no '{instruction.spelled}'"), length
                break
    aside = [f"'{package.name}': {package.reason}"[:_MOST_TOLD_CHARACTERS] for package in packages() if package.reason]
    if aside:
        more = f"; and {len(aside) - _MOST_TOLD} more: tilecopy doctor" if len(aside) > _MOST_TOLD else ""
        refusal.args = (f"{refusal}; set aside: instructions of entry point {'; '.join(aside[:_MOST_TOLD])}{more}",)
    raise refusal


def _answering(handler: Handler, owner: str) -> Handler:
    """A handler of another package: errors of other types that it and its steps raise are the package's fault, and says so."""

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
                f"PTX line {instruction.line}: '{instruction.text}': the handler of {owner} gave {short_repr(step)}, and a step is "
                "a function of a machine and its lanes"
            )

        def run(machine: Machine, lanes: Lanes) -> None:
            try:
                step(machine, lanes)
            except (
                TilecopyError,
                CopiesDiverged,
                IntraWarpConflict,
                Conflict,
                UndefinedResultError,
                KeyboardInterrupt,
            ):  # the machine's own
                raise
            except BaseException as error:
                raise fault(instruction, "a step", error) from error

        return run

    return handle


@lru_cache(maxsize=32)
def compile_program(program: Program) -> tuple[list[Step], list[int]]:
    """A step for each instruction, and how many instructions it covers."""
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
