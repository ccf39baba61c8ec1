"""Thirty CUDA C++ files as people write them, run as they are from the command line; ten of them also with a planted fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner, Result
from tilecopy_emulator.command import emulate

pytest.importorskip("cuda.bindings.nvrtc")

FOLDER = Path(__file__).parent / "cuda_files"
BF16 = ml_dtypes.bfloat16
DRAW = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


@attrs.frozen
class Launch:
    """A launch of a file's kernel.

    Attributes:
        grid: its CTAs, as the command line has them.
        block: the threads of a CTA.
        arguments: numbers, arrays, and tuples for structures.
        results: what --save is to write, by the names of parameters and variables.
        options: more words of the command line; a tuple is a variable with an array.
        views: what of a result is compared, where an order is left to the kernel or a part is not written.
        rtol: how far results may be from those of NumPy.
        printed: what the kernel prints.
    """

    grid: str
    block: str
    arguments: list[Any]
    results: dict[str, Any]
    options: list[Any] = attrs.field(factory=list)
    views: dict[str, Callable[[np.ndarray], Any]] = attrs.field(factory=dict)
    rtol: float = 1e-5
    printed: str = ""


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def whole(low: int, high: int, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Small integers, whose sums are exact."""
    return DRAW.integers(low, high, shape).astype(dtype)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


# ------------------------------------------------------------------------------------------------ the thirty launches


def saxpy() -> Launch:
    x, y = normal(300), normal(300)
    return Launch("2", "64", [300, 2.0, x, y], {"y": 2 * x + y})


def scale_float4() -> Launch:
    x = normal(251)
    return Launch("2", "32", [x, zeros(251), 3.0, -1.0, 251], {"y": 3 * x - 1})


def reduce() -> Launch:
    x = whole(-1000, 1000, 1000, dtype=np.int32)
    return Launch(
        "4",
        "128",
        [x, zeros(4, dtype=np.int32), 1000],
        {"g_odata": x.sum(), "retirementCount": 0},
        ["--dynamic-shared=512"],
        {"g_odata": lambda y: y[0]},
    )


def dot_product() -> Launch:
    a, b = normal(500).astype(np.float64), normal(500).astype(np.float64)
    return Launch("2", "64", [a, b, zeros(1, dtype=np.float64), 500], {"result": a @ b})


def scan() -> Launch:
    x = whole(-9, 10, 128, dtype=np.int32)
    return Launch(
        "1", "64", [zeros(128, dtype=np.int32), x, 128], {"g_odata": np.cumsum(x) - x}, ["--dynamic-shared=528"]
    )


def compact() -> Launch:
    x = whole(-9, 10, 200, dtype=np.int32)
    kept = np.sort(x[x > 0])
    arguments = [x, zeros(200, dtype=np.int32), zeros(1, dtype=np.int32), 200, ()]
    return Launch(
        "2", "128", arguments, {"dst": kept, "count": len(kept)}, views={"dst": lambda y: np.sort(y[: len(kept)])}
    )


def histogram() -> Launch:
    text = np.frombuffer(b"The quick brown fox jumps over the lazy dog {" * 4, np.int8)
    letters = (text | 0x20) - ord("a")
    counts = np.bincount(letters[(letters >= 0) & (letters < 26)], minlength=26)
    return Launch("2", "96", [text, len(text), zeros(26, dtype=np.uint32)], {"histogram": counts})


def transpose() -> Launch:
    x = normal(45, 70)
    return Launch(
        "3,2", "32,8", [zeros(70, 45), x, 70, 45], {"odata": x.T}, ["--entry", "transposeNoBankConflicts<float>"]
    )


def softmax() -> Launch:
    x = normal(5, 70)
    e = np.exp(x - x.max(1, keepdims=True))
    return Launch("3", "64", [zeros(5, 70), x, 5, 70], {"out": e / e.sum(1, keepdims=True)})


def layer_norm() -> Launch:
    x, gamma, beta = normal(3, 90), normal(90), normal(90)
    mean, std = x.mean(1, keepdims=True), np.sqrt(x.var(1, keepdims=True) + 1e-5)
    results = {"y": (x - mean) / std * gamma + beta, "mean": mean[:, 0]}
    return Launch("3", "64", [x, gamma, beta, zeros(3, 90), zeros(3), 0, 90, 1e-5], results)


def rms_norm() -> Launch:
    x, weight = normal(4, 96).astype(np.float16), normal(96).astype(np.float16)
    rms = np.sqrt((x.astype(np.float32) ** 2).mean(1, keepdims=True))
    return Launch("4", "32", [x, weight, zeros(4, 96, dtype=np.float16), 1e-6, 96], {"y": x / rms * weight}, rtol=3e-3)


def rope() -> Launch:
    x = normal(12, 8, 2)
    angles = np.arange(12)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    turned = (x[..., 0] + 1j * x[..., 1]) * np.exp(1j * angles)
    return Launch("2", "64", [x, zeros(12, 8, 2), 12, 8], {"out": np.stack([turned.real, turned.imag], -1)})


def matmul() -> Launch:
    a, b, c = (whole(-3, 4, *shape, dtype=np.float64) for shape in ((20, 9), (9, 12), (20, 12)))
    return Launch("1,2", "16,16", [(20, 9, a), (9, 12, b), (20, 12, c), 2.0, -1.0], {"C.2": 2 * a @ b - c})


def matmul_tiled() -> Launch:
    m, n = whole(-3, 4, 24, 24), whole(-3, 4, 24, 24)
    return Launch("2,2", "16,16", [m, n, zeros(24, 24), 24], {"P": m @ n})


def matmul_wmma() -> Launch:
    a, b, c = whole(-3, 4, 32, 32), whole(-3, 4, 32, 32), whole(-3, 4, 32, 32)
    half = np.float16
    return Launch(
        "1,1",
        "64,2",
        [a.astype(half), b.astype(half), c, zeros(32, 32), 32, 32, 32, 2.0, 2.0],
        {"d": 2 * a @ b.T + 2 * c},
    )


def matmul_pipeline() -> Launch:
    a, b = whole(-3, 4, 32, 48), whole(-3, 4, 48, 16)
    return Launch("1,2", "64", [a, b, zeros(32, 16), 32, 16, 48], {"C": a @ b})


def heat() -> Launch:
    u = normal(13, 30)
    new = u.copy()
    new[1:-1, 1:-1] += 0.25 * (u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] - 4 * u[1:-1, 1:-1])
    return Launch("2,2", "16,8", [u, zeros(13, 30), 30, 13], {"u_new": new}, ["--set", "d_alpha=0.25"])


def nbody() -> Launch:
    p, v = normal(80, 4), normal(80, 4)
    r = p[None, :, :3].astype(np.float64) - p[:, None, :3]
    pull = p[:, 3] * ((r**2).sum(-1) + 1e-3) ** -1.5
    expected = v.astype(np.float64)
    expected[:, :3] += 0.01 * (r * pull[..., None]).sum(1)
    return Launch("2", "64", [p, v, 0.01, 80], {"v": expected}, rtol=1e-3)


def bfs() -> Launch:
    edges = np.array([[(2 * v + 1) % 50, (7 * v + 3) % 50, (v + 1) % 50] for v in range(50)], np.int32)
    distance = zeros(50, dtype=np.int32) - 1
    frontier = np.array([4, 9, 11, 30], np.int32)
    distance[[0, *frontier]] = [0, 1, 1, 1, 1]
    reached = sorted({int(v) for v in edges[frontier].ravel()} - {0, *frontier.tolist()})
    after = distance.copy()
    after[reached] = 2
    arguments = [
        (50, np.arange(0, 151, 3, dtype=np.int32), edges),
        distance,
        frontier,
        4,
        zeros(50, dtype=np.int32),
        zeros(1, dtype=np.int32),
        1,
    ]
    results = {"distance": after, "next": reached, "next_size": len(reached)}
    return Launch("1", "64", arguments, results, views={"next": lambda y: np.sort(y[: len(reached)])})


def bitonic_sort() -> Launch:
    keys = whole(0, 999, 128, dtype=np.uint32)
    return Launch("1", "64", [keys, np.arange(128, dtype=np.uint32), 1], {"keys": np.sort(keys)})


def spmv() -> Launch:
    dense = whole(-3, 4, 30, 40, dtype=np.float64) * (DRAW.random((30, 40)) < 0.2)
    x = whole(-3, 4, 40, dtype=np.float64)
    starts = np.concatenate([[0], (dense != 0).sum(1).cumsum()]).astype(np.int32)
    arguments = [30, starts, np.nonzero(dense)[1].astype(np.int32), dense[dense != 0], x, zeros(30, dtype=np.float64)]
    return Launch("2", "128", arguments, {"y": dense @ x})


def convolution() -> Launch:
    image = whole(0, 256, 20, 32, dtype=np.uint8)
    around = np.pad(image[:, :25].astype(np.int32), 1, mode="edge")
    sharp = 5 * around[1:-1, 1:-1] - around[:-2, 1:-1] - around[2:, 1:-1] - around[1:-1, :-2] - around[1:-1, 2:]
    expected = np.pad(sharp.clip(0, 255), ((0, 0), (0, 7)))
    kernel = np.array([0, -1, 0, -1, 5, -1, 0, -1, 0], np.float32)
    return Launch(
        "2,2",
        "16,16",
        [zeros(20, 32, dtype=np.uint8), image, 25, 20, 32],
        {"out": expected},
        ["--set", ("c_Filter", kernel)],
    )


def game_of_life() -> Launch:
    life = whole(0, 2, 12, 10, dtype=np.uint8)
    around = sum(np.roll(life, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - life
    return Launch(
        "2", "32", [life, 10, 12, zeros(12, 10, dtype=np.uint8)], {"result": (around == 3) | (life & (around == 2))}
    )


def quantize() -> Launch:
    x = normal(3, 100).astype(BF16)
    scale = np.abs(x.astype(np.float32)).max(1, keepdims=True) / 127
    results = {"out": np.rint(x.astype(np.float32) / scale), "scale": scale[:, 0]}
    return Launch("3", "64", [x, zeros(3, 100, dtype=np.int8), zeros(3), 100], results)


def embedding() -> Launch:
    table, rows, tokens = whole(-3, 4, 9, 20), whole(-3, 4, 8, 20), np.array([7, 3, 7, 7, 0, -1, 3, 8], np.int64)
    expected = table.copy()
    np.add.at(expected, tokens[tokens >= 0], rows[tokens >= 0])
    return Launch(
        "1,2", "32,4", [(table, tokens, rows, 9, 20, 8)], {"p.0": expected}, ["--entry", "embedding_backward"]
    )


def monte_carlo() -> Launch:
    counts = []
    for stream in range(32):
        increment, words = 2 * stream + 1, []
        state = increment + 1234
        for _ in range(17):
            word, turn = (((state >> 18) ^ state) >> 27) & 0xFFFFFFFF, state >> 59
            words.append(((word >> turn) | (word << (-turn % 32))) & 0xFFFFFFFF)
            state = (state * 6364136223846793005 + increment) % 2**64
        points = (np.array(words[1:], np.float32) * np.float32(2**-32)).reshape(8, 2)
        counts.append(int(((points**2).sum(1) < 1).sum()))
    return Launch(
        "1",
        "32",
        [1234, 8, zeros(1, dtype=np.uint64)],
        {"hits": sum(counts)},
        printed=f"first thread: {counts[0]} of 8\n",
    )


def mandelbrot() -> Launch:
    palette = np.array([[0, 7, 100, 255], [32, 107, 203, 255], [237, 255, 255, 255], [255, 170, 0, 255]])
    x, y = np.meshgrid(-0.5 + (np.arange(24) - 12) * 0.125, (np.arange(16) - 8) * 0.125)
    c, z, steps = x + 1j * y, np.zeros((16, 24), complex), np.zeros((16, 24), int)
    for _ in range(64):
        inside = abs(z) <= 2
        z[inside] = z[inside] ** 2 + c[inside]
        steps += inside
    image = np.where((steps == 64)[..., None], [0, 0, 0, 255], palette[steps % 4])
    return Launch("2,1", "16,16", [zeros(16, 24, 4, dtype=np.uint8), 24, 16, (-0.5, 0.0), 0.125], {"image": image})


def top_k() -> Launch:
    logits = normal(2, 120)
    order = np.argsort(-logits, 1)[:, :5]
    arguments = [logits, 120, 5, zeros(2, 5), zeros(2, 5, dtype=np.int32)]
    return Launch("2", "32", arguments, {"values": np.take_along_axis(logits, order, 1), "indices": order})


def hash_table() -> Launch:
    keys = whole(0, 99, 96, dtype=np.uint32)
    pool = zeros(96, 3, dtype=np.int32)
    table = (zeros(4, dtype=np.int32) - 1, pool, zeros(4, dtype=np.int32), 4)
    return Launch(
        "2",
        "32",
        [keys, np.arange(96, dtype=np.int32), 96, table],
        {"table.1": np.stack([keys, np.arange(96)], 1), "table.2": 0},
        views={"table.1": lambda y: y[:, :2]},
    )


def linked_list() -> Launch:
    return Launch("1", "32", [zeros(32, dtype=np.int32), 5], {"results": np.resize([15, -5, 120], 32)})


LAUNCHES = {
    launch.__name__: launch()
    for launch in (
        *(
            saxpy,
            scale_float4,
            reduce,
            dot_product,
            scan,
            compact,
            histogram,
            transpose,
            softmax,
            layer_norm,
            rms_norm,
            rope,
            matmul,
        ),
        *(
            matmul_tiled,
            matmul_wmma,
            matmul_pipeline,
            heat,
            nbody,
            bfs,
            bitonic_sort,
            spmv,
            convolution,
            game_of_life,
            quantize,
        ),
        *(embedding, monte_carlo, mandelbrot, top_k, hash_table, linked_list),
    )
}
FAULTS = {
    "matmul_tiled": ("        __syncthreads(); // the tiles are used up\n", "\n", "race", "Mds[ty][tx] = M["),
    "scan": ("\t\t__syncthreads();\t// up\n", "\n", "race", "temp[bi] += temp[ai]"),
    "reduce": ("         __syncwarp(0xffff);  // written\n", "\n", "race", "sdata[tid + s] : 0"),
    "heat": ("i < width && j < height", "i < width && j <= height", "bounds", "s[y][x] = u[IDX(i, j)]"),
    "histogram": ("if (threadIdx.x < NUM_BINS) local", "if (threadIdx.x < NUM_BINS - 1) local", "poison", "atomicAdd(&local[c - 'a'], 1u)"),
    "matmul_pipeline": ("__pipeline_wait_prior(1)", "__pipeline_wait_prior(2)", "async", "As[t % STAGES][row][k]"),
    "bitonic_sort": ("        __syncthreads();  // of the last", "        if (threadIdx.x < stride) __syncthreads();  // of the last", "barrier", "__syncthreads();  // of the last"),
    "scale_float4": ("4 * (blockIdx.x * blockDim.x + threadIdx.x)", "4 * (blockIdx.x * blockDim.x + threadIdx.x) + 1", "alignment", "CONST_FLOAT4(x[idx])"),
    "embedding": ("    atomicAdd(&p.table[row * p.dim + d], p.rows[token * p.dim + d]);", "    p.table[row * p.dim + d] += p.rows[token * p.dim + d];", "race", "p.table[row * p.dim + d] +="),
    "linked_list": ("    head = top->next;\n    free(top);", "    free(top);\n    head = top->next;", "lifetime", "head = top->next;"),
}  # fmt: skip


def emulated(file: Path, launch: Launch, folder: Path, more: list[str]) -> Result:
    """Run a file from the command line, its arrays from files."""
    count = iter(range(99))

    def word(value: Any) -> str:
        if isinstance(value, tuple):
            return (
                f"{{{','.join(map(str, value))}}}"
                if not any(isinstance(each, np.ndarray) for each in value)
                else f"struct:{','.join(map(word, value))}"
            )
        if not isinstance(value, np.ndarray):
            return str(value)
        path = folder / f"{next(count)}.npy"
        np.save(path, value)
        return str(path)

    words = [f"{each[0]}={word(each[1])}" if isinstance(each, tuple) else each for each in launch.options]
    words += ["--grid", launch.grid, "--block", launch.block, *more, str(file), *map(word, launch.arguments)]
    return CliRunner().invoke(emulate, words)


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_file_runs_as_it_is(name: str, tmp_path: Path) -> None:
    launch = LAUNCHES[name]
    saves = [f"--save={result}={tmp_path / result}.npy" for result in launch.results]
    done = emulated(FOLDER / f"{name}.cu", launch, tmp_path, saves)
    assert done.exit_code == 0, done.exception
    assert launch.printed in done.output
    for result, expected in launch.results.items():
        y = np.load(tmp_path / f"{result}.npy")
        y = launch.views.get(result, lambda y: y)(y)
        np.testing.assert_allclose(
            y.astype(float), np.broadcast_to(np.asarray(expected, float), y.shape), rtol=launch.rtol, atol=1e-5
        )


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_told_at_its_line(name: str, tmp_path: Path) -> None:
    before, after, kind, line = FAULTS[name]
    source = (FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    assert source.count(before) == 1
    file = tmp_path / f"{name}.cu"
    file.write_text(source.replace(before, after))
    done = emulated(file, LAUNCHES[name], tmp_path, [])
    assert done.exit_code == 1, done.output
    error = done.exception
    lines = file.read_text().split("\n")
    told = {
        lines[place["line"] - 1]
        for access in error.details["accesses"]
        for place in access["source"]
        if place["file"] == str(file)
    }
    assert error.kind == kind and any(line in each for each in told), str(error)


def test_a_file_in_latin_1_with_the_header_of_integer_formats_runs(tmp_path: Path) -> None:
    source = tmp_path / "older.cu"
    text = "#include <cinttypes>\n// G\u00f6del\n__global__ void twice(std::uint32_t* x) { x[threadIdx.x] *= 2; }\n"
    source.write_bytes(text.encode("latin-1"))
    result = CliRunner().invoke(
        emulate, [str(source), "ones:uint32:32", "--block", "32", "--save", f"0={tmp_path}/x.npy"]
    )
    assert result.exit_code == 0, result.output
    assert np.load(tmp_path / "x.npy").tolist() == [2] * 32
