"""Mutation testing: plant each fault of tests/mutants/*.toml in a copy of the tree and see which test finds it.

    python tests/mutation.py [--only AREA]... [--id ID]... [--jobs 2] [--timeout 120] [--wide] [--retry] [--stale] [--report]

Run it with the Python of the `tests` session (`nox -s mutants -- --only layout` does). The checkout itself is never
changed: each job has its own copy of the tree in a temporary folder, whose sources come first on the path of the tests.
For every entry of the list the copy's file gets ``new`` for ``old``, the entry's tests run (or those of its area) with
``pytest -x``, and the outcome is recorded in tests/mutants/RESULTS.json:

- ``killed``: a test failed; ``by`` names the first that did (or the file that no longer imports).
- ``timeout``: the tests were still running at the limit and were ended. A hang is a fault that is found: it counts as killed.
- ``survived``: every test passed.

Before any mutant, the same tests run on the unmutated copy; where they are not green, nothing of that set is run or
recorded, and the exit status is 2. A run is an error, too, when the mutated module was not the one that was imported,
or when any of the project's modules came from outside the copy. Options: ``--wide`` runs the area's ``wide`` tests
instead (for survivors), ``--retry`` only what has no result or survived, ``--stale`` only what has no result or was
recorded for other code, ``--report`` prints the figures and runs nothing, ``--check`` prints what is stale. The exit status
is 1 when a mutant survived that the list does not explain (``survives``), or with ``--check`` when something is stale.

A result holds for the code that it was found with, so it has two digests of syntax trees (neither comments nor layout
count): ``code``, of the function that the fault is in and the fault itself, and ``evidence``, of the test that failed with
what it uses of its module, or of every test of the entry where none failed.

The process that is forked for each run has the third-party packages imported already and none of the project's.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import hashlib
import importlib
import importlib.util
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "mutants"
RESULTS = LISTS / "RESULTS.json"
WARM = ("numpy", "hypothesis", "hypothesis.strategies", "hypothesis.extra.numpy", "ml_dtypes", "attrs", "pytest")
"""Imported once, before the forks: nothing of the project."""
OUTCOMES = ("killed", "timeout", "survived")
_IGNORED = shutil.ignore_patterns(
    ".git", ".nox", ".venv", ".*_cache", ".hypothesis", "__pycache__", "*.egg-info", "node_modules"
)
_FORK = multiprocessing.get_context("fork")


@attrs.frozen
class Mutant:
    """One planted fault.

    Attributes:
        id: area and number.
        area: the list that it is in.
        file: the file that is changed, from the root.
        old, new: the text that is replaced, which occurs once in the file, and what replaces it.
        tests: the tests that must find it, likely killers first.
        wide: more tests, to try a survivor with.
        survives: why no test can find it; "" where one must.
    """

    id: str
    area: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    wide: tuple[str, ...]
    survives: str = ""

    def applied(self, text: str) -> str:
        """The file with the fault; raises ValueError unless the old text occurs exactly once."""
        found = text.count(self.old)
        if found != 1 or self.old == self.new:
            raise ValueError(f"{self.id}: the old text occurs {found} times in {self.file}, or is the new one")
        return text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """Every entry of every list, in order."""
    found = []
    for path in sorted(LISTS.glob("*.toml")):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        tests, wide = table["tests"], table.get("wide", {})
        for entry in table["mutant"]:
            file = entry.pop("file")
            named = entry.pop("tests", None) or _nearest(tests, file)
            found.append(
                Mutant(
                    area=path.stem,
                    file=file,
                    tests=tuple(named),
                    wide=tuple(_nearest(wide, file)),
                    **entry,
                )
            )
    return found


def _nearest(table: dict[str, list[str]], file: str) -> list[str]:
    """The tests of the longest prefix of a file's path; "" is every file's."""
    return table.get(max((prefix for prefix in table if file.startswith(prefix)), key=len, default=""), [])


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _statements(path: Path) -> list[ast.stmt]:
    """Outer ones first."""
    return [node for node in ast.walk(_tree(path)) if isinstance(node, ast.stmt)]


def _plain(node: Any) -> Any:
    """A syntax tree without positions and without what is empty: alike on every Python that parses it."""
    if isinstance(node, ast.AST):
        return [type(node).__name__, *((name, _plain(value)) for name, value in ast.iter_fields(node) if value)]
    return [_plain(each) for each in node] if isinstance(node, list) else repr(node)


def _digest(*parts: Any) -> str:
    return hashlib.sha256(repr([_plain(part) for part in parts]).encode()).hexdigest()[:16]


def _code(mutant: Mutant, root: Path) -> str:
    """The digest of a fault and of the function that it is in, or of its statement where it is in none."""
    path = root / mutant.file
    text = path.read_text(encoding="utf-8")
    start = text.index(mutant.old) + len(mutant.old) - len(mutant.old.lstrip())
    line = text.count("\n", 0, start) + 1
    around = [node for node in _statements(path) if node.lineno <= line <= (node.end_lineno or 0)]
    functions = (node for node in around if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return _digest(mutant.old, mutant.new, next(functions, around[-1] if around else _tree(path)))


@cache
def _defined(file: Path) -> dict[str, list[ast.stmt]]:
    """The statements of a module by the name that they define."""
    found: dict[str, list[ast.stmt]] = {}
    for node in _tree(file).body:
        names = [node.name] if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            names = [
                part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            ]
        for name in names:
            found.setdefault(name, []).append(node)
    return found


@cache
def _definition(file: Path, name: str) -> tuple[str, set[str]]:
    """The digest of a definition, and the names that it uses."""
    nodes = _defined(file)[name]
    parts = [part for node in nodes for part in ast.walk(node)]
    used = {part.id for part in parts if isinstance(part, ast.Name)} | {p.arg for p in parts if isinstance(p, ast.arg)}
    return _digest(*nodes), used & _defined(file).keys()


@cache
def _whole(path: Path) -> str:
    """The digest of a file, or of every file of a folder."""
    return _digest(*map(_tree, sorted(path.rglob("*.py") if path.is_dir() else [path])))


def _evidence(test: str, root: Path) -> list[str]:
    """The digests of a test and of what it uses of its module, or of a file or folder."""
    name, _, function = test.partition("[")[0].partition("::")
    path = root / name
    if not path.exists() or not function:
        return [_whole(path)] if path.exists() else []
    found: dict[str, str] = {}
    pending = {function.partition("::")[0]} & _defined(path).keys()
    while pending:
        used = pending.pop()
        found[used], others = _definition(path, used)
        pending |= others - found.keys()
    return [found[used] for used in sorted(found)]


def digests(mutant: Mutant, found: dict[str, Any], root: Path = ROOT) -> dict[str, str]:
    """What a result holds for: ``code`` and ``evidence``; see the module's docstring."""
    one = found["outcome"] == "killed" and "::" in found["by"]
    tests = [found["by"]] if one else mutant.tests
    return {
        "code": _code(mutant, root),
        "evidence": _digest(*(part for test in tests for part in _evidence(test, root))),
    }


def unplantable(listed: Iterable[Mutant]) -> list[str]:
    """Why mutants cannot be planted: the text that they replace is gone, or there more than once."""
    found = []
    for mutant in listed:
        try:
            mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            found.append(f"{mutant.id}: {error}")
    return found


def stale(listed: Iterable[Mutant], results: dict[str, dict[str, Any]]) -> list[str]:
    """The mutants with no result, or with one that was found with another function or test."""
    return [
        mutant.id
        for mutant in listed
        if not (found := results.get(mutant.id)) or digests(mutant, found).items() - found.items()
    ]


def sources(root: Path) -> list[Path]:
    """The folders that hold the project's packages."""
    return [root, *sorted(root.glob("plugins/*/src"))]


def _module_name(file: str) -> str:
    parts = list(Path(file).with_suffix("").parts)
    if "src" in parts:
        parts = parts[parts.index("src") + 1 :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class _Watch:
    """A pytest plugin: the first test that fails."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed = f"import of {report.nodeid}"


def _run_tests(folder: Path, tests: Sequence[str], file: str, log: Path, answer: Path) -> None:
    """In a forked process: run tests in a copy of the tree and write what came out of them."""
    os.setsid()
    with log.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    os.chdir(folder)
    added = [str(path) for path in sources(folder)]
    here = str(ROOT)
    sys.path[:] = added + [path for path in sys.path if path and not path.startswith(here + "/tests")]
    sys.argv[:] = ["pytest"]
    sys.dont_write_bytecode = True
    os.environ.update(
        PYTHONPATH=os.pathsep.join(added),
        PYTHONDONTWRITEBYTECODE="1",
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        HYPOTHESIS_PROFILE="first",  # the same examples, but no search for a smaller one once a fault is found
    )
    import pytest

    watch = _Watch()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "--tb=short"]
    status = int(pytest.main([*options, "--rootdir", str(folder), *tests], plugins=[watch]))
    loaded = {
        name: Path(module.__file__)
        for name, module in sys.modules.items()
        if name.split(".")[0].startswith("tilecopy") and getattr(module, "__file__", None)
    }
    strangers = [f"{name} from {path}" for name, path in loaded.items() if not path.is_relative_to(folder)]
    missing = bool(file) and not watch.failed.startswith("import of") and _module_name(file) not in loaded
    answer.write_text(
        json.dumps(
            {"status": status, "by": watch.failed, "strangers": strangers, "not_imported": missing and status == 0}
        )
    )
    os._exit(0)


class Job:
    """One copy of the tree, and the run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tree"
        self.log, self.answer = folder / "log.txt", folder / "answer.json"
        shutil.copytree(ROOT, self.folder, ignore=_IGNORED)
        compileall.compile_dir(str(self.folder), quiet=2, workers=1)
        self.process: Any = None

    def start(self, tests: Sequence[str], mutant: Mutant | None, limit: float) -> None:
        """Begin to run tests, with a fault or without."""
        self.mutant, self.tests, self.begun, self.limit = mutant, tuple(tests), time.monotonic(), limit
        file = ""
        if mutant is not None:
            file = mutant.file
            path = self.folder / file
            self.original = path.read_bytes()
            path.write_text(mutant.applied(self.original.decode()), encoding="utf-8")
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)
        self.answer.unlink(missing_ok=True)
        self.process = _FORK.Process(target=_run_tests, args=(self.folder, self.tests, file, self.log, self.answer))
        self.process.start()

    def outcome(self) -> dict[str, Any] | None:
        """What came out of the run, or None while it goes on."""
        seconds = time.monotonic() - self.begun
        late = seconds > self.limit
        if self.process.is_alive() and not late:
            return None
        if late:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()
        if self.mutant is not None:
            path = self.folder / self.mutant.file
            path.write_bytes(self.original)
        found: dict[str, Any] = {"seconds": round(seconds, 1)}
        if late:
            return found | {"outcome": "timeout", "by": ", ".join(self.tests)}
        if not self.answer.exists():  # the interpreter itself came down
            return found | {"outcome": "killed", "by": f"end of the process with status {self.process.exitcode}"}
        said = json.loads(self.answer.read_text())
        if said["strangers"] or said["not_imported"]:
            why = said["strangers"][:3] or "the mutated module was not imported"
            return found | {"outcome": "error", "by": str(why)}
        if said["status"] in (0, 1, 2):
            return found | {"outcome": "survived" if said["status"] == 0 else "killed", "by": said["by"]}
        return found | {"outcome": "error", "by": f"pytest ended with status {said['status']}"}


Task = tuple[tuple[str, ...], "Mutant | None", float]


def run_all(jobs: Sequence[Job], tasks: Iterable[Task]) -> Iterator[tuple[Task, dict[str, Any], Job]]:
    """The outcome of every task, as they end."""
    waiting = iter(tasks)
    busy: dict[Job, Task] = {}
    free = list(jobs)
    done = False
    while True:
        while free and not done:
            task = next(waiting, None)
            if task is None:
                done = True
                break
            job = free.pop()
            job.start(task[0], task[1], task[2])
            busy[job] = task
        if not busy:
            return
        time.sleep(0.05)
        for job in list(busy):
            found = job.outcome()
            if found is not None:
                yield busy.pop(job), found, job
                free.append(job)


def read_results() -> dict[str, dict[str, Any]]:
    """What is recorded, by id."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def write_results(results: dict[str, dict[str, Any]], order: Sequence[str]) -> None:
    """Record results, one line a mutant, in the order of the lists."""
    lines = [f"  {json.dumps(name)}: {json.dumps(results[name])}" for name in order if name in results]
    new = RESULTS.with_suffix(".new")
    new.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    new.replace(RESULTS)  # in one step: another area may be run at the same time


def report(listed: Sequence[Mutant], results: dict[str, dict[str, Any]]) -> str:
    """The figures an area, and every survivor with its explanation."""
    lines = ["| area | mutants | killed | of them by a timeout | survived | no result |", "|---|---|---|---|---|---|"]
    groups = [(area, [m for m in listed if m.area == area]) for area in dict.fromkeys(m.area for m in listed)]
    for area, group in [*groups, ("all", list(listed))]:
        count = Counter(results.get(m.id, {}).get("outcome", "none") for m in group)
        killed = count["killed"] + count["timeout"]
        lines.append(
            f"| {area} | {len(group)} | {killed} | {count['timeout']} | {count['survived']} | {count['none']} |"
        )
    for mutant in listed:
        if results.get(mutant.id, {}).get("outcome") == "survived":
            lines.append(f"\n{mutant.id} ({mutant.file}) survived: {mutant.survives or 'NOT EXPLAINED'}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="AREA", help="an area (repeatable)")
    parser.add_argument("--id", action="append", metavar="ID", help="a mutant (repeatable)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds a mutant, at least; 6 times its baseline")
    parser.add_argument("--wide", action="store_true", help="with the area's wide tests")
    parser.add_argument("--retry", action="store_true", help="only what has no result or survived")
    parser.add_argument("--stale", action="store_true", help="only what has no result or was recorded for other code")
    parser.add_argument("--check", action="store_true", help="print what is stale, run nothing")
    parser.add_argument("--report", action="store_true", help="print the figures, run nothing")
    parser.add_argument("--verbose", action="store_true", help="show the output of what was not green")
    options = parser.parse_args(arguments)
    listed, results = mutants(), read_results()
    order = [mutant.id for mutant in listed]
    if options.report:
        print(report(listed, results))
        return 0
    if gone := unplantable(listed):
        print("\n".join(gone))
        return 2
    old = set(stale(listed, results)) if options.stale or options.check else set[str]()
    if options.check:
        print(f"stale: {', '.join(sorted(old)) or 'nothing'}")
        return int(bool(old))
    chosen = [
        mutant
        for mutant in listed
        if (not options.only or mutant.area in options.only)
        and (not options.id or mutant.id in options.id)
        and (not options.stale or mutant.id in old)
        and (not options.retry or results.get(mutant.id, {}).get("outcome") in (None, "survived"))
    ]
    for name in WARM:
        importlib.import_module(name)
    tests_of = {m.id: (m.wide or m.tests) if options.wide else m.tests for m in chosen}
    failed = False
    with tempfile.TemporaryDirectory(prefix="mutation-") as temporary:
        places = [Path(temporary) / str(number) for number in range(options.jobs)]
        jobs = [Job(place) for place in places if place.mkdir() is None]
        limits: dict[tuple[str, ...], float] = {}
        files = sorted({file for tests in tests_of.values() for file in tests})
        seconds: dict[str, float] = {}
        for (tests, _, _), found, job in run_all(jobs, (((file,), None, 1800.0) for file in files)):
            print(f"baseline {found['outcome']:9} {found['seconds']:6.1f} s  {tests[0]}  {found['by']}", flush=True)
            if found["outcome"] == "survived":
                seconds[tests[0]] = found["seconds"]
            else:
                failed = True
                print(job.log.read_text(errors="replace")[-4000:])
        for tests in tests_of.values():
            if all(file in seconds for file in tests):
                limits[tests] = max(options.timeout, 6 * sum(seconds[file] for file in tests))
        tasks = [(tests_of[m.id], m, limits[tests_of[m.id]]) for m in chosen if tests_of[m.id] in limits]
        for (_, mutant, _), found, job in run_all(jobs, tasks):
            assert mutant is not None
            print(f"{mutant.id:16} {found['outcome']:9} {found['seconds']:6.1f} s  {found['by']}", flush=True)
            if found["outcome"] == "error" or options.verbose:
                print(job.log.read_text(errors="replace")[-4000:])
            if found["outcome"] not in OUTCOMES:
                failed = True
                continue
            row = {key: found[key] for key in ("outcome", "by", "seconds")}
            results = read_results() | {mutant.id: row | digests(mutant, row, job.folder)}
            write_results(results, order)
    print(report([m for m in listed if m in chosen], results))
    if failed:
        return 2
    alive = [m for m in chosen if results.get(m.id, {}).get("outcome") == "survived" and not m.survives]
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
