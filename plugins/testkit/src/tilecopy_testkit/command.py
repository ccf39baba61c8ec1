"""The command ``tilecopy new-variant``: writes the package of a new variant that works for a plain case."""

from __future__ import annotations

from pathlib import Path

import click
import tilecopy as tc
from tilecopy_cli.command import OPS, SPACE_ALIASES, Name

from tilecopy_core import RequestError

from .scaffold import write_package

_SPACE = Name("space", tc.SPACES, SPACE_ALIASES)


@click.command()
@click.argument("name")
@click.option("--op", type=Name("op", OPS), default="copy", show_default=True)
@click.option("--from", "source", type=_SPACE, required=True, help="Memory that is copied from.")
@click.option("--to", "destination", type=_SPACE, required=True, help="Memory that is copied to.")
@click.option(
    "--directory", type=click.Path(path_type=Path, file_okay=False), help="Where; by default ./tilecopy-NAME."
)
def new_variant(name: str, op: str, source: str, destination: str, directory: Path | None) -> None:
    """Write a package with a variant NAME: entry point, record, hooks that work for a plain case, suite, README, CI.

    Change what it does afterwards; its suite says what no longer holds.
    """
    for plugin in tc.default_registry().plugins():
        if plugin.name == name:
            raise RequestError(
                f"{name!r} is a variant of {plugin.source.owner}, which is installed; two of one name are both set aside: "
                "choose another name"
            )
    folder = directory or Path(f"tilecopy-{name.replace('_', '-')}")
    written = write_package(folder, name, op, source, destination)
    for path in written:
        click.echo(f"  {click.format_filename(path)}")
    where = click.format_filename(folder)
    click.echo(f"pip install -e '{where}[test]' && pytest {where} && tilecopy variants")
