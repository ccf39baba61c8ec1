"""A fork while another thread loads something, and the GPU after a fork: the child gets an answer."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import tilecopy as tc
from tilecopy import assemblers
from tilecopy import executor_registry as running
from tilecopy.executors import get_executor
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_test_helpers.fake_driver import FakeDriver, FakeTensor
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.programs import round_trip

from tilecopy_core.registry import Source

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]
ARGUMENTS = (FakeTensor(0x7F0000001000), FakeTensor(0x7F0000002000))


def in_a_fork(work: Callable[[], Any]) -> Any:
    """What a function gives in a child of this process, which a signal ends where it waits."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        try:
            answer = work()
        except BaseException as error:
            answer = (
                f"{type(error).__name__}: {error}" if isinstance(error, tc.TilecopyError) else traceback.format_exc()
            )
        os.write(writer, pickle.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, "the child waited for ever"
    return pickle.loads(found)


class Slow:
    """Work that says when it has begun, and takes its time under a lock of its own, as libraries have them."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.work, self.begun, self.lock = work, threading.Event(), threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        with self.lock:
            self.begun.set()
            threading.Event().wait(0.15)
            return self.work(*arguments)


def plugins_of_a_registry() -> tuple[Slow, Callable[[], Any]]:
    slow = Slow(lambda: SimpleNamespace())
    registry = tc.Registry([Source("slow", "acme-slow", "1.0", slow)], {})
    return slow, lambda: [plugin.status for plugin in registry.plugins()]


def the_first_executor_of_a_name(monkeypatch: pytest.MonkeyPatch) -> tuple[Slow, Callable[[], Any]]:
    slow = Slow(lambda: lambda: SimpleNamespace(launch=print, unavailable_reason=print))
    monkeypatch.setattr(running, "_found_on", lambda path: {"slow": [Source("slow", "acme-slow", "1.0", slow)]})
    monkeypatch.setattr(running, "_made", {})
    return slow, lambda: get_executor("slow") is get_executor("slow")


def a_linker(size_of_cubin: Callable[[Any], int]) -> mock.Mock:
    """The bindings of nvJitLink, which assemble nothing."""
    return mock.Mock(
        nvJitLinkError=RuntimeError, get_linked_cubin_size=size_of_cubin, get_info_log_size=lambda handle: 4
    )


def the_linker_of_cubin(monkeypatch: pytest.MonkeyPatch) -> tuple[Slow, Callable[[], Any]]:
    slow = Slow(lambda handle: 4)
    library = a_linker(size_of_cubin=slow)
    monkeypatch.setattr(assemblers, "_nvjitlink_bindings", lambda: (library, "13.0", lambda *arguments: 0))
    return slow, lambda: assemblers.assemble("", "sm_90", "nvjitlink")


def a_call_of_the_driver(name: str) -> tuple[Slow, Callable[[], Any]]:
    fake = FakeDriver(sizes=(8, 8))
    slow = Slow(getattr(fake, name))
    setattr(fake, name, slow)
    kernel = round_trip((256, 64), (128, 64), "float16", target="sm_90")
    cuda = CudaExecutor(fake)
    return slow, lambda: cuda.launch(kernel, ARGUMENTS) or len(fake.launches)


@pytest.mark.filterwarnings("ignore::tilecopy_core.PluginWarning")
@pytest.mark.parametrize(
    "held",
    [
        plugins_of_a_registry,
        the_first_executor_of_a_name,
        the_linker_of_cubin,
        *(
            partial(a_call_of_the_driver, name)
            for name in (
                "cuInit",
                "cuDeviceGetName",
                "cuDevicePrimaryCtxRetain",
                "cuModuleLoadDataEx",
                "cuModuleGetFunction",
            )
        ),
    ],
    ids=lambda held: str(getattr(held, "__name__", getattr(held, "args", ""))),
)
def test_a_fork_waits_for_what_another_thread_loads(held: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, use = held() if held is plugins_of_a_registry or isinstance(held, partial) else held(monkeypatch)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(use()))
    thread.start()
    assert slow.begun.wait(200)
    answer = in_a_fork(use)
    thread.join()
    assert answer in (*found, 2) or "spawn" in answer


def test_a_fork_in_a_plugin_that_is_being_loaded_goes_on() -> None:
    """The thread that forks holds the lock itself."""
    registry = tc.Registry([Source("forks", "acme-forks", "1.0", lambda: in_a_fork(lambda: 7))], {})
    with pytest.warns(tc.PluginWarning, match=mentions("acme-forks", "1.0")):
        registry.plugins()


def test_threads_are_in_the_linker_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(8, timeout=200)
    library = a_linker(size_of_cubin=lambda handle: 4)
    library.complete.side_effect = lambda handle: meeting.wait()
    monkeypatch.setattr(assemblers, "_nvjitlink_bindings", lambda: (library, "13.0", lambda *arguments: 0))
    codes: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: codes.append(assemblers.assemble("", "sm_90", "nvjitlink"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [bytes(4)] * 8


def test_a_fork_by_the_thread_that_is_in_the_linker_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example by a signal's handler. The child can use the linker, too."""
    library = a_linker(size_of_cubin=lambda handle: 4)
    monkeypatch.setattr(assemblers, "_nvjitlink_bindings", lambda: (library, "13.0", lambda *arguments: 0))

    def again(handle: Any) -> None:
        library.complete.side_effect = None
        assert in_a_fork(lambda: assemblers.assemble("", "sm_90", "nvjitlink")) == bytes(4)

    library.complete.side_effect = again
    assert assemblers.assemble("", "sm_90", "nvjitlink") == bytes(4)
    assert in_a_fork(lambda: assemblers.assemble("", "sm_90", "nvjitlink")) == bytes(4)


FIRST_CALLS = {
    "relayout": "use('tilecopy_relayout').relayout(np.ones((8, 8, 8), np.float32), (2, 0, 1), executor='emulator')",
    "relayout of no permutation": "use('tilecopy_relayout').relayout(np.ones(4), (1.5,))",
    "explain": "plan().explain()",
    "a notebook": "plan()._repr_html_()",
    "compare": "repr(tc.compare(*tiles, scope=tc.cta(128), targets='sm_90'))",
    "cubin": "kernel().cubin()",
    "save and load": "tc.load_kernel(kernel().save(folder))",
    "cuda_header": "tc.cuda_header([plan().cuda('f')])",
    "a wrong name": "tc.Buffer((8,), 'flot16', space='shared')",
    "elements of ml_dtypes": "tc.dtype_of('bfloat16').numpy()",
    "the GPU": "kernel()(np.zeros(32, np.float32), executor='cuda')",
    "no executor": "use('tilecopy.executors').get_executor('curda')",
    "run_ptx": "use('tilecopy_emulator').run_ptx(kernel().ptx, (np.zeros(32, np.float32),), grid=1, block='x')",
    "run_cuda": "use('tilecopy_emulator').run_cuda('__global__ void f(int *a) {}', (np.zeros(1),), grid=1, block=1)",
    "draw": "use('tilecopy_draw').draw(plan()).bytes_as('.png')",
}
"""What a thread may do first, while another one forks."""
EACH_IN_A_CHILD = """
import os, sys
import numpy as np
import tilecopy as tc
from importlib import import_module
from tilecopy_core.registry import LOCK

calls, folder = eval(sys.argv[1]), sys.argv[2]
tiles = [tc.Buffer((64, 64), "float16", space=space)[:, :] for space in ("shared", "global")]

def plan():
    return tc.plan(*tiles, scope=tc.cta(128), target="sm_90")

def kernel():
    builder = tc.KernelBuilder("k", threads=32)
    a = builder.param("A", (32,), "float32")
    builder.store(a[builder.thread_id()], 1.0)
    return builder.build(target="sm_80", grid=1)

def use(module):
    with LOCK:
        return import_module(module)

class Listener:
    def find_spec(self, module, path=None, target=None):
        if not LOCK._is_owned():
            print(f"{name}: {module}", flush=True)

sys.meta_path.insert(0, Listener())
for name, call in calls.items():
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0, name
        continue
    try:
        eval(call)
    except tc.TilecopyError:
        pass
    except BaseException as error:
        print(f"{name}: {error!r}", flush=True)
    os._exit(0)
"""


def test_no_module_is_imported_outside_the_lock(tmp_path: Path) -> None:
    """A fork would leave the child a module that is half imported by a thread it has not, and would hang at it."""
    command = [sys.executable, "-c", EACH_IN_A_CHILD, repr(FIRST_CALLS), str(tmp_path / "kernel")]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == ""


IN_TWO_THREADS = """
import sys, threading
import tilecopy as tc

met = threading.Event()

class Waits:
    def find_spec(self, module, path=None, target=None):
        if module == "tilecopy.kernel.statements":
            met.set()
            threading.Event().wait(0.2)

sys.meta_path.insert(0, Waits())
thread = threading.Thread(target=__import__, args=("tilecopy.kernel.builder",))
thread.start()
met.wait()
tc.KernelBuilder
thread.join()
"""


def test_an_import_and_a_name_that_is_imported_later_do_not_wait_for_each_other() -> None:
    """The one has the lock of the module that the other needs."""
    subprocess.run([sys.executable, "-c", IN_TWO_THREADS], check=True, timeout=200)


@pytest.mark.parametrize("started", [False, True])
def test_the_gpu_after_a_fork_is_a_clear_error(*, started: bool) -> None:
    """The driver of the parent answers CUDA_ERROR_NOT_INITIALIZED (3) to everything."""
    fake, kernel = FakeDriver(sizes=(8, 8)), round_trip((256, 64), (128, 64), "float16", target="sm_90")
    cuda = CudaExecutor(fake)
    ways: dict[str, Callable[[], Any]] = {"launch": lambda: cuda.launch(kernel, ARGUMENTS)}
    if started:
        cuda.launch(kernel, ARGUMENTS)
        prepared, launcher = cuda.prepare(kernel, ARGUMENTS), cuda.launch_by_address(kernel, ARGUMENTS)
        ways |= {"prepared": prepared, "launcher": lambda: launcher((0x7F0000001000, 0x7F0000002000))}
        ways["prepare"] = lambda: cuda.prepare(kernel, ARGUMENTS)

    def refused(act: Callable[[], Any]) -> Any:
        fake.fail = dict.fromkeys((name for name in dir(fake) if name.startswith("cu")), 3) | {"cuGetErrorString": 0}
        return act()

    for name, act in ways.items():
        answer = in_a_fork(partial(refused, act))
        assert answer.startswith("LaunchError"), (name, answer)
        assert "spawn" in answer
    assert cuda.launch(kernel, ARGUMENTS) is None, "the parent goes on"
