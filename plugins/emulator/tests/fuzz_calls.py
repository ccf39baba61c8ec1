"""Starting calls of the emulator for the argument fuzzing of tests/fuzz."""

import numpy as np
import tilecopy_emulator

MODULES = (tilecopy_emulator,)
PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n, .param .f32 f, .param .align 8 .b8 s[16]) {
    .reg .b32 %r<4>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [a]; ld.param.u32 %r1, [n];
    st.global.b32 [%d1], %r1;
    add.u32 %r2, %r1, 1;
    ret;
}
"""
TENSOR = ("float32", (8, 4), (32,), (8, 4), (1, 2), "32B", "nan")


def arguments():
    return [np.zeros(4, np.uint32), 3, 1.5, bytes(16)]


def struct_arguments():
    return [np.zeros(4, np.uint32), 3, 1.5, tilecopy_emulator.Struct(3, 0.5, None)]


def ignore(*arguments):
    return None


SHAPE = {"grid": (1, 1, 1), "block": (1, 1, 1), "cluster": (1, 1, 1)}


def starting_calls(w):
    tilecopy_emulator.run_ptx(PTX, arguments(), **SHAPE, allow=("same-value",), observer=ignore, progress=ignore)
    tilecopy_emulator.run_ptx(PTX, struct_arguments(), **SHAPE, observer=ignore, progress=ignore)
    tilecopy_emulator.Pointer(None)
    tilecopy_emulator.Struct(3, 0.5)
    tilecopy_emulator.parse(PTX, "k")
    tilecopy_emulator.EmulatorExecutor(profile=True, progress=ignore, observer=ignore)
    tilecopy_emulator.executor().unavailable_reason(w.kernel)
    tilecopy_emulator.executor().launch(w.kernel, [], grid=1, stream=None)
    tilecopy_emulator.TensorMap(4096, *TENSOR)
    tilecopy_emulator.TensorMap(4096, *TENSOR).encode(4096)
    tilecopy_emulator.tensor_map(4096, *TENSOR)
    tilecopy_emulator.UnsupportedPtxError("no", 1)


UNCALLED = {
    "it takes no arguments": "EmulatorExecutor.extensions",
    "parse makes it": "Program",
    "the emulator makes it": "AccessEvent Report Transfer TransferEnd",
    "for steps: their own tests": "TensorMap.fill_bytes",
    "a compiler runs for each value: its own tests pass odd arguments": "run_cuda",
}
