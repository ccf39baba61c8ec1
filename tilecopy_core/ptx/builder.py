"""The PTX builder: what variants emit through.

Each method is one instruction (or the idiom that the ISA prescribes), checked against what the instruction takes:
widths match registers, addresses are proved to be aligned, state spaces fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import PtxError
from ..expr import Int, as_expr
from ..memory import Buffer
from ..target import Target
from .index import IndexEmitter
from .operands import Address, Register

MBARRIER_TX_LIMIT = 2**20 - 1
"""The largest transaction count of one mbarrier phase, in bytes (PTX ISA, mbarrier)."""

_WIDTHS = {8: 1, 16: 1, 32: 1, 64: 2, 128: 4, 256: 8}
"""Width of an access in bits -> 32-bit registers it fills."""


class PtxBuilder(IndexEmitter):
    """Instructions of one kernel.

    Args:
        target: the architecture; instructions that it lacks are refused.
        cta_threads: threads of the CTA.
        shared: the shared buffers that the kernel declares.
    """

    def __init__(self, target: Target, cta_threads: int, shared: Sequence[Buffer] = ()) -> None:
        super().__init__(target, cta_threads, shared)
        self._locals: dict[str, tuple[Buffer, list[Register], set[int]]] = {}

    # ------------------------------------------------------------------------------------------- loads and stores

    def load(
        self, source: Address, bits: int, into: Sequence[Register] | None = None, *, streaming: bool = False
    ) -> list[Register]:
        """Load 8 to 128 bits (256 from global memory, sm_100 and newer) into 32-bit registers, or into ``into``.

        8 and 16 bits are zero-extended. ``into`` may also be 64-bit registers that hold exactly ``bits``. A
        ``streaming`` access of global memory leaves no line in L1 (``.L1::no_allocate``): for bytes touched once.

        Raises:
            PtxError: no such access, registers of another width, or an address not proved to be aligned.
        """
        registers = list(into) if into is not None else self.regs("b32", self._check_width(bits))
        vector = self._check_access("ld", source, bits, registers)
        self.instr(f"ld.{source.space}{_hint(source, streaming)}{vector}", _braced(registers), source)
        return registers

    def store(self, destination: Address, bits: int, registers: Sequence[Register], *, streaming: bool = False) -> None:
        """Store 8 to 128 bits (256 to global memory, sm_100 and newer); see :meth:`load`."""
        vector = self._check_access("st", destination, bits, registers)
        self.instr(f"st.{destination.space}{_hint(destination, streaming)}{vector}", destination, _braced(registers))

    def _check_width(self, bits: int) -> int:
        if bits not in _WIDTHS:
            raise PtxError(f"there is no access of {bits} bits; the widths are {', '.join(map(str, _WIDTHS))}")
        return _WIDTHS[bits]

    def _check_access(self, name: str, address: Address, bits: int, registers: Sequence[Register]) -> str:
        count = self._check_width(bits)
        if bits == 256 and (address.space != "global" or self.target.arch < 100):
            raise PtxError(f"{name} of 256 bits needs global memory and sm_100; found {address.space}, {self.target}")
        if address.align_bytes % (bits // 8):
            raise PtxError(
                f"{name} of {bits} bits at {address}: the address is proved to be a multiple of "
                f"{address.align_bytes} bytes, {bits // 8} are needed"
            )
        held = registers[0].bits if registers else 0
        if any(r.bits != held for r in registers) or held not in (32, 64):
            raise PtxError(f"{name} of {bits} bits takes registers of 32 bits, or of 64; found {list(registers)}")
        if len(registers) * held != max(bits, 32) or (held == 32 and len(registers) != count):
            raise PtxError(f"{name} of {bits} bits takes {count} registers of 32 bits; found {list(registers)}")
        type = f"u{bits}" if bits < 32 else registers[0].type
        return f".v{len(registers)}.{type}" if len(registers) > 1 else f".{type}"

    # ------------------------------------------------------------------------------------------- registers as memory

    def declare_local(self, buffer: Buffer) -> list[Register]:
        """The registers of a local buffer: its span, packed into words of 32 bits (64 for elements of 64)."""
        if buffer.name not in self._locals:
            word = 64 if buffer.dtype.bits == 64 else 32
            words = self.regs(f"b{word}", -(-buffer.span_elems * buffer.dtype.bits // word))
            self._locals[buffer.name] = (buffer, words, set())
        return self._locals[buffer.name][1]

    def local_words(self, buffer: Buffer, start_elem: int, bits: int) -> list[Register] | None:
        """The registers that ``bits`` from an element on fill exactly, or None when they share one with others."""
        words = self.declare_local(buffer)
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

    def write_local(self, buffer: Buffer, start_elem: int, bits: int, registers: Sequence[Register]) -> None:
        """Put ``bits`` into a local buffer from an element on, leaving its neighbours as they are."""
        whole = self.local_words(buffer, start_elem, bits)
        if whole is not None:
            for word, register in zip(whole, registers, strict=True):
                self.instr(f"mov.b{word.bits}", word, register)
            return
        word, position = self._within_word(buffer, start_elem, bits)
        started = self._locals[buffer.name][2]
        if word.number not in started:
            started.add(word.number)
            self.blocks[0].head.append(f"\tmov.b32 {word}, 0;")  # bfi reads the bits that it leaves alone
        self.instr("bfi.b32", word, registers[0], word, position, bits)

    def _within_word(self, buffer: Buffer, start_elem: int, bits: int) -> tuple[Register, int]:
        words = self.declare_local(buffer)
        first, size = start_elem * buffer.dtype.bits, words[0].bits
        if not 0 <= first < len(words) * size or first % size + bits > size:
            raise PtxError(f"{buffer.name}: {bits} bits at element {start_elem} are not inside one register")
        return words[first // size], first % size

    # ------------------------------------------------------------------------------------------- barriers and fences

    def bar_sync(self, barrier: int = 0, threads: int | None = None) -> None:
        """``bar.sync``: all threads of the CTA, or ``threads`` (a multiple of 32) of them."""
        if not 0 <= barrier < 16:
            raise PtxError(f"bar.sync has barriers 0 to 15, not {barrier}")
        if threads is not None and (threads % 32 or not 0 < threads <= 1024):
            raise PtxError(f"bar.sync takes a multiple of 32 threads, not {threads}")
        self.instr("bar.sync", barrier, *([] if threads is None else [threads]))

    def bar_warp_sync(self, mask: int = 0xFFFFFFFF) -> None:
        """``bar.warp.sync``: the lanes of a mask."""
        self.instr("bar.warp.sync", f"0x{mask:08x}")

    def cluster_sync(self) -> None:
        """All threads of the cluster: ``barrier.cluster.arrive`` (release), then ``wait`` (acquire)."""
        self.instr("barrier.cluster.arrive")
        self.instr("barrier.cluster.wait")

    def fence_proxy_async(self, space: str = "shared::cta") -> None:
        """Order generic accesses before those of the async proxy: bulk copies, tcgen05."""
        if space not in ("shared::cta", "shared::cluster", "global", ""):
            raise PtxError(f"fence.proxy.async takes shared::cta, shared::cluster, global or all, not {space!r}")
        self.instr(f"fence.proxy.async.{space}" if space else "fence.proxy.async")

    def fence_mbarrier_init(self) -> None:
        """Make ``mbarrier.init`` visible to the cluster; a barrier follows."""
        self.instr("fence.mbarrier_init.release.cluster")

    # ------------------------------------------------------------------------------------------- cp.async

    def cp_async(self, destination: Address, source: Address, nbytes: int) -> None:
        """``cp.async`` of 4, 8 (``.ca``) or 16 bytes (``.cg``) from global to shared memory.

        Raises:
            PtxError: another size or pair of spaces, or an address not proved to be aligned.
        """
        if nbytes not in (4, 8, 16):
            raise PtxError(f"cp.async copies 4, 8 or 16 bytes, not {nbytes}")
        if (destination.space, source.space) != ("shared", "global"):
            raise PtxError(f"cp.async copies global to shared memory, not {source.space} to {destination.space}")
        for what, address in (("destination", destination), ("source", source)):
            self._check_aligned(f"cp.async {what}", address, nbytes)
        self.instr(f"cp.async.{'cg' if nbytes == 16 else 'ca'}.shared.global", destination, source, nbytes)

    def cp_async_commit(self) -> None:
        """Close a group of the thread's ``cp.async``."""
        self.instr("cp.async.commit_group")

    def cp_async_wait(self, pending: int = 0) -> None:
        """Wait until at most ``pending`` of the thread's newest groups are unfinished."""
        if pending < 0:
            raise PtxError(f"cp.async.wait_group takes a count of groups, not {pending}")
        self.instr("cp.async.wait_group", pending)

    def _check_aligned(self, what: str, address: Address, nbytes: int) -> None:
        if address.align_bytes % nbytes:
            raise PtxError(
                f"{what} {address}: proved to be a multiple of {address.align_bytes} bytes, {nbytes} are needed"
            )

    # ------------------------------------------------------------------------------------------- mbarrier, clusters

    def mbarrier_init(self, barrier: Address, count: int) -> None:
        """``mbarrier.init`` for ``count`` arrivals a phase (1 to 2**20 - 1)."""
        if not 1 <= count < 2**20:
            raise PtxError(f"an mbarrier counts 1 to {2**20 - 1} arrivals, not {count}")
        self._check_aligned("mbarrier", barrier, 8)
        self.instr("mbarrier.init.shared.b64", barrier, count)

    def mbarrier_arrive(self, barrier: Address) -> None:
        """``mbarrier.arrive`` (release); at cluster scope for a barrier of another CTA."""
        if barrier.space == "shared::cluster":
            self.instr("mbarrier.arrive.release.cluster.shared::cluster.b64", "_", barrier)
        else:
            self.instr("mbarrier.arrive.shared.b64", self.reg("b64"), barrier)

    def mbarrier_arrive_expect_tx(self, barrier: Address, nbytes: int) -> None:
        """Announce bytes that copies will complete in this phase, and arrive.

        Raises:
            PtxError: more bytes than one phase can count.
        """
        if not 0 < nbytes <= MBARRIER_TX_LIMIT:
            raise PtxError(f"one mbarrier phase counts 1 to {MBARRIER_TX_LIMIT} bytes, not {nbytes}")
        self.instr("mbarrier.arrive.expect_tx.shared::cta.b64", "_", barrier, nbytes)

    def mbarrier_wait(self, barrier: Address, parity: Int, *, cluster: bool = False) -> None:
        """Wait until the phase of a parity has completed (``try_wait`` in a loop; acquire, at cluster scope if asked)."""
        expr = as_expr(parity)
        phase: object = self.value(parity) if expr.terms else expr.const & 1
        label, done = self.new_label("wait"), self.reg("pred")
        scope = ".acquire.cluster" if cluster else ""
        self.place(label)
        self.instr(f"mbarrier.try_wait.parity{scope}.shared::cta.b64", done, barrier, phase)
        self.instr("bra", label, guard=done, unless=True)

    def mapa(self, address: Address, rank: Int) -> Address:
        """The same shared address in CTA ``rank`` of the cluster, in the ``shared::cluster`` window."""
        if address.space != "shared":
            raise PtxError(f"mapa maps a shared address, not one in {address.space}")
        expr = as_expr(rank)
        key = ("mapa", address.base, expr)
        block = self.blocks[-1]
        if key not in block.known:
            result = self.reg("b32")
            chosen: object = self.value(rank) if expr.terms else expr.const
            self.instr("mapa.shared::cluster.u32", result, address.base, chosen)
            block.known[key] = result
        return Address("shared::cluster", block.known[key], address.offset_bytes, address.align_bytes)

    def bulk_copy_to_cluster(self, destination: Address, source: Address, nbytes: int, barrier: Address) -> None:
        """``cp.async.bulk`` from this CTA's shared memory to another's, completing on a barrier of that CTA.

        Raises:
            PtxError: a size or address that is not a multiple of 16 bytes, or wrong windows.
        """
        if nbytes < 16 or nbytes % 16:
            raise PtxError(f"cp.async.bulk copies a multiple of 16 bytes, not {nbytes}")
        if nbytes > MBARRIER_TX_LIMIT:
            raise PtxError(
                f"one mbarrier phase counts at most {MBARRIER_TX_LIMIT} bytes; one copy of {nbytes} overflows it"
            )
        if (destination.space, source.space, barrier.space) != ("shared::cluster", "shared", "shared::cluster"):
            raise PtxError(
                "cp.async.bulk copies shared to shared::cluster memory and signals a shared::cluster mbarrier, not "
                f"{source.space} to {destination.space} signalling {barrier.space}"
            )
        self._check_aligned("cp.async.bulk destination", destination, 16)
        self._check_aligned("cp.async.bulk source", source, 16)
        self.instr(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
            destination,
            source,
            nbytes,
            barrier,
        )

    # ------------------------------------------------------------------------------------------- tensor memory

    def matrix_descriptor(self, start: Address, ldo: int, sdo: int, swizzle: int) -> Register:
        """The 64-bit shared-memory matrix descriptor of tcgen05 (PTX ISA 9.7.16.4.1), encoded once for equal arguments.

        Args:
            start: shared address of the first row.
            ldo: leading-dimension byte offset, in units of 16 bytes.
            sdo: stride-dimension byte offset, in units of 16 bytes.
            swizzle: the code: 0 none, 6 32B, 4 64B, 2 128B.
        """
        self._check_aligned("matrix descriptor start", start, 16)
        if swizzle not in (0, 2, 4, 6) or not 0 <= ldo < 2**14 or not 0 <= sdo < 2**14:
            raise PtxError(f"no matrix descriptor has ldo {ldo}, sdo {sdo}, swizzle code {swizzle}")
        block = self.blocks[-1]
        key = ("descriptor", start, ldo, sdo, swizzle)
        if key not in block.known:
            at, unit, wide, result = self.reg("b32"), self.reg("b32"), self.reg("b64"), self.reg("b64")
            self.instr("add.s32", at, start.base, start.offset_bytes)
            self.instr("bfe.u32", unit, at, 4, 14)
            self.instr("cvt.u64.u32", wide, unit)
            self.instr("or.b64", result, wide, hex(ldo << 16 | sdo << 32 | 1 << 46 | swizzle << 61))
            block.known[key] = result
        register = block.known[key]
        assert isinstance(register, Register)
        return register

    def tensor_address(self, holder: Address, column: Int = 0) -> Register:
        """A tensor-memory address: what ``tcgen05.alloc`` wrote to ``holder``, plus columns."""
        (base,) = self.load(holder, 32)
        expr = as_expr(column)
        if not expr.terms and expr.const == 0:
            return base
        result = self.reg("b32")
        self.instr("add.s32", result, base, self.value(column) if expr.terms else expr.const)
        return result

    def tcgen05_alloc(self, holder: Address, columns: int, cta_group: int = 1) -> None:
        """``tcgen05.alloc`` by one whole warp: 32 to 512 columns, a power of two; the address goes to ``holder``."""
        self._check_columns(columns, cta_group)
        group = f"cta_group::{cta_group}"
        self.instr(f"tcgen05.alloc.{group}.sync.aligned.shared::cta.b32", holder, columns)
        self.instr(f"tcgen05.relinquish_alloc_permit.{group}.sync.aligned")

    def tcgen05_dealloc(self, address: Register, columns: int, cta_group: int = 1) -> None:
        """``tcgen05.dealloc`` by the warp that allocated."""
        self._check_columns(columns, cta_group)
        self.instr(f"tcgen05.dealloc.cta_group::{cta_group}.sync.aligned.b32", address, columns)

    def _check_columns(self, columns: int, cta_group: int) -> None:
        if columns not in (32, 64, 128, 256, 512):
            raise PtxError(f"tensor memory is allocated in 32, 64, 128, 256 or 512 columns, not {columns}")
        if cta_group not in (1, 2):
            raise PtxError(f"cta_group is 1 or 2, not {cta_group}")

    def tcgen05_cp(self, address: Register, descriptor: Register, cta_group: int = 1) -> None:
        """``tcgen05.cp.32x128b.warpx4``: 32 rows of 16 bytes to four columns, repeated in all four warps' lanes."""
        if descriptor.type != "b64" or address.type != "b32":
            raise PtxError(f"tcgen05.cp takes a 32-bit address and a 64-bit descriptor, not {address}, {descriptor}")
        self.instr(f"tcgen05.cp.cta_group::{cta_group}.32x128b.warpx4", f"[{address}]", descriptor)

    def tcgen05_commit(self, barrier: Address, cta_group: int = 1) -> None:
        """Let an mbarrier count one arrival when the thread's earlier tcgen05 operations are done."""
        self._check_aligned("mbarrier", barrier, 8)
        operation = f"tcgen05.commit.cta_group::{cta_group}.mbarrier::arrive::one.shared::cluster.b64"
        self.instr(operation, barrier)

    def tcgen05_fence(self, *, after: bool) -> None:
        """``tcgen05.fence``: after a thread synchronisation that ordered tcgen05 work, or before one that will."""
        self.instr(f"tcgen05.fence::{'after' if after else 'before'}_thread_sync")

    def tcgen05_ld(self, registers: Sequence[Register], address: Register) -> None:
        """``tcgen05.ld.32x32b``: lane ``l`` of warp ``w`` reads row ``32 * (w % 4) + l``, one column a register."""
        count = len(registers)
        if count not in (1, 2, 4, 8, 16, 32, 64, 128):
            raise PtxError(f"tcgen05.ld.32x32b reads a power of two of columns up to 128, not {count}")
        warp = self.value(self.tid // 32 % 4) if as_expr(self.tid).terms else 0
        at = self.reg("b32")
        self.instr("mad.lo.s32", at, warp, 32 << 16, address) if warp != 0 else self.instr("mov.b32", at, address)
        braces = "{" + ", ".join(map(str, registers)) + "}"
        self.instr(f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32", braces, f"[{at}]")

    def tcgen05_wait_ld(self) -> None:
        """Wait until this thread's ``tcgen05.ld`` are done; their registers may be read after it."""
        self.instr("tcgen05.wait::ld.sync.aligned")


def _hint(address: Address, streaming: bool) -> str:
    return ".L1::no_allocate" if streaming and address.space == "global" else ""


def _braced(registers: Sequence[Register]) -> str:
    if len(registers) == 1:
        return str(registers[0])
    return "{" + ", ".join(map(str, registers)) + "}"
