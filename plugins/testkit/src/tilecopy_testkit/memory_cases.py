"""Cases between global and shared memory, and operands in memory of other cases."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tilecopy as tc

from .case_space import CaseSpace, Draw, finish, scopes_of, shuffle
from .copy_case import AffineStart, AffineTerm, CopyCase, Operand

SWIZZLES = ((0, 2, 3), (2, 2, 2), (3, 3, 3), (1, 3, 4), (4, 1, 1))


def draw_variables(draw: Draw, units: int, *, blocks: bool = True) -> dict[str, int]:
    """How many values each variable has; the scalar's value under ``n``."""
    counts = {"unit": units}
    counts["block"] = draw.choose([1, 1, 1, 2, 3]) if blocks else 1
    counts["turn"] = draw.choose([1, 1, 1, 1, 2, 3])
    counts["n"] = draw.choose([0, 0, 1, 2, 3])
    return counts


def draw_start(
    draw: Draw, counts: dict[str, int], extent: int, grain: int, *, overhang: bool
) -> tuple[AffineStart, int]:
    """A start, and the extent of the dimension that it needs."""
    usable = [v for v in ("block", "turn", "unit") if counts[v] > 1] + (["n"] if counts["n"] else [])
    terms: list[AffineTerm] = []
    reach = 0
    factor = draw.choose([0, 0, 0, 1, 2, 4, 8, 16]) * grain
    if factor and usable:
        name = draw.choose(usable)
        last = counts["n"] * counts["multiple_of"] if name == "n" else counts[name] - 1
        quotient = draw.choose([1, 1, 1, 2]) if last >= 2 else 1
        modulus = draw.choose([0, 0, 0, 0, 2])
        terms.append(AffineTerm(name, factor, quotient, modulus))
        reach = factor * (modulus - 1 if modulus else last // quotient)
        if not modulus and quotient == 1 and draw.choose([False, False, False, True]):  # falling
            terms = [AffineTerm(name, -factor)]
            base = reach
        else:
            base = 0
    else:
        base = 0
    base += draw.choose([0, 0, 0, 1, 2, 4, 8]) * grain
    tail = draw.choose([0, 0, 0, 1, 8])
    falling = bool(terms) and terms[0].factor < 0
    size = base + (0 if falling else reach) + extent + tail
    if overhang:
        cut = draw.choose([0, 0, 1, 3, extent])
        size = max(1, size - tail - cut)
        base -= draw.choose([0, 0, 1, 2])
    return AffineStart(base, tuple(terms)), size


def _strided_layout(draw: Draw, shape: Sequence[int], *, broadcast: bool) -> dict[str, Any]:
    """One stride a dimension: row-major, padded, permuted, with a broadcast."""
    order = list(range(len(shape)))
    if draw.choose([False, False, False, True]):
        order = shuffle(draw, order)
    strides, step = [0] * len(shape), draw.choose([1, 1, 1, 1, 2])
    for dim in reversed(order):
        strides[dim] = step
        step = step * shape[dim] + draw.choose([0, 0, 0, 1, 4, 8])
    if broadcast and draw.choose([False] * 7 + [True]):
        strides[draw.choose(range(len(shape)))] = 0
    return {"iters": tuple((e, s, "m") for e, s in zip(shape, strides, strict=True))}


def _layout(draw: Draw, shape: Sequence[int]) -> dict[str, Any]:
    """Iters of a layout of a shape (permuted, padded, split), an offset and a swizzle."""
    if draw.choose([True, True, False]):
        layout = _strided_layout(draw, shape, broadcast=False)
    else:
        extents: list[int] = []
        for extent in shape:
            split = draw.choose([1, 1, 1, 2, 4, 8])
            extents += [extent // split, split] if extent % split == 0 and split < extent else [extent]
        order = shuffle(draw, range(len(extents)))
        strides, step = [0] * len(extents), 1
        for dim in reversed(order):
            strides[dim] = step
            step = step * extents[dim] + draw.choose([0, 0, 0, 1, 4, 8])
        layout = {"iters": tuple((e, s, "m") for e, s in zip(extents, strides, strict=True))}
    layout["swizzle"] = draw.choose([None, None, None, None, *SWIZZLES])
    offset = draw.choose([0, 0, 0, 0, 1, 4, 8, 16])
    layout["offset"] = (("m", offset),) if offset else ()
    return layout


def draw_memory(
    draw: Draw,
    space: str,
    extents: Sequence[int],
    counts: dict[str, int],
    size: int,
    *,
    lead: bool,
    overhang: bool,
    source: bool,
) -> Operand:
    """An operand in global or shared memory; with ``lead`` each CTA and group has a part of its own."""
    grain = draw.choose([1, max(1, 16 // size), max(1, 16 // size)])
    starts, shape = [], []
    for extent in extents:
        start, needed = draw_start(draw, counts, extent, grain, overhang=overhang)
        starts.append(start)
        shape.append(needed)
    box = list(extents)
    if lead:
        for name in ("unit", "block") if space == "global" else ("unit",):
            if counts[name] > 1:
                starts.insert(0, AffineStart(0, (AffineTerm(name, 1),)))
                shape.insert(0, counts[name])
                box.insert(0, 1)
    if space == "global" and draw.choose([True, True, True, False]):
        layout = _strided_layout(draw, shape, broadcast=source)
    else:
        layout = _layout(draw, shape)
    align = draw.choose([16, 16, 16, 16, 8, 4]) if space == "global" else draw.choose([128, 128, 16, 8])
    offset_elems = draw.choose([0, 0, 0, 0, 2, 4, 8])
    return Operand(
        space,
        tuple(shape),
        tuple(box),
        tuple(starts),
        align_bytes=max(align, min(16, size)),
        storage_offset=offset_elems,
        **layout,
    )


def draw_outside(draw: Draw, case_space: CaseSpace, dtype: str) -> Any:
    """Draw what stands for elements outside, where the variant copies edge tiles."""
    if not case_space.variant.edges:
        return None
    kind = tc.dtype_of(dtype).kind
    return draw.choose([None, None, None, "zero", "keep", True if kind == "b" else 1])


def staged_case(draw: Draw, case_space: CaseSpace, pair: tuple[str, str]) -> CopyCase:
    """Between global and shared memory, by all threads of a scope."""
    scope = draw.choose(scopes_of(case_space, ["cta", "cta", "warp", "thread", "warpgroup"]))
    threads = draw.choose(
        {
            "cta": [32, 1, 2, 5, 24, 48, 64],
            "warp": [32, 64],
            "thread": [1, 2, 3],
            "warpgroup": [128, 128, 128, 256],
        }[scope]
    )
    units = {"cta": 1, "warp": threads // 32, "thread": threads, "warpgroup": threads // 128}[scope]
    unit_threads = threads // units
    dtype = draw.choose(case_space.dtypes)
    dims = draw.choose([2, 1, 2, 3])
    box = [draw.choose([1, 2, 3, 4, 6, 8, 16]) for _ in range(dims)]
    most = draw.choose([48, 48, 48, 192]) if threads < 8 else 48  # past 64 rounds loops are rolled
    while prod(box) > most:
        box[draw.choose(range(dims))] = 1
    if draw.choose([True] * 7 + [False]):
        box[draw.choose(range(dims))] *= unit_threads
    counts = draw_variables(draw, units) | {"multiple_of": draw.choose([1, 1, 2, 4, 8])}
    outside = draw_outside(draw, case_space, dtype)
    size = tc.dtype_of(dtype).bytes
    src, dst = (
        draw_memory(draw, space, box, counts, size, lead=space == "shared" or not source, overhang=over, source=source)
        for space, source, over in zip(
            pair, (True, False), (outside is not None, outside is not None and draw.choose([True, False])), strict=True
        )
    )
    return finish(
        draw, case_space, counts, dtype=dtype, scope=scope, threads=threads, dst=dst, src=src, outside=outside
    )
