"""What each package makes public, and its starting calls."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import attrs
import tilecopy as tc
from tilecopy_test_helpers.fuzz_objects import TARGET, Objects, operation

from .engine import use

ROOT = Path(__file__).parents[2]
Binding = Callable[[Objects], "partial[Any]"]


@attrs.frozen
class Interface:
    """One file of starting calls: see the docstring of this package."""

    package: str
    things: dict[str, Any]
    """What its modules make public, and no file before."""
    calls: list[tuple[str, Binding]]
    """Public names, and how to make a call of each."""
    uncalled: set[str]

    @classmethod
    def load(cls, path: Path, seen: set[int]) -> Interface:
        """Read a file of starting calls. What `seen` has is left out; what it has not is added."""
        package = "core" if path.parent.name == "core" else path.parts[-3]
        spec = importlib.util.spec_from_file_location(f"{package}_{path.stem}", path)
        assert spec and spec.loader
        file: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(file)
        functions = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        calls = [_starting_call(node.value, vars(file)) for node in functions["starting_calls"].body]
        for name, (make, expressions) in getattr(file, "OPERATIONS", {}).items():
            calls += [(name, operation(make, expression)) for expression in expressions.split()]
        public = [(thing.__name__, thing) for thing in getattr(file, "CLASSES", ())]
        public += [pair for module in file.MODULES for pair in _public(module)]
        things = {name: thing for name, thing in public if id(inspect.unwrap(thing)) not in seen}
        seen.update(id(inspect.unwrap(thing)) for thing in things.values())
        uncalled = {name for names in file.UNCALLED.values() for name in names.split()}
        return cls(package, things, calls, uncalled)

    @property
    def listed(self) -> set[str]:
        """The names that have a starting call or a reason for none, without the methods of a class that is gone."""
        names = {*self.uncalled, *(name for name, _ in self.calls)}
        return {name for name in names if "." not in name or name.split(".")[0] in self.things}

    def has(self, name: str) -> bool:
        """Return whether the package has something of this name."""
        owner, _, method = name.partition(".")
        return owner in self.things and (not method or hasattr(self.things[owner], method))

    def callables(self) -> Iterator[str]:
        """Yield each public function, class and method. The methods of an uncalled class do not count."""
        for name, thing in self.things.items():
            if isinstance(thing, types.FunctionType) or (isinstance(thing, type) and "__init__" in vars(thing)):
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
    if not isinstance(function, ast.Attribute):
        return ast.unparse(function)
    try:
        owner = eval(ast.unparse(function.value), {**names, "w": Objects()})
    except Exception:  # it is gone, and its test says so
        return ast.unparse(function)
    if isinstance(owner, types.ModuleType):
        return function.attr
    return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{function.attr}"


def _public(module: types.ModuleType) -> list[tuple[str, Any]]:
    """Return what a module's `__all__` names or, where it has none, the functions and classes that it defines."""
    names = getattr(module, "__all__", [name for name, f in vars(module).items() if _defines(module, name, f)])
    things = [(name, getattr(module, name, None)) for name in names]
    return [(thing.__name__ if isinstance(thing, type) else name, thing) for name, thing in things]


def _defines(module: types.ModuleType, name: str, thing: Any) -> bool:
    return name[0] != "_" and getattr(thing, "__module__", "") == module.__name__


def _methods(thing: type) -> Iterator[str]:
    for base in thing.__mro__:
        if base.__module__.startswith("tilecopy") and not getattr(base, "_is_protocol", False):
            for name, method in vars(base).items():
                is_method = isinstance(method, (types.FunctionType, classmethod, staticmethod))
                if is_method and not name.startswith(("_", "test_")):
                    yield name


@cache
def public_names() -> dict[str, tuple[Interface, str]]:
    """Return every public name to test, by the id of its test: what a file lists, and what it should list."""
    files = [*sorted(ROOT.glob("tests/core/fuzz_calls*.py")), *sorted(ROOT.glob("plugins/*/tests/fuzz_calls*.py"))]
    seen: set[int] = set()
    interfaces = [Interface.load(path, seen) for path in files]
    return {f"{i.package}: {name}": (i, name) for i in interfaces for name in {*i.listed, *i.callables()}}
