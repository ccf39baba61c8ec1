"""What importing the packages imports besides."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tilecopy_core.registry import known_variants

FOREIGN = ("cuda", "platformdirs", "torch", "cupy", "jax", "dask", "click", "pytest", "hypothesis")
"""Packages that an import of tilecopy leaves alone: CUDA's, frameworks, and those of tools."""


def imported_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter imports for a statement, beyond its own."""
    code = f"import sys; before = {{*sys.modules}}; {statement}; print(*sorted({{*sys.modules}} - before))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["tilecopy_core", "tilecopy", "tilecopy_relayout", "tilecopy_cuda"])
def test_an_import_takes_no_framework_and_nothing_of_cuda(package: str) -> None:
    modules = imported_by(f"import {package}")
    assert package in modules
    assert not [name for name in modules if name.partition(".")[0] in FOREIGN]


@pytest.mark.parametrize("package", ["tilecopy_core", "tilecopy"])
def test_a_name_imports_what_it_needs_when_it_is_first_used(package: str) -> None:
    modules = imported_by(f"import {package}")
    assert "numpy" not in modules and "tilecopy_core.layout.tile_layout" not in modules
    assert "tilecopy_core.layout.tile_layout" in imported_by(f"import {package}; {package}.TileLayout")


@pytest.mark.parametrize("package", ["tilecopy_core", "tilecopy", "tilecopy_relayout", "tilecopy_cuda"])
def test_every_public_name_is_there(package: str) -> None:
    imported_by(
        f"import {package} as p; assert {{*p.__all__}} <= {{*dir(p)}}; [getattr(p, name) for name in p.__all__]"
    )
    imported_by(f"from {package} import *; [globals()[name] for name in __import__({package!r}).__all__]")


def test_relayout_imports_its_planner_and_the_kernel_builder_before_the_first_plan() -> None:
    """Imports are a half of the time of a process's first relayout. What lowers a kernel is imported by the first build."""
    imported = imported_by("import tilecopy_relayout")
    assert imported.isdisjoint({"tilecopy_relayout.distributed.shards", "difflib", "fractions"})
    planned = imported_by(
        "import tilecopy_relayout; tilecopy_relayout.plan_relayout((4, 4), 'float32', (1, 0), target='sm_90')"
    )
    later = {name for name in planned - imported if name.startswith(("tilecopy.", "tilecopy_relayout"))}
    lowering = {"expression_text", "kernel.built", "kernel.lowering", "module_text", "shared_memory"}
    assert later == {f"tilecopy.{name}" for name in lowering} and "tilecopy_relayout.planner.plan" in imported


def test_importing_compiles_no_regular_expressions() -> None:
    count = "import re, re._compiler as c, urllib.parse, attrs, numpy; m, o = [], c.compile; c.compile = lambda *a: (m.append(a), o(*a))[1]"
    imported_by(f"{count}; import tilecopy_core.ptx, tilecopy_core.registry; assert not m, m")


@pytest.mark.parametrize("used", ["tilecopy_relayout", "tilecopy.KernelBuilder", "tilecopy.TileLayout"])
def test_numpy_is_imported_by_the_first_array_and_not_before(used: str) -> None:
    assert "numpy" not in imported_by(f"import {used.partition('.')[0]}; {used}")


def test_relayout_leaves_masked_arrays_to_those_who_have_some() -> None:
    code = "import tilecopy_relayout, numpy; from tilecopy.executors import is_masked; assert not is_masked(numpy.zeros(4))"
    assert "numpy.ma" not in imported_by(code)


def test_a_numpy_that_cannot_be_imported_is_the_error() -> None:
    code = """
        import sys, tilecopy as tc
        sys.modules["numpy"] = None
        try:
            tc.dtype_of(float)
        except ImportError as error:
            assert error.name == "numpy"
        else:
            raise AssertionError
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_threads_that_use_numpy_first_all_have_it() -> None:
    """The first of them imports it; the others wait for the whole of it."""
    code = """
        import sys, threading, tilecopy as tc
        kinds, start = [], threading.Barrier(8)
        def use():
            start.wait()
            kinds.append(tc.dtype_of("float16").numpy().name)
        threads = [threading.Thread(target=use) for _ in range(8)]
        assert "numpy" not in sys.modules
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        assert kinds == ["float16"] * 8, kinds
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], check=True)


def test_the_first_plan_imports_neither_variants_of_another_op_nor_partitions_that_another_copy_would_need() -> None:
    modules = imported_by(
        "import tilecopy as tc; a, s = (tc.Buffer((32, 32), 'float32', space=space) for space in ('global', 'shared'));"
        "assert tc.plan(s[:, :], a[:, :], scope=tc.warp(), target='sm_100a').variant == 'gmem_smem'"
    )
    others = ("tilecopy_tma", "tilecopy_tcgen05_cp", "tilecopy_tcgen05_ldst", "tilecopy_ldmatrix", "tilecopy_regperm")
    plugins = {point.module: known_variants()[point.name].op for point in entry_points(group="tilecopy.variants.v1")}
    assert {name for name, op in plugins.items() if op == "copy"} == plugins.keys() & modules
    assert {name for name in modules if name.startswith(others)} <= plugins.keys()


def test_importing_the_core_loads_no_plugin_and_no_cuda() -> None:
    code = """
        import sys, tilecopy
        tilecopy.KernelBuilder, tilecopy.Registry
        bad = [m for m in sys.modules if m.startswith(("tilecopy_gmem", "tilecopy_reg", "tilecopy_emulator", "cuda", "click", "rich"))]
        assert not bad, bad
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], check=True, cwd=Path("/"))
