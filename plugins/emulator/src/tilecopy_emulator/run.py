"""Running a whole grid: batches of CTAs, one machine each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

import attrs
import numpy as np

from tilecopy_core.kernel import ValueCheck

from . import accesses, arithmetic, synchronisation, tensor
from .accesses import access_of
from .machine import Machine, Step
from .memory import GlobalMemory, SharedMemory
from .program import Instruction, Program, UnsupportedPtxError

HANDLERS: dict[str, Callable[[Instruction], Step]] = {
    **arithmetic.HANDLERS,
    **accesses.HANDLERS,
    **synchronisation.HANDLERS,
    **tensor.HANDLERS,
}
BATCH_THREADS = 1 << 17
BATCH_SHARED_BYTES = 1 << 26
BATCH_CLOCKS = 1 << 24


@attrs.frozen
class Report:
    """What a run did.

    Attributes:
        threads: threads that ran.
        instructions: executed thread instructions, by opcode (without its modifiers).
        counters: with ``profile``: global requests and 32-byte sectors, shared requests and wavefronts.
    """

    threads: int
    instructions: dict[str, int]
    counters: dict[str, int]


def compile_program(program: Program) -> list[Step]:
    """One step a instruction.

    Raises:
        UnsupportedPtxError: an instruction that the emulator does not know.
    """
    steps = []
    for instruction in program.instructions:
        handler = HANDLERS.get(instruction.opcode[0])
        if handler is None:
            raise UnsupportedPtxError(f"PTX line {instruction.line}: '{instruction.text}' is not known")
        steps.append(handler(instruction))
    return steps


def _with_checks(program: Program, steps: list[Step], checks: Sequence[ValueCheck]) -> list[Step]:
    """The steps, a register's value held against its bounds after those that define an index."""
    by_line = {check.line: check for check in checks}

    def checked(step: Step, check: ValueCheck) -> Step:
        bits = program.register_bits[check.register]

        def run(machine: Machine, lanes: Any) -> None:
            step(machine, lanes)
            values = machine.read(check.register, lanes).astype(f"u{bits // 8}").view(f"i{bits // 8}")
            outside = (values < check.lower) | (values > check.upper)
            if outside.any():
                at = int(np.argmax(outside))
                said = f"the index {int(values[at])} is outside its declared {check.lower} to {check.upper}"
                machine.hazard("bounds", said, lanes, at)

        return run

    return [
        checked(step, by_line[instruction.line]) if instruction.line in by_line else step
        for instruction, step in zip(program.instructions, steps, strict=True)
    ]


def shared_granule(program: Program) -> int:
    """The largest power of two that divides every shared access of a program, at most 16 bytes."""
    granule = 16
    for instruction in program.instructions:
        name, opcode = instruction.opcode[0], instruction.opcode
        if name in ("ld", "st") and access_of(instruction)[0].startswith("shared"):
            _, vector, size = access_of(instruction)
            granule = gcd(granule, vector * size)
        elif name == "mbarrier":
            granule = gcd(granule, 8)
        elif name == "tcgen05" and "alloc" in opcode:
            granule = gcd(granule, 4)
        elif opcode[:2] == ("cp", "async") and opcode[2] in ("ca", "cg"):
            granule = gcd(granule, int(str(instruction.operands[2])))
    return granule


def shared_variables(program: Program, pool: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """``(name, offset, bytes)`` of the shared buffers: the static variables laid out in order, or those of the pool."""
    variables, end = [], 0
    for name, align, size in program.shared:
        if size == 0:
            return pool
        start = -(-end // align) * align
        variables.append((name, start, size))
        end = start + size
    return variables


def run_grid(
    program: Program,
    *,
    grid: tuple[int, int, int],
    threads: int,
    cluster: tuple[int, int, int] | None,
    parameters: dict[str, int],
    memory: GlobalMemory,
    pool: list[tuple[str, int, int]],
    profile: bool = False,
    progress: Callable[[int, int], None] | None = None,
    value_checks: Sequence[ValueCheck] = (),
) -> Report:
    """Run every CTA of a grid.

    Raises:
        HazardError: an execution that the hardware leaves undefined.
        UnsupportedPtxError: an instruction that the emulator does not know.
    """
    steps = _with_checks(program, compile_program(program), value_checks)
    variables = shared_variables(program, pool)
    granule = shared_granule(program)
    shape = cluster or (1, 1, 1)
    size = shape[0] * shape[1] * shape[2]
    blocks = _blocks(grid, shape)
    shared_bytes = max((offset + count for _, offset, count in variables), default=16)
    has_clocks = any(i.opcode[0] == "mbarrier" for i in program.instructions)
    clusters = min(BATCH_THREADS // (threads * size), BATCH_SHARED_BYTES // (shared_bytes * size) * granule // 4)
    if has_clocks:
        clusters = min(clusters, BATCH_CLOCKS // (threads * size) ** 2)
    batch = max(1, clusters) * size
    executed: Counter[str] = Counter()
    counters: Counter[str] = Counter()
    base = 0x400 if program.arch >= 90 else 0
    for first in range(0, len(blocks), batch):
        chosen = blocks[first : first + batch]
        machine = Machine(
            program,
            steps,
            chosen,
            grid,
            threads,
            size,
            parameters,
            memory,
            SharedMemory(len(chosen), variables, granule, base),
            clocks=has_clocks,
        )
        machine.profile = profile
        machine.run()
        for instruction, count in zip(program.instructions, machine.executed.tolist(), strict=True):
            executed[instruction.opcode[0]] += count
        counters.update(machine.counters)
        if progress is not None:
            progress(min(first + batch, len(blocks)), len(blocks))
    return Report(len(blocks) * threads, dict(executed), dict(counters))


def _blocks(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> Any:
    """Ids of all CTAs, whole clusters together, rank 0 first (x fastest)."""
    z, y, x = (np.arange(extent) for extent in reversed(grid))
    ids = np.stack(np.meshgrid(z, y, x, indexing="ij"), axis=-1).reshape(-1, 3)[:, ::-1]
    if cluster == (1, 1, 1):
        return ids
    outer = ids // np.array(cluster)
    inner = ids % np.array(cluster)
    return ids[np.lexsort((inner[:, 0], inner[:, 1], inner[:, 2], outer[:, 0], outer[:, 1], outer[:, 2]))]
