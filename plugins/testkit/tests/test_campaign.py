"""Campaigns: a share of one at every run with a new seed, resuming, the report, a cluster, the commands."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from tilecopy_cli.builtin_commands import tilecopy
from tilecopy_testkit.campaign import (
    Campaign,
    Chunk,
    Failure,
    Tally,
    cluster_executor,
    execute_here,
    finished_tallies,
    run,
    run_chunk,
    skipped_variants,
    subject_of,
)
from tilecopy_testkit.campaign_report import report, totals
from tilecopy_testkit.random_cases import case_of_seed

ABLE = sorted(name for name, why in skipped_variants().items() if not why)
SHARE = 10
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
            assert not tally.failures, f"seed {SEED}: {tally['failures'][0]['finding']}"
            lowered += tally.lowered
            if lowered > SHARE // 5:
                break
        assert lowered > SHARE // 5


def fake(chunks: Sequence[Chunk]) -> Iterator[Tally]:
    """Give tallies that a cluster could give."""
    for chunk in chunks:
        keys = [f"{chunk.name}:{number}" for number in range(chunk.count)]
        yield Tally(chunk.name, chunk.variant, keys, chunk.count, {"dtype": {"int8": chunk.count}})


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    campaign, checkpoint = Campaign(3, 1000, ("a", "b")), tmp_path / "campaign.jsonl"

    def stops(chunks: Sequence[Chunk]) -> Iterator[Tally]:
        for number, tally in enumerate(fake(chunks)):
            if number == 2:
                raise KeyboardInterrupt
            yield tally

    with pytest.raises(KeyboardInterrupt):
        run(campaign, checkpoint, stops)
    with checkpoint.open("a") as stream:
        stream.write('{"chunk": "cut o')  # as a power cut leaves it
    checkpoint.write_text(checkpoint.read_text() + "\n")
    stopped = finished_tallies(campaign, checkpoint)
    assert len(stopped) == 2
    assert "2 of 4 chunks" in report(campaign, stopped.values(), {})
    progress: list[tuple[int, int]] = []
    tallies = run(campaign, checkpoint, fake, lambda done, total: progress.append((done, total)))
    assert progress == [(3, 4), (4, 4)]
    assert set(tallies) == {chunk.name for chunk in campaign.chunks()}
    assert (
        finished_tallies(campaign, checkpoint) == tallies
        and finished_tallies(Campaign(4, 1000, ("a", "b")), checkpoint) == {}
    )
    assert {name: len(total.keys) for name, total in totals(tallies.values()).items()} == {"a": 500, "b": 500}
    text = report(campaign, tallies.values(), {"c": "it has no record"})
    assert "1000 distinct requests were drawn" in text and "**0 were wrong.**" in text and "c: it has no record" in text


def test_the_chunks_of_a_variant_are_its_share_of_the_requests() -> None:
    chunks = Campaign(3, 600, ("a", "b")).chunks()
    for variant in ("a", "b"):
        numbers = [n for each in chunks if each.variant == variant for n in range(each.first, each.first + each.count)]
        assert numbers == list(range(300))


@pytest.mark.filterwarnings("default")  # what dask says of ports and sockets is not ours
def test_a_local_cluster_gives_what_this_process_gives(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    campaign = Campaign(5, 8, (ABLE[0],))
    near = run(campaign, tmp_path / "here.jsonl", execute_here)
    far = run(campaign, tmp_path / "there.jsonl", cluster_executor(None, 1))
    assert near == far


def test_the_command_writes_a_report_and_a_copy_is_replayed(tmp_path: Path) -> None:
    runner = CliRunner()
    words = ["testkit", "campaign", "--requests", "6", "--seed", "1", "--workers", "0", "--variants", ABLE[0], "--json"]
    paths = {name: tmp_path / name for name in ("checkpoint", "report", "save-failures")}
    options = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    done = runner.invoke(tilecopy, [*words, *options])
    assert done.exit_code == 0 and json.loads(done.stdout)["chunks"] == 1
    assert "# Campaign" in paths["report"].read_text() and paths["save-failures"].read_bytes() == b""
    case = case_of_seed(subject_of(ABLE[0]).case_space, "again").to_json()
    done = runner.invoke(tilecopy, ["testkit", "replay", case, "--variant", ABLE[0], "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)[0].keys() >= {"variant", "case", "results_are_right"}
    assert runner.invoke(tilecopy, [*words[:-2], "nobody", *options]).exit_code == 1


def test_saved_failures_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case_of_seed(subject_of(ABLE[0]).case_space, f"saved {number}").to_json() for number in range(2)]
    tally = Tally("", ABLE[0], failures=[Failure(ABLE[0], case, "wrong") for case in cases])

    def fails(chunk: Chunk) -> Tally:
        return attrs.evolve(tally, chunk=chunk.name)

    monkeypatch.setattr("tilecopy_testkit.campaign.run_chunk", fails)
    runner, path = CliRunner(), tmp_path / "failures.jsonl"
    words = ["--requests", "1", "--workers", "0", "--variants", ABLE[0], "--save-failures", str(path)]
    options = ["--checkpoint", str(tmp_path / "checkpoint"), "--report", str(tmp_path / "report.md")]
    assert runner.invoke(tilecopy, ["testkit", "campaign", *words, *options]).exit_code == 1
    assert [json.loads(line)["case"] for line in path.read_text().splitlines()] == cases
    done = runner.invoke(tilecopy, ["testkit", "replay", str(path), "--json"])
    assert done.exit_code == 0 and [result["variant"] for result in json.loads(done.stdout)] == [ABLE[0]] * 2
    assert runner.invoke(tilecopy, ["testkit", "replay", str(tmp_path / "report.md")]).exit_code == 2
