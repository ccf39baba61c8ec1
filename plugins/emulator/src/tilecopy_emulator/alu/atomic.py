"""What the atomic operations compute: from the old value and the operands to the new value, as bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .floats import arithmetic
from .floats import extreme as float_extreme
from .forms import Compute, Form, Mode, form, plain
from .integers import extreme as integer_extreme
from .integers import packed


def _noftz(name: str) -> Any:
    """f16 and bf16 sums keep subnormals (``.noftz``); f32 sums in global memory do too."""
    return lambda mode: arithmetic(name)(Mode(mode.types, frozenset()))


def _increment(mode: Mode) -> Compute:
    """``inc``: up to the operand, then zero."""
    return lambda old, bound: np.where(old >= bound, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(mode: Mode) -> Compute:
    """``dec``: down to zero, then the operand; what is above the operand becomes the operand."""
    return lambda old, bound: np.where((old == 0) | (old > bound), bound, old - old.dtype.type(1))


ATOMICS: tuple[Form, ...] = (
    form("exch", "b32 b64 b128", "t = t t", plain(lambda old, new: np.broadcast_to(new, old.shape))),
    form("cas", "b16 b32 b64 b128", "t = t t t", plain(lambda old, wanted, new: np.where(old == wanted, new, old))),
    form("add", "u32 s32 u64 s64", "t = t t", plain(lambda old, b: old + b)),
    form("add", "f32 f64", "t = t t", _noftz("add")),
    form("add.noftz", "f16 bf16", "t = t t", _noftz("add")),
    form("add.noftz", "f16x2 bf16x2", "t = t t", packed(_noftz("add"))),
    form("inc", "u32", "t = t t", _increment),
    form("dec", "u32", "t = t t", _decrement),
    form("min", "u32 s32 u64 s64", "t = t t", integer_extreme(largest=False)),
    form("max", "u32 s32 u64 s64", "t = t t", integer_extreme(largest=True)),
    form("min.noftz", "f16 bf16", "t = t t", lambda mode: float_extreme(largest=False)(Mode(mode.types, frozenset()))),
    form("max.noftz", "f16 bf16", "t = t t", lambda mode: float_extreme(largest=True)(Mode(mode.types, frozenset()))),
    form("and", "b32 b64", "t = t t", plain(lambda old, b: old & b)),
    form("or", "b32 b64", "t = t t", plain(lambda old, b: old | b)),
    form("xor", "b32 b64", "t = t t", plain(lambda old, b: old ^ b)),
)
"""Operations of ``atom`` and ``red`` (the latter without ``exch`` and ``cas``), by their names after the scope."""


def atomic_operation(name: str, type: str, *, noftz: bool = False) -> Compute | None:
    """The computation of an atomic operation on a type, or None when there is none."""
    for each in ATOMICS:
        if each.name == name:
            mode = each.match((type,), ("noftz",) if noftz else ())
            if mode is not None:
                return each.build(mode)
    return None
