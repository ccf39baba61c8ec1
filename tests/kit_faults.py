"""How many faults the testkit finds in engines: those of tests/kit_faults.toml, with no draws of an author's and with some.

    python tests/kit_faults.py [--id ID]... [--jobs 2] [--examples 60] [--alone] [--seed 0]

Each fault is planted in a copy of its package, in a temporary folder that comes first on the path of another process,
which holds the package's variants against the suite as their own tests do. The first pass draws nothing but what the kit
draws by itself; what it does not find is tried with the draws of an author (:func:`author_draws`). ``--alone`` leaves the second
pass out. The exit status is 1 where a fault is found by neither, or a package without a fault is flagged.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import Any

import attrs
import tilecopy as tc
from tilecopy_testkit import Description, Draw, Operand, Ranges, Start, Subject
from tilecopy_testkit.suite import first_finding

ROOT = Path(__file__).resolve().parent.parent
FAULTS = ROOT / "tests" / "kit_faults.toml"
VARIANTS = {
    "tma": ("tma", "tma_store"),
    "ldmatrix": ("ldmatrix", "stmatrix"),
    "tcgen05_ldst": ("tcgen05_ld", "tcgen05_st"),
}
"""Folder of a package -> its variants."""


@attrs.frozen
class Planted:
    """One fault: the file, from the root, gets ``new`` for ``old``."""

    id: str
    file: str
    old: str
    new: str

    @property
    def package(self) -> str:
        """The folder of its package."""
        return Path(self.file).parts[1]

    def applied(self, text: str) -> str:
        """The file with the fault; raises ValueError unless the old text occurs exactly once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.id}: the old text occurs {text.count(self.old)} times in {self.file}")
        return text.replace(self.old, self.new)


def faults() -> list[Planted]:
    """Every entry of the list."""
    return [Planted(**entry) for entry in tomllib.loads(FAULTS.read_text(encoding="utf-8"))["fault"]]


def found(package: str, fault: Planted | None, examples: int, seed: int, *, drawn: bool) -> tuple[str, float]:
    """The first rule that is found broken and what was found, or "", and the seconds."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kit-faults-") as temporary:
        folder = Path(temporary) / "src"
        shutil.copytree(ROOT / "plugins" / package / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
        if fault is not None:
            path = folder / Path(*Path(fault.file).parts[3:])
            path.write_text(fault.applied(path.read_text(encoding="utf-8")), encoding="utf-8")
        words = [sys.executable, __file__, "--child", package, "--examples", str(examples), "--seed", str(seed)]
        paths = [str(folder), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [*words, *([] if drawn else ["--alone"])],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "TILECOPY_CACHE": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    said = json.loads(done.stdout.splitlines()[-1])
    if not all(Path(each).is_relative_to(Path(temporary).resolve()) for each in said["from"]):
        raise RuntimeError(f"{package} came from {said['from']}")
    return said["found"], time.monotonic() - begun


def child(package: str, examples: int, seed: int, *, drawn: bool) -> None:
    """In the other process: print what the suite finds first."""
    finding = None
    for name in VARIANTS[package]:
        draws = author_draws(package) if drawn else None
        finding = finding or first_finding(Subject.of(name, draws=draws), examples, seeded_by=seed)
    loaded = [m.__file__ for name, m in sys.modules.items() if name.startswith(f"tilecopy_{package}") and m.__file__]
    told = "" if finding is None else f"{finding.rule}: {finding.found}"
    print(json.dumps({"found": told, "from": [str(Path(each).resolve()) for each in loaded]}))


def author_draws(package: str) -> Any:
    """What the package's author would draw: tiles and fragments as kernels have them."""
    if package == "ldmatrix":
        path = ROOT / "plugins" / "ldmatrix" / "tests" / "test_suite.py"
        spec = importlib.util.spec_from_file_location("ldmatrix_suite", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.fragments
    return {"tma": tiles, "tcgen05_ldst": tensor_fragments}[package]


def tiles(draw: Draw, ranges: Ranges) -> Description:
    """A row of tiles whose rows are split in an order of their own, or more than a box has; a swizzle, perhaps of another width; edges."""
    dtype = draw.pick([dtype for dtype in ranges.dtypes if tc.dtype_of(dtype).bits in (8, 16, 32)])
    unit = 16 // tc.dtype_of(dtype).bytes
    rows, width = draw.pick([8, 16, 32]), unit * draw.pick([2, 1, 4, 8])
    mode = draw.pick([None, "32B", "64B", "128B"])
    if long := draw.pick([False] * 7 + [True]):  # no box has so many rows, and 256 do not divide them
        rows, width, mode = 288, unit, draw.pick([None, "32B"])
    swizzle = None
    if mode is not None:
        found = tc.swizzle(mode, draw.pick([*[dtype] * 4, "uint8", "float32"]))
        swizzle, width = (found.per_element, found.swizzle_len, found.atom_len), unit << found.swizzle_len
    gap = draw.pick([0, 0, 128 // tc.dtype_of(dtype).bytes])
    split: tuple[tuple[int, int, str], ...] = ((rows, width, "m"),)
    if draw.pick([False, True, True]):  # every other row, or of each four, lies after all of the others before it
        apart, half = rows // 2 * width + gap, (rows // 2, width, "m")
        split = (half, (2, apart, "m"))
        if draw.pick([False, True]):
            split = ((rows // 4, width, "m"), (2, apart, "m"), (2, rows // 4 * width, "m"))
    tile = rows * width + 2 * gap
    depth = 1 if long else draw.pick([1, 2, 3])
    unaligned = draw.pick([0, 0, 0, 0, 0, 128]) // tc.dtype_of(dtype).bytes
    overhang = draw.pick([0, 0, 1, rows // 2])
    room = (depth, rows - (overhang if draw.pick([False, True]) else 0), width)
    place = draw.pick([0, 1])
    shared = Operand(
        "shared",
        (depth, rows, width),
        (depth, rows, width),
        (Start(0), Start(0), Start(0)),
        ((depth, -(-tile // 1024) * 1024, "m"), *split, (width, 1, "m")),
        swizzle=swizzle,
        own_start=unaligned,
        align_bytes=draw.pick([1024, 1024, 1024, 1024, 128]),
    )
    if (
        overhang and len(split) == 1 and room[1] < rows and draw.pick([False, True])
    ):  # the tile has fewer rows than the box
        shared = attrs.evolve(
            shared, shape=room, iters=((depth, *shared.iters[0][1:]), (room[1], width, "m"), shared.iters[-1])
        )
    array = (2, 3 + depth, 2 * rows - overhang, 2 * width)
    strides = (prod(array[1:]), array[2] * array[3], array[3], 1)
    memory = Operand(
        "global",
        array,
        (1, depth, rows, width),
        (Start(place), Start(draw.pick([0, 2])), Start(rows), Start(draw.pick([0, width]))),
        tuple((extent, stride, "m") for extent, stride in zip(array, strides, strict=True)),
    )
    dst, src = (shared, memory) if ranges.spaces[0][0] == "global" else (memory, shared)
    return Description(
        op="copy_async", dtype=dtype, scope="thread", threads=128, target=draw.pick(ranges.targets), dst=dst, src=src,
        issuers="one", outside="zero" if overhang else None,
    )  # fmt: skip


def tensor_fragments(draw: Draw, ranges: Ranges) -> Description:
    """Fragments of tcgen05.ld by name, of some of the warps, from a column on; lanes that are repeated, too."""
    dtype = draw.pick(["float32", "float16", "uint8"])
    per = 4 // tc.dtype_of(dtype).bytes
    repeated = draw.pick([False, False, True])
    columns, first, warps = per * draw.pick([4, 8, 12]), per * draw.pick([0, 4]), draw.pick([(0, 4), (0, 3), (1, 2)])
    rows = 32 if repeated else 32 * warps[1]
    registers = ((columns, 1, "m"),)
    begin = 0 if repeated else 32 * warps[0]
    lanes = ((32, 1, "laneid"),) if repeated else ((4, 1, "wid_in_wg"), (32, 1, "laneid"))
    fragment = Operand(
        "local", (32 if repeated else 128, columns), (rows, columns), (Start(begin), Start(0)), (*lanes, *registers)
    )
    tensor = Operand(
        "tmem",
        (32 if repeated else 128, columns + first),
        (rows, columns),
        (Start(begin), Start(first)),
        ((32 if repeated else 128, 1, "TLane"), (columns + first, 1, "TCol")),
        replica=((4, 32, "TLane"),) if repeated else (),
    )
    dst, src = (fragment, tensor) if ranges.spaces[0][0] == "tmem" else (tensor, fragment)
    return Description(
        op="copy", dtype=dtype, scope="warp" if repeated else "warpgroup", threads=128, target=draw.pick(ranges.targets), dst=dst,
        src=src,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--id", action="append", metavar="ID", help="a fault, or a package without one (repeatable)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--examples", type=int, default=60, help="copies that each rule is held against")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="only what the kit draws by itself")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.child:
        child(asked.child, asked.examples, asked.seed, drawn=not asked.alone)
        return 0
    listed = [(package, None) for package in VARIANTS] + [(fault.package, fault) for fault in faults()]
    chosen = [(p, f) for p, f in listed if not asked.id or (p if f is None else f.id) in asked.id]

    def tried(each: tuple[str, Planted | None]) -> tuple[str, Planted | None, str, str]:
        package, fault = each
        alone, seconds = found(package, fault, asked.examples, asked.seed, drawn=False)
        told, more = (
            (alone, 0.0) if alone or asked.alone else found(package, fault, asked.examples, asked.seed, drawn=True)
        )
        how = "alone" if alone else "by draws" if told else "NOT" if fault else "nothing"
        name = fault.id if fault else f"({package})"
        print(f"{name:34} {how:8} {seconds + more:6.1f} s  {told.splitlines()[0][:110] if told else ''}", flush=True)
        return name, fault, alone, told

    with ThreadPoolExecutor(asked.jobs) as pool:
        done = list(pool.map(tried, chosen))
    planted = [(alone, told) for _, fault, alone, told in done if fault is not None]
    flagged = [name for name, fault, _, told in done if fault is None and told]
    print(
        f"{len(planted)} faults: {sum(bool(alone) for alone, _ in planted)} found with no draws of an author, "
        f"{sum(bool(told) for _, told in planted)} with them; flagged without a fault: {', '.join(flagged) or 'none'}"
    )
    return int(bool(flagged) or (not asked.alone and not all(told for _, told in planted)))


if __name__ == "__main__":
    sys.exit(main())
