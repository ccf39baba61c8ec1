"""Starting calls of the emulator and its interface for instructions for the argument fuzzing of tests/fuzz."""

import numpy as np
import tilecopy_emulator
from tilecopy_emulator import extending
from tilecopy_emulator.threads.arrays import GlobalMemory

MODULES = (tilecopy_emulator, extending)
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
ONLY_READS = PTX.replace("st.global.b32 [%d1], %r1;", "")
TENSOR = ("float32", (8, 4), (32,), (8, 4), (1, 2), "32B", "nan")


def program(text=PTX):
    return tilecopy_emulator.parse(text)


def arguments():
    return [np.zeros(4, np.uint32), 3, 1.5, bytes(16)]


def struct_arguments():
    return [np.zeros(4, np.uint32), 3, 1.5, tilecopy_emulator.Struct(3, 0.5, None)]


def a_form():
    return extending.form("avg{.up}", "u32", "t = t t", lambda mode: lambda a, b: a + b)


def ignore(*arguments):
    return None


NUMBERS = {parameter.name: bytes(parameter.bytes) for parameter in program().parameters}
SHAPE = {"grid": (1, 1, 1), "block": (1, 1, 1), "cluster": (1, 1, 1)}
GRID = {**SHAPE, "parameters": NUMBERS, "memory": GlobalMemory()}


def starting_calls(w):
    tilecopy_emulator.run_ptx(PTX, arguments(), **SHAPE, allow=("same-value",), observer=ignore, progress=ignore)
    tilecopy_emulator.run_ptx(PTX, struct_arguments(), **SHAPE, observer=ignore, progress=ignore)
    tilecopy_emulator.Pointer(None)
    tilecopy_emulator.Struct(3, 0.5)
    tilecopy_emulator.parse(PTX, "k")
    tilecopy_emulator.run_grid(program(ONLY_READS), **GRID, origin_of=str, observer=ignore, progress=ignore)
    tilecopy_emulator.EmulatorExecutor(profile=True, progress=ignore, observer=ignore)
    tilecopy_emulator.executor().why_unavailable(w.kernel)
    tilecopy_emulator.executor().launch(w.kernel, [], grid=1, stream=None)
    tilecopy_emulator.TensorMap(4096, *TENSOR)
    tilecopy_emulator.TensorMap(4096, *TENSOR).encode(4096)
    tilecopy_emulator.tensor_map(4096, *TENSOR)
    tilecopy_emulator.UnsupportedPtxError("no", 1)
    extending.Access("global", 4, "weak", "gpu")
    extending.Form("avg", ((("up",), False),), frozenset({("u32",)}), ("t",), ("t", "t"), ignore)
    a_form().match(("u32",), ("up",))
    a_form().type_of("t", extending.Mode(("u32",), frozenset()))
    extending.Mode(("u32",), frozenset({"up"}))
    extending.Mode(("u32",), frozenset({"up"})).has("up")
    extending.Mode(("u32",), frozenset({"up"})).one_of("up", default="")
    extending.address_reader(extending.Memory("%d1", 0), program().instructions[2], program())
    extending.arithmetic(a_form())
    extending.demand_parts(program().instructions[2], {"global", "b32"})
    extending.form("avg{.up}", "u32", "t = t t", lambda mode: None)
    extending.is_constant("12")
    extending.reader("%r1", "u32", program().instructions[2], program())
    extending.refuse(program().instructions[2], "no")
    extending.width_of("u32")
    extending.writer("%r1", "u32", program().instructions[2], program())


UNCALLED = {
    "it takes no arguments": "EmulatorExecutor.extensions Form.spellings",
    "parse makes it": "Instruction Memory Negated Offset Pair Program TensorAddress Vector",
    "the emulator makes it": "Machine Report Side Transfer",
    "for steps: their own tests": "check_global start_copy TensorMap.fill_bytes UndefinedResultError",
    "a compiler runs for each value: its own tests pass odd arguments": "run_cuda",
}
