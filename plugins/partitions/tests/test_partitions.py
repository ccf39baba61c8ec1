"""Partitions by the core and this package alone: worked values, and what declines."""

from __future__ import annotations

import pytest

import tilecopy_core as tc
from tilecopy_core import S, TileLayout
from tilecopy_partitions import ChunkPartition, VectorPartition, partition_chunks, synthesize


def request(shape: tuple[int, ...], tile: TileLayout | None = None, threads: int = 32) -> tc.CopyRequest:
    source = tc.Buffer(shape, "float16", space="global", name="A")
    target = tc.Buffer(shape, "float16", space="shared", layout=tile, name="tile")
    dst, src = (buffer[tuple(slice(0, extent) for extent in shape)] for buffer in (target, source))
    return tc.CopyRequest(op="copy", dst=dst, src=src, scope=tc.cta(threads), target="sm_90a")


@pytest.mark.parametrize(
    ("shape", "tile", "threads", "partition"),
    [
        ((32, 64), None, 32, (8, 32, 8)),
        ((32, 64), None, 256, (1, 256, 8)),
        ((32, 64), TileLayout(S[(32, 64) : (72, 1)]), 32, (8, 32, 8)),
        ((32, 64), TileLayout(S[(32, 64) : (66, 1)]), 32, (32, 32, 2)),
        ((32, 64), TileLayout(S[(32, 64) : (1, 32)]), 32, (64, 32, 1)),
        ((32, 4), None, 32, (1, 32, 4)),
    ],
)
def test_vectors_are_as_wide_as_both_sides_allow(
    shape: tuple[int, ...], tile: TileLayout | None, threads: int, partition: tuple[int, int, int]
) -> None:
    copy = request(shape, tile, threads)
    found = synthesize(copy, leader=copy.src)
    assert isinstance(found, VectorPartition)
    assert found.shape == partition and found.vec_bits == partition[2] * 16


def test_a_copy_that_no_named_width_fits_is_declined() -> None:
    copy = request((32, 64), TileLayout(S[(32, 64) : (1, 32)]))
    found = synthesize(copy, leader=copy.src, widths_bits=(128, 64, 32))
    assert isinstance(found, tc.Decline) and "128, 64, 32" in found.reason


def test_the_leader_is_an_operand_of_the_copy() -> None:
    with pytest.raises(tc.RequestError):
        synthesize(request((32, 64)), leader=request((8, 8)).src)


def test_a_chunk_is_the_longest_contiguous_run() -> None:
    whole, rows = (partition_chunks(request((32, 64), tile)) for tile in (None, TileLayout(S[(32, 64) : (72, 1)])))
    assert isinstance(whole, ChunkPartition) and isinstance(rows, ChunkPartition)
    assert (whole.chunk_bytes, whole.chunks) == (4096, ((0, 0),))
    assert rows.chunk_bytes == 128 and rows.chunks == tuple((72 * row, 64 * row) for row in range(32))
