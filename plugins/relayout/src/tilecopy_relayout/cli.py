"""The command ``tilecopy relayout``. It permutes the dimensions of an array file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import click
from tilecopy_cli.command import Choice, FilePath, Result, ResultCommand, progress_bar, transfer_text, wrap_text

from tilecopy_core import TARGETS
from tilecopy_core.plugin import short_repr

from .files.npy_files import FileReport, relayout_file
from .validation import EXECUTOR

_UNITS = {"": 1} | {
    f"{letter}{i}": (1024 if i else 1000) ** power for power, letter in enumerate("KMGT", 1) for i in ("", "i")
}


def number_of_bytes(ctx: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """Parse a number of bytes such as ``4GiB``. Return None if the option is omitted."""
    match = re.fullmatch(r"([0-9]{1,19}(?:\.[0-9]{1,19})?) ?([KMGT]i?)?B?", (text or "").strip())
    count = int(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
    if text is not None and count < 1:
        raise click.BadParameter(f"must be a number of bytes, such as 4GiB, 500MB or 1048576, got {short_repr(text)}")
    return count or None


def axis_extents(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    """Parse strings of the form ``NAME=EXTENT``. Return a dict from axis name to extent."""
    extents: dict[str, int] = {}
    for text in texts:
        match = re.fullmatch(r"([^\W\d]\w*)=([0-9]{1,19})", text)
        if match is None:
            raise click.BadParameter(f"must be NAME=EXTENT, such as p=4, got {short_repr(text)}")
        if match[1] in extents:
            raise click.BadParameter(f"each axis must have exactly one extent, got {', '.join(texts)}")
        extents[match[1]] = int(match[2])
    return extents


@click.command("relayout", cls=ResultCommand, short_help="Permute, split and merge the dimensions of an array file.")
@click.argument("source", type=FilePath())
@click.argument("destination", type=FilePath())
@click.option(
    "--axes", required=True, help="A permutation, such as 0,2,3,1, or a pattern, such as 'b c h w -> b h w c'."
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    callback=axis_extents,
    metavar="NAME=EXTENT",
    help="Extent of an axis of the pattern, for example p=4.",
)
@click.option(
    "--max-memory",
    "max_memory_bytes",
    callback=number_of_bytes,
    metavar="BYTES",
    help="Device memory to use, for example 8GiB. Default: 80% of the free memory of the GPU, or 64MiB on the emulator.",
)
@click.option(
    "--target",
    type=Choice("target", TARGETS),
    help="Target architecture. Default: the GPU's architecture, or sm_90 on the emulator.",
)
@click.option(
    "--executor",
    type=Choice("executor", EXECUTOR.words),
    help="Where to run. Default: the GPU if there is one, else the emulator.",
)
def relayout_command(source: Path, destination: Path, **options: Any) -> Result:
    """Permute, split and merge the dimensions of an array file, and verify the result.

    SOURCE is a .npy file of any rank, shape, dtype and memory order. It is moved in pieces, so it may be larger than the
    memory and the GPU. DESTINATION is written only after every piece has been verified against NumPy.

    \b
      tilecopy relayout IN.npy OUT.npy --axes 0,2,3,1
      tilecopy relayout IN.npy OUT.npy --axes "b (h p) w -> b h w p" --size p=4
    """
    with progress_bar("bytes") as progress:
        outcome = relayout_file(source, destination, progress=progress, **options)
    rates = {"gb_per_s_read_and_written": outcome.gb_per_s, "wall_gb_per_s_read_and_written": outcome.wall_gb_per_s}
    data = attrs.asdict(outcome, recurse=False) | rates | {"output": str(destination)}
    return Result(data, lambda: _text(outcome, options["axes"], destination))


def _text(outcome: FileReport, axes: str, destination: Path) -> str:
    pieces = "1 piece" if outcome.pieces == 1 else f"{outcome.pieces} pieces"
    head = (
        f"{outcome.dtype}{list(outcome.shape)} by {axes} to {list(outcome.result_shape)}, {outcome.bytes} bytes, "
        f"{pieces}, {outcome.target}"
    )
    wall = f"took {outcome.wall_seconds:.3f} s including reading, verification and writing: {outcome.wall_gb_per_s:.4g} GB/s"
    return wrap_text(head) + transfer_text(outcome, destination, wall)
