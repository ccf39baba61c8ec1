"""What a copy costs, counted from its text: :func:`cost`, :func:`compare`, and how memory traffic is counted."""

from .compare import Comparison, compare
from .cost import Cost, cost
from .traffic import BANK_BYTES, BANKS, LINE_BYTES, SECTOR_BYTES, distinct_sectors, distinct_wavefronts

__all__ = [
    "BANKS",
    "BANK_BYTES",
    "LINE_BYTES",
    "SECTOR_BYTES",
    "Comparison",
    "Cost",
    "compare",
    "cost",
    "distinct_sectors",
    "distinct_wavefronts",
]
