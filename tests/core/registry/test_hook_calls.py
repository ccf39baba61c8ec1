"""Calls of hooks: wrappers and their order, what a wrapper may do, and slow hooks."""

from __future__ import annotations

import asyncio
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.scripted_variants import LibraryError, build, plan, registry, source, variant

from tilecopy_core.plugin import short_repr
from tilecopy_core.registry import PluginWarning, SlowPluginWarning, Source
from tilecopy_core.registry.hookspecs import HOOKS


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

    installed = registry(source("a", variant("a")), source("b", variant("b")))
    installed.register(
        SimpleNamespace(tilecopy_predicate=tilecopy_predicate, tilecopy_partition=tilecopy_partition), name="trace"
    )
    plan(installed)
    assert seen == ["predicate", "predicate", "partition"]


def test_a_misspelt_hook_is_told_with_the_one_that_is_meant() -> None:
    class Misspelt:
        @tc.hookimpl
        def tilecopy_partitions(self, request: tc.CopyRequest) -> None:
            """Not a hook."""

        @tc.hookimpl(optionalhook=True)
        def tilecopy_later(self) -> None:
            """One of a later version."""

    installed = registry(source("good", variant("good")))
    installed.register(Misspelt(), name="mine")
    reason = ("tilecopy_partitions", "tilecopy_partition")
    with pytest.warns(PluginWarning, match=mentions(*reason)):
        assert plan(installed).variant == "good"


def test_messages_about_plugins_have_no_ids_of_objects() -> None:
    class Wrong:
        @tc.hookimpl
        def tilecopy_partition(self, nothing: Any) -> None:
            """Takes what the hook does not have."""

    def fails(request: tc.CopyRequest) -> Any:
        raise ValueError(f"{request} by {fails} and {object()}")

    texts = []
    for _ in range(2):
        installed = registry(source("good", variant("good")), source("bad", variant("bad", verdict=fails)))
        wrong = Wrong()
        installed.register(wrong, name="mine")
        with pytest.warns(PluginWarning) as caught:
            reasons = plan(installed).declined
        texts.append([str(warning.message) for warning in caught])
        assert f"{id(fails):x}" not in reasons["bad"] and str(id(wrong)) not in reasons["mine"]
    assert texts[0] == texts[1] and any("'mine'" in text for text in texts[0])
    assert f"{id(texts):x}" not in short_repr((lambda: 0, object())) and "at 0x7f>" in short_repr("at 0x7f>")


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
        installed = registry(source("a", variant("a")), source("trace", wrapper(hook, fail), "acme-trace", "2.0"))
        with pytest.warns(PluginWarning) as warned:
            assert "emitted by a" in build(installed).ptx
        assert len(warned) == 1
        said = mentions("acme-trace", "2.0", hook, "ZeroDivisionError", "in the tracer", "TILECOPY_DISABLE=trace")
        assert said.search(str(warned[0].message))
        assert mentions("acme-trace", "2.0").search(plan(installed).declined["trace"])
        strict = registry(source("a", variant("a")), source("trace", wrapper(hook, fail)), TILECOPY_STRICT="1")
        with pytest.raises(tc.PluginError, match=mentions("trace", "acme-trace", "1.0")):
            build(strict)


def test_a_wrapper_that_swallows_does_not_cost_the_copy() -> None:
    for hook in HOOKS[:2]:
        installed = registry(source("a", variant("a")), source("trace", wrapper(hook, lambda answer: None)))
        with pytest.warns(PluginWarning, match=mentions("acme-trace", "1.0", hook)):
            assert plan(installed).variant == "a"


def test_a_wrapper_gives_what_the_hook_may_answer() -> None:
    for hook, wrong in (("tilecopy_predicate", True), ("tilecopy_partition", 3)):
        installed = registry(
            source("a", variant("a")), source("trace", wrapper(hook, lambda answer, wrong=wrong: wrong))
        )
        with pytest.warns(PluginWarning, match=mentions("wrapper", hook, wrong)):
            assert plan(installed).partition == "split"


def test_a_wrapper_of_emit_answers_nothing() -> None:
    late = wrapper("tilecopy_emit", lambda answer: tc.Decline("too late"))
    installed = registry(source("a", variant("a")), source("late", late))
    with pytest.warns(PluginWarning, match=mentions("late", "acme-late", "1.0")):
        assert build(installed).ptx.count("emitted by a") == 1


def test_only_the_wrapper_that_raised_is_set_aside() -> None:
    def fail(answer: Any) -> Any:
        raise ZeroDivisionError

    seen: list[Any] = []
    installed = registry(
        source("a", variant("a")),
        source("bad", wrapper("tilecopy_predicate", fail)),
        source("fine", wrapper("tilecopy_predicate", lambda answer: seen.append(answer) or answer)),
    )
    with pytest.warns(PluginWarning, match=mentions("bad")):
        plan(installed)
    plan(installed)
    assert seen[-1] == tc.Accept() and "fine" not in plan(installed).declined


def test_a_wrapper_may_decline_and_the_reason_says_who() -> None:
    no = wrapper("tilecopy_predicate", lambda answer: tc.Decline("not on a Monday"))
    with pytest.raises(tc.NoVariantError, match=mentions("Monday", "policy", "acme-policy", "1.0")):
        plan(registry(source("a", variant("a")), source("policy", no)))


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), LibraryError("x")])
@pytest.mark.parametrize("late", [False, True])
def test_whatever_a_wrapper_raises_is_its_own_fault(error: BaseException, *, late: bool) -> None:
    @tc.hookimpl(wrapper=True)
    def tilecopy_predicate(request: Any) -> Any:
        if not late:
            raise error
        yield
        raise error

    installed = registry(
        source("a", variant("a")), source("bad", SimpleNamespace(tilecopy_predicate=tilecopy_predicate))
    )
    with pytest.warns(PluginWarning, match=mentions("bad", type(error).__name__)):
        assert plan(installed).variant == "a"


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

    installed = registry(source("a", variant("a")), source("writes", SimpleNamespace(tilecopy_emit=tilecopy_emit)))
    with pytest.raises(tc.PluginError, match=mentions("acme-writes", "1.0")):
        build(installed)


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
    installed = registry(source("bad", variant("bad", emit=KeyError("x"))), source("quiet", quiet))
    with pytest.raises(tc.PluginError, match=mentions("bad", "acme-bad", "1.0", "tilecopy_emit")):
        build(installed)


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
    installed = registry(source("a", plugin), source("b", variant("b")))
    installed.register(SimpleNamespace(look=look), name="trace")
    assert plan(installed).declined["a"] == "renamed"
    assert seen == [tc.Decline("renamed"), tc.Accept()]


def test_a_wrapper_cannot_be_asked_for() -> None:
    installed = registry(
        source("a", variant("a")), source("trace", wrapper("tilecopy_predicate", lambda answer: answer))
    )
    with pytest.raises(tc.PluginError, match=mentions("trace")):
        plan(installed, variant="trace")


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
    installed = registry(lazy, source("slow", slow), source("trace", trace))
    with pytest.warns(SlowPluginWarning) as warned:
        assert plan(installed).variant == plan(installed).variant == "slow"
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
