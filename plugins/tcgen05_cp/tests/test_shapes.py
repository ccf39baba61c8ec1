"""Every shape of tcgen05.cp in TVM's cases: as few instructions, and right on the emulator; assembled for every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TCol, TileLayout, TLane
from tilecopy.assemblers import assemble
from tilecopy_test_helpers import byte_arrays, demos
from tilecopy_test_helpers.mentions import mentions

SHAPES = ["128x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4", "4x256b"]
PITCH = {0: 16, 1: 32, 2: 64, 3: 128}


def tensor(shape: str, columns: int) -> TileLayout:
    """The lanes that a shape writes, and so many elements of each."""
    return {
        "128x256b": TileLayout(S[(128, columns) : (1 @ TLane, 1 @ TCol)]),
        "128x128b": TileLayout(S[(128, columns) : (1 @ TLane, 1 @ TCol)]),
        "64x128b.warpx2::02_13": TileLayout(S[(64, columns) : (1 @ TLane, 1 @ TCol)] + R[2 : 64 @ TLane]),
        "64x128b.warpx2::01_23": TileLayout(
            S[(2, 32, columns) : (64 @ TLane, 1 @ TLane, 1 @ TCol)] + R[2 : 32 @ TLane]
        ),
        "32x128b.warpx4": TileLayout(S[(32, columns) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]),
        "4x256b": TileLayout(S[(4, columns) : (32 @ TLane, 1 @ TCol)]),
    }[shape]


def staged(rows: int, columns: int, dtype: str, mode: int) -> tc.Layout:
    """A tile as matrix instructions want it: 8 rows of the swizzle's span, then the next 8, then the next columns."""
    wide = PITCH[mode] // tc.dtype_of(dtype).bytes
    if mode == 0 and columns > wide:  # 16 bytes of 8 rows after those of the same rows
        return TileLayout(S[(rows // 8, 8, columns // wide, wide) : (8 * columns, wide, 8 * wide, 1)])
    plain = TileLayout(S[(rows, columns // wide, wide) : (wide, rows * wide, 1)])
    return tc.SwizzledLayout(tc.swizzle(f"{PITCH[mode]}B", dtype), plain) if mode else plain


def kernel(
    source: tc.Layout, shape: tuple[int, int], box: tuple[slice, slice], target: tc.Layout, memory: tuple[int, int],
    into: tuple[slice, slice], dtype: str, *, arch: str = "sm_100a",
) -> tc.BuiltKernel:  # fmt: skip
    """A to shared memory, a box of it to tensor memory, and all of that to B."""
    k = tc.KernelBuilder("shapes", threads=128)
    columns = memory[1] * tc.dtype_of(dtype).bits // 32
    a, b = k.param("A", shape, dtype), k.param("B", (128, columns), "uint32")
    tile = k.shared(shape, dtype, layout=source, name="tile", align_bytes=1024)
    mbar, tid = k.mbarrier("mbar"), k.thread_id()
    there = k.tmem(memory, dtype, layout=target, name="there")
    allocated = max(32, 1 << (columns - 1).bit_length())
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(there, columns=allocated)
    with k.if_(tid == 0):
        mbar.init(1)
    demos.by_elements(k, tile[:, :], a[:, :], threads=128)
    k.fence_proxy_async()
    k.cta_sync()
    base = k.load(there.allocated_addr[0]) + k.cast(tid // 32 * (32 << 16), "uint32")
    zero = k.local(1, "uint32", name="zero")
    k.store(zero[0], 0)
    zeros = ", ".join(["{1}"] * allocated)  # what is not copied stays 0
    k.inline_ptx(f"tcgen05.st.sync.aligned.32x32b.x{allocated}.b32 [{{0}}], {{{{{zeros}}}}};", base, zero[:])
    k.inline_ptx("tcgen05.wait::st.sync.aligned;")
    k.tcgen05_fence_before()
    k.cta_sync()
    k.tcgen05_fence_after()
    with k.if_(tid == 0):
        k.thread.copy_async(there[into], tile[box])
        k.tcgen05_commit(mbar[0])
    mbar.wait(0)
    k.tcgen05_fence_after()
    words = k.local(1 << (columns - 1).bit_length(), "uint32", name="words")
    k.tcgen05_ld(words, there)
    k.tcgen05_wait_ld()
    for column in range(columns):
        k.store(b[tid, column], k.load(words[column]))
    k.tcgen05_fence_before()
    k.cta_sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05_dealloc(there, columns=allocated)
    return k.build(target=arch, grid=1)


def run(built: tc.BuiltKernel, box: Any, target: tc.Layout, memory: tuple[int, int], into: Any, dtype: str) -> None:
    """What lies in tensor memory is what the destination's layout says, and 0 elsewhere."""
    a = byte_arrays.random_array(tuple(built.plans[0].request.src.buffer.shape), f"uint{tc.dtype_of(dtype).bits}")
    wanted = np.zeros((128, memory[1]), a.dtype)
    tile, begin = a[box], [part.start or 0 for part in into]
    for row, column in np.ndindex(tile.shape):
        for place in target.places(row + begin[0], column + begin[1], shape=memory):
            wanted[place.get("TLane", 0), place.get("TCol", 0)] = tile[row, column]
    b = np.zeros((128, wanted.nbytes // 512), np.uint32)
    built(a.view(tc.dtype_of(dtype).numpy()), b, executor="emulator")
    assert byte_arrays.same_bytes(b, wanted)


def rows_of(shape: str) -> int:
    return int(shape.split("x", maxsplit=1)[0])


def case(
    shape: str, mode: int, dtype: str, middle: int, *, skipped: int = 0, column: int = 0, arch: str = "sm_100a"
) -> list[str]:
    """One of TVM's cases: ``middle`` copies side by side. The instructions; run where no other target is asked for."""
    rows, bits = rows_of(shape), tc.dtype_of(dtype).bits
    columns = middle * (256 if "256b" in shape else 128) // bits
    held = max(columns, PITCH[mode] * 8 // bits)
    height = max(rows + skipped, 16)  # each thread fills an element at least
    box = (slice(skipped, skipped + rows), slice(0, columns))
    memory, into = (rows, columns + column), (slice(0, rows), slice(column, column + columns))
    layout = tensor(shape, columns + column)
    built = kernel(staged(height, held, dtype, mode), (height, held), box, layout, memory, into, dtype, arch=arch)
    if arch == "sm_100a":
        run(built, box, layout, memory, into, dtype)
    return [line.split()[0] for line in built.ptx.splitlines() if "tcgen05.cp" in line]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", [1, 2, 3])
@pytest.mark.parametrize(("dtype", "middle"), [("bfloat16", 1), ("float32", 4)])
def test_swizzled_tiles(shape: str, mode: int, dtype: str, middle: int) -> None:
    wider = shape == "128x128b" and middle > 1  # the wider shape has half the instructions
    name = "128x256b" if wider else shape
    assert case(shape, mode, dtype, middle) == [f"tcgen05.cp.cta_group::1.{name}"] * (middle // (1 + wider))


@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_without_a_swizzle(shape: str) -> None:
    assert case(shape, 0, "float32", 1) == [f"tcgen05.cp.cta_group::1.{shape}"]


@pytest.mark.parametrize(
    ("shape", "mode", "dtype", "middle", "skipped", "column"),
    [
        ("32x128b.warpx4", 3, "bfloat16", 1, 8, 0),
        ("64x128b.warpx2::02_13", 3, "bfloat16", 2, 0, 8),
        ("128x256b", 2, "float32", 2, 0, 8),
    ],
)
def test_parts_of_tiles(shape: str, mode: int, dtype: str, middle: int, skipped: int, column: int) -> None:
    found = case(shape, mode, dtype, middle, skipped=skipped, column=column)
    assert found == [f"tcgen05.cp.cta_group::1.{shape}"] * middle


@pytest.mark.parametrize(("low", "high"), [(0, 16), (4, 12)])
def test_four_lanes_after_each_other(low: int, high: int) -> None:
    layout = TileLayout(S[(16, 4, 16) : (1 @ TLane, 32 @ TLane, 1 @ TCol)])
    box, into = (slice(0, 4 * (high - low)), slice(0, 16)), (slice(4 * low, 4 * high), slice(0, 16))
    built = kernel(staged(64, 16, "bfloat16", 1), (64, 16), box, layout, (64, 16), into, "bfloat16")
    run(built, box, layout, (64, 16), into, "bfloat16")
    assert built.ptx.count("tcgen05.cp.cta_group::1.4x256b") == high - low


@pytest.mark.parametrize("target", ["sm_100a", "sm_100f", "sm_103a", "sm_110a"])
@pytest.mark.parametrize("assembler", ["nvjitlink", "ptxas"])
def test_each_shape_assembles(target: str, assembler: str) -> None:
    for shape in SHAPES:
        rows = rows_of(shape)
        columns = 8 if "256b" in shape else 4
        box = (slice(0, rows), slice(0, columns))
        built = kernel(
            staged(max(rows, 8), 8, "float32", 1), (max(rows, 8), 8), box, tensor(shape, columns), (rows, columns), box, "float32",
            arch=target,
        )  # fmt: skip
        assert assemble(built.ptx, built.target, assembler)[:4] == b"\x7fELF"


def reason(target: TileLayout, rows: int, columns: int, source: tc.Layout | None = None, dtype: str = "float32") -> str:
    src = tc.Buffer((rows, columns), dtype, space="shared", layout=source, name="s", align_bytes=1024)
    dst = tc.Buffer((rows, columns), dtype, space="tmem", layout=target, name="t", allocated_addr=0)
    with pytest.raises(tc.NoVariantError) as caught:
        tc.plan(dst[:, :], src[:, :], op="copy_async", scope=tc.thread(), target="sm_100a")
    return caught.value.declined["tcgen05_cp"]


def test_declines_name_the_lanes() -> None:
    assert mentions("R", 64).search(reason(TileLayout(S[(64, 4) : (1 @ TLane, 1 @ TCol)]), 64, 4))
    assert mentions("R", 32, 64).search(reason(TileLayout(S[(2, 32, 4) : (64 @ TLane, 1 @ TLane, 1 @ TCol)]), 64, 4))
    assert mentions(16).search(reason(TileLayout(S[(16, 4) : (1 @ TLane, 1 @ TCol)]), 16, 4))
    late = TileLayout(S[(64, 4) : (1 @ TLane, 1 @ TCol)] + R[2 : 64 @ TLane] + 1 @ TLane)
    assert mentions("64x128b.warpx2::02_13", 128).search(reason(late, 64, 4))
    four = TileLayout(S[(4, 4) : (32 @ TLane, 1 @ TCol)])
    assert mentions(16, "4x256b").search(reason(four, 4, 4))
    half = tc.SwizzledLayout(tc.swizzle("32B", "float32"), TileLayout(S[(8, 2, 4) : (8, 64, 1)]))
    eight = TileLayout(S[(2, 4, 8) : (1 @ TLane, 32 @ TLane, 1 @ TCol)])
    assert mentions(16, "4x256b").search(reason(eight, 8, 8, half))
    beyond = TileLayout(S[(4, 8) : (32 @ TLane, 1 @ TCol)] + 32 @ TLane)
    assert mentions(32).search(reason(beyond, 4, 8))
    rows = TileLayout(S[(8, 8) : (1 @ TLane, 1 @ TCol)])
    assert mentions(4, 32).search(reason(rows, 8, 8))
