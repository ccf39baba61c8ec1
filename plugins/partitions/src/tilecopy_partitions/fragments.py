"""Named layouts of matrix instruction operands. A layout gives the thread and register of each element.

Layouts here count 32-bit registers (elements, where those are wider); elements that share one are one more iter, innermost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

from tilecopy_core import LayoutError, RequestError, laneid, warpid, wgid, wid_in_wg
from tilecopy_core.errors import TEXT, checked, did_you_mean, instance_of, one_of, optional, short_repr
from tilecopy_core.layout import Axis, Iter, S, TileLayout, checked_extents, dtype_of, m, row_major

_INT8, _INT4, _FP8 = ("int8", "uint8"), ("int4", "uint4"), ("float8_e4m3fn", "float8_e5m2")
_RESULTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("float16", *_FP8), ("float16", "float32")),
    **dict.fromkeys(("bfloat16", "float32", "float4_e2m1fn"), ("float32",)),
    **dict.fromkeys((*_INT8, *_INT4), ("int32",)),
    "float64": ("float64",),
}
"""Element type of A and B (float32 means tf32) -> the element types of C and D."""
_MMA: Mapping[tuple[int, int], tuple[str, ...]] = {
    (8, 4): ("float64",),
    (8, 16): _INT8,
    (8, 32): _INT4,
    (16, 4): ("float32", "float64"),
    (16, 8): ("float16", "bfloat16", "float32", "float64"),
    (16, 16): ("float16", "bfloat16", *_INT8, *_FP8, "float64"),
    (16, 32): (*_INT8, *_INT4, *_FP8),
    (16, 64): (*_INT4, "float4_e2m1fn"),
}
"""The element types of A and B of mma.sync, by M and K; N is 8."""
_WGMMA: Mapping[int, tuple[str, ...]] = {8: ("float32",), 16: ("float16", "bfloat16"), 32: (*_INT8, *_FP8)}
"""The element types of A and B of wgmma, by K; M is 64."""
_QUADS = S[(4, 2, 4, 4) : (4 @ laneid, 16 @ laneid, 1 @ laneid, 1)]
_PAIRS = S[(4, 2, 2, 2, 2, 2, 2) : (4 @ laneid, 16 @ laneid, 2, 1 @ laneid, 4, 2 @ laneid, 1)]
_M8N8K4 = {
    "A": {"float16": _QUADS},
    "B": {"float16": _QUADS},
    "C": {"float16": S[(4, 2, 4, 8) : (4 @ laneid, 16 @ laneid, 1 @ laneid, 1)], "float32": _PAIRS},
}
"""m8n8k4 of float16: four products, each by lanes 4q..4q+3 and 16+4q..16+4q+3, in elements."""
_TCGEN05: Mapping[str, tuple[int, Callable[[int], TileLayout]]] = {
    "32x32b": (128, lambda n: S[(32, n) : (1 @ laneid, 1)]),
    "16x64b": (128, lambda n: S[(2, 8, n, 2) : (1 @ laneid, 4 @ laneid, 1, 2 @ laneid)]),
    "16x128b": (64, lambda n: S[(2, 8, n, 4) : (1, 4 @ laneid, 2, 1 @ laneid)]),
    "16x256b": (32, lambda n: S[(2, 8, n, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]),
    "16x32bx2": (128, lambda n: S[(16, 2, n) : (1 @ laneid, 16 @ laneid, 1)]),
}
"""The most repeats, and (lanes, 32-bit columns), of tcgen05.ld and st."""
_TCGEN05_TYPES = ("float32", "int32", "uint32", "float16", "bfloat16", "int16", "uint16", *_INT8, *_FP8, *_INT4)
_KNOWN = (
    *(f"m{rows}n8k{depth}" for rows, depth in _MMA),
    *(f"m64n{n}k{depth}" for n in range(8, 257, 8) for depth in _WGMMA),
    *(f"{name}.x{1 << n}" for name, (most, _) in _TCGEN05.items() for n in range(most.bit_length())),
)

_Layouts = dict[str, dict[str, TileLayout]]
"""The layout of each operand of a shape, by name and element type."""


def _pack_elements(layout: TileLayout, dtypes: Iterable[str]) -> dict[str, TileLayout]:
    """Return a layout of registers as a layout of the elements that they hold."""
    layouts = {}
    for name in dtypes:
        register_elems = max(1, 32 // dtype_of(name).bits)
        iters = [
            Iter(it.extent, int(it.stride) * (register_elems if it.axis == m else 1), it.axis) for it in layout.shard
        ]
        layouts[name] = TileLayout.of([*iters, Iter(register_elems, 1)] if register_elems > 1 else iters)
    return layouts


def _results(layout: TileLayout, types: Iterable[str]) -> dict[str, TileLayout]:
    """Return a layout of C for the element types that belong to those of A and B."""
    return dict.fromkeys([result for name in types for result in _RESULTS[name]], layout)


def _mma(rows: int, depth: int) -> _Layouts:
    halves, types, layouts = rows // 8, _MMA[rows, depth], _Layouts({"A": {}, "B": {}})
    for name in types:
        parts = depth // 4 // max(1, 32 // dtype_of(name).bits)
        layouts["A"] |= _pack_elements(S[(halves, 8, parts, 4) : (1, 4 @ laneid, halves, 1 @ laneid)], [name])
        layouts["B"] |= _pack_elements(S[(8, parts, 4) : (4 @ laneid, 1, 1 @ laneid)], [name])
    layouts["C"] = _results(S[(halves, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)], types)
    return {operand: layouts[operand] | _M8N8K4[operand] for operand in layouts} if (rows, depth) == (8, 4) else layouts


def _wgmma(columns: int, depth: int) -> _Layouts:
    types = [name for name in _WGMMA[depth] if columns % 16 == 0 or columns in (8, 24) or name not in _INT8]
    a = S[(4, 2, 8, 2, 4) : (1 @ wid_in_wg, 1, 4 @ laneid, 2, 1 @ laneid)]
    c = S[(4, 2, 8, columns // 8, 4, 2) : (1 @ wid_in_wg, 2, 4 @ laneid, 4, 1 @ laneid, 1)]
    return {"A": _pack_elements(a, types), "C": _results(c, types)}


@cache
def _operands(shape: str) -> _Layouts:
    """Return the operands that a shape has in registers. Raises :class:`RequestError` for an unknown shape."""
    if shape not in _KNOWN and f"{shape}.x1" not in _KNOWN:
        hint = did_you_mean(shape, _KNOWN)
        raise RequestError(
            f"mma_fragment: shape must be the shape of a matrix instruction, got {short_repr(shape)}{hint}"
        )
    if match := re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape):
        rows, columns, depth = map(int, match.groups())
        return _wgmma(columns, depth) if rows == 64 else _mma(rows, depth)
    name, _, count = shape.partition(".x")
    return {"C": _pack_elements(_TCGEN05[name][1](int(count or 1)), _TCGEN05_TYPES)}


@checked(shape=TEXT, operand=one_of("A", "B", "C", "D"))
def mma_fragment(shape: str, operand: str, dtype: Any) -> TileLayout:
    """Return the layout of one operand of a matrix instruction, as defined in the PTX ISA.

    Args:
        shape: of ``mma.sync`` (``"m16n8k16"``), ``wgmma`` (``"m64n128k16"``), or ``tcgen05.ld`` and ``st``
            (``"32x32b.x64"``; one without ``.xN``).
        operand: ``"A"`` as (M, K), ``"B"`` as (N, K), ``"C"`` or ``"D"`` as (M, N). Of tcgen05 it is C as (lanes, columns), and
            (16, 2, columns) of 16x32bx2. m8n8k4 of float16 is four products: (4, 8, 4) and (4, 8, 8).
        dtype: the element type; float32 stands for tf32 in A and B.

    Raises:
        RequestError: the shape does not exist, or does not have that operand of that type in registers.
    """
    dtype_name, known = dtype_of(dtype).name, _operands(shape)
    types = known.get("C" if operand == "D" else operand, {})
    if dtype_name not in types:
        has = "; ".join(f"{name} of {', '.join(known[name])}" for name in known)
        raise RequestError(
            f"mma_fragment: {shape} has no operand {operand} of {dtype_name} in registers; its operands are {has}"
        )
    return types[dtype_name]


@checked(
    LayoutError,
    fragment=instance_of("a TileLayout such as mma_fragment(...)", TileLayout),
    warp_axis=optional(instance_of("an Axis such as wid_in_wg", Axis)),
)
def tile_fragment(
    fragment: TileLayout,
    shape: Sequence[int],
    warps: Sequence[int] = (1, 1),
    *,
    atom: Sequence[int] | None = None,
    warp_axis: Axis | None = None,
) -> TileLayout:
    """Return the layout of a tile that repeats a fragment. Each warp owns one box. Boxes are in row-major order.

    Args:
        fragment: the layout of one instruction's operand.
        shape: of the tile.
        warps: how many warps, or warpgroups where the fragment is one of a warpgroup, lie along each dimension.
        atom: the fragment's own shape; by default its rows end after the iter of 8 groups of lanes, or of 32 lanes.
        warp_axis: the axis that counts them, by default ``warpid``, or ``wgid`` of warpgroups: the warps and warpgroups of a CTA. For a
            copy by a warpgroup, such as those of tcgen05.ld and st, give ``wid_in_wg``.

    Raises:
        LayoutError: the shape is not a multiple of the fragment's times ``warps``, or it is not clear which iters are rows.
    """
    shape, warps = checked_extents(shape, "tile_fragment: shape"), checked_extents(warps, "tile_fragment: warps")
    if atom is None:
        groups = [number for number, it in enumerate(fragment.shard) if it in (Iter(8, 4, laneid), Iter(32, 1, laneid))]
        if len(groups) != 1:
            raise LayoutError(
                f"tile_fragment: the rows of {fragment} are ambiguous: pass the fragment's shape as atom="
            )
        rows = prod(it.extent for it in fragment.shard[: groups[0] + 1])
        atom = rows, fragment.size // rows
    atom_extents = fragment.check_admits(atom, "tile_fragment: atom of fragment")
    if not len(atom_extents) == len(shape) == len(warps) or any(
        size % (extent * count) for size, extent, count in zip(shape, atom_extents, warps, strict=True)
    ):
        raise LayoutError(
            f"tile_fragment: shape and warps must have one number per dimension of the fragment's atom {atom_extents}, and shape must be a multiple of atom times warps, got shape {shape} and warps {warps}"
        )
    counts = [size // (extent * count) for size, extent, count in zip(shape, atom_extents, warps, strict=True)]
    axis = warp_axis or (wgid if any(it.axis == wid_in_wg for it in fragment.shard) else warpid)
    shard: list[Iter] = []
    for d, iters in enumerate(fragment.by_dimension(atom_extents)):
        outer = Iter(warps[d], row_major(warps)[d], axis), Iter(counts[d], row_major(counts)[d] * fragment.span())
        shard += [*(it for it in outer if it.extent > 1), *iters]
    return fragment.with_iters(shard)
