"""Instructions of other packages, by entry point, as if they were installed."""

from __future__ import annotations

import os
from textwrap import dedent

import pytest
from tilecopy import LaunchError
from tilecopy_emulator.extending import form
from tilecopy_test_helpers.forked_programs import run_program
from tilecopy_test_helpers.mentions import mentions

MODULE = """
    import numpy as np
    from tilecopy_emulator.extending import AccessKind, address_reader, arithmetic, form, reader, refuse, start_copy, writer

    def swap(instruction, program):
        if instruction.opcode != ("acme", "swap", "b32") or len(instruction.operands) != 2:
            raise refuse(instruction, "acme.swap.b32 d, [a]")
        write = writer(instruction.operands[0], "b32", instruction, program)
        address = address_reader(instruction.operands[1], instruction, program)
        access = AccessKind("global", 4)

        def step(machine, lanes):
            raw = machine.load(lanes, access, address(machine, lanes))
            write(machine, lanes, np.ascontiguousarray(raw[..., ::-1]).view(np.uint32)[..., 0])

        return step

    def fill(instruction, program):
        to, source, size, barrier = instruction.operands
        to, source, barrier = (address_reader(x, instruction, program) for x in (to, source, barrier))
        size = reader(size, "u32", instruction, program)

        def step(machine, lanes):
            for lane in machine.index(lanes):
                one = np.array([lane])
                bytes = int(machine.uniform(size(machine, one), one)[0])
                start_copy(machine, int(lane), bytes, to=("shared::cta", to(machine, one)), source=("global", source(machine, one)),
                           mbarrier=barrier(machine, one))

        return step

    INSTRUCTIONS = {
        "acme.swap": swap,
        "acme.fill": fill,
        **arithmetic(form("avg{.up}", "u32", "t = t t", lambda mode: lambda a, b: (a & b) + ((a ^ b) >> np.uint32(1)) + ((a ^ b) & np.uint32(mode.has("up"))))),
    }
"""
PROGRAM = """
    import numpy as np
    from tilecopy import HazardError
    from tilecopy_emulator import UnsupportedPtxError, run_ptx

    HEAD = ".version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry k(.param .u64 a, .param .u64 out) {\\n"
    HEAD += ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p; ld.param.u64 %d1, [a]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x;\\n"
    HEAD += "mad.wide.u32 %d1, %r1, 4, %d1; mad.wide.u32 %d2, %r1, 4, %d2;\\n"

    def run(body, out=None):
        out = np.zeros(64, np.uint32) if out is None else out
        run_ptx(HEAD + body + "\\nret; }", [np.arange(64, dtype=np.uint32), out], grid=1, block=64)
        return out
"""


def outcome(tmp_path, program, *packages):
    """Run a program where some packages ``(name, entry points, module)`` are installed."""
    for name, points, module in packages:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[tilecopy.instructions.v1]\n" + "\n".join(points) + "\n")
        (tmp_path / f"{name}_instructions.py").write_text(dedent(module))
    code = dedent(PROGRAM) + dedent(program)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return run_program(code, modules=("tilecopy_emulator.executor",), environment=environment)


ACME = ("acme", ["acme = acme_instructions"], MODULE)


def test_instructions_of_a_package_run_and_are_judged(tmp_path):
    done = outcome(
        tmp_path,
        """
        assert run("acme.swap.b32 %r2, [%d1];\\nst.global.b32 [%d2], %r2;").tolist() == [i << 24 for i in range(64)]
        assert run("avg.up.u32 %r2, %r1, 3;\\nst.global.b32 [%d2], %r2;").tolist() == [(i + 4) // 2 for i in range(64)]
        try:
            run("acme.swap.b32 %r2, [%d1+1];")
        except HazardError as error:
            assert (error.kind, error.line) == ("alignment", 7), error
        else:
            raise AssertionError
        for line in ("acme.swap.b64 %r2, [%d1];", "acme.swap.b32 %r2;", "avg.down.u32 %r1, %r1, %r1;", "acme.other;"):
            try:
                run(line)
            except UnsupportedPtxError as error:
                assert error.line == 7, error
            else:
                raise AssertionError(line)
        """,
        ACME,
    )
    assert done.returncode == 0, done.stderr


def test_an_asynchronous_copy_of_a_package_completes_on_its_mbarrier(tmp_path):
    done = outcome(
        tmp_path,
        """
        BODY = '''.shared .align 16 .b8 s[256]; .shared .align 8 .b64 m;
        setp.eq.u32 %p, %r1, 0;
        @%p mbarrier.init.shared.b64 [m], 1;
        fence.mbarrier_init.release.cluster;
        bar.sync 0;
        @%p mbarrier.arrive.expect_tx.shared.b64 _, [m], 256;
        @%p acme.fill [s], [%d1], 256, [m];
        mov.u32 %r3, s; mad.lo.u32 %r3, %r1, 4, %r3;
        W: mbarrier.try_wait.parity.shared.b64 %p, [m], 0;
        @!%p bra W;
        ld.shared.b32 %r2, [%r3];
        st.global.b32 [%d2], %r2;'''
        assert run(BODY).tolist() == list(range(64))
        try:
            run(BODY.replace("@!%p bra W;", "").replace("W: mbarrier.try_wait.parity.shared.b64 %p, [m], 0;", ""))
        except HazardError as error:
            assert error.kind == "async", error
        else:
            raise AssertionError
        """,
        ACME,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("packages", "part"),
    [
        ([("bad", ["bad = bad_instructions"], "raise RuntimeError('no')")], "ignored entry points: 'bad'"),
        ([("bad", ["bad = bad_instructions"], "x = 1")], "ignored entry points: 'bad'"),
        ([("one", ["one = one_instructions"], "INSTRUCTIONS = {'acme': print}"), ("two", ["two = two_instructions"], "INSTRUCTIONS = {'acme': print}")],
         "two entry points of"),
    ],
)  # fmt: skip
def test_a_package_that_does_not_load_is_named(tmp_path, packages, part):
    done = outcome(
        tmp_path,
        """
        from tilecopy import TilecopyError
        run("mov.u32 %r2, 1;")
        try:
            run("acme;")
        except TilecopyError as error:
            print(error)
        """,
        *packages,
    )
    assert done.returncode == 0, done.stderr
    assert part in done.stdout


def test_the_bulk_engine_and_matrix_products_come_as_a_third_partys_instructions_do():
    from importlib.metadata import entry_points

    from tilecopy_emulator import bulk, mma
    from tilecopy_emulator.opcodes import table

    points = [point for point in entry_points(group=table.GROUP) if point.dist.name == "tilecopy-emulator"]
    assert {point.name: point.load() for point in points} == {"bulk": bulk, "mma": mma}
    assert table.handlers()["cp.async.bulk"].__wrapped__ is bulk.INSTRUCTIONS["cp.async.bulk"]
    assert table.handlers()["mma"].__wrapped__ is mma.INSTRUCTIONS["mma"]


FAULTY = """
    from tilecopy_emulator.extending import reader

    def divides(instruction, program):
        return lambda machine, lanes: 1 / 0

    def misuses(instruction, program):
        return lambda machine, lanes: machine.load(lanes, None, "x")

    INSTRUCTIONS = {
        "acme.divides": divides,
        "acme.misuses": misuses,
        "acme.reads": lambda instruction, program: reader("%r1", "u33", instruction, program),
        "acme.raises": lambda instruction, program: instruction.no_such,
        "acme.forgets": lambda instruction, program: None,
    }
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("acme.divides;", "a step of entry point 'faulty' (faulty 1.0) raised ZeroDivisionError"),
        ("acme.misuses;", "a step of entry point 'faulty' (faulty 1.0) raised"),
        ("acme.reads;", "the handler of entry point 'faulty' (faulty 1.0) raised KeyError('u33')"),
        ("acme.raises;", "the handler of entry point 'faulty' (faulty 1.0) raised AttributeError"),
        (
            "acme.forgets;",
            "the handler of entry point 'faulty' (faulty 1.0) must return a function of a machine and its lanes, got None",
        ),
    ],
)
def test_what_a_package_gets_wrong_is_told_as_its_own(tmp_path, body, told):
    done = outcome(
        tmp_path,
        f"""
        from tilecopy import TilecopyError
        try:
            run({body!r})
        except TilecopyError as error:
            print(error)
        """,
        ("faulty", ["faulty = faulty_instructions"], FAULTY),
    )
    assert done.returncode == 0, done.stderr
    assert told in done.stdout
    assert "PTX line 7" in done.stdout or "reader" in done.stdout


@pytest.mark.parametrize(
    ("types", "roles", "named"),
    [
        ("u23", "t = t", ("types",)),
        ("u32", "t = t7", ("t7",)),
        ("u32", "u23 = t", ("t",)),
        ("u32", "t! = t", ("t",)),
    ],
)
def test_a_form_of_types_that_ptx_does_not_have_is_refused(types, roles, named):
    with pytest.raises(LaunchError, match=mentions(*named)):
        form("avg", types, roles, lambda mode: abs)
