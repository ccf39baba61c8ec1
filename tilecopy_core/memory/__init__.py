"""Buffers and regions of them, and what lies outside an array."""

from .buffers import SPACES, Buffer, Memory, Region, check_identifier, checked_shape, symbolic
from .outside import Outside, outside_of

__all__ = [
    "Buffer",
    "Memory",
    "Region",
    "SPACES",
    "check_identifier",
    "checked_shape",
    "symbolic",
    "Outside",
    "outside_of",
]
