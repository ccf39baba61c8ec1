"""Many thousands of copies over every installed variant, on a Dask cluster; what was done is kept, and a report written.

A campaign is cut into chunks, each a variant and a range of seeds. A chunk that is done is one line of the state file;
a campaign that is started again goes on with the others.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, TextIO

import attrs
import tilecopy as tc

from tilecopy_core.errors import TEXT, Kind, checked, instance_of, integer_in, optional, shown, tuple_of

from . import rules
from .description import Description
from .drawing import seeded
from .finding import Finding
from .kinds import ANY, FUNCTION, NATURAL, PATH, by_name, said_by_system
from .subject import Subject

CHUNK_REQUESTS = 250
PARTITION_SHARE = 8
"""One request in so many has its partition enumerated too."""
COVERED = (
    "target", "dtype", "spaces", "scope", "completion", "options", "owners", "width", "edge", "swizzle", "starts", "branch",
    "enumerated",
)  # fmt: skip
EVER_FAILED = Path(__file__).with_name("ever_failed.jsonl")
"""Every copy that ever failed, one a line: ``{"variant": .., "description": ..}``."""


@attrs.frozen
class Chunk:
    """Some of a variant's requests: the seeds ``seed:variant:first`` and those after it."""

    variant: str = attrs.field(validator=TEXT)
    seed: int = attrs.field(validator=ANY)
    first: int = attrs.field(validator=NATURAL)
    count: int = attrs.field(validator=NATURAL)

    @property
    def name(self) -> str:
        """What the state file calls it."""
        return f"{self.seed}:{self.variant}:{self.first}:{self.count}"


@attrs.define
class Tally:
    """What became of some requests.

    Attributes:
        keys: a short name of each request that was drawn.
        lowered: how many of them were lowered, run, and right.
        covered: by dimension, how many of those there were of each kind.
        failures: ``{"variant", "description", "finding"}`` of those that were wrong.
    """

    keys: list[str] = attrs.field(factory=list)
    lowered: int = 0
    covered: dict[str, dict[str, int]] = attrs.field(factory=dict)
    failures: list[dict[str, str]] = attrs.field(factory=list)

    def count(self, kinds: Mapping[str, str]) -> None:
        """One more request that was lowered."""
        self.lowered += 1
        self.note(kinds)

    def note(self, kinds: Mapping[str, str]) -> None:
        """One more of some kinds."""
        for dimension, kind in kinds.items():
            of_kind = self.covered.setdefault(dimension, {})
            of_kind[kind] = of_kind.get(kind, 0) + 1


@checked(variant=TEXT)
def subject_of(variant: str) -> Subject:
    """The subject of an installed variant, made once a process; which widths it has only its suite knows.

    Raises:
        PluginError: there is none.
    """
    try:
        return _subject_of(variant)
    except tc.PluginError as error:
        raise tc.PluginError(f"variant {shown(variant)}: {error}") from error


@lru_cache(maxsize=64)
def _subject_of(variant: str) -> Subject:
    return Subject.of(variant, widths_bits=())


@checked(chunk=instance_of("a Chunk", Chunk))
def run_chunk(chunk: Chunk) -> dict[str, Any]:
    """Run the requests of a chunk; the tally as plain data."""
    subject, tally = subject_of(chunk.variant), Tally()
    for number in range(chunk.first, chunk.first + chunk.count):
        description = seeded(subject.ranges, f"{chunk.seed}:{chunk.variant}:{number}")
        tally.keys.append(description.key)
        judge(subject, description, tally, thorough=number % PARTITION_SHARE == 0)
    return attrs.asdict(tally)


def judge(subject: Subject, description: Description, tally: Tally, *, thorough: bool) -> None:
    """One request; what became of it goes into the tally."""
    try:
        if rules.results_are_right(subject, description):
            tally.count(kinds_of(subject, description))
        if thorough and rules.partition_agrees(subject, description):
            tally.note({"enumerated": "element by element"})
    except Finding as finding:
        told = {"variant": subject.name, "description": description.to_json(), "finding": str(finding)}
        tally.failures.append(told)
    except Exception as error:
        told = {"variant": subject.name, "description": description.to_json()}
        tally.failures.append(told | {"finding": f"{type(error).__name__}: {error}"})


def kinds_of(subject: Subject, description: Description) -> dict[str, str]:
    """Of what kind a copy is, along each dimension of the coverage."""
    d = description
    _, request = rules.request_of(subject, d)
    partition = rules.partition_of(subject, request)
    swizzled = [name for name, operand in (("source", d.src), ("destination", d.dst)) if operand.swizzle is not None]
    edge = "inside"
    if d.outside is not None:
        edge = f"{d.outside if isinstance(d.outside, str) else 'number'}, {'may overhang' if request.overhangs else 'inside'}"
    used = sorted({t.variable for o in (d.dst, d.src) for s in o.starts for t in s.terms})
    return {
        "target": d.target,
        "dtype": d.dtype,
        "spaces": " -> ".join(d.spaces),
        "scope": d.scope,
        "completion": subject.record.completion,
        "options": ", ".join(f"{name}={value}" for name, value in d.options) or "none",
        "owners": _owners(d),
        "width": _width(partition),
        "edge": edge,
        "swizzle": " and ".join(swizzled) or "none",
        "starts": ", ".join(used) or "constant",
        "branch": _branch(partition),
    }


def _owners(d: Description) -> str:
    """How many threads hold an element of the register operands."""
    found = []
    for name, operand in (("source", d.src), ("destination", d.dst)):
        if operand.space == "local":
            threads = prod(e for e, _, axis in (*operand.iters, *operand.replica) if axis != "m")
            repeats = prod(e for e, _, axis in operand.replica if axis != "m") > 1
            unnamed = threads < d.threads // d.units
            how = [word for word, is_so in (("repeated", repeats), ("an axis unnamed", unnamed)) if is_so]
            found.append(f"{name} {' and '.join(how) or 'once'}")
    return ", ".join(found) or "no registers"


def _width(partition: Any) -> str:
    bits = getattr(partition, "vec_bits", None)
    if bits is not None:
        return f"{bits} bits"
    size = getattr(partition, "chunk_bytes", None)
    return f"{size} bytes" if size is not None else "its own"


def _branch(partition: Any) -> str:
    """What the partition is made of: its type, and the parts that it has."""
    parts = [type(partition).__name__]
    rounds = getattr(partition, "rounds", partition)
    outer = getattr(rounds, "outer", getattr(partition, "outer", 0))
    if isinstance(outer, int):
        parts.append("one round" if outer == 1 else "rolled" if outer > 64 else "unrolled")
    for part in ("guards", "edge", "tail", "narrowed"):
        if getattr(partition, part, None):
            parts.append(part)
    return ", ".join(parts)


# ------------------------------------------------------------------------------------------------- the whole


_VARIANTS = Kind(
    "a tuple of names of variants, at least one",
    lambda value: isinstance(value, tuple) and bool(value) and all(isinstance(each, str) for each in value),
)


@attrs.frozen
class Campaign:
    """What is asked for.

    Attributes:
        seed: of all draws.
        requests: how many to draw.
        variants: names of installed variants.
    """

    seed: int = attrs.field(validator=ANY)
    requests: int = attrs.field(validator=integer_in(0, 2**32))
    variants: tuple[str, ...] = attrs.field(validator=_VARIANTS)

    def chunks(self) -> list[Chunk]:
        """All chunks, the variants in turn."""
        each = -(-self.requests // len(self.variants))
        return [
            Chunk(variant, self.seed, first, min(CHUNK_REQUESTS, each - first))
            for first in range(0, each, CHUNK_REQUESTS)
            for variant in self.variants
        ]


def able_variants() -> dict[str, str]:
    """Installed variants: name -> why a campaign leaves it out, or ""."""
    found: dict[str, str] = {}
    for plugin in tc.default_registry().plugins():
        if plugin.status == "wrapper":
            continue
        if plugin.variant is None:
            found[plugin.name] = plugin.reason
            continue
        subject = Subject.of(plugin.name)
        needed = [o.name for o in plugin.variant.options if o.required and o.name not in subject.surroundings.options]
        found[plugin.name] = ""
        if not subject.completion_is_known:
            found[plugin.name] = f"completion {plugin.variant.completion!r} is not one that the kit knows"
        elif needed:
            found[plugin.name] = f"the kit cannot make its option {needed[0]}"
    return found


@checked(state=PATH)
def finished(state: Path) -> dict[str, dict[str, Any]]:
    """The chunks that a state file has, by name; a line that was cut off is none.

    Raises:
        RequestError: it cannot be read.
    """
    found: dict[str, dict[str, Any]] = {}
    for line in _lines("state", state):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if _RECORD.fits(record) and TEXT.fits(record.get("chunk")):
            found[record["chunk"]] = record
    return found


_TALLIED = {
    "variant": TEXT,
    "keys": tuple_of(TEXT),
    "lowered": NATURAL,
    "covered": by_name(by_name(NATURAL)),
    "failures": tuple_of(
        Kind("a failure", lambda each: by_name(TEXT).fits(each) and {"variant", "finding"} <= set(each)),
    ),
}
_RECORD = Kind(
    "what `run` gives for a chunk",
    lambda value: isinstance(value, Mapping) and all(kind.fits(value.get(name)) for name, kind in _TALLIED.items()),
)
"""What a line of a state file has, and the name of its chunk."""


def _lines(name: str, path: Path) -> list[str]:
    """The lines of a file; none where there is no file.

    Raises:
        RequestError: it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise tc.RequestError(f"{name}: the file {shown(str(path))} cannot be read: {said_by_system(error)}") from error


def _appending(name: str, path: Path) -> TextIO:
    """A file that lines are added to.

    Raises:
        RequestError: it cannot be written.
    """
    try:
        return Path(path).open("a", encoding="utf-8")
    except (OSError, ValueError) as error:
        raise tc.RequestError(
            f"{name}: the file {shown(str(path))} cannot be written: {said_by_system(error)}"
        ) from error


@checked(campaign=instance_of("a Campaign", Campaign), state=PATH, run_all=FUNCTION, say=FUNCTION)
def run(
    campaign: Campaign,
    state: Path,
    run_all: Callable[[Sequence[Chunk]], Iterable[tuple[Chunk, dict[str, Any]]]],
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> dict[str, dict[str, Any]]:
    """Run what is left of a campaign; every chunk's record.

    Args:
        campaign: what is asked for.
        state: where chunks that are done are kept.
        run_all: gives each chunk with its tally, in any order.
        say: shows progress.
    """
    done = finished(state)
    wanted = campaign.chunks()
    left = [chunk for chunk in wanted if chunk.name not in done]
    if len(left) < len(wanted):
        say(f"{len(wanted) - len(left)} of {len(wanted)} chunks are done already")
    started, requests, failures = time.monotonic(), 0, 0
    with _appending("state", state) as stream:
        for number, (chunk, tally) in enumerate(run_all(left), 1):
            record = {"chunk": chunk.name, "variant": chunk.variant, **tally}
            done[chunk.name] = record
            stream.write(json.dumps(record) + "\n")
            stream.flush()
            requests += chunk.count
            failures += len(tally["failures"])
            seconds = time.monotonic() - started
            rest = seconds / number * (len(left) - number)
            say(
                f"{number}/{len(left)} chunks, {requests} requests, {requests / seconds:.0f} a second, {failures} wrong, "
                f"about {rest / 60:.0f} min left"
            )
    return of_campaign(campaign, done)


@checked(
    campaign=instance_of("a Campaign", Campaign),
    done=Kind("records by the names of their chunks", lambda value: isinstance(value, Mapping)),
)
def of_campaign(campaign: Campaign, done: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The records that belong to a campaign."""
    names = [chunk.name for chunk in campaign.chunks()]
    return {name: done[name] for name in names if name in done}


def here(chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, dict[str, Any]]]:
    """The chunks one after the other in this process."""
    for chunk in chunks:
        yield chunk, run_chunk(chunk)


@checked(address=optional(TEXT), workers=optional(integer_in(0, 4096)))
def on_cluster(
    address: str | None, workers: int | None
) -> Callable[[Sequence[Chunk]], Iterator[tuple[Chunk, dict[str, Any]]]]:
    """Chunks on a Dask cluster: that of a scheduler's address, or one on this machine.

    Args:
        address: such as ``tcp://host:8786``; its workers need tilecopy-testkit and the variants installed.
        workers: processes of a cluster on this machine; by default one a core.

    Raises:
        LaunchError: dask is not installed.
    """
    try:
        import distributed
    except ImportError as error:
        raise tc.LaunchError(
            "a campaign runs on a Dask cluster: from a checkout: pip install 'plugins/testkit[campaign]'"
        ) from error

    dask: Any = distributed

    def run_all(chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, dict[str, Any]]]:
        with ExitStack() as stack:
            where: Any = address
            if where is None:
                own = dask.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
                where = stack.enter_context(own)
            client = stack.enter_context(dask.Client(where))
            futures = {client.submit(run_chunk, chunk, pure=False): chunk for chunk in chunks}
            for future in dask.as_completed(futures):
                yield futures[future], future.result()

    return run_all


# ------------------------------------------------------------------------------------------------- the report


def _records(where: str, records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Records of chunks, held against what they have.

    Raises:
        RequestError: one is none.
    """
    found: list[Mapping[str, Any]] = []
    listed = isinstance(records, Iterable) and not isinstance(records, (str, bytes, Mapping, type, range))
    try:
        for each in records if listed else ():
            listed = _RECORD.fits(each)
            if not listed:
                break
            found.append(each)
    except Exception:  # an object's own
        listed = False
    if not listed:
        raise tc.RequestError(f"{where}: records {shown(records)} are not what `run` gives for chunks")
    return found


def totals(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The tallies of all chunks together, by variant."""
    found: dict[str, Any] = {}
    for record in _records("totals", records):
        own = found.setdefault(record["variant"], {"keys": set(), "lowered": 0, "failures": [], "covered": {}})
        own["keys"].update(record["keys"])
        own["lowered"] += record["lowered"]
        own["failures"] += record["failures"]
        for dimension, kinds in record["covered"].items():
            own["covered"].setdefault(dimension, Counter()).update(kinds)
    return found


def report(campaign: Campaign, records: Iterable[Mapping[str, Any]], left_out: Mapping[str, str]) -> str:
    """The report as Markdown."""
    instance_of("a Campaign", Campaign).check(campaign, "report", "campaign")
    by_name(TEXT).check(left_out, "report", "left_out")
    records = _records("report", records)
    found, chunks = totals(records), len(campaign.chunks())
    so_far = "" if len(records) == chunks else f" It was stopped when {len(records)} of {chunks} chunks were done."
    distinct = sum(len(own["keys"]) for own in found.values())
    lowered = sum(own["lowered"] for own in found.values())
    failures = [failure for own in found.values() for failure in own["failures"]]
    lines = [
        "# Campaign",
        "",
        f"`python -m tilecopy_testkit campaign --seed {campaign.seed} --requests {campaign.requests} "
        f"--variants {','.join(campaign.variants)}`",
        "",
        f"{distinct} distinct requests were drawn, {lowered} of them lowered, run on the emulator and held against the NumPy "
        f"oracle; the others were declined with a reason. **{len(failures)} were wrong.** Request number `i` of a variant is "
        f"that of the seed `{campaign.seed}:VARIANT:i`. Of one in {PARTITION_SHARE} the partition was enumerated too.{so_far}",
        "",
        "| variant | distinct | lowered | wrong |",
        "|---|---|---|---|",
    ]
    for name, own in sorted(found.items()):
        lines.append(f"| {name} | {len(own['keys'])} | {own['lowered']} | {len(own['failures'])} |")
    for dimension in COVERED:
        lines += ["", f"## By {dimension}", ""]
        for name, own in sorted(found.items()):
            kinds = own["covered"].get(dimension, {})
            told = ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items(), key=lambda each: -each[1]))
            lines.append(f"- **{name}**: {told or 'none'}")
    if any(left_out.values()):
        lines += ["", "## Left out", ""]
        lines += [f"- {name}: {why}" for name, why in sorted(left_out.items()) if why]
    if failures:
        lines += ["", "## Wrong", ""]
        for failure in failures[:50]:
            lines += ["```text", failure["variant"], failure["finding"], "```"]
    return "\n".join([*lines, ""])


_FAILURES = tuple_of(
    Kind(
        "a failure: texts by the names variant, description and finding",
        lambda each: by_name(TEXT).fits(each) and {"variant", "description"} <= set(each),
    )
)


@checked(path=PATH)
def remembered(path: Path = EVER_FAILED) -> list[tuple[str, Description]]:
    """Every copy that ever failed, with its variant.

    Raises:
        RequestError: the file cannot be read, or has a line that is none.
    """
    found = []
    for number, line in enumerate(_lines("path", path), 1):
        if line.strip():
            try:
                record = json.loads(line)
                found.append((record["variant"], Description.from_json(json.dumps(record["description"]))))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise tc.RequestError(f"path: line {number} of {path} is no failure: {error}") from error
    return found


@checked(failures=_FAILURES, path=PATH)
def remember(failures: Sequence[Mapping[str, str]], path: Path = EVER_FAILED) -> int:
    """Keep failures that the file does not have yet; how many those were.

    Raises:
        RequestError: a failure is none, or the file cannot be read or written.
    """
    known = {(variant, description.key) for variant, description in remembered(path)}
    added = 0
    with _appending("path", path) as stream:
        for failure in failures:
            description = Description.from_json(failure["description"])
            if (failure["variant"], description.key) in known:
                continue
            known.add((failure["variant"], description.key))
            record = {"variant": failure["variant"], "description": json.loads(failure["description"])}
            stream.write(json.dumps(record) + "\n")
            added += 1
    return added
