"""Compare the costs of one copy with each variant that accepts it: ``tc.compare(dst, src, ..)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Any

import attrs

from tilecopy_core.description import OPS, target_of, thread
from tilecopy_core.dispatch import Plan, dispatch, plan
from tilecopy_core.errors import NoVariantError, PluginError, PtxError, RequestError, did_you_mean, frozen, short_repr
from tilecopy_core.layout import html_table
from tilecopy_core.memory import Region
from tilecopy_core.plugin import ActiveThreads, CopyRequest, Scope, Target, Variant, check_request
from tilecopy_core.registry import Registry, default_registry

from ..harness import stand_ins
from ..validators import instance_of, one_of, optional
from .cost import Cost, cost, count_text

_COLUMNS: tuple[str, ...] = ("variant", "op", "by", "target", "instructions", "in all", "bytes", "registers")
_COLUMNS += ("sectors", "wavefronts", "cycles", "not counted")
_PRINTED = ("variant", "op", "by", "instr", "bytes", "regs", "sectors", "wavefronts", "cycles")
WIDTH = 80
"""The number of columns of a terminal. The printed table is not wider."""


@frozen
class ComparisonRow:
    """A row of a comparison: a variant's plan for a target, and the plan's cost."""

    plan: Plan
    cost: Cost

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the row, as :class:`Comparison` shows them in HTML."""
        request, counts = self.plan.request, self.cost
        variant, _, by, instructions, size, registers, _, _, cycles = self._printed_cells
        return (
            variant,
            request.op,
            by,
            str(request.target),
            instructions,
            f"{counts.instructions:,}",
            size,
            registers,
            _of_ideal(counts.sectors, counts.ideal_sectors),
            _of_ideal(counts.wavefronts, counts.ideal_wavefronts),
            cycles,
            ", ".join(counts.not_counted),
        )

    @property
    def _printed_cells(self) -> tuple[str, ...]:
        """The cells of the row in text, below a line with the target and the ideal counts."""
        request, counts = self.plan.request, self.cost
        return (
            self.plan.variant,
            request.op.removeprefix("copy_"),
            "one thread" if request.scope.kind == "thread" else str(request.scope),
            f"{'<= ' if counts.upper_bound else ''}{counts.max_instructions_per_thread:,}",
            "/".join(map(str, counts.access_bytes)) or "-",
            str(counts.registers),
            count_text(counts.sectors) if counts.ideal_sectors or counts.sectors is None else "-",
            count_text(counts.wavefronts) if counts.ideal_wavefronts or counts.wavefronts is None else "-",
            count_text(counts.cycles),
        )


def _of_ideal(count: int | None, ideal: int) -> str:
    return f"{count_text(count)}/{ideal:,}" if ideal or count is None else "-"


@frozen
class Comparison:
    """The plans of one copy by different variants, the cheapest first. The plans are printed as a table, grouped by target.

    Plans with unknown traffic come last. Lines below the rows of a target name the instructions that are not counted.

    Attributes:
        rows: the variants that accept the copy, target by target, the cheapest first.
        declined: (target, variant) -> the reason that the variant declines.
    """

    rows: tuple[ComparisonRow, ...]
    declined: Mapping[tuple[str, str], str]

    def __str__(self) -> str:
        cells = [_PRINTED, *(row._printed_cells for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= WIDTH else " "
        header, *rows = (
            gap.join([*map(str.ljust, row[:3], widths), *map(str.rjust, row[3:], widths[3:])]) for row in cells
        )
        lines = [header]
        for target, group in groupby(zip(self.rows, rows, strict=True), lambda pair: pair[0].plan.request.target):
            pairs = list(group)
            sectors = max(row.cost.ideal_sectors for row, _ in pairs)
            wavefronts = max(row.cost.ideal_wavefronts for row, _ in pairs)
            lines += [f"{target} (ideal: {sectors:,} sectors, {wavefronts:,} wavefronts)", *(line for _, line in pairs)]
            for row, _ in pairs:
                if opcodes := row.cost.not_counted:
                    lines += wrap(f"{row.plan.variant}, not counted: {', '.join(opcodes)}", WIDTH)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_table((row.cells for row in self.rows), _COLUMNS)


def compare(
    dst: Region,
    src: Region,
    *,
    scope: Scope,
    targets: Sequence[Target | str] | Target | str = ("sm_90a",),
    op: str | None = None,
    registry: Registry | None = None,
    outside: Any = None,
    **options: Any,
) -> Comparison:
    """Return the cost of a copy with each variant that accepts it, on each target.

    A variant whose copies are issued by one thread gets a copy by the first thread of the scope. If a variant needs an
    option that you do not pass, such as ``mbar=``, a placeholder is used.

    Args:
        dst: destination region.
        src: source region.
        scope: the threads that copy, see :func:`tilecopy.plan`.
        targets: one or more architectures.
        op: ``copy`` or ``copy_async``; by default both.
        registry: the variants to compare; by default the installed ones.
        outside: lets regions overhang their buffers, see :func:`tilecopy.plan`.
        options: options of the copy. Each is passed to the variants that declare it.

    Raises:
        RequestError, LayoutError, TargetError: the copy is not valid, or no variant has an option that you pass.
        NoVariantError: no variant accepts the copy on any of the targets.
    """
    optional(one_of(*OPS)).check(op, "compare", "op")
    instance_of("a Scope such as warp()", Scope).check(scope, "compare", "scope")
    several = targets if isinstance(targets, (tuple, list)) else (targets,)
    registry = default_registry() if registry is None else registry
    if not isinstance(registry, Registry):
        raise RequestError(f"registry must be a tilecopy_core.Registry, got {short_repr(registry)}")
    if not several:
        raise RequestError(
            f"compare: targets must name one or more architectures, such as ('sm_80', 'sm_90a'), got {short_repr(targets)}"
        )
    records = {plugin.name: plugin.variant for plugin in registry.plugins()}
    ready = [(name, record) for name, record in records.items() if record is not None and op in (None, record.op)]
    taken = {option.name for _, record in ready for option in record.options}
    for name in options:
        if name not in taken:
            raise RequestError(
                f"no installed variant has an option {name!r}; the options are {', '.join(sorted(taken)) or 'none'}"
                f"{did_you_mean(name, taken)}"
            )
    rows: list[ComparisonRow] = []
    declined: dict[tuple[str, str], str] = {}
    for target in dict.fromkeys(map(target_of, several)):
        ways = []
        for name, record in ready:
            issuer, active = scope, ActiveThreads(scope.threads if scope.kind == "cta" else None)
            if record.threads == "one" and scope.kind != "thread":
                issuer, active = thread(), ActiveThreads(scope.threads, (True, *[False] * (scope.threads - 1)))
            request = CopyRequest(
                op=record.op,
                dst=dst,
                src=src,
                scope=issuer,
                target=target,
                active=active,
                options=options,
                outside=outside,
            )
            check_request(request)
            try:
                ways.append(way(record, request, registry))
            except (NoVariantError, PluginError, PtxError) as error:
                reasons = getattr(error, "declined", {})
                declined[str(target), name] = reasons.get(name, str(error))
        rows += sorted(ways, key=lambda way: way.cost)
    if not rows:
        first = {"scope": scope, "target": several[0], "registry": registry, "outside": outside}
        plan(dst, src, op=op or OPS[0], **first, **options)  # raises an error with the reasons, the nearest first
        reasons_text = "; ".join(f"{name} on {target} ({why})" for (target, name), why in declined.items())
        raise NoVariantError(
            f"no variant's cost can be counted: {reasons_text}", {name: why for (_, name), why in declined.items()}
        )
    return Comparison(tuple(rows), declined)


def way(record: Variant, request: CopyRequest, registry: Registry) -> ComparisonRow:
    """Return the row of one variant. Options that the variant requires and the copy lacks get placeholder values."""
    names = {option.name for option in record.options}
    options = {name: value for name, value in request.options.items() if name in names}
    options |= stand_ins(record, options)
    copy_plan = dispatch(attrs.evolve(request, options=options), record.name, registry)
    return ComparisonRow(copy_plan, cost(copy_plan, registry))
