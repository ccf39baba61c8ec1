"""Branches, barriers, fences, mbarriers, and the exit of a thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..effects import modifiers_of
from ..machine.machine import Machine
from ..machine.participation import Copy
from ..memory.tensor_maps import MAP_BYTES
from ..memory_model.access import SCOPES
from ..memory_model.clocks import ASYNC_GLOBAL, ASYNC_SHARED, TENSORMAP
from ..program import TAKES_PART, Instruction, Memory, Pair, Program
from .loads import address_reader, immediate, shared_address, with_operands
from .operands import Handler, Lanes, Reader, Step, Writer, demand_count, is_constant, reader, refuse, writer


@with_operands()
def _exit(machine: Machine, lanes: Lanes, opcode: Any) -> None:
    machine.exit(lanes)


def _branch(instruction: Instruction, program: Program) -> Step:
    if len(instruction.operands) != 1 or instruction.operands[0] not in program.labels:
        raise refuse(instruction, "the branch target must be a label of the function")
    target = program.labels[str(instruction.operands[0])]
    return lambda machine, lanes: machine.branch(lanes, target)


def _takes_part(instruction: Instruction, program: Program) -> Step:
    """Compile the mark of an exported copy, which counts its executions by threads."""
    name, together, threads, register = map(str, instruction.operands)
    copy = Copy(name, int(together), int(threads))
    read = reader(register, "b32", instruction, program)
    return lambda machine, lanes: machine.participation.count(copy, lanes, machine.uniform(read(machine, lanes), lanes))


def _bar(instruction: Instruction, program: Program) -> Step:
    opcode = instruction.opcode
    kind = next(part for part in opcode if part in ("sync", "arrive", "red"))
    aligned = opcode[0] == "bar" or "aligned" in opcode
    operands = list(instruction.operands)
    vote, write, reduce = None, None, ""
    if kind == "red":
        reduce = next(part for part in opcode if part in ("popc", "and", "or"))
        if len(operands) not in (3, 4):
            raise refuse(instruction, f"{opcode[0]}.red has 3 operands, or 4 with a thread count, got {len(operands)}")
        write = writer(operands.pop(0), "u32" if reduce == "popc" else "pred", instruction, program)
        vote = reader(operands.pop(), "pred", instruction, program)
    if not 1 <= len(operands) <= 2 or (kind == "arrive" and len(operands) < 2):
        raise refuse(instruction, "expected a barrier number and a thread count; only arrive requires the thread count")
    number, *count = [reader(operand, "u32", instruction, program) for operand in operands]
    if is_constant(operands[0]) and not 0 <= int(str(operands[0])) <= 15:
        raise refuse(instruction, f"the barrier number must be from 0 to 15, got {operands[0]}")

    def step(machine: Machine, lanes: Lanes) -> None:
        numbers = machine.uniform(number(machine, lanes), lanes).astype(np.int64)
        counts = machine.uniform(count[0](machine, lanes), lanes).astype(np.int64) if count else None
        if vote is None:
            machine.barriers.reach(lanes, numbers, counts, waits=kind == "sync", aligned=aligned)
            return
        votes = np.broadcast_to(machine.rows(vote(machine, lanes), lanes), (machine.size(lanes), machine.copies))

        def done(members: Any, ballots: dict[int, Any]) -> None:
            assert write is not None
            total = np.stack(list(ballots.values())).sum(axis=0)
            result: Any = {"popc": total.astype(np.uint32), "and": total == len(ballots), "or": total > 0}[reduce]
            write(machine, members, result[None])

        machine.barriers.reach(lanes, numbers, counts, waits=True, aligned=aligned, votes=votes, done=done)

    return step


@with_operands("u32")
def _bar_warp(machine: Machine, lanes: Lanes, opcode: Any, mask: Reader) -> None:
    machine.barriers.warp_sync(lanes, machine.uniform(mask(machine, lanes), lanes).astype(np.uint32))


@with_operands()
def _barrier_cluster(machine: Machine, lanes: Lanes, opcode: Any) -> None:
    if "aligned" in opcode:
        lanes = machine.whole_warps(lanes)
        if not machine.size(lanes):
            return
    if "arrive" in opcode:
        machine.barriers.cluster_arrive(lanes, relaxed="relaxed" in opcode)
    else:
        machine.barriers.cluster_wait(lanes)


def _set_registers(instruction: Instruction, program: Program) -> Step:
    """Compile ``setmaxnreg``, which changes no value, but which all warps of a warpgroup must execute."""
    demand_count(instruction, 1)
    count = immediate(instruction.operands[0], instruction, "the number of registers")
    if count % 8 or not 24 <= count <= 256:
        raise refuse(instruction, f"the number of registers must be a multiple of 8 from 24 to 256, got {count}")

    def step(machine: Machine, lanes: Lanes) -> None:
        lanes = machine.whole_warps(lanes)
        if machine.size(lanes):
            machine.barriers.set_registers(lanes)

    return step


def _fence(instruction: Instruction, program: Program) -> Step:
    mods = modifiers_of(instruction.opcode)
    strength = SCOPES[mods.scope or "gpu"]  # membar.gl
    acquires, releases = mods.order != "release", mods.order != "acquire"

    def step(machine: Machine, lanes: Lanes) -> None:
        machine.flags.fence(lanes, strength, acquires=acquires, releases=releases)
        if releases and strength >= SCOPES["cluster"]:
            machine.mbarriers.fence_init(lanes)

    return step


def _init_fence(instruction: Instruction, program: Program) -> Step:
    return lambda machine, lanes: machine.mbarriers.fence_init(lanes)


def _proxy_fence(instruction: Instruction, program: Program) -> Step:
    kind, *space = instruction.opcode[2:]
    if kind == "tensormap::generic" and "acquire" in space:
        return _map_fence(instruction, program)
    demand_count(instruction, 0)
    if kind == "tensormap::generic":
        return lambda machine, lanes: machine.order.fence(machine.index(lanes), (TENSORMAP,))
    if kind != "async":
        return lambda machine, lanes: None
    wanted = {"global": (ASYNC_GLOBAL,), "": (ASYNC_SHARED, ASYNC_GLOBAL)}.get("".join(space), (ASYNC_SHARED,))

    def step(machine: Machine, lanes: Lanes) -> None:
        known = [section for section in wanted if section in machine.order.section_at]
        if known:
            machine.order.fence(machine.index(lanes), known)

    return step


def _map_fence(instruction: Instruction, program: Program) -> Step:
    """Compile ``fence.proxy.tensormap::generic.acquire``, after which a released tensor map may be used."""
    demand_count(instruction, 2)
    if immediate(instruction.operands[1], instruction, "the size") != MAP_BYTES:
        raise refuse(instruction, f"the size must be {MAP_BYTES} bytes, got {instruction.operands[1]}")
    address = address_reader(instruction.operands[0], instruction, program)

    def step(machine: Machine, lanes: Lanes) -> None:
        machine.maps.acquire(machine.index(lanes), machine.uniform(address(machine, lanes), lanes))

    return step


@with_operands("[shared]", "u32")
def _init(machine: Machine, lanes: Lanes, opcode: Any, address: Reader, count: Reader) -> None:
    machine.mbarriers.init(lanes, address(machine, lanes), count(machine, lanes))


@with_operands("[shared]")
def _invalidate(machine: Machine, lanes: Lanes, opcode: Any, address: Reader) -> None:
    machine.mbarriers.inval(lanes, address(machine, lanes))


def _arrive(instruction: Instruction, program: Program) -> Step:
    kind, opcode = instruction.opcode[1], set(instruction.opcode)
    arrives = kind in ("arrive", "arrive_drop")
    remote = "shared::cluster" in opcode
    expects = "expect_tx" in opcode
    operands = list(instruction.operands)
    state = operands.pop(0) if arrives and operands and not isinstance(operands[0], Memory) else "_"
    if not operands or not isinstance(operands[0], Memory) or len(operands) > 2:
        raise refuse(instruction, "expected an address in brackets, and at most one more operand")
    if remote and state != "_":
        raise refuse(instruction, f"the result of an arrival on a shared::cluster address must be _, got {state}")
    if expects and len(operands) != 2:
        raise refuse(instruction, "expect_tx must have an address and a number of bytes, got only an address")
    write = writer(state, "u64", instruction, program)
    address = shared_address(operands[0], instruction, program)
    amount = reader(operands[1], "u32", instruction, program) if len(operands) == 2 else None
    relaxed, cluster = "relaxed" in opcode, "cluster" in opcode

    def step(machine: Machine, lanes: Lanes) -> None:
        places = machine.mbarriers.places(lanes, address(machine, lanes), remote=remote)
        ones = np.ones(len(places), np.int64)
        amounts = ones if amount is None else machine.uniform(amount(machine, lanes), lanes).astype(np.int64)
        if not arrives:
            machine.mbarriers.expect_tx(lanes, places, amounts, 1 if kind == "expect_tx" else -1)
            return
        tokens = machine.mbarriers.arrive(
            lanes, places, ones if expects else amounts, tx=amounts if expects else None, drop=kind == "arrive_drop",
            no_complete="noComplete" in opcode, relaxed=relaxed, cluster=cluster,
        )  # fmt: skip
        write(machine, lanes, tokens[:, None])

    return step


def _wait(instruction: Instruction, program: Program) -> Step:
    kind, opcode = instruction.opcode[1], set(instruction.opcode)
    operands = instruction.operands
    if len(operands) not in ((3, 4) if kind == "try_wait" else (3,)) or isinstance(operands[0], Pair):
        raise refuse(instruction, "expected a predicate, an address, and a state (a parity bit with .parity)")
    parity = "parity" in opcode
    write = writer(operands[0], "pred", instruction, program)
    address = shared_address(operands[1], instruction, program)
    wanted = reader(operands[2], "u32" if parity else "u64", instruction, program)
    relaxed, cluster = "relaxed" in opcode, "cluster" in opcode

    def step(machine: Machine, lanes: Lanes) -> None:
        places = machine.mbarriers.places(lanes, address(machine, lanes), remote=False)
        phases = machine.uniform(wanted(machine, lanes), lanes)
        over, stay = machine.mbarriers.wait(
            lanes, places, phases, parity=parity, blocks=kind == "try_wait", relaxed=relaxed, cluster=cluster
        )
        if stay is None:
            write(machine, lanes, over[:, None])
        elif stay.any():
            write(machine, machine.index(lanes)[stay], over[stay][:, None])

    return step


@with_operands("=u32", "u64")
def _pending_count(machine: Machine, lanes: Lanes, opcode: Any, write: Writer, state: Reader) -> None:
    write(machine, lanes, (state(machine, lanes) & np.uint64(0xFFFFF)).astype(np.uint32))


INSTRUCTIONS: dict[str, Handler] = {
    **dict.fromkeys(("exit", "ret"), _exit),
    "bra": _branch,
    TAKES_PART: _takes_part,
    **dict.fromkeys(("bar", "barrier"), _bar),
    "bar.warp": _bar_warp,
    "barrier.cluster": _barrier_cluster,
    **dict.fromkeys(("fence", "membar"), _fence),
    "fence.mbarrier_init": _init_fence,
    **dict.fromkeys(("fence.proxy", "membar.proxy"), _proxy_fence),
    "setmaxnreg": _set_registers,
    "mbarrier": _arrive,
    "mbarrier.init": _init,
    "mbarrier.inval": _invalidate,
    **dict.fromkeys(("mbarrier.test_wait", "mbarrier.try_wait"), _wait),
    "mbarrier.pending_count": _pending_count,
}
