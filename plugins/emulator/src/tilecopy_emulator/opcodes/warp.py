"""Warp instructions: shuffles, votes, matches and reductions. Source: PTX ISA 9.7.9.6 and 9.7.13."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from tilecopy import HazardError

from ..alu.floats import extreme
from ..alu.forms import Mode
from ..machine.machine import Machine
from ..memory_model.clocks import ISSUED
from ..program import Instruction, Pair, Program
from .loads import with_operands
from .operands import Handler, Lanes, Reader, Step, Writer, agree, demand_count, reader, refuse, writer


@attrs.frozen(eq=False)
class _Group:
    """Lanes that execute one instruction together.

    ``lanes``: of the machine; ``lane``: number of each in its warp, shape (n,); ``group``: number of each lane's set
    (a warp, or the lanes of a mask); ``count``: number of sets; ``mask``: the mask of each lane.
    """

    lanes: Any
    lane: Any
    group: Any
    count: int
    mask: Any

    def table(self, values: Any, fill: Any) -> Any:
        """Convert values of shape ``(lanes, clusters)`` to ``(lane sets, 32, clusters)``. Absent lanes get ``fill``."""
        table = np.full((self.count, 32, values.shape[1]), fill, values.dtype)
        table[self.group, self.lane] = values
        return table


def _together(machine: Machine, lanes: Lanes, mask: Reader | None) -> _Group | None:
    """Join the lanes of each mask, and return those that are complete, or None."""
    if mask is not None:
        lanes = machine.converge(lanes, machine.uniform(mask(machine, lanes), lanes).astype(np.uint32))
        if not machine.size(lanes):
            return None
    index = machine.index(lanes)
    lane = machine.lane[index, 0].astype(np.int64)
    wanted = np.zeros(len(index), np.uint32)
    if mask is not None:
        wanted = machine.uniform(mask(machine, lanes), lanes).astype(np.uint32)
    key = ((index - lane).astype(np.uint64) << np.uint64(32)) | wanted.astype(np.uint64)
    sets, group = np.unique(key, return_inverse=True)
    if mask is not None and ISSUED in machine.order.sections:
        for number in range(len(sets)):
            machine.order.meet(index[group.reshape(-1) == number])
    return _Group(lanes, lane, group.reshape(-1), len(sets), wanted)


def _shuffle(instruction: Instruction, program: Program) -> Step:
    demand_count(instruction, 5)
    kind = next(part for part in instruction.opcode if part in ("up", "down", "bfly", "idx"))
    results = instruction.operands[0]
    both = results if isinstance(results, Pair) else Pair(str(results), "_")
    write = writer(both.first, "b32", instruction, program)
    write_in_range = writer(both.second, "pred", instruction, program)
    types = ("b32", "b32", "b32", "u32")
    sources = zip(instruction.operands[1:], types, strict=True)
    value, by, clamp, mask = (reader(operand, type, instruction, program) for operand, type in sources)

    def step(machine: Machine, lanes: Lanes) -> None:
        agree(machine, lanes, by, clamp)
        here = _together(machine, lanes, mask)
        if here is None:
            return
        b = machine.uniform(by(machine, here.lanes), here.lanes).astype(np.int64) & 31
        c = machine.uniform(clamp(machine, here.lanes), here.lanes).astype(np.int64)
        segment, last = (c >> 8) & 31, c & 31
        most, least = (here.lane & segment) | (last & ~segment), here.lane & segment
        source = {"up": here.lane - b, "down": here.lane + b, "bfly": here.lane ^ b, "idx": least | b & ~segment}[kind]
        in_range = source >= most if kind == "up" else source <= most
        source = np.where(in_range, source, here.lane)
        present = here.table(np.ones((len(source), 1), np.bool_), fill=False)
        strange = ~present[here.group, source, 0]
        if strange.any():
            at = int(np.argmax(strange))
            why = "has exited" if here.mask[at] >> source[at] & 1 else f"is not in the mask {here.mask[at]:#010x}"
            machine.hazard("aligned", f"the shuffle reads lane {source[at]}, but that lane {why}", here.lanes, at)
        lacking = None
        try:
            values = machine.rows(value(machine, here.lanes), here.lanes)
        except HazardError:  # a lane that no other lane reads may be undefined
            read = np.zeros(present.shape[:2], np.bool_)
            read[here.group, source] = True
            mine = read[here.group, here.lane]
            lanes = machine.index(here.lanes)[mine]
            (theirs,), lacking = machine.sources([value], lanes)
            theirs = machine.rows(theirs, lanes)
            values = np.zeros((len(mine), theirs.shape[1]), theirs.dtype)
            values[mine] = theirs
        write(machine, here.lanes, here.table(values, 0)[here.group, source])
        if lacking:
            bits, whence = (np.zeros((len(mine), 1), column.dtype) for column in lacking[0])
            bits[mine, 0], whence[mine, 0] = lacking[0]
            bits, whence = (here.table(column, 0)[here.group, source, 0] for column in (bits, whence))
            bad = bits != 0
            machine.undefine(both.first, machine.index(here.lanes)[bad], whence[bad], bits[bad])
        write_in_range(machine, here.lanes, in_range[:, None])

    return step


def _reduction(
    instruction: Instruction, program: Program, type: str, result: str, reduce: Callable[[_Group, Any], Any]
) -> Step:
    """Compile an instruction ``d, a, mask`` with one result for each set of lanes."""
    demand_count(instruction, 3)
    write = writer(instruction.operands[0], result, instruction, program)
    value = reader(instruction.operands[1], type, instruction, program)
    mask = reader(instruction.operands[2], "u32", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        here = _together(machine, lanes, mask)
        if here is not None:
            values = machine.rows(value(machine, here.lanes), here.lanes)
            write(machine, here.lanes, reduce(here, values)[here.group])

    return step


def _ballot(here: _Group, values: Any) -> Any:
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    return np.bitwise_or.reduce(np.where(here.table(values, fill=False), bits[:, None], np.uint32(0)), axis=1)


def _executing(here: _Group) -> Any:
    """Return for each lane the lanes that execute the instruction with it: those of the mask that have not exited."""
    return _ballot(here, np.ones((len(here.lane), 1), np.bool_))[here.group]


def _vote(instruction: Instruction, program: Program) -> Step:
    kind = next(part for part in instruction.opcode if part in ("ballot", "all", "any", "uni"))
    functions: dict[str, Callable[[_Group, Any], Any]] = {
        "ballot": _ballot,
        "all": lambda here, v: here.table(v, fill=True).all(axis=1),
        "any": lambda here, v: here.table(v, fill=False).any(axis=1),
        "uni": lambda here, v: here.table(v, fill=True).all(axis=1) | ~here.table(v, fill=False).any(axis=1),
    }
    return _reduction(instruction, program, "pred", "b32" if kind == "ballot" else "pred", functions[kind])


def _redux(instruction: Instruction, program: Program) -> Step:
    form = instruction.opcode[1:]
    kinds: dict[tuple[str, ...], tuple[Any, int, str]] = {
        ("sync", "add", "u32"): (np.add, 0, "u4"),
        ("sync", "add", "s32"): (np.add, 0, "u4"),
        ("sync", "min", "u32"): (np.minimum, 0xFFFFFFFF, "u4"),
        ("sync", "max", "u32"): (np.maximum, 0, "u4"),
        ("sync", "min", "s32"): (np.minimum, 0x7FFFFFFF, "i4"),
        ("sync", "max", "s32"): (np.maximum, 0x80000000, "i4"),
        ("sync", "and", "b32"): (np.bitwise_and, 0xFFFFFFFF, "u4"),
        ("sync", "or", "b32"): (np.bitwise_or, 0, "u4"),
        ("sync", "xor", "b32"): (np.bitwise_xor, 0, "u4"),
    }
    if form[-1] == "f32":
        return _redux_floats(instruction, program)
    if form not in kinds:
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    function, neutral, dtype = kinds[form]

    def reduce(here: _Group, values: Any) -> Any:
        table = here.table(values, np.uint32(neutral)).view(dtype)
        return function.reduce(table, axis=1, dtype=dtype).view(np.uint32)

    type = instruction.opcode[-1]
    return _reduction(instruction, program, type, type, reduce)


def _redux_floats(instruction: Instruction, program: Program) -> Step:
    """Compile ``redux.sync.{min,max}{.abs}{.NaN}.f32``; ``.abs`` takes magnitudes, and only ``.NaN`` returns a NaN operand."""
    parts = set(instruction.opcode)
    pair = extreme(largest="max" in parts)(Mode(("f32",), frozenset(parts & {"NaN"})))
    neutral = np.uint32(0x7FFFFFFF if "NaN" not in parts else 0xFF800000 if "max" in parts else 0x7F800000)
    kept = np.uint32(0x7FFFFFFF if "abs" in parts else 0xFFFFFFFF)

    def reduce(here: _Group, values: Any) -> Any:
        table = here.table(values & kept, neutral)
        reduction = table[:, 0]
        for lane in range(1, 32):
            reduction = pair(reduction, table[:, lane])
        return reduction

    return _reduction(instruction, program, "f32", "f32", reduce)


def _match(instruction: Instruction, program: Program) -> Step:
    of_any = "any" in instruction.opcode
    type = "b64" if "b64" in instruction.opcode else "b32"
    demand_count(instruction, 3)
    results = instruction.operands[0]
    if isinstance(results, Pair) and of_any:
        raise refuse(instruction, f"match.any must have one result, got {results.first}|{results.second}")
    both = results if isinstance(results, Pair) else Pair(str(results), "_")
    write = writer(both.first, "b32", instruction, program)
    write_all = writer(both.second, "pred", instruction, program)
    value = reader(instruction.operands[1], type, instruction, program)
    mask = reader(instruction.operands[2], "u32", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        here = _together(machine, lanes, mask)
        if here is None:
            return
        values = machine.rows(value(machine, here.lanes), here.lanes)
        table = here.table(values, 0)[here.group]  # (n, 32, copies)
        present = here.table(np.ones_like(values, np.bool_), fill=False)[here.group]
        same = (table == values[:, None]) & present
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        equal = np.bitwise_or.reduce(np.where(same, bits[:, None], np.uint32(0)), axis=1)
        if of_any:
            write(machine, here.lanes, equal)
            return
        executing = _executing(here)
        everyone = equal == executing
        write(machine, here.lanes, np.where(everyone, executing, np.uint32(0)))
        write_all(machine, here.lanes, everyone)

    return step


@with_operands("=b32")
def _active_mask(machine: Machine, lanes: Lanes, opcode: Any, write: Writer) -> None:
    here = _together(machine, lanes, None)
    assert here is not None
    write(machine, lanes, _executing(here))


def _elect(instruction: Instruction, program: Program) -> Step:
    """Compile ``elect.sync d|p, mask``, which elects the lowest lane of the mask that has not exited."""
    demand_count(instruction, 2)
    if not isinstance(instruction.operands[0], Pair):
        raise refuse(instruction, f"elect must have two results, d|p, got '{instruction.operands[0]}'")
    write = writer(instruction.operands[0].first, "b32", instruction, program)
    write_leader = writer(instruction.operands[0].second, "pred", instruction, program)
    mask = reader(instruction.operands[1], "u32", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        here = _together(machine, lanes, mask)
        if here is None:
            return
        executing = _executing(here)
        leader = np.log2((executing & (~executing + np.uint32(1))).astype(np.float64)).astype(np.uint32)
        write(machine, here.lanes, leader)
        write_leader(machine, here.lanes, here.lane[:, None] == leader)

    return step


INSTRUCTIONS: dict[str, Handler] = {
    "shfl": _shuffle,
    "vote": _vote,
    "redux": _redux,
    "match": _match,
    "activemask": _active_mask,
    "elect": _elect,
}
