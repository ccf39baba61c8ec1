"""Vectors: what a GPU did with a kernel, recorded once and replayed on the emulator wherever there is no GPU.

A handler of an instruction and a variant that emits it, both by one author, share what the author believes. A vector does not.
A file of them is JSON::

    {"device": "NVIDIA H200", "driver": "570.86", "date": "2026-11-22",
     "vectors": [{"name": "ldmatrix.x4.trans",
                  "ptx": [".version 8.7", ".target sm_90", ...],
                  "grid": 1, "block": 32,
                  "arguments": ["00010203...", 5],
                  "after": ["00010203...", null]}]}

``ptx`` is a module of one kernel, line by line. An argument is the bytes of an array in hexadecimal, or an integer; ``after``
has the bytes of each array when the kernel has ended, and null for an integer. A test replays each by itself::

    @pytest.mark.parametrize("vector", recorded_vectors(Path(__file__).with_name("vectors.json")), ids=str)
    def test_a_vector(vector):
        vector.replay()
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import attrs
import msgspec
import numpy as np
import tilecopy as tc
from tilecopy.validators import PATH
from tilecopy_emulator import run_ptx

from tilecopy_core.errors import checked, short_repr

from .counterexample import Counterexample
from .validators import Number, system_reason, typed_fields

AS_RECORDED = "the emulator gives what the GPU gave"


@attrs.frozen(field_transformer=typed_fields)
class RecordedLaunch:
    """One launch.

    Attributes:
        name: what is tried.
        ptx: a module of one kernel.
        grid: CTAs.
        block: threads of each.
        arguments: the bytes of an array, or an integer, for each parameter.
        after: the bytes of each array afterwards, None for an integer; () where nothing has been recorded yet.
        recorded: on what and when.
    """

    name: str
    ptx: str
    grid: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    block: Annotated[int, msgspec.Meta(ge=1, le=1024)]
    arguments: tuple[bytes | Number, ...]
    after: tuple[bytes | None, ...] = ()
    recorded: str = ""

    def __str__(self) -> str:
        return self.name

    def launch_arguments(self) -> list[Any]:
        """New arrays of bytes, and integers, for a launch, which changes the arrays."""
        return [
            np.frombuffer(argument, np.uint8).copy() if isinstance(argument, bytes) else argument
            for argument in self.arguments
        ]

    def replay(self) -> None:
        """Run it on the emulator.

        Raises:
            Counterexample: a byte is not what the GPU gave, or the emulator refuses the kernel.
        """
        arguments = self.launch_arguments()
        try:
            run_ptx(self.ptx, arguments, grid=self.grid, block=self.block)
        except tc.TilecopyError as error:
            raise Counterexample(AS_RECORDED, f"{self}: {type(error).__name__}: {error}") from error
        for number, (array, wanted) in enumerate(zip(arguments, self.after, strict=True)):
            if wanted is None or array.tobytes() == wanted:
                continue
            right = np.frombuffer(wanted, np.uint8)
            wrong = np.flatnonzero(array != right)
            at = int(wrong[0])
            raise Counterexample(
                AS_RECORDED,
                f"{self}: {len(wrong)} of {len(right)} bytes of argument {number} differ; byte {at} is 0x{array[at]:02x}, and "
                f"was 0x{right[at]:02x} on {self.recorded}",
            )


@checked(path=PATH)
def recorded_vectors(path: Path | str) -> list[RecordedLaunch]:
    """The vectors of a file, in the form that the module's docstring shows.

    Raises:
        RequestError: the file cannot be read, or is none of vectors.
    """
    try:
        return _vectors(json.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise tc.RequestError(f"recorded_vectors: path {short_repr(str(path))}: {system_reason(error)}") from error
    except tc.TilecopyError:
        raise
    except Exception as error:
        raise tc.RequestError(
            f"recorded_vectors: path {short_repr(Path(path).name)} is not a file of vectors: {type(error).__name__}: {error}"
        ) from error


def _vectors(data: Mapping[str, Any]) -> list[RecordedLaunch]:
    recorded = f"{data['device']}, driver {data['driver']}, {data['date']}"
    return [
        RecordedLaunch(
            record["name"],
            "\n".join(record["ptx"]),
            record["grid"],
            record["block"],
            tuple(bytes.fromhex(a) if isinstance(a, str) else a for a in record["arguments"]),
            tuple(None if a is None else bytes.fromhex(a) for a in record["after"]),
            recorded,
        )
        for record in data["vectors"]
    ]
