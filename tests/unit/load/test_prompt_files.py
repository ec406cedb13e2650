"""Prompts from users' files and public benchmarks, and how they are sent: packed, and only what is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from treeline import load_request, material, prompt_files
from treeline_target import load_material

FILES: dict[str, tuple[Any, list[str]]] = {
    "own.jsonl": ([{"prompt": "one"}, {"prompt": "two", "id": 2}], ["one", "two"]),
    "texts.jsonl": (["one", "two"], ["one", "two"]),
    "chat.jsonl": (
        [{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "ask"}]}],
        ["ask"],
    ),
    "gsm8k.jsonl": ([{"question": "How many?", "answer": "#### 3"}], ["How many?"]),
    "humaneval.jsonl": (
        [
            {
                "task_id": "HumanEval/0",
                "prompt": "def f():",
                "canonical_solution": "  pass",
                "test": "assert f",
            }
        ],
        ["def f():"],
    ),
    "mt_bench.jsonl": (
        [{"question_id": 81, "category": "writing", "turns": ["Compose.", "Rewrite."]}],
        ["Compose."],
    ),
    "math.jsonl": ([{"problem": "x?", "solution": "1"}], ["x?"]),
    "mbpp.jsonl": ([{"text": "Write a function.", "code": "..."}], ["Write a function."]),
    "alpaca.json": ([{"instruction": "Sort.", "input": "3 1", "output": "1 3"}], ["Sort.\n\n3 1"]),
    "sharegpt.json": (
        [
            {
                "id": "a",
                "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}],
            },
            {"id": "b", "conversations": [{"from": "gpt", "value": "begins itself"}]},
            {"id": "c", "conversations": []},
        ],
        ["Hi"],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_each_kind_of_file_is_understood(tmp_path: Path, name: str) -> None:
    entries, prompts = FILES[name]
    path = tmp_path / name
    lines = json.dumps(entries) if name.endswith(".json") else "\n".join(map(json.dumps, entries)) + "\n\n"
    path.write_text(lines, encoding="utf-8")
    assert prompt_files.read(path) == prompts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prompt": "fine"}\n{"prompt": "broken\n', "line 2 is not JSON"),
        ('{"reply": "?"}\n', "line 1 is not understood; entries with prompt, text, question"),
        ('[{"prompt": "fine"}, 3]', "entry 2 is not understood"),
        ("[1, 2", "is not JSON"),
        ("", "holds no prompt"),
        ('{"prompt": "  "}', "holds no prompt"),
    ],
)
def test_a_file_that_is_not_understood_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(material.MaterialError, match=words) as error:
        prompt_files.read(path)
    assert str(path) in str(error.value)
    with pytest.raises(material.MaterialError, match="cannot be read"):
        prompt_files.read(tmp_path / "missing.jsonl")


def test_the_seed_chooses_what_is_sent_each_prompt_once(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps(f"prompt {at % 400}") + "\n" for at in range(800)))
    chosen = prompt_files.choose([path], 50, "a")
    assert len(set(chosen)) == len(chosen) == 50
    assert prompt_files.choose([path], 50, "a") == chosen != prompt_files.choose([path], 50, "b")
    assert len(prompt_files.choose([path], 1000, "a")) == 400


def test_the_shipped_texts_are_taken_where_nothing_is_named() -> None:
    sent = load_request.packed(
        {"client_keys": [{"concurrency": 2}], "canaries": [{"id": "a"}], "out_dir": "/x"}
    )
    assert set(sent) == {"client_keys", "out_dir", "material"}
    assert len(sent["material"]) < sum(map(len, material.prompts())) / 3
    found = load_material.unpack(sent["material"])
    assert found == {"prompts": material.prompts(), "canaries": [{"id": "a"}], "questions": False}


def test_of_files_only_what_the_load_needs_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps(f"prompt {at}") + "\n" for at in range(5000)))
    task = {
        "client_keys": [{"concurrency": 4}],
        "prompt_files": "many.jsonl",
        "repeats": 2,
        "prompts_seed": "s",
    }
    found = load_material.unpack(load_request.packed(task, lambda name: tmp_path / name)["material"])
    assert found["questions"]
    assert len(found["prompts"]) == load_request.needed(task) == load_request.SPARE + 2 * 8


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"prompts": ["a"], "prompt_files": ["b"]}, "exclude each other"),
        ({"prompts": 3}, "prompts: a list of texts"),
        ({"canaries": ["what?"]}, "canaries: a list of mappings"),
        ({"canaries": [{"id": object()}]}, "canaries: not plain values"),
    ],
)
def test_what_cannot_be_sent_is_refused(task: dict[str, Any], words: str) -> None:
    with pytest.raises(material.MaterialError, match=words):
        load_request.packed(task)
