"""Random test cases of copies between global and shared memory. In some test cases, one thread issues the copy."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs
import tilecopy as tc

from tilecopy_core.plugin import row_major

from .case_space import CaseSpace, Draw, finish, scopes_of, shuffle, swizzle_parts
from .copy_case import AffineStart, AffineTerm, CopyCase, Iters, Operand, units_of

THREADS = {"cta": [32, 1, 2, 5, 24, 48, 64], "warp": [32, 64], "thread": [1, 2, 3], "warpgroup": [128, 128, 128, 256]}
Dim = tuple[int, int, AffineStart]
"""The extent of a buffer along a dimension, and the extent and start of a box in it."""
SWIZZLES = ((0, 2, 3), (2, 2, 2), (3, 3, 3), (1, 3, 4), (4, 1, 1))


def draw_variables(
    draw: Draw, units: int, blocks: Sequence[int] = (1, 1, 1, 2, 3), multiples: Sequence[int] = (1, 1, 2, 4, 8)
) -> dict[str, int]:
    """Draw the number of values that each variable takes. The scalar argument has the value ``n * multiple_of``."""
    return {
        "unit": units,
        "block": draw.choose(blocks) if len(blocks) > 1 else 1,
        "turn": draw.choose([1, 1, 1, 1, 2, 3]),
        "n": draw.choose([0, 0, 1, 2, 3]),
        "multiple_of": draw.choose(multiples),
    }


def _draw_dim(draw: Draw, counts: dict[str, int], extent: int, grain: int, *, overhang: bool) -> Dim:
    """Draw the start of a box along a dimension. The dimension is as long as the values of the variables need."""
    usable = [v for v in ("block", "turn", "unit") if counts[v] > 1] + (["n"] if counts["n"] else [])
    terms: tuple[AffineTerm, ...] = ()
    reach, falls = 0, False
    factor = draw.choose([0, 0, 0, 1, 2, 4, 8, 16]) * grain
    if factor and usable:
        name = draw.choose(usable)
        last = counts["n"] * counts["multiple_of"] if name == "n" else counts[name] - 1
        quotient = draw.choose([1, 1, 1, 2]) if last >= 2 else 1
        modulus = draw.choose([0, 0, 0, 0, 2])
        reach = factor * (modulus - 1 if modulus else last // quotient)
        falls = not modulus and quotient == 1 and draw.choose([False, False, False, True])
        terms = (AffineTerm(name, -factor if falls else factor, quotient, modulus),)
    before = draw.choose([0, 0, 0, 1, 2, 4, 8]) * grain
    tail = draw.choose([0, 0, 0, 1, 8])
    base, size = before + reach * falls, before + reach + extent + tail
    if overhang:
        cut = draw.choose([0, 0, 1, 3, extent])
        size = max(1, size - tail - cut)
        base -= draw.choose([0, 0, 1, 2])
    return size, extent, AffineStart(base, terms)


def _one_each(counts: dict[str, int], names: Sequence[str]) -> list[Dim]:
    """Return dimensions along which each CTA, or each group of threads, has its own index; the last name comes first."""
    return [(counts[name], 1, AffineStart(0, (AffineTerm(name, 1),))) for name in reversed(names) if counts[name] > 1]


def along_m(extents: Sequence[int], strides: Sequence[int]) -> Iters:
    """Return layout iters on the memory axis ``m`` with these extents and strides."""
    return tuple((extent, stride, "m") for extent, stride in zip(extents, strides, strict=True))


def _strides(draw: Draw, extents: Sequence[int], order: Sequence[int], step: int) -> list[int]:
    """Return the strides of extents in an order, the last fastest, with padding."""
    strides = [0] * len(extents)
    for dim in reversed(order):
        strides[dim] = step
        step = step * extents[dim] + draw.choose([0, 0, 0, 1, 4, 8])
    return strides


def _strided_layout(draw: Draw, shape: Sequence[int], *, broadcast: bool) -> dict[str, Any]:
    """Draw a layout with one stride per dimension: row-major, padded, permuted, with a broadcast."""
    order = range(len(shape))
    permuted = shuffle(draw, order) if draw.choose([False, False, False, True]) else order
    strides = _strides(draw, shape, permuted, draw.choose([1, 1, 1, 1, 2]))
    if broadcast and draw.choose([False] * 7 + [True]):
        strides[draw.choose(order)] = 0
    return {"iters": along_m(shape, strides)}


def _layout(draw: Draw, shape: Sequence[int]) -> dict[str, Any]:
    """Draw the iters of a layout of a shape (permuted, padded, split), an offset and a swizzle."""
    if draw.choose([True, True, False]):
        layout = _strided_layout(draw, shape, broadcast=False)
    else:
        extents: list[int] = []
        for extent in shape:
            split = draw.choose([1, 1, 1, 2, 4, 8])
            extents += [extent // split, split] if extent % split == 0 and split < extent else [extent]
        strides = _strides(draw, extents, shuffle(draw, range(len(extents))), 1)
        layout = {"iters": along_m(extents, strides)}
    layout["swizzle"] = draw.choose([None, None, None, None, *SWIZZLES])
    offset = draw.choose([0, 0, 0, 0, 1, 4, 8, 16])
    layout["offset"] = (("m", offset),) if offset else ()
    return layout


def draw_memory(
    draw: Draw, space: str, extents: Sequence[int], counts: dict[str, int], size: int, *, overhang: bool, source: bool
) -> Operand:
    """Draw an operand in global or shared memory. Each CTA and scope has its own box, except in a global source."""
    grain = draw.choose([1, max(1, 16 // size), max(1, 16 // size)])
    dims = [_draw_dim(draw, counts, extent, grain, overhang=overhang) for extent in extents]
    if space == "shared" or not source:
        dims = _one_each(counts, ("unit", "block") if space == "global" else ("unit",)) + dims
    shape, box, starts = zip(*dims, strict=True)
    if space == "global" and draw.choose([True, True, True, False]):
        layout = _strided_layout(draw, shape, broadcast=source)
    else:
        layout = _layout(draw, shape)
    align = draw.choose([16, 16, 16, 16, 8, 4]) if space == "global" else draw.choose([128, 128, 16, 8])
    offset_elems = draw.choose([0, 0, 0, 0, 2, 4, 8])
    return Operand(
        space, shape, box, starts, align_bytes=max(align, min(16, size)), storage_offset=offset_elems, **layout
    )


def draw_outside(draw: Draw, case_space: CaseSpace, dtype: str) -> Any:
    """Draw the option ``outside=`` of a copy. Return None if the variant does not copy edge tiles."""
    if not case_space.variant.edges:
        return None
    kind = tc.dtype_of(dtype).kind
    return draw.choose([None, None, None, "zero", "keep", True if kind == "b" else 1])


def staged_case(draw: Draw, case_space: CaseSpace, pair: tuple[str, str]) -> CopyCase:
    """Draw a copy between global and shared memory by all threads of a scope."""
    scope = draw.choose(scopes_of(case_space, ["cta", "cta", "warp", "thread", "warpgroup"]))
    threads = draw.choose(THREADS[scope])
    units = units_of(scope, threads)
    dtype = draw.choose(case_space.dtypes)
    dims = draw.choose([2, 1, 2, 3])
    box = [draw.choose([1, 2, 3, 4, 6, 8, 16]) for _ in range(dims)]
    most = draw.choose([48, 48, 48, 192]) if threads < 8 else 48  # past 64 rounds loops are rolled
    while prod(box) > most:
        box[draw.choose(range(dims))] = 1
    if draw.choose([True] * 7 + [False]):
        box[draw.choose(range(dims))] *= threads // units
    counts = draw_variables(draw, units)
    outside = draw_outside(draw, case_space, dtype)
    size = tc.dtype_of(dtype).bytes
    overhangs = outside is not None and draw.choose([True, False])
    src = draw_memory(draw, pair[0], box, counts, size, overhang=outside is not None, source=True)
    dst = draw_memory(draw, pair[1], box, counts, size, overhang=overhangs, source=False)
    return finish(
        draw, case_space, counts, dtype=dtype, scope=scope, threads=threads, dst=dst, src=src, outside=outside
    )


def bulk_case(draw: Draw, case_space: CaseSpace, pair: tuple[str, str]) -> CopyCase:
    """Draw a copy that one thread issues. In most draws, the size of a row is a multiple of 16 bytes."""
    dtype = draw.choose(case_space.dtypes)
    size = tc.dtype_of(dtype).bytes
    unit = max(1, 16 // size)
    remote = any(option.name == "remote_cta_id" for option in case_space.variant.options)
    rows, columns = draw.choose([4, 1, 2, 8, 3, 16]), unit * draw.choose([2, 1, 4, 8, 3])
    if draw.choose([False] * 9 + [True]):
        columns += draw.choose([1, unit // 2 or 1])
    counts = draw_variables(draw, 1, blocks=[1], multiples=[1, 2, 4, 8])
    cluster = draw.choose([2, 2, 4]) if remote else 1
    counts["block"] = cluster * draw.choose([1, 1, 2]) if remote else draw.choose([1, 1, 2])
    if pair[1] == "global":  # the emulator requires a fence between two bulk writes of one place
        counts["turn"] = 1
    swizzle = draw.choose([None, None, None, *(swizzle_parts(mode, dtype) for mode in ("32B", "64B", "128B"))])
    sides = []
    for source, space in ((True, pair[0]), (False, pair[1])):
        dims = []
        for extent, grain in ((rows, 1), (columns, draw.choose([unit, unit, unit, unit, 1]))):
            varying = counts if draw.choose([True, False]) else counts | {"block": 1, "turn": 1, "n": 0}
            if remote and not source:  # the destination is the same for every CTA that sends
                varying = varying | {"block": 1}
            dims.append(_draw_dim(draw, varying, extent, grain, overhang=False))
        if space == "global" and not source:
            dims = _one_each(counts, ("block",)) + dims
        shape, box, starts = zip(*dims, strict=True)
        if draw.choose([True] * 7 + [False]):
            shape = (*shape[:-1], -(-shape[-1] // unit) * unit)
        pad = draw.choose([0, 0, unit, 2 * unit, 1]) if draw.choose([True, True, False]) else 0
        sides.append(
            Operand(
                space,
                shape,
                box,
                starts,
                along_m(shape, row_major((*shape[:-1], shape[-1] + pad))),
                swizzle=swizzle if space == "shared" and draw.choose([True, True, True, False]) else None,
                storage_offset=draw.choose([0, 0, 0, unit, 2 * unit]),
                align_bytes=16 if space == "global" else 1024,
            )
        )
    parts = {"dtype": dtype, "scope": "thread", "threads": draw.choose([32, 64]), "issued_by": "one"}
    case = finish(draw, case_space, counts, src=sides[0], dst=sides[1], **parts)
    return attrs.evolve(case, cluster=cluster, rank_offset=draw.choose(range(1, cluster)) if cluster > 1 else 0)
