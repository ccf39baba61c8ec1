"""Functions that mutate test cases. They enlarge a tile, add tiles or dimensions, change a pitch, and so on.

Each mutator takes a valid case and returns a valid case. Its choices come after those of the draw, so that the simplest
choice does not change the case. The draws of a variant's author are mutated, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import attrs
import tilecopy as tc

from .case_space import CaseSpace, Draw
from .copy_case import AffineStart, AffineTerm, CopyCase, Iters, Operand, stack

SPANS = {32: (1, 3), 64: (2, 3), 128: (3, 3)}
"""Bytes of a row -> swizzle_len and atom_len of the swizzle with this span in chunks of 16 bytes."""
STAGE_BYTES = 1024
"""The sizes of stages are multiples of this, because every swizzle repeats after 1024 bytes."""
Mutator = Callable[[Draw, CaseSpace, CopyCase], CopyCase]


def mutate(draw: Draw, case_space: CaseSpace, case: CopyCase) -> CopyCase:
    """Return a test case after up to four random mutations."""
    one = case_space.variant.threads == "one"
    odds = [False, True, True, True, True, True] if one else [False] * 3 + [True]
    if "tmem" in case.spaces or case.spaces == ("local", "local") or not draw.choose(odds):
        return case
    mutated = _stage(draw, case) if one and draw.choose([True] * 7 + [False]) else case
    for _ in range(draw.choose([0, 1, 2, 2, 3, 4])):
        mutated = draw.choose(MUTATORS)(draw, case_space, mutated)
    if mutated.issued_by == "one":  # more threads fill and store a larger tile
        elems = max(o.memory_elems for o in (mutated.dst, mutated.src))
        mutated = attrs.evolve(mutated, threads=max(mutated.threads, min(256, 1 << (elems // 17).bit_length())))
    return mutated


def _places(operand: Operand) -> list[list[int]] | None:
    """Return the indices of the iters of each dimension, or None if an iter belongs to two dimensions."""
    places, place = list[list[int]](), 0
    for extent in operand.shape:
        dim_places = list[int]()
        while place < len(operand.iters) and (prod(operand.iters[p][0] for p in dim_places) < extent or not dim_places):
            if not dim_places and extent == 1 != operand.iters[place][0]:
                break
            dim_places.append(place)
            place += 1
        if prod(operand.iters[p][0] for p in dim_places) != extent:
            return None
        places.append(dim_places)
    return places if place == len(operand.iters) else None


def _common_dims(d: CopyCase) -> list[tuple[int, int]]:
    """Return pairs of the dimensions of destination and source with an extent above 1."""
    dims = [[dim for dim, extent in enumerate(o.extents) if extent > 1] for o in (d.dst, d.src)]
    return list(zip(*dims, strict=True))


def _change_both(
    d: CopyCase, dims: Sequence[Any], change: Callable[[Operand, Any], Operand | None], **more: Any
) -> CopyCase:
    """Return the case with both operands changed, each along its dimension, or unchanged if one cannot be changed."""
    dst = change(d.dst, dims[0])
    src = None if dst is None else change(d.src, dims[1])
    return d if dst is None or src is None else attrs.evolve(d, dst=dst, src=src, **more)


def _extend(operand: Operand | None, dim: int, times: int) -> Operand | None:
    """Return the operand with a box ``times`` as long along a dimension."""
    return operand and attrs.evolve(operand, extents=_put(operand.extents, dim, times * operand.extents[dim]))


def _put(values: Sequence[Any], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _elems(d: CopyCase, bytes_: int) -> int:
    return max(1, bytes_ // d.elem_bytes)


def _stride_between(d: CopyCase, operand: Operand, draw: Draw) -> int:
    """Draw the stride in elements from one tile of this layout to the next."""
    elems = operand.memory_elems - operand.storage_offset
    if operand.space == "local":
        return elems
    grain = _elems(d, draw.choose([STAGE_BYTES, 128, 16]))
    return -(-elems // grain) * grain


def _tile(operand: Operand, dim: int, tiles: Iters) -> Operand | None:
    """Return the operand with tiles along a dimension, at the places that the iters define."""
    places = _places(operand)
    if places is None:
        return None
    before, times = sum(map(len, places[:dim])), prod(extent for extent, _, _ in tiles)
    iters = (*operand.iters[:before], *tiles, *operand.iters[before:])
    return attrs.evolve(operand, shape=_put(operand.shape, dim, times * operand.shape[dim]), iters=iters)


def _make_wider(operand: Operand, dim: int, more: int) -> Operand | None:
    """Return the operand with a longer dimension, and with larger strides above the stride of this dimension."""
    places = _places(operand)
    if places is None or len(places[dim]) != 1 or operand.shape[dim] == 1 or operand.space == "local":
        return None
    extent, step, axis = operand.iters[places[dim][0]]
    iters = _push_strides(operand.iters, step, more * step)
    iters = _put(iters, places[dim][0], (extent + more, step, axis))
    return attrs.evolve(operand, shape=_put(operand.shape, dim, extent + more), iters=iters)


def _push_strides(iters: Iters, above: int, more: int) -> Iters:
    """Return iters with larger strides: each stride above a limit grows by ``more`` for every row that it spans."""

    def push(stride: int) -> int:
        rows = prod(extent for extent, inner, _ in iters if above < inner < stride)
        return stride + rows * more if stride > above > 0 else stride

    return tuple((extent, push(stride), axis) for extent, stride, axis in iters)


def _make_longer(draw: Draw, d: CopyCase, operand: Operand, dim: int, times: int) -> Operand | None:
    """Return the operand ``times`` as long along a dimension: wider, or in tiles (of a multiple of four, odd ones may be in the second half)."""
    if draw.choose([False, False, True] if operand.space == "global" else [True, True, False]):
        step = _stride_between(d, operand, draw)
        halves = times % 4 == 0 and draw.choose([False, True])
        tiles = ((times // 2, step, "m"), (2, step * (times // 2), "m")) if halves else ((times, step, "m"),)
        return _tile(operand, dim, tiles)
    return _make_wider(operand, dim, (times - 1) * operand.shape[dim])


def _side(draw: Draw, d: CopyCase) -> tuple[str, Operand]:
    sides = {name: operand for name, operand in (("dst", d.dst), ("src", d.src)) if operand.space != "local"}
    name = draw.choose(list(sides))
    return name, sides[name]


def _stage(draw: Draw, d: CopyCase) -> CopyCase:
    """Make the tile in shared memory a stage of a ring, copied whole, with or without a swizzle."""
    for name in ("dst", "src"):
        operand: Operand = getattr(d, name)
        places = _places(operand)
        if operand.space != "shared" or places is None or any(len(dim_places) != 1 for dim_places in places):
            continue
        iters, starts, shape = list(operand.iters), list(operand.starts), list(operand.shape)
        order, step, swizzle = sorted(range(len(shape)), key=lambda dim: iters[places[dim][0]][1]), 1, None
        span = draw.choose([0, *SPANS])
        for dim in order:
            starts[dim], shape[dim] = AffineStart(0), operand.extents[dim]
            iters[places[dim][0]] = (shape[dim], step, "m")
            step *= shape[dim]
            row = step * d.elem_bytes
            # the rows of the innermost dimension are at least a span apart
            if shape[dim] > 1 and span and (row < span or row % span == 0):
                step, swizzle = max(step, _elems(d, span)), (_elems(d, 16).bit_length() - 1, *SPANS[span])
            span = span if step == 1 else 0
        stages = draw.choose([1, 2, 3])
        stage = -(-step // _elems(d, STAGE_BYTES)) * _elems(d, STAGE_BYTES)
        iters.insert(0, (stages, stage, "m"))
        offset_elems = draw.choose([0, 0, 1]) * _elems(d, STAGE_BYTES)
        operand = attrs.evolve(
            operand,
            shape=(stages, *shape),
            extents=(1, *operand.extents),
            starts=(AffineStart(draw.choose(range(stages))), *starts),
            iters=tuple(iters),
            swizzle=swizzle,
            offset=(),
            storage_offset=offset_elems,
            align_bytes=STAGE_BYTES,
        )
        d = _with(d, name, operand)
    return d


def _with(d: CopyCase, name: str, operand: Operand, **more: Any) -> CopyCase:
    return attrs.evolve(d, **{name: operand, **more})


# ------------------------------------------------------------------------------------------------- the ways


def _lengthen(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Lengthen the box along a dimension with more tiles, independently in each operand."""
    pairs, times = _common_dims(d), draw.choose([2, 4, 2, 3, 32, 40])
    if not pairs:
        return d

    def lengthen(operand: Operand, dim: int) -> Operand | None:
        return _extend(_make_longer(draw, d, operand, dim, times), dim, times)

    return _change_both(d, draw.choose([pairs[-1], *pairs]), lengthen)


def _add_dimension(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Add a dimension: a row of tiles."""
    return _change_both(d, (2, 2), lambda operand, extent: stack(operand, extent, _stride_between(d, operand, draw)))


def _slice(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Make an operand a part of a buffer or fragment that is twice as long along a dimension."""
    name = draw.choose(["dst", "src"])
    operand: Operand = getattr(d, name)
    dim = draw.choose(range(len(operand.shape)))
    longer = _make_longer(draw, d, operand, dim, 2)
    if longer is None:
        return d
    start = operand.starts[dim]
    if operand.space == "local" and (start.base < 0 or start.base + operand.extents[dim] > operand.shape[dim]):
        return d  # where it overhangs there would be registers now
    base = start.base + draw.choose([operand.shape[dim], 0])
    return _with(d, name, attrs.evolve(longer, starts=_put(operand.starts, dim, attrs.evolve(start, base=base))))


def _pad_rows(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Pad the rows of an operand by 8, 16 or 32 bytes, or by one element."""
    name, operand = _side(draw, d)
    step = draw.choose(operand.iters)[1]
    more = _elems(d, draw.choose([16, 32, 8, 1]))
    return _with(d, name, attrs.evolve(operand, iters=_push_strides(operand.iters, step, more)))


def _move_start(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Add an offset to a buffer in its memory, or to the layout in the buffer."""
    name, operand = _side(draw, d)
    more = _elems(d, draw.choose([16, STAGE_BYTES, 32, 128, 1]))
    how = draw.choose(["storage offset", "storage offset", "storage offset", "offset", "address"])
    if how == "storage offset":
        return _with(d, name, attrs.evolve(operand, storage_offset=operand.storage_offset + more))
    if how == "address":
        return _with(d, name, attrs.evolve(operand, align_bytes=max(d.elem_bytes, min(operand.align_bytes, 128))))
    return _with(d, name, attrs.evolve(operand, offset=(("m", dict(operand.offset).get("m", 0) + more),)))


def _permute(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Swap two dimensions in both operands."""
    pairs = _common_dims(d)
    if len(pairs) < 2:
        return d
    first = draw.choose(range(len(pairs) - 1))

    def exchange(operand: Operand, dims: tuple[int, int]) -> Operand | None:
        places, order = _places(operand), list(range(len(operand.shape)))
        if places is None:
            return None
        order[dims[0]], order[dims[1]] = dims[1], dims[0]
        parts: dict[str, Any] = {
            part: tuple(getattr(operand, part)[dim] for dim in order) for part in ("shape", "extents", "starts")
        }
        return attrs.evolve(operand, iters=tuple(operand.iters[p] for dim in order for p in places[dim]), **parts)

    return _change_both(d, list(zip(*pairs[first : first + 2], strict=True)), exchange)


def _interleave(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Split an iter into two, the inner with the larger stride, so that neighbours are not contiguous."""
    name, operand = _side(draw, d)
    place, factor = draw.choose(range(len(operand.iters))), draw.choose([2, 4])
    extent, step, axis = operand.iters[place]
    if extent % factor or extent == factor or operand.space == "global":
        return d
    two = ((extent // factor, step, axis), (factor, step * (extent // factor), axis))
    return _with(d, name, attrs.evolve(operand, iters=(*operand.iters[:place], *two, *operand.iters[place + 1 :])))


def _over_warps(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Repeat a warp's fragment over the warps of a warpgroup or CTA, each with its own box."""
    scope, warps, axis = draw.choose([("cta", 2, "warpid"), ("warpgroup", 4, "wid_in_wg"), ("cta", 4, "warpid")])
    pairs = _common_dims(d)
    if (d.scope, d.threads) != ("warp", 32) or "local" not in d.spaces or not pairs:
        return d

    def repeat(operand: Operand, dim: int) -> Operand | None:
        if operand.space != "local":
            return _extend(_make_longer(draw, d, operand, dim, warps), dim, warps)
        whole = operand.extents[dim] == operand.shape[dim]
        return _extend(_tile(operand, dim, ((warps, 1, axis),)), dim, warps) if whole else None

    return _change_both(d, draw.choose(pairs), repeat, scope=scope, threads=32 * warps)


def _cut_edge(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Make the global array, or the tile in shared memory, begin or end inside the box."""
    sides = sorted(("dst", "src"), key=lambda side: getattr(d, side).space)
    pairs, name = _common_dims(d), draw.choose([sides[0]] * 4 + [sides[1]])
    operand: Operand = getattr(d, name)
    places = _places(operand)
    if not case_space.variant.edges or d.outside is not None or operand.space == "local" or not pairs or places is None:
        return d
    dim = draw.choose(pairs)[name == "src"]
    start, whole = operand.starts[dim], len(places[dim]) == 1
    if whole:
        extent, step, axis = operand.iters[places[dim][0]]
        reach = max(start.at(values) for values in d.values()) + operand.extents[dim]
        size = max(1, min(extent, reach - draw.choose([1, operand.extents[dim] // 2, 8])))
        iters = _put(operand.iters, places[dim][0], (size, step, axis))
        operand = attrs.evolve(operand, shape=_put(operand.shape, dim, size), iters=iters)
    if not whole or draw.choose([False, False, True]):
        base = start.base - draw.choose([_elems(d, 16), 1])
        operand = attrs.evolve(operand, starts=_put(operand.starts, dim, attrs.evolve(start, base=base)))
    outside = draw.choose(["zero", "zero", "zero", "keep", True if tc.dtype_of(d.dtype).kind == "b" else 1])
    return _with(d, name, operand, outside=outside)


def _with_dynamic_shape(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Make the sizes of global arrays known only at launch."""
    return attrs.evolve(d, dynamic_shape="global" in d.spaces)


def _multicast(draw: Draw, case_space: CaseSpace, d: CopyCase) -> CopyCase:
    """Make one CTA of a cluster copy for several by multicast."""
    if d.cluster > 1 or all(option.name != "multicast" for option in case_space.variant.options):
        return d
    mask = draw.choose([0b11, 0b10, 0b1111, 0b1010])
    cluster = 2 if mask < 4 else 4

    def by_cluster(term: AffineTerm) -> AffineTerm:
        return attrs.evolve(term, quotient=cluster * term.quotient) if term.variable == "block" else term

    def change(operand: Operand, _: Any) -> Operand:
        starts = [AffineStart(start.base, tuple(map(by_cluster, start.terms))) for start in operand.starts]
        return attrs.evolve(operand, starts=tuple(starts))

    options = (*d.options, ("multicast", mask))
    return _change_both(d, (0, 0), change, cluster=cluster, blocks=cluster * d.blocks, options=options)


MUTATORS: tuple[Mutator, ...] = (
    *(_lengthen, _lengthen, _lengthen, _add_dimension, _add_dimension, _slice, _pad_rows, _move_start, _permute),
    *(_cut_edge, _cut_edge, _with_dynamic_shape, _multicast, _interleave, _over_warps),
)
"""The mutators; one that is listed several times is drawn more often."""
