"""The parser of an entry's body. It expands called functions in place.

Names are resolved by scope: inner declarations get unique names. Calls are replaced by the bodies of their functions,
so that the machine needs neither calls nor parameters of functions. Source: PTX ISA, sections 4, 5 and 7.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from ..alu import video
from ..debug_info import LineTable, SourceLocation, readable
from ..effects import effect_of
from ..program import (
    CARRY,
    DECLARABLE,
    REGISTER_BITS,
    TAKES_PART,
    Braces,
    Instruction,
    Memory,
    Negated,
    Offset,
    Operand,
    Pair,
    Parameter,
    TensorAddress,
    UnsupportedPtxError,
    Variable,
)
from ..threads.special import SPECIAL_REGISTERS
from .cursor import Cursor, whole_number
from .lexer import Token
from .variables import variable_declarations

MAX_INSTRUCTIONS = 1 << 18
"""The largest number of instructions after the expansion of calls."""
MOST_COPIES = 8
"""The number of calls of a function that are expanded in place; later calls share one body, to limit the size of a program."""

CODE_BASE = 1 << 12
SYSTEM_CALLS = {"vprintf": ((2, 0), (2, 1)), "__assertfail": ((5, 0),), "malloc": ((1, 1),), "free": ((1, 0),)}
"""Functions that the driver defines -> their numbers of arguments and results."""
LINKAGE = (".visible", ".extern", ".weak", ".common")
_PART = re.compile(r"tilecopy: (\w+): ([1-9]\d{0,3}) of ([1-9]\d{0,3}) threads copy together; this is thread (\S+)")
"""The comment of tilecopy-export above a copy: its name, threads per group, number of threads, and the register of the thread's index."""
_PARTED_FROM_COPIES = ("barrier", "fence", "wait", "end")
"""Kinds of instructions outside any copy; the comment above a copy ends before them."""


_MAD_WITHOUT_ROUNDING = re.compile(r"mad(\.ftz)?(\.sat)?\.f32")
"""Opcodes up to PTX ISA 3.1 without a rounding; ptxas assembles them as ``.rn``."""


@attrs.frozen
class Function:
    """An entry or a function, with the position of its body."""

    name: str
    line: int
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    body: int
    attributes: dict[str, tuple[int, ...]]


@attrs.define
class _Scope:
    """The names of a block between two braces."""

    parent: _Scope | None
    suffix: str
    names: dict[str, str] = attrs.Factory(dict)
    labels: dict[str, str] = attrs.Factory(dict)
    targets: dict[str, tuple[str, ...]] = attrs.Factory(dict)

    def find(self, name: str, table: str = "names") -> Any:
        """Return the meaning of a name from the innermost scope that declares the name, or None if no scope does."""
        scope: _Scope | None = self
        while scope is not None:
            meaning = getattr(scope, table).get(name)
            if meaning is not None:
                return meaning
            scope = scope.parent
        return None


@attrs.define
class _Draft:
    """An instruction with unresolved labels."""

    instruction: Instruction
    scope: _Scope
    unresolved: bool = False


@attrs.frozen
class _Frame:
    """A block that is being parsed.

    ``scope``: of its names; ``opening``: its brace; ``source``: the comment of a copy before it; ``leave``: called
    at its end if it is the body of a call.
    """

    scope: _Scope
    opening: Token
    source: str
    leave: Callable[[], None] | None


@attrs.frozen
class _SharedBody:
    """A function's body to which several calls branch; a register selects the return.

    ``function``: the function; ``scope``: of its formals; ``start``: label of its first instruction; ``end``: label of
    the branch back; ``register``: holds the number of the call site; ``sites``: labels after its calls.
    """

    function: Function
    scope: _Scope
    start: str
    end: str
    register: str
    sites: list[str]


def _takes(function: Function, arguments: int, results: int) -> bool:
    """Return True if a function has these numbers of parameters and results."""
    return (len(function.parameters), len(function.results)) == (arguments, results)


class Definitions:
    """The variables, functions and entries that a PTX module defines."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, Function] = {}
        self.entries: dict[str, Function] = {}
        self.places = LineTable()
        self.version = self.declared_version = (0, 0)

    def code_address(self, name: str) -> int:
        """Return the address of a function. The address is outside all state spaces."""
        return CODE_BASE + 16 * list(self.functions).index(name)


class Expansion:
    """The expansion of one entry into instructions. Called functions are expanded in place."""

    def __init__(self, module: Definitions, cursor: Cursor) -> None:
        self.module, self.c = module, cursor
        self.drafts: list[_Draft] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, int] = {CARRY: 1}
        self.register_types: dict[str, str] = {}
        self.parts: dict[str, Braces] = {}  # of a vector, and of a register of 128 bits, which is two of 64
        self.variables: list[Variable] = []
        self.numbers = 0
        self.calls: dict[str, None] = {}
        self.copies: Counter[str] = Counter()
        self.shared: dict[str, _SharedBody] = {}
        self.callees: dict[str, set[str]] = {}
        self.frames: list[_Frame] = []
        self.source = ""
        self.place: SourceLocation | None = None
        self.caller: SourceLocation | None = None
        self.locals: dict[str, int] = {}
        self.ends: list[str] = []

    def expand_entry(self, entry: Function) -> None:
        """Parse the body of an entry, expand its calls in place, and append the instructions to :attr:`drafts`."""
        names = {name: name for name in self.module.variables}
        names |= {formal.name: formal.name for formal in entry.parameters}
        self.root = _Scope(None, "", {name: name for name in self.module.variables})
        self._enter(_Scope(None, "", names), self.c.open_body(entry.body))
        self._statements()
        if self.shared:
            self.drafts.append(_Draft(Instruction(entry.line, "exit", ("exit",), ()), self.root))
        backs = [(body, self._expand_shared(body)) for body in self._all_shared()]
        for name, body in self.shared.items():
            if name in self._reachable(name):
                raise UnsupportedPtxError(
                    f"the function {name} may call itself; recursive calls are not supported", body.function.line
                )
        for body, draft in backs:
            operands = body.register, Braces(tuple(body.sites))
            draft.instruction = attrs.evolve(draft.instruction, operands=operands)
        self.drafts = [self._resolve(draft) for draft in self.drafts]

    def _reachable(self, name: str) -> set[str]:
        """Return the functions that a shared body calls, directly or indirectly."""
        callees, queue = set[str](), [name]
        while queue:
            new = self.callees.get(queue.pop(), set()) - callees
            callees |= new
            queue += new
        return callees

    def _all_shared(self) -> Iterator[_SharedBody]:
        """Yield the shared bodies, including those that the expansion of earlier ones adds."""
        number = 0
        while number < len(self.shared):
            yield list(self.shared.values())[number]
            number += 1

    def _resolve(self, draft: _Draft) -> _Draft:
        if not draft.unresolved:
            return draft
        instruction = draft.instruction
        operands = list(instruction.operands)
        if instruction.opcode[0] == "bra":
            operands[0] = self._label(str(operands[0]), draft)
        else:
            name = str(operands[1])
            targets = draft.scope.find(name, "targets")
            if targets is None:
                raise UnsupportedPtxError(f"'{name}' must be the label of a .branchtargets list", instruction.line)
            operands[1] = Braces(tuple(self._label(target, draft) for target in targets))
        return _Draft(attrs.evolve(instruction, operands=tuple(operands)), draft.scope)

    def _label(self, name: str, draft: _Draft) -> str:
        if name in self.labels and "@" in name:
            return name  # the end of an expanded call
        label: str | None = draft.scope.find(name, "labels")
        if label is None:
            raise UnsupportedPtxError(f"'{draft.instruction.text}': undefined label '{name}'", draft.instruction.line)
        return label

    def _scope(self, parent: _Scope) -> _Scope:
        self.numbers += 1
        return _Scope(parent, f"@{self.numbers}")

    def _enter(self, scope: _Scope, at: int, leave: Callable[[], None] | None = None) -> None:
        """Begin a block at its brace."""
        self.c.at = at
        self.frames.append(_Frame(scope, self.c.expect("{"), self.source, leave))

    def _statements(self) -> None:
        """Parse statements up to the end of the current block, with all blocks and calls in it."""
        c = self.c
        depth = len(self.frames) - 1
        while len(self.frames) > depth:
            frame = self.frames[-1]
            scope, token = frame.scope, c.token
            if c.accept("}"):
                self.frames.pop()
                self.source = frame.source
                if frame.leave is not None:
                    frame.leave()
                continue
            if token.comment is not None and not self._takes_part(scope, token):
                self.source = token.comment
            if token.kind == "end":
                c.fail("this '{' is never closed", frame.opening.line)
            elif token.kind == "{":
                self._enter(self._scope(scope), c.at)
            elif token.kind == "@":
                self._guard(scope)
            elif token.kind == "word" and c.tokens[c.at + 1].kind == ":":
                self._label_here(scope)
            elif token.kind == "word" and token.text.startswith("."):
                self._directive(scope)
            elif token.kind == "word":
                self._instruction(scope, "", unless=False, start=token)
            else:
                c.fail(f"expected a statement, got '{token.text}'")
            if len(self.drafts) > MAX_INSTRUCTIONS:
                c.fail(f"the kernel must have at most {MAX_INSTRUCTIONS} instructions after the expansion of calls")

    def _takes_part(self, scope: _Scope, token: Token) -> bool:
        """Add an instruction for the comment of an exported copy; return True if the comment is one."""
        match = _PART.fullmatch(token.comment or "")
        register = match and scope.find(match[4])
        if match is None or register is None or self.registers.get(register) != 32:
            return False
        self._add(token.line, f"// {token.comment}", (TAKES_PART,), (*match.group(1, 2, 3), register), scope)
        return True

    def _add(
        self, line: int, text: str, opcode: tuple[str, ...], operands: tuple[Operand, ...], scope: _Scope, guard: str = "",
        *, unless: bool = False, **more: Any,
    ) -> None:  # fmt: skip
        """Add an instruction; the labels of a branch are resolved later."""
        place, is_branch = more.pop("place", self.place), opcode[0] in ("bra", "brx")
        draft = Instruction(line, text, opcode, operands, guard, unless, self.source, place=place, **more)
        self.drafts.append(_Draft(draft, scope, is_branch))

    def _label_here(self, scope: _Scope) -> None:
        c = self.c
        token = c.advance()
        c.expect(":")
        if c.token.text == ".branchtargets":
            c.at += 1
            self._claim(scope, token.text, token.line)
            targets = [c.word("a label")]
            while c.accept(","):
                targets.append(c.word("a label"))
            c.expect(";")
            scope.targets[token.text] = tuple(targets)
        elif c.token.text in (".callprototype", ".calltargets"):
            c.skip_past(";")
        else:
            self._claim(scope, token.text, token.line)
            scope.labels[token.text] = token.text + scope.suffix
            self.labels[token.text + scope.suffix] = len(self.drafts)

    def _directive(self, scope: _Scope) -> None:
        c = self.c
        token = c.advance()
        word = token.text
        if word == ".reg":
            self._declare_registers(scope)
        elif word in (".shared", ".local", ".global", ".const", ".param"):
            space = "local" if word == ".param" else word[1:]
            for variable in variable_declarations(c, space, extern=False):
                self._declare(scope, attrs.evolve(variable, name=variable.name + scope.suffix), variable.name, token)
                if word == ".param":
                    self.locals[variable.name + scope.suffix] = variable.bytes
        elif word == ".loc":
            directive = c.loc()
            if directive.function and not self.module.places.knows(directive.function):
                c.fail(f".section .debug_str must have the label '{directive.function}'", token.line)
            if directive.line:  # 0: merged code of several lines; the location before it is better
                self.place = self.module.places.loc(directive, self.caller)
        elif word == ".pragma":
            c.pragma(self.module.version)
        else:
            c.fail(f"the directive '{word}' is not supported in a function", token.line)

    def _claim(self, scope: _Scope, name: str, line: int) -> None:
        """Raise an error if a scope already has a name, as a label, register or variable."""
        declared = name in scope.names and not (scope.parent is None and name in self.module.variables)
        if declared or name in scope.labels or name in scope.targets:
            self.c.fail(f"'{name}' is declared twice", line)

    def _declare(self, scope: _Scope, variable: Variable, name: str, token: Token) -> None:
        self._claim(scope, name, token.line)
        scope.names[name] = variable.name
        self.variables.append(variable)

    def _declare_registers(self, scope: _Scope) -> None:
        c = self.c
        elements = c.elements()
        type = c.expect("word", "a type")
        if (type.text != ".b128" or elements > 1) and type.text[1:] not in DECLARABLE:
            c.fail(f"registers must not have the type '{type.text}'", type.line)
        c.demand_vector(type, elements)
        while True:
            name = c.name("a register's name")
            names = [name]
            if c.accept("<"):
                count = c.integer("a count of registers")
                if not 0 <= count <= MAX_INSTRUCTIONS:
                    c.fail(f"the number of registers must be from 0 to {MAX_INSTRUCTIONS}, got {count}", type.line)
                c.expect(">")
                names = [f"{name}{number}" for number in range(count)]
            for register in names:
                if register in scope.names:  # also a variable of the module, whose name the register would hide
                    c.fail(f"'{register}' is declared twice", type.line)
                self._claim(scope, register, type.line)
                self._name_register(scope, register, type.text[1:], elements)
            if not c.accept(","):
                break
        c.expect(";", "';' after the registers")

    def _name_register(self, scope: _Scope, name: str, type: str, elements: int = 1) -> None:
        """Declare the name of a register, of a vector of registers, or of the two for 128 bits."""
        unique = scope.names[name] = name + scope.suffix
        parts: tuple[str, ...] = (unique,)
        if type == "b128":
            type, parts = "b64", (f"{name}.low{scope.suffix}", f"{name}.high{scope.suffix}")
        elif elements > 1:
            parts = tuple(f"{name}.{letter}{scope.suffix}" for letter in "xyzw"[:elements])
            for letters in ("xyzw", "rgba"):
                scope.names.update({f"{name}.{letter}": part for letter, part in zip(letters, parts, strict=False)})
        self.registers.update(dict.fromkeys(parts, REGISTER_BITS[type]))
        self.register_types.update(dict.fromkeys(parts, type))
        if len(parts) > 1:
            self.parts[unique] = Braces(parts)

    def _guard(self, scope: _Scope) -> None:
        c = self.c
        start = c.advance()
        unless = c.accept("!")
        name = c.word("a predicate")
        guard = self._register(scope, name, start.line)
        if self.registers[guard] != 1:
            c.fail(f"the guard {name} must be a predicate, got a {self.registers[guard]}-bit register", start.line)
        if c.token.kind != "word" or c.token.text.startswith("."):
            c.fail(f"expected an instruction, got '{c.token.text}'")
        self._instruction(scope, guard, unless=unless, start=start)

    def _register(self, scope: _Scope, name: str, line: int) -> str:
        register: str | None = scope.find(name)
        if register is None or register not in self.registers:
            self.c.fail(f"the register '{name}' is not declared", line)
        return register

    def _instruction(self, scope: _Scope, guard: str, *, unless: bool, start: Token) -> None:
        c = self.c
        spelled = c.advance().text
        if self.module.declared_version <= (3, 1) and _MAD_WITHOUT_ROUNDING.fullmatch(spelled):
            spelled = spelled.replace("mad.", "mad.rn.", 1)
        opcode = tuple(spelled.split("."))
        if opcode[0] == "call":
            self._call(scope, opcode, guard, unless=unless, start=start)
            return
        operands: list[Operand] = []
        is_branch = opcode[0] in ("bra", "brx")
        while not c.accept(";"):
            if operands:
                c.expect(",", "',' or ';'")
            if opcode[0] in video.NAMES:
                operand, mark = self._part_of_register(scope)
                opcode += (f"{mark}@{len(operands)}",) if mark else ()
            else:
                operand = self._operand(scope, is_label=is_branch)
            operands.append(operand)
        text = " ".join(c.text[start.start : c.tokens[c.at - 1].start].split())
        self._check_form(opcode, operands, text, start.line)
        if opcode[0] == "brx":
            operands[0] = self._register(scope, str(operands[0]), start.line)
        if effect_of(opcode).kind in _PARTED_FROM_COPIES:
            self.source = ""
        if opcode[0] == "ret" and self.ends:
            opcode, operands = ("bra", *opcode[1:]), [self.ends[-1]]
        opcode = self._in_local_memory(opcode, operands)
        self._add(start.line, text, opcode, tuple(operands), scope, guard, unless=unless, spelled=spelled)

    def _check_form(self, opcode: tuple[str, ...], operands: list[Operand], text: str, line: int) -> None:
        if "" in opcode:
            self.c.fail(f"'{text}' must not have an empty modifier", line)
        if "tensor" not in opcode and any(isinstance(operand, TensorAddress) for operand in operands):
            self.c.fail(
                f"'{text}': textures and surfaces are not supported (only tensor copies have coordinates): index a pointer to the data",
                line,
            )
        if opcode[0] == "bra" and (len(operands) != 1 or not isinstance(operands[0], str)):
            self.c.fail(f"'{text}': bra must have one label", line)
        if opcode[0] == "brx" and (len(operands) != 2 or not all(isinstance(operand, str) for operand in operands)):
            self.c.fail(f"'{text}': brx.idx must have a register and a list of targets", line)

    def _in_local_memory(self, opcode: tuple[str, ...], operands: list[Operand]) -> tuple[str, ...]:
        """Return the opcode of ``ld.param`` or ``st.param``, with local memory for a function's own parameters."""
        spaces = ("param", "param::func", "param::entry")
        if effect_of(opcode).kind not in ("load", "store") or not any(part in spaces for part in opcode):
            return opcode
        address = next((operand for operand in operands if isinstance(operand, Memory)), None)
        if address is None:
            return opcode
        inside = address.base in self.locals or (bool(self.ends) and address.base in self.registers)
        return tuple(("local" if inside else "param") if part in spaces else part for part in opcode)

    def _operand(self, scope: _Scope, *, is_label: bool) -> Operand:
        c = self.c
        token = c.token
        if token.kind == "[":
            return self._address(scope)
        if token.kind == "{":
            return Braces(self._items(scope))
        if c.accept("!"):
            name = c.word("a predicate")
            register = self._register(scope, name, token.line)
            if self.registers[register] != 1:
                c.fail(f"{name} must be a predicate, got a {self.registers[register]}-bit register", token.line)
            return Negated(register)
        if token.kind == "word" and is_label:
            return c.advance().text
        first = self._item(scope)
        if first in self.parts:
            return self.parts[first]
        if c.accept("|"):
            second = self._item(scope)
            if first == second == "_":
                c.fail("at most one of the two results may be '_', got '_|_'", token.line)
            return Pair(first, second)
        if token.kind == "word" and c.accept("+"):
            return Offset(first, c.integer("an offset"))
        return first

    def _part_of_register(self, scope: _Scope) -> tuple[Operand, str]:
        """Parse an operand of a video instruction; return it with its sign and its part of the register."""
        c = self.c
        sign = "-" if c.token.kind == "-" and c.tokens[c.at + 1].kind == "word" else ""
        c.at += len(sign)
        name, _, part = c.token.text.rpartition(".")
        if c.token.kind != "word" or part not in video.PARTS or scope.find(name) is None:
            return self._operand(scope, is_label=False), sign
        return self._register(scope, name, c.advance().line), sign + part

    def _items(self, scope: _Scope) -> tuple[str, ...]:
        c = self.c
        c.expect("{")
        items = [self._item(scope)]
        while c.accept(","):
            items.append(self._item(scope))
        c.expect("}", "'}' or ','")
        return tuple(items)

    def _item(self, scope: _Scope) -> str:
        """Parse a register, a variable, a special register, a constant, or ``_``."""
        c = self.c
        token = c.token
        if token.kind in ("-", "number", "+"):
            return self._constant()
        name = c.word("an operand")
        if name == "_":
            return name
        if name == "WARP_SZ":
            return "32"
        symbol: str | None = scope.find(name)
        if symbol is not None:
            variable = self.module.variables.get(symbol)
            if variable is not None and variable.extern and variable.space != "shared":
                c.fail(f"the .extern variable '{name}' is not defined in this PTX text", token.line)
            return symbol
        if name in SPECIAL_REGISTERS:
            return name
        if name.startswith("."):
            c.fail(f"expected an operand, got '{name}'", token.line)
        if name in self.module.functions:
            return str(self.module.code_address(name))
        kind = "register" if name.startswith("%") else "register or variable"
        return c.fail(f"the {kind} '{name}' is not declared", token.line)

    def _constant(self) -> str:
        c = self.c
        negative = c.accept("-")
        if not negative:
            c.accept("+")
        token = c.expect("number", "a constant")
        text = token.text
        if text[:2] in ("0f", "0F", "0d", "0D") and len(text) in (10, 18):
            bits = int(text[2:], 16)
            if negative:
                bits ^= 1 << (31 if len(text) == 10 else 63)
            return f"0f{bits:08X}" if len(text) == 10 else f"0d{bits:016X}"
        if re.fullmatch(r"\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+", text):
            (bits,) = struct.unpack("<Q", struct.pack("<d", -float(text) if negative else float(text)))
            return f"0d{bits:016X}"
        value = whole_number(text)
        if value is None:
            c.fail(f"{text} is not a PTX number", token.line)
        return str(-value if negative else value)

    def _address(self, scope: _Scope) -> Memory | TensorAddress:
        c = self.c
        c.expect("[")
        if c.token.kind in ("number", "-"):
            base, offset = "", c.integer("an address")
        else:
            base = self._item(scope)
            if base == "_" or base in SPECIAL_REGISTERS:
                c.fail(f"expected an address, got '{base}'")
            offset = c.integer("an offset") if c.accept("+") else 0
        coordinates = self._items(scope) if c.accept(",") else ()
        c.expect("]", "']'")
        return TensorAddress(base, offset, coordinates) if coordinates else Memory(base, offset)

    def _call(self, scope: _Scope, opcode: tuple[str, ...], guard: str, *, unless: bool, start: Token) -> None:  # noqa: C901, PLR0912, PLR0915 (the steps of one call)
        c = self.c
        results = self._arguments(scope)
        if results:
            c.expect(",", "','")
        callee = c.expect("word", "a function")
        arguments: list[str] = []
        listed = False
        if c.accept(","):
            arguments = self._arguments(scope) if c.token.kind == "(" else []
            listed = c.token.kind == "word" or c.accept(",")  # the end of a call through a register
            if listed:
                c.word("the label of a prototype or of a list of functions")
        c.expect(";", "';' after a call")
        after = c.at
        text = " ".join(c.text[start.start : c.tokens[after - 1].start].split())
        name, place = callee.text, self.place
        if set(opcode[1:]) - {"uni"}:
            c.fail(f"'{text}' is not supported", start.line)
        function = self.module.functions.get(name)
        if function is None and name == "__assertfail" and len(arguments) != 5:
            self._add(start.line, text, ("trap",), (), scope, guard, unless=unless)
            return
        if function is None and name in SYSTEM_CALLS:
            operands = (*arguments, *results)
            if (len(arguments), len(results)) not in SYSTEM_CALLS[name] or not self.locals.keys() >= set(operands):
                c.fail(f"'{text}': the .param variables must match the parameters of {name}", start.line)
            places = tuple(Memory(variable, 0) for variable in operands)
            self._add(start.line, text, (name,), places, scope, guard, unless=unless)
            return
        pointer = scope.find(name) if function is None else None
        if function is None and (self.registers.get(pointer or "") != 64 or not listed):
            defines = f"the text must define the function '{readable(name) or name}'"
            undefined = f"{defines}: include the file that defines it"
            why = "a call through a register must have a prototype" if pointer else undefined
            c.fail(f"'{text}': {why}", start.line)
        if name in self.calls:
            c.fail(f"'{text}': recursive calls are not supported", start.line)
        if function is not None and not _takes(function, len(arguments), len(results)):
            c.fail(
                f"'{text}': {name} must have {len(function.parameters)} arguments and {len(function.results)} results, got {len(arguments)} and {len(results)}",
                start.line,
            )
        inner = self._scope(self.root)
        end, behind = f"end of call{inner.suffix}", f"behind call{inner.suffix}"

        def emit(opcode: tuple[str, ...], *operands: Operand, guard: str = "", unless: bool = False) -> None:
            self._add(start.line, text, opcode, operands, inner, guard, unless=unless, place=place)

        if guard:
            emit(("bra",), behind, guard=guard, unless=not unless)
        if function is None:
            self._call_pointer(str(pointer), results, arguments, emit, end)
            self.labels[behind] = len(self.drafts)
            return
        self.copies[name] += 1
        if self.copies[name] > MOST_COPIES:
            self._call_shared(function, results, arguments, emit, end)
            self.labels[behind] = len(self.drafts)
            c.at, self.place = after, place
            return
        returned = [self._bind(inner, *pair, emit, text) for pair in zip(function.results, results, strict=True)]
        for formal, actual in zip(function.parameters, arguments, strict=True):
            if self._bind(inner, formal, actual, emit, text):
                self._pass(formal, inner.names[formal.name], actual, emit)
        source, caller = self.source, self.caller

        def leave() -> None:
            c.at, self.source, self.place, self.caller = after, source, place, caller
            self.calls.popitem()
            self.ends.pop()
            self.labels[end] = len(self.drafts)
            for needed, formal, actual in zip(returned, function.results, results, strict=True):
                if needed:
                    self._pass(formal, actual, inner.names[formal.name], emit)
            self.labels[behind] = len(self.drafts)

        self.calls[name] = None
        self.ends.append(end)
        self.caller = place
        self._enter(inner, self.c.open_body(function.body), leave)

    def _call_pointer(
        self, pointer: str, results: list[str], arguments: list[str], emit: Callable[..., None], end: str
    ) -> None:
        """Expand a call through a register, which compares its address with that of each matching function."""
        sizes = [self.locals.get(operand, 0) for operand in (*arguments, *results)]
        other = f"other function@{end}"
        self.registers[other], self.register_types[other] = 1, "pred"
        for name, function in self.module.functions.items():
            formals = [formal.bytes for formal in (*function.parameters, *function.results)]
            if not _takes(function, len(arguments), len(results)) or formals != sizes or name in self.calls:
                continue
            emit(("setp", "ne", "u64"), other, pointer, str(self.module.code_address(name)))
            emit(("bra",), f"not {name}@{end}", guard=other)
            self._call_shared(function, results, arguments, emit, f"{name}@{end}")
            emit(("bra",), f"done@{end}")
            self.labels[f"not {name}@{end}"] = len(self.drafts)
        emit(("call",), pointer)
        self.labels[f"done@{end}"] = len(self.drafts)

    def _call_shared(
        self, function: Function, results: list[str], arguments: list[str], emit: Callable[..., None], end: str
    ) -> None:
        """Expand a call of a shared body: pass the arguments, branch there, and take the results."""
        for caller in self.calls:
            self.callees.setdefault(caller, set()).add(function.name)
        body = self.shared.get(function.name)
        if body is None:
            scope = self._scope(self.root)
            name = f"{function.name}{scope.suffix}"
            body = _SharedBody(function, scope, f"start of {name}", f"end of {name}", f"return of {name}", [])
            self.shared[function.name] = body
            self.registers[body.register], self.register_types[body.register] = 32, "b32"
            for formal in (*function.results, *function.parameters):
                self._bind(scope, formal, "", emit, function.name)
        for formal, actual in zip(function.parameters, arguments, strict=True):
            self._pass(formal, body.scope.names[formal.name], actual, emit)
        emit(("mov", "b32"), body.register, str(len(body.sites)))
        body.sites.append(f"return to{end}")
        emit(("bra",), body.start)
        self.labels[body.sites[-1]] = len(self.drafts)
        for formal, actual in zip(function.results, results, strict=True):
            self._pass(formal, actual, body.scope.names[formal.name], emit)

    def _expand_shared(self, body: _SharedBody) -> _Draft:
        """Expand a shared body, and return its branch back, whose targets are set after all calls."""
        function = body.function
        self.calls, self.ends, self.caller, self.source = {function.name: None}, [body.end], None, ""
        self.labels[body.start] = len(self.drafts)
        self._enter(body.scope, self.c.open_body(function.body))
        self._statements()
        self.labels[body.end] = len(self.drafts)
        draft = _Draft(Instruction(function.line, f"return from {function.name}", ("brx", "idx"), ()), body.scope)
        self.drafts.append(draft)
        return draft

    def _pass(self, formal: Parameter, to: str, source: str, emit: Callable[..., None]) -> None:
        """Move an argument to a formal, or a result to the operand of its call."""
        width = f"b{REGISTER_BITS[formal.type]}"
        if formal.space == "reg":
            sides = [self.parts[name].items if name in self.parts else (name,) for name in (to, source)]
            if {len(side) for side in sides} != {formal.elements}:
                what = f"the argument for {formal.name} must be {formal.elements} registers of .{formal.type}, but {len(sides[1])} are passed to {len(sides[0])}"
                self.c.fail(what)
            for pair in zip(*sides, strict=True):
                emit(("mov", width if formal.type != "pred" else "pred"), *pair)
        elif to in self.locals and source in self.locals:
            self._copy_local(formal, to, source, emit)
        elif to in self.locals:
            emit(("st", "local", width), Memory(to, 0), source)
        else:
            emit(("ld", "local", width), to, Memory(source, 0))

    def _copy_local(self, formal: Parameter, to: str, source: str, emit: Callable[..., None]) -> None:
        step = min(8, formal.align, formal.bytes & -formal.bytes)
        word = f"word of {step} bytes@"
        self.registers[word], self.register_types[word] = 8 * step, f"b{8 * step}"
        for at in range(0, formal.bytes, step):
            emit(("ld", "local", f"b{8 * step}"), word, Memory(source, at))
            emit(("st", "local", f"b{8 * step}"), Memory(to, at), word)

    def _arguments(self, scope: _Scope) -> list[str]:
        c = self.c
        arguments: list[str] = []
        if c.accept("("):
            while not c.accept(")"):
                if arguments:
                    c.expect(",", "',' or ')'")
                arguments.append(self._item(scope))
        return arguments

    def _bind(self, inner: _Scope, formal: Parameter, actual: str, emit: Callable[..., None], text: str) -> bool:
        """Bind a formal to an operand; return True if its value must be moved."""
        unique = formal.name + inner.suffix
        if formal.space == "reg":
            self._name_register(inner, formal.name, formal.type, formal.elements)
            return True
        if actual in self.locals:
            if self.locals[actual] < formal.bytes:
                self.c.fail(f"'{text}': {formal.name} takes {formal.bytes} bytes, {actual} holds {self.locals[actual]}")
            inner.names[formal.name] = actual
            return False
        inner.names[formal.name] = unique
        self.locals[unique] = formal.bytes
        self.variables.append(Variable(unique, "local", formal.align, formal.bytes))
        return True
