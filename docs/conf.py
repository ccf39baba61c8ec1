"""Sphinx reads this: `nox -s docs` builds the site.

Two folders are made here and are not in git: api/ has every public name, from its docstring; packages/ has the READMEs of plugins/.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

HERE = Path(__file__).parent

project = "tilecopy"
author = "The tilecopy authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "examples"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "tilecopy"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
pygments_style = "default"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_use_ivar = True
linkcheck_ignore = [r"https?://localhost.*"]

AREAS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "layouts": ("tilecopy", "Layouts", "Where the elements of a tile lie.", ("layout",)),
    "integers": ("tilecopy", "Integers", "Integers that are known when the kernel runs.", ("integers",)),
    "copies": (
        "tilecopy",
        "Copies",
        "Buffers, regions, scopes, targets and plans.",
        ("memory", "description", "dispatch", "costs"),
    ),
    "kernels": ("tilecopy", "Kernels", "Kernels around copies.", ("kernel", "cuda_cpp_export", "module_text", "ptx")),
    "variants": ("tilecopy", "Variants", "Which variants are installed.", ("registry", "pluggy", "types")),
    "errors": ("tilecopy", "Errors", "What is raised, and when.", ("errors",)),
    "costs": ("tilecopy.costs", "Costs", "What a copy costs, counted before it runs.", ()),
    "executors": ("tilecopy.executors", "Executors", "What runs a kernel.", ()),
    "assemblers": ("tilecopy.assemblers", "Assemblers", "PTX text to machine code, without a GPU.", ()),
    "plugin": ("tilecopy_core.plugin", "For variants", "The contract of a variant.", ()),
    "partitions": ("tilecopy_partitions", "Partitions", "What variants share.", ()),
    "emulator": ("tilecopy_emulator", "Emulator", "Run kernels and anybody's PTX without a GPU.", ()),
    "relayout": ("tilecopy_relayout", "Relayout", "Permute, split and merge the dimensions of an array.", ()),
    "testkit": ("tilecopy_testkit", "Test kit", "Prove a variant.", ()),
    "draw": ("tilecopy_draw", "Pictures", "Draw copies, layouts and fragments.", ()),
    "cuda": ("tilecopy_cuda", "CUDA executor", "Run kernels on a GPU.", ()),
    "export": ("tilecopy_export", "Export", "Copies as functions of CUDA C++ and Numba.", ()),
    "command": ("tilecopy_cli.command", "Commands", "Add a subcommand to `tilecopy`.", ()),
}
"""The pages of the generated reference: module, title, what it has, and (where several pages share a module) rooms of the core."""


def room(value: Any) -> str:
    """The room of the core that a name of ``tilecopy`` comes from."""
    parts = (getattr(value, "__module__", None) or "").split(".")
    return parts[1] if parts[0] in ("tilecopy", "tilecopy_core") and len(parts) > 1 else parts[0]


def names_of(module: Any, rooms: tuple[str, ...]) -> list[str]:
    """The public names of a module that belong on a page."""
    every = [name for name in module.__all__ if name != "__version__"]
    if not rooms:
        return every
    return [name for name in every if (ROOM_OF_CONSTANTS.get(name) or room(getattr(module, name))) in rooms]


ROOM_OF_CONSTANTS = {"DTYPES": "layout", "SPACES": "memory", "TARGETS": "description", "Int": "integers"}


def page_of(title: str, sentence: str, name: str, names: Iterable[str]) -> str:
    """A page of the reference, in reStructuredText; a name that :mod:`tilecopy` has too is described there."""
    module = importlib.import_module(name)
    lines = [title, "=" * len(title), "", f"{sentence} Module ``{name}``.", "", f".. py:currentmodule:: {name}", ""]
    users = importlib.import_module("tilecopy")
    shared = [each for each in names if name != "tilecopy" and getattr(users, each, None) is getattr(module, each)]
    if shared:
        links = ", ".join(f":py:obj:`~tilecopy.{each}`" for each in shared)
        lines += [f"Also here, as in ``tilecopy``: {links}.", ""]
    for each in names:
        value = getattr(module, each)
        if each in shared:
            continue
        if inspect.isclass(value) and value.__module__ not in ("builtins", "types"):
            kind = "exception" if issubclass(value, BaseException) else "class"
            lines += [f".. auto{kind}:: {each}", "   :members:", ""]
        elif inspect.isroutine(value):
            lines += [f".. autofunction:: {each}", ""]
        else:
            lines += [f".. py:data:: {each}", "", *(f"   {line}" for line in constant(each, value)), ""]
    return "\n".join(lines) + "\n"


def constant(name: str, value: Any) -> list[str]:
    """What is said below a constant where it is defined; a module's docstring where the name is one; else its type."""
    if inspect.ismodule(value):
        return inspect.cleandoc(value.__doc__ or "").splitlines()
    for module in sorted(set(sys.modules)):
        if module.startswith("tilecopy") and vars(sys.modules[module]).get(name) is value:
            found = ModuleAnalyzer.for_module(module).find_attr_docs().get(("", name))
            if found:
                return list(found)
    return [inspect.cleandoc(type(value).__doc__ or "").split("\n\n")[0].replace("\n", " ")]


def pages() -> dict[str, str]:
    """The pages of api/ and packages/ by file; a package that is not installed has no page."""
    made: dict[str, str] = {}
    left = set(importlib.import_module("tilecopy").__all__) - {"__version__"}
    for page, (name, title, sentence, rooms) in AREAS.items():
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        names = names_of(module, rooms)
        left -= set(names)
        made[f"api/{page}.rst"] = page_of(title, sentence, name, names)
    if left:
        raise ValueError(f"no page of AREAS has {', '.join(sorted(left))}")
    title = "Every public name"
    entries = [f"   {path.removeprefix('api/').removesuffix('.rst')}" for path in made]
    made["api/index.rst"] = "\n".join(
        [title, "=" * len(title), "", ".. toctree::", "   :maxdepth: 1", "", *entries, ""]
    )
    folders = sorted(path.parent.name for path in HERE.glob("../plugins/*/README.md"))
    for folder in folders:
        made[f"packages/{folder}.rst"] = (
            f".. include:: ../../plugins/{folder}/README.md\n   :parser: myst_parser.sphinx_\n"
        )
    return made


def write_pages(app: Sphinx) -> None:
    """Bring api/ and packages/ up to date; what is the same keeps its time, so that Sphinx does not read it again."""
    made = pages()
    for path, text in made.items():
        (HERE / path).parent.mkdir(exist_ok=True)
        if not (HERE / path).exists() or (HERE / path).read_text() != text:
            (HERE / path).write_text(text)
    for old in (*HERE.glob("api/*.rst"), *HERE.glob("packages/*.rst")):
        if str(old.relative_to(HERE)) not in made:
            old.unlink()


def link_packages(app: Sphinx, name: str, source: list[str]) -> None:
    """A link to a package's README leads to its page of the site; other files of packages have none, and keep their text."""
    text = re.sub(r"\]\(((?:\.\./)*)\.\./plugins/(\w+)/README\.md", r"](\1packages/\2.rst", source[0])
    source[0] = re.sub(r"\[([^]\n]+)\]\((?:\.\./)+plugins/[^)\n]+\)", r"\1", text)


def keep_colons(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """What a property says is prose; napoleon would take the words before a colon in the first line for its type."""
    if what in ("attribute", "property"):
        lines[:0] = ["..", ""]  # an empty comment, in which there is no colon


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # before napoleon's 500
    app.connect("builder-inited", write_pages)
    app.connect("source-read", link_packages)
