"""The package of a new variant, from templates."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tilecopy.files import write_files
from tilecopy.validators import PATH

from tilecopy_core import RequestError
from tilecopy_core.errors import TEXT, short_repr
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
"""Op, source and destination -> the template whose hooks work for it."""

FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    ".github/workflows/ci.yml": "ci.yml",
    "src/tilecopy_{name}/__init__.py": "{hooks}.py",
    "src/tilecopy_{name}/py.typed": "",
    "tests/test_suite.py": "test_suite.py",
}
"""Files of the package, and the template of each."""


_NOT_VARIANTS = ("cli", "core", "cuda", "draw", "emulator", "export", "partitions", "relayout", "testkit")
"""Packages of tilecopy, without the prefix, that are not variants."""
_LONGEST_NAME = 100
"""Characters: folders are named after it."""


def write_package(folder: Path, name: str, op: str, source: str, destination: str) -> list[Path]:
    """Write the package of a new variant.

    Args:
        folder: where; must not exist, or be empty.
        name: of the variant.
        op: ``copy`` or ``copy_async``.
        source: memory that is copied from.
        destination: memory that is copied to.

    Returns:
        The files, in order.

    Raises:
        RequestError: no such name or plain case, or the folder holds something, or cannot be written.
    """
    PATH.check(folder, "write_package", "folder")
    fits = isinstance(name, str) and name.isidentifier() and name.islower() and name.isascii()
    if not fits or len(name) > _LONGEST_NAME or name.endswith("_"):  # no distribution's name ends so
        raise RequestError(
            f"name {short_repr(name)} is not a name such as my_copy: lower-case letters, digits and, between them, underscores"
        )
    _check_free(name)
    for called, word in (("op", op), ("source", source), ("destination", destination)):
        TEXT.check(word, "write_package", called)
    if (op, source, destination) not in PLAIN:
        known = "; ".join(f"--op {o} --from {s} --to {d}" for o, s, d in PLAIN)
        raise RequestError(
            f"there is no plain case to start from for op {short_repr(op)}, source {short_repr(source)}, destination "
            f"{short_repr(destination)}; start from the nearest of: {known}"
        )
    folder = Path(folder)
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except (OSError, ValueError) as error:
        raise RequestError(f"the folder {short_repr(str(folder))} cannot be used: {system_reason(error)}") from error
    if taken:
        raise RequestError(
            f"the folder {short_repr(str(folder))} is there already and is not empty; give another --directory"
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
    contents = {}
    for path, template in FILES.items():
        text = _template(template.format(hooks=PLAIN[op, source, destination])) if template else ""
        for word, value in words.items():
            text = text.replace(word, value)
        contents[folder / path.format(name=name)] = [text.encode()]
    try:
        for target in contents:
            target.parent.mkdir(parents=True, exist_ok=True)
        write_files(contents)
    except (OSError, ValueError) as error:
        raise RequestError(f"the folder {short_repr(str(folder))} cannot be written: {system_reason(error)}") from error
    return list(contents)


def _check_free(name: str) -> None:
    """Raise RequestError if the package of a variant would replace one of tilecopy's, or one that is installed."""
    package = f"tilecopy-{name.replace('_', '-')}"
    if name in _NOT_VARIANTS or package in {known.package for known in known_variants().values()}:
        raise RequestError(f"name {name!r}: {package} is a package of tilecopy; choose another name")
    for distribution in distributions(declaring="tilecopy"):
        if canonical(distribution.name) == package:
            raise RequestError(
                f"name {name!r}: {package} {distribution.version} is installed, and this package would replace it; "
                "choose another name"
            )


def _template(name: str) -> str:
    return files("tilecopy_testkit").joinpath("templates", f"{name}.in").read_text(encoding="utf-8")
