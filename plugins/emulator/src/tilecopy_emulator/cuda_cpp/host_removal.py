"""A parser of the declarations in a CUDA C++ file, and the removal of the host's declarations.

NVRTC compiles no host code, but a ``.cu`` file has a ``main``. A tokenizer and a parser of declarations find those without
``__global__`` or ``__device__`` and replace them by spaces, so that every line keeps its number. Preprocessor lines stay.
With this parser, 60 of 62 public files compiled; with libclang and tree-sitter-cuda, 53 and 50 did, because
these give up on macros and missing headers.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

import attrs

_TOKEN = re.compile(
    r"""(?P<line>(?:^|(?<=\n))[ \t]*\#(?:\\\r?\n|/\*.*?(?:\*/|\Z)|[^\n])*)
      | (?P<space>\s*\n|\s+|//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
      | (?P<string>(?:u8|[uUL])?R"(?P<end>[^ ()\\\s]{0,16})\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
      | (?P<word>[A-Za-z_]\w*)
      | (?P<number>\.?[0-9](?:[eEpP][+-]|'?[\w.])*)
      | (?P<mark><<<|::|->|.)""",
    re.DOTALL | re.VERBOSE,
)
_MARKERS = frozenset(("__global__", "__device__", "__constant__", "__shared__", "__managed__"))
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_TYPES = ("struct", "class", "union", "enum")
_OTHERS = re.compile("using|typedef|static_assert|friend|template|namespace|asm|concept|public|private")
_ATTRIBUTES = (
    "__launch_bounds__",
    "__cluster_dims__",
    "__maxnreg__",
    "__align__",
    "alignas",
    "__attribute__",
    "__declspec",
    "decltype",
    "noexcept",
)
_AFTER_PARAMETERS = ("const", "noexcept", "override", "final", "try", "requires", "volatile", *_ATTRIBUTES)
_CONSTANT = re.compile("(static )?const (unsigned |signed )?(float|double|int|char|short|long|long long|bool) \\w+ =")
_USING_STD = ["using", "namespace", "std", ";"]
_MOST_DEEP = 1000
"""The largest nesting depth of brackets; C++ recommends 256 to compilers."""


@attrs.frozen
class CppToken:
    """A token of C++: an identifier or keyword, number, string, punctuation mark, or preprocessor line."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset of the first character after the token."""
        return self.start + len(self.text)


@attrs.frozen
class Declaration:
    """A declaration in a CUDA C++ file, outside function bodies.

    ``kind``: "function" (with a body), "prototype", "variable", "type", or "other"; ``name``: the declared name, or "";
    ``marked``: whether it is for the device, by a word such as ``__global__`` or a macro for one; ``head``: its
    tokens up to the body, with template parameters; ``start, end``: its offsets in the text; ``first, last``: its
    lines; ``member``: whether it is in a class; ``scope``: the names of its namespaces, such as ``"outer::inner::"``.
    """

    kind: str
    name: str
    marked: bool
    head: tuple[CppToken, ...]
    start: int
    end: int
    first: int
    last: int
    member: bool = False
    scope: str = ""

    def has(self, *words: str) -> bool:
        """Return True if the declaration contains one of ``words`` before its body."""
        return any(token.text in words for token in self.head)


@attrs.frozen
class SourceFile:
    """A parsed CUDA C++ file: its declarations outside function bodies, including those in namespaces and classes.

    ``text``: as written; ``tokens``: without spaces and comments; ``declarations``: in order; a class comes after its
    members; ``fault``: the reason why the declarations cannot be parsed (a bracket that is not closed), or "".
    """

    text: str
    tokens: tuple[CppToken, ...]
    declarations: tuple[Declaration, ...]
    fault: str = ""

    @property
    def kernels(self) -> tuple[Declaration, ...]:
        """The declarations of the file's kernels."""
        return tuple(entry for entry in self.declarations if entry.name and entry.has("__global__"))


_INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^">\n]+)')


def header_names(text: str) -> list[str]:
    """Return the names of the headers that a source text includes."""
    matches = (_INCLUDE.match(token.text) for token in tokens_of(text) if token.kind == "line")
    return [match[1] for match in matches if match]


def tokens_of(text: str) -> tuple[CppToken, ...]:
    """Return the tokens of C++ without comments and spaces."""
    tokens = (CppToken(str(match.lastgroup), match[0], match.start()) for match in _TOKEN.finditer(text))
    return tuple(attrs.evolve(x, kind="string") if x.kind == "end" else x for x in tokens if x.kind != "space")


def marker_macros(files: Iterable[str]) -> frozenset[str]:
    """Return the device-code qualifiers, such as ``__device__``, and the macros that expand to such a qualifier."""
    defined = [
        (line[1], set(re.findall(r"\w+", line[2])))
        for text in files
        for line in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\r?\n|[^\n])*)", text, re.MULTILINE)
    ]
    markers = _MARKERS
    while more := {name for name, words in defined if words & markers} - markers:
        markers |= more
    return markers


@lru_cache(maxsize=64)
def source_file(text: str, markers: frozenset[str] = _MARKERS) -> SourceFile:
    """Parse the declarations of a CUDA C++ text."""
    tokens = tokens_of(text)
    reader = _Reader(text, _one_branch(tokens), markers)
    try:
        reader.declarations()
    except _UnclosedError as error:
        return SourceFile(text, tokens, (), str(error))
    return SourceFile(text, tokens, tuple(reader.read))


def without(file: SourceFile, left_out: Collection[Declaration], constants: Collection[Declaration] = ()) -> str:
    """Return a file's text with some declarations replaced by spaces, and others ``constexpr`` instead of ``const``.

    Line numbers do not change.
    """
    kept = [x for x in file.tokens if x.kind == "line" and not re.match(r"\s*#\s*(pragma|include)", x.text)]
    parts, at = [], 0
    for declaration in sorted({*left_out, *constants}, key=lambda declaration: declaration.start):
        if declaration.start < at:
            continue
        if declaration not in left_out:
            word = next(token for token in declaration.head if token.text == "const")
            parts += [file.text[at : word.start], "constexpr"]
            at = word.end
            continue
        parts.append(file.text[at : declaration.start])
        at = declaration.start
        for line in kept:
            if declaration.start < line.start < declaration.end:
                parts += [re.sub(r"[^\n]", " ", file.text[at : line.start]), line.text]
                at = line.end
        parts.append(re.sub(r"[^\n]", " ", file.text[at : declaration.end]))
        at = declaration.end
    return "".join([*parts, file.text[at:]])


def host_declarations(file: SourceFile, kernels: Collection[str]) -> set[Declaration]:
    """Return the declarations that only the host uses: functions and variables without a qualifier such as ``__device__``.

    Constants and ``constexpr`` functions stay, because kernels may use them, and so do types.
    """
    declarations = set()
    for entry in file.declarations:
        if entry.member or entry.marked or entry.has("constexpr", "consteval") or entry.name in kernels:
            continue
        if entry.kind in ("function", "prototype") or (entry.kind == "variable" and not entry.has("const")):
            declarations.add(entry)
    return declarations


def host_constants(file: SourceFile) -> set[Declaration]:
    """Return the constants of the host that are numbers, outside classes. Kernels may use them."""
    return {
        entry
        for entry in file.declarations
        if entry.kind == "variable" and not (entry.marked or entry.member)
        and _CONSTANT.match(" ".join(token.text for token in entry.head))
    }  # fmt: skip


def std_directives(file: SourceFile) -> set[Declaration]:
    """Return the ``using namespace std;`` of a file outside function bodies."""
    return {entry for entry in file.declarations if [token.text for token in entry.head] == _USING_STD}


def needs_host(file: SourceFile, missing: Collection[str]) -> bool:
    """Return True if NVRTC would fail because of a host function or a missing header outside ``#if``."""
    functions = {declaration.start for declaration in host_declarations(file, ()) if declaration.kind == "function"}
    depth = 0
    for token in file.tokens:
        if token.kind == "line":
            word = re.match(r"\s*#\s*(if|endif)", token.text)
            depth += 0 if word is None else 1 if word[1] == "if" else -1
            name = _INCLUDE.match(token.text)
            if not depth and name and name[1] in missing:
                return True
        elif not depth and token.start in functions:
            return True
    return False


def at_lines(file: SourceFile, lines: Iterable[int]) -> set[Declaration]:
    """Return the innermost host declaration at each line and, for a use of a macro, all other uses of the macro."""
    declarations = set()
    for line in lines:
        here = [entry for entry in file.declarations if entry.first <= line <= entry.last]
        if here and not (nearest := min(here, key=lambda entry: entry.end - entry.start)).marked:
            declarations.add(nearest)
    macros = {entry.head[0].text for entry in declarations if entry.kind == "other"} - {*_TYPES}
    macros = {name for name in macros if not _OTHERS.fullmatch(name)}
    return declarations | {
        entry for entry in file.declarations if entry.kind == "other" and entry.head[0].text in macros
    }


class _UnclosedError(Exception):
    """An exception for a bracket that is not closed."""


def _one_branch(tokens: Sequence[CppToken]) -> list[CppToken]:
    """Return the tokens without preprocessor lines, and only one branch of an ``#if`` with unbalanced brackets."""
    kept: list[CppToken] = []
    depth = 0
    stack: list[
        tuple[int, int, str]
    ] = []  # for each #if: start of the branch in `kept`, depth there, number of the branch
    for token in tokens:
        if token.kind != "line":
            kept.append(token)
            depth += (token.text in _CLOSERS) - (token.text in (")", "]", "}"))
            continue
        word = re.match(r"\s*#\s*(\w*)\s*(\S*)", token.text)
        directive, condition = (word[1], word[2]) if word else ("", "")
        if directive[:2] == "if":
            stack.append((len(kept), depth, "never" if (directive, condition) == ("if", "0") else "first"))
        elif directive in ("else", "elif", "endif") and stack:
            start, before, branch = stack.pop()
            if branch == "never" or (branch == "later" and depth != before):
                del kept[start:]
                depth = before
            if directive != "endif":
                stack.append((len(kept), depth, "first" if branch == "never" else "later"))
    return kept


class _Reader:
    """A parser of declarations."""

    def __init__(self, text: str, tokens: list[CppToken], markers: frozenset[str]) -> None:
        self.tokens, self.markers, self.at, self.classes = tokens, markers, 0, 0
        self.read: list[Declaration] = []
        self.scope = ""
        self.lines = [newline.start() for newline in re.finditer("\n", text)]

    def declarations(self, depth: int = 0) -> None:
        """Parse declarations up to the end of the file, or up to the brace that closes a namespace or a class."""
        if depth > _MOST_DEEP:
            raise _UnclosedError(f"namespaces and classes must be nested at most {_MOST_DEEP} levels deep")
        while self.at < len(self.tokens):
            text = self.tokens[self.at].text
            if text == "}":
                return
            if text == ";" or (text in ("public", "private", "protected", ":")):
                self.at += 1
            else:
                self._declaration(depth)
        if depth:
            raise _UnclosedError("the '{' of a namespace or class is never closed")

    def _skip(self) -> None:
        """Skip a bracket with its content."""
        opening, stack = self.tokens[self.at], list[str]()
        while self.at < len(self.tokens):
            text = self.tokens[self.at].text
            self.at += 1
            if text in _CLOSERS and len(text) == 1:
                stack.append(_CLOSERS[text])
                if len(stack) > _MOST_DEEP:
                    raise _UnclosedError(
                        f"the brackets in line {self._line(opening.start)} must be nested at most {_MOST_DEEP} levels deep"
                    )
            elif text in (")", "]", "}"):
                if stack.pop() != text:
                    break
                if not stack:
                    return
        raise _UnclosedError(f"the '{opening.text}' in line {self._line(opening.start)} is never closed")

    def _template(self) -> None:
        """Skip ``template <...>``, whose brackets may also be comparisons."""
        self.at += 1
        depth = 0
        while self.at < len(self.tokens):
            text = self.tokens[self.at].text
            if text in _CLOSERS:
                self._skip()
                continue
            depth += (text == "<") - (text == ">")
            if not depth:
                self.at += text == ">"
                return
            self.at += 1

    def _operator(self) -> None:
        """Skip ``operator`` and its symbol or type, up to the parameters."""
        self.at += 1
        if self.tokens[self.at : self.at + 1] and self.tokens[self.at].text == "(":
            self._skip()
        while self.at < len(self.tokens) and self.tokens[self.at].text not in ("(", ";", "{", "}"):
            self.at += 1

    def _declaration(self, depth: int) -> None:  # noqa: C901, PLR0912, PLR0915 (one kind of declaration after another)
        start = self.at
        while self.at < len(self.tokens) and self.tokens[self.at].text == "template":
            self._template()
        begin, groups, assigned, of_macro, body = self.at, list[int](), False, False, -1
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token.text == ";":
                self.at += 1
                break
            if token.text == "}":
                break
            if token.text == "operator":
                self._operator()
                continue
            if token.text == "{":
                words = [token.text for token in self.tokens[begin : self.at]]
                before = self.tokens[self.at - 1] if self.at > begin else token
                if (
                    body < 0
                    and words
                    and (
                        words[0] == "namespace"
                        or (
                            words[0] in ("extern", "inline")
                            and not groups
                            and (before.kind == "string" or "namespace" in words)
                        )
                    )
                ):
                    name = "".join(words[words.index("namespace") + 1 :]) if "namespace" in words else ""
                    return self._inside(depth, name and f"{name}::")
                named = before.kind == "word" and before.text not in _AFTER_PARAMETERS
                if (
                    body < 0
                    and not assigned
                    and (
                        any(word in _TYPES for word in words)
                        if not groups
                        else words[0] == "typedef"
                        or ((named or before.text == ">") and words[0] in _TYPES and "->" not in words)
                    )
                ):
                    body = self.at
                    if "enum" in words:
                        self._skip()
                    else:
                        self.classes += 1
                        self._inside(depth)
                        self.classes -= 1
                    continue
                if not assigned and groups and body < 0 and not (":" in words and named):
                    body = self.at
                    self._skip()
                    self._add("function", start, begin, body, groups)
                    return None
                self._skip()
                continue
            assigned = assigned or token.text == "="
            if token.text in _CLOSERS:
                if token.text == "(" and self.at > begin and self.tokens[self.at - 1].text not in _ATTRIBUTES:
                    if not assigned and body < 0:
                        groups = [*(groups[:-1] if of_macro else groups), self.at]
                    alone = self.at == start + 1 and self.tokens[start].kind == "word"
                    self._skip()
                    following = self.tokens[self.at] if self.at < len(self.tokens) else token
                    of_macro = following.kind == "word" and following.text not in _AFTER_PARAMETERS
                    if alone and of_macro:
                        return self._add("other", start, begin, self.at, [])  # a macro without a semicolon
                else:
                    self._skip()
                continue
            self.at += 1
        head = [token.text for token in self.tokens[begin : self.at]]
        if body >= 0:
            kind = "type"
        elif (
            not head or head[0] in _TYPES or _OTHERS.fullmatch(head[0]) or (len(groups) == 1 and groups[0] == begin + 1)
        ):
            kind = "other"
        else:
            kind = "prototype" if groups and not assigned else "variable"
        self._add(kind, start, begin, body if body >= 0 else self.at, groups)
        return None

    def _inside(self, depth: int, namespace: str = "") -> None:
        """Parse the declarations between two braces."""
        outer, self.scope = self.scope, self.scope + namespace
        self.at += 1
        self.declarations(depth + 1)
        self.at += 1
        self.scope = outer

    def _add(self, kind: str, start: int, begin: int, end: int, groups: list[int]) -> None:
        tokens = self.tokens[start : self.at]
        head = tuple(self.tokens[start:end])
        name = self.tokens[groups[0] - 1] if groups and groups[0] > begin else None
        seen = tokens if kind == "type" else head
        marked = any(token.text in self.markers for token in seen)
        first, last = tokens[0].start, tokens[-1].end
        called = name.text if name is not None and name.kind == "word" else ""
        lines = self._line(first), self._line(last - 1)
        self.read.append(Declaration(kind, called, marked, head, first, last, *lines, self.classes > 0, self.scope))

    def _line(self, offset: int) -> int:
        return bisect(self.lines, offset - 1) + 1 if offset else 1
