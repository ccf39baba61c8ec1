"""Count the Python calls behind README's copy, and how often they change files, here and in an earlier checkout.

    python tests/benchmarks/count_calls.py [CHECKOUT]

The copy is counted from its regions to the end of its text. A change of file is a call of a function in another file than its
caller's. The kernel is built once before, so imports and first uses are left out. Needs Python 3.11 or later. An earlier checkout
runs in its own environment, CHECKOUT/.venv, if it has one, else with this environment's entry points.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from checkouts import python_of

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import tilecopy as tc
from tilecopy_core import S, TileLayout

calls = changes = 0
counting = False


def count(frame, event, argument):
    global calls, changes, counting
    if event not in ("call", "return"):
        return
    code = frame.f_code
    if code.co_qualname in ("CopyStatement.lower", "Copy.lower"):  # Copy before 0.2
        counting = event == "call"
    if event == "call" and counting and not code.co_filename.startswith("<"):
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename.startswith("<"):
            caller = caller.f_back
        calls += 1
        changes += caller is not None and caller.f_code.co_filename != code.co_filename


def build():
    global counting
    k = tc.KernelBuilder("roundtrip", threads=128)
    a = k.param("A", (24 * 128, 64), "float16")
    swizzled = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[128, 64]))
    tile, row = k.shared((128, 64), "float16", layout=swizzled, name="tile"), k.block_id("x") * 128
    counting = True
    k.cta.copy(tile[:, :], a[row : row + 128, :])
    counting = False
    k.build(target="sm_90a", grid=(24,))


build()
sys.setprofile(count)
calls = changes = 0
build()
sys.setprofile(None)
print(calls, changes)
"""


def counts(checkout: Path) -> tuple[int, int]:
    """Return the calls and the changes of file of one copy, by a checkout's packages."""
    folders = [checkout, *checkout.glob("plugins/*/src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [python_of(checkout), "-c", PROGRAM]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=checkout)
    calls, changes = map(int, found.stdout.split())
    return calls, changes


def main() -> None:
    """Print one line for each checkout."""
    for checkout in (ROOT, *map(Path, sys.argv[1:])):
        calls, changes = counts(checkout.resolve())
        print(f"{checkout}: {calls} calls, {changes} changes of file")


if __name__ == "__main__":
    main()
