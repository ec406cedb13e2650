"""The restore program that is left on a host runs by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from treeline_target import install, restore
from treeline_target.files import Paths


def test_the_installed_program_runs_from_its_folder_alone(tmp_path: Path) -> None:
    paths = Paths(state=tmp_path)
    assert install.install(paths)
    assert not install.install(paths)
    program = tmp_path / "lib" / "treeline_target"
    assert (program / "__init__.py").exists()
    # Neither this repository nor site packages are on the path of the installed one.
    code = "import treeline_target.restore as r, sys; print(r.__file__, 'site' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-S", "-s", "-c", code],
        env={"PYTHONPATH": str(paths.library)},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == [str(program / "restore.py"), "False"]


def test_a_changed_file_is_written_again(tmp_path: Path) -> None:
    paths = Paths(state=tmp_path)
    install.install(paths)
    file = tmp_path / "lib" / "treeline_target" / "restore.py"
    file.write_text("raise SystemExit(3)\n")
    assert install.install(paths)
    assert file.read_text() == Path(restore.__file__).read_text()


def test_arguments_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert restore.main(["--check"]) == 0
    with pytest.raises(SystemExit) as caught:
        restore.main(["--by", "nobody"])
    assert caught.value.code == 2
    assert capsys.readouterr().out == ""


def test_bounds_add_up() -> None:
    assert restore.total_bound(1800) > 1800
    assert json.loads(json.dumps(restore.total_bound(30))) > 30
