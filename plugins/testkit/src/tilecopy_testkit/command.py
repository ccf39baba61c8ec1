"""The commands ``tilecopy new-variant`` (write a package) and ``tilecopy testkit`` (test variants)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import click
import msgspec
import tilecopy as tc
from tilecopy.atomic_files import write_files
from tilecopy_cli.command import OPS, SPACE_ALIASES, Choice, FilePath, Result, SuggestingGroup, progress_bar

from tilecopy_core import RequestError
from tilecopy_core.errors import short_repr

from . import properties
from .campaign import Campaign, Failure, cluster_executor, execute_here, finished_tallies, run, skipped_variants
from .campaign_report import report
from .copy_case import CopyCase
from .counterexample import Counterexample
from .declines import declined_alone
from .scaffold import write_package
from .variant_under_test import VariantUnderTest

_RULES = properties.hooks_are_pure, properties.partition_agrees, properties.text_is_own, properties.results_are_right
_SPACE = Choice("space", tc.SPACES, SPACE_ALIASES)


@click.command()
@click.argument("name")
@click.option("--op", type=Choice("op", OPS), default="copy", show_default=True)
@click.option("--from", "source", type=_SPACE, required=True, help="State space of the source.")
@click.option("--to", "destination", type=_SPACE, required=True, help="State space of the destination.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the package. Default: ./tilecopy-NAME.",
)
def new_variant(name: str, op: str, source: str, destination: str, directory: Path | None) -> None:
    """Write the package of a new variant.

    It has an entry point, a record, hooks for a plain copy, a test suite, a README and a CI file. Edit the hooks; the suite checks them.
    """
    folder = directory or Path(f"tilecopy-{name.replace('_', '-')}")
    written = write_package(folder, name, op, source, destination)
    for path in written:
        click.echo(f"  {click.format_filename(path)}")
    where = click.format_filename(folder)
    click.echo(f"pip install -e '{where}[test]' && pytest {where} && tilecopy variants")


class CampaignError(tc.TilecopyError):
    """Raised when a campaign finds wrong copies."""


@click.group(cls=SuggestingGroup)
def testkit() -> None:
    """Test installed variants with random copies."""


@testkit.command()
@click.option("--requests", type=click.IntRange(0, 2**32), default=100_000, show_default=True, help="Copies to draw.")
@click.option("--seed", type=click.IntRange(-(2**62), 2**62), default=0, show_default=True, help="Seed of all draws.")
@click.option("--variants", help="Names of variants, separated by commas. Default: every installed variant.")
@click.option("--scheduler", help="Address of a Dask scheduler. Default: a cluster on this machine.")
@click.option(
    "--workers",
    type=click.IntRange(0, 4096),
    help="Number of local worker processes. With 0, the copies run in this process.",
)
@click.option("--checkpoint", type=FilePath(), default="campaign.jsonl", show_default=True, help="Checkpoint file.")
@click.option("--report", "report_path", type=FilePath(), default="campaign.md", show_default=True, help="Report file.")
@click.option("--save-failures", type=FilePath(), help="File to write failed copies to, for `tilecopy testkit replay`.")
def campaign(
    requests: int,
    seed: int,
    variants: str | None,
    scheduler: str | None,
    workers: int | None,
    checkpoint: Path,
    report_path: Path,
    save_failures: Path | None,
) -> Result:
    """Run many random copies, and report wrong results.

    Each installed variant runs on the emulator. The NumPy oracle gives the results that are right. With --checkpoint, an interrupted
    campaign continues where it stopped.
    """
    skipped = skipped_variants()
    names = variants.split(",") if variants else [name for name, reason in skipped.items() if not reason]
    for name in names:
        if reason := skipped.get(name, "not installed"):
            raise tc.PluginError(f"variant {name}: {reason}")
    if not names:
        raise tc.PluginError(
            f"a campaign needs at least one variant that the kit can test, got none of {len(skipped)} installed variants: install one that `tilecopy variants` lists"
        )
    chosen = Campaign(seed, requests, tuple(sorted(names)))
    execute = execute_here if workers == 0 else cluster_executor(scheduler, workers)
    try:
        with progress_bar("chunks") as progress:
            run(chosen, checkpoint, execute, progress)
    finally:  # a campaign that is interrupted has a report, too
        tallies = finished_tallies(chosen, checkpoint).values()
        write_files({report_path: [report(chosen, tallies, skipped).encode()]})
    failures = [failure for tally in tallies for failure in tally.failures]
    if save_failures is not None:
        write_files({save_failures: [msgspec.json.encode(failure) + b"\n" for failure in failures]})
    if failures:
        raise CampaignError(f"{len(failures)} copies are wrong: see {report_path}")
    data = {"chunks": len(tallies), "lowered": sum(tally.lowered for tally in tallies), "report": str(report_path)}
    return Result(
        data, lambda: f"{len(tallies)} chunks are done, and all copies are right. The report is in {report_path}\n"
    )


@testkit.command()
@click.argument("text", metavar="CASE")
@click.option(
    "--variant",
    help="Variant to test. Default: every installed variant that declares the copy's operation and memory spaces.",
)
def replay(text: str, variant: str | None) -> Result:
    """Replay one copy, or each copy in a file.

    CASE is the JSON that a failed test prints, or a file that `tilecopy testkit campaign --save-failures` wrote.
    """
    results: list[dict[str, str]] = []
    counterexamples: list[Counterexample] = []
    for name, case in _cases(text, variant):
        results.append({"variant": name, "case": case.key})
        for rule in _RULES:
            try:
                results[-1][rule.__name__] = "holds" if rule(VariantUnderTest.of(name), case) else "declined"
            except Counterexample as counterexample:
                counterexamples.append(counterexample)
    if counterexamples:
        first, *others = counterexamples
        for other in others:
            first.add_note(str(other))
        raise first
    lines = [", ".join(f"{name} {text}" for name, text in result.items()) for result in results]
    return Result(results, lambda: "".join(f"{line}\n" for line in lines))


def _cases(text: str, variant: str | None) -> list[tuple[str, CopyCase]]:
    """Return the copies to test, each with the name of its variant."""
    if not text.lstrip().startswith("{"):
        try:
            failures = [msgspec.json.decode(line, type=Failure) for line in Path(text).read_bytes().splitlines()]
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            raise RequestError(
                f"CASE must be the JSON of a copy or a file from --save-failures, got {short_repr(text)}: {error}"
            ) from error
        cases = [(failure.variant, CopyCase.from_json(failure.case)) for failure in failures]
        return [pair for pair in cases if variant in (None, pair[0])]
    case = CopyCase.from_json(text)
    records = {plugin.name: plugin.variant for plugin in tc.default_registry().plugins()}
    return [
        (name, case)
        for name, record in records.items()
        if record is not None and record.op == case.op and case.spaces in record.spaces
        if variant in (None, name)
    ]


@testkit.command("audit-declines")
@click.argument("variant")
@click.option("--requests", type=click.IntRange(0, 10**7), default=300, show_default=True, help="Copies to draw.")
def audit_declines(variant: str, requests: int) -> Result:
    """List copies that only other variants accept.

    They are grouped by the reason of VARIANT, the most frequent reason first.
    """
    declines = declined_alone(VariantUnderTest.of(variant), requests)
    data: list[dict[str, Any]] = [attrs.asdict(declined) for declined in declines]
    text = "\n".join(map(str, declines)) or f"found no copy that {variant} declines and another variant accepts"
    return Result(data, lambda: f"{text}\n")
