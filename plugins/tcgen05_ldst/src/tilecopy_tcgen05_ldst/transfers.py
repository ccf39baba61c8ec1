"""The instructions that copy a fragment. Each instruction copies registers that fit one shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from tilecopy_core.plugin import Buffer, CopyRequest, Decline, Int, bounds_of, evaluate, frozen, wid_in_wg
from tilecopy_partitions import fragment_and_memory, mma_fragment, tile_fragment

from .places import map_registers
from .shapes import LANES, SHAPES, Fit, Shape, fits

MOST_COLUMNS = 512
BY_BITS = {8: "uint8", 16: "float16", 32: "float32"}
"""An element type of so many bits that fragments have names for; layouts are the same for all."""


@frozen
class LaneTransfer:
    """A frozen record of one ``tcgen05.ld`` or ``st``.

    Attributes:
        shape: such as ``"32x32b"``.
        repeats: 1 to 128, a power of two.
        registers: of the fragment, counted in 32 bits, in the order of the instruction's.
        lane: 0, or 16 for the upper lanes of the warp's.
        column: of 32 bits, from the copy's first.
        split: columns between both halves of 16x32bx2.
    """

    shape: str
    repeats: int
    registers: tuple[int, ...]
    lane: int
    column: int
    split: int


@frozen
class TransferPartition:
    """A frozen record of the ``tcgen05.ld`` or ``st`` instructions that each warp executes.

    Attributes:
        transfers: in order.
        halves: 16 bits of each column are moved, by ``.pack::16b`` and ``.unpack::16b``.
        column: of 32 bits, of the first warpgroup's copy.
        column_step: columns from one warpgroup of the CTA to the next.
        warps: the first and the last warp that own anything, of each ``period``.
        period: warps after which those that own anything are the same: all of the scope, or 4.
    """

    transfers: tuple[LaneTransfer, ...]
    halves: bool
    column: Int
    column_step: int
    warps: tuple[int, int]
    period: int

    @property
    def instructions_per_thread(self) -> int:
        """The number of load or store instructions per thread."""
        return len(self.transfers)

    @property
    def registers_per_thread(self) -> int:
        """The number of 32-bit registers of the fragment that each thread copies."""
        return sum(len(transfer.registers) for transfer in self.transfers)

    def summary(self) -> str:
        """Return a description of the partition in one line, for ``plan.explain()``."""
        forms = [f"{transfer.shape}.x{transfer.repeats}" for transfer in self.transfers]
        counted = ", ".join(f"{forms.count(form)} x {form}" for form in dict.fromkeys(forms))
        return f"{counted} of the lower 16 bits of each column" if self.halves else counted

    def moves(self, request: CopyRequest, values: Mapping[Any, int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Return ``(destination, source)`` pairs: register ``(thread, element)`` and tensor memory ``(lane, element)``.

        The PTX ISA shows, for each shape, where each thread's registers are in tensor memory (9.7.16.2.3).
        """
        fragment, tensor = fragment_and_memory(request)
        per, scale = 32 // fragment.buffer.dtype.bits, 2 if self.halves else 1
        store = request.dst is tensor
        first_thread = max((value for symbol, value in values.items() if symbol.register == "%tid.x"), default=0)
        moves = list[tuple[tuple[int, int], tuple[int, int]]]()
        base, warp_first = int(evaluate(self.column, values)), first_thread // LANES
        for transfer in self.transfers:
            shape = next(shape for shape in SHAPES if shape.name == transfer.shape)
            lanes, columns = (transfer.lane + shape.lane).tolist(), (scale * shape.column).tolist()
            for number, register in enumerate(transfer.registers):
                turn, slot = divmod(number, len(shape.slots))
                further, lane = shape.slots[slot]
                column = base + transfer.column + scale * (shape.columns * turn + further)
                for thread in range(request.scope.threads):
                    warp, t = warp_first + thread // LANES, thread % LANES
                    if not self.warps[0] <= thread // LANES % self.period <= self.warps[1]:
                        continue
                    place = column + columns[t] + transfer.split * (t >= 16) + warp // 4 * self.column_step
                    row = 32 * (warp % 4) + lanes[t] + lane
                    for elem in range(per):
                        in_tensor, in_register = (row, place * per + elem * scale), (thread, register * per + elem)
                        moves.append((in_tensor, in_register) if store else (in_register, in_tensor))
        return moves


def partition_transfers(request: CopyRequest) -> TransferPartition | Decline:
    """Return the partition with the fewest instructions. A Decline names a layout that fits, if there is one."""
    answer = _transfers_of(request)
    if isinstance(answer, Decline) and (fitting := _fitting(request)):
        return Decline(f"{answer.reason}; {fitting} would fit")
    return answer


def _transfers_of(request: CopyRequest) -> TransferPartition | Decline:
    register_map = map_registers(request)
    if isinstance(register_map, Decline):
        return register_map
    fragment, tensor = fragment_and_memory(request)
    name, scale = fragment.buffer.name, 2 if register_map.halves else 1
    base = register_map.columns[:, :1, :1]
    from_base = register_map.columns - base
    other = (register_map.lanes != register_map.lanes[:1]) | (from_base != from_base[:1])
    if other.any():
        warp, thread, register = (int(i) for i in np.argwhere(other)[0])
        return Decline(
            f"all warps must execute the same instructions, but lane {thread}, register {register_map.registers[register]} of {name} maps to "
            f"different tensor memory offsets (from the warp's first lane and column) in warps {register_map.warps[0]} and {register_map.warps[warp]}"
        )
    groups, shifts = register_map.warps // 4, (base - base[0]).ravel()
    apart = sorted({*groups.tolist()})
    step = int(shifts[-1]) // (apart[-1] - apart[0]) if len(apart) > 1 else 0
    if (shifts != (groups - groups[0]) * step).any():
        warp = int(np.argmax(shifts != (groups - groups[0]) * step))
        return Decline(
            f"all warps of a warpgroup must begin at the same column, but warp {register_map.warps[warp]} begins {shifts[warp]} columns after warp {register_map.warps[0]}"
        )
    period = request.scope.threads // LANES
    within = sorted({*(register_map.warps % period).tolist()})
    low = sorted({warp % 4 for warp in within})
    if period > 4 and len(within) == len(low) * (period // 4):  # the same of each warpgroup
        within, period = low, 4
    if len(within) != within[-1] - within[0] + 1 or len(register_map.warps) % len(within):
        return Decline(
            f"the warps that own {fragment} must be consecutive, got warps {', '.join(map(str, within))} of the scope"
        )
    shape_fits = fits(register_map.lanes[0], register_map.columns[0], scale)
    if None in shape_fits:
        first = shape_fits.index(None)
        lanes, columns = register_map.lanes[0, :, first], register_map.columns[0, :, first]
        return Decline(
            f"register {register_map.registers[first]} of {name} fits no shape of tcgen05.ld and st: from the start of {tensor} it is at lane {lanes[0]}, "
            f"column {columns[0]} in the first thread of a warp and at lane {lanes[1]}, column {columns[1]} in the second"
        )
    known_fits = [fit for fit in shape_fits if fit is not None]
    transfers = _group_registers(known_fits, register_map.registers.tolist(), name, scale)
    if isinstance(transfers, str):
        return Decline(transfers)
    start = register_map.start - int(groups[0]) * step
    last = max(int(register_map.columns.max()) + scale - 1, 0)
    lower, upper = bounds_of(register_map.start)
    if (lower or 0) + last >= MOST_COLUMNS or (upper is not None and upper < 0):
        return Decline(
            f"{tensor} must be inside the {MOST_COLUMNS} columns of tensor memory, got {last + 1} columns from column {register_map.start} on"
        )
    return TransferPartition(transfers, register_map.halves, start, step, (within[0], within[-1]), period)


def _group_registers(
    made: Sequence[Fit], registers: Sequence[int], name: str, scale: int
) -> tuple[LaneTransfer, ...] | str:
    """Return transfers of adjacent registers of one shape, with the widest repeats, or a reason to decline."""
    transfers = list[LaneTransfer]()
    for shape, half, split in dict.fromkeys((fit.shape, fit.half, fit.split) for fit in made):
        registers_at = dict[tuple[int, int], list[int]]()
        for fit, register in zip(made, registers, strict=True):
            if (fit.shape, fit.half, fit.split) == (shape, half, split):
                registers_at.setdefault((fit.column, fit.lane), []).append(register)
        units = list[tuple[int, tuple[int, ...]]]()
        keys = sorted(registers_at, reverse=True)
        while keys:
            first = keys[-1][0]
            if keys[-1] not in registers_at:
                keys.pop()
                continue
            unit = list[int]()
            for further, lane in shape.slots:
                key = first + further * scale, lane
                if key not in registers_at:
                    register = unit[0] if unit else next(registers_at[at][0] for at in registers_at if at[0] == first)
                    return (
                        f"shape {shape.name} needs register {register} of {name} and another register at lane {half + lane}, "
                        f"column {key[0]}, but {name} has no register there"
                    )
                unit.append(registers_at[key].pop(0))
                if not registers_at[key]:
                    del registers_at[key]
            units.append((first, tuple(unit)))
        for run in _runs(units, shape.columns * scale):
            for at, count in _powers(len(run), shape):
                own_registers = tuple(r for _, unit_registers in run[at : at + count] for r in unit_registers)
                transfers.append(LaneTransfer(shape.name, count, own_registers, half, run[at][0], split))
    return tuple(transfers)


def _runs(units: Sequence[tuple[int, tuple[int, ...]]], step: int) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """Yield the longest runs of units that follow each other."""
    units_at = dict[int, list[tuple[int, tuple[int, ...]]]]()
    for unit in units:
        units_at.setdefault(unit[0], []).append(unit)
    for column, _ in units:
        run, at = list[tuple[int, tuple[int, ...]]](), column
        while units_at.get(at):
            run.append(units_at[at].pop(0))
            at += step
        if run:
            yield run


def _powers(count: int, shape: Shape) -> Iterator[tuple[int, int]]:
    """Return the start and the repeat count of each instruction in a run; counts are powers of two, the largest first."""
    at = 0
    while at < count:
        repeats = min(shape.most, 1 << (count - at).bit_length() - 1)
        yield at, repeats
        at += repeats


def _fitting(request: CopyRequest) -> str | None:
    """Return the expression of a layout that would fit, or None if the tensor does not fit."""
    fragment, tensor = fragment_and_memory(request)
    shape = tuple(extent for extent in tensor.extents if extent > 1)
    warps = request.scope.threads // LANES
    if len(shape) != 2:
        return None
    name, axis = BY_BITS[fragment.buffer.dtype.bits], wid_in_wg if request.scope.kind == "warpgroup" else None
    for candidate in SHAPES[:4]:
        if shape[0] % (candidate.high * warps) or shape[1] % (candidate.columns * (32 // fragment.buffer.dtype.bits)):
            continue
        layout = tile_fragment(mma_fragment(candidate.name, "C", name), shape, (warps, 1), warp_axis=axis)
        other = Buffer(shape, fragment.buffer.dtype, space="local", layout=layout, name=fragment.buffer.name)[:, :]
        fitted = attrs.evolve(request, src=other) if request.src is fragment else attrs.evolve(request, dst=other)
        if isinstance(_transfers_of(fitted), TransferPartition):
            named_axis = f", warp_axis={axis}" if axis else ""
            return f"tile_fragment(mma_fragment({candidate.name!r}, 'C', {name!r}), {shape}, ({warps}, 1){named_axis})"
    return None
