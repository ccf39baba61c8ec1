"""Who holds what: every place of a fragment's box as (thread, register, element), and what each thread needs."""

from __future__ import annotations

from itertools import product
from typing import Any, TypeAlias

import attrs
import numpy as np

from tilecopy_core.plugin import (
    CopyRequest,
    Decline,
    Region,
    TileLayout,
    axis_index,
    by_thread,
    m,
    thread_axes,
    why_no_owners,
)

Array: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@attrs.frozen(eq=False)
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
            return f"{operand} {region} is not a layout of its own: the box cuts inside an iter of {region.buffer.layout}"
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
    coordinates = [np.asarray(by_thread(axis_index(a, request.scope.tid), request.scope.threads), np.int64) for a in axes]
    extents = [int(places.max()) + 1 for places in coordinates]
    place = _places(layout)
    owner, wanted = np.zeros(request.scope.threads, np.int64), np.zeros_like(place["m"])
    for axis, own, extent in zip(axes, coordinates, extents, strict=True):
        owner, wanted = owner * extent + own, wanted * extent + place.get(axis.name, 0)
    by_owner = np.argsort(owner, kind="stable")
    first = np.searchsorted(owner, wanted, "left", sorter=by_owner)
    last = np.searchsorted(owner, wanted, "right", sorter=by_owner)
    row = np.repeat(np.arange(len(wanted)), last - first)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    thread = by_owner[first[row] + nth]
    register, element = place["m"][row], row % layout.size
    order = np.lexsort((register, thread))
    return Holdings(thread[order], register[order], element[order])


def _places(layout: TileLayout) -> dict[str, Array]:
    """Place of each element along each axis, once for each step of the replicas."""
    copies = list(product(*(range(it.extent) for it in layout.replica)))
    flat, inner = np.arange(layout.size), layout.size
    found = {axis.name: np.full((len(copies), layout.size), layout.offset_on(axis), np.int64) for axis in (*layout.axes, m)}
    for it in layout.shard:
        inner //= it.extent
        found[it.axis.name] += flat // inner % it.extent * int(it.stride)
    for number, steps in enumerate(copies):
        for step, it in zip(steps, layout.replica, strict=True):
            found[it.axis.name][number] += step * int(it.stride)
    return {name: places.ravel() for name, places in found.items()}


def own_registers(request: CopyRequest) -> dict[int, int] | Decline:
    """The source register of each destination register, where every thread finds its elements in registers of its own.

    Both are element offsets. Of several source registers that hold an element the lowest is taken.
    """
    dst, src = holdings(request, request.dst), holdings(request, request.src)
    count = request.dst.size
    held, first = np.unique(src.thread * count + src.element, return_index=True)
    wanted = dst.thread * count + dst.element
    at = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    missing = held[at] != wanted
    if missing.any():
        return Decline(_elsewhere(request, dst, src, int(np.argmax(missing))))
    source = src.register[first[at]]
    pairs: dict[int, int] = {}
    firsts: dict[int, int] = {}
    for row in np.unique(np.stack([dst.register, source]), axis=1, return_index=True)[1]:
        into, out_of, thread = int(dst.register[row]), int(source[row]), int(dst.thread[row])
        if into in pairs:
            return Decline(
                f"element {into} of a thread's {request.dst.buffer.name} comes from element {pairs[into]} of its "
                f"{request.src.buffer.name} in thread {firsts[into]} and from element {out_of} in thread {thread}: the "
                "threads do not permute alike"
            )
        pairs[into], firsts[into] = out_of, thread
    return pairs


def _elsewhere(request: CopyRequest, dst: Holdings, src: Holdings, row: int) -> str:
    """That an element lies in another thread on each side."""
    element, thread = int(dst.element[row]), int(dst.thread[row])
    there = sorted({int(t) for t in src.thread[src.element == element]})
    where = np.unravel_index(element, request.dst.extents)
    coordinate = ", ".join(str(int(i)) for i in where)
    return (
        f"element ({coordinate}) of the box is needed in thread {thread} by {request.dst.buffer.name} and held in thread "
        f"{', '.join(map(str, there[:4]))}{' ...' if there[4:] else ''} by {request.src.buffer.name}; registers are "
        "permuted within a thread"
    )
