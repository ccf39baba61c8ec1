"""Networks of ``prmt.b32`` that permute bytes. Each instruction selects any four of the eight bytes of two words.

A word that draws on one word or two costs one instruction. One that draws on three costs two and one of four costs three,
where its halves (what it takes from a pair of words) are its own; but a half is two or three bytes and an instruction makes
four, so halves of several words from the same pair share one. The 4 x 4 transpose of bytes is so eight instructions, two
levels of four (PTX ISA, "prmt").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TypeAlias

from tilecopy_core.plugin import frozen

WORD_BYTES = 4

Byte: TypeAlias = tuple[int, int]
"""A byte of a source: the number of its register, and its place in it from the low end."""
Content: TypeAlias = tuple[Byte | None, ...]
"""The bytes of a word from the low end; None where any byte will do."""


@frozen
class NetworkWord:
    """A frozen record of a 32-bit word. ``number`` is the index of a source register, or of the step that computes the word."""

    number: int
    from_step: bool = False


@frozen
class PermuteStep:
    """A frozen record of a ``prmt.b32``. Hexadecimal digit ``i`` of the selector chooses byte ``i`` of the result.

    A digit is 0 to 3 for the bytes of ``low``, and 4 to 7 for those of ``high``.
    """

    low: NetworkWord
    high: NetworkWord
    selector: int


@frozen
class Network:
    """A frozen record of ``prmt`` steps in execution order, and of the word that holds each requested result."""

    steps: tuple[PermuteStep, ...]
    values: tuple[NetworkWord, ...]


@lru_cache(maxsize=256)
def network(wanted: tuple[Content, ...]) -> Network:
    """Return ``prmt`` steps that compute words with the requested bytes. Equal requests share one cached result."""
    return _Maker().make(wanted)


class _Maker:
    """The steps so far, and what they made."""

    def __init__(self) -> None:
        self._steps: list[PermuteStep] = []
        self._contents: list[Content] = []
        self._known: dict[Content, NetworkWord] = {}

    def make(self, wanted: Sequence[Content]) -> Network:
        """Return the network. Words with bytes of one or two registers come first, because wider words reuse them."""
        for content in wanted:
            if len(_sources(content)) <= 2:
                self._narrow(content)
        wide = [content for content in dict.fromkeys(wanted) if len(_sources(content)) > 2]
        halves = _halves(wide, [content for content in self._contents if None not in content])
        for content, pair in zip(wide, halves, strict=True):
            values = [self._narrow(half) for half in pair]
            self._known[content] = self._step(content, *values)
        return Network(tuple(self._steps), tuple(self._known[content] for content in wanted))

    def _narrow(self, content: Content) -> NetworkWord:
        """A word of at most two source registers."""
        if content not in self._known:
            whole = [NetworkWord(source) for source in _sources(content)]
            in_place = zip(content, self._content(whole[0]), strict=True)
            if len(whole) == 1 and all(byte in (None, source_byte) for byte, source_byte in in_place):
                self._known[content] = whole[0]
            else:
                self._known[content] = self._step(content, whole[0], whole[-1])
        return self._known[content]

    def _step(self, content: Content, low: NetworkWord, high: NetworkWord) -> NetworkWord:
        """One instruction."""
        input_bytes = (*self._content(low), *self._content(high))
        digits = [position if byte is None else input_bytes.index(byte) for position, byte in enumerate(content)]
        self._steps.append(PermuteStep(low, high, sum(digit << 4 * place for place, digit in enumerate(digits))))
        self._contents.append(content)
        return NetworkWord(len(self._steps) - 1, from_step=True)

    def _content(self, value: NetworkWord) -> Content:
        if value.from_step:
            return self._contents[value.number]
        return tuple((value.number, place) for place in range(WORD_BYTES))


def _sources(content: Content) -> list[int]:
    """Return the registers that a word draws on."""
    return sorted({byte[0] for byte in content if byte is not None})


def _halves(wide: Sequence[Content], complete: Sequence[Content]) -> list[tuple[Content, Content]]:
    """For each wide word two words that together have its bytes, shared between the wide words as far as they go.

    Of the ways to pair a word's registers the one that needs the fewest new halves is taken, the first of equals.
    """
    bins: list[list[Byte]] = [[byte for byte in content if byte is not None] for content in complete]
    fixed = len(bins)
    by_pair: dict[frozenset[int], list[int]] = {}
    for at, bin_bytes in enumerate(bins):
        for pair in combinations(sorted({byte[0] for byte in bin_bytes}), 2):
            by_pair.setdefault(frozenset(pair), []).append(at)
    chosen: list[tuple[int | Content, int | Content]] = []
    for content in wide:
        ways = [[(_find_bin(bins, by_pair, fixed, half), half) for half in way] for way in _ways(content)]
        best = min(ways, key=lambda way: sum(at == len(bins) for at, _ in way))
        taken: list[int | Content] = []
        for _, half in best:
            if len({byte[0] for byte in half}) == 1:
                taken.append(tuple((half[0][0], place) for place in range(WORD_BYTES)))
                continue
            at = _find_bin(bins, by_pair, fixed, half)
            if at == len(bins):
                bins.append([])
                by_pair.setdefault(frozenset(byte[0] for byte in half), []).append(at)
            bins[at] += [byte for byte in half if byte not in bins[at]]
            taken.append(at)
        chosen.append((taken[0], taken[1]))

    def word(half: int | Content) -> Content:
        if isinstance(half, tuple):
            return half
        return complete[half] if half < fixed else (*bins[half], *[None] * (WORD_BYTES - len(bins[half])))

    return [(word(low), word(high)) for low, high in chosen]


def _ways(content: Content) -> list[tuple[list[Byte], list[Byte]]]:
    """The ways to take a word of three or four registers from two halves of one or two registers each."""
    bytes_of = {s: list(dict.fromkeys(b for b in content if b is not None and b[0] == s)) for s in _sources(content)}
    ways = []
    for pair in combinations(bytes_of, 2):
        rest = [source for source in bytes_of if source not in pair]
        if len(bytes_of) == 3 or pair[0] == min(bytes_of):
            ways.append(tuple([byte for source in half for byte in bytes_of[source]] for half in (pair, rest)))
    return [(low, high) for low, high in ways]


def _find_bin(
    bins: Sequence[Sequence[Byte]], by_pair: Mapping[frozenset[int], Sequence[int]], fixed: int, half: list[Byte]
) -> int:
    """Return the first bin that has a half or has room for it, ``len(bins)`` if there is none, -1 for a half of one register.

    A bin has the bytes of one word; those from ``fixed`` on may still grow. ``by_pair`` has the bins of each pair of registers.
    """
    registers = frozenset(byte[0] for byte in half)
    if len(registers) == 1:
        return -1
    for at in by_pair.get(registers, ()):
        content = bins[at]
        missing = [byte for byte in half if byte not in content]
        if not missing or (at >= fixed and len(content) + len(missing) <= WORD_BYTES):
            return at
    return len(bins)
