"""The source lane and byte of each byte of a lane's registers, for copies that keep elements in their warps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilecopy_core.plugin import CopyRequest, Decline, frozen

from ..byte_runs import Field, fields_of
from ..in_thread.network import WORD_BYTES
from ..source_owners import WARP_THREADS, Array, elsewhere, map_elements


@frozen(eq=False)
class LaneSources:
    """A frozen record of the source lane and source byte of each destination byte. Both are -1 for unwritten bytes.

    Attributes:
        fields: what is written.
        words: the same in words of 32 bits: two for a register of 64.
        lane: ``[word, lane, byte]``.
        byte: ``[word, lane, byte]``, counted through the source's registers.
    """

    fields: tuple[Field, ...]
    words: tuple[Field, ...]
    lane: Array
    byte: Array


def lane_sources(request: CopyRequest) -> LaneSources | Decline:
    """Return the source lane and byte of each byte in a warp's registers. Return Decline if warps differ in them."""
    if request.scope.threads % WARP_THREADS:
        return Decline(
            f"the last warp of scope {request.scope} must have {WARP_THREADS} threads, because all lanes of a warp execute a shuffle, got {request.scope.threads % WARP_THREADS} threads"
        )
    element_map = map_elements(request)
    if (element_map.holder < 0).any():
        return Decline(
            f"every element must stay in its warp, but {elsewhere(request, element_map, int(np.argmin(element_map.holder)))}"
        )
    lane, holder = element_map.thread % WARP_THREADS, element_map.holder % WARP_THREADS
    # with an index np.unique does not import numpy.ma, which takes long and which a fork could meet half imported
    rows, _ = np.unique(np.stack([element_map.into, lane, holder, element_map.out_of]), axis=1, return_index=True)
    same = (rows[:2, 1:] == rows[:2, :-1]).all(axis=0)
    if same.any():
        into, at = (int(i) for i in rows[:2, int(np.argmax(same))])
        return Decline(
            f"all warps must permute elements in the same way, but register element {into} of {request.dst.buffer.name} in lane {at} comes from "
            "different lanes or registers in two warps"
        )
    dst, size = request.dst.buffer, request.dst.buffer.dtype.bytes
    fields = fields_of(dst, set(rows[0].tolist()))
    words = tuple(word for field in fields for word in _of_words(field))
    elements = int(rows[0].max()) + 1 + WORD_BYTES
    table = np.full((2, elements, WARP_THREADS), -1, np.int64)
    table[:, rows[0], rows[1]] = rows[2:]
    sources = np.full((2, len(words), WARP_THREADS, WORD_BYTES), -1, np.int64)
    for number, word in enumerate(words):
        for byte in range(word.count_bytes):
            elem, within = divmod(word.register * WORD_BYTES + word.first_byte + byte, size)
            is_written = table[1, elem] >= 0
            sources[0, number, is_written, byte] = table[0, elem, is_written]
            sources[1, number, is_written, byte] = table[1, elem, is_written] * size + within
    return LaneSources(fields, words, sources[0], sources[1])


def _of_words(field: Field) -> Sequence[Field]:
    """A register of 64 bits as two of 32."""
    if field.count_bytes <= WORD_BYTES:
        return [field]
    return [Field(field.register * 2 + half, 0, WORD_BYTES, whole=True) for half in range(2)]
