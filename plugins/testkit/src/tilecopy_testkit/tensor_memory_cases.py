"""Random test cases for tensor memory: copies from shared memory, and copies to and from registers."""

from __future__ import annotations

from math import prod
from typing import Any

import tilecopy as tc

from .case_space import CaseSpace, Draw, finish, swizzle_parts
from .copy_case import AffineStart, AffineTerm, CopyCase, Iters, Operand

MODES = {16: None, 32: "32B", 64: "64B", 128: "128B"}
"""Bytes of a row of tensor memory's source -> its swizzle."""
ROWS_OF_COPIES: tuple[tuple[Iters, Iters], ...] = (
    (((32, 1, "TLane"),), ((4, 32, "TLane"),)),
    (((128, 1, "TLane"),), ()),
    (((64, 1, "TLane"),), ((2, 64, "TLane"),)),
    (((2, 64, "TLane"), (32, 1, "TLane")), ((2, 32, "TLane"),)),
    (((4, 32, "TLane"),), ()),
    (((128, 1, "TLane"),), ()),
    (((6, 1, "TLane"), (4, 32, "TLane")), ()),
)
"""Lanes and replicas of tensor memory for each shape of tcgen05.cp, and for several of one shape."""


def tensor_case(draw: Draw, case_space: CaseSpace) -> CopyCase:
    """Draw a copy from shared to tensor memory, in rows that a matrix descriptor can describe."""
    dtype = draw.choose(
        [d for d in case_space.dtypes if tc.dtype_of(d).bits in (8, 16, 32, 64)] or list(case_space.dtypes)
    )
    size = tc.dtype_of(dtype).bytes
    unit = 16 // size
    row_bytes = draw.choose([16, 32, 64, 128, 16])
    middle = draw.choose([1, 2, 4, 3]) if row_bytes == 16 else draw.choose([1, 1, 2])
    per_row = row_bytes // size
    lanes, replica = draw.choose(ROWS_OF_COPIES)
    high = prod(extent for extent, _, _ in lanes)
    extra = draw.choose([0, 0, 8, 32])  # rows of the buffer before and after the box
    rows = high + extra
    counts = {"unit": 1, "block": draw.choose([1, 2]), "turn": draw.choose([1, 1, 2]), "n": 0, "multiple_of": 1}
    width = middle * per_row
    iters = ((rows, per_row, "m"), (middle, rows * per_row, "m"), (per_row, 1, "m"))
    options: tuple[tuple[str, Any], ...] = ()
    pair = False
    if any(o.name == "cta_group" for o in case_space.variant.options):
        pair = draw.choose([False, False, True])  # one CTA of two issues the copy of both
        options = (("cta_group", 2 if pair else 1),)
        counts["block"] = draw.choose([2, 2, 4]) if pair else counts["block"]
    mode = MODES[row_bytes]
    swizzle = swizzle_parts(mode, dtype) if mode is not None and draw.choose([True] * 9 + [False]) else None
    first = draw.choose([0, extra, 8]) if extra else 0
    first, box = 0 if first + high > rows else first, (high, width)
    src = Operand(
        "shared",
        (rows, width),
        box,
        (AffineStart(first), AffineStart(0)),
        iters,
        swizzle=swizzle,
        storage_offset=draw.choose([0, 0, 0, 8 * per_row]),
        align_bytes=draw.choose([1024, 1024, 1024, 128]),
    )
    columns: Iters = ((width, 1, "TCol"),)
    if width // unit % 2 == 0 and draw.choose([False, False, True]):  # the halves change places
        half = width // 2
        columns = ((2, half, "TCol"), (half // unit, unit, "TCol"), (unit, 1, "TCol"))
        if half // unit % 2 == 0:
            columns = ((2, unit, "TCol"), (half // unit, 2 * unit, "TCol"), (unit, 1, "TCol"))
    dst = Operand("tmem", box, box, (AffineStart(0), AffineStart(0)), (*lanes, *columns), replica=replica)
    parts = {"scope": "thread", "threads": 256 if high == 128 else 128, "issued_by": "one", "options": options}
    return finish(draw, case_space, counts, dtype=dtype, dst=dst, src=src, cluster=2 if pair else 1, **parts)


RECTANGLES: dict[str, tuple[Iters, Iters]] = {
    "32x32b": (((32, 1, "laneid"),), ((1, 1, "m"),)),
    "16x64b": (((2, 1, "laneid"), (8, 4, "laneid")), ((1, 1, "m"), (2, 2, "laneid"))),
    "16x128b": (((2, 1, "m"), (8, 4, "laneid")), ((1, 2, "m"), (4, 1, "laneid"))),
    "16x256b": (((2, 2, "m"), (8, 4, "laneid")), ((1, 4, "m"), (4, 1, "laneid"), (2, 1, "m"))),
    "16x32bx2": (((16, 1, "laneid"),), ((2, 16, "laneid"), (1, 1, "m"))),
}
"""Shape of tcgen05.ld -> iters of its lanes and columns in 32-bit registers; the iter of extent 1 is repeated."""


def tensor_fragment_case(draw: Draw, case_space: CaseSpace, pair: tuple[str, str]) -> CopyCase:
    """Draw a copy between tensor memory and registers. The box has at most the lanes and columns of one instruction."""
    dtype = draw.choose([d for d in case_space.dtypes if tc.dtype_of(d).bits in (8, 16, 32)] or list(case_space.dtypes))
    per_column = max(1, 4 // tc.dtype_of(dtype).bytes)
    shape = draw.choose(list(RECTANGLES))
    rows, columns = RECTANGLES[shape]
    high = prod(extent for extent, _, _ in rows)
    repeats, more = draw.choose([1, 2, 4, 3, 6, 7]), draw.choose([0, 0, 1, 2])
    scope, threads = draw.choose([("warpgroup", 128), ("warp", 128), ("cta", 128), ("warpgroup", 256), ("cta", 256)])
    units = {"warpgroup": threads // 128, "warp": 4, "cta": 1}[scope]
    halves = per_column == 2 and draw.choose([False, False, True])  # 16 bits a column, or all of it
    upper = draw.choose([False, False, True]) if high == 16 else False
    both = high == 16 and not upper and draw.choose([False, False, True])  # 16 lanes after 16 others

    # the fragment: registers of several elements, repeated (with more of them than are copied), for each warp
    down, across, tile = _register_iters(shape, per_column, repeats, more)
    axis = {"warpgroup": "wid_in_wg", "cta": "warpid", "warp": "laneid"}[scope]
    axis_warps, times = (1 if scope == "warp" else 4), (2 if (scope, threads) == ("cta", 256) else 1)
    iters = ((axis_warps, 1, axis), (1 + both, tile, "m"), *down, (times, 4, "warpid"), *across, (per_column, 1, "m"))
    whole = shape == "16x32bx2" or times == 2
    sliced = 0 if whole else draw.choose(range(more + 1))
    kept = repeats + more if whole else repeats
    unit = prod(e for e, _, _ in columns) * per_column
    unit_lanes = high * (1 + both)
    # the first warp that owns a part of the box, and how many do
    warp, warps = (0, 1) if scope == "warp" else draw.choose([(0, 4), (0, 4), (0, 4), (1, 1), (2, 2)])
    extents = (unit_lanes * warps, unit * kept * times)
    fragment = Operand(
        "local",
        (unit_lanes * axis_warps, unit * (repeats + more) * times),
        extents,
        (AffineStart(unit_lanes * warp), AffineStart(unit * sliced)),
        tuple(it for it in iters if it[0] > 1) or ((1, 1, "m"),),
        offset=(("m", per_column * draw.choose([0, 0, 0, 2])),),
    )

    counts = {"unit": units, "block": draw.choose([1, 1, 2]), "turn": draw.choose([1, 1, 2]), "n": 0, "multiple_of": 1}
    first = AffineStart(unit_lanes * warp)
    lanes: Iters = ((128, 1, "TLane"),)
    if scope == "warp":
        first = AffineStart(16 * upper, (AffineTerm("unit", 32),))
    elif high == 16 and not both:
        lanes = ((4, 32, "TLane"), (16, 1, "TLane"))
    apart = counts if (scope, threads) == ("warpgroup", 256) else counts | {"unit": 1}
    start, reach = _columns(draw, apart, per_column, extents[1])
    memory = Operand(
        "tmem",
        (prod(extent for extent, _, _ in lanes), reach),
        extents,
        (first, start),
        (*lanes, (reach, 2 if halves else 1, "TCol")),
        offset=(("TLane", 16),) if upper and scope != "warp" else (),
    )
    src, dst = (memory, fragment) if pair[0] == "tmem" else (fragment, memory)
    return finish(draw, case_space, counts, dtype=dtype, scope=scope, threads=threads, dst=dst, src=src)


def _columns(draw: Draw, counts: dict[str, int], per_column: int, width: int) -> tuple[AffineStart, int]:
    """Draw the start of a box along the columns of tensor memory, and return it with the extent that it needs."""
    base = per_column * draw.choose([0, 0, 1, 4, 7]) + draw.choose([0] * 9 + [1])
    factors = {"turn": draw.choose([0, 4 * per_column, width]), "block": draw.choose([0, per_column]), "unit": width}
    terms = tuple(AffineTerm(name, factor) for name, factor in factors.items() if factor and counts[name] > 1)
    return AffineStart(base, terms), base + sum(term.factor * (counts[term.variable] - 1) for term in terms) + width


def _register_iters(shape: str, per_column: int, repeats: int, more: int) -> tuple[list[Any], list[Any], int]:
    """Return the iters of a repeated rectangle of lanes and columns, and its number of elements per thread."""
    rows, columns = RECTANGLES[shape]
    parts = [(extent, step * (per_column if axis == "m" else 1), axis) for extent, step, axis in (*rows, *columns)]
    place = parts.index((1, next(step for extent, step, _ in columns if extent == 1) * per_column, "m"))
    widest = max(prod(e for e, _, a in (*rows, *columns) if a == "m"), 1) * per_column
    parts[place] = (repeats + more, widest, "m")
    down, across = parts[: len(rows)], parts[len(rows) :]
    if shape == "16x32bx2" and more:
        across[1] = (repeats + more, per_column, "m")
    return down, across, widest * (repeats + more)
