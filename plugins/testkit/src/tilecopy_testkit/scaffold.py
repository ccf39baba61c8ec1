"""The package of a new variant, from templates."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tilecopy_core import RequestError

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
        RequestError: the folder holds something, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RequestError(f"{folder} is there already and is not empty; give another --directory")
    words = {
        "@NAME@": name,
        "@PACKAGE@": f"tilecopy_{name}",
        "@DISTRIBUTION@": f"tilecopy-{name.replace('_', '-')}",
        "@CLASS@": "".join(part.capitalize() for part in name.split("_")),
        "@OP@": op,
        "@FROM@": source,
        "@TO@": destination,
    }
    written = []
    for path, template in FILES.items():
        text = _template(template.format(hooks=PLAIN[op, source, destination])) if template else ""
        for word, value in words.items():
            text = text.replace(word, value)
        target = folder / path.format(name=name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise RequestError(f"{target} cannot be written: {error.strerror or error}") from error
        written.append(target)
    return written


def _template(name: str) -> str:
    return files("tilecopy_testkit").joinpath("templates", f"{name}.in").read_text(encoding="utf-8")
