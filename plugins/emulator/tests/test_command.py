"""``tilecopy emulate``: any PTX file from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tilecopy import HazardError, LaunchError
from tilecopy_cli.builtin_commands import tilecopy
from tilecopy_cli.command import FileError
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_emulator.command import argument_of, emulate
from tilecopy_test_helpers.mentions import mentions

SAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "block_sum.ptx"
CUDA = Path(__file__).parent / "cuda"


def run(*words):
    return CliRunner().invoke(emulate, [str(word) for word in words])


def test_arrays_of_files_are_read_and_kept_on_demand(tmp_path):
    a, b = np.arange(100, dtype=np.float32), np.full(100, 2, np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    result = run(
        CUDA / "vector_add.ptx", tmp_path / "a.npy", tmp_path / "b.npy", "zeros:float32:100", 100, "--grid", 2, "--block", 64,
        "--save", f"vector_add_param_2={tmp_path / 'c.npy'}",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.output.startswith("vector_add: 128 threads, ")
    assert np.array_equal(np.load(tmp_path / "c.npy"), a + b)
    assert np.array_equal(np.load(tmp_path / "a.npy"), a)


def test_integers_are_decimal_or_hexadecimal():
    words = {"0x1f": 31, "-0X10": -16, "007": 7, "-12": -12}
    assert {word: argument_of(word) for word in words} == words


def test_standard_input_is_a_file_too():
    words = ["-", *["zeros:float32:4"] * 3, "4", "--block", "32"]
    text = (CUDA / "vector_add.ptx").read_bytes()
    result = CliRunner().invoke(emulate, words, input=text)
    assert result.exit_code == 0 and result.output.startswith("vector_add: 32 threads, "), result.output
    broken = CliRunner().invoke(emulate, words, input=b"\xff\xfe")
    assert isinstance(broken.exception, LaunchError) and not isinstance(broken.exception, FileError)


@pytest.mark.parametrize("name", [pytest.param("vector_add.cu", marks=pytest.mark.nvidia), "vector_add.ptx"])
def test_a_file_as_editors_on_windows_save_it_runs(tmp_path, name):
    """With a byte-order mark, and CRLF at the ends of lines."""
    file = tmp_path / name
    file.write_bytes(b"\xef\xbb\xbf" + (CUDA / name).read_bytes().replace(b"\n", b"\r\n"))
    result = run(file, *["zeros:float32:4"] * 3, "4", "--block", "32")
    assert result.exit_code == 0, result.output


def test_a_run_tells_of_its_progress():
    told = []
    text, array = (CUDA / "vector_add.ptx").read_text(), np.ones(40_000, np.float32)
    run_ptx(text, [array, array, array.copy(), 40_000], grid=400, block=128, progress=lambda *each: told.append(each))
    assert told[0] == (0, 400) and told[-1] == (400, 400) and len(told) > 10


def test_the_report_as_json_with_counters():
    words = [CUDA / "transpose.ptx", "arange:float32:64x64", "zeros:float32:64x64", 64, 64]
    result = run(*words, "--grid", "2,2", "--block", "32,8", "--profile", "--json")
    report = json.loads(result.output)
    assert (report["kernel"], report["threads"]) == ("transpose", 1024)
    assert report["instructions"]["st"] == 2 * 4 * 1024
    assert report["counters"]["shared_wavefronts"] == report["counters"]["shared_requests"]


@pytest.mark.parametrize("made", ["ones:int32:100", "random:float32:100", "random:int32:100", "arange:bfloat16:200"])
def test_made_up_arrays(made):
    result = run(CUDA / "vector_add.ptx", made, made, "zeros:float32:100", 100, "--block", 128)
    assert result.exit_code == 0, result.output


def test_a_type_that_numpy_lacks_names_its_package():
    program = "import sys; sys.modules['ml_dtypes'] = None\nfrom tilecopy_emulator.command import emulate; emulate()"
    words = [str(CUDA / "vector_add.ptx"), *["ones:bfloat16:4"] * 3, "4", "--block", "32"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "ml_dtypes" in done.stderr


def test_negative_numbers_are_arguments():
    result = run(CUDA / "vector_add.ptx", "zeros:float32:4", "zeros:float32:4", "zeros:float32:4", -1, "--block", 32)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "part"),
    [(["1", "--block", "32"], (4, "u64")), (["1", "2", "3", "ones:int32:4", "--block", "32"], ("vector_add", "u64")), ([], ("block",)), (["a.npy", "--block", "32"], ("a.npy",)),
     (["--block", "32", "--save", "x=y.npy"], ("x",)), (["--entry", "other", "--block", "32"], ("other",))],
)  # fmt: skip
def test_what_does_not_fit_is_one_of_our_errors(words, part):
    result = run(CUDA / "vector_add.ptx", *words)
    assert isinstance(result.exception, (FileError, LaunchError, UnsupportedPtxError))
    assert mentions(*part).search(str(result.exception))


@pytest.mark.parametrize(
    ("words", "part"),
    [(["several", "--block", "32"], "several"), (["--block", "0"], "--block"), (["zeros:float99:4", "--block", "32"], "float99"),
     (["--block", "32", "--save", "x"], "--save"), (["a\0.npy", "--block", "32"], ".npy"), (["--block", "32", "--save", "x=a\0.npy"], "--save")],
)  # fmt: skip
def test_words_that_mean_nothing_are_wrong_usage(words, part):
    result = run(CUDA / "vector_add.ptx", *words)
    assert result.exit_code == 2
    assert mentions(part).search(result.output)


def test_hazards_and_bad_files(tmp_path):
    result = run(CUDA / "vector_add.ptx", "zeros:float32:4", "zeros:float32:4", "zeros:float32:4", 5, "--block", 32)
    assert isinstance(result.exception, HazardError)
    (tmp_path / "bad.ptx").write_text("nothing of the sort")
    assert isinstance(run(tmp_path / "bad.ptx", "--block", 1).exception, UnsupportedPtxError)
    absent = run(tmp_path / "none.ptx", "--block", 1).exception
    assert isinstance(absent, LaunchError) and mentions(tmp_path / "none.ptx").search(str(absent))
    words = [*["zeros:float32:4"] * 3, 4, "--block", 32, "--save", f"0={tmp_path / 'no' / 'a.npy'}"]
    result = run(CUDA / "vector_add.ptx", *words)
    assert isinstance(result.exception, LaunchError) and str(tmp_path / "no") in str(result.exception)
    (tmp_path / "bytes.ptx").write_bytes(b"\xff\xfe\x00")
    binary = run(tmp_path / "bytes.ptx", "--block", 1).exception
    assert isinstance(binary, LaunchError) and mentions(tmp_path / "bytes.ptx", "PTX", ".cu").search(str(binary))
    assert run("a\0.ptx", "--block", 1).exit_code == 2
    pytest.importorskip("resource", reason="Windows has no FIFOs")
    os.mkfifo(tmp_path / "a.npy")  # nobody writes it: reading must not wait
    assert isinstance(run(CUDA / "vector_add.ptx", tmp_path / "a.npy", "--block", 1).exception, FileError)


@pytest.mark.parametrize("file", ["-", "k.txt"])
def test_cuda_cpp_that_is_read_as_ptx_is_said(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = "__global__ void f(int* x) { *x = 1; }"
    (tmp_path / "k.txt").write_text(source)
    done = CliRunner().invoke(emulate, [file, "zeros:int32:1", "--block", "1"], input=source)
    assert isinstance(done.exception, LaunchError) and mentions(".cu", ".cuh").search(str(done.exception))
    assert isinstance(CliRunner().invoke(emulate, ["-"], input="__GLOBAL__").exception, UnsupportedPtxError)


@pytest.mark.skipif(not SAMPLE.exists(), reason="this is not a checkout")
def test_the_sample_for_machines_without_a_compiler_has_a_race_at_its_line() -> None:
    result = run(SAMPLE, "ones:float32:1024", "zeros:float32:4", "--grid", 4, "--block", 256)
    assert isinstance(result.exception, HazardError) and result.exception.kind == "race"
    assert "block_sum.cu:8" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "status", "kind"),
    [
        (["--block", "32"], 0, ""),
        (["--block", "128"], 1, "HazardError"),
        (["--block", "0"], 2, "UsageError"),
        (["--annotations", "gitlab"], 2, "UsageError"),
        (["--no-such-option"], 2, "UsageError"),
        (["--target", "sm_7"], 2, "TargetError"),
        (["--entry", "none"], 3, "UnsupportedPtxError"),
        (["1", "--block", "32"], 3, "LaunchError"),
        (["--block", "32", "--grid", "65536,65535"], 4, "BudgetError"),
    ],
)
def test_exit_statuses_and_json_of_every_end(
    words: list[str], status: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    name, arguments = str(CUDA / "vector_add.ptx"), [*["zeros:float32:64"] * 3, "64" if status != 1 else "100"]
    if "--target" in words:
        (tmp_path / "k.cu").write_text("__global__ void k() {}")
        name, arguments = "k.cu", []
    with pytest.raises(SystemExit) as ended:
        tilecopy.main(["emulate", name, *arguments, *words, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert ended.value.code == status and data.get("error", {}).get("type", "") == kind


def test_a_refusal_is_an_annotation_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ptx").write_text("\n.nonsense\n")
    result = CliRunner().invoke(emulate, ["k.ptx", "--annotations", "github"])
    assert result.output.startswith("::error file=k.ptx,line=2,title=UnsupportedPtxError::")
    assert (
        CliRunner().invoke(emulate, ["none.ptx", "--annotations", "github"]).output.startswith("::error file=none.ptx,")
    )
