"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def html_table(rows: Iterable[Sequence[object]], columns: Sequence[str] = (), caption: str = "") -> str:
    """Rows of cells as an HTML table, with the names of the columns and a caption where they have some."""
    from html import escape  # its tables take a millisecond of every import of the package

    def row(cells: Iterable[object], tag: str) -> str:
        written = "".join(f'<{tag} style="text-align: left">{escape(str(cell))}</{tag}>' for cell in cells)
        return f"<tr>{written}</tr>"

    head = [f"<caption>{escape(caption)}</caption>"] if caption else []
    head += [row(columns, "th")] if columns else []
    return f"<table>{''.join([*head, *(row(cells, 'td') for cells in rows)])}</table>"
