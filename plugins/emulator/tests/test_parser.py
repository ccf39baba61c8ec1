"""PTX text as programs: the whole of the language's declarations, and bad text told with its line."""

from __future__ import annotations

import pytest
from tilecopy_emulator import UnsupportedPtxError, parse
from tilecopy_emulator.program import Braces, Memory, Negated, Offset, Pair, Relocation
from tilecopy_test_helpers.mentions import mentions

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def kernel(body, *, before="", parameters="", after=""):
    """A module with one entry; the first line of ``body`` is line 6 when nothing stands before."""
    return f"{HEADER}{before}.visible .entry k({parameters}) {after}\n{{\n{body}\n}}\n"


def operands(
    line, declarations=".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>; .reg .b16 %h<9>; .shared .b32 s[8];"
):
    return parse(kernel(f"{declarations}\n{line}")).instructions[-1].operands


def test_several_statements_a_line_and_one_statement_over_several_lines():
    program = parse(kernel(".reg .b32 a, %r<2>; mov.u32 a, 1; add.u32\n a, // why\n a, /* two\n lines */ 2; ret;"))
    assert [(i.line, i.text.split()[0]) for i in program.instructions] == [(6, "mov.u32"), (6, "add.u32"), (9, "ret")]


def test_block_comments_and_strings_do_not_confuse_lines():
    program = parse(kernel('/* { ; \n */ .pragma "a;b{"; ret;'))
    assert [(i.line, i.text) for i in program.instructions] == [(7, "ret")]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("7", "7"), ("0x1F", "31"), ("017", "15"), ("0b101", "5"), ("-3", "-3"), ("12U", "12"), ("0f3f800000", "0f3F800000"), ("-0f3F800000", "0fBF800000"),
     ("0d3ff0000000000000", "0d3FF0000000000000"), ("1.5", "0d3FF8000000000000"), ("WARP_SZ", "32"), ("0xFFFFFFFFU", "4294967295")],
)  # fmt: skip
def test_constants(text, wanted):
    assert operands(f"mov.b64 %d0, {text};")[1] == wanted


def test_operands():
    assert operands("ld.shared.b32 %r0, [%d1+-4];") == ("%r0", Memory("%d1", -4))
    assert operands("ld.shared.b32 %r0, [s+-8];") == ("%r0", Memory("s", -8))
    assert operands("ld.shared.b32 %r0, [0x40];") == ("%r0", Memory("", 64))
    assert operands("mov.b64 {%r1, _}, %d0;") == (Braces(("%r1", "_")), "%d0")
    assert operands("setp.lt.and.u32 _|%p1, %r0, 1, !%p2;") == (Pair("_", "%p1"), "%r0", "1", Negated("%p2"))
    assert operands("mov.u32 %r0, s+16;") == ("%r0", Offset("s", 16))
    assert operands("mov.u32 %r0, %tid.x;") == ("%r0", "%tid.x")


def test_guards():
    program = parse(kernel(".reg .pred p; .reg .b32 r;\n@p mov.b32 r, 1;\n@!p mov.b32 r, 2;"))
    assert [(i.guard, i.unless) for i in program.instructions] == [("p", False), ("p", True)]


def test_nested_scopes_have_registers_variables_and_labels_of_their_own():
    program = parse(
        kernel(
            ".reg .b32 r; mov.b32 r, 1;\n{ .reg .b64 r; mov.b64 r, 2; L: bra L; }\n{ .reg .b16 r; mov.b16 r, 3; L: bra L; }\nmov.b32 r, 4; L: bra L;"
        )
    )
    moves = [i.operands[0] for i in program.instructions if i.opcode[0] == "mov"]
    assert [program.register_bits[name] for name in moves] == [32, 64, 16, 32]
    assert moves[0] == moves[3]
    assert [program.labels[i.operands[0]] for i in program.instructions if i.opcode[0] == "bra"] == [2, 4, 6]


def test_a_branch_out_of_a_scope_finds_the_outer_label():
    program = parse(kernel("{ { bra OUT; } }\nret; OUT: exit;"))
    assert program.labels[program.instructions[0].operands[0]] == 2


def test_indexed_branches():
    program = parse(kernel(".reg .b32 r; mov.b32 r, 1;\nts: .branchtargets A, B;\nbrx.idx r, ts;\nA: exit; B: ret;"))
    index, targets = program.instructions[1].operands
    assert (index, [program.labels[name] for name in targets.items]) == ("r", [2, 3])


def test_parameters():
    program = parse(
        kernel(
            "ret;",
            parameters=".param .u64 .ptr .global .align 16 a, .param .align 8 .b8 b[20],\n.param .f32 c, .param .u8 d",
        )
    )
    assert [(p.name, p.type, p.bytes, p.align, p.offset, p.is_array) for p in program.parameters] == [
        ("a", "u64", 8, 8, 0, False), ("b", "b8", 20, 8, 8, True), ("c", "f32", 4, 4, 28, False), ("d", "u8", 1, 1, 32, False),
    ]  # fmt: skip


def test_directives_of_an_entry():
    program = parse(kernel("ret;", after=".reqntid 32, 4 .minnctapersm 2 .reqnctapercluster 2"))
    assert (program.threads, program.block, program.cluster) == (128, (32, 4, 1), (2, 1, 1))
    assert parse(kernel("ret;", after=".maxntid 256")).max_threads == 256


def test_variables_with_initial_values():
    text = kernel(
        "ret;",
        before=".global .align 8 .b8 bytes[6] = {1, 0x2, 255, -1};\n.const .f32 f[2][2] = {{1.0, 0f40000000}, {-3.5}};\n"
        ".visible .global .u64 p = generic(bytes)+4;\n.global .v4 .f32 v;\n.extern .shared .align 16 .b8 pool[];\n.global .s16 one = -2;\n",
    )
    found = {v.name: v for v in parse(text).variables}
    assert found["bytes"].data.ljust(6, b"\0") == bytes([1, 2, 255, 255, 0, 0])
    assert (found["bytes"].align, found["bytes"].bytes) == (8, 6)
    assert found["f"].data.ljust(16, b"\0") == b"\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x60\xc0\x00\x00\x00\x00"
    assert found["p"].relocations == (Relocation(0, "bytes", 4, True),)
    assert (found["v"].align, found["v"].bytes, found["v"].data) == (16, 16, None)
    assert (found["pool"].extern, found["pool"].bytes, found["pool"].space) == (True, 0, "shared")
    assert found["one"].data == b"\xfe\xff"


def test_the_comment_above_a_copy_ends_with_it():
    program = parse(
        kernel(
            ".reg .b32 r;\nmov.b32 r, 0;\n// copy a <- b\nmov.b32 r, 1; // aside\nmov.b32 r, 2;\n//\nmov.b32 r, 3;\n// copy c <- d\nmov.b32 r, 4;\nbar.sync 0;\nmov.b32 r, 5;"
        )
    )
    assert [i.source for i in program.instructions] == ["", "copy a <- b", "copy a <- b", "", "copy c <- d", "", ""]


def test_debug_information_is_passed_over():
    text = kernel(".loc 1 2 3\nret; .loc 1 2 3, function_name $L, inlined_at 1 4 2", before='.file 1 "a.cu"\n')
    text += ".section .debug_str {\n$L: .b8 1,2\n.b32 $L\n}\n"
    assert [i.text for i in parse(text).instructions] == ["ret"]


def test_calls_become_the_body_of_the_function():
    function = ".func (.reg .b32 out) twice(.reg .b32 x) { .reg .pred p; setp.eq.u32 p, x, 0; mov.b32 out, 0; @p ret; add.u32 out, x, x; ret; }\n"
    program = parse(
        kernel(".reg .b32 a, b; mov.b32 a, 5;\ncall (b), twice, (a);\ncall (a), twice, (7); exit;", before=function)
    )
    assert [i.opcode[0] for i in program.instructions].count("setp") == 2
    assert not any(i.opcode[0] in ("call", "ret") for i in program.instructions)
    ends = [program.labels[i.operands[0]] for i in program.instructions if i.opcode[0] == "bra" and i.guard]
    assert [program.instructions[end].operands[0] for end in ends] == ["b", "a"]


def test_parameter_space_of_functions_is_local_memory():
    function = ".func (.param .b32 out) f(.param .align 4 .b8 in[8]) { .reg .b32 r; ld.param.b32 r, [in+4]; st.param.b32 [out], r; ret; }\n"
    body = "{ .param .align 4 .b8 p0[8]; .param .b32 q0; st.param.b32 [p0+4], 9; call.uni (q0), f, (p0); ld.param.b32 r, [q0]; }"
    program = parse(kernel(f".reg .b32 r;\n{body}", before=function))
    assert [i.opcode[:2] for i in program.instructions if i.opcode[0] in ("ld", "st")] == [
        ("st", "local"),
        ("ld", "local"),
        ("st", "local"),
        ("ld", "local"),
    ]
    assert {v.space for v in program.variables} == {"local"}


def test_several_entries_are_chosen_by_name():
    text = HEADER + ".entry a() { ret; }\n.entry b() { exit; }\n"
    assert parse(text, "b").instructions[0].opcode == ("exit",)
    with pytest.raises(UnsupportedPtxError, match=mentions("b")):
        parse(text)
    with pytest.raises(UnsupportedPtxError, match=mentions("c")):
        parse(text, "c")


@pytest.mark.parametrize(
    ("body", "line", "part"),
    [
        ("mov.u32 %r1, 0;", 6, ("%r1",)),
        (".reg .b32 r;\nadd.u32 r, r, nowhere;", 7, ("nowhere",)),
        (".reg .b32 r;\n@r mov.u32 r, 0;", 7, ()),
        ("bra NOWHERE;", 6, ("NOWHERE",)),
        ("{ L: ret; }\nbra L;", 7, ("L",)),
        ("L: ret;\nL: exit;", 7, ()),
        (".reg .b32 r;\n.reg .b64 r;", 7, ()),
        (".reg .b7 r;", 6, (".b7",)),
        (".reg .b32 r\nmov.u32 r, 0;", 7, (";",)),
        ("ret;\n;;\nmov", 7, (";",)),
        ("ret; }\n}", 7, ()),
        ("{ ret;", 5, ()),
        ("ret; ]", 6, ("]",)),
        ("ret # 3;", 6, ("#",)),
        (".reg .b32 r; ld.shared.b32 r, [r;", 6, ("]",)),
        (".reg .b32 r; ld.shared.b32 r, [r+];", 6, ()),
        (".reg .b32 r; mov.u32 r, {r, ;", 6, (";",)),
        (".reg .b32 r; mov.u32 r, 0x;", 6, ("0x",)),
        (".reg .b32 r; mov.u32 r, 0f12;", 6, ("0f12",)),
        (".reg .b32 r; mov.u32 r, 99999999999999999999;", 6, (99999999999999999999,)),
        (".reg .b32 r; mov.u32 r r;", 6, (",",)),
        (".reg .b32 r; mov.u32 r,, r;", 6, (",",)),
        (".nonsense 3;", 6, (".nonsense",)),
        ("call nothing;", 6, ("nothing",)),
        (".reg .b64 f; call f, ();", 6, ()),
        (".shared .b32 x[2;", 6, ("]",)),
        (".shared .b32 x = 3;", 6, ()),
        (".local .b32 x[];", 6, ("size",)),
        (".local .b32 x[-3];", 6, (3,)),
        (".shared .b8 x[1099511627776];", 6, (232448,)),
        ("{" * 3000 + "}" * 3000, 6, ()),
        (".reg .b32 %r<-1>;", 6, (1,)),
        (".reg .pred p; @p", 7, ("}",)),
        (".reg .b32 r; tex.2d.v4.f32.f32 {r, r, r, r}, [r, {r, r}];", 6, ()),
    ],
)  # fmt: skip
def test_bad_bodies_are_told_with_their_line(body, line, part):
    with pytest.raises(UnsupportedPtxError) as error:
        parse(kernel(body))
    assert error.value.line == line, error.value
    assert mentions(line).search(str(error.value))
    assert mentions(*part).search(str(error.value))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", (".version",)),
        ("garbage", ("garbage",)),
        (".version 8.0", (".target",)),
        (HEADER + ".version 8.0", (".version",)),
        (HEADER + ".address_size 64", (".address_size",)),
        (".version 8.9\n.target sm_90", ("8.9",)),
        (".version 8.0\n.target sm_91", ("sm_91",)),
        (".version 8.\uff10\n.target sm_90", ()),
        (HEADER + ".global .align 0 .b8 a[4];", (0,)),
        (HEADER + ".global .align 1099511627776 .b8 a[4];", (1099511627776,)),
        (HEADER, (".entry",)),
        (".version 8.0\n.address_size 64\n.entry k() { ret; }", (".address_size",)),
        (".version eight", ("version",)),
        (".version 8.0\n.target sm_90, fast", ("fast",)),
        (".version 8.0\n.target sm_90\n.address_size 32", (64,)),
        (HEADER + ".entry k( { ret; }", ("{",)),
        (HEADER + ".entry k() { ret; } .entry k() { ret; }", ()),
        (HEADER + ".entry k(.param .b33 x) { ret; }", (".b33",)),
        (HEADER + ".entry k(.param x) { ret; }", ()),
        (HEADER + ".entry k(.shared .u32 x) { ret; }", (".shared",)),
        (HEADER + ".func f(.local .u32 x) { ret; }\n.entry k() { ret; }", (".local",)),
        (HEADER + ".global .b8 a[2] = {1, 2, 3};\n.entry k() { ret; }", (3,)),
        (HEADER + ".global .b8 a = k;\n.entry k() { ret; }", ()),
        (HEADER + ".global .b8 x = " + "{" * 3000 + ";", ()),
        (HEADER + ".extern .global .b32 far;\n.entry k() { .reg .b64 d; mov.u64 d, far; ret; }", ("far", ".extern")),
        (HEADER + ".entry k() .reqntid 0 { ret; }", ()),
        (HEADER + ".func f() { call f; ret; }\n.entry k() { call f; }", ()),
        (HEADER + ".func f(.reg .b32 x) { ret; }\n.entry k() { call f; }", (1,)),
        (HEADER + ".entry k() { ret; ", ()),
        (HEADER + ".entry k()", ()),
    ],
)
def test_bad_modules_are_told(text, part):
    with pytest.raises(UnsupportedPtxError) as error:
        parse(text)
    assert mentions(*part).search(str(error.value))


@pytest.mark.parametrize("pointer", ["", ".ptr", ".ptr .global", ".ptr .align 16", ".ptr .shared .align 16"])
def test_a_parameter_may_say_where_it_points(pointer):
    program = parse(kernel("ret;", parameters=f".param .u64 {pointer} a, .param .u32 n"))
    assert [(each.name, each.bytes) for each in program.parameters] == [("a", 8), ("n", 4)]


def test_text_cut_anywhere_is_an_error_of_ours():
    whole = kernel(
        ".reg .b32 %r<4>; .reg .pred p;\n.shared .align 8 .b8 s[16];\nL: mov.u32 %r1, %tid.x;\nsetp.lt.s32 p|_, %r1, -3;\n@!p bra L;\nld.shared.v2.b32 {%r1, %r2}, [s+8];\nret;",
        parameters=".param .u64 a, .param .align 8 .b8 b[4]",
        before=".const .f32 c[2] = {1.0, 0f00000000};\n",
    )
    parse(whole)
    for end in range(len(whole) - 2):
        with pytest.raises(UnsupportedPtxError):
            parse(whole[:end])


def test_text_with_a_piece_missing_or_doubled_is_an_error_of_ours_or_a_program():
    whole = kernel(
        ".reg .b32 %r<4>; .reg .pred p;\nL: mov.u32 %r1, %tid.x;\nsetp.lt.s32 p|_, %r1, -3;\n@!p bra L;\nld.shared.v2.b32 {%r1, %r2}, [%r3+8];\nret;"
    )
    for at in range(0, len(whole), 3):
        for changed in (
            whole[:at] + whole[at + 2 :],
            whole[:at] + whole[at : at + 4] + whole[at:],
            whole[:at] + "}" + whole[at:],
        ):
            try:
                parse(changed)
            except UnsupportedPtxError as error:
                assert str(error)
