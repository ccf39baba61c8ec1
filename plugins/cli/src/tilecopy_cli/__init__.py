"""The command ``tilecopy``. Its libraries (click, rich) are the extra ``tilecopy-core[cli]``.

Packages add subcommands by the entry-point group ``tilecopy.commands.v1``: name -> ``click.Command``.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; exit status 0 (done), 1 (it failed) or 2 (it was asked wrongly)."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is something to clean up: no traceback of an import
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        print(f"tilecopy: the command line needs {error.name}: pip install 'tilecopy-core[cli]'", file=sys.stderr)
        raise SystemExit(2) from None
    from .commands import tilecopy

    tilecopy.main(prog_name="tilecopy")
