"""From PTX text to a :class:`..program.Program`.

A module is read once: variables, and the extents of entries and functions. The chosen entry is then expanded
(:mod:`.expansion`). Source: PTX ISA, sections 4 and 5.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod

import attrs

from tilecopy_core import TARGETS, Target, target_of

from ..demands import demand
from ..program import REGISTER_BITS, Parameter, Program, UnsupportedPtxError
from .cursor import Cursor
from .expansion import LINE_DIRECTIVES, LINKAGE, Definitions, Expansion, Formal, Function
from .lexer import tokens
from .variables import variable_declarations

_OF_CLUSTERS = (".explicitcluster", ".reqnctapercluster", ".maxclusterrank", ".blocksareclusters")
_IGNORED_ATTRIBUTES = (".maxnreg", ".minnctapersm", ".maxnctapersm", ".maxclusterrank", ".abi_preserve")


class ModuleParser(Definitions):
    """Reads a module; :meth:`program` expands one entry of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        found = list(tokens(text))
        self._cursor = Cursor(found, text)
        self.arch = 0
        self.target: Target | None = None
        self.version = (0, 0)
        self._read()

    # ----------------------------------------------------------------------------------------- the module

    def _read(self) -> None:
        c = self._cursor
        while c.token.kind != "end":
            if c.token.kind == ";":
                c.at += 1
            elif c.token.kind == "@":
                c.skip_line()  # @@DWARF
            elif c.token.kind == "}":
                c.fail("this '}' closes nothing")
            else:
                self._module_statement(c.word("a directive"))
        if not self.entries:
            raise UnsupportedPtxError("the text has no .entry")
        if self.target is None:
            raise UnsupportedPtxError("the text has no .target")
        least = self.target.ptx_version
        if self.arch < self.target.arch:  # older than what the table of instructions begins with
            self.version = max(self.version, least)
        if self.version < least:
            found = "{}.{}".format(*self.version) if any(self.version) else "none"
            wanted = "{}.{}".format(*least)
            raise UnsupportedPtxError(
                f"the target {self.target} needs .version {wanted} or newer; the text has {found}"
            )

    def _module_statement(self, word: str) -> None:
        c = self._cursor
        line = c.tokens[c.at - 1].line
        linkage = []
        while word in LINKAGE:
            linkage.append(word)
            word = c.word("what is declared")
        if word == ".version":
            version = c.expect("number", "a version").text
            if not re.fullmatch(r"\d+\.\d+", version):
                c.fail(f"{version} is not a version of PTX", line)
            major, minor = version.split(".")
            self.version = int(major), int(minor)
        elif word == ".target":
            self._target(line)
        elif word == ".address_size":
            if c.integer("32 or 64") != 64:
                c.fail("only .address_size 64 is known", line)
        elif word in LINE_DIRECTIVES:
            c.at -= 1
            self.places.file(c.skip_line())
        elif word == ".section":
            name, start = c.word("a section's name"), c.token.start
            c.skip_braces()
            if name == ".debug_str":
                self.places.strings(c.text[start : c.tokens[c.at - 1].end])
        elif word in (".pragma", ".alias"):
            c.skip_past(";")
        elif word == ".entry":
            self._function(entry=True)
        elif word == ".func":
            self._function(entry=False)
        elif word in (".global", ".const", ".shared", ".local"):
            for variable in variable_declarations(c, word[1:], extern=".extern" in linkage):
                known = self.variables.get(variable.name)
                if known is not None and not (known.extern or variable.extern):
                    c.fail(f"the variable {variable.name} is declared twice", line)
                if known is None or known.extern:
                    self.variables[variable.name] = variable
        else:
            c.fail(f"the directive '{word}' is not known", line)

    def _target(self, line: int) -> None:
        c = self._cursor
        names = [c.word("a target")]
        while c.accept(","):
            names.append(c.word("a target"))
        for name in names:
            match = re.fullmatch(r"sm_(\d+)([af]?)", name)
            if match:
                self.arch = int(match[1])
                older = [
                    TARGETS[0],
                    *(known for known in TARGETS if known[3:].isdigit() and int(known[3:]) <= self.arch),
                ]
                if match[2] and name not in TARGETS:
                    c.fail(f"the target '{name}' is not known", line)
                self.target = target_of(name if name in TARGETS else older[-1])
            elif name not in ("debug", "texmode_unified", "texmode_independent", "map_f64_to_f32"):
                c.fail(f"the target '{name}' is not known", line)

    def _function(self, *, entry: bool) -> None:
        c = self._cursor
        line = c.token.line
        results: tuple[Formal, ...] = ()
        while c.token.text == ".attribute":
            c.at += 1
            c.skip_past(")")
        if not entry and c.token.kind == "(":
            results = self._formals()
        name = c.word("a name")
        parameters = self._formals() if c.token.kind == "(" else ()
        attributes: dict[str, tuple[int, ...]] = {}
        while c.token.kind not in ("{", ";"):
            attribute = c.word("'{' or a directive of the function")
            if attribute in _OF_CLUSTERS and (self.arch < 90 or self.version < (7, 8)):
                have = "{}.{}".format(*self.version)
                c.fail(f"'{attribute}' needs sm_90 and .version 7.8; the text is for sm_{self.arch}, .version {have}")
            if attribute == ".pragma":
                c.skip_past(";")
            elif attribute in (".reqntid", ".maxntid", ".reqnctapercluster"):
                attributes[attribute] = self._extent(attribute)
            elif attribute in _IGNORED_ATTRIBUTES:
                c.integer(f"the number of {attribute}")
            elif attribute in LINE_DIRECTIVES:
                c.at -= 1
                c.skip_line()
            elif attribute not in (".noreturn", ".explicitcluster", ".blocksareclusters", ".unified"):
                c.fail(f"the directive '{attribute}' is not known")
        if c.accept(";"):
            return  # a prototype
        table = self.entries if entry else self.functions
        if name in self.entries or name in self.functions:
            c.fail(f"'{name}' is defined twice", line)
        table[name] = Function(name, line, results, parameters, c.at, attributes)
        c.skip_braces()

    def _extent(self, what: str) -> tuple[int, ...]:
        c = self._cursor
        sizes = [c.integer(f"a size of {what}")]
        while c.accept(","):
            sizes.append(c.integer(f"a size of {what}"))
        if len(sizes) > 3 or min(sizes) < 1:
            c.fail(f"{what} takes one to three positive sizes")
        return (*sizes, *(1,) * (3 - len(sizes)))

    def _formals(self) -> tuple[Formal, ...]:
        c = self._cursor
        c.expect("(")
        found: list[Formal] = []
        while not c.accept(")"):
            if found:
                c.expect(",", "',' or ')'")
            found.append(self._formal())
        return tuple(found)

    def _formal(self) -> Formal:
        c = self._cursor
        space = c.word("a parameter")
        if space not in (".param", ".reg"):
            c.fail(f"'{space}' stands where .param or .reg should")
        align, type = 0, ""
        while c.token.kind == "word" and c.token.text.startswith("."):
            word = c.advance().text[1:]
            if word == "align":
                align = c.integer("an alignment")
            elif word in REGISTER_BITS:
                type = word
            elif word not in ("ptr", "global", "shared", "const", "local"):
                c.fail(f"the type '.{word}' of a parameter is not known")
        name = c.word("a parameter's name")
        if not type:
            c.fail(f"the parameter {name} has no type")
        size, is_array = max(1, REGISTER_BITS[type] // 8), False
        if c.accept("["):
            is_array = True
            count = 0 if c.token.kind == "]" else c.integer("a count of elements")
            size *= count
            c.expect("]")
        return Formal(name, space[1:], type, size, max(align if is_array else 0, REGISTER_BITS[type] // 8, 1), is_array)

    # ----------------------------------------------------------------------------------------- an entry

    def program(self, entry: str | None) -> Program:
        """Expand an entry."""
        if entry is None:
            if len(self.entries) > 1:
                raise UnsupportedPtxError(f"the text has several entries, name one: {', '.join(self.entries)}")
            entry = next(iter(self.entries))
        if entry not in self.entries:
            raise UnsupportedPtxError(f"the text has no entry '{entry}'; it has: {', '.join(self.entries)}")
        assert self.target is not None
        chosen = self.entries[entry]
        parameters, offset = [], 0
        for formal in chosen.parameters:
            offset = -(-offset // formal.align) * formal.align
            parameters.append(Parameter(formal.name, formal.type, formal.bytes, formal.align, offset, formal.is_array))
            offset += formal.bytes
        body = Expansion(self, self._cursor)
        body.expand_entry(chosen)
        block, most = chosen.attributes.get(".reqntid"), chosen.attributes.get(".maxntid")
        cluster = chosen.attributes.get(".reqnctapercluster")
        return Program(
            chosen.name,
            self.arch,
            tuple(draft.instruction for draft in body.drafts),
            body.labels,
            body.registers,
            tuple(parameters),
            (*self.variables.values(), *body.variables),
            prod(block) if block else 0,
            (block[0], block[1], block[2]) if block else None,
            prod(most) if most else 0,
            (cluster[0], cluster[1], cluster[2]) if cluster else None,
            self.target,
            self.version,
        )


def parse(text: str, entry: str | None = None) -> Program:
    """Parse a module and take one of its entries.

    Args:
        text: of the module.
        entry: name of the kernel; may be left out where there is only one.

    Raises:
        UnsupportedPtxError: the text is not PTX or has something that is not known; the message names the line.
    """
    demand("parse", "text", text, isinstance(text, str), "the text of a PTX module", UnsupportedPtxError)
    fits = entry is None or isinstance(entry, str)
    demand("parse", "entry", entry, fits, "the name of a kernel, or None", UnsupportedPtxError)
    return _parsed(str(text), entry)


@lru_cache(maxsize=32)
def parse_compiled(text: str, entry: str | None, file: str, source: str) -> Program:
    """As :func:`parse`, of what a compiler made of a source, under a file name that need not exist."""
    return attrs.evolve(_parsed(text, entry), sources={file: source})


@lru_cache(maxsize=32)
def _parsed(text: str, entry: str | None) -> Program:
    return ModuleParser(text).program(entry)
