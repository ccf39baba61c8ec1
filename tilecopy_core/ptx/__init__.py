"""Writing PTX: registers, addresses, instructions."""

from ..description.target import MBARRIER_TX_LIMIT
from .bindings import POOL, Bindings, KernelBindings, SharedPlan
from .builder import PtxBuilder
from .emitter import Emitter, pure_once
from .host_parameters import HostBytes, Recipe, TensorMap
from .index import IMMEDIATE_REACH_BYTES, SETP
from .instructions import CLUSTERS, Instruction, Needs, Role, header_target, instruction_of, merge, nearest_to
from .lines import AnyLine, Label, Line, are_checked, declared_in, names_in, parsed, statements
from .operands import STEM, TYPE_BITS, Access, Address, Operand, Register, TensorPlace, Written, masked

__all__ = ["IMMEDIATE_REACH_BYTES", "MBARRIER_TX_LIMIT", "SETP", "STEM", "TYPE_BITS", "Access", "Address", "AnyLine"]
__all__ += ["Bindings", "Emitter", "HostBytes", "Instruction", "KernelBindings", "Label", "Line", "Needs"]
__all__ += ["CLUSTERS", "POOL", "Operand", "PtxBuilder", "are_checked", "merge"]
__all__ += ["Recipe", "Register", "SharedPlan", "TensorMap", "TensorPlace", "Written"]
__all__ += ["header_target", "instruction_of", "masked", "names_in", "statements"]
__all__ += ["Role", "declared_in", "nearest_to", "parsed", "pure_once"]
