"""Matrix descriptors of ``wgmma`` and ``tcgen05`` for matrices in shared memory (PTX ISA 9.7.16.5.1, 9.7.17.4).

Addresses are in units of 16 bytes. A row is along M or N, a column along K. K is contiguous (K-major), or M or N (MN-major). A
descriptor's swizzle is an XOR of shared addresses, so an operand may begin at any unit of the pattern's first row.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ..machine.machine import Machine
from ..memory_model.access import RANK_BITS
from .copies import check_sent
from .matrices import unpack
from .products import ELEMENT_BITS, values_of

UNIT = 16
PADDED_BITS = {"e2m1": 4, "e2m3": 6, "e3m2": 6}
"""The bits of narrow elements, 16 of which are at the beginning of a unit."""


@attrs.frozen
class Swizzle:
    """A frozen record of a swizzle mode: the pattern's rows, the bytes per row, and the address bits that are XORed."""

    span: int
    shift: int = 3
    mask: int = 0
    rows: int = 8

    def __call__(self, addresses: Any) -> Any:
        """Return swizzled addresses."""
        return addresses ^ (addresses >> self.shift & self.mask)


_NONE, _B32, _B64, _B128 = Swizzle(16), Swizzle(32, 3, 0x10), Swizzle(64, 3, 0x30), Swizzle(128, 3, 0x70)
_B128_ATOM32 = Swizzle(128, 2, 0x60, 4)


@attrs.frozen
class Kind:
    """A frozen record of how an instruction interprets the upper bits of a matrix descriptor.

    ``shift``: of the swizzle's code; ``swizzles``: by that code; ``reserved``: the mask of fixed bits, among them the
    base offset's; ``fixed``: the values of these bits.
    """

    shift: int
    swizzles: dict[int, Swizzle]
    reserved: int
    fixed: int = 0


WGMMA = Kind(62, {0: _NONE, 1: _B128, 2: _B64, 3: _B32}, 0x3FFFC000C000C000)
TCGEN05 = Kind(61, {0: _NONE, 1: _B128_ATOM32, 2: _B128, 4: _B64, 6: _B32}, 0x1FFFC000C000C000, 1 << 46)


@attrs.frozen
class Descriptor:
    """A frozen record of a matrix descriptor. The start address and the leading and stride offsets are in bytes."""

    start: int
    leading: int
    stride: int
    swizzle: Swizzle

    @classmethod
    def read(cls, machine: Machine, one: Any, word: int, kind: Kind) -> Descriptor:
        """Check a lane's matrix descriptor and return the descriptor's fields."""
        swizzle = kind.swizzles.get(word >> kind.shift)
        if swizzle is None or word & kind.reserved != kind.fixed:
            machine.hazard("descriptor", f"swizzle and fixed bits must be valid, got descriptor 0x{word:016x}", one)
        return cls((word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4, swizzle)

    def k_major(self, rows: int, units: int) -> Any:
        """Return the addresses of the 16-byte units of a K-major matrix, in shape ``(rows, units per row)``."""
        row, unit, swizzle = np.arange(rows)[:, None], np.arange(units), self.swizzle
        along = UNIT if swizzle.mask else self.leading
        return swizzle(self.start + row % 8 * swizzle.span + row // 8 * self.stride + unit * along)

    def mn_major(self, units: int, columns: int) -> Any:
        """Return the addresses of the 16-byte units of an MN-major matrix, in shape ``(columns, units per column)``."""
        column, unit, swizzle = np.arange(columns)[:, None], np.arange(units), self.swizzle
        wide, rows = swizzle.span // UNIT, swizzle.rows
        along, across = (self.leading, self.stride) if swizzle.mask else (self.stride, self.leading)
        inside = unit % wide * UNIT + column % rows * swizzle.span
        return swizzle(self.start + inside + unit // wide * along + column // rows * across)


def places_of(machine: Machine, lane: int, cta: int, offsets: Any) -> Any:
    """Return a CTA's 16-byte units as offsets in the batch's shared memory. Check that none overlaps an mbarrier."""
    shared = machine.shared
    rank = cta % machine.cluster_size if machine.program.arch >= 90 else 0
    first = np.full(offsets.size, cta * machine.threads)
    places = shared.place(first, (offsets.ravel() + (rank << RANK_BITS)).astype(np.uint64)[:, None], UNIT)
    if shared.has_objects:
        shared.refuse_objects(np.full(len(places), lane), places, UNIT)
    return places


def units_of(descriptor: Descriptor, rows: int, k: int, type: str, *, mn_major: bool) -> Any:
    """Return the addresses of the 16-byte units of a ``rows`` x ``k`` operand, in the order of :func:`matrix_of`."""
    elems_per_unit = 8 * UNIT // ELEMENT_BITS[type]
    return descriptor.mn_major(rows // elems_per_unit, k) if mn_major else descriptor.k_major(rows, k // elems_per_unit)


def widen(raw: Any, bits: int) -> Any:
    """Unpack the 16 elements of each unit to one byte per element. A 4-bit element is in bits 2 to 5 of its byte."""
    return unpack(raw, bits) << (2 if bits == 4 else 0)


def matrix_of(raw: Any, rows: int, k: int, type: str, *, mn_major: bool) -> Any:
    """Convert bytes of shape ``(units, clusters, 16)`` to an operand's values of shape ``(clusters, rows, k)``."""
    if bits := PADDED_BITS.get(type):
        raw = widen(raw, bits)
    values = values_of(np.ascontiguousarray(raw).view(np.uint32), type).swapaxes(0, 1)
    matrix = values.reshape(raw.shape[1], *((k, rows) if mn_major else (rows, k)))
    return matrix.swapaxes(1, 2) if mn_major else matrix


def operand_in_shared(
    machine: Machine, lanes: Any, cta: int, descriptor: Descriptor, rows: int, k: int, type: str, *, mn_major: bool
) -> tuple[Any, Any]:
    """Check that lanes may read an operand. Return its units' offsets and their shadow-memory cells."""
    places = places_of(machine, int(lanes[0]), cta, units_of(descriptor, rows, k, type, mn_major=mn_major))
    cells = [check_sent(machine, np.array([lane]), places, UNIT) for lane in lanes]
    return places, np.unique(cells[0])
