"""The events that an observer of a run receives: each memory access of a thread, and each transfer of a copy engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from ..memory_model.access import TENSOR_CELLS, WINDOW_BITS
from ..threads.registers import Registers
from ..threads.threads import Lanes


@attrs.frozen(eq=False)
class AccessEvent:
    """An access of one instruction to one array of global memory, one variable of shared memory, or tensor memory.

    A thread's number in the grid is the number of its CTA (cluster after cluster, by rank) times the threads per CTA, plus its own.

    Attributes:
        line: of the PTX text, from 1.
        opcode: with its modifiers.
        kind: ``load``, ``store`` or ``atomic``.
        space: ``global``, ``const``, ``param``, ``shared`` or ``tensor``.
        array: name of the array or variable; "" for tensor memory.
        threads: that access it, shape (n,); for ``ldmatrix`` and ``stmatrix`` the threads that give the addresses.
        ctas: that own the shared or tensor memory, shape (n,); otherwise the CTAs of the threads.
        offsets: of each access's first byte in the array or variable, shape (n,); in tensor memory ``2048 * lane + 4 * column``.
        bytes: of each access.
        raw: the bytes that were read or written, or that were there before an atomic; uint8, shape (n, bytes).
    """

    line: int
    opcode: str
    kind: str
    space: str
    array: str
    threads: Any
    ctas: Any
    offsets: Any
    bytes: int
    raw: Any


@attrs.frozen(eq=False)
class TransferEnd:
    """The source or the destination of a transfer. Each piece of the transfer has an offset.

    Attributes:
        space, array, ctas, offsets: as in :class:`AccessEvent`, one per piece.
    """

    space: str
    array: str
    ctas: Any
    offsets: Any


@attrs.frozen(eq=False)
class Transfer:
    """A transfer by ``cp.async``, a bulk or tensor copy, or ``tcgen05.cp``, reported when the instruction is issued.

    Attributes:
        line: of the PTX text, from 1.
        opcode: with its modifiers.
        threads: that issue each piece, shape (n,); numbered as in :class:`AccessEvent`.
        source: of each piece.
        destination: of each piece; a piece with several destinations is repeated for each.
        bytes: of a piece at its destination.
        read: bytes of each piece that are read, shape (n,); the others are filled, or not written.
    """

    line: int
    opcode: str
    threads: Any
    source: TransferEnd
    destination: TransferEnd
    bytes: int
    read: Any


Observer = Callable[[AccessEvent | Transfer], None]


@attrs.frozen(eq=False)
class _Located:
    """Flat pieces with the number of the array, the CTA and the offset of each."""

    space: str
    names: list[str]
    keys: Any
    ctas: Any
    offsets: Any

    def side(self, chosen: Any) -> TransferEnd:
        """Return the addresses that the mask ``chosen`` selects, as a source or destination. All are in one array."""
        return TransferEnd(
            self.space, self.names[int(self.keys[chosen][0])], self.ctas[chosen], self.offsets[chosen].astype(np.int64)
        )


Where = tuple[str, Any]
"""``global`` and addresses of shape ``(n or 1, copies or 1)``; ``shared`` and places, ``tensor`` and cells, each of shape ``(n,)``."""


def _locate(machine: Any, where: Where, threads: Any) -> _Located:
    space, values = where
    size = len(threads) // machine.copies
    if space == "global":
        addresses = np.broadcast_to(np.asarray(values).astype(np.uint64), (size, machine.copies)).ravel()
        arrays = machine.launch.memory.arrays
        keys = np.minimum((addresses >> np.uint64(WINDOW_BITS)).astype(np.int64) - 1, len(arrays))
        keys[keys == len(arrays)] = -1  # no bytes are read there
        bases, names = [array.base for array in arrays], [array.name for array in arrays]
        offsets = addresses.view(np.int64) - np.array([*bases, 0])[keys]
        array_space = arrays[int(keys[0])].space if len(keys) else space
        return _Located(array_space, [*names, ""], keys, threads // machine.threads, offsets)
    shared = machine.shared
    cta_cells = shared.size if space == "shared" else TENSOR_CELLS
    ctas = (machine.grid_thread[values // cta_cells * machine.threads] // machine.threads).ravel()
    offsets = np.repeat(values % cta_cells, machine.copies)
    if space == "tensor":
        return _Located(space, [""], np.zeros(len(offsets), np.int64), ctas, 4 * offsets)
    keys = shared.owner[offsets].astype(np.int64)
    starts = np.array([variable.offset for variable in shared.variables], np.int64)
    return _Located(space, [variable.name for variable in shared.variables], keys, ctas, offsets - starts[keys])


def _instruction(machine: Registers) -> tuple[int, str]:
    instruction = machine.program.instructions[machine.at]
    return instruction.line, ".".join(instruction.opcode)


def tell_access(machine: Registers, kind: str, lanes: Lanes, where: Where, raw: Any) -> None:
    """Call the observer for an access by lanes. The shape of ``raw`` broadcasts to ``(n, clusters, bytes)``."""
    index, size = machine.index(lanes), raw.shape[2]
    threads = machine.grid_thread[index].ravel()
    places = _locate(machine, where, threads)
    flat = np.broadcast_to(raw, (len(index), machine.copies, size)).reshape(-1, size)
    for key in np.unique(places.keys).tolist():
        chosen = places.keys == key
        side = places.side(chosen)
        event = AccessEvent(
            *_instruction(machine), kind, side.space, side.array, threads[chosen], side.ctas, side.offsets, size, flat[chosen].copy()
        )  # fmt: skip
        machine.launch.observer(event)


def tell_transfer(
    machine: Registers, lanes: Lanes, source: Where, destination: Where, size: int, read: Any = None
) -> None:
    """Call the observer for a transfer of one piece per lane. ``read``: bytes read per piece, by default all."""
    index = machine.index(lanes)
    threads = machine.grid_thread[index].ravel()
    src, dst = _locate(machine, source, threads), _locate(machine, destination, threads)
    read = np.broadcast_to(size if read is None else read, (len(index), machine.copies)).ravel().astype(np.int64)
    for pair in np.unique(np.stack([src.keys, dst.keys]), axis=1).T.tolist():
        chosen = (src.keys == pair[0]) & (dst.keys == pair[1])
        transfer = Transfer(
            *_instruction(machine), threads[chosen], src.side(chosen), dst.side(chosen), size, read[chosen]
        )
        machine.launch.observer(transfer)
