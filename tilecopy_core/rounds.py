"""Walking an ``[outer, threads, vec]`` partition: the rounds in batches, and each side's access in a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .errors import FLAG, Kind, RequestError, a, checked, shown, whole
from .expr import INT, Expr, Int, Symbol, add, evaluate, of_atom, split_terms, substitute
from .layout import surely_leaves
from .partition import Guard, Side, VectorPartition
from .ptx import IMMEDIATE_REACH_BYTES, Access, Address, PtxBuilder, Register
from .request import CopyRequest
from .scope import Scope, differs_within, warp

UNROLL_LIMIT = 64
"""Rounds that are written out; a copy of more is a rolled loop (the assembler's time grows faster than the text)."""
REGISTER_BUDGET = 64
"""32-bit registers that the loads of one batch may hold before its stores."""


_BUILDER = a("a PtxBuilder", PtxBuilder)
_COUNT = whole(0, 2**31 - 1)
_PARTITION = a("a VectorPartition", VectorPartition)
_THREAD = Kind("a thread's index", lambda value: isinstance(value, Expr) or (INT.fits(value) and 0 <= value < 1024))


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


def at_edges(
    ptx: PtxBuilder, partition: VectorPartition, scope: Scope, write: Callable[[VectorPartition], None]
) -> None:
    """Write a copy whose regions may overhang: one branch, and in it the rounds of boxes inside or those of the edge.

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

    @checked(ptx=_BUILDER, partition=_PARTITION, thread=_THREAD)
    def __init__(self, ptx: PtxBuilder, partition: VectorPartition, thread: Int) -> None:
        self._ptx, self._partition, self._thread = ptx, partition, thread
        self._source = [g for g in partition.guards if g.dim is not None and g.region is partition.src.region]
        self._target = [g for g in partition.guards if g not in self._source]

    def source(self, turn: Int) -> Register | bool:
        """Whether the thread's vector lies inside the source; True and False where that is known."""
        return self._all(self._source, turn)

    def target(self, turn: Int) -> Register | bool:
        """Whether the thread has a vector in this round, and it lies inside the destination."""
        return self._all(self._target, turn)

    def _all(self, guards: Sequence[Guard], turn: Int) -> Register | bool:
        _check_round(turn, self._partition.outer, "Masks: turn")
        if not guards:
            return True
        flat = (turn * self._partition.threads + self._thread) * self._partition.vec
        return self._ptx.all_of([self._ptx.inside(g.position(flat), g.size, g.ends) for g in guards])


def through_registers(
    ptx: PtxBuilder, request: CopyRequest, partition: VectorPartition, *, streaming: bool = False
) -> None:
    """The rounds of a partition as batches of vector loads, then their stores.

    Elements are read where the source is inside, and stand for what the request says where it is not; they are written
    where the destination is inside.

    Args:
        ptx: where the instructions go.
        request: the copy.
        partition: its partition, or that of its edge.
        streaming: whether global accesses leave no line in L1.
    """
    thread, bits = ptx.thread_index(request.scope), partition.vec_bits
    src, dst = (Walk(ptx, side, partition, thread) for side in (partition.src, partition.dst))
    if not partition.guards:
        for batch in batches(ptx, partition.outer, bits // 32):
            values = [ptx.load(src.access(turn), bits, streaming=streaming) for turn in batch]
            for turn, registers in zip(batch, values, strict=True):
                ptx.store(dst.access(turn), bits, registers, streaming=streaming)
    else:
        _guarded(ptx, request, partition, src, dst, streaming=streaming)
    if partition.rest is not None:
        through_registers(ptx, request, partition.rest, streaming=streaming)


def _guarded(
    ptx: PtxBuilder, request: CopyRequest, partition: VectorPartition, src: Walk, dst: Walk, *, streaming: bool
) -> None:
    """The rounds of a partition with guards."""
    bits, outside = partition.vec_bits, request.outside
    masks = Masks(ptx, partition, ptx.thread_index(request.scope))
    keep = outside is None or outside.kind == "keep"
    for batch in batches(ptx, partition.outer, bits // 32):
        loaded: list[tuple[Int, Register | bool, list[Register]]] = []
        for turn in batch:
            write = masks.target(turn)
            read = ptx.all_of([masks.source(turn), write])
            if keep:
                write = read
            if write is False:
                continue
            if read is False:
                assert outside is not None
                registers = ptx.constant(outside.words, bits)
            else:
                fill = None if keep or outside is None else outside.words
                access = src.access(turn)
                if isinstance(read, Register):
                    access = Access(access.address, read, fill)
                registers = ptx.load(access, bits, streaming=streaming)
            loaded.append((turn, write, registers))
        for turn, write, registers in loaded:
            access = dst.access(turn)
            if isinstance(write, Register):
                access = Access(access.address, write)
            ptx.store(access, bits, registers, streaming=streaming)


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
    fill = None if request.outside is None or request.outside.kind == "keep" else request.outside
    for batch in batches(ptx, partition.outer, words_per_round=1):
        for turn in batch:
            read, write = masks.source(turn), masks.target(turn)
            if write is False:
                continue
            address = dst.access(turn).address
            if fill is not None and fill.is_zero and isinstance(read, Register):
                ptx.cp_async(address, _by(src.access(turn), write), nbytes, ignore=ptx.opposite(read))
                continue
            both = ptx.all_of([read, write])
            if both is not False:
                ptx.cp_async(address, _by(src.access(turn), both), nbytes)
            if fill is not None and read is not True:
                rest = ptx.all_of([ptx.opposite(read), write])
                ptx.store(_by(Access(address), rest), nbytes * 8, ptx.constant(fill.words, nbytes * 8))
    if partition.rest is not None:
        asynchronously(ptx, request, partition.rest)


def _by(access: Access, mask: Register | bool) -> Access:
    """The access by the threads of a mask."""
    return Access(access.address, mask if isinstance(mask, Register) else None, access.fill)


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
        partition=_PARTITION,
        thread=_THREAD,
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
        self._first: Address | None = None

    def access(self, round_index: Int) -> Access:
        """The thread's access in a round (a constant round costs an immediate)."""
        _check_round(round_index, self._rounds, "Walk.access: round_index")
        turn = {self._turn: round_index}
        if self._parts is None or isinstance(round_index, Expr) or self._whole:
            return Access(self._address(substitute(self._offset, turn)))
        fixed, by_round = self._parts
        step = int(evaluate(by_round, turn))
        if self._side.swizzle is not None:
            return Access(self._address(fixed + step))
        if self._first is None:
            self._first = self._address(fixed)
        moved = step * (self._side.region.buffer.dtype.bits // 8)
        near = 0 <= moved < IMMEDIATE_REACH_BYTES - self._first.offset_bytes
        return Access(self._first + moved if near else self._address(fixed + step))

    def _address(self, offset: Int) -> Address:
        return self._ptx.address(self._side.region.buffer, offset, self._side.swizzle, whole=self._whole)
