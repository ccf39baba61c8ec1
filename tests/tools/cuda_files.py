"""Emulate the kernels of your CUDA C++ files: `nox -s cuda_files -- PATH [WORD ...]`.

PATH is a .cu or .cuh file, or a folder with such files. WORDs select files by their names. The files are not part of this project. Every kernel,
and every template instance that a file launches, runs once with invented arguments: an array of zero bytes for each address, the number of
threads for each number. So the arguments may cause a hazard, for example a length that is too large; read its report.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tilecopy import AssemblerError, HazardError, LaunchError
from tilecopy_emulator import UnsupportedPtxError, run_ptx
from tilecopy_emulator.cuda_cpp import compile_cuda
from tilecopy_emulator.cuda_cpp.host_removal import source_file
from tilecopy_emulator.cuda_cpp.instances import launched_instances
from verification_suites import arguments_of, stop

GRID, BLOCK, DYNAMIC_SHARED_BYTES = (2, 1, 1), (128, 1, 1), 1 << 14
SECONDS = 60


def kernels_of(source: str) -> list[str | None]:
    """Return the kernels of a file and the instances of its templates, or [None] if its headers define them."""
    file = source_file(source)
    instances = launched_instances(file)
    plain = (each.name for each in file.kernels if each.name not in instances)
    return [*dict.fromkeys([*plain, *(name for listed in instances.values() for name in listed)])] or [None]


def outcomes(path: Path, target: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each kernel of a file, the outcome, and the first lines of the emulator's report."""
    source = path.read_text(encoding="utf-8", errors="replace")
    for entry in kernels_of(source):
        signal.alarm(SECONDS)
        said = ""
        try:
            program = compile_cuda(source, entry=entry, target=target, name=str(path))
            report = run_ptx(
                program,
                arguments_of(program, "", GRID[0] * BLOCK[0]),
                grid=GRID,
                block=program.block or BLOCK,
                cluster=None,
                dynamic_shared_bytes=DYNAMIC_SHARED_BYTES if any(each.extern for each in program.variables) else 0,
                profile=False,
                allow=(),
            )
            how, said = "no hazard", "; ".join(report.notes)
        except HazardError as error:
            how, said = f"hazard: {error.kind}", str(error)
        except (AssemblerError, LaunchError, UnsupportedPtxError) as error:
            how, said = "not run", str(error)
        except TimeoutError:
            how = f"more than {SECONDS} s"
        finally:
            signal.alarm(0)
        yield entry or "", how, said


def main() -> None:
    """Run the files of a folder, and exit with status 1 if a kernel could not be run."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("path", type=Path)
    options.add_argument("words", nargs="*")
    options.add_argument("--target", default="sm_90a")
    arguments = options.parse_args()
    signal.signal(signal.SIGALRM, stop)
    counts: Counter[str] = Counter()
    folder = arguments.path
    files = [folder] if folder.is_file() else sorted([*folder.rglob("*.cu"), *folder.rglob("*.cuh")])
    if arguments.words:
        files = [path for path in files if any(word in str(path) for word in arguments.words)]
    if not files:
        sys.exit(
            f"{folder} must be a .cu or .cuh file, or a folder with such files, and the words must occur in their paths"
        )
    for path in files:
        for entry, how, said in outcomes(path, arguments.target):
            counts[how] += 1
            print(f"{path.name:40} {entry:40} {how:20} {' '.join(said.split())[:400]}", flush=True)
    for how, count in sorted(counts.items()):
        print(f"{count:4} {how}")
    sys.exit(counts["not run"] > 0)


if __name__ == "__main__":
    main()
