"""Random test cases of copies that read or write registers. Some use mma.sync fragments."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tilecopy as tc

from .case_space import CaseSpace, Draw, finish, scopes_of, shuffle, swizzle_parts
from .copy_case import AffineStart, AffineTerm, CopyCase, Iters, Operand, units_of
from .memory_cases import draw_memory, draw_outside, draw_variables

MATRICES: dict[int, tuple[tuple[str, str, str, tuple[int, int]], ...]] = {
    8: (("m16n8k32", "A", "int8", (16, 32)), ("m16n8k32", "B", "int8", (8, 32))),
    16: (
        ("m16n8k16", "A", "float16", (16, 16)),
        ("m16n8k16", "B", "float16", (8, 16)),
        ("m16n8k16", "C", "float16", (16, 8)),
    ),
    32: (("m16n8k8", "A", "float32", (16, 8)), ("m16n8k8", "B", "float32", (8, 8))),
}
"""Bits of an element -> operands of mma.sync with their shapes; all types with as many bits have the same operands."""


def _primes(value: int) -> list[int]:
    primes, step = [], 2
    while value > 1:
        while value % step == 0:
            primes.append(step)
            value //= step
        step += 1
    return primes


def _fragment(draw: Draw, shape: Sequence[int], axes: Sequence[tuple[str, int]], repeats: int) -> dict[str, Any]:
    """Return a layout of a shape with factors of 2 along thread axes, ``(axis, factors)``, and the rest in registers.

    ``repeats`` of these factors repeat the elements, in one run along the finest axis.
    """
    factors = [(dim, factor) for dim, extent in enumerate(shape) for factor in _primes(extent)]
    twos = [place for place, (_, factor) in enumerate(factors) if factor == 2]
    along = [axis for axis, bits in axes for _ in range(bits)]
    finest = axes[-1][0] if axes else "m"
    along = along[: len(along) - repeats]
    if draw.choose([True, True, True, False]):
        first = draw.choose(range(len(twos) - len(along) + 1))
        chosen = twos[first : first + len(along)]
    else:
        chosen = sorted(shuffle(draw, twos)[: len(along)])
    labels = dict(zip(chosen, along, strict=True))
    fused: list[list[Any]] = []  # dim, extent, axis
    for place, (dim, factor) in enumerate(factors):
        axis = labels.get(place, "m")
        if fused and fused[-1][0] == dim and fused[-1][2] == axis:
            fused[-1][1] *= factor
        else:
            fused.append([dim, factor, axis])
    strides = [0] * len(fused)
    replica: tuple[tuple[int, int, str], ...] = ()
    for axis in {axis: None for _, _, axis in fused} | ({finest: None} if repeats else {}):
        axis_places = [place for place, part in enumerate(fused) if part[2] == axis]
        if draw.choose([False, False, True]):
            axis_places = shuffle(draw, axis_places)
        step, before = 1, draw.choose(range(len(axis_places) + 1)) if repeats and axis == finest else -1
        for number, place in enumerate([*reversed(axis_places), -1]):
            if number == before:
                replica = ((1 << repeats, step, axis),)
                step <<= repeats
            if place < 0:
                break
            strides[place] = step
            step = step * fused[place][1] + (draw.choose([0, 0, 0, 0, 2]) if axis == "m" else 0)
    iters = tuple((extent, stride, axis) for (_, extent, axis), stride in zip(fused, strides, strict=True))
    offset = draw.choose([0, 0, 0, 0, 4])
    return {"iters": iters or ((1, 1, "m"),), "replica": replica, "offset": (("m", offset),) if offset else ()}


def fragment_case(draw: Draw, case_space: CaseSpace, pair: tuple[str, str]) -> CopyCase:
    """Draw a copy that reads or writes registers. The other operand is in memory or in registers."""
    scope = draw.choose(scopes_of(case_space, ["warp", "warp", "cta", "warpgroup", "thread"]))
    warpgroup = [128, 128, 128, 256]
    threads = draw.choose({"warp": [32, 64], "cta": [32, 64, 128], "warpgroup": warpgroup, "thread": [1, 2]}[scope])
    units = units_of(scope, threads)
    axes = {
        "warp": [("laneid", 5)],
        "warpgroup": draw.choose([[("wid_in_wg", 2), ("laneid", 5)], [("tid_in_wg", 7)]]),
        "cta": draw.choose([[("warpid", threads.bit_length() - 6), ("laneid", 5)], [("tx", threads.bit_length() - 1)]]),
        "thread": [],
    }[scope]
    dtype = draw.choose(case_space.dtypes)
    if tc.dtype_of(dtype).bits > 64:
        dtype = "float64"
    elems_per_thread = draw.choose([4, 1, 2, 8, 16, 3, 6])
    # several threads may hold an element: the layout repeats it, or does not name an axis that tells them apart
    repeats = draw.choose([0, 0, 0, 1, 2, 3]) if axes else 0
    if len(axes) > 1 and draw.choose([False, False, False, True]):
        axes = axes[1:]
    repeats = min(repeats, axes[-1][1]) if axes else 0
    shape = _split(draw, _primes(max(1, threads // units >> repeats) * elems_per_thread))
    counts = draw_variables(draw, units)
    extents, begin = list(shape), [0] * len(shape)
    if draw.choose([False, False, False, True]):
        dim = draw.choose(range(len(shape)))
        begin[dim] = draw.choose(range(shape[dim]))
        extents[dim] = draw.choose(range(1, shape[dim] - begin[dim] + 1))
    outside = None if pair == ("local", "local") else draw_outside(draw, case_space, dtype)
    if outside is not None and draw.choose([False, False, True]):  # the fragment overhangs too
        dim = draw.choose(range(len(shape)))
        before = draw.choose([0, 1, 2])
        begin[dim], extents[dim] = begin[dim] - before, extents[dim] + before + draw.choose([1, 0, 3])
    size = tc.dtype_of(dtype).bytes
    sides = []
    for source, space in ((True, pair[0]), (False, pair[1])):
        if space == "local":
            layout = _fragment(draw, shape, axes, repeats)
            sides.append(Operand(space, tuple(shape), tuple(extents), tuple(AffineStart(b) for b in begin), **layout))
        else:
            overhang = outside is not None
            sides.append(draw_memory(draw, space, extents, counts, size, overhang=overhang, source=source))
    return finish(
        draw, case_space, counts, dtype=dtype, scope=scope, threads=threads, dst=sides[1], src=sides[0], outside=outside
    )


def _split(draw: Draw, factors: Sequence[int]) -> list[int]:
    """Draw a shape of one or two dimensions with these prime factors."""
    if draw.choose([False, False, False, True]):
        return [prod(factors)]
    at = draw.choose(range(len(factors) + 1))
    order = shuffle(draw, factors) if draw.choose([False, True]) else list(factors)
    return [prod(order[:at]), prod(order[at:])]


class MatrixCase:
    """The operands, dtype and scope of a random copy between mma.sync fragments and memory."""

    def __init__(self, draw: Draw, case_space: CaseSpace) -> None:
        self.draw = draw
        self.dtype = draw.choose([d for d in case_space.dtypes if tc.dtype_of(d).bits in MATRICES] or ["float16"])
        self.unit = max(1, 16 // tc.dtype_of(self.dtype).bytes)  # elements of 16 bytes
        self.name, self.operand, self.of, self.atom = draw.choose(MATRICES[tc.dtype_of(self.dtype).bits])
        scopes = [("warp", 32), ("cta", 64), ("cta", 128), ("warpgroup", 128), ("warp", 64), ("warpgroup", 256)]
        drawn = scopes_of(case_space, ["warp", "cta", "warpgroup"])
        self.scope, self.threads = draw.choose([scope for scope in scopes if scope[0] in drawn])
        self.units = {"cta": 1, "warp": self.threads // 32, "warpgroup": self.threads // 128}[self.scope]

    def draw_fragment(self) -> Operand:
        """Draw the register operand: the fragments of all warps, and the box to copy."""
        draw, warps = self.draw, self.threads // 32 // self.units
        apart = draw.choose([1, 1, *range(1, warps + 1)]) if warps > 1 else 1
        along = (apart, warps // apart) if warps % apart == 0 else (warps, 1)
        alike = self.scope != "warp" and draw.choose([False] * 5 + [True])  # every warp holds the same
        repeats = draw.choose([(1, 1), (1, 2), (2, 1), (2, 2), (2, 2), (1, 4), (1, 3), (3, 2)])
        tile = tuple(a * r * (1 if alike else w) for a, r, w in zip(self.atom, repeats, along, strict=True))
        axis = tc.wid_in_wg if self.scope == "warpgroup" else tc.warpid
        fragment = tc.mma_fragment(self.name, self.operand, self.of)
        layout = tc.tile_fragment(fragment, tile, (1, 1) if alike else along, warp_axis=axis)
        iters: Iters = tuple((it.extent, int(it.stride), it.axis.name) for it in layout.shard)
        replica: Iters = ((warps, 1, axis.name),) if alike else ()
        if self.scope != "warp" and draw.choose([False, False, True]):  # lanes and warps along one axis
            thread_axis = "tid_in_wg" if self.scope == "warpgroup" else "tx"
            steps = {"m": 1, "laneid": 1, axis.name: 32}
            iters, replica = (
                tuple((e, s * steps[a], a if a == "m" else thread_axis) for e, s, a in part)
                for part in (iters, replica)
            )
        extents, begin = list(tile), [0, 0]
        if draw.choose([True, False, False]):
            dim, grain = draw.choose([0, 1]), draw.choose([8] * 6 + [16, 4])
            if tile[dim] > grain:
                begin[dim] = draw.choose(range(0, tile[dim] - grain + 1, grain))
                extents[dim] = draw.choose(range(grain, tile[dim] - begin[dim] + 1, grain))
        return Operand("local", tile, tuple(extents), tuple(map(AffineStart, begin)), iters, replica=replica)

    def draw_memory(self, space: str, extents: tuple[int, ...], iterations: int) -> Operand:
        """Draw the operand in memory. In some draws, a property such as the pitch prevents accesses of 16 bytes."""
        draw, unit = self.draw, self.unit
        inner = draw.choose([1, 1, 0]) if unit == 8 else draw.choose([1] * 7 + [0])  # the dimension that is contiguous
        odd = draw.choose([""] * 6 + ["pitch", "lead", "start", "address", "tiles", "tiles"])
        mode = draw.choose(["none", "none", "32B", "64B", "128B"]) if space == "shared" else "none"
        swizzle = None
        if mode != "none" and odd != "tiles":
            # the swizzle of a wider type permutes within rows
            swizzle = swizzle_parts(mode, draw.choose([self.dtype, self.dtype, "float64"]))
        moved = draw.choose([0, 0, unit, 2 * unit])
        starts = [AffineStart(0), AffineStart(0)]
        starts[inner] = AffineStart(0, (AffineTerm("turn", moved),)) if moved and iterations > 1 else AffineStart(moved)
        shape = list(extents)
        shape[inner] += moved
        grain = unit if swizzle is None else unit << swizzle[1]
        rows, lead_elems = self._rows(shape[inner], shape[1 - inner], grain, odd, self.atom[1 - inner])
        dims = [rows, rows]
        dims[inner] = ((shape[inner], 1, "m"),)
        return Operand(
            space,
            (self.units, *shape),
            (1, *extents),
            (AffineStart(0, (AffineTerm("unit", 1),)) if self.units > 1 else AffineStart(0), *starts),
            ((self.units, lead_elems, "m"), *dims[0], *dims[1]),
            swizzle=swizzle,
            storage_offset=1 if odd == "start" else draw.choose([0, 0, unit]),
            align_bytes=8 if odd == "address" else draw.choose([16, 16, 1024 if space == "shared" else 16]),
        )

    def _rows(self, width: int, height: int, grain: int, odd: str, atom: int) -> tuple[Iters, int]:
        """Draw the iters of rows of a width, perhaps in tiles, and the stride from one unit's rows to the next."""
        draw, unit = self.draw, self.unit
        pitch = -(-width // grain) * grain + draw.choose([0, grain])
        pitch += draw.choose([unit // 2 or 1, 1]) if odd == "pitch" else 0
        halves = [height // 2, height // 2, height // 4, atom]
        tall = draw.choose(halves if odd == "tiles" else [*[height] * 4, *halves])  # rows of a tile in memory
        tall = tall if tall and height % tall == 0 else height
        gap = (unit // 2 or 1) if odd == "tiles" else draw.choose([0, grain])
        rows = ((height // tall, tall * pitch + gap, "m"), (tall, pitch, "m"))[tall == height :]
        lead = -(-(pitch * height + gap * (height // tall)) // grain) * grain
        return rows, lead + (unit // 2 if odd == "lead" else 0)


def matrix_case(draw: Draw, case_space: CaseSpace, pair: tuple[str, str]) -> CopyCase:
    """Draw a copy between fragments of mma.sync and memory."""
    case = MatrixCase(draw, case_space)
    fragment = case.draw_fragment()
    counts = {"unit": case.units, "block": 1, "turn": draw.choose([1, 1, 2]), "n": 0, "multiple_of": 1}
    memory = case.draw_memory(next(space for space in pair if space != "local"), fragment.extents, counts["turn"])
    src, dst = (fragment, memory) if pair[0] == "local" else (memory, fragment)
    return finish(draw, case_space, counts, dtype=case.dtype, scope=case.scope, threads=case.threads, dst=dst, src=src)
