"""The answers of a variant in another process: ``python -m tilecopy_testkit.variant_process`` reads test cases from stdin.

The process stays until this one ends, because its start takes longer than the answers. It forks for each variant, so that none is
loaded when it answers for the next.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import tilecopy as tc

from .copy_case import CopyCase
from .hook_audit import snapshot
from .properties import build_kernel, decision_of, request_of
from .variant_under_test import OPTIONS, VariantUnderTest

MOST_SECONDS = 120
"""The time for a reply, after which the process ends."""


def reference_of(plugin: Any) -> str | None:
    """Return a plugin's name for another process, such as ``MODULE:NAME``. Return None if there is no such name."""
    if isinstance(plugin, str):
        return plugin
    if isinstance(plugin, ModuleType):
        return f"{plugin.__name__}:"
    module = type(plugin).__module__
    values = vars(sys.modules[module]) if module in sys.modules else {}
    return next((f"{module}:{name}" for name, value in values.items() if value is plugin), None)


def answer(subject: VariantUnderTest, case: CopyCase) -> dict[str, str]:
    """Return the reason to decline, or the partition and PTX, as strings. Return {} if dispatch skips the variant."""
    asked = request_of(subject, case)
    if asked is None:
        return {}
    decision = decision_of(subject, asked[1], case)
    if isinstance(decision, tc.Decline):
        return {"verdict": str(decision)}
    kernel = build_kernel(subject, case)
    return {"partition": _plain(snapshot(decision)), "text": "" if kernel is None else kernel.ptx}


def _plain(value: Any) -> str:
    """Return a snapshot as text without addresses of objects."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return str(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def answers(subject: VariantUnderTest, cases: Sequence[CopyCase]) -> dict[str, dict[str, str]]:
    """Return the answer to each test case, by the case's key. The variant answers in the order of ``cases``."""
    return {case.key: answer(subject, case) for case in cases}


def answers_elsewhere(
    subject: VariantUnderTest, cases: Sequence[CopyCase], hash_seeds: Sequence[int]
) -> list[dict[str, dict[str, str]]] | None:
    """Return the answers to the reversed cases per hash seed. Return None if no other process can import the plugin."""
    reference = reference_of(subject.plugin)
    if reference is None:
        return None
    makers = {name: make for name, make in subject.options.items() if name not in OPTIONS}
    try:
        question = pickle.dumps((reference, makers, dict(subject.arguments), cases[::-1]))
    except Exception:  # a maker may be a function that no other process finds
        return None
    processes = [_process(hash_seed) for hash_seed in hash_seeds]
    if not hasattr(os, "fork"):
        _process.cache_clear()  # they answer once
    for process in processes:
        pickle.dump((Path.cwd(), sys.path, question), process.stdin)
        process.stdin.flush()
    replies = [json.loads(process.stdout.readline() or '"it has ended"') for process in processes]
    for reply in replies:
        if isinstance(reply, str):
            raise tc.PluginError(f"another process cannot run {reference}: {reply}")
    return replies


@cache
def _process(hash_seed: int) -> Any:
    """Start a process with a hash seed. It reads questions and writes replies."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tilecopy_testkit.variant_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
    )
    atexit.register(process.communicate)
    return process


def _reply(folder: Path, path: list[str], question: bytes) -> Any:
    """Return the answers to a question, or the error that it raised."""
    try:
        os.chdir(folder)
        sys.path[:] = path
        reference, options, arguments, cases = pickle.loads(question)  # noqa: S301 - from the process that asks
        plugin = resolve_name(reference) if ":" in reference else reference
        return answers(VariantUnderTest.of(plugin, options=options, arguments=arguments), cases)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Read questions from standard input. Write one line of JSON for each: the answers, or an error message."""
    warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)  # this process starts no threads
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what plugins print is not a reply
    questions = os.fdopen(os.dup(0), "rb")
    while questions.peek(1):
        asked = pickle.load(questions)  # noqa: S301 - from the process that asks
        if hasattr(os, "fork") and (child := os.fork()):
            if status := os.waitpid(child, 0)[1]:
                print(json.dumps(f"it ended with status {status}"), file=replies, flush=True)
            continue
        if hasattr(signal, "alarm"):
            signal.alarm(MOST_SECONDS)
        print(json.dumps(_reply(*asked)), file=replies, flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
