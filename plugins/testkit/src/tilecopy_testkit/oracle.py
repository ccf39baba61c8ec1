"""The oracle: NumPy code that computes the result of a copy from the layouts alone, without lowering the copy.

Arrays hold the memories of the operands as bytes. The last axis has the bytes of one element or register:

=========  =====================================
global     ``(elements, bytes)``
shared     ``(CTAs, elements, bytes)``
local      ``(CTAs, threads, elements, bytes)``
tmem       ``(CTAs, 128 lanes, elements, bytes)`` of all allocated columns
=========  =====================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy.harness import TMEM_LANES

from tilecopy_core.errors import Validator, checked, short_repr

from .copy_case import CASE, CopyCase, Operand

LEAST_COLUMNS = 32
"""The 32-bit columns of the smallest allocation; all are powers of two (PTX ISA, tcgen05.alloc)."""


def addresses(extents: Sequence[int], strides: Sequence[int], offset: int = 0) -> Any:
    """Return row-major addresses in elements: ``offset`` plus the sum of coordinates times strides."""
    return coordinates(extents) @ np.array(strides, np.int64) + offset


def swizzle_address(address: Any, per_element: int, swizzle_len: int, atom_len: int) -> Any:
    """Return an address whose ``swizzle_len`` bits from bit ``per_element`` are XORed with the bits ``atom_len`` above."""
    high = address >> per_element
    low = address & ((1 << per_element) - 1)
    return ((high ^ ((high >> atom_len) & ((1 << swizzle_len) - 1))) << per_element) | low


def coordinates(extents: Sequence[int]) -> Any:
    """Return the coordinates of a box's elements in row-major order, as an array ``(elements, dimensions)``."""
    grids = np.meshgrid(*(np.arange(extent) for extent in extents), indexing="ij")
    return np.stack([grid.ravel() for grid in grids], axis=1) if grids else np.zeros((1, 0), np.int64)


def places(operand: Operand, values: Mapping[str, int]) -> tuple[dict[str, Any], Any]:
    """Return the position of each box element on each layout axis, and a mask of the elements that are in bounds.

    Returns:
        Axis -> an array ``(replicas, elements)``, undefined outside, and an array ``(elements,)`` of bool.
    """
    begin = [start.at(values) for start in operand.starts]
    at = coordinates(operand.extents) + np.array(begin, np.int64)
    inside = np.logical_and.reduce([(c >= 0) & (c < n) for c, n in zip(at.T, operand.shape, strict=True)])
    flat = np.ravel_multi_index(tuple(at.T), operand.shape, mode="clip")
    copies = coordinates([extent for extent, _, _ in operand.replica])
    positions: dict[str, Any] = {}
    for axis in {"m", *(a for _, _, a in (*operand.iters, *operand.replica)), *(a for a, _ in operand.offset)}:
        strides = [stride if a == axis else 0 for _, stride, a in operand.iters]
        axis_addresses = addresses([e for e, _, _ in operand.iters], strides, dict(operand.offset).get(axis, 0))[flat]
        along = np.array([stride if a == axis else 0 for _, stride, a in operand.replica], np.int64)
        positions[axis] = axis_addresses[None, :] + (copies @ along)[:, None]
    if operand.swizzle is not None:
        positions["m"] = swizzle_address(positions["m"], *operand.swizzle)
    positions["m"] = positions["m"] + operand.storage_offset
    return positions, inside


def axis_of_threads(axis: str, tid: Any) -> Any:
    """Return the position of each thread of ``tid`` on a thread axis such as ``laneid``."""
    return {
        "laneid": tid % 32,
        "warpid": tid // 32,
        "wid_in_wg": tid // 32 % 4,
        "wgid": tid // 128,
        "tid_in_wg": tid % 128,
        "tx": tid,
    }[axis]


def threads_of(case: CopyCase, unit: int) -> Any:
    """Return the thread indices of one scope. ``unit`` is the index of the scope in the CTA."""
    unit_threads = case.threads // case.units if case.issued_by == "all" else 1
    return np.arange(unit * unit_threads, unit * unit_threads + unit_threads)


def owners_of(case: CopyCase, operand: Operand, values: Mapping[str, int]) -> tuple[Any, Any, Any, Any]:
    """Return the registers that hold a box, as four index arrays: thread, register, element and replica."""
    positions, inside = places(operand, values)
    tids = threads_of(case, values["unit"])
    mine = np.broadcast_to(inside, positions["m"].shape)[..., None]
    for axis, at in positions.items():
        if axis != "m":
            mine = mine & (at[..., None] == axis_of_threads(axis, tids))
    mine = np.broadcast_to(mine, (*positions["m"].shape, len(tids)))
    replica, element, which = np.nonzero(mine)
    return tids[which], positions["m"][replica, element], element, replica


def memory_shape(case: CopyCase, operand: Operand) -> tuple[int, ...]:
    """Return the shape of the byte array that holds an operand's memory."""
    size, elems = case.elem_bytes, operand.memory_elems
    if operand.space == "global":
        return elems, size
    if operand.space == "shared":  # whole words of 64 bits
        per_word = max(1, 8 // size)
        return case.blocks, -(-elems // per_word) * per_word, size
    if operand.space == "local":
        return case.blocks, case.threads, elems, size
    elems = 1 + sum((e - 1) * s for e, s, a in operand.iters if a == "TCol") + dict(operand.offset).get("TCol", 0)
    columns = max(LEAST_COLUMNS, 1 << (-(-elems * size // 4) - 1).bit_length())
    return case.blocks, TMEM_LANES, columns * 4 // size, size


def low_halves(case: CopyCase, operand: Operand) -> bool:
    """Return True if only the lower halves of tensor memory columns hold elements, as with ``.pack::16b``.

    The upper halves hold no elements, and ``.unpack::16b`` leaves undefined values there.
    """
    steps = [step for extent, step, axis in operand.iters if axis == "TCol" and extent > 1]
    return operand.space == "tmem" and case.elem_bytes == 2 and all(step % 2 == 0 for step in steps)


def index_of(
    case: CopyCase, operand: Operand, values: Mapping[str, int], *, rank_offset: int = 0
) -> tuple[tuple[Any, ...], Any]:
    """Return the memory index of every location of a box, and the element at each location.

    An element in registers has one location in each thread that holds it. In tensor memory it has one per replica.
    """
    block = values["block"]
    if rank_offset:
        rank = block % case.cluster
        block = block - rank + (rank + rank_offset) % case.cluster
    if operand.space == "local":
        thread, register, element, _ = owners_of(case, operand, values)
        return (np.full_like(thread, block), thread, register), element
    positions, inside = places(operand, values)
    keep = np.flatnonzero(np.broadcast_to(inside, positions["m"].shape).ravel())
    element = np.broadcast_to(np.arange(len(inside)), positions["m"].shape).ravel()[keep]
    if operand.space == "tmem":
        lane, column = (positions[axis].ravel()[keep] for axis in ("TLane", "TCol"))
        return (np.full_like(lane, block), lane, column), element
    place = positions["m"].ravel()[keep]
    return ((place,) if operand.space == "global" else (np.full_like(place, block), place)), element


def fill_bytes(case: CopyCase) -> Any:
    """Return the bytes that fill an element outside the source. Return None if the copy fills no elements."""
    outside = case.outside
    if outside is None or outside == "keep":
        return None
    size = case.elem_bytes
    if outside == "zero":
        return np.zeros(size, np.uint8)
    element = np.array(outside).astype(tc.dtype_of(case.dtype).numpy())
    return np.frombuffer(element.tobytes(), np.uint8)


def check_memory(where: str, name: str, memory: Any, shape: tuple[int, ...]) -> None:
    """Raise RequestError if ``memory`` is not a C-contiguous array of bytes with this shape."""
    fits = isinstance(memory, np.ndarray) and memory.dtype == np.uint8 and memory.shape == shape
    if not fits or not memory.flags.c_contiguous:
        raise tc.RequestError(
            f"{where}: {name} must be a C-contiguous array of uint8 with shape {shape}, got {short_repr(memory)}"
        )


@checked(
    case=CASE,
    arrays=Validator(
        "two arrays: the bytes of the source and the bytes of the destination", lambda value: len(value) == 2
    ),
)
def expected(case: CopyCase, arrays: Sequence[Any]) -> Any:
    """Return the destination's memory as it must be after the kernel.

    Args:
        case: the case.
        arrays: the bytes of the source's memory and of the destination's memory before the kernel.

    Returns:
        The bytes of the destination's memory. The source does not change.
    """
    for name, memory, operand in zip(("source", "destination"), arrays, (case.src, case.dst), strict=True):
        check_memory("expected: arrays", name, memory, memory_shape(case, operand))
    source, result = arrays[0], arrays[1].copy()
    fill = fill_bytes(case)
    for values in case.values():
        places_of_source, element = index_of(case, case.src, values)
        tile = np.zeros((case.count, case.elem_bytes), np.uint8)
        known = np.zeros(case.count, bool)
        if fill is not None:
            tile[:], known[:] = fill, True
        # if several threads hold an element, all have the same value (see consistent)
        tile[element[::-1]] = source[tuple(part[::-1] for part in places_of_source)]
        known[element] = True
        for where, element in _destinations(case, values):
            moved = known[element]
            result[tuple(part[moved] for part in where)] = tile[element[moved]]
    return result


def count_written(case: CopyCase) -> int:
    """Return the number of element writes to the destination, over all CTAs and iterations."""
    return sum(len(element) for values in case.values() for _, element in _destinations(case, values))


def _destinations(case: CopyCase, values: Mapping[str, int]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the places of a box in each CTA that receives it, and the element at each place, as :func:`index_of` does."""
    for rank_offset in case.rank_offsets:
        yield index_of(case, case.dst, values, rank_offset=rank_offset)


def read_places(case: CopyCase) -> Any:
    """Return a mask of the source elements that the copy reads."""
    read = np.zeros(memory_shape(case, case.src)[:-1], bool)
    for values in case.values():
        read[index_of(case, case.src, values)[0]] = True
    return read


def consistent(case: CopyCase, memory: Any) -> Any:
    """Make all replicas of each source element equal in ``memory``, and return ``memory``."""
    if case.src.space not in ("local", "tmem"):
        return memory
    for values in case.values():
        where, element = index_of(case, case.src, values)
        firsts = np.full(case.count, -1)
        firsts[element[::-1]] = np.arange(len(element))[::-1]
        memory[where] = memory[tuple(part[firsts[element]] for part in where)]
    return memory
