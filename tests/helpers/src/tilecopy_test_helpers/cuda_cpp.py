"""CUDA C++ in tests: compiled by NVRTC, assembled, counted, run on the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest


@cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"no NVRTC: {error}; pip install nvidia-cuda-nvrtc")
    return nvrtc


def compiled(source: str, arch: str = "compute_90", *defines: str, kind: str = "PTX") -> Any:
    """PTX (or, for an ``sm_`` architecture and ``kind="CUBIN"``, machine code) of CUDA C++; AssertionError with the log."""
    nvrtc = _nvrtc()
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"test.cu", 0, [], [])
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", *(f"-D{each}".encode() for each in defines)]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(size)  # written in place: of one byte it is Python's own b"\0", which stays what it is
    nvrtc.nvrtcGetProgramLog(program, log)
    assert result == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode() + source
    _, size = getattr(nvrtc, f"nvrtcGet{kind}Size")(program)
    made = bytes(size)
    getattr(nvrtc, f"nvrtcGet{kind}")(program, made)
    nvrtc.nvrtcDestroyProgram(program)
    return made.rstrip(b"\0 ").decode() if kind == "PTX" else made


@cache
def _context() -> Any:
    """The first GPU's primary context, kept for the whole run."""
    from cuda.bindings import driver

    error, device = driver.cuDeviceGet(0)
    assert error == driver.CUresult.CUDA_SUCCESS, error
    error, context = driver.cuDevicePrimaryCtxRetain(device)
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return context


def encoded_map(
    address: int, *, sizes: Sequence[int], strides_bytes: Sequence[int], box: Sequence[int], swizzle: str
) -> Any:
    """A tensor map of float16 as the driver encodes it, innermost dimension first."""
    from cuda.bindings import driver

    mode = getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle.upper()}")
    error, made = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        len(sizes),
        address,
        [driver.cuuint64_t(each) for each in sizes],
        [driver.cuuint64_t(each) for each in strides_bytes],
        [driver.cuuint32_t(each) for each in box],
        [driver.cuuint32_t(1) for _ in sizes],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        mode,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return made


def run_on_gpu(image: bytes, entry: str, arguments: list[Any], *, grid: Any, block: int, shared_bytes: int = 0) -> None:
    """Run a kernel of a cubin, or of PTX that ends in a zero byte.

    Arrays are copied to the GPU and back, integers are int32; ``(array, box)`` is a tensor map of an array that comes before it, with
    the keywords of :func:`encoded_map`.
    """
    import ctypes

    from cuda.bindings import driver

    def call(answer: Any) -> Any:
        error, *rest = answer
        assert error == driver.CUresult.CUDA_SUCCESS, driver.cuGetErrorName(error)[1]
        return rest[0] if rest else None

    call(driver.cuInit(0))
    call(driver.cuCtxSetCurrent(_context()))
    module = call(driver.cuModuleLoadData(image))
    function = call(driver.cuModuleGetFunction(module, entry.encode()))
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    call(driver.cuFuncSetAttribute(function, limit, shared_bytes))
    arrays, values, places = list[tuple[Any, int]](), list[Any](), list[int]()
    for argument in arguments:
        if isinstance(argument, tuple):
            array, box = argument
            values.append(encoded_map(next(address for each, address in arrays if each is array), **box))
            places.append(values[-1].getPtr())
            continue
        if isinstance(argument, int):
            values.append(ctypes.c_int32(argument))
        else:
            address = int(call(driver.cuMemAlloc(max(argument.nbytes, 1))))
            call(driver.cuMemcpyHtoD(address, argument.ctypes.data, argument.nbytes))
            arrays.append((argument, address))
            values.append(ctypes.c_uint64(address))
        places.append(ctypes.addressof(values[-1]))
    pointers = (ctypes.c_void_p * len(places))(*places)
    x, y, z = (*grid, 1, 1)[:3] if isinstance(grid, tuple) else (grid, 1, 1)
    call(driver.cuLaunchKernel(function, x, y, z, block, 1, 1, shared_bytes, 0, ctypes.addressof(pointers), 0))
    call(driver.cuCtxSynchronize())
    for array, address in arrays:
        call(driver.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes))
        call(driver.cuMemFree(address))
    call(driver.cuModuleUnload(module))
