"""The command ``tilecopy relayout``, which permutes the dimensions of an array file."""

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


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """The option type of a number of bytes, such as ``4GiB``."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes, at least 1."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"([0-9]{1,19}(?:\.[0-9]{1,19})?) ?([KMGT]i?)?B?", value.strip())
        count = int(float(match[1]) * _UNITS[match[2] or ""]) if match else 0
        if count < 1:
            self.fail(f"must be a number of bytes, such as 4GiB, 500MB or 1048576, got {short_repr(value)}", param, ctx)
        return count


class AxisLength(click.ParamType):  # type: ignore[type-arg]
    """The option type of an axis length, ``NAME=LENGTH``."""

    name = "name=length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return the name and the length."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"([^\W\d]\w*)=([0-9]{1,19})", value)
        if match is None:
            self.fail(f"must be NAME=LENGTH, such as p=4, got {short_repr(value)}", param, ctx)
        return match[1], int(match[2])


@click.command("relayout", cls=ResultCommand, short_help="Permute, split and merge the dimensions of an array file.")
@click.argument("source", type=FilePath())
@click.argument("destination", type=FilePath())
@click.option(
    "--axes", required=True, help="A permutation, such as 0,2,3,1, or a pattern, such as 'b c h w -> b h w c'."
)
@click.option(
    "--axis", "sizes", type=AxisLength(), multiple=True, help="Length of an axis of the pattern, for example p=4."
)
@click.option(
    "--max-memory",
    "max_memory_bytes",
    type=Bytes(),
    help="Device memory to use, for example 8GiB. Default: 80% of the free memory of the GPU, or 64MiB on the emulator.",
)
@click.option("--target", type=Choice("target", TARGETS), help="Architecture. Default: that of the GPU, or sm_90.")
@click.option(
    "--executor",
    type=Choice("executor", EXECUTOR.words),
    help="Where to run. Default: the GPU if there is one, else the emulator.",
)
def relayout_command(source: Path, destination: Path, sizes: tuple[tuple[str, int], ...], **options: Any) -> Result:
    """Permute, split and merge the dimensions of an array file, and verify it.

    SOURCE is a .npy file of any rank, shape, dtype and memory order. It is moved in pieces, so it may be larger than the
    memory and the GPU. DESTINATION is written only after every piece has been verified against NumPy.

    \b
      tilecopy relayout IN.npy OUT.npy --axes 0,2,3,1
      tilecopy relayout IN.npy OUT.npy --axes "b (h p) w -> b h w p" --axis p=4
    """
    if len(dict(sizes)) < len(sizes):
        raise click.BadParameter(
            f"each axis must have one length, got {', '.join(f'{n}={e}' for n, e in sizes)}", param_hint="--axis"
        )
    with progress_bar("bytes") as progress:
        outcome = relayout_file(source, destination, sizes=dict(sizes), progress=progress, **options)
    rates = {"gb_per_s_read_and_written": outcome.gb_per_s, "wall_gb_per_s_read_and_written": outcome.wall_gb_per_s}
    data = attrs.asdict(outcome, recurse=False) | rates | {"output": str(destination)}
    return Result(data, lambda: _text(outcome, options["axes"], destination))


def _text(outcome: FileReport, axes: str, destination: Path) -> str:
    pieces = "1 piece" if outcome.pieces == 1 else f"{outcome.pieces} pieces"
    head = (
        f"{outcome.dtype}{list(outcome.shape)} by {axes} to {list(outcome.result_shape)}, {outcome.bytes} bytes, "
        f"{pieces}, {outcome.target}"
    )
    wall = f"took {outcome.wall_seconds:.3f} s with reading, verification and writing: {outcome.wall_gb_per_s:.4g} GB/s"
    return wrap_text(head) + transfer_text(outcome, destination, wall)
