"""A kernel that builds is one that assemblers take: parameter bytes, tensor memory, tensor maps, and what inline PTX writes."""

from __future__ import annotations

from typing import Any

import pytest
import tilecopy as tc
from tilecopy.assemblers import available_assemblers


def assembled(kernel: tc.BuiltKernel) -> tc.BuiltKernel:
    """The kernel, whose text every installed assembler takes."""
    for name in available_assemblers():
        assert kernel.cubin(name)
    return kernel


# ----------------------------------------------------------------------------------------------------- parameter bytes


def with_parameters(arrays: int, scalars: int = 0) -> tc.BuiltKernel:
    k = tc.KernelBuilder("many", threads=32)
    for number in range(scalars):
        k.scalar(f"n{number}")
    for number in range(arrays):
        k.param(f"A{number}", (32,), "float32")
    return k.build(target="sm_90", grid=1)


@pytest.mark.parametrize(("arrays", "scalars"), [(544, 0), (543, 2)])
def test_parameters_of_4352_bytes_need_no_newer_version(arrays: int, scalars: int) -> None:
    assert with_parameters(1).ptx.split("\n")[0] == assembled(with_parameters(arrays, scalars)).ptx.split("\n")[0]


@pytest.mark.parametrize(("arrays", "scalars"), [(545, 0), (543, 3), (544, 1), (4095, 0), (4094, 2)])
def test_more_parameters_need_a_newer_version(arrays: int, scalars: int) -> None:
    assert assembled(with_parameters(arrays, scalars)).ptx.startswith(".version 8.1\n")


@pytest.mark.parametrize(("arrays", "scalars", "total"), [(4096, 0, 32_768), (4095, 1, 32_768)])
def test_parameters_that_no_kernel_takes_are_refused(arrays: int, scalars: int, total: int) -> None:
    with pytest.raises(tc.PtxError, match="32,764") as caught:
        with_parameters(arrays, scalars)
    assert f"{total:,}" in str(caught.value)


@pytest.mark.parametrize(("arrays", "version"), [(32, "8.0"), (48, "8.1")])
def test_tensor_maps_count_with_their_alignment(arrays: int, version: str) -> None:
    """32 maps take 4,096 bytes behind the arrays, at a multiple of 64."""
    k = tc.KernelBuilder("maps", threads=32)
    params: list[Any] = [k.param(f"A{number}", (64, 64), "float16") for number in range(arrays)]
    tile, full = k.shared((64, 64), "float16", align_bytes=128), k.mbarrier("full")
    with k.if_(k.thread_id() == 0):
        for array in params[:32]:
            k.thread.copy_async(tile[0:32, 0:32], array[0:32, 0:32], mbar=full[0], variant="tma")
    kernel = assembled(k.build(target="sm_90", grid=1))
    assert kernel.ptx.startswith(f".version {version}\n")


# --------------------------------------------------------------------------------------------------------- tensor maps

ATOMS = {32: (5, 2, 2), 64: (6, 1, 1)}
"""Bytes of an atom -> per_element (for bytes), swizzle_len and atom_len of the 128-byte swizzle with such atoms."""


def swizzled(atom_bytes: int, variant: str, target: str) -> tc.BuiltKernel:
    per_element, swizzle_len, atom_len = ATOMS[atom_bytes]
    k = tc.KernelBuilder("atoms", threads=32)
    array = k.param("A", (64, 64), "float16")
    layout = tc.SwizzledLayout(tc.Swizzle(per_element - 1, swizzle_len, atom_len), tc.TileLayout(tc.S[64, 64]))
    tile, full = k.shared((64, 64), "float16", layout=layout, align_bytes=1024), k.mbarrier("full")
    with k.if_(k.thread_id() == 0):
        if variant == "tma":
            k.thread.copy_async(tile[:, :], array[:, :], mbar=full[0], variant=variant)
        else:
            k.thread.copy_async(array[:, :], tile[:, :], variant=variant)
    return k.build(target=target, grid=1)


@pytest.mark.parametrize("atom_bytes", ATOMS)
@pytest.mark.parametrize("variant", ["tma", "tma_store"])
def test_a_tensor_map_says_what_its_swizzle_needs(atom_bytes: int, variant: str) -> None:
    for target in ("sm_100", "sm_100a", "sm_120a"):
        assert ".target sm_100\n" in assembled(swizzled(atom_bytes, variant, target)).ptx
    for target in ("sm_90", "sm_90a"):
        with pytest.raises(tc.NoVariantError, match="swizzle_atoms") as caught:
            swizzled(atom_bytes, variant, target)
        assert target in caught.value.declined[variant]
