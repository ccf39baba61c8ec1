"""Functions that write symbolic integers as C++ or Python expressions, and a function that reads Python expressions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Container, Iterator, Mapping
from itertools import chain, count
from typing import Any

from tilecopy_core.errors import RequestError, pattern
from tilecopy_core.integers import OPERATIONS, Atom, Int, Symbol, constant_of, is_int_like, terms_of


def symbols_in_order(value: Int) -> Iterator[Symbol]:
    """Yield the symbols in a symbolic integer from left to right. A symbol may appear several times."""
    for atom, _ in terms_of(value):
        if isinstance(atom, Symbol):
            yield atom
        for operand in atom.operands:
            yield from symbols_in_order(operand)


def unique_name(stem: str, taken: Container[str], separator: str = "_") -> str:
    """Return ``stem`` if that name is free, else the first free name of ``stem_2``, ``stem_3``, ..."""
    candidates = chain([stem], (f"{stem}{separator}{number}" for number in count(2)))
    return next(name for name in candidates if name not in taken)


def as_cpp(value: Int, name_of: Callable[[Symbol], str]) -> str:
    """Return a symbolic integer as a 64-bit C++ expression. ``name_of`` returns the name of a symbol's variable.

    ``tilecopy::quotient`` and ``tilecopy::remainder`` round down. The smaller of two integers is ``tilecopy::lesser``.
    """
    return _format(value, lambda found: f"(int64_t){name_of(found)}", lambda op: OPERATIONS[op].cpp)


def as_python(value: Int, name_of: Callable[[Symbol], str]) -> str:
    """Return an integer as a Python expression that :func:`read` can read."""
    return _format(value, name_of, lambda op: f"{op}({{}}, {{}})" if op in _FUNCTIONS else f"({{}} {op} {{}})")


def _format(value: Int, symbol: Callable[[Symbol], str], text_of: Callable[[str], str]) -> str:
    def atom(found: Atom) -> str:
        if isinstance(found, Symbol):
            return symbol(found)
        return text_of(found.op).format(*map(total, found.operands))

    def total(number: Int) -> str:
        parts = [atom(a) if c == 1 else f"{c} * {atom(a)}" for a, c in terms_of(number)]
        if constant_of(number) or not parts:
            parts.append(str(constant_of(number)))
        text = " + ".join(parts).replace("+ -", "- ")
        return text if len(parts) == 1 else f"({text})"

    return total(value)


_FUNCTIONS = {op: rule.compute for op, rule in OPERATIONS.items() if op.isidentifier()}
_WORD = pattern(rf"\b(?!(?:{'|'.join(_FUNCTIONS)})\()[^\W\d]\w*")


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {ast.Add: operator.add, ast.Sub: operator.sub}
_OPERATORS |= {
    type(ast.parse(f"0 {op} 1", mode="eval").body.op): rule.compute  # type: ignore[attr-defined]
    for op, rule in OPERATIONS.items()
    if op not in _FUNCTIONS
}


def read(text: str | int, names: Mapping[str, Int]) -> Int:
    """Parse an integer expression that :func:`as_python` wrote, or a plain integer. ``names`` maps names to integers."""
    if is_int_like(text) and isinstance(text, int):
        return text
    if not isinstance(text, str):
        raise RequestError(f"expression must be an integer or a string, got {text!r}")
    try:
        numbered = {name: f"_{number}" for number, name in enumerate(names)}  # a size may have the name lambda or min
        plain = _WORD.sub(lambda word: numbered[word[0]], text)
        return _value(ast.parse(plain, mode="eval").body, {numbered[name]: value for name, value in names.items()})
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, RecursionError, MemoryError) as error:
        raise RequestError(
            f"{text[:200]!r} must be an expression of integers and these names: {', '.join(names) or 'none'}"
        ) from error


def _value(node: ast.AST, names: Mapping[str, Int]) -> Int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        value: Int = _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
        return value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        left, right = (_value(argument, names) for argument in node.args)
        least: Int = _FUNCTIONS[node.func.id](left, right)
        return least
    raise ValueError(ast.dump(node))
