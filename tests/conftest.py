"""Shared fixtures: hypothesis profiles, and the GPU where there is one."""

from __future__ import annotations

import os
import tempfile

import pytest
import tilecopy_test_helpers.profiles  # noqa: F401
from tilecopy.executors import executor_named


def pytest_configure(config: pytest.Config) -> None:
    """Let the programs that tests start share compiled modules, also where none is written beside the sources."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name


@pytest.fixture(scope="session")
def gpu() -> str:
    """The target of the first GPU; skips with the reason where there is none."""
    cuda = executor_named("cuda")
    why = cuda.why_unavailable()
    if why is not None:
        pytest.skip(f"no GPU: {why}")
    major, minor = cuda.devices()[0].capability
    return f"sm_{major}{minor}"


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No TILECOPY_ variable set."""
    for name in ("TILECOPY_DISABLE", "TILECOPY_ONLY", "TILECOPY_PRIORITY", "TILECOPY_STRICT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch
