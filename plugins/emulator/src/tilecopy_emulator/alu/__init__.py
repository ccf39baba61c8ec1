"""Arithmetic as data: which opcode takes which modifiers and types, and what it computes on NumPy arrays of bits.

Every function takes unsigned arrays (booleans for predicates), one an operand, of shapes that broadcast, and gives
unsigned arrays. Nothing here knows of threads, registers or memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import compare, convert, floats, integers, video
from .forms import TYPES, Form, Mode, UndefinedResultError

FORMS: dict[str, tuple[Form, ...]] = {}
"""The forms of each opcode."""
for _form in (*integers.FORMS, *floats.FORMS, *compare.FORMS, *convert.FORMS, *video.FORMS):
    FORMS[_form.name] = (*FORMS.get(_form.name, ()), _form)

__all__ = ["FORMS", "Form", "Mode", "UndefinedResultError", "find_forms"]


def find_forms(opcode: tuple[str, ...], table: Mapping[str, Sequence[Form]] = FORMS) -> list[tuple[Form, Mode]]:
    """The forms that an opcode has in a table, with its mode; they differ in their operands only."""
    types = tuple(part for part in opcode[1:] if part in TYPES)
    modifiers = tuple(part for part in opcode[1:] if part not in TYPES)
    matches = []
    for form in table.get(opcode[0], ()):
        mode = form.match(types, modifiers)
        if mode is not None:
            matches.append((form, mode))
    return matches
