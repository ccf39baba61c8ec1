"""Races in shared, remote shared and global memory: within a warp, between warps, CTAs and ranks of a cluster."""

from .model import fault

RACE = "conflicting accesses with nothing that orders them (PTX ISA 8.7.1)"
WARP = "the lanes of a warp are ordered by bar.warp.sync and no less (PTX ISA 9.7.13.2, 8.5)"
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"

# ------------------------------------------------------------------------------------------------ shared

fault(
    "race_shared_write_write_within_a_warp",
    RACE,
    """
    setp.lt.u32 %p0, %t, 2;
-   @%p0 st.shared.b32 [%s], %t;         // FAULT: race
+   @%is0 st.shared.b32 [%s], %t;
    """,
    shared="s:16",
    block=32,
    threads=("0", "1"),
    bytes="s 0:4",
)
fault(
    "race_shared_write_write_between_warps",
    RACE,
    """
    @%is3 st.shared.b32 [%s+8], 1;       // FAULT: race
+   bar.sync 0;
    @%is40 st.shared.b32 [%s+8], 2;      // FAULT: race
    """,
    shared="s:16",
    threads=("3", "40"),
    bytes="s 8:12",
)
fault(
    "race_shared_write_read_within_a_warp",
    WARP,
    """
    st.shared.b32 [%st], %t;             // FAULT: race
+   bar.warp.sync 0xffffffff;
    xor.b32 %r0, %t, 1;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];            // FAULT: race
    st.global.b32 [%At], %r2;
    """,
    shared="s:128",
    arrays="A:32",
    block=32,
    threads=("0-31",),
    bytes="s 0:128",
    gives={"A": lambda i: i ^ 1},
)
fault(
    "race_shared_write_read_between_warps",
    RACE,
    """
    st.shared.b32 [%st], %t;             // FAULT: race
-   bar.warp.sync 0xffffffff;
+   bar.sync 0;
    xor.b32 %r0, %t, 32;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];            // FAULT: race
    st.global.b32 [%At], %r2;
    """,
    shared="s:256",
    threads=("0-31", "32-63"),
    bytes="s 0:256",
    gives={"A": lambda i: i ^ 32},
)
fault(
    "race_shared_read_write_next_round",
    RACE + "; the next round overwrites what others still read",
    """
    mov.b32 %r3, 0;
LOOP:
    @%is0 st.shared.b32 [%s], %r3;       // FAULT: race
    bar.sync 0;
    ld.shared.b32 %r0, [%s];             // FAULT: race
+   bar.sync 0;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p0, %r3, 3;
    @%p0 bra LOOP;
    """,
    shared="s:16",
    threads=("0", "1-63"),
    bytes="s 0:4",
)
fault(
    "race_shared_overwrite_of_a_broadcast",
    RACE + "; many readers, then a writer",
    """
    @%is0 st.shared.b32 [%s], 1;
    bar.sync 0;
    ld.shared.b32 %r0, [%s];             // FAULT: race
+   bar.sync 0;
    @%is63 st.shared.b32 [%s], 2;        // FAULT: race
    """,
    shared="s:16",
    threads=("63", "0-62"),
    bytes="s 0:4",
)
fault(
    "race_shared_bytes_of_one_vector",
    RACE + "; one byte of a vector",
    """
    @%is0 st.shared.v4.b32 [%s], {1, 2, 3, 4};     // FAULT: race
+   bar.sync 0;
    @%is32 st.shared.b8 [%s+13], 9;      // FAULT: race
    """,
    shared="s:16",
    threads=("0", "32"),
    bytes="s 13:14",
)
fault(
    "race_shared_overlapping_vectors",
    RACE + "; vectors that overlap by a word",
    """
    @%is0 st.shared.v2.b32 [%s], {1, 2};           // FAULT: race
    setp.eq.u32 %p0, %t, 1;
-   @%p0 st.shared.v2.b32 [%s+0], {3, 4};          // FAULT: race
+   @%p0 st.shared.v2.b32 [%s+8], {3, 4};
    """,
    shared="s:16",
    block=32,
    threads=("0", "1"),
    bytes="s 0:8",
)
fault(
    "race_shared_same_value",
    RACE + "; that the values are equal makes no difference",
    """
    @%is0 st.shared.b32 [%s], 7;         // FAULT: race
-   @%is32 st.shared.b32 [%s], 7;        // FAULT: race
    """,
    shared="s:16",
    threads=("0", "32"),
    bytes="s 0:4",
)
fault(
    "race_shared_atomic_and_plain",
    RACE + "; an atomic and an ordinary store",
    """
    @%is0 st.shared.b32 [%s], 0;
    bar.sync 0;
    @%is1 atom.shared.add.u32 %r0, [%s], 1;        // FAULT: race
+   bar.sync 0;
    @%is33 st.shared.b32 [%s], 5;        // FAULT: race
    """,
    shared="s:16",
    threads=("1", "33"),
    bytes="s 0:4",
)
fault(
    "race_shared_atomic_and_plain_read",
    RACE + "; a plain read of a counter that others still add to",
    """
    @%is0 st.shared.b32 [%s], 0;
    bar.sync 0;
    @%is40 red.shared.add.u32 [%s], 1;   // FAULT: race
+   bar.sync 0;
    @%is0 ld.shared.b32 %r0, [%s];       // FAULT: race
    """,
    shared="s:16",
    threads=("0", "40"),
    bytes="s 0:4",
)
fault(
    "race_shared_reduction_without_the_last_barrier",
    RACE + "; a tree reduction with one step unguarded",
    """
    st.shared.b32 [%st], %t;
    bar.sync 0;
    mov.b32 %r0, 32;
LOOP:
    setp.lt.u32 %p0, %t, %r0;
    mad.lo.u32 %r1, %r0, 4, %st;
    @%p0 ld.shared.b32 %r2, [%r1];       // FAULT: race
    @%p0 ld.shared.b32 %r3, [%st];
    @%p0 add.u32 %r3, %r3, %r2;
    @%p0 st.shared.b32 [%st], %r3;       // FAULT: race
+   bar.sync 0;
    shr.u32 %r0, %r0, 1;
    setp.gt.u32 %p1, %r0, 0;
    @%p1 bra LOOP;
    @%is0 st.global.b32 [%A], %r3;
    """,
    shared="s:256",
    threads=("0-31", "0-31"),
    bytes="s 0:256",
    gives={"A": lambda i: [2016, *range(2, 65)]},
)
fault(
    "race_shared_named_barrier_of_the_other_half",
    "a named barrier orders its participants alone (PTX ISA 9.7.13.1)",
    """
    st.shared.b32 [%st], %t;             // FAULT: race
-   add.u32 %r0, %warp, 1;
-   bar.sync %r0, 32;
+   bar.sync 1, 64;
    xor.b32 %r0, %t, 32;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];            // FAULT: race
    """,
    shared="s:256",
    threads=("0-31", "32-63"),
    bytes="s 0:256",
)
fault(
    "race_shared_arrive_is_not_a_wait",
    "bar.arrive does not wait: who arrives knows nothing of the others (PTX ISA 9.7.13.1)",
    """
    st.shared.b32 [%st], %t;             // FAULT: race
-   @%w0 bar.sync 1, 64;
-   @%w1 bar.arrive 1, 64;
+   bar.sync 1, 64;
    ld.shared.b32 %r0, [%s];             // FAULT: race
    """,
    shared="s:256",
    threads=("0", "32-63"),
    bytes="s 0:4",
)
fault(
    "race_shared_volatile_is_no_order",
    "volatile accesses order nothing else (PTX ISA 8.2, 9.7.9.8: as relaxed with system scope)",
    """
    @%is0 st.shared.b32 [%s+4], 0;
    bar.sync 0;
    @!%is0 bra READ;
    st.shared.b32 [%s], 5;               // FAULT: race
-   st.volatile.shared.b32 [%s+4], 1;
+   st.release.cta.shared.b32 [%s+4], 1;
    bra END;
READ:
    @!%is32 bra END;
-   SPIN ld.volatile.shared.b32 [%s+4], 1;
+   SPIN ld.acquire.cta.shared.b32 [%s+4], 1;
    ld.shared.b32 %r0, [%s];             // FAULT: race
END:
    """,
    shared="s:16",
    threads=("0", "32"),
    bytes="s 0:4",
)
fault(
    "race_shared_warp_sync_of_too_few",
    WARP + "; with a mask of those that take part",
    """
    setp.lt.u32 %p0, %t, 16;
    st.shared.b32 [%st], %t;             // FAULT: race
-   @%p0 bar.warp.sync 0xffff;
+   bar.warp.sync 0xffffffff;
    @%is0 ld.shared.b32 %r0, [%s+64];    // FAULT: race
    """,
    shared="s:128",
    block=32,
    threads=("0", "16"),
    bytes="s 64:68",
)
fault(
    "race_shared_warp_masks_of_two_halves",
    WARP + "; each half synchronises with itself",
    """
    st.shared.b32 [%st], %t;             // FAULT: race
    setp.lt.u32 %p0, %t, 16;
-   @%p0 bra LOW;
-   bar.warp.sync 0xffff0000;
-   bra READ;
-LOW:
-   bar.warp.sync 0xffff;
-READ:
+   bar.warp.sync 0xffffffff;
    xor.b32 %r0, %t, 16;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];            // FAULT: race
    """,
    shared="s:128",
    block=32,
    threads=("0-15", "16-31"),
    bytes="s 0:128",
)
fault(
    "race_shared_after_a_shuffle",
    "shfl.sync exchanges registers and orders no memory (PTX ISA 9.7.9.6)",
    """
    st.shared.b32 [%st], %t;             // FAULT: race
    shfl.sync.idx.b32 %r3, %t, 0, 0x1f, 0xffffffff;
+   bar.warp.sync 0xffffffff;
    xor.b32 %r0, %t, 1;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];            // FAULT: race
    """,
    shared="s:128",
    block=32,
    threads=("0-31",),
    bytes="s 0:128",
)
fault(
    "race_shared_2d_block",
    RACE + "; rows of a block of two dimensions are warps",
    """
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %tid.y;
    mad.lo.u32 %r2, %r1, 32, %r0;
    mad.lo.u32 %r3, %r2, 4, %s;
    st.shared.b32 [%r3], %r2;            // FAULT: race
+   bar.sync 0;
    xor.b32 %r2, %r2, 32;
    mad.lo.u32 %r3, %r2, 4, %s;
    ld.shared.b32 %r4, [%r3];            // FAULT: race
    """,
    shared="s:256",
    block=(32, 2),
    threads=("0-31", "32-63"),
    bytes="s 0:256",
)
fault(
    "race_shared_transposed_tile",
    RACE + "; a transpose through shared memory",
    """
    mov.b32 %r5, 0;
LOOP:
    mad.lo.u32 %r0, %r5, 128, %st;
    st.shared.b32 [%r0], %t;             // FAULT: race
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p0, %r5, 32;
    @%p0 bra LOOP;
+   bar.sync 0;
    mad.lo.u32 %r0, %t, 128, %s;
    ld.shared.b32 %r1, [%r0+4];          // FAULT: race
    st.global.b32 [%At], %r1;
    """,
    shared="s:4096",
    arrays="A:32",
    block=32,
    threads=("1", "0-31"),
    bytes="s 0:4096",
    gives={"A": 1},
)

# ------------------------------------------------------------------------------------------------ remote shared

REMOTE = "the shared memory of another CTA is ordered by the cluster barrier (PTX ISA 9.7.13.4)"
fault(
    "race_remote_write_then_local_read",
    REMOTE,
    f"""
    st.shared.b32 [%st], 0;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 1;
    setp.eq.and.u32 %p0, %t, 0, %k0;
    @%p0 st.shared::cluster.b32 [%r0], 7;          // FAULT: race
-   bar.sync 0;
+   {SYNC}
    setp.eq.and.u32 %p1, %t, 3, %k1;
    @%p1 ld.shared.b32 %r1, [%s];        // FAULT: race
    {SYNC}
    """,
    shared="s:128",
    block=32,
    grid=2,
    cluster=2,
    threads=("0@0", "3@1"),
    bytes="s 0:4",
)
fault(
    "race_remote_read_then_local_write",
    REMOTE + "; several remote readers, a barrier of the own CTA, then the owner writes",
    f"""
    st.shared.b32 [%st], 0;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 1;
    @%k0 ld.shared::cluster.b32 %r1, [%r0];        // FAULT: race
-   bar.sync 0;
+   {SYNC}
    setp.eq.and.u32 %p1, %t, 3, %k1;
    @%p1 st.shared.b32 [%s], 1;          // FAULT: race
    {SYNC}
    """,
    shared="s:128",
    block=32,
    grid=2,
    cluster=2,
    threads=("0-31@0", "3@1"),
    bytes="s 0:4",
)
fault(
    "race_remote_writes_of_two_ranks",
    REMOTE + "; two ranks write to a third",
    f"""
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 2;
-   setp.lt.u32 %p0, %rank, 2;
+   setp.lt.u32 %p0, %rank, 1;
    @%p0 st.shared::cluster.b32 [%r0], %rank;      // FAULT: race
    {SYNC}
    """,
    shared="s:16",
    block=1,
    grid=3,
    cluster=3,
    threads=("0@0", "0@1"),
    bytes="s 0:4",
)
fault(
    "race_remote_no_barrier_at_the_start",
    "the other CTA of the cluster must have started before its shared memory is used (PTX ISA 2.2.2)",
    f"""
+   {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 1;
    @%k0 st.shared::cluster.b32 [%r0], 7;          // FAULT: lifetime
    {SYNC}
    """,
    shared="s:16",
    block=1,
    grid=2,
    cluster=2,
    threads=("0@0",),
)
fault(
    "race_remote_no_barrier_at_the_end",
    "a CTA must not exit while others still use its shared memory (PTX ISA 2.2.2)",
    f"""
    st.shared.b32 [%s], 1;
    {SYNC}
    xor.b32 %r1, %rank, 1;
    mapa.shared::cluster.u32 %r0, %s, %r1;
    ld.shared::cluster.b32 %r2, [%r0];   // FAULT: lifetime
+   {SYNC}
    """,
    shared="s:16",
    block=1,
    grid=2,
    cluster=2,
)
fault(
    "race_remote_atomic_and_plain",
    REMOTE + "; remote atomics against an ordinary read",
    f"""
    st.shared.b32 [%s], 0;
    {SYNC}
    mapa.shared::cluster.u32 %r0, %s, 0;
    red.relaxed.cluster.shared::cluster.add.u32 [%r0], 1;     // FAULT: race
-   bar.sync 0;
+   {SYNC}
    @%k0 ld.shared.b32 %r1, [%s];        // FAULT: race
    {SYNC}
    """,
    shared="s:16",
    block=1,
    grid=2,
    cluster=2,
    threads=("0@0", "0@1"),
    bytes="s 0:4",
)

# ------------------------------------------------------------------------------------------------ global

fault(
    "race_global_write_write_in_a_warp",
    RACE,
    """
    setp.lt.u32 %p0, %t, 2;
-   @%p0 st.global.b32 [%A], %t;         // FAULT: race
+   @%p0 st.global.b32 [%At], %t;
    """,
    block=32,
    threads=("0", "1"),
    bytes="A 0:4",
)
fault(
    "race_global_write_write_between_warps",
    RACE,
    """
    @%is0 st.global.b32 [%A], 1;         // FAULT: race
+   bar.sync 0;
    @%is32 st.global.b32 [%A], 2;        // FAULT: race
    """,
    threads=("0", "32"),
    bytes="A 0:4",
)
fault(
    "race_global_mirror_without_a_barrier",
    RACE,
    """
    st.global.b32 [%At], %t;             // FAULT: race
+   bar.sync 0;
    sub.u32 %r0, 63, %t;
    mad.wide.u32 %d0, %r0, 4, %A;
    ld.global.b32 %r1, [%d0];            // FAULT: race
    """,
    threads=("0-63",),
    bytes="A 0:256",
)
fault(
    "race_global_in_place_reversal",
    RACE + "; read, then overwritten by another",
    """
    sub.u32 %r0, 63, %t;
    mad.wide.u32 %d0, %r0, 4, %A;
    ld.global.b32 %r1, [%d0];            // FAULT: race
+   bar.sync 0;
    st.global.b32 [%At], %r1;            // FAULT: race
    """,
    threads=("0-63",),
    bytes="A 0:256",
    gives={"A": lambda i: 64 - i},
)
fault(
    "race_global_two_ctas_write",
    RACE + "; CTAs of a grid are not ordered (PTX ISA 2.2)",
    """
-   @%is0 st.global.b32 [%A], %cta;      // FAULT: race
+   mad.wide.u32 %d0, %cta, 4, %A;
+   @%is0 st.global.b32 [%d0], %cta;
    """,
    grid=2,
    threads=("0@0", "0@1"),
    bytes="A 0:4",
)
fault(
    "race_global_cta_reads_what_another_wrote",
    RACE + "; no barrier of a CTA orders another",
    """
    @!%is0 bra END;
    @%c0 st.global.b32 [%A], 5;          // FAULT: race
    bar.warp.sync 1;
-   @%c1 ld.global.b32 %r0, [%A];        // FAULT: race
+   @%c1 ld.global.b32 %r0, [%A+4];
END:
    """,
    grid=2,
    block=32,
    threads=("0@0", "0@1"),
    bytes="A 0:4",
)
fault(
    "race_global_overlapping_tiles",
    RACE + "; tiles that overlap by one row",
    """
-   mad.lo.u32 %r0, %cta, 31, %t;
+   mad.lo.u32 %r0, %cta, 32, %t;
    mad.wide.u32 %d0, %r0, 4, %A;
    st.global.b32 [%d0], %cta;           // FAULT: race
    """,
    grid=2,
    block=32,
    threads=("31@0", "0@1"),
    bytes="A 124:128",
)
fault(
    "race_global_byte_neighbours_are_apart",
    RACE + "; neighbouring bytes do not conflict, one byte does",
    """
    cvt.u64.u32 %d1, %t;
-   shr.u64 %d1, %d1, 1;
    add.u64 %d0, %A, %d1;
    st.global.b8 [%d0], %t;              // FAULT: race
    """,
    arrays="A:64xu8",
    threads=("0-63", "0-63"),
    bytes="A 0:32",
)
fault(
    "race_global_between_ranks",
    RACE + "; a cluster barrier would order them",
    f"""
    @%is0 bra GO;
    bra END;
GO:
    @%k0 st.global.b32 [%A], 5;          // FAULT: race
END:
+   {SYNC}
    setp.eq.and.u32 %p0, %t, 0, %k1;
    @%p0 ld.global.b32 %r0, [%A];        // FAULT: race
    """,
    grid=2,
    cluster=2,
    block=32,
    threads=("0@0", "0@1"),
    bytes="A 0:4",
)
fault(
    "race_global_through_two_parameters",
    RACE + "; one array under two names",
    """
    @%is0 st.global.b32 [%A], 5;         // FAULT: race
+   bar.sync 0;
    add.u64 %d0, %A, 4;
    @%is32 ld.global.b32 %r0, [%d0+-4];  // FAULT: race
    """,
    threads=("0", "32"),
    bytes="A 0:4",
)
fault(
    "race_global_module_variable",
    RACE + "; module-scope variables are shared by the grid",
    """
    mov.u64 %d0, total;
    @%is0 bra GO;
    bra END;
GO:
-   ld.global.b32 %r0, [%d0];            // FAULT: race
-   add.u32 %r0, %r0, 1;
-   st.global.b32 [%d0], %r0;            // FAULT: race
+   red.global.add.u32 [%d0], 1;
END:
    """,
    module=".global .align 4 .u32 total = 0;",
    grid=2,
    threads=("0@0", "0@1"),
    bytes="total 0:4",
)
fault(
    "race_global_generic_store_and_global_load",
    RACE + "; generic addresses are the same bytes",
    """
    cvta.global.u64 %d0, %A;
    @%is0 st.b32 [%d0], 1;               // FAULT: race
+   bar.sync 0;
    @%is32 ld.global.b32 %r0, [%A];      // FAULT: race
    """,
    threads=("0", "32"),
    bytes="A 0:4",
)
fault(
    "race_shared_generic_store_and_shared_load",
    RACE + "; generic addresses are the same bytes",
    """
    mov.u64 %d0, s;
    cvta.shared.u64 %d0, %d0;
    @%is0 st.b32 [%d0], 1;               // FAULT: race
+   bar.sync 0;
    @%is32 ld.shared.b32 %r0, [%s];      // FAULT: race
    """,
    shared="s:16",
    threads=("0", "32"),
    bytes="s 0:4",
)
