"""The subcommands of ``tilecopy``."""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ..assemblers import ASSEMBLERS, INSTALL, available_assemblers
from ..dispatch import Plan, plan
from ..errors import RequestError, TilecopyError
from ..executors import executor_named, executors
from ..kernel import KernelBuilder
from ..known import KNOWN_EXECUTORS, KNOWN_VARIANTS
from ..memory import Region
from ..registry import default_registry
from ..target import TARGETS
from .expressions import parse_region, parse_scope
from .job import Job, Outcome, copy_file

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for a program to read.")
_debug_option = click.option("--debug", is_flag=True, help="Show the traceback of an error.")


def _errors_on_one_screen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Our errors as a message and exit status 1; anything else as a fault to report."""

    @wraps(command)
    def run(*arguments: Any, debug: bool = False, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except TilecopyError as error:
            if debug:
                traceback.print_exc()
            click.echo(f"tilecopy: {type(error).__name__}: {error}", err=True)
            sys.exit(1)

    return run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="tilecopy-core")
def tilecopy() -> None:
    """Lower GPU tile copies to PTX, and run them on the GPU or on the emulator."""


def _tile(_: Any, __: Any, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None or not (int(match[1]) and int(match[2])):
        raise click.BadParameter(f"{text!r} is not ROWSxCOLUMNS, such as 128x64")
    return int(match[1]), int(match[2])


@tilecopy.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("destination", type=click.Path(path_type=Path))
@click.option("--tile", callback=_tile, default="128x64", show_default=True, help="Rows and columns of a tile.")
@click.option("--threads", type=click.IntRange(1, 1024), default=128, show_default=True, help="Threads of a CTA.")
@click.option("--swizzle", type=click.Choice(["32B", "64B", "128B"]), help="Swizzle the tile in shared memory.")
@click.option("--pad", type=int, default=0, help="Elements added to each row in shared memory.")
@click.option("--variant", help="Demand this variant.")
@click.option("--target", help=f"Architecture: {', '.join(TARGETS)}.")
@click.option("--executor", type=click.Choice(["cuda", "emulator"]), help="Where to run; by default the GPU if any.")
@_json_option
@_debug_option
@_errors_on_one_screen
def run(source: Path, destination: Path, as_json: bool, **options: Any) -> None:
    """Copy an array file tile by tile through shared memory, and verify it.

    SOURCE is a .npy file of any rank, shape, dtype and memory order; DESTINATION is written when every byte of the
    result has been found equal.
    """
    job = Job(**options)
    with Progress(console=Console(stderr=True), transient=True, disable=as_json or not sys.stderr.isatty()) as bar:
        task = bar.add_task("tiles", total=None)
        outcome = copy_file(source, destination, job, lambda done, total: bar.update(task, completed=done, total=total))
    if as_json:
        click.echo(json.dumps(_outcome_data(outcome, destination), indent=2))
    else:
        _print_outcome(outcome, destination)


def _console() -> Console:
    """Standard output; wide where it is not a terminal, so that a pipe gets whole lines."""
    return Console() if sys.stdout.isatty() else Console(width=200)


def _rate(outcome: Outcome) -> float:
    return 2 * outcome.nbytes / outcome.seconds / 1e9 if outcome.seconds else 0.0


def _outcome_data(outcome: Outcome, destination: Path) -> dict[str, Any]:
    return {
        "output": str(destination),
        "shape": list(outcome.shape),
        "dtype": outcome.dtype,
        "order": outcome.order,
        "bytes": outcome.nbytes,
        "seconds": outcome.seconds,
        "runs": outcome.runs,
        "gb_per_s_read_and_written": _rate(outcome),
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


def _print_outcome(outcome: Outcome, destination: Path) -> None:
    console = _console()
    console.print(
        f"{outcome.dtype}{list(outcome.shape)} in {outcome.order} order, {outcome.nbytes} bytes, {outcome.target}"
    )
    table = Table(box=None, pad_edge=False)
    for column in ("tiles", "size", "threads", "copy", "variant", "split"):
        table.add_column(column)
    for part in outcome.parts:
        size = f"{part.tile[0]}x{part.tile[1]}"
        for found in part.kernel.plans:
            way = "{} -> {}".format(*found.request.spaces)
            table.add_row(
                f"{part.count} {part.where}",
                size,
                str(part.kernel.threads),
                way,
                found.variant,
                found.partition.summary(),
            )
    console.print(table)
    how = f"median of {outcome.runs} runs by device events" if outcome.executor == "cuda" else "one run, emulated"
    console.print(
        f"moved {2 * outcome.nbytes} bytes (read + written) in {outcome.seconds * 1e3:.3f} ms on {outcome.executor} "
        f"({how}): {_rate(outcome):.2f} GB/s",
        highlight=False,
    )
    console.print(f"verified: {outcome.verified}", highlight=False)
    console.print(f"wrote {destination}", highlight=False)


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
            click.option("--op", type=click.Choice(["copy", "copy_async"]), default="copy", show_default=True),
            click.option("--target", default="sm_90a", show_default=True),
            click.option("--variant", help="Demand this variant."),
        )
    ):
        command = option(command)
    return command


def _regions(source: str, destination: str, src_layout: str | None, dst_layout: str | None) -> tuple[Region, Region]:
    return parse_region(source, src_layout, "src"), parse_region(destination, dst_layout, "dst")


@tilecopy.command("plan")
@_copy_options
@_json_option
@_debug_option
@_errors_on_one_screen
def plan_command(
    source: str,
    destination: str,
    src_layout: str | None,
    dst_layout: str | None,
    scope: str,
    op: str,
    target: str,
    variant: str | None,
    as_json: bool,
) -> None:
    """Say how one copy would be lowered, and why.

    SOURCE and DESTINATION are `space dtype [shape] [region]`; block ids bx, by, bz may stand in the region:

    \b
      tilecopy plan "global float16 [4096, 64] [bx*128 : bx*128+128, :]" "shared float16 [128, 64]" \\
          --dst-layout 'SwizzledLayout(swizzle("128B", "float16"), TileLayout(S[128, 64]))'
    """
    src, dst = _regions(source, destination, src_layout, dst_layout)
    found = plan(dst, src, op=op, scope=parse_scope(scope), target=target, variant=variant)
    click.echo(json.dumps(_plan_data(found), indent=2) if as_json else found.explain())


@tilecopy.command("ptx")
@_copy_options
@_debug_option
@_errors_on_one_screen
def ptx_command(
    source: str,
    destination: str,
    src_layout: str | None,
    dst_layout: str | None,
    scope: str,
    op: str,
    target: str,
    variant: str | None,
) -> None:
    """Print the PTX of a kernel that does one copy (arguments as for `tilecopy plan`)."""
    src, dst = _regions(source, destination, src_layout, dst_layout)
    who = parse_scope(scope)
    threads = {"thread": 32, "warp": 32, "warpgroup": 128}.get(who.kind, who.threads)
    kernel = KernelBuilder("copy", threads=threads)
    regions = []
    for region in (src, dst):
        buffer = region.buffer
        if buffer.space == "global":
            declared = kernel.param(buffer.name, buffer.shape, buffer.dtype, strides=_strides(region))
        elif buffer.space == "shared":
            declared = kernel.shared(buffer.shape, buffer.dtype, layout=buffer.layout, name=buffer.name)
        elif buffer.space == "local":
            declared = kernel.local(buffer.shape, buffer.dtype, layout=buffer.layout, name=buffer.name)
        else:
            raise RequestError(f"{buffer.name}: a {buffer.space} buffer needs a kernel around it; use KernelBuilder")
        box = tuple(slice(start, start + extent) for start, extent in zip(region.starts, region.extents, strict=True))
        regions.append(declared[box])
    copies = getattr(kernel, who.kind)
    getattr(copies, op)(regions[1], regions[0], variant=variant)
    click.echo(kernel.build(target=target).ptx, nl=False)


def _strides(region: Region) -> tuple[Any, ...]:
    layout: Any = region.buffer.layout
    if len(getattr(layout, "shard", ())) != len(region.buffer.shape):
        raise RequestError(
            f"{region.buffer.name}: the layout of a global buffer has one stride a dimension, not {layout}"
        )
    return tuple(it.stride for it in layout.shard)


@tilecopy.command()
@_json_option
@_debug_option
@_errors_on_one_screen
def variants(as_json: bool) -> None:
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
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for column in rows[0] if rows else ():
        table.add_column(str(column), overflow="fold")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row.values()))
    _console().print(table)


@tilecopy.command()
@_json_option
@_debug_option
@_errors_on_one_screen
def doctor(as_json: bool) -> None:
    """Say what is found here (driver, GPU, assemblers, executors, variants) and what to install for the rest."""
    cuda: Any = executor_named("cuda")
    why = cuda.why_unavailable()
    found: list[tuple[str, bool, str]] = []
    if why is None:
        for device in cuda.devices():
            major, minor = device.capability
            found.append((f"GPU {device.ordinal}", True, f"{device.name}, sm_{major}{minor}"))
    else:
        found.append(("GPU", False, f"{why}; kernels run on the emulator"))
    assemblers = available_assemblers()
    for name in ASSEMBLERS:
        found.append((f"assembler {name}", name in assemblers, assemblers.get(name, INSTALL[name])))
    installed = executors()
    for name, package in KNOWN_EXECUTORS.items():
        found.append((f"executor {name}", name in installed, installed.get(name, f"pip install {package}")))
    plugins = {plugin.name: plugin for plugin in default_registry().plugins()}
    for name, known in KNOWN_VARIANTS.items():
        plugin = plugins.get(name)
        text = f"pip install {known.package}" if plugin is None else plugin.reason or plugin.source.owner
        found.append((f"variant {name}", plugin is not None and plugin.variant is not None, text))
    if as_json:
        click.echo(json.dumps([{"what": what, "found": ok, "detail": text} for what, ok, text in found], indent=2))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for what, ok, text in found:
        table.add_row(what, "found" if ok else "missing", text)
    _console().print(table)
