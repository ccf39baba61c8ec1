"""Random copies into tensor memory: element types and offsets of the cases."""

from __future__ import annotations

import tilecopy as tc
import tilecopy_tcgen05_cp
from tilecopy_testkit import CaseSpace
from tilecopy_testkit.random_cases import case_of_seed


def test_copies_to_tensor_memory_have_elements_of_whole_bytes_if_the_space_has_some() -> None:
    dtypes = ("float4_e2m1fn", "float16")
    space = CaseSpace.of(tilecopy_tcgen05_cp.variant, (("shared", "tmem"),), dtypes)
    drawn = {case_of_seed(space, str(number)).dtype for number in range(20)}
    assert {tc.dtype_of(dtype).bits for dtype in drawn} == {16}
