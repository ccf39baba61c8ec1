"""The error for a copy that no variant lowers: the nearest reason first, and what to install."""

from __future__ import annotations

import re

import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.scripted_variants import BAR, plan, registry, source, variant


def test_no_variant_says_why_for_each_and_what_to_install() -> None:
    with pytest.raises(tc.NoVariantError) as caught:
        plan(registry(source("shy", variant("shy", verdict=tc.Decline("not today")))))
    assert caught.value.declined == {"shy": "not today"}
    assert mentions("shy", "today").search(str(caught.value))
    assert mentions("gmem_smem", "plugins/gmem_smem").search(str(caught.value))
    with pytest.raises(tc.NoVariantError, match=mentions("copy_async", "plugins/ldgsts")):
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
    install_commands = ("plugins/partitions",)
    for installed, demanded, first in (
        (registry(), None, ()),
        (registry(), "tma", ("tma",)),
        (one, None, ("shy", "today")),
        (one, "ldgst", ("ldgst", "shy")),
    ):
        with pytest.raises(tc.NoVariantError, match=mentions(*first, *install_commands)):
            plan(installed, variant=demanded)
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


def test_an_option_that_nobody_knows_is_a_mistake_of_the_request() -> None:
    found = registry(source("v", variant("v", options=(BAR,))), source("other", variant("other", op="copy_async")))
    with pytest.raises(tc.RequestError, match=mentions("barr", "bar")) as e:
        plan(found, barr=1)
    assert isinstance(e.value, tc.NoVariantError) and set(e.value.declined) == {"v", "other"}
    with pytest.raises(tc.NoVariantError, match=mentions("plugins/tcgen05_cp")) as missing:
        plan(found, op="copy_async", cta_group=1, variant="tcgen05_cp")
    assert not isinstance(missing.value, tc.RequestError), "a first-party variant that could be installed knows it"


def test_a_variant_that_is_asked_for_by_a_misspelt_name() -> None:
    with pytest.raises(tc.NoVariantError, match=mentions("gmem_smem")):
        plan(registry(), variant="gmem_smen")
