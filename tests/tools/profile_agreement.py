"""Compare the emulator's profile with Nsight Compute's counters: `python tests/tools/profile_agreement.py`, with a GPU and ncu.

Twelve kernels run once each under ncu (which runs this program with `--launch`). Their global sectors and shared wavefronts are
compared with the emulator's counts. The exit status is 1 if a figure differs by more than 2 percent.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections import defaultdict
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy import S, TileLayout, laneid
from tilecopy_test_helpers.programs import round_trip

METRICS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "global_sectors",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "global_sectors",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "shared_wavefronts",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "shared_wavefronts",
}


def fragments(dtype: str, layout: tc.Layout | None) -> tc.BuiltKernel:
    """Rows of a tile through shared memory into a warp's registers and out to global memory."""
    k = tc.KernelBuilder("fragments", threads=32)
    a, b = k.param("A", (64 * 32, 16), dtype), k.param("B", (64 * 32, 16), dtype)
    rows = slice(k.block_id() * 32, k.block_id() * 32 + 32)
    tile = k.shared((32, 16), dtype, layout=layout, name="tile")
    held = k.local((32, 16), dtype, layout=TileLayout(S[(32, 16) : (1 @ laneid, 1)]), name="held")
    k.warp.copy(tile[:, :], a[rows, :])
    k.warp_sync()
    k.warp.copy(held[:, :], tile[:, :])
    k.warp.copy(b[rows, :], held[:, :])
    return k.build(target="sm_90", grid=64)


def swizzled(mode: str, dtype: str) -> tc.Layout:
    """The swizzled layout of a 32 x 64 tile."""
    return tc.SwizzledLayout(tc.swizzle(mode, dtype), TileLayout(S[32, 64]))


KERNELS: dict[str, tc.BuiltKernel] = {
    "rows float16": round_trip((512, 256), (32, 64), "float16"),
    "rows float32": round_trip((512, 256), (32, 64), "float32"),
    "rows float64": round_trip((512, 256), (32, 64), "float64"),
    "rows uint8": round_trip((512, 256), (32, 64), "uint8"),
    "columns float32": round_trip((512, 256), (32, 64), "float32", layout=TileLayout(S[(32, 64) : (1, 32)])),
    "columns, padded": round_trip((512, 256), (32, 64), "float32", layout=TileLayout(S[(32, 64) : (1, 33)])),
    "rows, padded": round_trip((512, 256), (32, 64), "float32", layout=TileLayout(S[(32, 64) : (65, 1)])),
    "swizzled 128B": round_trip((512, 256), (32, 64), "float16", layout=swizzled("128B", "float16")),
    "swizzled 32B": round_trip((512, 256), (32, 64), "float32", layout=swizzled("32B", "float32")),
    "one warp": round_trip((512, 256), (32, 64), "float16", threads=32, scope="warp"),
    "fragments float32": fragments("float32", None),
    "fragments, padded": fragments("float32", TileLayout(S[(32, 16) : (20, 1)])),
}


def arguments(kernel: tc.BuiltKernel) -> list[Any]:
    """Arrays for a kernel."""
    return [np.ones(p.shape, p.dtype.numpy()) for p in kernel.arrays]


def main() -> None:
    """Launch for ncu, or compare."""
    if sys.argv[1:] == ["--launch"]:
        for kernel in KERNELS.values():
            kernel(*arguments(kernel), executor="cuda")
        return
    ncu = shutil.which("ncu")
    if ncu is None:
        raise SystemExit("ncu is not installed")
    command = [ncu, "--csv", "--metrics", ",".join(METRICS), sys.executable, __file__, "--launch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode or not lines:
        raise SystemExit(f"ncu cannot count here: {(done.stdout + done.stderr)[-600:]}")
    counted: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in csv.DictReader(lines):
        counted[int(row["ID"])][METRICS[row["Metric Name"]]] += float(row["Metric Value"].replace(",", ""))
    from tilecopy_emulator import EmulatorExecutor

    worst = 0.0
    for (name, kernel), number in zip(KERNELS.items(), sorted(counted), strict=True):
        report = EmulatorExecutor(profile=True).launch(kernel, arguments(kernel))
        for what, found in counted[number].items():
            ours = report.counters[what]
            off = abs(ours - found) / max(found, 1)
            worst = max(worst, off)
            print(f"{name:<20} {what:<18} ncu {found:>9.0f}  emulator {ours:>9}  {off:6.1%}", flush=True)
    print(f"largest difference {worst:.1%}")
    raise SystemExit(worst > 0.02)


if __name__ == "__main__":
    main()
