"""Shared fixtures: hypothesis profiles, and the GPU where there is one."""

from __future__ import annotations

import pytest
import tilecopy_testkit.profiles  # noqa: F401
from tilecopy.executors import executor_named


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
    for name in ("TILECOPY_DISABLE", "TILECOPY_ONLY", "TILECOPY_STRICT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch
