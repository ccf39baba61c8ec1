"""Nothing raw in the fronts of relayout, the emulator and the testkit: an odd argument works, or is refused by a TilecopyError.

The surface is generated from their ``__all__``, as tests/test_surface.py does it for the core: GOOD has a call of everything
in it; each argument of each call is then replaced by each odd value.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
import tilecopy_draw
import tilecopy_emulator
import tilecopy_gmem_smem
import tilecopy_relayout
import tilecopy_testkit
from odd import ODD, Bound, flat, insides_of, little_memory, outcome, places_of, put_inside, replaced, shows
from tilecopy_emulator import extending
from tilecopy_emulator.threads.arrays import GlobalMemory
from tilecopy_testkit import (
    Around,
    Description,
    Finding,
    Operand,
    Ranges,
    Start,
    Step,
    Subject,
    Term,
    VariantSuite,
    campaign,
    rules,
    scaffold,
)
from tilecopy_testkit.drawing import seeded
from tilecopy_testkit.kernels import Surroundings

TARGET = "sm_90"
VECTORS = Path(__file__).parent.parent / "plugins" / "emulator" / "tests" / "vectors_sm_90.json"
PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n, .param .f32 f, .param .align 8 .b8 s[16]) {
    .reg .b32 %r<4>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [a]; ld.param.u32 %r1, [n];
    st.global.b32 [%d1], %r1;
    add.u32 %r2, %r1, 1;
    ret;
}
"""
ODD = ODD | {"array of no elements": np.zeros((0, 4), np.float32), "array of floats": np.ones((4, 8), np.float32)}
TILE = Operand("shared", (4, 8), (4, 8), (Start(0), Start(0)), ((4, 8, "m"), (8, 1, "m")), swizzle=(1, 1, 1))
ARRAY = Operand(
    "global",
    (2, 4, 8),
    (1, 4, 8),
    (Start(0, (Term("block", 1),)), Start(0), Start(0)),
    ((2, 40, "m"), (4, 8, "m"), (8, 1, "m")),
)
COPY = Description(op="copy", dtype="float32", scope="warp", threads=32, target="sm_80", dst=TILE, src=ARRAY, blocks=2)
VARIANT = tilecopy_gmem_smem.variant
TENSOR = ("float32", (8, 4), (32,), (8, 4), (1, 2), "32B", "nan")
"""What describes a tensor behind its address."""


def call(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Bound:
    """A function and good arguments."""
    return function, arguments, keywords


def array() -> Any:
    return np.arange(32, dtype=np.float32).reshape(4, 8)


@cache
def kernel() -> tc.BuiltKernel:
    k = tc.KernelBuilder("launchable", threads=4)
    b, n = k.param("B", (8,), "float32"), k.scalar("n", upper=8)
    with k.if_(k.thread_id() < n):
        k.store(b[k.thread_id()], 1.0)
    return k.build(target=TARGET, grid=1)


@cache
def program() -> tilecopy_emulator.Program:
    return tilecopy_emulator.parse(PTX)


@cache
def subject() -> Subject:
    return Subject.of("gmem_smem")


@cache
def relayout_plan() -> Any:
    return tilecopy_relayout.plan_relayout((4, 8), "float32", (1, 0), target=TARGET)


def instruction(number: int = 2) -> Any:
    return program().instructions[number]


def run_arguments(n: Any = 3, f: Any = 1.5) -> list[Any]:
    return [np.zeros(4, np.uint32), n, f, bytes(16)]


def surroundings() -> Surroundings:
    return Surroundings.of(VARIANT)


def around() -> Around:
    return Around(COPY, surroundings())


def around_async() -> Around:
    """Of a copy that completes on an mbarrier."""
    bulk = Subject.of("bulk")
    return Around(seeded(bulk.ranges, 0), bulk.surroundings)


def suite(**attributes: Any) -> None:
    """A class of an author, and what its tests ask of it first."""
    made: Any = type("TestMine", (VariantSuite,), {"plugin": "gmem_smem", "examples": 1, **attributes})
    made().test_hooks_are_pure_and_quick_and_answer()


def suite_with(name: str, value: Any) -> Callable[[], Bound]:
    """One attribute of such a class."""
    scope: dict[str, Any] = {"suite": suite}
    exec(f"def with_{name}({name}): suite({name}={name})", scope)
    return lambda: call(scope[f"with_{name}"], value)


def tally(chunk: campaign.Chunk) -> dict[str, Any]:
    return {"keys": ["x"], "lowered": 1, "covered": {"dtype": {"int8": 1}}, "failures": []}


def record() -> dict[str, Any]:
    chunk = campaign.Chunk("gmem_smem", 0, 0, 1)
    return {"chunk": chunk.name, "variant": chunk.variant, **tally(chunk)}


FAILURE = {"variant": "gmem_smem", "description": COPY.to_json(), "finding": "x"}
NUMBERS = count()
"""Of folders, each another."""
CAMPAIGN = campaign.Campaign(0, 1, ("gmem_smem",))

RELAYOUT: dict[str, Callable[[], Bound]] = {
    "relayout": lambda: call(
        tilecopy_relayout.relayout,
        array(),
        (1, 0),
        out=np.zeros((8, 4), np.float32),
        stream=None,
        device=None,
        placements=None,
        executor="emulator",
    ),
    "relayout of a pattern": lambda: call(
        lambda array, axes, p: tilecopy_relayout.relayout(array, axes, p=p), array(), "(p q) c -> c p q", 2
    ),
    "plan_relayout": lambda: call(
        tilecopy_relayout.plan_relayout,
        (4, 8),
        "float32",
        (1, 0),
        strides=(8, 1),
        out_strides=(4, 1),
        align_bytes=4,
        out_align_bytes=8,
        target=TARGET,
    ),
    "plan_relayout of a pattern": lambda: call(
        lambda axes, p: tilecopy_relayout.plan_relayout((4, 8), "float32", axes, target=TARGET, p=p),
        "(p q) c -> c p q",
        2,
    ),
    "RelayoutPlan.bind": lambda: call(relayout_plan().bind, "emulator", None),
    "RelayoutPlan.bind, what moves": lambda: call(
        lambda source, destination: relayout_plan().bind("emulator")(source, destination, None),
        array(),
        np.zeros((8, 4), np.float32),
    ),
    "RelayoutPlan.explain": lambda: call(relayout_plan().explain),
}

EMULATOR: dict[str, Callable[[], Bound]] = {
    "run_ptx": lambda: call(
        tilecopy_emulator.run_ptx,
        PTX,
        run_arguments(),
        entry="k",
        grid=1,
        block=(1, 1, 1),
        cluster=None,
        dynamic_shared_bytes=0,
        profile=False,
        allow=("same-value",),
        observer=None,
        progress=None,
    ),
    "run_ptx, each argument": lambda: call(
        lambda a, n, f, s: tilecopy_emulator.run_ptx(PTX, [a, n, f, s], grid=1, block=1), *run_arguments()
    ),
    "parse": lambda: call(tilecopy_emulator.parse, PTX, "k"),
    "run_grid": lambda: call(
        tilecopy_emulator.run_grid,
        only_reads(),
        grid=(1, 1, 1),
        block=(1, 1, 1),
        cluster=(1, 1, 1),
        parameters=run_parameters(),
        memory=GlobalMemory(),
        pool=(),
        dynamic_shared_bytes=0,
        profile=False,
        progress=None,
        origin_of=None,
        value_checks=(),
        allow=("same-value",),
        observer=None,
    ),
    "EmulatorExecutor": lambda: call(tilecopy_emulator.EmulatorExecutor, profile=True, progress=None, observer=None),
    "EmulatorExecutor.extensions": lambda: call(tilecopy_emulator.executor().extensions),
    "EmulatorExecutor.why_unavailable": lambda: call(tilecopy_emulator.executor().why_unavailable, kernel()),
    "EmulatorExecutor.launch": lambda: call(
        tilecopy_emulator.executor().launch, kernel(), [np.zeros(8, np.float32), 4], grid=1, stream=None
    ),
    "TensorMap": lambda: call(tilecopy_emulator.TensorMap, 4096, *TENSOR),
    "TensorMap.encode": lambda: call(tilecopy_emulator.TensorMap(4096, *TENSOR).encode, 4096),
    "tensor_map": lambda: call(tilecopy_emulator.tensor_map, 4096, *TENSOR),
    "UnsupportedPtxError": lambda: call(tilecopy_emulator.UnsupportedPtxError, "no", 1),
    # ------------------------------------------------------------------------------------------- for instructions
    "Access": lambda: call(
        extending.Access,
        "global",
        4,
        "weak",
        "gpu",
        volatile=False,
        dtype=None,
        read_only=False,
        exchange=False,
        scan=None,
    ),
    "Form": lambda: call(
        extending.Form,
        "avg",
        ((("up",), False),),
        frozenset({("u32",)}),
        ("t",),
        ("t", "t"),
        lambda mode: None,
        approximate=False,
    ),
    "Form.match": lambda: call(a_form().match, ("u32",), ("up",)),
    "Form.spellings": lambda: call(lambda: list(a_form().spellings())),
    "Form.type_of": lambda: call(a_form().type_of, "t", extending.Mode(("u32",), frozenset())),
    "Mode": lambda: call(extending.Mode, ("u32",), frozenset({"up"})),
    "Mode.has": lambda: call(extending.Mode(("u32",), frozenset({"up"})).has, "up"),
    "Mode.one_of": lambda: call(extending.Mode(("u32",), frozenset({"up"})).one_of, "up", default=""),
    "address_reader": lambda: call(extending.address_reader, extending.Memory("%d1", 0), instruction(), program()),
    "arithmetic": lambda: call(extending.arithmetic, a_form()),
    "demand_parts": lambda: call(extending.demand_parts, instruction(), {"global", "b32"}),
    "form": lambda: call(extending.form, "avg{.up}", "u32", "t = t t", lambda mode: None, approximate=False),
    "is_constant": lambda: call(extending.is_constant, "12"),
    "reader": lambda: call(extending.reader, "%r1", "u32", instruction(), program(), wider=True),
    "refuse": lambda: call(extending.refuse, instruction(), "no"),
    "width_of": lambda: call(extending.width_of, "u32"),
    "writer": lambda: call(extending.writer, "%r1", "u32", instruction(), program(), wider=True),
}


def a_form() -> extending.Form:
    return extending.form("avg{.up}", "u32", "t = t t", lambda mode: lambda a, b: a + b)


def run_parameters() -> dict[str, bytes]:
    return {parameter.name: bytes(parameter.bytes) for parameter in only_reads().parameters}


@cache
def only_reads() -> tilecopy_emulator.Program:
    return tilecopy_emulator.parse(PTX.replace("st.global.b32 [%d1], %r1;", ""))


TESTKIT: dict[str, Callable[[], Bound]] = {
    "Term": lambda: call(Term, "block", 8, 2, 4),
    "Term.at": lambda: call(Term("block", 8).at, {"block": 1}),
    "Start": lambda: call(Start, 8, (Term("block", 8),)),
    "Start.at": lambda: call(Start(8, (Term("block", 8),)).at, {"block": 1}),
    "Operand": lambda: call(
        Operand,
        "global",
        (4, 8),
        (2, 8),
        (Start(0), Start(0)),
        ((4, 8, "m"), (8, 1, "m")),
        replica=((2, 64, "m"),),
        offset=(("m", 8),),
        swizzle=(1, 1, 1),
        own_start=8,
        align_bytes=16,
    ),
    "Operand.box": lambda: call(TILE.box, {"block": 1}),
    "Description": lambda: call(
        Description,
        op="copy",
        dtype="float32",
        scope="warp",
        threads=32,
        target="sm_80",
        dst=TILE,
        src=ARRAY,
        issuers="all",
        blocks=2,
        sized=False,
        cluster=1,
        hop=0,
        turns=1,
        n=0,
        multiple_of=1,
        outside=None,
        options=(),
    ),
    "Description.values": lambda: call(COPY.values),
    "Description.to_json": lambda: call(COPY.to_json),
    "Description.from_json": lambda: call(Description.from_json, COPY.to_json()),
    "Ranges": lambda: call(Ranges, VARIANT, (("global", "shared"),), ("int8",), ("sm_80",), None),
    "Ranges.of": lambda: call(Ranges.of, VARIANT, (("global", "shared"),), ("int8",), ("sm_80",), None),
    "Ranges.have": lambda: call(Ranges.of(VARIANT).have, COPY),
    "Finding": lambda: call(Finding, "a rule", "nothing", COPY, line=1, text="ret;"),
    "Step": lambda: call(Step, "fence", "before", "all", lambda around: None, ("global",)),
    "Subject": lambda: call(
        Subject,
        "gmem_smem",
        subject().source,
        VARIANT,
        subject().ranges,
        surroundings(),
        widths_bits=(128,),
        known_narrower={},
        moves=None,
    ),
    "Subject.of": lambda: call(
        Subject.of,
        "gmem_smem",
        spaces=(("global", "shared"),),
        dtypes=("int8",),
        targets=("sm_80",),
        steps=(),
        options={},
        arguments={},
        draws=None,
        widths_bits=(128,),
        known_narrower={},
        moves=None,
    ),
    "recorded_vectors": lambda: call(tilecopy_testkit.recorded_vectors, VECTORS),
    "Subject.with_wrapper": lambda: call(subject().with_wrapper, Watches()),
    "Around": lambda: call(Around, COPY, surroundings(), None, (), unread=0),
    "Around.build": lambda: call(around().build),
    "Around.commit_tensor": lambda: call(around_async().commit_tensor),
    "Around.expect_bytes": lambda: call(around_async().expect_bytes),
    "Around.options": lambda: call(around().options),
    "Around.region": lambda: call(around().region, "dst"),
    "Around.request": lambda: call(around().request, outside=None),
    "Around.synchronize": lambda: call(around().synchronize),
    "Around.wait": lambda: call(around_async().wait),
    "arguments_of": lambda: call(tilecopy_testkit.arguments_of, COPY, *tilecopy_testkit.arrays_of(COPY), None),
    "arrays_of": lambda: call(tilecopy_testkit.arrays_of, COPY, 1),
    "expected": lambda: call(tilecopy_testkit.expected, COPY, tilecopy_testkit.arrays_of(COPY)),
    "for_all": lambda: call(
        tilecopy_testkit.for_all,
        subject(),
        rules.hooks_are_pure,
        1,
        seeded_by=0,
        strategies=(),
        least=0,
        shrink=False,
    ),
    "requests": lambda: call(
        tilecopy_testkit.requests, "gmem_smem", spaces=(("global", "shared"),), dtypes=("int8",), targets=("sm_80",)
    ),
    # ------------------------------------------------------------------------------------------- the suite's attributes
    "VariantSuite.subject": lambda: call(type("Mine", (VariantSuite,), {"plugin": "gmem_smem"}).subject),
    "VariantSuite, plugin": suite_with("plugin", "gmem_smem"),
    "VariantSuite, spaces": suite_with("spaces", (("global", "shared"),)),
    "VariantSuite, dtypes": suite_with("dtypes", ("int8",)),
    "VariantSuite, targets": suite_with("targets", ("sm_80",)),
    "VariantSuite, draws": suite_with("draws", None),
    "VariantSuite, strategies": suite_with("strategies", ()),
    "VariantSuite, widths_bits": suite_with("widths_bits", (128,)),
    "VariantSuite, known_narrower": suite_with("known_narrower", {}),
    "VariantSuite, steps": suite_with("steps", ()),
    "VariantSuite, options": suite_with("options", {}),
    "VariantSuite, moves": suite_with("moves", None),
    "VariantSuite, examples": suite_with("examples", 1),
    "VariantSuite, seed": suite_with("seed", 1),
    # ------------------------------------------------------------------------------------------- campaigns
    "Campaign": lambda: call(campaign.Campaign, 0, 1, ("gmem_smem",)),
    "Campaign.chunks": lambda: call(CAMPAIGN.chunks),
    "Chunk": lambda: call(campaign.Chunk, "gmem_smem", 0, 0, 1),
    "able_variants": lambda: call(campaign.able_variants),
    "finished": lambda: call(campaign.finished, Path("state.jsonl")),
    "of_campaign": lambda: call(campaign.of_campaign, CAMPAIGN, {"x": record()}),
    "on_cluster": lambda: call(campaign.on_cluster, None, 1),
    "remember": lambda: call(campaign.remember, [FAILURE], Path("failed.jsonl")),
    "remembered": lambda: call(campaign.remembered, Path("failed.jsonl")),
    "report": lambda: call(campaign.report, CAMPAIGN, [record()], {}),
    "run": lambda: call(
        campaign.run,
        CAMPAIGN,
        Path("state.jsonl"),
        lambda chunks: ((chunk, tally(chunk)) for chunk in chunks),
        lambda line: None,
    ),
    "run_chunk": lambda: call(campaign.run_chunk, campaign.Chunk("gmem_smem", 0, 0, 1)),
    "subject_of": lambda: call(campaign.subject_of, "gmem_smem"),
    "totals": lambda: call(campaign.totals, [record()]),
    "write_package": lambda: call(
        scaffold.write_package, Path(f"mine{next(NUMBERS)}"), "mine", "copy", "global", "shared"
    ),
}


class Watches:
    """A plugin that wraps nothing."""


DRAW: dict[str, Callable[[], Bound]] = {
    "draw": lambda: call(
        tilecopy_draw.draw,
        tc.TileLayout(tc.S[8, 8]),
        "banks",
        part=None,
        before=tc.TileLayout(tc.S[8, 8]),
        width=960,
    ),
    "Picture.save": lambda: call(tilecopy_draw.draw(tc.TileLayout(tc.S[8, 8])).save, "picture.svg"),
    "Picture.bytes_as": lambda: call(tilecopy_draw.draw(tc.TileLayout(tc.S[8, 8])).bytes_as, ".svg"),
}

GOOD = RELAYOUT | EMULATOR | DRAW | TESTKIT
"""A call of every public callable, with an argument for every parameter."""

ALSO_CALLED = {
    "sizes": "size",
    "arguments": "argument",
    "found": "finding",
    "source": "array",
    "state": "file",
    "least": "are wanted",
    "p": "size p",
}
"""What messages call a parameter where they do not use its name."""
CALLBACKS = {"write", "build", "run_all", "say", "progress", "observer", "origin_of", "rule", "draws", "own", "moves"}
"""Functions of the caller's: what they raise is theirs."""


def tells(error: BaseException, parameter: str, value: Any) -> str:
    """Why a message does not do, or ""."""
    message = flat(error)
    if isinstance(value, tc.Expr) and f"{next(iter(value.symbols))}" in message:
        return ""  # an integer is named by its symbols
    if isinstance(error, (tilecopy_emulator.UnsupportedPtxError, tc.HazardError)) and "PTX line" in message:
        return ""  # what is wrong in a text, or with what it does, is named by its line
    if isinstance(error, tilecopy_emulator.UnsupportedPtxError) and message == "the text has no .entry":
        return ""
    words = {parameter, parameter.replace("_", " "), parameter.rstrip("s"), ALSO_CALLED.get(parameter, parameter)}
    if not any(word.lower() in message.lower() for word in words):
        return f"it does not name {parameter}"
    if not shows(message, value) and not isinstance(value, types.GeneratorType):  # what it gave is shown
        return "it does not show the value"
    return "" if len(message) < 4000 else "it is long"


def judge(parameter: str, value: Any, act: Callable[[], Any]) -> str:
    """What is wrong with the outcome of a call, or ""."""
    error = outcome(act)
    if error is None:
        return ""
    if not isinstance(error, tc.TilecopyError):
        return f"raw {type(error).__name__}: {str(error)[:150]}"
    if not flat(error).isprintable():
        return f"it cannot be printed: {str(error)[:150]!r}"
    why = tells(error, parameter, value)
    return f"{why}: {str(error)[:250]}" if why else ""


@pytest.fixture(autouse=True)
def small_and_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever takes long or much memory fails here; what writes files does it elsewhere."""
    monkeypatch.chdir(tmp_path)
    with little_memory():
        yield


@pytest.mark.parametrize("name", GOOD)
def test_good_calls_work(name: str) -> None:
    function, arguments, keywords = GOOD[name]()
    function(*arguments, **keywords)


@pytest.mark.parametrize("name", [name for name, good in GOOD.items() if places_of(good())])
def test_odd_arguments_work_or_are_refused_by_name_value_and_rule(name: str) -> None:
    wrong = []
    for parameter, place in places_of(GOOD[name]()):
        for label, value in ODD.items():
            function, arguments, keywords = replaced(GOOD[name](), place, value)
            if parameter in CALLBACKS and callable(value):
                continue
            if why := judge(parameter, value, lambda: function(*arguments, **keywords)):
                wrong.append(f"{name}, {parameter} = {label}: {why}")
    assert not wrong, "\n".join(wrong).encode("ascii", "backslashreplace").decode()


def held_by(good: Bound) -> list[tuple[str, int | str, tuple[Any, ...]]]:
    """Every value inside an argument of a good call: the parameter, where the argument is put, and the place in it."""
    _, arguments, keywords = good
    return [
        (parameter, place, inside)
        for parameter, place in places_of(good)
        for inside in insides_of(keywords[place] if isinstance(place, str) else arguments[place])
    ]


@pytest.mark.parametrize("name", [name for name, good in GOOD.items() if held_by(good())])
def test_odd_values_inside_arguments_work_or_are_refused(name: str) -> None:
    wrong = []
    for parameter, place, inside in held_by(GOOD[name]()):
        for label, value in ODD.items():
            good = GOOD[name]()
            given = good[2][place] if isinstance(place, str) else good[1][place]
            function, arguments, keywords = replaced(good, place, put_inside(given, inside, value))
            error = outcome(lambda: function(*arguments, **keywords))
            if error is not None and not (isinstance(error, tc.TilecopyError) and flat(error).isprintable()):
                wrong.append(f"{name}, {parameter}, in it {inside} = {label}: {type(error).__name__} {error!s:.150}")
    assert not wrong, "\n".join(wrong).encode("ascii", "backslashreplace").decode()


# ------------------------------------------------------------------------------------------------ nothing is left out

NOT_CALLED = {
    "Draw.pick": "a protocol",
    "Instruction": "made by parse",
    "Lanes": "a type",
    "Machine": "a step is handed it",
    "Memory": "made by parse",
    "Negated": "made by parse",
    "Offset": "made by parse",
    "Pair": "made by parse",
    "Program": "made by parse",
    "run_cuda": "a compiler for each odd value takes a minute: plugins/emulator/tests/test_cuda_sources.py",
    "Picture": "what draw gives",
    "Report": "what a run gives",
    "Side": "what an observer is told",
    "TensorAddress": "made by parse",
    "TensorMap.fill_bytes": "called in a step",
    "UndefinedResultError": "raised in a computation, for the machine",
    "Vector": "made by parse",
    "relayout_shards": "called by every process of a group; its tests pass odd arguments there",
    "check_global": "called in a step: see the test of steps",
    "start_copy": "called in a step: see the test of steps",
    "Tally": "what a chunk gives",
    "Transfer": "what an observer is told",
    "here": "what `run` calls",
    "judge": "what a chunk calls",
    "kinds_of": "what a chunk calls",
}


def public_callables() -> set[str]:
    """Every function, class and method that the packages name."""
    found: set[str] = set()
    things: dict[str, Any] = {}
    for module in (tilecopy_relayout, tilecopy_emulator, tilecopy_draw, extending, tilecopy_testkit):
        things |= {name: getattr(module, name) for name in module.__all__}
    for module in (campaign, scaffold):
        things |= {
            name: each
            for name, each in vars(module).items()
            if getattr(each, "__module__", "") == module.__name__ and not name.startswith("_")
        }
    things["RelayoutPlan"] = type(relayout_plan())
    for name, thing in things.items():
        if isinstance(thing, type):
            if name not in ("VariantSuite", "RelayoutPlan", "executor", "Draw"):
                found.add(name)
            found |= {
                f"{thing.__name__}.{n}"
                for n, v in vars(thing).items()
                if not n.startswith(("_", "test_"))
                and isinstance(v, (types.FunctionType, classmethod, staticmethod))
                and name != "Machine"
                and name not in NOT_CALLED
            }
        elif callable(thing) and not isinstance(thing, types.GenericAlias) and hasattr(thing, "__name__"):
            found.add(name)
    return found


def test_every_public_callable_has_a_good_call() -> None:
    assert public_callables() - set(NOT_CALLED) <= set(GOOD)
