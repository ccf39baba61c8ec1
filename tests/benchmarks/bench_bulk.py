"""Compare bulk copies of 2 GiB through 16 KiB tiles with torch's copy_: `python tests/benchmarks/bench_bulk.py`.

2 GiB in and 2 GiB out of random bytes, equality checked, medians over batches of ten launches by device events. Needs torch.
The kernels are :func:`single` (a tile a CTA), :func:`several` (two or more) and :func:`staged` (CTAs that stay, each with a ring
of tiles).
"""

from __future__ import annotations

import sys
from pathlib import Path

import tilecopy as tc

NBYTES = 2 << 30
TILE_BYTES = 16384
LAUNCHES = 10
"""Launches a measurement."""
CTAS = (1, 2, 3, 4, 6)
"""CTAs of one SM that are tried for each number of stages; those past 227 KiB of tiles are left out."""
STAGES = (2, 3, 4, 6, 8)
SHARED_BYTES = 227 * 1024


def single(tiles: int, ahead: int = 0, target: str = "sm_90") -> tc.BuiltKernel:
    """One tile a CTA, one thread: in by one bulk copy, out by another; the SM's other CTAs hide its latency.

    With ``ahead``, each CTA also brings the tile so many further on to L2, for a CTA that has not started.
    """
    k = tc.KernelBuilder("bulk_single", threads=32)
    a, b = k.param("A", (tiles, TILE_BYTES), "uint8"), k.param("B", (tiles, TILE_BYTES), "uint8")
    tile, full, block = k.shared((TILE_BYTES,), "uint8", name="tile"), k.mbarrier("full"), k.block_id("x")
    with k.if_(k.thread_id() == 0):
        full.init(1)
        k.fence_mbarrier_init()
        full.arrive_expect_tx(TILE_BYTES)
        if ahead:
            with k.if_(block < tiles - ahead):
                k.thread.copy_async(tile[:], a[block, :], mbar=full[0], variant="bulk", prefetch=a[block + ahead, :])
            with k.if_(block >= tiles - ahead):
                k.thread.copy_async(tile[:], a[block, :], mbar=full[0], variant="bulk")
        else:
            k.thread.copy_async(tile[:], a[block, :], mbar=full[0], variant="bulk")
        full.wait(0)
        k.thread.copy_async(b[block, :], tile[:], variant="bulk_store")
        k.bulk_commit()
        k.bulk_wait(0, read=True)
    return k.build(target=target, grid=tiles)


def several(tiles: int, stages: int, target: str = "sm_90") -> tc.BuiltKernel:
    """``stages`` neighbouring tiles a CTA, one thread: all are fetched, and sent out when the last has arrived.

    So memory reads 128 KiB and then writes as much, with eight of them: it need not turn around for every tile.
    """
    if tiles % stages:
        raise ValueError(f"{tiles} tiles are not a multiple of {stages}")
    k = tc.KernelBuilder(f"bulk_several_{stages}", threads=32)
    a, b = k.param("A", (tiles, TILE_BYTES), "uint8"), k.param("B", (tiles, TILE_BYTES), "uint8")
    ring = k.shared((stages, TILE_BYTES), "uint8", name="ring")
    full, first = k.mbarrier("full", count=stages), k.block_id("x") * stages
    with k.if_(k.thread_id() == 0):
        for slot in range(stages):
            full.init(1, index=slot)
        k.fence_mbarrier_init()
        for slot in range(stages):
            full.arrive_expect_tx(TILE_BYTES, index=slot)
            k.thread.copy_async(ring[slot, :], a[first + slot, :], mbar=full[slot], variant="bulk")
        for slot in range(stages):
            full.wait(0, index=slot)
        for slot in range(stages):
            k.thread.copy_async(b[first + slot, :], ring[slot, :], variant="bulk_store")
        k.bulk_commit()
        k.bulk_wait(0, read=True)
    return k.build(target=target, grid=tiles // stages)


def staged(tiles: int, ctas: int, stages: int, target: str = "sm_90") -> tc.BuiltKernel:
    """CTAs that stay: CTA ``c`` copies tiles ``c``, ``c + ctas`` and so on through ``stages`` tiles of shared memory.

    One thread does all. Tile ``n`` of a CTA uses slot ``n % stages``. In step ``n`` the thread waits for tile ``n`` and sends it
    out; then the slot of tile ``n - 1`` is free once all but the newest group have been read, and is filled with the tile
    ``stages - 1`` ahead. So ``stages - 1`` tiles are on their way in while one or two are on their way out.
    """
    if not 1 <= ctas <= tiles or stages < 2:
        raise ValueError(f"{ctas} CTAs and {stages} stages for {tiles} tiles")
    k = tc.KernelBuilder(f"bulk_staged_{stages}", threads=32)
    a, b = k.param("A", (tiles, TILE_BYTES), "uint8"), k.param("B", (tiles, TILE_BYTES), "uint8")
    ring = k.shared((stages, TILE_BYTES), "uint8", name="ring")
    full, block = k.mbarrier("full", count=stages), k.block_id("x")
    ahead = stages - 1
    laps = -(-tiles // (ctas * stages))

    def fetch(lap: tc.Expr | int, step: int) -> None:
        """Tile ``step`` of a lap of this CTA into its slot, where there is one."""
        if step * ctas >= tiles:  # there is none in any lap
            return
        slot, tile = step % stages, (lap * stages + step) * ctas + block
        with k.if_(tile < tiles):
            full.arrive_expect_tx(TILE_BYTES, index=slot)
            k.thread.copy_async(ring[slot, :], a[tile, :], mbar=full[slot], variant="bulk")

    with k.if_(k.thread_id() == 0):
        for slot in range(stages):
            full.init(1, index=slot)
        k.fence_mbarrier_init()
        for step in range(ahead):
            fetch(0, step)
        with k.range(laps) as lap:
            for slot in range(stages):
                if slot * ctas >= tiles:
                    continue
                tile = (lap * stages + slot) * ctas + block
                with k.if_(tile < tiles):
                    full.wait(lap % 2, index=slot)
                    k.thread.copy_async(b[tile, :], ring[slot, :], variant="bulk_store")
                    k.bulk_commit()
                    k.bulk_wait(1, read=True)
                    fetch(lap, slot + ahead)
        k.bulk_wait(0, read=True)
    return k.build(target=target, grid=ctas)


def main() -> None:
    """Print a table: TB/s read + written, and the ratio to torch in this run; exit 1 where a result differs."""
    import torch

    sys.path[:0] = [str(Path(__file__).parent)]
    from bench_round_trip import median_seconds
    from figures import record

    tiles = NBYTES // TILE_BYTES
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    a = torch.randint(0, 256, (tiles, TILE_BYTES), dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    kernels = [
        ("a tile a CTA", single(tiles)),
        ("the same, prefetched", single(tiles, ahead=12 * sms)),
        *((f"{n} tiles a CTA", several(tiles, n)) for n in (2, 4, 8)),
    ]
    for stages in STAGES:
        for ctas in CTAS:
            if ctas * (stages * TILE_BYTES + 1024 + 128) <= SHARED_BYTES:
                kernels.append((f"{stages} stages, {ctas} CTAs an SM", staged(tiles, ctas * sms, stages)))
    peers = [median_seconds(lambda: b.copy_(a), batch=LAUNCHES, runs=15)]
    print(f"{'copy of 2 GiB, 16 KiB tiles':<30}{'TB/s':>8}{'of torch':>10}  equal")
    rows: list[tuple[float, str]] = []
    for name, kernel in kernels:
        b.zero_()
        seconds = median_seconds(lambda kernel=kernel: kernel(a, b), batch=LAUNCHES, runs=15)
        equal = bool(torch.equal(a, b))
        record(f"bulk: {name}", 2 * NBYTES / seconds / 1e12, "TB/s", torch=2 * NBYTES / peers[0] / 1e12)
        print(f"{name:<30}{2 * NBYTES / seconds / 1e12:>8.3f}{peers[0] / seconds:>10.3f}  {equal}")
        if not equal:
            raise SystemExit(f"{name}: the result differs")
        rows.append((seconds, name))
    peers.append(median_seconds(lambda: b.copy_(a), batch=LAUNCHES, runs=15))
    for when, seconds in zip(("before", "after"), peers, strict=True):
        print(f"{'torch copy_, ' + when:<30}{2 * NBYTES / seconds / 1e12:>8.3f}{1:>10.3f}")
    best, name = min(rows)
    print(f"best: {name}, {min(peers) / best:.3f} of the faster torch")


if __name__ == "__main__":
    main()
