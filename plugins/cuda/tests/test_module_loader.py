"""How a kernel's text becomes a module: the driver compiles it, and what hinders the driver is told."""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy_cli.builtin_commands import tilecopy as command
from tilecopy_cuda import ComputeCache, CudaExecutor
from tilecopy_test_helpers.fake_driver import FakeDriver, FakeTensor
from tilecopy_test_helpers.programs import round_trip

A0, B0 = 0x7F0000001000, 0x7F0000002000


@pytest.fixture
def kernel() -> tc.BuiltKernel:
    return round_trip((256, 64), (128, 64), "float16", target="sm_90")


def launched(kernel: tc.BuiltKernel, **state: Any) -> FakeDriver:
    """The driver of a new process that launches a kernel."""
    fake = FakeDriver(sizes=(8, 8))
    for name, value in state.items():
        setattr(fake, name, value)
    CudaExecutor(fake).launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
    return fake


def test_the_driver_is_given_the_text_and_nothing_else(kernel: tc.BuiltKernel) -> None:
    fake = launched(kernel)
    assert fake.images == [kernel.ptx.encode() + b"\0"] and len(fake.launches) == 1


def test_the_same_text_built_twice_in_a_process_loads_once() -> None:
    fake = FakeDriver(sizes=(8, 8))
    cuda = CudaExecutor(fake)
    for _ in range(3):
        built = round_trip((256, 64), (128, 64), "float16", target="sm_90")
        cuda.launch(built, (FakeTensor(A0), FakeTensor(B0)))
    assert (fake.calls["cuModuleLoadDataEx"], len(fake.launches)) == (1, 3)


def test_one_text_with_another_amount_of_shared_memory_is_another_function(kernel: tc.BuiltKernel) -> None:
    fake = FakeDriver(sizes=(8, 8))
    cuda = CudaExecutor(fake)
    for size_bytes in (100_000, 200_000):
        more = attrs.evolve(kernel, dynamic_shared=True, shared_bytes=size_bytes)
        cuda.launch(more, (FakeTensor(A0), FakeTensor(B0)))
    assert fake.calls["cuFuncSetAttribute"] == 2


@pytest.mark.parametrize("code", [218, 221, 222, 719])
def test_a_text_that_the_driver_does_not_take_is_an_error(kernel: tc.BuiltKernel, code: int) -> None:
    with pytest.raises(tc.LaunchError, match=rf"{kernel.name}.*\({code}\)"):
        launched(kernel, fail={"cuModuleLoadDataEx": code})


@pytest.mark.parametrize(("number", "release"), [(12040, "12.4"), (13000, "13.0"), (11080, "11.8")])
def test_a_driver_older_than_the_text_is_named_with_the_texts_version(
    kernel: tc.BuiltKernel, number: int, release: str
) -> None:
    newer = attrs.evolve(kernel, ptx=re.sub(r"\.version \d+\.\d+", ".version 9.3", kernel.ptx))
    with pytest.raises(tc.LaunchError) as caught:
        launched(newer, fail={"cuModuleLoadDataEx": 222}, version=number)
    assert "9.3" in str(caught.value) and release in str(caught.value)


# ---------------------------------------------------------------------------------------- the driver's compute cache


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variable of the driver's compute cache set."""
    for name in ("CUDA_CACHE_PATH", "CUDA_CACHE_MAXSIZE", "CUDA_CACHE_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_where_the_compute_cache_lies(tmp_path: Path, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HOME", str(tmp_path))
    if sys.platform == "linux":
        assert ComputeCache.of_environment().folder == tmp_path / ".nv" / "ComputeCache"
    assert ComputeCache.of_environment().limit_bytes == 1 << 30
    environment.setenv("CUDA_CACHE_PATH", str(tmp_path / "mine"))
    environment.setenv("CUDA_CACHE_MAXSIZE", "4096")
    assert ComputeCache.of_environment() == ComputeCache(tmp_path / "mine", 4096, False, "")
    environment.setenv("CUDA_CACHE_MAXSIZE", "many")
    assert ComputeCache.of_environment().limit_bytes == 1 << 30
    environment.setenv("CUDA_CACHE_PATH", os.devnull)
    assert ComputeCache.of_environment().problem
    environment.setenv("CUDA_CACHE_DISABLE", "1")
    assert ComputeCache.of_environment().disabled and not ComputeCache.of_environment().problem


@pytest.mark.parametrize("where", ["a file", "below a file", "not writable", "a full disk", "a dangling link"])
def test_a_compute_cache_that_cannot_be_used_is_told_once(
    where: str, kernel: tc.BuiltKernel, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    if where in ("a file", "below a file"):
        folder.write_text("")
        folder = folder if where == "a file" else folder / "below"
    elif where == "a dangling link":
        folder.symlink_to(tmp_path / "nothing")
    elif where == "a full disk":
        environment.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    else:  # root may write anywhere
        environment.setattr("os.access", lambda path, mode: False)
    environment.setenv("CUDA_CACHE_PATH", str(folder))
    fake = FakeDriver(sizes=(8, 8))
    cuda = CudaExecutor(fake)
    with pytest.warns(tc.PerformanceWarning) as caught:
        cuda.launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
    assert len(caught) == 1 and str(tmp_path) in str(caught[0].message) and caught[0].filename == __file__
    assert len(fake.launches) == 1
    row = next(row for row in _doctor() if row["what"] == "driver's compute cache")
    assert not row["found"] and str(tmp_path) in row["detail"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cuda.launch(attrs.evolve(kernel, ptx=kernel.ptx + "\n"), (FakeTensor(A0), FakeTensor(B0)))
    assert len(fake.images) == 2


def test_doctor_says_where_the_compute_cache_lies(tmp_path: Path, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("CUDA_CACHE_PATH", str(tmp_path))
    row = next(row for row in _doctor() if row["what"] == "driver's compute cache")
    assert row["found"] and str(tmp_path) in row["detail"]


def _doctor() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(CliRunner().invoke(command, ["doctor", "--json"]).stdout)
    return rows
