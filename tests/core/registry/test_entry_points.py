"""What is said of an entry point that cannot be used, and plugins that are installed as packages.

Packages are folders as installers leave them; most cases are faults that users of other tools reported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from tilecopy.executors import executors
from tilecopy_test_helpers.forked_programs import run_program
from tilecopy_test_helpers.many_variants import MODULE
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.metadata_folders import GROUP

from tilecopy_core import PluginError
from tilecopy_core.registry import PluginWarning, installed_sources, load_unique
from tilecopy_core.registry.entry_points import core_excluded


def test_a_file_of_entry_points_in_utf_16_is_reported(
    package: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = package("site", "acme_one", "1.0")
    (info / "entry_points.txt").write_text("[tilecopy.variants.v1]\none = acme\n", encoding="utf-16")
    assert ("acme-one", "acme-one 1.0") in [
        (source.name, source.owner) for source in installed_sources("tilecopy.variants.v1")
    ]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    done = subprocess.run([sys.executable, "-m", "tilecopy", "doctor"], capture_output=True, text=True, check=False)
    assert "UTF-8" in done.stdout and "acme-one" in done.stdout, done.stderr


@pytest.mark.parametrize("value", ["acme-one", "acme_one:", "", "acme one", "1acme", "acme:a-b", ":acme"])
def test_an_object_reference_that_is_none_is_told_with_its_value(value: str, package: Callable[..., Path]) -> None:
    package("site", "acme_one", "1.0", f"one = {value}")
    with pytest.raises(PluginError) as error:
        load_unique(installed_sources(GROUP))
    assert mentions("acme-one", "1.0").search(str(error.value)) and f"one = {value}" in str(error.value)


@pytest.mark.parametrize("value", ["json", "json:dumps", "os.path : join", "json:JSONDecoder.decode", "json [extra]"])
def test_every_form_of_an_object_reference_is_loaded(value: str, package: Callable[..., Path]) -> None:
    package("site", "acme_one", "1.0", f"one = {value}")
    assert load_unique(installed_sources(GROUP)) is not None


@pytest.mark.parametrize("name", ["one,two", "one two", "é"])
def test_a_name_that_the_environment_lists_cannot_have_is_refused(name: str, package: Callable[..., Path]) -> None:
    package("site", "acme_one", "1.0", f"{name} = json")
    with pytest.raises(PluginError) as error:
        load_unique(installed_sources(GROUP))
    assert f"{name} = json" in str(error.value)


def test_one_name_with_two_modules_in_one_package_is_refused(package: Callable[..., Path]) -> None:
    package("site", "acme_one", "1.0", "one = json\none = pickle")
    with pytest.raises(PluginError) as error:
        load_unique(installed_sources(GROUP))
    assert "json" in str(error.value) and "pickle" in str(error.value)


def test_the_name_of_a_first_party_executor_belongs_to_its_package(package: Callable[..., Path]) -> None:
    before = executors()
    package("site", "acme_fast", "1.0", "emulator = acme\nfast = acme", group="tilecopy.executors.v1")
    assert executors() == {**before, "fast": "acme-fast 1.0"}


def install(
    folder: Path, name: str, text: str, *, package: str = "", requires: str = "", group: str = "variants.v1"
) -> None:
    """A package as an installer leaves it: a module and its metadata."""
    package = package or f"acme-{name}"
    (folder / f"plug_{name}.py").write_text(textwrap.dedent(text))
    info = folder / f"{package.replace('-', '_')}-2.5.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.5\n"
        + (f"Requires-Dist: {requires}\n" if requires else "")
        + "\n"
    )
    (info / "entry_points.txt").write_text(f"[tilecopy.{group}]\n{name} = plug_{name}\n")


PLAN = """
    import tilecopy as tc
    a = tc.Buffer((32, 32), "float32", space="global", name="A")
    s = tc.Buffer((32, 32), "float32", space="shared", name="s")
    plan = tc.plan(s[:, :], a[:, :], scope=tc.warp(), target="sm_90")
    print(plan.variant, *(f"{name}: {reason}" for name, reason in plan.declined.items()), sep="\\n")
"""


def python(folder: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path} | environ
    imported = ("tilecopy_core.dispatch.plan", "tilecopy_cli.builtin_commands")
    return run_program(textwrap.dedent(code), modules=imported, environment=environment, folder=folder)


def test_bad_packages_do_not_cost_the_good_ones(tmp_path: Path) -> None:
    install(tmp_path, "exits", "import sys; sys.exit(3)")
    install(tmp_path, "broken", "import acme_runtime_that_is_not_there")
    install(tmp_path, "syntax", "def (:")
    install(tmp_path, "high", MODULE.format(name="high", priority="'high'"))
    install(tmp_path, "gmem_smem", "raise AssertionError('imported')", package="acme-impostor")
    install(tmp_path, "newer", MODULE.format(name="newer", priority=99), requires="tilecopy-core (>=99,<100)")
    install(tmp_path, "old", MODULE.format(name="old", priority=99), group="variants.v0")
    install(tmp_path, "talks", 'print("hello")\n' + MODULE.format(name="talks", priority=-5))
    done = python(tmp_path, PLAN)
    chosen, *declined = done.stdout.splitlines()
    assert (done.returncode, chosen) == (0, "gmem_smem"), done.stderr
    reasons = dict(line.split(": ", 1) for line in declined)
    assert mentions("acme-exits", "2.5", "SystemExit", 3).search(reasons["exits"])
    assert mentions("acme-broken", "2.5", "ModuleNotFoundError").search(reasons["broken"])
    assert mentions("SyntaxError").search(reasons["syntax"])
    assert mentions("priority", "high").search(reasons["high"])
    assert mentions("acme-impostor", "2.5").search(reasons["gmem_smem (acme-impostor 2.5)"])
    assert mentions("tilecopy-core", ">=99,<100").search(reasons["newer"])
    assert mentions("variants.v0").search(reasons["old"])
    assert mentions("priority", -5).search(reasons["talks"]) and "hello" in done.stderr
    for name in ("exits", "broken", "syntax", "high", "newer"):
        assert done.stderr.count(f"TILECOPY_DISABLE={name}") == 1
        assert f"TILECOPY_DISABLE={name}" in reasons[name] and f"pip uninstall acme-{name}" in reasons[name]
    quiet = python(tmp_path, PLAN, TILECOPY_ONLY="gmem_smem")
    assert quiet.stdout.splitlines()[0] == "gmem_smem"
    assert quiet.stderr.count(PluginWarning.__name__) == 1, "the impostor of a name that is wanted, and nobody else"


def test_what_a_plugin_prints_at_import_is_no_json(tmp_path: Path) -> None:
    install(tmp_path, "talks", 'print("hello")\n' + MODULE.format(name="talks", priority=99))
    done = python(tmp_path, 'from tilecopy_cli.builtin_commands import tilecopy; tilecopy(["variants", "--json"])')
    assert '"talks"' in done.stdout and "hello" not in done.stdout and "hello" in done.stderr


def test_damaged_metadata_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path, "torn", MODULE.format(name="torn", priority=99))
    (tmp_path / "acme_torn-2.5.dist-info" / "entry_points.txt").write_text("[tilecopy.variants.v1]\ntorn\n")
    install(tmp_path, "binary", MODULE.format(name="binary", priority=99))
    (tmp_path / "acme_binary-2.5.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[tilecopy]")
    install(tmp_path, "nameless", MODULE.format(name="nameless", priority=99))
    (tmp_path / "acme_nameless-2.5.dist-info" / "METADATA").unlink()
    done = python(tmp_path, PLAN)
    assert done.stdout.splitlines()[0] == "nameless", done.stderr
    assert mentions("acme-torn", "2.5").search(done.stderr)


def test_an_executor_that_fails_to_load_is_named(tmp_path: Path) -> None:
    install(tmp_path, "dud", "import sys; sys.exit(1)", group="executors.v1")
    install(tmp_path, "empty", "plug = 1", group="executors.v1")
    install(tmp_path, "cuda", "raise AssertionError('imported')", group="executors.v1", package="acme-impostor")
    install(tmp_path, "twin", "", group="executors.v1", package="acme-one")
    install(tmp_path, "twin", "", group="executors.v1", package="acme-two")
    done = python(
        tmp_path,
        """
        import tilecopy as tc
        from types import FrameType, SimpleNamespace
        from tilecopy.executors import choose_executor, get_executor, executors
        print(list(executors()))
        print(choose_executor(None, SimpleNamespace(name="k")).name)
        for name in ("dud", "empty", "twin", "cudda", 5):
            try:
                get_executor(name)
            except tc.TilecopyError as error:
                print(type(error).__name__, error)
        """,
        CUDA_VISIBLE_DEVICES="",
    )
    assert done.returncode == 0, done.stderr
    listed, chosen, *lines = done.stdout.splitlines()
    assert listed == "['cuda', 'dud', 'empty', 'emulator', 'twin']"
    assert chosen == "emulator", "what fails to load is passed over"
    assert lines[0].startswith(
        "PluginError executor dud: acme-dud 2.5 failed to load: SystemExit: 1; pip install --upgrade"
    )
    assert lines[1].startswith("PluginError executor empty: acme-empty 2.5 failed to load: TypeError")
    assert "registered by acme-one 2.5 and by acme-two 2.5" in lines[2]
    assert "did you mean cuda" in lines[3] and "got 5" in lines[4]


@pytest.mark.parametrize(
    ("requirement", "core", "excluded"),
    [
        ("tilecopy-core>=0.2", "0.1.0", True),
        ("tilecopy_core (>=0.2,<1)", "0.1.9", True),
        ("tilecopy-core[cli]~=1.0", "0.9", True),
        ("tilecopy-core>0.1", "0.1.0", True),
        ("Tilecopy.Core==0.3.*", "0.2", True),
        ("tilecopy-core>=0.1,<0.2", "0.1.0", False),
        ("tilecopy-core<0.1", "0.5", True),
        ("tilecopy-core>=0.1,<0.2", "0.2.0", True),
        ("tilecopy-core>=0.1,<=0.2", "0.2.0", False),
        ("tilecopy-core~=0.1", "0.2.0", False),
        ("tilecopy-core~=0.1.3", "0.2.0", True),
        ("tilecopy-core~=0.2.0", "0.2.4", False),
        ("tilecopy-core==0.2.*", "0.2.4", False),
        ("tilecopy-core==1.0.*", "1.0.0", False),
        ("tilecopy-core!=0.2.0", "0.2", True),
        ("tilecopy-core!=0.1.*", "0.2", False),
        ("tilecopy-core==0.1.0", "0.2", True),
        ("tilecopy-core>=0.1.0.0", "0.1", False),
        ("tilecopy-core", "0.1", False),
        ("tilecopy-core>=9; extra == 'new'", "0.1", False),
        ("tilecopy-core-tools>=9", "0.1", False),
        ("tilecopy-core @ file:///tmp/x", "0.1", False),
        ("", "0.1", False),
    ],
)
def test_which_requirements_exclude_the_core(requirement: str, core: str, excluded: bool) -> None:
    """As packaging has it, for what is no pre-release and has no marker."""
    assert bool(core_excluded((requirement,), core)) == excluded
