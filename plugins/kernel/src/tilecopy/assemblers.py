"""Assemblers that translate PTX text to machine code without a GPU: the library nvJitLink and the program ptxas."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs

from tilecopy_core.description import Target, target_of
from tilecopy_core.errors import TEXT, Validator, checked, one_of, optional, pattern
from tilecopy_core.registry import LOCK

from .compiler_lock import compiling
from .errors import AssemblerError
from .nvidia_packages import remedy

__all__ = ["ASSEMBLERS", "Resources", "assemble", "available_assemblers", "compiling", "how_to_install", "resources_of"]
__all__ += ["assembler_version"]

ASSEMBLERS = ("nvjitlink", "ptxas")
_ASSEMBLER = one_of(*ASSEMBLERS)
_INSTALL = {"nvjitlink": "pip install cuda-python nvidia-nvjitlink", "ptxas": "pip install nvidia-cuda-nvcc"}

TIMEOUT_S = 300.0
"""The seconds that ptxas may take for one module. A module with thousands of unrolled copies takes long."""
_VERSION_TIMEOUT_S = 20.0


def ptxas_path() -> str | None:
    """Return the path of ptxas: from the PATH, else from an installed wheel. Return None if neither has ptxas.

    The program is not run. If no program on the PATH is called ptxas, a file or folder there with that name is returned, because the user put it
    there.
    """
    path = shutil.which("ptxas")
    if path is not None:
        return path
    program = "ptxas.exe" if sys.platform == "win32" else "ptxas"
    for folder in os.get_exec_path():
        if folder and Path(folder, program).exists():
            return str(Path(folder, program))
    spec = find_spec("nvidia")
    roots = (spec.submodule_search_locations or []) if spec is not None else []
    return next((str(path) for root in roots for path in sorted(Path(root).glob(f"*/bin/{program}"))), None)


def how_to_install(assembler: str) -> str:
    """Return the command that installs an assembler. On macOS, return a sentence that says what else works there.

    Raises:
        AssemblerError: the name is not one of :data:`ASSEMBLERS`.
    """
    _ASSEMBLER.check(assembler, "how_to_install", "assembler", AssemblerError)
    return remedy(_INSTALL[assembler])


def available_assemblers() -> dict[str, str]:
    """Return a dict of the assemblers that work on this machine: nvJitLink with its version, ptxas with its path."""
    return {name: version if name == "nvjitlink" else _ptxas_path() for name, version, _ in _tried() if version}


@checked(
    AssemblerError,
    ptx=TEXT,
    assembler=optional(_ASSEMBLER),
    timeout_s=Validator("a positive number of seconds", lambda value: type(value) in (int, float) and 0 < value < 1e9),
)
def assemble(ptx: str, target: Target | str, assembler: str | None = None, *, timeout_s: float = TIMEOUT_S) -> bytes:
    """Return the machine code of a PTX module for a target.

    Args:
        ptx: the text of a module.
        target: the architecture.
        assembler: one of :data:`ASSEMBLERS`; by default the first that works.
        timeout_s: seconds that ptxas may take (nvJitLink runs in this process and cannot be stopped).

    Raises:
        AssemblerError: it is not installed, does not work, or refuses the text; the message holds its log.
        TargetError: the target is unknown.
    """
    return _assemble(ptx, target_of(target), assembler, timeout_s)[0]


def _assemble(
    ptx: str, target: Target, assembler: str | None, timeout_s: float, *, describe: bool = False
) -> tuple[bytes, str]:
    """Return the machine code and the assembler's log, with the registers and spills in it if ``describe`` is set."""
    name = _first_that_works() if assembler is None else assembler
    try:
        text = ptx.encode()
    except UnicodeEncodeError as error:
        raise AssemblerError(f"the PTX for {target} must be encodable as UTF-8: {error}") from error
    if name == "ptxas":
        return _ptxas(text, target, timeout_s)
    return _nvjitlink(text, target, _DESCRIBE if describe else ())


@attrs.frozen
class Resources:
    """A frozen record of a kernel's registers and shared memory, as an assembler reports them.

    Attributes:
        registers: 32-bit registers of each thread.
        spill_bytes: bytes that each thread stores to local memory because it has too few registers.
        shared_bytes: bytes of shared memory of each CTA.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int


_USED = pattern(r"[Uu]sed (\d+) registers(?:.*?\b(\d+) bytes smem)?")
_SPILLED = pattern(r"(\d+) bytes spill stores")
_DESCRIBE = ("-verbose", "-no-cache")
"""Options of nvJitLink. With a driver it caches machine code, and for a cached text it does not report the spills."""


@checked(AssemblerError, ptx=TEXT, assembler=optional(_ASSEMBLER))
def resources_of(ptx: str, target: Target | str, assembler: str | None = None) -> Resources:
    """Return the registers and static shared memory of a module's only kernel. For the arguments, see :func:`assemble`.

    Raises:
        AssemblerError: it is not installed, does not work, or refuses the text; the message says what to do.
        TargetError: the target is unknown.
    """
    log = _assemble(ptx, target_of(target), assembler, TIMEOUT_S, describe=True)[1]
    used, spilled = _USED.search(log), _SPILLED.search(log)
    if used is None:
        raise AssemblerError(f"the assembler's log does not have the kernel's number of registers:\n{log}")
    return Resources(int(used[1]), int(spilled[1]) if spilled else 0, int(used[2] or 0))


def _tried() -> Iterator[tuple[str, str, str]]:
    """Yield the name of each assembler, its version or "", and the reason that it does not work or ""."""
    for name in ASSEMBLERS:
        try:
            yield name, assembler_version(name), ""
        except AssemblerError as error:
            yield name, "", str(error)


def _first_that_works() -> str:
    reasons = []
    for name, version, reason in _tried():
        if version:
            return name
        reasons.append(reason)
    raise AssemblerError("no assembler works on this machine: " + "; ".join(reasons))


def assembler_version(name: str) -> str:
    """Return the version that an assembler reports.

    Raises:
        AssemblerError: the name is not one of :data:`ASSEMBLERS`, or the assembler is not installed or does not run.
    """
    _ASSEMBLER.check(name, "assembler_version", "name", AssemblerError)
    if name == "nvjitlink":
        return _nvjitlink_bindings()[1]
    path = _ptxas_path()
    done = _run(path, ["--version"], _VERSION_TIMEOUT_S)
    release = re.search(r"release.*", done.stdout)
    if done.returncode or release is None:
        output = (done.stdout or done.stderr).strip().splitlines() or [""]
        raise AssemblerError(
            f"{path} does not look like ptxas: --version exited with status {done.returncode} (output: {output[0][:120]!r}); "
            + _REMEDY
        )
    return release[0].rstrip()


# ------------------------------------------------------------------------------------------------------ nvJitLink


@cache
def _loaded_nvjitlink() -> tuple[Any, str, Any]:
    """Return the bindings of nvJitLink, its version and its function to create handles, loaded once so that later calls take no lock.

    The bindings let other threads run Python in every call; after this short one, a thread would wait for all that build kernels.
    """
    with LOCK:
        from cuda.bindings import nvjitlink
        from cuda.pathfinder import load_nvidia_dynamic_lib

        create = ctypes.PyDLL(load_nvidia_dynamic_lib("nvJitLink").abs_path).nvJitLinkCreate
        return nvjitlink, "{}.{}".format(*nvjitlink.version()), create


def _nvjitlink_bindings() -> tuple[Any, str, Any]:
    try:
        return _loaded_nvjitlink()
    except ImportError as error:
        raise AssemblerError(f"nvJitLink is not installed: {how_to_install('nvjitlink')}") from error
    except RuntimeError as error:  # the bindings are installed, but their library is missing or needs a driver
        first_line = str(error).partition("\n")[0]
        raise AssemblerError(
            f"nvJitLink must be installed and up to date ({first_line}): "
            + remedy("pip install --upgrade cuda-bindings nvidia-nvjitlink")
        ) from error


def _nvjitlink(ptx: bytes, target: Target, more_options: Sequence[str]) -> tuple[bytes, str]:
    nvjitlink, version, create = _nvjitlink_bindings()
    handle, options = ctypes.c_void_p(), [option.encode() for option in (f"-arch={target}", *more_options)]
    with compiling():
        if failed := create(ctypes.byref(handle), len(options), (ctypes.c_char_p * len(options))(*options)):
            reason = nvjitlink.nvJitLinkError(failed)
            raise AssemblerError(f"nvJitLink {version} does not support the target {target}: {reason}")
        return _link(nvjitlink, handle.value or 0, ptx, target)


def _link(nvjitlink: Any, handle: int, ptx: bytes, target: Target) -> tuple[bytes, str]:
    try:
        try:
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), "tilecopy.ptx")
            nvjitlink.complete(handle)
        except nvjitlink.nvJitLinkError as error:
            text = _log(nvjitlink, handle, "error")
            raise AssemblerError(f"nvJitLink rejected the PTX for {target}: {error}\n{text}") from error
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin), _log(nvjitlink, handle, "info")
    finally:
        nvjitlink.destroy(handle)


def _log(nvjitlink: Any, handle: int, kind: str) -> str:
    """Return the text of nvJitLink's log of a kind, "error" or "info"."""
    log = bytearray(getattr(nvjitlink, f"get_{kind}_log_size")(handle))
    getattr(nvjitlink, f"get_{kind}_log")(handle, log)
    return log.rstrip(b"\0").decode(errors="replace").strip()


# ---------------------------------------------------------------------------------------------------------- ptxas

_REMEDY = f"remove this file from the PATH, and install ptxas: {_INSTALL['ptxas']}"


def _ptxas_path() -> str:
    path = ptxas_path()
    if path is None:
        raise AssemblerError(f"ptxas is not installed: {how_to_install('ptxas')}")
    return path


def _ptxas(ptx: bytes, target: Target, timeout_s: float) -> tuple[bytes, str]:
    path = _ptxas_path()
    try:
        with tempfile.TemporaryDirectory() as folder:
            source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
            source.write_bytes(ptx)
            done = _run(path, [f"-arch={target}", str(source), "-o", str(result), "-v"], timeout_s)
            log = (done.stderr or done.stdout).strip()
            if done.returncode < 0:
                raise AssemblerError(f"{path} died of {_signal(-done.returncode)} on the PTX for {target}\n{log}")
            if done.returncode:
                raise AssemblerError(f"ptxas rejected the PTX for {target} (exit status {done.returncode})\n{log}")
            if not result.is_file():
                raise AssemblerError(
                    f"{path} exited with status 0 but wrote no machine code for {target}; {_REMEDY}\n{log}"
                )
            return result.read_bytes(), log
    except OSError as error:
        raise AssemblerError(f"the temporary files for {path} cannot be read or written: {error}") from error


def _run(path: str, arguments: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, or raise AssemblerError if this machine cannot run it or it does not end in time."""
    try:
        return subprocess.run(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as error:
        raise AssemblerError(f"{path} {arguments[0]} timed out after {timeout_s:g} seconds") from error
    except OSError as error:
        what = "a folder" if Path(path).is_dir() else "a file"
        raise AssemblerError(
            f"{path} must be a program that this machine can run, got {what} ({error.strerror}); {_REMEDY}"
        ) from error


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
