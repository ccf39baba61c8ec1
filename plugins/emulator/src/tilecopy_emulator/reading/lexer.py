"""PTX text as tokens, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from ..program import UnsupportedPtxError


@attrs.frozen
class Token:
    """One token.

    Attributes:
        kind: ``word``, ``number``, ``string``, ``end``, or the character itself.
        text: as written.
        line: 1-based.
        start: offset in the text.
        end: offset after it.
        comment: the last ``//`` comment before it that has a line of its own, or None.
    """

    kind: str
    text: str
    line: int
    start: int
    end: int
    comment: str | None = None


_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t\r\f\v]+)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*)
  | (?P<block>/\*.*?\*/)
  | (?P<string>"[^"\n]*")
  | (?P<number>0[fF][0-9a-fA-F]{8}(?!\w) | 0[dD][0-9a-fA-F]{16}(?!\w) | 0[xX][0-9a-fA-F]+U?(?!\w) | 0[bB][01]+U?(?!\w)
      | \d+\.\d*(?:[eE][+-]?\d+)?(?![\w.]) | \d+[eE][+-]?\d+(?![\w.]) | \d+U?(?![\w.]))
  | (?P<word>[%$A-Za-z_.][\w$.%]*(?:::[\w$.%]+)*)
  | (?P<mark>[][(){}<>,;:+\-*|!=@&~?^]|/(?!\*))
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def tokens(text: str) -> Iterator[Token]:
    """Cut a text into tokens.

    Raises:
        UnsupportedPtxError: a character or a number that PTX does not have.
    """
    position, line, fresh = 0, 1, True
    above: str | None = None
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            if text.startswith("/*", position):
                raise UnsupportedPtxError("the comment that begins here is never closed", line)
            wrong = re.match(r"\S+", text[position:])
            raise UnsupportedPtxError(f"'{wrong[0] if wrong else text[position]}' is not PTX", line)
        kind, found = str(match.lastgroup), match[0]
        if kind == "newline":
            fresh = True
        elif kind == "comment":
            above = found[2:].strip() if fresh else above
        elif kind not in ("blank", "block"):
            yield Token(found if kind == "mark" else kind, found, line, position, match.end(), above)
            fresh, above = False, None
        line += found.count("\n")
        position = match.end()
    yield Token("end", "the end of the text", line, position, position)
