"""Functions that format the text output of commands, wrapped to the width of the terminal."""

from __future__ import annotations

import io
import shutil
import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from .file_errors import printable_name
from .job import RunReport, TiledCopy, TransferReport

_PIPE_COLUMNS = 200
"""The width if the output is not a terminal and COLUMNS is not set, wide enough for grep."""

_LAST_COLUMN = 20
"""The narrowest last column of a table."""


def table(rows: Iterable[Sequence[object]], columns: Sequence[str] = (), *, indent: int = 0) -> str:
    """Return rows as text in aligned columns. If the last column would be too narrow, each row becomes a paragraph."""
    lines = [[str(cell) for cell in row] for row in ([columns, *rows] if columns else rows)]
    if not lines:
        return ""
    *others, _ = (2 + max(map(cell_len, column)) for column in zip(*lines, strict=True))
    if _columns() - indent - sum(others) < _LAST_COLUMN:
        return "".join(wrap_text(" " * indent + "  ".join(line)) for line in lines)
    grid = Table.grid(*(Column(no_wrap=True) for _ in others), Column(overflow="fold"), padding=(0, 2, 0, 0))
    for line in lines:
        grid.add_row(*map(Text, line))
    text = io.StringIO()
    Console(file=text, width=_columns() - indent, color_system=None).print(grid)
    return "".join(f"{' ' * indent}{printed}".rstrip() + "\n" for printed in text.getvalue().splitlines())


def run_text(outcome: RunReport, destination: object) -> str:
    """Return the report of `tilecopy run` as a string."""
    array = f"{outcome.dtype}{list(outcome.shape)} in {outcome.order} order"
    head = wrap_text(f"{array}, {outcome.bytes} bytes, {outcome.target}")
    return head + ("" if outcome.tiled is None else _tiled_text(outcome.tiled)) + transfer_text(outcome, destination)


def transfer_text(report: TransferReport, destination: object, *more: str) -> str:
    """Return a report as text: time, throughput, the lines in ``more``, the verification and the output file's name."""
    how = f"median of {report.runs} runs, timed by CUDA events" if report.executor == "cuda" else "one run, emulated"
    moved = (
        f"moved {2 * report.bytes} bytes (read + written) in {report.seconds * 1e3:.3f} ms on {report.executor} "
        f"({how}): {report.gb_per_s:.4g} GB/s"
    )
    lines = (moved, *more, f"verified: {report.verified}", f"wrote {printable_name(destination)}")
    return "".join(map(wrap_text, lines))


def wrap_text(text: str) -> str:
    """Return a line wrapped to the width of the terminal, without breaking words."""
    wrap = textwrap.TextWrapper(_columns(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return f"{wrap.fill(text.rstrip())}\n"


def _columns() -> int:
    return max(20, shutil.get_terminal_size((_PIPE_COLUMNS, 24)).columns)


def _tiled_text(tiled: TiledCopy) -> str:
    tiles = f"{tiled.count} {'tile' if tiled.count == 1 else 'tiles'} of {tiled.tile[0]}x{tiled.tile[1]}"
    rows = []
    for copy_plan in tiled.kernel.plans:
        rows.append(("{} -> {}".format(*copy_plan.request.spaces), copy_plan.variant, copy_plan.summary))
        if copy_plan.edge_summary:
            rows.append(("", "at edges", copy_plan.edge_summary))
    threads = f"{tiled.kernel.threads} thread{'s' * (tiled.kernel.threads != 1)} each"
    return f"{tiles}, {threads}\n" + table(rows, indent=2)
