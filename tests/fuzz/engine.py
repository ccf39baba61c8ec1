"""Odd arguments in place of good ones, and what is wrong with the outcome."""

from __future__ import annotations

import inspect
import resource
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import tilecopy as tc

from tilecopy_core.plugin import shown

from .objects import Objects
from .odd_values import CallersError, odd_values

MAX_EVENTS = 4_000_000
"""Calls and returns that one call may make: several times as many as any needs, imports included."""
MAX_BYTES = 1 << 30
"""Memory that one call may allocate."""
HANG_SECONDS = 120
"""Ends a loop that calls nothing; a call takes milliseconds."""

Place = tuple[int | str, ...]
"""The number or name of an argument, then the indices that lead to a value inside it."""


class UnboundedWork(BaseException):
    """Raised in a call that does not end; no `except Exception` stops it."""


def _hang(*_: object) -> None:
    raise UnboundedWork(f"it ran for {HANG_SECONDS} s")


def outcome(call: Callable[[], Any]) -> BaseException | None:
    """Return what a call raised, within bounded work."""
    events = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal events
        events += 1
        if events > MAX_EVENTS:
            raise UnboundedWork(f"it made {MAX_EVENTS} calls")

    previous = signal.signal(signal.SIGALRM, _hang)
    signal.alarm(HANG_SECONDS)
    sys.setprofile(count)
    try:
        use(call())
    except (Exception, UnboundedWork) as error:
        return error
    finally:
        sys.setprofile(None)
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


def parameters(call: partial[Any]) -> dict[str, bool]:
    """Return for each parameter whether the call passes it."""
    try:
        signature = inspect.signature(call.func)
    except ValueError:  # an exception of Python's own making
        return {}
    passed = signature.bind(*call.args, **call.keywords).arguments
    return {name: name in passed for name, p in signature.parameters.items() if p.kind != p.VAR_KEYWORD}


def places_of(call: partial[Any]) -> list[Place]:
    """Return the place of every argument and of every value inside one."""
    arguments = [*enumerate(call.args), *call.keywords.items()]
    return [(place, *inside) for place, argument in arguments for inside in _places_inside(argument)]


def _places_inside(value: Any) -> Iterator[Place]:
    yield ()
    if type(value) in (tuple, list, dict):
        for index, item in enumerate(value.values() if isinstance(value, dict) else value):
            yield from ((index, *inside) for inside in _places_inside(item))


def argument_at(call: partial[Any], place: Place) -> Any:
    """Return what a call passes at a place."""
    first, *inside = place
    value = call.args[first] if isinstance(first, int) else call.keywords[first]
    for index in inside:
        value = (list(value.values()) if isinstance(value, dict) else value)[index]
    return value


def with_argument(call: partial[Any], place: Place, value: object) -> partial[Any]:
    """Return a call that passes another value at a place."""
    first, *inside = place
    argument = _with_item(argument_at(call, (first,)), inside, value)
    if isinstance(first, str):
        return partial(call.func, *call.args, **{**call.keywords, first: argument})
    return partial(call.func, *call.args[:first], argument, *call.args[first + 1 :], **call.keywords)


def _with_item(container: Any, place: list[Any], value: object) -> Any:
    if not place:
        return value
    index, *rest = place
    items = list(container.values() if isinstance(container, dict) else container)
    items[index] = _with_item(items[index], rest, value)
    return dict(zip(container, items, strict=True)) if isinstance(container, dict) else type(container)(items)


def contents(call: partial[Any]) -> list[Any]:
    """Return what a call could overwrite: arrays among its arguments, or one level inside them, and files."""
    arguments = [*call.args, *call.keywords.values()]
    items = chain.from_iterable(
        argument.values() if isinstance(argument, Mapping) else argument
        for argument in arguments
        if isinstance(argument, (tuple, list, dict)) and len(argument) < 100
    )
    arrays = [value for value in (*arguments, *items) if isinstance(value, (np.ndarray, bytearray, memoryview))]
    files = [(path, path.read_bytes()) for path in sorted(Path().rglob("*")) if path.is_file()]
    return [*(array.tobytes() if not isinstance(array, bytearray) else bytes(array) for array in arrays), files]


def faults(bind: Callable[[Objects], partial[Any]], refusals: type[Exception]) -> Iterator[str]:
    """Yield what is wrong with a starting call, and with each call that has an odd value in it."""
    if (error := outcome(bind(Objects()))) is not None:
        yield f"the starting call raised {error!r}"
        return
    for place in places_of(bind(Objects())):
        for value in odd_values():
            good = bind(Objects())
            if callable(value) and callable(argument_at(good, place)):
                continue  # a function of the caller: what it raises is its own
            call = with_argument(good, place, value)
            before = contents(call)
            error = outcome(call)
            allowed = isinstance(error, (type(None), refusals, CallersError)) and not isinstance(error, MemoryError)
            wrote = error is not None and not isinstance(error, tc.HazardError) and contents(call) != before
            if wrote or not allowed:
                text = f"{'.'.join(map(str, place))} = {shown(value)}: {'wrote, then ' * wrote}raised {error!r:.300}"
                yield text.encode("ascii", "backslashreplace").decode()
