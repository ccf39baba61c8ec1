"""Write a package with a new variant, from templates."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import tilecopy as tc
from tilecopy.atomic_files import write_files
from tilecopy.validators import PATH

from tilecopy_core import RequestError
from tilecopy_core.errors import TEXT, checked, short_repr
from tilecopy_core.registry import canonical, distributions, known_variants

from .validators import system_reason

PLAIN = {
    ("copy", "global", "shared"): "through_registers",
    ("copy", "shared", "global"): "through_registers",
    ("copy", "shared", "shared"): "through_registers",
    ("copy", "global", "global"): "through_registers",
    ("copy_async", "global", "shared"): "cp_async",
    ("copy_async", "shared", "global"): "bulk_store",
    ("copy", "global", "local"): "fragment",
    ("copy", "shared", "local"): "fragment",
    ("copy", "local", "global"): "fragment",
    ("copy", "local", "shared"): "fragment",
    ("copy", "tmem", "local"): "tensor_fragment",
    ("copy", "local", "tmem"): "tensor_fragment",
    ("copy_async", "shared", "tmem"): "tensor_copy",
}
"""Op, source and destination -> the template whose hooks support them."""

FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    ".github/workflows/ci.yml": "ci.yml",
    "src/tilecopy_{name}/__init__.py": "{hooks}.py",
    "src/tilecopy_{name}/py.typed": "",
    "tests/test_suite.py": "test_suite.py",
}
"""A file of the package -> its template."""

_NOT_VARIANTS = ("cli", "core", "cuda", "draw", "emulator", "export", "partitions", "relayout", "testkit")
"""Names of tilecopy's packages that are not variants, without the prefix."""
_LONGEST_NAME = 100
"""The most characters of a name, because folders are named after it."""


@checked(folder=PATH, op=TEXT, source=TEXT, destination=TEXT)
def write_package(folder: Path, name: str, op: str, source: str, destination: str) -> list[Path]:
    """Write the package of a new variant to a new or empty folder. Return the paths of the written files.

    Raises:
        RequestError: the name is invalid or taken, no template fits, or the folder is not empty or cannot be written.
    """
    fits = isinstance(name, str) and name.isidentifier() and name.islower() and name.isascii()
    if not fits or len(name) > _LONGEST_NAME or name.endswith("_"):  # not valid for a distribution
        raise RequestError(
            f"name must be an identifier of lower-case letters, digits and underscores, such as my_copy, got {short_repr(name)}"
        )
    _check_free(name)
    if (op, source, destination) not in PLAIN:
        known = "; ".join(f"--op {o} --from {s} --to {d}" for o, s, d in PLAIN)
        raise RequestError(
            f"no template supports op {short_repr(op)} from {short_repr(source)} to {short_repr(destination)}: start from the "
            f"nearest of {known}"
        )
    folder = Path(folder)
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except (OSError, ValueError) as error:
        raise RequestError(f"cannot use the folder {short_repr(str(folder))}: {system_reason(error)}") from error
    if taken:
        raise RequestError(
            f"the folder {short_repr(str(folder))} must be empty or not exist: choose another --directory"
        )
    words = {
        "@NAME@": name,
        "@PACKAGE@": f"tilecopy_{name}",
        "@DISTRIBUTION@": f"tilecopy-{name.replace('_', '-')}",
        "@CLASS@": "".join(part.capitalize() for part in name.split("_")),
        "@OP@": op,
        "@FROM@": source,
        "@TO@": destination,
    }
    contents, templates = {}, files("tilecopy_testkit") / "templates"
    for path, template in FILES.items():
        source_name = f"{template.format(hooks=PLAIN[op, source, destination])}.in"
        text = (templates / source_name).read_text(encoding="utf-8") if template else ""
        for word, value in words.items():
            text = text.replace(word, value)
        contents[folder / path.format(name=name)] = [text.encode()]
    try:
        for target in contents:
            target.parent.mkdir(parents=True, exist_ok=True)
        write_files(contents)
    except (OSError, ValueError) as error:
        raise RequestError(f"cannot write the folder {short_repr(str(folder))}: {system_reason(error)}") from error
    return list(contents)


def _check_free(name: str) -> None:
    """Raise RequestError if a variant has this name, or if the new package would replace another one."""
    package, why = f"tilecopy-{name.replace('_', '-')}", ""
    for plugin in tc.default_registry().plugins():
        if plugin.name == name:
            why = f"{plugin.source.owner} has a variant of this name, and the registry rejects a second one"
    for distribution in distributions(declaring="tilecopy"):
        if canonical(distribution.name) == package:
            why = f"the new package would replace the installed {package} {distribution.version}"
    if name in _NOT_VARIANTS or package in {known.package for known in known_variants().values()}:
        why = f"tilecopy itself uses the package name {package}"
    if why:
        raise RequestError(f"name must be new, got {name!r}: {why}; choose another name")
