"""The class of the pictures that :func:`draw` returns: the SVG text, the data and a method to save a picture."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import attrs
import tilecopy as tc
from tilecopy.atomic_files import write_files
from tilecopy.validators import PATH

from tilecopy_core.errors import one_of, short_repr
from tilecopy_core.registry import LOCK

SUFFIXES = (".svg", ".png", ".html")


@attrs.frozen(eq=False, repr=False)
class Picture:
    """A frozen record of a picture, as SVG and as data.

    Attributes:
        title: what the picture shows.
        kind: ``moves``, ``banks``, ``fragment`` or ``bulk``.
        svg: the SVG text, which is always the same for the same copy.
        data: the data in the picture, as plain lists, numbers and strings.
    """

    title: str
    kind: str
    svg: str
    data: dict[str, Any]

    def __repr__(self) -> str:
        return f"Picture({self.kind}: {self.title})"

    def _repr_svg_(self) -> str:
        """Return the SVG text, for notebooks."""
        return self.svg

    def bytes_as(self, suffix: str) -> bytes:
        """Return the contents of a picture file. ``suffix`` determines the format.

        Raises:
            RequestError: the suffix is not ``.svg``, ``.png`` or ``.html``.
            PluginError: the suffix is ``.png``, and resvg-py is not installed.
        """
        one_of(*SUFFIXES).check(suffix, "Picture.bytes_as", "suffix")
        if suffix == ".svg":
            return self.svg.encode()
        if suffix == ".html":
            head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(self.title)}</title>\n'
            return f"{head}<body>\n{self.svg}</body>\n</html>\n".encode()
        try:
            with LOCK:
                import resvg_py
        except ImportError:
            raise tc.PluginError("draw: .png needs resvg-py: install tilecopy-draw[png]") from None
        return bytes(resvg_py.svg_to_bytes(svg_string=self.svg, background="#ffffff"))

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file. The file's suffix determines the format.

        Args:
            path: the file; its suffix must be ``.svg``, ``.png`` (needs the extra ``[png]``) or ``.html``.

        Raises:
            RequestError: the suffix is another one, or the file cannot be written.
            PluginError: the suffix is ``.png``, and resvg-py is not installed.
        """
        target = Path(PATH.check(path, "Picture.save", "path"))
        if target.suffix.lower() not in SUFFIXES:
            raise tc.RequestError(
                f"Picture.save: path must end in one of {', '.join(SUFFIXES)}, got {short_repr(path)}"
            )
        content = self.bytes_as(target.suffix.lower())
        try:
            write_files({target: [content]})
        except OSError as error:
            why = error.strerror or error
            raise tc.RequestError(f"Picture.save: cannot write the picture to {short_repr(path)}: {why}") from None
        return target
