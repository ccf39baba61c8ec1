"""What PTX instructions need of a module's ``.version`` and ``.target``: for packages that read or write PTX."""

from .ptx.instructions import Instruction, Needs, instruction_of

__all__ = ["Instruction", "Needs", "instruction_of"]
