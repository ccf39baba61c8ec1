"""What a caller does around an asynchronous copy: one step for each thing that can be left out.

The words are those of :attr:`tilecopy_core.Variant.completion`. A variant with a word of its own brings its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import attrs
import tilecopy as tc

from tilecopy_core.errors import TEXT, one_of, tuple_of

from .kinds import FUNCTION


class Kernel(Protocol):
    """What a step sees of the kernel around the copy."""

    @property
    def kernel(self) -> tc.KernelBuilder:
        """The builder."""

    @property
    def turn(self) -> Any:
        """The index of the loop around the copy, or 0."""

    @property
    def barrier(self) -> tc.Mbarrier:
        """The mbarrier that the copy's option ``mbar`` names."""

    def synchronize(self) -> None:
        """A barrier of the CTA, or of the cluster where there is one."""

    def commit_tensor(self) -> None:
        """``tcgen05.commit`` on the mbarrier, of the copy's CTAs."""

    def wait(self) -> None:
        """Wait for this turn's phase of the mbarrier."""

    def expect_bytes(self) -> None:
        """``arrive_expect_tx`` of all bytes that arrive at this CTA in one turn."""


@attrs.frozen
class Step:
    """One thing that the caller does.

    Attributes:
        name: what a finding calls it.
        when: ``before`` the copy or ``after`` it.
        who: ``all`` threads, or the ``issuer`` alone, in its block.
        write: records it.
        spaces: destinations for which it is done.
    """

    name: str = attrs.field(validator=TEXT)
    when: Literal["before", "after"] = attrs.field(validator=one_of("before", "after"))
    who: Literal["all", "issuer"] = attrs.field(validator=one_of("all", "issuer"))
    write: Callable[[Kernel], None] = attrs.field(validator=FUNCTION)
    spaces: tuple[str, ...] = attrs.field(
        default=("global", "shared", "local", "tmem"),
        validator=tuple_of(one_of("global", "shared", "local", "tmem")),
    )


FENCE = Step("fence_proxy_async", "before", "all", lambda around: around.kernel.fence_proxy_async())
BARRIER = Step("barrier", "after", "all", lambda around: around.synchronize(), ("shared",))

COMPLETIONS: dict[str, tuple[Step, ...]] = {
    "barrier": (BARRIER,),
    "cp_async_group": (
        Step("cp_async_commit", "after", "all", lambda around: around.kernel.cp_async_commit()),
        Step("cp_async_wait", "after", "all", lambda around: around.kernel.cp_async_wait(0)),
        BARRIER,
    ),
    "mbarrier": (
        FENCE,
        Step("arrive_expect_tx", "before", "issuer", lambda around: around.expect_bytes()),
        Step("wait", "after", "all", lambda around: around.wait()),
    ),
    "bulk_group": (
        FENCE,
        Step("bulk_commit", "after", "issuer", lambda around: around.kernel.bulk_commit()),
        Step("bulk_wait", "after", "issuer", lambda around: around.kernel.bulk_wait(0)),
        BARRIER,
    ),
    "tcgen05_commit": (
        FENCE,
        Step("tcgen05_commit", "after", "issuer", lambda around: around.commit_tensor()),
        Step("wait", "after", "all", lambda around: around.wait()),
    ),
    "wgmma_group": (
        Step("commit_group", "after", "all", lambda a: a.kernel.inline_ptx("wgmma.commit_group.sync.aligned;")),
        Step("wait_group", "after", "all", lambda a: a.kernel.inline_ptx("wgmma.wait_group.sync.aligned 0;")),
        BARRIER,
    ),
}
"""Completion -> its steps in order."""
