"""Symbolic integers as text of C++ and Python, and back from the latter."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilecopy_core.errors import RequestError, pattern
from tilecopy_core.integers import Atom, Int, Symbol, constant_of, is_int_like, minimum, terms_of

_CPP = {
    "//": "tilecopy::quotient({}, {})",
    "%": "tilecopy::remainder({}, {})",
    "*": "({} * {})",
    "^": "({} ^ {})",
    "min": "tilecopy::lesser({}, {})",
}
"""Operation -> its text in C++, of the texts of its operands; likewise in Python."""
_PYTHON = {"//": "({} // {})", "%": "({} % {})", "*": "({} * {})", "^": "({} ^ {})", "min": "min({}, {})"}


def as_cpp(value: Int, name_of: Callable[[Symbol], str]) -> str:
    """C++ of 64 bits: quotients and remainders by ``tilecopy::quotient`` and ``tilecopy::remainder``, which round down.

    The lesser of two is ``tilecopy::lesser``.

    Args:
        value: what is written.
        name_of: the variable of a symbol.
    """
    return _written(value, lambda found: f"(int64_t){name_of(found)}", _CPP)


def as_python(value: Int, name_of: Callable[[Symbol], str]) -> str:
    """Python, in which ``//`` and ``%`` round down; :func:`read` reads it."""
    return _written(value, name_of, _PYTHON)


def _written(value: Int, symbol: Callable[[Symbol], str], operations: Mapping[str, str]) -> str:
    def atom(found: Atom) -> str:
        if isinstance(found, Symbol):
            return symbol(found)
        return operations[found.op].format(*map(total, found.operands))

    def total(number: Int) -> str:
        parts = [atom(a) if c == 1 else f"{c} * {atom(a)}" for a, c in terms_of(number)]
        if constant_of(number) or not parts:
            parts.append(str(constant_of(number)))
        text = " + ".join(parts).replace("+ -", "- ")
        return text if len(parts) == 1 else f"({text})"

    return total(value)


_WORD = pattern(r"\b(?!min\()[^\W\d]\w*")
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitXor: operator.xor,
}


def read(text: str | int, names: Mapping[str, Int]) -> Int:
    """The integer of a text of :func:`as_python`.

    Args:
        text: an expression, or a plain integer as it is.
        names: what each name in it is.

    Raises:
        RequestError: the text is no such expression.
    """
    if is_int_like(text) and isinstance(text, int):
        return text
    if not isinstance(text, str):
        raise RequestError(f"{text!r} is no integer, and no expression of integers")
    try:
        numbered = {name: f"_{number}" for number, name in enumerate(names)}  # a size may be called lambda, or min
        plain = _WORD.sub(lambda word: numbered[word[0]], text)
        return _value(ast.parse(plain, mode="eval").body, {numbered[name]: value for name, value in names.items()})
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError) as error:
        raise RequestError(
            f"{text[:200]!r} is no expression of integers and {', '.join(names) or 'no names'}"
        ) from error


def _value(node: ast.AST, names: Mapping[str, Int]) -> Int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        found: Int = _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
        return found
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "min" and not node.keywords:
        left, right = (_value(argument, names) for argument in node.args)
        return minimum(left, right)
    raise ValueError(ast.dump(node))
