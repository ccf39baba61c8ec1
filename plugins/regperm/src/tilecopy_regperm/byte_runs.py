"""Records of the bytes that a copy writes in each register of a thread."""

from __future__ import annotations

from collections.abc import Collection

from tilecopy_core.plugin import Buffer, Decline, Iter, Region, TileLayout, frozen, m
from tilecopy_partitions import Digit, digits_of, thread_axes


@frozen
class Field:
    """A frozen record of contiguous bytes of a register. ``whole`` is True if all other bytes are unused."""

    register: int
    first_byte: int
    count_bytes: int
    whole: bool


@frozen
class FragmentPermutation:
    """A frozen record of the bytes that a copy writes in each thread that holds destination elements.

    Attributes:
        dst: the destination.
        src: the source.
        threads: threads of the scope.
        digits: how a thread's id says that it holds some of the destination.
        fields: what is written; those of the same registers that stay where they are are left out.
    """

    dst: Region
    src: Region
    threads: int
    digits: tuple[Digit, ...]
    fields: tuple[Field, ...]

    @property
    def registers_per_thread(self) -> int:
        """The number of 32-bit registers that each thread has for the larger fragment."""
        return max(self.dst.buffer.registers_per_thread, self.src.buffer.registers_per_thread)

    @property
    def written(self) -> str:
        """A phrase for the written registers, such as ``into 4 registers of 32 bits in each of 32 threads``."""
        count = len({field.register for field in self.fields})
        return f"into {count} registers of {word_bytes(self.dst.buffer) * 8} bits in each of {self.threads} threads"


def word_bytes(buffer: Buffer) -> int:
    """Return the size of a fragment's registers in bytes: 8 for elements of 64 bits, else 4."""
    return buffer.memory.word_bits // 8


def fields_of(dst: Buffer, elements: Collection[int]) -> tuple[Field, ...]:
    """Return the runs of contiguous bytes that elements occupy in a thread's registers, in ascending byte order."""
    size, width = dst.dtype.bytes, word_bytes(dst)
    taken = {elem * size + byte for elem in elements for byte in range(size)}
    fields: list[Field] = []
    for register in sorted({byte // width for byte in taken}):
        places = range(register * width, (register + 1) * width)
        if all(byte in taken or byte >= dst.memory.span_bytes for byte in places):
            fields.append(Field(register, 0, width, whole=True))
            continue
        for byte in places:
            if byte in taken and (byte == places[0] or byte - 1 not in taken):
                count = next(n for n in range(1, width + 1) if byte + n not in taken or byte + n == places[-1] + 1)
                fields.append(Field(register, byte - places[0], count, whole=False))
    return tuple(fields)


def holders(region: Region) -> tuple[Digit, ...] | Decline:
    """Return the parts of a thread's index that decide whether the thread holds elements of a fragment's box."""
    layout = region.sliced_layout()
    assert layout is not None
    replica = [it for it in layout.replica if it.axis != m]
    threads = TileLayout.of(layout.shard, replica, {axis: layout.offset_on(axis) for axis in layout.axes})
    return digits_of([(it, Iter(it.extent, 0)) for it in layout.shard if it.axis != m], threads, thread_axes(region))
