"""The answers of a variant in another process: ``python -m tilecopy_testkit.variant_process`` reads cases from standard input."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import tilecopy as tc

from .copy_case import CopyCase
from .hook_audit import snapshot
from .properties import build_kernel, decision_of, request_of
from .variant_under_test import OPTIONS, VariantUnderTest


def reference_of(plugin: Any) -> str | None:
    """Return a text that names a plugin for another process: a variant's name, ``MODULE:`` or ``MODULE:NAME``; or None."""
    if isinstance(plugin, str):
        return plugin
    if isinstance(plugin, ModuleType):
        return f"{plugin.__name__}:"
    module = type(plugin).__module__
    values = vars(sys.modules[module]) if module in sys.modules else {}
    return next((f"{module}:{name}" for name, value in values.items() if value is plugin), None)


def answer(subject: VariantUnderTest, case: CopyCase) -> dict[str, str]:
    """Return the reason to decline a case, or its partition and PTX, as texts."""
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
    """Return the answers to cases, computed in their order, by the key of each case."""
    return {case.key: answer(subject, case) for case in cases}


def answers_elsewhere(
    subject: VariantUnderTest, cases: Sequence[CopyCase], hash_seeds: Sequence[int]
) -> list[dict[str, dict[str, str]]] | None:
    """Return the answers to the reversed cases from one process per hash seed, or None if no other process can find the plugin."""
    reference = reference_of(subject.plugin)
    if reference is None:
        return None
    makers = {name: make for name, make in subject.options.items() if name not in OPTIONS}
    try:
        asked = pickle.dumps((reference, makers, dict(subject.arguments), cases[::-1]))
    except Exception:  # a maker may be a function that no other process finds
        return None
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tilecopy_testkit.variant_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        )
        for hash_seed in hash_seeds
    ]
    streams = [process.communicate(pickle.dumps(sys.path) + asked, timeout=120) for process in started]
    for process, (_, errors) in zip(started, streams, strict=True):
        if process.returncode:
            raise tc.PluginError(f"another process cannot run {reference}: {errors.decode().strip().splitlines()[-1]}")
    return [json.loads(output.splitlines()[-1]) for output, _ in streams]


def main() -> None:
    """Print the answers to the cases that are read from standard input."""
    sys.path[:] = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that asks
    reference, options, arguments, cases = pickle.load(sys.stdin.buffer)  # noqa: S301
    plugin = resolve_name(reference) if ":" in reference else reference
    print(json.dumps(answers(VariantUnderTest.of(plugin, options=options, arguments=arguments), cases)))


if __name__ == "__main__":
    main()
