"""A simulator of partitions. It computes every byte of every lane after each step.

A word is an array ``[lane, byte]`` of the bytes that it holds, each as the number ``lane * LANE + byte of its registers``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilecopy_core.plugin import CopyRequest
from tilecopy_partitions import Digit, owning_threads

from .byte_runs import Field, word_bytes
from .in_thread.network import WORD_BYTES, Network
from .in_warp.butterfly import BYTE_BITS, Butterfly, Exchange
from .in_warp.gather import Gather
from .source_owners import WARP_THREADS, Array

LANE = 1 << 32
_LANES = np.arange(WARP_THREADS)


def own_bytes(number: int, width: int = WORD_BYTES) -> Array:
    """Return the bytes of word ``number`` in each lane before the copy. Its value encodes lane and byte index."""
    return _LANES[:, None] * LANE + number * width + np.arange(width)


def registers_of(network: Network) -> set[int]:
    """Return the indices of the source registers that a network of ``prmt`` steps reads."""
    values = [*network.values, *(value for step in network.steps for value in (step.low, step.high))]
    return {value.number for value in values if not value.from_step}


def follow_network(network: Network, sources: Mapping[int, Array]) -> list[Array]:
    """Return the words that a network of ``prmt`` steps computes in each lane."""
    step_words: list[Array] = []
    for step in network.steps:
        low, high = (step_words[v.number] if v.from_step else sources[v.number] for v in (step.low, step.high))
        step_words.append(permute_bytes(low, high, [step.selector] * WARP_THREADS))
    return [step_words[value.number] if value.from_step else sources[value.number] for value in network.values]


def permute_bytes(low: Array, high: Array, selectors: Sequence[int]) -> Array:
    """Return the result of ``prmt.b32`` on two words, with a selector per lane."""
    digits = np.array(selectors)[:, None] >> 4 * np.arange(WORD_BYTES) & 2 * WORD_BYTES - 1
    return np.take_along_axis(np.concatenate([low, high], axis=1), digits, axis=1)


def simulate_gather(form: Gather) -> list[Array]:
    """Return the destination words of each lane after the fetches and merges of a gather."""
    words = []
    for word in form.words:
        fetched = [own_bytes(fetch.word)[list(fetch.lanes)] for fetch in word.fetches]
        value = fetched[0]
        for other, selectors in zip(fetched[1:] or fetched, word.selectors, strict=True):
            value = permute_bytes(value, other, selectors)
        words.append(value)
    return words


def simulate_butterfly(form: Butterfly) -> list[Array]:
    """Return the destination words of each lane after the exchanges and permutations of a butterfly."""
    registers = np.stack(
        follow_network(form.before, {number: own_bytes(number) for number in registers_of(form.before)})
    )
    for exchange in form.exchanges:
        registers = _simulate_exchange(exchange, registers)
    registers = registers[:, list(form.lanes)]
    return follow_network(form.after, dict(enumerate(registers)))


def _simulate_exchange(exchange: Exchange, registers: Array) -> Array:
    """A bit of the lane's number and one of the word's, or of the byte's, have changed places."""
    word, lane, byte = np.meshgrid(*map(np.arange, registers.shape), indexing="ij")
    number = byte | word << BYTE_BITS
    differs = (lane >> exchange.lane_bit ^ number >> exchange.bit) & 1
    number ^= differs << exchange.bit
    return np.asarray(registers[number >> BYTE_BITS, lane ^ differs << exchange.lane_bit, number & WORD_BYTES - 1])


def element_moves(
    request: CopyRequest, fields: Sequence[Field], words: Sequence[Array], digits: Sequence[Digit]
) -> list[tuple[Any, Any]]:
    """Return a ``(destination, source)`` pair per written element, both as ``(thread, register element)``.

    ``words`` has the bytes for each field from its low end, in each lane. An element whose bytes come from more than one, or change
    their order, has the source ``(thread, -1)``.
    """
    dst = request.dst.buffer
    size, width = dst.dtype.bytes, word_bytes(dst)
    moves = []
    for thread in np.flatnonzero(owning_threads(request, digits)).tolist():
        warp, lane = divmod(thread, WARP_THREADS)
        bytes_of: dict[int, list[tuple[int, int]]] = {}
        for field, word in zip(fields, words, strict=True):
            for at in range(field.count_bytes):
                into = field.register * width + field.first_byte + at
                if into < dst.memory.span_bytes:
                    bytes_of.setdefault(into // size, []).append(divmod(int(word[lane, at]), LANE))
        for elem, sources in bytes_of.items():
            holder, first = sources[0]
            whole = first % size == 0 and sources == [(holder, first + at) for at in range(size)]
            moves.append(((thread, elem), (warp * WARP_THREADS + holder, first // size if whole else -1)))
    return moves
