"""A rollout on disk: begun, resumed, judged, closed and shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from recorded import B300, H200, ME, NOW, add_trial
from treeline.cli import main
from treeline.controller import this_controller
from treeline.records import Controller, Provenance
from treeline.rollout import judge, objectives, opening
from treeline.rollout.choose import Asked
from treeline.rollout.errors import RolloutRefusedError
from treeline.rollout.intended import intended
from treeline.rollout.records import HostLine, HostState, Reference, RolloutStore

HOSTS = {"h1": B300, "h2": B300, "h3": B300}


def begin(results: Path, me: Controller = ME, hosts: Mapping[str, Provenance] = HOSTS) -> opening.Opened:
    asked = Asked("best", objectives.parse("throughput@32"), 30, False, NOW)
    return opening.open_rollout(results, asked, "1, 100 %", hosts, me)


def tell(opened: opening.Opened, host: str, state: HostState, at: str = "2099-01-01T00:00:00.000Z") -> None:
    RolloutStore(opened.folder).append(
        HostLine(
            rollout_id=opened.rollout.rollout_id,
            host=host,
            wave=1,
            hardware_class="8x B300",
            state=state,
            at=at,
            reason="canaries" if state == "rolled_back" else "",
        )
    )


def test_a_stopped_rollout_is_resumed_and_a_complete_one_is_not(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8)
    first = begin(tmp_path)
    assert (first.resumed, first.rollout.waves[0].hosts, first.unjudged) == (False, ("h1",), ())
    tell(first, "h1", "deployed")
    tell(first, "h2", "rolled_back")
    outcome, reason = opening.close_rollout(RolloutStore(first.folder), ME)
    assert (outcome, reason) == ("stopped", "1 host(s) have the configuration; not h2; not touched: h3")

    again = begin(tmp_path)
    assert (again.resumed, again.folder) == (True, first.folder)
    assert again.unjudged == ("h2", "h3")
    for host in HOSTS:
        tell(again, host, "deployed", "2099-01-02T00:00:00.000Z")
    assert opening.close_rollout(RolloutStore(first.folder), ME)[0] == "complete"
    assert begin(tmp_path).resumed is False


def test_after_an_upgrade_the_same_key_is_another_rollout(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8)
    first = begin(tmp_path)
    tell(first, "h1", "rolled_back")
    opening.close_rollout(RolloutStore(first.folder), ME)
    newer = replace(B300, engine_build="sglang 0.5.24")
    trial_id = add_trial(tmp_path, 2, 8, provenance=newer, dialect="pr29907", tok_s=90.0)
    second = begin(tmp_path, hosts=dict.fromkeys(HOSTS, newer))
    assert (second.resumed, second.unjudged) == (False, ())
    given = second.rollout.chosen["8x B300"]
    assert (given.trial_id, given.dialect, given.measured) == (trial_id, "pr29907", newer)
    assert given.reference is not None
    assert given.reference.tok_s == (90.0,)
    # Another dialect alone makes it another one, too.
    opening.close_rollout(RolloutStore(second.folder), ME)
    again = RolloutStore(second.folder).read()
    again.chosen = {"8x B300": replace(given, dialect="field")}
    RolloutStore(second.folder).write(again)
    assert not begin(tmp_path, hosts=dict.fromkeys(HOSTS, newer)).resumed


def test_a_complete_rollout_of_other_hosts_hides_nothing(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8)
    first = begin(tmp_path)
    tell(first, "h1", "rolled_back")
    opening.close_rollout(RolloutStore(first.folder), ME)
    other = RolloutStore(first.folder.with_name("20990101T000000Z-00000000"))
    whole = first.rollout
    done = {"rollout_id": other.folder.name, "outcome": "complete"}
    other.write(replace(whole, hosts={"h9": B300}, **done))
    again = begin(tmp_path)
    assert (again.resumed, again.folder) == (True, first.folder)
    other.write(replace(whole, hosts={"h3": B300, "h9": B300}, **done))
    assert not begin(tmp_path).resumed


def test_a_rollout_that_runs_refuses_a_second_one(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8)
    begin(tmp_path, this_controller())
    with pytest.raises(RolloutRefusedError, match="is being run by"):
        begin(tmp_path, ME)


def test_a_preview_writes_nothing(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8)
    before = sorted(tmp_path.rglob("*"))
    asked = Asked("best", objectives.parse("throughput@32"), 30, False, NOW)
    assert opening.preview(tmp_path, asked, "1", HOSTS).rollout.chosen["8x B300"].key.budget == 8
    assert sorted(tmp_path.rglob("*")) == before


def test_a_host_is_meant_to_serve_what_the_last_good_rollout_left(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8)
    first = begin(tmp_path)
    tell(first, "h1", "deployed")
    tell(first, "h2", "rolled_back")
    found = intended(tmp_path, "h1")
    assert found is not None
    assert (found.key.budget, found.dialect) == (8, "field")
    assert intended(tmp_path, "h2") is None


def test_rollouts_are_listed_and_told(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8)
    first = begin(tmp_path)
    tell(first, "h1", "deployed")
    tell(first, "h2", "rolled_back")
    opening.close_rollout(RolloutStore(first.folder), ME)
    runner = CliRunner()
    listed = runner.invoke(main, ["rollouts", "--results", str(tmp_path)])
    assert "stopped  8x B300: b8 k8 m64 graphs on  (1 deployed, 1 rolled_back)" in listed.output
    told = runner.invoke(main, ["rollouts", first.rollout.rollout_id[:12], "--results", str(tmp_path)])
    assert "wave 1 (canary), 8x B300" in told.output
    assert "h2: rolled_back" in told.output
    assert "h3: not touched" in told.output
    assert runner.invoke(main, ["rollouts", "--results", str(tmp_path / "none")]).exit_code == 1
    unknown = runner.invoke(main, ["rollouts", "1999", "--results", str(tmp_path)])
    assert unknown.exit_code == 1
    assert f"1999: no rollout's id begins so. In {tmp_path}: {first.rollout.rollout_id}" in unknown.output


def reference(*tok_s: float) -> Reference:
    return Reference(concurrency=32, context=None, tok_s=tok_s)


def test_speed_is_held_against_an_interval() -> None:
    near = judge.compare_speed([98.0], reference(100.0))
    assert (near.slower, near.ratio) == (False, pytest.approx(0.98))
    far = judge.compare_speed([90.0, 90.5, 89.5], reference(100.0))
    assert far.slower
    # Three recorded lives that hardly differ: the same 3 % are clear then.
    assert judge.compare_speed([97.0, 97.1], reference(100.0, 100.1, 99.9)).slower
    assert not judge.compare_speed([97.0, 97.1], reference(100.0)).slower
    assert judge.compare_speed([], reference(100.0)).ratio is None
    assert judge.compare_speed([50.0], None).slower is False


def load(**changes: object) -> dict[str, object]:
    canaries = [{"id": str(n), "ok": True, "phase": "single"} for n in range(8)]
    point = {
        "concurrency": 32,
        "requests": 64,
        "failed": 0,
        "output_tok_s": 100.0,
        "completion_tokens": 4500,
        "verify_calls": 1000,
        "prefix_cache_share": 0.0,
    }
    return {"outcome": "done", "canaries": canaries, "points": [{**point, **changes}]}


def test_a_host_is_judged_by_gates_and_speed(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8, tok_s=100.0, al=4.5)
    chosen = begin(tmp_path).rollout.chosen["8x B300"]
    assert judge.judge(load(), chosen).passed
    slow = judge.judge(load(output_tok_s=70.0), chosen)
    assert (slow.passed, "clearly slower than recorded" in slow.reason) == (False, True)
    collapsed = judge.judge(load(verify_calls=4500), chosen)
    assert (collapsed.passed, "gate acceptance" in collapsed.reason) == (False, True)
    # Half of what was accepted when the row was recorded, and still well above the floor.
    accepting = judge.judge(load(verify_calls=2100), chosen)
    assert (accepting.passed, "gate acceptance_vs_anchor" in accepting.reason) == (False, True)
    dead = judge.judge({"outcome": "died", "msg": "the unit died", "canaries": [], "points": []}, chosen)
    assert (dead.passed, "the unit died" in dead.reason) == (False, True)


def test_figures_that_are_no_measurement_are_no_fault_of_the_host(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8, tok_s=100.0)
    chosen = begin(tmp_path).rollout.chosen["8x B300"]
    cached = judge.judge(load(output_tok_s=70.0, prefix_cache_share=0.5), chosen)
    assert [gate.name for gate in cached.gates if gate.verdict == "failed"] == ["prefix_cache"]
    assert (cached.passed, cached.speed.ratio) == (True, None)
    assert "not compared" in cached.speed.text


def test_hosts_of_other_classes_are_chosen_for_apart(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8)
    asked = Asked("best", objectives.parse("throughput@32"), 30, False, NOW)
    with pytest.raises(RolloutRefusedError, match="8x H200"):
        opening.preview(tmp_path, asked, "1", {"h1": B300, "h2": replace(H200, model="k2")})
