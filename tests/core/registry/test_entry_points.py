"""Which of the packages along sys.path count, and what is said of an entry point that cannot be used.

Packages are folders as installers leave them; most cases are faults that users of other tools reported.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.metadata import Distribution
from pathlib import Path

import pytest
import tilecopy as tc
from packaging.version import Version
from tilecopy.executors import executors
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core import PluginError
from tilecopy_core.registry import Installed, PluginWarning, distributions, installed_sources, load_unique
from tilecopy_core.registry.entry_points import core_excluded

GROUP = "acme.plugins.v1"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs a package into a folder, which is put at the end of ``sys.path``; returns the folder of its metadata."""

    def install(folder: str, name: str, version: str, points: str = "", requires: str = "", group: str = GROUP) -> Path:
        if str(tmp_path / folder) not in sys.path:
            monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / folder)])
        info = tmp_path / folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        head = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n{requires}\n"
        (info / "METADATA").write_text(head, encoding="utf-8")
        if points:
            (info / "entry_points.txt").write_text(f"[{group}]\n{points}\n", encoding="utf-8")
        return info

    return install


def sources() -> list[tuple[str, str]]:
    return [(source.name, source.owner) for source in installed_sources(GROUP)]


@pytest.mark.parametrize("versions", [("0.1.0", "0.3.0"), ("1.2", "2.2"), ("10.0", "9.0"), ("2.0", "2.0.1")])
def test_of_two_versions_in_one_folder_the_highest_counts(
    versions: tuple[str, str], package: Callable[..., Path]
) -> None:
    """``pip install --target --upgrade`` leaves both (pypa/pip#8063)."""
    for version in versions:
        package("site", "acme_one", version, f"v{version.replace('.', '_')} = acme")
    highest = max(versions, key=lambda version: [int(part) for part in version.split(".")])
    assert sources() == [(f"v{highest.replace('.', '_')}", f"acme-one {highest}")]
    (one,) = [found for found in distributions() if found.name == "acme-one"]
    assert one.other_versions == tuple(version for version in versions if version != highest)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("2.0rc1", "2.0"),
        ("2.0.dev3", "2.0a1"),
        ("2.0b2", "2.0rc1"),
        ("2.0alpha3", "2.0preview1"),
        ("2.0", "2.0.post1"),
        ("2.0rc2", "2.0rc10"),
        ("2.0", "2.0+local"),
        ("9.0", "1!0.1"),
    ],
)
def test_pre_releases_epochs_and_local_versions_are_ordered_as_packaging_orders_them(
    older: str, newer: str, package: Callable[..., Path]
) -> None:
    assert Version(older) < Version(newer)
    for folder, versions in (("one", (older, newer)), ("two", (newer, older))):
        for version in versions:
            package(folder, f"acme_{folder}", version, "plugin = acme")
    assert sources() == [("plugin", f"acme-{folder} {newer}") for folder in ("one", "two")]


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


def test_empty_fields_of_metadata_are_those_of_the_folder(package: Callable[..., Path]) -> None:
    info = package("site", "acme_one", "1.0", "plugin = acme")
    (info / "METADATA").write_text("Name: \nVersion: \n")
    assert sources() == [("plugin", "acme-one 1.0")]


def test_the_first_folder_counts_as_for_import(package: Callable[..., Path]) -> None:
    package("front", "acme_one", "1.0", "one = acme")
    behind = package("back", "acme_one", "2.0", "one = acme\ntwo = acme")
    assert sources() == [("one", "acme-one 1.0")]
    (one,) = [found for found in distributions() if found.name == "acme-one"]
    assert one.shadowed == (str(behind),)


def test_a_copy_behind_one_without_the_group_is_not_used(package: Callable[..., Path]) -> None:
    package("front", "acme_one", "2.0")
    package("back", "acme_one", "1.0", "one = acme")
    assert sources() == []


def test_packages_without_metadata_are_named_by_their_folders(package: Callable[..., Path]) -> None:
    for name in ("acme_one", "acme_two"):
        (package("site", name, "1.0", f"{name[5:]} = acme") / "METADATA").unlink()
    assert sources() == [("one", "acme-one 1.0"), ("two", "acme-two 1.0")]


def test_what_pip_is_about_to_delete_does_not_count(package: Callable[..., Path]) -> None:
    """jaraco/keyring#451: folders that start with ``~``."""
    info = package("site", "acme_one", "1.0", "one = acme")
    shutil.copytree(info, info.with_name("~cme_one-0.9.dist-info"))
    assert sources() == [("one", "acme-one 1.0")]


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


def test_requirements_of_an_egg_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "acme_one.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 1.2\nName: acme-one\nVersion: 1.0\n", encoding="utf-8")
    (info / "requires.txt").write_text("tilecopy-core>=9\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\none = json\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (source,) = installed_sources(GROUP)
    assert source.owner == "acme-one 1.0" and "tilecopy-core>=9" in source.needs


@pytest.mark.parametrize("entry", [None, b"/usr/lib"])
def test_entries_of_the_path_that_import_skips_are_skipped(
    entry: object, package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    package("site", "acme_one", "1.0", "one = acme")
    monkeypatch.setattr(sys, "path", [*sys.path, entry])
    assert sources() == [("one", "acme-one 1.0")]


def test_a_metadata_finder_that_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(context: object = None) -> list[object]:
            raise RuntimeError("finder of somebody else")

    for finder in (Broken, Broken()):
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
        with pytest.raises(PluginError, match=mentions(Broken.__qualname__, "finder of somebody else")):
            installed_sources(GROUP)
        monkeypatch.undo()


def test_the_metadata_of_packages_are_read_once_for_all_groups(
    package: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    package("site", "acme_one", "1.0", "one = acme")
    reads: list[str] = []
    listing = sys.modules[Installed.__module__]
    text_of = listing.text_of

    def counted(metadata: Distribution, name: str) -> str:
        reads.append(name)
        return text_of(metadata, name)

    monkeypatch.setattr(listing, "text_of", counted)  # whichever package's finder gives the metadata
    assert sources() == [("one", "acme-one 1.0")] and "entry_points.txt" in reads
    reads.clear()
    assert sources() == [("one", "acme-one 1.0")] and not installed_sources("acme.others.v1") and not reads
    package("site", "acme_two", "1.0", "two = acme")
    assert sources() == [("one", "acme-one 1.0"), ("two", "acme-two 1.0")]


def test_a_copy_that_an_installed_variant_declines_by_name_reads_no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons and explanations ask one variant after the other."""
    k = tc.KernelBuilder("k", threads=32)
    source, tile = k.param("A", (32, 8), "float32"), k.shared((32, 8), "float32")
    searches: list[object] = []

    class Counting:
        find_spec = staticmethod(lambda *_: None)
        find_distributions = staticmethod(lambda context=None: searches.append(context) or [])

    def declined(variant: str) -> None:
        with pytest.raises(tc.NoVariantError):
            tc.plan(tile[:, :], source[:, :], scope=tc.cta(32), target="sm_90", variant=variant)

    declined("dsmem")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Counting])
    declined("dsmem")
    assert not searches
    declined("late_copy")
    assert searches


LATE = """
from tilecopy import Accept, Decline, Variant, hookimpl
variant = Variant("late_copy", "copy", 99, "a test", (("global", "shared"),))
@hookimpl
def tilecopy_predicate(request): return Accept()
@hookimpl
def tilecopy_partition(request): return "everything"
@hookimpl
def tilecopy_emit(request, partition, ptx): pass
"""


@pytest.mark.parametrize("present", [False, True])
def test_a_package_that_is_installed_while_the_process_runs_is_used_or_a_restart_is_asked_for(
    present: bool, package: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook: the error says what to install, and asking again after that works."""
    monkeypatch.setattr("tilecopy_core.registry.registry._of_this_process", functools.cache(tc.Registry))
    package("site", "acme_other", "1.0")
    if present:
        old = package("site", "acme_late", "1.0", "").with_name("acme_late-1.0.dist-info")
        (old / "entry_points.txt").write_text(
            "[tilecopy.variants.v1]\nlate_before = late_before_module\n", encoding="utf-8"
        )
        (tmp_path / "site" / "late_before_module.py").write_text(
            LATE.replace("late_copy", "late_before"), encoding="utf-8"
        )
    k = tc.KernelBuilder("k", threads=32)
    source, tile = k.param("A", (32, 8), "float32"), k.shared((32, 8), "float32")

    def planned() -> str:
        return tc.plan(tile[:, :], source[:, :], scope=tc.cta(32), target="sm_90", variant="late_copy").variant

    with pytest.raises(tc.NoVariantError):
        planned()
    if present:
        shutil.rmtree(old)
    info = package("site", "acme_late", "2.0", "")
    (info / "entry_points.txt").write_text("[tilecopy.variants.v1]\nlate_copy = late_copy_module\n", encoding="utf-8")
    (tmp_path / "site" / "late_copy_module.py").write_text(LATE, encoding="utf-8")
    if present:
        with pytest.raises(PluginError):
            planned()
    else:
        assert planned() == "late_copy"


def test_where_warnings_are_errors_every_copy_that_is_affected_fails(package: Callable[..., Path]) -> None:
    """numpy/numpy#24294: else one test of a run fails, whichever is the first."""
    info = package("site", "acme_torn", "1.0", "")
    (info / "entry_points.txt").write_text("[tilecopy.variants.v1]\ntorn = acme_gone\n", encoding="utf-8")
    registry = tc.Registry()
    for _ in range(3):
        with pytest.raises(PluginWarning):  # the suite makes errors of warnings
            registry.plugins()


def test_the_command_line_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "tilecopy", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "tilecopy" in done.stdout


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


GOOD = """
    from tilecopy import Accept, Variant, hookimpl
    variant = Variant({name!r}, "copy", 99, "a test", (("global", "shared"),))
    @hookimpl
    def tilecopy_predicate(request):
        return Accept()
    @hookimpl
    def tilecopy_partition(request):
        return 1
    @hookimpl
    def tilecopy_emit(request, partition, ptx):
        ptx.instr("bar.warp.sync", 0xFFFFFFFF)
"""


PLAN = """
    import tilecopy as tc
    a = tc.Buffer((32, 32), "float32", space="global", name="A")
    s = tc.Buffer((32, 32), "float32", space="shared", name="s")
    found = tc.plan(s[:, :], a[:, :], scope=tc.warp(), target="sm_90")
    print(found.variant, *(f"{name}: {reason}" for name, reason in found.declined.items()), sep="\\n")
"""


def python(folder: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])} | environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_bad_packages_do_not_cost_the_good_ones(tmp_path: Path) -> None:
    install(tmp_path, "exits", "import sys; sys.exit(3)")
    install(tmp_path, "broken", "import acme_runtime_that_is_not_there")
    install(tmp_path, "syntax", "def (:")
    install(tmp_path, "high", GOOD.format(name="high").replace("99", "'high'"))
    install(tmp_path, "gmem_smem", "raise AssertionError('imported')", package="acme-impostor")
    install(tmp_path, "newer", GOOD.format(name="newer"), requires="tilecopy-core (>=99,<100)")
    install(tmp_path, "old", GOOD.format(name="old"), group="variants.v0")
    install(tmp_path, "talks", 'print("hello")\n' + textwrap.dedent(GOOD.format(name="talks").replace("99", "-5")))
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
    install(tmp_path, "talks", 'print("hello")\n' + textwrap.dedent(GOOD.format(name="talks")))
    done = python(tmp_path, 'from tilecopy_cli.builtin_commands import tilecopy; tilecopy(["variants", "--json"])')
    assert '"talks"' in done.stdout and "hello" not in done.stdout and "hello" in done.stderr


def test_damaged_metadata_is_passed_over(tmp_path: Path) -> None:
    install(tmp_path, "torn", GOOD.format(name="torn"))
    (tmp_path / "acme_torn-2.5.dist-info" / "entry_points.txt").write_text("[tilecopy.variants.v1]\ntorn\n")
    install(tmp_path, "binary", GOOD.format(name="binary"))
    (tmp_path / "acme_binary-2.5.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[tilecopy]")
    install(tmp_path, "nameless", GOOD.format(name="nameless"))
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
