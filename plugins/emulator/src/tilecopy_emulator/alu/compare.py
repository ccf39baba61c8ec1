"""The instructions that compare or select values: ``setp``, ``set``, ``selp``, ``slct``."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .formats import FORMATS, decode, encode, flush
from .forms import Compute, Form, Mode, form, plain
from .integers import halves, join_halves, view

ORDERED: dict[str, Callable[[Any, Any], Any]] = {x: getattr(operator, x) for x in ("eq", "ne", "lt", "le", "gt", "ge")}
"""Comparisons of arrays by their names in PTX."""
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEAN: dict[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def comparison(mode: Mode) -> Compute:
    """Return a function that compares two arrays of bit patterns, as the instruction's modifiers and type require.

    With a NaN, floating-point comparisons are false (``ne``, too), and the forms that end in ``u`` are true. ``num`` is
    true if both operands are numbers, ``nan`` if one is a NaN.
    """
    name = next(part for part in mode.modifiers if part in _ALL)
    type = mode.type
    if type[0] in "bus" and type != "bf16":
        function = ORDERED[_UNSIGNED.get(name, name)]
        return lambda a, b: function(view(a, type), view(b, type))
    format = FORMATS[type]

    def compute(a: Any, b: Any) -> Any:
        if mode.has("ftz"):
            a, b = flush(a, format), flush(b, format)
        x, y = decode(a, format), decode(b, format)
        unordered = np.isnan(x) | np.isnan(y)
        if name in ("num", "nan"):
            return unordered if name == "nan" else ~unordered
        holds = ORDERED[name.removesuffix("u") if name != "neu" else "ne"](x, y)
        return holds | unordered if name.endswith("u") else holds & ~unordered

    return compute


_ALL = {*ORDERED, *_UNSIGNED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}


def _combine(mode: Mode, result: Any, other: Any | None) -> Any:
    function = _BOOLEAN.get(mode.one_of("and", "or", "xor"))
    return result if function is None or other is None else function(result, other)


def _set_predicate(mode: Mode) -> Compute:
    """Return ``setp p|q``: the comparison and its negation, or for pairs one comparison per half."""
    is_pair = mode.type.endswith("x2")
    compare = comparison(Mode((mode.type.removesuffix("x2"),), mode.modifiers))

    def compute(a: Any, b: Any, c: Any | None = None) -> Any:
        predicates = [compare(x, y) for x, y in (zip(halves(a), halves(b), strict=True) if is_pair else [(a, b)])]
        return tuple(_combine(mode, result, c) for result in (*predicates, ~predicates[0])[:2])

    return compute


def _set(mode: Mode) -> Compute:
    """Return ``set``: all ones or 1.0 where the comparison is true, for pairs in each half."""
    result, is_pair = mode.types[0].removesuffix("x2"), mode.type.endswith("x2")
    compare = comparison(Mode((mode.type.removesuffix("x2"),), mode.modifiers))
    if result in FORMATS:
        true = encode(np.ones(1), FORMATS[result])
    else:
        size = 2 if is_pair else int(result[1:]) // 8
        true = np.full(1, (1 << 8 * size) - 1, f"u{size}")

    def one(a: Any, b: Any, c: Any) -> Any:
        return np.where(_combine(mode, compare(a, b), c), true, true.dtype.type(0))

    def compute(a: Any, b: Any, c: Any | None = None) -> Any:
        if not is_pair:
            return one(a, b, c)
        return join_halves(*(one(x, y, c) for x, y in zip(halves(a), halves(b), strict=True)))

    return compute


def _select_by_sign(mode: Mode) -> Compute:
    """Return ``slct``: a where ``c >= 0``, else b; b for a NaN."""

    def compute(a: Any, b: Any, c: Any) -> Any:
        if mode.type == "s32":
            return np.where(view(c, "s32") >= 0, a, b)
        if mode.has("ftz"):
            c = flush(c, FORMATS["f32"])
        return np.where(decode(c, FORMATS["f32"]) >= 0, a, b)

    return compute


def _forms() -> list[Form]:
    forms: list[Form] = []
    integers = "u16 u32 u64 s16 s32 s64"
    for boolean, third in (("", ""), ("(.bool)", " pred")):
        roles = f"pred pred? = t t{third}"
        forms += [
            form(f"setp(.eq,.ne){boolean}", "b16 b32 b64", roles, _set_predicate),
            form(f"setp(.cmp){boolean}", integers, roles, _set_predicate),
            form(f"setp(.ucmp){boolean}", "u16 u32 u64", roles, _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}{{.ftz}}", "f32", roles, _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}", "f64", roles, _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}{{.ftz}}", "f16", f"pred = t t{third}", _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}", "bf16", f"pred = t t{third}", _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}{{.ftz}}", "f16x2", f"pred pred = t t{third}", _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}", "bf16x2", f"pred pred = t t{third}", _set_predicate),
        ]
        roles = f"t0 = t t{third}"
        for result in ("u32", "s32", "f32", "f16", "bf16"):
            forms += [
                form(f"set(.eq,.ne){boolean}", f"{result}.b16 {result}.b32 {result}.b64", roles, _set),
                form(f"set(.cmp){boolean}", " ".join(f"{result}.{t}" for t in integers.split()), roles, _set),
                form(f"set(.ucmp){boolean}", " ".join(f"{result}.{t}" for t in integers.split()[:3]), roles, _set),
                form(f"set(.cmp,.fcmp){boolean}{'{.ftz}' if result != 'bf16' else ''}", f"{result}.f32", roles, _set),
                form(f"set(.cmp,.fcmp){boolean}", f"{result}.f64", roles, _set),
            ]
        fp16 = "f16.f16 u16.f16 s16.f16 u32.f16 s32.f16 f16x2.f16x2 u32.f16x2 s32.f16x2"
        forms += [
            form(f"set(.cmp,.fcmp){boolean}{{.ftz}}", fp16, roles, _set),
            form(f"set(.cmp,.fcmp){boolean}", f"bf16.f16 {fp16.replace('f16', 'bf16')}", roles, _set),
        ]
    every = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"
    forms.append(form("selp", every, "t = t t pred", plain(lambda a, b, p: np.where(p, a, b))))
    forms += [
        form("slct", " ".join(f"{t}.s32" for t in every.split()), "t0 = t0 t0 s32", _select_by_sign),
        form("slct{.ftz}", " ".join(f"{t}.f32" for t in every.split()), "t0 = t0 t0 f32", _select_by_sign),
    ]
    return forms


FORMS: tuple[Form, ...] = tuple(_forms())
