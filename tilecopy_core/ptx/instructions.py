"""The table of instructions: the target and PTX version that each instruction requires, and rules for operands.

``PtxBuilder.instr`` looks up every instruction here, emitted or inline, and so does the emulator. The requirements decide
the header's ``.version`` and ``.target``, and the rules for operands are the builder's checks. The forms of the opcodes
are in ``opcodes.txt``, whose first lines explain its notation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache, reduce
from pathlib import Path

from attrs import evolve

from ..description.target import MBARRIER_TX_LIMIT, Target, Version, target_of
from ..errors import PtxError, TargetError, short_repr
from ..errors.attrs_classes import frozen
from ..errors.lazy_regex import pattern
from .operands import Address, Register

__all__ = ["OpcodeForm", "Instruction", "Needs", "Place", "Role", "forms_of", "instruction_of", "opcode_words"]


@frozen
class Needs:
    """A frozen record of the target and PTX version that an instruction requires in a module's header.

    Attributes:
        arch: the lowest architecture.
        version: the lowest PTX ISA version.
        targets: if targets without a suffix do not have the instruction, those that do: ``sm_90a`` means only this target, ``sm_100f``
            also newer ones of its family with suffix a or f.
        known: whether the table has the instruction; a module with an unknown instruction keeps the requested target.
    """

    arch: int = 75
    version: Version = (6, 3)
    targets: tuple[str, ...] = ()
    known: bool = True

    def met_by(self, target: Target) -> bool:
        """Return whether a target has the instruction in some PTX ISA version."""
        if target.arch < self.arch:
            return False
        return not self.targets or any(target.is_or_follows(target_of(name)) for name in self.targets)

    def __str__(self) -> str:
        if not self.targets:
            return f"sm_{self.arch} or newer"
        names = [f"the family of {name[:-1]}" if name[-1] == "f" else name for name in self.targets]
        return f"a target with suffix a or f: {_either(names)}"


@frozen
class Number:
    """A frozen record of the rule for a numeric operand."""

    what: str
    low: int
    high: int
    multiple_of: int = 1
    one_of: tuple[int, ...] = ()

    def why_not(self, value: object, size: int) -> str | None:
        """Return a message if an operand's value breaks the rule, else None."""
        if isinstance(value, Register):
            return None
        allowed = self.one_of or range(self.low, self.high + 1, self.multiple_of)
        if isinstance(value, int) and not isinstance(value, bool) and int(value) in allowed:
            return None
        step = f", a multiple of {self.multiple_of}" if self.multiple_of > 1 else ""
        rule = f"one of {_either(self.one_of)}" if self.one_of else f"{self.low} to {self.high}{step}"
        return f"{self.what} must be {rule}, got {short_repr(value)}"


@frozen
class Place:
    """A frozen record of the rule for an address operand. An ``align_bytes`` of 0 means the size of the access."""

    what: str
    spaces: tuple[str, ...]
    align_bytes: int

    def why_not(self, value: object, size: int) -> str | None:
        """Return a message if an operand's value breaks the rule, else None."""
        if not isinstance(value, Address):
            return f"{self.what} must be an address, got {short_repr(value)}"
        if value.space not in self.spaces:
            return f"{self.what} must be in {_either(self.spaces)} memory, got {value} in {value.space} memory"
        needed = self.align_bytes or max(1, abs(size))
        if value.align_bytes % needed:
            return f"{self.what} {value} must be a multiple of {short_repr(needed)} bytes, but is only proved to be a multiple of {value.align_bytes} bytes"
        return None


def _either(values: Sequence[object]) -> str:
    return " or ".join(filter(None, (", ".join(map(str, values[:-1])), str(values[-1]))))


Operand = Number | Place | None


@frozen
class Role:
    """A frozen record of what an instruction does with an operand.

    Attributes:
        reads, writes: the registers of the operand; of an address, the memory there, while its registers are read.
        is_address: whether the operand stands in brackets.
        in_parentheses: whether it stands in parentheses or not at all, as what a ``call`` returns does.
        kind: ``size`` for the number of bytes that the instruction moves, ``mbarrier`` for the address of an mbarrier, ``prefetch`` for the
            address of what comes to a cache, else "".
        space: the state space of an address; "" for a generic one.
        nbytes: bytes of memory that each thread accesses at an address, where the type in the opcode says so; else 0.
    """

    reads: bool
    writes: bool
    is_address: bool
    in_parentheses: bool
    kind: str = ""
    space: str = ""
    nbytes: int = 0

    @classmethod
    def of(cls, text: str) -> Role:
        """Parse an operand's role from the instruction table: ``r`` is read, ``[w:shared]`` writes to shared memory.

        The ``nbytes`` of an address are 1 where the opcode says how many.
        """
        what, _, space = text.strip("[()]").partition(":")
        letter, kind = what[0], _KINDS.get(what[0], "")
        reads, writes = letter in "rxnb", letter in "wxb"
        is_typed = text[0] == "[" and what in ("r", "w", "x")
        return cls(reads, writes, text[0] == "[", text[0] == "(", kind, space, int(is_typed))


_KINDS = {"n": "size", "b": "mbarrier", "p": "prefetch"}
_STATE_SPACES = {space: space for space in ("global", "shared", "local", "param", "const", "shared::cluster")}
_STATE_SPACES |= {"shared::cta": "shared", "param::entry": "param", "param::func": "param"}
_ELEMENT = pattern(r"b?[usbf](\d+)(?:x(\d))?|e\dm\d(?:x(\d))?")
_VECTOR = pattern(r"v([248])")


@frozen
class Instruction:
    """A frozen record of an opcode: the target and PTX version that it requires, and the rules for its operands.

    Attributes:
        ways: what it needs; more than one where targets have it by different PTX ISA versions, older targets first.
        operands: rules of its first operands.
        varies: whether operands change what it needs.
        roles: what it does with its operands, the last for all that follow; () where the table does not have it.
    """

    ways: tuple[Needs, ...]
    operands: tuple[Operand, ...] = ()
    varies: bool = False
    roles: tuple[Role, ...] = ()

    @property
    def needs(self) -> Needs:
        """The requirements of the instruction for the oldest target that supports the instruction."""
        return self.ways[0]

    def needs_on(self, target: Target) -> Needs | None:
        """Return the requirements of the instruction for a target, or None if the target lacks the instruction."""
        return next((needs for needs in self.ways if needs.met_by(target)), None)

    def check(self, opcode: str, values: Sequence[object]) -> None:
        """Check the operands of an instruction. Raises :class:`PtxError` if an operand breaks a rule."""
        pairs = [(spec, value) for spec, value in zip(self.operands, values, strict=False) if spec is not None]
        size = next((v for spec, v in pairs if isinstance(spec, Number) and isinstance(v, int)), 1)
        for spec, value in pairs:
            if why := spec.why_not(value, size):
                raise PtxError(f"{opcode}: {why}")


_BARRIER = Place("the mbarrier", ("shared", "shared::cluster"), 8)
_OWN_BARRIER, _FAR_BARRIER = (Place("the mbarrier", (space,), 8) for space in _BARRIER.spaces)
_COLUMNS = Number("the number of tensor-memory columns", 32, 512, one_of=(32, 64, 128, 256, 512))
_BULK = Number("the size in bytes", 16, MBARRIER_TX_LIMIT, 16)
_LONG_BULK = Number("the size in bytes", 16, 2**32 - 16, 16)
_TX = Number("the byte count of one mbarrier phase", 1, MBARRIER_TX_LIMIT)
_GROUPS = Number("the number of groups", 0, 2**31 - 1)


def _to(*spaces: str, align_bytes: int = 16) -> Place:
    return Place("the destination", spaces, align_bytes)


def _from(space: str, align_bytes: int = 16) -> Place:
    return Place("the source", (space,), align_bytes)


_SIZE = Number("the size in bytes", 4, 16, one_of=(4, 8, 16))
_COPY = (_to("shared", align_bytes=0), _from("global", align_bytes=0), _SIZE)
_OPERANDS: dict[str, tuple[Operand, ...]] = {
    "bar.sync": (Number("the barrier", 0, 15), Number("the number of threads", 32, 1024, 32)),
    "cp.async.ca": _COPY,
    "cp.async.cg": _COPY,
    "cp.async.wait_group": (_GROUPS,),
    "cp.async.bulk.shared::cluster.shared::cta": (_to("shared::cluster"), _from("shared"), _BULK, _FAR_BARRIER),
    "cp.async.bulk.shared::cluster.global": (_to("shared", "shared::cluster"), _from("global"), _BULK, _BARRIER),
    "cp.async.bulk.shared::cta.global": (_to("shared"), _from("global"), _BULK, _OWN_BARRIER),
    "cp.async.bulk.global.shared::cta": (_to("global"), _from("shared"), _LONG_BULK),
    "cp.async.bulk.prefetch.L2.global": (_from("global"), _LONG_BULK),
    "cp.async.bulk.wait_group": (_GROUPS,),
    "mbarrier.init": (_OWN_BARRIER, Number("the arrival count of a phase", 1, 2**20 - 1)),
    "mbarrier.inval": (_OWN_BARRIER,),
    "mbarrier.arrive.expect_tx": (None, _BARRIER, _TX),
    "mbarrier.expect_tx": (_BARRIER, _TX),
    "mbarrier.complete_tx": (_BARRIER, _TX),
    "tcgen05.alloc": (Place("the holder", ("shared",), 4), _COLUMNS),
    "tcgen05.dealloc": (None, _COLUMNS),
    "tcgen05.commit": (_BARRIER,),
}
"""Start of an opcode -> its operands; the longest start counts."""

NEWEST: Version = (9, 0)
"""The requirements of an instruction that the table does not have: the newest PTX ISA version of the table."""

_UNKNOWN = (Needs(version=NEWEST, known=False),)

_MODIFIERS = (
    ("::cta", pattern(r"^(?!cp\.async\.c)\S*::cta\b"), Needs(75, (7, 8))),
    ("shared::cluster", pattern(r"^\S*\bshared::cluster\b"), Needs(90, (7, 8))),
    (".param::", pattern(r"^\S*\.param::"), Needs(75, (8, 3))),
    (".cluster", pattern(r"^(?!barrier)\S*\.cluster\b"), Needs(90, (7, 8))),
    (".L", pattern(r"^\S*\.L[12]::"), Needs(75, (7, 4))),
    (".L2::", pattern(r"^\S*\.L2::(cache_hint|256B)\b"), Needs(80, (7, 4))),
    (".b128", pattern(r"^\S*\.b128\b"), Needs(75, (8, 3))),
    ("cp.async.c", pattern(r"^cp\.async\.c[ag]\S*\s[^,]+,[^,]+,[^,]+, *(!|%?p\d*\b)"), Needs(80, (7, 5))),
    ("arrive", pattern(r"^mbarrier\.arrive\.\S*\s+_"), Needs(80, (7, 1))),
    ("arrive", pattern(r"^mbarrier\.arrive(?!\S*\.(noComplete|expect_tx)\b)\S*\s[^,]+,[^,]+,"), Needs(90, (7, 8))),
    (".f32", pattern(r"^(min|max)\S*\.f32\s([^,]+,){3}"), Needs(100, (8, 8))),
    ("cluster", pattern(r"\s.*%(cluster|is_explicit_cluster|nclusterid)"), Needs(90, (7, 8))),
    ("%aggr_smem_size", pattern(r"\s.*%aggr_smem_size"), Needs(90, (8, 1))),
    ("%reserved_smem_offset", pattern(r"\s.*%reserved_smem_offset"), Needs(80, (7, 6))),
    ("%current_graph_exec", pattern(r"\s.*%current_graph_exec"), Needs(75, (8, 0))),
)
"""Requirements of modifiers and operands, each with a substring for a fast search and the whole pattern."""

_VARYING = ("cp.async.c", "mbarrier.arrive", "min.", "max.")
"""Prefixes of opcodes whose operands are in :data:`_MODIFIERS`."""

_GROUP = pattern(r"(?:\{([^}]*)\}|\(([^)]*)\)|\.([\w:.]+))(\+?)")


@frozen
class OpcodeForm:
    """A frozen record of one form of an opcode: a fixed start, then groups of alternative parts. Some groups are optional."""

    start: str
    groups: tuple[tuple[tuple[str, ...], bool], ...]
    needs: Needs

    def matches(self, opcode: str) -> bool:
        """Return whether an opcode has this form."""
        rest = opcode.removeprefix(self.start)
        if rest == opcode and self.start:
            return False
        for choices, required in self.groups:
            start, end = _first_of(choices, rest)
            if required and not end:
                return False
            rest = rest[:start] + rest[end:]
        return not rest


def _first_of(choices: tuple[str, ...], text: str) -> tuple[int, int]:
    """Return where the first dot and choice begin and end that a text has as whole parts, or (0, 0)."""
    start = text.find(".")  # compiling a pattern for each group takes longer than all that a kernel looks up
    while start >= 0:
        for choice in choices if text.startswith(choices, start + 1) else ():
            end = start + 1 + len(choice)
            if text.startswith(choice, start + 1) and text[end : end + 1] in ("", "."):
                return start, end
        start = text.find(".", start + 1)
    return 0, 0


@cache
def _read_table() -> tuple[dict[str, str], dict[str, list[tuple[str, Needs]]], dict[str, tuple[Role, ...]]]:
    """Return the table: parts by list, forms with what they need by an opcode's first word, roles of operands by an opcode's start."""
    parts: dict[str, str] = {}
    forms: dict[str, list[tuple[str, Needs]]] = {}
    roles: dict[str, tuple[Role, ...]] = {}
    needs = Needs()
    path = str(Path(__file__).with_name("opcodes.txt"))
    try:  # by the module's loader, also from a zip file; `importlib.resources` takes a hundred times as long to import
        table = __loader__.get_data(path).decode()  # type: ignore[name-defined]
    except OSError as error:  # it was not installed, or not bundled into a frozen program
        raise PtxError(f"tilecopy-core is incomplete: {error}; reinstall it or bundle its data files") from error
    for line in table.splitlines():
        first, *rest = line.split() or ["#"]
        if first[0] == "$":
            parts[first[1:]] = rest[0]
        elif line.startswith(" "):
            for text in (first, *rest):
                for form in _each(text) if text[0] == "[" else (text,):  # the rest of a form is read when it is needed
                    forms.setdefault(_WORD.match(form)[0], []).append((form, needs))  # type: ignore[index]
        elif first == ">":
            at = rest.index(":")
            row = tuple(map(Role.of, rest[:at]))
            roles |= {start: row for text in rest[at + 1 :] for start in _each(text)}
        elif first[0] != "#":
            major, minor = map(int, first.split("."))
            targets = [target_of(name) for name in rest]
            needs = Needs(min(t.arch for t in targets), (major, minor), tuple(rest) if targets[0].suffix else ())
    return parts, forms, roles


def _each(text: str) -> Iterator[str]:
    """Return the forms that a text with ``[a|b]`` stands for."""
    before, bracket, rest = text.partition("[")
    if not bracket:
        yield text
        return
    texts, _, after = rest.partition("]")
    for chosen in texts.split("|"):
        yield from _each(before + chosen + after)


_WORD = pattern(r"\w+")
_START = pattern(r"[\w:.$]+")


def opcode_words() -> Collection[str]:
    """Return the names of all instructions in the table: the opcodes without modifiers."""
    return _read_table()[1].keys()


@cache
def forms_of(word: str) -> tuple[OpcodeForm, ...]:
    """Return the forms of the instruction named ``word``. Forms for the oldest targets come first."""
    parts, forms, _ = _read_table()
    opcode_forms = []
    for written, needs in ((form, needs) for text, needs in forms.get(word, ()) for form in _each(text)):
        text = re.sub(r"\$(\w+)", lambda name: parts[name[1]], written)
        start: str = _START.match(text)[0]  # type: ignore[index]
        groups, beside = [], [""]
        for optional, required, literal, joined in _GROUP.findall(text.removeprefix(start)):
            beside = [f"{one}.{part}" for one in beside for part in (optional or required or literal).split(",")]
            if not joined:
                groups.append((tuple(one[1:] for one in beside), not optional))
                beside = [""]
        opcode_forms.append(OpcodeForm(start, tuple(groups), needs))
    return tuple(sorted(opcode_forms, key=lambda form: (bool(form.needs.targets), form.needs.arch, form.needs.version)))


@lru_cache(maxsize=1 << 12)
def instruction_of(text: str) -> Instruction:
    """Return the table's record of an instruction, given its opcode or its whole text without guard."""
    opcode = text.split(None, 1)[0] if text.strip() else ""
    ways = tuple(form.needs for form in forms_of(opcode.split(".")[0]) if form.matches(opcode)) or _UNKNOWN
    for part, modifier, more in _MODIFIERS:
        if part in text and modifier.search(text):
            ways = tuple(merge(needs, more) for needs in ways)
    starts = [start for start in _OPERANDS if f"{opcode}.".startswith(f"{start}.")]
    varies = opcode.startswith(_VARYING)
    roles = _roles_of(opcode) if ways[0].known else ()
    return Instruction(ways, _OPERANDS[max(starts, key=len)] if starts else (), varies, roles)


def _roles_of(opcode: str) -> tuple[Role, ...]:
    """Return the roles of an opcode's operands: the row of its longest prefix, with the opcode's state spaces and widths."""
    roles, parts = _read_table()[2], opcode.split(".")
    starts = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    row: tuple[Role, ...] = next((roles[start] for start in starts if start in roles), ())
    if not any(role.is_address for role in row):
        return row
    spaces, nbytes = iter([_STATE_SPACES[part] for part in parts if part in _STATE_SPACES]), _accessed_bytes(parts)
    return tuple(
        evolve(role, space=next(spaces, role.space), nbytes=role.nbytes * nbytes) if role.is_address else role
        for role in row
    )


def _accessed_bytes(parts: Sequence[str]) -> int:
    """Return the bytes of the last type in an opcode times the elements of its vector, or 0 without a type."""
    element = next(filter(None, map(_ELEMENT.fullmatch, reversed(parts))), None)
    vector = next(filter(None, map(_VECTOR.fullmatch, parts)), None)
    if element is None:
        return 0
    bits, count, narrow_count = element.groups()
    return int(bits or 8) * int(count or narrow_count or 1) // 8 * int(vector[1] if vector else 1)


def merge(left: Needs, right: Needs) -> Needs:
    """Return the combined requirements of two instructions for a target that supports both instructions."""
    return Needs(
        max(left.arch, right.arch),
        max(left.version, right.version),
        left.targets + tuple(name for name in right.targets if name not in left.targets),
        left.known and right.known,
    )


@lru_cache(maxsize=1 << 14)
def needs_on(target: Target, instruction: str) -> Needs:
    """Return the requirements of an instruction for a target. Raises TargetError if the target does not support it."""
    table_row = instruction_of(instruction)
    needs = table_row.needs_on(target)
    if needs is None:
        raise TargetError(f"'{instruction}' needs {table_row.needs}, but the target is {target}")
    return needs


@lru_cache(maxsize=256)
def needs_together(instructions: frozenset[str], target: Target) -> Needs:
    """Return the combined requirements of several instructions for a target that supports all of these instructions."""
    return reduce(merge, {needs_on(target, instruction) for instruction in instructions}, Needs())
