"""Files of configurations: CSV and YAML, what outranks what, and messages that name file and line."""

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from treeline.request import Outcome, RequestError, Surroundings, understand
from treeline.request.points import read

REPOSITORY = Path(__file__).resolve().parents[3]
FIELD_NOTES = "playbooks/plans/field-notes.yml"


def run(
    folder: Path, name: str, text: str, *, on_command_line: tuple[str, ...] = (), **more: object
) -> Outcome:
    (folder / name).write_text(text, encoding="utf-8")
    around = Surroundings(folders=[folder], extra_vars_names=["points", *on_command_line])
    return understand({"points": name, **more}, around)


def message(folder: Path, name: str, text: str, **more: object) -> str:
    with pytest.raises(RequestError) as caught:
        run(folder, name, text, **more)
    return str(caught.value)


def test_the_field_notes_in_the_order_of_the_table():
    outcome = understand({"points": FIELD_NOTES}, Surroundings(folders=[REPOSITORY]))
    table = [
        (item.key.budget, item.key.topk, item.key.maxreq, item.key.graphs, item.key.rows)
        for item in outcome.plan.items
    ]
    assert table == [
        (8, 4, 128, True, 1152),
        (8, 4, 256, True, 2304),
        (16, 8, 128, True, 2176),
        (16, 8, 64, True, 1088),
        (32, 8, 32, True, 1056),
        (16, 8, 64, False, 1088),
        (64, 8, 16, True, 1040),
    ]
    assert {item.key.block_size for item in outcome.plan.items} == {8}
    loads = [[client.concurrency for client in item.client_keys] for item in outcome.plan.items]
    assert loads == [[128, 1], [128, 1], [32, 8, 1], [32, 8, 1], [32, 8, 1], [32, 8, 1], [16, 8, 1]]
    assert outcome.options.baseline == "skip"
    assert outcome.plan.kind == "points"
    assert outcome.plan.items[3].reason == "point 4 of field-notes.yml, 1088 rows, within the prior of 1200"


def test_csv_with_comments_blanks_empty_cells_and_lists(tmp_path):
    outcome = run(
        tmp_path,
        "mine.csv",
        "\ufeff# what we tried\nbudget, maxreq,graphs,concurrency,graph_max_bs\n\n16,64,off,1;8,\n"
        '32,,,"1, 4",none\n8,16,,,8\n',
    )
    found = [
        (item.key.budget, item.key.maxreq, item.key.graphs, item.key.graph_max_bs)
        for item in outcome.plan.items
    ]
    assert found == [(16, 64, False, None), (32, 32, True, None), (8, 16, True, 8)]
    loads = [[client.concurrency for client in item.client_keys] for item in outcome.plan.items]
    assert loads == [[8, 1], [4, 1], [16, 8, 1]]


def test_yaml_list(tmp_path):
    outcome = run(
        tmp_path, "mine.yml", "- budget: 8\n  graphs: off\n  context: [512, 64]\n- {budget: 010, topk: ~}\n"
    )
    assert [(item.key.budget, item.key.graphs) for item in outcome.plan.items] == [(8, False), (10, True)]
    assert {client.context for client in outcome.plan.items[0].client_keys} == {512, 64}


def test_yaml_with_settings(tmp_path):
    outcome = run(tmp_path, "mine.yaml", "baseline: auto\nengine_dialect: pr29907\npoints:\n- {budget: 7}\n")
    assert (outcome.options.baseline, outcome.dialect) == ("auto", "pr29907")


def test_the_same_restart_key_twice_is_one_service_life(tmp_path):
    outcome = run(tmp_path, "p.csv", "budget,concurrency\n16,1\n8,1\n16,8\n")
    assert [item.key.budget for item in outcome.plan.items] == [16, 8]
    assert [client.concurrency for client in outcome.plan.items[0].client_keys] == [8, 1]
    assert "is measured in one service life" in outcome.notes[0]


def test_the_order_of_points_is_kept_and_is_not_in_the_hash(tmp_path):
    one = run(tmp_path, "a.csv", "budget\n32\n8\n")
    other = run(tmp_path, "b.csv", "budget\n8\n32\n")
    assert [item.key.budget for item in one.plan.items] == [32, 8]
    assert [item.key.budget for item in other.plan.items] == [8, 32]
    assert one.plan_hash == other.plan_hash


def test_the_command_line_outranks_the_file_and_the_file_the_inventory(tmp_path):
    text = "baseline: skip\nengine_dialect: field\npoints:\n"
    text += "- {budget: 8, graphs: 'on', concurrency: 8}\n- {budget: 16}\n"
    more = {"graphs": "off", "concurrency": "1", "baseline": "auto", "engine_dialect": "pr29907", "topk": "4"}
    inventory = run(tmp_path, "p.yml", text, **more)
    assert [item.key.graphs for item in inventory.plan.items] == [True, False]
    assert [[c.concurrency for c in item.client_keys] for item in inventory.plan.items] == [[8], [1]]
    assert (inventory.options.baseline, inventory.dialect) == ("skip", "field")
    assert {item.key.topk for item in inventory.plan.items} == {4}

    forced = run(tmp_path, "p.yml", text, on_command_line=tuple(more), **more)
    assert [item.key.graphs for item in forced.plan.items] == [False, False]
    assert [[c.concurrency for c in item.client_keys] for item in forced.plan.items] == [[1], [1]]
    assert (forced.options.baseline, forced.dialect) == ("auto", "pr29907")
    assert "graphs given with -e replaces what p.yml says" in forced.notes
    assert not any("topk" in note for note in forced.notes)


def test_a_list_beside_points_is_refused(tmp_path):
    text = message(tmp_path, "p.csv", "budget\n8\n", topk="4,8")
    assert "topk: '4,8' is a list, and with points each configuration has one value" in text


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "p.csv",
            "budget,topk\n8,4\n16,x\n",
            "topk: 'x' is not a whole number >= 1 (p.csv, line 3). Allowed: one number.",
        ),
        (
            "p.csv",
            "budget,topk\n8\n",
            "points: has 1 values for 2 columns (p.csv, line 2). Allowed: budget, topk.",
        ),
        (
            "p.csv",
            "budgte,topk\n8,4\n",
            "points: 'budgte' is not a column; did you mean budget? (p.csv, line 1)",
        ),
        ("p.csv", "budget,budget\n8,4\n", "points: names budget more than once (p.csv, line 1)"),
        ("p.csv", "topk\n4\n", "points: names no budget (p.csv, line 2)"),
        ("p.csv", "budget\n", "points: holds no configuration (p.csv, line 1)"),
        ("p.csv", "", "points: holds no configuration (p.csv, line 1)"),
        ("p.csv", 'budget\n"8\n', "points: is not CSV: "),
        (
            "p.csv",
            "budget,graphs\n8,both\n",
            "graphs: 'both' is neither on nor off (p.csv, line 2). Allowed: on or off.",
        ),
        ("p.csv", 'budget\n"8,16"\n', "budget: '8,16' is not a whole number >= 1 (p.csv, line 2)"),
        ("p.csv", "budget;topk\n8;4\n", "points: 'budget;topk' is not a column"),
        ("p.yml", "", "points: holds no configuration (p.yml, line 1)"),
        ("p.yml", "8\n", "points: is neither a list nor a mapping (p.yml, line 1)"),
        ("p.yml", "- 8\n- {budget: 8}\n", "points: is not a mapping (p.yml, line 1)"),
        ("p.yml", "- {budget: 8}\n-\n  topk: 4\n", "points: names no budget (p.yml, line 3)"),
        (
            "p.yml",
            "- {budget: 8}\n- {budget: [8, 16]}\n",
            "budget: ['8', '16'] is not a whole number >= 1 (p.yml, line 2)",
        ),
        ("p.yml", "- {budget: 8, budget: 9}\n", "points: names budget more than once (p.yml, line 1)"),
        ("p.yml", "points: 8\n", "points: points is not a list (p.yml, line 1)"),
        (
            "p.yml",
            "baseline: skip\nponts: []\n",
            "points: 'ponts' is not a column; did you mean points? (p.yml, line 2)",
        ),
        (
            "p.yml",
            "baseline: maybe\npoints: [{budget: 8}]\n",
            "baseline: 'maybe' is not one of auto, skip (p.yml)",
        ),
        ("p.yml", "engine_dialect: x\npoints: [{budget: 8}]\n", "engine_dialect: dialect 'x' is not known"),
        ("p.yml", "- {budget: 8\n- x\n", "points: is not YAML: "),
        ("p.yml", "- {budget: &a [*a]}\n", "points: is not YAML: "),
        ("p.yml", "[" * 600, "points: is nested too deeply"),
        ("p.txt", "budget\n8\n", "points: has the ending '.txt' (p.txt, line 1)"),
    ],
)
def test_faults_name_file_and_line(tmp_path, name, text, expected):
    assert expected in message(tmp_path, name, text)


def test_every_fault_of_a_file_is_told(tmp_path):
    text = message(tmp_path, "p.csv", "budget,maxreq\nx,1\n8,0\n,4\n", graphs="maybe")
    for expected in (
        "graphs: 'maybe'",
        "line 2",
        "maxreq: '0' is not",
        "line 3",
        "names no budget",
        "line 4",
    ):
        assert expected in text


def test_a_missing_file_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(RequestError) as caught:
        understand({"points": "x.csv"}, Surroundings(folders=[tmp_path], extra_vars_names=["points"]))
    assert f"points: 'x.csv' does not exist in {tmp_path} (given with -e). Allowed: the path of" in str(
        caught.value
    )


def test_files_that_are_none(tmp_path):
    (tmp_path / "folder.yml").mkdir()
    (tmp_path / "latin.csv").write_bytes(b"budget\n\xff\n")
    around = Surroundings(folders=[tmp_path])
    for name, expected in [("folder.yml", "is a folder"), ("latin.csv", "is not UTF-8 text")]:
        with pytest.raises(RequestError, match=expected):
            understand({"points": name}, around)


def test_the_first_folder_that_has_the_file_wins(tmp_path):
    for budget in (8, 16):
        (tmp_path / str(budget)).mkdir()
        (tmp_path / str(budget) / "p.csv").write_text(f"budget\n{budget}\n", encoding="utf-8")
    around = Surroundings(folders=[tmp_path / "none", tmp_path / "16", tmp_path / "8"])
    assert understand({"points": "p.csv"}, around).axes["budget"] == [16]
    absolute = str(tmp_path / "8" / "p.csv")
    assert understand({"points": absolute}, around).axes["budget"] == [8]


LINES = st.text() | st.text(alphabet='budget,topk-: {}[]\n"#&*!8x;', max_size=60)


@settings(max_examples=150)
@given(LINES, st.sampled_from([".csv", ".yml"]))
def test_any_text_is_read_or_its_problems_name_the_file(text, ending):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"p{ending}"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        found = read(path, path.name)
        assert found.points or found.problems
        assert all(problem.origin.startswith(f"p{ending}, line ") for problem in found.problems)
        with contextlib.suppress(RequestError):  # and no other exception
            understand({"points": str(path)})
