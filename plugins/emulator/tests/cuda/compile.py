"""Compile the ``.cu`` files beside this one to ``.ptx`` with NVRTC (``pip install cuda-python nvidia-cuda-nvrtc nvidia-cuda-runtime``)."""

import sys
from pathlib import Path

import nvidia
from cuda.bindings import nvrtc

here = Path(__file__).parent
include = next(path for root in nvidia.__path__ for path in Path(root).rglob("cuda_fp16.h")).parent
for source in sorted(here.glob("*.cu")):
    if sys.argv[1:] and source.stem not in sys.argv[1:]:
        continue
    _, program = nvrtc.nvrtcCreateProgram(source.read_bytes(), source.name.encode(), 0, [], [])
    options = [b"--gpu-architecture=compute_90", b"--std=c++17", b"-default-device", f"-I{include}".encode()]
    options += [b"--device-int128"] if "__int128" in source.read_text() else []
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(f"{source.name}: {log.decode()}")
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    source.with_suffix(".ptx").write_text(text.rstrip(b"\0 ").decode().rstrip() + "\n")
