"""What the threads of a scope agree on: starts and guards of quotients and remainders of their indices."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy.kernel.active_threads import inside_condition

from tilecopy_core.description.scope import (
    ActiveThreads,
    cta,
    differs_within,
    is_thread_id,
    tid_symbol,
    warp,
    warpgroup,
)
from tilecopy_core.integers import Condition, Symbol, evaluate, of_atom, symbols_of

BLOCK, SIZE = tc.KernelBuilder("ids", threads=1).block_id(), of_atom(Symbol("n", 0, 512, 128))
FAMILY: dict[str, Callable[[Any], Any]] = {
    "warp_id // 2": lambda t: t // 32 // 2,
    "tid % 64 // 32": lambda t: t % 64 // 32,
    "min(warp_id // 2, 1)": lambda t: tc.minimum(t // 32 // 2, 1),
    "(tid + 32) // 64": lambda t: (t + 32) // 64,
    "tid - lane_id": lambda t: t - t % 32,
    "tid % 96 // 32": lambda t: t % 96 // 32,
    "(128 * block + tid) // 64": lambda t: (BLOCK * 128 + t) // 64,
    "(32 * block + tid) % 256 // 32 * 5": lambda t: (BLOCK * 32 + t) % 256 // 32 * 5,
    "min(tid + 128 * block, n) // 32": lambda t: tc.minimum(t + BLOCK * 128, SIZE) // 32,
    "tid // 16 // 2 + block % 3": lambda t: t // 16 // 2 + BLOCK % 3,
    "max(tid // 64, block)": lambda t: tc.maximum(t // 64, BLOCK),
}
GUARDS: dict[str, Callable[[Any], Any]] = {
    "warp_id // 2 == block": lambda t: t // 64 == BLOCK,
    "tid + 128 * block < n": lambda t: t + BLOCK * 128 < SIZE,
    "not (tid + 32 * block >= n)": lambda t: ~(t + BLOCK * 32 >= SIZE),
    "tid % 64 > 31": lambda t: t % 64 > 31,
    "min(tid, n) <= 31": lambda t: tc.minimum(t, SIZE) <= 31,
    "block == 0 or tid < 64": lambda t: (BLOCK == 0) | (t < 64),
}


@pytest.mark.parametrize("name", FAMILY)
def test_a_quotient_by_the_scopes_size_is_one_value_in_it(name: str) -> None:
    assert not differs_within(FAMILY[name](tid_symbol(256)), warp())
    assert not differs_within(FAMILY[name](tid_symbol(256) // 4 * 4), warp())
    assert not differs_within(FAMILY[name](tid_symbol(1024) // 4), warpgroup())
    assert differs_within(FAMILY[name](tid_symbol(256) * 3), warp())
    assert differs_within(FAMILY[name](tid_symbol(256)), cta(256))


@pytest.mark.parametrize("name", GUARDS)
def test_a_condition_on_one_value_leaves_whole_scopes(name: str) -> None:
    assert inside_condition(ActiveThreads(256), GUARDS[name](tid_symbol(256))).why_not_all(warp()) is None
    assert inside_condition(ActiveThreads(256), GUARDS[name](tid_symbol(256) * 3)).why_not_all(warp())


def test_what_is_taken_is_one_value_in_every_thread() -> None:
    """Drawn integers and conditions against their values in every thread, for many values of all else."""
    drawn, found, agreed = random.Random(11), {"integers": 0, "conditions": 0}, {"integers": 0, "conditions": 0}
    others = [*symbols_of(BLOCK), *symbols_of(SIZE)]

    def integer(depth: int, tid: Any) -> Any:
        if not depth:
            return drawn.choice([tid, tid, tid // 32, tid % 32, BLOCK, SIZE, drawn.choice([1, 32, 64])])
        left, number = integer(depth - 1, tid), drawn.choice([2, 16, 32, 48, 64, 128])
        right = integer(drawn.randrange(depth), tid)
        several = [left // number, left % number, left * 3, left + right, left - right]
        return drawn.choice([*several, *several[:2], tc.minimum(left, right), tc.maximum(left, right)])

    for turn in range(1200):
        threads, scope = drawn.choice([(64, warp()), (256, warp()), (256, warpgroup()), (64, cta(64))])
        tid, kind = tid_symbol(threads), ("integers", "conditions")[turn % 2]
        asked: Any = integer(drawn.randint(1, 3), tid)
        if kind == "conditions":
            compare = drawn.choice([operator.lt, operator.ge, operator.gt, operator.le, operator.eq, operator.ne])
            asked = compare(asked, integer(1, tid))
        if not isinstance(asked, (tc.Expr, Condition)):
            continue
        env = {each: np.array(drawn.choices(range(0, 385, each.multiple_of), k=300))[:, None] for each in others}

        def value(part: Any, threads: int = threads, env: dict[Symbol, Any] = env) -> Any:
            ids = {s: np.arange(threads) for s in symbols_of(part) if is_thread_id(s)}
            return np.broadcast_to(evaluate(part, env | ids), (300, threads))

        values = asked.evaluate(value) if isinstance(asked, Condition) else value(asked)
        scopes = values.reshape(300, -1, scope.threads)
        same = bool((scopes == scopes[..., :1]).all())
        if isinstance(asked, Condition):
            taken = inside_condition(ActiveThreads(threads), asked).why_not_all(scope) is None
        else:
            taken = not differs_within(asked, scope)
        assert same or not taken, f"{asked} differs within {scope} of {threads}"
        found[kind] += same
        agreed[kind] += taken
    assert found["integers"] >= agreed["integers"] > 0.95 * found["integers"] > 100
    assert agreed["conditions"] > 0.75 * found["conditions"] > 100, "the rest are the same for what else was drawn only"


@pytest.mark.parametrize("op", ["copy", "copy_async"])
def test_each_pair_of_warps_copies_its_own_rows(op: str) -> None:
    k = tc.KernelBuilder("pairs", threads=256)
    a, b = k.param("A", (8, 64), "float32"), k.param("B", (8, 64), "float32")
    s, warp_id = k.shared((8, 64), "float32"), k.warp_id()
    half = k.thread_id() % 64 // 32
    row = tc.minimum(warp_id // 2, 3) * 2 + half
    with k.if_((warp_id // 2 != 3) & (tc.minimum(warp_id // 2, 1) + BLOCK < 2)):
        getattr(k.warp, op)(s[row, :], a[row, :])
        if op == "copy_async":
            k.cp_async_commit()
            k.cp_async_wait(0)
        k.warp.copy(b[row, :], s[row, :])
    array, found = np.arange(512, dtype=np.float32).reshape(8, 64), np.zeros((8, 64), np.float32)
    k.build(target="sm_80", grid=1)(array, found, executor="emulator")
    assert (found[:6] == array[:6]).all() and not found[6:].any()
