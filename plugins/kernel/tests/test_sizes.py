"""Sizes known at launch: one build serves every size; what is declared of them is checked; on the emulator against NumPy."""

from __future__ import annotations

import pickle
import tempfile
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import S, TileLayout, tx
from tilecopy.assemblers import ASSEMBLERS, assemble
from tilecopy.kernel.number_parameters import SizeParameter
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.fake_driver import FLOAT32, FakeDriver, FakeTensor
from tilecopy_test_helpers.mentions import mentions


def tiled(
    multiple_m: int = 8, multiple_n: int = 8, *, upper: int = 2**31 - 1, padded: bool = False
) -> tuple[Any, tc.BuiltKernel]:
    """B = A by tiles of 8 x 8 for any M and N; returns the builder's size M and the kernel."""
    k = tc.KernelBuilder("tiled", threads=32)
    m = k.size("M", multiple_of=multiple_m, upper=upper)
    n = k.size("N", multiple_of=multiple_n, upper=upper)
    a = k.param("A", (m, n), "float32")
    b = k.param("B", (m, n), "float32", strides=(n + 8, 1) if padded else None)
    tile = k.shared((8, 8), "float32", name="tile")
    y, x = k.block_id("y") * 8, k.block_id("x") * 8
    k.cta.copy(tile[:, :], a[y : y + 8, x : x + 8])
    k.cta_sync()
    k.cta.copy(b[y : y + 8, x : x + 8], tile[:, :])
    kernel = k.build(target="sm_80", grid=(n // 8, m // 8))
    assert not kernel.bounds, "the grid proves every region for every size"
    return m, kernel


def test_one_build_many_sizes() -> None:
    _, kernel = tiled()
    text = kernel.ptx
    for assembler in ASSEMBLERS:
        assemble(text, kernel.target, assembler)
    for m, n in ((8, 8), (8, 96), (40, 16), (64, 8)):
        a = byte_arrays.random_array((m, n), "uint32").view(np.float32)
        b = np.zeros_like(a)
        kernel(a, b, executor="emulator")
        assert byte_arrays.same_bytes(a, b)
    assert kernel.ptx == text and [type(p) for p in kernel.parameters[:2]] == [SizeParameter, SizeParameter]
    again = pickle.loads(pickle.dumps(kernel))
    b = np.zeros_like(a)
    again(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


@given(st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_any_size(m: int, n: int, padded: bool) -> None:
    _, kernel = tiled(padded=padded)
    a = byte_arrays.random_array((m * 8, n * 8), "uint32").view(np.float32)
    wide = np.zeros((m * 8, n * 8 + 8 * padded), np.float32)
    b = wide[:, : n * 8]
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(np.ascontiguousarray(b), a)
    assert not wide[:, n * 8 :].any()


def test_widths_follow_what_is_declared() -> None:
    for multiple, bits in ((8, 64), (2, 64), (1, 32)):
        _, kernel = tiled(multiple_n=multiple)
        assert kernel.plans[0].partition.vec_bits == bits


def test_index_arithmetic_is_as_wide_as_the_bounds_need() -> None:
    assert ".s64" in tiled()[1].ptx
    small = tiled(upper=4096)[1].ptx
    body = small[small.index("{") :]
    assert "mul.lo.s64" not in body and "mad.lo.s64" not in body
    k = tc.KernelBuilder("k", threads=32)
    big = k.size("M", upper=2**40, multiple_of=32)
    a = k.param("A", (big,), "uint8")
    k.store(a[big - 1], 7)
    kernel = k.build(target="sm_80", grid=1)
    assert "ld.param.b64" in kernel.ptx and ".param .b64 param_M" in kernel.ptx
    with tempfile.TemporaryFile() as file:
        far = np.memmap(file, np.uint8, "w+", shape=(2**32 + 64,))
        kernel(far, executor="emulator")
        assert far[-1] == 7


def test_starts_ranges_guards_and_scalar_bounds() -> None:
    """Every CTA walks its rows in steps of 4; the last n rows are doubled; whole tiles alone are touched."""
    k = tc.KernelBuilder("walk", threads=32)
    m = k.size("M", lower=8)
    n = k.scalar("n", lower=1, upper=m // 4)
    a, b = k.param("A", (m, 8), "int32"), k.param("B", (m, 8), "int32")
    last = k.param("last", (8, 8), "int32")
    tile = k.shared((4, 8), "int32")
    for i in k.range(n):
        with k.if_(k.block_id() == 0):
            k.cta.copy(tile[:, :], a[i * 4 : i * 4 + 4, :])
            k.cta_sync()
            k.cta.copy(b[i * 4 : i * 4 + 4, :], tile[:, :])
            k.cta_sync()
    end = k.shared((8, 8), "int32")
    row = k.block_id() * 8
    with k.if_(row + 8 <= m):
        k.cta.copy(end[:, :], a[row : row + 8, :])
    k.cta_sync()
    with k.if_(k.block_id() == 0):
        k.cta.copy(end[:, :], a[m - 8 : m, :])
        k.cta_sync()
        k.cta.copy(last[:, :], end[:, :])
    kernel = k.build(target="sm_80", grid=((m + 7) // 8,))
    assert len(kernel.bounds) == 0  # the guards and declared bounds prove all of it, for every size
    for rows in (8, 9, 12, 31):
        source = np.arange(rows * 8, dtype=np.int32).reshape(rows, 8)
        for count in {1, rows // 4}:
            result, tail = np.zeros_like(source), np.zeros((8, 8), np.int32)
            kernel(count, source, result, tail, executor="emulator")
            assert (result[: count * 4] == source[: count * 4]).all() and not result[count * 4 :].any()
            assert (tail == source[-8:]).all()
        with pytest.raises(tc.LaunchError, match=mentions("n", rows, "M", 4)):
            kernel(rows, source, result, tail, executor="emulator")


def test_a_region_is_checked_with_the_sizes_of_the_launch() -> None:
    k = tc.KernelBuilder("k", threads=32)
    m = k.size("M")
    a, s = k.param("A", (m, 32), "float32"), k.shared((8, 32), "float32")
    row = k.block_id() * 8
    k.cta.copy(s[:, :], a[row : row + 8, :])
    kernel = k.build(target="sm_80", grid=((m + 7) // 8,))
    kernel(np.zeros((64, 32), np.float32), executor="emulator")
    with pytest.raises(
        tc.LaunchError,
        match=mentions("M", 60, 8, "ctaid.x", 56, 52),
    ):
        kernel(np.zeros((60, 32), np.float32), executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("grid", "M", 7, 8)):
        kernel(np.zeros((64, 32), np.float32), grid=7, executor="emulator")
    k = tc.KernelBuilder("fixed", threads=32)
    m = k.size("M")
    a, s = k.param("A", (m, 32), "float32"), k.shared((8, 32), "float32")
    k.cta.copy(s[:, :], a[8:16, :])
    kernel = k.build(target="sm_80", grid=1)
    kernel(np.zeros((16, 32), np.float32), executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("M", 15, 8)):
        kernel(np.zeros((15, 32), np.float32), executor="emulator")


def test_a_size_may_be_none_at_all() -> None:
    k = tc.KernelBuilder("k", threads=32)
    m = k.size("M", lower=0)
    n = k.size("N")
    a, b = k.param("A", (m, n), "float32"), k.param("B", (n,), "float32", align_bytes=4)
    k.store(b[0], k.load(a[k.block_id(), n - 1]))
    kernel = k.build(target="sm_80", grid=(m,))
    result = np.zeros(3, np.float32)
    kernel(np.zeros((0, 3), np.float32), result, executor="emulator")
    assert not result.any()
    kernel(np.ones((1, 3), np.float32), result, executor="emulator")
    assert result.tolist() == [1, 0, 0]


def test_a_size_is_solved_for() -> None:
    k = tc.KernelBuilder("k", threads=32)
    m = k.size("M")
    a, b = k.param("A", (m * 4 + 1, 3), "int32"), k.param("B", (2, m), "int32")
    k.store(b[1, m - 1], k.load(a[m * 4, 2]))
    kernel = k.build(target="sm_80", grid=1)
    source, result = np.arange(39, dtype=np.int32).reshape(13, 3), np.zeros((2, 3), np.int32)
    kernel(source, result, executor="emulator")
    assert result.tolist() == [[0, 0, 0], [0, 0, 38]]
    with pytest.raises(tc.LaunchError, match=mentions("A", 12, 4, "M")):
        kernel(source[:12], result, executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("M", 3, "A", 4, "B")):
        kernel(source, np.zeros((2, 4), np.int32), executor="emulator")


def test_products_of_sizes_are_shapes_too() -> None:
    k = tc.KernelBuilder("k", threads=32)
    m, n = k.size("M"), k.size("N", multiple_of=4)
    a, flat = k.param("A", (m, n), "int32"), k.param("B", (m * n // 4, 4), "int32")
    words = a.view(shape=(m * n,))
    tid = k.thread_id()
    with k.if_(tid < m * n):
        k.store(flat[tid // 4, tid % 4], k.load(words[tid]))
    kernel = k.build(target="sm_80", grid=1)
    source, result = np.arange(24, dtype=np.int32).reshape(3, 8), np.zeros((6, 4), np.int32)
    kernel(source, result, executor="emulator")
    assert (result == source.reshape(6, 4)).all()
    with pytest.raises(tc.LaunchError, match=mentions("B", "shape", 5, 4, 6)):
        kernel(source, np.zeros((5, 4), np.int32), executor="emulator")


def test_views_of_an_array_of_any_size() -> None:
    k = tc.KernelBuilder("k", threads=32)
    m, n = k.size("M", multiple_of=8), k.size("N", multiple_of=8)
    a, b = k.param("A", (m, n), "float16"), k.param("B", (n, m), "float16")
    tile = k.shared((8, 8), "float16")
    y, x = k.block_id("y") * 8, k.block_id("x") * 8
    k.cta.copy(tile[:, :], a.T[x : x + 8, y : y + 8])
    k.cta_sync()
    k.cta.copy(b[x : x + 8, y : y + 8], tile[:, :])
    kernel = k.build(target="sm_80", grid=(n // 8, m // 8))
    source, result = byte_arrays.random_array((16, 24), "float16"), np.zeros((24, 16), np.float16)
    kernel(source, result, executor="emulator")
    assert byte_arrays.same_bytes(result, np.ascontiguousarray(source.T))
    words = a.view(dtype="uint32")
    assert tc.Expr is type(words.shape[1]) and str(words) == "global A: uint32[M, (N)//2]"
    assert str(a.permute(1, 0)) == "global A: float16[N, M]"
    for wrong, message in (
        (lambda: a.view(dtype="complex128").view(dtype="uint8").view(shape=(m, n)), ("A",)),
        (lambda: a.view(shape=(8, 8), layout=TileLayout(S[(8, 8) : (16, 1)])), (1920, "A")),
        (lambda: a.T.view(shape=(m * n,)), ("A",)),
        (lambda: a.view(layout=TileLayout(S[8, 8])), ("shape",)),
    ):
        with pytest.raises(tc.LayoutError, match=mentions(*message)):
            wrong()
    assert a.view(shape=(8, 8), layout=TileLayout(S[8, 8])).shape == (8, 8)  # at least 8 x 8 elements are there


def test_a_transpose_of_any_size_through_registers_computes_no_address_twice() -> None:
    k = tc.KernelBuilder("transpose", threads=64)
    m, n = k.size("M", multiple_of=64), k.size("N", multiple_of=8)
    a, b = k.param("A", (m, n), "float32"), k.param("B", (n, m), "float32")
    fragment = k.local((64, 8), "float32", layout=TileLayout(S[(64, 8) : (1 @ tx, 1)]))
    y, x = k.block_id("y") * 64, k.block_id("x") * 8
    k.cta.copy(fragment[:, :], a[y : y + 64, x : x + 8])
    k.cta.copy(b.T[y : y + 64, x : x + 8], fragment[:, :])
    kernel = k.build(target="sm_80", grid=(n // 8, m // 64))
    assert not kernel.bounds
    computed = [
        line.split(maxsplit=2) for line in kernel.ptx.splitlines() if line.startswith(("\tm", "\tadd", "\tshl"))
    ]
    assert len({(opcode, operands) for opcode, _, operands in computed}) == len(computed) < 20
    for rows, columns in ((64, 8), (128, 24)):
        source = byte_arrays.random_array((rows, columns), "uint32").view(np.float32)
        result = np.zeros((columns, rows), np.float32)
        kernel(source, result, executor="emulator")
        assert byte_arrays.same_bytes(result, np.ascontiguousarray(source.T))


def refused(make: Any, error: type[Exception], message: str) -> None:
    k = tc.KernelBuilder("k", threads=32)
    with pytest.raises(error, match=message):
        make(k)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda k: k.size("M", lower=-1), tc.RequestError, "must be from 0 to .*, got -1 to 2147483647"),
        (
            lambda k: k.size("M", lower=9, upper=15, multiple_of=8),
            tc.RequestError,
            "must contain a multiple of 8, got 9 to 15",
        ),
        (
            lambda k: k.scalar("n", lower=3, upper=3, multiple_of=2),
            tc.RequestError,
            "must contain a multiple of 2, got 3 to 3",
        ),
        (lambda k: k.scalar("grid"), tc.RequestError, "'grid' must not be a keyword argument"),
        (lambda k: k.param("stream", (8,), "float32"), tc.RequestError, "'stream' must not be a keyword argument"),
        (lambda k: k.load(k.param("A", (8,), "float32")[-1]), tc.LayoutError, "start does not count from the end"),
        (
            lambda k: tc.symbol("n", lower=3, upper=3, multiple_of=2),
            tc.RequestError,
            "lower=3 .* 2",
        ),
        (lambda k: k.size("M", multiple_of=0), tc.RequestError, "multiple_of .* 0"),
        (lambda k: k.size("M", upper=4.0), tc.RequestError, "upper .* 4.0"),
        (lambda k: (k.size("M"), k.size("M")), tc.RequestError, "'M' is already used"),
        (
            lambda k: (k.size("M"), k.build(target="sm_80")),
            tc.RequestError,
            "no param has an extent or stride that is a multiple of M",
        ),
        (
            lambda k: (k.param("A", (k.size("M") * k.size("N"),), "int8"), k.build(target="sm_80")),
            tc.RequestError,
            "no param has an extent or stride that is a multiple of M",
        ),
        (
            lambda k: (k.param("A", (k.size("M") + k.size("N"),), "int8"), k.build(target="sm_80")),
            tc.RequestError,
            "size M cannot be read from the arguments, because no param",
        ),
        (lambda k: k.param("A", (k.block_id() + 1,), "int8"), tc.RequestError, "ctaid.x is neither"),
        (lambda k: k.param("A", (k.size("M", lower=1) - 2,), "int8"), tc.LayoutError, "M - 2 .* -1"),
        (lambda k: k.shared((k.size("M"), 4), "int8"), tc.LayoutError, r"\(M, 4\)"),
        (lambda k: k.local((k.size("M"),), "int8"), tc.LayoutError, r"\(M,\)"),
        (
            lambda k: k.param("A", (tc.KernelBuilder("other", threads=32).size("M"),), "int8"),
            tc.RequestError,
            "the integer M does not belong to kernel k",
        ),
        (lambda k: k.param("A", (k.size("M"), 4), "int8")[:, :], tc.LayoutError, "0 : M"),
        (
            lambda k: k.warp.copy(
                k.shared((8, 4), "int8")[:, :], k.param("A", (k.size("M", upper=64), 4), "int8")[60:68, :]
            ),
            tc.LayoutError,
            "out of bounds for extent M",
        ),
        (lambda k: k.build(target="sm_80", grid=(k.thread_id() + 1,)), tc.RequestError, "tid.x is neither"),
        (lambda k: k.build(target="sm_80", grid=(k.size("M"), 1.5)), tc.RequestError, r"grid .* \[1, 1.5\]"),
    ],
)
def test_what_is_no_size_says_why(make: Any, error: type[Exception], message: str) -> None:
    refused(make, error, message)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((16, 8), (24, 8), ("M", 16, "A", 24, "B")),
        ((1, 16, 8), (16, 8), (16, "B", 8)),
        ((16, 8), (16, 16), ("N", 8, "A", 16, "B")),
        ((12, 8), (12, 8), ("M", 12, "A", 8)),
        ((72, 8), (72, 8), ("M", 72, "A", 64)),
        ((0, 8), (0, 8), ("M", "A")),
        ((16,), (16, 8), ("N", "A", 16)),
        ((16, 8, 1), (16, 8), ("A", 16, 8, "M", "N")),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    a: tuple[int, ...], b: tuple[int, ...], message: tuple[object, ...]
) -> None:
    _, kernel = tiled(upper=64)
    source, result = np.ones(a, np.float32), np.zeros(b, np.float32)
    with pytest.raises(tc.LaunchError, match=mentions(*message)):
        kernel(source, result, executor="emulator")
    assert not result.any()


def test_the_grid_is_held_against_the_hardware() -> None:
    k = tc.KernelBuilder("k", threads=32)
    m = k.size("M")
    k.param("A", (m,), "uint8")
    kernel = k.build(target="sm_80", grid=(1, m - 1))
    kernel(np.zeros(1, np.uint8), executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("grid", "M", 65999)):
        kernel(np.zeros(66000, np.uint8), executor="emulator")


def test_the_driver_gets_the_grid_and_the_sizes_and_no_launch_of_nothing() -> None:
    k = tc.KernelBuilder("k", threads=32)
    m = k.size("M", lower=0, multiple_of=4)
    k.store(k.param("A", (m, 64), "float16")[k.block_id() * 4, 0], 1)
    kernel = k.build(target="sm_90", grid=(m // 4,))
    fake = FakeDriver(sizes=(4, 8))
    cuda = CudaExecutor(fake)
    for rows in (64, 128, 0, 64):
        cuda.launch(kernel, (FakeTensor(0x1000, (rows, 64)),))
    assert [(seen.grid, seen.numbers()) for seen in fake.launches] == [
        ((16, 1, 1), (64, 0x1000)),
        ((32, 1, 1), (128, 0x1000)),
        ((16, 1, 1), (64, 0x1000)),
    ]
    cuda.prepare(kernel, (FakeTensor(0x1000, (0, 64)),))()
    assert len(fake.launches) == 3


def test_on_the_gpu(gpu: str) -> None:
    _, kernel = tiled(padded=True)
    for m, n in ((8, 8), (64, 1000), (4096, 8)):
        a = byte_arrays.random_array((m, n), "uint32").view(np.float32)
        wide = np.zeros((m, n + 8), np.float32)
        kernel(a, wide[:, :n], executor="cuda")
        assert byte_arrays.same_bytes(np.ascontiguousarray(wide[:, :n]), a)


def test_loops_count_as_far_as_their_bounds_reach() -> None:
    for start, bits in ((0, 32), (2**33, 64)):
        k = tc.KernelBuilder("far", threads=1)
        n, first = k.size("n", lower=0), k.scalar("first", "int64", lower=start, upper=start + 5)
        k.param("A", (n,), "uint8")
        total = k.param("total", (1,), "int64", align_bytes=8)
        k.store(total[0], 0)
        for i in k.range(n // 2, start=first):
            k.store(total[0], k.load(total[0]) + k.cast(i, "int64"))
        kernel = k.build(target="sm_80", grid=1)
        assert f"add.s{bits}" in kernel.ptx
        for assembler in ASSEMBLERS:
            assemble(kernel.ptx, kernel.target, assembler)
        result = np.zeros(1, np.int64)
        for count in (0, 1, 7):
            kernel(start + 3, np.zeros(count, np.uint8), result, executor="emulator")
            assert result[0] == sum(range(start + 3, start + 3 + count // 2))


def test_where_there_is_no_cta_nothing_is_accessed() -> None:
    k = tc.KernelBuilder("k", threads=32)
    m = k.size("M", lower=0)
    a = k.param("A", (m, 4), "int32")
    with k.if_((k.thread_id() == 0) & (k.block_id() == 0)):
        k.store(a[3, 0], 1)
    kernel = k.build(target="sm_80", grid=(m,))
    kernel(np.zeros((0, 4), np.int32), executor="emulator")
    kernel(np.zeros((4, 4), np.int32), executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("M", 3)):
        kernel(np.zeros((3, 4), np.int32), executor="emulator")


def test_a_factor_may_be_negative() -> None:
    k = tc.KernelBuilder("k", threads=1)
    n, x = k.size("N"), k.scalar("x", lower=-5, upper=5)
    a = k.param("A", (n * 11,), "int32")
    k.store(a[(x + 5) * n], 1)
    kernel = k.build(target="sm_80", grid=1)
    assert "mul.wide.s32" in kernel.ptx
    for place in (-5, -1, 0, 5):
        result = np.zeros(33, np.int32)
        kernel(place, result, executor="emulator")
        assert result.nonzero()[0].tolist() == [(place + 5) * 3]


def test_what_a_quotient_leaves_is_less_than_its_divisor() -> None:
    for less in (0, 1):
        k = tc.KernelBuilder("k", threads=1)
        m = k.size("M")
        b = k.param("B", (8,), "int32")
        k.param("A", (m,), "uint8")
        k.store(b[(m + 7) // 8 * 8 - m - less], 1)
        kernel = k.build(target="sm_80", grid=1)
        assert bool(kernel.bounds) == bool(less)
        for size in (7, 8, 9):
            result = np.zeros(8, np.int32)
            if less and size == 8:
                with pytest.raises(tc.LaunchError, match=mentions(1, "B", "M")):
                    kernel(result, np.zeros(size, np.uint8), executor="emulator")
            else:
                kernel(result, np.zeros(size, np.uint8), executor="emulator")
                assert result.nonzero()[0].tolist() == [-size % 8 - less]


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0, 1, 4, 9]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.sampled_from([0, 0, -1, 1, 2]),
    st.integers(0, 3),
    st.integers(0, 5),
)
def test_what_is_proved_or_checked_never_leaves_its_array(
    multiple: int, lower: int, extent: int, step: int, shift: int, which_grid: int, which_guard: int
) -> None:
    k = tc.KernelBuilder("k", threads=1)
    m = k.size("M", multiple_of=multiple, lower=lower)
    a, bx = k.param("A", (m,), "int32", align_bytes=4), k.block_id()
    start = bx * step + shift
    grid = (m // step, (m + step - 1) // step, m // step + 1, m)[which_grid]
    guards = (
        bx >= 0,
        start + extent <= m,
        start < m,
        (start >= 0) & (start + extent <= m),
        bx >= 1,
        start <= m - extent,
    )
    with k.if_(guards[which_guard]):
        for j in range(extent):
            k.load(a[start + j])  # CTAs overlap: stores would race
    kernel = k.build(target="sm_80", grid=(grid,))
    for size in range(-(-lower // multiple) * multiple, 33, multiple):
        try:
            kernel(np.zeros(size, np.int32), executor="emulator")  # a HazardError where a proof or check was wrong
        except tc.LaunchError as error:
            assert kernel.bounds and mentions(0, "A", "M").search(str(error))


def test_strides_that_are_known_are_held_against_each_other_beside_one_that_is_not() -> None:
    k = tc.KernelBuilder("k", threads=32)
    n = k.scalar("n", lower=16, upper=64)
    a, s = k.param("A", (4, 4, 4), "int32", strides=(n, 1, 1)), k.shared((4, 4, 4), "int32")
    k.cta.copy(s[:, :, :], a[:, :, :])  # read twice: nothing wrong
    k.cta_sync()
    k.cta.copy(a[:, :, 0:1], s[:, :, 0:1])
    k.cta.copy(a[:, :, :], s[:, :, :])
    with pytest.raises(tc.LayoutError, match=mentions("A", 4, 16, 7)):
        k.build(target="sm_80", grid=1)


def rows_kernel(*, by_size: bool = False) -> tc.BuiltKernel:
    """B = A row by row, of 12 columns, with B's rows ``ld`` elements apart."""
    k = tc.KernelBuilder("rows", threads=32)
    m = k.size("M")
    a = k.param("A", (m, 12), "float32")
    ld = k.size("ld") if by_size else k.scalar("ld", lower=0, upper=64)
    if by_size:
        k.param("C", (ld,), "float32")
    b = k.param("B", (m, 12), "float32", strides=(ld, 1), align_bytes=4)
    y, t = k.block_id("x"), k.thread_id()
    with k.if_(t < 12):
        k.store(b[y, t], k.load(a[y, t]))
    return k.build(target="sm_80", grid=(m,))


def with_rows_apart(memory: Any, m: int, ld: int) -> Any:
    return np.lib.stride_tricks.as_strided(memory, (m, 12), (4 * ld, 4))


@pytest.mark.parametrize("by_size", [False, True])
def test_rows_that_overlap_in_a_written_array_are_refused(by_size: bool) -> None:
    kernel, a = rows_kernel(by_size=by_size), byte_arrays.random_array((5, 12), "float32", 1)
    for ld in (12, 4, 64, 11, 13, *([] if by_size else [0]), 12):
        memory = np.zeros(5 * 64, np.float32)
        b, last = with_rows_apart(memory, 5, ld), np.zeros(ld, np.float32) if by_size else ld
        if ld < 12:
            with pytest.raises(tc.LaunchError, match=mentions("B", f"ld = {ld}", "(ld, 1)", (ld, 1))):
                kernel(a, last, b, executor="emulator")
            assert not memory.any()
        else:
            kernel(a, last, b, executor="emulator")
            assert byte_arrays.same_bytes(np.ascontiguousarray(b), a)


def test_one_row_overlaps_nothing_and_what_is_only_read_may_overlap() -> None:
    a, memory = byte_arrays.random_array((1, 12), "float32", 1), np.zeros(64, np.float32)
    rows_kernel()(a, 4, with_rows_apart(memory, 1, 4), executor="emulator")
    assert byte_arrays.same_bytes(memory[:12], a[0])
    k = tc.KernelBuilder("windows", threads=32)
    m, ld = k.size("M"), k.scalar("ld", lower=0, upper=64)
    a, b = k.param("A", (m, 12), "float32", strides=(ld, 1)), k.param("B", (m, 12), "float32")
    y, t = k.block_id("x"), k.thread_id()
    with k.if_(t < 12):
        k.store(b[y, t], k.load(a[y, t]))
    source, result = np.arange(64, dtype=np.float32), np.zeros((5, 12), np.float32)
    k.build(target="sm_80", grid=(m,))(4, with_rows_apart(source, 5, 4), result, executor="emulator")
    assert np.array_equal(result, with_rows_apart(source, 5, 4))


def test_strides_are_held_against_the_shape_of_every_new_launch() -> None:
    kernel, fake = rows_kernel(), FakeDriver(sizes=(8, 4, 8, 4))
    cuda, flat = CudaExecutor(fake), {"dtype": FLOAT32}
    a, good = FakeTensor(1 << 32, (5, 12), (12, 1), **flat), FakeTensor(1 << 33, (5, 12), (16, 1), **flat)
    for use in (cuda.launch, cuda.launch, cuda.prepare, cuda.launch_by_address):
        cuda.launch(kernel, (a, 16, good))
        with pytest.raises(tc.LaunchError, match=mentions("B", "ld = 4")):
            use(kernel, (a, 4, FakeTensor(1 << 33, (5, 12), (4, 1), **flat)))
    assert len(fake.launches) == 4


def test_what_only_looks_as_if_it_overlapped_is_launched() -> None:
    k = tc.KernelBuilder("turned", threads=32)
    m, n = k.size("M", upper=64), k.size("N", upper=64)
    b = k.param("B", (m, n), "float32", strides=(1, m))
    x, t = k.block_id("x"), k.thread_id()
    with k.if_(t < m):
        k.store(b[t, x], 1.0)
    kernel = k.build(target="sm_80", grid=(n,))
    result = np.zeros((7, 5), np.float32, order="F")
    kernel(result, executor="emulator")
    assert (result == 1).all()


def strided_rows(*, multiple: int = 4) -> tc.BuiltKernel:
    """B = A for 8 rows of 32 elements, with the distance of A's rows known at launch."""
    k = tc.KernelBuilder("strided", threads=32)
    ld = k.size("ld", multiple_of=multiple, lower=0)
    a, b = k.param("A", (8, 32), "float32", strides=(ld, 1)), k.param("B", (8, 32), "float32")
    tile = k.shared((8, 32), "float32")
    k.warp.copy(tile[:, :], a[:, :])
    k.cta_sync()
    k.warp.copy(b[:, :], tile[:, :])
    return k.build(target="sm_80", grid=1)


@pytest.mark.parametrize("loaded", [False, True])
def test_a_size_that_is_only_a_stride_is_read_from_the_strides(loaded: bool, tmp_path: Any) -> None:
    kernel, result = strided_rows(), np.zeros((8, 32), np.float32)
    if loaded:
        kernel = tc.load_kernel(kernel.save(tmp_path / "strided"))
    for distance in (32, 36, 64):
        source = byte_arrays.random_array((8, distance), "float32", distance)[:, :32]
        kernel(source, result, executor="emulator")
        assert byte_arrays.same_bytes(result, np.ascontiguousarray(source))
    with pytest.raises(tc.LaunchError, match=mentions("ld", 33, "A")):
        kernel(np.zeros((8, 33), np.float32)[:, :32], result, executor="emulator")


def test_a_stride_of_one_row_says_nothing_of_a_size() -> None:
    k = tc.KernelBuilder("few", threads=32)
    m, ld = k.size("m", lower=0), k.size("ld", multiple_of=4, lower=8)
    a, b = k.param("A", (m, 32), "float32", strides=(ld * 2, 1)), k.param("B", (m, 32), "float32")
    y, t = k.block_id("x"), k.thread_id()
    k.store(b[y, t], k.load(a[y, t]))
    kernel = k.build(target="sm_80", grid=(m,))
    for rows in (0, 1, 3):
        source, result = byte_arrays.random_array((rows, 40), "float32", 1)[:, :32], np.zeros((rows, 32), np.float32)
        strided = np.lib.stride_tricks.as_strided(source, (rows, 32), (12 if rows == 1 else 160, 4))
        kernel(strided, result, executor="emulator")
        assert byte_arrays.same_bytes(result, np.ascontiguousarray(source))


def test_what_to_do_about_a_stride_that_follows_from_a_size() -> None:
    _, kernel = tiled()
    turned, good = np.zeros((16, 8), np.float32).T, np.zeros((8, 16), np.float32)
    with pytest.raises(tc.LaunchError, match=mentions("A", 1, "contiguous")):
        kernel(turned, good, executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("A", 2)) as caught:
        strided_rows()(np.zeros((8, 64), np.float32)[:, ::2], np.zeros((8, 32), np.float32), executor="emulator")
    assert "contiguous" not in str(caught.value)
