"""Names and sentences of the product keep to the field's words: tests/tools/vocabulary.py counts what does not."""

from __future__ import annotations

import pytest
import vocabulary

PATHS = vocabulary.product_files()
pytestmark = pytest.mark.skipif(not PATHS, reason="this is no checkout")
MOST = {"values": 100, "participles": 25, "is-no": 25, "per": 5, "verbless": 5}
"""How many are left at most: operands are called left and right, and some participles are nouns of the field."""
SHARED_CLASSES = {
    "Block": "a stretch of PTX that is written, and bytes of an argument that hold addresses",
    "Fragment": "a matrix in the registers of some threads, for mma and for wmma",
    "Instruction": "an opcode's rule in the core, and an instruction of a program that the emulator runs",
    "Mbarrier": "the object that a kernel waits on, and its state on the emulator",
    "Memory": "where a buffer lies, and a memory operand of an instruction",
    "Operation": "an operation on integers, and an asynchronous operation on the emulator",
    "Parameter": "a parameter of a kernel that is built, and one of a PTX entry",
    "Scope": "the threads of a copy, and what names mean between two braces of PTX",
    "Swizzle": "the swizzle of a layout, and the mode in a matrix descriptor",
    "TensorMap": "the recipe of a tensor map, and the 128 bytes that the emulator reads",
}
"""Class names with two meanings, each with its reason."""


@pytest.mark.parametrize("kind", MOST)
def test_few_names_and_sentences_are_not_the_field_s(kind: str) -> None:
    listed = vocabulary.rows(kind, PATHS)
    assert len(listed) <= MOST[kind], listed


def test_a_class_name_has_one_meaning() -> None:
    repeated = vocabulary.repeated_classes(PATHS)
    assert not repeated.keys() - SHARED_CLASSES.keys(), repeated
