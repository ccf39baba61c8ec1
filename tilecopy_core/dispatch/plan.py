"""Dispatch: every variant that can be meant is asked once, the best that accepts partitions, and the plan says why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from ..description.checks import not_as_declared, of_another_kind, options_missing
from ..description.request import OPS, Accept, CopyRequest, Decline, Variant, check_request
from ..description.scope import ActiveThreads, Scope
from ..description.target import Target
from ..errors import (
    Kind,
    NoVariantError,
    PluginError,
    RequestError,
    TilecopyError,
    UnknownOptionError,
    checked,
    did_you_mean,
    shown,
)
from ..layout import html_table
from ..memory.buffers import Region
from ..registry.entry_points import PluginWarning, WrapperError, shown_error
from ..registry.installable import known_variants
from ..registry.lazy_names import explained, exporter
from ..registry.process_lock import LOCK
from .notes import MOST_INSTRUCTIONS, MOST_REGISTERS, Note, of_instructions, of_left_out, of_registers, past

if TYPE_CHECKING:
    from ..ptx.builder import PtxBuilder
    from ..registry.hook_calls import Plugin
    from ..registry.registry import Registry, Table

OutcomeKind: TypeAlias = Literal[
    "declined", "lacks option", "faulty", "outranked", "tied", "other op", "other memory", "not asked", "set aside"
]


@attrs.frozen
class Outcome:
    """Why one variant was not chosen.

    Attributes:
        name: of the variant; with its distribution where another plugin has the name.
        kind: ``declined`` by itself or for what its record declares; ``lacks option``: it would need one that was not
            given; ``faulty``: its hook failed; ``outranked`` or ``tied``: it accepts, and a higher priority or an
            earlier name was taken; ``other op`` or ``other memory``: of the copies that it lowers; ``not asked``: another was
            demanded; ``set aside``.
        reason: for a person to read.
        lacks: names of the options that it would need.
        priority: of the variant, where it accepts.
        nearness: how far it came: 0 its record excludes such copies, 1 this one's threads or options; 2 its predicate declines, 3 its
            partition does, or it lacks but an option.
    """

    name: str
    kind: OutcomeKind
    reason: str
    lacks: tuple[str, ...] = ()
    priority: int | None = None
    nearness: int = 0


@attrs.frozen(eq=False, repr=False)
class Plan:
    """The outcome of a dispatch: data alone, which may be copied and pickled.

    Attributes:
        request: the copy, without the options that the variant left out (``notes`` has them).
        variant: name of the chosen variant.
        package: the distribution that it comes from, with its version.
        priority: of the chosen variant.
        partition: its partition; the type is the variant's own.
        completion: how the caller learns that the copy is done, such as ``"mbarrier"`` (:data:`.request.COMPLETIONS`).
        completion_steps: what the caller does for that, in order.
        demanded: whether the variant was asked for by name.
        outcomes: for every other variant, why it was not chosen; those that were asked come first.
        notes: what of it is likely a mistake, by the partition and the fragments, and the options that the variant left out;
            nearly always ().
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

    def __repr__(self) -> str:
        request = self.request
        src, dst = (f"{each.buffer.name}[{'x'.join(map(str, each.extents))}]" for each in (request.src, request.dst))
        return f"Plan({self.variant}: {request.op} {src} -> {dst}, {request.scope}, {request.target})"

    def _repr_html_(self) -> str:
        return html_table(line.split(": ", 1) for line in self.explain().splitlines())

    @property
    def declined(self) -> dict[str, str]:
        """For every other variant, why it was not chosen."""
        return {outcome.name: outcome.reason for outcome in self.outcomes}

    @property
    def summary(self) -> str:
        """The partition in one line, as the variant tells it."""
        return self._asked("summary()", _summary_of, self.partition)

    @property
    def edge_summary(self) -> str:
        """The partition of boxes that overhang, likewise; "" where every box lies inside."""
        edge = getattr(self.partition, "edge", None)
        return "" if edge is None else self._asked("summary()", _summary_of, edge)

    def _asked(self, what: str, ask: Callable[[Any], str], partition: Any) -> str:
        """A text that a partition, the variant's own object, gives; where that raises, a text that says so."""
        try:
            return ask(partition)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return f"({self.package} is faulty: {what} of its partition raised {shown_error(error)})"

    @checked(ptx=Kind("a PtxBuilder", lambda value: callable(getattr(value, "comment", None))))
    def emit(self, ptx: PtxBuilder, registry: Registry | None = None) -> None:
        """Write the copy's instructions.

        Args:
            ptx: where they go.
            registry: where the variant is looked up by its name; by default the process's.

        Raises:
            RequestError: the plan was made without an option that the instructions need.
            PluginError: the variant is not there any more, or its emit hook raised something that is not a
                TilecopyError; a TilecopyError is raised as it is, with the variant's name before its message.
        """
        registry = _registry(registry)
        plugin = registry.table().named(self.variant)
        if plugin is None or plugin.variant is None:
            known = known_variants().get(self.variant)
            absent = known.install if known is not None else "it is not installed"
            raise PluginError(
                f"variant {self.variant} ({self.package}) made this plan and is not to be had here: "
                f"{plugin.reason if plugin is not None else absent}"
            )
        request, who = self.request, f"variant {self.variant} ({plugin.source.owner})"
        for option in plugin.record.options:
            if option.required and request.options.get(option.name) is None:
                raise RequestError(
                    f"{who}: option {option.name} is {option.meaning}; a plan may leave it out, instructions cannot"
                )
        ptx.comment(f"{request.op} {request.dst} <- {request.src} ({self.variant}, {request.scope})")
        try:
            answer = registry.call(plugin, "tilecopy_emit", request=request, partition=self.partition, ptx=ptx)
        except TilecopyError as error:
            if not isinstance(error, WrapperError):
                error.args = (f"{who}: {error}", *error.args[1:])
            raise
        except (PluginWarning, KeyboardInterrupt):  # a warning is raised where somebody asks for that
            raise
        except BaseException as error:
            raise PluginError(f"{who}: tilecopy_emit raised {shown_error(error)}; {plugin.source.advice}") from error
        if answer is not None:
            raise PluginError(
                f"{who}: tilecopy_emit answered {shown(answer)}; it writes instructions and answers nothing "
                f"(tilecopy_partition is the last that may decline); {plugin.source.advice}"
            )

    def cuda(self, name: str, registry: Registry | None = None) -> str:
        """The copy as a CUDA C++ function: ``__device__ __forceinline__ void NAME(...)``, for ``cuda_header``.

        Its arguments are the destination, the source, the symbols in order of first appearance (dots of their names as
        underscores), the options' buffers, tensor maps, and ``tid``, by default ``threadIdx.x``. Global memory is a pointer,
        shared memory a shared address (``tilecopy::shared_address``), a fragment an array of 32-bit words by reference, a
        tensor map the address of what ``NAME_ARRAY_map(..)`` of the same text encodes on the host.

        Args:
            name: of the function.
            registry: where the variant is looked up by its name; by default the process's.

        Raises:
            RequestError: the name is no identifier, or the copy cannot leave its kernel; the message says why.
            PtxError: the variant needs something that is no operand of the copy.
            PluginError: the package that writes CUDA C++ is not installed; the message says which.
        """
        text: str = exporter("cuda_function")(self, name, registry)
        return text

    def explain(self) -> str:
        """At most ten lines: the copy, who does it, its split and cost, what completes it, and why others do not do it.

        What it costs, and which variant would need less than a quarter of the instructions, is found when this is called; the package
        ``tilecopy`` counts it.
        """
        sides = self.partition, *([self.partition.edge] if self.edge_summary else ())
        notes = [note.text for note in self.notes] + [self._asked("narrowed", _narrowed_of, each) for each in sides]
        rows = [
            ("copy", f"{self.request}, {self.request.src.nbytes} bytes"),
            ("from", f"{self.request.src}, {self.request.src.buffer.layout}"),
            ("to", f"{self.request.dst}, {self.request.dst.buffer.layout}"),
            ("chosen", f"{self._chosen()} Package: {self.package}."),
            ("split", f"{self.summary}; at edges: {self.edge_summary}" if self.edge_summary else self.summary),
            *explained(self),
            ("completes", "; ".join([self.completion, *self.completion_steps])),
            ("note", "; ".join(filter(None, notes))),
            ("not", self._not_chosen()),
        ]
        return "\n".join(f"{name}: {' '.join(text.split())}" for name, text in rows if text)

    def _chosen(self) -> str:
        """The variant, and those that could do the copy too."""
        text = f"{self.variant} (priority {self.priority}){', asked for by variant=' * self.demanded}."
        also = [
            f"{outcome.name} (priority {outcome.priority}{', later by name' if outcome.kind == 'tied' else ''})"
            for outcome in self.outcomes
            if outcome.priority is not None
        ]
        text += f" Also possible: {', '.join(also)}." if also else ""
        for outcome in self.outcomes:
            if outcome.kind == "lacks option":
                text += f" With {', '.join(f'{name}=' for name in outcome.lacks)}: {outcome.name}."
        return text

    def _not_chosen(self) -> str:
        """Why others do not do the copy; those that never could by their names alone."""
        told = [o for o in self.outcomes if o.kind in ("declined", "faulty", "set aside")]
        reasons = [f"{o.name} ({o.reason})" for o in sorted(told, key=lambda o: -o.nearness)]
        folded = _folded(self.outcomes, self.request.op)
        return "; ".join(reasons + [f"{why}: {', '.join(o.name for o in far)}" for why, far in folded.items()])


def _summary_of(partition: Any) -> str:
    text = partition.summary() if hasattr(partition, "summary") else str(partition)
    return text if isinstance(text, str) else shown(text)


def _narrowed_of(partition: Any) -> str:
    """Why no wider vector was taken, where the partition says so."""
    return "; ".join(map(str, getattr(partition, "narrowed", ())))


_FAR = ("other op", "other memory", "not asked")
"""Kinds of outcomes that need no reason of their own."""


def _folded(outcomes: Iterable[Outcome], op: str) -> dict[str, list[Outcome]]:
    """The variants that could not do a copy of an op whatever it is like, by why."""
    others = ", ".join(each for each in OPS if each != op)
    why = dict(zip(_FAR, (f"only for {others}", "only for other memory pairs", "not asked"), strict=True))
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.kind in why:
            found.setdefault(why[outcome.kind], []).append(outcome)
    return found


def plan(
    dst: Region,
    src: Region,
    *,
    op: str = "copy",
    scope: Scope,
    target: Target | str,
    variant: str | None = None,
    active: ActiveThreads | None = None,
    registry: Registry | None = None,
    outside: Any = None,
    **options: Any,
) -> Plan:
    """Choose a variant for one copy and partition it; needs no kernel and no GPU.

    Args:
        dst: destination region.
        src: source region.
        op: ``copy`` or ``copy_async``.
        scope: ``thread()``, ``warp()``, ``warpgroup()`` or ``cta(n)``.
        target: such as ``"sm_90a"``.
        variant: a name to demand; by default the best that accepts is taken.
        active: which threads reach the copy; by default all.
        registry: the variants to ask; by default the installed ones.
        outside: lets regions overhang their buffers: ``"zero"`` or a number stands for source elements outside, ``"keep"``
            leaves the destination as it is there; destination elements outside are never written.
        options: what the variant takes beyond that (``mbar=``, ``remote_cta_id=``, ``cta_group=``).

    Raises:
        RequestError, LayoutError, TargetError: the copy has no meaning, or an argument is of another kind.
        NoVariantError: no installed variant lowers it. Where none of them takes an option that was given, the error is a
            RequestError too.
        PluginError: the variant demanded by name is broken.
    """
    if active is None:
        active = ActiveThreads(scope.threads if isinstance(scope, Scope) and scope.kind == "cta" else None)
    request = CopyRequest(
        op=op, dst=dst, src=src, scope=scope, target=target, active=active, options=options, outside=outside
    )
    check_request(request)
    registry = _registry(registry)
    found = dispatch(request, variant, registry)
    tell(found, registry)
    return found


def _registry(given: Registry | None) -> Registry:
    with LOCK:
        from ..registry.registry import Registry, default_registry
    if given is None:
        return default_registry()
    if not isinstance(given, Registry):
        raise RequestError(f"registry is a tilecopy_core.Registry, not {shown(given)}")
    return given


def dispatch(request: CopyRequest, variant: str | None, registry: Registry) -> Plan:
    """As :func:`plan`, for a request that is known to be valid.

    What a record alone can tell (op, spaces, architecture) is found out once for requests of a kind; so a dispatch costs
    what its candidates cost, however many variants are installed.
    """
    if variant is not None and not isinstance(variant, str):
        raise RequestError(f"variant is the name of a variant, or None for the best one, not {shown(variant)}")
    registry.table()  # as the environment is now
    found: Plan = registry.call(_own_hook(), "tilecopy_dispatch", request=request, demanded=variant, registry=registry)
    return found


def tell(plan: Plan, registry: Registry, where: str = "") -> None:
    """Warn of a plan's likely mistakes, of each kind once: at ``where`` (a ``file:line``), else at the first caller outside."""
    for note in plan.notes:
        if note.kind != "option":
            registry.advise(note.kind, f"{plan.request}: {note.text}", where)


@cache
def _own_hook() -> Plugin:
    """The core's own hook, for wrappers to stand around."""
    from ..registry.entry_points import CORE, Source
    from ..registry.hook_calls import Plugin, hook_manager, hooks_of
    from ..registry.hookspecs import hookimpl
    from ..registry.version import __version__

    own = SimpleNamespace(tilecopy_dispatch=hookimpl(tilecopy_dispatch))
    return Plugin(Source("dispatch", CORE, __version__, lambda: own), "ready", hooks=hooks_of(own, hook_manager()))


def tilecopy_dispatch(request: CopyRequest, demanded: str | None, registry: Registry) -> Plan:
    """The election, as the hook of its name says."""
    table = registry.table()
    candidates, others = _sifted(table, request, demanded)
    named = table.named(demanded) if demanded is not None else None
    if named is not None and named.variant is None and named.status != "disabled":
        reason = named.reason or "it wraps the hooks of others and lowers nothing"
        raise PluginError(f"variant {shown(demanded)} was asked for by name and cannot be used: {reason}")
    accepted: list[tuple[int, Plugin]] = []
    outcomes: list[Outcome] = []
    looked: dict[str, str | None] = {}
    for plugin in candidates:
        seen = _seen_by(plugin, request, table)
        outcome = _against(plugin, seen, looked) or _answer(plugin, "tilecopy_predicate", seen, demanded, registry, 2)
        if isinstance(outcome, Outcome):
            outcomes.append(outcome)
        else:
            accepted.append((plugin.record.priority if outcome.priority is None else outcome.priority, plugin))
    accepted.sort(key=lambda each: (-each[0], each[1].name))
    for place, (priority, plugin) in enumerate(accepted):
        seen = _seen_by(plugin, request, table)
        partition = _answer(plugin, "tilecopy_partition", seen, demanded, registry, 3)
        if isinstance(partition, Outcome):
            outcomes.append(partition)
            continue
        left_out = tuple(of_left_out(name, plugin.name) for name in request.options if name not in seen.options)
        outcomes += [_outranked(other, theirs, plugin, priority) for theirs, other in accepted[place + 1 :]]
        return Plan(
            request=seen,
            variant=plugin.name,
            package=plugin.source.owner,
            priority=priority,
            partition=partition,
            completion=plugin.record.completion,
            completion_steps=plugin.record.completion_steps,
            demanded=demanded is not None,
            outcomes=(*outcomes, *others),
            notes=left_out + _notes(request, plugin, partition, candidates, outcomes),
        )
    raise _no_variant(request, demanded, (*outcomes, *others), table)


# ---------------------------------------------------------------------------------------------- candidates


def _sifted(table: Table, request: CopyRequest, demanded: str | None) -> tuple[list[Plugin], list[Outcome]]:
    """The variants whose records fit a request's op, spaces and target, and why the others' do not."""
    key = (request.op, request.spaces, request.target, demanded)
    if key in table.sifted:
        found: tuple[list[Plugin], list[Outcome]] = table.sifted[key]
        return found
    candidates: list[Plugin] = []
    others: list[Outcome] = []
    taken = {plugin.name for plugin in table.plugins if plugin.variant is not None}
    for plugin in table.plugins:
        if plugin.status == "wrapper":
            continue
        if plugin.variant is None:
            name = f"{plugin.name} ({plugin.source.owner})" if plugin.name in taken else plugin.name
            others.append(Outcome(name, "set aside", plugin.reason))
        elif demanded not in (None, plugin.name) and plugin.variant.op == request.op:
            others.append(Outcome(plugin.name, "not asked", f"not asked: variant={shown(demanded)} was demanded"))
        elif why := of_another_kind(plugin.variant, request):
            others.append(Outcome(plugin.name, _kind_of(plugin.variant, request), why))
        else:
            candidates.append(plugin)
    if demanded is None or candidates:  # a name that nobody has is not worth keeping
        table.sifted[key] = candidates, others
    return candidates, others


def _kind_of(record: Variant, request: CopyRequest) -> OutcomeKind:
    """What excludes a request from those that a variant lowers."""
    if record.op != request.op:
        return "other op"
    return "declined" if request.spaces in record.spaces else "other memory"


def _seen_by(plugin: Plugin, request: CopyRequest, table: Table) -> CopyRequest:
    """A request without the options that a variant does not declare and may leave out."""
    if not request.options or not table.ignorable:
        return request
    declared = {option.name for option in plugin.record.options}
    kept = {n: v for n, v in request.options.items() if n in declared or (request.op, n) not in table.ignorable}
    return request if len(kept) == len(request.options) else attrs.evolve(request, options=kept)


def _against(plugin: Plugin, request: CopyRequest, looked: dict[str, str | None]) -> Outcome | None:
    """Why this request's threads or options do not fit a variant's record, or None."""
    if why := not_as_declared(plugin.record, request, looked):
        return Outcome(plugin.name, "declined", why, nearness=1)
    why, lacks = options_missing(plugin.record, request)
    return Outcome(plugin.name, "lacks option", why, lacks, nearness=3) if why else None


def _answer(
    plugin: Plugin, hook: str, request: CopyRequest, demanded: str | None, registry: Registry, nearness: int
) -> Any:
    """What a hook answers: an Accept, a partition, or the outcome of a variant that declines or fails.

    A fault declines this one request, unless the variant was demanded by name.
    """
    cause: BaseException | None = None
    try:
        answer = registry.call(plugin, hook, request=request)
    except (WrapperError, PluginWarning, KeyboardInterrupt):  # a warning is raised where somebody asks for that
        raise
    except BaseException as error:
        fault, cause = f"{hook} raised {shown_error(error)}", error
    else:
        if isinstance(answer, Decline):
            return Outcome(plugin.name, "declined", answer.reason, nearness=nearness)
        if hook == "tilecopy_predicate" and not isinstance(answer, Accept):
            fault = f"{hook} answered {shown(answer)}, not Accept() or Decline(reason)"
        elif answer is None:
            fault = f"{hook} returned None"
        else:
            return answer
    reason = f"{plugin.source.owner} is faulty: {fault}; {plugin.source.advice}"
    if registry.strict or plugin.name == demanded:
        raise PluginError(f"variant {plugin.name}: {reason}") from cause
    registry.report_fault(plugin, hook, reason)
    return Outcome(plugin.name, "faulty", reason)


def _outranked(other: Plugin, theirs: int, chosen: Plugin, ours: int) -> Outcome:
    if ours == theirs:
        why = f"accepts; it has the priority {theirs} of {chosen.name} too, and the first by name is taken"
        return Outcome(other.name, "tied", why, priority=theirs)
    why = f"accepts; priority {theirs} comes after {chosen.name}'s {ours}"
    return Outcome(other.name, "outranked", why, priority=theirs)


def _notes(
    request: CopyRequest, chosen: Plugin, partition: Any, candidates: list[Plugin], outcomes: list[Outcome]
) -> tuple[Note, ...]:
    """What is likely a mistake; of variants that were not chosen, what they have answered already is all that counts."""
    notes: list[Note] = []
    if request.scope.kind == "thread" and (count := past(MOST_INSTRUCTIONS, partition, "instructions_per_thread")):
        would = {outcome.name: outcome for outcome in outcomes if outcome.kind in ("outranked", "tied", "lacks option")}
        best = next((p for p in candidates if p.name in would and p.record.threads == "one"), None)
        if best is not None:
            notes.append(of_instructions(count, chosen.name, best.record, would[best.name].lacks))
    if "local" in request.spaces and (count := past(MOST_REGISTERS, partition, "registers_per_thread")):
        notes.append(of_registers(count, request))
    return tuple(notes)


# ---------------------------------------------------------------------------------------------------- errors


def _no_variant(
    request: CopyRequest, demanded: str | None, outcomes: tuple[Outcome, ...], table: Table
) -> NoVariantError:
    declined = {outcome.name: outcome.reason for outcome in outcomes}
    who = "no installed variant lowers" if demanded is None else f"variant {shown(demanded)} does not lower"
    asked = f"{who} this copy: {request}"
    unknown = _unknown_option(request, demanded, table)
    first_party = known_variants()
    near = [outcome for outcome in outcomes if outcome.kind not in _FAR or outcome.name == demanded]
    near.sort(key=lambda outcome: (outcome.name != demanded, -outcome.nearness))
    lines = [f"{outcome.name}: {outcome.reason}" for outcome in near]
    if unknown:
        lines.insert(0, unknown)
    elif demanded is not None and demanded not in declined and demanded not in first_party:
        names = sorted({*declined, *first_party})
        meant = did_you_mean(demanded, names)
        known = f"{' There' if meant else '; there'} are {', '.join(names)}"
        lines, outcomes = [f"no variant is called {shown(demanded)}{meant}{known}"], ()
    for name, known_variant in first_party.items():
        fits = known_variant.op == request.op and request.spaces in known_variant.spaces
        fits = fits and known_variant.edges >= request.overhangs
        if name not in declined and (name == demanded or (demanded is None and fits)):
            lines.append(f"{name}: not installed; it takes such copies: {known_variant.install}")
    lines.insert(1 if lines else 0, asked)
    for why, (first, *more) in _folded(outcomes, request.op).items() if demanded is None else ():
        together = ", ".join(outcome.name for outcome in (first, *more))
        lines.append(f"{why}: {together}" if more else f"{first.name}: {first.reason}")
    kind = UnknownOptionError if unknown else NoVariantError
    return kind("\n  ".join(lines), declined)


def _unknown_option(request: CopyRequest, demanded: str | None, table: Table) -> str:
    """The sentence about an option that no variant of the op takes, installed or first-party, or ""."""
    op, named = request.op, table.named(demanded) if demanded is not None else None
    if demanded is not None and (named is None or named.variant is None):
        return ""
    takers: dict[str, set[str]] = {}
    installed = [(p.name, p.variant.op, [o.name for o in p.variant.options]) for p in table.plugins if p.variant]
    for name, lowers, options in (*installed, *((n, known.op, known.options) for n, known in known_variants().items())):
        for option in options if lowers == op else ():
            takers.setdefault(option, set()).add(name)
    for given in request.options:
        if given not in takers:
            taken = ", ".join(f"{name} ({', '.join(sorted(who))})" for name, who in sorted(takers.items())) or "none"
            near = did_you_mean(given, takers)
            return f"option {given!r} is not known to any variant of {op}; they take {taken}{near}"
    return ""
