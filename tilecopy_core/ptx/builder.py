"""The PTX builder: what variants emit through.

Each method is one instruction (or the idiom that the ISA prescribes). What an instruction needs and takes stands in
:mod:`.instructions`; the methods here only put its operands in order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import cycle, islice
from typing import TypeAlias

from ..description.scope import Scope, tid_symbol
from ..description.target import Target, Version
from ..errors import PtxError, RequestError, short_repr
from ..integers import bounds_of
from ..integers.expr import Int, key_of, symbols_of
from ..memory.buffers import Buffer
from .bindings import Bindings, KernelBindings, Recipe, SharedPlan
from .emitter import pure_once
from .index import IndexEmitter
from .instructions import Needs, instruction_of, merge
from .operands import Access, Address, Register, TensorPlace, Vector, vector_of

Registers: TypeAlias = Sequence[Register]

_WIDTHS = {8: 1, 16: 1, 32: 1, 64: 2, 128: 4, 256: 8}
"""Width of an access in bits -> 32-bit registers it fills."""


def _parts_of(place: Access | Address) -> tuple[Address, Register | None, int | tuple[int, ...] | None]:
    """Address, predicate and fill of an access; an address is one by all threads."""
    if isinstance(place, Address):
        return place, None, None
    return place.address, place.predicate, place.fill


class PtxBuilder(IndexEmitter):
    """Instructions of one kernel, of ``cta_threads`` threads per CTA, that declares the shared buffers.

    Instructions that the target lacks are refused. ``bindings`` say where operands come from when the copy is written into something else than a kernel.
    """

    def __init__(
        self, target: Target, cta_threads: int, shared: Sequence[Buffer] = (), bindings: Bindings | None = None
    ) -> None:
        instruction_of("ret")  # reads the table of instructions: no hook is to blame where it cannot be read
        super().__init__(target, bindings or KernelBindings(SharedPlan.of(shared, target)))
        self.cta_threads = cta_threads
        self._started: set[Register] = set()
        self._written_once: set[Hashable] = set()

    @property
    def tid(self) -> Int:
        """Return the thread's index in the CTA."""
        return tid_symbol(self.cta_threads)

    def thread_index(self, scope: Scope) -> Int:
        """Return the thread's index in a scope."""
        return scope.thread_index(self.tid)

    # ------------------------------------------------------------------------------------------- loads and stores

    def load(self, source: Access | Address, bits: int, into: Registers | None = None) -> list[Register]:
        """Load 8 to 128 bits (256 from global memory, sm_100 and newer) into 32-bit registers, or into ``into``.

        8 and 16 bits are zero-extended. ``into`` may also be 64-bit registers that hold exactly ``bits``. Threads that
        a predicate leaves out keep what the registers hold, or get the access's fill. Raises PtxError for no such
        access, registers of another width, or an address not proved to be aligned.
        """
        address, predicate, fill = _parts_of(source)
        registers = self.regs("b32", self._check_width(bits)) if into is None else into
        vector = self._fitting("ld", bits, registers)
        opcode = self._opcode("ld", address, bits, vector)
        if predicate is not None and fill is not None:
            self.fill(registers, fill)
        self.instr(opcode, vector, address, guard=predicate)
        return list(registers)

    def store(self, destination: Access | Address, bits: int, registers: Registers, *, relaxed: bool = False) -> None:
        """Store 8 to 128 bits (256 to global memory, sm_100 and newer); see :meth:`load`.

        With ``relaxed``, by a strong operation of the scope of the GPU (``st.relaxed.gpu``), which may meet others like it.
        """
        address, predicate, _ = _parts_of(destination)
        vector = self._fitting("st", bits, registers)
        name = "st.relaxed.gpu" if relaxed else "st"
        self.instr(self._opcode(name, address, bits, vector), address, vector, guard=predicate)

    def fill(self, registers: Registers, words: int | tuple[int, ...]) -> None:
        """Let registers hold 32-bit words, repeated; a register of 64 bits takes two."""
        repeated = cycle((words,) if isinstance(words, int) else words)
        for register in registers:
            taken = islice(repeated, register.bits // 32)
            self.instr(f"mov.b{register.bits}", register, sum(word << 32 * n for n, word in enumerate(taken)))

    def constant(self, words: int | tuple[int, ...], bits: int) -> list[Register]:
        """Registers of 32 bits that hold ``bits`` of repeated words, computed once."""
        repeated = islice(cycle((words,) if isinstance(words, int) else words), self._check_width(bits))
        return [pure_once(self, self._at(0), ("word", word), "mov.b32", "b32", word) for word in repeated]

    def _check_width(self, bits: int) -> int:
        if bits not in _WIDTHS:
            raise PtxError(f"bits of an access must be one of {', '.join(map(str, _WIDTHS))}, got {short_repr(bits)}")
        return _WIDTHS[bits]

    def _fitting(self, name: str, bits: int, registers: Registers) -> Vector:
        """The registers of an access, which hold what it moves."""
        width, vector = self._check_width(bits), vector_of(tuple(registers))
        if vector.bits != max(bits, 32):
            raise PtxError(
                f"{name} of {bits} bits takes {width} registers of 32 bits, or half as many of 64; found {short_repr(registers)}"
            )
        return vector

    def _opcode(self, name: str, address: Address, bits: int, vector: Vector) -> str:
        if bits == 256 and (address.space != "global" or self.target.arch < 100):
            raise PtxError(f"{name} of 256 bits needs global memory and sm_100; found {address.space}, {self.target}")
        if address.align_bytes % (bits // 8):
            raise PtxError(
                f"{name} of {bits} bits at {address}: the address is proved to be a multiple of "
                f"{address.align_bytes} bytes, {bits // 8} are needed"
            )
        count, type = len(vector.registers), f"u{bits}" if bits < 32 else vector.registers[0].type
        return f"{name}.{address.space}.v{count}.{type}" if count > 1 else f"{name}.{address.space}.{type}"

    # ------------------------------------------------------------------------------------------- registers as memory

    def fragment(self, buffer: Buffer) -> list[Register]:
        """The registers of a local buffer: its span, packed into words of 32 bits (64 for elements of 64)."""
        return self.bindings.fragment(self, buffer)

    def local_words(self, buffer: Buffer, start_elem: int, bits: int) -> list[Register] | None:
        """The registers that ``bits`` from an element on fill exactly, or None when they share one with others."""
        words = self.fragment(buffer)
        first, word = start_elem * buffer.dtype.bits, words[0].bits
        if first % word or bits % word:
            return None
        return words[first // word : (first + bits) // word]

    def read_local(self, buffer: Buffer, start_elem: int, bits: int) -> list[Register]:
        """``bits`` of a local buffer from an element on; those narrower than a register are taken out of it."""
        whole = self.local_words(buffer, start_elem, bits)
        if whole is not None:
            return whole
        word, position = self._within_word(buffer, start_elem, bits)
        if position == 0 and bits in (8, 16):
            return [word]  # a narrow store takes the low bits
        result = self.reg("b32")
        self.instr("bfe.u32", result, word, position, bits)
        return [result]

    def write_local(
        self, buffer: Buffer, start_elem: int, bits: int, registers: Registers, *, guard: Register | None = None
    ) -> None:
        """Put ``bits`` into a local buffer from an element on (where ``guard`` is true), leaving its neighbours as they are."""
        whole = self.local_words(buffer, start_elem, bits)
        if whole is not None:
            if len(whole) != len(registers):
                raise PtxError(f"{buffer.name}: {bits} bits are {len(whole)} registers, not {short_repr(registers)}")
            for word, register in zip(whole, registers, strict=True):
                self.instr(f"mov.b{word.bits}", word, register, guard=guard)
            return
        word, position = self._within_word(buffer, start_elem, bits)
        if word not in self._started and not self.bindings.inlined:
            self._started.add(word)
            self.place_first(f"\tmov.b32 {word}, 0;")  # bfi reads the bits that it leaves
        self.instr("bfi.b32", word, registers[0], word, position, bits, guard=guard)

    def _within_word(self, buffer: Buffer, start_elem: int, bits: int) -> tuple[Register, int]:
        words = self.fragment(buffer)
        first, size = start_elem * buffer.dtype.bits, words[0].bits
        if not 0 <= first < len(words) * size or first % size + bits > size:
            raise PtxError(f"{buffer.name}: {bits} bits at element {start_elem} are not inside one register")
        return words[first // size], first % size

    # ------------------------------------------------------------------------------------------- what a kernel needs

    def require(self, *, version: Version, why: str) -> None:
        """Raise the module's ``.version`` to at least a PTX ISA version such as ``(8, 6)``, and say why in a comment.

        For what the instructions do not say by themselves.
        """
        self.comment(f"PTX ISA {version[0]}.{version[1]}: {why}")
        self._required = merge(self._required, Needs(version=version))

    def once(self, key: Hashable, write: Callable[[PtxBuilder], None]) -> None:
        """Write what a kernel has once, however many copies ask for it, before everything else that the kernel does.

        Equal keys, such as ``("my-package", map)``, are written for the first copy alone. All threads of every CTA come to what
        ``write`` writes; ``guard=`` or :meth:`if_` says which of them do it. It uses what the whole kernel has: parameters, ids
        and shared memory, not a loop's turn. Raises PtxError where the copy is written into a function, whose start is not known.
        """
        if self.bindings.inlined:
            raise PtxError("what a kernel has once belongs to a kernel; this copy is written into a function")
        if key in self._written_once:
            return
        self._written_once.add(key)
        around = self.blocks, self._bound, self._floor
        self.blocks, self._bound, self._floor = [self._start], {}, 0
        try:
            write(self)
        finally:
            self.blocks, self._bound, self._floor = around
        self._whole.follow(self._start)

    # ------------------------------------------------------------------------------------------- what a launch makes

    def host_parameter(self, recipe: Recipe) -> Register:
        """Return the generic address of a kernel parameter whose bytes each launch makes from the arguments.

        Equal recipes share one parameter. Raises PtxError where the
        copy is written into a function that tilecopy does not launch, and TargetError where the target lacks the recipe's swizzle.
        """
        make: Callable[[PtxBuilder, Recipe], Register] | None = getattr(self.bindings, "host_parameter", None)
        if make is None:
            raise PtxError(
                "a parameter that the launch makes belongs to a kernel; this copy is written into a function"
            )
        self._required = merge(self._required, recipe.needs_on(self.target))
        return make(self, recipe)

    def tensor_place(self, map: Register, coordinates: Sequence[Int], *, clamp: bool = False) -> TensorPlace:
        """The operand ``[map, {c0, c1, ..}]`` of a tensor copy, with the address of a map as :meth:`host_parameter` gives it.

        The coordinates are those of the box's first element, innermost first; each fits 32 bits when the kernel runs. With
        ``clamp`` one may be past them: it becomes the nearest that fits, where no array has an element.
        """
        return TensorPlace(
            map, tuple(self._word(value, "cvt.sat.s32.s64" if clamp else "cvt.u32.u64") for value in coordinates)
        )

    def _word(self, value: Int, opcode: str) -> Register | int:
        if isinstance(value, int) or self._fits(value):
            return self.operand(value)
        block = self.home(symbols_of(value))
        return pure_once(self, block, (opcode, key_of(value)), opcode, "b32", self.value(value, 64))

    # ------------------------------------------------------------------------------------------- asynchronous copies

    def cp_async(
        self, destination: Address, source: Access | Address, nbytes: int, *, ignore: Register | None = None
    ) -> None:
        """``cp.async`` of 4, 8 (``.ca``) or 16 bytes (``.cg``) from global to shared memory, by the source's threads.

        Where the predicate ``ignore`` is true nothing is read and zeros are written (``.version`` 7.5).
        """
        address, predicate, _ = _parts_of(source)
        opcode = f"cp.async.{'cg' if nbytes == 16 else 'ca'}.shared.global"
        ignored = () if ignore is None else (ignore,)
        self.instr(opcode, destination, address, nbytes, *ignored, guard=predicate)

    def mapa(self, address: Address, rank: Int) -> Address:
        """Return the address that a shared address has in CTA ``rank`` of the cluster, in the ``shared::cluster`` window.

        The register alone is mapped: ask for an address with ``whole=True`` where its offset can be negative.
        """
        if address.space != "shared":
            raise PtxError(f"mapa maps a shared address, not {address} in {address.space}")
        cluster, lower = getattr(self.bindings, "cluster", None), bounds_of(rank)[0]
        if cluster is not None and lower is not None and lower >= cluster:
            raise RequestError(
                f"rank must be below {cluster}, the CTAs of a cluster of this kernel, got {short_repr(rank)}: give build a larger cluster="
            )
        if type(rank) is int and not 0 <= rank < 16:
            raise PtxError(f"mapa: rank is that of one of at most 16 CTAs of a cluster, not {short_repr(rank)}")
        block = self.blocks[-1]

        def compute() -> Register:
            chosen, result = self.operand(rank), self.reg("b32")
            self.instr("mapa.shared::cluster.u32", result, address.base, chosen)
            return result

        mapped = block.once(("mapa", address.base, key_of(rank)), compute)
        return Address("shared::cluster", mapped, address.offset_bytes, address.align_bytes)

    @property
    def bulk_destination(self) -> str:
        """The state space that a bulk or tensor load into the CTA's own shared memory names.

        From sm_120 on ptxas makes a call of ``shared::cluster`` (``__cuda_syscall_...``), and of ``shared::cta`` an
        instruction. ``shared::cta`` needs ``.version`` 8.6, so older targets keep ``shared::cluster``.
        """
        return "shared::cta" if self.target.arch >= 120 else "shared::cluster"

    def bulk_copy_to_cluster(self, destination: Address, source: Address, nbytes: int, barrier: Address) -> None:
        """``cp.async.bulk`` from this CTA's shared memory to another's, completing on a barrier of that CTA."""
        operation = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
        self.instr(operation, destination, source, nbytes, barrier)
