"""Classes and functions for writing ``tilecopy`` subcommands: results, copy options, option types, ``.npy`` files.

A package declares its ``click.Command`` under the entry-point group ``tilecopy.commands.v1``.
"""

from tilecopy_core.description import OPS
from tilecopy_core.layout import DTYPE_ALIASES
from tilecopy_core.memory import SPACE_ALIASES

from .copy_options import copy_options, plan_to_dict
from .file_errors import FileError, printable_name
from .group import Result, ResultCommand, SuggestingGroup
from .job import TransferReport
from .npy import NpyFile, file_signature, read_npy
from .npy_header import header_of
from .output import output_file
from .param_types import Choice, FilePath
from .progress import progress_bar
from .tables import table, transfer_text, wrap_text

__all__ = ["DTYPE_ALIASES", "OPS", "SPACE_ALIASES", "Choice", "FilePath", "Result", "ResultCommand", "SuggestingGroup"]
__all__ += ["FileError", "NpyFile", "file_signature", "header_of", "output_file", "printable_name", "read_npy"]
__all__ += ["TransferReport", "copy_options", "plan_to_dict", "progress_bar", "table", "transfer_text", "wrap_text"]
