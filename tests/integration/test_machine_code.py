"""The machine code that a launch loads is as good as that of ptxas: for every kernel of docs/examples and of the benchmarks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tilecopy.assemblers import available_assemblers
from tilecopy_test_helpers.machine_code import cuobjdump

Local = dict[str, dict[str, int]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loaded")


@pytest.fixture(scope="module")
def local(gpu: str, folder: Path) -> Local:
    """Bytes of local memory per thread, by kernel; the machine code is in the folder."""
    if gpu != "sm_90":
        pytest.skip(f"the kernels are for sm_90, this GPU is {gpu}")
    if "ptxas" not in available_assemblers():
        pytest.skip("ptxas is not installed: pip install nvidia-cuda-nvcc")
    script = str(Path(__file__).parents[2] / "tests" / "tools" / "hopper_kernels.py")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TILECOPY_")}  # a user's
    command = [sys.executable, script, str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert process.returncode == 0, process.stderr
    result: Local = json.loads(process.stdout.splitlines()[-1])
    return result


def test_no_kernel_has_more_local_memory_than_by_ptxas(local: Local) -> None:
    assert len(local) > 40
    assert {name: sizes for name, sizes in local.items() if sizes["loaded"] > 1.1 * sizes["ptxas"]} == {}


@pytest.mark.parametrize("name", ["gemm_tma", "attention_tma"])
def test_wgmma_waits_for_registers_as_often_as_by_ptxas(local: Local, folder: Path, name: str) -> None:
    """Where the compiler cannot keep several wgmma in flight, it fences each one: WARPGROUP.ARRIVE."""
    tool = cuobjdump()
    if tool is None:
        pytest.skip("cuobjdump is not installed: pip install nvidia-cuda-cuobjdump")
    number = local[name]["number"]

    def arrivals(cubin: Path) -> int:
        text = subprocess.run([tool, "-sass", str(cubin)], capture_output=True, text=True, check=True).stdout
        return len(re.findall(r"\bWARPGROUP\.ARRIVE\b", text))

    loaded, by_ptxas = arrivals(folder / f"{number}.cubin"), arrivals(folder / f"{number}.ptxas.cubin")
    assert by_ptxas > 0 and loaded == by_ptxas
