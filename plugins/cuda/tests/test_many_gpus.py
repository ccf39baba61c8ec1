"""Several GPUs on the stand-in for the driver: who launches, peer access, and threads that use different GPUs at once."""

from __future__ import annotations

import copy
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tilecopy as tc
from tilecopy.executors.streams import stream_device
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_test_helpers.fake_driver import FakeDriver, FakeTensor, Where
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip

A0, B0 = 0x7F0000001000, 0x7F0000002000
GPUS = [Where("cuda", number) for number in range(4)]


@pytest.fixture(scope="module")
def built() -> tc.BuiltKernel:
    """It reads A and writes B."""
    return round_trip((256, 64), (128, 64), "float16", target="sm_90")


@pytest.fixture
def kernel(built: tc.BuiltKernel) -> tc.BuiltKernel:
    return attrs.evolve(built)  # with nothing remembered


@pytest.fixture
def fake() -> FakeDriver:
    return FakeDriver(sizes=(8, 8))


@pytest.fixture
def cuda(fake: FakeDriver) -> CudaExecutor:
    return CudaExecutor(fake)


@pytest.fixture(autouse=True)
def no_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide real frameworks, which know only the GPUs of this machine."""
    for name in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)


class TorchTensor(FakeTensor):
    __module__ = "torch"


def tensor(host: int, gpu: int) -> FakeTensor:
    return TorchTensor(host + (gpu << 48), device=GPUS[gpu])


class Torch:
    """A stand-in for torch: a current stream for each GPU, and memory that copies give other GPUs access to."""

    def __init__(self, fake: FakeDriver) -> None:
        self.streams = [fake.stream(0x20, gpu) for gpu in range(4)]
        self.copies: list[tuple[str, str]] = []
        self._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: self.streams[device])
        self.shares: Callable[[], object] = lambda: None
        self.cuda = types.SimpleNamespace(is_initialized=lambda: True)

    def empty(self, count: int, device: str) -> Any:
        def copy_(source: Any) -> None:
            self.copies.append((source.device, device))
            self.shares()

        return types.SimpleNamespace(device=device, copy_=copy_)


@pytest.fixture
def torch(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Torch:
    module = Torch(fake)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def where(fake: FakeDriver) -> list[tuple[int, int]]:
    """The GPU and the stream of each launch."""
    return [(launched.gpu, launched.stream) for launched in fake.launches]


# ------------------------------------------------------------------------------------------------- who launches


def test_the_gpu_of_the_first_array_that_is_written_launches(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, torch: Torch
) -> None:
    arguments = tensor(A0, 1), tensor(B0, 2)
    for _ in range(2):
        cuda.launch(kernel, arguments)
    cuda.prepare(kernel, arguments)()
    cuda.launch_by_address(kernel, arguments)((arguments[0].pointer, arguments[1].pointer))
    assert where(fake) == [(2, 0x20020)] * 4
    assert fake.enabled == {(2, 1)} and fake.calls["cuCtxEnablePeerAccess"] == 1
    assert fake.retained == [1, 2] and not fake.pushed


def test_a_device_or_a_stream_says_who_launches(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, torch: Torch
) -> None:
    arguments = tensor(A0, 1), tensor(B0, 2)
    for _ in range(2):
        cuda.launch(kernel, arguments, device=1)
        cuda.launch(kernel, arguments, device=3)  # on which none of them is
        cuda.launch(kernel, arguments, stream=0x10050)
        cuda.launch(kernel, arguments, stream=0x20050, device=2)
        cuda.launch(kernel, arguments)
        cuda.launch(kernel, arguments, stream=0)  # every GPU has one
    expected = [(1, 0x10020), (3, 0x30020), (1, 0x10050), (2, 0x20050), (2, 0x20020), (2, 0)]
    assert where(fake) == expected * 2
    default = types.SimpleNamespace(cuda_stream=0, device=GPUS[1])
    cuda.launch(kernel, arguments, stream=default)
    cuda.prepare(kernel, arguments, stream=default)()
    assert where(fake)[-2:] == [(1, 0)] * 2
    with pytest.raises(tc.LaunchError, match=mentions("stream")):
        cuda.launch(kernel, arguments, stream=0x10050, device=2)


def test_arrays_on_one_gpu_may_be_used_from_another(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, torch: Torch
) -> None:
    arguments = tensor(A0, 1), tensor(B0, 1)
    for device in (0, 1, None, 0, 1, None):
        cuda.launch(kernel, arguments, device=device)
    assert where(fake) == [(0, 0x20), (1, 0x10020), (1, 0x10020)] * 2
    with pytest.raises(tc.LaunchError, match=mentions("stream")):
        cuda.launch(kernel, arguments, stream=0x50)


@pytest.mark.parametrize("device", [True, -1, 4, 1.0, "1", GPUS[1]])
def test_what_is_no_gpu(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, device: Any) -> None:
    cuda.launch(kernel, (tensor(A0, 1), tensor(B0, 1)), device=1)
    with pytest.raises(tc.LaunchError, match=mentions("round_trip", "device", 3)):
        cuda.launch(kernel, (tensor(A0, 1), tensor(B0, 1)), device=device)
    assert len(fake.launches) == 1


def test_host_arrays_and_numbers_go_to_the_current_gpu(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor
) -> None:
    host, k = (np.zeros((256, 64), np.float16), np.zeros((256, 64), np.float16)), tc.KernelBuilder("n", threads=32)
    for name in ("n", "m"):
        k.scalar(name, "int64")
    numbers = k.build(target="sm_90", grid=1)
    for current in (2, None, 1):
        fake.current = current
        cuda.launch(kernel, host)
        cuda.launch(numbers, (1, 2))
    assert where(fake) == [(2, 0), (2, 0), (0, 0), (0, 0), (1, 0), (1, 0)]
    cuda.launch(kernel, host, device=3)
    cuda.launch(kernel, host, stream=0x20050)
    cuda.prepare(kernel, host, device=3)()
    cuda.launch(kernel, (host[0], tensor(B0, 3)))
    assert where(fake)[6:] == [(3, 0), (2, 0x20050), (3, 0), (3, 0)] and not fake._memory


def test_the_call_of_a_kernel_takes_a_device(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tc.executor_registry, "_made", tc.executor_registry._made | {"cuda": cuda})
    a, b = tensor(A0, 1), tensor(B0, 2)
    kernel(a, b, device=1, executor="cuda")
    kernel.prepare(a, b, device=1, executor="cuda")()
    kernel.launch_by_address(a, b, device=1, executor="cuda")((a.pointer, b.pointer))
    assert where(fake) == [(1, 0)] * 3
    host = np.zeros((256, 64), np.float16)
    for launch in (kernel, kernel.prepare):
        with pytest.raises(tc.LaunchError, match=mentions("device", "executor", "emulator")):
            launch(host, host.copy(), device=1, executor="emulator")
    with pytest.raises(tc.LaunchError, match=mentions("x", "stream")):
        kernel(host, host.copy(), stream="x", executor="emulator")
    kernel(host, host.copy(), stream=1, executor="emulator")


@pytest.mark.parametrize(
    ("stream", "gpu"),
    [
        (types.SimpleNamespace(device=GPUS[2]), 2),  # torch
        (types.SimpleNamespace(device_id=2), 2),  # CuPy
        (types.SimpleNamespace(device=types.SimpleNamespace(device_id=2)), 2),  # cuda.core
        (types.SimpleNamespace(device_id=0), 0),
        (types.SimpleNamespace(device_id=-1), None),
        (5, None),
    ],
)
def test_what_a_stream_says_of_its_gpu(stream: Any, gpu: int | None) -> None:
    assert stream_device(stream) == gpu


# -------------------------------------------------------------------------------------------------- peer access


def test_a_gpu_without_peer_access_is_told_before_the_launch(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor
) -> None:
    fake.peers = False
    message = ("round_trip", "A", "cuDeviceCanAccessPeer")
    for _ in range(2):
        with pytest.raises(tc.LaunchError, match=mentions(*message)):
            cuda.launch(kernel, (tensor(A0, 1), tensor(B0, 2)))
    assert not fake.launches and not fake.loaded and fake.calls["cuDeviceCanAccessPeer"] == 1
    cuda.launch(kernel, (tensor(A0, 1), tensor(B0, 1)))


def test_peer_access_that_a_framework_enabled_is_taken(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor
) -> None:
    fake.enabled.add((2, 1))
    cuda.launch(kernel, (tensor(A0, 1), tensor(B0, 2)))
    assert len(fake.launches) == 1


def test_a_driver_that_gives_no_peer_access(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor) -> None:
    fake.fail["cuCtxEnablePeerAccess"] = 711
    with pytest.raises(tc.LaunchError, match=mentions("CUDA_ERROR_TOO_MANY_PEERS")):
        cuda.launch(kernel, (tensor(A0, 1), tensor(B0, 2)))
    fake.fail.clear()
    cuda.launch(kernel, (tensor(A0, 1), tensor(B0, 2)))
    assert len(fake.launches) == 1


def test_torch_shares_its_memory_once(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, torch: Torch
) -> None:
    """Whatever its allocator is: the driver's flags of a pool say that it may be accessed, and it may not (seen on two H200)."""
    a, b = tensor(A0, 1), tensor(B0, 2)
    fake.mapped[a.pointer] = {1}
    torch.shares = lambda: fake.mapped[a.pointer].add(2)
    cuda.launch(kernel, (a, b))
    cuda.launch(kernel, (a, b))
    assert where(fake) == [(2, 0x20020)] * 2 and torch.copies == [("cuda:2", "cuda:1")]


def test_memory_that_lies_on_another_gpu_than_its_tensor_says(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, torch: Torch
) -> None:
    """As symmetric memory of torch is: a peer's memory, mapped here."""
    mine, peers = tensor(A0, 1), TorchTensor(B0 + (3 << 48), device=GPUS[1])
    fake.mapped[peers.pointer] = {1, 3}
    for _ in range(2):
        cuda.launch(kernel, (mine, peers))
        cuda.prepare(kernel, (peers, mine))()
    assert where(fake) == [(1, 0x10020)] * 4 and fake.retained == [1] and not fake.enabled


class CupyArray:
    """An array of CuPy on a GPU, whose memory may lie elsewhere."""

    __module__ = "cupy"

    def __init__(self, pointer: int, gpu: int) -> None:
        self.data = types.SimpleNamespace(ptr=pointer, device_id=gpu)
        self.shape, self.strides, self.dtype = (256, 64), (128, 2), np.dtype("float16")
        self.__cuda_array_interface__ = {
            "shape": self.shape,
            "strides": None,
            "typestr": "<f2",
            "data": (pointer, False),
            "version": 3,
        }


def test_the_gpu_of_a_cupy_array_is_what_cupy_says(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor
) -> None:
    mine, peers = CupyArray(A0 + (1 << 48), 1), CupyArray(B0 + (3 << 48), 1)
    fake.mapped[peers.data.ptr] = {1, 3}
    for _ in range(2):
        cuda.launch(kernel, (mine, peers))
    assert where(fake) == [(1, 0)] * 2 and fake.retained == [1]


@pytest.mark.parametrize("peers", [True, False])
def test_mapped_memory_is_taken_where_its_allocator_gave_access(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, peers: bool
) -> None:
    a, b, fake.peers = CupyArray(A0 + (1 << 48), 1), CupyArray(B0 + (2 << 48), 2), peers
    fake.mapped[a.data.ptr] = {1}
    why = (1, 2) if peers else (2, 1)
    with pytest.raises(tc.LaunchError, match=mentions("A", *why)):
        cuda.launch(kernel, (a, b))
    assert not fake.launches
    if peers:
        fake.mapped[a.data.ptr].add(2)
        cuda.launch(kernel, (a, b))
        assert where(fake) == [(2, 0)]


# ------------------------------------------------------------------------------------------------------- threads


def in_threads(work: Callable[[int], None]) -> None:
    """The work of each GPU in threads of their own, two for each, which take turns often."""
    failed: list[BaseException] = []

    def guarded(gpu: int) -> None:
        try:
            work(gpu)
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=guarded, args=(gpu,)) for gpu in range(4) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    if failed:
        raise failed[0]


@pytest.mark.parametrize("current", ["own", "another", "none"])
def test_threads_use_different_gpus_at_once(
    kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor, torch: Torch, current: str, tmp_path: Path
) -> None:
    kernel.save(tmp_path)
    saved = tc.load_kernel(tmp_path)
    fake.captured = {fake.stream(0x50, gpu) for gpu in range(4)}
    torch.shares = lambda: pytest.fail("nothing is on two GPUs")

    def work(gpu: int) -> None:
        fake.current = {"own": gpu, "another": gpu ^ 1, "none": None}[current]
        a, b = tensor(A0, gpu), tensor(B0, gpu)
        addresses = a.pointer, b.pointer
        prepared, launcher = cuda.prepare(saved, (a, b)), cuda.launch_by_address(kernel, (a, b))
        for _ in range(8):
            cuda.launch(kernel, (a, b))
            cuda.launch(saved, (a, b))
            prepared()
            launcher(addresses)
            cuda.launch(kernel, (a, b), stream=fake.stream(0x50, gpu))  # into a graph
        assert not fake.pushed

    in_threads(work)
    seen = {gpu: [launched for launched in fake.launches if launched.gpu == gpu] for gpu in range(4)}
    for gpu, launches in seen.items():
        assert {launched.numbers() for launched in launches} == {(A0 + (gpu << 48), B0 + (gpu << 48))}
        assert len(launches) == 80 and len({launched.stream for launched in launches}) == 2
    assert fake.calls["cuModuleLoadDataEx"] == 4 and sorted(fake.retained) == [0, 1, 2, 3]
    assert len(fake.graph) >= 64 and not fake.enabled


def test_modules_are_unloaded_on_their_own_gpus(kernel: tc.BuiltKernel, fake: FakeDriver, cuda: CudaExecutor) -> None:
    twin = copy.copy(kernel)
    for gpu in range(4):
        cuda.launch(twin, (tensor(A0, gpu), tensor(B0, gpu)))
    del twin
    cuda.unload_unused()  # the stand-in wants the context of each
    assert not fake.loaded and fake.calls["cuModuleUnload"] == 4
