"""Run a program without what Windows does not have: `python tests/tools/windows_names.py PROGRAM [ARGUMENT ...]`.

Names and modules of POSIX are gone, files are opened in cp1252 where no encoding is given, and a file that this process has open cannot
be replaced or deleted. The libraries below tilecopy are imported first, since they are those of this system. What real Windows
does with consoles, processes and drivers is not shown.
"""

from __future__ import annotations

import asyncio
import builtins
import io
import multiprocessing
import os
import pathlib
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any

import attrs
import click
import hypothesis
import msgspec
import numpy as np
import pluggy
import rich.console
import rich.table

LIBRARIES = (
    asyncio,
    attrs,
    click,
    hypothesis,
    msgspec,
    multiprocessing,
    np,
    pluggy,
    rich,
    shutil,
    subprocess,
    tempfile,
)
MODULES = ("fcntl", "grp", "posix", "pwd", "resource", "syslog", "termios", "tty")
OS = """O_NONBLOCK O_CLOEXEC O_DIRECTORY O_NOFOLLOW chown fchdir fchmod fchown fork forkpty getegid geteuid getgid getgroups
getpgid getpgrp getuid killpg lchown major minor mkfifo mknod nice pathconf posix_fadvise posix_fallocate posix_spawn pread preadv pwrite
register_at_fork sched_getaffinity sched_yield setsid sysconf uname wait waitid WNOHANG""".split()
SIGNALS = "SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 setitimer alarm pthread_sigmask".split()


def is_open(path: Any) -> bool:
    """Return whether this process has a file open or mapped."""
    real = os.path.realpath(path)
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    opened = {os.path.realpath(link) for link in links if os.path.lexists(link)}
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return real in opened or any(line.rstrip().endswith(real) for line in maps)


def refusing(function: Any, which: int) -> Any:
    """Return a function of ``os`` that refuses if the file of one of its arguments is open."""

    def checked(*arguments: Any, **options: Any) -> Any:
        for path in arguments[: which + 1]:
            if os.path.isfile(path) and is_open(path):
                raise PermissionError(
                    13, "The process cannot access the file because it is being used by another process"
                )
        return function(*arguments, **options)

    return checked


def become_windows() -> None:
    """Change this process; what it starts is not changed."""
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in ((os, OS), (signal, SIGNALS)):
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    os.replace, os.unlink = refusing(os.replace, 1), refusing(os.unlink, 0)
    os.remove = os.unlink
    real_open = io.open

    def in_cp1252(
        file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, *more: Any, **options: Any
    ) -> Any:
        if "b" not in mode and encoding is None:
            encoding = "cp1252"
        return real_open(file, mode, buffering, encoding, *more, **options)

    builtins.open = io.open = in_cp1252  # type: ignore[assignment]
    sys.stdout.reconfigure(encoding="cp1252", newline="\r\n")  # type: ignore[union-attr]
    sys.stderr.reconfigure(encoding="cp1252", newline="\r\n")  # type: ignore[union-attr]
    sys.platform = "win32"


if __name__ == "__main__":
    program, sys.argv = sys.argv[1], sys.argv[1:]
    pathlib.Path.cwd()
    become_windows()
    runpy.run_path(program, run_name="__main__")
