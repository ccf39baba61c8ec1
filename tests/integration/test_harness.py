"""The kernel around one copy: how copies complete is one table for the conformance kit, the pictures, ``tilecopy ptx`` and the costs."""

from types import SimpleNamespace

import attrs
import pytest
import tilecopy as tc
import tilecopy_ldgsts
from click.testing import CliRunner
from tilecopy import harness
from tilecopy_cli.builtin_commands import tilecopy as command_line
from tilecopy_draw import draw
from tilecopy_testkit import VariantUnderTest

GROUP = harness.COMPLETIONS["cp_async_group"]


@pytest.fixture
def doorbell():
    """A variant whose completion nobody has heard of."""
    record = attrs.evolve(
        tilecopy_ldgsts.variant, name="doorbell", completion="doorbell", completion_steps=("ring it", "wait")
    )
    hooks = {name: getattr(tilecopy_ldgsts, f"tilecopy_{name}") for name in ("predicate", "partition", "emit")}
    plugin = SimpleNamespace(variant=record, **{f"tilecopy_{name}": hook for name, hook in hooks.items()})
    tc.default_registry().register(plugin, name="doorbell")
    yield plugin
    tc.default_registry().unregister("doorbell")


def copied(**options):
    tile = tc.Buffer((16, 64), "float16", space="shared", name="tile")
    array = tc.Buffer((16, 64), "float16", space="global", name="A")
    how = {"op": "copy_async", "scope": tc.cta(64), "target": "sm_90a", "variant": "doorbell"}
    return tc.plan(tile[:, :], array[:, :], **how, **options)


def test_a_completion_is_one_row(doorbell, monkeypatch):
    with pytest.raises(tc.RequestError):
        draw(copied())
    assert not VariantUnderTest.of(doorbell).completion_is_known
    monkeypatch.setitem(harness.COMPLETIONS, "doorbell", GROUP)
    assert draw(copied()).data["variant"] == "doorbell"
    assert VariantUnderTest.of(doorbell).completion_is_known
    assert tc.cost(copied()) == attrs.evolve(tc.cost(attrs.evolve(copied(), variant="ldgsts")), variant="doorbell")
    words = ["ptx", "global float16 [16, 64]", "shared float16 [16, 64]", "--op", "copy_async", "--variant"]
    mine, theirs = (CliRunner().invoke(command_line, [*words, name]) for name in ("doorbell", "ldgsts"))
    assert mine.output.replace("doorbell", "ldgsts") == theirs.output and not mine.exit_code


@pytest.mark.parametrize("step", [step.name for step in GROUP if step.name != "barrier"])
def test_each_step_of_a_completion_is_written(doorbell, monkeypatch, step):
    """Without one of the steps the copy does not arrive, and the picture is refused."""
    monkeypatch.setitem(harness.COMPLETIONS, "doorbell", tuple(other for other in GROUP if other.name != step))
    with pytest.raises(tc.TilecopyError):
        draw(copied())


def test_a_step_is_checked_when_it_is_made():
    for change in ({"name": 3}, {"when": "later"}, {"who": "nobody"}, {"write": None}, {"spaces": ("dram",)}):
        with pytest.raises(tc.TilecopyError):
            attrs.evolve(GROUP[0], **change)
