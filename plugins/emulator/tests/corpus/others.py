"""What programs by others do: waits, shuffles, fences, loads and stores, each fault with the nearest correct program."""

from .model import fault

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
