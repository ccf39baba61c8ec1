"""What the executor leaves behind on an error, and how a driver that cannot be used is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tilecopy as tc
from fake_driver import FakeDriver
from tilecopy_cuda import time_on_device
from tilecopy_cuda.cuda import CudaExecutor


@pytest.mark.parametrize("fails", ["", "work", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime"])
def test_events_do_not_outlive_a_measurement(fails: str) -> None:
    driver = FakeDriver()
    driver.fail = {fails: 1}

    def work() -> None:
        if fails == "work":
            raise KeyError("mine")

    if fails:
        with pytest.raises((KeyError, tc.LaunchError), match=f"mine|{fails}"):
            time_on_device(CudaExecutor(driver), work, warm_up=0)
    else:
        time_on_device(CudaExecutor(driver), work)
    assert driver.calls["cuEventCreate"] == driver.calls["cuEventDestroy"] == 2


def test_a_broken_libcuda_is_not_told_as_missing(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    program = "from tilecopy.executors import executor_named as e; print(e('cuda').why_unavailable())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "libcuda) cannot be used" in done.stdout and "not found" not in done.stdout
