"""The search for kernel template instances that host code launches. NVRTC compiles only the requested instances."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .deduction import deduced_arguments
from .host_removal import CppToken, Declaration, SourceFile, tokens_of

_MOST_ROUNDS = 3
"""The largest depth of functions that pass their template arguments on to a launch."""
_MOST_TOKENS = 1000
"""The largest number of tokens of a launch."""
_ARGUMENT = re.compile(r"\s*,\s*(?![^<(]*[>)])")
"""The separator of two template arguments."""
_TYPE_WORD = re.compile(
    "int|float|double|char|short|long|bool|(?:un)?signed|const|(?:__)?restrict(?:__)?|__grid_constant__"
)


def launched_instances(file: SourceFile) -> dict[str, list[str]]:
    """Return a dictionary from kernel template to launched instances, such as ``{"scale": ["scale<float, 4>"]}``.

    Names of constants and of template arguments of the launching function are replaced by their values, if the file
    has them. A template whose parameters all have default arguments is launched as ``name<>``. Template arguments that
    the launch does not have are deduced from its arguments. An instance is missing if that fails.
    """
    templates = {kernel.name: kernel for kernel in file.kernels if kernel.head[0].text == "template"}
    by_template: dict[str, dict[str, None]] = {name: {} for name in templates}
    for name, arguments, function, launch in _uses(file, "<<<"):
        base = name.rpartition("::")[2]
        if base not in templates:
            continue
        kernel = templates[base]
        qualified = name if "::" in name else kernel.scope + name
        defaults = [*template_parameters(kernel).values()]
        packed = bool(arguments) and any(token.text == "." for token in kernel.head)
        known = _completed(arguments, kernel, launch, file, function) if function and not packed else arguments
        for resolved in _resolve(file, known, function, _MOST_ROUNDS) if known else [""]:
            spaced = re.sub(r" ?(::|,) ?", lambda mark: mark[1] + " " * (mark[1] == ","), resolved)
            if packed or all(defaults[len(_ARGUMENT.split(spaced)) if spaced else 0 :]):
                by_template[base][f"{qualified}<{spaced}>"] = None
    return {name: list(instances) for name, instances in by_template.items()}


def _completed(
    arguments: tuple[CppToken, ...],
    kernel: Declaration,
    launch: Sequence[CppToken],
    file: SourceFile,
    function: Declaration,
) -> tuple[CppToken, ...]:
    """Return template arguments, followed by those that the arguments of the launch show."""
    parameters = template_parameters(kernel)
    written = len(_ARGUMENT.split(" ".join(token.text for token in arguments))) if arguments else 0
    body = [token for token in file.tokens if function.start <= token.start < function.end]
    deduced = deduced_arguments(kernel, list(parameters), launch, body)
    for name in list(parameters)[written:]:
        if name not in deduced:
            break
        arguments += tokens_of(f"{', ' if arguments else ''}{deduced[name]}")
    return arguments


def _uses(
    file: SourceFile, before: str
) -> Iterator[tuple[str, tuple[CppToken, ...], Declaration | None, Sequence[CppToken]]]:
    """Yield each ``name<arguments>`` before ``<<<`` or ``(``, the function that contains it, and the tokens from there."""
    tokens = file.tokens
    functions = [declaration for declaration in file.declarations if declaration.kind == "function"]
    macros = [inner for line in tokens if line.kind == "line" and before in line.text for inner in _macro_body(line)]
    for sequence in (tokens, macros):
        for at, token in enumerate(sequence):
            if token.text != before or not at:
                continue
            end, depth = at - 1, 0
            start = end
            if sequence[end].text == ">":
                while start > 0 and (depth := depth + (sequence[start].text == ">") - (sequence[start].text == "<")):
                    start -= 1
                arguments = tuple(sequence[start + 1 : end])
                start -= 1
            else:
                arguments = ()
            if start < 0 or sequence[start].kind != "word":
                continue
            name = sequence[start].text
            while start >= 2 and sequence[start - 1].text == "::" and sequence[start - 2].kind == "word":
                start -= 2
                name = f"{sequence[start].text}::{name}"
            inside = [func for func in functions if sequence is tokens and func.start <= token.start < func.end]
            yield name, arguments, inside[-1] if inside else None, sequence[at : at + _MOST_TOKENS]


def _macro_body(line: CppToken) -> Sequence[CppToken]:
    """Return the tokens of a ``#define``."""
    return tokens_of(line.text.replace("\\\n", "  ").lstrip().removeprefix("#"))


def _resolve(
    file: SourceFile, arguments: Sequence[CppToken], function: Declaration | None, rounds: int
) -> Iterator[str]:
    """Yield template arguments with the constants of their function in place of names, once for each way to call it."""
    written = " ".join(token.text for token in arguments)
    if function is None:
        if _known_outside(file, arguments):
            yield written
        return
    body = file.text[function.start : function.end]
    constants = dict(
        re.findall(
            r"\bconst(?:expr)?\s+(?:static\s+)?(?:unsigned\s+)?\w+\s+(?:const\s+)?(\w+)\s*=\s*([^;,{]+)[;,]", body
        )
    )
    constants = {name: x if re.fullmatch(r"[\w:]+", x) else f"({x})" for name, x in constants.items()}
    constants |= dict(re.findall(r"\busing\s+(\w+)\s*=\s*([^;]+);", body))
    if "DISPATCH_" in body:  # macros that define scalar_t, or scalar_t_0 and others, as each of several types
        constants = dict.fromkeys(re.findall(r"\bscalar_t\w*", written), "float") | constants
    for _ in range(_MOST_ROUNDS):
        for name, value in constants.items():
            written = re.sub(rf"\b{name}\b", value.replace("\\", " "), written)
    parameters = list(template_parameters(function))
    if not any(re.search(rf"\b{name}\b", written) for name in parameters):
        yield written
        return
    for name, passed, caller, _ in _uses(file, "(") if rounds else ():
        if name != function.name or not passed:
            continue
        for values in _resolve(file, passed, caller, rounds - 1):
            replaced, passed_values = written, _ARGUMENT.split(values)
            for parameter, value in zip(parameters, passed_values, strict=False):
                replaced = re.sub(rf"\b{parameter}\b", value, replaced)
            if not any(re.search(rf"\b{parameter}\b", replaced) for parameter in parameters[len(passed_values) :]):
                yield replaced


def _known_outside(file: SourceFile, arguments: Sequence[CppToken]) -> bool:
    """Return True if a macro's template arguments contain no parameter of the macro."""
    parameters = set()
    for line in (token.text for token in file.tokens if token.kind == "line"):
        if macro := re.match(r"\s*#\s*define\s+\w+\(([^)]*)\)", line):
            parameters |= set(re.findall(r"\w+", macro[1]))
    return not any(token.text in parameters for token in arguments)


def template_parameters(function: Declaration) -> dict[str, bool]:
    """Return a dictionary from template parameter to True if the parameter has a default argument, else False."""
    parameters, depth, name, default = dict[str, bool](), 0, "", False
    for token in function.head[1:] if function.head and function.head[0].text == "template" else ():
        depth += (token.text in ("<", "(")) - (token.text in (">", ")"))
        if depth == 0 or (depth == 1 and token.text == ","):
            parameters |= {name: default} if name else {}
            name, default = "", False
            if depth == 0:
                break
        elif token.text == "=":
            default = True
        elif token.kind == "word" and not default:
            name = token.text
    return parameters


def parameter_names(kernel: Declaration) -> tuple[str, ...]:
    """Return the names of a kernel's parameters, with "" for a parameter without a name."""
    at = next(
        (at for at, token in enumerate(kernel.head) if token.text == kernel.name and kernel.head[at + 1].text == "("),
        -1,
    )
    names, depth, name, default = list[str](), 0, "", False
    for before, token in zip(kernel.head[at:], kernel.head[at + 1 :], strict=False):
        depth += (token.text in ("(", "<", "[", "{")) - (token.text in (")", ">", "]", "}"))
        if depth == 0 or (depth == 1 and token.text == ","):
            names.append(name)
            name, default = "", False
            if depth == 0:
                break
        default = default or token.text == "="
        typed = before.text not in ("(", ",", "::", "const", "struct", "unsigned")
        if token.kind == "word" and depth == 1 and typed and not default:
            name = token.text if not _TYPE_WORD.fullmatch(token.text) else ""
    return tuple(names) if names != [""] else ()
