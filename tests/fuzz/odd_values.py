"""Values that stand where an argument was good."""

from __future__ import annotations

import enum
from functools import cache
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy import R, S, TileLayout

from tilecopy_core import plugin


class CallersError(Exception):
    """Raised by an object of the caller; whoever used it may let it pass."""


def _raise(*_: Any) -> Any:
    raise CallersError


Member = enum.Enum("Member", "RED")
IntegerMember = enum.Enum("IntegerMember", "ONE", type=int)
TextSubclass = type("TextSubclass", (str,), {})
SPECIAL = "__repr__ __eq__ __hash__ __index__ __int__ __float__ __bool__ __len__ __iter__ __array__"
Raising = type("Raising", (), dict.fromkeys(SPECIAL.split(), _raise))
Closed = type("Closed", (), {"__getattr__": _raise})
Unprintable = type("Unprintable", (), {"__repr__": lambda self: "\x1b[31m \u202e \ud800"})
INTEGERS = (-1, 0, 2**31, 2**70, 10**5000, -(10**5000), True, np.int64(3), IntegerMember.ONE)
NUMBERS = (1.5, float("nan"), float("inf"), 1 + 2j, np.float32(1.5), np.complex64(1 + 2j), np.datetime64("NaT", "s"))
TEXTS = ("", " ", "x", "é", "float61", "\0", "\x1b[31m\u202e", "a\ud800", "x" * 10**5, np.str_("x"), b"x")
TUPLES = ((), (None,), (1.5,), (-1, 8), ([], 1, 1), (2**31, 2**31), tuple(range(4096)), ((1, 2),) * 4096)
LAYOUTS = (TileLayout(S[2**40]), TileLayout(S[8, 8] + R[2**40 : 1]), 4 @ tc.laneid, tc.laneid)
REGISTERS = (plugin.Register("b64", "%rd99"),)
OTHERS = (None, object(), len, slice(None), range(10**18), Member, Member.RED, TextSubclass("float16"))
CALLERS = (Raising(), (Raising(),), Closed(), Unprintable())


@cache
def _foreign() -> tuple[Any, ...]:
    """Return objects of another kernel."""
    k = tc.KernelBuilder("foreign", threads=64)
    n, s = k.scalar("n", upper=32), k.shared((64, 64), "float16", name="tile")
    value = k.load(k.param("X", 4, "int8")[0])
    columns = TileLayout(S[(128, 8) : (1 @ tc.TLane, 1 @ tc.TCol)])
    integers = (n, n * 2**70, tc.symbol("free", lower=None), value, value > 1)
    tensor, fragment = k.tmem((128, 8), "uint32", layout=columns, name="columns"), k.local((4,), "uint32", name="frag")
    return (k, *integers, s, s[0:8, :], k.mbarrier("mbar", count=2), tensor, fragment)


def _mutable() -> tuple[Any, ...]:
    """Return objects that a call could change or use up."""
    endless: list[Any] = []
    endless.append(endless)
    nested: tuple[Any, ...] = ()
    for _ in range(5000):
        nested = (nested,)
    plain = ([], {}, {"x": 1, 2: None}, {1, 2}, endless, nested, bytearray(b"xy"), memoryview(b"xyzw"))
    arrays = (np.arange(4), np.array(1.5), np.zeros((0, 4), np.float32), np.ones((4, 8), np.float32))
    others = (np.arange(4, dtype=">i4"), np.zeros(2, [("a", "i4"), ("b", "f4")]), np.array([None, {}], object))
    return (*plain, *arrays, *others, np.ma.masked_array(np.arange(4), [1, 0, 0, 0]), (number for number in (1, 2)))


def odd_values() -> list[Any]:
    """Return the values that are passed in place of each argument; what can change is new."""
    constant = (*INTEGERS, *NUMBERS, *TEXTS, *TUPLES, *LAYOUTS, *REGISTERS, *OTHERS, *CALLERS)
    return [*constant, *_foreign(), *_mutable()]
