"""What is said where a package of NVIDIA is missing: the command that installs it, and none on macOS, where it cannot work."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import builtins, sys
sys.platform = {platform!r}
for name in ("cuda", "cuda.bindings", "numba", "numba_cuda"):
    sys.modules[name] = None
import shutil
shutil.which = lambda *_, **__: None
import tilecopy.assemblers as assemblers
assemblers.ptxas_path = lambda: None
import tilecopy as tc
k = tc.KernelBuilder("k", threads=32)
A, B = k.param("A", (32, 8), "float32"), k.param("B", (32, 8), "float32")
t = k.shared((32, 8), "float32")
k.cta.copy(t[:, :], A[:, :])
k.cta_sync()
k.cta.copy(B[:, :], t[:, :])
kernel = k.build(target="sm_90", grid=1)
def message(call):
    try:
        call()
    except (tc.TilecopyError, ImportError) as error:
        print(type(error).__name__, str(error).replace("\\n", " "))
message(kernel.cubin)
import numpy as np
message(lambda: kernel(np.zeros((32, 8), "float32"), np.zeros((32, 8), "float32"), executor="cuda"))
import tilecopy_emulator
message(lambda: tilecopy_emulator.run_cuda("__global__ void k() {{}}", [], grid=1, block=1))
def numba():
    import tilecopy_export.numba
message(numba)
"""
PACKAGES = ("tilecopy_cuda", "tilecopy_emulator", "tilecopy_export")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_no_advice_that_cannot_work(platform: str) -> None:
    for package in PACKAGES:
        pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(platform=platform)], capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["AssemblerError", "LaunchError", "AssemblerError", "ImportError"], (
        done
    )
    assert all(("macOS" in line) == (platform == "darwin") for line in lines), lines
    assert all(("pip install" in line) != (platform == "darwin") for line in lines), lines
