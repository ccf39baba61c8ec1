"""Figures of the benchmarks as records: one JSON object in each line of the file that TILECOPY_FIGURES names.

`python tests/tools/run_gpu.py --figures FILE` names one, and writes all records of a run with the card and the driver.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path


def record(name: str, figure: float, unit: str, **peers: float) -> None:
    """Append a figure; without TILECOPY_FIGURES, nothing is written.

    Args:
        name: what was measured, with the benchmark's name before it: ``"gemm: 4096 cubed"``.
        figure: tilecopy's.
        unit: of the figure and its peers, such as ``"TB/s"``.
        peers: what others reached in the same run; one that is NaN was not measured, and is left out.
    """
    if path := os.environ.get("TILECOPY_FIGURES"):
        measured = {peer: value for peer, value in peers.items() if not math.isnan(value)}
        line = {"name": name, "figure": figure, "unit": unit, "peers": measured}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
