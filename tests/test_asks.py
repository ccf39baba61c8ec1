"""Threads of other tools' users, each as a case that must not happen here."""

from __future__ import annotations

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy_test_helpers.mentions import mentions
from tilecopy_testkit import oracle
from tilecopy_testkit.programs import round_trip


def global_(shape: tuple[int, ...], dtype: str = "float16", **more: object) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space="global", name="A", **more)  # type: ignore[arg-type]


def shared(shape: tuple[int, ...], dtype: str = "float16", **more: object) -> tc.Buffer:
    return tc.Buffer(shape, dtype, space="shared", **({"name": "s"} | more))  # type: ignore[arg-type]


def run(kernel: tc.BuiltKernel, shape: tuple[int, int], dtype: str) -> None:
    a = oracle.random_array(shape, dtype)
    b = np.zeros_like(a)
    kernel(a, b, executor="emulator")
    assert oracle.same_bytes(a, b)


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
    assert "192 elements are not a multiple of 32 threads x 8" in found.explain()


def test_the_reason_names_pointer_need_and_proof() -> None:
    """NVIDIA/cutlass#3033: "alignment does not meet requirement" said neither which pointer nor what was proved."""
    a, s = global_((32, 80)), shared((32, 64))
    assert (
        "A: the start 4 is a multiple of 4 elements, not of 8"
        in tc.plan(s[:, :], a[:, 4:68], scope=tc.warp(), target="sm_80").explain()
    )


def test_four_bit_elements_are_declined_not_halved() -> None:
    """NVIDIA/cutlass#3111: half of the elements were copied."""
    with pytest.raises(tc.NoVariantError, match=mentions(4)):
        tc.plan(shared((64,), "uint4")[:], global_((64,), "uint4")[:], scope=tc.warp(), target="sm_80")


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
