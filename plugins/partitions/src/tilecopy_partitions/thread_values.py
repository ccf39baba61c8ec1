"""Arrays that give the thread and the register of each element of a fragment."""

from __future__ import annotations

from itertools import product
from typing import Any, TypeAlias

from tilecopy_core.errors import np
from tilecopy_core.plugin import CopyRequest, Expr, Region, TileLayout, frozen, m

from .fragment_owners import axis_index, by_thread, thread_axes

IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@frozen(eq=False)
class ThreadValues:
    """A frozen record of the registers that hold a fragment's elements, sorted by thread, then by register.

    Attributes:
        thread: index in the scope of the thread that holds the element.
        register: element offset in that thread's registers.
        element: row-major index in the box.
    """

    thread: IntArray
    register: IntArray
    element: IntArray


def thread_values(request: CopyRequest, fragment: Region) -> ThreadValues:
    """Return the elements that each thread of the scope holds, with their registers."""
    layout = fragment.sliced_layout()
    assert layout is not None
    places = element_places(layout)
    owner, wanted = np.zeros(request.scope.threads, np.int64), np.zeros_like(places["m"])
    for axis in thread_axes(fragment):
        index = np.asarray(by_thread(axis_index(axis, request.scope.tid), request.scope.threads), np.int64)
        extent = int(index.max()) + 1
        owner, wanted = owner * extent + index, wanted * extent + places.get(axis.name, 0)
    row, thread = matching_rows(owner, wanted)
    register, element = places["m"][row], row % layout.size
    order = np.lexsort((register, thread))
    return ThreadValues(thread[order], register[order], element[order])


def element_places(layout: TileLayout) -> dict[str, IntArray]:
    """Return a dict from axis name to an array of indices, one per replica and element. Run-time offsets count as 0."""
    copies = list(product(*(range(it.extent) for it in layout.replica)))
    flat, inner = np.arange(layout.size), layout.size
    places = dict[str, IntArray]()
    for axis in (*layout.axes, m):
        offset = layout.offset_on(axis)
        places[axis.name] = np.full((len(copies), layout.size), 0 if isinstance(offset, Expr) else offset, np.int64)
    for it in layout.shard:
        inner //= it.extent
        places[it.axis.name] += flat // inner % it.extent * int(it.stride)
    for number, steps in enumerate(copies):
        for step, it in zip(steps, layout.replica, strict=True):
            places[it.axis.name][number] += step * int(it.stride)
    return {name: of_axis.ravel() for name, of_axis in places.items()}


def matching_rows(values: IntArray, wanted: IntArray) -> tuple[IntArray, IntArray]:
    """Return arrays of all ``i`` and ``j`` with ``wanted[i] == values[j]``, ordered by ``i``."""
    by_value = np.argsort(values, kind="stable")
    first, last = (np.searchsorted(values, wanted, side, sorter=by_value) for side in ("left", "right"))
    row = np.repeat(np.arange(len(wanted)), last - first)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    return row, by_value[first[row] + nth]
