"""The source thread and register of each element of the destination."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tilecopy_core.plugin import CopyRequest, Decline, frozen, m
from tilecopy_partitions import matching_rows, refine, thread_values

WARP_THREADS = 32

Array: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


@frozen(eq=False)
class ElementMap:
    """A frozen record of the source of each destination element, with one row per destination register.

    Attributes:
        thread: index in the scope of the thread that needs the element.
        into: offset of the element in that thread's registers, in elements.
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


def map_elements(request: CopyRequest) -> ElementMap:
    """Return the source of each destination element: the nearest thread of the same warp that holds the element."""
    dst, src = thread_values(request, request.dst), thread_values(request, request.src)
    count = request.dst.size
    source_keys, wanted = (side.thread // WARP_THREADS * count + side.element for side in (src, dst))
    row, candidate = matching_rows(source_keys, wanted)
    best = np.lexsort((src.register[candidate], src.thread[candidate] ^ dst.thread[row], row))
    rows, at = np.unique(row[best], return_index=True)
    holder, out_of = np.full(len(wanted), -1, np.int64), np.zeros(len(wanted), np.int64)
    holder[rows], out_of[rows] = src.thread[candidate[best[at]]], src.register[candidate[best[at]]]
    return ElementMap(dst.thread, dst.register, dst.element, holder, out_of)


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
    register_pairs = [(int(dst.offset_on(m)), int(src.offset_on(m)))]
    for into, out_of in pairs:
        if into.axis != out_of.axis or (into.axis != m and into.stride != out_of.stride):
            return None
        if into.axis == m:
            steps = [(n * int(into.stride), n * int(out_of.stride)) for n in range(into.extent)]
            register_pairs = [(to + first, of + second) for to, of in register_pairs for first, second in steps]
    return dict(register_pairs)


def own_registers(request: CopyRequest) -> dict[int, int] | Decline:
    """Return the source register of each destination register. Return Decline if an element must leave its thread.

    Both are element offsets.
    """
    alike = _same_threads(request)
    if alike is not None:
        return alike
    element_map = map_elements(request)
    away = element_map.holder != element_map.thread
    if away.any():
        return Decline(
            f"every element must stay in its thread, but {elsewhere(request, element_map, int(np.argmax(away)))}"
        )
    pairs: dict[int, tuple[int, int]] = {}
    for row in np.unique(np.stack([element_map.into, element_map.out_of]), axis=1, return_index=True)[1]:
        into, out_of, thread = int(element_map.into[row]), int(element_map.out_of[row]), int(element_map.thread[row])
        if into in pairs:
            other, where = pairs[into]
            return Decline(
                f"all threads must permute their registers in the same way, but register element {into} of {request.dst.buffer.name} comes from "
                f"register element {other} of {request.src.buffer.name} in thread {where} and from register element {out_of} in thread {thread}"
            )
        pairs[into] = out_of, thread
    return {into: out_of for into, (out_of, _) in pairs.items()}


def elsewhere(request: CopyRequest, element_map: ElementMap, row: int) -> str:
    """Return a phrase that names the thread that needs an element and the threads that hold the element."""
    element, thread = int(element_map.element[row]), int(element_map.thread[row])
    src = thread_values(request, request.src)
    holders = sorted({int(t) for t in src.thread[src.element == element]})
    coordinate = ", ".join(str(int(i)) for i in np.unravel_index(element, request.dst.extents))
    return (
        f"element ({coordinate}) of the box is needed in thread {thread} by {request.dst.buffer.name} and held in thread "
        f"{', '.join(map(str, holders[:4]))}{' ...' if holders[4:] else ''} by {request.src.buffer.name}"
    )
