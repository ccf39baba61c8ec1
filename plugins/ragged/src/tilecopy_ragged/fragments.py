"""Copies of register fragments of any size. Each thread loops over its registers and copies elements in the box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from tilecopy_core.plugin import Access, CopyRequest, Decline, Iter, PtxBuilder, Region, Register, evaluate, frozen, m
from tilecopy_partitions import (
    Digit,
    all_of,
    by_owners,
    by_thread,
    digits_of,
    fragment_and_memory,
    opposite,
    owning_threads,
    range_predicate,
    read_local,
    round_indices,
    thread_axes,
    why_no_owners,
    write_local,
)

from .box_offsets import coordinates_of, place_of, tile_layout, why_not_memory, why_unaligned


@frozen
class FragmentElements:
    """A frozen record of a partition of a fragment into single elements, each with its own bounds check.

    Attributes:
        fragment: the register operand.
        other: the memory operand.
        threads: threads of the scope.
        digits: how a thread's id chooses its elements; their steps are row-major indices of the fragment's shape.
        elements: ``(register, row-major index)`` of a thread's own elements, without the digits.
    """

    fragment: Region
    other: Region
    threads: int
    digits: tuple[Digit, ...]
    elements: tuple[tuple[int, int], ...]

    @property
    def vec_bits(self) -> int:
        """The width of one access in bits."""
        return self.fragment.buffer.dtype.bits

    @property
    def registers_per_thread(self) -> int:
        """The number of 32-bit registers that each thread has for the fragment."""
        return self.fragment.buffer.registers_per_thread

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        return (
            f"{len(self.elements)} single elements ({self.vec_bits} bits) in each of {self.threads} threads; only "
            f"the elements in {self.fragment} are copied"
        )

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[Any, Any]]:
        """Return ``(destination, source)`` pairs: register ``(thread, element)``, memory offset, or None for a fill."""
        fragment, other, tid = self.fragment, self.other, request.scope.tid
        store, fills = request.src.buffer.space == "local", request.fill is not None
        owns, first = owning_threads(request, self.digits, store=store), np.zeros(self.threads, np.int64)
        for digit in self.digits:
            first = first + by_thread(digit.value(tid), self.threads) * evaluate(digit.step, values)
        fragment_starts, starts = ([evaluate(start, values) for start in r.starts] for r in (fragment, other))
        sizes = [evaluate(size, values) for size in other.buffer.shape]
        moves, owned_steps = list[tuple[Any, Any]](), set[tuple[int, ...]]()
        facing = _facing(other, fragment)

        def place_at(steps: Sequence[int]) -> int | None:
            """Return an element's offset in the other operand. Return None if the element is out of bounds."""
            coordinates = [start + (steps[facing[dim]] if dim in facing else 0) for dim, start in enumerate(starts)]
            if not all(0 <= c < n for c, n in zip(coordinates, sizes, strict=True)):
                return None
            place, swizzle = place_of(other.buffer, coordinates), other.buffer.layout.swizzle
            return int((place if swizzle is None else swizzle.apply(place)) + other.buffer.storage_offset)

        for register, index in self.elements:
            for thread in np.flatnonzero(owns).tolist():
                at = np.unravel_index(int(first[thread]) + index, fragment.buffer.shape)
                steps = tuple(int(a) - s for a, s in zip(at, fragment_starts, strict=True))
                if not all(0 <= step < extent for step, extent in zip(steps, fragment.extents, strict=True)):
                    continue
                owned_steps.add(steps)
                place = place_at(steps)
                if place is None and (store or not fills):
                    continue
                moves.append((place, (thread, register)) if store else ((thread, register), place))
        if store and fills:
            beyond = (steps for steps in product(*map(range, fragment.extents)) if steps not in owned_steps)
            moves += [(place, None) for steps in beyond if (place := place_at(steps)) is not None]
        return moves


def _facing(other: Region, fragment: Region) -> dict[int, int]:
    """Return the fragment's dimension for each dimension of the other operand."""
    return dict(zip(*([d for d, e in enumerate(r.extents) if e != 1] for r in (other, fragment)), strict=True))


def why_not_fragment(request: CopyRequest) -> str | None:
    """Return why the operands cannot be copied element by element. Return None if they can."""
    fragment, other = fragment_and_memory(request)
    layout, name = tile_layout(fragment), fragment.buffer.name
    if layout.swizzle is not None:
        return f"the layout of register operand {name} must not have a swizzle, because registers have no addresses"
    if any(it.axis == m for it in layout.replica) or other.buffer.layout.replica:
        return f"{fragment} and {other} must not have replicas in memory, got {list(layout.replica)} and {list(other.buffer.layout.replica)}"
    if why := why_not_memory("the other operand", other.buffer):
        return why
    return why_unaligned(other.buffer) or why_no_owners(request, layout)


def fragment_elements(request: CopyRequest) -> FragmentElements | Decline:
    """Return the partition that copies a fragment element by element, for any box."""
    fragment, other = fragment_and_memory(request)
    layout = tile_layout(fragment)
    weight = layout.size
    threads: list[tuple[Iter, ...]] = []
    register_iters: list[tuple[Iter, ...]] = []
    for it in layout.shard:
        weight //= it.extent
        (register_iters if it.axis == m else threads).append((it, Iter(it.extent, weight)))
    digits = digits_of(threads, layout, thread_axes(fragment))
    if isinstance(digits, Decline):
        return digits
    elements = []
    for steps in product(*(range(it.extent) for it, _ in register_iters)):
        register = sum(step * int(it.stride) for step, (it, _) in zip(steps, register_iters, strict=True))
        index = sum(step * int(along.stride) for step, (_, along) in zip(steps, register_iters, strict=True))
        elements.append((register + int(layout.offset.get("m", 0)), index))
    return FragmentElements(fragment, other, request.scope.threads, digits, tuple(elements))


def emit_fragment(request: CopyRequest, partition: FragmentElements, ptx: PtxBuilder) -> None:
    """Emit one bounds-checked access per register, then stores to fill elements that no thread holds."""
    _emit_registers(request, partition, ptx)
    if request.src is partition.fragment:
        _fill_beyond(request, partition, ptx)


def _fill_beyond(request: CopyRequest, partition: FragmentElements, ptx: PtxBuilder) -> None:
    """Fill the destination's elements whose source is outside the fragment, which no thread owns; all threads share the work."""
    source, target, fill, bits = partition.fragment, partition.other, request.fill, partition.vec_bits
    leaving = [d for d in range(len(source.starts)) if request.may_exceed_bounds and any(source.exceeds(d))]
    if not leaving or fill is None:
        return
    count, threads = target.size, partition.threads
    for turn in round_indices(ptx, -(-count // threads)):
        flat = turn * threads + ptx.thread_index(request.scope)
        steps, places = (coordinates_of(flat, region.extents) for region in (source, target))
        inside_source = [
            range_predicate(ptx, steps[d] + source.starts[d], source.buffer.shape[d], source.exceeds(d))
            for d in leaving
        ]
        coordinates = [start + step for start, step in zip(target.starts, places, strict=True)]
        inside_target = [
            range_predicate(ptx, c, n, target.exceeds(d))
            for d, (c, n) in enumerate(zip(coordinates, target.buffer.shape, strict=True))
        ]
        mine = range_predicate(ptx, flat, count, (False, count % threads != 0))
        mask = all_of(ptx, [opposite(ptx, all_of(ptx, inside_source)), *inside_target, mine])
        if mask is not False:
            address = ptx.address(target.buffer, place_of(target.buffer, coordinates), target.buffer.layout.swizzle)
            access = Access(address, mask if isinstance(mask, Register) else None)
            ptx.store(access, bits, ptx.constant(fill, bits), relaxed=request.relaxed)


def _emit_registers(request: CopyRequest, partition: FragmentElements, ptx: PtxBuilder) -> None:
    """Emit one guarded access per register."""
    fragment, other, bits = partition.fragment, partition.other, partition.vec_bits
    store = request.src.buffer.space == "local"
    facing = _facing(other, fragment)
    first = sum([digit.value(ptx.tid) * digit.step for digit in partition.digits])
    with by_owners(ptx, partition.digits, store=store):
        for register, index in partition.elements:
            from_start, inner = [], tile_layout(fragment).size
            for dim, size in enumerate(fragment.buffer.shape):
                inner //= size
                coordinate = (first + index) // inner
                from_start.append((coordinate % size if dim else coordinate) - fragment.starts[dim])
            mine = all_of(ptx, [range_predicate(ptx, c, e) for c, e in zip(from_start, fragment.extents, strict=True)])
            coordinates = [s + (from_start[facing[d]] if d in facing else 0) for d, s in enumerate(other.starts)]
            ends = [other.exceeds(d) if request.may_exceed_bounds else (False, False) for d in range(len(coordinates))]
            sizes = other.buffer.shape
            inside_memory = all_of(
                ptx, [range_predicate(ptx, c, n, e) for c, n, e in zip(coordinates, sizes, ends, strict=True)]
            )
            both = all_of(ptx, [mine, inside_memory])
            if mine is False or (store and both is False):
                continue
            address = ptx.address(other.buffer, place_of(other.buffer, coordinates), other.buffer.layout.swizzle)
            mask = both if isinstance(both, Register) else None
            if store:
                values = read_local(ptx, fragment.buffer, register, bits)
                ptx.store(Access(address, mask), bits, values, relaxed=request.relaxed)
                continue
            into = ptx.regs("b64", 1) if bits == 64 else ptx.regs("b32", max(1, bits // 32))
            if request.fill is not None and inside_memory is not True:
                ptx.fill(into, request.fill)
                both = mine
            if all_of(ptx, [mine, inside_memory]) is not False:
                ptx.load(Access(address, mask), bits, into)
            if both is not False:
                guard = both if isinstance(both, Register) else None
                write_local(ptx, fragment.buffer, register, bits, into, guard=guard)
