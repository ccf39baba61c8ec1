"""The command ``tilecopy emulate``: a file of PTX or CUDA C++ run on files of arrays, made-up arrays and numbers."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
import numpy as np
from tilecopy import HazardError, LaunchError
from tilecopy.files import write_files
from tilecopy_cli.command import DTYPE_ALIASES, FilePath, progress_bar, read_npy

from tilecopy_core import DTYPES

from .api import run_program
from .cuda_cpp import compile_cuda
from .demands import shown
from .places import readable
from .program import UnsupportedPtxError, printable
from .reading.parser import parse
from .run import ALLOWABLE

_EXTENT = "[0-9]{1,19}"
_CUDA = (".cu", ".cuh")
_MADE = ("zeros", "ones", "arange", "random")


def _dim3(_: Any, __: Any, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,18}([,x][1-9][0-9]{0,18}){0,2}", text):
        raise click.BadParameter(f"{shown(text)} is not one to three extents, such as 32 or 32,8")
    return tuple(int(part) for part in re.split("[,x]", text))


def _dtype(name: str) -> Any:
    name = DTYPE_ALIASES.get(name, name)
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
    except ImportError:
        if name in DTYPES:  # NumPy has the others
            raise click.BadParameter(f"{name} needs ml_dtypes: pip install ml_dtypes") from None
        return None
    try:
        return np.dtype(getattr(ml_dtypes, name))
    except (AttributeError, TypeError):
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


def _text_of(file: Path) -> str:
    """The text of a regular file, or of standard input for ``-``.

    Raises:
        LaunchError: it cannot be read, or is no text.
    """
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        if file.exists() and not file.is_file():
            raise LaunchError(f"{file} is no regular file")
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        name = "standard input" if str(file) == "-" else file
        raise LaunchError(f"{name} cannot be read: {_why(error)}") from error


def _why(error: OSError | UnicodeDecodeError) -> str:
    """What is wrong with a file, in words alone."""
    return str(getattr(error, "strerror", None) or error)


def _saves(_: Any, __: Any, texts: tuple[str, ...]) -> list[tuple[str, Path]]:
    found = []
    for text in texts:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise click.BadParameter(f"{text!r} is not PARAMETER=FILE.npy")
        found.append((name, FilePath().convert(path, None, None)))
    return found


def _annotations(hazard: HazardError, file: Path, host: str) -> list[str]:
    """A hazard for a code host: an error at its line, a notice at the access that it meets.

    GitHub takes workflow commands, a line each; GitLab a JSON list, the report of its code quality.
    """
    said, listed = [], []
    for number, side in enumerate(hazard.details["accesses"]):
        places = side["source"] or [{"file": str(file), "line": side["ptx_line"], "column": 0}]
        here = next((each for each in places if Path(each["file"]).is_relative_to(Path.cwd())), places[0])
        name = here["file"]
        if Path(name).is_relative_to(Path.cwd()):
            name = str(Path(name).relative_to(Path.cwd()))
        if not here["line"]:
            continue
        where = {"file": name, "line": here["line"]} | ({"col": here["column"]} if here["column"] else {})
        title = f"{hazard.kind}: {side['thread']}" if number == 0 else f"the access before: {side['thread']}"
        head = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in (where | {"title": title}).items())
        text = str(hazard) if number == 0 else f"{side['ptx']} (PTX line {side['ptx_line']})"
        said.append(f"::{'notice' if number else 'error'} {head}::{_escaped(text)}")
        found = {
            "description": text if number == 0 else f"{title}: {text}",
            "check_name": f"tilecopy-{hazard.kind}",
            "severity": "info" if number else "critical",
            "location": {"path": name, "lines": {"begin": here["line"]}},
        }
        listed.append(found | {"fingerprint": hashlib.sha256(json.dumps(found).encode()).hexdigest()})
    return [json.dumps(listed, indent=2)] if host == "gitlab" else said


def _escaped(text: str, more: str = "") -> str:
    """A text as workflow commands have it."""
    return "".join(f"%{ord(each):02X}" if each in f"%\r\n{more}" else each for each in text)


@click.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Run a kernel of PTX or CUDA C++ without a GPU, and report hazards.",
)
@click.argument("file", type=FilePath())
@click.argument("arguments", nargs=-1)
@click.option("--entry", help="The kernel, if the file has several; for CUDA C++ as in C++, such as axpy<float>.")
@click.option("--grid", callback=_dim3, default="1", show_default=True, help="CTAs: X, X,Y or X,Y,Z.")
@click.option("--block", callback=_dim3, help="Threads of a CTA; by default what .reqntid says.")
@click.option("--cluster", callback=_dim3, help="CTAs of a cluster; by default what .reqnctapercluster says.")
@click.option("--dynamic-shared", type=click.IntRange(0), default=0, help="Bytes of dynamic shared memory.")
@click.option(
    "--save",
    "saves",
    callback=_saves,
    multiple=True,
    help="PARAMETER=FILE.npy: write an array after the run; PARAMETER is a name, or its number from 0.",
)
@click.option("--profile", is_flag=True, help="Count memory sectors and bank conflicts.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(ALLOWABLE),
    help="Allow one hazard: threads that write the same value; an mbarrier's init that was not fenced.",
)
@click.option("--target", default="sm_90", show_default=True, help="What CUDA C++ is compiled for.")
@click.option("--nvrtc", "options", multiple=True, help="An option of NVRTC for CUDA C++, such as --nvrtc=-DN=4.")
@click.option(
    "--annotations",
    type=click.Choice(["github", "gitlab"]),
    help="Print a hazard as this code host shows it at its line.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report, or a hazard, as JSON.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show an error's traceback.")
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
    target: str,
    options: tuple[str, ...],
    annotations: str | None,
    as_json: bool,
) -> None:
    """Run the kernel of a FILE without a GPU, and report hazards. FILE is PTX (``-``: standard input), or CUDA C++ if it ends in .cu or .cuh.

    ARGUMENTS are in the order of the kernel's parameters: an integer, a number with a point, FILE.npy, or a new array
    zeros|ones|arange|random:TYPE:SHAPE, such as arange:float32:64x64. Files are not changed; --save writes an array.

    Exit status: 0 no hazard; 1 a hazard, or a file or launch that cannot be run; 2 wrong usage.
    """
    for word in (str(file), *arguments):
        if word.startswith(
            "--"
        ):  # numbers may begin with a dash, so click takes an option that it does not know as one
            known = [option for parameter in click.get_current_context().command.params for option in parameter.opts]
            raise click.NoSuchOption(word, possibilities=get_close_matches(word, known))
    if annotations and as_json:
        raise click.UsageError("--annotations and --json both write to standard output; give one")
    text = _text_of(file)
    if file.suffix.lower() in _CUDA:
        program = compile_cuda(text, entry=entry, target=target, options=options, name=str(file))
    else:
        try:
            program = parse(text, entry)
        except UnsupportedPtxError as error:
            if "__global__" not in text:
                raise
            name = "standard input" if str(file) == "-" else file
            raise LaunchError(f"{name} is CUDA C++, not PTX; give it as a file that ends in .cu or .cuh") from error
    if block is None:
        block = program.block
    if block is None:
        raise LaunchError(f"kernel {program.name} has no .reqntid: say --block")
    names = [parameter.name for parameter in program.parameters]
    saves = [
        (names[int(name)] if re.fullmatch("[0-9]{1,3}", name) and int(name) < len(names) else name, path)
        for name, path in saves
    ]
    for name, _ in saves:
        if name not in names:
            raise LaunchError(f"kernel {program.name} has no parameter '{name}' to save; it has: {', '.join(names)}")
    values = [argument_of(word) for word in arguments]
    try:
        with progress_bar("CTAs") as progress:
            report = run_program(
                program,
                values,
                grid=grid,
                block=block,
                cluster=cluster,
                dynamic_shared_bytes=dynamic_shared,
                profile=profile,
                allow=allow,
                progress=progress if sys.stderr is not None and sys.stderr.isatty() else None,
            )
    except HazardError as hazard:
        for line in _annotations(hazard, file, annotations) if annotations else ():
            click.echo(line)
        raise
    for name, path in saves:
        value = values[names.index(name)]
        if not isinstance(value, np.ndarray):
            raise LaunchError(f"the parameter '{name}' is a number, there is no array to save")
        try:
            content = io.BytesIO()
            np.save(content, value)
            write_files({path: [content.getbuffer()]})
        except OSError as error:
            raise LaunchError(f"{path} cannot be written: {_why(error)}") from error
    if annotations == "gitlab":  # a report is read from standard output, also where it is empty
        click.echo("[]")
        return
    if as_json:
        data = {
            "kernel": program.name,
            "threads": report.threads,
            "instructions": report.instructions,
            "counters": report.counters,
            "approximate": report.approximate,
            "not_counted": report.not_counted,
            "printed": [{"thread": thread, "text": text} for thread, text in report.printed],
            "notes": list(report.notes),
        }
        click.echo(json.dumps(data, indent=2))
        return
    total = sum(report.instructions.values())
    for thread, text in report.printed:
        click.echo(f"{thread}: {printable(text.rstrip())}")
    click.echo(f"{readable(program.name) or program.name}: {report.threads} threads, {total} instructions, no hazard")
    for note in report.notes:
        click.echo(f"  note: {printable(note)}")
    if report.approximate:
        click.echo(f"  the last bits of hardware may differ: {', '.join(report.approximate)}")
    for name, count in sorted(report.counters.items()):
        click.echo(f"  {name}: {count}")
    if report.not_counted:
        click.echo(f"  shared memory is not counted for: {', '.join(report.not_counted)}")
