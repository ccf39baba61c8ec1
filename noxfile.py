"""nox sessions that test, check and build tilecopy, with one per GPU architecture; `nox -l` lists them."""

from __future__ import annotations

import ast
import json
import os
import re
import secrets
import shutil
import sys
import tomllib
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["lint", "tests"]

ROOT = Path(__file__).parent
PLUGINS = {path.parent.name: path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    match[1] for classifier in PROJECT["classifiers"] if (match := re.fullmatch(r".*Python :: (3\.\d+)", classifier))
]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
EXAMPLE_WORKFLOW = ROOT / "docs" / "examples" / "ci" / "hazards.yml"
PLATFORMS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin", "x86_64-pc-windows-msvc"]
EMULATED_TEXTS = ROOT / ".nox" / "emulated-texts"
"""The folder to which the session `tests` writes the PTX modules that it emulated, one file each."""


def architectures() -> list[str]:
    """Return the architectures of tilecopy_core.TARGETS, parsed from its source because nox cannot import the core."""
    tree = ast.parse((ROOT / "tilecopy_core" / "description" / "target.py").read_text())
    tables = {node.target.id: node.value for node in tree.body if isinstance(node, ast.AnnAssign)}
    return [f"sm_{architecture}" for architecture in ast.literal_eval(tables["_ARCHITECTURES"])]


def entry_points(folder: Path, group: str) -> list[str]:
    """Return the names that a package registers in an entry-point group."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project.get("entry-points", {}).get(group, {}))


VARIANTS = {name: folder for name, folder in PLUGINS.items() if entry_points(folder, "tilecopy.variants.v1")}


def sync(session: nox.Session, *groups: str) -> None:
    """Install the workspace, its extras and dependency groups in the versions of the lock file."""
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


def distribution(name: str) -> str:
    """Return the distribution name of a plugin's folder, or of a new variant's name."""
    if name in PLUGINS:
        return str(tomllib.loads((PLUGINS[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"])
    return f"tilecopy-{name.replace('_', '-')}"


def fresh_folder(session: nox.Session, name: str) -> Path:
    """Return a new empty folder of the session."""
    folder = Path(session.create_tmp()).resolve() / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def wheels(session: nox.Session, *more: str) -> Path:
    """Build all wheels (with ``--sdist`` also all sdists) in a folder of the session, and return it."""
    folder = fresh_folder(session, "wheels")
    options = ["--all-packages", "--wheel", *more, "--out-dir", str(folder)]
    session.run_install("uv", "build", "--quiet", *options, external=True)
    (folder / ".gitignore").unlink(missing_ok=True)
    for path in folder.glob("tilecopy_test_helpers*"):  # never published
        path.unlink()
    return folder


def environment(session: nox.Session, name: str, *packages: str, wheels: list[Path]) -> str:
    """Return the interpreter of a new environment with some packages. Those of tilecopy come only from folders of wheels.

    They are refreshed, because uv's cache may have older wheels of the same version and path.
    """
    folder = fresh_folder(session, f"environment-{name}")
    session.run_install("uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(folder), external=True)
    python = str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    links = [option for wheel_folder in wheels for option in ("--find-links", str(wheel_folder))]
    ours = {
        wheel.name.split("-")[0].replace("_", "-") for wheel_folder in wheels for wheel in wheel_folder.glob("*.whl")
    }
    links += [option for package in sorted(ours) for option in ("--refresh-package", package)]
    options = ["--quiet", "--no-sources", "--python", python, *links]
    session.run_install("uv", "pip", "install", *options, *packages, external=True)
    return python


@nox.session
def demo(session: nox.Session) -> None:
    """Copy an array tile by tile and verify it. For your own array: `nox -s demo -- IN.npy OUT.npy [options]`."""
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
    """Run all tests, on the emulator, with both assemblers, and on the GPU if there is one."""
    sync(session, "test")
    shutil.rmtree(EMULATED_TEXTS, ignore_errors=True)
    EMULATED_TEXTS.mkdir(parents=True)
    environment = {
        "TILECOPY_EMULATED_TEXTS": str(EMULATED_TEXTS),
        "PYTHONDONTWRITEBYTECODE": "",  # compiling all modules in each process takes longer than most tests
    }
    session.run("pytest", "-n", "2", *session.posargs, env=environment)


@nox.session
def assembled(session: nox.Session) -> None:
    """Assemble all PTX that `nox -s tests` emulated, and compare the emulator with ptxas on 2,000 mutated texts."""
    sync(session, "test")
    session.run("python", "tests/tools/assembled.py", str(EMULATED_TEXTS))
    session.run("python", "tests/tools/mutated_texts.py", *(session.posargs or ["2000"]))


@nox.session
def without_nvidia(session: nox.Session) -> None:
    """Run all tests without NVIDIA's packages and ptxas, as on macOS. Tests that need them are skipped."""
    sync(session, "test")
    listed = str(session.run("uv", "pip", "freeze", silent=True)).splitlines()
    names = [line.partition("==")[0] for line in listed]
    theirs = [name for name in names if name.startswith(("nvidia-", "cuda-", "numba", "llvmlite"))]
    session.run_install("uv", "pip", "uninstall", "--quiet", *theirs)
    path = os.pathsep.join([str(Path(session.bin)), "/usr/bin", "/bin"])
    environment = {"TILECOPY_TESTS_WITHOUT_NVIDIA": "1", "PATH": path}
    session.run("pytest", "-n", "2", *session.posargs, env=environment)


@nox.session
def frameworks(session: nox.Session) -> None:
    """Run the tests of relayout and kernels that need torch and JAX, on the CPU. With a GPU, install both for it and run pytest."""
    sync(session, "test")
    session.run_install("uv", "pip", "install", "--quiet", "--torch-backend=cpu", "torch>=2.4")
    session.run_install("uv", "pip", "install", "--quiet", "jax[cpu]")
    kernels = [f"plugins/kernel/tests/test_{name}.py" for name in ("torch_compile", "jax_arrays")]
    session.run("pytest", "plugins/relayout", *kernels, *session.posargs)


@nox.session
def libraries(session: nox.Session) -> None:
    """Emulate kernels of CUB, libcu++, cooperative groups, CuTe, CUTLASS and Triton (tests/libraries): `nox -s libraries -- WORD`.

    The compilers and headers are wheels. nvcc also needs g++. The packages are large, so the session `tests` does not have them.
    """
    sync(session, "test")
    session.run_install(
        "uv", "pip", "install", "--quiet", "nvidia-cuda-cccl>=13.3,<14", "nvidia-cuda-runtime", "triton>=3.5"
    )
    session.run_install(
        "uv", "pip", "install", "--quiet", "--no-deps", "nvidia-cutlass>=4.2"
    )  # with its dependencies, it would install packages for a GPU
    settings = {"TRITON_CACHE_DIR": str(fresh_folder(session, "triton")), "TRITON_DEFAULT_FP_FUSION": "1"}
    session.run("python", "tests/libraries/run.py", *session.posargs, env=settings)


@nox.session
def verification_suites(session: nox.Session) -> None:
    """Emulate programs of GPUVerify, ScoR or Indigo, from your copy of them: `nox -s verification_suites -- PATH [WORD ...]`."""
    sync(session, "test")
    session.run("python", "tests/tools/verification_suites.py", *session.posargs)


@nox.session
def cuda_files(session: nox.Session) -> None:
    """Emulate the kernels of your CUDA C++ files with invented arguments: `nox -s cuda_files -- PATH [WORD ...]`."""
    sync(session, "test")
    session.run("python", "tests/tools/cuda_files.py", *session.posargs)


@nox.session
def fresh(session: nox.Session) -> None:
    """Run the property tests with new random examples, twenty times as many. A failure prints the seed."""
    sync(session, "test")
    files = sorted(
        {
            str(path.relative_to(ROOT))
            for path in [*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("plugins/*/tests/test_*.py")]
            if "@given" in path.read_text(encoding="utf-8") or path.name == "test_suite.py"
        }
    )
    seed = str(secrets.randbits(31))
    session.log(f"TILECOPY_TESTKIT_SEED={seed}")
    environment = {"HYPOTHESIS_PROFILE": "fresh", "TILECOPY_TESTKIT_SEED": seed}
    session.run("pytest", "-n", "2", *(session.posargs or files), env=environment)


@nox.session
def mutants(session: nox.Session) -> None:
    """Run mutation testing (docs/releasing.md). For one package: `nox -s mutants -- relayout`."""
    sync(session, "test")
    session.run("python", "tests/tools/mutation.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Run ruff (rules and format) and mypy --strict."""
    sync(session, "test", "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run(
        "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS), str(EXAMPLE_WORKFLOW)
    )
    sources = ["tilecopy_core", *(str(next((folder / "src").iterdir())) for folder in PLUGINS.values())]
    sources += ["tests/typing/variants.py"]
    for platform in ("linux", "darwin", "win32"):
        cache = f".mypy_cache/{platform}"
        session.run("mypy", "--strict", "--platform", platform, "--cache-dir", cache, *sources)


@nox.session
def platforms(session: nox.Session) -> None:
    """Check that the lock file can be installed on each supported platform, by the package index."""
    options = ["--locked", "--dry-run", "--all-packages", "--all-extras", "--no-default-groups", "--group", "test"]
    for platform in PLATFORMS:
        session.run_install("uv", "sync", "--quiet", *options, "--python-platform", platform)


@nox.session
def workflow(session: nox.Session) -> None:
    """Run the commands of the GitHub workflows on this machine, with the session's Python."""
    session.install("pip", "pyyaml")
    lines = "import sys, yaml; [print(step['run']) for job in yaml.safe_load(open(sys.argv[1]))['jobs'].values() for step in job['steps'] if 'run' in step]"
    for path in WORKFLOWS:
        for command in str(session.run("python", "-c", lines, str(path), silent=True)).splitlines():
            session.run("bash", "-euc", command, external=True)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site in docs/_build/html with warnings as errors, and run its examples. `nox -s docs -- --links` also checks links."""
    sync(session, "test", "docs")
    session.run("sphinx-build", "--quiet", "--fail-on-warning", "--keep-going", "docs", "docs/_build/html")
    if "--links" in session.posargs:
        session.run("sphinx-build", "--quiet", "-b", "linkcheck", "docs", "docs/_build/links")
    session.run("pytest", "-q", "tests/integration/test_docs.py")


@nox.session
def floor(session: nox.Session) -> None:
    """Run the tests with the oldest supported version of every dependency. For some tests: `nox -s floor -- PATH`."""
    session.install("attrs", "packaging")
    floors = session.run("python", "tests/tools/release.py", "--requirements", silent=True).splitlines()
    folders = (ROOT, ROOT / "tests" / "helpers", *PLUGINS.values())
    ours = [option for folder in folders for option in ("--editable", str(folder))]
    session.run_install("uv", "pip", "install", "--quiet", "--upgrade", "--resolution", "lowest-direct", *floors, *ours)
    session.run("uv", "pip", "list", "--exclude-editable")
    session.run("pytest", "-n", "2", *session.posargs)


@nox.session(python=PYTHONS)
def python(session: nox.Session) -> None:
    """Run the tests with each supported Python that this machine has. For some tests: `nox -s python-3.13 -- PATH`."""
    sync(session, "test")
    session.run("python", "--version")
    session.run("pytest", "-n", "2", *session.posargs)


@nox.session
def install(session: nox.Session) -> None:
    """Run every install command of the docs and messages in new environments. For some: `nox -s install -- [--pip] WORD ...`."""
    sync(session, "test")
    session.run("python", "tests/tools/install_lines.py", *session.posargs)


@nox.session(name="subsets")
def subsets(session: nox.Session) -> None:
    """Check environments with one variant or none: its copies work, and those of others raise NoVariantError with the package."""
    folder = wheels(session)
    for variant in [*VARIANTS, ""]:
        packages = [distribution(variant)] if variant else []
        python = environment(session, variant or "none", "tilecopy-partitions", *packages, wheels=[folder])
        session.chdir(Path(python).parents[1])
        session.run(python, "-P", str(ROOT / "tests" / "tools" / "install_subset.py"), variant, external=True)
        session.chdir(ROOT)


@nox.session
def frozen(session: nox.Session) -> None:
    """Check that a program built by PyInstaller finds its variants and runs a kernel."""
    folder = wheels(session)
    python = environment(session, "frozen", "tilecopy-gmem-smem", "tilecopy-emulator", "pyinstaller", wheels=[folder])
    target = fresh_folder(session, "program")
    options = ["--noconfirm", "--log-level", "ERROR", "--distpath", str(target), "--workpath", str(target / "work")]
    program = str(ROOT / "tests" / "tools" / "frozen_program.py")
    session.run(python, "-m", "PyInstaller", *options, "--specpath", str(target), program, external=True)
    session.run(str(target / "frozen_program" / "frozen_program"), external=True)


@nox.session
def release(session: nox.Session) -> None:
    """Check and build a release (docs/releasing.md), of all packages or of some: `nox -s release -- reg examples scaffold`.

    Each package is installed from its wheel, with the oldest and with the newest core that it supports, and its tests run from a
    copy of its folder. `examples` and `scaffold` are packages outside the tree that use those wheels.
    """
    names = session.posargs or ["core", *PLUGINS, "examples", "scaffold"]
    chosen = [name for name in names if name not in ("examples", "scaffold")]
    session.install("attrs", "packaging", "twine")
    session.run("uv", "lock", "--check", "--quiet", external=True)
    session.run("python", "tests/tools/release.py", *chosen)
    folder = wheels(session, "--sdist")
    session.run("twine", "check", "--strict", *map(str, folder.glob("*.*")))
    session.run("python", "tests/tools/release.py", *map(str, sorted(folder.glob("*.whl"))))
    for name in chosen:
        _with_each_core(session, name, folder)
    if "examples" in names:
        for project in sorted(ROOT.glob("docs/examples/*/pyproject.toml")):
            _downstream(session, project.parent, folder)
    if "scaffold" in names:
        _scaffolds(session, folder)


def _with_each_core(session: nox.Session, name: str, folder: Path) -> None:
    """Run a package's tests with the oldest and the newest core that it supports. For the core, only import it."""
    if name == "core":  # its tests need all packages: see `nox -s tests`
        _imports(session, environment(session, name, "tilecopy-core", wheels=[folder]), name)
        return
    newest = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    oldest = session.run("python", "tests/tools/release.py", "--oldest-core", name, silent=True).split()[-1]
    if oldest == newest:
        session.log(f"{name}: it supports no older released core than this tree's {newest}")
    else:
        _tests(session, name, f"tilecopy-core=={oldest}", [folder, _wheels_of_tag(session, f"tilecopy-core-{oldest}")])
    _tests(session, name, f"tilecopy-core=={newest}", [folder])


def _imports(session: nox.Session, python: str, name: str) -> None:
    module = distribution(name).replace("-", "_")
    session.run(python, "-P", "-W", "error", "-c", f"import {module}; print({module}.__file__)", external=True)


def _tests(session: nox.Session, name: str, core: str, folders: list[Path]) -> None:
    """Run a package's tests in a new environment with its dependencies, the emulator and no other package of tilecopy."""
    project = tomllib.loads((PLUGINS[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = "[test]" if "test" in project.get("optional-dependencies", {}) else ""
    group = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["test"]
    group = [requirement for requirement in group if not requirement.startswith("tilecopy-")]
    ours = [distribution(name) + extras, core.replace("tilecopy-core", "tilecopy-core[dtypes]"), "tilecopy[assemble]"]
    helpers = str(ROOT / "tests" / "helpers")
    python = environment(session, name, *ours, "tilecopy-emulator", helpers, *group, wheels=folders)
    target = fresh_folder(session, f"{name}-tests")
    shutil.copytree(PLUGINS[name] / "tests", target / "tests")
    session.log(f"{name} with {core}")
    session.chdir(target)
    _imports(session, python, name)
    session.run(
        python,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        "tests",
        external=True,
    )
    session.chdir(ROOT)


def _wheels_of_tag(session: nox.Session, tag: str) -> Path:
    """Build the wheels of all packages from a tag, and return their folder."""
    tree = fresh_folder(session, f"{tag}-tree")
    session.run("git", "archive", "--output", str(tree / "tree.tar"), tag, external=True)
    session.run("tar", "-xf", str(tree / "tree.tar"), "-C", str(tree), external=True)
    folder = fresh_folder(session, f"{tag}-wheels")
    session.chdir(tree)
    session.run_install("uv", "build", "--quiet", "--all-packages", "--wheel", "--out-dir", str(folder), external=True)
    session.chdir(ROOT)
    return folder


def _suite_of(names: list[str], file: Path) -> Path:
    """Write a test file with the conformance suite of some variants, as in the tutorial, and return it."""
    cases = [f"class Test_{name}(VariantSuite):\n    plugin = {name!r}\n" for name in names]
    file.write_text("\n\n".join(["from tilecopy_testkit import VariantSuite\n", *cases]))
    return file


def _downstream(session: nox.Session, project: Path, folder: Path, *, editable: bool = False) -> None:
    """Check a package outside the tree with the wheels: it can be installed, is listed as usable, has types, and its tests pass.

    A variant without tests gets the conformance suite, as in the tutorial.
    """
    declared = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ",".join(declared.get("optional-dependencies", {}))
    where = ["--editable"] if editable else []
    packages = ["tilecopy-testkit", "mypy", *where, f"{project}[{extras}]" if extras else str(project)]
    python = environment(session, f"downstream-{project.name}", *packages, wheels=[folder])
    target = fresh_folder(session, f"downstream-{project.name}-tests")
    session.chdir(target)
    tilecopy = str(Path(python).with_name("tilecopy"))
    listed = session.run(tilecopy, "variants", "--json", external=True, silent=True)
    points = entry_points(project, "tilecopy.variants.v1")
    status = {row["name"]: row["status"] for row in json.loads(listed) if row["name"] in points}
    session.log(f"{declared['name']}: {status}")
    if set(status) != set(points) or not set(status.values()) <= {"ready", "wrapper"}:
        session.error(f"{declared['name']} declares {points}, but `tilecopy variants` lists {status}")
    tests = project / "tests"
    typed = [*(project / "src").iterdir(), *tests.glob("test_suite.py")]
    session.run(python, "-m", "mypy", "--strict", *map(str, typed), external=True)
    if not tests.exists() and (ready := [name for name, what in status.items() if what == "ready"]):
        tests = _suite_of(ready, target / "test_suite.py")
    if tests.exists():
        session.run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests), external=True)
    session.chdir(ROOT)


def _scaffolds(session: nox.Session, folder: Path) -> None:
    """Check the packages that `tilecopy new-variant` writes."""
    target = fresh_folder(session, "scaffolded")
    python = environment(session, "scaffold", "tilecopy-testkit", wheels=[folder])
    for name, op in (("new_stage", "copy"), ("new_load", "copy_async")):
        words = ["new-variant", name, "--op", op, "--from", "global", "--to", "shared"]
        session.chdir(target)
        session.run(str(Path(python).with_name("tilecopy")), *words, external=True)
        session.chdir(ROOT)
        _downstream(session, target / distribution(name), folder, editable=True)


def _architecture_session(architecture: str) -> None:
    @nox.session(name=f"tests-{architecture}")
    def tests_of_architecture(session: nox.Session) -> None:
        sync(session, "test")
        folders = [Path(path).resolve() for path in session.posargs]
        if not folders:
            session.run("python", "tests/tools/architecture.py", architecture)
        paths = [_tests_of(session, folder) for folder in folders or VARIANTS.values()]
        options = ["-n", "2", "--import-mode=importlib", "-p", "no:cacheprovider"]
        session.run("pytest", *options, *map(str, paths), env={"TILECOPY_TESTKIT_TARGETS": architecture})

    tests_of_architecture.__doc__ = f"Run the variants' tests with suites only for {architecture}. For your packages: `nox -s tests-{architecture} -- FOLDER ...`."


def _tests_of(session: nox.Session, folder: Path) -> Path:
    """Return the tests of a package, or the conformance suite if it has none. A package outside the tree is installed."""
    if (folder / "pyproject.toml").exists() and folder not in PLUGINS.values():
        declared = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        extras = ",".join(declared.get("optional-dependencies", {}))
        session.run_install("uv", "pip", "install", "--quiet", f"{folder}[{extras}]" if extras else str(folder))
        if not (folder / "tests").exists():
            names = entry_points(folder, "tilecopy.variants.v1")
            return _suite_of(names, fresh_folder(session, folder.name) / f"test_{folder.name.replace('-', '_')}.py")
    return folder / "tests" if (folder / "tests").exists() else folder


for _architecture in architectures():
    _architecture_session(_architecture)
