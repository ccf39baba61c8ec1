"""From the emitted lines of one kernel to the text of a PTX module."""

from __future__ import annotations

from collections.abc import Sequence

from .bindings import POOL, SharedPlan
from .builder import PtxBuilder
from .instructions import CLUSTERS, header_target, merge
from .lines import texts_of


def module_text(
    ptx: PtxBuilder,
    name: str,
    parameters: Sequence[tuple[str, str]],
    shared: SharedPlan,
    cluster: tuple[int, int, int] | None = None,
    min_ctas_per_sm: int | None = None,
) -> tuple[str, tuple[int, ...]]:
    """A module with one kernel, of parameters by name and PTX type; ``.version`` and ``.target`` as low as may be.

    Returns:
        The text, and for each of its lines the number of the statement that it came from (0 for none).
    """
    needs = ptx.needs if cluster is None else merge(ptx.needs, CLUSTERS)
    version, target = header_target(needs, ptx.target)
    lines = [f".version {version[0]}.{version[1]}", f".target {target}", ".address_size 64", ""]
    buffers = shared.buffers.values()
    if shared.dynamic:
        lines += [f".extern .shared .align {max(b.align_bytes for b in buffers)} .b8 {POOL}[];", ""]
    lines.append(f".visible .entry {name}(")
    lines += ",\n".join(f"\t.param .{type} param_{parameter}" for parameter, type in parameters).split("\n")
    lines.append(")")
    lines.append(f".reqntid {ptx.cta_threads}, 1, 1")
    if min_ctas_per_sm is not None:
        lines.append(f".minnctapersm {min_ctas_per_sm}")
    if cluster is not None:
        lines += [".explicitcluster", f".reqnctapercluster {', '.join(map(str, cluster))}"]
    lines.append("{")
    lines += [f"\t{line}" for line in ptx.declarations()]
    if not shared.dynamic:
        lines += [f"\t.shared .align {b.align_bytes} .b8 smem_{b.name}[{b.span_bytes}];" for b in buffers]
    lines.append("")
    emitted = ptx.lines
    text = "\n".join([*lines, *texts_of(emitted), "\tret;", "}", ""])
    return text, (*[0] * len(lines), *[line.statement for line in emitted])
