"""Write the PTX again: ``python -m corpus.cuda.compile LIBNVRTC`` from the folder above the corpus."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from .sources import SOURCES


def compile_source(library: ctypes.CDLL, source: str, options: list[bytes]) -> str:
    """One source to PTX.

    Raises:
        RuntimeError: NVRTC refuses it; the message is its log.
    """
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    failed = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    kind = "ProgramLog" if failed else "PTX"
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{kind}")(program, text)
    if failed:
        raise RuntimeError(text.value.decode())
    return text.value.decode()


def main() -> None:
    """Compile all."""
    library = ctypes.CDLL(sys.argv[1])
    for cuda in SOURCES:
        for defines, ending in (([], ".ptx"), ([b"-DRACY"], ".racy.ptx")):
            if defines and not cuda.racy:
                continue
            text = compile_source(library, cuda.source, [b"--gpu-architecture=compute_90", *defines])
            body = "\n".join(line for line in text.split("\n") if not line.startswith("//"))
            (Path(__file__).parent / f"{cuda.name}{ending}").write_text(body.strip() + "\n")


if __name__ == "__main__":
    main()
