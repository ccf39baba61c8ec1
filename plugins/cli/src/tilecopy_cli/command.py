"""Everything that a subcommand of ``tilecopy`` imports: answers, types of options, ``.npy`` files in and out.

A package declares its ``click.Command`` under the entry-point group ``tilecopy.commands.v1``. Needs ``tilecopy-core[cli]``.
"""

from __future__ import annotations

from .errors import FileError, shown
from .group import Answer, AnswerCommand
from .npy import NpyFile, read_npy, stamp_of
from .output import output_file
from .words import FilePath, Name

__all__ = [
    "Answer",
    "AnswerCommand",
    "FileError",
    "FilePath",
    "Name",
    "NpyFile",
    "output_file",
    "read_npy",
    "shown",
    "stamp_of",
]
