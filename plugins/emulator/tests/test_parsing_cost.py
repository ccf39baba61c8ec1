"""What a text costs before it runs: time linear in it, calls without recursion, sizes that are checked before memory is taken."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import UnsupportedPtxError, parse, run_ptx

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def entry(body: str, parameters: str = "") -> str:
    return f".visible .entry k({parameters})\n{{\n{body}\nret;\n}}\n"


def calls_made(function: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's."""
    count = 0

    def tally(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(tally)
    try:
        function()
    except UnsupportedPtxError:
        pass
    finally:
        sys.setprofile(None)
    return count


def chain(depth: int) -> str:
    """A function that calls one that calls one; each adds 1."""
    functions = [".func (.reg .b32 o) f0(.reg .b32 x) { add.u32 o, x, 1; ret; }"]
    for number in range(1, depth):
        functions.append(
            f".func (.reg .b32 o) f{number}(.reg .b32 x) {{ .reg .b32 y; add.u32 y, x, 1; call (o), f{number - 1}, (y); ret; }}"
        )
    body = f".reg .b32 r; .reg .b64 d; ld.param.u64 d, [A]; mov.b32 r, 0; call (r), f{depth - 1}, (r); st.global.b32 [d], r;"
    return HEAD + "\n".join(functions) + entry(body, ".param .u64 A")


def tree(depth: int, *, called: bool) -> str:
    """A function that calls one twice, which calls one twice; the lowest adds 1. Its arguments are structures of three words."""
    functions = [
        ".func (.param .b32 o) f0(.param .align 4 .b8 x[12]) { .reg .b32 y; ld.param.b32 y, [x+8]; add.u32 y, y, 1; st.param.b32 [o], y; ret; }"
    ]
    for number in range(1, depth):
        call = (
            f"{{ .param .align 4 .b8 p[12]; .param .b32 q; st.param.b32 [p], 0; st.param.b32 [p+4], 0; st.param.b32 [p+8], y; "
            f"call (q), f{number - 1}, (p); ld.param.b32 y, [q]; }}"
        )
        functions.append(
            f".func (.param .b32 o) f{number}(.param .align 4 .b8 x[12]) "
            f"{{ .reg .b32 y; ld.param.b32 y, [x+8]; {call} {call} st.param.b32 [o], y; ret; }}"
        )
    body = f"""
        .reg .pred p; .reg .b32 r; .reg .b64 d; .param .align 4 .b8 a[12]; .param .b32 b;
        ld.param.u64 d, [A]; mov.u32 r, %tid.x; mad.wide.u32 d, r, 4, d; setp.{"eq" if called else "ge"}.u32 p, r, {0 if called else 64};
        st.param.b32 [a], 0; st.param.b32 [a+4], 0; st.param.b32 [a+8], r; st.param.b32 [b], 7;
        @p call (b), f{depth - 1}, (a);
        ld.param.b32 r, [b]; st.global.b32 [d], r;"""
    return HEAD + "\n".join(functions) + entry(body, ".param .u64 A")


TEXTS: dict[str, Callable[[int], str]] = {
    "comments that are not closed": lambda n: HEAD + "/* " * n,
    "slashes and stars": lambda n: HEAD + "/*" * n,
    "quotation marks": lambda n: HEAD + '"' * n,
    "digits": lambda n: HEAD + "1" * n,
    "labels": lambda n: HEAD + entry("\n".join(f"L{i}: bra L{i};" for i in range(n // 12))),
    "scopes": lambda n: HEAD + entry("{ .reg .b32 a; mov.b32 a, 1; }\n" * (n // 32)),
    "variables": lambda n: HEAD + "".join(f".global .b32 v{i};\n" for i in range(n // 18)) + entry(""),
    "calls": lambda n: HEAD + ".func f() { ret; }\n" + entry("call f;\n" * (n // 8)),
    "call chains": lambda n: chain(n // 100),
    "call trees": lambda n: tree(n // 500, called=True),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_reading_is_linear_in_the_text(kind: str) -> None:
    half, whole = (calls_made(lambda size=size: parse(TEXTS[kind](size))) for size in (15_000, 30_000))
    assert whole <= 2.5 * half


def test_a_comment_that_is_not_closed_is_told_with_its_line() -> None:
    with pytest.raises(UnsupportedPtxError) as error:
        parse(HEAD + entry("") + "/* " * 20_000)
    assert error.value.line == 9


def test_a_chain_of_calls_may_be_as_long_as_the_text() -> None:
    out = np.zeros(1, np.uint32)
    run_ptx(chain(2000), [out], grid=1, block=1)
    assert out[0] == 2000


def test_a_call_tree_that_is_not_run_costs_nothing() -> None:
    out = np.zeros(32, np.uint32)
    run_ptx(tree(40, called=False), [out], grid=1, block=32)
    assert (out == 7).all()


def test_a_call_tree_gives_what_its_calls_give() -> None:
    out = np.zeros(32, np.uint32)
    run_ptx(tree(9, called=True), [out], grid=1, block=32)
    assert out[0] == 2**8 and (out[1:] == 7).all()


def test_lanes_that_call_a_shared_body_from_several_places_return_to_their_own() -> None:
    calls = "\n".join(f"setp.eq.u32 p, t, {lane}; @p call (r), f, (t, {lane * 10});" for lane in range(32))
    body = f"""
        .reg .pred p; .reg .b32 t, r; .reg .b64 d; ld.param.u64 d, [A]; mov.u32 t, %tid.x; mov.b32 r, 0;
        {calls}
        mad.wide.u32 d, t, 4, d; st.global.b32 [d], r;"""
    function = (
        ".func (.reg .b32 o) f(.reg .b32 x, .reg .b32 y) { .reg .b32 z; add.u32 z, x, y; add.u32 o, z, 1; ret; }\n"
    )
    out = np.zeros(32, np.uint32)
    run_ptx(HEAD + function + entry(body, ".param .u64 A"), [out], grid=1, block=32)
    np.testing.assert_array_equal(out, np.arange(32) * 11 + 1)


def test_recursion_is_refused_through_any_number_of_functions() -> None:
    functions = ".func g();\n.func f() { call g; call g; ret; }\n.func g() { call f; ret; }\n"
    with pytest.raises(UnsupportedPtxError, match="recursive"):
        parse(HEAD + functions + entry("call f;" * 20))


def test_the_arrays_of_a_launch_cost_linear_time() -> None:
    def launch(count: int) -> None:
        parameters = ", ".join(f".param .u64 a{number}" for number in range(count))
        run_ptx(HEAD + entry("", parameters), [np.zeros(64, np.float32) for _ in range(count)], grid=1, block=1)

    launch(10)
    half, whole = calls_made(lambda: launch(240)), calls_made(lambda: launch(480))
    assert whole <= 2.5 * half


def test_a_bulk_copy_s_bounds_are_checked_before_memory_is_taken() -> None:
    body = """
        .reg .b32 m, s, n; .reg .b64 d; .shared .align 128 .b8 buffer[256]; .shared .align 8 .b64 bar;
        ld.param.u64 d, [A]; mov.u32 m, bar; mov.u32 s, buffer; mbarrier.init.shared.b64 [m], 1; fence.mbarrier_init.release.cluster;
        ld.global.u32 n, [d];
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [d], n, [m];"""
    array = np.zeros(1 << 28, np.uint32)
    array[0] = 1 << 30
    tracemalloc.start()
    try:
        with pytest.raises(HazardError) as error:
            run_ptx(HEAD + entry(body, ".param .u64 A"), [array], grid=1, block=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.value.kind == "bounds"
    assert peak < 1 << 26


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
@pytest.mark.parametrize("body", ["", "mov.u64 d, g; cvta.global.u64 d, d; st.b32 [d], 1;"])
@pytest.mark.parametrize("limit_gib", [4, 12])
def test_a_memory_limit_is_a_clear_error(body: str, limit_gib: int) -> None:
    """8 GiB of a variable, and the stamps of its cells where it is written."""
    text = HEAD + ".global .align 4 .b8 g[8589934592];\n" + entry(f".reg .b64 d; {body}")
    program = f"""
        import resource
        from tilecopy import LaunchError
        from tilecopy_emulator import run_ptx
        resource.setrlimit(resource.RLIMIT_AS, ({limit_gib} << 30, {limit_gib} << 30))
        try:
            run_ptx({text!r}, [], grid=1, block=1)
        except LaunchError as error:
            print("refused", "8589934592" in str(error))
        else:
            print("ran")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    variable_is_too_large = limit_gib == 4
    wanted = f"refused {variable_is_too_large}" if variable_is_too_large or body else "ran"
    assert done.stdout.strip() == wanted, done.stderr
