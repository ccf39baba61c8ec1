"""What a variant may say and ask for beyond its three hooks, by the names of tilecopy_core.plugin alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tilecopy as tc
from tilecopy_test_helpers.mentions import mentions

from tilecopy_core import plugin as contract


class Words:
    """Copies 32 words from global to shared memory, one a thread, after ``first`` has written what it likes."""

    def __init__(self, name: str = "words", first: Callable[[Any], None] | None = None, **record: Any) -> None:
        fields: dict[str, Any] = {"op": "copy", "priority": 10, "spaces": (("global", "shared"),)}
        self.variant = contract.Variant(name=name, summary="a test", **fields | record)
        self.first, self.seen = first, list[Any]()

    @contract.hookimpl
    def tilecopy_predicate(self, request: contract.CopyRequest) -> contract.Verdict:
        self.seen.append(dict(request.options))
        return contract.Accept()

    @contract.hookimpl
    def tilecopy_partition(self, request: contract.CopyRequest) -> str:
        return "32 words"

    @contract.hookimpl
    def tilecopy_emit(self, request: contract.CopyRequest, partition: str, ptx: contract.PtxBuilder) -> None:
        if self.first is not None:
            self.first(ptx)
        places = [ptx.address(region.buffer, ptx.tid) for region in (request.src, request.dst)]
        ptx.store(places[1], 32, ptx.load(places[0], 32))


def registry(*plugins: Words) -> tc.Registry:
    found = tc.Registry([], {})
    for each in plugins:
        found.register(each, name=each.variant.name)
    return found


def kernel(*plugins: Words, times: int = 1, cluster: int | None = None, target: str = "sm_90", **options: Any) -> Any:
    k = tc.KernelBuilder("k", threads=32)
    a, b = k.param("A", (32,), "uint32"), k.param("B", (32,), "uint32")
    tile = k.shared((32,), "uint32")
    for _ in range(times):
        k.warp.copy(tile[:], a[:], **options)
    with k.if_(k.thread_id() < 32):
        k.store(b[k.thread_id()], k.load(tile[k.thread_id()]))
    return k.build(target=target, grid=2, cluster=cluster, registry=registry(*plugins))


def test_a_variant_raises_the_version_and_says_why() -> None:
    plain = kernel(Words())
    assert plain.ptx.startswith(".version 6.3\n.target sm_75\n")
    raised = kernel(Words(first=lambda ptx: ptx.require(version=(8, 6), why="the map's atoms")))
    assert raised.ptx.startswith(".version 8.6\n.target sm_75\n") and "// PTX ISA 8.6: the map's atoms\n" in raised.ptx
    lower = kernel(Words(first=lambda ptx: ptx.require(version=(1, 0), why="nothing")))
    assert lower.ptx.startswith(".version 6.3\n")


class NeedsCluster(Words):
    """Declines what the launch cannot carry."""

    @contract.hookimpl
    def tilecopy_predicate(self, request: contract.CopyRequest) -> contract.Verdict:
        if request.cluster is not None and request.cluster < 2:
            return contract.Decline(f"the cluster has {request.cluster} CTA, 2 are needed")
        return contract.Accept()


def test_a_predicate_sees_the_cluster_of_the_launch() -> None:
    words = NeedsCluster()
    for cluster in (None, 1):
        with pytest.raises(tc.NoVariantError) as caught:
            kernel(words, cluster=cluster)
        assert caught.value.declined["words"] == "the cluster has 1 CTA, 2 are needed"
    assert ".reqnctapercluster 2, 1, 1" in kernel(words, cluster=2).ptx
    a, tile = (contract.Buffer((32,), "uint32", space=space, name=space) for space in ("global", "shared"))
    asked: dict[str, Any] = {"scope": tc.warp(), "target": "sm_90", "registry": registry(words)}
    assert tc.plan(tile[:], a[:], **asked).request.cluster is None  # whoever launches it says the cluster
    with pytest.raises(tc.NoVariantError):
        tc.plan(tile[:], a[:], cluster=1, **asked)


def fetches_once(ptx: Any) -> None:

    def fetch(ptx: Any) -> None:
        with ptx.if_(ptx.predicate(ptx.tid < 4)):
            ptx.instr("nanosleep.u32", ptx.value(ptx.tid * 4))

    ptx.once(("test", "fetch"), fetch)


def test_what_a_kernel_has_once_stands_at_its_start() -> None:
    k = tc.KernelBuilder("k", threads=32)
    a, b, n = k.param("A", (32,), "uint32"), k.param("B", (32,), "uint32"), k.scalar("n", upper=4)
    tile = k.shared((32,), "uint32")
    for _ in k.range(n):
        k.warp.copy(tile[:], a[:])
    k.warp.copy(tile[:], a[:])
    k.store(b[k.thread_id()], k.load(tile[k.thread_id()]) + 1)
    built = k.build(target="sm_90", grid=1, registry=registry(Words(first=fetches_once)))
    lines = [line.strip() for line in built.ptx.splitlines()]
    code = [line for line in lines[lines.index("{") :] if line and line[0] not in ".{/"]
    assert code[0].endswith("%tid.x;") and sum("%tid.x" in line for line in code) == 1  # the copies have it from there
    assert sum("nanosleep" in line for line in code) == 1
    assert next(at for at, line in enumerate(code) if "nanosleep" in line) < 6
    x, y = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    built(x, y, 3, executor="emulator")
    assert (y == x + 1).all()


def test_keys_tell_apart_what_is_written_once() -> None:
    numbers = iter(range(9))
    for keys, count in (((1, 1, 1), 1), ((1, 2, 1), 2)):
        given = iter(keys)
        words = Words(
            first=lambda ptx, given=given: ptx.once(next(given), lambda ptx: ptx.raw(f"pmevent {next(numbers)};"))
        )
        assert kernel(words, times=3).ptx.count("pmevent") == count


def test_what_is_written_once_uses_what_the_whole_kernel_has() -> None:
    turns = list[Any]()
    words = Words(first=lambda ptx: ptx.once("key", lambda ptx: ptx.value(turns[0] + 1)))
    k = tc.KernelBuilder("k", threads=32)
    a, tile, n = k.param("A", (32,), "uint32"), k.shared((32,), "uint32"), k.scalar("n", upper=4)
    for turn in k.range(n):
        turns.append(turn)
        k.warp.copy(tile[:], a[:])
    with pytest.raises(tc.PtxError, match=mentions("loop0")):
        k.build(target="sm_90", grid=1, registry=registry(words))
    found = registry(Words(first=fetches_once))
    a, tile = (contract.Buffer((32,), "uint32", space=space, name=space) for space in ("global", "shared"))
    alone = tc.plan(tile[:], a[:], scope=tc.warp(), target="sm_90", registry=found)
    assert "nanosleep" in tc.ptx_text(alone, registry=found)
    with pytest.raises(tc.PtxError, match=mentions("kernel")):
        alone.cuda("f", registry=found)


HINT = contract.Option("hint", (int,), "what the cache should keep", ignorable=True)


def planned(*plugins: Words, **options: Any) -> tc.Plan:
    a, tile = (contract.Buffer((32,), "uint32", space=space, name=space) for space in ("global", "shared"))
    return tc.plan(tile[:], a[:], scope=tc.warp(), target="sm_90", registry=registry(*plugins), **options)


def test_an_ignorable_option_leaves_the_fallbacks() -> None:
    special, plain = Words("special", priority=20, options=(HINT,), features=("tcgen05",)), Words("plain")
    found = planned(special, plain, hint=3)
    assert found.variant == "plain" and plain.seen == [{}] and special.seen == []
    assert dict(found.request.options) == {} and [note.kind for note in found.notes] == ["option"]
    left_out = "option hint is ignored: plain does not take it, and the copy is correct without it"
    assert f"note: {left_out}" in found.explain() and "has no tcgen05" in found.declined["special"]
    special = Words("special", priority=20, options=(HINT,))
    found = planned(special, plain, hint=3)
    assert found.variant == "special" and special.seen == [{"hint": 3}] and dict(found.request.options) == {"hint": 3}
    assert found.notes == () and "left out" not in found.explain()
    assert planned(special, plain, hint=3, variant="plain").notes[0].text == left_out
    assert planned(special, plain).notes == ()
    built = kernel(special, plain, hint=3, variant="plain")
    assert built.plans[0].variant == "plain" and built.plans[0].notes[0].text == left_out


def test_an_option_is_ignorable_where_all_that_declare_it_say_so() -> None:
    strict = contract.Option("hint", (int,), "which line is to be kept")
    with pytest.raises(tc.NoVariantError, match=mentions("hint", "plain")):
        planned(
            Words("one", options=(HINT,), features=("sm_100",)),
            Words("other", options=(strict,), features=("sm_100",)),
            Words("plain"),
            hint=3,
        )
    with pytest.raises(tc.NoVariantError, match=mentions("hint")):
        planned(Words("one", op="copy_async", options=(HINT,)), Words("plain"), hint=3)
    with pytest.raises(tc.NoVariantError, match=mentions("x", "hint")):
        planned(Words("one", options=(HINT,)), hint="x")
    with pytest.raises(tc.PluginError, match=mentions("hint", "ignorable")):
        contract.Option("hint", (int,), "a hint", ignorable="yes")


def test_an_option_of_a_variant_that_is_not_installed_names_its_package() -> None:
    with pytest.raises(tc.NoVariantError, match=mentions("mbar", "plugins/bulk")):
        planned(Words(op="copy_async"), op="copy_async", mbar=1)


def test_variants_of_one_module_are_objects_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "acme_pair-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-pair\nVersion: 1.0\n")
    points = "\n".join(f"acme_{name} = acme_pair:Hooks.{name}" for name in ("load", "store"))
    (about / "entry_points.txt").write_text(f"[tilecopy.variants.v1]\n{points}\n")
    made = ModuleType("acme_pair")
    monkeypatch.setattr(
        made, "Hooks", SimpleNamespace(load=Words("acme_load"), store=Words("acme_store")), raising=False
    )
    monkeypatch.setitem(sys.modules, "acme_pair", made)
    monkeypatch.syspath_prepend(tmp_path)
    ready = {plugin.name: plugin.variant for plugin in tc.Registry(environ={}).plugins() if plugin.status == "ready"}
    assert ready["acme_load"] is made.Hooks.load.variant and ready["acme_store"] is made.Hooks.store.variant
