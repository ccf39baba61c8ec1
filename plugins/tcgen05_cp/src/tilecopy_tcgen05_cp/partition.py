"""Splitting a tile into 32 x 128-bit atoms that one matrix descriptor can name (PTX ISA 9.7.16.4)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import attrs

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
    fuse_pairs,
    is_multiple,
    m,
    refine,
    same,
    sliced,
    swizzle,
)

LANES = 32
COPIES = 4
"""Of each row: the warpx4 multicast writes the lanes of all four warps."""
GROUP_ROWS = 8
UNIT_BYTES = 16
ROW_COLUMNS = 4
"""32-bit columns of a row of 128 bits, which begins at a multiple of as many."""
COLUMNS = 512
LDO = 16
"""Leading-dimension field; a copy of one 16-byte unit a row never uses it (any value does)."""
MODES = {16: ("none", 0, 0), 32: ("32B", 1, 6), 64: ("64B", 2, 4), 128: ("128B", 3, 2)}
"""Bytes from row to row -> swizzle mode, its index, its code in the descriptor."""


@attrs.frozen
class Descriptor:
    """The fields of the matrix descriptor, as encoded.

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


@attrs.frozen
class CopyAtom:
    """One ``tcgen05.cp``.

    Attributes:
        column: 32-bit column of the buffer that it begins at.
        step_16_bytes: what is added to the first atom's descriptor.
    """

    column: Int
    step_16_bytes: int


@attrs.frozen
class AtomPartition:
    """The descriptor of the first atom, and all atoms.

    Attributes:
        descriptor: encoded once.
        start_elems: element offset of the box in the shared buffer, before the swizzle.
        atoms: one a tile of 32 rows of 16 bytes.
        elem_per_128b: elements of a row of an atom.
    """

    descriptor: Descriptor
    start_elems: Int
    atoms: tuple[CopyAtom, ...]
    elem_per_128b: int

    def summary(self) -> str:
        """One line for ``plan.explain()``."""
        d = self.descriptor
        return (
            f"{len(self.atoms)} x 32x128b.warpx4, {self.elem_per_128b} elements a row, descriptor ldo {d.ldo} "
            f"sdo {d.sdo} swizzle {d.swizzle}"
        )

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[tuple[int, int], int]]:
        """``(destination, source)`` of every element: ``(lane, element of the row)``, and the place in shared memory.

        Where the rows of an atom lie is what the descriptor's fields say (PTX ISA 9.7.16.4.1 and 9.7.16.10.2), in a buffer
        that is aligned as the swizzle needs.

        Args:
            request: the copy.
            values: of every symbol of the request.
        """
        buffer, fields, found = request.src.buffer, self.descriptor, list[tuple[tuple[int, int], int]]()
        size = buffer.dtype.bytes
        pitch_bytes, bits = next((pitch, index) for pitch, (_, index, code) in MODES.items() if code == fields.swizzle)
        start_bytes = (int(evaluate(self.start_elems, values)) + buffer.elem_offset) * size
        for atom in self.atoms:
            first = int(evaluate(atom.column, values)) * 4 // size
            for row in range(LANES):
                group, within = divmod(row, GROUP_ROWS)
                at = (
                    start_bytes
                    + atom.step_16_bytes * UNIT_BYTES
                    + within * pitch_bytes
                    + group * fields.sdo * UNIT_BYTES
                )
                at ^= (at >> 7 & (1 << bits) - 1) << 4
                found += [
                    ((row + copy * LANES, first + elem), at // size + elem)
                    for copy in range(COPIES)
                    for elem in range(self.elem_per_128b)
                ]
        return found


def atom_partition(request: CopyRequest) -> AtomPartition | Decline:
    """``(32 lanes, middle tiles, 16 bytes)``, with the descriptor that fits the source's rows."""
    source = sliced("source", request.src)
    if isinstance(source, Decline):
        return source
    target = request.dst.sliced_layout()
    if target is None:
        return Decline(f"destination {request.dst} is not a layout of its own")
    if target.swizzle is not None or any(axis not in (TLane, TCol) for axis in target.axes):
        return Decline(f"destination {request.dst.buffer.name}: a layout over TLane and TCol alone, not {target}")
    varying = next((it for it in (*target.shard, *source.shard) if isinstance(it.stride, Expr)), None)
    if varying is not None:
        return Decline(f"a stride that is known only at run time: {varying}")
    pairs = refine(target.shard, source.shard)
    if pairs is None:
        return Decline(f"destination {target} and source {source} cannot be split along common extents")
    rows = _descending([pair for pair in pairs if pair[0].axis == TLane])
    columns = _descending([pair for pair in pairs if pair[0].axis == TCol])
    why = _why_not_lanes(target, rows)
    return Decline(why) if why is not None else _atoms(request, target, source, rows, columns)


def _descending(pairs: list[Pair]) -> list[Pair]:
    return fuse_pairs(sorted(pairs, key=lambda pair: -int(pair[0].stride)))


def _why_not_lanes(target: TileLayout, rows: list[Pair]) -> str | None:
    offset = target.offset_on(TLane)
    if not same(offset, 0):
        return f"the box begins at lane {offset}: 32 lanes from there overflow the 32 that one warp owns"
    covered = 1
    for lane, _ in reversed(rows):
        if not same(lane.stride, covered):
            return f"the lanes of {target} are not consecutive: a stride of {lane.stride} where {covered} is needed"
        covered *= lane.extent
    return None if covered == LANES else f"the box has {covered} lanes; tcgen05.cp.32x128b copies {LANES}"


def _atoms(
    request: CopyRequest,
    target: TileLayout,
    source: TileLayout,
    rows: list[Pair],
    columns: list[Pair],
) -> AtomPartition | Decline:
    buffer = request.src.buffer
    size, per_unit = buffer.dtype.bytes, UNIT_BYTES // buffer.dtype.bytes
    run = columns[-1][0].extent if columns and all(same(it.stride, 1) for it in columns[-1]) else 1
    if run % per_unit:
        return Decline(f"{run} contiguous elements on both sides are not a multiple of the {per_unit} of 128 bits")
    strides = _row_strides(rows)
    if isinstance(strides, str):
        return Decline(strides)
    pitch_bytes, group_bytes = strides[0] * size, strides[1] * size
    if pitch_bytes not in MODES:
        return Decline(
            f"source {buffer.name}: rows are {pitch_bytes} bytes apart; a descriptor takes 16 (no swizzle), 32, 64 or 128"
        )
    name, index, code = MODES[pitch_bytes]
    needed = swizzle(name, buffer.dtype)
    if (source.swizzle or swizzle("none", buffer.dtype)) != needed:
        return Decline(
            f"source {buffer.name}: rows {pitch_bytes} bytes apart need the {name} swizzle {needed}; its layout has "
            f"{source.swizzle}"
        )
    period = GROUP_ROWS * pitch_bytes if index else UNIT_BYTES
    if buffer.align_bytes % period:
        return Decline(f"source {buffer.name}: aligned to {buffer.align_bytes} bytes; this needs {period}")
    if not is_multiple(buffer.elem_offset * size, period):
        return Decline(f"source {buffer.name}: its own start {buffer.elem_offset} is not a multiple of {period} bytes")
    if group_bytes % period or not 0 <= group_bytes // UNIT_BYTES < 2**14:
        return Decline(
            f"source {buffer.name}: 8-row groups {group_bytes} bytes apart; a multiple of {period} is needed, from 0 to {(2**14 - 1) * UNIT_BYTES}"
        )
    start = source.offset_on(m)
    constant = start.const if isinstance(start, Expr) else start
    why = _why_misaligned(start, size, pitch_bytes, period)
    if why is not None:
        return Decline(f"source {request.src}: {why}")
    atoms = _steps(request, target, columns, per_unit, constant * size, pitch_bytes, period)
    if isinstance(atoms, str):
        return Decline(atoms)
    return AtomPartition(Descriptor(LDO, group_bytes // UNIT_BYTES, code, index), start, atoms, per_unit)


def _row_strides(rows: list[Pair]) -> tuple[int, int] | str:
    """Elements from row to row of 8, and from one 8 rows to the next."""
    by_row = {0: 0}
    step = 1
    for lane, memory in reversed(rows):
        stride = int(memory.stride)
        by_row |= {
            row + digit * step: at + digit * stride for row, at in list(by_row.items()) for digit in range(lane.extent)
        }
        step *= lane.extent
    pitch, group = by_row[1], by_row[GROUP_ROWS]
    for row, at in by_row.items():
        if at != row % GROUP_ROWS * pitch + row // GROUP_ROWS * group:
            return f"row {row} is {at} elements from row 0; a descriptor names rows {pitch} apart in groups of 8, {group} apart"
    return pitch, group


def _why_misaligned(start: Int, size: int, pitch_bytes: int, period: int) -> str | None:
    if not is_multiple(start * size, UNIT_BYTES):
        return f"the start is at a multiple of {divisor_of(start) * size} bytes; a descriptor needs {UNIT_BYTES}"
    constant = start.const if isinstance(start, Expr) else start
    if not is_multiple((start - constant) * size, period):
        return f"the start {start} varies by less than the {period} bytes after which rows repeat"
    if period > UNIT_BYTES and constant * size % period >= pitch_bytes:
        return f"the start is {constant * size % period} bytes into a swizzle atom, past its first row"
    return None


def _steps(
    request: CopyRequest,
    target: TileLayout,
    columns: list[Pair],
    per_unit: int,
    start_bytes: int,
    pitch_bytes: int,
    period: int,
) -> tuple[CopyAtom, ...] | str:
    """Column and descriptor step of each atom, the last iter's units fastest."""
    size = request.src.buffer.dtype.bytes
    run = columns[-1][0].extent // per_unit
    middle = [*columns[:-1], (Iter(run, per_unit, TCol), Iter(run, per_unit))]
    first = target.offset_on(TCol) + request.dst.buffer.elem_offset
    if not is_multiple(first, per_unit):
        return (
            f"destination {request.dst}: it begins at element {first}, which is not proved to be a multiple of {per_unit}: "
            f"a row of 128 bits begins at a multiple of {ROW_COLUMNS} columns of 32 bits"
        )
    atoms = []
    for digits in product(*(range(tensor.extent) for tensor, _ in middle)):
        column = sum(d * int(tensor.stride) for d, (tensor, _) in zip(digits, middle, strict=True))
        shared = sum(d * int(memory.stride) for d, (_, memory) in zip(digits, middle, strict=True)) * size
        if column % per_unit or shared % UNIT_BYTES:
            return (
                f"an atom begins {column} elements and {shared} bytes on: not whole columns and 16-byte units (rows of 128 "
                f"bits begin at a multiple of {ROW_COLUMNS} columns, {per_unit} elements)"
            )
        if period > UNIT_BYTES and (start_bytes + shared) % period >= pitch_bytes:
            return f"an atom begins {(start_bytes + shared) % period} bytes into a swizzle atom, past its first row"
        begins = (first + column) * ROW_COLUMNS // per_unit
        lower, upper = bounds_of(begins)
        if (lower or 0) > COLUMNS - ROW_COLUMNS or (upper is not None and upper < 0):
            return f"destination {request.dst}: column {begins} of 32 bits; tensor memory has {COLUMNS}"
        atoms.append(CopyAtom(begins, shared // UNIT_BYTES))
    return tuple(atoms)
