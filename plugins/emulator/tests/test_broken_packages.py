"""Packages of instructions and executors that are broken in every way we know: an ordinary copy needs none of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HANDLER = "INSTRUCTIONS = {'acme': lambda instruction, program: lambda machine, lanes: None}\n"
RAISES = "asyncio.CancelledError() GeneratorExit() SystemExit(3) Mute() StopIteration() KeyError('no') MemoryError() OSError(5,'disk') RecursionError() RuntimeError('no') Own()"
ERRORS = """
import asyncio
class Own(BaseException): pass
class Mute(Exception):
    def __str__(self): raise ValueError
    __repr__ = __str__
"""
MODULES = {
    # name: what the module has, and what is told where 'acme' is asked for ("": it works)
    **{f"import {error}": (f"{ERRORS}raise {error}", f"failed to load: {error.split('(')[0].rpartition('.')[2]}") for error in RAISES.split()},
    **{
        f"handler {error}": (f"{ERRORS}def f(i, p): raise {error}\nINSTRUCTIONS = {{'acme': f}}", "the handler of entry point 'acme' (acme 1.0) raised")
        for error in RAISES.split()[:4]
    },
    **{
        f"step {error}": (f"{ERRORS}def s(m, l): raise {error}\nINSTRUCTIONS = {{'acme': lambda i, p: s}}", "a step of entry point 'acme' (acme 1.0) raised")
        for error in RAISES.split()[:4]
    },
    "works": (HANDLER, ""),
    "prints": (f"print('hello')\n{HANDLER}", ""),
    "leaves": (f"import sys\n{HANDLER}del sys.modules[__name__]", "failed to load: KeyError"),
    "replaces stdout": (f"import sys, io\nsys.stdout = io.StringIO()\n{HANDLER}", ""),
    "another form": (f"{HANDLER}INSTRUCTIONS['add.u32'] = INSTRUCTIONS['st.global.b32'] = INSTRUCTIONS['acme']", ""),
    "missing module": ("import acme_runtime_that_is_not_there", "failed to load: ModuleNotFoundError"),
    "syntax": ("def (:", "failed to load: SyntaxError"),
    "null byte": ("x = '\0'", "failed to load: "),
    "endless recursion": ("f = lambda: f()\nf()", "failed to load: RecursionError"),
    "asks the emulator": ("from tilecopy_emulator import run_ptx\nrun_ptx('.version 8.0\\n.target sm_90\\n.address_size 64\\n.visible .entry k() { acme; ret; }', [], grid=1, block=1)", "failed to load: "),
    "no table": ("x = 1", "has no attribute 'INSTRUCTIONS'"),
    "None": ("INSTRUCTIONS = None", "failed to load: AttributeError"),
    "a list": ("INSTRUCTIONS = [('acme', print)]", "failed to load: AttributeError"),
    "numbers": ("INSTRUCTIONS = {5: print}", "got 5: "),
    "bytes": ("INSTRUCTIONS = {b'acme': print}", "got b'acme': "),
    "no handler": ("INSTRUCTIONS = {'acme': None}", "got 'acme': None"),
    "gives None": ("INSTRUCTIONS = {'acme': lambda i, p: None}", "got None"),
    "odd text": ("class T(str):\n def __hash__(self): return 0\nINSTRUCTIONS = {T('acme'): print}", "got 'acme': "),
    "odd table": ("class T:\n def items(self): raise SystemExit(1)\nINSTRUCTIONS = T()", "failed to load: SystemExit"),
    "threes": ("class T:\n def items(self): return [(1, 2, 3)]\nINSTRUCTIONS = T()", "failed to load: ValueError"),
    "odd handler": ("class H:\n def __call__(self, i, p): pass\n def __getattr__(self, n): raise SystemExit(n)\nINSTRUCTIONS = {'acme': H()}", "failed to load: SystemExit"),
    "clash": ("INSTRUCTIONS = {'acme': print, 'add': lambda i, p: lambda m, l: None}", "'add', an opcode of the emulator"),
    "clash with ld": ("INSTRUCTIONS = dict.fromkeys(('ld', 'st', 'mov', 'acme'), lambda i, p: lambda m, l: None)", "'ld', an opcode of the emulator"),
    "clash with bulk": ("INSTRUCTIONS = {'cp.async.bulk': print}", "'cp.async.bulk', an opcode of the emulator"),
    "huge": ("INSTRUCTIONS = {f'acme.x{n}': print for n in range(20_000)}", "16384 opcodes"),
    "endless": ("from itertools import count\nclass T:\n def items(self): return ((f'acme{n}', print) for n in count())\nINSTRUCTIONS = T()", "16384 opcodes"),
}  # fmt: skip
GROUPS = ("instructions.v1", "executors.v1")
POINT = "[tilecopy.{group}]\nacme = acme_module\n"
METADATA = "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n"
DISTRIBUTIONS = {
    # name: entry points, metadata, and what is told of instructions
    "missing attribute": ("[tilecopy.{group}]\nacme = acme_module:nothing\n", METADATA, "failed to load: AttributeError"),
    "no name of a module": ("[tilecopy.{group}]\nacme = 5 %\n", METADATA, "failed to load: "),
    "no value": ("[tilecopy.{group}]\nacme =\n", METADATA, "failed to load: "),
    "extras": ("[tilecopy.{group}]\nacme = acme_module [fast,new]\n", METADATA, ""),
    "no equals": ("[tilecopy.{group}]\nacme\n", METADATA, "the entry points of acme 1.0 cannot be read"),
    "not utf-8": (b"[tilecopy.{group}]\nacme = acme_m\xf6dule\n", METADATA, "the entry points of acme 1.0 cannot be read"),
    "a bom": (b"\xff\xfe[tilecopy.{group}]\n", METADATA, "the entry points of acme 1.0 cannot be read"),
    "another version": ("[tilecopy.{group}2]\nacme = acme_module\n", METADATA, "made for hook API"),
    "newer core": (POINT, METADATA + "Requires-Dist: tilecopy-core>=99\n", "it requires tilecopy-core>=99"),
    "metadata not utf-8": (POINT, METADATA.encode() + b"Author: M\xfcller\n", ""),
    "metadata missing": (POINT, None, ""),
}  # fmt: skip
CHILD = r"""
import contextlib, io, json, os, sys, warnings
import numpy as np
import tilecopy as tc
import tilecopy_bulk.instructions, tilecopy_core.registry, tilecopy_cuda.cuda, tilecopy_emulator.bulk, tilecopy_emulator.mma
from pathlib import Path
from tilecopy.executors import get_executor, choose_executor, executors
from tilecopy_emulator import run_ptx

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 out) {\n"
HEAD += ".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p; .shared .align 16 .b8 s[256]; .shared .align 8 .b64 m;\n"
HEAD += "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x; mad.wide.u32 %d3, %r1, 4, %d1; mad.wide.u32 %d4, %r1, 4, %d2;\n"
COPY = "ld.global.b32 %r2, [%d3]; add.u32 %r2, %r2, 7; st.global.b32 [%d4], %r2;"
BULK = '''setp.eq.u32 %p, %r1, 0; @%p mbarrier.init.shared.b64 [m], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
@%p mbarrier.arrive.expect_tx.shared.b64 _, [m], 256;
@%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%d1], 256, [m];
W: mbarrier.try_wait.parity.shared.b64 %p, [m], 0;
@!%p bra W;
mov.u32 %r3, s; mad.lo.u32 %r3, %r1, 4, %r3; ld.shared.b32 %r2, [%r3]; add.u32 %r2, %r2, 7; st.global.b32 [%d4], %r2;'''

def run(body):
    out = np.zeros(64, np.uint32)
    run_ptx(HEAD + body + "\nret; }", [np.arange(64, dtype=np.uint32), out], grid=1, block=64)
    return out.tolist() == list(range(7, 71))

def told(act):
    try:
        act()
    except tc.TilecopyError as raised:
        return str(raised)
    return ""

warnings.simplefilter('error')

def instructions():
    right = [run(COPY), run(BULK)]
    asked = told(lambda: run("acme;"))
    return right + [run(COPY + " //")], asked

def executor():
    right = [choose_executor("emulator", None).name == "emulator", run(COPY)]
    right.append(choose_executor(None, None) is not None)
    asked = told(lambda: get_executor("acme"))
    return right + ["emulator" in executors(), run(COPY + " //")], asked

np.unique([0]), tilecopy_core.registry.registry.installed_sources("tilecopy.none.v1")  # what these import is imported once, before the forks
for number, folder in enumerate(sorted(Path(sys.argv[1]).iterdir())):
    if number >= 4:
        os.wait()
    if os.fork() == 0:
        sys.path.insert(0, str(folder))
        before, result = sys.stdout, {}
        try:
            right, asked = instructions() if (folder / "instructions.v1").exists() else executor()
            result = {"right": right, "asked": asked, "stdout": sys.stdout is before}
        finally:
            (folder / "result.json").write_text(json.dumps(result))
            os._exit(0)
for _ in range(4):
    os.wait()
"""


def install(folder, group, module, points=POINT, metadata=METADATA, name="acme"):
    """A distribution as an installer leaves it, whatever is wrong with it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / group).touch()
    (folder / f"{name}_module.py").write_text(module)
    for file, content in (("entry_points.txt", points), ("METADATA", metadata)):
        if content is not None:
            raw = content if isinstance(content, bytes) else content.encode()
            (info / file).write_bytes(raw.replace(b"{group}", group.encode()))


CASES = {
    **{f"{name}, {group}": (group, module, POINT, METADATA, told) for name, (module, told) in MODULES.items() for group in GROUPS if group == GROUPS[0] or name.startswith("import ")},
    **{f"{name}, {group}": (group, HANDLER, *rest) for name, rest in DISTRIBUTIONS.items() for group in GROUPS},
}  # fmt: skip
TWO = {
    # entry points of a second distribution, its name, and what is told
    "same distribution": ("[tilecopy.{group}]\nacme = acme_module\n", "acme", ""),
    "same entry point and opcode": (
        "[tilecopy.{group}]\nacme = acme_module\n",
        "other",
        "two entry points of tilecopy.instructions.v1 have the opcode prefix 'acme'",
    ),
    "same opcode": (
        "[tilecopy.{group}]\nother = acme_module\n",
        "other",
        "two entry points of tilecopy.instructions.v1 have the opcode prefix 'acme'",
    ),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What came of every case, each in a process of its own."""
    root = tmp_path_factory.mktemp("broken")
    for number, (group, module, points, metadata, _) in enumerate(CASES.values()):
        install(root / f"{number:03}", group, module, points, metadata)
    for number, (points, package, _) in enumerate(TWO.values(), len(CASES)):
        install(root / f"{number:03}", GROUPS[0], HANDLER)
        install(root / f"{number:03}", GROUPS[0], HANDLER, points, f"Name: {package}\nVersion: 0.9\n", name="older")
    points = root / f"{len(CASES) + len(TWO):03}" / "acme-1.0.dist-info" / "entry_points.txt"
    points.mkdir(parents=True)
    (points.parent.parent / GROUPS[0]).touch()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(root)],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "", "what a package prints goes to standard error"
    return [json.loads((folder / "result.json").read_text()) for folder in sorted(root.iterdir())]


TOLD = {
    **{name: case[-1] if case[0] == GROUPS[0] else "acme" for name, case in CASES.items()},  # a module is no executor
    **{name: told for name, (_, _, told) in TWO.items()},
    "a folder": "'acme' is not supported",
}


@pytest.mark.parametrize("name", TOLD)
def test_an_ordinary_copy_is_right_and_what_is_asked_for_says_what_is_wrong(results, name):
    found = results[list(TOLD).index(name)]
    assert found, "the process was ended"
    assert all(found["right"])
    assert found["stdout"]
    assert TOLD[name] in found["asked"] if TOLD[name] else found["asked"] == ""
