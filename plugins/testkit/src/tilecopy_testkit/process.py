"""The answers of a variant in another process: ``python -m tilecopy_testkit.process`` is asked on standard input."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import tilecopy_core as tc

from .description import Description
from .rules import Meaningless, built, request_of
from .subject import Subject, reference_of, referred
from .watching import snapshot


def answer(subject: Subject, description: Description) -> dict[str, str]:
    """What each hook makes of a description, as texts: verdict, partition, digest of the PTX."""
    try:
        _, request = request_of(subject, description)
    except Meaningless:
        return {}
    call, plugin = subject.registry.call, subject.registered
    verdict = call(plugin, "tilecopy_predicate", request=request)
    if isinstance(verdict, tc.Decline):
        return {"verdict": str(verdict)}
    partition = call(plugin, "tilecopy_partition", request=request)
    found = {"verdict": str(verdict), "partition": _plain(snapshot(partition))}
    kernel = built(subject, description)
    if kernel is not None:
        found["text"] = hashlib.blake2b(kernel.ptx.encode(), digest_size=8).hexdigest()
    return found


def _plain(value: Any) -> str:
    """A snapshot as text that does not depend on where objects lie in memory."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return str(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def answers(subject: Subject, descriptions: Sequence[Description]) -> dict[str, dict[str, str]]:
    """The answers by the key of each description, asked in this order."""
    return {description.key: answer(subject, description) for description in descriptions}


def answers_elsewhere(
    subject: Subject, descriptions: Sequence[Description], hash_seed: int
) -> dict[str, dict[str, str]] | None:
    """The answers of another process with another hash seed, asked in reverse order; None where it cannot find the plugin."""
    reference = reference_of(subject.plugin)
    if reference is None:
        return None
    own = {name: make for name, make in subject.surroundings.options.items() if name not in ("mbar", "remote_cta_id")}
    try:
        options = pickle.dumps(own).hex()
    except Exception:
        return None
    asked = {
        "plugin": reference,
        "path": sys.path,
        "options": options,
        "descriptions": [description.to_json() for description in reversed(descriptions)],
    }
    found = subprocess.run(
        [sys.executable, "-m", "tilecopy_testkit.process"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
    )
    if found.returncode:
        raise tc.PluginError(f"another process cannot ask {reference}: {found.stderr.strip().splitlines()[-1]}")
    parsed: dict[str, dict[str, str]] = json.loads(found.stdout.splitlines()[-1])
    return parsed


def main() -> None:
    """Answer what standard input asks."""
    asked: Mapping[str, Any] = json.load(sys.stdin)
    sys.path[:] = asked["path"]
    options = pickle.loads(bytes.fromhex(asked["options"]))  # noqa: S301 - from the process that asks
    subject = Subject.of(referred(asked["plugin"]), options=options)
    print(json.dumps(answers(subject, [Description.from_json(text) for text in asked["descriptions"]])))  # noqa: T201


if __name__ == "__main__":
    main()
