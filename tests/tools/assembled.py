"""Assemble every PTX file of a folder for its target: ``python tests/tools/assembled.py FOLDER [ASSEMBLER ...]``, after ``nox -s tests``.

A file that the assembler (by default ptxas) rejects is printed with its log, and the exit status is 1.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tilecopy.assemblers import assemble, available_assemblers
from tilecopy.errors import AssemblerError


def refusal(file: Path, assembler: str) -> str:
    """Return the log of an assembler for a text that it rejects, or an empty string."""
    try:
        text = file.read_bytes().decode(errors="surrogatepass")
        text = re.sub(
            r"^(\s*\.version) 9\.[1-9]", r"\1 9.0", text, flags=re.MULTILINE
        )  # of a newer compiler than the assembler
        assemble(text, file.suffixes[-2][1:], assembler)
    except AssemblerError as error:
        return str(error)
    return ""


def main(arguments: Sequence[str]) -> int:
    """Assemble the texts of a folder, and return the exit status."""
    folder, *assemblers = arguments
    files = sorted(Path(folder).glob("*.ptx"))
    refused = 0
    for assembler in assemblers or ["ptxas"]:
        if assembler not in available_assemblers():
            print(f"{len(files)} texts were recorded; {assembler} is not installed, so it assembles none")
            continue
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            texts = zip(files, pool.map(partial(refusal, assembler=assembler), files), strict=True)
            logs = {file: log for file, log in texts if log}
        for file, log in logs.items():
            print(f"{file}: {log}\n")
        print(f"{len(files)} texts that the emulator takes: {assembler} refuses {len(logs)}")
        refused += len(logs)
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
