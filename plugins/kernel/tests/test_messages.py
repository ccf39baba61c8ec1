"""What the builder and a launch say when they refuse something, whole: the only place where their wording is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tilecopy as tc

ARRAY = np.zeros((64, 64), np.float32)


def builder(name: str = "k", threads: int = 128, **more: Any) -> tc.KernelBuilder:
    return tc.KernelBuilder(name, threads=threads, **more)


def launched(*arguments: Any, **launch: Any) -> None:
    """Launch a kernel of two arrays, 64 x 64 of float32, and a scalar from 0 to 9."""
    k = builder()
    a, b = k.param("A", (64, 64), "float32"), k.param("B", (64, 64), "float32")
    n = k.scalar("n", "int32", lower=0, upper=9)
    k.store(b[0, n], k.load(a[0, k.thread_id() % 64]))
    k.build(target="sm_90a", grid=1)(*arguments, **({"executor": "emulator"} | launch))


@pytest.mark.parametrize(
    ("refused", "error", "message"),
    [
        (
            lambda: builder("WARP_SZ"),
            tc.RequestError,
            "kernel name must be an identifier (a letter, then at most 127 letters, digits and underscores; not WARP_SZ), got 'WARP_SZ'",
        ),
        (lambda: builder(threads=2048), tc.RequestError, "a CTA must have 1 to 1024 threads, got 2048"),
        (
            lambda: (k := builder()).param("A", (4,), "float32") and k.param("A", (4,), "float32"),
            tc.RequestError,
            "param name 'A' is already used in kernel k; choose another name",
        ),
        (
            lambda: builder().local((16 * 1024 + 1,), "uint8"),
            tc.LayoutError,
            "local buffer frag0: the layout TileLayout(S[16385]) over the shape (16385,) takes 16385 bytes of each thread's registers; the limit is 16384 bytes",
        ),
        (
            lambda: builder().shared(2**31, "uint8"),
            tc.PtxError,
            "shared buffer smem0: the layout TileLayout(S[2147483648]) over the shape 2147483648 takes 2147483648 bytes of shared memory; the limit is 2147483647 bytes",
        ),
        (
            lambda: builder().mbarrier().init(2**20),
            tc.RequestError,
            "mbarrier mbar0: count must be from 1 to 1048575 arrivals, got 1048576",
        ),
        (
            lambda: builder().mbarrier().arrive(slice(None)),
            tc.RequestError,
            "mbarrier mbar0: index must be an integer, plain or symbolic, got slice(None, None, None)",
        ),
        (
            lambda: builder().cp_async_wait("x"),
            tc.RequestError,
            "cp_async_wait: pending must be an integer from 0 to 2147483647, got 'x'",
        ),
        (
            lambda: builder().scalar("n", "float32"),
            tc.RequestError,
            "scalar n: dtype must be one of int32, uint32, int64, got 'float32'",
        ),
        (
            lambda: builder().scalar("n", "int32", lower=5, upper=4),
            tc.RequestError,
            "scalar n: lower must not be above upper, got 5 and 4",
        ),
        (
            lambda: builder().inline_ptx("mov.b32 {0}, {1};", 1),
            tc.RequestError,
            "inline_ptx: fields must be indices of the 1 operands (from 0), got {1}; write {{ and }} for braces of the PTX",
        ),
        (
            lambda: builder().build(target="sm_80", cluster=2),
            tc.RequestError,
            "a cluster of 2 CTAs needs a target of sm_90 or newer, got sm_80",
        ),
        (
            lambda: (k := builder()).store(k.param("C", (4,), "float32")[0], k.load(k.param("A", (4,), "int32")[0])),
            tc.RequestError,
            "store to C[0:1]: value must have dtype float32, got int32: cast it first",
        ),
        (lambda: launched(ARRAY), tc.LaunchError, "kernel k takes 3 arguments (A, B, n), got 1"),
        (
            lambda: launched(ARRAY, ARRAY.astype(np.float64), 1),
            tc.LaunchError,
            "kernel k, argument B: dtype must be float32, got float64; convert the array to float32, or build the kernel for its dtype",
        ),
        (
            lambda: launched(ARRAY, ARRAY.T, 1),
            tc.LaunchError,
            "kernel k, argument B: the stride of dimension 0 must be 64 elements, got 1 elements; pass a contiguous array or declare strides=",
        ),
        (
            lambda: launched(ARRAY[:32], ARRAY.copy(), 1),
            tc.LaunchError,
            "kernel k, argument A: shape must be (64, 64), got (32, 64)",
        ),
        (
            lambda: launched(ARRAY, [1, 2], 1),
            tc.LaunchError,
            "kernel k, argument B must be a NumPy array, or an array with DLPack or __cuda_array_interface__, got list [1, 2]; convert it first with np.asarray(a)",
        ),
        (
            lambda: launched(ARRAY, ARRAY.copy(), 10),
            tc.LaunchError,
            "kernel k, scalar n must be from 0 to 9 as declared, got 10; build the kernel with wider lower= or upper= to allow it",
        ),
        (lambda: launched(ARRAY, ARRAY.copy(), 1.5), tc.LaunchError, "kernel k, scalar n must be an integer, got 1.5"),
        (
            lambda: launched(ARRAY, ARRAY.copy(), 1, grid=0),
            tc.LaunchError,
            "grid must be one to three positive integers, got 0",
        ),
        (
            lambda: launched(ARRAY, ARRAY.copy(), 1, executor=3),
            tc.LaunchError,
            'kernel k: executor must be a string such as "cuda", got 3',
        ),
    ],
)
def test_what_is_said(refused: Callable[[], Any], error: type[tc.TilecopyError], message: str) -> None:
    with pytest.raises(error) as caught:
        refused()
    assert type(caught.value) is error
    assert str(caught.value).split("\n")[0] == message
