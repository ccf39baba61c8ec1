"""Guards before bounds: what no thread comes to needs no room, and what one comes to is never outside."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions

ROWS = 4
"""Of a tile."""


def look_ahead(tiles: int, ahead: int, count: str = "known", target: str = "sm_80") -> tc.BuiltKernel:
    """Tiles from the one at ``ahead`` on, each copied by the turn that is so many before (or after) its own."""
    k = tc.KernelBuilder("ahead", threads=32)
    n: Any = tiles if count == "known" else k.size("n", upper=99) if count == "size" else k.scalar("n", upper=99)
    rows = n * ROWS if count == "size" else tiles * ROWS
    a, b = k.param("A", (rows, 8), "float32"), k.param("B", (rows, 8), "float32")
    s = k.shared((ROWS, 8), "float32")
    with k.range(n) as i:
        row = (i + ahead) * ROWS
        with k.if_(i + ahead < n), k.if_(i + ahead >= 0):
            k.cta.copy_async(s[:, :], a[row : row + ROWS, :])
            k.cp_async_commit()
            k.cp_async_wait(0)
            k.cta_sync()
            k.cta.copy(b[row : row + ROWS, :], s[:, :])
            k.cta_sync()
    return k.build(target=target, grid=1)


@pytest.mark.parametrize("count", ["known", "size", "scalar"])
@pytest.mark.parametrize("ahead", [2, -2])
def test_a_look_ahead_that_no_turn_reaches_is_taken(ahead: int, count: str, tmp_path: Path) -> None:
    for tiles in (1, 2, 3):
        kernel = look_ahead(tiles, ahead, count)
        array = np.arange(tiles * ROWS * 8, dtype=np.float32).reshape(-1, 8) + 1
        lowest, end = max(ahead, 0) * ROWS, max(tiles + min(ahead, 0), 0) * ROWS
        for each in (kernel, tc.load_kernel(kernel.save(tmp_path / f"{tiles}"))):
            found = np.zeros_like(array)
            each(*([tiles] if count == "scalar" else []), array, found, executor="emulator")
            assert (found[lowest:end] == array[lowest:end]).all()
            assert not found[:lowest].any() and not found[end:].any()
        assert len(kernel.explain().split("copy_async ")) == 1 + len(kernel.plans) // 2


def dead_blocks(k: tc.KernelBuilder, i: Any) -> dict[str, Callable[[], Any]]:
    tid = k.thread_id()
    return {
        "no turns": lambda: k.range(0),
        "fewer": lambda: k.range(i * 0 - 3),
        "thread": lambda: k.if_(tid >= 32),
        "threads": lambda: k.if_((tid % 4 == 1) & (tid % 2 == 0)),
        "elect": lambda: k.if_(k.elect() & (tid > 31)),
        "or": lambda: k.if_((i + 2 < 2) | (i < 0)),
        "not": lambda: k.if_(~(i + 2 >= 2)),
        "halves": lambda: k.if_(i * 2 == 1),
        "quotient": lambda: k.if_((i + 4) // 2 < 2),
    }


@pytest.mark.parametrize("name", dead_blocks(tc.KernelBuilder("k", threads=32), tc.symbol("i", upper=1)))
def test_what_stands_in_a_block_that_no_thread_enters_needs_no_room(name: str) -> None:
    k = tc.KernelBuilder("dead", threads=32)
    a, f, bars = k.param("A", (8,), "float32"), k.local(4, "float32"), k.mbarrier(count=2)
    with k.range(2) as i:
        with dead_blocks(k, i)[name]():
            value = k.load(a[i + 8])
            k.store(a[i * 8 + 9], value + 1)
            k.store(f[5], value)
            bars.arrive(index=i + 2)
            k.thread.copy(f[4:8], a[8:12])
            k.inline_ptx("prefetch.global.L2 {0};", a[40])
            with k.if_(k.thread_id() < 4):
                k.store(a[-1 - i], value)
        k.store(a[i], 1.0)
    kernel, found = k.build(target="sm_90", grid=1), np.zeros(8, np.float32)
    kernel(found, executor="emulator")
    assert found.tolist() == [1, 1, 0, 0, 0, 0, 0, 0] and not kernel.plans


def test_a_refusal_names_the_guards_that_were_weighed() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, n = k.param("A", (8,), "float32"), k.scalar("n", upper=9)
    with k.range(2) as i, k.if_(i + 2 < 4):
        with pytest.raises(tc.LayoutError, match=mentions(8, "if_", "loop0", 4)):
            k.store(a[i + 8], 0)
    with k.range(n) as i, k.if_(i + 8 < n):
        k.store(a[i + 8], 0)
    kernel = k.build(target="sm_80", grid=1)
    kernel(np.zeros(8, np.float32), 8, executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("n", "if_", "loop1", 8)):
        kernel(np.zeros(8, np.float32), 9, executor="emulator")


def test_a_block_stands_where_it_was_made() -> None:
    """What is known there is not known elsewhere: the store would need no room of a scalar past the array."""
    k = tc.KernelBuilder("k", threads=32)
    n = k.scalar("n", upper=99)
    with k.if_(n < 8):
        inner = k.if_(k.thread_id() == 0)
    outer = k.range(2)
    with pytest.raises(tc.RequestError, match=mentions(0)):
        inner.__enter__()
    with k.if_(n < 4), pytest.raises(tc.RequestError, match=mentions(0)):
        outer.__enter__()
    with outer:
        k.cta_sync()


GUARDS: dict[str, Callable[..., Any]] = {
    "i + d < n": lambda i, b, t, n, d: i + d < n,
    "i + d >= 0": lambda i, b, t, n, d: i + d >= 0,
    "i > 0": lambda i, b, t, n, d: i > 0,
    "i != 0": lambda i, b, t, n, d: i != 0,
    "t < 4": lambda i, b, t, n, d: t < 4,
    "t >= 32": lambda i, b, t, n, d: t >= 32,
    "b + 1 < n": lambda i, b, t, n, d: b + 1 < n,
    "b >= 2": lambda i, b, t, n, d: b >= 2,
    "i + b < n": lambda i, b, t, n, d: i + b < n,
    "n > 2": lambda i, b, t, n, d: n > 2,
    "(i + d) // 2 < 1": lambda i, b, t, n, d: (i + d) // 2 < 1,
}
STARTS: dict[str, Callable[..., Any]] = {
    "i + d": lambda i, b, t, n, d: (i + d) * ROWS,
    "i + d, t": lambda i, b, t, n, d: (i + d) * ROWS + t % ROWS,
    "b + i": lambda i, b, t, n, d: (b + i) * ROWS,
    "b + 1": lambda i, b, t, n, d: (b + 1) * ROWS,
    "2": lambda i, b, t, n, d: 2 * ROWS,
    "min(i + 1, n - 1)": lambda i, b, t, n, d: tc.minimum(i + 1, n - 1) * ROWS,
}


def test_drawn_guards_take_what_is_inside_in_every_turn_of_every_thread() -> None:
    """The oracle goes through all turns, blocks and threads; what it finds outside is refused, all else is taken."""
    drawn, seen = random.Random(12), {True: 0, False: 0}
    for _ in range(300):
        tiles, grid, threads, d = (drawn.choice(each) for each in ([0, 1, 2, 3, 5], [1, 3], [1, 32], range(-3, 4)))
        count = drawn.choice(["known", "size", "scalar"] if tiles else ["known", "scalar"])
        names, start = drawn.choices([*GUARDS], [6, 6, *[1] * 9], k=drawn.randint(0, 3)), drawn.choice([*STARTS])
        extent = 1 if start == "i + d, t" else drawn.choice([1, ROWS])
        rows, inside = max(tiles, 1) * ROWS, True
        for i, b, t in np.ndindex(tiles, grid, threads):
            place = int(STARTS[start](int(i), int(b), int(t), tiles, d))
            comes = all(GUARDS[name](i, b, t, tiles, d) for name in names)
            inside &= not comes or 0 <= place <= rows - extent
        asked = (tiles, count, grid, threads, d, names, start, extent)
        k = tc.KernelBuilder("k", threads=threads)
        n: Any = k.size("n", upper=99) if count == "size" else k.scalar("n", upper=9) if count == "scalar" else tiles
        a, f = k.param("A", (n * ROWS if count == "size" else rows,), "float32"), k.local(extent, "float32")
        try:
            with k.range(n) as i, ExitStack() as around:
                for name in names:
                    around.enter_context(k.if_(GUARDS[name](i, k.block_id(), k.thread_id(), n, d)))
                place = STARTS[start](i, k.block_id(), k.thread_id(), n, d)
                k.thread.copy(f[:], a[place : place + extent])
            array = np.zeros(rows, np.float32)
            kernel = k.build(target="sm_80", grid=drawn.choice([grid, None]))
            kernel(*([tiles] if count == "scalar" else []), array, grid=grid, executor="emulator")
        except (tc.LayoutError, tc.LaunchError) as error:
            assert not inside, (asked, error)
        else:
            assert inside, asked
        seen[inside] += 1
    assert min(seen.values()) > 60


def test_guards_on_remainders_prove_what_those_on_quotients_do() -> None:
    for guard in (lambda i: i % 4 == 0, lambda i: i // 4 * 4 == i):
        k = tc.KernelBuilder("k", threads=32)
        a, s = k.param("A", (8, 32), "float32"), k.shared((4, 32), "float32")
        with k.range(8) as i, k.if_(guard(i)):
            k.cta.copy(s[:, :], a[i : i + 4, :])
        assert k.build(target="sm_90", grid=1).plans


def test_a_guard_behind_many_alternatives_is_weighed() -> None:
    k = tc.KernelBuilder("k", threads=1)
    a = k.param("A", (8,), "float32")
    with k.range(9) as i, k.if_(i != 0), k.if_(i != 1), k.if_(i != 2), k.if_(i != 3), k.if_((i < 4) | (i == 5)):
        k.store(a[i], 1.0)
    found = np.zeros(8, np.float32)
    k.build(target="sm_90", grid=1)(found, executor="emulator")
    assert found.tolist() == [0, 0, 0, 0, 0, 1, 0, 0]


@pytest.mark.parametrize("inside_first", [True, False])
@pytest.mark.parametrize("rows", [16, 14])
def test_each_side_of_an_or_must_keep_a_copy_inside(inside_first: bool, rows: int) -> None:
    k = tc.KernelBuilder("sides", threads=32)
    a, s = k.param("A", (rows, 8), "float32"), k.shared((1, 8), "float32")
    with k.range(32) as i:
        sides = [i < 4, (i >= 12) & (i < 16)]
        first, second = sides if inside_first else reversed(sides)
        with k.if_(first | second):
            k.cta.copy(s[:, :], a[i : i + 1, :])
    if rows == 16:
        k.build(target="sm_80", grid=1)
    else:
        with pytest.raises(tc.LayoutError, match="14"):
            k.build(target="sm_80", grid=1)
