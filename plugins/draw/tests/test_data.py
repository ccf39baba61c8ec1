"""What pictures say, held against partitions, layouts and the emulator's own counts."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tilecopy as tc
from tilecopy import S, TileLayout, laneid
from tilecopy_draw import draw
from tilecopy_emulator import EmulatorExecutor
from tilecopy_test_helpers import picture_cases as cases
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.picture_cases import CASES, memory, swizzled

from tilecopy_core.plugin import evaluate, symbols_of


def accesses(data, side):
    return {name: np.array(values) for name, values in data[side]["accesses"].items()}


@pytest.mark.parametrize("name", ["gmem_smem", "ldgsts", "stored", "transposed", "symbolic"])
def test_who_moves_what_is_what_the_partition_says(name):
    """The picture is of the run, the partition of the variant: both say the same, vector by vector."""
    plan = getattr(cases, name)()
    data, partition = draw(plan, "banks" if name == "transposed" else None).data, plan.partition
    size = plan.request.dst.buffer.dtype.bits // 8
    regions = {"source": plan.request.src, "destination": plan.request.dst}
    symbols = {each for region in regions.values() for start in region.starts for each in symbols_of(start)}
    swap = {each: data["values"][str(each)] for each in symbols}
    for side, sided in (("source", partition.src), ("destination", partition.dst)):
        found, swizzle = accesses(data, side), regions[side].buffer.layout.swizzle
        assert len(found["thread"]) == partition.outer * partition.threads
        assert (found["bytes"] == partition.vec * size).all()
        for turn, thread, byte in zip(
            *(found[name].tolist() for name in ("instruction", "thread", "byte")), strict=True
        ):
            place = int(evaluate(sided.offset(turn, thread, partition.shape), swap))
            assert byte == size * (swizzle.apply(place) if swizzle else place), (side, turn, thread)


@pytest.mark.parametrize(
    "name", ["gmem_smem", "ldgsts", "stored", "transposed", "symbolic", "dsmem", "bulk", "tcgen05_cp"]
)
def test_every_element_comes_from_its_own(name):
    data = draw(getattr(cases, name)(), "banks" if name == "transposed" else None).data
    assert data["source_of"] == list(range(len(data["source_of"])))


@pytest.mark.parametrize("name", ["edge", "tma"])
def test_what_lies_outside_comes_from_nowhere(name):
    data = draw(getattr(cases, name)()).data
    assert data["source_of"] == [*range(12 * 64), *[-1] * (4 * 64)]
    assert data["source"]["element_bytes"][12 * 64 :] == [-1] * 256
    assert data["source"]["element_bytes"][0] == 48 * 128
    read = accesses(data, "source")["read"].sum()
    assert read == 12 * 64 * 2


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("pitches", [(32, 1), (33, 1), (1, 32), (1, 33), None])
def test_sectors_and_wavefronts_are_the_profile_s(pitches, dtype):
    """Of elements of two bytes two threads may want the same word."""
    layout = swizzled("64B", dtype, 32, 32) if pitches is None else TileLayout(S[(32, 32) : pitches])
    k = tc.KernelBuilder("alone", threads=64)
    A = k.param("A", (32, 32), dtype)
    tile = k.shared((32, 32), dtype, layout=layout, name="tile")
    k.cta.copy(tile[:, :], A[:, :])
    kernel = k.build(target="sm_90a", grid=1)
    report = EmulatorExecutor(profile=True).launch(kernel, (np.zeros((32, 32), dtype),))
    data = draw(kernel.plans[0], "banks").data
    assert report.counters == {
        "global_requests": data["source"]["requests"],
        "global_sectors": data["source"]["sectors"],
        "shared_requests": data["destination"]["requests"],
        "shared_wavefronts": data["destination"]["wavefronts"],
    }


def test_banks_before_and_after_the_swizzle():
    before, after = draw(cases.column(), "banks").data["phases"]
    assert before["title"].startswith("Before: no swizzle") and after["title"] == "After: 128-byte swizzle of S[32, 64]"
    assert [phase["wavefronts"] for phase in before["phases"]] == [8] * 4
    assert [phase["wavefronts"] for phase in after["phases"]] == [1] * 4
    assert before["phases"][1]["threads"] == list(range(8, 16)) and before["phases"][0]["banks"] == [[4, 5, 6, 7]] * 8
    assert before["phases"][0]["turns"] == [[turn] * 4 for turn in range(1, 9)]


def test_banks_beside_another_layout():
    (only,) = draw(cases.transposed(33), "banks").data["phases"]
    before, after = draw(cases.transposed(33), "banks", compare_with=TileLayout(S[(32, 32) : (1, 32)])).data["phases"]
    assert only["phases"] == after["phases"]
    assert sum(phase["wavefronts"] for phase in before["phases"]) == 1024
    assert sum(phase["wavefronts"] for phase in after["phases"]) == 32


def test_banks_of_a_layout_before_and_after():
    picture = draw(swizzled("128B", "float16", 16, 64))
    before, after = np.array(picture.data["before"]), np.array(picture.data["after"])
    assert (before == 2 * np.arange(1024).reshape(16, 64)).all()
    assert after[1, 0] == 128 + 16 and after[1, 8] == 128 and sorted(after.ravel()) == sorted(before.ravel())
    assert "8 threads down a column, 16 bytes each: 8 wavefronts" in picture.svg
    assert "8 threads down a column, 16 bytes each: 1 wavefront<" in picture.svg
    region = memory("shared", (16, 64), "float16", "tile", layout=swizzled("128B", "float16", 16, 64))[1:9, 8:16]
    assert np.array_equal(draw(region).data["after"], after[1:9, 8:16])


@pytest.mark.parametrize("layout", [cases.FRAGMENT_A, TileLayout(S[(8, 2, 4, 4) : (4 @ laneid, 4, 1 @ laneid, 1)]), TileLayout(S[(4, 8, 8) : (1 @ tc.warpid, 1 @ laneid, 1)])])  # fmt: skip
def test_owners_are_those_of_the_layout(layout):
    """Of the run: register contents. Of the layout: its axes."""
    shape = (16, layout.size // 16)
    data = draw(memory("local", shape, "float16", "frag", layout=layout)).data["registers"]
    for element, (thread, register) in enumerate(zip(data["thread"], data["register"], strict=True)):
        place = layout.apply(element)
        assert thread == place.get("laneid", 0) + 32 * place.get("warpid", 0)
        assert register == place.get("m", 0) // 2


@pytest.mark.parametrize("kind", ["moves", "fragment"])
def test_registers_to_registers(kind):
    """Both sides, in the data and in the picture, are what the layouts say."""
    plan = cases.exchanged()
    picture = draw(plan, kind)
    labels = []
    for side, region in (("source", plan.request.src), ("destination", plan.request.dst)):
        places = [region.buffer.layout.apply(element) for element in range(256)]
        found = picture.data[side]["registers"]
        assert found["thread"] == [place["laneid"] for place in places]
        assert found["register"] == [place["m"] for place in places]
        labels += [f"t{place['laneid']} r{place['m']}" for place in places]
    assert re.findall(r">(t\d+ r\d+)<", picture.svg) == labels
    assert picture.data["source_of"] == list(range(256))
    assert "shfl.sync.bfly.b32" in picture.svg


@pytest.mark.parametrize("store", [False, True])
def test_tensor_memory(store):
    data = draw(cases.tensor(store=store)).data
    side, other = ("destination", "source") if store else ("source", "destination")
    lanes, columns = np.divmod(np.arange(128 * 16), 16)
    assert data[side]["element_bytes"] == (2048 * lanes + 4 * columns).tolist()
    assert data["registers"] == {"thread": lanes.tolist(), "register": columns.tolist()} == data[other]["registers"]
    found = accesses(data, side)
    assert np.array_equal(np.unique(found["byte"]), np.unique(data[side]["element_bytes"]))
    assert np.array_equal(found["byte"] // 2048, found["thread"]) and data["source_of"] == list(range(2048))


def test_owners_of_a_store_are_those_of_a_load():
    stored, loaded = (draw(cases.registers(store=store), "fragment").data["registers"] for store in (True, False))
    assert stored == loaded


def test_an_engine_s_pieces():
    data = draw(cases.tcgen05_cp()).data
    source, destination = accesses(data, "source"), accesses(data, "destination")
    assert len(data["instructions"]) == 4 and (source["bytes"] == 16).all() and len(source["byte"]) == 4 * 32 * 4
    lanes, columns = destination["byte"] // 2048, destination["byte"] % 2048 // 4
    assert np.array_equal(np.unique(lanes), np.arange(128)) and np.array_equal(np.unique(columns), [0, 4, 8, 12])
    data = draw(cases.dsmem()).data
    assert set(accesses(data, "destination")["cta"]) == {1} and set(accesses(data, "source")["cta"]) == {0}


def test_a_swizzle_takes_a_box_apart_into_units():
    picture = draw(cases.tma())
    assert len(set(re.findall(r">(\d+,\d+)<", picture.svg))) == 12 * 8 and picture.svg.count(">fill<") == 32


def test_a_multicast_is_one_instruction_for_several_ctas():
    plan = cases.tma()
    words = dict(plan.request.options) | {"multicast": 0b11}
    found = tc.plan(plan.request.dst, plan.request.src, op="copy_async", variant="tma", scope=tc.thread(), target="sm_90a", outside="zero", **words)  # fmt: skip
    data = draw(found).data
    assert len(data["instructions"]) == 1 and set(accesses(data, "destination")["cta"]) == {0, 1}


def test_a_loop_executes_an_instruction_many_times():
    tile = memory("shared", (256, 32), "uint8", "tile", layout=TileLayout(S[(256, 32) : (1, 256)]))
    plan = tc.plan(tile[:, :], memory("global", (256, 32), "uint8", "A")[:, :], scope=tc.warp(), target="sm_90a")
    data = draw(plan, select="instruction 3, warp 0").data
    assert len(data["instructions"]) > len({each["line"] for each in data["instructions"]})
    assert sorted(accesses(data, "destination")["byte"].tolist()) == list(range(8192))


def test_a_copy_of_one_warp_of_several():
    k = tc.KernelBuilder("warps", threads=128)
    A = k.param("A", (4, 32), "float32")
    tile = k.shared((4, 32), "float32", name="tile")
    row = k.warp_id()
    k.warp.copy(tile[row, :], A[row, :])
    data = draw(k.build(target="sm_90a", grid=1).plans[0]).data
    assert accesses(data, "source")["thread"].max() < 32 and data["source_of"] == list(range(32))


def test_sizes_known_at_launch():
    k = tc.KernelBuilder("sized", threads=64)
    M = k.size("M", multiple_of=8)
    A = k.param("A", (M, 64), "float16")
    tile = k.shared((16, 64), "float16", name="tile")
    first = k.block_id() * 16
    k.cta.copy(tile[:, :], A[first : first + 16, :], outside="zero")
    data = draw(k.build(target="sm_90a", grid=((M + 15) // 16,)).plans[0]).data
    assert data["values"]["M"] == 16 and data["source_of"] == list(range(1024))


def test_a_wrong_copy_is_no_picture(monkeypatch):
    from tilecopy_draw import trace

    right = trace.elements_of

    def rolled(region, values, threads):
        elements, held = right(region, values, threads)
        return np.roll(elements, 1), (np.roll(elements, 1), held[1])

    monkeypatch.setattr(trace, "elements_of", lambda region, *known: (rolled if region.buffer.space == "shared" else right)(region, *known))  # fmt: skip
    with pytest.raises(tc.TilecopyError, match=mentions("gmem_smem", 1024)):
        draw(cases.gmem_smem())


def test_a_layout_may_begin_at_an_offset_known_at_run_time():
    begin = tc.symbol("begin", lower=1, upper=4) * 64
    A = memory("global", (16, 64), "float16", "A", layout=tc.TileLayout(tc.S[16, 64]) + begin)
    tile = memory("shared", (16, 64), "float16", "tile")
    data = draw(tc.plan(tile[:, :], A[:, :], scope=tc.cta(64), target="sm_90a")).data
    assert data["values"] == {"begin": 1} and data["source"]["element_bytes"] == list(range(128, 128 + 2048, 2))


def test_a_size_that_never_holds_the_box_has_its_largest_value():
    M = tc.symbol("M", lower=1, upper=12, multiple_of=3)
    tile, A = memory("shared", (16, 64), "float16", "tile"), memory("global", (M, 64), "float16", "A")
    data = draw(tc.plan(tile[:, :], A[0:16, :], scope=tc.cta(64), target="sm_90a", outside="zero")).data
    assert data["values"] == {"M": 12} and data["source_of"].count(-1) == 4 * 64


@pytest.mark.parametrize("name", CASES)
def test_data_is_plain(name):
    import json

    make, kind = CASES[name]
    data = draw(make(), kind).data
    assert json.loads(json.dumps(data)) == data and data["kind"] in ("moves", "banks", "fragment", "bulk")


@pytest.mark.parametrize("x", [
    cases.accumulator(), cases.accumulator(dtype="uint8")[3:9, 4:16], cases.accumulator((16, 8), "float64"),
    cases.accumulator((128, 16), "float32", replica=None)[32:48, :], CASES["tensor_memory_halves"][0](),
    CASES["tensor_memory_layout"][0](),
])  # fmt: skip
def test_every_place_in_tensor_memory_is_the_layout_s(x):
    """The data and the labels of the boxes, against the places that the layout gives."""
    buffer = tc.Buffer((8, 4), "uint32", space="tmem", layout=x, name="layout") if isinstance(x, TileLayout) else x
    region = buffer[...] if isinstance(buffer, tc.Buffer) else buffer
    layout, size = region.buffer.layout, region.buffer.dtype.bits // 8
    picture, wanted, labels = draw(x), set(), {}
    for number, index in enumerate(np.ndindex(region.extents)):
        coordinate = tuple(int(at) + start for at, start in zip(index, region.starts, strict=True))
        for place in layout.places(*coordinate, shape=region.buffer.shape):
            lane, byte = place["TLane"], place["TCol"] * size
            wanted.add((number, lane, byte))
            labels.setdefault((lane, byte // 4), ",".join(map(str, coordinate)))
    assert picture.kind == "fragment"
    lanes, inside = (np.array(picture.data[name]).reshape(-1, region.size) for name in ("lane", "byte"))
    elements = np.broadcast_to(picture.data["element"], lanes.shape)
    assert set(zip(elements.flat, lanes.flat, inside.flat, strict=True)) == wanted
    told = {}
    for names, column, label in re.findall(
        r"<title>lane ([\d ]+), column (\d+): element \((.*?)\)</title>", picture.svg
    ):
        told |= {(int(lane), int(column)): label for lane in names.split()}
    assert told == labels and set(labels.values()) <= set(re.findall(">([0-9,]+)<", picture.svg))


@pytest.fixture
def exchanging():
    """An installed variant that writes global memory by atomic exchanges."""

    @tc.hookimpl
    def tilecopy_predicate(request):
        return tc.Accept()

    @tc.hookimpl
    def tilecopy_partition(request):
        return "32-bit words"

    @tc.hookimpl
    def tilecopy_emit(request, partition, ptx):
        value = ptx.reg("b32")
        for row in range(32):
            at = ptx.tid + 32 * row
            ptx.instr("ld.shared.b32", value, ptx.address(request.src.buffer, at))
            ptx.instr("atom.global.exch.b32", value, ptx.address(request.dst.buffer, at), value)

    variant = tc.Variant(name="exchanging", op="copy", priority=1, summary="x", spaces=(("shared", "global"),))
    hooks = {hook.__name__: hook for hook in (tilecopy_predicate, tilecopy_partition, tilecopy_emit)}
    tc.default_registry().register(SimpleNamespace(variant=variant, **hooks), name=variant.name)
    yield variant.name
    tc.default_registry().unregister(variant.name)


def test_what_atomics_write_is_drawn(exchanging):
    array = tc.Buffer((32, 32), "float32", space="global", name="A")
    tile = tc.Buffer((32, 32), "float32", space="shared", name="tile")
    plan = tc.plan(array[:, :], tile[:, :], scope=tc.warp(), target="sm_90a", variant=exchanging)
    data = draw(plan).data
    assert data["source_of"] == list(range(1024))
    for side in ("source", "destination"):
        assert sorted(accesses(data, side)["byte"].tolist()) == list(range(0, 4096, 4))
