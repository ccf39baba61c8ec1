"""Kernels that were saved and loaded again: the same launches, the same refusals, and what other launchers read."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import os
import pickle
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers import byte_arrays, host_bytes
from tilecopy_test_helpers import programs as kernels
from tilecopy_test_helpers.drawn_records import RECORDED, raw_exceptions
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.saved_kernels import SAVED, drawn_back, gather, sized, tensor_copies


@pytest.mark.parametrize("name", SAVED)
def test_a_loaded_kernel_is_the_one_that_was_saved(name: str, tmp_path: Path) -> None:
    kernel = SAVED[name]()
    assert kernel.save(tmp_path / "one" / "deep") == tmp_path / "one" / "deep"
    loaded = tc.load_kernel(tmp_path / "one" / "deep")
    for field in (
        "name",
        "ptx",
        "target",
        "threads",
        "mutated_args",
        "cluster",
        "shared_bytes",
        "allocations",
    ):
        assert getattr(loaded, field) == getattr(kernel, field)
    assert loaded.explain() == kernel.explain() and repr(loaded) == repr(kernel)
    loaded.save(tmp_path / "two")
    for file in ("kernel.ptx", "launch.json"):
        assert (tmp_path / "one" / "deep" / file).read_text() == (tmp_path / "two" / file).read_text()


def test_a_loaded_kernel_runs_and_refuses_as_the_saved_one(tmp_path: Path) -> None:
    kernel = sized()
    loaded = tc.load_kernel(kernel.save(tmp_path))
    a = byte_arrays.random_array((16, 128), "float32")
    for each in (kernel, loaded):
        b = np.zeros((32, 128), "float32")
        each(a, b, 2, executor="emulator")
        assert byte_arrays.same_bytes(b[16:], a) and not b[:16].any()
    wrong: list[tuple[Any, ...]] = [
        (a, np.zeros((32, 128), "float32"), 3),  # past the end of B
        (a, np.zeros((30, 128), "float32"), 0),
        (a[:, :100].copy(), np.zeros((32, 100), "float32"), 0),
        (a.view("int32"), np.zeros((32, 128), "float32"), 0),
        (a, np.zeros((32, 128), "float32"), 5000),
    ]
    for arguments in wrong:
        said = []
        for each in (kernel, loaded):
            with pytest.raises(tc.LaunchError) as caught:
                each(*arguments, executor="emulator")
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_boxes_that_are_drawn_back_are_checked_and_moved_alike_after_loading(tmp_path: Path) -> None:
    kernel = drawn_back()
    assert "selp.b32" in kernel.ptx and "st.relaxed.gpu.global.v4" in kernel.ptx and "@" not in kernel.ptx
    record = json.loads((kernel.save(tmp_path) / "launch.json").read_text())
    assert record["grid"][0].startswith("min(") and not record["checks"]["bounds"], (
        "what is proved is not checked again"
    )
    for each in (kernel, tc.load_kernel(tmp_path)):
        for rows in (8, 9, 16, 23):
            a = byte_arrays.random_array((rows, 64), "float32")
            b = np.zeros_like(a)
            each(a, b, executor="emulator")
            assert byte_arrays.same_bytes(a, b)
        with pytest.raises(tc.LaunchError, match="M"):
            each(np.zeros((7, 64), "float32"), np.zeros((7, 64), "float32"), executor="emulator")


@pytest.mark.parametrize("name", ["lambda", "None", "if", "min", "ctaid_x", "in_"])
def test_a_size_is_called_as_its_owner_likes(name: str, tmp_path: Path) -> None:
    k = tc.KernelBuilder("k", threads=32)
    rows = k.size(name, lower=8)
    a, b, s = k.param("A", (rows,), "int32"), k.param("B", (rows,), "int32"), k.shared((8,), "int32")
    first = tc.minimum(k.block_id() * 8, rows - 8)
    k.cta.copy(s[:], a[first : first + 8])
    k.cta_sync()
    k.cta.copy(b[first : first + 8], s[:], relaxed=True)
    kernel = tc.load_kernel(k.build(target="sm_80", grid=(rows + 7) // 8).save(tmp_path))
    source, result = np.arange(29, dtype=np.int32), np.zeros(29, np.int32)
    kernel(source, result, executor="emulator")
    assert np.array_equal(result, source)


def test_an_index_out_of_its_bounds_is_a_hazard_after_loading_too(tmp_path: Path) -> None:
    loaded = tc.load_kernel(gather().save(tmp_path))
    a, rows = byte_arrays.random_array((20, 32), "float32"), np.array([3, 1, 19, 0, 0, 7, 8, 9], "int32")
    b = np.zeros((8, 32), "float32")
    loaded(a, rows, b, executor="emulator")
    assert byte_arrays.same_bytes(b, a[rows])
    rows[2] = 20
    with pytest.raises(tc.HazardError):
        loaded(a, rows, b, executor="emulator")


def test_the_record_alone_is_enough_for_another_launcher(tmp_path: Path) -> None:
    """As docs/export.md does it: parameters in order, sizes from the arrays' shapes, the grid evaluated."""
    sized().save(tmp_path)
    record = json.loads((tmp_path / "launch.json").read_text())
    a, b = byte_arrays.random_array((16, 128), "float32"), np.zeros((32, 128), "float32")
    given: dict[str, Any] = {"A": a, "B": b, "first": 1}
    for parameter in record["parameters"]:
        if parameter["kind"] == "size":
            source = parameter["read_from"][0]
            extent = given[source["array"]].shape[source["dim"]]
            given[parameter["name"]] = (extent - source["constant"]) // source["factor"]
    assert [p["name"] for p in record["parameters"] if p["kind"] == "array"] == ["A", "B"]
    grid = [eval(str(count), {}, given) for count in record["grid"]]
    run_ptx(
        (tmp_path / record["ptx"]).read_text(),
        [given[p["name"]] for p in record["parameters"]],
        entry=record["name"],
        grid=grid,
        block=record["block"],
        dynamic_shared_bytes=record["dynamic_shared_bytes"],
    )
    assert grid == [2, 2, 1] and byte_arrays.same_bytes(b[8:24], a)


def test_the_record_says_what_a_launch_needs(tmp_path: Path) -> None:
    kernel = kernels.round_trip((512, 256), (256, 128), "float32")
    kernel.save(tmp_path)
    record = json.loads((tmp_path / "launch.json").read_text())
    assert (
        record["dynamic_shared_bytes"] == 256 * 128 * 4
        and record["block"] == [128, 1, 1]
        and record["grid"] == [2, 2, 1]
    )
    assert record["parameters"][0] == {
        "name": "A", "kind": "array", "type": "pointer", "size_bytes": 8, "offset_bytes": 0, "dtype": "float32",
        "shape": [512, 256], "strides_elems": [256, 1], "align_bytes": 16, "written": False,
    }  # fmt: skip
    assert record["target"] == "sm_90a" and record["ptx_target"] == "sm_75"


def test_what_a_launch_makes_is_made_alike_after_loading(tmp_path: Path) -> None:
    a = byte_arrays.random_array((16, 128), "float32")
    for kernel in (tensor_copies(), tc.load_kernel(tensor_copies().save(tmp_path / "maps"))):
        b = np.zeros_like(a)
        kernel(a, b, executor="emulator")
        assert byte_arrays.same_bytes(b[:14], a[2:]) and not b[14:].any()
    rows = byte_arrays.random_array((5, 32), "float32")
    for kernel in (host_bytes.last_row(), tc.load_kernel(host_bytes.last_row().save(tmp_path / "bytes"))):
        row = np.zeros(32, "float32")
        kernel(rows, row, executor="emulator")
        assert byte_arrays.same_bytes(row, rows[4])
    for function, told in host_bytes.FAULTS.items():
        loaded = tc.load_kernel(host_bytes.last_row(function).save(tmp_path / function.__name__))
        with pytest.raises(tc.LaunchError, match=told):
            loaded(np.zeros((7, 32), "float32"), row, executor="emulator")


def last_row_of_five() -> tc.BuiltKernel:
    """A kernel whose host bytes are computed from integers alone."""
    k = tc.KernelBuilder("last_row", threads=32)
    a, tile = k.param("A", (5, 32), "float32"), k.shared((32,), "float32")
    k.warp.copy(tile[:], a[0, :], variant="last_row")
    return k.build(target="sm_90", grid=1, registry=host_bytes.registry())


def box_of_rows() -> tc.BuiltKernel:
    """A kernel with a tensor map of fixed sizes that does not begin at the array's first element."""
    k = tc.KernelBuilder("box", threads=32)
    a, tile, bar = k.param("A", (64, 32), "float32"), k.shared((8, 32), "float32"), k.mbarrier("bar")
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(tile[:, :], a[16:24, :], mbar=bar[0], variant="tma")
    return k.build(target="sm_90", grid=1)


@pytest.mark.parametrize("make", [last_row_of_five, box_of_rows])
def test_parameters_of_a_copied_or_loaded_kernel_are_equal(make: Callable[[], tc.BuiltKernel], tmp_path: Path) -> None:
    kernel = make()
    assert not kernel.parameters[-1].takes_argument
    loaded = tc.load_kernel(kernel.save(tmp_path))
    for other in (make(), copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel)), loaded):
        assert other.parameters == kernel.parameters
        assert list(map(hash, other.parameters)) == list(map(hash, kernel.parameters))


def test_the_record_says_how_a_parameter_is_made(tmp_path: Path) -> None:
    tensor_copies().save(tmp_path)
    record = json.loads((tmp_path / "launch.json").read_text())
    assert record["parameters"][4] == {
        "name": "A$map0", "kind": "tensor_map", "type": "bytes", "size_bytes": 128, "align_bytes": 64, "offset_bytes": 64,
        "array": "A", "start_bytes": 0, "dtype": "float32", "sizes": ["N", "M"], "strides_bytes": ["4 * N"],
        "box": [32, 8], "element_strides": [], "swizzle": "none", "fill": "zero",
    }  # fmt: skip
    assert record["parameters"][5]["offset_bytes"] == 192 and record["parameters_bytes"] == 320
    host_bytes.last_row().save(tmp_path)
    record = json.loads((tmp_path / "launch.json").read_text())
    assert record["parameters"][3] == {
        "name": "host$0", "kind": "host_bytes", "type": "bytes", "size_bytes": 16, "align_bytes": 16, "offset_bytes": 32,
        "function": "tilecopy_test_helpers.host_bytes:make", "arrays": ["A"], "numbers": ["rows", 32],
    }  # fmt: skip


def test_a_function_that_no_other_process_finds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = host_bytes.last_row()
    folder = kernel.save(tmp_path / "kernel")
    monkeypatch.setattr(host_bytes, "make", host_bytes.short)  # its name is another's now
    with pytest.raises(tc.RequestError, match=mentions("host$0", "host_bytes")):
        kernel.save(tmp_path / "other")
    monkeypatch.setattr(host_bytes.short, "__module__", "__main__")
    with pytest.raises(tc.RequestError, match=mentions("__main__")):
        host_bytes.last_row(host_bytes.short).save(tmp_path / "other")
    monkeypatch.delattr(host_bytes, "make")
    with pytest.raises(tc.LaunchError, match=mentions("host_bytes", "1.2")):
        tc.load_kernel(folder)


def test_a_recipe_of_what_no_launch_knows_is_refused() -> None:
    for number in (tc.symbol("mystery"), tc.symbol("mystery") * 8 + 3):
        with pytest.raises(tc.RequestError, match=mentions("host$0", "mystery")):
            host_bytes.last_row(more=(number,))
    other = tc.Buffer((8,), "float32", space="global", name="C")
    with pytest.raises(tc.RequestError, match=mentions("host$0", "C")):
        host_bytes.last_row(arrays=(other,))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m, b: m.update(array="C"), ("C", "array")),
        (lambda m, b: m.update(array="M"), ("M", "array")),
        (lambda m, b: m.update(sizes=["N", "ctaid_x"]), ()),
        (lambda m, b: m.update(sizes=["N"]), ("strides_bytes",)),
        (lambda m, b: m.update(sizes=["N", "evil()"]), ()),
        (lambda m, b: m.update(box=[32, 257]), ("box",)),
        (lambda m, b: m.update(box=[0, 8]), ("box",)),
        (lambda m, b: m.update(swizzle="256B"), ("swizzle",)),
        (lambda m, b: m.update(fill="one"), ("fill",)),
        (lambda m, b: m.update(fill="nan", dtype="int32"), ("fill", "nan")),
        (lambda m, b: m.update(dtype="int4"), ("int4",)),
        (lambda m, b: m.update(element_strides=[1]), ("element_strides",)),
        (lambda m, b: m.update(start_bytes=6), (6, "A")),
        (lambda m, b: m.update(start_bytes=-4), (4, "A")),
        (lambda m, b: m.update(start_bytes="M // 3"), (3, "A")),
        (lambda m, b: m.update(size_bytes=64), ("size_bytes",)),
        (lambda m, b: m.update(align_bytes=16), ("align_bytes",)),
        (lambda m, b: m.update(type="b64"), ("b64",)),
        (lambda m, b: b.update(function="host_bytes"), ("host_bytes",)),
        (lambda m, b: b.update(function="no.such.module:make"), ("no.such.module:make", "no")),
        (lambda m, b: b.update(function="tilecopy_test_helpers.host_bytes:made"), ("function", "module")),
        (lambda m, b: b.update(arrays=["rows"]), ("array",)),
        (lambda m, b: b.update(numbers=["other"]), ()),
        (lambda m, b: b.update(size_bytes=5000), ("size_bytes",)),
        (lambda m, b: b.update(align_bytes=3), ("align_bytes",)),
    ],
)
def test_a_recipe_that_no_kernel_has_is_refused(change: Any, said: tuple[object, ...], tmp_path: Path) -> None:
    records, folders = [], []
    for name in ("tensor maps", "bytes of a function"):
        folders.append(SAVED[name]().save(tmp_path / name))
        records.append(json.loads((folders[-1] / "launch.json").read_text()))
    before = [json.dumps(record) for record in records]
    change(records[0]["parameters"][4], records[1]["parameters"][3])
    (which,) = [index for index, record in enumerate(records) if json.dumps(record) != before[index]]
    (folders[which] / "launch.json").write_text(json.dumps(with_digest(records[which], folders[which])))
    with pytest.raises(tc.LaunchError, match=mentions(*said)):
        tc.load_kernel(folders[which])


def saved(tmp_path: Path, of: Callable[[], tc.BuiltKernel] = sized) -> tuple[Path, dict[str, Any]]:
    folder = of().save(tmp_path / "kernel")
    return folder, json.loads((folder / "launch.json").read_text())


def with_digest(record: dict[str, Any], folder: Path) -> dict[str, Any]:
    """As the reference has it: of the record with an empty digest, a zero byte and the text."""
    told = json.dumps({**record, "sha256": ""}, sort_keys=True) + "\0" + (folder / "kernel.ptx").read_text()
    return record | {"sha256": hashlib.sha256(told.encode()).hexdigest()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.update(format="other"), ("format", "kernel")),
        (lambda r: r.update(format_version=1), ("format", "kernel")),
        (lambda r: r.update(sha256="0"), ("kernel.save",)),
        (lambda r: r.pop("grid"), ()),
        (lambda r: r["checks"].update(bounds=[]), ()),
        (lambda r: r["parameters"][0].update(upper=2**31 - 1), ()),
        (lambda r: r.update(more=1), ()),
    ],
)
def test_a_record_that_is_not_ours_is_refused(change: Any, said: tuple[object, ...], tmp_path: Path) -> None:
    folder, record = saved(tmp_path)
    change(record)
    (folder / "launch.json").write_text(json.dumps(record))
    with pytest.raises(tc.LaunchError, match=mentions(*said)):
        tc.load_kernel(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.update(grid=["M + evil()", 1, 1]), ("M", "N")),
        (lambda r: r.update(grid=["Q", 1, 1]), ("M", "N")),
        (lambda r: r["parameters"][2].update(dtype="float17"), ("float17",)),
        (lambda r: r["parameters"][0].update(kind="array of arrays"), ("parameters",)),
        (lambda r: r["parameters"][2].update(align_bytes=0), ("parameters", "align_bytes")),
        (lambda r: r["parameters"][2].update(written=1), ("parameters",)),
        (lambda r: r.update(parameters=3), ("parameters",)),
        (lambda r: r.update(statements=[1.5]), ("statements",)),
        (lambda r: r.update(target="sm_1"), ("sm_1",)),
        (lambda r: r.pop("grid"), ("grid",)),
        (lambda r: r.update(more=1), ()),
        (lambda r: r["parameters"][2].update(strides_elems=[1]), ("shape",)),
        (lambda r: r["parameters"][2].update(align_bytes=24), ("24",)),
        (lambda r: size_of(r).update(read_from=[]), ("M", "array")),
        (lambda r: size_of(r)["read_from"][0].update(dim=-8), ("M", "array")),
        (lambda r: size_of(r)["read_from"][0].update(factor=0), ("M", "array")),
        (lambda r: size_of(r).update(name="other"), ("M",)),
        (lambda r: r.update(statements=[99]), ()),
    ],
)
def test_what_no_kernel_has_is_refused_with_a_digest_too(change: Any, said: tuple[object, ...], tmp_path: Path) -> None:
    folder, record = saved(tmp_path)
    change(record)
    (folder / "launch.json").write_text(json.dumps(with_digest(record, folder)))
    with pytest.raises(tc.LaunchError, match=mentions("kernel.save", *said)):
        tc.load_kernel(folder)


def size_of(record: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in record["parameters"] if each["kind"] == "size")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    folder, _ = saved(tmp_path)
    (folder / "launch.json").unlink()
    pytest.importorskip("resource", reason="Windows has no FIFOs")
    os.mkfifo(folder / "launch.json")
    writer = os.open(folder / "launch.json", os.O_RDWR)  # a FIFO with somebody at its other end
    with pytest.raises(tc.LaunchError, match=mentions("launch.json")):
        tc.load_kernel(folder)
    os.close(writer)


ODD = [None, True, 0, -1, 1, 2**70, 1.5, float("nan"), "", "M", "M // 0", [], [[]], {}, [None], {"name": "M"}]


def places(told: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value stands in JSON: the keys and indices that lead there."""
    for key, value in told.items() if isinstance(told, dict) else enumerate(told) if isinstance(told, list) else ():
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize("of", [sized, tensor_copies, host_bytes.last_row])
def test_a_changed_record_is_refused_or_the_same_kernel(of: Callable[[], tc.BuiltKernel], tmp_path: Path) -> None:
    """Every value dropped, and replaced by others; bytes of the file changed, dropped and cut off."""
    folder, record = saved(tmp_path, of)
    file, rng = folder / "launch.json", random.Random(8)
    original, same = file.read_bytes(), tc.load_kernel(folder)

    def load(data: bytes) -> None:
        file.write_bytes(data)
        try:
            loaded = tc.load_kernel(folder)
        except tc.LaunchError:
            return
        assert loaded.save(tmp_path / "again") and (tmp_path / "again" / "launch.json").read_bytes() == original
        assert loaded.ptx == same.ptx

    for path in [p for p in places(record) if p[0] not in ("statements", "locations") or len(p) < 2]:
        for odd in (*rng.sample(ODD, 4), "dropped"):
            changed = json.loads(original)
            holder = functools.reduce(lambda told, key: told[key], path[:-1], changed)
            if odd == "dropped":
                del holder[path[-1]]
            else:
                holder[path[-1]] = odd
            load(json.dumps(changed).encode())
            try:  # with a digest it is another kernel, or refused
                file.write_text(json.dumps(with_digest(changed, folder)))
                tc.load_kernel(folder)
            except tc.LaunchError:
                pass
    for _ in range(300):
        at, data = rng.randrange(len(original)), bytearray(original)
        data[at : at + rng.choice((0, 1, 1, 9))] = rng.randbytes(rng.choice((0, 1, 1, 5)))
        load(bytes(data))
    for start in range(0, len(original), 97):
        load(original[:start])
    load(original.replace(b'"name"', b'"name": "other", "name"', 1))  # the last of two is what JSON means
    load(original.replace(b'"name"', b'"n\\u0061me"', 1))


def test_drawn_records_end_in_errors_of_tilecopy() -> None:
    """Some of what tests/tools/drawn_records.py draws by the thousands."""
    ends, raw = raw_exceptions(RECORDED, 250, seed=5)
    assert raw == [] and ends["launched"] > 0 and ends["LaunchError"] > 0


@pytest.mark.parametrize(
    ("of", "change"),
    [
        (sized, lambda record: record["symbols"][0].update(called="other")),
        (gather, lambda record: record["symbols"][0].update(called="other")),
        (sized, lambda record: record["symbols"][0].update(parameter=False)),
        *(
            (gather, lambda record, r=r: record["checks"]["index_assertions"][0].update(register=r))
            for r in ("%r99", "r", "%p1", "%tid.x")
        ),
        (gather, lambda record: record["checks"]["index_assertions"][0].update(line=1)),
        (gather, lambda record: record["checks"]["index_assertions"][0].update(line=10**6)),
    ],
)
def test_what_no_launch_knows_is_refused_when_a_kernel_is_loaded(
    of: Callable[[], tc.BuiltKernel], change: Callable[[Any], None], tmp_path: Path
) -> None:
    folder, record = saved(tmp_path, of)
    change(record)
    (folder / "launch.json").write_text(json.dumps(with_digest(record, folder)))
    with pytest.raises(tc.LaunchError, match=mentions("kernel.save")):
        tc.load_kernel(folder)


def test_folders_that_hold_nothing_or_cannot_be_written_are_told(tmp_path: Path) -> None:
    with pytest.raises(tc.LaunchError, match=mentions("kernel", "kernel.save")):
        tc.load_kernel(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(tc.LaunchError, match=re.escape(str(tmp_path / "file"))):
        sized().save(tmp_path / "file")
    for text in ("{", "[" * 10**5, "9" * 5000):
        (tmp_path / "launch.json").write_text(text)
        (tmp_path / "kernel.ptx").write_text("")
        with pytest.raises(tc.LaunchError, match=mentions("kernel", "kernel.save")):
            tc.load_kernel(tmp_path)
    (tmp_path / "launch.json").unlink()
    pytest.importorskip("resource", reason="Windows has no FIFOs")
    os.mkfifo(tmp_path / "launch.json")  # nobody writes it: reading must not wait
    with pytest.raises(tc.LaunchError, match=mentions("kernel", "kernel.save")):
        tc.load_kernel(tmp_path)


@pytest.mark.parametrize("flushes", [0, 1])
def test_a_kernel_that_cannot_be_saved_leaves_the_one_that_was_there(
    flushes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the first file, or at the second."""
    sized().save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    real, calls = os.fsync, list[int]()

    def full(number: int) -> None:
        calls.append(number)
        if len(calls) > flushes:
            raise OSError(28, "No space left on device")
        real(number)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(tc.LaunchError, match=re.escape(str(tmp_path))):
        sized(name="other").save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_builder_is_neither_pickled_nor_copied(take: Callable[[Any], Any]) -> None:
    k = tc.KernelBuilder("described", threads=32)
    a = k.param("A", (32,), "float32")
    with k.if_(k.thread_id() < 3):
        k.store(a[0], 1.0)
    k.cta_sync()
    with pytest.raises(tc.RequestError, match="described"):
        take(k)
    assert take(k.build(target="sm_80", grid=1))
