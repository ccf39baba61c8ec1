"""The command line on real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

RUN = [sys.executable, "-c", "from tilecopy_core.cli import main; main()"]


def tilecopy(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *map(str, arguments)], capture_output=True, text=True, check=False, env={**os.environ, **environ}
    )


ARRAYS = {
    "f32_odd": lambda r: r.random((333, 217), dtype=np.float32),
    "f16_3d": lambda r: r.random((7, 30, 50)).astype(np.float16),
    "fortran": lambda r: np.asfortranarray(r.random((70, 90))),
    "vector": lambda r: r.integers(0, 9, 10007).astype(np.int16),
    "bytes": lambda r: r.integers(0, 255, (129, 65)).astype(np.uint8),
    "complex": lambda r: r.random((20, 30)) + 1j,
    "struct": lambda r: np.zeros((10, 3), dtype=[("x", "i1"), ("y", "<f4")]),
    "scalar": lambda r: np.array(3.5),
    "bool": lambda r: r.random((64, 64)) > 0.5,
    "datetime": lambda r: np.arange(100).astype("M8[s]"),
    "big_endian": lambda r: r.random((10, 10)).astype(">f8"),
    "empty": lambda r: np.zeros((0, 4)),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("options", [(), ("--swizzle", "128B"), ("--pad", "1", "--tile", "32x48", "--threads", "96")])
def test_run_copies_any_array(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    array = ARRAYS[name](np.random.default_rng(0))
    np.save(tmp_path / "in.npy", array)
    done = tilecopy("run", tmp_path / "in.npy", tmp_path / "out.npy", "--executor", "emulator", *options)
    assert done.returncode == 0, done.stderr
    result = np.load(tmp_path / "out.npy")
    assert result.dtype == array.dtype and result.shape == array.shape
    assert result.tobytes() == array.tobytes() and result.flags.f_contiguous == array.flags.f_contiguous
    assert ("verified: all" in done.stdout and "GB/s" in done.stdout and "gmem_smem" in done.stdout) or array.size == 0


def test_run_as_json_with_the_edges_as_parts_of_their_own(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones((200, 100), np.float32))
    done = tilecopy(
        "run", tmp_path / "in.npy", tmp_path / "out.npy", "--executor", "emulator", "--json", "--variant", "ldgsts"
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert {part["where"]: (part["tile"], part["tiles"]) for part in data["parts"]} == {
        "inner": ([128, 64], 1),
        "right edge": ([128, 36], 1),
        "bottom edge": ([72, 64], 1),
        "corner": ([72, 36], 1),
    }
    assert all(part["plans"][0]["variant"] == "ldgsts" for part in data["parts"])
    assert data["bytes"] == 80000 and data["executor"] == "emulator"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("nofile.npy", "out.npy"), 1, "there is no such file"),
        (("text.npy", "out.npy"), 1, "not a .npy file"),
        (("object.npy", "out.npy"), 1, "not a .npy file of plain elements"),
        (("in.npy", "missing/out.npy"), 1, "does not exist"),
        (("in.npy", "."), 1, "is a directory"),
        (("in.npy", "out.npy", "--tile", "0x4"), 2, "ROWSxCOLUMNS"),
        (("in.npy", "out.npy", "--threads", "2000"), 2, "2000"),
        (("in.npy", "out.npy", "--target", "sm_1"), 1, "sm_1"),
        (("in.npy", "out.npy", "--variant", "nobody"), 1, "nobody"),
        (("in.npy", "out.npy", "--swizzle", "32B", "--pad", "2"), 1, "give one"),
        (("in.npy", "out.npy", "--tile", "1024x1024"), 1, "bytes of shared memory"),
        (("in.npy",), 2, "Missing argument"),
    ],
)
def test_bad_runs_are_one_screen_and_write_nothing(
    arguments: tuple[str, ...], status: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.ones((2000, 2000), np.float32))
    np.save("object.npy", np.array([{}], object))
    Path("text.npy").write_text("hello")
    before = sorted(os.listdir())
    done = tilecopy("run", *arguments, "--executor", "emulator")
    assert done.returncode == status and message in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) < 12
    assert sorted(os.listdir()) == before
    if status == 1:
        assert "Traceback" in tilecopy("run", *arguments, "--executor", "emulator", "--debug").stderr


def test_plan_in_words() -> None:
    words = ["global float16 [4096, 64] [bx*128 : bx*128+128, :]", "shared float16 [128, 64]"]
    layout = 'SwizzledLayout(swizzle("128B", "float16"), TileLayout(S[128, 64]))'
    done = tilecopy("plan", *words, "--dst-layout", layout)
    assert done.returncode == 0 and "outer 8 x threads 128 x vec 8 (128 bits, 16 bytes each)" in done.stdout
    data = json.loads(tilecopy("plan", *words, "--json").stdout)
    assert (data["variant"], data["outer"], data["vec"]) == ("gmem_smem", 8, 8)
    row = [
        "shared float32 [32, 8]",
        "local float32 [32, 8]",
        "--dst-layout",
        "S[(32, 8) : (1 @ laneid, 1)]",
        "--scope",
        "warp",
    ]
    assert json.loads(tilecopy("plan", *row, "--json").stdout)["variant"] == "reg"
    bad = tilecopy("plan", *words, "--dst-layout", "__import__('os')")
    assert bad.returncode == 1 and "is not known here" in bad.stderr
    assert tilecopy("plan", "global float16", words[1]).returncode == 1


def test_ptx_assembles() -> None:
    from tilecopy_core import assemblers, target_of

    done = tilecopy(
        "ptx", "global float16 [4096, 64] [bx*128 : bx*128+128, :]", "shared float16 [128, 64]", "--target", "sm_90"
    )
    assert done.returncode == 0
    assert assemblers.assemble(done.stdout, target_of("sm_90"), "ptxas")[:4] == b"\x7fELF"


def test_variants_and_doctor_list_what_is_there() -> None:
    rows = {row["name"]: row for row in json.loads(tilecopy("variants", "--json", TILECOPY_DISABLE="reg").stdout)}
    assert rows["gmem_smem"]["status"] == "ready" and rows["gmem_smem"]["package"] == "tilecopy-gmem-smem"
    assert rows["reg"]["status"] == "disabled" and "TILECOPY_DISABLE" in rows["reg"]["about"]
    found = {row["what"]: row for row in json.loads(tilecopy("doctor", "--json").stdout)}
    assert found["assembler ptxas"]["found"] and found["executor emulator"]["found"]
    assert "gmem_smem" in tilecopy("variants").stdout and "assembler" in tilecopy("doctor").stdout
