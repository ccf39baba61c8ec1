"""What a copy costs, counted from its text: :func:`cost`, :func:`compare`, and how memory traffic is counted."""

from .compare import Comparison, compare
from .cost import Cost, cost
from .traffic import distinct_sectors, distinct_wavefronts

__all__ = ["Comparison", "Cost", "compare", "cost", "distinct_sectors", "distinct_wavefronts"]
