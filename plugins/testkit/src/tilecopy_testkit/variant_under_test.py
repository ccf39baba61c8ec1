"""The variant that is being proved, and what the kit makes kernels with for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import tilecopy as tc
from tilecopy.harness import COMPLETIONS, Step
from tilecopy.harness import OPTIONS as HARNESS_OPTIONS
from tilecopy.validators import FUNCTION, mapping_of

from tilecopy_core.errors import checked, instance_of, optional, short_repr, tuple_of
from tilecopy_core.registry import VARIANTS_GROUP, Plugin, Source, installed_sources

from .case_space import CaseSpace, Draw
from .copy_case import CopyCase
from .enumeration import Move
from .validators import MAYBE_FUNCTION, VARIANT, WIDTHS

OptionMaker = Callable[[Any], Any]
ArgumentMaker = Callable[[CopyCase], Any]
Moves = Callable[[tc.CopyRequest, Any, Mapping[Any, int]], "Iterable[Move] | None"]
OwnDraws = Callable[[Draw, CaseSpace], "CopyCase | None"]
WIDTHS_BITS = (128, 64, 32, 16, 8)


OPTIONS: dict[str, OptionMaker] = {
    **HARNESS_OPTIONS,
    "remote_cta_id": lambda harness: (harness.rank + harness.case.rank_offset) % harness.case.cluster,
}
"""Options that only a kernel has, by name."""
STEPS = tuple_of(instance_of("a Step", Step))
MAKERS = mapping_of(FUNCTION)


def source_of(plugin: Any) -> Source:
    """Where a plugin comes from: an installed variant's name, or a module or object with the hooks.

    Raises:
        PluginError: no installed variant has that name, or the object has no record.
    """
    if isinstance(plugin, str):
        sources = [source for source in installed_sources(VARIANTS_GROUP) if source.name == plugin]
        if not sources:
            raise tc.PluginError(
                f"plugin: no installed variant is named {short_repr(plugin)}; install the package that has it"
            )
        return sources[0]
    try:
        name = getattr(getattr(plugin, "variant", None), "name", None)
    except Exception:  # an object's own
        name = None
    if not isinstance(name, str):
        raise tc.PluginError(
            f"plugin {short_repr(plugin)} has no attribute 'variant' (a tilecopy_core.Variant with a name)"
        )
    return Source(name, "this process", "0", lambda: plugin)


@attrs.frozen(eq=False)
class VariantUnderTest:
    """A variant, how its copies are drawn, and what surrounds them.

    Attributes:
        plugin: as it was given.
        source: where it comes from.
        record: what it says of itself.
        case_space: what is drawn.
        registry: has this variant and no other.
        steps: what completes a copy.
        options: makes each option that only a kernel has, from the :class:`~.case_harness.CaseHarness`.
        arguments: makes what a launch gives besides the kit's own arguments, by the parameter's name: an array or an integer.
        widths_bits: vector widths that its instructions have, widest first; () where vectors are not compared.
        expected_narrow: by reason, copies for which a narrower vector than brute force finds is known and right.
        moves: given a request, its partition and the values of its symbols, what is moved (:mod:`.enumeration`); None: the
            partition says so itself by a method ``moves(request, values)``, or only the emitted text is judged.
    """

    plugin: Any
    source: Source = attrs.field(validator=instance_of("where a plugin comes from", Source))
    record: tc.Variant = attrs.field(validator=VARIANT)
    case_space: CaseSpace = attrs.field(validator=instance_of("a CaseSpace", CaseSpace))
    registry: tc.Registry = attrs.field(validator=instance_of("a Registry", tc.Registry))
    steps: tuple[Step, ...] = attrs.field(validator=STEPS)
    options: Mapping[str, OptionMaker] = attrs.field(factory=OPTIONS.copy, validator=MAKERS)
    arguments: Mapping[str, ArgumentMaker] = attrs.field(factory=dict, validator=MAKERS)
    widths_bits: tuple[int, ...] = attrs.field(default=WIDTHS_BITS, validator=WIDTHS)
    expected_narrow: Mapping[str, Callable[[CopyCase], bool]] = attrs.field(factory=dict, validator=MAKERS)
    moves: Moves | None = attrs.field(default=None, validator=MAYBE_FUNCTION)

    @classmethod
    @checked(steps=optional(STEPS), options=optional(MAKERS))
    def of(
        cls,
        plugin: Any,
        *,
        spaces: Sequence[tuple[str, str]] | None = None,
        dtypes: Sequence[str] | None = None,
        targets: Sequence[str] | None = None,
        steps: Sequence[Step] | None = None,
        options: Mapping[str, OptionMaker] | None = None,
        draws: OwnDraws | None = None,
        **more: Any,
    ) -> VariantUnderTest:
        """The subject of a plugin; further arguments are fields.

        Raises:
            PluginError: it cannot be loaded, or is not a variant; the message says why.
        """
        source = source_of(plugin)
        registry = tc.Registry([source], environ={"TILECOPY_STRICT": "1"})
        record = registry.plugins()[0].record
        case_space = CaseSpace.of(record, spaces, dtypes, targets, draws)
        completion = COMPLETIONS.get(record.completion, ()) if steps is None else tuple(steps)
        return cls(plugin, source, record, case_space, registry, completion, OPTIONS | dict(options or {}), **more)

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.record.name

    @property
    def registry_entry(self) -> Plugin:
        """The plugin as the registry has it."""
        plugin = self.registry.table().plugin_named(self.name)
        assert plugin is not None
        return plugin

    @property
    def completion_is_known(self) -> bool:
        """Whether the kit knows what completes its copies."""
        return bool(self.steps) or self.record.completion in COMPLETIONS

    def with_wrapper(self, wrapper: Any) -> VariantUnderTest:
        """Return the variant with a plugin that wraps its hooks."""
        registry = tc.Registry([self.source], environ={"TILECOPY_STRICT": "1"})
        registry.register(wrapper, name="tilecopy_testkit_watcher")
        return attrs.evolve(self, registry=registry)
