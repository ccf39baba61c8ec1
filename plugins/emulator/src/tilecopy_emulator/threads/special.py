"""The special registers (PTX ISA, section 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .threads import Lanes, Threads

Read = Callable[[Threads, Lanes], Any]
"""A function from the machine and its lanes to unsigned values of shape ``(n or 1, copies or 1)``."""


def _of(values: Any, lanes: Lanes) -> Any:
    """Return the rows of some lanes."""
    return values[lanes] if values.shape[0] > 1 else values


def _constant(value: int, dtype: Any = np.uint32) -> Any:
    return np.full((1, 1), value, dtype)


def _zero(machine: Threads, lanes: Lanes) -> Any:
    return _constant(0)


def _vector(name: str, read: Callable[[Threads, Lanes, int], Any]) -> dict[str, Read]:
    registers: dict[str, Read] = {}
    for axis, letter in enumerate("xyz"):
        registers[f"{name}.{letter}"] = lambda machine, lanes, axis=axis: read(machine, lanes, axis)  # type: ignore[misc]
    registers[f"{name}.w"] = _zero
    return registers


def _mask(function: Callable[[Any], Any]) -> Read:
    """Return the reader of a lane mask from a function of lane numbers (uint64, so that bit 32 exists)."""

    def read(machine: Threads, lanes: Lanes) -> Any:
        return function(_of(machine.lane, lanes).astype(np.uint64)).astype(np.uint32)

    return read


_ONE = np.uint64(1)
RESERVED, RESERVED_BYTES = "%reserved_smem_offset_1", 288
"""The name and size of the reserved shared memory in which cooperative groups synchronise groups of several warps."""


WORKSPACE, WORKSPACE_BYTES = "%grid_workspace", 64
"""The name and size of the memory that a cooperative launch provides for the barrier of the grid; it is initially zero."""


def _workspace(machine: Threads) -> int:
    """Return the address of the workspace; 0 if no instruction reads it."""
    return int(machine.launch.symbols.get(WORKSPACE, ("", 0))[1])


def _cluster_extent(machine: Threads, axis: int) -> int:
    return int(machine.ncluster[axis])


SPECIAL_REGISTERS: dict[str, Read] = {
    **_vector("%tid", lambda m, lanes, axis: _of(m.tid[axis], lanes)),
    **_vector("%ntid", lambda m, lanes, axis: _constant(m.ntid[axis])),
    **_vector("%ctaid", lambda m, lanes, axis: _of(m.block[axis], lanes)),
    **_vector("%nctaid", lambda m, lanes, axis: _constant(m.nctaid[axis])),
    **_vector("%cluster_ctaid", lambda m, lanes, axis: _of(m.cluster_ctaid[axis], lanes)),
    **_vector("%cluster_nctaid", lambda m, lanes, axis: _constant(_cluster_extent(m, axis))),
    **_vector("%clusterid", lambda m, lanes, axis: _of(m.block[axis], lanes) // np.uint32(_cluster_extent(m, axis))),
    **_vector("%nclusterid", lambda m, lanes, axis: _constant(m.nctaid[axis] // _cluster_extent(m, axis))),
    "%laneid": lambda m, lanes: _of(m.lane, lanes).astype(np.uint32),
    "%warpid": lambda m, lanes: _of(m.warp, lanes).astype(np.uint32),
    "%nwarpid": lambda m, lanes: _constant(-(-int(m.ntid[0] * m.ntid[1] * m.ntid[2]) // 32)),
    "%cluster_ctarank": lambda m, lanes: _of(m.rank, lanes).astype(np.uint32),
    "%cluster_nctarank": lambda m, lanes: _constant(m.cluster_size),
    "%is_explicit_cluster": lambda m, lanes: _constant(m.explicit_cluster, np.bool_),
    "%lanemask_eq": _mask(lambda lane: _ONE << lane),
    "%lanemask_lt": _mask(lambda lane: (_ONE << lane) - _ONE),
    "%lanemask_le": _mask(lambda lane: (_ONE << (lane + _ONE)) - _ONE),
    "%lanemask_gt": _mask(lambda lane: ~((_ONE << (lane + _ONE)) - _ONE)),
    "%lanemask_ge": _mask(lambda lane: ~((_ONE << lane) - _ONE)),
    **dict.fromkeys([f"%envreg{number}" for number in range(32)] + [f"%pm{number}" for number in range(8)], _zero),
    **dict.fromkeys(("%smid", "%reserved_smem_offset_begin"), _zero),
    "%envreg1": lambda m, lanes: _constant(_workspace(m) >> 32),
    "%envreg2": lambda m, lanes: _constant(_workspace(m) & 0xFFFFFFFF),
    "%gridid": lambda m, lanes: _constant(1, np.uint64),
    "%nsmid": lambda m, lanes: _constant(1),
    **dict.fromkeys(("%clock", "%globaltimer_lo"), lambda m, lanes: _constant(m.clock() & 0xFFFFFFFF)),
    **dict.fromkeys(("%clock_hi", "%globaltimer_hi"), lambda m, lanes: _constant(m.clock() >> 32)),
    **dict.fromkeys(("%clock64", "%globaltimer"), lambda m, lanes: _constant(m.clock(), np.uint64)),
    "%dynamic_smem_size": lambda m, lanes: _constant(m.dynamic_shared_bytes),
    RESERVED: lambda m, lanes: m.symbol(RESERVED, lanes),
    "%total_smem_size": lambda m, lanes: _constant(m.total_shared_bytes),
    "%aggr_smem_size": lambda m, lanes: _constant(m.total_shared_bytes + m.launch.shared_base),
    "%reserved_smem_offset_end": lambda m, lanes: _constant(m.launch.shared_base),
    "%reserved_smem_offset_cap": lambda m, lanes: _constant(m.launch.shared_base),
    "%current_graph_exec": lambda m, lanes: _constant(0, np.uint64),
    **{f"%pm{number}_64": lambda m, lanes: _constant(0, np.uint64) for number in range(8)},
}
"""The readers of the special registers; the clock counts the machine's steps."""
