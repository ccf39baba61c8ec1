"""The PTX builder refuses nonsense; modules ask for as little as they need; canonical texts stay as they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy.assemblers import ASSEMBLERS, assemble
from tilecopy.module_text import header_target
from tilecopy_test_helpers import demos
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import edge_of, round_trip, transposed_words

from tilecopy_core.ptx import Address, Line, Needs, PtxBuilder, Register, instruction_of, instructions_in
from tilecopy_partitions import mapa

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"
TARGETS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103", "sm_120"]

CANONICAL = {
    "gmem_smem_f16_128x64": lambda: round_trip((256, 64), (128, 64)),
    "gmem_smem_f16_swizzled": lambda: round_trip(
        (64, 64), (32, 64), threads=32, layout=tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[32, 64]))
    ),
    "gmem_smem_f32_padded": lambda: round_trip(
        (32, 32), (32, 32), "float32", threads=32, layout=TileLayout(S[(32, 32) : (33, 1)])
    ),
    **{
        f"edge_{variant}": lambda variant=variant: edge_of(variant)
        for variant in ("gmem_smem", "ldgsts", "reg", "ragged", "ragged_async")
    },
    "regperm_transposed_words": lambda: transposed_words("uint8"),
    **{f"demo_{name}": demo.make for name, demo in demos.DEMOS.items() if name != "pipeline"},
}


@pytest.mark.parametrize("name", CANONICAL)
def test_golden_text(name: str) -> None:
    """To change them on purpose: TILECOPY_UPDATE_GOLDEN=1 pytest tests/core/ptx/test_builder.py."""
    kernel, path = CANONICAL[name](), GOLDEN / f"{name}.ptx"
    if os.environ.get("TILECOPY_UPDATE_GOLDEN"):
        path.write_text(kernel.ptx)
    assert path.exists(), f"{path} is missing; run TILECOPY_UPDATE_GOLDEN=1 pytest {__file__}"
    assert kernel.ptx == path.read_text()
    assert assemble(kernel.ptx, kernel.target, "ptxas")[:4] == b"\x7fELF"


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.ptx")} == set(CANONICAL)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("assembler", ASSEMBLERS)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
def test_round_trips_assemble_for_every_target(target: str, assembler: str, dtype: str) -> None:
    for layout in (
        None,
        TileLayout(S[(128, 64) : (1, 128)]),
        tc.SwizzledLayout(tc.swizzle("64B", dtype), TileLayout(S[128, 64])),
    ):
        kernel = round_trip((256, 128), (128, 64), dtype, layout=layout, target=target)
        assert assemble(kernel.ptx, kernel.target, assembler)[:4] == b"\x7fELF"


def described(threads: int) -> tc.KernelBuilder:
    k = tc.KernelBuilder("move", threads=threads)
    k.cta.copy(k.shared((4 * threads,), "uint32")[:], k.param("A", (4 * threads,), "uint32")[:])
    return k


@pytest.mark.parametrize("target", TARGETS)
def test_how_many_ctas_an_sm_is_to_hold_is_a_directive(target: str) -> None:
    plain = described(1024).build(target=target, grid=1, min_ctas_per_sm=None)
    kernel = described(1024).build(target=target, grid=1)
    assert (
        kernel.ptx == plain.ptx.replace(".reqntid 1024, 1, 1\n", ".reqntid 1024, 1, 1\n.minnctapersm 1\n") != plain.ptx
    )
    for assembler in ASSEMBLERS:
        assert assemble(kernel.ptx, kernel.target, assembler)[:4] == b"\x7fELF"


def test_more_threads_than_an_sm_holds_are_refused() -> None:
    assert described(64).build(target="sm_90", min_ctas_per_sm=32).ptx.count(".minnctapersm 32") == 1
    with pytest.raises(tc.RequestError, match=mentions("min_ctas_per_sm", 3, 1024, 2048)):
        described(1024).build(target="sm_90", min_ctas_per_sm=3)
    for wrong in (0, -1, 33, True, 1.0, "1"):
        with pytest.raises(tc.RequestError, match="min_ctas_per_sm"):
            described(32).build(target="sm_90", min_ctas_per_sm=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "version", "target"),
    [
        (lambda: round_trip((32, 32), (32, 32), "uint8", layout=TileLayout(S[(32, 32) : (1, 32)])), "6.3", "sm_75"),
        (lambda: round_trip((256, 64), (128, 64)), "6.3", "sm_75"),
        (lambda: demos.ldgsts(), "7.0", "sm_80"),
        (lambda: demos.dsmem("sm_90a"), "8.0", "sm_90"),
        (lambda: demos.tcgen05_cp("sm_100a"), "8.6", "sm_100a"),
    ],
)
def test_version_and_target_are_as_low_as_the_instructions_allow(make: Any, version: str, target: str) -> None:
    text = make().ptx
    assert f".version {version}\n.target {target}\n" in text


HELD = tc.Buffer(64, "float32", space="shared", name="s", align_bytes=16)


CP_ASYNC = "cp.async.cg.shared.global"
TO_CLUSTER = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.global.shared::cta.bulk_group"
GLOBAL = Address("global", "%rd0", 0, 16)


@pytest.fixture
def ptx() -> PtxBuilder:
    return PtxBuilder(tc.target_of("sm_90a"), 128)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda p, a: p.load(a, 48), ("access", 48)),
        (lambda p, a: p.load(a, 128, p.regs("b32", 3)), (4, 32)),
        (lambda p, a: p.load(a, 64, p.regs("b64", 2)), ("registers",)),
        (lambda p, a: p.load(a + 4, 128), (4, 16)),
        (lambda p, a: p.store(a + 2, 32, p.regs("b32", 1)), (4,)),
        (lambda p, a: p.load(a, 256), ("sm_100",)),
        (lambda p, a: p.reg("b128"), ("b128",)),
        (lambda p, a: p.instr("bra", "L", guard=p.reg("b32")), ("bra", "guard")),
        (lambda p, a: p.instr(CP_ASYNC, a, a, 16), ("global", "shared")),
        (lambda p, a: p.instr(CP_ASYNC, a, GLOBAL, 2), (4, 8, 16)),
        (lambda p, a: p.instr(CP_ASYNC, a, GLOBAL + 8, 16), (8, 16)),
        (lambda p, a: p.instr("bar.sync", 16), (15, 16)),
        (lambda p, a: p.instr("bar.sync", 1, 40), (32,)),
        (lambda p, a: p.instr("mbarrier.init.shared.b64", a, 0), (1048575,)),
        (lambda p, a: p.instr("mbarrier.arrive.expect_tx.shared::cta.b64", "_", a, 2**20), (1048575, 1048576)),
        (lambda p, a: p.instr(TO_CLUSTER, mapa(p, a, 1), a, 24, mapa(p, a, 1)), (16, 24)),
        (lambda p, a: p.instr(TO_CLUSTER, a, a, 16, a), ("shared::cluster",)),
        (lambda p, a: p.instr(LOAD, a, GLOBAL, 24, a), (16, 24)),
        (lambda p, a: p.instr(LOAD, a, a, 16, a), ("global", "shared")),
        (lambda p, a: p.instr(LOAD, a + 8, GLOBAL, 16, a), (8, 16)),
        (lambda p, a: p.instr(LOAD, a, GLOBAL, 2**20, a), (16, 1048575, 1048576)),
        (lambda p, a: p.instr(LOAD, a, GLOBAL, 16, a + 4), ("mbarrier", 4, 8)),
        (lambda p, a: p.instr(STORE, GLOBAL, a, 8), (16, 8)),
        (lambda p, a: p.instr(STORE, a, a, 16), ("global", "shared")),
        (lambda p, a: p.instr(STORE, GLOBAL + 4, a, 16), (4, 16)),
        (lambda p, a: p.instr("cp.async.bulk.prefetch.L2.global", a, 16), ("global",)),
        (lambda p, a: p.instr("cp.async.bulk.wait_group", -1), (2147483647,)),
        (lambda p, a: p.element(HELD[0:2]), ("s",)),
        (lambda p, a: p.address(tc.Buffer(4, "int8", space="local", name="r")), ("r", "local")),
        (lambda p, a: p.value(tc.symbol("zzz", upper=3)), ("zzz",)),
        (lambda p, a: p.instr("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", a, 16), (16,)),
        (lambda p, a: p.value(p.tid * 2**25), (32,)),
    ],
)
def test_the_builder_refuses_nonsense(ptx: PtxBuilder, write: Any, message: tuple[object, ...]) -> None:
    address = ptx.address(HELD)
    with pytest.raises(tc.PtxError, match=mentions(*message)):
        write(ptx, address)


def test_what_the_builder_writes_and_refuses(ptx: PtxBuilder) -> None:
    with pytest.raises(tc.PtxError, match=mentions("sm_100")):
        ptx.load(Address("global", "%rd0", 0, 32), 256)
    barrier = ptx.address(HELD)
    assert len({mapa(ptx, barrier, rank).base for rank in (0, 1, 0, 2)}) == 3, "one register a rank"
    assert header_target(Needs(known=False), tc.target_of("sm_90a"))[1] == tc.target_of("sm_90a")
    assert header_target(Needs(80, (7, 0)), tc.target_of("sm_90a"))[1] == tc.target_of("sm_80")


def test_a_whole_address_lies_inside_by_its_register_alone(ptx: PtxBuilder) -> None:
    for offset, immediate in ((ptx.tid + 3, 12), (ptx.tid - 1, 0), (ptx.tid * -1 + 130, 0), (3, 12)):
        assert ptx.address(HELD, offset, whole=True).offset_bytes == immediate, offset
    assert ptx.address(HELD, ptx.tid - 1).offset_bytes == -4


def test_an_instruction_that_the_target_lacks_is_refused() -> None:
    with pytest.raises(tc.TargetError, match=mentions("mapa", "sm_90", "sm_80")):
        PtxBuilder(tc.target_of("sm_80"), 32).instr("mapa.shared::cluster.u32", "%r0", "%r1", 0)
    with pytest.raises(tc.TargetError, match=mentions("tcgen05.wait::ld.sync.aligned", "sm_100")):
        PtxBuilder(tc.target_of("sm_100"), 32).instr("tcgen05.wait::ld.sync.aligned")


@pytest.mark.parametrize(
    ("feature", "opcode"),
    [
        ("cluster", "barrier.cluster.arrive"),
        ("matrices_of_bytes", "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8"),
        ("multicast", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"),
        ("tma", "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"),
        ("wgmma", "wgmma.fence.sync.aligned"),
        ("tcgen05", "tcgen05.wait::ld.sync.aligned"),
    ],
)
def test_a_target_has_a_feature_where_it_has_its_instructions(feature: str, opcode: str) -> None:
    for name in tc.TARGETS:
        target = tc.target_of(name)
        assert target.has(feature) == (instruction_of(opcode).needs_on(target) is not None), name
    with pytest.raises(tc.TargetError, match=mentions("tcgen5", "feature", "cluster", "matrices_of_bytes", "tcgen05")):
        tc.target_of("sm_90").has("tcgen5")


def test_inline_ptx_raises_what_the_module_needs() -> None:
    k = tc.KernelBuilder("k", threads=32)
    k.inline_ptx("{{ .reg .pred p; setp.eq.u32 p, 0, 0; @p fence.proxy.async.shared::cta; }}")
    assert instruction_of("fence.proxy.async.shared::cta").needs.arch == 90
    with pytest.raises(tc.TargetError, match="sm_90"):
        k.build(target="sm_80", grid=1)


@pytest.mark.parametrize(
    ("text", "target", "version", "header"),
    [
        ("movmatrix.sync.aligned.m8n8.trans.b16 %a, %b;", "sm_80", "7.8", "sm_75"),
        ("fence.proxy.tensormap::generic.acquire.gpu [%d], 128;", "sm_90a", "8.3", "sm_90"),
        ("elect.sync %a|%e, -1;", "sm_100", "8.0", "sm_90"),
        ("@!%e bra L; L: fence.proxy.alias;", "sm_80", "7.5", "sm_75"),
        (
            "/* a; b */ {{ .reg .b32 t; // c;\nL: {{ mapa.shared::cluster.u32 t,\n  %a, %b; }}\n}}",
            "sm_90a",
            "7.8",
            "sm_90",
        ),
        ("setmaxnreg.inc.sync.aligned.u32 64;", "sm_120f", "8.8", "sm_120f"),
        ("cp.async.cg.shared.global [%a], [%d], 16, p1;", "sm_86", "7.5", "sm_80"),
        ("cp.async.cg.shared.global [%a], [%d], 16, %e;", "sm_86", "7.5", "sm_80"),
        ("cp.async.cg.shared.global [%a], [%d], 16, !%e;", "sm_86", "7.5", "sm_80"),
        ("cp.async.cg.shared.global [%a], [%d], 16, %b;", "sm_86", "7.0", "sm_80"),
        ("mov.u32 %a, %cluster_ctarank;", "sm_90a", "7.8", "sm_90"),
        ("fence.proxy.of_tomorrow;", "sm_90a", "9.0", "sm_90a"),
        ("ld.global.v8.of_tomorrow.b32 %a, [%d];", "sm_80", "9.0", "sm_80"),
    ],
)
def test_inline_ptx_decides_the_header(text: str, target: str, version: str, header: str) -> None:
    """An instruction that the table lacks, whatever it begins with, keeps the target, in the newest version of PTX that is known."""
    k = tc.KernelBuilder("k", threads=32)
    k.inline_ptx(f"{{{{ .reg .b32 %a, %b, %c; .reg .b64 %d; .reg .pred %e, p1; {text} }}}}")
    assert k.build(target=target, grid=1).ptx.startswith(f".version {version}\n.target {header}\n")


@pytest.mark.parametrize(
    ("text", "results", "accesses"),
    [
        ("@!%p1 ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16];", ["{%r1, %r2, %r3, %r4}"], [("global", 16, "load")]),
        ("st.shared::cluster.u8 [%r1], %r2;", [], [("shared::cluster", 1, "store")]),
        ("atom.global.add.u64 %rd1, [%rd2], 1;", ["%rd1"], [("global", 8, "load store")]),
        ("ld.b64 %rd1, [%rd2];", ["%rd1"], [("", 8, "load")]),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];", ["{%r1, %r2}"], [("shared", None, "load")]),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16;", [], [("shared", 16, "store"), ("global", 16, "load")]),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];",
            [],
            [("shared::cluster", None, "store"), ("global", None, "load")],
        ),
        ("prefetch.global.L2 [%rd1];", [], [("global", None, "")]),
        ("mbarrier.init.shared.b64 [%r1], 1;", [], []),
        ("add.s32%r1, %r2, 1;", ["%r1"], []),
        ("call (%r1), f, (%r2);", ["(%r1)"], []),
        ("mine.b32 %r1, [%r2], %r3;", ["%r1", "%r3"], []),
        ("bra.uni $end;", [], []),
    ],
)
def test_a_line_says_what_it_writes_and_accesses(
    text: str, results: list[str], accesses: list[tuple[str, int | None, str]]
) -> None:
    (line,) = (line for number, line in instructions_in(f"// one\n{text} // [%r9]\n") if number == 2)
    assert list(map(str, line.results)) == results
    kinds = [(each, " ".join(["load"] * each.loads + ["store"] * each.stores)) for each in line.accesses]
    assert [(each.space, each.bytes, kind) for each, kind in kinds] == accesses
    assert line.is_branch == text.startswith("bra")


def test_typed_operands_are_read_as_their_text_is() -> None:
    register, base = Register("b32", "%r1"), Register("b64", "%rd1")
    typed = Line("ld.shared.b32", (register, Address("shared", base, 8, 4)))
    (read,) = (line for _, line in instructions_in(str(typed)))
    assert typed.names == read.names == ["%r1", "%rd1"] and list(map(str, typed.results)) == read.results
    assert [(each.space, each.bytes) for each in typed.accesses] == [("shared", 4)]


def test_the_canonical_round_trip_has_no_dead_or_repeated_instruction() -> None:
    text = round_trip((256, 64), (128, 64)).ptx
    lines = [
        line.strip() for line in text.splitlines() if line.startswith("\t") and not line.strip().startswith(("//", "."))
    ]
    computed = [line for line in lines if not line.startswith(("ld.global", "st.", "ld.shared", "bar", "ret"))]
    assert len(computed) <= 15, "one base a side and thread, immediates for the rounds"
    assert sum("ld.global" in line for line in lines) == 8 and sum("st.global" in line for line in lines) == 8
