"""Plugins: found by entry point, isolated when they fail, asked in order; dispatch elects one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest

import tilecopy_core as tc
from tilecopy_core.hookspecs import HOOKS
from tilecopy_core.registry import PluginWarning, Source


def source(name: str, plugin: Any, package: str | None = None, version: str = "1.0") -> Source:
    """A source whose plugin is at hand (or an exception to raise)."""

    def load() -> Any:
        if isinstance(plugin, Exception):
            raise plugin
        return plugin

    return Source(name, package or f"acme-{name}", version, load)


def variant(
    name: str, *, priority: int = 10, verdict: Any = None, partition: Any = "split", emit: Any = None, op: str = "copy"
) -> Any:
    """A variant plugin that answers as told and remembers its calls."""
    calls: list[str] = []

    def answer(what: str, value: Any, request: Any) -> Any:
        calls.append(what)
        if isinstance(value, Exception):
            raise value
        return value

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

    record = tc.Variant(name, op, priority, "a test", (("global", "shared"),))
    return SimpleNamespace(
        variant=record,
        tilecopy_predicate=tilecopy_predicate,
        tilecopy_partition=tilecopy_partition,
        tilecopy_emit=tilecopy_emit,
        calls=calls,
    )


def registry(*sources: Source, **environ: str) -> tc.Registry:
    return tc.Registry(sources, environ)


def plan(found: tc.Registry, **more: Any) -> tc.Plan:
    a = tc.Buffer((32, 32), "float32", space="global", name="A")
    s = tc.Buffer((32, 32), "float32", space="shared", name="s")
    return tc.plan(s[:, :], a[:, :], scope=tc.warp(), target="sm_90a", registry=found, **more)


def test_priority_then_name_decide_and_partition_and_emit_go_to_the_winner_alone() -> None:
    plugins = {
        "b": variant("b"),
        "a": variant("a"),
        "z": variant("z", priority=20),
        "no": variant("no", priority=99, verdict=tc.Decline("not mine")),
    }
    found = registry(*(source(name, plugin) for name, plugin in plugins.items()))
    chosen = plan(found)
    assert chosen.variant == "z"
    assert list(chosen.declined) == ["no", "a", "b"]
    assert chosen.declined["no"] == "not mine" and "accepts; priority 10" in chosen.declined["a"]
    assert plugins["z"].calls == ["predicate", "partition"]
    assert all(plugins[name].calls == ["predicate"] for name in ("a", "b", "no"))
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
    k.warp.copy(s[:, :], a[:, :])
    assert "emitted by z" in k.build(target="sm_90a", grid=1, registry=found).ptx
    assert plan(registry(source("b", variant("b")), source("a", variant("a")))).variant == "a"


def test_a_variant_may_still_decline_in_partition() -> None:
    found = registry(
        source("first", variant("first", priority=20, partition=tc.Decline("too odd"))), source("next", variant("next"))
    )
    chosen = plan(found)
    assert chosen.variant == "next" and chosen.declined["first"] == "too odd"


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (ImportError("no module named acme_rt"), "acme-bad 1.0 failed to load: ImportError: no module named acme_rt"),
        (SimpleNamespace(), "no attribute 'variant'"),
        (SimpleNamespace(variant="bad"), "not a tilecopy_core.Variant"),
        (variant("other"), "its record is named 'other', its entry point 'bad'"),
        (variant("bad", op="move"), "op 'move'"),
        (
            SimpleNamespace(variant=variant("bad").variant, tilecopy_emit=variant("bad").tilecopy_emit),
            "does not implement tilecopy_partition, tilecopy_predicate",
        ),
    ],
)
def test_a_broken_plugin_is_set_aside_and_said(plugin: Any, reason: str) -> None:
    sources = (source("bad", plugin), source("good", variant("good")))
    found = registry(*sources)
    with pytest.warns(PluginWarning, match="bad is set aside") as warned:
        chosen = plan(found)
    assert len(warned) == 1 and "\n" not in str(warned[0].message)
    assert chosen.variant == "good" and reason in chosen.declined["bad"]
    plan(found)  # said once
    with pytest.raises(tc.PluginError, match="bad"):
        plan(found, variant="bad")
    with pytest.raises(tc.PluginError, match="bad"):
        plan(registry(*sources, TILECOPY_STRICT="1"))


def test_a_misspelt_hook_is_not_silent() -> None:
    plugin = variant("odd")

    @tc.hookimpl
    def tilecopy_predicat(request: Any) -> Any:
        return tc.Accept()

    plugin.tilecopy_predicat = tilecopy_predicat
    with pytest.warns(PluginWarning, match="tilecopy_predicat"):
        assert plan(registry(source("odd", plugin), source("good", variant("good")))).variant == "good"


@pytest.mark.parametrize("hook", ["predicate", "partition"])
def test_an_exception_in_a_hook_declines_that_request_alone(hook: str) -> None:
    answers = (
        {"verdict": ZeroDivisionError("oops")} if hook == "predicate" else {"partition": ZeroDivisionError("oops")}
    )
    sources = (source("bad", variant("bad", priority=20, **answers)), source("good", variant("good")))
    found = registry(*sources)
    with pytest.warns(PluginWarning, match="variant bad declines a copy that it should not: acme-bad 1.0"):
        chosen = plan(found)
    assert chosen.variant == "good"
    assert chosen.declined["bad"] == (
        f"acme-bad 1.0 is faulty: tilecopy_{hook} raised ZeroDivisionError: oops; "
        "TILECOPY_DISABLE=bad leaves it out, pip uninstall acme-bad removes it"
    )
    assert plan(found).variant == "good"  # said once
    with pytest.raises(tc.PluginError, match="oops"):
        plan(registry(*sources), variant="bad")
    with pytest.raises(tc.PluginError, match="oops"):
        plan(registry(*sources, TILECOPY_STRICT="1"))


def test_an_exception_in_emit_names_the_variant() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
    k.warp.copy(s[:, :], a[:, :])
    with pytest.raises(tc.PluginError, match=r"variant bad \(acme-bad 1.0\): tilecopy_emit raised KeyError"):
        k.build(target="sm_90a", grid=1, registry=registry(source("bad", variant("bad", emit=KeyError("x")))))


def test_an_answer_that_is_no_verdict_is_a_fault() -> None:
    for verdict, text in ((3, "3"), (True, "True"), ("x" * 999, "xxx...,")):
        sources = (source("bad", variant("bad", verdict=verdict)), source("good", variant("good")))
        with pytest.warns(PluginWarning, match="acme-bad 1.0 is faulty"):
            chosen = plan(registry(*sources))
        assert f"answered {text}" in chosen.declined["bad"].replace("'" + "x" * 196, "xxx")
        with pytest.raises(tc.PluginError, match="answered"):
            plan(registry(*sources), variant="bad")


def test_a_name_registered_twice_names_both_distributions() -> None:
    twice = (
        source("twin", variant("twin"), "acme-one"),
        source("twin", variant("twin"), "acme-two"),
        source("good", variant("good")),
    )
    with pytest.warns(PluginWarning, match="acme-one 1.0 and by acme-two 1.0"):
        chosen = plan(registry(*twice))
    assert chosen.variant == "good"
    with pytest.warns(PluginWarning), pytest.raises(tc.PluginError, match="acme-one 1.0 and by acme-two 1.0"):
        plan(registry(*twice), variant="twin")
    with pytest.raises(tc.PluginError, match="acme-one 1.0 and by acme-two 1.0"):
        plan(registry(*twice, TILECOPY_STRICT="1"))


def test_disabled_variants_are_not_imported() -> None:
    bomb = source("bomb", AssertionError("imported"))
    for environ in ({"TILECOPY_DISABLE": "bomb"}, {"TILECOPY_ONLY": "good"}):
        chosen = plan(registry(bomb, source("good", variant("good")), **environ))
        assert chosen.variant == "good" and "disabled by TILECOPY_" in chosen.declined["bomb"]
    with pytest.raises(tc.PluginError, match="'goood'.*did you mean good"):
        plan(registry(source("good", variant("good")), TILECOPY_DISABLE="goood"))


def test_another_hook_api_is_not_loaded_and_says_so() -> None:
    old = Source(
        "old",
        "acme-old",
        "3.0",
        lambda: pytest.fail("loaded"),
        "made for the hook API tilecopy.variants.v0; this core has v1",
    )
    chosen = plan(registry(old, source("good", variant("good"))))
    assert "made for the hook API" in chosen.declined["old"]


def test_equal_plugin_objects_are_told_apart() -> None:
    class Equal(SimpleNamespace):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    plugins = [source(name, Equal(**vars(variant(name)))) for name in ("a", "b")]
    assert list(plan(registry(*plugins)).declined) == ["b"]


def test_a_wrapper_sees_every_call() -> None:
    seen: list[str] = []

    @tc.hookimpl(wrapper=True)
    def tilecopy_predicate(request: Any) -> Any:
        seen.append("predicate")
        return (yield)

    @tc.hookimpl(wrapper=True)
    def tilecopy_partition(request: Any) -> Any:
        seen.append("partition")
        return (yield)

    found = registry(source("a", variant("a")), source("b", variant("b")))
    found.register(
        SimpleNamespace(tilecopy_predicate=tilecopy_predicate, tilecopy_partition=tilecopy_partition), name="trace"
    )
    plan(found)
    assert seen == ["predicate", "predicate", "partition"]


def test_no_variant_says_why_for_each_and_what_to_install() -> None:
    with pytest.raises(tc.NoVariantError) as caught:
        plan(registry(source("shy", variant("shy", verdict=tc.Decline("not today")))))
    assert caught.value.declined == {"shy": "not today"}
    assert "shy: not today" in str(caught.value)
    assert "gmem_smem: not installed; it takes such copies: pip install tilecopy-gmem-smem" in str(caught.value)
    with pytest.raises(tc.NoVariantError, match="pip install tilecopy-ldgsts"):
        plan(registry(), variant="ldgsts")
    with pytest.raises(tc.NoVariantError, match="'nobody'"):
        plan(registry(), variant="nobody")


def test_every_hook_is_a_specification() -> None:
    from tilecopy_core import hookspecs

    manager = pluggy.PluginManager("tilecopy")
    manager.add_hookspecs(hookspecs)
    assert {name for name in vars(hookspecs) if name.startswith("tilecopy_")} == set(HOOKS)
    assert all(hasattr(manager.hook, name) for name in HOOKS)
    assert all(getattr(hookspecs, name).__doc__ for name in HOOKS)


def test_importing_the_core_loads_no_plugin_and_no_cuda() -> None:
    code = """
        import sys, tilecopy_core
        tilecopy_core.KernelBuilder, tilecopy_core.Registry
        bad = [m for m in sys.modules if m.startswith(("tilecopy_gmem", "tilecopy_reg", "tilecopy_emulator", "cuda", "click", "rich"))]
        assert not bad, bad
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], check=True, cwd=Path("/"))
