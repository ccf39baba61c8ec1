"""Starting calls of relayout for the argument fuzzing of tests/fuzz."""

import numpy as np
import tilecopy_relayout
from tilecopy_relayout.planner.plan import RelayoutPlan

MODULES = (tilecopy_relayout,)
CLASSES = (RelayoutPlan,)


def array():
    return np.arange(32, dtype=np.float32).reshape(4, 8)


def relayout_plan():
    return tilecopy_relayout.plan_relayout((4, 8), "float32", (1, 0), target="sm_90")


def starting_calls(w):
    tilecopy_relayout.relayout(array(), (1, 0), out=np.zeros((8, 4), np.float32), executor="emulator")
    tilecopy_relayout.relayout(array(), "(p q) c -> c p q", p=2)
    tilecopy_relayout.plan_relayout((4, 8), "float32", (1, 0), strides=(8, 1), out_strides=(4, 1), target="sm_90")
    tilecopy_relayout.plan_relayout((4, 8), "float32", "(p q) c -> c p q", target="sm_90", p=2)
    relayout_plan().bind("emulator", None)
    relayout_plan().bind("emulator")(array(), np.zeros((8, 4), np.float32), None)


UNCALLED = {
    "it takes no arguments": "RelayoutPlan.explain",
    "plan_relayout makes it": "RelayoutPlan",
    "every process of a group calls it: its own tests pass odd arguments": "relayout_shards",
}
