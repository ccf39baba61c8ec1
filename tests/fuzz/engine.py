"""Odd arguments in place of good ones, and what is wrong with the outcome."""

from __future__ import annotations

import inspect
import os
import resource
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy_test_helpers.bounded_work import TooMuchWork, at_most
from tilecopy_test_helpers.fuzz_objects import Objects

from tilecopy_core.plugin import short_repr

from .odd_values import CallersError, odd_values

MAX_CALLS = 1_000_000
"""Calls and returns that one call may make: several times as many as any needs."""
MAX_BYTES = 1 << 30
"""Memory that one call may allocate."""
HANG_SECONDS = 120
"""Ends a loop that calls nothing; a call takes milliseconds."""


def _hang(*_: object) -> None:
    raise TooMuchWork(f"it ran for {HANG_SECONDS} s")


def outcome(call: Callable[[], Any]) -> BaseException | None:
    """Return what a call raised, within bounded work."""
    previous = signal.signal(signal.SIGALRM, _hang)
    signal.alarm(HANG_SECONDS)
    try:
        with at_most(MAX_CALLS):
            use(call())
    except (Exception, TooMuchWork) as error:
        return error
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    return None


def use(result: Any) -> None:
    """Enter and leave a block, run a generator: what a call returns may only then do its work."""
    if isinstance(result, AbstractContextManager) and not isinstance(result, Path):
        with result:
            pass
    elif isinstance(result, Generator):
        for _ in result:
            pass


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let the process allocate at most MAX_BYTES more."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (int(status["VmSize"].split()[0]) * 1024 + MAX_BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the parameters of what is called."""
    try:
        return inspect.signature(function)
    except ValueError:  # an exception of Python's own making
        return inspect.signature(lambda *arguments, **keywords: None)


def arguments_of(call: partial[Any], signature: inspect.Signature) -> inspect.BoundArguments:
    """Return the arguments of a call by parameter, defaults included."""
    bound = signature.bind(*call.args, **call.keywords)
    bound.apply_defaults()
    return bound


def values_in(container: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each value of a tuple, list or dict, and each inside those, with the indices that lead to it."""
    for index in container if isinstance(container, dict) else range(len(container)):
        yield (index,), container[index]
        if type(container[index]) in (tuple, list, dict):
            yield from (((index, *inside), value) for inside, value in values_in(container[index]))


def replaced(container: Any, place: tuple[Any, ...], value: object) -> Any:
    """Return a copy of a container with another value where the indices lead."""
    index, *inside = place
    items = dict(container if isinstance(container, dict) else enumerate(container))
    items[index] = replaced(items[index], tuple(inside), value) if inside else value
    return items if isinstance(container, dict) else type(container)(items.values())


def contents(values: list[Any]) -> list[Any]:
    """Return what a call could overwrite: the arrays among some values, and all files."""
    arrays = [bytes(value) for value in values if isinstance(value, (bytearray, memoryview))]
    arrays += [value.tobytes() for value in values if isinstance(value, np.ndarray)]
    return [arrays, dict(files())]


def files(folder: str = ".") -> Iterator[tuple[str, bytes]]:
    """Yield each file of a folder and its subfolders, with its bytes; pathlib takes ten times as long, after each call."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from files(entry.path)
            elif entry.is_file():
                yield entry.path, Path(entry.path).read_bytes()


def remove_files() -> None:
    """Empty the folder, so that the next call finds nothing of this one."""
    for path in list(Path().iterdir()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def faults(bind: Callable[[Objects], partial[Any]]) -> Iterator[str]:
    """Yield what is wrong with a starting call, and with each call that has an odd value in it."""
    use(bind(Objects())())  # what it imports is imported before calls are counted
    call = bind(Objects())
    signature = signature_of(call.func)
    variadic = {(name,) for name, p in signature.parameters.items() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    bound = arguments_of(call, signature)
    for number in range(len(list(values_in(bound.arguments)))):
        for odd in odd_values():
            call = bind(Objects())
            bound = arguments_of(call, signature)
            places, good = zip(*values_in(bound.arguments), strict=True)
            place = places[number]
            if place in variadic or (callable(odd) and callable(good[number])):
                continue  # what a function of the caller raises is its own
            bound.arguments = replaced(bound.arguments, place, odd)
            written = [*good, odd]
            before = contents(written)
            error = outcome(partial(call.func, *bound.args, **bound.kwargs))
            allowed = isinstance(error, (type(None), tc.TilecopyError, CallersError)) and not isinstance(
                error, MemoryError
            )
            wrote = error is not None and not isinstance(error, tc.HazardError) and contents(written) != before
            remove_files()
            if wrote or not allowed:
                text = f"{'.'.join(map(str, place))} = {short_repr(odd)}: {'wrote, then ' * wrote}raised {error!r:.300}"
                yield text.encode("ascii", "backslashreplace").decode()
