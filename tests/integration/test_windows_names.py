"""tilecopy in a process without what Windows does not have (tests/tools/windows_names.py): a simulation, run on Linux."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulation reads /proc")
COMMAND = "import sys; sys.argv[0] = 'tilecopy'\nfrom tilecopy_cli import main\nmain()\n"


def simulated(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    program = folder / "program.py"
    program.write_text(text, encoding="utf-8")
    words = [sys.executable, str(TESTS / "tools" / "windows_names.py"), str(program), *arguments]
    return subprocess.run(words, capture_output=True, check=False, cwd=folder)


def command(folder: Path, *arguments: str) -> str:
    done = simulated(folder, COMMAND, *arguments)
    assert done.returncode == 0, done.stderr.decode("cp1252")
    return done.stdout.decode("cp1252")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "in.npy", np.arange(40 * 30, dtype=np.float32).reshape(40, 30))
    return tmp_path


def test_a_kernel_runs_and_its_race_is_told(folder: Path) -> None:
    text = """
import numpy as np
import tilecopy as tc
def kernel(barrier):
    k = tc.KernelBuilder("reversed", threads=64)
    A, B = k.param("A", (64,), "float32"), k.param("B", (64,), "float32")
    tile, t = k.shared((64,), "float32", name="tile"), k.thread_id()
    k.store(tile[t], k.load(A[t]))
    if barrier:
        k.cta_sync()
    k.store(B[t], k.load(tile[63 - t]))
    return k.build(target="sm_90", grid=1)
a = np.arange(64, dtype="float32")
b = np.zeros_like(a)
kernel(True)(a, b)
print(bool((b == a[::-1]).all()))
try:
    kernel(False)(a, b)
except tc.HazardError as hazard:
    print(hazard.kind, "\\u03bc" in str(hazard))
"""
    done = simulated(folder, text)
    assert done.stdout.decode("cp1252").split() == ["True", "race", "False"], done.stderr.decode("cp1252")


def test_an_array_is_copied_twice_over_its_output(folder: Path) -> None:
    for _ in range(2):
        command(folder, "run", "in.npy", "out.npy", "--executor", "emulator")
        assert (folder / "out.npy").read_bytes() == (folder / "in.npy").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["in.npy", "out.npy", "program.py"]


def test_an_array_is_permuted(folder: Path) -> None:
    for _ in range(2):
        command(folder, "relayout", "in.npy", "out.npy", "--axes", "1,0", "--executor", "emulator")
        assert np.array_equal(np.load(folder / "out.npy"), np.load(folder / "in.npy").T)


def test_a_copy_is_planned_and_drawn(folder: Path) -> None:
    words = ["global float16 [64, 64] [0:16, :]", "shared float16 [16, 64]", "--scope", "cta:64"]
    assert "gmem_smem" in command(folder, "plan", *words)
    command(folder, "draw", *words, "-o", "copy.svg")
    assert (folder / "copy.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_ptx_file_is_emulated(folder: Path) -> None:
    ptx = command(folder, "ptx", "global float16 [64, 64] [0:16, :]", "shared float16 [16, 64]", "--target", "sm_80")
    (folder / "copy.ptx").write_bytes(ptx.encode())
    data = command(folder, "emulate", "copy.ptx", "random:float16:64,64", "--block", "128", "--json")
    assert '"threads": 128' in data


def test_a_kernel_is_saved_and_loaded(folder: Path) -> None:
    text = """
import numpy as np
import tilecopy as tc
k = tc.KernelBuilder("copy", threads=32)
A, B = k.param("A", (32,), "float32"), k.param("B", (32,), "float32")
k.store(B[k.thread_id()], k.load(A[k.thread_id()]))
kernel = k.build(target="sm_90", grid=1)
for _ in range(2):
    kernel.save("saved")
a, b = np.arange(32, dtype="float32"), np.zeros(32, "float32")
tc.load_kernel("saved")(a, b)
print((a == b).all())
"""
    done = simulated(folder, text)
    assert done.stdout.split() == [b"True"], done.stderr.decode("cp1252")
