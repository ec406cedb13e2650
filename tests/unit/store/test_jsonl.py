"""The file itself: torn tails, several writers, full disks, kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from treeline import jsonl
from treeline.store import locked

WRITER = """
import sys
from pathlib import Path
from treeline import jsonl
from treeline.store import locked
path = Path(sys.argv[1])
for number in range(int(sys.argv[3])):
    with locked(path.parent):
        line = b'{"writer": "%s", "n": %d, "pad": "%s"}' % (sys.argv[2].encode(), number, b"x" * 300)
        jsonl.append(path, line)
"""


def lines_of(path: Path) -> list[bytes]:
    return list(jsonl.read(path).lines)


def test_a_missing_file_holds_nothing(tmp_path: Path) -> None:
    assert jsonl.read(tmp_path / "none.jsonl") == jsonl.Lines(())


@settings(max_examples=60, deadline=None)
@given(
    records=st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), max_size=6),
    cut=st.floats(0, 1),
)
def test_any_cut_loses_at_most_the_last_line(
    tmp_path_factory: pytest.TempPathFactory, records: list, cut: float
) -> None:
    path = tmp_path_factory.mktemp("cut") / "trials.jsonl"
    written = [json.dumps(record).encode() for record in records]
    for line in written:
        jsonl.append(path, line)
    whole = path.read_bytes() if path.exists() else b""
    kept = int(len(whole) * cut)
    path.write_bytes(whole[:kept])

    complete = whole[:kept].count(b"\n")
    assert lines_of(path) == written[:complete]
    torn = jsonl.read(path).torn_bytes
    moved = jsonl.append(path, b'{"after": 1}')
    assert lines_of(path) == [*written[:complete], b'{"after": 1}']
    assert (moved is not None) == (torn > 0)
    if moved is not None:
        assert moved.name == "trials.jsonl.torn-1"
        assert moved.read_bytes() == whole[kept - torn : kept]


def test_every_torn_tail_gets_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    for number in (1, 2):
        jsonl.append(path, b'{"n": 1}')
        with path.open("ab") as stream:
            stream.write(b'{"half')
        assert jsonl.append(path, b"{}") == tmp_path / f"trials.jsonl.torn-{number}"
    assert len(lines_of(path)) == 4


@pytest.mark.parametrize("garbage", [b"\0" * 5000, b'{"a": 1', b"\0\0\0\n", b'{"a": tru\n', b"\n"])
def test_garbage_at_the_end_is_torn(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "trials.jsonl"
    jsonl.append(path, b'{"n": 1}')
    with path.open("ab") as stream:
        stream.write(garbage)
    assert jsonl.read(path) == jsonl.Lines((b'{"n": 1}',), len(garbage))
    jsonl.append(path, b'{"n": 2}')
    assert lines_of(path) == [b'{"n": 1}', b'{"n": 2}']


def test_damage_in_the_middle_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": \n{"n": 3}\n')
    with pytest.raises(jsonl.StoreError, match="line 2 is damaged"):
        jsonl.read(path)


def test_a_long_line_is_found_across_blocks(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    long_line = json.dumps({"text": "x" * 300_000}).encode()
    jsonl.append(path, b'{"n": 1}')
    jsonl.append(path, long_line)
    with path.open("ab") as stream:
        stream.write(b"x" * 200_000)
    assert jsonl.append(path, b'{"n": 3}') is not None
    assert lines_of(path) == [b'{"n": 1}', long_line, b'{"n": 3}']


def test_a_full_disk_is_one_clear_error_and_damages_nothing(tmp_path: Path) -> None:
    """A file size limit of the kernel cuts the write short, as a full disk does."""
    path = tmp_path / "trials.jsonl"
    jsonl.append(path, b'{"n": 1}')
    before = path.read_bytes()
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from treeline import jsonl\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 10}, {len(before) + 10}))\n"
        "try:\n"
        "    jsonl.append(Path(sys.argv[1]), b'{\"text\": \"%s\"}' % (b'x' * 100))\n"
        "except jsonl.StoreError as error:\n"
        "    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "cannot be written: the disk is full" in said.stdout
    assert "intact" in said.stdout
    assert path.read_bytes() == before
    jsonl.append(path, b'{"n": 2}')
    assert lines_of(path) == [b'{"n": 1}', b'{"n": 2}']


def test_several_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name, "15"]) for name in "abcd"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0, 0]
    got = [json.loads(line) for line in lines_of(path)]
    for name in "abcd":
        assert [line["n"] for line in got if line["writer"] == name] == list(range(15))


def test_a_killed_writer_loses_at_most_the_line_it_was_writing(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    for round_ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), f"w{round_}", "100000"])
        deadline = time.monotonic() + 30
        while not (path.exists() and f'"w{round_}"'.encode() in path.read_bytes()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.05)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait(timeout=10)
        # The kernel has freed the lock of the dead writer.
        with locked(tmp_path, timeout_s=5):
            jsonl.append(path, b'{"writer": "after", "n": %d}' % round_)
    got = [json.loads(line) for line in lines_of(path)]
    for round_ in range(3):
        numbers = [line["n"] for line in got if line["writer"] == f"w{round_}"]
        assert numbers == list(range(len(numbers)))
        assert numbers
    assert [line["n"] for line in got if line["writer"] == "after"] == [0, 1, 2]


def test_a_line_holds_no_newline(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no newline"):
        jsonl.append(tmp_path / "trials.jsonl", b'{"a":\n1}')


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    jsonl.write_atomic(path, b"one")
    jsonl.write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    with pytest.raises(jsonl.StoreError, match="cannot be written"):
        jsonl.write_atomic(tmp_path / "none" / "sweep.json", b"x")
    assert [entry.name for entry in tmp_path.iterdir()] == ["sweep.json"]
