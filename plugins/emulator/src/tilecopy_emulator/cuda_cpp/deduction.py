"""The deduction of template arguments from the arguments of a launch, for pointers and numbers with a declared type."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .host_removal import CppToken, Declaration

_TYPE = r"((?:const |unsigned |signed |long |short )*[A-Za-z_]\w*(?: :: \w+)*(?: < [^<>;]* >)?)"
_QUALIFIERS = r"(?:const |__restrict__ |__restrict )*"
_CAST = re.compile(rf"(?:(?:reinterpret|static|const)_cast < |\( ){_TYPE}((?: \*)+) [>)]")
_DATA = re.compile(rf"\. (?:data_ptr|mutable_data_ptr|data) < {_TYPE} >")
_VARIABLE = re.compile(r"(& )?(\w+)(?: [+-] .*)?")
_NUMBERS = (("float", r"[\d.]+(?:e[+-]?\d+)?f"), ("int", r"\d+"), ("double", r"[\d.]+(?:e[+-]?\d+)?"))
_NOT_TYPES = ("return", "else", "new", "delete", "const", "typename", "auto")


def deduced_arguments(
    kernel: Declaration, names: Sequence[str], launch: Sequence[CppToken], function: Sequence[CppToken]
) -> dict[str, str]:
    """Return template arguments of a kernel by the names of its template parameters, as far as a launch shows them.

    ``launch``: the tokens from ``<<<`` on; ``function``: the tokens of the function that launches the kernel.
    """
    end = next((at for at in range(3, len(launch)) if [x.text for x in launch[at - 3 : at + 1]] == [*">>>", "("]), None)
    start = next((at for at, x in enumerate(kernel.head[:-1]) if x.text == kernel.name), None)
    if end is None or start is None:
        return {}
    body = " ".join(token.text for token in function)
    deduced = dict[str, str]()
    for parameter, argument in zip(_listed(kernel.head[start + 1 :]), _listed(launch[end:]), strict=False):
        match = re.match(rf"(?:const )?(\w+) (?:const )?((?:\* )*){_QUALIFIERS}\w+(?: =.*)?$", parameter)
        if match is None or match[1] not in names or match[1] in deduced:
            continue
        type, stars = match[1], match[2].count("*")
        passed, passed_stars = _type_of(argument, body)
        if passed and passed_stars == stars:
            deduced[type] = passed.replace("const ", "")
    return deduced


def _listed(tokens: Sequence[CppToken]) -> list[str]:
    """Return the parts, separated by commas, of the brackets that the tokens begin with."""
    parts, depth = [list[str]()], 0
    for token in tokens:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if not depth:
            break
        if token.text == "," and depth == 1:
            parts.append([])
        elif depth > 1 or token.text != "(":
            parts[-1].append(token.text)
    return [" ".join(part) for part in parts]


def _type_of(argument: str, body: str) -> tuple[str, int]:
    """Return an argument's type without asterisks, and the number of asterisks. The type is "" if it is unknown."""
    for type, form in _NUMBERS:
        if re.fullmatch(form, argument):
            return type, 0
    if match := _DATA.search(argument):
        return match[1], 1
    if match := _CAST.match(argument):
        return match[1], match[2].count("*")
    match = _VARIABLE.fullmatch(argument)
    if match is None:
        return "", 0
    declared = rf"{_TYPE} (?:\* \w+ (?:= [^,;]+ )?, )*((?:\* )*){_QUALIFIERS}{match[2]} [;=,)(\[{{]"
    fitting = [found for found in re.finditer(declared, body) if found[1].split()[-1] not in _NOT_TYPES]
    return (fitting[0][1], fitting[0][2].count("*") + bool(match[1])) if fitting else ("", 0)
