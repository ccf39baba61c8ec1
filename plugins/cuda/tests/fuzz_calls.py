"""Starting calls of the CUDA executor for the argument fuzzing of tests/fuzz."""

import numpy as np
import tilecopy_cuda
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_test_helpers.fake_driver import FakeDriver

MODULES = (tilecopy_cuda,)


def cuda():
    return CudaExecutor(FakeDriver())


def on_device():
    return tilecopy_cuda.DeviceArray((32,), "float32", executor=cuda())


def starting_calls(w):
    tilecopy_cuda.DeviceArray((4, 8), "float32", device=0, executor=cuda())
    on_device().copy_from(np.zeros(32, np.float32))
    on_device().copy_to(np.zeros(32, np.float32))
    on_device().fill(7)
    tilecopy_cuda.time_on_device(cuda(), lambda: None, runs=2, warm_up=1, device=0)


UNCALLED = {"the machine's settings make it": "CudaExecutor ComputeCache", "it takes no arguments": "DeviceArray.free"}
