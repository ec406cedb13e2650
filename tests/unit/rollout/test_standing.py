"""What a rollout means for the inventory, and what is noted after it is over."""

from __future__ import annotations

from pathlib import Path

import yaml
from msgspec.structs import replace
from recorded import B300, ME, NOW, add_trial
from treeline.rollout import intended, objectives, opening, standing
from treeline.rollout.choose import Asked
from treeline.rollout.records import HostLine, RolloutStore

HOSTS = {"h1": B300, "h2": B300}


def rolled_out(results: Path) -> RolloutStore:
    add_trial(results, 1, 16)
    asked = Asked("best", objectives.parse("throughput@32"), 30, False, NOW)
    opened = opening.open_rollout(results, asked, "1, 100 %", HOSTS, ME)
    store = RolloutStore(opened.folder)
    for number, host in enumerate(HOSTS, 1):
        store.append(
            HostLine(
                rollout_id=opened.rollout.rollout_id,
                host=host,
                wave=number,
                hardware_class="8x B300",
                state="deployed",
                at="2099-01-01T00:00:00.000Z",
            )
        )
    return store


def test_the_variables_of_a_rollout_are_what_its_hosts_were_given(tmp_path: Path) -> None:
    store = rolled_out(tmp_path)
    path = standing.write_variables(store, store.read())
    given = yaml.safe_load(path.read_text(encoding="utf-8"))["8x B300"]
    assert given["sglang_ddtree_budget"] == 16
    assert given["sglang_ddtree_dialect"] == "field"
    assert set(given) == {f"sglang_ddtree_{name}" for name in ("dialect", *HOSTS_KEY)}


def test_a_deployment_names_what_it_would_undo(tmp_path: Path) -> None:
    store = rolled_out(tmp_path)
    meant = intended.intended(tmp_path, "h1")
    assert meant is not None
    same = meant.key.to_dict()
    assert standing.undone_by_inventory(meant, same, "field") == ()
    assert standing.undone_by_inventory(meant, {**same, "budget": "8", "graphs": False}, "field") == (
        "budget 16 (the inventory says 8)",
        "graphs true (the inventory says false)",
    )
    assert standing.undone_by_inventory(intended.intended(tmp_path, "h9"), same, "field") == ()
    assert store.latest()["h1"].state == "deployed"


def test_after_a_deployment_over_it_the_inventory_counts(tmp_path: Path) -> None:
    store = rolled_out(tmp_path)
    name = store.folder.name
    assert standing.note(tmp_path, name, "h1", "released", "deployed over")
    assert intended.intended(tmp_path, "h1") is None
    assert intended.intended(tmp_path, "h2") is not None
    assert not standing.note(tmp_path, name, "h9", "released", "had no part")
    assert not standing.note(tmp_path, "20990101T000000Z-00000000", "h1", "released", "no such rollout")


def test_a_rollback_takes_back_newer_rollouts_that_found_the_host_so(tmp_path: Path) -> None:
    older = rolled_out(tmp_path)
    line = older.latest()["h1"]
    newer = RolloutStore(older.folder.with_name("20990101T000000Z-00000000"))
    newer.write(replace(older.read(), rollout_id=newer.folder.name))
    newer.append(replace(line, rollout_id=newer.folder.name, state="unchanged"))
    assert standing.note(tmp_path, older.folder.name, "h1", "rolled_back", "by hand")
    assert (newer.latest()["h1"].state, older.latest()["h1"].state) == ("rolled_back", "rolled_back")
    assert intended.intended(tmp_path, "h1") is None


def test_hosts_know_their_wave(tmp_path: Path) -> None:
    name = rolled_out(tmp_path).folder.name
    assert [standing.wave_of(tmp_path, which, "h2") for which in ("last", name, "another")] == [2, 2, 0]
    assert standing.wave_of(tmp_path, "last", "h9") == 0


def test_the_last_rollout_of_a_host_is_the_one_that_changed_it(tmp_path: Path) -> None:
    older = rolled_out(tmp_path)
    newer = RolloutStore(older.folder.with_name("20990101T000000Z-00000000"))
    waves = tuple(replace(wave, number=wave.number + 10) for wave in older.read().waves)
    newer.write(replace(older.read(), rollout_id=newer.folder.name, waves=waves))
    for host, state in (("h1", "unchanged"), ("h2", "deployed")):
        newer.append(replace(older.latest()[host], rollout_id=newer.folder.name, state=state))
    assert [standing.wave_of(tmp_path, "last", host) for host in HOSTS] == [1, 12]
    assert standing.wave_of(tmp_path, newer.folder.name, "h1") == 11


HOSTS_KEY = ("budget", "topk", "maxreq", "block_size", "graphs", "graph_max_bs", "attention_backend")
