"""PTX that others wrote: CUDA C++ compiled by NVRTC, Triton's kernels, and the arguments of ``run_ptx``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tilecopy import HazardError, LaunchError
from tilecopy_emulator import Report, UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions

HERE = Path(__file__).parent
RNG = np.random.default_rng(7)


def cuda(name, arguments, *, grid, block, **options):
    """Run a kernel of tests/cuda."""
    return run_ptx((HERE / "cuda" / f"{name}.ptx").read_text(), arguments, grid=grid, block=block, **options)


def triton(name, arguments, *, grid, **options):
    """Run a kernel of tests/triton, with the two scratch pointers that Triton adds."""
    return run_ptx((HERE / "triton" / f"{name}.ptx").read_text(), [*arguments, 0, 0], grid=grid, block=128, **options)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def integers(count, low=-(2**31), high=2**31):
    return RNG.integers(low, high, count).astype(np.int32)


# --------------------------------------------------------------------------------------------------- CUDA C++


def test_vector_add():
    a, b, c = floats(1000), floats(1000), np.zeros(1000, np.float32)
    report = cuda("vector_add", [a, b, c, 1000], grid=4, block=256)
    assert np.array_equal(c, a + b)
    assert isinstance(report, Report)
    assert report.threads == 1024


def test_grid_stride_loop_over_float4():
    x, y = floats(400, 4), floats(400, 4)
    wanted = (np.float64(np.float32(1.5)) * x + y).astype(np.float32)
    cuda("grid_stride", [x, y, 1.5, 400], grid=2, block=64)
    assert np.array_equal(y, wanted)


def test_transpose_with_a_two_dimensional_block():
    x, y = floats(70, 45), np.zeros((45, 70), np.float32)
    cuda("transpose", [x, y, 45, 70], grid=(2, 3), block=(32, 8))
    assert np.array_equal(y, x.T)


def test_reduction_with_shuffles_shared_memory_and_an_atomic():
    x, total = integers(3000, -1000, 1000), np.zeros(1, np.int32)
    cuda("reduce", [x, total, 3000], grid=3, block=256)
    assert total[0] == x.sum()


def test_histogram_in_shared_and_global_atomics():
    x, bins = RNG.integers(0, 256, 5000).astype(np.uint8), np.zeros(256, np.uint32)
    cuda("histogram", [x, bins, 5000], grid=3, block=128)
    assert np.array_equal(bins, np.bincount(x, minlength=256))


def test_scan_in_dynamic_shared_memory():
    x, y = integers(256, -9, 9), np.zeros(256, np.int32)
    cuda("scan", [x, y], grid=2, block=128, dynamic_shared_bytes=1024)
    assert np.array_equal(y, np.cumsum(x.reshape(2, 128), axis=1).reshape(-1))


def test_matrix_product_in_tiles():
    a, b, c = floats(32, 32), floats(32, 32), np.zeros((32, 32), np.float32)
    cuda("matmul", [a, b, c, 32], grid=(2, 2), block=(16, 16))
    wanted = np.zeros((32, 32), np.float32)
    for k in range(32):
        wanted = (a[:, k : k + 1].astype(np.float64) * b[k] + wanted).astype(np.float32)
    assert np.array_equal(c, wanted)


def test_stencil_in_three_dimensions():
    x, y = RNG.standard_normal((5, 6, 9)), np.zeros((5, 6, 9))
    cuda("stencil", [x, y, 9, 6, 5], grid=(3, 2, 2), block=(4, 4, 4))
    p = np.pad(x, 1)
    wanted = (
        p[1:-1, 1:-1, :-2]
        + p[1:-1, 1:-1, 2:]
        + p[1:-1, :-2, 1:-1]
        + p[1:-1, 2:, 1:-1]
        + p[:-2, 1:-1, 1:-1]
        + p[2:, 1:-1, 1:-1]
        - 6 * x
    )
    np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12)


def test_softmax_of_a_warp():
    x, y = floats(3, 100), np.zeros((3, 100), np.float32)
    report = cuda("softmax", [x, y, 100], grid=3, block=32)
    assert report.approximate == ("ex2.approx.f32",)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_half_precision_pairs():
    a, b = (RNG.standard_normal((200, 2)).astype(np.float16) for _ in range(2))
    c, d = np.zeros((200, 2), np.float16), np.zeros(200, np.float16)
    cuda("half_arithmetic", [a, b, c, d, 200], grid=2, block=128)
    product = (a.astype(np.float64) * b + 0.5).astype(np.float16)
    assert np.array_equal(c, np.maximum(product, a - b))
    assert np.array_equal(d, a[:, 0] + (b[:, 1].astype(np.float32) * 2).astype(np.float16))


def test_bfloat16_pairs():
    a, b, c = floats(100).astype(ml_dtypes.bfloat16), floats(100), np.zeros((100, 2), ml_dtypes.bfloat16)
    cuda("bfloat_arithmetic", [a, b, c, 100], grid=1, block=128)
    low = np.stack([a.astype(np.float64), b.astype(ml_dtypes.bfloat16).astype(np.float64)], axis=1)
    wanted = low * 1.5 + b.astype(ml_dtypes.bfloat16).astype(np.float64)[:, None]
    assert np.array_equal(c, wanted.astype(ml_dtypes.bfloat16))


def test_dot_products_of_bytes():
    a, b, c = integers(64), integers(64), np.zeros(64, np.int32)
    cuda("dot_bytes", [a, b, c, 64], grid=1, block=64)
    x, y, halves = (
        a.view(np.int8).reshape(-1, 4).astype(np.int64),
        b.view(np.int8).reshape(-1, 4).astype(np.int64),
        a.view(np.int16).reshape(-1, 2),
    )
    wanted = (x * y).sum(axis=1) + (halves.astype(np.int64) * y[:, :2]).sum(axis=1) + np.arange(64)
    assert np.array_equal(c, wanted.astype(np.int32))


def test_integers_of_64_and_128_bits():
    a, b = (RNG.integers(0, 2**64, 50, dtype=np.uint64) for _ in range(2))
    out = np.zeros((50, 4), np.uint64)
    cuda("wide_integers", [a, b, out, 50], grid=1, block=64)
    for x, y, found in zip(a.tolist(), (b | np.uint64(1)).tolist(), out.tolist(), strict=True):
        sx, sy = (v - 2**64 if v >> 63 else v for v in (x, y))
        rest = abs(sx) % abs(sy) * (-1 if sx < 0 else 1)
        assert found == [
            x * y >> 64,
            (sx * sy >> 64) % 2**64,
            (x // y ^ rest) % 2**64,
            ((x * y + x) % 2**128 >> 37) % 2**64,
        ]


@pytest.mark.parametrize("shift", [0, 40, 70, 100])
def test_divisions_of_128_bits(shift):
    a = int(RNG.integers(2**62, 2**63)) << 64 | int(RNG.integers(0, 2**63))
    b = a * 0x9E3779B97F4A7C15 % 2**128 >> shift | 1
    x, y = np.array([a >> 64, a % 2**64, b >> 64, b % 2**64], np.uint64), np.zeros(4, np.uint64)
    cuda("division_128", [x, y], grid=1, block=1)
    q, r = divmod(a, b)
    assert y.tolist() == [q >> 64, q % 2**64, r >> 64, r % 2**64]


def test_divisions_truncate():
    a, b, out = integers(200), np.where(RNG.random(200) < 0.5, -7, 1234).astype(np.int32), np.zeros(200, np.int32)
    cuda("divisions", [a, b, out, 200], grid=1, block=256)
    for x, y, found in zip(a.tolist(), b.tolist(), out.tolist(), strict=True):
        q, r = int(x / y), int(np.fmod(x, y))
        wanted = q + r * 3 + int(x / 7) + (x % 2**32) // 10
        assert found == (wanted + 2**31) % 2**32 - 2**31


def test_division_by_zero_is_a_hazard():
    with pytest.raises(HazardError, check=is_hazard("arithmetic")) as error:
        cuda("divisions", [integers(4), np.array([1, 2, 0, 3], np.int32), np.zeros(4, np.int32), 4], grid=1, block=32)
    assert error.value.kind == "arithmetic"
    assert mentions(2).search(str(error.value))


def test_device_functions_with_structures():
    x, out, steps = floats(40), np.zeros(40), np.zeros(40, np.int32)
    cuda("device_function", [x, out, steps, 40], grid=1, block=64)
    scaled = (x.astype(np.float64) * 2.5 + 1).astype(np.float32)
    sums = (scaled + (np.arange(40) - 3).astype(np.float32)).astype(np.float32)
    np.testing.assert_allclose(out, sums.astype(np.float64) + (0.25 + scaled.astype(np.float64)), rtol=1e-6)

    def collatz(n):
        count = 0
        while n != 1:
            n, count = (3 * n + 1 if n & 1 else n // 2), count + 1
        return count

    assert steps.tolist() == [collatz(i + 1) for i in range(40)]


def test_arrays_in_local_memory():
    x, out = integers(70), np.zeros(70, np.int32)
    cuda("local_array", [x, out, 70], grid=1, block=128)
    for value, found in zip(x.tolist(), out.tolist(), strict=True):
        values = [value >> k for k in range(16)]
        for k in range(16):
            at = (value + k * 5) & 15
            values[at], values[k] = values[k], values[at]
        total = 0
        for k in range(16):
            total = total * 3 + values[k * 7 & 15]
        assert found == (total + 2**31) % 2**32 - 2**31


def test_tables_in_constant_memory():
    x, out = integers(64), np.zeros(64, np.float32)
    cuda("constant_table", [x, out, 64], grid=1, block=64)
    table, shorts = np.array([1, 0.5, -2, 4.25, 0, 3, -1, 8]), np.array([1, -2, 300, -32768])
    assert np.array_equal(out, (table[x & 7] * 2 + shorts[x >> 3 & 3]).astype(np.float32))


def test_variables_of_the_module_in_global_memory():
    order, total = np.full(5, 99, np.uint32), np.zeros(1, np.int32)
    cuda("global_counter", [order, total], grid=5, block=32)
    assert sorted(order.tolist()) == [0, 1, 2, 3, 4]
    assert total[0] == 17


def test_structures_passed_by_value():
    config = np.zeros(
        (), np.dtype([("rows", "i4"), ("cols", "i4"), ("scale", "f4"), ("shift", "f8"), ("steps", "i2", 3)], align=True)
    )
    config["rows"], config["cols"], config["scale"], config["shift"], config["steps"] = 5, 6, 2.0, 0.5, [1, -2, 3]
    x, out = floats(30), np.zeros(30, np.float32)
    cuda("parameter_struct", [config.tobytes(), x, out], grid=1, block=32)
    exact = (x.astype(np.float64) * 2.0 + np.array([1, -2, 3])[np.arange(30) % 3]).astype(np.float32)
    assert np.array_equal(out, exact + np.float32(0.5))
    cuda("parameter_struct", [config, x, out], grid=1, block=32)
    with pytest.raises(LaunchError, match=mentions(31, 32)):
        cuda("parameter_struct", [config.tobytes()[1:], x, out], grid=1, block=32)


def test_a_flag_between_ctas():
    flag, data, out = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    cuda("handshake", [flag, data, out], grid=2, block=32)
    assert out[0] == 42


def test_a_lock():
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    cuda("spin_lock", [lock, total], grid=6, block=32)
    assert (lock[0], total[0]) == (0, 21)


def test_asynchronous_copies():
    x, y = floats(512, 4), np.zeros((512, 4), np.float32)
    cuda("async_copy", [x, y], grid=2, block=64)
    assert np.array_equal(y.reshape(-1, 64, 4), x.reshape(-1, 64, 4)[:, ::-1])


def test_bit_tricks():
    a, b = (RNG.integers(0, 2**32, 300, dtype=np.uint32) for _ in range(2))
    out = np.zeros(300, np.uint32)
    cuda("bit_tricks", [a, b, out, 300], grid=3, block=128)
    mask = 2**32 - 1
    for x, y, found in zip(a.tolist(), b.tolist(), out.tolist(), strict=True):
        sx, sy = (v - 2**32 if v >> 31 else v for v in (x, y))
        r = bin(x).count("1") + ((32 - y.bit_length()) << 6) + (((x & -x).bit_length()) << 12)
        both = list(x.to_bytes(4, "little") + y.to_bytes(4, "little"))
        permuted = int.from_bytes(bytes(both[s] for s in (1, 6, 2, 4)), "little")
        left = ((y << 32 | x) << (x & 31) >> 32) & mask
        right = ((y << 32 | x) >> (y & 31)) & mask
        r ^= (int(f"{y:032b}"[::-1], 2) + permuted + left + right) & mask
        added = (((x & 0xFFFF) + (y & 0xFFFF)) & 0xFFFF) | ((((x >> 16) + (y >> 16)) & 0xFFFF) << 16)
        r = (r + (abs(sx - sy) + r) + (x * y >> 32) + (sx * sy >> 32) + added) & mask
        r ^= (x & ~y & mask) | (y ^ r)
        assert found == (r + ((sx + sy) >> 1) + bin(x * y & (2**64 - 1)).count("1")) & mask


def test_votes_matches_and_reductions_of_a_warp():
    x, out = integers(64, 0, 100), np.zeros(64, np.uint32)
    cuda("warp_votes", [x, out], grid=2, block=32)
    for warp, found in zip(x.reshape(2, 32), out.reshape(2, 32), strict=True):
        v = [int(i) for i in warp]
        common = (
            sum((i & 1) << lane for lane, i in enumerate(v)) + any(i == 5 for i in v) * 3 + all(i >= 0 for i in v) * 7
        )
        for lane, value in enumerate(v):
            r = common ^ sum((other & 7 == value & 7) << at for at, other in enumerate(v))
            r += sum(v) + max(v) * 5 + int(np.bitwise_xor.reduce(warp)) + (1 if value & 2 else 0)
            up = v[lane - 3] if lane >= 3 else value
            picked = v[(lane & 16) + (value & 15)]
            assert found[lane] == (r + up * 11 + picked) & 0xFFFFFFFF


def test_mathematical_functions():
    x, out, wide = floats(100), np.zeros(100, np.float32), np.zeros(100)
    cuda("mathematics", [x, out, wide, 100], grid=1, block=128)
    v = x.astype(np.float64)
    size = np.abs(v)
    wanted = (
        np.sqrt(size)
        + np.exp(-size)
        + 1 / np.sqrt(size + 1)
        + np.sin(v)
        + np.tanh(v)
        + (size + 1) ** 1.5
        + np.floor(v)
        + np.rint(v)
    )
    np.testing.assert_allclose(out, wanted, rtol=2e-5, atol=2e-5)
    exact = np.sqrt(v * v + 1) / (2 + (x * x).astype(np.float64)) + (v * 3 - 1) + np.floor(v) + np.exp(-v * v)
    np.testing.assert_allclose(wide, exact, rtol=1e-12, atol=1e-12)


def test_roundings_of_every_direction():
    x, y = floats(64) * 1000, floats(64) * 1000
    f, i, d = np.zeros((64, 4), np.float32), np.zeros((64, 4), np.int32), np.zeros((64, 2))
    cuda("roundings", [x, y, f, i, d, 64], grid=1, block=64)
    a, b = x.astype(np.float64), y.astype(np.float64)
    total = (a + b).astype(np.float32)  # float64 holds these sums exactly
    assert np.array_equal(f[:, 0], np.where(np.abs(total) > np.abs(a + b), np.nextafter(total, np.float32(0)), total))
    product = (a * b).astype(np.float32)
    assert np.array_equal(f[:, 1], np.where(product < a * b, np.nextafter(product, np.float32(np.inf)), product))
    assert np.array_equal(f[:, 3], np.clip(x / y, 0, 1))
    assert np.array_equal(i[:, 0], np.floor(a).astype(np.int32))
    assert np.array_equal(i[:, 1], np.ceil(a).astype(np.int32))
    assert np.array_equal(i[:, 2], np.clip(np.rint(b), 0, None).astype(np.int32))
    assert np.array_equal(i[:, 3], np.trunc(a).astype(np.int32))
    assert np.array_equal(d[:, 0], a + b)
    assert ((d[:, 1] == a / b) | (np.nextafter(d[:, 1], np.copysign(np.inf, a / b)) == a / b)).all()


def test_a_switch():
    x, out = (np.arange(32) % 10).astype(np.int32), np.zeros(64, np.int32)
    cuda("switch_table", [x, out, 32], grid=1, block=32)
    for i, v in enumerate(x.tolist()):
        r = {0: 1, 1: i * 3, 2: 5, 3: i ^ 0x55, 4: i << 2, 5: -i, 6: i * i, 7: bin(i).count("1")}.get(v, 1000 + v)
        assert out[i] == r
        assert out[i + 32] == {0: r, 3: -r, 7: 9}.get(v, 0)


def test_generic_pointers_to_two_spaces():
    x, out = floats(64), np.zeros(64, np.float32)
    cuda("generic_pointer", [x, out], grid=1, block=64)
    i = np.arange(64)
    assert np.array_equal(out, np.where(i & 1, x[i ^ 32] + np.float32(1), x[i ^ 32]))


def test_atomics_of_every_operation():
    words, wide, total = np.zeros(9, np.int32), np.zeros(2, np.uint64), np.zeros(1, np.float32)
    words[4] = -1
    words[6] = 50
    cuda("many_atomics", [words, wide, total], grid=1, block=64)
    t = np.arange(64)
    assert words[:4].tolist() == [t.sum(), 63 * 3, -63, np.bitwise_xor.reduce((1 << (t & 31)).astype(np.int32))]
    assert words[4:].tolist() == [-256, 0xFFFF, (50 - 64) % 101, 128, 64]
    assert wide.tolist() == [int(t.sum()) << 20, 63 * 63]
    assert total[0] == 64


def test_clocks_go_on():
    out = np.full(32, -1, np.int64)
    cuda("clocks", [out], grid=1, block=32)
    assert (out > 0).all()


def test_what_cannot_run_is_refused_with_the_reason():
    with pytest.raises(UnsupportedPtxError):
        cuda("recursion", [np.zeros(4, np.int32)], grid=1, block=4)


def test_what_a_kernel_prints_is_reported():
    ((thread, text),) = cuda("print", [3], grid=1, block=1).printed
    assert thread == "thread 0 of CTA (0,0,0)" and "3" in text


# --------------------------------------------------------------------------------------------------- Triton


def test_vector_add_of_triton():
    x, y, out = floats(1000), floats(1000), np.zeros(1000, np.float32)
    triton("vector_add", [x, y, out, 1000], grid=4)
    assert np.array_equal(out, x + y)


def test_softmax_of_triton():
    x, out = floats(3, 200), np.zeros((3, 200), np.float32)
    triton("softmax", [out, x, 200, 200], grid=3, dynamic_shared_bytes=16)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_transpose_of_triton():
    x, out = RNG.standard_normal((40, 72)).astype(np.float16), np.zeros((72, 40), np.float16)
    triton("transpose", [x, out, 40, 72], grid=(2, 3), dynamic_shared_bytes=2048)
    assert np.array_equal(out, x.T)


def test_layer_norm_of_triton_for_blackwell():
    x, weight, bias, out = floats(2, 500).astype(np.float16), floats(500), floats(500), np.zeros((2, 500), np.float16)
    triton("layer_norm", [x, weight, bias, out, 500, 500, 1e-5], grid=2, dynamic_shared_bytes=16)
    v = x.astype(np.float64)
    wanted = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(out, wanted, rtol=2e-3, atol=2e-3)


def test_cumulative_sum_of_triton():
    x, out = integers(512, -9, 9), np.zeros(512, np.int32)
    triton("cumulative_sum", [x, out], grid=1, dynamic_shared_bytes=64)
    assert np.array_equal(out, np.cumsum(x))


def test_float8_of_triton():
    x, out, back = floats(256) * 100, np.zeros(256, ml_dtypes.float8_e5m2), np.zeros(256, np.float32)
    triton("float8", [x, out, back], grid=1)
    assert np.array_equal(out.view(np.uint8), x.astype(ml_dtypes.float8_e5m2).view(np.uint8))
    assert np.array_equal(back, np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32))


# --------------------------------------------------------------------------------------------------- arguments

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def module(body, parameters, after=""):
    return f"{HEADER}.visible .entry k({parameters}) {after}\n{{\n.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>;\n{body}\n}}\n"


STORE = module(
    "ld.param.b32 %r1, [x]; ld.param.u64 %d1, [out]; st.global.b32 [%d1], %r1; ret;",
    ".param .{type} x, .param .u64 out",
)


@pytest.mark.parametrize(
    ("type", "value", "bits"),
    [("u32", 7, 7), ("u32", -1, 2**32 - 1), ("s32", -5, 2**32 - 5), ("b32", 2**32 - 1, 2**32 - 1), ("f32", 1.0, 0x3F800000), ("f32", 2, 0x40000000),
     ("f32", np.float32(0.5), 0x3F000000), ("b32", 1.0, 0x3F800000), ("u32", np.int64(9), 9), ("u32", True, 1)],
)  # fmt: skip
def test_numbers_are_passed_by_their_type(type, value, bits):
    out = np.zeros(1, np.uint32)
    run_ptx(STORE.replace("{type}", type), [value, out], grid=1, block=1)
    assert out[0] == bits


@pytest.mark.parametrize(
    ("type", "value", "part"),
    [("u32", 2**32, ("x",)), ("s32", 2**31, ("x",)), ("s32", -(2**31) - 1, ("x",)), ("u32", -(2**31) - 1, ("x",)), ("u32", 1.5, ("1.5",)), ("u32", "x", ("str",)), ("u32", None, ("x",)),
     ("u32", np.zeros(1), ("x",)), ("f32", np.str_("x"), ("str_",)), ("f32", np.bytes_(b"four"), ("bytes_",)), ("b32", 1 + 2j, ("x",)),
     ("f32", 1e300, ("x",)), ("f32", 2**1025, ("x",)), ("f32", bytearray(4), ("bytearray",))],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_refused(type, value, part):
    with pytest.raises(LaunchError, match=mentions(*part)) as error:
        run_ptx(STORE.replace("{type}", type), [value, np.zeros(1, np.uint32)], grid=1, block=1)
    assert mentions("x").search(str(error.value))


@pytest.mark.parametrize(
    ("options", "part"),
    [({"grid": 0}, ("grid",)), ({"grid": True}, ("grid", True)), ({"block": (32, True)}, ("block",)), ({"grid": (1, 2, 3, 4)}, ("grid",)), ({"block": 1025}, (1024,)), ({"block": (1, 1, 65)}, (64,)),
     ({"grid": "many"}, ("grid",)), ({"grid": (1, 65536)}, (65535,)), ({"grid": 2**31 - 1}, (16777216,)), ({"cluster": 17, "grid": 17}, (16,)), ({"cluster": 2}, (2,)),
     ({"dynamic_shared_bytes": -1}, ("dynamic_shared_bytes",)), ({"dynamic_shared_bytes": 10**6}, ("dynamic_shared_bytes",)), ({"block": 2.5}, ("block",))],
)  # fmt: skip
def test_extents_are_checked(options, part):
    with pytest.raises(LaunchError, match=mentions(*part)):
        run_ptx(STORE.replace("{type}", "u32"), [1, np.zeros(1, np.uint32)], **({"grid": 1, "block": 1} | options))


@pytest.mark.parametrize("value", [np.datetime64("NaT"), np.timedelta64(1), np.complex64(1 + 2j), np.str_("ab")])
def test_scalars_of_eight_bytes_that_are_no_floats_are_refused(value):
    assert value.nbytes == 8
    with pytest.raises(LaunchError, match=mentions("f64")):
        run_ptx(module("ret;", ".param .f64 x"), [value], grid=1, block=1)


def test_what_a_text_quotes_can_be_printed():
    for text in ("\x1b[31m", "\0", module("\u202e;", ""), module('ld.param.u32 %r1, ["\x07"];', "")):
        with pytest.raises(UnsupportedPtxError) as error:
            run_ptx(text, [], grid=1, block=1)
        assert str(error.value).replace("\n", " ").isprintable()


def test_extents_of_the_text_are_kept():
    with pytest.raises(LaunchError, match=mentions("reqntid", 32)):
        run_ptx(module("ret;", "", ".reqntid 32"), [], grid=1, block=64)
    with pytest.raises(LaunchError, match=mentions("maxntid", 32)):
        run_ptx(module("ret;", "", ".maxntid 32"), [], grid=1, block=64)
    with pytest.raises(LaunchError, match="reqnctapercluster"):
        run_ptx(module("ret;", "", ".reqnctapercluster 2"), [], grid=4, block=64, cluster=4)


def test_static_and_dynamic_shared_memory_fit_together():
    text = module(".shared .b8 s[40000];\nret;", "").replace(".visible", ".extern .shared .b8 d[];\n.visible")
    run_ptx(text, [], grid=1, block=1, dynamic_shared_bytes=1000)
    with pytest.raises(LaunchError, match=mentions(240000)):
        run_ptx(text, [], grid=1, block=1, dynamic_shared_bytes=200000)


def test_a_missing_argument_names_the_parameters():
    with pytest.raises(LaunchError, match=mentions("u32", "x", "u64")):
        run_ptx(STORE.replace("{type}", "u32"), [1], grid=1, block=1)


def test_arrays_with_gaps_and_of_objects_are_refused():
    text = STORE.replace("{type}", "u32")
    with pytest.raises(LaunchError, match=mentions("u32", "x")):
        run_ptx(text, [1, np.zeros((4, 4), np.uint32)[:, ::2]], grid=1, block=1)
    with pytest.raises(LaunchError, match=mentions("u32", "x")):
        run_ptx(text, [1, np.zeros(4, object)], grid=1, block=1)


def test_arrays_that_share_memory_share_it_in_the_kernel():
    text = module(
        "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; st.global.b32 [%d1+8], 5; ld.global.b32 %r1, [%d2]; st.global.b32 [%d2+4], %r1; ret;",
        ".param .u64 a, .param .u64 b",
    )
    whole = np.zeros(8, np.uint32)
    run_ptx(text, [whole, whole[2:]], grid=1, block=1)
    assert whole.tolist() == [0, 0, 5, 5, 0, 0, 0, 0]
    again = np.zeros(8, np.uint32)
    run_ptx(text, [again, again], grid=1, block=1)
    assert again.tolist() == [0, 0, 5, 0, 0, 0, 0, 0]


def test_a_read_only_array_may_not_be_written():
    out = np.zeros(1, np.uint32)
    out.flags.writeable = False
    with pytest.raises(HazardError, check=is_hazard("read-only")):
        run_ptx(STORE.replace("{type}", "u32"), [1, out], grid=1, block=1)


@pytest.mark.parametrize(
    ("line", "part"),
    [("frobnicate.b32 %r1, %r2;", ("frobnicate",)), ("add.rz.s32 %r1, %r2, 1;", ("add",)), ("add.s32 %r1, %r2;", (3,)),
     ("add.s32 %r1, %d2, 1;", (64,)), ("add.s32 5, %r1, 1;", (5,)), ("add.s32 %p1, %r1, 1;", ("p1",)), ("mov.u32 %r1, %p1;", ("p1",)),
     ("add.f32 %r1, %r2, 1;", ()), ("add.u32 %r1, %r2, 0f3F800000;", ()),
     ("ld.global.b32 %r1, %d1;", ()), ("st.global.b32 [%d1];", ()), ("ld.moon.b32 %r1, [%d1];", ("moon",)), ("setp.lt.u32 %r1, %r2, 3;", ("r1",)),
     ("setp.lt.f16 %p1|%p2, %h1, %h2;", ()), ("shfl.sync.round.b32 %r1, %r2, 1, 31, -1;", ("shfl",)), ("vote.sync.most.pred %p1, %p2, -1;", ("vote",)),
     ("mov.b32 %r1, {%h1, %h2, %h3};", ()), ("mov.u32 %r1, k;", ()), ("brkpt 1;", (0,)), ("lop3.b32 %r1, %r2, %r3, %r4, %r5;", ()),
     ("ld.relaxed.global.b32 %r1, [%d1];", ()), ("ld.gpu.global.b32 %r1, [%d1];", ()),
     ("st.release.global.b32 [%d1], %r1;", ()), ("st.volatile.relaxed.gpu.global.b32 [%d1], %r1;", ("volatile",)),
     ("red.acquire.gpu.global.add.u32 [%d1], %r1;", ("acquire",)), ("red.acq_rel.gpu.global.add.u32 [%d1], %r1;", ("acq_rel",)),
     ("cvta.to.moon.u64 %d1, %d2;", ("cvta",)), ("atom.global.nand.b32 %r1, [%d1], 3;", ("nand",)), ("bar.sync;", ("bar",)), ("bar.sync 0f3F800000;", ())],
)  # fmt: skip
def test_what_is_not_known_is_refused_with_its_line(line, part):
    with pytest.raises(UnsupportedPtxError) as error:
        run_ptx(module(f"{line}\nret;", ""), [], grid=1, block=1)
    assert error.value.line == 7
    assert mentions(7).search(str(error.value))
    assert mentions(*part).search(str(error.value))


def test_copies_land_while_several_threads_have_read_other_bytes() -> None:
    """Reads of one byte by several threads are remembered beside the copies in flight."""
    text = """.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b) {
    .reg .b32 %r<6>; .reg .b64 %d<3>;
    .shared .align 16 .b8 s[256]; .shared .align 16 .b8 t[256];
    ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b];
    mov.u32 %r0, %tid.x; mov.u32 %r1, s; mov.u32 %r2, t;
    mad.lo.u32 %r1, %r0, 4, %r1; mad.lo.u32 %r2, %r0, 4, %r2;
    mad.wide.u32 %d0, %r0, 4, %d0; mad.wide.u32 %d1, %r0, 4, %d1;
    st.shared.u32 [%r1], %r0;
    bar.sync 0;
    cp.async.ca.shared.global [%r2], [%d0], 4;
    cp.async.commit_group;
    ld.shared.u32 %r3, [s+8];
    cp.async.wait_group 0;
    ld.shared.u32 %r4, [%r2];
    add.u32 %r4, %r4, %r3;
    st.global.u32 [%d1], %r4;
    ret;
}
"""
    a, b = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    run_ptx(text, [a, b], grid=1, block=64)
    assert np.array_equal(b, a + 2)


SHIFTS = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 V, .param .u64 N, .param .u64 O) {
    .reg .b32 %r<5>; .reg .b64 %d<5>; .reg .TYPE %x, %y;
    ld.param.u64 %d0, [V]; ld.param.u64 %d1, [N]; ld.param.u64 %d2, [O];
    mov.u32 %r0, %tid.x;
    mad.wide.u32 %d0, %r0, BYTES, %d0; mad.wide.u32 %d1, %r0, 4, %d1; mad.wide.u32 %d2, %r0, BYTES, %d2;
    ld.global.TYPE %x, [%d0]; ld.global.u32 %r1, [%d1];
    OPCODE %y, %x, %r1;
    st.global.TYPE [%d2], %y;
    ret;
}
"""


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("opcode", ["shl.b", "shr.u", "shr.s"])
def test_shifts_by_as_much_as_the_width_and_more(opcode: str, width: int) -> None:
    """PTX ISA 9.7.8: amounts are clamped to the width; what is left are zeros, or copies of the sign."""
    amounts = [0, 1, width - 1, width, width + 1, 2 * width, 2**31, 2**32 - 1]
    values = [1, (1 << width) - 1, 1 << width - 1, 0x5A5A]
    value = np.array([v for v in values for _ in amounts], f"u{width // 8}")
    amount = np.array(amounts * len(values), np.uint32)
    out = np.zeros_like(value)
    text = SHIFTS.replace("OPCODE", f"{opcode}{width}").replace("TYPE", f"b{width}").replace("BYTES", str(width // 8))
    run_ptx(text, [value, amount, out], grid=1, block=32)
    for v, n, found in zip(value.tolist(), amount.tolist(), out.tolist(), strict=True):
        signed = v - (1 << width) if opcode == "shr.s" and v >> width - 1 else v
        shifted = signed << min(n, width) if opcode == "shl.b" else signed >> min(n, width)
        assert found == shifted & (1 << width) - 1, (v, n)


TWO_BULK_STORES = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry stores(.param .u64 B)
{
 .reg .b64 %rd<2>; .reg .b32 %r<5>; .reg .pred %p<2>;
 .shared .align 128 .b8 s[128];
 ld.param.u64 %rd1, [B]; cvta.to.global.u64 %rd1, %rd1;
 mov.u32 %r1, s; mov.u32 %r2, %tid.x;
 shl.b32 %r3, %r2, 2; add.u32 %r4, %r1, %r3;
 st.shared.u32 [%r4], %r2;
 fence.proxy.async.shared::cta;
 bar.sync 0;
 setp.ne.u32 %p1, %r2, 0;
 @%p1 bra DONE;
 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 128;
 cp.async.bulk.commit_group;
 WAIT
 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 128;
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
DONE:
 ret;
}
"""


def test_bulk_stores_to_the_same_bytes_need_a_wait_between_and_no_fence() -> None:
    b = np.zeros(32, np.uint32)
    run_ptx(TWO_BULK_STORES.replace("WAIT", "cp.async.bulk.wait_group 0;"), [b], grid=1, block=32)
    assert (b == np.arange(32)).all()
    with pytest.raises(HazardError):
        run_ptx(TWO_BULK_STORES.replace("WAIT", ""), [b], grid=1, block=32)


def test_a_bulk_store_after_an_ordinary_one_needs_the_fence_still() -> None:
    text = TWO_BULK_STORES.replace("WAIT", "cp.async.bulk.wait_group 0;\n st.global.u32 [%rd1], %r2;")
    with pytest.raises(HazardError, match=r"fence\.proxy\.async"):
        run_ptx(text, [np.zeros(32, np.uint32)], grid=1, block=32)


ONE_KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .b16 %h<5>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<5>;
 .shared .align 8 .b8 bar[8];
 ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2;
 BODY
 ret;
}
"""


def words(body: str, threads: int = 64) -> list[int]:
    """What a body leaves in a word of each thread."""
    out = np.zeros(threads, np.uint32)
    run_ptx(ONE_KERNEL.replace("BODY", body), [out], grid=1, block=threads)
    return out.tolist()


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("mov.b64 %d3, {%r1, %r5}; cvt.u32.u64 %r2, %d3;", lambda t: t),
        ("add.u32 %r5, %r5, 1; prmt.b32 %r2, %r1, %r5, 0x7610; and.b32 %r2, %r2, 0xffff;", lambda t: t),
        ("mov.b32 %r2, {%h1, %h2}; and.b32 %r2, %r2, 0; or.b32 %r2, %r2, %r1;", lambda t: t),
        ("xor.b32 %r2, %r5, %r5; add.u32 %r2, %r2, 7;", lambda t: 7),
        (
            "setp.lt.u32 %p1, %r5, 3; setp.gt.u32 %p2, %r1, 99; and.pred %p3, %p1, %p2; selp.b32 %r2, 1, 2, %p3;",
            lambda t: 2,
        ),
        ("setp.lt.u32 %p1, %r1, 9; @!%p1 mov.u32 %r5, 6; mul.lo.u32 %r5, %r5, 2; selp.b32 %r2, 1, %r5, %p1;", lambda t: 1 if t < 9 else 12),
    ],
)  # fmt: skip
def test_what_nobody_uses_of_a_register_may_be_nothing(body: str, value: Callable[[int], int]) -> None:
    assert words(f"{body} st.global.u32 [%d2], %r2;") == [value(t) for t in range(64)]


@pytest.mark.parametrize(
    "body",
    [
        "mov.b64 %d3, {%r1, %r5};\n shr.u64 %d3, %d3, 31; cvt.u32.u64 %r2, %d3; st.global.u32 [%d2], %r2;",
        "xor.b32 %r2, %r1, %r5;\n st.global.u32 [%d2], %r2;",
        "setp.lt.u32 %p1, %r5, 3;\n @%p1 bra L; L:",
        "mad.lo.u32 %r2, %r5, 0, %r1;\n st.global.u32 [%d2], %r2;",
        "mov.b64 %d3, {%r1, %r5};\n",
    ],
)
def test_who_uses_what_came_from_nothing_is_told_where(body: str) -> None:
    with pytest.raises(HazardError, check=is_hazard("poison", "r5")) as error:
        words(body)
    assert (error.value.kind, error.value.line) == ("poison", 10)


def test_a_failed_assertion_is_a_trap() -> None:
    text = ONE_KERNEL.replace(".visible", ".extern .func __assertfail (.param .b64 why);\n.visible").replace(
        "BODY",
        "setp.ge.u32 %p1, %r1, LIMIT; @!%p1 bra DONE;\n"
        "{ .param .b64 why; st.param.b64 [why], %d1; call.uni __assertfail, (why); } DONE:",
    )
    run_ptx(text.replace("LIMIT", "64"), [np.zeros(64, np.uint32)], grid=1, block=64)
    with pytest.raises(HazardError, check=is_hazard("trap", 9)) as error:
        run_ptx(text.replace("LIMIT", "9"), [np.zeros(64, np.uint32)], grid=1, block=64)
    assert error.value.kind == "trap"


@pytest.mark.parametrize("together", ["match.any.sync.b64 %r6, %d1, -1;", "bar.warp.sync -1;", "", "vote.sync.ballot.b32 %r6, %p4, -1;"])  # fmt: skip
def test_the_last_of_some_warps_ends_an_mbarrier_that_all_lanes_used(together: str) -> None:
    """As libcu++'s pipeline does: one lane a warp counts it off, after the lanes have met."""
    body = f"""
 mov.u32 %r2, bar; setp.ne.u32 %p1, %r1, 0; setp.eq.u32 %p4, %r1, %r1; @%p1 bra A;
 mbarrier.init.shared.b64 [%r2], 64; st.global.u32 [%d1], 2;
A: bar.sync 0;
 mbarrier.arrive.shared.b64 %d3, [%r2];
 {together}
 and.b32 %r3, %r1, 31; setp.ne.u32 %p2, %r3, 0; @%p2 bra B;
 atom.add.acq_rel.cta.global.u32 %r4, [%d1], -1; setp.ne.u32 %p3, %r4, 1; @%p3 bra B;
 mbarrier.inval.shared.b64 [%r2];
B:"""
    if together:
        assert words(body)[0] == 0
    else:
        with pytest.raises(HazardError, check=is_hazard("race", "bar")):
            words(body)


def test_reserved_shared_memory_holds_something_and_is_ordered_by_its_owner() -> None:
    body = """
 mov.u32 %r2, %reserved_smem_offset_1; shr.u32 %r3, %r1, 5; setp.ne.u32 %p1, %r1, 32;
 @%p1 bra A; red.shared.and.b32 [%r2+4], -3; st.shared.u32 [%r2+32], 5;
A: bar.sync 0; ld.shared.u32 %r4, [%r2+32]; st.global.u32 [%d2], %r4;"""
    assert words(body) == [5] * 64


def test_votes_are_spelt_in_two_orders() -> None:
    body = "setp.lt.u32 %p1, %r1, 5; vote.ballot.sync.b32 %r2, %p1, -1; vote.any.sync.pred %p2, %p1, -1; @%p2 add.u32 %r2, %r2, 1;"
    assert words(f"{body} st.global.u32 [%d2], %r2;") == [32] * 32 + [0] * 32
