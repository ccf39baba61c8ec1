"""Print every mutated text that ptxas rejects and the emulator accepts: ``python tests/tools/mutated_texts.py [COUNT [SEED]]``.

Known differences are left out: see :data:`tilecopy_test_helpers.mutated_texts.LISTED`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tilecopy_test_helpers.mutated_texts import differences

ROOT = Path(__file__).parents[2]
EMULATOR = ROOT / "plugins" / "emulator" / "tests"
FOLDERS = (EMULATOR / "cuda", EMULATOR / "triton", ROOT / "tests" / "golden")

if __name__ == "__main__":
    count, seed = (int(word) for word in (sys.argv[1:] + ["2000", "1"][len(sys.argv) - 1 :]))
    different = differences(seed, count, FOLDERS)
    print(*different, f"{count} mutated texts of seed {seed}: ptxas alone refuses {len(different)}", sep="\n")
    sys.exit(bool(different))
