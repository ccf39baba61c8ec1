"""Every object of a builder in every method of another that takes one: refused, at the call or when it is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy import R, S, TCol, TileLayout, TLane


class Parts:
    """A builder with an object of every kind, each under the name that it has in every other."""

    def __init__(self) -> None:
        k = self.k = tc.KernelBuilder("k", threads=128)
        self.size, self.scalar = k.size("M", upper=64), k.scalar("n", upper=3)
        self.A = k.param("A", (self.size, 64), "int32")
        self.B = k.param("B", (64, 64), "int32")
        self.tile = k.shared((64, 64), "int32", name="tile")
        self.bytes = k.shared((8192,), "uint8", name="bytes")
        self.fragment = k.local((8,), "int32", name="fragment")
        layout = TileLayout(S[(32, 32) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
        self.tensor = k.tmem((32, 32), "int32", layout=layout, name="tensor")
        self.barrier = k.mbarrier("barrier", count=4)
        self.loaded = k.load(self.B[0, 0])
        self.index = k.index(self.loaded, upper=3)
        self.loop = k.range(4)
        self.turn = self.loop.__enter__()

    def end(self) -> None:
        self.loop.__exit__()
        self.k.build(target="sm_100a", grid=1)


INTEGERS: dict[str, Callable[[Parts], Any]] = {
    "size": lambda o: o.size,
    "size and more": lambda o: (o.size + 1) // 2 * 2,
    "scalar": lambda o: o.scalar,
    "index": lambda o: o.index,
    "loop": lambda o: o.turn,
    "least": lambda o: tc.minimum(o.scalar, 3),
}
VALUES: dict[str, Callable[[Parts], Any]] = {
    "loaded": lambda o: o.loaded,
    "sum": lambda o: o.loaded + 1,
    "converted": lambda o: o.k.cast(o.loaded, "float32"),
} | {f"{name} as a value": lambda o, of=of: o.k.cast(of(o), "int32") for name, of in INTEGERS.items()}
REGIONS: dict[str, Callable[[Parts], Any]] = {
    "array": lambda o: o.B[0, 0],
    "array of a size": lambda o: o.A[0, 0],
    "transposed": lambda o: o.B.T[0, 0],
    "view": lambda o: o.tile.view(layout=TileLayout(S[4096]))[0],
    "bytes as words": lambda o: o.bytes.view(dtype="int32")[0],
    "shared": lambda o: o.tile[0, 0],
    "fragment": lambda o: o.fragment[0],
}


def block(p: Parts, condition: Any) -> None:
    with p.k.if_(condition):
        p.k.cta_sync()


OF_INTEGERS: dict[str, Callable[[Parts, Any], Any]] = {
    "start": lambda p, i: p.k.load(p.B[i, 0]),
    "start of a store": lambda p, i: p.k.store(p.B[i, 0], 1),
    "start of a copy": lambda p, i: p.k.cta.copy(p.tile[0:4, :], p.B[i : i + 4, :]),
    "start of a destination": lambda p, i: p.k.cta.copy(p.B[i : i + 4, :], p.tile[0:4, :]),
    "overhang": lambda p, i: p.k.cta.copy(p.tile[0:4, :], p.B[i : i + 4, :], outside=0),
    "option": lambda p, i: p.k.thread.copy_async(p.tile[0:4, :], p.tile[4:8, :], mbar=p.barrier, remote_cta_id=i),
    "count": lambda p, i: p.k.range(i),
    "first turn": lambda p, i: p.k.range(3, start=i),
    "condition": lambda p, i: block(p, i < 2),
    "joined condition": lambda p, i: block(p, (p.k.thread_id() < 5) & ~(i == 2)),
    "compared with a value": lambda p, i: block(p, p.loaded < i),
    "stored": lambda p, i: p.k.store(p.B[0, 0], i),
    "added to a value": lambda p, i: p.k.store(p.B[0, 0], p.loaded + i),
    "converted": lambda p, i: p.k.store(p.B[0, 0], p.k.cast(i, "int32")),
    "shape": lambda p, i: p.k.param("C", (i, 4), "int32"),
    "strides": lambda p, i: p.k.param("C", (p.size, 4), "int32", strides=(i * 4, 1)),
    "bound": lambda p, i: p.k.scalar("s", upper=i),
    "lower bound": lambda p, i: p.k.scalar("s", lower=i, upper=100),
    "bound of an index": lambda p, i: p.k.index(p.loaded, upper=i),
    "index of a value": lambda p, i: p.k.index(p.k.cast(i, "int32"), upper=3),
    "column": lambda p, i: p.k.tcgen05_ld(p.fragment, p.tensor, column=i),
    "operand": lambda p, i: p.k.inline_ptx("nanosleep.u32 {0};", i),
    "which barrier": lambda p, i: p.barrier.arrive(index=i),
    "parity": lambda p, i: p.barrier.wait(i),
    "barrier of a copy": lambda p, i: p.k.thread.copy_async(p.tile[0:4, :], p.B[0:4, :], mbar=p.barrier[i]),
    "committed": lambda p, i: p.k.tcgen05_commit(p.barrier[i]),
    "grid": lambda p, i: (p.loop.__exit__(), p.k.build(target="sm_100a", grid=i)),
}
OF_VALUES: dict[str, Callable[[Parts, Any], Any]] = {
    "stored": lambda p, v: p.k.store(p.B[0, 0], p.k.cast(v, "int32")),
    "stored in a fragment": lambda p, v: p.k.store(p.fragment[0], p.k.cast(v, "int32")),
    "condition": lambda p, v: block(p, v > 3),
    "compared": lambda p, v: block(p, (p.k.cast(p.loaded, v.dtype) == v) | (p.k.thread_id() < 3)),
    "index": lambda p, v: p.k.index(p.k.cast(v, "int32"), upper=3),
    "operand": lambda p, v: p.k.inline_ptx("nanosleep.u32 {0};", v),
    "lesser": lambda p, v: p.k.store(p.B[0, 0], p.loaded.min(p.k.cast(v, "int32"))),
    "option": lambda p, v: p.k.cta.copy(p.tile[0:4, :], p.B[0:4, :], odd=v),
}
OF_REGIONS: dict[str, Callable[[Parts, Any], Any]] = {
    "loaded": lambda p, r: p.k.load(r),
    "stored to": lambda p, r: p.k.store(r, 1),
    "operand": lambda p, r: p.k.inline_ptx("// {0}", r),
    "source": lambda p, r: p.k.thread.copy(p.fragment[0:1], r),
    "destination": lambda p, r: p.k.thread.copy(r, p.fragment[0:1]),
    "option": lambda p, r: p.k.thread.copy_async(p.tile[0:4, :], p.B[0:4, :], mbar=r),
    "committed": lambda p, r: p.k.tcgen05_commit(r),
}
OF_OTHERS: dict[str, Callable[[Parts, Parts], Any]] = {
    "mbarrier as an option": lambda p, o: p.k.thread.copy_async(p.tile[0:4, :], p.B[0:4, :], mbar=o.barrier),
    "mbarrier committed": lambda p, o: p.k.tcgen05_commit(o.barrier),
    "mbarrier.init": lambda p, o: o.barrier.init(1, index=3),
    "mbarrier.arrive": lambda p, o: o.barrier.arrive(),
    "mbarrier.arrive_expect_tx": lambda p, o: o.barrier.arrive_expect_tx(16),
    "mbarrier.wait": lambda p, o: o.barrier.wait(0),
    "tensor memory": lambda p, o: p.k.tcgen05_alloc(o.tensor),
    "tensor memory freed": lambda p, o: p.k.tcgen05_dealloc(o.tensor),
    "tensor memory loaded": lambda p, o: p.k.tcgen05_ld(p.fragment, o.tensor),
    "into a fragment": lambda p, o: p.k.tcgen05_ld(o.fragment, p.tensor),
    "registers": lambda p, o: p.k.registers(o.fragment),
    "elect": lambda p, o: block(p, o.k.elect()),
    "elect and more": lambda p, o: block(p, ~(o.k.elect() & (p.k.thread_id() < 5))),
    "its elect": lambda p, o: o.k.elect().__enter__(),
    "its if_": lambda p, o: o.k.if_(o.k.thread_id() < 3),
    "its range": lambda p, o: o.k.range(3).__enter__(),
    "its store": lambda p, o: o.k.store(o.B[0, 0], 1),
    "its copy": lambda p, o: o.k.cta.copy(o.tile[:, :], o.B[:, :]),
    "its barrier": lambda p, o: o.k.cta_sync(),
    "its inline_ptx": lambda p, o: o.k.inline_ptx("// nothing"),
}
CASES = {
    **{
        f"{thing}, {place}": lambda p, o, of=of, use=use: use(p, of(o))
        for things, uses in ((INTEGERS, OF_INTEGERS), (VALUES, OF_VALUES), (REGIONS, OF_REGIONS))
        for thing, of in things.items()
        for place, use in uses.items()
    },
    **OF_OTHERS,
}


def test_an_object_of_another_builder_is_refused() -> None:
    accepted, refused = [], []
    for case, use in CASES.items():
        other = Parts()
        other.loop.__exit__()  # else it is open around all that follows
        p = Parts()
        try:
            use(p, other)
            p.end()
        except tc.TilecopyError as error:
            p.loop.__exit__(RuntimeError)
            refused.append(type(error))
        else:
            accepted.append(case)
    assert not accepted and set(refused) == {tc.RequestError}


def test_a_kernel_may_be_described_inside_a_block_of_another() -> None:
    """By a helper that builds what it needs: no statement goes astray there."""
    one = tc.KernelBuilder("one", threads=32)
    a = one.param("A", (4,), "int32")
    for i in one.range(3):
        two = tc.KernelBuilder("two", threads=32)
        b = two.param("A", (4,), "int32")
        with two.if_(two.thread_id() < 1):
            two.store(b[0], 2)
        two.store(b[1], 2)
        second = two.build(target="sm_80", grid=1)
        one.store(a[i], 1)
    for kernel, wanted in ((one.build(target="sm_80", grid=1), [1, 1, 1, 0]), (second, [2, 2, 0, 0])):
        found = np.zeros(4, np.int32)
        kernel(found, executor="emulator")
        assert found.tolist() == wanted
