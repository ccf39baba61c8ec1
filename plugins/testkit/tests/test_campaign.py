"""Campaigns: a share of one at every run with a new seed, all that ever failed, resuming, the report, a cluster."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tilecopy as tc
from tilecopy_testkit import Description, rules
from tilecopy_testkit.__main__ import main
from tilecopy_testkit.campaign import (
    Campaign,
    Chunk,
    able_variants,
    finished,
    here,
    on_cluster,
    remember,
    remembered,
    report,
    run,
    run_chunk,
    subject_of,
    totals,
)

ABLE = sorted(name for name, why in able_variants().items() if not why)
SHARE = 20
"""Requests of each variant at every run."""
SEED = int(os.environ.get("TILECOPY_TESTKIT_SEED", secrets.randbits(31)))


@pytest.mark.skipif(not ABLE, reason="no variant is installed")
def test_a_share_of_a_campaign_with_a_new_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """``TILECOPY_TESTKIT_SEED=...`` runs the same share again."""
    with capsys.disabled():
        sys.stdout.write(f" [TILECOPY_TESTKIT_SEED={SEED}] ")
    for variant in ABLE:
        lowered = 0
        for first in range(0, 8 * SHARE, SHARE):  # few draws fit an engine
            tally = run_chunk(Chunk(variant, SEED, first, SHARE))
            assert not tally["failures"], f"seed {SEED}: {tally['failures'][0]['finding']}"
            lowered += tally["lowered"]
            if lowered > SHARE // 5:
                break
        assert lowered > SHARE // 5


@pytest.mark.parametrize(("variant", "description"), remembered(), ids=lambda value: getattr(value, "key", value))
def test_what_ever_failed_is_right(variant: str, description: Description) -> None:
    if variant not in ABLE:
        pytest.skip(f"{variant} is not installed")
    for rule in (rules.hooks_are_pure, rules.partition_agrees, rules.text_is_own, rules.results_are_right):
        rule(subject_of(variant), description)


def fake(chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, dict[str, Any]]]:
    """Tallies that a cluster could give."""
    for chunk in chunks:
        keys = [f"{chunk.name}:{number}" for number in range(chunk.count)]
        yield chunk, {"keys": keys, "lowered": chunk.count, "covered": {"dtype": {"int8": chunk.count}}, "failures": []}


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    campaign, state = Campaign(3, 1000, ("a", "b")), tmp_path / "state.jsonl"
    said: list[str] = []

    def stops(chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, dict[str, Any]]]:
        for number, done in enumerate(fake(chunks)):
            if number == 2:
                raise KeyboardInterrupt
            yield done

    with pytest.raises(KeyboardInterrupt):
        run(campaign, state, stops, said.append)
    with state.open("a") as stream:
        stream.write('{"chunk": "cut o')  # as a power cut leaves it
    state.write_text(state.read_text() + "\n")
    assert len(finished(state)) == 2
    assert "stopped when 2 of 4 chunks were done" in report(campaign, finished(state).values(), {})
    records = run(campaign, state, fake, said.append)
    assert "2 of 4 chunks are done already" in said
    assert set(records) == {chunk.name for chunk in campaign.chunks()}
    found = totals(records.values())
    assert {name: len(own["keys"]) for name, own in found.items()} == {"a": 500, "b": 500}
    text = report(campaign, records.values(), {"c": "it has no record"})
    assert "1000 distinct requests were drawn" in text and "**0 were wrong.**" in text and "c: it has no record" in text


def test_the_chunks_of_a_variant_are_its_share_of_the_requests() -> None:
    chunks = Campaign(3, 600, ("a", "b")).chunks()
    for variant in ("a", "b"):
        numbers = [n for each in chunks if each.variant == variant for n in range(each.first, each.first + each.count)]
        assert numbers == list(range(300))


def test_what_fails_is_kept_once(tmp_path: Path) -> None:
    subject = subject_of(ABLE[0])
    from tilecopy_testkit.drawing import seeded

    description = seeded(subject.ranges, "kept")
    failure = {"variant": ABLE[0], "description": description.to_json(), "finding": "rule: ..."}
    path = tmp_path / "failed.jsonl"
    assert (remember([failure, failure], path), remember([failure], path)) == (1, 0)
    assert remembered(path) == [(ABLE[0], description)]


@pytest.mark.filterwarnings("default")  # what dask says of ports and sockets is not ours
def test_a_local_cluster_gives_what_this_process_gives(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    campaign = Campaign(5, 8, (ABLE[0],))
    near = run(campaign, tmp_path / "here.jsonl", here, lambda line: None)
    far = run(campaign, tmp_path / "there.jsonl", on_cluster(None, 1), lambda line: None)
    assert near == far


def test_the_command_writes_a_report_and_tries_one_copy_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["campaign", "--requests", "6", "--seed", "1", "--workers", "0", "--variants", ABLE[0]]
    where = ["--state", str(tmp_path / "state"), "--report", str(tmp_path / "report.md")]
    assert main([*words, *where]) == 0
    assert "# Campaign" in (tmp_path / "report.md").read_text()
    from tilecopy_testkit.drawing import seeded

    description = seeded(subject_of(ABLE[0]).ranges, "again")
    assert main(["again", description.to_json(), "--variant", ABLE[0]]) == 0
    assert f"{ABLE[0]}: results_are_right" in capsys.readouterr().out
    assert main([*words[:-1], "nobody", *where]) == 1
    assert json.loads(description.to_json())["op"] == description.op and tc.__version__
