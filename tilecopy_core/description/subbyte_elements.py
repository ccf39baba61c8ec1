"""Functions that rewrite a copy of sub-byte elements as a copy of bytes. Some variants can address only whole bytes."""

from __future__ import annotations

import attrs

from ..errors import LayoutError
from ..integers.expr import Expr, divisor_of, floordiv, structural_equal
from ..memory.buffers import Region
from .request import CopyRequest


def in_bytes(request: CopyRequest) -> CopyRequest | None:
    """Rewrite a request on sub-byte elements as a request on uint8. Return None if this is impossible or not needed.

    Two neighbours of 4 bits must share a byte in the same dimension on both sides, and boxes must begin and end between bytes.
    """
    if request.src.buffer.dtype.bits >= 8 or request.may_exceed_bounds:
        return None
    try:
        (dst, dst_place, *_), (src, src_place, *_) = _as_bytes(request.dst), _as_bytes(request.src)
    except LayoutError:
        return None
    return attrs.evolve(request, dst=dst, src=src, outside=None) if dst_place == src_place else None


def why_not_in_bytes(request: CopyRequest) -> str:
    """Return a message that says why :func:`in_bytes` returned None for sub-byte elements, and what to do."""
    try:
        (dst, dst_place, *_), (src, src_place, *_) = _as_bytes(request.dst), _as_bytes(request.src)
    except LayoutError as error:
        try:
            (dst, _, dst_phase), (src, _, src_phase) = (_as_bytes(x, around=True) for x in (request.dst, request.src))
        except LayoutError:
            return str(error)
        names = [f"{x.buffer.name}.view(dtype='uint8'){str(x).removeprefix(x.buffer.name)}" for x in (src, dst)]
        advice = f"; or copy whole bytes: source {names[0]}, destination {names[1]}"
        return f"{error}{advice}" if dst_phase == src_phase else str(error)
    if dst_place != src_place:
        return f"the elements that share a byte must be neighbours along the same dimension of {request.src} and {request.dst}"
    return f"copy whole bytes, from {src.buffer.name}.view(dtype='uint8') to {dst.buffer.name}.view(dtype='uint8')"


def _as_bytes(region: Region, *, around: bool = False) -> tuple[Region, int, int]:
    """Return a region as bytes, which dimension longer than 1 shrinks, and its first element's place in its byte."""
    buffer, starts, extents = region.buffer, list(region.starts), list(region.extents)
    view, per_byte = buffer.view(dtype="uint8"), 8 // buffer.dtype.bits
    dim = next((d for d, size in enumerate(buffer.shape) if not structural_equal(size, view.shape[d])), None)
    if dim is None:
        raise LayoutError(f"{buffer} has no elements")
    start, extent, phase = starts[dim], extents[dim], 0
    if divisor_of(start) % per_byte or extent % per_byte:
        if not around or isinstance(start, Expr):  # with `around`, a known place may lie inside a byte
            raise LayoutError(
                f"dimension {dim} of {region} must start and end at a multiple of {per_byte} elements (a byte boundary), got start {start} and extent {extent}"
            )
        phase = start % per_byte
    place = sum(extent > 1 for extent in extents[:dim])
    starts[dim], extents[dim] = floordiv(start, per_byte), -(-(phase + extent) // per_byte)
    return Region(view, tuple(starts), tuple(extents), region.inside), place, phase
