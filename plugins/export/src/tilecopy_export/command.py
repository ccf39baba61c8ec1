"""The command ``tilecopy cuda``. It prints one copy as a CUDA C++ header."""

from __future__ import annotations

from typing import Any

import click
from tilecopy_cli.command import Result, ResultCommand, copy_options, plan_to_dict

from tilecopy_core import plan

from .cuda import cuda_function, cuda_header


@click.command("cuda", cls=ResultCommand, short_help="Print one copy as a CUDA C++ header.")
@click.option("--name", required=True, help="Name of the function.")
@copy_options
def cuda_command(name: str, **copy: Any) -> Result:
    """Print a CUDA C++ header with one copy as a function. The header does not need a library.

    Arguments are those of `tilecopy plan`. The generated function takes (destination, source, ...):

    \b
      tilecopy cuda "global float16 [4096, 64] [bx*128 : bx*128+128, :]" "shared float16 [128, 64]" --name load_tile
    """
    copy_plan = plan(**copy)
    text = cuda_header([cuda_function(copy_plan, name)])
    return Result({"cuda": text, "plans": [plan_to_dict(copy_plan)]}, lambda: text)
