"""Archives from other machines: plain files within bounds, secrets hidden, damage survived."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from treeline import evidence, requests_table


def archive(path: Path, **files: bytes) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name.replace("__", "."))
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def special(path: Path, **fields: object) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        entry = tarfile.TarInfo("show.txt")
        for name, value in fields.items():
            setattr(entry, name, value)
        tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    return path


def test_files_arrive_as_they_were(tmp_path: Path) -> None:
    journal = b'{"MESSAGE": "hello"}\n' * 3
    packed = archive(tmp_path / "a.tar.gz", journal__jsonl__gz=gzip.compress(journal), show__txt=b"Id=x\n")
    folder = tmp_path / "evidence" / "s-0001"
    unpacked = evidence.unpack(packed, folder)
    assert unpacked == evidence.Unpacked(("journal.jsonl.gz", "show.txt"))
    assert gzip.decompress((folder / "journal.jsonl.gz").read_bytes()) == journal
    assert (folder / "show.txt").read_bytes() == b"Id=x\n"
    assert [entry.name for entry in folder.parent.iterdir()] == ["s-0001"]


@pytest.mark.parametrize(
    "line",
    [
        b"server_args=ServerArgs(api_key='sk-very-private', tp=8)",
        b'{"MESSAGE": "api_key=\'sk-very-private\'"}',
        b'{"api_key": "sk-very-private"}',
        b'{"MESSAGE": "{\\"admin_api_key\\": \\"sk-very-private\\"}"}',
        b'HF_TOKEN="sk-very-private"',
        b"token='sk-very-private', passwd=sk-very-private, x --api-key sk-very-private --port 1",
        b"OPENAI_API_KEY=sk-very-private",
    ],
)
def test_secrets_are_hidden_and_the_rest_stays(tmp_path: Path, line: bytes) -> None:
    packed = archive(tmp_path / "a.tar.gz", journal__jsonl__gz=gzip.compress(line + b"\n"), show__txt=line)
    evidence.unpack(packed, tmp_path / "e")
    for text in (
        gzip.decompress((tmp_path / "e/journal.jsonl.gz").read_bytes()),
        (tmp_path / "e/show.txt").read_bytes(),
    ):
        assert b"very-private" not in text
        assert text.strip() == line.replace(b"sk-very-private", b"***")


def test_secrets_are_hidden_in_messages_that_are_byte_arrays(tmp_path: Path) -> None:
    said = "\x1b[32mapi_key='{}'\x1b[0m, tp=8"
    line = '{"_PID":"1","MESSAGE":%s,"_COMM":"x"}\n'
    numbers = [",".join(map(str, said.format(value).encode())) for value in ("private", "***")]
    given, kept = (line % f"[{text}]" for text in numbers)
    packed = archive(tmp_path / "a.tar.gz", journal__jsonl__gz=gzip.compress(given.encode() * 2))
    evidence.unpack(packed, tmp_path / "e")
    assert gzip.decompress((tmp_path / "e/journal.jsonl.gz").read_bytes()) == kept.encode() * 2


def test_what_only_looks_like_a_secret_stays(tmp_path: Path) -> None:
    line = b"max_tokens: '128', api_key=None, tokenizer='x', \"completion_tokens\": \"5\""
    evidence.unpack(archive(tmp_path / "a.tar.gz", show__txt=line), tmp_path / "e")
    assert (tmp_path / "e/show.txt").read_bytes() == line


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "..", "-x", ".hidden"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    packed = special(tmp_path / "a.tar.gz", name=name)
    with pytest.raises(evidence.EvidenceError, match="plain"):
        evidence.unpack(packed, tmp_path / "e")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.tar.gz"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    packed = special(tmp_path / "a.tar.gz", type=kind, linkname="/etc/passwd")
    with pytest.raises(evidence.EvidenceError, match="plain file"):
        evidence.unpack(packed, tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_bounds(tmp_path: Path) -> None:
    small = evidence.Bounds(files=2, bytes=1000)
    many = archive(tmp_path / "many.tar.gz", a=b"1", b=b"2", c=b"3")
    with pytest.raises(evidence.EvidenceError, match="more than 2 files"):
        evidence.unpack(many, tmp_path / "e", small)
    bomb = archive(tmp_path / "bomb.tar.gz", journal__jsonl__gz=gzip.compress(b"\0" * 5_000_000))
    with pytest.raises(evidence.EvidenceError, match="larger than the 1000 bytes"):
        evidence.unpack(bomb, tmp_path / "e", small)
    assert not (tmp_path / "e").exists()


def test_damage(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(b'{"n": %d}\n' % n for n in range(20000)))
    cut = archive(tmp_path / "cut.tar.gz", journal__jsonl__gz=whole[: len(whole) // 2], show__txt=b"x")
    unpacked = evidence.unpack(cut, tmp_path / "e")
    assert unpacked.cut == ("journal.jsonl.gz",)
    assert gzip.decompress((tmp_path / "e/journal.jsonl.gz").read_bytes()).startswith(b'{"n": 0}\n{"n": 1}\n')
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(cut.read_bytes()[:100])
    with pytest.raises(evidence.EvidenceError, match="damaged"):
        evidence.unpack(broken, tmp_path / "f")
    with pytest.raises(evidence.EvidenceError, match="not fetched"):
        evidence.unpack(tmp_path / "none.tar.gz", tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_what_stood_there_is_kept(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        evidence.unpack(archive(tmp_path / "a.tar.gz", show__txt=b"%d" % number), tmp_path / "e")
    assert (tmp_path / "e/show.txt").read_bytes() == b"3"
    assert [(tmp_path / f"e.old-{n}/show.txt").read_bytes() for n in (1, 2)] == [b"1", b"2"]


def test_requests_become_a_table(tmp_path: Path) -> None:
    lines = (
        b'{"index": 0, "first": 1, "error": null}\n{"index": 1, "first": 1.5, "error": "reset", "new": [1]}\n'
    )
    source = tmp_path / "requests.ndjson.gz"
    source.write_bytes(gzip.compress(lines) + gzip.compress(b'{"index": 2}\n') + b"\x1f\x8b\x08cut")
    target = tmp_path / "requests" / "s-0001.parquet"
    assert requests_table.write(source, target, "s-0001") == 3
    rows = pq.read_table(target).to_pylist()
    assert [row["first"] for row in rows] == [1.0, 1.5, None]
    assert {row["trial_id"] for row in rows} == {"s-0001"}
    assert rows[1]["error"] == "reset"
    assert [entry.name for entry in target.parent.iterdir()] == ["s-0001.parquet"]
    source.write_bytes(b"")
    assert requests_table.write(source, tmp_path / "none.parquet", "s-0002") == 0
    assert not (tmp_path / "none.parquet").exists()
