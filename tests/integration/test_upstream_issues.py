"""Threads of other tools' users, each as a case that must not happen here."""

from __future__ import annotations

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy.assemblers import available_assemblers
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.cuda_cpp import compiled
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip


def global_(shape: tuple[int, ...], dtype: str = "float16", **more: object) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space="global", name="A", **more)  # type: ignore[arg-type]


def shared(shape: tuple[int, ...], dtype: str = "float16", **more: object) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space="shared", **({"name": "s"} | more))  # type: ignore[arg-type]


def run(kernel: tc.BuiltKernel, shape: tuple[int, int], dtype: str) -> None:
    a = byte_arrays.random_array(shape, dtype)
    b = np.zeros_like(a)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a, b)


@pytest.mark.parametrize("threads", [2, 5, 16, 31])
def test_a_block_that_is_no_full_warp_copies_everything(threads: int) -> None:
    """tile-ai/tilelang#2562: a shared to global copy in such a block wrote nothing."""
    run(round_trip((4, 31 * 16 * 5), (4, 31 * 16 * 5), "uint8", threads=threads), (4, 31 * 16 * 5), "uint8")


def test_a_column_padded_tile_keeps_its_stride() -> None:
    """tile-ai/tilelang#2581: the declared stride was ignored."""
    run(round_trip((64, 64), (32, 64), "uint16", layout=TileLayout(S[(32, 64) : (72, 1)])), (64, 64), "uint16")


def test_a_swizzled_tile_of_more_than_one_round() -> None:
    """NVIDIA/cutlass#3160, modular/modular#6877: wrong data, or an eighth of the tile."""
    layout = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[128, 64]))
    kernel = round_trip((256, 128), (128, 64), "uint16", threads=32, layout=layout)
    assert kernel.plans[0].partition.outer == 32
    run(kernel, (256, 128), "uint16")


def test_a_bulk_copy_of_508_bytes_is_declined_with_the_number() -> None:
    """tile-ai/tilelang#2683 and #2525: an illegal cp.async.bulk, or a tail dropped in silence."""
    mbar = tc.Buffer(1, "uint64", space="shared", name="mbar", align_bytes=8)
    with pytest.raises(tc.NoVariantError, match=mentions(508)):
        tc.plan(
            shared((127,), "float32", name="d")[:],
            shared((127,), "float32")[:],
            op="copy_async",
            scope=tc.thread(),
            target="sm_90",
            mbar=mbar[0],
            remote_cta_id=1,
        )


def test_cp_async_under_four_bytes_is_declined_not_an_internal_error() -> None:
    """triton-lang/triton#8022."""
    with pytest.raises(tc.NoVariantError, match=mentions(128, 64, 32)):
        tc.plan(
            shared((32, 3))[:, :],
            global_((32, 3))[:, :],
            op="copy_async",
            scope=tc.warp(),
            target="sm_80",
            variant="ldgsts",
        )


def test_eight_bytes_use_the_form_that_takes_them() -> None:
    """NVIDIA/cutlass#1768: cp.async.cg with 8 bytes passed the check and died in the assembler."""
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32, 4), "float16", align_bytes=8), k.shared((32, 4), "float16")
    k.warp.copy_async(s[:, :], a[:, :])
    assert "cp.async.ca.shared.global" in k.build(target="sm_80", grid=1).ptx


def test_a_width_that_does_not_divide_narrows() -> None:
    """tile-ai/tilelang#3007, #2398; NVIDIA/cutlass#2252."""
    a, s = global_((32, 6)), shared((32, 6))
    found = tc.plan(s[:, :], a[:, :], scope=tc.warp(), target="sm_80")
    assert found.partition.vec == 2
    assert "the number of elements must be a multiple of 32 threads x 8 elements, got 192" in found.explain()


def test_the_reason_names_pointer_need_and_proof() -> None:
    """NVIDIA/cutlass#3033: "alignment does not meet requirement" said neither which pointer nor what was proved."""
    a, s = global_((32, 80)), shared((32, 64))
    assert (
        "A: the start must be a multiple of 8 elements, got 4, a multiple of 4"
        in tc.plan(s[:, :], a[:, 4:68], scope=tc.warp(), target="sm_80").explain()
    )


def test_four_bit_elements_are_all_copied_not_half_of_them() -> None:
    """NVIDIA/cutlass#3111: half of the elements were copied."""
    plan = tc.plan(shared((64,), "uint4")[:], global_((64,), "uint4")[:], scope=tc.warp(), target="sm_80")
    assert plan.request.src.nbytes == plan.request.dst.nbytes == 32
    with pytest.raises(tc.NoVariantError, match=mentions(4)):
        tc.plan(shared((64,), "uint4")[1:33], global_((64,), "uint4")[1:33], scope=tc.warp(), target="sm_80")


def test_a_forced_path_fails_with_its_reason_an_automatic_one_falls_back() -> None:
    """tile-ai/tilelang#2555."""
    a, s = global_((32, 8)), shared((32, 8))
    assert tc.plan(s[:, :], a[:, :], scope=tc.warp(), target="sm_80").variant == "gmem_smem"
    with pytest.raises(tc.NoVariantError, match=mentions("reg", "variant")):
        tc.plan(s[:, :], a[:, :], scope=tc.warp(), target="sm_80", variant="reg")


def test_the_ptx_version_is_one_that_older_drivers_take() -> None:
    """karpathy/llm.c#63: a .version newer than the driver."""
    kernel = round_trip((256, 64), (128, 64), target="sm_120")
    assert ".version 6.3\n.target sm_75" in kernel.ptx


def every_bulk_copy(multicast: int | None = None) -> tc.KernelBuilder:
    """A kernel of a cluster of two that loads, sends and stores with every variant for bulk and tensor copies."""
    k = tc.KernelBuilder("k", threads=32)
    a, flat, b = (
        k.param("A", (64, 64), "float16"),
        k.param("flat", (1 << 12,), "int8"),
        k.param("B", (64, 64), "float16"),
    )
    tile, there = k.shared((64, 64), "float16", name="tile"), k.shared((64, 64), "float16", name="there")
    bytes_, full = k.shared((1 << 12,), "int8", name="bytes"), k.mbarrier("full")
    with k.if_(k.thread_id() == 0):
        full.init(1)
        k.fence_mbarrier_init()
        full.arrive_expect_tx(8192 + 4096)
        k.thread.copy_async(tile[:, :], a[:, :], mbar=full[0], variant="tma", multicast=multicast)
        k.thread.copy_async(bytes_[:], flat[:], mbar=full[0], variant="bulk", prefetch=flat[:])
        k.thread.copy_async(there[:, :], tile[:, :], mbar=full[0], remote_cta_id=1, variant="dsmem")
        k.thread.copy_async(b[:, :], tile[:, :], variant="tma_store")
        k.thread.copy_async(flat[:], bytes_[:], variant="bulk_store")
    return k


SYSTEM_CALL = b"__cuda_syscall"
"""How the name of a function begins that ptxas calls where a GPU lacks an instruction."""


@pytest.mark.skipif("ptxas" not in available_assemblers(), reason="no ptxas")
@pytest.mark.parametrize("target", [each for each in tc.TARGETS if tc.target_of(each).has("tma")])
def test_a_kernel_without_multicast_calls_no_function_of_the_system(target: str) -> None:
    """jax-ml/jax#40721, tile-ai/tilelang#2052: each load was a call on sm_120 and sm_121, which also took gigabytes of memory."""
    assert SYSTEM_CALL not in every_bulk_copy().build(target=target, grid=2, cluster=2).cubin()


@pytest.mark.skipif("ptxas" not in available_assemblers(), reason="no ptxas")
def test_multicast_is_a_call_where_no_instruction_has_it() -> None:
    """As docs/limits.md says."""
    assert SYSTEM_CALL in every_bulk_copy(multicast=3).build(target="sm_120", grid=2, cluster=2).cubin()


@pytest.mark.parametrize("variant", ["tma", "bulk"])
def test_an_exported_load_calls_no_function_of_the_system(variant: str) -> None:
    """jax-ml/jax#40721: the same in CUDA C++."""
    tile, mbar = shared((64, 64), align_bytes=128), tc.Buffer((1,), "uint64", space="shared", name="mbar")
    plan = tc.plan(
        tile[:, :],
        global_((64, 64))[:, :],
        op="copy_async",
        scope=tc.thread(),
        target="sm_120",
        mbar=mbar[:],
        variant=variant,
    )
    arguments = "0, A, 8192, A" if variant == "tma" else "0, A, 8192"
    kernel = tc.cuda_header([plan.cuda("load")]) + f"__global__ void k(const void* A) {{ load({arguments}); }}"
    assert SYSTEM_CALL not in compiled(kernel, "sm_120", kind="CUBIN")


@pytest.mark.parametrize("target", ["sm_90a", "sm_103a"])
def test_targets_with_instructions_for_the_cluster_keep_the_older_form(target: str) -> None:
    """karpathy/llm.c#63: ``shared::cta`` needs ``.version`` 8.6, and so a newer driver."""
    assert ".version 8.0" in every_bulk_copy().build(target=target, grid=2, cluster=2).ptx


@pytest.mark.parametrize("variant", ["tma", "bulk"])
def test_the_form_for_sm_120_moves_the_same_bytes(variant: str) -> None:
    """jax-ml/jax#40721, on the emulator."""
    k = tc.KernelBuilder("k", threads=32)
    a, b = k.param("A", (64, 64), "float16"), k.param("B", (64, 64), "float16")
    tile, full = k.shared((64, 64), "float16", name="tile"), k.mbarrier("full")
    with k.if_(k.thread_id() == 0):
        full.init(1)
        k.fence_mbarrier_init()
        full.arrive_expect_tx(8192)
        k.thread.copy_async(tile[:, :], a[:, :], mbar=full[0], variant=variant)
    k.cta_sync()
    full.wait(0)
    k.cta.copy(b[:, :], tile[:, :])
    run(k.build(target="sm_121a", grid=1), (64, 64), "float16")
