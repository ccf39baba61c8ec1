"""Asynchronous copies: cp.async, bulk copies between CTAs, from and to global memory."""

from .model import clean, fault

CP = "cp.async: its bytes may be touched after a wait that covers it (PTX ISA 9.7.9.25.3)"
OTHERS = "a wait tells the issuing thread alone; others need a barrier after it (PTX ISA 9.7.9.25.3.3)"
BULK = "a bulk copy is complete when its mbarrier or bulk group says so (PTX ISA 9.7.9.25.4)"
PROXY = "generic accesses and the async proxy are ordered by fence.proxy.async (PTX ISA 9.7.9.25.2, 8.2.2)"
GONE = "a CTA lives until nothing uses its shared memory (PTX ISA 2.2.2)"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
PAIR = {"block": 32, "grid": 2, "cluster": 2}
S2S = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
G2S = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
S2G = "cp.async.bulk.global.shared::cta.bulk_group"

# ------------------------------------------------------------------------------------------------ cp.async

fault(
    "cp_async_missing_wait",
    CP,
    """
    cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.commit_group;
+   cp.async.wait_group 0;
    ld.shared.b32 %r0, [%st];            // FAULT: async
    st.global.b32 [%Bt], %r0;
+   cp.async.wait_all;
    """,
    shared="s:128",
    arrays="A:32 B:32",
    block=32,
    threads=("0-31",),
    bytes="s 0:128",
    gives={"B": lambda i: i + 1},
)
fault(
    "cp_async_missing_commit",
    CP + "; wait_group waits for what was committed",
    """
    cp.async.ca.shared.global [%st], [%At], 4;
+   cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.b32 %r0, [%st];            // FAULT: async
    """,
    shared="s:128",
    block=32,
    bytes="s 0:128",
    words=("commit",),
)
fault(
    "cp_async_wait_group_too_large",
    CP + "; wait_group N leaves the N latest groups in flight",
    """
    cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [%st+128], [%At+128], 4;
    cp.async.commit_group;
-   cp.async.wait_group 2;
+   cp.async.wait_group 1;
    ld.shared.b32 %r0, [%st];            // FAULT: async
    cp.async.wait_group 0;
    """,
    shared="s:256",
    block=32,
    bytes="s 0:128",
)
fault(
    "cp_async_reads_the_younger_group",
    CP + "; groups complete in order, the younger one last",
    """
    cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.commit_group;
    cp.async.ca.shared.global [%st+128], [%At+128], 4;
    cp.async.commit_group;
    cp.async.wait_group 1;
-   ld.shared.b32 %r0, [%st+128];        // FAULT: async
+   ld.shared.b32 %r0, [%st];
    cp.async.wait_group 0;
    """,
    shared="s:256",
    block=32,
    bytes="s 128:256",
)
fault(
    "cp_async_no_barrier_for_other_threads",
    OTHERS,
    """
    cp.async.ca.shared.global [%st], [%At], 4;     // FAULT: race
    cp.async.wait_all;
+   bar.sync 0;
    sub.u32 %r0, 63, %t;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];            // FAULT: race|async
    """,
    shared="s:256",
    threads=("0-63",),
    bytes="s 0:256",
)
fault(
    "cp_async_barrier_before_the_wait",
    OTHERS + "; a barrier waits for no copy",
    """
    cp.async.ca.shared.global [%st], [%At], 4;     // FAULT: race|async
-   bar.sync 0;
    cp.async.wait_all;
+   bar.sync 0;
    sub.u32 %r0, 63, %t;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];            // FAULT: race|async
    """,
    shared="s:256",
    threads=("0-63",),
    bytes="s 0:256",
)
fault(
    "cp_async_only_one_thread_waits",
    CP + "; groups are a thread's own",
    """
    cp.async.ca.shared.global [%st], [%At], 4;
-   @%is0 cp.async.wait_all;
+   cp.async.wait_all;
    bar.sync 0;
    ld.shared.b32 %r0, [%s+4];           // FAULT: async
    cp.async.wait_all;
    """,
    shared="s:128",
    block=32,
    bytes="s 4:8",
)
fault(
    "cp_async_source_overwritten",
    CP + "; nor may its source be written before",
    """
    cp.async.ca.shared.global [%st], [%At], 4;
+   cp.async.wait_all;
    st.global.b32 [%At], 0;              // FAULT: async
+   ld.shared.b32 %r0, [%st];
    cp.async.wait_all;
    """,
    shared="s:128",
    block=32,
    threads=("0-31",),
    bytes="A 0:128",
)
fault(
    "cp_async_destination_overwritten",
    CP + "; nor written",
    """
    cp.async.ca.shared.global [%st], [%At], 4;
+   cp.async.wait_all;
    st.shared.b32 [%st], 0;              // FAULT: async
    cp.async.wait_all;
    """,
    shared="s:128",
    block=32,
    bytes="s 0:128",
)
fault(
    "cp_async_two_to_the_same_bytes",
    CP + "; two copies are not ordered with each other",
    """
    cp.async.ca.shared.global [%s], [%A], 4;
+   cp.async.wait_all;
    cp.async.ca.shared.global [%s], [%A+4], 4;     // FAULT: async|race
    cp.async.wait_all;
    """,
    shared="s:16",
    block=1,
    bytes="s 0:4",
)
fault(
    "cp_async_two_threads_to_the_same_bytes",
    CP + "; two threads fill one word",
    """
-   cp.async.ca.shared.global [%s], [%At], 4;      // FAULT: async|race
+   cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.wait_all;
    """,
    shared="s:128",
    block=32,
    bytes="s 0:4",
)
fault(
    "cp_async_into_what_others_still_read",
    CP + "; a copy is ordered after its thread's own accesses, not after others'",
    """
    st.shared.b32 [%st], %t;
    bar.sync 0;
    sub.u32 %r0, 63, %t;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];            // FAULT: race|async
+   bar.sync 0;
    cp.async.ca.shared.global [%st], [%At], 4;     // FAULT: race
    cp.async.wait_all;
    """,
    shared="s:256",
    threads=("0-63",),
    bytes="s 0:256",
)
fault(
    "cp_async_in_flight_at_exit",
    CP + "; a thread waits for its copies before it exits",
    """
    cp.async.ca.shared.global [%st], [%At], 4;     // FAULT: lifetime|async
    cp.async.commit_group;
+   cp.async.wait_group 0;
    """,
    shared="s:128",
    block=32,
)
fault(
    "cp_async_uncommitted_at_exit",
    CP + "; nor is what was never committed done",
    """
    cp.async.ca.shared.global [%st], [%At], 4;     // FAULT: lifetime|async
-   cp.async.wait_group 0;
+   cp.async.wait_all;
    """,
    shared="s:128",
    block=32,
)
fault(
    "cp_async_source_size_too_large",
    "src-size is at most cp-size (PTX ISA 9.7.9.25.3.1)",
    """
-   mov.b32 %r0, 32;
+   mov.b32 %r0, 16;
    cp.async.ca.shared.global [%s], [%A], 16, %r0; // FAULT: bounds
    cp.async.wait_all;
    """,
    shared="s:16",
    block=1,
    words=("32",),
)
fault(
    "cp_async_ring_stage_refilled_too_early",
    OTHERS + "; a ring of two stages whose barrier is missing",
    """
    mov.b32 %r4, 0;
    cp.async.ca.shared.global [%st], [%At], 4;     // FAULT: race|async
    cp.async.commit_group;
LOOP:
    add.u32 %r4, %r4, 1;
    and.b32 %r5, %r4, 1;
    mad.lo.u32 %r6, %r5, 256, %st;
    xor.b32 %r5, %r5, 1;
    mad.lo.u32 %r7, %r5, 256, %s;
+   bar.sync 0;
    cp.async.ca.shared.global [%r6], [%At], 4;     // FAULT: race|async
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    sub.u32 %r0, 63, %t;
    mad.lo.u32 %r1, %r0, 4, %r7;
    ld.shared.b32 %r2, [%r1];            // FAULT: race|async
    setp.lt.u32 %p0, %r4, 4;
    @%p0 bra LOOP;
    cp.async.wait_all;
    """,
    shared="s:512",
    threads=("0-63",),
    bytes="s 0:512",
)
fault(
    "cp_async_mbarrier_counts_its_increment",
    "cp.async.mbarrier.arrive counts itself up first; .noinc does not (PTX ISA 9.7.13.15.15)",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 32;
    bar.sync 0;
    cp.async.ca.shared.global [%st], [%At], 4;
-   cp.async.mbarrier.arrive.shared.b64 [%m];
+   cp.async.mbarrier.arrive.noinc.shared.b64 [%m];
    WAIT [%m], 0;                        // FAULT: deadlock
    ld.shared.b32 %r0, [%s];
    """,
    shared="s:128 m:8",
    block=32,
    bytes="m 0:8",
    words=("phase 0", "32 of (the )?32 arrivals"),
)
fault(
    "cp_async_mbarrier_arrive_before_the_copy",
    "cp.async.mbarrier.arrive tracks the copies before it (PTX ISA 9.7.13.15.15)",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 32;
    bar.sync 0;
+   cp.async.ca.shared.global [%st], [%At], 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [%m];
-   cp.async.ca.shared.global [%st], [%At], 4;
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%s];             // FAULT: async
    """,
    shared="s:128 m:8",
    block=32,
    bytes="s 0:4",
)
fault(
    "cp_async_plain_mbarrier_arrive",
    "mbarrier.arrive does not track cp.async (PTX ISA 9.7.13.15.15)",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 32;
    bar.sync 0;
    cp.async.ca.shared.global [%st], [%At], 4;
-   mbarrier.arrive.shared.b64 _, [%m];
+   cp.async.mbarrier.arrive.noinc.shared.b64 [%m];
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%s];             // FAULT: async
    """,
    shared="s:128 m:8",
    block=32,
    bytes="s 0:4",
)
fault(
    "cp_async_read_by_the_async_proxy",
    PROXY + "; cp.async is of the generic proxy",
    f"""
    @!%is0 bra END;
    cp.async.ca.shared.global [%s], [%A], 16;
    cp.async.wait_all;
+   fence.proxy.async.shared::cta;
    {S2G} [%B], [%s], 16;                // FAULT: proxy
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
    """,
    shared="s:16",
    arrays="A:4 B:4",
    block=32,
    bytes="s 0:16",
    gives={"B": lambda i: i + 1},
)

# ------------------------------------------------------------------------------------------------ shared to another CTA


def between_ctas(sender: str, receiver: str, *, before: str = "", after: str = SYNC, size: int = 64) -> str:
    """Rank 0 sends ``s``, filled by thread 0, to ``d`` of rank 1 and its mbarrier ``m``."""
    return f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
{before}    {SYNC}
    mapa.shared::cluster.u32 %r0, %d, 1;
    mapa.shared::cluster.u32 %r1, %m, 1;
    @%k1 bra RECEIVE;
    @!%is0 bra END;
{sender}    bra END;
RECEIVE:
{receiver}END:
    {after}
"""


FILL = """    st.shared.v4.b32 [%s], {1, 2, 3, 4};
    st.shared.v4.b32 [%s+16], {1, 2, 3, 4};
    st.shared.v4.b32 [%s+32], {1, 2, 3, 4};
    st.shared.v4.b32 [%s+48], {1, 2, 3, 4};
"""
FENCE = "    fence.proxy.async.shared::cta;\n"
SEND = f"    {S2S} [%r0], [%s], 64, [%r1];\n"
EXPECT = "    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 64;\n"
TAKE = """    WAIT [%m], 0;
    ld.shared.b32 %r2, [%d+4];
    st.global.b32 [%At], %r2;
"""
SENT = {"shared": "s:64 d:64 m:8", "arrays": "A:32", "gives": {"A": 2}} | PAIR

fault(
    "bulk_missing_proxy_fence",
    PROXY,
    between_ctas(
        FILL + f"+   {FENCE.strip()}\n" + f"    {S2S} [%r0], [%s], 64, [%r1];  // FAULT: proxy\n", EXPECT + TAKE
    ),
    threads=("0@0",),
    bytes="s 0:64",
    **SENT,
)
fault(
    "bulk_fence_before_the_writes",
    PROXY + "; a fence orders what came before it",
    between_ctas(
        f"-   {FENCE.strip()}\n{FILL}+   {FENCE.strip()}\n    {S2S} [%r0], [%s], 64, [%r1];  // FAULT: proxy\n",
        EXPECT + TAKE,
    ),
    threads=("0@0",),
    bytes="s 0:64",
    **SENT,
)
fault(
    "bulk_fence_of_the_wrong_space",
    PROXY + "; .global says nothing of shared memory",
    between_ctas(
        f"{FILL}-   fence.proxy.async.global;\n+   {FENCE.strip()}\n"
        f"    {S2S} [%r0], [%s], 64, [%r1];  // FAULT: proxy\n",
        EXPECT + TAKE,
    ),
    bytes="s 0:64",
    **SENT,
)
fault(
    "bulk_half_of_the_writes_fenced",
    PROXY + "; a store after the fence",
    between_ctas(
        f"{FILL}{FENCE}-   st.shared.b32 [%s+60], 9;\n    {S2S} [%r0], [%s], 64, [%r1];  // FAULT: proxy\n",
        EXPECT + TAKE,
    ),
    bytes="s 60:64",
    **SENT,
)
fault(
    "bulk_read_before_the_wait",
    BULK,
    between_ctas(
        FILL + FENCE + SEND,
        EXPECT
        + """-   ld.shared.b32 %r2, [%d];             // FAULT: async|poison|race
    WAIT [%m], 0;
    ld.shared.b32 %r2, [%d+4];
    st.global.b32 [%At], %r2;
""",
    ),
    threads=("0-31@1",),
    bytes="d 0:4",
    **SENT,
)
fault(
    "bulk_source_overwritten",
    BULK + "; the sender may write the source again once the receiver has said so",
    between_ctas(
        FILL + FENCE + SEND + "-   st.shared.b32 [%s+8], 0;             // FAULT: async\n",
        EXPECT + TAKE,
    ),
    threads=("0@0",),
    bytes="s 8:12",
    **SENT,
)
fault(
    "bulk_two_mbarriers_confused",
    BULK + "; one copy's mbarrier says nothing of the other's",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 mbarrier.init.shared.b64 [%m+8], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %d, 1;
    mapa.shared::cluster.u32 %r1, %m, 1;
    add.u32 %r3, %r1, 8;
    @%k1 bra RECEIVE;
    @!%is0 bra END;
    st.shared.v4.b32 [%s], {{1, 2, 3, 4}};
    st.shared.v4.b32 [%s+16], {{5, 6, 7, 8}};
    fence.proxy.async.shared::cta;
    {S2S} [%r0], [%s], 16, [%r1];
    {S2S} [%r0+16], [%s+16], 16, [%r3];
    bra END;
RECEIVE:
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 16;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m+8], 16;
    WAIT [%m+8], 0;
-   ld.shared.b32 %r2, [%d];             // FAULT: async|poison|race
+   ld.shared.b32 %r2, [%d+16];
    WAIT [%m], 0;
END:
    {SYNC}
    """,
    shared="s:32 d:32 m:16",
    threads=("0-31@1",),
    bytes="d 0:4",
    **PAIR,
)
fault(
    "bulk_expects_too_few_bytes",
    BULK + "; the phase completes when the bytes balance",
    between_ctas(
        FILL + FENCE + SEND,
        "-   @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 48;\n"
        "+   @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 64;\n"
        "    WAIT [%m], 0;                        // FAULT: deadlock|mbarrier\n",
    ),
    bytes="m 0:8",
    words=("phase 0", "16 bytes"),
    **(SENT | {"gives": {}}),
)
fault(
    "bulk_expects_too_many_bytes",
    BULK + "; the phase completes when the bytes balance",
    between_ctas(
        FILL + FENCE + SEND,
        "-   @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;\n"
        "+   @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 64;\n"
        "    WAIT [%m], 0;                        // FAULT: deadlock\n",
    ),
    bytes="m 0:8",
    words=("phase 0", "64 bytes"),
    **(SENT | {"gives": {}}),
)
fault(
    "bulk_nobody_expects",
    BULK + "; an arrival that expects no bytes completes the phase without them",
    between_ctas(
        FILL + FENCE + SEND,
        "-   @%is0 mbarrier.arrive.shared.b64 _, [%m];\n+"
        + EXPECT[1:]
        + """    WAIT [%m], 0;                        // FAULT: deadlock|mbarrier
    ld.shared.b32 %r2, [%d+4];           // FAULT: async|poison|race
    st.global.b32 [%At], %r2;
""",
    ),
    **SENT,
)
fault(
    "bulk_sent_by_every_lane",
    BULK + "; every executing thread issues its own copy",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    st.shared.b32 [%st], %t;
    fence.proxy.async.shared::cta;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %d, 1;
    mapa.shared::cluster.u32 %r1, %m, 1;
    @%k1 bra RECEIVE;
-   {S2S} [%r0], [%s], 128, [%r1];       // FAULT: async|race
+   @%is0 {S2S} [%r0], [%s], 128, [%r1];
    bra END;
RECEIVE:
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    WAIT [%m], 0;
END:
    {SYNC}
    """,
    shared="s:128 d:128 m:8",
    bytes="d 0:128",
    **PAIR,
)
fault(
    "bulk_source_misaligned",
    "addresses of a bulk copy are multiples of 16 (PTX ISA 9.7.9.25.4.1)",
    between_ctas(
        FILL + FENCE + f"-   {S2S} [%r0], [%s+8], 32, [%r1];  // FAULT: alignment\n+   {S2S} [%r0], [%s], 32, [%r1];\n",
        EXPECT.replace(", 64;", ", 32;") + TAKE,
    ),
    words=("16",),
    **SENT,
)
fault(
    "bulk_destination_misaligned",
    "addresses of a bulk copy are multiples of 16 (PTX ISA 9.7.9.25.4.1)",
    between_ctas(
        FILL + FENCE + f"-   {S2S} [%r0+4], [%s], 32, [%r1];  // FAULT: alignment\n+   {S2S} [%r0], [%s], 32, [%r1];\n",
        EXPECT.replace(", 64;", ", 32;") + TAKE,
    ),
    words=("16",),
    **SENT,
)
fault(
    "bulk_size_not_a_multiple_of_16",
    "the size of a bulk copy is a multiple of 16 (PTX ISA 9.7.9.25.4.1)",
    between_ctas(
        FILL
        + FENCE
        + f"-   mov.b32 %r3, 40;\n+   mov.b32 %r3, 64;\n    {S2S} [%r0], [%s], %r3, [%r1];    // FAULT: alignment\n",
        EXPECT + TAKE,
    ),
    words=("40",),
    **SENT,
)
fault(
    "bulk_past_the_destination",
    "an access outside the memory of its variable is undefined (PTX ISA 5.1)",
    between_ctas(
        FILL + FENCE + f"-   {S2S} [%r0+16], [%s], 64, [%r1];  // FAULT: bounds\n+   {S2S} [%r0], [%s], 64, [%r1];\n",
        EXPECT + TAKE,
    ),
    **SENT,
)
fault(
    "bulk_mbarrier_of_the_sender",
    "the mbarrier lies in the CTA of the destination (PTX ISA 9.7.9.25.4.1)",
    between_ctas(
        FILL + FENCE + f"-   {S2S} [%r0], [%s], 64, [%m];   // FAULT: window\n+   {S2S} [%r0], [%s], 64, [%r1];\n",
        EXPECT + TAKE,
    ),
    **SENT,
)
fault(
    "bulk_to_the_own_cta",
    "the destination is the shared memory of another CTA (PTX ISA 9.7.9.25.4.1)",
    between_ctas(
        FILL + FENCE + f"-   {S2S} [%d], [%s], 64, [%m];    // FAULT: window\n+   {S2S} [%r0], [%s], 64, [%r1];\n",
        EXPECT + TAKE,
    ),
    **SENT,
)
fault(
    "bulk_receiver_exits_early",
    GONE,
    between_ctas(
        FILL + FENCE + f"    {S2S} [%r0], [%s], 64, [%r1];     // FAULT: lifetime\n",
        "-   bra OUT;\n" + EXPECT + TAKE,
    )
    + "-OUT:\n",
    **(SENT | {"gives": {}}),
)
fault(
    "bulk_sender_exits_early",
    GONE + "; the source of a copy too",
    between_ctas(FILL + FENCE + f"    {S2S} [%r0], [%s], 64, [%r1];     // FAULT: lifetime\n", EXPECT + TAKE).replace(
        "END:\n", "END:\n-   @%k0 bra OUT;\n"
    )
    + "-OUT:\n",
    **(SENT | {"gives": {}}),
)

fault(
    "bulk_no_cluster_barrier_at_the_start",
    GONE + "; and it must have started, its mbarrier initialised",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
+   {SYNC}
-   bar.sync 0;
    mapa.shared::cluster.u32 %r0, %d, 1;
    mapa.shared::cluster.u32 %r1, %m, 1;
    @%k1 bra RECEIVE;
    @!%is0 bra END;
{FILL}{FENCE}    {S2S} [%r0], [%s], 64, [%r1];     // FAULT: lifetime|mbarrier|race
    bra END;
RECEIVE:
{EXPECT}{TAKE}END:
    {SYNC}
    """,
    **SENT,
)
fault(
    "bulk_into_what_the_receiver_still_reads",
    BULK + "; the receiver gives its buffer free before it is filled again",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    @%k1 st.shared.b32 [%dt], 0;
+   @%k1 ld.shared.b32 %r2, [%dt];
+   fence.proxy.async.shared::cta;
    {SYNC}
-   @%k1 ld.shared.b32 %r2, [%dt];       // FAULT: race|async
    mapa.shared::cluster.u32 %r0, %d, 1;
    mapa.shared::cluster.u32 %r1, %m, 1;
    @%k1 bra RECEIVE;
    @!%is0 bra END;
{FILL}{FENCE}    {S2S} [%r0], [%s], 64, [%r1];     // FAULT: race|proxy
    bra END;
RECEIVE:
{EXPECT}    WAIT [%m], 0;
END:
    {SYNC}
    """,
    **(SENT | {"gives": {}, "shared": "s:64 d:128 m:8"}),
)

# ------------------------------------------------------------------------------------------------ global to shared


def from_global(body: str) -> str:
    """One thread of a CTA issues; all wait."""
    return f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    bar.sync 0;
{body}"""


LOAD = f"    @%is0 {G2S} [%s], [%A], 128, [%m];\n"
ANNOUNCE = "    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;\n"
LOADED = {"shared": "s:128 m:8", "arrays": "A:32 B:32", "block": 32, "gives": {"B": lambda i: i + 1}}
USE = "    ld.shared.b32 %r0, [%st];            // FAULT: async|poison|race\n    st.global.b32 [%Bt], %r0;\n"

fault(
    "bulk_load_missing_wait",
    BULK,
    from_global(ANNOUNCE + LOAD + "+   WAIT [%m], 0;\n" + USE + "    WAIT [%m], 0;\n"),
    bytes="s 0:128",
    **LOADED,
)
fault(
    "bulk_load_only_the_issuer_waits",
    BULK + "; every reader waits, or is told by a barrier",
    from_global(ANNOUNCE + LOAD + "-   @!%is0 bra READ;\n    WAIT [%m], 0;\n-READ:\n" + USE),
    threads=("1-31",),
    bytes="s 0:128",
    **LOADED,
)
fault(
    "bulk_load_of_fewer_bytes_than_expected",
    BULK,
    from_global(
        ANNOUNCE
        + f"-   @%is0 {G2S} [%s], [%A], 64, [%m];\n+{LOAD[1:]}"
        + "    WAIT [%m], 0;                        // FAULT: deadlock\n    ld.shared.b32 %r0, [%st];\n"
        + "    st.global.b32 [%Bt], %r0;\n"
    ),
    bytes="m 0:8",
    words=("phase 0", "64 bytes"),
    **LOADED,
)
fault(
    "bulk_load_over_unfenced_stores",
    PROXY + "; also when the async proxy overwrites what was stored",
    from_global(
        "    st.shared.b32 [%st], 0;\n+   fence.proxy.async.shared::cta;\n    bar.sync 0;\n"
        + ANNOUNCE
        + f"    @%is0 {G2S} [%s], [%A], 128, [%m];  // FAULT: proxy\n    WAIT [%m], 0;\n"
        + "    ld.shared.b32 %r0, [%st];\n    st.global.b32 [%Bt], %r0;\n"
    ),
    bytes="s 0:128",
    **LOADED,
)
fault(
    "bulk_load_refills_while_others_read",
    BULK + "; a barrier between the last read and the refill",
    from_global(
        ANNOUNCE
        + LOAD
        + "    WAIT [%m], 0;\n    ld.shared.b32 %r0, [%st];            // FAULT: race|async\n"
        + "    st.global.b32 [%Bt], %r0;\n"
        + "+   bar.sync 0;\n"
        + ANNOUNCE
        + f"    @%is0 {G2S} [%s], [%A], 128, [%m];  // FAULT: race\n    WAIT [%m], 1;\n"
    ),
    threads=("0", "1-31"),
    bytes="s 0:128",
    **LOADED,
)
fault(
    "bulk_load_past_the_array",
    "an access outside the memory of its variable is undefined (PTX ISA 5.1)",
    from_global(
        ANNOUNCE + f"-   @%is0 {G2S} [%s], [%A+16], 128, [%m];  // FAULT: bounds\n+{LOAD[1:]}" + "    WAIT [%m], 0;\n"
    ),
    bytes="A 16:144",
    **(LOADED | {"gives": {}}),
)
fault(
    "bulk_load_source_misaligned",
    "addresses of a bulk copy are multiples of 16 (PTX ISA 9.7.9.25.4.1)",
    from_global(
        "    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 64;\n"
        + f"-   @%is0 {G2S} [%s], [%A+4], 64, [%m];    // FAULT: alignment\n+   @%is0 {G2S} [%s], [%A], 64, [%m];\n"
        + "    WAIT [%m], 0;\n"
    ),
    **(LOADED | {"gives": {}}),
)
fault(
    "bulk_load_in_flight_at_exit",
    GONE,
    from_global(ANNOUNCE + f"    @%is0 {G2S} [%s], [%A], 128, [%m];  // FAULT: lifetime|async\n+   WAIT [%m], 0;\n"),
    **(LOADED | {"gives": {}}),
)

# ------------------------------------------------------------------------------------------------ shared to global


STORE = {"shared": "s:128", "arrays": "A:32 B:32", "block": 32}


def to_global(body: str, fence: str = "    fence.proxy.async.shared::cta;\n") -> str:
    """The warp fills; lane 0 sends."""
    return f"""
    st.shared.b32 [%st], %t;
{fence}    bar.sync 0;
    @!%is0 bra END;
{body}END:
"""


fault(
    "bulk_store_missing_proxy_fence",
    PROXY,
    to_global(
        f"    {S2G} [%A], [%s], 128;               // FAULT: proxy\n"
        "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n",
        fence="+   fence.proxy.async.shared::cta;\n",
    ),
    bytes="s 0:128",
    threads=("0",),
    gives={"A": lambda i: i},
    **STORE,
)
fault(
    "bulk_store_missing_wait",
    GONE + "; shared memory is read until the group is complete",
    to_global(
        f"    {S2G} [%A], [%s], 128;               // FAULT: lifetime|async\n"
        "    cp.async.bulk.commit_group;\n+   cp.async.bulk.wait_group 0;\n"
    ),
    **STORE,
)
fault(
    "bulk_store_missing_commit",
    BULK + "; wait_group waits for what was committed",
    to_global(
        f"    {S2G} [%A], [%s], 128;               // FAULT: lifetime|async\n"
        "+   cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n"
    ),
    **STORE,
)
fault(
    "bulk_store_source_overwritten",
    BULK + "; the source is free after wait_group or wait_group.read",
    to_global(
        f"    {S2G} [%A], [%s], 128;\n    cp.async.bulk.commit_group;\n"
        "+   cp.async.bulk.wait_group.read 0;\n    st.shared.b32 [%s+4], 0;             // FAULT: async\n"
        "    cp.async.bulk.wait_group 0;\n"
    ),
    bytes="s 4:8",
    gives={"A": lambda i: i},
    **STORE,
)
fault(
    "bulk_store_read_back_after_wait_read",
    BULK + "; .read says that the source was read, not that the bytes are there",
    to_global(
        f"    {S2G} [%A], [%s], 128;\n    cp.async.bulk.commit_group;\n"
        "-   cp.async.bulk.wait_group.read 0;\n+   cp.async.bulk.wait_group 0;\n"
        "    ld.global.b32 %r0, [%A];             // FAULT: async\n    cp.async.bulk.wait_group 0;\n"
    ),
    bytes="A 0:4",
    **STORE,
)
fault(
    "bulk_store_other_threads_read_back",
    BULK + "; the group tells its own thread alone",
    to_global(
        f"    {S2G} [%A], [%s], 128;               // FAULT: race|async\n    cp.async.bulk.commit_group;\n"
        "    cp.async.bulk.wait_group 0;\n"
    )
    + "+   bar.sync 0;\n    @%is5 ld.global.b32 %r0, [%A];       // FAULT: race|async\n",
    bytes="A 0:4",
    threads=("5",),
    **STORE,
)
fault(
    "bulk_store_wait_group_too_large",
    BULK + "; wait_group N leaves the N latest groups in flight",
    to_global(
        f"    {S2G} [%A], [%s], 128;\n    cp.async.bulk.commit_group;\n"
        "-   cp.async.bulk.wait_group.read 1;\n+   cp.async.bulk.wait_group.read 0;\n"
        "    st.shared.b32 [%s+4], 0;             // FAULT: async\n    cp.async.bulk.wait_group 0;\n"
    ),
    bytes="s 4:8",
    **STORE,
)
fault(
    "bulk_store_waited_for_by_another_thread",
    BULK + "; bulk groups are a thread's own",
    """
    st.shared.b32 [%st], %t;
    fence.proxy.async.shared::cta;
    bar.sync 0;
"""
    + f"    @%is0 {S2G} [%A], [%s], 128;\n    @%is0 cp.async.bulk.commit_group;\n"
    + """-   @%is1 cp.async.bulk.wait_group 0;
+   @%is0 cp.async.bulk.wait_group 0;
    bar.sync 0;
    @%is1 st.shared.b32 [%s], 7;         // FAULT: async
    cp.async.bulk.wait_group 0;
    """,
    bytes="s 0:4",
    **STORE,
)
clean(
    "bulk_stores_of_ctas_that_part_before_the_wait",
    BULK + "; what was stored is the thread's own again after its wait",
    """
    st.shared.b32 [%st], %cta;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mad.wide.u32 %d0, %cta, 128, %B;
    @%is0 cp.async.bulk.global.shared::cta.bulk_group [%d0], [%s], 128;
    cp.async.bulk.commit_group;
    @%c2 bra $X;
    add.u32 %r0, %cta, 1;
$X:
    cp.async.bulk.wait_group 0;
    @%is0 st.global.b32 [%d0+64], %cta;
    """,
    shared="s:128",
    arrays="B:256",
    grid=8,
    block=32,
    gives={"B": lambda i: i // 32},
)
clean(
    "bulk_stores_over_what_each_cta_wrote_and_fenced",
    PROXY,
    """
    mad.wide.u32 %d0, %cta, 128, %B;
    mad.wide.u32 %d1, %t, 4, %d0;
    st.global.b32 [%d1], %t;
    st.shared.b32 [%st], %cta;
    fence.proxy.async;
    bar.sync 0;
    @%is0 cp.async.bulk.global.shared::cta.bulk_group [%d0], [%s], 128;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    """,
    shared="s:128",
    arrays="B:256",
    grid=8,
    block=32,
    gives={"B": lambda i: i // 32},
)
