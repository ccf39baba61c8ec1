"""What goes warns for one minor release, works meanwhile, and cannot be forgotten."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import attrs
import pluggy
import pytest
import tilecopy as tc
from tilecopy import deprecation, hookcalls, hookspecs, loading
from tilecopy_core.deprecation import Moved, Older, TilecopyDeprecationWarning, going, moved_names, renamed

from tilecopy_core.loading import newer_core_needed
from tilecopy_core.version import __version__

ROOT = Path(__file__).parent.parent
PACKAGES = {ROOT / "pyproject.toml": ROOT / "tilecopy_core"} | {
    path: path.parent / "src" for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))
}


def outlived(folder: Path, version: str) -> list[str]:
    """Every ``goes_in=`` of a folder's sources that names a release which is here, or that cannot be read."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        for keyword in sorted((k for node in nodes for k in node.keywords), key=lambda k: k.lineno):
            text = ast.unparse(keyword.value)
            if keyword.arg != "goes_in" or text.split(".")[-1] == "goes_in":
                continue  # not it, or the mechanism passes it on
            goes_in = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if not isinstance(goes_in, str) or not newer_core_needed([f"tilecopy-core>={goes_in}"], version):
                found.append(f"{path.name}:{keyword.lineno}: goes_in={text}, this is {version}")
    return found


@pytest.mark.parametrize("project", PACKAGES, ids=lambda path: path.parent.name)
def test_nothing_outlives_the_release_that_it_goes_in(project: Path) -> None:
    version = tomllib.loads(project.read_text())["project"]["version"]
    assert outlived(PACKAGES[project], version) == []


def test_what_outlives_its_release_is_found(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(
        'names = {"a": Moved("b.a", goes_in="0.3")}\nlater = renamed("x", "y", goes_in=WHEN)\n'
    )
    unreadable = "old.py:2: goes_in=WHEN, this is "
    assert outlived(tmp_path, "0.2.9") == [unreadable + "0.2.9"]
    assert outlived(tmp_path, "0.3.0") == ["old.py:1: goes_in='0.3', this is 0.3.0", unreadable + "0.3.0"]
    assert outlived(tmp_path, "1.0")[0].startswith("old.py:1")


def test_a_name_that_moved_works_and_says_what_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("acme_old")
    module.__getattr__ = moved_names("acme_old", {"Fragment": Moved("tilecopy_core.layout.TileLayout", goes_in="9.3")})  # type: ignore[method-assign]
    with pytest.warns(TilecopyDeprecationWarning) as warned:
        assert module.Fragment is tc.TileLayout
    (warning,) = warned
    assert (
        str(warning.message)
        == "acme_old.Fragment is deprecated and goes in tilecopy 9.3; use tilecopy_core.layout.TileLayout"
    )
    assert warning.filename == __file__ and issubclass(TilecopyDeprecationWarning, DeprecationWarning)
    with pytest.raises(AttributeError, match="module 'acme_old' has no attribute 'Other'"):
        _ = module.Other


@pytest.mark.parametrize("where", ["tilecopy_core", "tilecopy.executors", "tilecopy_core.plugin"])
def test_the_public_modules_take_moved_names(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do it: the table of the module, here with an entry."""
    from importlib import import_module

    look_up = import_module(where).__getattr__
    monkeypatch.setitem(
        inspect.getclosurevars(look_up).nonlocals["names"], "OldRegion", Moved("tilecopy_core.Region", goes_in="9.3")
    )
    space: dict[str, Any] = {"__name__": "acme"}
    with pytest.warns(TilecopyDeprecationWarning, match=f"{where}.OldRegion is deprecated .* use tilecopy_core.Region"):
        exec(f"from {where} import OldRegion", space)
    assert space["OldRegion"] is tc.Region
    with pytest.raises(ImportError, match="OldBuffer"):
        exec(f"from {where} import OldBuffer", space)


def test_a_parameter_by_its_old_name() -> None:
    @renamed("threads", "count", goes_in="9.3")
    def split(size: int, count: int = 1) -> tuple[int, int]:
        return size, count

    assert split(4, count=2) == split(4, 2) == (4, 2)
    with pytest.warns(
        TilecopyDeprecationWarning, match=r"^threads of .*split is deprecated and goes in tilecopy 9.3; use count"
    ):
        assert split(4, threads=3) == (4, 3)
    with pytest.raises(tc.RequestError, match="threads is the old name of count; give count alone"):
        split(4, count=2, threads=2)


def test_a_field_by_its_old_name() -> None:
    @renamed("lanes", "threads", goes_in="9.3")
    @attrs.frozen
    class Record:
        name: str
        threads: int = 1

    with pytest.warns(TilecopyDeprecationWarning, match="^lanes of .*Record is deprecated .* use threads"):
        record = Record("a", lanes=32)
    with pytest.warns(TilecopyDeprecationWarning, match="use threads"):
        assert record.lanes == 32
    assert record == Record("a", 32) == copy.deepcopy(record) and attrs.evolve(record, threads=1) == Record("a")


def variant(priority: int = 10) -> Any:
    """A variant of the present contract."""
    return SimpleNamespace(
        variant=tc.Variant("acme", "copy", priority, "a test", (("global", "shared"),)),
        tilecopy_predicate=tc.hookimpl(lambda request: tc.Accept()),
        tilecopy_partition=tc.hookimpl(lambda request: "split"),
        tilecopy_emit=tc.hookimpl(lambda request, partition, ptx: ptx.comment("by acme")),
    )


A = tc.Buffer((32, 32), "float32", space="global", name="A")
TILE = tc.Buffer((32, 32), "float32", space="shared", name="s")


def plan(registry: tc.Registry) -> tc.Plan:
    return tc.plan(TILE[:, :], A[:, :], scope=tc.warp(), target="sm_90a", registry=registry)


def test_an_argument_of_a_hook_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core whose predicate once took ``target``, which is ``request.target`` now."""
    specs = ModuleType("specs")
    vars(specs).update({name: getattr(hookspecs, name) for name in (*hookspecs.HOOKS, hookspecs.DISPATCH)})
    warning = going("argument target of tilecopy_predicate", "request.target", goes_in="9.3")

    @pluggy.HookspecMarker("tilecopy")(firstresult=True, warn_on_impl_args={"target": warning})
    def tilecopy_predicate(request: Any, variant: Any, target: Any) -> Any:
        """As it was."""

    specs.tilecopy_predicate = tilecopy_predicate  # type: ignore[attr-defined]
    monkeypatch.setattr(hookcalls, "_SPECS", specs)
    monkeypatch.setattr(
        hookspecs, "OLD_ARGUMENTS", {"tilecopy_predicate": {"target": lambda given: given["request"].target}}
    )
    plugin, seen = variant(), []
    plugin.tilecopy_predicate = tc.hookimpl(lambda target: seen.append(target) or tc.Accept())
    found = tc.Registry([loading.Source("acme", "acme", "1", lambda: plugin)], {})
    with pytest.warns(TilecopyDeprecationWarning, match="target of tilecopy_predicate .* 9.3; use request.target"):
        assert plan(found).variant == "acme"
    assert seen == [tc.target_of("sm_90a")]
    fresh = tc.Registry([loading.Source("acme", "acme", "1", variant)], {})
    assert plan(fresh).variant == "acme", "who does not take it hears nothing"


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
    """A core that has the contract v2 and adapts v1; the folder is where its plugins are."""

    def adapt(plugin: Any) -> Any:
        return SimpleNamespace(**vars(plugin) | {"tilecopy_partition": tc.hookimpl(lambda request: "adapted")})

    monkeypatch.setattr("tilecopy_core.registry.VARIANTS_GROUP", "tilecopy.variants.v2")
    for module in (deprecation, loading):
        monkeypatch.setattr(module, "OLDER", {"tilecopy.variants.v1": Older(adapt, goes_in="9.3")})
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path)])  # its plugins alone, not the ones that are installed here
    return tmp_path


def test_an_older_hook_version_is_adapted_for_one_minor_release(core_of_v2: Path) -> None:
    install(core_of_v2, {"tilecopy.variants.v1": "acme_of_v1"})
    with pytest.warns(TilecopyDeprecationWarning) as warned:
        found = plan(tc.Registry(environ={}))
    assert (found.variant, found.partition, found.package) == ("acme", "adapted", "acme-plugin 2.5")
    assert [str(each.message) for each in warned] == [
        "hook API tilecopy.variants.v1, for which acme-plugin 2.5 is made, is deprecated and goes in tilecopy 9.3; "
        "use a release for tilecopy.variants.v2: pip install --upgrade acme-plugin"
    ]


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
        ("v3", "tilecopy-core>=99", "pip install --upgrade tilecopy-core (it requires tilecopy-core>=99; this is"),
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
    made = f"made for the hook API tilecopy.variants.{group}; this core has tilecopy.variants.v2: "
    assert plugin.reason.startswith(made + install_what)
    with pytest.raises(tc.NoVariantError, match="pip install --upgrade"):
        plan(tc.Registry(environ={}))


def test_versions_compare_as_releases() -> None:
    assert newer_core_needed(["tilecopy-core>=0.10"], "0.9") and not newer_core_needed(["tilecopy-core>=0.9"], "0.10")
    assert __version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
