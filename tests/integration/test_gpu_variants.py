"""Every variant's kernels on a real GPU: the demos, register fragments, cluster copies, and random copies."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given, settings
from tilecopy_test_helpers import byte_arrays, demos

PLUGINS = Path(__file__).parents[2] / "plugins"


def plugin_tests(variant: str) -> ModuleType:
    """The test module of a plugin (it is not installed)."""
    name = f"test_{variant}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, PLUGINS / variant / "tests" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.mark.parametrize("name", demos.DEMOS)
def test_demo(gpu: str, name: str) -> None:
    demo = demos.DEMOS[name]
    if not demo.runs(gpu):
        pytest.skip(f"{name} needs sm_{demo.min_arch}{'a' if demo.specific else ''}, the GPU is {gpu}")
    demo.check(demo.make(gpu), "cuda")


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_fragments(gpu: str, dtype: str, space: str) -> None:
    module = plugin_tests("reg")
    for name in module.FRAGMENTS:
        module.check_fragment(name, dtype, space, None, "cuda", gpu)


def test_register_permutations(gpu: str) -> None:
    module = plugin_tests("regperm")
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        for rows, columns in ((4, 4), (16, 4), (8, 2)):
            module.check(*module.per_lane(rows, columns), dtype, executor="cuda", target=gpu)
        for count in (2, 8, 32):
            module.check(*module.lanes_and_registers(count), dtype, executor="cuda", target=gpu)
        module.check(module.GAPS, module.GAPS_MOVED, dtype, executor="cuda", target=gpu)
    for dtype in ("float16", "uint8"):
        module.check_transposed_words(dtype, "cuda", gpu)

    @settings(max_examples=60)
    @given(module.within_threads() | module.within_warps())
    def run(case: dict) -> None:
        module.check(**case, executor="cuda", target=gpu)

    run()


@pytest.mark.filterwarnings("ignore::tilecopy.PerformanceWarning")
def test_cluster_copies(gpu: str) -> None:
    if tc.target_of(gpu).arch < 90:
        pytest.skip(f"clusters need sm_90, the GPU is {gpu}")
    module = plugin_tests("dsmem")
    for case in module.CASES:
        a = byte_arrays.random_array((64, 64), "float16")
        b = np.zeros_like(a)
        module.send(*case, target=gpu)(a, b, executor="cuda")
        assert byte_arrays.same_bytes(a, b), case
    for cluster in (2, 4, 8, 16):
        for computed in (False, True):
            a = byte_arrays.random_array((128, 64), "float16")
            b = np.zeros_like(a)
            demos.dsmem(gpu, cluster=cluster, computed=computed)(a, b, executor="cuda")
            assert byte_arrays.same_bytes(a, b), cluster
    a = byte_arrays.random_array((7, 64), "uint32")
    b = np.zeros_like(a)
    module.ring(gpu)(a.view(np.float32), b.view(np.float32), executor="cuda")
    assert byte_arrays.same_bytes(a, b)


def test_bulk_copies(gpu: str) -> None:
    if tc.target_of(gpu).arch < 90:
        pytest.skip(f"bulk copies need sm_90, the GPU is {gpu}")
    module = plugin_tests("bulk")
    for layout in (None, module.PADDED, module.SWIZZLED):
        for tiles, stages, prefetch in ((1, 2, False), (5, 2, True), (7, 3, True)):
            a = byte_arrays.random_array((tiles * 64, 64), "float16")
            b = np.zeros_like(a)
            module.pipeline(tiles, stages, layout, prefetch=prefetch, target=gpu)(a, b, executor="cuda")
            assert byte_arrays.same_bytes(a, b), (layout, tiles, stages)


def test_matrix_fragments(gpu: str) -> None:
    if tc.target_of(gpu).arch < 90:
        pytest.skip(f"stmatrix needs sm_90, the GPU is {gpu}")
    module = plugin_tests("ldmatrix")
    for name in module.ROUND_TRIPS:
        module.test_round_trips("cuda", name)
    module.test_what_lanes_hold_is_what_reg_loads("cuda")
    module.test_slices_at_starts_known_when_the_kernel_runs("cuda")


def test_random_copies(gpu: str) -> None:
    module = plugin_tests("gmem_smem")

    @settings(max_examples=100)
    @given(module.copies())
    def run(case: dict) -> None:
        module.check_copy(case, "cuda", gpu)

    run()
