"""Matrix fragments and matrix products, for all matrix instructions.

A fragment has the thread and the element of each place of a matrix, from extents with a step over threads and one over elements.
Products are exact. Their sum, with the accumulator, is rounded once to nearest in the type of the result. The ISA leaves the
order and the rounding of floating-point sums open, so the last bits may differ from a GPU's if a sum is not exact.
For float64, one ``fma`` adds each product, in the order of K, as the ISA requires; integers wrap or saturate.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from ..alu import double
from ..alu.formats import F32, F64, FORMATS, decode, encode, quantize

_OTHER_BITS = {"e2m1": 8, "e2m3": 8, "e3m2": 8, "s32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
ELEMENT_BITS = {name: format.bits for name, format in FORMATS.items()} | _OTHER_BITS
"""The bits of an element of each type in a register or in shared memory (elements of 4 and 6 bits take a byte)."""
_BYTE_FLOATS = {"e2m1": (2, 2, 1), "e2m3": (0, 2, 3), "e3m2": (0, 3, 2)}
"""Float type of at most 8 bits -> unused low bits of its byte, bits of its exponent, and bits of its fraction."""


@attrs.frozen(eq=False)
class Fragment:
    """A frozen record of how a matrix is distributed over the registers of threads.

    ``rows, columns``: its extents; ``type``: of its elements; ``thread, element``: for each element of the matrix, row
    by row, its thread and its number among the thread's elements.
    """

    rows: int
    columns: int
    type: str
    thread: Any
    element: Any

    @property
    def per_register(self) -> int:
        """The number of elements in a register of 32 bits, or of 64 bits for float64."""
        return max(1, 32 // ELEMENT_BITS[self.type])

    @property
    def registers(self) -> int:
        """The number of registers per thread."""
        return (int(self.element.max()) + 1) // self.per_register

    @property
    def register_type(self) -> str:
        """The PTX type of the registers that hold the fragment."""
        return self.type if self.type in ("f32", "f64", "s32") else "b32"

    def values(self, words: Any) -> Any:
        """Convert words of shape (registers, groups, threads, clusters) to values (groups, clusters, rows, columns)."""
        values = values_of(words, self.type)
        count = self.per_register
        elements = values[self.element // count, :, self.thread, :, self.element % count]  # (elements, groups, copies)
        return elements.transpose(1, 2, 0).reshape(*elements.shape[1:], self.rows, self.columns)

    def words(self, raw: Any) -> Any:
        """Pack the bit patterns of matrix elements into registers. This is the inverse of :meth:`values`."""
        groups, copies = raw.shape[:2]
        threads, count = int(self.thread.max()) + 1, self.registers * self.per_register
        elements = np.empty((groups, threads, copies, count), raw.dtype)
        elements[:, self.thread, :, self.element] = raw.reshape(groups, copies, -1).transpose(2, 0, 1)
        width = 8 if self.type == "f64" else 4
        return elements.view(f"u{width}").transpose(3, 0, 1, 2)

    def spread(self, origins: Any) -> Any:
        """For each element, return the origin of its register's undefined bits, in shape (groups, rows, columns)."""
        elem_origins = origins[self.element // self.per_register, :, self.thread]
        return elem_origins.T.reshape(-1, self.rows, self.columns)

    def gather(self, origins: Any) -> Any:
        """For each register, return the greatest origin of its elements, given as :meth:`spread` returns them."""
        greatest: Any = np.zeros((self.registers, int(self.thread.max()) + 1, len(origins)), np.int64)
        np.maximum.at(greatest, (self.element // self.per_register, self.thread), origins.reshape(len(origins), -1).T)
        return greatest.swapaxes(1, 2)


def layout(*steps: tuple[int, int, int]) -> tuple[Any, Any]:
    """Return each element's thread and its index there. ``steps``: (extent, thread step, index step) per axis."""
    thread = element = np.zeros(1, np.int64)
    for extent, by_thread, by_element in steps:
        along = np.arange(extent)
        thread = (thread[:, None] + along * by_thread).ravel()
        element = (element[:, None] + along * by_element).ravel()
    return thread, element


@lru_cache(maxsize=256)
def _fragment(rows: int, columns: int, type: str, warps: int, size: int) -> Fragment:
    """Return a fragment of the common pattern: runs of ``size`` elements, four threads per row, eight rows."""
    eights, runs = rows // (8 * warps), columns // (4 * size)
    down, along = ((warps, 32, 0), (eights, 0, size), (8, 4, 0)), ((runs, 0, eights * size), (4, 1, 0), (size, 0, 1))
    return Fragment(rows, columns, type, *layout(*down, *along))


def operand(rows: int, k: int, type: str, warps: int = 1) -> Fragment:
    """Return the fragment of operand A, or of operand B if ``rows`` is N (PTX ISA 9.7.15.5 and 9.7.16.5.1)."""
    return _fragment(rows, k, type, warps, max(1, 32 // ELEMENT_BITS[type]))


def total(rows: int, columns: int, type: str, warps: int = 1) -> Fragment:
    """Return the fragment of the accumulators C and D. Each thread holds pairs of adjacent elements of a row."""
    return _fragment(rows, columns, type, warps, 2)


def values_of(words: Any, type: str) -> Any:
    """Unpack registers to float64 values. The elements of a register are along a new last axis."""
    bits = ELEMENT_BITS[type]
    words = np.ascontiguousarray(words)[..., None]
    if bits < 8:
        raw = words >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1)
        return np.where(raw >> 3 != 0, raw - 16.0, raw) if type == "s4" else raw.astype(np.float64)
    raw = words.view(f"u{bits // 8}")
    if type in ("s8", "s32"):
        return raw.view(f"i{bits // 8}").astype(np.float64)
    if type == "u8":
        return raw.astype(np.float64)
    if type == "tf32":
        return decode(raw & np.uint32(0xFFFFE000), F32)
    return _byte_floats(type)[raw] if type in _BYTE_FLOATS else decode(raw, FORMATS[type])


@lru_cache(maxsize=8)
def _byte_floats(type: str) -> Any:
    below, exponent_bits, fraction_bits = _BYTE_FLOATS[type]
    raw = np.arange(256) >> below
    fraction, exponent = raw & ((1 << fraction_bits) - 1), raw >> fraction_bits & ((1 << exponent_bits) - 1)
    significand = fraction + np.where(exponent > 0, 1 << fraction_bits, 0)
    shift = np.maximum(exponent, 1) - ((1 << (exponent_bits - 1)) - 1) - fraction_bits
    sign = raw >> (exponent_bits + fraction_bits) & 1
    return np.where(sign == 1, -1.0, 1.0) * np.ldexp(significand.astype(np.float64), shift)


def product(
    a: Any, b: Any, c: Any, type: str, *, direction: str = "rn", saturate: bool = False, xor: bool = False
) -> Any:
    """Return the bit patterns of ``a @ b.T + c`` rounded to ``type``.

    ``a``: values ``(.., M, K)`` in float64; ``b``: values ``(.., N, K)``; ``c``: values ``(.., M, N)``; ``type``:
    ``f16``, ``f32``, ``f64`` or ``s32``; ``direction``: of the rounding, for ``f64``; ``saturate``: whether integers
    saturate on overflow; ``xor``: whether elements of one bit are combined by ``xor`` instead of ``and``.
    """
    with np.errstate(all="ignore"):
        if type == "f64":
            for k in range(a.shape[-1]):
                left, right, c = np.broadcast_arrays(a[..., :, None, k], b[..., None, :, k], c)
                c = double.fma(left, right, c, direction)
            return encode(np.ascontiguousarray(c), F64)
        columns = b.swapaxes(-1, -2)
        rows = min(16, a.shape[-2])  # at a time: for more, BLAS starts threads, which cost more than they gain
        blocks = a.reshape(*a.shape[:-2], -1, rows, a.shape[-1]) @ columns[..., None, :, :]
        both = blocks.reshape(*blocks.shape[:-3], -1, blocks.shape[-1])
        sums = (a.sum(axis=-1)[..., None] + columns.sum(axis=-2)[..., None, :] - 2 * both if xor else both) + c
        if type == "s32":
            if saturate:
                sums = np.clip(sums, -(2.0**31), 2.0**31 - 1)
            return sums.astype(np.int64).astype(np.uint32)
        return encode(quantize(sums, FORMATS[type], "rn"), FORMATS[type])
