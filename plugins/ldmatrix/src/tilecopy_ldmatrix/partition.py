"""The partition of a fragment into matrices: the lane that addresses each row, and the register of each element.

The iters of the fragment are matched with those of each form. Register iters that remain repeat the matrix: factors of two
become the matrices of one instruction, the rest become several instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import attrs
import numpy as np

from tilecopy_core.plugin import (
    Axis,
    CopyRequest,
    Decline,
    Int,
    Iter,
    Pair,
    Region,
    Swizzle,
    TileLayout,
    evaluate,
    frozen,
    laneid,
    m,
    symbols_of,
    tid_in_wg,
    tx,
    warpid,
    wid_in_wg,
)
from tilecopy_partitions import Digit, Run, digits_of, fragment_and_memory, owning_threads, refine, slice_layout

from .forms import FITTING, LANES, ROW_BYTES, MatrixForm, forms_of

WARPS_OF = {tid_in_wg: wid_in_wg, tx: warpid}
"""Axes that count threads past one warp -> the axis that counts its warps."""
_WHAT = {laneid: "lane", m: "register element"}


@frozen
class FragmentPiece:
    """A frozen record of ``extent`` lanes or registers. Their offsets in shared memory differ by ``step`` elements."""

    axis: Axis
    stride: int
    extent: int
    step: int


@frozen
class Batch:
    """A frozen record of one ldmatrix or stmatrix instruction.

    Attributes:
        place: elements in shared memory from the first instruction's.
        registers: the first register element that each register of the instruction holds.
    """

    place: int
    registers: tuple[int, ...]


@frozen
class MatrixPartition:
    """A frozen record of the matrices that each warp loads or stores. Each batch is one instruction.

    Attributes:
        form: the instructions' form.
        count: matrices of one instruction.
        threads: threads of the scope.
        rows: how a lane chooses the row that it gives the address of.
        warps: how a warp chooses its matrices.
        batches: the instructions.
        memory: layout of the box in shared memory.
        fragment: the register operand.
        other: the shared operand.
    """

    form: MatrixForm
    count: int
    threads: int
    rows: tuple[Digit, ...]
    warps: tuple[Digit, ...]
    batches: tuple[Batch, ...]
    memory: TileLayout
    fragment: Region
    other: Region

    @property
    def swizzle(self) -> Swizzle | None:
        """The swizzle of the shared operand."""
        return self.memory.swizzle

    @property
    def instructions_per_thread(self) -> int:
        """The number of load or store instructions per thread."""
        return len(self.batches)

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        return (
            f"{len(self.batches)} x {self.form.name}.x{self.count} in each of {self.threads // LANES} warps, "
            f"{self.fragment.buffer.span_elems} elements per thread"
        )

    def offset(self, tid: Int) -> Int:
        """Return the element offset of the row whose address a thread passes to the first instruction."""
        return sum([digit.value(tid) * digit.step for digit in (*self.rows, *self.warps)], self.memory.offset_on(m))

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[Any, Any]]:
        """Return ``(destination, source)`` pairs: ``(thread, element)`` in registers, an element offset in memory."""
        store, tid = request.src.buffer.space == "local", request.scope.tid
        threads = np.arange(self.threads)
        owning = owning_threads(request, self.warps, store=store)
        row_starts = np.broadcast_to(
            evaluate(self.offset(tid), {**values, **dict.fromkeys(symbols_of(tid), threads)}), (self.threads,)
        )
        register_elems, moves = 32 // self.fragment.buffer.dtype.bits, list[tuple[Any, Any]]()
        rows, columns = self.form.rows, self.form.columns
        parts = len(self.batches[0].registers) // self.count
        for batch, matrix, row in product(self.batches, range(self.count), range(rows.size)):
            for first in range(0, self.threads, LANES):
                if not owning[first]:
                    continue
                at = int(row_starts[first + matrix * rows.size + row]) + batch.place
                if self.swizzle is not None:
                    at = int(self.swizzle.apply(at))
                for column in range(columns.size):
                    row_place, more = rows.apply(row), columns.apply(column)
                    lane = row_place.get("laneid", 0) + more.get("laneid", 0)
                    part, within = divmod(int(row_place.get("m", 0) + more.get("m", 0)), register_elems)
                    element = batch.registers[matrix * parts + part] + within
                    register, place = (first + int(lane), element), at + column + self.other.buffer.storage_offset
                    moves.append((place, register) if store else (register, place))
        return moves


def matrices(request: CopyRequest) -> MatrixPartition | Decline:
    """Return the partition of a fragment into matrices of the first form that fits. Return Decline if no form fits."""
    fragment, other = fragment_and_memory(request)
    layout, memory = fragment.sliced_layout(), slice_layout("shared operand", other)
    assert layout is not None
    if isinstance(memory, Decline):
        return memory
    if memory.replica:
        return Decline(f"operand {other.buffer.name} must not have replicas, got {list(memory.replica)}")
    pairs = refine(layout.shard, memory.shard)
    if pairs is None:
        return Decline(f"{fragment} ({layout}) and {other} ({memory}) must share a factorization of their extents")
    if again := next((it for it, _ in pairs if it.stride == 0), None):
        return Decline(f"the strides of {layout} must be greater than 0, got a stride of 0 in {again}")
    if any(not isinstance(place.stride, int) for _, place in pairs):
        return Decline(f"the strides of {other} must be known when the kernel is built, got {memory}")
    warp_split = _warps_apart(layout, [(it, int(place.stride)) for it, place in pairs])
    if isinstance(warp_split, Decline):
        return warp_split
    pieces, warps = warp_split
    store, bits = request.src is fragment, fragment.buffer.dtype.bits
    declined = []
    for form in forms_of(bits, store=store, bytes_too=request.target.has("matrices_of_bytes")):
        partition = _of_form(form, request, layout, memory, pieces, warps)
        if isinstance(partition, MatrixPartition):
            return partition
        declined.append(f"{form.name}: {partition}")
    shape, dtype = FITTING[bits]
    return Decline(
        f"{fragment} must consist of whole matrices, but fits no form ({'; '.join(declined)}): for example, use a row-major "
        f'tile with rows of 16 bytes and mma_fragment("{shape}", "A", "{dtype}")'
    )


def _warps_apart(
    layout: TileLayout, pairs: Sequence[tuple[Iter, int]]
) -> tuple[list[FragmentPiece], tuple[Digit, ...]] | Decline:
    """Return the pieces of one warp, and the digits of a thread's index that select the warp's part."""
    pieces, coarse = list[FragmentPiece](), list[Pair]()
    for fragment_iter, step in pairs:
        parts = _lanes_and_warps(fragment_iter, step)
        if parts is None:
            return Decline(
                f"each iter of {layout} must select either a lane or a warp, but {fragment_iter} selects both"
            )
        pieces += parts[0]
        coarse += parts[1]
    replicas = []
    for it in layout.replica:
        if it.axis != m and it.axis.finer == "thread":
            if it.axis == laneid or int(it.stride) % LANES:
                return Decline(
                    f"the register layout must not have replicas over lanes, because each lane holds another part of a matrix, got {layout}"
                )
            replicas.append(Iter(it.extent, int(it.stride) // LANES, WARPS_OF[it.axis]))
        else:
            replicas.append(it)
    offset: dict[Axis, Int] = {}
    for axis in layout.axes:
        at = layout.offset_on(axis)
        if axis != m and axis.finer == "thread":
            if not isinstance(at, int) or at % LANES:
                return Decline(f"the elements of {layout} must begin at lane 0 of a warp, got lane {at}")
            offset[WARPS_OF.get(axis, laneid)] = at // LANES
        else:
            offset[axis] = at
    normal = TileLayout.of([it for it, _ in coarse], replicas, offset)
    axes = [axis for axis in offset if axis not in (m, laneid)]
    digits = digits_of(coarse, normal, axes)
    return digits if isinstance(digits, Decline) else (pieces, digits)


def _lanes_and_warps(own: Iter, step: int) -> tuple[list[FragmentPiece], list[Pair]] | None:
    """Return the parts of an iter along lanes or registers and along warps, or None if it cannot be split so."""
    stride, extent = int(own.stride), own.extent
    if own.axis == m:
        return [FragmentPiece(m, stride, extent, step)], []
    if own.axis.finer != "thread":
        return [], [(own, Iter(extent, step))]
    inside = min(extent, max(1, LANES // stride))
    if extent % inside or (extent > inside and inside * stride != LANES) or (inside == 1 and stride % LANES):
        return None
    lanes = [FragmentPiece(laneid, stride, inside, step)] if inside > 1 else []
    if extent == inside:
        return lanes, []
    warps = Iter(extent // inside, stride * inside // LANES, WARPS_OF[own.axis])
    return lanes, [(warps, Iter(extent // inside, step * inside))]


def _of_form(
    form: MatrixForm,
    request: CopyRequest,
    layout: TileLayout,
    memory: TileLayout,
    pieces: Sequence[FragmentPiece],
    warps: tuple[Digit, ...],
) -> MatrixPartition | str:
    """Return the partition into matrices of one form, or the reason why the form does not fit."""
    fragment, other = fragment_and_memory(request)
    register_elems, remaining = 32 // fragment.buffer.dtype.bits, list(pieces)
    one = _one_matrix(form, remaining, register_elems, other.buffer.name)
    if isinstance(one, str):
        return one
    rows, parts = one
    base = layout.offset_on(m)
    assert isinstance(base, int)
    loose = next((at for at in (base, *(piece.stride for piece in remaining)) if at % register_elems), None)
    if loose is not None:
        return f"each matrix must begin at the first of a register's {register_elems} elements, got element {loose}"
    chosen: list[FragmentPiece] = []
    while 2 << len(chosen) <= form.most and (even := [piece for piece in remaining if piece.extent % 2 == 0]):
        chosen.append(min(even, key=lambda piece: piece.stride))  # registers that mma reads together stay together
        _take_innermost(remaining, chosen[-1], 2)
    rows.sort(key=lambda piece: piece.stride)
    rows += [FragmentPiece(laneid, form.rows.size << number, 2, piece.step) for number, piece in enumerate(chosen)]
    digits, count = tuple(_digits(rows)), 1 << len(chosen)
    if why := _why_misaligned(request, digits, warps, remaining, memory):
        return why
    batches = tuple(_batches(base, remaining, chosen, parts))
    return MatrixPartition(form, count, request.scope.threads, digits, warps, batches, memory, fragment, other)


def _one_matrix(
    form: MatrixForm, remaining: list[FragmentPiece], register_elems: int, name: str
) -> tuple[list[FragmentPiece], list[int]] | str:
    """Remove one matrix from the remaining pieces; return its rows as pieces of a row's number, and the starts of its registers."""
    rows, parts = list[FragmentPiece](), [0]
    inner = 1
    for it in reversed(form.columns.shard):
        if (
            it.axis == m and int(it.stride) >= register_elems
        ):  # the instruction's next register, wherever the fragment has it
            half = next((p for p in remaining if p.axis == m and p.step == inner and p.extent % 2 == 0), None)
            if half is None or half.stride % register_elems:
                return f"each lane must have two registers whose elements are {inner} elements apart in {name}, but has no such registers"
            _take_innermost(remaining, half, 2)
            parts = [0, half.stride]
        else:
            taken = _take_iter(remaining, it)
            if isinstance(taken, str):
                return taken
            for piece in taken:
                expected = inner * piece.stride // int(it.stride)
                if piece.step != expected:
                    what = _WHAT[piece.axis]
                    return (
                        f"the element of {what} {piece.stride} must be at offset {expected} from the element of {what} 0 in {name}, as in a matrix "
                        f"row, got offset {piece.step}"
                    )
        inner *= it.extent
    inner = 1
    for it in reversed(form.rows.shard):
        taken = _take_iter(remaining, it)
        if isinstance(taken, str):
            return taken
        rows += [FragmentPiece(laneid, inner * p.stride // int(it.stride), p.extent, p.step) for p in taken]
        inner *= it.extent
    return rows, parts


def _take_iter(remaining: list[FragmentPiece], it: Iter) -> list[FragmentPiece] | str:
    """Remove the pieces that cover an iter of a form from the remaining ones and return them, or return the reason why there are none."""
    stride, taken = int(it.stride), list[FragmentPiece]()
    at, end = stride, stride * it.extent
    while at < end:
        piece = next((p for p in remaining if p.axis == it.axis and p.stride <= at < p.stride * p.extent), None)
        if piece is None:
            return f"{_WHAT[it.axis]} {at} must hold an element of the box, but holds none"
        below, stop = at // piece.stride, min(end, piece.stride * piece.extent)
        inside = stop // at
        if at % piece.stride or stop % at or piece.extent % (below * inside):
            return f"the register layout must split at {_WHAT[it.axis]} {at}, because part of a matrix begins there, got an iter of {piece.extent} steps with stride {piece.stride}"
        remaining.remove(piece)
        taken.append(FragmentPiece(piece.axis, at, inside, piece.step * below))
        above = piece.extent // (below * inside)
        if above > 1:  # the part below `at` is dropped, because a run that begins there fits no form
            remaining.append(FragmentPiece(piece.axis, stop, above, piece.step * below * inside))
        at = stop
    return taken


def _take_innermost(remaining: list[FragmentPiece], piece: FragmentPiece, factor: int) -> None:
    """Remove the innermost ``factor`` steps of a piece."""
    remaining.remove(piece)
    if piece.extent > factor:
        remaining.append(FragmentPiece(piece.axis, piece.stride * factor, piece.extent // factor, piece.step * factor))


def _digits(rows: Sequence[FragmentPiece]) -> Iterator[Digit]:
    """Return pieces of a lane's number as digits of it, with contiguous neighbours fused."""
    fused: list[FragmentPiece] = []
    for piece in rows:
        before = fused[-1] if fused else None
        if before is not None and piece.step == before.step * before.extent:
            fused[-1] = attrs.evolve(before, extent=before.extent * piece.extent)
        else:
            fused.append(piece)
    for piece in fused:
        modulus = None if piece.stride * piece.extent == LANES else piece.extent
        yield Digit(laneid, 0, piece.stride, piece.extent, modulus, piece.step)


def _batches(
    base: int, remaining: Sequence[FragmentPiece], chosen: Sequence[FragmentPiece], parts: Sequence[int]
) -> Iterator[Batch]:
    """Yield the instructions in the order of their registers."""
    first_elements = [
        sum(piece.stride for n, piece in enumerate(chosen) if number >> n & 1) for number in range(1 << len(chosen))
    ]
    repeats = sorted(remaining, key=lambda piece: -piece.stride)
    for turn in product(*(range(piece.extent) for piece in repeats)):
        first = base + sum(number * piece.stride for number, piece in zip(turn, repeats, strict=True))
        place = sum(number * piece.step for number, piece in zip(turn, repeats, strict=True))
        yield Batch(place, tuple(first + matrix + part for matrix in first_elements for part in parts))


def _why_misaligned(
    request: CopyRequest,
    rows: Sequence[Digit],
    warps: Sequence[Digit],
    remaining: Sequence[FragmentPiece],
    memory: TileLayout,
) -> str | None:
    """Return why a row does not start at a multiple of 16 bytes, or None."""
    fragment, other = fragment_and_memory(request)
    size = fragment.buffer.dtype.bytes
    for digit in rows:
        if isinstance(digit.step, int) and digit.step * size % ROW_BYTES:
            return (
                f"the distance in {other.buffer.name} from the row of lane 0 to the row of lane {digit.stride} must be a multiple of {ROW_BYTES} "
                f"bytes, got {digit.step * size} bytes"
            )
    steps = [Iter(digit.extent, digit.step) for digit in (*warps, *rows) if not digit.replica and digit.extent > 1]
    steps += [Iter(piece.extent, piece.step) for piece in remaining]
    run = Run(other, [*steps, Iter(ROW_BYTES // size, 1)], memory.offset_on(m), memory.swizzle)
    return run.why_not_width(8 * ROW_BYTES)
