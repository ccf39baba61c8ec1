"""What the driver needs to encode a tensor map (CUDA driver API, cuTensorMapEncodeTiled)."""

from __future__ import annotations

from tilecopy_core.errors import frozen


@frozen
class TensorMapArgs:
    """A frozen record of a tensor map with the values of a launch. ``array`` is the name of the array parameter."""

    array: str
    address: int
    dtype: str
    element_bits: int
    sizes: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    fill: str

    def __str__(self) -> str:
        return (
            f"{self.dtype} at 0x{self.address:x}, sizes {self.sizes}, strides {self.strides_bytes} bytes, box {self.box}, "
            f"element strides {self.element_strides}, swizzle {self.swizzle}, fill {self.fill}"
        )
