"""Atomic files and bounded locks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from treeline_target import files


def test_write_replaces_whole_files_with_the_mode_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "state.json"
    files.write_json(target, {"a": 1})
    target.chmod(0o644)
    files.write_json(target, {"a": 2})
    assert files.read_json(target) == {"a": 2}
    assert target.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in target.parent.iterdir()] == ["state.json"]


def test_a_failed_write_leaves_the_old_content_and_no_litter(tmp_path: Path) -> None:
    target = tmp_path / "state"
    files.write_atomic(target, "old")
    with pytest.raises(UnicodeEncodeError):
        files.write_atomic(target, "new \udc80")
    assert target.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_bytes_are_written_as_they_are_with_their_owner(tmp_path: Path) -> None:
    target = tmp_path / "unit"
    files.write_atomic(target, b"\xff\r\n\0", 0o640, (os.getuid(), os.getgid()))
    assert target.read_bytes() == b"\xff\r\n\0"
    assert target.stat().st_mode & 0o7777 == 0o640
    if os.getuid() == 0:
        files.write_atomic(target, b"x", 0o4750, (4321, 1234))
        stat = target.stat()
        assert (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777) == (4321, 1234, 0o4750)


def test_problems_name_the_file(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"a": ')
    with pytest.raises(files.StateFileError, match=r"broken\.json does not hold JSON"):
        files.read_json(broken)
    broken.write_text("[]")
    with pytest.raises(files.StateFileError, match="does not hold a JSON object"):
        files.read_json(broken)
    (tmp_path / "folder").mkdir()
    with pytest.raises(files.StateFileError, match=r"cannot write .*folder"):
        files.write_atomic(tmp_path / "folder", "x")
    assert files.read_json(tmp_path / "absent") is None


def test_remove_says_whether_there_was_anything(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.touch()
    assert files.remove(target)
    assert not files.remove(target)


def test_a_private_umask_leaves_folders_open_and_files_closed(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files.write_json(tmp_path / "run" / "deep" / "found.json", {})
        with files.locked(tmp_path / "state" / "lock", 1):
            pass
        files.make_folder(tmp_path / "run" / "evidence" / "one", 0o700)
    finally:
        os.umask(before)
    modes = {
        str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in sorted(tmp_path.rglob("*"))
    }
    assert modes == {
        "run": 0o755,
        "run/deep": 0o755,
        "run/deep/found.json": 0o600,
        "run/evidence": 0o755,
        "run/evidence/one": 0o700,
        "state": 0o755,
        "state/lock": 0o600,
    }


def test_a_lock_is_bounded_and_freed_by_death(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = (
        "import sys, time; from pathlib import Path; from treeline_target import files\n"
        "with files.locked(Path(sys.argv[1]), 1): print('held', flush=True); time.sleep(60)"
    )
    package = str(Path(files.__file__).parents[1])
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(lock)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": package},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    started = time.monotonic()
    with (
        pytest.raises(files.StateFileError, match=r"held by another process for more than 0\.2 s"),
        files.locked(lock, 0.2),
    ):
        pytest.fail("the lock was taken twice")
    assert time.monotonic() - started < 5
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with files.locked(lock, 5):
        pass
