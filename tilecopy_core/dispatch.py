"""Dispatch: every variant of an op is asked once, the best that accepts partitions, and the plan says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from .errors import NoVariantError, PluginError, TilecopyError
from .known import KNOWN_VARIANTS
from .memory import Region
from .request import Accept, CopyRequest, Decline, check_request
from .scope import ActiveThreads, Scope
from .target import Target

if TYPE_CHECKING:
    from .ptx import PtxBuilder
    from .registry import Plugin, Registry


@attrs.frozen(eq=False)
class Plan:
    """The outcome of a dispatch.

    Attributes:
        request: the copy.
        variant: name of the chosen variant.
        package: the distribution that it comes from, with its version.
        priority: of the chosen variant.
        partition: its partition; the type is the variant's own.
        declined: for every other variant, why it was not chosen.
    """

    request: CopyRequest
    variant: str
    package: str
    priority: int
    partition: Any
    declined: Mapping[str, str]
    _plugin: Plugin
    _registry: Registry

    def emit(self, ptx: PtxBuilder) -> None:
        """Write the copy's instructions.

        Raises:
            PluginError: the variant's emit hook raised something that is not a TilecopyError.
        """
        request = self.request
        ptx.comment(f"{request.op} {request.dst} <- {request.src} ({self.variant}, {request.scope})")
        call_hook(self._registry, self._plugin, "tilecopy_emit", request=request, partition=self.partition, ptx=ptx)

    def explain(self) -> str:
        """A readable table: the copy, the variant and why, the split, and why each other variant was not chosen."""
        summary = self.partition.summary() if hasattr(self.partition, "summary") else str(self.partition)
        others = [name for name, why in self.declined.items() if why.startswith("not asked")]
        why = "forced by variant=" if others else f"highest priority ({self.priority}) of those that accept"
        rows = [
            ("copy", str(self.request)),
            ("from", f"{self.request.src}  {self.request.src.buffer.layout}"),
            ("to", f"{self.request.dst}  {self.request.dst.buffer.layout}"),
            ("bytes", str(self.request.src.nbytes)),
            ("variant", f"{self.variant} ({self.package})"),
            ("why", why),
            ("split", summary),
        ]
        rows += [("wider", note) for note in getattr(self.partition, "narrowed", ())]
        rows += [(f"not {name}", reason) for name, reason in self.declined.items()]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


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
        options: what the variant takes beyond that (``mbar=``, ``remote_cta_id=``, ``cta_group=``).

    Raises:
        RequestError, LayoutError, TargetError: the copy has no meaning.
        NoVariantError: no installed variant lowers it.
        PluginError: the variant demanded by name is broken.
    """
    if active is None:
        active = ActiveThreads(scope.threads if isinstance(scope, Scope) and scope.kind == "cta" else None)
    request = CopyRequest(op=op, dst=dst, src=src, scope=scope, target=target, active=active, options=options)
    check_request(request)
    if registry is None:
        from .registry import default_registry

        registry = default_registry()
    return dispatch(request, variant, registry)


def dispatch(request: CopyRequest, variant: str | None, registry: Registry) -> Plan:
    """As :func:`plan`, for a request that is known to be valid."""
    declined: dict[str, str] = {}
    accepted: list[Plugin] = []
    for plugin in registry.plugins():
        if plugin.status == "wrapper":
            continue
        reason = _why_not(plugin, request, variant, registry)
        if reason is None:
            accepted.append(plugin)
        else:
            declined[plugin.name] = reason
    chosen: Plan | None = None
    for plugin in accepted:
        assert plugin.variant is not None
        if chosen is not None:
            declined[plugin.name] = (
                f"accepts; priority {plugin.variant.priority} comes after {chosen.variant}'s {chosen.priority}"
            )
            continue
        partition = _guarded(registry, plugin, "tilecopy_partition", variant, request=request)
        if isinstance(partition, Decline):
            declined[plugin.name] = partition.reason
        elif partition is None:
            declined[plugin.name] = f"{plugin.source.owner} is faulty: tilecopy_partition returned None"
        else:
            chosen = Plan(
                request,
                plugin.name,
                plugin.source.owner,
                plugin.variant.priority,
                partition,
                declined,
                plugin,
                registry,
            )
    if chosen is None:
        raise NoVariantError(_no_variant_message(request, variant, declined), declined)
    return chosen


def _why_not(plugin: Plugin, request: CopyRequest, demanded: str | None, registry: Registry) -> str | None:
    """Why a plugin is not a candidate, asking its predicate when it could be; None when it accepts."""
    if plugin.variant is None:
        if plugin.name == demanded and plugin.status != "disabled":
            raise PluginError(f"variant {demanded!r} was asked for by name and cannot be used: {plugin.reason}")
        return plugin.reason
    if plugin.variant.op != request.op:
        return f"it lowers {plugin.variant.op}, this is a {request.op}"
    if demanded is not None and plugin.name != demanded:
        return f"not asked: variant={demanded!r} was demanded"
    verdict = _guarded(registry, plugin, "tilecopy_predicate", demanded, request=request)
    if isinstance(verdict, Accept):
        return None
    if isinstance(verdict, Decline):
        return verdict.reason
    return f"{plugin.source.owner} is faulty: tilecopy_predicate answered {verdict!r}, not Accept() or Decline(reason)"


def _guarded(registry: Registry, plugin: Plugin, hook: str, demanded: str | None, **arguments: Any) -> Any:
    """A hook's answer; an exception in it declines this one request, unless the variant was demanded by name."""
    try:
        return registry.call(plugin, hook, **arguments)
    except Exception as error:
        fault = f"{plugin.source.owner} is faulty: {hook} raised {type(error).__name__}: {error}"
        if registry.strict or plugin.name == demanded:
            raise PluginError(f"variant {plugin.name}: {fault}") from error
        return Decline(fault)


def call_hook(registry: Registry, plugin: Plugin, hook: str, **arguments: Any) -> Any:
    """A hook's answer; what it raises becomes a PluginError, unless it is one of ours."""
    try:
        return registry.call(plugin, hook, **arguments)
    except TilecopyError:
        raise
    except Exception as error:
        raise PluginError(
            f"variant {plugin.name} ({plugin.source.owner}): {hook} raised {type(error).__name__}: {error}"
        ) from error


def _no_variant_message(request: CopyRequest, demanded: str | None, declined: Mapping[str, str]) -> str:
    lines = [f"no installed variant lowers this copy: {request}"]
    if demanded is not None:
        lines[0] = f"variant {demanded!r} does not lower this copy: {request}"
    lines += [f"  {name}: {reason}" for name, reason in declined.items() if not reason.startswith("not asked")]
    for name, known in KNOWN_VARIANTS.items():
        fits = known.op == request.op and request.spaces in known.spaces
        if name not in declined and (name == demanded or (demanded is None and fits)):
            lines.append(f"  {name}: not installed; it takes such copies: pip install {known.package}")
    if demanded is not None and demanded not in declined and demanded not in KNOWN_VARIANTS:
        lines.append(
            f"  {demanded}: not installed, and not one of the first-party variants {', '.join(KNOWN_VARIANTS)}"
        )
    return "\n".join(lines)
