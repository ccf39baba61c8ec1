"""The life of an mbarrier: init, arrivals, bytes, phases, waits, invalidation."""

from .model import fault

LIFE = "an mbarrier is initialised once before use, and no longer used after inval (PTX ISA 9.7.13.15.9, .10)"
COUNT = "counts of an mbarrier (PTX ISA 9.7.13.15.2)"
PHASE = "phases of an mbarrier (PTX ISA 9.7.13.15.4)"
WAITING = "test_wait and try_wait may say no: what they guard needs their yes (PTX ISA 9.7.13.15.16)"
OPAQUE = "a live mbarrier is touched by mbarrier operations alone (PTX ISA 9.7.13.15.1)"
SCOPE = "arrive releases and wait acquires, each in its scope (PTX ISA 9.7.13.15.13, .16)"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
CLUSTER_INIT = f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    {SYNC}
"""
END = f"""
    {SYNC}
"""
PAIR = {"block": 32, "grid": 2, "cluster": 2}

fault(
    "mbarrier_never_initialised",
    LIFE,
    """
+   mbarrier.init.shared.b64 [%m], 1;
    mbarrier.arrive.shared.b64 _, [%m];  // FAULT: mbarrier
    """,
    shared="m:8",
    block=1,
    threads=("0",),
    bytes="m 0:8",
)
fault(
    "mbarrier_waits_on_nothing",
    LIFE,
    """
-   mbarrier.init.shared.b64 [%m+8], 1;
+   mbarrier.init.shared.b64 [%m], 1;
    WAIT [%m], 1;                        // FAULT: mbarrier
    """,
    shared="m:16",
    block=1,
    bytes="m 0:8",
)
fault(
    "mbarrier_initialised_twice",
    LIFE,
    """
    mbarrier.init.shared.b64 [%m], 1;
-   mbarrier.init.shared.b64 [%m], 1;    // FAULT: mbarrier
    mbarrier.arrive.shared.b64 _, [%m];
    """,
    shared="m:8",
    block=1,
    bytes="m 0:8",
)
fault(
    "mbarrier_initialised_by_every_lane",
    LIFE + "; one thread initialises it",
    """
-   mbarrier.init.shared.b64 [%m], 32;   // FAULT: mbarrier|race
+   @%is0 mbarrier.init.shared.b64 [%m], 32;
    bar.sync 0;
    mbarrier.arrive.shared.b64 _, [%m];
    """,
    shared="m:8",
    block=32,
    bytes="m 0:8",
)
fault(
    "mbarrier_used_after_inval",
    LIFE,
    """
    mbarrier.init.shared.b64 [%m], 1;
-   mbarrier.inval.shared.b64 [%m];
    mbarrier.arrive.shared.b64 _, [%m];  // FAULT: mbarrier
    """,
    shared="m:8",
    block=1,
    bytes="m 0:8",
)
fault(
    "mbarrier_inval_of_nothing",
    LIFE,
    """
+   mbarrier.init.shared.b64 [%m], 1;
    mbarrier.inval.shared.b64 [%m];      // FAULT: mbarrier
    """,
    shared="m:8",
    block=1,
)
fault(
    "mbarrier_arrives_before_the_init_is_seen",
    LIFE + "; the init is ordered before the others' use",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;        // FAULT: race
+   bar.sync 0;
    @%is32 mbarrier.arrive.shared.b64 _, [%m];     // FAULT: race|mbarrier
    """,
    shared="m:8",
    threads=("0", "32"),
    bytes="m 0:8",
)
fault(
    "mbarrier_count_of_zero",
    COUNT + ": 1 to 2^20 - 1",
    """
-   mov.b32 %r0, 0;
+   mov.b32 %r0, 1;
    mbarrier.init.shared.b64 [%m], %r0;  // FAULT: mbarrier
    """,
    shared="m:8",
    block=1,
)
fault(
    "mbarrier_count_too_large",
    COUNT + ": 1 to 2^20 - 1",
    """
-   mov.b32 %r0, 1048576;
+   mov.b32 %r0, 1048575;
    mbarrier.init.shared.b64 [%m], %r0;  // FAULT: mbarrier
    """,
    shared="m:8",
    block=1,
    words=("1048576",),
)
fault(
    "mbarrier_misaligned",
    "an mbarrier lies at a multiple of 8 bytes (PTX ISA 9.7.13.15.1)",
    """
-   mbarrier.init.shared.b64 [%m+4], 1;  // FAULT: alignment
+   mbarrier.init.shared.b64 [%m+8], 1;
    """,
    shared="m:16",
    block=1,
)
fault(
    "mbarrier_overruns_its_variable",
    "an mbarrier takes 8 bytes (PTX ISA 9.7.13.15.1)",
    """
-   mbarrier.init.shared.b64 [%m+8], 1;  // FAULT: bounds
+   mbarrier.init.shared.b64 [%m], 1;
    """,
    shared="m:12",
    block=1,
)
fault(
    "mbarrier_too_many_arrivals_at_once",
    COUNT + "; an arrival takes no more than is pending",
    """
    mbarrier.init.shared.b64 [%m], 2;
-   mbarrier.arrive.shared.b64 _, [%m], 3;         // FAULT: mbarrier
+   mbarrier.arrive.shared.b64 _, [%m], 2;
    """,
    shared="m:8",
    block=1,
    bytes="m 0:8",
)
fault(
    "mbarrier_next_phase_with_no_wait_between",
    PHASE + "; a phase is waited for before the next one is arrived at",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @!%is0 bra READ;
    mbarrier.arrive.shared.b64 _, [%m];
+   WAIT [%m], 0;
    mbarrier.arrive.shared.b64 _, [%m];  // FAULT: mbarrier
+   WAIT [%m], 1;
    mbarrier.arrive.shared.b64 _, [%m];
READ:
    @%is32 bra LAST;
    bra END;
LAST:
    WAIT [%m], 0;
END:
    """,
    shared="m:8",
    block=64,
    threads=("0",),
    bytes="m 0:8",
)
fault(
    "mbarrier_three_producers_one_wait",
    COUNT + "; three warps store and arrive, the reader waits for a phase of one arrival",
    """
-   @%is0 mbarrier.init.shared.b64 [%m], 1;
+   @%is0 mbarrier.init.shared.b64 [%m], 3;
    bar.sync 0;
    setp.eq.u32 %p1, %lane, 0;
    @!%p1 bra END;
    @%w3 bra READ;
    st.shared.b32 [%st], 1;              // FAULT: race
    mbarrier.arrive.shared.b64 _, [%m];  // FAULT: mbarrier
    bra END;
READ:
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%s];             // FAULT: race|poison
    ld.shared.b32 %r1, [%s+128];         // FAULT: race|poison
    ld.shared.b32 %r2, [%s+256];         // FAULT: race|poison
END:
    """,
    shared="s:512 m:8",
    block=128,
)
fault(
    "mbarrier_missing_arrival",
    COUNT + "; a phase completes when all have arrived",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 2;
    bar.sync 0;
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
+   @%is1 mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;                        // FAULT: deadlock
    """,
    shared="m:8",
    block=32,
    threads=("0-31",),
    bytes="m 0:8",
    words=("phase 0", "1 of (the )?2 arrivals"),
)
fault(
    "mbarrier_missing_arrivals_of_a_warp",
    COUNT + "; init counts threads, one thread arrives",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 32;
    bar.sync 0;
-   @%is0 mbarrier.arrive.shared.b64 _, [%m];
+   mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;                        // FAULT: deadlock
    """,
    shared="m:8",
    block=32,
    bytes="m 0:8",
    words=("phase 0", "31 of (the )?32 arrivals"),
)
fault(
    "mbarrier_dropped_arrival_is_still_awaited",
    "arrive_drop lowers the count of the phases that follow, not of its own (PTX ISA 9.7.13.15.14)",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 2;
    bar.sync 0;
    @%is1 mbarrier.arrive_drop.shared.b64 _, [%m];
+   @%is0 mbarrier.arrive.shared.b64 _, [%m];
    @%is0 bra GO;
    bra END;
GO:
    WAIT [%m], 0;                        // FAULT: deadlock
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 1;
END:
    """,
    shared="m:8",
    block=32,
    bytes="m 0:8",
    words=("phase 0", "1 of"),
)
fault(
    "mbarrier_no_complete_completes",
    "arrive.noComplete must not complete the phase (PTX ISA 9.7.13.15.13)",
    """
    mbarrier.init.shared.b64 [%m], 2;
-   mbarrier.arrive.noComplete.shared.b64 %d0, [%m], 2;    // FAULT: mbarrier
+   mbarrier.arrive.noComplete.shared.b64 %d0, [%m], 1;
    """,
    shared="m:8",
    block=1,
)
fault(
    "mbarrier_tx_never_completed",
    COUNT + "; the phase waits for its bytes",
    """
    mbarrier.init.shared.b64 [%m], 1;
-   mbarrier.arrive.expect_tx.shared.b64 _, [%m], 64;
+   mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;                        // FAULT: deadlock
    """,
    shared="m:8",
    block=1,
    bytes="m 0:8",
    words=("phase 0", "64 bytes"),
)
fault(
    "mbarrier_tx_over_the_limit",
    COUNT + "; tx-count is within 2^20 - 1",
    """
    mbarrier.init.shared.b64 [%m], 1;
-   mov.b32 %r0, 1048576;
+   mov.b32 %r0, 1048575;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%m], %r0;      // FAULT: mbarrier
    """,
    shared="m:8",
    block=1,
    words=("1048576|1048575",),
)
fault(
    "mbarrier_expect_without_arrive",
    "expect_tx alone is no arrival (PTX ISA 9.7.13.15.11)",
    """
    mbarrier.init.shared.b64 [%m], 1;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%m], 16;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%m], 16;
+   mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;                        // FAULT: deadlock
    """,
    shared="m:8",
    block=1,
    bytes="m 0:8",
    words=("phase 0", "1 of (the )?1 arrival"),
)
fault(
    "mbarrier_complete_tx_of_too_little",
    COUNT + "; bytes that were expected and do not come",
    """
    mbarrier.init.shared.b64 [%m], 1;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 64;
-   mbarrier.complete_tx.shared::cta.b64 [%m], 48;
+   mbarrier.complete_tx.shared::cta.b64 [%m], 64;
    WAIT [%m], 0;                        // FAULT: deadlock
    """,
    shared="m:8",
    block=1,
    words=("phase 0", "16 bytes"),
)
fault(
    "mbarrier_wrong_parity_passes_at_once",
    PHASE + "; parity 1 of a fresh mbarrier is true",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @%is0 st.shared.b32 [%s], 5;         // FAULT: race
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
    @!%is32 bra END;
-   WAIT [%m], 1;                        // FAULT: deadlock
+   WAIT [%m], 0;
    ld.shared.b32 %r0, [%s];             // FAULT: race|poison
END:
    """,
    shared="s:16 m:8",
    threads=("32",),
)
fault(
    "mbarrier_wrong_parity_waits_for_ever",
    PHASE + "; the parity of a phase that nobody completes",
    """
    mbarrier.init.shared.b64 [%m], 1;
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m], 0;
-   WAIT [%m], 1;                        // FAULT: deadlock
    """,
    shared="m:8",
    block=1,
    bytes="m 0:8",
    words=("phase 1",),
)
fault(
    "mbarrier_one_try_wait_without_a_loop",
    WAITING,
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @%is0 st.shared.b32 [%s], 5;         // FAULT: race
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
    @!%is32 bra END;
-   mbarrier.try_wait.parity.shared.b64 %p0, [%m], 0;
+   WAIT [%m], 0;
    ld.shared.b32 %r0, [%s];             // FAULT: race|poison
END:
    """,
    shared="s:16 m:8",
    threads=("32",),
    bytes="s 0:4",
)
fault(
    "mbarrier_one_test_wait_without_a_loop",
    WAITING,
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @%is0 st.shared.b32 [%s], 5;         // FAULT: race
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
    @!%is32 bra END;
+AGAIN:
    mbarrier.test_wait.parity.shared.b64 %p0, [%m], 0;
+   @!%p0 bra AGAIN;
    ld.shared.b32 %r0, [%s];             // FAULT: race|poison
END:
    """,
    shared="s:16 m:8",
    threads=("32",),
    bytes="s 0:4",
)
fault(
    "mbarrier_ordinary_load",
    OPAQUE,
    """
    mbarrier.init.shared.b64 [%m], 1;
-   ld.shared.b64 %d0, [%m];             // FAULT: mbarrier
+   mbarrier.arrive.shared.b64 %d0, [%m];
    """,
    shared="m:8",
    block=1,
    bytes="m 0:8",
)
fault(
    "mbarrier_ordinary_store",
    OPAQUE,
    """
    mbarrier.init.shared.b64 [%m], 1;
+   mbarrier.inval.shared.b64 [%m];
    st.shared.b32 [%m+4], 0;             // FAULT: mbarrier
    """,
    shared="m:8",
    block=1,
    bytes="m 4:8",
)
fault(
    "mbarrier_ordinary_atomic",
    OPAQUE,
    """
    mbarrier.init.shared.b64 [%m], 1;
-   atom.shared.add.u32 %r0, [%m], 1;    // FAULT: mbarrier
+   mbarrier.arrive.shared.b64 _, [%m];
    """,
    shared="m:8",
    block=1,
    bytes="m 0:8",
)
fault(
    "mbarrier_copied_over_by_cp_async",
    OPAQUE,
    """
    mbarrier.init.shared.b64 [%m], 1;
-   cp.async.ca.shared.global [%m], [%A], 16;      // FAULT: mbarrier
+   cp.async.ca.shared.global [%m+16], [%A], 16;
    cp.async.wait_all;
    """,
    shared="m:32",
    block=1,
    bytes="m 0:8",
)
fault(
    "mbarrier_relaxed_arrive",
    SCOPE + "; .relaxed publishes nothing",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @%is0 st.shared.b32 [%s], 5;         // FAULT: race
-   @%is0 mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%m];
+   @%is0 mbarrier.arrive.release.cta.shared::cta.b64 _, [%m];
    @!%is32 bra END;
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%s];             // FAULT: race
END:
    """,
    shared="s:16 m:8",
    threads=("0", "32"),
    bytes="s 0:4",
)
fault(
    "mbarrier_relaxed_wait",
    SCOPE + "; .relaxed acquires nothing",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @%is0 st.shared.b32 [%s], 5;         // FAULT: race
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
    @!%is32 bra END;
-   WAIT.relaxed.cta [%m], 0;
+   WAIT.acquire.cta [%m], 0;
    ld.shared.b32 %r0, [%s];             // FAULT: race
END:
    """,
    shared="s:16 m:8",
    threads=("0", "32"),
    bytes="s 0:4",
)
fault(
    "mbarrier_store_after_the_arrive",
    SCOPE + "; what follows the arrival is not published by it",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @!%is0 bra READ;
+   st.shared.b32 [%s], 5;
    mbarrier.arrive.shared.b64 _, [%m];
-   st.shared.b32 [%s], 5;               // FAULT: race
READ:
    @!%is32 bra END;
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%s];             // FAULT: race|poison
END:
    """,
    shared="s:16 m:8",
    threads=("32",),
    bytes="s 0:4",
)
fault(
    "mbarrier_another_thread_arrives_for_the_writer",
    SCOPE + "; the arriving thread knows nothing of the writer",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @%w1 bra READ;
    st.shared.b32 [%st], 5;              // FAULT: race
+   bar.warp.sync 0xffffffff;
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
READ:
    @!%is32 bra END;
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%s+40];          // FAULT: race|poison
END:
    """,
    shared="s:128 m:8",
    threads=("10", "32"),
    bytes="s 40:44",
)
fault(
    "mbarrier_only_one_lane_waits",
    SCOPE + "; the waiting lane knows, its warp does not",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @%is0 st.shared.b32 [%s], 5;         // FAULT: race
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
    @%w0 bra END;
    @!%is32 bra ALL;
    WAIT [%m], 0;
ALL:
+   bar.warp.sync 0xffffffff;
    ld.shared.b32 %r0, [%s];             // FAULT: race|poison
END:
    """,
    shared="s:16 m:8",
    threads=("33-63",),
    bytes="s 0:4",
)
fault(
    "mbarrier_stage_is_refilled_before_its_release",
    PHASE + "; the producer of a ring waits for empty",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 mbarrier.init.shared.b64 [%m+8], 1;
    bar.sync 0;
    mov.b32 %r0, 0;
    @%is0 bra PRODUCE;
    @%is32 bra CONSUME;
    bra END;
PRODUCE:
    setp.eq.u32 %p0, %r0, 0;
    and.b32 %r1, %r0, 1;
    xor.b32 %r2, %r1, 1;
+   @%p0 bra FILL;
+   WAIT [%m+8], %r2;
+FILL:
    st.shared.b32 [%s], %r0;             // FAULT: race
    mbarrier.arrive.shared.b64 _, [%m];  // FAULT: mbarrier
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p1, %r0, 4;
    @%p1 bra PRODUCE;
    bra END;
CONSUME:
    and.b32 %r1, %r0, 1;
    WAIT [%m], %r1;
    ld.shared.b32 %r3, [%s];             // FAULT: race
    mbarrier.arrive.shared.b64 _, [%m+8];
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p1, %r0, 4;
    @%p1 bra CONSUME;
END:
    """,
    shared="s:16 m:16",
    threads=("0",),
)
fault(
    "mbarrier_released_before_the_last_read",
    SCOPE + "; the consumer gives the stage back and reads once more",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 mbarrier.init.shared.b64 [%m+8], 1;
    bar.sync 0;
    @%is0 bra PRODUCE;
    @%is32 bra CONSUME;
    bra END;
PRODUCE:
    st.shared.b32 [%s], 1;
    mbarrier.arrive.shared.b64 _, [%m];
    WAIT [%m+8], 0;
    st.shared.b32 [%s], 2;               // FAULT: race
    mbarrier.arrive.shared.b64 _, [%m];
    bra END;
CONSUME:
    WAIT [%m], 0;
+   ld.shared.b32 %r3, [%s];
    mbarrier.arrive.shared.b64 _, [%m+8];
-   ld.shared.b32 %r3, [%s];             // FAULT: race
    WAIT [%m], 1;
END:
    """,
    shared="s:16 m:16",
    threads=("0", "32"),
    bytes="s 0:4",
)
fault(
    "mbarrier_token_of_an_old_phase",
    "a token is of the current or the preceding phase (PTX ISA 9.7.13.15.16)",
    """
    mbarrier.init.shared.b64 [%m], 1;
    mbarrier.arrive.shared.b64 %d0, [%m];
    WAIT [%m], 0;
    mbarrier.arrive.shared.b64 %d1, [%m];
    WAIT [%m], 1;
-   mbarrier.test_wait.shared.b64 %p0, [%m], %d0;  // FAULT: mbarrier
+   mbarrier.test_wait.shared.b64 %p0, [%m], %d1;
    """,
    shared="m:8",
    block=1,
    bytes="m 0:8",
)
fault(
    "mbarrier_token_that_is_none",
    "the state operand is what arrive gave (PTX ISA 9.7.13.15.16)",
    """
    mbarrier.init.shared.b64 [%m], 1;
    mbarrier.arrive.shared.b64 %d0, [%m];
-   mov.b64 %d0, 12345;
    mbarrier.test_wait.shared.b64 %p0, [%m], %d0;  // FAULT: mbarrier
    """,
    shared="m:8",
    block=1,
)

# ------------------------------------------------------------------------------------------------ remote

fault(
    "mbarrier_remote_arrive_without_mapping",
    "the own address is the own mbarrier: mapa names another CTA's (PTX ISA 9.7.9.24)",
    f"""{CLUSTER_INIT}
-   mov.b32 %r0, %m;
+   mapa.shared::cluster.u32 %r0, %m, 0;
    setp.eq.and.u32 %p0, %t, 0, %k1;
    @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];
    @%k1 bra END;
    WAIT.acquire.cluster [%m], 0;        // FAULT: deadlock
END:
    {SYNC}
    """,
    shared="m:8",
    bytes="m 0:8",
    words=("phase 0", "1 of (the )?1 arrival"),
    **PAIR,
)
fault(
    "mbarrier_remote_before_its_init",
    "a remote mbarrier is used after its CTA's init, fence.mbarrier_init and a cluster barrier (PTX ISA 9.7.13.4)",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
+   {SYNC}
    xor.b32 %r1, %rank, 1;
    mapa.shared::cluster.u32 %r0, %m, %r1;
    @%is0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];    // FAULT: mbarrier|race|lifetime
    {SYNC}
    """,
    shared="m:8",
    **PAIR,
)
fault(
    "mbarrier_remote_init_not_fenced",
    "barrier.cluster.arrive.relaxed publishes an init only after fence.mbarrier_init (PTX ISA 9.7.13.4)",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
+   @%is0 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.acquire.aligned;
    xor.b32 %r1, %rank, 1;
    mapa.shared::cluster.u32 %r0, %m, %r1;
    @%is0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];    // FAULT: mbarrier|race
    {SYNC}
    """,
    shared="m:8",
    **PAIR,
)
fault(
    "mbarrier_remote_arrive_of_cta_scope",
    SCOPE + "; a signal to another CTA needs .cluster on both sides",
    f"""{CLUSTER_INIT}
    mapa.shared::cluster.u32 %r0, %m, 0;
    mapa.shared::cluster.u32 %r1, %s, 0;
    setp.eq.and.u32 %p0, %t, 0, %k1;
    @%p0 st.shared::cluster.b32 [%r1], 5;          // FAULT: race
-   @%p0 mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r0];
+   @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];
    setp.eq.and.u32 %p0, %t, 3, %k0;
    @!%p0 bra END;
    WAIT.acquire.cluster [%m], 0;
    ld.shared.b32 %r2, [%s];             // FAULT: race
END:
    {SYNC}
    """,
    shared="s:16 m:8",
    threads=("0@1", "3@0"),
    bytes="s 0:4",
    words=("scope",),
    **PAIR,
)
fault(
    "mbarrier_wait_of_cta_scope",
    SCOPE + "; a signal from another CTA needs .cluster on both sides",
    f"""{CLUSTER_INIT}
    mapa.shared::cluster.u32 %r0, %m, 0;
    mapa.shared::cluster.u32 %r1, %s, 0;
    setp.eq.and.u32 %p0, %t, 0, %k1;
    @%p0 st.shared::cluster.b32 [%r1], 5;          // FAULT: race
    @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];
    setp.eq.and.u32 %p0, %t, 3, %k0;
    @!%p0 bra END;
-   WAIT.acquire.cta [%m], 0;
+   WAIT.acquire.cluster [%m], 0;
    ld.shared.b32 %r2, [%s];             // FAULT: race
END:
    {SYNC}
    """,
    shared="s:16 m:8",
    threads=("0@1", "3@0"),
    bytes="s 0:4",
    words=("scope",),
    **PAIR,
)
fault(
    "mbarrier_wait_from_another_cta",
    "a CTA waits on its own mbarriers alone (PTX ISA 9.7.13.15.16)",
    f"""{CLUSTER_INIT}
    mapa.shared::cluster.u32 %r0, %m, 0;
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
    @%k0 bra END;
-   WAIT [%r0], 0;                       // FAULT: window
+   WAIT [%m], 0;
END:
    {SYNC}
    """,
    shared="m:8",
    threads=("0-31@1",),
    **PAIR,
)
fault(
    "mbarrier_remote_arrive_after_its_cta_is_gone",
    "a CTA must not exit while others still use its shared memory (PTX ISA 2.2.2)",
    f"""{CLUSTER_INIT}
    mapa.shared::cluster.u32 %r0, %m, 0;
    setp.eq.and.u32 %p0, %t, 0, %k1;
    @%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r0];     // FAULT: lifetime
+   {SYNC}
    """,
    shared="m:8",
    threads=("0@1",),
    **PAIR,
)
