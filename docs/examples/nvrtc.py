"""CUDA C++ to PTX by NVRTC: `pip install nvidia-cuda-nvrtc`."""

from __future__ import annotations


def compiled(text: str, arch: str = "compute_80") -> str:
    """PTX of CUDA C++, by default for sm_80 and newer; RuntimeError with the compiler's log."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17"]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = bytes(size)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = bytes(size)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.rstrip(b"\0 ").decode()
