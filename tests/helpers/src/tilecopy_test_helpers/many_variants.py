"""Tiny variants, as an installer leaves them: what a process with many of them pays before its first plan."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

MODULE = """
from tilecopy_core.plugin import Accept, Variant, hookimpl

variant = Variant({name!r}, "copy", {priority}, "a test", (("global", "shared"),))


@hookimpl
def tilecopy_predicate(request):
    return Accept()


@hookimpl
def tilecopy_partition(request):
    return 1


@hookimpl
def tilecopy_emit(request, partition, ptx):
    ptx.instr("bar.warp.sync", 0xFFFFFFFF)
"""
METADATA = """Metadata-Version: 2.4
Name: acme-{name}
Version: 1.0
Summary: tilecopy variant: {name}
Requires-Python: >=3.11
Requires-Dist: tilecopy-core<0.3,>=0.2
Provides-Extra: test
Requires-Dist: tilecopy-testkit<0.3,>=0.2; extra == 'test'
Description-Content-Type: text/markdown

"""
IMPORT = "import tilecopy"
READY = "import tilecopy; found = tilecopy.default_registry().plugins()"
"""All that comes before the first plan: every variant found, imported and checked."""


def install_many(folder: Path, count: int) -> None:
    """Distributions of one variant each, with a readme of usual length in their metadata."""
    for number in range(count):
        name = f"tiny_{number:03}"
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(MODULE.format(name=name, priority=-1 - number))
        info = folder / f"acme_{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(METADATA.format(name=name) + "A line of the readme of such a package.\n" * 60)
        (info / "entry_points.txt").write_text(f"[tilecopy.variants.v1]\n{name} = {name}\n")


def cpu_seconds(codes: Mapping[str, tuple[str, Path]], runs: int = 9) -> dict[str, float]:
    """Least CPU seconds of fresh interpreters, their own start included, of modules that are compiled as pip leaves them.

    Args:
        codes: by name, what one runs and the folder of the packages that it finds beside the installed ones.
        runs: of each; they take turns, so that what else the machine does meets all alike.
    """
    found: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(runs + 1):
        for name, (code, folder) in codes.items():
            environment = os.environ | {
                "PYTHONPATH": str(folder),
                "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
                "PYTHONDONTWRITEBYTECODE": "",
                "OPENBLAS_NUM_THREADS": "1",
            }
            command = [sys.executable, "-c", f"{code}\nimport time; print(time.process_time())"]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            found[name].append(float(done.stdout))
    return {name: min(times[1:]) for name, times in found.items()}  # the first run compiles


def calls_of(code: str, folder: Path) -> int:
    """Return the calls and returns of functions that a fresh interpreter makes with the packages of a folder."""
    counted = f"""
import sys
calls = 0
def count(*_):
    global calls
    calls += 1
sys.setprofile(count)
{code}
sys.setprofile(None)
print(calls)
"""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", counted], capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)
