"""The machine instructions of a cubin, as cuobjdump of the PATH or of a wheel prints them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path


def cuobjdump() -> str | None:
    """The disassembler of the PATH or of an installed wheel."""
    found = shutil.which("cuobjdump")
    if found is None:
        spec = find_spec("nvidia")
        for root in (spec.submodule_search_locations or []) if spec else []:
            for path in Path(root).glob("*/bin/cuobjdump"):
                return str(path)
    return found


def count(cubin: bytes, tool: str) -> int:
    """Instructions of a cubin's one kernel, without NOPs and the closing branch to itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        text = subprocess.run([tool, "-sass", str(path)], capture_output=True, text=True, check=True).stdout
    instructions = re.findall(r"^\s+/\*[0-9a-f]{4}\*/\s+(.*?);", text, re.M)
    last = len(instructions) - 1 - next(i for i, line in enumerate(reversed(instructions)) if "BRA" in line)
    return sum(1 for number, line in enumerate(instructions) if number != last and not re.match(r"(@\S+ )?NOP", line))
