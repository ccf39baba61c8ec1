"""Copies that are right and absurd: explain() has a note, and a warning is given once."""

from __future__ import annotations

import linecache
import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout, laneid, tx
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.registry import VARIANTS_GROUP, Source, installed_sources

SWIZZLED = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[128, 64]))
PLAIN = TileLayout(S[128, 64])


@attrs.frozen
class Split:
    """A partition of a third party that says how much it takes."""

    instructions_per_thread: Any = 1
    registers_per_thread: Any = 0


class Raises:
    """One that raises when it is asked."""

    @property
    def instructions_per_thread(self) -> int:
        raise KeyError("how many")

    registers_per_thread = instructions_per_thread


def other(name: str, partition: Any = None, verdict: Any = None, **record: Any) -> Source:
    """A variant that answers as told; unless it is to be chosen or named, it is an error to partition by it."""

    @tc.hookimpl
    def tilecopy_predicate(request: Any) -> Any:
        return tc.Accept() if verdict is None else verdict

    @tc.hookimpl
    def tilecopy_partition(request: Any) -> Any:
        assert partition is not None, f"{name} is not asked for a partition"
        if isinstance(partition, Exception):
            raise partition
        return partition

    @tc.hookimpl
    def tilecopy_emit(request: Any, partition: Any, ptx: Any) -> None:
        ptx.instr("bar.warp.sync", "0xffffffff")

    fields = {"op": "copy_async", "priority": 5, "summary": "x", "spaces": (("global", "shared"),), "threads": "one"}
    plugin = SimpleNamespace(
        variant=tc.Variant(name=name, **fields | record),
        tilecopy_predicate=tilecopy_predicate,
        tilecopy_partition=tilecopy_partition,
        tilecopy_emit=tilecopy_emit,
    )
    return Source(name, f"acme-{name}", "1.0", lambda: plugin)


def with_installed(*others: Source, but: tuple[str, ...] = ()) -> tc.Registry:
    """The installed variants ``but`` some, and others; with a memory of its own of what was said."""
    registry = tc.Registry([source for source in installed_sources(VARIANTS_GROUP) if source.name not in but])
    for each in others:
        registry.register(each.load(), name=each.name)
    return registry


def async_kernel(
    *,
    layout: Any = PLAIN,
    rows: int = 128,
    mbar: bool = False,
    target: str = "sm_90a",
    scope: str = "thread",
    **how: Any,
) -> tc.BuiltKernel:
    """A tile of 128 bytes a row to shared memory, by one thread or by all."""
    registry = how.pop("registry", None) or tc.Registry()
    k = tc.KernelBuilder("k", threads=128)
    a, s = k.param("A", (128, 64), "float16"), k.shared((128, 64), "float16", layout=layout)
    bar = k.mbarrier("bar", count=1)
    options = {"mbar": bar} if mbar else {}
    if scope == "thread":
        with k.if_(k.thread_id() == 0):
            k.thread.copy_async(s[0:rows, :], a[0:rows, :], **options, **how)  # the line that is warned of
    else:
        getattr(k, scope).copy_async(s[0:rows, :], a[0:rows, :], **options, **how)
    return k.build(target=target, grid=1, registry=registry)


def fragment_plan(layout: Any = None, **how: Any) -> tc.Plan:
    """A tile to registers."""
    shape = how.pop("shape", (128, 64))
    dst = tc.Buffer(shape, how.pop("dtype", "float16"), space="local", layout=layout, name="f")
    src = tc.Buffer(shape, dst.dtype, space="global", name="A")
    how = {"scope": tc.cta(128), "target": "sm_90a", "registry": tc.Registry()} | how
    return tc.plan(dst[:, :], src[:, :], **how)


def kinds(plan: Any) -> list[str]:
    assert all(" ".join(note.text.split()) in plan.explain() for note in plan.notes)
    return [note.kind for note in plan.notes]


# ----------------------------------------------------------------------------------------- instructions of one thread


def test_one_thread_that_issues_what_a_tensor_copy_does_at_once() -> None:
    with pytest.warns(tc.PerformanceWarning, match=mentions(1024, "instructions")) as warned:
        (plan,) = async_kernel().plans
    assert plan.variant == "ldgsts" and kinds(plan) == ["instructions"]
    assert "variant bulk is for copies by one thread" in plan.notes[0].text, "what would be taken with the option"
    assert "to use it, pass mbar= (one mbarrier of the CTA, such as mbar[0])" in plan.notes[0].text
    assert [outcome.lacks for outcome in plan.outcomes if outcome.name in ("tma", "bulk")] == [("mbar",)] * 2
    assert plan.notes[0].text in plan.explain() and plan.notes[0].text in str(warned[0].message)
    assert "\nbetter: bulk needs" in plan.explain(), "of two that need as few, tma too, the one that the note names"
    assert (
        "\ndeclined: tma (option mbar is required but was not given; it must be one mbarrier of the CTA, "
        in plan.explain()
    )
    (told,) = warned
    assert "the line that is warned of" in linecache.getline(told.filename, told.lineno)


@pytest.mark.parametrize(
    ("shape", "columns", "named"),
    [((64, 64), 64, "bulk"), ((64, 63), 63, "bulk"), ((64, 64), 128, "tma"), ((64, 62), 128, "")],
)
def test_what_would_be_taken_with_the_option_is_named(shape: tuple[int, int], columns: int, named: str) -> None:
    dst = tc.Buffer(shape, "float16", space="shared", name="d", align_bytes=1024)
    src = tc.Buffer((64, columns), "float16", space="global", name="s")[:, : shape[1]]
    mbar, registry = tc.Buffer((1,), "uint64", space="shared", name="mbar"), tc.Registry()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.PerformanceWarning)
        how: dict[str, Any] = {"op": "copy_async", "scope": tc.thread(), "target": "sm_90a", "registry": registry}
        found = tc.plan(dst[:, :], src, **how)
        assert found.variant == "ldgsts" and [note.other for note in found.notes] == [named]
        if named:
            assert tc.plan(dst[:, :], src, mbar=mbar[0], **how).variant == named


def test_a_plan_of_its_own_names_what_accepts_and_warns_where_it_is_made() -> None:
    a, s = (tc.Buffer((128, 64), "float16", space=space, name=space[0]) for space in ("global", "shared"))
    registry = with_installed(but=("tma",))  # which needs a barrier without a kernel too
    with pytest.warns(tc.PerformanceWarning) as warned:
        plan = tc.plan(s[:, :], a[:, :], op="copy_async", scope=tc.thread(), target="sm_90", registry=registry)
    assert kinds(plan) == ["instructions"] and "to use it, pass variant='bulk'" in plan.notes[0].text
    assert warned[0].filename == __file__


def test_bulk_copies_of_a_swizzled_tile_name_a_variant_that_takes_the_tile_whole() -> None:
    mbar = tc.Option("mbar", (tc.Region, tc.Buffer), "one mbarrier", required=True)
    boxes = other("boxes", Split(), priority=1, options=(mbar,))
    with pytest.warns(tc.PerformanceWarning, match=mentions(1024, "instructions", "variant", "boxes")):
        (plan,) = async_kernel(layout=SWIZZLED, mbar=True, registry=with_installed(boxes, but=("tma",))).plans
    assert plan.variant == "bulk" and kinds(plan) == ["instructions"]
    with pytest.warns(tc.PerformanceWarning, match=mentions(1024, "k.cta.copy_async")):  # no other takes it
        (plan,) = async_kernel(layout=SWIZZLED, mbar=True, registry=with_installed(but=("tma",))).plans
    assert plan.variant == "bulk" and kinds(plan) == ["copies"] and plan.notes[0].other == ""


@pytest.mark.parametrize(
    "how",
    [
        {"rows": 16},  # 128 instructions are not too many
        {"scope": "cta"},
        {"scope": "warp"},  # more than one thread shares them
        {"mbar": True},  # one instruction
        {"layout": SWIZZLED, "mbar": True},  # one instruction
        {"variant": "ldgsts"},  # it is meant
    ],
    ids=str,
)
def test_what_is_not_absurd_is_not_told(how: dict[str, Any]) -> None:
    (plan,) = async_kernel(**how).plans
    assert kinds(plan) == []


def third_party(chosen: Any, *others: Source) -> tc.Plan:
    registry = tc.Registry([other("chosen", chosen, priority=50, threads="all"), *others], {})
    a, s = (tc.Buffer((8, 8), "float16", space=space, name=space[0]) for space in ("global", "shared"))
    return tc.plan(s[:, :], a[:, :], op="copy_async", scope=tc.thread(), target="sm_90", registry=registry)


@pytest.mark.parametrize("says", [object(), "split", Raises(), Split(128), Split(True), Split("many"), Split(-129)])
def test_a_partition_that_does_not_say_is_not_told_of(says: Any) -> None:
    assert kinds(third_party(says, other("single"))) == []


def test_the_best_of_those_that_can_be_meant_is_named_and_none_is_asked_for_more() -> None:
    def named(*others: Source) -> str:
        with pytest.warns(tc.PerformanceWarning):
            plan = third_party(Split(129), *others)
        assert kinds(plan) == ["instructions"]
        return plan.notes[0].text

    needs = [tc.Option(name, (int,), f"the {name}", required=True) for name in ("first", "second")]
    free = tc.Option("third", (int,), "the third")
    wide, no = other("wide", priority=40, threads="any"), other("no", verdict=tc.Decline("not mine"), priority=40)
    lacking, single = other("lacking", Split(), priority=30, options=(*needs, free)), other("single", Split())
    declines = other("declines", tc.Decline("not mine after all"), priority=45)
    raises = other("raises", KeyError("first"), priority=45, options=tuple(needs))
    lower = other("lower", Split(), tc.Accept(4), priority=45)
    assert "variant single is" in named(single, wide, no)
    assert "variant lacking is" in (text := named(single, lacking, wide, no))
    assert "to use it, pass first= (the first), second= (the second)" in text
    assert "variant lacking is" in named(single, lacking, declines, raises, lower), "the one that would be taken"
    with warnings.catch_warnings():
        warnings.simplefilter("error", tc.PluginWarning)  # a hook without an option that it needs is not at fault
        warnings.simplefilter("ignore", tc.PerformanceWarning)
        for others in ((declines, raises), (wide, no), ()):
            plan = third_party(Split(129), *others)
            assert kinds(plan) == ["copies"] and plan.notes[0].other == ""


# ------------------------------------------------------------------------------------ asynchronous copies of one thread


def test_one_thread_that_no_other_variant_helps_is_told_to_share_the_copies() -> None:
    with pytest.warns(tc.PerformanceWarning, match=mentions(1024, "k.cta.copy_async")):
        (plan,) = async_kernel(target="sm_80").plans
    assert plan.variant == "ldgsts" and kinds(plan) == ["copies"]
    (shared_by_all,) = async_kernel(target="sm_80", scope="cta").plans
    assert kinds(shared_by_all) == [] and tc.cost(shared_by_all).max_instructions_per_thread < 128


BOXES = {
    "all of six dimensions": ((2, 2, 2, 2, 2, 64), (slice(0, 2),) * 5 + (slice(0, 64),), (32, 64), (32, 64)),
    "a part of six": (
        (2, 2, 2, 2, 16, 64),
        (slice(1, 2), slice(0, 2), slice(1, 2), slice(0, 2), slice(0, 16), slice(0, 64)),
        (2, 2, 2, 32, 64),
        (1, 2, 1, 32, 64),
    ),
    "seven with a start": (
        (4, 2, 2, 2, 2, 2, 64),
        (slice(2, 4),) + (slice(0, 2),) * 5 + (slice(0, 64),),
        (128, 64),
        (64, 64),
    ),
}


@pytest.mark.parametrize("name", BOXES)
def test_dimensions_that_can_be_joined_are_named(name: str) -> None:
    """NVIDIA/Fuser#3472: tensor copies have five dimensions, and of more the neighbours can be joined."""
    shape, box, source_shape, tile_shape = BOXES[name]
    extents = tuple(part.stop - part.start for part in box)
    layout = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[extents]))
    a = tc.Buffer(shape, "float16", space="global", name="A")
    tile = tc.Buffer(extents, "float16", space="shared", layout=layout, name="tile", align_bytes=1024)
    mbar = tc.Buffer((1,), "uint64", space="shared", name="mbar")
    how: dict[str, Any] = {"op": "copy_async", "scope": tc.thread(), "target": "sm_90", "mbar": mbar[0]}
    copies = tile[:].nbytes // 16
    with pytest.warns(tc.PerformanceWarning, match=mentions(copies, "tma", source_shape, tile_shape)):
        plan = tc.plan(tile[:], a[box], registry=tc.Registry(), **how)
    assert plan.variant == "bulk" and kinds(plan) == ["copies"] and plan.notes[0].other == "tma"
    written = plan.notes[0].text.partition(" from ")[2].split(" to ")
    regions = [eval(text, {"A": a, "tile": tile}) for text in written]
    followed = tc.plan(regions[1], regions[0], **how)
    assert followed.variant == "tma" and followed.partition.instructions_per_thread == 1


def test_a_rest_that_makes_every_box_small_is_named() -> None:
    """257 has no divisor that a box could have, and 256 + 1 rows are two copies."""
    a = tc.Buffer((300, 128), "float16", space="global", name="A")
    tile = tc.Buffer((257, 64), "float16", space="shared", name="tile", align_bytes=128)
    mbar = tc.Buffer((1,), "uint64", space="shared", name="mbar")
    how: dict[str, Any] = {"op": "copy_async", "scope": tc.thread(), "target": "sm_90", "mbar": mbar[0]}
    with pytest.warns(tc.PerformanceWarning, match=mentions(257, "tma", 1)):
        plan = tc.plan(tile[:, :], a[0:257, 0:64], registry=tc.Registry(), **how)
    assert kinds(plan) == ["copies"] and plan.notes[0].other == "tma"
    parts = [tc.plan(tile[rows, :], a[rows, 0:64], **how) for rows in (slice(0, 256), slice(256, 257))]
    assert [part.partition.instructions_per_thread for part in parts] == [1, 1]


# ------------------------------------------------------------------------- a variant that needs a quarter, at any scope


def tile_plan(shape: tuple[int, int], scope: tc.Scope, **how: Any) -> tc.Plan:
    a, s = (tc.Buffer(shape, "float16", space=space, name=space[0]) for space in ("global", "shared"))
    return tc.plan(s[:, :], a[:, :], scope=scope, target="sm_90", **how)


@pytest.mark.parametrize(
    ("shape", "scope"),
    [((514, 64), tc.cta(128)), ((258, 64), tc.cta(128)), ((131, 32), tc.warp()), ((258, 64), tc.warpgroup())],
)
def test_a_variant_that_needs_a_quarter_of_the_instructions_is_named(shape: tuple[int, int], scope: tc.Scope) -> None:
    """One element at a time, where sixteen bytes at a time would do but for the last rows."""
    registry = tc.Registry()
    with pytest.warns(tc.PerformanceWarning, match=mentions("ragged")):
        plan = tile_plan(shape, scope, registry=registry)
    assert plan.variant == "gmem_smem" and kinds(plan) == ["instructions"] and plan.notes[0].other == "ragged"
    ragged = tile_plan(shape, scope, variant="ragged")
    assert 4 * tc.cost(ragged).max_instructions_per_thread <= tc.cost(plan).max_instructions_per_thread
    assert kinds(tile_plan(shape, scope, variant="gmem_smem", registry=registry)) == []  # it is meant


@pytest.mark.parametrize("rows", [512, 1000, 12])
def test_a_choice_that_no_other_needs_a_quarter_of_is_not_told(rows: int) -> None:
    assert kinds(tile_plan((rows, 32), tc.cta(128), registry=tc.Registry())) == []


def test_others_are_partitioned_only_if_the_chosen_one_needs_many() -> None:
    asked = []

    class Counting(Split):
        pass

    def second() -> Source:
        source = other("second", Counting(), threads="any", priority=5)
        plugin = source.load()
        partition = plugin.tilecopy_partition

        @tc.hookimpl
        def tilecopy_partition(request: Any) -> Any:
            asked.append(request)
            return partition(request)

        plugin.tilecopy_partition = tilecopy_partition
        return attrs.evolve(source, load=lambda: plugin)

    assert kinds(third_party(Split(128), second())) == [] and asked == []
    with pytest.warns(tc.PerformanceWarning, match=mentions(129, "second")):
        plan = third_party(Split(129), second())
    assert kinds(plan) == ["instructions"] and len(asked) == 1


# ------------------------------------------------------------------------------------------------- registers a thread


def test_a_fragment_that_no_thread_has_registers_for() -> None:
    with pytest.warns(tc.PerformanceWarning, match=mentions("f", 4096)) as warned:
        plan = fragment_plan()
    assert kinds(plan) == ["registers"] and warned[0].filename == __file__
    assert "such as layout=TileLayout(S[(128, 64) : (1 @ tx, 1)])" in plan.notes[0].text
    assert kinds(fragment_plan(TileLayout(S[(128, 64) : (1 @ tx, 1)]))) == []


@pytest.mark.parametrize(
    ("shape", "dtype", "layout", "registers"),
    [
        ((32, 510), "float16", (1 @ laneid, 1), 255),
        ((32, 511), "float16", (1 @ laneid, 1), 256),
        ((32, 255), "float32", (1 @ laneid, 1), 255),
        ((32, 128), "float64", (1 @ laneid, 1), 256),
        ((32, 1020), "uint8", (1 @ laneid, 1), 255),
        ((1, 1024), "uint8", None, 256),
    ],
)
@pytest.mark.parametrize("variant", ["reg", "ragged"])
def test_registers_are_words_of_32_bits(
    shape: tuple[int, int], dtype: str, layout: Any, registers: int, variant: str
) -> None:
    found = layout and TileLayout(S[shape:layout])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.PerformanceWarning)
        plan = fragment_plan(found, shape=shape, dtype=dtype, scope=tc.warp(), variant=variant)
    assert plan.partition.registers_per_thread == registers
    assert kinds(plan) == (["registers"] if registers > 255 else [])


def test_one_thread_with_too_many_and_fragments_on_both_sides() -> None:
    with pytest.warns(tc.PerformanceWarning):
        fragment_plan(scope=tc.thread())
    f, g = (tc.Buffer((1, 260), "float32", space="local", name=name) for name in "fg")
    with pytest.warns(tc.PerformanceWarning, match=mentions("f", 260)):
        tc.plan(f[:, 0:8], g[:, 8:16], scope=tc.warp(), target="sm_90a", registry=tc.Registry())


def test_the_registers_of_a_third_party_are_told_where_its_partition_says() -> None:
    def told(partition: Any) -> list[str]:
        taken = other("mine", partition, op="copy", spaces=(("global", "local"),), threads="all")
        return kinds(fragment_plan(registry=tc.Registry([taken], {})))

    for silent in ("split", Raises(), Split(1, 255), Split(1, None)):
        assert told(silent) == []
    with pytest.warns(tc.PerformanceWarning, match=mentions("f", 256)):
        assert told(Split(1, 256)) == ["registers"]


# ------------------------------------------------------------------------------------------------------- the warning


def test_each_kind_is_warned_of_once_and_noted_always() -> None:
    registry = tc.Registry()
    with pytest.warns(tc.PerformanceWarning) as warned:
        noted = [
            *[async_kernel(registry=registry).plans[0].notes for _ in range(2)],
            *[fragment_plan(shape=(rows, 64), registry=registry).notes for rows in (128, 256)],
        ]
    assert len(warned) == 2 and all(noted)


@pytest.mark.filterwarnings("error")
def test_where_it_is_an_error_each_such_copy_raises() -> None:
    registry = tc.Registry()
    for _ in range(2):
        with pytest.raises(tc.PerformanceWarning):
            fragment_plan(registry=registry)


def test_a_process_warns_once_at_the_line_of_the_copy() -> None:
    script = """
import tilecopy as tc
k = tc.KernelBuilder("k", threads=128)
a, f = k.param("A", (128, 8), "float16"), k.local((128, 8), "float16")
k.cta.copy(f[:, :], a[:, :])
k.cta.copy(f[:, :], a[:, :], variant="ragged")
for _ in range(2):
    kernel = k.build(target="sm_90a", grid=1)
print(kernel.explain().count("note: "))
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "2\n"
    assert found.stderr.count(tc.PerformanceWarning.__name__) == 1 and found.stderr.startswith("<string>:5: ")
