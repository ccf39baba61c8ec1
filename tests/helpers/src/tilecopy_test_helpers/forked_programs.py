"""Python programs that begin in a process which has imported modules already: a fork takes a tenth of the time of a new process.

A program has its own arguments, environment, folder and standard streams, and loads plugins itself. Tests of the start or the
streams of a process start a real one.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SERVER = r"""
import importlib, json, os, signal, sys, warnings

for name in sys.argv[1:]:
    importlib.import_module(name)
while True:
    line = sys.stdin.buffer.readline()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy has threads, which a fork does not need
        if not line or (child := os.fork()) == 0:
            break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
if line:
    task = json.loads(line)
    signal.alarm(300)
    os.chdir(task["folder"])
    for number, (path, mode) in enumerate(zip(task["streams"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
        opened = os.open(path, mode)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(task["environment"])
    sys.argv[1:] = task["arguments"]
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    importlib.invalidate_caches()
    exec(compile(task["code"], "<string>", "exec"), {"__name__": "__main__"})
"""


@cache
def _server(modules: tuple[str, ...]) -> subprocess.Popen[str]:
    """Start a process that has imported some modules; it ends with this one."""
    started = subprocess.Popen(
        [sys.executable, "-c", SERVER, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(started.communicate)
    return started


def run_program(
    code: str,
    *arguments: object,
    modules: tuple[str, ...] = ("numpy",),
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program as ``python -c`` does, and return its status and what it wrote.

    Args:
        code: the program.
        arguments: its arguments.
        modules: modules that are imported before. Importing them has no effect that a test looks at.
        environment: its environment, by default that of this process.
        folder: its current folder, by default that of this process.
    """
    command, words = [sys.executable, "-c", code], [str(argument) for argument in arguments]
    environment, where = dict(os.environ if environment is None else environment), str(folder or Path.cwd())
    if sys.platform != "linux":
        return subprocess.run(
            [*command, *words], env=environment, cwd=where, capture_output=True, text=True, timeout=300, check=False
        )
    with tempfile.NamedTemporaryFile() as output, tempfile.NamedTemporaryFile() as errors:
        streams = [os.devnull, output.name, errors.name]
        task = {"code": code, "arguments": words, "environment": environment, "folder": where, "streams": streams}
        server = _server(modules)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(task) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        texts = [stream.read().decode() for stream in (output, errors)]
    return subprocess.CompletedProcess([*command, *words], status, *texts)
