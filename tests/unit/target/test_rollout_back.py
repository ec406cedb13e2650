"""Which hosts of a failed wave are put back, and what is said of them: the conditions of the tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

TASKS = Path(__file__).resolve().parents[3] / "playbooks" / "tasks"
BACK = {one["name"]: one for one in yaml.safe_load((TASKS / "rollout_back.yml").read_text())}
(HOST,) = yaml.safe_load((TASKS / "rollout_host.yml").read_text())
EXPRESSIONS = jinja2.Environment(undefined=jinja2.ChainableUndefined, autoescape=False)  # noqa: S701


def runs(name: str, **given: Any) -> bool:
    """Whether a step runs: all its conditions hold."""
    when = BACK[name]["when"]
    conditions = [when] if isinstance(when, str) else when
    return all(EXPRESSIONS.compile_expression(one)(**given) for one in conditions)


@pytest.mark.parametrize("kept", [{}, {"entry": {"running": True}}, {"failed": True, "msg": "no"}, None])
@pytest.mark.parametrize("resumed", [True, False])
def test_what_an_earlier_run_changed_goes_back_too(kept: dict[str, Any] | None, resumed: bool) -> None:
    """A host that an earlier run deployed is not changed by this one, and goes back all the same."""
    given: dict[str, Any] = {"__treeline_rollout": {"resumed": resumed}}
    if kept is not None:
        given["__treeline_kept"] = kept
    wanted = bool(kept) or resumed
    given["__treeline_back"] = {"elapsed": 1}
    assert runs("As it was", **given) is wanted
    assert runs("Off the router's list", **given) is wanted
    assert runs("It was not changed", **given) is not wanted
    # A host that does not answer is not asked again, and nobody says that it was not changed.
    given["__treeline_back"] = {"elapsed": 10, "msg": "timed out"}
    assert not any(
        runs(name, **given) for name in ("As it was", "Off the router's list", "It was not changed")
    )
    assert runs("It does not answer", **given)
    # Hosts that no run has changed have no copy.
    (restore,) = BACK["As it was"]["block"]
    assert restore["treeline_previous"]["untouched_ok"] is True


def test_each_step_that_needs_the_host_has_a_rescue_of_its_own() -> None:
    """Without one, a host that goes away in it ends the play for all hosts of its wave."""
    local = ("ansible.builtin.set_fact",)
    assert all("rescue" in step or any(name in step for name in local) for step in BACK.values())


@pytest.mark.parametrize(
    ("restored", "before", "serves"),
    [
        ({"restored": True, "running": True}, {"entry": {"running": True}}, "True"),
        ({"restored": True, "running": False}, {"entry": {"running": True}}, "False"),
        ({"restored": False, "running": True}, {"entry": {"running": True}}, "False"),
        ({"restored": True}, {"entry": {"running": False}}, "False"),
        ({"restored": True}, {}, "True"),
        ({}, {}, "False"),
    ],
)
def test_a_service_that_did_not_run_before_does_not_serve_again(
    restored: dict[str, Any], before: dict[str, Any], serves: str
) -> None:
    text = EXPRESSIONS.from_string(HOST["vars"]["__treeline_serves_again"])
    given = {"__treeline_restored": restored, "__treeline_before": before}
    assert text.render(**given) == serves
