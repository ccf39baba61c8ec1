"""The permutation of a thread's registers. It lists the bytes to write and the ``prmt`` instructions for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilecopy_core.plugin import CopyRequest, Decline, frozen

from ..byte_runs import Field, FragmentPermutation, fields_of, holders, word_bytes
from ..simulate import element_moves, follow_network, own_bytes, registers_of
from ..source_owners import own_registers
from .network import WORD_BYTES, Content, Network, NetworkWord, network


@frozen
class RegisterPermutation(FragmentPermutation):
    """A frozen record of the permutation of registers in each thread that holds destination elements.

    ``network`` has the ``prmt``, and for each field the word that has its bytes from the low end.
    """

    network: Network

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        pairs = list(zip(self.fields, self.network.values, strict=True))
        moves = sum(field.whole and not value.from_step for field, value in pairs)
        inserts = sum(not field.whole for field in self.fields)
        return f"{len(self.network.steps)} prmt, {moves} mov, {inserts} bfi {self.written}"

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[Any, Any]]:
        """Return a ``(destination, source)`` pair per written element, both as ``(thread, register element)``."""
        width = word_bytes(self.dst.buffer)
        sources = {number: own_bytes(number, width) for number in registers_of(self.network)}
        return element_moves(request, self.fields, follow_network(self.network, sources), self.digits)


def permutation(request: CopyRequest) -> RegisterPermutation | Decline:
    """Return the permutation of each thread's registers. Return Decline if an element must leave its thread."""
    pairs = own_registers(request)
    if isinstance(pairs, Decline):
        return pairs
    digits = holders(request.dst)
    if isinstance(digits, Decline):
        return digits
    dst, src = request.dst.buffer, request.src.buffer
    contents = [(field, _content(field, pairs, dst.dtype.bytes)) for field in fields_of(dst, pairs)]
    if dst.memory is src.memory:
        contents = [(field, content) for field, content in contents if not _stays(field, content)]
    fields = tuple(field for field, _ in contents)
    if word_bytes(dst) == WORD_BYTES:
        steps = network(tuple(content for _, content in contents))
    else:  # one element a register
        steps = Network((), tuple(NetworkWord(pairs[field.register]) for field in fields))
    return RegisterPermutation(request.dst, request.src, request.scope.threads, digits, fields, steps)


def _content(field: Field, pairs: Mapping[int, int], size: int) -> Content:
    """Return the source bytes of a field, and any after them."""
    width = max(WORD_BYTES, field.count_bytes)
    first = field.register * width + field.first_byte
    source_bytes = []
    for byte in range(first, first + field.count_bytes):
        elem, within = divmod(byte, size)
        source_bytes.append(divmod(pairs[elem] * size + within, width) if elem in pairs else None)
    return (*source_bytes, *[None] * (width - field.count_bytes))


def _stays(field: Field, content: Content) -> bool:
    """Return whether the bytes of a field are in their places already."""
    return all(byte is None or byte == (field.register, field.first_byte + at) for at, byte in enumerate(content))
