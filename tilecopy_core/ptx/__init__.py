"""PTX text: registers, addresses, instructions, and the builder that writes them."""

from ..description.target import MBARRIER_TX_LIMIT
from .bindings import Bindings, Recipe
from .builder import PtxBuilder
from .emitter import Emitter, pure_once
from .index import IMMEDIATE_REACH_BYTES, SETP
from .instructions import Instruction, Needs, OpcodeForm, Role, forms_of, instruction_of, merge, opcode_words
from .lines import AnyLine, Label, Line, LineAccess, Text, declared_in, instructions_in, names_in, parse_lines
from .operands import STEM, TYPE_BITS, Access, Address, Operand, Register, TensorPlace, Vector, Written

__all__ = ["IMMEDIATE_REACH_BYTES", "MBARRIER_TX_LIMIT", "SETP", "STEM", "TYPE_BITS", "Access", "Address"]
__all__ += ["AnyLine", "Bindings", "Emitter", "Instruction", "Label", "Line", "LineAccess"]
__all__ += ["Needs", "Operand", "PtxBuilder", "Recipe", "Register", "Role", "TensorPlace", "Text"]
__all__ += ["Vector", "Written", "declared_in", "forms_of", "instruction_of", "instructions_in"]
__all__ += ["merge", "names_in", "opcode_words", "OpcodeForm", "parse_lines", "pure_once"]
