"""The built-in subcommands of ``tilecopy``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import click
from tilecopy import KernelBuilder
from tilecopy.costs import compare
from tilecopy.harness import Harness, HarnessCopy, declare

from tilecopy_core.description import OPS, TARGETS, Scope
from tilecopy_core.dispatch import plan
from tilecopy_core.memory import Region
from tilecopy_core.registry import default_registry, known_variants

from .copy_options import TARGET, check_names, copy_options, plan_to_dict, record_of, region_options
from .doctor import check_machine
from .group import Result, TilecopyGroup
from .job import Job, RunReport
from .param_types import MAX_SHARED_ELEMS, Choice, FilePath, Tile
from .progress import progress_bar
from .run import copy_file
from .tables import run_text, table, wrap_text

_COLUMNS = ("name", "op", "priority", "priority_origin", "package", "version", "needs", "status", "about")
_ROW: dict[str, Any] = {**dict.fromkeys(_COLUMNS, ""), "priority": None}
"""The columns of `tilecopy variants`, still empty."""
_PRECEDENCE = (
    "variant= chooses the variant of a copy. Without it, tilecopy uses the accepting variant with the highest priority. "
    "If several variants have this priority, the first in alphabetical order is used. TILECOPY_PRIORITY=NAME=40,NAME=10 sets priorities. "
    "TILECOPY_DISABLE=NAME,NAME and TILECOPY_ONLY=NAME,NAME exclude variants."
)


@click.group(cls=TilecopyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="tilecopy-cli")
def tilecopy() -> None:
    """Lower GPU tile copies to PTX, and run them on the GPU or on the emulator.

    Exit status: 0 done, 1 failed, 2 invalid input. With --json, standard
    output has exactly one JSON value: the result, or {"error": {"type": ..., "message": ...}}.
    """


@tilecopy.command(short_help="Copy an array file tile by tile, and verify the result.")
@click.argument("source", type=FilePath())
@click.argument("destination", type=FilePath())
@click.option("--tile", type=Tile(), default="128x64", show_default=True, help="Rows and columns of a tile.")
@click.option("--threads", type=click.IntRange(1, 1024), default=128, show_default=True, help="Most threads per CTA.")
@click.option("--swizzle", type=Choice("mode", ("32B", "64B", "128B")), help="Swizzle mode in shared memory.")
@click.option(
    "--pad", type=click.IntRange(0, MAX_SHARED_ELEMS), default=0, help="Padding per row in shared memory, in elements."
)
@click.option("--variant", help="Variant that must do the copy. Default: the one with the highest priority.")
@click.option("--target", type=TARGET, help=f"Architecture: {', '.join(TARGETS)}.")
@click.option("--executor", help="Where to run: cuda or emulator. Default: cuda if there is a GPU, else emulator.")
def run(source: Path, destination: Path, **options: Any) -> Result:
    """Copy an array file tile by tile through shared memory, and verify the result.

    SOURCE is a .npy file of any rank, shape, dtype and memory order. DESTINATION is written only if every byte of the
    result is equal to the input's. If DESTINATION exists, its mode, owner and links are preserved. Tiles at the edges
    may reach past the array. A 1-D array is copied as one row. The threads of a CTA divide the elements of a tile.
    """
    check_names(variant=options["variant"], executor=options["executor"])
    with progress_bar("tiles") as progress:
        outcome = copy_file(source, destination, Job(**options), progress)
    return Result(_outcome_data(outcome, destination), lambda: run_text(outcome, destination))


def _outcome_data(outcome: RunReport, destination: Path) -> dict[str, Any]:
    tiled = outcome.tiled
    tile_fields = {
        "output": str(destination),
        "gb_per_s_read_and_written": outcome.gb_per_s,
        "tile": None if tiled is None else tiled.tile,
        "tiles": 0 if tiled is None else tiled.count,
        "threads": None if tiled is None else tiled.kernel.threads,
        "plans": [] if tiled is None else [plan_to_dict(copy_plan) for copy_plan in tiled.kernel.plans],
    }
    return attrs.asdict(outcome, recurse=False, filter=lambda field, _: field.name != "tiled") | tile_fields


@tilecopy.command("plan")
@copy_options
def plan_command(**copy: Any) -> Result:
    """Show which variant lowers one copy, and why.

    SOURCE and DESTINATION are `space dtype [shape] [region]`. The region may have the block ids bx, by and bz. You may write
    gmem, smem and reg for global, shared and local, and f16, bf16, f32, f64 for the dtypes:

    \b
      tilecopy plan "global float16 [4096, 64] [bx*128 : bx*128+128, :]" "shared float16 [128, 64]" \\
          --dst-layout 'SwizzledLayout(swizzle("128B", "float16"), TileLayout(S[128, 64]))'

    Write a layout with S, R, TileLayout, SwizzledLayout, swizzle, mma_fragment, tile_fragment and the names of axes:

    \b
      tilecopy plan "shared float16 [16, 16]" "local float16 [16, 16]" --scope warp \\
          --dst-layout 'mma_fragment("m16n8k16", "A", "float16")'

    If the --variant needs an mbarrier, as tma does, the copy gets one. Region bounds are coordinates: with --outside, a
    region may begin below 0 and end past its array:

    \b
      tilecopy plan "global float16 [1000, 64] [bx*62-1 : bx*62+63, :]" "shared float16 [64, 64]" --outside zero
    """
    copy_plan = plan(**copy)
    return Result(plan_to_dict(copy_plan), lambda: f"{copy_plan.explain()}\n")


@tilecopy.command("compare", short_help="Compare the variants that can do one copy.")
@region_options(
    click.option("--op", type=Choice("op", OPS), help="List variants of this operation. Default: both operations."),
    click.option(
        "--target",
        "targets",
        type=TARGET,
        multiple=True,
        default=("sm_90a",),
        show_default=True,
        help="Architecture to lower for. Repeat the option to compare architectures.",
    ),
)
def compare_command(**copy: Any) -> Result:
    """List every variant that accepts a copy, and its cost. The cheapest variant comes first.

    The command takes the arguments of `tilecopy plan`. The column "op" says `async` for copy_async. The columns "instr" and "regs" are the
    instructions and registers of one thread. "bytes" is the size of one access. "sectors" of global memory and "wavefronts" of
    shared memory count all threads. "cycles" is the expected time on one SM of a busy H200. A count that tilecopy cannot compute
    is "unknown" (null in JSON); variants with such a count come last, and a line names their instructions.
    """
    comparison = compare(**copy)
    rows = [
        {**plan_to_dict(row.plan), "cost": {**attrs.asdict(row.cost), "cycles": row.cost.cycles}}
        for row in comparison.rows
    ]
    declined = [
        {"target": target, "variant": name, "reason": why} for (target, name), why in comparison.declined.items()
    ]
    return Result({"rows": rows, "declined": declined}, lambda: f"{comparison}\n")


@tilecopy.command("ptx", short_help="Print the PTX of a kernel that does one copy.")
@copy_options
def ptx_command(src: Region, dst: Region, scope: Scope, op: str, target: str, **how: Any) -> Result:
    """Print the PTX of a kernel that does one copy. The command takes the arguments of `tilecopy plan`."""
    kernel = KernelBuilder("copy", threads=32 if scope.kind == "thread" else scope.threads)
    record, outside = record_of(how.pop("variant")), how.pop("outside")
    regions = {"src": declare(kernel, src), "dst": declare(kernel, dst)}
    options = {name: declare(kernel, mbarrier) for name, mbarrier in how.items()}
    is_one = record is not None and record.threads == "one"
    harness = Harness(
        kernel, HarnessCopy(record, op, scope.kind, options, target, outside, issued_by_one=is_one), makers={}
    )
    harness.regions |= regions
    with harness.issuing():
        harness.issue()
    built = kernel.build(target=target)
    return Result(
        {"ptx": built.ptx, "plans": [plan_to_dict(copy_plan) for copy_plan in built.plans]}, lambda: built.ptx
    )


@tilecopy.command(short_help="List the installed variants, and the reason why a variant is unusable.")
def variants() -> Result:
    """List the installed variants, each unusable variant with its reason, and the variants that you can install."""
    rows: list[dict[str, Any]] = []
    registry = default_registry()
    for plugin in registry.plugins():
        row = _ROW | {"name": plugin.name, "status": plugin.status, "about": plugin.reason}
        row |= {"package": plugin.source.package, "version": plugin.source.version}
        if (record := plugin.variant) is not None:
            needs = next(iter(record.targets), ", ".join(record.features))
            priority = registry.priority_of(plugin)
            row |= {"op": record.op, "priority": priority.value, "priority_origin": priority.origin}
            row |= {"needs": needs, "about": record.summary}
        rows.append(row)
    for name in sorted(known_variants().keys() - {row["name"] for row in rows}):
        known = known_variants()[name]
        row = _ROW | {"name": name, "status": "not installed", "about": known.install}
        rows.append(row | {"op": known.op, "package": known.package})
    return Result(rows, lambda: _variants_text(rows))


def _variants_text(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        state = "" if row["status"] == "ready" else f"{row['status']}: "
        owner = f" ({row['package']} {row['version']})" if row["version"] else ""
        priority = "" if row["priority"] is None else row["priority"]
        origin = f"priority set by {row['priority_origin']}: " * bool(row["priority_origin"])
        cells.append((row["name"], row["op"], priority, row["needs"], f"{state}{origin}{row['about']}{owner}"))
    return table(cells, ("name", "op", "priority", "needs", "about")) + wrap_text(_PRECEDENCE)


@tilecopy.command(short_help="Show what works on this machine, and what to install.")
def doctor() -> Result:
    """List what works on this machine (driver, GPU, assemblers, executors, variants), and what to install for the rest."""
    checks = check_machine()
    return Result(
        [{"what": check.what, "found": check.found, "detail": check.detail} for check in checks],
        lambda: table((check.what, check.state, check.detail) for check in checks),
    )
