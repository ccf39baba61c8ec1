"""Copies of elements of less than a byte as copies of bytes, for variants that address whole bytes."""

from __future__ import annotations

import attrs

from ..errors import LayoutError
from ..integers.expr import divisor_of, floordiv, same
from ..memory.buffers import Region
from .request import CopyRequest


def in_bytes(request: CopyRequest) -> CopyRequest | None:
    """Return the request with both sides as uint8, or None where that is another copy or elements have whole bytes anyway.

    Two neighbours of 4 bits must share a byte in the same dimension on both sides, and boxes must begin and end between bytes.
    """
    if request.src.buffer.dtype.bits >= 8 or request.overhangs:
        return None
    dst, src = _packed(request.dst), _packed(request.src)
    if dst is None or src is None or dst[1] != src[1]:
        return None
    return attrs.evolve(request, dst=dst[0], src=src[0], outside=None)


def _packed(region: Region) -> tuple[Region, int] | None:
    """Return a region as bytes, and which of its dimensions longer than 1 has fewer elements; None where it has no such form."""
    buffer = region.buffer
    try:
        view = buffer.view(dtype="uint8")
    except LayoutError:
        return None
    packed = [dim for dim, extent in enumerate(buffer.shape) if not same(extent, view.shape[dim])]
    per_byte = 8 // buffer.dtype.bits
    if len(packed) != 1:
        return None
    dim, starts, extents = packed[0], list(region.starts), list(region.extents)
    if divisor_of(starts[dim]) % per_byte or extents[dim] % per_byte:
        return None
    place = sum(extent > 1 for extent in extents[:dim])
    starts[dim], extents[dim] = floordiv(starts[dim], per_byte), extents[dim] // per_byte
    return Region(view, tuple(starts), tuple(extents), region.inside), place
