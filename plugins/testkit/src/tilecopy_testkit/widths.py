"""A brute-force search for the widest vector of a copy. The search tries each width on every element and start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import attrs
import numpy as np

from .copy_case import CopyCase, Operand
from .oracle import owners_of, places


def fits(sides: Sequence[Any], vec: int) -> bool:
    """Return True if the elements form aligned vectors of ``vec`` elements that are contiguous in each of ``sides``.

    A side has the place of each element; those of the first side are distinct.
    """
    if len(sides[0]) % vec:
        return False
    order = np.argsort(sides[0], kind="stable")
    for side in sides:
        runs = np.asarray(side)[order].reshape(-1, vec)
        if (runs[:, 0] % vec).any() or (runs != runs[:, :1] + np.arange(vec)).any():
            return False
    return True


def widest(
    places_at: Sequence[Sequence[Any]], elem_bits: int, most_elems: int, threads: int, widths_bits: Sequence[int]
) -> int | None:
    """Return the width in bits of the widest vector that fits every start. Return None if no width fits.

    ``places_at`` has the places on each side for each value, of one thread, or of all ``threads`` that share the elements.
    """
    for bits in widths_bits:
        vec = bits // elem_bits
        if not vec or vec > most_elems:
            continue
        if all(len(sides[0]) % (vec * threads) == 0 and fits(sides, vec) for sides in places_at):
            return bits
    return None


def reachable_values(case: CopyCase) -> Iterator[dict[str, int]]:
    """Yield enough values of the variables to check every start of the boxes."""
    counts = {"block": case.blocks, "turn": case.iterations, "unit": min(case.units, 4)}
    ranges = {name: range(count) for name, count in counts.items()} | {"n": range(0, case.n + 1, case.multiple_of)}
    for values in product(*(range_ if name in case.variables else range(1) for name, range_ in ranges.items())):
        yield dict(zip(ranges, values, strict=True))


def _plain(operand: Operand) -> Operand:
    """Return the operand without swizzle and storage offset."""
    return attrs.evolve(operand, swizzle=None, storage_offset=0)


def brute_force(d: CopyCase, threads: int, widths_bits: Sequence[int]) -> int | None:
    """Return the width in bits of a copy's widest vector. Return None if no width fits.

    The copy's scope has ``threads`` threads, and its instructions have ``widths_bits``. A vector must not exceed the chunk of a
    swizzle, even if the swizzle does not change its elements.
    """
    sides = (d.dst, d.src)
    memories = [o for o in sides if o.space in ("global", "shared")]
    allowed = [bits for bits in widths_bits if all(bits <= max(o.align_bytes, d.elem_bytes) * 8 for o in memories)]
    chunk = min((1 << o.swizzle[0] for o in sides if o.swizzle is not None), default=128)
    elem_bits = d.elem_bytes * 8
    if "local" not in d.spaces:
        judged = [*sides, *(_plain(o) for o in sides if o.swizzle is not None)]
        at = [[places(o, values)[0]["m"][0] for o in judged] for values in reachable_values(d)]
        return widest(at, elem_bits, chunk, threads, allowed)
    by_thread = [thread_places for values in reachable_values(d) for thread_places in _by_thread(d, values)]
    return widest(by_thread, elem_bits, chunk, 1, allowed)


def _by_thread(d: CopyCase, values: Mapping[str, int]) -> Iterator[list[Any]]:
    """Yield, for each thread, the places of its elements in registers and on the other side."""
    fragment, other = (d.src, d.dst) if d.src.space == "local" else (d.dst, d.src)
    thread, register, element, replica = owners_of(d, fragment, values)
    judged = [other, *([_plain(other)] if other.swizzle is not None else [])]
    at = [places(o, values)[0]["m"][0] for o in judged]
    for tid in np.unique(thread):
        mine = (thread == tid) & (replica == replica[thread == tid][0])
        yield [register[mine], *(place[element[mine]] for place in at)]
