"""The hook specifications: the interface between the core and a variant plugin (see docs/tutorial.md).

A variant is one object (a module will do) with an attribute ``variant`` (a :class:`~tilecopy_core.Variant`) and an
implementation of each hook below, registered under the entry-point group ``tilecopy.variants.v1`` with its own name.

Dispatch checks everything that the record declares before it calls a hook, so no hook needs to check it again: op, spaces,
features of the target, which threads must reach the copy, whether regions may overhang (``edges``), and the options with
their types. A request that does not fit is declined with the value and the rule. ``required="in a kernel"`` is for an
option that a plan outside a kernel (``request.active.cta_threads is None``) may leave out.

No hook may touch a GPU, read the environment, print, or keep state between calls: the same request gives the same
answer, the same partition and the same text. A request cannot be changed. The CPU time of hooks is
measured, and one that takes seconds is named in a warning.

A plugin without the attribute ``variant`` may wrap any hook (``@hookimpl(wrapper=True)``) and then sees every call, and
each dispatch as a whole (:func:`tilecopy_dispatch`). It may look at what a variant answers and may turn it into a
``Decline``; it may put an ``Accept`` or a partition of the same type in its place. What a variant raises stands. A wrapper
that raises, or gives back anything else, is set aside, and the variant's own answer counts. One whose attribute
``observer`` is True only looks: anything but the answer that it was handed is such a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pluggy

if TYPE_CHECKING:
    from ..description.request import CopyRequest, Decline, Variant, Verdict
    from ..ptx.builder import PtxBuilder

PROJECT = "tilecopy"
VARIANTS_GROUP = "tilecopy.variants.v1"
"""Entry-point group of variants; the number is the version of this contract."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a function as the implementation of one of these hooks."""


@hookspec(firstresult=True)
def tilecopy_predicate(request: CopyRequest, variant: Variant) -> Verdict:  # type: ignore[empty-body]
    """Return Accept if this variant can do the copy, else Decline with the reason.

    Called first, for every installed variant whose record fits the request, in order of priority; should be cheap.
    The request is already known to be valid in itself (equal dtypes and extents, no aliasing destination). ``variant`` is
    the record of the variant that is asked, here and in the next two; a hook need not take it, a wrapper learns from it who answers.

    The answer is ``Accept()``; ``Accept(priority)`` where the variant has another priority for this copy; or ``Decline(reason)`` where
    the reason names the operand, the value and the rule. An exception (any but ``KeyboardInterrupt``), or anything else than these,
    declines this one request and is reported as the variant's fault; where the variant was asked for by name, it is a PluginError.
    """


@hookspec(firstresult=True)
def tilecopy_partition(request: CopyRequest, variant: Variant) -> Any | Decline:
    """Return the partition: which thread copies which elements.

    Called for the first variant in order whose predicate accepted the request; nothing is emitted yet. The answer is a value of
    the variant's own type (frozen, with a ``summary()`` of one line for ``plan.explain()``), or ``Decline(reason)``: then the
    next variant that accepted is asked. None and exceptions as for the predicate. A plan holds the value: what is to be pickled
    or copied with the plan must allow that. A note names others that answer such a value, even without options that they need.
    """


@hookspec(firstresult=True)
def tilecopy_emit(request: CopyRequest, partition: Any, ptx: PtxBuilder, variant: Variant) -> None:
    """Write the copy's instructions through the builder.

    Called once for each place in a kernel where the copy stands, on the variant that won and no other; ``partition`` is
    what its ``tilecopy_partition`` returned for the request. It returns nothing: it is too late to decline. A TilecopyError
    is raised as it is, with the variant's name before its message; any other exception as a PluginError.
    """


@hookspec(firstresult=True)
def tilecopy_dispatch(request: CopyRequest, demanded: tuple[str, ...], registry: Any) -> Any:
    """Return the plan of a request. Only the core implements this hook. A plugin without a variant record may wrap it.

    The predicates and partitions of the dispatch are called inside it, in the same thread. ``demanded`` are the names that
    ``variant=`` gives, in order, or (); ``registry`` is the :class:`~tilecopy_core.Registry` that is asked. It gives the
    :class:`~tilecopy_core.Plan`, which cannot be changed: who was chosen, and for everybody else why not, those included that
    were refused by their record. It raises NoVariantError and PluginError as :func:`tilecopy_core.plan` does.
    """


HOOKS = ("tilecopy_predicate", "tilecopy_partition", "tilecopy_emit")
"""The names of a variant's hooks, in the order of their calls."""
DISPATCH = "tilecopy_dispatch"
"""The hook that the core implements."""


class VariantPlugin(Protocol):
    """The protocol of a variant plugin. A type checker checks the whole plugin at ``_: VariantPlugin = my_plugin``."""

    @property
    def variant(self) -> Variant:
        """The variant's record."""

    def tilecopy_predicate(self, request: CopyRequest) -> Verdict:
        """Return Accept or Decline for a request; see :func:`tilecopy_predicate`."""

    def tilecopy_partition(self, request: CopyRequest) -> Any | Decline:
        """Return the partition of a request, or Decline with the reason; see :func:`tilecopy_partition`."""

    def tilecopy_emit(self, request: CopyRequest, partition: Any, ptx: PtxBuilder) -> None:
        """Write the copy's instructions to ``ptx``; see :func:`tilecopy_emit`."""
