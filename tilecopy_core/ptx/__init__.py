"""Writing PTX: registers, addresses, instructions."""

from ..description.target import MBARRIER_TX_LIMIT
from .bindings import POOL, Bindings, KernelBindings, Recipe, SharedPlan
from .builder import PtxBuilder
from .emitter import Emitter, pure_once
from .index import IMMEDIATE_REACH_BYTES, SETP
from .instructions import Instruction, Needs, Role, instruction_of, merge, nearest_to
from .lines import AnyLine, Label, Line, LineAccess, Text, declared_in, instructions_in, names_in, parsed, statements
from .operands import STEM, TYPE_BITS, Access, Address, Operand, Register, TensorPlace, Vector, Written, masked

__all__ = ["IMMEDIATE_REACH_BYTES", "MBARRIER_TX_LIMIT", "POOL", "SETP", "STEM", "TYPE_BITS", "Access", "Address"]
__all__ += ["AnyLine", "Bindings", "Emitter", "Instruction", "KernelBindings", "Label", "Line"]
__all__ += ["LineAccess", "Needs", "Operand", "PtxBuilder", "Recipe", "Register", "Role", "SharedPlan"]
__all__ += ["TensorPlace", "Text", "Vector", "Written", "declared_in", "instruction_of", "instructions_in", "masked"]
__all__ += ["merge", "names_in", "nearest_to", "parsed", "pure_once", "statements"]
