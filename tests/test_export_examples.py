"""The CUDA C++ examples of docs/examples, in small: on the emulator and on the GPU, against NumPy."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from cuda_cpp import compiled, run_on_gpu
from tilecopy_emulator import run_ptx

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"
sys.path[:0] = [str(EXAMPLES / name) for name in ("gemm", "stencil")]
import gemm
import gemm_ldmatrix
import stencil

SIZES = [(150, 72, 88), (128, 128, 32), (5, 3, 7), (129, 130, 65), (1, 1, 1), (64, 200, 24)]


def product(
    m: int, n: int, k: int, target: str, *, by_hand: bool = False, of: ModuleType = gemm
) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel makes of random matrices, and NumPy."""
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float16)
    source = of.source(n, k, by_hand=by_hand)
    launch = {"grid": of.grid(m, n), "block": of.THREADS}
    if target == "emulator":
        ptx = compiled(source, "compute_80")
        run_ptx(ptx, [a, b, c, m, n, k], **launch, dynamic_shared_bytes=of.SHARED_BYTES)
    else:
        cubin = compiled(source, target, kind="CUBIN")
        run_on_gpu(cubin, "gemm", [a, b, c, m, n, k], **launch, shared_bytes=of.SHARED_BYTES)
    return c, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_the_gemm_takes_any_size(m: int, n: int, k: int) -> None:
    found, wanted = product(m, n, k, "emulator")
    assert np.allclose(found, wanted, rtol=2e-3, atol=2e-2)


def test_the_gemm_by_hand_is_the_same_product() -> None:
    found, wanted = product(150, 72, 88, "emulator", by_hand=True)
    ours, _ = product(150, 72, 88, "emulator")
    assert np.allclose(found, wanted, rtol=2e-3, atol=2e-2) and np.array_equal(found, ours)


@pytest.mark.parametrize(("m", "n", "k"), [*SIZES, (1000, 777, 333)])
def test_the_gemm_takes_any_size_on_the_gpu(gpu: str, m: int, n: int, k: int) -> None:
    found, wanted = product(m, n, k, gpu)
    assert np.allclose(found, wanted, rtol=2e-3, atol=5e-2)


@pytest.mark.parametrize(("m", "n", "k"), [(150, 72, 88), (5, 300, 7), (1, 1, 1), (130, 264, 264)])
def test_the_gemm_by_ldmatrix_takes_any_size(m: int, n: int, k: int) -> None:
    found, wanted = product(m, n, k, "emulator", of=gemm_ldmatrix)
    assert np.allclose(found, wanted, rtol=2e-3, atol=5e-2)


def test_the_gemm_by_ldmatrix_reads_as_the_one_by_hand() -> None:
    found, wanted = product(150, 72, 88, "emulator", by_hand=True, of=gemm_ldmatrix)
    ours, _ = product(150, 72, 88, "emulator", of=gemm_ldmatrix)
    assert np.allclose(found, wanted, rtol=2e-3, atol=5e-2) and np.array_equal(found, ours)


@pytest.mark.parametrize(("m", "n", "k"), [*SIZES, (1000, 777, 333)])
def test_the_gemm_by_ldmatrix_takes_any_size_on_the_gpu(gpu: str, m: int, n: int, k: int) -> None:
    found, wanted = product(m, n, k, gpu, of=gemm_ldmatrix)
    assert np.allclose(found, wanted, rtol=2e-3, atol=5e-2)


def step(m: int, n: int, target: str) -> tuple[np.ndarray, np.ndarray]:
    a = np.random.default_rng(n).random((m, n), np.float32)
    b = np.full_like(a, np.nan)
    if target == "emulator":
        run_ptx(compiled(stencil.source(n), "compute_80"), [a, b, m, n], grid=stencil.grid(m, n), block=stencil.THREADS)
    else:
        cubin = compiled(stencil.source(n), target, kind="CUBIN")
        run_on_gpu(cubin, "stencil", [a, b, m, n], grid=stencil.grid(m, n), block=stencil.THREADS)
    return b, stencil.expected(a)


STEPS = [(70, 300), (1, 1), (33, 129), (64, 256), (40, 130)]


@pytest.mark.parametrize(("m", "n"), STEPS)
def test_the_stencil_takes_any_size(m: int, n: int) -> None:
    found, wanted = step(m, n, "emulator")
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize(("m", "n"), [*STEPS, (1000, 1001)])
def test_the_stencil_takes_any_size_on_the_gpu(gpu: str, m: int, n: int) -> None:
    found, wanted = step(m, n, gpu)
    assert np.array_equal(found, wanted)
