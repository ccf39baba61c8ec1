"""The planner: what it chooses, held against measurements, and what its kernels do on the emulator."""

from __future__ import annotations

import copy
import json
import pickle
import random
from math import prod
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilecopy import RequestError
from tilecopy.costs import distinct_sectors, distinct_wavefronts
from tilecopy_emulator import EmulatorExecutor
from tilecopy_relayout import plan_relayout, relayout
from tilecopy_relayout.planner import cost as model
from tilecopy_relayout.planner import tilings
from tilecopy_relayout.planner.candidates import candidates, orders
from tilecopy_relayout.planner.cost import _conflicts, _sectors, cost_of
from tilecopy_relayout.planner.kernels import build
from tilecopy_relayout.planner.plan import choose
from tilecopy_relayout.planner.problem import Problem, RelayoutSpec, problem_of
from tilecopy_relayout.planner.tilings import Tiling
from tilecopy_test_helpers.mentions import mentions

SWEEP = json.loads((Path(__file__).parent / "sweep.json").read_text())
NARROW = json.loads((Path(__file__).parent / "sweep_narrow.json").read_text())
NUMPY = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
REDZONE = 0xAB


def row_major(shape: Any) -> tuple[int, ...]:
    return tuple(prod(shape[n + 1 :]) for n in range(len(shape)))


def problem(shape: Any, axes: Any, elem_bytes: int) -> Problem:
    out = row_major([shape[a] for a in axes])
    by_source = dict(zip(axes, out, strict=True))
    return problem_of(
        RelayoutSpec(tuple(shape), row_major(shape), tuple(by_source[n] for n in range(len(shape))), elem_bytes)
    )[0]


# ------------------------------------------------------------------------------------------------------ the choice


def chosen(case: dict[str, Any]) -> tuple[float, float, float]:
    """TB/s of the tiling that is chosen for a case, and of the best that was measured; the share of a plain copy that is expected."""
    tiling, cost = choose(problem(case["shape"], case["axes"], case["elem_bytes"]))
    measured = {
        (kind, tuple(tile), threads, tuple(order)): rate for rate, kind, tile, threads, order in case["measured"]
    }
    return (
        measured[tiling.kind, tiling.tile, tiling.threads, tiling.order],
        max(measured.values()),
        model.BEST_SHARE / cost.total,
    )


@pytest.mark.parametrize("case", SWEEP["cases"], ids=lambda case: str(case["name"]))
def test_the_choice_is_within_3_percent_of_the_best_that_was_measured(case: dict[str, Any]) -> None:
    rate, best, share = chosen(case)
    assert rate >= 0.97 * best
    assert rate / SWEEP["copy_"] == pytest.approx(share, rel=0.12)


@pytest.mark.parametrize("case", NARROW["cases"], ids=lambda case: str(case["name"]))
def test_the_choice_for_elements_at_odd_places_is_within_13_percent(case: dict[str, Any]) -> None:
    rate, best, share = chosen(case)
    assert rate >= 0.87 * best
    assert rate / NARROW["copy_"] == pytest.approx(share, rel=0.3)


TERMS: dict[str, Any] = {
    "TOO_FEW": 0.0,
    "IDLE": 0.0,
    "MOST_ACTIVE": 1.0,
    "NARROW_CTA": 0.0,
    "NARROW_BOX": 0.0,
    "EXTRA": 0.0,
    "EDGE": 0.0,
    "SPILLED": 1.0,
    "FULL_CTA": 1 << 20,
    "LEFT_PARTIAL": 1.5,
    "LATENCY_CYCLES": 0.0,
    "L2_SECTORS_PER_DRAM_SECTOR": 1e9,
    "DRAM_BYTES_PER_CYCLE": 1e-9,
    "DOUBLED": dict.fromkeys(model.DOUBLED, 0.0),
    "LEADING_RUN_PENALTY": dict.fromkeys(model.LEADING_RUN_PENALTY, 0.0),
    "OTHER_RUN_PENALTY": dict.fromkeys(model.OTHER_RUN_PENALTY, 0.0),
    "PARTIAL": dict.fromkeys(model.PARTIAL, 0.0),
}
"""Each weight of the model, and a value with which its term is not there."""
OTHERS = [
    ((1023, 257, 64), (1, 2, 0), 4),
    ((128, 33, 33), (2, 1, 0), 8),
    ((100, 64, 1000), (0, 2, 1), 1),
    ((5, 1000, 96), (2, 0, 1), 2),
    ((5, 2048, 1000), (2, 1, 0), 4),
    ((512, 33, 1023), (0, 2, 1), 8),
]
"""Relayouts that were not measured: odd extents, and some that a few CTAs move."""


@pytest.mark.parametrize("term", TERMS)
def test_every_term_changes_a_choice(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A term that changes none would be cut."""
    cases = [(case["shape"], case["axes"], case["elem_bytes"]) for case in NARROW["cases"] + SWEEP["cases"]]
    asked = [problem(*case) for case in OTHERS + cases]
    before = [choose(each)[0] for each in asked]
    monkeypatch.setattr(model, term, TERMS[term])
    model._box.cache_clear()
    try:
        assert any(choose(each)[0] != tiling for each, tiling in zip(asked, before, strict=True))
    finally:
        model._box.cache_clear()


def test_choosing_looks_at_every_candidate_that_could_be_the_best() -> None:
    for shape, axes, elem in [((4096, 4096), (1, 0), 2), ((64, 96, 33, 5), (3, 1, 0, 2), 4), ((1023, 2047), (1, 0), 1)]:
        asked = problem(shape, axes, elem)
        found = candidates(asked)
        assert choose(asked)[1].total == min(cost_of(asked, tiling).total for tiling in found)


@pytest.mark.parametrize("elem_bytes", [1, 2, 4])
@pytest.mark.parametrize(
    ("shape", "axes"), [((256, 128), (1, 0)), ((128, 6, 64), (2, 1, 0)), ((100, 128), (1, 0)), ((3, 64, 64), (0, 2, 1))]
)
def test_boxes_that_are_moved_in_twos(shape: Any, axes: Any, elem_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tilings, "ALONE_BYTES", 1024)
    monkeypatch.setattr(tilings, "ALONE_CTAS", 2)
    asked = problem(shape, axes, elem_bytes)
    paired = 0
    for order in orders(asked):
        tile = tuple(
            min(32, extent) if n in (asked.innermost, len(asked.extents) - 1) else 1
            for n, extent in enumerate(asked.extents)
        )
        tiling = Tiling("scatter", tile, 64, order)
        paired += tiling.tiles_per_cta(asked) == 2
        moved(asked, tiling, 1)
    assert paired


def test_what_stays_together_is_one_dimension() -> None:
    assert problem((8, 4, 6, 10), (2, 3, 0, 1), 2).extents == (60, 32)
    direct = problem((4, 5, 6, 64), (1, 0, 2, 3), 2)
    assert direct.elem_bytes == 16
    assert direct.extents == (5, 4, 48)
    single = problem((1, 1), (1, 0), 4)
    assert (single.extents, single.src, single.dst) == ((1,), (1,), (1,))


# ------------------------------------------------------------------------------------------------- right, every kind


def moved(asked: Problem, tiling: Tiling, seed: int) -> Any:
    """Run a tiling on the emulator between redzones and compare; what the emulator reports."""
    dtype = np.dtype(NUMPY[asked.elem_bytes])
    spans = [
        sum((e - 1) * s for e, s in zip(asked.extents, steps, strict=True)) + 1 for steps in (asked.src, asked.dst)
    ]
    rng = np.random.default_rng(seed)
    memory = [
        rng.integers(0, 256, spans[0] * dtype.itemsize, np.uint8),
        np.full(spans[1] * dtype.itemsize, REDZONE, np.uint8),
    ]
    shape = asked.extents
    views = [
        np.lib.stride_tricks.as_strided(
            flat.view(dtype), shape, [step * dtype.itemsize for step in getattr(asked, side)]
        )
        for flat, side in zip(memory, ("src", "dst"), strict=True)
    ]
    wanted = memory[1].copy()
    into = np.lib.stride_tricks.as_strided(wanted.view(dtype), shape, views[1].strides)
    into[...] = views[0][
        tuple(slice(None, None, -1) if n in asked.reversed else slice(None) for n in range(len(shape)))
    ]
    report = EmulatorExecutor(profile=True).launch(build(asked, tiling, "sm_90a"), views)
    assert memory[1].tobytes() == wanted.tobytes(), (asked, tiling)
    return report


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Relayouts of up to 5 dimensions: odd and even extents, padded, broadcast and reversed sources, padded results."""
    extents = draw(
        st.lists(
            st.sampled_from([1, 2, 3, 4, 5, 8, 16, 17, 31, 32, 48, 64, 77, 100, 128, 130, 256]), min_size=1, max_size=5
        )
    )
    while prod(extents) > 8_000:
        extents[extents.index(max(extents))] //= 3
    rank = len(extents)
    pads = st.sampled_from([0, 0, 0, 1, 4, 8])

    def steps(order: Any) -> list[int]:
        found, step = [0] * rank, draw(st.sampled_from([1, 1, 1, 2]))
        for n in reversed(order):
            found[n] = step
            step *= extents[n]
            step += draw(pads)
        return found

    src, dst = steps(range(rank)), steps(draw(st.permutations(range(rank))))
    for n in range(rank):
        what = draw(st.sampled_from(["as it is"] * 8 + ["reversed", "broadcast"]))
        src[n] *= {"as it is": 1, "reversed": -1, "broadcast": 0}[what]
    return problem_of(RelayoutSpec(tuple(extents), tuple(src), tuple(dst), draw(st.sampled_from([1, 2, 4, 8, 16]))))[0]


@pytest.mark.parametrize("share", range(4))
@settings(max_examples=100)
@given(data=st.data())
def test_every_relayout_equals_numpy_and_touches_nothing_else(share: int, data: st.DataObject) -> None:
    asked = data.draw(problems())
    found = candidates(asked)
    tiling = data.draw(st.sampled_from([choose(asked)[0], *found]))
    moved(asked, tiling, share)


@pytest.mark.parametrize("elem_bytes", [1, 2, 4])
@pytest.mark.parametrize("shape", [(301, 259), (3, 290, 517)])
def test_rows_from_sector_boundaries(shape: tuple[int, ...], elem_bytes: int) -> None:
    axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    asked = problem(shape, axes, elem_bytes)
    tile = (1,) * (len(shape) - 2) + (64, 128)
    moved(asked, Tiling("shifted", tile, 256, tuple(range(len(shape)))), 1)


@pytest.mark.parametrize("case", SWEEP["cases"], ids=lambda case: str(case["name"]))
def test_chosen_kernels_have_whole_sectors_and_no_bank_conflicts(case: dict[str, Any]) -> None:
    """The choice for the large array, on a corner of it with the same steps."""
    large = problem(case["shape"], case["axes"], case["elem_bytes"])
    tiling, _ = choose(large)
    counts = tiling.counts(large)
    report = profile_of_corner(large, tiling)
    boxes = prod(min(2, count) for count in counts)
    nbytes = boxes * tiling.nbytes(large)
    if tiling.kind == "shifted":
        return  # rows begin anywhere: sectors are what test_the_choice measures
    assert report["global_sectors"] == 2 * nbytes // 32
    if tiling.kind != "direct":
        ideal = 2 * nbytes // 128
        assert ideal <= report["shared_wavefronts"] <= 1.1 * ideal


def profile_of_corner(large: Problem, tiling: Tiling) -> dict[str, int]:
    """Sectors of global memory and wavefronts of shared memory, of up to two boxes along each dimension."""
    extents = tuple(min(e, 2 * step) for e, step in zip(large.extents, tiling.steps(large), strict=True))
    corner = attrs.evolve(large, extents=extents, **packed_steps(large, extents))
    counters: dict[str, int] = moved(corner, tiling, 0).counters
    return counters


def packed_steps(large: Problem, extents: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The steps of both sides, as small as a corner with these extents allows, and as aligned."""
    packed = {}
    for side in ("src", "dst"):
        steps, step = [0] * len(extents), 1
        for n in sorted(range(len(extents)), key=lambda n: getattr(large, side)[n]):
            steps[n] = step
            step *= extents[n]
        packed[side] = tuple(steps)
    return packed


# ------------------------------------------------------------------------------------------------------ what is said


def test_a_plan_says_what_it_does() -> None:
    plan = plan_relayout((64, 256, 56, 56), "float16", (0, 2, 3, 1), target="sm_90a")
    said = plan.explain()
    assert "relayout of 51380224 elements of 2 bytes by scatter" in said
    assert "expected: " in said
    assert "regperm" in said
    assert 0.5 < plan.expected_efficiency <= 1


def test_a_plan_takes_patterns() -> None:
    by_name = plan_relayout((6, 35, 64), "float16", "b (h p) w -> p b w h", p=5, target="sm_90a")
    split = plan_relayout((6, 7, 5, 64), "float16", (2, 0, 3, 1), target="sm_90a")
    assert (by_name.problem, by_name.tiling) == (split.problem, split.tiling)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (((4, 5), "float32", (0, 0)), ("axes",)),
        (((4, 0), "float32", (1, 0)), ("shape", 4)),
        (((4, -6), "float32", (1, 0)), ("shape", 4, -6)),
        (((0, -6), "float32", (1, 0)), ("shape", 0, -6)),
        (((4, 8), "int4", (1, 0)), (4,)),
        (((4, "a"), "float32", (1, 0)), ("a",)),
        (((4, 2**70), "float32", (1, 0)), ()),
    ],
)
def test_what_cannot_be_planned_is_said(asked: Any, message: tuple[object, ...]) -> None:
    with pytest.raises(RequestError, match=mentions(*message)):
        plan_relayout(*asked, target="sm_90a")
    with pytest.raises(RequestError, match=mentions("strides")):
        plan_relayout((4, 5), "float32", (1, 0), strides=(1,), target="sm_90a")
    with pytest.raises(RequestError, match=mentions("out_strides")):
        plan_relayout((4, 5), "float32", (1, 0), out_strides=(0, 1), target="sm_90a")
    with pytest.raises(RequestError, match=mentions("out_strides", 4)):
        plan_relayout((4, 5), "float32", (1, 0), out_strides=(4, 4), target="sm_90a")
    with pytest.raises(RequestError, match=mentions("shape")):
        plan_relayout(bytearray(b"ab"), "float32", (1, 0), target="sm_90a")
    with pytest.raises(RequestError, match=mentions("align_bytes", 4)):
        plan_relayout((4, 5), "float32", (1, 0), align_bytes=2, target="sm_90a")
    with pytest.raises(RequestError, match=mentions("out_align_bytes", 32, 4, 8, 16)):
        plan_relayout((4, 5), "float32", (1, 0), out_align_bytes=32, target="sm_90a")


@pytest.mark.parametrize("seed", range(12))
def test_every_shape_has_a_plan(seed: int) -> None:
    drawn = random.Random(seed)
    for _ in range(25):
        shape: list[int] = []
        for _ in range(drawn.randint(1, 6)):
            left = max(1, (1 << drawn.choice((12, 20))) // prod(shape))
            shape.append(drawn.randint(1, min(left, drawn.choice((3, 17, 300, 2000)))))
        axes = drawn.sample(range(len(shape)), len(shape))
        padded = [extent + drawn.choice((0, 0, 0, 5)) for extent in shape]
        dtype = drawn.choice(("uint8", "float16", "float32", "float64", "complex128"))
        plan = plan_relayout(shape, dtype, axes, strides=row_major(padded), target="sm_90a")
        assert prod(plan.kernel.grid or ()) > 0, (shape, padded, axes, dtype)


@pytest.mark.parametrize(
    ("extent", "dtype"), [(67, "f8"), (739, "u1"), (1741, "u1"), (241, "f4"), (1022, "u1"), (467, "f2")]
)
def test_extents_without_divisors_are_moved(extent: int, dtype: str) -> None:
    x = np.frombuffer(np.random.default_rng(extent).bytes(extent * np.dtype(dtype).itemsize), dtype)
    assert relayout(x, (0,), executor="emulator").tobytes() == x.tobytes()
    pair = np.stack([x, x[::-1]])
    assert relayout(pair, (1, 0), executor="emulator").tobytes() == pair.T.tobytes()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan))])
def test_a_copied_plan_moves_the_same(again: Any) -> None:
    plan = plan_relayout((4, 8), "float32", (1, 0), target="sm_90")
    copied = again(plan)
    assert copied.explain() == plan.explain() and copied.kernel.ptx == plan.kernel.ptx
    source, result = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((8, 4), np.float32)
    copied.bind("emulator")(source, result, None)
    assert np.array_equal(result, source.T)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_counts_of_one_warp_are_those_of_the_cost_model(size: int) -> None:
    """Its planner has counts of its own, for a single warp and in less time."""
    rng = np.random.default_rng(size)
    for spread in (64, 512, 1 << 14):
        lanes = [int(each) * size for each in rng.integers(0, spread, 32)]
        assert _sectors(lanes, size) == distinct_sectors(0, lanes, size)
        assert _conflicts(lanes, size) == distinct_wavefronts(np.zeros(32), np.arange(32), lanes, size)
