"""The lists of mutants fit the source, have results, and explain what survived (`mutation.py` runs them)."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from pathlib import Path

import pytest
from mutation import OUTCOMES, ROOT, Mutant, digests, mutants, read_results, report, stale

LISTED = mutants()
RESULTS = read_results()
AREAS = ("layout", "expressions", "partition", "ptx", "launch", "variants", "emulator")
SMALL_AREAS = ("command", "export", "registry", "builder")


def test_there_are_at_least_300_and_enough_an_area() -> None:
    count = Counter(mutant.area for mutant in LISTED)
    assert len(LISTED) >= 300
    assert all(count[area] >= 35 for area in AREAS), count
    assert all(count[area] >= 12 for area in SMALL_AREAS), count


def test_no_id_and_no_fault_stands_twice() -> None:
    assert len({mutant.id for mutant in LISTED}) == len(LISTED)
    assert len({(mutant.file, mutant.applied((ROOT / mutant.file).read_text())) for mutant in LISTED}) == len(LISTED)


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in LISTED}))
def test_every_fault_of_a_file_applies_and_is_python(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    sound = ast.dump(ast.parse(text))
    for mutant in LISTED:
        if mutant.file == file:
            assert ast.dump(ast.parse(mutant.applied(text))) != sound, mutant.id


@pytest.mark.parametrize("test", sorted({test for mutant in LISTED for test in (*mutant.tests, *mutant.wide)}))
def test_the_named_tests_exist(test: str) -> None:
    path, _, name = test.partition("::")
    assert (ROOT / path).exists()
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8") if name else True


def test_every_mutant_has_tests_and_a_result_and_nothing_else_has() -> None:
    assert all(mutant.tests for mutant in LISTED)
    assert set(RESULTS) == {mutant.id for mutant in LISTED}
    assert {found["outcome"] for found in RESULTS.values()} <= set(OUTCOMES)


def test_95_percent_die_and_each_survivor_is_explained() -> None:
    survived = [mutant for mutant in LISTED if RESULTS[mutant.id]["outcome"] == "survived"]
    assert len(survived) <= 0.05 * len(LISTED)
    assert [mutant.id for mutant in survived if not mutant.survives] == []
    assert [m.id for m in LISTED if m.survives and RESULTS[m.id]["outcome"] != "survived"] == []


def test_results_are_of_the_code_as_it_is() -> None:
    """Reported here, and an error in a release (`mutation.py --check`): a change of code should not wait for its mutants."""
    if old := stale(LISTED, RESULTS):
        pytest.xfail(
            f"{len(old)} results are of other code; nox -s mutants -- --stale finds them anew: {', '.join(old)}"
        )


def test_a_result_goes_stale_with_its_function_and_its_test_alone(tmp_path: Path) -> None:
    mutant = Mutant("a-01", "a", "a.py", "x + 1", "x - 1", ("t.py",), ())
    code = "def f(x):\n    return x + 1\n\ndef g(x):\n    return x\n"
    test = "from a import f\nN = 3\ndef test_f():\n    assert f(N) == 4\ndef test_g():\n    pass\n"
    files = {"a.py": code, "t.py": test}
    number = itertools.count()

    def recorded(outcome: str = "killed", **changes: tuple[str, str]) -> dict[str, str]:
        folder = tmp_path / str(next(number))
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text.replace(*changes.get(name[0], ("", ""))))
        return digests(mutant, {"outcome": outcome, "by": "t.py::test_f[a::b]"}, folder)

    first = recorded()
    assert recorded(a=("return x + 1", "# why\n    return (x + 1)"), t=("pass", "assert f(1)")) == first
    assert recorded(a=("return x\n", "return x, 1\n")) == first
    assert recorded(a=("return x + 1", "return 2 * x + 1"))["code"] != first["code"]
    assert recorded(t=("N = 3", "N = 2 + 1"))["evidence"] != first["evidence"]
    whole = recorded("survived")
    assert whole["code"] == first["code"] and recorded("survived", t=("pass", "assert f(1)")) != whole


def test_an_old_text_that_is_not_there_once_is_an_error() -> None:
    mutant = Mutant("a-01", "a", "a.py", "x = 1", "x = 2", ("t.py",), ())
    assert mutant.applied("x = 1\ny = 3\n") == "x = 2\ny = 3\n"
    for text in ("y = 3\n", "x = 1\nx = 1\n"):
        with pytest.raises(ValueError, match="a-01: the old text occurs"):
            mutant.applied(text)


def test_the_report_counts() -> None:
    alive = Mutant("a-01", "a", "a.py", "x", "y", ("t.py",), (), survives="no test can tell")
    dead = Mutant("a-02", "a", "a.py", "y", "x", ("t.py",), ())
    text = report([alive, dead], {"a-01": {"outcome": "survived"}, "a-02": {"outcome": "timeout"}})
    assert "| a | 2 | 1 | 1 | 1 | 0 |" in text and "a-01 (a.py) survived: no test can tell" in text


def test_the_runner_copies_no_version_control_nor_caches(tmp_path: Path) -> None:
    from mutation import _IGNORED

    assert {".git", ".nox", "__pycache__", ".pytest_cache"} <= _IGNORED(
        str(tmp_path), [".git", ".nox", "__pycache__", ".pytest_cache", "src"]
    )
