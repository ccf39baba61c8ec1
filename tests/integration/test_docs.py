"""The Python of README and docs runs, and prints what the block behind it says. TILECOPY_UPDATE_DOCS=1 rewrites those blocks."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from install_lines import Line, faults, installed_by
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from tilecopy_cli.builtin_commands import tilecopy
from tilecopy_testkit.command import new_variant

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("plugins/*/README.md"))]
OUTPUT = re.compile(r"\n*```text\n(.*?)```", re.S)


def test_what_a_property_says_is_no_type() -> None:
    napoleon = pytest.importorskip("sphinx.ext.napoleon", reason="the site is built by `nox -s docs`")
    lines = ["The least of them: what a thread has.", "", "More of it."]
    runpy.run_path(str(ROOT / "docs" / "conf.py"))["keep_colons"](None, "property", "Cost.least", None, None, lines)
    found = napoleon.GoogleDocstring(lines, napoleon.Config(), what="property", name="Cost.least").lines()
    assert "The least of them: what a thread has." in found and not [line for line in found if ":type:" in line]


def page_param(page: Path) -> object:
    """Return a page as a test's parameter; what uses Numba needs NVIDIA's packages."""
    marks = [pytest.mark.nvidia] if "tilecopy_export.numba" in page.read_text(encoding="utf-8") else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", [page_param(page) for page in PAGES])
def test_page(page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # The relative path, so that messages in the page name no checkout.
    document = Sybil(parsers=[PythonCodeBlockParser()]).parse(page.relative_to(ROOT))
    rewritten: list[tuple[int, int, str]] = []
    for example in document.examples():
        example.evaluate()
        printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()).rstrip("\n")
        said = OUTPUT.match(document.text, example.region.end)
        if said is None:
            assert not printed, f"{page}: a block prints and no text block follows: {printed}"
        elif os.environ.get("TILECOPY_UPDATE_DOCS"):
            rewritten.append((said.start(1), said.end(1), printed + "\n"))
        else:
            assert printed == said[1].rstrip("\n")
    text = document.text
    for start, end, new in reversed(rewritten):
        text = text[:start] + new + text[end:]
    if rewritten:
        page.write_text(text)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_pictures_are_those_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tilecopy_draw")
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    made = {f"{name}.svg": picture.svg for name, picture in importlib.import_module("pictures").pictures().items()}
    assert made == {path.name: path.read_text() for path in (ROOT / "docs" / "pictures").glob("*.svg")}


def test_charts_and_tables_of_figures_are_made_from_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    script = importlib.import_module("charts")
    assert script.charts() == {path: path.read_text() for path in (ROOT / "docs" / "charts").glob("*.svg")}
    for page in script.PAGES:
        assert script.page_with_tables(page.read_text()) == page.read_text(), page


BLOCK = re.compile(
    r"\*\*`([\w.]+)`\*\*\n\n```\w+\n(.*?)```|```console\n(tilecopy emulate .*?)\n```\n\n```text\n(.*?)```", re.S
)


@pytest.mark.nvidia
@pytest.mark.parametrize("name", ["docs/emulator.md", "docs/ci.md", "plugins/emulator/README.md"])
def test_the_emulator_s_pages(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their files and commands, in order, print what the page says."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    page = ROOT / name
    text = rewritten = page.read_text()
    for file, body, line, said in BLOCK.findall(text):
        if file:
            Path(file).write_text(body)
            continue
        with pytest.raises(SystemExit):
            tilecopy.main(shlex.split(line)[1:])
        printed = "".join(capsys.readouterr())
        if os.environ.get("TILECOPY_UPDATE_DOCS"):
            rewritten = rewritten.replace(f"{line}\n```\n\n```text\n{said}", f"{line}\n```\n\n```text\n{printed}")
        else:
            assert printed == said
    if rewritten != text:
        page.write_text(rewritten)


RUN = re.compile(r"^ +(?:- )?run: (.*)$", re.M)


@pytest.mark.nvidia
@pytest.mark.parametrize("fault", ["", "saxpy", "transpose", "histogram"])
def test_the_workflow_for_other_projects(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its steps run the sample's kernels, and the step of one with a planted fault fails with an annotation."""
    project = shutil.copytree(ROOT / "docs" / "examples" / "ci", tmp_path / "project")
    monkeypatch.chdir(project)
    install, *steps = RUN.findall((project / "hazards.yml").read_text())
    pip, folders = shlex.split(install)[:2], [Path(word.partition("[")[0]) for word in shlex.split(install)[2:]]
    assert pip == ["pip", "install"] and {folder.parts[0] for folder in folders} == {".tilecopy"}
    line = Line("hazards.yml", install.replace("./.tilecopy/", "").replace("./.tilecopy", "."))
    assert list(faults(line)) == [] and "tilecopy-emulator" in installed_by(line).ours
    kernel = project / "kernels" / f"{fault}.cu"
    if fault:
        text = kernel.read_text()
        faulty = text.replace("i < n)", "i <= n)") if fault == "saxpy" else text.replace("  __syncthreads();\n", "", 1)
        assert faulty != text
        kernel.write_text(faulty)
    assert len(steps) == 3
    for step in steps:
        with pytest.raises(SystemExit) as ended:
            tilecopy.main(shlex.split(step)[1:])
        printed = capsys.readouterr().out
        failed = bool(fault) and fault in step
        assert ended.value.code == int(failed), printed
        assert (f"::error file=kernels/{fault}.cu,line=" in printed) is failed


BULK = ROOT / "plugins" / "bulk"
STEP = re.compile(r"```(console)\n(.*?)```|\*\*`([\w./]+)`\*\*\n\n```(\w+)\n(.*?)```", re.S)


def command(line: str) -> None:
    """One line of a terminal, where it writes files."""
    words = shlex.split(line)
    if words[:2] == ["tilecopy", "new-variant"]:
        done = CliRunner().invoke(new_variant, words[2:])
        assert done.exit_code == 0, done.output
    elif words[0] == "cp":
        shutil.copy(*words[1:])
    else:
        assert words[0] in ("pip", "pytest") or words == ["tilecopy", "variants"], f"not understood: {line}"


def patched(text: str, diff: str) -> str:
    """A text after the hunks of a diff (with ``@@`` between), each of which fits one place."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        assert {line[0] for line in lines} <= set(" +-"), hunk
        before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        assert text.count(before) == 1, f"fits {text.count(before)} places:\n{before}"
        text = text.replace(before, after)
    return text


def renamed(text: str) -> str:
    """Return a text of the tutorial's package with the name of ours."""
    return re.sub("[Mm]y[_-]?([Bb]ulk)", r"\1", text)


def test_the_tutorial_writes_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands and blocks, in order, from the scaffold to plugins/bulk, whose name a package of a reader cannot have."""
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "tilecopy-my-bulk"
    for console, lines, name, language, body in STEP.findall((ROOT / "docs" / "tutorial.md").read_text()):
        if console:
            for line in lines.splitlines():
                command(line)
        else:
            path = package / name
            path.write_text(patched(path.read_text(), body) if language == "diff" else body)
            if path.suffix == ".py":
                compile(path.read_text(), path, "exec")
    names = {"pyproject.toml", "tests/test_suite.py"}
    names |= {str(path.relative_to(BULK)) for path in BULK.glob("src/**/*") if path.suffix in (".py", ".typed")}
    written = {renamed(str(path.relative_to(package))): path for path in package.rglob("*") if path.is_file()}
    for name in sorted(names):
        assert renamed(written[name].read_text()) == (BULK / name).read_text(), name
    assert set(written) == names | {"README.md", ".github/workflows/ci.yml"}
