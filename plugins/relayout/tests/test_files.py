"""``tilecopy relayout``: files in, files out, in pieces, verified."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tilecopy_test_helpers import fake_gpu
from tilecopy_test_helpers.mentions import mentions

pytest.importorskip("click")
pytest.importorskip("rich")

from tilecopy import RequestError
from tilecopy_cli import npy
from tilecopy_cli.builtin_commands import tilecopy
from tilecopy_cli.file_errors import FileError
from tilecopy_relayout.files import npy_files as files
from tilecopy_relayout.planner import plan as planner
from tilecopy_test_helpers import fake_planner

A = np.random.default_rng(0).integers(0, 256, 6 * 8 * 5 * 4, np.uint8).view(np.float32).reshape(6, 8, 5)


@pytest.fixture(autouse=True)
def standin_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    """What moves the words is not what is tested here."""
    monkeypatch.setattr(planner, "plan_of", fake_planner.plan_of)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    np.save(tmp_path / "in.npy", A)
    return tmp_path / "in.npy"


def ran(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as ended:
        tilecopy.main(["relayout", *map(str, words)])
    said = capsys.readouterr()
    assert ended.value.code == 0, said.err
    return said.out


def failed(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        tilecopy.main(["relayout", *map(str, words)])
    return int(str(ended.value.code)), capsys.readouterr().err


def same(path: Path, expected: Any) -> bool:
    found = np.load(path, allow_pickle=False)
    return found.shape == expected.shape and found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_a_permutation(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = stored.with_name("out.npy")
    said = " ".join(
        ran(capsys, stored, out, "--axes", "2,0,1", "--executor", "emulator").split()
    )  # lines break where they may
    assert same(out, A.transpose(2, 0, 1))
    assert "float32[6, 8, 5] by 2,0,1 to [5, 6, 8], 960 bytes, 1 piece, sm_90" in said
    assert "moved 1920 bytes (read + written)" in said and "verified: all 960 bytes" in said and f"wrote {out}" in said


def test_a_pattern_in_pieces_as_json(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = stored.with_name("out.npy")
    words = (stored, out, "--axes", "a (b c) d -> (d a) c b", "--size", "b=2", "--max-memory", "0.1KiB", "--json")
    said = json.loads(ran(capsys, *words, "--executor", "emulator"))
    assert same(out, A.reshape(6, 2, 4, 5).transpose(3, 0, 2, 1).reshape(30, 4, 2))
    assert (said["shape"], said["result_shape"], said["bytes"]) == ([6, 8, 5], [30, 4, 2], 960)
    assert said["pieces"] == 30 and said["executor"] == "emulator" and said["gb_per_s_read_and_written"] > 0


@pytest.mark.parametrize("dtype", ["u1", ">i2", "c16", "V3", "M8[ns]", "U2", [("x", "u1"), ("y", "<f8")]])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dtypes_and_orders(tmp_path: Path, dtype: Any, order: str) -> None:
    array = np.zeros((3, 4, 5), dtype, order=order)
    flat = np.random.default_rng(0).integers(0, 256, array.nbytes, np.uint8)
    array[...] = flat.view(array.dtype).reshape(3, 4, 5)
    np.save(tmp_path / "in.npy", array)
    files.relayout_file(tmp_path / "in.npy", tmp_path / "out.npy", "1,2,0", executor="emulator", max_memory_bytes=64)
    assert same(tmp_path / "out.npy", array.transpose(1, 2, 0))


@pytest.mark.parametrize(("shape", "axes"), [((), " -> "), ((0, 3), "1,0"), ((1, 1), "1,0")])
def test_small_arrays(tmp_path: Path, shape: tuple[int, ...], axes: str) -> None:
    np.save(tmp_path / "in.npy", np.full(shape, -0.0))
    files.relayout_file(tmp_path / "in.npy", tmp_path / "out.npy", axes, executor="emulator")
    assert same(tmp_path / "out.npy", np.full(shape, -0.0).T)


def test_progress_counts_the_bytes_of_the_result(stored: Path) -> None:
    seen: list[tuple[int, int]] = []
    outcome = files.relayout_file(
        stored,
        stored.with_name("o.npy"),
        "2,1,0",
        executor="emulator",
        max_memory_bytes=400,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert len(seen) == outcome.pieces == 5 and seen[-1] == (960, 960) and seen == sorted(seen)


def test_through_the_gpu_in_pieces(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = fake_gpu.machine_with_gpu(monkeypatch)
    machine.gpu.free_bytes = 500
    outcome = files.relayout_file(stored, stored.with_name("out.npy"), "2,1,0")
    assert same(stored.with_name("out.npy"), A.transpose(2, 1, 0))
    assert (outcome.executor, outcome.pieces, outcome.runs) == ("cuda", 5, 3)
    assert outcome.seconds == pytest.approx(5 * 2e-3) and max(machine.gpu.allocated) <= 200


@pytest.mark.parametrize("existing", [None, b"before"])
def test_a_result_that_differs_is_not_written(
    stored: Path, monkeypatch: pytest.MonkeyPatch, existing: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def forgets(self: Any, source: Any, result: Any, stream: Any) -> None:
        fake_planner.words(result)[...] = fake_planner.words(source)
        fake_planner.words(result)[..., -1, :] ^= 1

    monkeypatch.setattr(fake_planner.Plan, "_on_arrays", forgets)
    out = stored.with_name("out.npy")
    if existing is not None:
        out.write_bytes(existing)
    status, said = failed(capsys, stored, out, "--axes", "2,1,0", "--executor", "emulator")
    assert status == 1 and "verification failed: 40 words of 4 bytes in piece 1 differ from NumPy's; nothing" in said
    assert (out.read_bytes() if out.exists() else None) == existing


def test_a_file_that_changes_is_noticed(stored: Path) -> None:
    def touch(done: int, total: int) -> None:
        os.utime(stored, ns=(1, 1))

    out = stored.with_name("out.npy")
    with pytest.raises(FileError):
        files.relayout_file(stored, out, "2,1,0", executor="emulator", max_memory_bytes=400, progress=touch)
    assert not out.exists()


def test_an_input_that_shrinks_while_it_is_read_is_an_error(stored: Path) -> None:
    def truncate(done: int, total: int) -> None:
        os.truncate(stored, 200)

    before = sorted(os.listdir(stored.parent))
    with pytest.raises(FileError, match=re.escape(stored.name)):
        files.relayout_file(
            stored, stored.with_name("out.npy"), "2,1,0", executor="emulator", max_memory_bytes=400, progress=truncate
        )
    assert sorted(os.listdir(stored.parent)) == before


@pytest.mark.parametrize("span_bytes", [1, 64, 1 << 18])
@pytest.mark.parametrize("order", ["C", "F"])
def test_pieces_are_read_in_spans_of_any_size(
    tmp_path: Path, order: str, span_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npy, "_SPAN_BYTES", span_bytes)
    array = np.arange(5 * 6 * 7, dtype=np.int16).reshape((5, 6, 7), order=order)
    np.save(tmp_path / "in.npy", array)
    files.relayout_file(tmp_path / "in.npy", tmp_path / "out.npy", "1,2,0", executor="emulator", max_memory_bytes=100)
    assert same(tmp_path / "out.npy", array.transpose(1, 2, 0))


def test_what_is_refused(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = stored.with_name("out.npy")
    with pytest.raises(FileError):
        files.relayout_file(stored, stored, "2,1,0", executor="emulator")
    with pytest.raises(RequestError, match=mentions("axes", 3)):
        files.relayout_file(stored, out, "1,0", executor="emulator")
    with pytest.raises(FileError, match="^-: "):
        files.relayout_file(stored, Path("-"), "2,1,0", executor="emulator")
    with pytest.raises(FileError):
        files.relayout_file(stored.with_name("none.npy"), out, "1,0")
    for words, message in (
        (("--axes", "a b -> b a"), "(6, 8, 5)"),
        (("--axes", "2,1,0", "--max-memory", "much"), "'much'"),
        (("--axes", "2,1,0", "--max-memory", "0"), "got '0'"),
        (("--axes", "2,1,0", "--size", "p"), "'p'"),
        (("--axes", "2,1,0", "--executor", "cudda"), "did you mean cuda"),
        ((), "--axes"),
    ):
        status, said = failed(capsys, stored, out, *words)
        assert status == 2 and message in said
    assert not out.exists()


def written(path: Path, header: str, elements: bytes, version: bytes = b"\x01\x00") -> Path:
    """A file with a header as other programs write it."""
    text = header.encode("utf8") + b"\n"
    path.write_bytes(
        b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + elements
    )
    return path


def header_text(path: Path) -> str:
    return path.read_bytes()[:300].partition(b"\n")[0].decode("utf8", "replace")


def test_names_of_fields_outside_of_latin_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """NumPy #7240: such names need a header of version 3.0."""
    array = np.zeros((2, 3), [("\u03c9", "f8"), ("b", "u1")])
    array["b"] = np.arange(6).reshape(2, 3)
    with pytest.warns(UserWarning, match="3.0"):
        np.save(tmp_path / "in.npy", array)
    ran(capsys, tmp_path / "in.npy", tmp_path / "out.npy", "--axes", "1,0", "--executor", "emulator")
    assert same(tmp_path / "out.npy", array.T)
    assert (tmp_path / "out.npy").stat().st_size - array.nbytes == (tmp_path / "in.npy").stat().st_size - array.nbytes


@pytest.mark.parametrize("shape", ["(np.int64(2), np.int64(3))", "(2L, 3L)", "(np.uint8(2), 3)"])
@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
def test_integers_that_are_not_literals(tmp_path: Path, shape: str, version: bytes) -> None:
    """NumPy #28334: open_memmap of NumPy 2 writes np.int64(2) into the header."""
    source = written(
        tmp_path / "in.npy", f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}", bytes(6), version
    )
    files.relayout_file(source, tmp_path / "out.npy", "1,0", executor="emulator")
    assert same(tmp_path / "out.npy", np.zeros((3, 2), np.uint8))


@pytest.mark.parametrize(
    ("descr", "itemsize"),
    [
        ("'<f1'", 1),
        ("'bfloat16'", 2),
        ("'float8_e4m3fn'", 1),
        ("'int4'", 1),
        ("[('a', '<f1'), ('b', '<i2')]", 3),
        ("'<V2'", 2),
    ],
)
@pytest.mark.parametrize("fortran_order", [False, True])
def test_elements_that_numpy_does_not_know(tmp_path: Path, descr: str, itemsize: int, fortran_order: bool) -> None:
    """ml_dtypes #179: np.save writes float8_e5m2 as <f1, which np.load refuses; a relayout needs the item's size alone."""
    elements = np.arange(6 * itemsize, dtype=np.uint8).tobytes()
    header = f"{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': (2, 3), }}"
    source = written(tmp_path / "in.npy", header, elements)
    files.relayout_file(source, tmp_path / "out.npy", "1,0", executor="emulator")
    expected = np.ndarray((2, 3), f"V{itemsize}", elements, order="F" if fortran_order else "C").T
    assert (tmp_path / "out.npy").read_bytes().endswith(expected.tobytes())
    assert descr in header_text(tmp_path / "out.npy") and "(3, 2)" in header_text(tmp_path / "out.npy")
    with pytest.raises(SystemExit) as ended:
        tilecopy.main(["run", str(source), str(tmp_path / "copy.npy"), "--executor", "emulator"])
    assert ended.value.code == 0 and (tmp_path / "copy.npy").read_bytes() == source.read_bytes()


def test_what_follows_the_array_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """NumPy #2922: two calls of np.save on one file, of which np.load reads the first."""
    with (tmp_path / "in.npy").open("wb") as file:
        np.save(file, A)
        first_bytes = file.tell()
        np.save(file, A)
    report = " ".join(
        ran(capsys, tmp_path / "in.npy", tmp_path / "out.npy", "--axes", "2,1,0", "--executor", "emulator").split()
    )
    assert f"{first_bytes} bytes after the array" in report and same(tmp_path / "out.npy", A.transpose(2, 1, 0))


@pytest.mark.parametrize(
    ("header", "word"),
    [
        ("{'descr': '<f4', 'fortran_order': False, 'shape': f(2)}", "f(2)"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': [2]}", "shape"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "-2"),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "fortran_order"),
        ("{'descr': '<f4', 'shape': (2,)}", "fortran_order"),
        ("{'descr': 'quaternion32', 'fortran_order': False, 'shape': (2,)}", "quaternion32"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", "'O'"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (10**3,)}", "10**3"),
        (f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(1,) * 65}}}", "shape"),
    ],
)
def test_headers_are_refused_with_what_they_say(tmp_path: Path, header: str, word: str) -> None:
    source = written(tmp_path / "in.npy", header, bytes(8))
    with pytest.raises(FileError) as caught:
        files.relayout_file(source, tmp_path / "out.npy", "0", executor="emulator")
    message = str(caught.value)
    assert word in message and "0x" not in message and str(source) in message


def test_an_archive_is_refused_with_the_way_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", A)
    with pytest.raises(FileError, match="unzip"):
        files.relayout_file(tmp_path / "in.npz", tmp_path / "out.npy", "2,1,0", executor="emulator")
    (tmp_path / "in.npy").write_bytes(b"\x93NUMPY\x09\x00" + bytes(80))
    with pytest.raises(FileError, match="9.0"):
        files.relayout_file(tmp_path / "in.npy", tmp_path / "out.npy", "2,1,0", executor="emulator")
