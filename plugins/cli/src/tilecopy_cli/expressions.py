"""Parsers of layouts, regions and scopes on the command line. They use no ``eval`` and limit the size of the input."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import EllipsisType
from typing import Any

import numpy as np
from tilecopy import mma_fragment, tile_fragment
from tilecopy.kernel.special_registers import block_index

from tilecopy_core.description import Scope, cta, thread, warp, warpgroup
from tilecopy_core.errors import RequestError, TilecopyError, did_you_mean, short_repr
from tilecopy_core.layout import AXES, DTYPE_ALIASES, DTYPES, R, S, Swizzle, SwizzledLayout, TileLayout, swizzle
from tilecopy_core.memory import SPACE_ALIASES, SPACES, Buffer, Region

MAX_CHARACTERS = 4000
MAX_DEPTH = 40
MAX_INTEGER = 2**63 - 1

_FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (TileLayout, SwizzledLayout, Swizzle, swizzle, mma_fragment, tile_fragment)
}
_LAYOUT_NAMES: dict[str, Any] = {"S": S, "R": R, **_FUNCTIONS, **AXES}
_BLOCK_IDS = {f"b{dim}": block_index(dim) for dim in "xyz"}


def evaluate_expression(text: str, names: dict[str, Any]) -> Any:
    """Evaluate an expression of integers, names, calls, subscripts, ``...`` and ``+ - * // % @``. The expression's size is limited."""
    if len(text) > MAX_CHARACTERS:
        raise RequestError(f"an expression must have at most {MAX_CHARACTERS} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise RequestError(f"{text!r} must be a valid expression: {error.msg}") from None
    except (ValueError, MemoryError, RecursionError):  # null bytes; deeper than the parser's stack
        raise RequestError(f"{text[:60]!r} cannot be parsed as an expression") from None
    with _faults_of(text):
        return _walk(tree, names, 0)


@contextmanager
def _faults_of(text: str) -> Iterator[None]:
    """Turn errors about operands of layouts into a RequestError with the text."""
    try:
        yield
    except TilecopyError:
        raise
    except ZeroDivisionError:
        raise RequestError(f"{text!r} divides by zero") from None
    except Exception as error:
        raise RequestError(f"{text!r} cannot be evaluated: {error}") from None


_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.MatMult: operator.matmul,
}


def _walk(node: ast.AST, names: dict[str, Any], depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise RequestError(f"an expression must have at most {MAX_DEPTH} levels of nesting, got at least {depth}")

    def value(part: ast.AST) -> Any:
        return _walk(part, names, depth + 1)

    match node:
        case ast.Constant(value=int() | str() | EllipsisType()) if not isinstance(node.value, bool):
            return _check_size(node.value)
        case ast.Name():
            return _look_up(node.id, names)
        case ast.Tuple():
            return tuple(map(value, node.elts))
        case ast.UnaryOp(op=ast.USub()):
            return _check_size(0 - _operand(value(node.operand), node))
        case ast.BinOp() if type(node.op) in _OPERATORS:
            left, right = (_operand(value(side), node) for side in (node.left, node.right))
            return _check_size(_OPERATORS[type(node.op)](left, right))
        case ast.Slice():
            return slice(*(None if part is None else value(part) for part in (node.lower, node.upper, node.step)))
        case ast.Subscript(value=ast.Name()):
            return value(node.value)[value(node.slice)]
        case ast.Call(func=ast.Name(id=function)) if all(keyword.arg for keyword in node.keywords):
            if _look_up(function, names) is _FUNCTIONS.get(function):
                keywords = {str(keyword.arg): value(keyword.value) for keyword in node.keywords}
                return _FUNCTIONS[function](*map(value, node.args), **keywords)
    raise RequestError(f"{ast.unparse(node)!r} is not allowed: use integers, names, calls, subscripts, + - * // % @")


def _look_up(name: str, names: dict[str, Any]) -> Any:
    if name not in names:
        known = ", ".join(names) or "none"
        raise RequestError(f"unknown name {name!r}; the allowed names are {known}{did_you_mean(name, names)}")
    return names[name]


def _operand(value: Any, node: ast.AST) -> Any:
    if isinstance(value, (str, tuple, slice, EllipsisType)):  # they have + * and %, too, without limits
        raise RequestError(f"{ast.unparse(node)!r}: an operand must be a number, got {value!r}")
    return value


def _check_size(value: Any) -> Any:
    if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise RequestError(f"an integer must be from -(2**63 - 1) to 2**63 - 1, got {short_repr(value)}")
    return value


def parse_layout(text: str) -> TileLayout:
    """Parse a layout such as ``S[(32, 8) : (1 @ laneid, 1)]`` or ``SwizzledLayout(swizzle("128B", "float16"), TileLayout(S[8, 64]))``."""
    value = evaluate_expression(text, _LAYOUT_NAMES)
    if not isinstance(value, TileLayout):
        value_text = f"the function {value.__name__}" if value in _FUNCTIONS.values() else repr(value)
        raise RequestError(f"{text!r} must be a layout such as S[(32, 8) : (1 @ laneid, 1)], got {value_text}")
    return value


_BUFFER = re.compile(r"\s*(\w+)\s+(\w+)\s*\[([^\]]*)\]\s*(\[.*\])?\s*\Z", re.ASCII)


def parse_region(text: str, layout: str | None, name: str) -> Region:
    """Parse a region such as ``global float16 [4096, 64] [bx*128 : bx*128+128, :]``: space, dtype, shape and box.

    ``gmem``, ``smem`` and ``reg`` mean ``global``, ``shared`` and ``local``. ``f16``, ``bf16``, ``f32`` and ``f64`` are dtypes.
    """
    if len(text) > MAX_CHARACTERS:
        raise RequestError(f"{name}: a region must have at most {MAX_CHARACTERS} characters, got {len(text)}")
    match = _BUFFER.match(text)
    if match is None:
        raise RequestError(
            f"{name} must be 'space dtype [shape] [region]', such as 'global float16 [4096, 64] [0:128, :]', got {text!r}"
        )
    space, dtype = SPACE_ALIASES.get(match[1], match[1]), DTYPE_ALIASES.get(match[2], match[2])
    for word, what, known in ((space, "space", SPACES), (dtype, "dtype", DTYPES)):
        if word not in known:
            near = did_you_mean(word, known)
            raise RequestError(f"{name}: {what} must be one of {', '.join(known)}, got {word!r}{near}")
    shape = evaluate_expression(match[3], {})
    extents = shape if isinstance(shape, tuple) else (shape,)
    placed = None if layout is None else parse_layout(layout)
    box = evaluate_expression(f"box{match[4] or '[:]'}", {"box": np.s_, **_BLOCK_IDS})
    with _faults_of(text):
        return Buffer(extents, dtype, space=space, layout=placed, name=name)[box]


_SCOPES = {"thread": thread, "warp": warp, "warpgroup": warpgroup}


def parse_scope(text: str) -> Scope:
    """Parse a scope: ``thread``, ``warp``, ``warpgroup`` or, for example, ``cta:128``."""
    kind, colon, count = text.partition(":")
    if kind == "cta" and re.fullmatch(r"[0-9]{1,9}", count):
        return cta(int(count))
    if kind not in _SCOPES or colon:
        near = did_you_mean(kind, [*_SCOPES, "cta:128"]) if not colon else ""
        raise RequestError(f"scope must be thread, warp, warpgroup or cta:THREADS, got {short_repr(text)}{near}")
    return _SCOPES[kind]()
