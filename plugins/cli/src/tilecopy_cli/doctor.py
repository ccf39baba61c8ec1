"""Checks of this machine: GPU, assemblers, executors, variants and packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attrs
from tilecopy.assemblers import ASSEMBLERS, assembler_version, how_to_install, ptxas_path
from tilecopy.catalog import KNOWN_EXECUTORS, KNOWN_PACKAGES, install_line
from tilecopy.errors import AssemblerError
from tilecopy.executors import executors, get_executor, unavailable_reason

from tilecopy_core.errors import TilecopyError
from tilecopy_core.registry import canonical, default_registry, distributions, known_variants, short_error

from .packages import problems


@attrs.frozen
class DoctorCheck:
    """A frozen record of one line that ``tilecopy doctor`` prints.

    Attributes:
        what: its kind and name.
        state: ``found`` (it works here), ``unusable`` (it is installed but does not work) or ``missing``.
        detail: what it is, or what is missing and what to install.
    """

    what: str
    state: str
    detail: str

    @property
    def found(self) -> bool:
        """True if the checked part works on this machine."""
        return self.state == "found"


def check_machine() -> list[DoctorCheck]:
    """Return a check for each GPU, assembler, executor, variant and package, including those that are missing."""
    checks = _executors()
    usable = [check.what.removeprefix("executor ") for check in checks if check.found]
    return [*_gpus(usable), *_assemblers(), _compute_cache(), *checks, *_extensions(usable), *_variants(), *_packages()]


def _gpus(usable: list[str]) -> list[DoctorCheck]:
    if (why := _why_not("cuda")) is None:
        cuda: Any = get_executor("cuda")
        return [DoctorCheck(f"GPU {device.ordinal}", "found", str(device)) for device in cuda.devices()]
    nothing = f"no installed executor can run kernels here; {install_line(KNOWN_EXECUTORS['emulator'])}"
    return [DoctorCheck("GPU", "missing", f"{why}; {f'kernels run on the {usable[0]}' if usable else nothing}")]


def _why_not(executor: str) -> str | None:
    """Return the reason that an executor cannot run here. Return None if it can run."""
    try:
        return unavailable_reason(executor)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return str(error) if isinstance(error, TilecopyError) else f"unavailable_reason() raised {short_error(error)}"


def _assemblers() -> list[DoctorCheck]:
    checks = []
    for name in ASSEMBLERS:
        path = ptxas_path() if name == "ptxas" else None
        try:
            version = assembler_version(name)
            state, detail = "found", f"{path}, {version}" if path else version
        except AssemblerError as error:
            state, detail = ("unusable", f"cannot be run: {error}") if path else ("missing", how_to_install(name))
        checks.append(DoctorCheck(f"assembler {name}", state, detail))
    return checks


def _compute_cache() -> DoctorCheck:
    what = "driver's compute cache"
    try:
        from tilecopy_cuda import ComputeCache
    except ModuleNotFoundError:
        return DoctorCheck(what, "missing", install_line(KNOWN_EXECUTORS["cuda"]))
    cache = ComputeCache.of_environment()
    if cache.disabled:
        return DoctorCheck(what, "missing", "CUDA_CACHE_DISABLE=1 is set, so each process recompiles kernels: unset it")
    detail = cache.problem or f"{cache.folder}, up to {cache.limit_bytes / 2**20:g} MiB"
    return DoctorCheck(what, "unusable" if cache.problem else "found", detail)


def _executors() -> list[DoctorCheck]:
    installed, checks = executors(), []
    for name in dict.fromkeys([*KNOWN_EXECUTORS, *installed]):
        if name not in installed:
            state, detail = "missing", install_line(KNOWN_EXECUTORS[name])
        else:
            why = _why_not(name)
            state = "found" if why is None else "unusable"
            detail = installed[name] if why is None else f"{installed[name]}, cannot run here: {why}"
        checks.append(DoctorCheck(f"executor {name}", state, detail))
    return checks


def _extensions(usable: list[str]) -> list[DoctorCheck]:
    """Return the extensions that the executors report."""
    checks = []
    for name in usable:
        try:
            for what, owner, reason in list(getattr(get_executor(name), "extensions", tuple)()):
                checks.append(DoctorCheck(what, "unusable" if reason else "found", reason or owner))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            checks.append(DoctorCheck(f"executor {name}", "unusable", f"extensions() raised {short_error(error)}"))
    return checks


def _variants() -> list[DoctorCheck]:
    plugins = {plugin.name: plugin for plugin in default_registry().plugins()}
    checks = []
    for name in dict.fromkeys([*known_variants(), *plugins]):
        plugin = plugins.get(name)
        text = known_variants()[name].install if plugin is None else plugin.reason or plugin.source.owner
        working = plugin is not None and plugin.status in ("ready", "wrapper")
        state = "found" if working else "missing" if plugin is None else "unusable"
        checks.append(DoctorCheck(f"variant {name}", state, text))
    return checks


def _packages() -> list[DoctorCheck]:
    """Return a check for each package that extends tilecopy, with its folder, and for each that can be installed."""
    checks = []
    faults = problems()
    installed = {package.name: package for package in distributions(declaring="tilecopy")}
    for name, package in sorted(installed.items()):
        where = f"{package.version} in {Path(package.location).parent}" if package.location else package.version
        state = "unusable" if faults[name] else "found"
        checks.append(DoctorCheck(f"package {name}", state, "; ".join([where, *faults[name]])))
    for name in KNOWN_PACKAGES:
        if canonical(name) in map(canonical, installed):
            continue
        try:
            state, detail = "found", version(name)
        except PackageNotFoundError:
            state, detail = "missing", install_line(name)
        checks.append(DoctorCheck(f"package {name}", state, detail))
    return checks
