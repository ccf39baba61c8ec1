"""Small PTX programs with known verdicts: each fault with its correct twin, and correct idioms. See :mod:`.model`."""

from . import barriers, control, copies, extra, idioms, mbarriers, memory, others, races, scoped, tensor
from .model import CASES, CLEAN, Case, Text

__all__ = [
    "CASES",
    "CLEAN",
    "Case",
    "Text",
    "barriers",
    "control",
    "copies",
    "extra",
    "idioms",
    "mbarriers",
    "memory",
    "others",
    "races",
    "scoped",
    "tensor",
]
