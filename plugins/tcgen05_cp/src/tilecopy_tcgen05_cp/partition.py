"""The partition of a tile into ``tcgen05.cp`` instructions with matrix descriptors (PTX ISA 9.7.16.4)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from tilecopy_core.plugin import (
    CopyRequest,
    Decline,
    Expr,
    Int,
    Iter,
    Pair,
    TCol,
    TileLayout,
    TLane,
    bounds_of,
    divisor_of,
    evaluate,
    frozen,
    fuse_pairs,
    is_multiple,
    m,
    structural_equal,
    swizzle,
)
from tilecopy_partitions import by_descending_stride, refine, slice_layout

LANES = 128
GROUP_ROWS = 8
UNIT_BYTES = 16
ROW_COLUMNS = 4
"""32-bit columns of a row of 128 bits, which begins at a multiple of as many."""
COLUMNS = 512
LDO = 16
"""Leading-dimension field; a copy of one 16-byte unit a row never uses it (any value does)."""
MODES = {16: ("none", 0, 0), 32: ("32B", 1, 6), 64: ("64B", 2, 4), 128: ("128B", 3, 2)}
"""Bytes from row to row -> swizzle mode, its index, its code in the descriptor."""


@frozen
class CopyShape:
    """A frozen record of a shape of ``tcgen05.cp``, such as ``32x128b.warpx4``.

    Attributes:
        name: as in the opcode.
        lanes: that its rows land in, in order.
        replica: of the destination's layout: where each row lands too.
        units: 16 bytes of a row.
    """

    name: str
    lanes: tuple[int, ...]
    replica: tuple[Iter, ...]
    units: int

    @property
    def copies(self) -> tuple[int, ...]:
        """The lane offsets of a row's copies from the row's first lane. The first offset is 0."""
        return tuple(int(it.stride) * step for it in self.replica for step in range(it.extent)) or (0,)


_IN_ORDER = range(LANES)
SHAPES = (
    CopyShape("128x256b", tuple(_IN_ORDER), (), 2),
    CopyShape("128x128b", tuple(_IN_ORDER), (), 1),
    CopyShape("64x128b.warpx2::02_13", tuple(_IN_ORDER[:64]), (Iter(2, 64, TLane),), 1),
    CopyShape("64x128b.warpx2::01_23", (*_IN_ORDER[:32], *_IN_ORDER[64:96]), (Iter(2, 32, TLane),), 1),
    CopyShape("32x128b.warpx4", tuple(_IN_ORDER[:32]), (Iter(4, 32, TLane),), 1),
    CopyShape("4x256b", tuple(_IN_ORDER[::32]), (), 2),
)
"""The shapes that the ISA has; of two that fit the wider comes first."""
BY_NAME = {shape.name: shape for shape in SHAPES}


@frozen
class MatrixDescriptor:
    """A frozen record of the encoded fields of a matrix descriptor.

    Attributes:
        ldo: leading-dimension byte offset, in 16 bytes.
        sdo: stride-dimension byte offset (8 rows to the next 8), in 16 bytes.
        swizzle: the code: 0 none, 6 32B, 4 64B, 2 128B.
        swizzle_index: the mode's index: 0, 1, 2, 3.
    """

    ldo: int
    sdo: int
    swizzle: int
    swizzle_index: int


@frozen
class CopyAtom:
    """A frozen record of one ``tcgen05.cp``.

    Attributes:
        column: 32-bit column of the buffer that it begins at.
        step_16_bytes: what is added to the first atom's descriptor.
        lane: that its first row lands in.
        shape: its name in the opcode.
    """

    column: Int
    step_16_bytes: int
    lane: int = 0
    shape: str = "32x128b.warpx4"


@frozen
class AtomPartition:
    """A frozen record of ``tcgen05.cp`` instructions, and of the matrix descriptor of the first instruction.

    Attributes:
        descriptor: encoded once.
        start_elems: element offset of the box in the shared buffer, before the swizzle.
        atoms: one an instruction.
        elem_per_128b: elements of 16 bytes.
    """

    descriptor: MatrixDescriptor
    start_elems: Int
    atoms: tuple[CopyAtom, ...]
    elem_per_128b: int

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        d, names = self.descriptor, [atom.shape for atom in self.atoms]
        counted = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
        row = self.elem_per_128b * BY_NAME[names[0]].units
        return f"{counted}, {row} elements per row, descriptor ldo {d.ldo} sdo {d.sdo} swizzle {d.swizzle}"

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[tuple[int, int], int]]:
        """Return ``(destination, source)`` pairs: ``(lane, element)`` in tensor memory, an offset in shared memory.

        Where the rows of an atom lie is what the descriptor's fields say (PTX ISA 9.7.16.4.1 and 9.7.16.10.2), in a buffer
        that is aligned as the swizzle needs.
        """
        buffer, fields, moves = request.src.buffer, self.descriptor, list[tuple[tuple[int, int], int]]()
        width = buffer.dtype.bits
        pitch_bytes, bits = next((pitch, index) for pitch, (_, index, code) in MODES.items() if code == fields.swizzle)
        start_bytes = (int(evaluate(self.start_elems, values)) + buffer.storage_offset) * width // 8
        unit_bytes = UNIT_BYTES if bits else fields.ldo * UNIT_BYTES
        for atom in self.atoms:
            shape, first = BY_NAME[atom.shape], int(evaluate(atom.column, values)) * 32 // width
            for (row, lane), unit in product(enumerate(shape.lanes), range(shape.units)):
                group, within = divmod(row, GROUP_ROWS)
                at = start_bytes + atom.step_16_bytes * UNIT_BYTES + unit * unit_bytes
                at += within * pitch_bytes + group * fields.sdo * UNIT_BYTES
                at ^= (at >> 7 & (1 << bits) - 1) << 4
                moves += [
                    ((atom.lane + lane + copy, first + unit * self.elem_per_128b + elem), at * 8 // width + elem)
                    for copy in shape.copies
                    for elem in range(self.elem_per_128b)
                ]
        return moves


def atom_partition(request: CopyRequest) -> AtomPartition | Decline:
    """Return the ``tcgen05.cp`` instructions of the first shape that fits. Return Decline if no shape fits."""
    source = slice_layout("source", request.src)
    if isinstance(source, Decline):
        return source
    target = request.dst.sliced_layout()
    if target is None:
        return Decline(f"{request.dst} must not split an extent of its layout, got {request.dst.buffer.layout}")
    if target.swizzle is not None or any(axis not in (TLane, TCol) for axis in target.axes):
        return Decline(
            f"destination {request.dst.buffer.name} must have a layout over TLane and TCol only, got {target}"
        )
    varying = next((it for it in (*target.shard, *source.shard) if isinstance(it.stride, Expr)), None)
    if varying is not None:
        return Decline(f"the strides of source and destination must be known when the kernel is built, got {varying}")
    pairs = refine(target.shard, source.shard)
    if pairs is None:
        return Decline(f"destination {target} and source {source} must share a factorization of their extents")
    columns = fuse_pairs(by_descending_stride([pair for pair in pairs if pair[0].axis == TCol]))
    tiles = _tiles(request, target, _by_lane([pair for pair in pairs if pair[0].axis == TLane]))
    if isinstance(tiles, str):
        return Decline(tiles)
    answers = [_atoms(request, target, source, of_shape, columns, shape) for shape, of_shape in tiles]
    fitting = next((answer for answer in answers if isinstance(answer, AtomPartition)), None)
    return fitting or Decline(str(answers[0]))


def _by_lane(rows: list[Pair]) -> dict[int, int]:
    """Return the element of the source in each lane, relative to the first lane's, by lane."""
    element_of_lane = {0: 0}
    for lane, memory in rows:
        steps = [(int(lane.stride) * digit, int(memory.stride) * digit) for digit in range(lane.extent)]
        element_of_lane = {at + further: elem + more for at, elem in element_of_lane.items() for further, more in steps}
    return dict(sorted(element_of_lane.items()))


_Tiles = list[tuple[int, list[int]]]
"""The first lane of each tile of a shape, and the source's element of each of its rows."""


def _tiles(
    request: CopyRequest, target: TileLayout, by_lane: Mapping[int, int]
) -> list[tuple[CopyShape, _Tiles]] | str:
    """Return the shapes that have the box's lanes and replicas, with their tiles; or the reason why there are none."""
    name, offset, replica = request.dst.buffer.name, target.offset_on(TLane), target.replica
    if request.src.buffer.layout.replica:
        return f"source {request.src.buffer.name} must not have replicas, got {list(request.src.buffer.layout.replica)}"
    lanes, fitting = tuple(by_lane), list[tuple[CopyShape, _Tiles]]()
    for shape in SHAPES:
        if shape.replica == replica and shape.lanes == lanes and structural_equal(offset, 0):
            fitting.append((shape, [(0, list(by_lane.values()))]))
    first = [lane for lane in lanes if lane < LANES // 4]
    of_each_warp = {lane + 32 * warp for lane in first for warp in range(4)}
    if not replica and isinstance(offset, int) and set(lanes) == of_each_warp:
        rows = [(lane + offset, [by_lane[lane + 32 * warp] for warp in range(4)]) for lane in first]
        if 0 <= offset < LANES // 4 - first[-1]:
            fitting.append((BY_NAME["4x256b"], rows))
    if fitting:
        return fitting
    fits = [shape for shape in SHAPES if shape.lanes == lanes]
    if fits and replica not in [shape.replica for shape in fits]:
        needed = [f"R[{it.extent} : {it.stride} @ TLane]" for shape in fits for it in shape.replica]
        return f"destination {name} must have the replica {' or '.join(needed) or 'none'} for its {len(lanes)} lanes, got {list(replica)}"
    if fits:
        return f"the box must begin at lane 0, got lane {offset}; {fits[0].name} always writes {len(lanes) * len(fits[0].copies)} lanes, starting at lane 0"
    return (
        "the lanes of the box must fit tcgen05.cp (128 lanes, 4 with a step of 32, 32 with R[4 : 32 @ TLane], 64 with R[2 : 64 @ TLane], or "
        f"64 in two halves with R[2 : 32 @ TLane]), got {len(lanes)} lanes: {', '.join(map(str, lanes[:3]))} ..."
    )


def _atoms(
    request: CopyRequest, target: TileLayout, source: TileLayout, tiles: _Tiles, columns: list[Pair], shape: CopyShape
) -> AtomPartition | str:
    """Return the copies of one shape and the descriptor of their rows, or the reason why the rows have no descriptor."""
    bits = request.src.buffer.dtype.bits
    per_unit = UNIT_BYTES * 8 // bits
    run = columns[-1][0].extent if columns and all(structural_equal(it.stride, 1) for it in columns[-1]) else 1
    if run % per_unit:
        return f"the number of elements contiguous in source and destination must be a multiple of {per_unit} (128 bits), got {run}"
    strides = _row_strides([[at - rows[0] for at in rows] for _, rows in tiles])
    if isinstance(strides, str):
        return strides
    if why := _why_no_descriptor(request, source, strides):
        return why
    pitch_bytes, group_bytes = (stride * bits // 8 for stride in strides)
    _, index, code = MODES[pitch_bytes]
    start = source.offset_on(m)
    period, room = _period(pitch_bytes), pitch_bytes * (GROUP_ROWS + 1 - min(len(shape.lanes), GROUP_ROWS))
    if why := _why_misaligned(start, bits, room, period):
        return f"source {request.src}: {why}"
    units = _units(request, target, columns, per_unit)
    if isinstance(units, str):
        return units
    first_byte = _constant(start) * bits // 8
    ldo = LDO
    if shape.units > 1:
        joined = _joined_units(request, shape, sorted(units), first_byte, pitch_bytes)
        if isinstance(joined, str):
            return joined
        ldo, units = joined
    begin, atoms = target.offset_on(TCol) + request.dst.buffer.storage_offset, list[CopyAtom]()
    for (lane, rows), (column, shared) in product(tiles, units):
        beyond = rows[0] - tiles[0][1][0]
        if beyond % per_unit:
            return f"the rows of lane {lane} must begin at a multiple of {per_unit} elements (16 bytes), got element {beyond}"
        at = beyond * bits // 8 + shared
        if period > UNIT_BYTES and (first_byte + at) % period >= room:
            return f"each tcgen05.cp must begin in the first row of a swizzle atom, got byte {(first_byte + at) % period} of the atom"
        first = (begin + column) * ROW_COLUMNS // per_unit
        lower, upper = bounds_of(first)
        if (lower or 0) > COLUMNS - ROW_COLUMNS * shape.units or (upper is not None and upper < 0):
            return (
                f"destination {request.dst} must be inside the {COLUMNS} columns of tensor memory, got column {first}"
            )
        atoms.append(CopyAtom(first, at // UNIT_BYTES, lane, shape.name))
    return AtomPartition(MatrixDescriptor(ldo, group_bytes // UNIT_BYTES, code, index), start, tuple(atoms), per_unit)


def _constant(start: Int) -> int:
    """Return the constant term of an offset."""
    return start.const if isinstance(start, Expr) else start


def _period(pitch_bytes: int) -> int:
    """Return the bytes after which rows repeat: a swizzle atom of 8 rows, or a unit without a swizzle."""
    return GROUP_ROWS * pitch_bytes if MODES[pitch_bytes][1] else UNIT_BYTES


def _why_no_descriptor(request: CopyRequest, source: TileLayout, strides: tuple[int, int]) -> str | None:
    """Return why no descriptor has the given strides between rows and between groups of 8 rows, or None."""
    buffer = request.src.buffer
    bits = buffer.dtype.bits
    pitch_bytes, group_bytes = (stride * bits // 8 for stride in strides)
    if pitch_bytes not in MODES or any(stride * bits % (UNIT_BYTES * 8) for stride in strides):
        return f"source {buffer.name}: the row stride must be 16 (no swizzle), 32, 64 or 128 bytes for a descriptor, got {pitch_bytes} bytes"
    name, _, _ = MODES[pitch_bytes]
    needed, plain, period = swizzle(name, buffer.dtype), swizzle("none", buffer.dtype), _period(pitch_bytes)
    most_bytes = (2**14 - 1) * UNIT_BYTES
    rules = (
        (
            (source.swizzle or plain) == needed,
            f"the layout must have the {name} swizzle {needed} for a row stride of {pitch_bytes} bytes, got {source.swizzle}",
        ),
        (buffer.align_bytes % period == 0, f"the buffer must be aligned to {period} bytes, got {buffer.align_bytes}"),
        (
            is_multiple(buffer.storage_offset * bits, period * 8),
            f"the buffer's storage offset must be a multiple of {period} bytes, got {buffer.storage_offset} elements of {bits} bits",
        ),
        (
            group_bytes % period == 0 and 0 <= group_bytes <= most_bytes,
            f"the stride of 8-row groups must be a multiple of {period} bytes from 0 to {most_bytes} bytes, got {group_bytes} bytes",
        ),
    )
    return next((f"source {buffer.name}: {why}" for holds, why in rules if not holds), None)


def _joined_units(
    request: CopyRequest, shape: CopyShape, units: list[tuple[int, int]], first_byte: int, pitch_bytes: int
) -> tuple[int, list[tuple[int, int]]] | str:
    """Return the descriptor's ldo and the first unit of each row of two units, or the reason why there is none."""
    per_unit = UNIT_BYTES * 8 // request.src.buffer.dtype.bits
    name, index, _ = MODES[pitch_bytes]
    apart = {(b[0] - a[0], b[1] - a[1]) for a, b in zip(units[::2], units[1::2], strict=False)}
    distance = next((far for column, far in apart if column == per_unit), -1)
    if len(units) % 2 or len(apart) != 1 or distance % UNIT_BYTES or not 0 <= distance < 2**18:
        return f"{request.dst}: each row of {shape.name} must have two 16-byte units, the same number of bytes apart in every row of the source, got {len(units)} units, {sorted({far for _, far in apart})} bytes apart"
    crossing = any((first_byte + at) % pitch_bytes + 32 > pitch_bytes for _, at in units[::2])
    if index and (distance != UNIT_BYTES or crossing):
        return f"{request.src}: the two 16-byte units of a row of {shape.name} must be adjacent in one row of the {name} swizzle, got a distance of {distance} bytes{' across two rows' * crossing}"
    return (LDO if index else distance // UNIT_BYTES), units[::2]


def _row_strides(tiles: list[list[int]]) -> tuple[int, int] | str:
    """Return the strides in elements between rows and between groups of 8 rows, or the reason why tiles differ."""
    pitch = tiles[0][1]
    group = tiles[0][GROUP_ROWS] if len(tiles[0]) > GROUP_ROWS else GROUP_ROWS * pitch
    for row, at in ((row, at) for rows in tiles for row, at in enumerate(rows)):
        if at != row % GROUP_ROWS * pitch + row // GROUP_ROWS * group:
            return f"row {row} of the source must begin at element {row % GROUP_ROWS * pitch + row // GROUP_ROWS * group} (row stride {pitch}, stride of 8-row groups {group}), got element {at}"
    return pitch, group


def _why_misaligned(start: Int, bits: int, room: int, period: int) -> str | None:
    if not is_multiple(start * bits, UNIT_BYTES * 8):
        return f"the start must be a multiple of {UNIT_BYTES} bytes for a descriptor, got a multiple of {divisor_of(start) * bits / 8:g} bytes"
    constant = _constant(start)
    if not is_multiple((start - constant) * bits, period * 8):
        return f"the variable part of the start must be a multiple of the {period} bytes after which the swizzle repeats, got {start}"
    if period > UNIT_BYTES and constant * bits // 8 % period >= room:
        return f"the start must be in the first row of a swizzle atom, got byte {constant * bits // 8 % period} of the atom"
    return None


def _units(request: CopyRequest, target: TileLayout, columns: list[Pair], per_unit: int) -> list[tuple[int, int]] | str:
    """Return the element of the row and the byte of the source for each 16-byte unit, the last iter fastest."""
    bits = request.src.buffer.dtype.bits
    run = columns[-1][0].extent // per_unit
    middle = [*columns[:-1], (Iter(run, per_unit, TCol), Iter(run, per_unit))]
    first = target.offset_on(TCol) + request.dst.buffer.storage_offset
    if not is_multiple(first, per_unit):
        return (
            f"destination {request.dst} must begin at a multiple of {per_unit} elements, got element {first}; "
            f"a row of 128 bits begins at a multiple of {ROW_COLUMNS} columns of 32 bits"
        )
    units = []
    for digits in product(*(range(tensor.extent) for tensor, _ in middle)):
        column = sum(d * int(tensor.stride) for d, (tensor, _) in zip(digits, middle, strict=True))
        shared = sum(d * int(memory.stride) for d, (_, memory) in zip(digits, middle, strict=True))
        if column % per_unit or shared % per_unit:
            return (
                f"each tcgen05.cp must begin at a multiple of 16 bytes ({per_unit} elements or {ROW_COLUMNS} columns) in source and destination, got byte "
                f"{shared * bits / 8:g} of the source and element {column} of the destination"
            )
        units.append((column, shared * bits // 8))
    return units
