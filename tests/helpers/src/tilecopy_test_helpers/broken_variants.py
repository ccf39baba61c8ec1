"""A corpus of broken variants: each is a correct design with one fault, and a fault is a row of data.

A row changes the record, one of the hooks, or what the builder does when the design's emit hook asks it for something.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from typing import Any

import attrs
import tilecopy as tc

from tilecopy_core.integers import substitute, symbols_of
from tilecopy_core.plugin import CopyRequest, PtxBuilder, TileLayout, Variant, hookimpl
from tilecopy_core.registry import VARIANTS_GROUP, installed_sources
from tilecopy_partitions import mbarrier_of, opposite

from . import third_party_variants

Emit = Callable[[Any, CopyRequest, Any, Any], None]


def design(name: str) -> Any:
    """A correct variant: one of third_party_variants, or an installed one."""
    if hasattr(third_party_variants, name):
        return getattr(third_party_variants, name)
    return next(source for source in installed_sources(VARIANTS_GROUP) if source.name == name).load()


@attrs.frozen
class Fault:
    """One broken variant.

    Attributes:
        name: what is wrong.
        base: the design that it is made from.
        record: what becomes of the record.
        predicate: given the design and a request, the verdict.
        partition: given the request and the design's partition, another.
        emit: given the design, request, partition and builder, writes.
        builder: methods of the builder that do something else: given the builder and the arguments.
        examples: copies that each rule is held against; more for what few copies show.
        by: the proof that is to catch it, and that alone is tried; "" where any may.
    """

    name: str
    base: str
    record: Callable[[Variant], Variant] = lambda record: record
    predicate: Callable[[Any, CopyRequest], Any] = lambda base, request: base.tilecopy_predicate(request)
    partition: Callable[[CopyRequest, Any], Any] = lambda request, partition: partition
    emit: Emit = lambda base, request, partition, ptx: base.tilecopy_emit(request, partition, ptx)
    builder: dict[str, Callable[..., Any]] = attrs.field(factory=dict)
    by: str = ""
    examples: int = 60


class Builder:
    """The PTX builder with some methods replaced."""

    def __init__(self, ptx: Any, replaced: dict[str, Callable[..., Any]]) -> None:
        self._ptx, self._replaced = ptx, replaced

    @property
    def __class__(self) -> type:  # type: ignore[override]
        """A builder for whoever asks: the core refuses what is none."""
        return PtxBuilder

    def __getattr__(self, name: str) -> Any:
        if name in self._replaced:
            return lambda *given, **named: self._replaced[name](self._ptx, *given, **named)
        return getattr(self._ptx, name)


class Broken:
    """The plugin of a fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault, self._base = fault, design(fault.base)
        self.variant = fault.record(self._base.variant)

    @hookimpl
    def tilecopy_predicate(self, request: CopyRequest) -> Any:
        return self._fault.predicate(self._base, request)

    @hookimpl
    def tilecopy_partition(self, request: CopyRequest) -> Any:
        partition = self._base.tilecopy_partition(request)
        return partition if isinstance(partition, tc.Decline) else self._fault.partition(request, partition)

    @hookimpl
    def tilecopy_emit(self, request: CopyRequest, partition: Any, ptx: Any) -> None:
        self._fault.emit(self._base, request, partition, Builder(ptx, self._fault.builder))


# ------------------------------------------------------------------------------------------------- ways of going wrong

evolve = attrs.evolve


def records(**changes: Any) -> Callable[[Variant], Variant]:
    """The record with other fields; completion steps follow the completion."""
    if "completion" in changes:
        changes.setdefault("completion_steps", ("wait for it",))
    return lambda record: evolve(record, **changes)


def rounds_of(partition: Any, change: Callable[[Any], Any]) -> Any:
    """A partition with its rounds changed, whether it is one of vectors or holds one."""
    return (
        evolve(partition, rounds=change(partition.rounds))
        if hasattr(partition, "rounds") and not isinstance(partition.rounds, int)
        else change(partition)
    )


def side(which: str, change: Callable[[Any], Any]) -> Callable[[CopyRequest, Any], Any]:
    """One operand of the rounds changed."""
    return lambda request, partition: rounds_of(
        partition, lambda rounds: evolve(rounds, **{which: change(getattr(rounds, which))})
    )


def without_swizzle(operand: Any) -> Any:
    return evolve(operand, layout=operand.layout.unswizzled)


def without_offset(operand: Any) -> Any:
    layout = operand.layout
    return evolve(operand, layout=TileLayout.of(layout.shard, layout.replica, {}, layout.swizzle))


def without_variables(operand: Any) -> Any:
    return without_symbols(operand, lambda symbol: True)


def shifted(operand: Any) -> Any:
    layout = operand.layout
    offset = {tc.m: layout.offset_on(tc.m) + 1}
    return evolve(operand, layout=TileLayout.of(layout.shard, layout.replica, offset, layout.swizzle))


def fewer_rounds(request: CopyRequest, partition: Any) -> Any:
    return rounds_of(partition, lambda rounds: evolve(rounds, outer=rounds.outer - 1) if rounds.outer > 1 else rounds)


def narrow(request: CopyRequest, partition: Any) -> Any:
    elem = request.dst.buffer.dtype.bits
    if partition.vec == 1 or partition.guards or partition.tail:
        return partition
    return evolve(partition, outer=partition.outer * partition.vec, vec=1, vec_bits=elem)


def single_words(request: CopyRequest, partition: Any) -> Any:
    times = partition.vec_bits // 32
    if times < 2 or request.dst.buffer.dtype.bits > 32:
        return partition
    return evolve(partition, outer=partition.outer * times, vec=partition.vec // times, vec_bits=32)


def wide(request: CopyRequest, partition: Any) -> Any:
    if partition.outer % 2 or partition.vec_bits >= 128:
        return partition
    return evolve(partition, outer=partition.outer // 2, vec=partition.vec * 2, vec_bits=partition.vec_bits * 2)


def first_thread(ptx: Any, scope: Any) -> Any:
    return 0


def first_thread_alone(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    with ptx.if_(ptx.predicate(ptx.tid == 0)) if ptx.cta_threads > 1 else nullcontext():
        base.tilecopy_emit(request, partition, ptx)


def twice(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    base.tilecopy_emit(request, partition, ptx)
    base.tilecopy_emit(request, partition, ptx)


def then(*opcodes: str) -> Emit:
    """The design's instructions, then some more."""

    def emit(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
        base.tilecopy_emit(request, partition, ptx)
        for opcode in opcodes:
            name, _, operand = opcode.partition(" ")
            ptx.instr(name, *([int(operand)] if operand else []))

    return emit


def reads_on(space: str) -> Callable[..., Any]:
    """Each load is followed by one of the next bytes, where the immediate allows it."""

    def load(ptx: Any, source: Any, bits: int, into: Any = None, **more: Any) -> Any:
        found = ptx.load(source, bits, into, **more)
        address = getattr(source, "address", source)
        if address.space == space and bits <= 64:
            ptx.load(address + bits // 8, bits, ptx.regs("b64", 1) if bits == 64 else None, **more)
        return found

    return load


def forgets_storage_offset(ptx: Any, buffer: Any, offset: Any = 0, *more: Any, **named: Any) -> Any:
    start = buffer.storage_offset
    return ptx.address(buffer, offset - start if isinstance(start, int) else offset, *more, **named)


def forgets_swizzle(ptx: Any, buffer: Any, offset: Any = 0, swizzle: Any = None, **named: Any) -> Any:
    return ptx.address(buffer, offset, None, **named)


def one_element_on(space: str) -> Callable[..., Any]:
    def address(ptx: Any, buffer: Any, offset: Any = 0, *more: Any, **named: Any) -> Any:
        return ptx.address(buffer, offset + 1 if buffer.space == space else offset, *more, **named)

    return address


def raises_for(bits: int) -> Emit:
    def emit(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
        base.tilecopy_emit(request, partition, {64: None}[bits] if request.dst.buffer.dtype.bits == bits else ptx)

    return emit


def without_edge(request: CopyRequest, partition: Any) -> Any:
    return evolve(partition, edge=None)


def edge_one_off(request: CopyRequest, partition: Any) -> Any:
    if partition.edge is None:
        return partition
    guards = tuple(evolve(g, size=g.size + 1) if g.dim is not None else g for g in partition.edge.guards)
    return evolve(partition, edge=evolve(partition.edge, guards=guards))


def fills(words: tuple[int, ...]) -> Emit:
    """Another fill than the request's."""

    def emit(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
        if request.outside is not None and request.outside.kind == "fill":
            request = evolve(request, outside=evolve(request.outside, words=words))
        base.tilecopy_emit(request, partition, ptx)

    return emit


def keeps_nothing(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    if request.outside is not None and request.outside.kind == "keep":
        request = evolve(request, outside=0)
    base.tilecopy_emit(request, partition, ptx)


_COUNTER = count()


def alternates(base: Any, request: CopyRequest) -> Any:
    return tc.Decline("not this time, perhaps next") if next(_COUNTER) % 2 else base.tilecopy_predicate(request)


def dear(base: Any, request: CopyRequest) -> Any:
    sum(1 for _ in range(10**6))
    return base.tilecopy_predicate(request)


def chatty(base: Any, request: CopyRequest) -> Any:
    print("asked")
    return base.tilecopy_predicate(request)


def curious(base: Any, request: CopyRequest) -> Any:
    return tc.Decline("it is off today") if os.environ.get("BROKEN_OFF") else base.tilecopy_predicate(request)


def monosyllabic(base: Any, request: CopyRequest) -> Any:
    answer = base.tilecopy_predicate(request)
    return answer if answer else tc.Decline("no")


def literal(base: Any, request: CopyRequest) -> Any:
    int(request.src.starts[-1])  # of a symbolic start there is no int
    return base.tilecopy_predicate(request)


def meddles(base: Any, request: CopyRequest) -> Any:
    object.__setattr__(request, "outside", None)
    object.__setattr__(request, "may_exceed_bounds", False)
    return base.tilecopy_predicate(request)


@attrs.frozen
class Numbered:
    """A partition that is another at every call."""

    number: int

    def summary(self) -> str:
        return f"number {self.number}"


@attrs.frozen
class Untold:
    """A partition whose summary fails, or has two lines."""

    kept: Any
    text: str

    def summary(self) -> str:
        return self.text if self.text else {}["nothing"]


@attrs.frozen
class Wordless:
    """A partition without a summary."""

    kept: Any


@attrs.frozen
class Unpaired:
    """A partition whose moves are no pairs of places."""

    kept: Any

    def summary(self) -> str:
        return "kept"

    def moves(self, request: CopyRequest, values: Any) -> Iterator[int]:
        yield 3


@attrs.frozen
class Closure:
    """A partition that cannot be pickled."""

    kept: Callable[[], Any] = attrs.field(eq=False)

    def summary(self) -> str:
        return "kept"


def kept_emit(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    kept = partition.kept
    base.tilecopy_emit(request, kept() if callable(kept) else kept, ptx)


def numbered_emit(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    base.tilecopy_emit(request, base.tilecopy_partition(request), ptx)


def counting(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    ptx.comment(f"copy number {next(_COUNTER)}")
    base.tilecopy_emit(request, partition, ptx)


def hashing(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    for name in set(map(str, range(5))):  # the order of a set is that of hashes
        ptx.comment(name)
    base.tilecopy_emit(request, partition, ptx)


def chatty_emit(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    print(partition)
    base.tilecopy_emit(request, partition, ptx)


def rewrites(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    base.tilecopy_emit(request, partition, ptx)
    object.__setattr__(partition, "narrowed", ("emitted",))


def uses_another_tile(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    ptx.raw("{ .reg .b32 at; mov.u32 at, smem_decoy_tile; st.shared.u32 [at], at; }")
    base.tilecopy_emit(request, partition, ptx)


def nothing(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    ptx.instr("mov.b32", ptx.reg("b32"), 0)


def answers(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> Any:
    base.tilecopy_emit(request, partition, ptx)
    raise KeyError("done")


def half_of_cp_async(ptx: Any, opcode: str, dst: Any, src: Any, nbytes: int, *ignore: Any, **more: Any) -> None:
    ptx.instr(opcode.replace(".cg", ".ca"), dst, src, nbytes // 2 if nbytes > 4 else nbytes, *ignore, **more)


def inverted_ignore(ptx: Any, opcode: str, dst: Any, src: Any, nbytes: int, *ignore: Any, **more: Any) -> None:
    ptx.instr(opcode, dst, src, nbytes, *[opposite(ptx, each) for each in ignore], **more)


def by_registers(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    from tilecopy_partitions import emit_through_registers, emit_with_edges

    emit_with_edges(ptx, partition, request.scope, lambda part: emit_through_registers(ptx, request, part))


def backwards_registers(request: CopyRequest, partition: Any) -> Any:
    if partition.outer < 2:
        return partition
    registers, iters = partition.registers, list(partition.registers.shard)
    last = sum((it.extent - 1) * it.stride for it in iters) + 1 - partition.vec
    mirrored = [evolve(it, stride=-it.stride) if it.stride >= partition.vec else it for it in iters]
    moved = TileLayout.of(tuple(mirrored), (), {tc.m: registers.offset_on(tc.m) + last})
    return evolve(partition, registers=moved)


def digits_changed(change: Callable[[Any], Any]) -> Callable[[CopyRequest, Any], Any]:
    return lambda request, partition: evolve(partition, digits=change(partition.digits))


def memory(change: Callable[[TileLayout], TileLayout]) -> Callable[[CopyRequest, Any], Any]:
    return lambda request, partition: evolve(partition, memory=change(partition.memory))


def register_on(request: CopyRequest, partition: Any) -> Any:
    registers = partition.registers
    moved = TileLayout.of(registers.shard, (), {tc.m: registers.offset_on(tc.m) + partition.vec})
    return evolve(partition, registers=moved)


def rank(change: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    def instr(ptx: Any, opcode: str, *operands: Any, **more: Any) -> None:
        changed = (*operands[:-1], change(operands[-1])) if opcode.startswith("mapa") else operands
        ptx.instr(opcode, *changed, **more)

    return {"instr": instr}


def own_barrier(ptx: Any, opcode: str, dst: Any, src: Any, nbytes: int, barrier: Any) -> None:
    ptx.instr(opcode, dst, src, nbytes, dst)


def half_chunk(ptx: Any, opcode: str, dst: Any, src: Any, nbytes: int, barrier: Any) -> None:
    ptx.instr(opcode, dst, src, nbytes - 16 if nbytes > 16 else nbytes, barrier)


def descriptor(**changes: Callable[[Any], Any]) -> Callable[[CopyRequest, Any], Any]:
    """Fields of the matrix descriptor changed."""
    return lambda request, partition: evolve(
        partition,
        descriptor=evolve(
            partition.descriptor,
            **{name: change(getattr(partition.descriptor, name)) for name, change in changes.items()},
        ),
    )


def atoms(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Callable[[CopyRequest, Any], Any]:
    return lambda request, partition: evolve(partition, atoms=change(partition.atoms))


def undeclared_option(base: Any, request: CopyRequest) -> Any:
    return base.tilecopy_predicate(request) if request.options["hint"] else tc.Decline("no hint was given")


def optional(*names: str) -> Callable[[Variant], Variant]:
    return lambda record: evolve(
        record,
        options=tuple(evolve(option, required=False) if option.name in names else option for option in record.options),
    )


def guard_too_far(ptx: Any, condition: Any) -> Any:
    return (
        ptx.predicate(type(condition)("<=", condition.left, condition.right))
        if condition.op == "<"
        else ptx.predicate(condition)
    )


def _true(ptx: Any) -> Any:
    found = ptx.reg("pred")
    ptx.instr("setp.eq.s32", found, ptx.value(ptx.tid, 32), ptx.value(ptx.tid, 32))
    return found


def raw(*lines: str) -> Emit:
    """The design's instructions, then some text."""

    def emit(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
        base.tilecopy_emit(request, partition, ptx)
        for line in lines:
            ptx.raw(line)

    return emit


def issuer_waits(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    """The design's instructions, then a wait of the issuing thread alone: the other threads still need theirs."""
    base.tilecopy_emit(request, partition, ptx)
    if (mbar := mbarrier_of(request)) is not None:
        again, complete = ptx.new_label("again"), ptx.reg("pred")
        ptx.place(again)
        ptx.instr("mbarrier.try_wait.parity.shared::cta.b64", complete, ptx.element(mbar), 0)
        ptx.instr("bra", again, guard=complete, unless=True)


# ------------------------------------------------------------------------------------------------- of the second round


def scalars_alone(operand: Any) -> Any:
    """The operand without the scalar argument; CTAs, turns and threads still count."""
    return without_symbols(operand, lambda symbol: symbol.name == "n")


def turns_alone(operand: Any) -> Any:
    """The operand as it is in the loop's first turn."""
    return without_symbols(operand, lambda symbol: "loop" in symbol.name)


def without_symbols(operand: Any, which: Callable[[Any], bool]) -> Any:
    layout = operand.layout
    start = layout.offset_on(tc.m)
    offset = {tc.m: substitute(start, {symbol: 0 for symbol in symbols_of(start) if which(symbol)})}
    return evolve(operand, layout=TileLayout.of(layout.shard, layout.replica, offset, layout.swizzle))


def half_as_wide(request: CopyRequest, partition: Any) -> Any:
    if partition.vec == 1 or partition.guards or partition.edge:
        return partition
    return evolve(partition, outer=partition.outer * 2, vec=partition.vec // 2, vec_bits=partition.vec_bits // 2)


def pops_options(base: Any, request: CopyRequest) -> Any:
    answer = base.tilecopy_predicate(request)
    request.options._values.clear()
    return answer


def whatever_the_launch(base: Any, request: CopyRequest) -> Any:
    return base.tilecopy_predicate(evolve(request, cluster=None, cta_group=None))


def launch_known(base: Any, request: CopyRequest) -> Any:
    return tc.Decline("the cluster is not known") if request.cluster is None else base.tilecopy_predicate(request)


def of_bytes(base: Any, request: CopyRequest) -> Any:
    _ = {8: 1, 16: 2, 32: 4, 64: 8, 128: 16}[request.src.buffer.dtype.bits]
    return base.tilecopy_predicate(request)


def in_a_kernel_alone(base: Any, request: CopyRequest) -> Any:
    _ = request.active.cta_threads % 32
    return base.tilecopy_predicate(request)


def no_sm_87(base: Any, request: CopyRequest) -> Any:
    return (
        tc.Decline(f"{request.target} was not tried") if request.target.arch == 87 else base.tilecopy_predicate(request)
    )


_KNOWN: dict[Any, Any] = {}


def remembered(request: CopyRequest, partition: Any) -> Any:
    """The partition of the first request with such extents and threads, whatever its layouts."""
    return _KNOWN.setdefault((request.dst.extents, request.scope, request.spaces, request.dst.buffer.dtype), partition)


def hash_ordered(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    """The last of some scratch registers, in the order of hashes, counts the copies."""
    scratch = {name: number for number, name in enumerate({"first", "second", "third", "fourth", "fifth"})}
    ptx.instr("mov.b32", ptx.reg("b32"), scratch["third"])
    base.tilecopy_emit(request, partition, ptx)


def reads_before(space: str) -> Callable[..., Any]:
    """Each load is preceded by one of the bytes before, where there is no guard."""

    def load(ptx: Any, source: Any, bits: int, into: Any = None, **more: Any) -> Any:
        address = getattr(source, "address", source)
        if address.space == space and bits <= 32:
            ptx.load(address + -(bits // 8), bits, None, **more)
        return ptx.load(source, bits, into, **more)

    return load


def writes_again(ptx: Any, target: Any, bits: int, values: Any, **more: Any) -> Any:
    """Each store is done twice, by the same thread."""
    ptx.store(target, bits, values, **more)
    ptx.store(target, bits, values, **more)


def writes_on(ptx: Any, target: Any, bits: int, values: Any, **more: Any) -> Any:
    """Each store goes to the next bytes too."""
    ptx.store(target, bits, values, **more)
    if getattr(target, "address", target) is target and bits <= 64:
        ptx.store(target + bits // 8, bits, values, **more)


def thread_of_the_cta(ptx: Any, scope: Any) -> Any:
    return ptx.tid if scope.kind == "warpgroup" else ptx.thread_index(scope)


def in_32_bits(ptx: Any, buffer: Any, offset: Any = 0, *more: Any, **named: Any) -> Any:
    """Places of global memory wrap at ``2**31``."""
    wrapped = (offset + 2**31) % 2**32 - 2**31
    return ptx.address(buffer, wrapped if buffer.space == "global" else offset, *more, **named)


def low_ends_unguarded(request: CopyRequest, partition: Any) -> Any:
    if partition.edge is None:
        return partition
    guards = tuple(evolve(g, ends=(False, True)) if g.ends[1] else g for g in partition.edge.guards)
    return evolve(partition, edge=evolve(partition.edge, guards=guards))


def edge_rounds_short(request: CopyRequest, partition: Any) -> Any:
    if partition.edge is None or partition.edge.outer < 2:
        return partition
    return evolve(partition, edge=evolve(partition.edge, outer=partition.edge.outer - 1))


def fills_rows_alone(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    """Where the first dimension alone overhangs, what is outside is left as it is."""
    ends = [any(request.src.exceeds(d)) for d in range(len(request.src.starts))]
    if request.outside is not None and request.outside.kind == "fill" and ends[0] and not any(ends[1:]):
        keep = tc.plan(request.dst, request.src, outside="keep", scope=request.scope, target=request.target).request
        request = evolve(request, outside=keep.outside)
    base.tilecopy_emit(request, partition, ptx)


def one_cta(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    """The instructions of a single CTA, whatever is asked."""
    base.tilecopy_emit(evolve(request, options={**request.options, "cta_group": 1}), partition, ptx)


def all_replicas(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    """Every thread that holds an element stores it."""
    digits = tuple(evolve(d, replica=False, step=0) if d.replica else d for d in partition.digits)
    base.tilecopy_emit(request, evolve(partition, digits=digits), ptx)


def first_replica_loads(request: CopyRequest, partition: Any) -> Any:
    """Of the threads that repeat an element the first alone takes part."""
    return evolve(partition, digits=tuple(evolve(d, extent=1) if d.replica else d for d in partition.digits))


def one_iter_a_dimension(base: Any, request: CopyRequest) -> Any:
    dst = request.dst.buffer
    if len(dst.layout.shard) != len(dst.shape):
        return tc.Decline(f"dst has another number of dimensions than of iters: {dst.layout}")
    return base.tilecopy_predicate(request)


def no_iter_of_extent_1(request: CopyRequest, partition: Any) -> Any:
    odd = next((it for it in request.src.buffer.layout.shard if it.extent == 1), None)
    return partition if odd is None else tc.Decline(f"src has the iter {odd}")


def too_new(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    ptx.raw("griddepcontrol.wait;")
    base.tilecopy_emit(request, partition, ptx)


def anothers_register(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    ptx.raw("{ .reg .b32 at; mov.b32 at, %r1; }")
    base.tilecopy_emit(request, partition, ptx)


def anothers_parameter(base: Any, request: CopyRequest, partition: Any, ptx: Any) -> None:
    ptx.raw("{ .reg .b64 at; ld.param.u64 at, [param_decoy]; }")
    base.tilecopy_emit(request, partition, ptx)


def last_two_swapped(request: CopyRequest, partition: Any) -> Any:
    if len(getattr(partition, "elements", ())) < 2:
        return partition
    *others, (one, at), (two, on) = partition.elements
    return evolve(partition, elements=(*others, (one, on), (two, at)))


def words_turned(request: CopyRequest, partition: Any) -> Any:
    values = partition.network.values
    return evolve(partition, network=evolve(partition.network, values=(*values[1:], *values[:1])))


def lanes_turned(request: CopyRequest, partition: Any) -> Any:
    form = partition.form
    if hasattr(form, "lanes"):
        return evolve(partition, form=evolve(form, lanes=(*form.lanes[1:], *form.lanes[:1])))
    words = tuple(
        evolve(word, fetches=tuple(evolve(f, lanes=(*f.lanes[1:], *f.lanes[:1])) for f in word.fetches))
        for word in form.words
    )
    return evolve(partition, form=evolve(form, words=words))


def columns_on(found: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(evolve(a, column=a.column + 1) for a in found)


def says(name: str, base: str, partition: Callable[[CopyRequest, Any], Any]) -> Fault:
    """A partition that says what is not done: the design's own is emitted."""
    return Fault(name, base, partition=partition, emit=numbered_emit, by="partitions")


COMMIT_AND_WAIT = raw("cp.async.commit_group;", "cp.async.wait_group 0;")
BULK_WAIT = raw("cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;")

FAULTS = (
    # what the hooks answer, over one design
    Fault("predicate raises at symbolic starts", "gmem_smem", predicate=literal),
    Fault("predicate alternates", "gmem_smem", predicate=alternates),
    Fault("predicate is slow", "gmem_smem", predicate=dear, by="hooks"),
    Fault("predicate prints", "gmem_smem", predicate=chatty),
    Fault("predicate reads the environment", "gmem_smem", predicate=curious),
    Fault("predicate declines with one word", "gmem_smem", predicate=monosyllabic),
    Fault("predicate answers True", "gmem_smem", predicate=lambda base, request: True),
    Fault("predicate declines everything", "gmem_smem", predicate=lambda b, r: tc.Decline("it takes no such copy")),
    Fault("predicate declines a notation", "gmem_smem", predicate=one_iter_a_dimension, by="notations"),
    Fault("partition declines a notation", "bulk_store", partition=no_iter_of_extent_1, by="notations"),
    Fault("predicate changes the request", "gmem_smem", predicate=meddles),
    Fault("partition is None", "gmem_smem", partition=lambda request, partition: None),
    Fault(
        "partition differs at every call",
        "gmem_smem",
        partition=lambda r, p: Numbered(next(_COUNTER)),
        emit=numbered_emit,
    ),
    Fault("summary raises", "gmem_smem", partition=lambda r, p: Untold(p, ""), emit=kept_emit),
    Fault("there is no summary", "gmem_smem", partition=lambda r, p: Wordless(p), emit=kept_emit),
    Fault("its moves are no pairs", "gmem_smem", partition=lambda r, p: Unpaired(p), emit=kept_emit, by="partitions"),
    Fault("summary has two lines", "gmem_smem", partition=lambda r, p: Untold(p, "one\ntwo"), emit=kept_emit),
    Fault("partition cannot be pickled", "gmem_smem", partition=lambda r, p: Closure(lambda: p), emit=kept_emit),
    Fault("emit counts its calls", "gmem_smem", emit=counting, by="text"),
    Fault("emit follows the order of hashes", "gmem_smem", emit=hashing, by="processes"),
    Fault("emit prints", "gmem_smem", emit=chatty_emit, by="text"),
    Fault("emit changes the partition", "gmem_smem", emit=rewrites, by="text"),
    Fault("emit writes a tile that is not its own", "gmem_smem", emit=uses_another_tile),
    Fault("emit copies nothing", "gmem_smem", emit=nothing),
    Fault("emit raises", "gmem_smem", emit=answers),
    Fault("emit raises for elements of 64 bits", "gmem_smem", emit=raises_for(64)),
    Fault("emit ends the kernel", "gmem_smem", emit=raw("ret;")),
    # what the record claims
    Fault(
        "claims a pair that it cannot copy", "reg", record=lambda r: evolve(r, spaces=(*r.spaces, ("shared", "shared")))
    ),
    Fault("claims an older architecture", "ldgsts", record=records(features=()), by="results"),
    Fault("claims edges and ignores them", "gmem_smem", partition=without_edge, by="results"),
    Fault("completion is undeclared", "ldgsts", record=records(completion="undeclared")),
    Fault("completion is a word without steps", "ldgsts", record=records(completion="in_due_time")),
    Fault("completion of cp.async is a barrier", "ldgsts", record=records(completion="barrier")),
    Fault("completion of a bulk group is a barrier", "bulk_store", record=records(completion="barrier")),
    Fault("completion of an mbarrier is a bulk group", "dsmem", record=records(completion="bulk_group")),
    Fault(
        "claims architectures without tensor memory",
        "tcgen05_cp",
        record=records(features=("sm_90",)),
        by="results",
    ),
    # gmem_smem
    Fault("last round is missing", "gmem_smem", partition=fewer_rounds),
    Fault("swizzle of the destination is forgotten", "gmem_smem", partition=side("dst", without_swizzle)),
    Fault("swizzle of the source is forgotten", "gmem_smem", partition=side("src", without_swizzle)),
    Fault("offset of the destination is forgotten", "gmem_smem", partition=side("dst", without_offset)),
    Fault("variables of the source are forgotten", "gmem_smem", partition=side("src", without_variables)),
    Fault("source is one element on", "gmem_smem", partition=side("src", shifted)),
    Fault("storage offset is forgotten", "gmem_smem", builder={"address": forgets_storage_offset}),
    Fault("vectors are single elements", "gmem_smem", partition=narrow, by="partitions"),
    Fault("vectors are twice as wide", "gmem_smem", partition=wide),
    Fault("every thread does the first one's part", "gmem_smem", builder={"thread_index": first_thread}),
    Fault("the first thread alone copies", "gmem_smem", emit=first_thread_alone),
    Fault("everything is copied twice", "gmem_smem", emit=twice),
    Fault("a vector more is read", "gmem_smem", builder={"load": reads_on("global")}, by="results"),
    Fault("a vector more of shared memory is read", "gmem_smem", builder={"load": reads_on("shared")}),
    Fault("edge is one off", "gmem_smem", partition=edge_one_off, by="results"),
    Fault("fill is zero whatever is asked", "gmem_smem", emit=fills((0,)), by="results"),
    Fault("keep fills", "gmem_smem", emit=keeps_nothing, by="results"),
    # ldgsts
    Fault("it waits itself", "ldgsts", emit=COMMIT_AND_WAIT, by="steps"),
    Fault("it copies through registers", "ldgsts", emit=by_registers, by="steps"),
    Fault("half of each vector is copied", "ldgsts", builder={"instr": half_of_cp_async}),
    Fault("ignore-src is inverted", "ldgsts", builder={"instr": inverted_ignore}, by="results"),
    Fault("last round of cp.async is missing", "ldgsts", partition=fewer_rounds),
    Fault("swizzle of cp.async is forgotten", "ldgsts", builder={"address": forgets_swizzle}),
    Fault("vectors of cp.async are single words", "ldgsts", partition=single_words, by="partitions", examples=150),
    # ragged
    Fault(
        "tail is forgotten",
        "ragged",
        record=lambda record: evolve(record, spaces=(("global", "shared"),)),  # few others have a tail
        partition=lambda r, p: evolve(p, tail=None) if hasattr(p, "tail") else p,
        by="partitions",
        examples=200,
    ),
    Fault(
        "guards are forgotten",
        "ragged",
        partition=lambda r, p: evolve(p, guards=()) if hasattr(p, "guards") else p,
        by="partitions",
    ),
    Fault(
        "last element of a fragment is forgotten",
        "ragged",
        partition=lambda r, p: evolve(p, elements=p.elements[:-1]) if hasattr(p, "elements") else p,
    ),
    # reg
    Fault("registers are in reverse", "reg", partition=backwards_registers),
    Fault("first register is skipped", "reg", partition=register_on),
    Fault(
        "digits are swapped",
        "reg",
        partition=digits_changed(lambda ds: tuple(evolve(d, step=o.step) for d, o in zip(ds, ds[::-1], strict=True))),
    ),
    Fault("a digit is forgotten", "reg", partition=digits_changed(lambda ds: ds[1:])),
    Fault("swizzle of a fragment's memory is forgotten", "reg", partition=memory(lambda layout: layout.unswizzled)),
    Fault("fragment's vectors are twice as wide", "reg", partition=wide),
    Fault("fragment's edge is forgotten", "reg", partition=without_edge),
    Fault("storage offset of a fragment's memory is forgotten", "reg", builder={"address": forgets_storage_offset}),
    Fault("shared memory is one element on", "reg", builder={"address": one_element_on("shared")}),
    # dsmem
    Fault("a chunk is missing", "dsmem", partition=fewer_rounds),
    Fault("chunks are 16 bytes short", "dsmem", builder={"instr": half_chunk}),
    Fault("the issuer waits", "dsmem", emit=issuer_waits, by="text"),
    Fault("it always sends to rank 0", "dsmem", builder=rank(lambda rank: 0)),
    Fault("the barrier is somewhere else", "dsmem", builder={"instr": own_barrier}),
    Fault(
        "variables of the destination are forgotten", "dsmem", partition=side("dst", without_variables), by="partitions"
    ),
    Fault("swizzle of a run is forgotten", "dsmem", partition=side("dst", without_swizzle)),
    Fault("it reads an option that nobody declares", "dsmem", predicate=undeclared_option),
    Fault("it needs an option that it calls optional", "dsmem", record=optional("remote_cta_id"), by="options"),
    # tcgen05_cp
    Fault("an atom is missing", "tcgen05_cp", partition=atoms(lambda found: found[:-1] or found), by="results"),
    Fault(
        "atoms go to one column",
        "tcgen05_cp",
        partition=atoms(lambda found: tuple(evolve(a, column=0) for a in found)),
        by="results",
    ),
    Fault(
        "atoms come from one place",
        "tcgen05_cp",
        partition=atoms(lambda found: tuple(evolve(a, step_16_bytes=0) for a in found)),
        by="results",
    ),
    Fault("atoms are copied twice", "tcgen05_cp", partition=atoms(lambda found: (*found, found[-1]))),
    Fault("descriptor has no swizzle", "tcgen05_cp", partition=descriptor(swizzle=lambda code: 0)),
    Fault("descriptor's groups are too near", "tcgen05_cp", partition=descriptor(sdo=lambda sdo: sdo // 2)),
    Fault("start is forgotten", "tcgen05_cp", partition=lambda r, p: evolve(p, start_elems=0)),
    # elementwise, of a third party
    Fault("the guard lets one thread more", "elementwise", builder={"predicate": guard_too_far}),
    Fault("the last round is not guarded", "elementwise", builder={"predicate": lambda ptx, condition: _true(ptx)}),
    Fault("swizzles are forgotten", "elementwise", builder={"address": forgets_swizzle}),
    Fault("the first element is left out", "elementwise", partition=lambda r, p: evolve(p, count=p.count - 1)),
    Fault(
        "elements of 16 bits go as 8",
        "elementwise",
        builder={
            "store": lambda ptx, at, bits, values, **more: ptx.store(at, 8 if bits == 16 else bits, values, **more)
        },
        by="results",
    ),
    # bulk_store, of a third party
    Fault("bulk store waits itself", "bulk_store", emit=BULK_WAIT, by="steps"),
    Fault("a row is missing", "bulk_store", partition=fewer_rounds),
    Fault("rows are 16 bytes long", "bulk_store", partition=lambda r, p: evolve(p, nbytes=16)),
    Fault("rows are 16 bytes too long", "bulk_store", partition=lambda r, p: evolve(p, nbytes=p.nbytes + 16)),
    Fault("any thread may issue", "bulk_store", record=records(threads="any")),
    Fault("source's storage offset is forgotten", "bulk_store", builder={"address": forgets_storage_offset}),
    # what a partition says and its instructions do not do
    says("says another register than it copies", "reg", register_on),
    says("says that digits are swapped", "reg", digits_changed(lambda ds: ds[1:])),
    says("says nothing of a fragment's edge", "reg", edge_one_off),
    says("says that two elements change places", "ragged", last_two_swapped),
    says("says that the edge is one on", "ragged", lambda r, p: edge_one_off(r, p) if hasattr(p, "edge") else p),
    says("says the next columns", "tcgen05_cp", atoms(columns_on)),
    says("says that groups are nearer", "tcgen05_cp", descriptor(sdo=lambda sdo: sdo // 2)),
    says("says other words of a thread", "regperm", words_turned),
    says("says the next lane", "regperm_shfl", lanes_turned),
    says("says fewer rounds than it does", "gmem_smem", fewer_rounds),
    # one clause of the contract each
    Fault("predicate changes the options", "tcgen05_cp", predicate=pops_options, by="hooks"),
    Fault("predicate raises for elements of 4 bits", "gmem_smem", predicate=of_bytes, by="hooks"),
    Fault("predicate raises with no kernel around", "gmem_smem", predicate=in_a_kernel_alone, by="options"),
    Fault("predicate declines one claimed target", "gmem_smem", predicate=no_sm_87, by="targets"),
    Fault("partition is remembered by extents", "gmem_smem", partition=remembered),
    Fault("emit numbers a set", "gmem_smem", emit=hash_ordered, by="processes"),
    Fault("emit needs a newer target", "gmem_smem", emit=too_new, by="results"),
    Fault("emit reads a register that is not its own", "gmem_smem", emit=anothers_register, by="reads"),
    Fault("emit reads a parameter that is not its own", "gmem_smem", emit=anothers_parameter, by="text"),
    Fault("bytes before the box are read", "gmem_smem", builder={"load": reads_before("global")}, by="results"),
    Fault("each vector is written twice", "gmem_smem", builder={"store": writes_again}, by="results"),
    Fault("the next bytes are written too", "gmem_smem", builder={"store": writes_on}, by="results"),
    Fault("vectors are half as wide", "gmem_smem", partition=half_as_wide, by="partitions"),
    Fault("a fragment's vectors are half as wide", "reg", partition=half_as_wide, by="partitions"),
    Fault("the scalar is forgotten", "gmem_smem", partition=side("src", scalars_alone), by="results"),
    Fault("the loop's turn is forgotten", "gmem_smem", partition=side("dst", turns_alone), by="results"),
    Fault(
        "the second warpgroup does the first one's part",
        "gmem_smem",
        builder={"thread_index": thread_of_the_cta},
        by="results",
    ),
    Fault("places wrap at 2**31", "gmem_smem", builder={"address": in_32_bits}, by="far"),
    Fault("places of fragments wrap at 2**31", "reg", builder={"address": in_32_bits}, by="far"),
    Fault("low ends are not guarded", "gmem_smem", partition=low_ends_unguarded, by="results"),
    Fault("the edge's last round is missing", "ldgsts", partition=edge_rounds_short),
    Fault("fills are dropped below the last row", "gmem_smem", emit=fills_rows_alone, by="results"),
    Fault("one CTA of a pair copies", "tcgen05_cp", emit=one_cta, by="results"),
    Fault("all who hold an element store it", "reg", emit=all_replicas, by="results"),
    Fault("one of those that repeat an element loads it", "reg", partition=first_replica_loads, by="results"),
    Fault("takes a copy to another CTA without a cluster", "dsmem", predicate=whatever_the_launch, by="hooks"),
    Fault("takes a copy of a pair without one", "tcgen05_cp", predicate=whatever_the_launch, by="hooks"),
    Fault("declines where the launch is not known", "dsmem", predicate=launch_known, by="hooks"),
    Fault("completion has a commit that the variant does", "ldgsts", emit=raw("cp.async.commit_group;"), by="steps"),
)


def load() -> dict[str, Broken]:
    """Every broken variant by the name of its fault."""
    return {fault.name: Broken(fault) for fault in FAULTS}


ABOUT = {
    "ldgsts": {"widths_bits": (128, 64, 32)},
    "ragged": {"expected_narrow": {"fragments are moved element by element": lambda d: "local" in d.spaces}},
}
"""What the suite of a design says of it; of others it says nothing."""

globals().update({f"broken_{number}": broken for number, broken in enumerate(load().values())})  # found by reference
