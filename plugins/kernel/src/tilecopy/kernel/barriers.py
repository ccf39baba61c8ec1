"""The mbarriers of a kernel. An mbarrier is an object in shared memory that counts arrivals and bytes."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from tilecopy_core.errors import FLAG, RequestError, Validator, checked, frozen, integer_in, optional, short_repr
from tilecopy_core.integers import INT, Int, plain
from tilecopy_core.memory import Buffer, Region
from tilecopy_core.ptx import MBARRIER_TX_LIMIT, Address, PtxBuilder
from tilecopy_partitions import mapa

from .instructions import SYNC, mbarrier_arrive, mbarrier_wait
from .recording import Recorder
from .statements import Action
from .values import element_offset

_ARRIVALS = Validator(f"from 1 to {MBARRIER_TX_LIMIT} arrivals", integer_in(1, MBARRIER_TX_LIMIT).fits)


@frozen(eq=False)
class Mbarrier:
    """One or more mbarriers. Pass one of them, ``barrier[i]``, as ``mbar=`` of a copy.

    Each thread that reaches a method executes it. So put ``init`` and ``arrive_expect_tx`` inside an ``if_``.
    """

    _kernel: Recorder = attrs.field(repr=False)
    buffer: Buffer

    def __getitem__(self, index: Int) -> Region:
        """Return one of the barriers as a region.

        Raises:
            RequestError: the index is not an integer.
            LayoutError: the index is out of bounds.
        """
        index = plain(index)
        INT.check(index, f"mbarrier {self.buffer.name}", "index")
        element = self.buffer[index]
        self._kernel._is_reachable(element)
        return element

    def as_region(self) -> Region:
        """Return the first barrier. A copy uses this barrier if you pass the whole Mbarrier as ``mbar=``."""
        return self.buffer[0]

    def _record(self, name: str, index: Int, write: Callable[[PtxBuilder, Address], None]) -> None:
        element = self[index]
        self._kernel._check_region(element, f"mbarrier {self.buffer.name}: index of")
        self._kernel.record(Action(f"{self.buffer.name}.{name}", lambda ptx: write(ptx, barrier_address(ptx, element))))

    def init(self, count: int = 1, index: Int = 0) -> None:
        """Initialise an mbarrier for ``count`` arrivals per phase. Then call ``fence_mbarrier_init`` and ``cta_sync``.

        Raises:
            RequestError: ``count`` is not 1 to 2**20 - 1.
        """
        count = _ARRIVALS.check(count, f"mbarrier {self.buffer.name}", "count")
        self._record("init", index, lambda ptx, at: ptx.instr(SYNC["mbarrier_init"], at, count))

    @checked(cta_rank=optional(INT), relaxed=FLAG)
    def arrive(self, index: Int = 0, *, cta_rank: Int | None = None, relaxed: bool = False) -> None:
        """Arrive once at an mbarrier.

        Args:
            index: the number of the barrier.
            cta_rank: the CTA of the cluster that has the barrier (PTX ISA, ``mapa``); by default this CTA. That CTA waits with ``cluster=True``.
            relaxed: do not release this thread's writes (PTX ISA, ``.relaxed``; sm_90). This is enough if only
                asynchronous instructions read the memory. It saves a fence of the whole GPU in a cluster.
        """
        if cta_rank is not None:
            self._kernel._check_symbols(cta_rank, f"mbarrier {self.buffer.name}: cta_rank")

        def write(ptx: PtxBuilder, at: Address) -> None:
            mbarrier_arrive(ptx, at if cta_rank is None else mapa(ptx, at, cta_rank), relaxed=relaxed)

        self._record("arrive", index, write)

    def arrive_expect_tx(self, nbytes: int, index: Int = 0) -> None:
        """Add ``nbytes`` to the bytes that this phase expects from copies, and arrive once.

        Raises:
            RequestError: more bytes than a phase can count (2**20 - 1).
        """
        nbytes = plain(nbytes)
        if type(nbytes) is not int or not 0 < nbytes <= MBARRIER_TX_LIMIT:
            raise RequestError(
                f"mbarrier {self.buffer.name}: nbytes must be from 1 to {MBARRIER_TX_LIMIT} bytes, got {short_repr(nbytes)}; "
                "split the copies over several phases or barriers"
            )
        opcode = SYNC["mbarrier_arrive_expect_tx"]
        self._record("arrive_expect_tx", index, lambda ptx, at: ptx.instr(opcode, "_", at, nbytes))

    @checked(parity=INT, cluster=FLAG)
    def wait(self, parity: Int, index: Int = 0, *, cluster: bool = False) -> None:
        """Wait until the phase with this parity has completed. The first phase has parity 0.

        Args:
            parity: the number of the phase, taken modulo 2. An integer or a symbolic integer.
            index: the number of the barrier.
            cluster: acquire at cluster scope. Needed if threads of another CTA arrive on the barrier.
        """
        self._kernel._check_symbols(parity, f"mbarrier {self.buffer.name}: parity")
        self._record("wait", index, lambda ptx, at: mbarrier_wait(ptx, at, parity, cluster=cluster))


def barrier_address(ptx: PtxBuilder, element: Region) -> Address:
    """Return the address of one mbarrier."""
    return ptx.address(element.buffer, element_offset(element))
