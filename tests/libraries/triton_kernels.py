"""Triton's kernels and their rows; compiled ahead of time, with no GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from table import Kernel, floats, ints
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

KERNELS: list[Kernel] = []
FUNCTIONS: dict[str, Any] = {}
I4, HALF, BF16 = np.int32, np.float16, ml_dtypes.bfloat16
TYPES = {
    "float32": "fp32",
    "float64": "fp64",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fn": "fp8e4nv",
}


def typed(argument: Any) -> str:
    """Triton's word for the type of an argument."""
    if not isinstance(argument, np.ndarray):
        return "fp32" if isinstance(argument, float) else "i32"
    name = argument.dtype.name
    return "*" + (TYPES.get(name) or name.replace("uint", "u").replace("int", "i"))


def compiled(kernel: Kernel, arguments: list[Any]) -> tuple[str, dict[str, Any], list[Any]]:
    """PTX of a row, how to launch it, and what the parameters get that Triton adds at the end: memory of the CTAs' own comes first."""
    function, constants = FUNCTIONS[kernel.name], kernel.constants or {}
    words = [name for name in function.arg_names if name not in constants]
    signature = dict(zip(words, map(typed, arguments), strict=True)) | dict.fromkeys(constants, "constexpr")
    attributes = {
        (function.arg_names.index(word),): [["tt.divisibility", 16]]
        for word, each in zip(words, arguments, strict=True)
        if isinstance(each, np.ndarray)
    }
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
    made = triton.compile(source, target=GPUTarget("cuda", int(kernel.arch), 32), options={"num_warps": kernel.warps})
    text = made.asm["ptx"]
    head = text[text.index(".entry") : text.index("{", text.index(".entry"))]
    launch = {"block": 32 * kernel.warps, "dynamic_shared_bytes": made.metadata.shared}
    size = made.metadata.global_scratch_size * int(np.prod(kernel.grid))
    return text, launch, [np.zeros(max(1, size), np.uint8), 0][: head.count(".param") - len(arguments)]


def kernel(
    oracle: Callable[..., list[Any]], *given: Any, archs: tuple[str, ...] = ("80", "90", "100"), **more: Any
) -> Callable[..., Any]:
    """Put a Triton kernel into the table, once for each architecture; what is spelt in capitals is a constexpr."""
    constants = {name: more.pop(name) for name in list(more) if name.isupper()}

    def put(function: Any) -> Any:
        name = function.fn.__name__
        FUNCTIONS[name] = function
        KERNELS.extend(Kernel(name, "triton", oracle, given, arch=arch, constants=constants, **more) for arch in archs)
        return function

    return put


def soft(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@kernel(lambda x, y, n: [x + y], floats(1000), floats(1000) * 3, 1000, grid=4, BLOCK=256)
@triton.jit
def vector_add(x, y, n, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@kernel(lambda x, n: [soft(x)], floats(4, 200), 200, grid=4, BLOCK=256)
@triton.jit
def softmax(x, n, out, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * n, tl.arange(0, BLOCK)
    v = tl.load(x + row + at, at < n, -float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row + at, e / tl.sum(e, 0), at < n)


@kernel(
    lambda x, w, b, n: [((x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b).astype(np.float32)],
    floats(4, 200), floats(200), floats(200) + 1, 200, grid=4, tolerance=1e-4, BLOCK=256,
)  # fmt: skip
@triton.jit
def layer_norm(x, w, b, n, out, BLOCK: tl.constexpr):
    row, at = tl.program_id(0) * n, tl.arange(0, BLOCK)
    v = tl.load(x + row + at, at < n, 0.0)
    d = tl.where(at < n, v - tl.sum(v, 0) / n, 0.0)
    r = d * tl.rsqrt(tl.sum(d * d, 0) / n + 1e-5) * tl.load(w + at, at < n) + tl.load(b + at, at < n)
    tl.store(out + row + at, r, at < n)


@kernel(lambda x: [x.sum(1, dtype=I4), x.max(1), x.min(1), np.bitwise_xor.reduce(x, 1)], ints(16, 64), M=16, N=64)
@triton.jit
def row_reductions(x, total, most, least, parity, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    v = tl.load(x + i[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(total + i, tl.sum(v, 1))
    tl.store(most + i, tl.max(v, 1))
    tl.store(least + i, tl.min(v, 1))
    tl.store(parity + i, tl.xor_sum(v, 1))


@kernel(lambda x: [x.sum(0, dtype=np.float32)], floats(64, 32), M=64, N=32, allow=("same-value",))
@triton.jit
def column_sums(x, out, M: tl.constexpr, N: tl.constexpr):
    j = tl.arange(0, N)
    tl.store(out + j, tl.sum(tl.load(x + tl.arange(0, M)[:, None] * N + j[None, :]), 0))


@kernel(
    lambda x: [x.argmax(1).astype(I4), x.argmin(1).astype(I4), x.max(1)],
    floats(8, 128),
    M=8,
    N=128,
    allow=("same-value",),
)
@triton.jit
def arg_max(x, most, least, value, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)
    v = tl.load(x + i[:, None] * N + tl.arange(0, N)[None, :])
    best, at = tl.max(v, 1, return_indices=True)
    tl.store(most + i, at)
    tl.store(least + i, tl.argmin(v, 1))
    tl.store(value + i, best)


@kernel(
    lambda x: [np.bincount(x, minlength=32).astype(I4)],
    ints(512, low=0, high=32),
    N=512,
    BINS=32,
    allow=("same-value",),
)
@triton.jit
def histogram(x, out, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, N)), BINS))


@kernel(
    lambda x: [np.cumsum(x, dtype=I4), np.maximum.accumulate(x), np.cumsum(x[::-1], dtype=I4)[::-1]],
    ints(512),
    N=512,
    allow=("same-value",),
)
@triton.jit
def scans(x, total, most, back, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(total + at, tl.cumsum(v, 0))
    tl.store(most + at, tl.associative_scan(v, 0, larger))
    tl.store(back + at, tl.cumsum(v, 0, reverse=True))


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def affine(a, b, c, d):
    return a * c, b * c + d


def recurrence(a: Any, b: Any) -> list[Any]:
    h, out = np.float32(0), []
    for x, y in zip(a, b, strict=True):
        h = x * h + y
        out.append(h)
    return [np.array(out, np.float32)]


@kernel(recurrence, floats(128) * 0.5, floats(128) + 1, N=128)
@triton.jit
def linear_recurrence(a, b, out, N: tl.constexpr):
    at = tl.arange(0, N)
    _, h = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, affine)
    tl.store(out + at, h)


@kernel(lambda x: [np.sort(x, 1), np.sort(x, 1)[:, ::-1]], ints(4, 128), M=4, N=128)
@triton.jit
def sorts(x, up, down, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(up + at, tl.sort(tl.load(x + at)))
    tl.store(down + at, tl.sort(tl.load(x + at), descending=True))


@kernel(lambda x: [np.sort(x, 1)[:, ::-1][:, :8]], floats(4, 64), M=4, N=64, K=8, allow=("same-value",))
@triton.jit
def top_k(x, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, M)[:, None]
    v = tl.topk(tl.load(x + i * N + tl.arange(0, N)[None, :]), K)
    tl.store(out + i * K + tl.arange(0, K)[None, :], v)


@kernel(
    lambda x, at: [x[np.arange(16)[:, None], at], x.ravel()[at]],
    floats(16, 32),
    ints(16, 32, low=0, high=32),
    M=16,
    N=32,
)
@triton.jit
def gathers(x, index, inside, outside, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    i = tl.load(index + at)
    tl.store(inside + at, tl.gather(tl.load(x + at), i, 1))
    tl.store(outside + at, tl.load(x + i))


def atomics_oracle(x: Any) -> list[Any]:
    return [
        x.sum(keepdims=True, dtype=I4),
        x.max(keepdims=True),
        x.min(keepdims=True, initial=0),
        np.array([512], np.float32),
        np.ones(8, I4),
    ]


@kernel(atomics_oracle, ints(512), grid=4, N=128)
@triton.jit
def atomics(x, total, most, least, real, once, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + at)
    tl.atomic_add(total + at * 0, v)
    tl.atomic_max(most + at * 0, v)
    tl.atomic_min(least + at * 0, v)
    tl.atomic_add(real + at * 0, 1.0)
    tl.atomic_cas(once + at % 8, at * 0, at * 0 + 1)


@kernel(lambda x, lock: [x.sum(0, dtype=np.float32)], floats(4, 128), np.zeros(1, I4), grid=4, N=128)
@triton.jit
def locked_sum(x, lock, out, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + tl.program_id(0) * N + at)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + at, tl.load(out + at) + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@kernel(lambda x, m, n: [x.T], floats(50, 70, dtype=HALF), 50, 70, grid=(2, 3), B=32)
@triton.jit
def transpose(x, m, n, out, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    mask = (i[:, None] < m) & (j[None, :] < n)
    v = tl.load(x + i[:, None] * n + j[None, :], mask)
    tl.store(out + j[:, None] * m + i[None, :], tl.trans(v), tl.trans(mask))


def multiplied(a: Any, b: Any, k: Any = 0) -> list[Any]:
    return [(a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)]


MATMUL: dict[str, Any] = {"tolerance": 1e-3, "M": 32, "N": 32, "K": 32, "PRECISION": "ieee"}


@triton.jit
def product(a, b, k, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    i, j, p = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for first in range(0, k, K):
        left = tl.load(a + i[:, None] * k + first + p[None, :])
        right = tl.load(b + (first + p)[:, None] * N + j[None, :])
        total = tl.dot(left, right, total, input_precision=PRECISION)
    tl.store(out + i[:, None] * N + j[None, :], total)


def matmul(name: str, *given: Any, **more: Any) -> None:
    """A row of the matrix product."""
    kernel(multiplied, *given, **(MATMUL | more))(product)
    for number in range(len(KERNELS) - len(more.get("archs", "123")), len(KERNELS)):
        KERNELS[number] = attrs.evolve(KERNELS[number], name=name)
    FUNCTIONS[name] = product


@kernel(
    lambda x: [np.stack([x, x + 1], 1).ravel(), x[::-1], np.repeat(x, 2), x.reshape(8, 16).T],
    ints(128),
    N=128,
    allow=("same-value",),
)
@triton.jit
def shapes(x, joined, back, doubled, turned, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(joined + tl.arange(0, 2 * N), tl.interleave(v, v + 1))
    tl.store(back + at, tl.flip(v, 0))
    tl.store(doubled + tl.arange(0, 2 * N), tl.reshape(tl.join(v, v), (2 * N,)))
    tl.store(turned + at, tl.reshape(tl.trans(tl.reshape(v, (8, 16))), (N,)))


@kernel(
    lambda x: [x.astype(ml_dtypes.float8_e5m2), x.astype(HALF), x.astype(BF16), x.astype(I4)], floats(256) * 30, N=256
)
@triton.jit
def casts(x, f8, f16, b16, i32, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(f8 + at, v.to(tl.float8e5))
    tl.store(f16 + at, v.to(tl.float16))
    tl.store(b16 + at, v.to(tl.bfloat16))
    tl.store(i32 + at, v.to(tl.int32))


@kernel(
    lambda x: [x.astype(ml_dtypes.float8_e4m3fn), x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)],
    floats(256) * 3,
    archs=("90",),
    N=256,
)
@triton.jit
def float8(x, narrow, back, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at).to(tl.float8e4nv)
    tl.store(narrow + at, v)
    tl.store(back + at, v.to(tl.float32))


def mathematics_oracle(x: Any) -> list[Any]:
    from math import erf

    return [
        np.exp(x),
        np.log(abs(x)),
        np.sin(x),
        np.cos(x),
        np.sqrt(abs(x)),
        np.array([erf(v) for v in x], np.float32),
        np.floor(x),
        1 / (1 + np.exp(-x)),
    ]


@kernel(mathematics_oracle, floats(256), tolerance=1e-4, N=256)
@triton.jit
def mathematics(x, e, lg, s, c, r, er, fl, si, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(e + at, tl.exp(v))
    tl.store(lg + at, tl.log(tl.abs(v)))
    tl.store(s + at, tl.sin(v))
    tl.store(c + at, tl.cos(v))
    tl.store(r + at, tl.sqrt_rn(tl.abs(v)))
    tl.store(er + at, tl.erf(v))
    tl.store(fl + at, tl.floor(v))
    tl.store(si + at, tl.sigmoid(v))


def integers_oracle(x: Any, y: Any) -> list[Any]:
    q = (np.sign(x) * np.sign(y) * (abs(x) // abs(y))).astype(I4)
    high = (x.astype(np.uint32).astype(np.uint64) * y.astype(np.uint32).astype(np.uint64) >> np.uint64(32)).astype(
        np.uint32
    )
    return [q, x - q * y, high, x >> 3, np.clip(x, -100, 200)]


@kernel(integers_oracle, ints(256), ints(256, low=1, high=50), N=256)
@triton.jit
def integers(x, y, q, r, high, shifted, clamped, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(q + at, a // b)
    tl.store(r + at, a % b)
    tl.store(high + at, tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)))
    tl.store(shifted + at, a >> 3)
    tl.store(clamped + at, tl.minimum(tl.maximum(a, -100), 200))


def philox_oracle(seed: int) -> list[Any]:
    key, out = [seed, 0], []
    for counter in range(64):
        c, k = [counter, 0, 0, 0], list(key)
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        out.append(c[0])
    return [np.array(out, np.uint32)]


@kernel(philox_oracle, 1234, N=64)
@triton.jit
def random_numbers(seed, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.randint(seed, at).to(tl.uint32))


@kernel(lambda x, n: [x.sum(keepdims=True, dtype=np.float32)], floats(1000), 1000, BLOCK=128, tolerance=1e-4)
@triton.jit
def loop_sum(x, n, out, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for first in tl.range(0, n, BLOCK, num_stages=3):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(x + at, at < n, 0.0)
    tl.store(out, tl.sum(total, 0))


@kernel(lambda x: [np.array([bin(int(v) & 0xFFFFFFFF).count("1") for v in x], I4)], ints(256), N=256)
@triton.jit
def inline_assembly(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.inline_asm_elementwise("popc.b32 $0, $1;", "=r,r", [tl.load(x + at)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out + at, v)


def collatz_oracle(x: Any) -> list[Any]:
    def steps(v: int) -> int:
        n = 0
        while v != 1:
            v, n = (v // 2 if v % 2 == 0 else 3 * v + 1), n + 1
        return n

    return [np.array([steps(int(v)) for v in x], I4)]


@kernel(collatz_oracle, np.arange(1, 9, dtype=I4) * 7, grid=8)
@triton.jit
def collatz(x, out):
    v = tl.load(x + tl.program_id(0))
    n = 0
    while v != 1:
        v = tl.where(v % 2 == 0, v // 2, 3 * v + 1)
        n += 1
    tl.store(out + tl.program_id(0), n)


def attention_oracle(q: Any, k: Any, v: Any) -> list[Any]:
    q, k, v = (each.astype(np.float32) for each in (q, k, v))
    return [soft(np.where(np.tri(32, dtype=bool), q @ k.T / 4, -np.inf)) @ v]


@kernel(
    attention_oracle,
    *(floats(32, 16, dtype=HALF), floats(32, 16, dtype=HALF) / 2, floats(32, 16, dtype=HALF)),
    tolerance=5e-3,
    N=32,
    D=16,
    B=16,
    archs=("80",),
    allow=("same-value",),
)
@triton.jit
def attention(q, k, v, out, N: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    i, d = tl.arange(0, N), tl.arange(0, D)
    query = tl.load(q + i[:, None] * D + d[None, :])
    top = tl.full((N,), -1e30, tl.float32)
    total = tl.zeros((N,), tl.float32)
    result = tl.zeros((N, D), tl.float32)
    for first in range(0, N, B):
        j = first + tl.arange(0, B)
        key = tl.load(k + j[None, :] * D + d[:, None])
        score = tl.where(i[:, None] >= j[None, :], tl.dot(query, key) / 4, -1e30)
        new = tl.maximum(top, tl.max(score, 1))
        p = tl.exp(score - new[:, None])
        scale = tl.exp(top - new)
        total = total * scale + tl.sum(p, 1)
        result = result * scale[:, None] + tl.dot(p.to(tl.float16), tl.load(v + j[:, None] * D + d[None, :]))
        top = new
    tl.store(out + i[:, None] * D + d[None, :], result / total[:, None])


@kernel(
    lambda logits, label: [
        np.array(
            [np.log(np.exp(r - r.max()).sum()) + r.max() - r[t] for r, t in zip(logits, label, strict=True)], np.float32
        )
    ],
    floats(4, 100),
    ints(4, low=0, high=100),
    grid=4,
    BLOCK=128,
)
@triton.jit
def cross_entropy(logits, label, out, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(logits + row * 100 + at, at < 100, -float("inf"))
    most = tl.max(v, 0)
    tl.store(out + row, tl.log(tl.sum(tl.exp(v - most), 0)) + most - tl.load(logits + row * 100 + tl.load(label + row)))


matmul("matmul_float32", floats(32, 64), floats(64, 32), 64)
matmul("matmul_float16", floats(32, 64, dtype=HALF), floats(64, 32, dtype=HALF), 64, archs=("80",))
matmul("matmul_bfloat16", floats(32, 64, dtype=BF16), floats(64, 32, dtype=BF16), 64, archs=("80",))
matmul(
    "matmul_wgmma",
    floats(64, 64, dtype=HALF),
    floats(64, 64, dtype=HALF),
    64,
    archs=("90",),
    M=64,
    N=64,
)
matmul(
    "matmul_tcgen05",
    floats(128, 64, dtype=HALF),
    floats(64, 64, dtype=HALF),
    64,
    archs=("100",),
    M=128,
    N=64,
    lacks="with no tcgen05.fence",  # Triton writes none between its tcgen05.st and another thread's tcgen05.mma; the ISA asks for it
)
matmul(
    "matmul_tensor_float32",
    floats(32, 64),
    floats(64, 32),
    64,
    archs=("80",),
    PRECISION="tf32",
    tolerance=2e-2,
)


@kernel(lambda x: [x * 2], floats(64, 64), grid=2, archs=("90",), M=64, N=64, B=32)
@triton.jit
def tensor_descriptors(x, out, M: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[B, N])
    target = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[B, N])
    at = tl.program_id(0) * B
    target.store([at, 0], source.load([at, 0]) * 2)
