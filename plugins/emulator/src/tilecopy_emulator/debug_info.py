"""Source locations of instructions, from the ``.file`` and ``.loc`` directives of compilers.

Source: PTX ISA, section 11.5 (debugging directives).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs

_BYTES = re.compile(r"\.b8\s+[0-9\s,]+")
_MANGLED = re.compile(r"_Z(N[rVKRO]*)?(?=L?\d)")
_PART = re.compile(r"L?(\d{1,4})")
_IN_TEMPLATE = re.compile(r"L[a-z]n?\d+E|Ul|[ST][0-9A-Z]*_|\d+|.")
_LIBRARY = re.compile(
    r"[\\/](?:(?:site|dist)-packages|cuda(?:-[\d.]+)?[\\/](?:.*[\\/])?include|cuda[\\/]std|tilecopy_emulator|cccl|libcudacxx|cub|thrust|cooperative_groups|usr[\\/]include)[\\/]"
)
"""A directory of headers that the author of a kernel did not write."""
_FOLDER = re.compile(r".*[\\/]include[\\/]")
_UNNAMED = ("_GLOBAL__N", "_INTERNAL_")
"""The beginnings of the names that compilers give to unnamed namespaces, and to the namespace of a file's static functions."""
_LOCAL = re.compile(r"_ZZ.*E([1-9][0-9]{0,2})([A-Za-z_]\w*)")
_BYTE = frozenset(map(str, range(256)))
_MOST_BYTES, _MOST_CHARACTERS, _MOST_CALLERS = 1 << 24, 200, 100
"""The largest number of bytes of a source file, of characters of a line, and of callers of a location."""


@attrs.frozen
class SourceLocation:
    """A location in a source file.

    ``file``: its name, as the compiler wrote it; ``line``: from 1; ``column``: from 1, or 0 if it is not known;
    ``function``: the mangled name of the function that was inlined there, or ""; ``caller``: the location where that
    function was inlined or called, or None.
    """

    file: str
    line: int
    column: int = 0
    function: str = ""
    caller: SourceLocation | None = None

    def chain(self) -> list[SourceLocation]:
        """Return this location, then the locations of the callers, innermost first."""
        places = [self]
        while (caller := places[-1].caller) is not None:
            places.append(caller)
        return places

    @property
    def in_library(self) -> bool:
        """True if the location is in a header of the CUDA toolkit or of an installed package."""
        return _LIBRARY.search(self.file) is not None and not self.file.endswith(".cu")

    def outside_libraries(self) -> SourceLocation:
        """Return the innermost location outside library headers, or this location if there is no such location."""
        return next((place for place in self.chain() if not place.in_library), self)

    @property
    def shown_file(self) -> str:
        """The path of the file, relative to the current directory if the file is in that directory."""
        try:
            return str(Path(self.file).relative_to(Path.cwd()))
        except (ValueError, OSError):  # it is outside, or the directory was deleted
            return self.file

    def text(self, sources: Mapping[str, str]) -> str:
        """Return the source line from ``sources`` or from the file. Return "" if the file cannot be read."""
        whole = sources.get(self.file)
        if whole is None:
            path = Path(self.file)
            try:
                if not path.is_file() or path.stat().st_size > _MOST_BYTES:
                    return ""
                whole = path.read_text(encoding="utf-8", errors="replace")
            except (OSError, ValueError):
                return ""
        lines = whole.split("\n", self.line)
        line = lines[self.line - 1].strip() if 1 <= self.line <= len(lines) else ""
        return "".join(character if character.isprintable() else "?" for character in line[:_MOST_CHARACTERS])

    def lines(self, sources: Mapping[str, str]) -> list[str]:
        """Return message lines: the innermost location outside library headers, then the locations of the callers."""
        chain = self.chain()
        first = chain.index(self.outside_libraries())
        lines = []
        for number, place in enumerate(chain[first:]):
            header = f" (in {_FOLDER.sub('', self.file)}:{self.line})" if first and not number else ""
            name, text = readable(place.function), place.text(sources)
            where = f"{place.shown_file}:{place.line}{name and ' in '}{name}{header}{text and ': '}{text}"
            lines.append(f"    inlined at {where}" if number else f"  at {where}")
        return lines


@attrs.frozen
class LineDirective:
    """A directive ``.loc file line column``, optionally with ``function_name label + offset`` and ``inlined_at``."""

    file: int
    line: int
    column: int
    function: str = ""
    offset: int = 0
    inlined_at: tuple[int, int, int] | None = None


class LineTable:
    """The source locations that the ``.file`` and ``.loc`` directives of a module declare."""

    def __init__(self) -> None:
        self._files: dict[int, str] = {}
        self._names: dict[str, bytes] = {}
        self._seen: dict[tuple[int, int, int], SourceLocation] = {}

    def file(self, number: int, name: str) -> bool:
        """Add a ``.file`` directive. Return False if an earlier directive has the same file number."""
        return self._files.setdefault(number, name) is name

    def strings(self, text: str) -> None:
        """Add the function names that the body of ``.section .debug_str`` contains."""
        label = ""
        for line in text.split("\n"):
            name, colon, rest = line.rpartition(":")
            if colon:
                label = name.strip()
                self._names.setdefault(label, b"")
            if _BYTES.fullmatch(rest.strip()):
                name_bytes = bytes(int(number) for number in rest.strip()[3:].split(",") if number.strip() in _BYTE)
                self._names[label] = self._names.get(label, b"") + name_bytes

    def knows(self, label: str) -> bool:
        """Return True if ``.section .debug_str`` declares a given label."""
        return label in self._names

    def loc(self, line: LineDirective, caller: SourceLocation | None) -> SourceLocation | None:
        """Return the location of a ``.loc``, or None if the ``.file`` is missing. ``caller``: location of the call."""
        file = self._files.get(line.file)
        if file is None:
            return None
        if outer := line.inlined_at:
            caller = self._seen.get(outer) or SourceLocation(self._files.get(outer[0], file), *outer[1:], "", caller)
        caller = None if caller is not None and len(caller.chain()) >= _MOST_CALLERS else caller
        name = self._names.get(line.function, b"")[line.offset :].partition(b"\0")[0]
        place = SourceLocation(file, line.line, line.column, name.decode("utf-8", "replace"), caller)
        self._seen[line.file, line.line, line.column] = place
        return place


def readable(name: str) -> str:
    """Return the C++ name of a function or variable with a mangled name, or "" if the mangled name is not supported."""
    if local := _LOCAL.fullmatch(name):
        return local[2][: int(local[1])] if len(local[2]) >= int(local[1]) else ""
    start = _MANGLED.match(name)
    if start is None:
        return "" if name.startswith("_Z") else name
    parts: list[str] = []
    at = start.end()
    while (length := _PART.match(name, at)) and (start[1] or not parts):
        at = length.end() + int(length[1])
        parts.append(name[length.end() : at])
        at = _after_template(name, at)
    if start[1] and name[at : at + 1] != "E":
        return ""
    return "::".join(part for part in parts if not part.startswith(_UNNAMED))


def _after_template(name: str, at: int) -> int:
    """Return the position after the template arguments of a mangled name, if it has any at a position."""
    depth = 0
    while at < len(name) and (depth or name[at] == "I"):
        token = _IN_TEMPLATE.match(name, at)
        assert token is not None
        at = token.end() + (int(token[0]) if token[0].isdigit() else 0)
        depth += (token[0] in ("I", "N", "J", "X", "Z", "Ul")) - (token[0] == "E")
    return at
