"""Getting at a log: archives, streams, odd bytes, and that nothing is held whole."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from logs import ARGS, CRASH, DIED, LOADED, SERVING, STARTED, decode, entry, systemd, text
from treeline.signatures import classify_journal
from treeline.signatures.source import blocks

ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
LOG = "\n".join(
    text(
        f"systemd: {STARTED}",
        ARGS,
        *LOADED,
        *SERVING,
        *[decode(4.5)] * 5000,
        CRASH,
        ILLEGAL,
        f"systemd: {DIED[0]}",
    )
).encode()
PACKERS: list[Callable[[bytes], bytes]] = [gzip.compress, zstandard.compress, lzma.compress, bz2.compress]


@pytest.mark.parametrize("pack", PACKERS, ids=["gzip", "zstd", "xz", "bzip2"])
def test_archives(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack(LOG))
    assert b"".join(blocks(path)) == LOG
    assert b"".join(blocks(io.BytesIO(pack(LOG)))) == LOG
    path.write_bytes(pack(LOG[:70_000]) + pack(LOG[70_000:]))
    assert b"".join(blocks(path)) == LOG
    cut = pack(LOG)[:-9]
    path.write_bytes(cut)
    assert LOG.startswith(b"".join(blocks(path)))
    path.write_bytes(pack(b""))
    assert b"".join(blocks(path)) == b""


@pytest.mark.parametrize("pack", PACKERS, ids=["gzip", "zstd", "xz", "bzip2"])
def test_blocks_are_whole_lines_and_small(pack: Callable[[bytes], bytes]) -> None:
    for block in list(blocks(io.BytesIO(pack(LOG))))[:-1]:
        assert block.endswith(b"\n")
        assert len(block) < 1 << 20


def test_a_line_without_an_end_is_cut() -> None:
    sizes = [len(block) for block in blocks(io.BytesIO(b"x" * (20 << 20)))]
    assert sum(sizes) == 20 << 20
    assert max(sizes) < 5 << 20


def test_a_stream_is_read_once_and_line_by_line_sources_too() -> None:
    verdict = classify_journal(io.BytesIO(LOG), alive=None)
    assert (verdict.class_, verdict.rank, verdict.phase) == ("illegal_address", 0, "serving")
    assert classify_journal(iter(LOG.split(b"\n")), alive=None) == verdict


def test_colours_and_marks_of_byte_order_are_taken_out() -> None:
    assert b"".join(blocks([b"\xef\xbb\xbfa\x1b[1;31mb\x1b]0;title\x07c"])) == b"abc"
    escaped = entry(f"\x1b[31m{ILLEGAL.replace('illegal', 'ille' + chr(27) + '[0mgal')}")
    assert r"\u001b" in escaped
    assert classify_journal([escaped], alive=False).class_ == "illegal_address"


def test_half_a_character_is_no_error() -> None:
    assert classify_journal(["\ud83d CUDA error: misaligned address"], alive=False).class_ == "misaligned"
    assert b"".join(blocks(["\udcff"])) == b"\xff"


def test_text_that_is_not_utf8_in_json() -> None:
    raw = entry("CUDA error: misaligned address @@").encode().replace(b"@@", b"\xff\xfe")
    assert classify_journal([raw], alive=False).class_ == "misaligned"


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """Peak memory for a log of 4 MB and for one of 40 MB: the difference is far less than the logs'."""
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from treeline.signatures import classify_journal\n"
        "verdict = classify_journal(Path(sys.argv[1]), alive=None)\n"
        "print(verdict.class_, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    peaks = []
    for times in (3, 30):
        path = tmp_path / "log"
        with path.open("wb") as file:
            for block in _long(times):
                file.write(block)
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
        class_, peak = done.stdout.split()
        assert class_ == "illegal_address"
        peaks.append(int(peak) * 1024)
    assert peaks[1] - peaks[0] < 12 << 20


def _long(times: int) -> Iterator[bytes]:
    head, _, tail = LOG.partition(CRASH.encode())
    storm = "\n".join(
        text(*["ValueError: the prompt is too long", "KV cache pool is full. Retract requests."] * 500)
    )
    yield head
    for _ in range(times):
        yield b"\n" + "\n".join(text(*[decode(4.5)] * 4000)).encode() + b"\n" + storm.encode() + b"\n"
    yield "\n".join(text(CRASH, ILLEGAL)).encode() + tail[tail.index(b"\n") :]


def test_an_old_storm_of_errors_does_not_hide_the_last_one() -> None:
    storm = ["KeyError: 'x'", decode(4.5)] * 3000
    lines = text(
        f"systemd: {STARTED}", ARGS, *LOADED, *SERVING, *storm, CRASH, "IndexError: y", f"systemd: {DIED[0]}"
    )
    verdict = classify_journal(lines, alive=None)
    assert (verdict.class_, verdict.first_error, verdict.rank) == ("unknown", "IndexError: y", 0)
    again = [*lines[:-3], *text(CRASH, ILLEGAL, f"systemd: {DIED[0]}")]
    oom = text(
        "torch.OutOfMemoryError: CUDA out of memory.", decode(4.5), decode(4.5), decode(4.5), decode(4.5)
    )
    survived = classify_journal([*again[:10], *oom, *again[10:]], alive=None)
    assert (survived.class_, survived.secondary) == ("illegal_address", ("torch_oom",))


def test_a_message_cut_over_many_blocks_is_joined() -> None:
    message = "x" * 2000 + " CUDA error: an illegal memory access was encountered"
    pieces = [message[:1500], message[1500:2030], message[2030:]]
    busy = [entry(decode(4.5), pid=4712)] * 1500
    lines = [systemd(STARTED), entry(ARGS)]
    for piece in pieces[:-1]:
        lines += [entry(piece, _LINE_BREAK="line-max"), *busy]
    lines += [entry(pieces[-1]), systemd(DIED[0])]
    verdict = classify_journal(lines, alive=False)
    assert (verdict.class_, verdict.first_error_line_no) == ("illegal_address", 3)
