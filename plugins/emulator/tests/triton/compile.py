"""Compile the kernels of this file to ``.ptx`` beside it with Triton's ahead-of-time compiler (``pip install triton``; no GPU needed)."""

import re
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@triton.jit
def softmax(out, x, stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + columns, mask=columns < width, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + columns, values / tl.sum(values, axis=0), mask=columns < width)


@triton.jit
def transpose(x, out, rows, cols, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (i[:, None] < rows) & (j[None, :] < cols)
    tile = tl.load(x + i[:, None] * cols + j[None, :], mask=mask)
    tl.store(out + j[:, None] * rows + i[None, :], tl.trans(tile), mask=tl.trans(mask))


@triton.jit
def layer_norm(x, weight, bias, out, stride, width, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    mask = columns < width
    values = tl.load(x + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    centred = tl.where(mask, values - tl.sum(values, 0) / width, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / width + epsilon)
    result = centred * scale * tl.load(weight + columns, mask=mask) + tl.load(bias + columns, mask=mask)
    tl.store(out + row * stride + columns, result.to(tl.float16), mask=mask)


@triton.jit
def cumulative_sum(x, out, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    tl.store(out + columns, tl.cumsum(tl.load(x + columns), 0))


@triton.jit
def float8(x, out, back, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + columns)
    tl.store(out + columns, values.to(tl.float8e5))
    tl.store(back + columns, values.to(tl.float8e4nv).to(tl.float32))


KERNELS = {
    "vector_add": (
        vector_add,
        {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        {"BLOCK": 256},
    ),
    "softmax": (
        softmax,
        {"out": "*fp32", "x": "*fp32", "stride": "i32", "width": "i32", "BLOCK": "constexpr"},
        {"BLOCK": 256},
    ),
    "transpose": (
        transpose,
        {"x": "*fp16", "out": "*fp16", "rows": "i32", "cols": "i32", "BLOCK": "constexpr"},
        {"BLOCK": 32},
    ),
    "layer_norm": (
        layer_norm,
        {
            "x": "*fp16",
            "weight": "*fp32",
            "bias": "*fp32",
            "out": "*fp16",
            "stride": "i32",
            "width": "i32",
            "epsilon": "fp32",
            "BLOCK": "constexpr",
        },
        {"BLOCK": 512},
    ),
    "cumulative_sum": (cumulative_sum, {"x": "*i32", "out": "*i32", "BLOCK": "constexpr"}, {"BLOCK": 512}),
    "float8": (float8, {"x": "*fp32", "out": "*fp8e5", "back": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 256}),
}

for name, (function, signature, constants) in KERNELS.items():
    capability = 100 if name == "layer_norm" else 90
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs={})
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4})
    text = compiled.asm["ptx"]
    text = text[: text.index("\t.section")] if "\t.section" in text else text
    text = re.sub(r'(\.file\s+\d+ ")[^"]*/', r"\1", text)  # names of files, no folders
    (Path(__file__).parent / f"{name}.ptx").write_text(text)
    print(name, compiled.metadata.shared, compiled.metadata.num_warps)
