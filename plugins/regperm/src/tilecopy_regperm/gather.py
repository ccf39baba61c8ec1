"""The general form: each word is put together from words of other lanes, one shuffle for each source register and lane.

A shuffle hands every lane the same register of a lane of its choice. So a word that takes bytes from several registers,
or from several lanes in one, is fetched in as many shuffles; ``prmt`` with a selector that depends on the lane merges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from .lanes import LaneSources
from .network import WORD_BYTES
from .places import WARP_THREADS

OWN = tuple(range(WARP_THREADS))
ByLane: TypeAlias = tuple[int, ...]
"""A number for each lane of a warp."""
_KEEP, _TAKE = range(WORD_BYTES), range(WORD_BYTES, 2 * WORD_BYTES)


@attrs.frozen
class Fetch:
    """Register ``word`` of the lane that stands for each lane; its own, and no shuffle, where that is itself."""

    word: int
    lanes: ByLane


@attrs.frozen
class Gathered:
    """One word: the first fetch, and each further one merged by a ``prmt`` whose selector is a lane's.

    Attributes:
        fetches: where its bytes come from.
        selectors: of the merge of the first two fetches, and of the result with each further one; of a single fetch, the
            one that puts its bytes in place.
    """

    fetches: tuple[Fetch, ...]
    selectors: tuple[ByLane, ...]


@attrs.frozen
class Gather:
    """The words of all fields."""

    words: tuple[Gathered, ...]

    @property
    def fetches(self) -> tuple[Fetch, ...]:
        """Every fetch once; words share them."""
        return tuple(dict.fromkeys(fetch for word in self.words for fetch in word.fetches))

    @property
    def sources(self) -> frozenset[int]:
        """The source's registers that are read."""
        return frozenset(fetch.word for fetch in self.fetches)

    @property
    def shuffles(self) -> int:
        """Shuffles of a lane."""
        return sum(fetch.lanes != OWN for fetch in self.fetches)

    def summary(self) -> str:
        """Instructions, those that compute lanes and selectors aside."""
        merges = sum(selector != IDENTITY for word in self.words for selector in word.selectors)
        return f"{self.shuffles} shfl, {merges} prmt"


def packed(digits: Sequence[int]) -> int:
    """The selector of ``prmt`` with these digits, the lowest first."""
    return sum(digit << 4 * place for place, digit in enumerate(digits))


IDENTITY: ByLane = (packed(_KEEP),) * WARP_THREADS


def gather(sources: LaneSources) -> Gather:
    """Fetches and selectors of every field."""
    return Gather(
        tuple(_word(lane, byte) for lane, byte in zip(sources.lane.tolist(), sources.byte.tolist(), strict=True))
    )


def _word(lane: list[list[int]], byte: list[list[int]]) -> Gathered:
    """One word from its sources by lane and byte."""
    slots: list[dict[tuple[int, int], int]] = []  # of each lane: (register, source lane) -> which fetch of the register
    for lanes, sources in zip(lane, byte, strict=True):
        mine: dict[tuple[int, int], int] = {}
        for source_lane, source in zip(lanes, sources, strict=True):
            if source >= 0:
                register = source // WORD_BYTES
                mine.setdefault((register, source_lane), sum(key[0] == register for key in mine))
        slots.append(mine)
    keys = sorted({(key[0], slot) for mine in slots for key, slot in mine.items()})
    order = {key: number for number, key in enumerate(keys)}
    fetched = [[-1] * WARP_THREADS for _ in keys]
    for at, mine in enumerate(slots):
        for (register, source_lane), slot in mine.items():
            fetched[order[register, slot]][at] = source_lane
    fetches = tuple(Fetch(register, _completed(lanes)) for (register, _), lanes in zip(keys, fetched, strict=True))

    def digits(number: int, at: int, *, first: bool) -> int | None:
        """The selector of one lane in the merge of a fetch; None where the lane takes nothing from it."""
        found: list[int] = []
        taken = False
        for place, (source_lane, source) in enumerate(zip(lane[at], byte[at], strict=True)):
            wanted = order[source // WORD_BYTES, slots[at][source // WORD_BYTES, source_lane]] if source >= 0 else -1
            mine = wanted == number
            taken = taken or mine or (first and wanted == 0)
            if mine:
                found.append((source % WORD_BYTES) + (0 if number == 0 else WORD_BYTES))
            else:
                found.append(source % WORD_BYTES if first and wanted == 0 else place)
        return packed(found) if taken or number > 0 else None

    selectors = []
    for number in range(min(1, len(keys) - 1), len(keys)):
        of_lanes = [digits(number, at, first=number <= 1) for at in range(WARP_THREADS)]
        usual = next((selector for selector in of_lanes if selector is not None), packed(_KEEP))
        selectors.append(tuple(usual if selector is None else selector for selector in of_lanes))
    return Gathered(fetches, tuple(selectors))


def _completed(lanes: list[int]) -> ByLane:
    """Any lane for those that need none: so that all read themselves, one lane, or that of a fixed exclusive or."""
    asked = [(at, lane) for at, lane in enumerate(lanes) if lane >= 0]
    if all(lane == at for at, lane in asked):
        return OWN
    first_at, first = asked[0]
    if all(lane == first for _, lane in asked):
        return (first,) * WARP_THREADS
    if all(lane ^ at == first ^ first_at for at, lane in asked):
        return tuple(at ^ first ^ first_at for at in range(WARP_THREADS))
    return tuple(at if lane < 0 else lane for at, lane in enumerate(lanes))
