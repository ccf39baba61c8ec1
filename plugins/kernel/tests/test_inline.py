"""PTX text of the user in a kernel: what a recorded text costs."""

from __future__ import annotations

import tracemalloc

import tilecopy as tc


def recorded_bytes(texts: int) -> int:
    """The memory that a kernel takes for so many texts, each of which declares a register."""
    k = tc.KernelBuilder("k", threads=32)
    tracemalloc.start()
    for number in range(texts):
        k.inline_ptx(f".reg .b32 y_{number}; mov.b32 y_{number}, 1;")
    taken_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken_bytes


def test_the_memory_of_recorded_texts_grows_with_their_number_alone() -> None:
    recorded_bytes(100)  # what is imported and cached at the first text
    assert recorded_bytes(1600) < 8 * recorded_bytes(400)
