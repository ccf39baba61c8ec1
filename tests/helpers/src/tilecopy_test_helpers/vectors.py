"""Files of recorded vectors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from tilecopy.atomic_files import write_files
from tilecopy_testkit import RecordedLaunch


def with_result(vector: RecordedLaunch, given: Iterable[Any], recorded: str) -> RecordedLaunch:
    """The vector with what a launch made of its arguments.

    Args:
        given: of :meth:`~tilecopy_testkit.Vector.launch_arguments`, after the launch.
        recorded: on what and when.
    """
    after = tuple(each.tobytes() if isinstance(each, np.ndarray) else None for each in given)
    return attrs.evolve(vector, after=after, recorded=recorded)


def write_vectors(path: Path | str, vectors: Iterable[RecordedLaunch], *, device: str, driver: str, date: str) -> None:
    """Write vectors to a file that :func:`tilecopy_testkit.recorded_vectors` reads.

    Args:
        path: of the file.
        vectors: with their results.
        device: the GPU's name.
        driver: its version.
        date: of the launches.
    """
    rows = [
        {
            "name": vector.name,
            "ptx": vector.ptx.split("\n"),
            "grid": vector.grid,
            "block": vector.block,
            "arguments": [each.hex() if isinstance(each, bytes) else each for each in vector.arguments],
            "after": [None if each is None else each.hex() for each in vector.after],
        }
        for vector in vectors
    ]
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps({"device": device, "driver": driver, "date": date})[:-1]
    write_files({Path(path): [f'{head}, "vectors": [\n{lines}\n]}}\n'.encode()]})
