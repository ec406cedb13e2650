"""The action plugin and the filters inside a real ansible-playbook run, on the controller alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from treeline import material

REPOSITORY = Path(__file__).resolve().parents[3]
NAMES = ("budget", "topk", "graphs", "concurrency", "points")
GIVEN = {name: f"{{{{ {name} | default(none) }}}}" for name in NAMES}


def task(name: str, variables: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """A request whose result is kept, failed or not."""
    register = f"result_{name}"
    request = {"variables": variables, "group": "sglang", "group_hosts": ["lab1"], **more}
    return [
        {
            "name": f"Request {name}",
            "block": [{"name": "Ask", "treeline_request": request, "register": register}],
            "rescue": [{"name": "Go on", "ansible.builtin.meta": "noop"}],
        }
    ]


def refused(name: str, fact: dict[str, Any]) -> dict[str, Any]:
    """A fact that cannot be set; the message of its failure is kept under ``name``."""
    kept = {name: "{{ ansible_failed_result.msg }}"}
    return {
        "name": f"Refuse {name}",
        "block": [{"name": "Set", "ansible.builtin.set_fact": fact}],
        "rescue": [{"name": "Keep", "ansible.builtin.set_fact": kept}],
    }


def play(folder: Path, tasks: list[dict[str, Any]], *extra: str) -> dict[str, Any]:
    """Run the tasks on localhost; return the registered results by name, and the output as ``output``."""
    names = "query('varnames', '^result_')"
    # Written by the play, so that what is checked is what a later task would get. The connection is this
    # task's alone: the inventory's localhost means ssh, which the tasks under test must not try.
    keep = {
        "name": "Keep the results",
        "connection": "local",
        "vars": {"ansible_python_interpreter": sys.executable},
        "ansible.builtin.copy": {
            "content": f"{{{{ dict({names} | zip(query('vars', *{names}))) | to_json }}}}",
            "dest": str(folder / "results.json"),
            "mode": "0600",
        },
    }
    content = [{"name": "Test", "hosts": "localhost", "gather_facts": False, "tasks": [*tasks, keep]}]
    (folder / "play.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
    environment = os.environ | {"ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"), "ANSIBLE_FORKS": "1"}
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-i",
        "localhost,",
        str(folder / "play.yml"),
    ]
    command += [word for assignment in extra for word in ("-e", assignment)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {name.removeprefix("result_"): value for name, value in results.items()} | {"output": done.stdout}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("good")
    (folder / "mine.csv").write_text("budget,maxreq\n16,64\n8,128\n", encoding="utf-8")
    key = "result_grid.plan['items'][0].key"
    spelt = {
        "result_argv": f"{{{{ 'field' | treeline_argv({key}, {{'--page-size': 1}}) }}}}",
        "result_served": f"{{{{ 'field' | treeline_served({key}) }}}}",
        "result_width": f"{{{{ 'field' | treeline_expected_width({key}) }}}}",
        "result_env": f"{{{{ 'pr29907' | treeline_env({key}) }}}}",
        "result_rules": f"{{{{ 'pr29907' | treeline_broken_rules({key}) }}}}",
    }
    shipped = {"result_canaries": "{{ query('treeline_material', 'canaries') }}"}
    stray = {"result_stray": "{{ query('treeline_material', 'canary') }}"}
    owned = {"result_owned": f"{{{{ 'field' | treeline_argv({key}, ['--port=1']) }}}}"}
    tasks = [
        *task("grid", GIVEN, found_units=["sglang-ddtree.service"], forecast_load_s="20"),
        *task("points", {"points": "mine.csv"}, rows_prior="{{ 1100 | int }}"),
        *task("notes", {"points": "field-notes.yml"}),
        *task("bad", {"budget": "8,,16", "graphs": "maybe"}, group_hosts=[]),
        *task("number", {"budget": 8}, forecast_load_s="soon"),
        {"name": "Spell the first key", "ansible.builtin.set_fact": spelt | shipped},
        refused("result_owned", owned),
        refused("result_stray", stray),
    ]
    return play(folder, tasks, "budget=8,16", '{"topk": [4], "graphs": true, "concurrency": 1}')


def test_a_request_becomes_a_plan(good):
    result = good["grid"]
    assert [item["key"]["budget"] for item in result["plan"]["items"]] == [16, 8]
    assert result["plan"]["items"][1]["key"] == {
        "budget": 8,
        "topk": 4,
        "maxreq": 128,
        "block_size": 8,
        "graphs": True,
        "graph_max_bs": None,
        "attention_backend": None,
    }
    assert result["plan"]["items"][0]["client_keys"] == [{"concurrency": 1, "context": None}]
    assert result["changed"] is False
    assert (result["dialect"], len(result["plan_hash"])) == ("field", 8)
    assert result["options"]["ready_timeout"] == 1800
    assert result["variables"] == {"budget": "8,16", "topk": [4], "graphs": True, "concurrency": 1}


def test_the_forecast_is_printed(good):
    for line in good["grid"]["forecast"]:
        assert line in good["output"]
    assert "20s until the engine serves" in good["output"]
    assert good["grid"]["forecast_trial_s"] == 20 + 120 + 10
    assert "sglang-ddtree.service" in good["output"]


def test_points_are_found_beside_the_user_and_among_the_shipped_plans(good):
    assert [item["key"]["budget"] for item in good["points"]["plan"]["items"]] == [16, 8]
    assert "above the prior of 1100" in good["points"]["plan"]["items"][1]["reason"]
    assert len(good["notes"]["plan"]["items"]) == 7


def test_a_bad_request_fails_with_all_problems_and_without_a_traceback(good):
    result = good["bad"]
    assert result["failed"] is True
    assert result["msg"].startswith("3 problems with the variables of this run:\n")
    assert "budget: '8,,16' has an empty entry (given with -e)" in result["msg"]
    assert "graphs: 'maybe' is neither on nor off (given with -e)" in result["msg"]
    assert "Traceback" not in good["output"]


def test_a_bad_number_of_the_playbook_is_named(good):
    assert "forecast_load_s: 'soon' is not a number >= 0" in good["number"]["msg"]


def test_the_filters_spell_a_key(good):
    assert good["argv"][:4] == ["--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "16"]
    assert good["argv"][-2:] == ["--page-size", "1"]
    assert good["served"]["speculative_ddtree_budget"] == 16
    assert good["width"] == 17
    assert good["env"] == {"SGLANG_DDTREE_MAX_TOPK": "4"}
    assert "needs --page-size 1" in good["rules"][0]
    assert "'--port=1' sets --port, which Treeline writes itself" in good["owned"]


def test_the_material_of_a_load_is_looked_up(good):
    assert good["canaries"] == material.canaries()
    assert "treeline_material: 'canary'. Allowed: canaries" in good["stray"]


def test_names_given_with_e_are_checked(tmp_path):
    result = play(tmp_path, task("typo", GIVEN), "budget=8, 16", "grafs=off", "sglang_ddtree_tp_size=4")[
        "typo"
    ]
    lines = result["msg"].splitlines()[1:]
    assert [line.removeprefix("  - ").split(":")[0] for line in lines] == ["grafs", "-e", "budget"]
    assert "Did you mean graphs?" in result["msg"]


def test_a_broken_catalogue_of_the_user_is_named_before_any_host_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.yml"
    own.write_text("schema_version: 1\nclasses: [{id: x}]\n", encoding="utf-8")
    monkeypatch.setenv("TREELINE_CATALOGUE", str(own))
    said = play(tmp_path, task("own", {"budget": "16"}))["own"]
    assert said["failed"]
    assert "TREELINE_CATALOGUE" in said["msg"]
    assert "own.yml" in said["msg"]
