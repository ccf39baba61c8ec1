"""What the package brings with nothing else installed: the executor, and no CUDA at import."""

from __future__ import annotations

import subprocess
import sys

from tilecopy.executors import executors, get_executor
from tilecopy_cuda import CudaExecutor


def test_the_executor_comes_by_entry_point() -> None:
    assert executors()["cuda"].startswith("tilecopy-cuda ")
    assert isinstance(get_executor("cuda"), CudaExecutor)


def test_importing_it_loads_no_cuda() -> None:
    code = "import sys, tilecopy_cuda; assert not [name for name in sys.modules if name.split('.')[0] == 'cuda']"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
