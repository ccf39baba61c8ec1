"""Register permutations, within threads and within warps, against what layouts mean."""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from typing import Any

import attrs
import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import R, S, TileLayout, laneid, tid_in_wg, tx, warpid
from tilecopy.assemblers import ASSEMBLERS, assemble
from tilecopy_test_helpers import byte_arrays
from tilecopy_test_helpers import programs as kernels
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples

from tilecopy_core.ptx import PtxBuilder

TARGETS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103", "sm_120"]
INSTALLED = {plugin.name for plugin in tc.default_registry().plugins()}
needs_memory_copies = pytest.mark.skipif(
    not {"reg", "gmem_smem"} <= INSTALLED, reason="needs tilecopy-reg and tilecopy-gmem-smem"
)

LANE, REGISTER = "laneid", "m"


@attrs.frozen
class Fragment:
    """A layout by its parts, and what it means in NumPy alone.

    Attributes:
        extents: of the logical dimensions.
        steps: ``(stride, axis)`` of each.
        repeats: ``(extent, stride, axis)`` of each replica.
    """

    extents: tuple[int, ...]
    steps: tuple[tuple[int, str], ...]
    repeats: tuple[tuple[int, int, str], ...] = ()

    @property
    def names_lanes(self) -> bool:
        """Whether it says which lane has what; else every lane has its own."""
        return any(on == LANE for *_, on in (*self.steps, *self.repeats))

    @property
    def layout(self) -> tc.Layout:
        found = TileLayout(
            S[self.extents : tuple(stride @ laneid if on == LANE else stride for stride, on in self.steps)]
        )
        for extent, stride, on in self.repeats:
            found = found + R[extent : stride @ laneid if on == LANE else stride]
        return found

    def places(self, box: tuple[slice, ...]) -> list[list[tuple[int, int]]]:
        """(lane, register) of each element of a box and of each of its copies."""
        shape = tuple(part.stop - part.start for part in box)
        found = []
        for coordinate in np.ndindex(shape):
            at = {LANE: 0, REGISTER: 0}
            for index, part, (stride, on) in zip(coordinate, box, self.steps, strict=True):
                at[on] += (index + part.start) * stride
            copies = [(at[LANE], at[REGISTER])]
            if not self.names_lanes:
                copies = [(lane, at[REGISTER]) for lane in range(32)]
            for extent, stride, on in self.repeats:
                copies = [
                    (lane + n * stride * (on == LANE), register + n * stride * (on == REGISTER))
                    for lane, register in copies
                    for n in range(extent)
                ]
            found.append(copies)
        return found


def whole(extents: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(0, extent) for extent in extents)


def registers_kernel(
    src: tc.Layout, dst: tc.Layout, extents: tuple[int, ...], dtype: str, *, box: tuple[slice, ...] | None = None,
    variant: str | None = None, in_place: bool = False, threads: int = 32, scope: str = "warp", target: str = "sm_90a",
) -> tc.BuiltKernel:  # fmt: skip
    """Each thread's source registers from IN, all its destination registers, filled from WAS before the copy, to OUT."""
    k = tc.KernelBuilder("registers", threads=threads)
    f = k.local(extents, dtype, layout=src, name="f")
    g = f.view(layout=dst) if in_place else k.local(extents, dtype, layout=dst, name="g")
    read, written = f.span_elems, (f if in_place else g).span_elems
    given = k.param("IN", (threads, read), dtype)
    was, out = (k.param(name, (threads, written), dtype) for name in ("WAS", "OUT"))
    held, result = k.registers(f), k.registers(f if in_place else g)
    if not in_place:
        for i in range(written):
            k.store(result[i], k.load(was[k.thread_id(), i]))
    for i in range(read):
        k.store(held[i], k.load(given[k.thread_id(), i]))
    at = box or whole(extents)
    getattr(k, scope).copy(g[at], f[at], variant=variant)
    for i in range(written):
        k.store(out[k.thread_id(), i], k.load(result[i]))
    return k.build(target=target, grid=1)


def check(
    src: Fragment, dst: Fragment, dtype: str, *, box: tuple[slice, ...] | None = None, variant: str | None = None,
    in_place: bool = False, executor: str = "emulator", target: str = "sm_90a",
) -> tc.BuiltKernel:  # fmt: skip
    """Every register of every lane after the copy, those that it leaves alone included."""
    kernel = registers_kernel(
        src.layout, dst.layout, src.extents, dtype, box=box, variant=variant, in_place=in_place, target=target
    )
    given = byte_arrays.random_array((32, src.layout.span()), dtype, 1)
    at = box or whole(src.extents)
    sources, targets = src.places(at), dst.places(at)
    for copies in sources:  # all copies of an element are the same
        for lane, register in copies:
            given[lane, register] = given[copies[0]]
    was = byte_arrays.random_array((32, (src if in_place else dst).layout.span()), dtype, 2)
    expected = (given if in_place else was).copy()
    for copies, places in zip(sources, targets, strict=True):
        for place in places:
            expected[place] = given[copies[0]]
    out = np.zeros_like(expected)
    kernel(given, was, out, executor=executor)
    assert byte_arrays.same_bytes(out, expected)
    return kernel


def instructions(kernel: tc.BuiltKernel) -> Counter[str]:
    """Opcodes of the copy alone."""
    ptx = PtxBuilder(tc.target_of("sm_80"), 32)
    kernel.plans[0].emit(ptx)
    return Counter(line.split(".")[0].strip() for line in map(str, ptx.recent) if "//" not in line)


# ---------------------------------------------------------------------------------------------- drawn fragments


@st.composite
def register_strides(draw: st.DrawFn, extents: tuple[int, ...]) -> list[int]:
    """Strides of register dimensions in an order of their own, with gaps now and then."""
    order = draw(st.permutations(range(len(extents))))
    strides, step = [0] * len(extents), 1
    for dim in order:
        strides[dim] = step * draw(st.sampled_from([1, 1, 1, 1, 2, 3]))
        step = strides[dim] * extents[dim]
    return strides


@st.composite
def fragments(draw: st.DrawFn, extents: tuple[int, ...], lanes: dict[int, int], limit: int = 96) -> Fragment:
    """A fragment whose dimensions ``lanes`` step along lanes as it says, and the others along registers."""
    own = [dim for dim in range(len(extents)) if dim not in lanes]
    strides = draw(register_strides(tuple(extents[dim] for dim in own)).filter(
        lambda found: sum(s * (extents[d] - 1) for s, d in zip(found, own, strict=True)) < limit
    ))  # fmt: skip
    by_dim = {dim: (stride, REGISTER) for dim, stride in zip(own, strides, strict=True)}
    by_dim |= {dim: (stride, LANE) for dim, stride in lanes.items()}
    return Fragment(extents, tuple(by_dim[dim] for dim in range(len(extents))))


def strides_of(extents: list[int], first: int = 1) -> list[int]:
    """Nested strides, the last dimension fastest."""
    return [first * prod(extents[i + 1 :]) for i in range(len(extents))]


@st.composite
def boxes(draw: st.DrawFn, extents: tuple[int, ...]) -> tuple[slice, ...]:
    """All of each dimension, or some."""
    found = []
    for extent in extents:
        start = draw(st.sampled_from([0, 0, 0, extent - 1])) if extent > 1 else 0
        stop = draw(st.sampled_from([extent, extent, start + 1]))
        found.append(slice(start, stop))
    return tuple(found)


@st.composite
def within_threads(draw: st.DrawFn) -> dict[str, Any]:
    """Two fragments with the same lanes, a box, an element type."""
    lane_extents = draw(st.sampled_from([(32,), (4, 8), (2, 3, 4), (16,), (5,), ()]))
    own = tuple(
        draw(st.lists(st.sampled_from([2, 2, 2, 3, 4]), min_size=1, max_size=4).filter(lambda x: prod(x) <= 32))
    )
    dims = draw(st.permutations([*((e, True) for e in lane_extents), *((e, False) for e in own)]))
    extents = tuple(extent for extent, _ in dims)
    along = [dim for dim, (_, on_lane) in enumerate(dims) if on_lane]
    order = draw(st.permutations(along))
    lanes = dict(zip(order, strides_of([extents[dim] for dim in order]), strict=True))
    return {
        "src": draw(fragments(extents, lanes)),
        "dst": draw(fragments(extents, lanes)),
        "dtype": draw(st.sampled_from(["uint8", "uint8", "uint16", "uint32", "uint64"])),
        "box": draw(boxes(extents)),
    }


@st.composite
def within_warps(draw: st.DrawFn) -> dict[str, Any]:
    """Two fragments of which each has lanes of its own; powers of two (transposes) and others."""
    if draw(st.booleans()):
        extents = tuple(draw(st.permutations([2] * draw(st.integers(6, 8)))))
    else:
        extents = tuple(
            draw(st.lists(st.sampled_from([2, 3, 4]), min_size=2, max_size=4).filter(lambda x: prod(x) <= 96))
        )
    found = {}
    for side in ("src", "dst"):
        order = draw(st.permutations(range(len(extents))))
        along: list[int] = []
        for dim in order:
            if (
                prod(extents[d] for d in [*along, dim]) <= 32
                and (len(along) < 5)
                and (all(e == 2 for e in extents) or draw(st.booleans()))
            ):
                along.append(dim)
        lanes = dict(zip(along, strides_of([extents[dim] for dim in along]), strict=True))
        found[side] = draw(fragments(extents, lanes))
    return found | {
        "dtype": draw(st.sampled_from(["uint8", "uint16", "uint32", "uint64"])),
        "box": draw(boxes(extents)),
    }


@examples(100)
@given(within_threads())
def test_drawn_permutations_within_threads(case: dict[str, Any]) -> None:
    kernel = check(**case, variant="regperm")
    assert "shfl" not in kernel.ptx


@examples(40)
@given(within_threads())
def test_drawn_permutations_in_place(case: dict[str, Any]) -> None:
    """One buffer seen through two layouts: everything is read before it is written."""
    if case["dst"].layout.span() <= case["src"].layout.span():
        check(**case, variant="regperm", in_place=True)


@examples(100)
@given(within_warps())
def test_drawn_permutations_within_warps(case: dict[str, Any]) -> None:
    check(**case, variant="regperm_shfl")


@examples(20)
@given(within_threads())
def test_what_stays_in_its_thread_needs_no_shuffle(case: dict[str, Any]) -> None:
    assert "shfl." not in check(**case, variant="regperm_shfl").ptx


# ---------------------------------------------------------------------------------------------- counts


def per_lane(rows: int, columns: int) -> tuple[Fragment, Fragment]:
    """A lane's ``rows x columns`` by rows, and by columns."""
    extents = (32, rows, columns)
    by_rows, by_columns = [((1, LANE), (a, REGISTER), (b, REGISTER)) for a, b in ((columns, 1), (1, rows))]
    return Fragment(extents, by_rows), Fragment(extents, by_columns)


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "count"),
    [
        ("uint8", 4, 4, {"prmt": 8}),
        ("uint8", 16, 4, {"prmt": 32}),
        ("uint8", 4, 16, {"prmt": 32}),
        ("uint8", 8, 2, {"prmt": 4}),
        ("uint8", 2, 2, {"prmt": 1}),
        ("uint16", 2, 2, {"prmt": 2}),
        ("uint16", 8, 2, {"prmt": 8}),
        ("uint16", 2, 8, {"prmt": 8}),
        ("uint32", 4, 4, {"mov": 16}),
        ("uint64", 2, 4, {"mov": 8}),
    ],
)
def test_transposes_cost_what_the_two_level_network_costs(
    dtype: str, rows: int, columns: int, count: dict[str, int]
) -> None:
    kernel = check(*per_lane(rows, columns), dtype)
    assert kernel.plans[0].variant == "regperm"
    assert instructions(kernel) == count


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_the_same_layout_is_moves_and_in_place_nothing(dtype: str) -> None:
    by_rows, _ = per_lane(4, 4)
    kernel = check(by_rows, by_rows, dtype)
    assert instructions(kernel) == {
        "mov": kernel.plans[0].request.dst.buffer.span_bytes // (8 if dtype == "uint64" else 4)
    }
    assert instructions(check(by_rows, by_rows, dtype, in_place=True)) == {"mov": 1}, "the one that the core asks for"


@examples(60)
@given(st.permutations(range(16)))
def test_a_word_costs_no_more_than_its_sources_less_one(order: list[int]) -> None:
    """Any permutation of 16 bytes, as bits of a layout cannot say: asked of the network itself."""
    from tilecopy_regperm.in_thread.network import network

    wanted = [tuple(divmod(byte, 4) for byte in order[word : word + 4]) for word in range(0, 16, 4)]
    found = network(tuple(wanted))
    alone = sum(
        max(1, len({s for s, _ in word}) - 1) for word in wanted if word != tuple((word[0][0], i) for i in range(4))
    )
    assert len(found.steps) <= alone
    memory = {(False, word): [(word, byte) for byte in range(4)] for word in range(4)}
    used = set()
    for number, step in enumerate(found.steps):
        operands = [(value.from_step, value.number) for value in (step.low, step.high)]
        used |= set(operands)
        both = [byte for operand in operands for byte in memory[operand]]
        memory[True, number] = [both[step.selector >> 4 * place & 7] for place in range(4)]
    asked = [(value.from_step, value.number) for value in found.values]
    assert [tuple(memory[at]) for at in asked] == wanted
    assert {(True, number) for number in range(len(found.steps))} <= used | set(asked), "a step that nobody reads"


def lanes_and_registers(count: int) -> tuple[Fragment, Fragment]:
    """``count x count`` words whose rows are lanes, and whose columns are; the rest of the warp takes other rows."""
    extents = (32 // count, count, count)
    return (
        Fragment(extents, ((count, LANE), (1, LANE), (1, REGISTER))),
        Fragment(extents, ((count, LANE), (1, REGISTER), (1, LANE))),
    )


@pytest.mark.parametrize(("count", "shuffles"), [(2, 1), (4, 4), (8, 12), (16, 32), (32, 80)])
def test_transposes_across_lanes_are_butterflies(count: int, shuffles: int) -> None:
    kernel = check(*lanes_and_registers(count), "uint32")
    plan = kernel.plans[0]
    assert plan.variant == "regperm_shfl" and plan.partition.shuffles == shuffles
    assert len(re.findall(r"shfl\.sync\.bfly", kernel.ptx)) == shuffles == kernel.ptx.count("shfl.")
    assert kernel.ptx.count("selp.b32") == 3 * shuffles


@pytest.mark.parametrize(("dtype", "shuffles"), [("uint16", 48), ("uint8", 28), ("uint64", 160)])
def test_transposes_of_other_elements_across_lanes(dtype: str, shuffles: int) -> None:
    assert check(*lanes_and_registers(32), dtype).plans[0].partition.shuffles == shuffles


def test_a_rotation_of_lanes_is_one_shuffle_a_register() -> None:
    extents = (4, 8, 3)
    src = Fragment(extents, ((8, LANE), (1, LANE), (1, REGISTER)))
    dst = Fragment(extents, ((1, LANE), (4, LANE), (1, REGISTER)))
    kernel = check(src, dst, "uint32")
    assert kernel.plans[0].partition.shuffles == 3 == len(re.findall(r"shfl\.sync\.idx", kernel.ptx))


def test_a_lane_bit_that_is_needed_and_stays_is_not_exchanged() -> None:
    """Three bits go round: a register's to lane bit 0, lane bit 0 to lane bit 1, which alone is left to exchange."""
    extents = (2, 2, 2, 8)
    src = Fragment(extents, ((1, REGISTER), (1, LANE), (2, LANE), (4, LANE)))
    dst = Fragment(extents, ((1, LANE), (2, LANE), (1, REGISTER), (4, LANE)))
    plan = check(src, dst, "uint32").plans[0]
    assert plan.variant == "regperm_shfl" and plan.partition.shuffles == 3


def test_a_transpose_of_no_powers_of_two_is_gathered() -> None:
    extents = (4, 6, 6)
    src = Fragment(extents, ((6, LANE), (1, LANE), (1, REGISTER)))
    dst = Fragment(extents, ((6, LANE), (1, REGISTER), (1, LANE)))
    assert check(src, dst, "uint32").plans[0].partition.shuffles == 30


def test_a_broadcast_from_one_lane_and_replicas() -> None:
    """A destination with copies of each element on other lanes; a source with copies takes the nearest."""
    extents = (4, 2)
    one = Fragment(extents, ((1, LANE), (1, REGISTER)))
    copies = Fragment(extents, ((1, LANE), (1, REGISTER)), ((8, 4, LANE),))
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        assert check(one, copies, dtype).plans[0].variant == "regperm_shfl"
        assert check(copies, one, dtype).plans[0].variant == "regperm"
        assert check(copies, copies, dtype).plans[0].variant == "regperm"
    every_lane = Fragment((4, 2), ((2, REGISTER), (1, REGISTER)), ((32, 1, LANE),))
    assert check(every_lane, one, "uint32", variant="regperm_shfl").plans[0].partition.shuffles == 0
    twice = Fragment((32, 2), ((1, LANE), (1, REGISTER)), ((2, 2, REGISTER),))
    assert check(Fragment((32, 2), ((1, LANE), (1, REGISTER))), twice, "uint16").plans[0].variant == "regperm"


# ---------------------------------------------------------------------------------------------- scopes, declines


@pytest.mark.parametrize(
    ("scope", "threads", "src", "dst", "extents"),
    [
        ("cta", 64, S[(2, 32, 4, 4) : (1 @ warpid, 1 @ laneid, 4, 1)], S[(2, 32, 4, 4) : (1 @ warpid, 1 @ laneid, 1, 4)], (64, 16)),
        ("cta", 64, S[(64, 4, 4) : (1 @ tx, 4, 1)], S[(2, 32, 4, 4) : (1 @ warpid, 1 @ laneid, 1, 4)], (64, 16)),
        ("cta", 96, S[(96, 4, 4) : (1 @ tx, 4, 1)], S[(96, 4, 4) : (1 @ tx, 1, 4)], (96, 16)),
        ("cta", 40, S[(40, 4, 4) : (1 @ tx, 4, 1)], S[(40, 4, 4) : (1 @ tx, 1, 4)], (40, 16)),
        ("warpgroup", 128, S[(128, 4, 4) : (1 @ tid_in_wg, 4, 1)], S[(128, 4, 4) : (1 @ tid_in_wg, 1, 4)], (128, 16)),
        ("thread", 32, S[4, 4], S[(4, 4) : (1, 4)], (4, 4)),
        ("cta", 64, S[(16, 4, 4) : (4 @ tx, 1 @ tx, 1)], S[(16, 4, 4) : (4 @ tx, 1, 1 @ tx)], (16, 16)),
        ("warpgroup", 128, S[(32, 4, 4) : (4 @ tid_in_wg, 1 @ tid_in_wg, 1)], S[(32, 4, 4) : (4 @ tid_in_wg, 1, 1 @ tid_in_wg)], (32, 16)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
def test_every_scope(scope: str, threads: int, src: Any, dst: Any, extents: tuple[int, ...], dtype: str) -> None:
    layouts = TileLayout(src), TileLayout(dst)
    kernel = registers_kernel(*layouts, extents, dtype, threads=threads, scope=scope)
    given = byte_arrays.random_array((threads, layouts[0].span()), dtype, 1)
    was = byte_arrays.random_array((threads, layouts[1].span()), dtype, 2)
    expected, out = was.copy(), np.zeros_like(was)

    def thread(place: dict[str, int]) -> int:
        return place.get("tx", 0) + 32 * place.get("warpid", 0) + place.get("laneid", 0) + place.get("tid_in_wg", 0)

    for flat in range(layouts[0].size):
        from_, to = (layout.apply(flat) for layout in layouts)
        if scope == "thread":
            expected[:, to["m"]] = given[:, from_["m"]]
        else:
            expected[thread(to), to["m"]] = given[thread(from_), from_["m"]]
    kernel(given, was, out, executor="emulator")
    assert byte_arrays.same_bytes(out, expected)


def reason(src: tc.Layout, dst: tc.Layout, shape: tuple[int, ...], name: str = "regperm", **more: Any) -> str:
    f, g = (tc.Buffer(shape, "uint8", space="local", layout=at, name=n) for at, n in ((src, "f"), (dst, "g")))
    with pytest.raises(tc.NoVariantError) as caught:
        tc.plan(g[whole(shape)], f[whole(shape)], target="sm_90a", variant=name, **{"scope": tc.warp(), **more})
    return caught.value.declined[name]


def test_declines_with_the_reason() -> None:
    rows, columns = TileLayout(S[(32, 8) : (1 @ laneid, 1)]), TileLayout(S[(4, 8, 8) : (1, 1 @ laneid, 4)])
    assert mentions(8, "g", "f").search(reason(rows, columns, (32, 8)))
    warps = (
        TileLayout(S[(2, 32, 8) : (1 @ warpid, 1 @ laneid, 1)]),
        TileLayout(S[(32, 2, 8) : (1 @ laneid, 1 @ warpid, 1)]),
    )
    assert mentions("warp").search(reason(*warps, (64, 8), "regperm_shfl", scope=tc.cta(64)))
    assert mentions("scope").search(reason(warps[0], warps[0], (64, 8)))
    assert mentions("layout").search(reason(tc.SwizzledLayout(tc.Swizzle(2, 1, 1), rows), rows, (32, 8)))
    assert mentions("scope").search(
        reason(TileLayout(S[32, 8]), TileLayout(S[32, 8]), (32, 8), "regperm_shfl", scope=tc.thread())
    )
    every = TileLayout(S[2, 8] + R[32 : 1 @ laneid])
    spread = TileLayout(S[(2, 8) : (1 @ laneid, 1)])
    assert reason(every, spread, (2, 8))
    partial = TileLayout(S[(40, 4) : (1 @ tx, 1)])
    assert mentions("warp").search(reason(partial, partial, (40, 4), "regperm_shfl", scope=tc.cta(40)))
    memory = tc.Buffer((32, 8), "uint8", space="shared", name="s")
    f = tc.Buffer((32, 8), "uint8", space="local", layout=rows, name="f")
    with pytest.raises(tc.NoVariantError) as caught:
        tc.plan(f[:, :], memory[:, :], scope=tc.warp(), target="sm_90a", variant="regperm")
    assert mentions("local").search(caught.value.declined["regperm"])


def test_warps_that_do_not_move_alike_are_declined() -> None:
    """Every warp holds all elements; the first needs those of register 0, the second those of register 1."""
    every, spread = TileLayout(S[(2, 32) : (1, 1 @ laneid)]), TileLayout(S[64 : 1 @ tx])
    assert reason(every, spread, (64,), "regperm_shfl", scope=tc.cta(64))


def test_elements_of_16_bytes() -> None:
    """Four words an element; loaded and stored as the words that they are."""
    src, dst = per_lane(2, 2)
    k = tc.KernelBuilder("wide", threads=32)
    given, out = k.param("IN", (32, 16), "uint32"), k.param("OUT", (32, 16), "uint32")
    f, g = (k.local(src.extents, "complex128", layout=each.layout, name=n) for each, n in ((src, "f"), (dst, "g")))
    held, result = (k.registers(each).view(dtype="uint32") for each in (f, g))
    for i in range(16):
        k.store(held[i], k.load(given[k.thread_id(), i]))
    k.warp.copy(g[:, :, :], f[:, :, :])
    for i in range(16):
        k.store(out[k.thread_id(), i], k.load(result[i]))
    a, b = byte_arrays.random_array((32, 16), "uint32"), np.zeros((32, 16), np.uint32)
    k.build(target="sm_80", grid=1)(a, b, executor="emulator")
    assert (b.reshape(32, 2, 2, 4) == a.reshape(32, 2, 2, 4).transpose(0, 2, 1, 3)).all()


# ---------------------------------------------------------------------------------------------- whole kernels


@needs_memory_copies
@pytest.mark.parametrize(
    ("dtype", "count"),
    [
        ("float16", {"ld.shared.b32": 8, "prmt.b32": 8, "st.global.v4.b32": 2}),
        ("uint8", {"ld.shared.b32": 16, "prmt.b32": 32, "st.global.v4.b32": 4}),
    ],
)
def test_words_of_shared_memory_become_16_byte_stores_of_the_transpose(dtype: str, count: dict[str, int]) -> None:
    kernel = check_transposed_words(dtype, "emulator")
    assert [plan.variant for plan in kernel.plans] == ["gmem_smem", "reg", "regperm", "reg"]
    for opcode, times in count.items():
        assert len(re.findall(rf"\t{re.escape(opcode)} ", kernel.ptx)) == times, opcode
    after = kernel.ptx[kernel.ptx.index("bar.sync") :]
    assert not re.search(r"\t(mov|bfi|bfe|shfl|selp)", after)


def check_transposed_words(dtype: str, executor: str, target: str = "sm_90a") -> tc.BuiltKernel:
    kernel = kernels.transposed_words(dtype, target)
    shape = kernel.plans[0].request.src.buffer.shape
    a = byte_arrays.random_array(shape, dtype)
    b = np.zeros(shape[::-1], a.dtype)
    kernel(a, b, executor=executor)
    assert byte_arrays.same_bytes(b, np.ascontiguousarray(a.T))
    return kernel


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("assembler", ASSEMBLERS)
def test_permutations_assemble_for_every_target(target: str, assembler: str) -> None:
    """Bytes for every other target, words of 64 bits for the rest."""
    pairs = [per_lane(4, 4), lanes_and_registers(8), lanes_and_registers(32), (GAPS, GAPS_MOVED)]
    dtype = ("uint8", "uint64")[TARGETS.index(target) % 2]
    for src, dst in pairs:
        kernel = registers_kernel(src.layout, dst.layout, src.extents, dtype, target=target)
        assert assemble(kernel.ptx, kernel.target, assembler)[:4] == b"\x7fELF"


GAPS = Fragment((3, 8, 3), ((8, LANE), (1, LANE), (1, REGISTER)))
GAPS_MOVED = Fragment((3, 8, 3), ((1, LANE), (3, LANE), (2, REGISTER)))
"""Few lanes, gaps between registers, lanes that are no exclusive or of each other."""


def test_gaps_and_few_lanes() -> None:
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        assert check(GAPS, GAPS_MOVED, dtype).plans[0].variant == "regperm_shfl"
