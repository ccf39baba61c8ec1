"""Writing PTX: registers, addresses, instructions, module text."""

from ..target import MBARRIER_TX_LIMIT
from . import tcgen05
from .bindings import Bindings, KernelBindings, SharedPlan
from .builder import PtxBuilder
from .index import IMMEDIATE_REACH_BYTES, SETP
from .module import module_text
from .operands import Access, Address, Register, masked

__all__ = [
    "IMMEDIATE_REACH_BYTES",
    "MBARRIER_TX_LIMIT",
    "SETP",
    "Access",
    "Address",
    "Bindings",
    "KernelBindings",
    "PtxBuilder",
    "Register",
    "SharedPlan",
    "masked",
    "module_text",
    "tcgen05",
]
