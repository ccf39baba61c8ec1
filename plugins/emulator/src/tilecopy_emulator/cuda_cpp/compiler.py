"""The compilation of CUDA C++ with NVRTC. The PTX has line information. :func:`run_cuda` also runs the kernel."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from tilecopy import AssemblerError, LaunchError
from tilecopy.assemblers import compiling
from tilecopy.nvidia_packages import remedy

from tilecopy_core import target_of
from tilecopy_core.errors import short_repr
from tilecopy_core.registry import LOCK

from ..api import run_ptx
from ..argument_checks import demand, items_of
from ..debug_info import readable
from ..parser.module import parse_compiled
from ..program import Program, printable
from ..run import Report
from .headers import IMPLICIT, STANDARD, implicit_names, stand_in, standard_headers
from .host_removal import (
    Declaration,
    SourceFile,
    at_lines,
    header_names,
    host_constants,
    host_declarations,
    marker_macros,
    needs_host,
    source_file,
    std_directives,
    without,
)
from .instances import launched_instances, parameter_names
from .precompiled_headers import UNROLL_LIMIT, header_folders, precompiling

_INSTALL = 'from a checkout: pip install "plugins/emulator[cuda]"; or run the PTX file that nvcc -ptx -lineinfo writes'
_MOST_OF_LOG, _MOST_OF_NAME, _MOST_OF_SOURCE = 4000, 1000, 1 << 24
_MOST_ROUNDS, _MOST_HEADERS, _MOST_NAMED = 16, 200, 5
_NVCC_SECONDS = 300
_FOR_DEVICES = "--device-as-default-execution-space"
"""Kernels may use host code that stays (members of classes, constants, ``constexpr`` functions)."""
_FIRST_HEADER = f"--pre-include={IMPLICIT}"
_DEVICE_ALONE = re.compile("-+(default-device|device-as-default)")
_AMBIGUOUS = re.compile(r'error: (more than one instance of overloaded function|"[^"]*" is ambiguous)')
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_OF_LIBRARIES = ("_ZN3cub", "_ZN6thrust")
"""The beginnings of the mangled names of CUB's and Thrust's kernels, which nvcc compiles for calls of the host."""
_HOST_THRUST = re.compile(r"thrust/(?!tuple|pair|functional)")
"""Headers of Thrust that NVRTC cannot compile."""
_TEXTURES = re.compile(r"\b(texture|surface)\s*<")


def run_cuda(
    source: str, arguments: Sequence[Any], *, entry: str | None = None, target: str = "sm_90",
    options: Sequence[str] = (), name: str = "kernel.cu", grid: Sequence[int] | int, block: Sequence[int] | int, **launch: Any,
) -> Report:  # fmt: skip
    """Compile a CUDA C++ kernel with NVRTC and run it without a GPU. Hazard messages name lines of the source.

    Args:
        source: CUDA C++. It can include headers of the CUDA runtime, CUB, libcu++ and CUTLASS if their wheels
            or a CUDA toolkit are installed.
        arguments: see :func:`run_ptx`.
        entry: the name of the kernel in C++, such as ``axpy``, ``ns::axpy`` or ``axpy<float, 4>``; optional if the source
            has only one.
        target: the GPU architecture to compile for.
        options: more options of NVRTC, such as ``-DN=4`` or ``-Iinclude``.
        name: of the source, for messages and for ``__FILE__``.
        grid: the number of CTAs in x, y and z.
        block: the number of threads of a CTA in x, y and z.
        launch: the other options of :func:`run_ptx`; ``variables`` have their C++ names, such as ``ns::w``.

    Returns:
        A report of the run.

    Raises:
        AssemblerError: NVRTC is missing, or it cannot compile the source.
        LaunchError: see :func:`run_ptx`; or the source has no such kernel.
        UnsupportedPtxError: the emulator does not support an instruction of the kernel.
        HazardError: the kernel does something that is undefined on hardware.
        TargetError: the target is not known.
    """
    program = compile_cuda(source, entry=entry, target=target, options=options, name=name)
    return run_ptx(program, arguments, grid=grid, block=block, **launch)


def compile_cuda(
    source: str, *, entry: str | None = None, target: str = "sm_90", options: Sequence[str] = (),
    name: str = "kernel.cu",
) -> Program:  # fmt: skip
    """Compile a kernel of CUDA C++ with line information. For the arguments, see :func:`run_cuda`.

    Raises:
        AssemblerError: NVRTC is missing, or it cannot compile the source.
        LaunchError: the source has no such kernel.
        UnsupportedPtxError: the emulator does not support a part of the kernel.
        TargetError: the target is not known.
    """
    where = "run_cuda"
    demand(where, "source", source, _is_text(source) and len(source.split()) > 1, "CUDA C++, not the name of a file")
    fits = entry is None or (_is_text(entry) and bool(entry.strip()) and entry.isprintable())
    demand(where, "entry", entry, fits, "the name of a kernel, or None")
    fits = _is_text(name) and name.isprintable() and 0 < len(name) < _MOST_OF_NAME
    demand(where, "name", name, fits, "a file name")
    nvrtc_options = items_of(options)
    fits = nvrtc_options is not None and all(_is_text(nvrtc_option) for nvrtc_option in nvrtc_options)
    demand(where, "options", options, fits, "a sequence of NVRTC options, such as -DN=4")
    if len(source) > _MOST_OF_SOURCE:
        raise LaunchError(f"the source {name} must have at most {_MOST_OF_SOURCE} characters, got {len(source)}")
    path, source = Path(name).resolve(), source.removeprefix("\ufeff")
    words = [f"--gpu-architecture=compute_{str(target_of(target)).removeprefix('sm_')}", "-lineinfo", "--device-int128"]
    words += [] if any(option.lstrip("-").startswith("std") for option in nvrtc_options or ()) else ["--std=c++17"]
    folders = header_folders()
    words += [UNROLL_LIMIT, *(nvrtc_options or ()), f"-I{path.parent}", *(f"-I{folder}" for folder in folders)]
    standard = standard_headers("", folders)
    texts, places, missing = _local_files(source, path, _include_folders(nvrtc_options or ()), folders, standard)
    headers = {name: text for name, text in standard.items() if name not in texts}
    unit = _Unit(str(path), source, tuple(words), headers, texts)
    fails = not any(_DEVICE_ALONE.match(word) for word in words) and needs_host(source_file(source), missing)
    compiled = _Compiled("", "") if fails else _compile(unit)
    if not compiled.ptx:
        unit, compiled = _device_part(unit, compiled, missing, folders)
    if not compiled.ptx and unit.left_out:
        by_nvcc = run_nvcc(source, path, str(target_of(target)), nvrtc_options or ())
        if by_nvcc.ptx:
            unit = attrs.evolve(unit, text=source, left_out=("nvcc compiled the file, because NVRTC failed",))
            compiled = by_nvcc
        elif by_nvcc.log:
            compiled = attrs.evolve(compiled, log=f"{compiled.log}\n{by_nvcc.log}")
    if not compiled.ptx:
        log = printable(compiled.log.rstrip())
        log += "\nthe headers of cuRAND are in the package nvidia-curand" if "<curand" in "".join(unit.left_out) else ""
        raise AssemblerError(f"NVRTC cannot compile {name} with these options:\n{log}")
    text, mangled, instance = _select(unit, compiled.ptx, entry, name)
    for header, place in places.items():  # NVRTC takes headers in memory for files of the current directory
        text = text.replace(f'"{Path.cwd() / header}"', f'"{place}"') if header else text
    program = parse_compiled(_as_in_source(text, mangled, unit), mangled, str(path), source)
    sources = {str(places[name]): written for name, written in texts.items()}
    return attrs.evolve(program, sources=sources, notes=(*unit.left_out, *instance))


@attrs.frozen
class _Unit:
    """The input of a compilation with NVRTC.

    ``file``: the path of the file; ``text``: the part of it that is compiled, with the line numbers of the file;
    ``options``: of NVRTC; ``headers``: headers in memory by name; ``written``: the original file, with the name "",
    and its local headers, by their names in ``#include``; ``left_out``: notes on parts that are not compiled.
    """

    file: str
    text: str
    options: tuple[str, ...]
    headers: Mapping[str, str]
    written: Mapping[str, str]
    left_out: tuple[str, ...] = ()


@attrs.frozen
class _Compiled:
    """The output of a compilation: PTX or "", the log, and the kernel's name in PTX if one was requested."""

    ptx: str
    log: str
    mangled: str | None = None


@attrs.frozen
class _DevicePart:
    """The device code of a file and its local headers, by their names in ``#include``.

    ``hosts``: the declarations that are left out; ``constants``: those that are ``constexpr`` instead of ``const``;
    ``missing``: the headers that are not found; ``options``: of NVRTC.
    """

    hosts: Mapping[str, set[Declaration]]
    constants: Mapping[str, set[Declaration]]
    missing: tuple[str, ...]
    options: tuple[str, ...]


def _device_part(unit: _Unit, first: _Compiled, missing: list[str], folders: list[str]) -> tuple[_Unit, _Compiled]:
    """Compile a file that NVRTC rejected without its host code and without missing headers.

    While errors point into declarations for the host, these are removed, too.
    """
    texts = unit.written
    markers = marker_macros(texts.values())
    files = {name: source_file(text, markers) for name, text in texts.items()}
    if fault := files[""].fault:
        log = (first.log or _compile(unit).log)[:_MOST_OF_LOG]
        return unit, _Compiled("", f"{log}\n{Path(unit.file).name}: {fault}")
    kernels = {declaration.name for file in files.values() for declaration in file.declarations if declaration.marked}
    refused, options = unit, unit.options
    options += () if any(map(_DEVICE_ALONE.match, options)) else (_FOR_DEVICES,)
    hosts = {name: host_declarations(file, kernels) for name, file in files.items()}
    part = _DevicePart(hosts, {name: set() for name in files}, tuple(missing), options)
    for _ in range(_MOST_ROUNDS):
        kept = {name: without(file, part.hosts[name], part.constants[name]) for name, file in files.items()}
        stand_ins = {name: stand_in(name) for name in part.missing}
        headers = {**standard_headers("\n".join(kept.values()), folders), **stand_ins, **kept}
        text = headers.pop("")
        unit = attrs.evolve(unit, text=text, options=part.options, headers=headers)
        compiled = _compile(unit)
        if ".entry" not in compiled.ptx and not any(file.kernels for file in files.values()):
            compiled = _Compiled("", "")  # no kernel is left to run
        changed = _changed(part, files, compiled.log, unit.file)
        if compiled.ptx or changed == part:
            break
        part = changed
    gone = sorted(part.hosts[""], key=lambda decl: decl.start)
    parts = {
        "declarations left out as host code": [f"{decl.name or 'a declaration'} (line {decl.first})" for decl in gone],
        "lines left out because their headers were not found": [f"#include <{header}>" for header in part.missing],
    }
    notes = [f"{why}: {_list_names(names)}" for why, names in parts.items() if names]
    unit = attrs.evolve(unit, left_out=tuple(notes))
    if compiled.ptx or not notes:
        return unit, compiled if compiled.ptx or compiled.log else first
    first_log = first.log or _compile(refused).log  # it was not compiled before
    logs = [first_log, f"and without it, {'; '.join(notes)}:\n{compiled.log}"]
    if texture := _TEXTURES.search(texts[""]):
        logs.append(f"{texture[1]} references are not supported: pass a pointer to the data and index it")
    return unit, _Compiled("", "\n".join(log[:_MOST_OF_LOG].strip("\0\n") for log in logs))


def _changed(part: _DevicePart, files: Mapping[str, SourceFile], log: str, path: str) -> _DevicePart:
    """Return the part to compile after the errors in a log. It is unchanged if the errors are in the kernels."""
    if options := _lacking(part.options, log):
        return attrs.evolve(part, options=(*part.options, *options))
    if (header := re.search(r'cannot open source file "([^"]+)"', log)) and header[1] not in part.missing:
        return attrs.evolve(part, missing=(*part.missing, header[1]))
    if "error: dynamic initialization" in log and not any(part.constants.values()):
        part = attrs.evolve(part, constants={name: host_constants(file) for name, file in files.items()})
        if any(part.constants.values()):
            return part
    hosts = {name: at_lines(file, _error_lines(log, name or path)) for name, file in files.items()}
    if _AMBIGUOUS.search(log):  # libcu++ declares the functions of <math.h> again, libstdc++ does not
        hosts = {name: hosts[name] | std_directives(file) for name, file in files.items()}
    return attrs.evolve(part, hosts={name: part.hosts[name] | hosts[name] for name in files})


def _wants_implicit(log: str) -> bool:
    """Return True if a log has an undefined name that nvcc's implicit header defines."""
    return not implicit_names().isdisjoint(re.findall(r'identifier "(\w+)" is undefined', log))


_OPTIONS: Mapping[str, Callable[[str], bool]] = {
    _FIRST_HEADER: _wants_implicit,
    f"--pre-include={STANDARD}": lambda log: 'namespace "std" has no member' in log,
    "-Dregister=": lambda log: 'use of the "register" storage class' in log,
    "-D__linux__": lambda log: "#error directive" in log,
}
"""Options that make NVRTC's environment like that of nvcc -> whether a log shows that a file needs one."""


def _lacking(options: Sequence[str], log: str) -> list[str]:
    """Return those of :data:`_OPTIONS` that a log shows to be missing."""
    return [option for option, wants in _OPTIONS.items() if option not in options and wants(log)]


def _list_names(names: Sequence[str]) -> str:
    """Return the first few names for a note, and the number of the others."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _error_lines(log: str, file: str) -> list[int]:
    """Return the lines of a file to which errors in a log point."""
    return [int(x) for x in re.findall(rf"^{re.escape(file)}\((\d+)\): (?:catastrophic )?error", log, re.MULTILINE)]


def _local_files(
    source: str, path: Path, includes: Sequence[str], folders: list[str], known: Collection[str]
) -> tuple[dict[str, str], dict[str, Path], list[str]]:
    """Return the texts and paths of the file (as "") and its local headers, by their names in ``#include``.

    The last value has the missing headers.
    """
    texts, paths, missing = {"": source}, {"": path}, dict[str, None]()
    queue = [(source, path.parent)]
    while queue:
        text, folder = queue.pop()
        for name in header_names(text):
            if name in texts or name in missing or name == "cub/cub.cuh":
                continue
            places = [root / name for root in (folder, path.parent, *map(Path, includes))]
            if name in known and not places[0].is_file():
                continue
            local = next((place for place in places if place.is_file()), None)
            if local is not None and len(texts) < _MOST_HEADERS:
                texts[name], paths[name] = local.read_text(encoding="utf-8-sig", errors="replace"), local.resolve()
                queue.append((texts[name], local.parent))
            elif _HOST_THRUST.match(name) or not any((Path(root) / name).is_file() for root in [*folders, *includes]):
                missing[name] = None
    return texts, paths, list(missing)


def _include_folders(options: Sequence[str]) -> list[str]:
    """Return the directories of ``-I`` in options."""
    joined = "\n".join(options)
    return re.findall(r"^(?:-I|--include-path=|-I\n|--include-path\n)(\S[^\n]*)$", joined, re.MULTILINE)


def _select(unit: _Unit, ptx: str, entry: str | None, name: str) -> tuple[str, str, list[str]]:
    """Return the PTX with the wanted kernel, the kernel's name in it, and a note if the file's launch chose an instance.

    A template instance is compiled only after the file has compiled without it: if the file has an error, NVRTC 13
    crashes with the name of an instance.
    """
    entries = _ENTRY.findall(ptx)
    if entry in entries:
        return ptx, str(entry), []
    named = [mangled for mangled in entries if readable(mangled) == entry]
    named = named or [mangled for mangled in entries if readable(mangled).endswith(f"::{entry}")]
    if len(named) == 1:
        return ptx, named[0], []
    entries = [mangled for mangled in entries if not mangled.startswith(_OF_LIBRARIES)]
    if entry is None and len(entries) == 1:
        return ptx, entries[0], []
    file = source_file(unit.written[""])
    instances, scopes = launched_instances(file), {kernel.name: kernel.scope for kernel in file.kernels}
    if entry is None:
        wanted = [text for listed in instances.values() for text in listed] if not entries else []
    else:
        base = entry.partition("<")[0].strip()
        wanted = instances.get(base.rpartition("::")[2], []) if base == entry else []
        wanted = wanted or [f"{scopes.get(base, '')}{entry}"]
    compiled = _compile(unit, wanted[0]) if len(wanted) == 1 else _Compiled("", "")
    while (more := _with_needs_of_instance(unit, compiled.log)) != unit and _compile(more).ptx:
        unit, compiled = more, _compile(more, wanted[0])
    if compiled.mangled in _ENTRY.findall(compiled.ptx):
        return compiled.ptx, str(compiled.mangled), [f"the file launches {wanted[0]}"] * (entry != wanted[0])
    if compiled.log and not compiled.ptx and not named and "__nv_name_map" not in compiled.log:
        raise AssemblerError(
            f"NVRTC cannot compile {wanted[0]} of the source {name}:\n{printable(compiled.log[:_MOST_OF_LOG].rstrip())}"
        )
    listed = [*map(_readable_if_unique(entries), entries), *(text for listed in instances.values() for text in listed)]
    listed += [f"{scopes[template]}{template}<...>" for template, known in instances.items() if not known]
    has = f"its kernels are {_list_names(listed) or 'none'}"
    if entry is None:
        raise LaunchError(f"the source {name} has several kernels, or only templates: pass entry= to choose one; {has}")
    log = "".join(f"\n{line}" for line in printable(compiled.log).split("\n") if "error:" in line)
    raise LaunchError(f"the source {name} must have exactly one kernel named {short_repr(entry)}; {has}{log}")


def _with_needs_of_instance(unit: _Unit, log: str) -> _Unit:
    """Return the unit to compile after the errors of a template instance in a log. It is unchanged if they are in the kernel."""
    text, headers = unit.text, unit.headers
    if _AMBIGUOUS.search(log):
        texts = {name: header for name, header in headers.items() if name in unit.written}
        file, files = source_file(text), {name: source_file(header) for name, header in texts.items()}
        text = without(file, std_directives(file))
        headers = {**headers, **{name: without(file, std_directives(file)) for name, file in files.items()}}
    return attrs.evolve(unit, text=text, headers=headers, options=(*unit.options, *_lacking(unit.options, log)))


def _readable_if_unique(entries: list[str]) -> Callable[[str], str]:
    """Return a function from a kernel's PTX name to its C++ name, or to the PTX name if the other is not unique."""
    names = [readable(entry) for entry in entries]
    return lambda entry: readable(entry) if readable(entry) and names.count(readable(entry)) == 1 else entry


def _as_in_source(text: str, entry: str, unit: _Unit) -> str:
    """Return PTX whose entry has parameters with the names of the source, if these are known and unique."""
    named, declared = text, dict[str, set[tuple[str, ...]]]()
    kernels = source_file(unit.text).kernels
    defined = {kernel.name for kernel in kernels if kernel.kind == "function"}
    for kernel in (kernel for kernel in kernels if kernel.kind == "function" or kernel.name not in defined):
        declared.setdefault(kernel.name, set()).add(parameter_names(kernel))
    mangled = ((rf"(?<!\d){len(name)}{name}", names) for name, names in declared.items())
    outside_strings = re.sub(r'"[^"\n]*"', '""', text)
    lists = [declared[entry]] if entry in declared else [names for part, names in mangled if re.search(part, entry)]
    if len(lists) == len(lists[0] if lists else ()) == 1:
        for number, name in enumerate(next(iter(lists[0]))):
            if name and not re.search(rf"(?<![\w.%$]){name}(?![\w$])", outside_strings):
                named = re.sub(rf"\b{re.escape(entry)}_param_{number}\b", name, named)
    return named


def _is_text(value: Any) -> bool:
    """Return True if a value is a string that C can hold."""
    return isinstance(value, str) and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def _compile(unit: _Unit, entry: str | None = None) -> _Compiled:
    """Compile by NVRTC, with the template instance ``entry`` if there is one.

    Raises:
        AssemblerError: NVRTC is missing.
    """
    try:
        with LOCK:
            from cuda.bindings import nvrtc

            nvrtc.nvrtcVersion()
    except Exception as error:  # its loader has other exception classes
        raise AssemblerError(
            f"CUDA C++ requires cuda-bindings and NVRTC ({str(error).partition(chr(10))[0]}): {remedy(_INSTALL)}"
        ) from error

    def call(function: Any, *arguments: Any) -> Any:
        result, *outputs = function(*arguments)
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise AssemblerError(f"NVRTC: {function.__name__} fails: {result.name}")
        return outputs[0] if outputs else None

    def text_of(size_of: Any, get: Any) -> str:
        data = bytes(call(size_of, program))
        call(get, program, data)
        return data.rstrip(b"\0").decode("utf-8", "replace")

    names, texts = ([x.encode("utf-8", "replace") for x in part] for part in (unit.headers, unit.headers.values()))
    with compiling():
        program = call(nvrtc.nvrtcCreateProgram, unit.text.encode(), unit.file.encode(), len(names), texts, names)
        try:
            if entry is not None:
                call(nvrtc.nvrtcAddNameExpression, program, entry.encode())
            words = [*unit.options, *precompiling(unit.text, {**unit.written, **unit.headers, "": ""}, nvrtc)]
            options = [word.encode() for word in words]
            (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
            log = text_of(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
                errors = [part for part in log.split("\n\n") if "error" in part.partition("\n")[0]]
                return _Compiled("", "\n\n".join(errors) or log or result.name)
            mangled = None if entry is None else call(nvrtc.nvrtcGetLoweredName, program, entry.encode()).decode()
            return _Compiled(text_of(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX), log, mangled)
        finally:
            nvrtc.nvrtcDestroyProgram(program)


def run_nvcc(source: str, path: Path, target: str, options: Sequence[str]) -> _Compiled:
    """Compile a whole file with nvcc. If nvcc is not installed, return a log that says so."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return _Compiled("", "nvcc is not installed: install it to compile a file with host code")
    with tempfile.TemporaryDirectory() as folder:
        copy, ptx = Path(folder) / f"{path.stem}.cu", Path(folder) / "made.ptx"
        copy.write_text(source, encoding="utf-8")
        words: list[str | Path] = [nvcc, "-ptx", "-lineinfo", f"-arch={target}", f"-I{path.parent}", *options]
        words += ["-o", ptx, copy]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_NVCC_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return _Compiled("", f"nvcc could not run: {error}")
        log = (done.stderr or done.stdout).replace(str(copy), str(path))
        if done.returncode or not ptx.exists():
            return _Compiled("", f"nvcc cannot compile the file either:\n{log[:_MOST_OF_LOG]}")
        return _Compiled(ptx.read_text(encoding="utf-8", errors="replace").replace(str(copy), str(path)), "")
