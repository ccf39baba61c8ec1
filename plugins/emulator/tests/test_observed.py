"""What an observer is told, held against the memory that it tells of."""

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_emulator import AccessEvent, EmulatorExecutor, Transfer, run_ptx
from tilecopy_test_helpers.mentions import mentions


def observed(kernel, *arrays, **more):
    told = []
    report = EmulatorExecutor(observer=told.append, **more).launch(kernel, arrays)
    return told, report


def round_trip(variant="ldgsts", ctas=2, **more):
    k = tc.KernelBuilder("round_trip", threads=64)
    A, B = (k.param(name, (16 * ctas, 64), "float16") for name in "AB")
    layout = tc.SwizzledLayout(tc.swizzle("128B", "float16"), tc.TileLayout(tc.S[16, 64]))
    tile = k.shared((16, 64), "float16", layout=layout, name="tile")
    rows = slice(k.block_id() * 16, k.block_id() * 16 + 16)
    k.cta.copy_async(tile[:, :], A[rows, :], variant=variant)
    k.cp_async_commit()
    k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(B[rows, :], tile[:, :])
    return k.build(target="sm_90a", grid=ctas)


def test_loads_stores_and_cp_async_of_several_ctas():
    a = np.arange(2048, dtype=np.uint16).view(np.float16).reshape(32, 64)
    b = np.zeros_like(a)
    kernel = round_trip()
    told, report = observed(kernel, a, b)
    copies = [each for each in told if isinstance(each, Transfer)]
    assert [len(each.threads) for each in copies] == [128, 128]
    assert all(each.source.array == "A" and each.destination.array == "smem_tile" for each in copies)
    assert all((each.destination.ctas == each.threads // 64).all() for each in copies)
    assert all("copy_async" in kernel.source_location(each.line) for each in copies)
    stores = [each for each in told if isinstance(each, AccessEvent) and each.kind == "store"]
    assert {each.opcode for each in stores} == {"st.global.v4.b32"} and {each.array for each in stores} == {"B"}
    written = np.zeros(b.nbytes, np.uint8)
    for each in stores:
        written[each.offsets[:, None] + np.arange(each.bytes)] = each.raw
    assert (written == a.reshape(-1).view(np.uint8)).all() and (written == b.reshape(-1).view(np.uint8)).all()
    loads = [each for each in told if isinstance(each, AccessEvent) and each.kind == "load" and each.space == "shared"]
    assert sum(each.raw.size for each in loads) == a.nbytes
    assert report.counters == {}


def test_it_changes_nothing_and_is_told_as_often_as_is_counted():
    a, b, c = (np.arange(2048, dtype=np.uint16).view(np.float16).reshape(32, 64) for _ in range(3))
    kernel = round_trip()
    told, report = observed(kernel, a, b, profile=True)
    plain = EmulatorExecutor(profile=True).launch(kernel, (a, c))
    assert (report.lines, report.counters) == (plain.lines, plain.counters) and (b == c).all()
    for line in {each.line for each in told}:
        assert sum(len(each.threads) for each in told if each.line == line) == report.lines[line]


def test_cp_async_reads_nothing_outside():
    k = tc.KernelBuilder("edge", threads=32)
    A, B = k.param("A", (5, 8), "float32"), k.param("B", (8, 8), "float32")
    tile = k.shared((8, 8), "float32", name="tile")
    k.cta.copy_async(tile[:, :], A[0:8, :], outside="zero", variant="ldgsts")
    k.cp_async_commit()
    k.cp_async_wait(0)
    k.cta_sync()
    k.cta.copy(B[:, :], tile[:, :])
    told, _ = observed(k.build(target="sm_80", grid=1), np.ones((5, 8), np.float32), np.zeros((8, 8), np.float32))
    copies = [each for each in told if isinstance(each, Transfer)]
    assert sum(int(each.read.sum()) for each in copies) == 5 * 8 * 4
    assert sum(each.bytes * len(each.threads) for each in copies) == 8 * 8 * 4


def test_tensor_copies_are_told_in_units_and_what_lies_outside_is_not_read():
    k = tc.KernelBuilder("box", threads=32)
    A = k.param("A", (12, 64), "float16")
    tile = k.shared((16, 64), "float16", name="tile")
    mbar = k.mbarrier()
    with k.if_(k.thread_id() == 0):
        mbar.init(1)
        k.fence_mbarrier_init()
        mbar.arrive_expect_tx(2048)
        k.thread.copy_async(tile[:, :], A[0:16, :], outside="zero", variant="tma", mbar=mbar)
    k.cta_sync()
    mbar.wait(0)
    told, _ = observed(k.build(target="sm_90a", grid=1), np.ones((12, 64), np.float16))
    (copy,) = [each for each in told if isinstance(each, Transfer)]
    assert copy.source.array == "A" and copy.destination.array == "smem_tile" and (copy.threads == 0).all()
    assert (copy.destination.offsets == np.arange(0, 2048, 16)).all() and copy.bytes == 16
    assert (copy.read == np.repeat([16, 0], [96, 32])).all()
    assert (copy.source.offsets[:96] == np.arange(0, 1536, 16)).all()


def test_bulk_copies_into_another_cta_and_stores_there():
    k = tc.KernelBuilder("far", threads=32)
    source, target = (k.shared(64, "float32", name=name) for name in ("source", "target"))
    mbar = k.mbarrier()
    k.store(source[k.thread_id()], 1.0)
    k.store(source[k.thread_id() + 32], 2.0)
    with k.if_(k.thread_id() == 0):
        mbar.init(1)
        k.fence_mbarrier_init()
        mbar.arrive_expect_tx(256)
    k.fence_proxy_async()
    k.cluster_sync()
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(target[:], source[:], mbar=mbar, remote_cta_id=k.cluster_rank() ^ 1, variant="dsmem")
    mbar.wait(0, cluster=True)
    k.cluster_sync()
    told, _ = observed(k.build(target="sm_90a", grid=4, cluster=2))
    copies = [each for each in told if isinstance(each, Transfer)]
    assert sorted(np.concatenate([each.threads for each in copies]).tolist()) == [0, 32, 64, 96]
    for copy in copies:
        assert copy.bytes == 256 and copy.source.offsets.tolist() == copy.destination.offsets.tolist() == [0, 0]
        assert (copy.source.ctas == copy.threads // 32).all() and (copy.destination.ctas == copy.source.ctas ^ 1).all()
        assert (copy.source.array, copy.destination.array) == ("smem_source", "smem_target")


TEXT = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry count(.param .u64 x)
{
    .reg .b32 %r<4>; .reg .b64 %rd<3>;
    .shared .align 4 .b8 word[4];
    mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [x];
    mov.u32 %r2, word; st.shared.b32 [%r2], 7;
    atom.shared.add.u32 %r3, [%r2], 2;
    red.global.add.u32 [%rd1+4], %r3;
    ret;
}
"""


def test_atomics_tell_what_was_there_before():
    told = []
    x = np.array([1, 2], np.uint32)
    run_ptx(TEXT, [x], grid=1, block=1, observer=told.append)
    assert [(e.kind, e.space, e.array) for e in told[1:]] == [
        ("store", "shared", "word"), ("atomic", "shared", "word"), ("atomic", "global", "x")
    ]  # fmt: skip
    assert [int(e.raw.view(np.uint32)[0, 0]) for e in told[1:]] == [7, 7, 2]
    assert told[-1].offsets.tolist() == [4] and told[-1].line == 12 and x.tolist() == [1, 9]


@pytest.mark.parametrize("observer", [3, "f", []])
def test_an_observer_is_a_function(observer):
    with pytest.raises(tc.LaunchError, match=mentions("observer")):
        EmulatorExecutor(observer=observer)
    with pytest.raises(tc.LaunchError, match=mentions("observer")):
        run_ptx(TEXT, [np.zeros(2, np.uint32)], grid=1, block=1, observer=observer)
