"""Tensor copies (TMA): drawn boxes against an oracle that goes element by element; maps, their limits and who may read them."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import numpy as np
import pytest
from tilecopy_emulator import TensorMap, run_ptx

ELEMENTS = {
    "uint8": "u1",
    "float16": "f2",
    "bfloat16": "u2",
    "float32": "f4",
    "int32": "i4",
    "uint64": "u8",
    "float64": "f8",
}
SWIZZLES = {
    "none": None,
    "32B": (4, 1, 3),
    "64B": (4, 2, 3),
    "128B": (4, 3, 3),
    "128B_atom_32B": (5, 2, 2),
    "128B_atom_64B": (6, 1, 1),
}
"""Swizzle(M, B, S) on byte addresses (PTX ISA 5.5.7)."""
SPANS = {"none": 0, "32B": 32, "64B": 64}
SHARED = 8192
LOAD = "cp.async.bulk.tensor.{n}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.{n}d.global.shared::cta.tile.bulk_group"
REDUCE = "cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.{op}.tile.bulk_group"


def kernel(
    body: str,
    *,
    target: str = "sm_90a",
    rank: int = 2,
    bytes: int = 0,
    module: str = "",
    align: int = 64,
    more: str = "",
) -> str:
    """A kernel of 128 threads: a map, starts of each CTA, and an image of its shared memory that is filled before and written back after."""
    starts = "".join(f"ld.global.b32 %c{i}, [%d3+{4 * i}];\n" for i in range(5))
    version = "8.6" if target == "sm_90a" else "8.8"
    return f"""
.version {version}
.target {target}
.address_size 64
{module}
.visible .entry k(.param .align {align} .b8 map[128], .param .u64 starts, .param .u64 image{more})
{{
    .reg .b32 %r<16>, %c<5>; .reg .b64 %d<16>; .reg .b16 %h<4>; .reg .pred %p<4>;
    .shared .align 1024 .b8 s[{SHARED}]; .shared .align 8 .b8 m[8];
    mov.u32 %r1, s; mov.u32 %r2, m; mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x;
    setp.eq.u32 %p1, %r3, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1;
    mov.b64 %d1, map; cvta.param.u64 %d1, %d1;
    ld.param.u64 %d2, [starts]; mad.wide.u32 %d3, %r4, 20, %d2; {starts}
    ld.param.u64 %d4, [image]; mad.wide.u32 %d4, %r4, {SHARED}, %d4; mad.wide.u32 %d4, %r3, 16, %d4;
    mad.lo.u32 %r5, %r3, 16, %r1; mov.u32 %r6, 0; mov.b64 %d5, %d4;
IN: ld.global.v2.b64 {{%d6, %d7}}, [%d5]; st.shared.v2.b64 [%r5], {{%d6, %d7}};
    add.u32 %r5, %r5, 2048; add.u64 %d5, %d5, 2048; add.u32 %r6, %r6, 2048; setp.lt.u32 %p3, %r6, {SHARED}; @%p3 bra IN;
    fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    {body.replace("COORDINATES", ", ".join(f"%c{i}" for i in range(rank)))}
    mad.lo.u32 %r5, %r3, 16, %r1; mov.u32 %r6, 0; mov.b64 %d5, %d4;
OUT: ld.shared.v2.b64 {{%d6, %d7}}, [%r5]; st.global.v2.b64 [%d5], {{%d6, %d7}};
    add.u32 %r5, %r5, 2048; add.u64 %d5, %d5, 2048; add.u32 %r6, %r6, 2048; setp.lt.u32 %p3, %r6, {SHARED}; @%p3 bra OUT;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    ret;
}}
"""


def load(bytes: int, *, rank: int = 2, to: int = 0, form: str = LOAD) -> str:
    return f"""
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {bytes}; add.u32 %r7, %r1, {to};
    @%p1 {form.format(n=rank)} [%r7], [%d1, {{COORDINATES}}], [%r2];
W:  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;"""


def store(*, rank: int = 2, at: int = 0, form: str = STORE, op: str = "") -> str:
    return f"""
    add.u32 %r7, %r1, {at};
    @%p1 {form.format(n=rank, op=op)} [%d1, {{COORDINATES}}], [%r7];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""


@attrs.frozen
class Draw:
    """A tensor in an array of bytes, a box, where it begins for each CTA, and where it lies in shared memory."""

    map: TensorMap
    starts: Any
    at: int
    image: Any

    @property
    def rank(self) -> int:
        return len(self.map.sizes)

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements of a box that are moved."""
        steps = (1, *self.map.element_strides[1:])
        return tuple(-(-extent // step) for extent, step in zip(self.map.box, steps, strict=True))

    @property
    def bytes(self) -> int:
        return int(np.prod(self.counts)) * self.map.element_bytes

    def places(self, start: Any) -> list[tuple[int, int | None]]:
        """Byte of each element of the box in shared memory, and in the array; None outside the tensor."""
        found = []
        counts, size = self.counts, self.map.element_bytes
        pitch = SPANS.get(self.map.swizzle, 128) or counts[0] * size
        for index in itertools.product(*(range(count) for count in reversed(counts))):
            *outer, inner = index
            row = int(np.ravel_multi_index(outer, counts[:0:-1])) if outer else 0
            byte = self.at + row * pitch + inner * size
            swizzle = SWIZZLES[self.map.swizzle]
            if swizzle:
                m, b, s = swizzle
                byte ^= (byte >> (m + s) & (1 << b) - 1) << m
            steps = (1, *self.map.element_strides[1:])
            at = [int(start[d]) + index[-1 - d] * steps[d] for d in range(self.rank)]
            inside = all(0 <= x < extent for x, extent in zip(at, self.map.sizes, strict=True))
            strides = (size, *self.map.strides_bytes)
            found.append((byte, sum(x * y for x, y in zip(at, strides, strict=True)) if inside else None))
        return found


def draw(
    rng: np.random.Generator, rank: int, *, dtype: str = "", ctas: int = 3, stores: bool = False, fill: str = "zero"
) -> Draw:
    """A tensor whose strides have gaps, and starts inside, across the ends, and (of loads) before the beginning and far away."""
    dtype = dtype or str(rng.choice(list(ELEMENTS)))
    size = np.dtype(ELEMENTS[dtype]).itemsize
    swizzle = str(rng.choice(list(SWIZZLES)))
    span = SPANS.get(swizzle, 128) or 256
    unit = 16 // size
    row = unit * int(rng.integers(1, min(span, 256 * size) // 16 + 1))
    box, left = [row], 4096 // max(span if swizzle != "none" else 0, row * size)
    for _ in range(rank - 1):
        box.append(int(rng.integers(1, max(1, min(left, 9)) + 1)))
        left = max(1, left // box[-1])
    sizes = [int(rng.integers(1, 3 * row + 2)), *(int(rng.integers(1, 2 * extent + 3)) for extent in box[1:])]
    strides, total = [], sizes[0] * size
    for extent in sizes[1:]:
        strides.append(-(-total // 16) * 16 + 16 * int(rng.integers(0, 2)))
        total = strides[-1] * extent
    steps = [1, *(int(rng.integers(1, 4)) for _ in box[1:])]
    low = 0 if stores else -2
    columns = [[unit * int(rng.integers(low * row // unit, 3 * row // unit + 2)) for _ in range(ctas)]]
    columns += [[int(rng.integers(low * e, 2 * e + 3)) for _ in range(ctas)] for e in box[1:]]
    columns += [[0] * ctas for _ in range(5 - rank)]
    array = rng.integers(0, 256, total, np.uint8)
    image = rng.integers(0, 256, (ctas, SHARED), np.uint8)
    at = 128 * int(rng.integers(0, 9))
    found = TensorMap(array, dtype, sizes, strides, box, steps, swizzle, fill)
    return Draw(found, np.array(columns, np.int32).T.copy(), at, image)


@pytest.mark.parametrize("rank", range(1, 6))
def test_loads(rank: int) -> None:
    rng = np.random.default_rng(rank)
    for number in range(12):
        fill = "nan" if number % 4 == 3 else "zero"
        case = draw(rng, rank, dtype="float16" if fill == "nan" else "", fill=fill)
        array, image, size = case.map.address, case.image.copy(), case.map.element_bytes
        wanted = image.copy()
        outside = np.frombuffer((0x7FFF if fill == "nan" else 0).to_bytes(8, "little"), np.uint8)[:size]
        for cta, start in enumerate(case.starts):
            for byte, there in case.places(start):
                wanted[cta, byte : byte + size] = outside if there is None else array[there : there + size]
        text = kernel(load(case.bytes, rank=rank, to=case.at), rank=rank, target="sm_100a")
        run_ptx(text, [case.map, case.starts, image], grid=3, block=128)
        assert np.array_equal(image, wanted), case


@pytest.mark.parametrize("rank", range(1, 6))
def test_stores(rank: int) -> None:
    rng = np.random.default_rng(10 + rank)
    for _ in range(12):
        case = draw(rng, rank, ctas=1, stores=True)
        array, size = case.map.address, case.map.element_bytes
        wanted = array.copy()
        for byte, there in case.places(case.starts[0]):
            if there is not None:
                wanted[there : there + size] = case.image[0, byte : byte + size]
        image = case.image.copy()
        run_ptx(
            kernel(store(rank=rank, at=case.at), rank=rank, target="sm_100a"),
            [case.map, case.starts, image],
            grid=1,
            block=128,
        )
        assert np.array_equal(array, wanted), case
        assert np.array_equal(image, case.image)
