"""Running a program of the corpus, and holding what the emulator says against what it must say."""

from __future__ import annotations

import re
from typing import Any

import tilecopy as tc
from tilecopy_emulator import UnsupportedPtxError, run_ptx

from .model import Case, Text


def run(case: Case, text: Text, *, all_hazards: bool = False) -> list[Any]:
    """Run one text; returns its arguments."""
    arguments = case.arguments()
    run_ptx(
        text.ptx,
        arguments,
        grid=case.grid,
        block=case.block,
        cluster=case.cluster,
        dynamic_shared_bytes=case.dynamic,
        all_hazards=all_hazards,
    )
    return arguments


def verdict(case: Case, text: Text) -> str:
    """What is wrong with the emulator's answer to the faulty text, or "" ."""
    try:
        run(case, text)
    except tc.HazardError as error:
        return judge(case, text, error)
    except UnsupportedPtxError as error:
        if any("ptx" in kinds.split("|") for kinds in text.faults.values()):
            return _line_in(text, str(error))
        return f"refused: {error}"
    return "passed"


def _line_in(text: Text, message: str) -> str:
    found = {int(n) for n in re.findall(r"line (\d+)", message)}
    missing = [w for w in text.faults if w in found]
    return "" if missing else f"names line {sorted(found)}, not {sorted(text.faults)}: {message}"


def judge(case: Case, text: Text, error: tc.HazardError) -> str:
    """What a hazard leaves to be desired, or ""."""
    message = str(error)
    problems = []
    if error.line not in text.faults:
        problems.append(f"line {error.line} instead of {sorted(text.faults)}")
    elif error.kind not in text.faults[error.line].split("|"):
        problems.append(f"kind {error.kind!r} instead of {text.faults[error.line]!r}")
    named = {(int(t), int(c)) for t, c in re.findall(r"thread (\d+) of CTA \((\d+),", message)}
    for wanted in case.threads:
        who, _, cta = wanted.partition("@")
        low, _, high = who.partition("-")
        if not any(int(low) <= t <= int(high or low) and c == int(cta or 0) for t, c in named):
            problems.append(f"thread {wanted} is not named")
    if case.bytes and not _names_bytes(case.bytes, message):
        problems.append(f"bytes {case.bytes} are not named")
    for word in case.words:
        if not re.search(word, f"{message} {error.cause}"):
            problems.append(f"{word!r} is not said")
    if re.search(r"\n\s*in: copy", message):
        problems.append("names a copy that is not there")
    return f"{'; '.join(problems)}: {message}" if problems else ""


def _names_bytes(wanted: str, message: str) -> bool:
    name, low, high = re.fullmatch(r"(\w+) (-?\d+):(\d+)", wanted).groups()  # type: ignore[union-attr]
    for found, first, last in re.findall(r"(\w+) bytes? (-?\d+)(?: to (-?\d+))?", message):
        if found == name and int(first) < int(high) and int(last or first) >= int(low):
            return True
    return False
