"""What programs by others do: waits, shuffles, fences, loads and stores, each fault with the nearest correct program."""

from .model import clean, fault

FENCE = "the init of an mbarrier is made known to the engine that completes on it (PTX ISA 9.7.13.15.9, 9.7.9.25.2)"
GROUP = "all warps of a warpgroup execute the same setmaxnreg (PTX ISA 9.7.19.5)"
ONCE = "test_wait and try_wait may say no: what they guard needs their yes (PTX ISA 9.7.13.15.16)"
READ = "a shuffle reads the lanes that it names (PTX ISA 9.7.9.6)"
G2S = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"

for _name, _wait in {
    "test_wait": "mbarrier.test_wait.shared.b64 %p0, [%m], %d0;",
    "try_wait": "mbarrier.try_wait.shared.b64 %p0, [%m], %d0;",
    "test_wait_parity": "mbarrier.test_wait.parity.shared.b64 %p0, [%m], 0;",
    "try_wait_parity": "mbarrier.try_wait.parity.shared.b64 %p0, [%m], 0;",
}.items():
    fault(
        f"others_one_{_name}_after_all_arrive_at_once",
        ONCE,
        f"""
    @%is0 mbarrier.init.shared.b64 [%m], 64;
    bar.sync 0;
    st.shared.b32 [%st], %t;
    mbarrier.arrive.shared.b64 %d0, [%m];
AGAIN:
    {_wait}
+   @!%p0 bra AGAIN;
    xor.b32 %r0, %t, 63;
    mad.lo.u32 %r0, %r0, 4, %s;
    ld.shared.b32 %r1, [%r0];           // FAULT: race
    st.global.b32 [%At], %r1;
    """,
        shared="s:256 m:8",
        gives={"A": lambda i: 63 - i},
    )

for _name, _init, _fence, _before in (
    ("init", "[%m], 1", "fence.mbarrier_init.release.cluster;", False),
    ("proxy", "[%m], 1", "fence.proxy.async;", False),
    ("proxy_shared", "[%m], 1", "fence.proxy.async.shared::cta;", False),
    ("early", "[%m], 1", "fence.proxy.async;", True),
    ("early_init", "[%m], 1", "fence.mbarrier_init.release.cluster;", True),
):
    for _who, _sync in (("same_thread", ""), ("barrier", "bar.sync 0;"), ("other_thread", "bar.sync 0;")):
        _lane = 32 if _who == "other_thread" else 0
        fault(
            f"others_bulk_copy_{_who}_without_fence_{_name}",
            FENCE,
            f"""
{"-   @%is0 " + _fence if _before else ""}
    @%is0 mbarrier.init.shared.b64 {_init};
+   @%is0 {_fence}
    {_sync}
    @%is{_lane} mbarrier.arrive.expect_tx.shared.b64 _, [%m], 256;
    @%is{_lane} {G2S} [%s], [%A], 256, [%m];  // FAULT: proxy
    bar.sync 0;
    WAIT [%m], 0;
    ld.shared.b32 %r1, [%st];
    st.global.b32 [%Bt], %r1;
    """,
            arrays="A:64 B:64",
            shared="s:256 m:8",
            gives={"B": lambda i: i + 1},
            words=("fence.mbarrier_init",),
            bytes="m 0:8",
        )

fault(
    "others_setmaxnreg_by_one_warp",
    GROUP,
    """
    setp.lt.u32 %p1, %t, 128;
-   @!%w0 bra END;
+   @!%p1 bra END;
    setmaxnreg.dec.sync.aligned.u32 40;  // FAULT: aligned
END:
    """,
    block=256,
    threads=("0-31", "32-127"),
)
fault(
    "others_setmaxnreg_by_all_warps_but_one",
    GROUP,
    """
    setp.eq.u32 %p1, %warp, 6;
    setp.lt.u32 %p2, %warp, 4;
    @%p2 bra END;
-   @%p1 bra END;
    setmaxnreg.inc.sync.aligned.u32 232;  // FAULT: aligned
END:
    """,
    block=256,
    threads=("192",),
)
fault(
    "others_setmaxnreg_of_two_counts_in_a_warpgroup",
    GROUP,
    """
    setp.lt.u32 %p1, %warp, 2;
    @%p1 bra LOW;
-   setmaxnreg.dec.sync.aligned.u32 40;   // FAULT: aligned
+   setmaxnreg.dec.sync.aligned.u32 24;
    bra END;
LOW:
    setmaxnreg.dec.sync.aligned.u32 24;   // FAULT: aligned
END:
    """,
    block=128,
)

for _mode, _set, _operands in (
    ("idx", "%is5", "5, 31"),
    ("up", "%p2", "16, 0"),
    ("down", "%p3", "16, 31"),
    ("bfly", "%p4", "16, 31"),
):
    fault(
        f"others_shuffle_{_mode}_of_what_the_lanes_read_have",
        READ,
        f"""
    setp.lt.u32 %p2, %t, 16;
    setp.ge.u32 %p3, %t, 16;
    setp.lt.u32 %p4, %t, 32;
-   setp.lt.u32 %p5, %t, 3;
-   @%p5 mov.b32 %r1, 7;
+   @{_set} mov.b32 %r1, 7;
    shfl.sync.{_mode}.b32 %r2, %r1, {_operands}, 0xffffffff;  // FAULT: poison
    st.global.b32 [%At], %r2;
    """,
        arrays="A:32",
        block=32,
        gives={"A": 7},
    )

LOADED = "what was never written may be loaded, and not be used (PTX ISA 5.1.6)"
for _name, _faulty, _right, _use in (
    ("stored", "", "@%is99", "{} st.global.b32 [%A], %r1;"),
    ("stored_to_shared", "", "@%is99", "{} st.shared.b32 [%s+4], %r1;"),
    ("moved", "%r1", "%r0", "mov.b32 %r2, {}; st.global.b32 [%A], %r2; mov.b32 %r3, %r1;"),
    ("added", "%r1", "%r0", "add.u32 %r2, {}, 5; st.global.b32 [%A], %r2; add.u32 %r3, %r1, %r1;"),
    ("selected", "%p1", "!%p1", "not.pred %p2, {}; selp.b32 %r2, %r0, %r1, %p2; st.global.b32 [%A], %r2;"),
    ("compared", "or", "and", "setp.lt.u32 %p2, %r1, 7; {}.pred %p3, %p2, %p0; @%p3 st.global.b32 [%A], 1;"),
    ("compared_from_the_left", "7, %r1", "7, %r0", "setp.lt.u32 %p4, %r1, 9; setp.lt.u32 %p3, {}; @!%p3 bra $END; $END:"),
    ("compared_and", "%p1", "%p0", "setp.lt.and.s32 %p3|%p4, %r1, %r0, {}; @%p3 st.global.b32 [%A], 1;"),
    ("compared_or", "!%p1", "%p1", "setp.ltu.or.f32 %p3, %r1, %r0, {}; @%p3 st.global.b32 [%A], 1;"),
    ("masked", "255", "0", "and.b32 %r2, %r1, {}; st.global.b32 [%A], %r2;"),
    ("packed", "%d1", "%d2", "mov.b64 %d1, {{%r0, %r1}}; mov.b64 %d2, {{%r0, %r0}}; st.global.b64 [%A], {};"),
    ("unpacked", "%r3", "%r0", "mov.b64 %d1, {{%r0, %r1}}; mov.b64 {{%r2, %r3}}, %d1; add.u32 %r4, {}, %r0; st.global.b32 [%A], %r4;"),
    ("converted", "%h1", "%h2", "cvt.u16.u32 %h1, %r1; cvt.u16.u32 %h2, %r0; st.global.b16 [%A], {};"),
    ("an_address", "%d1", "%A", "mad.wide.u32 %d1, %r1, 4, %A; ld.global.b32 %r2, [{}];"),
    ("carried", "%r3", "%r0", "add.cc.u32 %r2, %r1, %r0; addc.u32 %r3, %r0, 0; add.cc.u32 %r4, %r0, 1; st.global.b32 [%A], {};"),
    ("divided", "%r2", "%r0", "div.u32 %r2, %r0, %r1; st.global.b32 [%A], {};"),
    ("shuffled", "%r1", "%r0", "shfl.sync.idx.b32 %r2, {}, 0, 31, -1; st.global.b32 [%A], %r2; @%p0 st.global.b32 [%A], %r1;"),
    ("voted", "%p2", "%p1", "setp.eq.u32 %p2, %r1, 3; vote.sync.any.pred %p3, {}, -1;"),
    ("reduced", "%r1", "%r0", "red.global.add.u32 [%A], {}; @%p0 st.global.b32 [%A], %r1;"),
    ("stored_and_loaded", "%p1", "%p0", "st.shared.b32 [%st], %r1; ld.shared.b32 %r2, [%st]; @{} st.global.b32 [%At], %r2;"),
    ("kept_in_local_memory", "%p1", "%p0", "st.local.b32 [own+4], %r1; ld.local.b32 %r2, [own+4]; @{} st.global.b32 [%At], %r2;"),
    ("half_of_a_word", "[%st+2]", "[%st]", "prmt.b32 %r2, %r0, %r1, 0x5410; st.shared.b32 [%st], %r2; ld.shared.b16 %h1, {}; st.global.b16 [%At], %h1;"),
    ("half_of_a_vector", "%h5", "%h4", "mov.b32 {{%h1, %h2}}, %r1; cvt.u16.u32 %h3, %r0; st.shared.v2.b16 [%st], {{%h3, %h1}}; ld.shared.v2.b16 {{%h4, %h5}}, [%st]; st.global.b16 [%At], {};"),
    ("one_of_two_stores", "%p1", "%p0", "mov.b32 {{%h1, %h2}}, %r1; cvt.u16.u32 %h3, %r0; st.shared.b16 [%st], %h3; st.shared.b16 [%st+2], %h1; ld.shared.b16 %h4, [%st]; ld.shared.b16 %h5, [%st+2]; st.global.b16 [%At], %h4; @{} st.global.b16 [%At], %h5;"),
    ("written_over", "@%is99", "", "st.shared.b32 [%st], %r1; {} st.shared.b32 [%st], %r0; ld.shared.b32 %r2, [%st]; st.global.b32 [%At], %r2;"),
    ("added_to", "@%is99", "", "st.shared.b32 [%st], %r1; {} st.shared.b32 [%st], %r0; red.shared.add.u32 [%st], 1;"),
    ("copied_out", "@%is99", "", "st.shared.b32 [%st], %r1; {} st.shared.b32 [%st], %r0; fence.proxy.async; bar.sync 0; @%is0 cp.async.bulk.global.shared::cta.bulk_group [%A], [%s], 128; @%is0 cp.async.bulk.commit_group; @%is0 cp.async.bulk.wait_group 0;"),
    ("shuffled_by_some", "%p5", "!%p5", "shr.u32 %r6, %t, 2; setp.eq.u32 %p5, %r6, 1; mov.b32 %r5, %r0; @%p5 mov.b32 %r5, %r1; shfl.sync.idx.b32 %r2, %r5, %t, 31, -1; @{} st.global.b32 [%At], %r2;"),
    ("a_row_of_a_product", "%f2", "%f3", "mov.b32 %f0, 0; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f1, %f2, %f3, %f4}}, {{%r1, %r0, %r1, %r0}}, {{%r0, %r0}}, {{%f0, %f0, %f0, %f0}}; st.global.b32 [%At], {};"),
    ("a_column_of_a_product", "%f2", "%f1", "shr.u32 %r6, %t, 2; setp.eq.u32 %p5, %r6, 1; mov.b32 %r5, %r0; @%p5 mov.b32 %r5, %r1; mov.b32 %f0, 0; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f1, %f2, %f3, %f4}}, {{%r0, %r0, %r0, %r0}}, {{%r5, %r0}}, {{%f0, %f0, %f0, %f0}}; st.global.b32 [%At], {};"),
    ("a_summand_of_a_product", "%f4", "%f1", "mov.b32 %f5, %r1; mov.b32 %f0, 0; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f1, %f2, %f3, %f4}}, {{%r0, %r0, %r0, %r0}}, {{%r0, %r0}}, {{%f0, %f0, %f0, %f5}}; st.global.b32 [%At], {};"),
    ("a_row_of_a_matrix", "%h2", "%h1", "shr.u32 %r6, %t, 2; setp.eq.u32 %p5, %r6, 1; mov.b32 %r5, %r0; @%p5 mov.b32 %r5, %r1; mad.lo.u32 %r7, %t, 16, %s; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r7], {{%r5}}; bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {{%r2}}, [%r7]; mov.b32 {{%h1, %h2}}, %r2; st.global.b16 [%At], {};"),
    ("a_count_of_a_barrier", "%r1", "32", "and.b32 %r2, %r1, 0; add.u32 %r1, %r1, 32; bar.sync 0, {};"),
):  # fmt: skip
    fault(
        f"others_loaded_and_{_name}",
        LOADED,
        f"""
    .local .align 4 .b8 own[8];
    setp.ne.u32 %p0, %t, %t;
    setp.eq.u32 %p1, %t, %t;
    mov.b32 %r0, 3;
    ld.shared.b32 %r1, [%s+128];        // FAULT: poison
-   {_use.format(_faulty)}
+   {_use.format(_right)}
    """,
        shared="s:256",
        block=32,
        bytes="s 128:132",
        threads=("0-31",),
    )

fault(
    "others_stores_of_nothing_race",
    "a store is ordered with the loads of other threads, whatever it stores (PTX ISA 8.10)",
    """
    ld.shared.b32 %r1, [%s+256];
    st.shared.b32 [%st], %r1;
-
+   bar.sync 0;
    xor.b32 %r2, %t, 63;
    mad.lo.u32 %r2, %r2, 4, %s;
    ld.shared.b32 %r3, [%r2];            // FAULT: race
    @%is99 st.global.b32 [%A], %r3;
    """,
    shared="s:260",
    bytes="s 0:256",
    threads=("0-63",),
)
fault(
    "others_a_register_of_nothing_goes_through_shared_memory",
    LOADED,
    """
    setp.lt.u32 %p0, %t, 8;
    @%p0 mov.b32 %r0, 5;
    st.shared.b32 [%st], %r0;            // FAULT: poison
    bar.warp.sync -1;
    xor.b32 %r1, %t, 31;
    mad.lo.u32 %r1, %r1, 4, %s;
    ld.shared.b32 %r2, [%r1];
    setp.lt.u32 %p1, %t, 24;
-   @%p1 st.global.b32 [%At], %r2;
+   @!%p1 st.global.b32 [%At], %r2;
    """,
    shared="s:128",
    block=32,
    threads=("0-31",),
    words=("register %r0",),
)
fault(
    "others_a_register_of_nothing_is_shuffled",
    LOADED,
    """
    setp.lt.u32 %p0, %t, 8;
    @%p0 mov.b32 %r0, 5;
    shfl.sync.bfly.b32 %r2, %r0, 31, 31, -1;             // FAULT: poison
    shfl.sync.bfly.b32 %r3, %r0, 16, 31, -1;
    setp.lt.u32 %p1, %t, 24;
-   @%p1 st.global.b32 [%At], %r2;
+   @!%p1 st.global.b32 [%At], %r2;
    """,
    block=32,
    threads=("0-31",),
    words=("register %r0",),
)

clean(
    "others_merge_looks_one_past_its_runs",
    "the next element is loaded before it is known whether there is one, and compared before that is asked",
    """
    mul.lo.u32 %r0, %t, 5;
    and.b32 %r0, %r0, 7;
    setp.lt.u32 %p0, %t, 4;
    sub.u32 %r1, %t, 4;
    selp.b32 %r1, %t, %r1, %p0;
    shl.b32 %r1, %r1, 1;
    @!%p0 add.u32 %r1, %r1, 1;
    st.shared.b32 [%st], %r1;
    bar.sync 0;
    @!%is0 bra END;
    mov.b32 %r2, 0;
    mov.b32 %r3, 4;
    mov.b32 %r4, 0;
    ld.shared.b32 %r5, [%s];
    ld.shared.b32 %r6, [%s+16];
NEXT:
    setp.lt.s32 %p1, %r6, %r5;
    setp.ge.u32 %p2, %r2, 4;
    or.pred %p3, %p1, %p2;
    setp.lt.u32 %p4, %r3, 8;
    and.pred %p5, %p4, %p3;
    selp.b32 %r7, %r6, %r5, %p5;
    mad.wide.u32 %d0, %r4, 4, %A;
    st.global.b32 [%d0], %r7;
    @%p5 bra SECOND;
    add.u32 %r2, %r2, 1;
    mad.lo.u32 %r8, %r2, 4, %s;
    ld.shared.b32 %r5, [%r8];
    bra JOIN;
SECOND:
    add.u32 %r3, %r3, 1;
    mad.lo.u32 %r8, %r3, 4, %s;
    ld.shared.b32 %r6, [%r8];
JOIN:
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p6, %r4, 8;
    @%p6 bra NEXT;
END:
    """,
    arrays="A:8",
    shared="s:36",
    block=8,
    gives={"A": lambda i: i},
)
