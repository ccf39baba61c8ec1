"""The cost of a copy, counted from its PTX: :func:`cost`, :func:`compare`, and functions that count memory traffic."""

from .compare import Comparison, compare
from .cost import Cost, cost
from .traffic import BANK_BYTES, BANKS, LINE_BYTES, SECTOR_BYTES, distinct_sectors, distinct_wavefronts

__all__ = ["BANKS", "BANK_BYTES", "LINE_BYTES", "SECTOR_BYTES", "Comparison", "Cost", "compare", "cost"]
__all__ += ["distinct_sectors", "distinct_wavefronts"]
