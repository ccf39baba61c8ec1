"""Launch records with wrong content and a right digest, drawn from a seed: loading or launching one ends in an error of tilecopy or works."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tilecopy as tc
from tilecopy.kernel.load import kernel_of
from tilecopy.kernel.number_parameters import SizeParameter
from tilecopy.kernel.parameters import ArrayParameter, value_of
from tilecopy.kernel.save import record_of

from .saved_kernels import SAVED

RECORDED = {name: SAVED[name] for name in ("sized", "gather", "drawn back", "tensor maps", "bytes of a function")}
"""The kernels whose records are changed."""
ODD: list[Any] = [
    None, True, 0, 1, -1, 2, 3, 7, 31, 2**31, 2**63, 2**70, 1.5, float("nan"), "", "M", "M // 0", "n - 9", "8 * M", "%r0", "%r1",
    "array", "size", "int32", "int64", "float32", "uint8", "grid", "cta", "thread", [], [[]], {}, [None], [1], ["M", 1],
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each value stands in JSON: the keys and indices that lead there."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    """Return what stands at a place."""
    return functools.reduce(lambda inner, key: inner[key], path, value)


def changed(record: dict[str, Any], rng: random.Random) -> tuple[str, dict[str, Any]]:
    """Return a record with one to three values changed, and the changes in words."""
    record, words = copy.deepcopy(record), []
    for _ in range(rng.choice((1, 1, 2, 3))):
        known = [
            path for path in places(record) if path[0] not in ("statements", "locations", "plans", "format", "sha256")
        ]
        path = rng.choice(known)
        holder, value = at(record, path[:-1]), at(record, path)
        new: Any = copy.deepcopy(rng.choice(ODD))
        how = rng.randrange(5)
        if how == 0 and isinstance(value, int):
            new = value + rng.choice((-8, -1, 1, 8))
        elif how == 1:  # another value of the record of this kind
            new = copy.deepcopy(at(record, rng.choice([p for p in known if type(at(record, p)) is type(value)])))
        elif how == 2 and isinstance(value, list) and value:
            new = [*value, rng.choice(value)] if rng.random() < 0.5 else rng.sample(value, rng.randrange(len(value)))
        if how == 3 and isinstance(holder, dict):
            del holder[path[-1]]
            words.append(f"{path} dropped")
        else:
            holder[path[-1]] = new
            words.append(f"{path}: {value!r:.60} -> {new!r:.60}")
    return "; ".join(words), record


def with_digest(record: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a record with the digest that docs/export.md describes."""
    said = json.dumps({**record, "sha256": ""}, sort_keys=True) + "\0" + text
    return record | {"sha256": hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()}


def arguments_of(kernel: tc.BuiltKernel) -> list[Any]:
    """Return small arguments that fit the declarations of the kernel that was saved."""
    numbers = {
        p.name: p.multiple_of * -(-8 // p.multiple_of) for p in kernel.parameters if isinstance(p, SizeParameter)
    }
    arguments: list[Any] = []
    for parameter in kernel.parameters:
        if isinstance(parameter, ArrayParameter):
            shape = tuple(value_of(extent, numbers) for extent in parameter.shape)
            arguments.append(np.zeros(shape, parameter.dtype.numpy()))
        elif parameter.takes_argument:
            arguments.append(0)
    return arguments


def raw_exceptions(
    made: dict[str, Callable[[], tc.BuiltKernel]], count: int, seed: int
) -> tuple[Counter[str], list[str]]:
    """Draw records and return how they ended, and those that ended in an exception that is not an error of tilecopy."""
    rng, ends, raw = random.Random(seed), Counter[str](), list[str]()
    kernels = [
        (name, kernel, record_of(kernel), arguments_of(kernel)) for name, kernel in ((n, f()) for n, f in made.items())
    ]
    for number in range(count):
        name, kernel, record, arguments = rng.choice(kernels)
        words, record = changed(record, rng)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loaded = kernel_of(json.loads(json.dumps(with_digest(record, kernel.ptx))), kernel.ptx, "launch.json")
                ends["loaded"] += 1
                if np.prod([g for g in loaded.grid or () if isinstance(g, int)], dtype=object) < 64:
                    loaded(*arguments, grid=None if loaded.grid else 1, executor="emulator")
                    loaded.explain(), repr(loaded), record_of(loaded)
            ends["launched"] += 1
        except tc.TilecopyError as error:
            ends[type(error).__name__] += 1
        except Exception as error:
            raw.append(f"{seed}/{number} {name}: {words}: {type(error).__name__}: {error}")
    return ends, raw
