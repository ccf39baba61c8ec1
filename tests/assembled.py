"""Assembles every PTX text of a folder for its target: ``python tests/assembled.py FOLDER``, after ``nox -s tests`` recorded them.

A text that ptxas refuses is printed with its log, and the exit status is 1.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tilecopy.assemblers import assemble, available_assemblers
from tilecopy.errors import AssemblerError


def refusal(file: Path) -> str:
    """The log of ptxas on a text that it refuses, or an empty string."""
    try:
        text = file.read_bytes().decode(errors="surrogatepass")
        text = re.sub(
            r"^(\s*\.version) 9\.[1-9]", r"\1 9.0", text, flags=re.MULTILINE
        )  # of a newer compiler than ptxas
        assemble(text, file.suffixes[-2][1:], "ptxas")
    except AssemblerError as error:
        return str(error)
    return ""


def main(arguments: Sequence[str]) -> int:
    """Assemble the texts of a folder; the exit status."""
    (folder,) = arguments
    files = sorted(Path(folder).glob("*.ptx"))
    if "ptxas" not in available_assemblers():
        print(f"{len(files)} texts were recorded; ptxas is not installed, so none is assembled")
        return 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        logs = {file: log for file, log in zip(files, pool.map(refusal, files), strict=True) if log}
    for file, log in logs.items():
        print(f"{file}: {log}\n")
    print(f"{len(files)} texts that the emulator takes: ptxas refuses {len(logs)}")
    return int(bool(logs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
