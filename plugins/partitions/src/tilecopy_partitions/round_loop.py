"""Loops over the rounds of an ``[outer, threads, vec]`` partition, and the addresses that each round accesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tilecopy_core.description import differs_within, warp
from tilecopy_core.integers import Atom, Expr, Int, Symbol, add, of_atom, sum_of
from tilecopy_core.layout import Iter, Swizzle, along, fuse, m, surely_leaves
from tilecopy_core.plugin import Access, Address, Buffer, CopyRequest, PtxBuilder, Register, Scope
from tilecopy_core.ptx import IMMEDIATE_REACH_BYTES

from .edge_predicates import all_of, opposite, range_predicate
from .vector_partition import Guard, Side, VectorPartition

UNROLL_LIMIT = 64
"""The most rounds that are unrolled; more become a loop, because the assembler's time grows faster than the text."""
EDGE_UNROLL_LIMIT = 16
"""The most unrolled rounds for overhanging tiles: few tiles overhang, and each round also costs predicates."""
FEW_ROUNDS = 4
"""The most rounds for which guards cost less than a branch in an inlined copy (2 to 4 percent of the GEMM in bench_export.py)."""
REGISTER_BUDGET = 64
"""32-bit registers that the loads of one batch may hold before its stores."""


def batches(ptx: PtxBuilder, outer: int, words_per_round: int, *, limit: int = UNROLL_LIMIT) -> Iterator[list[Int]]:
    """Yield the indices of ``outer`` rounds in batches. The caller emits a batch's loads before the batch's stores.

    Each round holds ``words_per_round`` registers of 32 bits. Past ``limit`` rounds, :data:`UNROLL_LIMIT` or fewer, a
    rolled loop is opened in ``ptx``, and the indices in it are symbolic.
    """
    in_flight = max(1, REGISTER_BUDGET // max(1, words_per_round))
    first = 0
    if outer > limit:
        most = min(in_flight, limit)
        turn = max(size for size in range(1, most + 1) if outer % size == 0)
        turn = turn if 2 * turn > most else most  # a few rounds after the loop cost less than many short turns
        index = Symbol("round", 0, outer // turn - 1, varies="cta")
        with ptx.loop(index, outer // turn, unroll=limit == UNROLL_LIMIT):
            yield [of_atom(index) * turn + step for step in range(turn)]
        first = outer // turn * turn
    for start in range(first, outer, in_flight):
        yield list(range(start, min(start + in_flight, outer)))


def round_indices(ptx: PtxBuilder, outer: int, *, limit: int = UNROLL_LIMIT) -> Iterator[Int]:
    """Yield the index of each of ``outer`` rounds. More than ``limit`` rounds become a loop in the kernel."""
    for batch in batches(ptx, outer, words_per_round=1, limit=limit):
        yield from batch


def emit_with_edges(
    ptx: PtxBuilder, partition: VectorPartition, scope: Scope, write: Callable[[VectorPartition], None]
) -> None:
    """Emit a copy whose box may reach out of bounds. A branch selects the rounds for full tiles or for edge tiles.

    In a function of another compiler, a few rounds of equal vectors are written without a branch, because a branch keeps the
    compiler from moving code, which costs more than predicates. A partition without an ``edge`` needs no branch. ``write`` is
    called with the partition to write.
    """
    edge = partition.edge
    if edge is None:
        write(partition)
    elif ptx.bindings.inlined and edge.vec == partition.vec and edge.rounds <= FEW_ROUNDS:
        write(edge)
    else:
        branch_on_edges(
            ptx, [g for g in edge.guards if g.dim is not None], lambda: write(partition), lambda: write(edge)
        )


def branch_on_edges(
    ptx: PtxBuilder, guards: Sequence[Guard], inside: Callable[[], None], edge: Callable[[], None]
) -> None:
    """Emit a branch to ``inside`` if the boxes of all ``guards`` are in bounds, else to ``edge``."""
    leaves = any(surely_leaves(g.start, g.extent, g.size) for g in guards)
    whole = not leaves and all_of(
        ptx, [range_predicate(ptx, g.start, add(g.size, 1 - g.extent), g.ends) for g in guards]
    )
    if isinstance(whole, bool):
        (inside if whole else edge)()
        return
    uniform = not any(differs_within(value, warp()) for g in guards for value in (g.start, g.size))
    ptx.either(whole, inside, edge, uniform=uniform)


def _rounds_of(iters: Sequence[Iter], step_elems: int) -> tuple[Iter, ...] | None:
    """Return the iters over rounds of ``step_elems`` elements, or None if an iter straddles two rounds."""
    remaining_elems = step_elems
    for position in range(len(iters) - 1, -1, -1):
        it = iters[position]
        if it.extent % remaining_elems == 0 or not position:  # the last round may reach past the outermost iter
            return fuse(
                (*iters[:position], Iter(-(-it.extent // remaining_elems), it.stride * remaining_elems, it.axis))
            )
        if remaining_elems % it.extent:
            return None
        remaining_elems //= it.extent
    return () if remaining_elems == 1 else None


def _limit(partition: VectorPartition) -> int:
    """Return the most rounds that are unrolled, fewer for edge tiles."""
    return EDGE_UNROLL_LIMIT if any(guard.dim is not None for guard in partition.guards) else UNROLL_LIMIT


def masked_access(address: Address, mask: Register | bool, fill: tuple[int, ...] | None = None) -> Access | Address:
    """Return an access to ``address`` for threads whose ``mask`` is true. The mask is True or a predicate register."""
    return Access(address, mask, fill) if isinstance(mask, Register) else address


class Masks:
    """Predicates for bounds checks of each thread's vectors in the source and in the destination."""

    def __init__(self, ptx: PtxBuilder, partition: VectorPartition, thread: Int) -> None:
        self._ptx, self._partition, self._thread = ptx, partition, thread
        self._source = [g for g in partition.guards if g.dim is not None and g.region is partition.src.region]
        self._target = [guard for guard in partition.guards if guard not in self._source]

    def source(self, turn: Int) -> Register | bool:
        """Return a predicate or a bool that is true if the thread's vector is in bounds in the source."""
        return self._all(self._source, turn)

    def target(self, turn: Int) -> Register | bool:
        """Return a predicate or a bool that is true if the thread has an in-bounds vector to write in this round."""
        return self._all(self._target, turn)

    def _all(self, guards: Sequence[Guard], turn: Int) -> Register | bool:
        partition = self._partition
        if type(turn) is int:  # most rounds end before the tail
            end = (turn + 1) * partition.threads * partition.vec
            guards = [g for g in guards if g.dim is not None or end > g.extent]
        if not guards:
            return True
        first = (turn * partition.threads + self._thread) * partition.vec
        return all_of(self._ptx, [range_predicate(self._ptx, g.position(first), g.size, g.ends) for g in guards])


def emit_through_registers(ptx: PtxBuilder, request: CopyRequest, partition: VectorPartition) -> None:
    """Emit the rounds of a partition in batches: first the vector loads of a batch, then its stores.

    Elements outside the source get the value that the request gives for them. Only elements inside the destination are
    written. The partition is that of the copy, or of its edge.
    """
    thread, bits = ptx.thread_index(request.scope), partition.vec_bits
    src, dst = (SideAddresses(ptx, side, partition, thread) for side in (partition.src, partition.dst))
    masks = Masks(ptx, partition, thread) if partition.guards else None
    fill, relaxed = request.fill, request.relaxed
    for batch in batches(ptx, partition.outer, bits // 32, limit=_limit(partition)):
        loaded: list[tuple[Int, Register | bool, list[Register]]] = []
        for turn in batch:
            read: Register | bool = True
            write: Register | bool = True
            if masks is not None:
                write = masks.target(turn)
                read = all_of(ptx, [masks.source(turn), write])
                write = read if fill is None else write
            if write is False:
                continue
            if read is False and fill is not None:
                registers = ptx.constant(fill, bits)
            else:
                registers = ptx.load(masked_access(src.address(turn), read, fill), bits)
            loaded.append((turn, write, registers))
        for turn, write, registers in loaded:
            ptx.store(masked_access(dst.address(turn), write), bits, registers, relaxed=relaxed)
    if partition.tail is not None:
        emit_through_registers(ptx, request, partition.tail)


def emit_cp_async(ptx: PtxBuilder, request: CopyRequest, partition: VectorPartition) -> None:
    """Emit one ``cp.async`` per round, without a commit or a wait.

    Zeros come from the instruction's ignore-src predicate, another fill is stored. Vectors narrower than 4 bytes, which
    ``cp.async`` does not copy, go through registers.
    """
    if partition.vec_bits < 32:
        emit_through_registers(ptx, request, partition)
        return
    thread, nbytes = ptx.thread_index(request.scope), partition.vec_bytes
    src, dst = (SideAddresses(ptx, side, partition, thread) for side in (partition.src, partition.dst))
    masks = Masks(ptx, partition, thread)
    outside, fill = request.outside, request.fill
    for turn in round_indices(ptx, partition.outer, limit=_limit(partition)):
        read, write = masks.source(turn), masks.target(turn)
        if write is False:
            continue
        address = dst.address(turn)
        if outside is not None and outside.is_zero and isinstance(read, Register):
            _cp_async(ptx, address, src.address(turn), nbytes, write, opposite(ptx, read))
            continue
        both = all_of(ptx, [read, write])
        if both is not False:
            _cp_async(ptx, address, src.address(turn), nbytes, both)
        if fill is not None and read is not True:
            outside_source = all_of(ptx, [opposite(ptx, read), write])
            ptx.store(masked_access(address, outside_source), nbytes * 8, ptx.constant(fill, nbytes * 8))
    if partition.tail is not None:
        emit_cp_async(ptx, request, partition.tail)


def _cp_async(
    ptx: PtxBuilder, dst: Address, src: Address, nbytes: int, mask: Register | bool, *ignore: Register
) -> None:
    """Emit ``cp.async`` for the threads of a mask; threads whose predicate ``ignore`` is true read nothing and write zeros (PTX ISA 7.5)."""
    opcode = f"cp.async.{'cg' if nbytes == 16 else 'ca'}.shared.global"
    ptx.instr(opcode, dst, src, nbytes, *ignore, guard=mask if isinstance(mask, Register) else None)


class AddressBase:
    """Addresses in one buffer. Addresses that differ by a small constant share a base register.

    ``varying`` is the base, an element offset. A swizzle is applied to each offset; in shared memory, offsets that differ by
    whole periods of it share a register. With ``whole``, the register of each address without its immediate is an address
    inside the buffer, as ``mapa`` needs it.
    """

    def __init__(
        self, ptx: PtxBuilder, buffer: Buffer, varying: Int, swizzle: Swizzle | None = None, *, whole: bool = False
    ) -> None:
        self._ptx, self._buffer, self._varying, self._swizzle, self._whole = ptx, buffer, varying, swizzle, whole
        self._elem_bytes = buffer.dtype.bits // 8
        self._period_bytes = self._elem_bytes * (1 if swizzle is None else swizzle.period_elems)
        self._first: Address | None = None
        self._origin = self._reach_bytes = 0

    def at(self, place_elems: Int) -> Address:
        """Return the address that is ``place_elems`` elements after the base offset."""
        first = self._first
        if first is not None and place_elems.__class__ is int:
            moved_bytes = (place_elems - self._origin) * self._elem_bytes
            if 0 <= moved_bytes < self._reach_bytes and not moved_bytes % self._period_bytes:
                return first + moved_bytes
        address = self._ptx.address(self._buffer, add(self._varying, place_elems), self._swizzle, whole=self._whole)
        near = self._swizzle is None or self._buffer.space == "shared"  # where an immediate reaches everything
        if first is None and type(place_elems) is int and near and not self._whole:
            self._first, self._origin = address, place_elems
            self._reach_bytes = IMMEDIATE_REACH_BYTES - address.offset_bytes
        return address


class SideAddresses:
    """Addresses that one thread accesses in one operand. For ``whole``, see :class:`AddressBase`."""

    def __init__(
        self, ptx: PtxBuilder, side: Side, partition: VectorPartition, thread: Int, *, whole: bool = False
    ) -> None:
        self._ptx, self._side, self._partition, self._thread, self._whole = ptx, side, partition, thread, whole
        follows_layout = type(side) is Side  # another class says itself where its elements lie
        self._steps = _rounds_of(side.layout.shard, partition.threads * partition.vec) if follows_layout else None
        # one iter nearly always: what along() gives, without a walk for each address
        self._stride = self._steps[0].stride if self._steps and len(self._steps) == 1 else None
        self._first = side.offset(0, thread, partition.shape) if self._steps is not None else 0
        self._places: dict[tuple[tuple[Atom, int], ...], AddressBase] = {}

    def address(self, round_index: Int) -> Address:
        """Return the address of the thread's vector in a round."""
        if self._steps is None:
            return self._of(self._side.offset(round_index, self._thread, self._partition.shape)).at(0)
        step = along(self._steps, m, round_index) if self._stride is None else round_index * self._stride
        varying, moved = (step.terms, step.const) if isinstance(step, Expr) else ((), step)
        places = self._places.get(varying)
        if places is None:
            places = self._places[varying] = self._of(add(self._first, sum_of(0, varying)))
        return places.at(moved)

    def _of(self, offset: Int) -> AddressBase:
        return AddressBase(self._ptx, self._side.region.buffer, offset, self._side.swizzle, whole=self._whole)
