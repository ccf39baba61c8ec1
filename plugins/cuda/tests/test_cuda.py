"""The CUDA executor on a real GPU, and what it leaves behind on an error. Tests with the fixture `gpu` skip, with the reason, where there is none."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout
from tilecopy.executors import get_executor
from tilecopy_cuda import time_on_device
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_cuda.device_array import DeviceArray
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.fake_driver import FakeDriver
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip, two_columns

SWIZZLED = tc.SwizzledLayout(tc.swizzle("128B", "float16"), TileLayout(S[32, 64]))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float8_e4m3fn", "float32", "float64"])
@pytest.mark.parametrize("threads", [96, 128])
def test_numpy_round_trip(gpu: str, dtype: str, threads: int) -> None:
    kernel = round_trip((192, 192), (96, 64), dtype, threads=threads, target=gpu)
    a = byte_arrays.random_array((192, 192), tc.dtype_of(dtype).numpy())
    b = np.zeros_like(a)
    kernel(a, b, executor="cuda")
    assert byte_arrays.same_bytes(a, b)


@pytest.mark.parametrize(
    "layout",
    [
        SWIZZLED,
        TileLayout(S[(32, 64) : (66, 1)]),
        TileLayout(S[(32, 64) : (1, 32)]),
        TileLayout(S[(32, 8, 8) : (8, 256, 1)]),
    ],
)
def test_shared_layouts_round_trip(gpu: str, layout: tc.Layout) -> None:
    kernel = round_trip((128, 256), (32, 64), "float16", layout=layout, target=gpu)
    a = byte_arrays.random_array((128, 256), np.float16)
    b = np.zeros_like(a)
    kernel(a, b, executor="cuda")
    assert byte_arrays.same_bytes(a, b)


def test_dynamic_shared_memory(gpu: str) -> None:
    kernel = round_trip((256, 512), (128, 256), "float16", target=gpu)
    assert kernel.dynamic_shared
    a = byte_arrays.random_array((256, 512), np.float16)
    b = np.zeros_like(a)
    kernel(a, b, executor="cuda")
    assert byte_arrays.same_bytes(a, b)


def test_past_two_to_the_31_elements(gpu: str) -> None:
    rows, columns = 2**31 // 64 + 4096, 64
    kernel = round_trip((rows, columns), (2048, 64), "uint8", threads=1024, target=gpu, layout=None)
    with DeviceArray((rows, columns), "uint8") as a, DeviceArray((rows, columns), "uint8") as b:
        source = byte_arrays.random_array((rows, columns), np.uint8)
        a.copy_from(source)
        b.fill(0)
        kernel(a, b, executor="cuda")
        result = np.empty_like(source)
        b.copy_to(result)
    assert np.array_equal(source, result)


def test_host_arrays_that_are_columns_of_one_are_written_both(gpu: str) -> None:
    both, kernel = np.zeros((8, 64), np.int32), two_columns(gpu)
    kernel(both[:, :32], both[:, 32:], executor="cuda")
    assert (both[:, :32] == 1).all() and (both[:, 32:] == 2).all()


def test_minima_of_minima_of_what_is_negated(gpu: str) -> None:
    """ptxas 13.0 and drivers of its time lose a sign where a minimum of a minimum is one instruction."""
    k = tc.KernelBuilder("minima", threads=32)
    a, b, c = (k.param(name, (32,), "int32") for name in "ABC")
    out, t = k.param("O", (4, 32), "int32"), k.thread_id()
    values = [k.load(each[t]) for each in (a, b, c)]
    x, y, z = (k.index(value, lower=-1000, upper=1000) for value in values)
    k.store(out[0, t], tc.maximum(tc.maximum(x, y), z))
    k.store(out[1, t], tc.minimum(tc.minimum(x * -1, y * -1), z))
    k.store(out[2, t], (-values[0]).max(-values[1]).max(values[2]))
    k.store(out[3, t], k.index((-values[0]).min(-values[1]), lower=-1000, upper=500, clamp=True))
    kernel = k.build(target=gpu, grid=1)
    x, y, z = (np.random.default_rng(seed).integers(-1000, 1001, 32).astype(np.int32) for seed in range(3))
    found = np.zeros((4, 32), np.int32)
    kernel(x, y, z, found, executor="cuda")
    assert np.array_equal(found[0], np.maximum(np.maximum(x, y), z))
    assert np.array_equal(found[1], np.minimum(np.minimum(-x, -y), z))
    assert np.array_equal(found[2], np.maximum(np.maximum(-x, -y), z))
    assert np.array_equal(found[3], np.clip(np.minimum(-x, -y), -1000, 500))


def test_many_threads_share_one_loaded_kernel(gpu: str) -> None:
    kernel = round_trip((256, 64), (128, 64), "float16", target=gpu)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        a = byte_arrays.random_array((256, 64), np.float16, seed)
        b = np.zeros_like(a)
        kernel(a, b, executor="cuda")
        if not byte_arrays.same_bytes(a, b):
            wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_torch_and_cupy_arrays_and_streams(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    cupy = pytest.importorskip("cupy")
    for dtype in ("float16", "bfloat16", "float32", "uint8"):
        kernel = round_trip((256, 64), (128, 64), dtype, target=gpu)
        a = torch.randn(256, 64, device="cuda").to(getattr(torch, dtype))
        b = torch.zeros_like(a)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        kernel(a, b, stream=stream)
        stream.synchronize()
        assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    c = cupy.random.random((256, 64), dtype=cupy.float32)
    d = cupy.zeros_like(c)
    with cupy.cuda.Stream() as own:
        own.synchronize()
        kernel(c, d, stream=own)
        own.synchronize()
    assert bool((c == d).all())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn"])
def test_a_jax_array_is_read(gpu: str, dtype: str) -> None:
    """JAX describes the last two by DLPack alone."""
    jax = pytest.importorskip("jax")
    torch = pytest.importorskip("torch")
    kernel = round_trip((256, 64), (128, 64), dtype, target=gpu)
    source = jax.random.normal(jax.random.PRNGKey(0), (256, 64)).astype(dtype)
    result = torch.zeros(256, 64, device="cuda", dtype=getattr(torch, dtype))
    kernel(source, result)
    assert np.array_equal(np.asarray(source).view(np.uint8), result.cpu().view(torch.uint8).numpy())


def test_bad_device_arguments_are_named_before_the_launch(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((256, 64), (128, 64), "float16", target=gpu)
    good = torch.zeros(256, 64, dtype=torch.float16, device="cuda")
    for bad, message in (
        (torch.zeros(256, 64, dtype=torch.float32, device="cuda"), ("dtype", "float32", "float16")),
        (torch.zeros(128, 64, dtype=torch.float16, device="cuda"), ("shape", 128, 64)),
        (torch.zeros(64, 256, dtype=torch.float16, device="cuda").t(), ()),
        (torch.zeros(256 * 64 + 1, dtype=torch.float16, device="cuda")[1:].view(256, 64), (16,)),
        ("text", ("str",)),
    ):
        with pytest.raises(tc.LaunchError, match=mentions(*message)):
            kernel(bad, good)


def test_tensors_without_memory_are_refused_before_the_launch(gpu: str) -> None:
    """pytorch/pytorch#195862: freed storage, as FSDP leaves it, at the first launch, a later one, a prepared and a captured one."""
    torch = pytest.importorskip("torch")
    relayout = pytest.importorskip("tilecopy_relayout").relayout
    kernel = round_trip((256, 64), (128, 64), "float16", target=gpu)
    good, freed = (torch.rand(256, 64, device="cuda").half() for _ in range(2))
    memory, turned = freed.untyped_storage(), freed.t()
    kernel(good, freed)
    cuda: Any = get_executor("cuda")
    launcher = cuda.launch_by_address(kernel, (good, freed))
    memory.resize_(0)
    for _ in range(2):
        for arguments in ((good, freed), (freed, good)):
            with pytest.raises(tc.LaunchError):
                kernel(*arguments)
            with pytest.raises(tc.LaunchError):
                cuda.prepare(kernel, arguments)
            with pytest.raises(tc.LaunchError):
                launcher(tuple(array.data_ptr() for array in arguments))
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        with pytest.raises(tc.LaunchError):
            kernel(good, freed)
        good.add_(0)
    with pytest.raises(tc.RequestError):
        relayout(freed, (1, 0))
    with pytest.raises(tc.RequestError):
        relayout(good, (1, 0), out=turned)
    result = torch.zeros_like(good)
    kernel(good, result)
    assert torch.equal(good, result), "the context works on"


def test_strides_of_the_launch_that_make_elements_overlap_are_refused_before_it(gpu: str) -> None:
    k = tc.KernelBuilder("overlapping", threads=32)
    ld = k.scalar("ld", lower=1, upper=1 << 20)
    a, b = k.param("A", (8, 12), "float32"), k.param("B", (8, 12), "float32", strides=(ld, 1))
    part = k.local((8, 12), "float32", layout=TileLayout(S[(8, 12) : (1 @ tc.laneid, 1)]))
    k.warp.copy(part[:, :], a[:, :])
    k.warp.copy(b[:, :], part[:, :])
    kernel = k.build(target=gpu, grid=1)
    source, memory = np.random.default_rng(0).random((8, 12)).astype(np.float32), np.zeros(8 * 16, np.float32)

    def rows(stride: int) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(memory, (8, 12), (4 * stride, 4))

    with pytest.raises(tc.LaunchError, match=mentions("B", 4)):
        kernel(4, source, rows(4), executor="cuda")
    assert not memory.any()
    kernel(16, source, rows(16), executor="cuda")
    assert np.array_equal(rows(16), source)


def test_device_arrays_are_not_for_the_emulator(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((256, 64), (128, 64), "float16", target=gpu)
    good = torch.zeros(256, 64, dtype=torch.float16, device="cuda")
    with pytest.raises(tc.LaunchError, match=mentions("A", "device")):
        kernel(good, good, executor="emulator")


def test_elect_on_the_gpu(gpu: str) -> None:
    if tc.target_of(gpu).arch < 90:
        pytest.skip(f"elect.sync needs sm_90, the GPU is {gpu}")
    k = tc.KernelBuilder("elected", threads=64)
    a, b = k.param("A", (64,), "float32"), k.param("B", (2, 64), "float32")
    s = k.shared((2, 64), "float32", name="s")
    with k.elect():
        k.thread.copy(s[k.warp_id(), :], a[:])
    k.cta_sync()
    k.cta.copy(b[:, :], s[:, :])
    source = byte_arrays.random_array((64,), np.float32)
    result = np.zeros((2, 64), np.float32)
    k.build(target=gpu, grid=1)(source, result, executor="cuda")
    assert byte_arrays.same_bytes(result, np.stack([source, source]))


def test_a_foreign_target_and_broken_ptx_are_launch_errors(gpu: str) -> None:
    a = np.zeros((128, 64), np.float16)
    with pytest.raises(tc.LaunchError, match="sm_120"):
        round_trip((128, 64), (128, 64), target="sm_120")(a, a.copy(), executor="cuda")
    k = tc.KernelBuilder("broken", threads=32)
    k.param("A", (4,), "int32")
    k.inline_ptx("{{ .reg .b32 a; nonsense.u32 a; }}")
    with pytest.raises(tc.LaunchError):
        k.build(target=gpu, grid=1)(np.zeros(4, np.int32), executor="cuda")


# -------------------------------------------------------------------------------------------------- launches


def test_a_remembered_launch_sees_other_memory_and_other_shapes(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    for _ in range(4):
        a, b = torch.randn(256, 64, device="cuda"), torch.zeros(256, 64, device="cuda")
        kernel(a, b)
        assert torch.equal(a, b)
    flat = torch.zeros(256 * 64 + 1, device="cuda")
    for bad, message in (
        (flat[1:].view(256, 64), (16,)),
        (a[:128], ("shape",)),
        (a.t().contiguous().t(), (1, 64)),
        (a.double(), ("dtype", "float64")),
        (a.half(), ("dtype", "float16")),
        (torch.randn(256, 64, dtype=torch.complex64, device="cuda").conj().imag, ("resolve_neg",)),
        (a.to_sparse(), ()),
        (a.to("meta"), ("meta",)),
    ):
        with pytest.raises(tc.LaunchError, match=mentions(*message)):
            kernel(bad, b)


def test_a_prepared_launch(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    a, b = torch.randn(256, 64, device="cuda"), torch.zeros(256, 64, device="cuda")
    launch = kernel.prepare(a, b)
    for _ in range(3):
        a.add_(1)
        torch.cuda.synchronize()
        launch()
        torch.cuda.synchronize()
        assert torch.equal(a, b)
    x, y = byte_arrays.random_array((256, 64), np.float32), np.zeros((256, 64), np.float32)
    kernel.prepare(x, y, executor="cuda")()
    assert byte_arrays.same_bytes(x, y)


def test_launches_from_threads_that_have_no_context(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    a, b = torch.randn(256, 64, device="cuda"), torch.zeros(256, 64, device="cuda")
    kernel(a, torch.empty_like(b))
    prepared, found = kernel.prepare(a, b), list[Any]()

    def work() -> None:
        try:
            kernel(a, b)
            prepared()
        except tc.TilecopyError as error:
            found.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    torch.cuda.synchronize()
    assert not found and torch.equal(a, b)


def test_a_graph_captures_launches(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    a, b, c = (torch.zeros(256, 64, device="cuda") for _ in range(3))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # the kernel is loaded in here, too
        stream = torch.cuda.current_stream()
        kernel(a, b, stream=stream)
        kernel.prepare(b, c, stream=stream)()
        with pytest.raises(tc.LaunchError, match=mentions("A")):
            kernel(np.zeros((256, 64), np.float32), b, stream=stream)
    a.normal_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(a, c) and bool(a.any())


def test_a_launch_waits_for_the_side_stream_that_made_its_array(gpu: str) -> None:
    """Products before it on the side stream make the array late: a launch on any other stream copies what was there before."""
    torch = pytest.importorskip("torch")
    kernel = round_trip((512, 512), (64, 64), "float32", target=gpu)
    stale = []
    for run in range(6):
        side, factor = torch.cuda.Stream(), torch.randn(8192, 8192, device="cuda")
        x, y, z = (torch.zeros(512, 512, device="cuda") for _ in range(3))
        prepared = kernel.prepare(y, z)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for _ in range(3):
                factor = factor @ factor
            x.copy_(torch.nan_to_num(factor[:512, :512]) * 0 + run + 1)
            kernel(x, y)
            prepared()
            after = z.clone()
        side.synchronize()
        stale.append(int((after != run + 1).sum()))
    assert stale == [0] * 6


def test_a_launch_waits_for_the_side_stream_of_cupy(gpu: str) -> None:
    cupy = pytest.importorskip("cupy")
    kernel = round_trip((512, 512), (64, 64), "float32", target=gpu)
    stale = []
    for run in range(6):
        factor = cupy.random.random((8192, 8192), dtype=cupy.float32)
        x, y = cupy.zeros((512, 512), cupy.float32), cupy.zeros((512, 512), cupy.float32)
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as side:
            for _ in range(3):
                factor = factor @ factor
            x[...] = cupy.nan_to_num(factor[:512, :512], posinf=0) * 0 + run + 1
            kernel(x, y)
            after = y.copy()
            side.synchronize()
        stale.append(int((after != run + 1).sum()))
    assert stale == [0] * 6


def test_a_graph_is_captured_on_the_current_stream(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    a, b, c = (torch.zeros(256, 64, device="cuda") for _ in range(3))
    prepared, graph = kernel.prepare(b, c), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        a += 1
        kernel(a, b)
        prepared()
        c *= 2
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert bool((c == 6).all())


def test_a_graph_replays_a_kernel_that_was_dropped(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    cuda: Any = get_executor("cuda")
    a, b = torch.zeros(256, 64, device="cuda"), torch.zeros(256, 64, device="cuda")
    kernels = [round_trip((256, 64), (128, 64), "float32", target=gpu, threads=96)]
    graph, module = torch.cuda.CUDAGraph(), weakref.ref(kernels[0])
    with torch.cuda.graph(graph):
        a += 1
        kernels[0](a, b)
    dropping = threading.Thread(target=kernels.clear)
    dropping.start()
    dropping.join()
    gc.collect()
    assert module() is None
    for rows in range(1, 129):  # other kernels take the place of what is unloaded
        other = torch.zeros(128, 64 * rows, device="cuda")
        round_trip((128, 64 * rows), (128, 64), "float32", target=gpu)(other, other.clone())
    del other
    cuda.unload_unused()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert bool((b == 3).all())
    del graph
    gc.collect()
    time.sleep(0.2)  # the driver's own thread posts it
    cuda.unload_unused()
    assert not cuda._modules._dropped


_EXIT = """
import torch, tilecopy as tc
from tilecopy.executors import get_executor
from tilecopy_test_helpers.programs import round_trip
kernel = round_trip((256, 64), (128, 64), "float32", target="GPU")
a, b, graph = torch.zeros(256, 64, device="cuda"), torch.zeros(256, 64, device="cuda"), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    a += 1
    kernel(a, b)
del kernel
get_executor("cuda").unload_unused()
graph.replay()
torch.cuda.synchronize()
print(b.sum().item())
"""


def test_a_process_ends_with_a_graph_of_a_kernel_that_was_dropped(gpu: str) -> None:
    pytest.importorskip("torch")
    script = [sys.executable, "-c", _EXIT.replace("GPU", gpu)]
    done = subprocess.run(script, capture_output=True, text=True, cwd=Path(__file__).parent, check=False, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "16384.0\n", "")


def test_unloading_ends_no_launch_in_flight_and_breaks_no_capture(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    cuda: Any = get_executor("cuda")
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    x, y, factor = *(torch.zeros(512, 512, device="cuda") for _ in range(2)), torch.randn(8192, 8192, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(3):
            factor = factor @ factor
        x.copy_(torch.nan_to_num(factor[:512, :512]) * 0 + 4)
        round_trip((512, 512), (64, 64), "float32", target=gpu, threads=160)(x, y)
    graph, z = torch.cuda.CUDAGraph(), torch.zeros(8, device="cuda")
    with torch.cuda.graph(graph, stream=other):
        z += 1
        cuda.unload_unused()
        z += 1
    graph.replay()
    torch.cuda.synchronize()
    assert bool((y == 4).all()) and bool((z == 2).all())


def test_a_service_of_many_kernels_holds_its_memory(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    cuda: Any = get_executor("cuda")
    a, b = torch.ones(2048, 64, device="cuda"), torch.zeros(2048, 64, device="cuda")
    free = []
    for rows in range(1, 601):
        k = tc.KernelBuilder("rows", threads=32)
        source, result = k.param("A", (rows, 64), "float32"), k.param("B", (rows, 64), "float32")
        k.store(result[rows - 1, 0], k.load(source[rows - 1, 0]) + rows)
        k.build(target=gpu, grid=1)(a[:rows], b[:rows])
        if rows in (200, 600):
            torch.cuda.synchronize()
            free.append(torch.cuda.mem_get_info()[0])
    assert free[0] - free[1] <= 2 << 20
    assert bool((b[:600, 0].cpu() == torch.arange(1, 601) + 1).all())
    cuda.unload_unused()


def test_what_dlpack_exports_is_waited_for(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((512, 512), (64, 64), "float32", target=gpu)

    class Export:
        """A tensor of which only its exporting protocol is known."""

        def __init__(self, tensor: Any) -> None:
            self.__dlpack__, self.__dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__

    side, factor = torch.cuda.Stream(), torch.randn(8192, 8192, device="cuda")
    x, y = torch.zeros(512, 512, device="cuda"), torch.zeros(512, 512, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(3):
            factor = factor @ factor
        x.copy_(torch.nan_to_num(factor[:512, :512]) * 0 + 5)
        kernel(Export(x), Export(y))  # torch makes the legacy stream wait for its current one
    torch.cuda.synchronize()
    assert bool((y == 5).all())


@pytest.mark.parametrize("framework", ["cupy", "jax", "numba"])
def test_arrays_of_the_last_gpu_by_the_array_interface(
    gpu: str, framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cuda-bindings 13.3 says that all memory is GPU 0's."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    module, torch = pytest.importorskip(framework), pytest.importorskip("torch")
    last = torch.cuda.device_count() - 1
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    source = np.random.default_rng(0).random((256, 64), np.float32)
    result = torch.zeros(256, 64, device=f"cuda:{last}")
    if framework == "cupy":
        with module.cuda.Device(last):
            kernel(module.asarray(source), result)
    elif framework == "jax":
        kernel(module.device_put(source, module.devices()[last]), result)
    else:
        from numba import cuda

        with cuda.gpus[last]:
            kernel(cuda.to_device(source), result)
    torch.cuda.synchronize(last)
    assert np.array_equal(source, result.cpu().numpy())


def test_two_devices(gpu: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU: two are needed")
    kernel, before = round_trip((256, 64), (128, 64), "float32", target=gpu), torch.cuda.current_device()
    for current in (0, 1, 0):
        torch.cuda.set_device(current)  # a launch on a device must not depend on the current one
        for device in (0, 1):
            a = torch.randn(256, 64, device=f"cuda:{device}")
            b, c = torch.zeros_like(a), torch.zeros_like(a)
            kernel(a, b)
            prepared = kernel.prepare(a, c)
            prepared()
            torch.cuda.synchronize(device)
            assert torch.equal(a, b) and torch.equal(a, c)
            assert torch.cuda.current_device() == current
    torch.cuda.set_device(before)


_FAULT = """
import numpy as np, tilecopy as tc
from tilecopy_test_helpers.programs import round_trip
k = tc.KernelBuilder("faulty", threads=32)
b = k.param("B", (32,), "int32")
k.inline_ptx("{{ .reg .b64 at; mov.b64 at, 8; st.global.u32 [at], 1; }}")
good = round_trip((256, 64), (128, 64), "float16", target="GPU")
a = np.zeros((256, 64), np.float16)
good(a, a.copy(), executor="cuda")
for run in (
    lambda: k.build(target="GPU", grid=1)(np.zeros(32, np.int32), executor="cuda"),
    lambda: good(a, a.copy(), executor="cuda"),
    lambda: round_trip((128, 64), (128, 64), "float16", target="GPU")(a[:128], a[:128].copy(), executor="cuda"),
):
    try:
        run()
    except tc.LaunchError as error:
        print(str(error).replace("\\n", " "))
"""


def test_an_error_that_ends_the_context_is_told_by_every_later_launch(gpu: str) -> None:
    """In a process of its own, since nothing runs in it afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", _FAULT.replace("GPU", gpu)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        check=False,
        timeout=600,
    )
    first, *later = done.stdout.splitlines()
    assert "kernel faulty" in first and "CUDA_ERROR_ILLEGAL_ADDRESS" in first, done
    assert len(later) == 2 and all("kernel faulty" in line and "CUDA_ERROR_ILLEGAL_ADDRESS" in line for line in later)
    assert "rejected the PTX" not in done.stdout


@pytest.mark.parametrize("fails", ["", "work", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime"])
def test_events_do_not_outlive_a_measurement(fails: str) -> None:
    driver = FakeDriver()
    driver.fail = {fails: 1}

    def work() -> None:
        if fails == "work":
            raise KeyError("mine")

    if fails:
        with pytest.raises((KeyError, tc.LaunchError), match=f"mine|{fails}"):
            time_on_device(CudaExecutor(driver), work, warm_up=0)
    else:
        time_on_device(CudaExecutor(driver), work)
        assert driver.calls["cuEventRecord"] == 2 * driver.calls["cuEventElapsedTime"] > 0
    assert driver.calls["cuEventCreate"] == driver.calls["cuEventDestroy"] == 2


def test_a_device_array_that_is_dropped_is_freed_once() -> None:
    driver = FakeDriver()
    cuda = CudaExecutor(driver)
    array = DeviceArray((4, 8), "float32", executor=cuda)
    assert driver.calls["cuMemFree"] == 0
    del array
    gc.collect()
    assert driver.calls["cuMemFree"] == 1 and driver.modes[0] == "RELAXED"  # a capture elsewhere goes on
    freed = DeviceArray((4, 8), "float32", executor=cuda)
    freed.free()
    freed.free()
    del freed
    with DeviceArray((4, 8), "float32", executor=cuda):
        pass
    gc.collect()
    assert driver.calls["cuMemAlloc"] == driver.calls["cuMemFree"] == 3


def test_a_device_array_that_the_driver_cannot_free_raises_only_in_free(capfd: pytest.CaptureFixture[str]) -> None:
    driver = FakeDriver()
    cuda = CudaExecutor(driver)
    arrays = [DeviceArray((4,), "float32", executor=cuda) for _ in range(2)]
    driver.fail = {"cuMemFree": 700}
    with pytest.raises(tc.LaunchError, match="cuMemFree"):
        arrays[0].free()
    del arrays
    gc.collect()
    assert capfd.readouterr().err == ""


def test_a_device_array_that_was_freed_is_refused() -> None:
    driver = FakeDriver(sizes=(8, 8))
    cuda = CudaExecutor(driver)
    kernel = round_trip((256, 64), (128, 64), "float16", target="sm_90")
    a, b = (DeviceArray((256, 64), "float16", executor=cuda) for _ in range(2))
    cuda.launch(kernel, (a, b))
    b.free()
    for use in (cuda.launch, cuda.prepare, cuda.launch_by_address):
        with pytest.raises(tc.LaunchError, match=mentions("B", 256, 64)):
            use(kernel, (a, b))
    assert len(driver.launches) == 1


def test_a_broken_libcuda_is_not_told_as_missing(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("no library")
    program = "from tilecopy.executors import get_executor as e; print(e('cuda').unavailable_reason())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(tmp_path) in done.stdout and "not found" not in done.stdout
