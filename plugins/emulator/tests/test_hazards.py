"""Each undefined execution is a HazardError that names the rule, the thread, the byte and the line."""

from __future__ import annotations

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy_emulator import EmulatorExecutor, UnsupportedPtxError, run_ptx
from tilecopy_test_helpers.mentions import is_hazard, mentions


def one_thread(write: object, threads: int = 32) -> tc.BuiltKernel:
    """A kernel of one CTA whose body a function writes."""
    k = tc.KernelBuilder("k", threads=threads)
    a = k.param("A", (64,), "float32")
    s = k.shared((64,), "float32", name="s")
    write(k, a, s)  # type: ignore[operator]
    return k.build(target="sm_90a", grid=1)


def _race(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.store(s[0], k.cast(k.thread_id(), "float32"))


def _neighbour(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.store(s[k.thread_id()], 1.0)
    k.store(a[k.thread_id()], k.load(s[k.thread_id() ^ 1]))


def _overwrite(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.store(s[k.thread_id()], 1.0)
    k.cta_sync()
    k.store(a[k.thread_id()], k.load(s[k.thread_id() ^ 1]))
    k.store(s[k.thread_id()], 2.0)


def _poison(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.store(a[0], k.load(s[3]))


def _outside(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    with k.range(70) as i, k.if_(k.thread_id() == 0):
        k.inline_ptx(
            "{{ .reg .b32 one; .reg .b64 p, at; mov.b32 one, 0f3F800000; ld.param.u64 p, [param_A];\n"
            "mul.wide.u32 at, {0}, 4; add.s64 p, p, at; st.global.b32 [p], one; }}",
            i,
        )


def _register(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    r = k.local(4, "float32")
    k.store(a[0], k.load(r[0]))


def _incomplete(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    with k.if_(k.thread_id() < 16):
        k.inline_ptx("bar.sync 0, 64;")


def _misaligned(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
    k.inline_ptx(
        "{{ .reg .b32 x<4>; .reg .b64 p; ld.param.u64 p, [param_A]; ld.global.v4.b32 {{x0,x1,x2,x3}}, [p+4]; }}"
    )


@pytest.mark.parametrize(
    ("write", "kind", "message"),
    [
        (_race, "race", ("s",)),
        (_neighbour, "race", ("s",)),
        (_overwrite, "race", ("s",)),
        (_poison, "poison", ("s", 12)),
        (_outside, "bounds", ("A", 256)),
        (_register, "poison", ("mov.b32",)),
        (_incomplete, "barrier", (16, 64)),
        (_misaligned, "alignment", (16,)),
    ],
)
def test_undefined_executions_are_named(write: object, kind: str, message: tuple[object, ...]) -> None:
    kernel = one_thread(write)
    with pytest.raises(tc.HazardError, check=is_hazard(kind, *message)) as caught:
        kernel(np.zeros(64, np.float32), executor="emulator")
    assert caught.value.kind == kind
    assert caught.value.line and caught.value.threads


COPIES = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 D, .param .u32 rows, .param .u32 bytes)
{
 .reg .b64 %d; .reg .b32 %r<8>; .reg .pred %p<4>; .shared .align 128 .b8 s[8192]; .shared .align 8 .b64 bar;
 ld.param.u64 %d, [D]; mov.u32 %r6, %ctaid.x; mad.wide.u32 %d, %r6, 1024, %d; ld.param.u32 %r1, [rows]; ld.param.u32 %r2, [bytes]; mov.u32 %r0, %tid.x; mov.u32 %r3, s; mov.u32 %r5, bar;
 setp.eq.u32 %p0, %r0, 0;
 mad.wide.u32 %d, %r0, %r1, %d; mad.lo.u32 %r4, %r0, %r1, %r3;
 BODY
 ret;
}
"""


@pytest.mark.parametrize(
    ("body", "stride", "size", "sectors", "wavefronts"),
    [
        ("cp.async.ca.shared.global [%r4], [%d], 4; cp.async.wait_all;", 4, 0, 4, 1),
        ("cp.async.ca.shared.global [%r4], [%d], 4; cp.async.wait_all;", 128, 0, 32, 32),
        ("cp.async.ca.shared.global [%r4], [%d], 8; cp.async.wait_all;", 8, 0, 8, 2),
        ("cp.async.cg.shared.global [%r4], [%d], 16; cp.async.wait_all;", 16, 0, 16, 4),
        ("cp.async.cg.shared.global [%r4], [%d], 16; cp.async.wait_all;", 32, 0, 32, 8),
        ("cp.async.cg.shared.global [%r4], [%d], 16, %r2; cp.async.wait_all;", 16, 0, 0, 4),
        ("cp.async.cg.shared.global [%r4], [%d], 16, %r2; cp.async.wait_all;", 32, 4, 32, 8),
        ("cp.async.cg.shared.global [%r4], [%d], 16, %p0; cp.async.wait_all;", 32, 0, 31, 8),
        ("@%p0 cp.async.cg.shared.global [%r4], [%d], 16; cp.async.wait_all;", 32, 0, 1, 1),
        ("@%p0 BULK.global [%r3], [%d], 512, [%r5]; WAIT;", 0, 512, 16, None),
        ("@%p0 BULK.global [%r3], [%d+16], 48, [%r5]; WAIT;", 0, 48, 2, None),
        ("@%p0 BULK.global [%r3], [%d+16], 64, [%r5]; WAIT;", 0, 64, 3, None),
        ("st.shared.b32 [%r4], %r0; fence.proxy.async; bar.sync 0; @%p0 OUT [%d+16], [%r3], 96;", 4, 0, 4, None),
    ],
)
def test_the_profile_counts_asynchronous_copies(
    body: str, stride: int, size: int, sectors: int, wavefronts: int | None
) -> None:
    body = body.replace("BULK", "cp.async.bulk.shared::cluster").replace(", [%r5]; WAIT", ", [%r5]; LOOP: WAIT p")
    if "LOOP" in body:
        copy, _ = body.split(" LOOP:")
        body = (
            "@%p0 mbarrier.init.shared.b64 [%r5], 1; @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;"
            "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r5], %r2;"
            + copy.replace(".global [", ".global.mbarrier::complete_tx::bytes [")
            + "LOOP: mbarrier.try_wait.parity.shared.b64 %p1, [%r5], 0; @!%p1 bra LOOP;"
        )
    if "OUT" in body:
        body = body.replace("OUT", "cp.async.bulk.global.shared::cta.bulk_group")
        body += "@%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;"
    text = COPIES.replace("BODY", body)
    report = run_ptx(text, [np.zeros(2048, np.uint32), stride, size], grid=3, block=32, profile=True)
    assert report.counters["global_sectors"] == 3 * sectors
    if wavefronts is not None:
        assert report.counters["shared_wavefronts"] == 3 * wavefronts
    assert report.not_counted == (() if wavefronts is not None else ("cp.async.bulk",))


def test_the_profile_counts_sectors_and_bank_conflicts() -> None:
    def wavefronts(layout: tc.Layout) -> dict[str, int]:
        k = tc.KernelBuilder("k", threads=32)
        a, s = k.param("A", (32, 32), "float32"), k.shared((32, 32), "float32", layout=layout, name="s")
        for row in range(32):  # a lane a column: one global row, one shared row or column
            k.store(s[row, k.thread_id()], k.load(a[row, k.thread_id()]))
        kernel = k.build(target="sm_80", grid=1)
        return EmulatorExecutor(profile=True).launch(kernel, (np.ones((32, 32), np.float32),)).counters

    row_major = wavefronts(TileLayout(S[32, 32]))
    assert row_major == {"global_requests": 32, "global_sectors": 128, "shared_requests": 32, "shared_wavefronts": 32}
    transposed = wavefronts(TileLayout(S[(32, 32) : (1, 32)]))
    assert transposed["shared_wavefronts"] == 32 * 32, "32 lanes on one bank"
    padded = wavefronts(TileLayout(S[(32, 32) : (1, 33)]))
    assert padded["shared_wavefronts"] == 32
    swizzled = wavefronts(tc.SwizzledLayout(tc.Swizzle(0, 5, 5), TileLayout(S[(32, 32) : (1, 32)])))
    assert swizzled["shared_wavefronts"] == 32


def test_unknown_ptx_names_its_line() -> None:
    kernel = one_thread(lambda k, a, s: k.inline_ptx("nanosleep.u33 1;"))
    with pytest.raises(UnsupportedPtxError, match=mentions("nanosleep")):
        kernel(np.zeros(64, np.float32), executor="emulator")


def test_an_endless_loop_ends() -> None:
    kernel = one_thread(lambda k, a, s: k.inline_ptx("{{ W: bra W; }}"))
    with pytest.raises(tc.HazardError, check=is_hazard("endless")) as caught:
        kernel(np.zeros(64, np.float32), executor="emulator")
    assert caught.value.kind == "endless"


def test_a_long_loop_is_not_endless() -> None:
    def write(k: tc.KernelBuilder, a: tc.Buffer, s: tc.Buffer) -> None:
        with k.range(30_000) as i, k.if_(i == 29_999):
            k.store(a[k.thread_id()], 1.0)

    given = np.zeros(64, np.float32)
    one_thread(write)(given, executor="emulator")
    assert (given[:32] == 1).all()


TWO_THREADS = """
.version 7.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 D, .param .u64 Z)
{
 .reg .b64 %d, %z; .reg .b32 %r<5>; .reg .pred %p<3>;
 ld.param.u64 %d, [D]; cvta.to.global.u64 %d, %d;
 ld.param.u64 %z, [Z]; cvta.to.global.u64 %z, %z;
 mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x;
 mad.lo.u32 %r0, %r0, %r2, %r1;
 BOTH
 setp.eq.u32 %p0, %r0, 32; @%p0 bra TAKE;
 setp.ne.u32 %p0, %r0, 0; @%p0 bra END;
 GIVE
 st.relaxed.gpu.global.u32 [%z], 1;
 bra END;
TAKE:
 ld.relaxed.gpu.global.u32 %r3, [%z];
 setp.eq.u32 %p1, %r3, 0; @%p1 bra TAKE;
 TOOK
END:
 ret;
}
"""
"""Thread 32 does its part after thread 0 has done its own; nothing but time orders the two."""


def two_threads(give: str, took: str, both: str = "", *, block: int) -> None:
    text = TWO_THREADS.replace("GIVE", give).replace("TOOK", took).replace("BOTH", both)
    run_ptx(text, [np.zeros(4, np.uint32), np.zeros(1, np.uint32)], grid=64 // block, block=block)


STRONG_WRITE, STRONG_READ = "st.relaxed.gpu.global.u32 [%d], 2;", "ld.relaxed.gpu.global.u32 %r4, [%d];"


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize(
    ("give", "took"),
    [
        ("st.global.u32 [%d], 1;", STRONG_READ),
        ("st.global.u32 [%d], 1;", STRONG_WRITE),
        ("ld.global.u32 %r4, [%d];", STRONG_WRITE),
        ("ld.global.u32 %r4, [%d];", "atom.global.add.u32 %r4, [%d], 1;"),
    ],
)
def test_a_strong_write_does_not_hide_an_ordinary_access_before_it(give: str, took: str, block: int) -> None:
    two_threads(STRONG_WRITE, took, block=block)
    with pytest.raises(tc.HazardError) as caught:
        two_threads(give + STRONG_WRITE, took, block=block)
    assert caught.value.kind == "race"


@pytest.mark.parametrize(
    ("scope", "block", "races"),
    [
        *(("cta", 64, False), ("cta", 32, True), ("cluster", 64, False), ("cluster", 32, True)),
        *(("gpu", 32, False), ("sys", 32, False)),
    ],
)
def test_strong_accesses_meet_within_their_scope(scope: str, block: int, races: bool) -> None:
    """Two CTAs that are launched without a cluster are in two."""
    write, read = STRONG_WRITE.replace("gpu", scope), STRONG_READ.replace("gpu", scope)
    if not races:
        two_threads(write, read, block=block)
        return
    for give, took in ((write, read), (write, STRONG_READ), (STRONG_WRITE, read)):
        with pytest.raises(tc.HazardError) as caught:
            two_threads(give, took, block=block)
        assert caught.value.kind == "race"


def test_the_last_of_several_readers_counts() -> None:
    """Thread 32 reads, a barrier, thread 0 reads, then thread 32 writes: nothing orders that after the second read."""
    both = "setp.eq.u32 %p2, %r0, 32; @%p2 ld.global.u32 %r4, [%d]; bar.sync 0;"
    two_threads("bar.warp.sync 1;", "st.global.u32 [%d], 1;", both, block=64)
    with pytest.raises(tc.HazardError, check=is_hazard("race", "D")) as caught:
        two_threads("ld.global.u32 %r4, [%d];", "st.global.u32 [%d], 1;", both, block=64)
    assert caught.value.kind == "race"


MBARRIER = """
.version 7.8
.target sm_90
.address_size 64
.visible .entry k()
{
 .reg .b64 %d; .reg .b32 %r<3>; .reg .pred %p<2>;
 .shared .align 8 .b64 bar;
 mov.u32 %r0, %tid.x; mov.u32 %r1, bar;
 setp.eq.u32 %p0, %r0, 0;
 @%p0 mbarrier.init.shared.b64 [%r1], 32;
 SYNC
 mbarrier.arrive.shared.b64 %d, [%r1];
 ret;
}
"""


def test_the_lanes_of_a_warp_are_no_barrier_for_an_mbarrier_of_theirs() -> None:
    run_ptx(MBARRIER.replace("SYNC", "bar.warp.sync 0xffffffff;"), [], grid=1, block=32)
    with pytest.raises(tc.HazardError, check=is_hazard("race")):
        run_ptx(MBARRIER.replace("SYNC", ""), [], grid=1, block=32)


BARRIERS = """
.version 7.8
.target sm_90
.address_size 64
.visible .entry k()
{
 .reg .b32 %r<8>; .reg .pred %p<4>;
 .shared .align 4 .b8 s[256];
 mov.u32 %r0, %tid.x; mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2;
 setp.lt.u32 %p0, %r0, 32;
 and.b32 %r4, %r0, 31; setp.lt.u32 %p1, %r4, 16;
 setp.eq.u32 %p2, %r0, 0;
 BODY
 ret;
}
"""


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        (
            "@%p0 bar.arrive 1, 64;\n @!%p0 bar.sync 1, 64;",
            "@%p0 bar.arrive 1, 64;\n @%p0 bar.arrive 1, 64;\n @!%p0 bar.sync 1, 64;",
            ("barrier", 1),
        ),
        (
            "bar.sync 1, 64;",
            "@%p1 bar.sync 1, 32;",
            ("barrier", 16, 32),
        ),
        (
            "barrier.cluster.arrive;\n barrier.cluster.wait;",
            "@%p2 barrier.cluster.arrive;\n barrier.cluster.arrive;\n barrier.cluster.wait;",
            ("barrier", "barrier.cluster.arrive"),
        ),
        (
            "st.shared.u32 [%r3], %r0;\n bar.warp.sync 0xffffffff;\n xor.b32 %r5, %r3, 64;\n ld.shared.u32 %r6, [%r5];",
            "st.shared.u32 [%r3], %r0;\n selp.b32 %r7, 0xffff, 0xffff0000, %p1;\n bar.warp.sync %r7;\n"
            " xor.b32 %r5, %r3, 64;\n ld.shared.u32 %r6, [%r5];",
            ("race", "s", 64),
        ),
    ],
    ids=["arrive twice", "half a warp", "cluster arrive twice", "two masks"],
)
def test_barriers_of_the_wrong_threads_are_named(good: str, bad: str, message: tuple[object, ...]) -> None:
    run_ptx(BARRIERS.replace("BODY", good), [], grid=1, block=64)
    with pytest.raises(tc.HazardError, check=is_hazard(*message)):
        run_ptx(BARRIERS.replace("BODY", bad), [], grid=1, block=64)


@pytest.mark.parametrize(("writer", "reader"), [(33, 32), (1, 0), (63, 34)])
def test_a_warp_that_waits_for_its_lanes_orders_no_other_warp(writer: int, reader: int) -> None:
    """Only one of two warps meets; then one of its lanes reads what another wrote."""
    body = f"""setp.eq.u32 %p2, %r0, {writer}; setp.eq.u32 %p3, %r0, {reader};
 @%p2 st.shared.u32 [%r1], 5;
 @SIDE bar.warp.sync -1;
 @%p3 ld.shared.u32 %r6, [%r1];"""
    own, other = ("%p0", "!%p0") if reader < 32 else ("!%p0", "%p0")
    run_ptx(BARRIERS.replace("BODY", body.replace("SIDE", own)), [], grid=1, block=64)
    with pytest.raises(tc.HazardError, check=is_hazard("race", "s", writer)):
        run_ptx(BARRIERS.replace("BODY", body.replace("SIDE", other)), [], grid=1, block=64)


BULK_LOAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 D)
{
 .reg .b64 %d, %t; .reg .b32 %r<6>; .reg .pred %p<4>;
 .shared .align 16 .b8 s[16]; .shared .align 8 .b64 bar; .shared .align 4 .b8 x[4];
 ld.param.u64 %d, [D]; cvta.to.global.u64 %d, %d;
 mov.u32 %r0, %tid.x; mov.u32 %r1, s; mov.u32 %r2, bar; mov.u32 %r3, x;
 setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r0, 32;
 @%p0 mbarrier.init.shared.b64 [%r2], 1;
 @%p0 fence.mbarrier_init.release.cluster;
 bar.sync 0;
 @%p0 bra ISSUE;
 @!%p1 bra END;
 mbarrier.arrive.shared.b64 %t, [%r2];
FIRST:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
 @!%p2 bra FIRST;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;
SECOND:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1;
 @!%p2 bra SECOND;
 ld.shared.u32 %r4, [READ];
 bra END;
ISSUE:
 mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
 @!%p2 bra ISSUE;
 st.shared.u32 [%r3], %r0;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d], 16, [%r2];
END:
 ret;
}
"""


def test_a_copy_that_completes_says_nothing_of_what_its_thread_wrote() -> None:
    """The thread that issued it knows of an earlier phase, and passes on no more than that."""
    data = np.arange(4, dtype=np.uint32)
    run_ptx(BULK_LOAD.replace("READ", "%r1"), [data], grid=1, block=64)
    with pytest.raises(tc.HazardError, check=is_hazard("race", "x")) as caught:
        run_ptx(BULK_LOAD.replace("READ", "%r3"), [data], grid=1, block=64)
    assert caught.value.kind == "race"


MATCH = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 V, .param .u64 O)
{
 .reg .b64 %v, %o; .reg .b32 %r<5>; .reg .pred %p<2>;
 ld.param.u64 %v, [V]; ld.param.u64 %o, [O];
 mov.u32 %r0, %tid.x; mad.wide.u32 %v, %r0, 4, %v; mad.wide.u32 %o, %r0, 8, %o;
 ld.global.u32 %r1, [%v];
 match.all.sync.b32 %r2|%p0, %r1, 0xffffffff;
 selp.b32 %r3, 1, 0, %p0;
 st.global.u32 [%o], %r2; st.global.u32 [%o+4], %r3;
 ret;
}
"""


def test_match_all_is_of_a_whole_mask() -> None:
    values = np.repeat(np.array([7, 5], np.uint32), 32)
    values[40] = 6
    out = np.zeros((64, 2), np.uint32)
    run_ptx(MATCH, [values, out], grid=1, block=64)
    assert (out[:32] == [0xFFFFFFFF, 1]).all() and not out[32:].any()
