"""Standard streams and signals: only results go to standard output, and a signal ends the program without a traceback."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from .file_errors import FileError


class Stopped(KeyboardInterrupt):  # handlers of errors in plugins do not catch it
    """Raised when a signal stops the program, so that open files are closed before the program ends."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


def open_standard_streams() -> None:
    """Open the null device for each closed standard stream, so that no other file gets the stream's file descriptor."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one


@contextmanager
def stop_signals() -> Iterator[None]:
    """Raise :class:`Stopped` on SIGINT, SIGTERM or SIGHUP. A signal that the process already ignores stays ignored."""

    def stop(number: int, _: FrameType | None) -> NoReturn:
        raise Stopped(number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        heeded = [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]
        before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_by(number: int) -> NoReturn:
    """End the process by a signal, so that a shell reports the status 128 plus the signal's number.

    On Windows the status is always 128 + number, because `os.kill` would exit with the number alone, which other errors
    use, too.
    """
    if sys.platform != "win32":
        with suppress(ValueError):  # another thread than the main one
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    raise SystemExit(128 + number)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print each warning on one line, without the line of source code."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        say(f"tilecopy: {category.__name__}: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Redirect standard output to standard error while plugins and the programs that they start run."""
    kept = None
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def emit(text: str) -> None:
    """Write a result to standard output, and flush it."""
    if sys.stdout is None:
        raise FileError("cannot write the result: standard output is closed")
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def say(text: str) -> None:
    """Write a message with escaped control characters to standard error, if standard error is open."""
    safe = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    if sys.stderr is not None:  # which print would take for standard output
        with suppress(OSError, ValueError):
            print(safe, file=sys.stderr, flush=True)


def flush_output(stream: TextIO | None) -> bool:
    """Flush a stream. Return True on success. On failure, drop its buffer, so that Python prints no error at exit."""
    if stream is None:
        return True
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError), Path(os.devnull).open("wb") as null:
            os.dup2(null.fileno(), stream.fileno())
        return False
    return True
