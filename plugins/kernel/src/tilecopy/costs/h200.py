"""The limits of an H200, and coefficients fitted to half of the measured copies in ``tests/data/costs_h200.json.gz``.

A coefficient is 0 where nothing was measured.
"""

from .gpu_model import GpuModel, PathModel

MODEL = GpuModel(
    paths={
        ("registers", "load"): PathModel(crowded=0.06, narrow=0.5, partial=0.8),
        ("cp.async", "load"): PathModel(narrow=0.32, split=0.2, partial=0.45),
        ("bulk", "load"): PathModel(narrow=0.32, split=0.2, partial=0.45, piece=5.0),
        ("tensor", "load"): PathModel(crowded=0.04, narrow=0.5, split=0.13, partial=1.1, piece=1.6),
        ("registers", "store"): PathModel(crowded=0.065, narrow=0.085, partial=2.0),
        ("bulk", "store"): PathModel(
            crowded=0.055, narrow=0.085, split=1.05, partial=1.6, piece=3.9, queue_bytes=120_000
        ),
        ("tensor", "store"): PathModel(
            crowded=0.065, narrow=0.085, split=0.73, partial=2.0, piece=3.1, queue_bytes=120_000
        ),
    },
    dram_bytes=19.2,
    whole_bytes={"load": 128, "store": 256},
    crowd_bytes=120_000,  # 16 MB in all SMs
    l2_bytes=50.0,
    latency_cycles=450.0,
    barrier_cycles=640.0,
    other_registers=16,
    sharpness={"load": 2.5, "store": 4.0},  # stores overlap more
    schedulers=4,
    sm_threads=2048,
    sm_ctas=32,
    sm_registers=1 << 16,
    sm_shared_bytes=227 * 1024,
    cta_shared_bytes=1024,
)
