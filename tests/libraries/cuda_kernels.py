"""The kernels of the .cu files: a function named like each, which says what NumPy makes of the same arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from table import Kernel, floats, ints

KERNELS: list[Kernel] = []
I4 = np.int32


def kernel(source: str, *given: Any, names: str = "", **more: Any) -> Callable[..., Any]:
    """Put kernels with one oracle into the table: the function's name, or those of ``names``."""

    def put(oracle: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        KERNELS.extend(Kernel(name, source, oracle, given, **more) for name in (names or oracle.__name__).split())
        return oracle

    return put


# ------------------------------------------------------------------------------------------------ CUB, a block


@kernel("cub_block.cu", ints(256), grid=2, names="block_reduce_raking block_reduce_commutative")
def reduce_sum(x):
    return [x.reshape(2, 128).sum(1, dtype=I4)]


@kernel("cub_block.cu", floats(256), grid=2, names="block_reduce_warps")
@kernel("cub_block.cu", floats(256, dtype=np.float64), grid=2, names="block_reduce_double")
def sum_floats(x):
    return [x.reshape(2, 128).sum(1)]


@kernel("cub_block.cu", ints(128), 77)
def block_reduce_max_items(x, n):
    return [x[:n].max(keepdims=True)]


@kernel("cub_block.cu", ints(128), block=(16, 8))
def block_reduce_2d(x):
    return [x.sum(keepdims=True, dtype=I4)]


@kernel("cub_block.cu", floats(128))
def block_arg_min(x):
    return [np.array([x.argmin()], I4), x.min(keepdims=True)]


@kernel("cub_block.cu", ints(512), names="block_scan_raking block_scan_memoize block_scan_warps")
def exclusive_sum(x):
    return [np.cumsum(x, dtype=I4) - x, x.sum(keepdims=True, dtype=I4)]


@kernel("cub_block.cu", ints(128))
def block_scan_max(x):
    return [np.maximum.accumulate(x)]


@kernel("cub_block.cu", ints(512), 512)
def block_scan_prefix(x, n):
    return [np.cumsum(x, dtype=I4)]


@kernel("cub_block.cu", ints(512, low=0, high=2**32, dtype=np.uint32))
def block_radix_sort(x):
    return [np.sort(x)]


@kernel("cub_block.cu", np.random.default_rng(0).permutation(512).astype(np.float32) - 200)
def block_radix_sort_pairs(x):
    return [np.sort(x)[::-1], np.argsort(-x).astype(I4)]


@kernel("cub_block.cu", ints(512, low=0, high=32, dtype=np.uint32))
def block_radix_rank(x):
    return [np.argsort(np.argsort(x, kind="stable")).astype(I4)]


@kernel("cub_block.cu", ints(512))
def block_merge_sort(x):
    return [np.sort(x)]


@kernel("cub_block.cu", ints(400, low=-20, high=20), 400)
def block_merge_sort_pairs(x, n):
    return [np.sort(x)[::-1], np.argsort(-x, kind="stable").astype(I4)]


@kernel("cub_block.cu", ints(512, low=0, high=32, dtype=np.uint8), names="block_histogram_sort block_histogram_atomic")
def block_histogram(x):
    return [np.bincount(x, minlength=32).astype(np.uint32)]


@kernel(
    "cub_block.cu",
    ints(900),
    900,
    grid=2,
    names="load_store_direct load_store_vectorize load_store_transpose load_store_warp_transpose load_store_timesliced",
)
def load_store(x, n):
    return [x + np.arange(n, dtype=I4) % 512]


@kernel("cub_block.cu", ints(512))
def block_exchange(x):
    return [x.reshape(4, 128).T.ravel(), x[::-1]]


@kernel("cub_block.cu", ints(512))
def block_shuffle(x):
    return [np.concatenate([[I4(0)], x[:-1]]), np.roll(x[3::4], -5)]


@kernel("cub_block.cu", ints(512, low=0, high=3))
def block_discontinuity(x):
    change = np.diff(x, prepend=-1, append=-1) != 0
    return [change[:-1].astype(I4), change[1:].astype(I4)]


@kernel("cub_block.cu", ints(490), 490)
def block_adjacent_difference(x, n):
    return [np.diff(x, prepend=I4(0)), -np.diff(x, append=I4(0))]


@kernel("cub_block.cu", ints(256), ints(256, low=1, high=6))
def block_run_length_decode(values, lengths):
    return [np.repeat(values, lengths)]


@kernel("cub_block.cu", ints(128, low=0))
def stream_compaction(x):
    kept = x[x % 3 == 0]
    return [kept, np.array([len(kept)], I4)]


# ------------------------------------------------------------------------------------------------ CUB, a warp


@kernel("cub_warp.cu", ints(128))
def warp_reduce(x):
    return [x.reshape(4, 32).sum(1, dtype=I4)]


@kernel("cub_warp.cu", floats(128), 11)
def warp_reduce_float_max(x, n):
    return [x.reshape(8, 16)[:, :n].max(1)]


@kernel("cub_warp.cu", ints(32), block=32)
def warp_reduce_odd(x):
    return [x[:7].sum(keepdims=True, dtype=I4)]


@kernel("cub_warp.cu", ints(32), (np.arange(32) % 5 == 0).astype(I4), block=32)
def warp_segmented_sum(x, heads):
    return [np.array([x[i : i + 5].sum() if i % 5 == 0 else 0 for i in range(32)], I4)]


@kernel("cub_warp.cu", ints(128))
def warp_scan(x):
    inclusive = np.cumsum(x.reshape(4, 32), 1, dtype=I4)
    return [inclusive.ravel(), inclusive.ravel() - x]


@kernel("cub_warp.cu", floats(128, dtype=np.float64))
def warp_scan_double(x):
    return [np.cumsum(x.reshape(16, 8), 1).ravel()]


@kernel("cub_warp.cu", ints(128))
def warp_broadcast(x):
    return [np.repeat(x[11::32], 32)]


@kernel("cub_warp.cu", ints(256), block=64)
def warp_merge_sort(x):
    return [np.sort(x.reshape(4, 64), 1).ravel()]


@kernel("cub_warp.cu", ints(256), block=64, names="warp_exchange_smem")
def warp_exchange(x):
    return [x.reshape(2, 4, 32).swapaxes(1, 2).ravel()]


@kernel("cub_warp.cu", ints(200), 200, block=64, names="warp_load_store_transpose warp_load_store_striped")
def warp_load_store(x, n):
    return [2 * x]


@kernel("cub_warp.cu", ints(256), ints(32), block=32)
def thread_sort_search(x, wanted):
    ordered = np.sort(x.reshape(32, 8), 1)
    return [ordered.ravel(), np.array([np.searchsorted(row, w) for row, w in zip(ordered, wanted, strict=True)], I4)]


# ------------------------------------------------------------------------------------------------ libcu++


@kernel("libcudacxx.cu", ints(128))
def barrier_arrive_wait(x):
    for _ in range(4):
        x = x + np.roll(x, -1)
    return [x]


@kernel("libcudacxx.cu", ints(256))
def barrier_producer_consumer(x):
    return [x.reshape(4, 64)[:, ::-1]]


@kernel("libcudacxx.cu", ints(128, 4), allow=("unfenced-init",))
def barrier_memcpy_async(x):
    return [x[::-1]]


@kernel("libcudacxx.cu", ints(512), allow=("unfenced-init",))
def barrier_memcpy_async_group(x):
    return [x[::-1]]


@kernel("libcudacxx.cu", ints(256))
def barrier_bulk_copy(x):
    return [x + np.repeat([1, 2], 128).astype(I4)]


@kernel("libcudacxx.cu", ints(128))
def barrier_drop(x):
    return [x.sum(keepdims=True, dtype=I4)]


@kernel("libcudacxx.cu", ints(192))
def barrier_parity(x):
    return [2 * x]


@kernel("libcudacxx.cu", ints(640), 5)
def pipeline_stages(x, n):
    return [x.reshape(n, 128)[:, ::-1]]


@kernel("libcudacxx.cu", ints(320), 5)
def pipeline_roles(x, n):
    return [x.reshape(n, 64)[:, ::-1]]


@kernel("libcudacxx.cu", ints(128, 4), block=64)
def pipeline_thread(x):
    return [x]


@kernel("libcudacxx.cu", ints(256, low=0), grid=2)
def atomic_ref_sums(x):
    bits = np.bitwise_xor.reduce(x)[None].astype(np.uint32)
    return [x.sum(keepdims=True, dtype=I4), x.max(keepdims=True), bits, np.array([384], np.float32)]


@kernel("libcudacxx.cu", ints(64, low=0), block=64)
def atomic_compare_exchange(x):
    return [np.array([((x & 15).astype(np.uint64) ** 2).sum()])]


@kernel("libcudacxx.cu", ints(64, low=0, high=256, dtype=np.uint8), block=64)
def atomic_small(x):
    parts = [x[x % 8 == i] for i in range(8)]
    return [np.array([p.sum() for p in parts]).astype(np.uint8), np.array([p.max() for p in parts], np.uint16)]


@kernel("libcudacxx.cu", ints(64), np.zeros(2, I4), np.zeros(64, I4), grid=4, block=32)
def atomic_handshake(x, flags, box):
    return [x + I4(1)]


@kernel("libcudacxx.cu", ints(256), np.zeros(1, np.uint32), np.zeros(4, I4), grid=4, block=64)
def last_block(x, count, parts):
    return [x.sum(keepdims=True, dtype=I4)]


@kernel("libcudacxx.cu", ints(64), block=64)
def semaphore_lock(x):
    return [x.sum(keepdims=True, dtype=I4)]


@kernel("libcudacxx.cu", ints(32), block=64)
def counting_semaphore(x):
    return [x]


@kernel("libcudacxx.cu", ints(128))
def latch_count(x):
    return [x[::-1]]


@kernel("libcudacxx.cu", ints(128))
def annotated_pointers(x):
    return [3 * x]


@kernel("libcudacxx.cu", ints(128))
def annotated_shared(x):
    return [x[np.arange(128) ^ 1]]


@kernel("libcudacxx.cu", ints(64, low=1), block=64)
def ptx_wrappers(x):
    t = np.arange(64, dtype=np.uint64)
    found = np.floor(np.log2(x | 1)).astype(np.uint64)
    shifted = (np.uint64(7) << (t % np.uint64(40))) & np.uint64(0xFFFFFFFF)
    prmt = sum((0x0506070801020304 >> 8 * place & 255) << 8 * i for i, place in enumerate((5, 1, 7, 3)))
    return [
        (t % 32 + 100 * t).astype(np.uint32),
        np.array([0xF8 + prmt]).astype(np.uint32).view(I4),
        found + 64 * shifted,
    ]


@kernel("libcudacxx.cu", ints(128))
def ptx_mbarrier(x):
    return [x[np.arange(128) ^ 64]]


@kernel("libcudacxx.cu", ints(128))
def ptx_elect(x):
    return [x[:4]]


@kernel("libcudacxx.cu", ints(4), grid=4, cluster=2, block=32)
def ptx_cluster(x):
    return [x[np.arange(4) ^ 1]]


@kernel("libcudacxx.cu", ints(128))
def warp_functions(x):
    return [3 * x[np.arange(128) ^ 3] + 7, np.repeat(x[4::32], 32)]


@kernel("libcudacxx.cu", ints(128, low=1 << 9, high=2**32, dtype=np.uint32))
def bits_and_numbers(x):
    def one(v):
        bits = f"{v:032b}"
        narrow = bits.count("1") + 100 * (32 - v.bit_length()) + 10000 * ((v & -v).bit_length() - 1)
        narrow += 1000000 * (int(bits[::-1], 2) & 7) + ((v >> 5 & 15) << 28)
        ceil = 1 << max((v >> 8) - 1, 0).bit_length()
        return narrow % 2**32, -(-v // 7) + ceil + v.bit_length() - 1 + int(np.floor(np.sqrt(v)))

    found = [one(int(v)) for v in x]
    return [np.array([f[0] for f in found], np.uint32), np.array([f[1] for f in found], np.uint64)]


@kernel("libcudacxx.cu", ints(128, low=0, high=2**31), 37)
def fast_division(x, d):
    q, r = np.divmod(x & 0xFFFF, I4(d))
    return [q * 1000 + r]


@kernel("libcudacxx.cu", ints(256), block=32)
def algorithms(x):
    ordered = np.sort(x.reshape(32, 8), 1)
    return [ordered, (ordered.sum(1) + 100000 * (ordered < 0).sum(1)).astype(I4)]


@kernel("libcudacxx.cu", floats(8, 16))
def mdspan_transpose(x):
    return [np.ascontiguousarray(x.T)]


@kernel("libcudacxx.cu", floats(128, 2))
def complex_numbers(x):
    z = x[:, 0] + 1j * x[:, 1]
    w = z * z / (1 + 2j) + z.conj()
    return [np.stack([w.real, w.imag], 1).astype(np.float32), np.abs(z).astype(np.float32)]


@kernel("libcudacxx.cu", ints(128, low=0, high=2**63, dtype=np.uint64))
def wide_integers(x):
    p = [int(a) * int(b) for a, b in zip(x, x[::-1], strict=True)]
    return [np.array([v >> 64 for v in p], np.uint64), np.array([v // 1000000007 % 2**64 for v in p], np.uint64)]


# ------------------------------------------------------------------------------------------------ cooperative groups


def tiles(x, size):
    return x.reshape(-1, size)


@kernel("groups.cu", ints(128))
def tile_sum_32(x):
    return [tiles(x, 32).sum(1, dtype=I4)]


@kernel("groups.cu", ints(128))
def tile_sum_8(x):
    return [tiles(x, 8).sum(1, dtype=I4)]


@kernel("groups.cu", ints(128), 4)
def tile_dynamic(x, n):
    return [tiles(x, n).sum(1, dtype=I4)]


@kernel("groups.cu", ints(128))
def tile_votes(x):
    out = []
    for row in tiles(x, 16):
        word = sum(1 << i for i in range(16) if row[i] > 0) | (row > 900).any() << 16 | (row > -900).all() << 17
        same = [sum(1 << j for j in range(16) if row[j] & 3 == v & 3) for v in row]
        out += [int(word) ^ same[i] << 8 ^ int(row[i ^ 5]) & 0xFFFFFFFF for i in range(16)]
    return [np.array(out, np.uint32)]


@kernel("groups.cu", ints(128))
def tile_shuffles(x):
    wide = tiles((x.astype(np.int64) << 33) | np.arange(128), 4)
    up = wide[:, [0, 0, 1, 2]]
    return [wide[:, 2:3] + 3 * up]


@kernel("groups.cu", ints(256), block=256)
def tile_big(x):
    rows = tiles(x, 128)
    return [np.repeat(rows.sum(1, dtype=I4) + rows[:, 77], 128)]


@kernel("groups.cu", ints(128))
@kernel("groups.cu", ints(128), arch="75")
def reduce_operators(x):
    rows = tiles(x, 32)
    each = [np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor]
    return [np.stack([f.reduce(rows, 1, dtype=I4) for f in each], 1)]


@kernel("groups.cu", floats(128))
def reduce_floats(x):
    rows = tiles(x, 16)
    return [np.repeat(rows.sum(1), 16), np.repeat(rows.max(1), 16)]


@kernel("groups.cu", ints(128))
def reduce_store_async(x):
    return [tiles(x, 32).sum(1, dtype=I4)]


@kernel("groups.cu", ints(128))
def reduce_update_async(x):
    return [x.sum(keepdims=True, dtype=I4)]


@kernel("groups.cu", ints(128))
def tile_scan(x):
    rows = tiles(x, 16)
    most = np.maximum.accumulate(rows, 1)
    before = np.concatenate([np.zeros((8, 1), I4), most[:, :-1]], 1)
    return [np.cumsum(rows, 1, dtype=I4), before]


@kernel("groups.cu", ints(128))
def coalesced_scan(x):
    out = np.zeros((4, 32), I4)
    for row, found in zip(tiles(x, 32), out, strict=True):
        found[row > 0] = np.cumsum(row[row > 0]) * 100 + np.arange((row > 0).sum())
    return [out]


@kernel("groups.cu", ints(128))
def coalesced_reduce(x):
    out = np.zeros((4, 32), I4)
    for row, found in zip(tiles(x, 32), out, strict=True):
        found[row % 3 != 0] = row[row % 3 != 0].sum() + 7 * row[row % 3 != 0][-1]
    return [out]


@kernel("groups.cu", ints(128))
def coalesced_shuffles(x):
    out = np.zeros((4, 32), I4)
    for row, found in zip(tiles(x, 32), out, strict=True):
        v = row[row & 1 == 1]
        found[row & 1 == 1] = np.r_[v[0], v[:-1]] + 2 * np.r_[v[1:], v[-1]] + 5 * (v > 900).any()
    return [out]


@kernel("groups.cu", ints(256), grid=2)
def aggregated_counter(x):
    return [np.array([(x > 0).sum()], I4), np.ones((x > 0).sum(), I4)]


@kernel("groups.cu", ints(128))
def labeled_groups(x):
    out = []
    for row in tiles(x, 32):
        out += [row[row & 3 == v & 3].sum() * 64 + (row & 3 == v & 3).sum() for v in row]
    return [np.array(out, I4)]


@kernel("groups.cu", ints(128))
def binary_groups(x):
    out = []
    for row in tiles(x, 32):
        out += [row[(row > 100) == (v > 100)][0] * 64 + ((row > 100) == (v > 100))[:i].sum() for i, v in enumerate(row)]
    return [np.array(out, I4)]


@kernel("groups.cu", ints(256, 4))
def copy_async_block(x):
    return [x[::-1]]


@kernel("groups.cu", ints(640), 5)
def copy_async_stages(x, n):
    return [tiles(x, 128)[:, np.arange(128) ^ 33]]


@kernel("groups.cu", ints(300, low=-128, high=128, dtype=np.int8), 211)
def copy_async_bytes(x, n):
    return [x[1 : n + 1]]


@kernel("groups.cu", ints(128))
def invoke_once(x):
    return [np.r_[x[:4].sum(), np.repeat(2 * x[:4], 32)].astype(I4)]


@kernel("groups.cu", ints(128))
def block_barrier_tokens(x):
    return [2 * x + x[::-1]]


@kernel("groups.cu", ints(128), np.zeros(128, I4), grid=4, block=32)
def grid_sync(x, part):
    return [x[::-1]]


@kernel("groups.cu", grid=4, block=32)
def grid_ranks():
    return [128000 + np.arange(128) // 32 * 10 + 4]


@kernel("groups.cu", ints(256), grid=4, cluster=2, block=64)
def cluster_histogram(x):
    return [np.bincount(x & 31, minlength=32).astype(I4)]


@kernel("groups.cu", ints(128), grid=4, cluster=4, block=32)
def cluster_ring(x):
    return [np.roll(x, -32) + np.repeat((np.arange(4) + 1) % 4, 32).astype(I4)]


# ------------------------------------------------------------------------------------------------ CuTe


@kernel("cute.cu", ints(32, 16), arch="80")
def copy_partition(x):
    return [x.T]


@kernel("cute.cu", floats(32, 64), arch="80")
def copy_vectors(x):
    return [2 * x]


@kernel("cute.cu", floats(37, 21), 37, 21, grid=(3, 3), arch="80")
def copy_predicated(x, m, n):
    return [x + 1]


@kernel("cute.cu", floats(64, 64, dtype=np.float16), arch="80")
def swizzled_transpose(x):
    return [x.T]


@kernel("cute.cu", floats(32, 64), arch="80")
def async_copy(x):
    return [x.T]


@kernel("cute.cu", ints(400), 400, arch="80")
def async_copy_zfill(x, n):
    return [np.pad(x, (0, 112))[::-1]]


def product(a, b, result):
    return [(a.astype(np.float64) @ b.astype(np.float64).T).astype(result)]


HALF, BF16 = np.float16, ml_dtypes.bfloat16


@kernel("cute.cu", floats(32, 64, dtype=HALF), floats(8, 64, dtype=HALF), block=64, arch="80", names="mma_f16")
@kernel("cute.cu", floats(32, 64, dtype=BF16), floats(8, 64, dtype=BF16), block=64, arch="80", names="mma_bf16")
@kernel(
    "cute.cu",
    floats(32, 32, dtype=HALF),
    floats(8, 32, dtype=HALF),
    block=64,
    arch="80",
    names="mma_f16_k8",
)
@kernel("cute.cu", floats(32, 16), floats(16, 16), arch="80", names="fma_gemm")
@kernel(
    "cute.cu",
    *(floats(64, 32, dtype=HALF),) * 2,
    arch="80",
    names="gemm_ldmatrix_x4 gemm_ldmatrix_x2 gemm_ldmatrix_x1 gemm_loads",
)
@kernel("cute.cu", *(floats(32, 32, dtype=HALF),) * 2, arch="80", names="cooperative_gemms")
@kernel("cute.cu", *(floats(64, 64, dtype=HALF),) * 2, arch="90a", names="wgmma_f16")
def matrix_product(a, b):
    return product(a, b, np.float32)


@kernel("cute.cu", floats(64, 32, dtype=HALF), floats(32, 64, dtype=HALF), arch="80")
def gemm_ldmatrix_trans(a, b):
    return product(a, b.T, np.float32)


@kernel(
    "cute.cu",
    *(ints(32, 32, low=-3, high=3).astype(HALF),) * 1,
    ints(8, 32, low=-3, high=3).astype(HALF),
    block=64,
    arch="80",
)
def mma_f16_sums(a, b):
    return product(a, b, HALF)


@kernel(
    "cute.cu",
    ints(32, 32, low=-9, high=9).astype(np.float32),
    ints(8, 32, low=-9, high=9).astype(np.float32),
    block=64,
    arch="80",
)
def mma_tf32(a, b):
    return product(a, b, np.float32)


@kernel(
    "cute.cu",
    ints(32, 64, low=-9, high=9, dtype=np.int8),
    ints(8, 64, low=-9, high=9, dtype=np.int8),
    block=64,
    arch="80",
)
def mma_s8(a, b):
    return product(a, b, I4)


@kernel(
    "cute.cu",
    floats(32, 8, dtype=np.float64),
    floats(8, 8, dtype=np.float64),
    arch="80",
)
def mma_f64(a, b):
    return product(a, b, np.float64)


@kernel("cute.cu", floats(512), arch="90a")
def bulk_copy(x):
    return [3 * x]


@kernel("cute.cu", floats(64, 16, dtype=HALF), arch="90a")
def stmatrix_rows(x):
    return [x]


# ------------------------------------------------------------------------------------------------ CUTLASS


@kernel(
    "cutlass.cu",
    floats(40, 24),
    floats(24, 50),
    40,
    50,
    24,
    grid=(2, 2),
    block=64,
    arch="80",
    shared=32768,
    names="sgemm_simt",
)
@kernel(
    "cutlass.cu",
    floats(64, 24),
    floats(24, 128),
    64,
    128,
    24,
    grid=(2, 2),
    block=64,
    arch="80",
    shared=32768,
    names="sgemm_simt_async",
)
@kernel(
    "cutlass.cu",
    floats(40, 24),
    floats(24, 70),
    40,
    70,
    24,
    grid=(2, 2),
    block=64,
    arch="80",
    shared=32768,
    names="sgemm_simt_async",
)
def general_product(a, b, m, n, k):
    return product(a, 2 * b.T, np.float32)


@kernel(
    "cutlass.cu",
    floats(128, 96, dtype=HALF),
    floats(64, 96, dtype=HALF),
    128,
    64,
    96,
    grid=(2, 1),
    arch="80",
    shared=65536,
    tolerance=1e-3,
)
@kernel(
    "cutlass.cu",
    floats(72, 96, dtype=HALF),
    floats(40, 96, dtype=HALF),
    72,
    40,
    96,
    grid=(2, 1),
    arch="80",
    shared=65536,
    tolerance=1e-3,
)
def hgemm_tensor_cores(a, b, m, n, k):
    return product(a, 2 * b, np.float32)


# ------------------------------------------------------------------------------------------------ CUB once more, Thrust, WMMA

TILES = np.repeat(np.array([0, 99], np.uint64), [32, 6])
"""The words of a tile state: padding, then tiles that are not processed."""


@kernel("cub_more.cu", ints(384), TILES, grid=6, block=64)
def look_back_scan(x, words):
    return [np.cumsum(x, dtype=I4)]


@kernel("cub_more.cu", ints(320), 277, block=64, allow=("unfenced-init",))
@kernel("cub_more.cu", ints(320), 277, block=64, arch="80")
def block_load_to_shared(x, n):
    return [x[1 : n + 1][::-1]]


@kernel("cub_more.cu", np.random.default_rng(1).permutation(256).astype(I4), block=64)
def block_top_k(x):
    return [np.sort(x)[-16:].sum(keepdims=True, dtype=I4)]


@kernel("cub_more.cu", ints(512), block=64)
def warp_reduce_batched(x):
    return [x.reshape(8, 2, 32).sum(2, dtype=I4).T]


@kernel("cub_more.cu", ints(256, low=0, high=16, dtype=np.uint32), block=64)
def radix_rank_match(x):
    return [np.argsort(np.argsort(x, kind="stable")).astype(I4)]


@kernel("cub_more.cu", floats(64), (np.arange(64) % 7 == 0).astype(I4), block=64)
def segmented_tail(x, heads):
    return [np.concatenate([np.cumsum(part) for part in np.split(x, range(7, 64, 7))])]


@kernel("thrust.cu", np.sort(ints(32, 12, low=-5, high=5), 1), block=32)
def thrust_in_a_thread(x):
    rows = [np.unique(row) for row in x]
    found = [(row < 0).sum() + 100 * row.sum() for row in rows]
    return [
        np.array([np.pad(row, (0, 12 - len(row))) for row in rows], I4),
        np.cumsum(x, 1, dtype=I4),
        np.array(found, I4),
    ]


@kernel("thrust.cu", ints(384), block=32)
def thrust_sort(x):
    return [np.sort(x.reshape(32, 12), 1)]


@kernel("cub_more.cu", *(floats(16, 16, dtype=HALF),) * 2, block=32)
def wmma_product(a, b):
    return product(a, b, np.float32)


def packed(x):
    return (x * 64 + (x & 7) * 8 + np.arange(len(x)) % 8).astype(I4)


@kernel("cub_more.cu", ints(64), block=64)
def padded_reduce(x):
    return [packed(x)[x.argmax()][None]]


@kernel("cub_more.cu", ints(64), block=64)
def padded_shuffle(x):
    return [np.repeat(np.array([3, 35], I4), 32)]


@kernel("cub_more.cu", ints(64), block=64)
def padded_scan(x):
    return [packed(x)[[int(x[: i + 1].argmax()) for i in range(64)]]]


@kernel("cub_more.cu", ints(128), block=64)
def padded_exchange(x):
    return [packed(x)]


@kernel("cub_more.cu", np.random.default_rng(2).permutation(128).astype(np.uint32), ints(128), block=64)
def padded_sort(keys, x):
    return [packed(x)[np.argsort(keys)]]
