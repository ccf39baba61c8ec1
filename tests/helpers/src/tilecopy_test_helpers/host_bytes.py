"""A variant that reads its source's address from a parameter that each launch makes, of public names alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import tilecopy as tc

from tilecopy_core.plugin import Address, CopyRequest, Decline, PtxBuilder, Variant, Verdict, hookimpl, valid_copy
from tilecopy_partitions import HostBytes, first_failure, scope_in

made: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
"""What :func:`make` was called with."""


def make(addresses: tuple[int, ...], numbers: tuple[int, ...]) -> bytes:
    """A row's address, then how many there are."""
    made.append((addresses, numbers))
    rows, columns = numbers
    return (addresses[0] + 4 * columns * (rows - 1)).to_bytes(8, "little") + rows.to_bytes(8, "little")


def short(addresses: tuple[int, ...], numbers: tuple[int, ...]) -> bytes:
    """Too few bytes."""
    return b"123"


def text(addresses: tuple[int, ...], numbers: tuple[int, ...]) -> Any:
    """No bytes."""
    return "0123456789abcdef"


def broken(addresses: tuple[int, ...], numbers: tuple[int, ...]) -> bytes:
    """An error of its own."""
    raise KeyError(numbers[0])


FAULTS = {
    short: r"kernel last_row, parameter host\$0: short must return 16 bytes, got b'123'",
    text: r"kernel last_row, parameter host\$0: text must return 16 bytes, got '0123456789abcdef'",
    broken: r"kernel last_row, parameter host\$0: broken raised KeyError: 7",
}
"""Functions that do not keep the contract, and what a launch of seven rows says."""


@attrs.frozen
class Words:
    """One word a thread."""

    count: int

    def summary(self) -> str:
        """One line."""
        return f"{self.count} words of the last row, one a thread"


@attrs.frozen
class LastRow:
    """copy -> last_row: 32 words of the source's last row, whatever the region says (for tests alone)."""

    make: Callable[..., Any]
    arrays: tuple[tc.Buffer, ...] = ()
    more: tuple[tc.Int, ...] = ()
    variant = Variant(
        name="last_row", op="copy", priority=1, summary="the last row, by warps", spaces=(("global", "shared"),)
    )

    @hookimpl
    def tilecopy_predicate(self, request: CopyRequest) -> Verdict:
        """By a warp."""
        return first_failure(request, (scope_in("warp"), valid_copy))

    @hookimpl
    def tilecopy_partition(self, request: CopyRequest) -> Words | Decline:
        """A word a lane."""
        return Words(request.dst.size) if request.dst.size == 32 else Decline("not 32 words")

    @hookimpl
    def tilecopy_emit(self, request: CopyRequest, partition: Words, ptx: PtxBuilder) -> None:
        """The row's address out of the parameter."""
        source, lane = request.src.buffer, ptx.thread_index(request.scope)
        arrays, numbers = (source, *self.arrays), (*source.shape, *self.more)
        where = ptx.host_parameter(HostBytes(self.make, arrays, numbers, size_bytes=16, align_bytes=16))
        row, at = ptx.reg("b64"), ptx.reg("b64")
        ptx.instr("ld.b64", row, f"[{where}]")
        ptx.instr("mad.wide.u32", at, ptx.value(lane), 4, row)
        ptx.store(ptx.address(request.dst.buffer, lane, None), 32, ptx.load(Address("global", at, 0, 4), 32))


def registry(function: Callable[..., Any] = make, **more: Any) -> tc.Registry:
    """A registry of the variant alone."""
    found = tc.Registry([], {})
    found.register(LastRow(function, **more), name="last_row", package="acme-rows", version="1.2")
    return found


def last_row(function: Callable[..., Any] = make, **more: Any) -> tc.BuiltKernel:
    """The last row of A, of however many rows, goes to B; ``more`` are attributes of the variant."""
    k = tc.KernelBuilder("last_row", threads=32)
    rows = k.size("rows", upper=2**20)
    a, b, tile = k.param("A", (rows, 32), "float32"), k.param("B", (32,), "float32"), k.shared((32,), "float32")
    k.warp.copy(tile[:], a[0, :], variant="last_row")
    k.cta_sync()
    k.store(b[k.thread_id()], k.load(tile[k.thread_id()]))
    return k.build(target="sm_90", grid=1, registry=registry(function, **more))
