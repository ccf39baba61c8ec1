"""Correct kernels in the idioms that people use; none of them may be refused."""

from .model import clean

SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
PAIR = {"block": 32, "grid": 2, "cluster": 2}
S2S = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
G2S = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
S2G = "cp.async.bulk.global.shared::cta.bulk_group"
INIT = "@%is0 mbarrier.init.shared.b64"


def _collatz(number: int) -> int:
    steps = 0
    while number != 1:
        number, steps = (3 * number + 1 if number % 2 else number // 2), steps + 1
    return steps


# ------------------------------------------------------------------------------------------------ mbarriers and warps

clean(
    "idiom_one_lane_arrives_for_its_warp",
    "a warp stores, bar.warp.sync, lane 0 arrives; the other warp waits and reads",
    f"""
    {INIT} [%m], 1;
    bar.sync 0;
    @%w1 bra READ;
    st.shared.b32 [%st], %t;
    bar.warp.sync 0xffffffff;
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
    bra END;
READ:
    WAIT [%m], 0;
    xor.b32 %r0, %lane, 31;
    mad.lo.u32 %r0, %r0, 4, %s;
    ld.shared.b32 %r1, [%r0];
    st.global.b32 [%At], %r1;
END:
    """,
    shared="s:128 m:8",
    gives={"A": lambda i: [*range(1, 33), *range(31, -1, -1)]},
)
clean(
    "idiom_one_lane_waits_for_its_warp",
    "lane 0 waits, bar.warp.sync, all lanes read",
    f"""
    {INIT} [%m], 32;
    bar.sync 0;
    @%w1 bra READ;
    st.shared.b32 [%st], %t;
    mbarrier.arrive.shared.b64 _, [%m];
    bra END;
READ:
    setp.eq.u32 %p0, %lane, 0;
    @!%p0 bra MEET;
    WAIT [%m], 0;
MEET:
    bar.warp.sync 0xffffffff;
    mad.lo.u32 %r0, %lane, 4, %s;
    ld.shared.b32 %r1, [%r0];
    st.global.b32 [%At], %r1;
END:
    """,
    shared="s:128 m:8",
    gives={"A": lambda i: [*range(1, 33), *range(32)]},
)
clean(
    "idiom_one_lane_releases_for_its_warp",
    "all lanes read, bar.warp.sync, lane 0 arrives on empty; the producer waits and overwrites",
    f"""
    {INIT} [%m], 1;
    {INIT} [%m+8], 1;
    bar.sync 0;
    @%w1 bra READ;
    @!%is0 bra END;
    st.shared.b32 [%s], 5;
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m+8], 0;
    st.shared.b32 [%s], 6;
    bra END;
READ:
    WAIT [%m], 0;
    ld.shared.b32 %r1, [%s];
    st.global.b32 [%At], %r1;
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p0, %lane, 0;
    @%p0 mbarrier.arrive.shared.b64 _, [%m+8];
END:
    """,
    shared="s:4 m:16",
    gives={"A": lambda i: [*range(1, 33), *[5] * 32]},
)
clean(
    "idiom_two_lanes_read_and_arrive",
    "two lanes read and arrive (2), the writer waits",
    f"""
    {INIT} [%m], 2;
    @%is0 st.shared.b32 [%s], 1;
    bar.sync 0;
    setp.lt.u32 %p0, %lane, 2;
    @%w0 bra WRITE;
    @!%p0 bra END;
    ld.shared.b32 %r0, [%s];
    mbarrier.arrive.shared.b64 _, [%m];
    bra END;
WRITE:
    @!%is0 bra END;
    WAIT [%m], 0;
    st.shared.b32 [%s], 2;
END:
    """,
    shared="s:4 m:8",
)
clean(
    "idiom_two_warps_release_at_different_times",
    "two consumer warps give a stage back one after the other",
    f"""
    {INIT} [%m], 1;
    {INIT} [%m+8], 2;
    bar.sync 0;
    setp.eq.u32 %p0, %lane, 0;
    @%w0 bra WRITE;
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%s];
    @%w1 bra FREE;
    mov.b32 %r1, 0;
DELAY:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 100;
    @%p1 bra DELAY;
    ld.shared.b32 %r0, [%s];
FREE:
    bar.warp.sync 0xffffffff;
    @%p0 mbarrier.arrive.shared.b64 _, [%m+8];
    bra END;
WRITE:
    @!%is0 bra END;
    st.shared.b32 [%s], 1;
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m+8], 0;
    st.shared.b32 [%s], 2;
END:
    """,
    shared="s:4 m:16",
    block=96,
)
clean(
    "idiom_mbarrier_as_a_barrier_of_the_cta",
    "all threads arrive and wait, phase by phase",
    f"""
    {INIT} [%m], 64;
    bar.sync 0;
    mov.b32 %r5, 0;
LOOP:
    st.shared.b32 [%st], %r5;
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;
    xor.b32 %r0, %t, 32;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 1;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p0, %r5, 3;
    @%p0 bra LOOP;
    st.global.b32 [%At], %r2;
    """,
    shared="s:256 m:8",
    gives={"A": 2},
)
clean(
    "idiom_arrival_tokens",
    "arrive gives a token, test_wait and try_wait take it, as cuda::barrier does",
    f"""
    {INIT} [%m], 64;
    bar.sync 0;
    mov.b32 %r5, 0;
LOOP:
    st.shared.b32 [%st], %r5;
    mbarrier.arrive.shared.b64 %d1, [%m];
ONE:
    mbarrier.test_wait.shared.b64 %p1, [%m], %d1;
    @!%p1 bra ONE;
    xor.b32 %r0, %t, 32;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];
    mbarrier.arrive.shared.b64 %d1, [%m];
TWO:
    mbarrier.try_wait.shared.b64 %p1, [%m], %d1;
    @!%p1 bra TWO;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p0, %r5, 3;
    @%p0 bra LOOP;
    st.global.b32 [%At], %r2;
    """,
    shared="s:256 m:8",
    gives={"A": 2},
)
clean(
    "idiom_poll_with_test_wait_and_work_between",
    "test_wait in a loop that does other work meanwhile",
    f"""
    {INIT} [%m], 1;
    bar.sync 0;
    @%w1 bra READ;
    @!%is0 bra END;
    mov.b32 %r1, 0;
DELAY:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 50;
    @%p1 bra DELAY;
    st.shared.b32 [%s], 5;
    mbarrier.arrive.shared.b64 _, [%m];
    bra END;
READ:
    mov.b32 %r3, 0;
POLL:
    mbarrier.test_wait.parity.shared.b64 %p0, [%m], 0;
    @%p0 bra GOT;
    add.u32 %r3, %r3, 1;
    bra POLL;
GOT:
    ld.shared.b32 %r2, [%s];
    st.global.b32 [%At], %r2;
END:
    """,
    shared="s:4 m:8",
    gives={"A": lambda i: [*range(1, 33), *[5] * 32]},
)
clean(
    "idiom_try_wait_with_a_time_hint",
    "try_wait with a suspend hint, two branches a turn as CUTLASS writes it",
    f"""
    {INIT} [%m], 1;
    bar.sync 0;
    @%is32 st.shared.b32 [%s], 7;
    @%is32 mbarrier.arrive.shared.b64 _, [%m];
LAB_WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%m], 0, 0x989680;
    @%p1 bra DONE;
    bra LAB_WAIT;
DONE:
    ld.shared.b32 %r0, [%s];
    st.global.b32 [%At], %r0;
    """,
    shared="s:4 m:8",
    gives={"A": 7},
)
clean(
    "idiom_arrive_with_a_count",
    "one arrival that counts for many",
    f"""
    {INIT} [%m], 64;
    bar.sync 0;
    @%is0 st.shared.b32 [%s], 7;
    @%is0 mbarrier.arrive.shared.b64 _, [%m], 60;
    setp.gt.u32 %p0, %t, 59;
    @%p0 mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%s];
    st.global.b32 [%At], %r0;
    """,
    shared="s:4 m:8",
    gives={"A": 7},
)
clean(
    "idiom_complete_tx_by_hand",
    "bytes that a thread counts down itself, before and after they are expected",
    f"""
    {INIT} [%m], 1;
    bar.sync 0;
    @%is32 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%m], 64;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    @%is33 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%m], 64;
    WAIT [%m], 0;
    """,
    shared="m:8",
)
clean(
    "idiom_expect_tx_in_parts",
    "expect_tx for each part, one arrival at last",
    f"""
    {INIT} [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @!%is0 bra READ;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%m], 64;
    {G2S} [%s], [%A], 64, [%m];
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%m], 64;
    {G2S} [%s+64], [%A+64], 64, [%m];
    mbarrier.arrive.shared.b64 _, [%m];
READ:
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%st];
    st.global.b32 [%Bt], %r0;
    """,
    shared="s:128 m:8",
    arrays="A:32 B:32",
    block=32,
    gives={"B": lambda i: i + 1},
)
clean(
    "idiom_arrive_drop",
    "a warp leaves a barrier for good",
    f"""
    {INIT} [%m], 64;
    bar.sync 0;
    @%w0 mbarrier.arrive.shared.b64 _, [%m];
    @%w1 mbarrier.arrive_drop.shared.b64 _, [%m];
    @%w1 bra END;
    WAIT [%m], 0;
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 1;
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;
END:
    """,
    shared="m:8",
)
clean(
    "idiom_arrive_no_complete",
    "arrive.noComplete for all but the last",
    """
    @!%is0 bra END;
    mbarrier.init.shared.b64 [%m], 3;
    mbarrier.arrive.noComplete.shared.b64 %d0, [%m], 2;
    mbarrier.pending_count.b64 %r0, %d0;
    mbarrier.arrive.shared.b64 %d1, [%m];
    WAIT [%m], 0;
    st.global.b32 [%A], %r0;
END:
    """,
    shared="m:8",
)
clean(
    "idiom_inval_and_reuse",
    "an mbarrier's memory becomes data, and another mbarrier",
    """
    @!%is0 bra END;
    mbarrier.init.shared.b64 [%m], 1;
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;
    mbarrier.inval.shared.b64 [%m];
    st.shared.b64 [%m], 5;
    ld.shared.b64 %d0, [%m];
    mbarrier.init.shared.b64 [%m], 1;
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;
END:
    """,
    shared="m:8",
)
clean(
    "idiom_parity_one_of_a_fresh_mbarrier",
    "a producer starts with parity 1: the stage is empty from the start",
    f"""
    {INIT} [%m], 1;
    {INIT} [%m+8], 1;
    bar.sync 0;
    mov.b32 %r0, 0;
    setp.eq.u32 %p2, %lane, 0;
    @!%p2 bra END;
    @%w1 bra CONSUME;
PRODUCE:
    and.b32 %r1, %r0, 1;
    xor.b32 %r2, %r1, 1;
    WAIT [%m+8], %r2;
    st.shared.b32 [%s], %r0;
    mbarrier.arrive.shared.b64 _, [%m];
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p1, %r0, 4;
    @%p1 bra PRODUCE;
    bra END;
CONSUME:
    and.b32 %r1, %r0, 1;
    WAIT [%m], %r1;
    ld.shared.b32 %r3, [%s];
    mbarrier.arrive.shared.b64 _, [%m+8];
    mad.wide.u32 %d0, %r0, 4, %A;
    st.global.b32 [%d0], %r3;
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p1, %r0, 4;
    @%p1 bra CONSUME;
END:
    """,
    shared="s:4 m:16",
    gives={"A": lambda i: [0, 1, 2, 3, *range(5, 65)]},
)

# ------------------------------------------------------------------------------------------------ rings


def ring(*, stages: int, rounds: int, producer: str, consumer: str, full: int, empty: int, prologue: str = "") -> str:
    """Warp 0 fills the stages of ``s`` (128 bytes each), the other warps read them. ``%stage`` is the address of the
    stage, ``%full`` and ``%empty`` of its mbarriers, ``%k`` the round."""
    inits = "".join(
        f"    {INIT} [%m+{16 * stage}], {full};\n    {INIT} [%m+{16 * stage + 8}], {empty};\n"
        for stage in range(stages)
    )
    step = f"""    rem.u32 %index, %k, {stages};
    div.u32 %turn, %k, {stages};
    and.b32 %phase, %turn, 1;
    mad.lo.u32 %stage, %index, 128, %s;
    mad.lo.u32 %full, %index, 16, %m;
    add.u32 %empty, %full, 8;
"""
    again = "    add.u32 %k, %k, 1;\n    setp.lt.u32 %p9, %k, {rounds};\n    @%p9 bra {label};\n"
    return f"""
{inits}    @%is0 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    mov.b32 %k, 0;
{prologue}    setp.ne.u32 %p8, %warp, 0;
    @%p8 bra CONSUME;
PRODUCE:
{step}    xor.b32 %other, %phase, 1;
{producer}{again.format(rounds=rounds, label="PRODUCE")}    bra END;
CONSUME:
{step}{consumer}{again.format(rounds=rounds, label="CONSUME")}END:
"""


TAKE = """    WAIT [%full], %phase;
    mad.lo.u32 %r0, %lane, 4, %stage;
    ld.shared.b32 %r1, [%r0];
    mad.lo.u32 %r2, %k, 32, %lane;
    mad.wide.u32 %d1, %r2, 4, %B;
"""
RING = {"arrays": "A:224 B:224", "gives": {"B": lambda i: i + 1}}
SOURCE = "    mad.lo.u32 %r2, %k, 32, %lane;\n    mad.wide.u32 %d0, %r2, 4, %A;\n"

clean(
    "idiom_ring_with_full_and_empty",
    "a ring of three stages: every thread arrives",
    ring(
        stages=3,
        rounds=7,
        full=32,
        empty=32,
        producer=f"""    WAIT [%empty], %other;
{SOURCE}    ld.global.b32 %r1, [%d0];
    mad.lo.u32 %r0, %lane, 4, %stage;
    st.shared.b32 [%r0], %r1;
    mbarrier.arrive.shared.b64 _, [%full];
""",
        consumer=TAKE + "    st.global.b32 [%d1], %r1;\n    mbarrier.arrive.shared.b64 _, [%empty];\n",
    ),
    shared="s:384 m:48",
    **RING,
)
clean(
    "idiom_ring_of_one_stage",
    "a ring of one stage",
    ring(
        stages=1,
        rounds=7,
        full=32,
        empty=32,
        producer=f"""    WAIT [%empty], %other;
{SOURCE}    ld.global.b32 %r1, [%d0];
    mad.lo.u32 %r0, %lane, 4, %stage;
    st.shared.b32 [%r0], %r1;
    mbarrier.arrive.shared.b64 _, [%full];
""",
        consumer=TAKE + "    st.global.b32 [%d1], %r1;\n    mbarrier.arrive.shared.b64 _, [%empty];\n",
    ),
    shared="s:128 m:16",
    **RING,
)
clean(
    "idiom_ring_with_one_arrival_a_warp",
    "bar.warp.sync and one arrival a warp on both sides",
    ring(
        stages=2,
        rounds=7,
        full=1,
        empty=1,
        producer=f"""    WAIT [%empty], %other;
{SOURCE}    ld.global.b32 %r1, [%d0];
    mad.lo.u32 %r0, %lane, 4, %stage;
    st.shared.b32 [%r0], %r1;
    bar.warp.sync 0xffffffff;
    @%is0 mbarrier.arrive.shared.b64 _, [%full];
""",
        consumer=TAKE
        + """    st.global.b32 [%d1], %r1;
    bar.warp.sync 0xffffffff;
    @%is32 mbarrier.arrive.shared.b64 _, [%empty];
""",
    ),
    shared="s:256 m:32",
    **RING,
)
clean(
    "idiom_ring_fed_by_bulk_loads",
    "one thread expects the bytes and issues bulk loads; consumers release",
    ring(
        stages=2,
        rounds=7,
        full=1,
        empty=1,
        producer=f"""    @!%is0 bra END;
    WAIT [%empty], %other;
    mad.wide.u32 %d0, %k, 128, %A;
    mbarrier.arrive.expect_tx.shared.b64 _, [%full], 128;
    {G2S} [%stage], [%d0], 128, [%full];
""",
        consumer=TAKE
        + """    st.global.b32 [%d1], %r1;
    bar.warp.sync 0xffffffff;
    @%is32 mbarrier.arrive.shared.b64 _, [%empty];
""",
    ),
    shared="s:256 m:32",
    **RING,
)
clean(
    "idiom_ring_fed_by_cp_async",
    "cp.async.mbarrier.arrive.noinc tells the consumers",
    ring(
        stages=2,
        rounds=7,
        full=32,
        empty=1,
        producer=f"""    WAIT [%empty], %other;
{SOURCE}    mad.lo.u32 %r0, %lane, 4, %stage;
    cp.async.ca.shared.global [%r0], [%d0], 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [%full];
""",
        consumer=TAKE
        + """    st.global.b32 [%d1], %r1;
    bar.warp.sync 0xffffffff;
    @%is32 mbarrier.arrive.shared.b64 _, [%empty];
""",
    ).replace("    bra END;\nCONSUME:", "    cp.async.wait_all;\n    bra END;\nCONSUME:"),
    shared="s:256 m:32",
    **RING,
)
clean(
    "idiom_ring_of_two_consumers",
    "two consumer warps, each arrives once on empty",
    ring(
        stages=2,
        rounds=7,
        full=32,
        empty=2,
        producer=f"""    WAIT [%empty], %other;
{SOURCE}    ld.global.b32 %r1, [%d0];
    mad.lo.u32 %r0, %lane, 4, %stage;
    st.shared.b32 [%r0], %r1;
    mbarrier.arrive.shared.b64 _, [%full];
""",
        consumer=TAKE
        + """    @%w1 st.global.b32 [%d1], %r1;
    @%w2 red.global.add.u32 [%C], %r1;
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p7, %lane, 0;
    @%p7 mbarrier.arrive.shared.b64 _, [%empty];
""",
    ),
    shared="s:256 m:32",
    block=96,
    arrays="A:224 B:224 C:1=0",
    gives={"B": lambda i: i + 1, "C": 224 * 225 // 2},
)
clean(
    "idiom_ring_of_two_producers",
    "two producer warps fill the halves of a stage, the third reads it",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 2;
    @%is0 mbarrier.init.shared.b64 [%m+8], 1;
    bar.sync 0;
    mov.b32 %k, 0;
    setp.eq.u32 %p7, %lane, 0;
    @%w2 bra CONSUME;
PRODUCE:
    and.b32 %phase, %k, 1;
    xor.b32 %other, %phase, 1;
    WAIT [%m+8], %other;
    mad.lo.u32 %r2, %k, 64, %t;
    st.shared.b32 [%st], %r2;
    bar.warp.sync 0xffffffff;
    @%p7 mbarrier.arrive.shared.b64 _, [%m];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p9, %k, 5;
    @%p9 bra PRODUCE;
    bra END;
CONSUME:
    and.b32 %phase, %k, 1;
    WAIT [%m], %phase;
    mad.lo.u32 %r0, %lane, 8, %s;
    ld.shared.v2.b32 {%r1, %r3}, [%r0];
    bar.warp.sync 0xffffffff;
    @%p7 mbarrier.arrive.shared.b64 _, [%m+8];
    mad.lo.u32 %r2, %k, 64, %lane;
    add.u32 %r2, %r2, %lane;
    mad.wide.u32 %d1, %r2, 4, %B;
    st.global.v2.b32 [%d1], {%r1, %r3};
    add.u32 %k, %k, 1;
    setp.lt.u32 %p9, %k, 5;
    @%p9 bra CONSUME;
END:
    """,
    shared="s:256 m:16",
    block=96,
    arrays="B:320",
    gives={"B": lambda i: i},
)
clean(
    "idiom_pipeline_of_commit_groups",
    "cp.async in three stages: wait_group 1, a barrier, the next copy, use",
    """
    cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [%st+256], [%At+256], 4;
    cp.async.commit_group;
    mov.b32 %k, 0;
    mov.b32 %sum, 0;
LOOP:
    cp.async.wait_group 1;
    bar.sync 0;
    add.u32 %r0, %k, 2;
    setp.ge.u32 %p0, %r0, 6;
    @%p0 bra NONE;
    rem.u32 %r1, %r0, 3;
    mad.lo.u32 %r1, %r1, 256, %st;
    mad.wide.u32 %d0, %r0, 256, %At;
    cp.async.ca.shared.global [%r1], [%d0], 4;
NONE:
    cp.async.commit_group;
    rem.u32 %r1, %k, 3;
    xor.b32 %r2, %t, 63;
    shl.b32 %r2, %r2, 2;
    mad.lo.u32 %r1, %r1, 256, %r2;
    add.u32 %r1, %r1, %s;
    ld.shared.b32 %r3, [%r1];
    add.u32 %sum, %sum, %r3;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p1, %k, 6;
    @%p1 bra LOOP;
    st.global.b32 [%Bt], %sum;
    cp.async.wait_all;
    """,
    shared="s:768",
    arrays="A:384 B:64",
    gives={"B": lambda i: 6 * (64 - i) + 64 * 15},
)
clean(
    "idiom_double_buffer_with_one_barrier",
    "two buffers of ordinary stores and one bar.sync a round",
    """
    mov.b32 %k, 0;
LOOP:
    and.b32 %r0, %k, 1;
    mad.lo.u32 %r1, %r0, 256, %st;
    st.shared.b32 [%r1], %k;
    bar.sync 0;
    xor.b32 %r2, %t, 63;
    shl.b32 %r2, %r2, 2;
    mad.lo.u32 %r3, %r0, 256, %r2;
    add.u32 %r3, %r3, %s;
    ld.shared.b32 %r4, [%r3];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p1, %k, 6;
    @%p1 bra LOOP;
    st.global.b32 [%At], %r4;
    """,
    shared="s:512",
    gives={"A": 5},
)

# ------------------------------------------------------------------------------------------------ named barriers

clean(
    "idiom_named_barrier_hand_over",
    "bar.arrive by the producer, bar.sync by the consumer, and back",
    """
    mov.b32 %k, 0;
    @%w1 bra CONSUME;
PRODUCE:
    setp.eq.u32 %p0, %k, 0;
    @%p0 bra FILL;
    bar.sync 2, 64;
FILL:
    mad.lo.u32 %r0, %k, 32, %t;
    st.shared.b32 [%st], %r0;
    bar.arrive 1, 64;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p1, %k, 4;
    @%p1 bra PRODUCE;
    bar.sync 2, 64;
    bra END;
CONSUME:
    bar.sync 1, 64;
    xor.b32 %r1, %lane, 31;
    mad.lo.u32 %r1, %r1, 4, %s;
    ld.shared.b32 %r2, [%r1];
    bar.arrive 2, 64;
    mad.lo.u32 %r3, %k, 32, %lane;
    mad.wide.u32 %d0, %r3, 4, %A;
    st.global.b32 [%d0], %r2;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p1, %k, 4;
    @%p1 bra CONSUME;
END:
    """,
    shared="s:128",
    arrays="A:128",
    gives={"A": lambda i: i // 32 * 32 + 31 - i % 32},
)
clean(
    "idiom_named_barriers_of_groups",
    "four groups of two warps, each with a barrier of its own from a register",
    """
    st.shared.b32 [%st], %t;
    shr.u32 %r0, %t, 6;
    add.u32 %r0, %r0, 1;
    bar.sync %r0, 64;
    xor.b32 %r1, %t, 63;
    mad.lo.u32 %r1, %r1, 4, %s;
    ld.shared.b32 %r2, [%r1];
    st.global.b32 [%At], %r2;
    """,
    shared="s:1024",
    arrays="A:256",
    block=256,
    gives={"A": lambda i: i ^ 63},
)
clean(
    "idiom_named_barrier_used_by_one_group_after_another",
    "one id, used by two pairs of warps at different times",
    """
    setp.lt.u32 %p0, %warp, 2;
    st.shared.b32 [%st], %t;
    @%p0 bar.sync 1, 64;
    bar.sync 0;
    @!%p0 bar.sync 1, 64;
    xor.b32 %r1, %t, 127;
    mad.lo.u32 %r1, %r1, 4, %s;
    ld.shared.b32 %r2, [%r1];
    """,
    shared="s:512",
    block=128,
)
clean(
    "idiom_ping_pong_of_two_consumers",
    "two warps take turns with two named barriers, as ping-pong kernels do",
    """
    mov.b32 %k, 0;
    @%is0 st.shared.b32 [%s], 0;
    bar.sync 0;
    add.u32 %mine, %warp, 1;
    sub.u32 %yours, 2, %warp;
    @%w1 bar.arrive 1, 64;
LOOP:
    bar.sync %mine, 64;
    setp.eq.u32 %p0, %lane, 0;
    @!%p0 bra PASS;
    ld.shared.b32 %r0, [%s];
    add.u32 %r0, %r0, 1;
    st.shared.b32 [%s], %r0;
PASS:
    bar.warp.sync 0xffffffff;
    bar.arrive %yours, 64;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p1, %k, 3;
    @%p1 bra LOOP;
    @%w0 bar.sync 1, 64;
    @%is0 ld.shared.b32 %r1, [%s];
    @%is0 st.global.b32 [%A], %r1;
    """,
    shared="s:4",
    gives={"A": lambda i: [6, *range(2, 65)]},
)
clean(
    "idiom_barrier_reductions",
    "bar.red counts and combines a predicate of all threads",
    """
    setp.lt.u32 %p0, %t, 10;
    bar.red.popc.u32 %r0, 0, %p0;
    bar.red.and.pred %p1, 0, %p0;
    bar.red.or.pred %p2, 0, %p0;
    selp.b32 %r1, 100, 0, %p1;
    selp.b32 %r2, 1000, 0, %p2;
    add.u32 %r0, %r0, %r1;
    add.u32 %r0, %r0, %r2;
    st.global.b32 [%At], %r0;
    """,
    gives={"A": 1010},
)
clean(
    "idiom_unaligned_barrier",
    "barrier.sync without .aligned may be reached by two branches of a warp",
    """
    st.shared.b32 [%st], %t;
    setp.lt.u32 %p0, %lane, 7;
    @%p0 bra LOW;
    barrier.sync 0;
    bra READ;
LOW:
    barrier.sync 0;
READ:
    xor.b32 %r1, %t, 63;
    mad.lo.u32 %r1, %r1, 4, %s;
    ld.shared.b32 %r2, [%r1];
    st.global.b32 [%At], %r2;
    """,
    shared="s:256",
    gives={"A": lambda i: 63 - i},
)
clean(
    "idiom_warps_that_leave_early",
    "threads past the end exit; the others need no barrier",
    """
    setp.ge.u32 %p0, %t, 40;
    @%p0 ret;
    st.global.b32 [%At], 0;
    """,
    gives={"A": lambda i: [0] * 40 + list(range(41, 65))},
)
clean(
    "idiom_lanes_that_have_exited",
    "bar.warp.sync and shfl.sync wait for the lanes of the mask that have not exited (CUDA guide, __syncwarp)",
    """
    setp.ge.u32 %p0, %t, 20;
    @%p0 ret;
    st.shared.b32 [%st], %t;
    bar.warp.sync 0xffffffff;
    ld.shared.b32 %r0, [%s+8];
    st.global.b32 [%At], %r0;
    """,
    shared="s:128",
    block=32,
    arrays="A:32",
    gives={"A": lambda i: [2] * 20 + list(range(21, 33))},
)
clean(
    "idiom_lanes_that_exit_before_the_barrier_of_the_cta",
    "bar.sync waits for all threads of the CTA that have not exited (CUDA guide, __syncthreads)",
    """
    setp.ge.u32 %p0, %t, 50;
    @%p0 bra END;
    st.shared.b32 [%st], %t;
    bar.sync 0;
    ld.shared.b32 %r0, [%s+160];
    st.global.b32 [%At], %r0;
END:
    """,
    shared="s:256",
    gives={"A": lambda i: [40] * 50 + list(range(51, 65))},
)
clean(
    "idiom_vote_without_lanes_that_have_exited",
    "vote.sync waits for the lanes of the mask that have not exited (PTX ISA 9.7.14.2)",
    """
    setp.ge.u32 %p0, %t, 20;
    @%p0 bra END;
    vote.sync.ballot.b32 %r0, 1, 0xffffffff;
    st.global.b32 [%At], %r0;
END:
    """,
    block=32,
    arrays="A:32",
    gives={"A": lambda i: [0xFFFFF] * 20 + list(range(21, 33))},
)
clean(
    "idiom_equal_values_of_one_warp",
    "the lanes of one instruction store one value to one word: one of them succeeds, all are equal (CUDA guide)",
    """
    st.shared.b32 [%s], 7;
    bar.warp.sync 0xffffffff;
    ld.shared.b32 %r0, [%s];
    st.global.b32 [%A], %r0;
    """,
    shared="s:4",
    block=32,
    arrays="A:1",
    gives={"A": 7},
)
clean(
    "idiom_half_warps",
    "each half of a warp synchronises with its own mask",
    """
    st.shared.b32 [%st], %t;
    shr.u32 %r0, %lane, 4;
    mov.b32 %r1, 0xffff;
    setp.eq.u32 %p0, %r0, 1;
    @%p0 mov.b32 %r1, 0xffff0000;
    bar.warp.sync %r1;
    xor.b32 %r2, %t, 15;
    mad.lo.u32 %r2, %r2, 4, %s;
    ld.shared.b32 %r3, [%r2];
    st.global.b32 [%At], %r3;
    """,
    shared="s:256",
    gives={"A": lambda i: i ^ 15},
)
clean(
    "idiom_elected_leader",
    "elect.sync: one lane of the warp, whichever, initialises and sends",
    f"""
    @!%w0 bra MEET;
    elect.sync _|%p0, 0xffffffff;
    @%p0 mbarrier.init.shared.b64 [%m], 1;
    @%p0 fence.mbarrier_init.release.cluster;
MEET:
    bar.sync 0;
    @!%w0 bra READ;
    elect.sync %r0|%p0, 0xffffffff;
    @!%p0 bra READ;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 256;
    {G2S} [%s], [%A], 256, [%m];
READ:
    WAIT [%m], 0;
    ld.shared.b32 %r1, [%st];
    st.global.b32 [%Bt], %r1;
    """,
    shared="s:256 m:8",
    arrays="A:64 B:64",
    gives={"B": lambda i: i + 1},
)
clean(
    "idiom_votes_and_matches",
    "vote, match, redux, shfl, activemask of whole warps",
    """
    and.b32 %r0, %t, 3;
    setp.eq.u32 %p0, %r0, 1;
    vote.sync.ballot.b32 %r1, %p0, 0xffffffff;
    vote.sync.any.pred %p1, %p0, 0xffffffff;
    vote.sync.all.pred %p2, %p0, 0xffffffff;
    match.any.sync.b32 %r2, %r0, 0xffffffff;
    redux.sync.add.s32 %r3, %r0, 0xffffffff;
    shfl.sync.up.b32 %r4|%p3, %t, 1, 0, 0xffffffff;
    shl.b32 %r5, %r2, 0;
    selp.b32 %r6, 1, 0, %p1;
    add.u32 %r7, %r3, %r6;
    setp.eq.u32 %p4, %r1, 0x22222222;
    @!%p4 mov.b32 %r7, 0;
    st.global.b32 [%At], %r7;
    """,
    arrays="A:32",
    block=32,
    gives={"A": 49},
)

# ------------------------------------------------------------------------------------------------ clusters

clean(
    "idiom_split_cluster_barrier",
    "arrive, work of one's own, wait; twice",
    """
    st.shared.b32 [%st], %t;
    barrier.cluster.arrive.release.aligned;
    mul.lo.u32 %r5, %t, 3;
    barrier.cluster.wait.acquire.aligned;
    xor.b32 %r1, %rank, 1;
    mapa.shared::cluster.u32 %r0, %st, %r1;
    ld.shared::cluster.b32 %r2, [%r0];
    barrier.cluster.arrive.release.aligned;
    add.u32 %r5, %r5, %r2;
    mad.lo.u32 %r3, %rank, 32, %t;
    mad.wide.u32 %d0, %r3, 4, %A;
    st.global.b32 [%d0], %r5;
    barrier.cluster.wait.acquire.aligned;
    """,
    shared="s:128",
    **PAIR,
    gives={"A": lambda i: 4 * (i % 32)},
)
clean(
    "idiom_warp_exits_before_the_cluster_barrier",
    "threads that have exited are not waited for",
    """
    @%w1 bra END;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
END:
    """,
    **(PAIR | {"block": 64}),
)
clean(
    "idiom_mbarrier_init_for_a_cluster",
    "fence.mbarrier_init, a relaxed arrival, an acquiring wait",
    f"""
    {INIT} [%m], 2;
    @%is0 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.acquire.aligned;
    mapa.shared::cluster.u32 %r0, %m, 0;
    @%is0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];
    @%k1 bra END;
    WAIT.acquire.cluster [%m], 0;
END:
    {SYNC}
    """,
    shared="m:8",
    **PAIR,
)
clean(
    "idiom_remote_stores_and_arrival",
    "stores to another CTA, then an arrival of cluster scope on its mbarrier",
    f"""
    {INIT} [%m], 32;
    @%is0 fence.mbarrier_init.release.cluster;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %m, 0;
    mapa.shared::cluster.u32 %r1, %st, 0;
    @%k0 bra TAKE;
    st.shared::cluster.b32 [%r1], %t;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];
    bra END;
TAKE:
    WAIT.acquire.cluster [%m], 0;
    xor.b32 %r2, %t, 31;
    mad.lo.u32 %r2, %r2, 4, %s;
    ld.shared.b32 %r3, [%r2];
    st.global.b32 [%At], %r3;
END:
    {SYNC}
    """,
    shared="s:128 m:8",
    arrays="A:32",
    **PAIR,
    gives={"A": lambda i: 31 - i},
)
clean(
    "idiom_cluster_ring_with_remote_release",
    "rank 0 fills the stage of rank 1 and waits on its own empty mbarrier, at which rank 1 arrives remotely",
    f"""
    {INIT} [%m], 1;
    {INIT} [%m+8], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    {SYNC}
    mov.b32 %k, 0;
    xor.b32 %r9, %rank, 1;
    mapa.shared::cluster.u32 %r0, %s, %r9;
    mapa.shared::cluster.u32 %r1, %m, %r9;
    @!%is0 bra END;
    @%k1 bra CONSUME;
PRODUCE:
    and.b32 %phase, %k, 1;
    xor.b32 %other, %phase, 1;
    WAIT.acquire.cluster [%m+8], %other;
    st.shared::cluster.b32 [%r0], %k;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p1, %k, 4;
    @%p1 bra PRODUCE;
    bra END;
CONSUME:
    and.b32 %phase, %k, 1;
    WAIT.acquire.cluster [%m], %phase;
    ld.shared.b32 %r2, [%s];
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1+8];
    mad.wide.u32 %d0, %k, 4, %A;
    st.global.b32 [%d0], %r2;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p1, %k, 4;
    @%p1 bra CONSUME;
END:
    {SYNC}
    """,
    shared="s:4 m:16",
    **PAIR,
    gives={"A": lambda i: [0, 1, 2, 3, *range(5, 65)]},
)
BULK_INIT = f"""
    {INIT} [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    {SYNC}
"""
clean(
    "idiom_warp_fills_and_lane_0_sends",
    "a warp fills, bar.warp.sync, lane 0 fences and sends",
    f"""{BULK_INIT}
    mapa.shared::cluster.u32 %r0, %d, 1;
    mapa.shared::cluster.u32 %r1, %m, 1;
    @%k1 bra TAKE;
    st.shared.b32 [%st], %t;
    bar.warp.sync 0xffffffff;
    @!%is0 bra END;
    fence.proxy.async.shared::cta;
    {S2S} [%r0], [%s], 128, [%r1];
    bra END;
TAKE:
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    WAIT [%m], 0;
    ld.shared.b32 %r2, [%dt];
    st.global.b32 [%At], %r2;
END:
    {SYNC}
    """,
    shared="s:128 d:128 m:8",
    arrays="A:32",
    **PAIR,
    gives={"A": lambda i: i},
)
clean(
    "idiom_every_writer_fences",
    "each writer fences, a barrier, one thread sends",
    f"""{BULK_INIT}
    mapa.shared::cluster.u32 %r0, %d, 1;
    mapa.shared::cluster.u32 %r1, %m, 1;
    st.shared.b32 [%st], %t;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%k1 bra TAKE;
    @%is5 {S2S} [%r0], [%s], 256, [%r1];
    bra END;
TAKE:
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 256;
    WAIT [%m], 0;
    ld.shared.b32 %r2, [%dt];
    st.global.b32 [%At], %r2;
END:
    {SYNC}
    """,
    shared="s:256 d:256 m:8",
    **(PAIR | {"block": 64}),
    gives={"A": lambda i: i},
)
clean(
    "idiom_wait_fence_send",
    "an mbarrier wait, a proxy fence by the waiting thread, a bulk copy of what others wrote",
    f"""
    {INIT} [%m], 1;
    {INIT} [%m+8], 32;
    @%is0 fence.mbarrier_init.release.cluster;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %d, 1;
    mapa.shared::cluster.u32 %r1, %m, 1;
    @%k1 bra TAKE;
    @%w1 bra SEND;
    st.shared.b32 [%st], %t;
    mbarrier.arrive.shared.b64 _, [%m+8];
    bra END;
SEND:
    @!%is32 bra END;
    WAIT [%m+8], 0;
    fence.proxy.async.shared::cta;
    {S2S} [%r0], [%s], 128, [%r1];
    bra END;
TAKE:
    @%w1 bra END;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    WAIT [%m], 0;
    ld.shared.b32 %r2, [%dt];
    st.global.b32 [%At], %r2;
END:
    {SYNC}
    """,
    shared="s:128 d:128 m:16",
    arrays="A:32",
    **(PAIR | {"block": 64}),
    gives={"A": lambda i: i},
)
clean(
    "idiom_both_send",
    "two CTAs exchange tiles; a cluster barrier before the sources are written again",
    f"""{BULK_INIT}
    xor.b32 %r3, %rank, 1;
    mapa.shared::cluster.u32 %r0, %d, %r3;
    mapa.shared::cluster.u32 %r1, %m, %r3;
    mad.lo.u32 %r4, %rank, 100, %t;
    st.shared.b32 [%st], %r4;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    @%is0 {S2S} [%r0], [%s], 128, [%r1];
    WAIT [%m], 0;
    ld.shared.b32 %r2, [%dt];
    {SYNC}
    st.shared.b32 [%st], 0;
    mad.lo.u32 %r5, %rank, 32, %t;
    mad.wide.u32 %d0, %r5, 4, %A;
    st.global.b32 [%d0], %r2;
    """,
    shared="s:128 d:128 m:8",
    **PAIR,
    gives={"A": lambda i: [100 + k if k < 32 else k - 32 for k in range(64)]},
)
clean(
    "idiom_sender_is_told_by_the_receiver",
    "the receiver waits and arrives at the sender's mbarrier; then the sender writes its source again",
    f"""{BULK_INIT}
    xor.b32 %r3, %rank, 1;
    mapa.shared::cluster.u32 %r0, %d, %r3;
    mapa.shared::cluster.u32 %r1, %m, %r3;
    @!%is0 bra END;
    @%k1 bra TAKE;
    st.shared.v4.b32 [%s], {{1, 2, 3, 4}};
    fence.proxy.async.shared::cta;
    {S2S} [%r0], [%s], 16, [%r1];
    WAIT.acquire.cluster [%m], 0;
    st.shared.b32 [%s], 9;
    bra END;
TAKE:
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 16;
    WAIT.acquire.cluster [%m], 0;
    ld.shared.b32 %r2, [%d+12];
    st.global.b32 [%A], %r2;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];
END:
    {SYNC}
    """,
    shared="s:16 d:16 m:8",
    **PAIR,
    gives={"A": lambda i: [4, *range(2, 65)]},
)
clean(
    "idiom_ring_of_ranks",
    "four CTAs, each sends to the next",
    f"""{BULK_INIT}
    add.u32 %r3, %rank, 1;
    and.b32 %r3, %r3, 3;
    mapa.shared::cluster.u32 %r0, %d, %r3;
    mapa.shared::cluster.u32 %r1, %m, %r3;
    st.shared.b32 [%st], %rank;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    @%is0 {S2S} [%r0], [%s], 128, [%r1];
    WAIT [%m], 0;
    ld.shared.b32 %r2, [%dt];
    mad.wide.u32 %d0, %rank, 4, %A;
    @%is7 st.global.b32 [%d0], %r2;
    {SYNC}
    """,
    shared="s:128 d:128 m:8",
    arrays="A:4",
    **(PAIR | {"grid": 4, "cluster": 4}),
    gives={"A": lambda i: (i + 3) % 4},
)
clean(
    "idiom_multicast_load",
    "one bulk load into the shared memory of both CTAs",
    f"""{BULK_INIT}
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {SYNC}
    mov.b16 %h0, 3;
    setp.eq.and.u32 %p0, %t, 0, %k0;
    @%p0 {G2S}.multicast::cluster [%s], [%A], 128, [%m], %h0;
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%st];
    mad.lo.u32 %r1, %rank, 32, %t;
    mad.wide.u32 %d0, %r1, 4, %B;
    st.global.b32 [%d0], %r0;
    {SYNC}
    """,
    shared="s:128 m:8",
    arrays="A:32 B:64",
    **PAIR,
    gives={"B": lambda i: i % 32 + 1},
)
clean(
    "idiom_store_async",
    "st.async completes bytes on the mbarrier of the destination",
    f"""{BULK_INIT}
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {SYNC}
    xor.b32 %r3, %rank, 1;
    mapa.shared::cluster.u32 %r0, %st, %r3;
    mapa.shared::cluster.u32 %r1, %m, %r3;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r0], %t, [%r1];
    WAIT.acquire.cluster [%m], 0;
    xor.b32 %r2, %t, 31;
    mad.lo.u32 %r2, %r2, 4, %s;
    ld.shared.b32 %r4, [%r2];
    @%k0 st.global.b32 [%At], %r4;
    {SYNC}
    """,
    shared="s:128 m:8",
    arrays="A:32",
    **PAIR,
    gives={"A": lambda i: 31 - i},
)
clean(
    "idiom_cluster_histogram",
    "atomics of all CTAs on the shared memory of rank 0",
    f"""
    st.shared.b32 [%st], 0;
    {SYNC}
    and.b32 %r0, %t, 3;
    mad.lo.u32 %r0, %r0, 4, %s;
    mapa.shared::cluster.u32 %r1, %r0, 0;
    red.relaxed.cluster.shared::cluster.add.u32 [%r1], 1;
    {SYNC}
    @%k0 ld.shared.b32 %r2, [%st];
    @%k0 st.global.b32 [%At], %r2;
    """,
    shared="s:128",
    arrays="A:32",
    **PAIR,
    gives={"A": lambda i: [16] * 4 + [0] * 28},
)
clean(
    "idiom_generic_remote_addresses",
    "mapa on a generic address, getctarank, a generic load",
    f"""
    mad.lo.u32 %r4, %rank, 50, %t;
    st.shared.b32 [%st], %r4;
    {SYNC}
    cvt.u64.u32 %d0, %st;
    cvta.shared.u64 %d0, %d0;
    xor.b32 %r1, %rank, 1;
    mapa.u64 %d1, %d0, %r1;
    getctarank.u64 %r2, %d1;
    ld.b32 %r3, [%d1];
    mad.lo.u32 %r3, %r2, 1000, %r3;
    @%k0 st.global.b32 [%At], %r3;
    {SYNC}
    """,
    shared="s:128",
    arrays="A:32",
    **PAIR,
    gives={"A": lambda i: 1050 + i},
)

# ------------------------------------------------------------------------------------------------ asynchronous copies

clean(
    "idiom_zero_fill",
    "cp.async with src-size: bytes past it are zeros, and with 0 the source is not read",
    """
    mov.b32 %r0, 8;
    cp.async.ca.shared.global [%s], [%A], 16, %r0;
    mov.b32 %r1, 0;
    cp.async.cg.shared.global [%s+16], [%A+4096], 16, %r1;
    cp.async.wait_all;
    ld.shared.v4.b32 {%r2, %r3, %r4, %r5}, [%s];
    ld.shared.v4.b32 {%r6, %r7, %r8, %r9}, [%s+16];
    st.global.v4.b32 [%B], {%r2, %r3, %r4, %r5};
    st.global.v4.b32 [%B+16], {%r6, %r7, %r8, %r9};
    """,
    shared="s:32",
    arrays="A:2 B:8",
    block=1,
    gives={"B": [1, 2, 0, 0, 0, 0, 0, 0]},
)
clean(
    "idiom_ignored_source",
    "cp.async with ignore-src: zeros, whatever the source address",
    """
    setp.ge.u32 %p0, %t, 20;
    cp.async.ca.shared.global [%st], [%At], 4, %p0;
    cp.async.wait_all;
    ld.shared.b32 %r0, [%st];
    st.global.b32 [%Bt], %r0;
    """,
    shared="s:128",
    arrays="A:20 B:32",
    block=32,
    gives={"B": lambda i: [*range(1, 21), *[0] * 12]},
)
clean(
    "idiom_guarded_copies",
    "only some lanes copy, all wait; the others' words were set before",
    """
    setp.lt.u32 %p0, %t, 20;
    @!%p0 st.shared.b32 [%st], 0;
    @%p0 cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    ld.shared.b32 %r0, [%st];
    st.global.b32 [%Bt], %r0;
    """,
    shared="s:128",
    arrays="A:20 B:32",
    block=32,
    gives={"B": lambda i: [*range(1, 21), *[0] * 12]},
)
clean(
    "idiom_empty_groups",
    "commit_group of nothing is a complete group",
    """
    cp.async.commit_group;
    cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.commit_group;
    cp.async.commit_group;
    cp.async.wait_group 1;
    ld.shared.b32 %r0, [%st];
    cp.async.wait_group 0;
    """,
    shared="s:128",
    block=32,
)
clean(
    "idiom_cp_async_mbarrier_with_increment",
    "cp.async.mbarrier.arrive counts itself; each thread arrives besides",
    f"""
    {INIT} [%m], 32;
    bar.sync 0;
    cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.mbarrier.arrive.shared.b64 [%m];
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;
    xor.b32 %r0, %t, 31;
    mad.lo.u32 %r0, %r0, 4, %s;
    ld.shared.b32 %r1, [%r0];
    st.global.b32 [%Bt], %r1;
    """,
    shared="s:128 m:8",
    arrays="A:32 B:32",
    block=32,
    gives={"B": lambda i: 32 - i},
)
clean(
    "idiom_epilogue_through_shared_memory",
    "fill, fence, barrier, bulk store, wait_group.read, refill, and at last wait_group",
    f"""
    mov.b32 %k, 0;
LOOP:
    mad.lo.u32 %r0, %k, 64, %t;
    st.shared.b32 [%st], %r0;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%is0 bra NEXT;
    mad.wide.u32 %d0, %k, 256, %A;
    {S2G} [%d0], [%s], 256;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
NEXT:
    bar.sync 0;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 3;
    @%p0 bra LOOP;
    @%is0 cp.async.bulk.wait_group 0;
    """,
    shared="s:256",
    arrays="A:192",
    gives={"A": lambda i: i},
)
clean(
    "idiom_bulk_stores_from_two_buffers",
    "wait_group.read 1 frees the older buffer",
    f"""
    mov.b32 %k, 0;
LOOP:
    and.b32 %r1, %k, 1;
    mad.lo.u32 %r2, %r1, 256, %st;
    mad.lo.u32 %r3, %r1, 256, %s;
    mad.lo.u32 %r0, %k, 64, %t;
    @%is0 cp.async.bulk.wait_group.read 1;
    bar.sync 0;
    st.shared.b32 [%r2], %r0;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%is0 bra NEXT;
    mad.wide.u32 %d0, %k, 256, %A;
    {S2G} [%d0], [%r3], 256;
    cp.async.bulk.commit_group;
NEXT:
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 5;
    @%p0 bra LOOP;
    @%is0 cp.async.bulk.wait_group 0;
    """,
    shared="s:512",
    arrays="A:320",
    gives={"A": lambda i: i},
)
clean(
    "idiom_load_change_store",
    "bulk load, ordinary reads and writes, fence, bulk store",
    f"""
    {INIT} [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    @%is0 {G2S} [%s], [%A], 128, [%m];
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%st];
    add.u32 %r0, %r0, 1;
    st.shared.b32 [%st], %r0;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%is0 bra END;
    {S2G} [%B], [%s], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
    """,
    shared="s:128 m:8",
    arrays="A:32 B:32",
    block=32,
    gives={"B": lambda i: i + 2},
)
clean(
    "idiom_reduce_into_global_memory",
    "cp.reduce.async.bulk adds a tile of each CTA",
    f"""
    st.shared.b32 [%st], %t;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%is0 bra END;
    {S2G.replace("cp.async", "cp.reduce.async")}.add.u32 [%Z], [%s], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
    """,
    shared="s:128",
    arrays="Z:32",
    block=32,
    grid=3,
    gives={"Z": lambda i: 3 * i},
)

# ------------------------------------------------------------------------------------------------ flags and semaphores

clean(
    "idiom_spin_on_a_shared_flag",
    "a warp spins on a volatile flag in shared memory, with block fences",
    """
    @%is0 st.shared.b32 [%s+4], 0;
    bar.sync 0;
    @%w1 bra READ;
    @!%is0 bra END;
    mov.b32 %r1, 0;
DELAY:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 100;
    @%p1 bra DELAY;
    st.shared.b32 [%s], 5;
    membar.cta;
    st.volatile.shared.b32 [%s+4], 1;
    bra END;
READ:
    SPIN ld.volatile.shared.b32 [%s+4], 1;
    membar.cta;
    ld.shared.b32 %r0, [%s];
    st.global.b32 [%At], %r0;
END:
    """,
    shared="s:8",
    gives={"A": lambda i: [*range(1, 33), *[5] * 32]},
)
clean(
    "idiom_spin_within_a_warp",
    "lanes of one warp wait for another lane's flag: independent thread scheduling",
    """
    @%is0 st.shared.b32 [%s], 0;
    bar.warp.sync 0xffffffff;
    @%is31 bra SET;
    SPIN ld.acquire.cta.shared.b32 [%s], 1;
    bra END;
SET:
    st.release.cta.shared.b32 [%s], 1;
END:
    """,
    shared="s:4",
    block=32,
)
clean(
    "idiom_stream_k_turnstile",
    "CTAs add their parts to one tile in order, a semaphore tells whose turn it is",
    """
    @!%is0 bra MEET;
TURN:
    ld.acquire.gpu.global.b32 %r0, [%Z];
    setp.ne.u32 %p0, %r0, %cta;
    @%p0 bra TURN;
MEET:
    bar.sync 0;
    ld.global.b32 %r1, [%At];
    mad.lo.u32 %r1, %r1, 2, %cta;
    st.global.b32 [%At], %r1;
    bar.sync 0;
    @%is0 red.release.gpu.global.add.u32 [%Z], 1;
    """,
    arrays="A:32=1 Z:1",
    block=32,
    grid=4,
    gives={"A": 16 + 0 * 8 + 1 * 4 + 2 * 2 + 3},
)
clean(
    "idiom_semaphore_in_reverse_order",
    "the last CTA goes first: those that wait are not the ones that were started later",
    """
    sub.u32 %r9, 3, %cta;
    @!%is0 bra MEET;
TURN:
    ld.acquire.gpu.global.b32 %r0, [%Z];
    setp.ne.u32 %p0, %r0, %r9;
    @%p0 bra TURN;
MEET:
    bar.sync 0;
    ld.global.b32 %r1, [%At];
    mad.lo.u32 %r1, %r1, 2, %r9;
    st.global.b32 [%At], %r1;
    bar.sync 0;
    @%is0 red.release.gpu.global.add.u32 [%Z], 1;
    """,
    arrays="A:32=1 Z:1",
    block=32,
    grid=4,
    gives={"A": 16 + 0 * 8 + 1 * 4 + 2 * 2 + 3},
)
clean(
    "idiom_poll_with_nanosleep",
    "polling a flag with pauses while its setter works for long",
    """
    @!%is0 bra END;
    @%c1 bra SET;
POLL:
    ld.acquire.gpu.global.b32 %r0, [%Z];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra GOT;
    nanosleep.u32 64;
    bra POLL;
GOT:
    ld.global.b32 %r1, [%A];
    st.global.b32 [%A+4], %r1;
    bra END;
SET:
    mov.b32 %r1, 0;
DELAY:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 3000;
    @%p1 bra DELAY;
    st.global.b32 [%A], %r1;
    st.release.gpu.global.b32 [%Z], 1;
END:
    """,
    arrays="A:2 Z:1",
    block=32,
    grid=2,
    gives={"A": 3000},
)
clean(
    "idiom_long_loop",
    "many rounds are no endless loop",
    """
    mov.b32 %r0, 0;
    mov.b32 %r1, 0;
LOOP:
    mad.lo.u32 %r1, %r1, 3, %r0;
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p0, %r0, 10000;
    @%p0 bra LOOP;
    st.global.b32 [%At], %r0;
    """,
    block=32,
    arrays="A:32",
    gives={"A": 10000},
)
clean(
    "idiom_collatz",
    "a loop whose end nobody can compute: each lane for itself",
    """
    add.u32 %r0, %t, 1;
    mov.b32 %r1, 0;
LOOP:
    setp.eq.u32 %p0, %r0, 1;
    @%p0 bra DONE;
    and.b32 %r2, %r0, 1;
    shr.u32 %r3, %r0, 1;
    mad.lo.u32 %r4, %r0, 3, 1;
    setp.eq.u32 %p1, %r2, 1;
    selp.b32 %r0, %r4, %r3, %p1;
    add.u32 %r1, %r1, 1;
    bra LOOP;
DONE:
    st.global.b32 [%At], %r1;
    """,
    block=32,
    arrays="A:32",
    gives={"A": lambda i: [_collatz(k + 1) for k in range(32)]},
)

# ------------------------------------------------------------------------------------------------ memory of all kinds

clean(
    "idiom_block_of_two_dimensions",
    "a 32 x 8 block transposes a tile of 32 x 32",
    """
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.b32 %k, 0;
LOAD:
    mad.lo.u32 %row, %k, 8, %y;
    mad.lo.u32 %r0, %row, 32, %x;
    mad.wide.u32 %d0, %r0, 4, %A;
    ld.global.b32 %r1, [%d0];
    mad.lo.u32 %r2, %row, 33, %x;
    mad.lo.u32 %r2, %r2, 4, %s;
    st.shared.b32 [%r2], %r1;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 4;
    @%p0 bra LOAD;
    bar.sync 0;
    mov.b32 %k, 0;
STORE:
    mad.lo.u32 %row, %k, 8, %y;
    mad.lo.u32 %r2, %x, 33, %row;
    mad.lo.u32 %r2, %r2, 4, %s;
    ld.shared.b32 %r1, [%r2];
    mad.lo.u32 %r0, %row, 32, %x;
    mad.wide.u32 %d0, %r0, 4, %B;
    st.global.b32 [%d0], %r1;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 4;
    @%p0 bra STORE;
    """,
    shared="s:4224",
    arrays="A:1024 B:1024",
    block=(32, 8),
    gives={"B": lambda i: i % 32 * 32 + i // 32 + 1},
)
clean(
    "idiom_grid_of_two_dimensions",
    "ctaid.x and .y, nctaid",
    """
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ctaid.y;
    mov.u32 %r2, %nctaid.x;
    mad.lo.u32 %r3, %r1, %r2, %r0;
    mad.wide.u32 %d0, %r3, 4, %A;
    @%is0 st.global.b32 [%d0], %r3;
    """,
    grid=(3, 2),
    block=32,
    arrays="A:6",
    gives={"A": lambda i: i},
)
clean(
    "idiom_dynamic_shared_memory",
    "two arrays in dynamic shared memory, by offsets",
    """
    mov.u32 %r0, pool;
    mad.lo.u32 %r1, %t, 4, %r0;
    st.shared.b32 [%r1], %t;
    st.shared.b32 [%r1+256], 7;
    bar.sync 0;
    xor.b32 %r2, %t, 63;
    mad.lo.u32 %r2, %r2, 4, %r0;
    ld.shared.b32 %r3, [%r2];
    ld.shared.b32 %r4, [%r2+256];
    add.u32 %r3, %r3, %r4;
    st.global.b32 [%At], %r3;
    """,
    module=".extern .shared .align 16 .b8 pool[];",
    dynamic=512,
    gives={"A": lambda i: 70 - i},
)
clean(
    "idiom_local_stack",
    "an array in local memory, indexed by a register",
    """
    .local .align 4 .b8 stack[64];
    mov.u64 %d0, stack;
    mov.b32 %k, 0;
FILL:
    mad.wide.u32 %d1, %k, 4, %d0;
    mad.lo.u32 %r0, %k, %t, 1;
    st.local.b32 [%d1], %r0;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 16;
    @%p0 bra FILL;
    and.b32 %r1, %t, 15;
    mad.wide.u32 %d1, %r1, 4, %d0;
    ld.local.b32 %r2, [%d1];
    st.global.b32 [%At], %r2;
    """,
    gives={"A": lambda i: i % 16 * i + 1},
)
clean(
    "idiom_generic_addresses",
    "generic loads and stores of global, shared and local memory by one instruction",
    """
    .local .align 4 .b8 stack[4];
    mov.u64 %d0, stack;
    cvta.local.u64 %d0, %d0;
    mov.u64 %d1, s;
    cvta.shared.u64 %d1, %d1;
    mad.wide.u32 %d1, %t, 4, %d1;
    cvta.global.u64 %d2, %A;
    mad.wide.u32 %d2, %t, 4, %d2;
    rem.u32 %r0, %t, 3;
    setp.eq.u32 %p0, %r0, 0;
    setp.eq.u32 %p1, %r0, 1;
    selp.b64 %d3, %d0, %d1, %p0;
    selp.b64 %d3, %d2, %d3, %p1;
    st.b32 [%d3], %t;
    ld.b32 %r1, [%d3];
    st.global.b32 [%Bt], %r1;
    """,
    shared="s:256",
    arrays="A:64 B:64",
    gives={"B": lambda i: i},
)
clean(
    "idiom_constant_table",
    "a table in constant memory",
    """
    and.b32 %r0, %t, 3;
    mov.u64 %d0, table;
    mad.wide.u32 %d0, %r0, 4, %d0;
    ld.const.b32 %r1, [%d0];
    st.global.b32 [%At], %r1;
    """,
    module=".const .align 4 .u32 table[4] = {10, 20, 30, 40};",
    gives={"A": lambda i: 10 * (i % 4) + 10},
)
clean(
    "idiom_packed_halves",
    "two halves packed, stored, loaded and taken apart",
    """
    cvt.u16.u32 %h0, %t;
    mov.b16 %h1, 7;
    mov.b32 %r0, {%h0, %h1};
    st.shared.b32 [%st], %r0;
    ld.shared.v2.b16 {%h2, %h3}, [%st];
    cvt.u32.u16 %r1, %h2;
    cvt.u32.u16 %r2, %h3;
    mad.lo.u32 %r1, %r2, 1000, %r1;
    st.global.b32 [%At], %r1;
    """,
    shared="s:256",
    gives={"A": lambda i: 7000 + i},
)
clean(
    "idiom_matrix_loads",
    "ldmatrix of four 8 x 8 tiles that the warp stored",
    """
    mad.lo.u32 %r0, %t, 16, %s;
    shl.b32 %r1, %t, 16;
    or.b32 %r1, %r1, %t;
    st.shared.v4.b32 [%r0], {%r1, %r1, %r1, %r1};
    bar.warp.sync 0xffffffff;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r0];
    st.global.b32 [%At], %r3;
    """,
    shared="s:512",
    arrays="A:32",
    block=32,
    gives={"A": lambda i: (8 + i // 4) * 0x10001},
)
clean(
    "idiom_function_call",
    "a function of the module",
    """
    {
    .reg .b32 out;
    .param .b32 x;
    .param .b32 y;
    st.param.b32 [x], %t;
    call.uni (y), twice, (x);
    ld.param.b32 out, [y];
    st.global.b32 [%At], out;
    }
    """,
    module=""".func (.param .b32 result) twice(.param .b32 number)
{
    .reg .b32 %n;
    ld.param.b32 %n, [number];
    add.u32 %n, %n, %n;
    st.param.b32 [result], %n;
    ret;
}""",
    gives={"A": lambda i: 2 * i},
)

# ------------------------------------------------------------------------------------------------ tensor memory

ONE = "cta_group::1"
clean(
    "idiom_tensor_store_and_load",
    "tcgen05.st, wait::st, tcgen05.ld, wait::ld of each warp's own lanes",
    f"""
    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 64;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];
    and.b32 %r2, %t, 96;
    shl.b32 %r2, %r2, 16;
    add.u32 %r2, %r2, %taddr;
    add.u32 %r3, %t, 1000;
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r2+7], {{%t, %r3}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r4}}, [%r2+8];
    tcgen05.wait::ld.sync.aligned;
    st.global.b32 [%At], %r4;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 64;
    @%w0 tcgen05.relinquish_alloc_permit.{ONE}.sync.aligned;
    """,
    shared="h:4",
    arrays="A:128",
    block=128,
    target="sm_100a",
    gives={"A": lambda i: 1000 + i},
)
clean(
    "idiom_tensor_handed_to_another_warp",
    "warps 0 to 3 store, warps 4 to 7 read the same lanes: before_thread_sync, barrier, after_thread_sync",
    f"""
    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];
    and.b32 %r2, %t, 96;
    shl.b32 %r2, %r2, 16;
    add.u32 %r2, %r2, %taddr;
    setp.ge.u32 %p0, %t, 128;
    @%p0 bra MEET;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {{%t}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
MEET:
    bar.sync 0;
    @!%p0 bra OUT;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r4}}, [%r2];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.fence::before_thread_sync;
    and.b32 %r5, %t, 127;
    mad.wide.u32 %d0, %r5, 4, %A;
    st.global.b32 [%d0], %r4;
OUT:
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;
    """,
    shared="h:4",
    arrays="A:128",
    block=256,
    target="sm_100a",
    gives={"A": lambda i: i},
)
clean(
    "idiom_tensor_two_stages",
    "two copies with a commit and an mbarrier each, read one after the other",
    f"""
    {INIT} [%m], 1;
    {INIT} [%m+8], 1;
    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;
    st.shared.b32 [%st], %t;
    add.u32 %r9, %t, 500;
    st.shared.b32 [%st+512], %r9;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];
    shr.u32 %r1, %s, 4;
    cvt.u64.u32 %d0, %r1;
    or.b64 %d0, %d0, 0x400800000000;
    add.u64 %d1, %d0, 32;
    @!%is0 bra READ;
    tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;
    tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];
    tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr+4], %d1;
    tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m+8];
READ:
    bar.warp.sync 0xffffffff;
    and.b32 %r2, %t, 96;
    shl.b32 %r2, %r2, 16;
    add.u32 %r2, %r2, %taddr;
    WAIT [%m], 0;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r4, %r5, %r6, %r7}}, [%r2];
    WAIT [%m+8], 0;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%q4, %q5, %q6, %q7}}, [%r2+4];
    tcgen05.wait::ld.sync.aligned;
    add.u32 %r4, %r4, %q4;
    st.global.b32 [%At], %r4;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;
    """,
    shared="s:1024@1024 m:16 h:4",
    arrays="A:128",
    block=128,
    target="sm_100a",
    gives={"A": lambda i: 8 * (i % 32) + 500},
)
clean(
    "idiom_tensor_source_refilled",
    "the source is filled again after the commit's phase, fenced, and copied again",
    f"""
    {INIT} [%m], 1;
    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;
    mov.b32 %k, 0;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];
    shr.u32 %r1, %s, 4;
    cvt.u64.u32 %d0, %r1;
    or.b64 %d0, %d0, 0x400800000000;
    and.b32 %r2, %t, 96;
    shl.b32 %r2, %r2, 16;
    add.u32 %r2, %r2, %taddr;
LOOP:
    mad.lo.u32 %r3, %k, 1000, %t;
    st.shared.b32 [%st], %r3;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @!%is0 bra READ;
    tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;
    tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];
READ:
    bar.warp.sync 0xffffffff;
    and.b32 %phase, %k, 1;
    WAIT [%m], %phase;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r4, %r5, %r6, %r7}}, [%r2];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.fence::before_thread_sync;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 3;
    @%p0 bra LOOP;
    st.global.b32 [%At], %r4;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;
    """,
    shared="s:512@1024 m:8 h:4",
    arrays="A:128",
    block=128,
    target="sm_100a",
    gives={"A": lambda i: 2000 + 4 * (i % 32)},
)


# ------------------------------------------------------------------------------------------------ odds and ends

clean(
    "idiom_hints",
    "prefetches, cache policies, evictions and discards change no value",
    """
    createpolicy.fractional.L2::evict_last.b64 %d1, 1.0;
    prefetch.global.L2 [%A];
    cp.async.bulk.prefetch.L2.global [%A], 128;
    ld.global.L2::cache_hint.b32 %r0, [%At], %d1;
    ld.global.L1::no_allocate.b32 %r1, [%At];
    ld.global.cg.b32 %r2, [%At];
    add.u32 %r0, %r0, %r1;
    add.u32 %r0, %r0, %r2;
    st.global.L2::cache_hint.b32 [%Bt], %r0, %d1;
    st.global.cs.b32 [%Bt+128], %r0;
    """,
    arrays="A:32 B:64",
    block=32,
    gives={"B": lambda i: 3 * (i % 32 + 1)},
)
clean(
    "idiom_warp_size_and_clocks",
    "WARP_SZ, %clock64, %globaltimer, %smid, %lanemask_lt",
    """
    mov.u32 %r0, WARP_SZ;
    mov.u64 %d0, %clock64;
    mov.u64 %d1, %globaltimer;
    mov.u32 %r1, %smid;
    mov.u32 %r2, %lanemask_lt;
    popc.b32 %r3, %r2;
    add.u32 %r0, %r0, %r3;
    st.global.b32 [%At], %r0;
    """,
    arrays="A:32",
    block=32,
    gives={"A": lambda i: 32 + i},
)
clean(
    "idiom_register_reallocation_and_dependent_launch",
    "setmaxnreg by warpgroups, griddepcontrol",
    """
    setp.lt.u32 %p0, %t, 128;
    griddepcontrol.wait;
    @%p0 bra LOW;
    setmaxnreg.inc.sync.aligned.u32 232;
    bra END;
LOW:
    setmaxnreg.dec.sync.aligned.u32 40;
    st.global.b32 [%At], 1;
END:
    griddepcontrol.launch_dependents;
    """,
    arrays="A:128",
    block=256,
    gives={"A": 1},
)
clean(
    "idiom_cluster_of_two_dimensions",
    "a 2 x 2 cluster: every rank reads the next one's word",
    f"""
    st.shared.b32 [%s], %rank;
    {SYNC}
    add.u32 %r1, %rank, 1;
    and.b32 %r1, %r1, 3;
    mapa.shared::cluster.u32 %r0, %s, %r1;
    ld.shared::cluster.b32 %r2, [%r0];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ctaid.y;
    mad.lo.u32 %r3, %r4, 2, %r3;
    mad.wide.u32 %d0, %r3, 4, %A;
    @%is0 st.global.b32 [%d0], %r2;
    {SYNC}
    """,
    shared="s:4",
    arrays="A:4",
    grid=(2, 2),
    block=1,
    cluster=(2, 2, 1),
    gives={"A": lambda i: (i + 1) % 4},
)
clean(
    "idiom_mbarrier_in_dynamic_shared_memory",
    "tiles and mbarriers carved from dynamic shared memory",
    f"""
    mov.u32 %r0, pool;
    add.u32 %r1, %r0, 256;
    mad.lo.u32 %r2, %t, 4, %r0;
    @%is0 mbarrier.init.shared.b64 [%r1], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256;
    @%is0 {G2S} [%r0], [%A], 256, [%r1];
    WAIT [%r1], 0;
    ld.shared.b32 %r3, [%r2];
    st.global.b32 [%Bt], %r3;
    """,
    module=".extern .shared .align 128 .b8 pool[];",
    dynamic=264,
    arrays="A:64 B:64",
    gives={"B": lambda i: i + 1},
)
clean(
    "idiom_shared_memory_reused_for_the_epilogue",
    "one buffer as a tile of words, then of bytes, with a barrier between",
    """
    st.shared.b32 [%st], %t;
    bar.sync 0;
    xor.b32 %r0, %t, 63;
    mad.lo.u32 %r0, %r0, 4, %s;
    ld.shared.b32 %r1, [%r0];
    bar.sync 0;
    add.u32 %r2, %s, %t;
    st.shared.b8 [%r2], %r1;
    bar.sync 0;
    ld.shared.u8 %r3, [%r2];
    st.global.b32 [%At], %r3;
    """,
    shared="s:256",
    gives={"A": lambda i: 63 - i},
)
clean(
    "idiom_wide_atomics",
    "64-bit atomics and loads with semantics",
    """
    @!%is0 bra END;
    mov.b64 %d0, 3;
    atom.acq_rel.gpu.global.add.u64 %d1, [%Z], %d0;
    atom.acq_rel.gpu.global.max.u64 %d1, [%Z+8], %d0;
    ld.acquire.gpu.global.b64 %d2, [%Z];
END:
    """,
    arrays="Z:2xu64",
    grid=4,
    gives={"Z": [12, 3]},
)
clean(
    "idiom_divergent_paths_and_a_common_tail",
    "three branches of different length, then all lanes shuffle and synchronise",
    """
    rem.u32 %r0, %t, 3;
    mov.b32 %r1, %t;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 bra JOIN;
    add.u32 %r1, %r1, 100;
    setp.eq.u32 %p1, %r0, 1;
    @%p1 bra JOIN;
    add.u32 %r1, %r1, 100;
JOIN:
    shfl.sync.bfly.b32 %r2, %r1, 1, 0x1f, 0xffffffff;
    st.shared.b32 [%st], %r2;
    bar.sync 0;
    ld.shared.b32 %r3, [%st];
    st.global.b32 [%At], %r3;
    """,
    shared="s:256",
    gives={"A": lambda i: [(k ^ 1) + 100 * ((k ^ 1) % 3) for k in range(64)]},
)
clean(
    "idiom_volatile_semaphore_with_fences",
    "a ping-pong of two blocks over volatile words with __threadfence on both sides",
    """
    @!%is0 bra END;
    mov.b32 %r5, %cta;
LOOP:
    ld.volatile.global.b32 %r0, [%Z];
    setp.ne.u32 %p0, %r0, %r5;
    @%p0 bra LOOP;
    membar.gl;
    ld.global.b32 %r1, [%A];
    add.u32 %r1, %r1, 1;
    st.global.b32 [%A], %r1;
    membar.gl;
    add.u32 %r0, %r0, 1;
    st.volatile.global.b32 [%Z], %r0;
    add.u32 %r5, %r5, 2;
    setp.lt.u32 %p1, %r5, 6;
    @%p1 bra LOOP;
END:
    """,
    arrays="A:2 Z:1",
    grid=2,
    block=32,
    gives={"A": [7, 2]},
)

# ------------------------------------------------------------------------------------------------ whole pipelines

clean(
    "idiom_pipeline_of_multicast_loads",
    "each CTA loads half of every tile for both; a consumer gives its stage back to both producers",
    f"""
    {INIT} [%m], 1;
    {INIT} [%m+8], 2;
    {INIT} [%m+16], 1;
    {INIT} [%m+24], 2;
    @%is0 fence.mbarrier_init.release.cluster;
    {SYNC}
    mov.b32 %k, 0;
    mov.b16 %h0, 3;
    shl.b32 %half, %rank, 6;
    cvt.u64.u32 %d2, %half;
    @%w1 bra CONSUME;
    @!%is0 bra END;
PRODUCE:
    and.b32 %index, %k, 1;
    shr.u32 %turn, %k, 1;
    and.b32 %phase, %turn, 1;
    xor.b32 %other, %phase, 1;
    mad.lo.u32 %full, %index, 16, %m;
    mad.lo.u32 %stage, %index, 128, %s;
    add.u32 %stage, %stage, %half;
    mad.wide.u32 %d0, %k, 128, %A;
    add.u64 %d0, %d0, %d2;
    WAIT.acquire.cluster [%full+8], %other;
    mbarrier.arrive.expect_tx.shared.b64 _, [%full], 128;
    {G2S}.multicast::cluster [%stage], [%d0], 64, [%full], %h0;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 5;
    @%p0 bra PRODUCE;
    bra END;
CONSUME:
    and.b32 %index, %k, 1;
    shr.u32 %turn, %k, 1;
    and.b32 %phase, %turn, 1;
    mad.lo.u32 %full, %index, 16, %m;
    mad.lo.u32 %stage, %index, 128, %s;
    mad.lo.u32 %stage, %lane, 4, %stage;
    WAIT [%full], %phase;
    ld.shared.b32 %r1, [%stage];
    bar.warp.sync 0xffffffff;
    setp.lt.u32 %p1, %lane, 2;
    and.b32 %r4, %lane, 1;
    mapa.shared::cluster.u32 %r2, %full, %r4;
    @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2+8];
    mad.lo.u32 %r3, %k, 32, %lane;
    mad.lo.u32 %r3, %rank, 160, %r3;
    mad.wide.u32 %d1, %r3, 4, %B;
    st.global.b32 [%d1], %r1;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 5;
    @%p0 bra CONSUME;
END:
    {SYNC}
    """,
    shared="s:256 m:32",
    arrays="A:160 B:320",
    grid=2,
    cluster=2,
    block=64,
    gives={"B": lambda i: i % 160 + 1},
)
clean(
    "idiom_persistent_tiles",
    "CTAs draw tiles from a counter until there are none, thread 0 for all",
    """
LOOP:
    @!%is0 bra MEET;
    atom.global.add.u32 %r0, [%Z], 1;
    st.shared.b32 [%s], %r0;
MEET:
    bar.sync 0;
    ld.shared.b32 %r1, [%s];
    bar.sync 0;
    setp.ge.u32 %p0, %r1, 7;
    @%p0 bra END;
    mad.lo.u32 %r2, %r1, 64, %t;
    mad.wide.u32 %d0, %r2, 4, %A;
    st.global.b32 [%d0], %r1;
    bra LOOP;
END:
    """,
    shared="s:4",
    arrays="A:448 Z:1",
    grid=3,
    gives={"A": lambda i: i // 64, "Z": 10},
)
clean(
    "idiom_tensor_pipeline",
    "bulk loads fill a ring, one thread copies its stages to two stages of tensor memory, four warps read them: full, empty, and the same for tensor memory",
    f"""
    mov.b32 %r0, 0;
INITIALISE:
    mad.lo.u32 %r1, %r0, 32, %m;
    {INIT} [%r1], 1;
    {INIT} [%r1+8], 1;
    {INIT} [%r1+16], 1;
    {INIT} [%r1+24], 4;
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p0, %r0, 2;
    @%p0 bra INITIALISE;
    @%is0 fence.mbarrier_init.release.cluster;
    @%w4 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];
    mov.b32 %k, 0;
    setp.lt.u32 %p1, %t, 128;
    @%p1 bra EPILOGUE;
    @%is128 bra PRODUCE;
    @%is160 bra ISSUE;
    bra END;
PRODUCE:
    and.b32 %index, %k, 1;
    shr.u32 %turn, %k, 1;
    and.b32 %phase, %turn, 1;
    xor.b32 %other, %phase, 1;
    mad.lo.u32 %bars, %index, 32, %m;
    mad.lo.u32 %stage, %index, 512, %s;
    mad.wide.u32 %d0, %k, 512, %A;
    WAIT [%bars+8], %other;
    mbarrier.arrive.expect_tx.shared.b64 _, [%bars], 512;
    {G2S} [%stage], [%d0], 512, [%bars];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 5;
    @%p0 bra PRODUCE;
    bra END;
ISSUE:
    and.b32 %index, %k, 1;
    shr.u32 %turn, %k, 1;
    and.b32 %phase, %turn, 1;
    xor.b32 %other, %phase, 1;
    mad.lo.u32 %bars, %index, 32, %m;
    mad.lo.u32 %stage, %index, 512, %s;
    shr.u32 %r1, %stage, 4;
    cvt.u64.u32 %d1, %r1;
    or.b64 %d1, %d1, 0x400800000000;
    mad.lo.u32 %r2, %index, 4, %taddr;
    WAIT [%bars], %phase;
    WAIT [%bars+24], %other;
    tcgen05.fence::after_thread_sync;
    tcgen05.cp.{ONE}.32x128b.warpx4 [%r2], %d1;
    tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%bars+8];
    tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%bars+16];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 5;
    @%p0 bra ISSUE;
    bra END;
EPILOGUE:
    and.b32 %index, %k, 1;
    shr.u32 %turn, %k, 1;
    and.b32 %phase, %turn, 1;
    mad.lo.u32 %bars, %index, 32, %m;
    and.b32 %r2, %t, 96;
    shl.b32 %r2, %r2, 16;
    add.u32 %r2, %r2, %taddr;
    mad.lo.u32 %r2, %index, 4, %r2;
    WAIT [%bars+16], %phase;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r4, %r5, %r6, %r7}}, [%r2];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p2, %lane, 0;
    @%p2 mbarrier.arrive.shared.b64 _, [%bars+24];
    mad.lo.u32 %r3, %k, 128, %t;
    mad.wide.u32 %d0, %r3, 4, %B;
    st.global.b32 [%d0], %r5;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 5;
    @%p0 bra EPILOGUE;
END:
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%w4 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;
    """,
    shared="s:1024@1024 m:64 h:4",
    arrays="A:640 B:640",
    block=192,
    target="sm_100a",
    gives={"B": lambda i: i // 128 * 128 + 4 * (i % 32) + 2},
)
clean(
    "idiom_pipeline_through_two_rings",
    "loader warp, transforming warp, storing thread: a ring of loads and a ring of bulk stores between them",
    f"""
    {INIT} [%m], 1;
    {INIT} [%m+8], 1;
    {INIT} [%m+16], 1;
    {INIT} [%m+24], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    mov.b32 %k, 0;
    @%w1 bra TRANSFORM;
    @%w2 bra STORE;
    @!%is0 bra END;
LOAD:
    and.b32 %phase, %k, 1;
    xor.b32 %other, %phase, 1;
    mad.wide.u32 %d0, %k, 128, %A;
    WAIT [%m+8], %other;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {G2S} [%s], [%d0], 128, [%m];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 4;
    @%p0 bra LOAD;
    bra END;
TRANSFORM:
    and.b32 %phase, %k, 1;
    xor.b32 %other, %phase, 1;
    mad.lo.u32 %r1, %lane, 4, %s;
    mad.lo.u32 %r2, %lane, 4, %u;
    WAIT [%m], %phase;
    ld.shared.b32 %r3, [%r1];
    bar.warp.sync 0xffffffff;
    setp.eq.u32 %p2, %lane, 0;
    @%p2 mbarrier.arrive.shared.b64 _, [%m+8];
    WAIT [%m+24], %other;
    add.u32 %r3, %r3, 1000;
    st.shared.b32 [%r2], %r3;
    fence.proxy.async.shared::cta;
    bar.warp.sync 0xffffffff;
    @%p2 mbarrier.arrive.shared.b64 _, [%m+16];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 4;
    @%p0 bra TRANSFORM;
    bra END;
STORE:
    @!%is64 bra END;
AGAIN:
    and.b32 %phase, %k, 1;
    mad.wide.u32 %d0, %k, 128, %B;
    WAIT [%m+16], %phase;
    {S2G} [%d0], [%u], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    mbarrier.arrive.shared.b64 _, [%m+24];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 4;
    @%p0 bra AGAIN;
    cp.async.bulk.wait_group 0;
END:
    """,
    shared="s:128 u:128 m:32",
    arrays="A:128 B:128",
    block=96,
    gives={"B": lambda i: i + 1001},
)

# ------------------------------------------------------------------------------------------------ as libraries write it

clean(
    "idiom_cooperative_groups_grid_sync",
    "a grid barrier whose counter's top bit flips: the first CTA adds what completes it",
    """
    mov.b32 %k, 0;
LOOP:
    mad.lo.u32 %r3, %cta, 32, %t;
    mad.wide.u32 %d0, %r3, 4, %A;
    st.global.b32 [%d0], %k;
    barrier.cta.sync.aligned 0;
    @!%is0 bra MEET;
    mov.b32 %r0, 1;
    @%c0 mov.b32 %r0, 0x7ffffffe;
    membar.gl;
    atom.global.add.u32 %r1, [%Z], %r0;
POLL:
    ld.volatile.global.b32 %r2, [%Z];
    xor.b32 %r2, %r2, %r1;
    setp.ge.s32 %p0, %r2, 0;
    @%p0 bra POLL;
    membar.gl;
MEET:
    barrier.cta.sync.aligned 0;
    add.u32 %r4, %r3, 32;
    rem.u32 %r4, %r4, 96;
    mad.wide.u32 %d1, %r4, 4, %A;
    ld.global.b32 %r5, [%d1];
    bar.cta.sync 0;
    @!%is0 bra NEXT;
    mov.b32 %r0, 1;
    @%c0 mov.b32 %r0, 0x7ffffffe;
    membar.gl;
    atom.global.add.u32 %r1, [%Z+4], %r0;
POLL2:
    ld.acquire.gpu.global.b32 %r2, [%Z+4];
    xor.b32 %r2, %r2, %r1;
    setp.ge.s32 %p0, %r2, 0;
    @%p0 bra POLL2;
NEXT:
    bar.sync 0;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p1, %k, 3;
    @%p1 bra LOOP;
    mad.wide.u32 %d1, %r3, 4, %B;
    st.global.b32 [%d1], %r5;
    """,
    arrays="A:96 B:96 Z:2",
    grid=3,
    block=32,
    gives={"A": 2, "B": 2},
)
clean(
    "idiom_data_and_flag_in_one_vector",
    "NCCL's low-latency protocol: a volatile vector store of two words and two flags, polled as one vector",
    """
    mov.b32 %r9, 7;
    @%c1 bra TAKE;
    add.u32 %r0, %t, 100;
    add.u32 %r1, %t, 200;
    mad.wide.u32 %d0, %t, 16, %Z;
    st.volatile.global.v4.b32 [%d0], {%r0, %r9, %r1, %r9};
    bra END;
TAKE:
    mad.wide.u32 %d0, %t, 16, %Z;
POLL:
    ld.volatile.global.v4.b32 {%r0, %r2, %r1, %r3}, [%d0];
    setp.ne.u32 %p0, %r2, 7;
    setp.ne.u32 %p1, %r3, 7;
    or.pred %p0, %p0, %p1;
    @%p0 bra POLL;
    add.u32 %r0, %r0, %r1;
    st.global.b32 [%At], %r0;
END:
    """,
    arrays="A:32 Z:128",
    grid=2,
    block=32,
    gives={"A": lambda i: 300 + 2 * i},
)
clean(
    "idiom_semaphore_with_a_barrier_in_its_loop",
    "CUTLASS's semaphore: one thread polls, all threads vote whether to go on",
    """
    mov.b32 %r0, 0xffffffff;
    @%is0 ld.acquire.gpu.global.b32 %r0, [%Z];
WAIT_LOOP:
    setp.ne.u32 %p0, %r0, %cta;
    bar.red.and.pred %p1, 0, %p0;
    @!%p1 bra GO;
    @%is0 ld.acquire.gpu.global.b32 %r0, [%Z];
    bra WAIT_LOOP;
GO:
    ld.global.b32 %r1, [%At];
    mad.lo.u32 %r1, %r1, 3, %cta;
    st.global.b32 [%At], %r1;
    bar.sync 0;
    add.u32 %r2, %cta, 1;
    @%is0 st.release.gpu.global.b32 [%Z], %r2;
    """,
    arrays="A:64=1 Z:1",
    grid=3,
    gives={"A": ((1 * 3 + 0) * 3 + 1) * 3 + 2},
)
clean(
    "idiom_matrix_load_of_two",
    "ldmatrix.x2 takes its rows from lanes 0 to 15: the other lanes' addresses are not used",
    """
    mad.lo.u32 %r0, %t, 16, %s;
    setp.ge.u32 %p0, %t, 16;
    shl.b32 %r1, %t, 16;
    or.b32 %r1, %r1, %t;
    @!%p0 st.shared.v4.b32 [%r0], {%r1, %r1, %r1, %r1};
    @%p0 mov.b32 %r0, 0x7ffff;
    bar.warp.sync 0xffffffff;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r2, %r3}, [%r0];
    st.global.b32 [%At], %r3;
    """,
    shared="s:256",
    arrays="A:32",
    block=32,
    gives={"A": lambda i: (8 + i // 4) * 0x10001},
)
clean(
    "idiom_each_lane_initialises_an_mbarrier",
    "lanes of one warp initialise an mbarrier each",
    """
    setp.lt.u32 %p0, %t, 4;
    mad.lo.u32 %r0, %t, 8, %m;
    @%p0 mbarrier.init.shared.b64 [%r0], 32;
    bar.sync 0;
    and.b32 %r1, %t, 3;
    mov.b32 %k, 0;
LOOP:
    mad.lo.u32 %r2, %k, 8, %m;
    mbarrier.arrive.shared.b64 _, [%r2];
    WAIT [%r2], 0;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p1, %k, 4;
    @%p1 bra LOOP;
    """,
    shared="m:32",
    block=32,
)
clean(
    "idiom_bulk_copy_of_the_cuda_guide",
    "every thread arrives, thread 0 with the bytes behind the copy; tokens; in-place change; a store whose source alone is waited for",
    f"""
    {INIT} [%m], 32;
    @%is0 fence.proxy.async.shared::cta;
    bar.sync 0;
    @%is0 bra ISSUE;
    mbarrier.arrive.shared.b64 %d0, [%m];
    bra MEET;
ISSUE:
    {G2S} [%s], [%A], 128, [%m];
    mbarrier.arrive.expect_tx.shared.b64 %d0, [%m], 128;
MEET:
    mbarrier.try_wait.shared.b64 %p0, [%m], %d0;
    @!%p0 bra MEET;
    ld.shared.b32 %r0, [%st];
    add.u32 %r0, %r0, 1;
    st.shared.b32 [%st], %r0;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%is0 bra END;
    {S2G} [%A], [%s], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
    mbarrier.inval.shared.b64 [%m];
END:
    """,
    shared="s:128 m:8",
    arrays="A:32",
    block=32,
    gives={"A": lambda i: i + 2},
)
clean(
    "idiom_generic_mbarrier_addresses",
    "mbarrier operations and cp.async by generic addresses",
    """
    mov.u64 %d0, m;
    cvta.shared.u64 %d0, %d0;
    @%is0 mbarrier.init.b64 [%d0], 33;
    bar.sync 0;
    @%is0 mbarrier.arrive.b64 _, [%d0];
    cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.mbarrier.arrive.noinc.b64 [%d0];
POLL:
    mbarrier.try_wait.parity.b64 %p0, [%d0], 0;
    @!%p0 bra POLL;
    xor.b32 %r0, %t, 31;
    mad.lo.u32 %r0, %r0, 4, %s;
    ld.shared.b32 %r1, [%r0];
    st.global.b32 [%Bt], %r1;
    """,
    shared="s:128 m:8",
    arrays="A:32 B:32",
    block=32,
    gives={"B": lambda i: 32 - i},
)
clean(
    "idiom_bulk_load_to_shared_cta",
    "the .shared::cta form of a bulk load, with a cache policy",
    f"""
    {INIT} [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @!%is0 bra READ;
    createpolicy.fractional.L2::evict_first.b64 %d1, 1.0;
    mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%m], 128;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%s], [%A], 128, [%m], %d1;
READ:
    WAIT.acquire.cta [%m], 0;
    ld.shared.b32 %r0, [%st];
    st.global.b32 [%Bt], %r0;
    """,
    shared="s:128 m:8",
    arrays="A:32 B:32",
    block=32,
    gives={"B": lambda i: i + 1},
)
clean(
    "idiom_reduction_by_red_async",
    "red.async adds to another CTA's words and completes bytes on its mbarrier",
    f"""
    {INIT} [%m], 1;
    st.shared.b32 [%st], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {SYNC}
    xor.b32 %r3, %rank, 1;
    mapa.shared::cluster.u32 %r0, %s, %r3;
    mapa.shared::cluster.u32 %r1, %m, %r3;
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %t, [%r1];
    WAIT.acquire.cluster [%m], 0;
    ld.shared.b32 %r4, [%s];
    mad.wide.u32 %d0, %rank, 4, %A;
    @%is0 st.global.b32 [%d0], %r4;
    {SYNC}
    """,
    shared="s:128 m:8",
    arrays="A:2",
    **PAIR,
    gives={"A": 497},
)
clean(
    "idiom_end_of_a_cluster_with_a_relaxed_arrival",
    "all data were acknowledged: the last barrier only keeps the CTAs alive",
    f"""
    {INIT} [%m], 32;
    @%is0 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.acquire.aligned;
    xor.b32 %r3, %rank, 1;
    mapa.shared::cluster.u32 %r0, %m, %r3;
    mapa.shared::cluster.u32 %r1, %st, %r3;
    st.shared::cluster.b32 [%r1], %t;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];
    WAIT.acquire.cluster [%m], 0;
    ld.shared.b32 %r4, [%st];
    @%k1 st.global.b32 [%At], %r4;
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.acquire.aligned;
    """,
    shared="s:128 m:8",
    arrays="A:32",
    **PAIR,
    gives={"A": lambda i: i},
)
clean(
    "idiom_pair_of_ctas_with_tensor_memory",
    "cta_group::2: one copy fills the tensor memory of both CTAs of a pair, the commit arrives at both",
    f"""
    {INIT} [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    @%w0 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%h], 32;
    mad.lo.u32 %r9, %rank, 1000, %t;
    st.shared.b32 [%st], %r9;
    fence.proxy.async.shared::cta;
    {SYNC}
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];
    shr.u32 %r1, %s, 4;
    and.b32 %r1, %r1, 0x3fff;
    cvt.u64.u32 %d0, %r1;
    or.b64 %d0, %d0, 0x400800000000;
    mov.b16 %h0, 3;
    setp.eq.and.u32 %p0, %t, 0, %k0;
    @!%p0 bra READ;
    tcgen05.cp.cta_group::2.32x128b.warpx4 [%taddr], %d0;
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%m], %h0;
READ:
    bar.warp.sync 0xffffffff;
    WAIT.acquire.cluster [%m], 0;
    tcgen05.fence::after_thread_sync;
    and.b32 %r2, %t, 96;
    shl.b32 %r2, %r2, 16;
    add.u32 %r2, %r2, %taddr;
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r4, %r5, %r6, %r7}}, [%r2];
    tcgen05.wait::ld.sync.aligned;
    mad.lo.u32 %r3, %rank, 128, %t;
    mad.wide.u32 %d1, %r3, 4, %A;
    st.global.b32 [%d1], %r5;
    tcgen05.fence::before_thread_sync;
    {SYNC}
    tcgen05.fence::after_thread_sync;
    @%w0 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %taddr, 32;
    """,
    shared="s:512@1024 m:8 h:4",
    arrays="A:256",
    grid=2,
    cluster=2,
    block=128,
    target="sm_100a",
    gives={"A": lambda i: 1000 * (i // 128) + 4 * (i % 32) + 1},
)

# ------------------------------------------------------------------------------------------------ what asynchronous copies tell

clean(
    "idiom_one_thread_waits_and_a_barrier_tells_the_others",
    "the issuer waits for its bulk load, bar.sync, all read",
    f"""
    {INIT} [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @!%is0 bra MEET;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 256;
    {G2S} [%s], [%A], 256, [%m];
    WAIT [%m], 0;
MEET:
    bar.sync 0;
    xor.b32 %r1, %t, 63;
    mad.lo.u32 %r1, %r1, 4, %s;
    ld.shared.b32 %r0, [%r1];
    st.global.b32 [%Bt], %r0;
    """,
    shared="s:256 m:8",
    arrays="A:64 B:64",
    gives={"B": lambda i: 64 - i},
)
clean(
    "idiom_cp_async_then_an_ordinary_arrival",
    "each lane waits for its own cp.async, then arrives; the consumer waits for the arrivals",
    f"""
    {INIT} [%m], 32;
    bar.sync 0;
    @%w1 bra READ;
    cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.wait_all;
    mbarrier.arrive.shared.b64 _, [%m];
    bra END;
READ:
    WAIT [%m], 0;
    xor.b32 %r1, %lane, 31;
    mad.lo.u32 %r1, %r1, 4, %s;
    ld.shared.b32 %r0, [%r1];
    mad.wide.u32 %d0, %lane, 4, %B;
    st.global.b32 [%d0], %r0;
END:
    """,
    shared="s:128 m:8",
    arrays="A:32 B:32",
    gives={"B": lambda i: 32 - i},
)
clean(
    "idiom_bulk_store_published_by_a_flag",
    "a bulk store, wait_group 0, a release; another CTA acquires and loads",
    f"""
    @%c1 bra TAKE;
    st.shared.b32 [%st], %t;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%is0 bra END;
    {S2G} [%A], [%s], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    st.release.gpu.global.b32 [%Z], 1;
    bra END;
TAKE:
    SPIN ld.acquire.gpu.global.b32 [%Z], 1;
    ld.global.b32 %r0, [%At];
    st.global.b32 [%Bt], %r0;
END:
    """,
    shared="s:128",
    arrays="A:32 B:32 Z:1",
    grid=2,
    block=32,
    gives={"B": lambda i: i},
)
clean(
    "idiom_semaphore_of_many_ctas",
    "24 CTAs in reverse order: all of them are resident",
    """
    sub.u32 %r9, 23, %cta;
TURN:
    ld.acquire.gpu.global.b32 %r0, [%Z];
    setp.ne.u32 %p0, %r0, %r9;
    @%p0 bra TURN;
    mad.wide.u32 %d0, %r9, 4, %A;
    mov.b32 %r1, %r9;
    add.u32 %r1, %r1, 1;
    st.global.b32 [%d0], %r1;
    add.u32 %r0, %r0, 1;
    st.release.gpu.global.b32 [%Z], %r0;
    """,
    arrays="A:24 Z:1",
    grid=24,
    block=1,
    gives={"A": lambda i: i + 1, "Z": 24},
)
clean(
    "idiom_cluster_exchange_in_rounds",
    "two buffers, one cluster barrier a round: every rank reads its neighbour's value and writes its own next one",
    f"""
    st.shared.b32 [%s], %rank;
    mov.b32 %k, 0;
    add.u32 %r1, %rank, 1;
    and.b32 %r1, %r1, 3;
LOOP:
    {SYNC}
    and.b32 %r2, %k, 1;
    mad.lo.u32 %r3, %r2, 4, %s;
    mapa.shared::cluster.u32 %r4, %r3, %r1;
    ld.shared::cluster.b32 %r5, [%r4];
    xor.b32 %r6, %r3, 4;
    xor.b32 %r2, %r2, 1;
    mad.lo.u32 %r6, %r2, 4, %s;
    st.shared.b32 [%r6], %r5;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 6;
    @%p0 bra LOOP;
    {SYNC}
    mad.wide.u32 %d0, %rank, 4, %A;
    st.global.b32 [%d0], %r5;
    """,
    shared="s:8",
    arrays="A:4",
    grid=4,
    cluster=4,
    block=1,
    gives={"A": lambda i: (i + 6) % 4},
)
clean(
    "idiom_bulk_copies_between_ctas_in_rounds",
    "rank 0 sends four tiles through one buffer; rank 1 gives it back remotely each time",
    f"""{BULK_INIT}
    mapa.shared::cluster.u32 %r0, %d, 1;
    xor.b32 %r3, %rank, 1;
    mapa.shared::cluster.u32 %r1, %m, %r3;
    mov.b32 %k, 0;
    @!%is0 bra END;
    @%k1 bra TAKE;
SEND:
    st.shared.v4.b32 [%s], {{%k, %k, %k, %k}};
    fence.proxy.async.shared::cta;
    {S2S} [%r0], [%s], 16, [%r1];
    and.b32 %phase, %k, 1;
    WAIT.acquire.cluster [%m], %phase;
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 4;
    @%p0 bra SEND;
    bra END;
TAKE:
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 16;
    and.b32 %phase, %k, 1;
    WAIT.acquire.cluster [%m], %phase;
    ld.shared.b32 %r2, [%d+12];
    mad.wide.u32 %d0, %k, 4, %A;
    st.global.b32 [%d0], %r2;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];
    add.u32 %k, %k, 1;
    setp.lt.u32 %p0, %k, 4;
    @%p0 bra TAKE;
END:
    {SYNC}
    """,
    shared="s:16 d:16 m:8",
    arrays="A:4",
    **PAIR,
    gives={"A": lambda i: i},
)

# ------------------------------------------------------------------------------------------------ warps that are not full

clean(
    "idiom_block_of_48_threads",
    "the last warp has 16 lanes: bar.sync, bar.warp.sync with a full mask, a barrier of two warps counted as 64 (PTX ISA 9.7.13.1)",
    """
    st.shared.b32 [%st], %t;
    bar.sync 0;
    ld.shared.b32 %r0, [%s+188];
    bar.warp.sync 0xffffffff;
    bar.sync 1, 64;
    st.shared.b32 [%st], %r0;
    bar.warp.sync 0xffffffff;
    xor.b32 %r1, %t, 1;
    mad.lo.u32 %r1, %r1, 4, %s;
    ld.shared.b32 %r2, [%r1];
    st.global.b32 [%At], %r2;
    """,
    shared="s:192",
    arrays="A:48",
    block=48,
    gives={"A": 47},
)
clean(
    "idiom_flag_in_the_shared_memory_of_another_cta",
    "data and flag stored remotely, a fence of cluster scope between; the owner acquires",
    f"""
    st.shared.b32 [%s+4], 0;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 0;
    @%k0 bra TAKE;
    st.shared::cluster.b32 [%r0], 7;
    fence.acq_rel.cluster;
    st.relaxed.cluster.shared::cluster.b32 [%r0+4], 1;
    bra END;
TAKE:
    SPIN ld.acquire.cluster.shared.b32 [%s+4], 1;
    ld.shared.b32 %r1, [%s];
    st.global.b32 [%A], %r1;
END:
    {SYNC}
    """,
    shared="s:8",
    arrays="A:1",
    grid=2,
    cluster=2,
    block=1,
    gives={"A": 7},
)
clean(
    "idiom_lock_in_the_shared_memory_of_rank_0",
    "all ranks take a lock that lies in one CTA, with cluster scope",
    f"""
    @%k0 st.shared.b32 [%s], 0;
    @%k0 st.shared.b32 [%s+4], 0;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 0;
TAKE:
    atom.acquire.cluster.shared::cluster.cas.b32 %r1, [%r0], 0, 1;
    setp.ne.u32 %p0, %r1, 0;
    @%p0 bra TAKE;
    ld.shared::cluster.b32 %r2, [%r0+4];
    add.u32 %r2, %r2, 1;
    st.shared::cluster.b32 [%r0+4], %r2;
    atom.release.cluster.shared::cluster.exch.b32 %r3, [%r0], 0;
    {SYNC}
    @%k0 ld.shared.b32 %r4, [%s+4];
    @%k0 st.global.b32 [%A], %r4;
    """,
    shared="s:8",
    arrays="A:1",
    grid=4,
    cluster=4,
    block=1,
    gives={"A": 4},
)
