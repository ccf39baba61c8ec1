"""The parts of a picture (rectangles, grids, panels, figures) and the writer of SVG text.

The writer estimates the width of every text, and makes it fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from xml.sax.saxutils import escape

import attrs
import numpy as np

FILLS = ("#ffffff", "#f0d890", "#8fc3e3", "#a98ba6")
"""Colors of boxes. They differ in lightness, and black text is readable on each."""
INK, FAINT, FOLLOWED = "#1a1a1a", "#595959", "#a63603"
FONT = "font-family=\"'DejaVu Sans',Verdana,sans-serif\""
MARGIN, GAP, TEXT = 24, 28, 11
SMALLEST = 10
"""The smallest font size, in pixels."""
MOST_BOXES, MOST_HEIGHT = 512, 960
"""The most boxes of a panel with labels, and its greatest height in pixels."""
Place = tuple[int, int, int, int]
"""The first row, the first column, the row after the last, the column after the last."""
LOOKS = {
    "frame": f'fill="none" stroke="{INK}" stroke-width="2.4"',
    "followed": f'fill="none" stroke="{FOLLOWED}" stroke-width="2.6"',
    "absent": 'fill="url(#absent)" stroke="none"',
}
_EDGE = f'stroke="{INK}" stroke-width="0.8"'
_NARROW, _WIDE = frozenset(" .,:;'|!()[]{}ijlft-/"), frozenset("mwMW@%")


def text_width(text: str, size: float = TEXT, *, bold: bool = False) -> float:
    """Return an upper bound of the width of a text in pixels, for a font as wide as DejaVu Sans."""
    ems = sum(0.42 if c in _NARROW else 0.98 if c in _WIDE else 0.74 if c.isupper() else 0.637 for c in text)
    return ems * size * (1.1 if bold else 1.0)


def wrap_text(text: str, width: float, size: float = TEXT, *, bold: bool = False) -> list[str]:
    """Return the lines of a text, each at most ``width`` pixels wide. A wider word is split."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size, bold=bold) <= width:
            lines[-1] = longer
            continue
        lines += [word] if lines[-1] else []
        lines[-1] = word
        while text_width(lines[-1], size, bold=bold) > width:
            fits = max(1, int(len(lines[-1]) * width / text_width(lines[-1], size, bold=bold)) - 1)
            lines[-1:] = [lines[-1][:fits], lines[-1][fits:]]
    return lines


@attrs.frozen
class Rectangle:
    """A frozen record of a rectangle on the grid of a panel.

    Attributes:
        place: its rows and columns.
        label: its text; not drawn if it does not fit and the panel has ``optional``.
        fill: the index of its color in :data:`FILLS`.
        tip: the text that a viewer shows when the mouse is over it.
    """

    place: Place
    label: str = ""
    fill: int = 0
    tip: str = ""


@attrs.frozen(eq=False)
class Grid:
    """A frozen record of a grid of numbered cells.

    Attributes:
        ids: the number of each cell, shape ``(rows, columns)``; -1 for an empty cell.
        elements: the element of the box in each cell, of the same shape; -1 if there is none.
        row_names, column_names: the labels of the rows and columns; "" for no label.
        columns_are: the text that says what a column is.
    """

    ids: Any
    elements: Any
    row_names: Sequence[str]
    column_names: Sequence[str]
    columns_are: str

    def window(self, rows: tuple[int, int], columns: tuple[int, int]) -> Grid:
        """Return the part of the grid in a range of rows and a range of columns, both counted from 0."""
        down, along = slice(*rows), slice(*columns)
        names = self.row_names[down], self.column_names[along]
        return Grid(self.ids[down, along], self.elements[down, along], *names, self.columns_are)

    def crop(self) -> Grid:
        """Return the grid without empty rows and columns at the edges. If all cells are empty, return the grid itself."""
        rows, columns = (np.flatnonzero((self.ids >= 0).any(axis=axis)) for axis in (1, 0))
        if not len(rows):
            return self
        return self.window((int(rows[0]), int(rows[-1]) + 1), (int(columns[0]), int(columns[-1]) + 1))

    @classmethod
    def empty(cls, rows: Sequence[str], columns: Sequence[str], columns_are: str) -> Grid:
        """Return a grid with empty cells and the given labels."""
        nothing = np.full((len(rows), len(columns)), -1)
        return cls(nothing, nothing, rows, columns, columns_are)


def rectangles(ids: Any, chosen: Any = True) -> list[tuple[int, Place]]:
    """Return ``(number, rectangle)`` pairs that cover the chosen cells, in row order. Cells with a negative number are skipped."""
    cells = np.where(chosen, ids, -1)
    places: list[tuple[int, Place]] = []
    open_: dict[tuple[int, int, int], int] = {}
    for row in range(len(cells) + 1):
        runs: set[tuple[int, int, int]] = set()
        if row < len(cells):
            edges = [0, *(np.flatnonzero(np.diff(cells[row])) + 1).tolist(), cells.shape[1]]
            runs = {(a, b, int(cells[row][a])) for a, b in pairwise(edges) if cells[row][a] >= 0}
        places += [(key[2], (open_.pop(key), key[0], row, key[1])) for key in set(open_) - runs]
        open_ |= dict.fromkeys(runs - set(open_), row)
    return sorted(places, key=lambda each: each[1])


def outlines(chosen: Any, ids: Any = 0) -> list[Place]:
    """Return the rectangles that :func:`rectangles` finds, without the numbers of the cells."""
    return [place for _, place in rectangles(ids, chosen)]


@attrs.frozen(eq=False)
class Panel:
    """A frozen record of a grid with boxes. Cells without a box are hatched.

    Attributes:
        title: what the panel shows.
        grid: the rows and columns with their labels.
        boxes: the boxes on the grid.
        fills: the meaning of each fill, for the legend.
        frames: places with a heavy outline, such as one instruction or the lanes of a warp.
        followed: places with the colored outline that marks the same elements in all panels.
        beside: ranges of rows and the text at the right of each.
        cell: least and greatest width of a column, and height of a row, in pixels.
        padding: pixels beside a label in its box.
        below: the line of text under the panel.
        blank: True if cells without a box are white with thin lines instead of hatched.
        optional: True if no label is drawn when one of them does not fit.
    """

    title: str
    grid: Grid
    boxes: Sequence[Rectangle]
    fills: dict[int, str] = attrs.Factory(dict)
    frames: Sequence[Place] = ()
    followed: Sequence[Place] = ()
    beside: Sequence[tuple[tuple[int, int], str]] = ()
    cell: tuple[float, float, float] = (0, 64, 18)
    padding: float = 4
    below: str = ""
    blank: bool = False
    optional: bool = False

    @property
    def rows(self) -> int:
        """The number of rows of the grid."""
        return len(self.grid.ids)

    @property
    def columns(self) -> int:
        """The number of columns of the grid."""
        return int(self.grid.ids.shape[1])

    @property
    def gaps(self) -> bool:
        """True if part of the grid has no box."""
        return sum((b.place[2] - b.place[0]) * (b.place[3] - b.place[1]) for b in self.boxes) < self.rows * self.columns

    @property
    def left(self) -> float:
        """The width of the row labels in pixels."""
        return max((text_width(t, SMALLEST) for t in self.grid.row_names), default=0) + 8

    @property
    def right(self) -> float:
        """The width in pixels of the text to the right of the grid."""
        return max((text_width(text, SMALLEST) + 10 for _, text in self.beside), default=0)

    @property
    def readable(self) -> bool:
        """True if the panel is small enough to be read on one page."""
        most, outlined = MOST_BOXES * (4 if self.optional else 1), max(len(self.frames), len(self.followed))
        return len(self.boxes) <= most and outlined <= MOST_BOXES and self.rows * self.cell[2] <= MOST_HEIGHT

    def column_width(self, room: float) -> float:
        """Return a column width in pixels at which every label fits, or 0 if ``room`` pixels are too few for the panel."""
        labels = [] if self.optional else [box for box in self.boxes if box.label]
        wanted = max(self.cell[0], max((self._needs(box) / (box.place[3] - box.place[1]) for box in labels), default=0))
        room = (room - self.left - self.right) / self.columns
        return max(wanted, min(self.cell[1], room)) if wanted <= room else 0

    def has_labels(self, width: float) -> bool:
        """Return True if every label fits its box when a column has this width."""
        high = all((box.place[2] - box.place[0]) * self.cell[2] >= 12 for box in self.boxes)
        return high and all(self._needs(box) <= (box.place[3] - box.place[1]) * width for box in self.boxes)

    def _needs(self, box: Rectangle) -> float:
        return text_width(box.label, SMALLEST) + self.padding

    def names(self, width: float) -> tuple[dict[int, str], dict[int, str]]:
        """Return two dicts from index to label, for rows and for columns. Labels do not overlap at this width."""
        begins = {box.place[1] for box in self.boxes}
        every = len(begins) < 4 or self.blank
        columns = [name if every or at in begins else "" for at, name in enumerate(self.grid.column_names)]
        rows = _thin(self.grid.row_names, self.cell[2], [12.0] * self.rows)
        return rows, _thin(columns, width, [text_width(name, SMALLEST) + 6 for name in columns])


def _thin(names: Sequence[str], pixels: float, needs: Sequence[float]) -> dict[int, str]:
    """Return every name, every second, every fourth and so on, such that the texts do not overlap."""
    kept = [at for at, name in enumerate(names) if name]
    while any((b - a) * pixels < needs[a] for a, b in pairwise(kept)):
        kept = kept[::2]
    return {at: names[at] for at in kept}


@attrs.frozen(eq=False)
class Figure:
    """A frozen record of a whole picture: its title, panels, legend and notes.

    Attributes:
        title: what the picture shows.
        subtitle: what a box is.
        stacks: lists of panels that are drawn one below the other; the stacks are side by side if they fit.
        signs: the meaning of the outlines and the hatching, by their names in ``LOOKS``.
        notes: lines about what was counted and verified.
        beside: True if the stacks must be side by side.
        data: the data of this picture, in addition to the trace of the copy.
    """

    title: str
    subtitle: str
    stacks: Sequence[Sequence[Panel]]
    signs: dict[str, str] = attrs.Factory(dict)
    notes: Sequence[str] = ()
    beside: bool = False
    data: dict[str, Any] = attrs.Factory(dict)

    @property
    def panels(self) -> list[Panel]:
        """All panels of the figure: those of the first stack, then those of the next."""
        return [panel for stack in self.stacks for panel in stack]

    @property
    def legend(self) -> list[tuple[str, str]]:
        """The legend of the figure: the SVG attributes and the meaning of each fill, outline and hatching."""
        used = {box.fill for panel in self.panels for box in panel.boxes}
        fills = {fill: dict.fromkeys(p.fills[fill] for p in self.panels if p.fills.get(fill)) for fill in sorted(used)}
        fill_signs = [(f'fill="{FILLS[fill]}" {_EDGE}', "; ".join(texts)) for fill, texts in fills.items() if texts]
        frames = {
            "frame": any(panel.frames for panel in self.panels),
            "followed": any(panel.followed for panel in self.panels),
            "absent": any(panel.gaps for panel in self.panels),
        }
        return fill_signs + [(LOOKS[name], self.signs[name]) for name in frames if frames[name] and name in self.signs]

    def svg(self, width: float) -> str | None:
        """Return the SVG text of the figure, ``width`` pixels wide. Return None if the figure does not fit."""
        room = width - 2 * MARGIN
        share = (room - GAP * (len(self.stacks) - 1)) / len(self.stacks)
        side_by_side = all(panel.column_width(share) for panel in self.panels)
        below = not self.beside and all(panel.column_width(room) for panel in self.panels)
        if not (side_by_side or below) or not all(panel.readable for panel in self.panels):
            return None
        page = _Page(width)
        page.lines(self.title, MARGIN, room, 15, 20, bold=True)
        page.lines(self.subtitle, MARGIN, room, TEXT, 17)
        top = lowest = page.y = page.y + 18
        for number, stack in enumerate(self.stacks):
            page.y = top if side_by_side else page.y
            for panel in stack:
                page.panel(panel, MARGIN + number * (share + GAP) * side_by_side, share if side_by_side else room)
            lowest = max(lowest, page.y)
        page.y = lowest
        page.legend(self.legend)
        for note in self.notes:
            page.lines(note, MARGIN, room, TEXT, 17)
        return page.svg(self.title)


@attrs.define
class _Page:
    """The SVG elements so far, and the next free vertical position ``y``."""

    width: float
    y: float = 16
    parts: list[str] = attrs.Factory(list)

    def text(self, x: float, y: float, text: str, size: float = TEXT, *, bold: bool = False, ink: str = INK, anchor: str = "start") -> None:  # fmt: skip
        """Write one line of text with its baseline at ``y``."""
        weight = ' font-weight="bold"' if bold else ""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(
            f'<text x="{_px(x)}" y="{_px(y)}" font-size="{_px(size)}" fill="{ink}"{weight}{place}>{escape(text)}</text>'
        )

    def lines(self, text: str, x: float, room: float, size: float, step: float, **look: Any) -> None:
        """Write a text, broken into lines that are ``step`` pixels apart."""
        for line in wrap_text(text, room, size, bold=look.get("bold", False)) if text else []:
            self.y += step
            self.text(x, self.y, line, size, **look)

    def panel(self, panel: Panel, x: float, room: float) -> None:
        """Write a panel whose left end is at ``x``, at most ``room`` pixels wide."""
        width, height = panel.column_width(room), panel.cell[2]
        first_x, wide = x + panel.left, width * panel.columns
        self.lines(panel.title, first_x, room - panel.left, 12, 15, bold=True)
        self.lines(panel.grid.columns_are, first_x, room - panel.left, SMALLEST, 14, ink=FAINT)
        row_names, column_names = panel.names(width)
        self.y += 18 if column_names else 6
        for column, label in column_names.items():
            self.text(first_x + column * width + 2, self.y, label, SMALLEST, ink=FAINT)
        top = self.y = self.y + 4

        def outline(place: Place, look: str, inside: str = "") -> None:
            r0, c0, r1, c1 = place
            at = f'x="{_px(first_x + c0 * width)}" y="{_px(top + r0 * height)}"'
            size = f'width="{_px((c1 - c0) * width)}" height="{_px((r1 - r0) * height)}"'
            self.parts.append(f"<rect {at} {size} {look}{f'>{inside}</rect>' if inside else '/>'}")

        whole = (0, 0, panel.rows, panel.columns)
        if panel.blank:
            lines = [f"M{_px(first_x)} {_px(top + row * height)}h{_px(wide)}" for row in range(panel.rows)]
            lines += [
                f"M{_px(first_x + c * width)} {_px(top)}v{_px(panel.rows * height)}" for c in range(panel.columns)
            ]
            self.parts.append(f'<path d="{"".join(lines)}" stroke="#d8d8d8" stroke-width="0.6"/>')
        elif panel.gaps:
            outline(whole, LOOKS["absent"])
        labelled = panel.has_labels(width)
        for box in panel.boxes:
            tip = f"<title>{escape(box.tip)}</title>" if box.tip else ""
            outline(box.place, f'fill="{FILLS[box.fill]}" {_EDGE}', tip)
            if box.label and labelled:
                self._label(panel, box, first_x, top, width)
        outline(whole, f'fill="none" stroke="{INK}" stroke-width="1.2"')
        for place in panel.frames:
            outline(place, LOOKS["frame"])
        for place in panel.followed:
            outline(place, LOOKS["followed"])
        for row, label in row_names.items():
            self.text(first_x - 5, top + (row + 0.5) * height + 3.6, label, SMALLEST, ink=FAINT, anchor="end")
        for (first, last), line in panel.beside:
            self.text(first_x + wide + 8, top + (first + last) / 2 * height + 3.6, line, SMALLEST)
        self.y = top + panel.rows * height + 8
        self.lines(panel.below, first_x, room - panel.left, TEXT, 15, bold=True)
        self.y += 14

    def _label(self, panel: Panel, box: Rectangle, left: float, top: float, width: float) -> None:
        r0, c0, r1, c1 = box.place
        room, height = width * (c1 - c0), panel.cell[2] * (r1 - r0)
        size = TEXT if text_width(box.label) + panel.padding <= room and height >= 14 else SMALLEST
        bold = box.place in panel.followed and text_width(box.label, size, bold=True) + 2 <= room
        x, y = left + (c0 + c1) / 2 * width, top + r0 * panel.cell[2] + height / 2 + size * 0.36
        self.text(x, y, box.label, size, anchor="middle", bold=bold)

    def legend(self, entries: Sequence[tuple[str, str]]) -> None:
        """Write the legend of fills and outlines."""
        x, top = float(MARGIN), self.y + 4
        for look, text in entries:
            lines = wrap_text(text, self.width - 2 * MARGIN - 40)
            taken = 32 + max(text_width(line) for line in lines) + 20
            if x > MARGIN and x + taken > self.width - MARGIN:
                x, top = float(MARGIN), self.y + 8
            self.parts.append(f'<rect x="{_px(x)}" y="{_px(top)}" width="24" height="13" {look}/>')
            for number, line in enumerate(lines):
                self.text(x + 32, top + 11 + 15 * number, line)
            self.y = max(self.y, top + 15 * len(lines))
            x += taken
        self.y += 6

    def svg(self, title: str) -> str:
        """Return the SVG text of the whole picture."""
        height = math.ceil(self.y + MARGIN)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{_px(self.width)}" height="{height}" '
                f'viewBox="0 0 {_px(self.width)} {height}" {FONT} role="img">',
                f"<title>{escape(title)}</title>",
                '<defs><pattern id="absent" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
                '<rect width="6" height="6" fill="#ffffff"/><path d="M0 0V6" stroke="#9a9a9a" stroke-width="1.4"/></pattern></defs>',
                '<rect width="100%" height="100%" fill="#ffffff"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def _px(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
