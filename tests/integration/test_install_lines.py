"""The install lines of the docs and of messages name packages that are there, and all that these require; `nox -s install` runs them."""

from __future__ import annotations

import pytest
from install_lines import Line, faults, in_text, lines, strings
from tilecopy.catalog import KNOWN_EXECUTORS

from tilecopy_partitions.catalog import KNOWN_VARIANTS

LINES = lines()


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.where}-{line.command}")
def test_a_line_works_from_a_checkout(line: Line) -> None:
    assert faults(line) == []


def test_every_place_is_looked_through() -> None:
    """Each page and message that is known to install something; what is new is found without a word here."""
    found = {(line.where.partition(":")[0], line.beside) for line in LINES}
    pages = {"README.md", "docs/plugins.md", "docs/tutorial.md", "plugins/relayout/README.md"}
    assert {(page, "") for page in pages} <= found
    assert ("tilecopy_core/registry/lazy_names.py", "tilecopy-core") in found
    told = {line.command for line in LINES if line.where == "the table of packages"}
    assert len(told) == len({*KNOWN_EXECUTORS.values(), *(known.package for known in KNOWN_VARIANTS.values())})


def test_a_line_has_the_commands_of_its_block() -> None:
    (line,) = (line for line in LINES if line.where.startswith("docs/tutorial.md"))
    assert line.then[0].startswith("tilecopy new-variant my_bulk ")
    assert "pip install -e 'tilecopy-my-bulk[test]'" in line.then


@pytest.mark.parametrize(
    ("command", "beside", "fault"),
    [
        (
            "pip install plugins/relayout",
            "",
            "it requires tilecopy, tilecopy-core, tilecopy-gmem-smem, tilecopy-partitions, ",
        ),
        (
            "pip install . plugins/{partitions,kernel,emulator} 'plugins/testkit[campaign]'",
            "",
            "it requires tilecopy-cli, which",
        ),
        (
            "pip install . plugins/partitions 'plugins/kernel[emulator]'",
            "",
            "it requires tilecopy-emulator, which no index has",
        ),
        (
            "pip install plugins/export",
            "tilecopy-core",
            "it requires tilecopy, tilecopy-partitions, which no index has",
        ),
        ("pip install . plugins/numba", "", "plugins/numba is no package of the tree"),
        (
            "pip install . plugins/partitions 'plugins/kernel[gpu]'",
            "",
            "plugins/kernel[gpu]: tilecopy has no extra gpu",
        ),
        ("pip install tilecopy-cli", "tilecopy", "tilecopy-cli is on no index: name its folder"),
        ("pip install tilecopy-mine", "", "tilecopy-mine is on no index: name its folder"),
        ("pip install nvidia-nvjitlnk", "", "and uv.lock does not have it"),
    ],
)
def test_a_line_that_does_not_work_is_found(command: str, beside: str, fault: str) -> None:
    (found,) = faults(Line("README.md:1", command, beside))
    assert fault in found


def test_what_a_program_fills_in_is_no_line() -> None:
    source = 'raise E(f"{x} is missing: pip install plugins/{x}; (once: pip install " "plugins/reg)")'
    found = [line for text in strings(source) for line in in_text(text, "a.py")]
    assert found == [Line("a.py", "pip install plugins/reg")]
