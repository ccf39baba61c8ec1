"""Vectors are as wide as the widest that brute force finds, and never wider: gmem_smem, ldgsts and reg."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import S, TileLayout, laneid
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.drawn_layouts import layouts
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples
from tilecopy_testkit import oracle
from tilecopy_testkit.widths import fits, widest

from tilecopy_core.integers import evaluate

Side = tuple[tuple[int, ...], tuple[int, ...], int, Any]


@st.composite
def pairs(draw: st.DrawFn) -> dict[str, Any]:
    """A box of a global buffer, a box of a shared one, and a symbolic start in each."""
    box = tuple(
        draw(
            st.lists(st.sampled_from([1, 2, 3, 4, 8, 16, 32]), min_size=1, max_size=3).filter(lambda b: prod(b) <= 1024)
        )
    )
    sides = []
    for _ in range(2):
        base = tuple(draw(st.sampled_from([0, 0, 0, 1, 2, 4, 8])) for _ in box)
        step = tuple(draw(st.sampled_from([0, 0, 1, 2, 4, 8, 16])) for _ in box)
        shape = tuple(
            e + b + 2 * s + draw(st.sampled_from([0, 0, 4, 8])) for e, b, s in zip(box, base, step, strict=True)
        )
        sides.append(
            {
                "base": base,
                "step": step,
                "shape": shape,
                "layout": draw(layouts(shape)),
                "own": draw(st.sampled_from([0, 0, 0, 1, 2, 4, 8])),
            }
        )
    if draw(st.booleans()):
        extents, strides, offset, _ = sides[0]["layout"]
        sides[0]["layout"] = (extents, strides, offset, None)
    if draw(st.integers(0, 5)) == 0:  # a broadcast along one iter of the source
        extents, strides, offset, swizzle = sides[0]["layout"]
        at = draw(st.integers(0, len(extents) - 1))
        sides[0]["layout"] = (extents, tuple(0 if d == at else s for d, s in enumerate(strides)), offset, swizzle)
    return {
        "box": box,
        "sides": sides,
        "dtype": draw(st.sampled_from(["uint8", "float16", "float32", "float64"])),
        "threads": draw(st.sampled_from([1, 2, 3, 4, 8, 32])),
        "align": draw(st.sampled_from([16, 16, 16, 8, 4])),
        "op": draw(st.sampled_from(["copy", "copy", "copy_async"])),
    }


def layout_of(parts: Side) -> tc.Layout:
    extents, strides, offset, swizzle = parts
    plain = TileLayout(S[extents:strides] + offset)
    return plain if swizzle is None else tc.SwizzledLayout(tc.Swizzle(*swizzle), plain)


def places_of(side: dict[str, Any], box: tuple[int, ...], number: int) -> Any:
    """Element addresses of a box whose start is ``base + number * step``."""
    extents, strides, offset, swizzle = side["layout"]
    found = oracle.addresses(extents, strides, offset)
    begin = tuple(b + number * s for b, s in zip(side["base"], side["step"], strict=True))
    plain = found[byte_arrays.box_flat(side["shape"], begin, box)]
    return plain + side["own"] if swizzle is None else oracle.swizzle_address(plain, *swizzle) + side["own"]


def before_swizzles(case: dict[str, Any], number: int) -> list[Any]:
    """The addresses before a swizzle: no vector may reach over what it keeps together, even where it changes nothing."""
    plain = [
        dict(side, layout=(*side["layout"][:3], None), own=0) for side in case["sides"] if side["layout"][3] is not None
    ]
    return [places_of(side, case["box"], number) for side in plain]


def check_width(case: dict[str, Any]) -> str:
    """Compare a plan with brute force; what came of it, for counting."""
    box, dtype = case["box"], tc.dtype_of(case["dtype"])
    align = max(case["align"], dtype.bytes)
    n = tc.symbol("n", upper=2)
    regions = []
    for side, space in zip(case["sides"], ("global", "shared"), strict=True):
        buffer = tc.Buffer(
            side["shape"],
            dtype,
            space=space,
            name=space,
            layout=layout_of(side["layout"]),
            storage_offset=side["own"],
            align_bytes=align,
        )
        regions.append(
            buffer[
                tuple(slice(b + n * s, b + n * s + e) for b, s, e in zip(side["base"], side["step"], box, strict=True))
            ]
        )
    places_at = [[places_of(side, box, number) for side in reversed(case["sides"])] for number in range(3)]
    judged = [[*places, *before_swizzles(case, number)] for number, places in enumerate(places_at)]
    chunk = min(1 << side["layout"][3][0] if side["layout"][3] is not None else 128 for side in case["sides"])
    allowed = (128, 64, 32) if case["op"] == "copy_async" else (128, 64, 32, 16, 8)
    allowed = tuple(bits for bits in allowed if bits <= align * 8)
    wanted = widest(judged, dtype.bits, chunk, case["threads"], allowed)
    try:
        plan = tc.plan(
            regions[1],
            regions[0],
            scope=tc.cta(case["threads"]),
            target="sm_90a",
            op=case["op"],
            variant={"copy": "gmem_smem", "copy_async": "ldgsts"}[case["op"]],
        )
    except tc.NoVariantError as error:
        if mentions("layout").search(str(error)):
            return "not a layout"
        assert wanted is None, (wanted, str(error))
        return "no width"
    partition = plan.partition
    assert wanted is not None
    assert partition.vec_bits <= wanted
    for number, places in enumerate(places_at):  # every element once, at the places of the definition
        env = dict.fromkeys(n.symbols, number)
        moved = set()
        for turn in range(partition.outer):
            for thread in range(partition.threads):
                at = [
                    evaluate(side.offset(turn, thread, partition.shape), env) for side in (partition.dst, partition.src)
                ]
                for step in range(partition.vec):
                    elements = [a + step for a in at]
                    for which, (side, drawn) in enumerate(
                        zip((partition.dst, partition.src), reversed(case["sides"]), strict=True)
                    ):
                        if side.swizzle is not None:
                            elements[which] = int(
                                oracle.swizzle_address(np.array(elements[which]), *drawn["layout"][3])
                            )
                        elements[which] += drawn["own"]
                    moved.add(tuple(elements))
        assert moved == set(zip(*(map(int, side) for side in places), strict=True))
    assert partition.vec_bits == wanted, plan.explain()
    return "as wide"


@examples(200)
@given(pairs())
def test_vectors_are_as_wide_as_brute_force_finds(case: dict[str, Any]) -> None:
    check_width(case)


@st.composite
def fragments(draw: st.DrawFn) -> dict[str, Any]:
    """A slice of a fragment of rows by lane, and a box of memory of the same extents."""
    columns = draw(st.sampled_from([1, 2, 4, 6, 8, 16]))
    start = draw(st.sampled_from([0, 0, 1, 2, 4]))
    extent = draw(st.sampled_from([1, 2, 3, 4, 8, 16]))
    return {
        "columns": columns,
        "box": (min(start, columns - 1), min(extent, columns - min(start, columns - 1))),
        "gap": draw(st.sampled_from([0, 0, 2, 4])),
        "pad": draw(st.sampled_from([0, 0, 1, 2, 4])),
        "first": draw(st.sampled_from([0, 0, 1, 2, 4])),
        "dtype": draw(st.sampled_from(["uint8", "float16", "float32", "float64"])),
        "swizzle": draw(st.sampled_from([None, None, (2, 2, 2), (3, 3, 3)])),
        "transposed": draw(st.booleans()),
    }


@examples(120)
@given(fragments())
def test_fragments_move_in_vectors_as_wide_as_brute_force_finds(case: dict[str, Any]) -> None:
    dtype, columns = tc.dtype_of(case["dtype"]), case["columns"]
    start, extent = case["box"]
    registers = [c + (case["gap"] if c >= columns // 2 else 0) for c in range(columns)]
    halves = (
        S[(32, 2, columns // 2) : (1 @ laneid, columns // 2 + case["gap"], 1)]
        if columns % 2 == 0 and columns > 1
        else S[(32, columns) : (1 @ laneid, 1)]
    )
    fragment = tc.Buffer((32, columns), dtype, space="local", name="f", layout=TileLayout(halves))
    if columns == 1:
        registers = [0]
    width = case["first"] + extent + case["pad"]
    strides = (1, 32 + case["pad"]) if case["transposed"] else (width, 1)
    shape = (32, width)
    side: Side = (shape, strides, 0, case["swizzle"])
    memory = tc.Buffer(shape, dtype, space="shared", name="s", layout=layout_of(side))
    found = oracle.addresses(shape, strides)
    found = found if case["swizzle"] is None else oracle.swizzle_address(found, *case["swizzle"])
    places_at = [
        [
            np.array(registers[start : start + extent]),
            found[byte_arrays.box_flat(shape, (lane, case["first"]), (1, extent))],
        ]
        for lane in range(32)
    ]
    chunk = 128 if case["swizzle"] is None else 1 << case["swizzle"][0]
    wanted = widest(places_at, dtype.bits, chunk, 1, (128, 64, 32, 16, 8))
    regions = [fragment[:, start : start + extent], memory[:, case["first"] : case["first"] + extent]]
    try:
        plans = [
            tc.plan(dst, src, scope=tc.warp(), target="sm_90a", variant="reg") for dst, src in (regions, regions[::-1])
        ]
    except tc.NoVariantError as error:
        assert "reg" in error.declined, error
        return
    for plan in plans:
        assert plan.variant == "reg"
        assert plan.partition.vec_bits == wanted, plan.explain()


def test_brute_force_finds_what_is_known() -> None:
    """The yardstick itself: rows of 8, a start of 2, a gap."""
    rows = np.arange(64)
    assert fits([rows, rows + 8], 8) and not fits([rows, rows + 4], 8)
    assert not fits([rows, rows * 2], 2)
    assert fits([rows, np.repeat(rows[::8] * 2, 8) + rows % 8], 8)
    assert widest([[rows, rows + 2]], 32, 128, 32, (128, 64, 32)) == 64
    with pytest.raises(AssertionError):
        assert fits([rows, rows[::-1]], 2)
