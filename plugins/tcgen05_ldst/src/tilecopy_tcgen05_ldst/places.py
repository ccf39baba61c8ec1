"""The lane and column of tensor memory for each 32-bit register of each thread."""

from __future__ import annotations

import numpy as np

from tilecopy_core.plugin import (
    CopyRequest,
    Decline,
    Expr,
    Int,
    TCol,
    TileLayout,
    TLane,
    frozen,
    is_multiple,
    m,
    symbols_of,
)
from tilecopy_partitions import (
    by_thread,
    element_places,
    fragment_and_memory,
    matching_rows,
    owned_fragment,
    thread_values,
)

from .shapes import LANES, Array


@frozen(eq=False)
class RegisterMap:
    """A frozen record of the lane and column of tensor memory for each register that each warp copies.

    Attributes:
        warps: indices of the warps that own anything.
        registers: of the fragment, counted in 32 bits, the same in every thread.
        lanes: ``[warp, thread, register]``, from the first of the 32 that the warp reaches.
        columns: of 32 bits, likewise, without the start of the box.
        start: column of 32 bits that the box begins at.
        halves: 16 bits of each column are elements, those below.
    """

    warps: Array
    registers: Array
    lanes: Array
    columns: Array
    start: Int
    halves: bool


def map_registers(request: CopyRequest) -> RegisterMap | Decline:
    """Return the lane and column of each register. Return Decline if a register breaks a rule of ``tcgen05.ld``."""
    fragment, tensor = fragment_and_memory(request)
    fragment_layout, tensor_layout = fragment.sliced_layout(), tensor.sliced_layout()
    for region, layout in ((fragment, fragment_layout), (tensor, tensor_layout)):
        if layout is None:
            return Decline(f"{region} must not split an extent of its layout, got {region.buffer.layout}")
    assert fragment_layout is not None
    assert tensor_layout is not None
    why = _why_not_plain(request, fragment_layout, tensor_layout)
    if why is not None:
        return Decline(why)
    tids = _threads(request, tensor_layout)
    if isinstance(tids, Decline):
        return tids
    values = thread_values(request, fragment)
    row_of_tids, row = matching_rows(values.thread, tids % request.scope.threads)
    thread, element_of_thread, element = tids[row_of_tids], values.register[row], values.element[row]
    if not len(thread):
        return Decline(f"at least one thread that executes the copy must own elements of {fragment}, but none does")
    lane, column, copies = _in_tensor(request, tensor_layout, thread, element)
    slab = _slabs(request, thread, lane)
    reached = lane // LANES == slab
    copy = np.argmax(reached, axis=0)
    if not reached.any(axis=0).all():
        first = int(np.argmin(reached.any(axis=0)))
        where = ", ".join(map(str, sorted(set(lane[:, first].tolist()))))
        return Decline(
            f"register element {element_of_thread[first]} of {fragment.buffer.name} in thread {thread[first]} is at lane {where} "
            f"of {tensor.buffer.name}, but its warp can only access lanes {slab[first] * LANES} to {slab[first] * LANES + LANES - 1}"
        )
    row = lane[copy, np.arange(len(thread))]
    if request.dst is tensor:
        why = _why_not_stored(request, thread, row, column, tensor_layout.size * copies)
        if why is not None:
            return Decline(why)
    return _words(request, thread, element_of_thread, row - LANES * slab, column, tensor_layout)


def _why_not_plain(request: CopyRequest, own: TileLayout, there: TileLayout) -> str | None:
    fragment, tensor = fragment_and_memory(request)
    if tensor.buffer.layout.swizzle is not None or any(axis not in (TLane, TCol) for axis in there.axes):
        return f"{tensor.buffer.name} must have a layout over TLane and TCol only, got {tensor.buffer.layout}"
    if any(isinstance(it.stride, Expr) for it in (*there.shard, *there.replica)):
        return f"{tensor.buffer.name}: strides must be known when the kernel is built, got {there}"
    if any(symbol.register != "%tid.x" for symbol in symbols_of(there.offset_on(TLane))):
        return f"{tensor}: the first lane must be known when the kernel is built, got lane {there.offset_on(TLane)}: each warp accesses its own 32 lanes"
    if any(it.axis == TCol for it in there.replica):
        return f"{tensor.buffer.name} must not have replicas along TCol, because an instruction copies each register once, got {there}"
    if any(it.axis == m for it in own.replica):
        return f"register operand {fragment.buffer.name} must not have replicas along the register axis m, got {own}"
    return owned_fragment(request)


def _threads(request: CopyRequest, there: TileLayout) -> Array | Decline:
    """Return the indices of the threads that reach the copy, which must form whole warps."""
    threads = request.active.cta_threads or request.scope.threads
    if request.active.cta_threads is None:  # a plan alone: starts may still name a thread of a larger CTA
        threads = max([threads, *(1 + (symbol.upper or 0) for symbol in symbols_of(there.offset_on(TLane)))])
    if threads % LANES:
        return Decline(
            f"the last warp of scope {request.scope} must have {LANES} threads, because all lanes of a warp execute tcgen05.ld and st, got {threads % LANES} threads"
        )
    mask = request.active.mask
    return np.flatnonzero(np.ones(threads, bool) if mask is None else np.array(mask))


def _in_tensor(request: CopyRequest, there: TileLayout, thread: Array, element: Array) -> tuple[Array, Array, int]:
    """Return the lanes of each register's element as ``[copy, register]``, its column in elements, and the number of copies."""
    place = element_places(TileLayout.of(there.shard, there.replica))
    copies = len(place["m"]) // there.size
    lane, column = (
        place.get(axis.name, np.zeros(len(place["m"]), np.int64)).reshape(copies, -1)[:, element]
        for axis in (TLane, TCol)
    )
    start = np.asarray(by_thread(there.offset_on(TLane), int(thread.max()) + 1))
    return lane + start[thread], column[0], copies


def _slabs(request: CopyRequest, thread: Array, lane: Array) -> Array:
    """Return which of the four groups of 32 lanes each thread's warp reaches."""
    if request.active.cta_threads is None and request.scope.kind == "warp":  # any warp may be meant
        return np.asarray(lane.min(axis=0) // LANES)
    return thread // LANES % 4


def _why_not_stored(request: CopyRequest, thread: Array, row: Array, column: Array, places: int) -> str | None:
    """Return why a place of the destination is not written exactly once by each instance of the scope, or None."""
    fragment, tensor = fragment_and_memory(request)
    unit = thread // request.scope.threads
    written_places, counts = np.unique(np.stack([unit, row, column]), axis=1, return_counts=True)
    if (counts > 1).any():
        _, lane, at = (int(i) for i in written_places[:, int(np.argmax(counts > 1))])
        return (
            f"a store must write each element once, but {int(counts.max())} registers of {fragment.buffer.name} hold the same element of {tensor}: "
            f"lane {lane}, {at} elements after the first column"
        )
    written = written_places.shape[1] // len({*unit.tolist()})
    if written < places:
        return f"the threads that execute the copy must write all {places} elements (replicas included) of {tensor}, but write only {written}"
    return None


def _words(
    request: CopyRequest, thread: Array, register: Array, row: Array, column: Array, there: TileLayout
) -> RegisterMap | Decline:
    """Return the elements grouped by 32-bit registers, which must be the same in all threads."""
    fragment, tensor = fragment_and_memory(request)
    bits, name = fragment.buffer.dtype.bits, fragment.buffer.name
    per = 32 // bits
    place = np.stack([thread, register])
    parts = place.reshape(2, -1, per) if len(thread) % per == 0 else np.full((2, 1, per), -1)
    if (parts[0] != parts[0, :, :1]).any() or (parts[1] != parts[1, :, :1] // per * per + np.arange(per)).any():
        kept = np.array([len(set(group)) == per for group in _groups(place, per)])
        first = int(np.argmin(np.repeat(kept, [len(group) for group in _groups(place, per)])))
        return Decline(
            f"register {register[first] // per} of {name} in thread {thread[first]} must hold {per} elements of {bits} bits, each "
            "copied exactly once"
        )
    own_thread, own_register = parts[0, :, 0], parts[1, :, 0] // per
    tids, counts = np.unique(own_thread, return_counts=True)
    registers = own_register[: counts[0]]
    other = counts != counts[0]
    if not other.any():
        other = (own_register.reshape(len(tids), -1) != registers).any(axis=1)
    if other.any():
        return Decline(
            f"all lanes of a warp must copy the same registers, but thread {tids[int(np.argmax(other))]} and thread "
            f"{tids[0]} copy different registers of {name}"
        )
    start = there.offset_on(TCol) + tensor.buffer.storage_offset
    if not is_multiple(start, per):
        return Decline(
            f"{tensor} must begin at a multiple of {per} elements of {bits} bits in a lane, got element {start}; "
            "registers hold whole columns of 32 bits"
        )
    rows, columns = row.reshape(-1, per), column.reshape(-1, per)
    halves = bits == 16 and not (column % 2).any()
    apart = columns != columns[:, :1] + np.arange(per) * (2 if halves else 1)
    bad = (apart | (rows != rows[:, :1])).any(axis=1) | (columns[:, 0] % per != 0)
    if bad.any():
        first = int(np.argmax(bad))
        return Decline(
            f"register {own_register[first]} of {name} in thread {own_thread[first]} must hold one 32-bit column, or the lower "
            f"halves of two columns, but holds elements {', '.join(map(str, columns[first]))} of lanes {', '.join(map(str, rows[first]))} "
            f"from the start of {tensor}"
        )
    firsts = tids[tids % LANES == 0]
    if not np.array_equal(tids, (firsts[:, None] + np.arange(LANES)).ravel()):
        return Decline(f"all lanes of a warp must own registers of {name}, but only {len(tids)} threads own registers")
    shape = len(firsts), LANES, len(registers)
    lanes, columns = rows[:, 0].reshape(shape), (columns[:, 0] // per).reshape(shape)
    return RegisterMap(firsts // LANES, registers, lanes, columns, start // per, halves)


def _groups(place: Array, per: int) -> list[Array]:
    """Return the elements of each register of each thread."""
    ends = np.flatnonzero((np.diff(place[0]) != 0) | (np.diff(place[1] // per) != 0)) + 1
    return np.split(place[1], ends)
