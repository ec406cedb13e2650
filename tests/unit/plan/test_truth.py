"""Truth tables: what is read, what is refused, and the commands that use them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from treeline.cli import main
from treeline.plan.truth import TruthError, cell_key, read

TABLE = """\
# the field's border, by closure
budget, maxreq, status
8, 64, ok
8, 128, ok
8, 256, crash
16, 64, timeout
16, 128, crash
16, 256, crash
32, 64, transient
32, 128, garbled
32, 256, crash
"""


def treeline(*arguments: str, stdin: str | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(main, arguments, input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_statuses_are_read_as_what_a_trial_says() -> None:
    truth = read(TABLE)
    assert len(truth.cells) == 9
    assert truth.cells[cell_key(8, 128)].p_fail == 0
    assert (truth.cells[cell_key(16, 64)].p_fail, truth.cells[cell_key(16, 64)].failing) == (1, "repeat")
    assert truth.cells[cell_key(32, 64)].failing == "repeat_transient"
    rims = read("budget,maxreq,status,p_fail,topk,graphs\n8,16,good,0.2,4,off\n8,32,bad,,4,off\n")
    assert rims.cells[cell_key(8, 16, 4, False)].p_fail == 0.2
    assert rims.cells[cell_key(8, 32, 4, False)].p_fail == 1
    assert rims.with_topk
    assert rims.with_graphs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no cell: a header with budget, maxreq, status"),
        ("budget,status\n8,ok\n", "the header lacks maxreq"),
        ("budget,maxreq,status,x\n8,8,ok,1\n", "the header has x"),
        (
            "budget,maxreq,status\n8,8,ok\n8,8,bad\n",
            "line 3: budget 8 topk 8 maxreq 8 graphs on is named twice",
        ),
        ("budget,maxreq,status\n8,eight,ok\n", "line 2: maxreq: 'eight' is not a whole number >= 1"),
        ("budget,maxreq,status\n8,,ok\n", "line 2: no maxreq"),
        ("budget,maxreq,status\n8,8\n", "line 2: 2 values for 3 columns"),
        ("budget,maxreq,status\n8,8,odd\n", "line 2: status 'odd' is not known"),
        ("budget,maxreq,status,p_fail\n8,8,ok,2\n", "line 2: p_fail: '2' is not a number from 0 to 1"),
        ("budget,maxreq,status,p_fail\n8,8,ok,nan\n", "p_fail: 'nan' is not"),
        ("budget,maxreq,status,graphs\n8,8,ok,maybe\n", "line 2: graphs: 'maybe' is neither on nor off"),
    ],
)
def test_a_table_that_is_wrong_names_the_line(text: str, message: str) -> None:
    with pytest.raises(TruthError) as caught:
        read(text)
    assert message in str(caught.value)


def test_the_command_prints_exactly_what_it_promises(tmp_path: Path) -> None:
    (tmp_path / "truth.csv").write_text(TABLE)
    code, output = treeline("frontier", "--truth", str(tmp_path / "truth.csv"), "--json", "--seed", "3")
    assert code == 0
    found = json.loads(output)
    assert list(found) == ["restarts", "confirmations", "audits", "cells", "wrong", "contradictions"]
    assert [list(cell) for cell in found["cells"]] == [["budget", "maxreq", "verdict", "basis"]] * 9
    by_place = {(cell["budget"], cell["maxreq"]): (cell["verdict"], cell["basis"]) for cell in found["cells"]}
    assert by_place[8, 128] == ("good", "measured")
    assert by_place[16, 64] == ("bad", "measured")
    assert (found["wrong"], found["contradictions"]) == (0, 0)
    measured = sum(cell["basis"] == "measured" for cell in found["cells"])
    # Every cell that was measured took one restart, the repeats of doubtful ones and confirmations besides.
    assert found["restarts"] >= measured + found["confirmations"]
    assert found["audits"] >= 1
    assert treeline("frontier", "--truth", str(tmp_path / "truth.csv"), "--json", "--seed", "3")[1] == output


def test_slices_are_told_apart_where_the_table_has_them() -> None:
    text = "budget,maxreq,status,topk\n8,8,ok,4\n8,16,bad,4\n8,8,ok,8\n8,16,ok,8\n"
    code, output = treeline("frontier", "--truth", "-", "--json", stdin=text)
    assert code == 0
    verdicts = {(c["topk"], c["maxreq"]): c["verdict"] for c in json.loads(output)["cells"]}
    assert verdicts == {(4, 8): "good", (4, 16): "bad", (8, 8): "good", (8, 16): "good"}


def test_a_rim_is_mixed_or_told_with_its_bound() -> None:
    rows = [f"8,{limit},ok,0.5" for limit in (8, 16, 32)]
    text = "budget,maxreq,status,p_fail\n" + "\n".join(rows)
    mixed = 0
    for seed in range(12):
        code, output = treeline("frontier", "--truth", "-", "--seed", str(seed), stdin=text)
        assert code == 0
        mixed += "M, failed 1 of 2 lives, so in 1.3 % to 98.7 % of them (95 %)" in output
        assert "(95 % sure)" in output
    assert mixed


def test_people_get_the_map_every_step_and_the_bound(tmp_path: Path) -> None:
    (tmp_path / "truth.csv").write_text(TABLE)
    code, output = treeline("frontier", "--truth", str(tmp_path / "truth.csv"), "--hosts", "2")
    assert code == 0
    assert "restarts for 9 cells" in output
    assert "2 hosts take the time of" in output
    assert "(explore: walk: smallest budget, largest limit)" in output
    assert "G good, B bad, M mixed (measured)" in output
    assert "implied cells are wrong (95 % sure)" in output


def test_a_table_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    code, output = treeline("frontier", "--truth", str(tmp_path / "none.csv"))
    assert (code, len(output.strip().splitlines())) == (1, 1)
    (tmp_path / "bad.csv").write_text("budget,maxreq,status\n8,8,odd\n")
    code, output = treeline("frontier", "--truth", str(tmp_path / "bad.csv"))
    assert code == 1
    assert "bad.csv: line 2: status 'odd' is not known" in output


def test_a_forecast_needs_no_host(tmp_path: Path) -> None:
    empty = ("--results", str(tmp_path))
    code, output = treeline("plan", "budget=8,16", "-e", "maxreq=64,128", *empty)
    assert code == 0
    assert "Plan: grid, 4 restarts in dialect field." in output
    code, output = treeline("plan", "plan=frontier", "stages=frontier", "--path", "--hosts", "2", *empty)
    assert code == 0
    assert "on 2 hosts" in output
    assert "says (assumed, nothing was run)" in output
    assert "-> assumed bad" in output
    code, output = treeline("plan", "plan=frontier", "--json", "--load-s", "100", "--measure-s", "20", *empty)
    found = json.loads(output)
    assert code == 0
    assert found["restarts"]["total"] == found["restarts"]["walk"] + 4 + 6 + 9 + 1
    assert found["seconds"] == found["restarts"]["total"] * 130


def test_wrong_words_are_one_message() -> None:
    code, output = treeline("plan", "budgte=8")
    assert code == 1
    assert "Did you mean budget?" in output
    assert treeline("plan", "8,16")[0] == 2
    assert "explode: is not a variable of a sweep" in treeline("plan", "budget=8", "explode=1")[1]
