"""Errors of a kernel's assembly and launch, and hazards that the emulator finds."""

from __future__ import annotations

from typing import Any

from tilecopy_core import TilecopyError


class LaunchError(TilecopyError, RuntimeError):
    """Raised when a kernel cannot be loaded or launched, because of its arguments, the device, the driver or the JIT compiler."""


class AssemblerError(TilecopyError, RuntimeError):
    """Raised when an assembler or compiler (nvJitLink, ptxas, NVRTC) is missing or rejects its input. The message contains the log."""


class HazardError(TilecopyError, RuntimeError):
    """Raised when the emulator finds a hazard: an execution whose result the hardware does not define.

    Attributes:
        kind: the short name of the broken rule, such as ``"poison"`` or ``"race"``.
        line: 1-based line of the PTX text, or 0 when no single line is at fault.
        threads: descriptions of the threads involved; the first is the one that executes the line.
        bytes: the first and last byte of the faulty access, counted from the start of its memory, or None.
        cause: the cause if it is known, such as ``"scope"`` or the state of a barrier.
        details: more facts as JSON values: the accesses, and what would order them.
        others: if all hazards were requested, those of the run with other causes, in the order in which they were found.
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
