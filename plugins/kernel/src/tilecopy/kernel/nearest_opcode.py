"""The opcode that a misspelt one most likely means, for notes about text of the user."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tilecopy_core.ptx import OpcodeForm, forms_of, opcode_words
from tilecopy_core.registry import LOCK

_ALIKE = 0.8
"""How like a part of an opcode is to the one that is meant: ``globl`` is to ``global``, and ``b32`` is not to ``f32``."""


def nearest_opcode(opcode: str) -> str:
    """Return the opcode of the table that is the nearest to one that it lacks, or "" where none is near."""
    with LOCK:
        from difflib import get_close_matches
    word, *modifiers = opcode.split(".")
    words = opcode_words()
    opcodes: list[str] = []
    for start in [word] if word in words else get_close_matches(word, words, n=8):
        opcodes += [_nearest_of(form, ".".join([start, *modifiers])) for form in forms_of(start)]

    def likeness(candidate: str) -> tuple[float, ...]:
        return _likeness(candidate.split("."), opcode.split(".")), _likeness(candidate, opcode), candidate[0] == word[0]

    return max(opcodes, key=likeness, default="")


def _nearest_of(form: OpcodeForm, opcode: str) -> str:
    """Return the opcode of a form that has the most in common with one that is not of it."""
    nearest, unmatched = form.start, opcode.split(".")[1:]
    for part in form.start.split(".")[1:]:
        if part in unmatched:
            unmatched.remove(part)
    for choices, required in form.groups:
        chosen, part = max(product(choices, unmatched or [""]), key=lambda pair: _likeness(*pair))
        is_meant = _likeness(chosen, part) >= _ALIKE
        if required or is_meant:
            nearest += f".{chosen}"
        if is_meant:
            unmatched.remove(part)
    return nearest


def _likeness(one: Sequence[str], other: Sequence[str]) -> float:
    with LOCK:
        from difflib import SequenceMatcher
    return SequenceMatcher(None, one, other).ratio()
