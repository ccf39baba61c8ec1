"""Tensor memory: tcgen05 alloc, cp, commit, fences, ld, st, dealloc (PTX ISA 9.7.16)."""

from .model import clean, fault

ALLOC = "tcgen05.alloc, dealloc and relinquish_alloc_permit (PTX ISA 9.7.16.7)"
ORDER = "tcgen05 operations are ordered by commit, wait and tcgen05.fence (PTX ISA 9.7.16.6)"
COMMIT = "tcgen05.commit tracks what its own thread issued before (PTX ISA 9.7.16.12)"
LD = "tcgen05.ld and st: a warp reaches its 32 lanes; wait::ld and wait::st complete them (PTX ISA 9.7.16.8)"
DESC = "the matrix descriptor of shared memory (PTX ISA 9.7.16.4.1)"
PROXY = "tcgen05.cp reads shared memory through the async proxy (PTX ISA 9.7.16.6.5)"
ONE = "cta_group::1"


def parts(**changes: str) -> str:
    """The whole life of a copy to tensor memory, part by part; a part may be replaced."""
    part = {
        "init": "    @%is0 mbarrier.init.shared.b64 [%m], 1;\n",
        "alloc": f"    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;\n",
        "relinquish": f"    @%w0 tcgen05.relinquish_alloc_permit.{ONE}.sync.aligned;\n",
        "fill": "    st.shared.b32 [%st], %t;\n",
        "proxy": "    fence.proxy.async.shared::cta;\n",
        "sync": "    bar.sync 0;\n    tcgen05.fence::after_thread_sync;\n",
        "address": "    ld.shared.b32 %taddr, [%h];\n",
        "descriptor": "    shr.u32 %r1, %s, 4;\n    cvt.u64.u32 %d0, %r1;\n    or.b64 %d0, %d0, 0x400800000000;\n",
        "cp": f"    @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;\n",
        "commit": f"    @%is0 tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];\n",
        "issued": "",
        "wait": "    WAIT [%m], 0;\n",
        "after": "    tcgen05.fence::after_thread_sync;\n",
        "lanes": "    and.b32 %r2, %t, 96;\n    shl.b32 %r2, %r2, 16;\n    add.u32 %r2, %r2, %taddr;\n",
        "ld": "    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];\n",
        "wait_ld": "    tcgen05.wait::ld.sync.aligned;\n",
        "use": "    st.global.b32 [%At], %r5;\n",
        "before": "    tcgen05.fence::before_thread_sync;\n",
        "end": "    bar.sync 0;\n",
        "after_end": "    tcgen05.fence::after_thread_sync;\n",
        "dealloc": f"    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;\n",
        "last": "",
    }
    unknown = set(changes) - set(part)
    assert not unknown, unknown
    return "\n" + "".join((part | changes).values())


TENSOR = {
    "shared": "s:512@1024 m:8 h:4",
    "arrays": "A:128",
    "block": 128,
    "target": "sm_100a",
    "gives": {"A": lambda i: 4 * (i % 32) + 1},
}

clean(
    "tensor_copy_and_read",
    "the whole life of a copy to tensor memory (PTX ISA 9.7.16)",
    parts(),
    **TENSOR,
)
fault(
    "tensor_alloc_missing",
    ALLOC,
    parts(
        alloc=f"+   @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;\n-   @%is0 st.shared.b32 [%h], 0;\n",
        cp=f"    @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;   // FAULT: bounds|tensor\n",
    ),
    threads=("0",),
    words=("alloc",),
    **TENSOR,
)
fault(
    "tensor_alloc_of_48_columns",
    ALLOC + "; a power of two of 32 to 512 columns",
    parts(
        alloc="-   mov.b32 %r9, 48;\n+   mov.b32 %r9, 64;\n"
        f"    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], %r9;   // FAULT: tensor\n",
        dealloc=f"    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 64;\n",
    ),
    words=("48",),
    **TENSOR,
)
fault(
    "tensor_alloc_of_16_columns",
    ALLOC + "; a power of two of 32 to 512 columns",
    parts(
        alloc=f"-   @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 16;   // FAULT: ptx|tensor\n"
        f"+   @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;\n",
    ),
    words=("16",),
    **TENSOR,
)
fault(
    "tensor_alloc_by_half_a_warp",
    ALLOC + "; .sync.aligned: a whole warp",
    parts(
        alloc="    setp.lt.u32 %p1, %t, 32;\n-   setp.lt.u32 %p1, %t, 16;\n"
        f"    @%p1 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;   // FAULT: aligned\n",
    ),
    threads=("0-31",),
    **TENSOR,
)
fault(
    "tensor_alloc_by_every_warp",
    ALLOC + "; four warps allocate four times, and one frees",
    parts(
        alloc=f"-   tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;    // FAULT: tensor|race\n"
        f"+   @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;\n",
    ),
    **TENSOR,
)
fault(
    "tensor_alloc_after_relinquish",
    ALLOC + "; no alloc after the permit is given up",
    parts(
        dealloc=f"    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;\n"
        f"-   @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;   // FAULT: tensor\n",
    ),
    words=("relinquish|permit",),
    **TENSOR,
)
fault(
    "tensor_alloc_of_more_than_there_is",
    ALLOC + "; 512 columns in all: the second alloc waits for ever",
    parts(
        alloc=f"-   @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 512;\n"
        f"-   @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h+4], 32;   // FAULT: tensor|deadlock\n"
        f"+   @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;\n",
    ),
    **(TENSOR | {"shared": "s:512@1024 m:8 h:8"}),
)
fault(
    "tensor_dealloc_missing",
    ALLOC + "; all is freed before the CTA exits",
    parts(
        alloc=f"    @%w0 tcgen05.alloc.{ONE}.sync.aligned.shared::cta.b32 [%h], 32;   // FAULT: tensor\n",
        dealloc=f"+   @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;\n",
        last="    ret;                                 // FAULT: tensor\n",
    ),
    words=("32 columns|dealloc|allocated",),
    **TENSOR,
)
fault(
    "tensor_dealloc_twice",
    ALLOC,
    parts(last=f"-   @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;     // FAULT: tensor\n"),
    threads=("0-31",),
    **TENSOR,
)
fault(
    "tensor_dealloc_of_another_size",
    ALLOC,
    parts(
        dealloc=f"-   @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 64;     // FAULT: tensor\n"
        f"+   @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;\n"
    ),
    words=("64",),
    **TENSOR,
)
fault(
    "tensor_dealloc_of_another_address",
    ALLOC,
    parts(
        dealloc=f"-   add.u32 %taddr, %taddr, 32;\n    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32; // FAULT: tensor\n"
    ),
    **TENSOR,
)
fault(
    "tensor_ld_after_dealloc",
    ALLOC + "; what was freed is not read",
    parts(
        last="-   bar.sync 0;\n"
        "-   tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];    // FAULT: bounds|tensor|poison\n"
        "-   tcgen05.wait::ld.sync.aligned;\n"
    ),
    threads=("0-127",),
    **TENSOR,
)
fault(
    "tensor_cp_after_dealloc",
    ALLOC + "; what was freed is not written",
    parts(last=f"-   @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;       // FAULT: bounds|tensor\n"),
    threads=("0",),
    **TENSOR,
)
fault(
    "tensor_dealloc_before_others_have_read",
    ORDER + "; a barrier between the reads and dealloc",
    parts(
        ld="    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];    // FAULT: race|bounds|tensor|poison\n",
        end="+   bar.sync 0;\n",
        dealloc=f"    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;     // FAULT: race\n",
    ),
    **TENSOR,
)
fault(
    "tensor_dealloc_without_before_fence",
    ORDER + "; tcgen05.fence::before_thread_sync before the barrier",
    parts(
        before="+   tcgen05.fence::before_thread_sync;\n",
        dealloc=f"    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;     // FAULT: proxy\n",
    ),
    words=("before_thread_sync",),
    **TENSOR,
)
fault(
    "tensor_missing_after_fence",
    ORDER + "; tcgen05.fence::after_thread_sync after the wait",
    parts(
        after="+   tcgen05.fence::after_thread_sync;\n",
        ld="    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];    // FAULT: proxy\n",
    ),
    words=("after_thread_sync",),
    **TENSOR,
)
fault(
    "tensor_columns_outside",
    "an address of tensor memory lies in what was allocated (PTX ISA 9.7.16.1, .7)",
    parts(
        cp=f"-   @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr+32], %d0;    // FAULT: bounds\n"
        f"+   @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;\n"
    ),
    threads=("0",),
    words=("column",),
    **TENSOR,
)
fault(
    "tensor_columns_overrun_by_a_part",
    "an address of tensor memory lies in what was allocated (PTX ISA 9.7.16.1, .7)",
    parts(
        ld="-   tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2+30];      // FAULT: bounds\n"
        "+   tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];\n"
    ),
    words=("column",),
    **TENSOR,
)
fault(
    "tensor_poison",
    "alloc clears nothing: what was never written has no value (PTX ISA 9.7.16.7)",
    parts(
        ld="-   tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2+4];       // FAULT: poison\n"
        "+   tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];\n"
    ),
    words=("column",),
    **TENSOR,
)
fault(
    "tensor_commit_by_another_thread",
    COMMIT,
    parts(
        commit=f"-   @%is32 tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];\n"
        f"+   @%is0 tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];\n",
        ld="    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];    // FAULT: async\n",
    ),
    words=("lane", "column"),
    **TENSOR,
)
fault(
    "tensor_commit_before_the_copy",
    COMMIT,
    parts(
        cp=f"+   @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;\n",
        issued=f"-   @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;\n",
        ld="    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];    // FAULT: async\n",
    ),
    **TENSOR,
)
fault(
    "tensor_commit_missing",
    COMMIT + "; nobody arrives on the mbarrier",
    parts(
        commit=f"+   @%is0 tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];\n",
        wait="    WAIT [%m], 0;                        // FAULT: deadlock\n",
    ),
    bytes="m 0:8",
    words=("phase 0", "1 of (the )?1 arrival"),
    **TENSOR,
)
fault(
    "tensor_ld_before_the_commits_wait",
    ORDER + "; a copy is read after its commit was waited for",
    parts(
        wait="+   WAIT [%m], 0;\n",
        ld="    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];    // FAULT: async\n",
        wait_ld="    tcgen05.wait::ld.sync.aligned;\n-   WAIT [%m], 0;\n",
    ),
    threads=("0-127",),
    **TENSOR,
)
fault(
    "tensor_missing_wait_ld",
    LD,
    parts(
        wait_ld="+   tcgen05.wait::ld.sync.aligned;\n",
        use="    st.global.b32 [%At], %r5;            // FAULT: poison|async\n-   tcgen05.wait::ld.sync.aligned;\n",
    ),
    words=("wait::ld|%r5",),
    **TENSOR,
)
fault(
    "tensor_lanes_of_another_warp",
    LD,
    parts(
        lanes="-   add.u32 %r2, %taddr, 0x200000;\n+   and.b32 %r2, %t, 96;\n+   shl.b32 %r2, %r2, 16;\n"
        "+   add.u32 %r2, %r2, %taddr;\n",
        ld="    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];    // FAULT: window\n",
    ),
    words=("warp 0", "32"),
    **TENSOR,
)
fault(
    "tensor_ld_by_half_a_warp",
    LD + "; .sync.aligned: a whole warp",
    parts(
        lanes="    and.b32 %r2, %t, 96;\n    shl.b32 %r2, %r2, 16;\n    add.u32 %r2, %r2, %taddr;\n"
        "    setp.lt.u32 %p1, %lane, 32;\n-   setp.lt.u32 %p1, %lane, 16;\n    @!%p1 bra SKIP;\n",
        ld="    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];    // FAULT: aligned\n",
        use="    st.global.b32 [%At], %r5;\nSKIP:\n",
    ),
    **TENSOR,
)
fault(
    "tensor_source_not_fenced",
    PROXY,
    parts(
        proxy="+   fence.proxy.async.shared::cta;\n",
        cp=f"    @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;       // FAULT: proxy\n",
    ),
    bytes="s 0:512",
    threads=("0", "0-127"),
    **TENSOR,
)
fault(
    "tensor_source_without_a_barrier",
    "shared memory that other threads filled is read after a barrier (PTX ISA 9.7.13.1)",
    parts(
        fill="+   st.shared.b32 [%st], %t;\n",
        proxy="+   fence.proxy.async.shared::cta;\n",
        address="    ld.shared.b32 %taddr, [%h];\n-   st.shared.b32 [%st], %t;             // FAULT: race|async\n"
        "-   fence.proxy.async.shared::cta;\n",
        cp=f"    @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;       // FAULT: race|poison\n",
    ),
    **TENSOR,
)
fault(
    "tensor_source_overwritten",
    ORDER + "; the source is free after the commit's phase",
    parts(
        issued="-   @%is0 st.shared.b32 [%s+4], 0;       // FAULT: async\n",
        last="+   @%is0 st.shared.b32 [%s+4], 0;\n",
    ),
    threads=("0",),
    bytes="s 4:8",
    **TENSOR,
)
fault(
    "tensor_source_of_the_younger_copy_overwritten",
    COMMIT + "; the second copy was issued after the commit",
    parts(
        issued=f"    @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr+4], %d0;\n",
        wait="    WAIT [%m], 0;\n-   @%is0 st.shared.b32 [%s], 0;         // FAULT: async\n",
        dealloc=f"    @%is0 tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];\n    WAIT [%m], 1;\n"
        f"    tcgen05.fence::after_thread_sync;\n    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;\n",
    ),
    threads=("0",),
    bytes="s 0:4",
    **TENSOR,
)
fault(
    "tensor_two_copies_to_the_same_columns",
    ORDER + "; two copies are not ordered with each other",
    parts(
        issued=f"-   @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;       // FAULT: async|race\n"
        f"+   @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr+8], %d0;\n"
        f"+   @%is0 tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];\n",
        init="-   @%is0 mbarrier.init.shared.b64 [%m], 1;\n+   @%is0 mbarrier.init.shared.b64 [%m], 2;\n",
    ),
    words=("column",),
    **TENSOR,
)
fault(
    "tensor_copy_over_what_others_read",
    ORDER + "; a barrier between the reads and the next copy",
    parts(
        ld="    tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r4, %r5, %r6, %r7}, [%r2];    // FAULT: race|async\n",
        before="    tcgen05.fence::before_thread_sync;\n+   bar.sync 0;\n+   tcgen05.fence::after_thread_sync;\n"
        f"    @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;       // FAULT: race\n"
        f"    @%is0 tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];\n    WAIT [%m], 1;\n",
    ),
    words=("column",),
    **TENSOR,
)
fault(
    "tensor_in_flight_at_dealloc",
    ORDER + "; what is freed is not still written",
    parts(
        before="    tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n    tcgen05.fence::after_thread_sync;\n"
        f"    @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;\n"
        f"    @%is0 tcgen05.commit.{ONE}.mbarrier::arrive::one.shared::cluster.b64 [%m];\n+   WAIT [%m], 1;\n",
        dealloc=f"    @%w0 tcgen05.dealloc.{ONE}.sync.aligned.b32 %taddr, 32;     // FAULT: async\n",
    ),
    **TENSOR,
)
for _name, _bits, _word in (
    ("fixed_bits", "0x000800000000", "0x8"),
    ("swizzle_code", "0x6000400800000000", "0x6"),
    ("base_offset", "0x2400800000000", "0x2"),
):
    fault(
        f"tensor_descriptor_{_name}",
        DESC,
        parts(
            descriptor="    shr.u32 %r1, %s, 4;\n    cvt.u64.u32 %d0, %r1;\n"
            f"-   or.b64 %d0, %d0, {_bits};\n+   or.b64 %d0, %d0, 0x400800000000;\n",
            cp=f"    @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;       // FAULT: descriptor\n",
        ),
        threads=("0",),
        **TENSOR,
    )
fault(
    "tensor_descriptor_past_the_buffer",
    DESC + "; the rows that it describes lie within their variable",
    parts(
        descriptor="    shr.u32 %r1, %s, 4;\n-   add.u32 %r1, %r1, 2;\n    cvt.u64.u32 %d0, %r1;\n"
        "    or.b64 %d0, %d0, 0x400800000000;\n",
        cp=f"    @%is0 tcgen05.cp.{ONE}.32x128b.warpx4 [%taddr], %d0;       // FAULT: bounds\n",
    ),
    **(TENSOR | {"shared": "m:8 h:4 s:512@1024"}),
)
fault(
    "tensor_st_missing_wait_st",
    LD + "; wait::st before others are told",
    parts(
        cp="",
        commit="",
        wait="",
        after="    and.b32 %r2, %t, 96;\n    shl.b32 %r2, %r2, 16;\n    add.u32 %r2, %r2, %taddr;\n"
        "    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2+1], {%t};\n+   tcgen05.wait::st.sync.aligned;\n",
        lanes="",
        ld="    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r2+1];      // FAULT: async\n",
        init="",
        proxy="",
        descriptor="",
        wait_ld="    tcgen05.wait::ld.sync.aligned;\n-   tcgen05.wait::st.sync.aligned;\n",
    ),
    words=("column",),
    **(TENSOR | {"gives": {"A": lambda i: i}}),
)
