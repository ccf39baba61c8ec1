"""Sessions: demo, tests, frameworks, fresh, mutants, lint, build, floor, alone, scaffold, subsets and one a GPU architecture (`nox -l` lists them)."""

from __future__ import annotations

import secrets
import sys
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["lint", "tests", "build"]

ROOT = Path(__file__).parent
PLUGINS = {path.parent.name: path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))}
ARCHITECTURES = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]


def entry_points(folder: Path, group: str) -> list[str]:
    """Names that a package registers under an entry-point group."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return list(project.get("entry-points", {}).get(group, {}))


VARIANTS = {name: folder for name, folder in PLUGINS.items() if entry_points(folder, "tilecopy.variants.v1")}


def sync(session: nox.Session, *groups: str) -> None:
    """Install the workspace, its extras and some dependency groups as the lock file says."""
    options = [option for group in groups for option in ("--group", group)]
    session.run_install(
        "uv",
        "sync",
        "--locked",
        "--quiet",
        "--all-packages",
        "--all-extras",
        "--no-default-groups",
        *options,
        env={"UV_PROJECT_ENVIRONMENT": session.virtualenv.location},
    )


def wheels(session: nox.Session) -> Path:
    """Build every wheel into a folder of the session."""
    folder = Path(session.create_tmp()).resolve() / "wheels"
    for old in folder.glob("*.whl"):
        old.unlink()
    session.run_install("uv", "build", "--quiet", "--all-packages", "--wheel", "--out-dir", str(folder), external=True)
    return folder


@nox.session
def demo(session: nox.Session) -> None:
    """The main job: copy an array tile by tile and verify it. `nox -s demo -- IN.npy OUT.npy [options]` takes yours."""
    sync(session)
    arguments = list(session.posargs)
    if not arguments:
        folder = Path(session.create_tmp()).resolve()
        make = "import numpy, sys; numpy.save(sys.argv[1], numpy.random.default_rng(0).random((1000, 777), 'float32'))"
        session.run("python", "-c", make, str(folder / "in.npy"))
        arguments = [str(folder / "in.npy"), str(folder / "out.npy"), "--swizzle", "128B"]
    session.run("tilecopy", "run", *arguments)


@nox.session
def tests(session: nox.Session) -> None:
    """Every test, on the emulator, both assemblers and the GPU where there is one."""
    sync(session, "test")
    session.run("pytest", "-n", "2", *session.posargs)


@nox.session
def frameworks(session: nox.Session) -> None:
    """The tests of relayout with torch and JAX installed, for the CPU; on a machine with a GPU install its own and run pytest."""
    sync(session, "test")
    session.run_install("uv", "pip", "install", "--quiet", "--torch-backend=cpu", "torch>=2.4")
    session.run_install("uv", "pip", "install", "--quiet", "jax[cpu]")
    session.run("pytest", "plugins/relayout", *session.posargs)


@nox.session
def fresh(session: nox.Session) -> None:
    """The property tests with new examples at every run, twenty times as many; a failure prints how to repeat it."""
    sync(session, "test")
    files = sorted(
        {
            str(path.relative_to(ROOT))
            for path in [*ROOT.glob("tests/test_*.py"), *ROOT.glob("plugins/*/tests/test_*.py")]
            if "@given" in path.read_text() or path.name == "test_suite.py"
        }
    )
    seed = str(secrets.randbits(31))
    session.log(f"TILECOPY_TESTKIT_SEED={seed}")
    environment = {"HYPOTHESIS_PROFILE": "fresh", "TILECOPY_TESTKIT_SEED": seed}
    session.run("pytest", "-n", "2", *(session.posargs or files), env=environment)


@nox.session
def mutants(session: nox.Session) -> None:
    """Mutation testing: planted faults, and which test finds each; `nox -s mutants -- --only AREA` (tests/mutants/README.md)."""
    sync(session, "test")
    session.run("python", "tests/mutation.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff (rules and format) and mypy --strict."""
    sync(session, "test", "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    for folder in PLUGINS.values():
        session.run("mypy", "--strict", str(next((folder / "src").iterdir())))


@nox.session
def build(session: nox.Session) -> None:
    """Every wheel builds, installs in a fresh environment with what it declares, and imports."""
    folder = wheels(session)
    for path in sorted(folder.glob("*.whl")):
        name = path.name.split("-")[0]
        environment = Path(session.create_tmp()).resolve() / name
        session.run_install(
            "uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(environment), external=True
        )
        python = str(environment / "bin" / "python")
        session.run_install(
            "uv", "pip", "install", "--quiet", "--python", python, "--find-links", str(folder), str(path), external=True
        )
        session.chdir(environment)
        session.run(
            python, "-P", "-W", "error", "-c", f"import {name}; print('{name}', {name}.__file__)", external=True
        )
        session.chdir(ROOT)


@nox.session(name="floor")
def floor(session: nox.Session) -> None:
    """The core's and gmem_smem's tests with the oldest pluggy that is allowed."""
    sync(session, "test")
    session.run_install("uv", "pip", "install", "--quiet", "pluggy==1.6.0")
    session.run("pytest", "-n", "2", "tests/test_registry.py", "plugins/gmem_smem")


@nox.session
@nox.parametrize("variant", [nox.param(name, id=name) for name in PLUGINS])
def alone(session: nox.Session, variant: str) -> None:
    """One plugin's tests with the core, the emulator and that variant installed, and no other."""
    folder = wheels(session)
    group = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["test"]
    project = tomllib.loads((PLUGINS[variant] / "pyproject.toml").read_text())["project"]
    extras = "[test]" if "test" in project.get("optional-dependencies", {}) else ""
    package = f"tilecopy-{variant.replace('_', '-')}{extras}"
    group = [requirement for requirement in group if not requirement.startswith("tilecopy-")]
    session.install("--find-links", str(folder), package, "tilecopy-core[assemble,dtypes]", "tilecopy-emulator", *group)
    target = Path(session.create_tmp()).resolve() / variant
    copy = "import shutil, sys; shutil.rmtree(sys.argv[2], ignore_errors=True); shutil.copytree(*sys.argv[1:])"
    session.run("python", "-c", copy, str(PLUGINS[variant] / "tests"), str(target / "tests"))
    session.chdir(target)
    session.run("pytest", "-n", "2", "-p", "no:cacheprovider", "--import-mode=importlib", "tests")


@nox.session
def scaffold(session: nox.Session) -> None:
    """What `tilecopy new-variant` writes, from wheels alone: it installs, passes its suite, is listed and is strictly typed."""
    folder = wheels(session)
    target = Path(session.create_tmp()).resolve() / "scaffolded"
    session.run("python", "-c", "import shutil, sys; shutil.rmtree(sys.argv[1], ignore_errors=True)", str(target))
    target.mkdir(parents=True)
    session.install("--find-links", str(folder), "tilecopy-testkit", "mypy")
    session.chdir(target)
    for name, op, source, to in (
        ("new_stage", "copy", "global", "shared"),
        ("new_load", "copy_async", "global", "shared"),
    ):
        session.run("tilecopy", "new-variant", name, "--op", op, "--from", source, "--to", to)
        package = f"tilecopy-{name.replace('_', '-')}"
        session.install("--find-links", str(folder), "-e", f"{package}[test]")
        session.run("pytest", "-q", "-p", "no:cacheprovider", package)
        session.run("mypy", "--strict", f"{package}/src")
        session.run(
            "python",
            "-c",
            "import json, subprocess, sys; found = json.loads(subprocess.check_output(['tilecopy', 'variants', '--json']));"
            "assert sys.argv[1] in str(found)",
            name,
        )


@nox.session(name="subsets")
def subsets(session: nox.Session) -> None:
    """Each variant alone, and none: its copies work, another's raises NoVariantError naming the package."""
    folder = wheels(session)
    for variant in [*VARIANTS, ""]:
        environment = Path(session.create_tmp()).resolve() / (variant or "none")
        session.run_install(
            "uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(environment), external=True
        )
        python = str(environment / "bin" / "python")
        packages = [f"tilecopy-{variant.replace('_', '-')}"] if variant else []
        session.run_install(
            "uv",
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--find-links",
            str(folder),
            "tilecopy-core",
            *packages,
            external=True,
        )
        session.chdir(environment)
        session.run(python, "-P", str(ROOT / "tests" / "install_subset.py"), variant, external=True)
        session.chdir(ROOT)


def _architecture_session(architecture: str) -> None:
    @nox.session(name=f"tests-{architecture}")
    def tests_of_architecture(session: nox.Session) -> None:
        sync(session, "test")
        session.run("python", "tests/architecture.py", architecture, *session.posargs)

    tests_of_architecture.__doc__ = (
        f"Every case that {architecture} has: planned, assembled twice, emulated, and run where the GPU is one."
    )


for _architecture in ARCHITECTURES:
    _architecture_session(_architecture)
