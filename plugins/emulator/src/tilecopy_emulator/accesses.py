"""Loads and stores: parameters, global memory, shared memory of the CTA and of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .arithmetic import address_of, special
from .machine import Machine, Step
from .program import REGISTER_BITS, Instruction, Memory, UnsupportedPtxError, Vector

_SPACES = ("param", "global", "shared", "shared::cta", "shared::cluster")


def access_of(instruction: Instruction) -> tuple[str, int, int]:
    """State space, vector length and element bytes of a load or store.

    Raises:
        UnsupportedPtxError: a state space or vector that is not known.
    """
    space = next((part for part in instruction.opcode if part in _SPACES), "")
    vector = next((int(part[1:]) for part in instruction.opcode if part in ("v2", "v4", "v8")), 1)
    type = instruction.opcode[-1]
    if not space or type not in REGISTER_BITS:
        raise UnsupportedPtxError(
            f"PTX line {instruction.line}: '{instruction.text}' is not known (its state space or type)"
        )
    return space, vector, REGISTER_BITS[type] // 8


def address(machine: Machine, operand: Any, lanes: Any, width: int) -> Any:
    """The value of an address operand in some lanes, as unsigned of ``width`` bits."""
    assert isinstance(operand, Memory)
    type: Any = np.uint64 if width == 64 else np.uint32
    offset = np.array(operand.offset).astype(np.int64).astype(type)
    if not operand.base:
        return np.full(len(machine.lane_ids(lanes)), offset, type)
    if operand.base[0] == "%":
        found = special(machine, operand.base, lanes)
        base = found if found is not None else machine.read(operand.base, lanes)
    else:
        base = address_of(machine, operand.base, lanes)
    with np.errstate(over="ignore"):
        return base.astype(type) + offset


def _load(instruction: Instruction) -> Step:
    space, vector, size = access_of(instruction)
    destination, source = instruction.operands
    names = destination.items if isinstance(destination, Vector) else (str(destination),)
    if len(names) != vector or not isinstance(source, Memory):
        raise UnsupportedPtxError(f"PTX line {instruction.line}: '{instruction.text}' has the wrong operands")
    total, signed = vector * size, instruction.opcode[-1][0] == "s"

    def step(machine: Machine, lanes: Any) -> None:
        if space == "param":
            machine.write(
                names[0], lanes, np.full(len(machine.lane_ids(lanes)), machine.parameters[source.base], np.uint64)
            )
            return
        if space == "global":
            addresses = address(machine, source, lanes, 64)
            count = len(addresses)
            groups = machine.memory.locate(machine, lanes, addresses, total, write=False)
            if len(groups) == 1:
                array, _, offsets = groups[0]
                raw = _read_global(machine, array, offsets, total)
            else:
                raw = np.empty((count, total), np.uint8)
                for array, chosen, offsets in groups:
                    raw[chosen] = _read_global(machine, array, offsets, total)
        else:
            remote = space == "shared::cluster"
            places = machine.shared.place(machine, lanes, address(machine, source, lanes, 32), total, remote=remote)
            machine.shared.check_read(machine, lanes, places, total)
            raw = machine.shared.read(places, total)
        if machine.profile:
            count_access(machine, lanes, space, address(machine, source, lanes, 64 if space == "global" else 32), total)
        elements = np.ascontiguousarray(raw).view(f"{'i' if signed else 'u'}{size}")
        for position, name in enumerate(names):
            values = elements[:, position]
            if signed:
                values = values.astype(np.int64)
            machine.write(name, lanes, values if vector == 1 else values.copy())

    return step


def _read_global(machine: Machine, array: int, offsets: Any, total: int) -> Any:
    if total <= 16:
        return machine.memory.read(array, offsets, total)
    return np.concatenate([machine.memory.read(array, offsets + part, 16) for part in range(0, total, 16)], axis=1)


def _store(instruction: Instruction) -> Step:
    space, vector, size = access_of(instruction)
    destination, source = instruction.operands
    names = source.items if isinstance(source, Vector) else (str(source),)
    if len(names) != vector or not isinstance(destination, Memory) or space == "param":
        raise UnsupportedPtxError(f"PTX line {instruction.line}: '{instruction.text}' has the wrong operands")
    total = vector * size

    def step(machine: Machine, lanes: Any) -> None:
        from .arithmetic import value

        count = len(machine.lane_ids(lanes))
        elements = np.empty((count, vector), f"u{size}")
        for position, name in enumerate(names):
            elements[:, position] = value(machine, name, lanes, f"u{size * 8}")
        raw = elements.view(np.uint8)
        if space == "global":
            addresses = address(machine, destination, lanes, 64)
            for array, chosen, offsets in machine.memory.locate(machine, lanes, addresses, total, write=True):
                for part in range(0, total, 16):
                    machine.memory.write(array, offsets + part, raw[chosen][:, part : part + 16])
        else:
            remote = space == "shared::cluster"
            addresses = address(machine, destination, lanes, 32)
            places = machine.shared.place(machine, lanes, addresses, total, remote=remote)
            machine.shared.check_write(machine, lanes, places, total)
            machine.shared.write(places, raw)
        if machine.profile:
            count_access(machine, lanes, space, addresses, total)

    return step


def count_access(machine: Machine, lanes: Any, space: str, addresses: Any, size: int) -> None:
    """Count requests and what they cost: 32-byte sectors in global memory, wavefronts in shared memory.

    A shared request of more than 4 bytes a thread is served 128 bytes' worth of threads at a time; each part takes as
    many wavefronts as the most different words that fall on one of the 32 banks.
    """
    warp = machine.warp_ids[lanes]
    counters = machine.counters
    if space == "global":
        addresses = machine.memory.unskewed(addresses)
        first, last = addresses >> np.uint64(5), (addresses + np.uint64(size - 1)) >> np.uint64(5)
        reached = np.concatenate([first, last]) if size <= 32 else first
        pairs = np.unique(np.stack([np.tile(warp, len(reached) // len(warp)).astype(np.uint64), reached]), axis=1)
        counters["global_requests"] = counters.get("global_requests", 0) + len(np.unique(warp))
        counters["global_sectors"] = counters.get("global_sectors", 0) + pairs.shape[1]
        return
    words = max(1, size // 4)
    lane = machine.lane_ids(lanes) % machine.threads % 32
    phase = warp.astype(np.int64) * 8 + lane * words // 32
    word = (addresses.astype(np.int64) // 4)[:, None] + np.arange(words)
    keys = np.unique(np.stack([np.broadcast_to(phase[:, None], word.shape).ravel(), word.ravel()]), axis=1)
    _, per_bank = np.unique(keys[0] * 32 + keys[1] % 32, return_counts=True)
    banks = np.unique(keys[0] * 32 + keys[1] % 32)
    worst: dict[int, int] = {}
    for part, found in zip((banks // 32).tolist(), per_bank.tolist(), strict=True):
        worst[part] = max(worst.get(part, 0), found)
    counters["shared_requests"] = counters.get("shared_requests", 0) + len(np.unique(warp))
    counters["shared_wavefronts"] = counters.get("shared_wavefronts", 0) + sum(worst.values())


HANDLERS: dict[str, Callable[[Instruction], Step]] = {"ld": _load, "st": _store}
