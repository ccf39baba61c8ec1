"""Faults drawn from the syntax tree: which there are, which a seed draws, and that planted ones are found by the tests that reach them."""

from __future__ import annotations

import ast
from pathlib import Path

import mutation
import pytest
from drawn_faults import changed, places
from mutation import Fault

SOURCE = '''
"""A module."""
LIMIT = 3

class Box:
    size: int = 1

    @property
    def area(self) -> int:
        """Return the area."""
        assert self.size > 0
        return self.size * 2

def clamp(value: int, low: int) -> int:
    if value < low and low:
        raise ValueError(f"{value} < {low}")
    while value > LIMIT:
        value -= 1
    return max(value, low)

def label(value: int) -> str:
    print("label", value)
    return "box"

def unused() -> bool:
    return True
'''
CHANGES = {
    "Box.area:return-none:1": "return None",
    "Box.area:arithmetic:1": "return self.size + 2",
    "Box.area:more:1": "return self.size * 3",
    "clamp:compare:1": "if value <= low and low:",
    "clamp:boolean:1": "if value < low or low:",
    "clamp:negated:1": "if not (value < low and low):",
    "clamp:left-out:1": "pass",
    "clamp:arithmetic:1": "value += 1",
    "clamp:less:1": "value -= 0",
    "label:swapped:1": "print(value, 'label')",
    "label:left-out:1": "pass",
    "unused:constant:1": "return False",
}
FOUND = ("clamp:compare:2", "clamp:negated:1", "Box.area:more:1")


@pytest.mark.parametrize("name", CHANGES)
def test_a_fault_changes_one_line_of_a_function(name: str) -> None:
    tree, before, after = changed(SOURCE, name)
    assert after.strip() == CHANGES[name] != before.strip()
    assert len(ast.unparse(tree).splitlines()) == len(ast.unparse(ast.parse(SOURCE)).splitlines())


def test_each_place_has_a_name_and_changes_the_tree() -> None:
    names = [place.name for place in places(ast.parse(SOURCE))]
    assert len(set(names)) == len(names)
    trees = {ast.dump(changed(SOURCE, name)[0]) for name in names}
    assert len(trees) == len(names) and ast.dump(ast.parse(SOURCE)) not in trees


def test_annotations_messages_assertions_and_what_is_outside_functions_have_no_faults() -> None:
    names = {place.name.rsplit(":", 1)[0] for place in places(ast.parse(SOURCE))}
    assert {name.split(":")[0] for name in names} == {"Box.area", "clamp", "label", "unused"}
    assert "Box.area:compare" not in names  # of its assertion alone


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module and its tests, the last of which does not reach the first function."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "sample.py").write_text(SOURCE)
    (tmp_path / "test_sample.py").write_text(
        "from sample import Box, clamp, label\n"
        "def test_clamp():\n    assert clamp(2, 0) == 2 and clamp(5, 1) == 3\n"
        "def test_area():\n    assert Box().area == 2\n"
        "def test_label():\n    assert label(1)\n"
        "def test_fails():\n    assert clamp(2, 0) == 3\n"
    )
    return tmp_path


def test_a_seed_draws_the_same_faults_and_edits_elsewhere_keep_them(project: Path) -> None:
    def names(seed: str, count: int) -> list[str]:
        return [fault.name for fault in mutation.drawn("sample", project, count, seed)]

    before = names("1", 12)
    assert before == names("1", 12) and before[:4] == names("1", 4) and before != names("2", 12)
    (project / "sample.py").write_text("# moved\n\n" + SOURCE.replace('"box"', '"a box"'))
    assert names("1", 12) == before


def test_a_planted_fault_is_found_by_a_test_that_reaches_it_and_no_file_changes(project: Path) -> None:
    file = project / "test_sample.py"
    faults = [
        Fault("sample", str(project / "sample.py"), name) for name in (*FOUND, "label:swapped:1", "unused:constant:1")
    ]
    reach = mutation.reaching(file, faults, kit=False)
    tests = {fault.name: {test.split("::")[1] for test in reach[fault].tests} for fault in reach}
    assert tests == {
        FOUND[0]: {"test_clamp"},
        FOUND[1]: {"test_clamp"},
        FOUND[2]: {"test_area"},
        "label:swapped:1": {"test_label"},
    }
    finders = {fault.name: mutation.finder(fault, [reach[fault]]) for fault in faults if fault in reach}
    assert {name: test.split("::")[-1] for name, test in finders.items()} == {
        **dict.fromkeys(FOUND[:2], "test_clamp"), FOUND[2]: "test_area", "label:swapped:1": ""
    }  # fmt: skip
    assert (project / "sample.py").read_text() == SOURCE
    report = mutation.report(faults, {f: t for f, t in [(f, finders.get(f.name)) for f in faults] if t}, set(reach))
    assert "| sample | 5 | 3 | 0 | 1 |" in report


def test_a_test_that_hangs_finds_the_fault(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "HANG_CPU_SECONDS", 0.5)
    (project / "sample.py").write_text("def count(value):\n    while value:\n        value -= 1\n    return value\n")
    (project / "test_sample.py").write_text("import sample\ndef test_count():\n    assert sample.count(2) == 0\n")
    fault = Fault("sample", str(project / "sample.py"), "count:left-out:1")
    reach = mutation.reaching(project / "test_sample.py", [fault], kit=False)
    assert mutation.finder(fault, [reach[fault]]).startswith("hangs: ")
