"""Assemblers: PTX text to machine code with no GPU, by nvJitLink (in process) or ptxas (a program)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from .errors import AssemblerError
from .target import Target

ASSEMBLERS = ("nvjitlink", "ptxas")
INSTALL = {"nvjitlink": "pip install nvidia-nvjitlink", "ptxas": "pip install nvidia-cuda-nvcc"}
"""What to install for each."""


def ptxas_path() -> str | None:
    """The ptxas of the PATH, else of an installed wheel, else None."""
    found = shutil.which("ptxas")
    if found is not None:
        return found
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        for path in sorted(Path(root).glob("*/bin/ptxas")):
            return str(path)
    return None


def available_assemblers() -> dict[str, str]:
    """Assembler -> its version or path, for those that work here."""
    found = {}
    try:
        from cuda.bindings import nvjitlink

        found["nvjitlink"] = "{}.{}".format(*nvjitlink.version())
    except (ImportError, RuntimeError):
        pass
    path = ptxas_path()
    if path is not None:
        found["ptxas"] = path
    return found


def assemble(ptx: str, target: Target, assembler: str | None = None) -> bytes:
    """Machine code for a target.

    Args:
        ptx: the text of a module.
        target: the architecture.
        assembler: one of :data:`ASSEMBLERS`; by default the first that works.

    Raises:
        AssemblerError: it is not installed, or refuses the text; the message holds its log.
    """
    if assembler is None:
        found = available_assemblers()
        if not found:
            raise AssemblerError("no assembler is installed: " + " or ".join(INSTALL.values()))
        assembler = next(iter(found))
    if assembler == "nvjitlink":
        return _nvjitlink(ptx, target)
    if assembler == "ptxas":
        return _ptxas(ptx, target)
    raise AssemblerError(f"assembler {assembler!r} is unknown; the assemblers are {', '.join(ASSEMBLERS)}")


def _nvjitlink(ptx: str, target: Target) -> bytes:
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError) as error:
        raise AssemblerError(f"nvJitLink is not installed: {INSTALL['nvjitlink']}") from error
    handle = nvjitlink.create(1, [f"-arch={target}"])
    try:
        try:
            data = ptx.encode()
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "tilecopy.ptx")
            nvjitlink.complete(handle)
        except nvjitlink.nvJitLinkError as error:
            log = bytearray(nvjitlink.get_error_log_size(handle))
            nvjitlink.get_error_log(handle, log)
            text = log.rstrip(b"\0").decode(errors="replace").strip()
            raise AssemblerError(f"nvJitLink refuses the PTX for {target}: {error}\n{text}") from error
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    finally:
        nvjitlink.destroy(handle)


def _ptxas(ptx: str, target: Target) -> bytes:
    path = ptxas_path()
    if path is None:
        raise AssemblerError(f"ptxas is not installed: {INSTALL['ptxas']}")
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        done = subprocess.run(
            [path, f"-arch={target}", str(source), "-o", str(result)], capture_output=True, text=True, check=False
        )
        if done.returncode or not result.exists():
            log = (done.stderr or done.stdout).strip()
            raise AssemblerError(f"ptxas refuses the PTX for {target} (exit status {done.returncode})\n{log}")
        return result.read_bytes()
