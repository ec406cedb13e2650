"""The report: one file, complete, and text from logs stays text."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "frames"))

from click.testing import CliRunner
from field_sweep import field_notes, lives, renamed
from sweeps import SWEEP_ID, SweepFolder
from treeline.cli import main
from treeline.frames.results import read
from treeline.report import apart
from treeline.report.excerpt import excerpt
from treeline.report.page import page, write_page
from treeline.report.summary import write_summary
from treeline.report.versus import markdown, versus


class Seen(HTMLParser):
    """What a browser would make of a page: tags, links to elsewhere, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name in ("src", "href", "action") and value]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def seen(text: str) -> Seen:
    parser = Seen()
    parser.feed(text)
    return parser


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> SweepFolder:
    return field_notes(tmp_path_factory.mktemp("results") / "s")


@pytest.fixture(scope="module")
def html(sweep: SweepFolder) -> str:
    return page(read(sweep.folder))


def test_it_needs_no_other_file_and_no_network(html: str) -> None:
    found = seen(html)
    assert all(link.startswith(("#", "data:,")) for link in found.links)
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]+"|http-equiv', "", html)
    assert found.tags.count("svg") == 9
    assert "default-src 'none'" in html
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_a_script_in_a_log_line_stays_text(html: str) -> None:
    found = seen(html)
    assert found.tags.count("script") == 1
    assert "<script>alert" not in html
    assert sum("<script>alert('log')</script>" in text for text in found.text) >= 2
    assert "\x1b" not in html
    assert "after the error" in html
    assert "Hi&lt;b&gt;" in html


def test_it_answers_what_the_sweep_was_for(html: str) -> None:
    said = " ".join("".join(seen(html).text).split())
    for words in (
        "simulated timing", "1088 dies, 1152 lives", "(1152, 2176]", "What to deploy", "What to measure next",
        "budget=8 -e topk=4 -e maxreq=176", "illegal_address", "Try graphs=off.", "sglang 0.5.23",
    ):  # fmt: skip
        assert words in said, words


def test_tables_sort_by_numbers_where_they_hold_numbers(html: str) -> None:
    assert '<th scope="col" class="number"><button type="button">rows</button></th>' in html
    assert 'data-sort="1152"' in html


def test_a_report_on_nothing_is_a_sentence(tmp_path: Path) -> None:
    assert "No sweep was found" in page(read(tmp_path))


def test_the_command_writes_it_for_one_sweep_and_for_several(tmp_path: Path) -> None:
    first = field_notes(tmp_path / f"{SWEEP_ID}").folder
    done = CliRunner().invoke(main, ["report", "--results", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == str(first / "report.html")
    renamed(lives(tmp_path / "other", {8: [1.0]}), "2")
    done = CliRunner().invoke(main, ["report", "--results", str(tmp_path), SWEEP_ID, "other"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == str(tmp_path / "report.html")
    assert "2 sweeps" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_end_of_a_sweep_draws_it_apart_and_a_failure_is_a_remark(sweep: SweepFolder) -> None:
    summary = write_summary(sweep.folder, page_within_s=120)
    assert summary.page == sweep.folder / "report.html"
    assert str(summary.page) in summary.table
    late = write_summary(sweep.folder, page_within_s=0.01)
    assert (late.page, late.trials) == (None, 7)
    assert "was not drawn within 0.01 s" in late.table
    path, remark = apart.draw_page(sweep.folder / "nowhere", 120)
    assert path is None
    assert remark.startswith("report.html was not drawn: ")
    assert write_summary(sweep.folder).remark == ""


def test_excerpts_surround_the_error_or_end_the_journal(sweep: SweepFolder, tmp_path: Path) -> None:
    evidence = sweep.folder / "evidence" / f"{SWEEP_ID}-0002"
    around = excerpt(evidence, "RuntimeError: <script>alert('log')</script> red")
    assert around[0] == "loading weights"
    assert around[-1] == "Hi<b>"
    assert excerpt(evidence, "not in there") == around
    assert excerpt(tmp_path, "x") == []
    (tmp_path / "journal.jsonl.gz").write_bytes(b"\x1f\x8b broken")
    assert excerpt(tmp_path, None) == []


def test_before_and_after(tmp_path: Path) -> None:
    before = lives(tmp_path / "a", {8: [300.0, 301.0, 302.0], 16: [400.0]}).folder
    after = lives(tmp_path / "b", {8: [330.0, 331.0, 332.0], 16: [380.0]}, sweep_id="b", plan_hash="1").folder
    found = versus(read(before), read(after))
    first, second = found.points.to_dict("records")
    assert first["winner"] == "after"
    assert first["tok_s_verdict"].startswith("after is higher: +10.0 %")
    assert second["tok_s_verdict"] == "no difference shown (one life); observed -5.0 %"
    assert found.cells["change"].tolist() == ["as before", "as before"]
    text = markdown(found)
    assert text.startswith("# Before and after\n")
    assert "2 client keys in both; tok/s differs in 1 of them" in text
    done = CliRunner().invoke(main, ["compare", str(before), str(after)])
    assert done.exit_code == 0, done.output
    assert "after is higher: +10.0 %" in done.output


def test_cells_that_die_or_work_now(tmp_path: Path) -> None:
    from sweeps import item

    for name, outcomes in (("a", ("ok", "crash", "crash")), ("b", ("crash", "ok", "crash"))):
        plan = [item(8), item(16), item(32)]
        folder = SweepFolder(tmp_path / name, *plan)
        for number, (of, status) in enumerate(zip(plan, outcomes, strict=True)):
            cause = f"cause_{name}" if number == 2 else "x"
            folder.run(of, status, effect="good" if status == "ok" else "bad", class_=cause)
    found = versus(read(tmp_path / "a"), read(tmp_path / "b"))
    assert found.cells.set_index("label")["change"].tolist() == [
        "dies now", "works now", "died of something else",
    ]  # fmt: skip


def test_write_page_replaces_the_file_in_one_step(sweep: SweepFolder, tmp_path: Path) -> None:
    target = write_page([sweep.folder], tmp_path / "r.html")
    assert target.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]
