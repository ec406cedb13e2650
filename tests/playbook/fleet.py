"""A fleet for rollout tests: lab hosts in two hardware classes behind a real router, and clients of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from harness import PRODUCTION, ROOT, Target, eventually, playbook_command, sys_python
from msgspec.structs import replace
from treeline import provenance
from treeline.keys import RestartKey
from treeline.records import Provenance, utc_now
from treeline_lab import router
from treeline_lab.lab import Lab

sys.path.append(str(ROOT / "tests/unit/rollout"))
from recorded import add_trial  # the unit tests of rollouts write the same rows

KEY = "a-key-of-the-lab-0123456789"
KEY_FILE = "/etc/treeline-key"
CONCURRENCY = 4
# The reference engine at CONCURRENCY and for one client, tok/s at its own speed; simulated.
TOK_S = 500
ALONE_TOK_S = 300
# A fraction of what the engine gives: a sound host is never clearly slower than such a record.
RECORDED = 0.4
# A wave takes half a minute on two idle cores, and these are shared.
LONG = 900

_COLLECT = """- ansible.builtin.import_playbook: {root}/playbooks/preflight.yml
- hosts: sglang
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        dest: {folder}/{{{{ inventory_hostname }}}}.json
        mode: "0644"
        content: "{{{{ __treeline_preflight | to_json }}}}"
      delegate_to: localhost
      vars: {{ansible_connection: local}}
"""


@dataclass
class Fleet(Target):
    """A lab of two hardware classes behind a router, with the variables of each host."""

    router_url: str = ""
    # Simulated steps take so many times as long: long answers of few tokens, which are to be computed really.
    decode_scale: float = 1
    classes: dict[str, Provenance] = field(default_factory=dict)

    def command(self, playbook: str, **extra: Any) -> list[str]:
        """The command line a user would type; the inventory holds what is special about the fleet."""
        given = {"treeline_results_dir": str(self.results), **extra}
        flags = given.pop("flags", [])
        return playbook_command(playbook, self.inventory, given, *flags)

    def with_results(self, results: Path) -> Fleet:
        """The same hosts with a results folder of its own."""
        return Fleet(
            self.lab, self.inventory, self.hosts, results, self.router_url, self.decode_scale, self.classes
        )

    def workers(self) -> dict[str, bool]:
        """The router's list: healthy or not by the name of the host."""
        text = self.from_lab("curl", "-s", "-m", "5", f"{self.router_url}/workers")
        healthy = {entry["url"]: entry["is_healthy"] for entry in json.loads(text)["workers"]}
        return {host: healthy[url] for host in self.hosts if (url := self.url(host)) in healthy}

    def router_answers(self) -> bool:
        """Whether the router is up."""
        try:
            self.workers()
        except (subprocess.CalledProcessError, ValueError):
            return False
        return True

    def register_all(self) -> None:
        """Put every host that is missing on the router's list."""
        listed = self.workers()
        for host in self.hosts:
            if host not in listed:
                body = json.dumps({"url": self.url(host), "api_key": KEY})
                self.from_lab(
                    *("curl", "-sf", "-X", "POST", f"{self.router_url}/workers"),
                    *("-H", "Content-Type: application/json", "-d", body),
                )
        eventually("the router knows every host", lambda: len(self.workers()) == len(self.hosts))

    def url(self, host: str) -> str:
        """A worker as the router knows it."""
        return f"http://{self.address(host)}:30000"

    def address(self, host: str) -> str:
        """Its address in the lab."""
        record = self.lab.host(host).files.read()
        assert record is not None
        return record.address

    def from_lab(self, *argv: str) -> str:
        """Run a command of this machine in the lab's network; its output."""
        done = subprocess.run(
            ["ip", "netns", "exec", f"tl-{self.lab.name}", *argv],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    def clients(self, rate: float) -> Clients:
        """Start clients that send requests at a rate, in requests a second, until they are stopped.

        An answer takes two seconds where a host has no other, and three under load. More tokens would be more
        than hosts can give while a quarter of them is drained, and requests would pile up at the router.
        """
        tokens = round(2.75 * ALONE_TOK_S / self.decode_scale)
        script = Path(__file__).with_name("client_load.py")
        return Clients(
            subprocess.Popen(
                [
                    *("ip", "netns", "exec", f"tl-{self.lab.name}", sys.executable, str(script)),
                    *(self.router_url, str(rate), str(tokens)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )

    def life(self, host: str) -> str:
        """The invocation of the production service that runs there."""
        return self.show(host, PRODUCTION, "InvocationID")["InvocationID"]

    def budget(self, host: str) -> int | None:
        """The tree that the host serves, by its own word; None where nothing answers."""
        text = self.on(
            host,
            "curl",
            "-s",
            "-m",
            "5",
            "-H",
            f"Authorization: Bearer {KEY}",
            f"{self.url(host)}/server_info",
            check=False,
        )
        return json.loads(text)["speculative_ddtree_budget"] if text.startswith("{") else None

    def record(self, number: int, key: RestartKey, tok_s: float | None = None, **other: Any) -> list[str]:
        """Put a good trial of `key` on record for each class, as a sweep would have left it; the trials' ids.

        `other` are fields of the provenance that are to differ from the hosts'.
        """
        return [
            add_trial(
                self.results,
                number + place,
                key.budget,
                given=key,
                provenance=replace(one, **other),
                tok_s=tok_s or RECORDED * TOK_S / self.decode_scale,
                at=utc_now(),
                concurrency=CONCURRENCY,
                requests=8,
            )
            for place, one in enumerate(self.classes.values())
        ]

    def look(self, folder: Path) -> None:
        """Learn each class's provenance as preflight reports it; the records are written with that."""
        playbook = folder / "look.yml"
        playbook.write_text(_COLLECT.format(root=ROOT, folder=folder))
        self.run(str(playbook), timeout=LONG, interrupt_traffic=True)
        found = [json.loads((folder / f"{host}.json").read_text()) for host in self.hosts]
        self.classes = {one.hardware_class: one for one in map(provenance.of_host, found)}

    def rollouts(self) -> list[dict[str, Any]]:
        """The records of rollouts, oldest first."""
        return [json.loads(path.read_text()) for path in sorted(self.results.glob("rollouts/*/rollout.json"))]

    def states(self) -> dict[str, str]:
        """How the newest rollout left each host."""
        return {line["host"]: line["state"] for line in self.lines_of_newest()}

    def lines_of_newest(self) -> list[dict[str, Any]]:
        """What the newest rollout wrote about its hosts, in order."""
        newest = max(self.results.glob("rollouts/*/hosts.jsonl"))
        return [json.loads(line) for line in newest.read_text().splitlines()]


@dataclass
class Clients:
    """Clients in the background."""

    process: subprocess.Popen[str]

    def stop(self) -> dict[str, Any]:
        """Stop sending, wait for what runs, and return {sent, failed, shortest_s, median_s, failures}."""
        out, _ = self.process.communicate(input="stop\n", timeout=90)
        result: dict[str, Any] = json.loads(out)
        return result


def boot(
    name: str,
    classes: Mapping[str, Sequence[str]],
    network: str,
    folder: Path,
    special: Mapping[str, Mapping[str, Any]],
    decode_scale: float,
) -> Fleet:
    """Boot hosts of each class and a router host, deploy production on them, put them on the router's list.

    Args:
        network: the first three numbers and the tens of the addresses, such as ``10.66.0.4``.
        special: variables of single hosts.
    """
    names = [host for hosts in classes.values() for host in hosts]
    addresses = {host: f"{network}{number}" for number, host in enumerate(names, 1)}
    lab = Lab(name)
    lab.down()
    lab.up(addresses)
    url = router.up(lab, "router", f"{network}0")
    inventory = lab.write_inventory(folder / "hosts.yml", addresses)
    entries = {
        group: {
            "hosts": {host: {"ansible_host": addresses[host], **special.get(host, {})} for host in hosts},
            "vars": {"treeline_hardware_class": f"class {group}"},
        }
        for group, hosts in classes.items()
    }
    inventory.write_text(yaml.safe_dump({"all": {"children": {"sglang": {"children": entries}}}}))
    fleet = Fleet(lab, inventory, tuple(names), folder / "deploy", url, decode_scale)
    for group in classes:
        # Not for `all`: what the lab says about the group sglang would win.
        (folder / "group_vars" / f"{group}.yml").write_text(yaml.safe_dump(variables(url, decode_scale)))
    for host in names:
        fleet.on(
            host,
            sys_python(),
            "-c",
            f"import os; os.write(os.open('{KEY_FILE}', os.O_CREAT | os.O_WRONLY, 0o600), b'{KEY}\\n')",
        )
    fleet.run("deploy.yml", timeout=LONG)
    fleet.register_all()
    fleet.look(folder)
    return fleet


def variables(router_url: str, decode_scale: float) -> dict[str, Any]:
    """What all hosts of the fleet share."""
    return {
        "treeline_lab_fault_profile": "none",
        "sglang_ddtree_api_key": KEY,
        "sglang_ddtree_host": "{{ ansible_host }}",
        "sglang_ddtree_timeout_stop": 5,
        "sglang_ddtree_maxreq": 16,
        "sglang_ddtree_extra_args": {
            "fault-profile": "{{ treeline_lab_fault_profile }}",
            "time-scale": 0.003,
            "decode-time-scale": decode_scale,
        },
        "treeline_api_key_file": KEY_FILE,
        "treeline_max_tokens": 40,
        "sglang_router_worker_router_url": router_url,
        "sglang_router_worker_url": "http://{{ ansible_host }}:30000",
        "sglang_router_worker_api_key_file": KEY_FILE,
    }
