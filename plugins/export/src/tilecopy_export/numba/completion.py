"""Numba functions that commit and await asynchronous copies, and that execute fences and barriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba.core.errors import TypingError
from numba.cuda import types
from numba.cuda.extending import intrinsic as _intrinsic
from tilecopy.kernel.instructions import SYNC

_WORD = ir.IntType(32)
_F = TypeVar("_F", bound=Callable[..., Any])


def intrinsic(definition: _F) -> _F:
    """Apply Numba's ``intrinsic`` to a definition. For type checkers, the definition keeps its type."""
    return cast("_F", _intrinsic(definition))


def _assembly(context: Any, builder: Any, text: str, values: list[Any]) -> Any:
    kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    constraints = ",".join([*["r"] * len(values), "~{memory}"])
    builder.call(ir.InlineAsm(kind, text, constraints, side_effect=True), values)
    return context.get_dummy_value()


def _of_nothing(text: str) -> Any:
    """Return the signature and the generator of an instruction without operands."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _assembly(context, builder, text, [])

    return types.void(), generate


def _of_barrier(text: str, kinds: tuple[Any, ...], name: str) -> Any:
    """Return the signature and the generator of an instruction on an mbarrier (an array or a shared address) and an integer."""
    barrier, number = kinds
    if not isinstance(barrier, (types.Array, types.Integer)) or not isinstance(number, types.Integer):
        raise TypingError(
            f"{name}: arguments must be an mbarrier and an integer, got {kinds}: pass the mbarrier as an array or a shared address"
        )
    if isinstance(barrier, types.Array) and barrier.dtype not in (types.int64, types.uint64):
        raise TypingError(f"{name}: an mbarrier array must have the dtype int64 or uint64, got {barrier}")

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = values[0]
        if isinstance(barrier, types.Array):
            data = context.make_array(barrier)(context, builder, value=place).data
            shared = builder.addrspacecast(data, ir.PointerType(data.type.pointee, 3))
            place = builder.ptrtoint(shared, _WORD)
        else:
            place = context.cast(builder, place, barrier, types.uint32)
        return _assembly(context, builder, text, [place, context.cast(builder, values[1], number, types.uint32)])

    return types.void(*kinds), generate


@intrinsic
def cp_async_commit(typingctx: Any) -> Any:
    """Commit this thread's ``cp.async`` copies as a group."""
    return _of_nothing(f"{SYNC['cp_async_commit']};")


@intrinsic
def cp_async_wait(typingctx: Any, pending: Any) -> Any:
    """Wait until at most ``pending`` ``cp.async`` groups of this thread are incomplete. ``pending`` is a constant."""
    if not isinstance(pending, types.IntegerLiteral) or not 0 <= pending.literal_value < 2**31:
        raise TypingError(f"cp_async_wait: pending must be a constant from 0 to 2**31 - 1, got {pending}")
    _, generate = _of_nothing(f"{SYNC['cp_async_wait']} {pending.literal_value};")
    return types.void(pending), generate


@intrinsic
def mbarrier_init(typingctx: Any, mbarrier: Any, count: Any) -> Any:
    """Initialise an mbarrier for ``count`` arrivals per phase. One thread calls this, then ``fence_mbarrier_init`` and a barrier."""
    return _of_barrier(f"{SYNC['mbarrier_init']} [$0], $1;", (mbarrier, count), "mbarrier_init")


@intrinsic
def mbarrier_arrive_expect_tx(typingctx: Any, mbarrier: Any, nbytes: Any) -> Any:
    """Add ``nbytes`` to the bytes that the current phase of an mbarrier expects from copies, and arrive once."""
    text = f"{SYNC['mbarrier_arrive_expect_tx']} _, [$0], $1;"
    return _of_barrier(text, (mbarrier, nbytes), "mbarrier_arrive_expect_tx")


@intrinsic
def mbarrier_wait(typingctx: Any, mbarrier: Any, parity: Any) -> Any:
    """Wait until the mbarrier's phase with this parity has completed. The first phase has parity 0."""
    text = f"{{ .reg .pred tc_p; $$wait: {SYNC['mbarrier_wait']} tc_p, [$0], $1; @!tc_p bra $$wait; }}"
    return _of_barrier(text, (mbarrier, parity), "mbarrier_wait")


@intrinsic
def fence_proxy_async(typingctx: Any) -> Any:
    """Order earlier generic-proxy accesses to shared memory before later async-proxy accesses (bulk copies)."""
    return _of_nothing(f"{SYNC['fence_proxy_async']};")


@intrinsic
def fence_mbarrier_init(typingctx: Any) -> Any:
    """Make the initialised mbarrier visible to the cluster. A barrier must follow this call."""
    return _of_nothing(f"{SYNC['fence_mbarrier_init']};")


@intrinsic
def cluster_sync(typingctx: Any) -> Any:
    """Execute a barrier for all threads of the cluster."""
    return _of_nothing(f"{SYNC['cluster_arrive']}; {SYNC['cluster_wait']};")
