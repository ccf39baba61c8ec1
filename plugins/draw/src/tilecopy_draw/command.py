"""The command ``tilecopy draw``: one copy as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import tilecopy as tc
from tilecopy_cli.command import Choice, FilePath, Result, ResultCommand, copy_options, output_file, printable_name

from .drawing import KINDS, draw
from .picture import SUFFIXES


@click.command("draw", cls=ResultCommand, short_help="Draw one copy: who moves what, which bank, who owns what.")
@click.option(
    "-o",
    "--output",
    type=FilePath(),
    help=f"Write the picture to this file ({', '.join(SUFFIXES)}); without it, the SVG is printed.",
)
@click.option("--kind", type=Choice("kind", KINDS), help="What to draw. Default: what fits the copy.")
@click.option("--select", help="Draw a part: 'instruction 2', 'warp 1', 'rows 0:32', with commas between.")
@click.option("--width", type=int, default=960, show_default=True, help="Width in pixels.")
@copy_options
def draw_command(output: Path | None, kind: str | None, select: str | None, width: int, **copy: Any) -> Result:
    """Draw one copy from what its emitted PTX does on the emulator.

    Arguments are those of `tilecopy plan`. `--json` prints the data of the picture:

    \b
      tilecopy draw "global float16 [64, 64] [0:16, :]" "shared float16 [16, 64]" --scope cta:64 -o copy.svg
    """
    if output is not None and output.suffix.lower() not in SUFFIXES:
        raise click.UsageError(f"--output {printable_name(output)}: must end in one of {', '.join(SUFFIXES)}")
    plan = tc.plan(**copy)
    if output is None:
        picture = draw(plan, kind, select=select, width=width)
        return Result(picture.data, lambda: picture.svg)
    with output_file(output) as write:
        picture = draw(plan, kind, select=select, width=width)
        write((picture.bytes_as(output.suffix.lower()),))
    return Result({"output": str(output), **picture.data}, lambda: f"{printable_name(output)}: {picture.title}")
