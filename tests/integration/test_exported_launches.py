"""What docs/export.md says to other launchers: the page's own code, on the GPU; its C++ also without one."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import redirect_stdout
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "export.md").read_text()
LAUNCHERS = dict(re.findall(r"<!-- launcher: (\w+) .*?-->\n+```py\n(.*?)```", PAGE, re.S))


@cache
def page() -> dict[str, Any]:
    """The names that the page's executed blocks leave."""
    names: dict[str, Any] = {}
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        with redirect_stdout(StringIO()):
            for block in re.findall(r"```python\n(.*?)```", PAGE, re.S):
                exec(compile(block, "docs/export.md", "exec"), names)
    finally:
        os.chdir(here)
    return names


def nvidia(pattern: str) -> Path:
    """A file of the NVIDIA wheels; skips where there is none."""
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec is not None else []:
        for found in Path(root).glob(pattern):
            return found
    pytest.skip(f"no {pattern} in the NVIDIA wheels")


def test_the_page_has_a_launcher_for_each_library() -> None:
    assert set(LAUNCHERS) == {"cuda_core", "cupy", "torch"} and "```cpp" in PAGE
    for text in LAUNCHERS.values():
        compile(text, "docs/export.md", "exec")


@pytest.mark.parametrize("name", sorted(LAUNCHERS))
def test_a_library_launches_a_saved_kernel_on_the_gpu(gpu: str, name: str) -> None:
    library = pytest.importorskip("cupy" if name == "cupy" else "torch")
    names = dict(page())
    exec(compile(LAUNCHERS[name], "docs/export.md", "exec"), names)
    x = np.random.default_rng(1).random((24, 192), np.float32)
    if name == "cupy":
        a, b = library.asarray(x), library.zeros(x.shape, library.float32)
    else:
        a = library.from_numpy(x).cuda()
        b = library.zeros_like(a)
        library.cuda.synchronize()
    names["run"]({"A": a, "B": b})
    if name != "cupy":
        library.cuda.synchronize()
    assert np.array_equal(b.get() if name == "cupy" else b.cpu().numpy(), x)


def cpp(folder: Path, *options: str) -> None:
    source = re.search(r"```cpp\n(.*?)```", PAGE, re.S)
    assert source is not None
    (folder / "launch.cpp").write_text(source[1])
    include = nvidia("*/include/cuda.h").parent
    command = ["g++", "-std=c++17", "-Wall", "-Werror", f"-I{include}", "launch.cpp", *options]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    except OSError as error:
        pytest.skip(f"no g++: {error}")
    assert done.returncode == 0, done.stderr


def test_the_pages_cpp_compiles(tmp_path: Path) -> None:
    cpp(tmp_path, "-fsyntax-only")


def test_the_pages_cpp_launches_on_the_gpu(gpu: str, tmp_path: Path) -> None:
    stub = next(
        (p for p in map(Path, ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1")) if p.exists()),
        None,
    )
    if stub is None:
        pytest.skip("libcuda.so.1 is at no usual place to link with")
    cpp(tmp_path, str(stub), "-o", "launch")
    page()["kernel"].save(tmp_path / "add_tail")
    done = subprocess.run([str(tmp_path / "launch")], cwd=tmp_path, timeout=600, check=False)
    assert done.returncode == 0


def test_nvcc_takes_a_header_for_two_architectures(tmp_path: Path) -> None:
    nvcc = nvidia("*/bin/nvcc")
    a, b = (tc.Buffer((512, 64), "float16", space="global", name=name) for name in "AB")
    bx = tc.symbol("bx", upper=3)
    tile = tc.Buffer((128, 64), "float16", space="shared", name="tile")
    part = tc.Buffer(
        (128, 64),
        "float16",
        space="local",
        name="part",
        layout=TileLayout(S[(8, 16, 8, 8) : (8, 8 @ tc.tx, 1 @ tc.tx, 1)]),
    )
    rows = slice(bx * 128, bx * 128 + 128)
    scope = tc.cta(128)
    load = tc.plan(tile[:, :], a[rows, :], op="copy_async", scope=scope, target="sm_80")
    read = tc.plan(part[:, :], tile[:, :], scope=scope, target="sm_80")
    write = tc.plan(b[rows, :], part[:, :], scope=scope, target="sm_80")
    header = tc.cuda_header([load.cuda("load_tile"), read.cuda("read_tile"), write.cuda("write_tile")])
    (tmp_path / "tiles.cuh").write_text(header)
    words = 8 * 8 // 2
    (tmp_path / "kernel.cu").write_text(
        f"""#include "tiles.cuh"
#include "tiles.cuh"
__global__ void kernel(const void* A, void* B)
{{
#if __CUDA_ARCH__ >= 800
    __shared__ __align__(128) char tile[16384];
    uint32_t part[{words}];
    load_tile(tilecopy::shared_address(tile), A, blockIdx.x);
    tilecopy::cp_async_commit();
    tilecopy::cp_async_wait<0>();
    __syncthreads();
    read_tile(part, tilecopy::shared_address(tile));
    write_tile(B, part, blockIdx.x);
#endif
}}
void start(const void* A, void* B) {{ kernel<<<4, 128>>>(A, B); }}
"""
    )
    architectures = ["-gencode=arch=compute_75,code=sm_75", "-gencode=arch=compute_90,code=sm_90"]
    options = [
        "-c",
        "-std=c++17",
        "-DTILECOPY_ASSERT",
        "--Werror=all-warnings",
        *architectures,
        "kernel.cu",
        "-o",
        "kernel.o",
    ]
    done = subprocess.run([str(nvcc), *options], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    if "host compiler" in done.stderr or ("gcc" in done.stderr.split("error")[0] and "No such file" in done.stderr):
        pytest.skip(f"nvcc has no host compiler: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
