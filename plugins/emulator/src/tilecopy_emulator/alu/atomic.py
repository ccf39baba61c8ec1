"""Functions that compute the value that an atomic operation stores. Values and operands are passed as bit patterns.

The families are those of ptxas 13.0 for sm_90: ``atom`` and ``red`` (the latter without ``exch`` and ``cas``), also of vectors,
``cp.reduce.async.bulk``, and ``red.async``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .floats import arithmetic
from .floats import extreme as float_extreme
from .formats import F64, decode, encode
from .forms import Compute, Form, Mode, form, plain
from .integers import elementwise
from .integers import extreme as integer_extreme


def _sum(*modifiers: str) -> Callable[[Mode], Compute]:
    """Return sums of the arithmetic units with fixed modifiers."""
    return lambda mode: arithmetic("add")(Mode(mode.types, frozenset(modifiers)))


def _extreme(largest: bool) -> Callable[[Mode], Compute]:
    return lambda mode: float_extreme(largest)(Mode(mode.types, frozenset()))


def _double_sum(mode: Mode) -> Compute:
    """Return ``add.f64`` in global memory: a NaN is unchanged, and of two NaNs the operand is the result (measured on an H200)."""

    def compute(old: Any, b: Any) -> Any:
        x, y = decode(old, F64), decode(b, F64)
        return np.where(np.isnan(y), b, np.where(np.isnan(x), old, encode(x + y, F64)))

    return compute


def _increment(mode: Mode) -> Compute:
    """Return ``inc``, which counts up to the operand, then to zero."""
    return lambda old, bound: np.where(old >= bound, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(mode: Mode) -> Compute:
    """Return ``dec``, which counts down to zero, then to the operand; a larger value becomes the operand."""
    return lambda old, bound: np.where((old == 0) | (old > bound), bound, old - old.dtype.type(1))


def _integers(add: str, extremes: str, bits: str) -> tuple[Form, ...]:
    """Return the forms of integer operations, with the types of each."""
    return (
        form("add", add, "t = t t", plain(lambda old, b: old + b)),
        form("inc", "u32", "t = t t", _increment),
        form("dec", "u32", "t = t t", _decrement),
        form("min", extremes, "t = t t", integer_extreme(largest=False)),
        form("max", extremes, "t = t t", integer_extreme(largest=True)),
        form("and", bits, "t = t t", plain(lambda old, b: old & b)),
        form("or", bits, "t = t t", plain(lambda old, b: old | b)),
        form("xor", bits, "t = t t", plain(lambda old, b: old ^ b)),
    )


_GLOBAL_SUMS = (form("add", "f32", "t = t t", _sum("ftz")), form("add", "f64", "t = t t", _double_sum))
"""Sums in global memory, for which the L2 cache flushes subnormal f32 (PTX ISA, atom)."""
_SHARED_SUMS = (form("add", "f32 f64", "t = t t", _sum()),)
"""Sums in shared memory, which are loops around register instructions."""
_NARROW_SUMS = (form("add.noftz", "f16 bf16", "t = t t", _sum()),)
_PAIR_SUMS = (form("add.noftz", "f16x2 bf16x2", "t = t t", elementwise(_sum())),)

ATOMICS: tuple[Form, ...] = (
    form("exch", "b32 b64 b128", "t = t t", plain(lambda old, new: np.broadcast_to(new, old.shape))),
    form("cas", "b16 b32 b64 b128", "t = t t t", plain(lambda old, wanted, new: np.where(old == wanted, new, old))),
    *_integers("u32 s32 u64", "u32 s32 u64 s64", "b32 b64"),
    *_GLOBAL_SUMS,
    *_NARROW_SUMS,
    *_PAIR_SUMS,
)
"""The operations of ``atom`` and ``red`` on global memory, by name."""

FAMILIES: dict[str, tuple[Form, ...]] = {
    "atom": ATOMICS,
    "atom.shared": (*_SHARED_SUMS, *(atomic for atomic in ATOMICS if atomic not in _GLOBAL_SUMS)),
    "atom.vector": (
        form("add", "f32", "t = t t", _sum("ftz")),
        *_NARROW_SUMS,
        *_PAIR_SUMS,
        form("min.noftz", "f16 bf16 f16x2 bf16x2", "t = t t", elementwise(_extreme(largest=False))),
        form("max.noftz", "f16 bf16 f16x2 bf16x2", "t = t t", elementwise(_extreme(largest=True))),
    ),
    "cp.reduce.async.bulk": (
        *_integers("u32 s32 u64", "u32 s32 u64 s64", "b32 b64"),
        *_GLOBAL_SUMS,
        *_NARROW_SUMS,
        form("min", "f16 bf16", "t = t t", _extreme(largest=False)),
        form("max", "f16 bf16", "t = t t", _extreme(largest=True)),
    ),
    "red.async": _integers("u32 s32 u64 s64", "u32 s32", "b32"),
}
"""The operations of each family; bulk reductions are those to global memory (there are fewer for shared memory)."""


_SCANS = {"add": np.add, "min": np.minimum, "max": np.maximum,
          "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip


def scan_of(name: str, type: str) -> tuple[np.ufunc, Any, int] | None:
    """Return ``(ufunc, dtype, identity)`` for an associative operation on integers. Return None for others."""
    if name not in _SCANS or type not in ("u32", "s32", "u64", "s64", "b32", "b64"):
        return None
    kind = "i" if type[0] == "s" and name in ("min", "max") else "u"
    dtype = np.dtype(f"{kind}{int(type[1:]) // 8}")
    limits = np.iinfo(dtype)
    identity = {"min": limits.max, "max": limits.min, "and": limits.max}.get(name, 0)
    return _SCANS[name], dtype, int(identity)


def atomic_operation(name: str, type: str, *, noftz: bool = False, family: str = "atom") -> Compute | None:
    """Return the function that computes an atomic operation. Return None if ``FAMILIES[family]`` lacks it."""
    for atomic in FAMILIES[family]:
        if atomic.name == name:
            mode = atomic.match((type,), ("noftz",) if noftz else ())
            if mode is not None:
                return atomic.build(mode)
    return None
