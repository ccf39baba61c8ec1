"""Run mutation testing: draw faults from the syntax tree of packages, and see which of them the tests find.

    python tests/tools/mutation.py [PACKAGE ...] [--faults N] [--seed S] [--jobs 2] [--kit] [--fault NAME]

A package is a folder of plugins/, or `core`; none stands for all. The seed draws the same faults as long as their functions
stay as they are. The package's tests run twice, then those of tests/ for what they did not find:

1. with a probe at each fault, which tells the tests that reach it, and their CPU time;
2. once for each fault, with the fault planted and only those tests, file by file, until one fails.

A fault is found when a test fails, or takes over 20 times its usual CPU time. ``--kit`` runs the tests of the conformance
kit alone (`VariantSuite`): what a variant's author finds who writes no others. The checkout is never changed. The exit status is 1
where fewer than 85 percent are found.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from drawn_faults import changed, places

ROOT = Path(__file__).resolve().parents[2]
SEED = "1"
AT_LEAST = 0.85
"""The share of faults that the tests must find."""
ALL, OF_ONE, FEWEST = 300, 24, 3
"""Faults of all packages, of one that is named, and at the least of each."""
WORK_CPU_SECONDS, OF_A_FILE = 60, 10
"""Of tests, as they take without a fault, that are tried on one fault, and of those the most of one file."""
HANG_FACTOR, HANG_CPU_SECONDS, HANG_SECONDS = 20, 10, 300
"""A test hangs when it takes so many times its usual CPU time, and this beside it. A process that waits instead of working is
ended after so many times what its tests take, and the last figure beside it."""


OPTIONS = "-q -p drawn_faults -p _hypothesis_pytestplugin -p tilecopy_test_helpers.plugin -p no:cacheprovider --assert=plain --tb=no -r N".split()


class Fault(NamedTuple):
    """One fault: its package, its file from the root, and its name in the file."""

    package: str
    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}::{self.name}"


class Outcome(NamedTuple):
    """What a run of one file of tests gave: the status of pytest, its last lines of output, and the rows that the plugin recorded."""

    status: int
    last_lines: list[str]
    rows: list[dict[str, Any]]


def sources() -> dict[str, Path]:
    """The folder of each package's sources."""
    plugins = {path.parent.name: path for path in sorted(ROOT.glob("plugins/*/src"))}
    return {"core": ROOT / "tilecopy_core", **plugins}


def drawn(package: str, folder: Path, count: int, seed: str) -> list[Fault]:
    """So many faults of the files of a folder, the ones that a seed draws."""
    every = [
        Fault(package, os.path.relpath(path, ROOT), place.name)
        for path in sorted(folder.rglob("*.py"))
        for place in places(ast.parse(path.read_bytes()))
    ]
    return sorted(every, key=lambda fault: hashlib.sha256(f"{seed} {fault}".encode()).digest())[:count]


def shares(folders: dict[str, Path], total: int) -> dict[str, int]:
    """How many faults each package has of a total, by its statements."""
    statements = {
        name: sum(
            isinstance(node, ast.stmt)
            for path in folder.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_bytes()))
        )
        for name, folder in folders.items()
    }
    return {name: max(FEWEST, round(total * n / sum(statements.values()))) for name, n in statements.items()}


def run(
    test_file: Path, faults: Sequence[Fault], *, plant: bool, tests: dict[str, float] | None = None, kit: bool = False
) -> Outcome:
    """Run a file of tests with faults planted or probed, and only the given tests of it: name and usual CPU seconds."""
    by_file = defaultdict(list)
    for fault in faults:
        by_file[str((ROOT / fault.file).resolve())].append(fault.name)
    with tempfile.TemporaryDirectory(prefix="mutation-") as temporary:
        folder = Path(temporary)
        log = folder / "log"
        log.touch()
        limits = tests and {test: HANG_CPU_SECONDS + HANG_FACTOR * seconds for test, seconds in tests.items()}
        task = {"faults": by_file, "plant": plant, "limits_cpu_seconds": limits, "kit": kit, "log": str(log)}
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        (folder / "sitecustomize.py").write_text("import drawn_faults\ndrawn_faults.install()\n", encoding="utf-8")
        shutil.copy(ROOT / "tests" / "tools" / "drawn_faults.py", folder)
        plain = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        environment = plain | {
            "MUTATION": str(folder / "task.json"),
            "PYTHONPATH": os.pathsep.join(filter(None, [temporary, os.environ.get("PYTHONPATH", "")])),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "HYPOTHESIS_PROFILE": "first",  # the same examples, but no search for a smaller one once a fault is found
        }
        output = (folder / "output").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *OPTIONS, *(["-x"] if plant else []), str(test_file)],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            process.wait(None if tests is None else HANG_SECONDS + HANG_FACTOR * sum(tests.values()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        finally:
            status = process.wait()
            output.close()
        last_lines = (folder / "output").read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
        return Outcome(status, last_lines, [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()])


class Reaching(NamedTuple):
    """The tests of one file that reach a fault, with the CPU seconds of each, and of importing the file."""

    file: Path
    tests: dict[str, float]
    import_cpu_seconds: float

    @property
    def cost(self) -> float:
        """Of the file, in CPU seconds."""
        return self.import_cpu_seconds + sum(self.tests.values())


def reaching(test_file: Path, faults: Sequence[Fault], *, kit: bool) -> dict[Fault, Reaching]:
    """The tests of a file that pass and reach each fault."""
    status, last_lines, rows = run(test_file, faults, plant=False, kit=kit)
    if status not in (0, 1, 5):
        print(
            f"{os.path.relpath(test_file, ROOT)}: pytest ended with status {status} and no fault",
            *last_lines,
            sep="\n  ",
            flush=True,
        )
    failed = {row["test"] for row in rows if "failed" in row}
    seconds = {row["test"]: row["cpu_seconds"] for row in rows if "cpu_seconds" in row and row["test"] not in failed}
    tests_of = defaultdict(set)
    for row in rows:
        for name in row["reached"]:
            tests_of[name] |= {row["test"]} if row["test"] else seconds.keys()  # importing the file is every test's
    start = seconds.pop("", 0.0)
    found = {}
    for fault in faults:
        tests = {
            test: seconds[test] for test in tests_of[str(ROOT / fault.file) + "::" + fault.name] if test in seconds
        }
        if tests:
            found[fault] = Reaching(test_file, tests, start)
    return found


def finder(fault: Fault, files: Sequence[Reaching]) -> str:
    """The test that finds a fault, or "": files with the most tests per second first, up to a limit of work."""
    spent = 0.0
    for reach in sorted(files, key=lambda reach: reach.cost / len(reach.tests)):
        if spent > WORK_CPU_SECONDS:
            break
        tests: dict[str, float] = {}
        for test, seconds in sorted(reach.tests.items(), key=lambda pair: pair[1]):
            if not tests or sum(tests.values()) + seconds < OF_A_FILE:
                tests[test] = seconds
        spent += reach.import_cpu_seconds + sum(tests.values())
        outcome = run(reach.file, [fault], plant=True, tests=tests)
        if outcome.status not in (0, 5):  # 5: the fault took the tests away
            rows = [row for row in outcome.rows if "failed" in row]
            hangs = "hangs: " if (rows and rows[0]["failed"] == "hang") or outcome.status == -signal.SIGKILL else ""
            return hangs + (rows[0]["test"] if rows else f"import of {os.path.relpath(reach.file, ROOT)}")
    return ""


def tried(open_in: Mapping[Path, Sequence[Fault]], jobs: int, *, kit: bool) -> tuple[dict[Fault, str], set[Fault]]:
    """Return what the tests of folders find of the open faults of each, and which faults they reach."""
    runs = [
        (file, faults) for folder, faults in open_in.items() if faults for file in sorted(folder.rglob("test_*.py"))
    ]
    files_of: dict[Fault, list[Reaching]] = defaultdict(list)
    found: dict[Fault, str] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for part in pool.map(lambda run: reaching(*run, kit=kit), runs):
            for fault, reach in part.items():
                files_of[fault].append(reach)
        pending = {pool.submit(finder, fault, files_of[fault]): fault for fault in files_of}
        for done in as_completed(pending):
            fault = pending[done]
            if test := done.result():
                found[fault] = test
            print(f"{fault}  {test or 'missed by the tests that reach it'}", flush=True)
    return found, set(files_of)


def report(faults: Sequence[Fault], found: dict[Fault, str], reached: set[Fault]) -> str:
    """A table by package, and what was not found."""
    lines = ["| package | faults | found | of them hangs | not reached |", "|---|---|---|---|---|"]
    for name in [*dict.fromkeys(fault.package for fault in faults), "all"]:
        group = [fault for fault in faults if name in (fault.package, "all")]
        hangs = sum(found.get(fault, "").startswith("hangs") for fault in group)
        unreached = sum(fault not in reached for fault in group)
        lines.append(f"| {name} | {len(group)} | {sum(f in found for f in group)} | {hangs} | {unreached} |")
    for fault in faults:
        if fault not in found:
            _, before, after = changed((ROOT / fault.file).read_bytes(), fault.name)
            how = "missed" if fault in reached else "not reached"
            lines.append(f"\n{how}: {fault}\n    {before.strip()}\n    {after.strip()}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", nargs="*", metavar="PACKAGE", help=f"package to mutate: {', '.join(sources())}")
    parser.add_argument(
        "--faults", type=int, help=f"number of faults: by default {ALL} for all packages, or {OF_ONE} per named package"
    )
    parser.add_argument("--seed", default=SEED)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kit", action="store_true", help="run only the tests of the conformance kit")
    parser.add_argument("--fault", help="the printed name of a single fault")
    options = parser.parse_args(arguments)
    if unknown := set(options.package) - sources().keys():
        parser.error(f"there is no package {', '.join(sorted(unknown))}; the packages are {', '.join(sources())}")
    named = {name: folder for name, folder in sources().items() if name in options.package}
    folders = named or sources()
    count = shares(folders, options.faults or (OF_ONE * len(named) if named else ALL))
    faults = [fault for name in folders for fault in drawn(name, folders[name], count[name], options.seed)]
    if options.fault:
        faults = [f for name in folders for f in drawn(name, folders[name], 10**9, "") if str(f) == options.fault]
    own = {ROOT / "plugins" / name / "tests": [fault for fault in faults if fault.package == name] for name in folders}
    found, reached = tried(own, options.jobs, kit=options.kit)
    if not options.kit:
        rest = {ROOT / "tests": [fault for fault in faults if fault not in found]}
        found_by_rest, reached_by_rest = tried(rest, options.jobs, kit=False)
        found, reached = found | found_by_rest, reached | reached_by_rest
    print(report(faults, found, reached))
    return int(not options.kit and len(found) < AT_LEAST * len(faults))


if __name__ == "__main__":
    sys.exit(main())
