"""Machine instructions of the canonical kernels on sm_90a, padding left out: `python tests/benchmarks/count_instructions.py`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import tilecopy as tc
from tilecopy.assemblers import assemble

sys.path[:0] = [str(Path(__file__).parent)]

LIMITS = {"gmem_smem": 52, "ldgsts": 57, "reg": 31}
"""Hand-written CUDA's counts, and the issue's for reg (8 x 16 bytes a thread)."""


def cuobjdump() -> str | None:
    """The disassembler of the PATH or of an installed wheel."""
    found = shutil.which("cuobjdump")
    if found is None:
        spec = find_spec("nvidia")
        for root in (spec.submodule_search_locations or []) if spec else []:
            for path in Path(root).glob("*/bin/cuobjdump"):
                return str(path)
    return found


def count(cubin: bytes, tool: str) -> int:
    """Instructions of a cubin's one kernel, without NOPs and the closing branch to itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        text = subprocess.run([tool, "-sass", str(path)], capture_output=True, text=True, check=True).stdout
    instructions = re.findall(r"^\s+/\*[0-9a-f]{4}\*/\s+(.*?);", text, re.M)
    last = len(instructions) - 1 - next(i for i, line in enumerate(reversed(instructions)) if "BRA" in line)
    return sum(1 for number, line in enumerate(instructions) if number != last and not re.match(r"(@\S+ )?NOP", line))


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
