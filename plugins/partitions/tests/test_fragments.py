"""Fragments by name, held against what the PTX ISA says of each thread and register, written out as formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout, laneid, wid_in_wg
from tilecopy.executors import unavailable_reason
from tilecopy_test_helpers.mentions import mentions

Coordinate = tuple[int, ...]
Place = Callable[[int, int], Coordinate]
"""The row and column of a thread's register element."""

BITS = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "int8": 8, "uint8": 8, "int4": 4, "uint4": 4}
BITS |= {"float8_e4m3fn": 8, "float8_e5m2": 8, "float4_e2m1fn": 4, "int32": 32}
MMA = {
    "m8n8k4": "float64",
    "m8n8k16": "int8 uint8",
    "m8n8k32": "int4 uint4",
    "m16n8k4": "float32 float64",
    "m16n8k8": "float16 bfloat16 float32 float64",
    "m16n8k16": "float16 bfloat16 int8 uint8 float8_e4m3fn float8_e5m2 float64",
    "m16n8k32": "int8 uint8 int4 uint4 float8_e4m3fn float8_e5m2",
    "m16n8k64": "int4 uint4 float4_e2m1fn",
}


def a_of(rows: int, each: int) -> Place:
    """A: registers go down the halves of the rows first; each holds ``each`` elements side by side."""

    def place(lane: int, i: int) -> Coordinate:
        group, thread, register = lane >> 2, lane % 4, i // each
        row = group + 8 * (register % 2 if rows == 16 else 0)
        return row, 4 * each * (register // (rows // 8)) + thread * each + i % each

    return place


def b_of(each: int) -> Place:
    return lambda lane, i: (lane >> 2, 4 * each * (i // each) + (lane % 4) * each + i % each)


def c_place(lane: int, i: int) -> Coordinate:
    return (lane >> 2) + 8 * (i >= 2), (lane % 4) * 2 + (i & 1)


def fragments() -> Iterator[tuple[str, str, str, int, tuple[int, ...], Place]]:
    """Every dense shape of mma.sync: shape, operand, dtype, elements a thread, the operand's shape, where each is."""
    for shape, types in MMA.items():
        rows, depth = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
        for dtype in types.split():
            each = max(1, 32 // BITS[dtype])
            yield shape, "A", dtype, rows * depth // 32, (rows, depth), a_of(rows, each)
            yield shape, "B", dtype, 8 * depth // 32, (8, depth), b_of(each)
            results = ["float64"] if dtype == "float64" else ["int32"] if "int" in dtype else ["float32"]
            if dtype == "float16" or dtype.startswith("float8"):
                results.append("float16")
            for result, operand in zip(results * 2, "CCDD", strict=False):
                yield shape, operand, result, rows * 8 // 32, (rows, 8), c_place
    quad = lambda lane: ((lane >> 2) % 4, lane % 4 + (4 if lane >= 16 else 0))  # noqa: E731
    yield "m8n8k4", "A", "float16", 4, (4, 8, 4), lambda lane, i: (*quad(lane), i)
    yield "m8n8k4", "B", "float16", 4, (4, 8, 4), lambda lane, i: (*quad(lane), i)
    yield "m8n8k4", "C", "float16", 8, (4, 8, 8), lambda lane, i: (*quad(lane), i)

    def c32(lane: int, i: int) -> Coordinate:
        row = (lane & 0b1) + (i & 0b10) + (4 if lane >= 16 else 0)
        return quad(lane)[0], row, (i & 0b100) + (lane & 0b10) + (i & 0b1)

    yield "m8n8k4", "C", "float32", 8, (4, 8, 8), c32


def wgmma_fragments() -> Iterator[tuple[str, str, str, int, tuple[int, ...], Place]]:
    """As :func:`fragments`, by thread of the warpgroup."""
    for depth, types in {8: "float32", 16: "float16 bfloat16", 32: "int8 uint8 float8_e4m3fn float8_e5m2"}.items():
        for dtype in types.split():
            a = a_of(16, 32 // BITS[dtype])
            for n in range(8, 257, 8):
                if "int" in dtype and n > 24 and n % 16:
                    continue
                down = lambda place: lambda t, i: (16 * (t // 32) + place(t % 32, i)[0], place(t % 32, i)[1])  # noqa: E731
                if n in (8, 128):
                    yield f"m64n{n}k{depth}", "A", dtype, depth // 2, (64, depth), down(a)
                result = "int32" if "int" in dtype else "float32"
                yield (
                    f"m64n{n}k{depth}",
                    "C",
                    result,
                    n // 2,
                    (64, n),
                    down(lambda lane, i: ((lane >> 2) + 8 * ((i >> 1) & 1), 8 * (i >> 2) + lane % 4 * 2 + (i & 1))),
                )


TCGEN05: dict[str, tuple[int, int, tuple[int, ...], Place]] = {
    # registers of one repeat, most repeats, (lanes, columns of a repeat) and where a lane's register lies
    "32x32b": (1, 128, (32, 1), lambda lane, r: (lane, r)),
    "16x64b": (1, 128, (16, 2), lambda lane, r: (8 * (lane & 1) + (lane >> 2), 2 * r + ((lane >> 1) & 1))),
    "16x128b": (2, 64, (16, 4), lambda lane, r: (8 * (r & 1) + (lane >> 2), 4 * (r >> 1) + lane % 4)),
    "16x256b": (
        4,
        32,
        (16, 8),
        lambda lane, r: (8 * ((r >> 1) & 1) + (lane >> 2), 8 * (r >> 2) + 2 * (lane % 4) + (r & 1)),
    ),
    "16x32bx2": (1, 128, (16, 2, 1), lambda lane, r: (lane % 16, lane // 16, r)),
}


def test_every_shape_of_mma_sync_is_the_isas() -> None:
    count = 0
    for shape, operand, dtype, elements, extents, place in fragments():
        layout = tc.mma_fragment(shape, operand, dtype)
        check(layout, extents, {(t, i): place(t, i) for t in range(32) for i in range(elements)}, 32)
        count += 1
    assert count > 80


def test_every_shape_of_wgmma_is_the_isas() -> None:
    seen = set()
    for shape, operand, dtype, elements, extents, place in wgmma_fragments():
        layout = tc.mma_fragment(shape, operand, dtype)
        if (operand, layout) in seen:
            continue  # types of one width share it
        seen.add((operand, layout))
        check(layout, extents, {(t, i): place(t, i) for t in range(128) for i in range(elements)}, 128)
    assert len(seen) == 32 + 3  # 32 widths of C, and A of three depths


@pytest.mark.parametrize("name", TCGEN05)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_every_shape_of_tcgen05_is_the_isas(name: str, dtype: str) -> None:
    registers, most, (*lanes, columns), place = TCGEN05[name]
    each = 32 // BITS[dtype]
    for repeats in (1 << n for n in range(most.bit_length())):
        layout = tc.mma_fragment(f"{name}.x{repeats}", "C", dtype)
        found = {}
        for t in range(32):
            for r in range(registers * repeats):
                *row, column = place(t, r)
                found |= {(t, r * each + e): (*row, column * each + e) for e in range(each)}
        check(layout, (*lanes, columns * repeats * each), found, 32)
    assert tc.mma_fragment(name, "C", dtype) == tc.mma_fragment(f"{name}.x1", "D", dtype)


def check(
    layout: TileLayout, extents: tuple[int, ...], expected: dict[tuple[int, int], Coordinate], threads: int
) -> None:
    """A layout has each element of the shape at the thread and register element that the figure says."""
    assert layout.size == len(expected) == len(set(expected.values()))
    for (thread, i), coordinate in list(expected.items())[:: 1 if len(expected) < 1 << 13 else 7]:
        place = layout.apply(*coordinate, shape=extents)
        at = place.get("laneid", 0) + 32 * place.get("wid_in_wg", 0)
        assert (at, place.get("m", 0)) == (thread, i), (layout, coordinate)
    assert max(thread for thread, _ in expected) == threads - 1


def test_the_rows_of_the_facts() -> None:
    half = tc.mma_fragment("m16n8k16", "A", "float16")
    assert half == TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])
    assert tc.mma_fragment("32x32b.x64", "C", "float32") == TileLayout(S[(32, 64) : (1 @ laneid, 1)])
    wide = tc.mma_fragment("m64n128k16", "C", "float32")
    assert wide == TileLayout(S[(4, 2, 8, 16, 4, 2) : (1 @ wid_in_wg, 2, 4 @ laneid, 4, 1 @ laneid, 1)])


@pytest.mark.parametrize("shape", [(16, 8), (64, 64), (32, 48), (128, 16)])
@pytest.mark.parametrize("warps", [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_a_tile_is_boxes_of_warps_and_fragments_in_order(shape: tuple[int, int], warps: tuple[int, int]) -> None:
    fragment = tc.mma_fragment("m16n8k16", "C", "float32")
    if shape[0] % (16 * warps[0]) or shape[1] % (8 * warps[1]):
        with pytest.raises(tc.LayoutError, match=mentions("fragment")):
            tc.tile_fragment(fragment, shape, warps)
        return
    tiled = tc.tile_fragment(fragment, shape, warps)
    rows, columns = shape[0] // warps[0], shape[1] // warps[1]
    for row in range(shape[0]):
        for column in range(shape[1]):
            warp = row // rows * warps[1] + column // columns
            number = row % rows // 16 * (columns // 8) + column % columns // 8
            own = fragment.apply(row % 16, column % 8, shape=(16, 8))
            expected = {"warpid": warp, "laneid": own["laneid"], "m": own["m"] + 4 * number}
            found = {"warpid": 0, **tiled.apply(row, column, shape=shape)}
            assert found == expected


def test_tiles_of_warpgroups_of_a_named_axis_and_of_a_given_atom() -> None:
    of_warpgroup = tc.mma_fragment("m64n64k16", "C", "float32")
    assert tc.tile_fragment(of_warpgroup, (128, 64), (2, 1)).apply(100, 0, shape=(128, 64))["wgid"] == 1
    lanes = tc.tile_fragment(tc.mma_fragment("32x32b.x8", "C", "float32"), (128, 8), (4, 1), warp_axis=wid_in_wg)
    assert lanes == TileLayout(S[(4, 32, 8) : (1 @ wid_in_wg, 1 @ laneid, 1)])
    b = tc.mma_fragment("m16n8k16", "B", "bfloat16")
    assert tc.tile_fragment(b, (16, 16)) == tc.tile_fragment(b, (16, 16), atom=(8, 16))
    halves = tc.mma_fragment("16x64b.x2", "C", "float32")
    tiled = tc.tile_fragment(halves, (128, 4), (4, 1))
    assert tiled.apply(55, 3, shape=(128, 4)) == {"warpid": 1, "laneid": 4 * 7 + 2, "m": 2 + 1}
    quads = tc.mma_fragment("m8n8k4", "A", "float16")
    assert tc.tile_fragment(quads, (4, 16, 4), (1, 1, 1), atom=(4, 8, 4)).size == 256


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("m16n8k17", "A", "float16"), ("m16n8k17", "m16n8k16")),
        (("m64n260k16", "C", "float32"), ("m64n260k16", "m64n256k16")),
        (("32x32b.x65", "C", "float32"), ("32x32b.x65",)),
        (("16x256b.x64", "C", "float32"), ("16x256b.x64",)),
        (
            ("m64n128k16", "B", "float16"),
            ("m64n128k16", "B", "float16", "A", "bfloat16", "C"),
        ),
        (("m16n8k16", "A", "float32"), ("m16n8k16", "A", "float32", "float16")),
        (("m64n40k32", "A", "int8"), ("m64n40k32", "A", "int8")),
        (("32x32b", "C", "float64"), ("32x32b", "C", "float64")),
        (("m16n8k16", "E", "float16"), ("E", "A", "B", "C", "D")),
        (("m16n8k16", "A", "tf32"), ("tf32",)),
        ((16, "A", "float16"), ("shape", 16)),
    ],
)
def test_what_no_instruction_has_is_refused(arguments: tuple[str, str, str], says: tuple[object, ...]) -> None:
    with pytest.raises(tc.RequestError) as refused:
        tc.mma_fragment(*arguments)
    assert mentions(*says).search(str(refused.value))


def test_a_tile_of_what_has_no_rows_that_can_be_told_needs_its_atom() -> None:
    with pytest.raises(tc.LayoutError, match=mentions("atom")):
        tc.tile_fragment(tc.mma_fragment("m8n8k4", "A", "float16"), (64, 4))
    with pytest.raises(tc.LayoutError, match=mentions("warpid", "warp_axis")):
        tc.tile_fragment(tc.mma_fragment("m8n8k4", "A", "float64"), (64, 4), warp_axis="warpid")  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ what the hardware says

PTX_TYPES = {"float64": "f64", "float32": "tf32", "float16": "f16", "bfloat16": "bf16", "int8": "s8", "uint8": "u8"}
PTX_TYPES |= {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
PRODUCTS = [(shape, dtype) for shape, types in MMA.items() for dtype in types.split() if dtype in PTX_TYPES]


def product(shape: str, dtype: str) -> tuple[tc.BuiltKernel, tuple[int, int], str]:
    """D = A @ B.T by one mma.sync, every operand copied to or from its fragment; the kernel, M and K, and the type of D."""
    rows, depth = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    result = {"float64": "float64", "int8": "int32", "uint8": "int32"}.get(dtype, "float32")
    k = tc.KernelBuilder("product", threads=32)
    extents = {"A": (rows, depth), "B": (8, depth), "C": (rows, 8)}
    types = {"A": dtype, "B": dtype, "C": result}
    arrays = {name: k.param(name, extents[name], types[name]) for name in "ABC"}
    held = {
        name: k.local(extents[name], types[name], layout=tc.mma_fragment(shape, name, types[name]), name=f"held_{name}")
        for name in "ABC"
    }
    for name in "ABC":
        k.warp.copy(held[name][:, :], arrays[name][:, :])
    d, of = {"float64": "f64", "int32": "s32", "float32": "f32"}[result], PTX_TYPES[dtype]
    k.inline_ptx(
        f"mma.sync.aligned.{shape}.row.col.{d}.{of}.{of}.{d} {{{{{{2}}}}}}, {{{{{{0}}}}}}, {{{{{{1}}}}}}, {{{{{{2}}}}}};",
        k.registers(held["A"])[:],
        k.registers(held["B"])[:],
        out=[k.registers(held["C"])[:]],
    )
    k.warp.copy(arrays["C"][:, :], held["C"][:, :])
    return k.build(target="sm_90", grid=1), (rows, depth), result


@pytest.mark.parametrize("executor", ["emulator", "cuda"])
@pytest.mark.parametrize(("shape", "dtype"), PRODUCTS)
def test_a_product_of_fragments_is_numpys(executor: str, shape: str, dtype: str) -> None:
    if why := unavailable_reason(executor):
        pytest.skip(why)
    kernel, (rows, depth), result = product(shape, dtype)
    rng, holds = np.random.default_rng(0), tc.dtype_of(dtype).numpy()
    lowest = 0 if dtype == "uint8" else -4
    a, b = (rng.integers(lowest, 5, extents).astype(holds) for extents in ((rows, depth), (8, depth)))
    c = rng.integers(-50, 50, (rows, 8)).astype(result)
    wanted = c + a.astype(result) @ b.astype(result).T
    kernel(a, b, c, executor=executor)
    assert (c == wanted).all()
