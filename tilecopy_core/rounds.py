"""Walking an ``[outer, threads, vec]`` partition: the rounds in batches, and each side's access in a round."""

from __future__ import annotations

from collections.abc import Iterator

from .errors import FLAG, RequestError, a, checked, whole
from .expr import INT, Expr, Int, Symbol, evaluate, of_atom, split_terms, substitute
from .partition import Side, VectorPartition
from .ptx import Access, PtxBuilder

UNROLL_LIMIT = 64
"""Rounds that are written out; a copy of more is a rolled loop (the assembler's time grows faster than the text)."""
REGISTER_BUDGET = 64
"""32-bit registers that the loads of one batch may hold before its stores."""


_BUILDER = a("a PtxBuilder", PtxBuilder)
_COUNT = whole(0, 2**31 - 1)


@checked(ptx=_BUILDER, outer=_COUNT, words_per_round=_COUNT)
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
    index = Symbol("round", 0, outer // turn - 1, varies="cta")
    with ptx.loop(index, outer // turn):
        yield [of_atom(index) * turn + step for step in range(turn)]


class Walk:
    """One side of a partition as seen by the running thread.

    Args:
        ptx: computes the addresses.
        side: the operand.
        partition: its partition.
        thread: index of the running thread in the scope.
        whole: let the register of each address alone lie inside the buffer, as ``mapa`` needs it.
    """

    @checked(
        ptx=_BUILDER,
        side=a("a Side", Side),
        partition=a("a VectorPartition", VectorPartition),
        thread=INT,
        whole=FLAG,
    )
    def __init__(
        self, ptx: PtxBuilder, side: Side, partition: VectorPartition, thread: Int, *, whole: bool = False
    ) -> None:
        self._ptx, self._side, self._whole = ptx, side, whole
        self._rounds = partition.outer
        self._turn = Symbol("turn", 0, partition.outer - 1)
        turn: Int = of_atom(self._turn) if partition.outer > 1 else 0
        self._offset = side.offset(turn, thread, partition.shape)
        self._parts = split_terms(self._offset, self._turn)

    def access(self, round_index: Int) -> Access:
        """The thread's access in a round (a constant round costs an immediate)."""
        if type(round_index) is int:
            if not 0 <= round_index < self._rounds:
                raise RequestError(f"Walk.access: round_index {round_index} is none of the {self._rounds} rounds")
        elif not isinstance(round_index, Expr):
            INT.check(round_index, "Walk.access", "round_index")
        turn = {self._turn: round_index}
        if self._parts is not None and not isinstance(round_index, Expr):
            offset: Int = self._parts[0] + int(evaluate(self._parts[1], turn))
        else:
            offset = substitute(self._offset, turn)
        buffer, swizzle = self._side.region.buffer, self._side.swizzle
        return Access(self._ptx.address(buffer, offset, swizzle, whole=self._whole))
