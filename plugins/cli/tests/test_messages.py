"""What the command line says when it refuses something, whole: the only place where its wording is tested."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tilecopy.catalog import KNOWN_COMMANDS
from tilecopy_cli.builtin_commands import tilecopy
from tilecopy_test_helpers.mentions import mentions


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("rnu",), 2, "tilecopy: No such command 'rnu'; did you mean run?; see 'tilecopy --help'"),
        (("run", "in.npy"), 2, "tilecopy: Missing argument 'DESTINATION'; see 'tilecopy run --help'"),
        (("run", "nofile.npy", "out.npy"), 1, "tilecopy: nofile.npy: no such file"),
        (
            ("run", "in.npy", "out.npy", "--tile", "0x4"),
            2,
            "tilecopy: Invalid value for '--tile': the tile must be ROWSxCOLUMNS such as 128x64, each from 1 to 2**31 - 1, got '0x4'; see 'tilecopy run --help'",
        ),
        (
            ("run", "in.npy", "out.npy", "--swizzle", "32B", "--pad", "2"),
            2,
            "tilecopy: RequestError: --swizzle and --pad must not be combined, because each sets the tile's layout in shared memory: use only one of them",
        ),
        (
            ("run", "in.npy", "out.npy", "--target", "sm_1"),
            2,
            "tilecopy: Invalid value for '--target': the value must be one of sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_100f, sm_103, sm_103a, sm_103f, sm_110, sm_110a, sm_110f, sm_120, sm_120a, sm_120f, sm_121, sm_121a, sm_121f, got 'sm_1'; did you mean sm_121?; see 'tilecopy run --help'",
        ),
        (
            ("plan", "global int8 [8]", "shared int8 [9]"),
            2,
            "tilecopy: RequestError: copy int8 global src[8] -> int8 shared dst[9], scope cta(128), sm_90a: destination extents (9,) and source extents (8,) must be equal (extents of 1 are ignored)",
        ),
        (
            ("plan", "globl int8 [8]", "shared int8 [8]"),
            2,
            "tilecopy: RequestError: src: space must be one of global, shared, local, tmem, got 'globl'; did you mean global?",
        ),
        (
            ("plan", "global int8 [8]", "shared int8 [8]", "--scope", "wrap"),
            2,
            "tilecopy: RequestError: scope must be thread, warp, warpgroup or cta:THREADS, got 'wrap'; did you mean warp?",
        ),
        (
            ("plan", "global int8 [8]", "shared int8 [8]", "--op", "copyasync"),
            2,
            "tilecopy: Invalid value for '--op': the value must be one of copy, copy_async, got 'copyasync'; did you mean copy_async?; see 'tilecopy plan --help'",
        ),
        (
            ("cuda", "global int8 [8]", "shared int8 [8]"),
            2,
            "tilecopy: Missing option '--name'; see 'tilecopy cuda --help'",
        ),
    ],
)
def test_what_is_said(
    arguments: tuple[str, ...], status: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("in.npy", np.ones((4, 4), np.float32))
    done = CliRunner().invoke(tilecopy, arguments)
    assert done.exit_code == status and done.stderr.rstrip("\n") == message


@pytest.mark.parametrize("name", KNOWN_COMMANDS)
def test_a_command_of_a_package_that_is_not_installed_names_the_package(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilecopy_cli.group.by_name", lambda group: {})
    done = CliRunner().invoke(tilecopy, (name,))
    assert done.exit_code == 2 and mentions(name, KNOWN_COMMANDS[name]).search(done.stderr)
