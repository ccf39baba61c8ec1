"""Count kinds of names and sentences of the product: `python tests/tools/vocabulary.py`. `--list KIND` lists them.

KIND is the name of a count, or `sentences`: every message, help text and first line of a public docstring. `--draw 100 --seed 1` draws
sentences at random for a reader. With paths after the options, only files below them are read.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VALUES = frozenset("found each own left there held given said told made".split())
"""Words that say how a value was obtained, and not what it is."""
IRREGULAR = frozenset(
    "begun born bound brought built cast caught cut drawn driven fallen felt flown forgotten found given gone grown held hidden kept known laid left lent lost made meant met "
    "overwritten put read said seen sent set shown shut sought spent split spread stood sunk sworn taken told torn understood undone woven written".split()
)
NOUNS = frozenset(
    "bed breed feed need seed speed shared unsigned signed embed read set put cut split spread cast bound".split()
)
"""Words that look like participles and are nouns, verbs, or words of PTX."""
IS_NO = re.compile(
    r"\b(?:is|are|was|were) no (?!longer|more\b|later|earlier|less|fewer|larger|smaller|faster|slower|other\b|matter|need)"
)
PER = re.compile(
    r"\b(?:one|two|a piece|elements?|bytes?|instructions?|threads?|registers?|values?) a (?:thread|warp|dimension|row|lane|cta|copy|block|kernel|line|time|launch|element|tile|word)s?\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[(\"'`]*[A-Za-z][a-z]+(?:[-'][a-z]+)*[)\"'`.,:;?!]*")
"""A word of English, with the punctuation around it; a path, an opcode or a regular expression has other characters."""
VERBLESS = re.compile(r"(?:Of|Those|The same|As|Its)\b")


def product_files(below: Iterable[str] = ()) -> list[Path]:
    """Return the product's Python files in git; if paths are given, only those below them."""
    command = ["git", "ls-files", "tilecopy_core/*.py", "plugins/*/src/*.py"]
    paths = [
        ROOT / name
        for name in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    ]
    folders = [Path(folder).resolve() for folder in below]
    return [
        path
        for path in paths
        if path.exists() and (not folders or any(path.is_relative_to(folder) for folder in folders))
    ]


@cache
def parsed(path: Path) -> tuple[str, ast.Module]:
    """Return the text and the tree of a file."""
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


def is_participle(name: str) -> bool:
    """Return True if a function's name is a single participle: `moved`, `_held`."""
    word = name.strip("_")
    return word.isalpha() and word not in NOUNS and (word in IRREGULAR or (word.endswith("ed") and len(word) > 4))


def named_values(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of every assignment to one of VALUES."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VALUES:
            yield node.lineno, node.id


def participles(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of every function that is a bare participle."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node.name):
            yield node.lineno, node.name


def docstrings(tree: ast.Module, *, public: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the line and the first line of every docstring; with ``public`` those of names without an underscore."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and not (public and getattr(node, "name", "module").startswith("_")):
                yield node.body[0].lineno, text.splitlines()[0]


def attribute_docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line number and the first line of every string below an assignment."""
    for node in ast.walk(tree):
        statements = getattr(node, "body", ())
        if isinstance(statements, list):
            for before, text in pairwise(statements):
                if (
                    isinstance(before, ast.Assign | ast.AnnAssign)
                    and isinstance(text, ast.Expr)
                    and text_of(text.value)
                ):
                    yield text.lineno, text_of(text.value).splitlines()[0]


def text_of(node: ast.expr) -> str:
    """Return a literal's text with an f-string's values as ``{...}``, or an empty one."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return ""


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every literal of four words and more that is not a docstring or a list of names."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    split = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "split"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in inner | bare | split:
            text = text_of(node)
            fixed = re.sub(r"\{.*?\}", "", text)
            words = [word for word in fixed.split() if WORD.fullmatch(word)]
            if (
                "\n" not in text.strip()
                and len(re.findall(r"\b[a-z]{2,}\b", fixed)) >= 4
                and len(words) >= 3
                and ";" != text.rstrip()[-1:]
            ):
                yield node.lineno, text


def matching(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of every line that a pattern is found in."""
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.search(line):
            yield number, line.strip()


def verbless(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings that do not begin with a verb or a noun."""
    for number, line in [*docstrings(tree), *attribute_docstrings(tree)]:
        if VERBLESS.match(line):
            yield number, line


def sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every message, help text and first line of a public docstring."""
    yield from docstrings(tree, public=True)
    yield from messages(tree)


KINDS = {
    "values": lambda text, tree: named_values(tree),
    "participles": lambda text, tree: participles(tree),
    "is-no": lambda text, tree: matching(IS_NO, text),
    "per": lambda text, tree: matching(PER, text),
    "verbless": lambda text, tree: verbless(tree),
    "sentences": lambda text, tree: sentences(tree),
}
"""What is counted: a function of a file's text and tree that yields lines and what stands there."""


def rows(kind: str, paths: Iterable[Path]) -> list[tuple[str, str]]:
    """Return the place and the text of everything of one kind."""
    listed = []
    for path in paths:
        listed += [(f"{path.relative_to(ROOT)}:{number}", shown) for number, shown in KINDS[kind](*parsed(path))]
    return listed


def repeated_classes(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the class names, without leading underscores, that several files define, with these places."""
    places = defaultdict(list)
    for path in paths:
        for node in ast.walk(parsed(path)[1]):
            if isinstance(node, ast.ClassDef):
                places[node.name.strip("_")].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return {name: listed for name, listed in sorted(places.items()) if len(listed) > 1}


def main() -> None:
    """Print the counts, or a list or a random draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--list", choices=[*KINDS, "classes"])
    parser.add_argument("--draw", type=int)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    paths = product_files(options.paths)
    if options.draw:
        drawn = random.Random(options.seed).sample(rows("sentences", paths), options.draw)
        sys.stdout.writelines(f"{place}: {text}\n" for place, text in drawn)
    elif options.list == "classes":
        sys.stdout.writelines(f"{name}: {', '.join(places)}\n" for name, places in repeated_classes(paths).items())
    elif options.list:
        sys.stdout.writelines(f"{place}: {text}\n" for place, text in rows(options.list, paths))
    else:
        sys.stdout.writelines(f"{kind}: {len(rows(kind, paths))}\n" for kind in KINDS)
        sys.stdout.write(f"classes: {len(repeated_classes(paths))}\n")


if __name__ == "__main__":
    main()
