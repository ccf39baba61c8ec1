"""What goes, and when: names, parameters, fields and hook contracts that work for one minor release more, with a warning.

Each use says ``goes_in="0.3"``, the first release without it, as a literal: tests/test_deprecation.py reads the sources and
fails from that version on, so that nobody has to remember.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from types import MappingProxyType
from typing import Any

import attrs

from .errors import RequestError
from .once import LOCK

_NOT_THE_CALLER = ("tilecopy_core", "pluggy", "importlib")


class TilecopyDeprecationWarning(DeprecationWarning):
    """A name, parameter, field or hook contract of tilecopy is used that a later release does not have."""


@attrs.frozen
class Moved:
    """Where a name went.

    Attributes:
        new: in full, such as ``"tilecopy_core.plugin.Register"``.
        goes_in: the first release that lacks the old one.
    """

    new: str
    goes_in: str = attrs.field(kw_only=True)


@attrs.frozen
class Older:
    """An older version of a contract that this core still loads.

    Attributes:
        adapt: makes a plugin of this core's contract of one of the older.
        goes_in: the first release that does not.
    """

    adapt: Callable[[Any], Any]
    goes_in: str = attrs.field(kw_only=True)


OLDER: Mapping[str, Older] = {}
"""By entry-point group, such as ``"tilecopy.variants.v1"`` once the core's is v2."""


def warn_outside(message: str | Warning, category: type[Warning], where: str = "") -> None:
    """Warn at the first caller outside this package, or at ``where``, a ``file:line`` of the user's program."""
    if where:
        file, _, line = where.rpartition(":")
        warnings.warn_explicit(message, category, file, int(line))
        return
    frame = sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _NOT_THE_CALLER:
        frame = frame.f_back
    seen = frame.f_globals.setdefault("__warningregistry__", {})
    name = str(frame.f_globals.get("__name__", "<unknown>"))
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, name, seen)


def going(old: str, new: str, *, goes_in: str) -> TilecopyDeprecationWarning:
    """The warning that says what goes, what takes its place, and when; a hook's specification takes it in ``warn_on_impl_args``."""
    return TilecopyDeprecationWarning(f"{old} is deprecated and goes in tilecopy {goes_in}; use {new}")


def moved_names(
    module: str, names: Mapping[str, Moved], later: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package or module whose names moved or were renamed.

    Args:
        module: its name.
        names: by old name, where each is now.
        later: names of a package that live in its modules and are imported when they are first asked for, to keep the
            package's own import short.
    """

    def look_up(name: str) -> Any:
        if name in later:
            with LOCK:
                return getattr(import_module(f".{later[name]}", module), name)
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = names[name]
        warn_outside(going(f"{module}.{name}", found.new, goes_in=found.goes_in), TilecopyDeprecationWarning)
        where, _, new = found.new.rpartition(".")
        return getattr(import_module(where), new)

    return look_up


def renamed(old: str, new: str, *, goes_in: str) -> Callable[[Any], Any]:
    """A function with a parameter, or a record with a field, that had another name: the outermost decorator.

    The old name is taken as a keyword, and read as an attribute of the record. Both at once are a RequestError.
    """

    def decorate(what: Any) -> Any:
        where = what.__qualname__.removesuffix(".__init__")
        warning = going(f"{old} of {where}", new, goes_in=goes_in)

        if isinstance(what, type):

            def read(record: Any) -> Any:
                warn_outside(warning, TilecopyDeprecationWarning)
                return getattr(record, new)

            record_type: Any = what
            record_type.__init__ = decorate(record_type.__init__)
            setattr(record_type, old, property(read))
            return record_type

        @wraps(what)
        def door(*arguments: Any, **keywords: Any) -> Any:
            if old in keywords:
                if new in keywords:
                    raise RequestError(f"{where}: {old} is the old name of {new}; give {new} alone")
                warn_outside(warning, TilecopyDeprecationWarning)
                keywords[new] = keywords.pop(old)
            return what(*arguments, **keywords)

        return door

    return decorate
