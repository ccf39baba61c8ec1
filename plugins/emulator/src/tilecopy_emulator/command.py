"""The command ``tilecopy emulate``: a PTX file run on files of arrays, made-up arrays and numbers."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
from tilecopy_cli.command import FilePath, progress_bar, read_npy

from tilecopy_core import LaunchError

from .api import run_ptx
from .demands import shown
from .reading.parser import parse
from .run import ALLOWABLE

_EXTENT = "[0-9]{1,19}"
_MADE = ("zeros", "ones", "arange", "random")


def _dim3(_: Any, __: Any, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,18}([,x][1-9][0-9]{0,18}){0,2}", text):
        raise click.BadParameter(f"{shown(text)} is not one to three extents, such as 32 or 32,8")
    return tuple(int(part) for part in re.split("[,x]", text))


def _dtype(name: str) -> Any:
    try:
        found = np.dtype(name)
    except TypeError:
        found = _ml_dtype(name)
    if found is None or found.kind not in "biufcV" or found.type is np.void:  # ml_dtypes' are of kind V
        raise click.BadParameter(f"{shown(name)} is not a type of numbers, such as float32")
    return found


def _ml_dtype(name: str) -> Any:
    """A type of ml_dtypes, or None."""
    try:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError, TypeError):
        return None


def _made_up(kind: str, dtype: Any, shape: tuple[int, ...]) -> Any:
    size = math.prod(shape)
    if kind == "zeros":
        return np.zeros(shape, dtype)
    if kind == "ones":
        return np.ones(shape, dtype)
    if kind == "arange":
        return np.arange(size).astype(dtype).reshape(shape)
    rng = np.random.default_rng(0)
    if dtype.kind in "iu":
        return rng.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def argument_of(text: str) -> Any:
    """An argument of a kernel from a word of the command line.

    Raises:
        click.BadParameter: it is no integer, number, ``FILE.npy`` or ``zeros:float32:64x64``.
        FileError: a file cannot be read.
    """
    if re.fullmatch(r"[+-]?([0-9]{1,40}|0[xX][0-9a-fA-F]{1,40})", text):
        return int(text, 0 if "x" in text.lower() else 10)
    if text.endswith(".npy"):
        return read_npy(FilePath().convert(text, None, None)).array
    match = re.fullmatch(rf"(\w+):(\w+):({_EXTENT}(?:[,x]{_EXTENT})*)", text)
    if match and match[1] in _MADE:
        dtype, shape = _dtype(match[2]), tuple(int(part) for part in re.split("[,x]", match[3]))
        try:
            return _made_up(match[1], dtype, shape)
        except (ValueError, MemoryError):  # NumPy's
            raise click.BadParameter(f"{shown(text)}: there is no room for such an array") from None
    try:
        number = float(text)
    except ValueError:
        number = math.inf
    if math.isinf(number) and "inf" not in text.lower():  # 1e999 is no infinity that anybody asked for
        raise click.BadParameter(
            f"{shown(text)} is no integer, number, FILE.npy, or array as {'|'.join(_MADE)}:TYPE:SHAPE (zeros:float32:64x64)"
        )
    return number


def _saves(_: Any, __: Any, texts: tuple[str, ...]) -> list[tuple[str, Path]]:
    found = []
    for text in texts:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise click.BadParameter(f"{text!r} is not PARAMETER=FILE.npy")
        found.append((name, FilePath().convert(path, None, None)))
    return found


def _text_of(file: Path) -> str:
    """What is in a file; in standard input where that is ``-``."""
    name = "standard input" if str(file) == "-" else str(file)
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        if file.exists() and not file.is_file():
            raise LaunchError(f"{file} is no regular file")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"{name} cannot be read: {error}") from error


@click.command(
    context_settings={"ignore_unknown_options": True}, short_help="Run a kernel of a PTX file with no GPU, strictly."
)
@click.argument("file", type=FilePath())
@click.argument("arguments", nargs=-1)
@click.option("--entry", help="The kernel, where the file has several.")
@click.option("--grid", callback=_dim3, default="1", show_default=True, help="CTAs: X, X,Y or X,Y,Z.")
@click.option("--block", callback=_dim3, help="Threads of a CTA; by default what .reqntid says.")
@click.option("--cluster", callback=_dim3, help="CTAs of a cluster; by default what .reqnctapercluster says.")
@click.option("--dynamic-shared", type=click.IntRange(0), default=0, help="Bytes of dynamic shared memory.")
@click.option(
    "--save", "saves", callback=_saves, multiple=True, help="PARAMETER=FILE.npy: write an array after the run."
)
@click.option("--profile", is_flag=True, help="Count memory sectors and bank conflicts.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(ALLOWABLE),
    help="What is no hazard: threads that write the same value; an mbarrier's init that was not fenced.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def emulate(
    file: Path,
    arguments: tuple[str, ...],
    entry: str | None,
    grid: tuple[int, ...],
    block: tuple[int, ...] | None,
    cluster: tuple[int, ...] | None,
    dynamic_shared: int,
    saves: list[tuple[str, Path]],
    profile: bool,
    allow: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a kernel of a PTX FILE with no GPU, strictly; FILE - is standard input.

    ARGUMENTS are in the order of the kernel's parameters: an integer, a number with a point, FILE.npy, or a made-up array
    zeros|ones|arange|random:TYPE:SHAPE, such as arange:float32:64x64. Arrays are changed in memory only; --save keeps them.
    """
    text = _text_of(file)
    program = parse(text, entry)
    if block is None:
        block = program.block
    if block is None:
        raise LaunchError(f"kernel {program.name} has no .reqntid: say --block")
    names = [parameter.name for parameter in program.parameters]
    for name, _ in saves:
        if name not in names:
            raise LaunchError(f"kernel {program.name} has no parameter '{name}' to save; it has: {', '.join(names)}")
    values = [argument_of(word) for word in arguments]
    with progress_bar("CTAs") as progress:
        report = run_ptx(
            text,
            values,
            entry=entry,
            grid=grid,
            block=block,
            cluster=cluster,
            dynamic_shared_bytes=dynamic_shared,
            profile=profile,
            allow=allow,
            progress=progress if sys.stderr is not None and sys.stderr.isatty() else None,
        )
    for name, path in saves:
        value = values[names.index(name)]
        if not isinstance(value, np.ndarray):
            raise LaunchError(f"the parameter '{name}' is a number, there is no array to save")
        try:
            if path.exists() and not path.is_file():
                raise LaunchError(f"{path} is no regular file")
            with path.open("wb") as stream:
                np.save(stream, value)
        except OSError as error:
            raise LaunchError(f"{path} cannot be written: {error}") from error
    if as_json:
        data = {
            "kernel": program.name,
            "threads": report.threads,
            "instructions": report.instructions,
            "counters": report.counters,
            "approximate": report.approximate,
            "not_counted": report.not_counted,
        }
        click.echo(json.dumps(data, indent=2))
        return
    total = sum(report.instructions.values())
    click.echo(f"{program.name}: {report.threads} threads, {total} instructions, no hazard")
    if report.approximate:
        click.echo(f"  the last bits of hardware may differ: {', '.join(report.approximate)}")
    for name, count in sorted(report.counters.items()):
        click.echo(f"  {name}: {count}")
    if report.not_counted:
        click.echo(f"  shared memory is not counted for: {', '.join(report.not_counted)}")
