"""Writing PTX: registers, addresses, instructions, module text."""

from .builder import MBARRIER_TX_LIMIT, PtxBuilder
from .index import SETP
from .module import Parameter, module_text
from .operands import Address, Register

__all__ = ["MBARRIER_TX_LIMIT", "SETP", "Address", "Parameter", "PtxBuilder", "Register", "module_text"]
