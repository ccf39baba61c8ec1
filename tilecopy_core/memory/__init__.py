"""Buffers, regions, views, and fill values for elements out of bounds."""

from .buffers import SPACE_ALIASES, SPACES, Buffer, Memory, Region, check_identifier, checked_shape, symbolic
from .out_of_bounds import Outside, outside_of

__all__ = ["Buffer", "Memory", "Outside", "Region", "SPACES", "SPACE_ALIASES", "check_identifier"]
__all__ += ["checked_shape", "outside_of", "symbolic"]
