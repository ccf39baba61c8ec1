"""Kernels of docs/examples by TMA and wgmma: a GEMM and attention against NumPy, on the emulator and on the GPU; their planted faults.

Also some of the draws of drawn_mma.py: types, shapes, majors and swizzles of single products.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilecopy as tc
from drawn_mma import one

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples"))
import attention_tma
import gemm_tma

EXECUTORS = ["emulator", "cuda"]
DRAWS = 100
"""As many as it takes for each form and layout to come."""


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(ml_dtypes.bfloat16)


def run(kernel: tc.BuiltKernel, arrays: list[Any], executor: str, request: pytest.FixtureRequest) -> None:
    if executor == "cuda":
        target: str = request.getfixturevalue("gpu")
        if not target.startswith("sm_90"):
            pytest.skip(f"wgmma needs sm_90a, and the GPU is {target}")
    kernel(*arrays, executor=executor)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("m", "n", "k"), [(150, 264, 72), (300, 296, 264)])
def test_the_gemm(m: int, n: int, k: int, executor: str, request: pytest.FixtureRequest) -> None:
    a, b, c = numbers(m, k), numbers(n, k, seed=1), np.full((m, n), 7, ml_dtypes.bfloat16)
    run(gemm_tma.gemm(m, n, k, multiprocessors=4), [a, b, c], executor, request)
    wanted = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.allclose(c.astype(np.float32), wanted, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("heads", "length"), [(2, 256), (1, 512)])
def test_attention(heads: int, length: int, executor: str, request: pytest.FixtureRequest) -> None:
    q, k, v = (numbers(heads, length, 128, seed=seed) for seed in range(3))
    out = np.full_like(q, 7)
    run(attention_tma.attention(heads, length), [q, k, v, out], executor, request)
    scores = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k.astype(np.float64)) / np.sqrt(128)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    assert np.abs(out.astype(np.float64) - wanted).max() < 0.01


def without(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Leave out every call of a method."""
    monkeypatch.setattr(owner, name, lambda *arguments, **keywords: None)


FAULTS = {
    "the slots are never handed back": (lambda patch: without(patch, tc.kernel.barriers.Mbarrier, "arrive"), "deadlock"),
    "the result is stored without a proxy fence": (lambda patch: without(patch, tc.KernelBuilder, "fence_proxy_async"), "proxy"),
    "the result is stored before all have written": (lambda patch: without(patch, tc.KernelBuilder, "named_barrier"), "race|proxy"),
    "CTAs begin before the barriers of others are there": (
        lambda patch: without(patch, tc.KernelBuilder, "cluster_sync"), "mbarrier|race|lifetime",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_gemm_is_a_hazard(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, kinds = FAULTS[fault]
    plant(monkeypatch)
    m, n, k = 256, 256, 264 if kinds == "deadlock" else 72  # a deadlock needs a second lap of the ring
    kernel = gemm_tma.gemm.__wrapped__(m, n, k, 2)
    with pytest.raises(tc.HazardError) as found:
        kernel(numbers(m, k), numbers(n, k), np.zeros((m, n), ml_dtypes.bfloat16), executor="emulator")
    assert found.value.kind in kinds.split("|")


@pytest.mark.parametrize("line", ["wgmma.fence.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"])
def test_a_missing_wait_for_products_is_a_hazard(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tc.KernelBuilder.inline_ptx
    monkeypatch.setattr(
        tc.KernelBuilder,
        "inline_ptx",
        lambda k, text, *given, **more: None if text == line else written(k, text, *given, **more),
    )
    kernel = gemm_tma.gemm.__wrapped__(256, 256, 72, 2)
    with pytest.raises(tc.HazardError):
        kernel(numbers(256, 72), numbers(256, 72), np.zeros((256, 256), ml_dtypes.bfloat16), executor="emulator")


@pytest.mark.parametrize("part", range(5))
def test_drawn_products_equal_numpy(part: int) -> None:
    with np.errstate(invalid="ignore"):
        for number in range(part, DRAWS, 5):
            one(number, "emulator")
