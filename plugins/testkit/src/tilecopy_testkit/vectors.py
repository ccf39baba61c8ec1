"""Test vectors: launches that were recorded on a GPU. Tests replay these launches on the emulator, without a GPU.

If one author writes both a variant and the emulator's handler of its instruction, both may have the same mistake. A test vector
finds it. A file of test vectors is JSON::

    {"device": "NVIDIA H200", "driver": "570.86", "date": "2026-11-22",
     "vectors": [{"name": "ldmatrix.x4.trans",
                  "ptx": [".version 8.7", ".target sm_90", ...],
                  "grid": 1, "block": 32,
                  "arguments": ["00010203...", 5],
                  "after": ["00010203...", null]}]}

``ptx`` has the lines of a module with one kernel. An argument is the bytes of an array in hexadecimal, or an integer. ``after``
has the bytes of each array after the kernel, and null for an integer. A test replays one vector::

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

AS_RECORDED = "the results of the emulator must be equal to the results recorded on the GPU"


@attrs.frozen(field_transformer=typed_fields)
class RecordedLaunch:
    """A frozen record of one launch on a GPU: the kernel, the arguments, and the arrays after the launch.

    Attributes:
        name: what the launch tests.
        ptx: a module of one kernel.
        grid: number of CTAs.
        block: threads per CTA.
        arguments: the bytes of an array, or an integer, for each parameter.
        after: the bytes of each array after the launch, None for an integer; () if nothing was recorded.
        recorded: the device, driver and date of the recording.
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
        """Return new arguments for a launch: integers, and copies of the arrays."""
        return [
            np.frombuffer(argument, np.uint8).copy() if isinstance(argument, bytes) else argument
            for argument in self.arguments
        ]

    def replay(self) -> None:
        """Run the launch on the emulator, and compare the arrays with the recorded arrays.

        Raises:
            Counterexample: a byte differs from the recorded one, or the emulator rejects the kernel.
        """
        arguments = self.launch_arguments()
        try:
            run_ptx(self.ptx, arguments, grid=self.grid, block=self.block)
        except tc.TilecopyError as error:
            raise Counterexample(AS_RECORDED, f"{self}: {type(error).__name__}: {error}") from error
        for number, (array, wanted) in enumerate(zip(arguments, self.after, strict=True)):
            right = array if wanted is None else np.frombuffer(wanted, np.uint8)
            for at in np.flatnonzero(array != right):
                why = f"{np.count_nonzero(array != right)} of {len(right)} bytes of argument {number} differ"
                why += (
                    f" from the result on {self.recorded}; byte {at} must be 0x{right[at]:02x}, got 0x{array[at]:02x}"
                )
                raise Counterexample(AS_RECORDED, f"{self}: {why}")


@checked(path=PATH)
def recorded_vectors(path: Path | str) -> list[RecordedLaunch]:
    """Return the test vectors in a file. The module's docstring specifies the format.

    Raises:
        RequestError: the file cannot be read, or does not have this format.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        recorded = f"{data['device']}, driver {data['driver']}, {data['date']}"
        return [_launch(record, recorded) for record in data["vectors"]]
    except OSError as error:
        raise tc.RequestError(f"recorded_vectors: path {short_repr(str(path))}: {system_reason(error)}") from error
    except Exception as error:
        raise tc.RequestError(
            f"recorded_vectors: path {short_repr(Path(path).name)} must be a file of test vectors: {type(error).__name__}: {error}"
        ) from error


def _launch(record: Mapping[str, Any], recorded: str) -> RecordedLaunch:
    """Return the launch of a record, whose arrays are in hexadecimal."""
    arguments, after = (
        tuple(bytes.fromhex(value) if isinstance(value, str) else value for value in record[name])
        for name in ("arguments", "after")
    )
    ptx = "\n".join(record["ptx"])
    return RecordedLaunch(record["name"], ptx, record["grid"], record["block"], arguments, after, recorded)
