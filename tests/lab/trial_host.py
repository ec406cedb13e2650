"""A lab host for trials: units are written as the role writes them, modules run through Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from treeline_lab import Lab

REPOSITORY = Path(__file__).resolve().parents[2]
ANSIBLE = Path(sys.executable).with_name("ansible")
NAME, ADDRESS = "trial1", "10.66.0.41"
TRIAL, FOUND = "sglang-ddtree-trial.service", "found.service"
PORT = 31990
URL = f"http://127.0.0.1:{PORT}"
PYTHON = "/opt/treeline/engine/bin/python"
MODEL = "/opt/treeline/model"


class Marks(dict[str, Any]):
    """What was noted before a restart."""


class TrialHost:
    """The one host of a running lab."""

    def __init__(self, lab: Lab, inventory: Path, folder: Path) -> None:
        self._lab = lab
        self._inventory = inventory
        self._folder = folder

    def run(self, *argv: str) -> str:
        """Standard output of a command inside the host."""
        return self._lab.host(NAME).enter(list(argv)).stdout.strip()

    def link(self, plugged_in: bool) -> None:
        """Plug the network cable in or out."""
        self._lab.link(NAME, plugged_in)

    def write(self, path: str, text: str) -> None:
        """Write a file inside the host (in its memory file systems too)."""
        self.run("mkdir", "-p", str(Path(path).parent))
        self.run("/usr/bin/python3", "-c", f"open({path!r}, 'w').write({text!r})")

    def ansible_popen(self, module: str, arguments: dict[str, Any] | str) -> subprocess.Popen[str]:
        """Start a module on the host."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        command = [ANSIBLE, "-i", self._inventory, "sglang", "-m", module, "-a", text]
        return subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
                "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
            },
        )

    def module(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Run a module to its end and return its result, that of a failed one too."""
        return result_of(self.ansible_popen(name, arguments))

    def marks(self) -> Marks:
        """What the begin module notes: the id before, the journal's place, the time."""
        shown = self.run("journalctl", "--quiet", "--lines=0", "--show-cursor")
        return Marks(
            previous_invocation_id=self.property("InvocationID"),
            cursor=shown.partition("-- cursor: ")[2].strip(),
            since_realtime_usec=int(self.run("date", "+%s%6N")),
        )

    def property(self, name: str, unit: str = TRIAL) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", "--value", "--property", name, "--", unit)

    def start(self, trial_id: str, command: str, *service: str) -> Marks:
        """Render the trial unit, restart it, and return what was noted before."""
        self.run("systemctl", "reset-failed")
        marks = self.marks()
        lines = "\n".join(service)
        self.write(
            f"/run/systemd/system/{TRIAL}",
            f"[Unit]\nDescription=Trial\nConflicts={FOUND}\nAfter={FOUND}\nStartLimitIntervalSec=0\n\n"
            f"[Service]\nType=exec\nEnvironment=TREELINE_TRIAL_ID={trial_id}\nExecStart={command}\n"
            f"Restart=no\nTimeoutStopSec=5\nLogRateLimitIntervalSec=0\n{lines}\n",
        )
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "restart", TRIAL)
        return marks

    def ready(self, marks: Marks, trial_id: str, **more: Any) -> dict[str, Any]:
        """Run treeline_ready."""
        return result_of(self.ready_popen(marks, trial_id, **more))

    def ready_popen(self, marks: Marks, trial_id: str, **more: Any) -> subprocess.Popen[str]:
        """Start treeline_ready."""
        values = {
            "unit": TRIAL,
            "trial_id": trial_id,
            "previous_invocation_id": marks["previous_invocation_id"],
            "cursor": marks["cursor"],
            "base_url": URL,
            "timeout_s": 40,
        }
        return self.ansible_popen("treeline_ready", {**values, **more})

    def load_popen(self, invocation_id: str, **more: Any) -> subprocess.Popen[str]:
        """Start treeline_load."""
        prompts = (REPOSITORY / "analysis/treeline/data/prompts/code.txt").read_text("utf-8")
        values = {
            "unit": TRIAL,
            "invocation_id": invocation_id,
            "found_units": [FOUND],
            "base_url": URL,
            "client_keys": [{"concurrency": 1}, {"concurrency": 4}],
            "canaries": CANARIES,
            "prompts": [prompts[:20_000]],
            "prompts_seed": "lab",
            "max_tokens": 48,
            "timeout_s": 60,
            "out_dir": "/run/treeline/evidence/lab",
        }
        return self.ansible_popen("treeline_load", {**values, **more})

    def evidence(self, marks: Marks, **more: Any) -> tuple[dict[str, Any], Path]:
        """Run treeline_evidence; its result, and a folder with what the archive holds."""
        values = {
            "unit": TRIAL,
            "trial_id": "lab",
            "found_units": [FOUND],
            "kernel_log": "none",
            "out_dir": "/run/treeline/evidence/lab",
            **marks,
        }
        result = self.module("treeline_evidence", **{**values, **more})
        target = self._folder / f"evidence-{marks['since_realtime_usec']}"
        target.mkdir()
        content = self._lab.host(NAME).enter_command(["cat", result["archive"]])
        packed = subprocess.run(content, capture_output=True, check=True, timeout=30)
        subprocess.run(["tar", "-xzf", "-", "-C", target], input=packed.stdout, check=True, timeout=30)
        return result, target

    def clean(self) -> None:
        """Stop the units of a test and remove its traces."""
        self.run("systemctl", "stop", TRIAL, FOUND, "other.service")
        units = [f"/run/systemd/system/{name}" for name in (TRIAL, FOUND, "other.service")]
        self.run("rm", "-rf", "/run/treeline", *units)
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "reset-failed")


CANARIES = [
    {
        "id": "capital",
        "prompt": "What is the capital of France? Answer with one word.",
        "expect": r"\bParis\b",
    },
    {"id": "sum", "prompt": "What is 17 + 25? Answer with the number only.", "expect": r"\b42\b"},
]


def engine(budget: int = 8, profile: str = "", scale: float = 0.004, maxreq: int = 16) -> str:
    """The command line of a reference engine on the trial port."""
    fault = f" --fault-profile {profile}" if profile else ""
    return (
        f"{PYTHON} -m treeline_reference_engine --model-path {MODEL} --port {PORT} --enable-metrics "
        f"--speculative-algorithm DDTREE --speculative-draft-model-path {MODEL} "
        f"--speculative-num-draft-tokens 8 --speculative-ddtree-budget {budget} "
        f"--max-running-requests {maxreq} --time-scale {scale}{fault}"
    )


def result_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The result that `ansible` printed for the one host."""
    out, complaint = process.communicate(timeout=120)
    head, arrow, text = out.partition("=> ")
    assert arrow, out + complaint
    answer: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    answer["failed"] = "FAILED!" in head  # which it does not print
    assert "MODULE FAILURE" not in str(answer.get("msg")), answer
    return answer
