"""Kernels that are called in a function that torch.compile compiles, and what launches take from it: the comparison of tensors."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy.executors import same_tensors
from tilecopy_test_helpers.programs import round_trip


@pytest.mark.parametrize("named", [False, True])
def test_a_call_is_a_graph_break_without_a_warning_and_launches(named: bool) -> None:
    """pytorch/pytorch#128061: Dynamo traced the launch itself, and failed."""
    torch = pytest.importorskip("torch")
    kernel = round_trip((64, 64), (32, 64), "float32")

    def doubled_and_copied(x: Any) -> Any:
        y, doubled = torch.zeros_like(x), x * 2
        if named:
            kernel(A=doubled, B=y, executor="emulator")
        else:
            kernel(doubled, y, executor="emulator")
        return y + 1

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(doubled_and_copied, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(12):  # more than torch's limit of recompilations
            x = torch.arange(4096.0).reshape(64, 64) + seed
            assert torch.equal(compiled(x), x * 2 + 1)
    frames = torch._dynamo.utils.counters["frames"]
    assert frames["total"] == frames["ok"] and torch._dynamo.utils.counters["graph_break"]


def test_an_error_of_a_launch_reaches_the_caller() -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((64, 64), (32, 64), "float32")
    compiled = torch.compile(lambda x: kernel(x, x, executor="emulator"), backend="eager")
    with pytest.raises(tc.LaunchError):
        compiled(torch.zeros(64, 32))


def test_torch_is_not_imported_for_it() -> None:
    script = """
import sys
import numpy as np
from tilecopy_test_helpers.programs import round_trip
a = np.ones((64, 64), np.float32)
round_trip((64, 64), (32, 64), "float32")(a, np.zeros_like(a), executor="emulator")
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ)


def test_tensors_are_the_same_but_for_their_memory() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.zeros(4, 6), torch.ones(4, 6)
    same = same_tensors([a, b])
    assert same is not None and same(b, a) and same(a.clone(), b + 1)
    others = (a[:2], a.t(), a.t().contiguous().t(), a.double(), torch._neg_view(a), a.to("meta"), torch.nn.Parameter(a))
    for other in (*others, a.clone().requires_grad_(), np.zeros((4, 6), np.float32)):
        assert not same(other, b) and not same(a, other)
    z = torch.zeros(4, dtype=torch.complex64)
    same = same_tensors([z])
    assert same is not None and same(z + 1) and not same(z.conj())
    assert same_tensors([a, a]) is same_tensors([np.zeros(3)]) is None
