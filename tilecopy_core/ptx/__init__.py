"""Writing PTX: registers, addresses, instructions, module text."""

from ..description.target import MBARRIER_TX_LIMIT
from .bindings import Bindings, KernelBindings, SharedPlan
from .builder import PtxBuilder
from .emitted_text import emit_checked, is_special
from .emitter import Emitter, pure_once
from .host_parameters import HostBytes, Recipe, TensorMap
from .index import IMMEDIATE_REACH_BYTES, SETP
from .instructions import Instruction, Needs, Role, header_target, instruction_of, nearest_to
from .lines import AnyLine, Label, Line, declared_in, names_in, parsed, statements
from .module import ParameterText, declared, module_text, ptx_text
from .operands import STEM, TYPE_BITS, Access, Address, Register, TensorPlace, Written, masked

__all__ = ["IMMEDIATE_REACH_BYTES", "MBARRIER_TX_LIMIT", "SETP", "STEM", "TYPE_BITS", "Access", "Address", "AnyLine"]
__all__ += ["Bindings", "Emitter", "HostBytes", "Instruction", "KernelBindings", "Label", "Line", "Needs"]
__all__ += ["ParameterText", "PtxBuilder"]
__all__ += ["Recipe", "Register", "SharedPlan", "TensorMap", "TensorPlace", "Written", "declared", "emit_checked"]
__all__ += ["header_target", "instruction_of", "masked", "module_text", "names_in", "ptx_text", "statements"]
__all__ += ["Role", "declared_in", "is_special", "nearest_to", "parsed", "pure_once"]
