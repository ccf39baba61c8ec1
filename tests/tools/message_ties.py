"""List tests that depend on the wording of a message: ``python tests/tools/message_ties.py`` prints each place and the count.

A test recognises an error by its type, its attributes and the values that the message mentions. A pattern is tied to the wording
if it holds a word that is not such a value. Patterns are what ``match=`` of ``pytest.raises`` and ``pytest.warns`` takes, and the
texts that an ``assert`` compares with the text of an error, of a warning or of standard error. They are followed through
parameters of a test, loops, constants of the module and arguments of its helpers.

A value is a number, the name of an operand (one capital letter), a name of code or a path (with an underscore, a digit, a dot or a slash
in it), or a word that the test passes: one in its other
strings, in those of its parameters, fixtures and helpers; the name of an attribute, of a keyword argument or of a parameter of a
function that it calls.

``test_messages.py`` of a package shows its messages on purpose and is not read.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import field, frozen

ROOT = Path(__file__).parents[2]
SHOWS_MESSAGES = "test_messages.py"
PREFIX = "tilecopy_test_helpers."
HELPERS = ROOT / "tests" / "helpers" / "src" / "tilecopy_test_helpers"
"""The modules of helpers: what a test passes through one of their functions is a value of the test."""
TOKEN = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|(?:(?<![\w.])(?:[.%]|--))?[\w$]+(?:(?:\.|::|[-/])[\w$]+)*")
PYTHON = {"Traceback"}
"""Words that Python itself writes."""
STRUCTURED = {"kind", "line", "cause", "bytes", "exit_code", "returncode", "filename", "lineno", "category", "details"}
"""Attributes of an error, a warning or a process that are data."""
TEXTS = {"stderr", "err", "exception"}
"""Attributes that hold what a command says of an error."""
EXPECTS = ("raises", "warns", "RaisesExc", "filterwarnings")
"""Calls that take ``match=``."""
LOOKED_AT = (ast.Name, ast.With, ast.ExceptHandler, ast.For, ast.comprehension, ast.Assign, ast.NamedExpr, ast.Compare)
"""Nodes that bind names, and what is done with them."""
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@frozen
class Pattern:
    """A text that a test looks for in a message.

    Attributes:
        node: the literal, a string or an f-string.
        regex: whether it is a regular expression.
        test: the function of the module that looks for it.
        where: the expression that takes it: that of ``match=``, or a comparison.
    """

    node: ast.expr
    regex: bool
    test: ast.stmt
    where: ast.expr


def words(text: str) -> list[str]:
    """Return the words, names and numbers of a text, in order."""
    return TOKEN.findall(text)


def words_and_parts(text: str) -> set[str]:
    """Return the words of a text, and the parts of those with dots or underscores in them."""
    return {part for word in words(text) for part in (word, *re.split(r"[-._:$%/]+", word))}


def is_prose(word: str) -> bool:
    """Whether a word is made of letters and hyphens alone, so that it may be of the wording."""
    return word[0] != "-" and word.replace("-", "").isalpha() and not (len(word) == 1 and word.isupper())


def is_value(word: str, values: set[str]) -> bool:
    """Whether a word is a value of a test, or values with hyphens between them."""
    return word in values or ("-" in word and all(part in values for part in word.split("-")))


def plain(pattern: str) -> str:
    """Return the literal text of a regular expression, with a space for what is not literal."""
    pattern = re.sub(r"\(\?[a-zA-Z]+\)|\(\?[:=!<]+|\\[dwsSDWbAZ]|\[[^\]\\ ]*\][+*?]?|\{\d*,?\d*\}", " ", pattern)
    pattern = re.sub(r"(?<!\\)\\[nt]", " ", pattern)
    pattern = re.sub(r"(?<!\\)\.[*+?]+|(?<!\\)[*+?^$|()]|(?<!\\)(?<![\w])\.|(?<!\\)\.(?!\w)", " ", pattern)
    return re.sub(r"\\(.)", r"\1", pattern)


def parameters(module: ast.Module) -> Iterator[tuple[str, set[str]]]:
    """Yield each function and class of a module of the product with the names of its parameters or fields."""
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = [
                *node.args.posonlyargs,
                *node.args.args,
                *node.args.kwonlyargs,
                node.args.vararg,
                node.args.kwarg,
            ]
            yield node.name, {argument.arg for argument in arguments if argument} - {"self", "cls"}
        elif isinstance(node, ast.ClassDef):
            fields = {
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            }
            made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            yield (
                node.name,
                fields | {argument.arg for each in made for argument in each.args.args + each.args.kwonlyargs},
            )


@cache
def signatures() -> dict[str, set[str]]:
    """Return the names of the parameters of the product's functions and classes, by name."""
    found: dict[str, set[str]] = {}
    for path in tracked("tilecopy_core/*.py", "plugins/*/src/*.py"):
        for name, names in parameters(ast.parse(path.read_text())):
            if not name.startswith("_"):
                found.setdefault(name, set()).update(names)
    return found


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the checkout that match, sorted."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(path for name in listed.stdout.splitlines() if (path := ROOT / name).exists())


def files_read() -> list[Path]:
    """Return every file of the tests that is not there to show messages."""
    return [path for path in tracked("tests/*.py", "plugins/*/tests/*.py") if path.name != SHOWS_MESSAGES]


def name_of(function: ast.expr) -> str:
    """Return the last name of what is called."""
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def targets(node: ast.expr) -> list[tuple[str, int | None]]:
    """Return the names that a target binds, each with its column where there are several."""
    if isinstance(node, ast.Name):
        return [(node.id, None)]
    if isinstance(node, ast.Tuple):
        return [(each.id, place) for place, each in enumerate(node.elts) if isinstance(each, ast.Name)]
    return []


def top_level(tree: ast.Module) -> dict[str, ast.stmt]:
    """Return the functions, classes and variables of a module, by name."""
    named: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            named[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                named.update((name, node) for name, _ in targets(target))
    return named


@frozen
class Module:
    """A file of tests, with what is looked up in it again and again."""

    tree: ast.Module
    nodes: list[ast.AST] = field(init=False)
    parents: dict[ast.AST, ast.AST] = field(init=False)
    inside: dict[ast.AST, list[ast.AST]] = field(init=False, factory=dict)
    top: dict[str, ast.stmt] = field(init=False)
    imported: dict[str, ast.stmt] = field(init=False)

    @nodes.default
    def _nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @parents.default
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @top.default
    def _top(self) -> dict[str, ast.stmt]:
        return top_level(self.tree)

    @imported.default
    def _imported(self) -> dict[str, ast.stmt]:
        """Return what is imported from a module of the helpers, by name."""
        named: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if (
                isinstance(node, ast.ImportFrom)
                and (path := HELPERS / f"{node.module}.py".replace(PREFIX, "")).exists()
            ):
                available = top_level(ast.parse(path.read_text()))
                named |= {alias.name: available[alias.name] for alias in node.names if alias.name in available}
        return named

    def within(self, function: ast.AST) -> list[ast.AST]:
        """Return the nodes of a function that its names and checks are found in."""
        if function not in self.inside:
            self.inside[function] = [node for node in ast.walk(function) if isinstance(node, LOOKED_AT)]
        return self.inside[function]

    def outermost(self, node: ast.AST) -> ast.stmt:
        """Return the statement of the module that holds a node."""
        while not isinstance(self.parents[node], ast.Module):
            node = self.parents[node]
        assert isinstance(node, ast.stmt)
        return node

    def functions_around(self, node: ast.AST) -> Iterator[Function]:
        """Yield the functions that hold a node, the innermost first."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, Function):
                yield node

    def column(self, values: ast.expr, place: int | None) -> Iterator[ast.expr]:
        """Yield what a name is bound to by a loop over values: each of them, or one column."""
        if isinstance(values, ast.Name) and isinstance(bound := self.top.get(values.id), (ast.Assign, ast.AnnAssign)):
            values = bound.value or values
        if isinstance(values, ast.Call) and name_of(values.func) == "items" and isinstance(values.func, ast.Attribute):
            table = values.func.value
            if isinstance(table, ast.Name) and isinstance(bound := self.top.get(table.id), (ast.Assign, ast.AnnAssign)):
                table = bound.value or table
            if isinstance(table, ast.Dict):
                yield from (each for each in (table.values if place else table.keys) if each)
        elif isinstance(values, (ast.List, ast.Tuple, ast.Set)):
            for row in values.elts:
                if isinstance(row, ast.Starred):
                    yield from self.column(row.value, place)
                elif place is None:
                    yield row.args[0] if isinstance(row, ast.Call) and name_of(row.func) == "param" else row
                elif isinstance(row, ast.Call) and place < len(row.args):  # pytest.param
                    yield row.args[place]
                elif isinstance(row, ast.Tuple) and place < len(row.elts):
                    yield row.elts[place]
        elif isinstance(values, ast.Dict) and place is None:
            yield from (each for each in values.keys if each)
        elif isinstance(values, (ast.ListComp, ast.GeneratorExp)):
            element = values.elt
            if place is not None and isinstance(element, ast.Tuple) and place < len(element.elts):
                yield element.elts[place]

    def bindings(self, name: ast.Name) -> Iterator[ast.expr]:
        """Yield the expressions that a name may stand for."""
        for function in self.functions_around(name):
            found = list(self._bound_in(function, name.id))
            if found:
                yield from found
                return
        if isinstance(bound := self.top.get(name.id), (ast.Assign, ast.AnnAssign)) and bound.value:
            yield bound.value

    def _bound_in(self, function: Function, name: str) -> Iterator[ast.expr]:
        for node in self.within(function):
            if isinstance(node, (ast.For, ast.comprehension)):
                for target, place in targets(node.target):
                    if target == name:
                        yield from self.column(node.iter, place)
            elif isinstance(node, ast.Assign) and any(
                target == name for each in node.targets for target, _ in targets(each)
            ):
                for each in node.targets:
                    for target, place in targets(each):
                        if target == name:
                            yield from [node.value] if place is None else self.column(ast.Tuple([node.value]), place)
        if isinstance(function, ast.Lambda):
            return
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and name_of(decorator.func) == "parametrize" and len(decorator.args) > 1:
                names = decorator.args[0]
                if isinstance(names, ast.Constant):
                    listed = [each.strip() for each in str(names.value).split(",")]
                else:
                    listed = [str(each.value) for each in getattr(names, "elts", []) if isinstance(each, ast.Constant)]
                if name in listed:
                    yield from self.column(decorator.args[1], listed.index(name) if len(listed) > 1 else None)
        arguments = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        if name in arguments + [each.arg for each in function.args.kwonlyargs]:
            place = arguments.index(name) if name in arguments else -1
            for node in self.nodes:
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function.name:
                    if 0 <= place < len(node.args):
                        yield node.args[place]
                    yield from (keyword.value for keyword in node.keywords if keyword.arg == name)

    def literals(self, node: ast.expr, seen: frozenset[ast.expr] = frozenset()) -> Iterator[ast.expr]:
        """Yield the strings and f-strings that a pattern is made of."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node
        elif isinstance(node, ast.JoinedStr):
            yield node
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield from self.literals(part.value, seen)
        elif isinstance(node, ast.Name) and node not in seen and not self.is_passed(node):
            for bound in self.bindings(node):
                yield from self.literals(bound, seen | {node})
        elif isinstance(node, ast.BinOp):
            for side in (node.left, node.right):
                yield from self.literals(side, seen)
        elif isinstance(node, ast.IfExp):
            for side in (node.body, node.orelse):
                yield from self.literals(side, seen)
        elif isinstance(node, ast.BoolOp):
            for side in node.values:
                yield from self.literals(side, seen)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            for each in node.elts:
                yield from self.literals(each, seen)
        elif isinstance(node, ast.Starred):
            yield from self.literals(node.value, seen)
        elif isinstance(node, ast.Call) and name_of(node.func) in ("escape", "mentions", "compile"):
            for each in node.args:
                yield from self.literals(each, seen)
        elif isinstance(node, ast.Call) and name_of(node.func) == "is_hazard":
            for each in node.args[1:]:
                yield from self.literals(each, seen)
            if isinstance(node.args[0], ast.Starred) and isinstance(node.args[0].value, ast.Name):
                for bound in self.bindings(node.args[0].value):
                    for each in getattr(bound, "elts", [])[1:]:
                        yield from self.literals(each, seen)

    def is_passed(self, name: ast.Name) -> bool:
        """Whether a test passes the value of a name to something else than a check, too."""
        for function in self.functions_around(name):
            if any(True for _ in self._bound_in(function, name.id)):
                return any(
                    isinstance(node, ast.Name)
                    and node.id == name.id
                    and isinstance(node.ctx, ast.Load)
                    and not self._is_checked(node)
                    for node in self.within(function)
                )
        return False

    def _is_checked(self, node: ast.AST) -> bool:
        """Whether an expression stands in an assert, a condition, or what says which error is expected."""
        while not isinstance(node, ast.stmt):
            if isinstance(node, ast.Call) and name_of(node.func) in EXPECTS:
                return True
            parent = self.parents[node]
            if isinstance(node, ast.Compare) or (isinstance(parent, (ast.If, ast.IfExp)) and parent.test is node):
                return True
            node = parent
        return isinstance(node, ast.Assert)

    def is_message(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        """Whether an expression is the text of an error or a warning, or holds it."""
        if isinstance(node, ast.Attribute):
            if node.attr == "output" and isinstance(node.value, ast.Name):
                return self.is_failed(node.value)
            return node.attr in TEXTS or (node.attr not in STRUCTURED and self.is_message(node.value, seen))
        if isinstance(node, ast.Name):
            return node.id not in seen and self._names_message(node, seen | {node.id})
        if isinstance(node, ast.Call):
            helper = self.top.get(name_of(node.func))
            if isinstance(helper, ast.FunctionDef) and isinstance(node.func, ast.Name):
                if helper.name in seen:
                    return False
                returned = [each.value for each in ast.walk(helper) if isinstance(each, ast.Return) and each.value]
                return any(
                    self.is_message(each, seen | {helper.name})
                    for each in returned
                    if not isinstance(each, (ast.Compare, ast.Tuple))
                )
            if isinstance(node.func, ast.Attribute):
                return self.is_message(node.func.value, seen)
            return name_of(node.func) in ("str", "repr") and any(self.is_message(each, seen) for each in node.args)
        if isinstance(node, ast.Subscript):
            return self.is_message(node.value, seen)
        if isinstance(node, ast.BoolOp):
            return any(self.is_message(each, seen) for each in node.values)
        if isinstance(node, ast.BinOp):
            return self.is_message(node.left, seen) or self.is_message(node.right, seen)
        if isinstance(node, ast.JoinedStr):
            return any(
                isinstance(each, ast.FormattedValue) and self.is_message(each.value, seen) for each in node.values
            )
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            return self.is_message(node.elt, seen)
        return False

    def is_failed(self, result: ast.Name) -> bool:
        """Whether a function says that a command ended with another status than 0."""
        return any(
            isinstance(node, ast.Compare)
            and isinstance(node.left, ast.Attribute)
            and node.left.attr in ("exit_code", "returncode")
            and ast.dump(node.left.value) == ast.dump(result)
            and isinstance(node.comparators[0], ast.Constant)
            and isinstance(node.ops[0], ast.Eq) == bool(node.comparators[0].value)
            for function in self.functions_around(result)
            for node in self.within(function)
        )

    def _names_message(self, name: ast.Name, seen: frozenset[str]) -> bool:
        for function in self.functions_around(name):
            for node in self.within(function):
                if isinstance(node, ast.With):
                    for item in node.items:
                        if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == name.id:
                            if isinstance(item.context_expr, ast.Call) and name_of(item.context_expr.func) in (
                                "raises",
                                "warns",
                            ):
                                return True
                elif isinstance(node, ast.ExceptHandler) and node.name == name.id:
                    return True
                elif isinstance(node, (ast.For, ast.comprehension)):
                    if any(target == name.id for target, _ in targets(node.target)) and self.is_message(
                        node.iter, seen
                    ):
                        return True
                elif isinstance(node, (ast.Assign, ast.NamedExpr)):
                    bound = node.targets if isinstance(node, ast.Assign) else [node.target]
                    if any(target == name.id for each in bound for target, _ in targets(each)) and self.is_message(
                        node.value, seen
                    ):
                        return True
            parent = self.parents.get(function)
            if isinstance(parent, ast.keyword) and parent.arg == "check":  # of pytest.raises
                return isinstance(function, ast.Lambda) and name.id in [each.arg for each in function.args.args]
        return False

    def looked_for(self) -> Iterator[tuple[ast.expr, bool, ast.expr]]:
        """Yield each expression that a message is held against, whether it is a regular expression, and what takes it."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and name_of(node.func) in EXPECTS:
                for keyword in node.keywords:
                    if keyword.arg == "match" or (keyword.arg == "check" and isinstance(keyword.value, ast.Call)):
                        yield keyword.value, True, keyword.value
            elif isinstance(node, ast.Call) and name_of(node.func) in ("search", "match", "fullmatch", "findall"):
                if isinstance(node.func, ast.Attribute) and node.args and self.is_message(node.args[-1]):
                    pattern = node.args[0] if len(node.args) > 1 else node.func.value
                    yield pattern, True, node
            elif isinstance(node, ast.Call) and name_of(node.func) in ("startswith", "endswith", "count", "index"):
                if isinstance(node.func, ast.Attribute) and node.args and self.is_message(node.func.value):
                    yield node.args[0], False, node
            elif isinstance(node, ast.Compare) and len(node.ops) == 1:
                left, right = node.left, node.comparators[0]
                if isinstance(node.ops[0], (ast.In, ast.NotIn)) and self.is_message(right):
                    yield left, False, node
                elif isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                    for text, other in ((left, right), (right, left)):
                        if self.is_message(other):
                            yield text, False, node

    def patterns(self) -> list[Pattern]:
        """Return every text of the module that is looked for in a message."""
        found: dict[tuple[ast.expr, ast.stmt], Pattern] = {}
        for pattern, regex, where in self.looked_for():
            mentioned = isinstance(pattern, ast.Call) and name_of(pattern.func) in ("mentions", "is_hazard")
            for literal in self.literals(pattern):
                test = self.outermost(literal)
                if isinstance(test, (ast.Assign, ast.AnnAssign)):
                    test = self.outermost(where)
                found.setdefault((literal, test), Pattern(literal, regex and not mentioned, test, where))
        return list(found.values())

    def values(self, test: ast.stmt, patterns: set[ast.expr]) -> set[str]:
        """Return the words that a test passes: in strings, attributes and keywords of its own and of what it uses."""
        passed: set[str] = set()
        local = self._local_names(test)
        todo: list[ast.AST] = [test]
        walked: set[ast.AST] = set()
        while todo:
            node = todo.pop()
            if node in walked or node in patterns:
                continue
            walked.add(node)
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False) is not None:
                walked.add(node.body[0])
            if isinstance(node, ast.Constant):
                passed.update(words_and_parts(str(node.value)))
            elif isinstance(node, ast.keyword) and node.arg and node.arg != "match":
                passed.add(node.arg)
            elif isinstance(node, ast.Attribute):
                passed.add(node.attr)
            elif isinstance(node, ast.arg) and node.arg in self.top:  # a fixture
                todo.append(self.top[node.arg])
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                if node.id in self.top or node.id in self.imported:
                    todo.append(self.top.get(node.id) or self.imported[node.id])
                elif node.id not in local:
                    passed.add(node.id)
            if isinstance(node, ast.Call):
                passed.update(signatures().get(name_of(node.func), ()))
            todo.extend(ast.iter_child_nodes(node))
        return passed

    def _local_names(self, test: ast.stmt) -> set[str]:
        stored = {node.id for node in ast.walk(test) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        return stored | {node.arg for node in ast.walk(test) if isinstance(node, ast.arg)}


def literal_text(pattern: Pattern) -> str:
    """Return the text of a pattern without regular expressions, with a space for what an f-string fills in."""
    node = pattern.node
    if isinstance(node, ast.JoinedStr):
        text = "\0".join(str(part.value) if isinstance(part, ast.Constant) else "" for part in node.values)
    else:
        assert isinstance(node, ast.Constant)
        text = str(node.value)
    return (plain(text) if pattern.regex else text).replace("\0", " ")


@frozen
class Tie:
    """A pattern that holds words of the wording."""

    path: Path
    pattern: Pattern
    words: list[str]

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.pattern.node.lineno}: {' '.join(self.words)}"


def ties(path: Path) -> list[Tie]:
    """Return the patterns of a file that hold words which are not values that its tests pass."""
    module = Module(ast.parse(path.read_text()))
    patterns = module.patterns()
    nodes = {pattern.node for pattern in patterns}
    passed: dict[ast.stmt, set[str]] = {}
    found = []
    for pattern in patterns:
        prose = [word for word in words(literal_text(pattern)) if is_prose(word) and word not in PYTHON]
        if prose:
            values = passed.setdefault(pattern.test, set()) or module.values(pattern.test, nodes)
            passed[pattern.test] = values
            if tied := [word for word in prose if not is_value(word, values)]:
                found.append(Tie(path, pattern, tied))
    return sorted(found, key=lambda tie: tie.pattern.node.lineno)


def main() -> None:
    """Print the ties, each with the words that are not values, and how many there are."""
    found = [tie for path in files_read() for tie in ties(path)]
    print(*found, f"{len(found)} patterns hold words of a message", sep="\n")


if __name__ == "__main__":
    main()
