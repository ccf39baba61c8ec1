"""mbarriers of a kernel: objects in shared memory that count arrivals and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..errors import RequestError
from ..expr import Int
from ..memory import Buffer, Region
from ..ptx import MBARRIER_TX_LIMIT, Address, PtxBuilder
from .statements import Action, element_offset

if TYPE_CHECKING:
    from .builder import KernelBuilder


@attrs.frozen(eq=False)
class Mbarrier:
    """One or more mbarriers; ``barrier[i]`` is the one that a copy's ``mbar=`` names.

    Every method is executed by each thread that reaches it: put ``init`` and ``arrive_expect_tx`` inside an ``if_``.
    """

    _kernel: KernelBuilder
    buffer: Buffer

    def __getitem__(self, index: Int) -> Region:
        """One of the barriers."""
        return self.buffer[index]

    def _act(self, method: str, index: Int, *args: object, **keywords: object) -> None:
        element = self.buffer[index]

        def write(ptx: PtxBuilder) -> None:
            getattr(ptx, method)(barrier_address(ptx, element), *args, **keywords)

        self._kernel._append(Action(write))

    def init(self, count: int = 1, index: Int = 0) -> None:
        """Start phase 0 with ``count`` arrivals a phase; then ``fence_mbarrier_init`` and a barrier."""
        if not 1 <= count < 2**20:
            raise RequestError(f"mbarrier {self.buffer.name}: a phase counts 1 to {2**20 - 1} arrivals, not {count}")
        self._act("mbarrier_init", index, count)

    def arrive(self, index: Int = 0) -> None:
        """Arrive once."""
        self._act("mbarrier_arrive", index)

    def arrive_expect_tx(self, nbytes: int, index: Int = 0) -> None:
        """Announce the bytes that copies will complete in this phase, and arrive once.

        Raises:
            RequestError: more bytes than a phase can count (2**20 - 1).
        """
        if not 0 < nbytes <= MBARRIER_TX_LIMIT:
            raise RequestError(
                f"mbarrier {self.buffer.name}: one phase counts 1 to {MBARRIER_TX_LIMIT} bytes, not {nbytes}; "
                "split the copies over several phases or barriers"
            )
        self._act("mbarrier_arrive_expect_tx", index, nbytes)

    def wait(self, parity: Int, index: Int = 0, *, cluster: bool = False) -> None:
        """Wait until the phase of a parity (0 for the first) has completed.

        Args:
            parity: 0 or 1, or a symbolic integer that is.
            index: which barrier.
            cluster: acquire at cluster scope, when threads of another CTA arrive on it.
        """
        self._act("mbarrier_wait", index, parity, cluster=cluster)


def barrier_address(ptx: PtxBuilder, element: Region) -> Address:
    """The address of one mbarrier."""
    return ptx.address(element.buffer, element_offset(element))
