"""Comparisons and selections: ``setp``, ``set``, ``selp``, ``slct``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .formats import FORMATS, decode, encode, flush
from .forms import Compute, Form, Mode, form, plain
from .integers import halves, joined, view

_ORDERED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEAN: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def comparison(mode: Mode) -> Compute:
    """The comparison of a mode: from bits to booleans.

    With a NaN a floating-point comparison is false, ``ne`` too, and the forms that end in ``u`` are true. ``num`` asks
    whether both are numbers, ``nan`` whether one is not.
    """
    name = next(part for part in mode.modifiers if part in _ALL)
    type = mode.type
    if type[0] in "bus" and type != "bf16":
        function = _ORDERED[_UNSIGNED.get(name, name)]
        return lambda a, b: function(view(a, type), view(b, type))
    format = FORMATS[type]

    def compute(a: Any, b: Any) -> Any:
        if mode.has("ftz"):
            a, b = flush(a, format), flush(b, format)
        x, y = decode(a, format), decode(b, format)
        unordered = np.isnan(x) | np.isnan(y)
        if name in ("num", "nan"):
            return unordered if name == "nan" else ~unordered
        found = _ORDERED[name.removesuffix("u") if name != "neu" else "ne"](x, y)
        return found | unordered if name.endswith("u") else found & ~unordered

    return compute


_ALL = {*_ORDERED, *_UNSIGNED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}


def _combined(mode: Mode, result: Any, other: Any | None) -> Any:
    function = _BOOLEAN.get(mode.one_of("and", "or", "xor"))
    return result if function is None or other is None else function(result, other)


def _set_predicate(mode: Mode) -> Compute:
    compare = comparison(mode)

    def compute(a: Any, b: Any, c: Any | None = None) -> Any:
        result = compare(a, b)
        return _combined(mode, result, c), _combined(mode, ~result, c)

    return compute


def _set_predicates_of_pair(mode: Mode) -> Compute:
    """``setp.f16x2 p|q``: one comparison for each half."""
    compare = comparison(Mode((mode.type.removesuffix("x2"),), mode.modifiers))

    def compute(a: Any, b: Any, c: Any | None = None) -> Any:
        (a_low, a_high), (b_low, b_high) = halves(a), halves(b)
        return _combined(mode, compare(a_low, b_low), c), _combined(mode, compare(a_high, b_high), c)

    return compute


def _true_of(type: str) -> Any:
    """What ``set`` writes for true: all ones, or 1.0."""
    if type in FORMATS:
        return encode(np.ones(1), FORMATS[type])
    width = int(type[1:])
    return np.full(1, (1 << width) - 1, f"u{width // 8}")


def _set(mode: Mode) -> Compute:
    compare, true = comparison(mode), _true_of(mode.types[0])

    def compute(a: Any, b: Any, c: Any | None = None) -> Any:
        return np.where(_combined(mode, compare(a, b), c), true, true.dtype.type(0))

    return compute


def _set_pair(mode: Mode) -> Compute:
    compare = comparison(Mode((mode.type.removesuffix("x2"),), mode.modifiers))
    result = mode.types[0].removesuffix("x2")
    true = _true_of(result if result in FORMATS else "u16")

    def compute(a: Any, b: Any, c: Any | None = None) -> Any:
        found = [
            np.where(_combined(mode, compare(x, y), c), true, np.uint16(0))
            for x, y in zip(halves(a), halves(b), strict=True)
        ]
        return joined(found[0], found[1])

    return compute


def _select_by_sign(mode: Mode) -> Compute:
    """``slct``: a where ``c >= 0``, else b; a NaN gives b."""

    def compute(a: Any, b: Any, c: Any) -> Any:
        if mode.type == "s32":
            return np.where(view(c, "s32") >= 0, a, b)
        if mode.has("ftz"):
            c = flush(c, FORMATS["f32"])
        return np.where(decode(c, FORMATS["f32"]) >= 0, a, b)

    return compute


def _forms() -> list[Form]:
    found: list[Form] = []
    integers = "u16 u32 u64 s16 s32 s64"
    for boolean, third in (("", ""), ("(.bool)", " pred")):
        roles = f"pred pred? = t t{third}"
        found += [
            form(f"setp(.eq,.ne){boolean}", "b16 b32 b64", roles, _set_predicate),
            form(f"setp(.cmp){boolean}", integers, roles, _set_predicate),
            form(f"setp(.ucmp){boolean}", "u16 u32 u64", roles, _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}{{.ftz}}", "f32", roles, _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}", "f64", roles, _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}{{.ftz}}", "f16", f"pred = t t{third}", _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}", "bf16", f"pred = t t{third}", _set_predicate),
            form(f"setp(.cmp,.fcmp){boolean}{{.ftz}}", "f16x2", f"pred pred = t t{third}", _set_predicates_of_pair),
            form(f"setp(.cmp,.fcmp){boolean}", "bf16x2", f"pred pred = t t{third}", _set_predicates_of_pair),
        ]
        roles = f"t0 = t t{third}"
        for result in ("u32", "s32", "f32", "f16", "bf16"):
            found += [
                form(f"set(.eq,.ne){boolean}", f"{result}.b16 {result}.b32 {result}.b64", roles, _set),
                form(f"set(.cmp){boolean}", " ".join(f"{result}.{t}" for t in integers.split()), roles, _set),
                form(f"set(.ucmp){boolean}", " ".join(f"{result}.{t}" for t in integers.split()[:3]), roles, _set),
                form(f"set(.cmp,.fcmp){boolean}{'{.ftz}' if result != 'bf16' else ''}", f"{result}.f32", roles, _set),
                form(f"set(.cmp,.fcmp){boolean}", f"{result}.f64", roles, _set),
            ]
        halves_of = "f16.f16 u16.f16 s16.f16 u32.f16 s32.f16"
        found += [
            form(f"set(.cmp,.fcmp){boolean}{{.ftz}}", halves_of, roles, _set),
            form(
                f"set(.cmp,.fcmp){boolean}",
                "bf16.f16 bf16.bf16 u16.bf16 s16.bf16 u32.bf16 s32.bf16",
                roles,
                _set,
            ),
            form(f"set(.cmp,.fcmp){boolean}{{.ftz}}", "f16x2.f16x2 u32.f16x2 s32.f16x2", roles, _set_pair),
            form(f"set(.cmp,.fcmp){boolean}", "bf16x2.bf16x2 u32.bf16x2 s32.bf16x2", roles, _set_pair),
        ]
    every = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64"
    found.append(form("selp", every, "t = t t pred", plain(lambda a, b, p: np.where(p, a, b))))
    found += [
        form("slct", " ".join(f"{t}.s32" for t in every.split()), "t0 = t0 t0 s32", _select_by_sign),
        form("slct{.ftz}", " ".join(f"{t}.f32" for t in every.split()), "t0 = t0 t0 f32", _select_by_sign),
    ]
    return found


FORMS: tuple[Form, ...] = tuple(_forms())
