"""Every fault profile of the reference engine through sweep.yml: one trial each, on whichever host is free.

What a profile declares must be on record. What was right is kept in pytest's cache and not run again until a
source changes, so an interrupted run goes on where it was (`--cache-clear` forgets). The table at the end
tells all. Kernel lines of a profile go to the lab's stand-in for the kernel log. No trial is begun any more
TREELINE_LONG_MINUTES (25) after the first; what is left is skipped, and the next call does it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from declared import differences, expected
from harness import HOSTS, Target, digest, number
from treeline_reference_engine import profiles
from treeline_reference_engine.data_files import packaged

CRASHES, LOAD = sorted(packaged("crashes")), sorted(packaged("load"))
KERNEL_LOG = "/var/log/treeline-kernel.log"
MAXREQ = 8
FLAGS = {"time-scale": 0.003, "decode-time-scale": 2, "kernel-log": KERNEL_LOG}
USUAL: dict[str, Any] = {"budget": 4, "topk": 4, "maxreq": MAXREQ, "max_trials_per_run": 1}
DIES: dict[str, Any] = {"concurrency": 2, "treeline_max_tokens": 16}
# Enough requests, tokens and company for what begins late, or in a batch of eight alone.
LIVES: dict[str, Any] = {"concurrency": 8, "treeline_max_tokens": 64, "treeline_requests_per_key": 40}
LIVES |= {"treeline_load_bound_s": 240, "treeline_no_token_timeout_s": 10, "treeline_forecast_measure_s": 60}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "stall-in-warmup": {"ready_timeout": 8},
    # A stream that falls silent fails by itself after a minute; until then others are waited for.
    "http-stall": {"treeline_no_token_timeout_s": 100, "treeline_load_bound_s": 500},
}
COLUMNS = ("status", "class", "phase", "step", "kind", "rank", "captured_bs")

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@dataclass
class Runs:
    """Starts a trial for each profile that is asked for, on whichever host is free."""

    target: Target
    folder: Path
    remembered: pytest.Cache
    pool: ThreadPoolExecutor
    until: float
    free: SimpleQueue[str] = field(default_factory=SimpleQueue)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    pending: dict[str, Future[dict[str, Any]]] = field(default_factory=dict)

    def ask(self, names: list[str]) -> None:
        """Begin with all that is not known."""
        for name in names:
            known = self.remembered.get(f"treeline/profiles/{name}", None)
            if known and known["sources"] == digest():
                self.records[name] = known["record"]
            else:
                self.pending[name] = self.pool.submit(self._trial, name)

    def record(self, name: str) -> dict[str, Any]:
        """The first trial's `finished` line, waited for."""
        if name not in self.records:
            self.records[name] = self.pending[name].result()
        return self.records[name]

    def was_right(self, name: str) -> None:
        """Remember it, so that the next run need not repeat it."""
        kept = {"sources": digest(), "record": self.records[name]}
        self.remembered.set(f"treeline/profiles/{name}", kept)

    def _trial(self, name: str) -> dict[str, Any]:
        if time.monotonic() > self.until:
            pytest.skip("no time is left; run it again to go on")
        host = self.free.get()
        try:
            inventory = self.folder / host / "hosts.yml"
            target = Target(self.target.lab, inventory, (host,), self.folder / name)
            output = target.run(
                "sweep.yml",
                expect=None,
                timeout=900,
                sglang_ddtree_extra_args={**FLAGS, "fault-profile": name},
                sglang_ddtree_service_options={"ReadWritePaths": KERNEL_LOG},
                **{**USUAL, **(DIES if name in CRASHES else LIVES), **ARGUMENTS.get(name, {})},
            )
            trials = target.finished()
            if not trials:
                raise AssertionError(f"{name}: no trial is on record:\n{output[-4000:]}")
            return trials[0]
        finally:
            self.free.put(host)


@pytest.fixture(scope="module")
def runs(
    two_hosts: Target, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Runs]:
    """The runner, with all profiles of this session under way; prints the table when all have been seen."""
    folder = tmp_path_factory.mktemp("profiles")
    before = {}
    with ThreadPoolExecutor(len(HOSTS)) as pool:
        cache_ = request.config.cache
        assert cache_ is not None
        until = time.monotonic() + 60 * number("TREELINE_LONG_MINUTES", 25)
        running = Runs(two_hosts, folder, cache_, pool, until)
        for host, address in HOSTS.items():
            before[host] = two_hosts.found_state(host)
            two_hosts.on(host, "chmod", "a+w", KERNEL_LOG)
            two_hosts.lab.write_inventory(folder / host / "hosts.yml", {host: address})
            running.free.put(host)
        mine = [item for item in request.session.items if item.module is request.module]
        running.ask([item.callspec.params["name"] for item in mine])
        try:
            yield running
        finally:
            pool.shutdown(cancel_futures=True)
            capture = request.config.pluginmanager.getplugin("capturemanager")
            with capture.global_and_fixture_disabled():
                print(f"\n{table(running.records)}")
    assert {host: two_hosts.found_state(host) for host in HOSTS} == before


@pytest.mark.parametrize("name", [*CRASHES, *LOAD])
def test_a_profile_is_on_record_as_it_declares(runs: Runs, name: str) -> None:
    record, rule = runs.record(name), profiles.load(name).rules[0]
    wrong = differences(record, expected(rule, MAXREQ))
    assert not wrong, f"{name}: {wrong}; first error: {record['first_error']}"
    assert set(rule.expect.get("secondary", ())) <= set(record["secondary"])
    runs.was_right(name)


def table(records: dict[str, dict[str, Any]]) -> str:
    """What came of each profile, with an exclamation mark where it is not what was declared."""
    rows = [("", "profile", *COLUMNS, "seconds", "first error")]
    for name, record in records.items():
        wrong = differences(record, expected(profiles.load(name).rules[0], MAXREQ))
        cells = ["-" if record.get(column) is None else str(record[column]) for column in COLUMNS]
        seconds = f"{record['times']['total_s']:.0f}"
        rows.append(("!" if wrong else "", name, *cells, seconds, (record["first_error"] or "")[:70]))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
