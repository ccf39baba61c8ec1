"""The lexer. It splits PTX text into tokens with line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..program import UnsupportedPtxError


class Token(NamedTuple):
    """A token of PTX text. The class is a named tuple, because an attrs object takes three times as long to create.

    ``kind``: ``word``, ``number``, ``string``, ``end``, or the character itself; ``text``: as written; ``line``:
    1-based; ``start``: offset in the text; ``end``: offset after it; ``comment``: the last ``//`` comment before it
    that has a line of its own, or None.
    """

    kind: str
    text: str
    line: int
    start: int
    end: int
    comment: str | None = None


_TOKEN = re.compile(
    r"""
    (?:
    (?P<word>[%$A-Za-z_][\w$.%]*(?:::[\w$.%]+)* | \.[\w$%]*(?:::[\w$.%]+)*)
  | (?P<mark>[][(){}<>,;:+\-*|!=@&~?^]|/(?![*/]))
  | (?P<newline>\n)
  | (?P<number>0[fF][0-9a-fA-F]{8}(?!\w) | 0[dD][0-9a-fA-F]{16}(?!\w) | 0[xX][0-9a-fA-F]+U?(?!\w) | 0[bB][01]+U?(?!\w)
      | \d+\.\d*(?:[eE][+-]?\d+)?(?![\w.]) | \d+[eE][+-]?\d+(?![\w.]) | \d+U?(?![\w.]))
  | (?P<blank>[ \t\r\f\v]+)
  | (?P<comment>//[^\n]*)
  | (?P<block>/\*.*?\*/)
  | (?P<string>"[^"\n]*")
    )[ \t\r\f\v]*
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
"""One token, comment or line end, with the blanks after it."""


_BLOCKS = re.compile(r'[{}]|//[^\n]*|/\*.*?\*/|"[^"\n]*"|(?P<open>/\*)', re.DOTALL)
_INITIAL_VALUE = re.compile(r"=(?:\s|//[^\n]*\n|/\*.*?\*/)*", re.DOTALL)


def bodies(text: str) -> Iterator[Token]:
    """Yield the bodies of functions and sections, each as one token. Stop at the first body that is never closed."""
    depth, start, line, counted, outside = 0, 0, 1, 0, 0
    for match in _BLOCKS.finditer(text):
        if match["open"]:
            return
        if match[0] == "{":
            start = start if depth else match.start()
            depth += 1
        elif match[0] == "}" and depth:
            depth -= 1
            if depth:
                continue
            line, counted = line + text.count("\n", counted, start), start
            equals = text.rfind("=", outside, start)
            outside = match.end()
            if equals < 0 or not _INITIAL_VALUE.fullmatch(text, equals, start):
                yield Token("body", "", line, start, outside)


def tokens(text: str, position: int = 0, end: int | None = None, line: int = 1) -> Iterator[Token]:
    """Yield the tokens of a text from ``position`` in line ``line``. The last token has the kind ``end``."""
    fresh, end = True, len(text) if end is None else end
    above: str | None = None
    while position < end:
        match = _TOKEN.match(text, position, end)
        if match is None:
            if text.startswith("/*", position):
                raise UnsupportedPtxError("the comment that begins here is never closed", line)
            wrong = re.match(r"\S+", text[position:])
            raise UnsupportedPtxError(f"unexpected '{wrong[0] if wrong else text[position]}'", line)
        kind = str(match.lastgroup)
        lexeme = match[kind]
        if kind == "newline":
            fresh, line = True, line + 1
        elif kind == "comment":
            above = lexeme[2:].strip() if fresh else above
        elif kind == "block":
            line += lexeme.count("\n")
        elif kind != "blank":
            yield Token(lexeme if kind == "mark" else kind, lexeme, line, position, match.end(kind), above)
            fresh, above = False, None
        position = match.end()
    yield Token("end", "the end of the text", line, position, position)
