"""The scalar video instructions combine parts of two registers, clamp the result, and add or merge a third register.

Source: PTX ISA, scalar video instructions. Every value is exact until its low 32 bits are written; an intermediate result has
34 bits including its sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .compare import ORDERED
from .forms import Compute, Form, Mode, form

PARTS = {"b0": (0, 8), "b1": (8, 8), "b2": (16, 8), "b3": (24, 8), "h0": (0, 16), "h1": (16, 16)}
"""The parts of a word: first bit, and number of bits."""
_WHOLE = (0, 32)
_WIDTH = 34


def computation(name: str, mode: Mode, marks: Mapping[int, str] | None = None) -> Compute:
    """Return the function that computes a video instruction.

    ``name``: the opcode; ``mode``: the types and modifiers; ``marks``: by the position of an operand, a sign if it
    is negated, and its part of the register (``b2``, ``-h0``).
    """
    marks = dict(marks or {})
    types = ("u32", *mode.types) if name == "vset" else mode.types
    target = PARTS.get(marks.get(0, ""), _WHOLE)

    def compute(a: Any, b: Any, c: Any = 0) -> Any:
        left, right = (_part(raw, marks.get(at, "").lstrip("-"), types[at]) for at, raw in ((1, a), (2, b)))
        if name == "vmad":
            return _low(_multiply_add(mode, marks, left, right, c))
        value = _combine(name, mode, left, right)
        if mode.has("sat"):
            value = _clamp(value, types[0], target[1])
        third = _part(c, "", types[0])
        if mode.has("add"):
            value = value + third
        elif mode.has("min") or mode.has("max"):
            value = (np.minimum if mode.has("min") else np.maximum)(value, third)
        if target == _WHOLE:
            return _low(value)
        mask = ((1 << target[1]) - 1) << target[0]
        return _low((value << target[0]) & mask | third & ~mask)

    return compute


def _low(values: Any) -> Any:
    return np.asarray(values & 0xFFFFFFFF, np.uint32)


def _part(raw: Any, part: str, type: str) -> Any:
    """Return a part of a word as an integer, signed or unsigned by its type."""
    first, bits = PARTS.get(part, _WHOLE)
    value = np.asarray(raw).astype(np.int64) >> first & ((1 << bits) - 1)
    return _signed(value, bits) if type == "s32" else value


def _signed(values: Any, bits: int) -> Any:
    """Return the low bits of integers as signed integers."""
    return (values << (64 - bits)) >> (64 - bits)


def _clamp(values: Any, type: str, bits: int) -> Any:
    least = -(1 << (bits - 1)) if type == "s32" else 0
    return np.clip(values, least, least + (1 << bits) - 1)


def _combine(name: str, mode: Mode, left: Any, right: Any) -> Any:
    if name == "vset":
        return ORDERED[mode.one_of(*ORDERED)](left, right).astype(np.int64)
    if name in ("vshl", "vshr"):
        by = np.minimum(right, 32) if mode.has("clamp") else right & 31
        return _signed(left << by, _WIDTH) if name == "vshl" else left >> by
    if name in ("vmin", "vmax"):
        return (np.minimum if name == "vmin" else np.maximum)(left, right)
    total = left + right if name == "vadd" else left - right
    return np.abs(total) if name == "vabsdiff" else total


def _multiply_add(mode: Mode, marks: Mapping[int, str], left: Any, right: Any, c: Any) -> Any:
    """Return ``a b + c``, where each may be negated; ``.po`` adds one. The result is signed if a source is signed or negated."""
    negated = [marks.get(position, "").startswith("-") for position in range(4)]
    minus = negated[1] != negated[2]
    is_signed = "s32" in mode.types[1:] or minus or negated[3]
    third = _part(c, "", "s32" if is_signed else "u32")
    product = left.astype(object) * right  # of 66 bits where a byte is not enough
    total = (-product if minus else product) + (-third if negated[3] else third) + int(mode.has("po"))
    total = total >> (7 if mode.has("shr7") else 15 if mode.has("shr15") else 0)
    if mode.has("sat"):
        total = _clamp(total, "s32" if is_signed else "u32", 32)
    return (total & 0xFFFFFFFF).astype(np.int64)


def _forms() -> list[Form]:
    def of(name: str) -> Any:
        return lambda mode: computation(name, mode)

    signs = ("u32", "s32")
    pairs = " ".join(f"{a}.{b}" for a in signs for b in signs)
    triples = " ".join(f"{d}.{pair}" for d in signs for pair in pairs.split())
    shifted = " ".join(f"{d}.{a}.u32" for d in signs for a in signs)
    kinds = [(name, "{.sat}", triples) for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax")]
    kinds += [(name, "(.clamp,.wrap){.sat}", shifted) for name in ("vshl", "vshr")]
    kinds += [("vset", "(.eq,.ne,.lt,.le,.gt,.ge)", pairs)]
    forms = [form("vmad{.po}{.sat}{.shr7,.shr15}", triples, "u32 = u32 u32 u32", of("vmad"))]
    for name, modifiers, types in kinds:
        forms += [
            form(f"{name}{modifiers}", types, "u32 = u32 u32", of(name)),
            form(f"{name}(.add,.min,.max){modifiers}", types, "u32 = u32 u32 u32", of(name)),
        ]
    return forms


FORMS = tuple(_forms())
NAMES = frozenset(form.name for form in FORMS)
