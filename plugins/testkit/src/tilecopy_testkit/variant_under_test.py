"""A variant under test, with everything that the kit needs to build the variant's kernels."""

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
from .element_moves import Move
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
"""Name -> a function that returns an option which exists only in a kernel, from the harness."""
STEPS = tuple_of(instance_of("a Step", Step))
MAKERS = mapping_of(FUNCTION)


def source_of(plugin: Any) -> Source:
    """Return the source of a plugin. ``plugin`` is an installed variant's name, or a module or object with the hooks.

    Raises:
        PluginError: no installed variant has that name, or the object has no record.
    """
    if isinstance(plugin, str):
        sources = {source.name: source for source in reversed(installed_sources(VARIANTS_GROUP))}
        if plugin not in sources:
            names = ", ".join(sorted(sources))
            raise tc.PluginError(f"plugin must name an installed variant, got {short_repr(plugin)}; installed: {names}")
        return sources[plugin]
    try:
        name = getattr(getattr(plugin, "variant", None), "name", None)
    except Exception:  # an object's own
        name = None
    if not isinstance(name, str):
        raise tc.PluginError(
            f"plugin must have an attribute 'variant', a tilecopy_core.Variant with a name, got {short_repr(plugin)}"
        )
    return Source(name, "a registered object", "0", lambda: plugin)


@attrs.frozen(eq=False)
class VariantUnderTest:
    """A frozen record of a variant to test, the copies to draw, and the parts of the harness.

    Attributes:
        plugin: the module, object or name.
        source: the source of the plugin.
        record: the variant's record.
        case_space: the space of copies to draw.
        registry: a registry with only this variant.
        steps: the steps that complete a copy.
        options, arguments, widths_bits, expected_narrow, moves: see :class:`.VariantSuite`.
    """

    plugin: Any
    source: Source = attrs.field(validator=instance_of("a Source", Source))
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
        """Return a plugin as a variant under test. ``more`` sets other fields of this class.

        Raises:
            PluginError: the plugin cannot be loaded, or is not a variant.
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
        """The plugin's entry in the registry."""
        plugin = self.registry.table().plugin_named(self.name)
        assert plugin is not None
        return plugin

    @property
    def completion_is_known(self) -> bool:
        """True if the kit knows the steps that complete the variant's copies."""
        return bool(self.steps) or self.record.completion in COMPLETIONS

    def with_wrapper(self, wrapper: Any) -> VariantUnderTest:
        """Return the variant under test with a new registry that also has ``wrapper``, a plugin of hook wrappers."""
        registry = tc.Registry([self.source], environ={"TILECOPY_STRICT": "1"})
        registry.register(wrapper, name="tilecopy_testkit_watcher")
        return attrs.evolve(self, registry=registry)


SUBJECT = instance_of("a VariantUnderTest", VariantUnderTest)


def restricted(subject: VariantUnderTest, **parts: Any) -> VariantUnderTest:
    """Return the variant under test, restricted to copies with these ``spaces``, ``dtypes`` or ``targets``."""
    return attrs.evolve(subject, case_space=attrs.evolve(subject.case_space, **parts))
