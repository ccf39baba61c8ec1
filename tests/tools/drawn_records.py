"""Check that loading or launching a record with wrong content and a valid digest works or raises an error of tilecopy.

``python tests/tools/drawn_records.py COUNT [SEED]`` draws COUNT records and prints each that raises another exception.
"""

from __future__ import annotations

import sys

from tilecopy_test_helpers.drawn_records import RECORDED, raw_exceptions

if __name__ == "__main__":
    ends, raw = raw_exceptions(RECORDED, int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(dict(ends), len(raw), "raw", *raw, sep="\n")
    raise SystemExit(bool(raw))
