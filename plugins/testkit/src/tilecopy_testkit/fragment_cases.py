"""Cases between registers and memory, or registers and registers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tilecopy as tc

from .case_space import CaseSpace, Draw, finish, scopes_of, shuffle
from .copy_case import AffineStart, CopyCase, Operand, units_of
from .memory_cases import draw_memory, draw_outside, draw_variables


def _primes(value: int) -> list[int]:
    primes, step = [], 2
    while value > 1:
        while value % step == 0:
            primes.append(step)
            value //= step
        step += 1
    return primes


def _fragment(draw: Draw, shape: Sequence[int], axes: Sequence[tuple[str, int]], repeats: int) -> dict[str, Any]:
    """A layout of a shape in which factors of 2 lie along thread axes and the rest in registers.

    Args:
        draw: chooses.
        shape: extents.
        axes: ``(axis, factors of 2)``.
        repeats: how many of those factors repeat the elements, in one run along the finest axis.
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
    """Between registers and memory, or registers and registers."""
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
    """A shape of one or two dimensions with these prime factors."""
    if draw.choose([False, False, False, True]):
        return [prod(factors)]
    at = draw.choose(range(len(factors) + 1))
    order = shuffle(draw, factors) if draw.choose([False, True]) else list(factors)
    return [prod(order[:at]), prod(order[at:])]
