"""The order of costs, held against measured times: the benchmark bench_cost and what an H200 took for its copies."""

from __future__ import annotations

import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_test_helpers.costed_kernels import KERNELS, engines

sys.path.append(str(Path(__file__).parents[2] / "tests" / "benchmarks"))
import bench_cost


@pytest.mark.parametrize("number", [3, 35, 45, 60, 80])
def test_the_benchmark_copies_every_tile(number: int) -> None:
    """Small, on the emulator: what a load brings is stored, so that it can be compared."""
    case = bench_cost.drawn()[number]
    found = bench_cost.ways(case, 1, whole=True)
    assert len({tiling for tiling, *_ in found}) == bench_cost.TILINGS
    rng = np.random.default_rng(number)
    for tiling, variant, kernel, costs in found:
        a, b = (np.zeros(prod(p.shape[:1]) * p.strides[0], p.dtype.numpy()) for p in kernel.arrays)
        a[:] = rng.integers(1, 100, a.shape)
        source, target = (
            np.lib.stride_tricks.as_strided(x, p.shape, [s * x.itemsize for s in p.strides])
            for x, p in zip((a, b), kernel.arrays)
        )
        kernel(source, target, executor="emulator")
        covered = target[target != 0]
        assert covered.nbytes == bench_cost.moved_bytes(case, tiling, kernel), (case.name, variant, tiling)
        if case.direction == "store":
            warps = source.shape[0] // tiling.rows
            assert (
                np.array_equal(np.sort(covered), np.sort(np.tile(source.reshape(-1), covered.size // source.size)))
                and warps
            )
        else:
            assert np.array_equal(covered, source[target != 0])
        assert bench_cost.cycles_a_byte(costs) > 0


def test_the_order_of_costs_is_held_against_times() -> None:
    """Ranks of the benchmark: a model that is right has 1, one that is wrong way round -1."""
    cost = tc.cost(KERNELS["gmem_smem"]().plans[0])
    rows = [
        {
            "seed": 0,
            "copy": n,
            "seconds": scale * cost.cycles * (1 + t),
            "bytes": cost.nbytes,
            "costs": [bench_cost.attrs.asdict(cost) | {"merged_wavefronts": int(100 * cost.cycles * (1 + t))}],
        }
        for n, scale in enumerate((1.0, 2.0))
        for t in (0.0, 1.0, 2.0, 4.0)
    ]
    found = bench_cost.summary(rows)
    assert found["cheapest_within_3_percent"] == 1 and found["spearman_of_pairs"] > 0.99
    for row in rows:
        row["seconds"] = 1 / row["seconds"]
    assert bench_cost.summary(rows)["spearman_of_pairs"] < -0.99


def test_weights_can_be_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that was made with dearer pieces of bulk copies leads to dearer ones."""
    monkeypatch.setattr(bench_cost.gpu, "MODEL", bench_cost.gpu.MODEL)
    costs = [tc.cost(engines("bulk", "bulk_store", None).plans[0]), tc.cost(KERNELS["gmem_smem"]().plans[0])]
    costs += [tc.cost(KERNELS["columns"]().plans[0])]
    times = [100 * costs[0].cycles, costs[1].cycles, costs[2].cycles]
    rows = [
        {
            "seed": 0,
            "copy": 0,
            "name": "",
            "variant": cost.variant,
            "tiling": [],
            "seconds": time,
            "bytes": cost.nbytes,
            "costs": [bench_cost.attrs.asdict(cost)],
        }
        for cost, time in zip(costs, times, strict=True)
    ]
    before = bench_cost.summary(rows)
    weights = bench_cost.fitted(rows)
    after = bench_cost.summary(rows)
    assert weights["bulk load.piece"] > 5 or before["spearman_of_pairs"] == 1
    assert after["spearman_of_pairs"] >= before["spearman_of_pairs"] and after["cheapest_within_3_percent"] == 1
    assert len(bench_cost.worst(rows)) == 1


TABLE = Path(__file__).parents[2] / "tests" / "data" / "costs_h200.json.gz"
"""200 drawn copies of each of three seeds by all their ways, as an H200 took them."""


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    return bench_cost.read(TABLE)


@pytest.mark.parametrize(
    ("seed", "odd", "near", "spearman"),
    [
        (2026, 0, 0.945, 0.955),
        (2026, 1, 0.945, 0.940),
        (7, 0, 0.935, 0.960),
        (7, 1, 0.955, 0.948),
        (11, 0, 0.935, 0.945),
        (11, 1, 0.925, 0.955),
    ],
)
def test_the_order_of_costs_is_that_of_an_h200(
    measured: list[dict[str, Any]], seed: int, odd: int, near: float, spearman: float
) -> None:
    """What the weights reach today, which are fitted to the even copies of seeds 2026 and 7; some that rank worse fail."""
    found = bench_cost.summary([row for row in measured if row["seed"] == seed and row["copy"] % 2 == odd])
    assert found["copies"] == 100
    assert found["cheapest_within_3_percent"] >= near and found["spearman_of_pairs"] >= spearman


def test_the_table_has_the_counts_of_today(measured: list[dict[str, Any]], tmp_path: Path) -> None:
    """Where texts or counts change, `bench_cost.py --summary TABLE --recount --table TABLE` brings it up to date."""
    some = [(2026, 0), (2026, 31), (2026, 42), (2026, 84), (2026, 93), (2026, 180), (7, 38), (7, 115), (7, 162)]
    rows = [row for row in measured if (row["seed"], row["copy"]) in some]
    for row, again in zip(rows, bench_cost.recounted(rows), strict=True):
        for cost, new in zip(row["costs"], again["costs"], strict=True):
            assert cost == new | {name: list(new[name]) for name in ("access_bytes", "not_counted")}, (row["name"], row)
    numbers = {copy: sum(copy[0] == other[0] for other in some[:at]) for at, copy in enumerate(some)}
    renumbered = [row | {"copy": numbers[row["seed"], row["copy"]]} for row in rows]
    bench_cost.write(tmp_path / "some.json.gz", renumbered, "an H200")
    assert bench_cost.read(tmp_path / "some.json.gz") == renumbered
