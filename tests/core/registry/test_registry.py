"""The registry: plugins that fail are set aside, names that clash, and the environment."""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.scripted_variants import ODD, TILE, A, LibraryError, plan, registry, source, variant

from tilecopy_core import PluginError
from tilecopy_core.registry import PluginWarning, Source


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (ImportError("no module named acme_rt"), "acme-bad 1.0 failed to load: ImportError: no module named acme_rt"),
        (SimpleNamespace(), "must have an attribute 'variant'"),
        (SimpleNamespace(variant="bad"), "must be a tilecopy_core.Variant"),
        (variant("other"), "the variant record must be named 'bad' like its entry point, got 'other'"),
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
        "the plugin was made for hook API tilecopy.variants.v0, but this core has v1",
    )
    chosen = plan(registry(old, source("good", variant("good"))))
    assert "made for hook API" in chosen.declined["old"]


def test_equal_plugin_objects_are_told_apart() -> None:
    class Equal(SimpleNamespace):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    plugins = [source(name, Equal(**vars(variant(name)))) for name in ("a", "b")]
    assert list(plan(registry(*plugins)).declined) == ["b"]


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        RecursionError("deep"),
        MemoryError(),
        ValueError("two\nlines"),
        asyncio.CancelledError(),
        GeneratorExit(),
        LibraryError("x"),
    ],
)
def test_whatever_an_import_raises_the_rest_goes_on(error: BaseException) -> None:
    found = registry(source("bad", error), source("good", variant("good")))
    with pytest.warns(PluginWarning, match=mentions("bad", "acme-bad", "1.0", "TILECOPY_DISABLE")):
        chosen = plan(found)
    assert chosen.variant == "good"
    assert type(error).__name__ in chosen.declined["bad"] and "pip uninstall acme-bad" in chosen.declined["bad"]


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


def test_a_name_is_free_again_when_its_rival_is_gone() -> None:
    twice = (source("twin", variant("twin"), "acme-one"), source("twin", variant("twin"), "acme-two"))
    found = registry(*twice, source("good", variant("good", priority=1)))
    with pytest.warns(PluginWarning, match=mentions("acme-one", "1.0", "acme-two")):
        assert plan(found).variant == "good"
    found.register(variant("twin"), name="twin")
    assert plan(found).package == "a registered object"
    needy = Source("twin", "acme-three", "1.0", lambda: pytest.fail("loaded"), needs="it requires tilecopy-core>=99")
    with pytest.warns(PluginWarning, match=mentions("acme-three", "1.0", "tilecopy-core", 99)):
        assert plan(registry(twice[0], needy)).package == "acme-one 1.0"


def test_the_environment_is_looked_up_at_each_use() -> None:
    environ: dict[str, str] = {}
    found = tc.Registry([source("a", variant("a")), source("b", variant("b"))], environ)
    assert plan(found).variant == "a"
    environ["TILECOPY_DISABLE"] = "a"
    assert plan(found).variant == "b"
    del environ["TILECOPY_DISABLE"]
    assert plan(found).variant == "a"


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


LATE = """
from tilecopy import Accept, Decline, Variant, hookimpl
variant = Variant("late_copy", "copy", 99, "a test", (("global", "shared"),))
@hookimpl
def tilecopy_predicate(request): return Accept()
@hookimpl
def tilecopy_partition(request): return "everything"
@hookimpl
def tilecopy_emit(request, partition, ptx): pass
"""


@pytest.mark.parametrize("present", [False, True])
def test_a_package_that_is_installed_while_the_process_runs_is_used_or_a_restart_is_asked_for(
    present: bool, package: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook: the error says what to install, and asking again after that works."""
    monkeypatch.setattr("tilecopy_core.registry.registry._of_this_process", functools.cache(tc.Registry))
    package("site", "acme_other", "1.0")
    if present:
        old = package("site", "acme_late", "1.0", "").with_name("acme_late-1.0.dist-info")
        (old / "entry_points.txt").write_text(
            "[tilecopy.variants.v1]\nlate_before = late_before_module\n", encoding="utf-8"
        )
        (tmp_path / "site" / "late_before_module.py").write_text(
            LATE.replace("late_copy", "late_before"), encoding="utf-8"
        )
    k = tc.KernelBuilder("k", threads=32)
    source, tile = k.param("A", (32, 8), "float32"), k.shared((32, 8), "float32")

    def planned() -> str:
        return tc.plan(tile[:, :], source[:, :], scope=tc.cta(32), target="sm_90", variant="late_copy").variant

    with pytest.raises(tc.NoVariantError):
        planned()
    if present:
        shutil.rmtree(old)
    info = package("site", "acme_late", "2.0", "")
    (info / "entry_points.txt").write_text("[tilecopy.variants.v1]\nlate_copy = late_copy_module\n", encoding="utf-8")
    (tmp_path / "site" / "late_copy_module.py").write_text(LATE, encoding="utf-8")
    if present:
        with pytest.raises(PluginError):
            planned()
    else:
        assert planned() == "late_copy"


def test_where_warnings_are_errors_every_copy_that_is_affected_fails(package: Callable[..., Path]) -> None:
    """numpy/numpy#24294: else one test of a run fails, whichever is the first."""
    info = package("site", "acme_torn", "1.0", "")
    (info / "entry_points.txt").write_text("[tilecopy.variants.v1]\ntorn = acme_gone\n", encoding="utf-8")
    registry = tc.Registry()
    for _ in range(3):
        with pytest.raises(PluginWarning):  # the suite makes errors of warnings
            registry.plugins()
