"""From the emitted lines of one kernel to the text of a PTX module."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from .builder import PtxBuilder
from .index import POOL
from .needs import Needs, header_target, merge
from .operands import PREFIX


@attrs.frozen
class Parameter:
    """A kernel parameter: ``type`` is ``u64`` for a pointer, else that of the scalar."""

    name: str
    type: str


def module_text(
    ptx: PtxBuilder, name: str, parameters: Sequence[Parameter], cluster: tuple[int, int, int] | None = None
) -> str:
    """A module with one kernel; ``.version`` and ``.target`` as low as its instructions allow.

    Args:
        ptx: the finished builder.
        name: the kernel's name, an identifier.
        parameters: in order.
        cluster: CTAs of a cluster, when fixed at build.
    """
    needs = ptx.needs if cluster is None else merge(ptx.needs, Needs(90, (7, 8)))
    version, target = header_target(needs, ptx.target)
    lines = [f".version {version[0]}.{version[1]}", f".target {target}", ".address_size 64", ""]
    pool_align = max((b.align_bytes for b in ptx.shared_buffers.values()), default=16)
    if ptx.dynamic_shared:
        lines += [f".extern .shared .align {pool_align} .b8 {POOL}[];", ""]
    lines.append(f".visible .entry {name}(")
    lines.append(",\n".join(f"\t.param .{p.type} param_{p.name}" for p in parameters))
    lines.append(")")
    lines.append(f".reqntid {ptx.cta_threads}, 1, 1")
    if cluster is not None:
        lines += [".explicitcluster", f".reqnctapercluster {', '.join(map(str, cluster))}"]
    lines.append("{")
    lines += [f"\t.reg .{type} {PREFIX[type]}<{count}>;" for type, count in sorted(ptx._registers.items())]
    if not ptx.dynamic_shared:
        lines += [
            f"\t.shared .align {b.align_bytes} .b8 smem_{b.name}[{b.span_bytes}];" for b in ptx.shared_buffers.values()
        ]
    lines.append("")
    lines += ptx.blocks[0].head + ptx.blocks[0].body
    lines += ["\tret;", "}", ""]
    return "\n".join(lines)
