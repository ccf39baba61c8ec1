"""Test ``relayout_shards`` on all GPUs of this machine (at most four): `python tests/tools/gpu_shards.py [RANKS]`.

Each GPU has one process and random bytes. Every result is compared with torch's bit by bit. GPUs are delayed at random, so that
a missing barrier shows. The exit status is 1 if a check fails. It takes about a minute.
"""

from __future__ import annotations

import datetime as dt
import random
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from tilecopy import RequestError
from tilecopy_relayout import relayout_shards
from tilecopy_relayout.arrays.torch_internals import is_symmetric
from tilecopy_relayout.distributed import exchange
from tilecopy_relayout.distributed.shards import chunk_extents, cuts_of

KINDS = (torch.bfloat16, torch.float32, torch.uint8, torch.float64, torch.float8_e4m3fn, torch.complex128)


def random_tensor(shape: list[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """The same random bytes on every rank."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    size = [*shape[:-1], shape[-1] * dtype.itemsize]
    return torch.randint(0, 256, size, dtype=torch.uint8, device="cuda", generator=generator).view(dtype)


def part(whole: torch.Tensor, dim: int, cuts: tuple[int, ...]) -> torch.Tensor:
    """This rank's."""
    first, end = cuts[dist.get_rank() : dist.get_rank() + 2]
    return whole.narrow(dim, first, end - first).contiguous()


def chunked(extent: int) -> tuple[int, ...]:
    """Where the parts of torch.chunk begin."""
    return cuts_of(chunk_extents(extent, dist.get_world_size()))


def uneven(draw: random.Random, extent: int) -> tuple[int, ...]:
    """Where parts of any extents begin."""
    return (0, *sorted(draw.randint(0, extent) for _ in range(dist.get_world_size() - 1)), extent)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """By bits."""
    flat = [each.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8) for each in (one, other)]
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(*flat)


def delay() -> None:
    """The GPU of this rank is late by up to a millisecond."""
    torch.cuda._sleep(random.randrange(2_000_000))


# ------------------------------------------------------------------------------------------------------- checks


def drawn() -> None:
    """Permutations, types, uneven parts, strides, ``out=``; each call twice with other data, and all results held."""
    draw, held = random.Random(3), []
    for number in range(30):
        rank, dtype = draw.randint(1, 4), KINDS[number % len(KINDS)]
        shape = [draw.choice((1, 3, 8, 32, 40)) for _ in range(rank)]
        axes = tuple(draw.sample(range(rank), rank))
        shard_dim, out_shard_dim = draw.randrange(rank), draw.randrange(rank)
        cuts = uneven(draw, shape[shard_dim]) if number % 3 else chunked(shape[shard_dim])
        out_extent = shape[axes[out_shard_dim]]
        into = uneven(draw, out_extent) if number % 2 else chunked(out_extent)
        for run in range(2):
            whole = random_tensor(shape, dtype, 10 * number + run)
            expected = part(whole.permute(axes), out_shard_dim, into)
            x = part(whole, shard_dim, cuts)
            if number % 4 == 1:  # begins at any element
                x = x.new_empty(x.numel() + 1)[1:].view(x.shape).copy_(x)
            out = x.new_empty([*expected.shape, 2])[..., 0] if number % 2 else None
            delay()
            made = relayout_shards(x, axes, shard_dim=shard_dim, out_shard_dim=out_shard_dim, out=out)
            held.append((made, expected, (shape, axes, shard_dim, out_shard_dim, dtype)))
    for made, expected, what in held:
        assert same(made, expected), what


def patterns() -> None:
    """Splits and merges of what is divided."""
    whole = random_tensor([48, 64], torch.bfloat16, 1)
    expected = whole.view(2, 24, 64).permute(1, 2, 0).reshape(24, 128)
    x = part(whole, 0, chunked(48))
    for out_shard_dim in (0, 1):
        made = relayout_shards(x, "(a b) c -> b (c a)", shard_dim=0, out_shard_dim=out_shard_dim, a=2)
        assert same(made, part(expected, out_shard_dim, chunked(expected.shape[out_shard_dim])))


def races() -> None:
    """Calls on two streams in turn, which nothing else orders, while ranks are late; arrays and results are dropped and made anew."""
    streams, wrong = [torch.cuda.Stream(), torch.cuda.Stream()], []
    ranks = dist.get_world_size()
    wanted = torch.arange(ranks, device="cuda", dtype=torch.int16).repeat_interleave(256)[None, :, None]
    torch.cuda.synchronize()
    for number in range(60):
        with torch.cuda.stream(streams[number // 3 % 2]):
            x = torch.full((256, 16 * ranks, 64), number, dtype=torch.int16, device="cuda") + dist.get_rank()
            delay()
            made = relayout_shards(x, (1, 0, 2), shard_dim=0, out_shard_dim=0)
            if number % 2:
                delay()
            wrong.append((made != wanted + number).sum())
            x.fill_(-1)
    torch.cuda.synchronize()
    assert not sum(map(int, wrong)), [number for number, count in enumerate(wrong) if int(count)]


def growing() -> None:
    """The memory that is kept becomes larger; what was captured before stays right."""
    for tokens in (64, 4096, 1 << 15, 256):
        whole = random_tensor([tokens, 32, 128], torch.bfloat16, tokens)
        for _ in range(3):
            made = relayout_shards(part(whole, 0, chunked(tokens)), (1, 0, 2), shard_dim=0, out_shard_dim=0)
            assert same(made, part(whole.transpose(0, 1), 0, chunked(32)))


def symmetric_out() -> None:
    """Written directly: memory of the caller's that the other ranks reach."""
    from torch.distributed._symmetric_memory import empty

    ranks = dist.get_world_size()
    room = empty(2, 8, 512 * ranks, 64, dtype=torch.bfloat16, device="cuda")
    assert is_symmetric(room) and is_symmetric(room[1]) and not is_symmetric(torch.empty_like(room))
    for number in range(6):
        whole = random_tensor([512 * ranks, 8 * ranks, 64], torch.bfloat16, number)
        out = room[number % 2]
        delay()
        made = relayout_shards(part(whole, 0, chunked(512 * ranks)), (1, 0, 2), shard_dim=0, out_shard_dim=0, out=out)
        assert made is out and same(out, part(whole.transpose(0, 1), 0, chunked(8 * ranks)))
        torch.cuda.synchronize()


def in_a_graph() -> None:
    """Captured into a graph of the caller's, and replayed with other data."""
    ranks = dist.get_world_size()
    x = torch.zeros(128, 4 * ranks, 64, dtype=torch.float32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    for warm in (True, False):
        with torch.cuda.graph(graph) if not warm else torch.cuda.stream(torch.cuda.Stream()):
            x += dist.get_rank() + 1
            y = relayout_shards(x, (2, 1, 0), shard_dim=0, out_shard_dim=1)
            z = relayout_shards(y * 2, (2, 1, 0), shard_dim=1, out_shard_dim=0)
        torch.cuda.synchronize()
    for number in range(2, 6):
        delay()
        graph.replay()
        torch.cuda.synchronize()
        assert bool((z == 2 * x).all()) and bool((x == number * (dist.get_rank() + 1)).all()), number
        wanted = (torch.arange(ranks, device="cuda") + 1).repeat_interleave(128) * number
        assert bool((y == wanted[None, None, :]).all()), number


def gradients() -> None:
    """There and back."""
    whole = torch.randn(64, 32, 16, device="cuda", generator=torch.Generator(device="cuda").manual_seed(0))
    cuts = uneven(random.Random(5), 64)
    x = part(whole, 0, cuts).requires_grad_()
    relayout_shards(x, (1, 2, 0), shard_dim=0, out_shard_dim=0).square().sum().backward()
    assert x.grad is not None and x.grad.equal(2 * x)


def disagreement() -> None:
    """The same error on every rank, and the next call is right."""
    odd = dist.get_rank() == 1
    x = torch.zeros(64, 64, device="cuda")
    for _ in range(2):
        try:
            relayout_shards(x, (0, 1) if odd else (1, 0), shard_dim=0, out_shard_dim=0)
        except RequestError as error:
            assert "axes" in str(error) and "rank 1" in str(error)
        else:
            raise AssertionError("nothing was refused")
        relayout_shards(x, (1, 0), shard_dim=0, out_shard_dim=0)


def by_nccl() -> None:
    """The same calls by all_to_all_single."""
    state = exchange._groups[dist.group.WORLD]
    assert state.workspace._usable, "symmetric memory was not used"
    state.kinds.clear()
    state.workspace._usable = False
    for check in (drawn, patterns, races, growing, gradients):
        check()


CHECKS: tuple[Callable[[], None], ...] = (
    drawn, patterns, races, growing, symmetric_out, in_a_graph, gradients, disagreement, by_nccl
)  # fmt: skip


def main(rank: int, ranks: int, store: str, names: list[str]) -> None:
    """One rank's process."""
    torch.cuda.set_device(rank)
    random.seed(rank)
    dist.init_process_group(
        "nccl",
        store=dist.FileStore(store, ranks),
        rank=rank,
        world_size=ranks,
        timeout=dt.timedelta(minutes=10),
        device_id=torch.device("cuda", rank),
    )
    for check in CHECKS:
        if names and check.__name__ not in names:
            continue
        started = time.monotonic()
        check()
        torch.cuda.synchronize()
        dist.barrier()
        if rank == 0:
            print(f"{check.__name__:<16} right on {ranks} GPUs, {time.monotonic() - started:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    count: Any = next((int(word) for word in sys.argv[1:] if word.isdigit()), min(4, torch.cuda.device_count()))
    if count < 2:
        raise SystemExit("two GPUs are needed")
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(
            main, (count, f"{folder}/store", [word for word in sys.argv[1:] if not word.isdigit()]), nprocs=count
        )
