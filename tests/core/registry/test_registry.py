"""Plugins: found by entry point, isolated when they fail, asked in order; dispatch elects one."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import pickle
import re
import subprocess
import sys
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pluggy
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy.kernel.statements import CopyStatement
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.scripted_variants import TILE, A, plan, registry, source, variant

from tilecopy_core.description.request import COMPLETIONS, Option
from tilecopy_core.plugin import short_repr
from tilecopy_core.registry import PluginWarning, SlowPluginWarning, Source
from tilecopy_core.registry.entry_points import core_excluded
from tilecopy_core.registry.hookspecs import HOOKS


def build(found: tc.Registry) -> tc.BuiltKernel:
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
    k.warp.copy(s[:, :], a[:, :])
    return k.build(target="sm_90a", grid=1, registry=found)


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
    assert chosen.declined["no"] == "not mine" and "accepts, but its priority 10" in chosen.declined["a"]
    assert plugins["z"].calls == ["predicate", "partition"]
    assert all(plugins[name].calls == ["predicate"] for name in ("a", "b", "no"))
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
    k.warp.copy(s[:, :], a[:, :])
    assert "emitted by z" in k.build(target="sm_90a", grid=1, registry=found).ptx
    assert plan(registry(source("b", variant("b")), source("a", variant("a")))).variant == "a"


def test_requests_of_one_registry_are_told_apart() -> None:
    """What is found out of the records is kept, for the target and the variant that were asked for."""
    found = registry(source("new", variant("new", priority=20, features=("sm_90",))), source("old", variant("old")))
    for _ in range(2):
        assert plan(found).variant == "new"
        assert plan(found, target="sm_80").variant == "old"
        assert plan(found, variant="old").variant == "old"


def reached(value: Any, path: str, seen: dict[int, Any]) -> dict[str, Any]:
    """Everything that public attributes, items and keys lead to, by the way there."""
    if isinstance(value, (int, str, bytes, type(None), type)) or callable(value) or id(value) in seen:
        return {}
    seen[id(value)] = value
    parts: dict[str, Any] = {}
    if isinstance(value, (tuple, list, frozenset, set)):
        parts = {f"{path}[{number}]": item for number, item in enumerate(value)}
    elif isinstance(value, Mapping):
        parts = {f"{path}[{key!r}]": item for key, item in value.items()}
    for name in dir(value):
        with contextlib.suppress(Exception):
            if not name.startswith("__") and path.count(".") < 7:
                parts[f"{path}.{name}"] = getattr(value, name)
    found = {path: value}
    for where, part in parts.items():
        found |= reached(part, where, seen)
    return found


def test_a_hook_cannot_change_the_request() -> None:
    k = tc.KernelBuilder("k", threads=128)
    n, m = k.size("n", multiple_of=64), k.scalar("m", upper=63)
    a, b = k.param("A", (n, 64), "float16"), k.param("B", (256, 64), "float16")
    layout = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[64, 64]))
    tile, bar = k.shared((64, 64), "float16", layout=layout), k.mbarrier("bar")
    row = k.block_id("x") * 64
    with k.if_(m > 2):
        k.cta.copy(tile[:, :], a[row : row + 64, :], outside="zero")
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(tile[:, :], b[row // 2 : row // 2 + 64, :], mbar=bar[0], outside="zero")
    for made in k.build(target="sm_90a", grid=1).plans:
        request = made.request
        text = repr(request)
        for where, value in reached(request, "request", {}).items():
            held = not where.rpartition(".")[2].startswith(("offset", "T"))  # these are made anew for each caller
            assert not (held and isinstance(value, (list, dict, set, bytearray))), where
            for name in [name for name in dir(value) if not name.startswith("__")]:
                try:
                    setattr(value, name, 0)
                except (AttributeError, TypeError):
                    continue
                raise AssertionError(f"{where}.{name} can be assigned")
        assert repr(request) == text


def test_a_plugin_that_is_removed_during_a_dispatch_is_the_one_that_is_named() -> None:
    """TILECOPY_ONLY then names what is not there, which is not the fault of the variant that is asked next."""
    found = registry(
        source(
            "first", variant("first", priority=30, verdict=lambda _: found.unregister("gone") or tc.Decline("not mine"))
        ),
        source("innocent", variant("innocent", priority=20)),
        source("gone", variant("gone", priority=10)),
        TILECOPY_ONLY="first,innocent,gone",
    )
    with pytest.raises(tc.PluginError, match=mentions("TILECOPY_ONLY", "gone")) as caught:
        plan(found)
    assert "innocent" not in str(caught.value).replace("first,innocent,gone", "")


def test_a_dispatch_goes_on_without_a_plugin_that_is_removed() -> None:
    found = registry(
        source(
            "first",
            variant("first", priority=30, verdict=lambda _: found.unregister("first") or tc.Decline("not mine")),
        ),
        source("innocent", variant("innocent", priority=20)),
    )
    assert plan(found).variant == "innocent" and plan(found).variant == "innocent"


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
        (SimpleNamespace(), "must have an attribute 'variant'"),
        (SimpleNamespace(variant="bad"), "must be a tilecopy_core.Variant"),
        (variant("other"), "its record must have the name of its entry point, 'bad', got 'other'"),
        (variant("bad", op="move"), "op 'move'"),
        (
            SimpleNamespace(variant=variant("bad").variant, tilecopy_emit=variant("bad").tilecopy_emit),
            "must implement tilecopy_partition, tilecopy_predicate",
        ),
    ],
)
def test_a_broken_plugin_is_set_aside_and_said(plugin: Any, reason: str) -> None:
    sources = (source("bad", plugin), source("good", variant("good")))
    found = registry(*sources)
    with pytest.warns(PluginWarning, match=mentions("bad")) as warned:
        chosen = plan(found)
    assert len(warned) == 1 and "\n" not in str(warned[0].message)
    assert chosen.variant == "good" and reason in chosen.declined["bad"]
    plan(found)  # said once
    with pytest.raises(tc.PluginError, match="bad"):
        plan(found, variant="bad")
    with pytest.raises(tc.PluginError, match="bad"):
        plan(registry(*sources, TILECOPY_STRICT="1"))


@pytest.mark.parametrize("hook", ["predicate", "partition"])
def test_an_exception_in_a_hook_declines_that_request_alone(hook: str) -> None:
    answers = (
        {"verdict": ZeroDivisionError("oops")} if hook == "predicate" else {"partition": ZeroDivisionError("oops")}
    )
    sources = (source("bad", variant("bad", priority=20, **answers)), source("good", variant("good")))
    found = registry(*sources)
    with pytest.warns(PluginWarning, match=mentions("bad", "acme-bad", "1.0")):
        chosen = plan(found)
    assert chosen.variant == "good"
    assert chosen.declined["bad"] == (
        f"acme-bad 1.0 is faulty: tilecopy_{hook} raised ZeroDivisionError: oops; "
        "TILECOPY_DISABLE=bad disables it, pip uninstall acme-bad removes it"
    )
    assert plan(found).variant == "good"  # said once
    with pytest.raises(tc.PluginError, match="oops"):
        plan(registry(*sources), variant="bad")
    with pytest.raises(tc.PluginError, match="oops"):
        plan(registry(*sources, TILECOPY_STRICT="1"))


def test_a_partition_of_none_is_a_fault() -> None:
    found = registry(source("a", variant("a", priority=20, partition=None)), source("b", variant("b")))
    with pytest.warns(PluginWarning, match=mentions("acme-a", "1.0", "tilecopy_partition")):
        assert plan(found).variant == "b"


def test_an_exception_in_emit_names_the_variant() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
    k.warp.copy(s[:, :], a[:, :])
    with pytest.raises(tc.PluginError, match=mentions("bad", "acme-bad", "1.0", "tilecopy_emit")):
        k.build(target="sm_90a", grid=1, registry=registry(source("bad", variant("bad", emit=KeyError("x")))))


def test_an_answer_that_is_no_verdict_is_a_fault() -> None:
    for verdict, text in ((3, "3"), (True, "True"), ("x" * 999, "xxx...;")):
        sources = (source("bad", variant("bad", verdict=verdict)), source("good", variant("good")))
        with pytest.warns(PluginWarning, match=mentions("acme-bad", "1.0")):
            chosen = plan(registry(*sources))
        assert f"got {text}" in chosen.declined["bad"].replace("'" + "x" * 196, "xxx")
        with pytest.raises(tc.PluginError, match="tilecopy_predicate"):
            plan(registry(*sources), variant="bad")


def test_a_name_registered_twice_names_both_distributions() -> None:
    twice = (
        source("twin", variant("twin"), "acme-one"),
        source("twin", variant("twin"), "acme-two"),
        source("good", variant("good")),
    )
    with pytest.warns(PluginWarning, match=mentions("acme-one", "1.0", "acme-two")):
        chosen = plan(registry(*twice))
    assert chosen.variant == "good"
    with pytest.warns(PluginWarning), pytest.raises(tc.PluginError, match=mentions("acme-one", "1.0", "acme-two")):
        plan(registry(*twice), variant="twin")
    with pytest.raises(tc.PluginError, match=mentions("acme-one", "1.0", "acme-two")):
        plan(registry(*twice, TILECOPY_STRICT="1"))


def test_disabled_variants_are_not_imported() -> None:
    bomb = source("bomb", AssertionError("imported"))
    for environ in ({"TILECOPY_DISABLE": "bomb"}, {"TILECOPY_ONLY": "good"}):
        chosen = plan(registry(bomb, source("good", variant("good")), **environ))
        assert chosen.variant == "good" and "disabled by TILECOPY_" in chosen.declined["bomb"]
    for value in ("", " "):
        assert (
            plan(registry(source("good", variant("good")), TILECOPY_ONLY=value, TILECOPY_DISABLE=value)).variant
            == "good"
        )
    with pytest.raises(tc.PluginError, match=mentions("goood", "good")):
        plan(registry(source("good", variant("good")), TILECOPY_DISABLE="goood"))


def test_another_hook_api_is_not_loaded_and_says_so() -> None:
    old = Source(
        "old",
        "acme-old",
        "3.0",
        lambda: pytest.fail("loaded"),
        "it was made for the hook API tilecopy.variants.v0, but this core has v1",
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


def test_few_frames_lie_between_a_copy_and_a_hook() -> None:
    """Whoever reads a traceback of a variant reads them, beside pluggy's own."""
    between: dict[str, list[str]] = {}

    def answered(what: str, answer: Any) -> Any:
        names = [frame.name for frame in traceback.extract_stack() if "pluggy" not in Path(frame.filename).parts]
        between[what] = names[len(names) - names[::-1].index("lower") : -2]  # without the lambda and this
        return answer

    plugin = variant(
        "deep",
        verdict=lambda request: answered("predicate", tc.Accept()),
        partition=lambda request: answered("partition", "split"),
        emit=lambda request: answered("emit", None),
    )
    build(registry(source("deep", plugin)))
    assert set(between) == {"predicate", "partition", "emit"}
    for what, names in between.items():
        assert names[-2:] == [f"tilecopy_{what}", "answer"], "the hook, and what the test's variant calls"
        assert len(names[:-1]) <= 6, names


def test_one_copy_turns_to_other_files_at_most_600_times() -> None:
    """From its regions to the end of its text, once everything is loaded: whoever follows a copy turns as often."""
    assert turns_of_a_copy() and turns_of_a_copy() <= 600


def turns_of_a_copy() -> int:
    """Calls of a function in another file (that it has one: not what attrs generates), while the README's first copy is built."""
    k = tc.KernelBuilder("roundtrip", threads=128)
    a = k.param("A", (24 * 128, 64), "float16")
    swizzled = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[128, 64]))
    tile, row = k.shared((128, 64), "float16", layout=swizzled, name="tile"), k.block_id("x") * 128
    turns, counted = 0, True

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal turns, counted
        if event not in ("call", "return"):
            return
        if frame.f_code is CopyStatement.lower.__code__:
            counted = event == "call"
        caller, file = frame.f_back, frame.f_code.co_filename
        while caller is not None and caller.f_code.co_filename.startswith("<"):
            caller = caller.f_back
        if event == "call" and counted and not file.startswith("<") and caller is not None:
            turns += file != caller.f_code.co_filename

    sys.setprofile(profile)
    try:
        k.cta.copy(tile[:, :], a[row : row + 128, :])
        counted = False
        k.build(target="sm_90a", grid=(24,))
    finally:
        sys.setprofile(None)
    return turns


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
    assert mentions("shy", "today").search(str(caught.value))
    assert mentions("gmem_smem", "plugins/gmem_smem").search(str(caught.value))
    with pytest.raises(tc.NoVariantError, match=mentions("plugins/ldgsts")):
        plan(registry(), variant="ldgsts")
    with pytest.raises(tc.NoVariantError, match="'nobody'"):
        plan(registry(), variant="nobody")
    with pytest.raises(tc.NoVariantError, match=mentions("ldgst", "ldgsts")):
        plan(registry(), variant="ldgst")
    with pytest.raises(tc.NoVariantError) as caught:
        plan(registry(source("shy", variant("shy"))), variant="ldgst")
    before, _, after = str(caught.value).partition("not installed")
    assert "shy" in before and "gmem_smem" not in before.splitlines()[0] and "gmem_smem" in after


def test_without_the_table_of_variants_an_error_says_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the core and a variant alone."""
    one = registry(source("shy", variant("shy", verdict=tc.Decline("not today"))))
    with pytest.raises(tc.NoVariantError, match=mentions("gmem_smem")):
        plan(registry())
    monkeypatch.setattr("tilecopy_core.dispatch.reasons.known_variants", dict)
    told = ("plugins/partitions",)
    for found, demanded, first in (
        (registry(), None, ()),
        (registry(), "tma", ("tma",)),
        (one, None, ("shy", "today")),
        (one, "ldgst", ("ldgst", "shy")),
    ):
        with pytest.raises(tc.NoVariantError, match=mentions(*first, *told)):
            plan(found, variant=demanded)
    with pytest.raises(tc.NoVariantError) as declined:
        plan(one, variant="shy")
    assert "install" not in str(declined.value), "the variant that was asked for is here"


def test_the_nearest_reason_comes_first_and_what_could_never_do_it_in_a_line() -> None:
    others = {"a": {"op": "copy_async"}, "b": {"op": "copy_async"}, "c": {"spaces": (("shared", "global"),)}}
    others |= {
        "d": {"spaces": (("shared", "shared"),)},
        "e": {"features": ("sm_120",)},
        "x": {"verdict": tc.Decline("not today")},
    }
    with pytest.raises(tc.NoVariantError) as caught:
        plan(registry(*(source(name, variant(name, **record)) for name, record in others.items())))
    lines = str(caught.value).splitlines()
    assert re.findall(r"^ *(x|e|gmem_smem|ragged):", str(caught.value), re.MULTILINE) == [
        "x",
        "e",
        "gmem_smem",
        "ragged",
    ]
    assert (
        len(lines) == 7 and mentions("copy_async", "a", "b").search(lines[-2]) and mentions("c", "d").search(lines[-1])
    )
    assert set(caught.value.declined) == set(others)


def test_what_came_farthest_leads() -> None:
    """A partition that declines before a predicate, and both before what only the record says."""
    late = variant("late", priority=1, partition=tc.Decline("too late"))
    plugins = {
        "one": variant("one", priority=30, threads="one"),
        "soon": variant("soon", priority=20, verdict=tc.Decline("too soon")),
        "late": late,
    }
    with pytest.raises(tc.NoVariantError) as caught:
        plan(registry(*(source(name, each) for name, each in plugins.items())))
    told = [line.split(":")[0].strip() for line in str(caught.value).splitlines()]
    assert [each for each in told if each in plugins] == ["late", "soon", "one"] and told[0] == "late"
    with pytest.raises(tc.NoVariantError, match="^one: "):
        plan(registry(*(source(name, each) for name, each in plugins.items())), variant="one")


def test_explain_has_at_most_ten_lines() -> None:
    reasons = {f"v{n}": variant(f"v{n}", verdict=tc.Decline(f"reason\n{n}")) for n in range(20)}
    reasons |= {f"a{n}": variant(f"a{n}", op="copy_async") for n in range(5)}
    plugins = [source(name, each) for name, each in reasons.items()]
    said = plan(registry(*plugins, source("good", variant("good", partition=5)))).explain()
    assert len(said.splitlines()) <= 10 and "; only for copy_async: a0, a1, a2, a3, a4" in said
    assert "v7 (reason 7); " in said


def test_every_hook_is_a_specification() -> None:
    from tilecopy_core.registry import hookspecs

    manager = pluggy.PluginManager("tilecopy")
    manager.add_hookspecs(hookspecs)
    names = {*HOOKS, hookspecs.DISPATCH}
    assert {name for name in vars(hookspecs) if name.startswith("tilecopy_")} == names
    assert all(hasattr(manager.hook, name) for name in names)
    assert all(getattr(hookspecs, name).__doc__ for name in names)


def test_importing_the_core_loads_no_plugin_and_no_cuda() -> None:
    code = """
        import sys, tilecopy
        tilecopy.KernelBuilder, tilecopy.Registry
        bad = [m for m in sys.modules if m.startswith(("tilecopy_gmem", "tilecopy_reg", "tilecopy_emulator", "cuda", "click", "rich"))]
        assert not bad, bad
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], check=True, cwd=Path("/"))


def test_dispatch_writes_no_ptx() -> None:
    code = (
        "import sys, tilecopy_core.dispatch.plan, tilecopy_core.registry; assert 'tilecopy_core.ptx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path("/"))


def test_what_authors_and_users_of_plugins_name_is_public() -> None:
    assert tc.Option is Option and tc.PluginWarning is PluginWarning
    assert {"Option", "PluginWarning"} <= set(tc.__all__)


# ------------------------------------------------------------------------------------------------ isolation


class Own(BaseException):
    """What a library of a plugin's may raise."""


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        RecursionError("deep"),
        MemoryError(),
        ValueError("two\nlines"),
        asyncio.CancelledError(),
        GeneratorExit(),
        Own("x"),
    ],
)
def test_whatever_an_import_raises_the_rest_goes_on(error: BaseException) -> None:
    found = registry(source("bad", error), source("good", variant("good")))
    with pytest.warns(PluginWarning, match=mentions("bad", "acme-bad", "1.0", "TILECOPY_DISABLE")):
        chosen = plan(found)
    assert chosen.variant == "good"
    assert type(error).__name__ in chosen.declined["bad"] and "pip uninstall acme-bad" in chosen.declined["bad"]


@pytest.mark.parametrize("hook", ["verdict", "partition"])
def test_a_hook_that_ends_the_process_is_a_fault(hook: str) -> None:
    found = registry(
        source("bad", variant("bad", priority=20, **{hook: SystemExit(0)})), source("good", variant("good"))
    )
    with pytest.warns(PluginWarning, match="SystemExit"):
        assert plan(found).variant == "good"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 5),
        ("name", ""),
        ("op", None),
        ("priority", "high"),
        ("priority", None),
        ("priority", 1.5),
        ("priority", float("nan")),
        ("priority", True),
        pytest.param("priority", 10**5000, id="priority-long"),
        ("priority", -(2**64)),
        ("summary", 7),
        ("spaces", "global"),
        ("spaces", ()),
        ("spaces", (("global",),)),
        ("features", "tma"),
        ("features", (90,)),
        ("options", ("mbar",)),
        ("options", 3),
        ("completion", 5),
        ("completion", "my_word"),
        ("completion_steps", "wait"),
        ("threads", "some"),
    ],
)
def test_a_malformed_record_names_field_and_value(field: str, value: Any) -> None:
    fields = {"name": "v", "op": "copy", "priority": 1, "summary": "s", "spaces": (("global", "shared"),)} | {
        field: value
    }
    with pytest.raises(tc.PluginError, match=field) as caught:
        tc.Variant(**fields)
    assert field == "completion" or short_repr(value) in str(caught.value)
    bad = Source("v", "acme-v", "1.0", lambda: SimpleNamespace(variant=tc.Variant(**fields)))
    with pytest.warns(PluginWarning, match=mentions("acme-v", "1.0")):
        assert plan(registry(bad, source("good", variant("good")))).variant == "good"


@pytest.mark.parametrize("spaces", [(("shred", "tmem"),), (("global", "Shared"),)])
def test_a_space_that_does_not_exist_is_no_silent_nothing(spaces: Any) -> None:
    with pytest.warns(PluginWarning, match=mentions("shared")):
        plan(registry(source("bad", variant("bad", spaces=spaces)), source("good", variant("good"))))


def test_a_feature_that_this_core_does_not_know_is_named() -> None:
    with pytest.warns(PluginWarning, match=mentions("tcgen5", "tcgen05")):
        plan(registry(source("bad", variant("bad", features=["tcgen5"])), source("good", variant("good"))))


@pytest.mark.parametrize(("name", "value"), [("min_arch", 90), ("instructions", "cp.async"), ("specific", True)])
def test_what_a_record_of_an_earlier_core_has_in_place_of_features_is_refused(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=mentions(name, "features=")):
        variant("old", **{name: value})


@pytest.mark.parametrize(
    ("feature", "targets"),
    [
        ("sm_103f", ("sm_103a", "sm_103f")),
        ("sm_100a", ("sm_100a",)),
        ("sm_120", ("sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a", "sm_121f")),
        ("tcgen05", ("sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a", "sm_110f")),
    ],
)
def test_a_feature_is_that_of_some_targets(feature: str, targets: tuple[str, ...]) -> None:
    assert variant("v", features=(feature,)).variant.targets == targets


@pytest.mark.parametrize("reason", [5, None, "", ["x"]])
def test_a_decline_says_why_in_words(reason: Any) -> None:
    with pytest.raises(tc.PluginError, match=mentions("Decline")):
        tc.Decline(reason)
    bad = variant("bad", verdict=lambda request: tc.Decline(reason))
    with pytest.warns(PluginWarning, match=mentions("acme-bad", "1.0", "tilecopy_predicate")):
        assert plan(registry(source("bad", bad), source("good", variant("good")))).variant == "good"


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "not a name"},
        {"name": 5},
        {"types": "int"},
        {"types": ()},
        {"meaning": ""},
        {"required": "sometimes"},
        {"required": 1},
        {"default": "x"},
        {"required": True, "default": 1},
    ],
)
def test_a_malformed_option_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(tc.PluginError, match=f"{next(iter(fields))} "):
        Option(**({"name": "o", "types": int, "meaning": "a number"} | fields))
    with pytest.raises(tc.PluginError, match=mentions("o")):
        variant("v", options=(Option("o", int, "a number"), Option("o", int, "a number")))
    with pytest.raises(tc.PluginError, match="'scope'"):
        variant("v", options=(Option("scope", int, "a number"),))


def test_errors_of_emit_keep_their_class_and_name_the_variant() -> None:
    def emit(error: Exception) -> Any:
        return registry(source("bad", variant("bad", emit=error)))

    with pytest.raises(tc.PtxError, match=mentions("bad", "acme-bad", "1.0")):
        build(emit(tc.PtxError("too wide")))
    with pytest.raises(tc.PluginError, match=mentions("bad", "acme-bad", "1.0", "mine")):
        build(emit(tc.PluginError("not mine")))
    with pytest.raises(tc.PluginError, match=mentions("tilecopy_emit", "TILECOPY_DISABLE", "bad")):
        build(emit(SystemExit(2)))  # type: ignore[arg-type]


def test_emit_may_not_decline() -> None:
    plugin = variant("late")

    @tc.hookimpl
    def tilecopy_emit(request: Any, partition: Any, ptx: Any) -> Any:
        return tc.Decline("too late")

    plugin.tilecopy_emit = tilecopy_emit
    with pytest.raises(tc.PluginError, match=mentions("late", "acme-late", "1.0", "tilecopy_emit")):
        build(registry(source("late", plugin)))


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
def test_a_summary_that_raises_is_told_and_nothing_more(error: type[BaseException]) -> None:
    class Odd:
        def __repr__(self) -> str:
            raise error

        def summary(self) -> str:
            raise error("no words")

        @property
        def narrowed(self) -> Any:
            raise error("gone")

    chosen = plan(registry(source("odd", variant("odd", partition=Odd()))))
    said = f"raised {error.__name__}"
    assert f"acme-odd 1.0 is faulty: summary() of its partition {said}: no words" in chosen.explain()
    assert f"narrowed of its partition {said}: gone" in chosen.explain()
    assert "split: 5\n" in plan(registry(source("odd", variant("odd", partition=5)))).explain()


def test_options_of_a_request_cannot_be_changed() -> None:
    def mutate(request: Any) -> Any:
        request.options["x"] = 1

    takes = (Option("x", int, "a number"),)
    bad = variant("bad", priority=20, verdict=mutate, options=takes)
    with pytest.warns(PluginWarning, match=mentions("acme-bad", "1.0", "tilecopy_predicate")):
        chosen = plan(registry(source("bad", bad), source("good", variant("good", options=takes))), x=5)
    assert chosen.variant == "good" and dict(chosen.request.options) == {"x": 5}


# -------------------------------------------------------------------------------------------------- clashes


def test_a_first_party_variant_keeps_its_name_in_a_clash() -> None:
    ours = source("gmem_smem", variant("gmem_smem"), "tilecopy.gmem_smem", "0.1.0")
    theirs = source("gmem_smem", AssertionError("imported"), "acme-fast", "9.9")
    found = registry(theirs, ours)
    with pytest.warns(PluginWarning, match=mentions("gmem_smem", "acme-fast", "9.9")):
        chosen = plan(found)
    assert (chosen.variant, chosen.package) == ("gmem_smem", "tilecopy.gmem_smem 0.1.0")
    assert "claims the name" in chosen.declined["gmem_smem (acme-fast 9.9)"]
    assert plan(found, variant="gmem_smem").variant == "gmem_smem"
    with pytest.raises(tc.NoVariantError, match=mentions("gmem_smem")):
        plan(found, variant="gmem_smem", dst=A[:, :])
    with pytest.raises(tc.PluginError, match=mentions("tilecopy.gmem_smem", "0.1.0")):
        found.register(variant("gmem_smem"), name="gmem_smem")


def test_registering_a_name_again_replaces_it() -> None:
    found = registry(source("mine", variant("mine", verdict=tc.Decline("installed"))), source("good", variant("good")))
    for answer in ("first try", "second try"):
        found.register(variant("mine", priority=99, verdict=tc.Decline(answer)), name="mine")
        assert plan(found).declined["mine"] == answer
    found.register(variant("mine", priority=99), name="mine")
    assert plan(found).variant == "mine"
    found.unregister("mine")
    assert plan(found).declined["mine"] == "installed"
    found.unregister("mine")
    assert "mine" not in plan(found).declined
    with pytest.raises(tc.PluginError, match=mentions("goood", "good")):
        found.unregister("goood")
    found.register(SimpleNamespace(), name="half")
    with pytest.warns(PluginWarning, match=mentions("half", "registry.unregister")):
        plan(found)
    found.unregister("half")
    assert "half" not in plan(found).declined


def test_a_misspelt_hook_is_told_with_the_one_that_is_meant() -> None:
    class Misspelt:
        @tc.hookimpl
        def tilecopy_partitions(self, request: tc.CopyRequest) -> None:
            """Not a hook."""

        @tc.hookimpl(optionalhook=True)
        def tilecopy_later(self) -> None:
            """One of a later version."""

    found = registry(source("good", variant("good")))
    found.register(Misspelt(), name="mine")
    reason = ("tilecopy_partitions", "tilecopy_partition")
    with pytest.warns(PluginWarning, match=mentions(*reason)):
        assert plan(found).variant == "good"


def test_messages_about_plugins_have_no_ids_of_objects() -> None:
    class Wrong:
        @tc.hookimpl
        def tilecopy_partition(self, nothing: Any) -> None:
            """Takes what the hook does not have."""

    def fails(request: tc.CopyRequest) -> Any:
        raise ValueError(f"{request} by {fails} and {object()}")

    texts = []
    for _ in range(2):
        found = registry(source("good", variant("good")), source("bad", variant("bad", verdict=fails)))
        wrong = Wrong()
        found.register(wrong, name="mine")
        with pytest.warns(PluginWarning) as caught:
            told = plan(found).declined
        texts.append([str(warning.message) for warning in caught])
        assert f"{id(fails):x}" not in told["bad"] and str(id(wrong)) not in told["mine"]
    assert texts[0] == texts[1] and any("'mine'" in text for text in texts[0])
    assert f"{id(texts):x}" not in short_repr((lambda: 0, object())) and "at 0x7f>" in short_repr("at 0x7f>")


def test_a_name_is_free_again_when_its_rival_is_gone() -> None:
    twice = (source("twin", variant("twin"), "acme-one"), source("twin", variant("twin"), "acme-two"))
    found = registry(*twice, source("good", variant("good", priority=1)))
    with pytest.warns(PluginWarning, match=mentions("acme-one", "1.0", "acme-two")):
        assert plan(found).variant == "good"
    found.register(variant("twin"), name="twin")
    assert plan(found).package == "this process"
    needy = Source("twin", "acme-three", "1.0", lambda: pytest.fail("loaded"), needs="it requires tilecopy-core>=99")
    with pytest.warns(PluginWarning, match=mentions("acme-three", "1.0", "tilecopy-core", 99)):
        assert plan(registry(twice[0], needy)).package == "acme-one 1.0"


def test_a_variant_may_have_another_priority_for_one_copy() -> None:
    later = variant("later", priority=30, verdict=tc.Accept(priority=5))
    chosen = plan(registry(source("later", later), source("a", variant("a"))))
    assert (chosen.variant, chosen.declined["later"]) == ("a", "it accepts, but its priority 5 is lower than a's 10")
    assert later.calls == ["predicate"]
    alone = plan(registry(source("later", later)))
    assert (alone.variant, alone.priority) == ("later", 5)
    tied = plan(registry(source("later", later), source("first", variant("first", priority=5))))
    assert tied.variant == "first"
    assert tied.declined["later"] == "it accepts, but first has priority 5 too and comes first by name"
    with pytest.raises(tc.PluginError, match=mentions("priority", "high")):
        tc.Accept(priority="high")  # type: ignore[arg-type]


def test_a_tie_is_explained() -> None:
    chosen = plan(registry(source("b", variant("b")), source("a", variant("a")), source("c", variant("c", priority=1))))
    assert chosen.variant == "a"
    assert chosen.declined["b"] == "it accepts, but a has priority 10 too and comes first by name"
    assert chosen.declined["c"] == "it accepts, but its priority 1 is lower than a's 10"
    said = "chosen: a (priority 10). Also possible: b (priority 10, later by name), c (priority 1). Package: "
    assert said in chosen.explain()
    assert (
        "chosen: b (priority 10), demanded by variant=. "
        in plan(registry(source("b", variant("b"))), variant="b").explain()
    )


def test_the_environment_is_looked_up_at_each_use() -> None:
    environ: dict[str, str] = {}
    found = tc.Registry([source("a", variant("a")), source("b", variant("b"))], environ)
    assert plan(found).variant == "a"
    environ["TILECOPY_DISABLE"] = "a"
    assert plan(found).variant == "b"
    del environ["TILECOPY_DISABLE"]
    assert plan(found).variant == "a"


# ------------------------------------------------------------------------------------------------- wrappers


def wrapper(hook: str, body: Any) -> Any:
    """A plugin that wraps one hook; ``body(yield)`` is what it makes of the answer."""
    names = {"tilecopy_emit": "request, partition, ptx"}.get(hook, "request")
    space: dict[str, Any] = {"body": body}
    exec(f"def {hook}({names}):\n    return body((yield))", space)
    return SimpleNamespace(**{hook: tc.hookimpl(wrapper=True)(space[hook])})


def test_wrappers_stand_in_the_order_that_they_ask_for_then_of_their_names() -> None:
    seen: list[str] = []

    def tracing(name: str, **asked: bool) -> Source:
        @tc.hookimpl(wrapper=True, **asked)
        def tilecopy_partition(request: Any) -> Any:
            seen.append(name)
            return (yield)

        return source(name, SimpleNamespace(tilecopy_partition=tilecopy_partition))

    names = {"e": {}, "d": {}, "z": {"tryfirst": True}, "a": {"trylast": True}, "b": {"trylast": True}}
    plan(registry(source("v", variant("v")), *(tracing(name, **asked) for name, asked in names.items())))
    assert seen == ["z", "d", "e", "a", "b"]


def test_a_wrapper_that_raises_is_set_aside_and_named() -> None:
    def fail(answer: Any) -> Any:
        raise ZeroDivisionError("in the tracer")

    for hook in HOOKS:
        found = registry(source("a", variant("a")), source("trace", wrapper(hook, fail), "acme-trace", "2.0"))
        with pytest.warns(PluginWarning) as warned:
            assert "emitted by a" in build(found).ptx
        assert len(warned) == 1
        said = mentions("acme-trace", "2.0", hook, "ZeroDivisionError", "in the tracer", "TILECOPY_DISABLE=trace")
        assert said.search(str(warned[0].message))
        assert mentions("acme-trace", "2.0").search(plan(found).declined["trace"])
        strict = registry(source("a", variant("a")), source("trace", wrapper(hook, fail)), TILECOPY_STRICT="1")
        with pytest.raises(tc.PluginError, match=mentions("trace", "acme-trace", "1.0")):
            build(strict)


def test_a_wrapper_that_swallows_does_not_cost_the_copy() -> None:
    for hook in HOOKS[:2]:
        found = registry(source("a", variant("a")), source("trace", wrapper(hook, lambda answer: None)))
        with pytest.warns(PluginWarning, match=mentions("acme-trace", "1.0", hook)):
            assert plan(found).variant == "a"


def test_a_wrapper_gives_what_the_hook_may_answer() -> None:
    for hook, wrong in (("tilecopy_predicate", True), ("tilecopy_partition", 3)):
        found = registry(source("a", variant("a")), source("trace", wrapper(hook, lambda answer, wrong=wrong: wrong)))
        with pytest.warns(PluginWarning, match=mentions("wrapper", hook, wrong)):
            assert plan(found).partition == "split"


def test_a_wrapper_of_emit_answers_nothing() -> None:
    late = wrapper("tilecopy_emit", lambda answer: tc.Decline("too late"))
    found = registry(source("a", variant("a")), source("late", late))
    with pytest.warns(PluginWarning, match=mentions("late", "acme-late", "1.0")):
        assert build(found).ptx.count("emitted by a") == 1


def test_only_the_wrapper_that_raised_is_set_aside() -> None:
    def fail(answer: Any) -> Any:
        raise ZeroDivisionError

    seen: list[Any] = []
    found = registry(
        source("a", variant("a")),
        source("bad", wrapper("tilecopy_predicate", fail)),
        source("fine", wrapper("tilecopy_predicate", lambda answer: seen.append(answer) or answer)),
    )
    with pytest.warns(PluginWarning, match=mentions("bad")):
        plan(found)
    plan(found)
    assert seen[-1] == tc.Accept() and "fine" not in plan(found).declined


def test_a_wrapper_may_decline_and_the_reason_says_who() -> None:
    no = wrapper("tilecopy_predicate", lambda answer: tc.Decline("not on a Monday"))
    with pytest.raises(tc.NoVariantError, match=mentions("Monday", "policy", "acme-policy", "1.0")):
        plan(registry(source("a", variant("a")), source("policy", no)))


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), Own("x")])
@pytest.mark.parametrize("hook", ["verdict", "partition", "emit"])
def test_whatever_a_hook_raises_is_its_variants_fault(hook: str, error: BaseException) -> None:
    found = registry(source("bad", variant("bad", priority=20, **{hook: error})), source("good", variant("good")))
    if hook == "emit":
        with pytest.raises(tc.PluginError, match=mentions("bad", type(error).__name__)):
            build(found)
    else:
        with pytest.warns(PluginWarning, match=f"bad.*{type(error).__name__}"):
            assert plan(found).variant == "good"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), Own("x")])
@pytest.mark.parametrize("late", [False, True])
def test_whatever_a_wrapper_raises_is_its_own_fault(error: BaseException, *, late: bool) -> None:
    @tc.hookimpl(wrapper=True)
    def tilecopy_predicate(request: Any) -> Any:
        if not late:
            raise error
        yield
        raise error

    found = registry(source("a", variant("a")), source("bad", SimpleNamespace(tilecopy_predicate=tilecopy_predicate)))
    with pytest.warns(PluginWarning, match=mentions("bad", type(error).__name__)):
        assert plan(found).variant == "a"


def test_an_interrupt_goes_through() -> None:
    for bad in (variant("bad", verdict=KeyboardInterrupt()), KeyboardInterrupt()):
        with pytest.raises(KeyboardInterrupt):
            plan(registry(source("bad", bad)))


@pytest.mark.parametrize("late", [False, True])
def test_a_wrapper_that_writes_is_named_and_not_the_variant(*, late: bool) -> None:
    @tc.hookimpl(wrapper=True)
    def tilecopy_emit(ptx: Any) -> Any:
        if not late:
            ptx.raw("mov.u32 %r0, 5;")
        answer = yield
        if late:
            ptx.comment("mine")
        return answer

    found = registry(source("a", variant("a")), source("writes", SimpleNamespace(tilecopy_emit=tilecopy_emit)))
    with pytest.raises(tc.PluginError, match=mentions("acme-writes", "1.0")):
        build(found)


def test_a_wrapper_may_look_at_what_is_written() -> None:
    seen = []

    @tc.hookimpl(wrapper=True)
    def tilecopy_emit(ptx: Any) -> Any:
        answer = yield
        seen.append(len(ptx.recent))
        return answer

    build(registry(source("a", variant("a")), source("looks", SimpleNamespace(tilecopy_emit=tilecopy_emit))))
    assert seen[0] > 0


def test_what_a_variant_raises_stands_whatever_a_wrapper_makes_of_it() -> None:
    @tc.hookimpl(wrapper=True)
    def tilecopy_emit(request: Any, partition: Any, ptx: Any) -> Any:
        try:
            return (yield)
        except KeyError:
            return None

    quiet = SimpleNamespace(tilecopy_emit=tilecopy_emit)
    found = registry(source("bad", variant("bad", emit=KeyError("x"))), source("quiet", quiet))
    with pytest.raises(tc.PluginError, match=mentions("bad", "acme-bad", "1.0", "tilecopy_emit")):
        build(found)


def test_a_hook_may_have_another_name_of_its_own() -> None:
    """By pluggy's ``specname``, of a variant as of a wrapper."""
    seen: list[tc.Verdict] = []
    plugin = variant("a")

    @tc.hookimpl(specname="tilecopy_predicate")
    def can_copy(request: Any) -> tc.Verdict:
        return tc.Decline("renamed")

    @tc.hookimpl(wrapper=True, specname="tilecopy_predicate")
    def look(request: Any) -> Any:
        seen.append((yield))
        return seen[-1]

    del plugin.tilecopy_predicate
    plugin.can_copy = can_copy
    found = registry(source("a", plugin), source("b", variant("b")))
    found.register(SimpleNamespace(look=look), name="trace")
    assert plan(found).declined["a"] == "renamed"
    assert seen == [tc.Decline("renamed"), tc.Accept()]


def test_a_wrapper_cannot_be_asked_for() -> None:
    found = registry(source("a", variant("a")), source("trace", wrapper("tilecopy_predicate", lambda answer: answer)))
    with pytest.raises(tc.PluginError, match=mentions("trace")):
        plan(found, variant="trace")


# --------------------------------------------------------------------------------- what a record declares

BAR = Option("bar", (int, tc.Expr), "the number of a barrier", required="in a kernel")
IN_A_KERNEL = tc.ActiveThreads(cta_threads=32)


def test_the_core_enforces_what_a_record_declares() -> None:
    """No hook of these is called: the record is enough."""

    def refused(reason: tuple[object, ...], request: dict[str, Any] | None = None, **record: Any) -> None:
        plugin = variant("v", **record)
        with pytest.raises(tc.NoVariantError, match=mentions(*reason)):
            plan(registry(source("v", plugin)), **(request or {}))
        assert plugin.calls == []

    refused(("global", "shared"), spaces=(("shared", "global"),))
    refused(("sm_90a", "v", "sm_100"), features=("sm_100",))
    for target in ("sm_90a", "sm_100"):
        refused((target, "tcgen05", "v", "sm_100a"), {"target": target}, features=("tcgen05",))
    for target, feature, having in (
        ("sm_120a", "tcgen05", ("sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a", "sm_110f")),
        ("sm_100a", "wgmma", ("sm_90a",)),
        ("sm_89", "tma", ("sm_90",)),
    ):
        reason = (target, feature, "v", *having)
        refused(reason, {"target": target}, features=("cluster", feature) if target != "sm_89" else (feature,))
    refused(("scope",), threads="one")
    narrowed = {"active": tc.ActiveThreads(cta_threads=32, mask=(True,) * 8 + (False,) * 24)}
    refused((8, 32), narrowed)
    refused((8,), narrowed | {"scope": tc.thread()}, threads="one")
    assert plan(registry(source("v", variant("v", threads="any"))), **narrowed).variant == "v"
    refused(("barr", "bar"), {"barr": 1}, options=(BAR,))
    refused(("x", "bar"), {"bar": "x"}, options=(BAR,))
    refused(("bar", "True"), {"bar": True}, options=(BAR,))
    refused(("bar",), {"active": IN_A_KERNEL}, options=(BAR,))
    always = Option("n", int, "a count", required=True)
    refused(("n",), options=(always,))


def test_a_plan_without_a_kernel_may_leave_out_what_only_a_kernel_has() -> None:
    found = registry(source("v", variant("v", options=(BAR,))))
    assert plan(found).variant == "v"
    assert plan(found, bar=None).variant == "v", "None is the same as nothing"
    with pytest.raises(tc.RequestError, match=mentions("bar")):
        plan(found).emit(SimpleNamespace(comment=print), found)  # type: ignore[arg-type]
    assert plan(found, bar=3, active=IN_A_KERNEL).variant == "v"


def test_an_option_given_to_the_wrong_variant_is_never_dropped() -> None:
    found = registry(
        source("plain", variant("plain", priority=1)),
        source("v", variant("v", options=(BAR, Option("tx", int, "bytes")))),
    )
    with pytest.raises(tc.NoVariantError) as caught:
        plan(found, tx=1, active=IN_A_KERNEL)
    assert mentions("bar").search(caught.value.declined["v"])
    assert mentions("tx").search(caught.value.declined["plain"])
    fallen = plan(found, active=IN_A_KERNEL)
    assert fallen.variant == "plain" and "chosen: plain (priority 1). Package" in fallen.explain()
    assert (
        "not: v (option bar is required in a kernel but was not given; it must be the number of a barrier)"
        in fallen.explain()
    )


def test_an_option_that_nobody_knows_is_a_mistake_of_the_request() -> None:
    found = registry(source("v", variant("v", options=(BAR,))), source("other", variant("other", op="copy_async")))
    with pytest.raises(tc.RequestError, match=mentions("barr", "bar")) as e:
        plan(found, barr=1)
    assert isinstance(e.value, tc.NoVariantError) and set(e.value.declined) == {"v", "other"}
    with pytest.raises(tc.NoVariantError, match=mentions("plugins/tcgen05_cp")) as missing:
        plan(found, op="copy_async", cta_group=1, variant="tcgen05_cp")
    assert not isinstance(missing.value, tc.RequestError), "a first-party variant that could be installed knows it"


def test_defaults_of_options() -> None:
    record = variant("v", options=(Option("n", int, "a count", default=4), Option("m", int, "a count"))).variant
    requests = [
        plan(registry(source("v", variant("v", options=record.options))), **given).request for given in ({}, {"n": 7})
    ]
    assert [record.option(request, "n") for request in requests] == [4, 7]
    assert record.option(requests[0], "m") is None
    with pytest.raises(tc.PluginError, match=mentions("k")):
        record.option(requests[0], "k")


def test_what_completes_a_copy_is_data() -> None:
    said = plan(registry(source("v", variant("v"))))
    assert said.completion == "barrier" and "completes: barrier; the copying threads" in said.explain()
    grouped = plan(registry(source("v", variant("v", op="copy_async", completion="cp_async_group"))), op="copy_async")
    assert grouped.completion_steps == COMPLETIONS["cp_async_group"]
    steps = "; ".join(grouped.completion_steps)
    assert f"completes: cp_async_group; {steps}" in grouped.explain()
    own = variant("v", op="copy_async", completion="doorbell", completion_steps=["ring", "wait"])
    assert plan(registry(source("v", own)), op="copy_async").completion_steps == ("ring", "wait")
    silent = plan(registry(source("v", variant("v", op="copy_async"))), op="copy_async")
    assert silent.completion == "undeclared"


def test_the_first_party_variants_declare_what_completes_them() -> None:
    records = {p.name: p.variant for p in tc.default_registry().plugins() if p.variant is not None}
    assert {name: record.completion for name, record in records.items()} == {
        "gmem_smem": "barrier",
        "reg": "barrier",
        "ldmatrix": "barrier",
        "stmatrix": "barrier",
        "regperm": "barrier",
        "regperm_shfl": "barrier",
        "ldgsts": "cp_async_group",
        "ragged": "barrier",
        "ragged_async": "cp_async_group",
        "bulk": "mbarrier",
        "bulk_store": "bulk_group",
        "tma": "mbarrier",
        "tma_store": "bulk_group",
        "dsmem": "mbarrier",
        "tcgen05_cp": "tcgen05_commit",
        "tcgen05_ld": "barrier",
        "tcgen05_st": "barrier",
    }
    assert {name: record.threads for name, record in records.items() if record.threads != "all"} == {
        "bulk": "one",
        "bulk_store": "one",
        "tma": "one",
        "tma_store": "one",
        "dsmem": "one",
        "tcgen05_cp": "one",
    }
    assert {name: [option.name for option in record.options] for name, record in records.items() if record.options} == {
        "bulk": ["mbar", "prefetch"],
        "dsmem": ["mbar", "remote_cta_id"],
        "gmem_smem": ["relaxed"],
        "ragged": ["relaxed"],
        "reg": ["relaxed"],
        "tcgen05_cp": ["cta_group"],
        "tcgen05_ld": ["wait"],
        "tcgen05_st": ["wait"],
        "tma": ["mbar", "multicast"],
    }


# ---------------------------------------------------------------------------------------------- odd values

ODD: tuple[Any, ...] = (None, 5, -1, 1.5, float("nan"), True, "", "x", b"x", [], {}, object, 2**70, len)


@pytest.mark.parametrize("parameter", ["dst", "src", "op", "scope", "target", "variant", "active"])
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_plan_refuses_odd_values_in_words(parameter: str, value: Any) -> None:
    found = registry(source("v", variant("v")))
    if value is None and parameter in ("variant", "active"):
        assert plan(found, **{parameter: value}).variant == "v"
        return
    with pytest.raises(tc.TilecopyError):
        plan(found, **{parameter: value})


@pytest.mark.parametrize(
    "value", [value for value in ODD if value is not None and value != [] and value != {}], ids=repr
)
def test_a_registry_refuses_odd_values_in_words(value: Any) -> None:
    for make in (
        lambda: tc.Registry(value),
        lambda: tc.Registry([value]),
        lambda: tc.Registry([], value),
        lambda: tc.plan(TILE[:, :], A[:, :], scope=tc.warp(), target="sm_90", registry=value),
        lambda: tc.Registry([]).unregister(value),
        lambda: tc.CopyRequest(op="copy", dst=TILE[:, :], src=A[:, :], scope=tc.warp(), target="sm_90", options=value),
    ):
        with pytest.raises(tc.TilecopyError):
            make()
    if not isinstance(value, str) or not value:
        with pytest.raises(tc.TilecopyError, match="name"):
            tc.Registry([]).register(variant("v"), name=value)


def test_a_variant_that_is_asked_for_by_a_misspelt_name() -> None:
    with pytest.raises(tc.NoVariantError, match=mentions("gmem_smem")):
        plan(registry(), variant="gmem_smen")


# ---------------------------------------------------------------------------------------------------- plans


def test_a_plan_is_data() -> None:
    found = registry(source("v", variant("v", options=(BAR,))), source("w", variant("w", priority=1)))
    real = plan(tc.default_registry())
    assert pickle.loads(pickle.dumps(real)).explain() == real.explain()
    chosen = plan(found, bar=3)
    for again in (pickle.loads(pickle.dumps(chosen)), copy.deepcopy(chosen)):
        assert again.explain() == chosen.explain() and again.declined == chosen.declined
        assert again.request.options["bar"] == 3

        class Ptx:
            lines: list[str] = []

            def comment(self, text: str) -> None:
                self.lines.append(text)

            def instr(self, opcode: str, *operands: object) -> None:
                pass

        again.emit(Ptx(), found)  # type: ignore[arg-type]
        assert "emitted by v" in Ptx.lines
        with pytest.raises(tc.PluginError, match=mentions("v", "acme-v", "1.0")):
            again.emit(Ptx(), registry())  # type: ignore[arg-type]


def test_a_dispatch_costs_no_more_for_what_cannot_be_meant() -> None:
    calls: list[str] = []
    others = [
        source(f"o{i}", variant(f"o{i}", spaces=(("shared", "tmem"),), verdict=lambda r: calls.append("o")))
        for i in range(50)
    ]
    found = registry(source("v", variant("v")), *others)
    assert plan(found).variant == "v" and calls == []
    assert len(plan(found).declined) == 50
    assert plan(found).outcomes[0] is plan(found).outcomes[0], "found out once for requests of a kind"


# ------------------------------------------------------------------------------------- installed for real


def install(
    folder: Path, name: str, text: str, *, package: str = "", requires: str = "", group: str = "variants.v1"
) -> None:
    """A package as an installer leaves it: a module and its metadata."""
    package = package or f"acme-{name}"
    (folder / f"plug_{name}.py").write_text(textwrap.dedent(text))
    info = folder / f"{package.replace('-', '_')}-2.5.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.5\n"
        + (f"Requires-Dist: {requires}\n" if requires else "")
        + "\n"
    )
    (info / "entry_points.txt").write_text(f"[tilecopy.{group}]\n{name} = plug_{name}\n")


GOOD = """
    from tilecopy import Accept, Variant, hookimpl
    variant = Variant({name!r}, "copy", 99, "a test", (("global", "shared"),))
    @hookimpl
    def tilecopy_predicate(request):
        return Accept()
    @hookimpl
    def tilecopy_partition(request):
        return 1
    @hookimpl
    def tilecopy_emit(request, partition, ptx):
        ptx.instr("bar.warp.sync", 0xFFFFFFFF)
"""
PLAN = """
    import tilecopy as tc
    a = tc.Buffer((32, 32), "float32", space="global", name="A")
    s = tc.Buffer((32, 32), "float32", space="shared", name="s")
    found = tc.plan(s[:, :], a[:, :], scope=tc.warp(), target="sm_90")
    print(found.variant, *(f"{name}: {reason}" for name, reason in found.declined.items()), sep="\\n")
"""


def python(folder: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])} | environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_bad_packages_do_not_cost_the_good_ones(tmp_path: Path) -> None:
    install(tmp_path, "exits", "import sys; sys.exit(3)")
    install(tmp_path, "broken", "import acme_runtime_that_is_not_there")
    install(tmp_path, "syntax", "def (:")
    install(tmp_path, "high", GOOD.format(name="high").replace("99", "'high'"))
    install(tmp_path, "gmem_smem", "raise AssertionError('imported')", package="acme-impostor")
    install(tmp_path, "newer", GOOD.format(name="newer"), requires="tilecopy-core (>=99,<100)")
    install(tmp_path, "old", GOOD.format(name="old"), group="variants.v0")
    install(tmp_path, "talks", 'print("hello")\n' + textwrap.dedent(GOOD.format(name="talks").replace("99", "-5")))
    done = python(tmp_path, PLAN)
    chosen, *declined = done.stdout.splitlines()
    assert (done.returncode, chosen) == (0, "gmem_smem"), done.stderr
    reasons = dict(line.split(": ", 1) for line in declined)
    assert mentions("acme-exits", "2.5", "SystemExit", 3).search(reasons["exits"])
    assert mentions("acme-broken", "2.5", "ModuleNotFoundError").search(reasons["broken"])
    assert mentions("SyntaxError").search(reasons["syntax"])
    assert mentions("priority", "high").search(reasons["high"])
    assert mentions("acme-impostor", "2.5").search(reasons["gmem_smem (acme-impostor 2.5)"])
    assert mentions("tilecopy-core", ">=99,<100").search(reasons["newer"])
    assert mentions("variants.v0").search(reasons["old"])
    assert mentions("priority", -5).search(reasons["talks"]) and "hello" in done.stderr
    for name in ("exits", "broken", "syntax", "high", "newer"):
        assert done.stderr.count(f"TILECOPY_DISABLE={name}") == 1
        assert f"TILECOPY_DISABLE={name}" in reasons[name] and f"pip uninstall acme-{name}" in reasons[name]
    quiet = python(tmp_path, PLAN, TILECOPY_ONLY="gmem_smem")
    assert quiet.stdout.splitlines()[0] == "gmem_smem"
    assert quiet.stderr.count(PluginWarning.__name__) == 1, "the impostor of a name that is wanted, and nobody else"


def test_what_a_plugin_prints_at_import_is_no_json(tmp_path: Path) -> None:
    install(tmp_path, "talks", 'print("hello")\n' + textwrap.dedent(GOOD.format(name="talks")))
    done = python(tmp_path, 'from tilecopy_cli.builtin_commands import tilecopy; tilecopy(["variants", "--json"])')
    assert '"talks"' in done.stdout and "hello" not in done.stdout and "hello" in done.stderr


def test_damaged_metadata_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path, "torn", GOOD.format(name="torn"))
    (tmp_path / "acme_torn-2.5.dist-info" / "entry_points.txt").write_text("[tilecopy.variants.v1]\ntorn\n")
    install(tmp_path, "binary", GOOD.format(name="binary"))
    (tmp_path / "acme_binary-2.5.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[tilecopy]")
    install(tmp_path, "nameless", GOOD.format(name="nameless"))
    (tmp_path / "acme_nameless-2.5.dist-info" / "METADATA").unlink()
    done = python(tmp_path, PLAN)
    assert done.stdout.splitlines()[0] == "nameless", done.stderr
    assert mentions("acme-torn", "2.5").search(done.stderr)


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Compute for so many seconds of the thread's CPU time, by a clock of the test."""
    clock = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: clock[0])
    return lambda seconds: clock.append(clock.pop() + seconds)


def test_slow_hooks_and_imports_are_named(busy: Callable[[float], None]) -> None:
    lazy = Source("lazy", "acme-lazy", "2.5", lambda: busy(5) or variant("lazy", priority=1))
    slow = variant("slow", verdict=lambda request: busy(3) or tc.Accept())
    trace = wrapper("tilecopy_partition", lambda answer: busy(4) or answer)
    found = registry(lazy, source("slow", slow), source("trace", trace))
    with pytest.warns(SlowPluginWarning) as warned:
        assert plan(found).variant == plan(found).variant == "slow"
    for values in (
        ("lazy", "acme-lazy", "2.5", "5.0"),
        ("slow", "acme-slow", "1.0", "tilecopy_predicate", "3.0", "TILECOPY_DISABLE=slow"),
        ("trace", "acme-trace", "1.0", "tilecopy_partition", "4.0"),
    ):
        assert sum(mentions(*values).search(str(each.message)) is not None for each in warned) == 1


def test_hooks_and_imports_that_wait_are_not_slow() -> None:
    """On a busy machine every hook waits."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", SlowPluginWarning)
        waits = variant("waits", verdict=lambda request: time.sleep(2.1) or tc.Accept())
        assert plan(registry(source("waits", waits))).variant == "waits"


def test_an_executor_that_fails_to_load_is_named(tmp_path: Path) -> None:
    install(tmp_path, "dud", "import sys; sys.exit(1)", group="executors.v1")
    install(tmp_path, "empty", "plug = 1", group="executors.v1")
    install(tmp_path, "cuda", "raise AssertionError('imported')", group="executors.v1", package="acme-impostor")
    install(tmp_path, "twin", "", group="executors.v1", package="acme-one")
    install(tmp_path, "twin", "", group="executors.v1", package="acme-two")
    done = python(
        tmp_path,
        """
        import tilecopy as tc
        from types import FrameType, SimpleNamespace
        from tilecopy.executors import choose_executor, get_executor, executors
        print(list(executors()))
        print(choose_executor(None, SimpleNamespace(name="k")).name)
        for name in ("dud", "empty", "twin", "cudda", 5):
            try:
                get_executor(name)
            except tc.TilecopyError as error:
                print(type(error).__name__, error)
        """,
        CUDA_VISIBLE_DEVICES="",
    )
    assert done.returncode == 0, done.stderr
    listed, chosen, *lines = done.stdout.splitlines()
    assert listed == "['cuda', 'dud', 'empty', 'emulator', 'twin']"
    assert chosen == "emulator", "what fails to load is passed over"
    assert lines[0].startswith(
        "PluginError executor dud: acme-dud 2.5 failed to load: SystemExit: 1; pip install --upgrade"
    )
    assert lines[1].startswith("PluginError executor empty: acme-empty 2.5 failed to load: TypeError")
    assert "registered by acme-one 2.5 and by acme-two 2.5" in lines[2]
    assert "did you mean cuda" in lines[3] and "got 5" in lines[4]


@pytest.mark.parametrize(
    ("requirement", "core", "excluded"),
    [
        ("tilecopy-core>=0.2", "0.1.0", True),
        ("tilecopy_core (>=0.2,<1)", "0.1.9", True),
        ("tilecopy-core[cli]~=1.0", "0.9", True),
        ("tilecopy-core>0.1", "0.1.0", True),
        ("Tilecopy.Core==0.3.*", "0.2", True),
        ("tilecopy-core>=0.1,<0.2", "0.1.0", False),
        ("tilecopy-core<0.1", "0.5", True),
        ("tilecopy-core>=0.1,<0.2", "0.2.0", True),
        ("tilecopy-core>=0.1,<=0.2", "0.2.0", False),
        ("tilecopy-core~=0.1", "0.2.0", False),
        ("tilecopy-core~=0.1.3", "0.2.0", True),
        ("tilecopy-core~=0.2.0", "0.2.4", False),
        ("tilecopy-core==0.2.*", "0.2.4", False),
        ("tilecopy-core==1.0.*", "1.0.0", False),
        ("tilecopy-core!=0.2.0", "0.2", True),
        ("tilecopy-core!=0.1.*", "0.2", False),
        ("tilecopy-core==0.1.0", "0.2", True),
        ("tilecopy-core>=0.1.0.0", "0.1", False),
        ("tilecopy-core", "0.1", False),
        ("tilecopy-core>=9; extra == 'new'", "0.1", False),
        ("tilecopy-core-tools>=9", "0.1", False),
        ("tilecopy-core @ file:///tmp/x", "0.1", False),
        ("", "0.1", False),
    ],
)
def test_which_requirements_exclude_the_core(requirement: str, core: str, excluded: bool) -> None:
    """As packaging has it, for what is no pre-release and has no marker."""
    assert bool(core_excluded((requirement,), core)) == excluded


def _emitting(write: Any) -> tc.Registry:
    """A registry of one variant that takes everything and emits by ``write``."""

    class Writes:
        variant = tc.Variant("writes", "copy", 99, "whatever it is told", (("global", "shared"),))

        @tc.hookimpl
        def tilecopy_predicate(self, request: tc.CopyRequest) -> tc.Verdict:
            return tc.Accept()

        @tc.hookimpl
        def tilecopy_partition(self, request: tc.CopyRequest) -> str:
            return "all"

        @tc.hookimpl
        def tilecopy_emit(self, request: tc.CopyRequest, partition: str, ptx: Any) -> None:
            write(ptx)

    registry = tc.Registry([], environ={})
    registry.register(Writes(), name="writes")
    return registry


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda ptx: None, ()),
        (lambda ptx: ptx.comment("nothing"), ()),
        (lambda ptx: ptx.raw("// nothing"), ()),
        (lambda ptx: ptx.if_(ptx.reg("pred")).__enter__(), ()),
        (lambda ptx: ptx.raw("bra nowhere;"), ("nowhere",)),
        (lambda ptx: ptx.raw("ret;"), ("ret",)),
        (lambda ptx: ptx.raw("}"), ("}",)),
        (lambda ptx: ptx.raw("{ bar.sync 0;"), ("{",)),
        (lambda ptx: ptx.instr("mov.u32", "%r77", 1), ("%r77",)),
    ],
)
def test_text_that_cannot_stand_in_a_kernel_is_the_variants_fault(write: Any, message: tuple[object, ...]) -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32,), "float32"), k.shared((32,), "float32")
    k.cta.copy(s[:], a[:])
    with pytest.raises(tc.PluginError, match=mentions("writes", *message, "TILECOPY_DISABLE=writes")):
        k.build(target="sm_80", registry=_emitting(write))


def test_an_instruction_that_the_emulator_does_not_know_names_its_statement() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32,), "float32"), k.shared((32,), "float32")
    k.cta.copy(s[:], a[:])
    built = k.build(target="sm_80", grid=1, registry=_emitting(lambda ptx: ptx.instr("bogus.u32", ptx.reg("b32"), 1)))
    with pytest.raises(tc.TilecopyError, match=mentions("bogus.u32", "smem0", "test_registry")):
        built(np.zeros(32, np.float32), executor="emulator")
