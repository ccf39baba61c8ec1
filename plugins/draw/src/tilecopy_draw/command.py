"""The command ``tilecopy draw``. It draws one copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import tilecopy as tc
from tilecopy_cli.command import Choice, FilePath, Result, ResultCommand, copy_options, output_file, printable_name

from .drawing import KINDS, draw
from .picture import SUFFIXES


@click.command("draw", cls=ResultCommand, short_help="Draw the threads, banks or registers of one copy.")
@click.option("-o", "--output", type=FilePath(), help=f"File to write ({', '.join(SUFFIXES)}). Default: print the SVG.")
@click.option("--kind", type=Choice("kind", KINDS), help="Kind of picture. Default: the kind that fits the copy.")
@click.option("--select", help="Part to draw, such as 'instruction 2, warp 1' or 'rows 0:32'.")
@click.option("--width", type=int, default=960, show_default=True, help="Width in pixels.")
@copy_options
def draw_command(output: Path | None, kind: str | None, select: str | None, width: int, **copy: Any) -> Result:
    """Run the PTX of one copy on the emulator, and draw its accesses.

    The arguments are those of `tilecopy plan`. `--json` prints the data of the picture:

    \b
      tilecopy draw "global float16 [64, 64] [0:16, :]" "shared float16 [16, 64]" --scope cta:64 -o copy.svg
    """
    if output is not None and output.suffix.lower() not in SUFFIXES:
        raise click.UsageError(f"--output must end in one of {', '.join(SUFFIXES)}, got {printable_name(output)}")
    plan = tc.plan(**copy)
    if output is None:
        picture = draw(plan, kind, select=select, width=width)
        return Result(picture.data, lambda: picture.svg)
    with output_file(output) as write:
        picture = draw(plan, kind, select=select, width=width)
        write((picture.bytes_as(output.suffix.lower()),))
    return Result({"output": str(output), **picture.data}, lambda: f"{printable_name(output)}: {picture.title}\n")
