"""Flags from a file, as SGLang's --config takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from treeline_reference_engine.config_file import ConfigFileError, merged


def test_settings_of_the_file_come_first(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("api-key: secret  # of the vault\nenable_metrics: true\ndisable-cuda-graph: false\n")
    line = ["--port", "1", "--config", str(path), "--api-key", "mine"]
    assert merged(line) == ["--api-key", "secret", "--enable-metrics", "--port", "1", "--api-key", "mine"]
    assert merged([f"--config={path}"]) == ["--api-key", "secret", "--enable-metrics"]
    assert merged(["--port", "1"]) == ["--port", "1"]


@pytest.mark.parametrize(
    ("content", "said"), [("a:\n  - 1\n", "line 2"), ("just words\n", "line 1"), (None, "No such file")]
)
def test_what_cannot_be_read_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigFileError, match=said):
        merged(["--config", str(path)])
    with pytest.raises(ConfigFileError, match="expected one argument"):
        merged(["--config"])
