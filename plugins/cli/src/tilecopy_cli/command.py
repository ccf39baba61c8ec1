"""Everything that a subcommand of ``tilecopy`` imports: answers, copies in words, types of options, ``.npy`` files in and out.

A package declares its ``click.Command`` under the entry-point group ``tilecopy.commands.v1``.
"""

from __future__ import annotations

from tilecopy_core.description import OPS
from tilecopy_core.layout import DTYPE_ALIASES
from tilecopy_core.memory import SPACE_ALIASES

from .bars import progress_bar
from .copies import copy_in_words, plan_data
from .errors import FileError, shown
from .group import Answer, AnswerCommand, NearestGroup
from .npy import NpyFile, read_npy, stamp_of
from .npy_header import header_of
from .output import output_file
from .tables import table
from .words import FilePath, Name

__all__ = [
    "DTYPE_ALIASES",
    "OPS",
    "SPACE_ALIASES",
    "Answer",
    "AnswerCommand",
    "FileError",
    "FilePath",
    "Name",
    "NearestGroup",
    "NpyFile",
    "copy_in_words",
    "header_of",
    "output_file",
    "plan_data",
    "progress_bar",
    "read_npy",
    "shown",
    "stamp_of",
    "table",
]
