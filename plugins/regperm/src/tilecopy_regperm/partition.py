"""A thread's registers into others of its own: which bytes, and the ``prmt`` that put them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tilecopy_core.plugin import CopyRequest, Decline, Digit, Iter, Region, TileLayout, digits_of, m, thread_axes

from .network import WORD_BYTES, Byte, Content, Network, Value, network
from .places import own_registers


@attrs.frozen
class Field:
    """Contiguous bytes of one destination register, and the word that has them at its low end.

    Attributes:
        register: number of the destination register.
        first_byte: the first of them.
        count_bytes: how many; all of a register where nothing else is in it.
        value: the word.
    """

    register: int
    first_byte: int
    count_bytes: int
    value: Value


@attrs.frozen
class RegisterPermutation:
    """What every thread that holds some of the destination does with its own registers.

    Attributes:
        dst: the destination.
        src: the source.
        threads: threads of the scope.
        digits: how a thread's id says that it holds some of the destination.
        word_bytes: size of a register: 4, or 8 for elements of 64 bits, which are moved whole.
        network: the ``prmt`` and the words that they make.
        fields: what is written.
    """

    dst: Region
    src: Region
    threads: int
    digits: tuple[Digit, ...]
    word_bytes: int
    network: Network
    fields: tuple[Field, ...]

    @property
    def in_place(self) -> bool:
        """Whether source and destination are the same registers."""
        return self.dst.buffer.memory is self.src.buffer.memory

    def stays(self, field: Field) -> bool:
        """Whether a field is where it was."""
        return self.in_place and field.count_bytes == self.word_bytes and field.value == Value(field.register)

    def summary(self) -> str:
        """One line for ``plan.explain()``."""
        parts = [field for field in self.fields if not self.is_whole(field)]
        moves = [field for field in self.fields if self.is_whole(field) and not field.value.made and not self.stays(field)]
        return (
            f"{len(self.network.steps)} prmt, {len(moves)} mov, {len(parts)} bfi into {len({f.register for f in self.fields})} "
            f"registers of {self.word_bytes * 8} bits in each of {self.threads} threads"
        )

    def is_whole(self, field: Field) -> bool:
        """Whether a field fills its register, bytes that no element can have aside."""
        return field.first_byte == 0 and field.count_bytes == self.word_bytes


def permutation(request: CopyRequest) -> RegisterPermutation | Decline:
    """The registers that each thread permutes, or why some element is not in the thread that needs it."""
    pairs = own_registers(request)
    if isinstance(pairs, Decline):
        return pairs
    digits = holders(request.dst)
    if isinstance(digits, Decline):
        return digits
    fields, made = fields_of(request, pairs)
    word_bytes = request.dst.buffer.memory.word_bits // 8
    return RegisterPermutation(request.dst, request.src, request.scope.threads, digits, word_bytes, made, fields)


def holders(region: Region) -> tuple[Digit, ...] | Decline:
    """How a thread's id says that it holds some of a fragment's box."""
    layout = region.sliced_layout()
    assert layout is not None
    replica = [it for it in layout.replica if it.axis != m]
    threads = TileLayout.of(layout.shard, replica, {axis: layout.offset_on(axis) for axis in layout.axes})
    return digits_of([(it, Iter(it.extent, 0)) for it in layout.shard if it.axis != m], threads, thread_axes(region))


def fields_of(request: CopyRequest, pairs: Mapping[int, int]) -> tuple[tuple[Field, ...], Network]:
    """What is written, and the words for it, from the source element of each destination element of a thread."""
    dst = request.dst.buffer
    if dst.memory.word_bits == 64:
        return tuple(Field(into, 0, 8, Value(out_of)) for into, out_of in sorted(pairs.items())), Network((), ())
    words: dict[int, list[Byte | None]] = {}
    size = dst.dtype.bytes
    for into, out_of in sorted(pairs.items()):
        for number in range(size):
            (register, place), byte = divmod(into * size + number, WORD_BYTES), divmod(out_of * size + number, WORD_BYTES)
            words.setdefault(register, [None] * WORD_BYTES)[place] = byte
    parts = [
        (register, first, content)
        for register, word in words.items()
        for first, content in _runs(word, dst.memory.span_bytes - register * WORD_BYTES)
    ]
    made = network([(*content, *[None] * (WORD_BYTES - len(content))) for _, _, content in parts])
    fields = (
        Field(register, first, len(content), value)
        for (register, first, content), value in zip(parts, made.values, strict=True)
    )
    return tuple(fields), made


def _runs(word: Sequence[Byte | None], used_bytes: int) -> list[tuple[int, Content]]:
    """The contiguous bytes of a word that are written, with the first; all of it where no element has the others."""
    if all(byte is not None or place >= used_bytes for place, byte in enumerate(word)):
        return [(0, tuple(word))]
    runs: list[tuple[int, Content]] = []
    for place, byte in enumerate(word):
        if byte is None:
            continue
        if place and word[place - 1] is not None:
            first, content = runs.pop()
            runs.append((first, (*content, byte)))
        else:
            runs.append((place, (byte,)))
    return runs
