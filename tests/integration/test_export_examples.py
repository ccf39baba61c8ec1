"""The CUDA C++ examples of docs/examples, in small: on the emulator and on the GPU, against NumPy."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator import TensorMap, run_ptx
from tilecopy_test_helpers.cuda_cpp import compiled, run_on_gpu
from tilecopy_test_helpers.mentions import mentions

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
sys.path[:0] = [str(EXAMPLES / name) for name in ("gemm", "stencil")]
import gemm
import gemm_ldmatrix
import stencil

SIZES = [(150, 72, 88), (128, 128, 32), (5, 3, 7), (129, 130, 65), (1, 1, 1), (64, 200, 24)]


def product(m: int, n: int, k: int, target: str, *, by_hand: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel makes of random matrices, and NumPy."""
    a, b, c = matrices(m, n, k)
    source = gemm.source(n, k, by_hand=by_hand)
    launch = {"grid": gemm.grid(m, n), "block": gemm.THREADS}
    if target == "emulator":
        run_ptx(compiled(source, "compute_80"), [a, b, c, m, n, k], **launch)
    else:
        run_on_gpu(compiled(source, target, kind="CUBIN"), "gemm", [a, b, c, m, n, k], **launch)
    return c, a.astype(np.float32) @ b.astype(np.float32).T


def matrices(m: int, n: int, k: int) -> list[np.ndarray]:
    """Random A and B, and C with nothing in it."""
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    return [a, b, np.full((m, n), np.nan, np.float16)]


def by_ldmatrix(m: int, n: int, k: int, target: str, *, by_hand: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The same of the kernel whose operands come by ldmatrix."""
    a, b, c = matrices(m, n, k)
    source, boxes = gemm_ldmatrix.source(n, k, by_hand=by_hand), gemm_ldmatrix.boxes(m, n, k)
    launch = {"grid": gemm_ldmatrix.grid(m, n), "block": gemm_ldmatrix.THREADS}
    if target == "emulator":
        maps = [TensorMap(array, "float16", **box) for array, box in zip((a, b), boxes, strict=True)]
        given = [a, b, c, m, n, k, *maps]
        run_ptx(compiled(source), given, **launch, dynamic_shared_bytes=gemm_ldmatrix.SHARED_BYTES)
    else:
        given = [a, b, c, m, n, k, *zip((a, b), boxes, strict=True)]
        cubin = compiled(source, target, kind="CUBIN")
        run_on_gpu(cubin, "gemm", given, **launch, shared_bytes=gemm_ldmatrix.SHARED_BYTES)
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


ALONG_K_BY_EIGHT = [(150, 72, 88), (5, 300, 8), (1, 1, 16), (130, 264, 264)]


@pytest.mark.parametrize(("m", "n", "k"), ALONG_K_BY_EIGHT)
def test_the_gemm_by_ldmatrix_takes_any_m_and_n(m: int, n: int, k: int) -> None:
    found, wanted = by_ldmatrix(m, n, k, "emulator")
    assert np.allclose(found, wanted, rtol=2e-3, atol=5e-2)


def test_the_gemm_by_ldmatrix_reads_as_the_one_by_hand() -> None:
    found, wanted = by_ldmatrix(150, 72, 88, "emulator", by_hand=True)
    ours, _ = by_ldmatrix(150, 72, 88, "emulator")
    assert np.allclose(found, wanted, rtol=2e-3, atol=5e-2) and np.array_equal(found, ours)


@pytest.mark.parametrize(
    ("step", "instead"),
    [
        ("tilecopy::mbarrier_wait(full, 0);", ""),
        ("if (kt + 1 < steps) tilecopy::mbarrier_wait(full + 8 * stage, phase);", ""),
        ("__syncthreads();  // all warps have read the stage before", ""),
        ("phase ^= stage == 0;", ""),
        ("tilecopy::fence_mbarrier_init();", ""),
        ("full + 8 * s, 2 * 128 * 64 * 2", "full + 8 * s, 128 * 64 * 2"),
    ],
)
def test_a_step_that_the_gemm_by_ldmatrix_lacks_is_a_hazard(
    monkeypatch: pytest.MonkeyPatch, step: str, instead: str
) -> None:
    text = gemm_ldmatrix.source(72, 264)
    assert text.count(step) == 1
    monkeypatch.setattr(gemm_ldmatrix, "source", lambda *_, **__: text.replace(step, instead))
    with pytest.raises(tc.HazardError):
        by_ldmatrix(130, 72, 264, "emulator")


def test_the_gemm_by_ldmatrix_says_which_k_it_takes() -> None:
    with pytest.raises(ValueError, match=mentions("K", 7, 8)):
        gemm_ldmatrix.source(64, 7)


@pytest.mark.parametrize("name", ["a", "b"])
def test_the_maps_of_the_gemm_by_ldmatrix_are_those_that_its_source_encodes(name: str) -> None:
    box = gemm_ldmatrix.boxes(150, 72, 88)["ab".index(name)]
    text = (
        gemm_ldmatrix.source(72, 88)
        .split(f"static inline CUresult load_{name}_{name.upper()}_map(")[1]
        .split("#endif")[0]
    )
    assert f"box[] = {{{box['box'][0]}, {box['box'][1]}}}" in text and f"SWIZZLE_{box['swizzle']}" in text


@pytest.mark.parametrize(("m", "n", "k"), [*ALONG_K_BY_EIGHT, (1000, 777, 336)])
def test_the_gemm_by_ldmatrix_takes_any_m_and_n_on_the_gpu(gpu: str, m: int, n: int, k: int) -> None:
    major = int(gpu.removeprefix("sm_").rstrip("af")) // 10
    if major < 9:
        pytest.skip(f"{gpu} has no tensor copies")
    found, wanted = by_ldmatrix(m, n, k, gpu)
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
