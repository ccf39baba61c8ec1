"""The parser of kernel arguments that are given on the command line.

==========================================  =====================================================================
``12``, ``-1``, ``0x10``                    an integer
``0.5``, ``1e-3``, ``inf``                  a floating-point number
``int64:12``, ``bfloat16:0.5``              a number of a dtype
``null``                                    a null pointer
``x.npy``                                   the array of a file
``zeros:T:SHAPE``, ``ones:``, ``arange:``   a new array of a dtype and a shape, such as ``zeros:float32:64x64``
``full:T:SHAPE:VALUE``                      an array of one value
``random:T:SHAPE[:SEED]``                   random numbers: normally distributed, or all integers of the dtype
``randint:T:SHAPE:LOW:HIGH[:SEED]``         random integers from LOW to HIGH - 1 (without LOW from 0)
``bytes:HEX``                               the bytes of a structure
``{FIELD,...}``, ``struct:FIELD,...``       a structure; a field has any of these forms, an array is a pointer; ``{}`` is empty
``[ITEM,...]``                              structures, or addresses of arrays, one after another in global memory
==========================================  =====================================================================
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import click
import numpy as np
from tilecopy_cli.command import DTYPE_ALIASES, FilePath, read_npy

from tilecopy_core import DTYPES
from tilecopy_core.errors import short_repr

from .arguments import Pointer, Struct

_EXTENT = "[0-9]{1,19}"
_INTEGER = r"[+-]?(?:[0-9]{1,40}|0[xX][0-9a-fA-F]{1,40})"
_ARRAY = re.compile(rf"([a-z]+):(\w+):({_EXTENT}(?:[,x]{_EXTENT})*)((?::[^:]+)*)")
_NUMBERS = {"zeros": (0, 0), "ones": (0, 0), "arange": (0, 0), "random": (0, 1), "full": (1, 1), "randint": (1, 3)}
"""The least and the largest number of values after the shape of an array."""
_MOST_BRACES, _MOST_BYTES = 50, 1 << 34
_FORMS = (
    "a number, null, TYPE:NUMBER, FILE.npy, an array as zeros|ones|arange|random:TYPE:SHAPE (zeros:float32:64x64), full:TYPE:SHAPE:VALUE or "
    "randint:TYPE:SHAPE:LOW:HIGH, or a structure as {3,0.5} or struct:FIELD,..."
)


def argument_of(word: str) -> Any:
    """Convert one word of the command line to a kernel argument. The module's docstring lists the accepted forms.

    Raises:
        click.BadParameter: the word has none of the forms, or a value does not fit its dtype.
        FileError: a file cannot be read.
    """
    return _argument(word.strip(), 0)


def _argument(word: str, depth: int) -> Any:
    if depth > _MOST_BRACES:
        raise click.BadParameter(f"braces must be nested at most {_MOST_BRACES} levels deep")
    if word == "null":
        return None
    if word == "{}":
        return Struct()
    if word[:1] + word[-1:] == "[]":
        return [field if isinstance(field, Struct) else Pointer(field) for field in _items(word[1:-1], depth)]
    if word[:1] + word[-1:] == "{}" or word.startswith("struct:"):
        fields = _items(word[1:-1] if word[0] == "{" else word[len("struct:") :], depth)
        return Struct(*(Pointer(field) if isinstance(field, (np.ndarray, list)) else field for field in fields))
    if word.endswith(".npy"):
        return read_npy(FilePath().convert(word, None, None)).array
    match = _ARRAY.fullmatch(word)
    if match and match[1] in _NUMBERS:
        numbers = match[4].split(":")[1:]
        least, most = _NUMBERS[match[1]]
        if least <= len(numbers) <= most:
            return _array(word, match[1], match[2], tuple(int(part) for part in re.split("[,x]", match[3])), numbers)
    kind, colon, rest = word.partition(":")
    if kind == "bytes" and re.fullmatch("(?:[0-9a-fA-F]{2})+", rest):
        return bytes.fromhex(rest)
    if colon and (number := _number(rest)) is not None:
        return _scalar(word, _dtype(kind), number)
    number = _number(word)
    if number is None:
        raise click.BadParameter(f"{short_repr(word)} must be {_FORMS}")
    return number


def _items(text: str, depth: int) -> list[Any]:
    """Return the items of a structure or a list, which commas separate."""
    return [_argument(part, depth + 1) for part in _parts(text)]


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of a text between the commas outside braces."""
    start, depth = 0, 0
    for match in re.finditer(r"[][{},]", f"{text},"):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if match[0] == "," and (depth == 0 or match.start() == len(text)):
            yield text[start : match.start()].strip()
            start = match.end()


def _number(text: str) -> int | float | None:
    """Return an integer or a floating-point number, or None."""
    if re.fullmatch(_INTEGER, text):
        return int(text, 0 if "x" in text.lower() else 10)
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isinf(number) and "inf" not in text.lower() else number  # 1e999 is hardly meant as infinity


def _dtype(name: str) -> Any:
    name = DTYPE_ALIASES.get(name, name)
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = _ml_dtype(name)
    if dtype is None or dtype.kind not in "biufcV" or dtype.type is np.void:  # types of ml_dtypes have kind V
        raise click.BadParameter(f"the dtype must be numeric, such as float32, got {short_repr(name)}")
    return dtype


def _ml_dtype(name: str) -> Any:
    """Return a type of ml_dtypes, or None."""
    try:
        import ml_dtypes
    except ImportError:
        if name in DTYPES:  # NumPy has the others
            raise click.BadParameter(f"{name} needs ml_dtypes: pip install ml_dtypes") from None
        return None
    try:
        return np.dtype(getattr(ml_dtypes, name))
    except (AttributeError, TypeError):
        return None


def _scalar(word: str, dtype: Any, number: float) -> Any:
    """Return a number of a dtype, or raise an error if it is out of range."""
    try:
        with np.errstate(over="raise"):
            scalar = np.array(number if dtype.kind in "biu" else float(number)).astype(dtype)[()]
        if dtype.kind not in "biu" or scalar == number:
            return scalar
    except (ArithmeticError, ValueError):
        pass
    raise click.BadParameter(f"{short_repr(word)}: {number} is out of the range of {dtype.name}")


def _array(word: str, kind: str, type: str, shape: tuple[int, ...], texts: list[str]) -> Any:
    """Return a new array."""
    dtype, numbers = _dtype(type), [_number(text) for text in texts]
    whole = [number for number in numbers if isinstance(number, int)]
    if None in numbers or (kind != "full" and len(whole) < len(numbers)):
        raise click.BadParameter(
            f"{short_repr(word)}: {'VALUE must be a number' if kind == 'full' else 'LOW, HIGH and SEED must be integers'}, got {', '.join(texts)}"
        )
    if (nbytes := math.prod(shape) * dtype.itemsize) > _MOST_BYTES:  # the system may promise memory that it lacks
        raise click.BadParameter(f"{short_repr(word)}: an array must have at most {_MOST_BYTES} bytes, got {nbytes}")
    try:
        if kind in ("zeros", "ones"):
            return np.zeros(shape, dtype) if kind == "zeros" else np.ones(shape, dtype)
        if kind == "arange":
            return np.arange(math.prod(shape)).astype(dtype).reshape(shape)
        if kind == "full":
            return np.full(shape, _scalar(word, dtype, numbers[0] or 0), dtype)
        if kind == "randint":
            low, high, seed = (0, whole[0], 0) if len(whole) == 1 else (*whole, 0)[:3]
            for bound in (low, high - 1):
                _scalar(word, dtype, bound)
            return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
        rng = np.random.default_rng(*(whole or [0]))
        if dtype.kind in "iu":
            return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
        return rng.standard_normal(shape).astype(dtype)
    except MemoryError:
        raise click.BadParameter(f"{short_repr(word)}: not enough memory for an array of {nbytes} bytes") from None
    except ValueError as error:  # NumPy's: too large, an empty range, a negative seed
        raise click.BadParameter(f"{short_repr(word)}: NumPy cannot make the array ({error})") from None
