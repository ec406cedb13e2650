"""Make the builders of sweep folders importable."""

from __future__ import annotations

import sys
from pathlib import Path

for name in ("report", "frames"):
    sys.path.insert(0, str(Path(__file__).parents[1] / name))
