"""The example tilecopy_observe: it sees every dispatch, and whatever goes wrong in it, plans and text stay as they are."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.registry import Source
from tilecopy_core.registry.hookspecs import DISPATCH, HOOKS

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "tilecopy_observe"
sys.path.insert(0, str(EXAMPLE / "src"))
from tilecopy_observe import Observer, show

TAKES = {"tilecopy_emit": "request, variant", DISPATCH: "request"}
"""The arguments of the example's hooks; the others take ``variant``."""


def variant(name: str, priority: int, verdict: Any = None, partition: Any = "split", emit: Any = None) -> Source:
    """A source with a variant that answers as told; exceptions are raised."""

    def told(value: Any) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    @tc.hookimpl
    def tilecopy_predicate() -> Any:
        return told(tc.Accept() if verdict is None else verdict)

    @tc.hookimpl
    def tilecopy_partition() -> Any:
        return told(partition)

    @tc.hookimpl
    def tilecopy_emit(ptx: Any) -> None:
        told(emit)
        ptx.comment(f"emitted by {name}")
        ptx.instr("bar.warp.sync", "0xffffffff")

    plugin = SimpleNamespace(
        variant=tc.Variant(name, "copy", priority, "a test", (("global", "shared"),)),
        tilecopy_predicate=tilecopy_predicate,
        tilecopy_partition=tilecopy_partition,
        tilecopy_emit=tilecopy_emit,
    )
    return Source(name, f"acme-{name}", "1.0", lambda: plugin)


def variants(**taken: Any) -> list[Source]:
    """One that declines at once, one that declines late, the one that is taken, and one that would come after it."""
    return [
        variant("no", 99, verdict=tc.Decline("not mine")),
        variant("late", 50, partition=tc.Decline("too odd")),
        variant("taken", 20, **taken),
        variant("other", 10),
    ]


def built(registry: tc.Registry) -> tuple[str, dict[str, str], str]:
    """Who lowers a copy, why the others do not, and the text; or what is raised instead."""
    k = tc.KernelBuilder("k", threads=32)
    a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
    k.warp.copy(s[:, :], a[:, :])
    try:
        kernel = k.build(target="sm_90a", grid=1, registry=registry)
    except tc.TilecopyError as error:
        return type(error).__name__, {}, str(error).split("set aside")[0]
    (plan,) = kernel.plans
    return plan.variant, {name: why for name, why in plan.declined.items() if name != "observe"}, kernel.ptx


def observed(observer: Any, *sources: Source, **environ: str) -> tc.Registry:
    return tc.Registry([*sources, Source("observe", "tilecopy-observe", "0.2.0", lambda: observer)], environ)


def test_it_sees_request_verdicts_reasons_choice_and_times() -> None:
    observer = Observer()
    built(observed(observer, *variants()))
    (dispatch,) = observer.dispatches
    assert (dispatch.request.op, dispatch.chosen) == ("copy", "taken") and dispatch.seconds > 0
    told = {name: (answer.verdict, answer.reason) for name, answer in dispatch.answers.items()}
    assert told == {
        "no": ("declined", "not mine"),
        "late": ("declined", "too odd"),
        "taken": ("chosen", ""),
        "other": ("accepted", "the variant accepts the copy, but its priority 10 is lower than taken's 20"),
    }
    assert all(answer.predicate_seconds > 0 for answer in dispatch.answers.values())
    assert [name for name, answer in dispatch.answers.items() if answer.partition_seconds] == ["late", "taken"]
    assert [name for name, answer in dispatch.answers.items() if answer.emit_seconds] == ["taken"]


def test_it_sees_copies_that_nobody_takes_and_variants_that_raise() -> None:
    observer = Observer()
    with pytest.warns(tc.PluginWarning, match=mentions("bad")):
        built(observed(observer, variant("no", 9, verdict=tc.Decline("not mine")), variant("bad", 8, KeyError("x"))))
    (dispatch,) = observer.dispatches
    assert dispatch.chosen == ""
    assert {name: answer.verdict for name, answer in dispatch.answers.items()} == {"no": "declined", "bad": "raised"}
    assert "KeyError" in dispatch.answers["bad"].reason
    page = io.StringIO()
    show(observer, page)
    assert "no variant" in page.getvalue() and "not mine" in page.getvalue()


def fails(*_: Any) -> Any:
    raise ZeroDivisionError("in the observer")


def leaves(*_: Any) -> Any:
    sys.exit("in the observer")


def gives(value: Any) -> Callable[[Any], Any]:
    return lambda answer: value


AFTER = {
    "raises after": fails,
    "exits after": leaves,
    "gives None": gives(None),
    "gives a decline": gives(tc.Decline("not on a Monday")),
    "gives an accept": gives(tc.Accept()),
    "gives another partition": gives("another split"),
    "gives something else": gives(5),
}
TEXTS = {
    "raises before": "fails()\n answer = yield from given\n return answer",
    "exits before": "leaves()\n answer = yield from given\n return answer",
    "does not yield": "return\n yield",
    "yields twice": "answer = yield from given\n yield\n return answer",
}
CASES = [(hook, what) for hook in (*HOOKS, DISPATCH) for what in (*TEXTS, *AFTER)]


def planted(hook: str, what: str) -> Observer:
    """The example with a fault in one of its hooks."""
    takes = TAKES.get(hook, "variant")
    body = TEXTS.get(what, "answer = yield from given\n return after(answer)")
    text = f"def {hook}(self, {takes}):\n given = Observer.{hook}(self, {takes})\n {body}"
    space: dict[str, Any] = {"Observer": Observer, "fails": fails, "leaves": leaves, "after": AFTER.get(what)}
    exec(text, space)
    return type("Faulty", (Observer,), {hook: tc.hookimpl(wrapper=True)(space[hook])})()


@pytest.mark.parametrize(("hook", "what"), CASES, ids=lambda value: value)
def test_a_fault_in_any_of_its_hooks_changes_nothing(hook: str, what: str) -> None:
    if (hook, what) == ("tilecopy_emit", "gives None"):
        pytest.skip("that is what it was handed")
    found = observed(planted(hook, what), *variants())
    with pytest.warns(tc.PluginWarning) as warned:
        assert built(found) == built(tc.Registry(variants(), {}))
    assert len(warned) == 1 and mentions("observe", "tilecopy-observe", "0.2.0", hook).search(str(warned[0].message))
    assert built(found) == built(tc.Registry(variants(), {})), "and nothing is said again"


@pytest.mark.parametrize(("hook", "what"), CASES, ids=lambda value: value)
@pytest.mark.filterwarnings("ignore::tilecopy_core.PluginWarning")
def test_what_a_variant_raises_is_what_it_was(hook: str, what: str) -> None:
    for at in ("verdict", "partition", "emit"):
        bad = variants(**{at: KeyError("of the variant")})
        assert built(observed(planted(hook, what), *bad)) == built(tc.Registry(bad, {}))
    nobody = variants()[:1]
    kind, _, message = built(observed(planted(hook, what), *nobody))
    assert kind == "NoVariantError" and "no: not mine" in message


def test_a_strict_process_raises() -> None:
    found = observed(planted("tilecopy_predicate", "raises after"), *variants(), TILECOPY_STRICT="1")
    kind, _, message = built(found)
    assert kind == "WrapperError" and message.startswith("wrapper observe: tilecopy-observe 0.2.0 is faulty")


@pytest.mark.parametrize("takes", ["ptx", "request, ptx=None"])
def test_an_observer_may_not_write(takes: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def tilecopy_emit({takes}):\n ptx.comment('mine')\n return (yield)", space)
    writes = SimpleNamespace(observer=True, tilecopy_emit=tc.hookimpl(wrapper=True)(space["tilecopy_emit"]))
    with pytest.warns(tc.PluginWarning, match=mentions("tilecopy_emit", "ptx")):
        assert built(observed(writes, *variants())) == built(tc.Registry(variants(), {}))


def test_a_wrapper_may_have_parameters_with_defaults() -> None:
    """Whether pluggy passes them is a matter of its version."""
    seen: list[Any] = []

    @tc.hookimpl(wrapper=True)
    def tilecopy_predicate(request: Any, limit: int = 3) -> Any:
        seen.append(limit)
        return (yield)

    assert built(observed(SimpleNamespace(tilecopy_predicate=tilecopy_predicate), *variants()))[0] == "taken"
    assert set(seen) == {3}


def test_of_two_wrappers_the_one_at_fault_is_set_aside() -> None:
    observer, policy = Observer(), planted("tilecopy_predicate", "gives None")
    policy.observer = False
    found = observed(observer, *variants(), Source("policy", "acme-policy", "1.0", lambda: policy))
    with pytest.warns(tc.PluginWarning, match=mentions("policy")) as warned:
        assert built(found)[0] == "taken"
    assert len(warned) == 1 and len(observer.dispatches) == 1


def test_no_wrapper_changes_a_plan_as_a_whole() -> None:
    policy = planted(DISPATCH, "gives None")
    policy.observer = False
    with pytest.warns(tc.PluginWarning, match=mentions("tilecopy_dispatch")):
        assert built(observed(policy, *variants())) == built(tc.Registry(variants(), {}))


def test_the_dispatch_is_the_core_s_own() -> None:
    source = variant("mine", 1)
    plugin = source.load()
    plugin.tilecopy_dispatch = tc.hookimpl(lambda request: None)
    with pytest.warns(tc.PluginWarning, match=mentions("tilecopy_dispatch")):
        assert "mine" not in {p.name for p in tc.Registry([source], {}).plugins() if p.status == "ready"}


def test_a_wrapper_of_the_old_kind_is_told_what_to_write() -> None:
    @tc.hookimpl(hookwrapper=True)
    def tilecopy_predicate() -> Any:
        yield

    with pytest.warns(tc.PluginWarning, match=mentions("hookwrapper", "True")):
        built(observed(SimpleNamespace(tilecopy_predicate=tilecopy_predicate), *variants()))


SCRIPT = """
import tilecopy as tc
k = tc.KernelBuilder("k", threads=32)
a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32")
k.warp.copy(s[:, :], a[:, :])
print(k.build(target="sm_90a", grid=1).ptx)
"""


def test_installed_it_prints_a_table_and_changes_no_text(tmp_path: Path) -> None:
    """As an installer leaves it: the package on the path, and its metadata with the entry point of its pyproject."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / f"tilecopy_observe-{project['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n\n")
    points = project["entry-points"]["tilecopy.variants.v1"]
    (info / "entry_points.txt").write_text(
        "[tilecopy.variants.v1]\n" + "".join(f"{name} = {where}\n" for name, where in points.items())
    )
    (tmp_path / "script.py").write_text(SCRIPT)

    def run(*words: str, path: str) -> subprocess.CompletedProcess[str]:
        places = os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"PYTHONPATH": places, "COLUMNS": "160"}
        command = [sys.executable, *words, "script.py"]
        return subprocess.run(
            command, check=True, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
        )

    alone = run(path="")
    traced = run("-m", "tilecopy_observe", path=os.pathsep.join([str(info.parent), str(EXAMPLE / "src")]))
    assert traced.stdout == alone.stdout and alone.stderr == ""
    assert mentions("float32", "A", "32x32", "smem0", "sm_90a", "gmem_smem").search(traced.stderr)
    row = next(line for line in traced.stderr.splitlines() if "gmem_smem" in line and "│" in line)
    name, verdict, *times, why = (cell.strip() for cell in row.strip("│").split("│"))
    assert (name, verdict, why) == ("gmem_smem", "chosen", "") and all(int(time) > 0 for time in times)
