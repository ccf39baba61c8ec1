"""tilecopy from a zip file, and in programs that do not have the metadata or the data files of its packages."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    "tilecopy_core": ROOT / "tilecopy_core",
    "tilecopy": ROOT / "plugins" / "kernel" / "src" / "tilecopy",
    "tilecopy_partitions": ROOT / "plugins" / "partitions" / "src" / "tilecopy_partitions",
    "tilecopy_gmem_smem": ROOT / "plugins" / "gmem_smem" / "src" / "tilecopy_gmem_smem",
}
pytestmark = pytest.mark.skipif(not all(path.exists() for path in SOURCES.values()), reason="this is not a checkout")
PROGRAM = """
import os, sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_distributions(cls, context):
        kept = os.environ["KEEP"].split()
        return [found for found in super().find_distributions(context) if found.metadata["Name"] in kept]

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
import tilecopy as tc
k = tc.KernelBuilder("k", threads=128)
A = k.param("A", (128, 64), "float16")
tile = k.shared((128, 64), "float16", name="tile")
try:
    k.cta.copy(tile[:, :], A[:, :])
    kernel = k.build(target="sm_80", grid=1)
    print("ok", tc.__file__, "ld.global" in kernel.ptx)
except tc.TilecopyError as error:
    print(type(error).__name__, str(error).replace(chr(10), " "))
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A zip file with the core, the partitions, the builder and one variant, and the metadata of the two that declare entry points."""
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as file:
        for package, folder in SOURCES.items():
            for source in folder.rglob("*"):
                if source.suffix in (".py", ".txt"):
                    file.write(source, f"{package}/{source.relative_to(folder).as_posix()}")
        for name, group, point in (
            ("zipped-variants", "tilecopy.variants.v1", "gmem_smem = tilecopy_gmem_smem"),
            ("zipped-known", "tilecopy.known.v1", "first_party = tilecopy_partitions.catalog:KNOWN_VARIANTS"),
        ):
            info = f"{name.replace('-', '_')}-1.0.dist-info"
            file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            file.writestr(f"{info}/entry_points.txt", f"[{group}]\n{point}\n")
    return path


def run(bundle: Path, *keep: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(bundle), "KEEP": " ".join(keep)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_a_kernel_is_built_from_a_zip_file(bundle: Path) -> None:
    assert run(bundle, "zipped-variants", "zipped-known").split() == ["ok", f"{bundle}/tilecopy/__init__.py", "True"]


def test_a_program_without_metadata_is_told_that_they_are_missing(bundle: Path) -> None:
    text = run(bundle)
    assert text.startswith("NoVariantError") and "dist-info" in text and "pip install" not in text


def test_a_missing_data_file_is_not_blamed_on_the_variant(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(bundle) as file:
        file.extractall(folder)
    (folder / "tilecopy_core" / "ptx" / "opcodes.txt").unlink()
    text = run(folder, "zipped-variants", "zipped-known")
    assert text.startswith("PtxError") and "opcodes.txt" in text and "gmem_smem" not in text
