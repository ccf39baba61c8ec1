"""The shared memory of a kernel: where its buffers are, and what another kernel's buffer is told."""

from __future__ import annotations

import pytest
import tilecopy as tc
from tilecopy.shared_memory import KernelBindings, SharedPlan
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.plugin import PtxBuilder


@pytest.mark.parametrize("large", [False, True])
def test_shared_buffers_are_apart_and_aligned(large: bool) -> None:
    target = tc.target_of("sm_90a")
    sizes = ((100, 16), (7, 1024), (1 if not large else 60000, 1), (64, 128))
    buffers = [
        tc.Buffer(size, "uint8", space="shared", name=f"s{number}", align_bytes=align)
        for number, (size, align) in enumerate(sizes)
    ]
    plan = SharedPlan.of(buffers, target)
    ends = 0
    for buffer, (size, align) in zip(buffers, sizes, strict=True):
        start = plan.offsets[buffer.memory]
        assert start >= ends and start % align == 0 and start < ends + align
        ends = start + size
    assert plan.size_bytes == ends and plan.dynamic == large
    for size, dynamic in ((48 << 10, False), ((48 << 10) + 1, True), (target.shared_limit_bytes, True)):
        assert SharedPlan.of([tc.Buffer(size, "uint8", space="shared")], target).dynamic == dynamic
    with pytest.raises(tc.PtxError, match=mentions("shared")):
        SharedPlan.of([tc.Buffer(target.shared_limit_bytes + 1, "uint8", space="shared")], target)


def test_a_buffer_of_another_kernel_has_no_address() -> None:
    target = tc.target_of("sm_90a")
    ptx = PtxBuilder(target, 32, bindings=KernelBindings(shared=SharedPlan.of([], target)))
    with pytest.raises(tc.PtxError, match=mentions("other_tile", "kernel")):
        ptx.address(tc.Buffer(4, "int8", space="shared", name="other_tile"))
