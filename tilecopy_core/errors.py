"""The errors that tilecopy raises: one class for each kind of mistake.

Every message says what was asked, which operand it is about, the value found and the rule that it breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class TilecopyError(Exception):
    """Root of every error that tilecopy raises on purpose."""


class LayoutError(TilecopyError, ValueError):
    """A layout, buffer or region is malformed, or two of them do not fit together."""


class RequestError(TilecopyError, ValueError):
    """A copy, or an argument of a builder call, is not meaningful whatever variant would lower it."""


class TargetError(TilecopyError, ValueError):
    """A target is unknown, or what was asked needs a newer architecture."""


class PtxError(TilecopyError, ValueError):
    """An instruction that the PTX builder refuses: operands, widths or alignment do not match the ISA."""


class PluginError(TilecopyError, RuntimeError):
    """A plugin is broken (and was asked for by name), or two plugins claim one name."""


class LaunchError(TilecopyError, RuntimeError):
    """A kernel could not be loaded or launched: arguments, device, driver or JIT."""


class AssemblerError(TilecopyError, RuntimeError):
    """An assembler (nvJitLink or ptxas) is missing or refused the PTX; the message holds its log."""


class CacheError(TilecopyError, RuntimeError):
    """The disk cache of built modules cannot be cleared, or its folder cannot be used."""


class HazardError(TilecopyError, RuntimeError):
    """The emulator saw an execution that the hardware leaves undefined.

    Attributes:
        kind: short name of the rule that was broken, such as ``"poison"`` or ``"race"``.
        line: 1-based line of the PTX text, or 0 when no single line is at fault.
        threads: the threads that it is about, in words; the one that executes the line first.
        bytes: first and last byte of the access that is at fault, from the start of its memory, or None.
        cause: what is behind it where that can be told, such as ``"scope"`` or the state of a barrier.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        line: int = 0,
        threads: tuple[str, ...] = (),
        bytes: tuple[int, int] | None = None,
        cause: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.line = line
        self.threads = threads
        self.bytes = bytes
        self.cause = cause


class NoVariantError(TilecopyError, LookupError):
    """No installed variant can lower a copy.

    Attributes:
        declined: for each variant that was asked (or set aside), why it does not do this copy.
    """

    def __init__(self, message: str, declined: Mapping[str, str]) -> None:
        super().__init__(message)
        self.declined = dict(declined)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.declined)


class UnknownOptionError(RequestError, NoVariantError):
    """A copy has an option that no installed variant of its op takes, so that none of them lowers it."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """``"; did you mean float16?"`` for a name that is close to a known one, else nothing."""
    from difflib import get_close_matches  # no import of the package should wait for it

    by_folded = {each.lower(): each for each in known}
    found = get_close_matches(name.lower()[:100], by_folded, 1, 0.5) if isinstance(name, str) else []
    return f"; did you mean {by_folded[found[0]]}?" if found else ""
