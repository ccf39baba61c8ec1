"""Tests are not tied to the wording of messages, but for a few places; and what counts as a tie."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from message_ties import files_read, ties

MOST = 60


def test_few_tests_are_tied_to_the_wording_of_messages() -> None:
    found = [str(tie) for path in files_read() for tie in ties(path)]
    assert len(found) <= MOST, "\n".join(found)


@pytest.mark.parametrize(
    ("test", "tied"),
    [
        ('with pytest.raises(Error, match="the value 3 is odd"): copy(3)', ["the", "value", "is", "odd"]),
        ('with pytest.raises(Error, match=r"count \\d+"): copy(count=3)', []),
        ('with pytest.raises(Error, match=mentions("A", 3)): copy(3)', []),
        ('with pytest.raises(Error, match=mentions("odd")): copy("A")', ["odd"]),
        ('with pytest.raises(Error, match=mentions("odd")): copy("odd numbers")', []),
        ('with pytest.raises(Error, match="^sm_90 .*float16"): copy("x")', []),
        ('for name in ("rows", "columns"):\n    with pytest.raises(Error, match=name): copy(name)', []),
        ('for call, said in ((f, "odd"),):\n    with pytest.raises(Error, match=said): call()', ["odd"]),
        ('with pytest.raises(Error, check=is_hazard("race", "A")): copy()', []),
        ('with pytest.raises(Error, check=is_hazard("race", "odd")): copy()', ["odd"]),
        ('with pytest.raises(Error) as caught: copy()\nassert "odd" in str(caught.value)', ["odd"]),
        ('with pytest.raises(Error) as caught: copy()\nassert caught.value.kind == "race"', []),
        ('done = run("A")\nassert done.exit_code == 2 and "odd" in done.stderr', ["odd"]),
        ('done = run("A")\nassert done.exit_code == 2 and "odd" in done.output', ["odd"]),
        ('done = run("A")\nassert done.exit_code == 0 and "odd" in done.output', []),
    ],
)
def test_what_is_a_tie(test: str, tied: list[str], tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text("def test_it():\n" + textwrap.indent(test, "    "))
    assert [word for tie in ties(path) for word in tie.words] == tied
