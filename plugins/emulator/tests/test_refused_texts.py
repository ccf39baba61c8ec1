"""What no assembler takes is refused before it runs: operands, directives and instructions that do not go together."""

from __future__ import annotations

import pytest
from tilecopy.assemblers import available_assemblers
from tilecopy_emulator import UnsupportedPtxError, parse
from tilecopy_emulator.opcodes.table import compile_program
from tilecopy_test_helpers.mutated_texts import refused_by_ptxas

HAS_PTXAS = "ptxas" in available_assemblers()
HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
REGISTERS = (
    ".reg .b16 h; .reg .b32 r, r1; .reg .b64 d; .reg .pred p, q; .reg .f32 f; .reg .f64 g; .reg .u32 u; .reg .f16 e; .reg .u64 ud; "
    ".shared .align 16 .b8 sh[256]; .local .align 16 .b8 lo[64];"
)
BODIES = """
add.u32 f, r, r; | add.f32 u, f, f; | mov.u32 r, f; | ld.global.u32 f, [d]; | ld.global.f32 g, [d]; | st.global.u16 [d], f;
add.u16 e, h, h; | setp.eq.f32 p, u, u; | atom.global.add.u32 f, [d], u; | atom.global.add.u32 r, [d], ud; | popc.b32 f, r;
mov.b64 {f, u}, d; | ld.global.v2.b32 {r, d}, [d]; | ld.global.v2.b32 {_, _}, [d]; | mov.b64 d, {sh, r};
add.u32 r, %tid.x, 1; | st.global.u32 [d], %laneid; | mov.u64 d, %tid.x; | mov.u32 r, %clock64; | mov.f32 f, %tid.x;
mov.b32 _, r; | ld.global.b32 _, [d]; | selp.b32 _, r, r, p; | elect.sync r|_, -1; | setp.eq.u32 _|_, r, 1;
add.u32 r, sh, 4; | cvt.u64.u32 d, sh; | setp.eq.u32 p, sh, 0; | shfl.sync.idx.b32 r, r, 0, 31, f; | add.f16 h, h, 0x3C00;
ld.b32 r, [64]; | ld.global.b32 r, [64]; | ld.global.b32 r, [r]; | ld.global.b32 r, [g]; | ld.shared.b32 r, [lo]; | ld.shared.b32 r, [sh-4];
prefetch.global.L2 [sh]; | cp.async.ca.shared.global [lo], [d], 4; | ldmatrix.sync.aligned.m8n8.x1.shared.b16 r, [sh]; | ld.u64 d, [A];
bar.sync 16; | bar.sync 0, 33; | bar.arrive 0, 0; | bfe.u32 r, r, 256, 1; | pmevent 16; | mbarrier.arrive.shared.b64 d, [sh], 0;
mbarrier.try_wait.parity.shared.b64 p, [sh], 2; | cp.async.bulk.prefetch.L2.global [d], 24; | tcgen05.st.sync.aligned.32x32b.x1.b32 [r], {5};
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [sh], 48; | ld.global.L2::cache_hint.b32 r, [d], r; | and.pred p, !r, q;
.reg .bf16 x; | .reg .b32 WARP_SZ; | .shared .align 0 .b8 x[4]; | .shared .b8 x[0]; | .shared .v4 .b64 x; | .visible .shared .b8 x[4]; | ;
.reg .b32 x; x: ret; | A: ret; | X: ret; X: ret; | .pragma nounroll; | .file 1 "a" | .loc 1 1
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
"""
MODULES = """
.version 8.8 | .target sm_100a | .address_size 64 | .global .align 0 .b8 x[4]; | .global .align 1099511627776 .b8 x[4]; | .global .b8 x[0];
.global .f32 x = 1; | .global .u32 x = 1.0; | .global .u64 x = y; | .global .u64 x = k; | .local .b8 x[4]; | .visible .visible .global .b32 x;
.func f(); | .extern .func f() { ret; } | .func f() .reqntid 32 { ret; } | .pragma x; | .loc 1 1 1 | .alias f, g; | .global .b32 k;
.visible .entry j(.param .u64 A, .param .u64 A) { ret; } | .visible .entry j(.param .b8 A[0]) { ret; } | .visible .entry j(.reg .u64 A) { ret; }
.visible .entry j(.param .align 3 .b8 A[4]) { ret; } | .visible .entry j(.param .u64 .global A) { ret; } | .visible .entry j.x() { ret; }
.visible .entry j() .reqntid 32 .maxntid 32 { ret; } | .visible .entry j() .maxnreg 0 { ret; } | .visible .entry j() .noreturn { ret; }
.visible .entry j() .maxclusterrank 4 .reqnctapercluster 2 { ret; } | .visible .entry j(.param .b8 A[32768]) { ret; }
"""


def listed(texts: str) -> list[str]:
    return [text.strip() for line in texts.strip().splitlines() for text in line.split(" | ")]


def demand_refused(text: str, entry: str) -> None:
    with pytest.raises(UnsupportedPtxError):
        compile_program(parse(text, entry))
    if HAS_PTXAS:
        assert refused_by_ptxas(text)


@pytest.mark.parametrize("body", listed(BODIES))
def test_a_body_that_no_assembler_takes_is_refused(body: str) -> None:
    demand_refused(f"{HEAD}.visible .entry k(.param .u64 A)\n{{\n{REGISTERS}\n{body}\nret;\n}}\n", "k")


@pytest.mark.parametrize("module", listed(MODULES))
def test_a_module_that_no_assembler_takes_is_refused(module: str) -> None:
    entry = "j" if ".entry j" in module else "k"
    demand_refused(f"{HEAD}{module}\n.visible .entry k() {{ ret; }}\n", entry)


@pytest.mark.parametrize("digits", ["\uff18", "\u0668"])
def test_digits_of_other_scripts_are_refused(digits: str) -> None:
    demand_refused(f"{HEAD}.global .b8 x[{digits}];\n.visible .entry k() {{ ret; }}\n", "k")


def test_a_pragma_of_a_newer_version_is_refused() -> None:
    text = '.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { .pragma "used_bytes_mask 15"; ret; }\n'
    demand_refused(text, "k")
