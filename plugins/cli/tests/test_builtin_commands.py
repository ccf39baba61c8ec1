"""The command line on real files."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from tilecopy_cli.builtin_commands import tilecopy as command
from tilecopy_cli.command import read_npy
from tilecopy_cli.standard_streams import say
from tilecopy_test_helpers.forked_programs import run_program
from tilecopy_test_helpers.mentions import mentions

RUN = [sys.executable, "-c", "from tilecopy_cli import main; main()"]
IMPORTED = ("tilecopy_cli.builtin_commands", "tilecopy_emulator.executor")

POSIX = pytest.mark.skipif(
    not hasattr(os, "mkfifo"), reason="Windows has no FIFOs, POSIX signals or limits of a process"
)


def tilecopy(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return run_program(RUN[-1], *arguments, modules=IMPORTED, environment=os.environ | environ)


def here(*arguments: object, **environ: str) -> Result:
    """The command in this process."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments], env=environ)


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
    done = here("run", tmp_path / "in.npy", tmp_path / "out.npy", "--executor", "emulator", *options)
    assert done.exit_code == 0, done.stderr
    result = np.load(tmp_path / "out.npy")
    assert result.dtype == array.dtype and result.shape == array.shape
    assert result.tobytes() == array.tobytes() and result.flags.f_contiguous == array.flags.f_contiguous
    assert ("verified: all" in done.stdout and "GB/s" in done.stdout and "gmem_smem" in done.stdout) or array.size == 0


def test_run_as_json_is_one_kernel_with_its_edges(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.ones((200, 100), np.float32))
    done = tilecopy(
        "run", tmp_path / "in.npy", tmp_path / "out.npy", "--executor", "emulator", "--json", "--variant", "ldgsts"
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert (data["tile"], data["tiles"], data["threads"]) == ([128, 64], 4, 128)
    assert [plan["variant"] for plan in data["plans"]] == ["ldgsts", "gmem_smem"]
    assert all(plan["edge"]["vec_bits"] == 128 and "guarded" in plan["edge"]["summary"] for plan in data["plans"])
    assert data["bytes"] == 80000 and data["executor"] == "emulator"


@pytest.mark.parametrize(
    ("shape", "tile", "tiles", "edges"),
    [
        ((256, 128), [128, 64], 4, False),
        ((100, 50), [100, 50], 1, False),
        ((129, 64), [128, 64], 2, True),
        ((8192 * 3,), [1, 8192], 3, False),
        ((8192 * 3 + 1,), [1, 8192], 4, True),
        ((7919,), [1, 7936], 1, True),
        ((5,), [1, 5], 1, False),
        ((3, 1), [3, 1], 1, False),
        ((0, 4), None, 0, False),
    ],
)
def test_tiles_that_divide_the_array_have_no_edges(
    shape: tuple[int, ...], tile: list[int] | None, tiles: int, edges: bool, tmp_path: Path
) -> None:
    source = np.random.default_rng(0).random(shape, np.float32)
    np.save(tmp_path / "in.npy", source)
    done = here("run", tmp_path / "in.npy", tmp_path / "out.npy", "--executor", "emulator", "--json")
    data = json.loads(done.stdout)
    assert (data["tile"], data["tiles"]) == (tile, tiles), data
    assert [plan["edge"] is not None for plan in data["plans"]] == [edges] * (2 if tiles else 0)
    assert np.array_equal(np.load(tmp_path / "out.npy"), source)


def test_edges_that_no_installed_variant_lowers_name_the_package(folder: Path, package: Callable[..., str]) -> None:
    path = package("seedlike", SEEDLIKE, variants={"seedlike": "seedlike"})
    code = (
        "from tilecopy_core.registry import default_registry\n"
        "for plugin in default_registry().plugins():\n"
        "    if plugin.name != 'seedlike': default_registry().unregister(plugin.name)\n"
    )
    words = ("run", "in.npy", "out.npy", "--executor", "emulator", "--tile", "16x16")
    done = run_program(f"{code}{RUN[-1]}", *words, modules=IMPORTED, environment=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 1 and not (folder / "out.npy").exists()
    assert mentions("seedlike").search(done.stderr) and mentions("plugins/gmem_smem").search(done.stderr)


SEEDLIKE = """
import tilecopy as tc
variant = tc.Variant(name="seedlike", op="copy", priority=1, summary="s", spaces=(("global", "shared"), ("shared", "global")))
@tc.hookimpl
def tilecopy_predicate(request): return tc.Accept()
@tc.hookimpl
def tilecopy_partition(request): return "some"
@tc.hookimpl
def tilecopy_emit(request, partition, ptx): raise AssertionError
"""


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("nofile.npy", "out.npy"), 1, ("nofile.npy",)),
        (("text.npy", "out.npy"), 1, ("text.npy",)),
        (("object.npy", "out.npy"), 1, ("object.npy",)),
        (("in.npy", "missing/out.npy"), 1, ("missing",)),
        (("in.npy", "."), 1, ()),
        (("in.npy", "-"), 1, ()),
        (("in.npy", "out.npy", "--tile", "0x4"), 2, ("0x4",)),
        (("in.npy", "out.npy", "--threads", "2000"), 2, (2000,)),
        (("in.npy", "out.npy", "--target", "sm_1"), 2, ("sm_1",)),
        (("in.npy", "out.npy", "--variant", "nobody"), 2, ("nobody",)),
        (("in.npy", "out.npy", "--swizzle", "32B", "--pad", "2"), 2, ("--swizzle", "--pad")),
        (("in.npy", "out.npy", "--variant", "dsmem"), 1, ("dsmem",)),
        (("in.npy", "out.npy", "--tile", "1024x1024"), 1, (4194304,)),
        (("in.npy",), 2, ("argument",)),
    ],
)
def test_bad_runs_are_one_screen_and_write_nothing(
    arguments: tuple[str, ...],
    status: int,
    message: tuple[object, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.ones((2000, 2000), np.float32))
    np.save("object.npy", np.array([{}], object))
    Path("text.npy").write_text("hello")
    before = sorted(os.listdir())
    done = here("run", *arguments, "--executor", "emulator")
    assert done.exit_code == status and mentions(*message).search(done.stderr)
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) < 12
    assert sorted(os.listdir()) == before
    if "Error" in done.stderr or status == 1:
        assert "Traceback" in here("run", *arguments, "--executor", "emulator", "--debug").stderr


def test_plan_in_words() -> None:
    words = ["global float16 [4096, 64] [bx*128 : bx*128+128, :]", "shared float16 [128, 64]"]
    layout = 'SwizzledLayout(swizzle("128B", "float16"), TileLayout(S[128, 64]))'
    done = here("plan", *words, "--dst-layout", layout)
    assert done.exit_code == 0 and "outer 8 x threads 128 x vec 8 (128 bits, 16 bytes each)" in done.stdout
    data = json.loads(here("plan", *words, "--json").stdout)
    assert (data["variant"], data["outer"], data["vec"]) == ("gmem_smem", 8, 8)
    row = [
        "shared float32 [32, 8]",
        "local float32 [32, 8]",
        "--dst-layout",
        "S[(32, 8) : (1 @ laneid, 1)]",
        "--scope",
        "warp",
    ]
    assert json.loads(here("plan", *row, "--json").stdout)["variant"] == "reg"
    bad = here("plan", *words, "--dst-layout", "__import__('os')")
    assert bad.exit_code == 2 and mentions("__import__").search(bad.stderr)
    assert here("plan", "global float16", words[1]).exit_code == 2
    for scope in ("warp:64", "thread:1", "cta:"):
        assert here("plan", *words, "--scope", scope).exit_code == 2


HALO = ("global float16 [1000, 64] [bx*62-1 : bx*62+63, :]", "shared float16 [64, 64]")


GLOBAL, SHARED = "global float16 [4096, 64] [bx*128 : bx*128+128, :]", "shared float16 [128, 64]"


def test_compare_puts_variants_side_by_side() -> None:
    said = here("compare", GLOBAL, SHARED, "--target", "sm_80", "--target", "sm_90a")
    names = [line.split()[0] for line in said.output.splitlines()]
    assert names[0] == "variant" and names.count("gmem_smem") == 2 and names.count("tma") == 1, said.output
    found = json.loads(here("compare", GLOBAL, SHARED, "--op", "copy", "--json").output)
    assert [row["variant"] for row in found["rows"]] == ["gmem_smem", "ragged"]
    assert found["rows"][0]["cost"]["sectors"] == 512 and found["rows"][0]["cost"]["cycles"] > 0
    assert {"target": "sm_90a", "variant": "reg"}.items() <= next(
        each for each in found["declined"] if each["variant"] == "reg"
    ).items()
    refused = here("compare", GLOBAL, "tmem float16 [128, 64]")
    assert refused.exit_code == 1 and mentions("variant").search(refused.stderr)


def test_shorter_words_are_the_same_copy() -> None:
    short = here("plan", GLOBAL.replace("global float16", "gmem f16"), SHARED.replace("shared float16", "smem f16"))
    assert short.output == here("plan", GLOBAL, SHARED).output and short.exit_code == 0
    for word in ("bf16", "f32"):
        fragment = here(
            "plan",
            f"gmem {word} [32, 8]",
            f"reg {word} [32, 8]",
            "--dst-layout",
            "S[(32, 8) : (1 @ laneid, 1)]",
            "--scope",
            "warp",
        )
        assert fragment.exit_code == 0, fragment.output
    assert "did you mean global" in here("plan", GLOBAL.replace("global", "gmen"), SHARED).output


def test_shells_can_complete() -> None:
    done = tilecopy(_TILECOPY_COMPLETE="bash_complete", COMP_WORDS="tilecopy comp", COMP_CWORD="1")
    assert done.stdout.split() == ["plain,compare"]
    done = tilecopy(_TILECOPY_COMPLETE="bash_complete", COMP_WORDS="tilecopy compare --tar", COMP_CWORD="2")
    assert done.stdout.split() == ["plain,--target"]
    assert "complete" in tilecopy(_TILECOPY_COMPLETE="zsh_source").stdout


@pytest.mark.parametrize("fill", ["zero", "keep", "-1.5", "-inf", "nan", "-0.0", "3"])
def test_regions_in_words_may_overhang(fill: str) -> None:
    data = json.loads(here("plan", *HALO, "--outside", fill, "--json").stdout)
    assert data["variant"] == "gmem_smem" and data["vec_bits"] == data["edge"]["vec_bits"] == 128
    assert f"outside {fill}" in data["copy"]
    said = here("plan", *HALO, "--outside", fill).stdout
    assert "guarded: src dimension 0 (both ends)" in said
    ptx = here("ptx", *HALO, "--outside", fill, "--op", "copy_async")
    assert ptx.exit_code == 0 and "$inside_0" in ptx.stdout
    cuda = here("cuda", *reversed(HALO), "--outside", fill, "--name", "tile").stdout
    assert f"outside {fill}" in cuda and "setp" in cuda and "is in bounds" not in cuda
    inside = ("global float16 [64, 64] [0:64, :]", "shared float16 [64, 64]")
    assert here("ptx", *inside, "--outside", fill).stdout == here("ptx", *inside).stdout


def test_a_start_in_words_is_a_coordinate() -> None:
    def data(*words: str) -> Any:
        return json.loads(here("plan", *words, "--json").stdout)

    found = data("global float32 [64, 8] [-1:65, ...]", "shared float32 [66, 8]", "--outside", "zero")
    assert "66x8" in found["copy"] and "both ends" in found["edge"]["summary"]
    for name in ("plan", "ptx"):
        done = here(name, "global float32 [64, 8] [-1:65, ...]", "shared float32 [66, 8]")
        assert done.exit_code == 2 and mentions(65, "outside", 64).search(done.stderr) and "outside=" in done.stderr


def test_a_missing_option_is_one_sentence() -> None:
    done = here("cuda", "global float32 [64, 8]", "shared float32 [64, 8]")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1 and mentions("--name", "--help").search(done.stderr)


@pytest.mark.parametrize(
    ("dtype", "fill", "message"),
    [
        ("float16", "Zero", ("Zero",)),
        ("float16", "kep", ("kep",)),
        ("float16", "", ()),
        ("float16", "1e999", ()),
        ("float16", "9" * 5000, ()),
        ("float16", "0.1", ("float16",)),
        ("int8", "128", ("int8",)),
        ("int8", "inf", ("int8",)),
        ("float32", "1j", ("float32",)),
    ],
)
def test_a_fill_in_words_that_cannot_be_is_one_line(dtype: str, fill: str, message: tuple[object, ...]) -> None:
    for name in ("plan", "ptx"):
        done = here(name, f"global {dtype} [60]", f"shared {dtype} [64]", "--outside", fill)
        assert done.exit_code == 2 and done.stderr.count("\n") == 1 and len(done.stderr) < 6000, done.stderr
        done = here(name, f"global {dtype} [60] [0:64]", f"shared {dtype} [64]", "--outside", fill)
        assert done.exit_code == 2 and mentions(*message).search(done.stderr) and done.stderr.count("\n") == 1, (
            done.stderr
        )


def test_ptx_assembles() -> None:
    from tilecopy import assemblers, target_of

    done = tilecopy(
        "ptx", "global float16 [4096, 64] [bx*128 : bx*128+128, :]", "shared float16 [128, 64]", "--target", "sm_90"
    )
    assert done.returncode == 0
    assert assemblers.assemble(done.stdout, target_of("sm_90"), "ptxas")[:4] == b"\x7fELF"


def test_cuda_prints_a_header_of_one_function() -> None:
    words = ("cuda", "global float16 [4096, 64] [bx*128 : bx*128+128, :]", "shared float16 [128, 64]")
    done = here(*words, "--name", "load_tile")
    assert done.exit_code == 0
    assert "void load_tile(uint32_t dst, const void* src, int32_t ctaid_x, int32_t tid = threadIdx.x)" in done.stdout
    assert json.loads(here(*words, "--name", "f", "--json").stdout)["plans"][0]["variant"] == "gmem_smem"
    refused = here(*words, "--name", "class")
    assert refused.exit_code == 2 and mentions("C").search(refused.stderr)
    assert here(*words).exit_code == 2


@pytest.mark.nvidia
def test_variants_and_doctor_list_what_is_there() -> None:
    rows = {row["name"]: row for row in json.loads(tilecopy("variants", "--json", TILECOPY_DISABLE="reg").stdout)}
    assert rows["gmem_smem"]["status"] == "ready" and rows["gmem_smem"]["package"] == "tilecopy-gmem-smem"
    assert rows["reg"]["status"] == "disabled" and "TILECOPY_DISABLE" in rows["reg"]["about"]
    found = {row["what"]: row for row in json.loads(tilecopy("doctor", "--json").stdout)}
    assert found["assembler ptxas"]["found"] and found["executor emulator"]["found"]
    assert "gmem_smem" in tilecopy("variants").stdout and "assembler" in tilecopy("doctor").stdout


# ------------------------------------------------------------------------------------------------ the output file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with an ``in.npy`` of 40 x 30 floats."""
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.arange(1200, dtype=np.float32).reshape(40, 30))
    return tmp_path


def copied(destination: object = "out.npy", source: object = "in.npy") -> Result:
    return here("run", source, destination, "--executor", "emulator")


def test_a_new_file_is_the_inputs_twin_under_the_umask(folder: Path) -> None:
    for umask in (0o022, 0o077, 0o002):
        before = os.umask(umask)
        try:
            assert copied(f"{umask}.npy").exit_code == 0
        finally:
            os.umask(before)
        made = folder / f"{umask}.npy"
        assert stat.S_IMODE(made.stat().st_mode) == 0o666 & ~umask
        assert made.read_bytes() == (folder / "in.npy").read_bytes()
    assert len(os.listdir()) == 4


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o777, 0o200])
def test_an_existing_file_keeps_its_mode_and_changes_in_one_step(mode: int, folder: Path) -> None:
    out = folder / "out.npy"
    out.write_bytes(b"old")
    with out.open("rb") as reader:
        out.chmod(mode)
        assert copied().exit_code == 0
        assert reader.read() == b"old", "who reads the old file goes on reading it"
    assert stat.S_IMODE(out.stat().st_mode) == mode
    out.chmod(0o600)
    assert out.read_bytes() == (folder / "in.npy").read_bytes()
    assert sorted(os.listdir()) == ["in.npy", "out.npy"]


def test_symlinks_stay_and_their_targets_are_written(folder: Path) -> None:
    (folder / "data").mkdir()
    target = folder / "data" / "real.npy"
    target.write_bytes(b"old")
    (folder / "link.npy").symlink_to("data/real.npy")
    (folder / "chain.npy").symlink_to("link.npy")
    (folder / "dangling.npy").symlink_to("data/new.npy")
    for name in ("link.npy", "chain.npy", "dangling.npy"):
        assert copied(name).exit_code == 0
        assert (folder / name).is_symlink()
        assert (folder / name).read_bytes() == (folder / "in.npy").read_bytes()
        target.write_bytes(b"old")
    assert sorted(os.listdir("data")) == ["new.npy", "real.npy"]
    (folder / "loop.npy").symlink_to("loop.npy")
    done = copied("loop.npy")
    assert done.exit_code == 1 and os.strerror(errno.ELOOP) in done.stderr


def test_a_file_may_be_copied_over_itself(folder: Path) -> None:
    bytes_ = (folder / "in.npy").read_bytes()
    (folder / "soft.npy").symlink_to("in.npy")
    for name in ("in.npy", "soft.npy"):
        assert copied(name).exit_code == 0
        assert (folder / "in.npy").read_bytes() == bytes_


def make_socket(name: str) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.bind(name)


REFUSED: dict[str, tuple[Callable[[str], Any], str]] = {
    "directory": (os.mkdir, "got a directory"),
    "fifo": (getattr(os, "mkfifo", None), "got a FIFO"),
    "socket": (make_socket, "got a socket"),
    "device": (lambda name: os.symlink("/dev/null", name), "got a device"),
    "full": (lambda name: os.symlink("/dev/full", name), "got a device"),
    "read-only": (lambda name: os.close(os.open(name, os.O_CREAT, 0o444)), "0444"),
    "below a file": (lambda name: Path(name).symlink_to("in.npy/x"), "Not a directory"),
    "nowhere": (lambda name: Path(name).symlink_to("nowhere/x"), "does not exist"),
    "proc": (lambda name: Path(name).symlink_to("/proc/x.npy"), "cannot be written"),
}


@POSIX
@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_written_is_refused_before_any_work(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, message = REFUSED[kind]
    make("out")
    before = [(name, os.lstat(name).st_mode, os.lstat(name).st_ino) for name in sorted(os.listdir())]
    from tilecopy_cli import run as run_module

    monkeypatch.setattr(run_module, "tiled_copy", lambda *_: pytest.fail("work was done"))
    done = copied("out")
    assert done.exit_code == 1 and message in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert [(name, os.lstat(name).st_mode, os.lstat(name).st_ino) for name in sorted(os.listdir())] == before


def limited(size: int) -> Callable[[], None]:
    import resource

    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@POSIX
@pytest.mark.parametrize("existing", [False, True])
def test_a_full_disk_is_one_line_and_changes_nothing(existing: bool, folder: Path) -> None:
    """RLIMIT_FSIZE stands for the disk: the same write fails, with EFBIG for ENOSPC."""
    old = b"old" * 500
    if existing:
        (folder / "out.npy").write_bytes(old)
    done = subprocess.run(
        [*RUN, "run", "in.npy", "out.npy", "--executor", "emulator"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},  # a module that is cut off would stay so
        preexec_fn=limited(4000),
    )
    assert done.returncode == 1 and os.strerror(errno.EFBIG) in done.stderr and len(done.stderr.splitlines()) == 1
    assert sorted(os.listdir()) == (["in.npy", "out.npy"] if existing else ["in.npy"])
    assert not existing or (folder / "out.npy").read_bytes() == old


def test_no_space_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "out.npy").write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        done = copied()
    assert done.exit_code == 1 and done.stderr.count("\n") == 1 and os.strerror(errno.ENOSPC) in done.stderr
    assert (folder / "out.npy").read_bytes() == b"old" and sorted(os.listdir()) == ["in.npy", "out.npy"]


# ------------------------------------------------------------------------------------------- other packages' plugins


@pytest.fixture
def package(tmp_path: Path) -> Callable[..., str]:
    """Makes a package on a path of its own: entry points by group, and the source of its module. The PYTHONPATH with it first."""

    def make(name: str, source: str, **groups: dict[str, str]) -> str:
        root = tmp_path / "packages"
        info = root / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (root / f"{name}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = []
        for group, points in groups.items():
            lines += [f"[tilecopy.{group}.v1]", *(f"{key} = {value}" for key, value in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines))
        return os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])

    return make


EXECUTORS = """
import sys, time
import numpy as np
from tilecopy.executors import get_executor
class Slow:
    name = "slow"
    def unavailable_reason(self, kernel=None): return None
    def launch(self, kernel, arguments, *, grid=None, stream=None):
        print("working", file=sys.stderr, flush=True)
        time.sleep(60)
class Wrong(Slow):
    def launch(self, kernel, arguments, *, grid=None, stream=None):
        print("this is no result")
        get_executor("emulator").launch(kernel, arguments, grid=grid)
        arguments[1].flat[3] ^= 1
class Idle(Slow):
    def launch(self, kernel, arguments, *, grid=None, stream=None): pass
class Broken(Slow):
    def launch(self, kernel, arguments, *, grid=None, stream=None): raise KeyError("who")
"""
EXECUTOR_POINTS = {"slow": "mine:Slow", "wrong": "mine:Wrong", "idle": "mine:Idle", "broken": "mine:Broken"}


HEEDING = [sys.executable, "-c", """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""]  # fmt: skip
"""Starts a program that heeds signals, also where this one was started to ignore them (nohup, a job in the background)."""


@POSIX
@pytest.mark.parametrize("number", [getattr(signal, f"SIG{name}", None) for name in ("INT", "TERM", "HUP", "KILL")])
@pytest.mark.parametrize("old", [False, True])
def test_a_stopped_run_leaves_nothing_behind(
    number: int, old: bool, folder: Path, package: Callable[..., str], tmp_path: Path
) -> None:
    path = package("mine", EXECUTORS, executors=EXECUTOR_POINTS)
    if old:
        (folder / "out.npy").write_bytes(b"old")
    before = sorted(os.listdir())
    process = subprocess.Popen(
        [*HEEDING, *RUN, "run", "in.npy", "out.npy", "--executor", "slow", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "working\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=200)
    assert process.returncode == -number, "it ends as the signal ends a program"
    assert sorted(os.listdir()) == before and (not old or (folder / "out.npy").read_bytes() == b"old")
    if number != signal.SIGKILL:
        assert err == f"tilecopy: stopped by {signal.Signals(number).name}\n"
        assert json.loads(out)["error"]["type"] == "Stopped"


@POSIX
def test_signals_that_are_ignored_stay_ignored() -> None:
    """As `nohup` wants it."""
    code = """
import signal
from tilecopy_cli.standard_streams import Stopped, stop_signals
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with stop_signals():
    signal.raise_signal(signal.SIGHUP)
    try:
        signal.raise_signal(signal.SIGTERM)
    except Stopped as stopped:
        print(stopped)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "stopped by SIGTERM\n", done.stderr


def test_a_wrong_result_is_a_failure_that_writes_nothing(folder: Path, package: Callable[..., str]) -> None:
    path = package("mine", EXECUTORS, executors=EXECUTOR_POINTS)
    for name, count in (("wrong", 1), ("idle", 4800)):
        done = tilecopy("run", "in.npy", "out.npy", "--executor", name, "--json", PYTHONPATH=path)
        assert done.returncode == 1 and not (folder / "out.npy").exists()
        error = json.loads(done.stdout)["error"]
        assert error["type"] == "TilecopyError"
        assert f"verification failed: {count} of 4800 bytes differ" in error["message"]
    done = tilecopy("run", "in.npy", "out.npy", "--executor", "broken", PYTHONPATH=path)
    assert done.returncode == 1 and "KeyError" in done.stderr and "Traceback" not in done.stderr


def test_what_plugins_print_is_no_part_of_the_answer(folder: Path, package: Callable[..., str]) -> None:
    loud = "import os\nprint('hello')\nos.system('echo hello from a shell')\nos.write(1, b'hello from C\\n')\n"
    path = package("loud", f"{loud}raise ImportError('gone')", variants={"loud": "loud"})
    for arguments in (("variants",), ("doctor",), ("run", "in.npy", "out.npy", "--executor", "emulator")):
        done = tilecopy(*arguments, "--json", PYTHONPATH=path)
        assert done.returncode == 0 and json.loads(done.stdout) and "hello" not in done.stdout
        assert mentions("hello", "shell").search(done.stderr) and mentions("hello", "C").search(done.stderr)
        assert sum("gone" in line for line in done.stderr.splitlines()) == 1
        assert "hello" not in tilecopy(*arguments, PYTHONPATH=path).stdout


COMMANDS = """
import click
print("imported")
@click.command()
@click.option("--count", type=int)
def greet(count):
    "Greet someone."
    click.echo(f"good day {count}")
    return 7
@click.command()
def fail():
    "Fail."
    import tilecopy as tc
    raise tc.LaunchError("no luck")
@click.command()
@click.pass_context
def three(ctx):
    ctx.exit(3)
number = 3
"""


def test_packages_add_commands_that_load_when_they_are_asked_for(package: Callable[..., str]) -> None:
    points = {name: f"extra:{name}" for name in ("greet", "fail", "three", "number", "nothing")}
    path = package("extra", COMMANDS, commands={**points, "gone": "no_such_module:x", "run": "extra:greet"})
    done = tilecopy("greet", "--count", "3", PYTHONPATH=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "good day 3\n", "imported\n")
    assert tilecopy("three", PYTHONPATH=path).returncode == 3
    done = tilecopy("fail", PYTHONPATH=path)
    assert (
        done.returncode == 1
        and mentions("LaunchError", "no luck").search(done.stderr)
        and "Traceback" not in done.stderr
    )
    assert tilecopy("greet", "--count", "x", PYTHONPATH=path).returncode == 2
    for name, reason in (("gone", ("no_such_module",)), ("number", ("click.Command",)), ("nothing", ("nothing",))):
        done = tilecopy(name, PYTHONPATH=path)
        assert done.returncode == 1 and mentions(*reason).search(done.stderr) and "extra" in done.stderr, done
    done = tilecopy("variants", PYTHONPATH=path)
    assert done.returncode == 0 and done.stderr == "", "a broken or unasked command is not loaded"
    done = tilecopy("--help", PYTHONPATH=path)
    assert done.returncode == 0 and "Greet someone." in done.stdout and "Copy an array file" in done.stdout
    assert "imported" not in done.stdout
    assert sorted(line.split()[2] for line in done.stderr.splitlines() if line != "imported") == [
        "gone",
        "nothing",
        "number",
        "run",
    ]
    done = tilecopy("gret", PYTHONPATH=path)
    assert done.returncode == 2 and mentions("greet").search(done.stderr)


def test_two_packages_with_one_command_are_told(package: Callable[..., str]) -> None:
    package("first", COMMANDS, commands={"greet": "first:greet"})
    path = package("second", COMMANDS, commands={"greet": "second:greet"})
    done = tilecopy("greet", PYTHONPATH=path)
    assert done.returncode == 1 and "first" in done.stderr and "second" in done.stderr


# -------------------------------------------------------------------------------------------------- the input file


def npy(header: str | bytes, data: bytes = b"\0" * 64, *, version: int = 1, length: int | None = None) -> bytes:
    text = header.encode() if isinstance(header, str) else header
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(2 if version == 1 else 4, "little") + text + data


def header(shape: object, descr: object = "<f4", order: object = False) -> str:
    return repr({"descr": descr, "fortran_order": order, "shape": shape})


UNREAD = "not a valid .npy file: "
BAD_FILES = {
    "empty": (b"", UNREAD),
    "magic alone": (b"\x93NUMPY", UNREAD),
    "no header": (npy("", b""), UNREAD),
    "half a header": (npy(header((4,)), b"", length=400), UNREAD),
    "a version to come": (npy(header((4,)), version=9), UNREAD),
    "a header of 4 GB": (npy(header((4,)), version=2, length=2**32 - 1), str(2**32 - 1)),
    "terabytes": (npy(header((10**12,))), "4000000000000 bytes"),
    "more than numbers": (npy(header((10**26,))), f"{4 * 10**26} bytes"),
    "far more": (npy(header((10**30, 10**30))), "over 10**30"),
    "thousands of digits": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (%s,)}" % ("9" * 5000)), UNREAD),
    "a product": (npy(header((2**40, 2**40))), f"{2**82} bytes"),
    "one byte short": (npy(header((4,)), b"\0" * 15), "16 bytes"),
    "no elements, too wide": (npy(header((0, 10**26))), UNREAD),
    "100 dimensions": (npy(header((1,) * 100)), UNREAD),
    "a bool in the shape": (npy(header((True, 4))), "(True, 4)"),
    "a negative extent": (npy(header((-1,))), "(-1,)"),
    "a float": (npy(header((2.0,))), UNREAD),
    "a list": (npy(header([4])), UNREAD),
    "an integer": (npy(header(4)), UNREAD),
    "order 1": (npy(header((4,), order=1)), UNREAD),
    "parentheses": (npy("(" * 5000 + ")" * 5000), UNREAD),
    "minus signs": (npy("-" * 60_000 + "1"), UNREAD),
    "brackets inside": (npy(header((4,)).replace("'<f4'", "[" * 9000)), UNREAD),
    "a call": (npy("__import__('os').system('true')"), UNREAD),
    "another key": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), 'x': 1}"), UNREAD),
    "latin-1 bytes": (npy(b"\xff\xfe\x00"), UNREAD),
    "no such dtype": (npy(header((4,), "<q9")), UNREAD),
    "a dtype of another kind": (npy(header((4,), {"a": 1})), UNREAD),
    "objects": (npy(header((4,), "|O")), "dtype('O')"),
    "objects in a record": (npy(header((4,), [("a", "<f4"), ("b", "|O")])), "('b', 'O')"),
    "no bytes": (npy(header((4,), "|V0")), f"{np.dtype('V0')!r}"),
    "unending strings": (npy(header((4,), "<U400000000")), f"{16 * 400000000} bytes"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_lie_are_one_line(name: str, folder: Path) -> None:
    data, message = BAD_FILES[name]
    (folder / "bad.npy").write_bytes(data)
    done = copied(source="bad.npy")
    assert done.exit_code == 1 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert len(done.stderr) < 400 and not (folder / "out.npy").exists()


GOOD_FILES = {
    "version 2": npy(header((4, 4)), version=2),
    "version 3": npy(header((2,), [("größe", "<f4"), ("✓", "<i4")]), bytes(16), version=3),
    "big-endian": npy(header((4, 4), ">f4"), bytes(range(64))),
    "python 2": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4L, 4L), }"),
    "more than it needs": npy(header((2,))),
    "nothing": npy(header((0, 4)), b""),
    "fortran": npy(header((2, 4), order=True), bytes(range(32))),
    "scalar": npy(header((), "<f8"), b"12345678"),
    "nested record": npy(header((2,), [("a", [("b", "<i2", (3,))]), ("c", "|b1")]), bytes(range(14))),
}


@pytest.mark.filterwarnings("ignore:Reading .*Python 2")
@pytest.mark.parametrize("name", GOOD_FILES)
def test_every_form_of_file_is_copied(name: str, folder: Path) -> None:
    (folder / "good.npy").write_bytes(GOOD_FILES[name])
    done = copied(source="good.npy")
    assert done.exit_code == 0, done.stderr
    made = (folder / "out.npy").read_bytes()
    assert GOOD_FILES[name].startswith(made) and (name == "more than it needs" or made == GOOD_FILES[name])


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_is_read_in_its_order(order: Literal["C", "F"], mapped: bool, folder: Path) -> None:
    array = np.arange(24.0).reshape(2, 3, 4).copy(order)
    np.save("in.npy", array)
    found = read_npy("in.npy", mapped=mapped)
    assert np.array_equal(found.array, array) and found.array.strides == array.strides
    assert Path("in.npy").read_bytes() == found.header + array.tobytes("A")


@POSIX
def test_only_files_are_read(folder: Path) -> None:
    os.mkfifo("fifo")
    for name in ("fifo", ".", "/dev/zero"):
        done = copied(source=name)
        assert done.exit_code == 1 and mentions(name).search(done.stderr), done.stderr
    done = copied(source="a" * 300)
    assert done.exit_code == 1 and os.strerror(errno.ENAMETOOLONG) in done.stderr


def test_a_file_that_changes_while_it_is_read_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = np.fromfile

    def meanwhile(*arguments: Any) -> Any:
        elements = read(*arguments)
        os.utime("in.npy", ns=(1, 1))
        return elements

    monkeypatch.setattr(np, "fromfile", meanwhile)
    done = copied()
    assert done.exit_code == 1 and mentions("in.npy").search(done.stderr)
    assert not (folder / "out.npy").exists()


def test_a_file_that_others_change_is_not_lost(
    folder: Path, package: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilecopy_cli import run as run_module

    build = run_module.tiled_copy

    def meanwhile(*arguments: Any) -> Any:
        np.save("in.npy", np.ones(7))
        return build(*arguments)

    monkeypatch.setattr(run_module, "tiled_copy", meanwhile)
    done = copied("in.npy")
    assert done.exit_code == 1 and mentions("in.npy").search(done.stderr) and np.load("in.npy").shape == (7,)
    np.save("in.npy", np.arange(1200, dtype=np.float32))
    assert copied("out.npy").exit_code == 0, "what was read is copied; later changes are another job's"
    assert np.load("out.npy").tolist() == list(range(1200))


# ------------------------------------------------------------------------------------------------- words and streams

ODD = (
    "0",
    "-1",
    "",
    " ",
    "1e9",
    "nan",
    "inf",
    "é",
    "128\u00d764",
    str(10**30),
    "9" * 5000,
    "0x10",
    "1.5",
    "[red]",
    "\udcff",
)
WRONG = {
    "--tile": (*ODD, "0x0", "1x0", "3x", "10x10x10", "99999999999x1", "1x2147483648"),
    "--threads": (*ODD, "1025"),
    "--swizzle": (*ODD, "128b", "16B"),
    "--pad": (*ODD[1:], "1000000"),
    "--variant": (*ODD, "GMEM"),
    "--target": (*ODD, "sm90", "sm_90A", "hopper"),
    "--executor": (*ODD, "gpu"),
}


@pytest.mark.parametrize("option", WRONG)
def test_odd_values_are_one_line_of_wrong_usage(option: str, folder: Path) -> None:
    for value in WRONG[option]:
        done = here("run", "in.npy", "out.npy", "--executor", "emulator", option, value)
        assert done.exit_code == 2 and done.stderr.count("\n") == 1, (value, done.stderr)
        assert option in done.stderr and len(done.stderr) < 900
    for name in ("", "out/"):
        assert here("run", "in.npy", name).exit_code == 2 and here("run", name, "out.npy").exit_code == 2
    assert sorted(os.listdir()) == ["in.npy"]


COPIED = ("global float16 [64, 64] [bx*8 : bx*8+8, :]", "shared float16 [8, 64]")
LOWERED = {
    "--src-layout": "TileLayout(S[64, 64])",
    "--dst-layout": "TileLayout(S[8, 64])",
    "--scope": "cta:32",
    "--op": "copy",
    "--target": "sm_90",
    "--variant": "gmem_smem",
    "--outside": "zero",
}
DRAWN = {"-o": "copy.svg", "--kind": "moves", "--select": "warp 0", "--width": "960"}
SIDE = {"shape": [32], "extents": [32], "starts": [{"base": 0, "terms": []}], "iters": [[32, 1, "m"]], "replica": []}
SIDE |= {"offset": [], "swizzle": None, "storage_offset": 0, "align_bytes": 16}
COPY = {"op": "copy", "dtype": "int8", "scope": "warp", "threads": 32, "target": "sm_90"}
CASE = json.dumps(COPY | {"dst": SIDE | {"space": "shared"}, "src": SIDE | {"space": "global"}})
"""A copy as `tilecopy testkit replay` reads it."""
GOOD: dict[tuple[str, ...], tuple[tuple[str, ...], dict[str, str]]] = {
    ("run",): (
        ("in.npy", "out.npy"),
        {
            "--tile": "4x8",
            "--threads": "32",
            "--swizzle": "32B",
            "--pad": "0",
            "--variant": "gmem_smem",
            "--target": "sm_90",
            "--executor": "emulator",
        },
    ),
    ("plan",): (COPIED, LOWERED),
    ("compare",): (COPIED, {option: word for option, word in LOWERED.items() if option != "--variant"}),
    ("ptx",): (COPIED, LOWERED),
    ("draw",): (COPIED, LOWERED | DRAWN),
    ("cuda",): (COPIED, LOWERED | {"--name": "load_tile"}),
    ("variants",): ((), {}),
    ("doctor",): ((), {}),
    ("emulate",): (
        ("kernel.ptx", "zeros:float32:4", "3", "1.5"),
        {
            "--entry": "k",
            "--target": "sm_90",
            "--nvrtc": "-DN=4",
            "--annotations": "github",
            "--grid": "1",
            "--block": "1",
            "--cluster": "1",
            "--dynamic-shared": "0",
            "--set": "v=1",
            "--save": "a=saved.npy",
            "--allow": "same-value",
        },
    ),
    ("relayout",): (
        ("in.npy", "out.npy"),
        {
            "--axes": "(a p) b -> p a b",
            "--size": "p=4",
            "--max-memory": "4096",
            "--target": "sm_90",
            "--executor": "emulator",
        },
    ),
    ("testkit", "campaign"): (
        (),
        {
            "--requests": "1",
            "--seed": "1",
            "--variants": "gmem_smem",
            "--scheduler": "tcp://127.0.0.1:1",
            "--workers": "0",
            "--checkpoint": "campaign.jsonl",
            "--report": "campaign.md",
            "--save-failures": "failures.jsonl",
        },
    ),
    ("testkit", "replay"): ((CASE,), {"--variant": "gmem_smem"}),
    ("testkit", "audit-declines"): (("gmem_smem",), {"--requests": "1"}),
    ("new-variant",): (
        ("mine",),
        {"--op": "copy", "--from": "global", "--to": "shared", "--directory": "package"},
    ),
}
"""A good line of every command, each option with a value."""
PTX = """
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .u32 v;
.visible .entry k(.param .u64 a, .param .u32 n, .param .f32 f) { ret; }
"""
WORDS = (
    *ODD,
    "x",
    "None",
    "()",
    "(" * 999,
    "1,2",
    "1x2",
    "1,1,1,1",
    "in.npy",
    ".",
    "/proc/self/mem",
    "zeros:float32:9999999999999",
    "zeros:float32:9999999999999999999x9999999999999999999",
    f"zeros:float32:{'9' * 5000}",
    f"zeros:float32:1{'x1' * 99}",
    "zeros:object:4",
    "arange:V3:4",
    "a b -> b a",
    f"(a p) b -> p a b{' ' * 99_000}",
    "sm_90",
    "cuda",
    "emulator",
    "p=0",
    f"p={'9' * 5000}",
    f"cta:{'9' * 5000}",
    f"{'9' * 4000}B",
    "\x1b[31m",
    "a\nb",
    "\u202e",
)


def line_of(command: tuple[str, ...], words: tuple[str, ...], options: dict[str, str]) -> list[str]:
    return [*command, *words, *(part for option in options.items() for part in option)]


def all_commands(group: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every command that is installed, by the words that it is called by."""
    found: dict[tuple[str, ...], Any] = {}
    for name in group.list_commands(click.Context(group)):
        each = group.get_command(click.Context(group), name)
        found |= all_commands(each, (*path, name)) if isinstance(each, click.Group) else {(*path, name): each}
    return found


def test_every_option_of_every_command_has_a_good_value() -> None:
    for path, each in all_commands(command).items():
        options = {o.opts[0] for o in each.params if isinstance(o, click.Option) and not o.is_flag}
        assert options == set(GOOD[path][1]), path
        assert any(isinstance(o, click.Argument) for o in each.params) == bool(GOOD[path][0]), path


@pytest.mark.parametrize("path", GOOD)
def test_odd_words_in_every_place_work_or_are_refused_as_the_callers(path: tuple[str, ...], folder: Path) -> None:
    Path("kernel.ptx").write_text(PTX)
    words, options = GOOD[path]
    lines = [line_of(path, (*words[:n], word, *words[n + 1 :]), options) for word in WORDS for n in range(len(words))]
    lines += [line_of(path, words, options | {option: word}) for word in WORDS for option in options]
    lines += [[*line_of(path, words, options), word] for word in WORDS]
    wrong = []
    good = line_of(path, words, options)
    for line in [good, *lines]:
        shutil.rmtree("package", ignore_errors=True)
        done = here(*line)
        told = done.stderr.replace("\n", "")
        if (
            done.exit_code not in range(5 if path == ("emulate",) else 3)
            or "(unexpected;" in told
            or not told.isprintable()
        ):
            wrong.append((line, done.exit_code, done.stderr[:300]))
        if bool(done.exit_code) != bool(told) or (line is good and done.exit_code):
            wrong.append((line, done.exit_code, done.stderr[:300]))
    assert not wrong, "\n".join(ascii(each)[:600] for each in wrong)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("rnu",), "run"),
        (("run", "in.npy", "out.npy", "--swizle", "32B"), "--swizzle"),
        (("run", "in.npy", "out.npy", "--swizzle", "128b"), "128B"),
        (("run", "in.npy", "out.npy", "--target", "sm90a"), "sm_90a"),
        (("run", "in.npy", "out.npy", "--variant", "gmem-smem"), "gmem_smem"),
        (("run", "in.npy", "out.npy", "--executor", "Emulator"), "emulator"),
        (("plan", "globl float16 [8]", "shared float16 [8]"), "global"),
        (("plan", "global bflot16 [8]", "shared bflot16 [8]"), "bfloat16"),
        (("plan", "gmen int8 [8]", "shared int8 [8]"), "global"),
        (("plan", "global int8 [8]", "shared int8 [8]", "--scope", "wrap"), "warp"),
        (("plan", "global int8 [8]", "shared int8 [8]", "--op", "copyasync"), "copy_async"),
        (("plan", "global int8 [8]", "shared int8 [8]", "--dst-layout", "TileLayuot(S[8])"), "TileLayout"),
    ],
)
def test_near_misses_are_told(arguments: tuple[str, ...], meant: str, folder: Path) -> None:
    done = here(*arguments)
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert mentions(meant).search(done.stderr)


EXPRESSIONS = [
    "(" * 3000 + "1" + ")" * 3000,
    "-" * 3500 + "1",
    "1" + "+1" * 1900,
    "1" * 3900,
    "S[" + "1," * 5000 + "1]",
    "(1,) * 10",
    "'a' * 1000000000",
    "'%1000000000d' % 1",
    "2 ** 1000000000",
    "1 << 1000000000",
    "4611686018427387904 * 4611686018427387904",
    "1 // 0",
    "S[1 % 0]",
    "S[0]",
    "S[1 : 2 : 3]",
    "S[:]",
    "S[8] @ 3",
    "S",
    "laneid",
    "laneid(3)",
    "S.__class__",
    "(lambda: 1)()",
    "[1 for _ in S]",
    "Swizzle(1000000000000, 1, 1)",
    "Swizzle('a', 1, 1)",
    "Swizzle(1)",
    "swizzle(1, 2)",
    "swizzle('1B', 'float32')",
    "SwizzledLayout(1, 2)",
    "TileLayout(*S)",
    "TileLayout(**S)",
    "TileLayout()",
    "f'{S}'",
    "True",
    "... + 1",
    "S[...]",
    "1.5",
    "\0",
    "",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_are_safe_and_bounded(expression: str) -> None:
    wide, tile = "global float32 [64, 64]", "shared float32 [64, 64]"
    for arguments in (
        (wide, tile, "--dst-layout", expression),
        (f"global float32 [{expression}]", tile),
        (f"{wide} [{expression}]", tile),
        (expression, tile),
    ):
        done = here("plan", *arguments)
        assert done.exit_code == 2 and "(unexpected;" not in done.stderr, (arguments, done.stderr)
        assert done.stderr.count("\n") == 1


def test_errors_name_no_line_of_the_command_itself() -> None:
    for arguments in (
        ("global int8 [8]", "shared int8 [9]"),
        ("shared int8 [32, 32]", "local int8 [32, 32]", "--scope", "warp"),
    ):
        done = here("ptx", *arguments, "--variant", "ldmatrix")
        assert done.exit_code in (1, 2) and "int8" in done.stderr and ".py" not in done.stderr, done.stderr


def test_spaces_of_a_new_variant_have_their_shorter_names(tmp_path: Path) -> None:
    words = ("new-variant", "shorter", "--to", "smem", "--directory", str(tmp_path / "shorter"))
    done = here(*words, "--from", "gmem")
    assert (
        done.exit_code == 0
        and '("global", "shared")' in (tmp_path / "shorter/src/tilecopy_shorter/__init__.py").read_text()
    )
    done = here(*words, "--from", "globl")
    assert done.exit_code == 2 and mentions("global").search(done.stderr)


def test_a_fragment_larger_than_memory_is_refused() -> None:
    done = here("ptx", "global uint8 [4611686018427387904]", "local uint8 [4611686018427387904]", "--scope", "thread")
    assert done.exit_code == 2 and mentions(4611686018427387904).search(done.stderr)


def test_json_is_all_of_standard_output_whatever_happens(folder: Path) -> None:
    kinds = {}
    for arguments in (
        ("run", "nofile.npy", "out.npy"),
        ("run", "in.npy"),
        ("run", "in.npy", "out.npy", "--nonsense"),
        ("nonsense",),
        ("plan", "global int8 [8]", "shared int8 [9]"),
        ("plan", "global int8 [8]", "global int8 [8]", "--scope", "cta:3"),
        ("ptx", "global int8 [8]", "global int8 [8]", "--scope", "cta:3"),
    ):
        done = here(*arguments, "--json")
        data = json.loads(done.stdout)
        assert list(data) == ["error"] and set(data["error"]) == {"type", "message"} and done.stderr
        kinds[data["error"]["type"]] = done.exit_code
    assert kinds == {"FileError": 1, "UsageError": 2, "RequestError": 2, "NoVariantError": 1}, kinds
    assert (
        ".visible .entry"
        in json.loads(here("ptx", "global int8 [96]", "shared int8 [96]", "--scope", "cta:3", "--json").stdout)["ptx"]
    )


def test_messages_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    say("a plugin's \x1b[31m\rwords\nin two lines")
    assert capsys.readouterr().err == "a plugin's \\x1b[31m\\rwords\nin two lines\n"


def test_what_follows_two_dashes_is_no_option(folder: Path) -> None:
    done = here("run", "--", "--json", "out.npy")
    assert done.exit_code == 1 and mentions("--json").search(done.stderr) and done.stdout == ""


def stream_case(redirection: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command whose streams the shell has prepared."""
    line = f'"$0" -c "from tilecopy_cli import main; main()" "$@" {redirection}'
    return subprocess.run(["bash", "-c", line, sys.executable, *arguments], capture_output=True, text=True, check=False)


PLAN = ("plan", "global float16 [4096, 64]", "shared float16 [4096, 64]")


@POSIX
@pytest.mark.parametrize("arguments", [PLAN, (*PLAN, "--json"), ("--help",), ("--version",), ("variants",)])
def test_standard_output_that_takes_nothing(arguments: tuple[str, ...]) -> None:
    full = stream_case(">/dev/full", *arguments)
    assert full.returncode == 1 and full.stderr.count("\n") == 1 and os.strerror(errno.ENOSPC) in full.stderr
    closed = stream_case(">&-", *arguments)
    assert closed.returncode in ((0, 1) if arguments[0].startswith("--") else (1,)), closed
    assert len(closed.stderr.splitlines()) <= 1
    # A reader that has gone ends it as it ends cat: quietly, by SIGPIPE.
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        gone = subprocess.run([*RUN, *arguments], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert gone.returncode == -signal.SIGPIPE and gone.stderr == ""


@POSIX
def test_errors_keep_their_status_when_nobody_can_read_them(folder: Path) -> None:
    for redirection in ("2>/dev/full", "2>&-", "2>&- >&-", "2>&- >&- <&-", "2>/dev/full >/dev/full"):
        assert stream_case(redirection, "run", "nofile.npy", "out.npy", "--json").returncode == 1
        assert stream_case(redirection, "run", "in.npy", "out.npy", "--tile", "0").returncode == 2


@POSIX
def test_closed_streams_are_not_taken_for_the_output(folder: Path) -> None:
    for redirection, status in ((">&-", 1), ("2>&-", 0), (">&- 2>&- <&-", 1), (">/dev/full", 1)):
        Path("out.npy").unlink(missing_ok=True)
        done = stream_case(redirection, "run", "in.npy", "out.npy", "--executor", "emulator")
        assert done.returncode == status, (redirection, done)
        assert (folder / "out.npy").read_bytes() == (folder / "in.npy").read_bytes()


def test_names_are_never_markup_and_never_move_the_cursor(folder: Path) -> None:
    for name in ("x[/red].npy", "[bold]y[", ":smile:.npy", "a  b\n\x1b[31m.npy", "\udcff.npy"):
        (folder / name).parent.mkdir(exist_ok=True)
        done = here("run", "in.npy", name, "--executor", "emulator")
        assert done.exit_code == 0 and (folder / name).exists(), done.stderr
        assert "\x1b" not in done.stdout and (name in done.stdout or ascii(name) in done.stdout)
        assert "\x1b" not in here("run", name + "?", "out.npy").stderr


def test_tables_fit_80_columns(folder: Path) -> None:
    for arguments in (
        ("variants",),
        ("doctor",),
        ("run", "in.npy", "out.npy", "--executor", "emulator", "--tile", "32x16"),
    ):
        for columns in (80, 60, 40):
            done = here(*arguments, COLUMNS=str(columns))
            assert done.exit_code == 0, done.output
            for line in done.stdout.splitlines():  # a path may be wider, alone on its line
                assert len(line) <= columns or re.fullmatch(r" *\S*/\S*", line), line
            words = done.stdout.split()
            assert "gmem_smem" in words and "…" not in done.stdout, "names stay whole"
            if arguments == ("variants",):
                assert {"ragged_async", "copy_async", "sm_100a", "(tilecopy-tma"} <= set(words), columns
    assert max(map(len, here("variants", COLUMNS="").stdout.splitlines())) > 80, "lines stay whole in a pipe"


def test_doctor_says_what_works(tmp_path: Path, package: Callable[..., str]) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ptxas").write_bytes(b"\x7fELF")
    (tools / "ptxas").chmod(0o755)
    path = package("mine", EXECUTORS, executors={**EXECUTOR_POINTS, "absent": "mine:Absent"})
    found = {
        row["what"]: row
        for row in json.loads(
            tilecopy("doctor", "--json", PATH=f"{tools}:{os.environ['PATH']}", PYTHONPATH=path).stdout
        )
    }
    assert not found["assembler ptxas"]["found"] and str(tools / "ptxas") in found["assembler ptxas"]["detail"]
    assert found["executor slow"]["found"] and not found["executor absent"]["found"]
    (tools / "ptxas").write_text("#!/bin/sh\nexit 0\n")
    rows = json.loads(tilecopy("doctor", "--json", PATH=f"{tools}:{os.environ['PATH']}").stdout)
    assert not next(row for row in rows if row["what"] == "assembler ptxas")["found"], "it names no release"


def test_doctor_names_an_executor_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilecopy.executors import unavailable_reason
    from tilecopy_cli import doctor

    if unavailable_reason("cuda") is None:
        pytest.skip("this machine has a GPU")
    assert "kernels run on the emulator" in doctor.check_machine()[0].detail
    monkeypatch.setattr(doctor, "executors", lambda: {"cuda": "tilecopy-cuda 0"})
    assert "pip install plugins/emulator" in doctor.check_machine()[0].detail


def test_progress_counts_tiles(folder: Path) -> None:
    from tilecopy_cli.job import Job
    from tilecopy_cli.run import copy_file

    np.save("big.npy", np.zeros((1000, 700), np.float32))
    seen: list[tuple[int, int]] = []
    copy_file(
        Path("big.npy"), Path("out.npy"), Job(tile=(4, 4), threads=16, executor="emulator"), lambda *at: seen.append(at)
    )
    assert seen[0] == (0, 250 * 175) and seen[-1] == (250 * 175, 250 * 175) and seen == sorted(seen)
    assert max(b - a for (a, _), (b, _) in itertools.pairwise(seen)) <= 250 * 175 / 20, "it moves all the time"


def test_help_and_version() -> None:
    assert here("--version").output.startswith("tilecopy, version ")
    nothing = here()
    assert nothing.exit_code == 2 and mentions("tilecopy").search(nothing.stderr) and nothing.stdout == ""
    for name in ("run", "plan", "ptx", "cuda", "variants", "doctor"):
        assert name in here("--help").stdout and "--json" in here(name, "--help").stdout
