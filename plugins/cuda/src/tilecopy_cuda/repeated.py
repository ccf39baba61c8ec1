"""Launches for arguments like those of an earlier call, by functions whose code is written for the arguments' types.

A loop over the arguments, with a call for each, would cost the host as much as the driver's launch. So the reads of every argument
stand one after the other in the text of one function. What they give is compared with what the newest launch has, and looked up
only if it differs: comparing costs half of a look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import attrs
from tilecopy.executors.arguments import LOWEST_ADDRESS, Reads, reads_of
from tilecopy.kernel.built import BuiltKernel
from tilecopy.kernel.parameters import ArrayParameter

from .launches import ReadyLaunch

_TEXT = """
def make(kinds, launches, newest, streams, legacy):
    {kinds} = kinds

    def key_of(arguments):
        {arguments} = arguments
        return {key}

    def launch(stream, arguments):
        try:
            {arguments} = arguments
            if {mismatch}:
                return False
            key = {key}
            known, ready = newest[0]
            if key != known:
                ready = launches[key]
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
            block = ready.blocks.pop()
        except IndexError:
            block = ready.new_block()
        ready.pack(block.memory, 0, {addresses})
        if ready.computed or handle is not legacy:
            ready.complete(block, handle, ({addresses}, ))
        code, = ready.call(handle, block.address, 0)
        if code:
            ready.launch_elsewhere(block, handle, code)
        ready.blocks.append(block)
        return True

    return key_of, launch
"""
_MOST_LAUNCHES = 1024
"""Launches that are remembered for arguments of the same types, before all are forgotten."""


@attrs.frozen(eq=False)
class RepeatedLaunch:
    """Launches of a kernel for arguments of some types.

    Attributes:
        launches: the launches that were checked, by what decides whether arguments fit them.
        newest: the only item is the newest of them, after what decides it.
        key_of: reads from the arguments what decides it.
        launch: ``launch(stream, arguments)`` launches if it knows the stream and the arguments fit, but for their addresses,
            and returns whether it did.
    """

    launches: dict[Any, ReadyLaunch]
    newest: list[tuple[Any, ReadyLaunch]]
    key_of: Callable[[Sequence[Any]], Any]
    launch: Callable[..., bool]

    @classmethod
    def of(
        cls, kernel: BuiltKernel, arguments: Sequence[Any], streams: dict[int, Any], legacy_stream: Any
    ) -> RepeatedLaunch | None:
        """Return one without launches for arguments of these types, or None where reading them is not cheap.

        Args:
            kernel: the kernel that they fit.
            arguments: the arrays and integers.
            streams: the driver's handles of streams, by number.
            legacy_stream: that of the legacy default stream.
        """
        kinds, launches, newest = tuple(map(type, arguments)), dict[Any, ReadyLaunch](), list[tuple[Any, ReadyLaunch]]()
        complex_ones = [
            isinstance(p, ArrayParameter) and p.dtype.kind == "c" for p in kernel.parameters if p.takes_argument
        ]
        forms = [
            None if kind is int else reads_of(kind, is_complex=is_complex)
            for kind, is_complex in zip(kinds, complex_ones, strict=True)
        ]
        if any(form is None and kind is not int for form, kind in zip(forms, kinds, strict=True)):
            return None
        key_of, launch = _maker(tuple(forms))(kinds, launches, newest, streams, legacy_stream)
        return cls(launches, newest, key_of, launch)

    def remember(self, arguments: Sequence[Any], ready: ReadyLaunch) -> None:
        """Let later arguments that differ from these in their addresses alone be launched so."""
        if len(self.launches) >= _MOST_LAUNCHES:
            self.launches.clear()
        key = self.key_of(arguments)
        self.launches[key] = ready
        self.newest[:] = [(key, ready)]


@cache
def _maker(forms: tuple[Reads | None, ...]) -> Callable[..., Any]:
    """Return ``make`` for arguments that are read so; None stands for an integer."""
    names = [f"a{index}" for index in range(len(forms))]
    read = [(form, name) for form, name in zip(forms, names, strict=True) if form is not None]
    text = _TEXT.format(
        kinds=_tuple(f"k{name}" for name in names),
        arguments=_tuple(names),
        key=_tuple(name if form is None else form.facts.format(name) for form, name in zip(forms, names, strict=True)),
        mismatch=" or ".join(f"type({name}) is not k{name}" for name in names) or "False",
        reads="; ".join(f"p{name} = {form.address.format(name)}" for form, name in read) or "pass",
        without_memory=" or ".join(f"p{name} < {LOWEST_ADDRESS}" for _, name in read) or "False",
        addresses=", ".join(f"p{name}" for _, name in read),
        bits=" | ".join(f"p{name}" for _, name in read) or "0",
    )
    namespace: dict[str, Any] = {}
    exec(compile(text, __file__, "exec"), namespace)  # noqa: S102 (it is made of the templates alone)
    make: Callable[..., Any] = namespace["make"]
    return make


def _tuple(items: Iterable[str]) -> str:
    return f"({''.join(f'{item}, ' for item in items)})"
