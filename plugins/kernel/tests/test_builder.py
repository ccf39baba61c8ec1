"""KernelBuilder: control flow, elements, arithmetic, bounds and bad input; on the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import S, TileLayout
from tilecopy.assemblers import assemble
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.mentions import is_hazard, mentions
from tilecopy_test_helpers.programs import round_trip


def elementwise(dtype: str, wanted: str, compute: Any) -> tuple[Any, Any]:
    """Inputs and outputs of ``B[i] = compute(A[i])`` over 64 elements."""
    k = tc.KernelBuilder("elementwise", threads=64)
    a, b = k.param("A", (64,), dtype), k.param("B", (64,), wanted)
    k.store(b[k.thread_id()], compute(k, k.load(a[k.thread_id()])))
    rng = np.random.default_rng(0)
    source = rng.integers(-100, 100, 64).astype(tc.dtype_of(dtype).numpy())
    result = np.zeros(64, tc.dtype_of(wanted).numpy())
    kernel = k.build(target="sm_90", grid=1)
    assemble(kernel.ptx, kernel.target, "ptxas")
    kernel(source, result, executor="emulator")
    return source, result


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "float16", "bfloat16", "float32", "float64"]
)
def test_arithmetic_is_numpys(dtype: str) -> None:
    source, result = elementwise(dtype, dtype, lambda k, v: (v * 3 + 5 - v.min(7)).max(2))
    wide = source.astype(np.float32) if source.dtype.itemsize == 2 and source.dtype.kind not in "iu" else source
    one = wide.dtype.type  # floats of 16 bits compute in float32 and are rounded once, at the store
    with np.errstate(over="ignore"):
        expected = np.maximum(wide * one(3) + one(5) - np.minimum(wide, one(7)), one(2))
    assert byte_arrays.same_bytes(result, expected.astype(source.dtype))


def test_a_number_may_stand_on_the_left() -> None:
    source, result = elementwise("int32", "int32", lambda k, v: 7 - (2 + v * 3) + (5 * v - 100))
    assert byte_arrays.same_bytes(result, 7 - (2 + source * 3) + (5 * source - 100))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e5m2"])
def test_an_element_that_is_only_moved_keeps_its_bits(dtype: str) -> None:
    k = tc.KernelBuilder("moved", threads=64)
    a, b = k.param("A", (64,), dtype), k.param("B", (64,), dtype)
    k.store(b[k.thread_id()], k.load(a[k.thread_id()]))
    source = np.full(64, -1, f"i{tc.dtype_of(dtype).bytes}").view(tc.dtype_of(dtype).numpy())  # NaNs with payloads
    result = np.zeros_like(source)
    kernel = k.build(target="sm_80", grid=1)
    assert "cvt." not in kernel.ptx
    kernel(source, result, executor="emulator")
    assert byte_arrays.same_bytes(source, result)


def test_computed_nans_are_the_hardwares() -> None:
    source, result = np.full(64, -1, np.int32).view(np.float32), np.zeros(64, np.float32)
    k = tc.KernelBuilder("nan", threads=64)
    a, b = k.param("A", (64,), "float32"), k.param("B", (64,), "float32")
    k.store(b[k.thread_id()], k.load(a[k.thread_id()]) + 1.0)
    k.build(target="sm_80", grid=1)(source, result, executor="emulator")
    assert (result.view(np.uint32) == 0x7FFFFFFF).all()


CASTS = [
    (dtype, wanted)
    for dtype in ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
    for wanted in ("int16", "uint32", "int64", "float16", "bfloat16", "float32", "float64")
    if not (
        tc.dtype_of(dtype).kind == "f" and wanted == "uint32"
    )  # of a negative: saturates in PTX, undefined in NumPy
]


@pytest.mark.parametrize(("dtype", "wanted"), CASTS)
def test_casts_are_numpys(dtype: str, wanted: str) -> None:
    source, result = elementwise(dtype, wanted, lambda k, v: k.cast(v, wanted))
    assert byte_arrays.same_bytes(result, source.astype(result.dtype))


def test_loops_conditions_and_data_dependent_branches() -> None:
    k = tc.KernelBuilder("control", threads=32)
    n = k.scalar("n", upper=100)
    a, b = k.param("A", (100,), "int32"), k.param("B", (32,), "int32")
    tid = k.thread_id()
    total = k.local(1, "int32")
    k.store(total[0], 0)
    for i in k.range(n):
        value = k.load(a[i])
        with k.if_(value > 5):
            with k.if_((tid > 3) & ~(tid == 7)):
                k.store(total[0], k.load(total[0]) + value * k.cast(tid, "int32"))
    k.store(b[tid], k.load(total[0]))
    kernel = k.build(target="sm_80", grid=1)
    source = np.arange(100, dtype=np.int32) % 13
    for count in (0, 1, 57, 100):
        result = np.full(32, -1, np.int32)
        kernel(count, source, result, executor="emulator")
        kept = source[:count][source[:count] > 5].sum()
        lanes = np.arange(32)
        assert (result == np.where((lanes > 3) & (lanes != 7), kept * lanes, 0)).all()


def test_symbolic_strides_choose_the_width_by_what_they_declare() -> None:
    for multiple, bits in ((8, 128), (4, 64), (1, 16)):
        k = tc.KernelBuilder("strided", threads=64)
        lda = k.scalar("lda", multiple_of=multiple, upper=4096)
        a = k.param("A", (256, 64), "float16", strides=(lda, 1))
        b = k.param("B", (256, 64), "float16")
        s = k.shared((64, 64), "float16")
        rows = slice(k.block_id() * 64, k.block_id() * 64 + 64)
        k.cta.copy(s[:, :], a[rows, :])
        k.cta_sync()
        k.cta.copy(b[rows, :], s[:, :])
        kernel = k.build(target="sm_80", grid=4)
        assert kernel.plans[0].partition.vec_bits == bits
        wide = byte_arrays.random_array((256, 72), "float16")
        result = np.zeros((256, 64), np.float16)
        kernel(72, wide[:, :64], result, executor="emulator")
        assert byte_arrays.same_bytes(result, np.ascontiguousarray(wide[:, :64]))
        with pytest.raises(tc.LaunchError, match=mentions(72, 80)):
            kernel(80, wide[:, :64], result, executor="emulator")
        if multiple == 8:
            with pytest.raises(tc.LaunchError, match=mentions(75, 8)):
                kernel(75, wide[:, :64], result, executor="emulator")


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 2, 8, 32]))
def test_any_grid(rows: int, columns: int, threads: int) -> None:
    kernel = round_trip((rows * 4, columns * 8), (4, 8), "uint16", threads=threads)
    a = byte_arrays.random_array((rows * 4, columns * 8), "uint16")
    b = np.zeros_like(a)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


def test_past_two_to_the_31_elements() -> None:
    """The last tile of a 4.3 GB array, addressed through a sparse file: 32-bit index arithmetic would wrap."""
    import tempfile

    rows = 2**26 + 128
    k = tc.KernelBuilder("far", threads=128)
    a = k.param("A", (rows, 64), "uint8")
    b = k.param("B", (128, 64), "uint8")
    first = k.scalar("first", multiple_of=128, upper=rows)
    s = k.shared((128, 64), "uint8")
    k.cta.copy(s[:, :], a[first : first + 128, :])
    k.cta_sync()
    k.cta.copy(b[:, :], s[:, :])
    kernel = k.build(target="sm_80", grid=1)
    with tempfile.TemporaryFile() as file:
        far = np.memmap(file, np.uint8, "w+", shape=(rows, 64))
        far[-128:] = byte_arrays.random_array((128, 64), np.uint8)
        result = np.zeros((128, 64), np.uint8)
        kernel(far, result, rows - 128, executor="emulator")
        assert np.array_equal(result, far[-128:])
    k = tc.KernelBuilder("wide", threads=128)
    wide = k.param("A", (2**20, 2**14), "float32")
    s = k.shared((128, 64), "float32")
    k.cta.copy(s[:, :], wide[k.block_id() * 128 : k.block_id() * 128 + 128, 0:64])
    assert "wide.u32" in k.build(target="sm_80", grid=2**13).ptx


def test_regions_that_can_leave_their_array_are_refused() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (100, 32), "float32"), k.shared((8, 32), "float32")
    row = k.block_id() * 8
    k.cta.copy(s[:, :], a[row : row + 8, :])
    with pytest.raises(tc.LayoutError, match=mentions(96, 92)):
        k.build(target="sm_80", grid=13)
    kernel = k.build(target="sm_80")
    with pytest.raises(tc.LaunchError, match=mentions(96)):
        kernel(np.zeros((100, 32), np.float32), grid=13, executor="emulator")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda a: (a,), ("A", "B")),
        (lambda a: (a, a.astype(np.float64)), ("B", "float64", "float32")),
        (lambda a: (a, np.zeros((64, 64), np.float32).T), ("B", 64)),
        (lambda a: (a, np.zeros((32, 64), np.float32)), ("B", 32, 64)),
        (lambda a: (a, np.broadcast_to(np.float32(0), (64, 64))), ("B",)),
        (lambda a: (a, [1, 2]), (1, 2)),
    ],
)
def test_bad_arguments_are_named_before_the_launch(arguments: Any, message: tuple[object, ...]) -> None:
    kernel = round_trip((64, 64), (32, 64), "float32")
    with pytest.raises(tc.LaunchError, match=mentions(*message)):
        kernel(*arguments(np.zeros((64, 64), np.float32)), executor="emulator")


def test_a_read_only_output_is_refused_and_nothing_is_written() -> None:
    kernel = round_trip((64, 64), (32, 64), "float32")
    a, b = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    b.flags.writeable = False
    with pytest.raises(tc.LaunchError, match=mentions("B")):
        kernel(a, b, executor="emulator")
    assert not b.any()
    with pytest.raises(tc.LaunchError, match=mentions("grid")):
        kernel(a, a.copy(), grid=7, executor="emulator")


def g(shape: Any = (32, 32), dtype: str = "float32", **more: Any) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space="global", **({"name": "A"} | more))


def s(shape: Any = (32, 32), dtype: str = "float32", **more: Any) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space="shared", **({"name": "s"} | more))


def plan(dst: Any, src: Any, **more: Any) -> tc.Plan:
    return tc.plan(dst, src, **({"scope": tc.warp(), "target": "sm_90a"} | more))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: plan(s()[:, :], g(dtype="float16")[:, :]), tc.RequestError, ("float32", "A", "float16")),
        (
            lambda: plan(s()[:, :], g()[0:16, :]),
            tc.RequestError,
            (32, 16),
        ),
        (lambda: g((-1, 4)), tc.LayoutError, (-1,)),
        (lambda: tc.Buffer((0, 4), "float32", space="shared", name="t"), tc.LayoutError, (1, 0)),
        (lambda: g()[4:3, :], tc.LayoutError, ("A",)),
        (lambda: plan(s()[:, :], g()[0:33, :]), tc.LayoutError, ("outside", 32)),
        (lambda: plan(s()[:, :], g()[40, :]), tc.LayoutError, ("outside",)),
        (lambda: g()[0, 0, 0], tc.LayoutError, (3,)),
        (lambda: g()[::2, :], tc.LayoutError, ("A",)),
        (lambda: plan(s(layout=TileLayout(S[(32, 32) : (0, 1)]))[:, :], g()[:, :]), tc.LayoutError, (0, "float32")),
        (
            lambda: plan(s(layout=TileLayout(S[(32, 32) : (16, 1)]))[:, :], g()[:, :]),
            tc.LayoutError,
            (1024, 528),
        ),
        (lambda: s(layout=TileLayout(S[16, 16])), tc.LayoutError, (256, "shape", 1024)),
        (lambda: plan(s()[:, :], g()[:, :], target="sm_91"), tc.TargetError, ("sm_91",)),
        (lambda: plan(s()[:, :], g()[:, :], op="move"), tc.RequestError, ("move", "op")),
        (lambda: plan(s()[:, :], g()), tc.TilecopyError, ("A",)),
        (lambda: tc.cta(0), tc.RequestError, (1024,)),
        (lambda: tc.cta(2048), tc.RequestError, (1024,)),
        (lambda: g(dtype="float12"), tc.RequestError, ("float12",)),
        (lambda: g(name="a b"), tc.RequestError, ()),
        (lambda: tc.KernelBuilder("k;ret", threads=32), tc.RequestError, ("k;ret",)),
        (lambda: tc.KernelBuilder("k", threads=32).param("x\n", (4,), "int8"), tc.RequestError, ()),
        (lambda: tc.Buffer(4, "int8", space="heap"), tc.RequestError, ("heap", "space")),
        (lambda: tc.Buffer(4, "int8", space="shared", align_bytes=12), tc.RequestError, ("align_bytes",)),
    ],
)
def test_bad_input_is_named(make: Any, error: type[Exception], message: tuple[object, ...]) -> None:
    with pytest.raises(error, match=mentions(*message)):
        make()


def test_inline_ptx_may_write_every_array() -> None:
    k = tc.KernelBuilder("k", threads=32)
    k.inline_ptx("st.global.f32 {0}, 0f00000000;", k.param("A", (8,), "float32")[0])
    a = np.ones(8, np.float32)
    a.flags.writeable = False
    with pytest.raises(tc.LaunchError, match=mentions("A")):
        k.build(target="sm_90", grid=1)(a, executor="emulator")


def test_inline_ptx_writes_registers_of_fragments() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, b = k.param("A", (32, 4), "float32"), k.param("B", (32, 4), "float32")
    row = k.local((32, 4), "float32", layout=tc.TileLayout(tc.S[(32, 4) : (1 @ tc.laneid, 1)]))
    k.warp.copy(row[:, :], a[:, :])
    own, both, tid = k.registers(row), k.local((2,), "float32"), k.thread_id()
    before = k.load(own[0])
    k.inline_ptx("{{ add.f32 {1}, {0}, {0}; }}", own[3], out=[own[0]])
    k.inline_ptx("{{ .reg .b64 w; cvt.u64.u32 w, {0}; shl.b64 w, w, 32; mov.b64 {{{1}}}, w; }}", tid, out=[both[:]])
    k.store(b[tid, 0], k.load(own[0]))
    k.store(b[tid, 1], before)  # a value that was loaded stays
    k.store(b[tid, 2], k.load(own[3]))
    k.inline_ptx(
        "{{ .reg .pred p; setp.ge.f32 p, {0}, 0f00000000; @p cvt.rn.f32.u32 {1}, {1}; }}", own[0], out=[both[1]]
    )
    k.store(b[tid, 3], k.load(both[1]))
    x = np.arange(128, dtype=np.float32).reshape(32, 4)
    y = np.zeros_like(x)
    k.build(target="sm_90", grid=1)(x, y, executor="emulator")
    assert (y == np.stack([2 * x[:, 3], x[:, 0], x[:, 3], np.arange(32)], 1)).all()


def test_a_register_that_inline_ptx_does_not_write_is_a_hazard() -> None:
    k = tc.KernelBuilder("k", threads=32)
    b, pair = k.param("B", (32,), "float32"), k.local((2,), "float32")
    k.inline_ptx("mov.f32 {0}, 0f3F800000;", out=[pair[0]])
    k.store(b[k.thread_id()], k.load(pair[1]))
    with pytest.raises(tc.HazardError, check=is_hazard("poison", 0, 1)):
        k.build(target="sm_90", grid=1)(np.zeros(32, np.float32), executor="emulator")


INLINE: list[tuple[Callable[[tc.KernelBuilder, tc.Buffer], Any], str]] = [
    (
        lambda k, f: k.inline_ptx("// {0}", out=[k.param("A", (8,), "float32")[0]]),
        ("A",),
    ),
    (lambda k, f: k.inline_ptx("// {0}", out=f), ("f", "float16")),
    (lambda k, f: k.inline_ptx("// {0}", out=[f]), ("f", "float16")),
    (lambda k, f: k.inline_ptx("// {0} {1}", out=[f[0:4], f[2:6]]), ("f", 6)),
    (
        lambda k, f: k.inline_ptx("// {0}", out=[f[0]]),
        (32, "f"),
    ),
    (lambda k, f: k.inline_ptx("// {0}", f[1:3]), (32,)),
    (lambda k, f: k.inline_ptx("// {1}", out=[f[0:2]]), ("operands",)),
    (lambda k, f: k.inline_ptx("// {0}", out=[tc.KernelBuilder("o", threads=32).local((2,), "float16")[:]]), ()),
]


@pytest.mark.parametrize(("act", "message"), INLINE)
def test_what_inline_ptx_cannot_write_is_refused(act: Any, message: tuple[object, ...]) -> None:
    k = tc.KernelBuilder("k", threads=32)
    with pytest.raises((tc.RequestError, tc.LayoutError), match=mentions(*message)):
        act(k, k.local((8,), "float16", name="f"))


def tensor(k: tc.KernelBuilder, lanes: int, columns: int) -> tc.Buffer:
    layout = tc.TileLayout(tc.S[(lanes, columns) : (1 @ tc.TLane, 1 @ tc.TCol)])
    return k.tmem((lanes, columns), "float32", layout=layout)


PAST_THE_HARDWARE: list[tuple[Callable[[tc.KernelBuilder], Any], str]] = [
    (lambda k: k.load(k.shared((8,), "int4")[0]), (4, 8, 64)),
    (lambda k: tensor(k, 128, 513), (128, 513, 512)),
    (lambda k: tensor(k, 129, 16), (129, 16)),
    (lambda k: k.tcgen05_alloc(tensor(k, 128, 33), columns=32), (33, 32)),
    (lambda k: k.local(16 * 1024 + 1, "uint8"), (16385, 16384)),
    (lambda k: k.shared(2**31, "uint8"), (2147483648, 2147483647)),
    (lambda k: k.mbarrier().arrive(slice(None)), ("index",)),
    (lambda k: k.mbarrier().wait(0, ...), ("Ellipsis",)),
    (lambda k: k.mbarrier().init(1, ()), ("index",)),
    (lambda k: k.mbarrier()[0:1], ("index",)),
    (lambda k: k.mbarrier().arrive_expect_tx(2**20), (1048575, 1048576)),
    (lambda k: k.mbarrier().init(2**20), (1048575, 1048576)),
    (lambda k: k.cp_async_wait("x"), ("x", "cp_async_wait", "pending", 2147483647)),  # type: ignore[arg-type]
    (lambda k: k.cp_async_wait(pending=-1), ("cp_async_wait", "pending")),
    (lambda k: k.bulk_wait(None), ("bulk_wait", "pending")),  # type: ignore[arg-type]
    (lambda k: k.bulk_wait(0, read=1), ("bulk_wait",)),  # type: ignore[arg-type]
    (
        lambda k: k.fence_proxy_async("globl"),
        ("globl", "fence_proxy_async", "shared::cta"),
    ),
    (lambda k: k.build(target="sm_90", cluster=0), ("cluster",)),
    (lambda k: k.build(target="sm_80", cluster=2), ("cluster", "sm_90")),
    (lambda k: k.inline_ptx("mov.b32 {0}, {1};", 1), ("operands",)),
]


@pytest.mark.parametrize(("act", "message"), PAST_THE_HARDWARE)
def test_what_the_hardware_has_not_is_refused_with_its_number(
    act: Callable[[tc.KernelBuilder], Any], message: tuple[object, ...]
) -> None:
    with pytest.raises(tc.TilecopyError, match=mentions(*message)):
        act(tc.KernelBuilder("k", threads=128))


def test_a_phase_counter_is_a_parity_modulo_2() -> None:
    texts = []
    for counted in (lambda turn: turn % 2, lambda turn: turn):
        k = tc.KernelBuilder("k", threads=32)
        turn, arrived = k.scalar("turn", upper=100), k.mbarrier("arrived")
        for phase in (1, 5, -1, turn):
            arrived.wait(counted(phase))
        texts.append(k.build(target="sm_90").ptx)
    assert texts[0] == texts[1] and texts[0].count("[%r0], 1;") == 3


def test_names_are_claimed_once_and_buffers_belong_to_their_kernel() -> None:
    k = tc.KernelBuilder("k", threads=32)
    k.param("A", (4,), "int32")
    with pytest.raises(tc.RequestError, match=mentions("A")):
        k.shared(4, "int32", name="A")
    with pytest.raises(tc.RequestError):
        k.load(g(4, "int32", name="other")[0])
    with pytest.raises(tc.LayoutError, match=mentions(4)):
        k.load(k.param("B", (4,), "int32")[:])
    with pytest.raises(tc.RequestError, match=mentions("int32", "C")):
        k.store(k.param("C", (4,), "float32")[0], k.load(k.param("D", (4,), "int32")[0]))
    with pytest.raises(tc.RequestError, match=mentions("E[", "rows", "k")):
        k.store(k.param("E", (4,), "int32")[0], tc.KernelBuilder("other", threads=32).scalar("rows", upper=3))
    with pytest.raises(tc.RequestError):
        with k.if_(k.thread_id() == 0):
            k.build(target="sm_80")


@pytest.mark.parametrize("name", ["add", "ret", "reg", "entry", "tid", "param_A", "WARP_SZ", "smem_pool"])
def test_any_identifier_is_a_kernel_name(name: str) -> None:
    if name == "WARP_SZ":
        with pytest.raises(tc.RequestError, match="WARP_SZ"):
            tc.KernelBuilder(name, threads=32)
        return
    k = tc.KernelBuilder(name, threads=32)
    a = k.param("A", (32,), "int32")
    k.store(a[k.thread_id()], 1)
    kernel = k.build(target="sm_80", grid=1)
    assemble(kernel.ptx, kernel.target, "ptxas")
    result = np.zeros(32, np.int32)
    kernel(result, executor="emulator")
    assert result.all()


@pytest.mark.parametrize(
    ("condition", "scope", "accepted"),
    [
        (lambda k: k.thread_id() < 128, "cta", True),
        (lambda k: k.thread_id() < 64, "cta", False),
        (lambda k: k.thread_id() < 64, "warp", True),
        (lambda k: k.thread_id() < 48, "warp", False),
        (lambda k: k.warp_id() == 1, "warp", True),
        (lambda k: k.thread_id() % 2 == 0, "warp", False),
        (lambda k: k.block_id() == 0, "cta", True),
        (lambda k: k.thread_id() < k.block_id(), "warp", False),
        (lambda k: k.thread_id() == 5, "thread", True),
        (lambda k: k.load(k.param("N", (1,), "int32", align_bytes=4)[0]) > 0, "warp", True),
        (lambda k: k.load(k.param("N", (128,), "int32")[k.thread_id()]) > 0, "warp", False),
    ],
)
def test_what_cannot_be_shown_to_leave_every_thread_active_is_declined(
    condition: Any, scope: str, accepted: bool
) -> None:
    k = tc.KernelBuilder("k", threads=128)
    a, b = k.param("A", (128,), "float32"), k.shared((128,), "float32")
    with k.if_(condition(k)):
        getattr(k, scope).copy(b[:], a[:])
    if accepted:
        k.build(target="sm_80")
    else:
        with pytest.raises(tc.NoVariantError, match=mentions("condition", "float32")):
            k.build(target="sm_80")


@pytest.mark.parametrize("form", ["with", "if_"])
def test_elect_leaves_one_thread_a_warp(form: str) -> None:
    k = tc.KernelBuilder("elected", threads=64)
    a, b = k.param("A", (64,), "float32"), k.param("B", (2,), "int32", align_bytes=4)
    s = k.shared((2, 64), "float32", name="s")
    with k.elect() if form == "with" else k.if_(k.elect()):
        k.thread.copy(s[k.warp_id(), :], a[:])
        k.store(b[k.warp_id()], 1)
    kernel = k.build(target="sm_90", grid=1)
    assert "elect.sync" in kernel.ptx
    assemble(kernel.ptx, kernel.target, "ptxas")
    result = np.zeros(2, np.int32)
    kernel(np.ones(64, np.float32), result, executor="emulator")
    assert result.tolist() == [1, 1]
    with k.elect():
        k.warp.copy(s[0, :], a[:])
    with pytest.raises(tc.NoVariantError, match=mentions(32)):
        k.build(target="sm_90", grid=1)


def test_a_cta_that_is_no_whole_number_of_warps() -> None:
    k = tc.KernelBuilder("k", threads=48)
    a, b = k.param("A", (96,), "float32"), k.shared((96,), "float32")
    k.warp.copy(b[:], a[:])
    with pytest.raises(tc.NoVariantError, match=mentions(48)):
        k.build(target="sm_80", grid=1)
    kernel = round_trip((4, 48), (2, 48), "float32", threads=48)
    a, b = byte_arrays.random_array((4, 48), np.float32), np.zeros((4, 48), np.float32)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


@pytest.mark.parametrize("start", [2**31 - 2, 2**32 - 1, 2**40, -(2**31) - 1])
def test_loops_begin_where_32_bits_end(start: int) -> None:
    k = tc.KernelBuilder("far", threads=32)
    out = k.param("O", (2,), "int64")
    for i in k.range(2, start=start):
        with k.if_(k.thread_id() == 0):
            k.store(out[i - start], i)
    found = np.zeros(2, np.int64)
    k.build(target="sm_80", grid=1)(found, executor="emulator")
    assert found.tolist() == [start, start + 1]


def test_the_address_of_an_element_is_a_value() -> None:
    k = tc.KernelBuilder("addresses", threads=64)
    out, words = k.param("out", 64, "uint32"), k.param("words", (64, 4), "uint32")
    tile = k.shared((64, 4), "uint32", align_bytes=16)
    row = k.thread_id()
    k.store(tile[row, 1], k.load(words[row, 1]))
    into = k.local(2, "uint32")
    loads = "ld.shared.u32 {2}, [{0}];\nld.global.u32 {3}, [{1}];"
    at = k.address(tile[row, 0]) + 4, k.address(words[row, 0]) + 8
    k.inline_ptx(loads, *at, out=[into[0:1], into[1:2]])
    k.store(out[row], k.load(into[0]) + k.load(into[1]))
    kernel = k.build(target="sm_80", grid=1)
    numbers, found = np.arange(256, dtype=np.uint32).reshape(64, 4) * 3, np.zeros(64, np.uint32)
    kernel(found, numbers, executor="emulator")
    assert np.array_equal(found, numbers[:, 1] + numbers[:, 2])


def test_only_memory_has_an_address() -> None:
    k = tc.KernelBuilder("addresses", threads=32)
    with pytest.raises(tc.LayoutError, match=mentions("local")):
        k.address(k.local(4, "uint32")[0])
    with pytest.raises(tc.RequestError, match=mentions("addresses")):
        k.address(tc.KernelBuilder("other", threads=32).shared(4, "uint32")[0])
    with pytest.raises(tc.LayoutError, match=mentions(4)):
        k.address(k.shared(4, "uint32")[4])


@pytest.mark.parametrize("relaxed", [False, True])
def test_a_thread_arrives_on_the_barrier_of_another_cta(relaxed: bool) -> None:
    k = tc.KernelBuilder("hand_back", threads=32)
    out, rank = k.param("out", 2, "uint32"), k.cluster_rank() % 2
    done = k.mbarrier("done", count=2)
    with k.if_(k.thread_id() == 0):
        done.init(1, index=1)
        k.fence_mbarrier_init()
    k.cluster_sync()
    with k.if_(k.thread_id() == 0):
        done.arrive(index=1, cta_rank=1 - rank, relaxed=relaxed)
        done.wait(0, index=1, cluster=True)
        k.store(out[rank], 1)
    k.cluster_sync()
    kernel = k.build(target="sm_90", grid=2, cluster=2)
    assert ("arrive.relaxed.cluster" in kernel.ptx) == relaxed == (".version 8.6" in kernel.ptx)
    found = np.zeros(2, np.uint32)
    kernel(found, executor="emulator")
    assert found.tolist() == [1, 1]


def test_arguments_by_name_may_have_any_other_name() -> None:
    k = tc.KernelBuilder("named", threads=32)
    source, target = k.param("source", (1,), "int32"), k.param("self", (1,), "int32")
    k.store(target[0], k.load(source[0]))
    kernel, found = k.build(target="sm_80", grid=1), np.zeros(1, np.int32)
    kernel(source=np.full(1, 7, np.int32), self=found, executor="emulator")
    assert found.tolist() == [7]
    with pytest.raises(tc.LaunchError, match=mentions("cluster")):
        kernel(found, found, cluster=2, executor="emulator")


def test_the_parity_of_a_phase_is_one_bit() -> None:
    k = tc.KernelBuilder("third", threads=32)
    k.mbarrier("done").wait(3)
    waits = [line for line in k.build(target="sm_90", grid=1).ptx.splitlines() if "try_wait" in line]
    assert [line.endswith(", 1;") for line in waits] == [True]


@pytest.mark.parametrize("arguments", [(), (1,) * 9, {"wrong": 1}])
def test_a_method_is_named_where_the_number_of_its_arguments_is_wrong(arguments: Any) -> None:
    """As Python names a function; instructions that take none are called with some."""
    k = tc.KernelBuilder("k", threads=64)
    mbar = k.mbarrier("bar")
    checked = set()
    for what in (k, k.cta, mbar):
        for name in dir(what):
            method = getattr(what, name)
            if name.startswith("_") or not callable(method):
                continue
            try:
                method(**arguments) if isinstance(arguments, dict) else method(*arguments)
            except TypeError as error:
                assert f"{name}(" in str(error)
                checked.add(name)
            except tc.TilecopyError:
                continue
    assert checked >= {"named_barrier"}


def test_the_missing_argument_is_named() -> None:
    k = tc.KernelBuilder("k", threads=64)
    with pytest.raises(TypeError, match=r"named_barrier\(.*'threads'"):
        k.named_barrier(1)


FOUR_BITS = pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])


@FOUR_BITS
@pytest.mark.parametrize("way", ["shared", "local", "shared and local", "cp.async"])
def test_elements_of_4_bits_are_copied_where_whole_bytes_move(dtype: str, way: str) -> None:
    k = tc.KernelBuilder("packed", threads=32)
    a, b = k.param("A", (16, 64), "uint8"), k.param("B", (16, 64), "uint8")
    rows = k.block_id("x") * 8
    source, result = (region.view(dtype=dtype)[rows : rows + 8, 32:96] for region in (a, b))
    tile = k.shared((8, 64), dtype)
    fragment = k.local((8, 64), dtype, layout=TileLayout(S[(8, 32, 2) : (2, 1 @ tc.laneid, 1)]))
    if way == "cp.async":
        k.warp.copy_async(tile[:, :], source, variant="ldgsts")
        k.cp_async_commit()
        k.cp_async_wait(0)
    else:
        k.warp.copy(tile[:, :] if "shared" in way else fragment[:, :], source)
    k.cta_sync()
    if way == "shared and local":
        k.warp.copy(fragment[:, :], tile[:, :])
    k.warp.copy(result, fragment[:, :] if "local" in way else tile[:, :])
    kernel = k.build(target="sm_80", grid=2)
    x, y = byte_arrays.random_array((16, 64), "uint8", 4), np.zeros((16, 64), np.uint8)
    kernel(x, y, executor="emulator")
    assert np.array_equal(y[:, 16:48], x[:, 16:48]) and not y[:, :16].any() and not y[:, 48:].any()


@FOUR_BITS
@pytest.mark.parametrize("starts", [(1, 1), (0, 1), (1, 0)])
def test_halves_of_bytes_are_not_copied(dtype: str, starts: tuple[int, int]) -> None:
    shared, array = (tc.Buffer((8, 64), dtype, space=space, name=space[0]) for space in ("shared", "global"))
    (to, of), target = starts, "sm_90a"
    with pytest.raises(tc.NoVariantError, match=mentions("gmem_smem", 4)):
        tc.plan(shared[:, to : to + 32], array[:, of : of + 32], scope=tc.warp(), target=target)
    with pytest.raises(tc.NoVariantError, match=mentions("gmem_smem", 4)):
        tc.plan(shared[:, 0:31], array[:, 0:31], scope=tc.warp(), target=target)
    turned = tc.Buffer((8, 64), dtype, space="shared", name="t", layout=TileLayout(S[(8, 64) : (1, 8)]))
    with pytest.raises(tc.NoVariantError, match=mentions("gmem_smem", 4)):
        tc.plan(turned[:, :], array[:, :], scope=tc.warp(), target=target)


def test_a_loaded_value_as_an_index_names_what_turns_it_into_one() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a = k.param("A", (32,), "int32")
    row = k.load(a[0])
    for index in (row, slice(row, row + 4)):
        with pytest.raises(tc.LayoutError, match=mentions("A", "KernelBuilder.index")):
            a[index]
    with pytest.raises(tc.LayoutError) as failure:
        a[0.5]
    assert "KernelBuilder.index" not in str(failure.value)
