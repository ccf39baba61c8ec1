"""The core, the partitions and one variant alone plan a copy; with the package tilecopy it is a PTX module."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tilecopy as tc
from install_subset import COPIES
from tilecopy import S, TileLayout
from tilecopy.assemblers import assemble, available_assemblers
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers.forked_programs import run_program
from tilecopy_test_helpers.mentions import mentions

from tilecopy_partitions.catalog import KNOWN_VARIANTS

TOOLS = str(Path(__file__).parents[2] / "tests" / "tools")
ALONE = """
import sys, warnings
from importlib.abc import MetaPathFinder

warnings.simplefilter("error")
name, package, folder = sys.argv[1:]

class Absent(MetaPathFinder):
    def find_spec(self, module, path=None, target=None):
        if module.startswith("tilecopy") and module.partition(".")[0] not in ("tilecopy_core", "tilecopy_partitions", package):
            raise ModuleNotFoundError(module)

sys.meta_path.insert(0, Absent())
sys.path.insert(0, folder)
import install_subset, tilecopy_core
from tilecopy_core.registry import VARIANTS_GROUP, installed_sources
registry = tilecopy_core.Registry([source for source in installed_sources(VARIANTS_GROUP) if source.name == name], {})
plan = install_subset.planned(name, registry=registry)
assert not [module for module in sys.modules if module.partition(".")[0] in ("tilecopy", "cuda", "click")]
sys.meta_path.pop(0)
import tilecopy
print(tilecopy.ptx_text(plan, "alone", registry))
"""


@cache
def alone(name: str) -> str:
    """The text of a variant's copy, planned where no package of ours but the core, the partitions and the variant's can be imported."""
    module = KNOWN_VARIANTS[name].package.replace("-", "_")
    done = run_program(ALONE, name, module, TOOLS, modules=("numpy", "attrs", "pluggy", "importlib.metadata"))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_variant_has_a_copy() -> None:
    assert set(COPIES) == set(KNOWN_VARIANTS)


@pytest.mark.parametrize("name", COPIES)
def test_a_variant_needs_the_core_and_the_partitions_alone(name: str) -> None:
    text = alone(name)
    assert ".visible .entry alone(" in text and f"({name}, " in text
    assert re.findall(r"\.param \.(\w+) (\w+)", text) == PARAMETERS.get(name, [])
    if available_assemblers():
        assert assemble(text, COPIES[name][2].get("target", "sm_90a"))


OF_ROWS = [("u64", "param_A"), ("b32", "param_row"), ("b32", "param_n")]
PARAMETERS = {
    "gmem_smem": OF_ROWS,
    "ldgsts": OF_ROWS,
    "ragged": OF_ROWS,
    "ragged_async": OF_ROWS,
    "bulk": [("u64", "param_global_2")],
    "bulk_store": [("u64", "param_global_2")],
    "dsmem": [("b32", "param_n")],
    "tma": [*OF_ROWS, ("align", "64")],
    "tma_store": [*OF_ROWS, ("align", "64")],
}


def test_a_module_of_one_copy_runs() -> None:
    row = tc.symbol("row", multiple_of=8, upper=56)
    a = tc.Buffer((64, 8), "float32", space="global", name="A")
    tile = tc.Buffer((8, 8), "float32", space="shared", name="tile")
    text = tc.ptx_text(tc.plan(tile[:, :], a[row : row + 8, :], scope=tc.warp(), target="sm_80"), "load")
    array = np.arange(512, dtype=np.float32).reshape(64, 8)
    report = run_ptx(text, (array, 56), grid=1, block=32)
    assert report.instructions
    with pytest.raises(tc.HazardError, match="outside"):
        run_ptx(text, (array, 64), grid=1, block=32)


def test_operands_of_one_name_are_refused() -> None:
    one, other = (tc.Buffer((32, 8), "float32", space=space, name="x") for space in ("global", "shared"))
    with pytest.raises(tc.RequestError, match=mentions("x")):
        tc.ptx_text(tc.plan(other[:, :], one[:, :], scope=tc.warp(), target="sm_80"))


def test_tensor_memory_has_an_address_first() -> None:
    lanes, owned = TileLayout(S[(32, 4) : (1 @ tc.TLane, 1 @ tc.TCol)]), TileLayout(S[(32, 4) : (1 @ tc.laneid, 1)])
    fragment = tc.Buffer((32, 4), "uint32", space="local", layout=owned, name="fragment")
    word = tc.Buffer((1,), "uint32", space="shared", name="word")
    tensor, placed = (
        tc.Buffer((32, 4), "uint32", space="tmem", layout=lanes, name="T", allocated_addr=holder)
        for holder in (None, word)
    )
    with pytest.raises(tc.RequestError, match=mentions("T", "allocated_addr")):
        tc.ptx_text(tc.plan(fragment[:, :], tensor[:, :], scope=tc.warp(), target="sm_100a"))
    assert "smem_word" in tc.ptx_text(tc.plan(fragment[:, :], placed[:, :], scope=tc.warp(), target="sm_100a"))


def test_a_view_has_its_memory() -> None:
    whole = tc.Buffer((64, 8), "float32", space="shared", name="whole")
    a = tc.Buffer((8, 64), "float32", space="global", name="A")
    text = tc.ptx_text(tc.plan(whole.T[:, :], a[:, :], scope=tc.warp(), target="sm_80"))
    assert ".b8 smem_whole[2048];" in text


def test_without_the_package_that_writes_cuda_the_plan_says_what_to_install() -> None:
    code = """
import tilecopy_core.registry.lazy_names as names
names.by_name = lambda group: {}
import install_subset, tilecopy_core as tc
for act in (lambda: install_subset.planned("gmem_smem").cuda("f"), lambda: names.exporter("cuda_header")):
    try: act()
    except tc.PluginError as error: print(error)
"""
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2] / 'tests' / 'tools')!r}){code}",
    ]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    what = "install tilecopy-export (from a checkout: pip install plugins/partitions plugins/kernel plugins/export)"
    assert lines == [
        f"no installed package can write CUDA C++ (entry point {name}); {what}"
        for name in ("cuda_function", "cuda_header")
    ]
