"""Campaigns: thousands of random copies for each installed variant, on a Dask cluster, with coverage counts.

A campaign is divided into chunks, each with a variant and a range of seeds. The tally of a finished chunk is one line of the checkpoint
file, so that a campaign that is started again continues with the other chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import attrs
import msgspec
import tilecopy as tc

from tilecopy_core.registry import Plugin

from . import properties
from .copy_case import CopyCase
from .counterexample import Counterexample
from .random_cases import case_of_seed
from .variant_under_test import VariantUnderTest

CHUNK_REQUESTS = 250
PARTITION_SHARE = 8
"""The partition of one in this many requests is also enumerated."""


@attrs.frozen
class Chunk:
    """A frozen record of ``count`` successive requests of a variant. The first has the seed ``seed:variant:first``."""

    variant: str
    seed: int
    first: int
    count: int

    @property
    def name(self) -> str:
        """The name of the chunk in the checkpoint file."""
        return f"{self.seed}:{self.variant}:{self.first}:{self.count}"


@attrs.frozen
class Failure:
    """A frozen record of a wrong copy: the variant, the test case as JSON, and the counterexample."""

    variant: str
    case: str
    counterexample: str


@attrs.define
class Tally:
    """The results of one or more chunks of a variant's requests. ``keys`` has the hash of each drawn test case.

    ``lowered`` is the number of requests with a right result. ``coverage`` counts them by dimension and value.
    """

    chunk: str
    variant: str
    keys: list[str] = attrs.field(factory=list)
    lowered: int = 0
    coverage: dict[str, dict[str, int]] = attrs.field(factory=dict)
    failures: list[Failure] = attrs.field(factory=list)

    def count(self, kinds: Mapping[str, Mapping[str, int]]) -> None:
        """Add copies to the coverage. ``kinds`` has the number of copies for each dimension and value."""
        for dimension, counts in kinds.items():
            of_kind = self.coverage.setdefault(dimension, {})
            for kind, count in counts.items():
                of_kind[kind] = of_kind.get(kind, 0) + count


Execute = Callable[[Sequence[Chunk]], Iterable[Tally]]
"""A function that runs chunks and yields the tally of each, in any order."""


@attrs.frozen
class Campaign:
    """A frozen record of a campaign: its seed, the number of requests, and the names of the variants to test."""

    seed: int
    requests: int
    variants: tuple[str, ...]

    def chunks(self) -> list[Chunk]:
        """Return all chunks, in an order that alternates between the variants."""
        per_variant = -(-self.requests // len(self.variants))
        return [
            Chunk(variant, self.seed, first, min(CHUNK_REQUESTS, per_variant - first))
            for first in range(0, per_variant, CHUNK_REQUESTS)
            for variant in self.variants
        ]


@lru_cache(maxsize=64)
def subject_of(variant: str) -> VariantUnderTest:
    """Return an installed variant to test. Campaigns do not check vector widths; the variant's test suite does."""
    return VariantUnderTest.of(variant, widths_bits=())


def run_chunk(chunk: Chunk) -> Tally:
    """Run the requests of a chunk. Return the copy counts and the failures."""
    subject, tally = subject_of(chunk.variant), Tally(chunk.name, chunk.variant)
    for number in range(chunk.first, chunk.first + chunk.count):
        case = case_of_seed(subject.case_space, f"{chunk.seed}:{chunk.variant}:{number}")
        tally.keys.append(case.key)
        _judge(subject, case, tally, thorough=number % PARTITION_SHARE == 0)
    return tally


def _judge(subject: VariantUnderTest, case: CopyCase, tally: Tally, *, thorough: bool) -> None:
    try:
        if properties.results_are_right(subject, case):
            tally.lowered += 1
            tally.count({dimension: {kind: 1} for dimension, kind in kinds_of(subject, case).items()})
        if thorough and properties.partition_agrees(subject, case):
            tally.count({"enumerated": {"element by element": 1}})
    except Exception as error:
        message = str(error) if isinstance(error, Counterexample) else f"{type(error).__name__}: {error}"
        tally.failures.append(Failure(subject.name, case.to_json(), message))


def kinds_of(subject: VariantUnderTest, d: CopyCase) -> dict[str, str]:
    """Return a dict from coverage dimension to the copy's value, for example ``dtype`` to ``float16``."""
    asked = properties.request_of(subject, d)
    assert asked is not None, f"variant {subject.name} must lower the copy {d.key}"
    request = asked[1]
    partition = properties.partition_of(subject, request)
    swizzled = [name for name, operand in (("source", d.src), ("destination", d.dst)) if operand.swizzle is not None]
    edge = "inside"
    if d.outside is not None:
        edge = f"{d.outside if isinstance(d.outside, str) else 'number'}, {'may overhang' if request.may_exceed_bounds else 'inside'}"
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
        "starts": ", ".join(sorted(d.variables)) or "constant",
        "branch": _branch(partition),
    }


def _owners(d: CopyCase) -> str:
    """Return how threads hold the elements of the register operands: once or repeated."""
    owners = []
    for name, operand in (("source", d.src), ("destination", d.dst)):
        if operand.space == "local":
            threads = prod(e for e, _, axis in (*operand.iters, *operand.replica) if axis != "m")
            repeats = prod(e for e, _, axis in operand.replica if axis != "m") > 1
            unnamed = threads < d.threads // d.units
            how = [word for word, is_so in (("repeated", repeats), ("an axis unnamed", unnamed)) if is_so]
            owners.append(f"{name} {' and '.join(how) or 'once'}")
    return ", ".join(owners) or "no registers"


def _width(partition: Any) -> str:
    bits = getattr(partition, "vec_bits", None)
    if bits is not None:
        return f"{bits} bits"
    size = getattr(partition, "chunk_bytes", None)
    return f"{size} bytes" if size is not None else "its own"


def _branch(partition: Any) -> str:
    """Return the type of a partition and its parts."""
    parts = [type(partition).__name__]
    rounds = getattr(partition, "rounds", partition)
    outer = getattr(rounds, "outer", getattr(partition, "outer", 0))
    if isinstance(outer, int):
        parts.append("one round" if outer == 1 else "rolled" if outer > 64 else "unrolled")
    for part in ("guards", "edge", "tail", "narrowed"):
        if getattr(partition, part, None):
            parts.append(part)
    return ", ".join(parts)


def skipped_variants() -> dict[str, str]:
    """Return a dict from each installed variant to the reason why campaigns skip it, or to "" if campaigns test it."""
    plugins = tc.default_registry().plugins()
    return {plugin.name: _skip_reason(plugin) for plugin in plugins if plugin.status != "wrapper"}


def _skip_reason(plugin: Plugin) -> str:
    if plugin.variant is None:
        return plugin.reason
    subject = subject_of(plugin.name)
    if not subject.completion_is_known:
        return f"the kit does not know the variant's completion {plugin.variant.completion!r}"
    required = [o.name for o in plugin.variant.options if o.required and o.name not in subject.options]
    return f"the kit cannot create a value for the variant's required option {required[0]}" if required else ""


def finished_tallies(campaign: Campaign, checkpoint: Path) -> dict[str, Tally]:
    """Return a dict from chunk name to result for the finished chunks of a checkpoint file. Ignore incomplete lines."""
    tallies: dict[str, Tally] = {}
    for line in checkpoint.read_bytes().splitlines() if checkpoint.exists() else ():
        with suppress(msgspec.MsgspecError, RecursionError):
            tally = msgspec.json.decode(line, type=Tally)
            tallies[tally.chunk] = tally
    return {chunk.name: tallies[chunk.name] for chunk in campaign.chunks() if chunk.name in tallies}


def run(
    campaign: Campaign,
    checkpoint: Path,
    execute: Execute,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Tally]:
    """Run the chunks that the checkpoint file lacks. Append each result to the file. Return all results by chunk name.

    ``progress`` is called with the number of finished chunks and of all chunks.
    """
    tallies, chunks = finished_tallies(campaign, checkpoint), campaign.chunks()
    with checkpoint.open("ab") as stream:
        for tally in execute([chunk for chunk in chunks if chunk.name not in tallies]):
            tallies[tally.chunk] = tally
            stream.write(msgspec.json.encode(tally) + b"\n")
            stream.flush()
            progress(len(tallies), len(chunks))
    return tallies


def execute_here(chunks: Sequence[Chunk]) -> Iterator[Tally]:
    """Run chunks one after another in this process. Yield the result of each chunk."""
    return map(run_chunk, chunks)


def cluster_executor(address: str | None, workers: int | None) -> Execute:
    """Return a function that runs chunks on a Dask cluster. Without ``address``, the function starts a local cluster.

    A scheduler has an address such as ``tcp://host:8786``; its workers need tilecopy-testkit and the variants. A new cluster has
    one process per core by default.
    """
    try:
        import distributed
    except ImportError as error:
        raise tc.LaunchError(
            "a campaign needs Dask: from a checkout, run pip install 'plugins/testkit[campaign]'"
        ) from error

    dask: Any = distributed

    def execute(chunks: Sequence[Chunk]) -> Iterator[Tally]:
        with dask.Client(address, n_workers=workers, threads_per_worker=1, dashboard_address=":0") as client:
            futures = [client.submit(run_chunk, chunk, pure=False) for chunk in chunks]
            for future in dask.as_completed(futures):
                yield future.result()

    return execute
