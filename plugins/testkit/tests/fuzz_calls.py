"""Starting calls of the conformance kit for the argument fuzzing of tests/fuzz."""

import tempfile
from pathlib import Path

import tilecopy_gmem_smem
import tilecopy_testkit as kit
from tilecopy_testkit import properties, scaffold

MODULES = (kit, scaffold)
VECTORS = Path(__file__).parents[2] / "emulator" / "tests" / "vectors_sm_90.json"
VARIANT = tilecopy_gmem_smem.variant

SPACES = (("global", "shared"),)
STARTS = (kit.AffineStart(0), kit.AffineStart(0))
SHARD = ((4, 8, "m"), (8, 1, "m"))
TILE = kit.Operand("shared", (4, 8), (4, 8), STARTS, SHARD, swizzle=(1, 1, 1))
BLOCKS = kit.AffineStart(0, (kit.AffineTerm("block", 1),))
ARRAY_LAYOUT = ((2, 40, "m"), (4, 8, "m"), (8, 1, "m"))
OPERANDS = {"dst": TILE, "src": kit.Operand("global", (2, 4, 8), (1, 4, 8), (BLOCKS, *STARTS), ARRAY_LAYOUT)}
SUITE = {"examples": 1, "spaces": SPACES}
COPY = {"op": "copy", "dtype": "float32", "scope": "warp", "threads": 32, "target": "sm_80"}


def copy():
    return kit.CopyCase(**COPY, **OPERANDS, blocks=2)


def subject():
    return kit.VariantUnderTest.of("gmem_smem")


def parts_of_subject():
    variant = subject()
    return variant.source, VARIANT, variant.case_space, variant.registry, variant.steps


def ignore(*arguments):
    return None


def VariantSuite(**attributes):
    suite = type("TestMine", (kit.VariantSuite,), attributes)
    suite().test_hooks_are_pure_and_quick_and_answer()


def starting_calls(w):
    kit.AffineTerm("block", 8, 2, 4)
    kit.AffineTerm("block", 8).at({"block": 1})
    kit.AffineStart(8, (kit.AffineTerm("block", 8),))
    kit.AffineStart(8, (kit.AffineTerm("block", 8),)).at({"block": 1})
    kit.Operand("global", (4, 8), (2, 8), STARTS, SHARD, replica=((2, 64, "m"),), offset=(("m", 8),))
    kit.Operand("global", (4, 8), (2, 8), STARTS, SHARD, swizzle=(1, 1, 1))
    TILE.box({"block": 1})
    kit.CopyCase(**COPY, **OPERANDS, blocks=2)
    kit.CopyCase.from_json(copy().to_json())
    kit.CaseSpace(VARIANT, SPACES, ("int8",), ("sm_80",), None)
    kit.CaseSpace.of(VARIANT, SPACES, ("int8",), ("sm_80",), None)
    kit.CaseSpace.of(VARIANT).have(copy())
    kit.Counterexample("a rule", "nothing", copy(), line=1, text="ret;")
    kit.Step("fence", "before", "all", lambda around: None, ("global",))
    kit.VariantUnderTest("gmem_smem", *parts_of_subject(), widths_bits=(128,), moves=ignore)
    kit.VariantUnderTest.of(
        "gmem_smem", spaces=SPACES, dtypes=("int8",), targets=("sm_80",), draws=ignore, moves=ignore
    )
    kit.recorded_vectors(VECTORS)
    kit.VariantUnderTest.of("gmem_smem").with_wrapper(object())
    kit.CaseHarness(copy(), subject(), None, (), unread=0)
    kit.CaseHarness(copy(), subject()).region("dst")
    kit.CaseHarness(copy(), subject()).request(outside=None)
    kit.arguments_of(copy(), *kit.arrays_of(copy()), None)
    kit.arrays_of(copy(), 1)
    kit.expected(copy(), kit.arrays_of(copy()))
    kit.for_all(kit.VariantUnderTest.of("gmem_smem"), properties.hooks_are_pure, 1, seeded_by=0, strategies=(), least=0)
    kit.requests("gmem_smem", spaces=SPACES, dtypes=("int8",), targets=("sm_80",))
    VariantSuite(plugin="gmem_smem", **SUITE, seed=1, dtypes=("int8",), targets=("sm_80",), strategies=())
    VariantSuite(
        plugin="gmem_smem", **SUITE, draws=ignore, widths_bits=(128,), expected_narrow={}, steps=(), options={}
    )
    scaffold.write_package(Path(tempfile.mkdtemp(dir="."), "mine"), "mine", "copy", "global", "shared")


UNCALLED = {
    "it takes no arguments": "CaseHarness.body CaseHarness.build CaseHarness.commit_tensor CaseHarness.expect_bytes CaseHarness.issue CaseHarness.issuing CaseHarness.options CaseHarness.synchronize CaseHarness.wait CopyCase.to_json CopyCase.values VariantSuite.subject",
    "the kit makes it": "Draw RecordedLaunch",
}
