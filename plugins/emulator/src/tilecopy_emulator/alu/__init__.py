"""The opcodes, modifiers and types of arithmetic instructions, and NumPy functions that compute the results.

Every function takes unsigned arrays (booleans for predicates), one per operand, of shapes that broadcast, and returns
unsigned arrays. Threads, registers and memory have no part in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from . import compare, convert, floats, integers, video
from .forms import TYPES, Form, Mode, UndefinedResultError

FORMS: dict[str, tuple[Form, ...]] = {}
"""The forms of each opcode."""
for _form in (*integers.FORMS, *floats.FORMS, *compare.FORMS, *convert.FORMS, *video.FORMS):
    FORMS[_form.name] = (*FORMS.get(_form.name, ()), _form)

__all__ = ["FORMS", "Form", "Mode", "UndefinedResultError", "find_forms"]


def find_forms(opcode: tuple[str, ...], table: Mapping[str, Sequence[Form]] = FORMS) -> list[tuple[Form, Mode]]:
    """Return the forms in ``table`` that match an opcode, each with a :class:`Mode`. They differ only in operands."""
    return list(_known(opcode) if table is FORMS else _matches(opcode, table.get(opcode[0], ())))


@lru_cache(maxsize=1 << 12)
def _known(opcode: tuple[str, ...]) -> tuple[tuple[Form, Mode], ...]:
    """Return the forms of :data:`FORMS` that match an opcode, with their modes."""
    return _matches(opcode, FORMS.get(opcode[0], ()))


def _matches(opcode: tuple[str, ...], forms: Sequence[Form]) -> tuple[tuple[Form, Mode], ...]:
    types = tuple(part for part in opcode[1:] if part in TYPES)
    modifiers = tuple(part for part in opcode[1:] if part not in TYPES)
    modes = ((form, form.match(types, modifiers)) for form in forms)
    return tuple((form, mode) for form, mode in modes if mode is not None)
