"""The parser of variable declarations and initial values. Source: PTX ISA, section 5.4."""

from __future__ import annotations

import re
from math import prod

import attrs
import numpy as np

from ..program import DECLARABLE, REGISTER_BITS, Relocation, Variable
from .cursor import MOST_BRACES, Cursor, whole_number

MOST_BYTES = {"shared": 227 << 10, "local": 512 << 10, "const": 64 << 10, "global": 1 << 34}
"""State space -> its size in bytes, per CTA, thread or module; for global memory the emulator's limit, else that of hardware."""


def variable_declarations(c: Cursor, space: str, *, extern: bool) -> list[Variable]:
    """Parse a variable declaration from the token after the state space, such as ``.u32 a, b[4];``."""
    line, align, elements, type = c.token.line, 0, 1, ""
    while not type and c.token.kind == "word" and c.token.text.startswith("."):
        word = c.advance().text[1:]
        if word == "align":
            align = c.alignment()
        elif word == "attribute":
            c.skip_past(")")
        elif word in ("v2", "v4"):
            elements = int(word[1])
        elif word in DECLARABLE and word != "pred":
            type = word
        else:
            c.fail(f"a variable must not have the type '.{word}'")
    if not type:
        c.fail("a variable must have a type")
    if elements * REGISTER_BITS[type] > 128:
        c.fail(f"a vector must have at most 128 bits, got {elements} elements of .{type}", line)
    variables = [_variable(c, space, type, elements, align, extern=extern)]
    while c.accept(","):
        variables.append(_variable(c, space, type, elements, align, extern=extern))
    c.expect(";", "';' after a variable")
    return variables


def _variable(c: Cursor, space: str, type: str, elements: int, align: int, *, extern: bool) -> Variable:
    line, name = c.token.line, c.name("a variable's name")
    sizes: list[int] = []
    while c.accept("["):
        sizes.append(-1 if c.token.kind == "]" else _count(c))
        c.expect("]")
    if elements > 1:
        sizes.append(elements)
    size = REGISTER_BITS[type] // 8
    align = max(align, size * elements)
    data: bytes | None = None
    relocations: list[Relocation] = []
    if c.accept("="):
        if space not in ("global", "const"):
            c.fail(f"a variable in .{space} must not have an initial value", line)
        if -1 in sizes[1:]:
            c.fail(f"only the first size of the array {name} may be left out", line)
        items = initial_value(c)
        if sizes and sizes[0] == -1:
            sizes[0] = len(items) if isinstance(items, list) else 1
        _demand_room(c, space, name, prod(sizes) * size, line)
        raw = bytearray()
        place(c, raw, relocations, items, sizes, 0, type, line)
        data = bytes(raw)
    if any(count == -1 for count in sizes) and not (extern and space == "shared"):
        c.fail(f"the array {name} must have a size", line)
    count = 0 if -1 in sizes else prod(sizes)
    if not count and not extern:
        c.fail(f"the array {name} must have at least one element, got {count}", line)
    _demand_room(c, space, name, count * size, line)
    return Variable(name, space, align, count * size, data, extern, tuple(relocations), type)


def _count(c: Cursor) -> int:
    count = c.integer("a count of elements")
    if count < 0:
        c.fail(f"{count} elements")
    return count


def _demand_room(c: Cursor, space: str, name: str, size: int, line: int) -> None:
    if size > MOST_BYTES[space]:
        c.fail(f"{name} in .{space} must have at most {MOST_BYTES[space]} bytes, got {size}", line)


def _offset(c: Cursor) -> int:
    return c.integer("an offset") if c.accept("+") else 0


def initial_value(c: Cursor, depth: int = 0) -> object:
    """Parse an initial value: a constant, an address, or a list of initial values in braces."""
    if c.accept("{"):
        if depth > MOST_BRACES:
            c.fail(f"braces must be nested at most {MOST_BRACES} levels deep")
        items: list[object] = []
        while not c.accept("}"):
            if items:
                c.expect(",", "',' or '}'")
                if c.accept("}"):
                    break
            items.append(initial_value(c, depth + 1))
        return items
    if c.token.kind == "word":
        name = c.advance().text
        generic = name == "generic"
        if generic:
            c.expect("(")
            name = c.word("a variable")
        offset = _offset(c)
        if generic:
            c.expect(")")
            offset += _offset(c)
        return Relocation(0, name, offset, generic)
    return -_number(c) if c.accept("-") else _number(c)


def _number(c: Cursor) -> float | int:
    token = c.expect("number", "an initial value")
    text = token.text
    if text[:2] in ("0f", "0F") and len(text) == 10:
        return float(np.array(int(text[2:], 16), np.uint32).view(np.float32))
    if text[:2] in ("0d", "0D") and len(text) == 18:
        return float(np.array(int(text[2:], 16), np.uint64).view(np.float64))
    if re.search(r"[.eE]", text) and not text.lower().startswith("0x"):
        return float(text)
    value = whole_number(text)
    if value is None:
        c.fail(f"{text} is not a PTX number", token.line)
    return value


def place(
    c: Cursor, raw: bytearray, relocations: list[Relocation], item: object, sizes: list[int], at: int, type: str,
    line: int,
) -> None:  # fmt: skip
    """Write an initial value at byte ``at`` of ``raw``. If ``raw`` is shorter, append zeros first."""
    size = REGISTER_BITS[type] // 8
    if isinstance(item, list):
        if not sizes or len(item) > sizes[0]:
            c.fail(f"at most {sizes[0] if sizes else 1} initial values are allowed, got {len(item)}", line)
        for index, part in enumerate(item):
            place(c, raw, relocations, part, sizes[1:], at + index * prod(sizes[1:]) * size, type, line)
        return
    if sizes:
        c.fail("the initial values of an array must be in braces, got one value", line)
    if isinstance(item, Relocation):
        if size != 8:
            c.fail(f"a variable that holds an address must have 64 bits, got .{type}", line)
        relocations.append(attrs.evolve(item, at=at))
        return
    assert isinstance(item, (int, float))
    if type[0] == "f" or type == "bf16":
        if type not in ("f32", "f64") or isinstance(item, int):
            c.fail(f"the initial value must have the type .{type}, got {item}", line)
        _put(raw, at, np.array(item, "f4" if type == "f32" else "f8").tobytes())
    elif isinstance(item, float) and type[0] != "b":
        c.fail(f"the initial value must have the type .{type}, got {item}", line)
    else:
        _put(raw, at, (int(item) & ((1 << size * 8) - 1)).to_bytes(size, "little"))


def _put(raw: bytearray, at: int, value: bytes) -> None:
    raw.extend(bytes(max(0, at - len(raw))))
    raw[at : at + len(value)] = value
