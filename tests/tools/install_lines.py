"""Run every install command of the docs and of messages as printed: `python tests/tools/install_lines.py [WORD ...]`.

The commands come from the pages, from strings in the sources, and from the tables of variants and executors. Each set of packages has
one new environment in a copy of the tree. It runs the command, a program that uses the packages (installed.py), and the commands
below it in its block. The first command of README.md uses pip, the others uv, which is faster. With ``--pip`` all use pip.
WORD selects the commands whose text or place contains it.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs
import numpy as np
import release
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tilecopy.catalog import KNOWN_EXECUTORS

from tilecopy_partitions.catalog import KNOWN_VARIANTS, install_line

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("plugins/*/README.md"))]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.S | re.M)
INSTALL = "pip install "
PRINTED = re.compile(r"pip install (?!-)([^\n`;:,)\0]++)(?!\0)")
"""In prose, a comment or a message; what a program fills in is ``\\0``."""
NOT_HERE = "://host"
"""Part of an address in the docs that stands for one of the reader's."""


@attrs.frozen
class Line:
    """A line that installs something.

    Attributes:
        where: its file, and line where it has one.
        command: as printed, for a shell.
        beside: the distribution of ours that prints it, which is there already, or "".
        then: the commands below it in its block.
    """

    where: str
    command: str
    beside: str = ""
    then: tuple[str, ...] = ()


@cache
def tree() -> dict[str, release.Package]:
    """Our distributions, and those of docs/examples, by name."""
    return {each.name: each for each in [*release.packages().values(), *release.examples().values()]}


def lines() -> list[Line]:
    """Every line of the pages, the sources and the tables."""
    variants = {known.package for known in KNOWN_VARIANTS.values()}
    tables = {"tilecopy-partitions": variants, "tilecopy": {*KNOWN_EXECUTORS.values()}}
    return [
        *(line for page in PAGES for line in _of_page(page)),
        *(line for package in tree().values() for path in _sources(package) for line in _of_source(path, package.name)),
        *(
            line
            for owner, packages in tables.items()
            for package in sorted(packages)
            for line in in_text(install_line(package), "the table of packages", owner)
        ),
    ]


def _of_page(page: Path) -> Iterator[Line]:
    """The lines of its blocks, each with the commands below it; then those of its prose that no block has."""
    text, name = page.read_text(), str(page.relative_to(ROOT))
    in_blocks = set[tuple[str, ...]]()
    for block in BLOCK.finditer(text):
        found: list[Line] = []
        for number, command in enumerate(block[1].splitlines(), text.count("\n", 0, block.start(1)) + 1):
            if INSTALL in command:
                in_blocks.add(words(command))
            if INSTALL in command and (_of_checkout(command) or not (found and _of_checkout(found[-1].command))):
                found.append(Line(f"{name}:{number}", command))
            elif found:
                found[-1] = attrs.evolve(found[-1], then=(*found[-1].then, command))
        yield from found
    for line in in_text(BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text), name):
        if words(line.command) not in in_blocks:
            yield line


def _sources(package: release.Package) -> list[Path]:
    return sorted(package.source.rglob("*.py"))


def _of_source(path: Path, package: str) -> Iterator[Line]:
    source = path.read_text()
    for text in strings(source) if "install " in source else ():
        yield from in_text(text, str(path.relative_to(ROOT)), package)


def strings(source: str) -> Iterator[str]:
    """The strings of a source; what a program fills in is ``\\0``."""
    parsed = ast.parse(source)
    formatted = [node for node in ast.walk(parsed) if isinstance(node, ast.JoinedStr)]
    inside = {id(part) for node in formatted for part in ast.walk(node)}
    for node in formatted:
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "\0" for part in node.values)
    for node in ast.walk(parsed):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def in_text(text: str, where: str, beside: str = "") -> Iterator[Line]:
    """The lines that a text has."""
    for found in PRINTED.finditer(text):
        yield Line(where, INSTALL + found[1].strip(), beside)


@cache
def words(command: str) -> tuple[str, ...]:
    """What a line installs, as a shell reads it in the checkout."""
    (part,) = (part for part in command.split("&&") if INSTALL in part)
    shell = f"printf '%s\\n' {part.partition(INSTALL)[2].strip()}"
    read = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(word for word in read.splitlines() if not word.startswith("-"))


def _folder(word: str) -> Path | None:
    """The folder of the tree that a word names, or None."""
    name = word.partition("[")[0]
    return (ROOT / name).resolve() if name == "." or "/" in name else None


def _of_checkout(command: str) -> bool:
    return any(map(_folder, words(command)))


def _extras(word: str) -> list[str]:
    return [extra for extra in word.rstrip("]").partition("[")[2].split(",") if extra]


def needed(name: str, extras: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """A distribution of ours and all others that it requires: their extras by name."""
    found: dict[str, set[str]] = {}
    todo = [(name, extra) for extra in ("", *extras)]
    while todo:
        name, extra = todo.pop()
        if name not in tree() or extra in found.setdefault(name, set()):
            continue
        found[name].add(extra)
        project = tree()[name].project
        declared = project.get("optional-dependencies", {}).get(extra, ()) if extra else project.get("dependencies", ())
        for requirement in map(Requirement, declared):
            todo += [(requirement.name, each) for each in ("", *requirement.extras)]
    return found


@attrs.define
class Installed:
    """What the commands of a line bring, one after the other.

    Attributes:
        ours: distributions of the tree by name, with their extras; what they require is among them.
        others: requirements that an index has.
        faults: what is wrong with the commands.
    """

    ours: dict[str, set[str]]
    others: set[str]
    faults: list[str]

    def add(self, command: str, made: set[str]) -> None:
        """Install what a command names; ``made`` are folders that the commands before it wrote."""
        named: dict[str, set[str]] = {}
        there = set(self.ours)
        for word in words(command):
            name, folder = word.partition("[")[0], _folder(word)
            if folder:
                package = next((each for each in tree().values() if each.folder == folder), None)
                if package is None:
                    self.faults.append(f"{word} is no package of the tree")
                    continue
                if unknown := set(_extras(word)) - {*package.project.get("optional-dependencies", {})}:
                    self.faults.append(f"{word}: {package.name} has no extra {', '.join(sorted(unknown))}")
                there.add(package.name)
                for each, extras in needed(package.name, tuple(_extras(word))).items():
                    named.setdefault(each, set()).update(extras)
            elif name in made:
                named.setdefault("tilecopy-testkit", set())
            elif name in tree() or name.startswith("tilecopy"):
                self.faults.append(f"{name} is on no index: name its folder")
            elif canonicalize_name(Requirement(word).name) not in locked():
                self.faults.append(f"no package of the tree requires {name}, and uv.lock does not have it")
            else:
                self.others.add(word)
        if missing := sorted(set(named) - there):
            self.faults.append(f"it requires {', '.join(missing)}, which no index has: name them in the line")
        for each, extras in named.items():
            self.ours.setdefault(each, set()).update(extras)


@cache
def locked() -> set[str]:
    """The distributions of uv.lock."""
    return {each["name"] for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}


def installed_by(line: Line) -> Installed:
    """What a line and the commands below it bring, beside what is there already."""
    found, made = Installed(needed(line.beside) if line.beside else {}, set(), []), set[str]()
    for command in (line.command, *line.then):
        if INSTALL in command:
            found.add(command, made)
        if command.startswith("tilecopy new-variant "):
            made.add(f"tilecopy-{command.split()[2].replace('_', '-')}")
    return found


def faults(line: Line) -> list[str]:
    """Why a line does not work from a checkout."""
    return installed_by(line).faults


# ---------------------------------------------------------------------------------------------------------- run them


def _groups(wanted: list[str]) -> list[list[Line]]:
    """The lines by what they bring, extras included, as they stand alone."""
    groups: dict[object, list[Line]] = {}
    for line in lines():
        if wanted and not any(word in f"{line.where} {line.command}" for word in wanted):
            continue
        alone = installed_by(attrs.evolve(line, then=()))
        key = (frozenset((name, *sorted(extras)) for name, extras in alone.ours.items()), frozenset(alone.others))
        groups.setdefault(key, []).append(line)
    return list(groups.values())


def _environment(folder: Path, *, by_pip: bool) -> dict[str, str]:
    """A fresh environment's variables; without ``by_pip`` its `pip` is uv's, which looks for no package in the workspace."""
    if by_pip:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    else:
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
        pip = folder / "bin" / "pip"
        pip.write_text(f'#!/bin/sh\nVIRTUAL_ENV="{folder}" exec uv --quiet pip "$@" --no-sources\n')
        pip.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "UV_"))}
    return kept | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_QUIET": "1"}


def _checkout(folder: Path) -> Path:
    """A copy of the tree's files, and beside them the reader's files that the docs name."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    np.save(folder / "IN.npy", np.random.default_rng(0).random((300, 200), "float32"))
    shutil.copyfile(ROOT / "tests" / "tools" / "installed.py", folder / "my_script.py")
    shutil.copyfile(ROOT / "tests" / "tools" / "install_subset.py", folder / "install_subset.py")
    return folder


def run(group: list[Line], *, by_pip: bool) -> bool:
    """One environment: whether the first line of a group, the program and every command below the lines work."""
    line, began = group[0], time.monotonic()
    print(f"{' and '.join(dict.fromkeys(each.where for each in group))}: {line.command}", flush=True)
    with tempfile.TemporaryDirectory(prefix="tilecopy-install-") as folder:
        checkout = _checkout(Path(folder, "checkout"))
        variables = _environment(Path(folder, "environment"), by_pip=by_pip)
        before = [str(tree()[name].folder.relative_to(ROOT)) for name in needed(line.beside)] if line.beside else []
        commands = [f"pip install {' '.join(f'./{each}' for each in before)}"] if before else []
        commands += [line.command, *(["python tests/tools/installed.py"] if installed_by(line).ours else [])]
        commands += [each for each in dict.fromkeys(then for one in group for then in one.then) if NOT_HERE not in each]
        for command in commands:
            done = subprocess.run(
                ["bash", "-c", command], cwd=checkout, env=variables, capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(f"  FAILED: {command}\n{done.stdout[-2000:]}{done.stderr[-4000:]}", flush=True)
                return False
            if command.endswith("installed.py"):
                print(f"  {done.stdout.strip()}", flush=True)
    print(f"  {time.monotonic() - began:.0f} s", flush=True)
    return True


def main(arguments: list[str]) -> None:
    """Run the lines that contain a word, or all of them."""
    groups = _groups([word for word in arguments if not word.startswith("--")])
    wrong = [f"{line.where}: {line.command}: {fault}" for group in groups for line in group for fault in faults(line)]
    if wrong:
        sys.exit("\n".join(wrong))
    first = next((group for group in groups if installed_by(group[0]).ours), None)
    failed = [group[0] for group in groups if not run(group, by_pip=group is first or "--pip" in arguments)]
    print(f"{len(groups)} environments, {len(failed)} failed")
    if failed:
        sys.exit("\n".join(f"failed: {line.where}: {line.command}" for line in failed))


if __name__ == "__main__":
    main(sys.argv[1:])
