"""What each package makes public, and its starting calls."""

from __future__ import annotations

import ast
import importlib.util
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import attrs
import tilecopy as tc

from .engine import use
from .objects import TARGET, Objects, operation

ROOT = Path(__file__).parents[2]
Binding = Callable[[Objects], "partial[Any]"]


@attrs.frozen
class Interface:
    """One file of starting calls: see the docstring of this package."""

    package: str
    things: dict[str, Any]
    """Public functions, classes and modules."""
    calls: list[tuple[str, Binding]]
    """Public names, and how to make a call of each."""
    uncalled: set[str]
    refusals: type[Exception]

    @classmethod
    def load(cls, path: Path) -> Interface:
        """Read a file of starting calls."""
        spec = importlib.util.spec_from_file_location(f"{path.parts[-3]}_{path.stem}", path)
        assert spec and spec.loader
        file: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(file)
        functions = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        calls = [_starting_call(node.value, vars(file)) for node in functions["starting_calls"].body]
        for name, (make, symbols) in getattr(file, "OPERATIONS", {}).items():
            calls += [(name, operation(make, symbol)) for symbol in symbols.split()]
        uncalled = {name for names in file.UNCALLED.values() for name in names.split()}
        things = {thing.__name__: thing for thing in getattr(file, "CLASSES", ())}
        package = "core" if path.parents[1] == ROOT else path.parts[-3]
        if getattr(file, "FOR_AUTHORS", False):
            return cls(f"{package} for authors", things | _public(file.MODULES), calls, uncalled, Exception)
        return cls(package, things | _public(file.MODULES), calls, uncalled, tc.TilecopyError)

    @property
    def listed(self) -> set[str]:
        """The names that have a starting call or a reason for none."""
        return {*self.uncalled, *(name for name, _ in self.calls)}

    def has(self, name: str) -> bool:
        """Return whether the package has something of this name."""
        first, *rest = name.split(".")
        thing = self.things.get(first)
        return thing is not None and (not rest or hasattr(thing, rest[0]))

    def callables(self) -> Iterator[str]:
        """Yield each public function, class and method. The methods of an uncalled class do not count."""
        for name, thing in self.things.items():
            if isinstance(thing, types.ModuleType):
                yield from (f"{name}.{key}" for key, f in vars(thing).items() if _is_public(key, f, thing))
            elif isinstance(thing, types.FunctionType) or (isinstance(thing, type) and "__init__" in vars(thing)):
                yield name
            if isinstance(thing, type) and (
                name not in self.uncalled or any(listed.startswith(f"{name}.") for listed in self.listed)
            ):
                yield from (f"{name}.{method}" for method in _methods(thing))


def _starting_call(node: ast.Call, names: dict[str, Any]) -> tuple[str, Binding]:
    """Return what a call in the text of a file calls, and the call as a partial of what it stands for."""
    bound = ast.Call(ast.Name("partial", ast.Load()), [node.func, *node.args], node.keywords)
    code = compile(ast.fix_missing_locations(ast.Expression(ast.copy_location(bound, node))), "starting call", "eval")
    name, on_builder = _name_of(node.func, names), ast.unparse(node.func).startswith(("w.k.", "w.mbar."))

    def bind(w: Objects) -> partial[Any]:
        call = eval(code, {**names, "partial": partial, "w": w})
        return _with_build(call, w) if on_builder and not name.endswith("build") else call

    return name, bind


def _with_build(call: partial[Any], w: Objects) -> partial[Any]:
    """Return a call that also builds the kernel with the statement that it makes."""

    @wraps(call.func)
    def call_and_build(*arguments: Any, **keywords: Any) -> None:
        use(call.func(*arguments, **keywords))
        with suppress(tc.TilecopyError):
            w.k.build(target=TARGET, grid=1)

    return partial(call_and_build, *call.args, **call.keywords)


def _name_of(function: ast.expr, names: dict[str, Any]) -> str:
    """Return the public name of what is called."""
    if isinstance(function, ast.Call):  # what it returns is called
        return _name_of(function.func, names)
    if isinstance(function, ast.Name):
        return function.id
    assert isinstance(function, ast.Attribute)
    try:
        owner = eval(ast.unparse(function.value), {**names, "w": Objects()})
    except Exception:  # it is gone, and its test says so
        return ast.unparse(function)
    if isinstance(owner, types.ModuleType):
        return f"tcgen05.{function.attr}" if owner.__name__.endswith("tcgen05") else function.attr
    return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{function.attr}"


def _public(modules: tuple[types.ModuleType, ...]) -> dict[str, Any]:
    things = {}
    for module in modules:
        for name in getattr(module, "__all__", [key for key, f in vars(module).items() if _is_public(key, f, module)]):
            thing = getattr(module, name, None)
            things[thing.__name__ if isinstance(thing, type) else name] = thing
    return things


def _is_public(name: str, thing: Any, module: types.ModuleType) -> bool:
    return isinstance(thing, (type, types.FunctionType)) and thing.__module__ == module.__name__ and name[0] != "_"


def _methods(thing: type) -> Iterator[str]:
    for base in thing.__mro__:
        if base.__module__.startswith("tilecopy") and not getattr(base, "_is_protocol", False):
            for name, method in vars(base).items():
                is_method = isinstance(method, (types.FunctionType, classmethod, staticmethod))
                if is_method and not name.startswith(("_", "test_")):
                    yield name


@cache
def public_names() -> dict[str, tuple[Interface, str]]:
    """Return every public name to test, by the id of its test: what a file lists, and what some file should list.

    One file lists what several packages name. The methods of a class that is gone do not count.
    """
    files = [*sorted(ROOT.glob("tests/fuzz_calls*.py")), *sorted(ROOT.glob("plugins/*/tests/fuzz_calls*.py"))]
    names: dict[str, tuple[Interface, str]] = {}
    identities = set()
    interfaces = [Interface.load(path) for path in files]
    for interface in interfaces:
        for name in interface.listed:
            owner = interface.things.get(name.split(".")[0])
            if owner is not None or "." not in name:
                names[f"{interface.package}: {name}"] = interface, name
                identities.add((name, _identity(owner)))
    for interface in interfaces:
        for name in interface.callables():
            identity = name, _identity(interface.things[name.split(".")[0]])
            if identity not in identities:
                names[f"{interface.package}: {name}"] = interface, name
                identities.add(identity)
    return names


def _identity(thing: Any) -> tuple[str, str]:
    """Return what a function shares with the wrappers around it."""
    return getattr(thing, "__module__", ""), getattr(thing, "__qualname__", repr(thing))
