"""Dialect files, and what is written in them for the engine: arguments, environment, served values, width."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline import dialects
from treeline.dialects import DialectError
from treeline.keys import RestartKey

SHIPPED = dialects.names()
KEY = RestartKey(
    budget=16, topk=8, maxreq=64, block_size=8, graphs=True, graph_max_bs=32, attention_backend="triton"
)
EAGER = RestartKey(budget=16, topk=8, maxreq=64, block_size=8, graphs=False)
MINE = """\
name: mine
title: a fork of my own
source: its server_args.py
speculative: [--speculative-algorithm, DDTREE]
argv:
  budget: [--tree-nodes, "{value}"]
  block_size: ["--block={value}"]
  maxreq: [--max-running-requests, "{value}"]
graphs_off: [--eager]
env: {topk: MINE_TOPK}
served: {budget: tree_nodes}
served_graphs_off: {eager: true}
width: budget_plus_one
capabilities: {tree: true, topk: true}
rules:
  - require: {page_size: 1}
    message: pages must be single
  - when_full_tree: true
    require: {attention_backend: triton}
    message: a full tree needs triton
"""


@pytest.fixture
def mine(tmp_path: Path) -> dialects.Dialect:
    path = tmp_path / "mine.yml"
    path.write_text(MINE, encoding="utf-8")
    return dialects.load(str(path))


def changed(tmp_path: Path, old: str, new: str) -> str:
    """The message with which a changed dialect file is refused."""
    assert old in MINE
    path = tmp_path / "mine.yml"
    path.write_text(MINE.replace(old, new), encoding="utf-8")
    with pytest.raises(DialectError) as caught:
        dialects.load(str(path))
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_the_dialects_that_must_ship_are_there():
    assert {"field", "pr29907", "dflash-0.5.23"} <= set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_dialect_spells_every_parameter_it_knows(name):
    dialect = dialects.load(name)
    words = dialects.argv(dialect, KEY)
    assert words[: len(dialect.speculative)] == dialect.speculative
    for parameter in dialects.PARAMETERS:
        value = str(getattr(KEY, parameter))
        if parameter in dialect.argv:
            flag = dialect.argv[parameter][0]
            assert words[words.index(flag) + 1] == value
        if parameter in dialect.env:
            assert dialects.env(dialect, KEY)[dialect.env[parameter]] == value
        if parameter in dialect.served:
            assert dialects.served(dialect, KEY)[dialect.served[parameter]] == getattr(KEY, parameter)
    assert not any("{" in word for word in words)
    assert dialects.expected_width(dialect, KEY) == (17 if dialect.width == "budget_plus_one" else 8)
    assert dialect.title
    assert dialect.source


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_dialect_can_turn_graphs_off(name):
    dialect = dialects.load(name)
    on, off = dialects.argv(dialect, KEY), dialects.argv(dialect, EAGER)
    assert dialect.graphs_off
    assert off[-len(dialect.graphs_off) :] == dialect.graphs_off
    assert not set(dialect.graphs_off) & set(on)
    assert dialect.served_graphs_off.items() <= dialects.served(dialect, EAGER).items()
    assert dialects.expected_width(dialect, EAGER) is None


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_left_to_the_engine_is_not_written(name):
    dialect = dialects.load(name)
    words = dialects.argv(dialect, EAGER)
    for parameter in ("graph_max_bs", "attention_backend"):
        assert not set(dialect.argv.get(parameter, ["-"])) & set(words)
        assert dialect.served.get(parameter, "-") not in dialects.served(dialect, EAGER)


def test_the_released_sglang_gets_the_flag_that_it_does_not_call_ambiguous():
    """In 0.5.23 --cuda-graph-max-bs begins two flags and ends the server; 0.5.12 knows only that one."""
    assert "--cuda-graph-max-bs-decode" in dialects.argv(dialects.load("dflash-0.5.23"), KEY)
    assert "--cuda-graph-max-bs" in dialects.argv(dialects.load("dflash-0.5.12"), KEY)


def test_a_file_of_the_users_own(mine):
    assert dialects.argv(mine, KEY) == [
        "--speculative-algorithm",
        "DDTREE",
        "--tree-nodes",
        "16",
        "--block=8",
        "--max-running-requests",
        "64",
    ]
    assert dialects.env(mine, KEY) == {"MINE_TOPK": "8"}
    assert dialects.served(mine, EAGER) == {"tree_nodes": 16, "eager": True}
    assert mine.changes("topk")
    assert not mine.changes("graph_max_bs")


def test_values_may_be_text_as_from_the_command_line(mine):
    text = {"budget": "16", "topk": "8", "maxreq": "64", "block_size": "8", "graphs": "off"}
    assert dialects.argv(mine, text) == dialects.argv(mine, EAGER)
    assert dialects.served(mine, text) == dialects.served(mine, EAGER)
    with pytest.raises(DialectError, match="budget"):
        dialects.argv(mine, text | {"budget": "many"})
    with pytest.raises(DialectError, match="graphs"):
        dialects.argv(mine, text | {"graphs": "maybe"})


def test_rules(mine):
    key = KEY.to_dict()
    assert dialects.broken_rules(mine, KEY) == []
    assert dialects.broken_rules(mine, key | {"page_size": "16"}) == ["pages must be single"]
    assert dialects.broken_rules(mine, key | {"page_size": 1, "attention_backend": "fa3"}) == [
        "a full tree needs triton"
    ]
    chain = key | {"budget": 7, "page_size": 1, "attention_backend": "fa3"}
    assert dialects.broken_rules(mine, chain, complete=True) == []
    unset = key | {"attention_backend": None}
    assert dialects.broken_rules(mine, unset) == []
    assert dialects.broken_rules(mine, unset, complete=True) == [
        "pages must be single",
        "a full tree needs triton",
    ]


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("--tree-nodes", "--tree-nodes"),
        ("--tree-nodes=9", "--tree-nodes"),
        ("--tree_nodes", "--tree-nodes"),
        ("--tree-no", "--tree-nodes"),
        ("--tree_no=9", "--tree-nodes"),
        ("--block=4", "--block"),
        ("--eager", "--eager"),
        ("--max-running-requests 9", "--max-running-requests"),
        ("--port", "--port"),
        ("--tp", "--tp-size"),
        ("--cuda-graph-bs-decode", "--cuda-graph-bs-decode"),
        ("--config", "--config"),
        ("--mine", "--mine"),
        ("--", "--"),
    ],
)
def test_extra_arguments_may_not_name_an_owned_flag(mine, word, flag):
    with pytest.raises(DialectError) as caught:
        dialects.argv(mine, KEY, ["--page-size", "1", word], also_owned=["--mine"])
    assert repr(word) in str(caught.value)
    assert flag in str(caught.value)


def test_every_owned_flag_that_is_named_is_said(mine):
    with pytest.raises(DialectError, match=r"--host.*--port"):
        dialects.argv(mine, KEY, ["--host=::", "--port", "1"])


@pytest.mark.parametrize(
    "words", [["--page-size", "1"], ["--tree-nodes-log"], ["--portal=1"], ["--log-level=info"]]
)
def test_other_extra_arguments_come_last(mine, words):
    assert dialects.argv(mine, EAGER, words)[-len(words) :] == words


@pytest.mark.parametrize("extra", ["--page-size 1", [1]])
def test_extra_arguments_are_a_list_of_words(mine, extra):
    with pytest.raises(DialectError, match="is not a list of words"):
        dialects.argv(mine, KEY, extra)


@given(st.sampled_from(SHIPPED), st.data())
def test_no_abbreviation_that_the_engines_parser_takes_gets_through(name, data):
    """SGLang's parser is argparse, which takes any unambiguous beginning of a flag."""
    dialect = dialects.load(name)
    flag = data.draw(st.sampled_from(sorted(dialects.owned_flags(dialect))))
    length = data.draw(st.integers(3, len(flag)))
    spelt = flag[:length].replace("-", data.draw(st.sampled_from("-_")))
    assert dialects.owned_in(dialect, [f"--{spelt[2:]}"])


def test_a_dialect_that_is_not_known():
    with pytest.raises(DialectError) as caught:
        dialects.load("sglang")
    for name in SHIPPED:
        assert name in str(caught.value)
    assert "path of your own dialect file" in str(caught.value)


def test_a_dialect_is_named_like_its_file(tmp_path, monkeypatch):
    (tmp_path / "other.yml").write_text(MINE, encoding="utf-8")
    monkeypatch.setattr(dialects, "DIRECTORY", tmp_path)
    with pytest.raises(DialectError, match="its name is 'mine', not that of the file"):
        dialects.load("other")


def test_a_package_without_its_clone_says_how_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(dialects, "DIRECTORY", tmp_path / "none")
    with pytest.raises(DialectError, match=r"none.*pip install --editable"):
        dialects.load("field")


def test_a_dialect_by_its_content_is_the_one_by_its_name():
    import yaml

    content = yaml.safe_load((dialects.DIRECTORY / "field.yml").read_text(encoding="utf-8"))
    assert dialects.resolve(content) == dialects.resolve("field")
    with pytest.raises(DialectError, match="width"):
        dialects.resolve(content | {"width": "two"})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: a fork of my own\n", "", "missing required field `title`"),
        ("title: a", "titel: a", "unknown field `titel`"),
        ("width: budget_plus_one", "width: wide", "Invalid enum value 'wide'"),
        ("[--eager]", "--eager", "Expected `array`, got `str`"),
        ("  maxreq:", "  max_req:", "argv: 'max_req' is not a parameter. Allowed: budget, topk, block_size"),
        ('["--block={value}"]', '["--block"]', "argv: block_size: ['--block'] is not a flag and {value}"),
        ('["--block={value}"]', "[]", "argv: block_size: [] is not a flag and {value}"),
        ("MINE_TOPK", "MINE-TOPK", "env: 'MINE-TOPK' is not the name of an environment variable"),
        ("topk: MINE_TOPK", "budget: B", "env: budget is in argv already"),
        (
            "env: {topk: MINE_TOPK}",
            "env: {}",
            "capabilities: topk is true, but neither argv nor env has topk",
        ),
        ("tree: true", "tree: false", "capabilities: topk is true, but tree is false"),
        ("served: {budget:", "served: {graphs:", "served: 'graphs' is not a parameter"),
        ("width:", "owned: [eager]\nwidth:", "owned: 'eager' is not a flag such as --page-size"),
        ("name: mine", "name: [", "cannot be read"),
    ],
)
def test_a_malformed_file_is_refused_with_what_is_wrong(tmp_path, old, new, message):
    assert message in changed(tmp_path, old, new)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(DialectError, match="does not exist"):
        dialects.load(str(tmp_path / "none.yml"))
    with pytest.raises(DialectError, match="cannot be read"):
        dialects.load(f"{tmp_path}/")
    (tmp_path / "list.yml").write_text("[1]", encoding="utf-8")
    with pytest.raises(DialectError, match="Expected `object`, got `array`"):
        dialects.load(str(tmp_path / "list.yml"))


def test_argparse_reads_what_is_written(mine):
    """The words, through the parser that SGLang uses, come out as the values that went in."""
    program = (
        "import argparse, json; p = argparse.ArgumentParser(); p.add_argument('--speculative-algorithm');"
        "p.add_argument('--tree-nodes', type=int); p.add_argument('--block', type=int);"
        "p.add_argument('--max-running-requests', type=int); p.add_argument('--eager', action='store_true');"
        "print(json.dumps(vars(p.parse_args())))"
    )
    words = dialects.argv(mine, EAGER)
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert '"tree_nodes": 16, "block": 8, "max_running_requests": 64, "eager": true' in done.stdout


@pytest.mark.parametrize("name", dialects.names())
def test_budget_zero_is_the_service_without_speculation(name: str) -> None:
    dialect = dialects.load(name)
    key = {"budget": 0, "topk": 8, "maxreq": 32, "block_size": 8, "graphs": True}
    words = dialects.argv(dialect, key)
    assert [word for word in words if "speculative" in word] == []
    assert "32" in words
    assert dialects.env(dialect, key) == {}
    assert dialects.served(dialect, key)["speculative_algorithm"] is None
    assert set(dialects.served(dialect, key)) & {"speculative_num_draft_tokens"} == set()
    assert dialects.expected_width(dialect, key) == 1
    assert dialects.broken_rules(dialect, key, complete=True) == []
