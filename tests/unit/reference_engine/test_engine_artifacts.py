"""What the role puts on a host: wheel and model from the controller's cache."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import yaml
from treeline_reference_engine import artifacts, train

ROLE = train.REPOSITORY / "roles/reference_engine"


def test_wheel_and_model_are_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--cache", str(tmp_path), "--library-characters", "20000"]
    assert artifacts.main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["built"] == ["wheel", "model"]
    assert artifacts.source_hash() in first["version"]
    names = zipfile.ZipFile(first["wheel"]).namelist()
    # hosts have no YAML parser
    assert "treeline_reference_engine/profiles/b300-kimi-k26.json" in names
    assert "treeline_reference_engine/profiles/hardware/b300-kimi-k26.json" in names
    # the role's `creates` depends on this spelling
    assert f"treeline_reference_engine-{first['version']}.dist-info/METADATA" in names
    assert {path.name for path in Path(first["model"]).iterdir()} == {"model.npz", "config.json"}
    assert artifacts.main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == {**first, "built": []}


def test_an_old_setuptools_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(artifacts, "_OLDEST_SETUPTOOLS", 10_000)
    assert artifacts.main(["--cache", str(tmp_path), "--library-characters", "20000"]) == 1
    with pytest.raises(artifacts.BuildError, match="needs >= 10000"):
        artifacts.check_setuptools()


def test_the_roles_specification_has_its_defaults() -> None:
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    options = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"][
        "options"
    ]
    assert {name: option["default"] for name, option in options.items()} == defaults
