"""The click group of all subcommands, built-in or from other packages. It handles errors and exit statuses."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import click
from tilecopy.catalog import KNOWN_COMMANDS, install_line
from tilecopy.errors import HazardError

from tilecopy_core.errors import LayoutError, PluginError, RequestError, TargetError, TilecopyError, did_you_mean
from tilecopy_core.registry import by_name, load_unique

from . import standard_streams as streams

DONE, FAILED, WRONG_USAGE = 0, 1, 2
"""Exit statuses: done, failed, invalid input. An error with an attribute ``exit_status`` exits with that instead."""
_SIGPIPE = getattr(signal, "SIGPIPE", 13)  # Windows does not name it
_UNTITLED = {"UsageError", "Stopped", "FileError", "OSError"}
COMMANDS_GROUP = "tilecopy.commands.v1"
"""The entry-point group of subcommands; each entry point refers to a click.Command."""


@attrs.frozen(eq=False)
class Result:
    """A frozen record of a command's result, as JSON values and as text.

    Attributes:
        data: what ``--json`` prints.
        text: returns the text for people. It is called when the text is printed, because it depends on the terminal's width.
    """

    data: Any
    text: Callable[[], str]


class ResultCommand(click.Command):
    """A command with ``--json`` and ``--debug`` that returns a :class:`Result`. Only the result goes to standard output."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        for name, text in (("--json", "Print the result as JSON."), ("--debug", "Show an error's traceback.")):
            self.params.append(click.Option([name], is_flag=True, expose_value=False, callback=_keep, help=text))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and print its result."""
        with streams.prints_to_stderr():
            answer = super().invoke(ctx)
        streams.emit(f"{json.dumps(answer.data, indent=2)}\n" if ctx.meta.get("tilecopy.json") else answer.text())


def _keep(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    ctx.meta[f"tilecopy.{option.name}"] = value


class SuggestingGroup(click.Group):
    """A group of commands that return a :class:`Result`. It suggests a name for an unknown command."""

    command_class = ResultCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand named ``args[0]``. For an unknown name, raise a usage error that suggests a name."""
        name = ctx.meta["tilecopy.asked"] = args[0]
        known = ctx.resilient_parsing or name.startswith("-") or name in self.commands
        if not known and name not in (names := self.list_commands(ctx)):
            package = KNOWN_COMMANDS.get(name, "") if ctx.parent is None else ""
            hint = f": {install_line(package)}" if package else did_you_mean(name, names)
            ctx.fail(f"No such command {name!r}{hint}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. If no subcommand is given, print the help and exit with status 2."""
        if not args and not ctx.resilient_parsing:  # a shell's completion also calls it without arguments
            click.echo(ctx.get_help(), err=True)
            ctx.exit(WRONG_USAGE)
        return super().parse_args(ctx, args)


class TilecopyGroup(SuggestingGroup):
    """The group of all subcommands. A subcommand of another package is imported when it runs or when all subcommands are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the sorted names of the built-in subcommands, then the names of other packages' subcommands."""
        return [*super().list_commands(ctx), *sorted(set(by_name(COMMANDS_GROUP)) - set(self.commands))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a subcommand. On failure, raise an error if the user named the subcommand, else warn and return None."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        sources = by_name(COMMANDS_GROUP).get(cmd_name)
        if sources is None:
            return None
        try:
            with streams.prints_to_stderr():
                command = load_unique(sources)
            if not isinstance(command, click.Command):
                raise PluginError(f"{sources[0].owner} must declare a click.Command, got {type(command).__name__}")
        except PluginError as error:
            if ctx.meta.get("tilecopy.asked") == cmd_name:
                raise PluginError(f"command {cmd_name}: {error}") from error
            streams.say(f"tilecopy: command {cmd_name} is not available: {error}")
            return None
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands. Warn if a package's subcommand has the name of a built-in subcommand."""
        for name, sources in by_name(COMMANDS_GROUP).items():
            if name in self.commands:
                command = f"command {name} of {', '.join(source.owner for source in sources)}"
                streams.say(f"tilecopy: {command} is ignored, because tilecopy has a built-in command {name}")
        super().format_commands(ctx, formatter)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command. Exit with 0 (done), 1 (failed) or 2 (invalid input), or by the signal that stopped it."""
        words = list(sys.argv[1:] if args is None else args)
        name = prog_name or "tilecopy"
        if not standalone_mode or (complete_var or f"_{name}_COMPLETE".replace("-", "_").upper()) in os.environ:
            return super().main(words, prog_name, complete_var, standalone_mode, **extra)

        def call() -> None:  # not click's main, which reports a closed pipe as a failure
            with self.make_context(name, words, **extra) as ctx:
                self.invoke(ctx)

        return sys.exit(_run(call, words))


def _run(call: Callable[[], None], words: list[str]) -> int:
    """Run a call and return its exit status. Print an error on standard error and, for ``--json``, on standard output."""
    options = words[: words.index("--")] if "--" in words else words
    status = DONE
    streams.open_standard_streams()
    try:
        with streams.stop_signals(), streams.one_line_warnings():
            call()
    except click.exceptions.Exit as exit_:
        status = exit_.exit_code
    except BrokenPipeError:
        streams.end_by(_SIGPIPE)
    except (Exception, streams.Stopped) as error:
        kind, message, status = _failure(error)
        status = vars(error).get("exit_status", status)  # of a command with statuses of its own
        if "--debug" in options:
            streams.say(traceback.format_exc().rstrip())
        streams.say(f"tilecopy: {'' if kind in _UNTITLED else f'{kind}: '}{message}")
        for note in getattr(error, "__notes__", ()) if isinstance(error, TilecopyError) else ():
            streams.say(note)
        if "--json" in options:
            failure = {"error": {"type": kind, "message": message, **_more_of(error)}}
            with suppress(TilecopyError, OSError):
                streams.emit(f"{json.dumps(failure, indent=2)}\n")
        if isinstance(error, streams.Stopped):
            streams.end_by(error.number)
    if not streams.flush_output(sys.stdout) and status == DONE:
        streams.say("tilecopy: cannot write to standard output")
        status = FAILED
    streams.flush_output(sys.stderr)
    return status


def _more_of(error: BaseException) -> dict[str, Any]:
    """Return the fields of a hazard that ``--json`` prints beside its message."""
    if not isinstance(error, HazardError):
        return {}
    names = ("kind", "line", "threads", "bytes", "cause")
    hazards = [{name: getattr(hazard, name) for name in names} | hazard.details for hazard in (error, *error.others)]
    messages = ({"message": str(hazard)} for hazard in (error, *error.others))
    return hazards[0] | {"hazards": [first | rest for first, rest in zip(messages, hazards, strict=True)]}


def _failure(error: BaseException) -> tuple[str, str, int]:
    """Return the name of an error's type, its message and its exit status."""
    kind = type(error).__name__
    match error:
        case streams.Stopped():
            return kind, str(error), 128 + error.number
        case click.UsageError():
            hint = f"; see '{error.ctx.command_path} --help'" if error.ctx is not None else ""
            return "UsageError", _one_line(error.format_message()).removesuffix(".") + hint, error.exit_code
        case click.ClickException():
            return kind, error.format_message(), error.exit_code
        case click.Abort():
            return kind, "aborted", FAILED
        case LayoutError() | RequestError() | TargetError():  # the input is invalid
            return kind, _message_of(error), WRONG_USAGE
        case TilecopyError():
            return kind, _message_of(error), FAILED
        case MemoryError():
            return kind, "not enough memory", FAILED
        case OSError():
            return "OSError", f"{error.filename or 'standard output'}: {error.strerror or error}", FAILED
    return kind, f"{error} (unexpected; use --debug for the traceback)", FAILED


def _message_of(error: TilecopyError) -> str:
    """Return an error's message without the source line of a statement that the command itself made."""
    return re.sub(rf"\n  at {re.escape(str(Path(__file__).parent))}[^\n]*", "", str(error))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 600 else f"{line[:400]} ... {line[-150:]}"
