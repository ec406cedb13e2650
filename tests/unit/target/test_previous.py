"""The way back of a rollout on a host: files as they were, and a service that must stop."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from treeline_target import bringup, previous
from treeline_target.files import Paths, write_json

UNIT = "treeline-test-none.service"
ROLLOUT = "20260101T000000Z-1a2b3c4d"
BOUNDS = bringup.Bounds(stop=0.1, kill=0.1)
# Stands in for systemd: the unit runs until it is killed, or for ever.
SYSTEMCTL = """#!/bin/sh
echo "$*" >> {log}
case "$*" in
  *kill*) [ {mortal} = yes ] && touch {dead} ;;
  *ActiveState*) [ -e {dead} ] && echo ActiveState=failed || echo ActiveState=active ;;
  *UnitFileState*) echo UnitFileState=disabled ;;
esac
exit 0
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(state=tmp_path / "state", run=tmp_path / "run")


def systemctl(folder: Path, monkeypatch: pytest.MonkeyPatch, mortal: bool) -> Path:
    """Put the stand-in first on the path; its log holds what was asked."""
    tools = folder / "bin"
    tools.mkdir()
    log = folder / "asked"
    script = SYSTEMCTL.format(log=log, dead=folder / "dead", mortal="yes" if mortal else "no")
    (tools / "systemctl").write_text(script)
    (tools / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return log


def keep(paths: Paths, files: dict[str, Any]) -> None:
    """What was kept of a service that did not run before the rollout."""
    entry = {"unit": UNIT, "running": False, "enabled": "disabled"}
    kept = {"schema_version": previous.SCHEMA_VERSION, "unit": UNIT, "entry": entry, "files": files}
    write_json(previous.folder(paths) / ROLLOUT / "kept.json", kept)


def copy(data: bytes, mode: int) -> dict[str, Any]:
    return {
        "data": base64.b64encode(data).decode(),
        "mode": mode,
        "uid": os.getuid(),
        "gid": os.getgid(),
    }


def test_files_come_back_and_what_was_not_there_goes(
    tmp_path: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = systemctl(tmp_path, monkeypatch, mortal=True)
    there, gone = tmp_path / "etc" / "env", tmp_path / "etc" / "unit"
    gone.parent.mkdir()
    there.write_text("the rollout's")
    gone.write_text("the rollout's")
    keep(paths, {str(there): copy(b"KEY=\xff\n", 0o640), str(gone): None})
    done = previous.restore(ROLLOUT, 1, paths=paths, bounds=BOUNDS)
    assert (done["restored"], done["changed"], done["running"]) == (True, True, False)
    assert done["files"] == [str(there), str(gone)]
    assert (there.read_bytes(), there.stat().st_mode & 0o7777) == (b"KEY=\xff\n", 0o640)
    assert list(there.parent.iterdir()) == [there]
    assert "daemon-reload" in log.read_text()
    assert previous.restore(ROLLOUT, 1, paths=paths, bounds=BOUNDS)["changed"] is False


def test_what_is_deployed_after_a_way_back_is_what_the_next_try_goes_back_to(
    tmp_path: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl(tmp_path, monkeypatch, mortal=True)
    env = tmp_path / "env"
    env.write_text("the rollout's")
    keep(paths, {str(env): copy(b"first", 0o640)})
    _, again = previous.keep(ROLLOUT, UNIT, [str(env)], paths=paths)
    assert not again  # the rollout's own change is nothing to go back to
    previous.restore(ROLLOUT, 1, paths=paths, bounds=BOUNDS)
    env.write_text("deployed since")
    kept, now = previous.keep(ROLLOUT, UNIT, [str(env)], paths=paths)
    assert now
    assert kept["files"][str(env)] == copy(b"deployed since", 0o640)


def test_a_service_that_did_not_run_before_and_does_not_stop_is_not_put_back(
    tmp_path: Path, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = systemctl(tmp_path, monkeypatch, mortal=False)
    keep(paths, {})
    with pytest.raises(previous.PreviousError, match=rf"{UNIT} does not stop, even when killed"):
        previous.restore(ROLLOUT, 1, paths=paths, bounds=BOUNDS)
    assert "--signal=KILL" in log.read_text()
