"""Instructions of a copy within warps. All words are fetched and combined before any register is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from operator import and_, or_

from tilecopy_core.plugin import Buffer, PtxBuilder, Register
from tilecopy_partitions import by_owners, owner_conditions

from ..byte_runs import word_bytes
from ..in_thread.emit import Hex, words, write
from ..in_thread.network import WORD_BYTES
from ..source_owners import WARP_THREADS
from .butterfly import BYTE_BITS, Butterfly, Exchange
from .gather import IDENTITY, OWN, ByLane, Fetch, Gather, Gathered, pack_selector
from .partition import LanePermutation

FULL_MASK, CLAMP = Hex(0xFFFFFFFF), Hex(0x1F)


def emit(partition: LanePermutation, ptx: PtxBuilder) -> None:
    """Emit shuffles for all lanes of a warp, then register writes for the lanes that hold destination elements."""
    dst, src = partition.dst.buffer, partition.src.buffer
    lanes = _Lanes(ptx)
    if owner_conditions(partition.source_digits, ptx.tid, ptx.cta_threads, store=False):
        _broadcast_sources(ptx, src, partition.form.sources)
    sources = _halves(ptx, ptx.fragment(src), partition.form.sources)
    if isinstance(partition.form, Gather):
        values = _gather(partition.form, lanes, sources)
    else:
        values = _butterfly(partition.form, lanes, sources)
    with by_owners(ptx, partition.digits):
        if word_bytes(dst) == 8:
            values = [_join_halves(ptx, *values[n : n + 2]) for n in range(0, len(values), 2)]
        write(ptx, dst, src, partition.fields, values)


def _broadcast_sources(ptx: PtxBuilder, src: Buffer, needed: Collection[int]) -> None:
    """A shuffle reads its register in every lane: those that hold none of the source get one that was written."""
    per_register = word_bytes(src) // WORD_BYTES
    for register in (ptx.fragment(src)[number] for number in sorted({word // per_register for word in needed})):

        def zero(register: Register = register) -> Register:
            ptx.place_first(f"\tmov.b{register.bits} {register}, 0;")
            return register

        ptx.blocks[0].once(("zeroed for shuffles", register), zero)


class _Lanes:
    """What depends on the lane, each computed once."""

    def __init__(self, ptx: PtxBuilder) -> None:
        self.ptx = ptx
        self._lane = ptx.value(ptx.tid % WARP_THREADS)
        self._numbers: dict[ByLane, int | Register] = {}
        self._bits: dict[int, Register] = {}
        self._masks: dict[int, Register] = {}

    def number(self, of_lanes: ByLane) -> int | Register:
        """Return a register with value ``of_lanes[i]`` in lane ``i``. Return an integer if all values are equal."""
        if of_lanes not in self._numbers:
            every, some = reduce(and_, of_lanes), reduce(or_, of_lanes)
            weights: dict[int, int] = {}
            for bit in range((some & ~every).bit_length()):
                if (some & ~every) >> bit & 1:
                    mask = sum((value >> bit & 1) << lane for lane, value in enumerate(of_lanes))
                    weights[mask] = weights.get(mask, 0) | 1 << bit
            total: int | Register = every
            for mask, weight in weights.items():
                result = self.ptx.reg("b32")
                self.ptx.instr("mad.lo.u32", result, self._of_mask(mask), Hex(weight), total)
                total = result
            self._numbers[of_lanes] = total
        return self._numbers[of_lanes]

    def _of_mask(self, mask: int) -> Register:
        """1 in the lanes of a mask, 0 in the others."""
        if mask not in self._masks:
            result = self.ptx.reg("b32")
            self.ptx.instr("bfe.u32", result, Hex(mask), self._lane, 1)
            self._masks[mask] = result
        return self._masks[mask]

    def bit(self, position: int) -> Register:
        """Return a predicate that is true if a bit of the lane's index is set."""
        if position not in self._bits:
            self._bits[position] = self.ptx.predicate(self.ptx.tid // 2**position % 2 != 0)
        return self._bits[position]

    def of_partner(self, value: Register, distance: int) -> Register:
        """Return a register with the value of lane ``laneid ^ distance``."""
        result = self.ptx.reg("b32")
        self.ptx.instr("shfl.sync.bfly.b32", result, value, distance, CLAMP, FULL_MASK)
        return result

    def shuffle(self, value: Register, lanes: ByLane) -> Register:
        """Return a register in which lane ``i`` has the value of lane ``lanes[i]``."""
        if lanes == OWN:
            return value
        distance = lanes[0]
        if all(lane ^ distance == at for at, lane in enumerate(lanes)):
            return self.of_partner(value, distance)
        result = self.ptx.reg("b32")
        self.ptx.instr("shfl.sync.idx.b32", result, value, self.number(lanes), CLAMP, FULL_MASK)
        return result


def _gather(form: Gather, lanes: _Lanes, sources: Mapping[int, Register]) -> list[Register]:
    """Emit the instructions of a gather, and return its words."""
    fetched = {fetch: lanes.shuffle(sources[fetch.word], fetch.lanes) for fetch in form.fetches}
    return [_merge_word(word, fetched, lanes) for word in form.words]


def _merge_word(word: Gathered, fetched: dict[Fetch, Register], lanes: _Lanes) -> Register:
    words = [fetched[fetch] for fetch in word.fetches]
    if word.selectors == (IDENTITY,):
        return words[0]
    value = words[0]
    for other, selector in zip(words[1:] or words, word.selectors, strict=True):
        result = lanes.ptx.reg("b32")
        number = lanes.number(selector)
        lanes.ptx.instr("prmt.b32", result, value, other, Hex(number) if isinstance(number, int) else number)
        value = result
    return value


def _butterfly(form: Butterfly, lanes: _Lanes, sources: Mapping[int, Register]) -> list[Register]:
    """Emit the instructions of a butterfly, and return its words."""
    ptx = lanes.ptx
    registers = words(ptx, form.before, sources, lambda _: ptx.reg("b32"))
    for exchange in form.exchanges:
        if exchange.of_registers:
            _exchange_registers(exchange, lanes, registers)
        else:
            registers = [_exchange_bytes(exchange, lanes, value) for value in registers]
    registers = [lanes.shuffle(value, form.lanes) for value in registers]
    return words(ptx, form.after, dict(enumerate(registers)), lambda _: ptx.reg("b32"))


def _exchange_registers(exchange: Exchange, lanes: _Lanes, registers: list[Register]) -> None:
    """Exchange one register of each pair: the upper lane sends the lower one, the lower lane the upper one."""
    ptx, upper, apart = lanes.ptx, lanes.bit(exchange.lane_bit), 1 << exchange.bit - BYTE_BITS
    for low in (number for number in range(len(registers)) if not number & apart):
        high = low | apart
        sent, first, second = ptx.regs("b32", 3)
        ptx.instr("selp.b32", sent, registers[low], registers[high], upper)
        received = lanes.of_partner(sent, 1 << exchange.lane_bit)
        ptx.instr("selp.b32", first, received, registers[low], upper)
        ptx.instr("selp.b32", second, registers[high], received, upper)
        registers[low], registers[high] = first, second


def _exchange_bytes(exchange: Exchange, lanes: _Lanes, value: Register) -> Register:
    """The upper lane keeps its bytes whose bit is set, the lower lane the others; the rest are the partner's."""
    byte_bit, partner = 1 << exchange.bit, 1 << exchange.lane_bit
    keeps = [
        pack_selector(
            [
                place if bool(place & byte_bit) == upper else WORD_BYTES + (place ^ byte_bit)
                for place in range(WORD_BYTES)
            ]
        )
        for upper in (False, True)
    ]
    selector = lanes.number(tuple(keeps[bool(lane & partner)] for lane in range(WARP_THREADS)))
    result = lanes.ptx.reg("b32")
    lanes.ptx.instr("prmt.b32", result, value, lanes.of_partner(value, partner), selector)
    return result


def _halves(ptx: PtxBuilder, registers: list[Register], needed: Collection[int]) -> Mapping[int, Register]:
    """The words of 32 bits that are needed, by their number: registers of 64 are taken apart."""
    if registers[0].bits == 32:
        return dict(enumerate(registers))
    halves: dict[int, Register] = {}
    for number in sorted({word // 2 for word in needed}):
        low, high = halves[2 * number], halves[2 * number + 1] = ptx.regs("b32", 2)
        ptx.instr("mov.b64", f"{{{low}, {high}}}", registers[number])
    return halves


def _join_halves(ptx: PtxBuilder, low: Register, high: Register) -> Register:
    """Two registers as one of 64 bits."""
    result = ptx.reg("b64")
    ptx.instr("mov.b64", result, f"{{{low}, {high}}}")
    return result
