"""The answers of a variant in another process: ``python -m tilecopy_testkit.process`` is asked on standard input."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tilecopy as tc

from .copy_case import CopyCase
from .hook_audit import snapshot
from .properties import build_kernel, request_of
from .variant_under_test import OPTIONS, VariantUnderTest, plugin_of, reference_of


def answer(subject: VariantUnderTest, case: CopyCase) -> dict[str, str]:
    """What each hook makes of a case, as texts: verdict, partition, PTX."""
    if (asked := request_of(subject, case)) is None:
        return {}
    request = asked[1]
    call, plugin = subject.registry.call, subject.registry_entry
    verdict = call(plugin, "tilecopy_predicate", request=request)
    if isinstance(verdict, tc.Decline):
        return {"verdict": str(verdict)}
    partition = call(plugin, "tilecopy_partition", request=request)
    texts = {"verdict": str(verdict), "partition": _plain(snapshot(partition))}
    kernel = build_kernel(subject, case)
    if kernel is not None:
        texts["text"] = kernel.ptx
    return texts


def _plain(value: Any) -> str:
    """A snapshot as text that does not depend on where objects lie in memory."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return str(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def answers(subject: VariantUnderTest, cases: Sequence[CopyCase]) -> dict[str, dict[str, str]]:
    """The answers by the key of each case, asked in this order."""
    return {case.key: answer(subject, case) for case in cases}


def answers_elsewhere(
    subject: VariantUnderTest, cases: Sequence[CopyCase], hash_seeds: Sequence[int]
) -> list[dict[str, dict[str, str]]] | None:
    """The answers of other processes with other hash seeds, asked in reverse order; None where they cannot find the plugin.

    Raises:
        PluginError: such a process fails.
    """
    reference = reference_of(subject.plugin)
    if reference is None:
        return None
    option_makers = {name: make for name, make in subject.options.items() if name not in OPTIONS}
    try:
        options = pickle.dumps((option_makers, dict(subject.arguments))).hex()
    except Exception:
        return None
    asked = {
        "plugin": reference,
        "path": sys.path,
        "options": options,
        "cases": [case.to_json() for case in reversed(cases)],
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tilecopy_testkit.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        )
        for hash_seed in hash_seeds
    ]
    streams = [process.communicate(json.dumps(asked), timeout=120) for process in started]
    for process, (_, errors) in zip(started, streams, strict=True):
        if process.returncode:
            raise tc.PluginError(f"another process cannot ask {reference}: {errors.strip().splitlines()[-1]}")
    return [json.loads(output.splitlines()[-1]) for output, _ in streams]


def main() -> None:
    """Answer what standard input asks."""
    asked: Mapping[str, Any] = json.load(sys.stdin)
    sys.path[:] = asked["path"]
    options, arguments = pickle.loads(bytes.fromhex(asked["options"]))  # noqa: S301 - from the process that asks
    subject = VariantUnderTest.of(plugin_of(asked["plugin"]), options=options, arguments=arguments)
    print(json.dumps(answers(subject, [CopyCase.from_json(text) for text in asked["cases"]])))


if __name__ == "__main__":
    main()
