"""Assemblers that are missing, are none, refuse, crash or hang."""

from __future__ import annotations

import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tilecopy as tc
from tilecopy import assemblers
from tilecopy.assemblers import assemble, assembler_version, available_assemblers
from tilecopy_test_helpers import nvidia_module
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip

PTX = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
OTHER_MACHINE = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00" + bytes(44)
"""The head of a program for 64-bit ARM (for another machine where this is one)."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(folder: Path, content: bytes, mode: int = 0o755) -> Path:
    path = folder / "ptxas"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("content", [b"\x01\x02\x03\x04", b"abc\n", b"", OTHER_MACHINE, b"#!/no/such/interpreter\n"])
def test_a_file_that_is_no_program(folder: Path, content: bytes) -> None:
    path = put(folder, content)
    with pytest.raises(tc.AssemblerError, match=mentions("PATH")) as caught:
        assemble(PTX, "sm_80", "ptxas")
    assert str(path) in str(caught.value)
    assert "ptxas" not in available_assemblers()


def test_a_file_that_may_not_be_executed(folder: Path) -> None:
    path = put(folder, b"#!/bin/sh\n", mode=0o644)
    with pytest.raises(tc.AssemblerError, match=mentions("PATH")) as caught:
        assemble(PTX, "sm_80", "ptxas")
    assert str(path) in str(caught.value) and "ptxas" not in available_assemblers()


def test_a_folder_of_that_name(folder: Path) -> None:
    (folder / "ptxas").mkdir()
    with pytest.raises(tc.AssemblerError, match=mentions("ptxas", "PATH")):
        assemble(PTX, "sm_80", "ptxas")
    assert "ptxas" not in available_assemblers()


def test_another_program_of_that_name(folder: Path) -> None:
    path = put(folder, b"#!/bin/sh\necho hello\n")
    with pytest.raises(tc.AssemblerError, match=mentions("sm_80", "ptxas")) as caught:
        assemble(PTX, "sm_80", "ptxas")
    assert str(path) in str(caught.value) and "ptxas" not in available_assemblers()


def test_one_that_hangs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, b"#!/bin/sh\nexec /bin/sleep 60\n")
    monkeypatch.setattr(assemblers, "_VERSION_TIMEOUT_S", 0.2)
    with pytest.raises(tc.AssemblerError, match=mentions("ptxas", "sm_80", "0.2")):
        assemble(PTX, "sm_80", "ptxas", timeout_s=0.2)
    assert "ptxas" not in available_assemblers()


def test_one_that_dies(folder: Path) -> None:
    put(folder, b"#!/bin/sh\nkill -SEGV $$\n")
    with pytest.raises(tc.AssemblerError, match=mentions("ptxas", "sm_80")):
        assemble(PTX, "sm_80", "ptxas")


def test_a_broken_file_does_not_hide_a_program_further_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a shell: what cannot be executed is passed over while there is a program."""
    assembler_version("ptxas")
    real = assemblers.ptxas_path()
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    put(first, b"nothing", mode=0o644)
    wrapper = put(second, f'#!/bin/sh\nexec "{real}" "$@"\n'.encode())
    monkeypatch.setenv("PATH", f"{first}:{second}")
    assert available_assemblers()["ptxas"] == str(wrapper)
    assert assemble(PTX, "sm_80", "ptxas")[:4] == b"\x7fELF"
    assert wrapper.stat().st_mode & stat.S_IXUSR and shutil.which("ptxas") == str(wrapper)


@pytest.mark.skipif("nvjitlink" not in available_assemblers(), reason="nvJitLink is not installed")
def test_a_thread_goes_on_to_assemble_while_another_runs_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the creation of a handle and the assembling, it does not wait for its turn among threads that build kernels."""
    turns, seen, done = [0], [], threading.Event()

    def others() -> None:
        while not done.is_set():
            turns[0] += 1
            time.sleep(0)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: (seen.append(turns[0]), function(*arguments))[1]

    bindings, version, create = assemblers._nvjitlink_bindings()
    monkeypatch.setattr(assemblers, "_nvjitlink_bindings", lambda: (bindings, version, counted(create)))
    monkeypatch.setattr(bindings, "add_data", counted(bindings.add_data))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # a thread runs until it gives its turn away
    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(50):
            assert assemble(PTX, "sm_80", "nvjitlink")[:4] == b"\x7fELF"
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert seen[::2] == seen[1::2] and turns[0] > 0


def test_when_none_works_each_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, b"abcd")
    assemblers._loaded_nvjitlink.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings.nvjitlink", None)
    monkeypatch.delattr(nvidia_module("cuda.bindings"), "nvjitlink", raising=False)
    with pytest.raises(tc.AssemblerError, match=mentions("ptxas")):
        round_trip((64, 64), (64, 64), target="sm_80").cubin()


@pytest.mark.parametrize("assembler", assemblers.ASSEMBLERS)
@pytest.mark.parametrize(
    ("ptx", "target", "message"),
    [
        ("nonsense", "sm_80", ("sm_80",)),
        ("", "sm_80", ("sm_80",)),
        (PTX.replace("sm_80", "sm_90a"), "sm_80", ("sm_80",)),
        ("\ud800", "sm_80", ("sm_80",)),
        (None, "sm_80", ("ptx",)),
        (PTX.encode(), "sm_80", ("ptx",)),
    ],
)
def test_text_that_is_refused(assembler: str, ptx: str, target: str, message: tuple[object, ...]) -> None:
    with pytest.raises(tc.AssemblerError, match=mentions(*message)):
        assemble(ptx, target, assembler)


@pytest.mark.parametrize("more", [{"assembler": "gas"}, {"assembler": ["ptxas"]}, {"assembler": ""}, {"timeout_s": 0}])
@pytest.mark.parametrize("other", [{}, {"timeout_s": None}, {"timeout_s": float("nan")}])
def test_odd_choices(more: dict[str, object], other: dict[str, object]) -> None:
    with pytest.raises(tc.AssemblerError, match="assembler|timeout_s"):
        assemble(PTX, "sm_80", **{**more, **other})  # type: ignore[arg-type]
