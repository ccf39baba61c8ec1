"""Dask arrays: lazy, the blocks' places traded, on a cluster with Zarr on both ends."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tilecopy_test_helpers.mentions import mentions

da = pytest.importorskip("dask.array")

from tilecopy import RequestError
from tilecopy_relayout import relayout
from tilecopy_relayout.planner import plan as planner

X = np.arange(6 * 8 * 10, dtype=np.int16).reshape(6, 8, 10)


def test_a_permutation_trades_the_blocks_places() -> None:
    x = da.from_array(X, chunks=((4, 2), (3, 5), (10,)))
    y = relayout(x, (2, 0, 1), executor="emulator")
    assert y.chunks == ((10,), (4, 2), (3, 5)) and y.dtype == X.dtype and y.shape == (10, 6, 8)
    assert (y.compute(scheduler="synchronous") == X.transpose(2, 0, 1)).all()


def test_nothing_is_computed_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    x = da.from_array(X, chunks=4).map_blocks(fail, meta=np.empty((0, 0, 0), X.dtype))
    y = relayout(x, (2, 1, 0), executor="emulator")
    with pytest.raises(AssertionError, match="computed"):
        y.compute(scheduler="synchronous")


@pytest.mark.parametrize("chunks", [(2, 3, 4), (6, 8, 10), (1, 8, 3)])
def test_splits_and_merges(chunks: tuple[int, ...]) -> None:
    y = relayout(da.from_array(X, chunks=chunks), "a (b c) d -> (d a) c b", b=2, executor="emulator")
    expected = X.reshape(6, 2, 4, 10).transpose(3, 0, 2, 1).reshape(60, 4, 2)
    assert (y.compute(scheduler="synchronous") == expected).all()


def test_any_chunks_and_extents_against_numpy() -> None:
    """Extents 0 and 1, chunks that hold nothing, splits and merges of them."""
    rng = random.Random(13)
    for _ in range(60):
        groups = [
            [rng.choice((0, 1, 1, 2, 3)) for _ in range(rng.choice((0, 1, 1, 2)))] for _ in range(rng.randint(0, 4))
        ]
        names = [[f"d{dim}_{part}" for part in range(len(group))] for dim, group in enumerate(groups)]
        sizes = {name: extent for row, group in zip(names, groups) for name, extent in zip(row, group)}
        order = rng.sample(list(sizes), len(sizes))
        cut = sorted(rng.randint(0, len(order)) for _ in range(rng.randint(0, 3)))
        right = [order[start:end] for start, end in zip([0, *cut], [*cut, len(order)])]
        pattern = " -> ".join(" ".join(f"({' '.join(group)})" for group in side) for side in (names, right))
        x = np.arange(math.prod(sizes.values()), dtype=np.int16).reshape([math.prod(group) for group in groups])
        chunks = [
            sorted([0, *(rng.randint(0, extent) for _ in range(rng.randint(0, 2))), extent]) for extent in x.shape
        ]
        lazy = da.from_array(x, chunks=tuple(tuple(b - a for a, b in itertools.pairwise(ends)) for ends in chunks))
        split = x.reshape(list(sizes.values())).transpose([list(sizes).index(name) for name in order])
        expected = split.reshape([math.prod(sizes[name] for name in group) for group in right])
        y = relayout(lazy, pattern, executor="emulator", **sizes)
        found = y.compute(scheduler="synchronous")
        assert y.shape == found.shape == expected.shape and found.dtype == x.dtype, (pattern, chunks)
        assert (found == expected).all(), (pattern, chunks)


def test_what_is_refused() -> None:
    x = da.from_array(X, chunks=4)
    with pytest.raises(RequestError, match=mentions("array")):
        relayout(x, (2, 1, 0), out=np.empty((10, 8, 6), X.dtype))
    with pytest.raises(RequestError, match=mentions("stream", "array")):
        relayout(x, (2, 1, 0), stream=0)
    with pytest.raises(RequestError, match="compute_chunk_sizes"):
        relayout(x[x[:, 0, 0] > 3], (2, 1, 0))
    with pytest.raises(RequestError, match=mentions("array", 3)):
        relayout(x, (2, 1))


@pytest.mark.filterwarnings("ignore")  # what a cluster leaves open is not ours
def test_a_cluster_with_zarr_on_both_ends(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(store=str(tmp_path / "in.zarr"), shape=X.shape, chunks=(2, 4, 5), dtype=X.dtype)
    stored[:] = X
    processes = not hasattr(planner, "asked")  # a process of its own has no stand-in
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": processes, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        y = relayout(da.from_zarr(str(tmp_path / "in.zarr")), (2, 1, 0), executor="emulator")
        assert y.chunks[0] == (5, 5) and y.chunks[2] == (2, 2, 2)
        y.to_zarr(str(tmp_path / "out.zarr"))
    found = zarr.open_array(str(tmp_path / "out.zarr"), mode="r")
    assert found.chunks == (5, 4, 2) and (found[:] == X.transpose(2, 1, 0)).all()


def test_arrays_of_no_dimensions() -> None:
    """Dask #2932: a reduction leaves NumPy scalars as blocks."""
    x = da.ones((4, 4), chunks=2)
    for scalar, value in (
        (x.sum(), 16),
        (x[0, 0], 1),
        (x.mean(), 1),
        (da.asarray(3.0) + 1, 4),
        (x.max().astype("i2"), 1),
    ):
        y = relayout(scalar, " -> 1", executor="emulator")
        assert y.shape == (1,) and y.dtype == scalar.dtype and y.compute(scheduler="synchronous").tolist() == [value]
        assert relayout(scalar, (), executor="emulator").compute(scheduler="synchronous") == value


@pytest.mark.parametrize(
    ("array", "arguments", "word"),
    [
        (lambda x: x, {"executor": "gpu"}, "gpu"),
        (lambda x: x, {"executor": 3}, "executor"),
        (lambda x: x, {"placements": [0]}, "placements"),
        (lambda x: x.astype(object), {}, "object"),
        (lambda x: da.ma.masked_greater(x, 0), {}, "filled"),
        (lambda x: of_blocks(x), {}, "Blocks"),
    ],
    ids=["executor", "executor's type", "placements", "objects", "masked", "blocks"],
)
def test_what_each_block_would_be_refused_for_is_refused_at_the_call(array: Any, arguments: Any, word: str) -> None:
    """Dask #7171: an error after hours on a cluster that was known at the start."""
    x = array(da.ones((4, 4), chunks=2))
    with pytest.raises(RequestError, match=word):
        relayout(x, (1, 0), **arguments)


class Blocks:
    """Blocks of a library that is neither NumPy nor CuPy."""

    ndim, shape, dtype = 2, (0, 0), np.dtype(float)


def of_blocks(array: Any) -> Any:
    array._meta = Blocks()
    return array
