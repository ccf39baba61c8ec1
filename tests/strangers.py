"""GPUVerify's CUDA programs on the emulator, from a copy of its sources: `nox -s strangers -- PATH [WORD ...]`, PATH its folder testsuite/CUDA.

Nothing of it is part of this project. The first line of each program says `//pass` or `//xfail:...`, the second the launch. GPUVerify
proves a kernel for all arguments; here it runs once, with arrays of zeros and each number what `__requires` says, else the number of
threads; large grids are halved. Equal values may be written by several threads, as GPUVerify has it. So a fault that hangs on other arguments is missed, and what is no race (an assertion that may fail, a null pointer) need not be told.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from tilecopy import AssemblerError, HazardError, LaunchError
from tilecopy_emulator import UnsupportedPtxError
from tilecopy_emulator.api import run_program
from tilecopy_emulator.cuda import compile_cuda
from tilecopy_emulator.program import Program

STATEMENTS = "requires ensures invariant global_invariant assert assume requires_fresh_array read_implies write_implies"
PRELUDE = "".join(f"#define __{name}(...) ((void)0)\n" for name in STATEMENTS.split()) + "#define __axiom(...)\n"
HOST_HEADERS = ("cuda.h", "stdio.h", "assert.h", "call_kernel.h")
WORDS = 1 << 18
SECONDS = 10
MOST_THREADS = 1 << 16


def launch_of(text: str, name: str) -> tuple[int, ...]:
    """The extents of `--gridDim=64` or `--gridDim=[8,8]`."""
    found = re.search(rf"--{name}=(\d+|\[[\d,]+\])", text)
    return tuple(map(int, re.findall(r"\d+", found[1]))) if found else (1,)


def arguments_of(program: Program, source: str, threads: int) -> list[Any]:
    """An array for each address, a number for each number, zeros for each structure."""
    wanted = [int(each) for each in re.findall(r"__requires\(\w+ == (\d+)\)", source)]
    found: list[Any] = []
    for parameter in program.parameters:
        if parameter.is_array:
            found.append(bytes(parameter.bytes))
        elif parameter.bytes == 8 and parameter.type[0] in "ub":
            found.append(np.zeros(WORDS, np.int32))
        else:
            number = wanted.pop(0) if wanted else threads
            found.append(
                float(number) if parameter.type[0] == "f" else min(number, 127) if parameter.bytes == 1 else number
            )
    return found


def outcome(path: Path, headers: Path) -> tuple[str, str]:
    """What became of a program, and what the emulator said."""
    source = path.read_text(encoding="utf-8", errors="replace")
    expected = "pass" if source.startswith("//pass") else "fail"
    if (
        "--warp-sync" in source.split("\n", 2)[1]
    ):  # GPUVerify is told that a warp's lanes run in step, as they did before Volta
        expected = f"lock step, {expected}"
    grid, block = launch_of(source, "gridDim"), launch_of(source, "blockDim")
    defines = re.findall(r"\s(-D\w+(?:=\w+)?)", source.split("\n", 2)[1])
    while prod(grid) > 1 and prod(grid) * prod(block) > MOST_THREADS:
        grid = tuple(-(-each // 2) for each in grid)
    signal.alarm(SECONDS)
    try:
        program = compile_cuda(
            source,
            options=["--device-debug", f"-I{headers}", f"--pre-include={headers / 'prelude.h'}", *defines],
            name=str(path),
        )
        arguments = arguments_of(program, source, prod(grid) * prod(block))
        run_program(
            program,
            arguments,
            grid=grid,
            block=block,
            cluster=None,
            dynamic_shared_bytes=0,
            profile=False,
            allow=("same-value",),
        )
    except (AssemblerError, LaunchError, UnsupportedPtxError) as error:
        return "not run", str(error).partition("\n")[0 if isinstance(error, (LaunchError, UnsupportedPtxError)) else 2]
    except TimeoutError:
        return "not run", f"more than {SECONDS} s"
    except HazardError as error:
        return f"{expected}, told: {error.kind}", str(error)
    finally:
        signal.alarm(0)
    return f"{expected}, clean", ""


def stop(*_: Any) -> None:
    """Too long."""
    raise TimeoutError


def main() -> None:
    """Run the programs of a folder; none may be wrongly told as a race, which is exit status 1."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("words", nargs="*")
    asked = options.parse_args()
    counts: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory() as folder:
        headers = Path(folder)
        for name in HOST_HEADERS:  # a kernel needs nothing of them
            (headers / name).touch()
        (headers / "prelude.h").write_text(PRELUDE)
        for path in sorted(asked.folder.rglob("*.cu")):
            name = str(path.relative_to(asked.folder).parent)
            if asked.words and not any(word in name for word in asked.words):
                continue
            how, said = outcome(path, headers)
            counts[how] += 1
            print(f"{name:60} {how:20} {' '.join(said.split())[:200]}", flush=True)
    for how, count in sorted(counts.items()):
        print(f"{count:4} {how}")
    sys.exit(any(how.startswith("pass, told: race") for how in counts))


if __name__ == "__main__":
    main()
