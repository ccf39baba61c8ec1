"""Types of command-line options: choices with suggestions, tiles, fill values and paths."""

from __future__ import annotations

import cmath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from tilecopy_core.errors import did_you_mean

MAX_SHARED_ELEMS = 227 * 1024
"""The bytes of the largest shared memory of any GPU; a row of a tile cannot have more elements."""

_MOST_DIGITS = 200
"""The longest text of a number, far more digits than the precision of any dtype."""


class Choice(click.ParamType):  # type: ignore[type-arg]
    """An option type: one of a list of names. A name may have aliases."""

    def __init__(self, what: str, names: Iterable[str], aliases: Mapping[str, str] | None = None) -> None:
        self.name = what
        self.names = tuple(names)
        self.aliases = aliases or {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name. For an unknown name, fail with a message that lists all names and suggests one."""
        value = self.aliases.get(value, value)
        if value in self.names:
            return str(value)
        near = did_you_mean(str(value), self.names)
        return self.fail(f"the value must be one of {', '.join(self.names)}, got {value!r}{near}", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        """Return the names as the help shows them. Return None for six or more names, so that click shows the type."""
        return f"[{'|'.join(self.names)}]" if len(self.names) < 6 else None


class Tile(click.ParamType):  # type: ignore[type-arg]
    """An option type: the shape of a tile, written as ``ROWSxCOLUMNS``."""

    name = "rowsxcolumns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return the number of rows and the number of columns. Each is from 1 to 2**31 - 1."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"([0-9]{1,10})x([0-9]{1,10})", value)
        rows, columns = (int(match[1]), int(match[2])) if match else (0, 0)
        if not (0 < rows < 2**31 and 0 < columns < 2**31):
            self.fail(
                f"the tile must be ROWSxCOLUMNS such as 128x64, each from 1 to 2**31 - 1, got {value!r}", param, ctx
            )
        return rows, columns


class Fill(click.ParamType):  # type: ignore[type-arg]
    """An option type: a value of ``outside=``. The value is ``zero``, ``keep`` or a number."""

    name = "zero|keep|number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | int | float | complex:
        """Return ``zero``, ``keep``, or the number as Python parses it: ``1`` as an int, ``-0.0`` with its sign."""
        if value in ("zero", "keep") or not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        for kind in (int, float, complex) if len(value) <= _MOST_DIGITS else ():
            try:
                number = kind(value)
            except ValueError:
                continue
            if not cmath.isinf(number) or "inf" in value.lower():  # 1e999 does not mean infinity
                return number
        near = did_you_mean(value, ("zero", "keep"))
        return self.fail(
            f"the value must be zero, keep or a number such as -1.5, inf or 1+2j, got {value!r}{near}", param, ctx
        )


class FilePath(click.ParamType):  # type: ignore[type-arg]
    """An option type: a file name."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path. Fail if the path is empty or ends in a slash."""
        if isinstance(value, Path):
            return value
        if not value or value.endswith("/") or "\0" in value:
            self.fail(f"the value must be the name of a file, got {value!r}", param, ctx)
        return Path(value)
