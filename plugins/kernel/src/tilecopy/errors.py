"""The errors of running kernels: launches, assemblers, and what the emulator finds."""

from __future__ import annotations

from typing import Any

from tilecopy_core import TilecopyError


class LaunchError(TilecopyError, RuntimeError):
    """A kernel could not be loaded or launched: arguments, device, driver or JIT."""


class AssemblerError(TilecopyError, RuntimeError):
    """An assembler or compiler (nvJitLink, ptxas, NVRTC) is missing or refused its text; the message holds its log."""


class HazardError(TilecopyError, RuntimeError):
    """The emulator saw an execution that the hardware leaves undefined.

    Attributes:
        kind: short name of the rule that was broken, such as ``"poison"`` or ``"race"``.
        line: 1-based line of the PTX text, or 0 when no single line is at fault.
        threads: the threads that it is about, in words; the one that executes the line first.
        bytes: first and last byte of the access that is at fault, from the start of its memory, or None.
        cause: what is behind it, if that is known, such as ``"scope"`` or the state of a barrier.
        details: what else the emulator says of it, as JSON has it: its accesses and what would order them.
        others: the run's hazards with other causes, in the order in which they were found, if all were asked for.
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
        self.details: dict[str, Any] = {}
        self.others: tuple[HazardError, ...] = ()
