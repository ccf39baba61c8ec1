"""Loops without stores: those that end are never called endless, those that do not are told, whatever their conditions go through."""

from __future__ import annotations

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator import run_ptx
from tilecopy_test_helpers.mentions import is_hazard

TURNS = 1500
HEAD = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 zero;
.global .align 16 .b32 next[4] = {1, 2, 3, 0};
.func (.reg .b32 up) plus(.reg .b32 a, .reg .b32 b) { add.u32 up, a, b; ret; }
.visible .entry k(.param .u64 A)
{
 .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<10>; .reg .b16 %h<4>; .reg .f32 %f<4>; .reg .f64 %e<4>;
 .shared .align 8 .b8 s[64]; .local .align 8 .b8 l[64];
 ld.param.u64 %d0, [A]; cvta.to.global.u64 %d0, %d0; mov.u32 %r0, %tid.x; mad.wide.u32 %d0, %r0, 4, %d0;
 mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u64 %d1, 0; mov.u64 %d2, 0; mov.f32 %f1, 0f00000000; mov.f64 %e1, 0d0000000000000000;
 mov.u16 %h1, 0; setp.ne.u32 %p1, %r0, %r0; mov.u32 %r8, s;
"""
TAIL = " st.global.u32 [%d0], %r1; ret; }"

FINITE = {
    "plain": "L: add.u32 %r1, %r1, 1; setp.ne.u32 %p0, %r1, 1500; @%p0 bra L;",
    "negated guard": "L: add.u32 %r1, %r1, 1; setp.eq.u32 %p0, %r1, 1500; @!%p0 bra L;",
    "first of a pair": "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p0|%p2, %r1, 1500; @%p0 bra L;",
    "second of a pair": "L: add.u32 %r1, %r1, 1; setp.ge.u32 %p0|%p2, %r1, 1500; @%p2 bra L;",
    "second of a pair, negated": "L: add.u32 %r1, %r1, 1; setp.lt.u32 _|%p2, %r1, 1500; @!%p2 bra L;",
    "a pair with a negated third": "L: add.u32 %r1, %r1, 1; setp.lt.and.u32 %p0|%p2, %r1, 1500, !%p1; @%p0 bra L;",
    "logic of predicates": "L: add.u32 %r1, %r1, 1; setp.ge.u32 %p0, %r1, 1500; not.pred %p2, %p0; or.pred %p3, %p2, %p1; @%p3 bra L;",
    "exit in the middle": "L: add.u32 %r1, %r1, 1; setp.eq.u32 %p0, %r1, 1500; @%p0 bra OUT; bra L; OUT:",
    "selp": "mov.u32 %r2, 1; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 1500; selp.b32 %r2, 1, 0, %p0; setp.ne.u32 %p2, %r2, 0; @%p2 bra L;",
    "128-bit counter": "mov.u64 %d1, -1499; mov.u64 %d2, -1; L: add.u32 %r1, %r1, 1; mov.u64 %d3, %d1;"
    " add.cc.u64 %d1, %d1, 1; addc.u64 %d2, %d2, 0; or.b64 %d4, %d3, %d2; mov.u64 %d5, %d2; setp.ne.u64 %p0, %d3, 0; @%p0 bra L;",
    "the carry alone": "mov.u32 %r2, -1500; L: add.u32 %r1, %r1, 1; add.cc.u32 %r2, %r2, 1; addc.u32 %r4, 0, 0; setp.eq.u32 %p0, %r4, 0; @%p0 bra L;",
    "borrow": "mov.u32 %r2, 1499; L: add.u32 %r1, %r1, 1; sub.cc.u32 %r2, %r2, 1; subc.u32 %r4, 0, 0; setp.eq.u32 %p0, %r4, 0; @%p0 bra L;",
    "carry of a high word": "mov.u32 %r2, -1; mov.u32 %r3, -1500; L: add.u32 %r1, %r1, 1; add.cc.u32 %r2, %r2, 0; mov.u32 %r2, -1;"
    " add.cc.u32 %r5, %r2, 1; addc.cc.u32 %r3, %r3, 0; addc.u32 %r4, 0, 0; setp.eq.u32 %p0, %r4, 0; @%p0 bra L;",
    "mad.hi of a carry": "mov.u32 %r2, 4294965796; L: add.u32 %r1, %r1, 1; mad.lo.cc.u32 %r2, 1, 1, %r2; madc.hi.u32 %r4, 1, 1, 0; setp.eq.u32 %p0, %r4, 0; @%p0 bra L;",
    "vote": "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 1500; vote.sync.any.pred %p2, %p0, -1; @%p2 bra L;",
    "ballot": "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 1500; vote.sync.ballot.b32 %r4, %p0, -1; setp.ne.u32 %p2, %r4, 0; @%p2 bra L;",
    "shuffle": "L: add.u32 %r1, %r1, 1; shfl.sync.idx.b32 %r4, %r1, 3, 31, -1; setp.lt.u32 %p0, %r4, 1500; @%p0 bra L;",
    "shuffle's predicate": "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 1500; selp.b32 %r5, 0, 31, %p3;"
    " shfl.sync.down.b32 %r4|%p2, %r1, %r5, 31, -1; vote.sync.all.pred %p0, %p2, -1; @%p0 bra L;",
    "match": "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 1500; selp.b32 %r5, 7, %r0, %p3; match.all.sync.b32 %r4|%p0, %r5, -1; @%p0 bra L;",
    "redux": "L: add.u32 %r1, %r1, 1; redux.sync.min.u32 %r4, %r1, -1; setp.lt.u32 %p0, %r4, 1500; @%p0 bra L;",
    "a list in global memory": "mov.u64 %d3, next; cvta.global.u64 %d3, %d3; cvta.to.global.u64 %d3, %d3; mov.u32 %r4, 0;"
    " L: mad.wide.u32 %d4, %r4, 4, %d3; ld.global.u32 %r4, [%d4]; add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 1500; @%p0 bra L;",
    "local memory": "st.local.u32 [l], %r1; L: ld.local.u32 %r1, [l]; add.u32 %r1, %r1, 1; st.local.u32 [l], %r1; setp.lt.u32 %p0, %r1, 1500; @%p0 bra L;",
    "local memory, registers alike": "st.local.u32 [l], %r1; L: ld.local.u32 %r1, [l]; add.u32 %r1, %r1, 1; st.local.u32 [l], %r1;"
    " setp.lt.u32 %p0, %r1, 1500; mov.u32 %r1, 0; @%p0 bra L; ld.local.u32 %r1, [l];",
    "brx": "T: .branchtargets OUT, L; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 1500; selp.u32 %r4, 1, 0, %p0; brx.idx %r4, T; OUT:",
    "nested": "L: mov.u32 %r4, 0; M: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 30; @%p2 bra M; add.u32 %r1, %r1, 30; setp.lt.u32 %p0, %r1, 1500; @%p0 bra L;",
    "inner longer than the window": "L: mov.u32 %r4, 0; M: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 500; @%p2 bra M; add.u32 %r1, %r1, 500; setp.lt.u32 %p0, %r1, 1500; @%p0 bra L;",
    "call": "L: { .reg .b32 w; call (w), plus, (%r1, 1); mov.u32 %r1, w; } setp.lt.u32 %p0, %r1, 1500; @%p0 bra L;",
    "clock as an operand": "mov.u32 %r2, %clock; add.u32 %r2, %r2, 300000; L: mov.u32 %r4, %clock; setp.gt.u32 %p0, %r2, %r4; @%p0 bra L; mov.u32 %r1, 1500;",
    "high bits of the clock": "L: mov.u32 %r2, %clock; shr.u32 %r2, %r2, 18; setp.eq.u32 %p0, %r2, 0; @%p0 bra L; mov.u32 %r1, 1500;",
    "clock64 into a vector": "L: mov.b64 {%r4, %r2}, %clock64; shr.u32 %r4, %r4, 18; setp.eq.u32 %p0, %r4, 0; @%p0 bra L; mov.u32 %r1, 1500;",
    "globaltimer": "mov.u64 %d3, %globaltimer; add.u64 %d3, %d3, 300000; L: mov.u64 %d4, %globaltimer; setp.lt.u64 %p0|%p2, %d4, %d3; @!%p2 bra L; mov.u32 %r1, 1500;",
    "a flag set late by a guarded move": "mov.u32 %r4, 1; L: add.u32 %r1, %r1, 1; setp.ge.u32 %p2, %r1, 1500; @%p2 mov.u32 %r4, 0; setp.ne.u32 %p0, %r4, 0; @%p0 bra L;",
    "a flag set late on another path": "mov.u32 %r4, 1; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 1500; @%p2 bra M; mov.u32 %r4, 0; M: setp.ne.u32 %p0, %r4, 0; @%p0 bra L;",
    "high bits of a counter": "L: add.u32 %r1, %r1, 1; add.u32 %r2, %r2, 700; shr.u32 %r4, %r2, 20; setp.eq.u32 %p0, %r4, 0; @%p0 bra L; add.u32 %r1, %r1, 2;",
    "floats": "L: add.f32 %f1, %f1, 0f3F800000; add.u32 %r1, %r1, 1; setp.lt.f32 %p0, %f1, 0f44BB8000; @%p0 bra L;",
    "doubles, a pair": "L: add.f64 %e1, %e1, 0d3FF0000000000000; add.u32 %r1, %r1, 1; setp.geu.f64 %p0|%p2, %e1, 0d4097700000000000; @%p2 bra L;",
    "16 bits": "L: add.u16 %h1, %h1, 1; cvt.u32.u16 %r1, %h1; setp.lt.u16 %p0, %h1, 1500; @%p0 bra L;",
    "halves of 64 bits": "mov.u64 %d3, 0; L: add.u64 %d3, %d3, 1; mov.b64 {%r1, %r4}, %d3; setp.lt.u32 %p0, %r1, 1500; @%p0 bra L;",
    "packed into 64 bits": "L: add.u32 %r1, %r1, 1; mov.b64 %d3, {%r4, %r1}; shr.u64 %d3, %d3, 32; setp.lt.u64 %p0, %d3, 1500; @%p0 bra L;".replace(
        "%r4, %r1}", "%r2, %r1}"
    ),
    "each lane another count": "and.b32 %r5, %r0, 3; mov.u32 %r6, 1500; sub.u32 %r6, %r6, %r5; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %r6; @%p0 bra L; add.u32 %r1, %r1, %r5;",
    "exit by exit": "L: add.u32 %r1, %r1, 1; setp.eq.u32 %p0, %r1, 1600; @%p0 exit; setp.ne.u32 %p2, %r1, 1500; @%p2 bra L; setp.eq.u32 %p3, %r0, %r0; @!%p3 bra L;",
    "a barrier in it": "L: add.u32 %r1, %r1, 1; bar.sync 0; setp.lt.u32 %p0, %r1, 1500; @%p0 bra L;",
    "lop3, bfe, prmt": "L: add.u32 %r1, %r1, 1; lop3.b32 %r4, %r1, %r2, %r3, 240; bfe.u32 %r4, %r4, 0, 16; prmt.b32 %r4, %r4, 0, 12816; setp.lt.u32 %p0, %r4, 1500; @%p0 bra L;",
    "an atomic that decides": "L: atom.global.add.u32 %r1, [%d0], 1; setp.lt.u32 %p0, %r1, 1500; @%p0 bra L; mov.u32 %r1, 1500;",
    "a maximum that grows late": "red.global.max.u32 [%d0], 1499; L: add.u32 %r1, %r1, 1; red.global.max.u32 [%d0], %r1;"
    " ld.volatile.global.u32 %r4, [%d0]; setp.lt.u32 %p0, %r4, 1500; @%p0 bra L;",
}

ENDLESS = {
    "plain": "L: bra L;",
    "a counter that nobody looks at": "L: add.u32 %r1, %r1, 1; bra L;",
    "a counter that stays": "L: add.u32 %r1, %r1, 0; setp.lt.u32 %p0, %r1, 9; @%p0 bra L;",
    "negated guard": "L: setp.ne.u32 %p0, %r1, 0; @!%p0 bra L;",
    "first of a pair": "L: add.u32 %r4, %r2, 1; setp.lt.u32 %p0|%p2, %r4, 7; @%p0 bra L;",
    "second of a pair": "L: add.u32 %r1, %r1, 1; setp.ge.u32 %p0|%p2, %r2, 7; @%p2 bra L;",
    "a pair with a negated third": "L: add.u32 %r1, %r1, 1; setp.lt.and.u32 %p0|%p2, %r2, 7, !%p1; @%p0 bra L;",
    "logic of predicates": "L: add.u32 %r1, %r1, 1; setp.ge.u32 %p0, %r2, 7; not.pred %p2, %p0; or.pred %p3, %p2, %p1; @%p3 bra L;",
    "exit never taken": "L: add.u32 %r1, %r1, 1; setp.eq.u32 %p0, %r2, 9; @%p0 exit; bra L;",
    "selp": "L: add.u32 %r1, %r1, 1; selp.b32 %r4, 0, 1, %p1; setp.ne.u32 %p2, %r4, 0; @%p2 bra L;",
    "a period of two": "L: xor.b32 %r4, %r2, 1; mov.u32 %r2, %r4; setp.lt.u32 %p0, %r2, 2; @%p0 bra L;",
    "a period of ninety": "L: add.u32 %r2, %r2, 1; rem.u32 %r2, %r2, 90; setp.lt.u32 %p0, %r2, 90; @%p0 bra L;",
    "a period of 300": "L: add.u32 %r2, %r2, 1; rem.u32 %r2, %r2, 300; setp.lt.u32 %p0, %r2, 300; @%p0 bra L;",
    "128-bit counter that stays": "L: add.u32 %r1, %r1, 1; add.cc.u64 %d1, %d1, 0; addc.u64 %d2, %d2, 0; or.b64 %d3, %d1, %d2; setp.eq.u64 %p0, %d3, 0; @%p0 bra L;",
    "the carry alone": "L: add.u32 %r1, %r1, 1; add.cc.u32 %r4, %r2, 1; addc.u32 %r4, 0, 0; setp.eq.u32 %p0, %r4, 0; @%p0 bra L;",
    "a carry that nobody reads": "mov.u32 %r2, -1500; L: add.cc.u32 %r2, %r2, 1; setp.eq.u32 %p0, %r3, 0; @%p0 bra L;",
    "vote": "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r0, 20; vote.sync.any.pred %p2, %p0, -1; @%p2 bra L;",
    "ballot": "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r0, 20; vote.sync.ballot.b32 %r4, %p0, -1; setp.ne.u32 %p2, %r4, 0; @%p2 bra L;",
    "shuffle": "L: add.u32 %r1, %r1, 1; shfl.sync.idx.b32 %r4, %r0, 3, 31, -1; setp.lt.u32 %p0, %r4, 9; @%p0 bra L;",
    "shuffles that go round": "mov.u32 %r2, %r0; L: shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1; setp.lt.u32 %p0, %r2, 32; @%p0 bra L;",
    "a load that stays": "L: ld.volatile.global.u32 %r4, [zero]; add.u32 %r1, %r1, 1; setp.eq.u32 %p0, %r4, 0; @%p0 bra L;",
    "a list that goes round": "mov.u64 %d3, next; mov.u32 %r4, 0; L: mad.wide.u32 %d4, %r4, 4, %d3; ld.global.u32 %r4, [%d4]; setp.lt.u32 %p0, %r4, 4; @%p0 bra L;",
    "local memory": "st.local.u32 [l], %r1; L: ld.local.u32 %r4, [l]; st.local.u32 [l], %r4; add.u32 %r1, %r1, 1; setp.eq.u32 %p0, %r4, 0; @%p0 bra L;",
    "brx": "T: .branchtargets OUT, L; L: add.u32 %r1, %r1, 1; selp.u32 %r4, 0, 1, %p1; brx.idx %r4, T; OUT:",
    "nested": "L: mov.u32 %r4, 0; M: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 30; @%p2 bra M; add.u32 %r1, %r1, 30; bra L;",
    "inner longer than the window": "L: mov.u32 %r4, 0; M: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 200; @%p2 bra M; add.u32 %r1, %r1, 1; bra L;",
    "call": "L: { .reg .b32 w; call (w), plus, (%r2, 1); mov.u32 %r4, w; } setp.lt.u32 %p0, %r4, 7; @%p0 bra L;",
    "a clock that nobody looks at": "L: mov.u32 %r4, %clock; add.u32 %r1, %r1, %r4; setp.eq.u32 %p0, %r2, 0; @%p0 bra L;",
    "a move whose guard stays": "mov.u32 %r4, 1; L: add.u32 %r1, %r1, 1; @%p1 mov.u32 %r4, 0; setp.ne.u32 %p0, %r4, 0; @%p0 bra L;",
    "floats that grow no more": "mov.f32 %f1, 0f4B800000; L: add.f32 %f1, %f1, 0f3F800000; setp.lt.f32 %p0, %f1, 0f4B800001; @%p0 bra L;",
    "halves of 64 bits": "L: add.u64 %d3, %d1, 1; mov.b64 {%r4, %r5}, %d3; add.u32 %r1, %r1, %r4; setp.eq.u32 %p0, %r5, 0; @%p0 bra L;",
    "some lanes": "setp.eq.u32 %p2, %r0, 5; @!%p2 bra OUT; L: add.u32 %r1, %r1, 1; @%p2 bra L; OUT:",
    "lanes in loops of their own": "setp.lt.u32 %p2, %r0, 9; @%p2 bra M; L: add.u32 %r1, %r1, 1; bra L; M: add.u32 %r1, %r1, 2; bra M;",
    "atomic additions": "L: red.global.add.u32 [%d0], 1; add.u32 %r1, %r1, 1; bra L;",
    "atomic additions whose results nobody reads": "L: atom.global.add.u32 %r4, [%d0], 1; add.u32 %r1, %r1, 1; bra L;",
    "an atomic beside the loop's condition": "L: atom.global.add.u32 %r4, [%d0], 1; add.u32 %r1, %r1, %r4; setp.eq.u32 %p0, %r2, 0; @%p0 bra L;",
    "a parameter beside atomic additions": "L: red.global.add.u32 [%d0], 1; ld.param.u64 %d1, [A]; setp.ne.u64 %p0, %d1, 0; @%p0 bra L;",
    "a maximum of a counter": "L: add.u32 %r1, %r1, 1; red.global.max.u32 [%d0], %r1; bra L;",
    "exchanges to and fro": "L: atom.global.exch.b32 %r4, [%d0], %r2; xor.b32 %r2, %r2, 1; bra L;",
    "stores of a counter": "L: st.volatile.global.u32 [%d0], %r1; st.local.u32 [l], %r1; add.u32 %r1, %r1, 1; bra L;",
    "a store of the same": "L: st.global.u32 [%d0], %r2; add.u32 %r1, %r1, 1; bra L;",
    "a barrier in it": "L: add.u32 %r4, %r2, 1; setp.lt.u32 %p0, %r4, 9; @%p0 bra L; bar.sync 0;",
}  # fmt: skip


REPEATING = {
    "a shared toggle": "st.shared.u32 [s], 0; L: ld.volatile.shared.s32 %r4, [s]; xor.b32 %r4, %r4, 1; st.volatile.shared.u32 [s], %r4; setp.ge.s32 %p0, %r4, 0; @%p0 bra L;",
    "a cycle in global memory": "L: ld.volatile.global.u32 %r4, [%d0]; add.u32 %r4, %r4, 1; and.b32 %r4, %r4, 15; st.volatile.global.u32 [%d0], %r4;"
    " setp.lt.u32 %p0, %r4, 16; @%p0 bra L;",
    "exchanges that are read": "L: atom.global.exch.b32 %r4, [%d0], %r2; xor.b32 %r2, %r2, 1; setp.lt.u32 %p0, %r4, 2; @%p0 bra L;",
    "local memory": "st.local.u32 [l], %r1; L: ld.local.u32 %r4, [l]; xor.b32 %r4, %r4, 1; st.local.u32 [l], %r4; setp.lt.u32 %p0, %r4, 2; @%p0 bra L;",
}


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("grid", [1, 3])
def test_a_loop_that_ends_is_run_to_its_end(name: str, grid: int) -> None:
    out = np.zeros(32, np.uint32)
    run_ptx(HEAD + FINITE[name] + (TAIL if grid == 1 else " ret; }"), [out], grid=grid, block=32)
    if grid == 1:
        assert (out == TURNS).all()


@pytest.mark.parametrize("name", ENDLESS)
def test_a_loop_that_does_not_end_is_told(name: str) -> None:
    with pytest.raises(tc.HazardError) as caught:
        run_ptx(HEAD + ENDLESS[name] + TAIL, [np.zeros(32, np.uint32)], grid=1, block=32)
    assert caught.value.kind in ("endless", "deadlock")


def test_an_atomic_whose_result_nobody_reads_is_not_waited_for() -> None:
    text = HEAD + "L: atom.global.add.u32 %r4, [%d0], 1; bra L;" + TAIL
    with pytest.raises(tc.HazardError, check=is_hazard("endless")) as caught:
        run_ptx(text, [np.zeros(32, np.uint32)], grid=1, block=32)
    assert caught.value.kind == "endless"


@pytest.mark.parametrize("name", REPEATING)
@pytest.mark.parametrize("threads", [1, 32])
def test_a_thread_whose_memory_repeats_is_told(name: str, threads: int) -> None:
    text = HEAD + "setp.ne.u32 %p9, %r0, 0; @%p9 bra OUT; " + REPEATING[name] + " OUT: bar.sync 0;" + TAIL
    with pytest.raises(tc.HazardError, check=is_hazard("endless")) as caught:
        run_ptx(text, [np.zeros(32, np.uint32)], grid=1, block=threads)
    assert caught.value.kind == "endless"


COUNTING = {
    "shared": "st.shared.u32 [s+4], 0; L: ld.volatile.shared.u32 %r4, [s+4]; add.u32 %r4, %r4, 1; st.volatile.shared.u32 [s+4], %r4;",
    "global": "L: ld.volatile.global.u32 %r4, [%d0]; add.u32 %r4, %r4, 1; st.volatile.global.u32 [%d0], %r4;",
    "an atomic": "L: atom.global.add.u32 %r4, [%d0], 1; add.u32 %r4, %r4, 1;",
    "local": "st.local.u32 [l+4], %r1; L: ld.local.u32 %r4, [l+4]; add.u32 %r4, %r4, 1; st.local.u32 [l+4], %r4;",
}


@pytest.mark.parametrize("name", COUNTING)
def test_a_thread_whose_memory_alone_counts_is_run_to_its_end(name: str) -> None:
    """All registers repeat, and so does another byte of memory."""
    out = np.zeros(32, np.uint32)
    loop = " setp.lt.u32 %p0, %r4, 700; selp.u32 %r4, 0, %r4, %p0; atom.shared.xor.b32 %r5, [s], 0; st.volatile.shared.u32 [s], 1;"
    loop += " st.volatile.shared.u32 [s], 0; @%p0 bra L; mov.u32 %r1, %r4;"
    run_ptx(HEAD + "st.shared.u32 [s], 0; " + COUNTING[name] + loop + TAIL, [out], grid=1, block=1)
    assert out[0] == 700
