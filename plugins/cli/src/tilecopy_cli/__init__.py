"""The entry point of the command ``tilecopy``.

Packages add subcommands by the entry-point group ``tilecopy.commands.v1``: name -> ``click.Command``. A subcommand imports
what it needs from :mod:`tilecopy_cli.command`.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line and exit with status 0 (done), 1 (failed) or 2 (invalid input)."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is something to clean up: no traceback of an import
    from .builtin_commands import tilecopy

    tilecopy.main(prog_name="tilecopy")
