"""Standard streams and signals: only results reach standard output, and no end prints a traceback."""

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

from .errors import FileError


class Stopped(KeyboardInterrupt):  # which goes through what guards us from plugins
    """A signal asked the program to end; open files are closed on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


def open_standard_streams() -> None:
    """Give a closed stream's number to the null device, or the next file opened would get it, and what is printed there."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one


@contextmanager
def stop_signals() -> Iterator[None]:
    """Raise :class:`Stopped` on SIGINT, SIGTERM and, where the system has it, SIGHUP, unless they are ignored (nohup)."""

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
    """End as the signal would have ended it, so that shells and make see what happened (status 128 + number).

    On Windows, `os.kill` ends the process with the signal's number as its status, which other errors have too: there
    the status is 128 + number.
    """
    if sys.platform != "win32":
        with suppress(ValueError):  # another thread than the main one
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    raise SystemExit(128 + number)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print warnings, such as of a plugin that was set aside, as one line without source text."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        say(f"tilecopy: {category.__name__}: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Send what plugins print, or the programs and libraries that they call, to standard error."""
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
    """Write a result to standard output, now.

    Raises:
        FileError: it is closed.
        OSError: it is full, or its reader has gone.
    """
    if sys.stdout is None:
        raise FileError("standard output is closed")
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def say(text: str) -> None:
    """Write a message to standard error, if anyone can read it; control characters come escaped."""
    safe = "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
    if sys.stderr is not None:  # which print would take for standard output
        with suppress(OSError, ValueError):
            print(safe, file=sys.stderr, flush=True)


def flush_output(stream: TextIO | None) -> bool:
    """Return True if a stream could be flushed; if not, its buffer is dropped, or Python would complain at its end."""
    if stream is None:
        return True
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError), Path(os.devnull).open("wb") as null:
            os.dup2(null.fileno(), stream.fileno())
        return False
    return True
