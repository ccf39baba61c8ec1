"""Who holds what: every place of a fragment's box as (thread, register, element), and what each thread needs."""

from __future__ import annotations

from itertools import product
from typing import Any, TypeAlias

import attrs
import numpy as np

from tilecopy_core.plugin import CopyRequest, Decline, Region, TileLayout, axis_index, by_thread, frozen, m
from tilecopy_partitions import refine, thread_axes, why_no_owners

WARP_THREADS = 32

Array: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@frozen(eq=False)
class Holdings:
    """One row for each place of each element, by thread and then by register.

    Attributes:
        thread: index in the scope of the thread that holds it.
        register: element offset in that thread's registers.
        element: row-major index in the box.
    """

    thread: Array
    register: Array
    element: Array


def why_not_fragments(request: CopyRequest) -> str | None:
    """Both operands have layouts of threads and registers that the scope can own."""
    for operand, region in (("destination", request.dst), ("source", request.src)):
        name = region.buffer.name
        if region.buffer.layout.swizzle is not None:
            return f"{operand} {name} has a swizzled layout; registers have no addresses to permute"
        layout = region.sliced_layout()
        if layout is None:
            return (
                f"{operand} {region} is not a layout of its own: the box cuts inside an iter of {region.buffer.layout}"
            )
        # the core's check is of a destination: a source must be held by threads of the scope in the same way
        asked = request if region is request.dst else attrs.evolve(request, dst=request.src, src=request.dst)
        if why := why_no_owners(asked, layout):
            return why
    return None


def holdings(request: CopyRequest, region: Region) -> Holdings:
    """Every place of a box, for the threads of the request's scope; axes that the layout does not name repeat it."""
    layout = region.sliced_layout()
    assert layout is not None
    axes = thread_axes(region)
    coordinates = [
        np.asarray(by_thread(axis_index(a, request.scope.tid), request.scope.threads), np.int64) for a in axes
    ]
    extents = [int(places.max()) + 1 for places in coordinates]
    place = _places(layout)
    owner, wanted = np.zeros(request.scope.threads, np.int64), np.zeros_like(place["m"])
    for axis, own, extent in zip(axes, coordinates, extents, strict=True):
        owner, wanted = owner * extent + own, wanted * extent + place.get(axis.name, 0)
    row, thread = _matches(owner, wanted)
    register, element = place["m"][row], row % layout.size
    order = np.lexsort((register, thread))
    return Holdings(thread[order], register[order], element[order])


def _places(layout: TileLayout) -> dict[str, Array]:
    """Place of each element along each axis, once for each step of the replicas."""
    copies = list(product(*(range(it.extent) for it in layout.replica)))
    flat, inner = np.arange(layout.size), layout.size
    found = {
        axis.name: np.full((len(copies), layout.size), layout.offset_on(axis), np.int64) for axis in (*layout.axes, m)
    }
    for it in layout.shard:
        inner //= it.extent
        found[it.axis.name] += flat // inner % it.extent * int(it.stride)
    for number, steps in enumerate(copies):
        for step, it in zip(steps, layout.replica, strict=True):
            found[it.axis.name][number] += step * int(it.stride)
    return {name: places.ravel() for name, places in found.items()}


@frozen(eq=False)
class Movement:
    """Where each element of the destination comes from: one row for each of its places, by thread and then by register.

    Attributes:
        thread: that needs the element, as its index in the scope.
        into: its place among that thread's registers, in elements.
        element: row-major index in the box.
        holder: the thread that has it: itself where it can be, else the lane of its warp that is nearest (by the exclusive
            or of their indices); -1 where no thread of the warp has it.
        out_of: its place among the holder's registers, the lowest of several.
    """

    thread: Array
    into: Array
    element: Array
    holder: Array
    out_of: Array


def movement(request: CopyRequest) -> Movement:
    """The nearest holder of each element."""
    dst, src = holdings(request, request.dst), holdings(request, request.src)
    count = request.dst.size
    held, wanted = (side.thread // WARP_THREADS * count + side.element for side in (src, dst))
    row, candidate = _matches(held, wanted)
    best = np.lexsort((src.register[candidate], src.thread[candidate] ^ dst.thread[row], row))
    rows, at = np.unique(row[best], return_index=True)
    holder, out_of = np.full(len(wanted), -1, np.int64), np.zeros(len(wanted), np.int64)
    holder[rows], out_of[rows] = src.thread[candidate[best[at]]], src.register[candidate[best[at]]]
    return Movement(dst.thread, dst.register, dst.element, holder, out_of)


def _matches(held: Array, wanted: Array) -> tuple[Array, Array]:
    """Every pair of a row of ``wanted`` and one of ``held`` with the same value, by the former and then by the latter."""
    by_value = np.argsort(held, kind="stable")
    first, last = (np.searchsorted(held, wanted, side, sorter=by_value) for side in ("left", "right"))
    row = np.repeat(np.arange(len(wanted)), last - first)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    return row, by_value[first[row] + nth]


def _same_threads(request: CopyRequest) -> dict[int, int] | None:
    """:func:`own_registers` where both layouts spread their elements over threads by the same iters, else None.

    That is how most are written, and saves writing down the places of every thread.
    """
    dst, src = request.dst.sliced_layout(), request.src.sliced_layout()
    assert dst is not None
    assert src is not None
    axes = set(dst.axes) - {m}
    if dst.replica or src.replica or axes != set(src.axes) - {m}:
        return None
    if any(dst.offset_on(axis) != src.offset_on(axis) for axis in axes):
        return None
    pairs = refine(dst.shard, src.shard)
    if pairs is None:
        return None
    found = [(int(dst.offset_on(m)), int(src.offset_on(m)))]
    for into, out_of in pairs:
        if into.axis != out_of.axis or (into.axis != m and into.stride != out_of.stride):
            return None
        if into.axis == m:
            steps = [(n * int(into.stride), n * int(out_of.stride)) for n in range(into.extent)]
            found = [(to + first, of + second) for to, of in found for first, second in steps]
    return dict(found)


def own_registers(request: CopyRequest) -> dict[int, int] | Decline:
    """The source register of each destination register, where every thread finds its elements in registers of its own.

    Both are element offsets.
    """
    alike = _same_threads(request)
    if alike is not None:
        return alike
    moved = movement(request)
    away = moved.holder != moved.thread
    if away.any():
        return Decline(f"{elsewhere(request, moved, int(np.argmax(away)))}; registers are permuted within a thread")
    pairs: dict[int, tuple[int, int]] = {}
    for row in np.unique(np.stack([moved.into, moved.out_of]), axis=1, return_index=True)[1]:
        into, out_of, thread = int(moved.into[row]), int(moved.out_of[row]), int(moved.thread[row])
        if into in pairs:
            other, where = pairs[into]
            return Decline(
                f"register element {into} of {request.dst.buffer.name} comes from register element {other} of "
                f"{request.src.buffer.name} in thread {where} and from {out_of} in thread {thread}: the threads do not "
                "permute alike"
            )
        pairs[into] = out_of, thread
    return {into: out_of for into, (out_of, _) in pairs.items()}


def elsewhere(request: CopyRequest, moved: Movement, row: int) -> str:
    """Which thread needs the element of a row, and which have it."""
    element, thread = int(moved.element[row]), int(moved.thread[row])
    src = holdings(request, request.src)
    there = sorted({int(t) for t in src.thread[src.element == element]})
    coordinate = ", ".join(str(int(i)) for i in np.unravel_index(element, request.dst.extents))
    return (
        f"element ({coordinate}) of the box is needed in thread {thread} by {request.dst.buffer.name} and held in thread "
        f"{', '.join(map(str, there[:4]))}{' ...' if there[4:] else ''} by {request.src.buffer.name}"
    )
