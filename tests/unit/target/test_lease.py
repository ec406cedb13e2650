"""The lease's rules that need no systemd: who may hold it, when it fires, what late modules are told."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest
from treeline_target import clock, lease, lease_units
from treeline_target.files import Paths, read_json, write_json

HOLDER = {"sweep_id": "s1", "host": "ctl", "boot_id": "b", "pid": 17, "pid_start": 4}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "units", tmp_path / "overrides")


def hold(paths: Paths, seconds_left: float, holder: dict[str, Any] = HOLDER) -> None:
    write_json(
        paths.lease,
        {
            "holder": holder,
            "armed_at": "2026-01-01T00:00:00Z",
            "expires_boottime": clock.boottime() + seconds_left,
            "seconds": 600,
        },
    )


@pytest.mark.parametrize("given", [None, {}])
def test_no_lease_is_no_work(given: Any, paths: Paths) -> None:
    assert lease.parse(given) is None
    lease.rearm(given, paths)
    with lease.Keeper(given, paths) as keeper:
        assert keeper.lost is None
    assert not paths.run.exists()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"seconds": "abc", "holder": HOLDER}, "lease.seconds: 'abc'"),
        ({"seconds": 1, "holder": HOLDER}, "lease.seconds: 1"),
        ({"holder": HOLDER}, "lease.seconds: None"),
        ({"seconds": 600, "holder": {"host": "ctl"}}, "lease.holder"),
        ({"seconds": 600, "holder": "me"}, "lease.holder"),
    ],
)
def test_malformed_leases_name_the_value(given: Any, named: str) -> None:
    with pytest.raises(lease.LeaseError) as caught:
        lease.parse(given)
    assert named in str(caught.value)


def test_texts_from_templates_are_the_same_holder() -> None:
    assert lease.same_holder(HOLDER, {**HOLDER, "pid": "17", "pid_start": "4"})
    assert not lease.same_holder(HOLDER, {**HOLDER, "pid": 18})


@pytest.mark.parametrize(
    ("change", "replaces", "may"),
    [
        ({}, None, True),
        ({"pid": 99}, None, True),
        ({"boot_id": "after a reboot"}, None, True),
        ({"sweep_id": "s2"}, None, False),
        ({"host": "other"}, None, False),
        ({"sweep_id": "s2"}, HOLDER, True),
        ({"sweep_id": "s2"}, {**HOLDER, "pid": 1}, False),
    ],
)
def test_who_may_take_a_live_lease_over(
    change: dict[str, Any], replaces: dict[str, Any] | None, may: bool, paths: Paths
) -> None:
    wanted = lease.Lease(600, {**HOLDER, **change}, replaces)
    hold(paths, 100)
    if may:
        lease.ensure_free(wanted, paths)
    else:
        with pytest.raises(
            lease.LeaseError, match=r"leased to sweep s1 of controller ctl \(pid 17\) for another"
        ):
            lease.ensure_free(wanted, paths)


def test_an_ended_lease_is_anybodys(paths: Paths) -> None:
    stranger = lease.Lease(600, {**HOLDER, "host": "other", "sweep_id": "s2"})
    lease.ensure_free(stranger, paths)
    hold(paths, -1)
    lease.ensure_free(stranger, paths)


def test_a_lease_in_force_passes_and_others_are_lost(paths: Paths) -> None:
    mine = lease.Lease(600, HOLDER)
    with pytest.raises(lease.LeaseLostError, match="no lease is armed"):
        lease.check(mine, paths)
    hold(paths, 100)
    lease.check(mine, paths)
    hold(paths, 100, {**HOLDER, "pid": 18})
    with pytest.raises(lease.LeaseLostError, match=r"now leased to sweep s1 of controller ctl \(pid 18\)"):
        lease.check(mine, paths)


def test_a_late_module_is_told_that_the_lease_fired(paths: Paths) -> None:
    hold(paths, -2)
    assert lease.claim_expiry(paths)
    fired = read_json(paths.lease_fired)
    assert fired is not None
    assert fired["holder"] == HOLDER
    with pytest.raises(lease.LeaseLostError, match=r"expired at .*Z and the found service was restored"):
        lease.rearm({"seconds": 600, "holder": HOLDER}, paths)
    held = lease.read_holder(paths)
    assert held is not None
    assert held["seconds_left"] < 0
    # A second attempt of the same restore goes on.
    assert lease.claim_expiry(paths)


def test_without_room_for_the_mark_the_lease_itself_becomes_it(paths: Paths) -> None:
    hold(paths, -2)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # as on a full disk, no byte can be written
    try:
        assert lease.claim_expiry(paths)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert lease.read_holder(paths) is None
    with pytest.raises(lease.LeaseLostError, match=r"expired at .* and the found service was restored"):
        lease.rearm({"seconds": 600, "holder": HOLDER}, paths)


def test_a_lost_lease_file_still_restores_what_is_owed(paths: Paths) -> None:
    assert not lease.claim_expiry(paths)
    paths.state.mkdir(parents=True)
    paths.snapshot.touch()
    assert lease.claim_expiry(paths)


def test_units_are_exact_and_quote_what_systemd_would_expand() -> None:
    timer = lease_units.timer_text(5)
    assert "OnActiveSec=5\n" in timer
    assert "AccuracySec=1s\n" in timer
    assert "StartLimitIntervalSec=0\n" in timer.partition("[Timer]")[0]
    service = lease_units.service_text('/opt/a "b"%/python', "/var/lib/x%y", 77)
    assert 'ExecStart="/opt/a \\"b\\"%%/python" -B -m treeline_target.restore --by lease\n' in service
    assert 'Environment="PYTHONPATH=/var/lib/x%%y"\n' in service
    assert "TimeoutStartSec=77\n" in service
    assert "Restart=on-failure\n" in service
