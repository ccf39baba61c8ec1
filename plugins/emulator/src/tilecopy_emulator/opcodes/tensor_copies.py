"""Tensor copies: boxes of a tensor between global and shared memory, by a map (PTX ISA 9.7.9.27).

Everything is in units of 16 bytes, which an innermost start, a row of a box and the swizzles never split. What the ISA
leaves open is as an H200 does it: an innermost start that is no multiple of 16 bytes, a shared address that is none of
128, and a negative start of a store end the context; the whole box's bytes complete wherever it lies; the rows of a
swizzled box that is narrower than the span are the span apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from ..alu.atomic import atomic_operation
from ..effects import is_hint
from ..machine.machine import Machine
from ..memory import profile
from ..memory.tensor_maps import TensorMap, swizzled
from ..order.access import RANK_BITS, RANK_MASK, at_rank
from ..program import Instruction, Memory, Program, TensorAddress
from ..threads.arrays import GlobalArray, fetch, put
from ..threads.operations import Operation
from .copies import check_proxy_global, mbarrier_of, receivers, row_of, start_operation
from .loads import address_reader
from .operands import Handler, Lanes, Reader, Step, reader, refuse

UNIT, ALIGN = 16, 128
"""Bytes of a unit, and what a shared address is a multiple of."""
_NANS = {"float16": 0x7FFF, "bfloat16": 0x7FFF, "float32": 0x7FFFFFFF, "float64": 0x7FFFFFFFFFFFFFFF}
"""The fill of maps that ask for NaN; not seen on a GPU."""
_OF_ELEMENT = {"uint": "u", "int": "s", "float": "f", "bfloat": "bf"}


# ------------------------------------------------------------------------------------------------ what is written


@attrs.frozen
class _Where:
    """The operand ``[map, {coordinates}]``."""

    map: Callable[[Machine, Lanes], Any]
    starts: tuple[Reader, ...]
    dimensions: int
    parameter: str

    def of(self, machine: Machine, lanes: Lanes, position: int, addresses: Any) -> TensorMap:
        """The map that one of the lanes names."""
        one = machine.index(lanes)[position : position + 1]
        if self.parameter:
            machine.hazard(
                "window", f"the address of the parameter {self.parameter} is no generic one: cvta.param is missing", one
            )
        found = machine.maps.read(one, int(addresses[position]))
        if len(found.sizes) != self.dimensions:
            machine.hazard(
                "descriptor",
                f"the tensor map has {len(found.sizes)} dimensions, the instruction {self.dimensions}",
                one,
            )
        return found


def _where(operand: Any, instruction: Instruction, program: Program) -> _Where:
    dimensions = int(instruction.opcode[instruction.opcode.index("tensor") + 1][0])
    if not isinstance(operand, TensorAddress):
        raise refuse(instruction, "a tensor map's address and coordinates are wanted: [map, {..}]")
    wanted = 5 if instruction.opcode[-1] and _rows_apart(instruction) else dimensions
    if len(operand.coordinates) != wanted:
        raise refuse(instruction, f"{wanted} coordinates are wanted, not {len(operand.coordinates)}")
    starts = tuple(reader(each, "s32", instruction, program) for each in operand.coordinates)
    address = address_reader(Memory(operand.base, operand.offset), instruction, program)
    return _Where(address, starts, dimensions, _bare_parameter(operand.base, program))


def _rows_apart(instruction: Instruction) -> bool:
    """Whether rows of a matrix are named one by one (``gather4``, ``scatter4``)."""
    return any(part in ("tile::gather4", "tile::scatter4") for part in instruction.opcode)


def _bare_parameter(base: str, program: Program) -> str:
    """The parameter whose own address a register always holds, or ""."""
    names = {parameter.name for parameter in program.parameters}
    writers = [
        i for i in program.instructions if i.operands[:1] == (base,) and i.opcode[0] in ("mov", "cvta", "ld", "add")
    ]
    taken = {str(i.operands[1]) for i in writers if i.opcode[0] == "mov"}
    plain = bool(writers) and all(i.opcode[0] == "mov" for i in writers)
    return min(taken) if plain and taken <= names else ""


# ------------------------------------------------------------------------------------------------ boxes


@attrs.frozen
class _Box:
    """A box in units.

    Attributes:
        array: what it lies in.
        offsets: of each unit in the array, ``(units, copies or 1)``.
        kept: how many of its bytes, from its first on, lie in the tensor; likewise.
        linear: where each unit stands in shared memory after the box's first, without the swizzle.
    """

    array: GlobalArray
    offsets: Any
    kept: Any
    linear: Any

    @property
    def bytes(self) -> int:
        """Of the whole box."""
        return UNIT * len(self.linear)

    def groups(self, machine: Machine, lane: int) -> Iterator[tuple[Any, Any, int, Any]]:
        """Bytes inside the tensor: which units of which copies, their offsets, how many bytes, and their threads."""
        shape = (len(self.linear), machine.copies)
        kept, offsets = np.broadcast_to(self.kept, shape), np.broadcast_to(self.offsets, shape)
        threads = np.broadcast_to(machine.grid_thread[lane], shape)
        for count in np.unique(kept[kept > 0]).tolist():
            chosen = kept == count
            yield chosen, offsets[chosen], count, threads[chosen]


def _box_of(machine: Machine, one: Any, found: TensorMap, starts: list[Any], *, apart: bool, stores: bool) -> _Box:
    """Where a box lies, its starts checked; the bytes inside the tensor must lie in the map's array."""
    size, units = found.element_bytes, found.box[0] * found.element_bytes // UNIT
    first = starts[0]
    if (first * size % UNIT).any():
        bad = int(first[first * size % UNIT != 0][0])
        machine.hazard(
            "alignment", f"the box begins at element {bad} of the innermost dimension, which is byte {bad * size}; a multiple "
            f"of {UNIT} bytes is needed (a GPU ends the context)", one,
        )  # fmt: skip
    for dimension, start in enumerate(starts if stores else ()):
        if (start < 0).any():
            machine.hazard(
                "bounds", f"a store begins at {int(start.min())} in dimension {min(dimension, len(found.sizes) - 1)}; it may not "
                "begin before the tensor (a GPU ends the context)", one,
            )  # fmt: skip
    if apart:
        indices = [np.stack(starts[1:])]
    else:
        steps = [np.arange(0, found.box[d], found.element_strides[d])[:, None] for d in range(1, len(found.sizes))]
        indices = [start + step for start, step in zip(starts[1:], steps, strict=True)]
    column = first + np.arange(units)[:, None] * (UNIT // size)
    offsets = column * size
    kept = np.where(column < 0, 0, np.clip((found.sizes[0] - column) * size, 0, UNIT))
    for index, extent, stride in zip(indices, found.sizes[1:], found.strides_bytes, strict=True):
        inside = (index >= 0) & (index < extent)
        offsets = (index * stride)[:, None] + offsets
        kept = inside[:, None] * kept
        offsets, kept = (each.reshape(-1, each.shape[-1]) for each in (offsets, kept))
    array = machine.globals.array_at(one, found.address, np.full((1, 1), found.address, np.uint64))
    if array.space != "global":
        machine.hazard("bounds", f"the tensor lies in {array.name}, which is memory of space .{array.space}", one)
    offsets = offsets + (found.address - array.base)
    bad = (kept > 0) & ((offsets < 0) | (offsets + kept > len(array.data)))
    if bad.any():
        machine.globals.outside(np.repeat(one, len(bad)), array, offsets, bad, UNIT)
    rows = np.arange(len(offsets) // units)[:, None]
    linear = (rows * found.span_bytes + np.arange(units) * UNIT).ravel()
    return _Box(array, offsets, kept, linear)


def _places(machine: Machine, one: Any, found: TensorMap, box: _Box, address: Any, *, remote: bool) -> Any:
    """The places of a box's units in shared memory, checked."""
    first = int(machine.uniform(address, one)[0]) & RANK_MASK
    steps = swizzled(first + box.linear, found.swizzle) - first
    extent = int(steps.max()) + UNIT if first % ALIGN == 0 else UNIT
    return machine.shared.place(one, address, extent, remote=remote, aligned=ALIGN) + steps


# ------------------------------------------------------------------------------------------------ loads


def tensor_copy(instruction: Instruction, program: Program) -> Step:
    """``cp.async.bulk.tensor``."""
    parts = {part for part in instruction.opcode[5:] if not is_hint(part)}
    if any(part.startswith("im2col") for part in parts):
        raise refuse(instruction, "im2col is not known")
    return _store(instruction, program, "") if "bulk_group" in parts else _load(instruction, program, parts)


def _operands(instruction: Instruction, count: int) -> list[Any]:
    """The operands without a cache policy."""
    operands = list(instruction.operands)
    if "L2::cache_hint" in instruction.opcode and operands:
        operands.pop()
    if len(operands) != count:
        raise refuse(instruction, f"it takes {count} operands, not {len(operands)}")
    return operands


def _load(instruction: Instruction, program: Program, parts: set[str]) -> Step:
    multicast = "multicast::cluster" in parts
    to, source, barrier, *rest = _operands(instruction, 3 + multicast)
    target, phase = (address_reader(each, instruction, program) for each in (to, barrier))
    mask = reader(rest[0], "b16", instruction, program) if multicast else None
    where, apart = _where(source, instruction, program), _rows_apart(instruction)
    remote, paired = "shared::cluster" in parts, "cta_group::2" in parts

    def step(machine: Machine, lanes: Lanes) -> None:
        maps = machine.uniform(where.map(machine, lanes), lanes)
        targets, barriers = target(machine, lanes), phase(machine, lanes)
        for addresses in (targets, barriers):
            machine.uniform(addresses, lanes)
        masks = None if mask is None else machine.uniform(mask(machine, lanes), lanes)
        starts = _starts(machine, lanes, where)
        for position, lane in enumerate(machine.index(lanes).tolist()):
            one = np.array([lane])
            found = where.of(machine, lanes, position, maps)
            box = _box_of(
                machine, one, found, [row_of(each, position)[0] for each in starts], apart=apart, stores=False
            )
            _check_source(machine, one, box)
            for rank in [-1] if masks is None else receivers(machine, one, int(masks[position])):
                to, signal = at_rank(row_of(targets, position), rank), row_of(barriers, position)
                signal = _signalled(signal, to, rank, paired=paired)
                _start_load(machine, one, found, box, to, signal, remote=remote, paired=paired)
            _count(machine, box)

    return step


def _starts(machine: Machine, lanes: Lanes, where: _Where) -> list[Any]:
    """The coordinates, signed."""
    found = [np.ascontiguousarray(read(machine, lanes)) for read in where.starts]
    return [each.astype(np.uint32).view(np.int32).astype(np.int64) for each in found]


def _signalled(barrier: Any, target: Any, rank: int, *, paired: bool) -> Any:
    """The mbarrier that completes what lands at an address: of a multicast that of each destination, of a pair that of the named parity."""
    if not paired:
        return at_rank(barrier, rank)
    named, there = (int(np.asarray(each).flat[0]) >> RANK_BITS for each in (barrier, target))
    return at_rank(barrier, there & ~1 | named & 1) if rank >= 0 else barrier


def _check_source(machine: Machine, one: Any, box: _Box) -> None:
    array, memory = box.array, machine.globals
    if array.shadow is None:
        return
    lanes = np.repeat(one, len(box.linear))
    for chosen, offsets, count, threads in box.groups(machine, int(one[0])):
        covered = -(-count // memory.cell) * memory.cell
        cells, each = memory.cells(array, offsets, covered)
        check_proxy_global(machine, one, array, cells, np.repeat(threads, each), "read")
        memory.check_read(array, lanes, offsets, covered, 0, chosen, remember=False)


def _start_load(
    machine: Machine, one: Any, found: TensorMap, box: _Box, to: Any, signal: Any, *, remote: bool, paired: bool
) -> None:
    lane, shared = int(one[0]), machine.shared
    barrier = mbarrier_of(machine, one, signal)
    places = _places(machine, one, found, box, to, remote=remote)
    lanes = np.repeat(one, len(places))
    if shared.has_objects:
        shared.refuse_objects(lanes, places, UNIT)
    home, there = barrier // shared.size, int(places[0]) // shared.size
    if home != there and not (paired and home // 2 == there // 2):
        machine.hazard("window", "the mbarrier of a tensor copy is not in the CTA of its destination", one)
    writes, _ = shared.cells_from(places, UNIT)
    before = shared.shadow.writer[writes].copy()
    shared.check_write(lanes, places, UNIT)
    machine.engines.check_proxy(lane, writes, "written", stamps=before)
    fill = np.array(_NANS[found.element] if found.fill == "nan" else 0, f"u{found.element_bytes}")
    data = {
        "array_from": box.array, "offsets_from": box.offsets, "kept": box.kept, "place_to": places, "size": UNIT,
        "fill": np.frombuffer(fill.tobytes() * (UNIT // fill.itemsize), np.uint8),
    }  # fmt: skip
    start_operation(
        machine, lane, "tensor copy", _land_load, writes=writes, barrier=barrier, size=box.bytes, ctas=(there,),
        array_write=None, data=data,
    )  # fmt: skip


def _land_load(machine: Machine, operation: Operation) -> None:
    data = operation.data
    array, offsets, kept = data["array_from"], data["offsets_from"], data["kept"]
    if (kept == UNIT).all():
        raw = fetch(array, offsets, UNIT)
    else:
        raw = np.tile(data["fill"], (*offsets.shape, 1))
        kept = np.broadcast_to(kept, offsets.shape)
        for count in np.unique(kept[kept > 0]).tolist():
            chosen = kept == count
            raw[chosen, :count] = array.data[offsets[chosen][:, None] + np.arange(count)]
    array.flying.pop(operation.number, None)
    machine.shared.put(data["place_to"], raw)
    machine.launch.version += 1
    machine.engines.complete(operation)


# ------------------------------------------------------------------------------------------------ stores


def tensor_reduction(instruction: Instruction, program: Program) -> Step:
    """``cp.reduce.async.bulk.tensor``."""
    if any(part.startswith("im2col") for part in instruction.opcode):
        raise refuse(instruction, "im2col is not known")
    return _store(instruction, program, instruction.opcode[8])


def _store(instruction: Instruction, program: Program, operation: str) -> Step:
    to, source = _operands(instruction, 2)
    where, apart = _where(to, instruction, program), _rows_apart(instruction)
    origin = address_reader(source, instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        maps, origins = machine.uniform(where.map(machine, lanes), lanes), origin(machine, lanes)
        machine.uniform(origins, lanes)
        starts = _starts(machine, lanes, where)
        for position, lane in enumerate(machine.index(lanes).tolist()):
            one = np.array([lane])
            found = where.of(machine, lanes, position, maps)
            box = _box_of(machine, one, found, [row_of(each, position)[0] for each in starts], apart=apart, stores=True)
            if (box.kept != box.kept[:, :1]).any():
                machine.demand_single()
            _start_store(machine, one, found, box, row_of(origins, position), operation)
            _count(machine, box)

    return step


def _start_store(machine: Machine, one: Any, found: TensorMap, box: _Box, source: Any, name: str) -> None:
    lane, shared, memory, array = int(one[0]), machine.shared, machine.globals, box.array
    compute = _computed(machine, one, found, name) if name else None
    if not array.writable:
        machine.hazard("read-only", f"{array.name} is written and may not be", one)
    places = _places(machine, one, found, box, source, remote=False)
    inside = box.kept[:, 0] > 0
    reads = shared.cells_from(places[inside], UNIT)[0]
    shared.check_read(np.repeat(one, int(inside.sum())), places[inside], UNIT, remember=False)
    machine.engines.check_proxy(lane, reads, "read")
    writes, lanes = [np.zeros((0, machine.copies), np.int64)], np.repeat(one, len(places))
    for chosen, offsets, count, threads in box.groups(machine, lane):
        covered = -(-count // memory.cell) * memory.cell
        cells, each = memory.cells(array, offsets, covered)
        before = memory.shadow_of(array).writer[cells]
        if compute is None:
            memory.check_write(array, lanes, offsets, covered, 0, chosen)
        check_proxy_global(machine, one, array, cells, np.repeat(threads, each), "written", before)
        writes.append(cells.reshape(-1, machine.copies, each).swapaxes(1, 2).reshape(-1, machine.copies))
    data = {
        "array_to": array, "offsets_to": box.offsets, "kept": box.kept, "place_from": places, "compute": compute,
        "element": found.element_bytes,
    }  # fmt: skip
    memory.shadow_of(array)
    start_operation(
        machine, lane, "tensor reduction" if name else "tensor copy", _land_store, reads=reads, barrier=-1,
        ctas=(int(places[0]) // shared.size,), array_write=(array, np.concatenate(writes), machine.grid_thread[lane]), data=data,
    )  # fmt: skip


def _computed(machine: Machine, one: Any, found: TensorMap, name: str) -> Any:
    """What a reduction computes, by the map's element type."""
    kind, bits = found.element.rstrip("0123456789"), 8 * found.element_bytes
    types = (f"{_OF_ELEMENT[kind]}{bits}" if kind != "bfloat" else "bf16", f"b{bits}")
    noftz = name == "add" and bits == 16
    for type in types:
        compute = atomic_operation(name, type, noftz=noftz, family="cp.reduce.async.bulk")
        if compute is not None:
            return compute
    return machine.hazard("descriptor", f"there is no .{name} of elements of type {found.element}", one)


def _land_store(machine: Machine, operation: Operation) -> None:
    data = operation.data
    array, offsets, compute = data["array_to"], data["offsets_to"], data["compute"]
    kept, element = data["kept"][:, 0], data["element"]
    raw = machine.shared.fetch(data["place_from"], UNIT)
    for copy in range(raw.shape[1]):  # one after another: they may write to the same bytes
        column = offsets[:, copy if offsets.shape[1] > 1 else 0]
        for count in np.unique(kept[kept > 0]).tolist():
            chosen = kept == count
            at = column[chosen][:, None] + np.arange(0, count, element)
            new = raw[chosen, copy, :count].reshape(*at.shape, element)
            if compute is not None:
                old = np.ascontiguousarray(fetch(array, at, element)).view(f"u{element}")
                with np.errstate(all="ignore"):
                    new = np.ascontiguousarray(compute(old, np.ascontiguousarray(new).view(f"u{element}"))).view(
                        np.uint8
                    )
            put(array, at, new)
    machine.launch.version += 1


# ------------------------------------------------------------------------------------------------ prefetches


def tensor_prefetch(instruction: Instruction, program: Program) -> Step:
    """``cp.async.bulk.prefetch.tensor``: nothing that a program could see, but the map is read."""
    where = _where(_operands(instruction, 1)[0], instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        maps = machine.uniform(where.map(machine, lanes), lanes)
        for position in range(machine.size(lanes)):
            where.of(machine, lanes, position, maps)

    return step


def _count(machine: Machine, box: _Box) -> None:
    if machine.launch.profile:
        shape = (len(box.linear), machine.copies)
        profile.count_units(
            machine, box.array.base + np.broadcast_to(box.offsets, shape), np.broadcast_to(box.kept, shape) > 0
        )


TENSOR_COPIES: dict[str, Handler] = {
    "cp.async.bulk.tensor": tensor_copy,
    "cp.reduce.async.bulk.tensor": tensor_reduction,
    "cp.async.bulk.prefetch.tensor": tensor_prefetch,
}
