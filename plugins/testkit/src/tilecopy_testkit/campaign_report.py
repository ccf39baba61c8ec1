"""The report of a campaign as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from .campaign import PARTITION_SHARE, Campaign, Tally

SHOWN_FAILURES = 50


def totals(tallies: Collection[Tally]) -> dict[str, Tally]:
    """Return a dict from variant name to the sum of the variant's results. A sum's ``keys`` has each hash once."""
    by_variant: dict[str, Tally] = {}
    for tally in sorted(tallies, key=lambda tally: tally.variant):
        total = by_variant.setdefault(tally.variant, Tally("", tally.variant))
        total.keys = list(dict.fromkeys([*total.keys, *tally.keys]))
        total.lowered += tally.lowered
        total.failures += tally.failures
        total.count(tally.coverage)
    return by_variant


def report(campaign: Campaign, tallies: Collection[Tally], skipped: Mapping[str, str]) -> str:
    """Return the report of a campaign as Markdown. ``tallies`` has the results of the finished chunks."""
    by_variant, chunks = totals(tallies), len(campaign.chunks())
    stopped = "" if len(tallies) == chunks else f" The campaign stopped after {len(tallies)} of {chunks} chunks."
    distinct = sum(len(total.keys) for total in by_variant.values())
    lowered = sum(total.lowered for total in by_variant.values())
    failures = [failure for total in by_variant.values() for failure in total.failures]
    lines = [
        "# Campaign",
        "",
        f"`tilecopy testkit campaign --seed {campaign.seed} --requests {campaign.requests} "
        f"--variants {','.join(campaign.variants)}`",
        "",
        f"{distinct} distinct requests were drawn. {lowered} of them were lowered, run on the emulator and compared with the "
        f"NumPy oracle. The others were declined with a reason. **{len(failures)} were wrong.** Request `i` of a variant has the "
        f"seed `{campaign.seed}:VARIANT:i`. Element moves of 1 partition in {PARTITION_SHARE} were also checked.{stopped}",
        "",
        "| variant | distinct | lowered | wrong |",
        "|---|---|---|---|",
    ]
    for name, total in by_variant.items():
        lines.append(f"| {name} | {len(total.keys)} | {total.lowered} | {len(total.failures)} |")
    for dimension in dict.fromkeys(dimension for total in by_variant.values() for dimension in total.coverage):
        lines += ["", f"## By {dimension}", ""]
        for name, total in by_variant.items():
            counts = Counter(total.coverage.get(dimension)).most_common()
            lines.append(f"- **{name}**: {', '.join(f'{kind}: {count}' for kind, count in counts) or 'none'}")
    if any(skipped.values()):
        lines += ["", "## Skipped", ""]
        lines += [f"- {name}: {reason}" for name, reason in sorted(skipped.items()) if reason]
    if failures:
        lines += ["", "## Wrong", ""]
        for failure in failures[:SHOWN_FAILURES]:
            lines += ["```text", failure.variant, failure.counterexample, "```"]
    return "\n".join([*lines, ""])
