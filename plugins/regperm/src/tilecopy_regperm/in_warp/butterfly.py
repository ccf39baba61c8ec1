"""Shuffles for transposes. They swap bits of the lane's index with bits of the register's index.

Where a copy permutes the bits of (lane, register, byte), a bit of the lane that becomes one of the register is exchanged
between pairs of registers: each lane sends the one of a pair that its partner needs and keeps the other, half a shuffle a
register. Bytes are first brought into whole registers by ``prmt``, and put in their places afterwards; where there are too few
registers for that, a bit of the byte's number is exchanged in each register, one shuffle and one ``prmt``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilecopy_core.plugin import frozen

from ..in_thread.network import WORD_BYTES, Network, network
from ..source_owners import WARP_THREADS
from .gather import OWN, ByLane
from .lanes import LaneSources

LANE_BITS, BYTE_BITS = 5, 2
_FIRST_WORD_BIT = LANE_BITS + BYTE_BITS


@frozen
class Exchange:
    """A frozen record of a swap between one bit of the lane index and one bit of the byte index.

    Attributes:
        lane_bit: of the lane's number.
        bit: of the byte's number in all registers of the lane: 0 and 1 within a register, from 2 on the register's number.
    """

    lane_bit: int
    bit: int

    @property
    def of_registers(self) -> bool:
        """True if lanes exchange whole registers."""
        return self.bit >= BYTE_BITS


@frozen
class Butterfly:
    """A frozen record of a copy in three stages: permute in each lane, exchange between lanes, permute again.

    Attributes:
        sources: the source's registers that are read.
        before: from the source's registers to as many others.
        exchanges: what is exchanged between lanes, in order.
        lanes: the lane that each lane then takes all registers from.
        after: from those registers to the words of the fields.
    """

    sources: frozenset[int]
    before: Network
    exchanges: tuple[Exchange, ...]
    lanes: ByLane
    after: Network

    @property
    def words(self) -> int:
        """The number of registers that are exchanged."""
        return len(self.before.values)

    @property
    def shuffles(self) -> int:
        """The number of shuffles that each lane executes."""
        exchanged = sum(self.words // 2 if exchange.of_registers else self.words for exchange in self.exchanges)
        return exchanged + (self.words if self.lanes != OWN else 0)

    def summary(self) -> str:
        """Return the instruction counts as a phrase. Instructions that compute lane indices are not counted."""
        halves = sum(exchange.of_registers for exchange in self.exchanges)
        permuted = len(self.before.steps) + len(self.after.steps) + (len(self.exchanges) - halves) * self.words
        return f"{self.shuffles} shfl, {3 * halves * self.words // 2} selp, {permuted} prmt"


def butterfly(sources: LaneSources) -> Butterfly | None:
    """Return the exchanges of a copy that permutes the bits of lane and byte indices. Return None for other copies."""
    count = len(sources.words)
    if (sources.lane < 0).any() or count & (count - 1) or not all(field.whole for field in sources.words):
        return None
    lane, byte = (array.transpose(0, 2, 1).ravel() for array in (sources.lane, sources.byte))
    registers, number = np.unique(byte // WORD_BYTES, return_inverse=True)
    if len(registers) != count:
        return None
    origin = _bits((lane | byte % WORD_BYTES << LANE_BITS | number << _FIRST_WORD_BIT).tolist())
    return None if origin is None else _stages(origin, registers.tolist())


def _bits(source: list[int]) -> list[int] | None:
    """Return the source bit of each bit of the destination, where source numbers are destination numbers with bits permuted."""
    count = (len(source) - 1).bit_length()
    images = [source[1 << bit] for bit in range(count)]
    if sorted(images) != [1 << bit for bit in range(count)]:
        return None
    for place, source_number in enumerate(source):
        if source_number != sum(image for bit, image in enumerate(images) if place >> bit & 1):
            return None
    return [image.bit_length() - 1 for image in images]


def _stages(origin: list[int], registers: list[int]) -> Butterfly:
    """Return the exchanges for a permutation of bits: ``origin[b]`` is where bit ``b`` of the destination comes from."""
    bits = range(len(origin))
    to_lanes = {origin[bit]: bit for bit in range(LANE_BITS) if origin[bit] >= LANE_BITS}
    from_lanes = [origin[bit] for bit in bits if bit >= LANE_BITS and origin[bit] < LANE_BITS]
    place = {bit: bit for bit in bits}  # where each bit of the source has got to
    for bit in to_lanes:
        if place[bit] < _FIRST_WORD_BIT:
            free = (o for o in bits if o >= _FIRST_WORD_BIT and o not in to_lanes and place[o] == o)
            other = next(free, bit)
            place[bit], place[other] = place[other], place[bit]
    arranged = {at: bit for bit, at in place.items()}
    before = _network(arranged, registers)
    exchanges = []
    free_lane_bits = list(from_lanes)
    for bit, wanted in sorted(to_lanes.items(), key=lambda item: item[1] not in from_lanes):
        lane_bit = wanted if wanted in free_lane_bits else free_lane_bits[0]
        free_lane_bits.remove(lane_bit)
        exchanges.append(Exchange(lane_bit, place[bit] - LANE_BITS))
        place[bit], place[lane_bit] = place[lane_bit], place[bit]
    lanes = tuple(
        sum((lane >> bit & 1) << place[origin[bit]] for bit in range(LANE_BITS)) for lane in range(WARP_THREADS)
    )
    after = _network({bit: place[origin[bit]] for bit in bits}, list(range(len(registers))))
    return Butterfly(frozenset(registers), before, tuple(exchanges), lanes, after)


def _network(origin: Mapping[int, int], registers: list[int]) -> Network:
    """Return the words whose bits other than the lane's come from ``origin``."""
    byte_bits = [bit for bit in origin if bit >= LANE_BITS]

    def byte(place: int) -> tuple[int, int]:
        source_place = sum(1 << origin[bit] for bit in byte_bits if place >> bit & 1)
        return registers[source_place >> _FIRST_WORD_BIT], source_place >> LANE_BITS & WORD_BYTES - 1

    contents = (
        tuple(byte(word << _FIRST_WORD_BIT | place << LANE_BITS) for place in range(WORD_BYTES))
        for word in range(len(registers))
    )
    return network(tuple(contents))
