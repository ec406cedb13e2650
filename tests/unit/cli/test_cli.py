"""The command `treeline`, as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from sweeps import ALIVE, DEAD, SWEEP_ID, SweepFolder, item
from treeline.cli import main
from treeline.keys import Column, Frontier, Plan, Slice
from treeline.records import Run

CORPUS = Path(__file__).resolve().parents[2] / "data" / "corpus"


def treeline(*arguments: str, stdin: bytes | None = None) -> tuple[int, str]:
    """Run the command in this process; its exit code and output."""
    done = CliRunner().invoke(main, arguments, input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_help_is_quick_and_imports_little() -> None:
    code = (
        "import sys\nfrom treeline.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit(str({'pandas', 'ansible', 'pyarrow', 'yaml', 'rich'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
    for command in ("classify", "report", "status"):
        assert command in done.stdout


def test_classify_for_people_and_as_json() -> None:
    code, output = treeline("classify", str(CORPUS / "illegal_address_in_capture.log"))
    assert code == 0
    assert "illegal_address (confidence high)" in output
    assert "captured batch size: 64" in output
    code, output = treeline("classify", "--json", str(CORPUS / "port_in_use.log"))
    verdict = json.loads(output)
    assert (code, verdict["class"], verdict["phase"]) == (0, "port_in_use", "http")


def test_classify_reads_standard_input_and_own_classes(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(
        "schema_version: 1\nclasses:\n  - {id: moon, tier: application, layer: sky, kind: none, "
        "literals: [full moon], advice: Wait.}\n",
        encoding="utf-8",
    )
    code, output = treeline("classify", "--dead", "--catalogue", str(own), "-", stdin=b"it is full moon\n")
    assert (code, output.splitlines()[0].split()[1]) == (0, "moon")
    code, output = treeline("classify", "--alive", "-", stdin=b"it is full moon\n")
    assert output.splitlines()[0].split()[1] == "ok"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["classify", "/nowhere/journal"], "/nowhere/journal: No such file"),
        (["classify", "/"], "Is a directory"),
        (["report", "--results", "/nowhere"], "there is no folder /nowhere"),
        (["status", "--results", "/proc/self/fd"], "no sweep was found in /proc/self/fd"),
    ],
)
def test_bad_paths_end_in_one_line(arguments: list[str], expected: str) -> None:
    code, output = treeline(*arguments)
    assert code == 1
    assert expected in output
    assert len(output.strip().splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x08damaged"])
def test_a_file_without_a_line_is_an_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(content)
    code, output = treeline("classify", str(tmp_path / "log"))
    assert code == 1
    assert f"{tmp_path}/log: no line of a log in it" in output
    code, output = treeline("classify", "-", stdin=b"")
    assert (code, "standard input: no line" in output) == (1, True)


def test_the_median_of_an_even_number_of_lines() -> None:
    lines = "\n".join(f"Decode batch, accept len: {value}, x" for value in (1.5, 4.0, 2.0, 3.0))
    code, output = treeline("classify", "-", stdin=lines.encode())
    assert code == 0
    assert "4 with an acceptance length: 1.50 .. 4.00, median 2.50" in output


def test_a_bad_catalogue_is_named(tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text("classes: 7\n", encoding="utf-8")
    code, output = treeline(
        "classify", "--catalogue", str(tmp_path / "own.yml"), str(CORPUS / "port_in_use.log")
    )
    assert code == 1
    assert "own.yml" in output


def ended(reason: str) -> Run:
    """A run that came to the end of its plan."""
    return Run(
        controller=DEAD,
        started_at="2025-01-01T00:00:00.000Z",
        ended_at="2025-01-01T01:00:00.000Z",
        outcome="complete",
        reason=reason,
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    first = SweepFolder(tmp_path / SWEEP_ID, item(8), item(16), item(32))
    first.run(item(8), class_="ok", phase="serving")
    first.start(item(16), controller=ALIVE)
    done = SweepFolder(
        tmp_path / "20250101T000000Z-abcdef02", item(8), runs=[ended("all done")], finished_at="z"
    )
    done.start(item(8), controller=DEAD)
    return tmp_path


def test_report_takes_the_newest_a_path_an_id_or_its_beginning(results: Path) -> None:
    for chosen in ([], [str(results / SWEEP_ID)], [SWEEP_ID], ["2026"]):
        code, output = treeline("report", *chosen, "--results", str(results))
        assert code == 0, output
        assert f"sweep {SWEEP_ID}" in output
        assert "\x1b" not in output
    assert (results / SWEEP_ID / "summary.csv").is_file()


def test_an_ambiguous_or_unknown_sweep_lists_what_is_there(results: Path) -> None:
    code, output = treeline("report", "20", "--results", str(results))
    assert code == 1
    assert "2 sweeps begin so" in output
    code, output = treeline("status", "1999", "--results", str(results))
    assert code == 1
    assert SWEEP_ID in output


def test_status_tells_what_is_done_what_runs_and_what_is_left(results: Path) -> None:
    code, output = treeline("status", "--results", str(results))
    assert code == 0
    assert "trials: 1 finished (1 ok), 1 items not begun" in output
    assert "[lab1] budget 16 topk 8 maxreq 64 graphs on: under way for" in output
    assert "works" in output
    assert "1 done, 2 left" in output
    assert "rows: budget, columns: maxreq" in output
    code, output = treeline("status", "2025", "--results", str(results))
    assert "last run: complete at 2025-01-01T01:00:00.000Z: all done" in output
    assert "interrupted; it is run again by the next run" in output


def test_a_search_tells_what_is_known_and_what_is_open(tmp_path: Path) -> None:
    columns = tuple(Column(budget=budget, maxreqs=(16, 32)) for budget in (8, 16))
    part = Slice(topk=8, block_size=8, graphs=True, columns=columns)
    plan = Plan(kind="frontier", items=(), frontier=Frontier(slices=(part,)))
    folder = SweepFolder(tmp_path / SWEEP_ID, plan=plan)
    folder.run(item(8, 32), class_="ok", phase="serving")
    known = "known: 2 of 4 cells (1 measured, 1 implied); open: 2"
    _, output = treeline("status", "--results", str(tmp_path))
    assert f"sweep {SWEEP_ID}: frontier of 4 cells" in output
    assert "trials: 1 finished (1 ok)\n" + known in output
    _, output = treeline("report", "--results", str(tmp_path))
    assert f"1 trial of the search: 1 ok; {known}" in output


def test_a_complete_sweep_that_owes_a_restore_says_what_to_do(tmp_path: Path) -> None:
    SweepFolder(tmp_path / SWEEP_ID, item(8), runs=[ended("NOT restored")], outcome="complete")
    _, output = treeline("status", "--results", str(tmp_path))
    assert "complete, but not restored: run the same command again" in output


def test_a_damaged_sweep_is_named(results: Path) -> None:
    (results / SWEEP_ID / "sweep.json").write_text("{", encoding="utf-8")
    code, output = treeline("report", "--results", str(results))
    assert code == 1
    assert "sweep.json" in output
