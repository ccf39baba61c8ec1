"""Starting calls of what subcommands of other packages use for the argument fuzzing of tests/fuzz."""

import os

import numpy as np
from tilecopy_cli import command

MODULES = (command,)


def npy():
    np.save("a.npy", np.arange(32, dtype=np.float32))
    return "a.npy"


def starting_calls(w):
    command.plan_to_dict(w.plan)
    command.Result({"found": 1}, lambda: "one")
    command.output_file("out.npy")
    command.read_npy(npy(), mapped=False)
    command.printable_name("a.npy")
    command.file_signature(os.stat(npy()))


UNCALLED = {
    "click makes it": "ResultCommand FileError FilePath Choice SuggestingGroup",
    "read_npy makes it": "NpyFile",
    "it decorates a command": "copy_options",
    "for commands: their own tests": "TransferReport header_of progress_bar table transfer_text wrap_text",
}
