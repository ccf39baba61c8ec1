"""Use every installed package of tilecopy, and print what was done. tests/tools/install_lines.py runs this program."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distributions, entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from install_subset import COPIES, planned

OURS = {each.metadata["Name"] for each in distributions() if each.metadata["Name"].startswith("tilecopy")}
VARIANTS = {point.name for point in entry_points(group="tilecopy.variants.v1")} & {*COPIES}
done = []


def variants() -> None:
    """The plan of a copy by each variant, and with the package tilecopy its PTX."""
    for name in sorted(VARIANTS):
        plan = planned(name, variant=name)
        assert plan.variant == name
        if "tilecopy" in OURS:
            import tilecopy as tc

            assert ".visible .entry copy(" in tc.ptx_text(plan)
    done.append(f"plans by {', '.join(sorted(VARIANTS)) or 'no variant'}")


def kernels() -> None:
    """A kernel that doubles an array, through shared memory where a variant is there, on every executor that runs here."""
    import tilecopy as tc
    from tilecopy.assemblers import assemble, available_assemblers
    from tilecopy.executors import executors, unavailable_reason

    k = tc.KernelBuilder("double", threads=32)
    A, B = k.param("A", (32, 4), "float32"), k.param("B", (32, 4), "float32")
    source = A
    if "gmem_smem" in VARIANTS:
        source = k.shared((32, 4), "float32", name="tile")
        k.warp.copy(source[:, :], A[:, :])
        k.cta_sync()
    for i in range(4):
        k.store(B[k.thread_id(), i], k.load(source[k.thread_id(), i]) * 2)
    kernel = k.build(target="sm_80", grid=1)
    a = np.arange(128, dtype=np.float32).reshape(32, 4)
    here = [name for name in executors() if unavailable_reason(name) is None]
    for name in here:
        b = np.zeros_like(a)
        kernel(a, b, executor=name)
        assert (b == a * 2).all()
    for name in available_assemblers():
        assert assemble(kernel.ptx, "sm_80", name)
    done.append(
        f"a kernel on {', '.join(here) or 'no executor'}, assembled by {', '.join(available_assemblers()) or 'none'}"
    )
    if "tilecopy-cli" in OURS:
        commands(kernel.ptx, emulate="tilecopy-emulator" in OURS)
    if "tilecopy-relayout" in OURS:
        relayouts(runs=bool(here))


def commands(ptx: str, *, emulate: bool) -> None:
    """The command, and where the emulator is there a kernel of a file."""
    with TemporaryDirectory() as folder:
        Path(folder, "double.ptx").write_text(ptx)
        tried = [["--version"], ["doctor"], ["variants", "--json"]]
        tried += [["emulate", "double.ptx", "arange:float32:32x4", "zeros:float32:32x4"]] if emulate else []
        for words in tried:
            command = [str(Path(sys.executable).with_name("tilecopy")), *words]
            said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert said.returncode == 0, f"{command}: {said.stdout}{said.stderr}"
            if words[0] == "variants":
                status = {row["name"]: row["status"] for row in json.loads(said.stdout)}
                assert all(status[name] == "ready" for name in VARIANTS), status
    done.append(f"tilecopy {', '.join(words[0] for words in tried)}")


def relayouts(*, runs: bool) -> None:
    """A relayout of a NumPy array; where nothing runs it, the error that says what to install."""
    import tilecopy as tc
    from tilecopy_relayout import relayout

    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    try:
        assert (relayout(x, (0, 2, 3, 1)) == x.transpose(0, 2, 3, 1)).all() and runs
    except tc.LaunchError as error:
        assert not runs and "pip install plugins/emulator" in str(error)
    done.append(f"a relayout {'of a NumPy array' if runs else 'that nothing here runs'}")


def exports() -> None:
    """A copy as a function of CUDA C++."""
    assert "load_tile(" in planned("gmem_smem").cuda("load_tile")
    done.append("a function of CUDA C++")


def main() -> None:
    """Import every package of ours, and use it."""
    for name in sorted(OURS):
        import_module(name.replace("-", "_"))
    variants()
    if "tilecopy" in OURS:
        kernels()
    if "tilecopy-export" in OURS and "gmem_smem" in VARIANTS:
        exports()
    assert ("tilecopy-cli" in OURS) == (shutil.which("tilecopy", path=str(Path(sys.executable).parent)) is not None)
    print("; ".join(done))


if __name__ == "__main__":
    main()
