"""Global memory: the bytes and addresses of a launch's arrays and module variables."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ..memory_model.access import WINDOW_BITS, WORDS, bytes_of
from ..memory_model.shadow import ShadowMemory

HEAP_BYTES, MOST_BLOCKS, MOST_ARRAYS = 8 << 20, 1 << 16, 1 << 18
"""The size of a device's heap (cudaLimitMallocHeapSize by default), and the largest numbers of blocks and windows."""
PAGE_BITS = 12
"""The exponent of the page size, 2**12 bytes, of the journal that restores arrays after a fault."""


@attrs.frozen(eq=False)
class Reads:
    """The bytes of an array that an asynchronous operation in flight reads.

    ``owner``: the operations in flight of its machine, by number; ``offsets``: the start of each piece, of shape
    (pieces or 1, copies or 1); ``size``: bytes of each; ``chosen``: a mask of the pieces, or None for all.
    """

    owner: dict[int, Any]
    offsets: Any
    size: int
    chosen: Any = None

    @property
    def flat(self) -> Any:
        """The byte offsets at which the reads begin, as a 1-D array. Reads that ``chosen`` excludes are left out."""
        return (self.offsets if self.chosen is None else self.offsets[self.chosen]).ravel()

    def of_copy(self, copy: int, owner: dict[int, Any]) -> Reads:
        """Return the part of these reads that one cluster makes. ``owner``: operations in flight by number."""
        here = slice(copy, copy + 1) if self.offsets.shape[1] > 1 else slice(1)
        chosen = None if self.chosen is None else self.chosen[:, here]
        return Reads(owner, self.offsets[:, here], self.size, chosen)

    def of_rows(self, rows: Any) -> Reads:
        """Return the part of these reads that the lanes at indices ``rows`` make."""
        if len(self.offsets) in (1, len(rows)):
            return self
        chosen = None if self.chosen is None else self.chosen[rows]
        return Reads(self.owner, self.offsets[rows], self.size, chosen)


class GlobalArray:
    """An array or module variable in global memory."""

    def __init__(self, name: str, data: Any, base: int, *, writable: bool, space: str) -> None:
        self.name, self.data, self.base, self.writable, self.space = name, data, base, writable, space
        self.skew = base & 255
        address = data.ctypes.data
        self.word_sizes = {size for size in WORDS if not (len(data) % size or base % size or address % size)}
        self.shadow: ShadowMemory | None = None
        self.log: list[tuple[Any, int, Any, Any]] = []
        self.log_bytes = 0
        self.written: Any = None
        self.in_flight: dict[int, list[Reads]] = {}
        self.constant: list[tuple[Any, int]] = []
        self.constant_cells: Any = None
        self.journal: list[tuple[Any, Any]] | None = None
        self.has_value = True  # False for a variable without an initial value that was not set
        self.freed = ""

    def remember(self, journal: list[tuple[Any, Any]]) -> None:
        """Start a journal of changes. The first write to a page adds a view and a copy of the page to ``journal``."""
        self.journal = journal
        self._noted = np.zeros((len(self.data) >> PAGE_BITS) + 1, bool)

    def note(self, offsets: Any, size: int) -> None:
        """Save the pages that a write is about to change, if a journal was started."""
        if self.journal is None:
            return
        first = offsets.ravel()
        pages = np.concatenate([first >> PAGE_BITS, (first + (size - 1)) >> PAGE_BITS])
        for page in np.unique(pages[~self._noted[pages]]).tolist():
            contents = self.data[page << PAGE_BITS : (page + 1) << PAGE_BITS]
            self.journal.append((contents, contents.copy()))
        self._noted[pages] = True

    def where(self, first: int, size: int = 1) -> str:
        """Return the name that messages use for bytes of the array, for example ``x bytes 4 to 7``."""
        return bytes_of(self.name, first, size)


class GlobalMemory:
    """The arrays and module variables of a launch, each in its own window of addresses.

    An array's base is a multiple of its declared alignment and of no larger power of two, so that an access that
    needs a larger alignment is a hazard.
    """

    def __init__(self) -> None:
        self.arrays: list[GlobalArray] = []
        self.cell = 16
        self.heap: dict[int, GlobalArray] = {}
        self._by_bytes: dict[tuple[int, int, str], list[GlobalArray]] = {}

    def add(
        self, name: str, data: Any, align_bytes: int, *, writable: bool, space: str = "global", first_bytes: int = 0
    ) -> int:
        """Map a flat uint8 array to addresses. Return the address of the array's byte ``first_bytes``.

        Two arrays over the same bytes have one address.
        """
        same = self._by_bytes.setdefault((data.ctypes.data, len(data), space), [])
        for array in same if len(data) else ():
            if (array.base + first_bytes) % align_bytes == 0:
                array.name, array.writable = f"{array.name} (also {name})", array.writable or writable
                return array.base + first_bytes
        base = ((len(self.arrays) + 1) << WINDOW_BITS) + align_bytes + -first_bytes % align_bytes
        self.arrays.append(GlobalArray(name, data, base, writable=writable, space=space))
        same.append(self.arrays[-1])
        return base + first_bytes

    def allocate(self, size: int, where: str) -> int | None:
        """Allocate a block of the device heap. Return the block's address, or None if the heap is full."""
        full = sum(len(block.data) for block in self.heap.values()) + size > HEAP_BYTES or len(self.heap) >= MOST_BLOCKS
        if full or len(self.arrays) >= MOST_ARRAYS:
            return None
        data = np.full(size, 0xA5, np.uint8)
        base = ((len(self.arrays) + 1) << WINDOW_BITS) + 256
        self.arrays.append(
            GlobalArray(f"the {size} bytes that {where} allocated", data, base, writable=True, space="global")
        )
        self.heap[base] = self.arrays[-1]
        return base

    def free(self, address: int, where: str) -> str:
        """Free a block of the device heap. Return "" on success, else an error message."""
        block = self.heap.pop(address, None)
        if block is None:
            number = (address >> WINDOW_BITS) - 1
            array = self.arrays[number] if 0 <= number < len(self.arrays) else None
            if array is not None and array.freed:
                return f"{array.name} are freed twice, first by {array.freed}"
            return f"0x{address:x} is freed, but malloc did not return this address" + (
                f": the address is in {array.name}" if array else ""
            )
        block.freed = where
        return ""

    def leaks(self) -> list[str]:
        """Return a list with one note if the kernel did not free all heap blocks. Otherwise return an empty list."""
        size = sum(len(block.data) for block in self.heap.values())
        first = next(iter(self.heap.values())).name if self.heap else ""
        return [f"{len(self.heap)} heap blocks ({size} bytes) were not freed; the first is {first}"] if first else []

    def copy_writable(self, most: int) -> list[Any] | None:
        """Return copies of the writable arrays for :meth:`again`. Return None if they have more than ``most`` bytes."""
        if sum(len(array.data) for array in self.arrays if array.writable) > most:
            return None
        return [array.data.copy() if array.writable else None for array in self.arrays]

    def again(self, kept: list[Any]) -> GlobalMemory:
        """Restore the writable arrays from ``kept``. Return a :class:`GlobalMemory` without recorded accesses."""
        new = GlobalMemory()
        for old, before in zip(self.arrays, kept, strict=False):
            if before is not None:
                old.data[:] = before
            array = GlobalArray(old.name, old.data, old.base, writable=old.writable, space=old.space)
            if old.journal is not None:
                array.journal, array._noted = old.journal, old._noted
            new.arrays.append(array)
        return new

    def unskew(self, addresses: Any) -> Any:
        """Return addresses as if every array began at a multiple of 256 bytes, like allocations of the driver."""
        window = (addresses >> np.uint64(WINDOW_BITS)).astype(np.int64) - 1
        skew = np.array([a.base & ((1 << WINDOW_BITS) - 1) for a in self.arrays], np.uint64)
        return addresses - skew[window]


def fetch(array: GlobalArray, offsets: Any, size: int) -> Any:
    """Read ``size`` bytes at each offset in an array. The result has shape ``(*offsets.shape, size)``."""
    if size > 16:
        return np.concatenate([fetch(array, offsets + part, 16) for part in range(0, size, 16)], axis=-1)
    data, word = array.data, WORDS[size]
    if size in array.word_sizes:
        words = data.view(word)[offsets // size if size > 1 else offsets]
        return words.view(np.uint8).reshape(*offsets.shape, size)
    return data[offsets[..., None] + np.arange(size)]


def put(array: GlobalArray, offsets: Any, raw: Any) -> None:
    """Write bytes at offsets in an array. ``raw`` has the shape that :func:`fetch` returns."""
    size = raw.shape[-1]
    if size > 16:
        for part in range(0, size, 16):
            put(array, offsets + part, raw[..., part : part + 16])
        return
    array.note(offsets, size)
    data, word = array.data, WORDS[size]
    if size in array.word_sizes:
        data.view(word)[offsets // size if size > 1 else offsets] = np.ascontiguousarray(raw).view(word)[..., 0]
    else:
        data[offsets[..., None] + np.arange(size)] = raw
