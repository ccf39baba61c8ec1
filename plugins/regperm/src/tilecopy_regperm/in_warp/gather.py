"""Shuffles for any copy within warps. Each lane fetches words from other lanes, and ``prmt`` combines the words.

A shuffle hands every lane the same register of a lane of its choice. So a word that takes bytes from several registers,
or from several lanes in one, is fetched in as many shuffles; ``prmt`` with a selector that depends on the lane merges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tilecopy_core.plugin import frozen

from ..in_thread.network import WORD_BYTES
from ..source_owners import WARP_THREADS
from .lanes import LaneSources

OWN = tuple(range(WARP_THREADS))
ByLane: TypeAlias = tuple[int, ...]
"""A number for each lane of a warp."""
_KEEP, _TAKE = range(WORD_BYTES), range(WORD_BYTES, 2 * WORD_BYTES)


@frozen
class Fetch:
    """A frozen record of a fetch of register ``word``: lane ``i`` reads lane ``lanes[i]``, by a shuffle if needed."""

    word: int
    lanes: ByLane


@frozen
class Gathered:
    """A frozen record of one word. Each ``prmt`` merges one more fetch into the word, with one selector per lane.

    Attributes:
        fetches: where its bytes come from.
        selectors: of the merge of the first two fetches, and of the result with each further one; of a single fetch, the
            one that puts its bytes in place.
    """

    fetches: tuple[Fetch, ...]
    selectors: tuple[ByLane, ...]


@frozen
class Gather:
    """A frozen record of the fetches that compute all words of the destination."""

    words: tuple[Gathered, ...]

    @property
    def fetches(self) -> tuple[Fetch, ...]:
        """The fetches of all words, without duplicates."""
        return tuple(dict.fromkeys(fetch for word in self.words for fetch in word.fetches))

    @property
    def sources(self) -> frozenset[int]:
        """The source registers that are read."""
        return frozenset(fetch.word for fetch in self.fetches)

    @property
    def shuffles(self) -> int:
        """The number of shuffles that each lane executes."""
        return sum(fetch.lanes != OWN for fetch in self.fetches)

    def summary(self) -> str:
        """Return the instruction counts as a phrase. Instructions that compute lane indices and selectors are not counted."""
        merges = sum(selector != IDENTITY for word in self.words for selector in word.selectors)
        return f"{self.shuffles} shfl, {merges} prmt"


def pack_selector(digits: Sequence[int]) -> int:
    """Return the ``prmt`` selector with the given hexadecimal digits, lowest digit first."""
    return sum(digit << 4 * place for place, digit in enumerate(digits))


IDENTITY: ByLane = (pack_selector(_KEEP),) * WARP_THREADS


def gather(sources: LaneSources, fewer_than: int | None = None) -> Gather | None:
    """Return the fetches and selectors of every word. Return None if they need ``fewer_than`` or more shuffles."""
    words: list[Gathered] = []
    shuffles: set[Fetch] = set()
    for lane, byte in zip(sources.lane.tolist(), sources.byte.tolist(), strict=True):
        words.append(_word(lane, byte))
        shuffles |= {fetch for fetch in words[-1].fetches if fetch.lanes != OWN}
        if fewer_than is not None and len(shuffles) >= fewer_than:
            return None
    return Gather(tuple(words))


def _word(lane: list[list[int]], byte: list[list[int]]) -> Gathered:
    """One word from its sources by lane and byte."""
    slots = [_slots(at, lane[at], byte[at]) for at in range(WARP_THREADS)]
    keys = sorted({key for mine in slots for key in mine if key is not None})
    number_of: dict[tuple[int, int] | None, int] = {None: -1} | {key: number for number, key in enumerate(keys)}
    from_fetch = [[number_of[key] for key in mine] for mine in slots]
    source_lanes = [[-1] * WARP_THREADS for _ in keys]
    for at, numbers in enumerate(from_fetch):
        for number, source_lane in zip(numbers, lane[at], strict=True):
            if number >= 0:
                source_lanes[number][at] = source_lane
    fetches = [Fetch(register, _complete_lanes(lanes)) for (register, _), lanes in zip(keys, source_lanes, strict=True)]
    selectors = []
    for number in range(min(1, len(keys) - 1), len(keys)):
        of_lanes = [_selector(number, from_fetch[at], byte[at]) for at in range(WARP_THREADS)]
        usual = next(selector for selector in of_lanes if selector is not None)
        selectors.append(tuple(usual if selector is None else selector for selector in of_lanes))
    return Gathered(tuple(fetches), tuple(selectors))


def _slots(at: int, lanes: list[int], sources: list[int]) -> list[tuple[int, int] | None]:
    """For each byte of a lane its register, and which of the lanes that it takes from there: itself first, then the nearest."""
    taken = {(source // WORD_BYTES, lane ^ at) for lane, source in zip(lanes, sources, strict=True) if source >= 0}
    fetches: list[tuple[int, int] | None] = []
    for lane, source in zip(lanes, sources, strict=True):
        register, distance = source // WORD_BYTES, lane ^ at
        nearer = sum(other == register and apart < distance for other, apart in taken)
        fetches.append((register, nearer) if source >= 0 else None)
    return fetches


def _selector(number: int, from_fetch: list[int], sources: list[int]) -> int | None:
    """What a lane takes from a fetch, beside what it has; None where any selector will do."""
    first = number <= 1  # fetch 0 is not in place yet, and placed by this step
    if first and not {0, number} & set(from_fetch):
        return None
    digits = []
    for place, (wanted, source) in enumerate(zip(from_fetch, sources, strict=True)):
        if wanted == number and number > 0:
            digits.append(source % WORD_BYTES + WORD_BYTES)
        else:
            digits.append(source % WORD_BYTES if first and wanted == 0 else place)
    return pack_selector(digits)


def _complete_lanes(lanes: list[int]) -> ByLane:
    """Any lane for those that need none: so that all read themselves, one lane, or that of a fixed exclusive or."""
    lane_pairs = [(at, lane) for at, lane in enumerate(lanes) if lane >= 0]
    if all(lane == at for at, lane in lane_pairs):
        return OWN
    first_at, first = lane_pairs[0]
    if all(lane == first for _, lane in lane_pairs):
        return (first,) * WARP_THREADS
    if all(lane ^ at == first ^ first_at for at, lane in lane_pairs):
        return tuple(at ^ first ^ first_at for at in range(WARP_THREADS))
    return tuple(at if lane < 0 else lane for at, lane in enumerate(lanes))
