"""The bar charts and tables of figures: `python docs/charts.py` makes them from docs/figures.json, the records of one run on a GPU.

``python tests/tools/run_gpu.py --figures docs/figures.json`` measures the records. Charts are docs/charts/*.svg. A table stands between
``<!-- figures: NAME -->`` and ``<!-- end of figures -->`` on its page. tests/integration/test_docs.py holds that both are made from the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parent
RECORDS = DOCS / "figures.json"
CHARTS = DOCS / "charts"
PAGES = (DOCS / "performance.md", DOCS.parent / "plugins" / "relayout" / "README.md")
TABLE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.S)
WIDTH, LABELS, NUMBERS, BAR, GAP = 760, 250, 60, 14, 10
"""Pixels: of a chart, of the labels at its left, of the numbers at its right, of a bar and between two groups of bars."""
OURS, THEIRS, TEXT = "#2f6fd0", ("#9aa0a6", "#c4b48a", "#b59ac4"), "#1a1a1a"

Record = Mapping[str, Any]


class Bars(NamedTuple):
    """One group of bars: the label, tilecopy's figure, and the peers' by name."""

    label: str
    figure: float
    peers: Mapping[str, float]


class Chart(NamedTuple):
    """One chart, or one table: its title, the unit, and for each record that it takes, by name, the label.

    ``peers`` are the names of peers as the records have them, with the names that readers know.
    """

    title: str
    unit: str
    labels: Mapping[str, str]
    peers: Mapping[str, str]

    def bars(self, records: Sequence[Record]) -> Iterator[Bars]:
        """Yield the groups of bars, in the order of the labels."""
        by_name = {record["name"]: record for record in records}
        for name, label in self.labels.items():
            record = by_name[name]
            yield Bars(
                label, record["figure"], {self.peers[p]: v for p, v in record["peers"].items() if p in self.peers}
            )


RELAYOUTS = (
    *("transpose f32", "transpose f16", "transpose u8", "odd transpose f32", "NCHW to NHWC f16", "NHWC to NCHW f16"),
    *(
        "3-channel NCHW to NHWC u8",
        "210 f16",
        "021 f16",
        "102 f16",
        "bshd to bhsd f16",
        "5-D f32",
        "6-D f32",
        "210 u8",
        "021 u8",
    ),
)
CHART_OF = {
    "copies": Chart(
        "Copy of 2 GiB, read and written",
        "TB/s",
        {
            "round trip: gmem_smem": "gmem_smem, 128x64 float16 tiles",
            "round trip: ldgsts": "ldgsts + gmem_smem, 32x64 tiles",
            "round trip: reg": "reg, 16 bytes per thread",
        },
        {"torch": "torch copy_"},
    ),
    "products": Chart(
        "Kernels with tensor cores, bfloat16",
        "TFLOP/s",
        {
            "gemm: 4096 x 4096 x 4096": "GEMM 4096 cubed",
            "gemm: 8192 x 8192 x 8192": "GEMM 8192 cubed",
            "attention: 16 heads, 4096 tokens": "attention, 16 heads, 4,096 tokens",
            "attention: 64 heads, 4096 tokens": "attention, 64 heads, 4,096 tokens",
            "attention: 16 heads, 16384 tokens": "attention, 16 heads, 16,384 tokens",
        },
        {"cublas": "cuBLAS", "cudnn": "cuDNN", "torch": "torch's default"},
    ),
    "relayouts": Chart(
        "Relayouts, read and written",
        "TB/s",
        {f"relayout: {name}": name for name in RELAYOUTS},
        {"torch": "torch"},
    ),
    "launches": Chart(
        "Host time of a launch with two torch tensors (less is better)",
        "us",
        {"launch: kernel(a, b)": "kernel(a, b)", "launch: kernel.prepare(a, b)": "kernel.prepare(a, b)"},
        {"cuda_core": "cuda.core, raw pointers", "triton": "Triton"},
    ),
}


def number(value: float) -> str:
    """Return a figure with three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value < 1 else f"{value:.2f}"


def svg_of(chart: Chart, records: Sequence[Record]) -> str:
    """Return a chart as SVG: for each record tilecopy's bar, and below it the peers'."""
    groups = list(chart.bars(records))
    largest = max(max(group.figure, *group.peers.values()) for group in groups)
    scale = (WIDTH - LABELS - NUMBERS) / largest
    names = list(dict.fromkeys(name for group in groups for name in group.peers))
    color_of = dict(zip(names, THEIRS, strict=False))
    lines, x = [], float(LABELS)
    for name, color in {"tilecopy": OURS, **color_of}.items():
        lines.append(f'<rect x="{x:.0f}" y="36" width="10" height="10" fill="{color}"/>')
        lines.append(f'<text x="{x + 15:.0f}" y="45">{escape(name)}</text>')
        x += 40 + 7 * len(name)
    y = 62
    for group in groups:
        lines.append(f'<text x="{LABELS - 8}" y="{y + 11}" text-anchor="end">{escape(group.label)}</text>')
        for name, value in {"tilecopy": group.figure, **group.peers}.items():
            length = value * scale
            lines.append(
                f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{color_of.get(name, OURS)}"/>'
            )
            lines.append(f'<text x="{LABELS + length + 5:.1f}" y="{y + 10}" font-size="11">{number(value)}</text>')
            y += BAR
        y += GAP
    title = f"{chart.title}: {chart.unit}, one {records[0]['card']}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
            f'font-family="\'DejaVu Sans\',Verdana,sans-serif" font-size="12" fill="{TEXT}" role="img">',
            f"<title>{escape(title)}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="16" y="22" font-size="14" font-weight="bold">{escape(title)}</text>',
            *lines,
            "</svg>",
            "",
        ]
    )


def table_of(chart: Chart, records: Sequence[Record]) -> str:
    """Return a chart's numbers as a Markdown table, with tilecopy's share of the best peer."""
    groups = list(chart.bars(records))
    names = list(dict.fromkeys(name for group in groups for name in group.peers))
    rows = [["", f"tilecopy, {chart.unit}", *names, "tilecopy / best of the others"]]
    rows += [["---"] * len(rows[0])]
    best = min if chart.unit == "us" else max
    for group in groups:
        peers = [number(group.peers[name]) if name in group.peers else "" for name in names]
        rows.append([group.label, number(group.figure), *peers, f"{group.figure / best(group.peers.values()):.2f}"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def charts() -> dict[Path, str]:
    """Return every chart by the path of its file."""
    records = json.loads(RECORDS.read_text(encoding="utf-8"))["figures"]
    return {CHARTS / f"{name}.svg": svg_of(chart, records) for name, chart in CHART_OF.items()}


def page_with_tables(page: str) -> str:
    """Return a page with each of its tables of figures made from the records."""
    records = json.loads(RECORDS.read_text(encoding="utf-8"))["figures"]
    return TABLE.sub(lambda match: match[1] + table_of(CHART_OF[match[2]], records) + match[3], page)


if __name__ == "__main__":
    CHARTS.mkdir(exist_ok=True)
    for path, text in charts().items():
        path.write_text(text, encoding="utf-8", newline="\n")
    for path in PAGES:
        path.write_text(page_with_tables(path.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
