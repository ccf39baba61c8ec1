"""Dispatch asks the candidate variants, chooses the accepting variant with the highest priority and returns a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import attrs

from ..description.record_checks import not_as_declared, of_another_kind, options_missing, why_not_threads
from ..description.request import Accept, CopyRequest, Decline, check_request
from ..description.scope import ActiveThreads, Scope
from ..description.subbyte_elements import in_bytes
from ..description.target import Target
from ..errors import NoVariantError, PluginError, RequestError, TilecopyError, attribute, integer, short_repr
from ..errors.attrs_classes import frozen
from ..layout import html_table
from ..memory.buffers import Region
from ..registry import LOCK, PluginWarning, Source, WrapperError, __version__, exporter, known_variants, short_error
from ..registry.entry_points import CORE
from ..registry.priorities import Priority
from .reasons import Outcome, OutcomeKind, by_kind, by_reason, no_variant

_MANY_INSTRUCTIONS = 64
"""The most instructions per thread for which a plan has no note about its cost."""

if TYPE_CHECKING:
    from ..ptx.builder import PtxBuilder
    from ..registry import Plugin, Registry
    from ..registry.registry import Table


@frozen
class Note:
    """A frozen record of a note on a plan: a likely mistake and a remedy, or an option that the plan ignores.

    The kind is ``instructions`` or ``registers`` (a thread needs too many), ``copies`` (one thread issues too many
    asynchronous copies), or ``option`` (an option is ignored, which is not a mistake). The text is one line for people;
    ``other`` is the variant that it recommends, or "".
    """

    kind: Literal["instructions", "registers", "copies", "option"]
    text: str
    other: str = ""


@frozen(eq=False, repr=False)
class Plan:
    """A frozen record of the result of a dispatch. A plan can be copied and pickled.

    Attributes:
        request: the copy, without the options that the variant left out (``notes`` names them).
        variant: the name of the chosen variant. ``package`` is its distribution with the version.
        priority: the variant's priority. ``priority_origin`` is what set it, "" for the variant itself.
        partition: which thread copies which elements, in a type of the variant.
        completion: how the caller learns that the copy is done, such as ``"mbarrier"`` (:data:`.request.COMPLETIONS`);
            ``completion_steps`` is what the caller does for that, in order.
        demanded: whether the caller named the variant.
        outcomes: for every other variant, why it was not chosen; those that were asked come first.
        notes: likely mistakes, and the options that the variant left out; nearly always ().
    """

    request: CopyRequest
    variant: str
    package: str
    priority: int
    partition: Any
    completion: str
    completion_steps: tuple[str, ...]
    demanded: bool
    outcomes: tuple[Outcome, ...]
    notes: tuple[Note, ...] = ()
    priority_origin: str = ""

    def __repr__(self) -> str:
        request = self.request
        sides = [f"{side.buffer.name}[{'x'.join(map(str, side.extents))}]" for side in (request.src, request.dst)]
        return f"Plan({self.variant}: {request.op} {' -> '.join(sides)}, {request.scope}, {request.target})"

    def _repr_html_(self) -> str:
        return html_table(line.split(": ", 1) for line in self.explain().splitlines())

    @property
    def declined(self) -> dict[str, str]:
        """A dict from variant names to the reasons why these variants were not chosen."""
        return {outcome.name: outcome.reason for outcome in self.outcomes}

    @property
    def summary(self) -> str:
        """The variant's one-line description of the partition."""
        return self._describe(self.partition, "summary()")

    @property
    def edge_summary(self) -> str:
        """The variant's one-line description of the edge tiles' partition, or "" if there is no such partition."""
        edge = getattr(self.partition, "edge", None)
        return "" if edge is None else self._describe(edge, "summary()")

    def _describe(self, partition: Any, what: Literal["summary()", "narrowed"]) -> str:
        """Return a partition's summary, or its reasons against wider vectors; if that raises an error, a text about the error."""
        try:
            if what == "narrowed":
                return "; ".join(map(str, getattr(partition, "narrowed", ())))
            text = partition.summary() if hasattr(partition, "summary") else str(partition)
            return text if isinstance(text, str) else short_repr(text)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return f"({self.package} is faulty: {what} of its partition raised {short_error(error)})"

    def emit(self, ptx: PtxBuilder, registry: Registry | None = None) -> None:
        """Write the copy's instructions to ``ptx``. By default, the process's registry provides the variant.

        Raises:
            RequestError: the plan was made without an option that the instructions need.
            PluginError: the variant is not there any more, or its emit hook raised something that is not a
                TilecopyError; a TilecopyError is raised as it is, with the variant's name before its message.
        """
        registry = _registry(registry)
        plugin = registry.last_table(self.request.op).plugin_named(self.variant)
        if plugin is None or plugin.variant is None:
            absent = getattr(known_variants().get(self.variant), "install", "the variant is not installed")
            gone = f"this plan needs variant {self.variant} ({self.package}), but the variant cannot be used"
            raise PluginError(f"{gone}: {absent if plugin is None else plugin.reason}")
        request, who = self.request, f"variant {self.variant} ({plugin.source.owner})"
        for option in plugin.record.options:
            if option.required and request.options.get(option.name) is None:
                what = f"option {option.name} must be {option.meaning}"
                raise RequestError(
                    f"{who}: {what}, but the plan was made without this option: pass the option to plan()"
                )
        ptx.comment(f"{request.op} {request.dst} <- {request.src} ({self.variant}, {request.scope})")
        try:
            answer = registry.call(plugin, "tilecopy_emit", request=request, partition=self.partition, ptx=ptx)
        except (WrapperError, PluginWarning, KeyboardInterrupt):  # a warning is raised where somebody asks for that
            raise
        except TilecopyError as error:
            error.args = (f"{who}: {error}", *error.args[1:])
            raise
        except BaseException as error:
            what = f"raised {short_error(error)}{plugin.fault_line('tilecopy_emit', error)}"
            raise PluginError(f"{who}: tilecopy_emit {what}; {plugin.source.advice}") from error
        if answer is not None:
            raise PluginError(
                f"{who}: tilecopy_emit must return None, got {short_repr(answer)} "
                f"(only tilecopy_predicate and tilecopy_partition may return Decline); {plugin.source.advice}"
            )

    def cuda(self, name: str, registry: Registry | None = None) -> str:
        """Return CUDA C++ source of the copy for ``cuda_header``: ``__device__ __forceinline__ void NAME(...) {...}``.

        Its arguments are the destination, the source, the symbols in order of first appearance (dots of their names as underscores),
        the options' buffers, tensor maps, and ``tid``, by default ``threadIdx.x``. Global memory is a pointer, shared memory a shared
        address (``tilecopy::shared_address``), a fragment an array of 32-bit words by reference, a tensor map the address of what
        ``NAME_ARRAY_map(..)`` of the same text encodes on the host. The variant is looked up as for :meth:`emit`.

        Raises:
            RequestError: the name is not an identifier, or the copy cannot leave its kernel; the message says why.
            PtxError: the variant needs something that is not an operand of the copy.
            PluginError: the package that writes CUDA C++ is not installed; the message says which.
        """
        return str(exporter("cuda_function")(self, name, registry))

    def explain(self) -> str:
        """Return at most ten lines that explain the plan: variant, partition, cost, completion and variants not chosen.

        The package ``tilecopy``, if installed, adds the cost, and a variant that needs less than a quarter of the instructions.
        """
        sides = self.partition, *([self.partition.edge] if self.edge_summary else ())
        notes = [note.text for note in self.notes] + [self._describe(side, "narrowed") for side in sides]
        costs: list[tuple[str, str]] = []
        with suppress(PluginError):  # the package that counts them is not installed
            costs = exporter("explain")(self)
        rows = [
            ("copy", f"{self.request}, {self.request.src.nbytes} bytes"),
            ("from", f"{self.request.src}, {self.request.src.buffer.layout}"),
            ("to", f"{self.request.dst}, {self.request.dst.buffer.layout}"),
            ("chosen", f"{self._chosen()} Package: {self.package}."),
            ("split", f"{self.summary}; at edges: {self.edge_summary}" if self.edge_summary else self.summary),
            *costs,
            ("completion", "; ".join([self.completion, *self.completion_steps])),
            ("note", "; ".join(filter(None, notes))),
            ("declined", self._not_chosen()),
        ]
        return "\n".join(f"{name}: {' '.join(text.split())}" for name, text in rows if text)

    def _chosen(self) -> str:
        """Return the chosen variant, and the others that accept the copy."""
        priority = Priority(self.priority, self.priority_origin)
        text = f"{self.variant} ({priority}){', demanded by variant=' * self.demanded}."
        able = [(o, Priority(o.priority, o.priority_origin)) for o in self.outcomes if o.priority is not None]
        also = ", ".join(f"{o.name} ({theirs}{', later by name' * (o.kind == 'tied')})" for o, theirs in able)
        return f"{text} Also possible: {also}." if also else text

    def _not_chosen(self) -> str:
        """Return why other variants were not chosen; variants for other kinds of copies are only listed."""
        outcomes = [o for o in self.outcomes if o.kind in ("declined", "lacks option", "faulty", "set aside")]
        reasons = [f"{names} ({reason})" for reason, names in by_reason(sorted(outcomes, key=lambda o: -o.nearness))]
        for why, far in by_kind(self.outcomes, self.request.op).items():
            reasons.append(f"{why}: {', '.join(o.name for o in far)}")
        return "; ".join(reasons)


def plan(
    dst: Region,
    src: Region,
    *,
    op: str = "copy",
    scope: Scope,
    target: Target | str,
    variant: str | Sequence[str] | None = None,
    active: ActiveThreads | None = None,
    registry: Registry | None = None,
    outside: Any = None,
    cluster: int | None = None,
    **options: Any,
) -> Plan:
    """Return the plan of one copy: the chosen variant and its partition. Planning needs no kernel and no GPU.

    Args:
        dst: destination region.
        src: source region.
        op: ``copy`` or ``copy_async``.
        scope: ``thread()``, ``warp()``, ``warpgroup()`` or ``cta(n)``.
        target: such as ``"sm_90a"``.
        variant: the name of the variant to take, or several such as ``("tma", "ldgsts")``: the first of these that accepts is
            taken, and no other is asked. By default that with the highest priority of those that accept.
        active: which threads reach the copy; by default all.
        registry: the variants to ask; by default the installed ones.
        outside: lets regions overhang their buffers: ``"zero"`` or a number stands for source elements outside, ``"keep"``
            leaves the destination as it is there; destination elements outside are never written.
        cluster: the number of CTAs of a cluster in the launch; by default it is not known, and a variant that needs a cluster
            accepts.
        options: what the variant takes beyond that (``mbar=``, ``remote_cta_id=``, ``cta_group=``).

    Raises:
        RequestError, LayoutError, TargetError: the copy has no meaning, the regions have no elements, or an argument is of
            another kind.
        NoVariantError: no installed variant lowers it. Where none of them takes an option that was given, the error is a
            RequestError too.
        PluginError: the variant demanded by name is broken.
    """
    if active is None:
        active = ActiveThreads(scope.threads if isinstance(scope, Scope) and scope.kind == "cta" else None)
    request = CopyRequest(
        op=op,
        dst=dst,
        src=src,
        scope=scope,
        target=target,
        active=active,
        options=options,
        outside=outside,
        cluster=cluster,
    )
    check_request(request)
    if not src.size:
        raise RequestError(
            f"{request}: the regions must have at least one element to plan a copy, got extents {src.extents}; a KernelBuilder emits nothing for an empty copy"
        )
    registry = _registry(registry)
    copy_plan = dispatch(request, variant, registry)
    tell(copy_plan, registry)
    return copy_plan


@cache
def _registry_module() -> ModuleType:
    """Return the module of registries, which an import of this package does not need."""
    with LOCK:
        from ..registry import registry
    return registry


def _registry(value: Registry | None) -> Registry:
    """Return a registry, or the process's for None. Raises RequestError for any other value."""
    if value is not None and not isinstance(value, _registry_module().Registry):
        raise RequestError(f"registry must be a tilecopy_core.Registry, got {short_repr(value)}")
    registry: Registry = _registry_module().default_registry() if value is None else value
    return registry


def dispatch(request: CopyRequest, variant: str | Sequence[str] | None, registry: Registry) -> Plan:
    """Return the plan of a valid request, without the checks and warnings of :func:`plan`.

    Which records fit an op, memory spaces and a target is computed once for each such combination, so the time of a
    dispatch depends on its candidates and not on the number of installed variants.
    """
    demanded = demanded_names(variant)
    registry.table(request.op)  # as the environment is now
    try:
        plan: Plan = registry.call(
            _own_hook(), "tilecopy_dispatch", request=request, demanded=demanded, registry=registry
        )
    except NoVariantError:
        all_declined = demanded and all(map(registry.table().plugin_named, demanded))
        if all_declined or not registry.refresh():  # a package installed since then is not among those demanded
            raise
        return dispatch(request, variant, registry)
    return plan


def demanded_names(variant: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the names in ``variant=``. Return () for None. Raises RequestError for an invalid or repeated name."""
    if variant is None:
        return ()
    names = (variant,) if isinstance(variant, str) else variant
    fits = isinstance(names, (tuple, list)) and all(isinstance(name, str) for name in names)
    if not fits or not names or len(set(names)) != len(names):
        raise RequestError(
            f"variant must be a variant name or a tuple of different names such as ('tma', 'ldgsts'), got {short_repr(variant)}"
        )
    return tuple(names)


def tell(plan: Plan, registry: Registry, where: str = "") -> None:
    """Warn once per kind of likely mistake in a plan. Warnings point at ``where``, by default the user's call."""
    for note in plan.notes:
        if note.kind != "option":
            registry.advise(note.kind, f"{plan.request}: {note.text}", where)


@cache
def _own_hook() -> Plugin:
    """Return the core's implementation of the hook, which wrappers can wrap."""
    from ..registry.hook_calls import Plugin, hook_manager, hooks_of
    from ..registry.hookspecs import hookimpl

    hooks = SimpleNamespace(tilecopy_dispatch=hookimpl(tilecopy_dispatch))
    return Plugin(
        Source("dispatch", CORE, __version__, lambda: hooks), "ready", hooks=hooks_of(hooks, hook_manager(), "dispatch")
    )


def tilecopy_dispatch(request: CopyRequest, demanded: tuple[str, ...], registry: Registry) -> Plan:
    """Implement the hook :func:`.hookspecs.tilecopy_dispatch`: return the plan of a request."""
    table = registry.last_table(request.op)
    candidates, others = _candidates_of(table, request, demanded)
    for name in demanded:
        named = table.plugin_named(name)
        if named is not None and not named.is_variant and named.status != "disabled":
            reason = named.reason or "the plugin wraps the hooks of variants and cannot lower a copy"
            raise PluginError(f"variant {short_repr(name)} cannot be used: {reason}")
        if named is None and name not in known_variants():
            raise no_variant(request, demanded, others, table, registry.table)
    accepted: list[tuple[Priority, Plugin, CopyRequest]] = []
    outcomes: list[Outcome] = []
    threads, packed = why_not_threads(request), in_bytes(request)
    forms = (request,) if packed is None else (request, packed)  # a variant may take elements of 4 bits by itself
    for plugin in candidates:
        for form in forms:
            seen = _seen_by(plugin, form, table)
            outcome = _against(plugin, seen, threads) or _answer(plugin, "tilecopy_predicate", seen, demanded, registry)
            if not isinstance(outcome, Outcome) or outcome.kind != "declined":
                break
        if isinstance(outcome, Outcome):
            outcomes.append(outcome)
        else:
            accepted.append((table.priority_of(plugin, outcome.priority), plugin, seen))
    if demanded:
        accepted.sort(key=lambda each: demanded.index(each[1].name))
    else:
        accepted.sort(key=lambda each: (-each[0].value, each[1].name))
    for place, (priority, plugin, seen) in enumerate(accepted):
        partition = _answer(plugin, "tilecopy_partition", seen, demanded, registry)
        if isinstance(partition, Outcome):
            outcomes.append(partition)
            continue
        left_out = [
            Note(
                "option",
                f"option {name} is ignored: {plugin.name} does not take it, and the copy is correct without it",
            )
            for name in request.options
            if name not in seen.options
        ]
        outcomes += [
            _outranked_outcome(other, theirs, plugin, priority, demanded) for theirs, other, _ in accepted[place + 1 :]
        ]
        return Plan(
            request=seen,
            variant=plugin.name,
            package=plugin.source.owner,
            priority=priority.value,
            partition=partition,
            completion=plugin.record.completion,
            completion_steps=plugin.record.completion_steps,
            demanded=bool(demanded),
            outcomes=(*outcomes, *others),
            notes=(*left_out, *_notes(request, plugin.name, partition, outcomes, registry, demanded=bool(demanded))),
            priority_origin=priority.origin,
        )
    raise no_variant(request, demanded, [*outcomes, *others], table, registry.table)


def _notes(
    request: CopyRequest, chosen: str, partition: Any, outcomes: list[Outcome], registry: Registry, *, demanded: bool
) -> tuple[Note, ...]:
    """Return another package's notes on a plan of high cost; () if the cost is low or no such package is installed."""
    instructions = integer(attribute(partition, "instructions_per_thread")) or 0
    registers = integer(attribute(partition, "registers_per_thread")) or 0
    if instructions > _MANY_INSTRUCTIONS or registers > request.most_registers:
        with suppress(PluginError):
            notes: Callable[..., tuple[Note, ...]] = exporter("notes")
            return notes(request, chosen, partition, outcomes, registry, demanded=demanded)
    return ()


def _candidates_of(table: Table, request: CopyRequest, demanded: tuple[str, ...]) -> tuple[list[Plugin], list[Outcome]]:
    """Return the variants whose records fit a request's op, spaces and target, and the reasons against the others."""
    key = (request.op, request.spaces, request.target, demanded)
    if key in table.sifted:
        return table.sifted[key]
    candidates: list[Plugin] = []
    others: list[Outcome] = []
    taken = {plugin.name for plugin in table.plugins if plugin.is_variant}
    for plugin in table.plugins:
        if plugin.status == "wrapper":
            continue
        if plugin.status == "other op":
            others.append(Outcome(plugin.name, "other op", plugin.reason))
        elif plugin.variant is None:
            name = f"{plugin.name} ({plugin.source.owner})" if plugin.name in taken else plugin.name
            others.append(Outcome(name, "set aside", plugin.reason))
        elif demanded and plugin.name not in demanded and plugin.variant.op == request.op:
            names = short_repr(demanded if len(demanded) > 1 else demanded[0])
            unasked = f"the variant was not asked, because variant={names} does not name it"
            others.append(Outcome(plugin.name, "not asked", unasked))
        elif why := of_another_kind(plugin.variant, request):
            kind: OutcomeKind = "declined" if request.spaces in plugin.variant.spaces else "other memory"
            others.append(Outcome(plugin.name, kind if plugin.variant.op == request.op else "other op", why))
        else:
            candidates.append(plugin)
    for name in demanded if len(demanded) > 1 else ():
        if table.plugin_named(name) is None and name in known_variants():
            others.append(Outcome(name, "set aside", f"not installed: {known_variants()[name].install}"))
    if not demanded or candidates:  # an unknown name is not worth caching
        table.sifted[key] = candidates, others
    return candidates, others


def _seen_by(plugin: Plugin, request: CopyRequest, table: Table) -> CopyRequest:
    """Return the request without the options that the variant does not declare and may ignore."""
    if not request.options or not table.ignorable:
        return request
    declared = {option.name for option in plugin.record.options}
    kept = {n: v for n, v in request.options.items() if n in declared or (request.op, n) not in table.ignorable}
    return request if len(kept) == len(request.options) else attrs.evolve(request, options=kept)


def _against(plugin: Plugin, request: CopyRequest, threads: Mapping[str, str | None]) -> Outcome | None:
    """Return the outcome of a variant whose record does not fit the request's threads or options, else None."""
    if why := not_as_declared(plugin.record, request, threads):
        return Outcome(plugin.name, "declined", why, nearness=1)
    why, lacks = options_missing(plugin.record, request)
    return Outcome(plugin.name, "lacks option", why, lacks, nearness=3) if why else None


def _answer(plugin: Plugin, hook: str, request: CopyRequest, demanded: tuple[str, ...], registry: Registry) -> Any:
    """Return a hook's result, or the outcome of a variant that declines or fails (PluginError if it was demanded)."""
    cause: BaseException | None = None
    # A plugin that was added or removed meanwhile may make the table invalid, which is not this one's fault.
    registry.last_table(request.op)
    try:
        answer = registry.call(plugin, hook, request=request)
    except (WrapperError, PluginWarning, KeyboardInterrupt):  # a warning is raised where somebody asks for that
        raise
    except BaseException as error:
        fault, cause = f"{hook} raised {short_error(error)}{plugin.fault_line(hook, error)}", error
    else:
        if isinstance(answer, Decline):
            return Outcome(plugin.name, "declined", answer.reason, nearness=2 if hook == "tilecopy_predicate" else 3)
        if hook == "tilecopy_predicate" and not isinstance(answer, Accept):
            fault = f"{hook} must return Accept() or Decline(reason), got {short_repr(answer)}"
        elif answer is None:
            fault = f"{hook} returned None"
        else:
            return answer
    reason = f"{plugin.source.owner} is faulty: {fault}; {plugin.source.advice}"
    if registry.strict or plugin.name in demanded:
        raise PluginError(f"variant {plugin.name}: {reason}") from cause
    registry.report_fault(plugin, hook, reason)
    return Outcome(plugin.name, "faulty", reason)


def _outranked_outcome(
    other: Plugin, theirs: Priority, chosen: Plugin, ours: Priority, demanded: tuple[str, ...]
) -> Outcome:
    kind: OutcomeKind = "outranked"
    if demanded:
        why = f"the variant accepts the copy, but {chosen.name} comes first in variant={short_repr(demanded)}"
    elif ours.value == theirs.value:
        kind, why = "tied", f"the variant accepts the copy, but {chosen.name} also has {theirs} and comes first by name"
    else:
        after = f"{ours.value}{f' ({ours.origin})' * bool(ours.origin)}"
        why = f"the variant accepts the copy, but its {theirs} is lower than {chosen.name}'s {after}"
    return Outcome(other.name, kind, why, priority=theirs.value, priority_origin=theirs.origin)
