"""The Python of README and docs runs, and prints what the block behind it says. TILECOPY_UPDATE_DOCS=1 rewrites those blocks."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("plugins/*/README.md"))]
OUTPUT = re.compile(r"\n*```text\n(.*?)```", re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
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
