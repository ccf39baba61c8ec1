"""The counts of one copy: instructions, registers, and traffic of global and shared memory."""

from __future__ import annotations

from tilecopy_core.errors import frozen


@frozen
class CopyCounts:
    """A frozen record of the instructions, registers and memory traffic of one copy.

    The traffic of an instruction is unknown if its addresses come from memory, if the iteration count of a loop around it is unknown, or
    if the table of instructions does not have it. :attr:`sectors` and :attr:`wavefronts` are then None, and the other
    counts of traffic leave that instruction out.

    Attributes:
        variant: the name of the variant.
        threads: the number of threads of the scope.
        cta_threads: the number of threads of the CTA; that of the scope if there is no kernel.
        copies_per_cta: the number of instances of the scope in the CTA.
        nbytes: the bytes that one instance of the scope moves.
        stores: True if the copy writes global memory.
        instructions: the instructions of all threads of the scope, with those that compute addresses.
        max_instructions_per_thread: the instructions of the thread that executes the most.
        requests: the instructions of all warps; the lanes of a warp count once.
        access_bytes: the widths of one thread's accesses in bytes, the widest first.
        registers: the most 32-bit registers of a thread that hold values at the same time.
        sectors: the 32-byte sectors of global memory that all requests touch; None if unknown.
        ideal_sectors: the fewest sectors that can hold the bytes inside the arrays.
        data_path: the path that moves the widest accesses: ``registers``, ``cp.async``, ``bulk`` or ``tensor``; "" without memory.
        merged_sectors: the sectors if neighbouring words of a thread are one access, as in machine code.
        merged_wavefronts: the wavefronts, counted like ``merged_sectors``.
        split_sectors: the sectors that an asynchronous copy spreads over several sectors of shared memory.
        lines: the 128-byte lines of global memory that loads and stores touch.
        wavefronts: the wavefronts of requests to shared memory, without bulk and tensor copies; None if unknown.
        ideal_wavefronts: the fewest wavefronts that can move the bytes that are read or written there.
        touched_sector_bytes: the bytes of all touched sectors, each counted once.
        contiguous_pieces: the number of contiguous pieces of those sectors.
        bulk_copies: the number of bulk and tensor copies.
        bulk_rows: the number of contiguous pieces in the bulk and tensor copies.
        in_flight_bytes: the bytes that are requested from global memory before the first wait.
        shared_bytes: the bytes of shared memory that the operands take in a CTA.
        upper_bound: True if conditions are unknown before the launch, so that the lines that they guard count in full.
        not_counted: the opcodes whose traffic is unknown.
    """

    variant: str
    threads: int
    cta_threads: int
    copies_per_cta: int
    nbytes: int
    stores: bool
    instructions: int
    max_instructions_per_thread: int
    requests: int
    access_bytes: tuple[int, ...]
    registers: int
    sectors: int | None
    ideal_sectors: int
    data_path: str
    merged_sectors: int
    merged_wavefronts: int
    split_sectors: int
    lines: int
    wavefronts: int | None
    ideal_wavefronts: int
    touched_sector_bytes: int
    contiguous_pieces: int
    bulk_copies: int
    bulk_rows: int
    in_flight_bytes: int
    shared_bytes: int
    upper_bound: bool
    not_counted: tuple[str, ...]
