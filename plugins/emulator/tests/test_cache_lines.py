"""Prefetches change no value, but what they name is checked: addresses, sizes, tensor maps."""

from __future__ import annotations

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import TensorMap, run_ptx
from tilecopy_test_helpers.mentions import is_hazard


def run(body: str, *, align: int = 64) -> None:
    """On one warp, with a map in a parameter, an array of 500 bytes in global memory, one in local and one in shared memory."""
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .align {align} .b8 map[128], .param .u64 A, .param .u64 maps)
{{
    .reg .b32 %r<4>; .reg .b64 %d<9>; .reg .pred %p;
    .shared .align 128 .b8 s[256]; .local .align 16 .b8 l[64];
    ld.param.u64 %d0, [A]; mov.u64 %d1, map; cvta.param.u64 %d2, %d1; ld.param.u64 %d3, [maps];
    mov.u32 %r0, %tid.x; mul.wide.u32 %d4, %r0, 16; add.u64 %d4, %d4, %d0;
    mov.u64 %d8, 24; mov.u64 %d5, l; cvta.local.u64 %d6, %d5; mov.u64 %d7, s; cvta.shared.u64 %d7, %d7; mov.u32 %r1, 24;
    {body}
    ret;
}}"""
    array = np.zeros(500, np.uint8)
    tensor = TensorMap(np.zeros((8, 8), np.float32), "float32", sizes=(8, 8), strides_bytes=(32,), box=(4, 2))
    run_ptx(text, [tensor, array, np.zeros(512, np.uint8)], grid=1, block=32)
    assert not array.any()


@pytest.mark.parametrize(
    "body",
    [
        "prefetch.global.L1 [%d4];",
        "prefetch.global.L2 [%d0+511]; prefetch.L2 [%d0+3];",
        "prefetch.L1 [%d4]; prefetchu.L1 [%d4];",
        "prefetch.global.L2::evict_last [%d0]; prefetch.global.L2::evict_normal [%d0+128];",
        "prefetch.local.L1 [%d5+63]; prefetch.L2 [%d6];",
        "prefetch.L1 [%d7]; prefetchu.L1 [%d7+4096];",
        "applypriority.global.L2::evict_normal [%d0+128], 128; applypriority.L2::evict_normal [%d0], 128;",
        "cp.async.bulk.prefetch.L2.global [%d0], 16; mov.u32 %r2, 480; cp.async.bulk.prefetch.L2.global [%d0+16], %r2;",
        "prefetch.tensormap [%d2]; prefetch.param.tensormap [%d1]; prefetch.param.tensormap [map];",
        "setp.eq.u32 %p, %r0, 99; @%p prefetch.global.L2 [%d8];",
    ],
)
def test_what_is_there_may_be_prefetched(body: str) -> None:
    run(body)


@pytest.mark.parametrize(
    ("kind", "value", "body"),
    [
        ("bounds", 512, "prefetch.global.L2 [%d0+600];"),
        ("bounds", -128, "prefetch.L1 [%d0+-1];"),
        ("bounds", "0x18", "prefetch.L2 [%d8];"),
        ("bounds", "0x0", "prefetch.global.L1 [%d8];"),
        ("bounds", "0x18", "prefetchu.L1 [%d8];"),
        ("bounds", 64, "prefetch.local.L2 [%d5+64];"),
        ("bounds", 64, "prefetch.L2 [%d6+64];"),
        ("alignment", 128, "applypriority.global.L2::evict_normal [%d0+64], 128;"),
        ("bounds", 512, "applypriority.global.L2::evict_normal [%d0+512], 128;"),
        ("alignment", 16, "cp.async.bulk.prefetch.L2.global [%d0+8], 16;"),
        ("alignment", 24, "cp.async.bulk.prefetch.L2.global [%d0], %r1;"),
        ("bounds", 500, "cp.async.bulk.prefetch.L2.global [%d0], 512;"),
        ("alignment", 64, "prefetch.tensormap [%d2+8];"),
        ("alignment", 64, "prefetch.param.tensormap [%d1+8];"),
        ("bounds", "0x18", "prefetch.tensormap [%d8];"),
        ("descriptor", "maps", "prefetch.tensormap [%d3];"),
        ("descriptor", "maps", "prefetch.tensormap [%d3+384];"),
        ("bounds", "maps", "prefetch.tensormap [%d3+448];"),
        ("window", "map", "prefetch.tensormap [%d1];"),
    ],
)
def test_what_is_not_there_is_a_hazard(kind: str, value: object, body: str) -> None:
    with pytest.raises(HazardError, check=is_hazard(kind, value)):
        run(body)


def test_a_parameter_that_is_declared_with_too_small_an_alignment_holds_no_map() -> None:
    with pytest.raises(HazardError, check=is_hazard("alignment", 16)):
        run("prefetch.param.tensormap [map];", align=16)


@pytest.mark.parametrize("wait", ["test_wait", "try_wait"])
@pytest.mark.parametrize("parity", [2, 3, 0xFFFFFFFF])
def test_a_parity_is_0_or_1(wait: str, parity: int) -> None:
    body = """mov.u32 %r2, s; setp.ne.u32 %p, %r0, 0; @%p bra END; mbarrier.init.shared.b64 [%r2], 1;
        mov.u32 %r3, {parity}; mbarrier.{wait}.parity.shared.b64 %p, [%r2], %r3; END:"""
    run(body.format(wait=wait, parity=1))
    with pytest.raises(HazardError, check=is_hazard("mbarrier", parity)):
        run(body.format(wait=wait, parity=parity))
