"""Dispatch: which variants are asked, in which order, who is chosen, and what a plan says."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.scripted_variants import BAR, ODD, LibraryError, build, plan, registry, source, variant

from tilecopy_core.description.request import COMPLETIONS, Option
from tilecopy_core.registry import PluginWarning, installed_sources


def test_priority_then_name_decide_and_partition_and_emit_go_to_the_winner_alone() -> None:
    plugins = {
        "b": variant("b"),
        "a": variant("a"),
        "z": variant("z", priority=20),
        "no": variant("no", priority=99, verdict=tc.Decline("not mine")),
    }
    installed = registry(*(source(name, plugin) for name, plugin in plugins.items()))
    chosen = plan(installed)
    assert chosen.variant == "z"
    assert list(chosen.declined) == ["no", "a", "b"]
    assert chosen.declined["no"] == "not mine" and "accepts the copy, but its priority 10" in chosen.declined["a"]
    assert plugins["z"].calls == ["predicate", "partition"]
    assert all(plugins[name].calls == ["predicate"] for name in ("a", "b", "no"))
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
    k.warp.copy(s[:, :], a[:, :])
    assert "emitted by z" in k.build(target="sm_90a", grid=1, registry=installed).ptx
    assert plan(registry(source("b", variant("b")), source("a", variant("a")))).variant == "a"


def test_requests_of_one_registry_are_told_apart() -> None:
    """What is found out of the records is kept, for the target and the variant that were asked for."""
    installed = registry(source("new", variant("new", priority=20, features=("sm_90",))), source("old", variant("old")))
    for _ in range(2):
        assert plan(installed).variant == "new"
        assert plan(installed, target="sm_80").variant == "old"
        assert plan(installed, variant="old").variant == "old"


def test_a_build_reads_the_environment_once_per_copy() -> None:
    class Environment(dict[str, str]):
        reads: list[str] = []

        def get(self, name: str, default: Any = None) -> Any:
            self.reads.append(name)
            return super().get(name, default)

    environment = Environment()
    installed = tc.Registry([source("a", variant("a")), source("b", variant("b"))], environ=environment)
    build(installed)
    environment.reads.clear()
    build(installed)
    assert environment.reads.count("TILECOPY_PRIORITY") == 1


def test_a_plan_is_emitted_by_its_variant_also_if_later_dispatches_may_not_choose_it() -> None:
    environment: dict[str, str] = {}
    installed = tc.Registry([source("a", variant("a")), source("b", variant("b"))], environ=environment)
    chosen = plan(installed)
    environment["TILECOPY_DISABLE"] = chosen.variant
    assert "emitted by a" in tc.ptx_text(chosen, registry=installed)
    assert (chosen.variant, plan(installed).variant) == ("a", "b")


def test_a_plugin_that_is_removed_during_a_dispatch_is_the_one_that_is_named() -> None:
    """TILECOPY_ONLY then names what is not there, which is not the fault of the variant that is asked next."""
    installed = registry(
        source(
            "first",
            variant("first", priority=30, verdict=lambda _: installed.unregister("gone") or tc.Decline("not mine")),
        ),
        source("innocent", variant("innocent", priority=20)),
        source("gone", variant("gone", priority=10)),
        TILECOPY_ONLY="first,innocent,gone",
    )
    with pytest.raises(tc.PluginError, match=mentions("TILECOPY_ONLY", "gone")) as caught:
        plan(installed)
    assert "innocent" not in str(caught.value).replace("first,innocent,gone", "")


def test_a_dispatch_goes_on_without_a_plugin_that_is_removed() -> None:
    installed = registry(
        source(
            "first",
            variant("first", priority=30, verdict=lambda _: installed.unregister("first") or tc.Decline("not mine")),
        ),
        source("innocent", variant("innocent", priority=20)),
    )
    assert plan(installed).variant == "innocent" and plan(installed).variant == "innocent"


def test_a_variant_may_still_decline_in_partition() -> None:
    installed = registry(
        source("first", variant("first", priority=20, partition=tc.Decline("too odd"))), source("next", variant("next"))
    )
    chosen = plan(installed)
    assert chosen.variant == "next" and chosen.declined["first"] == "too odd"


@pytest.mark.parametrize("hook", ["predicate", "partition"])
def test_an_exception_in_a_hook_declines_that_request_alone(hook: str) -> None:
    answers = (
        {"verdict": ZeroDivisionError("oops")} if hook == "predicate" else {"partition": ZeroDivisionError("oops")}
    )
    sources = (source("bad", variant("bad", priority=20, **answers)), source("good", variant("good")))
    installed = registry(*sources)
    with pytest.warns(PluginWarning, match=mentions("bad", "acme-bad", "1.0")):
        chosen = plan(installed)
    assert chosen.variant == "good"
    place = mentions(
        "acme-bad 1.0", f"tilecopy_{hook}", "ZeroDivisionError: oops", variant.__module__, "TILECOPY_DISABLE=bad"
    )
    assert place.search(chosen.declined["bad"])
    assert plan(installed).variant == "good"  # said once
    with pytest.raises(tc.PluginError, match="oops"):
        plan(registry(*sources), variant="bad")
    with pytest.raises(tc.PluginError, match="oops"):
        plan(registry(*sources, TILECOPY_STRICT="1"))


def test_an_exception_of_a_hook_is_reported_with_the_line_of_the_hook_s_file() -> None:
    def predicate(request: tc.CopyRequest) -> tc.Verdict:
        return attrs.evolve(request, dst=None)  # line 2 of this function; attrs and the core raise further in

    line = predicate.__code__.co_firstlineno + 1
    with pytest.raises(tc.PluginError, match=mentions("bad", line, __name__)):
        plan(registry(source("bad", variant_of(predicate))), variant="bad")


def variant_of(predicate: Any) -> Any:
    """A variant whose predicate is the function itself."""
    return SimpleNamespace(**vars(variant("bad")) | {"tilecopy_predicate": tc.hookimpl(predicate)})


def test_variants_that_are_left_out_for_one_reason_are_listed_together() -> None:
    names = ("a", "b", "c", "kept")
    installed = registry(*(source(name, variant(name)) for name in names), TILECOPY_ONLY="kept")
    assert plan(installed).explain().count("TILECOPY_ONLY") == 1
    narrow = registry(
        source("kept", variant("kept", verdict=tc.Decline("no"))),
        *(source(n, variant(n)) for n in "abc"),
        TILECOPY_ONLY="kept",
    )
    with pytest.raises(tc.NoVariantError, match=mentions("a", "b", "c", "kept")) as failure:
        plan(narrow)
    assert str(failure.value).count("TILECOPY_ONLY") == 1


def test_an_option_is_not_unknown_if_the_demanded_variant_lowers_another_op() -> None:
    option = Option("bar", (int,), "a number")
    sources = source("later", variant("later", op="copy_async", options=(option,))), source("now", variant("now"))
    with pytest.raises(tc.NoVariantError, match=mentions("later", "copy_async")) as failure:
        plan(registry(*sources), variant="later", bar=1)
    assert type(failure.value) is tc.NoVariantError
    with pytest.raises(tc.RequestError, match=mentions("bar", "copy_async", "later")):
        plan(registry(*sources), bar=1)


def test_the_error_of_a_demanded_variant_leaves_out_other_packages() -> None:
    installed = registry(
        source("broken", ImportError("gone")), source("no", variant("no", verdict=tc.Decline("not mine")))
    )
    with pytest.warns(PluginWarning, match=mentions("broken")), pytest.raises(tc.NoVariantError) as failure:
        plan(installed, variant="no")
    assert mentions("no", "not mine").search(str(failure.value)) and not mentions("broken").search(str(failure.value))


def test_a_misspelt_parameter_of_a_copy_is_named() -> None:
    with pytest.raises(tc.RequestError, match=mentions("ouside", "outside")):
        plan(registry(source("a", variant("a"))), ouside="zero")


def test_a_partition_of_none_is_a_fault() -> None:
    installed = registry(source("a", variant("a", priority=20, partition=None)), source("b", variant("b")))
    with pytest.warns(PluginWarning, match=mentions("acme-a", "1.0", "tilecopy_partition")):
        assert plan(installed).variant == "b"


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


def test_explain_has_at_most_ten_lines() -> None:
    reasons = {f"v{n}": variant(f"v{n}", verdict=tc.Decline(f"reason\n{n}")) for n in range(20)}
    reasons |= {f"a{n}": variant(f"a{n}", op="copy_async") for n in range(5)}
    plugins = [source(name, each) for name, each in reasons.items()]
    said = plan(registry(*plugins, source("good", variant("good", partition=5)))).explain()
    assert len(said.splitlines()) <= 10 and "; only for copy_async: a0, a1, a2, a3, a4" in said
    assert "v7 (reason 7); " in said


def test_an_explanation_does_not_depend_on_which_variants_are_imported() -> None:
    """A copy imports the first-party variants of its op alone; ``plugins`` and the strict mode import all."""
    installed, strict = tc.Registry(), tc.Registry(environ={"TILECOPY_STRICT": "1"})
    first = plan(installed)
    assert {plugin.status for plugin in installed.table("copy").plugins} == {"ready", "other op"}
    assert {plugin.status for plugin in installed.plugins()} == {"ready"}
    for later in (plan(installed), plan(strict)):
        assert later.explain() == first.explain() and later.declined == first.declined
    for demanded in ("tma", "bulk"):
        with pytest.raises(tc.NoVariantError, match=mentions(demanded, "copy_async")):
            plan(tc.Registry(), variant=demanded)


@pytest.mark.filterwarnings("ignore:variant tma is set aside")
def test_a_variant_of_another_op_is_named_as_an_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is imported or not, and though another package claims its name."""
    for sources in ((), (source("tma", variant("tma"), package="acme-evil"),)):
        installed = tc.Registry((*installed_sources("tilecopy.variants.v1"), *sources))
        for _ in range(2):
            with pytest.raises(tc.RequestError, match=mentions("bogus")):
                plan(installed, variant="tma", bogus=1)
            with pytest.raises(tc.NoVariantError, match=mentions("tma", "copy_async")):
                plan(installed, variant="tma")
            assert plan(installed, variant=("tma", "gmem_smem")).variant == "gmem_smem"
            names = [outcome.name for outcome in plan(installed).outcomes]
            assert len(names) == len(set(names)) and "tma" in names
            installed.plugins()
    moved = attrs.evolve(plan(installed), variant="tma")
    with pytest.raises(tc.PluginError, match=mentions("tma", "copy_async")):
        moved.emit(None, None)
    monkeypatch.setattr(sys, "path", [])  # what is installed cannot be read any more
    assert plan(installed, target="sm_80").variant == "gmem_smem"


def test_a_registered_variant_with_the_name_of_another_op_is_asked() -> None:
    installed = tc.Registry()
    installed.unregister("tma")
    installed.register(variant("tma", priority=99), name="tma", package="tilecopy-tma")
    assert plan(installed).variant == "tma"


def test_dispatch_writes_no_ptx() -> None:
    code = (
        "import sys, tilecopy_core.dispatch.plan, tilecopy_core.registry; assert 'tilecopy_core.ptx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path("/"))


@pytest.mark.parametrize("hook", ["verdict", "partition"])
def test_a_hook_that_ends_the_process_is_a_fault(hook: str) -> None:
    installed = registry(
        source("bad", variant("bad", priority=20, **{hook: SystemExit(0)})), source("good", variant("good"))
    )
    with pytest.warns(PluginWarning, match="SystemExit"):
        assert plan(installed).variant == "good"


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


def test_a_variant_may_have_another_priority_for_one_copy() -> None:
    later = variant("later", priority=30, verdict=tc.Accept(priority=5))
    chosen = plan(registry(source("later", later), source("a", variant("a"))))
    assert chosen.variant == "a"
    assert chosen.declined["later"] == "the variant accepts the copy, but its priority 5 is lower than a's 10"
    assert later.calls == ["predicate"]
    alone = plan(registry(source("later", later)))
    assert (alone.variant, alone.priority) == ("later", 5)
    tied = plan(registry(source("later", later), source("first", variant("first", priority=5))))
    assert tied.variant == "first"
    assert (
        tied.declined["later"] == "the variant accepts the copy, but first also has priority 5 and comes first by name"
    )
    with pytest.raises(tc.PluginError, match=mentions("priority", "high")):
        tc.Accept(priority="high")  # type: ignore[arg-type]


def test_a_tie_is_explained() -> None:
    chosen = plan(registry(source("b", variant("b")), source("a", variant("a")), source("c", variant("c", priority=1))))
    assert chosen.variant == "a"
    assert chosen.declined["b"] == "the variant accepts the copy, but a also has priority 10 and comes first by name"
    assert chosen.declined["c"] == "the variant accepts the copy, but its priority 1 is lower than a's 10"
    said = "chosen: a (priority 10). Also possible: b (priority 10, later by name), c (priority 1). Package: "
    assert said in chosen.explain()
    assert (
        "chosen: b (priority 10), demanded by variant=. "
        in plan(registry(source("b", variant("b"))), variant="b").explain()
    )


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), LibraryError("x")])
@pytest.mark.parametrize("hook", ["verdict", "partition", "emit"])
def test_whatever_a_hook_raises_is_its_variants_fault(hook: str, error: BaseException) -> None:
    installed = registry(source("bad", variant("bad", priority=20, **{hook: error})), source("good", variant("good")))
    if hook == "emit":
        with pytest.raises(tc.PluginError, match=mentions("bad", type(error).__name__)):
            build(installed)
    else:
        with pytest.warns(PluginWarning, match=f"bad.*{type(error).__name__}"):
            assert plan(installed).variant == "good"


def test_an_interrupt_goes_through() -> None:
    for bad in (variant("bad", verdict=KeyboardInterrupt()), KeyboardInterrupt()):
        with pytest.raises(KeyboardInterrupt):
            plan(registry(source("bad", bad)))


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
    installed = registry(source("v", variant("v", options=(BAR,))))
    assert plan(installed).variant == "v"
    assert plan(installed, bar=None).variant == "v", "None is the same as nothing"
    with pytest.raises(tc.RequestError, match=mentions("bar")):
        plan(installed).emit(SimpleNamespace(comment=print), installed)  # type: ignore[arg-type]
    assert plan(installed, bar=3, active=IN_A_KERNEL).variant == "v"


def test_an_option_given_to_the_wrong_variant_is_never_dropped() -> None:
    installed = registry(
        source("plain", variant("plain", priority=1)),
        source("v", variant("v", options=(BAR, Option("tx", int, "bytes")))),
    )
    with pytest.raises(tc.NoVariantError) as caught:
        plan(installed, tx=1, active=IN_A_KERNEL)
    assert mentions("bar").search(caught.value.declined["v"])
    assert mentions("tx").search(caught.value.declined["plain"])
    fallen = plan(installed, active=IN_A_KERNEL)
    assert fallen.variant == "plain" and "chosen: plain (priority 1). Package" in fallen.explain()
    assert (
        "declined: v (option bar is required in a kernel but was not given; it must be the number of a barrier)"
        in fallen.explain()
    )


def test_what_completes_a_copy_is_data() -> None:
    said = plan(registry(source("v", variant("v"))))
    assert said.completion == "barrier" and "completion: barrier; the copying threads" in said.explain()
    grouped = plan(registry(source("v", variant("v", op="copy_async", completion="cp_async_group"))), op="copy_async")
    assert grouped.completion_steps == COMPLETIONS["cp_async_group"]
    steps = "; ".join(grouped.completion_steps)
    assert f"completion: cp_async_group; {steps}" in grouped.explain()
    own = variant("v", op="copy_async", completion="doorbell", completion_steps=["ring", "wait"])
    assert plan(registry(source("v", own)), op="copy_async").completion_steps == ("ring", "wait")
    silent = plan(registry(source("v", variant("v", op="copy_async"))), op="copy_async")
    assert silent.completion == "undeclared"


@pytest.mark.parametrize("parameter", ["dst", "src", "op", "scope", "target", "variant", "active"])
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_plan_refuses_odd_values_in_words(parameter: str, value: Any) -> None:
    installed = registry(source("v", variant("v")))
    if value is None and parameter in ("variant", "active"):
        assert plan(installed, **{parameter: value}).variant == "v"
        return
    with pytest.raises(tc.TilecopyError):
        plan(installed, **{parameter: value})


def test_a_plan_is_data() -> None:
    installed = registry(source("v", variant("v", options=(BAR,))), source("w", variant("w", priority=1)))
    real = plan(tc.default_registry())
    assert pickle.loads(pickle.dumps(real)).explain() == real.explain()
    chosen = plan(installed, bar=3)
    for again in (pickle.loads(pickle.dumps(chosen)), copy.deepcopy(chosen)):
        assert again.explain() == chosen.explain() and again.declined == chosen.declined
        assert again.request.options["bar"] == 3

        class Ptx:
            lines: list[str] = []

            def comment(self, text: str) -> None:
                self.lines.append(text)

            def instr(self, opcode: str, *operands: object) -> None:
                pass

        again.emit(Ptx(), installed)  # type: ignore[arg-type]
        assert "emitted by v" in Ptx.lines
        with pytest.raises(tc.PluginError, match=mentions("v", "acme-v", "1.0")):
            again.emit(Ptx(), registry())  # type: ignore[arg-type]


def test_a_dispatch_costs_no_more_for_what_cannot_be_meant() -> None:
    calls: list[str] = []
    others = [
        source(f"o{i}", variant(f"o{i}", spaces=(("shared", "tmem"),), verdict=lambda r: calls.append("o")))
        for i in range(50)
    ]
    installed = registry(source("v", variant("v")), *others)
    assert plan(installed).variant == "v" and calls == []
    assert len(plan(installed).declined) == 50
    assert plan(installed).outcomes[0] is plan(installed).outcomes[0], "installed out once for requests of a kind"


def test_two_letters_of_a_variants_name_are_enough_for_a_hint() -> None:
    a, s = (tc.Buffer((32, 32), "float32", space=space, name=space) for space in ("global", "shared"))
    with pytest.raises(tc.NoVariantError, match="gmem_smem.*bulk,.*gmem_smem"):
        tc.plan(s[:, :], a[:, :], scope=tc.cta(128), target="sm_90a", variant="gm")
