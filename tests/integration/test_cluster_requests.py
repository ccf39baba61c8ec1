"""The launch is part of a request: rows of the variants about the cluster and the CTA group, in plans and in kernels."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
import tilecopy as tc
from tilecopy import R, S, TCol, TileLayout, TLane
from tilecopy.assemblers import ASSEMBLERS, assemble
from tilecopy_test_helpers import byte_arrays, demos

ROUTER = TileLayout(S[(32, 16) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])


def shared(name: str, **more: Any) -> tc.Buffer:
    return tc.Buffer((32, 16), "uint8", space="shared", name=name, align_bytes=1024, **more)


def planned(name: str, cluster: int | None, **options: Any) -> tc.Plan:
    """A plan of dsmem, tma with a mask, or tcgen05_cp."""
    asked: dict[str, Any] = {"op": "copy_async", "scope": tc.thread(), "target": "sm_100a", "variant": name}
    source = shared("src")
    if name == "dsmem":
        asked["mbar"] = tc.Buffer(1, "uint64", space="shared", name="mbar", align_bytes=8)
        target = shared("dst")
    elif name == "tma":
        asked["mbar"] = tc.Buffer(1, "uint64", space="shared", name="mbar", align_bytes=8)
        target, source = shared("dst"), tc.Buffer((32, 16), "uint8", space="global", name="A")
    else:
        target = tc.Buffer((32, 16), "uint8", space="tmem", layout=ROUTER, name="t")
    return tc.plan(target[:, :], source[:, :], cluster=cluster, **asked, **options)


RANK = tc.symbol("rank", upper=15)
LATE = tc.symbol("late", lower=4, upper=15)

TAKEN = [
    ("dsmem", None, {"remote_cta_id": 15}),
    ("dsmem", 2, {"remote_cta_id": 1}),
    ("dsmem", 3, {"remote_cta_id": 2}),
    ("dsmem", 16, {"remote_cta_id": 15}),
    ("dsmem", 2, {"remote_cta_id": RANK}),
    ("dsmem", 5, {"remote_cta_id": LATE}),
    ("tma", None, {"multicast": 0xFFFF}),
    ("tma", 2, {"multicast": 3}),
    ("tma", 3, {"multicast": 4}),
    ("tma", 16, {"multicast": 0x8000}),
    ("tma", 1, {"multicast": 1}),
    ("tma", 1, {}),
    ("tma", 4, {"multicast": RANK}),
    ("tcgen05_cp", None, {"cta_group": 2}),
    ("tcgen05_cp", 2, {"cta_group": 2}),
    ("tcgen05_cp", 6, {"cta_group": 2}),
    ("tcgen05_cp", 1, {}),
    ("tcgen05_cp", 3, {"cta_group": 1}),
]
DECLINED = [
    ("dsmem", 1, {"remote_cta_id": 1}, (1, 2)),
    ("dsmem", 1, {"remote_cta_id": RANK}, (1, 2)),
    ("dsmem", 2, {"remote_cta_id": 2}, (2, 2)),
    ("dsmem", 2, {"remote_cta_id": 15}, (15, 2)),
    ("dsmem", 4, {"remote_cta_id": LATE}, (4, 3)),
    ("tma", 1, {"multicast": 3}, (3, 1)),
    ("tma", 1, {"multicast": RANK}, (1, 2)),
    ("tma", 2, {"multicast": 7}, (7, 2)),
    ("tma", 15, {"multicast": 0x8000}, (0x8000, 15)),
    ("tcgen05_cp", 1, {"cta_group": 2}, (1, 2)),
    ("tcgen05_cp", 7, {"cta_group": 2}, (7, 2)),
]


@pytest.mark.parametrize(("name", "cluster", "options"), TAKEN)
def test_a_plan_is_taken_where_the_launch_can_carry_it_or_is_not_known(
    name: str, cluster: int | None, options: dict[str, Any]
) -> None:
    found = planned(name, cluster, **options)
    assert (found.variant, found.request.cluster) == (name, cluster)


@pytest.mark.parametrize(("name", "cluster", "options", "numbers"), DECLINED)
def test_a_plan_is_declined_with_both_numbers_where_the_launch_cannot_carry_it(
    name: str, cluster: int, options: dict[str, Any], numbers: tuple[int, int]
) -> None:
    with pytest.raises(tc.NoVariantError) as caught:
        planned(name, cluster, **options)
    assert all(str(number) in caught.value.declined[name] for number in numbers)


@pytest.mark.parametrize("cluster", [0, -1, True, 2.0, "2", (2,), 2**31])
def test_a_cluster_is_a_number_of_ctas(cluster: Any) -> None:
    with pytest.raises(tc.RequestError, match="cluster"):
        planned("dsmem", cluster, remote_cta_id=1)
    assert planned("dsmem", np.int64(2), remote_cta_id=1).request.cluster == 2  # type: ignore[arg-type]


def test_a_request_of_another_cta_group_is_declined() -> None:
    request = attrs.evolve(planned("tcgen05_cp", 2, cta_group=2).request, cta_group=1)
    plugin = tc.default_registry().table().plugin_named("tcgen05_cp")
    assert plugin is not None
    reason = str(tc.default_registry().call(plugin, "tilecopy_predicate", request=request).reason)
    assert "2" in reason and "1" in reason
    assert tc.default_registry().call(plugin, "tilecopy_predicate", request=attrs.evolve(request, cta_group=2))


def sends(rank: int | None = None, cluster: Any = None) -> tc.BuiltKernel:
    """A kernel whose CTA 0 sends to a rank, or to the next one."""
    k = tc.KernelBuilder("sends", threads=32)
    src, dst, bar = k.shared((32, 16), "uint8"), k.shared((32, 16), "uint8"), k.mbarrier()
    to = k.cluster_rank() + 1 if rank is None else rank
    with k.if_((k.thread_id() == 0) & (k.cluster_rank() == 0)):
        k.thread.copy_async(dst[:, :], src[:, :], mbar=bar, remote_cta_id=to)
    return k.build(target="sm_90", cluster=cluster)


@pytest.mark.parametrize(("rank", "cluster"), [(1, None), (1, 1), (None, None), (2, 2), (15, 2), (6, (2, 3)), (3, 3)])
def test_a_kernel_whose_cluster_cannot_carry_a_copy_is_refused(rank: int | None, cluster: Any) -> None:
    with pytest.raises(tc.NoVariantError) as caught:
        sends(rank, cluster)
    ctas = np.prod(cluster or 1)
    assert str(ctas) in caught.value.declined["dsmem"]


@pytest.mark.parametrize(("rank", "cluster"), [(1, 2), (None, 2), (5, (2, 3)), (15, 16), (2, 3)])
def test_a_copy_knows_the_cluster_of_its_kernel(rank: int | None, cluster: Any) -> None:
    kernel = sends(rank, cluster)
    assert (kernel.plans[0].variant, kernel.plans[0].request.cluster) == ("dsmem", np.prod(cluster))


def test_a_rank_past_the_cluster_is_refused_wherever_it_is_mapped() -> None:
    for cluster, rank in ((None, 1), (2, 2)):
        k = tc.KernelBuilder("arrives", threads=32)
        bar = k.mbarrier()
        bar.arrive(cta_rank=rank)
        with pytest.raises(tc.RequestError, match=str(rank)):
            k.build(target="sm_90", grid=2, cluster=cluster)
        assert "mapa" in k.build(target="sm_90", grid=4, cluster=4).ptx


@pytest.mark.parametrize("cluster", [3, 5, 6, 7])
def test_clusters_of_every_size_send_to_the_last_cta(cluster: int) -> None:
    kernel = demos.dsmem("sm_90", elementwise=True, cluster=cluster, box=(slice(40, 48), slice(0, 64)))
    for assembler in ASSEMBLERS:
        assert assemble(kernel.ptx, kernel.target, assembler)[:4] == b"\x7fELF"
    a, b = byte_arrays.random_array((128, 64), "float16"), np.zeros((128, 64), np.float16)
    kernel(a, b, executor="emulator")
    assert byte_arrays.same_bytes(a[40:48], b[40:48])
    assert not b[:40].any() and not b[48:].any()


def test_a_cluster_that_no_device_has_builds_and_is_refused_at_the_launch() -> None:
    k = tc.KernelBuilder("many", threads=32)
    k.cluster_sync()
    for cluster in ((32, 1, 1), (4, 4, 2)):
        kernel = k.build(target="sm_90", grid=(32, 4, 2), cluster=cluster)
        assert f".reqnctapercluster {', '.join(map(str, cluster))}" in kernel.ptx
        with pytest.raises(tc.LaunchError, match="32"):
            kernel(executor="emulator")


def test_a_kernel_whose_tensor_memory_is_a_pairs_needs_pairs() -> None:
    for cluster in (None, 1, 3):
        k = tc.KernelBuilder("pairs", threads=128)
        t, tile = k.tmem((32, 16), "uint8", layout=ROUTER), k.shared((32, 16), "uint8", align_bytes=1024)
        with k.if_(k.warp_id() == 0):
            k.tcgen05_alloc(t, cta_group=2)
        with pytest.raises(tc.RequestError, match=str(cluster or 1)):
            k.build(target="sm_100a", cluster=cluster)
        assert "cta_group::2" in k.build(target="sm_100a", cluster=4).ptx
        with k.if_(k.thread_id() == 0):
            k.thread.copy_async(t[:, :], tile[:, :])
        with pytest.raises(tc.NoVariantError) as caught:
            k.build(target="sm_100a", cluster=cluster)
        assert str(cluster or 1) in caught.value.declined["tcgen05_cp"]
        plan = k.build(target="sm_100a", cluster=2).plans[0]
        assert (plan.request.cluster, plan.request.cta_group) == (2, 2)


def test_a_copy_of_another_cta_group_than_the_kernels_is_declined() -> None:
    k = tc.KernelBuilder("mixed", threads=128)
    t, tile = k.tmem((32, 16), "uint8", layout=ROUTER), k.shared((32, 16), "uint8", align_bytes=1024)
    with k.if_(k.warp_id() == 0):
        k.tcgen05_alloc(t, cta_group=1)
    with k.if_(k.thread_id() == 0):
        k.thread.copy_async(t[:, :], tile[:, :], cta_group=2)
    with pytest.raises(tc.NoVariantError):
        k.build(target="sm_100a", cluster=2)
