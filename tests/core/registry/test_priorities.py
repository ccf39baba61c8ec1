"""Priorities of the user's own, by the environment, a registry and a context manager; and variants in an order of the user's."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy_cli.builtin_commands import tilecopy
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.scripted_variants import plan, registry, source, variant

from tilecopy_core.registry import PluginWarning

A = tc.Buffer((32, 8), "float32", space="global", name="A")
TILE = tc.Buffer((32, 8), "float32", space="shared", name="tile")


def three(**environ: str) -> tc.Registry:
    """Variants ``low``, ``mid`` and ``high``, of priorities 1, 5 and 9."""
    return registry(*(source(n, variant(n, priority=p)) for n, p in (("low", 1), ("mid", 5), ("high", 9))), **environ)


def test_the_environment_sets_priorities() -> None:
    assert plan(three()).variant == "high" and plan(three()).priority_origin == ""
    found = plan(three(TILECOPY_PRIORITY=" low = 40 ,mid=-3,"))
    assert (found.variant, found.priority, found.priority_origin) == ("low", 40, "TILECOPY_PRIORITY")
    assert [each.name for each in three(TILECOPY_PRIORITY="low=40,mid=-3").plugins()] == ["low", "high", "mid"]
    chosen = next(line for line in found.explain().splitlines() if line.startswith("chosen"))
    assert "40" in chosen and "TILECOPY_PRIORITY" in chosen and "-3" in chosen
    for nothing in ("", " ", ","):
        assert plan(three(TILECOPY_PRIORITY=nothing)).variant == "high"


@pytest.mark.parametrize(
    "text",
    ["low", "low=", "=4", "low=x", "low=4.0", "low:4", "low=4=5", "low=4,low=5", f"low={2**70}", "lo=4", "low=٤x"],
)
def test_a_malformed_variable_is_refused(text: str) -> None:
    with pytest.raises(tc.PluginError, match="TILECOPY_PRIORITY"):
        plan(three(TILECOPY_PRIORITY=text))


def test_a_first_party_variant_that_is_not_installed_may_be_named() -> None:
    assert plan(three(TILECOPY_PRIORITY="tma=50")).variant == "high"
    with tc.priorities({"tma": 50}):
        assert plan(three()).variant == "high"


def test_a_registry_has_priorities_and_they_overrule_the_environment() -> None:
    sources = [source("a", variant("a", priority=5)), source("b", variant("b", priority=5))]
    found = plan(tc.Registry(sources, {"TILECOPY_PRIORITY": "b=7"}, priorities={"b": np.int64(2)}))  # type: ignore[dict-item]
    assert found.variant == "a" and "2, set by Registry(priorities=)" in found.explain()
    assert plan(tc.Registry(sources, {"TILECOPY_PRIORITY": "b=7"}, priorities={"a": 6})).variant == "b"


def test_a_block_overrules_both_and_ends() -> None:
    found = tc.Registry(
        [source(n, variant(n)) for n in ("a", "b", "c")], {"TILECOPY_PRIORITY": "b=70"}, priorities={"c": 60}
    )
    assert plan(found).variant == "b"
    with tc.priorities({"a": 90}):
        assert plan(found).variant == "a" and plan(found).priority_origin == "tc.priorities"
        with tc.priorities({"b": 95}):
            assert plan(found).variant == "b"
            assert [each.name for each in found.plugins()] == ["b", "a", "c"]
        with tc.priorities({"a": 1}):
            assert plan(found).variant == "b" and "priority 1, set by tc.priorities" in plan(found).explain()
        assert plan(found).variant == "a"
    assert plan(found).variant == "b"
    with pytest.raises(ZeroDivisionError), tc.priorities({"a": 90}):
        raise ZeroDivisionError
    assert plan(found).variant == "b"


def test_a_block_belongs_to_its_context() -> None:
    found, seen = three(), list[str]()
    with tc.priorities({"low": 90}):
        thread = threading.Thread(target=contextvars.Context().run, args=(lambda: seen.append(plan(found).variant),))
        thread.start()
        thread.join()
        inherited = contextvars.copy_context()
    assert seen == ["high"] and inherited.run(lambda: plan(found).variant) == "low"
    assert plan(found).variant == "high"


def test_it_also_overrules_what_a_predicate_answers() -> None:
    found = registry(
        source("modest", variant("modest", priority=50, verdict=tc.Accept(2))), source("other", variant("other"))
    )
    assert plan(found).variant == "other"
    with tc.priorities({"modest": 11}):
        assert plan(found).variant == "modest"


@pytest.mark.parametrize(
    "values", [None, "low=4", [("low", 4)], {"low": "4"}, {"low": 4.0}, {"low": True}, {5: 5}, {"low": 2**80}]
)
def test_bad_priorities_are_refused_at_once(values: Any) -> None:
    with pytest.raises(tc.RequestError):
        tc.priorities(values)
    if values is not None:
        with pytest.raises(tc.RequestError):
            tc.Registry([], {}, priorities=values)


def test_a_name_that_no_variant_has_is_refused() -> None:
    with tc.priorities({"hihg": 4}), pytest.raises(tc.PluginError, match=mentions("hihg", "high")):
        plan(three())
    with pytest.raises(tc.PluginError, match=mentions("hihg", "high")):
        plan(tc.Registry([source("high", variant("high"))], {}, priorities={"hihg": 4}))


def test_the_command_lists_the_priority_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILECOPY_PRIORITY", "ldgsts=77")
    told = CliRunner().invoke(tilecopy, ["variants"]).output
    line = next(line for line in told.splitlines() if "ldgsts" in line)
    assert "77" in line and "TILECOPY_PRIORITY" in told
    json = CliRunner().invoke(tilecopy, ["variants", "--json"]).output
    assert '"priority": 77' in json and '"priority_origin": "TILECOPY_PRIORITY"' in json


# ------------------------------------------------------------------------------------------- variant=("tma", "ldgsts")


def test_variants_are_asked_in_the_order_of_the_call_and_no_other() -> None:
    found = plan(three(), variant=("low", "high"))
    assert found.variant == "low" and found.demanded
    kinds = {outcome.name: outcome.kind for outcome in found.outcomes}
    assert kinds == {"high": "outranked", "mid": "not asked"}
    assert plan(three(), variant=["high", "low"]).variant == "high"
    with tc.priorities({"high": 99}):
        assert plan(three(), variant=("low", "high")).variant == "low"


def test_what_declines_leaves_the_copy_to_the_next_of_them() -> None:
    declining = registry(
        source("first", variant("first", verdict=tc.Decline("not the first"))),
        source("second", variant("second", partition=tc.Decline("not the second"))),
        source("third", variant("third", priority=-5)),
        source("fourth", variant("fourth", priority=99)),
    )
    found = plan(declining, variant=("first", "second", "third"))
    assert found.variant == "third" and found.declined["first"] == "not the first"
    with pytest.raises(tc.NoVariantError) as caught:
        plan(declining, variant=("second", "first"))
    text = str(caught.value)
    assert text.index("not the second") < text.index("not the first")
    assert caught.value.declined["fourth"].startswith("the variant was not asked")


def test_a_first_party_variant_of_the_order_that_is_absent_is_passed_over() -> None:
    found = plan(three(), variant=("gmem_smem", "mid"))
    assert found.variant == "mid" and "install" in found.declined["gmem_smem"]
    with pytest.raises(tc.NoVariantError, match="install"):
        plan(three(), variant=("gmem_smem", "reg"))
    with pytest.raises(tc.NoVariantError, match=mentions("hihg", "high")):
        plan(three(), variant=("low", "hihg"))
    broken = registry(source("bad", ImportError("x")), source("good", variant("good")))
    with pytest.warns(PluginWarning, match="bad"), pytest.raises(tc.PluginError, match="bad"):
        plan(broken, variant=("good", "bad"))


@pytest.mark.parametrize("wrong", [(), [], ("low", "low"), ("low", 3), ("low", None), 3, {"low"}, b"low", {"low": 1}])
def test_other_orders_are_refused(wrong: Any) -> None:
    with pytest.raises(tc.RequestError, match="variant"):
        plan(three(), variant=wrong)
    k = tc.KernelBuilder("k", threads=32)
    with pytest.raises(tc.RequestError, match="variant"):
        k.cta.copy(k.shared((32,), "float32")[:], k.param("A", (32,), "float32")[:], variant=wrong)


def test_a_kernel_takes_an_order() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, tile = k.param("A", (32, 4), "float32"), k.shared((32, 4), "float32")
    k.cta.copy_async(tile[:, :], a[:, :], variant=("bulk", "ldgsts"))
    kernel = k.build(target="sm_80", grid=1)
    assert kernel.plans[0].variant == "ldgsts" and "bulk" in kernel.plans[0].declined
    with tc.priorities({"ragged_async": 1000}):
        k = tc.KernelBuilder("k", threads=32)
        a, tile = k.param("A", (32, 4), "float32"), k.shared((32, 4), "float32")
        k.cta.copy_async(tile[:, :], a[:, :])
        assert k.build(target="sm_80", grid=1).plans[0].priority_origin == "tc.priorities"
