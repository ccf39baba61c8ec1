"""Layouts against a brute-force enumeration."""

from __future__ import annotations

import copy
from itertools import product
from math import gcd, prod

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import assume, given
from hypothesis import strategies as st
from tilecopy import R, S, TCol, TileLayout, TLane, laneid, warpid
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.mentions import mentions
from tilecopy_testkit import oracle

from tilecopy_core.integers.expr import evaluate, structural_equal, symbols_of
from tilecopy_core.layout import AXES, DType, Iter, StridedLayout, fuse, row_major, surely_leaves
from tilecopy_core.plugin import fuse_pairs
from tilecopy_partitions import refine

extent_lists = st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 8]), min_size=1, max_size=4)


@st.composite
def tiles(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], int, TileLayout]:
    """Extents, strides, offset and the layout of them; some strides are 0, some contiguous."""
    extents = tuple(draw(extent_lists))
    strides = draw(
        st.one_of(
            st.just(row_major(extents)),
            st.tuples(*(st.sampled_from([0, 1, 2, 3, 8, 40]) for _ in extents)),
        )
    )
    offset = draw(st.sampled_from([0, 0, 7, 64]))
    return extents, tuple(strides), offset, TileLayout(S[extents:strides] + offset)


def enumerate_m(layout: tc.Layout) -> list[int]:
    return [int(layout.apply(i).get("m", 0)) for i in range(layout.size)]


@given(tiles())
def test_apply_is_the_definition(tile: tuple) -> None:
    extents, strides, offset, layout = tile
    assert enumerate_m(layout) == oracle.addresses(extents, strides, offset).tolist()


@given(tiles())
def test_canonicalize_keeps_every_place_and_fuses(tile: tuple) -> None:
    layout = tile[3]
    canonical = layout.canonicalize()
    assert enumerate_m(canonical) == enumerate_m(layout)
    assert all(it.extent > 1 for it in canonical.shard)
    for left, right in zip(canonical.shard, canonical.shard[1:], strict=False):
        assert left.stride != right.extent * right.stride


@given(tiles())
def test_repr_is_the_expression_that_makes_it(tile: tuple) -> None:
    layout = tile[3]
    again = eval(repr(layout), {"TileLayout": TileLayout, "S": S, "R": R, **AXES})
    assert again == layout and hash(again) == hash(layout)


@given(tiles(), st.data())
def test_slice_shifts_the_coordinate(tile: tuple, data: st.DataObject) -> None:
    layout = tile[3]
    shape = tuple(it.extent for it in layout.shard)
    starts = tuple(data.draw(st.integers(0, e - 1)) for e in shape)
    extents = tuple(data.draw(st.integers(1, e - s)) for e, s in zip(shape, starts, strict=True))
    cut = layout.slice(shape, [(s, s + e) for s, e in zip(starts, extents, strict=True)])
    assert cut is not None, "a box along the layout's own extents is always a layout"
    whole = np.array(enumerate_m(layout))
    assert enumerate_m(cut) == whole[byte_arrays.box_flat(shape, starts, extents)].tolist()


@given(tiles(), st.data())
def test_slice_by_another_shape_is_right_or_none(tile: tuple, data: st.DataObject) -> None:
    layout = tile[3]
    rows = data.draw(st.sampled_from([d for d in range(1, layout.size + 1) if layout.size % d == 0]))
    shape = (rows, layout.size // rows)
    starts = tuple(data.draw(st.integers(0, e - 1)) for e in shape)
    extents = tuple(data.draw(st.integers(1, e - s)) for e, s in zip(shape, starts, strict=True))
    cut = layout.slice(shape, [(s, s + e) for s, e in zip(starts, extents, strict=True)])
    if cut is not None:
        whole = np.array(enumerate_m(layout))
        assert enumerate_m(cut) == whole[byte_arrays.box_flat(shape, starts, extents)].tolist()


@pytest.mark.parametrize(
    "layout",
    [
        TileLayout(S[(3, 8) : (100, 1)]),
        TileLayout(S[(3, 8) : (0, 1)]),
        TileLayout(S[(3, 2, 4) : (100, 30, 1)]),
        TileLayout(S[(2, 3, 4) : (50, 7, 1)]),
        TileLayout(S[(3, 2, 4) : (10, 10, 1)]),
        TileLayout(S[(2, 3, 4) : (1, 20, 2)] + 5),
        TileLayout(S[(3, 8) : (1 @ laneid, 1)]),
        TileLayout(S[(2, 3, 4) : (1 @ laneid, 1 @ warpid, 1)]),
        TileLayout(S[(3, 2, 4) : (1 @ laneid, 1, 3 @ laneid)]),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(4, 6), (24, 1)])
def test_every_box_of_a_shape_whose_rows_straddle_iters(layout: TileLayout, shape: tuple[int, int]) -> None:
    """Rows of 6 over other iters: a box is a run of flat indices, equal pieces of it, or no layout; never another place."""
    inner = layout.shard[-1].extent
    whole = [layout.apply(flat) for flat in range(24)]
    for starts in np.ndindex(shape):
        for extents in product(*(range(1, e - s + 1) for e, s in zip(shape, starts, strict=True))):
            flat = byte_arrays.box_flat(shape, starts, extents)
            cut = layout.slice(shape, [(s, s + e) for s, e in zip(starts, extents, strict=True)])
            one_run = extents[0] == 1 or extents[1] == shape[1]
            if one_run and flat[0] // inner == flat[-1] // inner:
                assert cut is not None, "a run inside one iter is a layout"
            for place, index in enumerate(flat.tolist() if cut is not None else ()):
                found = cut.apply(place)
                assert all(found.get(axis, 0) == at for axis, at in whole[index].items()), (starts, extents)


@pytest.mark.parametrize(
    ("layout", "start", "stop"),
    [(TileLayout(S[(3, 2) : (6, 1)]), 3, 5), (TileLayout(S[(2, 2, 6) : (24, 6, 3)]), 9, 18)],
)
def test_a_run_over_the_edge_of_a_block_is_a_layout_of_equal_pieces(layout: TileLayout, start: int, stop: int) -> None:
    cut = layout.slice((layout.size,), [(start, stop)])
    assert cut is not None and enumerate_m(cut) == enumerate_m(layout)[start:stop]


@pytest.mark.parametrize("multiple", [1, 2, 4, 8, 12])
def test_a_symbolic_start_inside_iters_is_a_layout_where_no_value_straddles(multiple: int) -> None:
    """32 elements as 4 runs of 8: a start that is a multiple of 4 leaves room for 4, whichever multiple it is."""
    layout = TileLayout(S[(4, 8) : (100, 1)])
    whole, index = np.array(enumerate_m(layout)), tc.symbol("i", upper=24 // multiple - 1)
    (i,) = symbols_of(index)
    for extent in range(1, 9):
        cut = layout.slice((32,), [(index * multiple, index * multiple + extent)])
        assert (cut is not None) == (extent <= gcd(8, multiple)), extent
        for number in range(24 // multiple) if cut is not None else ():
            found = [evaluate(cut.apply(place)["m"], {i: number}) for place in range(extent)]
            assert found == whole[number * multiple : number * multiple + extent].tolist()


def test_the_reach_of_an_array_of_a_size_known_at_launch() -> None:
    size = tc.symbol("n", upper=100)
    (n,) = symbols_of(size)
    reach = StridedLayout((size, 8), (10, 1)).reach()
    assert [evaluate(reach, {n: number}) for number in (1, 3)] == [8, 28]
    assert StridedLayout((3, 8), (10, 1)).span() == 28 == TileLayout(S[(3, 8) : (10, 1)]).span()


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
def test_every_swizzle_mode_exchanges_16_bytes_of_8_rows(dtype: str) -> None:
    """Row ``r`` of 8 rows of 32, 64 or 128 bytes has its 16-byte pieces in the order of PTX ISA 9.7.16.5.2."""
    size = tc.dtype_of(dtype).bytes
    for mode, row_bytes in (("none", 16), ("32B", 32), ("64B", 64), ("128B", 128)):
        found, units = tc.swizzle(mode, dtype), row_bytes // 16
        for address in range(8 * 128 // size):
            line, unit = address * size // 128, address * size // 16 % 8
            moved = unit ^ line % units
            assert found.apply(address) == (line * 8 + moved) * 16 // size + address % (16 // size)


def steps_of(iters: list[Iter]) -> list[dict[str, int]]:
    """Place of every step of iters, last fastest."""
    found = []
    for steps in product(*(range(it.extent) for it in iters)):
        place = dict.fromkeys(("m", "laneid"), 0)
        for step, it in zip(steps, iters, strict=True):
            place[it.axis.name] += step * int(it.stride)
        found.append(place)
    return found


@given(st.data())
def test_refined_sides_go_through_the_same_steps(data: st.DataObject) -> None:
    """Common extents, and every side's places in its own order; or None where extents do not divide."""
    of_12 = [(12,), (3, 4), (4, 3), (2, 6), (6, 2), (2, 3, 2), (2, 2, 3), (3, 2, 2)]
    sides = [
        [
            Iter(
                extent,
                data.draw(st.sampled_from([0, 1, 2, 3, 4, 6, 12])),
                data.draw(st.sampled_from([tc.m, laneid])),
            )
            for extent in data.draw(st.sampled_from(of_12))
        ]
        for _ in range(2)
    ]
    pairs = refine(*sides)
    for found in (pairs, None if pairs is None else fuse_pairs(pairs)):
        for place, side in enumerate(sides) if found is not None else ():
            assert steps_of([pair[place] for pair in found]) == steps_of(side)
            assert all(pair[0].extent == pair[place].extent for pair in found)
    outer, inner = Iter(2, 4), Iter(4, 1)
    assert fuse_pairs([(outer, outer), (inner, inner)]) == [(Iter(8, 1), Iter(8, 1))]
    across = Iter(2, 4, laneid)
    assert fuse_pairs([(outer, across), (inner, inner)]) == [(outer, across), (inner, inner)]
    apart = {tuple(it.extent for it in side) for side in sides}
    if apart == {(3, 4), (4, 3)} and all(len(fuse(side)) == 2 for side in sides):
        assert pairs is None


def test_what_surely_leaves_a_size_known_at_launch() -> None:
    size = tc.symbol("n", upper=100)
    assert not surely_leaves(40, 60, size) and surely_leaves(41, 60, size)
    assert not surely_leaves(tc.symbol("i", upper=1000), 1, size)
    assert surely_leaves(tc.symbol("i", lower=-9, upper=-1), 4, size)
    assert not surely_leaves(tc.symbol("i", lower=-9, upper=0), 4, size)


def test_the_order_in_which_offsets_are_added_is_nothing() -> None:
    one, other = (TileLayout(S[4, 8] + first + second) for first, second in ((64, 2 @ warpid), (2 @ warpid, 64)))
    assert one == other and hash(one) == hash(other) and str(one) == str(other)


@given(tiles(), st.data())
def test_group_refines_to_dimensions(tile: tuple, data: st.DataObject) -> None:
    layout = tile[3]
    rows = data.draw(st.sampled_from([d for d in range(1, layout.size + 1) if layout.size % d == 0]))
    shape = (rows, layout.size // rows)
    try:
        grouped, separators = layout.group(shape)
    except tc.LayoutError:  # a dimension that no iter ends
        return
    assert enumerate_m(grouped) == enumerate_m(layout)
    for dim, extent in enumerate(shape):
        owned = grouped.shard[separators[dim] : separators[dim + 1]]
        assert prod(it.extent for it in owned) == extent


@given(tiles(), st.data())
def test_permute_transposes(tile: tuple, data: st.DataObject) -> None:
    extents, strides, offset, layout = tile
    order = data.draw(st.permutations(range(len(extents))))
    whole = oracle.addresses(extents, strides, offset).reshape(extents)
    assert enumerate_m(layout.permute(order)) == whole.transpose(order).ravel().tolist()


@given(
    st.lists(st.sampled_from([1, 2, 3, 4]), min_size=2, max_size=2), st.lists(st.integers(1, 3), min_size=2, max_size=2)
)
def test_tile_to_repeats_the_atom(atom: list[int], counts: list[int]) -> None:
    layout = TileLayout(S[tuple(atom)])
    shape = tuple(a * c for a, c in zip(atom, counts, strict=True))
    tiled = layout.tile_to(shape)
    for i in range(shape[0]):
        for j in range(shape[1]):
            copy = i // atom[0] * counts[1] + j // atom[1]
            inside = i % atom[0] * atom[1] + j % atom[1]
            assert tiled.apply(i, j, shape=shape)["m"] == copy * prod(atom) + inside


@given(tiles(), st.sampled_from([(0, 1, 1), (1, 2, 3), (3, 3, 3), (2, 1, 3), (0, 2, 4)]))
def test_swizzle_is_the_definition_and_a_permutation(tile: tuple, parameters: tuple[int, int, int]) -> None:
    extents, strides, offset, layout = tile
    swizzle = tc.Swizzle(*parameters)
    found = enumerate_m(tc.SwizzledLayout(swizzle, layout))
    assert found == oracle.swizzle_address(oracle.addresses(extents, strides, offset), *parameters).tolist()
    period = swizzle.period_elems
    assert sorted(swizzle.apply(a) for a in range(period)) == list(range(period))
    assert all(swizzle.apply(a + period) == swizzle.apply(a) + period for a in range(period))


@given(tiles(), st.sampled_from([(1, 2, 3), (3, 3, 3)]), st.data())
def test_swizzled_slice_composes(tile: tuple, parameters: tuple[int, int, int], data: st.DataObject) -> None:
    layout = tc.SwizzledLayout(tc.Swizzle(*parameters), tile[3])
    shape = tuple(it.extent for it in tile[3].shard)
    starts = tuple(data.draw(st.integers(0, e - 1)) for e in shape)
    extents = tuple(data.draw(st.integers(1, e - s)) for e, s in zip(shape, starts, strict=True))
    cut = layout.slice(shape, [(s, s + e) for s, e in zip(starts, extents, strict=True)])
    assert cut is not None
    assert enumerate_m(cut) == np.array(enumerate_m(layout))[byte_arrays.box_flat(shape, starts, extents)].tolist()
    assert layout.span() > max(enumerate_m(layout))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 5))
def test_symbolic_start_slices_as_its_values_do(block: int, count: int, number: int) -> None:
    shape = (64, 8)
    layout = TileLayout(S[shape])
    index = tc.symbol("i", upper=5)
    (i,) = symbols_of(index)
    start = index * block * 2
    assume(5 * block * 2 + count <= 64)
    cut = layout.slice(shape, [(start, start + count), (0, 8)])
    assert cut is not None
    fixed = layout.slice(shape, [(number * block * 2, number * block * 2 + count), (0, 8)])
    assert [evaluate(cut.apply(place)["m"], {i: number}) for place in range(cut.size)] == enumerate_m(fixed)


def test_worked_values_of_the_design() -> None:
    assert TileLayout(S[32, 8]).apply(3, 4) == {"m": 28}
    assert TileLayout(S[(32, 8) : (1 @ laneid, 1)]).apply(3, 4) == {"laneid": 3, "m": 4}
    tmem = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    assert [place["TLane"] for place in tmem.places(5, 7)] == [5, 37, 69, 101]
    assert tmem.apply(5, 7) == {"TLane": 5, "TCol": 7}
    shifted = TileLayout(S[(8, 4) : (4, 1)] + 64 + 2 @ warpid)
    assert shifted.apply(1, 1) == {"m": 69, "warpid": 2}
    assert shifted.offset == {"m": 64, "warpid": 2}
    assert tc.swizzle("128B", "float16") == tc.Swizzle(per_element=3, swizzle_len=3, atom_len=3)
    assert tc.swizzle("32B", "float32") == tc.Swizzle(2, 1, 3)
    assert TileLayout(S[(32, 8) : (9, 1)]).span() == 287
    swizzled = tc.SwizzledLayout(tc.Swizzle(3, 3, 3), TileLayout(S[(32, 8) : (1 @ laneid, 1)]))
    assert (swizzled.span(laneid), swizzled.span()) == (32, 64), "only memory is swizzled"
    assert StridedLayout((tc.symbol("n"), 8), (8, 1)).span(laneid) == 1
    repeated = tc.SwizzledLayout(tc.Swizzle(1, 3, 3), TileLayout(S[16:1] + R[4:32]))
    assert [place["m"] for place in repeated.places(4)] == [tc.Swizzle(1, 3, 3).apply(4 + 32 * n) for n in range(4)]
    for empty in (S[()], S[()] + 5 @ laneid, S[()] + 8):
        assert eval(repr(TileLayout(empty)), vars(tc)) == TileLayout(empty), "a repr is what is written"
    assert TileLayout(S[np.int64(1), np.int8(4)]) == TileLayout(S[1, 4])
    assert S[2**61, 2].size == S[np.int64(2**61), 2].size == 2**62
    row = tc.symbol("row")
    assert structural_equal(TileLayout(S[4, 8]).apply(row, 3)["m"], row * 8 + 3), (
        "of the outermost iter nothing is cut off"
    )
    assert str(TileLayout(S[(32, 8) : (1 @ laneid, 1)])) == "TileLayout(S[(32, 8) : (1 @ laneid, 1)])"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: S[0, 4], (1, 4)),
        (lambda: S[(4, 4) : (1,)], ("strides",)),
        (lambda: S[(4,) : (-1,)], (4,)),
        (lambda: S[4.5,], ("4.5",)),
        (lambda: R[4], (4,)),
        (lambda: TileLayout(4), ("S",)),
        (lambda: TileLayout(S[4] + S[4]), ("S",)),
        (lambda: TileLayout(S[4, 4]).apply(4, 0), (4,)),
        (lambda: TileLayout(S[4, 4]).apply(-1, 0), ("index", 4)),
        (lambda: TileLayout(S[4, 4]).apply(0, tc.symbol("i", lower=-4, upper=-1)), (4,)),
        (lambda: TileLayout(S[4, 4]).apply(1, 2, 3), (3,)),
        (lambda: StridedLayout((tc.symbol("n"), 8), (8, 1)).apply(1), (1, "n")),
        (lambda: tc.swizzle("128B", DType("rgb", 24, "u")), (128, "rgb", 24)),
        (lambda: TileLayout(S[4, 4]).apply(1, 2, shape=(5, 5)), (16,)),
        (lambda: TileLayout(S[4, 4]).slice((4, 4), [(0, 4), (2, 6)]), (6, 4)),
        (lambda: TileLayout(S[4, 4]).slice((4, 4), [(2, 2), (0, 4)]), (0, (0, 4))),
        (lambda: TileLayout(S[4, 4]).permute([0, 0]), (4,)),
        (lambda: TileLayout(S[4, 4]).tile_to((6, 4)), ("shape",)),
        (lambda: TileLayout(S[4, 4]).tile_to((8,)), ("shape",)),
        (lambda: S[2**40, 2**40], (62,)),
        (lambda: S[np.int64(2**40), 2**40], (62,)),
        (lambda: tc.Swizzle(3, 3, 2), ("atom_len",)),
        (lambda: tc.swizzle("96B", "float16"), ("96B", "128B")),
    ],
)
def test_bad_layouts_are_refused(make: object, message: tuple[object, ...]) -> None:
    with pytest.raises(tc.LayoutError, match=mentions(*message)):
        make()  # type: ignore[operator]


def test_an_axis_is_not_compared_with_an_integer_of_the_kernel() -> None:
    n = tc.symbol("n", lower=0, upper=4)
    for compare in (lambda: tc.laneid == n, lambda: n == tc.laneid):
        with pytest.raises(tc.RequestError, match=mentions("n")):
            compare()
    assert tc.laneid == copy.copy(tc.laneid) and tc.laneid != tc.m and tc.laneid != "laneid"
