"""The asynchronous copies: ``cp.async``, bulk copies and reductions, ``st.async`` (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from ..alu.atomic import atomic_operation
from ..effects import is_hint
from ..machine.machine import Machine
from ..memory import observed, profile
from ..memory_model.access import WINDOW_BITS, AccessKind, at_rank
from ..memory_model.clocks import ASYNC_GLOBAL
from ..memory_model.shadow import BARRIER_ACTOR, REDUCED, WEAK, actor_of, by_engine, is_reduction, time_of
from ..program import REGISTER_BITS, Instruction, Negated, Program
from ..threads.async_operations import Operation
from ..threads.global_arrays import GlobalArray, Reads, fetch, put
from .loads import address_reader, demand_parts, gather, immediate, names_of, shared_address, with_operands
from .operands import Handler, Lanes, Reader, Step, demand_count, is_constant, reader, refuse, writer

_WAITS = "the wait for this phase of the copy's mbarrier is missing"


def _cp(instruction: Instruction, program: Program) -> Step:
    kind = instruction.opcode[2]
    if kind in ("ca", "cg"):
        return _cp_async(instruction, program)
    if kind == "mbarrier":
        return _track(instruction, program)
    if kind == "commit_group":
        return lambda machine, lanes: machine.engines.commit(lanes)
    if kind in ("wait_group", "wait_all"):
        demand_count(instruction, 1 if kind == "wait_group" else 0)
        newest = immediate(instruction.operands[0], instruction, "the number of groups") if instruction.operands else -1
        return lambda machine, lanes: machine.engines.wait(lanes, newest)
    raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")


def _cp_async(instruction: Instruction, program: Program) -> Step:
    opcode = instruction.opcode
    operands = list(instruction.operands)
    if "L2::cache_hint" in opcode:
        operands.pop()
    if len(operands) not in (3, 4):
        raise refuse(instruction, f"cp.async takes 3 operands, or 4 with a source size, got {len(operands)}")
    size = immediate(operands[2], instruction, "the size")
    if size not in ((16,) if "cg" in opcode else (4, 8, 16)):
        raise refuse(instruction, f"the size must be {'16' if 'cg' in opcode else '4, 8 or 16'} bytes, got {size}")
    to, source = (address_reader(operand, instruction, program) for operand in operands[:2])
    part: Callable[[Any, Any], Any] | None = None
    if len(operands) == 4:
        last = operands[3]
        ignores = isinstance(last, Negated) or program.register_bits.get(str(last)) == 1
        read = reader(last, "pred" if ignores else "u32", instruction, program)
        if is_constant(last) and immediate(last, instruction, "the source size") > size:
            raise refuse(instruction, f"the source size must be at most {size} bytes, got {last}")
        if ignores:
            part = lambda machine, lanes: np.where(read(machine, lanes), 0, size)  # noqa: E731
        else:
            part = lambda machine, lanes: read(machine, lanes).astype(np.int64)  # noqa: E731

    def step(machine: Machine, lanes: Lanes) -> None:
        places = machine.shared.place(lanes, to(machine, lanes), size)
        if machine.shared.has_objects:
            machine.shared.refuse_objects(lanes, places, size)
        addresses = np.asarray(source(machine, lanes)).astype(np.uint64)
        keep = None if part is None else part(machine, lanes)
        fetch = _source(machine, lanes, addresses, size, keep)
        machine.engines.copy(lanes, places, size, fetch)
        if machine.launch.profile:
            profile.count_global(machine, lanes, addresses, size if keep is None else keep)
            profile.count_shared(machine, lanes, places, size)
        if machine.launch.observer is not None:
            observed.tell_transfer(machine, lanes, ("global", addresses), ("shared", places), size, keep)

    return step


def _source(machine: Machine, lanes: Lanes, addresses: Any, size: int, keep: Any) -> Callable[[Any], Any]:
    """Return the function that reads the bytes of a copy when it completes; check bounds, alignment and order now."""
    memory = machine.globals
    access = AccessKind("global", size)
    if keep is None:
        pieces = memory.locate(lanes, addresses, size)
        if len(pieces) == 1:
            array, _, offsets = pieces[0]
            memory.note_read(array, lanes, offsets, access, remember=False)
            one = offsets.shape[0] == 1
            array.in_flight[machine.launch.operations + 1] = [Reads(machine.in_flight, offsets, size)]
            return lambda rows: fetch(array, offsets if one else offsets[rows], size)
        keep = np.full((1, 1), size, np.int64)
    shape = (machine.size(lanes), machine.copies)
    addresses, keep = np.broadcast_to(addresses, shape), np.broadcast_to(keep, shape)
    if (keep > size).any():
        position, copy = np.argwhere(keep > size)[0]
        machine.hazard("bounds", f"the source size must be at most {size} bytes, got {int(keep[position, copy])}", lanes, int(position),
                       copy=int(copy))  # fmt: skip
    raw_parts = []
    for count in np.unique(keep[keep > 0]).tolist():
        chosen = keep == count
        rows, columns = np.nonzero(chosen)
        low = addresses[chosen] & np.uint64(size - 1)
        if low.any():
            at = int(np.argmax(low != 0))
            machine.hazard(
                "alignment", f"the global address 0x{int(addresses[chosen][at]):x} is not a multiple of {size} bytes",
                lanes, int(rows[at]), copy=int(columns[at]),
            )  # fmt: skip
        for number in np.unique(addresses[chosen] >> np.uint64(WINDOW_BITS)).tolist():
            here = chosen & (addresses >> np.uint64(WINDOW_BITS) == number)
            rows, columns = np.nonzero(here)
            target = memory.array_at(lanes, number << WINDOW_BITS, addresses, here)
            offsets = addresses[here].view(np.int64) - target.base
            bad = (offsets < 0) | (offsets + count > len(target.data))
            if bad.any():
                whole = np.zeros(shape, bool)
                whole[here] = bad
                memory.outside(lanes, target, addresses.view(np.int64) - target.base, whole, count)
            covered = -(-count // memory.cell) * memory.cell
            memory.check_read(target, lanes, offsets, covered, 0, here, remember=False)
            reads = Reads(machine.in_flight, addresses.view(np.int64) - target.base, count, here)
            target.in_flight.setdefault(machine.launch.operations + 1, []).append(reads)
            raw_parts.append((target, here, offsets, count))

    def read_parts(rows: Any) -> Any:
        raw = np.zeros((*shape, size), np.uint8)
        for target, here, offsets, count in raw_parts:
            raw[here, :count] = target.data[offsets[:, None] + np.arange(count)]
        return raw[rows]

    return read_parts


@with_operands("[shared]")
def _track(machine: Machine, lanes: Lanes, opcode: Any, address: Reader) -> None:
    places = machine.mbarriers.places(lanes, address(machine, lanes), remote=False)
    machine.engines.track(lanes, places, noinc="noinc" in opcode)


def bulk(instruction: Instruction, program: Program) -> Step:
    """Compile ``cp.async.bulk``, including ``commit_group`` and ``wait_group``."""
    opcode = instruction.opcode
    rest = [part for part in opcode[3:] if not is_hint(part)]
    operands = list(instruction.operands)
    if rest == ["commit_group"]:
        return lambda machine, lanes: machine.engines.bulk_commit(lanes)
    if rest[:1] == ["wait_group"] and rest[1:] in ([], ["read"]) and len(operands) == 1:
        newest = immediate(operands[0], instruction, "the number of groups")
        return lambda machine, lanes: machine.engines.bulk_wait(lanes, newest, read=rest[1:] == ["read"])
    masked = [operands.pop()] if "cp_mask" in rest and operands else []
    if "L2::cache_hint" in opcode and operands:
        operands.pop()
    return _bulk_copy(instruction, program, rest, [*operands, *masked], None, 1)


def bulk_reduction(instruction: Instruction, program: Program) -> Step:
    """Compile ``cp.reduce.async.bulk``."""
    opcode = instruction.opcode
    rest = [part for part in opcode[4:] if not is_hint(part)]
    noftz = "noftz" in rest
    rest = [part for part in rest if part != "noftz"]
    type, operation = rest.pop(), rest.pop()
    compute = atomic_operation(operation, type, noftz=noftz, family="cp.reduce.async.bulk")
    if compute is None:
        raise refuse(instruction, f"the bulk reduction .{operation}.{type} is not supported")
    operands = list(instruction.operands)
    if "L2::cache_hint" in opcode and operands:
        operands.pop()
    return _bulk_copy(instruction, program, rest, operands, compute, REGISTER_BITS[type] // 8)


def _bulk_copy(
    instruction: Instruction, program: Program, rest: list[str], operands: list[Any], compute: Any, element: int
) -> Step:
    multicast, masked = "multicast::cluster" in rest, "cp_mask" in rest
    rest = [part for part in rest if part not in ("multicast::cluster", "cp_mask")]
    if len(rest) != 3 or "prefetch" in rest or (masked and rest[2] != "bulk_group"):
        raise refuse(instruction, f"the bulk copy '{instruction.spelled}' is not supported")
    to_space, from_space, how = rest
    if len(operands) != (wanted := (3 if how == "bulk_group" else 4) + multicast + masked):
        raise refuse(instruction, f"this bulk copy takes {wanted} operands, got {len(operands)}")
    mask = reader(operands.pop(), "u16", instruction, program) if multicast or masked else None
    to, source = (address_reader(operand, instruction, program) for operand in operands[:2])
    size = reader(operands[2], "u32", instruction, program)
    if is_constant(operands[2]) and immediate(operands[2], instruction, "the size") % 16:
        raise refuse(instruction, f"the size of a bulk copy must be a multiple of 16 bytes, got {operands[2]}")
    barrier = address_reader(operands[3], instruction, program) if how != "bulk_group" else None

    def step(machine: Machine, lanes: Lanes) -> None:
        index = machine.index(lanes)
        sizes = machine.uniform(size(machine, lanes), lanes).astype(np.int64)
        masks = machine.uniform(mask(machine, lanes), lanes) if mask is not None else None
        targets, sources = to(machine, lanes), source(machine, lanes)
        barriers = barrier(machine, lanes) if barrier is not None else None
        for addresses, space in ((targets, to_space), (sources, from_space), (barriers, "shared")):
            if addresses is not None and space != "global":
                machine.uniform(addresses, lanes)
        for position in range(len(index)):
            one = index[position : position + 1]
            count = int(sizes[position])
            demand_bulk_size(machine, one, count)
            where, origin = row_of(targets, position), row_of(sources, position)
            phase = None if barriers is None else row_of(barriers, position)
            bits = None if masks is None else int(masks[position])
            kept = bits if masked else None
            for rank in [-1] if bits is None or masked else receivers(machine, one, bits):
                ends = (to_space, where), (from_space, origin)
                issue_copy(machine, one, count, *ends, phase, compute, element, rank, kept=kept)
            if machine.launch.profile and "global" in (to_space, from_space):
                first = np.asarray(where if to_space == "global" else origin).astype(np.uint64)
                profile.count_bulk(machine, first + np.arange(0, count, 16, dtype=np.uint64)[:, None])

    return step


def demand_bulk_size(machine: Machine, one: Any, count: int) -> None:
    """Raise a hazard if ``count`` bytes are not a valid size of a bulk copy."""
    if count % 16 or count <= 0:
        machine.hazard("alignment", f"a bulk copy's size must be a positive multiple of 16 bytes, got {count}", one)


def row_of(values: Any, position: int) -> Any:
    """Return one lane's row of ``values``. If ``values`` has one row for all lanes, return that row."""
    return values if values.shape[0] == 1 else values[position : position + 1]


def receivers(machine: Machine, one: Any, mask: int) -> list[int]:
    """Return the ranks of the CTAs whose bits are set in a multicast mask."""
    ranks = [rank for rank in range(16) if mask >> rank & 1]
    if not ranks or ranks[-1] >= machine.cluster_size:
        machine.hazard("window", f"the mask must name CTAs from 0 to {machine.cluster_size - 1}, got 0x{mask:x}", one)
    return ranks


def mbarrier_of(machine: Machine, one: Any, address: Any) -> int:
    """Return the shared-memory offset of a copy's mbarrier. Check that a fence followed ``mbarrier.init``."""
    place = int(machine.shared.place(one, address, 8, remote=True)[0])
    if not machine.mbarriers.use(one, np.array([0]), place).fenced:
        machine.engines.check_init(int(one[0]), place)
    return place


def issue_copy(
    machine: Machine, one: Any, size: int, to: tuple[str, Any], source: tuple[str, Any], phase: Any, compute: Any,
    element: int, rank: int, *, kept: int | None = None,
) -> None:  # fmt: skip
    """Check and start a bulk copy of one lane. ``phase`` is the mbarrier's address, or None for a copy in a bulk group.

    ``kept``: for a copy to global memory, the mask of the bytes that are written of each 16; None for all.
    """
    lane, shared = int(one[0]), machine.shared
    kind = "bulk reduction" if compute is not None else "bulk copy"
    data: dict[str, Any] = {"compute": compute, "element": element, "kept": None}
    reads = writes = in_flight = array_write = None
    ctas: list[int] = []
    barrier = -1
    if phase is not None:
        barrier = mbarrier_of(machine, one, at_rank(phase, rank))
    sent = shared.place(one, source[1], size, aligned=16) if source[0] != "global" else None
    received = None
    if to[0] != "global":
        received = shared.place(one, at_rank(to[1], rank), size, remote=to[0] == "shared::cluster", aligned=16)
    steps = np.arange(0, size, 16)  # the size is valid for shared memory
    if sent is not None:
        place_from = "shared", sent
        reads = check_sent(machine, one, sent, size)
        data["place_from"] = sent + steps
        ctas.append(int(sent[0]) // shared.size)
    else:
        array, offsets = global_bytes(machine, one, source[1], size)
        place_from = "global", source[1]
        check_read_global(machine, one, array, [Piece.of(machine, offsets, size)])
        data["array_from"], data["offsets_from"] = array, offsets + steps[:, None]
        in_flight = [Reads(machine.in_flight, offsets, size)]
    if received is None:
        array, offsets = global_bytes(machine, one, to[1], size)
        place_to = "global", to[1]
        pieces = [Piece.of(machine, offsets, size)]
        if kept is not None:
            chosen = [byte for byte in range(16) if kept >> byte & 1]
            pieces = [Piece.of(machine, offsets + at + byte, 1) for at in steps.tolist() for byte in chosen]
            data["compute"] = _of_mask(kept)
        array_write = check_written_global(machine, one, array, pieces, reduces=compute is not None)
        data["array_to"], data["offsets_to"] = array, offsets + steps[:, None]
    else:
        place_to, cta = ("shared", received), int(received[0]) // shared.size
        if source[0] != "global" and cta == lane // machine.threads:
            what = "the destination of a bulk copy must be in another CTA of the cluster, got the executing CTA"
            machine.hazard("window", what, one)
        if barrier // shared.size != cta:
            machine.hazard("window", "a bulk copy's mbarrier must be in the destination's CTA, got another CTA", one)
        writes = check_received(machine, one, received, size, reduces=compute is not None)
        data["place_to"] = received + steps
        ctas.append(cta)
    start_operation(
        machine, lane, kind, reads=reads, writes=writes, barrier=barrier, size=size, ctas=tuple(ctas),
        array_write=array_write, in_flight=in_flight, data=data, reduces=compute is not None,
    )  # fmt: skip
    if machine.launch.observer is not None:
        observed.tell_transfer(machine, one, place_from, place_to, size)


def _of_mask(mask: int) -> Callable[[Any, Any], Any]:
    """Return the function that replaces only the bytes of each 16 whose bit is set."""
    chosen = np.array([mask >> byte & 1 for byte in range(16)], bool)[:, None]
    return lambda old, new: np.where(chosen, new, old)


@attrs.frozen
class Piece:
    """A frozen record of the pieces of global memory that one lane's copy accesses. All pieces have the same size.

    ``chosen``: the mask of pieces and clusters; ``offsets``: of these in the array; ``size``: bytes of each.
    """

    chosen: Any
    offsets: Any
    size: int

    @classmethod
    def of(cls, machine: Machine, offsets: Any, size: int) -> Piece:
        """Return a record of one piece of ``size`` bytes per cluster. ``offsets``: byte offsets in the array."""
        return cls(np.ones((1, machine.copies), bool), np.broadcast_to(offsets, (1, machine.copies)).ravel(), size)

    def reads(self, machine: Machine) -> Reads:
        """Return the pieces as a :class:`Reads`, the bytes that an operation in flight reads."""
        offsets = np.zeros(self.chosen.shape, np.int64)
        offsets[self.chosen] = self.offsets
        return Reads(machine.in_flight, offsets, self.size, self.chosen)

    def cells(self, machine: Machine, one: Any, array: GlobalArray) -> tuple[Any, Any]:
        """Return the pieces' shadow-memory cells, and for each cell the grid number of the thread that accesses it."""
        cells, cells_per_offset = machine.globals.cells(array, self.offsets, self.size)
        threads = np.broadcast_to(machine.grid_thread[int(one[0])], self.chosen.shape)[self.chosen]
        return cells, np.repeat(threads, cells_per_offset)


def check_read_global(machine: Machine, one: Any, array: GlobalArray, pieces: Sequence[Piece]) -> None:
    """Check that a copy engine may read global bytes: earlier writes are ordered, and a proxy fence followed them."""
    if array.shadow is None:
        return
    for piece in pieces:
        cells, threads = piece.cells(machine, one, array)
        stamps = array.shadow.writer[cells]
        check_proxy_global(machine, one, array, cells, stamps, ordinary(machine, stamps, threads), "read")
        lanes = np.repeat(one, len(piece.chosen))
        machine.globals.check_read(array, lanes, piece.offsets, piece.size, 0, piece.chosen, remember=False)


def check_written_global(
    machine: Machine, one: Any, array: GlobalArray, pieces: Sequence[Piece], *, reduces: bool
) -> tuple[GlobalArray, Any, Any]:
    """Check that a copy engine may write global bytes. Return ``array_write`` for the new :class:`Operation`."""
    if not array.writable or array.space != "global":
        machine.hazard("read-only", f"the destination {array.name} must be writable, but it is read-only", one)
    shadow, cells_by_piece = machine.globals.shadow_of(array), [piece.cells(machine, one, array) for piece in pieces]
    before = [shadow.writer[cells] for cells, _ in cells_by_piece]
    for number, (cells, _) in enumerate(cells_by_piece if reduces else ()):
        met = is_reduction(before[number])
        if machine.copies > 1 and (met.any() or len(np.unique(cells)) < len(cells)):
            machine.demand_single()
        before[number] = np.where(met, 0, before[number])
    plain = [ordinary(machine, stamps, threads) for stamps, (_, threads) in zip(before, cells_by_piece, strict=True)]
    flat, strength = [], REDUCED if reduces else WEAK
    for number, (piece, (cells, _)) in enumerate(zip(pieces, cells_by_piece, strict=True)):
        lanes = np.repeat(one, len(piece.chosen))
        machine.globals.check_write(array, lanes, piece.offsets, piece.size, strength, piece.chosen)
        check_proxy_global(machine, one, array, cells, before[number], plain[number], "written")
        by_copy = cells.reshape(-1, machine.copies, len(cells) // len(piece.offsets))
        flat.append(by_copy.swapaxes(1, 2).reshape(-1, machine.copies))
    none = np.zeros((0, machine.copies), np.int64)
    return array, flat[0] if len(flat) == 1 else np.concatenate([none, *flat]), machine.grid_thread[int(one[0])]


def check_sent(machine: Machine, one: Any, places: Any, size: int) -> Any:
    """Check that a copy engine may read shared bytes. Return the shadow-memory cells of the bytes."""
    machine.shared.check_read(np.repeat(one, len(places)), places, size, remember=False)
    cells, _ = machine.shared.cells_from(places, size)
    machine.engines.check_proxy(int(one[0]), cells, "read")
    return cells


def check_received(machine: Machine, one: Any, places: Any, size: int, *, reduces: bool = False) -> Any:
    """Check that a copy engine may write or reduce shared bytes. Return the shadow-memory cells of the bytes."""
    shared = machine.shared
    if shared.has_objects:
        starts = (places[:, None] + np.arange(0, size, 16)).ravel()
        shared.refuse_objects(np.repeat(one, len(starts)), starts, 16)
    cells, _ = shared.cells_from(places, size)
    before = shared.shadow.writer[cells].copy()
    shared.check_write(np.repeat(one, len(places)), places, size, REDUCED if reduces else WEAK)
    machine.engines.check_proxy(int(one[0]), cells, "written", stamps=before)
    return cells


def start_operation(
    machine: Machine, lane: int, kind: str, *, barrier: int = -1, in_flight: list[Reads] | None = None, **rest: Any
) -> None:
    """Start an asynchronous operation whose bytes were checked before. It completes on an mbarrier or in a bulk group.

    ``in_flight``: the operation's reads of its source array; for the others see :class:`Operation`.
    """
    group = int(machine.engines.bulk_committed[lane]) if barrier < 0 else -1
    clock = machine.order.causes(lane) if group < 0 else None
    operation = machine.engines.start(
        kind, lane, partial(complete, machine), _WAITS, barrier=barrier, group=group, clock=clock,
        explain=machine.engines.bulk_lack if group >= 0 else None, **rest,
    )  # fmt: skip
    machine.engines.begin(operation)
    if in_flight is not None:
        operation.data["array_from"].in_flight[operation.number] = in_flight
    if group < 0:
        machine.engines.pending.append(operation)


def global_bytes(machine: Machine, one: Any, addresses: Any, size: int) -> tuple[Any, Any]:
    """Check that addresses are multiples of 16 bytes. Return the global array, and the byte offsets in the array."""
    addresses = np.asarray(addresses).astype(np.uint64)
    machine.demand_aligned(one, addresses, 16, "the global address {}")
    window = addresses >> np.uint64(WINDOW_BITS)
    if not (window == window.flat[0]).all():
        machine.demand_single()
    array = machine.globals.array_at(one, int(addresses.flat[0]), addresses)
    offsets = addresses.view(np.int64) - array.base
    bad = (offsets < 0) | (offsets + size > len(array.data))
    if bad.any():
        machine.globals.outside(one, array, offsets, bad, size)
    return array, offsets


def ordinary(machine: Machine, stamps: Any, threads: Any) -> Any:
    """Return the indices of the writes in ``stamps`` that need a proxy fence before the async proxy's access."""
    written = np.nonzero(stamps)[0]
    if not len(written):
        return written
    actor = actor_of(stamps[written])
    own_writes = by_engine(stamps[written]) & (actor == threads[written])  # the thread has waited for it
    plain = written[(actor < BARRIER_ACTOR) & ~own_writes]
    if len(plain):
        machine.demand_single()
    return plain


def check_proxy_global(
    machine: Machine, one: Any, array: GlobalArray, cells: Any, stamps: Any, plain: Any, action: str
) -> None:
    """Check that a proxy fence followed each write in ``plain``, the indices that :func:`ordinary` returned."""
    if not len(plain):
        return
    actor = actor_of(stamps)
    order, size = machine.order, machine.threads
    columns = actor[plain] % size + order.section_at[ASYNC_GLOBAL]
    known = order.covers(np.full(len(plain), one[0]), actor[plain] // size, columns, time_of(stamps[plain]))
    if not known.all():
        at = int(plain[np.argmin(known)])
        who = machine.launch.name_of(int(actor[at]))
        first = int(cells[at]) * machine.globals.cell - array.skew
        machine.hazard(
            "proxy", f"{array.where(first)} is {action} by the async proxy with no fence.proxy.async of global memory since "
            f"it was written by {who}", one, threads=(who,),
        )  # fmt: skip


def complete(machine: Machine, operation: Operation) -> None:
    """Complete an asynchronous copy or reduction: write the bytes, and signal the mbarrier if there is one."""
    data, shared = operation.data, machine.shared
    if "row" in data:
        raw = data["row"]
    elif "array_from" in data:
        raw = _fetch(data["array_from"], data["offsets_from"], data)
    else:
        raw = shared.fetch(data["place_from"], 16)
    machine.launch.version += 1
    if "array_to" in data:
        _put(data["array_to"], data["offsets_to"], np.broadcast_to(raw, (len(raw), machine.copies, 16)), data)
        return
    places = data["place_to"]
    shared.put(places, raw if data["compute"] is None else _combine(data, shared.fetch(places, raw.shape[2]), raw))
    machine.engines.complete_on_mbarrier(operation)


def _fetch(array: GlobalArray, offsets: Any, data: dict[str, Any]) -> Any:
    kept = data["kept"]
    if kept is None or (kept == 16).all():
        return fetch(array, offsets, 16)
    raw, kept = np.tile(data["fill"], (*offsets.shape, 1)), np.broadcast_to(kept, offsets.shape)
    for count in np.unique(kept[kept > 0]).tolist():
        chosen = kept == count
        raw[chosen, :count] = array.data[offsets[chosen][:, None] + np.arange(count)]
    return raw


def _put(array: GlobalArray, offsets: Any, raw: Any, data: dict[str, Any]) -> None:
    kept, offsets = data["kept"], np.broadcast_to(offsets, raw.shape[:2])
    if kept is None and data["compute"] is None:
        put(array, offsets, raw)
        return
    kept = np.full(len(raw), 16) if kept is None else kept[:, 0]
    for copy in range(raw.shape[1]):  # one after another, because they may add to the same bytes
        for count in np.unique(kept[kept > 0]).tolist():
            pieces = np.arange(0, count, data["element"])
            at = offsets[kept == count, copy][:, None] + pieces
            new = raw[kept == count, copy, :count].reshape(*at.shape, -1)
            put(array, at, _combine(data, fetch(array, at, data["element"]), new))


def _combine(data: dict[str, Any], old: Any, raw: Any) -> Any:
    if data["compute"] is None:
        return raw
    kind = f"u{data['element']}"
    old, raw = np.ascontiguousarray(old), np.ascontiguousarray(np.broadcast_to(raw, old.shape))
    return np.ascontiguousarray(data["compute"](old.view(kind), raw.view(kind))).view(np.uint8)


def _red_async(instruction: Instruction, program: Program) -> Step:
    """Compile ``red.async``, a relaxed operation of cluster scope at the destination."""
    *parts, operation, type = instruction.opcode
    compute = atomic_operation(operation, type, family="red.async")
    known = {"red", "async", "relaxed", "cluster", "shared::cluster", "mbarrier::complete_tx::bytes"}
    if compute is None or operation in ("exch", "cas") or not set(parts) <= known or REGISTER_BITS[type] < 32:
        raise refuse(instruction, f"the form '{instruction.spelled}' is not supported")
    return _send(instruction, program, type, 1, compute)


def _st_async(instruction: Instruction, program: Program) -> Step:
    known = {"async", "weak", "shared::cluster", "mbarrier::complete_tx::bytes", "v2", "v4"}
    type = instruction.opcode[-1]
    demand_parts(instruction, known | {"b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64"})
    count = 4 if "v4" in instruction.opcode else 2 if "v2" in instruction.opcode else 1
    return _send(instruction, program, type, count, None)


def _send(instruction: Instruction, program: Program, type: str, count: int, compute: Any) -> Step:
    """Compile a store (or with ``compute`` an atomic) that counts its bytes on an mbarrier in the CTA of its destination."""
    kind = ".".join(instruction.opcode[:2])
    demand_count(instruction, 3)
    destination, values, barrier = instruction.operands
    readers = [reader(name, type, instruction, program) for name in names_of(values, count, instruction)]
    to, phase = (shared_address(operand, instruction, program) for operand in (destination, barrier))
    dtype = np.dtype(f"u{REGISTER_BITS[type] // 8}")
    size = count * dtype.itemsize

    def step(machine: Machine, lanes: Lanes) -> None:
        elements = gather(machine, lanes, readers, dtype)
        index, shared = machine.index(lanes), machine.shared
        places = shared.place(lanes, to(machine, lanes), size, remote=True)
        barriers = shared.place(lanes, phase(machine, lanes), 8, remote=True)
        for position, lane in enumerate(index.tolist()):
            one = index[position : position + 1]
            place, where = places[position : position + 1], int(barriers[position])
            machine.mbarriers.use(lanes, np.array([position]), where)
            if where // shared.size != int(place[0]) // shared.size:
                machine.hazard("window", f"{kind} must have its mbarrier in the destination CTA, got another CTA", one)
            if compute is not None and int(place[0]) // shared.size == lane // machine.threads:
                machine.hazard("window", "red.async must write to another CTA, got the executing CTA", one)
            cells, _ = shared.cells_from(place, size)
            shared.check_write(one, place, size, WEAK if compute is None else REDUCED)
            row = row_of(elements, position)
            start_operation(
                machine, lane, kind, writes=cells, barrier=where, size=size, ctas=(int(place[0]) // shared.size,),
                reduces=compute is not None, data={"place_to": place, "row": row, "compute": compute, "element": dtype.itemsize},
            )  # fmt: skip
        if machine.launch.observer is not None:
            observed.tell_access(machine, "store" if compute is None else "atomic", lanes, ("shared", places), elements)

    return step


_RESPONSE_BYTES = 16


def _try_cancel(instruction: Instruction, program: Program) -> Step:
    """Compile a request to cancel a cluster, which always fails because all clusters have started; its response is zeros.

    A CTA must not make another request after it has seen one fail.
    """
    demand_count(instruction, 2)
    to_all = "multicast::cluster::all" in instruction.opcode
    address = address_reader if to_all else shared_address  # that form takes shared addresses without naming the space
    to, phase = (address(operand, instruction, program) for operand in instruction.operands)

    def step(machine: Machine, lanes: Lanes) -> None:
        shared, index = machine.shared, machine.index(lanes)
        targets, barriers = to(machine, lanes), phase(machine, lanes)
        what = "a CTA must not execute try_cancel again after is_canceled was false: stop at the first failed request"
        machine.hazard_where(machine.engines.refused[machine.cta_of[index]], "lifetime", what, lanes)
        for position, lane in enumerate(index.tolist()):
            one = index[position : position + 1]
            for rank in range(machine.cluster_size) if to_all else [-1]:
                where = at_rank(row_of(targets, position), rank)
                place = shared.place(one, where, _RESPONSE_BYTES, remote=to_all, aligned=_RESPONSE_BYTES)
                barrier = mbarrier_of(machine, one, at_rank(row_of(barriers, position), rank))
                response = np.zeros((1, 1, _RESPONSE_BYTES), np.uint8)
                start_operation(
                    machine, lane, "clusterlaunchcontrol.try_cancel", barrier=barrier, size=_RESPONSE_BYTES,
                    writes=check_received(machine, one, place, _RESPONSE_BYTES), ctas=(int(place[0]) // shared.size,),
                    data={"place_to": place, "row": response, "compute": None},
                )  # fmt: skip

    return step


def _query_cancel(instruction: Instruction, program: Program) -> Step:
    """Compile a query of whether a request succeeded, or of the id of the cancelled CTA, which a failed one does not have."""
    demand_count(instruction, 2)
    result, response = instruction.operands
    readers = [reader(half, "b64", instruction, program) for half in names_of(response, 2, instruction)]
    if "is_canceled" in instruction.opcode:
        write = writer(result, "pred", instruction, program)

        def ask(machine: Machine, lanes: Lanes) -> None:
            canceled = readers[0](machine, lanes) | readers[1](machine, lanes) != 0
            failed = ~machine.uniform(canceled, lanes)
            machine.engines.refused[machine.cta_of[machine.index(lanes)][failed]] = True
            write(machine, lanes, canceled)

        return ask
    names = names_of(result, 4 if "v4" in instruction.opcode else 1, instruction)
    for name in names:
        writer(name, "b32", instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        for read in readers:
            read(machine, lanes)
        for name in names:
            machine.undefine(name, machine.index(lanes))

    return step


INSTRUCTIONS: dict[str, Handler] = {
    "clusterlaunchcontrol.try_cancel": _try_cancel,
    "clusterlaunchcontrol.query_cancel": _query_cancel,
    "cp": _cp,
    "st.async": _st_async,
    "red.async": _red_async,
}
