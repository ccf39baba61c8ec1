"""The parser from PTX text to a :class:`..program.Program`.

A module is parsed once: variables, and the positions of entries and functions. The chosen entry is then expanded
(:mod:`.inline`). Source: PTX ISA, sections 4 and 5.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod

import attrs

from tilecopy_core import TARGETS, Target, target_of

from ..argument_checks import demand
from ..program import DECLARABLE, REGISTER_BITS, Parameter, Program, UnsupportedPtxError, Variable
from .cursor import Cursor
from .inline import LINKAGE, Definitions, Expansion, Function
from .variables import variable_declarations

_NEWEST_MINORS = {1: 5, 2: 3, 3: 2, 4: 3, 5: 0, 6: 5, 7: 8, 8: 8, 9: 9}
"""The last minor number of each major version of PTX, except for the newest one."""
_UNTABLED = {f"sm_{n}" for n in (10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 82, 88, 101)}
"""Targets that are not in the table of instructions; they run as the nearest older target there, or as the oldest."""
_OF_CLUSTERS = (".explicitcluster", ".reqnctapercluster", ".maxclusterrank", ".blocksareclusters")
_OF_ENTRIES = {".reqntid": 3, ".maxntid": 3, ".reqnctapercluster": 3, ".maxnreg": 1, ".minnctapersm": 1}
_OF_ENTRIES |= {".maxclusterrank": 1, ".explicitcluster": 0, ".blocksareclusters": 0}
_OF_FUNCTIONS = {".noreturn": 0, ".abi_preserve": 1}
"""Directives of an entry or of a function -> the largest number of their values."""
_VERSIONS = {**dict.fromkeys(_OF_CLUSTERS, (7, 8)), ".blocksareclusters": (9, 0), ".abi_preserve": (9, 0)}
_CONFLICTS = ((".reqntid", ".maxntid"), (".reqnctapercluster", ".maxclusterrank"))


class ModuleParser(Definitions):
    """The parser of a PTX module. :meth:`program` expands one entry of the module."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._cursor = Cursor(text)
        self.arch = 0
        self._prototypes: dict[str, int] = {}
        self._read()

    def _read(self) -> None:
        c = self._cursor
        self._header()
        while c.token.kind != "end":
            if c.token.kind == "@":
                c.skip_line()  # @@DWARF
            elif c.token.kind == "}":
                c.fail("this '}' does not match a '{'")
            else:
                self._module_statement(c.word("a directive"))
        if not self.entries:
            raise UnsupportedPtxError("the text must have an .entry")
        for name, line in self._prototypes.items():
            if name not in self.functions:
                c.fail(f"the function '{name}' must be defined or .extern", line)

    def _header(self) -> None:
        """Parse ``.version``, ``.target`` and optionally ``.address_size``, in this order and once."""
        c = self._cursor
        line = self._directive(".version")
        version = c.expect("number", "a version").text
        major, _, minor = version.partition(".")
        is_plain = minor.isdigit() and f"{int(major)}.{int(minor)}" == version
        if not is_plain or int(minor) > _NEWEST_MINORS.get(int(major), -1):
            c.fail(f"the PTX version {version} is not supported", line)
        self.version = self.declared_version = int(major), int(minor)
        self.target = self._target(self._directive(".target"))
        if c.token.text == ".address_size":
            line = self._directive(".address_size")
            if c.integer("32 or 64") != 64:
                c.fail("the .address_size must be 64", line)
        least = self.target.ptx_version
        if self.arch < self.target.arch:  # older than the table of instructions
            self.version = max(self.version, least)
        if self.version < least:
            wanted, have = ("{}.{}".format(*version) for version in (least, self.version))
            raise UnsupportedPtxError(f"the .version must be {wanted} or newer for target {self.target}, got {have}")

    def _directive(self, word: str) -> int:
        """Consume a directive of the header, and return its line."""
        c = self._cursor
        line = c.token.line
        if c.token.text != word:
            c.fail(f"expected {word}, got '{c.token.text}': PTX text must begin with .version and .target")
        c.advance()
        return line

    def _module_statement(self, word: str) -> None:
        c = self._cursor
        line = c.tokens[c.at - 1].line
        linkage = ""
        if word in LINKAGE:
            linkage, word = word, c.word("what is declared")
        if word == ".file":
            self._file(line)
        elif word == ".section":
            name, start = c.word("a section's name"), c.token.start
            c.skip_braces()
            if name == ".debug_str":
                self.places.strings(c.text[start : c.tokens[c.at - 1].end])
        elif word == ".pragma":
            c.pragma(self.version)
        elif word == ".alias":
            names = [c.word("a function")]
            c.expect(",")
            names.append(c.word("a function"))
            c.expect(";")
            if not all(name in self.functions or name in self._prototypes for name in names):
                c.fail(f"both names of .alias must be functions of the PTX text, got {' and '.join(names)}", line)
            self._prototypes.pop(names[0], None)
        elif word == ".entry":
            self._function(entry=True, extern=linkage == ".extern")
        elif word == ".func":
            self._function(entry=False, extern=linkage == ".extern")
        elif word in (".global", ".const", ".shared"):
            for variable in variable_declarations(c, word[1:], extern=linkage == ".extern"):
                self._declare(variable, line)
        else:
            c.fail(f"the directive '{word}' is not allowed here", line)

    def _file(self, line: int) -> None:
        """Parse ``.file number "name"``, optionally with a time and a size."""
        c = self._cursor
        number, name = c.unsigned("the number of a file"), c.expect("string", "a file's name").text[1:-1]
        for _ in range(2):
            if c.accept(","):
                c.unsigned("a time or a size")
        if not self.places.file(number, name):
            c.fail(f"each .file must have a different number, got {number} twice", line)

    def _declare(self, variable: Variable, line: int) -> None:
        c, name = self._cursor, variable.name
        before = self.variables.get(name)
        if (before is not None and not before.extern) or name in self.functions or name in self.entries:
            c.fail(f"'{name}' is declared twice", line)
        for relocation in variable.relocations:
            known = relocation.symbol in self.variables or relocation.symbol in {*self._prototypes, *self.functions}
            if not known:
                c.fail(
                    f"the initial value '{relocation.symbol}' must be a variable or function that is declared above",
                    line,
                )
        self.variables[name] = variable

    def _target(self, line: int) -> Target:
        c = self._cursor
        name, *modes = [c.word("a target")]
        while c.accept(","):
            modes.append(c.word("an option after the target, such as debug"))
        match = re.fullmatch(r"sm_(\d+)[af]?", name, re.ASCII)
        if match is None or (name not in TARGETS and name not in _UNTABLED):
            c.fail(f"the target '{name}' is not supported", line)
        for mode in modes:
            if mode not in ("debug", "texmode_unified", "texmode_independent", "map_f64_to_f32"):
                c.fail(f"the .target option '{mode}' is not supported", line)
        self.arch = int(match[1])
        older = [TARGETS[0], *(known for known in TARGETS if known[3:].isdigit() and int(known[3:]) <= self.arch)]
        return target_of(name if name in TARGETS else older[-1])

    def _function(self, *, entry: bool, extern: bool) -> None:
        c = self._cursor
        line = c.token.line
        results: tuple[Parameter, ...] = ()
        while c.token.text == ".attribute":
            c.at += 1
            c.skip_past(")")
        if not entry and c.token.kind == "(":
            results = self._formals(entry=False)
            if len(results) > 1 and any(formal.space == "param" for formal in results):
                c.fail("the results of a function with several results must be .reg, got .param", line)
        name = c.name("a name")
        parameters = self._formals(entry=entry) if c.token.kind == "(" else ()
        attributes = self._attributes(entry=entry)
        if c.accept(";"):
            if not extern:
                self._prototypes.setdefault(name, line)
            return
        if extern:
            c.fail(f"the .extern function '{name}' must not have a body", line)
        if any(name in names for names in (self.entries, self.functions, self.variables)):
            c.fail(f"'{name}' is defined twice", line)
        table = self.entries if entry else self.functions
        table[name] = Function(name, line, results, parameters, c.at, attributes)
        c.skip_braces()

    def _attributes(self, *, entry: bool) -> dict[str, tuple[int, ...]]:
        """Parse the directives between a function's parameters and its body."""
        c = self._cursor
        line, attributes = c.token.line, dict[str, tuple[int, ...]]()
        while c.token.kind not in ("{", ";"):
            attribute = c.word("'{' or a directive of the function")
            if attribute in _OF_ENTRIES or attribute in _OF_FUNCTIONS:
                least = _VERSIONS.get(attribute, (0, 0))
                if (attribute in _OF_ENTRIES) != entry:
                    c.fail(f"'{attribute}' is not allowed for {'an entry' if entry else 'a function'}")
                if self.version < least or (attribute in _OF_CLUSTERS and self.arch < 90):
                    have = "{}.{}".format(*self.version)
                    wanted = ("sm_90 and " if attribute in _OF_CLUSTERS else "") + ".version {}.{}".format(*least)
                    c.fail(f"'{attribute}' requires {wanted}, but the text is for sm_{self.arch}, .version {have}")
                attributes[attribute] = self._sizes(attribute)
            elif attribute == ".pragma":
                c.pragma(self.version)
            elif attribute == ".loc":
                c.loc()
            else:
                c.fail(f"the directive '{attribute}' is not supported")
        for first, second in _CONFLICTS:
            if first in attributes and second in attributes:
                c.fail(f"{first} and {second} must not be used together", line)
        for needed in (".reqntid", ".reqnctapercluster") if ".blocksareclusters" in attributes else ():
            if needed not in attributes:
                c.fail(f".blocksareclusters needs {needed}", line)
        return attributes

    def _sizes(self, attribute: str) -> tuple[int, ...]:
        """Parse the numbers of a directive of a function; extents are padded with ones."""
        c = self._cursor
        most = {**_OF_ENTRIES, **_OF_FUNCTIONS}[attribute]
        sizes = [c.unsigned(f"a size of {attribute}")] if most else []
        while len(sizes) < most and c.accept(","):
            sizes.append(c.unsigned(f"a size of {attribute}"))
        if sizes and min(sizes) < 1:
            c.fail(f"the sizes of {attribute} must be at least 1, got {min(sizes)}")
        return (*sizes, *(1,) * (most - len(sizes)))

    def _formals(self, *, entry: bool) -> tuple[Parameter, ...]:
        c = self._cursor
        c.expect("(")
        parameters: dict[str, Parameter] = {}
        while not c.accept(")"):
            if parameters:
                c.expect(",", "',' or ')'")
            formal = self._formal(entry=entry)
            if formal.name in parameters:
                c.fail(f"the parameter {formal.name} is declared twice")
            parameters[formal.name] = formal
        return tuple(parameters.values())

    def _formal(self, *, entry: bool) -> Parameter:
        """Parse ``.param .align 8 .b8 name[16]``, ``.param .u64 .ptr .global .align 16 name`` or ``.reg .u32 name``."""
        c = self._cursor
        space = c.word("a parameter")
        if space not in (".param", ".reg") or (entry and space == ".reg"):
            c.fail(f"expected .param{'' if entry else ' or .reg'}, got '{space}'")
        align, elements, first = self._alignment(), c.elements() if space == ".reg" else 1, c.token
        type = c.word("a type")[1:] if first.text.startswith(".") else ""
        if type not in DECLARABLE or (space == ".param" and type in ("pred", "f16x2")):
            c.fail(f"a parameter must not have the type '.{type}'" if type else "a parameter must have a type")
        c.demand_vector(first, elements)
        align = self._alignment() or align
        if space == ".param" and c.token.text == ".ptr":
            c.at += 1
            if c.token.text in (".global", ".shared", ".const", ".local", ".param", ".generic"):
                c.at += 1
            self._alignment()
        name = c.name("a parameter's name")
        size, is_array = max(1, REGISTER_BITS[type] // 8), False
        if c.accept("["):
            is_array = True
            count = 0 if c.token.kind == "]" else c.integer("a count of elements")
            if count < 0 or (entry and not count):
                c.fail(f"the number of elements of parameter {name} must be positive, got {count}")
            size *= count
            c.expect("]")
        align = max(align if is_array else 0, REGISTER_BITS[type] // 8, 1)
        return Parameter(name, type, size, align, 0, is_array, space[1:], elements)

    def _alignment(self) -> int:
        c = self._cursor
        if c.token.text != ".align":
            return 0
        c.at += 1
        return c.alignment()

    def program(self, entry: str | None) -> Program:
        """Return the program of an entry."""
        if entry is None:
            if len(self.entries) > 1:
                raise UnsupportedPtxError(f"the text has several entries: choose one of {', '.join(self.entries)}")
            entry = next(iter(self.entries))
        if entry not in self.entries:
            raise UnsupportedPtxError(f"the text has no entry '{entry}'; its entries are {', '.join(self.entries)}")
        chosen = self.entries[entry]
        parameters, offset = [], 0
        for formal in chosen.parameters:
            offset = -(-offset // formal.align) * formal.align
            parameters.append(attrs.evolve(formal, offset=offset))
            offset += formal.bytes
        most = 32764 if self.version >= (8, 1) else 4352
        if offset > most:
            raise UnsupportedPtxError(
                f"the parameters of {chosen.name} must have at most {most} bytes at .version {'{}.{}'.format(*self.version)}, got {offset}"
            )
        body = Expansion(self, self._cursor)
        body.expand_entry(chosen)
        block, bound = chosen.attributes.get(".reqntid"), chosen.attributes.get(".maxntid")
        cluster = chosen.attributes.get(".reqnctapercluster")
        instructions = tuple(draft.instruction for draft in body.drafts)
        variables = (*map(self._with_functions, self.variables.values()), *body.variables)
        return Program(
            chosen.name, self.arch, instructions, body.labels, body.registers, tuple(parameters), variables,
            prod(block) if block else 0, (block[0], block[1], block[2]) if block else None, prod(bound) if bound else 0,
            (cluster[0], cluster[1], cluster[2]) if cluster else None, self.target, self.version, body.register_types,
        )  # fmt: skip

    def _with_functions(self, variable: Variable) -> Variable:
        """Return a variable whose initial value has addresses in place of the names of functions."""
        relocations = (
            attrs.evolve(relocation, symbol="", offset=relocation.offset + self.code_address(relocation.symbol))
            if relocation.symbol in self.functions
            else relocation
            for relocation in variable.relocations
        )
        return attrs.evolve(variable, relocations=tuple(relocations)) if variable.relocations else variable


def parse(text: str, entry: str | None = None) -> Program:
    """Parse a PTX module, and return the program of one entry.

    ``text``: of the module; ``entry``: name of the kernel; optional if there is only one.
    """
    demand("parse", "text", text, isinstance(text, str), "the text of a PTX module", UnsupportedPtxError)
    fits = entry is None or isinstance(entry, str)
    demand("parse", "entry", entry, fits, "the name of a kernel, or None", UnsupportedPtxError)
    if not text.isascii():
        at = next(at for at, character in enumerate(text) if not character.isascii())
        raise UnsupportedPtxError(f"the text must be ASCII, got '{text[at]}'", text.count("\n", 0, at) + 1)
    return _parse(str(text), entry)


@lru_cache(maxsize=32)
def parse_compiled(text: str, entry: str | None, file: str, source: str) -> Program:
    """Parse PTX that a compiler generated. ``source`` is the text of ``file``. The file itself need not exist."""
    return attrs.evolve(_parse(text, entry), sources={file: source})


@lru_cache(maxsize=32)
def _parse(text: str, entry: str | None) -> Program:
    return ModuleParser(text).program(entry)
