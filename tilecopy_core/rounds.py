"""Walking an ``[outer, threads, vec]`` partition: the rounds in batches, and each side's access in a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .errors import FLAG, Kind, RequestError, a, checked, shown, whole
from .expr import (
    INT,
    Expr,
    Int,
    Symbol,
    Term,
    add,
    constant_of,
    evaluate,
    of_atom,
    split_terms,
    substitute,
    sum_of,
    terms_of,
)
from .layout import surely_leaves
from .partition import Guard, Side, VectorPartition
from .ptx import IMMEDIATE_REACH_BYTES, Address, PtxBuilder, Register, masked
from .ptx.builder import BUILDER
from .request import CopyRequest
from .scope import Scope, differs_within, warp

UNROLL_LIMIT = 64
"""Rounds that are written out; a copy of more is a rolled loop (the assembler's time grows faster than the text)."""
FEW_ROUNDS = 4
"""Rounds up to which guards cost an inlined copy less than a branch (2 to 4 percent of the GEMM of bench_export.py)."""
REGISTER_BUDGET = 64
"""32-bit registers that the loads of one batch may hold before its stores."""


_COUNT = whole(0, 2**31 - 1)
_PARTITION = a("a VectorPartition", VectorPartition)
_THREAD = Kind("a thread's index", lambda value: isinstance(value, Expr) or (INT.fits(value) and 0 <= value < 1024))


@checked(ptx=BUILDER, outer=_COUNT, words_per_round=_COUNT)
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


def at_edges(
    ptx: PtxBuilder, partition: VectorPartition, scope: Scope, write: Callable[[VectorPartition], None]
) -> None:
    """Write a copy whose regions may overhang: one branch, and in it the rounds of boxes inside or those of the edge.

    In somebody's function a few rounds of the same vectors are written without one: the predicates cost less than what a
    compiler can then no longer move.

    Args:
        ptx: where the branch goes.
        partition: of the copy; without an ``edge`` it is written as it is.
        scope: of the copy.
        write: writes the rounds of one partition.
    """
    edge = partition.edge
    if edge is None:
        write(partition)
        return
    if ptx.bindings.inlined and edge.vec == partition.vec and edge.rounds <= FEW_ROUNDS:
        write(edge)
        return
    choose(ptx, [g for g in edge.guards if g.dim is not None], lambda: write(partition), lambda: write(edge))


def choose(ptx: PtxBuilder, guards: Sequence[Guard], inside: Callable[[], None], edge: Callable[[], None]) -> None:
    """``inside`` where the boxes of all guards lie inside, else ``edge``."""
    if any(surely_leaves(guard.start, guard.extent, guard.size) for guard in guards):
        edge()
        return
    whole = ptx.all_of([ptx.inside(g.start, add(g.size, 1 - g.extent), g.ends) for g in guards])
    if isinstance(whole, bool):
        (inside if whole else edge)()
        return
    uniform = not any(differs_within(value, warp()) for g in guards for value in (g.start, g.size))
    ptx.either(whole, inside, edge, uniform=uniform)


class ByRound:
    """An integer that depends on the round: in each one what does not, and what the round adds.

    Args:
        value_of: the integer in a round.
        outer: number of rounds.

    Attributes:
        fixed: what does not depend on the round; None where that cannot be told apart.
    """

    def __init__(self, value_of: Callable[[Int], Int], outer: int) -> None:
        self._turn = Symbol("turn", 0, outer - 1)
        self._whole = value_of(of_atom(self._turn) if outer > 1 else 0)
        self.fixed: Int | None
        self._step: Int
        self.fixed, self._step = split_terms(self._whole, self._turn) or (None, 0)
        terms = terms_of(self._step)
        self._rise = terms[0][1] if len(terms) == 1 and terms[0][0] is self._turn else None

    def step(self, turn: Int) -> Int:
        """What a round adds to ``fixed``."""
        if self._rise is not None:
            return turn * self._rise
        step: Int = evaluate(self._step, {self._turn: turn})
        return step

    def at(self, turn: Int) -> Int:
        """The integer in a round."""
        if self.fixed is None:
            return substitute(self._whole, {self._turn: turn})
        return add(self.fixed, self.step(turn))


def _check_round(turn: Int, rounds: int, what: str) -> None:
    if not isinstance(turn, Expr) and (type(turn) is not int or not 0 <= turn < rounds):
        raise RequestError(f"{what} {shown(turn)} is none of the {rounds} rounds, nor a symbolic integer")


class Masks:
    """Which threads have something to move in a round: at its source, and at its destination.

    Args:
        ptx: computes the predicates.
        partition: whose guards they are.
        thread: index of the running thread in the scope.
    """

    @checked(ptx=BUILDER, partition=_PARTITION, thread=_THREAD)
    def __init__(self, ptx: PtxBuilder, partition: VectorPartition, thread: Int) -> None:
        def placed(guard: Guard) -> tuple[Guard, ByRound]:
            return guard, ByRound(
                lambda turn: guard.position((turn * partition.threads + thread) * partition.vec), partition.outer
            )

        self._ptx, self._rounds = ptx, partition.outer
        source = [g for g in partition.guards if g.dim is not None and g.region is partition.src.region]
        self._source = [placed(guard) for guard in source]
        self._target = [placed(guard) for guard in partition.guards if guard not in source]

    def source(self, turn: Int) -> Register | bool:
        """Whether the thread's vector lies inside the source; True and False where that is known."""
        return self._all(self._source, turn)

    def target(self, turn: Int) -> Register | bool:
        """Whether the thread has a vector in this round, and it lies inside the destination."""
        return self._all(self._target, turn)

    def _all(self, guards: Sequence[tuple[Guard, ByRound]], turn: Int) -> Register | bool:
        if turn.__class__ is not int or not 0 <= turn < self._rounds:
            _check_round(turn, self._rounds, "Masks: turn")
        return self._ptx.all_of([self._ptx.inside(place.at(turn), g.size, g.ends) for g, place in guards])


def through_registers(ptx: PtxBuilder, request: CopyRequest, partition: VectorPartition) -> None:
    """The rounds of a partition as batches of vector loads, then their stores.

    Elements are read where the source is inside, and stand for what the request says where it is not; they are written
    where the destination is inside.

    Args:
        ptx: where the instructions go.
        request: the copy.
        partition: its partition, or that of its edge.
    """
    thread, bits = ptx.thread_index(request.scope), partition.vec_bits
    src, dst = (Walk(ptx, side, partition, thread) for side in (partition.src, partition.dst))
    if not partition.guards:
        for batch in batches(ptx, partition.outer, bits // 32):
            values = [ptx.load(src.address(turn), bits) for turn in batch]
            for turn, registers in zip(batch, values, strict=True):
                ptx.store(dst.address(turn), bits, registers)
    else:
        _guarded(ptx, request, partition, src, dst)
    if partition.rest is not None:
        through_registers(ptx, request, partition.rest)


def _guarded(ptx: PtxBuilder, request: CopyRequest, partition: VectorPartition, src: Walk, dst: Walk) -> None:
    """The rounds of a partition with guards."""
    bits, fill = partition.vec_bits, request.fill
    masks = Masks(ptx, partition, ptx.thread_index(request.scope))
    for batch in batches(ptx, partition.outer, bits // 32):
        loaded: list[tuple[Int, Register | bool, list[Register]]] = []
        for turn in batch:
            write = masks.target(turn)
            read = ptx.all_of([masks.source(turn), write])
            if fill is None:
                write = read
            if write is False:
                continue
            if read is False:
                assert fill is not None
                registers = ptx.constant(fill, bits)
            else:
                registers = ptx.load(masked(src.address(turn), read, fill), bits)
            loaded.append((turn, write, registers))
        for turn, write, registers in loaded:
            ptx.store(masked(dst.address(turn), write), bits, registers)


def asynchronously(ptx: PtxBuilder, request: CopyRequest, partition: VectorPartition) -> None:
    """The rounds of a partition as one ``cp.async`` each; no commit, no wait. Arguments as :func:`through_registers`.

    Zeros come from the instruction's ignore-src predicate, another fill is stored. Vectors narrower than 4 bytes, which
    ``cp.async`` does not copy, go through registers.
    """
    if partition.vec_bits < 32:
        through_registers(ptx, request, partition)
        return
    thread, nbytes = ptx.thread_index(request.scope), partition.vec_bytes
    src, dst = (Walk(ptx, side, partition, thread) for side in (partition.src, partition.dst))
    masks = Masks(ptx, partition, thread)
    outside, fill = request.outside, request.fill
    for batch in batches(ptx, partition.outer, words_per_round=1):
        for turn in batch:
            read, write = masks.source(turn), masks.target(turn)
            if write is False:
                continue
            address = dst.address(turn)
            if outside is not None and outside.is_zero and isinstance(read, Register):
                ptx.cp_async(address, masked(src.address(turn), write), nbytes, ignore=ptx.opposite(read))
                continue
            both = ptx.all_of([read, write])
            if both is not False:
                ptx.cp_async(address, masked(src.address(turn), both), nbytes)
            if fill is not None and read is not True:
                rest = ptx.all_of([ptx.opposite(read), write])
                ptx.store(masked(address, rest), nbytes * 8, ptx.constant(fill, nbytes * 8))
    if partition.rest is not None:
        asynchronously(ptx, request, partition.rest)


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
        ptx=BUILDER,
        side=a("a Side", Side),
        partition=_PARTITION,
        thread=_THREAD,
        whole=FLAG,
    )
    def __init__(
        self, ptx: PtxBuilder, side: Side, partition: VectorPartition, thread: Int, *, whole: bool = False
    ) -> None:
        self._ptx, self._side, self._whole = ptx, side, whole
        self._rounds, self._elem_bytes = partition.outer, side.region.buffer.dtype.bits // 8
        self._offset = ByRound(lambda turn: side.offset(turn, thread, partition.shape), partition.outer)
        self._apart = side.swizzle is not None or whole
        self._first: dict[tuple[Term, ...], Address] = {}

    def address(self, round_index: Int) -> Address:
        """The thread's vector in a round (what is constant of the round costs an immediate)."""
        if round_index.__class__ is not int or not 0 <= round_index < self._rounds:
            _check_round(round_index, self._rounds, "Walk.address: round_index")
        fixed = self._offset.fixed
        if fixed is None or self._apart:
            return self._address(self._offset.at(round_index))
        step = self._offset.step(round_index)
        moved, varying = (step, ()) if step.__class__ is int else (constant_of(step), terms_of(step))
        moved *= self._elem_bytes
        first = self._first.get(varying)
        if first is None:
            first = self._first[varying] = self._address(add(fixed, sum_of(0, varying)))
        near = 0 <= moved < IMMEDIATE_REACH_BYTES - first.offset_bytes
        return first + moved if near else self._address(add(fixed, step))

    def _address(self, offset: Int) -> Address:
        return self._ptx.address(self._side.region.buffer, offset, self._side.swizzle, whole=self._whole)
