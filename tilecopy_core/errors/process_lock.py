"""The lock that serialises imports and loading in a process, and that a fork waits for."""

from __future__ import annotations

import os
import threading

LOCK = threading.RLock()
"""Held while plugins, kernels, the driver or, in a function, modules are loaded. A fork waits for it: else the child would wait for
a thread that it does not have, at this lock or a module's. It is one lock, since two that a fork takes in turn could each be held by
somebody who waits for the other."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
