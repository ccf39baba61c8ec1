"""Memory accesses (state space, size, semantics, scope), and the bit fields of addresses.

The upper bits of a generic address select its state space: each array and module variable has a window of ``2**WINDOW_BITS``
bytes, and shared and local memory have one each below them. Shared addresses are ``rank << RANK_BITS | base + offset``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import attrs
import numpy as np
from attrs.validators import in_
from tilecopy import HazardError

from .shadow import CLUSTER, CTA, GPU, SYS, WEAK, strength

WINDOW_BITS = 44
RANK_BITS = 24
RANK_MASK = (1 << RANK_BITS) - 1
TENSOR_CELLS = 128 * 512
"""The number of words of tensor memory per CTA."""
SHARED_WINDOW = 1 << 40
LOCAL_WINDOW = 2 << 40
WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
"""NumPy types by size, used only to move bytes."""
SPACES = ("", "global", "const", "param", "shared", "shared::cta", "shared::cluster", "local")
SHARED, LOCAL, REGISTER = 1, 2, 3
"""Kinds of origins of undefined values; an *origin* is ``kind << 60 | instruction << 32 | byte``, or the register's number for the byte."""
STACK, STACK_BYTES = "the stack", 1 << 14
"""The name and size of the stack for ``alloca`` in each thread's local memory."""
SEMANTICS = ("weak", "relaxed", "acquire", "release", "acq_rel")
SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "sys": SYS}


def at_rank(addresses: Any, rank: int) -> Any:
    """Move shared-memory addresses to the CTA with rank ``rank`` in the cluster. Rank -1 changes nothing."""
    if rank < 0:
        return addresses
    return (np.asarray(addresses).astype(np.uint64) & np.uint64(RANK_MASK)) | np.uint64(rank << RANK_BITS)


def bytes_of(name: str, first: int, size: int = 1) -> str:
    """Return the name that messages use for bytes of a variable, for example ``x bytes 4 to 7``."""
    return f"{name} byte {first}" if size == 1 else f"{name} bytes {first} to {first + size - 1}"


class IntraWarpConflict(Exception):  # noqa: N818 (never leaves this module)
    """Raised if lanes of a warp write the same bytes in one instruction. The caller allows it if all values are equal.

    Attributes:
        error: the hazard.
    """

    def __init__(self, error: HazardError) -> None:
        super().__init__()
        self.error = error


@attrs.frozen(eq=False)
class Scan:
    """An associative atomic operation. A prefix scan computes all updates of one address together.

    ``operation``: of two values; ``dtype``: of the computation; ``identity``: the identity element.
    """

    operation: np.ufunc
    dtype: Any
    identity: Any

    def __call__(self, update: Any, places: Any, rows: Any, columns: Any, fetch: Any) -> tuple[Any, Any, Any, Any]:
        """Return the results of updates.

        ``update``: see :meth:`Machine.atomic`; ``places``: of the updates, with equal places next to each other;
        ``rows``: lanes of the updates, shape ``(updates, copies)``; ``columns``: their copies, of the same shape;
        ``fetch``: returns the bits of different places, of shape ``(places, copies)``.

        Returns:
            The bits before and after each update; the distinct places, and their final bits.
        """
        order = np.argsort(places, kind="stable")
        inside, positions = places[order], np.arange(len(places))
        start = np.concatenate([[True], inside[1:] != inside[:-1]])
        rank = positions - np.maximum.accumulate(np.where(start, positions, 0))
        old = fetch(inside[start])
        identity = np.full(rows.size, self.identity, self.dtype).view(old.dtype)
        operands = new_values(update, identity, rows[order].ravel(), columns[order].ravel()).reshape(rows.shape)
        values = operands.view(self.dtype).copy()
        values[start] = self.operation(old.view(self.dtype), values[start])
        distance, longest = 1, int(rank.max())
        while distance <= longest:
            later = positions[rank >= distance]
            values[later] = self.operation(values[later - distance], values[later])
            distance *= 2
        before, after = np.empty_like(operands), np.empty_like(operands)
        after[order] = values.view(old.dtype)
        first = np.empty_like(operands)
        first[start] = old
        first[~start] = values.view(old.dtype)[positions[~start] - 1]
        before[order] = first
        last = np.concatenate([start[1:], [True]])
        return before, after, inside[last], values.view(old.dtype)[last]


@attrs.frozen
class AccessKind:
    """A frozen record of how an instruction accesses memory: its state space, size, semantics and scope.

    ``space``: ``""`` (generic), ``global``, ``const``, ``param``, ``shared``, ``shared::cluster`` or ``local``;
    ``bytes``: of one lane's access, and its alignment; ``semantics``: ``weak``, ``relaxed``, ``acquire``, ``release``
    or ``acq_rel``; ``scope``: of a strong access: ``cta``, ``cluster``, ``gpu`` or ``sys``; ``volatile``: relaxed, of
    system scope; ``dtype``: of an atomic's operands; ``read_only``: ``.nc``: the bytes must not be written while the
    kernel runs; ``exchange``: an atomic that replaces a value (``exch``, ``cas``), as used for locks; ``scan``: computes
    several updates of one place by an atomic together, or None.
    """

    space: str = attrs.field(validator=in_(SPACES))
    bytes: int
    semantics: str = attrs.field(default="weak", validator=in_(SEMANTICS))
    scope: str = attrs.field(default="gpu", validator=in_(SCOPES))
    volatile: bool = False
    dtype: Any = None
    read_only: bool = False
    exchange: bool = False
    scan: Scan | None = attrs.field(default=None, eq=False)

    @cached_property
    def strength(self) -> int:
        """The strength of the access (see shadow.py): an integer for scope and size, or 0 for an ordinary access."""
        return strength(self.reach, self.bytes) if self.reach else WEAK

    @property
    def reach(self) -> int:
        """The scope of a strong access (see shadow.py), or 0 for an ordinary access."""
        if self.volatile:
            return SYS
        return WEAK if self.semantics == "weak" else SCOPES[self.scope]

    @property
    def releases(self) -> bool:
        """True if the access has release semantics."""
        return self.semantics in ("release", "acq_rel")

    @property
    def acquires(self) -> bool:
        """True if the access has acquire semantics."""
        return self.semantics in ("acquire", "acq_rel")


def in_turn(places: Any, compute: Callable[[Any], tuple[Any, Any]]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield an atomic's accesses in groups that change each address at most once: indices, old values and new values.

    Accesses that change nothing, and the first one that does, see the same value and share a group.

    ``places``: one per access; ``compute``: from positions of accesses to the old values, and the new value of each access alone.
    """
    order = np.argsort(places, kind="stable")
    inside, numbers = places[order], np.arange(len(places))
    start = np.concatenate([[True], inside[1:] != inside[:-1]])
    rank = np.empty(len(places), np.int64)
    rank[order] = numbers - np.maximum.accumulate(np.where(start, numbers, 0))
    by_rank, ends = np.argsort(rank, kind="stable"), [0, *np.cumsum(np.bincount(rank)).tolist()]
    turn, many = 0, 1
    while turn < len(ends) - 1:
        end = min(turn + many, len(ends) - 1)
        part = by_rank[ends[turn] : ends[end]]
        old, new = compute(part)
        if old.tobytes() == new.tobytes():
            many *= 4
        elif many > 1:
            changed = (old.view(np.uint8) != new.view(np.uint8)).ravel()
            end, many = bisect_right(ends, ends[turn] + int(changed.argmax()) * len(part) // len(changed)), 1
        done = ends[end] - ends[turn]
        yield part[:done], old[:done], new[:done]
        turn = end


def new_values(update: Any, old: Any, rows: Any, columns: Any) -> Any:
    """Return the values that an atomic operation stores, as a 1-D array with the length and type of ``old``."""
    new = np.broadcast_to(np.asarray(update(old, rows, columns)), old.shape)
    return np.ascontiguousarray(new if new.dtype == old.dtype else new.astype(old.dtype))
