"""Poison, bounds, alignment, windows, address spaces, what is not declared."""

from .model import fault

POISON = "what was never written has no value (PTX ISA 5.1.7, 5.1.2: no initial contents)"
BOUNDS = "an access outside the memory of its variable is undefined (PTX ISA 5.1, 6.4.1)"
ALIGN = "an address is a multiple of the access size (PTX ISA 6.4.1)"
WINDOW = "shared::cta addresses lie in the window of the executing CTA (PTX ISA 5.1.7)"

# ------------------------------------------------------------------------------------------------ poison

fault(
    "poison_shared_word",
    POISON,
    """
+   st.shared.b32 [%s+12], 7;
    ld.shared.b32 %r0, [%s+12];          // FAULT: poison
    st.global.b32 [%A], %r0;
    """,
    shared="s:64",
    block=1,
    threads=("0",),
    bytes="s 12:16",
    gives={"A": lambda i: [7, *range(2, 65)]},
)
fault(
    "poison_shared_last_byte_of_a_vector",
    POISON + "; three of a vector's four words are not enough",
    """
    st.shared.v2.b32 [%s], {1, 2};
    st.shared.b32 [%s+8], 3;
-   st.shared.b8 [%s+12], 4;
+   st.shared.b32 [%s+12], 4;
    ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [%s];   // FAULT: poison
    st.global.v4.b32 [%A], {%r0, %r1, %r2, %r3};
    """,
    shared="s:16",
    block=1,
    threads=("0",),
    bytes="s 13:16",
)
fault(
    "poison_shared_other_buffer",
    POISON + "; two variables do not share their bytes",
    """
    st.shared.b32 [%u], 1;
+   st.shared.b32 [%s], 1;
    ld.shared.b32 %r0, [%s];             // FAULT: poison
    """,
    shared="s:16 u:16",
    block=1,
    bytes="s 0:4",
)
fault(
    "poison_shared_upper_byte",
    POISON + "; a byte store defines a byte",
    """
-   st.shared.b8 [%s], 1;
+   st.shared.b16 [%s], 1;
    ld.shared.u16 %h0, [%s];             // FAULT: poison
    """,
    shared="s:16",
    block=1,
    bytes="s 1:2",
)
fault(
    "poison_shared_one_lane",
    POISON + "; 31 lanes write, 32 read",
    """
-   setp.lt.u32 %p0, %t, 31;
+   setp.lt.u32 %p0, %t, 32;
    @%p0 st.shared.b32 [%st], %t;
    bar.sync 0;
    ld.shared.b32 %r0, [%st];            // FAULT: poison
    """,
    shared="s:128",
    block=32,
    threads=("31",),
    bytes="s 124:128",
)
fault(
    "poison_shared_of_the_next_cta",
    POISON + "; every CTA has its own shared memory",
    """
-   @%c0 st.shared.b32 [%st], %t;
+   st.shared.b32 [%st], %t;
    bar.sync 0;
    ld.shared.b32 %r0, [%st];            // FAULT: poison
    """,
    shared="s:128",
    block=32,
    grid=2,
    threads=("0-31@1",),
    bytes="s 0:128",
)
fault(
    "poison_register",
    "a register has no value before it is written (PTX ISA 5.1.1)",
    """
+   mov.b32 %r1, 5;
    add.u32 %r0, %r1, 1;                 // FAULT: poison
    st.global.b32 [%A], %r0;
    """,
    block=1,
    threads=("0",),
    words=("%r1",),
    gives={"A": lambda i: [6, *range(2, 65)]},
)
fault(
    "poison_register_of_one_branch",
    "a register written on one side of a branch only (PTX ISA 5.1.1)",
    """
    setp.lt.u32 %p0, %t, 16;
+   mov.b32 %r0, 2;
    @!%p0 bra JOIN;
    mov.b32 %r0, 1;
JOIN:
    st.global.b32 [%At], %r0;            // FAULT: poison
    """,
    block=32,
    threads=("16-31",),
    words=("%r0",),
)
fault(
    "poison_predicate",
    "a guard is a register like any other (PTX ISA 9.3)",
    """
+   setp.eq.u32 %p0, %t, 0;
    @%p0 st.global.b32 [%A], 1;          // FAULT: poison
    """,
    block=32,
    words=("%p0",),
)
fault(
    "poison_guarded_write",
    "a guarded instruction writes its register only where the guard holds (PTX ISA 9.3)",
    """
    setp.eq.u32 %p0, %lane, 3;
-   @%p0 mov.b32 %r0, 9;
+   selp.b32 %r0, 9, 0, %p0;
    st.global.b32 [%At], %r0;            // FAULT: poison
    """,
    block=32,
    words=("%r0",),
)
fault(
    "poison_loop_carried",
    "an accumulator that was never set (PTX ISA 5.1.1)",
    """
    mov.b32 %r1, 0;
+   mov.b32 %r0, 0;
LOOP:
    add.u32 %r0, %r0, %r1;               // FAULT: poison
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, 4;
    @%p0 bra LOOP;
    st.global.b32 [%A], %r0;
    """,
    block=1,
    words=("%r0",),
)
fault(
    "poison_packed_half",
    "an unwritten half of a packed register has no value (PTX ISA 9.7.9.1: mov packs its operands)",
    """
    mov.b16 %h0, 1;
+   mov.b16 %h1, 2;
    mov.b32 %r0, {%h0, %h1};             // FAULT: poison
    st.global.b32 [%A], %r0;
    """,
    block=1,
    words=("%h1",),
    gives={"A": lambda i: [0x20001, *range(2, 65)]},
)
fault(
    "poison_address",
    "an address register that was never written (PTX ISA 5.1.1)",
    """
+   mov.u64 %d0, %A;
    ld.global.b32 %r0, [%d0];            // FAULT: poison
    """,
    block=1,
    words=("%d0",),
)
fault(
    "poison_vector_element",
    "one element of a vector operand was never written (PTX ISA 5.1.1)",
    """
    mov.b32 %r0, 0;
    mov.b32 %r1, 0;
    mov.b32 %r2, 0;
+   mov.b32 %r3, 0;
    st.global.v4.b32 [%A], {%r0, %r1, %r2, %r3};   // FAULT: poison
    """,
    block=1,
    words=("%r3",),
)
fault(
    "poison_local",
    "local memory has no initial contents (PTX ISA 5.1.5)",
    """
    .local .align 4 .b8 stack[16];
    mov.u64 %d0, stack;
    st.local.b32 [%d0], 1;
+   st.local.b32 [%d0+4], 1;
    ld.local.b32 %r0, [%d0+4];           // FAULT: poison
    """,
    block=1,
    bytes="stack 4:8",
)
fault(
    "poison_shared_atomic",
    POISON + "; an atomic reads what it changes",
    """
+   @%is0 st.shared.b32 [%s], 0;
+   bar.sync 0;
    atom.shared.add.u32 %r0, [%s], 1;    // FAULT: poison
    """,
    shared="s:16",
    block=32,
    bytes="s 0:4",
)
fault(
    "poison_dynamic_shared",
    POISON + "; dynamic shared memory too",
    """
    mov.u32 %r1, pool;
+   st.shared.b32 [%r1+60], 1;
    ld.shared.b32 %r0, [%r1+60];         // FAULT: poison
    """,
    module=".extern .shared .align 16 .b8 pool[];",
    block=1,
    dynamic=64,
)
fault(
    "poison_shuffle_from_an_absent_lane",
    "shfl.sync from a lane that does not take part gives no value (PTX ISA 9.7.9.6)",
    """
    mov.b32 %r1, %t;
-   setp.lt.u32 %p0, %t, 16;
+   setp.lt.u32 %p0, %t, 32;
    @!%p0 bra OUT;
-   shfl.sync.idx.b32 %r0, %r1, 20, 0x1f, 0xffff;      // FAULT: poison|aligned
+   shfl.sync.idx.b32 %r0, %r1, 20, 0x1f, 0xffffffff;
-   st.global.b32 [%At], %r0;                          // FAULT: poison
+   st.global.b32 [%At], %r0;
OUT:
    """,
    block=32,
)

# ------------------------------------------------------------------------------------------------ bounds

fault(
    "bounds_global_by_one_byte",
    BOUNDS,
    """
-   ld.global.u8 %r0, [%A+3];            // FAULT: bounds
+   ld.global.u8 %r0, [%A+2];
    """,
    arrays="A:3xu8",
    block=1,
    threads=("0",),
    bytes="A 3:4",
)
fault(
    "bounds_global_below",
    BOUNDS + "; the low end",
    """
-   st.global.b32 [%A+-4], 0;             // FAULT: bounds
+   st.global.b32 [%A], 0;
    """,
    block=1,
    bytes="A -4:0",
)
fault(
    "bounds_global_off_by_one_thread",
    BOUNDS + "; one thread too many",
    """
-   setp.le.u32 %p0, %t, 33;
+   setp.lt.u32 %p0, %t, 33;
    @%p0 st.global.b32 [%At], %t;        // FAULT: bounds
    """,
    arrays="A:33",
    block=64,
    threads=("33",),
    bytes="A 132:136",
)
fault(
    "bounds_global_vector_overruns",
    BOUNDS + "; the last half of a vector",
    """
-   ld.global.v2.b32 {%r0, %r1}, [%A+16];          // FAULT: bounds
+   ld.global.b32 %r0, [%A+16];
    """,
    arrays="A:5",
    block=1,
    bytes="A 16:24",
)
fault(
    "bounds_global_between_arrays",
    BOUNDS + "; far from any argument",
    """
-   add.u64 %d0, %A, 0x100000000;
+   add.u64 %d0, %A, 0;
    ld.global.b32 %r0, [%d0];            // FAULT: bounds
    """,
    arrays="A:64 B:64",
    block=1,
)
fault(
    "bounds_null_pointer",
    BOUNDS + "; address 0",
    """
-   mov.u64 %d0, 0;
+   mov.u64 %d0, %A;
    ld.global.b32 %r0, [%d0];            // FAULT: bounds
    """,
    block=1,
    words=("0x0",),
)
fault(
    "bounds_shared_vector_overruns_by_less",
    BOUNDS + "; 16 bytes at byte 16 of a buffer of 20",
    """
-   st.shared.v4.b32 [%s+16], {0, 0, 0, 0};        // FAULT: bounds
+   st.shared.b32 [%s+16], 0;
    """,
    shared="s:20",
    block=1,
    threads=("0",),
    bytes="s 16:32",
)
fault(
    "bounds_shared_past_the_end",
    BOUNDS,
    """
-   st.shared.b32 [%s+64], 0;            // FAULT: bounds
+   st.shared.b32 [%s+60], 0;
    """,
    shared="s:64",
    block=1,
)
fault(
    "bounds_shared_below",
    BOUNDS + "; the low end",
    """
-   st.shared.b32 [%s+-4], 0;             // FAULT: bounds
+   st.shared.b32 [%s], 0;
    """,
    shared="s:64",
    block=1,
)
fault(
    "bounds_shared_into_the_padding",
    BOUNDS + "; bytes between two variables belong to neither",
    """
-   st.shared.b8 [%s+5], 1;              // FAULT: bounds
+   st.shared.b8 [%s+4], 1;
    st.shared.b32 [%u], 1;
    """,
    shared="s:5 u:16",
    block=1,
)
fault(
    "bounds_shared_across_two_variables",
    BOUNDS + "; an access lies within one variable",
    """
    st.shared.b32 [%u], 1;
-   st.shared.b64 [%s+16], 1;            // FAULT: bounds
+   st.shared.b64 [%s+8], 1;
    """,
    shared="s:20@16 u:12@4",
    block=1,
)
fault(
    "bounds_shared_index_from_memory",
    BOUNDS + "; an index that was loaded",
    """
    ld.global.b32 %r0, [%At];
-   mad.lo.u32 %r1, %r0, 4, %s;
+   sub.u32 %r2, %r0, 1;
+   mad.lo.u32 %r1, %r2, 4, %s;
    st.shared.b32 [%r1], %t;             // FAULT: bounds
    """,
    shared="s:128",
    block=32,
    threads=("31",),
)
fault(
    "bounds_dynamic_shared",
    BOUNDS + "; dynamic shared memory is as large as the launch says",
    """
    mov.u32 %r1, pool;
-   st.shared.b32 [%r1+64], 1;           // FAULT: bounds
+   st.shared.b32 [%r1+60], 1;
    """,
    module=".extern .shared .align 16 .b8 pool[];",
    block=1,
    dynamic=64,
)
fault(
    "bounds_local",
    BOUNDS + "; local memory (PTX ISA 5.1.5)",
    """
    .local .align 4 .b8 stack[16];
    mov.u64 %d0, stack;
-   st.local.b32 [%d0+16], 1;            // FAULT: bounds
+   st.local.b32 [%d0+12], 1;
    """,
    block=1,
    bytes="stack 16:20",
)
fault(
    "bounds_local_below",
    BOUNDS + "; local memory, the low end",
    """
    .local .align 4 .b8 stack[16];
    mov.u64 %d0, stack;
-   ld.local.b32 %r0, [%d0+-4];           // FAULT: bounds
+   st.local.b32 [%d0], 1;
    """,
    block=1,
)
fault(
    "bounds_generic_in_no_window",
    "a generic address lies in a window of some space (PTX ISA 6.4.1.1)",
    """
-   mov.u64 %d0, 64;
+   cvta.global.u64 %d0, %A;
    ld.b32 %r0, [%d0];                   // FAULT: bounds
    """,
    block=1,
)
fault(
    "bounds_generic_past_a_global_array",
    BOUNDS + "; generic addresses are checked as those of their space",
    """
    cvta.global.u64 %d0, %A;
-   ld.b32 %r0, [%d0+256];               // FAULT: bounds
+   ld.b32 %r0, [%d0+252];
    """,
    block=1,
    bytes="A 256:260",
)
fault(
    "bounds_generic_past_a_shared_buffer",
    BOUNDS + "; generic addresses are checked as those of their space",
    """
    mov.u64 %d0, s;
    cvta.shared.u64 %d0, %d0;
-   st.b32 [%d0+64], %t;                 // FAULT: bounds
+   st.b32 [%d0+60], %t;
    """,
    shared="s:64",
    block=1,
)
fault(
    "bounds_module_global",
    BOUNDS + "; module-scope variables",
    """
    mov.u64 %d0, table;
-   ld.global.b32 %r0, [%d0+16];         // FAULT: bounds
+   ld.global.b32 %r0, [%d0+12];
    st.global.b32 [%A], %r0;
    """,
    module=".global .align 4 .u32 table[4] = {5, 6, 7, 8};",
    block=1,
    bytes="table 16:20",
    gives={"A": lambda i: [8, *range(2, 65)]},
)
fault(
    "bounds_remote_shared",
    BOUNDS + "; in the shared memory of another CTA too",
    """
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    xor.b32 %r1, %rank, 1;
    mapa.shared::cluster.u32 %r0, %s, %r1;
-   @%is0 st.shared::cluster.b32 [%r0+64], %t;     // FAULT: bounds
+   @%is0 st.shared::cluster.b32 [%r0+60], %t;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """,
    shared="s:64",
    block=32,
    grid=2,
    cluster=2,
)
fault(
    "bounds_cp_async_destination",
    BOUNDS + "; asynchronous copies too",
    """
-   cp.async.ca.shared.global [%s+48], [%A], 16;   // FAULT: bounds
+   cp.async.ca.shared.global [%s+32], [%A], 16;
    cp.async.wait_all;
    """,
    shared="s:60",
    block=1,
)
fault(
    "bounds_cp_async_source_past_the_array",
    BOUNDS + "; what cp.async reads, its src-size included",
    """
-   cp.async.ca.shared.global [%s], [%A+16], 16, 8;    // FAULT: bounds
+   cp.async.ca.shared.global [%s], [%A+16], 16, 4;
    cp.async.wait_all;
    """,
    shared="s:16",
    arrays="A:5",
    block=1,
    bytes="A 16:24",
)

# ------------------------------------------------------------------------------------------------ alignment

fault(
    "alignment_global_vector",
    ALIGN,
    """
-   ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%A+8];     // FAULT: alignment
+   ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%A+16];
    """,
    block=1,
    words=("16",),
)
fault(
    "alignment_global_scalar",
    ALIGN,
    """
-   ld.global.b32 %r0, [%A+2];           // FAULT: alignment
+   ld.global.b16 %h0, [%A+2];
    """,
    block=1,
)
fault(
    "alignment_global_double_word",
    ALIGN + "; odd lanes of an array of words",
    """
-   ld.global.b64 %d0, [%At];            // FAULT: alignment
+   ld.global.b32 %r0, [%At];
    """,
    block=32,
    threads=("1-31",),
)
fault(
    "alignment_shared_vector",
    ALIGN,
    """
-   st.shared.v4.b32 [%s+4], {0, 0, 0, 0};         // FAULT: alignment
+   st.shared.v4.b32 [%s+16], {0, 0, 0, 0};
    """,
    shared="s:64",
    block=1,
)
fault(
    "alignment_shared_of_a_loose_variable",
    ALIGN + "; a variable aligned to 4 may lie anywhere",
    """
    st.shared.b32 [%pad], 0;
-   st.shared.v4.b32 [%s], {0, 0, 0, 0};           // FAULT: alignment
+   st.shared.b32 [%s], 0;
    """,
    shared="pad:4@4 s:16@4",
    block=1,
)
fault(
    "alignment_local",
    ALIGN,
    """
    .local .align 4 .b8 stack[16];
    mov.u64 %d0, stack;
-   st.local.b32 [%d0+2], 1;             // FAULT: alignment
+   st.local.b32 [%d0+4], 1;
    """,
    block=1,
)
fault(
    "alignment_generic",
    ALIGN,
    """
    cvta.global.u64 %d0, %A;
-   ld.b64 %d1, [%d0+4];                 // FAULT: alignment
+   ld.b64 %d1, [%d0+8];
    """,
    block=1,
)
fault(
    "alignment_atomic",
    ALIGN + "; atomics",
    """
-   atom.global.add.u32 %r0, [%A+1], 1;  // FAULT: alignment
+   atom.global.add.u32 %r0, [%A+4], 1;
    """,
    block=1,
)
fault(
    "alignment_cp_async",
    "both addresses of cp.async are multiples of its size (PTX ISA 9.7.9.25.3.1)",
    """
-   cp.async.ca.shared.global [%s], [%A+4], 8;     // FAULT: alignment
+   cp.async.ca.shared.global [%s], [%A+8], 8;
    cp.async.wait_all;
    """,
    shared="s:16",
    block=1,
)

# ------------------------------------------------------------------------------------------------ read-only, windows

fault(
    "readonly_const",
    "constant memory is read-only in a kernel (PTX ISA 5.1.3)",
    """
    mov.u64 %d0, table;
    cvta.const.u64 %d0, %d0;
-   st.b32 [%d0], 1;                     // FAULT: read-only
+   ld.b32 %r0, [%d0];
    """,
    module=".const .align 4 .u32 table[2] = {1, 2};",
    block=1,
)
fault(
    "readonly_nc_of_written_data",
    "ld.global.nc is for data that nobody writes while the kernel runs (PTX ISA 9.7.9.9)",
    """
-   st.global.b32 [%At], %t;
-   ld.global.nc.b32 %r0, [%At];         // FAULT: race|read-only
+   ld.global.nc.b32 %r0, [%Bt];
+   st.global.b32 [%At], %t;
    """,
    arrays="A:64 B:64",
    block=32,
    bytes="A 0:128",
)
fault(
    "window_remote_address_with_a_cta_access",
    WINDOW,
    """
    st.shared.b32 [%st], %t;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    xor.b32 %r1, %rank, 1;
    mapa.shared::cluster.u32 %r0, %st, %r1;
-   ld.shared.b32 %r2, [%r0];            // FAULT: window
+   ld.shared::cluster.b32 %r2, [%r0];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """,
    shared="s:128",
    block=32,
    grid=2,
    cluster=2,
)
fault(
    "window_rank_outside_the_cluster",
    "the rank of mapa is one of the cluster (PTX ISA 9.7.9.24)",
    """
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
-   mapa.shared::cluster.u32 %r0, %s, 2;           // FAULT: window
-   @%is0 st.shared::cluster.b32 [%r0], %t;        // FAULT: window
+   mapa.shared::cluster.u32 %r0, %s, 1;
+   @%k0 st.shared::cluster.b32 [%r0], 1;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    """,
    shared="s:16",
    block=1,
    grid=2,
    cluster=2,
)
fault(
    "window_shared_address_as_generic",
    "a shared address is not a generic one: cvta.shared makes it so (PTX ISA 9.7.9.20)",
    """
    mov.u64 %d0, s;
+   cvta.shared.u64 %d0, %d0;
    st.b32 [%d0], 1;                     // FAULT: bounds
    """,
    shared="s:16",
    block=1,
)
fault(
    "window_generic_address_as_global",
    "st.global takes an address of the global window (PTX ISA 6.4.1.1)",
    """
    mov.u64 %d0, s;
    cvta.shared.u64 %d0, %d0;
-   st.global.b32 [%d0], 1;              // FAULT: bounds
+   st.b32 [%d0], 1;
    """,
    shared="s:16",
    block=1,
)

# ------------------------------------------------------------------------------------------------ what cannot be loaded

fault(
    "ptx_undeclared_register",
    "a register is declared before its use (PTX ISA 5.1.1)",
    """
-   mov.b32 %r0, nowhere;                // FAULT: ptx
+   mov.b32 %r0, 0;
    st.global.b32 [%A], %r0;
    """,
    block=1,
    words=("nowhere",),
)
fault(
    "ptx_unknown_label",
    "a branch goes to a label of the kernel (PTX ISA 9.7.12.3)",
    """
-   bra NOWHERE;                         // FAULT: ptx
+   bra THERE;
THERE:
    """,
    block=1,
    words=("NOWHERE",),
)
fault(
    "ptx_unknown_instruction",
    "an instruction that does not exist (PTX ISA 9.7)",
    """
-   frobnicate.b32 %r0, 1;               // FAULT: ptx
+   mov.b32 %r0, 1;
    """,
    block=1,
    words=("frobnicate",),
)
fault(
    "ptx_unknown_modifier",
    "a modifier that the instruction does not have (PTX ISA 9.7.1.1)",
    """
-   add.bogus.u32 %r0, 1, 2;             // FAULT: ptx
+   add.u32 %r0, 1, 2;
    """,
    block=1,
)
fault(
    "ptx_wrong_operand_count",
    "an instruction has its number of operands (PTX ISA 9.7.1.1)",
    """
-   add.u32 %r0, 1;                      // FAULT: ptx
+   add.u32 %r0, 1, 2;
    """,
    block=1,
)
fault(
    "ptx_cp_async_size",
    "cp.async moves 4, 8 or 16 bytes, .cg 16 only (PTX ISA 9.7.9.25.3.1)",
    """
-   cp.async.cg.shared.global [%s], [%A], 8;       // FAULT: ptx
+   cp.async.cg.shared.global [%s], [%A], 16;
    cp.async.wait_all;
    """,
    shared="s:16",
    block=1,
)
fault(
    "ptx_barrier_number",
    "there are barriers 0 to 15 (PTX ISA 9.7.13.1)",
    """
-   bar.sync 16;                         // FAULT: ptx|barrier
+   bar.sync 15;
    """,
    block=32,
)
fault(
    "ptx_wait_group_needs_an_immediate",
    "cp.async.wait_group takes an immediate (PTX ISA 9.7.9.25.3.3)",
    """
    mov.b32 %r0, 0;
-   cp.async.wait_group %r0;             // FAULT: ptx
+   cp.async.wait_group 0;
    """,
    block=1,
)
fault(
    "ptx_remote_wait",
    "there is no wait on an mbarrier of another CTA (PTX ISA 9.7.13.15.16)",
    """
    @%is0 mbarrier.init.shared.b64 [%m], 1;
    bar.sync 0;
-   mbarrier.try_wait.parity.shared::cluster.b64 %p0, [%m], 1;     // FAULT: ptx
+   mbarrier.try_wait.parity.shared::cta.b64 %p0, [%m], 1;
    """,
    shared="m:8",
    block=32,
)
fault(
    "ptx_wrong_register_width",
    "operands have the width of the instruction's type (PTX ISA 9.4)",
    """
    mov.u64 %d0, %A;
-   add.u32 %r0, %d0, 1;                 // FAULT: ptx
+   add.u64 %d1, %d0, 1;
    """,
    block=1,
)
