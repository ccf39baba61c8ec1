"""The cursor over the tokens of a PTX text. All parsers of PTX use this cursor."""

from __future__ import annotations

import re
from typing import NoReturn

from ..debug_info import LineDirective
from ..program import REGISTER_BITS, UnsupportedPtxError
from .lexer import Token, bodies, tokens

_NAME = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+", re.ASCII)
MOST_BRACES = 200
"""The largest nesting depth of scopes and initial values."""


class Cursor:
    """A position in the tokens of a text. Its methods raise :class:`UnsupportedPtxError` with the line number.

    Bodies of functions are empty at first: :meth:`open_body` has the tokens of one.
    """

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens: list[Token] = []
        self._bodies: dict[int, Token] = {}
        self._opened: dict[int, int] = {}
        position, line = 0, 1
        for body in bodies(text):
            self.tokens += list(tokens(text, position, body.start, line))[:-1]
            self._bodies[len(self.tokens)] = body
            last = body.line + text.count("\n", body.start, body.end)
            self.tokens.append(Token("{", "{", body.line, body.start, body.start + 1))
            self.tokens.append(Token("}", "}", last, body.end - 1, body.end))
            position, line = body.end, last
        self.tokens += tokens(text, position, line=line)

    def open_body(self, at: int) -> int:
        """Return the index of a function body's first token. ``at`` is the index of the body's '{'."""
        body = self._bodies.get(at)
        if body is None:
            return at
        if at not in self._opened:
            self._opened[at] = first = len(self.tokens)
            self.tokens += tokens(self.text, body.start, body.end, body.line)
            before, self.at = self.at, first
            self.skip_braces()
            self.at = before
        return self._opened[at]

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Raise :class:`UnsupportedPtxError` for a line, by default the line of the next token."""
        raise UnsupportedPtxError(message, self.token.line if line is None else line)

    def advance(self) -> Token:
        """Consume the next token, and return it. Raise an error at the end of the text."""
        token = self.tokens[self.at]
        if token.kind == "end":
            self.fail("the PTX text ends inside a statement")
        self.at += 1
        return token

    def accept(self, kind: str) -> bool:
        """Consume the next token and return True if the token has the given kind, else return False."""
        taken = self.tokens[self.at].kind == kind
        self.at += taken
        return taken

    def expect(self, kind: str, what: str = "") -> Token:
        """Consume and return the next token. Raise an error if it does not have the given kind."""
        token = self.tokens[self.at]
        if token.kind != kind:
            self.fail(f"expected {what or repr(kind)}, got '{token.text}'")
        return self.advance()

    def word(self, what: str) -> str:
        """Consume a token of the kind ``word``, and return its text."""
        return self.expect("word", what).text

    def name(self, what: str) -> str:
        """Consume a valid PTX identifier, and return it."""
        token = self.expect("word", what)
        if not _NAME.fullmatch(token.text) or token.text == "WARP_SZ":
            self.fail(f"'{token.text}' is not valid as {what}", token.line)
        return token.text

    def alignment(self) -> int:
        """Consume an alignment, and return it in bytes."""
        align = self.integer("an alignment")
        if not 0 < align < 1 << 32 or align & (align - 1):
            self.fail(f"the alignment must be a power of two below 2**32, got {align}")
        return align

    def elements(self) -> int:
        """Consume an optional ``.v2`` or ``.v4``. Return the vector width: 1, 2 or 4 elements."""
        if self.token.text not in (".v2", ".v4"):
            return 1
        return int(self.advance().text[2:])

    def demand_vector(self, type: Token, elements: int) -> None:
        """Raise an error if PTX has no vectors of the given element type and width."""
        if elements > 1 and (type.text == ".pred" or elements * REGISTER_BITS[type.text[1:]] > 128):
            self.fail(
                f"a vector must have at most 128 bits and no predicates, got {elements} elements of {type.text}",
                type.line,
            )

    def unsigned(self, what: str) -> int:
        """Consume an unsigned 32-bit integer, and return it."""
        token = self.token
        if token.kind == "-" or not 0 <= (value := self.integer(what)) < 1 << 32:
            self.fail(f"{what} must be from 0 to {(1 << 32) - 1}, got '{token.text}'", token.line)
        return value

    def loc(self) -> LineDirective:
        """Parse and return a ``.loc`` directive, from the token after ``.loc``."""
        file, line, column = (self.unsigned(what) for what in ("a file's number", "a line", "a column"))
        if not self.accept(","):
            return LineDirective(file, line, column)
        self._expect_word("function_name")
        label = self.word("a label")
        offset = self.unsigned("an offset") if self.accept("+") else 0
        self.expect(",", "', inlined_at'")
        self._expect_word("inlined_at")
        outer = self.unsigned("a file's number"), self.unsigned("a line"), self.unsigned("a column")
        return LineDirective(file, line, column, label, offset, outer)

    def _expect_word(self, text: str) -> None:
        if self.word(f"'{text}'") != text:
            self.fail(f"expected '{text}', got '{self.tokens[self.at - 1].text}'")

    def pragma(self, version: tuple[int, int]) -> None:
        """Skip the strings of a ``.pragma``. Raise an error for ``used_bytes_mask`` if ``version`` is below 8.3."""
        texts = [self.expect("string", "a string")]
        while self.accept(","):
            texts.append(self.expect("string", "a string"))
        self.expect(";", "';' after a pragma")
        if version < (8, 3) and any("used_bytes_mask" in token.text for token in texts):
            self.fail(f"{texts[0].text} requires .version 8.3 or newer, got {version[0]}.{version[1]}", texts[0].line)

    def integer(self, what: str) -> int:
        """Consume an integer with an optional minus sign, and return it."""
        negative = self.accept("-")
        token = self.expect("number", what)
        if not re.fullmatch(r"0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?", token.text):
            self.fail(f"{what} must be an integer, got {token.text}", token.line)
        value = whole_number(token.text)
        if value is None:
            self.fail(f"{token.text} is not a PTX number", token.line)
        return -value if negative else value

    def skip_line(self) -> str:
        """Skip the rest of the line, and return its text."""
        first = self.token
        while self.token.line == first.line and self.token.kind != "end":
            self.at += 1
        return self.text[first.start : self.tokens[self.at - 1].end]

    def skip_past(self, kind: str) -> None:
        """Skip all tokens up to and including the next token of a kind."""
        while self.advance().kind != kind:
            pass

    def skip_braces(self) -> None:
        """Skip a block in braces. Braces in operands must be closed before the statement's semicolon."""
        operands: set[int] = set()
        opened = [self.expect("{")]
        while opened:
            before, token = self.tokens[self.at - 1], self.tokens[self.at]
            if token.kind == "end":
                self.fail("this '{' is never closed", opened[0].line)
            if token.kind == ";" and opened[-1].start in operands:
                self.fail("this '{' is not closed before ';'", opened[-1].line)
            if token.kind == "{":
                opened.append(token)
                if len(opened) > MOST_BRACES:
                    self.fail(f"braces must be nested at most {MOST_BRACES} levels deep")
                if before.kind in ("word", ",", "="):
                    operands.add(token.start)
            elif token.kind == "}":
                opened.pop()
            self.at += 1


def whole_number(text: str) -> int | None:
    """Return the low 64 bits of a PTX integer literal such as ``0x1FU``, or None if the literal is not valid."""
    digits = text.removesuffix("U")
    try:
        value = int(digits, 8) if re.fullmatch(r"0\d+", digits) else int(digits, 0)
    except ValueError:
        return None
    too_large = digits.isdecimal() and digits[0] != "0" and value // 10 > ((1 << 64) - 1) // 10  # like ptxas 13.5
    return None if too_large else value & ((1 << 64) - 1)
