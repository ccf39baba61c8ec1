"""Tensor copies (TMA): drawn boxes against an oracle that goes element by element; maps, their limits and who may read them."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest
from tilecopy import HazardError, LaunchError
from tilecopy_emulator import TensorMap, UnsupportedPtxError, run_ptx, tensor_map
from tilecopy_emulator.memory.tensor_maps import encode_map
from tilecopy_test_helpers.mentions import is_hazard, mentions

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
        outside = np.frombuffer((0x7FF7 if fill == "nan" else 0).to_bytes(8, "little"), np.uint8)[
            :size
        ]  # seen on an H200
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


# --------------------------------------------------------------------------------------------------- reductions, rows


@pytest.mark.parametrize(
    ("dtype", "op"),
    [("uint32", "add"), ("int32", "min"), ("float32", "add"), ("uint32", "xor"), ("uint64", "max"), ("uint32", "inc")],
)
def test_reductions_go_by_the_type_of_the_map(dtype: str, op: str) -> None:
    """Two CTAs reduce into overlapping boxes, in either order the same."""
    rng = np.random.default_rng(1)
    array = rng.integers(0, 1000, (20, 32)).astype(dtype)
    if dtype == "int32":
        array -= 500
    image = rng.integers(0, 1000, (2, SHARED // array.itemsize)).astype(dtype)
    starts, wanted = np.array([[4, 2, 0, 0, 0], [8, 10, 0, 0, 0]], np.int32), array.copy()
    of = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "xor": np.bitwise_xor,
        "inc": lambda a, b: np.where(a >= b, 0, a + 1),
    }
    for cta, (x, y, *_) in enumerate(starts):
        box = image[cta, : 16 * 12].reshape(12, 16)
        part = wanted[y : y + 12, x : x + 16]
        part[...] = of[op](part, box[: part.shape[0], : part.shape[1]])
    facts = TensorMap(array, dtype, (32, 20), (32 * array.itemsize,), (16, 12))
    run_ptx(kernel(store(form=REDUCE, op=op)), [facts, starts, image], grid=2, block=128)
    assert np.array_equal(array, wanted)


def test_a_reduction_that_the_type_has_not_is_told() -> None:
    facts = TensorMap(np.zeros((4, 16), np.float32), "float32", (16, 4), (64,), (16, 4))
    with pytest.raises(HazardError, check=is_hazard("descriptor", "inc", "float32")) as error:
        run_ptx(
            kernel(store(form=REDUCE, op="inc")),
            [facts, np.zeros(5, np.int32), np.zeros(SHARED, np.uint8)],
            grid=1,
            block=128,
        )
    assert error.value.kind == "descriptor"


def test_rows_are_gathered_and_scattered() -> None:
    array, image = np.arange(20 * 64, dtype=np.uint16).reshape(20, 64), np.zeros((1, SHARED // 2), np.uint16)
    starts = np.array([[8, 19, 3, 20, 3]], np.int32)
    facts = TensorMap(array, "uint16", (64, 20), (128,), (16, 1))
    form = "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
    run_ptx(kernel(load(128, form=form), rank=5, target="sm_100a"), [facts, starts, image], grid=1, block=128)
    rows = [array[19, 8:24], array[3, 8:24], np.zeros(16), array[3, 8:24]]
    assert np.array_equal(image[0, :64].reshape(4, 16), rows)
    starts[0, 2] = 5
    run_ptx(kernel(store(form="cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"), rank=5, target="sm_100a"),
            [TensorMap(out := np.zeros_like(array), "uint16", (64, 20), (128,), (16, 1)), starts, image], grid=1, block=128)  # fmt: skip
    wanted = np.zeros_like(array)
    wanted[[19, 5, 3], 8:24] = array[[19, 3, 3], 8:24]
    assert np.array_equal(out, wanted)


# --------------------------------------------------------------------------------------------------- clusters


def multicast(mask: int, issuer: int, ranks: int, arms: int = -1, group: str = "") -> str:
    """One CTA loads for those of a mask; each rank of ``arms`` expects the bytes and waits."""
    arms = mask if arms < 0 else arms
    form = LOAD.format(n=2) + ".multicast::cluster" + group
    return f"""
    mov.u32 %r8, %cluster_ctarank; mov.b16 %h1, {mask};
    shl.b32 %r9, 1, %r8; and.b32 %r9, %r9, {arms}; setp.eq.u32 %p2, %r9, 0; @%p2 bra NO;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
NO: setp.eq.and.u32 %p1, %r8, {issuer}, %p1;
    @%p1 {form} [%r1+1024], [%d1, {{COORDINATES}}], [%r2], %h1;
    shl.b32 %r9, 1, %r8; and.b32 %r9, %r9, {mask}; setp.eq.u32 %p2, %r9, 0; @%p2 bra E;
W:  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;
E:  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""


def shared_with(ranks: int, text: str, clusters: int = 1, **more: Any) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(ranks)
    array, image = (
        rng.integers(0, 999, (40, 32)).astype(np.float32),
        rng.integers(0, 999, (clusters * ranks, SHARED // 4)).astype(np.float32),
    )
    starts = np.zeros((clusters * ranks, 5), np.int32)
    starts[:, 0], starts[:, 1] = 4, np.arange(clusters * ranks) * 5 + 3
    before = image.copy()
    facts = TensorMap(array, "float32", (32, 40), (128,), (32, 8))
    run_ptx(kernel(text, **more), [facts, starts, image], grid=clusters * ranks, block=128, cluster=ranks)
    wide = np.zeros((100, 64), np.float32)
    wide[:40, :32] = array
    return wide, before, image


@pytest.mark.parametrize(
    ("ranks", "mask", "issuer"), [(2, 3, 0), (2, 1, 1), (4, 0b1101, 1), (4, 0b1111, 3), (4, 0b0100, 0)]
)
@pytest.mark.parametrize("clusters", [1, 2])
def test_a_multicast_reaches_the_ctas_of_its_mask(ranks: int, mask: int, issuer: int, clusters: int) -> None:
    array, before, image = shared_with(ranks, multicast(mask, issuer, ranks), clusters)
    for cta in range(clusters * ranks):
        if mask >> cta % ranks & 1:
            y = (cta - cta % ranks + issuer) * 5 + 3
            before[cta, 256:512] = array[y : y + 8, 4:36].ravel()
    assert np.array_equal(image, before)


def test_a_pair_is_told_at_one_mbarrier() -> None:
    """``.cta_group::2``: rank 1's copy completes on the mbarrier of rank 0."""
    text = f"""
    mov.u32 %r8, %cluster_ctarank; setp.eq.u32 %p2, %r8, 0; and.pred %p3, %p1, %p2;
    @%p3 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 2048;
    and.b32 %r9, %r2, 0xFEFFFFFF;
    @%p1 {LOAD.format(n=2)}.cta_group::2 [%r1+1024], [%d1, {{COORDINATES}}], [%r9];
    @!%p2 bra E;
W:  mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;
E:  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    array, before, image = shared_with(2, text, target="sm_100a")
    for cta in range(2):
        before[cta, 256:512] = array[5 * cta + 3 : 5 * cta + 11, 4:36].ravel()
    assert np.array_equal(image, before)


# --------------------------------------------------------------------------------------------------- hazards and their twins

WAIT = "W:  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;"
HAZARDS = {
    # name: kind, words, the faulty text, the correct one
    "the innermost start is no multiple of 16 bytes": (
        "alignment", r"element 3 \(byte 12\)", load(1024).replace("COORDINATES", "3, 0"), load(1024).replace("COORDINATES", "-4, 0"),
    ),
    "and of a store": ("alignment", r"element 2 \(byte 8\)", store().replace("COORDINATES", "2, 0"), store().replace("COORDINATES", "4, 0")),
    "a store begins before the tensor": ("bounds", "in dimension 1, got -1", store().replace("COORDINATES", "0, -1"), store().replace("COORDINATES", "0, 39")),
    "and in the innermost dimension": ("bounds", "in dimension 0, got -4", store().replace("COORDINATES", "-4, 0"), store().replace("COORDINATES", "28, 0")),
    "the shared destination is no multiple of 128": ("alignment", "offset 64 is not a multiple of 128", load(1024, to=64), load(1024, to=128)),
    "the shared source is no multiple of 128": ("alignment", "offset 192 is not a multiple of 128", store(at=192), store(at=128)),
    "the box leaves its buffer": ("bounds", r"s bytes 7680 to 8703", load(1024, to=7680), load(1024, to=7168)),
    "only the bytes inside are expected": (
        "deadlock", ", 512 bytes more than expected", load(512).replace("COORDINATES", "0, 36"), load(1024).replace("COORDINATES", "0, 36"),
    ),
    "the wait is missing": ("async", "tensor copy", load(1024).replace(WAIT, ""), load(1024)),
    "the wait is missing at the end of a store": ("lifetime", "wait_group", store().replace("cp.async.bulk.wait_group 0;", ""), store()),
    "the source is written too early": (
        "async", "still reads", store().replace("cp.async.bulk.wait_group 0;", "@%p1 st.shared.b32 [%r1], %r1; cp.async.bulk.wait_group 0;"),
        store() + "@%p1 st.shared.b32 [%r1], %r1;",
    ),
    "the source was written by the generic proxy": (
        "proxy", "no fence.proxy.async", "@%p1 st.shared.b32 [%r1], %r1;" + store(), "@%p1 st.shared.b32 [%r1], %r1; fence.proxy.async.shared::cta;" + store(),
    ),
    "cvta.param is missing": ("window", "convert it with cvta.param", "mov.b64 %d8, map;" + load(1024).replace("%d1", "%d8"), load(1024)),
    "the map has another rank": ("descriptor", "3 dimensions for this instruction, got 2", load(1024, rank=3).replace("COORDINATES", "0, 0, 0"), load(1024)),
    "the mbarrier is in another CTA": ("window", "in the CTA of the destination", load(1024).replace(", [%r2];", ", [%r8];").replace("@%p1 cp", "xor.b32 %r8, %r2, 0x1000000; @%p1 cp"), load(1024)),
    "the mask names a CTA outside of the cluster": ("window", "CTAs from 0 to 1, got 0x5", multicast(5, 0, 2), multicast(3, 0, 2)),
    "a receiver is not armed": ("deadlock", ", 1024 bytes more than expected", multicast(3, 0, 2, arms=1), multicast(3, 0, 2)),
    "the prefetch has no map": ("descriptor", "bytes 0 to 127", "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d2, {0, 0}];", "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d1, {0, 0}];"),
}  # fmt: skip


def run_pair(text: str, **facts: Any) -> None:
    """On a cluster of two (stores: one CTA), a tensor of 40 x 32 floats and boxes of 8 x 32."""
    ctas = 1 if "bulk_group [" in text else 2
    array = np.arange(40 * 32, dtype=np.float32).reshape(40, 32)
    known = {"address": array, "dtype": "float32", "sizes": (32, 40), "strides_bytes": (128,), "box": (32, 8)} | facts
    starts, image = np.zeros((2, 128), np.int32), np.zeros((2, SHARED), np.uint8)
    starts.ravel()[6] = 8
    run_ptx(
        text,
        [known["map"] if "map" in known else TensorMap(**known), starts, image],
        grid=ctas,
        block=128,
        cluster=ctas,
    )


@pytest.mark.parametrize("name", HAZARDS)
def test_hazards(name: str) -> None:
    kind, words, faulty, correct = HAZARDS[name]
    run_pair(kernel(correct.replace("COORDINATES", "0, %c1") if "multicast" not in correct else correct))
    with pytest.raises(HazardError, match=words) as error:
        run_pair(kernel(faulty))
    assert error.value.kind == kind


# --------------------------------------------------------------------------------------------------- maps and where they lie

FIRST = (1 << 44) + 256
"""Address of the only array of a launch."""


def one_array() -> tuple[Any, Any, Any, int]:
    """A tensor of 40 x 32 floats, starts and an image of shared memory in one array; and the tensor's address."""
    memory = np.zeros(SHARED + 1024 + 40 * 128, np.uint8)
    tensor = memory[SHARED + 1024 :].view(np.float32).reshape(40, 32)
    tensor[...] = np.arange(40 * 32).reshape(40, 32)
    return memory, memory[SHARED : SHARED + 20].view(np.int32), tensor, FIRST + SHARED + 1024


def facts(address: int, **changes: Any) -> dict[str, Any]:
    known = {"dtype": "float32", "sizes": (32, 40), "strides_bytes": (128,), "box": (32, 8), "element_strides": (1, 1)}
    return {"address": address, **known, "swizzle": "none", "fill": "zero", **changes}


def test_a_map_is_bytes_made_from_an_address_or_from_the_facts_of_a_launch() -> None:
    memory, starts, tensor, address = one_array()
    starts[1] = 8
    made = tensor_map(**facts(address))
    assert len(made) == 128
    assert made == encode_map(attrs.make_class("Facts", list(facts(0)))(**facts(address)))
    run_ptx(kernel(load(1024)), [made, starts, memory], grid=1, block=128)
    assert np.array_equal(memory[:1024].view(np.float32).reshape(8, 32), tensor[8:16])


def test_a_map_in_constant_memory() -> None:
    memory, starts, tensor, address = one_array()
    made = ", ".join(map(str, tensor_map(**facts(address))))
    text = load(1024).replace("[%d1,", "[%d8,")
    text = kernel(
        "mov.b64 %d8, cm; cvta.const.u64 %d8, %d8;" + text, module=f".const .align 64 .b8 cm[128] = {{{made}}};"
    )
    run_ptx(text, [bytes(128), starts, memory], grid=1, block=128)
    assert np.array_equal(memory[:1024].view(np.float32).reshape(8, 32), tensor[:8])


IN_GLOBAL = """
    ld.param.u64 %d8, [G]; setp.eq.u32 %p2, %r4, 0; and.pred %p2, %p1, %p2; mov.u32 %r9, 0;
    @!%p2 bra NO;
CP: ld.global.v2.b64 {%d10, %d11}, [%d8+128]; st.global.v2.b64 [%d8], {%d10, %d11};
    add.u64 %d8, %d8, 16; add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 8; @%p3 bra CP;
    fence.proxy.tensormap::generic.release.gpu;
NO: ld.param.u64 %d8, [G];
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    fence.proxy.tensormap::generic.acquire.gpu [%d8], 128;
""" + load(1024).replace("[%d1,", "[%d8,")
RELEASE, SYNC, ACQUIRE = (line + "\n" for line in (
    "    fence.proxy.tensormap::generic.release.gpu;",
    "    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    "    fence.proxy.tensormap::generic.acquire.gpu [%d8], 128;",
))  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("", ()),
        ("", ((ACQUIRE, ACQUIRE.replace("fence", "@%p1 fence")),)),
        ("", ((ACQUIRE, "setp.eq.u32 %p3, %r3, 77; " + ACQUIRE.replace("fence", "@%p3 fence") + "bar.sync 0;\n"),)),
        ("proxy", ((ACQUIRE, "setp.eq.u32 %p3, %r3, 77; " + ACQUIRE.replace("fence", "@%p3 fence")),)),
        ("proxy", ((RELEASE, ""),)),
        ("proxy", ((ACQUIRE, ""),)),
        ("proxy", ((ACQUIRE, ACQUIRE.replace("%d8", "%d8+128")),)),
        ("proxy", ((ACQUIRE, "setp.eq.u32 %p3, %r4, 0; " + ACQUIRE.replace("fence", "@%p3 fence") + SYNC),)),
        ("proxy", ((SYNC, ""), (ACQUIRE, ACQUIRE + SYNC))),
        ("race", ((SYNC, ""),)),
    ],
)  # fmt: skip
def test_a_map_that_the_kernel_writes_is_fenced(kind: str, changes: tuple[tuple[str, str], ...]) -> None:
    """Thread 0 of CTA 0 writes it; who uses it needs the writer's release, and an acquire of these bytes in its CTA."""
    text = IN_GLOBAL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    tensor, at = one_array()[2], 2 * SHARED + 128
    memory = np.zeros(at + tensor.nbytes + 256, np.uint8)  # images, starts, the tensor, room for the map, the map
    memory[at:-256] = tensor.ravel().view(np.uint8)
    memory[-128:] = np.frombuffer(tensor_map(**facts(FIRST + at)), np.uint8)
    arguments = [bytes(128), memory[2 * SHARED :], memory, memory[-256:]]

    def run() -> None:
        run_ptx(kernel(text, more=", .param .u64 G"), arguments, grid=2, block=128, cluster=2)

    if not kind:
        run()
        assert np.array_equal(memory[:1024].view(np.float32).reshape(8, 32), tensor[:8])
        return
    with pytest.raises(HazardError) as error:
        run()
    assert error.value.kind == kind, error.value


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"address": FIRST + 8}, ("address", 16)),
        ({"address": -16}, ("address",)),
        ({"address": 1.5}, ("address",)),
        ({"dtype": "float4_e2m1fn"}, ("dtype", 4, 8)),
        ({"dtype": "complex128"}, ("dtype",)),
        ({"dtype": 7}, ("dtype",)),
        ({"sizes": ()}, ("sizes",)),
        ({"sizes": (1,) * 6}, ("sizes",)),
        ({"sizes": (32, 0)}, ("sizes",)),
        ({"sizes": (32, 2**31 + 1)}, ("sizes",)),
        ({"sizes": 32}, ("sizes",)),
        ({"strides_bytes": (4, 128)}, ("strides_bytes",)),
        ({"strides_bytes": (136,)}, (16,)),
        ({"strides_bytes": (2**40,)}, (16,)),
        ({"strides_bytes": (-16,)}, (16,)),
        ({"box": (32,)}, ("box", 256)),
        ({"box": (32, 257)}, ("box", 256)),
        ({"box": (0, 8)}, ("box", 256)),
        ({"box": (30, 8)}, ("box", 16, 120)),
        ({"box": (36, 8), "swizzle": "128B"}, ("box", 128, "swizzle", "128B", 144)),
        ({"swizzle": "96B"}, ("swizzle", "32B")),
        ({"element_strides": (1, 9)}, ("element_strides", 8)),
        ({"element_strides": (1, 1, 1)}, ("element_strides", 8)),
        ({"fill": "ones"}, ("fill", "zero", "nan")),
        ({"dtype": "uint32", "fill": "nan"}, ("fill", "zero", "uint32")),
    ],
)  # fmt: skip
def test_limits_of_maps(changes: dict[str, Any], words: tuple[object, ...]) -> None:
    with pytest.raises(LaunchError, match=mentions(*words)):
        tensor_map(**facts(FIRST) | changes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (load(1024).replace("{COORDINATES}", "{%c0}"), (2, 1)),
        (load(1024).replace("[%d1, {COORDINATES}]", "[%d1]"), ()),
        (load(1024).replace("COORDINATES", "%d2, %c0"), (64, "s32")),
        (load(1024).replace("COORDINATES", "%c0, 0f00000000"), ()),
        (load(1024).replace("[%r2];", "[%r2], %h1;", 1).replace("expect_tx.shared.b64 _, [%r2], %h1", "expect_tx.shared.b64 _, [%r2]"), ()),
        (load(1024, form=LOAD + ".L2::cache_hint"), (64,)),
        (store().replace("[%r7];", "[%r7], [%r2];"), (3,)),
        ("ld.global.b32 %r7, [%d1, {%c0}];", ()),
        ("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r1], [%d1, {0, 0, 0}], [%r2], {%h1};", ("im2col",)),
        ("fence.proxy.tensormap::generic.acquire.gpu [%d1], 64;", (128,)),
    ],
)  # fmt: skip
def test_what_is_no_tensor_copy_is_refused(text: str, words: tuple[object, ...]) -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions(*words)):
        run_pair(kernel(text))


@pytest.mark.parametrize(
    ("kind", "words", "changes", "text"),
    [
        ("bounds", (14336, 16, "starts"), {"sizes": (32, 41)}, load(1024).replace("COORDINATES", "0, 36")),
        ("bounds", ("starts",), {"sizes": (32, 41)}, store().replace("COORDINATES", "0, 40")),
        ("bounds", ("address",), {"address": 1 << 50}, load(1024)),
        ("bounds", ("param",), {"address": (2 << 44) + 256}, load(1024)),
        ("descriptor", ("swizzle", "128B_atom_32B", "sm_100"), {"swizzle": "128B_atom_32B"}, load(1024)),
        ("", (), {"sizes": (32, 40)}, load(1024).replace("COORDINATES", "0, 36")),
    ],
)  # fmt: skip
def test_a_map_of_memory_that_is_not_there(
    kind: str, words: tuple[object, ...], changes: dict[str, Any], text: str
) -> None:
    memory, starts, _, address = one_array()
    made = tensor_map(**facts(address) | changes)
    if not kind:
        run_ptx(kernel(text), [made, starts, memory], grid=1, block=128)
        return
    with pytest.raises(HazardError, check=is_hazard(kind, *words)) as error:
        run_ptx(kernel(text), [made, starts, memory], grid=1, block=128)
    assert error.value.kind == kind


def test_the_bytes_of_the_driver_are_no_map() -> None:
    with pytest.raises(HazardError, check=is_hazard("descriptor", "map")) as error:
        run_pair(kernel(load(1024)), map=bytes(range(128)))
    assert error.value.kind == "descriptor"


def test_a_map_is_declared_with_its_alignment() -> None:
    with pytest.raises(HazardError, check=is_hazard("alignment", 64, "map", "align", 8)) as error:
        run_pair(kernel(load(1024), align=8))
    assert error.value.kind == "alignment"


def test_an_array_that_may_not_be_written() -> None:
    array = np.zeros((40, 32), np.float32)
    array.flags.writeable = False
    with pytest.raises(HazardError, check=is_hazard("read-only", "map")):
        run_pair(kernel(store()), address=array)
    run_pair(kernel(load(1024)), address=array)


def test_sectors_are_counted() -> None:
    """A box of 8 rows of 128 bytes, 4 of them inside the tensor."""
    array, image = np.zeros((40, 32), np.float32), np.zeros(SHARED, np.uint8)
    made, starts = TensorMap(array, "float32", (32, 40), (128,), (32, 8)), np.array([0, 36, 0, 0, 0], np.int32)
    with_copy, without = (
        run_ptx(kernel(text), [made, starts, image], grid=1, block=128, profile=True) for text in (load(1024), "")
    )
    assert with_copy.counters["global_sectors"] - without.counters["global_sectors"] == 16
    assert with_copy.not_counted == ("cp.async.bulk",)


@pytest.mark.parametrize("edge", [0, 3])
def test_copies_of_a_batch_that_part_while_a_copy_is_in_flight(edge: int) -> None:
    """Eight CTAs load a box each, part, store it elsewhere, and part again before they wait; the last box hangs over."""
    array, out = np.arange(64 * 32, dtype=np.float32).reshape(64, 32), np.zeros((64, 32), np.float32)
    starts, image = np.zeros((8, 5), np.int32), np.zeros((8, SHARED // 4), np.float32)
    starts[:, 1] = np.arange(8) * 8
    part = "setp.eq.u32 %p3, %r4, {n}; @%p3 bra A{n}; add.u32 %r9, %r4, 1; A{n}: add.u32 %r10, %r4, 1;"
    text = (
        load(1024).replace("W:", part.format(n=2) + "W:")
        + "mov.b64 %d9, out; cvta.param.u64 %d9, %d9;"
        + store().replace("%d1", "%d9")
    )
    again = text.replace(
        "cp.async.bulk.commit_group;", part.format(n=5) + "cp.async.bulk.commit_group;" + part.format(n=6)
    )
    for number, each in enumerate(
        (
            text,
            again,
            again.replace(part.format(n=2), ""),
            again.replace(part.format(n=2), "").replace(part.format(n=5), ""),
        )
    ):
        source, target = (TensorMap(a, "float32", (32, 64 - edge), (128,), (32, 8)) for a in (array, out))
        run_ptx(
            kernel(each, more=", .param .align 64 .b8 out[128]"), [source, starts, image, target], grid=8, block=128
        )
        wanted = array.copy()
        wanted[64 - edge :] = 0
        assert np.array_equal(out, wanted), number
        out[...] = 0


@pytest.mark.parametrize(
    ("form", "more", "target"),
    [
        (LOAD.replace("shared::cluster", "shared::cta"), "", "sm_90a"),
        (LOAD.replace(".tile", ""), "", "sm_90a"),
        (LOAD + ".L2::cache_hint", ", %d9", "sm_90a"),
        (LOAD + ".cta_group::1", "", "sm_100a"),
        (LOAD.replace("shared::cluster", "shared::cta") + ".cta_group::2", "", "sm_100a"),
    ],
)
def test_forms_of_loads(form: str, more: str, target: str) -> None:
    array, image = np.arange(40 * 32, dtype=np.float32).reshape(40, 32), np.zeros((1, SHARED // 4), np.float32)
    facts = TensorMap(array, "float32", (32, 40), (128,), (32, 8))
    text = "createpolicy.fractional.L2::evict_first.b64 %d9, 1.0;" + load(1024, form=form).replace(
        ", [%r2];\nW", f", [%r2]{more};\nW"
    )
    run_ptx(kernel(text, target=target), [facts, np.array([0, 3, 0, 0, 0], np.int32), image], grid=1, block=128)
    assert np.array_equal(image[0, :256].reshape(8, 32), array[3:11])


def test_every_lane_that_issues_makes_a_copy() -> None:
    array, image = np.arange(40 * 32, dtype=np.float32).reshape(40, 32), np.zeros((1, SHARED // 4), np.float32)
    facts = TensorMap(array, "float32", (32, 40), (128,), (32, 8))
    text = f"""
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 4096; bar.sync 0;
    setp.lt.u32 %p3, %r3, 4; shl.b32 %r8, %r3, 3; mad.lo.u32 %r9, %r3, 1024, %r1;
    @%p3 {LOAD.format(n=2)} [%r9], [%d1, {{0, %r8}}], [%r2];
    {WAIT}"""
    run_ptx(kernel(text), [facts, np.zeros(5, np.int32), image], grid=1, block=128)
    assert np.array_equal(image[0, :1024].reshape(32, 32), array[:32])


def test_lanes_store_boxes_that_hang_over_in_some_ctas() -> None:
    array, image = np.zeros((61, 32), np.float32), np.arange(2 * SHARED // 4, dtype=np.float32).reshape(2, SHARED // 4)
    facts = TensorMap(array, "float32", (32, 61), (128,), (32, 8))
    text = f"""
    setp.lt.u32 %p3, %r3, 4; mad.lo.u32 %r8, %r4, 4, %r3; shl.b32 %r8, %r8, 3; mad.lo.u32 %r9, %r3, 1024, %r1;
    @%p3 {STORE.format(n=2)} [%d1, {{0, %r8}}], [%r9];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    run_ptx(kernel(text), [facts, np.zeros((2, 5), np.int32), image], grid=2, block=128)
    assert np.array_equal(array, image[:, :1024].reshape(64, 32)[:61])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", ["add", "min"])
def test_reductions_of_halves(dtype: str, op: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(5)
    array, image = rng.integers(-9, 9, (8, 64)).astype(kind), rng.integers(-9, 9, (1, SHARED // 2)).astype(kind)
    box = image[0, :512].reshape(8, 64)
    wanted = (array + box if op == "add" else np.minimum(array, box)).view(np.uint16)
    facts = TensorMap(array.view(np.uint16), dtype, (64, 8), (128,), (64, 8))
    run_ptx(kernel(store(form=REDUCE, op=op)), [facts, np.zeros(5, np.int32), image.view(np.uint16)], grid=1, block=128)
    assert np.array_equal(array.view(np.uint16), wanted)


@pytest.mark.parametrize(
    ("kind", "words", "faulty", "correct"),
    [
        ("proxy", (9216, "async"), "@%p1 st.global.b32 [%d4+9216], %r4;" + load(1024),
         "@%p1 st.global.b32 [%d4+9216], %r4; fence.proxy.async.global;" + load(1024)),
        ("proxy", (9216, "async"), "@%p1 st.global.b32 [%d4+9216], %r4;" + store(),
         "@%p1 st.global.b32 [%d4+9216], %r4; fence.proxy.async;" + store()),
        ("async", (10236,), load(1024).replace("W:", "@%p1 st.global.b32 [%d4+10236], %r4; W:"),
         load(1024).replace("W:", "@%p1 st.global.b32 [%d4+10240], %r4; W:")),
        ("async", ("image",), store().replace("cp.async.bulk.wait_group", "@%p1 ld.global.b32 %r8, [%d4+10236]; cp.async.bulk.wait_group"),
         store() + "@%p1 ld.global.b32 %r8, [%d4+10236];"),
        ("race", (), store() + "setp.eq.u32 %p3, %r3, 64; @%p3 st.global.b32 [%d4+8192], %r4;",
         store() + "bar.sync 0; setp.eq.u32 %p3, %r3, 64; @%p3 st.global.b32 [%d4+8192], %r4;"),
    ],
)  # fmt: skip
def test_order_of_the_tensor_in_global_memory(kind: str, words: tuple[object, ...], faulty: str, correct: str) -> None:
    for text in (correct, faulty):
        memory, starts, _, address = one_array()
        arguments = [tensor_map(**facts(address)), starts, memory]
        if text is correct:
            run_ptx(kernel(text), arguments, grid=1, block=128)
            continue
        with pytest.raises(HazardError, check=is_hazard(kind, *words)) as error:
            run_ptx(kernel(text), arguments, grid=1, block=128)
        assert error.value.kind == kind


@pytest.mark.parametrize("space", ["", ".param"])
def test_a_prefetch_of_a_map_changes_nothing(space: str) -> None:
    run_pair(kernel(f"prefetch{space}.tensormap [%d1];" + load(1024)))


# ------------------------------------------------------------------------------------------------ maps that a kernel replaces

GROUPED = """
    .shared .align 128 .b8 copied[128];
    ld.param.u64 %d8, [G]; mad.wide.u32 %d8, %r4, 128, %d8;
    setp.ge.u32 %p2, %r3, 32; @%p2 bra OTHERS;
    mov.u32 %r10, copied; setp.lt.u32 %p3, %r3, 8; mad.wide.u32 %d9, %r3, 16, %d1; mad.lo.u32 %r11, %r3, 16, %r10;
    @%p3 ld.v2.b64 {%d10, %d11}, [%d9]; @%p3 st.shared.v2.b64 [%r11], {%d10, %d11};
    bar.warp.sync -1;
    mad.wide.u32 %d12, %r4, 1280, %d2; add.u64 %d12, %d12, 1024; mad.lo.u32 %r12, %r4, 3, 4;
    @%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r10], %d12;
    @%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r10], 1, %r12;
    mov.b64 %d13, 160; cvt.u64.u32 %d14, %r10; cvta.shared.u64 %d14, %d14;
    @%p1 tensormap.replace.tile.global_stride.b1024.b64 [%d14], 0, %d13;
    bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d8], [%r10], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%d8], 128;
OTHERS:
""" + load(1024).replace("[%d1,", "[%d8,")
PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d8], [%r10], 128;"
BY_HAND = "@%p3 ld.shared.v2.b64 {%d10, %d11}, [%r11]; mad.wide.u32 %d9, %r3, 16, %d8; @%p3 st.global.v2.b64 [%d9], {%d10, %d11}; bar.warp.sync -1;"


IN_PLACE = "@%p1 tensormap.replace.tile.global_dim.global.b1024.b32 [%d8], 1, %r12; bar.warp.sync -1;"


def run_grouped(text: str, grid: int) -> tuple[Any, Any]:
    """Each CTA copies from a tensor of its own, by a map of its own that begins as the parameter; the tensors, and what was copied."""
    tensors = np.zeros(1024 + 1280 * grid, np.uint8)
    tensors[1024:] = np.random.default_rng(grid).integers(0, 256, 1280 * grid)
    image, maps = np.zeros((grid, SHARED), np.uint8), np.zeros(128 * 32, np.uint8)
    template = TensorMap(**{**facts(0), "address": tensors})
    run_ptx(kernel(text, more=", .param .u64 G"), [template, tensors, image, maps], grid=grid, block=128)
    return tensors[1024:].reshape(grid, 8, 160)[..., :128], image[:, :1024].reshape(grid, 8, 128)


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("", "", ""),
        ("", PUBLISH, BY_HAND.replace("bar.warp", "fence.proxy.tensormap::generic.release.gpu; bar.warp")),
        ("proxy", PUBLISH, BY_HAND),
        ("", PUBLISH, BY_HAND + IN_PLACE + RELEASE),
        ("proxy", PUBLISH, BY_HAND + RELEASE + IN_PLACE),
        ("proxy", "    fence.proxy.tensormap::generic.acquire.gpu [%d8], 128;", ""),
        ("race", "    bar.warp.sync -1;\n    mad.wide", "    mad.wide"),
        ("aligned", "tensormap.cp_fence", "@%p1 tensormap.cp_fence"),
    ],
)  # fmt: skip
def test_a_kernel_replaces_fields_of_its_map(kind: str, old: str, new: str, grid: int) -> None:
    """As grouped products do."""
    assert old in GROUPED
    if kind:
        with pytest.raises(HazardError) as error:
            run_grouped(GROUPED.replace(old, new), grid)
        assert error.value.kind == kind, error.value
        return
    tensors, found = run_grouped(GROUPED.replace(old, new), grid)
    for cta in range(grid):
        rows = min(8, 4 + 3 * cta)
        assert np.array_equal(found[cta, :rows], tensors[cta, :rows]) and not found[cta, rows:].any()


@pytest.mark.parametrize(
    ("kind", "words", "old", "new"),
    [
        ("alignment", (64,), "[%r10], %d12", "[%r10+16], %d12"),
        ("descriptor", (), "mov.b64 %d13, 160;", "mov.b64 %d13, 160; @%p1 st.shared.b64 [%r10], %d13;"),
        ("descriptor", ("strides_bytes",), "mov.b64 %d13, 160;", "mov.b64 %d13, 168;"),
        ("descriptor", ("address", 16), "add.u64 %d12, %d12, 1024;", "add.u64 %d12, %d12, 1032;"),
        ("descriptor", ("sizes", 32, 4), "mov.b64 %d13, 160;", "mov.b64 %d13, 160; @%p1 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r10], 2;"),
        ("descriptor", ("box", 256), "mov.b64 %d13, 160;", "mov.b64 %d13, 160; @%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r10], 1, 65537;"),
        ("aligned", (), "    tensormap.cp", "    mad.wide.u32 %d8, %r3, 128, %d8;\n    tensormap.cp"),
        ("poison", (), "@%p3 st.shared", "@%p1 st.shared"),
    ],
)  # fmt: skip
def test_maps_that_are_replaced_wrongly(kind: str, words: tuple[object, ...], old: str, new: str) -> None:
    assert old in GROUPED
    with pytest.raises(HazardError, check=is_hazard(kind, *words)) as error:
        run_grouped(GROUPED.replace(old, new), 1)
    assert error.value.kind == kind, error.value


MODES = {"none": (0, 0), "32B": (1, 0), "64B": (2, 0), "128B": (3, 0), "128B_atom_32B": (3, 1), "128B_atom_64B": (3, 3)}
TYPES = {"uint8": 0, "int32": 3, "uint64": 4, "float16": 6, "float32": 7, "float64": 9, "bfloat16": 10}
"""As ``tensormap.replace`` numbers them."""


def replaced(made: TensorMap, space: str, at: str) -> str:
    """A ``tensormap.replace`` of every field."""
    mode, atom = MODES[made.swizzle]
    found = [
        ("global_address", "", made.address),
        ("rank", "", len(made.sizes) - 1),
        ("elemtype", "", TYPES[made.dtype]),
    ]
    found += [("interleave_layout", "", 0), ("swizzle_mode", "", mode), ("swizzle_atomicity", "", atom)]
    found += [("fill_mode", "", int(made.fill == "nan"))]
    lists = {"box_dim": made.box, "global_dim": made.sizes, "global_stride": made.strides_bytes}
    for name, values in (lists | {"element_stride": made.element_strides}).items():
        found += [(name, f"{number}, ", value) for number, value in enumerate(values)]
    text: list[str] = []
    for name, ordinal, value in found:
        bits, operand = (64 if name in ("global_address", "global_stride") else 32), str(value)
        if len(text) % 3 and (ordinal or name == "rank"):
            operand = f"%{'d' if bits == 64 else 'r'}9"
            text.append(f"mov.b{bits} {operand}, {value};")
        text.append(f"@%p1 tensormap.replace.tile.{name}{space}.b1024.b{bits} [{at}], {ordinal}{operand};")
    return "\n".join(text)


@pytest.mark.parametrize("space", [".shared::cta", ".global", ""])
def test_a_map_of_zeros_whose_fields_are_all_replaced(space: str) -> None:
    rng = np.random.default_rng(len(space))
    for rank in range(1, 6):
        made = draw(rng, rank).map
        fill = "nan" if made.dtype in ("float16", "float32", "float64", "bfloat16") else "zero"
        made = attrs.evolve(made, address=FIRST + 16 * int(rng.integers(1, 99)), fill=fill)
        at = "%r1+1024" if space == ".shared::cta" else "%d8+128"
        body = f"ld.param.u64 %d8, [G]; bar.sync 0; {replaced(made, space, at)} bar.sync 0;"
        memory, image = np.zeros(256, np.uint8), np.zeros(SHARED, np.uint8)
        arguments = [bytes(128), np.zeros(5, np.int32), image, memory]
        run_ptx(kernel(body, target="sm_100a", more=", .param .u64 G"), arguments, grid=1, block=128)
        found = image[1024:1152] if space == ".shared::cta" else memory[128:]
        assert found.tobytes() == made.encode(), made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("elemtype.shared::cta.b1024.b32 [%r1], 8;", (8,)),
        ("elemtype.shared::cta.b1024.b32 [%r1], %r3;", ()),
        ("interleave_layout.shared::cta.b1024.b32 [%r1], 1;", (1,)),
        ("swizzle_mode.shared::cta.b1024.b32 [%r1], 4;", (4,)),
        ("box_dim.shared::cta.b1024.b32 [%r1], 5, %r3;", (5,)),
        ("global_stride.shared::cta.b1024.b64 [%r1], 4, %d3;", (4,)),
        ("box_dim.shared::cta.b1024.b32 [%r1], %r3, %r3;", ()),
        ("box_dim.shared::cta.b1024.b32 [%r1], %r3;", (3,)),
        ("rank.shared::cta.b1024.b32 [%r1], 0, %r3;", (3,)),
    ],
)  # fmt: skip
def test_what_no_field_of_a_map_takes(text: str, words: tuple[object, ...]) -> None:
    with pytest.raises(UnsupportedPtxError, match=mentions(*words)):
        run_pair(kernel("tensormap.replace.tile." + text))
