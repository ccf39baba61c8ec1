"""The encoding of tensor maps by the driver (CUDA driver API, cuTensorMapEncodeTiled)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tilecopy.errors import LaunchError
from tilecopy.kernel.tensor_map_args import TensorMapArgs

_TYPES = {8: 0, 16: 1, 32: 2, 64: 4}
"""Bits of an element -> CUtensorMapDataType, an unsigned integer because a copy moves bits."""
_FLOATS = {"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
"""Bits of an element -> CUtensorMapDataType with a fill of NaN, which the driver supports only for floats."""
_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3, "128B_atom_32B": 4, "128B_atom_64B": 6}
_L2_256B = 3


def encoder(function: int, error: Callable[[str, int], LaunchError]) -> Callable[[TensorMapArgs], bytes]:
    """Return an encoder of tensor maps. ``function`` is the address of the driver's ``cuTensorMapEncodeTiled``."""
    u64, u32, pointer = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p
    call: Any = ctypes.CFUNCTYPE(
        ctypes.c_int, pointer, ctypes.c_int, u32, pointer, pointer, pointer, pointer, pointer, *[ctypes.c_int] * 4
    )(function)

    def encode(facts: TensorMapArgs) -> bytes:
        memory = ctypes.create_string_buffer(128 + 63)
        at = -(-ctypes.addressof(memory) // 64) * 64
        rank = len(facts.sizes)
        kind = _FLOATS[facts.dtype] if facts.fill == "nan" else _TYPES[facts.element_bits]
        sizes, strides = (u64 * rank)(*facts.sizes), (u64 * 5)(*facts.strides_bytes)
        box, element_strides = (u32 * rank)(*facts.box), (u32 * rank)(*(facts.element_strides or (1,) * rank))
        modes = 0, _SWIZZLES[facts.swizzle], _L2_256B, int(facts.fill == "nan")
        code = call(at, kind, rank, facts.address, sizes, strides, box, element_strides, *modes)
        if code:
            raise error(f"cannot encode the tensor map of argument {facts.array}: {facts}", code)
        return ctypes.string_at(at, 128)

    return encode
