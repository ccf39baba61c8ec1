"""Who owns a fragment's elements: the same through every view and slice, on the emulator against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import attrs
import numpy as np
import pytest
import tilecopy as tc
from hypothesis import given
from hypothesis import strategies as st
from tilecopy import R, S, TileLayout, bx, cbx, laneid, warpid
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.profiles import examples

from tilecopy_core.layout import AXES
from tilecopy_partitions import axis_index

PLACES: dict[str, Callable[[Any], Any]] = {
    "laneid": lambda t: t % 32,
    "warpid": lambda t: t // 32,
    "wid_in_wg": lambda t: t // 32 % 4,
    "wgid": lambda t: t // 128,
    "tid_in_wg": lambda t: t % 128,
    "tx": lambda t: t,
}
SCOPES = {
    "warp": (32, [["laneid"]]),
    "warpgroup": (128, [["laneid", "wid_in_wg"], ["tid_in_wg"]]),
    "cta": (256, [["laneid", "warpid"], ["laneid", "wid_in_wg", "wgid"], ["tid_in_wg", "wgid"], ["tx"]]),
}


@pytest.mark.parametrize("axis", [bx, cbx])
def test_an_axis_of_ctas_does_not_count_threads(axis: Any) -> None:
    with pytest.raises(tc.RequestError, match=mentions(axis)):
        axis_index(axis, 0)


@attrs.frozen
class Held:
    """A fragment, or a view of it, and what NumPy knows of it.

    Attributes:
        seen: the buffer.
        owns: ``[thread, *shape]``: whether the thread has the element.
        register: ``[*shape]``: the element's place among its thread's registers, in elements of the buffer's type.
    """

    seen: Any
    owns: np.ndarray
    register: np.ndarray

    def with_view(self, data: st.DataObject) -> Held:
        """A view of it."""
        order = data.draw(st.permutations(range(len(self.register.shape))))
        kind = data.draw(st.sampled_from(["same", "permute", "shape", "dtype", "both", "T"]))
        found, threads = self, len(self.owns)
        if kind in ("dtype", "both"):
            firsts = found.register[..., ::2] // 2
            found = Held(found.seen.view(dtype="uint32"), found.owns[..., ::2], firsts)
        if kind in ("permute", "both"):
            moved = (0, *(dim + 1 for dim in order))
            found = Held(found.seen.permute(*order), found.owns.transpose(moved), found.register.transpose(order))
        if kind in ("shape", "T"):
            whole = tuple(extent for extent in found.register.shape[:-1] if extent > 1)
            shape = (prod(whole), found.register.shape[-1]) if kind == "T" else (*whole, found.register.shape[-1])
            flat = found.owns.reshape(threads, *shape), found.register.reshape(shape)
            found = Held(found.seen.view(shape=shape), *flat)
            if kind == "T":
                found = Held(found.seen.T, flat[0].swapaxes(1, 2), flat[1].T)
        return found

    def boxed(self, data: st.DataObject) -> tuple[tuple[slice, ...], np.ndarray, np.ndarray]:
        """A box of it, its part of ``owns`` and of ``register``."""
        box = []
        for extent in self.register.shape:
            size = data.draw(st.sampled_from(sorted({1, extent, *(e for e in (2, 4) if extent % e == 0)})))
            start = data.draw(st.integers(0, extent // size - 1)) * size
            box.append(slice(start, start + size))
        return tuple(box), self.owns[(slice(None), *box)], self.register[tuple(box)]


def fragment(k: tc.KernelBuilder, data: st.DataObject, scope: str, name: str, axes: list[str]) -> Held:
    """A fragment that names every axis: by iters of one or of many places, by an offset, by a replica."""
    threads = np.arange(SCOPES[scope][0])
    iters: list[tuple[int, int, str]] = []
    owns, parts = np.ones((len(threads), 1), bool), list[Any]()
    for axis in data.draw(st.permutations(axes)):
        place = PLACES[axis](threads)
        count = int(place.max()) + 1
        how = data.draw(st.sampled_from(["one", "one", "many", "offset", "replica", "replicas"]))
        first = data.draw(st.integers(0, count - 1)) if how == "offset" else 0
        many = data.draw(st.sampled_from([e for e in (2, 4, 32, 128, 256) if e <= count])) if how == "many" else 1
        if how in ("one", "many"):
            iters.append((many, 1, axis))
        elif how == "offset":
            parts.append(first @ AXES[axis])
        else:
            parts.append(R[(1 if how == "replica" else count) : 1 @ AXES[axis]])
        mine = place < count if how == "replicas" else place == first
        step = place[:, None] == np.arange(many) if how == "many" else mine[:, None]
        owns = (owns[:, :, None] & step[:, None, :]).reshape(len(threads), -1)
    iters.insert(data.draw(st.integers(0, len(iters))), (2, 4, "m"))
    iters.append((4, 1, "m"))
    shape = tuple(extent for extent, *_ in iters)
    layout = TileLayout(S[shape : tuple(s if a == "m" else s @ AXES[a] for _, s, a in iters)])
    for part in parts:
        layout = layout + part
    spread = [n if a != "m" else 1 for n, _, a in iters]
    owns = np.broadcast_to(owns.reshape(-1, *spread), (len(threads), *shape))
    index = np.indices(shape)
    register = sum(index[dim] * s for dim, (_, s, a) in enumerate(iters) if a == "m")
    return Held(k.local(shape, "uint16", layout=layout, name=name), owns, np.asarray(register))


def contents(k: tc.KernelBuilder, held: Held, name: str) -> Any:
    """A parameter with every thread's registers, loaded here."""
    count = held.seen.span_elems
    given = k.param(name, (len(held.owns), count), "uint16")
    for i in range(count):
        k.store(k.registers(held.seen)[i], k.load(given[k.thread_id(), i]))
    return given


def results(k: tc.KernelBuilder, held: Held, name: str) -> None:
    out = k.param(name, (len(held.owns), held.seen.span_elems), "uint16")
    for i in range(held.seen.span_elems):
        k.store(out[k.thread_id(), i], k.load(k.registers(held.seen)[i]))


NUMBERS = np.arange(1 << 15, dtype=np.uint16)


@pytest.mark.parametrize("scope", SCOPES)
@given(data=st.data())
@examples(20)
def test_a_load_writes_the_owners_registers_and_no_others(scope: str, data: st.DataObject) -> None:
    k = tc.KernelBuilder("k", threads=SCOPES[scope][0])
    held = fragment(k, data, scope, "f", data.draw(st.sampled_from(SCOPES[scope][1])))
    view = held.with_view(data)
    box, owns, register = view.boxed(data)
    g = k.param("G", view.register.shape, view.seen.dtype)
    contents(k, held, "WAS")
    getattr(k, scope).copy(view.seen[box], g[box], variant=data.draw(st.sampled_from([None, "ragged"])))
    results(k, held, "OUT")
    was = NUMBERS[: owns.shape[0] * 8].reshape(-1, 8)
    source = (NUMBERS[: view.register.size * 2] + (1 << 15)).view(view.seen.dtype.numpy())[: view.register.size]
    source = source.reshape(view.register.shape)
    out = np.zeros_like(was)
    k.build(target="sm_90a", grid=1)(source, was, out, executor="emulator")
    expected = was.copy().view(source.dtype)
    for thread in range(len(owns)):
        expected[thread][register[owns[thread]]] = source[box][owns[thread]]
    assert np.array_equal(out, expected.view(np.uint16)), view.seen.layout


@pytest.mark.parametrize("scope", SCOPES)
@given(data=st.data())
@examples(20)
def test_a_store_takes_the_owners_registers(scope: str, data: st.DataObject) -> None:
    k = tc.KernelBuilder("k", threads=SCOPES[scope][0])
    held = fragment(k, data, scope, "f", data.draw(st.sampled_from(SCOPES[scope][1])))
    view = held.with_view(data)
    box, owns, register = view.boxed(data)
    g = k.param("G", view.register.shape, view.seen.dtype)
    contents(k, held, "IN")
    getattr(k, scope).copy(g[box], view.seen[box], variant=data.draw(st.sampled_from([None, "ragged"])))
    values_in = NUMBERS[: owns.shape[0] * 8].reshape(-1, 8) + 1
    out = np.zeros(view.register.shape, view.seen.dtype.numpy())
    k.build(target="sm_90a", grid=1)(out, values_in, executor="emulator")
    values = values_in.astype(np.uint16).view(out.dtype)
    for at in np.ndindex(register.shape):
        having = values[owns[(slice(None), *at)], register[at]]
        assert out[box][at] in having, (view.seen.layout, at)
    inside = np.zeros(out.shape, bool)
    inside[box] = True
    assert not out[~inside].any()


@pytest.mark.parametrize("scope", SCOPES)
@given(data=st.data())
@examples(20)
def test_fragment_to_fragment(scope: str, data: st.DataObject) -> None:
    k = tc.KernelBuilder("k", threads=SCOPES[scope][0])
    axes = data.draw(st.sampled_from(SCOPES[scope][1]))
    source = fragment(k, data, scope, "f", axes)
    view = source.with_view(data)
    box, owns, register = view.boxed(data)
    # every thread has its own copy of what it gets, or the owners of one more fragment alone
    shape, dtype = register.shape, view.seen.dtype
    one = data.draw(st.booleans())
    layout = TileLayout(S[shape])
    for axis in axes if one else []:
        layout = layout + R[1 : 1 @ AXES[axis]]
    target = k.local(shape, dtype, layout=layout, name="t")
    threads = np.arange(len(owns))
    gets = np.all([PLACES[axis](threads) == 0 for axis in axes], axis=0) if one else np.ones(len(owns), bool)
    contents(k, source, "IN")
    count = target.span_elems
    out = k.param("OUT", (len(owns), count), dtype)
    for i in range(count):
        k.store(k.registers(target)[i], 0)
    getattr(k, scope).copy(target[...], view.seen[box])
    for i in range(count):
        k.store(out[k.thread_id(), i], k.load(k.registers(target)[i]))
    values_in = (NUMBERS[: owns.shape[0] * 8].reshape(-1, 8) + 1).astype(np.uint16)
    found = np.zeros((len(owns), count), dtype.numpy())
    try:
        kernel = k.build(target="sm_90a", grid=1)
    except tc.NoVariantError as error:
        assert error.declined
        return
    kernel(values_in, found, executor="emulator")
    values = values_in.view(dtype.numpy())
    for flat, at in enumerate(np.ndindex(shape)):
        having = values[owns[(slice(None), *at)], register[at]]
        assert np.isin(found[gets, flat], having).all(), (view.seen.layout, at)
    assert not found[~gets].any()


WARP_0 = TileLayout(S[(1, 32, 8) : (1 @ warpid, 1 @ laneid, 1)])


def test_the_layouts_algebra_keeps_place_0() -> None:
    """All but canonicalize, which drops iters of extent 1 with their axes."""
    assert WARP_0.canonicalize() == TileLayout(S[(32, 8) : (1 @ laneid, 1)])
    warps = TileLayout(S[(4, 32, 8) : (1 @ warpid, 1 @ laneid, 1)])
    for layout in (
        WARP_0.group((32, 8))[0],
        WARP_0.slice((32, 8), [(0, 32), (4, 8)]),
        WARP_0.slice((256,), [(8, 16)]),
        WARP_0.slice((1, 32, 8), [(0, 1), (0, 1), (0, 1)]),
        warps.slice((128, 8), [(0, 16), (0, 8)]),
        WARP_0.tile_to((1, 32, 16)),
        WARP_0.permute((1, 2, 0)),
        TileLayout(S[(32, 8) : (1 @ laneid, 1)] + 0 @ warpid),
        TileLayout.of(warps.shard[1:], offset={warpid: 0}),
    ):
        assert layout is not None and {axis.name for axis in layout.axes} - {"m"} == {"laneid", "warpid"}, layout
        assert "warpid" not in layout.offset
    assert TileLayout(S[8] + 0) == TileLayout(S[8]) and warps + 0 @ warpid == warps


@pytest.mark.parametrize("axis", [laneid, warpid, cbx])
def test_a_slice_of_a_slice_keeps_an_axis_at_place_0(axis: tc.Axis) -> None:
    for layout in (
        TileLayout(S[(4, 8) : (8, 1)] + 0 @ axis),
        TileLayout(S[(4, 8) : (8, 1)] + R[1 : 1 @ axis]).canonicalize() + 0 @ axis + 3,
        TileLayout(S[(1, 4, 8) : (1 @ axis, 8, 1)]),
    ):
        part = layout.slice((4, 8), [(2, 4), (0, 8)])
        assert part is not None and part.offset_on(tc.m) - layout.offset_on(tc.m) == 16
        for again in (part.slice((2, 8), [(1, 2), (4, 8)]), part.slice((16,), [(5, 6)]), part.permute((1, 0))):
            assert again is not None and axis in again.axes and axis.name not in again.offset
        assert axis in part.tile_to((4, 8)).axes and axis in part.group((2, 2, 4))[0].axes


def test_views_do_not_hide_an_axis_that_the_scope_lacks() -> None:
    for scope, axis in ((tc.thread(), laneid), (tc.warp(), warpid), (tc.cta(64), cbx), (tc.cta(64), bx)):
        layout = TileLayout(S[(1, 4, 8) : (1 @ axis, 8, 1)])
        f = tc.Buffer((1, 4, 8), "uint16", space="local", layout=layout, name="f")
        g = tc.Buffer((4, 8), "uint16", space="global", name="g")
        for seen in (f[0], f.permute(1, 2, 0)[...], f.view(shape=(4, 8))[...], f.view(shape=(4, 8)).T.T[...]):
            with pytest.raises(tc.NoVariantError, match=mentions(axis, "scope")):
                tc.plan(seen, g[...], scope=scope, target="sm_90a")


@pytest.mark.parametrize(
    ("layout", "scope", "axis"),
    [
        (TileLayout(S[1, 32]), "cta", "tx"),
        (TileLayout(S[1, 32]), "warpgroup", "tid_in_wg"),
        (TileLayout(S[1, 32]), "warp", "laneid"),
        (TileLayout(S[(1, 32) : (0, 1 @ tc.laneid)]), "cta", "warpid"),
        (TileLayout(S[(1, 32) : (0, 1 @ tc.laneid)]), "warpgroup", "wid_in_wg"),
    ],
)
def test_a_store_of_a_fragment_that_several_threads_hold_names_the_offset_that_makes_it_one(
    layout: TileLayout, scope: str, axis: str
) -> None:
    def kernel(of_fragment: TileLayout) -> tc.BuiltKernel:
        k = tc.KernelBuilder("k", threads=128)
        b, f = k.param("B", (1, 32), "int8"), k.local((1, 32), "int8", layout=of_fragment, name="f")
        getattr(k, scope).copy(b[:, :], f[:, :])
        return k.build(target="sm_90", grid=1)

    with pytest.raises(tc.NoVariantError, match=mentions("f", f"0 @ {axis}")):
        kernel(layout)
    assert kernel(layout + 0 @ getattr(tc, axis)).plans[0].variant == "reg"


def test_the_threads_of_a_cta_are_one_number() -> None:
    with pytest.raises(tc.RequestError, match=mentions((9, 9))):
        tc.KernelBuilder("k", threads=(9, 9))  # type: ignore[arg-type]
