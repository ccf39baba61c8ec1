"""The rendezvous at which the ranks of a group agree on a call, before any data moves.

Each rank posts a word with a digest of its arguments. If all words are equal, the call continues without a collective. A rank that
makes the call for the first time posts 0; then all ranks exchange their arguments as texts. The words are in a page of memory that
the ranks share, or, if the ranks are on several hosts, in the store of the group.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import torch.distributed as dist
from tilecopy import LaunchError

from ..arrays.torch_internals import store_of, timeout_of

_CALL = 0xFFFF
"""The bits of a word with the number of the call; the others have the digest."""
NEW = 0
"""The digest of a call that a rank makes for the first time."""
_SPIN_SECONDS, _NAP_SECONDS = 1e-3, 5e-3
"""The time that a rank polls without a pause, and the longest pause after that."""
_give_way: Callable[[], object] = getattr(os, "sched_yield", partial(time.sleep, 0))
"""Let another process have the CPU. A sleep of 0 seconds takes some 50 us on Linux."""


class Rendezvous:
    """The point where the ranks of a group agree on calls. All ranks must create their objects in the same order.

    If not all ranks are on one host, or ``shared`` is False, they exchange words through the store of the group. ``seconds`` is the
    timeout of a rank that waits for the others.

    Raises:
        LaunchError: another rank did not arrive in time.
    """

    def __init__(self, group: Any, *, shared: bool = True) -> None:
        store = store_of(group)
        self.rank, self.ranks = group.rank(), group.size()
        self.seconds = timeout_of(group).total_seconds()
        number = store.add(f"tilecopy/meetings/{self.rank}", 1)
        self._store = dist.PrefixStore(f"tilecopy/{number}", store)
        self._said, self._calls, self._broken = 0, 0, ""
        self._memory = self._shared_memory() if shared else None
        self.one_host = self._memory is not None
        for which in (0, 1):
            self._post(which, 0)
        self.all_gather_text("ready")

    def all_equal(self, digest: int) -> bool:
        """Wait until all ranks reach this call. Return True if all passed the same digest, other than :data:`NEW`."""
        self._check()
        self._calls += 1
        number = self._calls & _CALL
        # Two words per rank are enough, because a rank reaches the call after the next only when all have read this one.
        which, word = self._calls & 1, digest & ~_CALL & (1 << 64) - 1 | number
        self._post(which, word)
        started = time.monotonic()
        while True:
            words = self._words(which)
            absent = [rank for rank, posted in enumerate(words) if posted & _CALL != number]
            if not absent:
                return digest != NEW and all(posted == word for posted in words)
            waited = time.monotonic() - started
            if waited > self.seconds:
                raise self._timeout_error(absent)
            if waited < _SPIN_SECONDS:
                _give_way()
            else:
                time.sleep(min(waited / 10, _NAP_SECONDS))

    def all_gather_text(self, text: str) -> list[str]:
        """Send a string to all ranks, and return the strings in rank order. Every rank must make this call."""
        self._check()
        self._said += 1
        keys = [f"said/{self._said}/{rank}" for rank in range(self.ranks)]
        self._store.set(keys[self.rank], text)
        try:
            self._store.wait(keys, timedelta(seconds=self.seconds))
        except dist.DistStoreError:
            absent = [rank for rank, key in enumerate(keys) if not self._store.check([key])]
            raise self._timeout_error(absent) from None
        texts = [text.decode() for text in self._store.multi_get(keys)]
        with suppress(NotImplementedError, RuntimeError):  # all ranks have read the text of the previous call
            self._store.delete_key(f"said/{self._said - 1}/{self.rank}")
        return texts

    def _post(self, which: int, word: int) -> None:
        """Post one of two words of this rank. In shared memory, words are read and written atomically, so no lock is needed."""
        if self._memory is None:
            self._store.set(f"word/{which}/{self.rank}", str(word))
        else:
            self._memory[which, self.rank] = word

    def _words(self, which: int) -> list[int]:
        """Return that word of all ranks."""
        if self._memory is None:
            return [int(word) for word in self._store.multi_get([f"word/{which}/{rank}" for rank in range(self.ranks)])]
        words: list[int] = self._memory[which].tolist()
        return words

    def _check(self) -> None:
        if self._broken:
            raise LaunchError(f"{self._broken}; the ranks no longer make the same calls: create a new process group")

    def _timeout_error(self, absent: list[int]) -> LaunchError:
        ranks = ", ".join(map(str, absent))
        self._broken = (
            f"relayout_shards: rank {self.rank} timed out after {self.seconds:g} s waiting for rank {ranks} (world size {self.ranks}): "
            "it did not make this call, or it exited"
        )
        return LaunchError(self._broken)

    def _shared_memory(self) -> Any:
        """Return memory for two words of each rank, or None if a rank cannot open the file of the first rank."""
        with ExitStack() as stack:
            path, memory = "", None
            if self.rank == 0:
                folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  (memory, not a disk)
                with suppress(OSError):
                    prefix = f"tilecopy-{secrets.token_hex(8)}-"  # which no file of another host begins with
                    file = stack.enter_context(tempfile.NamedTemporaryFile(prefix=prefix, dir=folder))
                    file.truncate(16 * self.ranks)
                    path = file.name
            path = self.all_gather_text(path)[0]
            with suppress(OSError, ValueError):
                memory = np.asarray(np.memmap(path, np.uint64, "r+", shape=(2, self.ranks)))
            reached = self.all_gather_text("" if memory is None else "reached")
            return memory if all(reached) else None
