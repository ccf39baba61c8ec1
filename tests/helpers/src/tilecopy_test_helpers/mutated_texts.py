"""Mutated PTX: texts with one change, drawn by a seed, to compare what the emulator refuses with what ptxas refuses."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tilecopy import TARGETS
from tilecopy.assemblers import assemble
from tilecopy.errors import AssemblerError
from tilecopy_emulator import UnsupportedPtxError, parse
from tilecopy_emulator.opcodes.table import compile_program

from .corpus import CASES, CLEAN

LISTED = {
    r"Unsupported \.version": "the text is of a newer compiler than this ptxas; the emulator runs it if it knows its instructions",
    r"died of SIGFPE": "ptxas crashes on some sizes of .reqntid and says nothing of the text",
    r"\(C7301\) Unexpected instrinsic param": "ptxas ends with an internal error; it takes the same instruction in other texts",
    r"Unknown video selector": "a register has the name of a special register's vector, such as %tid, and hides its elements",
    r"used in inlined_at directive": "ptxas wants line numbers in an order that changes nothing of what runs",
}
"""What ptxas says of texts that only it refuses, and why the emulator takes them."""
_TYPES = "pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 bf16 bf16x2 f32 f64".split()
_MODIFIERS = (
    "lo hi wide rn rz rm rp ftz sat sync aligned global shared local const param volatile relaxed acquire release cta cluster "
    "gpu sys v2 v4 eq ne lt gt lo ls and or xor to trans x1 x2 x4 nc ca cg uni approx full cc shared::cta shared::cluster"
).split()
_VALUES = "0 1 2 3 4 7 8 15 16 17 31 32 33 64 100 255 256 512 1024 4096 65535 65536 4294967295 4294967296 18446744073709551616 -1 -128 1.5 0f3F800000 0d3FF0000000000000 08 0x1G".split()
_DIRECTIVES = "version target address_size visible extern entry func reg shared global const local param align reqntid maxntid".split()
_OPCODES = "add sub mul mad ld st mov and or setp selp cvt bra ret exit bar atom red shl min div fma".split()
_TOKEN = re.compile(r"//[^\n]*|\"[^\"]*\"|[%$\w]+(?:::\w+)*|[^\s\w]|\s+")


def sources(folders: Iterable[Path] = ()) -> list[str]:
    """Return the texts of the corpus, those that nvcc made of its CUDA C++, and those in some folders."""
    texts = [case.correct().ptx for case in [*CASES, *CLEAN]]
    compiled_corpus = Path(__file__).parent / "corpus" / "cuda"
    files = [file for folder in (compiled_corpus, *folders) for file in sorted(folder.glob("*.ptx"))]
    compiled = [re.sub(r"\.version 9\.\d", ".version 9.0", file.read_text()) for file in files]
    return texts + [text for text in compiled if len(text) < 20_000]


def mutants(seed: int, count: int, folders: Iterable[Path] = ()) -> Iterator[tuple[str, str]]:
    """Yield ``(what was changed, text)``, each with one change; the files of some folders are changed too."""
    texts, draw = sources(folders), random.Random(seed)
    while count:
        text = draw.choice(texts)
        what, changed = draw.choice(_CHANGES)(text, draw)
        if changed != text:
            count -= 1
            yield what, changed


def _line(text: str, draw: random.Random) -> tuple[str, str]:
    lines = text.split("\n")
    at = draw.choice(
        [number for number, line in enumerate(lines) if line.strip() and not line.strip().startswith("//")]
    )
    kind = draw.choice(("drop", "double", "swap"))
    what = f"{kind} line {at + 1}: {lines[at].strip()}"
    if kind == "drop":
        del lines[at]
    elif kind == "double":
        lines.insert(at, lines[at])
    else:
        other = min(at + 1, len(lines) - 1)
        lines[at], lines[other] = lines[other], lines[at]
    return what, "\n".join(lines)


def _token(text: str, draw: random.Random) -> tuple[str, str]:
    """A token that is dropped, doubled, swapped with the next, or another of the text."""
    parts = _TOKEN.findall(text)
    places = [at for at, part in enumerate(parts) if part.strip() and not part.startswith("//")]
    at, other = draw.choice(places[:-1]), draw.choice(places)
    kind = draw.choice(("drop", "double", "swap", "replace"))
    what = f"line {''.join(parts[:at]).count(chr(10)) + 1}: {kind} {parts[at]}"
    if kind == "swap":
        other = places[places.index(at) + 1]
        parts[at], parts[other] = parts[other], parts[at]
    else:
        parts[at] = {"drop": "", "double": f"{parts[at]} {parts[at]}", "replace": parts[other]}[kind]
    return f"{what}, {parts[at]}", "".join(parts)


def _replaced(text: str, draw: random.Random, pattern: str, choices: list[str]) -> tuple[str, str]:
    """Another of some choices in place of a token of a pattern."""
    found = [match for match in re.finditer(pattern, text) if not _in_comment(text, match.start())]
    if not found:
        return "", text
    match = draw.choice(found)
    new = draw.choice(choices)
    start = text.rfind("\n", 0, match.start()) + 1
    changed = text[: match.start(1)] + new + text[match.end(1) :]
    number = text.count("\n", 0, start) + 1
    line = changed[start : changed.find("\n", start)].strip()
    return f"line {number}: {match[1]} -> {new}: {line}", changed


def _in_comment(text: str, at: int) -> bool:
    return "//" in text[text.rfind("\n", 0, at) + 1 : at]


def _type(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(text, draw, rf"\.({'|'.join(_TYPES)})\b", _TYPES)


def _modifier(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(text, draw, r"(?<=[a-z0-9])\.([a-z]\w*(?:::\w+)*)", _MODIFIERS)


def _added_modifier(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(text, draw, r"(?<=[a-z0-9])(\.)(?=[a-z])", [f".{part}." for part in _MODIFIERS + _TYPES])


def _dropped_modifier(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(text, draw, r"(?<=[a-z0-9])(\.[a-z]\w*(?:::\w+)*)", [""])


def _register(text: str, draw: random.Random) -> tuple[str, str]:
    names = sorted(set(re.findall(r"%\w+", text)))
    return _replaced(text, draw, r"(%\w+)", [*names, "%undeclared", "%tid.x", "%laneid", "_", "0", "1"])


def _immediate(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(text, draw, r"(?<![\w.%$])(\d\w*)", _VALUES)


def _operand(text: str, draw: random.Random) -> tuple[str, str]:
    names = sorted(set(re.findall(r"%\w+", text))) or ["0"]
    return _replaced(text, draw, r"(, *[^,;()\n]+)(?=[,;])", ["", f", {draw.choice(names)}, {draw.choice(names)}"])


def _opcode(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(text, draw, r"(?:^|\n|;)\s*(?:@\S+ )?([a-z]\w*)(?=\.)", _OPCODES)


def _directive(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(text, draw, rf"\.({'|'.join(_DIRECTIVES)})\b", _DIRECTIVES)


def _target(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(
        text, draw, r"\.target (\w+)", ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120", "sm_99"]
    )


def _version(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(
        text,
        draw,
        r"\.version ([\d.]+)",
        ["6.3", "7.0", "7.4", "7.8", "7.9", "8.0", "8.6", "8.8", "9.0", "8", "8.", "9.9"],
    )


def _punctuation(text: str, draw: random.Random) -> tuple[str, str]:
    return _replaced(text, draw, r"([][(){},;:+@!|])", ["", ";", ",", "{", "}", "[", "]", "+", "-", "!", "|"])


def _address(text: str, draw: random.Random) -> tuple[str, str]:
    names = sorted(set(re.findall(r"%\w+", text))) or ["0"]
    return _replaced(
        text,
        draw,
        r"(\[[^]\n]+\])",
        [draw.choice(names), f"[{draw.choice(names)}]", f"[{draw.choice(names)}+3]", "[0]", "[64]", "[nothing]"],
    )


_CHANGES = (
    _line, _line, _token, _token, _token, _type, _type, _modifier, _added_modifier, _dropped_modifier, _register, _register, _immediate, _operand,
    _opcode, _directive, _target, _version, _punctuation, _address,
)  # fmt: skip


def refused_by_emulator(text: str) -> str:
    """Why the emulator's reader and its table of instructions refuse a text, or an empty string."""
    entries = re.findall(r"\.entry\s+([\w$%]+)", text) if text.count(".entry") > 1 else [None]
    try:
        for entry in entries:
            compile_program(parse(text, entry))
    except UnsupportedPtxError as error:
        return str(error)
    return ""


def refused_by_ptxas(text: str) -> str:
    """The log of ptxas on a text that it refuses, or an empty string."""
    target = re.search(r"^\s*\.target\s+(sm_\d+[af]?)", text, re.MULTILINE)
    try:
        assemble(text, target[1] if target and target[1] in TARGETS else "sm_90a", "ptxas")
    except AssemblerError as error:
        return str(error)
    return ""


def differences(seed: int, count: int, folders: Iterable[Path] = ()) -> list[str]:
    """What was changed in each text that ptxas refuses and the emulator takes, and what ptxas says; those of :data:`LISTED` left out."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        taken = [(what, text) for what, text in mutants(seed, count, folders) if not refused_by_emulator(text)]
        logs = pool.map(refused_by_ptxas, (text for _, text in taken))
        found = [f"{what}\n{log}" for (what, _), log in zip(taken, logs, strict=True) if log]
    return [each for each in found if not any(re.search(listed, each) for listed in LISTED)]
