"""Barriers of the CTA, the warp and the cluster, and what names the threads that take part."""

from .model import fault

BAR = "bar.sync is barrier.sync.aligned: all threads of a warp execute it (PTX ISA 9.7.13.1)"
NAMED = "a named barrier: every participant names the same count, and as many come (PTX ISA 9.7.13.1)"
WARP = "bar.warp.sync: the executing threads are those of the mask (PTX ISA 9.7.13.2)"
CLUSTER = "barrier.cluster: arrive and wait by turns, once each a phase (PTX ISA 9.7.13.4)"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"

fault(
    "barrier_half_a_warp",
    BAR + "; the other half waits for it at the end",
    """
    setp.lt.u32 %p0, %t, 16;
-   @%p0 bar.sync 0;                     // FAULT: barrier
+   bar.sync 0;
    bar.warp.sync 0xffffffff;            // FAULT: barrier
    """,
    block=32,
    threads=("0-31",),
    words=("16 of (the )?32",),
)
fault(
    "barrier_one_warp_never_comes",
    "all threads of the CTA come to bar.sync; one that waits elsewhere never does (PTX ISA 9.7.13.1)",
    """
-   @%w0 bar.sync 0;                     // FAULT: barrier
+   bar.sync 0;
    bar.sync 1;                          // FAULT: barrier
    """,
    words=("32 of (the )?64",),
)
fault(
    "barrier_two_branches_of_one_warp",
    BAR + "; two barriers in two branches are two instructions",
    """
    setp.lt.u32 %p0, %t, 16;
-   @%p0 bra LOW;
+   bra LOW;
    bar.sync 0;                          // FAULT: barrier
    bra END;
LOW:
    bar.sync 0;                          // FAULT: barrier
END:
    """,
    block=32,
    threads=("0-31",),
)
fault(
    "barrier_divergent_lanes_in_a_loop",
    BAR + "; lanes that leave a loop early",
    """
    mov.b32 %r0, 0;
LOOP:
    bar.sync 0;                          // FAULT: barrier
    add.u32 %r0, %r0, 1;
-   setp.le.u32 %p0, %r0, %lane;
+   setp.le.u32 %p0, %r0, 31;
    @%p0 bra LOOP;
    bar.sync 1;                          // FAULT: barrier
    """,
    block=32,
    threads=("0-31",),
)
fault(
    "barrier_named_count_too_small",
    NAMED,
    """
-   bar.sync 1, 64;                      // FAULT: barrier
+   bar.sync 1, 96;
    """,
    block=96,
    words=("barrier 1|32 of (the )?64",),
)
fault(
    "barrier_named_count_too_large",
    NAMED,
    """
-   bar.sync 1, 128;                     // FAULT: barrier
+   bar.sync 1, 64;
    """,
    block=64,
    words=("128",),
)
fault(
    "barrier_named_counts_differ",
    NAMED,
    """
    @%w0 bar.sync 1, 64;                 // FAULT: barrier
-   @%w1 bar.sync 1, 96;                 // FAULT: barrier
+   @%w1 bar.sync 1, 64;
    """,
    block=96,
    threads=("0-63",),
    words=("64", "96"),
)
fault(
    "barrier_named_count_not_of_warps",
    "the count of threads is a multiple of the warp size (PTX ISA 9.7.13.1)",
    """
-   mov.b32 %r0, 48;
+   mov.b32 %r0, 64;
    bar.sync 1, %r0;                     // FAULT: barrier
    """,
    words=("48",),
)
fault(
    "barrier_number_from_a_register",
    "there are barriers 0 to 15 (PTX ISA 9.7.13.1)",
    """
-   mov.b32 %r0, 16;
+   mov.b32 %r0, 15;
    bar.sync %r0;                        // FAULT: barrier
    """,
    block=32,
    words=("16",),
)
fault(
    "barrier_id_shared_by_two_groups",
    NAMED + "; two groups at once on one barrier",
    """
    setp.lt.u32 %p0, %warp, 2;
    @%p0 bar.sync 1, 64;                 // FAULT: barrier
-   @!%p0 bar.sync 1, 64;                // FAULT: barrier
+   @!%p0 bar.sync 2, 64;
    """,
    block=128,
)
fault(
    "barrier_named_group_with_an_extra_warp",
    NAMED + "; the third warp comes to a barrier that two complete",
    """
    setp.lt.u32 %p0, %warp, 2;
-   setp.lt.u32 %p0, %warp, 3;
    @%p0 bar.sync 3, 64;                 // FAULT: barrier
    """,
    block=128,
    words=("barrier 3|32 of (the )?64",),
)
fault(
    "barrier_named_partner_exits",
    NAMED + "; threads that have exited do not come",
    """
-   @%w1 bra END;
    bar.sync 1, 64;                      // FAULT: barrier
END:
    """,
    words=("32 of 64",),
)
fault(
    "barrier_arrive_in_excess",
    NAMED + "; arrivals count as threads",
    """
    @%w0 bar.sync 1, 64;                 // FAULT: barrier
    @%w1 bar.arrive 1, 64;               // FAULT: barrier
-   @%w2 bar.arrive 1, 64;               // FAULT: barrier
    """,
    block=96,
)
fault(
    "barrier_arrive_with_another_count",
    NAMED,
    """
    @%w0 bar.sync 1, 64;                 // FAULT: barrier
-   @%w1 bar.arrive 1, 32;               // FAULT: barrier
+   @%w1 bar.arrive 1, 64;
    """,
)
fault(
    "barrier_producer_never_arrives",
    NAMED + "; the hand-over's other half is missing",
    """
-   @%w1 bar.sync 2, 64;                 // FAULT: barrier
+   @%w1 bar.arrive 1, 64;
    @%w0 bar.sync 1, 64;                 // FAULT: barrier
    """,
    words=("32 of 64",),
)
fault(
    "barrier_crossed_named_barriers",
    "two groups that wait for each other in opposite order (PTX ISA 9.7.13.1)",
    """
    @%w1 bra SECOND;
    bar.sync 1, 64;                      // FAULT: barrier
    bar.sync 2, 64;
    bra END;
SECOND:
-   bar.sync 2, 64;                      // FAULT: barrier
    bar.sync 1, 64;
+   bar.sync 2, 64;
END:
    """,
    words=("32 of 64",),
)
fault(
    "barrier_warp_sync_lane_outside_the_mask",
    WARP + "; undefined for a thread that is not in its mask",
    """
-   bar.warp.sync 0xffff;                // FAULT: barrier|aligned
+   bar.warp.sync 0xffffffff;
    """,
    block=32,
    threads=("16-31",),
)
fault(
    "barrier_warp_sync_masks_differ",
    WARP + "; all participants name one mask",
    """
    setp.lt.u32 %p0, %t, 16;
-   mov.b32 %r0, 0xffff0000;
+   mov.b32 %r0, 0xffffffff;
    @%p0 mov.b32 %r0, 0xffffffff;
    @%p0 bra LOW;
    bar.warp.sync %r0;                   // FAULT: barrier
    bra END;
LOW:
    bar.warp.sync %r0;                   // FAULT: barrier
END:
    bar.sync 0;                          // FAULT: barrier
    """,
    block=32,
    threads=("0-31",),
)
fault(
    "barrier_elect_in_half_a_warp",
    "elect.sync: all threads of the mask execute it (PTX ISA 9.7.14.5)",
    """
    setp.lt.u32 %p0, %t, 16;
    @!%p0 bra END;
-   elect.sync _|%p1, 0xffffffff;        // FAULT: aligned|barrier
+   elect.sync _|%p1, 0xffff;
    @%p1 st.global.b32 [%A], 1;
END:
    bar.sync 0;                          // FAULT: barrier
    """,
    block=32,
    threads=("0-31",),
    gives={"A": lambda i: [1, *range(2, 65)]},
)
fault(
    "barrier_elect_by_a_lane_outside_the_mask",
    "elect.sync: undefined for a thread outside its mask (PTX ISA 9.7.14.5)",
    """
-   elect.sync _|%p1, 0xffff;            // FAULT: aligned|barrier
+   elect.sync _|%p1, 0xffffffff;
    """,
    block=32,
)
fault(
    "barrier_shuffle_with_absent_lanes",
    "shfl.sync: all threads of the mask execute it (PTX ISA 9.7.9.6)",
    """
    setp.lt.u32 %p0, %t, 16;
    @!%p0 bra END;
-   shfl.sync.down.b32 %r0, %t, 8, 0x1f, 0xffffffff;     // FAULT: aligned|barrier
+   shfl.sync.down.b32 %r0, %t, 8, 0x101f, 0xffff;
END:
    bar.sync 0;                          // FAULT: barrier
    """,
    block=32,
    threads=("0-31",),
)
fault(
    "barrier_vote_with_absent_lanes",
    "vote.sync: all threads of the mask execute it (PTX ISA 9.7.14.2)",
    """
    setp.lt.u32 %p0, %t, 16;
    @!%p0 bra END;
-   vote.sync.ballot.b32 %r0, %p0, 0xffffffff;     // FAULT: aligned|barrier
+   vote.sync.ballot.b32 %r0, %p0, 0xffff;
    st.global.b32 [%At], %r0;
END:
    bar.sync 0;                          // FAULT: barrier
    """,
    arrays="A:16",
    block=32,
    gives={"A": 0xFFFF},
)

# ------------------------------------------------------------------------------------------------ cluster

fault(
    "cluster_arrive_twice",
    CLUSTER,
    """
    barrier.cluster.arrive.aligned;
-   barrier.cluster.arrive.aligned;      // FAULT: barrier
    barrier.cluster.wait.aligned;
    """,
    block=32,
    grid=2,
    cluster=2,
    threads=("0-31",),
)
fault(
    "cluster_wait_without_arrive",
    CLUSTER,
    """
+   barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;        // FAULT: barrier
    """,
    block=32,
    grid=2,
    cluster=2,
    threads=("0-31",),
)
fault(
    "cluster_some_threads_wait_without_arrive",
    CLUSTER + "; one thread arrives for all",
    """
-   @%is0 barrier.cluster.arrive;
+   barrier.cluster.arrive;
    barrier.cluster.wait;                // FAULT: barrier
    """,
    block=32,
    grid=2,
    cluster=2,
    threads=("1-31",),
)
fault(
    "cluster_half_a_warp_with_aligned",
    "barrier.cluster with .aligned: all threads of a warp execute it (PTX ISA 9.7.13.4)",
    """
    setp.lt.u32 %p0, %t, 16;
-   @%p0 barrier.cluster.arrive.aligned;           // FAULT: aligned|barrier
-   @!%p0 barrier.cluster.arrive.aligned;          // FAULT: aligned|barrier
+   @%p0 barrier.cluster.arrive;
+   @!%p0 barrier.cluster.arrive;
    barrier.cluster.wait;
    """,
    block=32,
    grid=2,
    cluster=2,
)
fault(
    "cluster_a_rank_waits_elsewhere",
    CLUSTER + "; all threads that have not exited arrive",
    """
-   @%k1 bar.sync 1, 64;                 // FAULT: barrier
    barrier.cluster.arrive;
    barrier.cluster.wait;                // FAULT: barrier
    """,
    block=32,
    grid=2,
    cluster=2,
)
fault(
    "cluster_store_between_arrive_and_wait",
    CLUSTER + "; what follows the arrival is not published by it",
    f"""
    st.shared.b32 [%s], 0;
    {SYNC}
    setp.eq.and.u32 %p0, %t, 0, %k0;
    setp.eq.and.u32 %p1, %t, 0, %k1;
    mapa.shared::cluster.u32 %r0, %s, 0;
+   @%p0 st.shared.b32 [%s], 5;
    barrier.cluster.arrive;
-   @%p0 st.shared.b32 [%s], 5;          // FAULT: race
    barrier.cluster.wait;
    @%p1 ld.shared::cluster.b32 %r1, [%r0];        // FAULT: race
    {SYNC}
    """,
    shared="s:16",
    block=1,
    grid=2,
    cluster=2,
    threads=("0@0", "0@1"),
    bytes="s 0:4",
)
fault(
    "cluster_relaxed_arrive_publishes_nothing",
    "barrier.cluster.arrive.relaxed orders no memory (PTX ISA 9.7.13.4)",
    f"""
    st.shared.b32 [%s], 0;
    {SYNC}
    setp.eq.and.u32 %p0, %t, 0, %k0;
    setp.eq.and.u32 %p1, %t, 0, %k1;
    mapa.shared::cluster.u32 %r0, %s, 0;
    @%p0 st.shared.b32 [%s], 5;          // FAULT: race
-   barrier.cluster.arrive.relaxed;
+   barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    @%p1 ld.shared::cluster.b32 %r1, [%r0];        // FAULT: race
    {SYNC}
    """,
    shared="s:16",
    block=1,
    grid=2,
    cluster=2,
    threads=("0@0", "0@1"),
    bytes="s 0:4",
)
fault(
    "cluster_relaxed_arrive_of_readers",
    "barrier.cluster.arrive.relaxed: reads before it may be overtaken too (PTX ISA 9.7.13.4, 8.8)",
    f"""
    st.shared.b32 [%s], 0;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 0;
    @%k1 ld.shared::cluster.b32 %r1, [%r0];        // FAULT: race
-   barrier.cluster.arrive.relaxed;
+   barrier.cluster.arrive;
    barrier.cluster.wait;
    @%k0 st.shared.b32 [%s], 9;          // FAULT: race
    """,
    shared="s:16",
    block=1,
    grid=2,
    cluster=2,
    threads=("0@0", "0@1"),
    bytes="s 0:4",
)
fault(
    "cluster_barrier_of_another_cluster",
    "a cluster barrier orders its own cluster alone (PTX ISA 9.7.13.4)",
    f"""
    @%c0 st.global.b32 [%A], 1;          // FAULT: race
    {SYNC}
-   @%c2 ld.global.b32 %r0, [%A];        // FAULT: race
+   @%c1 ld.global.b32 %r0, [%A];
    """,
    block=1,
    grid=4,
    cluster=2,
    threads=("0@0", "0@2"),
    bytes="A 0:4",
)
