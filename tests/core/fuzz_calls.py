"""Starting calls of the core for the argument fuzzing of tests/fuzz."""

from tilecopy_test_helpers.fuzz_objects import ARITHMETIC, SPACES, TARGET

import tilecopy_core as tc
from tilecopy_core import S, TileLayout, plugin, registry

MODULES = (tc, registry)
OPERATIONS = {
    "Expr": (lambda w: w.n, f"{ARITHMETIC} b^a"),
    "Axis": (lambda w: tc.laneid, "b@a"),
    "TileLayout": (lambda w: w.layout, "a+b b+a"),
    "Buffer": (lambda w: w.a, "a[b]"),
    "S": (lambda w: S, "a[b] a[8:b] a[8:8:b]"),
    "R": (lambda w: tc.R, "a[b] a[8:b] a[8:8:b]"),
}

COPY = {"op": "copy", "scope": tc.cta(64), "target": "sm_90"}
ALONE = {"op": "copy_async", "scope": tc.thread(), "target": "sm_90"}
PROBE = {"name": "probe", "op": "copy", "priority": 1, "summary": "does", "spaces": SPACES}


def with_plugin():
    plugins = tc.Registry([], {})
    plugins.register(object(), name="mine")
    return plugins


def starting_calls(w):
    tc.Accept(priority=5)
    tc.ActiveThreads(32, (True,) * 32, "", (("n", w.n),))
    tc.Axis("mine", "memory", "thread", "cta")
    tc.Buffer((8, 8), "float16", space="global", layout=w.layout, align_bytes=16, storage_offset=8, memory=w.a.memory)
    w.a.permute(1, 0)
    w.s.view(shape=(32, 64), layout=TileLayout(S[32, 64]), dtype="float32")
    tc.CopyRequest(**COPY, dst=w.s[:, :], src=w.a[:, :], active=tc.ActiveThreads(64), options={"mbar": w.mbar})
    tc.DType("float16", 16, "f", False)
    tc.Decline("too wide")
    tc.Expr(0, w.n.terms)
    plugin.Iter(8, w.n, tc.m)
    tc.maximum(w.n, w.m)
    tc.minimum(w.n, w.m)
    tc.NoVariantError("none", {"reg": "not global"})
    w.plan.cuda("load_tile", tc.default_registry())
    tc.Region(w.s, (0, w.n), (8, 8), ((True, True), (False, False)))
    tc.Registry([], {}, priorities={"tma": 40})
    tc.priorities({"tma": 40})
    tc.Registry([], {}).register(object(), name="mine", package="p", version="1")
    with_plugin().unregister("mine")
    tc.Scope("cta", 64)
    tc.Swizzle(3, 3, 3)
    tc.Swizzle(3, 3, 3).apply(w.n)
    tc.SwizzledLayout(tc.Swizzle(3, 3, 3), w.layout)
    tc.Target(90, "a")
    TileLayout(w.layout)
    w.layout.apply(1, 2, shape=(8, 8))
    w.layout.group((8, 8))
    w.layout.permute((1, 0))
    w.layout.places(1, 2, shape=(8, 8))
    w.layout.slice((8, 8), (slice(0, 4), (0, 2)))
    w.layout.span(tc.m)
    w.layout.tile_to((16, 16), (8, 8))
    tc.Variant(**PROBE, features=("tma",), options=(w.option,), completion="mine", completion_steps=("wait",))
    tc.cta(64)
    tc.dtype_of("float16")
    tc.plan(w.words[0:4], w.words[4:8], **ALONE, mbar=w.mbar[0], remote_cta_id=1)
    tc.plan(w.s[:, :], w.a[:, :], scope=tc.cta(64), target=TARGET, active=tc.ActiveThreads(64), cluster=1)
    tc.swizzle("128B", "float16")
    tc.symbol("s", lower=0, upper=8, multiple_of=2, varies="grid")
    tc.target_of("sm_90")
    plugin.Option("size", (int,), "how many", False, 3, True)
    w.option.fits(3)
    plugin.structural_equal(w.n, 3)


UNCALLED = {
    "it takes no arguments": "ActiveThreads.count Buffer.placed_by DType.numpy Plan.explain Region.check_inside Region.sliced_layout Registry.plugins Registry.refresh TileLayout.canonicalize Variant.why_unusable default_registry thread warp warpgroup",
    "the core makes it": "Installed Plan Plugin Source",
    "dispatch calls it": "Registry.advise Registry.call Registry.last_table Registry.priority_of Registry.report_fault Registry.table",
    "an error or a warning": "PluginWarning WrapperError",
    "a protocol": "VariantPlugin",
    "pluggy's": "hookimpl",
    "for packages that are released with the core": "KnownVariant by_name canonical distributions exporter installed_sources known_variants load_unique lazy_attributes short_error warn_outside",
    "for authors of variants, whose arguments types hold": "ActiveThreads.why_not_all ActiveThreads.why_split CopyRequest.side_in Plan.emit Region.exceeds Region.room Scope.thread_index Target.has Target.is_or_follows Target.runs_on TileLayout.along TileLayout.box TileLayout.by_dimension TileLayout.check_admits TileLayout.of TileLayout.offset_on TileLayout.reach TileLayout.reorder TileLayout.with_iters Variant.option Variant.why_not_on",
}
