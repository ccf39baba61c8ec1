"""The kinds of copies that a campaign has covered."""

from __future__ import annotations

from math import prod
from typing import Any

from . import properties
from .copy_case import CopyCase
from .variant_under_test import VariantUnderTest

DIMENSIONS = (
    "target", "dtype", "spaces", "scope", "completion", "options", "owners", "width", "edge", "swizzle", "starts", "branch",
    "enumerated",
)  # fmt: skip


def kinds_of(subject: VariantUnderTest, case: CopyCase) -> dict[str, str]:
    """Return the kind of a copy along each dimension of the coverage."""
    d = case
    _, request = properties.request_of(subject, d)
    partition = properties.partition_of(subject, request)
    swizzled = [name for name, operand in (("source", d.src), ("destination", d.dst)) if operand.swizzle is not None]
    edge = "inside"
    if d.outside is not None:
        edge = f"{d.outside if isinstance(d.outside, str) else 'number'}, {'may overhang' if request.may_exceed_bounds else 'inside'}"
    used = sorted({t.variable for o in (d.dst, d.src) for s in o.starts for t in s.terms})
    return {
        "target": d.target,
        "dtype": d.dtype,
        "spaces": " -> ".join(d.spaces),
        "scope": d.scope,
        "completion": subject.record.completion,
        "options": ", ".join(f"{name}={value}" for name, value in d.options) or "none",
        "owners": _owners(d),
        "width": _width(partition),
        "edge": edge,
        "swizzle": " and ".join(swizzled) or "none",
        "starts": ", ".join(used) or "constant",
        "branch": _branch(partition),
    }


def _owners(d: CopyCase) -> str:
    """How many threads hold an element of the register operands."""
    owners = []
    for name, operand in (("source", d.src), ("destination", d.dst)):
        if operand.space == "local":
            threads = prod(e for e, _, axis in (*operand.iters, *operand.replica) if axis != "m")
            repeats = prod(e for e, _, axis in operand.replica if axis != "m") > 1
            unnamed = threads < d.threads // d.units
            how = [word for word, is_so in (("repeated", repeats), ("an axis unnamed", unnamed)) if is_so]
            owners.append(f"{name} {' and '.join(how) or 'once'}")
    return ", ".join(owners) or "no registers"


def _width(partition: Any) -> str:
    bits = getattr(partition, "vec_bits", None)
    if bits is not None:
        return f"{bits} bits"
    size = getattr(partition, "chunk_bytes", None)
    return f"{size} bytes" if size is not None else "its own"


def _branch(partition: Any) -> str:
    """What the partition is made of: its type, and the parts that it has."""
    parts = [type(partition).__name__]
    rounds = getattr(partition, "rounds", partition)
    outer = getattr(rounds, "outer", getattr(partition, "outer", 0))
    if isinstance(outer, int):
        parts.append("one round" if outer == 1 else "rolled" if outer > 64 else "unrolled")
    for part in ("guards", "edge", "tail", "narrowed"):
        if getattr(partition, part, None):
            parts.append(part)
    return ", ".join(parts)
