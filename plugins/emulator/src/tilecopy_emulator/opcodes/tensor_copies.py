"""The compilers of tensor copies (PTX ISA 9.7.9.27), and of instructions that write tensor maps.

Copies work in units of 16 bytes, which an innermost start, a row of a box and the swizzles never split. If the ISA
leaves a case open, the emulator follows an H200. An innermost start that is not a multiple of 16 bytes, a shared address
that is not a multiple of 128, and a negative start of a store end the context. The bytes of the whole box complete,
wherever it is. The rows of a swizzled box that is narrower than the span are that span apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from ..alu.atomic import atomic_operation
from ..effects import modifiers_of, written_by
from ..machine.machine import Machine
from ..memory import observed, profile
from ..memory.tensor_maps import ELEMENTS, FIELDS, MAP_ALIGN_BYTES, MAP_BYTES, TAG, TensorMap, swizzle_addresses
from ..memory_model.access import RANK_BITS, RANK_MASK, AccessKind, at_rank
from ..memory_model.clocks import TENSORMAP
from ..program import Instruction, Memory, Program, TensorAddress
from ..threads.global_arrays import GlobalArray
from . import copies
from .loads import address_reader, data_address, immediate, operands_of
from .operands import Handler, Lanes, Reader, Step, reader, refuse

UNIT, ALIGN = 16, 128
"""The bytes of a unit, and the alignment of a shared address."""


@attrs.frozen
class _Where:
    """The operand ``[map, {coordinates}]``."""

    map: Reader
    starts: tuple[Reader, ...]
    dimensions: int
    apart: bool
    """True if rows are selected one by one (``gather4``, ``scatter4``)."""
    parameter: str
    """The parameter whose non-generic address is always in the map's register, or ""."""

    def maps(self, machine: Machine, lanes: Lanes) -> Iterator[tuple[Any, TensorMap]]:
        """For each lane, yield its number (a 1-element array) and its tensor map."""
        addresses = machine.uniform(self.map(machine, lanes), lanes)
        for one, address in zip(machine.index(lanes)[:, None], addresses.tolist(), strict=True):
            if self.parameter:
                what = f"the address of the parameter {self.parameter} must be generic: convert it with cvta.param"
                machine.hazard("window", what, one)
            yield one, machine.maps.read(one, address)

    def boxes(
        self, machine: Machine, lanes: Lanes, *, stores: bool = False
    ) -> Iterator[tuple[int, Any, TensorMap, _Box]]:
        """For each lane, yield its index in ``lanes``, its number (a 1-element array), its tensor map and its box."""
        maps = list(self.maps(machine, lanes))
        bits = [np.ascontiguousarray(read(machine, lanes)).astype(np.uint32) for read in self.starts]
        starts = [bit.view(np.int32).astype(np.int64) for bit in bits]
        for position, (one, tensor_map) in enumerate(maps):
            if len(tensor_map.sizes) != self.dimensions:
                what = f"the tensor map must have {self.dimensions} dimensions for this instruction, got {len(tensor_map.sizes)}"
                machine.hazard("descriptor", what, one)
            first = [copies.row_of(start, position)[0] for start in starts]
            box = _box_of(machine, one, tensor_map, first, apart=self.apart, stores=stores)
            yield position, one, tensor_map, box


def _where(instruction: Instruction, program: Program) -> _Where:
    opcode = instruction.opcode
    if any(part.startswith("im2col") for part in opcode):
        raise refuse(instruction, "im2col is not supported")
    dimensions = int(opcode[opcode.index("tensor") + 1][0])
    apart = not {"tile::gather4", "tile::scatter4"}.isdisjoint(opcode)
    operand = next((operand for operand in instruction.operands if isinstance(operand, TensorAddress)), None)
    if operand is None:
        raise refuse(instruction, "expected a tensor map's address and coordinates: [map, {..}]")
    wanted = 5 if apart else dimensions
    if len(operand.coordinates) != wanted:
        raise refuse(instruction, f"expected {wanted} coordinates, got {len(operand.coordinates)}")
    starts = tuple(reader(coordinate, "s32", instruction, program) for coordinate in operand.coordinates)
    address = address_reader(Memory(operand.base, operand.offset), instruction, program)
    return _Where(address, starts, dimensions, apart, _bare_parameters(program).get(operand.base, ""))


@lru_cache(maxsize=32)
def _bare_parameters(program: Program) -> dict[str, str]:
    """Return registers that only ever hold the non-generic address of a parameter, with the parameter."""
    names = {parameter.name for parameter in program.parameters}
    bare: dict[str, str] = {}
    for instruction in program.instructions:
        moved = "".join(map(str, instruction.operands[1:])) if instruction.opcode[0] == "mov" else ""
        for register in written_by(instruction):
            bare[register] = moved if moved in names and bare.get(register, moved) == moved else ""
    return bare


@attrs.frozen
class _Box:
    """A box of a tensor in units.

    ``array``: that contains it; ``offsets``: of each unit in the array, ``(units, copies or 1)``; ``kept``: the number
    of leading bytes of each unit inside the tensor, of the same shape; ``linear``: offset of each unit in shared memory
    from the first unit, without the swizzle.
    """

    array: GlobalArray
    offsets: Any
    kept: Any
    linear: Any

    @property
    def where(self) -> tuple[str, Any]:
        """The addresses of the box's 16-byte units in global memory. A unit out of bounds has the array's address."""
        return "global", self.array.base + np.where(self.kept > 0, self.offsets, 0)

    def pieces(self, machine: Machine) -> list[copies.Piece]:
        """Return the in-bounds bytes of the box. A ``Piece`` holds units with the same number of in-bounds bytes."""
        shape, cell = (len(self.linear), machine.copies), machine.globals.cell
        kept, offsets = (np.broadcast_to(array, shape) for array in (self.kept, self.offsets))
        counts = np.unique(kept[kept > 0]).tolist()
        return [copies.Piece(kept == count, offsets[kept == count], -(-count // cell) * cell) for count in counts]


def _box_of(machine: Machine, one: Any, tensor: TensorMap, starts: list[Any], *, apart: bool, stores: bool) -> _Box:
    """Return a box after the checks of its starts; its bytes inside the tensor must be in the map's array."""
    size, units = tensor.element_bytes, tensor.box[0] * tensor.element_bytes // UNIT
    first = starts[0]
    if (first * size % UNIT).any():
        bad = int(first[first * size % UNIT != 0][0])
        what = f"a box must start at a multiple of {UNIT} bytes in each row, got element {bad} (byte {bad * size})"
        machine.hazard("alignment", f"{what} (a GPU ends the context)", one)
    for dimension, start in enumerate(starts if stores else ()):
        if (start < 0).any():
            what = f"in dimension {min(dimension, len(tensor.sizes) - 1)}, got {int(start.min())}"
            machine.hazard("bounds", f"the start of a store must not be negative {what} (a GPU ends the context)", one)
    if apart:
        indices = [np.stack(starts[1:])]
    else:
        steps = [np.arange(0, tensor.box[d], tensor.element_strides[d])[:, None] for d in range(1, len(tensor.sizes))]
        indices = [start + step for start, step in zip(starts[1:], steps, strict=True)]
    column = first + np.arange(units)[:, None] * (UNIT // size)
    offsets = column * size
    kept = np.where(column < 0, 0, np.clip((tensor.sizes[0] - column) * size, 0, UNIT))
    for index, extent, stride in zip(indices, tensor.sizes[1:], tensor.strides_bytes, strict=True):
        inside = (index >= 0) & (index < extent)
        offsets = (index * stride)[:, None] + offsets
        kept = inside[:, None] * kept
        offsets, kept = (grid.reshape(-1, grid.shape[-1]) for grid in (offsets, kept))
    array = machine.globals.array_at(one, tensor.address, np.full((1, 1), tensor.address, np.uint64))
    if array.space != "global":
        machine.hazard("bounds", f"the tensor must be in .global memory, got {array.name} in .{array.space}", one)
    offsets = offsets + (tensor.address - array.base)
    bad = (kept > 0) & ((offsets < 0) | (offsets + kept > len(array.data)))
    if bad.any():
        machine.globals.outside(np.repeat(one, len(bad)), array, offsets, bad, UNIT)
    rows = np.arange(len(offsets) // units)[:, None]
    linear = (rows * tensor.span_bytes + np.arange(units) * UNIT).ravel()
    return _Box(array, offsets, kept, linear)


def _places(machine: Machine, one: Any, tensor: TensorMap, box: _Box, address: Any, *, remote: bool) -> Any:
    """Return the places of a box's units in shared memory, after their checks."""
    first = int(machine.uniform(address, one)[0]) & RANK_MASK
    steps = swizzle_addresses(first + box.linear, tensor.swizzle) - first
    extent = int(steps.max()) + UNIT if first % ALIGN == 0 else UNIT
    return machine.shared.place(one, address, extent, remote=remote, aligned=ALIGN) + steps


def tensor_copy(instruction: Instruction, program: Program) -> Step:
    """Compile ``cp.async.bulk.tensor``."""
    return (_store if "bulk_group" in instruction.opcode else _load)(instruction, program)


def _load(instruction: Instruction, program: Program) -> Step:
    where, multicast = _where(instruction, program), "multicast::cluster" in instruction.opcode
    to, _, barrier, *rest = operands_of(instruction, 3 + multicast)
    target, phase = (address_reader(operand, instruction, program) for operand in (to, barrier))
    mask = reader(rest[0], "u16", instruction, program) if multicast else None
    remote, paired = "shared::cluster" in instruction.opcode, "cta_group::2" in instruction.opcode

    def step(machine: Machine, lanes: Lanes) -> None:
        targets, barriers = target(machine, lanes), phase(machine, lanes)
        for addresses in (targets, barriers):
            machine.uniform(addresses, lanes)
        masks = None if mask is None else machine.uniform(mask(machine, lanes), lanes)
        for position, one, tensor_map, box in list(where.boxes(machine, lanes)):
            pieces = box.pieces(machine)
            copies.check_read_global(machine, one, box.array, pieces)
            in_flight = [piece.reads(machine) for piece in pieces] or None
            for rank in [-1] if masks is None else copies.receivers(machine, one, int(masks[position])):
                to, signal = at_rank(copies.row_of(targets, position), rank), copies.row_of(barriers, position)
                if paired and rank >= 0:  # in each pair, the CTA with the same parity as the mbarrier's
                    signal = at_rank(signal, rank & ~1 | int(signal.flat[0]) >> RANK_BITS & 1)
                elif not paired:
                    signal = at_rank(signal, rank)
                barrier = copies.mbarrier_of(machine, one, signal)
                places = _places(machine, one, tensor_map, box, to, remote=remote)
                home, cta = barrier // machine.shared.size, int(places[0]) // machine.shared.size
                if home != cta and not (paired and home // 2 == cta // 2):
                    machine.hazard("window", "the mbarrier must be in the CTA of the destination, got another CTA", one)
                data = {
                    "array_from": box.array, "offsets_from": box.offsets, "kept": box.kept, "place_to": places,
                    "fill": tensor_map.fill_bytes(UNIT), "compute": None,
                }  # fmt: skip
                copies.start_operation(
                    machine, int(one[0]), "tensor copy", writes=copies.check_received(machine, one, places, UNIT),
                    barrier=barrier, size=UNIT * len(places), ctas=(cta,), in_flight=in_flight, data=data,
                )  # fmt: skip
                if machine.launch.observer is not None:
                    observed.tell_transfer(
                        machine, np.repeat(one, len(places)), box.where, ("shared", places), UNIT, box.kept
                    )
            if machine.launch.profile:
                profile.count_bulk(machine, box.array.base + box.offsets, box.kept > 0)

    return step


def _store(instruction: Instruction, program: Program, operation: str = "") -> Step:
    where = _where(instruction, program)
    origin = address_reader(operands_of(instruction, 2)[1], instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        origins = origin(machine, lanes)
        machine.uniform(origins, lanes)
        boxes = list(where.boxes(machine, lanes, stores=True))
        if any((box.kept != box.kept[:, :1]).any() for *_, box in boxes):
            machine.demand_single()
        for position, one, tensor_map, box in boxes:
            _start_store(machine, one, tensor_map, box, copies.row_of(origins, position), operation)
            if machine.launch.profile:
                profile.count_bulk(machine, box.array.base + box.offsets, box.kept > 0)

    return step


def _start_store(machine: Machine, one: Any, tensor: TensorMap, box: _Box, source: Any, name: str) -> None:
    compute = _reduction(machine, one, tensor, name) if name else None
    places, cell = _places(machine, one, tensor, box, source, remote=False), machine.shared.cell
    reads, kept = [np.zeros(0, np.int64)], box.kept[:, 0]
    for count in np.unique(kept[kept > 0]).tolist():
        reads.append(copies.check_sent(machine, one, places[kept == count], -(-count // cell) * cell))
    data = {
        "array_to": box.array, "offsets_to": box.offsets, "kept": box.kept, "place_from": places, "compute": compute,
        "element": tensor.element_bytes,
    }  # fmt: skip
    copies.start_operation(
        machine, int(one[0]), "tensor reduction" if name else "tensor copy", reads=np.concatenate(reads), data=data,
        ctas=(int(places[0]) // machine.shared.size,), reduces=bool(name),
        array_write=copies.check_written_global(machine, one, box.array, box.pieces(machine), reduces=bool(name)),
    )  # fmt: skip
    if machine.launch.observer is not None:
        observed.tell_transfer(machine, np.repeat(one, len(places)), ("shared", places), box.where, UNIT, box.kept)


def _reduction(machine: Machine, one: Any, tensor: TensorMap, name: str) -> Any:
    """Return the function of a reduction for the map's element type."""
    bits = 8 * tensor.element_bytes
    for type in (ELEMENTS[tensor.element], f"b{bits}"):
        noftz = name == "add" and bits == 16
        if compute := atomic_operation(name, type, noftz=noftz, family="cp.reduce.async.bulk"):
            return compute
    return machine.hazard("descriptor", f".{name} does not support elements of type {tensor.element}", one)


def tensor_prefetch(instruction: Instruction, program: Program) -> Step:
    """Compile ``cp.async.bulk.prefetch.tensor``. The emulator only checks the tensor map and the box."""
    where = _where(instruction, program)
    operands_of(instruction, 1)

    def step(machine: Machine, lanes: Lanes) -> None:
        for _ in where.boxes(machine, lanes):
            pass

    return step


def map_prefetch(instruction: Instruction, program: Program) -> Step:
    """Compile ``prefetch.tensormap``. The emulator only checks the tensor map."""
    (operand,) = operands_of(instruction, 1)
    space = modifiers_of(instruction.opcode).space
    address = data_address(operand, space, instruction, program)
    base = operand.base if isinstance(operand, Memory) else ""
    where = _Where(address, (), 0, apart=False, parameter="" if space else _bare_parameters(program).get(base, ""))

    def step(machine: Machine, lanes: Lanes) -> None:
        for _ in where.maps(machine, lanes):
            pass

    return step


PIECE = 16
"""The bytes of a map that a thread loads or stores at once."""
ORDINALS = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}
CODES: dict[str, dict[int, int]] = {
    "elemtype": {**{code: code for code in range(8)}, 9: 8, 10: 9},
    "interleave_layout": {0: 0},
    "swizzle_mode": {code: code for code in range(4)},
    "swizzle_atomicity": {0: 0, 1: 1, 3: 3},
    "fill_mode": {0: 0, 1: 1},
}
"""Field of a map -> its number in PTX -> its number in the bytes of a map; other numbers are not supported."""


def _load_map(machine: Machine, lanes: Lanes, space: str, addresses: Any) -> Any:
    access, first = AccessKind(space, PIECE), np.asarray(addresses).astype(np.uint64)
    machine.demand_aligned(lanes, first, MAP_ALIGN_BYTES, "the address {} of a tensor map")
    parts = [machine.load(lanes, access, first + np.uint64(at)) for at in range(0, MAP_BYTES, PIECE)]
    return np.concatenate(parts, axis=2)


def _store_map(machine: Machine, lanes: Lanes, space: str, addresses: Any, raw: Any) -> None:
    access, first = AccessKind(space, PIECE), np.asarray(addresses).astype(np.uint64)
    for at in range(0, MAP_BYTES, PIECE):
        machine.store(lanes, access, first + np.uint64(at), raw[..., at : at + PIECE])


def _replace(instruction: Instruction, program: Program) -> Step:
    """Compile ``tensormap.replace``, for which the thread reads and writes the whole map; the map may be zeros at first."""
    field, type = instruction.opcode[3], instruction.opcode[-1]
    space = modifiers_of(instruction.opcode).space
    operands = operands_of(instruction, 2 + (field in ORDINALS))
    address, (at, size) = data_address(operands[0], space, instruction, program), FIELDS[field]
    if field in ORDINALS:
        number = immediate(operands[1], instruction, "the dimension")
        if number >= ORDINALS[field]:
            raise refuse(instruction, f"the dimension must be from 0 to {ORDINALS[field] - 1}, got {number}")
        at += number * size
    value = reader(operands[-1], type, instruction, program)
    if field in CODES:
        code = immediate(operands[-1], instruction, "the new value")
        if code not in CODES[field]:
            raise refuse(instruction, f"the new value must be one of {', '.join(map(str, CODES[field]))}, got {code}")
        value = reader(str(CODES[field][code]), type, instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        where, new = address(machine, lanes), np.asarray(value(machine, lanes)).astype(np.uint64) + (field == "rank")
        raw, tag = _load_map(machine, lanes, space, where), np.frombuffer(TAG, np.uint8)
        bad = (raw[..., : len(tag)] != tag).any(axis=-1) & raw.any(axis=-1)
        what = f"the {MAP_BYTES} bytes at the address must be all zeros or an encoded tensor map, got other bytes"
        machine.hazard_where(machine.rows(bad, lanes).any(axis=1), "descriptor", what, lanes)
        field_bytes = np.minimum(new, np.uint64((1 << 8 * size) - 1))[..., None].view(np.uint8)[..., :size]
        raw = np.broadcast_to(raw, (*np.broadcast_shapes(raw.shape[:2], new.shape[:2]), MAP_BYTES)).copy()
        raw[..., : len(tag)], raw[..., at : at + size] = tag, field_bytes
        _store_map(machine, lanes, space, where, raw)

    return step


def _publish(instruction: Instruction, program: Program) -> Step:
    """Compile ``tensormap.cp_fenceproxy``: a warp copies a map to global memory and releases it to the tensormap proxy."""
    to, origin, count = operands_of(instruction, 3)
    if immediate(count, instruction, "the size") != MAP_BYTES:
        raise refuse(instruction, f"the size must be {MAP_BYTES} bytes, got {count}")
    target, source = (address_reader(operand, instruction, program) for operand in (to, origin))

    def step(machine: Machine, lanes: Lanes) -> None:
        machine.demand_whole_warps(lanes)
        index = machine.index(lanes)
        targets, sources = machine.rows(target(machine, index), index), machine.rows(source(machine, index), index)
        _, firsts, warps = np.unique(machine.warp_of[index], return_index=True, return_inverse=True)
        bad = (targets != targets[firsts][warps]).any(axis=1) | (sources != sources[firsts][warps]).any(axis=1)
        machine.hazard_where(bad, "aligned", "all threads of a warp must give one source and one destination", index)
        raw = _load_map(machine, index[firsts], "shared", sources[firsts])
        _store_map(machine, index[firsts], "global", targets[firsts], raw)
        machine.order.fence(index[firsts], (TENSORMAP,))
        for number, first in enumerate(firsts.tolist()):  # the copy is the warp's
            machine.order.acquire(index[warps == number], machine.order.release(index[first : first + 1]))

    return step


TENSOR_COPIES: dict[str, Handler] = {
    "cp.async.bulk.tensor": tensor_copy,
    "cp.reduce.async.bulk.tensor": lambda instruction, program: _store(instruction, program, instruction.opcode[8]),
    "cp.async.bulk.prefetch.tensor": tensor_prefetch,
    "tensormap.replace": _replace,
    "tensormap.cp_fenceproxy": _publish,
}
