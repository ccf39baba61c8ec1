"""Drawing descriptions: one function for hypothesis, which shrinks, and for seeds, which are quick."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol, TypeVar

import attrs
import tilecopy as tc

from tilecopy_core.errors import checked, instance_of, one_of, tuple_of

from .closing import varied
from .description import Description, Operand, Start, Term
from .validators import DTYPES as DTYPES_ASKED
from .validators import MAYBE_FUNCTION, PAIR, SPACES, TARGETS, VARIANT

T = TypeVar("T")

DTYPES = (
    "float16",
    "float32",
    "uint8",
    "bfloat16",
    "float64",
    "int8",
    "bool",
    "float8_e4m3fn",
    "float8_e5m2",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "complex64",
    "complex128",
)
"""Element types that are drawn unless others are asked for."""
SWIZZLES = ((0, 2, 3), (2, 2, 2), (3, 3, 3), (1, 3, 4), (4, 1, 1))
MODES = {16: None, 32: "32B", 64: "64B", 128: "128B"}
"""Bytes of a row of tensor memory's source -> its swizzle."""
MOST_BYTES = 16384
"""Of the memory behind an operand."""
MOST_REGISTERS = 256
"""Elements of a fragment that a thread has."""
MOST_COLUMNS = 128
"""Of 32 bits of tensor memory."""
MOST_TURNS = 16
"""Elements of shared memory that each thread fills and shows."""


class Draw(Protocol):
    """Where choices come from."""

    def pick(self, options: Sequence[T]) -> T:
        """One of some; the first is the simplest."""


class Seeded:
    """Choices that follow from a seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def pick(self, options: Sequence[T]) -> T:
        """One of some."""
        return options[int(self._random.random() * len(options))]


def shuffled(draw: Draw, items: Sequence[T]) -> list[T]:
    """All of some in a drawn order; the given one is the simplest."""
    left, found = list(items), []
    while left:
        found.append(left.pop(draw.pick(range(len(left)))))
    return found


@attrs.frozen
class Ranges:
    """What is drawn for a variant.

    Attributes:
        variant: its record.
        spaces: ``(source, destination)`` pairs.
        dtypes: element types.
        targets: architectures.
        own: draws descriptions of the author's, or None where a draw has none; most draws are its.
    """

    variant: tc.Variant = attrs.field(validator=VARIANT)
    spaces: tuple[tuple[str, str], ...] = attrs.field(validator=tuple_of(PAIR))
    dtypes: tuple[str, ...] = attrs.field(validator=tuple_of(one_of(*tc.DTYPES)))
    targets: tuple[str, ...] = attrs.field(validator=tuple_of(one_of(*tc.TARGETS)))
    own: Callable[[Draw, Ranges], Description | None] | None = attrs.field(default=None, validator=MAYBE_FUNCTION)

    @classmethod
    @checked(variant=VARIANT, spaces=SPACES, dtypes=DTYPES_ASKED, targets=TARGETS, own=MAYBE_FUNCTION)
    def of(
        cls,
        variant: tc.Variant,
        spaces: Sequence[tuple[str, str]] | None = None,
        dtypes: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        own: Callable[[Draw, Ranges], Description | None] | None = None,
    ) -> Ranges:
        """What a record claims, or the part of it that is asked for."""
        claimed = variant.targets
        if any("tmem" in pair for pair in variant.spaces):
            claimed = tuple(t for t in claimed if tc.target_of(t).suffix and tc.target_of(t).arch < 120)
        return cls(
            variant,
            tuple((source, destination) for source, destination in spaces or variant.spaces),
            tuple(dtypes or DTYPES),
            tuple(targets or claimed),
            own,
        )

    @checked(description=instance_of("a Description", Description))
    def have(self, description: Description) -> bool:
        """Whether a description is one of these."""
        return (
            description.op == self.variant.op
            and description.spaces in self.spaces
            and description.dtype in self.dtypes
            and description.target in self.targets
        )


def describe(draw: Draw, ranges: Ranges) -> Description | None:
    """One description, or None where what was drawn is too large to be run."""
    if ranges.own is not None and draw.pick([True, True, True, False]):
        own = ranges.own(draw, ranges)
        if own is not None and ranges.have(own):
            return _closed(draw, ranges, own)
    variant = ranges.variant
    pair = draw.pick(ranges.spaces)
    found: Description
    if "tmem" in pair:
        found = _tensor_fragments(draw, ranges, pair) if "local" in pair else _tensor(draw, ranges)
    elif variant.threads == "one":
        found = _bulk(draw, ranges, pair)
    elif "local" in pair:
        matrices = set(pair) != {"local"} and draw.pick([False, False, False, True, True])
        found = (_matrices if matrices else _fragments)(draw, ranges, pair)
    else:
        found = _staged(draw, ranges, pair)
    return None if _too_large(found) else _closed(draw, ranges, found)


def _closed(draw: Draw, ranges: Ranges, description: Description) -> Description:
    """What :mod:`.closing` makes of a draw; the draw itself where that is too large to be run."""
    found = varied(draw, ranges, description)
    return description if _too_large(found) else found


def _too_large(description: Description) -> bool:
    """Whether an operand's memory would take long to be filled and shown."""
    for operand in (description.dst, description.src):
        elems, space = operand.memory_elems, operand.space
        if space == "shared" and elems > 192 + MOST_TURNS * description.threads:
            return True
        if space == "local" and elems > MOST_REGISTERS:
            return True
        if space in ("global", "shared") and elems * description.elem_bytes > MOST_BYTES:
            return True
        reach = sum((extent - 1) * step for extent, step, axis in operand.iters if axis == "TCol")
        if space == "tmem" and reach * description.elem_bytes >= MOST_COLUMNS * 4:
            return True
    return False


def seeded(ranges: Ranges, seed: int | str) -> Description:
    """The description of a seed."""
    draw = Seeded(seed)
    while (found := describe(draw, ranges)) is None:
        pass
    return found


# ------------------------------------------------------------------------------------------------- parts


def _variables(draw: Draw, units: int, *, blocks: bool = True) -> dict[str, int]:
    """How many values each variable has; the scalar's value under ``n``."""
    counts = {"unit": units}
    counts["block"] = draw.pick([1, 1, 1, 2, 3]) if blocks else 1
    counts["turn"] = draw.pick([1, 1, 1, 1, 2, 3])
    counts["n"] = draw.pick([0, 0, 1, 2, 3])
    return counts


def _start(draw: Draw, counts: dict[str, int], extent: int, grain: int, *, overhang: bool) -> tuple[Start, int]:
    """A start, and the extent of the dimension that it needs."""
    usable = [v for v in ("block", "turn", "unit") if counts[v] > 1] + (["n"] if counts["n"] else [])
    terms: list[Term] = []
    reach = 0
    factor = draw.pick([0, 0, 0, 1, 2, 4, 8, 16]) * grain
    if factor and usable:
        name = draw.pick(usable)
        last = counts["n"] * counts["multiple_of"] if name == "n" else counts[name] - 1
        quotient = draw.pick([1, 1, 1, 2]) if last >= 2 else 1
        modulus = draw.pick([0, 0, 0, 0, 2])
        terms.append(Term(name, factor, quotient, modulus))
        reach = factor * (modulus - 1 if modulus else last // quotient)
        if not modulus and quotient == 1 and draw.pick([False, False, False, True]):  # falling
            terms = [Term(name, -factor)]
            base = reach
        else:
            base = 0
    else:
        base = 0
    base += draw.pick([0, 0, 0, 1, 2, 4, 8]) * grain
    tail = draw.pick([0, 0, 0, 1, 8])
    falling = bool(terms) and terms[0].factor < 0
    size = base + (0 if falling else reach) + extent + tail
    if overhang:
        cut = draw.pick([0, 0, 1, 3, extent])
        size = max(1, size - tail - cut)
        base -= draw.pick([0, 0, 1, 2])
    return Start(base, tuple(terms)), size


def _strided(draw: Draw, shape: Sequence[int], *, broadcast: bool) -> dict[str, Any]:
    """One stride a dimension: row-major, padded, permuted, with a broadcast."""
    order = list(range(len(shape)))
    if draw.pick([False, False, False, True]):
        order = shuffled(draw, order)
    strides, step = [0] * len(shape), draw.pick([1, 1, 1, 1, 2])
    for dim in reversed(order):
        strides[dim] = step
        step = step * shape[dim] + draw.pick([0, 0, 0, 1, 4, 8])
    if broadcast and draw.pick([False] * 7 + [True]):
        strides[draw.pick(range(len(shape)))] = 0
    return {"iters": tuple((e, s, "m") for e, s in zip(shape, strides, strict=True))}


def _layout(draw: Draw, shape: Sequence[int]) -> dict[str, Any]:
    """Iters of a layout of a shape (permuted, padded, split), an offset and a swizzle."""
    if draw.pick([True, True, False]):
        found = _strided(draw, shape, broadcast=False)
    else:
        extents: list[int] = []
        for extent in shape:
            split = draw.pick([1, 1, 1, 2, 4, 8])
            extents += [extent // split, split] if extent % split == 0 and split < extent else [extent]
        order = shuffled(draw, range(len(extents)))
        strides, step = [0] * len(extents), 1
        for dim in reversed(order):
            strides[dim] = step
            step = step * extents[dim] + draw.pick([0, 0, 0, 1, 4, 8])
        found = {"iters": tuple((e, s, "m") for e, s in zip(extents, strides, strict=True))}
    found["swizzle"] = draw.pick([None, None, None, None, *SWIZZLES])
    offset = draw.pick([0, 0, 0, 0, 1, 4, 8, 16])
    found["offset"] = (("m", offset),) if offset else ()
    return found


def _memory(
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
    grain = draw.pick([1, max(1, 16 // size), max(1, 16 // size)])
    starts, shape = [], []
    for extent in extents:
        start, needed = _start(draw, counts, extent, grain, overhang=overhang)
        starts.append(start)
        shape.append(needed)
    box = list(extents)
    if lead:
        for name in ("unit", "block") if space == "global" else ("unit",):
            if counts[name] > 1:
                starts.insert(0, Start(0, (Term(name, 1),)))
                shape.insert(0, counts[name])
                box.insert(0, 1)
    if space == "global" and draw.pick([True, True, True, False]):
        layout = _strided(draw, shape, broadcast=source)
    else:
        layout = _layout(draw, shape)
    align = draw.pick([16, 16, 16, 16, 8, 4]) if space == "global" else draw.pick([128, 128, 16, 8])
    own = draw.pick([0, 0, 0, 0, 2, 4, 8])
    return Operand(
        space, tuple(shape), tuple(box), tuple(starts), align_bytes=max(align, min(16, size)), own_start=own, **layout
    )


def _outside(draw: Draw, ranges: Ranges, dtype: str) -> Any:
    if not ranges.variant.edges:
        return None
    kind = tc.dtype_of(dtype).kind
    return draw.pick([None, None, None, "zero", "keep", True if kind == "b" else 1])


def _whole(ranges: Ranges, counts: dict[str, int], **description: Any) -> Description:
    return Description(
        op=ranges.variant.op,
        blocks=counts["block"],
        turns=counts["turn"],
        n=counts["n"] * counts["multiple_of"],
        multiple_of=counts["multiple_of"],
        **description,
    )


# ------------------------------------------------------------------------------------------------- kinds of copies


def _scopes(ranges: Ranges, scopes: list[str]) -> list[str]:
    """The scopes to draw: what completes by groups of wgmma is a warpgroup's (PTX ISA, "wgmma.commit_group")."""
    return ["warpgroup"] if ranges.variant.completion == "wgmma_group" else scopes


def _staged(draw: Draw, ranges: Ranges, pair: tuple[str, str]) -> Description:
    """Between global and shared memory, by all threads of a scope."""
    scope = draw.pick(_scopes(ranges, ["cta", "cta", "warp", "thread", "warpgroup"]))
    threads = draw.pick(
        {
            "cta": [32, 1, 2, 5, 24, 48, 64],
            "warp": [32, 64],
            "thread": [1, 2, 3],
            "warpgroup": [128, 128, 128, 256],
        }[scope]
    )
    units = {"cta": 1, "warp": threads // 32, "thread": threads, "warpgroup": threads // 128}[scope]
    each = threads // units
    dtype = draw.pick(ranges.dtypes)
    dims = draw.pick([2, 1, 2, 3])
    box = [draw.pick([1, 2, 3, 4, 6, 8, 16]) for _ in range(dims)]
    most = draw.pick([48, 48, 48, 192]) if threads < 8 else 48  # past 64 rounds loops are rolled
    while prod(box) > most:
        box[draw.pick(range(dims))] = 1
    if draw.pick([True] * 7 + [False]):
        box[draw.pick(range(dims))] *= each
    counts = _variables(draw, units) | {"multiple_of": draw.pick([1, 1, 2, 4, 8])}
    outside = _outside(draw, ranges, dtype)
    size = tc.dtype_of(dtype).bytes
    src, dst = (
        _memory(draw, space, box, counts, size, lead=space == "shared" or not source, overhang=over, source=source)
        for space, source, over in zip(
            pair, (True, False), (outside is not None, outside is not None and draw.pick([True, False])), strict=True
        )
    )
    return _whole(
        ranges,
        counts,
        dtype=dtype,
        scope=scope,
        threads=threads,
        target=draw.pick(ranges.targets),
        dst=dst,
        src=src,
        outside=outside,
    )


def _primes(value: int) -> list[int]:
    found, step = [], 2
    while value > 1:
        while value % step == 0:
            found.append(step)
            value //= step
        step += 1
    return found


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
    if draw.pick([True, True, True, False]):
        first = draw.pick(range(len(twos) - len(along) + 1))
        chosen = twos[first : first + len(along)]
    else:
        chosen = sorted(shuffled(draw, twos)[: len(along)])
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
        own = [place for place, part in enumerate(fused) if part[2] == axis]
        if draw.pick([False, False, True]):
            own = shuffled(draw, own)
        step, before = 1, draw.pick(range(len(own) + 1)) if repeats and axis == finest else -1
        for number, place in enumerate([*reversed(own), -1]):
            if number == before:
                replica = ((1 << repeats, step, axis),)
                step <<= repeats
            if place < 0:
                break
            strides[place] = step
            step = step * fused[place][1] + (draw.pick([0, 0, 0, 0, 2]) if axis == "m" else 0)
    iters = tuple((extent, stride, axis) for (_, extent, axis), stride in zip(fused, strides, strict=True))
    offset = draw.pick([0, 0, 0, 0, 4])
    return {"iters": iters or ((1, 1, "m"),), "replica": replica, "offset": (("m", offset),) if offset else ()}


def _fragments(draw: Draw, ranges: Ranges, pair: tuple[str, str]) -> Description:
    """Between registers and memory, or registers and registers."""
    scope = draw.pick(_scopes(ranges, ["warp", "warp", "cta", "warpgroup", "thread"]))
    warpgroup = [128, 128, 128, 256]
    threads = draw.pick({"warp": [32, 64], "cta": [32, 64, 128], "warpgroup": warpgroup, "thread": [1, 2]}[scope])
    units = {"cta": 1, "warp": threads // 32, "thread": threads, "warpgroup": threads // 128}[scope]
    axes = {
        "warp": [("laneid", 5)],
        "warpgroup": draw.pick([[("wid_in_wg", 2), ("laneid", 5)], [("tid_in_wg", 7)]]),
        "cta": draw.pick([[("warpid", threads.bit_length() - 6), ("laneid", 5)], [("tx", threads.bit_length() - 1)]]),
        "thread": [],
    }[scope]
    dtype = draw.pick(ranges.dtypes)
    if tc.dtype_of(dtype).bits > 64:
        dtype = "float64"
    own = draw.pick([4, 1, 2, 8, 16, 3, 6])
    # several threads may hold an element: the layout repeats it, or does not name an axis that tells them apart
    repeats = draw.pick([0, 0, 0, 1, 2, 3]) if axes else 0
    if len(axes) > 1 and draw.pick([False, False, False, True]):
        axes = axes[1:]
    repeats = min(repeats, axes[-1][1]) if axes else 0
    shape = _split(draw, _primes(max(1, threads // units >> repeats) * own))
    counts = _variables(draw, units) | {"multiple_of": draw.pick([1, 1, 2, 4, 8])}
    extents, begin = list(shape), [0] * len(shape)
    if draw.pick([False, False, False, True]):
        dim = draw.pick(range(len(shape)))
        begin[dim] = draw.pick(range(shape[dim]))
        extents[dim] = draw.pick(range(1, shape[dim] - begin[dim] + 1))
    outside = None if pair == ("local", "local") else _outside(draw, ranges, dtype)
    if outside is not None and draw.pick([False, False, True]):  # the fragment overhangs too
        dim = draw.pick(range(len(shape)))
        before = draw.pick([0, 1, 2])
        begin[dim], extents[dim] = begin[dim] - before, extents[dim] + before + draw.pick([1, 0, 3])
    size = tc.dtype_of(dtype).bytes
    sides = []
    for source, space in ((True, pair[0]), (False, pair[1])):
        if space == "local":
            layout = _fragment(draw, shape, axes, repeats)
            sides.append(Operand(space, tuple(shape), tuple(extents), tuple(Start(b) for b in begin), **layout))
        else:
            lead = space == "shared" or not source
            found = _memory(draw, space, extents, counts, size, lead=lead, overhang=outside is not None, source=source)
            sides.append(found)
    return _whole(
        ranges,
        counts,
        dtype=dtype,
        scope=scope,
        threads=threads,
        target=draw.pick(ranges.targets),
        dst=sides[1],
        src=sides[0],
        outside=outside,
    )


MATRICES: dict[int, tuple[tuple[str, str, str, tuple[int, int]], ...]] = {
    8: (("m16n8k32", "A", "int8", (16, 32)), ("m16n8k32", "B", "int8", (8, 32))),
    16: (
        ("m16n8k16", "A", "float16", (16, 16)),
        ("m16n8k16", "B", "float16", (8, 16)),
        ("m16n8k16", "C", "float16", (16, 8)),
    ),
    32: (("m16n8k8", "A", "float32", (16, 8)), ("m16n8k8", "B", "float32", (8, 8))),
}
"""Operands of mma.sync by the bits of an element, with their shapes; those of other types of so many bits are alike."""


def _matrices(draw: Draw, ranges: Ranges, pair: tuple[str, str]) -> Description:
    """Fragments of mma.sync, side by side in registers and warps, and rows or columns of 16 bytes in memory."""
    dtype = draw.pick([d for d in ranges.dtypes if tc.dtype_of(d).bits in MATRICES] or ["float16"])
    name, operand, of, atom = draw.pick(MATRICES[tc.dtype_of(dtype).bits])
    scopes = [("warp", 32), ("cta", 64), ("cta", 128), ("warpgroup", 128), ("warp", 64), ("warpgroup", 256)]
    drawn = _scopes(ranges, ["warp", "cta", "warpgroup"])
    scope, threads = draw.pick([each for each in scopes if each[0] in drawn])
    units = {"cta": 1, "warp": threads // 32, "warpgroup": threads // 128}[scope]
    warps = threads // 32 // units
    apart = draw.pick([1, 1, *range(1, warps + 1)]) if warps > 1 else 1
    along = (apart, warps // apart) if warps % apart == 0 else (warps, 1)
    alike = scope != "warp" and draw.pick([False] * 5 + [True])  # every warp holds the same
    repeats = draw.pick([(1, 1), (1, 2), (2, 1), (2, 2), (2, 2), (1, 4), (1, 3), (3, 2)])
    tile = tuple(a * r * (1 if alike else w) for a, r, w in zip(atom, repeats, along, strict=True))
    axis = tc.wid_in_wg if scope == "warpgroup" else tc.warpid
    layout = tc.tile_fragment(tc.mma_fragment(name, operand, of), tile, (1, 1) if alike else along, warp_axis=axis)
    iters = tuple((it.extent, int(it.stride), it.axis.name) for it in layout.shard)
    replica: _Iters = ((warps, 1, axis.name),) if alike else ()
    if scope != "warp" and draw.pick([False, False, True]):  # lanes and warps along one axis
        whole, each = ("tid_in_wg" if scope == "warpgroup" else "tx"), {"m": 1, "laneid": 1, axis.name: 32}
        iters, replica = (
            tuple((e, s * each[a], a if a == "m" else whole) for e, s, a in part) for part in (iters, replica)
        )

    extents, begin = list(tile), [0, 0]
    if draw.pick([True, False, False]):
        dim, grain = draw.pick([0, 1]), draw.pick([8] * 6 + [16, 4])
        if tile[dim] > grain:
            begin[dim] = draw.pick(range(0, tile[dim] - grain + 1, grain))
            extents[dim] = draw.pick(range(grain, tile[dim] - begin[dim] + 1, grain))
    fragment = Operand("local", tile, tuple(extents), tuple(map(Start, begin)), iters, replica=replica)

    counts = {"unit": units, "block": 1, "turn": draw.pick([1, 1, 2]), "n": 0, "multiple_of": 1}
    space = next(each for each in pair if each != "local")
    unit = max(1, 16 // tc.dtype_of(dtype).bytes)
    inner = draw.pick([1, 1, 0]) if unit == 8 else draw.pick([1] * 7 + [0])  # the dimension that is contiguous
    odd = draw.pick([""] * 6 + ["pitch", "lead", "start", "address", "tiles", "tiles"])  # what no whole 16 bytes fit
    mode = draw.pick(["none", "none", "32B", "64B", "128B"]) if space == "shared" else "none"
    mode = "none" if odd == "tiles" else mode
    swizzle = (
        None if mode == "none" else _parts(mode, draw.pick([dtype, dtype, "float64"]))
    )  # of another width: inside rows
    moved = draw.pick([0, 0, unit, 2 * unit])
    starts = [Start(0), Start(0)]
    starts[inner] = Start(0, (Term("turn", moved),)) if moved and counts["turn"] > 1 else Start(moved)
    shape = list(extents)
    shape[inner] += moved
    grain = unit if swizzle is None else unit << swizzle[1]
    pitch = -(-shape[inner] // grain) * grain + draw.pick([0, grain])
    pitch += draw.pick([unit // 2 or 1, 1]) if odd == "pitch" else 0
    high = shape[1 - inner]
    halves = [high // 2, high // 2, high // 4, atom[1 - inner]]
    tall = draw.pick(halves if odd == "tiles" else [*[high] * 4, *halves])  # rows of a tile in memory
    tall = tall if tall and high % tall == 0 else high
    gap = (unit // 2 or 1) if odd == "tiles" else draw.pick([0, grain])
    rows = ((high // tall, tall * pitch + gap, "m"), (tall, pitch, "m"))[tall == high :]
    along_dims = [rows, rows]
    along_dims[inner] = ((shape[inner], 1, "m"),)
    apart_elems = -(-(pitch * high + gap * (high // tall)) // grain) * grain + (unit // 2 if odd == "lead" else 0)
    memory = Operand(
        space,
        (units, *shape),
        (1, *extents),
        (Start(0, (Term("unit", 1),)) if units > 1 else Start(0), *starts),
        ((units, apart_elems, "m"), *along_dims[0], *along_dims[1]),
        swizzle=swizzle,
        own_start=1 if odd == "start" else draw.pick([0, 0, unit]),
        align_bytes=8 if odd == "address" else draw.pick([16, 16, 1024 if space == "shared" else 16]),
    )
    src, dst = (fragment, memory) if pair[0] == "local" else (memory, fragment)
    return _whole(
        ranges,
        counts,
        dtype=dtype,
        scope=scope,
        threads=threads,
        target=draw.pick(ranges.targets),
        dst=dst,
        src=src,
    )


def _split(draw: Draw, factors: Sequence[int]) -> list[int]:
    """A shape of one or two dimensions with these prime factors."""
    if draw.pick([False, False, False, True]):
        return [prod(factors)]
    at = draw.pick(range(len(factors) + 1))
    order = shuffled(draw, factors) if draw.pick([False, True]) else list(factors)
    return [prod(order[:at]), prod(order[at:])]


def _bulk(draw: Draw, ranges: Ranges, pair: tuple[str, str]) -> Description:
    """By one thread, in runs of whole 16 bytes."""
    dtype = draw.pick(ranges.dtypes)
    size = tc.dtype_of(dtype).bytes
    unit = max(1, 16 // size)
    remote = any(option.name == "remote_cta_id" for option in ranges.variant.options)
    rows, columns = draw.pick([4, 1, 2, 8, 3, 16]), unit * draw.pick([2, 1, 4, 8, 3])
    if draw.pick([False] * 9 + [True]):
        columns += draw.pick([1, unit // 2 or 1])
    counts = _variables(draw, 1, blocks=False) | {"multiple_of": draw.pick([1, 2, 4, 8])}
    cluster = draw.pick([2, 2, 4]) if remote else 1
    counts["block"] = cluster * draw.pick([1, 1, 2]) if remote else draw.pick([1, 1, 2])
    if pair[1] == "global":  # the emulator wants a fence between two bulk writes of one place
        counts["turn"] = 1
    swizzle = draw.pick([None, None, None, *(tuple(_parts(mode, dtype)) for mode in ("32B", "64B", "128B"))])
    sides = []
    for source, space in ((True, pair[0]), (False, pair[1])):
        starts, shape, box = [], [], [rows, columns]
        for extent, grain in ((rows, 1), (columns, draw.pick([unit, unit, unit, unit, 1]))):
            varying = counts if draw.pick([True, False]) else counts | {"block": 1, "turn": 1, "n": 0}
            if remote and not source:  # where it arrives is the same for every CTA that sends
                varying = varying | {"block": 1}
            start, needed = _start(draw, varying, extent, grain, overhang=False)
            starts.append(start)
            shape.append(needed)
        if space == "global" and not source and counts["block"] > 1:
            starts.insert(0, Start(0, (Term("block", 1),)))
            shape.insert(0, counts["block"])
            box.insert(0, 1)
        shape[-1] = -(-shape[-1] // unit) * unit if draw.pick([True] * 7 + [False]) else shape[-1]
        pad = draw.pick([0, 0, unit, 2 * unit, 1]) if draw.pick([True, True, False]) else 0
        strides, step = [0] * len(shape), 1
        for place in reversed(range(len(shape))):
            strides[place] = step
            step = step * shape[place] + (pad if place == len(shape) - 1 else 0)
        layout: dict[str, Any] = {"iters": tuple((e, s, "m") for e, s in zip(shape, strides, strict=True))}
        if space == "shared":
            layout["swizzle"] = swizzle if draw.pick([True, True, True, False]) else None
        sides.append(
            Operand(
                space,
                tuple(shape),
                tuple(box),
                tuple(starts),
                own_start=draw.pick([0, 0, 0, unit, 2 * unit]),
                align_bytes=16 if space == "global" else 1024,
                **layout,
            )
        )
    return _whole(
        ranges,
        counts,
        dtype=dtype,
        scope="thread",
        threads=draw.pick([32, 64]),
        target=draw.pick(ranges.targets),
        dst=sides[1],
        src=sides[0],
        issuers="one",
        cluster=cluster,
        hop=draw.pick(range(1, cluster)) if cluster > 1 else 0,
    )


def _parts(mode: str | None, dtype: str) -> tuple[int, int, int]:
    found = tc.swizzle(mode or "none", dtype)
    return found.per_element, found.swizzle_len, found.atom_len


_Iters = tuple[tuple[int, int, str], ...]
ROWS_OF_COPIES: tuple[tuple[_Iters, _Iters], ...] = (
    (((32, 1, "TLane"),), ((4, 32, "TLane"),)),
    (((128, 1, "TLane"),), ()),
    (((64, 1, "TLane"),), ((2, 64, "TLane"),)),
    (((2, 64, "TLane"), (32, 1, "TLane")), ((2, 32, "TLane"),)),
    (((4, 32, "TLane"),), ()),
    (((128, 1, "TLane"),), ()),
    (((6, 1, "TLane"), (4, 32, "TLane")), ()),
)
"""Lanes and replicas of tensor memory: of each shape of tcgen05.cp, and of several of one."""


def _tensor(draw: Draw, ranges: Ranges) -> Description:
    """From shared to tensor memory, in rows that a matrix descriptor can name."""
    dtype = draw.pick([d for d in ranges.dtypes if tc.dtype_of(d).bits in (8, 16, 32, 64)] or list(ranges.dtypes))
    size = tc.dtype_of(dtype).bytes
    unit = 16 // size
    row_bytes = draw.pick([16, 32, 64, 128, 16])
    middle = draw.pick([1, 2, 4, 3]) if row_bytes == 16 else draw.pick([1, 1, 2])
    per_row = row_bytes // size
    lanes, replica = draw.pick(ROWS_OF_COPIES)
    high = prod(extent for extent, _, _ in lanes)
    extra = draw.pick([0, 0, 8, 32])  # rows of the buffer before and after the box
    rows = high + extra
    counts = {"unit": 1, "block": draw.pick([1, 2]), "turn": draw.pick([1, 1, 2]), "n": 0, "multiple_of": 1}
    width = middle * per_row
    iters = ((rows, per_row, "m"), (middle, rows * per_row, "m"), (per_row, 1, "m"))
    options: tuple[tuple[str, Any], ...] = ()
    pair = False
    if any(o.name == "cta_group" for o in ranges.variant.options):
        pair = draw.pick([False, False, True])  # one CTA of two issues the copy of both
        options = (("cta_group", 2 if pair else 1),)
        counts["block"] = draw.pick([2, 2, 4]) if pair else counts["block"]
    mode = MODES[row_bytes]
    swizzle = _parts(mode, dtype) if mode is not None and draw.pick([True] * 9 + [False]) else None
    first = draw.pick([0, extra, 8]) if extra else 0
    if first + high > rows:
        first = 0
    src = Operand(
        "shared",
        (rows, width),
        (high, width),
        (Start(first), Start(0)),
        iters,
        swizzle=swizzle,
        own_start=draw.pick([0, 0, 0, 8 * per_row]),
        align_bytes=draw.pick([1024, 1024, 1024, 128]),
    )
    columns: tuple[tuple[int, int, str], ...] = ((width, 1, "TCol"),)
    if width // unit % 2 == 0 and draw.pick([False, False, True]):  # the halves change places
        half = width // 2
        columns = ((2, half, "TCol"), (half // unit, unit, "TCol"), (unit, 1, "TCol"))
        if half // unit % 2 == 0:
            columns = ((2, unit, "TCol"), (half // unit, 2 * unit, "TCol"), (unit, 1, "TCol"))
    dst = Operand(
        "tmem",
        (high, width),
        (high, width),
        (Start(0), Start(0)),
        (*lanes, *columns),
        replica=replica,
    )
    return _whole(
        ranges,
        counts,
        dtype=dtype,
        scope="thread",
        threads=256 if high == 128 else 128,
        target=draw.pick(ranges.targets),
        dst=dst,
        src=src,
        issuers="one",
        cluster=2 if pair else 1,
        options=options,
    )


RECTANGLES: dict[str, tuple[tuple[tuple[int, int, str], ...], tuple[tuple[int, int, str], ...]]] = {
    "32x32b": (((32, 1, "laneid"),), ((1, 1, "m"),)),
    "16x64b": (((2, 1, "laneid"), (8, 4, "laneid")), ((1, 1, "m"), (2, 2, "laneid"))),
    "16x128b": (((2, 1, "m"), (8, 4, "laneid")), ((1, 2, "m"), (4, 1, "laneid"))),
    "16x256b": (((2, 2, "m"), (8, 4, "laneid")), ((1, 4, "m"), (4, 1, "laneid"), (2, 1, "m"))),
    "16x32bx2": (((16, 1, "laneid"),), ((2, 16, "laneid"), (1, 1, "m"))),
}
"""Shape of tcgen05.ld -> iters of its lanes and of its columns (the one of extent 1 repeats), in registers of 32 bits."""


def _tensor_fragments(draw: Draw, ranges: Ranges, pair: tuple[str, str]) -> Description:
    """Between tensor memory and registers, in the rectangles that one instruction covers; slices, warps, halves of columns."""
    dtype = draw.pick([d for d in ranges.dtypes if tc.dtype_of(d).bits in (8, 16, 32)] or list(ranges.dtypes))
    per_column = max(1, 4 // tc.dtype_of(dtype).bytes)
    shape = draw.pick(list(RECTANGLES))
    rows, columns = RECTANGLES[shape]
    high = prod(extent for extent, _, _ in rows)
    repeats, more = draw.pick([1, 2, 4, 3, 6, 7]), draw.pick([0, 0, 1, 2])
    scope, threads = draw.pick([("warpgroup", 128), ("warp", 128), ("cta", 128), ("warpgroup", 256), ("cta", 256)])
    units = {"warpgroup": threads // 128, "warp": 4, "cta": 1}[scope]
    halves = per_column == 2 and draw.pick([False, False, True])  # 16 bits a column, or all of it
    upper = draw.pick([False, False, True]) if high == 16 else False
    both = high == 16 and not upper and draw.pick([False, False, True])  # 16 lanes after 16 others

    # the fragment: registers of several elements, repeated (with more of them than are copied), for each warp
    parts = [(extent, step * (per_column if axis == "m" else 1), axis) for extent, step, axis in (*rows, *columns)]
    place = parts.index((1, next(step for extent, step, _ in columns if extent == 1) * per_column, "m"))
    widest = max(prod(e for e, _, a in (*rows, *columns) if a == "m"), 1) * per_column
    parts[place] = (repeats + more, widest, "m")
    across, down = parts[len(rows) :], parts[: len(rows)]
    if shape == "16x32bx2" and more:
        across[1] = (repeats + more, per_column, "m")
    lanes_of_all: list[tuple[int, int, str]] = []
    tile = widest * (repeats + more)
    if both:
        lanes_of_all.append((2, tile, "m"))
        tile *= 2
    axis = {"warpgroup": "wid_in_wg", "cta": "warpid", "warp": ""}[scope]
    if axis:
        lanes_of_all.insert(0, (4, 1, axis))
    inner = [(per_column, 1, "m")] if per_column > 1 else []
    twice = [(2, 4, "warpid")] if (scope, threads) == ("cta", 256) else []
    sliced = 0 if shape == "16x32bx2" or twice else draw.pick(range(more + 1))
    kept = repeats if not (shape == "16x32bx2" or twice) else repeats + more
    unit = prod(e for e, _, _ in columns) * per_column
    each = high * (2 if both else 1)
    height = each * (4 if axis else 1)
    warp, warps = draw.pick([(0, 4), (0, 4), (0, 4), (1, 1), (2, 2)]) if axis else (0, 1)  # that own what is copied
    width = unit * (repeats + more) * (2 if twice else 1)
    extents = (each * warps, unit * kept * (2 if twice else 1))
    fragment = Operand(
        "local",
        (height, width),
        extents,
        (Start(each * warp), Start(unit * sliced)),
        tuple(it for it in (*lanes_of_all, *down, *twice, *across, *inner) if it[0] > 1) or ((1, 1, "m"),),
        offset=(("m", per_column * draw.pick([0, 0, 0, 2])),),
    )

    # tensor memory: the same columns further on, apart by the distance of halves
    counts = {"unit": units, "block": draw.pick([1, 1, 2]), "turn": draw.pick([1, 1, 2]), "n": 0, "multiple_of": 1}
    base = per_column * draw.pick([0, 0, 1, 4, 7]) + draw.pick([0] * 9 + [1])
    factors = {"turn": draw.pick([0, 4 * per_column, extents[1]]), "block": draw.pick([0, per_column])}
    if (scope, threads) == ("warpgroup", 256):
        factors["unit"] = extents[1]
    terms = tuple(Term(name, factor) for name, factor in factors.items() if factor and counts[name] > 1)
    reach = base + sum(term.factor * (counts[term.variable] - 1) for term in terms) + extents[1]
    lanes: list[tuple[int, int, str]] = [(128, 1, "TLane")]
    first = Start(each * warp)
    if scope == "warp":
        first = Start(16 * upper, (Term("unit", 32),))
    elif high == 16 and not both:
        lanes = [(4, 32, "TLane"), (16, 1, "TLane")]
    memory = Operand(
        "tmem",
        (prod(e for e, _, _ in lanes), reach),
        extents,
        (first, Start(base, terms)),
        (*lanes, (reach, 2 if halves else 1, "TCol")),
        offset=(("TLane", 16),) if upper and scope != "warp" else (),
    )
    src, dst = (memory, fragment) if pair[0] == "tmem" else (fragment, memory)
    return _whole(
        ranges,
        counts,
        dtype=dtype,
        scope=scope,
        threads=threads,
        target=draw.pick(ranges.targets),
        dst=dst,
        src=src,
    )
