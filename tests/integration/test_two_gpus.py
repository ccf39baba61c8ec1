"""The CUDA executor and relayouts on two real GPUs; every test here skips, with the reason, where there are none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy.executors import get_executor
from tilecopy_cuda.device_array import DeviceArray
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip


@pytest.fixture
def torch(gpu: str) -> Iterator[Any]:
    """torch, with the first GPU current before and after."""
    module = pytest.importorskip("torch")
    count = module.cuda.device_count()
    if count < 2:
        pytest.skip(f"two GPUs are needed, torch finds {count}")
    module.cuda.set_device(0)
    yield module
    module.cuda.set_device(0)


def peers(torch: Any) -> None:
    if not (torch.cuda.can_device_access_peer(0, 1) and torch.cuda.can_device_access_peer(1, 0)):
        pytest.skip("these two GPUs have no peer access to one another")


def in_threads(*works: Callable[[], None]) -> None:
    """All at once, in threads that begin without a context; the first error is raised."""
    failed: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]


def everything(torch: Any, kernel: tc.BuiltKernel, gpu: int, folder: Path, *, runs: int = 3) -> None:
    """Every kind of launch with everything on one GPU; what is current does not change."""
    relayout = pytest.importorskip("tilecopy_relayout").relayout
    kernel.save(folder)
    saved, before = tc.load_kernel(folder), torch.cuda.current_device()
    for run in range(runs):
        a = torch.randn(256, 64, device=f"cuda:{gpu}")
        b, c, d, e = (torch.zeros_like(a) for _ in range(4))
        kernel(a, b)
        kernel.prepare(a, c)()
        kernel.launch_by_address(a, d)((a.data_ptr(), d.data_ptr()))
        saved(a, e)
        turned, room = relayout(a, (1, 0)), torch.zeros(64, 256, device=a.device)
        side = torch.cuda.Stream(gpu)
        side.wait_stream(torch.cuda.current_stream(gpu))
        relayout(a, "a (b c) -> c b a", c=64, out=room.view(64, 1, 256), stream=side)
        torch.cuda.synchronize(gpu)
        for name, made in (("call", b), ("prepared", c), ("launcher", d), ("saved", e)):
            assert made.equal(a), f"{name}, run {run} on GPU {gpu}"
        assert turned.device == a.device and turned.equal(a.t()) and room.equal(a.t())
        x = byte_arrays.random_array((256, 64), np.float32, seed=run)
        y = np.zeros_like(x)
        kernel(x, y, device=gpu)
        assert byte_arrays.same_bytes(x, y)
    assert torch.cuda.current_device() == before


@pytest.mark.parametrize("current", [0, 1, None])
def test_everything_on_the_second_gpu(torch: Any, gpu: str, current: int | None, tmp_path: Path) -> None:
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    if current is None:
        in_threads(lambda: everything(torch, kernel, 1, tmp_path))
        return
    torch.cuda.set_device(current)
    everything(torch, kernel, 1, tmp_path)


_UNTOUCHED = """
import sys, tempfile, pathlib, torch, tilecopy as tc, numpy as np
from cuda.bindings import driver
torch.cuda.set_device(1)
from test_two_gpus import captured, everything
from tilecopy_relayout import relayout
from tilecopy_test_helpers.programs import round_trip
def contexts(after):
    found = [int(driver.cuDevicePrimaryCtxGetState(driver.cuDeviceGet(number)[1])[2]) for number in (0, 1)]
    print("contexts after", after, found)
torch.zeros(1, device="cuda")
contexts("torch")
kernel = round_trip((256, 64), (128, 64), "float32", target="GPU")
everything(torch, kernel, 1, pathlib.Path(tempfile.mkdtemp()))
contexts("everything")
x = np.random.default_rng(0).random((256, 64), np.float32)  # through the current one
y = np.zeros_like(x)
kernel(x, y, executor="cuda")
assert (y == x).all() and (relayout(x, (1, 0), executor="cuda") == x.T).all()
contexts("host arrays")
captured(torch, kernel, 1)
contexts("a graph")
"""


def test_the_first_gpu_stays_untouched(torch: Any, gpu: str) -> None:
    """In a process of its own: nothing makes a context on the first GPU."""
    script = [sys.executable, "-c", _UNTOUCHED.replace("GPU", gpu)]
    done = subprocess.run(script, capture_output=True, text=True, cwd=Path(__file__).parent, check=False, timeout=600)
    expected = [f"contexts after {what} [0, 1]" for what in ("torch", "everything", "host arrays", "a graph")]
    assert done.stdout.splitlines() == expected, done.stdout + done.stderr


def captured(torch: Any, kernel: tc.BuiltKernel, gpu: int) -> None:
    """Launches and a relayout on a GPU, captured and replayed; the kernel is loaded in the capture too."""
    relayout = pytest.importorskip("tilecopy_relayout").relayout
    with torch.cuda.device(gpu):
        a, b, c = (torch.zeros(256, 64, device="cuda") for _ in range(3))
        turned, graph = torch.zeros(64, 256, device="cuda"), torch.cuda.CUDAGraph()
        prepared = kernel.prepare(b, c)
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):  # torch's own is of the first GPU that captured
            a += 1
            kernel(a, b)
            prepared()
            relayout(c, (1, 0), out=turned)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        assert bool((turned == 3).all()) and bool((c == 3).all())


def test_a_graph_on_the_second_gpu(torch: Any, gpu: str) -> None:
    captured(torch, round_trip((256, 64), (128, 64), "float32", target=gpu, threads=96), 1)
    in_threads(lambda: captured(torch, round_trip((256, 64), (128, 64), "float32", target=gpu, threads=160), 1))


def test_threads_use_different_gpus_at_once(torch: Any, gpu: str, tmp_path: Path) -> None:
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    folders = [tmp_path / f"{number}" for number in range(4)]
    for folder in folders:
        folder.mkdir()
    in_threads(
        *(
            lambda number=number: everything(torch, kernel, number % 2, folders[number], runs=20)  # type: ignore[misc]
            for number in range(4)
        )
    )


def test_cupy_and_device_arrays_on_the_second_gpu(torch: Any, gpu: str) -> None:
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    source = np.random.default_rng(0).random((256, 64), np.float32)
    result = np.zeros_like(source)
    with DeviceArray((256, 64), "float32", device=1) as a, DeviceArray((256, 64), "float32", device=1) as b:
        a.copy_from(source)
        kernel(a, b)
        b.copy_to(result)
    assert np.array_equal(source, result)
    cupy = pytest.importorskip("cupy")
    peers(torch)
    with cupy.cuda.Device(1):
        c, d = cupy.asarray(source), cupy.zeros((256, 64), cupy.float32)
    for _ in range(2):
        kernel(c, d)
        with cupy.cuda.Device(1), cupy.cuda.Stream() as side:
            kernel(c, d)
            side.synchronize()
    assert np.array_equal(d.get(), source)
    relayout = pytest.importorskip("tilecopy_relayout").relayout
    with cupy.cuda.Device(0):
        near = cupy.asarray(source)
        for _ in range(2):
            made = relayout(c, (1, 0))
            assert made.device.id == 1 and np.array_equal(made.get(), source.T)
            back = cupy.zeros((64, 256), cupy.float32)
            relayout(c, (1, 0), out=back)
            assert np.array_equal(back.get(), source.T)
            relayout(near, (1, 0), out=made)
            with cupy.cuda.Device(1):
                assert bool((made == c.T).all())


def test_whose_memory_an_address_is(torch: Any) -> None:
    """Held against torch and the CUDA runtime."""
    cuda: Any = get_executor("cuda")
    runtime = pytest.importorskip("cuda.bindings.runtime")
    for gpu in range(torch.cuda.device_count()):
        pointer = torch.zeros(5, device=f"cuda:{gpu}").data_ptr()
        code, attributes = runtime.cudaPointerGetAttributes(pointer)
        assert cuda.driver.device_of(pointer) == gpu and (int(code) or attributes.device == gpu)


# ------------------------------------------------------------------------------------------ arguments on two GPUs


def test_a_kernel_with_arrays_on_two_gpus(torch: Any, gpu: str) -> None:
    peers(torch)
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    for current in (0, 1):
        torch.cuda.set_device(current)
        for here, there in ((0, 1), (1, 0)):
            a = torch.randn(256, 64, device=f"cuda:{here}")
            torch.cuda.synchronize(here)
            side = torch.cuda.Stream(here)
            for options, launching in (
                ({}, there),  # which has the array that is written
                ({"device": here}, here),
                ({"stream": side}, here),
            ):
                b, c = (torch.zeros(256, 64, device=f"cuda:{there}") for _ in range(2))
                torch.cuda.synchronize(there)
                kernel(a, b, **options)
                kernel.prepare(a, c, **options)()
                torch.cuda.synchronize(launching)
                assert b.equal(a.to(b.device)) and c.equal(b), (current, here, there, options)
    with pytest.raises(tc.LaunchError, match=mentions("stream")):
        kernel(a, b, device=1, stream=torch.cuda.Stream(0))


CASES = {
    "transpose f32": ((1000, 1536), (1, 0), "float32"),
    "transpose f16": ((1536, 1000), (1, 0), "float16"),
    "021 f16": ((64, 96, 160), (0, 2, 1), "float16"),
    "102 f16": ((64, 96, 160), (1, 0, 2), "float16"),
    "NCHW to NHWC f16": ((4, 32, 60, 62), (0, 2, 3, 1), "float16"),
}


def random_tensor(torch: Any, shape: tuple[int, ...], dtype: str, gpu: int) -> Any:
    """Random bytes."""
    kind = getattr(torch, dtype)
    count = int(np.prod(shape)) * kind.itemsize
    return torch.randint(0, 256, (count,), dtype=torch.uint8, device=f"cuda:{gpu}").view(kind).view(shape)


def same(torch: Any, one: Any, other: Any) -> bool:
    return bool((one.cpu().contiguous().view(torch.uint8) == other.cpu().contiguous().view(torch.uint8)).all())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("current", [0, 1])
def test_a_relayout_into_another_gpu(torch: Any, name: str, current: int) -> None:
    relayout = pytest.importorskip("tilecopy_relayout").relayout
    peers(torch)
    torch.cuda.set_device(current)
    shape, axes, dtype = CASES[name]
    result = tuple(shape[axis] for axis in axes)
    xs = [random_tensor(torch, shape, dtype, gpu) for gpu in (0, 1)]
    for _ in range(2):  # checked, then remembered; both directions at once
        ys = [random_tensor(torch, result, dtype, 1 - gpu) for gpu in (0, 1)]
        for x, y in zip(xs, ys, strict=True):
            assert relayout(x, axes, out=y) is y
        for x, y in zip(xs, ys, strict=True):
            assert same(torch, y, x.permute(axes))
    pulled = torch.zeros_like(ys[0])
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    side = torch.cuda.Stream(1)
    relayout(xs[0], axes, out=pulled, stream=side)  # the GPU of the result launches
    side.synchronize()
    assert same(torch, pulled, xs[0].permute(axes))
    assert same(torch, relayout(xs[0], axes, out=torch.zeros_like(pulled), device=1), xs[0].permute(axes))
    for start in (1, 3):  # addresses that only elements divide
        flat = torch.zeros(pulled.numel() + start, dtype=pulled.dtype, device="cuda:1")
        room = flat[start:].view(result)
        relayout(xs[0], axes, out=room)
        assert same(torch, room, xs[0].permute(axes)) and not flat[:start].any()


def test_both_gpus_wait_for_one_another(torch: Any) -> None:
    """Products make the array late on its GPU, and a reader of the old result late on the other."""
    relayout = pytest.importorskip("tilecopy_relayout").relayout
    peers(torch)
    stale = 0
    factors = [torch.randn(8192, 8192, device=f"cuda:{gpu}") for gpu in (0, 1)]
    x, y = torch.zeros(512, 512, device="cuda:0"), torch.zeros(512, 512, device="cuda:1")
    relayout(x, (1, 0), out=y)
    for run in range(6):
        for gpu in (0, 1):
            torch.cuda.synchronize(gpu)
        sides = [torch.cuda.Stream(gpu) for gpu in (0, 1)]
        with torch.cuda.stream(sides[1]), torch.cuda.stream(sides[0]):
            factor = factors[0] if run % 2 else factors[1]
            delay = torch.nan_to_num((factor @ factor @ factor)[:512, :512]) * 0
            if run % 2:
                x.copy_(delay + run + 1)
                old = y + 0
            else:
                x.fill_(run + 1)
                y.add_(delay)
                old = y + 0  # late: the relayout must not come first
            relayout(x, (1, 0), out=y)
            after = y + 0
        for side in sides:
            side.synchronize()
        stale += int((after != run + 1).sum()) + int((old != run).sum())
    assert not stale


def test_a_relayout_into_another_gpu_in_a_graph(torch: Any) -> None:
    relayout = pytest.importorskip("tilecopy_relayout").relayout
    peers(torch)
    x, y = torch.zeros(300, 500, device="cuda:0"), torch.zeros(500, 300, device="cuda:1")
    relayout(x, (1, 0), out=y)  # peer access is enabled before
    torch.cuda.synchronize(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        x += 1
        relayout(x, (1, 0), out=y)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize(0)
    assert bool((y == 3).all())


_EXPANDABLE = """
import torch
from tilecopy_relayout import relayout
x = torch.randn(300, 500, device="cuda:0")
for _ in range(2):
    y = torch.zeros(500, 300, device="cuda:1")
    relayout(x, (1, 0), out=y)
    assert y.cpu().equal(x.cpu().t())
more = torch.zeros(64 << 20, device="cuda:1")[: 500 * 300].view(500, 300)  # a new segment
relayout(x, (1, 0), out=more)
assert more.cpu().equal(x.cpu().t())
print("right")
"""


@pytest.mark.parametrize("allocator", ["expandable_segments:True", "backend:cudaMallocAsync"])
def test_memory_that_is_mapped_or_of_a_pool(torch: Any, allocator: str) -> None:
    """Peer access is not what decides there: torch has to share its memory. In a process of its own, with that allocator."""
    pytest.importorskip("tilecopy_relayout")
    peers(torch)
    environment = os.environ | {"PYTORCH_CUDA_ALLOC_CONF": allocator}
    script = [sys.executable, "-c", _EXPANDABLE]
    done = subprocess.run(script, capture_output=True, text=True, env=environment, check=False, timeout=600)
    assert done.stdout == "right\n", done.stdout + done.stderr
