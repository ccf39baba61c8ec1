"""The execution of a whole grid in batches of clusters, with one interpreter per batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray
from tilecopy import HazardError, LaunchError
from tilecopy.executors import IndexAssertion, html_table

from .argument_checks import demand, is_flag, items_of
from .debug_info import readable
from .effects import is_approximate, pieces, sections, shared_side_not_counted
from .hazards import Hazard, as_one_error
from .machine.machine import Machine
from .memory.observed import Observer
from .memory_model.access import STACK, STACK_BYTES
from .memory_model.clocks import TENSOR
from .memory_model.shadow import time_of
from .opcodes.operands import Step
from .opcodes.table import compile_program
from .parser.variables import MOST_BYTES
from .program import REGISTER_BITS, TAKES_PART, BudgetError, Program, UnsupportedPtxError, shown_name
from .threads.global_arrays import GlobalMemory
from .threads.launch import Dim3, Launch, RaceQuery, SharedVariable
from .threads.special import RESERVED, RESERVED_BYTES, WORKSPACE, WORKSPACE_BYTES

MAX_CLUSTER = 16
MOST_CTAS = 1 << 24
"""The largest number of CTAs in a launch: each takes about 100 bytes for its id, and all of them run for most of an hour."""
BATCH_THREADS, REPORTED_THREADS = 1 << 17, 1 << 12
BATCH_SHARED_BYTES = 1 << 27
GAP_BYTES = 128
"""The gap after each static variable in shared memory, if there is room, so that an access past its end is in no other variable."""
BATCH_TENSOR_CTAS = 64
BATCH_LOCAL_BYTES = 1 << 27
KEPT_BYTES = 1 << 26
"""Arrays up to this size are saved before a launch, because a race is run again to find the instruction of its first access."""
ALLOWABLE = ("same-value", "unfenced-init")
"""Hazards that a caller may allow: unordered threads that write the same value to the same place, and bulk copies that use
an mbarrier whose init was not fenced for the async proxy."""


@attrs.frozen
class Report:
    """A frozen report of one run: the number of instructions, counters, output and notes.

    Attributes:
        threads: number of threads that ran.
        instructions: executed thread instructions, by opcode (without its modifiers).
        lines: executed thread instructions, by line of the PTX text (from 1).
        counters: with ``profile``: global requests and sectors of 32 bytes, shared requests and wavefronts.
        not_counted: with ``profile``: opcodes that ran and whose shared-memory accesses are not counted (bulk copies and other engines).
        approximate: opcodes that ran and for which the ISA gives an error bound instead of bits (``ex2.approx.f32``). The
            results are within the bound; the last bits may differ from a GPU's.
        printed: the output of ``printf``: pairs of the thread's name and the text.
        notes: notes on a run without a hazard, such as host code that was left out of a CUDA C++ file.
        variables: the ``__device__`` and ``__constant__`` variables of the module after the run, by name, as arrays of their PTX type
            (``uint8`` for an array in CUDA C++).
    """

    threads: int
    instructions: dict[str, int]
    counters: dict[str, int]
    approximate: tuple[str, ...] = ()
    lines: dict[int, int] = attrs.field(factory=dict, repr=False)
    not_counted: tuple[str, ...] = ()
    printed: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    variables: dict[str, NDArray[Any]] = attrs.field(factory=dict, repr=False, eq=False)

    def _repr_html_(self) -> str:
        rows = [("threads", self.threads), ("instructions", sum(self.instructions.values()))]
        counts = [(f"  {name}", count) for name, count in sorted(self.instructions.items(), key=lambda row: -row[1])]
        return html_table([*rows, *counts, *self.counters.items()])


def _with_checks(
    program: Program, compiled: tuple[list[Step], list[int]], checks: Sequence[IndexAssertion]
) -> tuple[list[Step], list[int]]:
    """Return compiled steps that check the bounds of an index after the instruction that defines it."""
    if not checks:
        return compiled
    steps, lengths = list(compiled[0]), compiled[1]
    by_line = {check.line: check for check in checks}

    def with_check(step: Step, check: IndexAssertion) -> Step:
        bits = program.register_bits[check.register]

        def run(machine: Machine, lanes: Any) -> None:
            step(machine, lanes)
            values = machine.rows(machine.read(check.register, lanes), lanes)
            signed = values.astype(f"u{bits // 8}").view(f"i{bits // 8}")
            outside = (signed < check.lower) | (signed > check.upper)
            if outside.any():
                position, copy = (int(index) for index in np.argwhere(outside)[0])
                what = f"the index must be from {check.lower} to {check.upper}, got {int(signed[position, copy])}"
                machine.hazard("bounds", what, lanes, position, copy=copy)

        return run

    for number, instruction in enumerate(program.instructions):
        if instruction.line in by_line:
            steps[number] = with_check(steps[number], by_line[instruction.line])
    return steps, lengths


@lru_cache(maxsize=32)
def _reserves(program: Program, *names: str) -> bool:
    """Return True if a program reads special registers that hold the address of memory that it did not declare."""
    return any(name in instruction.operands for instruction in program.instructions for name in names)


def lay_out_shared(
    program: Program, dynamic_bytes: int, pool: Sequence[tuple[str, int, int]], gap_bytes: int = 0
) -> tuple[dict[str, int], tuple[SharedVariable, ...], int]:
    """Lay out a CTA's shared memory. Return the offset of each symbol, the variables, and the size in bytes.

    ``program``: declares the variables; ``dynamic_bytes``: size of the ``.extern`` array; ``pool``: buffers in that
    array, if they are known: name, offset, bytes; ``gap_bytes``: after each variable, so that an access past its end is in no variable.
    """
    symbols: dict[str, int] = {}
    variables: list[SharedVariable] = []
    end = 0
    static = [v for v in program.variables if v.space == "shared" and not (v.extern and v.bytes == 0)]
    dynamic = [v for v in program.variables if v.space == "shared" and v.extern and v.bytes == 0]
    for variable in static:
        start = -(-end // variable.align) * variable.align
        symbols[variable.name] = start
        if variable.bytes:
            variables.append(SharedVariable(readable(variable.name) or variable.name, start, variable.bytes))
        end = start + variable.bytes + gap_bytes
    if dynamic:
        start = -(-end // max(v.align for v in dynamic)) * max(v.align for v in dynamic)
        for variable in dynamic:
            symbols[variable.name] = start
        if pool:
            variables += [SharedVariable(name, start + offset, size) for name, offset, size in pool if size]
            dynamic_bytes = max(dynamic_bytes, *(offset + size for _, offset, size in pool))
        elif dynamic_bytes:
            variables.append(SharedVariable(dynamic[0].name, start, dynamic_bytes))
        end = start + dynamic_bytes
    if _reserves(program, RESERVED):
        symbols[RESERVED] = start = -(-end // 16) * 16
        variables.append(SharedVariable(RESERVED, start, RESERVED_BYTES))
        end = start + RESERVED_BYTES
    return symbols, tuple(variables), end


def run_grid(  # noqa: C901, PLR0915 (one launch from its arguments to its report)
    program: Program, *, grid: Dim3, block: Dim3, cluster: Dim3 | None, parameters: Mapping[str, bytes],
    memory: GlobalMemory, pool: Sequence[tuple[str, int, int]] = (), dynamic_shared_bytes: int = 0,
    profile: bool = False, progress: Callable[[int, int], None] | None = None,
    source_location: Callable[[int], str] | None = None, index_assertions: Sequence[IndexAssertion] = (), allow: Sequence[str] = (),
    observer: Observer | None = None, variables: Mapping[str, bytes] | None = None, all_hazards: bool = False,
) -> Report:  # fmt: skip
    """Run every CTA of a grid.

    ``parameters``: the bytes of each parameter; ``variables``: the bytes of module variables that the caller sets, by their PTX names;
    ``memory``: has the arrays of the arguments; ``pool``: buffers inside dynamic shared memory (name, offset, bytes); ``source_location``: from
    a PTX line to the statement that emitted it; ``index_assertions``: registers whose values must be within bounds, with the line that
    defines them. For the other parameters see :func:`~tilecopy_emulator.run_ptx`.
    """
    where = f"kernel {program.name}"
    for name, flag in (("profile", profile), ("all_hazards", all_hazards)):
        demand(where, name, flag, is_flag(flag), "True or False")
    for name, function in (("progress", progress), ("observer", observer)):
        demand(where, name, function, function is None or callable(function), "a function, or None")
    names = items_of(allow)
    fits = names is not None and all(isinstance(name, str) and name in ALLOWABLE for name in names)
    demand(where, "allow", allow, fits, f"a sequence of names from {', '.join(ALLOWABLE)}")
    compiled = _with_checks(program, compile_program(program), index_assertions)

    def laid_out(memory: GlobalMemory, raced: Sequence[RaceQuery] = ()) -> Launch:
        shape = cluster or (1, 1, 1)
        symbols, in_shared, total_bytes = lay_out_shared(program, dynamic_shared_bytes, pool)
        apart = lay_out_shared(program, dynamic_shared_bytes, pool, GAP_BYTES)
        shared_bytes = total_bytes
        if apart[2] <= MOST_BYTES["shared"]:
            symbols, in_shared, shared_bytes = apart
        base = 0x400 if program.arch >= 90 else 0
        table: dict[str, tuple[str, int]] = {name: ("shared", base + offset) for name, offset in symbols.items()}
        for parameter in program.parameters:
            data = np.frombuffer(parameters[parameter.name], np.uint8)
            align = max(256, parameter.align)
            address = memory.add(parameter.name, data, align, writable=False, space="param")
            table[parameter.name] = "param", address
        local_owner = _place_variables(program, memory, table, variables or {})
        if _reserves(program, "%envreg1", "%envreg2"):  # every launch here is as cooperative as it needs to be
            table[WORKSPACE] = "global", memory.add(WORKSPACE, np.zeros(WORKSPACE_BYTES, np.uint8), 256, writable=True)
        blocks, observes = _blocks(grid, shape), None if raced else observer
        cells = pieces(program)
        memory.cell = cells[1]
        launch = Launch(
            program, *compiled, grid, block, shape, blocks, memory, table, in_shared, shared_bytes, *cells,
            sections(program), local_owner, profile, observes, source_location or (lambda line: ""), base,
        )  # fmt: skip
        launch.dynamic_shared_bytes, launch.total_shared_bytes = dynamic_shared_bytes, total_bytes
        launch.single = profile or observer is not None
        for sought in raced:
            key = sought.memory, sought.writes, int(time_of(sought.stamp))
            launch.sought.setdefault(key, []).append(sought)
        launch.all_hazards = all_hazards
        launch.explicit_cluster = cluster is not None
        launch.allows_same_value, launch.allows_unfenced_init = (name in (names or ()) for name in ALLOWABLE)
        return launch

    try:
        kept = memory.copy_writable(KEPT_BYTES)
        launch = laid_out(memory)
        hazards = _hazards_of(launch, progress)
        if launch.raced and kept is not None:
            silent = None if progress is None else lambda done, total: None
            again = laid_out(memory.again(kept), launch.raced)
            if launch.suspects and not all_hazards:
                again.all_hazards = again.first_only = True
            hazards = _hazards_of(again, silent) or hazards
    except MemoryError as error:
        raise BudgetError(
            f"kernel {program.name}: the emulator needs more memory than this process may use ({error}): "
            "run a smaller problem or raise the memory limit"
        ) from error
    if hazards:
        raise as_one_error(hazards, program.sources)
    executed: Counter[str] = Counter()
    lines: Counter[int] = Counter()
    approximate, not_counted = set(), set()
    for instruction, count in zip(program.instructions, launch.executed.tolist(), strict=False):
        if count and instruction.opcode[0] != TAKES_PART:
            executed[instruction.opcode[0]] += count
            lines[instruction.line] += count
            if is_approximate(instruction.opcode):
                approximate.add(".".join(instruction.opcode))
            if profile and (name := shared_side_not_counted(instruction.opcode)):
                not_counted.add(name)
    notes = (*program.notes, *dict.fromkeys(launch.notes), *launch.memory.leaks())
    return Report(
        len(launch.blocks) * launch.threads, dict(executed), dict(launch.counters), tuple(sorted(approximate)), dict(lines),
        tuple(sorted(not_counted)), tuple(launch.printed), notes, _variables_after(program, launch),
    )  # fmt: skip


def _hazards_of(launch: Launch, progress: Callable[[int, int], None] | None) -> list[Hazard]:
    """Run a launch to its end, or to a hazard after which it cannot continue; return its hazards."""
    try:
        _run(launch, progress)
    except HazardError as error:
        launch.record(error)
    return launch.hazards


def _run(launch: Launch, progress: Callable[[int, int], None] | None) -> None:
    """Run batch after batch; a batch that waits for later ones is suspended until they have run."""
    size, threads, total = launch.cluster_size, launch.threads, len(launch.blocks)
    shared = max(16, launch.shared_bytes)
    at_once = BATCH_THREADS if progress is None else REPORTED_THREADS  # progress is reported after each batch
    clusters = min(at_once // (threads * size), BATCH_SHARED_BYTES // (shared * size))
    clusters = min(clusters, BATCH_LOCAL_BYTES // (max(1, len(launch.local_owner)) * threads * size))
    if TENSOR in launch.sections:
        clusters = min(clusters, max(1, BATCH_TENSOR_CTAS // size))
    batch = max(1, clusters) * size
    first, finished = 0, 0
    waiting: list[Machine] = []
    if progress is not None:
        progress(0, total)
    while first < total or waiting:
        version = launch.version
        verdict = None
        again: list[Machine] = []
        if first < total:
            machine = Machine(launch, first, min(batch, total - first))
            first += batch
            waiting.append(machine)
            version = -1
        for machine in waiting:
            with np.errstate(all="ignore"):  # around all instructions: entering it costs as much as many of them
                stuck = machine.run()
            if stuck is None:
                finished += machine.copies * machine.unit_ctas
                if progress is not None:
                    progress(finished, total)
                version = -1
            else:
                verdict = verdict or stuck
                again.append(machine)
        alone, waiting = len(waiting) == 1, again
        if waiting and verdict is not None and (alone or version == launch.version) and first >= total:
            verdict.raise_hang()


def _place_variables(
    program: Program, memory: GlobalMemory, table: dict[str, tuple[str, int]], values: Mapping[str, bytes]
) -> NDArray[np.int32]:
    """Put module variables into global and constant memory; return the number of the variable of each local byte."""
    local, owner = 0, []
    relocated = []
    for variable in program.variables:
        if variable.space in ("global", "const"):
            try:
                data = np.zeros(variable.bytes, np.uint8)
            except MemoryError as error:
                raise MemoryError(f"the variable {variable.name} needs {variable.bytes} bytes") from error
            value = values.get(variable.name, variable.data)
            if value is not None:
                data[: len(value)] = np.frombuffer(value, np.uint8)
            address = memory.add(
                variable.name, data, max(256, variable.align), writable=variable.space == "global", space=variable.space
            )
            memory.arrays[-1].has_value = value is not None
            table[variable.name] = (variable.space, address)
            if variable.name not in values:
                relocated.append((variable, data))
        elif variable.space == "local":
            start = -(-local // variable.align) * variable.align
            table[variable.name] = ("local", start)
            local = start + variable.bytes
            owner.append((start, local))
    if any(instruction.opcode[0] == "alloca" for instruction in program.instructions):
        start = -(-local // 16) * 16
        table[STACK] = ("local", start)
        local = start + STACK_BYTES
        owner.append((start, local))
    for variable, data in relocated:
        for entry in variable.relocations:
            space, address = table[entry.symbol] if entry.symbol else ("code", 0)
            if space == "shared" and entry.generic:
                raise UnsupportedPtxError(f"{variable.name} must not contain a generic address of shared memory")
            data[entry.at : entry.at + 8] = np.frombuffer((address + entry.offset).to_bytes(8, "little"), np.uint8)
    owner_of_byte = np.full(local, -1, np.int32)
    for number, (start, end) in enumerate(owner):
        owner_of_byte[start:end] = number
    return owner_of_byte


def _variables_after(program: Program, launch: Launch) -> dict[str, NDArray[Any]]:
    """Return the values of the module's variables after the run, by name."""
    arrays = {array.base: array.data for array in launch.memory.arrays}
    return {
        shown_name(variable): arrays[launch.symbols[variable.name][1]].view(_dtype_of(variable.type))
        for variable in program.variables
        if variable.space in ("global", "const")
    }


def _dtype_of(type: str) -> np.dtype[Any]:
    """Return the NumPy type of a PTX type; bits are unsigned integers."""
    kind = {"f": "f", "s": "i"}.get(type[0], "u") if type != "f16x2" else "u"
    return np.dtype(f"{kind}{REGISTER_BITS[type] // 8}")


def _blocks(grid: Dim3, cluster: Dim3) -> NDArray[np.int64]:
    """Return the ids of all CTAs, cluster after cluster, rank 0 first (x fastest)."""
    if prod(cluster) > MAX_CLUSTER:
        raise LaunchError(f"cluster {cluster} must have at most {MAX_CLUSTER} CTAs, got {prod(cluster)}")
    z, y, x = (np.arange(extent) for extent in reversed(grid))
    ids = np.stack(np.meshgrid(z, y, x, indexing="ij"), axis=-1).reshape(-1, 3)[:, ::-1]
    if cluster == (1, 1, 1):
        return ids
    outer = ids // np.array(cluster)
    inner = ids % np.array(cluster)
    return ids[np.lexsort((inner[:, 0], inner[:, 1], inner[:, 2], outer[:, 0], outer[:, 1], outer[:, 2]))]
