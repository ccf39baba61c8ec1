"""CUDA C++ on the emulator: NVRTC makes PTX with line information, :func:`run_cuda` runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilecopy import AssemblerError, LaunchError
from tilecopy.nvidia import remedy

from tilecopy_core import target_of
from tilecopy_core.registry import LOCK, compiling

from ..api import run_program
from ..demands import demand, items_of, shown
from ..program import Program, printable
from ..reading.parser import parse_compiled
from ..run import Report
from .precompiled import UNROLL_LIMIT, header_folders, precompiling

_INSTALL = 'from a checkout: pip install "plugins/emulator[cuda]"'
_MOST_OF_LOG, _MOST_OF_NAME = 4000, 1000
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_DECLARED = re.compile(r"__global__\b[^{;]*?\b(\w+)\s*\(([^(){;]*)\)\s*[{;]")
"""A kernel of the source: its name, and its parameters where these are plain."""
_NAMED = re.compile(
    r".*[\s*&>](?!(?:int|float|double|char|short|long|bool|unsigned|signed|const)\b)(\w+)(?:\s*\[\w*\])*\s*", re.DOTALL
)


def run_cuda(
    source: str,
    arguments: Sequence[Any],
    *,
    entry: str | None = None,
    grid: Sequence[int] | int,
    block: Sequence[int] | int,
    cluster: Sequence[int] | int | None = None,
    dynamic_shared_bytes: int = 0,
    profile: bool = False,
    allow: Sequence[str] = (),
    target: str = "sm_90",
    options: Sequence[str] = (),
    name: str = "kernel.cu",
) -> Report:
    """Compile a kernel of CUDA C++ by NVRTC and run it with no GPU; hazards name the lines of the source.

    Args:
        source: CUDA C++. The headers of the CUDA runtime, of CUB and libcu++ and of CUTLASS are found where their wheels
            or a CUDA toolkit are installed.
        arguments: as of :func:`run_ptx`.
        entry: the kernel as C++ calls it, such as ``axpy``, ``ns::axpy`` or ``axpy<float, 4>``; may be left out where the source
            has only one.
        grid: as of :func:`run_ptx`.
        block: likewise.
        cluster: likewise.
        dynamic_shared_bytes: likewise.
        profile: likewise.
        allow: likewise.
        target: what to compile for.
        options: more options of NVRTC, such as ``-DN=4`` or ``-Iinclude``.
        name: of the source, for messages and for ``__FILE__``.

    Returns:
        What the run did.

    Raises:
        AssemblerError: NVRTC is missing or refused the source.
        LaunchError: as of :func:`run_ptx`; the source has no such kernel.
        UnsupportedPtxError: the kernel has an instruction that the emulator does not know.
        HazardError: an execution that the hardware leaves undefined.
        TargetError: the target is not known.
    """
    return run_program(
        compile_cuda(source, entry=entry, target=target, options=options, name=name),
        arguments,
        grid=grid,
        block=block,
        cluster=cluster,
        dynamic_shared_bytes=dynamic_shared_bytes,
        profile=profile,
        allow=allow,
    )


def compile_cuda(
    source: str,
    *,
    entry: str | None = None,
    target: str = "sm_90",
    options: Sequence[str] = (),
    name: str = "kernel.cu",
) -> Program:
    """A kernel of CUDA C++, with line information; the arguments are those of :func:`run_cuda`.

    Raises:
        AssemblerError: NVRTC is missing or refused the source.
        LaunchError: the source has no such kernel.
        UnsupportedPtxError: the kernel has something that the emulator does not know.
        TargetError: the target is not known.
    """
    where = "run_cuda"
    demand(where, "source", source, _is_text(source) and bool(source.strip()), "the text of a CUDA C++ file")
    fits = entry is None or (_is_text(entry) and bool(entry.strip()) and entry.isprintable())
    demand(where, "entry", entry, fits, "the name of a kernel, or None")
    fits = _is_text(name) and name.isprintable() and 0 < len(name) < _MOST_OF_NAME
    demand(where, "name", name, fits, "the name of a file")
    given = items_of(options)
    fits = given is not None and all(_is_text(each) for each in given)
    demand(where, "options", options, fits, "options of NVRTC, such as -DN=4")
    path = Path(name).resolve()
    file = str(path)
    words = [f"--gpu-architecture=compute_{str(target_of(target)).removeprefix('sm_')}", "-lineinfo", "--device-int128"]
    words += [] if any(each.lstrip("-").startswith("std") for each in given or ()) else ["--std=c++17"]
    words += [UNROLL_LIMIT, *(given or ()), f"-I{path.parent}", *(f"-I{folder}" for folder in header_folders())]
    text, mangled, log = _nvrtc(source, file, words, entry)
    if text:
        return parse_compiled(_as_in_source(text, source, mangled), mangled, file, source)
    if entry is not None:  # the name alone may be at fault
        text, _, _ = _nvrtc(source, file, words, None)
        entries = re.findall(r"\.entry\s+([\w$]+)", text)
        if entry in entries:
            return parse_compiled(_as_in_source(text, source, entry), entry, file, source)
        if text:
            raise LaunchError(
                f"the source {name} has no entry {shown(entry)}, or several; it has: {', '.join(entries) or 'none'}"
            )
    raise AssemblerError(
        f"NVRTC refuses the source {name} with these options:\n{printable(log[:_MOST_OF_LOG].rstrip())}"
    )


def _as_in_source(text: str, source: str, wanted: str | None) -> str:
    """PTX whose wanted entry has parameters with the names of the source, where it is clear which these are and nothing else is called so."""
    named, declared = text, dict[str, set[tuple[str, ...]]]()
    for name, listed in _DECLARED.findall(_COMMENT.sub(" ", source)):
        found = [_NAMED.fullmatch(re.sub(r"=.*", "", each)) for each in re.split(r",(?![^<]*>)", listed)]
        declared.setdefault(name, set()).add(tuple(each[1] if each else "" for each in found))
    for entry in [wanted] if wanted else re.findall(r"\.entry\s+([\w$]+)", text)[:1]:
        mangled = ((rf"(?<!\d){len(name)}{name}", names) for name, names in declared.items())
        lists = [declared[entry]] if entry in declared else [names for part, names in mangled if re.search(part, entry)]
        if len(lists) != 1 or len(lists[0]) != 1:
            continue
        for number, name in enumerate(next(iter(lists[0]))):
            if name and not re.search(rf"(?<![\w.%$]){name}(?![\w$])", text):
                named = re.sub(rf"\b{re.escape(entry)}_param_{number}\b", name, named)
    return named


def _is_text(value: Any) -> bool:
    """Whether a value is a text that C can have."""
    return isinstance(value, str) and "\0" not in value and not any("\ud800" <= each <= "\udfff" for each in value)


def _nvrtc(source: str, file: str, options: Sequence[str], entry: str | None) -> tuple[str, str | None, str]:
    """The PTX or "", the mangled name of the kernel, and the compiler's log.

    Raises:
        AssemblerError: there is no NVRTC.
    """
    try:
        with LOCK:
            from cuda.bindings import nvrtc

            nvrtc.nvrtcVersion()
    except Exception as error:  # its loader has errors of its own
        raise AssemblerError(
            f"CUDA C++ needs cuda-bindings and NVRTC ({str(error).partition(chr(10))[0]}): {remedy(_INSTALL)}"
        ) from error

    def call(function: Any, *arguments: Any) -> Any:
        result, *found = function(*arguments)
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise AssemblerError(f"NVRTC: {function.__name__} fails: {result.name}")
        return found[0] if found else None

    def text_of(size_of: Any, get: Any) -> str:
        data = bytes(call(size_of, program))
        call(get, program, data)
        return data.rstrip(b"\0").decode("utf-8", "replace")

    options = [*options, *precompiling(source, nvrtc)]
    with compiling():
        program = call(nvrtc.nvrtcCreateProgram, source.encode(), file.encode(), 0, [], [])
        try:
            if entry is not None:
                call(nvrtc.nvrtcAddNameExpression, program, entry.encode())
            (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [each.encode() for each in options])
            log = text_of(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
                return "", None, log or result.name
            mangled = None if entry is None else call(nvrtc.nvrtcGetLoweredName, program, entry.encode()).decode()
            return text_of(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX), mangled, log
        finally:
            nvrtc.nvrtcDestroyProgram(program)
