"""Faults drawn from the syntax tree, and the pytest plugin that plants them: what runs inside each process of `mutation.py`.

A place is a node of a function that can be changed in one way: another comparison, another operator, a constant that is one
off, a negated condition, swapped arguments, a statement that is left out, a result of None. Its name has the function, the
kind and the number of that kind in the function (``Swizzle.apply:compare:2``), so that edits elsewhere keep it.

:func:`install` reads the task that the variable ``MUTATION`` names. From then on the modules of the task are compiled with
its faults, or with a probe before the statement of each; no file is changed. A process that a test starts does the same.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import ast
import atexit
import builtins
import json
import os
import resource
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
    ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip
"""What replaces an operator."""
SYMMETRIC = ("max", "min", "gcd", "lcm", "math.gcd", "math.lcm")
"""Functions whose arguments may be swapped."""
ADDRESS_SPACE_BYTES = 12 << 30
"""A fault that allocates without end must not take the machine's memory."""


class Place(NamedTuple):
    """A node that can be changed.

    Attributes:
        name: function, kind and number.
        statement, body: the statement around it, and the list that holds the statement.
        change: changes the tree.
    """

    name: str
    statement: ast.stmt
    body: list[ast.stmt]
    change: Callable[[], None]


def places(tree: ast.Module) -> Iterator[Place]:
    """Every place of a module's functions. Annotations, decorators, docstrings, messages of errors and assertions have none."""
    count: Counter[str] = Counter()
    for scope, body, statement in _statements(tree.body, "", inside=False):
        for kind, change in _changes(statement, body):
            name = f"{scope}:{kind}"
            count[name] += 1
            yield Place(f"{name}:{count[name]}", statement, body, change)


def _statements(body: list[ast.stmt], scope: str, *, inside: bool) -> Iterator[tuple[str, list[ast.stmt], ast.stmt]]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{scope}.{statement.name}".lstrip(".")
            yield from _statements(statement.body, name, inside=not isinstance(statement, ast.ClassDef))
            continue
        if inside:
            yield scope, body, statement
        for holder in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(holder, field, []), scope, inside=inside)


def _changes(statement: ast.stmt, body: list[ast.stmt]) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(statement, ast.Assert):
        return
    left_out = isinstance(statement, (ast.AugAssign, ast.Raise, ast.Delete)) or (
        isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant)
    )
    if left_out:
        yield "left-out", lambda: _replace(body, statement, ast.Pass())
    if isinstance(statement, (ast.Break, ast.Continue)):
        yield "jump", lambda: _replace(body, statement, OTHER[type(statement)]())
    if isinstance(statement, ast.Return) and not isinstance(statement.value, (ast.Constant, type(None))):
        yield "return-none", lambda: setattr(statement, "value", ast.Constant(None))
    if isinstance(statement, ast.Raise):
        return
    for node in _expressions(statement):
        yield from _changes_of_node(node)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The statement, and the nodes of its expressions, without those of the statements in it."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            if field not in ("annotation", "returns"):
                pending += [each for each in children if isinstance(each, (ast.expr, ast.comprehension, ast.keyword))]
                pending += [each.context_expr for each in children if isinstance(each, ast.withitem)]


def _changes_of_node(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            yield "compare", lambda index=index, operator=operator: node.ops.__setitem__(index, OTHER[type(operator)]())
    elif isinstance(node, (ast.BoolOp, ast.BinOp, ast.AugAssign)) and type(node.op) in OTHER:
        kind = "boolean" if isinstance(node, ast.BoolOp) else "arithmetic"
        yield kind, lambda: setattr(node, "op", OTHER[type(node.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", lambda: setattr(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield "more", lambda: setattr(node, "value", node.value + 1)
        yield "less", lambda: setattr(node, "value", node.value - 1)
    elif isinstance(node, ast.Call) and len(node.args) > 1 and ast.unparse(node.func) not in SYMMETRIC:
        if not any(isinstance(each, ast.Starred) for each in node.args[:2]):
            yield "swapped", lambda: node.args.__setitem__(slice(2), node.args[1::-1])
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield "negated", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.comprehension) and node.ifs:
        yield "negated", lambda: node.ifs.__setitem__(0, ast.UnaryOp(ast.Not(), node.ifs[0]))


def _replace(body: list[ast.stmt], statement: ast.stmt, new: ast.stmt) -> None:
    body[next(index for index, each in enumerate(body) if each is statement)] = ast.copy_location(new, statement)


def changed(source: str | bytes, name: str) -> tuple[ast.Module, str, str]:
    """The tree with one fault, and the first line of its statement before and after it."""
    tree = ast.parse(source)
    place = next(place for place in places(tree) if place.name == name)
    index = next(index for index, each in enumerate(place.body) if each is place.statement)
    before = ast.unparse(place.statement)
    place.change()
    after = ast.unparse(place.body[index])
    lines = zip(before.splitlines(), after.splitlines(), strict=False)
    return tree, *next(((a, b) for a, b in lines if a != b), (before, after))


def probed(source: str | bytes, names: set[str], prefix: str) -> ast.Module:
    """The tree with a probe before the statement of each named place: it records the place as reached."""
    tree = ast.parse(source)
    for place in [place for place in places(tree) if place.name in names]:
        probe = ast.parse(f"__reached__({prefix + place.name!r})").body[0]
        index = next(index for index, each in enumerate(place.body) if each is place.statement)
        place.body.insert(index, probe)
        for node in ast.walk(probe):
            ast.copy_location(node, place.statement)
    return tree


REACHED: set[str] = set()
TASK: dict[str, Any] = {}
_started = [0.0]


def install() -> None:
    """Compile the modules of the task with what it asks for, in this process and in those that it starts."""
    TASK.update(json.loads(Path(os.environ["MUTATION"]).read_text(encoding="utf-8")))
    builtins.__reached__ = REACHED.add  # type: ignore[attr-defined]
    plain = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> Any:
        path = os.path.realpath(loader.path)
        names = TASK["faults"].get(path)
        if names is None:
            return plain(loader, name)
        source = Path(loader.path).read_bytes()
        if TASK["plant"]:
            tree = changed(source, names[0])[0]
        else:
            tree = probed(source, set(names), path + "::")
        return compile(ast.fix_missing_locations(tree), loader.path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    if test := os.environ.get("PYTEST_CURRENT_TEST"):  # a process that a test started
        atexit.register(lambda: _record(test=test.rsplit(" ", 1)[0]))
    else:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))


def _cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _record(**more: Any) -> None:
    with Path(TASK["log"]).open("a", encoding="utf-8") as log:
        log.write(json.dumps({"reached": sorted(REACHED), **more}) + "\n")
    REACHED.clear()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep the tests of the task, the shortest first; what importing the file reached is every test's."""
    _record(test="", cpu_seconds=_cpu_seconds())
    if TASK["kit"]:
        items[:] = [item for item in items if _of_the_kit(item)]
    if limits := TASK["limits_cpu_seconds"]:
        items[:] = sorted((item for item in items if item.nodeid in limits), key=lambda item: limits[item.nodeid])


def _of_the_kit(item: Any) -> bool:
    return any(base.__name__ == "VariantSuite" for base in getattr(item.cls, "__mro__", ()))


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    """Begin to count the CPU time of a test; the alarm ends one that hangs."""
    REACHED.clear()
    _started[0] = _cpu_seconds()
    if limits := TASK["limits_cpu_seconds"]:

        def hung(number: int, frame: Any) -> None:
            _record(test=nodeid, failed="hang")
            os._exit(1)

        signal.signal(signal.SIGPROF, hung)
        signal.setitimer(signal.ITIMER_PROF, limits[nodeid])


def pytest_runtest_logfinish(nodeid: str, location: Any) -> None:
    """Record what a test reached."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    _record(test=nodeid, cpu_seconds=_cpu_seconds() - _started[0])


def pytest_runtest_logreport(report: Any) -> None:
    """Record a test that fails."""
    if report.failed:
        _record(test=report.nodeid, failed="test")
