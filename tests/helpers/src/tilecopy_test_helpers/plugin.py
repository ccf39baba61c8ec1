"""A pytest plugin for every test of the workspace: fixtures, and how many examples Hypothesis draws.

A test that finds no assembler is skipped where NVIDIA's packages are missing on purpose, and the texts that the emulator runs are
recorded where a session asks for it.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
from tilecopy.executors import get_executor, unavailable_reason

from . import profiles  # noqa: F401
from .emulated_texts import record
from .metadata_folders import package  # noqa: F401
from .nvidia import without_nvidia


def pytest_configure(config: pytest.Config) -> None:
    """Record the texts that the emulator runs, where a folder for them is named. JAX takes memory of a GPU as it needs it.

    Workers of xdist and the programs that tests start share compiled modules, also where none is written beside the sources: then
    pytest's cache has those of the next run, too.

    Garbage is collected less often: thousands of tests and all packages stay until the process ends, and each collection reads them all.
    They are not frozen (`gc.freeze`), because Hypothesis looks for the referrers of its random numbers among the objects that are collected.
    """
    gc.set_threshold(500_000, 20, 20)
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        temporary = Path(tempfile.gettempdir()).resolve()
        if config.pluginmanager.hasplugin("cacheprovider") and os.access(config.rootpath, os.W_OK):
            folder = config.cache.mkdir("bytecode")
            passing = folder / temporary.relative_to(temporary.anchor)  # modules in temporary folders
        else:
            folder = passing = Path(tempfile.mkdtemp())
        config.add_cleanup(partial(shutil.rmtree, passing, ignore_errors=True))
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    record(config)
    config.addinivalue_line(
        "markers", "nvidia: needs NVIDIA's compilers, and is skipped where they are missing on purpose"
    )
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else each worker of xdist takes most of a GPU


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs NVIDIA's compilers where they are missing on purpose."""
    if without_nvidia() and item.get_closest_marker("nvidia"):
        pytest.skip("without NVIDIA's packages")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skip instead of failing if the one thing that is missing is an assembler or NVRTC."""
    try:
        return (yield)
    except Exception as error:
        if without_nvidia() and _lacks_an_assembler(error):
            pytest.skip(f"without NVIDIA's packages: {str(error).splitlines()[0]}")
        raise


@pytest.fixture(scope="session")
def gpu() -> str:
    """Return the target of the first GPU; skip with the reason where there is none."""
    reason = unavailable_reason("cuda")
    if reason is not None:
        pytest.skip(f"no GPU: {reason}")
    major, minor = get_executor("cuda").devices()[0].capability
    return f"sm_{major}{minor}"


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Set none of tilecopy's variables."""
    for name in ("TILECOPY_DISABLE", "TILECOPY_ONLY", "TILECOPY_PRIORITY", "TILECOPY_STRICT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def _lacks_an_assembler(error: BaseException | None) -> bool:
    from tilecopy import AssemblerError
    from tilecopy.assemblers import available_assemblers

    while error is not None:
        if isinstance(error, AssemblerError):
            return not available_assemblers()
        error = error.__cause__ or error.__context__
    return False
