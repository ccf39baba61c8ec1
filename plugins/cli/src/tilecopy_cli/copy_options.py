"""Command-line options that describe one copy, and the JSON form of a plan."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click
from tilecopy.catalog import KNOWN_EXECUTORS
from tilecopy.executors import executors
from tilecopy.harness import stand_ins

from tilecopy_core.description import OPS, TARGETS, Variant
from tilecopy_core.dispatch import Plan
from tilecopy_core.errors import checked, did_you_mean, instance_of
from tilecopy_core.registry import default_registry, known_variants

from .expressions import parse_region, parse_scope
from .group import Result
from .param_types import Choice, Fill

TARGET = Choice("target", TARGETS)
_SPLIT = ("outer", "threads", "vec", "vec_bits")
"""The fields of a partition that are reported, where it has them."""


def check_names(**given: str | None) -> None:
    """Raise click.UsageError if the name of a variant or executor is unknown."""
    for option, value in given.items():
        if value is None:
            continue
        first_party = known_variants() if option == "variant" else KNOWN_EXECUTORS
        others = (plugin.name for plugin in default_registry().plugins()) if option == "variant" else executors()
        known = sorted({*first_party, *others})
        if value not in known:
            raise click.UsageError(
                f"--{option} must be one of {', '.join(known)}, got {value!r}{did_you_mean(value, known)}",
                click.get_current_context(),
            )


@checked(found=instance_of("a Plan", Plan))
def plan_to_dict(found: Plan) -> dict[str, Any]:
    """Return a plan as the dict that ``--json`` prints."""
    edge = getattr(found.partition, "edge", None)
    return {
        "copy": str(found.request),
        "variant": found.variant,
        "package": found.package,
        "priority": found.priority,
        "priority_origin": found.priority_origin,
        "summary": found.summary,
        "declined": found.declined,
        "notes": [note.text for note in found.notes],
        **_split(found.partition),
        "edge": {"summary": found.edge_summary, **_split(edge)} if found.edge_summary else None,
    }


def _split(partition: Any) -> dict[str, Any]:
    return {name: getattr(partition, name) for name in _SPLIT if hasattr(partition, name)}


def record_of(variant: str | None) -> Variant | None:
    """Return the record of the installed variant named ``variant``. Return None if it is None or not installed."""
    plugin = default_registry().table().plugin_named(variant) if variant else None
    return None if plugin is None else plugin.variant


_HOW = (
    click.option(
        "--op",
        type=Choice("op", OPS),
        default="copy",
        show_default=True,
        help="Synchronous (copy) or asynchronous (copy_async).",
    ),
    click.option("--target", type=TARGET, default="sm_90a", show_default=True, help="Architecture to lower for."),
    click.option("--variant", help="Variant that must do the copy. Default: the one with the highest priority."),
)


def copy_options(command: Callable[..., Result]) -> Any:
    """Add the options of a copy to a command. The command is called with keyword arguments for :func:`plan`."""
    return _in_words(command, _HOW)


def region_options(*more: Callable[[Any], Any]) -> Callable[[Callable[..., Result]], Any]:
    """Return a decorator that adds options to a command: a copy's regions, scope and fill value, and ``more``."""
    return lambda command: _in_words(command, more)


def _in_words(command: Callable[..., Result], more: Sequence[Callable[[Any], Any]]) -> Any:
    @functools.wraps(command)
    def run_with_regions(
        source: str, destination: str, src_layout: str | None, dst_layout: str | None, scope: str, **words: Any
    ) -> Result:
        src, dst = parse_region(source, src_layout, "src"), parse_region(destination, dst_layout, "dst")
        check_names(variant=words.get("variant"))
        record = record_of(words.get("variant"))
        if record is not None:
            words |= {name: value for name, value in stand_ins(record, {}).items() if name == "mbar"}
        return command(src=src, dst=dst, scope=parse_scope(scope), **words)

    options = (
        click.argument("source"),
        click.argument("destination"),
        click.option("--src-layout", help="Layout of the source buffer. Default: row-major."),
        click.option("--dst-layout", help="Layout of the destination buffer. Default: row-major."),
        click.option(
            "--scope",
            default="cta:128",
            show_default=True,
            help="Threads that copy together: thread, warp, warpgroup or cta:THREADS.",
        ),
        *more,
        click.option(
            "--outside",
            type=Fill(),
            help="Value for elements that a region reads outside its array. With keep, these elements are not copied.",
        ),
    )
    return functools.reduce(lambda given, option: option(given), reversed(options), run_with_regions)
