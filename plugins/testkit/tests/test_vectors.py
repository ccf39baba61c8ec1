"""Recorded launches: the emulator repeats them, and a difference or a refusal is a counterexample."""

from __future__ import annotations

import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions
from tilecopy_testkit import Counterexample, RecordedLaunch

SOURCE = bytes(range(128))


def copied(after: bytes, ptx: str = "") -> RecordedLaunch:
    """A launch of one warp that copies 128 bytes, with what was recorded after it."""
    k = tc.KernelBuilder("copied", threads=32)
    a, b = k.param("A", (128,), "uint8"), k.param("B", (128,), "uint8")
    words = k.local((4 * 32,), "uint8", layout=tc.TileLayout(tc.S[(32, 4) : (1 @ tc.laneid, 1)]), name="words")
    k.warp.copy(words[:], a[:])
    k.warp.copy(b[:], words[:])
    text = ptx or k.build(target="sm_90a", grid=1).ptx
    return RecordedLaunch("copied", text, 1, 32, (SOURCE, bytes(128)), (SOURCE, after), "a device")


def test_a_launch_that_gives_what_was_recorded_passes() -> None:
    copied(SOURCE).replay()


def test_the_first_byte_that_differs_is_named() -> None:
    changed = bytes([*SOURCE[:77], 200, *SOURCE[78:]])
    with pytest.raises(Counterexample, match=mentions(77, "0xc8", "0x4d")):
        copied(changed).replay()


def test_a_kernel_that_the_emulator_refuses_is_a_counterexample() -> None:
    text = copied(SOURCE).ptx.replace("ld.global", "ld.moon")
    with pytest.raises(Counterexample, match=mentions("copied", "moon")):
        copied(SOURCE, text).replay()
