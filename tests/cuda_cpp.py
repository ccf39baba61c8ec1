"""CUDA C++ in tests: compiled by NVRTC, assembled, counted, run on the emulator."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest


@cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"no NVRTC: {error}; pip install nvidia-cuda-nvrtc")
    return nvrtc


def compiled(source: str, arch: str = "compute_90", *defines: str, kind: str = "PTX") -> Any:
    """PTX (or, for an ``sm_`` architecture and ``kind="CUBIN"``, machine code) of CUDA C++; AssertionError with the log."""
    nvrtc = _nvrtc()
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], [])
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", *(f"-D{each}".encode() for each in defines)]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    assert result == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode() + source
    _, size = getattr(nvrtc, f"nvrtcGet{kind}Size")(program)
    made = b" " * size
    getattr(nvrtc, f"nvrtcGet{kind}")(program, made)
    nvrtc.nvrtcDestroyProgram(program)
    return made.rstrip(b"\0 ").decode() if kind == "PTX" else made
