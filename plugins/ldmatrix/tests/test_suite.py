"""ldmatrix and stmatrix hold what tilecopy-testkit demands of every variant."""

from __future__ import annotations

from typing import Any

import tilecopy as tc
from tilecopy_testkit import AffineStart, AffineTerm, CopyCase, Operand, VariantSuite

FRAGMENTS = {
    8: [("m16n8k32", "A", "int8", (16, 32)), ("m16n8k32", "B", "int8", (8, 32))],
    16: [
        ("m16n8k16", "A", "float16", (16, 16)),
        ("m16n8k16", "B", "float16", (8, 16)),
        ("m16n8k16", "C", "float16", (16, 8)),
    ],
    32: [("m16n8k8", "A", "float32", (16, 8)), ("m16n8k8", "B", "float32", (8, 8))],
}
"""Operands of mma by the width of an element, and their shapes."""
SCOPES = [("warp", 32), ("warp", 64), ("cta", 64), ("cta", 128), ("warpgroup", 128)]


def fragments(draw: Any, ranges: Any) -> CopyCase | None:
    """A tile of fragments over the warps of a scope, a slice of it, and a padded or swizzled box of shared memory."""
    scope, threads = draw.choose(SCOPES)
    dtype = draw.choose([d for d in ranges.dtypes if tc.dtype_of(d).bits <= 32])
    bits = tc.dtype_of(dtype).bits
    shape, operand, of, atom = draw.choose(FRAGMENTS[bits])
    warps = (
        draw.choose([(w, threads // 32 // w) for w in (1, 2, 4) if threads // 32 % w == 0])
        if scope != "warp"
        else (1, 1)
    )
    repeats = draw.choose([(1, 1), (1, 2), (2, 1), (2, 2), (2, 2), (1, 3), (1, 4), (3, 1), (3, 2)])
    tile = tuple(a * w * r for a, w, r in zip(atom, warps, repeats, strict=True))
    axis = tc.wid_in_wg if scope == "warpgroup" else None
    layout = tc.tile_fragment(tc.mma_fragment(shape, operand, of), tile, warps, warp_axis=axis)
    iters = [(it.extent, it.stride, it.axis.name) for it in layout.shard]
    if scope != "warp" and draw.choose([True, False]):  # lanes and warps as one axis
        whole, each = ("tid_in_wg", 32) if scope == "warpgroup" else ("tx", 32)
        iters = [(e, s if a in ("m", "laneid") else s * each, a if a == "m" else whole) for e, s, a in iters]
    extents, begin = list(tile), [0, 0]
    if draw.choose([True, False]):  # a slice, mostly one of whole matrices
        dim = draw.choose([0, 1])
        grain = draw.choose([8, 8, 8, 16, 4])
        if tile[dim] > grain:
            begin[dim] = draw.choose(range(0, tile[dim] - grain + 1, grain))
            extents[dim] = draw.choose(range(grain, tile[dim] - begin[dim] + 1, grain))
    columns = bits <= 16 and draw.choose([False, True])
    unit, moved = 128 // bits, draw.choose([0, 0, 0, 8, 16])
    turns = draw.choose([1, 1, 2])
    lead = draw.choose([0, 0, 0, 0, unit, 1])
    rows, width = (extents[1], extents[0]) if columns else (extents[0], extents[1])
    pitch = -(-(width + moved) // unit) * unit + draw.choose([0, 0, 0, 0, unit, unit, 2])
    gap = draw.choose([0, 0, unit, unit // 2, unit // 2])  # elements between two tiles of rows
    swizzle = None if gap else draw.choose([None, "32B", "64B", "128B"])
    spelt = None
    if swizzle is not None:
        found = tc.swizzle(swizzle, draw.choose([dtype, dtype, "float64"]))  # of another width it goes inside rows
        spelt = (found.per_element, found.swizzle_len, found.atom_len)
        pitch = -(-pitch // (int(swizzle[:-1]) * 8 // bits)) * (int(swizzle[:-1]) * 8 // bits)
    units = threads // 32 if scope == "warp" else 1
    along = warps[columns], repeats[columns]
    high = rows // draw.choose([1, 1, 1, along[0], along[0] * along[1], along[1]])  # rows of a tile in memory
    high, gap = (high, gap) if high and rows % high == 0 else (rows, 0)
    tiles = ((rows // high, high * pitch + gap, "m"), (high, pitch, "m"))[high == rows :]
    inner = AffineStart(0, (AffineTerm("turn", moved),)) if turns > 1 and moved else AffineStart(moved)
    run = ((width + moved, 1, "m"),)
    starts, full, iters_in_memory = (inner, AffineStart(0)), (width + moved, rows), (*run, *tiles)
    if not columns:
        starts, full, iters_in_memory = starts[::-1], full[::-1], (*tiles, *run)
    shared = Operand(
        "shared",
        (units, *full),
        (1, *extents),
        (AffineStart(0, (AffineTerm("unit", 1),)) if units > 1 else AffineStart(0), *starts),
        ((units, rows * pitch + rows // high * gap, "m"), *iters_in_memory),
        swizzle=spelt,
        storage_offset=lead,
        align_bytes=draw.choose([1024, 16, 16, 16, 8]),
    )
    local = Operand("local", tile, tuple(extents), tuple(map(AffineStart, begin)), tuple(iters))
    src, dst = (shared, local) if ranges.spaces[0][0] == "shared" else (local, shared)
    made = CopyCase(
        op="copy",
        dtype=dtype,
        scope=scope,
        threads=threads,
        target=draw.choose(ranges.targets),
        dst=dst,
        src=src,
        iterations=turns,
    )
    return made if fits(made) else None


def fits(made: CopyCase) -> bool:
    """Whether the kit would run it."""
    sides = {side.space: side for side in (made.src, made.dst)}
    shared = sides["shared"].memory_elems
    return (
        shared <= 192 + 16 * made.threads and shared * made.elem_bytes <= 16384 and sides["local"].memory_elems <= 256
    )


class TestLdmatrix(VariantSuite):
    plugin = "ldmatrix"
    draws = staticmethod(fragments)


class TestStmatrix(VariantSuite):
    plugin = "stmatrix"
    draws = staticmethod(fragments)
