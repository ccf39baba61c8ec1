"""More faults, of pipelines above all: wrong stage, wrong parity, wrong fence, wrong order of two right steps."""

from .copies import (
    ANNOUNCE,
    EXPECT,
    FENCE,
    FILL,
    G2S,
    LOAD,
    PAIR,
    PROXY,
    S2G,
    S2S,
    SENT,
    STORE,
    TAKE,
    between_ctas,
    from_global,
    to_global,
)
from .idioms import RING, SOURCE, ring
from .model import fault
from .tensor import ONE

SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
RACE = "conflicting accesses with nothing that orders them (PTX ISA 8.7.1)"

# ------------------------------------------------------------------------------------------------ rings

PRODUCE = f"""    WAIT [%empty], %other;
{SOURCE}    ld.global.b32 %r1, [%d0];
    mad.lo.u32 %r0, %lane, 4, %stage;
    st.shared.b32 [%r0], %r1;            // FAULT: race
    mbarrier.arrive.shared.b64 _, [%full];
"""
CONSUME = """    WAIT [%full], %phase;
    mad.lo.u32 %r0, %lane, 4, %stage;
    ld.shared.b32 %r1, [%r0];            // FAULT: race|poison
    mad.lo.u32 %r2, %k, 32, %lane;
    mad.wide.u32 %d1, %r2, 4, %B;
    st.global.b32 [%d1], %r1;
    mbarrier.arrive.shared.b64 _, [%empty];
"""


def two_stages(producer: str = PRODUCE, consumer: str = CONSUME) -> str:
    """A ring of two stages in which one line is wrong."""
    return ring(stages=2, rounds=7, full=32, empty=32, producer=producer, consumer=consumer)


ENDS = {"shared": "s:256 m:32"} | RING

fault(
    "ring_producer_never_waits_for_empty",
    f"the producer of a ring waits for full stages to be given back ({RACE})",
    two_stages(
        producer=PRODUCE.replace("    WAIT [%empty], %other;", "+   WAIT [%empty], %other;").replace(
            "mbarrier.arrive.shared.b64 _, [%full];", "mbarrier.arrive.shared.b64 _, [%full];   // FAULT: mbarrier"
        )
    ),
    threads=("0-31",),
    **ENDS,
)
fault(
    "ring_consumer_never_waits_for_full",
    f"the consumer of a ring waits for its stage ({RACE})",
    two_stages(
        consumer=CONSUME.replace("    WAIT [%full], %phase;", "+   WAIT [%full], %phase;").replace(
            "mbarrier.arrive.shared.b64 _, [%empty];", "mbarrier.arrive.shared.b64 _, [%empty];   // FAULT: mbarrier"
        )
    ),
    threads=("32-63",),
    **ENDS,
)
fault(
    "ring_consumer_forgets_the_parity",
    "the parity of a wait turns each time around the ring (PTX ISA 9.7.13.15.16)",
    two_stages(
        consumer=CONSUME.replace(
            "    WAIT [%full], %phase;",
            "-   WAIT [%full], 0;                     // FAULT: deadlock|mbarrier\n+   WAIT [%full], %phase;",
        ).replace(
            "mbarrier.arrive.shared.b64 _, [%empty];", "mbarrier.arrive.shared.b64 _, [%empty];   // FAULT: mbarrier"
        )
    ),
    **ENDS,
)
fault(
    "ring_of_which_one_consumer_lane_never_releases",
    "a phase completes when all have arrived (PTX ISA 9.7.13.15.2)",
    two_stages(
        producer=PRODUCE.replace("WAIT [%empty], %other;", "WAIT [%empty], %other;               // FAULT: deadlock"),
        consumer=CONSUME.replace(
            "    mbarrier.arrive.shared.b64 _, [%empty];",
            "-   setp.lt.u32 %p3, %lane, 31;\n-   @%p3 mbarrier.arrive.shared.b64 _, [%empty];\n"
            "+   mbarrier.arrive.shared.b64 _, [%empty];",
        ),
    ),
    words=("1 of (the )?32 arrivals", "phase 0"),
    bytes="m 8:16",
    **ENDS,
)
fault(
    "ring_arrives_at_the_wrong_stage",
    "the mbarrier of a stage is the one that its consumer waits on (PTX ISA 9.7.13.15.13)",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 mbarrier.init.shared.b64 [%m+8], 1;
    bar.sync 0;
-   @%is0 mbarrier.arrive.shared.b64 _, [%m+8];
+   @%is0 mbarrier.arrive.shared.b64 _, [%m];
    @!%is32 bra END;
    WAIT [%m], 0;                        // FAULT: deadlock
END:
    """,
    shared="m:16",
    threads=("32",),
    bytes="m 0:8",
    words=("phase 0", "1 of (the )?1 arrival"),
)
fault(
    "ring_waits_while_the_predicate_holds",
    "the predicate of test_wait says that the phase is complete: loop until it holds (PTX ISA 9.7.13.15.16)",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
    @%is0 st.shared.b32 [%s], 5;         // FAULT: race
    @%is0 mbarrier.arrive.shared.b64 _, [%m];
    @!%is32 bra END;
AGAIN:
    mbarrier.test_wait.parity.shared.b64 %p0, [%m], 0;     // FAULT: endless|deadlock
-   @%p0 bra AGAIN;                      // FAULT: endless|deadlock
+   @!%p0 bra AGAIN;
    ld.shared.b32 %r0, [%s];             // FAULT: race|poison
END:
    """,
    shared="s:4 m:8",
    threads=("32",),
)

fault(
    "ring_of_bulk_loads_without_empty",
    f"a bulk load into a stage that is still read ({RACE})",
    ring(
        stages=2,
        rounds=7,
        full=1,
        empty=1,
        producer=f"""    @!%is0 bra END;
+   WAIT [%empty], %other;
    mad.wide.u32 %d0, %k, 128, %A;
    mbarrier.arrive.expect_tx.shared.b64 _, [%full], 128;  // FAULT: mbarrier
    {G2S} [%stage], [%d0], 128, [%full];     // FAULT: race|async
""",
        consumer=CONSUME.replace(
            "    mbarrier.arrive.shared.b64 _, [%empty];\n",
            "    bar.warp.sync 0xffffffff;\n    @%is32 mbarrier.arrive.shared.b64 _, [%empty];\n",
        ).replace("race|poison", "race|poison|async"),
    ),
    **ENDS,
)
fault(
    "ring_released_by_one_lane_before_the_others_have_read",
    f"lane 0 arrives for its warp without bar.warp.sync ({RACE})",
    ring(
        stages=1,
        rounds=3,
        full=32,
        empty=1,
        producer=PRODUCE,
        consumer=CONSUME.replace(
            "    mbarrier.arrive.shared.b64 _, [%empty];\n",
            "+   bar.warp.sync 0xffffffff;\n    @%is32 mbarrier.arrive.shared.b64 _, [%empty];\n",
        ),
    ),
    threads=("0-31", "33-63"),
    bytes="s 0:128",
    **(ENDS | {"gives": {}, "shared": "s:128 m:16"}),
)

# ------------------------------------------------------------------------------------------------ cp.async, again

fault(
    "cp_async_commit_before_the_copies",
    "commit_group closes the group of what was issued before it (PTX ISA 9.7.9.25.3.2)",
    """
-   cp.async.commit_group;
    cp.async.ca.shared.global [%st], [%At], 4;
+   cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.b32 %r0, [%st];            // FAULT: async
    cp.async.wait_all;
    """,
    shared="s:128",
    block=32,
    bytes="s 0:128",
)
fault(
    "cp_async_of_what_another_thread_just_wrote",
    f"cp.async reads global memory like a load ({RACE})",
    """
    st.global.b32 [%At], %t;             // FAULT: race
+   bar.sync 0;
    xor.b32 %r0, %t, 32;
    mad.wide.u32 %d0, %r0, 4, %A;
    cp.async.ca.shared.global [%st], [%d0], 4;     // FAULT: race
    cp.async.wait_all;
    """,
    shared="s:256",
    threads=("0-31", "32-63"),
    bytes="A 0:256",
)
fault(
    "cp_async_of_what_another_cta_writes",
    f"cp.async reads global memory like a load ({RACE})",
    """
    @%c0 st.global.b32 [%At], %t;        // FAULT: race
-   add.u64 %d0, %At, 0;
+   add.u64 %d0, %At, 128;
    @%c1 cp.async.ca.shared.global [%st], [%d0], 4;        // FAULT: race
    cp.async.wait_all;
    """,
    shared="s:128",
    grid=2,
    block=32,
    threads=("0-31@0", "0-31@1"),
    bytes="A 0:128",
)
fault(
    "cp_async_source_overwritten_by_another_thread",
    "the source of a copy is not written before the copy is done (PTX ISA 9.7.9.25.1)",
    """
    @%is0 cp.async.ca.shared.global [%s], [%A], 4;         // FAULT: race|async
+   cp.async.wait_all;
    bar.sync 0;
    @%is32 st.global.b32 [%A], 0;        // FAULT: race|async
    cp.async.wait_all;
    """,
    shared="s:16",
    threads=("32",),
    bytes="A 0:4",
)

# ------------------------------------------------------------------------------------------------ matrices

fault(
    "race_matrix_load_before_the_barrier",
    f"ldmatrix reads the rows that other lanes have stored ({RACE})",
    """
    mad.lo.u32 %r0, %t, 16, %s;
    st.shared.v4.b32 [%r0], {%t, %t, %t, %t};      // FAULT: race
+   bar.warp.sync 0xffffffff;
    xor.b32 %r1, %t, 1;
    mad.lo.u32 %r1, %r1, 16, %s;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r1];  // FAULT: race
    """,
    shared="s:512",
    block=32,
    bytes="s 0:512",
    threads=("0-31",),
)
fault(
    "alignment_matrix_rows",
    "row addresses of ldmatrix are multiples of 16 (PTX ISA 9.7.14.5.15)",
    """
    mad.lo.u32 %r0, %t, 16, %s;
    st.shared.v4.b32 [%r0], {%t, %t, %t, %t};
    @%is0 st.shared.v4.b32 [%r0+512], {%t, %t, %t, %t};
    bar.warp.sync 0xffffffff;
-   add.u32 %r0, %r0, 8;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r0];  // FAULT: alignment
    """,
    shared="s:528",
    block=32,
)
fault(
    "aligned_matrix_load_by_half_a_warp",
    "ldmatrix.sync.aligned: all threads of the warp execute it (PTX ISA 9.7.14.5.15)",
    """
    mad.lo.u32 %r0, %t, 16, %s;
    st.shared.v4.b32 [%r0], {%t, %t, %t, %t};
    bar.warp.sync 0xffffffff;
-   setp.lt.u32 %p0, %t, 16;
+   setp.lt.u32 %p0, %t, 32;
    @%p0 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r0];     // FAULT: aligned|barrier
    bar.sync 0;                          // FAULT: aligned|barrier
    """,
    shared="s:512",
    block=32,
)

# ------------------------------------------------------------------------------------------------ proxies, bulk copies

fault(
    "bulk_fence_by_the_issuer_before_the_barrier",
    PROXY + "; the issuer's fence comes before it knows of the others' writes",
    """
    st.shared.b32 [%st], %t;
-   @%is0 fence.proxy.async.shared::cta;
+   fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%is0 bra END;
"""
    + f"    {S2G} [%A], [%s], 128;               // FAULT: proxy\n"
    + """    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
END:
""",
    threads=("0", "1-31"),
    bytes="s 4:128",
    **STORE,
)
fault(
    "bulk_membar_instead_of_a_proxy_fence",
    PROXY + "; membar orders within the generic proxy",
    to_global(
        f"    {S2G} [%A], [%s], 128;               // FAULT: proxy\n"
        "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n",
        fence="-   membar.gl;\n+   fence.proxy.async.shared::cta;\n",
    ),
    bytes="s 0:128",
    **STORE,
)
fault(
    "bulk_fence_after_the_copy",
    PROXY + "; a fence behind the copy is too late",
    to_global(
        f"    {S2G} [%A], [%s], 128;               // FAULT: proxy\n-   fence.proxy.async.shared::cta;\n"
        "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n",
        fence="+   fence.proxy.async.shared::cta;\n",
    ),
    bytes="s 0:128",
    **STORE,
)
fault(
    "bulk_load_of_global_memory_just_written",
    PROXY + "; global memory too",
    from_global(
        "    @%is0 st.global.b32 [%A+4], 5;\n+   fence.proxy.async;\n"
        + ANNOUNCE
        + f"    @%is0 {G2S} [%s], [%A], 128, [%m];  // FAULT: proxy\n    WAIT [%m], 0;\n"
    ),
    shared="s:128 m:8",
    arrays="A:32",
    block=32,
    bytes="A 4:8",
)
fault(
    "bulk_load_of_global_memory_that_another_cta_writes",
    RACE,
    from_global(
        "-   setp.eq.and.u32 %p0, %t, 1, %c1;\n-   @%p0 st.global.b32 [%A+4], 5;   // FAULT: race\n"
        + ANNOUNCE
        + f"    @%is0 {G2S} [%s], [%A], 128, [%m];  // FAULT: race|proxy\n    WAIT [%m], 0;\n"
    ),
    shared="s:128 m:8",
    arrays="A:32",
    block=32,
    grid=2,
    bytes="A 4:8",
)
fault(
    "bulk_two_loads_to_the_same_bytes",
    "bulk copies are not ordered with each other (PTX ISA 8.9.1.1)",
    from_global(
        "    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 192;\n"
        + LOAD
        + f"-   @%is0 {G2S} [%s+64], [%A], 64, [%m];   // FAULT: async|race\n"
        + f"+   @%is0 {G2S} [%s+128], [%A], 64, [%m];\n    WAIT [%m], 0;\n"
    ),
    shared="s:192 m:8",
    arrays="A:32",
    block=32,
    bytes="s 64:128",
)
fault(
    "bulk_two_stores_to_the_same_bytes",
    "bulk copies are not ordered with each other (PTX ISA 8.9.1.1)",
    to_global(
        f"    {S2G} [%A], [%s], 128;\n-   {S2G} [%A+64], [%s], 64;             // FAULT: async|race\n"
        "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n"
    ),
    bytes="A 64:128",
    **STORE,
)
fault(
    "bulk_store_source_overwritten_by_another_thread",
    "the source of a bulk store is free after its group was waited for (PTX ISA 9.7.9.25.4.1)",
    to_global(
        f"    {S2G} [%A], [%s], 128;               // FAULT: async|race\n    cp.async.bulk.commit_group;\n"
        "+   cp.async.bulk.wait_group.read 0;\n"
    )
    + "    bar.sync 0;\n    @%is5 st.shared.b32 [%s], 7;         // FAULT: async|race\n"
    + "    @%is0 cp.async.bulk.wait_group 0;\n",
    bytes="s 0:4",
    threads=("5",),
    **STORE,
)
fault(
    "bulk_store_and_an_ordinary_store",
    f"a bulk store and another CTA's store ({RACE})",
    to_global(
        f"-   @%c0 {S2G} [%A], [%s], 128;          // FAULT: race|async\n"
        f"+   @%c0 {S2G} [%B], [%s], 128;\n"
        "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n"
    )
    + "    setp.eq.and.u32 %p0, %t, 3, %c1;\n    @%p0 st.global.b32 [%A+8], 7;        // FAULT: race|async\n",
    bytes="A 8:12",
    grid=2,
    **STORE,
)
fault(
    "store_async_read_before_the_wait",
    "st.async is done when its mbarrier says so (PTX ISA 9.7.9.12)",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    @%is0 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {SYNC}
    xor.b32 %r3, %rank, 1;
    mapa.shared::cluster.u32 %r0, %st, %r3;
    mapa.shared::cluster.u32 %r1, %m, %r3;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r0], %t, [%r1];
-   ld.shared.b32 %r4, [%st];            // FAULT: async|poison|race
    WAIT.acquire.cluster [%m], 0;
    ld.shared.b32 %r4, [%st];
    {SYNC}
    """,
    shared="s:128 m:8",
    bytes="s 0:128",
    **PAIR,
)
fault(
    "bulk_multicast_to_a_cta_that_does_not_expect_it",
    "each destination of a multicast counts the bytes on its own mbarrier (PTX ISA 9.7.9.25.4.1)",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
-   setp.eq.and.u32 %p1, %t, 0, %k0;
+   setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;
    {SYNC}
    mov.b16 %h0, 3;
    setp.eq.and.u32 %p0, %t, 0, %k0;
    @%p0 {G2S}.multicast::cluster [%s], [%A], 128, [%m], %h0;      // FAULT: lifetime|async
    WAIT [%m], 0;                        // FAULT: deadlock
    {SYNC}
    """,
    shared="s:128 m:8",
    arrays="A:32",
    **PAIR,
)
fault(
    "remote_atomics_of_cta_scope",
    "atomics on the shared memory of another CTA need .cluster scope (PTX ISA 8.5, 8.7.2)",
    f"""
    st.shared.b32 [%s], 0;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 0;
-   red.relaxed.cta.shared::cluster.add.u32 [%r0], 1;      // FAULT: race
+   red.relaxed.cluster.shared::cluster.add.u32 [%r0], 1;
    {SYNC}
    """,
    shared="s:4",
    block=1,
    grid=2,
    cluster=2,
    threads=("0@0", "0@1"),
    bytes="s 0:4",
    words=("scope",),
)
fault(
    "cluster_barrier_by_one_warp_of_each_cta",
    "all threads of the cluster that have not exited arrive (PTX ISA 9.7.13.4)",
    """
    @%w1 bra MEET;
-   barrier.cluster.arrive.aligned;      // FAULT: barrier
-   barrier.cluster.wait.aligned;        // FAULT: barrier
MEET:
    bar.sync 0;                          // FAULT: barrier
    """,
    block=64,
    grid=2,
    cluster=2,
)
fault(
    "race_shared_volatile_and_plain",
    f"a volatile store and an ordinary load of the same word ({RACE})",
    """
    @%is0 st.volatile.shared.b32 [%s], 1;          // FAULT: race
-   @%is32 ld.shared.b32 %r0, [%s];      // FAULT: race|poison
+   bar.sync 0;
+   @%is32 ld.shared.b32 %r0, [%s];
    """,
    shared="s:4",
    threads=("32",),
    bytes="s 0:4",
)

# ------------------------------------------------------------------------------------------------ tensor memory

fault(
    "tensor_address_read_without_a_barrier",
    f"alloc stores the address; other warps read it after a barrier ({RACE})",
    f"""
    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;    // FAULT: race
+   bar.sync 0;
+   tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];          // FAULT: race|poison
    bar.sync 0;
    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;
    """,
    shared="h:4",
    block=64,
    target="sm_100a",
    bytes="h 0:4",
)

fault(
    "tensor_two_warps_of_one_lane_group",
    f"warps 0 and 4 reach the same lanes ({RACE})",
    f"""
    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];
    and.b32 %r2, %t, 96;
    shl.b32 %r2, %r2, 16;
    add.u32 %r2, %r2, %taddr;
    @%w0 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {{%t}};      // FAULT: race|async
-   @%w4 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {{%t}};      // FAULT: race|async
+   @%w4 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2+1], {{%t}};
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;
    """,
    shared="h:4",
    block=160,
    target="sm_100a",
    threads=("0-31", "128-159"),
    words=("column",),
)
fault(
    "tensor_handed_over_without_fences",
    "what one warp stored another reads: before_thread_sync, barrier, after_thread_sync (PTX ISA 9.7.16.6.4)",
    f"""
    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];
    and.b32 %r2, %t, 96;
    shl.b32 %r2, %r2, 16;
    add.u32 %r2, %r2, %taddr;
    @!%w0 bra MEET;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {{%t}};
    tcgen05.wait::st.sync.aligned;
+   tcgen05.fence::before_thread_sync;
MEET:
    bar.sync 0;
    @!%w4 bra OUT;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r4}}, [%r2];          // FAULT: proxy|race
    tcgen05.wait::ld.sync.aligned;
OUT:
    tcgen05.fence::before_thread_sync;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;
    """,
    shared="h:4",
    block=160,
    target="sm_100a",
    words=("before_thread_sync",),
)

# ------------------------------------------------------------------------------------------------ spaces

fault(
    "bounds_constant",
    "an access outside the memory of its variable is undefined (PTX ISA 5.1.3)",
    """
    mov.u64 %d0, table;
-   ld.const.b32 %r0, [%d0+8];           // FAULT: bounds
+   ld.const.b32 %r0, [%d0+4];
    """,
    module=".const .align 4 .u32 table[2] = {1, 2};",
    block=1,
    bytes="table 8:12",
)
fault(
    "bounds_parameter",
    "an access outside a parameter is undefined (PTX ISA 5.1.6)",
    """
-   ld.param.b64 %d0, [A+8];             // FAULT: bounds|ptx
+   ld.param.b64 %d0, [A];
    """,
    block=1,
)
fault(
    "bounds_atomic",
    "an access outside the memory of its variable is undefined (PTX ISA 5.1)",
    """
-   red.global.add.u32 [%A+256], 1;      // FAULT: bounds
+   red.global.add.u32 [%A+252], 1;
    """,
    block=1,
    bytes="A 256:260",
)
fault(
    "poison_through_a_copy",
    "a copy of what was never written is as poisoned (PTX ISA 5.1.7)",
    between_ctas(
        FILL.replace("    st.shared.v4.b32 [%s+48]", "+   st.shared.v4.b32 [%s+48]")
        + FENCE
        + f"    {S2S} [%r0], [%s], 64, [%r1];     // FAULT: poison\n",
        EXPECT + TAKE,
    ),
    bytes="s 48:64",
    **SENT,
)
fault(
    "poison_store_of_a_register",
    "a register has no value before it is written (PTX ISA 5.1.1)",
    """
    setp.eq.u32 %p0, %lane, 0;
-   @%p0 mov.b32 %r0, 1;
+   mov.b32 %r0, 1;
    st.shared.b32 [%st], %r0;            // FAULT: poison
    """,
    shared="s:128",
    block=32,
    threads=("1-31",),
    words=("%r0",),
)
fault(
    "bulk_load_of_what_another_cta_published",
    PROXY + "; acquired data are of the generic proxy still",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    @!%is0 bra END;
    @%c1 bra TAKE;
    st.global.v4.b32 [%A], {{5, 6, 7, 8}};
    st.release.gpu.global.b32 [%Z], 1;
    bra END;
TAKE:
    SPIN ld.acquire.gpu.global.b32 [%Z], 1;
+   fence.proxy.async;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 16;
    {G2S} [%s], [%A], 16, [%m];          // FAULT: proxy
    WAIT [%m], 0;
    ld.shared.b32 %r0, [%s+4];
    st.global.b32 [%B], %r0;
END:
    """,
    shared="s:16 m:8",
    arrays="A:4 B:1 Z:1",
    grid=2,
    block=32,
    threads=("0@0", "0@1"),
    bytes="A 0:16",
    gives={"B": 6},
)
fault(
    "bulk_store_published_without_its_wait",
    "a bulk store that was not waited for is not published by a release (PTX ISA 9.7.9.25.4)",
    f"""
    @%c1 bra TAKE;
    st.shared.b32 [%st], %t;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @!%is0 bra END;
    {S2G} [%A], [%s], 128;               // FAULT: race|async
    cp.async.bulk.commit_group;
-   cp.async.bulk.wait_group.read 0;
+   cp.async.bulk.wait_group 0;
    st.release.gpu.global.b32 [%Z], 1;
    cp.async.bulk.wait_group 0;
    bra END;
TAKE:
    SPIN ld.acquire.gpu.global.b32 [%Z], 1;
    ld.global.b32 %r0, [%At];            // FAULT: race|async
END:
    """,
    shared="s:128",
    arrays="A:32 Z:1",
    grid=2,
    block=32,
    threads=("0-31@1",),
    bytes="A 0:128",
)
fault(
    "scope_cta_fence_before_a_remote_flag",
    f"a flag in another CTA's shared memory needs a fence of cluster scope ({RACE})",
    f"""
    st.shared.b32 [%s+4], 0;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 0;
    @%k0 bra TAKE;
    st.shared::cluster.b32 [%r0], 7;     // FAULT: race
-   fence.acq_rel.cta;
+   fence.acq_rel.cluster;
    st.relaxed.cluster.shared::cluster.b32 [%r0+4], 1;
    bra END;
TAKE:
    SPIN ld.acquire.cluster.shared.b32 [%s+4], 1;
    ld.shared.b32 %r1, [%s];             // FAULT: race|poison
END:
    {SYNC}
    """,
    shared="s:8",
    grid=2,
    cluster=2,
    block=1,
    threads=("0@0", "0@1"),
    bytes="s 0:4",
    words=("scope",),
)
fault(
    "bulk_load_over_a_store_in_flight",
    "a stage is refilled after its bulk store has been read (PTX ISA 9.7.9.25.4.1)",
    from_global(
        "    st.shared.b32 [%st], %t;\n    fence.proxy.async.shared::cta;\n    bar.sync 0;\n    @!%is0 bra END;\n"
        f"    {S2G} [%B], [%s], 128;               // FAULT: async|race\n    cp.async.bulk.commit_group;\n"
        "+   cp.async.bulk.wait_group.read 0;\n"
        "    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;\n"
        f"    {G2S} [%s], [%A], 128, [%m];         // FAULT: async|race\n    WAIT [%m], 0;\n"
        "    cp.async.bulk.wait_group 0;\nEND:\n"
    ),
    shared="s:128 m:8",
    arrays="A:32 B:32",
    block=32,
    threads=("0",),
    bytes="s 0:128",
    gives={"B": lambda i: i},
)
fault(
    "bulk_store_of_a_tile_that_is_still_loading",
    "a stage is stored after its bulk load was waited for (PTX ISA 9.7.9.25.4.1)",
    from_global(
        "    @!%is0 bra END;\n"
        "    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 128;\n"
        f"    {G2S} [%s], [%A], 128, [%m];\n+   WAIT [%m], 0;\n"
        f"    {S2G} [%B], [%s], 128;               // FAULT: async|race|poison\n    cp.async.bulk.commit_group;\n"
        "    cp.async.bulk.wait_group 0;\n    WAIT [%m], 0;\nEND:\n"
    ),
    shared="s:128 m:8",
    arrays="A:32 B:32",
    block=32,
    threads=("0",),
    bytes="s 0:128",
    gives={"B": lambda i: i + 1},
)
fault(
    "tensor_copy_of_a_tile_that_is_still_loading",
    "tcgen05.cp reads its source after the bulk load was waited for (PTX ISA 9.7.9.25.4.1)",
    f"""
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 mbarrier.init.shared.b64 [%m+8], 1;
    @%is0 fence.mbarrier_init.release.cluster;
    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    ld.shared.b32 %taddr, [%h];
    shr.u32 %r1, %s, 4;
    cvt.u64.u32 %d0, %r1;
    or.b64 %d0, %d0, 0x400800000000;
    @!%is0 bra MEET;
    mbarrier.arrive.expect_tx.shared.b64 _, [%m], 512;
    {G2S} [%s], [%A], 512, [%m];
+   WAIT [%m], 0;
    tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;       // FAULT: async|race|poison
    tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m+8];
MEET:
    bar.warp.sync 0xffffffff;
    WAIT [%m], 0;
    WAIT [%m+8], 0;
    bar.sync 0;
    tcgen05.fence::after_thread_sync;
    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;
    """,
    shared="s:512@1024 m:16 h:4",
    arrays="A:128",
    block=32,
    target="sm_100a",
    threads=("0",),
    bytes="s 0:512",
)
