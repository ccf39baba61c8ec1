"""The lock that a process holds while it imports modules or loads plugins and kernels. A fork waits for the lock."""

import os
import threading

LOCK = threading.RLock()
"""Held while plugins, kernels or the driver are loaded, and around imports inside functions. A fork waits for it; otherwise the
child could wait forever for a lock that a thread of the parent held. It is a single lock, because a fork that takes two in turn
could deadlock."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
