"""The plan of a sharded relayout: which boxes each rank sends to which rank. This module does not need torch.

A part is a range of one dimension. If a pattern splits this dimension, the range is a few boxes of the split dimensions. So
the data from one rank to another are a few boxes, too. Each box is moved by its own relayout.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from math import prod
from typing import Any, NamedTuple

from tilecopy_core import RequestError
from tilecopy_core.errors import integer
from tilecopy_core.plugin import frozen, short_repr

from ..axes import rearrangement
from ..rearrangement import Rearrangement

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""The starts and the extents of a box, one per dimension."""


@frozen
class Strides:
    """A frozen record of a box in one rank's memory: offset, extents and strides.

    The offset of the first element and the strides are in elements. By default the dimensions have the source's order.
    """

    offset: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]

    def permute(self, order: Sequence[int]) -> Strides:
        """Return the box with its dimensions in another order."""
        return Strides(self.offset, tuple(self.extents[n] for n in order), tuple(self.strides[n] for n in order))


@frozen
class Shards:
    """A frozen record of a sharded relayout: the rearrangement, and how both arrays are divided among the ranks.

    ``cuts`` are the start of each rank's part of the array along ``shard_dim``, and the end. ``out_cuts`` are those of the result
    along ``out_shard_dim``.
    """

    moved: Rearrangement
    shard_dim: int
    out_shard_dim: int
    cuts: tuple[int, ...]
    out_cuts: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.cuts) - 1

    def out_shape(self, rank: int) -> tuple[int, ...]:
        """Return the shape of a rank's part of the result."""
        shape = list(self.moved.shape)
        shape[self.out_shard_dim] = self.out_cuts[rank + 1] - self.out_cuts[rank]
        return tuple(shape)

    def boxes(self, sender: int, receiver: int) -> Iterator[Box]:
        """For each box that one rank sends to another rank, yield its starts and extents in the split dimensions."""
        moved = self.moved
        if 0 in moved.extents:
            return
        first = sum(map(len, moved.split[: self.shard_dim]))
        theirs = range(first, first + len(moved.split[self.shard_dim]))
        first = sum(moved.merge[: self.out_shard_dim])
        mine = moved.order[first : first + moved.merge[self.out_shard_dim]]
        sent_boxes = boxes_of(moved.split[self.shard_dim], *self.cuts[sender : sender + 2])
        received_boxes = boxes_of(moved.merge_extents[self.out_shard_dim], *self.out_cuts[receiver : receiver + 2])
        for sent, received in product(sent_boxes, received_boxes):
            ranges = [(0, extent) for extent in moved.extents]
            for dims, (starts, extents) in ((theirs, sent), (mine, received)):
                for dim, start, extent in zip(dims, starts, extents, strict=True):
                    low, high = ranges[dim]
                    ranges[dim] = max(low, start), min(high, start + extent)
            if all(low < high for low, high in ranges):
                yield tuple(low for low, _ in ranges), tuple(high - low for low, high in ranges)

    def in_source(self, box: Box, sender: int, strides: Sequence[int]) -> Strides:
        """Return a box's memory in a sender's part of the array. ``strides`` has the part's strides in elements."""
        steps = self.moved.source_strides(strides)
        offset = sum(start * step for start, step in zip(box[0], steps, strict=True))
        return Strides(offset - self.cuts[sender] * strides[self.shard_dim], box[1], steps)

    def in_result(self, box: Box, receiver: int, strides: Sequence[int]) -> Strides:
        """Return a box's memory in a receiver's part of the result. ``strides`` has the part's strides in elements."""
        steps = self.moved.destination_strides(strides)
        offset = sum(start * step for start, step in zip(box[0], steps, strict=True))
        return Strides(offset - self.out_cuts[receiver] * strides[self.out_shard_dim], box[1], steps)


def boxes_of(extents: Sequence[int], low: int, high: int) -> Iterator[Box]:
    """Yield boxes that cover the elements with flat indices ``low`` to ``high - 1`` of a row-major array."""
    if low >= high:
        return
    if not extents:
        yield (), ()
        return
    row = prod(extents[1:])
    first, last = -(-low // row), high // row  # whole rows
    if first > last:  # inside one row
        yield from _in_row(extents, last, low - last * row, high - last * row)
        return
    yield from _in_row(extents, first - 1, row - (first * row - low), row)
    if first < last:
        yield (first, *(0 for _ in extents[1:])), (last - first, *extents[1:])
    yield from _in_row(extents, last, 0, high - last * row)


def _in_row(extents: Sequence[int], row: int, low: int, high: int) -> Iterator[Box]:
    for starts, counts in boxes_of(extents[1:], low, high):
        yield (row, *starts), (1, *counts)


def chunk_extents(extent: int, ranks: int) -> tuple[int, ...]:
    """Return the extents into which ``torch.chunk`` and DTensor divide a dimension. The last extents may be smaller."""
    chunk = -(-extent // ranks)
    return tuple(max(0, min(chunk, extent - rank * chunk)) for rank in range(ranks))


def cuts_of(extents: Sequence[int]) -> tuple[int, ...]:
    """Return the start index of each part, and the end of the last part. The parts have these extents."""
    return (0, *accumulate(extents))


def are_consecutive(boxes: Sequence[Strides]) -> bool:
    """Return True if the boxes are row-major and follow each other in memory from offset 0 without gaps."""
    count = 0
    for box in boxes:
        step = 1
        for extent, stride in zip(reversed(box.extents), reversed(box.strides), strict=True):
            if extent > 1 and stride != step:
                return False
            step *= extent
        if box.offset != count:
            return False
        count += step
    return True


def dimension(name: str, value: Any, rank: int, what: str) -> int:
    """Return the non-negative index of a dimension. A negative ``value`` counts from the last dimension."""
    dim = integer(value)
    if dim is None or not -rank <= dim < rank:
        raise RequestError(f"{name} must be one of the {rank} dimensions of {what}, got {short_repr(value)}")
    return dim % rank


# ------------------------------------------------------------------------------------------ what the ranks agree on


class RankRequest(NamedTuple):
    """A named tuple of one rank's arguments, sent to all other ranks. ``axes`` and ``sizes`` are for the whole array.

    Attributes:
        refused: an error of only this rank, or "".
        shape: the shape of its part of the array.
        device: ``"cpu"`` or ``"cuda"``.
        total: the extent of the whole array along ``shard_dim``, or None.
        extent: the extent of its part of the result along ``out_shard_dim``, or None.
        out_strides: the strides of its ``out``, in elements.
        symmetric: True if the other ranks can write its ``out``.
    """

    refused: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = ""
    axes: str = ""
    sizes: tuple[tuple[str, int], ...] = ()
    shard_dim: int = 0
    out_shard_dim: int = 0
    total: int | None = None
    extent: int | None = None
    out_shape: tuple[int, ...] | None = None
    out_strides: tuple[int, ...] | None = None
    symmetric: bool = False

    def text(self) -> str:
        """Return the request as a string for the other ranks."""
        return repr(tuple(self))

    @classmethod
    def of(cls, text: str) -> RankRequest:
        """Return the request that another rank sent as the string ``text``."""
        return cls(*ast.literal_eval(text))


def merge_requests(requests: Sequence[RankRequest]) -> Shards:
    """Return the relayout that all ranks request. If requests are invalid or differ, all ranks raise the same error."""
    for rank, request in enumerate(requests):
        if request.refused:
            raise RequestError(f"rank {rank}: {request.refused}")
    for name in ("dtype", "device", "axes", "sizes", "shard_dim", "out_shard_dim"):
        _same(name, [getattr(request, name) for request in requests])
    first, shard_dim = requests[0], requests[0].shard_dim
    _same(
        "the shape except along shard_dim",
        [(*request.shape[:shard_dim], "shard_dim", *request.shape[shard_dim + 1 :]) for request in requests],
    )
    for name, attribute in (("out=", "out_shape"), ("the result's extent", "extent")):
        omitting = [rank for rank, request in enumerate(requests) if getattr(request, attribute) is None]
        if 0 < len(omitting) < len(requests):
            ranks = ", ".join(map(str, omitting))
            raise RequestError(f"{name} must be passed on all ranks or on none, but rank {ranks} omitted it")
    parts = [request.shape[shard_dim] for request in requests]
    if any(request.total not in (None, sum(parts)) for request in requests):
        raise RequestError(
            f"under torch.compile all shards must have the same size, got sizes {parts} along dim {shard_dim}"
        )
    moved = rearrangement(
        first.axes, (*first.shape[:shard_dim], sum(parts), *first.shape[shard_dim + 1 :]), dict(first.sizes)
    )
    out_shard_dim = dimension("out_shard_dim", first.out_shard_dim, len(moved.shape), "the result")
    extents = chunk_extents(moved.shape[out_shard_dim], len(requests))
    outs = [request.out_shape for request in requests if request.out_shape is not None]
    if outs:
        extents = tuple(out[out_shard_dim] if out_shard_dim < len(out) else 0 for out in outs)
    elif first.extent is not None:
        extents = tuple(request.extent or 0 for request in requests)
    if sum(extents) != moved.shape[out_shard_dim]:
        raise RequestError(
            f"the sizes of out along out_shard_dim={out_shard_dim} must add up to {moved.shape[out_shard_dim]} for the result's shape "
            f"{moved.shape}, got {list(extents)} with the sum {sum(extents)}"
        )
    shards = Shards(moved, shard_dim, out_shard_dim, cuts_of(parts), cuts_of(extents))
    for rank, out in enumerate(outs):
        if out != shards.out_shape(rank):
            raise RequestError(f"rank {rank}: out must have shape {shards.out_shape(rank)}, got {out}")
    return shards


def _same(what: str, values: Sequence[Any]) -> None:
    """Raise RequestError with the ranks of each value if the values differ between ranks."""
    by_value: dict[Any, list[int]] = {}
    for rank, value in enumerate(values):
        by_value.setdefault(value, []).append(rank)
    if len(by_value) > 1:
        ranks_by_value = "; ".join(
            f"{short_repr(value)} on rank {', '.join(map(str, ranks))}" for value, ranks in by_value.items()
        )
        raise RequestError(f"{what} must be the same on all ranks, got {ranks_by_value}")
