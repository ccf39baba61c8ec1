"""Nothing raw behind the other public modules: those for executors, exports, subcommands, assemblers and the registry.

As tests/test_surface.py does it for the core's own names: GOOD has a call of everything that the modules list; each argument of
each call is then replaced by each odd value.
"""

from __future__ import annotations

import os
import tempfile
import types
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
import tilecopy_cuda
import tilecopy_export as export
from fake_driver import FakeDriver
from odd import ODD, Bound, little_memory, outcome, places_of, replaced
from test_fronts import judge
from tilecopy import assemblers, executors
from tilecopy_cli import command
from tilecopy_cuda.cuda import CudaExecutor

from tilecopy_core import registry

FOLDER = tempfile.TemporaryDirectory()


@cache
def kernel() -> tc.BuiltKernel:
    """A row through shared memory."""
    k = tc.KernelBuilder("row", threads=32)
    a, b, s = k.param("A", (32,), "float32"), k.param("B", (32,), "float32"), k.shared((32,), "float32", name="s")
    k.cta.copy(s[:], a[:])
    k.cta_sync()
    k.cta.copy(b[:], s[:])
    return k.build(target="sm_80", grid=1)


def call(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Bound:
    return function, arguments, keywords


def array() -> Any:
    return np.arange(32, dtype=np.float32)


@cache
def npy() -> str:
    """A file."""
    path = str(Path(FOLDER.name, "a.npy"))
    np.save(path, array())
    return path


def written(path: Any) -> None:
    """A context manager opens when it is entered: the test is of the whole use."""
    with command.output_file(path) as write:
        write([b"x"])


def cuda() -> CudaExecutor:
    return CudaExecutor(FakeDriver())


def on_device() -> tilecopy_cuda.DeviceArray:
    return tilecopy_cuda.DeviceArray((32,), "float32", executor=cuda())


def device_array(shape: Any, dtype: Any, device: Any, executor: Any) -> None:
    tilecopy_cuda.DeviceArray(shape, dtype, device=device, executor=executor).free()


GOOD: dict[str, Callable[[], Bound]] = {
    "DeviceArray": lambda: call(device_array, (4, 8), "float32", 0, cuda()),
    "DeviceArray.copy_from": lambda: call(lambda host: on_device().copy_from(host), array()),
    "DeviceArray.copy_to": lambda: call(lambda host: on_device().copy_to(host), array()),
    "DeviceArray.fill": lambda: call(lambda byte: on_device().fill(byte), 7),
    "HostArguments.of": lambda: call(executors.HostArguments.of, kernel(), (array(), array()), 1),
    "agreed_stream": lambda: call(executors.agreed_stream, "row", {"A": partial(int, 5)}),
    "array_facts": lambda: call(executors.array_facts, "row, A", array(), lambda address: 0),
    "choose_executor": lambda: call(executors.choose_executor, "emulator", kernel()),
    "executor_named": lambda: call(executors.executor_named, "emulator"),
    "executors": lambda: call(executors.executors),
    "why_unavailable": lambda: call(executors.why_unavailable, "emulator"),
    "plan_data": lambda: call(command.plan_data, kernel().plans[0]),
    "stream_pointer": lambda: call(executors.stream_pointer, 0),
    "time_on_device": lambda: call(tilecopy_cuda.time_on_device, cuda(), lambda: None, runs=2, warm_up=1, device=0),
    "cuda_function": lambda: call(export.cuda_function, kernel().plans[0], "row", None),
    "cuda_header": lambda: call(export.cuda_header, [kernel().plans[0].cuda("row")]),
    "function_of": lambda: call(export.function_of, kernel().plans[0], "row", None),
    "Answer": lambda: call(command.Answer, {"found": 1}, lambda: "one"),
    "output_file": lambda: call(written, "out.npy"),
    "read_npy": lambda: call(command.read_npy, npy(), mapped=False),
    "shown": lambda: call(command.shown, "a.npy"),
    "stamp_of": lambda: call(command.stamp_of, os.stat(npy())),
    "assemble": lambda: call(assemblers.assemble, kernel().ptx, "sm_80", None, timeout_s=100.0),
    "available_assemblers": lambda: call(assemblers.available_assemblers),
    "version_of": lambda: call(assemblers.version_of, "nvjitlink"),
    "default_registry": lambda: call(registry.default_registry),
    "installed": lambda: call(registry.installed, registry.VARIANTS_GROUP),
    "load_only": lambda: call(
        registry.load_only, [registry.Source("mine", "acme", "1", lambda: 5)], lambda plugin: plugin + 1
    ),
}
"""A call of everything, with every argument that can be given."""

CALLED = {
    ("DeviceArray", "shape"): "DeviceArray",
    ("choose_executor", "name"): "executor",
    ("executor_named", "name"): "executor",
    ("why_unavailable", "name"): "executor",
    ("read_npy", "path"): "file",
    ("array_facts", "argument"): "row, A",
}
"""What a message names where it is not the parameter."""
CALLBACKS = {"work", "device_of", "text", "make"}
"""Functions of the caller's: what they raise is theirs, or the plugin's that they are given."""


@pytest.fixture(autouse=True)
def small_and_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever takes long or much memory fails here; what writes files does it elsewhere."""
    monkeypatch.chdir(tmp_path)
    with little_memory():
        yield


@pytest.mark.parametrize("name", GOOD)
def test_good_calls_work(name: str) -> None:
    function, arguments, keywords = GOOD[name]()
    function(*arguments, **keywords)


@pytest.mark.parametrize("name", [name for name, good in GOOD.items() if places_of(good())])
def test_odd_arguments_work_or_are_refused_by_name_value_and_rule(name: str) -> None:
    wrong = []
    for parameter, place in places_of(GOOD[name]()):
        for label, value in ODD.items():
            function, arguments, keywords = replaced(GOOD[name](), place, value)
            if parameter in CALLBACKS and callable(value):
                continue
            if parameter == "executor" and value is None:
                continue  # then it is the machine's own
            if parameter == "ptx" and isinstance(value, str):
                assert isinstance(outcome(partial(function, *arguments, **keywords)), tc.AssemblerError)
                continue  # the assembler's own words
            also, act = CALLED.get((name, parameter), parameter), partial(function, *arguments, **keywords)
            if (why := judge(parameter, value, act)) and (also == parameter or judge(also, value, act)):
                wrong.append(f"{name}, {parameter} = {label}: {why}")
    assert not wrong, "\n".join(wrong).encode("ascii", "backslashreplace").decode()


# ------------------------------------------------------------------------------------------------ nothing is left out

NOT_CALLED = {
    "AnswerCommand": "click's",
    "ArrayFacts": "what array_facts gives",
    "ComputeCache": "its settings are the environment's",
    "CudaExecutor": "what executor_named gives",
    "NearestGroup": "click's",
    "copy_in_words": "decorates a command",
    "table": "for rows of a command's own",
    "BlockOperand": "what function_of gives",
    "Executor": "a protocol",
    "FileError": "an error",
    "FilePath": "click's",
    "Function": "what function_of gives",
    "HostArguments": "see HostArguments.of",
    "HostArray": "what HostArguments.of gives",
    "Move": "what function_of gives",
    "Name": "click's",
    "NpyFile": "what read_npy gives",
    "Number": "what function_of gives",
    "Operand": "what function_of gives",
    "Plugin": "what the registry gives",
    "html_table": "for rows of a page's own",
    "progress_bar": "around what a command does",
    "PluginWarning": "a warning",
    "Registry": "see tests/test_surface.py",
    "Source": "what installed gives",
    "ValueCheck": "what a built kernel has",
    "WrapperError": "an error",
    **dict.fromkeys(
        ("KnownVariant", "by_name", "canonical", "known_variants", "names_later", "shown_error", "warn_outside"),
        "for packages that go out with the core",
    ),
}


def test_every_public_callable_has_a_good_call() -> None:
    things = {
        name: getattr(module, name)
        for module in (assemblers, command, executors, export, registry, tilecopy_cuda)
        for name in module.__all__
    }
    named = {name for name, thing in things.items() if isinstance(thing, (type, types.FunctionType))}
    assert named - set(NOT_CALLED) <= set(GOOD)
