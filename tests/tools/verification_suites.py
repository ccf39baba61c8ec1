"""Emulate programs of other verification suites, from your copy of them: `nox -s verification_suites -- PATH [WORD ...]`.

PATH is a folder of GPUVerify (testsuite/CUDA), of ScoR (microbenchmarks/src), or of CUDA codes that IndigoSuite has generated. Nothing
of them is part of this project. Each program runs once; a fault that hangs on other arguments is missed.

GPUVerify: the first line of each program says `//pass` or `//xfail:...`, the second the launch. It proves a kernel for all arguments; here
arrays are zeros and each number is what `__requires` says, else the number of threads; large grids and blocks are halved. Equal values may be written
by several threads, as GPUVerify has it. What is no race (an assertion that may fail, a null pointer) need not be told.

ScoR: the name of a program says whether it has a race; its host's part is cut off, and `volatile`, which makes strong accesses in PTX. Indigo: the name says which bugs it has; the graph is
made up, and there are more threads than vertices.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from tilecopy import AssemblerError, HazardError, LaunchError
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_emulator.cuda_cpp import compile_cuda
from tilecopy_emulator.program import Program
from tilecopy_emulator.signatures import DTYPES, parameter_types

STATEMENTS = "requires ensures invariant global_invariant assert assume requires_fresh_array read_implies write_implies"
PRELUDE = (
    "".join(f"#define __{name}(...) ((void)0)\n" for name in STATEMENTS.split())
    + "#define __axiom(...)\ntypedef unsigned int uint;\n"
)
HOST_HEADERS = ("cuda.h", "stdio.h", "assert.h", "call_kernel.h")
WORDS = 1 << 18
SECONDS = 10
MOST_THREADS, MOST_OF_BLOCK = 1 << 16, 1024
VERTICES = 24


def launch_of(text: str, name: str) -> tuple[int, ...]:
    """The extents of `--gridDim=64` or `--gridDim=[8,8]`."""
    found = re.search(rf"--{name}=(\d+|\[[\d,]+\])", text)
    return tuple(map(int, re.findall(r"\d+", found[1]))) if found else (1,)


def arguments_of(program: Program, source: str, threads: int) -> list[Any]:
    """An array for each address, a number for each number, zeros for each structure."""
    required = [int(number) for number in re.findall(r"__requires\(\w+ == (\d+)\)", source)]
    arguments: list[Any] = []
    types = parameter_types(program.name) or ("",) * len(program.parameters)
    for parameter, type_ in zip(program.parameters, types, strict=True):
        if parameter.is_array:
            arguments.append(bytes(parameter.bytes))
        elif parameter.bytes == 8 and parameter.type[0] in "ub" and type_ not in DTYPES:
            arguments.append(np.zeros(4 * WORDS, np.uint8))  # bytes are taken for an array of any type
        else:
            number = required.pop(0) if required else threads
            arguments.append(
                float(number) if parameter.type[0] == "f" else min(number, 127) if parameter.bytes == 1 else number
            )
    return arguments


@attrs.frozen
class SuiteProgram:
    """A program of a suite.

    Attributes:
        source: CUDA C++, what NVRTC takes of it.
        expected: "pass" or "fail", and what else is to be known.
        grid, block: of the launch.
        arguments: makes them for the compiled kernel.
        options: of NVRTC.
        allow: as of `run_ptx`.
    """

    source: str
    expected: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: Callable[[Program], list[Any]]
    options: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()


def of_gpuverify(source: str) -> SuiteProgram:
    """Its first two lines say what it is."""
    expected = "pass" if source[:6].lower() == "//pass" else "fail"
    if (
        "--warp-sync" in source.split("\n", 2)[1]
    ):  # GPUVerify is told that a warp's lanes run in step, as they did before Volta
        expected = f"lock step, {expected}"
    if "__axiom(blockIdx" in source:  # which no launch meets
        expected = f"by an axiom, {expected}"
    grid, block = launch_of(source, "gridDim"), launch_of(source, "blockDim")
    defines = re.findall(r"\s(-D\w+(?:=\w+)?)", source.split("\n", 2)[1])
    while prod(block) > MOST_OF_BLOCK:  # GPUVerify does not ask whether a GPU can
        block = tuple(-(-each // 2) for each in block)
    while prod(grid) > 1 and prod(grid) * prod(block) > MOST_THREADS:
        grid = tuple(-(-each // 2) for each in grid)
    threads = prod(grid) * prod(block)
    make = partial(arguments_of, source=source, threads=threads)
    return SuiteProgram(source, expected, grid, block, make, ("--device-debug", *defines), ("same-value",))


def of_scor(source: str, name: str) -> SuiteProgram:
    """One array; the launch is in two macros."""
    blocks, threads = (int(re.search(rf"#define {word}\s+\(?(\d+)", source)[1]) for word in ("NBLOCKS", "TPERBLK"))  # type: ignore[index]
    device = re.sub(r"void errCheck\(\)\s*\{.*?\n\}", "", source.partition("\nint main")[0], flags=re.DOTALL)
    device = device.replace("volatile ", "")  # in PTX a volatile access is a strong one, and no race
    expected = "fail" if name.startswith("race") else "pass"
    return SuiteProgram(
        device, expected, (blocks,), (threads,), lambda program: [np.zeros(WORDS, np.int32)], ("--device-debug",)
    )


def of_indigo(source: str, name: str) -> SuiteProgram:
    """A graph by rows, in which one vertex has many neighbours and the first and last have none, two arrays of data, and the number of vertices."""
    draw = np.random.default_rng(0)
    degrees = [VERTICES if v == 3 else 0 if v in (0, VERTICES - 1) else 4 for v in range(VERTICES)]
    neighbours = [np.unique(draw.integers(0, VERTICES, degree)) for degree in degrees]
    index = np.concatenate([[0], np.cumsum([len(each) for each in neighbours])]).astype(np.int32)
    size = max(VERTICES, int(index[-1]))
    data = [np.concatenate([[0], draw.integers(0, most, size - 1)]).astype(np.int32) for most in (VERTICES, size)]
    device = source.partition("void serial_code")[0].replace('#include "indigo_cuda.h"', "")
    bugs = " ".join(part for part in name.split("_") if part.endswith("Bug"))
    arguments = [index, np.concatenate(neighbours).astype(np.int32), *data, VERTICES]
    return SuiteProgram(device, f"fail ({bugs})" if bugs else "pass", (VERTICES + 4,), (64,), lambda program: arguments)


def suite_program_of(path: Path) -> SuiteProgram | None:
    """A program of one of the suites; None for any other file."""
    source = path.read_text(encoding="utf-8", errors="replace")
    if path.name.startswith(("race_", "norace_")):
        return of_scor(source, path.name)
    if "indigo_cuda.h" in source:
        return of_indigo(source, path.stem)
    return of_gpuverify(source) if source[:7].lower().startswith(("//pass", "//xfail")) else None


def outcome(suite_program: SuiteProgram, path: Path, headers: Path) -> tuple[str, str]:
    """What became of a program, and what the emulator said."""
    signal.alarm(SECONDS)
    try:
        options = [f"-I{headers}", f"--pre-include={headers / 'prelude.h'}", *suite_program.options]
        program = compile_cuda(suite_program.source, options=options, name=str(path))
        run_ptx(
            program,
            suite_program.arguments(program),
            grid=suite_program.grid,
            block=suite_program.block,
            cluster=None,
            dynamic_shared_bytes=0,
            profile=False,
            allow=suite_program.allow,
        )
    except (AssemblerError, LaunchError, UnsupportedPtxError) as error:
        return "not run", str(error).partition("\n")[0 if isinstance(error, (LaunchError, UnsupportedPtxError)) else 2]
    except TimeoutError:
        return "not run", f"more than {SECONDS} s"
    except HazardError as error:
        return f"{suite_program.expected}, told: {error.kind}", str(error)
    finally:
        signal.alarm(0)
    return f"{suite_program.expected}, clean", ""


def stop(*_: Any) -> None:
    """Too long."""
    raise TimeoutError


def main() -> None:
    """Run the programs of a folder; none may be wrongly told as a race, which is exit status 1."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
            name, suite_program = str(path.relative_to(asked.folder)), suite_program_of(path)
            if suite_program is None or (asked.words and not any(word in name for word in asked.words)):
                continue
            how, said = outcome(suite_program, path, headers)
            counts[how] += 1
            print(f"{name:60} {how:20} {' '.join(said.split())[:200]}", flush=True)
    for how, count in sorted(counts.items()):
        print(f"{count:4} {how}")
    sys.exit(any(how.startswith("pass, told: race") for how in counts))


if __name__ == "__main__":
    main()
