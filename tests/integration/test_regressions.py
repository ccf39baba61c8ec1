"""Every fault that the core once had, each as a statement of what is right."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TileLayout, laneid
from tilecopy.assemblers import assemble
from tilecopy.kernel.active_threads import inside_condition
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.index_text import BASE, builder, lines_of, parameters, run_text
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.description.scope import ActiveThreads, differs_within, tid_symbol
from tilecopy_core.integers.expr import Symbol, bounds_of, evaluate, of_atom, structural_equal

ROWS = np.arange(32 * 32, dtype=np.float32).reshape(32, 32)


def kernel(threads: int = 32, **arrays: tuple[int, ...]) -> tuple[Any, ...]:
    """A builder, and float32 parameters by name."""
    k = tc.KernelBuilder("k", threads=threads)
    return k, *(k.param(name, shape, "float32") for name, shape in arrays.items())


def run(k: Any, *arguments: Any, grid: Any = 1, target: str = "sm_90a", **more: Any) -> tc.BuiltKernel:
    """Build and run on the emulator."""
    built = k.build(target=target, grid=grid, **more)
    built(*arguments, executor="emulator")
    return built


# ------------------------------------------------------------------------------------------- names and conditions


@pytest.mark.parametrize(
    "name", ["round", "round_0", "turn", "cluster_ctarank", "param_A", "loop0", "tid", "ctaid", "lane", "group"]
)
def test_a_scalar_may_have_any_name(name: str) -> None:
    """The identity of a symbol is not its spelling: a rolled copy of 128 rounds, its rows chosen by the scalar."""
    k, a, b = kernel(32, A=(256, 32), B=(128, 32))
    first = k.scalar(name, upper=128)
    s = k.shared((128, 32), "float32", layout=TileLayout(S[(128, 32) : (33, 1)]))
    k.warp.copy(s[:, :], a[first : first + 128, :])
    k.warp_sync()
    k.warp.copy(b[:, :], s[:, :])
    source, result = np.arange(256 * 32, dtype=np.float32).reshape(256, 32), np.zeros((128, 32), np.float32)
    built = run(k, source, result, 7)
    assert built.plans[0].partition.outer > 64
    assert np.array_equal(result, source[7:135])


def test_a_scalar_declared_inside_a_loop_is_not_its_counter() -> None:
    k, b = kernel(32, B=(4, 32))
    for i in k.range(4):
        other = k.scalar("loop0", upper=100)
        k.store(b[i, k.thread_id()], k.cast(other, "float32"))
    result = np.zeros((4, 32), np.float32)
    run(k, result, 77)
    assert (result == 77).all()


@pytest.mark.parametrize(
    "loop",
    [
        lambda k: (k.range(k.thread_id()), None),
        lambda k: (k.range(2, start=k.thread_id()), lambda i: i < 3),
        lambda k: (k.range(k.lane_id() // 16 + 1), None),
        lambda k: (k.range(1, start=k.thread_id()), lambda i: (i == 4) & (k.block_id() == 0)),
    ],
)
def test_what_varies_by_thread_is_tracked_through_ranges_and_starts(loop: Any) -> None:
    k, a = kernel(64, A=(32, 32))
    s = k.shared((32, 32), "float32")
    turns, condition = loop(k)
    for i in turns:
        with k.if_(True if condition is None else condition(i)):
            k.warp.copy(s[:, :], a[:, :])
    with pytest.raises(tc.NoVariantError, match=mentions("warp")):
        k.build(target="sm_90a", grid=1)


def test_what_varies_by_thread_is_tracked_through_loaded_values() -> None:
    k, a = kernel(64, A=(32, 32))
    s = k.shared((32, 32), "float32")
    with k.if_(k.load(a[0, k.lane_id()]) > 1.0):
        k.warp.copy(s[:, :], a[:, :])
    with pytest.raises(tc.NoVariantError, match=mentions("warp")):
        k.build(target="sm_90a", grid=1)


@pytest.mark.parametrize(
    "condition",
    [lambda k: ~k.elect(), lambda k: k.elect() | (k.thread_id() == 3), lambda k: ~(k.elect() & (k.block_id() == 0))],
)
def test_which_lane_is_elected_is_not_known(condition: Any) -> None:
    k, a = kernel(64, A=(32, 32))
    s = k.shared((32, 32), "float32")
    with k.if_(condition(k)):
        k.warp.copy(s[:, :], a[:, :])
    with pytest.raises(tc.NoVariantError, match=mentions("condition")):
        k.build(target="sm_90a", grid=1)


@pytest.mark.parametrize(
    ("scope", "start", "accepted"),
    [
        ("cta", lambda k: k.thread_id(), False),
        ("warp", lambda k: k.lane_id(), False),
        ("cta", lambda k: k.warp_id(), False),
        ("warp", lambda k: k.warp_id(), True),
        ("warpgroup", lambda k: k.warp_id(), False),
        ("warpgroup", lambda k: k.thread_id() // 128, True),
        ("cta", lambda k: k.block_id(), True),
    ],
)
def test_a_region_that_differs_between_the_threads_of_its_scope_is_declined(
    scope: str, start: Any, accepted: bool
) -> None:
    k, a = kernel(256, A=(600, 32))
    s = k.shared((8, 32), "float32")
    at = start(k)
    getattr(k, scope).copy(s[:, :], a[at : at + 8, :])
    if accepted:
        k.build(target="sm_90a", grid=32)
    else:
        with pytest.raises(tc.NoVariantError, match=mentions("start", scope)):
            k.build(target="sm_90a", grid=32)


@pytest.mark.parametrize(
    "layout",
    [
        lambda k: TileLayout(S[8, 32]) + k.thread_id() * 32,
        lambda k: TileLayout(S[8, 32]) + k.lane_id() // 16 * 32,
        lambda k: TileLayout(S[(8, 32) : (k.thread_id() * 4, 1)]),
    ],
)
def test_a_layout_that_differs_between_the_threads_of_a_scope_is_declined(layout: Any) -> None:
    """A view's offset or stride may be symbolic: it moves the box as a start does."""
    k, a = kernel(32, A=(64, 32))
    s = k.shared((8, 32), "float32")
    seen = a.view(shape=(8, 32), layout=layout(k))
    k.cta.copy(s[:, :], seen[:, :])
    with pytest.raises(tc.NoVariantError, match=mentions("layout")):
        k.build(target="sm_90a", grid=1)
    with pytest.raises(tc.NoVariantError, match=mentions("warp")):
        tc.plan(s[:, :], seen[:, :], scope=tc.warp(), target="sm_90a")


def test_a_threads_own_layout_is_copied_by_that_thread() -> None:
    k, a, b = kernel(32, A=(40, 32), B=(32, 8, 32))
    s = k.shared((32, 8, 32), "float32")
    t = k.thread_id()
    k.thread.copy(s[t, :, :], a.view(shape=(8, 32), layout=TileLayout(S[8, 32]) + t * 32)[:, :])
    k.cta_sync()
    k.cta.copy(b[:, :, :], s[:, :, :])
    source, result = np.arange(40 * 32, dtype=np.float32).reshape(40, 32), np.zeros((32, 8, 32), np.float32)
    run(k, source, result)
    assert np.array_equal(result, np.stack([source[i : i + 8] for i in range(32)]))


def test_a_value_loaded_through_a_threads_own_layout_is_that_threads() -> None:
    k, a = kernel(32, A=(64, 32))
    rows = k.param("rows", (64,), "int32")
    s = k.shared((8, 32), "float32")
    row = k.index(k.load(rows.view(shape=1, layout=TileLayout(S[1]) + k.thread_id())[0]), upper=56)
    k.cta.copy(s[:, :], a[row : row + 8, :])
    with pytest.raises(tc.NoVariantError, match=mentions("index0")):
        k.build(target="sm_90a", grid=1)


def test_a_layouts_symbols_belong_to_the_kernel() -> None:
    other, _ = kernel(32, A=(64, 32))
    n = other.scalar("n", upper=3)
    k, a = kernel(32, A=(64, 32))
    s = k.shared((8, 32), "float32")
    with pytest.raises(tc.RequestError, match=mentions("n", "k")):
        k.cta.copy(s[:, :], a.view(shape=(8, 32), layout=TileLayout(S[8, 32]) + n * 32)[:, :])


def test_a_start_made_of_a_threads_loop_differs_too() -> None:
    k, a = kernel(64, A=(128, 32))
    s = k.shared((8, 32), "float32")
    for i in k.range(2, start=k.thread_id()):
        k.cta.copy(s[:, :], a[i : i + 8, :])
    with pytest.raises(tc.NoVariantError, match="loop0|range"):
        k.build(target="sm_90a", grid=1)
    lane = tid_symbol(64) % 32
    looped = of_atom(Symbol("i", 0, 40, varies="cta", source=(lane,)))
    assert differs_within(looped, tc.warp())
    assert not differs_within(of_atom(Symbol("i", 0, 40, varies="cta", source=(tid_symbol(64) // 32,))), tc.warp())


@pytest.mark.parametrize("start", [lambda k: k.thread_id(), lambda k: k.lane_id() * 3 - 50, lambda k: k.warp_id()])
def test_threads_with_as_many_turns_go_through_them_together(start: Any) -> None:
    """Where a loop begins may differ between threads; how often it turns decides who comes to a copy in it."""
    k, a, b = kernel(64, A=(32, 32), B=(3, 64))
    s = k.shared((32, 32), "float32")
    for i in k.range(3, start=start(k)):
        k.cta.copy(s[:, :], a[:, :])
        k.cta_sync()
        k.store(b[i - start(k), k.thread_id()], k.load(s[i - start(k), 5]))
        k.cta_sync()
    result = np.zeros((3, 64), np.float32)
    run(k, ROWS, result)
    assert np.array_equal(result, np.repeat(ROWS[:3, 5:6], 64, 1))


@pytest.mark.parametrize(
    ("dtype", "value", "accepted"),
    [
        ("int8", lambda k: k.thread_id() * 3, False),
        ("int8", lambda k: k.lane_id() * 3, True),
        ("uint8", lambda k: k.thread_id() - 5, False),
        ("uint32", lambda k: k.thread_id() - 5, False),
        ("uint32", lambda k: k.thread_id() + 5, True),
        ("int16", lambda k: k.block_id(), False),
        ("int32", lambda k: k.block_id() * 128 + k.thread_id(), True),
        ("int8", lambda k: k.cast(k.thread_id() * 3, "int8"), True),
    ],
)
def test_an_integer_that_a_type_may_not_hold_wraps_around_only_where_it_is_cast(
    dtype: str, value: Any, accepted: bool
) -> None:
    k = tc.KernelBuilder("k", threads=128)
    b = k.param("B", (128,), dtype)
    refused = pytest.raises(tc.RequestError, match=mentions(dtype))
    if not accepted:
        with refused:
            k.store(b[k.thread_id()], value(k))
        with refused:
            k.load(b[0]) + value(k)
        with refused:
            k.if_(k.load(b[0]) < value(k))
        return
    k.store(b[k.thread_id()], value(k))
    result = np.zeros(128, dtype)
    run(k, result)
    tid = np.arange(128)
    expected = {"int8": (tid * 3, tid % 32 * 3), "uint32": (tid + 5,), "int32": (tid,)}[dtype]
    assert any(np.array_equal(result, each.astype(dtype)) for each in expected)


@pytest.mark.parametrize("leave", ["break", "raise"])
def test_a_block_that_is_left_early_builds_nothing(leave: str) -> None:
    k, a = kernel(32, A=(32, 32))
    try:
        for i in k.range(8):
            k.store(a[i, k.thread_id()], 1.0)
            if leave == "break":
                break
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    with pytest.raises(tc.RequestError, match=mentions(8, "test_regressions.py")):
        k.build(target="sm_90a", grid=1)


def test_conditions_have_no_truth_value_and_structure_has_a_name() -> None:
    k = tc.KernelBuilder("k", threads=32)
    t = k.thread_id()
    for mistake in (
        lambda: bool(t == 0),
        lambda: t == 5 or t == 6,
        lambda: t == 5 and t < 3,
        lambda: not (t == 5),
        lambda: bool(t != 3),
    ):
        with pytest.raises(tc.RequestError, match=mentions("if_")):
            mistake()
    assert structural_equal(t + 1, 1 + t) and not structural_equal(t, t + 1)


def test_decided_comparisons_join_conditions() -> None:
    """A CTA of one thread has a thread index of 0, so that ``tid < 4`` is a plain bool."""
    k, b = kernel(1, B=(2, 4))
    tid, block = k.thread_id(), k.block_id()
    with k.if_((tid < 4) & (block == 1)):
        k.store(b[block, 0], 1.0)
    with k.if_((block == 1) | (tid > 4)):
        k.store(b[block, 1], 1.0)
    with k.if_(~((block == 7) & (tid == 0))):
        k.store(b[block, 2], 1.0)
    with k.if_((tid > 4) | (block == 9)):
        k.store(b[block, 3], 1.0)
    result = np.zeros((2, 4), np.float32)
    run(k, result, grid=2)
    assert result.tolist() == [[0, 0, 1, 0], [1, 1, 1, 0]]


def test_a_buffer_belongs_to_the_kernel_object_that_made_it() -> None:
    _, foreign = kernel(32, A=(4096, 4096))
    k, a = kernel(32, A=(32, 32))
    s = k.shared((32, 32), "float32", name="s")
    with pytest.raises(tc.RequestError, match=mentions("A", "k")):
        k.warp.copy(s[:, :], foreign[0:32, 0:32])
    with pytest.raises(tc.RequestError, match=mentions("k")):
        k.load(foreign[0, 0])
    other = tc.KernelBuilder("k", threads=32)
    n = other.scalar("n", upper=4)
    with pytest.raises(tc.RequestError, match=mentions("n", "k")):
        k.warp.copy(s[0, :], a[n, :])


# ------------------------------------------------------------------------------------------- bounds


def test_a_guard_about_something_else_proves_nothing() -> None:
    k, a = kernel(64, A=(100, 32))
    s = k.shared((8, 32), "float32")
    row = k.block_id() * 8
    with k.if_(k.warp_id() == 0):
        k.warp.copy(s[:, :], a[row : row + 8, :])
    with pytest.raises(tc.LayoutError, match=mentions(1296, 92)):
        k.build(target="sm_90a", grid=163)


GUARDS: dict[str, tuple[Any, int]] = {
    "i < n": (lambda i, n: i < n, 5),
    "n > i": (lambda i, n: n > i, 5),
    "not i >= n": (lambda i, n: ~(i >= n), 5),
    "i <= n - 1 and i >= 0": (lambda i, n: (i <= n - 1) & (i >= 0), 5),
    "i == n": (lambda i, n: i == n, 6),
    "i < n or i == 2": (lambda i, n: (i < n) | (i == 2), 5),
    "i // 2 < n": (lambda i, n: i // 2 < n, 10),
    "2 * i < n": (lambda i, n: 2 * i < n, 3),
    "i < 7 and i != 6": (lambda i, n: (i < 7) & (i != 6), 6),
    "not (i > 4 or i > n)": (lambda i, n: ~((i > 4) | (i > n)), 5),
    "(i + 1) // 3 * 2 <= n": (lambda i, n: (i + 1) // 3 * 2 <= n, 8),
}


@pytest.mark.parametrize("name", GUARDS)
@pytest.mark.parametrize("index", ["block", "loop"])
def test_a_guard_narrows_what_is_known(name: str, index: str) -> None:
    """With n = 5, exactly as many rows as the guard lets through are enough; one less is refused."""
    guard, rows = GUARDS[name]
    for count in (rows, rows - 1):
        k, a = kernel(32, A=(count, 32))
        n = k.scalar("n", upper=100)
        if index == "block":
            with k.if_(guard(k.block_id(), n)):
                k.store(a[k.block_id(), k.thread_id()], 1.0)
        else:
            with k.range(12) as i, k.if_(guard(i, n)):
                k.store(a[i, k.thread_id()], 1.0)
        built = k.build(target="sm_90a", grid=12 if index == "block" else 1)
        result = np.zeros((count, 32), np.float32)
        if count == rows:
            built(result, 5, executor="emulator")
            assert (result[:, 0] == [bool(guard_on(name, i)) for i in range(rows)]).all()
        else:
            with pytest.raises(tc.LaunchError, match=mentions("A")):
                built(result, 5, executor="emulator")


def guard_on(name: str, i: int) -> bool:
    """A guard of GUARDS in Python's own words."""
    return bool(eval(name, {"i": i, "n": 5}))


def test_a_loop_over_a_scalar_count_is_inside_its_tiles() -> None:
    k, a, b = kernel(32, A=(8, 32), B=(8, 32))
    n = k.scalar("n", upper=1000)
    s = k.shared((1, 32), "float32")
    for i in k.range(n):
        k.warp.copy(s[:, :], a[i, :])
        k.warp_sync()
        k.warp.copy(b[i, :], s[:, :])
        k.warp_sync()
    built = k.build(target="sm_90a", grid=1)
    source, result = ROWS[:8].copy(), np.zeros((8, 32), np.float32)
    built(source, result, 8, executor="emulator")
    assert np.array_equal(source, result)
    with pytest.raises(tc.LaunchError, match=mentions(8, 7)):
        built(source, result, 9, executor="emulator")


@pytest.mark.parametrize(("turns", "start"), [("n", 0), ("n", 2), ("3 - n", 0), ("n - 2", 1)])
def test_a_loop_of_no_turns_does_nothing(turns: str, start: int) -> None:
    """Not even once: every turn that runs leaves its mark."""
    k, b = kernel(32, B=(8, 32))
    n = k.scalar("n", upper=3)
    for i in k.range(eval(turns, {"n": n}), start=start):
        k.store(b[i, k.thread_id()], 1.0)
    built = k.build(target="sm_90a", grid=1)
    for count in range(4):
        result = np.zeros((8, 32), np.float32)
        built(result, count, executor="emulator")
        wanted = range(start, start + eval(turns, {"n": count}))
        assert np.nonzero(result[:, 0])[0].tolist() == list(wanted)


def test_what_never_happens_need_not_be_inside() -> None:
    k, a = kernel(32, A=(4, 32))
    with k.range(8) as i, k.if_((i > 3) & (i < 3)):
        k.store(a[i, k.thread_id()], 1.0)
    run(k, np.zeros((4, 32), np.float32))


def test_many_conditions_are_looked_at_in_time() -> None:
    """The search for a proof is bounded; the copy is refused, not searched for ever."""
    k, a = kernel(32, A=(10, 32))
    total, blocks = 0, []
    for at in range(12):
        blocks.append(k.range(100))
        total = total + blocks[-1].__enter__()
        blocks.append(k.if_(total < k.scalar(f"n{at}", upper=100)))
        blocks[-1].__enter__()
    k.store(a[total, 0], 1.0)
    for block in reversed(blocks):
        block.__exit__(None, None, None)
    built = k.build(target="sm_90a", grid=1)
    with pytest.raises(tc.LayoutError, match=mentions(9)):
        built.check_bounds((1, 1, 1), {})
    built.check_bounds((1, 1, 1), {"n11": 10} | {f"n{at}": 100 for at in range(11)})


# ------------------------------------------------------------------------------------------- arithmetic and addresses


def test_possible_bits_keep_the_sign_of_a_difference() -> None:
    a, b = Symbol("a", 0, 7), Symbol("b", 0, 7)
    assert evaluate(((of_atom(a) ^ of_atom(b)) - 5) ^ 8, {a: 0, b: 0}) == -13


@pytest.mark.parametrize("by", [2**31, 2**32, 2**33, 3 * 2**30, 2**32 + 1])
def test_divisors_past_32_bits(by: int) -> None:
    k = tc.KernelBuilder("k", threads=32)
    n, out = k.scalar("n", lower=-5, upper=5), k.param("B", (2,), "int64")
    with k.if_(k.thread_id() == 0):
        k.store(out[0], k.cast(n % by, "int64"))
        k.store(out[1], k.cast(n // by, "int64"))
    built = k.build(target="sm_90a", grid=1)
    for number in (-5, -1, 0, 5):
        result = np.zeros(2, np.int64)
        built(number, result, executor="emulator")
        assert result.tolist() == [number % by, number // by]


def test_a_casts_integer_may_be_negative() -> None:
    k = tc.KernelBuilder("k", threads=32)
    out = k.param("B", (3,), "int64")
    bx = k.block_id()
    with k.if_(k.thread_id() == 0):
        k.store(out[bx], k.cast(0 - 3 * bx, "int64"))
    result = np.ones(3, np.int64)
    run(k, result, grid=3)
    assert result.tolist() == [0, -3, -6]


def test_global_addresses_with_a_factor_of_two_to_the_32_bytes() -> None:
    """Row ``128 * i`` of a (256, 2**23) float32: i times 2**32 bytes."""
    i = Symbol("i", 0, 1)
    a = tc.Buffer((256, 2**23), "float32", space="global", name="A")
    ptx = builder({i: "b32"})
    address = ptx.address(a, of_atom(i) * 128 * 2**23 + 5)
    for turn in (0, 1):
        registers = run_text(lines_of(ptx), parameters({i: "b32"}, {i: turn}) | {"param_A": BASE})
        assert registers[str(address.base)] + address.offset_bytes == BASE + turn * 2**32 + 20


@pytest.mark.parametrize(
    ("rows", "columns", "step", "first"), [(256, 2**23, 128, 0), (300, 2**22, 2, 250), (2**12, 2**20, 1024, 0)]
)
def test_rows_that_are_far_apart_in_a_sparse_file(
    rows: int, columns: int, step: int, first: int, tmp_path: Any
) -> None:
    """Rising and falling rows of arrays of 4 GB and more."""
    k = tc.KernelBuilder("k", threads=32)
    a, b = k.param("A", (rows, columns), "float32"), k.param("B", (4, 32), "float32")
    n = k.scalar("n", upper=rows - 1)
    s = k.shared((1, 32), "float32")
    turns = min(2, (rows - 1) // step + 1)
    for i in k.range(turns):
        for place, row in ((i, first + i * step), (i + 2, n - i * step)):
            with k.if_(n - i * step >= 0):
                k.warp.copy(s[:, :], a[row, columns - 32 : columns])
                k.warp_sync()
                k.warp.copy(b[place, :], s[:, :])
                k.warp_sync()
    far = np.memmap(tmp_path / "far", np.float32, "w+", shape=(rows, columns))
    for row in {first + i * step for i in range(turns)} | {rows - 1 - i * step for i in range(turns)}:
        far[row, -32:] = row
    result = np.zeros((4, 32), np.float32)
    run(k, far, result, rows - 1)
    for i in range(turns):
        assert (result[i] == first + i * step).all()
        assert (result[i + 2] == rows - 1 - i * step).all()


def test_a_falling_start_in_global_memory(tmp_path: Any) -> None:
    """``A[n - j]``: the part that does not depend on j passes 2**31 bytes, and so does what is taken off."""
    rows, columns = 2**20, 2**13
    k = tc.KernelBuilder("k", threads=32)
    a, b = k.param("A", (rows, columns), "uint8"), k.param("B", (2, 32), "uint8")
    n = k.scalar("n", upper=rows - 1)
    s = k.shared((1, 32), "uint8")
    for j in k.range(2):
        k.warp.copy(s[:, :], a[n - j * 1000, 0:32])
        k.warp_sync()
        k.warp.copy(b[j, :], s[:, :])
        k.warp_sync()
    far = np.memmap(tmp_path / "far", np.uint8, "w+", shape=(rows, columns))
    far[rows - 1, :32], far[rows - 1001, :32] = 1, 2
    result = np.zeros((2, 32), np.uint8)
    run(k, far, result, rows - 1)
    assert (result[0] == 1).all() and (result[1] == 2).all()


def test_a_dividend_that_falls_is_known_not_to_be_negative() -> None:
    """``s[32 - t]`` over iters ``S[(3, 11):(16, 1)]``."""
    k, a, b = kernel(32, A=(33,), B=(33,))
    s = k.shared((33,), "float32", layout=TileLayout(S[(3, 11) : (16, 1)]))
    with k.range(33) as t, k.if_(k.thread_id() == 0):
        k.store(s[32 - t], k.load(a[t]))
    k.cta_sync()
    with k.range(33) as t, k.if_(k.thread_id() == 0):
        k.store(b[t], k.load(s[t]))
    result = np.zeros(33, np.float32)
    run(k, ROWS.ravel()[:33].copy(), result)
    assert np.array_equal(result, ROWS.ravel()[32::-1])


def test_a_start_with_a_stronger_multiple_than_is_needed() -> None:
    layout = TileLayout(S[(4, 24, 8) : (400, 8, 1)])
    for step in (8, 16, 24, 48):
        n = tc.symbol("n", upper=96 // step - 1)
        found = layout.slice((96, 8), (slice(step * n, step * n + 8), slice(0, 8)))
        assert found is not None
        symbol = next(iter(n.symbols))
        for value in range(96 // step):
            place = evaluate(found.apply(0)["m"], {symbol: value})
            assert place == layout.apply(step * value, 0, shape=(96, 8))["m"]


def test_boxes_of_iters_that_straddle_dimensions() -> None:
    layout = TileLayout(S[(4, 9) : (16, 1)])
    whole = layout.slice((6, 6), (slice(0, 6), slice(0, 6)))
    one = layout.slice((6, 6), (slice(4, 5), slice(3, 4)))
    assert whole is not None and one is not None
    assert [whole.apply(i)["m"] for i in range(36)] == [layout.apply(i)["m"] for i in range(36)]
    assert one.apply(0) == layout.apply(27)


def test_boxes_that_straddle_an_inner_block_evenly() -> None:
    layout = TileLayout(S[(32, 4, 8) : (8, 256, 1)])
    found = layout.slice((32, 32), (slice(0, 32), slice(12, 20)))
    assert found == TileLayout(S[(32, 2, 4) : (8, 252, 1)] + 260)
    assert layout.slice((32, 32), (slice(0, 32), slice(11, 20))) is None


def test_an_uneven_box_of_a_large_layout_is_refused_at_once() -> None:
    layout = TileLayout(S[(4096, 4096) : (4104, 1)])
    assert layout.slice((2**24,), (slice(1, 2**23 + 2),)) is None


def test_loops_are_inside_a_guard_of_threads_and_blocks() -> None:
    """``if_((tid < T) & ~(bx == 99))`` is no reason to refuse a copy by one thread."""
    k, a, b = kernel(64, A=(4, 32), B=(4, 32))
    s = k.shared((32,), "float32")
    with k.if_((k.thread_id() < 32) & ~(k.block_id() == 99)):
        k.warp.copy(s[:], a[k.block_id(), :])
        k.warp_sync()
        k.warp.copy(b[k.block_id(), :], s[:])
    result = np.zeros((4, 32), np.float32)
    run(k, ROWS[:4].copy(), result, grid=4)
    assert np.array_equal(result, ROWS[:4])


@pytest.mark.parametrize(("strides", "places"), [((1, 1), 3), ((2, 1), 4), ((1, 0), None), ((3, 3), 3), ((1, 2), 4)])
def test_a_destination_that_puts_two_elements_in_one_place_is_refused(
    strides: tuple[int, int], places: int | None
) -> None:
    s = tc.Buffer((2, 2), "float32", space="shared", name="s", layout=TileLayout(S[(2, 2) : strides]))
    a = tc.Buffer((2, 2), "float32", space="global", name="A")
    if places == 4:
        assert tc.plan(s[:, :], a[:, :], scope=tc.thread(), target="sm_90a").partition.outer <= 4
    else:
        with pytest.raises(tc.LayoutError, match=mentions("s", *([] if places is None else [4, places]))):
            tc.plan(s[:, :], a[:, :], scope=tc.thread(), target="sm_90a")


@pytest.mark.parametrize(
    ("start", "own", "bits"), [(2, 2, 128), (2, 0, 64), (0, 2, 64), (1, 3, 128), (1, 1, 64), (3, 0, 32)]
)
def test_a_start_and_the_buffers_storage_offset_count_together(start: int, own: int, bits: int) -> None:
    a = tc.Buffer((32, 4), "float32", space="global", name="A")
    s = tc.Buffer((32 * 4 + 8,), "float32", space="shared", name="s", storage_offset=own)
    assert (
        tc.plan(
            s[start : start + 128],
            tc.Buffer(128, "float32", space="global", name="A")[:],
            scope=tc.warp(),
            target="sm_90a",
        ).partition.vec_bits
        == bits
    )
    assert a.span_elems == 128


def test_a_broadcast_source_is_last_in_the_order() -> None:
    """float32 ``S[(32, 32):(1, 0)]`` to row-major shared memory, one warp: no bank conflicts in the stores."""
    from tilecopy_emulator.executor import EmulatorExecutor

    k = tc.KernelBuilder("k", threads=32)
    a = k.param("A", (32, 32), "float32", strides=(1, 0))
    b = k.param("B", (32, 32), "float32")
    s = k.shared((32, 32), "float32")
    k.warp.copy(s[:, :], a[:, :])
    k.warp_sync()
    k.warp.copy(b[:, :], s[:, :])
    built = k.build(target="sm_90a", grid=1)
    column, result = np.arange(32, dtype=np.float32), np.zeros((32, 32), np.float32)
    report = EmulatorExecutor(profile=True).launch(
        built, (np.lib.stride_tricks.as_strided(column, (32, 32), (4, 0)), result)
    )
    assert np.array_equal(result, np.repeat(column[:, None], 32, 1))
    assert report.counters["shared_wavefronts"] <= 128, report.counters


# ------------------------------------------------------------------------------------------- headers and data


def test_an_unknown_opcode_keeps_the_requested_target() -> None:
    for text, wanted in (
        ("frobnicate.sync.b32 a, {0};", "sm_90a"),
        ("redux.sync.add.s32 a, {0}, 0xffffffff;", "sm_80"),
    ):
        k = tc.KernelBuilder("k", threads=32)
        k.inline_ptx(f"{{{{ .reg .b32 a; {text} }}}}", k.thread_id())
        assert f".target {wanted}\n" in k.build(target="sm_90a", grid=1).ptx


def test_a_cluster_rank_without_a_cluster_has_a_header_that_assembles() -> None:
    k = tc.KernelBuilder("k", threads=32)
    b = k.param("B", (16, 32), "int32")
    k.store(b[k.cluster_rank(), k.thread_id()], 1)
    built = k.build(target="sm_90a", grid=1)
    assert ".target sm_90\n" in built.ptx
    assemble(built.ptx, built.target, "ptxas")


def test_big_endian_and_masked_arrays_are_refused_with_what_to_do() -> None:
    k, a = kernel(32, A=(32,))
    k.store(a[k.thread_id()], k.load(a[k.thread_id()]) + 1.0)
    built = k.build(target="sm_90a", grid=1)
    with pytest.raises(tc.LaunchError, match=mentions("A", "f4")):
        built(np.zeros(32, ">f4"), executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("A")):
        built(np.ma.masked_array(np.zeros(32, np.float32), np.arange(32) % 2 == 0), executor="emulator")
    with pytest.raises(tc.RequestError, match=mentions(">f4")):
        k.param("C", (32,), np.dtype(">f4"))


@pytest.mark.parametrize(
    ("dtype", "number", "message"),
    [
        ("int32", 1.7, ("1.7", "int32")),
        ("int32", 2**40, (2147483648, 2147483647)),
        ("int8", 300, (128, 127)),
        ("uint8", -1, (255,)),
        ("float32", 1e300, ("1e+300",)),
        ("float16", 70000, (70000,)),
    ],
)
def test_numbers_that_do_not_fit_their_dtype_are_refused(
    dtype: str, number: float, message: tuple[object, ...]
) -> None:
    k = tc.KernelBuilder("k", threads=32)
    a = k.param("A", (32,), dtype, align_bytes=16)
    with pytest.raises(tc.RequestError, match=mentions(*message)):
        k.store(a[0], number)
    with pytest.raises(tc.RequestError, match=mentions(*message)):
        k.load(a[0]) + number


# ------------------------------------------------------------------------------------------- fragments and clusters


def test_a_replica_of_a_fragment_stores_once_and_loads_everywhere() -> None:
    k, a, b = kernel(32, A=(16, 4), B=(16, 4))
    kept = k.param("KEPT", (32, 4), "float32")
    fragment = k.local(
        (16, 4), "float32", layout=TileLayout(S[(16, 4) : (1 @ laneid, 1)] + R[2 : 16 @ laneid]), name="f"
    )
    k.warp.copy(fragment[:, :], a[:, :])
    for i in range(4):
        k.store(kept[k.lane_id(), i], k.load(k.registers(fragment)[i]))
        k.store(k.registers(fragment)[i], k.cast(k.lane_id(), "float32"))
    k.warp.copy(b[:, :], fragment[:, :])
    source, result, held = ROWS[:16, :4].copy(), np.zeros((16, 4), np.float32), np.zeros((32, 4), np.float32)
    run(k, source, result, held)
    assert np.array_equal(held, np.concatenate([source, source]))
    assert np.array_equal(result, np.repeat(np.arange(16, dtype=np.float32)[:, None], 4, 1))


def cluster_copy(
    layout: Any, remote: Any, own: Any, shape: tuple[int, int] = (8, 128), turns: int = 1
) -> tuple[Any, Any, tc.BuiltKernel]:
    """CTA 0 sends boxes of its tile to CTA 1, which shows all that it holds; what it shows, and what was sent."""
    k = tc.KernelBuilder("cluster", threads=32)
    b = k.param("B", shape, "float16")
    a = k.param("A", shape, "float16")
    source, target = (
        k.shared(shape, "float16", layout=layout, name="s"),
        k.shared(shape, "float16", layout=layout, name="d"),
    )
    mbar = k.mbarrier()
    for row in range(shape[0]):
        for column in range(0, shape[1], 32):
            k.store(source[row, column + k.thread_id()], k.load(a[row, column + k.thread_id()]))
            k.store(target[row, column + k.thread_id()], -1.0)
    with k.if_(k.thread_id() == 0):
        mbar.init(1)
        k.fence_mbarrier_init()
    k.fence_proxy_async()
    k.cluster_sync()
    size = source[own(0)].nbytes * turns
    with k.if_((k.thread_id() == 0) & (k.cluster_rank() == 1)):
        mbar.arrive_expect_tx(size)
    with k.if_((k.thread_id() == 0) & (k.cluster_rank() == 0)), k.range(turns) as i:
        k.thread.copy_async(target[remote(i)], source[own(i)], mbar=mbar[0], remote_cta_id=1)
    with k.if_(k.cluster_rank() == 1):
        mbar.wait(0)
        for row in range(shape[0]):
            for column in range(0, shape[1], 32):
                k.store(b[row, column + k.thread_id()], k.load(target[row, column + k.thread_id()]))
    k.cluster_sync()
    built = k.build(target="sm_90a", grid=2, cluster=2)
    sent = (np.arange(shape[0] * shape[1]).reshape(shape) % 2048).astype(np.float16)
    shown = np.zeros(shape, np.float16)
    built(shown, sent, executor="emulator")
    return shown, sent, built


def test_chunks_never_cross_a_swizzles_run() -> None:
    layout = tc.SwizzledLayout(tc.Swizzle(4, 2, 3), TileLayout(S[8, 128]))
    shown, sent, _ = cluster_copy(layout, lambda i: (slice(2, 3), slice(8, 40)), lambda i: (slice(0, 1), slice(0, 32)))
    expected = np.full_like(sent, -1)
    expected[2, 8:40] = sent[0, 0:32]
    assert np.array_equal(shown, expected)


@pytest.mark.parametrize(
    ("remote", "rows"),
    [
        (lambda i: 3 - i, [3, 2, 1]),
        (lambda i: i + 2, [2, 3, 4]),
        (lambda i: 5 - 2 * i, [5, 3, 1]),
        (lambda i: 2 * i + 3, [3, 5, 7]),
    ],
)
def test_addresses_given_to_mapa_are_inside_the_buffer(remote: Any, rows: list[int]) -> None:
    shown, sent, built = cluster_copy(
        TileLayout(S[8, 128]),
        lambda i: (slice(remote(i), remote(i) + 1), slice(0, 128)),
        lambda i: (slice(i, i + 1), slice(0, 128)),
        turns=3,
    )
    expected = np.full_like(sent, -1)
    for turn, row in enumerate(rows):
        expected[row] = sent[turn]
    assert np.array_equal(shown, expected)
    assert built.plans[0].variant == "dsmem"


def test_a_register_given_to_mapa_is_inside_the_buffer_when_the_start_is_shifted_down() -> None:
    """``d[i - 3]`` of a loop from 3: the register alone must not reach three rows past the buffer."""
    from tilecopy_core.plugin import PtxBuilder

    d = tc.Buffer((8, 128), "float16", space="shared", name="d")
    ptx = PtxBuilder(tc.target_of("sm_90a"), 32)
    i = Symbol("i", 3, 10)
    with ptx.loop(i, 8, 3):
        assert "+-" not in str(ptx.address(d, (of_atom(i) - 3) * 128, whole=True))
        assert str(ptx.address(d, (of_atom(i) - 3) * 128)).endswith("-768]")


def test_tensor_memorys_address_is_loaded_once_a_copy() -> None:
    from tilecopy_test_helpers import demos

    text = demos.tcgen05_cp().ptx
    copies = text.count("tcgen05.cp")
    assert copies >= 1
    assert text.count("ld.shared.b32") + text.count("ld.shared.u32") <= copies + 4


# ------------------------------------------------------------------------------------------- copies and pickles


def test_expressions_regions_plans_and_kernels_copy_and_pickle() -> None:
    from tilecopy_test_helpers import programs as kernels

    n = tc.symbol("n", upper=7)
    a = tc.Buffer((32, 32), "float32", space="global", name="A")
    s = tc.Buffer((8, 32), "float32", space="shared", name="s")
    region = a[n : n + 8, :]
    plan = tc.plan(s[:, :], region, scope=tc.warp(), target="sm_90a")
    built = kernels.round_trip((64, 64), (32, 64), "float32")
    for again in (copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))):
        made, number = again((n + 1, n))
        assert structural_equal(made, number + 1)
        assert bounds_of(again(region).starts[0]) == (0, 7)
        assert again(plan).explain() == plan.explain()
        other = again(built)
        source, result = byte_arrays.random_array((64, 64), "float32"), np.zeros((64, 64), np.float32)
        other(source, result, executor="emulator")
        assert byte_arrays.same_bytes(source, result)


def test_a_grid_that_the_emulator_cannot_hold_is_refused() -> None:
    k, a = kernel(32, A=(32,))
    k.store(a[k.thread_id()], 1.0)
    with pytest.raises(tc.LaunchError, match=mentions(2147483647)):
        run(k, np.zeros(32, np.float32), grid=2**31 - 1)


@pytest.mark.parametrize("text", ["mov.b32 {x}, 0;", "mov.b32 {5}, 0;", "{ .reg .b32 a; }", "mov.b32 {0!r}, 0", "{"])
def test_inline_ptx_with_unknown_fields_is_named(text: str) -> None:
    k = tc.KernelBuilder("k", threads=32)
    with pytest.raises(tc.RequestError, match=mentions("inline_ptx")):
        k.inline_ptx(text)


@pytest.mark.parametrize(
    "field", ["0:z", "0:>9", "0!r", "0!q", "0:{0}", "0.real", "0[1]", "", ":", "\u00b2", "1" * 5000, "-1", "00 ", "+0"]
)
def test_a_field_of_inline_ptx_is_a_number_and_no_more(field: str) -> None:
    k = tc.KernelBuilder("k", threads=32)
    with pytest.raises(tc.RequestError, match="inline_ptx"):
        k.inline_ptx("mov.b32 {" + field + "}, 0;", k.thread_id())


def test_a_uint32_scalar_passes_what_a_uint32_holds() -> None:
    k = tc.KernelBuilder("k", threads=32)
    n, out = k.scalar("n", "uint32", upper=2**32 - 1), k.param("B", (1,), "int64", align_bytes=8)
    with k.if_(k.thread_id() == 0):
        k.store(out[0], k.cast(n, "int64"))
    built = k.build(target="sm_90a", grid=1)
    result = np.zeros(1, np.int64)
    built(2**32 - 1, result, executor="emulator")
    assert result[0] == 2**32 - 1


def test_no_thread_is_not_all_threads() -> None:
    assert ActiveThreads(64, (False,) * 64).count() == 0
    tid, elect = tid_symbol(64), tc.KernelBuilder("k", threads=64).elect()
    assert inside_condition(ActiveThreads(64), elect).count() == 2
    assert inside_condition(inside_condition(ActiveThreads(64), tid >= 32), elect).count() == 1
    two = inside_condition(ActiveThreads(64), (tid == 5) | (tid == 40))
    assert inside_condition(two, elect).count() == 2
    assert inside_condition(ActiveThreads(64), elect & (tid // 32 == 1)).count() is not None


@pytest.mark.parametrize(
    "use",
    [
        lambda k, a, s, i: k.store(a[i, 0], 1.0),
        lambda k, a, s, i: k.store(a[0, 0], k.cast(i, "float32")) or k.store(a[0, 0], i),
        lambda k, a, s, i: k.cta.copy(s[0:1, :], a[i, :]),
        lambda k, a, s, i: k.cta.copy(s[0:1, :], a[i, :], outside="zero"),
        lambda k, a, s, i: k.if_(i < 2),
        lambda k, a, s, i: k.range(i),
        lambda k, a, s, i: k.inline_ptx("// {0}", i),
    ],
)
@pytest.mark.parametrize("closed", ["loop", "index", "another kernel's index"])
def test_an_integer_has_its_value_in_its_block_alone(use: Any, closed: str) -> None:
    """What is wrong is said where it is written, and no variant is blamed for it."""
    k, a = kernel(32, A=(8, 32))
    other, b = kernel(32, A=(8, 32))
    s = k.shared((8, 32), "float32")
    with k.range(3) as i:
        if closed == "index":
            i = k.index(k.load(a.view(dtype="int32")[0, 0]), upper=3)  # noqa: PLW2901 - the integer that is used
    if closed.startswith("another"):
        i = other.index(other.load(b.view(dtype="int32")[0, 0]), upper=3)
    with pytest.raises(tc.RequestError, match=mentions(str(i))):
        use(k, a, s, i)


@pytest.mark.parametrize("walk", [list, tuple, set, iter, lambda b: 3 in b])
def test_a_buffer_is_not_walked_over_without_an_end(walk: Any) -> None:
    _, a = kernel(32, A=(8, 32))
    with pytest.raises(tc.RequestError, match=mentions("A", "float32", 8, 32)):
        walk(a)
