"""Evidence is fetched and then forgotten: it lies in memory on a production host."""

from __future__ import annotations

from pathlib import Path

from treeline_target.files import Paths, forget_evidence


def test_only_the_trial_at_hand_keeps_its_folder(tmp_path: Path) -> None:
    paths = Paths(run=tmp_path)
    for name in ("one", "two"):
        (paths.evidence / name).mkdir(parents=True)
        (paths.evidence / name / "evidence.tar.gz").write_bytes(b"x")
    forget_evidence(paths, but="two")
    assert [folder.name for folder in paths.evidence.iterdir()] == ["two"]
    forget_evidence(paths)
    assert not list(paths.evidence.iterdir())


def test_nothing_there_is_nothing_to_do(tmp_path: Path) -> None:
    forget_evidence(Paths(run=tmp_path / "absent"))
