"""Layouts, buffers and regions as words on the command line, read without ``eval``."""

from __future__ import annotations

import ast
import re
from typing import Any

from ..errors import RequestError
from ..expr import symbol
from ..layout import AXES, R, S, Swizzle, SwizzledLayout, TileLayout, swizzle
from ..memory import Buffer, Region
from ..scope import Scope, cta, thread, warp, warpgroup

_NAMES: dict[str, Any] = {
    "S": S,
    "R": R,
    "TileLayout": TileLayout,
    "SwizzledLayout": SwizzledLayout,
    "Swizzle": Swizzle,
    "swizzle": swizzle,
    **AXES,
}
_BLOCK_IDS = {f"b{dim}": symbol(f"ctaid.{dim}", upper=2**31 - 2 if dim == "x" else 65534) for dim in "xyz"}


def evaluate_expression(text: str, names: dict[str, Any]) -> Any:
    """The value of an expression of integers, names, calls, subscripts and ``+ - * // % @``.

    Raises:
        RequestError: anything else.
    """
    try:
        return _walk(ast.parse(text.strip(), mode="eval").body, names)
    except SyntaxError as error:
        raise RequestError(f"'{text}' is not an expression: {error.msg}") from None


_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.MatMult: lambda a, b: a @ b,
}


def _walk(node: ast.AST, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, str)) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise RequestError(f"the name {node.id!r} is not known here; the names are {', '.join(names)}")
        return names[node.id]
    if isinstance(node, ast.Tuple):
        return tuple(_walk(item, names) for item in node.elts)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_walk(node.left, names), _walk(node.right, names))
    if isinstance(node, ast.Slice):
        return slice(*(None if part is None else _walk(part, names) for part in (node.lower, node.upper, node.step)))
    if isinstance(node, ast.Subscript):
        return _walk(node.value, names)[_walk(node.slice, names)]
    if isinstance(node, ast.Call):
        keywords = {keyword.arg: _walk(keyword.value, names) for keyword in node.keywords if keyword.arg}
        return _walk(node.func, names)(*(_walk(argument, names) for argument in node.args), **keywords)
    raise RequestError(f"'{ast.unparse(node)}' is not allowed in an expression")


def parse_layout(text: str) -> TileLayout:
    """A layout such as ``S[(32, 8) : (1 @ laneid, 1)]`` or ``SwizzledLayout(swizzle("128B", "float16"), TileLayout(S[8, 64]))``."""
    value = evaluate_expression(text, _NAMES)
    if not isinstance(value, TileLayout):
        raise RequestError(f"'{text}' is {value!r}, not a layout")
    return value


_BUFFER = re.compile(r"\s*(global|shared|local|tmem)\s+(\w+)\s*(\[[^\]]*\])\s*(\[.*\])?\s*\Z")


def parse_region(text: str, layout: str | None, name: str) -> Region:
    """A region such as ``global float16 [4096, 64] [bx*128 : bx*128+128, :]``: space, dtype, shape, box.

    Raises:
        RequestError: the words do not have that form.
        LayoutError: the region does not fit its buffer.
    """
    match = _BUFFER.match(text)
    if match is None:
        raise RequestError(
            f"'{text}' is not `space dtype [shape] [region]`, as in 'global float16 [4096, 64] [0:128, :]'"
        )
    shape = evaluate_expression(match[3][1:-1], {})
    buffer = Buffer(
        shape if isinstance(shape, tuple) else (shape,),
        match[2],
        space=match[1],
        layout=None if layout is None else parse_layout(layout),
        name=name,
    )
    box = evaluate_expression(f"box{match[4] or '[:]'}", {"box": _Box(), **_BLOCK_IDS})
    return buffer[box]


class _Box:
    """Subscripting it gives the subscript."""

    def __getitem__(self, key: Any) -> Any:
        return key


def parse_scope(text: str) -> Scope:
    """``thread``, ``warp``, ``warpgroup`` or ``cta:128``."""
    kind, _, count = text.partition(":")
    if kind == "cta" and count.isdigit():
        return cta(int(count))
    plain = {"thread": thread, "warp": warp, "warpgroup": warpgroup}
    if kind not in plain or count:
        raise RequestError(f"scope {text!r} is not thread, warp, warpgroup or cta:THREADS")
    return plain[kind]()
