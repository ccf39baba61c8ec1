"""Measure every candidate of the relayout planner on one GPU, for the fifteen large cases of bench_relayout.py.

    python tests/benchmarks/sweep_relayout.py plugins/relayout/tests/sweep.json [CASE...]
    python tests/benchmarks/sweep_relayout.py plugins/relayout/tests/sweep_narrow.json --narrow [CASE...]

``--narrow`` takes arrays whose elements of one and two bytes begin anywhere. With names of cases only those are measured
again; the file keeps the others. What it writes is what the planner's cost model is held against
(plugins/relayout/tests/test_planner.py). Kernels are built by many processes; each result is compared with torch's.
"""

from __future__ import annotations

import json
import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench_relayout import BYTES, CASES, NARROW, seconds

SIZES = {"float32": 4, "float16": 2, "uint8": 1}


def problem_of_case(name: str) -> Any:
    """The normal form of a case."""
    from tilecopy_relayout.planner.problem import RelayoutSpec, problem_of

    from tilecopy_core.layout import row_major

    shape, axes, dtype = (CASES | NARROW)[name]
    out = row_major([shape[a] for a in axes])
    by_source = dict(zip(axes, out, strict=True))
    return problem_of(
        RelayoutSpec(shape, row_major(shape), tuple(by_source[n] for n in range(len(shape))), SIZES[dtype])
    )[0]


def built(work: tuple[str, Any]) -> Any:
    """The kernel of one candidate of a case."""
    from tilecopy_relayout.planner.kernels import build

    return build(problem_of_case(work[0]), work[1], "sm_90a")


def main() -> int:
    """Measure, print the best of each case, and write all."""
    import torch
    from tilecopy_relayout.planner.candidates import candidates
    from tilecopy_relayout.planner.problem import DTYPES

    if not torch.cuda.is_available():
        print("no GPU: nothing to measure")
        return 1
    memory = torch.randint(0, 255, (BYTES,), dtype=torch.uint8, device="cuda")
    into = torch.empty_like(memory)
    copy = 2 * BYTES / seconds(torch, lambda: into.copy_(memory)) / 1e12
    report: dict[str, Any] = {"GPU": torch.cuda.get_device_name(0), "copy_": round(copy, 3), "cases": []}
    path, chosen = Path(sys.argv[1]), [word for word in sys.argv[2:] if word != "--narrow"]
    cases = NARROW if "--narrow" in sys.argv else CASES
    names = chosen or list(cases)
    kept = {case["name"]: case for case in json.loads(path.read_text())["cases"]} if chosen else {}
    wrong = 0
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as pool:
        jobs = {name: [(name, tiling) for tiling in candidates(problem_of_case(name))] for name in names}
        kernels = {name: [pool.submit(built, job) for job in found] for name, found in jobs.items()}
        for name in names:
            shape, axes, dtype = cases[name]
            asked = problem_of_case(name)
            nbytes = asked.size_bytes
            source = memory[:nbytes].view(getattr(torch, dtype)).view(shape)
            expected = source.permute(axes).contiguous().view(torch.uint8).view(-1)
            kind = getattr(torch, DTYPES[asked.elem_bytes])
            views = [
                torch.as_strided(flat[:nbytes].view(kind), asked.extents, getattr(asked, side))
                for flat, side in ((memory, "src"), (into, "dst"))
            ]
            measured = []
            for (_, tiling), kernel in zip(jobs[name], kernels[name], strict=True):
                launch = kernel.result().prepare(*views)
                into[:nbytes].zero_()
                launch()
                wrong += not torch.equal(into[:nbytes], expected)
                rate = 2 * nbytes / seconds(torch, launch, runs=3) / 1e12
                measured.append([round(rate, 3), tiling.kind, tiling.tile, tiling.threads, tiling.order])
            del expected
            measured.sort(key=lambda row: -float(row[0]))
            kept[name] = {"name": name, "shape": shape, "axes": axes, "elem_bytes": SIZES[dtype], "measured": measured}
            print(f"{name:28s} {len(measured)} candidates, best {measured[0]}", flush=True)
    report["cases"] = [kept[name] for name in cases if name in kept]
    print(
        f"{sum(len(c['measured']) for c in report['cases'])} kernels, {wrong} wrong; geometric mean of the best:",
        round(math.prod(c["measured"][0][0] / copy for c in report["cases"]) ** (1 / len(report["cases"])), 3),
    )
    path.write_text(json.dumps(report, separators=(",", ":")))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
