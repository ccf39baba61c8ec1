"""The translation of a copy's address arithmetic from PTX to C++. Compilers hoist C++ out of loops, but not PTX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs
from tilecopy.emission_checks import statements as parts_of

from tilecopy_core.ptx import AnyLine, Line, Register, names_in

from .function import AsmOperand, CopyFunction, RegisterMove, branches
from .function_arguments import MARK

_C = {
    "mov.b": "{0}",
    "add.s": "{0} + {1}",
    "mul.lo.s": "{0} * {1}",
    "mad.lo.s": "{0} * {1} + {2}",
    "shl.b": "{0} << {1}",
    "shr.u": "{0} >> {1}",
    "and.b": "{0} & {1}",
    "xor.b": "{0} ^ {1}",
    "div.u": "{0} / {1}",
    "rem.u": "{0} % {1}",
}
"""PTX opcodes without their width (PTX ISA 9.7.1, 9.7.8) -> C++ on unsigned integers of that width, which wrap around like PTX."""
_EXACT = {
    "shr.s32": "(uint32_t)((int32_t){0} >> {1})",
    "shr.s64": "(uint64_t)((int64_t){0} >> {1})",
    "min.s64": "(uint64_t)min((long long){0}, (long long){1})",
    "mul.wide.u32": "(uint64_t){0} * {1}",
    "mul.wide.s32": "(uint64_t)((int64_t)(int32_t){0} * (int32_t){1})",
    "mad.wide.u32": "(uint64_t){0} * {1} + {2}",
    "mad.wide.s32": "(uint64_t)((int64_t)(int32_t){0} * (int32_t){1}) + {2}",
    "cvt.u64.u32": "(uint64_t){0}",
    "cvt.s64.s32": "(uint64_t)(int64_t)(int32_t){0}",
    "cvt.u32.u64": "(uint32_t){0}",
}
"""PTX opcodes whose operands have different widths or a sign -> C++."""


MOST_WORDS = 24
"""The most 32-bit words that are computed before the inline assembly. More would occupy too many registers."""


def hoist(function: CopyFunction) -> tuple[list[str], CopyFunction]:
    """Return C++ statements for the address arithmetic of a function, and the function without that arithmetic.

    The integers have the names of the block's registers. A compiler can hoist C++ out of a loop, but not the contents of inline
    assembly. This pays if the statements multiply two run-time integers (such as sizes in strides), or if the assembly then has a
    single word as input, the address of everything. In other cases the arithmetic in the assembly has few instructions and needs
    fewer registers, and the function is returned unchanged.
    """
    values = {move.register: _argument(move) for move in function.inputs if not move.words}
    written = Counter(name for part in parts_of(function.body) for name in _results(part))
    outputs = {move.register for move in function.outputs}
    body: list[AnyLine] = []
    sources: dict[str, list[str]] = {}
    straight, products = True, False
    for line in function.body:
        straight = straight and not any(map(branches, parts_of([line])))
        results = [name for name in _results(line) if written[name] == 1 and name not in outputs]
        if straight and results and isinstance(line, Line) and (cpp := _cpp(line, values)):
            values[results[0]] = cpp
            sources[results[0]] = [operand.name for operand in line.operands[1:] if isinstance(operand, Register)]
            of_registers = all(isinstance(operand, Register) for operand in line.operands[:3])
            products = products or (of_registers and line.name in ("mul", "mad"))
        else:
            body.append(line)
    used = {name for part in parts_of(body) if isinstance(part, Line) for name in part.names}
    taken = [name for name in values if name in used]
    computed = set(taken) - {move.register for move in function.inputs}
    if not computed or sum(_bits(name) // 32 for name in computed) > (MOST_WORDS if products else 1):
        return [], function
    moves = [RegisterMove(f"mov.b{_bits(name)}", name, name) for name in taken]
    rest = attrs.evolve(
        function,
        inputs=(*moves, *(move for move in function.inputs if move.words)),
        body=tuple(body),
        computed={AsmOperand(name): _bits(name) for name in taken},
    )
    needed = _dependencies(sources, taken)
    statements = [f"const uint{_bits(name)}_t {name} = {value};" for name, value in values.items() if name in needed]
    return statements, rest


def _argument(move: RegisterMove) -> str:
    if move.opcode == "cvta.to.global.u64":
        return f"(uint64_t)__cvta_generic_to_global({move.argument})"
    return f"(uint{_bits(move.register)}_t){move.argument}"


def _bits(register: str) -> int:
    return 64 if register.startswith(f"{MARK}rd") else 32


def _results(part: AnyLine | str) -> list[str]:
    """Return the registers that an instruction writes, or may write."""
    return [name for operand in part.results for name in names_in(operand)] if isinstance(part, Line) else []


def _cpp(line: Line, values: dict[str, str]) -> str | None:
    """Return a pure integer instruction as a C++ expression, or None if an operand or the opcode has no C++ form."""
    width = line.opcode[-2:]
    pattern = _EXACT.get(line.opcode) or (_C.get(line.opcode[:-2]) if width in ("32", "64") else None)
    if pattern is None or line.guard is not None:
        return None
    written = []
    for operand in line.operands[1:]:
        if isinstance(operand, Register) and operand.name in values:
            written.append(operand.name)
        elif isinstance(operand, int):
            written.append(str(operand) if 0 <= operand < 2**31 else f"(uint{width}_t)({operand}LL)")
        else:
            return None
    return pattern.format(*written)


def _dependencies(sources: Mapping[str, Sequence[str]], registers: Sequence[str]) -> set[str]:
    """Return the registers and those from which they are computed."""
    needed, open_ = set[str](), list(registers)
    while open_:
        name = open_.pop()
        if name not in needed:
            needed.add(name)
            open_ += sources.get(name, ())
    return needed
