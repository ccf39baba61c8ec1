"""The lines of ``plan.explain()`` about costs: the plan's cost, and a variant that needs far fewer instructions."""

from __future__ import annotations

from contextlib import suppress

from tilecopy_core.dispatch import Plan
from tilecopy_core.errors import TilecopyError
from tilecopy_core.registry import default_registry

from .compare import ComparisonRow, way
from .cost import Cost, cost

QUARTER = 4
"""A variant is named if it needs less than the instructions divided by this."""


def explanation(plan: Plan) -> list[tuple[str, str]]:
    """Return the lines ``cost`` and ``better`` as pairs (name, text), or [] if the cost cannot be counted."""
    try:
        plan_cost = cost(plan)
    except TilecopyError:
        return []
    better = _better(plan, plan_cost)
    return [("cost", str(plan_cost)), ("better", better)]


def _better(plan: Plan, own: Cost) -> str:
    """Return a note that names the cheapest variant with less than a quarter of the instructions, or ""."""
    registry = default_registry()
    fewer: list[tuple[ComparisonRow, tuple[str, ...]]] = []
    for outcome in plan.outcomes:
        plugin = registry.table().plugin_named(outcome.name)
        if outcome.kind in ("outranked", "tied", "lacks option", "not asked") and plugin is not None:
            with suppress(TilecopyError):
                row = way(plugin.record, plan.request, registry)
                if QUARTER * row.cost.instructions < own.instructions and not row.cost.not_counted:
                    fewer.append((row, outcome.lacks))
    if not fewer:
        return ""
    named, least = {note.other for note in plan.notes}, min(row.cost for row, _ in fewer).instructions
    # of variants with equal costs, one that a note names
    ranked = sorted(fewer, key=lambda each: (each[0].plan.variant not in named, each[0].cost))
    best, lacks = next((row, lacks) for row, lacks in ranked if row.cost.instructions <= least)
    needed = "".join(f", with {name}=" for name in lacks)
    return (
        f"{best.plan.variant} needs {best.cost.instructions:,} instructions in all instead of {own.instructions:,}; to use it, "
        f"pass variant={best.plan.variant!r}{needed}"
    )
