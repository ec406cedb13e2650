"""Ansible forks for every task, so what its plugins import must stay light."""

import subprocess
import sys

HEAVY = {"pandas", "pyarrow", "numpy", "ansible", "click", "rich", "aiohttp", "requests", "rapidfuzz", "yaml"}


def test_nothing_heavy_is_imported():
    program = "import treeline.request, treeline.keys, treeline.dialects"
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program], capture_output=True, text=True, check=True
    )
    imported = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in result.stderr.splitlines()}
    assert "treeline" in imported
    assert not HEAVY & imported
