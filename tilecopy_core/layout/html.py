"""HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})
"""The replacements of ``html.escape``, which takes a millisecond to import."""


def html_table(rows: Iterable[Sequence[object]], columns: Sequence[str] = (), caption: str = "") -> str:
    """Return rows of cells as an HTML table, with optional column names and caption."""

    def row(cells: Iterable[object], tag: str) -> str:
        written = "".join(f'<{tag} style="text-align: left">{str(cell).translate(_ESCAPES)}</{tag}>' for cell in cells)
        return f"<tr>{written}</tr>"

    head = [f"<caption>{caption.translate(_ESCAPES)}</caption>"] if caption else []
    head += [row(columns, "th")] if columns else []
    return f"<table>{''.join([*head, *(row(cells, 'td') for cells in rows)])}</table>"
