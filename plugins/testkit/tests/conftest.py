"""The designs and faults of this folder can be imported, by other processes too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
