"""Run a kernel from a PTX or CUDA C++ file without a GPU, with the command ``tilecopy emulate``."""

from __future__ import annotations

import io
import re
import sys
from contextlib import nullcontext, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
import numpy as np
from tilecopy import HazardError, LaunchError
from tilecopy.atomic_files import write_files
from tilecopy_cli.command import Choice, FilePath, Result, ResultCommand, progress_bar

from tilecopy_core import TargetError, TilecopyError
from tilecopy_core.errors import short_repr

from .api import run_ptx
from .argument_literals import argument_of
from .arguments import Pointer, Struct, variable_named
from .cuda_cpp import compile_cuda
from .debug_info import readable
from .parser.module import parse
from .program import BudgetError, UnsupportedPtxError, printable, shown_name
from .run import ALLOWABLE, Report

_CUDA = (".cu", ".cuh")
HAZARD, REFUSED, OUT_OF_BUDGET = 1, 3, 4
"""Exit statuses other than 0, and 2 for wrong usage."""


def _dim3(_: Any, __: Any, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,18}([,x][1-9][0-9]{0,18}){0,2}", text):
        raise click.BadParameter(f"sizes must be 1 to 3 positive integers, such as 32 or 32,8, got {short_repr(text)}")
    return tuple(int(part) for part in re.split("[,x]", text))


def _text_of(file: Path) -> str:
    """Return the text of a regular file, or of standard input for ``-``."""
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        if file.exists() and not file.is_file():
            raise LaunchError(f"{file} must be a regular file, such as kernel.cu")
        with suppress(UnicodeDecodeError) if file.suffix.lower() in _CUDA else nullcontext():
            return file.read_text(encoding="utf-8-sig")  # editors on Windows write a byte-order mark
        return file.read_text(encoding="latin-1")  # comments in older files
    except UnicodeDecodeError as error:
        raise LaunchError(f"{file} must be the text of a kernel: PTX, or CUDA C++ in a .cu or .cuh file") from error
    except OSError as error:
        raise LaunchError(f"{file} cannot be read: {_why(error)}") from error


def _why(error: OSError) -> str:
    """Return the reason of a file error, without its number and path."""
    return str(error.strerror or error)


def _assignments(_: Any, parameter: click.Parameter, texts: tuple[str, ...]) -> list[tuple[str, Any]]:
    """Return names, each with its file or value."""
    assigned = []
    for text in texts:
        name, _equals, value = text.partition("=")
        if not (name and value):
            raise click.BadParameter(f"{text!r} must be NAME={'VALUE' if parameter.name == 'values' else 'FILE.npy'}")
        assigned.append(
            (name, argument_of(value) if parameter.name == "values" else FilePath().convert(value, None, None))
        )
    return assigned


def _argument_named(names: list[str], arguments: list[Any], name: str) -> Any:
    """Return the array of a parameter (by name, or by number from 0) or of its field (``p.0``); None if there is no such parameter."""
    base, *path = re.split(r"\.(?=[0-9]{1,3}(?:\.|$))", name)
    number = int(base) if re.fullmatch("[0-9]{1,3}", base) else names.index(base) if base in names else len(names)
    if number >= len(names):
        return None
    value = arguments[number] if number < len(arguments) else np.empty(0)  # a missing argument is an error later
    for index in path:
        value = value.target if isinstance(value, Pointer) else value
        fields = value.fields if isinstance(value, Struct) else value if isinstance(value, list) else ()
        value = fields[int(index)] if int(index) < len(fields) else None
    value = value.target if isinstance(value, Pointer) else value
    if not isinstance(value, np.ndarray):
        raise LaunchError(
            f"--save {name}: the argument must be an array, got {type(value).__name__}: to save a field of a structure, write {names[number]}.0"
        )
    return value


def _annotations(error: TilecopyError, file: Path) -> list[str]:
    """Return an error as GitHub workflow commands: an error at its line, and a notice at each other access of a hazard."""
    if not isinstance(error, HazardError):
        here = re.search(rf"{re.escape(file.name)}\((\d+)\): error", str(error))
        line = int(here[1]) if here else getattr(error, "line", 0)
        return [_workflow_command("error", str(file), line, 0, type(error).__name__, str(error))]
    commands = []
    accesses = [(hazard, *pair) for hazard in (error, *error.others) for pair in enumerate(hazard.details["accesses"])]
    for hazard, number, access in accesses:
        places = access["source"] or [{"file": str(file), "line": access["ptx_line"], "column": 0}]
        place = next((place for place in places if Path(place["file"]).is_relative_to(Path.cwd())), places[0])
        name = place["file"]
        if Path(name).is_relative_to(Path.cwd()):
            name = str(Path(name).relative_to(Path.cwd()))
        title = f"{access['relation']}: {access['thread']}" if number else f"{hazard.kind}: {access['thread']}"
        text = f"{access['ptx']} (PTX line {access['ptx_line']})" if number else str(hazard)
        if place["line"]:
            level = "notice" if number else "error"
            commands.append(_workflow_command(level, name, place["line"], place["column"], title, text))
    return commands


def _workflow_command(level: str, file: str, line: int, column: int, title: str, text: str) -> str:
    values = {"file": file} | ({"line": line} if line else {}) | ({"col": column} if column else {}) | {"title": title}
    head = ",".join(f"{key}={_escape(str(value), ':,')}" for key, value in values.items())
    return f"::{level} {head}::{_escape(text)}"


def _escape(text: str, more: str = "") -> str:
    """Return a text with the escapes of workflow commands."""
    return "".join(f"%{ord(character):02X}" if character in f"%\r\n{more}" else character for character in text)


class _EmulateCommand(ResultCommand):
    """The command ``emulate``, with its exit statuses, and with errors as annotations."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and print the result. If the command raises an error, add the exit status to the error."""
        try:
            return super().invoke(ctx)
        except (TilecopyError, MemoryError) as error:
            if ctx.params["annotations"] and isinstance(error, TilecopyError):
                encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
                text = "\n".join(_annotations(error, ctx.params["file"]))
                click.echo(text.encode(encoding, "backslashreplace").decode(encoding))
            if not isinstance(error, TargetError):
                status = HAZARD if isinstance(error, HazardError) else REFUSED
                vars(error)["exit_status"] = OUT_OF_BUDGET if isinstance(error, (BudgetError, MemoryError)) else status
            raise


@click.command(
    cls=_EmulateCommand,
    context_settings={"ignore_unknown_options": True},
    short_help="Run a kernel of PTX or CUDA C++ without a GPU, and report hazards.",
)
@click.argument("file", type=FilePath())
@click.argument("arguments", nargs=-1)
@click.option("--entry", help="The kernel to run, if the file has several. Name a template instance as axpy<float>.")
@click.option("--grid", callback=_dim3, default="1", show_default=True, help="Number of CTAs: X, X,Y or X,Y,Z.")
@click.option("--block", callback=_dim3, help="Threads per CTA: X, X,Y or X,Y,Z. The default is the kernel's .reqntid.")
@click.option("--cluster", callback=_dim3, help="CTAs per cluster. The default is the kernel's .reqnctapercluster.")
@click.option(
    "--dynamic-shared",
    "dynamic_shared_bytes",
    type=click.IntRange(0),
    default=0,
    help="Bytes of dynamic shared memory.",
)
@click.option(
    "--save",
    "saves",
    callback=_assignments,
    multiple=True,
    help="NAME=FILE.npy: write an array to a file after the run. NAME is a parameter's name or index, a field of a structure (p.0), or a variable.",
)
@click.option(
    "--set",
    "values",
    callback=_assignments,
    multiple=True,
    help="NAME=VALUE: set a __constant__ or __device__ variable of the file. VALUE is written like an argument.",
)
@click.option("--profile", is_flag=True, help="Count memory sectors and bank conflicts.")
@click.option(
    "--allow",
    multiple=True,
    type=Choice("hazard", ALLOWABLE),
    help="Allow a hazard: threads that write the same value without a barrier, or an mbarrier.init without a fence.",
)
@click.option("--target", default="sm_90", show_default=True, help="GPU architecture to compile CUDA C++ for.")
@click.option("--nvrtc", "options", multiple=True, help="An option of NVRTC for CUDA C++, such as --nvrtc=-DN=4.")
@click.option(
    "--annotations",
    type=click.Choice(["github"]),
    help="Also print hazards and errors as GitHub annotations.",
)
def emulate(  # noqa: C901, PLR0912 (one option of the command line after another)
    file: Path, arguments: tuple[str, ...], entry: str | None, block: tuple[int, ...] | None, saves: list[tuple[str, Path]],
    values: list[tuple[str, Any]], target: str, options: tuple[str, ...], annotations: str | None, **launch: Any,
) -> Result:  # fmt: skip
    """Run a kernel from FILE without a GPU, and report hazards. A .cu or .cuh FILE is CUDA C++; any other FILE is PTX; ``-`` is standard input.

    ARGUMENTS are in the order of the kernel's parameters: an integer, a float, null, FILE.npy, or a new array
    zeros|ones|arange|random:TYPE:SHAPE, such as arange:float32:64x64, full:TYPE:SHAPE:VALUE or randint:TYPE:SHAPE:LOW:HIGH. A structure
    is {3,0.5} or struct:zeros:float32:64,3; an array in it is a pointer to the array. int64:3 or float16:0.5 gives a number a type.
    The files of arrays do not change; --save writes an array.

    Exit status: 0 no hazard; 1 a hazard; 2 wrong usage; 3 an error in the file or the launch; 4 more memory or CTAs needed than the emulator has.
    """
    for word in (str(file), *arguments):
        if word.startswith("--"):  # numbers may begin with a dash, so click lets unknown options pass
            known = [option for parameter in click.get_current_context().command.params for option in parameter.opts]
            raise click.NoSuchOption(word, possibilities=get_close_matches(word, known))
    if annotations and click.get_current_context().meta.get("tilecopy.json"):
        raise click.UsageError("--annotations and --json both write to standard output: use only one of them")
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
            raise LaunchError(f"{name} is CUDA C++, not PTX: the file name must end in .cu or .cuh") from error
    if block is None:
        block = program.block
    if block is None:
        raise LaunchError(f"kernel {program.name} has no .reqntid: set --block")
    names = [parameter.name for parameter in program.parameters]
    kernel_arguments = [argument_of(word) for word in arguments]
    outputs = [(name, _argument_named(names, kernel_arguments, name), path) for name, path in saves]
    for name, array, _path in outputs:
        if array is None:
            try:
                variable_named(program, name)
            except LaunchError as error:
                raise LaunchError(f"{error}; the parameters are {', '.join(names) or 'none'}") from None
    with progress_bar("CTAs") as progress:
        shown_progress = progress if sys.stderr is not None and sys.stderr.isatty() else None
        report = run_ptx(
            program,
            kernel_arguments,
            block=block,
            variables=dict(values),
            all_hazards=True,
            progress=shown_progress,
            **launch,
        )
    for name, array, path in outputs:
        try:
            content = io.BytesIO()
            np.save(content, report.variables[shown_name(variable_named(program, name))] if array is None else array)
            write_files({path: [content.getvalue()]})
        except OSError as error:
            raise LaunchError(f"{path} cannot be written: {_why(error)}") from error
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
    return Result(data, lambda: _in_words(report, readable(program.name) or program.name))


def _in_words(report: Report, kernel: str) -> str:
    """Return the text for the report of a run without a hazard."""
    lines = [f"{thread}: {printable(text.rstrip())}" for thread, text in report.printed]
    lines.append(f"{kernel}: {report.threads} threads, {sum(report.instructions.values())} instructions, no hazard")
    lines += [f"  note: {printable(note)}" for note in report.notes]
    if report.approximate:
        lines.append(f"  results may differ from a GPU's in the last bits for: {', '.join(report.approximate)}")
    lines += [f"  {name}: {count}" for name, count in sorted(report.counters.items())]
    if report.not_counted:
        lines.append(f"  accesses to shared memory are not counted for: {', '.join(report.not_counted)}")
    return "".join(f"{line}\n" for line in lines)
