"""Action plugin: a rollout from the choice of a row to the record of each host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from ansible.plugins.action import ActionBase
from treeline import provenance
from treeline.controller import this_controller
from treeline.plain import clean, to_plain
from treeline.records import utc_now
from treeline.rollout import choose, held, intended, judge, objectives, opening, records, standing, waves
from treeline.rollout.errors import RolloutRefusedError
from treeline.store import StoreError

ARGUMENTS = {
    "state": {
        "type": "str",
        "required": True,
        "choices": ["checked", "open", "judged", "recorded", "closed", "intended", "noted", "wave"],
    },
    "rollout_id": {"type": "str"},
    "results_dir": {"type": "path"},
    "rollout_dir": {"type": "path"},
    "config": {"type": "str"},
    "objective": {"type": "str"},
    "slo_ttft_ms": {"type": "float"},
    "slo_tpot_ms": {"type": "float"},
    "waves": {"type": "str"},
    "max_age_days": {"type": "float"},
    "allow_mismatch": {"type": "bool", "default": False},
    "hosts": {"type": "dict", "default": {}},
    "load": {"type": "dict", "default": {}},
    "host_state": {"type": "str", "choices": ["deployed", "unchanged", "rolled_back", "broken", "released"]},
    "reason": {"type": "str", "default": ""},
    "restarted": {"type": "bool", "default": False},
    "serving": {"type": "bool"},
    "registered": {"type": "bool"},
    "before": {"type": "dict", "default": {}},
    "started_at": {"type": "str"},
    "inventory": {"type": "dict"},
}


class ActionModule(ActionBase):
    """Runs on the controller only; no connection is opened."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Do what ``state`` says, or fail with why not."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, checked = self.validate_argument_spec(
            ARGUMENTS,
            required_if=[
                ("state", "checked", ("config", "objective", "waves", "max_age_days")),
                ("state", "open", ("results_dir", "config", "objective", "waves", "max_age_days", "hosts")),
                ("state", "judged", ("rollout_dir",)),
                ("state", "recorded", ("rollout_dir", "host_state")),
                ("state", "closed", ("rollout_dir",)),
                ("state", "intended", ("results_dir", "inventory")),
                ("state", "noted", ("results_dir", "rollout_id", "host_state")),
                ("state", "wave", ("results_dir", "rollout_id")),
            ],
        )
        args = to_plain(checked)
        host = str((task_vars or {}).get("inventory_hostname", ""))
        try:
            done = self._do(args, host, str((task_vars or {}).get("ansible_limit") or ""))
        except (RolloutRefusedError, StoreError) as error:
            return result | {"failed": True, "msg": str(error)}
        return result | done

    def _do(self, args: dict[str, Any], host: str, limit: str) -> dict[str, Any]:
        match args["state"]:
            case "checked":
                self._asked(args)
                return {"changed": False}
            case "open":
                return self._open(args, limit)
            case "judged":
                return self._judged(args, host)
            case "recorded":
                return self._recorded(args, host)
            case "intended":
                return self._intended(args, host)
            case "noted":
                known = standing.note(
                    Path(args["results_dir"]), args["rollout_id"], host, args["host_state"], args["reason"]
                )
                return {"changed": False, "known": known}
            case "wave":
                wave = standing.wave_of(Path(args["results_dir"]), args["rollout_id"], host)
                return {"changed": False, "wave": wave}
        return self._closed(args)

    def _asked(self, args: dict[str, Any]) -> choose.Asked:
        slo = objectives.Slo(args["slo_ttft_ms"], args["slo_tpot_ms"])
        waves.parse_sizes(args["waves"])
        return choose.Asked(
            config=args["config"],
            objective=objectives.parse(args["objective"], slo),
            max_age_days=args["max_age_days"],
            allow_mismatch=args["allow_mismatch"],
            now=utc_now(),
        )

    def _open(self, args: dict[str, Any], limit: str) -> dict[str, Any]:
        hosts = {
            name: provenance.of_host(found)
            for name, found in args["hosts"].items()
            if isinstance(found, dict)
        }
        held.refuse_if_held(args["hosts"])
        unknown = sorted(name for name, found in hosts.items() if not found.hardware_class)
        if unknown:
            left_out = ",".join(f"!{name}" for name in unknown)
            remedy = f"add {left_out} to --limit" if limit else f"--limit 'sglang,localhost,{left_out}'"
            raise RolloutRefusedError(
                f"nothing is known about {', '.join(unknown)}: not reached, or refused by preflight. "
                f"Mend that, or leave out what cannot be mended: {remedy}"
            )
        asked = self._asked(args)
        options = {
            name: args[name]
            for name in ("waves", "max_age_days", "allow_mismatch", "slo_ttft_ms", "slo_tpot_ms")
        }
        if self._task.check_mode:
            opened = opening.preview(Path(args["results_dir"]), asked, args["waves"], hosts)
        else:
            opened = opening.open_rollout(
                Path(args["results_dir"]), asked, args["waves"], hosts, this_controller(), options
            )
        self._say(opened)
        rollout = opened.rollout
        return {
            "changed": not self._task.check_mode,
            "rollout_id": rollout.rollout_id,
            "rollout_dir": str(opened.folder),
            "resumed": opened.resumed,
            "order": [name for wave in rollout.waves for name in wave.hosts],
            "serial": [len(wave.hosts) for wave in rollout.waves],
            "unjudged": list(opened.unjudged),
            "waves": msgspec.to_builtins(rollout.waves),
            "chosen": {
                name: msgspec.to_builtins(rollout.chosen[found.hardware_class])
                for name, found in hosts.items()
            },
        }

    def _say(self, opened: opening.Opened) -> None:
        rollout = opened.rollout
        for name, one in rollout.chosen.items():
            self._display.display(f"{name}: {one.key.label} (trial {one.trial_id})")
            for line in (*one.why, *(f"allowed mismatch: {text}" for text in one.mismatches)):
                self._display.display(f"  {line}")
        for wave in rollout.waves:
            canary = " (canary)" if wave.canary else ""
            self._display.display(
                f"wave {wave.number}{canary}, {wave.hardware_class}: {', '.join(wave.hosts)}"
            )
        for note in opened.notes:
            self._display.display(f"Note: {note}")
        if not self._task.check_mode:
            did = "Resumes" if opened.resumed else "Begins"
            self._display.display(f"{did} rollout {rollout.rollout_id}; records: {opened.folder}")

    def _judged(self, args: dict[str, Any], host: str) -> dict[str, Any]:
        rollout = records.RolloutStore(Path(args["rollout_dir"])).read()
        found = judge.judge(args["load"], rollout.chosen[rollout.hosts[host].hardware_class])
        return {
            "changed": False,
            "passed": found.passed,
            "reason": found.reason,
            "gates": msgspec.to_builtins(found.gates),
            "speed": {
                "ratio": found.speed.ratio,
                "low": found.speed.low,
                "high": found.speed.high,
                "text": found.speed.text,
            },
        }

    def _recorded(self, args: dict[str, Any], host: str) -> dict[str, Any]:
        store = records.RolloutStore(Path(args["rollout_dir"]))
        rollout = store.read()
        wave = next(one for one in rollout.waves if host in one.hosts)
        chosen = rollout.chosen[wave.hardware_class]
        judged = judge.judge(args["load"], chosen) if args["load"] else None
        line = records.HostLine(
            rollout_id=rollout.rollout_id,
            host=host,
            wave=wave.number,
            hardware_class=wave.hardware_class,
            state=args["host_state"],
            at=utc_now(),
            started_at=args["started_at"],
            reason=clean(args["reason"]),
            restarted=args["restarted"],
            before=args["before"],
            gates=judged.gates if judged else (),
            speed={"ratio": judged.speed.ratio, "text": judged.speed.text} if judged else {},
            serving=args["serving"],
            registered=args["registered"],
            simulated=chosen.simulated,
        )
        store.append(line)
        self._display.display(f"{host}: {line.state}{f' ({line.reason})' if line.reason else ''}")
        # A line in the controller's records is no change of the host.
        return {"changed": False}

    def _intended(self, args: dict[str, Any], host: str) -> dict[str, Any]:
        said = args["inventory"]
        meant = intended.intended(Path(args["results_dir"]), host)
        if meant is None:
            return {
                "changed": False,
                "key": said["key"],
                "dialect": said["dialect"],
                "source": "the inventory",
                "rollout_id": "",
                "undone": [],
            }
        return {
            "changed": False,
            "key": meant.key.to_dict(),
            "dialect": meant.dialect,
            "source": f"rollout {meant.rollout_id}",
            "rollout_id": meant.rollout_id,
            "undone": list(standing.undone_by_inventory(meant, said["key"], said["dialect"])),
        }

    def _closed(self, args: dict[str, Any]) -> dict[str, Any]:
        store = records.RolloutStore(Path(args["rollout_dir"]))
        outcome, reason = opening.close_rollout(store, this_controller())
        variables = standing.write_variables(store, store.read())
        if outcome == "complete":
            self._display.display(f"To keep it in the inventory, too: {variables}")
        return {"changed": True, "outcome": outcome, "reason": reason}
