"""Odd values, and what must be true of the outcome of a call that was given one: for the tests that generate such calls."""

from __future__ import annotations

import enum
import inspect
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy import R, S, TileLayout

from tilecopy_core import plugin

SECONDS = 4
"""The longest that one call may take; what enumerates a huge range takes longer."""
MEMORY_BYTES = 1 << 30
"""What one call may allocate."""


class One(int, enum.Enum):
    """An integer that prints as its name."""

    ONE = 1


class Name(str):
    """A text of another class."""


class Raising:
    """Whatever is asked of it, it raises."""

    def _no(self, *_: Any) -> Any:
        raise ArithmeticError("mine")

    __repr__ = __eq__ = __hash__ = __index__ = __int__ = __float__ = __bool__ = __len__ = __iter__ = __array__ = _no


class Closed:
    """Whatever attribute is asked for, it raises."""

    def __getattr__(self, name: str) -> Any:
        raise ArithmeticError("mine")


class Unprintable:
    """It writes what moves a terminal's cursor."""

    def __repr__(self) -> str:
        return "\x1b[31m \u202e \ud800"


def nested(depth: int) -> tuple[Any, ...]:
    """A tuple in a tuple in a tuple."""
    found: tuple[Any, ...] = ()
    for _ in range(depth):
        found = (found,)
    return found


def endless() -> list[Any]:
    """A list that is in itself."""
    found: list[Any] = []
    found.append(found)
    return found


class Colour(enum.Enum):
    """A class and its members, neither a word of ours."""

    RED = 1


_k = tc.KernelBuilder("foreign", threads=64)
_n = _k.scalar("n", upper=32)
_s = _k.shared((64, 64), "float16", name="tile")
_value = _k.load(_k.param("X", (64,), "float32")[0])

ODD: dict[str, Any] = {
    "None": None,
    "-1": -1,
    "0": 0,
    "2**31": 2**31,
    "2**70": 2**70,
    "1.5": 1.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "empty text": "",
    "x": "x",
    "é": "é",
    "float61": "float61",
    "bytes": b"x",
    "True": True,
    "[]": [],
    "()": (),
    "{}": {},
    "object": object(),
    "array": np.arange(4),
    "array of 0 dimensions": np.array(1.5),
    "NumPy integer": np.int64(3),
    "NumPy float": np.float32(1.5),
    "(None,)": (None,),
    "(1.5,)": (1.5,),
    "(-1, 8)": (-1, 8),
    "huge extents": (2**31, 2**31),
    "many": tuple(range(4096)),
    "many pairs": ((1, 2),) * 4096,
    "symbol": _n,
    "huge sum": _n * 2**70,
    "free symbol": tc.symbol("free", lower=None),
    "buffer": _s,
    "region": _s[0:8, :],
    "mbarrier": _k.mbarrier("mbar", count=2),
    "value": _value,
    "condition": _value > 1.0,
    "fragment": _k.local((4,), "uint32", name="frag"),
    "tensor buffer": _k.tmem(
        (128, 8), "uint32", layout=TileLayout(S[(128, 8) : (1 @ tc.TLane, 1 @ tc.TCol)]), name="columns"
    ),
    "layout": TileLayout(S[2**40]),
    "replicas": TileLayout(S[8, 8] + R[2**40 : 1]),
    "on an axis": 4 @ tc.laneid,
    "axis": tc.laneid,
    "register": plugin.Register("b64", "%rd99"),
    "address": plugin.Address("global", plugin.Register("b64", "%rd99"), 1, 1),
    "kernel": _k,
    "class": Colour,
    "member": Colour.RED,
    "function": len,
    "range": range(10**18),
    "member that is an integer": One.ONE,
    "text of another class": Name("float16"),
    "what raises": Raising(),
    "tuple of what raises": (Raising(),),
    "closed": Closed(),
    "unprintable": Unprintable(),
    "bytearray": bytearray(b"xy"),
    "memoryview": memoryview(b"xyzw"),
    "NUL": "\0",
    "blank": " ",
    "cursor": "\x1b[31m\u202e",
    "NumPy text": np.str_("x"),
    "NumPy complex": np.complex64(1 + 2j),
    "NumPy time": np.datetime64("NaT"),
    "complex": 1 + 2j,
    "slice": slice(None),
    "5000 digits": 10**5000,
    "-5000 digits": -(10**5000),
    "nested": nested(5000),
    "endless": endless(),
    "grid of lists": ([], 1, 1),
    "lone surrogate": "a\ud800",
    "long text": "x" * 10**5,
    "object array": np.array([None, {}], object),
    "masked array": np.ma.masked_array(np.arange(4), [True, False, False, False]),
    "big-endian array": np.arange(4, dtype=">i4"),
    "structured array": np.zeros(2, [("a", "i4"), ("b", "f4")]),
    "dict": {"x": 1, 2: None},
    "set": {1, 2},
    "generator": (each for each in (1, 2)),
}
"""What is passed in place of each argument."""


def parameters_of(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[str]:
    """The parameter of each positional argument, then the keywords; all that the signature has must be given."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # an exception: its message
        return ["message"] * len(arguments)
    bound = signature.bind(*arguments, **keywords)
    needed = [name for name, each in signature.parameters.items() if each.kind is not each.VAR_KEYWORD]
    missing = [name for name in needed if name not in bound.arguments]
    assert not missing, f"the good call of {function} gives no {missing}"
    names: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [parameter.name] * len(bound.arguments[parameter.name])
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names[: len(arguments)]


Bound = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function and good arguments of it."""


def places_of(good: Bound) -> list[tuple[str, int | str]]:
    """Every argument of a good call: its parameter, and where it is put."""
    function, arguments, keywords = good
    names = parameters_of(function, arguments, keywords)
    return [*((parameter, place) for place, parameter in enumerate(names)), *((key, key) for key in keywords)]


def replaced(good: Bound, place: int | str, value: object) -> Bound:
    """A good call with another value at a place."""
    function, given, keywords = good
    if isinstance(place, str):
        return function, given, {**keywords, place: value}
    return function, (*given[:place], value, *given[place + 1 :]), keywords


def insides_of(value: object) -> list[tuple[Any, ...]]:
    """The place of everything in a tuple, a list or a dict, as the indices that lead there."""
    if isinstance(value, dict):
        items: list[tuple[Any, Any]] = list(value.items())
    elif type(value) in (tuple, list):
        items = list(enumerate(value))  # type: ignore[arg-type]
    else:
        return []
    return [(index, *rest) for index, each in items for rest in ((), *insides_of(each))]


def put_inside(value: Any, place: tuple[Any, ...], new: object) -> Any:
    """A tuple, list or dict with another value at a place in it."""
    if not place:
        return new
    index, *rest = place
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[index] = put_inside(value[index], tuple(rest), new)
    return tuple(changed) if isinstance(value, tuple) else changed


def flat(text: object) -> str:
    return " ".join(str(text).split())


def said(value: object, how: Callable[[object], str] = repr) -> str:
    """How the beginning of a value is written in a message."""
    if type(value) is int and value.bit_length() > 256:
        return f"integer of {value.bit_length()} bits"
    try:
        text = flat(how(value))[:24]
        return text if text.isprintable() else "".join(map(escaped, text))[:24]
    except (ArithmeticError, RecursionError):
        return f"<{type(value).__name__} object>"


def escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def shows(message: str, value: object) -> bool:
    """Whether a message shows a value, or what it is made of."""
    shown = {said(value), said(value, str)}
    if not isinstance(value, Closed):
        shown.add(str(getattr(value, "name", "")))
    if isinstance(value, One):
        shown.add(str(int(value)))
    if isinstance(value, (tuple, list, Raising, int)):
        shown |= {"<tuple object>", "<list object>"}  # of what cannot be written
    if isinstance(value, (plugin.Region, tc.Mbarrier)):
        shown.add(value.buffer.name)
    message += " "
    if isinstance(value, (tuple, list, dict)) or (isinstance(value, np.ndarray) and value.ndim):
        shown |= {said(each) for each in value} | {f"{len(value)} ", "()" if not len(value) else "[]"}
    if isinstance(value, range):
        shown.add(str(len(value)))
    if isinstance(value, np.ndarray):
        shown |= {str(value.dtype), str(value.shape)}
    if isinstance(value, (bytearray, memoryview)):
        shown |= {str(tuple(value)), f"{len(value)} "}  # a sequence of integers
    return any(each in message for each in shown if each)


@contextmanager
def little_memory() -> Iterator[None]:
    """Whatever takes much memory fails here, not in somebody's kernel."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(status["VmSize"].split()[0]) * 1024 + MEMORY_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class TooLong(BaseException):
    """Raised in what hangs; no `except Exception` stops it."""


def _stop(*_: object) -> None:
    raise TooLong


def outcome(act: Callable[[], Any]) -> BaseException | None:
    """What a call raised."""
    previous = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        act()
    except (Exception, TooLong) as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return None
