"""The subcommands of ``tilecopy``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..dispatch import Plan, plan
from ..errors import RequestError, did_you_mean
from ..executors import executors
from ..kernel import KernelBuilder
from ..known import KNOWN_EXECUTORS, KNOWN_VARIANTS
from ..layout import Layout
from ..memory import Region
from ..registry import default_registry
from ..target import TARGETS
from .copying import copy_file
from .doctor import findings
from .expressions import parse_region, parse_scope
from .group import Answer, TilecopyGroup
from .job import Job, Outcome
from .tables import rate, run_text, table
from .words import MAX_SHARED_ELEMS, FilePath, Name, Tile

_TARGET = Name("target", TARGETS)
_MAX_LOCAL_BYTES = 1 << 16
"""Far above the 255 registers of 4 bytes that a thread has, and little enough to be written down."""
_OPS = Name("op", ("copy", "copy_async"))


@click.group(cls=TilecopyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="tilecopy-core")
def tilecopy() -> None:
    """Lower GPU tile copies to PTX, and run them on the GPU or on the emulator.

    Exit status: 0 done, 1 failed, 2 asked wrongly. With --json the answer, or an object "error" with its "type" and
    "message", is all of standard output.
    """


def _check_name(option: str, value: str | None, names: Iterable[str]) -> None:
    """A name that only the installed plugins can tell: wrong usage if nobody has it."""
    known = sorted(names)
    if value is not None and value not in known:
        near = did_you_mean(value, known)
        raise click.UsageError(
            f"{option} {value!r}: there is none of that name; there are {', '.join(known)}{near}",
            click.get_current_context(),
        )


def _check_variant(name: str | None) -> None:
    if name is not None:
        _check_name("--variant", name, {*KNOWN_VARIANTS, *(plugin.name for plugin in default_registry().plugins())})


@tilecopy.command(short_help="Copy an array file tile by tile, and verify it.")
@click.argument("source", type=FilePath())
@click.argument("destination", type=FilePath())
@click.option("--tile", type=Tile(), default="128x64", show_default=True, help="Rows and columns of a tile.")
@click.option("--threads", type=click.IntRange(1, 1024), default=128, show_default=True, help="Threads of a CTA.")
@click.option("--swizzle", type=Name("mode", ("32B", "64B", "128B")), help="Swizzle the tile in shared memory.")
@click.option(
    "--pad", type=click.IntRange(0, MAX_SHARED_ELEMS), default=0, help="Elements added to each row in shared memory."
)
@click.option("--variant", help="Demand this variant.")
@click.option("--target", type=_TARGET, help=f"Architecture: {', '.join(TARGETS)}.")
@click.option("--executor", help="Where to run (cuda, emulator); by default the GPU if any.")
def run(source: Path, destination: Path, **options: Any) -> Answer:
    """Copy an array file tile by tile through shared memory, and verify it.

    SOURCE is a .npy file of any rank, shape, dtype and memory order; DESTINATION is written when every byte of the
    result has been found equal. It keeps its mode and owner, and a symlink or hard link stays one.
    """
    _check_variant(options["variant"])
    _check_name("--executor", options["executor"], {*KNOWN_EXECUTORS, *executors()})
    columns = (TextColumn("tiles"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    terminal = sys.stderr is not None and sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not terminal) as bar:
        task = bar.add_task("tiles", total=None)
        outcome = copy_file(
            source, destination, Job(**options), lambda done, total: bar.update(task, completed=done, total=total)
        )
    return Answer(_outcome_data(outcome, destination), lambda: run_text(outcome, destination))


def _outcome_data(outcome: Outcome, destination: Path) -> dict[str, Any]:
    return {
        "output": str(destination),
        "shape": list(outcome.shape),
        "dtype": outcome.dtype,
        "order": outcome.order,
        "bytes": outcome.nbytes,
        "seconds": outcome.seconds,
        "runs": outcome.runs,
        "gb_per_s_read_and_written": rate(outcome),
        "executor": outcome.executor,
        "target": outcome.target,
        "verified": outcome.verified,
        "parts": [
            {
                "where": part.where,
                "tile": list(part.tile),
                "tiles": part.count,
                "threads": part.kernel.threads,
                "plans": [_plan_data(found) for found in part.kernel.plans],
            }
            for part in outcome.parts
        ],
    }


def _plan_data(found: Plan) -> dict[str, Any]:
    partition = found.partition
    named = {
        name: getattr(partition, name) for name in ("outer", "threads", "vec", "vec_bits") if hasattr(partition, name)
    }
    return {
        "copy": str(found.request),
        "variant": found.variant,
        "package": found.package,
        "priority": found.priority,
        "summary": partition.summary() if hasattr(partition, "summary") else str(partition),
        "declined": dict(found.declined),
        **named,
    }


def _copy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe one copy in words."""
    for option in reversed(
        (
            click.argument("source"),
            click.argument("destination"),
            click.option("--src-layout", help="Layout of the source buffer; row-major by default."),
            click.option("--dst-layout", help="Layout of the destination buffer."),
            click.option(
                "--scope", default="cta:128", show_default=True, help="thread, warp, warpgroup or cta:THREADS."
            ),
            click.option("--op", type=_OPS, default="copy", show_default=True),
            click.option("--target", type=_TARGET, default="sm_90a", show_default=True),
            click.option("--variant", help="Demand this variant."),
        )
    ):
        command = option(command)
    return command


def _regions(source: str, destination: str, src_layout: str | None, dst_layout: str | None) -> tuple[Region, Region]:
    return parse_region(source, src_layout, "src"), parse_region(destination, dst_layout, "dst")


@tilecopy.command("plan")
@_copy_options
def plan_command(
    source: str,
    destination: str,
    src_layout: str | None,
    dst_layout: str | None,
    scope: str,
    op: str,
    target: str,
    variant: str | None,
) -> Answer:
    """Say how one copy would be lowered, and why.

    SOURCE and DESTINATION are `space dtype [shape] [region]`; block ids bx, by, bz may stand in the region:

    \b
      tilecopy plan "global float16 [4096, 64] [bx*128 : bx*128+128, :]" "shared float16 [128, 64]" \\
          --dst-layout 'SwizzledLayout(swizzle("128B", "float16"), TileLayout(S[128, 64]))'
    """
    src, dst = _regions(source, destination, src_layout, dst_layout)
    _check_variant(variant)
    found = plan(dst, src, op=op, scope=parse_scope(scope), target=target, variant=variant)
    return Answer(_plan_data(found), lambda: f"{found.explain()}\n")


@tilecopy.command("ptx", short_help="Print the PTX of a kernel that does one copy.")
@_copy_options
def ptx_command(
    source: str,
    destination: str,
    src_layout: str | None,
    dst_layout: str | None,
    scope: str,
    op: str,
    target: str,
    variant: str | None,
) -> Answer:
    """Print the PTX of a kernel that does one copy (arguments as for `tilecopy plan`)."""
    src, dst = _regions(source, destination, src_layout, dst_layout)
    _check_variant(variant)
    who = parse_scope(scope)
    threads = {"thread": 32, "warp": 32, "warpgroup": 128}.get(who.kind, who.threads)
    kernel = KernelBuilder("copy", threads=threads)
    regions = []
    for region in (src, dst):
        buffer, layout = region.buffer, cast("Layout", region.buffer.layout)
        if buffer.space == "global":
            declared = kernel.param(buffer.name, buffer.shape, buffer.dtype, strides=_strides(region))
        elif buffer.space == "shared":
            declared = kernel.shared(buffer.shape, buffer.dtype, layout=layout, name=buffer.name)
        elif buffer.space == "local":
            if buffer.span_bytes > _MAX_LOCAL_BYTES:
                raise RequestError(
                    f"{buffer.name}: {buffer.span_bytes} bytes are no fragment: a thread has 255 registers"
                )
            declared = kernel.local(buffer.shape, buffer.dtype, layout=layout, name=buffer.name)
        else:
            raise RequestError(f"{buffer.name}: a {buffer.space} buffer needs a kernel around it; use KernelBuilder")
        box = tuple(slice(start, start + extent) for start, extent in zip(region.starts, region.extents, strict=True))
        regions.append(declared[box])
    copies = getattr(kernel, who.kind)
    getattr(copies, op)(regions[1], regions[0], variant=variant)
    built = kernel.build(target=target)
    return Answer({"ptx": built.ptx, "plans": [_plan_data(found) for found in built.plans]}, lambda: built.ptx)


def _strides(region: Region) -> tuple[Any, ...]:
    layout: Any = region.buffer.layout
    if len(getattr(layout, "shard", ())) != len(region.buffer.shape):
        raise RequestError(
            f"{region.buffer.name}: the layout of a global buffer has one stride a dimension, not {layout}"
        )
    return tuple(it.stride for it in layout.shard)


@tilecopy.command(short_help="List the variants and what became of each.")
def variants() -> Answer:
    """List the variants: installed, set aside and why, and those that could be installed."""
    rows = []
    for plugin in default_registry().plugins():
        record = plugin.variant
        rows.append(
            {
                "name": plugin.name,
                "op": record.op if record else "",
                "priority": record.priority if record else None,
                "package": plugin.source.package,
                "version": plugin.source.version,
                "needs": f"sm_{record.min_arch}" if record else "",
                "status": plugin.status,
                "about": record.summary if record else plugin.reason,
            }
        )
    names = {row["name"] for row in rows}
    rows += [
        {
            "name": name,
            "op": known.op,
            "priority": None,
            "package": known.package,
            "version": "",
            "needs": "",
            "status": "not installed",
            "about": f"pip install {known.package}",
        }
        for name, known in KNOWN_VARIANTS.items()
        if name not in names
    ]
    return Answer(rows, lambda: _variants_text(rows))


def _variants_text(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        state = "" if row["status"] == "ready" else f"{row['status']}: "
        owner = f" ({row['package']} {row['version']})" if row["version"] else ""
        priority = "" if row["priority"] is None else row["priority"]
        cells.append((row["name"], row["op"], priority, row["needs"], f"{state}{row['about']}{owner}"))
    return table(cells, ("name", "op", "priority", "needs", "about"))


@tilecopy.command(short_help="Say what is found here, and what to install.")
def doctor() -> Answer:
    """Say what is found here (driver, GPU, assemblers, executors, variants) and what to install for the rest."""
    found = findings()
    return Answer(
        [{"what": each.what, "found": each.found, "detail": each.detail} for each in found],
        lambda: table((each.what, each.state, each.detail) for each in found),
    )
