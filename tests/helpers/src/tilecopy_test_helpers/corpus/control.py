"""Control flow: loops that never end, locks that are never freed; arithmetic that has no result."""

from .model import fault

DIV = "integer division by zero has no defined result (PTX ISA 9.7.1.10, .11)"
END = "a loop that waits for nothing and changes nothing never ends"
STUCK = "a wait for what no thread will do any more"

fault(
    "division_by_zero",
    DIV,
    """
-   mov.b32 %r1, 0;
+   mov.b32 %r1, 2;
    div.u32 %r0, 7, %r1;                 // FAULT: arithmetic
    st.global.b32 [%A], %r0;
    """,
    block=1,
    threads=("0",),
    words=("zero",),
    gives={"A": lambda i: [3, *range(2, 65)]},
)
fault(
    "division_by_zero_in_one_lane",
    DIV,
    """
    mov.b32 %r2, 100;
-   sub.s32 %r1, %t, 7;
+   add.s32 %r1, %t, 7;
    div.s32 %r0, %r2, %r1;               // FAULT: arithmetic
    """,
    block=32,
    threads=("7",),
    words=("zero",),
)
fault(
    "remainder_by_zero",
    DIV,
    """
-   mov.b32 %r1, 0;
+   mov.b32 %r1, 4;
    rem.u32 %r0, 7, %r1;                 // FAULT: arithmetic
    """,
    block=1,
    threads=("0",),
    words=("zero",),
)
fault(
    "division_by_zero_of_64_bits",
    DIV,
    """
-   mov.b64 %d1, 0;
+   mov.b64 %d1, 4;
    mov.b64 %d0, 9;
    rem.s64 %d2, %d0, %d1;               // FAULT: arithmetic
    """,
    block=1,
    threads=("0",),
    words=("zero",),
)
fault(
    "endless_branch_to_itself",
    END,
    """
LOOP:
-   bra LOOP;                            // FAULT: endless
    """,
    block=32,
    threads=("0-31",),
)
fault(
    "endless_counter_that_is_not_moved",
    END,
    """
    mov.b32 %r0, 0;
LOOP:
-   add.u32 %r1, %r0, 1;                 // FAULT: endless
+   add.u32 %r0, %r0, 1;
    setp.lt.u32 %p0, %r0, 10;            // FAULT: endless
    @%p0 bra LOOP;                       // FAULT: endless
    """,
    block=32,
    threads=("0-31",),
)
fault(
    "endless_loop_of_one_lane",
    END + "; the other lanes leave",
    """
    mov.b32 %r0, %t;
LOOP:
-   setp.eq.u32 %p0, %r0, 17;            // FAULT: endless
+   setp.eq.u32 %p0, %r0, 170;
    @%p0 bra LOOP;                       // FAULT: endless
    bar.warp.sync 0xffffffff;
    """,
    block=32,
    threads=("17",),
)
fault(
    "endless_loop_of_one_warp_in_the_second_cta",
    END + "; named by its own thread, not by thread 0",
    """
    setp.eq.and.u32 %p0, %cta, 1, %w1;
-LOOP:
-   @%p0 bra LOOP;                       // FAULT: endless
    """,
    grid=2,
    threads=("32-63@1",),
)
fault(
    "endless_oscillation",
    END + "; registers change and come back",
    """
    mov.b32 %r0, 0;
LOOP:
-   xor.b32 %r0, %r0, 1;                 // FAULT: endless
+   add.u32 %r0, %r0, 1;
    setp.lt.u32 %p0, %r0, 2;             // FAULT: endless
    @%p0 bra LOOP;                       // FAULT: endless
    """,
    block=1,
    threads=("0",),
)
fault(
    "endless_rewriting_of_the_same_word",
    END + "; a store that changes nothing is no progress",
    """
LOOP:
    st.global.b32 [%A], 7;               // FAULT: endless
-   bra LOOP;                            // FAULT: endless
    """,
    block=1,
    threads=("0",),
)
fault(
    "deadlock_flag_in_global_memory",
    STUCK + "; a flag that nobody sets",
    """
-   SPIN ld.acquire.gpu.global.b32 [%Z], 2;        // FAULT: deadlock|endless
+   SPIN ld.acquire.gpu.global.b32 [%Z], 0;
    """,
    arrays="Z:4",
    block=1,
    threads=("0",),
    bytes="Z 0:4",
)
fault(
    "deadlock_flag_in_shared_memory",
    STUCK + "; the flag is set to another value",
    """
    @%is0 st.shared.b32 [%s], 0;
    bar.sync 0;
-   @%is0 st.release.cta.shared.b32 [%s], 1;
+   @%is0 st.release.cta.shared.b32 [%s], 2;
    @!%is32 bra END;
    SPIN ld.acquire.cta.shared.b32 [%s], 2;        // FAULT: deadlock|endless
END:
    """,
    shared="s:16",
    threads=("32",),
    bytes="s 0:4",
)
fault(
    "deadlock_lock_never_released",
    STUCK + "; the lock is taken and kept",
    """
    setp.eq.u32 %p1, %lane, 0;
    @!%p1 bra END;
TAKE:
    atom.acquire.gpu.global.cas.b32 %r0, [%Z], 0, 1;       // FAULT: deadlock|endless
    setp.ne.u32 %p0, %r0, 0;             // FAULT: deadlock|endless
    @%p0 bra TAKE;                       // FAULT: deadlock|endless
    ld.global.b32 %r1, [%Z+4];
    add.u32 %r1, %r1, 1;
    st.global.b32 [%Z+4], %r1;
+   atom.release.gpu.global.exch.b32 %r2, [%Z], 0;
END:
    """,
    arrays="Z:4",
    threads=("0-63",),
    bytes="Z 0:4",
    gives={"Z": lambda i: [0, 2, 0, 0]},
)
fault(
    "deadlock_of_two_locks",
    STUCK + "; two threads take two locks in opposite order (each holds its first before either asks for its second)",
    """
    setp.eq.u32 %p1, %lane, 0;
    @!%p1 bra END;
-   xor.b32 %r3, %warp, 1;
-   mov.b32 %r4, %warp;
+   mov.b32 %r3, 1;
+   mov.b32 %r4, 0;
    mad.wide.u32 %d0, %r4, 4, %Z;
    mad.wide.u32 %d1, %r3, 4, %Z;
FIRST:
    atom.acquire.gpu.global.cas.b32 %r0, [%d0], 0, 1;      // FAULT: deadlock|endless
    setp.ne.u32 %p0, %r0, 0;             // FAULT: deadlock|endless
    @%p0 bra FIRST;                      // FAULT: deadlock|endless
-   atom.relaxed.gpu.global.add.u32 %r5, [%Z+8], 1;
-   SPIN ld.relaxed.gpu.global.b32 [%Z+8], 2;
SECOND:
    atom.acquire.gpu.global.cas.b32 %r0, [%d1], 0, 1;      // FAULT: deadlock|endless
    setp.ne.u32 %p0, %r0, 0;             // FAULT: deadlock|endless
    @%p0 bra SECOND;                     // FAULT: deadlock|endless
    atom.release.gpu.global.exch.b32 %r2, [%d1], 0;
    atom.release.gpu.global.exch.b32 %r2, [%d0], 0;
END:
    """,
    arrays="Z:4",
    threads=("0", "32"),
)
fault(
    "deadlock_the_setter_waits_first",
    STUCK + "; each thread waits for the other's flag before it sets its own",
    """
    setp.eq.u32 %p1, %lane, 0;
    @!%p1 bra END;
    mad.wide.u32 %d0, %warp, 4, %Z;
    xor.b32 %r3, %warp, 1;
    mad.wide.u32 %d1, %r3, 4, %Z;
+   st.release.gpu.global.b32 [%d0], 1;
    SPIN ld.acquire.gpu.global.b32 [%d1], 1;       // FAULT: deadlock|endless
-   st.release.gpu.global.b32 [%d0], 1;
END:
    """,
    arrays="Z:4",
    threads=("0", "32"),
)
fault(
    "deadlock_mbarrier_of_a_thread_that_exits",
    STUCK + "; the arrival was the exited thread's",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
-   @%is32 bra END;
    @%is32 mbarrier.arrive.shared.b64 _, [%m];
    @!%is0 bra END;
    WAIT [%m], 0;                        // FAULT: deadlock
END:
    """,
    shared="m:8",
    threads=("0",),
    bytes="m 0:8",
    words=("phase 0", "1 of (the )?1 arrival"),
)
fault(
    "deadlock_two_mbarriers",
    STUCK + "; each waits for the other's mbarrier before it arrives",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    @%is0 mbarrier.init.shared.b64 [%m+8], 1;
    bar.sync 0;
    setp.eq.u32 %p0, %lane, 0;
    @!%p0 bra END;
    mad.lo.u32 %r0, %warp, 8, %m;
    xor.b32 %r1, %warp, 1;
    mad.lo.u32 %r1, %r1, 8, %m;
+   mbarrier.arrive.shared.b64 _, [%r1];
    WAIT [%r0], 0;                       // FAULT: deadlock
-   mbarrier.arrive.shared.b64 _, [%r1];
END:
    """,
    shared="m:16",
    threads=("0", "32"),
    words=("phase 0",),
)
fault(
    "deadlock_grid_barrier_of_too_many",
    STUCK + "; a barrier of the grid counts one CTA too many",
    """
    @!%is0 bra END;
    atom.add.release.gpu.global.u32 %r0, [%Z], 1;
-   SPIN ld.acquire.gpu.global.b32 [%Z], 3;        // FAULT: deadlock|endless
+   SPIN ld.acquire.gpu.global.b32 [%Z], 2;
END:
    """,
    arrays="Z:4",
    grid=2,
    block=32,
    threads=("0",),
    bytes="Z 0:4",
)
