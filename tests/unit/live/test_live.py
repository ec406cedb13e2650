"""The live view: what it says of a sweep folder, that it never wraps, and plain lines without a terminal."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from field_sweep import bad, field_notes, frontier
from rich.console import Console
from sweeps import ALIVE, SweepFolder, item
from treeline.cli import main
from treeline.keys import Known
from treeline.live.playbook import Heard
from treeline.live.state import look
from treeline.live.steps import STEPS, Step, Steps, leave_steps
from treeline.live.view import lines
from treeline.live.watch import host_options, run_sweep, watch
from treeline.plan.story import LEGEND
from treeline.records import Provenance, Run, utc_now


def running(path: Path) -> SweepFolder:
    """Return a sweep with a good and a bad trial, one under way, and one to come."""
    plan = [item(8), item(16, 128), item(32), item(64)]
    folder = SweepFolder(path, *plan, runs=[Run(controller=ALIVE, started_at=utc_now())])
    folder.run(plan[0], class_="ok", phase="serving", al=4.5, throughput={"1": 300.0})
    folder.run(plan[1], **bad("cublas_execution_failed", first_error="x" * 400))
    folder.start(plan[2], controller=ALIVE)
    return folder


def close(folder: SweepFolder) -> None:
    sweep = folder.store.read_sweep()
    sweep.runs[-1] = msgspec.structs.replace(
        sweep.runs[-1], ended_at=utc_now(), outcome="complete", reason="every item is settled"
    )
    with folder.store.lock():
        folder.store.write_sweep(sweep)


def plain(width: int, folder: Path, steps: dict[str, Step] | None = None, height: int = 40) -> list[str]:
    return [line.plain for line in lines(look(folder, steps), width, height, "a note")]


def test_it_tells_what_is_done_what_runs_and_what_is_left(tmp_path: Path) -> None:
    folder = running(tmp_path / "s").folder
    said = plain(120, folder, {"lab1": Step("Wait until it is ready", utc_now())})
    text = "\n".join(said)
    assert "2 done, 2 left" in text
    assert "about 1m25s left" in text
    assert "> [lab1] b32 k8 m64 graphs on explore" in text
    assert "Wait until it is ready (0s)" in text
    assert "crash cublas_execution_failed in graph_capture" in text
    assert said[-1] == "a note"


def test_the_map_shows_measured_and_implied_cells(tmp_path: Path) -> None:
    text = "\n".join(plain(100, frontier(tmp_path / "f").folder))
    rows = [line for line in text.splitlines() if line[:7].strip() in ("8", "16", "32", "64")]
    assert len(rows) == 4
    symbols = "".join(rows)
    assert {"G", "B", "g", "b"} >= set(symbols) - set("0123456789 ") >= {"G", "B"}
    assert "g" in symbols or "b" in symbols
    assert "none left" in text
    # The legend is whole, however narrow the terminal.
    narrow = " ".join(line.strip() for line in plain(60, tmp_path / "f"))
    assert LEGEND in narrow


def test_what_is_known_is_not_left_and_a_refused_host_owes_nothing(tmp_path: Path) -> None:
    folder = running(tmp_path / "s")
    sweep = folder.store.read_sweep()
    cell = next(key for key in sweep.plan.restart_keys() if key.budget == 64)
    sweep.known = {"8x B300": Known(bad={cell.slug: "crash"})}
    sweep.provenance["lab2"] = Provenance()
    with folder.store.lock():
        folder.store.write_sweep(sweep)
    state = look(folder.folder)
    # Four items: two done, one under way, one known to crash.
    assert (state.done, state.left) == (2, 1)
    assert state.cells[cell] == "known_bad"


def test_whoever_watches_from_elsewhere_sees_the_step_of_the_trial(tmp_path: Path) -> None:
    folder = running(tmp_path / "s").folder
    steps = Steps()
    steps.begin("lab1", "Too early")
    steps.result({"sweep_dir": str(folder)})
    assert "Too early" not in "\n".join(plain(120, folder))
    steps.begin("lab1", "Wait until it serves")
    assert "[lab1] b32 k8 m64 graphs on explore" in "\n".join(plain(120, folder))
    assert "Wait until it serves (0s)" in "\n".join(plain(120, folder))
    said = CliRunner().invoke(main, ["status", str(folder)]).output
    assert "; now: Wait until it serves (0s)" in said
    # A step that began before the trial was that of another one.
    leave_steps(folder, {"lab1": Step("Evidence", "2025-01-01T00:00:00.000Z")})
    assert "Evidence" not in "\n".join(plain(120, folder))
    (folder / STEPS).write_text("{", encoding="utf-8")
    assert plain(120, folder)
    leave_steps(folder / "gone", {})  # nothing rests on it


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("height", [6, 24, 60])
def test_nothing_wraps_and_nothing_is_higher_than_the_terminal(
    tmp_path: Path, width: int, height: int
) -> None:
    for folder in (running(tmp_path / "a").folder, frontier(tmp_path / "b").folder):
        said = plain(width, folder, {"lab1": Step("A task with a very long name " * 10, utc_now())}, height)
        assert len(said) < height
        assert max(len(line) for line in said) < width
        assert all("\n" not in line for line in said)


def test_watching_without_a_terminal_prints_each_line_once_and_no_escapes(tmp_path: Path) -> None:
    folder = running(tmp_path / "s")
    stream = io.StringIO()
    thread = threading.Thread(
        target=watch, args=(folder.folder, Console(file=stream, width=80)), kwargs={"every_s": 0.05}
    )
    thread.start()
    time.sleep(0.3)
    close(folder)
    thread.join(20)
    assert not thread.is_alive()
    said = stream.getvalue().splitlines()
    assert len(said) == len(set(said)) == 4
    assert said[-1] == "complete: every item is settled"
    assert max(map(len, said)) > 400  # a pipe gets whole lines
    assert "\x1b" not in stream.getvalue()


def test_watching_in_a_terminal_redraws_in_place(tmp_path: Path) -> None:
    folder = running(tmp_path / "s")
    close(folder)
    stream = io.StringIO()
    watch(folder.folder, Console(file=stream, width=80, height=30, force_terminal=True, color_system=None))
    assert "complete: every item" in stream.getvalue()
    assert "\x1b[2J" not in stream.getvalue()  # the screen is never cleared as a whole


def test_the_status_command_watches(tmp_path: Path) -> None:
    folder = field_notes(tmp_path / "s")
    close(folder)
    done = CliRunner().invoke(main, ["status", "--watch", str(folder.folder)])
    assert done.exit_code == 0
    assert "illegal_address in graph_capture" in done.output


class Played:
    """A playbook that takes its time, and notes how it was asked to start and to stop."""

    started: list[tuple[str, list[str]]]

    def __init__(self, heard: Heard, seconds: float, code: int, events: Sequence[dict[str, object]]) -> None:
        for event in events:
            heard.take(event)
        self._until, self._code = time.monotonic() + seconds, code

    @property
    def running(self) -> bool:
        return time.monotonic() < self._until

    def stop(self) -> None:
        self._until = 0.0

    def wait(self, timeout_s: float) -> bool:
        time.sleep(max(0.0, min(timeout_s, self._until - time.monotonic())))
        return not self.running

    def close(self) -> int:
        return self._code


OPENED = {"event": "runner_on_ok", "event_data": {"res": {"sweep_dir": "/nowhere/s"}}}
SAID = {"event": "verbose", "stdout": "\x1b[0;34m[lab1] trial 1 of 7\x1b[0m\r\n[lab1] ok\r\n"}
FAILED = {
    "event": "runner_on_failed",
    "event_data": {
        "host": "localhost",
        "task": "Understand",
        "res": {"msg": "budget: 'abc' is not a number"},
    },
}


def test_lines_of_a_run_without_a_terminal_and_why_it_failed() -> None:
    stream = io.StringIO()
    code, folder = run_sweep(
        ["-e", "budget=abc"],
        Console(file=stream, width=80),
        lambda name, options, heard: Played(heard, 0.2, 2, [OPENED, SAID, FAILED]),  # type: ignore[arg-type, return-value]
    )
    assert (code, folder) == (2, Path("/nowhere/s"))
    assert stream.getvalue().splitlines() == [
        "[lab1] trial 1 of 7",
        "[lab1] ok",
        "[localhost] Understand: budget: 'abc' is not a number",
    ]


@pytest.mark.parametrize(("code", "words"), [(0, "running again"), (1, "NOT restored everywhere")])
def test_an_interrupt_stops_after_restoring(code: int, words: str) -> None:
    started: list[tuple[str, list[str]]] = []

    def start(name: str, options: Sequence[str], heard: Heard) -> Played:
        started.append((name, list(options)))
        return Played(heard, 30 if name == "sweep.yml" else 0.1, 0 if name == "sweep.yml" else code, [])

    stream = io.StringIO()
    # A shell's background job, and what it starts, inherits that interrupts are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
    options = ["-i", "inventory/x", "-e", "budget=8", "--limit=h1", "-v"]
    found, _ = run_sweep(options, Console(file=stream, width=80), start)  # type: ignore[arg-type]
    assert found == 130
    assert started == [
        ("sweep.yml", options),
        ("restore.yml", ["-i", "inventory/x", "-e", "budget=8", "--limit=h1"]),
    ]
    assert words in stream.getvalue()


def test_options_that_restoring_needs() -> None:
    given = [
        "-ihosts",
        "-e",
        "a=1",
        "--check",
        "-l",
        "h1",
        "-b",
        "--tags",
        "x",
        "--vault-password-file=f",
        "-vvv",
    ]
    assert host_options(given) == ["-ihosts", "-e", "a=1", "-l", "h1", "-b", "--vault-password-file=f"]


def test_what_would_ask_for_a_password_is_refused() -> None:
    done = CliRunner().invoke(main, ["sweep", "-e", "budget=8", "--ask-vault-pass"])
    assert done.exit_code == 2
    assert "password file" in done.output
