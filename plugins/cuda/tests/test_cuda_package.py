"""What the package brings with nothing else installed: the executor, its command, and no CUDA at import."""

from __future__ import annotations

import json
import subprocess
import sys

from click.testing import CliRunner
from tilecopy.executors import executor_named, executors
from tilecopy_cli.commands import tilecopy
from tilecopy_cuda import CudaExecutor


def test_the_executor_comes_by_entry_point() -> None:
    assert executors()["cuda"].startswith("tilecopy-cuda ")
    assert isinstance(executor_named("cuda"), CudaExecutor)


def test_importing_it_loads_no_cuda() -> None:
    code = "import sys, tilecopy_cuda; assert not [name for name in sys.modules if name.split('.')[0] == 'cuda']"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_command_comes_by_entry_point() -> None:
    done = CliRunner().invoke(tilecopy, ["cache", "info", "--json"], standalone_mode=False)
    assert {"on", "folder", "entries"} <= set(json.loads(done.stdout))
