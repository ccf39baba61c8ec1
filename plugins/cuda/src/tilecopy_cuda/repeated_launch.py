"""A generated function that repeats launches of a kernel. There is one for each combination of argument types.

A loop over the arguments, with a call for each, would cost the host as much as the driver's launch. So the generated function reads
all arguments in straight-line code. torch compares tensors with those of the newest launch in one call, which costs a quarter of
reading them. The other properties are read and compared, and looked up only if they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import attrs
from tilecopy.executors.arguments import LOWEST_ADDRESS, ArrayExpressions, reads_of, same_tensors
from tilecopy.executors.streams import framework_of
from tilecopy.kernel.built import BuiltKernel
from tilecopy.kernel.parameters import ArrayParameter

from .prepared_launch import ReadyLaunch

_TEXT = """
def make(kinds, launches, newest, streams, legacy):
    {kinds} = kinds

    def key_of(arguments):
        {arguments} = arguments
        return {key}

    def rest_of(arguments):
        {arguments} = arguments
        return {rest}

    def launch(stream, arguments):
        try:
            {arguments} = arguments
            if {mismatch}:
                return False
            rest = {rest}
            same, known, ready = newest[0]
            if rest != known{differ}:
                ready = launches[{unlike}]
            {reads}
            if {without_memory}:
                return False
            if ({bits}) & ready.mask and not ready.are_aligned({addresses}):
                return False
            if stream is None:
                handle = streams[ready.current()]
            else:
                handle = streams[stream if type(stream) is int else stream.cuda_stream]
        except Exception:
            return False
        try:
            buffer = ready.buffers.pop()
        except IndexError:
            buffer = ready.new_buffer()
        ready.pack(buffer.memory, 0, {addresses})
        if ready.computed or handle is not legacy:
            ready.complete(buffer, handle, ({addresses}, ))
        code, = ready.call(handle, buffer.address, 0)
        if code:
            ready.launch_elsewhere(buffer, handle, code)
        ready.buffers.append(buffer)
        return True

    return key_of, rest_of, launch
"""
_MOST_LAUNCHES = 1024
"""The most cached launches for arguments of the same types. A full cache is cleared."""


@attrs.frozen(eq=False)
class RepeatedLaunch:
    """The cached launches of a kernel for one combination of argument types.

    Attributes:
        launches: key of the arguments -> checked launch.
        newest: a list with one tuple: the guard of the torch tensors, the key of the other arguments, and the newest launch.
        key_of: returns the key of all arguments.
        rest_of: returns the key of the arguments that are not torch tensors.
        tensors: the positions of the torch tensors.
        launch: ``launch(stream, arguments)`` launches and returns True if it knows the stream and the arguments fit a launch in
            all but their addresses; else it returns False.
    """

    launches: dict[Any, ReadyLaunch]
    newest: list[tuple[Callable[..., bool], Any, ReadyLaunch]]
    key_of: Callable[[Sequence[Any]], Any]
    rest_of: Callable[[Sequence[Any]], Any]
    tensors: tuple[int, ...]
    launch: Callable[..., bool]

    @classmethod
    def of(
        cls, kernel: BuiltKernel, arguments: Sequence[Any], streams: dict[int, Any], legacy_stream: Any
    ) -> RepeatedLaunch | None:
        """Return an empty cache for arguments of these types. Return None if generated code cannot read one of them.

        ``streams`` has the driver's handle of each number of a stream.
        """
        kinds, launches, newest = tuple(map(type, arguments)), dict[Any, ReadyLaunch](), list[Any]()
        forms: list[ArrayExpressions | None] = []
        for kind, parameter in zip(kinds, (p for p in kernel.parameters if p.takes_argument), strict=True):
            is_complex = isinstance(parameter, ArrayParameter) and parameter.dtype.kind == "c"
            forms.append(None if kind is int else reads_of(kind, is_complex=is_complex))
            if forms[-1] is None and kind is not int:
                return None
        tensors = tuple(place for place, kind in enumerate(kinds) if framework_of(kind) == "torch")
        key_of, rest_of, launch = _maker(tuple(forms), tensors)(kinds, launches, newest, streams, legacy_stream)
        return cls(launches, newest, key_of, rest_of, tensors, launch)

    def remember(self, arguments: Sequence[Any], ready: ReadyLaunch) -> None:
        """Cache a launch for later calls whose arrays differ only in address."""
        if len(self.launches) >= _MOST_LAUNCHES:
            self.launches.clear()
        self.launches[self.key_of(arguments)] = ready
        same = same_tensors([arguments[place] for place in self.tensors]) or (lambda *_: False)  # the keys decide
        self.newest[:] = [(same, self.rest_of(arguments), ready)]


@cache
def _maker(forms: tuple[ArrayExpressions | None, ...], tensors: tuple[int, ...]) -> Callable[..., Any]:
    """Return ``make`` for arguments with these expressions. None stands for an integer; torch compares those at ``tensors``."""
    names = [f"a{index}" for index in range(len(forms))]
    read = [(form, name) for form, name in zip(forms, names, strict=True) if form is not None]
    facts = [name if form is None else form.facts.format(name) for form, name in zip(forms, names, strict=True)]
    text = _TEXT.format(
        kinds=_tuple(f"k{name}" for name in names),
        arguments=_tuple(names),
        key=_tuple(facts),
        rest=_tuple(fact for place, fact in enumerate(facts) if place not in tensors),
        differ=f" or not same({', '.join(names[place] for place in tensors)})" if tensors else "",
        unlike=_tuple(facts) if tensors else "rest",
        mismatch=" or ".join(f"type({name}) is not k{name}" for name in names) or "False",
        reads="; ".join(f"p{name} = {form.address.format(name)}" for form, name in read) or "pass",
        without_memory=" or ".join(f"p{name} < {LOWEST_ADDRESS}" for _, name in read) or "False",
        addresses=", ".join(f"p{name}" for _, name in read),
        bits=" | ".join(f"p{name}" for _, name in read) or "0",
    )
    namespace: dict[str, Any] = {}
    exec(compile(text, __file__, "exec"), namespace)  # noqa: S102 (it consists of the templates above)
    make: Callable[..., Any] = namespace["make"]
    return make


def _tuple(items: Iterable[str]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"
