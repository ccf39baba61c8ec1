"""Moves, conversions of addresses, and instructions without visible effects."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..machine.machine import Machine
from ..memory_model.access import LOCAL_WINDOW, RANK_BITS, SHARED_WINDOW, WINDOW_BITS
from ..program import Braces, Instruction, Program
from .loads import immediate, with_operands
from .operands import Handler, Lanes, Reader, Step, Writer, demand_count, reader, refuse, width_of, writer


def _move(instruction: Instruction, program: Program) -> Step:
    demand_count(instruction, 2)
    type = instruction.opcode[1]
    destination, source = instruction.operands
    if isinstance(source, Braces):
        return _pack(instruction, program, type, source)
    if isinstance(destination, Braces):
        return _unpack(instruction, program, type, destination)
    write = writer(destination, type, instruction, program)
    read = reader(source, type, instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        write(machine, lanes, read(machine, lanes))

    return step


def _move_wide(instruction: Instruction, program: Program) -> Step:
    """Compile ``mov.b128`` between registers of 128 bits and pairs of 64 bits."""
    demand_count(instruction, 2)
    names = [operand.items if isinstance(operand, Braces) else () for operand in instruction.operands]
    if any(len(name) != 2 for name in names):
        raise refuse(instruction, "each operand must be a 128-bit register, or two 64-bit registers in braces")
    writers = [writer(name, "b64", instruction, program) for name in names[0]]
    readers = [reader(name, "b64", instruction, program) for name in names[1]]

    def step(machine: Machine, lanes: Lanes) -> None:
        for write, values in zip(writers, [read(machine, lanes) for read in readers], strict=True):
            write(machine, lanes, values)

    return step


def _part(instruction: Instruction, type: str, vector: Braces) -> int:
    """Return the bits of an element of a packed move."""
    width = width_of(type)
    part = width // len(vector.items)
    if type[0] != "b" or len(vector.items) not in (2, 4) or part not in (8, 16, 32):
        raise refuse(instruction, f"a .{type} cannot be split into {len(vector.items)} elements")
    return part


def _pack(instruction: Instruction, program: Program, type: str, source: Braces) -> Step:
    part = _part(instruction, type, source)
    write = writer(instruction.operands[0], type, instruction, program)
    readers = [reader(item, f"b{part}", instruction, program) for item in source.items]
    dtype = np.dtype(f"u{width_of(type) // 8}")

    def step(machine: Machine, lanes: Lanes) -> None:
        total: Any = np.zeros((1, 1), dtype)
        for position, read in enumerate(readers):
            total = total | (read(machine, lanes).astype(dtype) << dtype.type(position * part))
        write(machine, lanes, total)

    return step


def _unpack(instruction: Instruction, program: Program, type: str, destination: Braces) -> Step:
    part = _part(instruction, type, destination)
    writers = [writer(item, f"b{part}", instruction, program) for item in destination.items]
    read = reader(instruction.operands[1], type, instruction, program)
    narrow = np.dtype(f"u{part // 8}")

    def step(machine: Machine, lanes: Lanes) -> None:
        whole = read(machine, lanes)
        for position, write in enumerate(writers):
            write(machine, lanes, (whole >> whole.dtype.type(position * part)).astype(narrow))

    return step


_SHARED = ("shared", "shared::cta", "shared::cluster")
_WINDOWS = {**dict.fromkeys(_SHARED, SHARED_WINDOW), "local": LOCAL_WINDOW}
_SAME = ("global", "const", "param", "param::entry")


@with_operands("=u64", "u64")
def _convert_address(machine: Machine, lanes: Lanes, opcode: Any, write: Writer, read: Reader) -> None:
    """Execute ``cvta``: convert an address of a state space to a generic one, or back (``.to``)."""
    space = next(part for part in opcode[1:] if part in _WINDOWS or part in _SAME)
    address, window = read(machine, lanes), np.uint64(_WINDOWS.get(space, 0))
    if space in _SAME or "to" not in opcode:
        write(machine, lanes, address + window if window else address)
        return
    write(machine, lanes, address & np.uint64(0xFFFFFFFF))
    outside = machine.rows((address >> np.uint64(32)) != window >> np.uint64(32), lanes).any(axis=1)
    if outside.any():
        name = machine.program.instructions[machine.at].operands[0]
        machine.undefine(str(name), machine.index(lanes)[outside])


@with_operands("=pred", "u64")
def _is_space(machine: Machine, lanes: Lanes, opcode: Any, write: Writer, read: Reader) -> None:
    address, space = read(machine, lanes), opcode[1]
    if space in _SAME:
        in_space = [array.space == space.partition("::")[0] for array in machine.launch.memory.arrays]
        window = np.minimum(address >> np.uint64(WINDOW_BITS), np.uint64(len(in_space) + 1)).astype(np.int64)
        inside = np.array([False, *in_space, space == "global"])[window]
    else:
        inside = address >> np.uint64(32) == np.uint64(_WINDOWS[space] >> 32)
    if space in ("shared", "shared::cta"):
        rank = machine.rank if machine.rank.shape[0] == 1 else machine.rank[lanes]
        inside = inside & ((address >> np.uint64(RANK_BITS)) & np.uint64(0xFF) == rank.astype(np.uint64))
    write(machine, lanes, inside)


def _map_address(instruction: Instruction, program: Program) -> Step:
    """Compile ``mapa``: the same place in the shared memory of another CTA of the cluster."""
    form = instruction.opcode[1:]
    if form == ("u32",):
        raise refuse(instruction, "a generic address must have 64 bits, got .u32")
    demand_count(instruction, 3)
    write = writer(instruction.operands[0], form[-1], instruction, program)
    read = reader(instruction.operands[1], form[-1], instruction, program)
    rank = reader(instruction.operands[2], "u32", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        address, wanted = read(machine, lanes), rank(machine, lanes)
        size = machine.ncluster[0] * machine.ncluster[1] * machine.ncluster[2]
        most = machine.rows(wanted, lanes).max(axis=1)
        say = lambda at: f"the CTA rank must be below the cluster size {size}, got {int(most[at])}"  # noqa: E731
        machine.hazard_where(most >= size, "window", say, lanes)
        kept = address & ~address.dtype.type(0xFF << RANK_BITS)
        write(machine, lanes, kept | (wanted.astype(address.dtype) << address.dtype.type(RANK_BITS)))

    return step


def _rank_of_address(instruction: Instruction, program: Program) -> Step:
    form = instruction.opcode[1:]
    if form == ("u32",):
        raise refuse(instruction, "a generic address must have 64 bits, got .u32")
    demand_count(instruction, 2)
    write = writer(instruction.operands[0], "u32", instruction, program)
    read = reader(instruction.operands[1], form[-1], instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        address = read(machine, lanes)
        write(machine, lanes, ((address >> address.dtype.type(RANK_BITS)) & address.dtype.type(0xFF)).astype(np.uint32))

    return step


def _branch_indexed(instruction: Instruction, program: Program) -> Step:
    """Compile ``brx.idx``, a branch to the label at an index."""
    targets = instruction.operands[1]
    assert isinstance(targets, Braces)
    read = reader(instruction.operands[0], "u32", instruction, program)
    places = [program.labels[name] for name in targets.items]

    def step(machine: Machine, lanes: Lanes) -> None:
        chosen = machine.uniform(read(machine, lanes), lanes)
        say = lambda at: f"the branch index must be below the number of targets ({len(places)}), got {int(chosen[at])}"  # noqa: E731
        machine.hazard_where(chosen >= len(places), "bounds", say, lanes)
        index = machine.index(lanes)
        for number in np.unique(chosen).tolist():
            machine.branch(index[chosen == number], places[number])

    return step


@with_operands()
def _trap(machine: Machine, lanes: Lanes, opcode: Any) -> None:
    thread = machine.name_of(int(machine.index(lanes)[0]))
    text = next((text for name, text in reversed(machine.launch.printed) if name == thread), "").strip()
    machine.hazard("trap", "the program executes a trap" + (f"; it printed: {text}" if text else ""), lanes)


@with_operands()
def _breakpoint(machine: Machine, lanes: Lanes, opcode: Any) -> None:
    machine.hazard("trap", "the program executes a breakpoint", lanes)


def _stack(instruction: Instruction, program: Program) -> Step:
    """Compile ``alloca``, ``stacksave`` and ``stackrestore``, which use the stack of each thread in local memory."""
    name, *types = instruction.opcode
    operands = instruction.operands
    demand_count(instruction, *((2, 3) if name == "alloca" else (1,)))
    align = immediate(operands[2], instruction, "the alignment") if len(operands) == 3 else 8
    if align not in (1, 2, 4, 8, 16):
        raise refuse(instruction, f"the alignment must be 1, 2, 4, 8 or 16 bytes, got {align}")
    if name == "stackrestore":
        top = reader(operands[0], types[0], instruction, program)
        return lambda machine, lanes: machine.local.give_back(lanes, top(machine, lanes))
    write = writer(operands[0], types[0], instruction, program)
    size = reader(operands[1], types[0], instruction, program) if name == "alloca" else None
    dtype = f"u{width_of(types[0]) // 8}"

    def step(machine: Machine, lanes: Lanes) -> None:
        sizes = np.zeros((1, 1), np.uint64) if size is None else size(machine, lanes)
        start = machine.local.allot(lanes, sizes, align if name == "alloca" else 1)
        write(machine, lanes, start.astype(dtype)[:, None])

    return step


def _hint(instruction: Instruction, program: Program) -> Step:
    """Compile hints about time, which change no value."""
    for operand in instruction.operands:
        reader(operand, "u32", instruction, program)
    return lambda machine, lanes: None


def _create_policy(instruction: Instruction, program: Program) -> Step:
    """Compile ``createpolicy``; its result is only for cache hints, so its bits are zero."""
    write = writer(instruction.operands[0], "b64", instruction, program)
    return lambda machine, lanes: write(machine, lanes, np.zeros((1, 1), np.uint64))


INSTRUCTIONS: dict[str, Handler] = {
    "mov": _move,
    "mov.b128": _move_wide,
    "cvta": _convert_address,
    "isspacep": _is_space,
    "mapa": _map_address,
    "getctarank": _rank_of_address,
    "brx": _branch_indexed,
    "trap": _trap,
    "brkpt": _breakpoint,
    **dict.fromkeys(["alloca", "stacksave", "stackrestore"], _stack),
    "createpolicy": _create_policy,
    **dict.fromkeys(["nanosleep", "griddepcontrol", "pmevent"], _hint),
}
