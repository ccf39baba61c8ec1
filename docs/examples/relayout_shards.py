"""The exchange of Ulysses attention: every rank has some of the tokens of all heads, and gets all tokens of some heads.

On two nodes (or twice on one machine, as two nodes, with 127.0.0.1), each with as many processes as it has GPUs:

    torchrun --nnodes=2 --node-rank=0 --nproc-per-node=2 --master-addr=HOST --master-port=29500 docs/examples/relayout_shards.py
    torchrun --nnodes=2 --node-rank=1 --nproc-per-node=2 --master-addr=HOST --master-port=29500 docs/examples/relayout_shards.py

Without GPUs it runs on the CPU, by gloo.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from tilecopy_relayout import relayout_shards

TOKENS, HEADS, DEPTH = 64, 8, 16


def main() -> None:
    """There, something that needs all tokens of a head, and back."""
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    whole = torch.arange(TOKENS * HEADS * DEPTH, dtype=torch.float32, device=device).view(TOKENS, HEADS, DEPTH)
    x = whole.chunk(ranks, 0)[rank]  # some tokens, all heads

    heads = relayout_shards(x, (1, 0, 2), shard_dim=0, out_shard_dim=0)  # [heads / ranks, tokens, depth]
    assert heads.equal(whole.transpose(0, 1).chunk(ranks, 0)[rank])

    attended = heads.cumsum(1)  # along all tokens

    y = relayout_shards(attended, (1, 0, 2), shard_dim=0, out_shard_dim=0)  # [tokens / ranks, heads, depth]
    assert y.equal(whole.cumsum(0).chunk(ranks, 0)[rank])
    if rank == 0:
        print(f"right on {ranks} ranks: {tuple(x.shape)} to {tuple(heads.shape)} and back")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
