"""Records the PTX that the emulator takes while the suites run, where ``TILECOPY_EMULATED_TEXTS`` names a folder (``nox -s tests``)."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MARKER = "refused_by_assemblers"


def record(config: pytest.Config) -> None:
    """Register the marker, and record where it is asked for."""
    config.addinivalue_line("markers", f"{MARKER}: emulates a text that an assembler refuses, on purpose")
    if folder := os.environ.get("TILECOPY_EMULATED_TEXTS"):
        config.pluginmanager.register(Recorder(Path(folder)))


class Recorder:
    """Writes each text that the emulator compiles to a file of the folder, named by its digest and its target."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.recording = folder, True
        self.texts: deque[tuple[Any, str]] = deque(maxlen=256)
        self.names: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Stand between the emulator's reader, its table of instructions, and those who call them."""
        from tilecopy_emulator import run
        from tilecopy_emulator.opcodes.operands import hold
        from tilecopy_emulator.parser import module as parser

        read, compile_steps = parser._parse, run.compile_program

        def reading(text: str, entry: str | None) -> Any:
            program = read(text, entry)
            self.texts.append((program.instructions, text))
            return program

        def compiling(program: Any) -> Any:
            compiled = compile_steps(program)
            texts = reversed(list(self.texts))  # another thread may add one meanwhile
            text = next((text for known, text in texts if known is program.instructions), None)
            if text is not None and self.recording:
                raw = text.encode(errors="surrogatepass")
                name = f"{hashlib.sha256(raw).hexdigest()[:32]}.{program.target}.ptx"
                if name not in self.names and all(hold(each, program).needs.known for each in program.instructions):
                    (self.folder / name).write_bytes(raw)
                    self.names.add(name)
            return compiled

        parser._parse, run.compile_program = reading, compiling  # type: ignore[assignment]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Leave out the texts of a test with the marker."""
        self.recording = item.get_closest_marker(MARKER) is None
        return (yield)
