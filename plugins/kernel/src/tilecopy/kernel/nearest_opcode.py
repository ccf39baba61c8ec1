"""A search for the known opcode that is most similar to a misspelt opcode, for notes on inline PTX."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tilecopy_core.ptx import OpcodeForm, forms_of, opcode_words
from tilecopy_core.registry import LOCK

_ALIKE = 0.8
"""The least similarity of a misspelt part of an opcode: ``globl`` is similar to ``global``, but ``b32`` is not to ``f32``."""


def nearest_opcode(opcode: str) -> str:
    """Return the known opcode that is most similar to a misspelt opcode, or "" if no opcode is similar."""
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
    """Return the opcode of a form that is the most similar to a misspelt one."""
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
