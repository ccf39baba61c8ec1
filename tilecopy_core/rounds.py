"""Walking an ``[outer, threads, vec]`` partition: the rounds in batches, and each side's address in a round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .expr import Expr, Int, as_expr, evaluate, split_terms, substitute, symbol
from .partition import Side, VectorPartition
from .ptx import Address, PtxBuilder

UNROLL_LIMIT = 64
"""Rounds that are written out; a copy of more is a rolled loop (the assembler's time grows faster than the text)."""
REGISTER_BUDGET = 64
"""32-bit registers that the loads of one batch may hold before its stores."""


def batches(ptx: PtxBuilder, outer: int, words_per_round: int) -> Iterator[list[Int]]:
    """Round indices in batches: all loads of a batch come before its stores.

    Args:
        ptx: where a rolled loop is opened when ``outer`` passes :data:`UNROLL_LIMIT`; its index is then symbolic.
        outer: number of rounds.
        words_per_round: 32-bit registers that one round holds.
    """
    in_flight = max(1, REGISTER_BUDGET // max(1, words_per_round))
    if outer <= UNROLL_LIMIT:
        for first in range(0, outer, in_flight):
            yield list(range(first, min(first + in_flight, outer)))
        return
    turn = max(size for size in range(1, min(in_flight, UNROLL_LIMIT) + 1) if outer % size == 0)
    with ptx.loop(outer // turn, ptx.new_label("round").lstrip("$")) as index:
        yield [index * turn + step for step in range(turn)]


class Walk:
    """One side of a partition as seen by the running thread.

    Args:
        ptx: computes the addresses.
        side: the operand.
        partition: its partition.
        thread: index of the running thread in the scope.
    """

    def __init__(self, ptx: PtxBuilder, side: Side, partition: VectorPartition, thread: Int) -> None:
        self._ptx, self._side = ptx, side
        turn = symbol("round", upper=partition.outer - 1) if partition.outer > 1 else Expr(0, ())
        offset: Any = side.offset(turn if partition.outer > 1 else 0, thread, partition.shape)
        self._offset = offset
        self._fixed, self._by_round, self._separable = split_terms(offset, "round")

    def address(self, round_index: Int) -> Address:
        """Address of the thread's vector in a round (a constant round costs an immediate)."""
        if self._separable and not as_expr(round_index).terms:
            offset = self._fixed + int(evaluate(self._by_round, {"round": as_expr(round_index).const}))
        else:
            offset = substitute(self._offset, {"round": round_index})
        return self._ptx.address(self._side.region.buffer, offset, self._side.swizzle)
