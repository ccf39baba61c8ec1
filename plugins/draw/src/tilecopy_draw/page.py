"""A page of plain SVG text: headings, panels of boxes, a legend, notes. Every text has a width that is estimated, and fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any
from xml.sax.saxutils import escape

import attrs
import numpy as np

FILLS = ("#ffffff", "#f0d890", "#8fc3e3", "#a98ba6")
"""Told apart by their lightness alone; black text stands out from each."""
INK, FAINT, FOLLOWED = "#1a1a1a", "#595959", "#a63603"
FONT = "font-family=\"'DejaVu Sans',Verdana,sans-serif\""
MARGIN, GAP, TEXT = 24, 28, 11
SMALLEST = 10
"""No text is smaller, in pixels."""
_NARROW, _WIDE = frozenset(" .,:;'|!()[]{}ijlft-/"), frozenset("mwMW@%")


def text_width(text: str, size: float = TEXT, *, bold: bool = False) -> float:
    """An upper estimate of a text's width in pixels, in a font as wide as DejaVu Sans."""
    ems = sum(0.42 if c in _NARROW else 0.98 if c in _WIDE else 0.74 if c.isupper() else 0.637 for c in text)
    return ems * size * (1.1 if bold else 1.0)


def wrapped(text: str, width: float, size: float = TEXT, *, bold: bool = False) -> list[str]:
    """Lines of a text, each at most so wide; a word that is wider is cut."""
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
class Box:
    """A rectangle of a panel, in its rows and columns, the ends not included.

    Attributes:
        place: row, column, row after the last, column after the last.
        label: what stands in it; left out where it does not fit, and the panel says so.
        fill: number in :data:`FILLS`.
        tip: what a reader is shown who points at it.
    """

    place: tuple[int, int, int, int]
    label: str = ""
    fill: int = 0
    tip: str = ""


@attrs.frozen
class Panel:
    """A grid with boxes; where no box lies it is hatched.

    Attributes:
        title, subtitle: what it shows, and what its columns are.
        rows, columns: its extents.
        boxes: on it.
        frames: places with a heavy outline: one instruction, one CTA.
        followed: places with the outline of what is followed from panel to panel.
        row_labels, column_labels: at some rows and columns.
        beside: rows and the lines of text at the right of them.
        cell: least and greatest width of a column, and height of a row, in pixels.
        padding: pixels beside a label in its box.
        below: a line under it.
        blank: where no box lies it is white with thin lines, not hatched.
    """

    title: str
    subtitle: str
    rows: int
    columns: int
    boxes: Sequence[Box]
    frames: Sequence[tuple[int, int, int, int]] = ()
    followed: Sequence[tuple[int, int, int, int]] = ()
    row_labels: dict[int, str] = attrs.Factory(dict)
    column_labels: dict[int, str] = attrs.Factory(dict)
    beside: Sequence[tuple[tuple[int, int], tuple[str, ...]]] = ()
    cell: tuple[float, float, float] = (0, 64, 18)
    padding: float = 4
    below: str = ""
    blank: bool = False

    @property
    def gaps(self) -> bool:
        """Whether some of the grid has no box."""
        return sum((b.place[2] - b.place[0]) * (b.place[3] - b.place[1]) for b in self.boxes) < self.rows * self.columns

    @property
    def left(self) -> float:
        """Width of the row labels."""
        return max((text_width(t, SMALLEST) for t in self.row_labels.values()), default=0) + 8

    @property
    def right(self) -> float:
        """Width of what stands beside."""
        return max((text_width(t, SMALLEST) + 10 for _, lines in self.beside for t in lines), default=0)

    def column_width(self, room: float) -> float:
        """Pixels of a column: what its labels need, at most what there is; 0 where that is too little for a label."""
        needed = max((self._needs(box) for box in self.boxes if box.label), default=0)
        wanted = max(needed, self.cell[0])
        room = (room - self.left - self.right) / self.columns
        if wanted > room:
            return 0
        return max(wanted, min(self.cell[1], room))

    def _needs(self, box: Box) -> float:
        return (text_width(box.label, SMALLEST) + self.padding) / (box.place[3] - box.place[1])

    def labels(self, width: float) -> tuple[dict[int, str], dict[int, str]]:
        """The row and the column labels that have room at this width of a column: each of them, or every second, fourth .."""
        high = dict.fromkeys(self.row_labels.values(), 12.0)
        wide = {name: text_width(name, SMALLEST) + 6 for name in self.column_labels.values()}
        return _thinned(self.row_labels, self.cell[2], high), _thinned(self.column_labels, width, wide)

    def width(self, room: float) -> float:
        """Pixels in all, or 0 where it does not fit into so many."""
        column = self.column_width(room)
        return self.left + column * self.columns + self.right if column else 0


def _thinned(names: dict[int, str], pixels: float, needs: dict[str, float]) -> dict[int, str]:
    """Every first, second, fourth .. of the names, so that the next begins where one ends."""
    kept = sorted(names)
    while any((b - a) * pixels < needs[names[a]] for a, b in pairwise(kept)):
        kept = kept[::2]
    return {at: names[at] for at in kept}


@attrs.define
class Page:
    """What has been drawn so far, from the top."""

    width: float
    y: float = 16
    parts: list[str] = attrs.Factory(list)

    # ------------------------------------------------------------------------------------------- texts

    def text(self, x: float, y: float, text: str, size: float = TEXT, *, bold: bool = False, ink: str = INK, anchor: str = "start") -> None:  # fmt: skip
        """One line, its baseline at ``y``."""
        weight = ' font-weight="bold"' if bold else ""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(
            f'<text x="{_px(x)}" y="{_px(y)}" font-size="{_px(size)}" fill="{ink}"{weight}{place}>{escape(text)}</text>'
        )

    def heading(self, title: str, subtitle: str) -> None:
        """The question, and what a box is."""
        for line in wrapped(title, self.width - 2 * MARGIN, 15, bold=True):
            self.y += 20
            self.text(MARGIN, self.y, line, 15, bold=True)
        for line in wrapped(subtitle, self.width - 2 * MARGIN):
            self.y += 17
            self.text(MARGIN, self.y, line)
        self.y += 18

    def notes(self, notes: Sequence[str]) -> None:
        """What was verified and counted, below."""
        for note in notes:
            for line in wrapped(note, self.width - 2 * MARGIN):
                self.y += 17
                self.text(MARGIN, self.y, line)

    # ------------------------------------------------------------------------------------------- panels

    def panels(self, *stacks: Sequence[Panel]) -> bool:
        """Stacks beside each other where all fit, else one below the other; False, and nothing is drawn, where one does not fit."""
        room = self.width - 2 * MARGIN
        share = (room - GAP * (len(stacks) - 1)) / len(stacks)
        beside = all(panel.width(share) for stack in stacks for panel in stack)
        if not beside and not all(panel.width(room) for stack in stacks for panel in stack):
            return False
        top = lowest = self.y
        for number, stack in enumerate(stacks):
            if beside:
                self.y = top
            for panel in stack:
                self._panel(panel, MARGIN + number * (share + GAP) * beside, share if beside else room)
            lowest = max(lowest, self.y)
        self.y = lowest
        return True

    def _panel(self, panel: Panel, x: float, room: float) -> None:
        width, height = panel.column_width(room), panel.cell[2]
        left, wide = x + panel.left, panel.column_width(room) * panel.columns
        for line in wrapped(panel.title, room - panel.left, 12, bold=True) if panel.title else []:
            self.y += 15
            self.text(left, self.y, line, 12, bold=True)
        for line in wrapped(panel.subtitle, room - panel.left, SMALLEST):
            self.y += 14
            self.text(left, self.y, line, SMALLEST, ink=FAINT)
        self.y += 6
        row_labels, column_labels = panel.labels(width)
        if column_labels:
            self.y += 12
            for column, label in column_labels.items():
                self.text(left + column * width + 2, self.y, label, SMALLEST, ink=FAINT)
            self.y += 4
        top = self.y

        def at(place: tuple[int, int, int, int], grow: float = 0) -> str:
            r0, c0, r1, c1 = place
            return (
                f'x="{_px(left + c0 * width - grow)}" y="{_px(top + r0 * height - grow)}" '
                f'width="{_px((c1 - c0) * width + 2 * grow)}" height="{_px((r1 - r0) * height + 2 * grow)}"'
            )

        whole = (0, 0, panel.rows, panel.columns)
        if panel.blank:
            lines = [f"M{_px(left)} {_px(top + row * height)}h{_px(wide)}" for row in range(panel.rows)]
            lines += [
                f"M{_px(left + column * width)} {_px(top)}v{_px(panel.rows * height)}"
                for column in range(panel.columns)
            ]
            self.parts.append(f'<path d="{"".join(lines)}" stroke="#d8d8d8" stroke-width="0.6"/>')
        elif panel.gaps:
            self.parts.append(f'<rect {at(whole)} fill="url(#absent)" stroke="none"/>')
        strong = set(panel.followed)
        for box in panel.boxes:
            tip = f"<title>{escape(box.tip)}</title>" if box.tip else ""
            self.parts.append(
                f'<rect {at(box.place)} fill="{FILLS[box.fill]}" stroke="{INK}" stroke-width="0.8">{tip}</rect>'
            )
            r0, c0, r1, c1 = box.place
            if box.label and (r1 - r0) * height >= 12:
                wide_enough = text_width(box.label, TEXT) + panel.padding <= width * (c1 - c0)
                size = TEXT if wide_enough and (r1 - r0) * height >= 14 else SMALLEST
                bold = box.place in strong and text_width(box.label, size, bold=True) + 2 <= (c1 - c0) * width
                middle = left + (c0 + c1) / 2 * width, top + (r0 + r1) / 2 * height + size * 0.36
                self.text(*middle, box.label, size, anchor="middle", bold=bold)
        self.parts.append(f'<rect {at(whole)} fill="none" stroke="{INK}" stroke-width="1.2"/>')
        for place in panel.frames:
            self.parts.append(f'<rect {at(place)} fill="none" stroke="{INK}" stroke-width="2.4"/>')
        for place in panel.followed:
            self.parts.append(f'<rect {at(place)} fill="none" stroke="{FOLLOWED}" stroke-width="2.6"/>')
        for row, label in row_labels.items():
            self.text(left - 5, top + (row + 0.5) * height + 3.6, label, SMALLEST, ink=FAINT, anchor="end")
        for (first, last), lines in panel.beside:
            y = top + (first + last) / 2 * height - 13 * len(lines) / 2 + 10
            for number, line in enumerate(lines):
                self.text(left + wide + 8, y + 13 * number, line, SMALLEST, ink=INK if number == 0 else FAINT)
        self.y = top + panel.rows * height + 8
        if panel.below:
            for line in wrapped(panel.below, room - panel.left, bold=True):
                self.y += 15
                self.text(left, self.y, line, bold=True)
        self.y += 14

    # ------------------------------------------------------------------------------------------- legend

    def legend(self, fills: dict[int, str], signs: dict[str, str]) -> None:
        """What fills and outlines mean; ``signs`` by ``frame``, ``followed``, ``absent``."""
        entries = [
            (f'fill="{FILLS[fill]}" stroke="{INK}" stroke-width="0.8"', text) for fill, text in sorted(fills.items())
        ]
        drawn = {
            "frame": f'fill="none" stroke="{INK}" stroke-width="2.4"',
            "followed": f'fill="none" stroke="{FOLLOWED}" stroke-width="2.6"',
            "absent": 'fill="url(#absent)" stroke="none"',
        }
        entries += [(drawn[name], text) for name, text in signs.items()]
        x, top = float(MARGIN), self.y + 4
        for look, text in entries:
            lines = wrapped(text, self.width - 2 * MARGIN - 40)
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
        """The whole picture."""
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


def rectangles(ids: Any) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
    """Cover a grid of numbers with rectangles of one number each, row by row; negative ones are left out."""
    open_: dict[tuple[int, int, int], int] = {}
    for row in range(len(ids) + 1):
        runs: set[tuple[int, int, int]] = set()
        if row < len(ids):
            edges = [0, *(np.flatnonzero(np.diff(ids[row])) + 1).tolist(), len(ids[row])]
            runs = {(a, b, int(ids[row][a])) for a, b in pairwise(edges) if ids[row][a] >= 0}
        for key in sorted(set(open_) - runs):
            yield key[2], (open_.pop(key), key[0], row, key[1])
        for key in runs - set(open_):
            open_[key] = row
