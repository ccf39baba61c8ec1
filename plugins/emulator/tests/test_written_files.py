"""Thirty CUDA C++ files as people write them, run as they are; ten have a fault, which is told at its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import Report, run_cuda

pytest.importorskip("cuda.bindings.nvrtc")

FOLDER = Path(__file__).parent / "cuda_files"
F4, I4, F2, BF = np.float32, np.int32, np.float16, ml_dtypes.bfloat16


@pytest.fixture(autouse=True)
def _without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def run(name: str, arguments: list[Any], grid: Any, block: Any, dynamic_shared_bytes: int = 0) -> Report:
    source = (FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    return run_cuda(
        source,
        arguments,
        grid=grid,
        block=block,
        dynamic_shared_bytes=dynamic_shared_bytes,
        name=str(FOLDER / f"{name}.cu"),
    )


def case(name: str) -> tuple[list[Any], Any, Any, int, Any]:
    """Arguments, launch, and what the kernel makes: the number of an argument and its value."""
    draw = np.random.default_rng(0)
    x, whole = draw.standard_normal(1024).astype(F4), draw.integers(0, 100, 256).astype(I4)
    alive = draw.integers(0, 2, (12, 10)).astype(np.uint8)
    around = sum(np.roll(alive, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - alive
    rows = x[:200].reshape(4, 50)
    exponents = np.exp(rows - rows.max(1, keepdims=True))
    matrices = draw.integers(-3, 4, (2, 32, 32)).astype(F4)
    halo = np.pad(x[:256], 2)
    tickets = draw.integers(-3, 4, 256).astype(F4)
    best = np.array([x[:200].max(), 0], F4)
    best.view(I4)[1] = x[:200].argmax()
    cases: dict[str, tuple[list[Any], Any, Any, int, Any]] = {
        "saxpy": ([1000, 2.0, x[:1000].copy(), np.ones(1000, F4)], 4, 128, 0, (3, 2 * x[:1000] + 1)),
        "block_sum": ([x, np.zeros(8, F4)], 8, 128, 0, (1, x.reshape(8, 128).sum(1))),
        "transpose": ([x.copy()[:1020].reshape(30, 34), np.zeros((34, 30), F4), 30, 34], (3, 2), (16, 16), 0, (1, x[:1020].reshape(30, 34).T)),
        "softmax": ([rows.copy(), np.zeros((4, 50), F4), 50], 4, 32, 0, (1, exponents / exponents.sum(1, keepdims=True))),
        "matmul": ([*matrices.copy(), np.zeros((32, 32), F4), 32], (2, 2), (16, 16), 0, (2, matrices[0] @ matrices[1])),
        "histogram": ([whole.astype(np.uint8), 256, np.zeros(64, np.uint32)], 2, 96, 0, (2, np.bincount(whole % 64, minlength=64))),
        "scan": ([whole, np.zeros(250, I4), 250], 1, 256, 0, (1, np.cumsum(whole[:250]))),
        "stencil": ([x[:256].copy(), np.zeros(256, F4), 256], 4, 64, 272, (1, sum(halo[d : d + 256] for d in range(5)))),
        "constant_polynomial": ([x[:100].copy(), np.zeros(100, F4), 100], 2, 64, 0, (1, np.polyval([4, 3, 2, 1], x[:100]))),
        "half_add": ([x[:100].astype(F2), x[:100].astype(F2), np.zeros(100, F2), 50], 1, 64, 0, (2, 2 * x[:100].astype(F2))),
        "bf16_scale": ([x[:50].astype(BF), 2.0, 50], 1, 64, 0, (0, 2 * x[:50].astype(BF).astype(F4))),
        "wmma_product": ([*matrices[:, :16, :16].astype(F2), np.zeros((16, 16), F4)], 1, 32, 0, (2, matrices[0, :16, :16] @ matrices[1, :16, :16])),
        "groups_sum": ([whole, np.zeros(1, I4), 100], 2, 64, 0, (1, whole[:100].sum())),
        "cub_scan": ([whole, np.zeros(128, I4)], 1, 128, 0, (1, np.cumsum(whole[:128]) - whole[:128])),
        "quickly_printed": ([np.arange(32, dtype=F4)], 1, 32, 0, None),
        "device_list": ([np.zeros(8, I4), 5], 1, 8, 0, (0, np.arange(8) * 10)),
        "operations": ([x[:20].copy(), 1, 20], 1, 32, 0, (0, x[:20] * 3)),
        "ticket_sum": ([tickets, np.zeros(4, F4), np.zeros(1, F4)], 4, 64, 0, (2, tickets.sum())),
        "game_of_life": ([alive, np.zeros((12, 10), np.uint8), 10, 12], (2, 2), (8, 8), 0, (1, (around == 3) | ((alive == 1) & (around == 2)))),
        "argmax": ([x[:200].copy(), np.zeros(2, F4), 200], 1, 64, 0, (1, best)),
    }  # fmt: skip
    return cases[name]


CLEAN = (
    "saxpy block_sum transpose softmax matmul histogram scan stencil constant_polynomial half_add bf16_scale wmma_product "
    "groups_sum cub_scan quickly_printed device_list operations ticket_sum game_of_life argmax"
).split()
FAULTY = {
    "block_sum_without_barrier": ("block_sum", "race", "s[t] += s[t + half]"),
    "saxpy_past_the_end": ("saxpy", "bounds", "y[i] = a * x[i]"),
    "transpose_without_barrier": ("transpose", "race", "out[y * rows + x] = tile"),
    "softmax_wrong_mask": ("softmax", "aligned", "0xffff, v"),
    "matmul_one_barrier": ("matmul", "race", "as[threadIdx.y][threadIdx.x] = a["),
    "histogram_without_atomics": ("histogram", "race", "local[data[i] % BINS]++"),
    "scan_uninitialised": ("scan", "poison", "totals[lane]"),
    "stencil_halo_too_small": ("stencil", "bounds", "s[l + blockDim.x + RADIUS]"),
    "device_list_use_after_free": ("device_list", "lifetime", "list = node->next;"),
    "argmax_barrier_under_condition": ("argmax", "race", "s[threadIdx.x + half]"),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_file_runs_as_it_is(name: str) -> None:
    arguments, grid, block, dynamic_shared_bytes, result = case(name)
    report = run(name, arguments, grid, block, dynamic_shared_bytes)
    if result is None:
        assert [text for _, text in report.printed] == ["thread 3 has 3.0\n", "thread 19 has 19.0\n"]
    else:
        assert np.allclose(
            np.asarray(arguments[result[0]], np.float64), np.asarray(result[1], np.float64), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", FAULTY)
def test_a_planted_fault_is_told_at_its_line(name: str) -> None:
    base, kind, text = FAULTY[name]
    arguments, grid, block, dynamic_shared_bytes, _ = case(base)
    with pytest.raises(HazardError) as caught:
        run(name, arguments, grid, block, dynamic_shared_bytes)
    lines = (FOLDER / f"{name}.cu").read_text(encoding="utf-8").split("\n")
    wanted = {number for number, line in enumerate(lines, 1) if text in line}
    told = {place["line"] for side in caught.value.details["accesses"] for place in side["source"]}
    assert caught.value.kind == kind and wanted & told, str(caught.value)
