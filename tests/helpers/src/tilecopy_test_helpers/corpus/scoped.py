"""Races of threads in different scopes, in the style of test suites of race detectors: what CUDA C++ would say is in
each rule. ``D`` is data, ``Z`` (zero at the start) flags, locks and counters; atomics without a scope are ``.gpu`` and
relaxed, as in CUDA; ``membar.gl`` is ``__threadfence()``, ``membar.cta`` ``__threadfence_block()``."""

from .model import clean, fault

RACE = "PTX ISA 8.7.1, 8.8"
TWO = {"grid": 2, "block": 32, "arrays": "D:64 Z:8"}
IN_CTA = {"grid": 1, "block": 64, "arrays": "D:64 Z:8"}


def two_ctas(producer: str, consumer: str) -> str:
    """Thread 0 of CTA 0 runs one part, thread 0 of CTA 1 the other."""
    return f"""
    @!%is0 bra END;
    @%c1 bra TAKE;
{producer}    bra END;
TAKE:
{consumer}END:
"""


def two_warps(producer: str, consumer: str) -> str:
    """Thread 0 runs one part, thread 32 the other."""
    return f"""
    @%is0 bra GIVE;
    @%is32 bra TAKE;
    bra END;
GIVE:
{producer}    bra END;
TAKE:
{consumer}END:
"""


def lines(text: str) -> str:
    """Lines of a part, indented as bodies are."""
    return "".join(
        (part if part[:1] in "+-" or part.endswith(":") else f"    {part}") + "\n" for part in text.strip().split("\n")
    )


def message(name: str, why: str, producer: str, consumer: str, *, warps: bool = False, **rest: object) -> None:
    """A datum handed from one thread to another by a flag."""
    make, launch = (two_warps, IN_CTA) if warps else (two_ctas, TWO)
    threads = ("0", "32") if warps else ("0@0", "0@1")
    fault(
        f"scope_{name}",
        f"{why} ({RACE})",
        make(lines(producer), lines(consumer)),
        **{"threads": threads, **launch, **rest},  # type: ignore[arg-type]
    )


# ------------------------------------------------------------------------------------------------ a datum and a flag

WRITE = "st.global.b32 [%D], 42;              // FAULT: race"
READ = "ld.global.b32 %r0, [%D];             // FAULT: race\nst.global.b32 [%D+4], %r0;"
GOT = {"gives": {"D": lambda i: [42, 42, *range(3, 65)]}}
DATA = {"bytes": "D 0:4"}

message(
    "flag_without_threadfence_of_the_writer",
    "data = 42; *(volatile int*)flag = 1: no __threadfence between",
    f"{WRITE}\n+   membar.gl;\nst.volatile.global.b32 [%Z], 1;",
    f"SPIN ld.volatile.global.b32 [%Z], 1;\nmembar.gl;\n{READ}",
    **DATA,
    **GOT,
)
message(
    "flag_without_threadfence_of_the_reader",
    "while (!*(volatile int*)flag); use(data): no __threadfence between",
    f"{WRITE}\nmembar.gl;\nst.volatile.global.b32 [%Z], 1;",
    f"SPIN ld.volatile.global.b32 [%Z], 1;\n+   membar.gl;\n{READ}",
    **DATA,
    **GOT,
)
message(
    "flag_with_a_block_fence_of_the_writer",
    "__threadfence_block() where another block reads",
    f"{WRITE}\n-   membar.cta;\n+   membar.gl;\nst.volatile.global.b32 [%Z], 1;",
    f"SPIN ld.volatile.global.b32 [%Z], 1;\nmembar.gl;\n{READ}",
    words=("scope",),
    **DATA,
    **GOT,
)
message(
    "flag_with_a_block_fence_of_the_reader",
    "__threadfence_block() where another block wrote",
    f"{WRITE}\nmembar.gl;\nst.volatile.global.b32 [%Z], 1;",
    f"SPIN ld.volatile.global.b32 [%Z], 1;\n-   membar.cta;\n+   membar.gl;\n{READ}",
    words=("scope",),
    **DATA,
    **GOT,
)
message(
    "flag_is_an_ordinary_store",
    "flag = 1 as an ordinary store, polled by a volatile load",
    f"{WRITE.split('//', maxsplit=1)[0]}\nmembar.gl;\n-   st.global.b32 [%Z], 1;              // FAULT: race\n"
    "+   st.volatile.global.b32 [%Z], 1;",
    f"SPIN ld.volatile.global.b32 [%Z], 1; // FAULT: race\nmembar.gl;\n{READ.split('//', maxsplit=1)[0]}",
    bytes="Z 0:4",
)
message(
    "flag_is_an_ordinary_load",
    "if (flag) as an ordinary load",
    f"{WRITE}\nmembar.gl;\nst.volatile.global.b32 [%Z], 1;         // FAULT: race",
    "-   ld.global.b32 %r1, [%Z];             // FAULT: race\n+   ld.volatile.global.b32 %r1, [%Z];\n"
    f"membar.gl;\nsetp.eq.u32 %p0, %r1, 1;\n@!%p0 bra END;\n{READ}",
)
message(
    "release_of_cta_scope",
    "cuda::atomic_ref<int, thread_scope_block>: store(1, release), read in another block",
    f"{WRITE}\n-   st.release.cta.global.b32 [%Z], 1;   // FAULT: race\n+   st.release.gpu.global.b32 [%Z], 1;",
    f"SPIN ld.acquire.gpu.global.b32 [%Z], 1; // FAULT: race\n{READ}",
    words=("scope",),
    **GOT,
)
message(
    "acquire_of_cta_scope",
    "cuda::atomic_ref<int, thread_scope_block>: load(acquire) of what another block released",
    f"{WRITE}\nst.release.gpu.global.b32 [%Z], 1;      // FAULT: race",
    f"-   SPIN ld.acquire.cta.global.b32 [%Z], 1; // FAULT: race\n+   SPIN ld.acquire.gpu.global.b32 [%Z], 1;\n{READ}",
    words=("scope",),
    **GOT,
)
message(
    "relaxed_store_of_the_flag",
    "flag.store(1, memory_order_relaxed) publishes nothing",
    f"{WRITE}\n-   st.relaxed.gpu.global.b32 [%Z], 1;\n+   st.release.gpu.global.b32 [%Z], 1;",
    f"SPIN ld.acquire.gpu.global.b32 [%Z], 1;\n{READ}",
    **DATA,
    **GOT,
)
message(
    "relaxed_load_of_the_flag",
    "while (!flag.load(memory_order_relaxed)) acquires nothing",
    f"{WRITE}\nst.release.gpu.global.b32 [%Z], 1;",
    f"-   SPIN ld.relaxed.gpu.global.b32 [%Z], 1;\n+   SPIN ld.acquire.gpu.global.b32 [%Z], 1;\n{READ}",
    **DATA,
    **GOT,
)
message(
    "release_then_data",
    "flag.store(1, release); data = 42: in the wrong order",
    "+   st.global.b32 [%D], 42;\nst.release.gpu.global.b32 [%Z], 1;\n-   st.global.b32 [%D], 42;              // FAULT: race",
    f"SPIN ld.acquire.gpu.global.b32 [%Z], 1;\n{READ}",
    **DATA,
    **GOT,
)
message(
    "data_before_the_acquire",
    "v = data; while (!flag.load(acquire)); use(v)",
    f"{WRITE}\nst.release.gpu.global.b32 [%Z], 1;",
    "-   ld.global.b32 %r0, [%D];             // FAULT: race\nSPIN ld.acquire.gpu.global.b32 [%Z], 1;\n"
    "+   ld.global.b32 %r0, [%D];\nst.global.b32 [%D+4], %r0;",
    **DATA,
    **GOT,
)
message(
    "atomic_exchange_as_flag",
    "atomicExch(flag, 1) is relaxed: it orders nothing",
    f"{WRITE}\n+   membar.gl;\natom.global.exch.b32 %r1, [%Z], 1;",
    f"AGAIN:\natom.global.add.u32 %r1, [%Z], 0;\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 bra AGAIN;\nmembar.gl;\n{READ}",
    **DATA,
    **GOT,
)
message(
    "atomic_counter_without_acquire",
    "if (atomicAdd(count, 0) == 1) use(data): no fence after it",
    f"{WRITE}\nmembar.gl;\nred.global.add.u32 [%Z], 1;",
    f"AGAIN:\natom.global.add.u32 %r1, [%Z], 0;\nsetp.eq.u32 %p0, %r1, 0;\n@%p0 bra AGAIN;\n+   membar.gl;\n{READ}",
    **DATA,
    **GOT,
)
message(
    "two_words_one_fenced",
    "x = 1; __threadfence(); y = 2; flag = 1",
    f"st.global.b32 [%D+8], 1;\nmembar.gl;\n{WRITE}\n+   membar.gl;\nst.volatile.global.b32 [%Z], 1;",
    f"SPIN ld.volatile.global.b32 [%Z], 1;\nmembar.gl;\nld.global.b32 %r2, [%D+8];\n{READ}",
    **DATA,
)
message(
    "wrong_flag",
    "the flag of another datum is awaited",
    f"st.release.gpu.global.b32 [%Z+4], 1;\n{WRITE}\nst.release.gpu.global.b32 [%Z], 1;",
    f"-   SPIN ld.acquire.gpu.global.b32 [%Z+4], 1;\n+   SPIN ld.acquire.gpu.global.b32 [%Z], 1;\n{READ}",
    **DATA,
    **GOT,
)
message(
    "mixed_sizes",
    "a 64-bit store of a flag, polled as 32 bits: strong accesses of different sizes still race",
    f"{WRITE.split('//', maxsplit=1)[0]}\nmov.b64 %d0, 1;\n-   st.release.gpu.global.b64 [%Z], %d0; // FAULT: race\n"
    "+   st.release.gpu.global.b32 [%Z], 1;",
    f"SPIN ld.acquire.gpu.global.b32 [%Z], 1; // FAULT: race\n{READ.split('//', maxsplit=1)[0]}",
    bytes="Z 0:8",
)
message(
    "data_overwritten_while_it_is_read",
    "the writer goes on to the next datum with no word from the reader",
    f"st.global.b32 [%D], 42;\nst.release.gpu.global.b32 [%Z], 1;\n+   SPIN ld.acquire.gpu.global.b32 [%Z+4], 1;\n{WRITE}",
    f"SPIN ld.acquire.gpu.global.b32 [%Z], 1;\n{READ}\nst.release.gpu.global.b32 [%Z+4], 1;",
    **DATA,
)
message(
    "warps_relaxed_flag",
    "between warps of a block: cta scope is enough, relaxed is not",
    f"{WRITE}\n-   st.relaxed.cta.global.b32 [%Z], 1;\n+   st.release.cta.global.b32 [%Z], 1;",
    f"SPIN ld.acquire.cta.global.b32 [%Z], 1;\n{READ}",
    warps=True,
    **DATA,
    **GOT,
)
message(
    "warps_no_fence_at_all",
    "between warps of a block: a volatile flag and no __threadfence_block",
    f"{WRITE}\n+   membar.cta;\nst.volatile.global.b32 [%Z], 1;",
    f"SPIN ld.volatile.global.b32 [%Z], 1;\n+   membar.cta;\n{READ}",
    warps=True,
    **DATA,
    **GOT,
)

fault(
    "scope_relay_without_acquire",
    f"a thread passes a flag on that it has read relaxed: causality is cut ({RACE})",
    """
    @!%is0 bra END;
    @%c1 bra RELAY;
    @%c2 bra TAKE;
    st.global.b32 [%D], 42;              // FAULT: race
    st.release.gpu.global.b32 [%Z], 1;
    bra END;
RELAY:
-   SPIN ld.relaxed.gpu.global.b32 [%Z], 1;
+   SPIN ld.acquire.gpu.global.b32 [%Z], 1;
    st.release.gpu.global.b32 [%Z+4], 1;
    bra END;
TAKE:
    SPIN ld.acquire.gpu.global.b32 [%Z+4], 1;
    ld.global.b32 %r0, [%D];             // FAULT: race
END:
    """,
    **(TWO | {"grid": 3}),
    threads=("0@0", "0@2"),
    bytes="D 0:4",
)
fault(
    "scope_relay_of_cta_scope",
    f"the relay releases to its own block only ({RACE})",
    """
    @!%is0 bra END;
    @%c1 bra RELAY;
    @%c2 bra TAKE;
    st.global.b32 [%D], 42;              // FAULT: race
    membar.gl;
    st.volatile.global.b32 [%Z], 1;
    bra END;
RELAY:
    SPIN ld.volatile.global.b32 [%Z], 1;
-   membar.cta;
+   membar.gl;
    st.volatile.global.b32 [%Z+4], 1;
    bra END;
TAKE:
    SPIN ld.volatile.global.b32 [%Z+4], 1;
    membar.gl;
    ld.global.b32 %r0, [%D];             // FAULT: race
END:
    """,
    **(TWO | {"grid": 3}),
    threads=("0@0", "0@2"),
    bytes="D 0:4",
)
fault(
    "scope_flag_overwritten_by_a_third",
    "a release is passed on by atomics on its flag, not by another thread's store (PTX ISA 8.9.2: observation order)",
    """
    @!%is0 bra END;
    @%c1 bra MIDDLE;
    @%c2 bra TAKE;
    st.global.b32 [%D], 42;              // FAULT: race
    st.release.gpu.global.b32 [%Z], 1;
    bra END;
MIDDLE:
    SPIN ld.relaxed.gpu.global.b32 [%Z], 1;
-   st.relaxed.gpu.global.b32 [%Z], 2;
+   atom.relaxed.gpu.global.add.u32 %r1, [%Z], 1;
    st.relaxed.gpu.global.b32 [%Z+4], 1;
    bra END;
TAKE:
    SPIN ld.relaxed.gpu.global.b32 [%Z+4], 1;
    ld.acquire.gpu.global.b32 %r2, [%Z];
    setp.ne.u32 %p0, %r2, 2;
    @%p0 bra END;
    ld.global.b32 %r0, [%D];             // FAULT: race
END:
    """,
    **(TWO | {"grid": 3}),
    threads=("0@0", "0@2"),
    bytes="D 0:4",
)
fault(
    "scope_cluster_scope_between_clusters",
    f".cluster scope does not reach another cluster ({RACE})",
    two_ctas(
        lines(f"{WRITE}\nst.release.cluster.global.b32 [%Z], 1;  // FAULT: race"),
        lines(f"SPIN ld.acquire.cluster.global.b32 [%Z], 1; // FAULT: race\n{READ}"),
    )
    .replace("%c1", "%c2")
    .replace("TAKE:", "TAKE:", 1)
    .replace(
        "    @!%is0 bra END;\n",
        "    @!%is0 bra END;\n-   and.b32 %r5, %cta, 1;\n-   setp.ne.u32 %p5, %r5, 0;\n-   @%p5 bra END;\n"
        "+   setp.ge.u32 %p5, %cta, 2;\n+   @%p5 bra END;\n",
    )
    .replace("    @%c2 bra TAKE;\n", "-   @%c2 bra TAKE;\n+   @%c1 bra TAKE;\n"),
    **(TWO | {"grid": 4, "cluster": 2}),
    threads=("0@0", "0@2"),
    words=("scope",),
)

# ------------------------------------------------------------------------------------------------ counters

fault(
    "scope_counter_of_block_scope",
    f"atomicAdd_block(count, 1) by two blocks ({RACE})",
    """
-   @%is0 red.relaxed.cta.global.add.u32 [%Z], 1;  // FAULT: race
+   @%is0 red.relaxed.gpu.global.add.u32 [%Z], 1;
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="Z 0:4",
    words=("scope",),
    gives={"Z": lambda i: [2, 0, 0, 0, 0, 0, 0, 0]},
)
fault(
    "scope_counter_of_mixed_scopes",
    f"one block counts with atomicAdd, another with atomicAdd_block ({RACE})",
    """
    @!%is0 bra END;
    @%c0 red.relaxed.gpu.global.add.u32 [%Z], 1;   // FAULT: race
-   @%c1 red.relaxed.cta.global.add.u32 [%Z], 1;   // FAULT: race
+   @%c1 red.relaxed.sys.global.add.u32 [%Z], 1;
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="Z 0:4",
    words=("scope",),
)
fault(
    "scope_counter_without_atomics",
    f"count += 1 by two blocks ({RACE})",
    """
    @!%is0 bra END;
-   ld.global.b32 %r0, [%Z];             // FAULT: race
-   add.u32 %r0, %r0, 1;
-   st.global.b32 [%Z], %r0;             // FAULT: race
+   red.global.add.u32 [%Z], 1;
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="Z 0:4",
)
fault(
    "scope_counter_without_atomics_in_a_warp",
    f"count[t / 2] += 1: two lanes a counter ({RACE})",
    """
    shr.u32 %r1, %t, 1;
    mad.wide.u32 %d0, %r1, 4, %D;
-   ld.global.b32 %r0, [%d0];            // FAULT: race
-   add.u32 %r0, %r0, 1;
-   st.global.b32 [%d0], %r0;            // FAULT: race
+   red.relaxed.cta.global.add.u32 [%d0], 1;
    """,
    **IN_CTA,
    threads=("0-63",),
    bytes="D 0:128",
)
fault(
    "scope_counter_read_while_others_count",
    f"an ordinary read of a counter that another block still adds to ({RACE})",
    """
    @!%is0 bra END;
    @%c1 red.global.add.u32 [%Z], 1;     // FAULT: race
-   @%c0 ld.global.b32 %r0, [%Z];        // FAULT: race
+   @%c0 ld.relaxed.gpu.global.b32 %r0, [%Z];
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="Z 0:4",
)
fault(
    "scope_counter_cleared_while_others_count",
    f"block 0 sets the counter to zero with an ordinary store, the others have begun ({RACE})",
    """
    @!%is0 bra END;
-   @%c0 st.global.b32 [%Z], 0;          // FAULT: race
    red.global.add.u32 [%Z], 1;          // FAULT: race
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="Z 0:4",
)
fault(
    "scope_maximum_by_compare_and_store",
    f"if (v > *best) *best = v ({RACE})",
    """
    @!%is0 bra END;
    add.u32 %r1, %cta, 5;
-   ld.global.b32 %r0, [%Z];             // FAULT: race
-   setp.gt.u32 %p0, %r1, %r0;
-   @%p0 st.global.b32 [%Z], %r1;        // FAULT: race
+   red.global.max.u32 [%Z], %r1;
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="Z 0:4",
)
fault(
    "scope_histogram_in_global_memory",
    f"hist[d[i]]++ over all blocks ({RACE})",
    """
    mad.lo.u32 %r0, %cta, 32, %t;
    and.b32 %r1, %r0, 7;
    mad.wide.u32 %d0, %r1, 4, %Z;
-   ld.global.b32 %r2, [%d0];            // FAULT: race
-   add.u32 %r2, %r2, 1;
-   st.global.b32 [%d0], %r2;            // FAULT: race
+   atom.global.inc.u32 %r2, [%d0], 0xffffffff;
    """,
    **TWO,
    bytes="Z 0:32",
)
fault(
    "scope_histogram_in_shared_memory_not_cleared_in_time",
    f"no __syncthreads between clearing the bins and counting ({RACE})",
    """
    setp.lt.u32 %p0, %t, 8;
    @%p0 st.shared.b32 [%st], 0;         // FAULT: race
+   bar.sync 0;
    and.b32 %r1, %t, 7;
    mad.lo.u32 %r1, %r1, 4, %s;
    red.shared.add.u32 [%r1], 1;         // FAULT: race|poison
    bar.sync 0;
    @!%p0 bra END;
    ld.shared.b32 %r2, [%st];
    red.global.add.u32 [%Zt], %r2;
END:
    """,
    **IN_CTA,
    shared="s:32",
    bytes="s 0:32",
    gives={"Z": 8},
)
fault(
    "scope_histogram_in_shared_memory_merged_too_early",
    f"no __syncthreads between counting and the merge ({RACE})",
    """
    setp.lt.u32 %p0, %t, 8;
    @%p0 st.shared.b32 [%st], 0;
    bar.sync 0;
    and.b32 %r1, %t, 7;
    mad.lo.u32 %r1, %r1, 4, %s;
    red.shared.add.u32 [%r1], 1;         // FAULT: race
+   bar.sync 0;
    @!%p0 bra END;
    ld.shared.b32 %r2, [%st];            // FAULT: race
    red.global.add.u32 [%Zt], %r2;
END:
    """,
    **IN_CTA,
    shared="s:32",
    bytes="s 0:32",
    gives={"Z": 8},
)
fault(
    "scope_atomics_of_overlapping_sizes",
    f"a 64-bit and a 32-bit atomic on the same word ({RACE}: morally strong needs complete overlap)",
    """
    @!%is0 bra END;
    mov.b64 %d0, 1;
-   @%c0 red.global.add.u64 [%Z], %d0;   // FAULT: race
+   @%c0 red.global.add.u64 [%Z+8], %d0;
    @%c1 red.global.add.u32 [%Z], 1;     // FAULT: race
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="Z 0:8",
)

# ------------------------------------------------------------------------------------------------ the last block

LAST = """
    mad.wide.u32 %d0, %cta, 4, %D;
    @%is0 st.global.b32 [%d0], 7;        // FAULT: race
{publish}    @!%is0 bra END;
{fence}    atom.global.add.u32 %r0, [%Z], 1;
    setp.ne.u32 %p0, %r0, 1;
    @%p0 bra END;
{acquire}    ld.global.b32 %r1, [%D];             // FAULT: race
    ld.global.b32 %r2, [%D+4];           // FAULT: race
    add.u32 %r1, %r1, %r2;
    st.global.b32 [%D+8], %r1;
END:
"""
SUM = {"gives": {"D": lambda i: [7, 7, 14, *range(4, 65)]}}
fault(
    "scope_last_block_without_fence",
    f"partial[b] = x; if (atomicAdd(n, 1) == last) sum(): no __threadfence before the atomic ({RACE})",
    LAST.format(publish="", fence="+   membar.gl;\n", acquire="    membar.gl;\n"),
    **TWO,
    **SUM,
    threads=("0@0", "0@1"),
    bytes="D 0:8",
)
fault(
    "scope_last_block_without_fence_of_the_reader",
    f"the last block reads the others' results with no fence after its atomic ({RACE})",
    LAST.format(publish="", fence="    membar.gl;\n", acquire="+   membar.gl;\n"),
    **TWO,
    **SUM,
    threads=("0@0", "0@1"),
    bytes="D 0:8",
)
fault(
    "scope_last_block_without_barrier",
    f"all threads of a block write, thread 0 counts, no __syncthreads between ({RACE})",
    """
    mad.lo.u32 %r3, %cta, 32, %t;
    mad.wide.u32 %d0, %r3, 4, %D;
    st.global.b32 [%d0], 7;              // FAULT: race
+   bar.sync 0;
    @!%is0 bra END;
    membar.gl;
    atom.global.add.u32 %r0, [%Z], 1;
    setp.ne.u32 %p0, %r0, 1;
    @%p0 bra END;
    membar.gl;
    ld.global.b32 %r1, [%D+12];          // FAULT: race
    ld.global.b32 %r2, [%D+140];         // FAULT: race
    st.global.b32 [%Z+8], %r1;
END:
    """,
    **TWO,
    bytes="D 12:144",
)
fault(
    "scope_last_block_told_by_shared_memory",
    f"is_last is written by thread 0 and read by all with no __syncthreads ({RACE})",
    """
    @!%is0 bra ALL;
    atom.global.add.u32 %r0, [%Z], 1;
    st.shared.b32 [%s], %r0;             // FAULT: race
ALL:
+   bar.sync 0;
    ld.shared.b32 %r1, [%s];             // FAULT: race|poison
    """,
    **IN_CTA,
    shared="s:4",
    bytes="s 0:4",
)

# ------------------------------------------------------------------------------------------------ locks


def locked(
    *,
    take: str = "atom.global.cas.b32 %r0, [%Z], 0, 1;",
    after_take: str = "    membar.gl;\n",
    inside: str = "",
    before_free: str = "    membar.gl;\n",
    free: str = "    atom.global.exch.b32 %r2, [%Z], 0;\n",
    before: str = "",
    behind: str = "",
    leader: str = "    @!%is0 bra END;\n",
) -> str:
    """Two threads count in ``D[0]`` under the lock ``Z[0]``."""
    inside = inside or (
        "    ld.global.b32 %r1, [%D];             // FAULT: race\n    add.u32 %r1, %r1, 1;\n"
        "    st.global.b32 [%D], %r1;             // FAULT: race\n"
    )
    return f"""
{leader}{before}TAKE:
    {take}
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKE;
{after_take}{inside}{before_free}{free}{behind}END:
"""


COUNTED = {"gives": {"D": lambda i: [3, *range(2, 65)]}, "threads": ("0@0", "0@1"), "bytes": "D 0:4"}

fault(
    "scope_lock_without_fence",
    f"while (atomicCAS(l, 0, 1)); ... atomicExch(l, 0): no fence at all ({RACE})",
    locked(after_take="+   membar.gl;\n", before_free="+   membar.gl;\n"),
    **TWO,
    **COUNTED,
)
fault(
    "scope_lock_without_fence_after_taking",
    f"no __threadfence after atomicCAS took the lock ({RACE})",
    locked(after_take="+   membar.gl;\n"),
    **TWO,
    **COUNTED,
)
fault(
    "scope_lock_without_fence_before_release",
    f"no __threadfence before atomicExch frees the lock ({RACE})",
    locked(before_free="+   membar.gl;\n"),
    **TWO,
    **COUNTED,
)
fault(
    "scope_lock_with_block_fences",
    f"__threadfence_block() in a lock between blocks ({RACE})",
    locked(after_take="-   membar.cta;\n+   membar.gl;\n", before_free="-   membar.cta;\n+   membar.gl;\n"),
    **TWO,
    **COUNTED,
    words=("scope",),
)
fault(
    "scope_lock_taken_with_block_scope",
    f"atomicCAS_block takes a lock between blocks ({RACE})",
    locked(
        take="atom.relaxed.gpu.global.cas.b32 %r0, [%Z], 0, 1;\n-   setp.ne.u32 %p0, %r0, 0;",
    )
    .replace("-   setp.ne.u32 %p0, %r0, 0;\n", "")
    .replace(
        "    atom.relaxed.gpu.global.cas.b32 %r0, [%Z], 0, 1;\n",
        "-   atom.relaxed.cta.global.cas.b32 %r0, [%Z], 0, 1;   // FAULT: race\n"
        "+   atom.relaxed.gpu.global.cas.b32 %r0, [%Z], 0, 1;\n",
    )
    .replace("exch.b32 %r2, [%Z], 0;", "exch.b32 %r2, [%Z], 0;   // FAULT: race"),
    **TWO,
    **(COUNTED | {"bytes": ""}),
    words=("scope",),
)
fault(
    "scope_lock_freed_by_an_ordinary_store",
    f"*lock = 0 as an ordinary store ({RACE})",
    locked(
        take="atom.global.cas.b32 %r0, [%Z], 0, 1;            // FAULT: race",
        free="-   st.global.b32 [%Z], 0;               // FAULT: race\n+   st.volatile.global.b32 [%Z], 0;\n",
    ),
    **TWO,
    **(COUNTED | {"bytes": "Z 0:4"}),
)
fault(
    "scope_lock_freed_too_early",
    f"a write behind the end of the critical section ({RACE})",
    locked(behind="-   st.global.b32 [%D], 0;               // FAULT: race\n"),
    **TWO,
    **COUNTED,
)
fault(
    "scope_lock_read_before_it_is_taken",
    f"a read in front of the critical section ({RACE})",
    locked(before="-   ld.global.b32 %r5, [%D];             // FAULT: race\n"),
    **TWO,
    **COUNTED,
)
fault(
    "scope_two_locks_for_one_datum",
    f"each block takes a lock of its own ({RACE})",
    locked()
    .replace("TAKE:\n", "-   mad.wide.u32 %d1, %cta, 4, %Z;\n+   mov.b64 %d1, %Z;\nTAKE:\n")
    .replace("[%Z]", "[%d1]"),
    **TWO,
    **COUNTED,
)
fault(
    "scope_lock_failure_is_ignored",
    f"one attempt to take the lock, which fails while the other holds it, and on in any case ({RACE})",
    two_ctas(
        lines("""
atom.acquire.gpu.global.cas.b32 %r0, [%Z], 0, 1;
st.relaxed.gpu.global.b32 [%Z+4], 1;
SPIN ld.relaxed.gpu.global.b32 [%Z+8], 1;
ld.global.b32 %r1, [%D];             // FAULT: race
add.u32 %r1, %r1, 1;
st.global.b32 [%D], %r1;             // FAULT: race
atom.release.gpu.global.exch.b32 %r2, [%Z], 0;"""),
        lines("""
SPIN ld.relaxed.gpu.global.b32 [%Z+4], 1;
atom.acquire.gpu.global.cas.b32 %r0, [%Z], 0, 1;
st.relaxed.gpu.global.b32 [%Z+8], 1;
setp.ne.u32 %p0, %r0, 0;
+   @%p0 bra END;
ld.global.b32 %r1, [%D];             // FAULT: race
add.u32 %r1, %r1, 1;
st.global.b32 [%D], %r1;             // FAULT: race"""),
    ),
    **TWO,
    threads=("0@0", "0@1"),
    bytes="D 0:4",
)

fault(
    "scope_lock_order_decides",
    f"x is written before the lock is taken and read by the other inside it: a race when the other is first ({RACE})",
    """
    @!%is0 bra END;
    @%c0 st.global.b32 [%D+4], 9;        // FAULT: race
TAKE:
    atom.acquire.gpu.global.cas.b32 %r0, [%Z], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKE;
    ld.global.b32 %r1, [%D];
    add.u32 %r1, %r1, 1;
    st.global.b32 [%D], %r1;
-   @%c1 ld.global.b32 %r2, [%D+4];      // FAULT: race
+   @%c1 ld.global.b32 %r2, [%D+8];
    atom.release.gpu.global.exch.b32 %r3, [%Z], 0;
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="D 4:8",
)
fault(
    "scope_lock_order_decides_behind_it",
    f"x is read behind the lock and written inside it by the other: a race when the reader is first ({RACE})",
    """
    @!%is0 bra END;
TAKE:
    atom.acquire.gpu.global.cas.b32 %r0, [%Z], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKE;
    @%c1 st.global.b32 [%D+4], 9;        // FAULT: race
    atom.release.gpu.global.exch.b32 %r3, [%Z], 0;
-   @%c0 ld.global.b32 %r2, [%D+4];      // FAULT: race
+   @%c0 ld.global.b32 %r2, [%D+8];
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="D 4:8",
)
fault(
    "scope_lock_of_warps_with_relaxed_atomics",
    f"between warps: atomicCAS and atomicExch on a shared lock with no __threadfence_block ({RACE})",
    """
    @%is0 st.shared.b32 [%s], 0;
    bar.sync 0;
    setp.eq.u32 %p1, %lane, 0;
    @!%p1 bra END;
TAKE:
    atom.shared.cas.b32 %r0, [%s], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKE;
+   membar.cta;
    ld.global.b32 %r1, [%D];             // FAULT: race
    add.u32 %r1, %r1, 1;
    st.global.b32 [%D], %r1;             // FAULT: race
+   membar.cta;
    atom.shared.exch.b32 %r2, [%s], 0;
END:
    """,
    **IN_CTA,
    shared="s:4",
    threads=("0", "32"),
    bytes="D 0:4",
    gives={"D": lambda i: [3, *range(2, 65)]},
)
TICKET = """
    @!%is0 bra END;
    atom.relaxed.gpu.global.add.u32 %r0, [%Z], 1;
TURN:
    {poll}
    setp.ne.u32 %p0, %r1, %r0;
    @%p0 bra TURN;
{after}    ld.global.b32 %r2, [%D];             // FAULT: race
    add.u32 %r2, %r2, 1;
    st.global.b32 [%D], %r2;             // FAULT: race
    add.u32 %r0, %r0, 1;
{free}END:
"""
fault(
    "scope_ticket_lock_without_acquire",
    f"a ticket lock that polls now_serving with a relaxed load ({RACE})",
    TICKET.format(
        poll="ld.relaxed.gpu.global.b32 %r1, [%Z+4];",
        after="+   fence.acq_rel.gpu;\n",
        free="    st.release.gpu.global.b32 [%Z+4], %r0;\n",
    ),
    **TWO,
    **COUNTED,
)
fault(
    "scope_ticket_lock_without_release",
    f"a ticket lock that moves now_serving with a relaxed store ({RACE})",
    TICKET.format(
        poll="ld.acquire.gpu.global.b32 %r1, [%Z+4];",
        after="",
        free="+   fence.acq_rel.gpu;\n    st.relaxed.gpu.global.b32 [%Z+4], %r0;\n",
    ),
    **TWO,
    **COUNTED,
)
fault(
    "scope_ticket_lock_with_block_scope_tickets",
    f"tickets drawn with atomicAdd_block by two blocks ({RACE})",
    TICKET.format(
        poll="ld.acquire.gpu.global.b32 %r1, [%Z+4];",
        after="",
        free="    st.release.gpu.global.b32 [%Z+4], %r0;\n",
    ).replace(
        "    atom.relaxed.gpu.global.add.u32 %r0, [%Z], 1;\n",
        "-   atom.relaxed.cta.global.add.u32 %r0, [%Z], 1;      // FAULT: race\n"
        "+   atom.relaxed.gpu.global.add.u32 %r0, [%Z], 1;\n",
    ),
    **TWO,
    **(COUNTED | {"bytes": ""}),
    words=("scope",),
)

# ------------------------------------------------------------------------------------------------ barriers of the grid


def grid_barrier(
    *,
    first: str = "    bar.sync 0;\n",
    fence: str = "    membar.gl;\n",
    fence_after: str = "    membar.gl;\n",
    second: str = "    bar.sync 0;\n",
    count: str = "    atom.global.add.u32 %r0, [%Z], 1;\n",
    poll: str = "    SPIN ld.volatile.global.b32 [%Z], 2;\n",
) -> str:
    """All threads write, a barrier of the grid by atomics, all threads read the other block's words."""
    return f"""
    mad.lo.u32 %r3, %cta, 32, %t;
    mad.wide.u32 %d0, %r3, 4, %D;
    st.global.b32 [%d0], %r3;            // FAULT: race
{first}    @!%is0 bra MEET;
{fence}{count}{poll}{fence_after}MEET:
{second}    xor.b32 %r3, %r3, 32;
    mad.wide.u32 %d1, %r3, 4, %D;
    ld.global.b32 %r4, [%d1];            // FAULT: race
"""


fault(
    "scope_grid_barrier_without_fence",
    f"no __threadfence before the atomic ({RACE})",
    grid_barrier(fence="+   membar.gl;\n"),
    **TWO,
    threads=("0-31@0", "0-31@1"),
    bytes="D 0:256",
)
fault(
    "scope_grid_barrier_without_second_fence",
    f"no __threadfence behind the poll ({RACE})",
    grid_barrier(fence_after="+   membar.gl;\n"),
    **TWO,
    threads=("0-31@0", "0-31@1"),
    bytes="D 0:256",
)
fault(
    "scope_grid_barrier_without_first_syncthreads",
    f"no __syncthreads before thread 0 counts ({RACE})",
    grid_barrier(first="+   bar.sync 0;\n"),
    **TWO,
    threads=("0-31@0", "0-31@1"),
    bytes="D 0:256",
)
fault(
    "scope_grid_barrier_without_second_syncthreads",
    f"the other threads do not wait for thread 0 ({RACE})",
    grid_barrier(second="+   bar.sync 0;\n"),
    **TWO,
    threads=("0-31@0", "0-31@1"),
    bytes="D 0:256",
)
fault(
    "scope_grid_barrier_of_one_too_few",
    f"the barrier counts one block less than there are ({RACE})",
    grid_barrier(
        poll="-   mov.b32 %r7, 1;\n+   mov.b32 %r7, 2;\nPOLL:\n    ld.volatile.global.b32 %r6, [%Z];\n"
        "    setp.lt.u32 %p6, %r6, %r7;\n    @%p6 bra POLL;\n"
    ),
    **TWO,
    threads=("0-31@0", "0-31@1"),
    bytes="D 0:256",
)
fault(
    "scope_grid_barrier_of_block_scope",
    f"the barrier counts with atomicAdd_block ({RACE})",
    grid_barrier(
        count="-   atom.relaxed.cta.global.add.u32 %r0, [%Z], 1;      // FAULT: race\n"
        "+   atom.relaxed.gpu.global.add.u32 %r0, [%Z], 1;\n",
        poll="    SPIN ld.volatile.global.b32 [%Z], 2; // FAULT: race\n",
    ),
    **TWO,
    threads=("0-31@0", "0-31@1"),
    words=("scope",),
)
fault(
    "scope_grid_barrier_used_twice",
    f"the counter of the first barrier is full when the second begins ({RACE})",
    """
    @!%is0 bra END;
    mad.wide.u32 %d0, %cta, 4, %D;
    xor.b32 %r3, %cta, 1;
    mad.wide.u32 %d1, %r3, 4, %D;
    st.global.b32 [%d0], 1;
    atom.add.acq_rel.gpu.global.u32 %r0, [%Z], 1;
ONE:
    ld.acquire.gpu.global.b32 %r1, [%Z];
    setp.lt.u32 %p0, %r1, 2;
    @%p0 bra ONE;
    mul.lo.u32 %r5, %cta, 50;
DELAY:
    sub.s32 %r5, %r5, 1;
    setp.gt.s32 %p1, %r5, 0;
    @%p1 bra DELAY;
    ld.global.b32 %r2, [%d1];            // FAULT: race
    atom.add.acq_rel.gpu.global.u32 %r0, [%Z], 1;
TWO:
    ld.acquire.gpu.global.b32 %r1, [%Z];
-   setp.lt.u32 %p0, %r1, 2;
+   setp.lt.u32 %p0, %r1, 4;
    @%p0 bra TWO;
    st.global.b32 [%d0], 2;              // FAULT: race
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="D 0:8",
)

# ------------------------------------------------------------------------------------------------ queues, stealing, stream-K

fault(
    "scope_work_counter_of_block_scope",
    f"i = atomicAdd_block(next, 1) hands the same item to two blocks ({RACE})",
    """
    @!%is0 bra END;
-   atom.relaxed.cta.global.add.u32 %r0, [%Z], 1;      // FAULT: race
+   atom.relaxed.gpu.global.add.u32 %r0, [%Z], 1;
    mad.wide.u32 %d0, %r0, 4, %D;
    st.global.b32 [%d0], %cta;
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    words=("scope",),
)
fault(
    "scope_queue_slot_published_without_fence",
    f"slot[i] = task; ready[i] = 1 with no __threadfence ({RACE})",
    two_ctas(
        lines(
            "atom.global.add.u32 %r0, [%Z], 1;\nmad.wide.u32 %d0, %r0, 4, %D;\nst.global.b32 [%d0], 42;             // FAULT: race\n"
            "+   membar.gl;\nst.volatile.global.b32 [%Z+4], 1;"
        ),
        lines(f"SPIN ld.volatile.global.b32 [%Z+4], 1;\nmembar.gl;\n{READ}"),
    ),
    **TWO,
    threads=("0@0", "0@1"),
    bytes="D 0:4",
)
fault(
    "scope_queue_size_published_before_the_slot",
    f"atomicAdd(&size, 1) makes the slot visible before it is filled ({RACE})",
    two_ctas(
        lines(
            "+   st.global.b32 [%D], 42;\n+   fence.acq_rel.gpu;\natom.global.add.u32 %r0, [%Z], 1;\n"
            "-   fence.acq_rel.gpu;\n-   st.global.b32 [%D], 42;              // FAULT: race"
        ),
        lines(f"SPIN ld.acquire.gpu.global.b32 [%Z], 1;\n{READ}"),
    ),
    **TWO,
    threads=("0@0", "0@1"),
    bytes="D 0:4",
)
fault(
    "scope_stolen_work_of_block_scope",
    f"the owner pops with block scope what other blocks steal with device scope ({RACE})",
    """
    @!%is0 bra END;
-   @%c0 atom.acquire.cta.global.add.u32 %r0, [%Z], 1;     // FAULT: race
+   @%c0 atom.acquire.gpu.global.add.u32 %r0, [%Z], 1;
    @%c1 atom.acquire.gpu.global.add.u32 %r0, [%Z], 1;     // FAULT: race
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="Z 0:4",
    words=("scope",),
)
fault(
    "scope_owner_pops_without_atomics",
    f"the owner moves the tail with ordinary accesses while thieves read it ({RACE})",
    """
    @!%is0 bra END;
-   @%c0 st.global.b32 [%Z], 3;          // FAULT: race
+   @%c0 atom.global.exch.b32 %r1, [%Z], 3;
    @%c1 atom.global.add.u32 %r0, [%Z], 0;         // FAULT: race
END:
    """,
    **TWO,
    threads=("0@0", "0@1"),
    bytes="Z 0:4",
)
fault(
    "scope_stolen_item_without_acquire",
    f"an item whose index was taken by a relaxed compare-and-swap ({RACE})",
    two_ctas(
        lines("st.global.b32 [%D], 42;              // FAULT: race\nst.release.gpu.global.b32 [%Z], 1;"),
        lines(
            "AGAIN:\n-   atom.relaxed.gpu.global.cas.b32 %r1, [%Z], 1, 2;\n+   atom.acquire.gpu.global.cas.b32 %r1, [%Z], 1, 2;\n"
            f"setp.ne.u32 %p0, %r1, 1;\n@%p0 bra AGAIN;\n{READ}"
        ),
    ),
    **TWO,
    threads=("0@0", "0@1"),
    bytes="D 0:4",
)
STREAM_K = """
    @%c0 bra OWNER;
    add.u64 %d1, %Dt, 128;
    st.global.b32 [%d1], %t;             // FAULT: race
{publish}    bra END;
OWNER:
{wait}    add.u64 %d1, %Dt, 128;
    ld.global.b32 %r1, [%d1];            // FAULT: race
    add.u32 %r1, %r1, 100;
    st.global.b32 [%Dt], %r1;
END:
"""
FIXED = {"gives": {"D": lambda i: [100 + k % 32 if k < 32 else k - 32 for k in range(64)]}, "bytes": "D 128:256"}
fault(
    "scope_stream_k_flag_without_barrier",
    f"a partial tile's flag is set before all threads have stored ({RACE})",
    STREAM_K.format(
        publish="+   bar.sync 0;\n    @%is0 red.release.gpu.global.add.u32 [%Z], 1;\n",
        wait="    @!%is0 bra MEET;\n    SPIN ld.acquire.gpu.global.b32 [%Z], 1;\nMEET:\n    bar.sync 0;\n",
    ),
    **TWO,
    **FIXED,
)
fault(
    "scope_stream_k_waiter_without_barrier",
    f"the threads of the owner do not wait for the one that polls ({RACE})",
    STREAM_K.format(
        publish="    bar.sync 0;\n    @%is0 red.release.gpu.global.add.u32 [%Z], 1;\n",
        wait="    @!%is0 bra MEET;\n    SPIN ld.acquire.gpu.global.b32 [%Z], 1;\nMEET:\n+   bar.sync 0;\n",
    ),
    **TWO,
    **FIXED,
)
fault(
    "scope_stream_k_relaxed_semaphore",
    f"the semaphore of a partial tile is moved with a relaxed atomic ({RACE})",
    STREAM_K.format(
        publish="    bar.sync 0;\n-   @%is0 red.relaxed.gpu.global.add.u32 [%Z], 1;\n"
        "+   @%is0 red.release.gpu.global.add.u32 [%Z], 1;\n",
        wait="    @!%is0 bra MEET;\n    SPIN ld.acquire.gpu.global.b32 [%Z], 1;\nMEET:\n    bar.sync 0;\n",
    ),
    **TWO,
    **FIXED,
)
fault(
    "scope_lookback_value_beside_its_status",
    f"decoupled look-back: value and status in two words with no fence ({RACE})",
    two_ctas(
        lines(
            "st.relaxed.gpu.global.b32 [%Z+4], 2;\nst.global.b32 [%D], 42;              // FAULT: race\n+   fence.acq_rel.gpu;\n"
            "st.relaxed.gpu.global.b32 [%Z], 1;"
        ),
        lines(f"SPIN ld.relaxed.gpu.global.b32 [%Z], 1;\nfence.acq_rel.gpu;\n{READ}"),
    ),
    **TWO,
    threads=("0@0", "0@1"),
    bytes="D 0:4",
)

# ------------------------------------------------------------------------------------------------ __syncthreads, __syncwarp

fault(
    "scope_tile_loop_with_one_barrier",
    f"load tile; __syncthreads(); use tile: the next load overtakes the slowest reader ({RACE})",
    """
    mov.b32 %r5, 0;
LOOP:
    st.shared.b32 [%st], %r5;            // FAULT: race
    bar.sync 0;
    xor.b32 %r0, %t, 32;
    mad.lo.u32 %r1, %r0, 4, %s;
    ld.shared.b32 %r2, [%r1];            // FAULT: race
+   bar.sync 0;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p0, %r5, 3;
    @%p0 bra LOOP;
    """,
    **IN_CTA,
    shared="s:256",
    threads=("0-31", "32-63"),
    bytes="s 0:256",
)
fault(
    "scope_inclusive_scan_in_place",
    f"Hillis-Steele scan in one buffer: read, __syncthreads, write, __syncthreads ({RACE})",
    """
    st.shared.b32 [%st], 1;
    bar.sync 0;
    mov.b32 %r5, 1;
LOOP:
    setp.ge.u32 %p0, %t, %r5;
    mov.b32 %r2, 0;
    sub.u32 %r0, %t, %r5;
    mad.lo.u32 %r1, %r0, 4, %s;
    @%p0 ld.shared.b32 %r2, [%r1];       // FAULT: race
    ld.shared.b32 %r3, [%st];
+   bar.sync 0;
    add.u32 %r3, %r3, %r2;
    st.shared.b32 [%st], %r3;            // FAULT: race
    bar.sync 0;
    shl.b32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 64;
    @%p1 bra LOOP;
    st.global.b32 [%Dt], %r3;
    """,
    **IN_CTA,
    shared="s:256",
    threads=("0-63",),
    bytes="s 0:256",
    gives={"D": lambda i: i + 1},
)
fault(
    "scope_warp_reduction_without_syncwarp",
    f"the last warp of a reduction relies on lock step ({RACE})",
    """
    st.shared.b32 [%st], 1;
    bar.sync 0;
    @%w1 bra END;
    mov.b32 %r5, 32;
LOOP:
    mad.lo.u32 %r0, %r5, 4, %st;
    setp.lt.u32 %p1, %t, %r5;
    @%p1 ld.shared.b32 %r2, [%r0];       // FAULT: race
    @%p1 ld.shared.b32 %r3, [%st];
    @%p1 add.u32 %r3, %r3, %r2;
+   bar.warp.sync 0xffffffff;
    @%p1 st.shared.b32 [%st], %r3;       // FAULT: race
+   bar.warp.sync 0xffffffff;
    shr.u32 %r5, %r5, 1;
    setp.ne.u32 %p0, %r5, 0;
    @%p0 bra LOOP;
    @%is0 st.global.b32 [%D], %r3;
END:
    """,
    **IN_CTA,
    shared="s:256",
    threads=("0-31",),
    bytes="s 0:256",
    gives={"D": lambda i: [64, *range(2, 65)]},
)
fault(
    "scope_neighbouring_blocks_of_a_stencil",
    f"two blocks of one launch, each writes its part and reads the neighbour's edge ({RACE})",
    """
    mad.lo.u32 %r3, %cta, 32, %t;
    mad.wide.u32 %d0, %r3, 4, %D;
    st.global.b32 [%d0], %r3;            // FAULT: race
    bar.sync 0;
-   setp.eq.u32 %p0, %r3, 31;
+   setp.eq.u32 %p0, %r3, 30;
    @%p0 ld.global.b32 %r4, [%d0+4];     // FAULT: race
    """,
    **TWO,
    threads=("31@0", "0@1"),
    bytes="D 128:132",
)
fault(
    "scope_syncthreads_does_not_reach_another_block",
    f"__syncthreads() in both blocks orders neither with the other ({RACE})",
    """
    @!%is0 bra MEET;
    @%c0 st.global.b32 [%D], 1;          // FAULT: race
MEET:
    bar.sync 0;
-   @%c1 ld.global.b32 %r0, [%D];        // FAULT: race
+   @%c1 ld.global.b32 %r0, [%D+8];
    """,
    **TWO,
    threads=("0@0", "0-31@1"),
    bytes="D 0:4",
)

# ------------------------------------------------------------------------------------------------ clean without a twin

clean(
    "clean_release_acquire_of_system_scope",
    "system scope includes the other block",
    two_ctas(
        lines("st.global.b32 [%D], 42;\nst.release.sys.global.b32 [%Z], 1;"),
        lines("SPIN ld.acquire.sys.global.b32 [%Z], 1;\nld.global.b32 %r0, [%D];\nst.global.b32 [%D+4], %r0;"),
    ),
    **TWO,
    **GOT,
)
clean(
    "clean_mixed_wide_scopes",
    "gpu and sys scope both include the other block",
    two_ctas(
        lines("st.global.b32 [%D], 42;\nst.release.sys.global.b32 [%Z], 1;"),
        lines("SPIN ld.acquire.gpu.global.b32 [%Z], 1;\nld.global.b32 %r0, [%D];\nst.global.b32 [%D+4], %r0;"),
    ),
    **TWO,
    **GOT,
)
clean(
    "clean_acq_rel_fences",
    "fence.acq_rel around relaxed accesses is release and acquire",
    two_ctas(
        lines("st.global.b32 [%D], 42;\nfence.acq_rel.gpu;\nst.relaxed.gpu.global.b32 [%Z], 1;"),
        lines(
            "SPIN ld.relaxed.gpu.global.b32 [%Z], 1;\nfence.acq_rel.gpu;\nld.global.b32 %r0, [%D];\nst.global.b32 [%D+4], %r0;"
        ),
    ),
    **TWO,
    **GOT,
)
clean(
    "clean_sc_fences",
    "fence.sc is at least fence.acq_rel",
    two_ctas(
        lines("st.global.b32 [%D], 42;\nfence.sc.gpu;\nst.relaxed.gpu.global.b32 [%Z], 1;"),
        lines(
            "SPIN ld.relaxed.gpu.global.b32 [%Z], 1;\nfence.sc.gpu;\nld.global.b32 %r0, [%D];\nst.global.b32 [%D+4], %r0;"
        ),
    ),
    **TWO,
    **GOT,
)
clean(
    "clean_release_fence_acquire_load",
    "a fence on one side, .acquire on the other",
    two_ctas(
        lines("st.global.b32 [%D], 42;\nmembar.gl;\nst.volatile.global.b32 [%Z], 1;"),
        lines("SPIN ld.acquire.gpu.global.b32 [%Z], 1;\nld.global.b32 %r0, [%D];\nst.global.b32 [%D+4], %r0;"),
    ),
    **TWO,
    **GOT,
)
clean(
    "clean_atomics_with_semantics",
    "atom.release and atom.acquire on one word",
    two_ctas(
        lines("st.global.b32 [%D], 42;\natom.release.gpu.global.exch.b32 %r1, [%Z], 1;"),
        lines(
            "AGAIN:\natom.acquire.gpu.global.cas.b32 %r1, [%Z], 1, 2;\nsetp.ne.u32 %p0, %r1, 1;\n@%p0 bra AGAIN;\n"
            "ld.global.b32 %r0, [%D];\nst.global.b32 [%D+4], %r0;"
        ),
    ),
    **TWO,
    **GOT,
)
clean(
    "clean_relay_of_three",
    "causality is transitive: writer, relay, reader",
    """
    @!%is0 bra END;
    @%c1 bra RELAY;
    @%c2 bra TAKE;
    st.global.b32 [%D], 42;
    st.release.gpu.global.b32 [%Z], 1;
    bra END;
RELAY:
    SPIN ld.acquire.gpu.global.b32 [%Z], 1;
    st.release.gpu.global.b32 [%Z+4], 1;
    bra END;
TAKE:
    SPIN ld.acquire.gpu.global.b32 [%Z+4], 1;
    ld.global.b32 %r0, [%D];
    st.global.b32 [%D+4], %r0;
END:
    """,
    **(TWO | {"grid": 3}),
    **GOT,
)
clean(
    "clean_barrier_then_release",
    "all threads store, __syncthreads, one releases: what the barrier told it is released too",
    """
    @%c1 bra TAKE;
    st.global.b32 [%Dt], 9;
    bar.sync 0;
    @%is0 st.release.gpu.global.b32 [%Z], 1;
    bra END;
TAKE:
    @!%is0 bra MEET;
    SPIN ld.acquire.gpu.global.b32 [%Z], 1;
MEET:
    bar.sync 0;
    ld.global.b32 %r0, [%Dt];
    add.u64 %d1, %Dt, 128;
    st.global.b32 [%d1], %r0;
END:
    """,
    **TWO,
    gives={"D": 9},
)
clean(
    "clean_warp_sync_then_release",
    "a warp stores, __syncwarp, lane 0 releases",
    """
    @%c1 bra TAKE;
    st.global.b32 [%Dt], 9;
    bar.warp.sync 0xffffffff;
    @%is0 st.release.gpu.global.b32 [%Z], 1;
    bra END;
TAKE:
    SPIN ld.acquire.gpu.global.b32 [%Z], 1;
    ld.global.b32 %r0, [%D+12];
    @%is0 st.global.b32 [%D+128], %r0;
END:
    """,
    **TWO,
)
clean(
    "clean_every_thread_polls",
    "all threads of a block poll the flag themselves",
    """
    @%c1 bra TAKE;
    @%is0 st.global.b32 [%D], 42;
    @%is0 st.release.gpu.global.b32 [%Z], 1;
    bra END;
TAKE:
    SPIN ld.acquire.gpu.global.b32 [%Z], 1;
    ld.global.b32 %r0, [%D];
    add.u64 %d1, %Dt, 128;
    st.global.b32 [%d1], %r0;
END:
    """,
    **TWO,
    gives={"D": lambda i: [42, *range(2, 33), *[42] * 32]},
)
clean(
    "clean_independent_words",
    "two blocks write words of one sector",
    """
    mad.wide.u32 %d0, %cta, 4, %D;
    @%is0 st.global.b32 [%d0], %cta;
    """,
    **TWO,
)
clean(
    "clean_independent_bytes",
    "threads write the bytes of one word",
    """
    cvt.u64.u32 %d0, %t;
    add.u64 %d1, %D, %d0;
    st.global.b8 [%d1], %t;
    """,
    **IN_CTA,
    gives={
        "D": lambda i: [
            4 * k + (4 * k + 1) * 256 + (4 * k + 2) * 65536 + (4 * k + 3) * (1 << 24) if k < 16 else k + 1
            for k in range(64)
        ]
    },
)
clean(
    "clean_common_reads",
    "all blocks read one word",
    """
    ld.global.b32 %r0, [%D];
    ld.global.nc.b32 %r1, [%D+4];
    """,
    **TWO,
)
clean(
    "clean_atomics_of_many",
    "atomics of all threads on one word, and of a block on its own",
    """
    red.global.add.u32 [%Z], 1;
    mad.wide.u32 %d0, %cta, 4, %Z;
    atom.relaxed.cta.global.add.u32 %r0, [%d0+8], 2;
    """,
    **TWO,
    gives={"Z": lambda i: [64, 0, 64, 64, 0, 0, 0, 0]},
)
clean(
    "clean_atomics_of_every_kind",
    "all operations of atom, from all threads of a block",
    """
    atom.global.and.b32 %r0, [%Z], 0;
    atom.global.or.b32 %r0, [%Z+4], %t;
    atom.global.xor.b32 %r0, [%Z+8], 0;
    atom.global.min.u32 %r0, [%Z+12], %t;
    atom.global.max.s32 %r0, [%Z+16], %t;
    atom.global.inc.u32 %r0, [%Z+20], 100;
    atom.global.dec.u32 %r0, [%Z+24], 1000;
    atom.global.exch.b32 %r0, [%Z+28], 5;
    """,
    **IN_CTA,
    gives={"Z": lambda i: [0, 63, 0, 0, 63, 64, 1000 - 63, 5]},
)
clean(
    "clean_float_atomics",
    "red.add.f32 of small integers is exact in any order",
    """
    cvt.rn.f32.u32 %f0, %t;
    red.global.add.f32 [%Z], %f0;
    """,
    **(IN_CTA | {"arrays": "D:64 Z:8xf32"}),
    gives={"Z": lambda i: [2016, 0, 0, 0, 0, 0, 0, 0]},
)
clean(
    "clean_lock_with_acquire_and_release",
    "atom.acquire takes, atom.release frees",
    locked(
        take="atom.acquire.gpu.global.cas.b32 %r0, [%Z], 0, 1;",
        after_take="",
        before_free="",
        free="    atom.release.gpu.global.exch.b32 %r2, [%Z], 0;\n",
    ).replace("// FAULT: race", ""),
    **(TWO | {"grid": 4}),
    gives={"D": lambda i: [5, *range(2, 65)]},
)
clean(
    "clean_lock_of_every_lane",
    "lanes of one warp take a lock one after another: each attempt and its section in one turn of the loop",
    """
    setp.ge.u32 %p2, %t, 8;
    @%p2 bra END;
    mov.b32 %r9, 0;
LOOP:
    atom.acquire.gpu.global.cas.b32 %r0, [%Z], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra NEXT;
    ld.global.b32 %r1, [%D];
    add.u32 %r1, %r1, 1;
    st.global.b32 [%D], %r1;
    atom.release.gpu.global.exch.b32 %r2, [%Z], 0;
    mov.b32 %r9, 1;
NEXT:
    setp.eq.u32 %p1, %r9, 0;
    @%p1 bra LOOP;
END:
    """,
    **TWO,
    gives={"D": lambda i: [17, *range(2, 65)]},
)
clean(
    "clean_lock_with_backoff",
    "nanosleep between attempts",
    """
    @!%is0 bra END;
TAKE:
    atom.acquire.gpu.global.cas.b32 %r0, [%Z], 0, 1;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 bra GOT;
    nanosleep.u32 100;
    bra TAKE;
GOT:
    ld.global.b32 %r1, [%D];
    add.u32 %r1, %r1, 1;
    st.global.b32 [%D], %r1;
    atom.release.gpu.global.exch.b32 %r2, [%Z], 0;
END:
    """,
    **(TWO | {"grid": 3}),
    gives={"D": lambda i: [4, *range(2, 65)]},
)
clean(
    "clean_test_and_test_and_set",
    "a lock that is polled with loads before the next attempt",
    """
    @!%is0 bra END;
TAKE:
    ld.relaxed.gpu.global.b32 %r0, [%Z];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKE;
    atom.acquire.gpu.global.exch.b32 %r0, [%Z], 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKE;
    ld.global.b32 %r1, [%D];
    add.u32 %r1, %r1, 1;
    st.global.b32 [%D], %r1;
    st.release.gpu.global.b32 [%Z], 0;
END:
    """,
    **(TWO | {"grid": 3}),
    gives={"D": lambda i: [4, *range(2, 65)]},
)
clean(
    "clean_lock_in_shared_memory",
    "a lock of a block with .cta scope",
    """
    @%is0 st.shared.b32 [%s], 0;
    @%is0 st.shared.b32 [%s+4], 0;
    bar.sync 0;
    setp.eq.u32 %p1, %lane, 0;
    @!%p1 bra MEET;
TAKE:
    atom.acquire.cta.shared.cas.b32 %r0, [%s], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKE;
    ld.shared.b32 %r1, [%s+4];
    add.u32 %r1, %r1, 1;
    st.shared.b32 [%s+4], %r1;
    atom.release.cta.shared.exch.b32 %r2, [%s], 0;
MEET:
    bar.sync 0;
    ld.shared.b32 %r3, [%s+4];
    st.global.b32 [%Dt], %r3;
    """,
    **(IN_CTA | {"block": 128, "arrays": "D:128"}),
    shared="s:8",
    gives={"D": 4},
)
clean(
    "clean_two_locks_in_one_order",
    "two locks, taken in the same order by all",
    """
    @!%is0 bra END;
TAKE:
    atom.acquire.gpu.global.cas.b32 %r0, [%Z], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra TAKE;
BOTH:
    atom.acquire.gpu.global.cas.b32 %r0, [%Z+4], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra BOTH;
    ld.global.b32 %r1, [%D];
    add.u32 %r1, %r1, 1;
    st.global.b32 [%D], %r1;
    atom.release.gpu.global.exch.b32 %r2, [%Z+4], 0;
    atom.release.gpu.global.exch.b32 %r2, [%Z], 0;
END:
    """,
    **TWO,
    gives={"D": lambda i: [3, *range(2, 65)]},
)
clean(
    "clean_grid_barrier_by_sense",
    "a barrier of the grid, used five times",
    """
    mov.b32 %r7, 0;
ROUND:
    mad.lo.u32 %r3, %cta, 32, %t;
    mad.wide.u32 %d0, %r3, 4, %D;
    st.global.b32 [%d0], %r7;
    add.u32 %r7, %r7, 1;
    bar.sync 0;
    @!%is0 bra MEET;
    atom.add.acq_rel.gpu.global.u32 %r0, [%Z], 1;
    shl.b32 %r8, %r7, 2;
    sub.u32 %r8, %r8, %r7;
POLL:
    ld.acquire.gpu.global.b32 %r1, [%Z];
    setp.lt.u32 %p0, %r1, %r8;
    @%p0 bra POLL;
MEET:
    bar.sync 0;
    xor.b32 %r3, %r3, 32;
    mad.wide.u32 %d1, %r3, 4, %D;
    setp.lt.u32 %p2, %cta, 2;
    @%p2 ld.global.b32 %r4, [%d1];
    bar.sync 0;
    @!%is0 bra AGAIN;
    atom.add.acq_rel.gpu.global.u32 %r0, [%Z+4], 1;
POLL2:
    ld.acquire.gpu.global.b32 %r1, [%Z+4];
    setp.lt.u32 %p0, %r1, %r8;
    @%p0 bra POLL2;
AGAIN:
    bar.sync 0;
    setp.lt.u32 %p1, %r7, 5;
    @%p1 bra ROUND;
    """,
    **(TWO | {"grid": 3, "arrays": "D:96 Z:8"}),
    gives={"D": 4},
)
clean(
    "clean_lookback_packed_in_64_bits",
    "decoupled look-back with status and value in one 64-bit word",
    """
    @!%is0 bra END;
    mad.wide.u32 %d3, %cta, 8, %Z;
    mov.b32 %r0, 0;
    setp.eq.u32 %p0, %cta, 0;
    @%p0 bra PUBLISH;
WAIT:
    ld.relaxed.gpu.global.b64 %d1, [%d3+-8];
    setp.eq.u64 %p1, %d1, 0;
    @%p1 bra WAIT;
    cvt.u32.u64 %r0, %d1;
PUBLISH:
    add.u32 %r0, %r0, 5;
    cvt.u64.u32 %d2, %r0;
    or.b64 %d2, %d2, 0x100000000;
    st.relaxed.gpu.global.b64 [%d3], %d2;
    mad.wide.u32 %d0, %cta, 4, %D;
    st.global.b32 [%d0], %r0;
END:
    """,
    **(TWO | {"grid": 4, "arrays": "D:4 Z:8"}),
    gives={"D": lambda i: 5 * (i + 1)},
)
clean(
    "clean_queue_of_tasks",
    "tasks drawn with atomicAdd until there are none",
    """
    @!%is0 bra END;
LOOP:
    atom.global.add.u32 %r0, [%Z], 1;
    setp.ge.u32 %p0, %r0, 16;
    @%p0 bra END;
    mad.wide.u32 %d0, %r0, 4, %D;
    st.global.b32 [%d0], 0;
    bra LOOP;
END:
    """,
    **(TWO | {"grid": 3}),
    gives={"D": lambda i: [0] * 16 + list(range(17, 65))},
)
clean(
    "clean_aggregated_atomics",
    "one atomic for the active lanes of a warp, the rest by shuffle",
    """
    activemask.b32 %r0;
    popc.b32 %r1, %r0;
    mov.b32 %r2, 0;
    @%is0 atom.global.add.u32 %r2, [%Z], %r1;
    shfl.sync.idx.b32 %r3, %r2, 0, 0x1f, 0xffffffff;
    add.u32 %r3, %r3, %lane;
    st.global.b32 [%Dt], %r3;
    """,
    grid=1,
    block=32,
    arrays="D:32 Z:8",
    gives={"D": lambda i: i},
)
clean(
    "clean_scan_in_two_buffers",
    "Hillis-Steele scan in two buffers: one barrier a step",
    """
    st.shared.b32 [%st], 1;
    bar.sync 0;
    mov.b32 %r5, 1;
    mov.b32 %r6, 0;
LOOP:
    mad.lo.u32 %r7, %r6, 256, %st;
    xor.b32 %r6, %r6, 1;
    mad.lo.u32 %r8, %r6, 256, %st;
    ld.shared.b32 %r3, [%r7];
    setp.ge.u32 %p0, %t, %r5;
    mul.lo.u32 %r1, %r5, 4;
    sub.u32 %r1, %r7, %r1;
    mov.b32 %r2, 0;
    @%p0 ld.shared.b32 %r2, [%r1];
    add.u32 %r3, %r3, %r2;
    st.shared.b32 [%r8], %r3;
    bar.sync 0;
    shl.b32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 64;
    @%p1 bra LOOP;
    st.global.b32 [%Dt], %r3;
    """,
    **IN_CTA,
    shared="s:512",
    gives={"D": lambda i: i + 1},
)
clean(
    "clean_warp_reduction_by_shuffles",
    "registers only",
    """
    mov.b32 %r0, %t;
    shfl.sync.bfly.b32 %r1, %r0, 16, 0x1f, 0xffffffff;
    add.u32 %r0, %r0, %r1;
    shfl.sync.bfly.b32 %r1, %r0, 8, 0x1f, 0xffffffff;
    add.u32 %r0, %r0, %r1;
    shfl.sync.bfly.b32 %r1, %r0, 4, 0x1f, 0xffffffff;
    add.u32 %r0, %r0, %r1;
    shfl.sync.bfly.b32 %r1, %r0, 2, 0x1f, 0xffffffff;
    add.u32 %r0, %r0, %r1;
    shfl.sync.bfly.b32 %r1, %r0, 1, 0x1f, 0xffffffff;
    add.u32 %r0, %r0, %r1;
    st.global.b32 [%Dt], %r0;
    """,
    grid=1,
    block=32,
    arrays="D:32",
    gives={"D": 496},
)
clean(
    "clean_double_checked_initialisation",
    "the first to draw the ticket initialises, the others wait for its flag",
    """
    @!%is0 bra END;
    atom.relaxed.gpu.global.cas.b32 %r0, [%Z], 0, 1;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra OTHERS;
    st.global.b32 [%D], 42;
    st.release.gpu.global.b32 [%Z+4], 1;
OTHERS:
    SPIN ld.acquire.gpu.global.b32 [%Z+4], 1;
    ld.global.b32 %r1, [%D];
    mad.wide.u32 %d0, %cta, 4, %D;
    st.global.b32 [%d0+16], %r1;
END:
    """,
    **(TWO | {"grid": 3}),
    gives={"D": lambda i: [42, 2, 3, 4, 42, 42, 42, *range(8, 65)]},
)
clean(
    "clean_ping_pong",
    "two blocks hand one word to and fro",
    """
    @!%is0 bra END;
    mov.b32 %r5, %cta;
LOOP:
    ld.acquire.gpu.global.b32 %r0, [%Z];
    setp.ne.u32 %p0, %r0, %r5;
    @%p0 bra LOOP;
    ld.global.b32 %r1, [%D];
    add.u32 %r1, %r1, 1;
    st.global.b32 [%D], %r1;
    add.u32 %r0, %r0, 1;
    st.release.gpu.global.b32 [%Z], %r0;
    add.u32 %r5, %r5, 2;
    setp.lt.u32 %p1, %r5, 10;
    @%p1 bra LOOP;
END:
    """,
    **TWO,
    gives={"D": lambda i: [11, *range(2, 65)]},
)
clean(
    "clean_cluster_scope_in_a_cluster",
    ".cluster scope between the blocks of one cluster",
    two_ctas(
        lines("st.global.b32 [%D], 42;\nst.release.cluster.global.b32 [%Z], 1;"),
        lines("SPIN ld.acquire.cluster.global.b32 [%Z], 1;\nld.global.b32 %r0, [%D];\nst.global.b32 [%D+4], %r0;"),
    ),
    **TWO,
    cluster=2,
    **GOT,
)
clean(
    "clean_strong_accesses_do_not_race",
    "relaxed accesses of one word by all blocks: a race of values, no data race",
    """
    @!%is0 bra END;
    st.relaxed.gpu.global.b32 [%Z], %cta;
    ld.relaxed.gpu.global.b32 %r0, [%Z];
    ld.volatile.global.b32 %r1, [%Z];
END:
    """,
    **(TWO | {"grid": 4}),
)
clean(
    "clean_generic_and_global_atomics",
    "atomics by generic and by global addresses on one word",
    """
    cvta.global.u64 %d0, %Z;
    @%c0 atom.add.u32 %r0, [%d0], 1;
    @%c1 atom.global.add.u32 %r0, [%Z], 1;
    """,
    **TWO,
    gives={"Z": lambda i: [64, 0, 0, 0, 0, 0, 0, 0]},
)
clean(
    "clean_module_scope_flag",
    "flags and data in module-scope variables",
    """
    @!%is0 bra END;
    mov.u64 %d0, data;
    mov.u64 %d1, ready;
    @%c1 bra TAKE;
    st.global.b32 [%d0], 42;
    membar.gl;
    st.volatile.global.b32 [%d1], 1;
    bra END;
TAKE:
    SPIN ld.volatile.global.b32 [%d1], 1;
    membar.gl;
    ld.global.b32 %r0, [%d0];
    st.global.b32 [%D+4], %r0;
END:
    """,
    **TWO,
    module=".global .align 4 .u32 data;\n.global .align 4 .u32 ready = 0;",
    gives={"D": lambda i: [1, 42, *range(3, 65)]},
)
