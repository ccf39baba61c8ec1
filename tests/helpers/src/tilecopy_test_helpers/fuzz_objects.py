"""What starting calls pass: a kernel under construction, buffers, requests, a PTX builder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import tilecopy as tc
from tilecopy import S, TileLayout

import tilecopy_partitions
from tilecopy_core import plugin

TARGET = "sm_100a"
SPACES = (("global", "shared"),)
ARITHMETIC = "a+b a-b a*b a/b a//b a%b a**b a^b a&b a|b a<<b a>>b a==b a!=b a<b a<=b a>b a>=b b+a b-a b*a b/a b//a b%a"


class Objects:
    """A kernel under construction and its parts; each is made when it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        if name not in PARTS:
            raise AttributeError(name)
        setattr(self, name, PARTS[name](self))
        return getattr(self, name)


def _ptx_builder(w: Objects) -> plugin.PtxBuilder:
    ptx = plugin.PtxBuilder(tc.target_of(TARGET), 64)
    ptx.bind(next(iter(w.m.symbols)), ptx.reg("b32"))
    return ptx


def _load_statement(w: Objects) -> Any:
    assert isinstance(w.value, tc.Value)
    return w.k._stack[0].body[0].statement


def _copy(w: Objects, dst: Any, src: Any, **options: Any) -> tc.CopyRequest:
    return tc.CopyRequest(op="copy", dst=dst[:, :], src=src, scope=tc.cta(64), target=tc.target_of(TARGET), **options)


PARTS: dict[str, Callable[[Objects], Any]] = {
    "k": lambda w: tc.KernelBuilder("surface", threads=64),
    "a": lambda w: w.k.param("A", (64, 64), "float16"),
    "x": lambda w: w.k.param("X", (64,), "float32"),
    "n": lambda w: w.k.scalar("n", upper=32),
    "y": lambda w: w.k.param("Y", (w.k.size("M", multiple_of=8, upper=2**20), 64), "float16"),
    "m": lambda w: w.y.shape[0],
    "s": lambda w: w.k.shared((64, 64), "float16", name="tile"),
    "words": lambda w: w.k.shared((64,), "uint32", name="words"),
    "mbar": lambda w: w.k.mbarrier("mbar", count=2),
    "frag": lambda w: w.k.local((4,), "uint32", name="frag"),
    "columns": lambda w: TileLayout(S[(128, 8) : (1 @ tc.TLane, 1 @ tc.TCol)]),
    "tmem": lambda w: w.k.tmem((128, 8), "uint32", layout=w.columns, name="columns"),
    "value": lambda w: w.k.load(w.x[0]),
    "condition": lambda w: w.k.thread_id() < 32,
    "layout": lambda w: TileLayout(S[8, 8]),
    "iter": lambda w: plugin.Iter(8, 8),
    "loading": _load_statement,
    "kernel": lambda w: w.k.build(target=TARGET, grid=1),
    "plan": lambda w: tc.plan(w.s[:, :], w.a[:, :], scope=tc.cta(64), target=TARGET),
    "option": lambda w: plugin.Option("size", int, "how many"),
    "variant": lambda w: tc.Variant(
        name="probe", op="copy", priority=1, summary="-", spaces=SPACES, options=(w.option,), edges=True
    ),
    "request": lambda w: _copy(w, w.s, w.a[:, :]),
    "map": lambda w: tilecopy_partitions.TensorMap(w.a, (64, 64), (128,), (64, 8)),
    "ptx": _ptx_builder,
    "r32": lambda w: w.ptx.reg("b32"),
    "pred": lambda w: w.ptx.reg("pred"),
    "at": lambda w: w.ptx.address(w.s),
    "bar": lambda w: w.ptx.address(w.mbar.buffer),
    "far": lambda w: tilecopy_partitions.mapa(w.ptx, w.at, 1),
    "writes": lambda w: partial(w.ptx.instr, "fence.proxy.async"),
}
"""What the objects have, each made from others."""


def operation(make: Callable[[Objects], Any], expression: str) -> Callable[[Objects], partial[Any]]:
    """Return a starting call of an expression with the object `a` and an operand `b`. Some refuse any operand."""

    def bind(w: Objects) -> partial[Any]:
        a = make(w)

        def operate(b: object) -> None:
            with contextlib.suppress(tc.TilecopyError):
                if expression != "b%a" or not isinstance(b, (str, bytes, bytearray)):  # Python's own formatting
                    eval(expression, {"a": a, "b": b})

        return partial(operate, 3)

    return bind
