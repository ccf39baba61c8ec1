"""Copies drawn at random, each exported to a CUDA C++ kernel of its own, with what NumPy says that it writes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random
from typing import Any

import attrs
import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout, laneid

from tilecopy_test_helpers import byte_arrays

DTYPES = ["uint8", "int16", "float16", "bfloat16", "int32", "float32", "int64", "float64", "complex64"]
FORMS = ["shared", "shared", "edge", "fragment", "fragment", "fragment edge", "cluster"]


@attrs.frozen(eq=False)
class Case:
    """One drawn copy.

    Attributes:
        name: of the kernel; it takes ``A``, ``B`` and the numbers.
        functions: texts of the exported copies.
        kernel: CUDA C++ of the kernel.
        a: what is copied.
        b: what the destination holds before.
        expected: what it holds after.
        numbers: the int32 arguments.
        variants: that the copies were lowered by.
    """

    name: str
    functions: tuple[str, ...]
    kernel: str
    a: Any
    b: Any
    expected: Any
    numbers: tuple[int, ...]
    grid: tuple[int, ...]
    block: int
    cluster: int | None
    variants: tuple[str, ...]


def _bytes(shape: tuple[int, ...], dtype: str, random: Random) -> Any:
    """Random bytes as integers as wide as the elements."""
    size = tc.dtype_of(dtype).bits // 8
    return byte_arrays.random_array(shape, f"u{size}", random.randrange(2**31))


def _raw_fill(value: Any, dtype: str) -> int:
    """The bits of a fill."""
    size = tc.dtype_of(dtype).bits // 8
    return int(np.array([value]).astype(tc.dtype_of(dtype).numpy()).view(f"u{size}")[0])


def _kernel(name: str, numbers: list[str], body: str, *, threads: int, cluster: int | None = None) -> str:
    clusters = f"__cluster_dims__({cluster}, 1, 1) " if cluster else ""
    parameters = "".join(f", int {number}" for number in numbers)
    return (
        f'extern "C" __global__ void {clusters}__launch_bounds__({threads}) {name}(const char* A, char* B{parameters})\n'
        f"{{\n{body}\n}}\n"
    )


def _done(plan: tc.Plan) -> str:
    return "tilecopy::cp_async_commit(); tilecopy::cp_async_wait<0>();" if plan.request.op == "copy_async" else ""


def _layout(shape: tuple[int, ...], random: Random, bits: int) -> TileLayout:
    """Strides in some order, with gaps, and a swizzle now and then."""
    order = random.choice([list(range(len(shape)))] * 3 + [random.sample(range(len(shape)), len(shape))])
    strides, step = [0] * len(shape), random.choice([1, 1, 1, 2])
    for dim in reversed(order):
        strides[dim] = step
        step = step * shape[dim] + random.choice([0, 0, 0, 1, 4, 8])
    layout = TileLayout(S[shape : tuple(strides)])
    swizzle = random.choice([None, None, (3, 3, 3), (0, 2, 3), (2, 2, 2)])
    return layout if swizzle is None else tc.SwizzledLayout(tc.Swizzle(*swizzle), layout)


def shared(name: str, random: Random) -> Case:
    """Boxes of each unit of a scope through shared memory; starts by symbols."""
    dtype = random.choice(DTYPES)
    size = tc.dtype_of(dtype).bits // 8
    scope, threads = random.choice(
        [(tc.cta(n), n) for n in (1, 32, 48, 64, 128)] + [(tc.warp(), 64), (tc.warpgroup(), 256), (tc.thread(), 3)]
    )
    units = {"cta": 1, "warp": threads // 32, "warpgroup": threads // 128, "thread": threads}[scope.kind]
    rows, columns = random.choice([1, 2, 3, 4, 8]), random.choice([1, 2, 4, 8, 16, 24])
    if random.random() < 0.8:
        columns *= max(1, scope.threads // random.choice([1, rows]) // 2) or 1
        rows *= 2 if rows * columns % scope.threads else 1
    if rows * columns % scope.threads and random.random() < 0.7:
        rows *= scope.threads
    while rows * columns * units * size > 24000:
        rows, columns = max(1, rows // 2), max(1, columns // 2)
    grid, step = random.choice([1, 2, 3]), random.choice([1, 2, 4, 8])
    bx = tc.symbol("bx", upper=grid - 1) if grid > 1 else 0
    u = tc.symbol("u", upper=units - 1) if units > 1 else 0
    n = random.randrange(3)
    shift = tc.symbol("n", upper=2) * step
    shape = (grid * rows + 2 * step, columns + 8)
    a = tc.Buffer((units, *shape), dtype, space="global", name="A")
    b = tc.Buffer((units, *shape), dtype, space="global", name="B")
    tile = tc.Buffer(
        (units, rows, columns),
        dtype,
        space="shared",
        name="tile",
        layout=_layout((units, rows, columns), random, size * 8),
    )
    left, right = random.choice([0, 4, 8]), random.choice([0, 1, 8])
    op = random.choice(["copy", "copy", "copy_async"])
    here = tile[u, :, :]
    rows_in, rows_out = bx * rows + shift, bx * rows + random.choice([0, shift])
    source = a[u, rows_in : rows_in + rows, left : left + columns]
    target = b[u, rows_out : rows_out + rows, right : right + columns]
    try:
        load = tc.plan(here, source, op=op, scope=scope, target="sm_90")
    except tc.NoVariantError:
        load = tc.plan(here, source, scope=scope, target="sm_90")
    store = tc.plan(target, here, scope=scope, target="sm_90")
    unit = {"cta": "0", "warp": "threadIdx.x / 32", "warpgroup": "threadIdx.x / 128", "thread": "threadIdx.x"}[
        scope.kind
    ]
    places = {"bx": "blockIdx.x", "u": unit, "n": "n"}
    body = f"""    __shared__ __align__(1024) char tile[{tile.span_bytes}];
    uint32_t s = tilecopy::shared_address(tile);
    {_call(load, f"{name}_in", ["s", "A"], places)}
    {_done(load)}
    __syncthreads();
    {_call(store, f"{name}_out", ["B", "s"], places)}"""
    memory, before = _bytes((units, *shape), dtype, random), _bytes((units, *shape), dtype, random)
    expected = before.copy()
    for block in range(grid):
        first = block * rows + n * step
        to = first if not isinstance(rows_out, int) and "n" in str(rows_out) else block * rows
        expected[:, to : to + rows, right : right + columns] = memory[:, first : first + rows, left : left + columns]
    kernel = _kernel(name, ["n"], body, threads=threads)
    functions = (load.cuda(f"{name}_in"), store.cuda(f"{name}_out"))
    return Case(
        name, functions, kernel, memory, before, expected, (n,), (grid,), threads, None, (load.variant, store.variant)
    )


def _call(plan: tc.Plan, function: str, operands: list[str], places: dict[str, str]) -> str:
    """The call of an exported copy, its integers by name."""
    from tilecopy_export import ScalarArgument, function_of

    arguments = [
        a for a in function_of(plan, function).arguments if isinstance(a, ScalarArgument) and a.symbol is not None
    ]
    return f"{function}({', '.join([*operands, *(places[a.name] for a in arguments)])});"


FILLS = {
    "uint8": 7,
    "int16": -3,
    "float16": 1.5,
    "bfloat16": -2,
    "int32": -1,
    "float32": 0.25,
    "int64": 9,
    "float64": -1.5,
    "complex64": 2,
}


def edge(name: str, random: Random) -> Case:
    """Tiles with a halo of an array whose sizes are arguments: what lies outside is filled or left."""
    dtype = random.choice(DTYPES)
    size = tc.dtype_of(dtype).bits // 8
    threads = random.choice([32, 64, 96])
    tile_rows, tile_columns, halo = random.choice([4, 8]), random.choice([8, 16, 32]), random.choice([0, 0, 1, 2])
    by = random.choice([1, 1, 8])
    m, n = random.randrange(1, 20), by * random.randrange(1, 40 // by)
    grid = (-(-n // tile_columns), -(-m // tile_rows))
    outside = random.choice(["zero", "zero", FILLS[dtype], "keep"])
    op = random.choice(["copy", "copy_async"])
    extents = (tile_rows + 2 * halo, tile_columns + 2 * halo)
    big_m, big_n = (
        tc.symbol("M", lower=1, upper=10**6),
        tc.symbol("N", lower=by, upper=10**6 // by * by, multiple_of=by),
    )
    x, y = tc.symbol("bx", upper=10**5), tc.symbol("by", upper=10**5)
    a = tc.Buffer((big_m, big_n), dtype, space="global", name="A", align_bytes=min(16, size * by * 16))
    tile = tc.Buffer(extents, dtype, space="shared", name="tile")
    c = tc.Buffer((64, 64, *extents), dtype, space="global", name="B")
    box = a[
        y * tile_rows - halo : y * tile_rows + tile_rows + halo,
        x * tile_columns - halo : x * tile_columns + tile_columns + halo,
    ]
    load = tc.plan(tile[:, :], box, op=op, scope=tc.cta(threads), target="sm_90", outside=outside)
    into = c[y, x, :, :]
    prefill = tc.plan(tile[:, :], into, scope=tc.cta(threads), target="sm_90")
    store = tc.plan(into, tile[:, :], scope=tc.cta(threads), target="sm_90")
    places = {"bx": "blockIdx.x", "by": "blockIdx.y", "M": "m", "N": "n"}
    body = f"""    __shared__ __align__(128) char tile[{tile.span_bytes}];
    uint32_t s = tilecopy::shared_address(tile);
    {_call(prefill, f"{name}_fill", ["s", "B"], places)}
    __syncthreads();
    {_call(load, f"{name}_in", ["s", "A"], places)}
    {_done(load)}
    __syncthreads();
    {_call(store, f"{name}_out", ["B", "s"], places)}"""
    memory, before = _bytes((m, n), dtype, random), _bytes((64, 64, *extents), dtype, random)
    expected = before.copy()
    fill = 0 if outside == "zero" else outside
    for j in range(grid[1]):
        for i in range(grid[0]):
            for r in range(extents[0]):
                for q in range(extents[1]):
                    row, column = j * tile_rows - halo + r, i * tile_columns - halo + q
                    if 0 <= row < m and 0 <= column < n:
                        expected[j, i, r, q] = memory[row, column]
                    elif outside != "keep":
                        expected[j, i, r, q] = _raw_fill(fill, dtype)
    functions = (prefill.cuda(f"{name}_fill"), load.cuda(f"{name}_in"), store.cuda(f"{name}_out"))
    kernel = _kernel(name, ["m", "n"], body, threads=threads)
    return Case(
        name, functions, kernel, memory, before, expected, (m, n), grid, threads, None, (load.variant, store.variant)
    )


def _fragment_layout(random: Random) -> tuple[tc.Scope, int, tuple[int, int], TileLayout]:
    """Scope, threads, shape and layout of a fragment."""
    k = random.choice([1, 2, 4, 6, 8])
    kind = random.randrange(5)
    if kind == 0:  # a row a lane
        return tc.warp(), 32, (32, k), TileLayout(S[(32, k) : (1 @ laneid, 1)])
    if kind == 1:  # vectors of neighbouring threads
        return tc.cta(64), 64, (k, 512), TileLayout(S[(k, 64, 8) : (8, 1 @ tc.tx, 1)])
    if kind == 2:  # an accumulator of mma.m16n8: rows over lanes / 4, pairs of columns over lanes % 4
        return tc.warp(), 32, (16, 8), TileLayout(S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)])
    if kind == 3:  # half of the lanes own something
        return tc.warp(), 32, (16, k), TileLayout(S[(16, k) : (2 @ laneid, 1)])
    return tc.cta(128), 128, (128, k), TileLayout(S[(128, k) : (1 @ tc.tx, 1)])


def fragment(name: str, random: Random, *, edges: bool = False) -> Case:
    """Into registers from global or shared memory, and out again."""
    dtype = random.choice(DTYPES)
    while True:
        scope, threads, shape, layout = _fragment_layout(random)
        whole = prod(shape) * 2 > scope.threads * 2 and layout.span(tc.m) * tc.dtype_of(dtype).bits >= 32
        distinct = "2@laneid" not in str(layout).replace(" ", "")
        if whole and (distinct or scope.kind == "warp"):
            break
    grid = random.choice([1, 2])
    rows, columns = shape
    m, n = grid * rows, columns + random.choice([0, 0, 8])
    if edges:
        m, n = m - random.randrange(min(m, 5)), n - random.randrange(min(n, 5))
    outside = random.choice(["zero", FILLS[dtype], "keep"]) if edges else None
    bx = tc.symbol("bx", upper=10**5 if edges else grid - 1)
    a = tc.Buffer((m, n), dtype, space="global", name="A", align_bytes=16)
    b = tc.Buffer((m, n), dtype, space="global", name="B", align_bytes=16)
    out = tc.Buffer((grid * rows, columns), dtype, space="global", name="C", align_bytes=16)
    frag = tc.Buffer(shape, dtype, space="local", layout=layout, name="fragment")
    box = slice(bx * rows, bx * rows + rows), slice(0, columns)
    load = tc.plan(frag[:, :], a[box], scope=scope, target="sm_90", outside=outside)
    words = -(-frag.memory.span_bytes // 4) if tc.dtype_of(dtype).bits < 64 else frag.memory.span_bytes // 4
    places = {"bx": "blockIdx.x"}
    body = f"    uint32_t fragment[{words}];\n    for (int i = 0; i < {words}; ++i) fragment[i] = 0x01010101u;\n    "
    body += _call(load, f"{name}_in", ["fragment", "A"], places) + "\n    "
    plans = [(load, f"{name}_in")]
    through = not edges and random.random() < 0.4
    store_to: Any = b[box]
    if through:
        tile = tc.Buffer(shape, dtype, space="shared", name="tile")
        put = tc.plan(tile[:, :], frag[:, :], scope=scope, target="sm_90")
        plans.append((put, f"{name}_put"))
        store = tc.plan(store_to, tile[:, :], scope=scope, target="sm_90")
        body = (
            f"    __shared__ __align__(128) char tile[{tile.span_bytes}];\n    uint32_t s = tilecopy::shared_address(tile);\n"
            + body
        )
        body += f"{_call(put, f'{name}_put', ['s', 'fragment'], places)}\n    __syncthreads();\n    "
        body += _call(store, f"{name}_out", ["B", "s"], places)
    else:
        if edges and outside != "keep":  # everything that the fragment holds, fills too
            store_to = out[box]
        store = tc.plan(store_to, frag[:, :], scope=scope, target="sm_90", outside="keep" if edges else None)
        body += _call(store, f"{name}_out", ["B", "fragment"], places)
    plans.append((store, f"{name}_out"))
    memory = _bytes((m, n), dtype, random)
    before = _bytes((grid * rows, columns) if store_to.buffer is out else (m, n), dtype, random)
    expected = before.copy()
    if store_to.buffer is out:
        padded = np.full((grid * rows, columns), _raw_fill(0 if outside == "zero" else outside, dtype), memory.dtype)
        padded[:m, : min(n, columns)] = memory[:, :columns]
        expected[:] = padded
    else:
        expected[:, :columns] = memory[:, :columns]
    functions = tuple(plan.cuda(function) for plan, function in plans)
    kernel = _kernel(name, [], body, threads=threads)
    variants = tuple(plan.variant for plan, _ in plans)
    return Case(name, functions, kernel, memory, before, expected, (), (grid,), threads, None, variants)


def cluster(name: str, random: Random) -> Case:
    """Each CTA of a cluster sends its tile to the next one."""
    dtype = random.choice(DTYPES)
    size = tc.dtype_of(dtype).bits // 8
    count, threads = random.choice([2, 4]), 32
    rows, columns = random.choice([4, 8, 32]), random.choice([16, 32])
    pad = random.choice([0, 16]) // size
    here = tc.Buffer(
        (rows, columns), dtype, space="shared", name="here", layout=TileLayout(S[(rows, columns) : (columns + pad, 1)])
    )
    there = tc.Buffer((rows, columns), dtype, space="shared", name="there")
    bars = tc.Buffer((1,), "uint64", space="shared", name="bar", align_bytes=8)
    a = tc.Buffer((count * rows, columns), dtype, space="global", name="A")
    b = tc.Buffer((count * rows, columns), dtype, space="global", name="B")
    rank, peer = tc.symbol("rank", upper=15), tc.symbol("peer", upper=15)
    box = slice(rank * rows, rank * rows + rows)
    load = tc.plan(here[:, :], a[box, :], scope=tc.cta(threads), target="sm_90")
    send = tc.plan(
        there[:, :], here[:, :], op="copy_async", scope=tc.thread(), target="sm_90", mbar=bars[0], remote_cta_id=peer
    )
    store = tc.plan(b[box, :], there[:, :], scope=tc.cta(threads), target="sm_90")
    places = {"rank": "rank", "peer": f"(rank + 1) % {count}"}
    body = f"""    __shared__ __align__(128) char here[{here.span_bytes}];
    __shared__ __align__(128) char there[{there.span_bytes}];
    __shared__ uint64_t bar;
    uint32_t h = tilecopy::shared_address(here), t = tilecopy::shared_address(there), bars = tilecopy::shared_address(&bar);
    uint32_t rank = blockIdx.x;
    if (threadIdx.x == 0) {{ tilecopy::mbarrier_init(bars, 1); tilecopy::fence_mbarrier_init(); }}
    {_call(load, f"{name}_in", ["h", "A"], places)}
    tilecopy::fence_proxy_async();
    tilecopy::cluster_sync();
    if (threadIdx.x == 0) {{
        tilecopy::mbarrier_arrive_expect_tx(bars, {rows * columns * size});
        {_call(send, f"{name}_send", ["t", "h"], places)[:-2]}, bars);
    }}
    while (!tilecopy::mbarrier_try_wait(bars, 0)) {{}}
    {_call(store, f"{name}_out", ["B", "t"], places)}
    tilecopy::cluster_sync();"""
    memory, before = (_bytes((count * rows, columns), dtype, random) for _ in range(2))
    expected = np.roll(memory.reshape(count, rows, columns), 1, axis=0).reshape(memory.shape)
    functions = (load.cuda(f"{name}_in"), send.cuda(f"{name}_send"), store.cuda(f"{name}_out"))
    kernel = _kernel(name, [], body, threads=threads, cluster=count)
    variants = (load.variant, send.variant, store.variant)
    return Case(name, functions, kernel, memory, before, expected, (), (count,), threads, count, variants)


MAKERS: dict[str, Callable[[str, Random], Case]] = {
    "shared": shared,
    "edge": edge,
    "fragment": fragment,
    "fragment edge": lambda name, random: fragment(name, random, edges=True),
    "cluster": cluster,
}


def drawn(count: int, seed: int = 0) -> list[Case]:
    """The cases of a seed, the same at every run."""
    found: list[Case] = []
    attempt = 0
    while len(found) < count:
        random = Random(f"{seed} {attempt}")
        form = FORMS[attempt % len(FORMS)]
        attempt += 1
        try:
            found.append(MAKERS[form](f"{form.replace(' ', '_')}_{len(found)}", random))
        except tc.NoVariantError:
            if attempt > 4 * count + 50:
                raise
    return found


def source_of(cases: list[Case]) -> str:
    """One module of CUDA C++ with all kernels."""
    return tc.cuda_header([text for case in cases for text in case.functions]) + "\n".join(
        case.kernel for case in cases
    )
