"""The partition of a fragment copy into vectors. The index of a thread selects the thread's vectors."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import attrs
import numpy as np

from tilecopy_core.plugin import (
    CopyRequest,
    Decline,
    Expr,
    Int,
    Iter,
    Pair,
    Region,
    Swizzle,
    TileLayout,
    evaluate,
    frozen,
    m,
    symbols_of,
)
from tilecopy_partitions import (
    WIDTHS_BITS,
    Digit,
    Guard,
    Run,
    digits_of,
    fragment_and_memory,
    guards_of,
    orders_of,
    owning_threads,
    refine,
    slice_layout,
    thread_axes,
    widest,
)


@frozen
class FragmentPartition:
    """A frozen record of ``outer`` vectors of ``vec`` elements that a thread copies between its registers and memory.

    Attributes:
        outer: vectors of one thread.
        threads: threads of the scope.
        vec: elements of one vector.
        vec_bits: width of one vector.
        digits: how a thread's id chooses its elements.
        registers: layout of a thread's elements in its registers, from the fragment's first.
        memory: layout of the same elements on the other side, without the digits.
        fragment: the register operand.
        other: the memory operand.
        narrowed: the reason against each wider width.
        guards: the dimensions of the other side that the box may leave; their coordinates are of a thread's own elements.
        edge: the partition for boxes that overhang, where that can be; this one is for boxes that lie inside.
    """

    outer: int
    threads: int
    vec: int
    vec_bits: int
    digits: tuple[Digit, ...]
    registers: TileLayout
    memory: TileLayout
    fragment: Region
    other: Region
    narrowed: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    edge: FragmentPartition | None = None

    @property
    def swizzle(self) -> Swizzle | None:
        """The swizzle of the memory operand."""
        return self.memory.swizzle

    @property
    def registers_per_thread(self) -> int:
        """The number of 32-bit registers that each thread has for the fragment."""
        return self.fragment.buffer.registers_per_thread

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        guarded = f", guarded: {', '.join(map(str, self.guards))}" if self.guards else ""
        return (
            f"outer {self.outer} x vec {self.vec} ({self.vec_bits} bits, {self.vec_bits // 8} bytes each) in each of "
            f"{self.threads} threads, {self.fragment.buffer.span_elems} elements per thread{guarded}"
        )

    def offset(self, tid: Int) -> Int:
        """Return the part of the memory operand's element offset that depends on the thread's index."""
        return sum([digit.value(tid) * digit.step for digit in self.digits])

    def along(self, number: int, tid: Int) -> Int:
        """Return the part of a coordinate that depends on the thread. ``number`` is the index of the bounds check."""
        return sum([digit.value(tid) * digit.along[number] for digit in self.digits if digit.along])

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[Any, Any]]:
        """Return ``(destination, source)`` pairs: register ``(thread, element)``, memory offset, or None for a fill."""
        tid, store, moves = request.scope.tid, request.src.buffer.space == "local", list[tuple[Any, Any]]()
        owns = owning_threads(request, self.digits, store=store)
        shape, swizzle, buffer = (self.outer, self.vec), self.swizzle, self.other.buffer
        fills = not store and request.fill is not None
        threads = {symbol: np.arange(self.threads) for symbol in symbols_of(tid)}
        for turn in range(self.outer):
            offset = self.memory.unswizzled.apply(turn, 0, shape=shape)["m"]
            place = np.asarray(evaluate(offset, values) + evaluate(self.offset(tid), {**values, **threads}))
            place = (place if swizzle is None else swizzle.apply(place)) + buffer.storage_offset
            inside = np.ones(self.threads, bool)
            for number, guard in enumerate(self.guards):
                thread_coordinate = evaluate(self.along(number, tid), {**values, **threads})
                at = thread_coordinate + evaluate(guard.position(turn * self.vec), values)
                inside = inside & (at >= 0) & (at < evaluate(guard.size, values))
            register = int(self.registers.apply(turn, 0, shape=shape)["m"])
            for thread in np.flatnonzero(owns & (inside | fills)).tolist():
                first = int(np.broadcast_to(place, (self.threads,))[thread])
                for elem in range(self.vec):
                    thread_coordinate, other = (thread, register + elem), first + elem if inside[thread] else None
                    moves.append((other, thread_coordinate) if store else (thread_coordinate, other))
        return moves


def clip_to_fragment(request: CopyRequest) -> CopyRequest:
    """Return the request with its box clipped to the bounds of the fragment."""
    fragment, other = fragment_and_memory(request)
    if not request.may_exceed_bounds or any(isinstance(start, Expr) for start in fragment.starts):
        return request
    matched = zip(*([d for d, e in enumerate(r.extents) if e != 1] for r in (fragment, other)), strict=False)
    starts, extents = list(fragment.starts), list(fragment.extents)
    other_starts, other_extents = list(other.starts), list(other.extents)
    for dim, facing in matched:
        first = max(0, -int(starts[dim]))
        last = min(extents[dim], fragment.buffer.shape[dim] - int(starts[dim]))
        if last <= first:
            return request
        starts[dim], other_starts[facing] = starts[dim] + first, other_starts[facing] + first
        extents[dim] = other_extents[facing] = last - first
    if tuple(extents) == fragment.extents:
        return request
    fragment_box = Region(fragment.buffer, tuple(starts), tuple(extents))
    facing_box = Region(other.buffer, tuple(other_starts), tuple(other_extents))
    dst, src = (fragment_box, facing_box) if request.dst is fragment else (facing_box, fragment_box)
    return attrs.evolve(request, dst=dst, src=src)


def fragment_inside(request: CopyRequest) -> str | None:
    """Check that the register operand's box is in bounds, or that elements out of bounds need no copy."""
    fragment, _ = fragment_and_memory(request)
    dims = [dim for dim in range(len(fragment.starts)) if request.may_exceed_bounds and any(fragment.exceeds(dim))]
    if dims and any(any(fragment_and_memory(clip_to_fragment(request))[0].exceeds(dim)) for dim in dims):
        return f"{fragment} must be in bounds in dimension {dims[0]} of the register operand, because elements out of bounds have no registers: copy only the part in bounds"
    if dims and request.src is fragment and request.fill is not None:
        return (
            f"{fragment} must be in bounds in dimension {dims[0]} of the register operand, because no thread fills elements out of bounds: "
            "use the variant ragged to fill them"
        )
    return None


def sliced_other(request: CopyRequest) -> str | None:
    """Check that the memory operand's box has a layout over memory and has no replicas."""
    _, other = fragment_and_memory(request)
    cut = slice_layout("destination" if other is request.dst else "source", other)
    if isinstance(cut, Decline):
        return cut.reason
    if cut.replica:
        return f"operand {other.buffer.name} must not have replicas, got {list(cut.replica)}"
    return None


def fragment_partition(request: CopyRequest) -> FragmentPartition | Decline:
    """Return the partition of the register layout into the widest vectors. Return Decline if no vector fits.

    If the memory operand may overhang, ``edge`` has the widest vectors that are wholly inside or outside.
    """
    _, other = fragment_and_memory(request)
    inside = _induce_partition(request, ())
    guards = guards_of(other) if request.may_exceed_bounds else ()
    if not guards or isinstance(inside, Decline):
        return inside
    edge = _induce_partition(request, guards)
    if isinstance(edge, Decline):
        return Decline(f"for edge tiles: {edge.reason}")
    return attrs.evolve(inside, edge=edge)


def _induce_partition(request: CopyRequest, guards: tuple[Guard, ...]) -> FragmentPartition | Decline:
    """Return the partition whose vectors fit some guards."""
    fragment, other = fragment_and_memory(request)
    layout, memory = fragment.sliced_layout(), slice_layout("other", other)
    assert layout is not None
    assert isinstance(memory, TileLayout)
    pairs = refine(layout.shard, memory.shard, *(guard.coordinates.shard for guard in guards))
    if pairs is None:
        return Decline(f"{fragment} ({layout}) and {other} ({memory}) must share a factorization of their extents")
    digits = digits_of([pair for pair in pairs if pair[0].axis != m], layout, thread_axes(fragment))
    if isinstance(digits, Decline):
        return digits
    private = [(step, register, *along) for register, step, *along in pairs if register.axis == m]
    partitions = [_vectors(request, layout, memory, digits, order, guards) for order in orders_of(private)]
    return max(partitions, key=lambda each: each.vec_bits if isinstance(each, FragmentPartition) else 0)


def _vectors(
    request: CopyRequest,
    layout: TileLayout,
    memory: TileLayout,
    digits: tuple[Digit, ...],
    order: list[Pair],
    guards: tuple[Guard, ...],
) -> FragmentPartition | Decline:
    """Return the partition for one order of a thread's private elements."""
    fragment, other = fragment_and_memory(request)
    memory_iters, register_iters = [pair[0] for pair in order], [pair[1] for pair in order]
    moving = [digit for digit in digits if not digit.replica and digit.extent > 1]
    thread_iters = [Iter(digit.extent, digit.step) for digit in moving]
    owned = tuple(guard.over([pair[2 + n] for pair in order]) for n, guard in enumerate(guards))
    reached = [
        guard.over([*(Iter(digit.extent, digit.along[n]) for digit in moving), *guard.coordinates.shard])
        for n, guard in enumerate(owned)
    ]
    count = prod(it.extent for it in memory_iters)
    runs = (
        Run(other, [*thread_iters, *memory_iters], memory.offset_on(m), memory.swizzle),
        Run(fragment, register_iters, layout.offset_on(m)),
    )

    def contiguous(vec: int) -> str | None:
        whole = vec == 1 or (memory_iters and memory_iters[-1].extent % vec == 0)
        if not whole:
            return f"a thread's {count} elements must include {vec} contiguous elements for a vector, but include none"
        return next(filter(None, (guard.why_split(vec) for guard in reached)), None)

    width = widest(runs, WIDTHS_BITS, contiguous)
    if isinstance(width, Decline):
        return width
    bits, narrowed = width
    vec = bits // fragment.buffer.dtype.bits
    return FragmentPartition(
        count // vec,
        request.scope.threads,
        vec,
        bits,
        digits,
        TileLayout.of(register_iters, (), {m: layout.offset_on(m)}),
        memory.with_iters(memory_iters),
        fragment,
        other,
        narrowed,
        owned,
    )
