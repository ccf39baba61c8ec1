"""Variants that answer as a test says and remember their calls, and registries, plans and kernels of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tilecopy as tc

from tilecopy_core.description.request import Option
from tilecopy_core.registry import Source


def source(name: str, plugin: Any, package: str | None = None, version: str = "1.0") -> Source:
    """A source whose plugin is at hand (or an exception to raise)."""

    def load() -> Any:
        if isinstance(plugin, BaseException):
            raise plugin
        return plugin

    return Source(name, package or f"acme-{name}", version, load)


def variant(
    name: str,
    *,
    priority: int = 10,
    verdict: Any = None,
    partition: Any = "split",
    emit: Any = None,
    op: str = "copy",
    **record: Any,
) -> Any:
    """A variant plugin that answers as told and remembers its calls."""
    calls: list[str] = []

    def answer(what: str, value: Any, request: Any) -> Any:
        calls.append(what)
        if isinstance(value, BaseException):
            raise value
        return value(request) if callable(value) else value

    @tc.hookimpl
    def tilecopy_predicate(request: Any) -> Any:
        return answer("predicate", tc.Accept() if verdict is None else verdict, request)

    @tc.hookimpl
    def tilecopy_partition(request: Any) -> Any:
        return answer("partition", partition, request)

    @tc.hookimpl
    def tilecopy_emit(request: Any, partition: Any, ptx: Any) -> None:
        answer("emit", emit, request)
        ptx.comment(f"emitted by {name}")
        ptx.instr("bar.warp.sync", "0xffffffff")

    fields = {"spaces": (("global", "shared"),)} | record
    return SimpleNamespace(
        variant=tc.Variant(name, op, priority, "a test", **fields),
        tilecopy_predicate=tilecopy_predicate,
        tilecopy_partition=tilecopy_partition,
        tilecopy_emit=tilecopy_emit,
        calls=calls,
    )


def registry(*sources: Source, **environ: str) -> tc.Registry:
    return tc.Registry(sources, environ)


A = tc.Buffer((32, 32), "float32", space="global", name="A")
TILE = tc.Buffer((32, 32), "float32", space="shared", name="s")
BAR = Option("bar", (int, tc.Expr), "the number of a barrier", required="in a kernel")
ODD: tuple[Any, ...] = (None, 5, -1, 1.5, float("nan"), True, "", "x", b"x", [], {}, object, 2**70, len)
"""Values of the wrong type, or out of range, for most arguments."""


def plan(found: tc.Registry, **more: Any) -> tc.Plan:
    given = {"dst": TILE[:, :], "src": A[:, :], "scope": tc.warp(), "target": "sm_90a"} | more
    return tc.plan(given.pop("dst"), given.pop("src"), registry=found, **given)


def build(found: tc.Registry) -> tc.BuiltKernel:
    """Return a kernel with one copy of the tile, lowered by the variants of a registry."""
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
    k.warp.copy(s[:, :], a[:, :])
    return k.build(target="sm_90a", grid=1, registry=found)


class LibraryError(BaseException):
    """An error of a library that a plugin uses, derived from BaseException alone."""
