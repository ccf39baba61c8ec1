"""``relayout_shards`` and DTensors by real processes on the CPU (gloo), against NumPy."""

from __future__ import annotations

import datetime as dt
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from tilecopy_test_helpers.mentions import mentions

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
processes = pytest.importorskip("torch.multiprocessing")
if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("torch has no gloo", allow_module_level=True)

from tilecopy import LaunchError, RequestError
from tilecopy_relayout import relayout, relayout_shards
from tilecopy_relayout.axes import rearrangement
from tilecopy_relayout.distributed import exchange, symmetric
from tilecopy_relayout.distributed.rendezvous import Rendezvous
from tilecopy_relayout.distributed.shards import Shards, cuts_of
from tilecopy_relayout.local import call as local_call
from tilecopy_relayout.planner import launching

from tilecopy_core.plugin import row_major

SECONDS = 300
"""Ends processes that wait for each other for ever; a program takes a few seconds."""


def _process(rank: int, program: Callable[[], None], ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", ranks)
    timeout = dt.timedelta(seconds=SECONDS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=timeout)
    program()
    dist.destroy_process_group()


def run(program: Callable[[], None], ranks: int, folder: Path) -> None:
    """Run it in as many processes as there are ranks, which import torch once."""
    processes.get_context("forkserver").set_forkserver_preload([__name__, "torch._dynamo", "torch.distributed.tensor"])
    processes.start_processes(_process, (program, ranks, str(folder)), nprocs=ranks, start_method="forkserver")


def drawn_cuts(draw: random.Random, extent: int) -> tuple[int, ...]:
    return (0, *sorted(draw.randint(0, extent) for _ in range(dist.get_world_size() - 1)), extent)


def chunked(extent: int) -> tuple[int, ...]:
    ranks = dist.get_world_size()
    return cuts_of([max(0, min(-(-extent // ranks), extent - rank * -(-extent // ranks))) for rank in range(ranks)])


def part(whole: Any, dim: int, cuts: tuple[int, ...]) -> Any:
    first, end = cuts[dist.get_rank() : dist.get_rank() + 2]
    return whole.narrow(dim, first, end - first).contiguous()


def same(one: Any, other: Any) -> bool:
    """By bits."""
    return one.shape == other.shape and one.dtype == other.dtype and bool((_bytes(one) == _bytes(other)).all())


def _bytes(tensor: Any) -> Any:
    return tensor.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)


def gathered(value: Any) -> list[Any]:
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found


# ----------------------------------------------------------------------------------------------------- programs


def against_numpy() -> None:
    draw, noise = random.Random(7), np.random.default_rng(7)
    kinds = [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.int64, torch.complex64]
    for number in range(24):
        rank = draw.randint(1, 4)
        shape = [draw.choice((1, 2, 3, 8, 12)) for _ in range(rank)]
        axes = tuple(draw.sample(range(rank), rank))
        shard_dim, out_shard_dim, dtype = draw.randrange(rank), draw.randrange(rank), kinds[number % len(kinds)]
        size = [*shape[:-1], shape[-1] * dtype.itemsize]
        raw = noise.integers(0, 2 if dtype is torch.bool else 256, size, np.uint8)
        whole = torch.from_numpy(raw).view(dtype)
        x = part(whole, shard_dim, drawn_cuts(draw, shape[shard_dim]) if number % 3 else chunked(shape[shard_dim]))
        if number % 4 == 1:  # rows with a gap behind them
            x = torch.cat([x, x], -1)[..., : x.shape[-1]]
        expected = whole.permute(axes)
        cuts, out = chunked(expected.shape[out_shard_dim]), None
        if number % 2:  # the caller's extents, into every other place
            cuts = drawn_cuts(draw, expected.shape[out_shard_dim])
            like = part(expected, out_shard_dim, cuts)
            out = torch.zeros([*like.shape, 2], dtype=torch.uint8).to(dtype)[..., 0]
        for _ in range(2):
            made = relayout_shards(
                x, axes if number % 5 else list(axes), shard_dim=shard_dim, out_shard_dim=out_shard_dim, out=out
            )
            assert out is None or made is out
            assert same(made, part(expected, out_shard_dim, cuts)), (shape, axes, shard_dim, out_shard_dim, dtype)


def patterns() -> None:
    whole = torch.arange(24 * 5.0).view(24, 5)
    expected = whole.view(2, 12, 5).permute(1, 2, 0).reshape(12, 10)
    x = part(whole, 0, chunked(24))
    for out_shard_dim in (0, 1, -1):
        made = relayout_shards(x, "(a b) c -> b (c a)", shard_dim=0, out_shard_dim=out_shard_dim, a=2)
        assert made.equal(part(expected, out_shard_dim, chunked(expected.shape[out_shard_dim])))


def groups() -> None:
    """Two groups at once, and one of a single rank."""
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    alone = [dist.new_group([rank]) for rank in range(4)][dist.get_rank()]
    group, number = pairs[dist.get_rank() // 2], dist.get_rank() % 2
    whole = torch.arange(24.0).view(4, 6) + dist.get_rank() // 2
    for _ in range(2):
        made = relayout_shards(whole.chunk(2)[number], (1, 0), shard_dim=0, out_shard_dim=0, group=group)
        assert made.equal(whole.t().chunk(2)[number])
        assert relayout_shards(whole, (1, 0), shard_dim=0, out_shard_dim=1, group=alone).equal(whole.t())
    if dist.get_rank() > 1:
        with pytest.raises(RequestError, match=mentions("torch.distributed")):
            relayout_shards(whole, (1, 0), shard_dim=0, out_shard_dim=0, group=pairs[0])


def several_hosts() -> None:
    """Where no memory is shared the group's store carries the words."""
    rendezvous = Rendezvous(dist.group.WORLD, shared=False)
    assert not rendezvous.one_host and Rendezvous(dist.group.WORLD).one_host
    for digest in (5 << 20, 5 << 20, 7 << 20):
        assert rendezvous.all_equal(digest)
    assert not rendezvous.all_equal(dist.get_rank() << 20) and not rendezvous.all_equal(0)
    assert rendezvous.all_gather_text(f"{dist.get_rank()}") == [f"{rank}" for rank in range(dist.get_world_size())]


def a_repeated_call_tells_nothing() -> None:
    x = torch.arange(12.0).view(3, 4) + dist.get_rank()
    relayout_shards(x, (1, 0), shard_dim=0, out_shard_dim=0)
    state = exchange._groups[dist.group.WORLD]
    state.rendezvous.tell = None  # type: ignore[method-assign, assignment]
    for _ in range(70000 if dist.get_world_size() == 2 else 10):  # past the number of a call in a word
        state.rendezvous.all_equal(5 << 20)
    assert relayout_shards(x, (1, 0), shard_dim=0, out_shard_dim=0).shape == (2, 6)


def disagreement() -> None:
    rank = dist.get_rank()
    x = torch.zeros(4, 6)
    odd = rank == 1
    calls: list[Callable[[], Any]] = [
        lambda: relayout_shards(x.double() if odd else x, (1, 0), shard_dim=0, out_shard_dim=0),
        lambda: relayout_shards(x[:, :5] if odd else x, (1, 0), shard_dim=0, out_shard_dim=0),
        lambda: relayout_shards(x, (0, 1) if odd else (1, 0), shard_dim=0, out_shard_dim=0),
        lambda: relayout_shards(x, (1, 0), shard_dim=int(odd), out_shard_dim=0),
        lambda: relayout_shards(x, (1, 0), shard_dim=0, out_shard_dim="a" if odd else 0),  # type: ignore[arg-type]
        lambda: relayout_shards(x, 5 if odd else (1, 0), shard_dim=0, out_shard_dim=0),
        lambda: relayout_shards(x, (1, 0), shard_dim=0, out_shard_dim=0, out=x.new_zeros(6, 8) if odd else None),
        lambda: relayout_shards(x, (1, 0), shard_dim=0, out_shard_dim=0, out=x.new_zeros(3, 9)),
        lambda: relayout_shards(x.to_sparse() if odd else x, (1, 0), shard_dim=0, out_shard_dim=0),
        lambda: relayout_shards(x, (1, 0), shard_dim=9, out_shard_dim=0),
    ]
    relayout_shards(x, (1, 0), shard_dim=0, out_shard_dim=0)  # a remembered call meets others
    for call in calls:
        try:
            call()
        except RequestError as error:
            said = gathered(str(error))
        else:
            said = gathered("nothing")
        assert len(set(said)) == 1 and said[0] != "nothing", said
        made = relayout_shards(x + rank, (1, 0), shard_dim=0, out_shard_dim=1)
        assert made.shape == (6, 2 * 4 // 2) and sorted(made.unique().tolist()) == [rank]


def a_rank_that_does_not_come() -> None:
    x = torch.zeros(4, 6)
    relayout_shards(x, (1, 0), shard_dim=0, out_shard_dim=0)
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait(["rank 0 has given up"], dt.timedelta(seconds=SECONDS))
        return
    exchange._groups[dist.group.WORLD].rendezvous.seconds = 1
    for axes in ((1, 0), (0, 1)):
        with pytest.raises(LaunchError, match=mentions(0, 1, 2)):
            relayout_shards(x, axes, shard_dim=0, out_shard_dim=0)
    store.set("rank 0 has given up", "")


def gradients() -> None:
    draw = random.Random(1)
    whole = torch.randn(8, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = torch.arange(240.0, dtype=torch.float64).view(5, 8, 6)
    cuts = drawn_cuts(draw, 8)
    x = part(whole, 0, cuts).requires_grad_()
    made = relayout_shards(x, (2, 0, 1), shard_dim=0, out_shard_dim=2)
    (made.square() * part(weight, 2, chunked(6))).sum().backward()
    y = whole.clone().requires_grad_()
    (y.permute(2, 0, 1).square() * weight).sum().backward()
    assert x.grad is not None and x.grad.allclose(part(y.grad, 0, cuts))
    with pytest.raises(RequestError):
        relayout_shards(x, (2, 0, 1), shard_dim=0, out_shard_dim=2, out=torch.zeros_like(made))
    with torch.no_grad():
        assert not relayout_shards(x, (2, 0, 1), shard_dim=0, out_shard_dim=2).requires_grad


def what_torch_records_of_out() -> None:
    """PyTorch #23756 and #71117, across ranks."""
    rank, forward_ad = dist.get_rank(), torch.autograd.forward_ad
    x, arguments = torch.ones(2, 4), {"shard_dim": 0, "out_shard_dim": 0}
    for axes, shape in (((1, 0), (2, 4)), ((0, 1), (2, 4))):
        weight, value = torch.ones(shape, requires_grad=True), torch.zeros(shape)
        for _ in range(2):
            loss, version = (weight * value).sum(), value._version
            relayout_shards(x, axes, out=value, **arguments)
            assert value._version > version
            with pytest.raises(RuntimeError, match=mentions(value._version)):
                loss.backward()
    out = torch.zeros(2, 4, requires_grad=True)
    with torch.no_grad():
        assert relayout_shards(x, (1, 0), out=out, **arguments) is out
    for given, refusing in ((out, 0), (out if rank else torch.zeros(2, 4), 1)):
        with pytest.raises(RequestError, match=mentions(refusing, "out")):
            relayout_shards(x, (1, 0), out=given, **arguments)
    with pytest.raises(RequestError, match="out="):
        relayout_shards(x.clone().requires_grad_(), (1, 0), out=out, **arguments)
    with forward_ad.dual_level():
        assert relayout_shards(x, (1, 0), **arguments).sum() == 8
        with pytest.raises(RequestError, match="forward-mode"):
            relayout_shards(forward_ad.make_dual(x, x), (1, 0), **arguments)
    with pytest.raises(RequestError, match="torch.func"):
        torch.func.grad(lambda a: relayout_shards(a, (1, 0), **arguments).sum())(x)


def compiled() -> None:
    whole = torch.arange(8 * 6.0).view(8, 6)

    def function(x: Any) -> Any:
        return relayout_shards(x * 2, "a (b c) -> c (a b)", shard_dim=0, out_shard_dim=0, b=2) + 1

    x = part(whole, 0, chunked(8)).requires_grad_()
    made = torch.compile(function, backend="aot_eager", fullgraph=True)(x)
    expected = (whole * 2).view(8, 2, 3).permute(2, 0, 1).reshape(3, 16) + 1
    assert made.equal(part(expected, 0, chunked(3)))
    made.sum().backward()
    assert x.grad is not None and x.grad.eq(2).all()
    arguments = (x, "a (b c) -> c (a b)", "b", [2], 0, 0, dist.group.WORLD.group_name, -1, 8)
    torch.library.opcheck(torch.ops.tilecopy.relayout_shards, arguments)
    uneven = torch.zeros(2 + dist.get_rank(), 6)
    with pytest.raises(RequestError, match=mentions("torch.compile")):
        torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=False)(uneven)


def dtensors() -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2))
    whole = torch.arange(8 * 10 * 6.0).view(8, 10, 6)
    turned = whole.view(8, 5, 2, 6).permute(1, 0, 3, 2).reshape(5, 48, 2)
    cases: list[tuple[list[Any], Any, list[Any] | None, list[Any]]] = [
        ([Shard(0), Shard(2)], (2, 0, 1), None, [Shard(1), Shard(0)]),
        ([Shard(0), Replicate()], (2, 0, 1), [Shard(2), Replicate()], [Shard(2), Replicate()]),
        ([Shard(1), Shard(0)], (2, 0, 1), [Shard(0), Shard(1)], [Shard(0), Shard(1)]),
        ([Replicate(), Shard(1)], "a (b c) d -> b (a d) c", [Replicate(), Shard(-2)], [Replicate(), Shard(1)]),
    ]
    for had, axes, asked, has in cases:
        array = distribute_tensor(whole, mesh, had)
        sizes = {"c": 2} if isinstance(axes, str) else {}
        made = relayout(array, axes, placements=asked, executor=None if asked else "emulator", **sizes)
        assert list(made.placements) == has and made.full_tensor().equal(turned if sizes else whole.permute(axes))
    array = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    for call, message in (
        (lambda: relayout(array, (2, 0, 1), placements=[Shard(0), Replicate()]), ()),
        (lambda: relayout(array, (2, 0, 1), placements=[Shard(0)]), (2,)),
        (lambda: relayout(array, (2, 0, 1), placements=[Shard(3), Shard(0)]), ("placements", 3)),
        (lambda: relayout(array, "a b c -> (a b) c"), ("array.redistribute",)),
        (lambda: relayout(array, (2, 0, 1), out=array), ()),
        (lambda: relayout(whole, (2, 0, 1), placements=[Shard(0)]), ("placements", "torch")),
    ):
        with pytest.raises(RequestError, match=mentions(*message)):
            call()
    array = distribute_tensor(whole.clone(), mesh, [Shard(0), Replicate()]).requires_grad_()
    relayout(array, (1, 2, 0), placements=[Shard(0), Replicate()]).to_local().square().sum().backward()
    assert array.grad is not None and array.grad.to_local().equal(2 * array.to_local())


@attrs.frozen
class Handle:
    """NOT a GPU's symmetric memory: a stand-in by files that all ranks map."""

    rank: int
    buffer_ptrs: list[int]
    kept: list[Any]

    def barrier(self, channel: int, timeout_ms: int) -> None:
        assert timeout_ms == SECONDS * 1000
        dist.barrier()


class Rooms:
    """What gives out such memory; a rank's begins elsewhere in its file than another's."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count, self.own = folder, 0, 0

    def _mapped(self, rank: int) -> Any:
        return np.memmap(self.folder / f"{self.count}-{rank}", np.uint8, "r+")

    def empty(self, nbytes: int, dtype: Any, device: Any) -> Any:
        self.count += 1
        rank = dist.get_rank()
        (self.folder / f"{self.count}-{rank}").write_bytes(bytes(nbytes + 4096))
        mapped = self._mapped(rank)
        self.own = mapped.ctypes.data
        return torch.from_numpy(mapped[64 * rank :][:nbytes])

    def rendezvous(self, tensor: Any, name: str) -> Handle:
        dist.barrier()
        rank = dist.get_rank()
        mapped = [self._mapped(each) for each in range(dist.get_world_size())]
        bases = [each.ctypes.data for each in mapped]
        bases[rank] = self.own
        return Handle(rank, bases, mapped)


def on_the_emulator(work: symmetric.PutGraph, source: int, *, captured: bool) -> None:
    work.barrier()
    for launch, first, address in work.moves:
        plan = launch.plan(launching.align_of(source + first), launching.align_of(address))
        views = launching._operands(plan, source + first, address)
        plan.kernel(*map(np.asarray, views), executor="emulator")
    work.barrier()


def into_each_others_memory() -> None:
    """The addresses, plans and order of what the GPUs do, on the emulator."""
    import torch.distributed._symmetric_memory as torchs

    group, ranks, rank = dist.group.WORLD, dist.get_world_size(), dist.get_rank()
    with tempfile.TemporaryDirectory() as own, pytest.MonkeyPatch.context() as patch:
        folders = gathered(own)
        rooms = Rooms(Path(folders[0]))
        stand_in = SimpleNamespace(active=lambda gpu: nullcontext(), call=lambda name, flags: 5)
        stream = SimpleNamespace(wait=lambda: None, record=lambda: None)
        for owner, name, value in (
            (torchs, "empty", rooms.empty),
            (torchs, "rendezvous", rooms.rendezvous),
            (symmetric, "_LEAST_BYTES", 4096),
            (symmetric, "driver", lambda: stand_in),
            (local_call, "target_of_gpu", lambda gpu: "sm_90"),
            (symmetric.PutGraph, "__call__", on_the_emulator),
            (torch.cuda, "device", lambda device: nullcontext()),
            (torch.cuda, "Event", lambda: stream),
            (torch.cuda, "is_current_stream_capturing", lambda: False),
        ):
            patch.setattr(owner, name, value)
        rendezvous = Rendezvous(group)
        workspace = symmetric.SymmetricWorkspace(group.group_name, rendezvous)
        draw = random.Random(2)
        for shape, axes, shard_dim, out_shard_dim, dtype in (
            ((8, 12, 16), (1, 0, 2), 0, 0, torch.bfloat16),
            ((8, 12, 16), (2, 0, 1), 1, 2, torch.float32),
            ((7, 9), (0, 1), 0, 0, torch.uint8),
            ((60, 40), (1, 0), 0, 0, torch.float64),  # more than was kept
        ):
            whole = torch.arange(np.prod(shape)).view(shape).to(dtype)
            expected = whole.permute(axes)
            cuts, into = drawn_cuts(draw, shape[shard_dim]), drawn_cuts(draw, expected.shape[out_shard_dim])
            shards = Shards(rearrangement(axes, shape), shard_dim, out_shard_dim, cuts, into)
            strides = [row_major(shards.out_shape(each)) for each in range(ranks)]
            x = part(whole, shard_dim, cuts)
            move = workspace.push(x, None, shards, strides)
            assert move is not None
            out = torch.zeros(shards.out_shape(rank), dtype=dtype)
            for made in (move(group, x, None), move(group, x, out)):
                assert same(made, part(expected, out_shard_dim, into))
            room = rooms.empty(1 << 17, torch.uint8, None).view(dtype)[: 2 * out.numel()]
            direct = room.view(*out.shape, 2)[..., 1]  # every other element of the caller's memory
            told = [tuple(2 * step for step in each) for each in strides]
            move = workspace.push(x, direct, shards, told)
            assert move is not None
            assert move(group, x, direct) is direct and same(direct, part(expected, out_shard_dim, into))
        assert len(workspace._kept) == 2

        def refused(tensor: Any, name: str) -> Handle:
            if rank == 1:
                raise RuntimeError("no way from GPU to GPU")
            return Handle(rank, [0] * ranks, [])

        patch.setattr(torchs, "rendezvous", refused)
        workspace = symmetric.SymmetricWorkspace(group.group_name, rendezvous)
        assert workspace.push(x, None, shards, strides) is None and workspace.push(x, None, shards, strides) is None
        dist.barrier()


PROGRAMS = [
    (against_numpy, 2),
    (against_numpy, 3),
    (against_numpy, 8),
    (patterns, 3),
    (groups, 4),
    (several_hosts, 3),
    (a_repeated_call_tells_nothing, 2),
    (disagreement, 2),
    (gradients, 3),
    (what_torch_records_of_out, 2),
    (compiled, 2),
    (dtensors, 4),
    (into_each_others_memory, 3),
]


@pytest.mark.parametrize(("program", "ranks"), PROGRAMS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_ranks(program: Callable[[], None], ranks: int, tmp_path: Path) -> None:
    run(program, ranks, tmp_path)


def test_a_rank_that_does_not_come(tmp_path: Path) -> None:
    run(a_rank_that_does_not_come, 2, tmp_path)


def test_the_example_on_two_nodes() -> None:
    """Two of torchrun's nodes on this machine."""
    example = Path(__file__).parents[3] / "docs" / "examples" / "relayout_shards.py"
    if not example.exists():
        pytest.skip("the example belongs to the repository")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes=2",
        "--nproc-per-node=1",
        f"--master-port={port}",
    ]
    nodes = [
        subprocess.Popen(
            [*torchrun, "--master-addr=127.0.0.1", f"--node-rank={node}", str(example)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},  # both would take this machine's GPU 0
        )
        for node in range(2)
    ]
    said = [node.communicate(timeout=600) for node in nodes]
    assert said[0][0] == "right on 2 ranks: (32, 8, 16) to (4, 64, 16) and back\n", said


def test_no_group() -> None:
    with pytest.raises(RequestError, match=mentions("init_process_group")):
        relayout_shards(torch.zeros(2), (0,), shard_dim=0, out_shard_dim=0)
    assert relayout(torch.zeros(2, 3), (1, 0), executor="emulator").shape == (3, 2)
