"""Copies as functions of CUDA C++: their form, their cost, and what they move, compiled by NVRTC and run on the emulator."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import exported
import numpy as np
import oracle
import pytest
from cuda_cpp import compiled

from tilecopy_core.assemblers import assemble
from tilecopy_emulator import run_ptx

sys.path[:0] = [str(Path(__file__).parent / "benchmarks")]
import count_instructions

# ------------------------------------------------------------------------------------------------------- cost


@pytest.fixture
def ptxas_of_pypi(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ptxas of the wheel, which knows the PTX of the wheel's NVRTC."""
    spec = find_spec("nvidia")
    roots = (spec.submodule_search_locations or []) if spec is not None else []
    found = [path.parent for root in roots for path in Path(root).glob("*/bin/ptxas")]
    if not found:
        pytest.skip("no ptxas: pip install nvidia-cuda-nvcc")
    monkeypatch.setenv("PATH", f"{found[0]}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.usefixtures("ptxas_of_pypi")
@pytest.mark.parametrize("name", exported.PAIRS)
def test_an_exported_copy_costs_what_our_own_kernel_costs(name: str) -> None:
    tool = count_instructions.cuobjdump()
    if tool is None:
        pytest.skip("no cuobjdump: pip install nvidia-cuda-cuobjdump")
    pair = exported.PAIRS[name]()
    text = compiled(pair.source, "compute_90a")
    assert ".maxntid 128, 1, 1" in text and ".reqntid 128, 1, 1" in pair.ours.ptx
    # C++ cannot say .reqntid as our kernels do, which saves ptxas an election around a bulk copy: once as each is, and
    # once as the other is.
    for ours, theirs in ((pair.ours.ptx.replace(".reqntid", ".maxntid"), text), (pair.ours.ptx, text.replace(".maxntid", ".reqntid"))):
        cubins = [assemble(ptx, "sm_90a", "ptxas") for ptx in (ours, theirs)]
        instructions = [count_instructions.count(cubin, tool) for cubin in cubins]
        registers = [exported.registers(cubin, tool) for cubin in cubins]
        print(f"{name}: instructions {instructions}, registers {registers} (ours, exported)")
        assert instructions[1] <= instructions[0] + 2 and registers[1] <= registers[0] + 2


@pytest.mark.parametrize("name", exported.PAIRS)
def test_kernels_with_exported_copies_run_as_ours_do(name: str) -> None:
    pair = exported.PAIRS[name]()
    a = oracle.random_array(pair.shape, "uint16")
    mine, other = np.zeros_like(a), np.zeros_like(a)
    pair.ours(a.view("float16"), mine.view("float16"), *pair.numbers, executor="emulator")
    run_ptx(compiled(pair.source), [a, other, *pair.numbers], grid=pair.grid, block=pair.threads, cluster=pair.cluster)
    assert np.array_equal(mine, a) and np.array_equal(other, a)
