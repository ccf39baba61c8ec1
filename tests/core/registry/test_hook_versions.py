"""Plugins of another version of the hooks' contract are listed with what to install."""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path

import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core.registry import __version__
from tilecopy_core.registry.entry_points import core_excluded

ROOT = Path(__file__).parents[3]
A = tc.Buffer((32, 32), "float32", space="global", name="A")
TILE = tc.Buffer((32, 32), "float32", space="shared", name="s")


def plan(registry: tc.Registry) -> tc.Plan:
    return tc.plan(TILE[:, :], A[:, :], scope=tc.warp(), target="sm_90a", registry=registry)


def install(folder: Path, groups: dict[str, str], requires: str = "tilecopy-core") -> None:
    """A package with a module for each contract that it declares."""
    info = folder / "acme_plugin-2.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: acme-plugin\nVersion: 2.5\nRequires-Dist: {requires}\n\n"
    )
    (info / "entry_points.txt").write_text("".join(f"[{group}]\nacme = {module}\n" for group, module in groups.items()))
    for module in groups.values():
        (folder / f"{module}.py").write_text(
            textwrap.dedent("""
                import tilecopy as tc
                made_for = __name__
                variant = tc.Variant("acme", "copy", 99, "a test", (("global", "shared"),))
                tilecopy_predicate = tc.hookimpl(lambda request: tc.Accept())
                tilecopy_partition = tc.hookimpl(lambda request: made_for)
                tilecopy_emit = tc.hookimpl(lambda request, partition, ptx: None)
            """)
        )


@pytest.fixture
def core_of_v2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A core that has the contract v2; the folder is where its plugins are."""
    monkeypatch.setattr("tilecopy_core.registry.registry.VARIANTS_GROUP", "tilecopy.variants.v2")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path)])  # its plugins alone, not the ones that are installed here
    return tmp_path


def test_a_package_for_several_hook_versions_is_taken_at_the_best(core_of_v2: Path) -> None:
    install(
        core_of_v2,
        {"tilecopy.variants.v2": "acme_now", "tilecopy.variants.v1": "acme_then", "tilecopy.variants.v3": "x"},
    )
    assert plan(tc.Registry(environ={})).partition == "acme_now"


@pytest.mark.filterwarnings("ignore::tilecopy_core.PluginWarning")
@pytest.mark.parametrize(
    ("group", "requires", "install_what"),
    [
        ("v3", "tilecopy-core", "pip install --upgrade tilecopy-core"),
        (
            "v3",
            "tilecopy-core>=99",
            "pip install --upgrade tilecopy-core (it requires tilecopy-core>=99, but tilecopy-core",
        ),
        ("v0", "tilecopy-core", "pip install --upgrade acme-plugin"),
    ],
)
def test_another_hook_version_is_declined_with_what_to_install(
    core_of_v2: Path, group: str, requires: str, install_what: str
) -> None:
    install(core_of_v2, {f"tilecopy.variants.{group}": "never_imported"}, requires)
    (core_of_v2 / "never_imported.py").write_text("raise AssertionError('imported')")
    (plugin,) = tc.Registry(environ={}).plugins()
    assert plugin.status == "incompatible"
    made = f"the plugin was made for hook API tilecopy.variants.{group}, but this core has tilecopy.variants.v2: "
    assert plugin.reason.startswith(made + install_what)
    with pytest.raises(tc.NoVariantError, match=mentions("--upgrade")):
        plan(tc.Registry(environ={}))


def test_versions_compare_as_releases() -> None:
    assert core_excluded(("tilecopy-core>=0.10",), "0.9") and not core_excluded(("tilecopy-core>=0.9",), "0.10")
    assert __version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


# ---------------------------------------------------------------------------------------------- from 0.1 to 0.2


@pytest.mark.filterwarnings("ignore::tilecopy_core.PluginWarning")
@pytest.mark.parametrize("requires", ["tilecopy-core>=0.1,<0.2", "tilecopy-core~=0.1.0", "tilecopy-core==0.1.*"])
def test_a_package_that_excludes_this_core_is_not_imported(core_of_v2: Path, requires: str) -> None:
    install(core_of_v2, {"tilecopy.variants.v2": "for_another_core"}, requires)
    (core_of_v2 / "for_another_core.py").write_text("raise AssertionError('imported')")
    (listed,) = tc.Registry(environ={}).plugins()
    assert listed.status == "incompatible"
    assert mentions("acme-plugin 2.5", requires, f"tilecopy-core {__version__}").search(listed.reason)
    assert mentions("needs tilecopy-core 0.2: synthesize is now tilecopy_partitions.synthesize").search(listed.reason)
    with pytest.raises(tc.NoVariantError, match=mentions("acme", requires)):
        plan(tc.Registry(environ={}))
    with pytest.raises(tc.PluginError, match=mentions("acme", requires)):
        plan(tc.Registry(environ={"TILECOPY_STRICT": "1"}))


def test_a_package_of_0_1_without_an_upper_bound_is_loaded(core_of_v2: Path) -> None:
    install(core_of_v2, {"tilecopy.variants.v2": "acme_open"}, "tilecopy-core>=0.1")
    assert plan(tc.Registry(environ={})).partition == "acme_open"


@pytest.mark.filterwarnings("ignore::tilecopy_core.PluginWarning")
def test_a_package_of_0_1_that_imports_a_moved_name_is_told_where_it_is(core_of_v2: Path) -> None:
    install(core_of_v2, {"tilecopy.variants.v2": "acme_moved"}, "tilecopy-core>=0.1")
    (core_of_v2 / "acme_moved.py").write_text("from tilecopy_core.plugin import hookimpl, at_edges")
    (listed,) = tc.Registry(environ={}).plugins()
    assert listed.status == "broken"
    assert mentions("at_edges is now tilecopy_partitions.emit_with_edges").search(listed.reason)
