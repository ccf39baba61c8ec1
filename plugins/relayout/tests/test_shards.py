"""What goes from which rank to which, against NumPy, and what the ranks are told where they disagree; no torch."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
import pytest
from tilecopy import RequestError
from tilecopy_relayout import relayout_shards
from tilecopy_relayout.axes import rearrangement
from tilecopy_relayout.distributed.shards import (
    RankRequest,
    Shards,
    Strides,
    are_consecutive,
    boxes_of,
    chunk_extents,
    cuts_of,
    merge_requests,
)
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.plugin import row_major


def parts(array: Any, dim: int, cuts: tuple[int, ...]) -> list[Any]:
    return np.split(array, cuts[1:-1], dim)


def view(memory: Any, box: Strides) -> Any:
    size = memory.itemsize
    return np.lib.stride_tricks.as_strided(
        memory.reshape(-1)[box.offset :], box.extents, [step * size for step in box.strides]
    )


def drawn_cuts(draw: random.Random, extent: int, ranks: int) -> tuple[int, ...]:
    """Uneven, and often with nothing for a rank."""
    return (0, *sorted(draw.randint(0, extent) for _ in range(ranks - 1)), extent)


def exchanged(shards: Shards, array: Any) -> list[Any]:
    """Every rank's part of the result, written box by box; each element once."""
    sources = [np.ascontiguousarray(part) for part in parts(array, shards.shard_dim, shards.cuts)]
    results = [np.full(shards.out_shape(rank), -1, array.dtype) for rank in range(shards.ranks)]
    for sender, source in enumerate(sources):
        for receiver, result in enumerate(results):
            for box in shards.boxes(sender, receiver):
                there = view(result, shards.in_result(box, receiver, row_major(result.shape)))
                assert (there == -1).all() and there.size
                there[...] = view(source, shards.in_source(box, sender, row_major(source.shape)))
    return results


@pytest.mark.parametrize("ranks", range(1, 9))
def test_permutations(ranks: int) -> None:
    draw = random.Random(ranks)
    for _ in range(40):
        rank = draw.randint(1, 5)
        shape = [draw.choice((1, 2, 3, 5, 8, 13)) for _ in range(rank)]
        axes = draw.sample(range(rank), rank)
        shard_dim, out_shard_dim = draw.randrange(rank), draw.randrange(rank)
        moved = rearrangement(tuple(axes), shape)
        out_cuts = cuts_of(chunk_extents(moved.shape[out_shard_dim], ranks))
        if draw.random() < 0.5:
            out_cuts = drawn_cuts(draw, moved.shape[out_shard_dim], ranks)
        shards = Shards(moved, shard_dim, out_shard_dim, drawn_cuts(draw, shape[shard_dim], ranks), out_cuts)
        array = np.arange(prod(shape)).reshape(shape)
        for made, expected in zip(
            exchanged(shards, array), parts(array.transpose(axes), out_shard_dim, out_cuts), strict=True
        ):
            assert np.array_equal(made, expected)
        pairs = [(s, r) for s in range(ranks) for r in range(ranks)]
        assert all(len(list(shards.boxes(*pair))) <= 1 for pair in pairs)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_patterns_that_split_and_merge_what_is_divided(ranks: int) -> None:
    draw = random.Random(ranks)
    cases: list[tuple[tuple[int, ...], str, dict[str, int], Any]] = [
        ((12, 5), "(a b) c -> b (c a)", {"a": 3}, lambda x: x.reshape(3, 4, 5).transpose(1, 2, 0).reshape(4, 15)),
        (
            (5, 24),
            "a (b c d) -> (d a) c b",
            {"b": 2, "c": 3},
            lambda x: x.reshape(5, 2, 3, 4).transpose(3, 0, 2, 1).reshape(20, 3, 2),
        ),
        ((24, 1), "(a b) 1 -> (b a)", {"a": 6}, lambda x: x.reshape(6, 4).T.reshape(24)),
        ((6, 4), "a b -> (b a) 1", {}, lambda x: x.T.reshape(24, 1)),
    ]
    for shape, pattern, sizes, expected in cases:
        array = np.arange(prod(shape)).reshape(shape)
        moved = rearrangement(pattern, shape, sizes)
        for _ in range(6):
            shard_dim, out_shard_dim = draw.randrange(len(shape)), draw.randrange(len(moved.shape))
            out_cuts = drawn_cuts(draw, moved.shape[out_shard_dim], ranks)
            shards = Shards(moved, shard_dim, out_shard_dim, drawn_cuts(draw, shape[shard_dim], ranks), out_cuts)
            for made, part in zip(
                exchanged(shards, array), parts(expected(array), out_shard_dim, out_cuts), strict=True
            ):
                assert np.array_equal(made, part), (pattern, shards)


def test_ranges_as_boxes() -> None:
    for extents in ((24,), (4, 6), (2, 3, 4), (2, 1, 3, 2), ()):
        count = prod(extents)
        for low in range(count + 1):
            for high in range(low, count + 1):
                seen = np.zeros(extents, int)
                found = list(boxes_of(extents, low, high))
                for starts, counts in found:
                    seen[tuple(slice(s, s + c) for s, c in zip(starts, counts, strict=True))] += 1
                assert seen.reshape(-1).tolist() == [int(low <= n < high) for n in range(count)]
                assert len(found) <= max(1, 2 * len(extents) - 1)


def test_no_elements() -> None:
    moved = rearrangement((1, 0), (0, 4))
    shards = Shards(moved, 0, 0, (0, 0, 0), (0, 2, 4))
    assert not list(shards.boxes(0, 1)) and shards.out_shape(1) == (2, 0)


@pytest.mark.parametrize(("extent", "ranks"), [(10, 4), (8, 4), (3, 8), (0, 3), (9, 4)])
def test_parts_are_those_of_chunk(extent: int, ranks: int) -> None:
    found = chunk_extents(extent, ranks)
    assert sum(found) == extent and len(found) == ranks and list(found) == sorted(found, reverse=True)
    torch = pytest.importorskip("torch")
    assert [len(part) for part in torch.zeros(extent).chunk(ranks)] == [each for each in found if each] or not extent


def test_what_lies_behind_one_another() -> None:
    assert are_consecutive([Strides(0, (2, 3), (3, 1)), Strides(6, (1, 4), (99, 1))]) and are_consecutive([])
    assert not are_consecutive([Strides(0, (2, 3), (4, 1))]) and not are_consecutive([Strides(1, (2,), (1,))])


def requests(count: int = 3, **changed: Any) -> list[RankRequest]:
    """What ranks are called with; ``changed`` is of rank 1."""
    base: dict[str, Any] = {
        "shape": (4, 6, 2),
        "dtype": "float32",
        "device": "cpu",
        "axes": "2,0,1",
        "shard_dim": 1,
        "out_shard_dim": -1,
    }
    return [RankRequest(**(base | changed if rank == 1 else base)) for rank in range(count)]


def test_agreement() -> None:
    shards = merge_requests([RankRequest.of(each.text()) for each in requests(shape=(4, 1, 2))])
    assert shards.cuts == (0, 6, 7, 13) and shards.out_shard_dim == 2 and shards.out_cuts == (0, 5, 10, 13)
    assert shards.out_shape(2) == (2, 4, 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dtype": "int32"}, ("float32", "int32", "dtype")),
        ({"axes": "0,1,2"}, ("2,0,1", "axes")),
        ({"shard_dim": 0}, ("shard_dim",)),
        ({"out_shard_dim": 2}, ("out_shard_dim",)),
        ({"device": "cuda"}, ("device",)),
        ({"sizes": (("a", 2),)}, ("sizes",)),
        ({"shape": (4, 6, 3)}, ("shard_dim", "shape", 4)),
        ({"shape": (4, 6)}, ("shape",)),
        ({"out_shape": (2, 4, 5)}, ("out",)),
        ({"refused": "no such thing"}, ("no such thing",)),
    ],
)
def test_ranks_that_disagree(changed: dict[str, Any], message: tuple[object, ...]) -> None:
    with pytest.raises(RequestError, match=mentions(*message)):
        merge_requests(requests(**changed))


def test_what_no_rank_can_mean() -> None:
    every = [RankRequest(shape=(4, 6), axes="1,0", out_shard_dim=2)] * 2
    with pytest.raises(RequestError, match=mentions("out_shard_dim", 2)):
        merge_requests(every)
    every = [RankRequest(shape=(4, 6), axes="1,0", out_shape=(2, 8))] * 2
    with pytest.raises(RequestError, match=mentions("out_shard_dim", 4, 6, 8)):
        merge_requests(every)
    every = [RankRequest(shape=(4, 6), axes="1,0", out_shape=(3, 9))] * 2
    with pytest.raises(RequestError, match=mentions("shape", 3, 9, 8)):
        merge_requests(every)
    with pytest.raises(RequestError, match=mentions("shard_map")):
        relayout_shards(np.zeros(3), (0,), shard_dim=0, out_shard_dim=0)
