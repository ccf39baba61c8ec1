"""What a caller does around an asynchronous copy: one step for each thing that can be left out.

The words are those of :attr:`tilecopy_core.Variant.completion`. A variant with a word of its own brings its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from .kernels import Around


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

    name: str
    when: Literal["before", "after"]
    who: Literal["all", "issuer"]
    write: Callable[[Around], None]
    spaces: tuple[str, ...] = ("global", "shared", "local", "tmem")


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
        Step("wait", "after", "all", lambda around: around.mbarrier.wait(around.turn % 2, cluster=around.clustered)),
    ),
    "bulk_group": (
        FENCE,
        Step("commit_group", "after", "issuer", lambda a: a.kernel.inline_ptx("cp.async.bulk.commit_group;")),
        Step("wait_group", "after", "issuer", lambda a: a.kernel.inline_ptx("cp.async.bulk.wait_group 0;")),
        BARRIER,
    ),
    "tcgen05_commit": (
        FENCE,
        Step("tcgen05_commit", "after", "issuer", lambda around: around.kernel.tcgen05_commit(around.mbarrier[0])),
        Step("wait", "after", "all", lambda around: around.mbarrier.wait(around.turn % 2)),
    ),
}
"""Completion -> its steps in order."""
