"""The C++ types of a kernel's parameters, from the kernel's mangled name (Itanium C++ ABI, section 5.1)."""

from __future__ import annotations

import re
from functools import lru_cache

_BUILTIN = {"c": "char", "a": "signed char", "h": "unsigned char", "b": "bool", "s": "short", "t": "unsigned short", "i": "int",
            "j": "unsigned", "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long", "f": "float",
            "d": "double", "v": "void"}  # fmt: skip
DTYPES = {"short": "int16", "unsigned short": "uint16", "int": "int32", "unsigned": "uint32", "long": "int64", "unsigned long": "uint64",
          "long long": "int64", "unsigned long long": "uint64", "float": "float32", "double": "float64", "__half": "float16",
          "__nv_bfloat16": "uint16"}  # fmt: skip
"""NumPy types of C++ numbers; types of one byte are left out, because any bytes may be read as such."""
_VECTOR = re.compile(r"(u?)(char|short|int|longlong|float|double)([1-4])|dim3")
_VECTOR_BITS = {"char": 8, "short": 16, "int": 32, "longlong": 64, "float": 32, "double": 64}
_NAME = re.compile(r"_Z(?:L?(\d+)|N[rVK]*(?=\d))")
_TYPE = re.compile(r"(P*)([rVK]*)(?:(\d+)|(S[0-9A-Z]*_)|([a-z]))")


@lru_cache(maxsize=256)
def parameter_types(name: str) -> tuple[str, ...] | None:
    """Return the C++ type of each kernel parameter, or "" if unknown. Return None if the name cannot be parsed."""
    start = _NAME.match(name)
    if start is None:
        return None
    at, known = start.end() + int(start[1] or 0), list[str]()
    while not start[1] and (part := re.match(r"\d+", name[at:])):
        at += part.end() + int(part[0])
        known.append("")
    if not start[1]:
        if name[at : at + 1] != "E":
            return None
        at += 1
        known.pop()  # the name of the kernel
    types = []
    while at < len(name):
        match = _TYPE.match(name, at)
        if match is None:
            return None
        stars, qualifiers, length, earlier, builtin = match.groups()
        at = match.end() + int(length or 0)
        if length and name[at : at + 1] == "I":  # an instance of a template
            return None
        type = name[match.end() : at] if length else _BUILTIN.get(builtin or "", "")
        if earlier:
            number = int(earlier[1:-1], 36) + 1 if earlier[1:-1] else 0
            type = known[number] if number < len(known) else ""
        for needed, star in [(bool(length), ""), (bool(qualifiers), ""), *((True, "*") for _ in stars)]:
            type = f"{type}{star}" if type else ""
            known += [type] * needed
        types.append(type)
    return () if types == ["void"] else tuple(types)


def vector_type(type: str) -> tuple[str, int] | None:
    """Return the PTX type and the number of components of a vector type of CUDA, such as ``("f32", 3)`` for ``float3``."""
    match = _VECTOR.fullmatch(type)
    if match is None:
        return None
    unsigned, element, count = match.groups() if match[2] else ("u", "int", "3")  # dim3
    kind = "f" if element in ("float", "double") else unsigned or "s"
    return f"{kind}{_VECTOR_BITS[element]}", int(count)
