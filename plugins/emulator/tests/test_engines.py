"""What asynchronous operations use until somebody knows that they are complete, whatever completes first and whoever waits for something else."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tilecopy import HazardError
from tilecopy_emulator.machine.engines import Engines
from tilecopy_test_helpers.corpus.model import LATE, Case
from tilecopy_test_helpers.corpus.runner import run, verdict

G2S = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
S2S = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
S2G = "cp.async.bulk.global.shared::cta.bulk_group"
ADD = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
RED = "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32"
REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
RULE = "an asynchronous operation is complete when its mbarrier or group says so (PTX ISA 9.7.9.25.4)"
INIT = """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 mbarrier.init.shared.b64 [%m+8], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""
OTHER = f"""
    @%is40 mbarrier.arrive.expect_tx.shared.b64 _, [%m+8], 128;
    @%is40 {G2S} [%s+128], [%B], 128, [%m+8];
"""
"""Another copy, of another thread, that may complete later."""
FILLED = "    st.shared.b32 [%st], %t;\n    fence.proxy.async;\n    bar.sync 0;\n"
GROUP = "    @%is0 cp.async.bulk.commit_group;\n"


def case(name: str, body: str, **more: Any) -> Case:
    known: dict[str, Any] = {"shared": "s:256 m:16", "arrays": "A:64 B:64", "block": 64}
    return Case(name=name, rule=RULE, body=body, **(known | more))


CASES = [
    case(
        "source_of_a_load_overwritten_by_a_thread_that_did_not_wait",
        INIT
        + f"""
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    @%is0 {G2S} [%s], [%A], 128, [%m];
{OTHER}
    @!%is40 bra NEXT;
    WAIT [%m+8], 0;
+   WAIT [%m], 0;
    st.global.b32 [%A+8], 0;             // FAULT: race|async
NEXT:
    WAIT [%m], 0;
""",
        threads=("40",),
        bytes="A 8:12",
    ),
    case(
        "source_of_a_load_overwritten_by_another_cta",
        INIT
        + f"""
    @%c1 bra OTHER;
    @!%is0 bra NEXT;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {G2S} [%s], [%A], 128, [%m];         // FAULT: proxy
    WAIT [%m], 0;
NEXT:
+   bar.sync 0;
+   @%is0 st.release.gpu.global.b32 [%B], 7;
    bra END;
OTHER:
    @!%is40 bra END;
+   SPIN ld.acquire.gpu.global.b32 [%B], 7;
    st.global.b32 [%A+8], 0;             // FAULT: race|async
END:
""",
        grid=2,
        threads=("40@1",),
        bytes="A 8:12",
    ),
    case(
        "source_of_cp_async_overwritten_after_a_barrier_before_its_wait",
        """
    @%is0 cp.async.ca.shared.global [%s], [%A+8], 4;
-   bar.sync 0;
    @!%is0 bra NEXT;
    cp.async.wait_all;
NEXT:
+   bar.sync 0;
    @%is40 st.global.b32 [%A+8], 0;      // FAULT: race|async
""",
        threads=("40",),
        bytes="A 8:12",
    ),
    case(
        "source_of_cp_async_that_an_mbarrier_tracks",
        INIT
        + """
    @%is0 cp.async.ca.shared.global [%s], [%A+8], 4;
    @%is0 cp.async.mbarrier.arrive.noinc.shared.b64 [%m];
    @%is40 cp.async.ca.shared.global [%s+128], [%B+8], 4;
    @%is40 cp.async.mbarrier.arrive.noinc.shared.b64 [%m+8];
    @!%is40 bra NEXT;
    WAIT [%m+8], 0;
+   WAIT [%m], 0;
    st.global.b32 [%A+8], 0;             // FAULT: race|async
NEXT:
    WAIT [%m], 0;
""",
        threads=("40",),
        bytes="A 8:12",
    ),
    case(
        "source_of_a_copy_between_ctas_overwritten_after_a_wait_for_another_copy",
        INIT
        + f"""
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 1;
    mapa.shared::cluster.u32 %r1, %m, 1;
    @%k1 bra RECEIVE;
    @!%is0 bra END;
    st.shared.v4.b32 [%s+64], {{1, 2, 3, 4}};
    fence.proxy.async.shared::cta;
    {S2S} [%r0], [%s+64], 16, [%r1];
    mbarrier.arrive.expect_tx.shared.b64 _, [%m+8], 64;
    {G2S} [%s+128], [%A], 64, [%m+8];
    WAIT [%m+8], 0;
+   WAIT.acquire.cluster [%m], 0;
    st.shared.b32 [%s+72], 0;            // FAULT: async|race
    bra END;
RECEIVE:
    @!%is0 bra END;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 16;
    WAIT [%m], 0;
    mapa.shared::cluster.u32 %r2, %m, 0;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
END:
    {SYNC}
""",
        grid=2,
        cluster=2,
        block=32,
        threads=("0@0",),
        bytes="s 72:76",
    ),
    case(
        "exit_with_a_copy_that_nobody_waited_for",
        INIT
        + f"""
    @!%is0 bra NEXT;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m+8], 128;
    {G2S} [%s], [%A], 128, [%m];         // FAULT: lifetime
    {G2S} [%s+128], [%A], 128, [%m+8];
NEXT:
    WAIT [%m+8], 0;
-   @%c1 bra LAST;
    WAIT [%m], 0;
LAST:
""",
        grid=3,
        threads=("0@1",),
    ),
    case(
        "exit_with_a_tracked_cp_async_that_nobody_waited_for",
        INIT
        + """
    @!%is0 bra NEXT;
    cp.async.ca.shared.global [%s], [%A+8], 4; // FAULT: lifetime
    cp.async.mbarrier.arrive.noinc.shared.b64 [%m];
NEXT:
+   WAIT [%m], 0;
    @%c1 bra LAST;
LAST:
""",
        grid=3,
    ),
    case(
        "a_write_in_flight_of_a_cta_that_has_exited",
        FILLED
        + f"""
    @!%c0 bra OTHERS;
    @%is0 {S2G} [%A], [%s], 128;
    @%is0 cp.async.bulk.commit_group;
    @%is0 cp.async.bulk.wait_group.read 0;
    bra END;
OTHERS:
-   @%c39999 ld.global.b32 %r0, [%A+8]; // FAULT: async
END:
""",
        grid=40_000,
        block=32,
        threads=("0",),
        bytes="A 8:12",
    ),
    case(
        "two_atomics_after_a_copy_and_one_did_not_wait",
        INIT
        + f"""
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    @%is0 {G2S} [%s], [%A], 128, [%m];
{OTHER}
    @!%is40 bra NEXT;
    WAIT [%m+8], 0;
+   WAIT [%m], 0;
    bra ADD;
NEXT:
    WAIT [%m], 0;
ADD:
    @%is0 red.shared.add.u32 [%s], 1;
    @%is40 red.shared.add.u32 [%s], 1;   // FAULT: race|async
""",
        threads=("40",),
        bytes="s 0:4",
    ),
    case(
        "a_phase_that_bytes_of_the_next_one_may_complete",
        INIT
        + f"""
    @!%is0 bra NEXT;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {G2S} [%s], [%A], 128, [%m];         // FAULT: mbarrier
-   {G2S} [%s+128], [%B], 128, [%m];
    WAIT [%m], 0;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
+   {G2S} [%s+128], [%B], 128, [%m];
    WAIT [%m], 1;
NEXT:
""",
    ),
    case(
        "bytes_are_expected_when_the_phase_may_be_complete",
        INIT
        + f"""
    @!%is0 bra NEXT;
-   mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
+   mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%m], 128;
    {G2S} [%s], [%A], 128, [%m];
-   mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%m], 128; // FAULT: mbarrier
+   mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {G2S} [%s+128], [%B], 128, [%m];
    WAIT [%m], 0;
NEXT:
""",
    ),
    case(
        "source_of_a_group_overwritten_by_another_thread",
        FILLED
        + f"    @%is0 {S2G} [%A], [%s], 128;\n{GROUP}"
        + """    @%is0 cp.async.bulk.wait_group.read 0;
+   bar.sync 0;
    @%is40 st.shared.b32 [%s+8], 0;      // FAULT: race|async
""",
        threads=("40",),
        bytes="s 8:12",
    ),
    case(
        "source_of_the_newer_of_two_groups_overwritten",
        FILLED
        + f"    @%is0 {S2G} [%A], [%s], 128;\n{GROUP}    @%is0 {S2G} [%B], [%s+128], 128;\n{GROUP}"
        + """-   @%is0 cp.async.bulk.wait_group.read 1;
+   @%is0 cp.async.bulk.wait_group.read 0;
    @%is0 st.shared.b32 [%s+136], 0;     // FAULT: async
    @%is0 cp.async.bulk.wait_group 0;
""",
        threads=("0",),
        bytes="s 136:140",
    ),
    case(
        "a_wait_for_an_mbarrier_says_nothing_of_a_group",
        INIT
        + FILLED
        + f"    @%is0 {S2G} [%A], [%s], 128;\n{GROUP}"
        + f"""
    @!%is0 bra NEXT;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {G2S} [%s+128], [%B], 128, [%m];
    WAIT [%m], 0;
+   cp.async.bulk.wait_group.read 0;
    st.shared.b32 [%s+8], 0;             // FAULT: async
    cp.async.bulk.wait_group 0;
NEXT:
""",
        threads=("0",),
        bytes="s 8:12",
    ),
    case(
        "a_wait_for_the_reads_says_nothing_of_the_writes",
        FILLED
        + f"    @%is0 {S2G} [%A], [%s], 128;\n{GROUP}"
        + """-   @%is0 cp.async.bulk.wait_group.read 0;
+   @%is0 cp.async.bulk.wait_group 0;
    @%is0 ld.global.b32 %r0, [%A+8];     // FAULT: async
    @%is0 st.global.b32 [%B+128], %r0;
    @%is0 cp.async.bulk.wait_group 0;
""",
        threads=("0",),
        bytes="A 8:12",
    ),
    case(
        "a_reduction_into_what_another_thread_still_reads",
        FILLED
        + """
    @%is40 ld.global.b32 %r0, [%A+8];    // FAULT: race
    @%is40 st.global.b32 [%B+8], %r0;
+   bar.sync 0;
"""
        + f"    @%is0 {REDUCE} [%A], [%s], 128;  // FAULT: race\n{GROUP}    @%is0 cp.async.bulk.wait_group 0;\n",
        threads=("0", "40"),
        bytes="A 8:12",
    ),
    case(
        "the_sum_of_two_reductions_read_after_one_of_them",
        FILLED
        + f"""
    @%is0 {REDUCE} [%A], [%s], 128;
    @%is32 {REDUCE} [%A], [%s+128], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
+   bar.sync 0;
    @%is32 ld.global.b32 %r0, [%A+8];    // FAULT: race|async
    @%is32 st.global.b32 [%B+128], %r0;
""",
        threads=("32",),
        bytes="A 8:12",
    ),
    case(
        "the_sum_of_two_ctas_read_after_one_of_them",
        INIT
        + FILLED
        + f"""
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 0;
    mapa.shared::cluster.u32 %r1, %m, 0;
    add.u32 %r2, %r1, 8;
    @%k0 bra RECEIVE;
    @!%is0 bra END;
    @%k1 {ADD} [%r0], [%s], 128, [%r1];
    @%k2 {ADD} [%r0], [%s+128], 128, [%r2];
    bra END;
RECEIVE:
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m+8], 128;
+   WAIT [%m+8], 0;
    WAIT [%m], 0;
    ld.shared.b32 %r3, [%st];            // FAULT: race|async
    st.global.b32 [%At], %r3;
    WAIT [%m+8], 0;
END:
    {SYNC}
""",
        grid=3,
        cluster=3,
        gives={"A": lambda i: i + (i < 32) * (2 * i + 32)},
    ),
    case(
        "a_reduction_into_what_its_receiver_still_reads",
        INIT
        + f"""
    @%is0 st.shared.b32 [%s], 5;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 0;
    mapa.shared::cluster.u32 %r1, %m, 0;
    add.u32 %r2, %r1, 8;
    mov.b32 %r3, 7;
    @%k0 bra RECEIVE;
    @%is0 {RED} [%r0], %r3, [%r1];
+   {SYNC}
    @%is0 {RED} [%r0], %r3, [%r2];       // FAULT: race
    bra END;
RECEIVE:
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 4;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m+8], 4;
    WAIT [%m], 0;
    ld.shared.b32 %r4, [%s];             // FAULT: race|async
    st.global.b32 [%At], %r4;
+   {SYNC}
    WAIT [%m+8], 0;
END:
    {SYNC}
""",
        grid=2,
        cluster=2,
        gives={"A": lambda i: 0 * i + 12},
    ),
]


def schedules(each: Case) -> list[str]:
    if each.grid == 1:
        return ["", *(late for late in LATE if late.startswith("warp") and each.block != 32)]
    return ["", *(late for late in LATE if late.startswith("CTA") and each.grid in (2, 3, 4))]


NAMED = [pytest.param(each, late, id=f"{each.name} {late}") for each in CASES for late in schedules(each)]


@pytest.mark.parametrize(("each", "late"), NAMED)
def test_what_nobody_waited_for_is_told(each: Case, late: str) -> None:
    problem = verdict(each, each.faulty(late))
    assert not problem, problem


@pytest.mark.parametrize(("each", "late"), NAMED)
def test_what_was_waited_for_is_clean(each: Case, late: str) -> None:
    each.check(run(each, each.correct(late)))


SUM = case(
    "sums_of_many_ctas",
    f"""{FILLED}    @%is0 {REDUCE} [%A], [%s], 128;
    @%is0 {REDUCE} [%A+64], [%s], 64;
{GROUP}    @%is0 cp.async.bulk.wait_group 0;
    @%is0 red.release.gpu.global.add.u32 [%Z], 1;
    @!%is0 bra END;
    SPIN ld.acquire.gpu.global.b32 [%Z], 4;
    ld.global.b32 %r0, [%A+8];
    @%c3 st.global.b32 [%B], %r0;
END:
""",
    arrays="A:32 B:1 Z:1",
    grid=4,
    gives={"B": 11, "A": lambda i: i + 1 + 4 * (i + (i > 15) * (i - 16))},
)


@pytest.mark.parametrize("late", schedules(SUM))
def test_reductions_may_meet(late: str) -> None:
    SUM.check(run(SUM, SUM.correct(late)))


THREADS = [(rank, thread) for rank in (0, 1) for thread in (0, 40)]


def drawn(rng: random.Random) -> Case:
    """Two threads of each of two CTAs copy, add, wait, read and write at random; each mbarrier completes once."""
    steps: dict[tuple[int, int], list[str]] = {each: [] for each in THREADS}
    free, waited, expected = {0: [0, 1], 1: [0, 1]}, {0: [2, 3], 1: [2, 3]}, ""
    sent, both = {0: [2, 3], 1: [2, 3]}, []
    for _ in range(rng.randint(4, 11)):
        who = rng.choice(THREADS)
        own, other, take = who[0], 1 - who[0], steps[who].append
        here, there, array = rng.randrange(3) * 128, rng.randrange(3) * 128, rng.choice(("%A", "%A+128", "%B"))
        kind = rng.choice(["load", *["send"] * 3, *["wait"] * 3, *["access"] * 3, "meet", "group", "done"])
        if kind == "load" and free[own]:
            at = 8 * free[own].pop()
            waited[own].append(at // 8)
            take(f"mbarrier.arrive.expect_tx.shared.b64 _, [%m+{at}], 64; {G2S} [%s+{here}], [{array}], 64, [%m+{at}];")
        elif kind == "send" and sent[other]:
            at = 8 * sent[other].pop()
            form = rng.choice((S2S, ADD, RED))
            values = "%t" if form is RED else f"[%s+{there}], 64"
            take(f"{form} [%r10+{here}], {values}, [%r11+{at}];")
            expected += f"    setp.eq.and.u32 %p7, %t, 0, %k{other};\n"
            expected += f"    @%p7 mbarrier.arrive.expect_tx.shared.b64 _, [%m+{at}], {4 if form is RED else 64};\n"
        elif kind == "wait":
            at = rng.choice([each for each in waited[own] if each not in sent[own]] or [-1])
            take(f"WAIT [%m+{8 * at}], 0;" if at >= 0 else "")
        elif kind == "access":
            word = 4 * rng.randrange(16)
            take(rng.choice((f"st.global.b32 [{array[:2]}+{word}], 5;", f"st.shared.b32 [%s+{here + word}], 5;",
                             f"ld.shared.b32 %r1, [%s+{here + word}]; add.u32 %r2, %r1, 1;", f"red.shared.add.u32 [%s+{here}], 1;")))  # fmt: skip
        elif kind == "group":
            take(f"{rng.choice((S2G, REDUCE))} [{array}], [%s+{here}], 64; cp.async.bulk.commit_group;")
        elif kind == "done":
            take(f"cp.async.bulk.wait_group{rng.choice(('', '.read'))} 0;")
        elif kind == "meet":
            both.append(rng.choice(("barrier.sync 0;", "barrier.cluster.arrive; barrier.cluster.wait;")))
            for each in steps.values():
                each.append(both[-1])
    body = INIT + FILLED + expected + f"    {SYNC}\n    setp.eq.u32 %p8, %rank, 0;\n    selp.b32 %r9, 1, 0, %p8;\n"
    body += "    mapa.shared::cluster.u32 %r10, %s, %r9;\n    mapa.shared::cluster.u32 %r11, %m, %r9;\n"
    for rank, thread in THREADS:
        body += f"    setp.eq.and.u32 %p7, %t, {thread}, %k{rank};\n    @%p7 bra T{rank}_{thread};\n"
    body += "\n".join([*both, "bra END;\n"])
    patient = rng.random() < 0.8
    for (rank, thread), lines in steps.items():
        ends = [f"WAIT [%m+{8 * at}], 0;" for at in waited[rank] if at not in sent[rank] and patient and not thread]
        body += "\n".join([f"T{rank}_{thread}:", *lines, "cp.async.bulk.wait_group 0;", *ends, "bra END;\n"])
    body = body.replace("    bar.sync 0;\n" + FILLED, MORE + FILLED) + "END:\n" + rng.choice((f"    {SYNC}\n", ""))
    return case("drawn", body, shared="s:512 m:32", grid=2, cluster=2)


MORE = """    @%is0 mbarrier.init.shared.b64 [%m+16], 1;
    @%is0 mbarrier.init.shared.b64 [%m+24], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    st.shared.b32 [%st+256], %t;
    bar.sync 0;
"""


def told(program: Case) -> str:
    """The kind of hazard, or nothing."""
    try:
        run(program, program.correct())
    except HazardError as error:
        return error.kind
    return ""


def test_what_is_told_does_not_depend_on_which_operation_lands_first(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [drawn(random.Random(seed)) for seed in range(150)]
    oldest = [told(each) for each in programs]
    assert {"", "async", "race", "lifetime", "proxy"} <= set(oldest)
    assert oldest.count("") > 20
    land = Engines.complete_oldest

    def land_newest(engines: Engines) -> bool:
        engines.pending = engines.pending[-1:] + engines.pending[:-1]
        return land(engines)

    monkeypatch.setattr(Engines, "complete_oldest", land_newest)
    for number, each in enumerate(programs):
        assert bool(told(each)) == bool(oldest[number]), (number, oldest[number], told(each))
