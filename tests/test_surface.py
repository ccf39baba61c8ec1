"""Nothing raw: whatever a caller passes to a public name works, or is refused by a TilecopyError that says why.

The surface is generated from ``tilecopy_core.__all__`` and ``tilecopy_core.plugin.__all__``. GOOD has a call of everything in
it; each argument of each call is then replaced by each odd value.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import pickle
import re
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from fake_driver import FLOAT32, FakeDriver, FakeTensor
from odd import ODD, Bound, Raising, flat, little_memory, outcome, places_of, replaced, said, shows
from tilecopy import R, S, TileLayout
from tilecopy import executor_choice as running
from tilecopy.kernel.builder import ScopedCopies
from tilecopy_cuda.cuda import CudaExecutor

from tilecopy_core import plugin
from tilecopy_core.plugin import tcgen05

TARGET = "sm_100a"


class World:
    """A kernel and a PTX builder, with what a call needs of PARTS; new for each call."""

    def __getattr__(self, name: str) -> Any:
        if name not in PARTS:
            raise AttributeError(name)
        setattr(self, name, PARTS[name](self))
        return getattr(self, name)

    @property
    def request(self) -> tc.CopyRequest:
        return tc.CopyRequest(
            op="copy", dst=self.s[:, :], src=self.a[:, :], scope=tc.cta(64), target=tc.target_of(TARGET)
        )

    @property
    def variant(self) -> tc.Variant:
        return tc.Variant(
            name="probe",
            op="copy",
            priority=1,
            summary="does nothing",
            spaces=(("global", "shared"),),
            options=(self.option,),
            edges=True,
        )

    @property
    def edge_request(self) -> tc.CopyRequest:
        """A copy that may overhang."""
        return tc.CopyRequest(
            op="copy",
            dst=self.s[:, :],
            src=self.y[self.k.block_id() * 64 : self.k.block_id() * 64 + 64, :],
            scope=tc.cta(64),
            target=TARGET,
            outside=0,
        )

    @property
    def edge(self) -> plugin.VectorPartition:
        """Its partition."""
        request = self.edge_request
        found = plugin.synthesize(request, request.src)
        assert isinstance(found, plugin.VectorPartition)
        return found

    @property
    def guard(self) -> plugin.Guard:
        assert self.edge.edge is not None
        return self.edge.edge.guards[0]

    @property
    def fragment_request(self) -> tc.CopyRequest:
        """A copy into registers."""
        owned = self.k.local((64, 4), "uint32", layout=TileLayout(S[(64, 4) : (1 @ tc.tx, 1)]), name="owned")
        words = self.k.param("W", (64, 4), "uint32")
        return tc.CopyRequest(op="copy", dst=owned[:, :], src=words[:, :], scope=tc.cta(64), target=TARGET)

    @property
    def digit(self) -> plugin.Digit:
        return plugin.Digit(tc.laneid, 0, 1, 32, None, 4)

    @property
    def option(self) -> plugin.Option:
        return plugin.Option("size", int, "how many")

    @property
    def partition(self) -> plugin.VectorPartition:
        request = self.request
        found = plugin.synthesize(request, request.dst)
        assert isinstance(found, plugin.VectorPartition)
        return found

    @property
    def run(self) -> plugin.Run:
        return plugin.Run(self.s[:, :], (plugin.Iter(64, 64), plugin.Iter(64, 1)), 0)

    @property
    def map(self) -> plugin.TensorMap:
        return plugin.TensorMap(self.a, (64, 64), (128,), (64, 8))

    @property
    def kernel(self) -> tc.BuiltKernel:
        return self.k.build(target=TARGET, grid=1)

    @property
    def plan(self) -> tc.Plan:
        return tc.plan(self.s[:, :], self.a[:, :], scope=tc.cta(64), target=TARGET)


def builder_of(w: World) -> plugin.PtxBuilder:
    """A builder that knows the shared memory, and has a register for the size."""
    ptx = plugin.PtxBuilder(tc.target_of(TARGET), 64, [w.s, w.words, w.mbar.buffer])
    ptx.bind(next(iter(w.m.symbols)), ptx.reg("b32"))
    return ptx


def loading_of(w: World) -> Any:
    """The statement that loads the value."""
    assert isinstance(w.value, tc.Value)
    return w.k._stack[0].body[0].statement


COLUMNS = TileLayout(S[(128, 8) : (1 @ tc.TLane, 1 @ tc.TCol)])
PARTS: dict[str, Callable[[World], Any]] = {
    "k": lambda w: tc.KernelBuilder("surface", threads=64),
    "a": lambda w: w.k.param("A", (64, 64), "float16"),
    "x": lambda w: w.k.param("X", (64,), "float32"),
    "n": lambda w: w.k.scalar("n", upper=32),
    "y": lambda w: w.k.param("Y", (w.k.size("M", multiple_of=8, upper=2**20), 64), "float16"),
    "m": lambda w: w.y.shape[0],
    "s": lambda w: w.k.shared((64, 64), "float16", name="tile"),
    "words": lambda w: w.k.shared((64,), "uint32", name="words"),
    "mbar": lambda w: w.k.mbarrier("mbar", count=2),
    "frag": lambda w: w.k.local((4,), "uint32", name="frag"),
    "tmem": lambda w: w.k.tmem((128, 8), "uint32", layout=COLUMNS, name="columns"),
    "value": lambda w: w.k.load(w.x[0]),
    "condition": lambda w: w.k.thread_id() < 32,
    "layout": lambda w: TileLayout(S[8, 8]),
    "iter": lambda w: plugin.Iter(8, 8),
    "pair": lambda w: (plugin.Iter(8, 8), plugin.Iter(8, 64)),
    "loading": loading_of,
    "ptx": builder_of,
    "r32": lambda w: w.ptx.reg("b32"),
    "pred": lambda w: w.ptx.reg("pred"),
    "at": lambda w: w.ptx.address(w.s),
    "bar": lambda w: w.ptx.address(w.mbar.buffer),
    "far": lambda w: w.ptx.mapa(w.at, 1),
    "writes": lambda w: functools.partial(w.ptx.instr, "fence.proxy.async"),
}
"""What a world has, made when it is asked for."""


def call(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Bound:
    """A function and good arguments."""
    return function, arguments, keywords


def using(block: Any) -> Any:
    """What a block of the builder gives, once it has been gone through."""
    with block as found:
        return found


def of_numbers(addresses: tuple[int, ...], numbers: tuple[int, ...]) -> bytes:
    """Bytes that a launch computes."""
    return sum(numbers).to_bytes(8, "little")


def cluster_copy(w: World) -> Bound:
    """A copy with options."""
    return call(
        w.k.thread.copy_async,
        w.words[0:4],
        w.words[4:8],
        variant="dsmem",
        outside=None,
        mbar=w.mbar[0],
        remote_cta_id=1,
    )


GOOD: dict[str, Callable[[World], Bound]] = {
    # ------------------------------------------------------------------------------------------- tilecopy_core
    "Accept": lambda w: call(tc.Accept, priority=5),
    "ActiveThreads": lambda w: call(tc.ActiveThreads, 32, (True,) * 32, "", (("n", w.n),)),
    "ActiveThreads.count": lambda w: call(tc.ActiveThreads(32).count),
    "ActiveThreads.decided_by": lambda w: call(tc.ActiveThreads(32).decided_by, "n", (w.n,)),
    "ActiveThreads.narrowed_by": lambda w: call(tc.ActiveThreads(64).narrowed_by, w.condition),
    "ActiveThreads.why_not_all": lambda w: call(tc.ActiveThreads(64).why_not_all, tc.warp()),
    "Axis": lambda w: call(tc.Axis, "mine", "memory", "thread", "cta"),
    "Buffer": lambda w: call(
        tc.Buffer,
        (8, 8),
        "float16",
        space="global",
        layout=w.layout,
        name="mine",
        align_bytes=16,
        elem_offset=8,
        allocated_addr=w.words,
        memory=w.a.memory,
    ),
    "Buffer.placed_by": lambda w: call(w.a.placed_by),
    "Buffer.permute": lambda w: call(w.a.permute, 1, 0),
    "Buffer.permute of sizes": lambda w: call(w.y.permute, (1, 0)),
    "Buffer.view": lambda w: call(w.s.view, shape=(32, 64), layout=TileLayout(S[32, 64]), dtype="float32"),
    "Buffer.view of a shape": lambda w: call(lambda shape: w.s.view(shape=shape), (128, 32)),
    "Buffer.view of a dtype": lambda w: call(lambda dtype: w.y.view(dtype=dtype), "uint32"),
    "CopyRequest": lambda w: call(
        tc.CopyRequest,
        op="copy",
        dst=w.s[:, :],
        src=w.a[:, :],
        scope=tc.cta(64),
        target="sm_90",
        active=tc.ActiveThreads(64),
        options={"mbar": w.mbar},
        outside="zero",
    ),
    "CopyRequest.side_in": lambda w: call(w.request.side_in, "shared"),
    "DType": lambda w: call(tc.DType, "float16", 16, "f", False),
    "DType.numpy": lambda w: call(tc.dtype_of("float16").numpy),
    "Decline": lambda w: call(tc.Decline, "too wide"),
    "Expr": lambda w: call(tc.Expr, 0, w.n.terms),
    "HazardError": lambda w: call(
        tc.HazardError, "a race", kind="race", line=3, threads=(1, 2), bytes=(0, 4), cause="no barrier"
    ),
    "Iter": lambda w: call(plugin.Iter, 8, w.n, tc.m),
    "KernelBuilder": lambda w: call(tc.KernelBuilder, "mine", threads=64),
    "KernelBuilder.block_id": lambda w: call(w.k.block_id, "x"),
    "KernelBuilder.build": lambda w: call(
        w.k.build, target=TARGET, grid=1, cluster=1, min_ctas_per_sm=1, registry=tc.default_registry()
    ),
    "KernelBuilder.cast": lambda w: call(w.k.cast, w.value, "float16"),
    "KernelBuilder.cluster_rank": lambda w: call(w.k.cluster_rank),
    "KernelBuilder.cluster_sync": lambda w: call(w.k.cluster_sync),
    "KernelBuilder.bulk_commit": lambda w: call(w.k.bulk_commit),
    "KernelBuilder.bulk_wait": lambda w: call(w.k.bulk_wait, 1, read=True),
    "KernelBuilder.cp_async_commit": lambda w: call(w.k.cp_async_commit),
    "KernelBuilder.cp_async_wait": lambda w: call(w.k.cp_async_wait, 1),
    "KernelBuilder.cta_sync": lambda w: call(w.k.cta_sync),
    "KernelBuilder.elect": lambda w: call(lambda: using(w.k.elect())),
    "KernelBuilder.fence_mbarrier_init": lambda w: call(w.k.fence_mbarrier_init),
    "KernelBuilder.fence_proxy_async": lambda w: call(w.k.fence_proxy_async, "shared::cta"),
    "KernelBuilder.build of a grid": lambda w: call(
        lambda grid: w.k.build(target=TARGET, grid=(w.m // 8, grid)), w.n * 2 + 1
    ),
    "KernelBuilder.index": lambda w: call(w.k.index, w.k.load(w.words[1]), lower=w.n, upper=w.m, clamp=True),
    "KernelBuilder.size": lambda w: call(w.k.size, "mine", multiple_of=2, lower=0, upper=64),
    "KernelBuilder.if_": lambda w: call(lambda condition: using(w.k.if_(condition)), w.condition),
    "KernelBuilder.inline_ptx": lambda w: call(w.k.inline_ptx, "// {0}", w.value, out=[w.k.registers(w.frag)[0:2]]),
    "KernelBuilder.lane_id": lambda w: call(w.k.lane_id),
    "KernelBuilder.load": lambda w: call(w.k.load, w.words[0]),
    "KernelBuilder.address": lambda w: call(w.k.address, w.words[0]),
    "KernelBuilder.local": lambda w: call(w.k.local, (8, 8), "float16", layout=w.layout, name="mine"),
    "KernelBuilder.mbarrier": lambda w: call(w.k.mbarrier, "mine", count=2),
    "KernelBuilder.named_barrier": lambda w: call(w.k.named_barrier, 1, 32),
    "KernelBuilder.param": lambda w: call(w.k.param, "mine", (8, 8), "float16", strides=(w.n, 1), align_bytes=16),
    "maximum": lambda w: call(tc.maximum, w.n, w.m),
    "minimum": lambda w: call(tc.minimum, w.n, w.m),
    "KernelBuilder.range": lambda w: call(
        lambda count, start, unroll: using(w.k.range(count, start=start, unroll=unroll)), w.n, 0, False
    ),
    "KernelBuilder.record": lambda w: call(w.k.record, w.loading),
    "KernelBuilder.registers": lambda w: call(w.k.registers, w.frag),
    "KernelBuilder.scalar": lambda w: call(w.k.scalar, "mine", "int32", multiple_of=2, lower=0, upper=64),
    "KernelBuilder.shared": lambda w: call(w.k.shared, (8, 8), "float16", layout=w.layout, name="mine", align_bytes=16),
    "KernelBuilder.store": lambda w: call(w.k.store, w.x[1], w.value),
    "KernelBuilder.tcgen05_alloc": lambda w: call(w.k.tcgen05_alloc, w.tmem, columns=32, cta_group=1),
    "KernelBuilder.tcgen05_commit": lambda w: call(w.k.tcgen05_commit, w.mbar, cta_group=1),
    "KernelBuilder.tcgen05_dealloc": lambda w: call(w.k.tcgen05_dealloc, w.tmem, columns=32, cta_group=1),
    "KernelBuilder.tcgen05_fence_after": lambda w: call(w.k.tcgen05_fence_after),
    "KernelBuilder.tcgen05_fence_before": lambda w: call(w.k.tcgen05_fence_before),
    "KernelBuilder.tcgen05_ld": lambda w: call(w.k.tcgen05_ld, w.frag, w.tmem, column=4),
    "KernelBuilder.tcgen05_wait_ld": lambda w: call(w.k.tcgen05_wait_ld),
    "KernelBuilder.thread_id": lambda w: call(w.k.thread_id, "x"),
    "KernelBuilder.tmem": lambda w: call(w.k.tmem, (128, 8), "uint32", layout=w.tmem.layout, name="mine"),
    "KernelBuilder.warp_id": lambda w: call(w.k.warp_id),
    "KernelBuilder.warp_sync": lambda w: call(w.k.warp_sync),
    "ScopedCopies.copy": lambda w: call(w.k.cta.copy, w.s[:, :], w.a[:, :], variant="gmem_smem", outside="zero"),
    "ScopedCopies.copy at an edge": lambda w: call(
        lambda outside: w.k.cta.copy(
            w.s[:, :], w.y[w.k.block_id() * 64 : w.k.block_id() * 64 + 64, :], outside=outside
        ),
        "keep",
    ),
    "ScopedCopies.copy_async": cluster_copy,
    "Mbarrier.arrive": lambda w: call(w.mbar.arrive, 1, rank=0, relaxed=True),
    "Mbarrier.arrive_expect_tx": lambda w: call(w.mbar.arrive_expect_tx, 16, 1),
    "Mbarrier.as_region": lambda w: call(w.mbar.as_region),
    "Mbarrier.init": lambda w: call(w.mbar.init, 1, 1),
    "Mbarrier.wait": lambda w: call(w.mbar.wait, 0, 1, cluster=True),
    "NoVariantError": lambda w: call(tc.NoVariantError, "none", {"reg": "not global"}),
    "Plan.emit": lambda w: call(w.plan.emit, w.ptx, tc.default_registry()),
    "Plan.cuda": lambda w: call(w.plan.cuda, "load_tile", tc.default_registry()),
    "cuda_header": lambda w: call(tc.cuda_header, [w.plan.cuda("load_tile")]),
    "cost": lambda w: call(tc.cost, w.plan, tc.default_registry()),
    "compare": lambda w: call(
        tc.compare,
        w.s[:, :],
        w.a[:, :],
        scope=tc.cta(64),
        targets=("sm_90a", "sm_80"),
        op="copy",
        registry=tc.default_registry(),
        outside="zero",
    ),
    "BuiltKernel.save": lambda w: call(launchable().save, a_folder()),
    "load_kernel": lambda w: call(tc.load_kernel, launchable().save(a_folder())),
    "PtxBuilder.declarations": lambda w: call(w.ptx.declarations),
    "Plan.explain": lambda w: call(w.plan.explain),
    "BuiltKernel.check_bounds": lambda w: call(w.kernel.check_bounds, (1, 1, 1), {"n": 3}),
    "BuiltKernel.cubin": lambda w: call(tc.KernelBuilder("empty", threads=1).build(target=TARGET).cubin, "nvjitlink"),
    "BuiltKernel.explain": lambda w: call(w.kernel.explain),
    "BuiltKernel.launch_grid": lambda w: call(w.kernel.launch_grid, 1, {"n": 3}),
    "BuiltKernel.values_at": lambda w: call(w.kernel.values_at, {"n": 3}),
    "BuiltKernel.origin_of": lambda w: call(w.kernel.origin_of, 1),
    "BuiltKernel.prepare": lambda w: call(
        launchable().prepare, np.zeros(4, np.float32), 2, grid=1, stream=None, device=None, executor="emulator"
    ),
    "BuiltKernel.__call__": lambda w: call(
        launchable(), np.zeros(4, np.float32), 2, grid=1, stream=None, device=None, executor="emulator"
    ),
    "BuiltKernel.launcher": lambda w: call(
        launchable().launcher, FakeTensor(4096, (4,), (1,), FLOAT32), 2, grid=1, device=None, executor="stand-in"
    ),
    "BuiltKernel.launcher, its launches": lambda w: call(
        lambda addresses, stream: launchable().launcher(
            FakeTensor(4096, (4,), (1,), FLOAT32), 2, grid=1, device=None, executor="stand-in"
        )(addresses, stream),
        [8192],
        None,
    ),
    "Region": lambda w: call(tc.Region, w.s, (0, w.n), (8, 8), ((True, True), (False, False))),
    "Region.check_inside": lambda w: call(w.a[:, :].check_inside),
    "Region.overhang": lambda w: call(w.a[:, :].overhang, 0),
    "Region.room": lambda w: call(w.a[:, :].room, 0),
    "Region.sliced_layout": lambda w: call(w.s[:, :].sliced_layout),
    "Registry": lambda w: call(tc.Registry, [], {}),
    "Registry.plugins": lambda w: call(tc.default_registry().plugins),
    "Registry.register": lambda w: call(tc.Registry([], {}).register, object(), name="mine", package="p", version="1"),
    "Registry.table": lambda w: call(tc.default_registry().table),
    "Registry.unregister": lambda w: call(with_plugin().unregister, "mine"),
    "Scope": lambda w: call(tc.Scope, "cta", 64),
    "Scope.thread_index": lambda w: call(tc.warp().thread_index, w.k.thread_id()),
    "Swizzle": lambda w: call(tc.Swizzle, 3, 3, 3),
    "Swizzle.apply": lambda w: call(tc.Swizzle(3, 3, 3).apply, w.n),
    "SwizzledLayout": lambda w: call(tc.SwizzledLayout, tc.Swizzle(3, 3, 3), w.layout),
    "Target": lambda w: call(tc.Target, 90, "a"),
    "Target.runs_on": lambda w: call(tc.Target(90, "a").runs_on, 9, 0),
    "TileLayout": lambda w: call(TileLayout, w.layout),
    "TileLayout.apply": lambda w: call(w.layout.apply, 1, 2, shape=(8, 8)),
    "TileLayout.box": lambda w: call(w.layout.box, (8, 8), (0, 4), (2, 4)),
    "TileLayout.along": lambda w: call(w.layout.along, tc.m, 3),
    "TileLayout.by_dimension": lambda w: call(w.layout.by_dimension, (8, 8)),
    "TileLayout.canonicalize": lambda w: call(w.layout.canonicalize),
    "TileLayout.check_admits": lambda w: call(w.layout.check_admits, (8, 8), "mine"),
    "TileLayout.group": lambda w: call(w.layout.group, (8, 8)),
    "TileLayout.of": lambda w: call(TileLayout.of, (w.iter,), (), {tc.m: 8}, tc.Swizzle(3, 3, 3)),
    "TileLayout.offset_on": lambda w: call(w.layout.offset_on, tc.m),
    "TileLayout.permute": lambda w: call(w.layout.permute, (1, 0)),
    "TileLayout.places": lambda w: call(w.layout.places, 1, 2, shape=(8, 8)),
    "TileLayout.reach": lambda w: call(w.layout.reach, tc.m),
    "TileLayout.slice": lambda w: call(w.layout.slice, (8, 8), (slice(0, 4), (0, 2))),
    "TileLayout.span": lambda w: call(w.layout.span, tc.m),
    "TileLayout.tile_to": lambda w: call(w.layout.tile_to, (16, 16), (8, 8)),
    "TileLayout.with_iters": lambda w: call(w.layout.with_iters, (w.iter,)),
    "Value": lambda w: call(tc.Value, w.value.dtype, "neg", (w.value,)),
    "Value.max": lambda w: call(w.value.max, w.value),
    "Value.min": lambda w: call(w.value.min, w.value),
    "Value.parts": lambda w: call(w.value.parts),
    "Value.places": lambda w: call(w.value.places),
    "Value.sources": lambda w: call(w.value.sources),
    "Variant": lambda w: call(
        tc.Variant,
        name="mine",
        op="copy",
        priority=1,
        summary="does",
        spaces=(("global", "shared"),),
        min_arch=80,
        specific=False,
        options=(w.option,),
        completion="mine",
        completion_steps=("wait",),
        threads="all",
        instructions="ld",
        edges=True,
        features=("tma",),
    ),
    "Variant.option": lambda w: call(w.variant.option, w.request, "size"),
    "Target.has": lambda w: call(tc.target_of(TARGET).has, "tma"),
    "Variant.why_not_on": lambda w: call(w.variant.why_not_on, tc.target_of(TARGET)),
    "Variant.why_unusable": lambda w: call(w.variant.why_unusable),
    "cta": lambda w: call(tc.cta, 64),
    "default_registry": lambda w: call(tc.default_registry),
    "dtype_of": lambda w: call(tc.dtype_of, "float16"),
    "ptx_text": lambda w: call(tc.ptx_text, w.plan, "copy", tc.default_registry()),
    "plan": lambda w: call(
        tc.plan,
        w.words[0:4],
        w.words[4:8],
        op="copy_async",
        scope=tc.thread(),
        target="sm_90",
        variant="dsmem",
        active=tc.ActiveThreads(1),
        outside=None,
        registry=tc.default_registry(),
        mbar=w.mbar[0],
        remote_cta_id=1,
    ),
    "swizzle": lambda w: call(tc.swizzle, "128B", "float16"),
    "symbol": lambda w: call(tc.symbol, "s", lower=0, upper=8, multiple_of=2, varies="grid"),
    "target_of": lambda w: call(tc.target_of, "sm_90"),
    "thread": lambda w: call(tc.thread),
    "warp": lambda w: call(tc.warp),
    "warpgroup": lambda w: call(tc.warpgroup),
    # ------------------------------------------------------------------------------------------- plugin: data
    "Access": lambda w: call(plugin.Access, w.at, w.pred, 0),
    "Address": lambda w: call(plugin.Address, "shared", w.r32, 16, 16),
    "Condition": lambda w: call(plugin.Condition, "<", w.n, 3),
    "Condition.conjuncts": lambda w: call(w.condition.conjuncts),
    "Condition.evaluate": lambda w: call(w.condition.evaluate, lambda operand: 3),
    "Condition.leaves": lambda w: call(w.condition.leaves),
    "Condition.operands": lambda w: call(w.condition.operands),
    "Digit": lambda w: call(plugin.Digit, tc.laneid, 0, 1, 32, 4, w.n, False, (1,)),
    "Digit.value": lambda w: call(w.digit.value, w.k.thread_id()),
    "Guard": lambda w: call(plugin.Guard, w.a[:, :], 0, w.n, w.m, 8, (True, True), w.layout),
    "Guard.of": lambda w: call(plugin.Guard.of, w.edge_request.src, 0),
    "Guard.over": lambda w: call(w.guard.over, [w.iter]),
    "Guard.position": lambda w: call(w.guard.position, w.k.thread_id()),
    "Guard.rest": lambda w: call(plugin.Guard.rest, w.request, 60, 4),
    "Guard.why_split": lambda w: call(w.guard.why_split, 4),
    "Masks": lambda w: call(plugin.Masks, w.ptx, w.edge, w.ptx.tid),
    "Masks.source": lambda w: call(plugin.Masks(w.ptx, w.edge.edge, w.ptx.tid).source, 1),
    "Masks.target": lambda w: call(plugin.Masks(w.ptx, w.edge.edge, w.ptx.tid).target, 1),
    "relaxed_to_global": lambda w: call(plugin.relaxed_to_global, w.request),
    "Places": lambda w: call(plugin.Places, w.ptx, w.s, w.ptx.tid, tc.Swizzle(3, 3, 3), whole=True),
    "Places.at": lambda w: call(plugin.Places(w.ptx, w.s, w.ptx.tid).at, 8),
    "Outside": lambda w: call(plugin.Outside, "fill", (0, 1), "zero"),
    "Option": lambda w: call(plugin.Option, "size", (int,), "how many", False, 3, True),
    "Option.fits": lambda w: call(w.option.fits, 3),
    "Option.missing_in": lambda w: call(w.option.missing_in, w.request),
    "Register": lambda w: call(plugin.Register, "b32", "%r3"),
    "Run": lambda w: call(plugin.Run, w.s[:, :], w.run.iters, 0, tc.Swizzle(3, 3, 3)),
    "Run.why_not_width": lambda w: call(w.run.why_not_width, 128),
    "Side": lambda w: call(plugin.Side, w.s[:, :], w.s.layout),
    "Side.offset": lambda w: call(w.partition.dst.offset, 0, w.k.thread_id(), w.partition.shape),
    "VectorPartition": lambda w: call(
        plugin.VectorPartition,
        8,
        64,
        8,
        128,
        w.partition.dst,
        w.partition.src,
        ("512 bits: no",),
        (w.guard,),
        w.partition,
        w.partition,
    ),
    "VectorPartition.summary": lambda w: call(w.partition.summary),
    "Walk": lambda w: call(plugin.Walk, w.ptx, w.partition.dst, w.partition, w.ptx.tid, whole=True),
    "Walk.address": lambda w: call(plugin.Walk(w.ptx, w.partition.dst, w.partition, w.ptx.tid).address, 1),
    # ------------------------------------------------------------------------------------------- plugin: functions
    "asynchronously": lambda w: call(plugin.asynchronously, w.ptx, w.edge_request, w.edge),
    "at_edges": lambda w: call(plugin.at_edges, w.ptx, w.edge, tc.cta(64), lambda part: None),
    "choose": lambda w: call(plugin.choose, w.ptx, [w.guard], w.writes, w.writes),
    "digits_of": lambda w: call(plugin.digits_of, [(plugin.Iter(8, 1, tc.tx), w.iter)], w.layout, [tc.tx]),
    "guards_of": lambda w: call(plugin.guards_of, w.edge_request.src),
    "operands": lambda w: call(plugin.operands, w.fragment_request),
    "owners": lambda w: call(plugin.owners, [w.digit], w.k.thread_id(), 64, store=True),
    "thread_axes": lambda w: call(plugin.thread_axes, w.fragment_request.dst),
    "through_registers": lambda w: call(plugin.through_registers, w.ptx, w.edge_request, w.edge),
    "why_no_owners": lambda w: call(plugin.why_no_owners, w.fragment_request, w.layout),
    "a": lambda w: call(plugin.a, "a text", str, bytes),
    "checked": lambda w: call(plugin.checked, tc.RequestError, value=plugin.TEXT),
    "checked, the function": lambda w: call(plugin.checked(value=plugin.TEXT), lambda value: value),
    "integer": lambda w: call(plugin.integer, np.int64(3)),
    "Kind": lambda w: call(plugin.Kind, "a text", lambda value: isinstance(value, str), ("x",)),
    "Kind.fits": lambda w: call(plugin.TEXT.fits, "x"),
    "Kind.check": lambda w: call(
        lambda where, name, error: using_refusal(plugin.TEXT, where, name, error), "here", "name", tc.LaunchError
    ),
    "Kind.check of a value": lambda w: call(lambda value: plugin.TEXT.check(value, "here", "value"), "x"),
    "many": lambda w: call(plugin.many, plugin.TEXT),
    "maybe": lambda w: call(plugin.maybe, plugin.TEXT),
    "one_of": lambda w: call(plugin.one_of, "x", "y"),
    "shown": lambda w: call(plugin.shown, 10**5000),
    "whole": lambda w: call(plugin.whole, 1, 8),
    "instance_of": lambda w: call(plugin.instance_of, "a text", str, bytes),
    "integer_in": lambda w: call(plugin.integer_in, 1, 8),
    "optional": lambda w: call(plugin.optional, plugin.TEXT),
    "tuple_of": lambda w: call(plugin.tuple_of, plugin.TEXT),
    "axis_index": lambda w: call(plugin.axis_index, tc.laneid, w.k.thread_id()),
    "batches": lambda w: call(
        lambda ptx, outer, words_per_round, limit: list(plugin.batches(ptx, outer, words_per_round, limit=limit)),
        w.ptx,
        65,
        4,
        16,
    ),
    "bounds_of": lambda w: call(plugin.bounds_of, w.n),
    "by_descending_stride": lambda w: call(plugin.by_descending_stride, [w.pair], broadcasts_first=True),
    "by_thread": lambda w: call(plugin.by_thread, w.condition, 64),
    "ChunkPartition": lambda w: call(plugin.ChunkPartition, 16, w.partition),
    "ChunkPartition.summary": lambda w: call(plugin.ChunkPartition(16, w.partition).summary),
    "chunked": lambda w: call(plugin.chunked, w.request),
    "divides_threads": lambda w: call(plugin.divides_threads, w.request),
    "divisor_of": lambda w: call(plugin.divisor_of, w.n),
    "evaluate": lambda w: call(plugin.evaluate, w.n, {next(iter(w.n.symbols)): 3}),
    "first_failure": lambda w: call(plugin.first_failure, w.request, [plugin.valid_copy]),
    "fuse": lambda w: call(plugin.fuse, [w.iter]),
    "fuse_pairs": lambda w: call(plugin.fuse_pairs, [w.pair]),
    "mma_fragment": lambda w: call(tc.mma_fragment, "m16n8k16", "A", "float16"),
    "tile_fragment": lambda w: call(
        tc.tile_fragment,
        tc.mma_fragment("m16n8k16", "A", "float16"),
        (64, 64),
        (2, 1),
        atom=(16, 16),
        warp_axis=tc.warpid,
    ),
    "masked": lambda w: call(plugin.masked, w.at, w.pred, (0,)),
    "is_int": lambda w: call(plugin.is_int, 3),
    "is_multiple": lambda w: call(plugin.is_multiple, w.n, 4),
    "fits_one_phase": lambda w: call(plugin.fits_one_phase, w.request),
    "mbarrier_of": lambda w: call(plugin.mbarrier_of, w.request),
    "no_replica": lambda w: call(plugin.no_replica, w.request),
    "one_mbarrier": lambda w: call(plugin.one_mbarrier, w.request),
    "orders_of": lambda w: call(plugin.orders_of, [w.pair]),
    "refine": lambda w: call(plugin.refine, [w.iter], [w.iter]),
    "same": lambda w: call(plugin.same, w.n, 3),
    "scope_in": lambda w: call(plugin.scope_in, "warp"),
    "sliced": lambda w: call(plugin.sliced, "source", w.s[:, :]),
    "substitute": lambda w: call(plugin.substitute, w.n, {next(iter(w.n.symbols)): 3}),
    "symbols_of": lambda w: call(plugin.symbols_of, w.n),
    "synthesize": lambda w: synthesized(w),
    "valid_copy": lambda w: call(plugin.valid_copy, w.request),
    "whole_byte_elements": lambda w: call(plugin.whole_byte_elements, w.request),
    "check_request": lambda w: call(plugin.check_request, w.request),
    "key_of": lambda w: call(plugin.key_of, w.n + 3),
    "row_major": lambda w: call(plugin.row_major, (4, 8)),
    "why_not_asked": lambda w: call(plugin.why_not_asked, w.variant, w.request),
    "widest": lambda w: call(plugin.widest, [w.run], (128, 64), lambda vec: None),
    # ------------------------------------------------------------------------------------------- plugin: instructions
    "HostBytes": lambda w: call(plugin.HostBytes, of_numbers, (w.a,), (w.n,), 8, 16),
    "TensorMap": lambda w: call(plugin.TensorMap, w.a, (64, w.m), (128,), (64, 8), "128B", "nan", (1, 2)),
    "TensorPlace": lambda w: call(plugin.TensorPlace, w.ptx.host_parameter(w.map), (w.r32, 8)),
    "PtxBuilder": lambda w: call(plugin.PtxBuilder, tc.target_of(TARGET), 64, [w.s], w.ptx.bindings),
    "PtxBuilder.address": lambda w: call(w.ptx.address, w.s, w.k.thread_id(), tc.Swizzle(3, 3, 3), whole=True),
    "PtxBuilder.bind": lambda w: call(w.ptx.bind, next(iter(w.n.symbols)), w.r32),
    "PtxBuilder.block": lambda w: call(lambda: using(w.ptx.block())),
    "PtxBuilder.bulk_copy_to_cluster": lambda w: call(
        w.ptx.bulk_copy_to_cluster, w.far, w.at, 16, w.ptx.mapa(w.bar, 1)
    ),
    "PtxBuilder.comment": lambda w: call(w.ptx.comment, "words"),
    "PtxBuilder.cp_async": lambda w: call(w.ptx.cp_async, w.at, w.ptx.address(w.a), 16, ignore=w.pred),
    "PtxBuilder.element": lambda w: call(w.ptx.element, w.s[0, 1], whole=True),
    "PtxBuilder.fragment": lambda w: call(w.ptx.fragment, w.frag),
    "PtxBuilder.host_parameter": lambda w: call(w.ptx.host_parameter, w.map),
    "PtxBuilder.if_": lambda w: call(lambda predicate: using(w.ptx.if_(predicate)), w.pred),
    "PtxBuilder.instr": lambda w: call(w.ptx.instr, "mov.b32", w.r32, 3, guard=w.pred, unless=True),
    "PtxBuilder.load": lambda w: call(w.ptx.load, w.at, 32, [w.r32]),
    "PtxBuilder.local_words": lambda w: call(w.ptx.local_words, w.frag, 1, 32),
    "PtxBuilder.loop": lambda w: call(
        lambda index, count, start, unroll: using(w.ptx.loop(index, count, start, unroll=unroll)),
        next(iter(tc.symbol("i").symbols)),
        4,
        0,
        False,
    ),
    "PtxBuilder.mapa": lambda w: call(w.ptx.mapa, w.at, 1),
    "PtxBuilder.new_label": lambda w: call(w.ptx.new_label, "here"),
    "PtxBuilder.place": lambda w: call(w.ptx.place, "$here_0"),
    "PtxBuilder.place_text": lambda w: call(w.ptx.place_text, "\tret;", w.ptx.blocks[0].head),
    "PtxBuilder.place_first": lambda w: call(w.ptx.place_first, "\tret;"),
    "PtxBuilder.register_names": lambda w: call(w.ptx.register_names),
    "PtxBuilder.all_of": lambda w: call(w.ptx.all_of, [w.pred, True]),
    "PtxBuilder.constant": lambda w: call(w.ptx.constant, (0, 1), 64),
    "PtxBuilder.either": lambda w: call(
        lambda predicate, uniform: w.ptx.either(predicate, w.writes, w.writes, uniform=uniform),
        w.pred,
        False,
    ),
    "PtxBuilder.either, its ways": lambda w: call(w.ptx.either, w.pred, w.writes, w.writes, uniform=False),
    "PtxBuilder.fill": lambda w: call(w.ptx.fill, [w.r32], (0, 1)),
    "PtxBuilder.inside": lambda w: call(w.ptx.inside, w.k.thread_id(), 8, (True, True)),
    "PtxBuilder.once": lambda w: call(w.ptx.once, "key", lambda ptx: None),
    "PtxBuilder.require": lambda w: call(w.ptx.require, version=(8, 0), cluster=True, why="words"),
    "PtxBuilder.operand": lambda w: call(w.ptx.operand, w.k.thread_id(), 32),
    "PtxBuilder.exact": lambda w: call(w.ptx.exact, w.n + 3),
    "PtxBuilder.lesser": lambda w: call(w.ptx.lesser, "s32", w.r32, 3, greater=True, block=w.ptx.blocks[0]),
    "PtxBuilder.opposite": lambda w: call(w.ptx.opposite, w.pred),
    "PtxBuilder.predicate": lambda w: call(w.ptx.predicate, w.condition, lambda comparison: w.pred),
    "PtxBuilder.pure": lambda w: call(w.ptx.pure, w.ptx.blocks[0], "mov.b32", w.r32, 3),
    "PtxBuilder.raw": lambda w: call(w.ptx.raw, "ret;"),
    "PtxBuilder.read_local": lambda w: call(w.ptx.read_local, w.frag, 0, 32),
    "PtxBuilder.reg": lambda w: call(w.ptx.reg, "b32"),
    "PtxBuilder.regs": lambda w: call(w.ptx.regs, "b32", 2),
    "PtxBuilder.store": lambda w: call(w.ptx.store, w.at, 32, [w.r32], relaxed=True),
    "PtxBuilder.tensor_place": lambda w: call(w.ptx.tensor_place, w.ptx.host_parameter(w.map), (w.m, 8), clamp=True),
    "PtxBuilder.thread_index": lambda w: call(w.ptx.thread_index, tc.warp()),
    "PtxBuilder.value": lambda w: call(w.ptx.value, w.k.thread_id(), 32),
    "PtxBuilder.write_local": lambda w: call(w.ptx.write_local, w.frag, 0, 32, [w.r32], guard=w.pred),
    "tcgen05.allocated_address": lambda w: call(tcgen05.allocated_address, w.ptx, w.at),
    "tcgen05.cp": lambda w: call(tcgen05.cp, w.ptx, w.r32, w.ptx.reg("b64"), 1, "4x256b"),
    "tcgen05.group": lambda w: call(tcgen05.group, 2),
    "tcgen05.matrix_descriptor": lambda w: call(tcgen05.matrix_descriptor, w.ptx, w.at, 8, 8, 2),
    "tcgen05.plus_columns": lambda w: call(tcgen05.plus_columns, w.ptx, w.r32, 4),
}
"""A call of every public callable, with an argument for every parameter."""


def using_refusal(kind: plugin.Kind, where: Any, name: Any, error: Any) -> None:
    """A value that is refused."""
    with contextlib.suppress(tc.LaunchError):
        kind.check(None, where, name, error)


def synthesized(w: World) -> Bound:
    request = w.request
    return call(plugin.synthesize, request, request.dst, (128, 64), ragged=False)


def with_plugin() -> tc.Registry:
    registry = tc.Registry([], {})
    registry.register(object(), name="mine")
    return registry


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a folder's name may make one."""
    monkeypatch.chdir(tmp_path)


def a_folder() -> str:
    """A new folder, removed when the tests end."""
    made = tempfile.TemporaryDirectory()
    FOLDERS.append(made)
    return made.name


FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def launchable() -> tc.BuiltKernel:
    k = tc.KernelBuilder("launchable", threads=4)
    size = k.size("M")
    b, n = k.param("B", (size,), "float32"), k.scalar("n", upper=8)
    with k.if_((k.thread_id() < n) & (k.block_id() == 0)):
        k.store(b[k.thread_id()], 1.0)
    return k.build(target="sm_75")


OPERANDS: dict[str, tuple[Callable[[World], Any], str]] = {
    "Expr": (lambda w: w.n, "+ - * / // % ** ^ & | << >> == != < <= > >= r+ r- r* r/ r// r% r^"),
    "Value": (lambda w: w.value, "+ - * / // % ** ^ & | << >> == != < <= > >= r+ r- r* r/ r// r%"),
    "Condition": (lambda w: w.condition, "& | r& r|"),
    "Axis": (lambda w: tc.laneid, "r@"),
    "TileLayout": (lambda w: w.layout, "+ r+"),
    "Address": (lambda w: w.at, "+"),
    "Buffer": (lambda w: w.a, "[]"),
    "Mbarrier": (lambda w: w.mbar, "[]"),
    "S": (lambda w: S, "[] [:] [::]"),
    "R": (lambda w: R, "[] [:] [::]"),
}
"""The operators of each class: what stands between the object and an odd operand (r: the operand on the left)."""

WRITTEN: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "@": lambda a, b: a @ b,
    "[]": lambda a, b: a[b],
    "[:]": lambda a, b: a[8:b],
    "[::]": lambda a, b: a[8:8:b],
}


FOREIGN = World()
HERE = __file__

ALSO_CALLED = {
    "dst": "destination",
    "src": "source",
    "into": "registers",
    "source": "address",
    "destination": "address",
    "operands": "operand",
    "coordinate": "coordinate",
    "kinds": "kind",
    "index": "dimension",
    "key": "dimension",
    "columns": "columns",
    "threads": "threads",
    "iters": "iter",
    "pairs": "pair",
    "options": "option",
    "element": "buffer",
    "starts": "start",
    "extents": "extent",
    "arguments": "argument",
    "fragment": "buffer",
    "buffer": "Region of",
    "holder": "address",
    "pending": "groups",
    "nbytes": "byte",
    "thread": "coordinate",
    "flat": "coordinate",
    "round_index": "coordinate",
    "other": "value",
    "spec": "TileLayout takes",
    "lower": "bounds",
    "upper": "bounds",
    "types": "default",
    "required": "default",
}
"""What messages call a parameter where they do not use its name."""


NAMED_BY = {("target_of", "value"): "target", ("dtype_of", "value"): "dtype", ("Variant.option", "name"): "option"} | {
    ("Guard.rest", "vec"): "extent",
    ("Guard.rest", "count"): "vec",
    ("Guard.position", "flat"): "index",
}
CALLBACKS = {"also", "fits", "compare", "value_of", "write", "first", "otherwise", "inside", "edge"}
"""Functions of the caller's: what they raise is theirs."""
ITERATED = {"addresses", "sources"}
"""Iterables of the caller's: likewise."""


def tells(error: BaseException, name: str, parameter: str, value: Any) -> str:
    """Why a message does not do, or ""."""
    message = flat(error)
    if isinstance(value, tc.Expr) and f"{next(iter(value.symbols))}" in message:
        return ""  # an integer is named by its symbols
    words = {parameter, parameter.replace("_", " "), parameter.rstrip("s"), ALSO_CALLED.get(parameter, parameter)}
    words.add(NAMED_BY.get((name, parameter), parameter))
    if parameter == "arguments":
        words.add("scalar n")  # a launch names each argument by its own parameter
    if not any(word.lower() in message.lower() for word in words):
        return f"it does not name {parameter}"
    if value is None and ("was not given" in message or f"no {parameter} was given" in message):
        return ""
    if not shows(message, value):
        return f"it does not show {said(value)}"
    return ""


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever takes long or much memory fails here, not in somebody's kernel."""
    monkeypatch.setitem(running._made, "stand-in", CudaExecutor(FakeDriver(sizes=(8, 8, 8))))
    with little_memory():
        yield


LONGEST = 8000
"""Characters of a message."""
RAW = re.compile(r"\bOne\b|\b(None|True|False|nan|inf|e\+\d+)\b| object at |<|é|\[\[|\(\)|\{\}")


def written(w: World) -> str:
    """What a call wrote into the PTX builder, where there is one."""
    if "ptx" not in vars(w):
        return ""
    lines = [str(line) for block in w.ptx.blocks for line in block.head + block.body]
    return next((line for line in lines if not line.lstrip().startswith("//") and RAW.search(line)), "")


def judge(name: str, parameter: str, value: Any, w: World, act: Callable[[], Any]) -> str:
    """What is wrong with the outcome of a call, or ""."""
    before = len(w.k._stack[0].body)
    error = outcome(act)
    if error is None:
        if raw := written(w):
            return f"wrote {raw!r}"
        if len(w.k._stack[0].body) == before or not name.startswith(("KernelBuilder", "ScopedCopies", "Mbarrier")):
            return ""
        error = outcome(lambda: w.k.build(target=TARGET, grid=1))
        if error is not None and isinstance(error, tc.TilecopyError) and f"at {HERE}:" not in str(error):
            return f"build: no line of the program in {error!r}"
        return "" if error is None or isinstance(error, tc.TilecopyError) else f"build: raw {error!r}"
    if not isinstance(error, tc.TilecopyError):
        return f"raw {type(error).__name__}: {str(error)[:200]}"
    why = tells(error, name, parameter, value) if len(str(error)) <= LONGEST else "it is long"
    return f"{why}: {str(error)[:300]}" if why else ""


@pytest.mark.parametrize("name", GOOD)
def test_good_calls_work(name: str) -> None:
    function, arguments, keywords = GOOD[name](World())
    function(*arguments, **keywords)


@pytest.mark.parametrize("name", [name for name, good in GOOD.items() if places_of(good(World()))])
def test_odd_arguments_work_or_are_refused_by_name_value_and_rule(name: str) -> None:
    wrong = []
    for parameter, place in places_of(GOOD[name](World())):
        for label, value in ODD.items():
            w = World()
            function, arguments, keywords = replaced(GOOD[name](w), place, value)
            if parameter in CALLBACKS and callable(value):
                continue
            if parameter in ITERATED and isinstance(value, Raising):
                continue
            if why := judge(name, parameter, value, w, lambda: function(*arguments, **keywords)):
                wrong.append(f"{name}, {parameter} = {label}: {why}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "operator"), [(n, o) for n, (_, all) in OPERANDS.items() for o in all.split()])
def test_odd_operands_work_or_are_refused(name: str, operator: str) -> None:
    wrong = []
    for label, value in ODD.items():
        if operator == "r%" and isinstance(value, (str, bytes, bytearray)):
            continue  # Python's own formatting
        w = World()
        subject = OPERANDS[name][0](w)
        write = WRITTEN[operator.removeprefix("r")]
        act = (lambda: write(value, subject)) if operator.startswith("r") else (lambda: write(subject, value))
        why = judge(name, "", value, w, act)
        if why and judge(name, "", subject, w, act):  # the one or the other is shown
            wrong.append(f"{name} {operator} {label}: {why}")
    assert not wrong, "\n".join(wrong)


# ------------------------------------------------------------------------------------------------ nothing is left out

NOT_CALLED = {
    "BuiltKernel": "made by KernelBuilder.build",
    "Comparison": "made by compare",
    "Cost": "made by cost",
    "Mbarrier": "made by KernelBuilder.mbarrier",
    "Plan": "made by plan",
    "VariantPlugin": "a protocol",
    "hookimpl": "pluggy's",
    "Registry.advise": "dispatch's",
    "Registry.call": "dispatch's: its plugin is of the registry's own table",
    "Registry.report_fault": "dispatch's",
}
ERRORS = [each for each in map(tc.__dict__.get, tc.__all__) if isinstance(each, type) and issubclass(each, Exception)]


def public_callables() -> set[str]:
    """Every function, class and method that the two packages name."""
    found: set[str] = set()
    things = {id(v): (n, v) for module in (plugin, tc) for n in module.__all__ for v in [getattr(module, n)]}
    named = [(v.__name__ if isinstance(v, type) else n, v) for n, v in things.values()]
    for name, thing in [*named, ("ScopedCopies", ScopedCopies)]:
        if isinstance(thing, types.ModuleType):
            found |= {
                f"{name}.{n}"
                for n, v in vars(thing).items()
                if inspect.isfunction(v) and v.__module__ == thing.__name__ and not n.startswith("_")
            }
        elif isinstance(thing, type):
            if "__init__" in vars(thing) and name != "ScopedCopies":
                found.add(name)
            for base in thing.__mro__:
                if base.__module__.startswith("tilecopy_core") and not getattr(base, "_is_protocol", False):
                    found |= {
                        f"{name}.{n}"
                        for n, v in vars(base).items()
                        if not n.startswith("_") and isinstance(v, (types.FunctionType, classmethod, staticmethod))
                    }
        elif inspect.isfunction(thing):
            found.add(name)
    return found


def test_every_public_callable_has_a_good_call() -> None:
    assert public_callables() - set(NOT_CALLED) <= set(GOOD)


# ------------------------------------------------------------------------------------------------------------ operators


class Incomparable(int):
    """An integer that compares with nothing."""

    def _no(self, *_: Any) -> Any:
        raise ArithmeticError("mine")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _no  # type: ignore[assignment]


@pytest.mark.parametrize(
    "kind", [plugin.whole(1, 8), plugin.many(plugin.whole(1, 8)), plugin.maybe(plugin.whole(1, 8))]
)
def test_a_value_that_raises_when_it_is_looked_at_does_not_fit(kind: plugin.Kind) -> None:
    value = (Incomparable(3),) if "tuple" in kind.rule else Incomparable(3)
    assert not kind.fits(value)
    for act in (
        lambda: kind.check(value, "here", "count"),
        lambda: plugin.checked(count=kind)(lambda count: count)(value),
        lambda: plugin.checked(count=kind)(lambda count: count)(count=value),
    ):
        with pytest.raises(tc.RequestError, match="count .*3.* is not"):
            act()


def test_index_arithmetic_refuses_what_is_no_integer_and_says_so() -> None:
    n = tc.symbol("n", upper=8)
    for act, message in (
        (lambda: n + 1.5, "'n \\+ 1.5': index arithmetic takes integers, not float"),
        (lambda: n == None, "'n == None'"),  # noqa: E711
        (lambda: np.arange(4) + n, "takes integers, not ndarray"),
        (lambda: n + np.array(1.5), "takes integers, not ndarray"),
        (lambda: n / 2, "no other operator"),
        (lambda: 8 // n, "no other operator"),
        (lambda: bool(n < 3), "known only when the kernel runs"),
    ):
        with pytest.raises(tc.RequestError, match=message):
            act()
    assert repr(n + np.int64(3)) == repr(np.int64(3) + n) == "n + 3"


def made_with(number: Callable[[int], Any]) -> tc.BuiltKernel:
    """A kernel in which whatever may be an integer is one of some type."""
    n = number
    k = tc.KernelBuilder("counted", threads=n(32))
    rows, upper = k.size("M", multiple_of=n(2), lower=n(2), upper=n(64)), k.scalar("s", multiple_of=n(2), upper=n(8))
    a = k.param("A", (rows, n(8)), "float32", strides=(n(8), n(1)), align_bytes=n(16))
    tile = k.shared(
        (n(2), n(8)), "float32", layout=TileLayout(S[(n(2), n(8)) : (n(9), n(1))] + n(1)), align_bytes=n(16)
    )
    part = k.local((32, n(4)), "float32", layout=TileLayout(S[(32, n(4)) : (n(1) @ tc.laneid, n(1))]))
    bar = k.mbarrier(count=n(2))
    bar.init(n(1), n(1))
    bar.arrive_expect_tx(n(64), index=n(1))
    bar.wait(n(0), n(1))
    for turn in k.range(n(3), start=n(1)):
        k.cta.copy_async(
            tile[n(0) : n(2), :], a[upper + tc.minimum(turn, n(0)) : upper + tc.minimum(turn, n(0)) + n(2), n(0) :]
        )
    k.cp_async_commit()
    k.cp_async_wait(n(0))
    k.bulk_wait(pending=n(0), read=True)
    k.store(a[n(0), tc.symbol("free", lower=n(0), upper=n(0)) * 0 + n(1)], n(3))
    k.cta.copy(part.permute(n(0), n(1))[:, :], k.param("B", (n(32), n(4)), "float32")[:, :])
    return k.build(target="sm_90a", grid=(n(4), n(2)), cluster=n(2), min_ctas_per_sm=n(2))


def test_an_integer_of_numpy_is_an_integer() -> None:
    plain = made_with(int)
    for kind in (np.int64, np.uint8):
        assert made_with(kind).ptx == plain.ptx
    assert tc.cta(np.int32(64)) == tc.cta(64) and type(tc.cta(np.int32(64)).threads) is int
    assert tc.Swizzle(np.int64(3), np.int8(3), 3) == tc.Swizzle(3, 3, 3)
    layout = TileLayout(S[8, 4])
    assert layout.apply(np.int64(1), np.int64(2)) == {"m": 6} and layout.permute(np.array([1, 0]).tolist()).shard
    assert layout.permute((np.int64(1), np.int64(0))) == layout.permute((1, 0))
    assert layout.slice((8, 4), (slice(np.int64(2), np.int64(4)), slice(None))) == layout.slice(
        (8, 4), ((2, 4), (0, 4))
    )
    assert type(tc.maximum(np.int64(1), np.int64(2))) is int
    with pytest.raises(tc.RequestError, match=r"threads, not np.True_"):
        tc.cta(np.True_)  # type: ignore[arg-type]


def test_shorter_names_of_element_types_and_spaces_are_taken() -> None:
    assert [tc.dtype_of(name).name for name in ("f16", "bf16", "f32", "f64")] == [
        "float16",
        "bfloat16",
        "float32",
        "float64",
    ]
    for short, space in (("gmem", "global"), ("smem", "shared"), ("reg", "local")):
        assert str(tc.Buffer(4, "f16", space=short)) == str(tc.Buffer(4, "float16", space=space))
    k = tc.KernelBuilder("k", threads=32)
    assert k.param("A", (4,), "bf16").dtype == k.shared(4, "bfloat16").dtype
    assert tc.swizzle("128B", "f16") == tc.swizzle("128B", "float16")
    assert tc.mma_fragment("m16n8k16", "A", "f16") == tc.mma_fragment("m16n8k16", "A", "float16")


def test_values_and_integers_mix_in_arithmetic_and_conditions() -> None:
    k = tc.KernelBuilder("mixed", threads=8)
    a, b, n = k.param("A", (8,), "int32"), k.param("B", (8,), "int32"), k.scalar("n", upper=100)
    tid = k.thread_id()
    value = k.load(a[tid])
    with k.if_((value + n > tid) & (n + value > 2) & True):
        k.store(b[tid], tid - value)
    with pytest.raises(tc.RequestError, match="the value 'x' is not a number"):
        value < "x"
    source, result = np.arange(8, dtype=np.int32) % 3, np.full(8, 99, np.int32)
    k.build(target="sm_80", grid=1)(source, result, 2, executor="emulator")
    tids = np.arange(8)
    assert (result == np.where((source + 2 > tids) & (source + 2 > 2), tids - source, 99)).all()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (1.5, "an index is an integer or a slice, not 1.5"),
        (np.array(1.5), "an index is an integer or a slice, not array"),
        (slice(None, None, 2), "no step \\(found 2\\)"),
        (slice(None, None, "x"), "no step \\(found 'x'\\)"),
        ((..., ...), "an index has one '...'"),
        (None, "not None"),
        ((0, 0, 0), "the index has 3"),
    ],
)
def test_odd_indices_of_a_buffer(index: Any, message: str) -> None:
    with pytest.raises(tc.LayoutError, match=message):
        FOREIGN.a[index]


@pytest.mark.parametrize(
    "make",
    [
        lambda k: k.local((2**31,), "uint8"),
        lambda k: k.shared((2**31, 2), "uint8"),
        lambda k: k.param("huge", (2**40, 2**40), "uint8"),
        lambda k: k.param("far", (8, 8), "uint8", strides=(2**70, 1)),
        lambda k: k.mbarrier(count=2**31),
        lambda k: k.tmem((128, 2**20), "uint32", layout=TileLayout(S[(128, 2**20) : (1 @ tc.TLane, 1 @ tc.TCol)])),
        lambda k: k.range(range(10**18)),
        lambda k: TileLayout(S[8] + R[2**40 : 1]).places(0),
        lambda k: plugin.PtxBuilder(tc.target_of(TARGET), 64).regs("b32", 2**31),
    ],
)
def test_what_nothing_has_room_for_is_refused_at_once(make: Callable[[tc.KernelBuilder], Any]) -> None:
    assert isinstance(outcome(lambda: make(tc.KernelBuilder("room", threads=32))), tc.TilecopyError)


# ------------------------------------------------------------------------------------------------- errors point home


def test_a_build_error_names_the_line_that_made_the_statement() -> None:
    k = tc.KernelBuilder("line", threads=32)
    a, s = k.param("A", (32,), "float32"), k.shared((32,), "float16")
    k.cta_sync()
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    k.cta.copy(s[:], a[:])
    with pytest.raises(tc.RequestError, match=f"a copy does not convert\n  at .*{Path(__file__).name}:{line}$"):
        k.build(target="sm_80", grid=1)


@pytest.mark.parametrize(
    ("act", "meant"),
    [
        (lambda: tc.dtype_of("flaot16"), "float16"),
        (lambda: tc.target_of("sm_90b"), "sm_90"),
        (lambda: tc.swizzle("128b", "float16"), "128B"),
        (lambda: tc.Buffer(4, "int8", space="shraed"), "shared"),
        (lambda: tc.symbol("s", varies="threads"), "thread"),
        (lambda: tc.Axis("mine", "memroy"), "memory"),
        (lambda: FOREIGN.ptx.reg("b23"), "b32"),
        (
            lambda: tc.plan(FOREIGN.s[:, :], FOREIGN.a[:, :], scope=tc.cta(64), target=TARGET, variant="gmem_smen"),
            "gmem_smem",
        ),
        (
            lambda: tc.plan(FOREIGN.s[:, :], FOREIGN.a[:, :], scope=tc.cta(64), target=TARGET, variant="gmem"),
            "gmem_smem",
        ),
        (
            lambda: tc.plan(
                FOREIGN.words[0:4], FOREIGN.words[4:8], op="copy_async", scope=tc.thread(), target=TARGET, mbarr=1
            ),
            "mbar",
        ),
    ],
)
def test_near_misses_get_a_hint(act: Callable[[], Any], meant: str) -> None:
    with pytest.raises(tc.TilecopyError, match=f"did you mean '?{meant}"):
        act()


def test_reprs_are_short() -> None:
    w = World()
    w.k.cta.copy(w.s[:, :], w.a[:, :])
    for thing in (w.k, w.kernel, w.a, w.s, w.n, w.mbar, w.value, w.layout, w.condition, w.at, tc.cta(64)):
        assert len(repr(thing)) <= 200, repr(thing)


# ----------------------------------------------------------------------------------------------- copies and pickles

COPIES = {
    "pickled": lambda thing: pickle.loads(pickle.dumps(thing)),
    "deep-copied": copy.deepcopy,
    "copied": copy.copy,
}


@pytest.mark.parametrize("how", COPIES)
def test_data_is_the_same_when_copied(how: str) -> None:
    again, w = COPIES[how], World()
    rows = w.s[w.k.thread_id() * 0 + 8 : 16, :]
    for thing in (
        w.layout,
        tc.SwizzledLayout(tc.swizzle("128B", "float16"), w.layout),
        TileLayout(S[(8, 8) : (8 @ tc.laneid, 1)] + R[4 : 32 @ tc.TLane] + 4),
        tc.dtype_of("bfloat16"),
        tc.target_of(TARGET),
        tc.warp(),
        tc.ActiveThreads(64).narrowed_by(w.condition),
        plugin.Iter(8, 8),
        w.variant,
    ):
        assert again(thing) == thing
    assert repr(again(w.at)) == repr(w.at)  # its register is one object for each, and a copy's is another
    region = again(rows)
    assert (repr(region), region.extents, repr(region.sliced_layout())) == (
        repr(rows),
        rows.extents,
        repr(rows.sliced_layout()),
    )
    request = again(w.request)
    assert str(request) == str(w.request)
    assert again(w.plan).explain() == w.plan.explain()
    both = again((w.n, w.n + w.k.block_id(), w.k.block_id()))
    assert repr(both[1] - both[0] - both[2]) == "0"  # a symbol stays itself among what is copied together


def plans_of_every_variant() -> dict[str, tc.Plan]:
    """One of each first-party variant, between memories of one kernel."""
    k = tc.KernelBuilder("variants", threads=128)
    a, tile, other = k.param("A", (128, 64), "float16"), k.shared((128, 64), "float16"), k.shared((128, 64), "float16")
    owned, turned = (
        k.local((128, 64), "float16", layout=layout)
        for layout in (TileLayout(S[(128, 64) : (1 @ tc.tx, 1)]), TileLayout(S[(128, 8, 8) : (1 @ tc.tx, 1, 8)]))
    )
    rows = k.shared((32, 16), "uint8")
    columns = TileLayout(S[(32, 16) : (1 @ tc.TLane, 1 @ tc.TCol)] + R[4 : 32 @ tc.TLane])
    tmem, mbar = k.tmem((32, 16), "uint8", layout=columns), k.mbarrier()
    k.tcgen05_alloc(tmem, columns=32)
    lanes = k.tmem((128, 64), "float16", layout=TileLayout(S[(128, 64) : (1 @ tc.TLane, 1 @ tc.TCol)]))
    alone = {"op": "copy_async", "scope": tc.thread()}
    asked: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "gmem_smem": (tile, a, {}),
        "ldgsts": (tile, a, {"op": "copy_async"}),
        "reg": (owned, a, {}),
        "regperm": (turned, owned, {}),
        "ragged": (tile, a, {}),
        "bulk": (tile, a, {**alone, "mbar": mbar[0]}),
        "tma": (tile, a, {**alone, "mbar": mbar[0]}),
        "dsmem": (other, tile, {**alone, "mbar": mbar[0], "remote_cta_id": 1}),
        "tcgen05_cp": (tmem, rows, alone),
        "tcgen05_ld": (owned, lanes, {}),
        "tcgen05_st": (lanes, owned, {}),
    }
    return {
        name: tc.plan(dst[:, :], src[:, :], target=TARGET, variant=name, **{"scope": tc.cta(128), **options})
        for name, (dst, src, options) in asked.items()
    }


@pytest.mark.parametrize("how", COPIES)
def test_plans_of_every_variant_are_the_same_when_copied(how: str) -> None:
    for name, plan in plans_of_every_variant().items():
        again = COPIES[how](plan)
        assert (again.variant, again.explain(), str(again.request)) == (name, plan.explain(), str(plan.request))
        assert (type(again.partition), repr(again.partition)) == (type(plan.partition), repr(plan.partition))
        request = COPIES[how](plan.request)
        planned = tc.plan(
            request.dst,
            request.src,
            op=request.op,
            scope=request.scope,
            target=request.target,
            variant=name,
            **request.options,
        )
        assert planned.explain() == plan.explain()


@pytest.mark.parametrize("how", COPIES)
def test_a_copied_kernel_runs_and_checks_as_before(how: str) -> None:
    k = tc.KernelBuilder("copied", threads=64)
    a, b, n, first = (
        k.param("A", (256, 64), "float16"),
        k.param("B", (256, 64), "float16"),
        k.scalar("n", upper=4),
        k.scalar("first", multiple_of=8, upper=1000),
    )
    tile = k.shared((64, 64), "float16", layout=tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[64, 64])))
    for turn in k.range(n):
        k.cta.copy(tile[:, :], a[turn * 64 : turn * 64 + 64, :])
        k.cta_sync()
        with k.if_(k.block_id() == 0):
            k.cta.copy(b[first : first + 64, :], tile[:, :])
        k.cta_sync()
    kernel = COPIES[how](k.build(target="sm_80", grid=2))
    source, result = np.arange(256 * 64).astype(np.float16).reshape(256, 64), np.zeros((256, 64), np.float16)
    kernel(source, result, 3, 96, executor="emulator")
    assert (result[96:160] == source[128:192]).all() and not result[:96].any()
    with pytest.raises(tc.LaunchError, match="must stay in 0 to 192"):
        kernel(source, result, 3, 200, executor="emulator")
    with pytest.raises(tc.LaunchError, match="not a multiple of 8"):
        kernel(source, result, 3, 4, executor="emulator")
    assert "gmem_smem" in kernel.explain() and kernel.origin_of(1) == ""


@pytest.mark.parametrize("how", COPIES)
def test_a_copied_kernel_keeps_its_sizes_edges_and_checked_indices(how: str) -> None:
    k = tc.KernelBuilder("gather", threads=32)
    rows = k.size("M", upper=4096)
    a, b, at = k.param("A", (rows, 8), "float32"), k.param("B", (rows, 8), "float32"), k.param("at", (4,), "int32")
    c, tile = k.param("C", (rows, 8), "float32"), k.shared((8, 8), "float32")
    start = k.block_id() * 8
    k.cta.copy(tile[:, :], a[start : start + 8, :], outside=7)
    k.cta_sync()
    k.cta.copy(b[start : start + 8, :], tile[:, :], outside="keep")
    with k.if_((k.thread_id() < 8) & (k.block_id() == 0)):
        first = k.index(k.load(at[0]), upper=rows - 1)
        k.store(c[first, k.thread_id()], 5.0)
    kernel = COPIES[how](k.build(target="sm_80", grid=(rows + 7) // 8))
    source = np.arange(88, dtype=np.float32).reshape(11, 8)
    result, marked, places = np.zeros_like(source), np.zeros_like(source), np.array([10, 0, 0, 0], np.int32)
    kernel(source, result, places, marked, executor="emulator")
    assert (result == source).all() and (marked[10] == 5).all() and not marked[:10].any()
    with pytest.raises(tc.TilecopyError, match="the index 11 is outside its declared 0 to 10"):
        kernel(source, result, np.array([11, 0, 0, 0], np.int32), marked, executor="emulator")
    with pytest.raises(tc.LaunchError, match="B"):
        kernel(source, result[:9], places, marked, executor="emulator")


@pytest.mark.parametrize("how", COPIES)
def test_a_copied_kernel_keeps_its_options(how: str) -> None:
    k = tc.KernelBuilder("pair", threads=32)
    b = k.param("B", (64,), "uint32")
    mine, theirs, mbar = k.shared((32,), "uint32"), k.shared((32,), "uint32"), k.mbarrier()
    tid, rank = k.thread_id(), k.cluster_rank()
    k.store(mine[tid], k.cast(rank * 100 + tid, "uint32"))
    with k.if_(tid == 0):
        mbar.init()
        k.fence_mbarrier_init()
    k.fence_proxy_async()
    k.cluster_sync()
    with k.if_(tid == 0):
        mbar.arrive_expect_tx(128)
        k.thread.copy_async(theirs[:], mine[:], mbar=mbar, remote_cta_id=1 - rank)
    mbar.wait(0)
    k.store(b[k.block_id() * 32 + tid], k.load(theirs[tid]))
    k.cluster_sync()
    kernel = COPIES[how](k.build(target="sm_90", grid=2, cluster=2))
    result = np.zeros(64, np.uint32)
    kernel(result, executor="emulator")
    assert (result == np.concatenate([np.arange(32) + 100, np.arange(32)])).all()
    assert str(kernel.plans[0].request.options["remote_cta_id"]) == "-1*cluster_ctarank + 1"
