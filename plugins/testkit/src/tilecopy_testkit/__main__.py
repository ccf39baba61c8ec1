"""``python -m tilecopy_testkit``: a campaign, one copy again, or the declines of a variant."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tilecopy as tc
from tilecopy.files import write_files

from . import rules
from .campaign import (
    Campaign,
    able_variants,
    finished,
    here,
    of_campaign,
    on_cluster,
    remember,
    report,
    run,
    totals,
)
from .declines import declined_alone
from .description import Description
from .finding import Finding
from .subject import Subject


def main(words: list[str] | None = None) -> int:
    """Run a command; 0 when nothing is wrong, 1 when something is."""
    parser = argparse.ArgumentParser(prog="python -m tilecopy_testkit", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    big = commands.add_parser("campaign", help="run many copies over every installed variant")
    big.add_argument("--requests", type=int, default=100_000, help="copies to draw (default: 100000)")
    big.add_argument("--seed", type=int, default=0)
    big.add_argument("--variants", help="names, with commas; by default every installed one")
    big.add_argument("--scheduler", help="address of a Dask scheduler; by default a cluster on this machine")
    big.add_argument("--workers", type=int, help="processes of a cluster on this machine; 0 runs in this one")
    big.add_argument("--state", type=Path, default=Path("campaign.jsonl"), help="chunks that are done, to resume from")
    big.add_argument("--report", type=Path, default=Path("campaign.md"))
    big.add_argument("--remember", action="store_true", help="keep what failed, for the tests to repeat always")
    once = commands.add_parser("again", help="hold one copy against every rule")
    once.add_argument("description", help="as a finding prints it")
    once.add_argument("--variant", help="by default every installed one that takes it")
    needed = commands.add_parser(
        "declines", help="list copies that a variant declines and another one takes, by reason"
    )
    needed.add_argument("variant")
    needed.add_argument("--requests", type=int, default=300, help="copies to draw (default: 300)")
    asked = parser.parse_args(words)
    try:
        if asked.command == "declines":
            found = declined_alone(Subject.of(asked.variant), asked.requests)
            print("\n".join(map(str, found)) or f"{asked.variant} declines nothing that another variant takes")
            return 0
        return _campaign(asked) if asked.command == "campaign" else _again(asked.description, asked.variant)
    except tc.TilecopyError as error:
        print(f"tilecopy_testkit: {error}", file=sys.stderr)
        return 1


def _campaign(asked: argparse.Namespace) -> int:
    left_out = able_variants()
    names = [name for name, why in left_out.items() if not why]
    if asked.variants:
        names = asked.variants.split(",")
        if unknown := [name for name in names if left_out.get(name, "it is not installed")]:
            raise tc.PluginError(f"variant {unknown[0]}: {left_out.get(unknown[0], 'it is not installed')}")
    campaign = Campaign(asked.seed, asked.requests, tuple(sorted(names)))
    run_all = here if asked.workers == 0 and not asked.scheduler else on_cluster(asked.scheduler, asked.workers)
    stopped = False
    try:
        records = run(campaign, asked.state, run_all)
    except KeyboardInterrupt:
        stopped, records = True, of_campaign(campaign, finished(asked.state))
    write_files({asked.report: [report(campaign, records.values(), left_out).encode()]})
    failures = [failure for own in totals(records.values()).values() for failure in own["failures"]]
    if asked.remember and failures:
        remember(failures)
    left = f", {len(campaign.chunks()) - len(records)} left for the next run" if stopped else ""
    print(f"{len(records)} chunks done{left}, {len(failures)} wrong; {asked.report}")
    return 130 if stopped else 1 if failures else 0


def _again(text: str, variant: str | None) -> int:
    description = Description.from_json(text)
    wrong = 0
    for plugin in tc.default_registry().plugins():
        record = plugin.variant
        if record is None or record.op != description.op or description.spaces not in record.spaces:
            continue
        if variant not in (None, plugin.name):
            continue
        subject = Subject.of(plugin.name)
        for rule in (rules.hooks_are_pure, rules.partition_agrees, rules.text_is_own, rules.results_are_right):
            try:
                taken = rule(subject, description)
            except Finding as finding:
                wrong += 1
                print(f"{plugin.name}\n{finding}\n")
            else:
                print(f"{plugin.name}: {rule.__name__}: {'holds' if taken else 'not its copy'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
