"""Records of variants and requests: malformed ones are refused, and a hook cannot change a request."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.scripted_variants import plan, registry, source, variant

from tilecopy_core.description.request import Option
from tilecopy_core.plugin import short_repr
from tilecopy_core.registry import PluginWarning, Source


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
    values_by_path = {path: value}
    for where, part in parts.items():
        values_by_path |= reached(part, where, seen)
    return values_by_path


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
    with pytest.raises(tc.PluginError, match=mentions(next(iter(fields)))):
        Option(**({"name": "o", "types": int, "meaning": "a number"} | fields))
    with pytest.raises(tc.PluginError, match=mentions("o")):
        variant("v", options=(Option("o", int, "a number"), Option("o", int, "a number")))
    with pytest.raises(tc.PluginError, match="'scope'"):
        variant("v", options=(Option("scope", int, "a number"),))


def test_options_of_a_request_cannot_be_changed() -> None:
    def mutate(request: Any) -> Any:
        request.options["x"] = 1

    takes = (Option("x", int, "a number"),)
    bad = variant("bad", priority=20, verdict=mutate, options=takes)
    with pytest.warns(PluginWarning, match=mentions("acme-bad", "1.0", "tilecopy_predicate")):
        chosen = plan(registry(source("bad", bad), source("good", variant("good", options=takes))), x=5)
    assert chosen.variant == "good" and dict(chosen.request.options) == {"x": 5}


def test_defaults_of_options() -> None:
    record = variant("v", options=(Option("n", int, "a count", default=4), Option("m", int, "a count"))).variant
    requests = [
        plan(registry(source("v", variant("v", options=record.options))), **given).request for given in ({}, {"n": 7})
    ]
    assert [record.option(request, "n") for request in requests] == [4, 7]
    assert record.option(requests[0], "m") is None
    with pytest.raises(tc.PluginError, match=mentions("k")):
        record.option(requests[0], "k")
