"""The GEMM of docs/examples by TMA and tcgen05: against NumPy on the emulator, through the assemblers; its planted faults.

No Blackwell GPU was available: it has not run on hardware.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilecopy as tc
from tilecopy.assemblers import ASSEMBLERS, assemble, available_assemblers
from tilecopy.kernel.barriers import Mbarrier

from tilecopy_core.plugin import PtxBuilder

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples"))
import gemm_blackwell

Patch = pytest.MonkeyPatch


def multiplied(kernel: tc.BuiltKernel, m: int, n: int, k: int) -> tuple[Any, Any]:
    """What the kernel gives, and what NumPy gives."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), 7, ml_dtypes.bfloat16)
    kernel(a, b, c, executor="emulator")
    return c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize(
    ("m", "n", "k", "ctas"), [(150, 264, 72, 2), (128, 256, 64, 1), (130, 264, 328, 1), (8, 8, 8, 1)]
)
def test_the_gemm_is_numpys(m: int, n: int, k: int, ctas: int) -> None:
    found, wanted = multiplied(gemm_blackwell.gemm(m, n, k, ctas), m, n, k)
    assert np.allclose(found, wanted, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize("assembler", ASSEMBLERS)
def test_the_gemm_assembles(assembler: str) -> None:
    if assembler not in available_assemblers():
        pytest.skip(f"{assembler} is not installed")
    assert assemble(gemm_blackwell.gemm(4096, 4096, 4096).ptx, "sm_100a", assembler)[:4] == b"\x7fELF"


Kernel = tc.KernelBuilder


def without(owner: Any, name: str, which: str = "") -> Callable[[Patch], None]:
    """Leaves out a method's calls, or those whose arguments are told by a part of them."""
    written = getattr(owner, name)

    def plant(patch: Patch) -> None:
        def call(*given: Any, **more: Any) -> Any:
            return None if which in str((given, more)) else written(*given, **more)

        patch.setattr(owner, name, call)

    return plant


FAULTS: dict[str, tuple[Callable[[Patch], None], str]] = {
    "nothing is committed": (without(Kernel, "tcgen05_commit"), "deadlock"),
    "the slots are not handed back": (without(Kernel, "tcgen05_commit", "empty"), "deadlock"),
    "the sums are not announced": (without(Kernel, "tcgen05_commit", "done"), "deadlock"),
    "tiles are multiplied before they arrive": (without(Mbarrier, "wait", "full"), "async|poison"),
    "tiles are fetched over those in use": (without(Mbarrier, "wait", "empty"), "async|mbarrier"),
    "sums are taken before they are there": (without(Mbarrier, "wait", "done"), "async|poison"),
    "sums are overwritten before they are taken": (without(Mbarrier, "wait", "taken"), "race|async"),
    "sums are converted before they have come": (without(PtxBuilder, "instr", "tcgen05.wait::ld"), "async|poison"),
    "no fence after a barrier": (without(Kernel, "tcgen05_fence_after"), "proxy"),
    "no fence before a barrier": (without(Kernel, "tcgen05_fence_before"), "proxy"),
    "the result is stored without a proxy fence": (without(Kernel, "fence_proxy_async"), "proxy"),
    "the result is stored before all have written": (without(Kernel, "named_barrier"), "race|proxy"),
    "a store reads what is overwritten": (without(Kernel, "bulk_wait"), "async"),
    "tensor memory is not given back": (without(Kernel, "tcgen05_dealloc"), "tensor"),
    "threads begin before the barriers are there": (without(Kernel, "cta_sync"), "mbarrier|race|poison"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_a_hazard(fault: str, monkeypatch: Patch) -> None:
    plant, kinds = FAULTS[fault]
    plant(monkeypatch)
    kernel = gemm_blackwell.gemm.__wrapped__(8, 768, 136, 1)
    with pytest.raises(tc.HazardError) as found:
        multiplied(kernel, 8, 768, 136)
    assert found.value.kind in kinds.split("|"), str(found.value)
