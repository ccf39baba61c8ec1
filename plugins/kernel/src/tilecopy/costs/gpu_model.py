"""A model that estimates the GPU time of a copy from the copy's counts and a GPU's data, such as :mod:`.h200`."""

from __future__ import annotations

from collections.abc import Mapping

from tilecopy_core.errors import frozen

from .counts import CopyCounts
from .traffic import SECTOR_BYTES


@frozen
class PathModel:
    """Overhead coefficients of a data path between global memory and an SM. The overhead is added to the transfer time.

    Attributes:
        crowded: the fraction of DRAM time that is added when ``crowd_bytes`` are in flight in each SM. It grows with the square of
            the bytes in flight.
        narrow: the fraction that is added for rows of half of ``whole_bytes``. It grows with the bytes in flight.
        partial: DRAM bytes per byte of a touched sector that is not moved.
        split: cycles per sector of global memory that is spread over several sectors of shared memory.
        piece: cycles per contiguous piece.
        queue_bytes: the fewest bytes in flight, because copies do not wait for each other.
    """

    crowded: float = 0.0
    narrow: float = 0.0
    partial: float = 0.0
    split: float = 0.0
    piece: float = 0.0
    queue_bytes: float = 0.0


@frozen
class GpuModel:
    """The limits of a GPU, and the coefficients that are fitted to measured copies.

    Attributes:
        paths: (data path, ``load`` or ``store``) -> its coefficients.
        dram_bytes: DRAM bytes per cycle of each SM while all SMs copy.
        whole_bytes: ``load`` or ``store`` -> the bytes of a row below which an L2 line is read or written in parts. Rows of half of this
            cost the most.
        crowd_bytes: bytes in flight per SM. More evict sectors from L2 before their neighbours are requested.
        l2_bytes: bytes per cycle that an SM reads from L2, with the sectors that it reads again.
        latency_cycles: cycles of a load from global memory while DRAM is busy.
        barrier_cycles: cycles of the barriers around a copy to shared memory.
        other_registers: registers per thread that a kernel uses beside those of the copy.
        sharpness: ``load`` or ``store`` -> the exponent of the p-norm that joins the limits.
        schedulers: warp instructions that an SM issues per cycle.
        sm_threads, sm_ctas, sm_registers, sm_shared_bytes: the most of each that an SM holds.
        cta_shared_bytes: the bytes of shared memory that the hardware reserves for each CTA.
    """

    paths: Mapping[tuple[str, str], PathModel]
    dram_bytes: float
    whole_bytes: Mapping[str, int]
    crowd_bytes: float
    l2_bytes: float
    latency_cycles: float
    barrier_cycles: float
    other_registers: float
    sharpness: Mapping[str, float]
    schedulers: int
    sm_threads: int
    sm_ctas: int
    sm_registers: int
    sm_shared_bytes: int
    cta_shared_bytes: int

    def active_per_sm(self, counts: CopyCounts) -> int:
        """Return the number of scopes (such as CTAs or warps) that execute the copy on one SM at the same time."""
        threads = -(-counts.cta_threads // 32) * 32
        registers_per_thread = -(-(counts.registers + self.other_registers) // 8) * 8
        registers = int(self.sm_registers // (threads * registers_per_thread))
        shared = self.sm_shared_bytes // (counts.shared_bytes + self.cta_shared_bytes)
        return max(1, min(self.sm_threads // threads, self.sm_ctas, registers, shared)) * counts.copies_per_cta

    def limits(self, counts: CopyCounts) -> dict[str, float]:
        """Return a dict from each GPU limit (``dram``, ...) to an SM's cycles per copy if only this limit applies."""
        direction, active = "store" if counts.stores else "load", self.active_per_sm(counts)
        path = self.paths.get((counts.data_path, direction), PathModel())
        under_way = max(path.queue_bytes, active * counts.nbytes) / self.crowd_bytes
        wanted_bytes = self.whole_bytes[direction] * counts.contiguous_pieces
        narrow = min(1.0, max(0.0, wanted_bytes / max(1, counts.touched_sector_bytes) - 1))
        share = 1 + under_way**2 * path.crowded + under_way * path.narrow * narrow
        partial = path.partial * (1 + 4 * under_way if counts.stores else under_way**2)
        moved = min(counts.nbytes, counts.touched_sector_bytes)
        dram_bytes = moved * share + (counts.touched_sector_bytes - moved) * partial
        has_rounds = counts.in_flight_bytes and not counts.stores
        rounds = max(1.0, counts.nbytes / counts.in_flight_bytes) if has_rounds else 0.0
        waits = self.barrier_cycles if counts.shared_bytes and moved and not counts.stores else 0.0
        return {
            "dram": dram_bytes / self.dram_bytes + path.split * counts.split_sectors,
            "l2": counts.merged_sectors * SECTOR_BYTES / self.l2_bytes,
            "lanes": float(counts.lines + counts.merged_wavefronts),
            "issue": counts.requests / self.schedulers,
            "engine": path.piece * counts.bulk_rows,
            "latency": (self.latency_cycles * rounds + waits) / active,
        }

    def cycles(self, counts: CopyCounts) -> float:
        """Return an SM's cycles per copy while all SMs execute this copy. Unknown traffic counts as zero."""
        limits = self.limits(counts)
        limits["lanes"] = max(limits["lanes"], limits.pop("issue"))  # these overlap in full: both are instructions
        sharpness = self.sharpness["store" if counts.stores else "load"]
        return float(sum(limit**sharpness for limit in limits.values()) ** (1 / sharpness))
