"""CUDA C++ by NVRTC: ``run_cuda`` and ``tilecopy emulate kernel.cu``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy_emulator import run_cuda
from tilecopy_emulator.command import emulate
from tilecopy_emulator.cuda_cpp import compile_cuda
from tilecopy_test_helpers.mentions import mentions

RACY = """
template <class T> __device__ __forceinline__ void put(T* s, int i, T v) {
  s[i] = v;
}
__global__ void swap(const float* x, float* y) {
  __shared__ float s[64];
  put(s, threadIdx.x, x[threadIdx.x]);
  BARRIER
  y[threadIdx.x] = s[threadIdx.x ^ 33];
}
"""
CLEAN = RACY.replace("BARRIER", "__syncthreads();")
GENERIC = "namespace n { template <class T, int N> __global__ void add(T* x, T v) { x[threadIdx.x] += v * N; } }"
SEVERAL = (
    '__global__ void a(int* x) {}\n__global__ void a(float* x) {}\nextern "C" __global__ void b(int* x) { *x = N; }'
)
CUB = """
#include <cub/block/block_reduce.cuh>
__global__ void total(const float* x, float* y) {
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ Reduce::TempStorage storage;
  float sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *y = sum;
}
"""


@pytest.fixture(autouse=True, scope="module")
def _needs_nvrtc() -> None:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:  # its loader's
        pytest.skip(f"no NVRTC: {error}")


def arrays() -> list[np.ndarray]:
    return [np.arange(64, dtype=np.float32), np.zeros(64, np.float32)]


def test_a_race_leads_to_the_lines_of_the_source() -> None:
    with pytest.raises(tc.HazardError) as caught:
        run_cuda(RACY.replace("BARRIER", ""), arrays(), grid=1, block=64)
    said = str(caught.value)
    assert mentions("kernel.cu:9", "y[threadIdx.x] = s[threadIdx.x ^ 33];").search(said)
    assert mentions("kernel.cu:3", "s[i] = v;", "kernel.cu:7", "put(s, threadIdx.x, x[threadIdx.x]);").search(said)
    given = arrays()
    assert run_cuda(CLEAN, given, grid=1, block=64).threads == 64
    assert np.array_equal(given[1], given[0][np.arange(64) ^ 33])


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100"])
def test_kernels_by_the_names_of_cpp(target: str) -> None:
    x = np.zeros(32, np.float64)
    run_cuda(GENERIC, [x, 1.5], entry="n::add<double, 2>", grid=1, block=32, target=target)
    assert (x == 3).all()
    y = np.zeros(1, np.int32)
    run_cuda(SEVERAL, [y], entry="b", grid=1, block=1, options=["-DN=4", "--std=c++20"])
    run_cuda(SEVERAL, [y], entry="_Z1aPi", grid=1, block=1, options=["-DN=4"])
    assert y[0] == 4


def test_headers_come_from_wheels() -> None:
    pytest.importorskip("cuda.pathfinder")
    given = [np.ones(64, np.float32), np.zeros(1, np.float32)]
    run_cuda(CUB, given, grid=1, block=64)
    assert given[1][0] == 64


def test_what_does_not_fit_is_one_of_our_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = {"grid": 1, "block": 64}
    for source, entry, kind, part in (
        (CLEAN, "swop", tc.LaunchError, ("swop",)),
        (SEVERAL.replace("N;", "4;"), "a", tc.LaunchError, ("_Z1aPi", "_Z1aPf", "b")),
        (
            f"__device__ void f() {{ int unused; }}\n{CLEAN}__global__ void only_declared(int* x);",
            "only_declared",
            tc.LaunchError,
            ("only_declared", "swap"),
        ),
        (f"{CLEAN}__device__ void callee() {{}}", "callee", tc.LaunchError, ("callee", "swap")),
        (CLEAN + "}", None, tc.AssemblerError, ("kernel.cu", 11)),
        ('#include "none.h"', None, tc.AssemblerError, ("none.h",)),
        ("int x = '\0';", None, tc.LaunchError, ()),
        (CLEAN, "", tc.LaunchError, ()),
    ):
        with pytest.raises(kind) as caught:
            run_cuda(source, arrays(), entry=entry, **launch)
        assert mentions(*part).search(str(caught.value))
    with pytest.raises(tc.LaunchError, match=mentions(1, 2, "u64", "__global__", "swap", "x")):
        run_cuda(CLEAN, arrays()[:1], **launch)
    for name, odd in (
        ("source", " "),
        ("source", 1),
        ("source", "\ud800"),
        ("source", "hist.cu"),
        ("entry", 2),
        ("name", ""),
        ("options", "-D"),
        ("options", [0]),
    ):
        with pytest.raises(tc.LaunchError, match=mentions(name)):
            run_cuda(**({"source": CLEAN, "arguments": arrays(), **launch} | {name: odd}))
    without_block = partial(run_cuda, CLEAN, arrays(), grid=1)
    with pytest.raises(TypeError, match=r"run_cuda\(\).*'block'"):
        without_block()
    with pytest.raises(tc.TargetError, match="sm_91"):
        run_cuda(CLEAN, arrays(), target="sm_91", **launch)
    with pytest.raises(tc.AssemblerError, match=mentions("no-such-option")):
        run_cuda(CLEAN, arrays(), options=["--no-such-option"], **launch)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(tc.AssemblerError, match=mentions("plugins/emulator[cuda]")):
        run_cuda(CLEAN, arrays(), **launch)


@pytest.mark.parametrize(
    ("source", "entry", "names"),
    [
        (
            "__global__ void __launch_bounds__(64, 2) f(const float* x, float *y /* 1, 2 */, int n = 3) {}",
            None,
            "x y n",
        ),
        ("template <class T, int N> __global__ void f(T* x, T v) { *x = v * N; }", "f<float, 2>", "x v"),
        ('extern "C" __global__ void a(int* x) {}\nextern "C" __global__ void b(int* x, int) {}', "b", "x b_param_1"),
        ("__global__ void a(int* x) {}\n__global__ void a(float* y) {}", "_Z1aPi", "_Z1aPi_param_0"),  # which of them?
        ("__global__ void f(int* a);\n__global__ void f(int* x) {}", None, "x"),  # a prototype with another name
        ('extern "C" __global__ void h(int* kernel) { *kernel = 1; }', None, "kernel"),  # as in the file's name
        ('__device__ int s; extern "C" __global__ void h(int* s) { *s = ::s; }', None, "h_param_0"),
    ],
)
def test_parameters_have_their_names_of_the_source(source: str, entry: str | None, names: str) -> None:
    assert " ".join(each.name for each in compile_cuda(source, entry=entry).parameters) == names


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text('#include "size.h"\n' + CLEAN)
    (tmp_path / "size.h").write_text("#ifndef N\n#error N is missing\n#endif\n")
    words = ["k.cu", "arange:float32:64", "zeros:float32:64", "--block", "64", "--entry", "swap", "--nvrtc=-DN=2"]
    done = CliRunner().invoke(emulate, [*words, "--save", "1=y.npy", "--target", "sm_80"])
    assert done.exit_code == 0 and ": 64 threads, " in done.output, done.output
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.arange(64) ^ 33)
    assert mentions("N").search(str(CliRunner().invoke(emulate, words[:-1]).exception))
    for name in ("k.CU", "k.cuh"):
        (tmp_path / name).write_text(CLEAN)
        assert CliRunner().invoke(emulate, [name, *words[1:]]).exit_code == 0
    assert mentions(2).search(str(CliRunner().invoke(emulate, [*words, "--save", "2=y.npy"]).exception))
