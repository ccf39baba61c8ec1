"""Count the machine instructions of the canonical kernels on sm_90a, without padding: `python tests/benchmarks/count_instructions.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import tilecopy as tc
from tilecopy.assemblers import assemble
from tilecopy_test_helpers.machine_code import count, cuobjdump

sys.path[:0] = [str(Path(__file__).parent)]

LIMITS = {"gmem_smem": 52, "ldgsts": 57, "reg": 31}
"""Hand-written CUDA's counts, and the issue's for reg (8 x 16 bytes a thread)."""


def kernels() -> dict[str, tc.BuiltKernel]:
    """The grid copies of bench_round_trip (which needs torch only to time them)."""
    sys.modules.setdefault("torch", type(sys)("torch"))
    import bench_round_trip

    rows = 1 << 20
    return {
        "gmem_smem": bench_round_trip.gmem_smem(rows),
        "ldgsts": bench_round_trip.ldgsts(rows, tile_rows=128),
        "reg": bench_round_trip.reg(rows, vectors=8),
    }


def main() -> None:
    """Print the counts by both assemblers; exit 1 when one passes its limit."""
    tool = cuobjdump()
    if tool is None:
        raise SystemExit("cuobjdump is missing: pip install nvidia-cuda-cuobjdump")
    worst = 0
    print(f"{'sm_90a':<12}{'nvjitlink':>10}{'ptxas':>7}{'limit':>7}")
    for name, kernel in kernels().items():
        found = [count(assemble(kernel.ptx, kernel.target, assembler), tool) for assembler in ("nvjitlink", "ptxas")]
        print(f"{name:<12}{found[0]:>10}{found[1]:>7}{LIMITS[name]:>7}")
        worst |= max(found) > LIMITS[name]
    raise SystemExit(int(worst))


if __name__ == "__main__":
    main()
