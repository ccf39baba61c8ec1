"""Loads and stores: ``ld``, ``st`` and their variants.

Source: PTX ISA 9.7.9.8 to .16; cache hints have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from tilecopy import HazardError

from ..effects import Parts, effect_of, is_hint, loads_somewhere, modifiers_of, parts_of, written_by
from ..machine.machine import Machine
from ..memory_model.access import LOCAL_WINDOW, SHARED_WINDOW, AccessKind
from ..program import REGISTER_BITS, Braces, Instruction, Memory, Operand, Program, UnsupportedPtxError
from .operands import Handler, Lanes, Reader, Step, constant_bits, demand_count, is_constant, reader, refuse, writer


def address_reader(operand: Operand, instruction: Instruction, program: Program) -> Reader:
    """Return a function that reads an address operand. Addresses are unsigned integers as wide as the register."""
    if not isinstance(operand, Memory):
        raise refuse(instruction, f"expected an address in brackets, got '{operand}'")
    base, offset = operand.base, operand.offset
    if not base or is_constant(base):
        value = np.full((1, 1), (int(base or 0) + offset) & (2**64 - 1), np.uint64)
        return lambda machine, lanes: value
    if base in program.register_bits:
        width = program.register_bits[base]
        if width not in (32, 64):
            raise refuse(instruction, f"expected an address of 32 or 64 bits, got the register {base} of {width} bits")
        distance = np.array(offset & ((1 << width) - 1), f"u{width // 8}")
        if not offset:
            return lambda machine, lanes: machine.read(base, lanes)
        return lambda machine, lanes: machine.read(base, lanes) + distance
    far = np.uint64(offset & (2**64 - 1))
    return lambda machine, lanes: machine.symbol(base, lanes) + far


def shared_address(operand: Operand, instruction: Instruction, program: Program) -> Reader:
    """Return a function that reads a shared-memory address. A generic address must point to shared memory."""
    if modifiers_of(instruction.opcode).space:
        return address_reader(operand, instruction, program)
    read = data_address(operand, "", instruction, program)

    def generic(machine: Machine, lanes: Lanes) -> Any:
        values = np.asarray(read(machine, lanes)).astype(np.uint64)
        bad = values >> np.uint64(32) != SHARED_WINDOW >> 32
        if bad.any():
            at = int(np.argmax(machine.rows(bad, lanes).any(axis=1)))
            machine.hazard("window", f"the address must be in shared memory, got 0x{int(values.flat[0]):x}", lanes, at)
        return values & np.uint64(0xFFFFFFFF)

    return generic


def data_address(operand: Operand, space: str, instruction: Instruction, program: Program) -> Reader:
    """Return a function that reads an address in state space ``space``, or a generic address if ``space`` is empty."""
    read = address_reader(operand, instruction, program)
    base = operand.base if isinstance(operand, Memory) else ""
    if not space and program.register_bits.get(base) == 32:
        raise refuse(instruction, f"expected a generic address of 64 bits, got the register {base} of 32 bits")
    declared_space = next((variable.space for variable in program.variables if variable.name == base), "")
    if space and declared_space and declared_space != space.partition("::")[0]:
        raise refuse(instruction, f"the variable must be in .{space}, got {base} in .{declared_space}")
    window = np.uint64(0 if space else {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(declared_space, 0))
    return (lambda machine, lanes: read(machine, lanes) + window) if window else read


def with_operands(*roles: str) -> Callable[[Callable[..., None]], Handler]:
    """Return a decorator that makes a function an instruction handler. It gets one reader or writer per operand.

    A role is a PTX type (after ``=`` for a writer), or ``[shared]`` for an address in shared memory.
    """

    def decorate(execute: Callable[..., None]) -> Handler:
        def handler(instruction: Instruction, program: Program) -> Step:
            demand_count(instruction, len(roles))
            operands: list[Any] = []
            for role, operand in zip(roles, instruction.operands, strict=True):
                if role == "[shared]":
                    operands.append(shared_address(operand, instruction, program))
                else:
                    make: Any = writer if role[0] == "=" else reader
                    operands.append(make(operand, role.lstrip("="), instruction, program))
            return lambda machine, lanes: execute(machine, lanes, instruction.opcode, *operands)

        return handler

    return decorate


def names_of(operand: Any, count: int, instruction: Instruction) -> tuple[str, ...]:
    """Return the ``count`` registers of an operand. The operand is one register, or several registers in braces."""
    names = operand.items if isinstance(operand, Braces) else (operand,)
    if len(names) != count:
        raise refuse(instruction, f"expected {count} registers, got {len(names)}")
    return tuple(names)


def operands_of(instruction: Instruction, count: int) -> tuple[Operand, ...]:
    """Return the ``count`` operands of an instruction. A cache policy is neither counted nor returned."""
    operands = instruction.operands
    if "L2::cache_hint" in instruction.opcode:
        operands = operands[:-1]
    if len(operands) != count:
        raise refuse(instruction, f"the instruction takes {count} operands, got {len(operands)}")
    return operands


def load(instruction: Instruction, program: Program, parts: Parts | None = None) -> Step:
    """Compile a load that ``parts`` describes. By default, ``parts`` comes from the instruction's opcode."""
    parts = parts or parts_of(instruction)
    destination, source = operands_of(instruction, 2)
    names = names_of(destination, parts.count, instruction)
    writers = [writer(name, parts.type, instruction, program, wider=True) for name in names]
    address = data_address(source, parts.access.space, instruction, program)
    access, dtype = parts.access, f"u{parts.element}"

    def step(machine: Machine, lanes: Lanes) -> None:
        raw = machine.load_or_nothing(lanes, access, address(machine, lanes))
        elements = np.ascontiguousarray(raw).view(dtype)
        for position, write in enumerate(writers):
            write(machine, lanes, elements[:, :, position])
        if machine.unwritten:
            machine.poison_loaded(names, parts.element)

    return step


def store(instruction: Instruction, program: Program, parts: Parts | None = None) -> Step:
    """Compile a store that ``parts`` describes. By default, ``parts`` comes from the instruction's opcode."""
    parts = parts or parts_of(instruction)
    if parts.access.space in ("param", "const"):
        raise refuse(instruction, f"the state space of a store must be writable, got .{parts.access.space}")
    destination, source = operands_of(instruction, 2)
    readers = [
        reader(name, parts.type, instruction, program, wider=True)
        for name in names_of(source, parts.count, instruction)
    ]
    address = data_address(destination, parts.access.space, instruction, program)
    access, dtype = parts.access, np.dtype(f"u{parts.element}")

    def step(machine: Machine, lanes: Lanes) -> None:
        values, lacking = machine.sources(readers, lanes)
        origins = origins_of(lacking, parts.element)
        if lacking and machine.is_fresh(origins) and not loads_somewhere(program):
            machine.tell(lanes, origins)  # no instruction reads it, so this is probably a mistake
        machine.store(lanes, access, address(machine, lanes), beside(values, dtype), origins)

    return step


_PIECE = 8
"""The granularity of ``st.bulk`` in bytes: its size and address are multiples of it."""
MOST_ELEMENTS = 1 << 12
"""The largest number of accesses for which several instructions are executed at once; above it, that is not faster."""


@attrs.frozen(eq=False)
class _Several:
    """Consecutive loads or stores that differ only in registers and offset, executed as one instruction of more lanes."""

    alone: list[Step]
    base: str
    offsets: Any
    access: AccessKind

    def addresses(self, machine: Machine, lanes: Lanes) -> tuple[Any, Any]:
        """Return the lane and the address of each access: all lanes of the first instruction, then of the next."""
        index, count = machine.index(lanes), len(self.offsets)
        base = machine.rows(machine.read(self.base, lanes), lanes)
        addresses = (base + self.offsets.astype(base.dtype)[:, None, None]).reshape(-1, base.shape[1])
        machine.many, machine.width = np.tile(index, count), len(index)
        return machine.many, addresses

    def one_by_one(self, machine: Machine, lanes: Lanes) -> None:
        """Execute the instructions separately, for example if they have too many accesses to combine."""
        at = machine.at
        for number, step in enumerate(self.alone):
            machine.at = at + number
            step(machine, lanes)
        machine.at = at


def several(instructions: list[Instruction], steps: list[Step], program: Program) -> Step:
    """Return one step that executes several consecutive loads or stores (see :func:`runs`)."""
    loads = effect_of(instructions[0].opcode).kind == "load"
    parts = parts_of(instructions[0])
    places = [next(x for x in i.operands if isinstance(x, Memory)) for i in instructions]
    offsets = np.array([place.offset & (2**64 - 1) for place in places], np.uint64)
    both = _Several(steps, places[0].base, offsets, parts.access)
    count, dtype = parts.count, np.dtype(f"u{parts.element}")
    names = [names_of(i.operands[0 if loads else 1], count, i) for i in instructions]
    make: Any = writer if loads else reader
    registers = [
        [make(n, parts.type, i, program, wider=True) for n in g] for i, g in zip(instructions, names, strict=True)
    ]
    flat = [str(name) for group in names for name in group]
    direct = all(program.register_bits.get(name) == 8 * parts.element for name in flat)

    def load_all(machine: Machine, lanes: Lanes) -> None:
        if machine.launch.single or machine.size(lanes) * machine.copies > MOST_ELEMENTS:
            both.one_by_one(machine, lanes)
            return
        many, addresses = both.addresses(machine, lanes)
        raw = np.ascontiguousarray(machine.load_or_nothing(many, parts.access, addresses))
        machine.many = None
        elements = raw.view(dtype).reshape(len(steps), -1, raw.shape[1], count)
        if not (direct and machine.write_many(flat, lanes, elements)):
            for number, position in np.ndindex(len(registers), count):
                registers[number][position](machine, lanes, elements[number, :, :, position])
        if machine.unwritten:
            machine.poison_loaded(flat, parts.element, machine.size(lanes))

    def store_all(machine: Machine, lanes: Lanes) -> None:
        if machine.launch.single or machine.size(lanes) * machine.copies > MOST_ELEMENTS:
            both.one_by_one(machine, lanes)
            return
        elements = machine.read_many(flat, lanes) if direct else None
        if elements is not None:
            elements = elements.reshape(len(steps), count, *elements.shape[1:]).transpose(0, 2, 3, 1).copy()
        else:
            elements = np.empty((len(steps), machine.size(lanes), machine.copies, count), dtype)
            try:
                for number, position in np.ndindex(len(registers), count):
                    elements[number, :, :, position] = registers[number][position](machine, lanes)
            except HazardError:  # one of them alone may store undefined values
                both.one_by_one(machine, lanes)
                return
        many, addresses = both.addresses(machine, lanes)
        machine.store(many, parts.access, addresses, elements.view(np.uint8).reshape(len(many), machine.copies, -1))
        machine.many = None

    return load_all if loads else store_all


def runs(program: Program) -> list[tuple[int, int]]:
    """Return ``(first instruction, length)`` of each run of loads or stores that one step can execute together."""
    targets = set(program.labels.values())
    groups: list[tuple[int, int]] = []
    first, key = 0, None
    for at, instruction in enumerate([*program.instructions, None]):
        this = None if instruction is None else _alike(instruction, program)
        if this is None or this != key or at in targets or at - first >= 64:
            if key is not None and at - first > 1:
                groups.append((first, at - first))
            first, key = at, this
        elif key[1] in {name for i in program.instructions[first:at] for name in written_by(i)}:
            groups += [(first, at - first)] if at - first > 1 else []
            first = at
    return groups


def _alike(instruction: Instruction, program: Program) -> tuple[tuple[str, ...], str] | None:
    """Return the key of accesses that can be executed together, or None."""
    plain = effect_of(instruction.opcode).kind in ("load", "store")
    if not plain or instruction.guard or len(instruction.operands) != 2:
        return None
    parts = parts_of(instruction)
    if parts.access.strength or parts.access.space not in ("global", "shared"):
        return None
    place = next((x for x in instruction.operands if isinstance(x, Memory)), None)
    if place is None or place.base not in program.register_bits:
        return None
    return instruction.opcode, place.base


def origins_of(lacking: Any, element: int) -> Any:
    """Return, for each byte of a store, the origin of its undefined bits, or 0. Return None if ``lacking`` is None."""
    if lacking is None:
        return None
    parts = [np.where(bits[:, None].view(np.uint8)[:, :element] != 0, whence[:, None], 0) for bits, whence in lacking]
    return np.concatenate(parts, axis=1)


def gather(machine: Machine, lanes: Lanes, readers: list[Reader], dtype: Any) -> Any:
    """Read registers. Return their bytes side by side, as an array of shape ``(lanes or 1, clusters or 1, bytes)``."""
    return beside([read(machine, lanes) for read in readers], dtype)


def beside(values: list[Any], dtype: Any) -> Any:
    """Return the bytes of several values side by side, in the shape that :func:`gather` returns."""
    if len(values) == 1:
        return np.ascontiguousarray(values[0])[..., None].view(np.uint8)
    shape = np.broadcast_shapes(*(value.shape for value in values))
    elements = np.empty((*shape, len(values)), dtype)
    for position, value in enumerate(values):
        elements[:, :, position] = value
    return elements.view(np.uint8)


def immediate(operand: Operand, instruction: Instruction, what: str) -> int:
    """Return the integer value of an operand that must be a constant."""
    if not is_constant(operand):
        raise refuse(instruction, f"{what} must be a constant, got {operand}")
    try:
        return constant_bits(operand, "u32", instruction)
    except UnsupportedPtxError:
        raise refuse(instruction, f"{what} must be an integer, got {operand}") from None


def demand_parts(instruction: Instruction, known: frozenset[str] | set[str]) -> None:
    """Raise an error for a modifier that is not in ``known``. Cache hints are always allowed."""
    for part in instruction.opcode[1:]:
        if part not in known and not is_hint(part):
            raise refuse(instruction, f"the modifier '.{part}' is not supported")


def _store_zeros(instruction: Instruction, program: Program) -> Step:
    """Compile ``st.bulk``, which writes zeros to shared memory as an ordinary store."""
    demand_count(instruction, 3)
    if immediate(instruction.operands[2], instruction, "the value") != 0:
        raise refuse(instruction, f"the value of st.bulk must be 0, got {instruction.operands[2]}")
    space = modifiers_of(instruction.opcode).space
    address = data_address(instruction.operands[0], space, instruction, program)
    size = reader(instruction.operands[1], "b64", instruction, program)
    access, zeros = AccessKind(space, _PIECE), np.zeros((1, 1, _PIECE), np.uint8)

    def step(machine: Machine, lanes: Lanes) -> None:
        where = machine.rows(address(machine, lanes), lanes)
        sizes = machine.uniform(size(machine, lanes), lanes)
        for position, lane in enumerate(machine.index(lanes).tolist()):
            count = int(sizes[position])
            if count % _PIECE:
                machine.hazard("alignment", f"st.bulk needs a multiple of {_PIECE} bytes, got {count}", lanes, position)
            if count:
                offsets = np.arange(0, count, _PIECE, dtype=np.uint64)[:, None].astype(where.dtype)
                machine.store(np.full(len(offsets), lane), access, where[position] + offsets, zeros)

    return step


def _store_async(instruction: Instruction, program: Program) -> Step:
    """Compile ``st.async.release`` to global memory, as a release store."""
    mods = modifiers_of(instruction.opcode)
    size = REGISTER_BITS[mods.type] // 8
    return store(instruction, program, Parts(AccessKind(mods.space, size, "release", mods.scope), mods.type, 1, size))


INSTRUCTIONS: dict[str, Handler] = {
    "ld": load,
    "ldu": load,
    "st": store,
    "st.bulk": _store_zeros,
    **dict.fromkeys(("st.async.release", "st.async.mmio"), _store_async),
}
