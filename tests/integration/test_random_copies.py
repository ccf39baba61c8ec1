"""Copies drawn at random against an oracle that knows the definition of a layout and nothing of the lowering."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import S, TileLayout
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers.drawn_layouts import layouts
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples
from tilecopy_testkit import oracle

DTYPES = [
    "uint8",
    "int8",
    "bool",
    "float8_e4m3fn",
    "int16",
    "float16",
    "bfloat16",
    "int32",
    "uint32",
    "float32",
    "int64",
    "float64",
    "complex64",
]
NAMES = {"A": "A", "s": "tile", "B": "B"}
"""The buffer of each side."""
SENTINEL = 0xA5
Start = Callable[[dict[str, Any]], Any]


def opposite(condition: Any) -> Any:
    """Not a condition, or not a bool."""
    return not condition if isinstance(condition, bool) else ~condition


GUARDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "i < n": lambda e: e["i"] < e["n"],
    "i + bx <= n": lambda e: e["i"] + e["bx"] <= e["n"],
    "2 * i + bx < 4": lambda e: 2 * e["i"] + e["bx"] < 4,
    "not (i >= n)": lambda e: opposite(e["i"] >= e["n"]),
    "i > 0 and i != n": lambda e: (e["i"] > 0) & (e["i"] != e["n"]),
    "bx == 0 or i < 2": lambda e: (e["bx"] == 0) | (e["i"] < 2),
    "not (bx > 0 and i > 1)": lambda e: opposite((e["bx"] > 0) & (e["i"] > 1)),
    "i // 2 < 1": lambda e: e["i"] // 2 < 1,
    "(i + bx) // 2 >= 1": lambda e: (e["i"] + e["bx"]) // 2 >= 1,
    "u < 1": lambda e: e["u"] < 1,
    "i % 2 == 1": lambda e: e["i"] % 2 == 1,
}
UNNARROWED = {"i % 2 == 1", "2 * i + bx < 4"}
"""What a remainder says of a number is not used, nor that several numbers together are whole: bounds hold without."""


@st.composite
def starts(draw: st.DrawFn) -> tuple[str, Start]:
    """A start as arithmetic on ``bx`` (block), ``i`` (loop), ``n`` (scalar) and ``u`` (warp, thread ..)."""
    kind = draw(st.sampled_from(["constant", "constant", "linear", "linear", "falling", "quotient", "remainder"]))
    factor = draw(st.sampled_from([1, 2, 3, 4, 8, 16]))
    name, other = draw(st.sampled_from(["bx", "i", "n", "u"])), draw(st.sampled_from(["bx", "i", "n", "u"]))
    if kind == "constant":
        return str(factor - 1), lambda e: factor - 1
    if kind == "linear":
        return f"{factor} * ({name} + {other})", lambda e: factor * (e[name] + e[other])
    if kind == "falling":
        return f"{factor} * (3 * {other} - {name})", lambda e: factor * (3 * e[other] - e[name])
    if kind == "quotient":
        return f"({name} + {other}) // 2 * {factor}", lambda e: (e[name] + e[other]) // 2 * factor
    return f"({name} + 3 * {other}) % 4 * {factor}", lambda e: (e[name] + 3 * e[other]) % 4 * factor


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """A copy in, and a copy out, of one box."""
    scope = draw(st.sampled_from(["cta", "cta", "warp", "thread", "warpgroup"]))
    threads = draw(
        st.sampled_from(
            {"cta": [1, 2, 5, 24, 32, 48, 64], "warp": [32, 64], "thread": [1, 2, 3], "warpgroup": [128]}[scope]
        )
    )
    each = {"cta": threads, "warp": 32, "thread": 1, "warpgroup": 128}[scope]
    box = draw(
        st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 16]), min_size=1, max_size=3).filter(lambda b: prod(b) <= 48)
    )
    box[draw(st.integers(0, len(box) - 1))] *= each
    grid, n, loop = (
        draw(st.sampled_from([1, 1, 2, 3])),
        draw(st.integers(1, 4)),
        draw(st.sampled_from(["", "", "3", "n", "n from 1"])),
    )
    sides = {side: [draw(starts()) for _ in box] for side in ("A", "s", "B")}
    return {
        "dtype": draw(st.sampled_from(DTYPES)),
        "scope": scope,
        "threads": threads,
        "box": tuple(box),
        "grid": grid,
        "n": n,
        "loop": loop,
        "guard": draw(st.sampled_from([None, None, None, *GUARDS])),
        "starts": {side: [text for text, _ in found] for side, found in sides.items()},
        "functions": {side: [function for _, function in found] for side, found in sides.items()},
        "op": draw(st.sampled_from(["copy", "copy", "copy_async"])),
        "broadcast": draw(st.sampled_from([None, None, None, 0, 1])),
        "storage_offset": draw(st.sampled_from([0, 0, 0, 2, 4, 8])),
        "data": draw(st.data()),
    }


class Drawn:
    """One case: the arrays as bytes, what the definition makes of them, and the kernel."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.box, self.dtype = case["box"], tc.dtype_of(case["dtype"])
        self.units = {"cta": 1, "warp": case["threads"] // 32, "thread": case["threads"], "warpgroup": 1}[case["scope"]]
        turns = {"": [0], "3": range(3), "n": range(case["n"]), "n from 1": range(1, 1 + case["n"])}[case["loop"]]
        self.turns = [
            [{"bx": bx, "i": i, "n": case["n"], "u": u} for u in range(self.units)]
            for bx in range(case["grid"])
            for i in turns
        ]
        guard = GUARDS[case["guard"]] if case["guard"] else None
        self.active = [e for turn in self.turns for e in turn if guard is None or guard(e)]
        known = [e for turn in self.turns for e in turn] if case["guard"] in UNNARROWED else self.active
        self.starts: dict[str, list[Start]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for side, functions in case["functions"].items():
            made, sizes = [], []
            for text, function, extent in zip(case["starts"][side], functions, self.box, strict=True):
                values = [function(e) for e in known] or [0]
                if "%" in text:  # every remainder counts, whether or not it comes up
                    values = [0, 3 * int(text.rpartition(" ")[2])]
                low, high = min(values), max(values)
                made.append(lambda e, function=function, low=low: function(e) - low)
                sizes.append(high - low + extent)
            self.starts[side], self.shapes[side] = made, tuple(sizes)
        draw = case["data"].draw
        self.lead = {"A": (), "s": (self.units,), "B": (case["grid"], self.units)}
        self.layouts = {side: list(draw(layouts((*self.lead[side], *self.shapes[side])), label=side)) for side in "AsB"}
        for side in "AB":  # parameters have one stride a dimension and no swizzle
            shape = (*self.lead[side], *self.shapes[side])
            order = draw(st.permutations(range(len(shape))), label="order")
            strides, step = [0] * len(shape), 1
            for dim in order:
                strides[dim] = step
                step = step * shape[dim] + draw(st.sampled_from([0, 0, 1, 8]), label="gap")
            self.layouts[side] = [shape, tuple(strides), 0, None]
        if case["broadcast"] is not None and case["broadcast"] < len(self.box):
            shape, strides, _, _ = self.layouts["A"]
            self.layouts["A"][1] = tuple(0 if d == case["broadcast"] else s for d, s in enumerate(strides))

    def places(self, side: str) -> Any:
        """Element address of each flat index of a side."""
        extents, strides, offset, swizzle = self.layouts[side]
        found = oracle.addresses(extents, strides, offset)
        return (found if swizzle is None else oracle.swizzle_address(found, *swizzle)) + (
            self.case["storage_offset"] if side == "s" else 0
        )

    def span(self, side: str) -> int:
        extents, strides, offset, swizzle = self.layouts[side]
        span = sum((e - 1) * s for e, s in zip(extents, strides, strict=True)) + 1 + offset
        block = 1 if swizzle is None else 1 << swizzle[0] + swizzle[1]
        return -(-span // block) * block + (self.case["storage_offset"] if side == "s" else 0)

    def expected(self, memory: dict[str, Any]) -> tuple[Any, Any]:
        """Shared memory of each CTA and the memory of B, element by element as bytes."""
        places = {side: self.places(side) for side in "AsB"}
        shapes = {side: (*self.lead[side], *self.shapes[side]) for side in "AsB"}
        guard = GUARDS[self.case["guard"]] if self.case["guard"] else None
        size = self.dtype.bytes
        shared = np.full((self.case["grid"], self.span("s"), size), SENTINEL, np.uint8)
        result = memory["B"].copy()

        def at(side: str, e: dict[str, Any]) -> Any:
            lead = {"A": (), "s": (e["u"],), "B": (e["bx"], e["u"])}[side]
            begin = (*lead, *(start(e) for start in self.starts[side]))
            return places[side][byte_arrays.box_flat(shapes[side], begin, ((1,) * len(lead) + self.box))]

        for turn in self.turns:
            active = [e for e in turn if guard is None or guard(e)]
            for e in active:
                shared[e["bx"], at("s", e)] = memory["A"][at("A", e)]
            for e in active:
                result[at("B", e)] = shared[e["bx"], at("s", e)]
        return shared, result

    def kernel(self, smaller: tuple[str, int] | None = None) -> tc.BuiltKernel:
        """The kernel; ``smaller`` takes one element off a dimension of a side."""
        case = self.case
        k = tc.KernelBuilder("drawn", threads=case["threads"])
        shapes = {side: [*self.lead[side], *self.shapes[side]] for side in "AsB"}
        if smaller is not None:
            shapes[smaller[0]][smaller[1]] -= 1
        a = k.param("A", shapes["A"], self.dtype, strides=self.layouts["A"][1], align_bytes=16)
        b = k.param("B", shapes["B"], self.dtype, strides=self.layouts["B"][1], align_bytes=16)
        span = self.span("s") * self.dtype.bytes
        dump = k.param("D", (case["grid"], span), "uint8")
        n = k.scalar("n", upper=10)
        extents, strides, offset, swizzle = self.layouts["s"]
        layout: tc.Layout = TileLayout(S[extents:strides] + offset) if offset else TileLayout(S[extents:strides])
        if swizzle is not None:
            layout = tc.SwizzledLayout(tc.Swizzle(*swizzle), layout)
        pool = k.shared(self.span("s"), self.dtype, name="tile", align_bytes=16)
        if smaller is not None and smaller[0] == "s":
            layout = TileLayout(S[tuple(shapes["s"])])
        s = tc.Buffer(
            shapes["s"],
            self.dtype,
            space="shared",
            name="tile",
            layout=layout,
            memory=pool.memory,
            storage_offset=case["storage_offset"],
            align_bytes=16,
        )
        tid = k.thread_id()
        unit = {"cta": 0, "warp": k.warp_id(), "thread": tid, "warpgroup": 0}[case["scope"]]
        count = -(-span // case["threads"])
        raw = "{{{{ .reg .b32 at, v; mov.u32 at, smem_tile; add.s32 at, at, {{0}}; {} }}}}"
        with k.range(count) as turn, k.if_(turn * case["threads"] + tid < span):
            k.inline_ptx(raw.format(f"mov.b32 v, {SENTINEL}; st.shared.u8 [at], v;"), turn * case["threads"] + tid)
        k.cta_sync()
        loop = {"": None, "3": (3, 0), "n": (n, 0), "n from 1": (n, 1)}[case["loop"]]
        e: dict[str, Any] = {"bx": k.block_id() if case["grid"] > 1 else 0, "n": n, "u": unit, "i": 0}

        def body() -> None:
            guard = GUARDS[case["guard"]](e) if case["guard"] else True
            boxes = {}
            for side, lead in (("A", ()), ("s", (e["u"],)), ("B", (e["bx"], e["u"]))):
                boxes[side] = tuple(slice(at, at + 1) for at in lead)
                for start, extent in zip(self.starts[side], self.box, strict=True):
                    boxes[side] += (slice(start(e), start(e) + extent),)
            copies = getattr(k, case["scope"])
            with k.if_(guard):
                if case["op"] == "copy":
                    copies.copy(s[boxes["s"]], a[boxes["A"]])
                else:
                    copies.copy_async(s[boxes["s"]], a[boxes["A"]])
            if case["op"] == "copy_async":
                k.cp_async_commit()
                k.cp_async_wait(0)
            k.cta_sync()
            with k.if_(guard):
                copies.copy(b[boxes["B"]], s[boxes["s"]])
            k.cta_sync()

        if loop is None:
            body()
        else:
            for index in k.range(loop[0], start=loop[1]):
                e["i"] = index
                body()
        with k.range(count) as turn, k.if_(turn * case["threads"] + tid < span):
            k.inline_ptx(
                raw.format("ld.shared.u8 v, [at]; st.global.u8 {1}, v;"),
                turn * case["threads"] + tid,
                dump[k.block_id() if case["grid"] > 1 else 0, turn * case["threads"] + tid],
            )
        return k.build(target="sm_90a", grid=case["grid"])

    def refused_when_smaller(self, side: str, dim: int) -> None:
        """Build and check the kernel with one element less in a dimension."""
        kernel = self.kernel((side, dim + len(self.lead[side])))
        kernel.check_bounds((self.case["grid"], 1, 1), {"n": self.case["n"]})


def view(memory: Any, shape: tuple[int, ...], strides: tuple[int, ...], dtype: tc.DType) -> Any:
    """An array over elements that are rows of bytes."""
    flat = np.ascontiguousarray(memory).reshape(-1).view(dtype.numpy())
    return np.lib.stride_tricks.as_strided(flat, shape, tuple(s * dtype.bytes for s in strides))


def check(case: dict[str, Any]) -> str:
    """Run a case; what became of it, for counting."""
    drawn = Drawn(case)
    if not drawn.active:
        return "never active"
    if drawn.span("s") * drawn.dtype.bytes > min(40000, 256 * case["threads"] + 512):
        return "large"
    try:
        kernel = drawn.kernel()
    except tc.NoVariantError as error:
        assert error.declined, error
        return "declined"
    random = np.random.default_rng(1)
    size = drawn.dtype.bytes
    memory = {side: random.integers(0, 256, (drawn.span(side), size), np.uint8) for side in "AB"}
    shared, result = drawn.expected(memory)
    held = {side: memory[side].copy() for side in "AB"}
    dump = np.zeros((case["grid"], drawn.span("s") * size), np.uint8)
    a, b = (
        view(held[side], (*drawn.lead[side], *drawn.shapes[side]), drawn.layouts[side][1], drawn.dtype) for side in "AB"
    )
    kernel(a, b, dump, case["n"], executor="emulator")
    assert dump.tobytes() == shared.tobytes(), kernel.explain()
    assert np.array_equal(held["B"], result), kernel.explain()
    for side in "AsB":
        for dim, size_of in enumerate(drawn.shapes[side]):
            values = {drawn.starts[side][dim](e) for e in drawn.active}
            symbolic = case["starts"][side][dim].strip("0123456789") and size_of > drawn.box[dim]
            if symbolic and max(values) + drawn.box[dim] == size_of:
                with pytest.raises(tc.TilecopyError, match=mentions(NAMES[side], size_of - 1)):
                    drawn.refused_when_smaller(side, dim)
                return "run, and refused when smaller"
    return "run"


@examples(120)
@given(cases())
def test_copies_move_what_the_definition_says_and_nothing_else(case: dict[str, Any]) -> None:
    check(case)
