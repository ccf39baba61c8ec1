"""The answers of a variant in another process: ``python -m tilecopy_testkit.variant_process`` reads test cases from stdin."""

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
from .properties import ANSWERS, PARTITION, ask, build_kernel, request_of
from .variant_under_test import OPTIONS, VariantUnderTest

MOST_SECONDS = 120
"""The time for an answer, after which the process is killed."""


def reference_of(plugin: Any) -> str | None:
    """Return a name that another process can import, such as ``MODULE:NAME``. Return None if no name works."""
    if isinstance(plugin, str):
        return plugin
    if isinstance(plugin, ModuleType):
        return f"{plugin.__name__}:"
    module = type(plugin).__module__
    values = vars(sys.modules[module]) if module in sys.modules else {}
    return next((f"{module}:{name}" for name, value in values.items() if value is plugin), None)


def answer(subject: VariantUnderTest, case: CopyCase) -> dict[str, str]:
    """Return the verdict and, for an accepted copy, the partition and PTX. Return {} if dispatch skips the variant."""
    asked = request_of(subject, case)
    if asked is None:
        return {}
    verdict = ask(subject, "tilecopy_predicate", asked[1], case, ANSWERS)
    texts = {"verdict": str(verdict)}
    if not isinstance(verdict, tc.Decline):
        texts["partition"] = _plain(snapshot(ask(subject, "tilecopy_partition", asked[1], case, PARTITION)))
        kernel = build_kernel(subject, case)
        texts["text"] = "" if kernel is None else kernel.ptx
    return texts


def _plain(value: Any) -> str:
    """Return a snapshot as text without addresses of objects."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return str(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def answers(subject: VariantUnderTest, cases: Sequence[CopyCase]) -> dict[str, dict[str, str]]:
    """Return a dict from case key to the variant's answer. The order of ``cases`` is the order of requests."""
    return {case.key: answer(subject, case) for case in cases}


def answers_elsewhere(
    subject: VariantUnderTest, cases: Sequence[CopyCase], hash_seeds: Sequence[int]
) -> list[dict[str, dict[str, str]]] | None:
    """Return the answers of one new process per hash seed. Return None if the processes cannot import the plugin."""
    reference = reference_of(subject.plugin)
    if reference is None:
        return None
    makers = {name: make for name, make in subject.options.items() if name not in OPTIONS}
    try:
        question = pickle.dumps((reference, makers, dict(subject.arguments), cases[::-1]))
    except Exception:  # a maker may be a function that no other process finds
        return None
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tilecopy_testkit.variant_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        )
        for hash_seed in hash_seeds
    ]
    try:
        outputs = [process.communicate(pickle.dumps(sys.path) + question, MOST_SECONDS) for process in processes]
    except subprocess.TimeoutExpired:
        raise tc.PluginError(
            f"another process that runs {reference} gave no answer in {MOST_SECONDS} seconds"
        ) from None
    finally:
        for process in processes:
            process.kill()  # does nothing to a process that has ended
    for process, (_, errors) in zip(processes, outputs, strict=True):
        if process.returncode:
            lines = [f"the exit status is {process.returncode}", *errors.decode(errors="replace").split("\n")]
            reason = [line for line in lines if line.strip()][-1]
            raise tc.PluginError(f"another process cannot run {reference}: {reason}")
    return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def main() -> None:
    """Read test cases from standard input. Write one line of JSON: the variant's answers to the test cases."""
    sys.path[:] = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that asks
    reference, options, arguments, cases = pickle.load(sys.stdin.buffer)  # noqa: S301
    plugin = resolve_name(reference) if ":" in reference else reference
    print(json.dumps(answers(VariantUnderTest.of(plugin, options=options, arguments=arguments), cases)))


if __name__ == "__main__":
    main()
