"""What a process does once: under one lock, which no fork leaves held in the child."""

from __future__ import annotations

import os
import threading

LOCK = threading.RLock()
"""Held while plugins, kernels or the driver are loaded. A fork waits for it: else the child would wait for a thread that it
does not have, at a lock of ours or at that of a module that was being imported. It is one lock, since two that a fork takes
in turn could each be held by somebody who waits for the other."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
