"""The user's inline PTX. The text is checked against the table of instructions when it is recorded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import attrs

from tilecopy_core.errors import RequestError, pattern, short_repr
from tilecopy_core.integers import Expr
from tilecopy_core.memory import Memory, Region
from tilecopy_core.plugin import PtxBuilder, Register
from tilecopy_core.ptx import STEM, Label, Line, declared_in, instruction_of, names_in, parse_lines
from tilecopy_core.registry import LOCK

from ..emission_checks import is_special
from ..shared_memory import KernelBindings
from .conversion import emit
from .nearest_opcode import nearest_opcode
from .statements import words_of
from .values import Value, element_offset, lower_value

_MARK = pattern(r"\$operand(\d+)_\d+")
"""The placeholder of an operand's register while the text is checked: the operand's number, and the register's."""
_CONSTANTS = frozenset({"_", "WARP_SZ"})
"""Names that need no declaration (PTX ISA, predefined constants; ``_`` drops a result)."""


class InlineText:
    """PTX text with fields ``{0}``, ``{1}`` .. and the operands that replace the fields. The text is checked on creation.

    For the arguments see :meth:`KernelBuilder.inline_ptx`; ``names`` are those that the kernel declares. The attribute ``declared``
    has the names that the text declares outside braces, for later text.
    """

    def __init__(self, text: Any, operands: Sequence[Any], out: Sequence[Region], names: Collection[str]) -> None:
        self._operands, self._first_output, self._names = (*operands, *out), len(operands), names
        check_fields(text, len(self._operands))
        self._text: str = text
        self.declared: set[str] = set()
        self._scopes = [self.declared]  # the names that are declared in the open blocks, outermost first
        self._copied: set[int] = set()  # the operands that an unknown instruction may write
        self._unknown: dict[str, None] = {}  # the opcodes that the table of instructions lacks
        self._variables: dict[str, None] = {}  # the variables of shared buffers that the text uses
        marks = [_mark(number, operand) for number, operand in enumerate(self._operands)]
        statements = list(parse_lines(text.format(*marks)))
        self._labels = {label.name for label in statements if isinstance(label, Label)}
        for statement in statements:
            self._read(statement)
        if len(self._scopes) > 1:
            raise RequestError("inline_ptx: the text has a {{ without a }} after it; write {{ and }} in pairs")
        # the kernel keeps each of its texts, without what the check alone needs
        del self._names, self._scopes, self._labels

    def write(self, ptx: PtxBuilder) -> None:
        """Write the text with operands in its fields. Raise RequestError if the text names a dynamic shared buffer."""
        bindings = ptx.bindings
        if self._variables and isinstance(bindings, KernelBindings) and bindings.shared.dynamic:
            raise RequestError(
                f"inline_ptx: {', '.join(self._variables)} must not be used, because the kernel has more than 48 KiB of shared memory "
                "and its buffers have no PTX variables: pass k.address(element)"
            )
        texts = [_registers(ptx, operand, copied=n in self._copied) for n, operand in enumerate(self._operands)]
        ptx.raw(self._text.format(*texts))

    def notes(self) -> Iterator[str]:
        """Yield a sentence about each opcode that is not in the table of instructions."""
        for opcode in self._unknown:
            near = nearest_opcode(opcode)
            meant = f"; the nearest is '{near}'" if near else ""
            yield f"inline_ptx: '{opcode}' is not in the table of instructions{meant}; results of this opcode are not checked"

    def _read(self, statement: Line | Label | str) -> None:
        if isinstance(statement, Label):
            self._declare([statement.name], statement)
        elif isinstance(statement, Line):
            self._check(statement)
        elif statement == "{":
            self._scopes.append(set())
        elif statement == "}":
            self._scopes.pop()
            if not self._scopes:
                raise RequestError("inline_ptx: the text has a }} without a {{ before it; write {{ and }} in pairs")
        elif statement.startswith(".") or statement == ";":
            self._declare(declared_in(statement), statement)
        else:
            raise self._error(statement, " must end with ';'")

    def _error(self, statement: Line | Label | str, rule: str) -> RequestError:
        """Return the error of a statement that breaks a rule."""
        return RequestError(f"inline_ptx: '{self._source_text(statement)}'{rule}")

    def _declare(self, names: Sequence[str], statement: Label | str) -> None:
        for name in names:
            if _is_of_the_kernel(name):
                raise self._error(
                    statement,
                    f" declares {self._source_text(name)}, a name that the kernel uses for its own registers and labels: choose another name",
                )
            if name in self._scopes[-1] or (len(self._scopes) == 1 and name in self._names):
                raise self._error(
                    statement,
                    f" declares {name} a second time in the kernel: put the text in {{{{ and }}}}, so that the name is local to the block",
                )
            self._scopes[-1].add(name)

    def _check(self, line: Line) -> None:
        instruction = instruction_of(line.opcode)
        if _MARK.search(line.opcode) or _MARK.search(str(line.guard)):
            raise self._error(line, ": the opcode and predicate must not have a field such as {0}: write plain text")
        if line.guard is not None:
            self._check_declared([str(line.guard)], line)
        if not instruction.needs.known:
            self._unknown[line.opcode] = None
            names = line.names
            self._copied |= {n for n in map(self._number, names) if n is not None and n < self._first_output}
            self._check_declared([name for name in names if name[0] == "%"], line)
            return
        takes_addresses = any(role.is_address for role in instruction.roles)
        for operand, role in line.roles:
            text = str(operand)
            names = names_in(text)
            self._check_elements(text, names, line, takes_addresses=takes_addresses)
            if role.is_address and not text.startswith("["):
                source = self._source_text(text)
                raise self._error(line, f": {source} must be an address: write [{source}], or pass an element")
            if role.writes and not text.startswith("["):
                self._check_written(text, names, line)
            if line.opcode != "call" and not line.opcode.startswith("call."):  # its operands are also functions
                self._check_declared(names, line)

    def _check_elements(self, text: str, names: Sequence[str], line: Line, *, takes_addresses: bool) -> None:
        """Raise RequestError if an element is a part of an operand, or is used as a register."""
        for number in (number for number in map(self._number, names) if number is not None):
            element = self._operands[number]
            if not isinstance(element, Region) or element.buffer.space == "local":
                continue
            if text != _mark(number, element):
                raise self._error(
                    line,
                    f": {{{number}}} stands for the element {element} with its brackets: write only {{{number}}}, or pass "
                    f"k.address(element) and write [{{{number}}} + 4]",
                )
            if not takes_addresses:
                raise self._error(
                    line,
                    f": {line.opcode} takes registers, but {{{number}}} is the address of the element {element}: pass k.load(element), "
                    "or k.address(element)",
                )

    def _check_written(self, text: str, names: Sequence[str], line: Line) -> None:
        if not names:
            raise self._error(line, f" must write to a register, got {self._source_text(text)}")
        for name in names:
            number = self._number(name)
            if number is not None and number < self._first_output:
                raise self._error(
                    line,
                    f" writes {{{number}}}, but {short_repr(self._operands[number])} is not in out=: write to a register that the text "
                    "declares in {{ }}, or pass a fragment in out=",
                )
            if is_special(name):
                raise self._error(line, f" must not write the read-only register {name}")

    def _check_declared(self, names: Sequence[str], line: Line) -> None:
        for name in names:
            in_text = any(name in scope for scope in (*self._scopes, self._labels, _CONSTANTS))
            if not in_text and name in self._names and name.startswith("smem_"):
                self._variables[name] = None
            declared = in_text or name in self._names
            if not declared and self._number(name) is None and not is_special(name):
                raise self._error(
                    line,
                    f": {self._source_text(name)} must be declared: pass it as an operand, or declare it in the text, such as "
                    "{{ .reg .b32 x; .. }}",
                )

    def _number(self, name: str) -> int | None:
        """Return the number of the operand that a placeholder replaces, or None for another name."""
        mark = _MARK.fullmatch(name)
        return int(mark[1]) if mark else None

    def _source_text(self, statement: Line | Label | str) -> str:
        """Return a statement as the user wrote it, with its fields."""
        marks = rf"\[?{_MARK.pattern}\]?(, {_MARK.pattern})*"
        return re.sub(marks, lambda mark: f"{{{mark[1]}}}", str(statement).strip())


def _is_of_the_kernel(name: str) -> bool:
    """Return True if a name looks like those of the kernel's own registers and labels, such as ``%rd7`` or ``$loop_0``."""
    stem = name.rstrip("0123456789")
    return stem != name and (
        stem in {f"%{letters}" for letters in STEM.values()} or (stem[0] == "$" and stem[-1] == "_")
    )


def check_fields(text: Any, count: int) -> None:
    """Raise RequestError if a field of a PTX text is not the index of an operand, from 0 to ``count - 1``."""
    if not isinstance(text, str):
        raise RequestError(f"inline_ptx: text must be a string, got {short_repr(text)}")
    try:
        with LOCK:
            import string
        parts = [part[1:] for part in string.Formatter().parse(text) if part[1] is not None]
        fields = [f"{field}{'!' * bool(how)}{how or ''}{':' * bool(form)}{form}" for field, form, how in parts]
    except ValueError as error:
        raise RequestError(f"inline_ptx: {error}; write {{{{ and }}}} for braces of the PTX") from None
    for field in fields:
        if not re.fullmatch("[0-9]{1,9}", field) or int(field) >= count:
            raise RequestError(
                f"inline_ptx: fields must be indices of the {count} operands (from 0), got {{{short_repr(field)[1:-1]}}}; write {{{{ and }}}} "
                "for braces of the PTX"
            )


def check_outputs(out: Any) -> None:
    """Raise RequestError if ``out`` is not a sequence of fragment regions, or if two regions share a register."""
    if not isinstance(out, (tuple, list)):
        raise RequestError(f"inline_ptx: out must be a sequence of regions of fragments, got {short_repr(out)}")
    taken = set[tuple[Memory, int]]()
    for region in out:
        if not isinstance(region, Region) or region.buffer.space != "local":
            raise RequestError(
                f"inline_ptx: out must have regions of fragments, such as k.registers(fragment)[:], got {short_repr(region)}"
            )
        words = {(region.buffer.memory, word) for word in words_of(region)}
        if words & taken:
            raise RequestError(
                f"inline_ptx: the regions of out must not overlap, but {region} overlaps an earlier region"
            )
        taken |= words


def _mark(number: int, operand: Any) -> str:
    """Return the placeholder of an operand while the text is checked; for an integer, the integer."""
    if isinstance(operand, Region) and operand.buffer.space == "local":
        return ", ".join(f"$operand{number}_{word}" for word in range(len(words_of(operand))))
    if isinstance(operand, Region):
        return f"[$operand{number}_0]"
    return f"$operand{number}_0" if isinstance(operand, (Expr, Value)) else short_repr(int(operand))


def _registers(ptx: PtxBuilder, operand: Any, *, copied: bool) -> str:
    """Return the registers, the address or the number of an operand as text. If ``copied``, its registers are new copies."""

    def fresh(register: Register) -> Register:
        return emit(ptx, register.type, f"mov.{register.type}", register) if copied else register

    if isinstance(operand, Value):
        return str(fresh(lower_value(ptx, operand)))
    if isinstance(operand, Region) and operand.buffer.space == "local":
        words, registers = words_of(operand), ptx.fragment(operand.buffer)
        return ", ".join(str(fresh(register)) for register in registers[words.start : words.stop])
    if isinstance(operand, Region):
        address = ptx.address(operand.buffer, element_offset(operand))
        return str(attrs.evolve(address, base=fresh(address.base)) if isinstance(address.base, Register) else address)
    return str(fresh(ptx.value(operand))) if isinstance(operand, Expr) else short_repr(int(operand))
