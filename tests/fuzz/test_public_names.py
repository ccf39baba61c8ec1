"""Every public callable takes odd arguments or refuses them, within bounded work, and writes nothing if it raises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tilecopy import executor_registry
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_test_helpers.fake_driver import FakeDriver

from .engine import faults, limited_memory
from .interfaces import public_names


@pytest.fixture(autouse=True)
def confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls write files into a fresh folder, allocate little memory, and find a GPU that is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(executor_registry._made, "stand-in", CudaExecutor(FakeDriver(sizes=(8, 8, 8))))
    with limited_memory():
        yield


@pytest.mark.parametrize("name", sorted(public_names()))
def test_odd_arguments(name: str) -> None:
    interface, public_name = public_names()[name]
    assert interface.has(public_name), f"{public_name} has a starting call, but is gone"
    assert public_name in interface.listed, f"{public_name} needs a starting call in fuzz_calls.py"
    calls = [bind for called, bind in interface.calls if called == public_name]
    found = [fault for bind in calls for fault in faults(bind)]
    assert not found, "\n".join(found)
