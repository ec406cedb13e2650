"""The one unit template, rendered by Ansible for many sets of variables."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROLE, Cases

Texts = dict[str, dict[str, str]]

DIALECTS = sorted(path.stem for path in (ROLE / "vars" / "dialects").glob("*.yml"))
# verify_unit.py looks for the program; any program that exists does.
BASE: dict[str, Any] = {"sglang_ddtree_command": ["/usr/bin/env", "python3", "-m", "sglang.launch_server"]}
CASES: Cases = {
    "plain": BASE | {"preflight": True},
    **{f"dialect-{name}": BASE | {"sglang_ddtree_dialect": name} for name in DIALECTS if name != "pr29907"},
    "dialect-pr29907": BASE
    | {
        "preflight": True,
        "sglang_ddtree_dialect": "pr29907",
        "sglang_ddtree_attention_backend": "triton",
        "sglang_ddtree_extra_args": {"--page-size": 1},
    },
    "strings": BASE
    | {  # everything given with -e arrives as text
        "preflight": True,
        "sglang_ddtree_budget": "16",
        "sglang_ddtree_maxreq": "64",
        "sglang_ddtree_graphs": "false",
        "sglang_ddtree_port": "31000",
        "sglang_ddtree_tp_size": "1",
    },
    "special": BASE
    | {
        "preflight": True,
        "sglang_ddtree_environment": {"ODD": "50% of $HOME \"and\" 'x' \\ end", "N": 1},
        "sglang_ddtree_extra_args": {
            "--chat-template": '{"a": "50%", "b": "$X"}',
            "--cuda-graph-bs-prefill": [1, 2],
            "--skip-server-warmup": True,
            "--log-level": None,
        },
        "sglang_ddtree_service_options": {"Nice": 5, "SupplementaryGroups": ["daemon", "mail"]},
        "sglang_ddtree_read_write_paths": ["/srv/a b", "/srv/100%"],
    },
    "key": BASE
    | {
        "preflight": True,
        "sglang_ddtree_host": "0.0.0.0",  # noqa: S104 - a value under test
        "sglang_ddtree_api_key": "sixteen-letters-or-more",
        "sglang_ddtree_secret_environment": {"HF_TOKEN": "hf_hidden"},
    },
    "other": BASE
    | {
        "sglang_ddtree_service_name": "kimi",
        "sglang_ddtree_user": "kimi",
        "sglang_ddtree_device_allow": [],
        "sglang_ddtree_graph_max_bs": 32,
        "sglang_ddtree_attention_backend": "triton",
        "sglang_ddtree_mem_fraction_static": 0,
        "sglang_ddtree_draft_model_path": "",
        "sglang_ddtree_restart": "always",
        "sglang_ddtree_found_units": ["kimi.service", "other.service"],
    },
}


@pytest.fixture(scope="module")
def rendered(play: Callable[[str, Cases], dict[str, Any]]) -> Texts:
    return play("render.yml", CASES)


def lines(texts: Texts, case: str, trial: bool) -> list[str]:
    return texts[case]["trial" if trial else "production"].splitlines()


def values(unit: list[str], key: str) -> list[str]:
    return [line.partition("=")[2] for line in unit if line.startswith(f"{key}=")]


@pytest.mark.parametrize("case", CASES)
def test_a_trial_never_starts_by_itself_and_never_restarts(rendered: Texts, case: str) -> None:
    unit = lines(rendered, case, trial=True)
    assert "[Install]" not in unit
    assert values(unit, "WantedBy") == []
    assert values(unit, "Restart") == ["no"]
    assert values(unit, "StartLimitIntervalSec") == ["0"]
    assert values(unit, "TimeoutStopSec") == ["30s"]
    assert values(unit, "RuntimeMaxSec") == ["7200s"]
    assert values(unit, "Type") == ["exec"]


@pytest.mark.parametrize("case", CASES)
def test_a_trial_stops_the_found_units_first(rendered: Texts, case: str) -> None:
    unit = lines(rendered, case, trial=True)
    found = CASES[case].get("sglang_ddtree_found_units", ["sglang-ddtree.service"])
    assert values(unit, "Conflicts") == [" ".join(found)]
    assert set(found) <= set(values(unit, "After")[0].split())


@pytest.mark.parametrize("case", CASES)
def test_a_trial_writes_below_run_treeline_only_and_listens_on_loopback(rendered: Texts, case: str) -> None:
    unit = lines(rendered, case, trial=True)
    assert values(unit, "ReadWritePaths") == []
    assert values(unit, "StateDirectory") == []
    assert values(unit, "ProtectSystem") == ["strict"]
    assert values(unit, "RuntimeDirectory") == ["treeline/trial"]
    assert values(unit, "ExecPaths") == ["/run/treeline/trial"]
    assert "HOME=/run/treeline/trial" in values(unit, "Environment")
    assert "TREELINE_TRIAL_ID=preflight" in values(unit, "Environment")
    (command,) = values(unit, "ExecStart")
    assert "--host 127.0.0.1 --port 31990" in command
    assert "--config" not in command


@pytest.mark.parametrize("case", CASES)
def test_a_trial_is_production_apart_from_what_a_trial_is(rendered: Texts, case: str) -> None:
    own = {
        *("Description", "Conflicts", "After", "StartLimitIntervalSec", "StartLimitBurst"),
        "WorkingDirectory",
        *(
            "RuntimeDirectory",
            "RuntimeDirectoryPreserve",
            "ExecPaths",
            "ReadWritePaths",
            "Environment",
            "EnvironmentFile",
        ),
        *("ExecStart", "Restart", "RestartSec", "TimeoutStopSec", "RuntimeMaxSec", "WantedBy"),
    }

    def shared(unit: list[str]) -> list[str]:
        settings = [line for line in unit if "=" in line and not line.startswith("#")]
        return [line for line in settings if line.partition("=")[0] not in own]

    trial, production = lines(rendered, case, trial=True), lines(rendered, case, trial=False)
    assert shared(trial) == shared(production)

    def engine(unit: list[str]) -> str:
        (command,) = values(unit, "ExecStart")
        head, _, rest = command.partition(" --host ")
        words = [word for word in rest.split(" ")[3:] if word]
        text = " ".join(words)
        return f"{head} {text}".replace("--config /etc/sglang-ddtree/config.yaml ", "")

    assert engine(trial) == engine(production)


@pytest.mark.parametrize("case", CASES)
def test_production_ends_a_crash_loop_and_starts_at_boot(rendered: Texts, case: str) -> None:
    unit = lines(rendered, case, trial=False)
    assert values(unit, "StartLimitIntervalSec") == ["2440s"]
    assert values(unit, "StartLimitBurst") == ["3"]
    assert values(unit, "WantedBy") == ["multi-user.target"]
    assert values(unit, "LogRateLimitIntervalSec") == ["0"]
    assert "TREELINE_TRIAL_ID" not in "\n".join(unit)


def test_production_has_the_values_of_the_field(rendered: Texts) -> None:
    unit = lines(rendered, "plain", trial=False)
    assert values(unit, "ExecStart") == [
        "/usr/bin/env python3 -m sglang.launch_server --host 127.0.0.1 --port 30000"
        " --model-path /models/Kimi-K2.6"
        " --speculative-draft-model-path /models/Kimi-K2.6-DFlash --trust-remote-code --tp-size 8"
        " --mem-fraction-static 0.85 --enable-nccl-nvls --enable-metrics --speculative-algorithm DDTREE"
        " --speculative-ddtree-budget 8 --speculative-ddtree-topk 4 --speculative-num-draft-tokens 8"
        " --max-running-requests 128"
    ]
    assert values(unit, "LimitMEMLOCK") == ["infinity"]
    assert values(unit, "DevicePolicy") == ["closed"]
    assert '"char-nvidia*" rw' in values(unit, "DeviceAllow")
    assert values(unit, "PrivateDevices") == []


def test_text_values_count_as_what_they_say(rendered: Texts) -> None:
    (command,) = values(lines(rendered, "strings", trial=False), "ExecStart")
    assert "--port 31000" in command
    assert "--speculative-ddtree-budget 16" in command
    assert "--disable-cuda-graph" in command


def test_special_characters_are_escaped(rendered: Texts) -> None:
    trial = lines(rendered, "special", trial=True)
    assert '"ODD=50%% of $HOME \\"and\\" \'x\' \\\\ end"' in values(trial, "Environment")
    (command,) = values(trial, "ExecStart")
    assert '--chat-template "{\\"a\\": \\"50%%\\", \\"b\\": \\"$$X\\"}"' in command
    assert command.endswith("--cuda-graph-bs-prefill 1 2 --skip-server-warmup")
    production = lines(rendered, "special", trial=False)
    assert values(production, "ReadWritePaths") == ['/var/lib/sglang-ddtree "/srv/a b" "/srv/100%%"']
    assert values(production, "Nice") == ["5"]
    assert values(production, "SupplementaryGroups") == ["daemon", "mail"]


def test_secrets_stay_out_of_the_units(rendered: Texts) -> None:
    for trial in (True, False):
        text = "\n".join(lines(rendered, "key", trial))
        assert "sixteen-letters" not in text
        assert "hf_hidden" not in text
        assert "EnvironmentFile=-/etc/sglang-ddtree/secret.env" in text
    (command,) = values(lines(rendered, "key", trial=False), "ExecStart")
    assert "--config /etc/sglang-ddtree/config.yaml" in command


def test_no_device_list_hides_all_devices(rendered: Texts) -> None:
    unit = lines(rendered, "other", trial=False)
    assert values(unit, "PrivateDevices") == ["yes"]
    assert values(unit, "DeviceAllow") == []
    assert values(unit, "EnvironmentFile")[0] == "/etc/kimi/env"


def test_a_parameter_may_travel_in_the_environment(rendered: Texts) -> None:
    for trial in (True, False):
        unit = lines(rendered, "dialect-pr29907", trial)
        assert "SGLANG_DDTREE_MAX_TOPK=4" in values(unit, "Environment")
        assert "topk" not in values(unit, "ExecStart")[0]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
@pytest.mark.parametrize("case", CASES)
def test_systemd_accepts_every_unit(rendered: Texts, tmp_path: Path, case: str) -> None:
    for kind, text in rendered[case].items():
        file = tmp_path / kind
        file.write_text(text, encoding="utf-8")
        done = verify(f"{kind}.service", file)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Restarts=always", "Restarts"),
        ("Restart=sometimes", "sometimes"),
        ("ExecStartPre=/no/such/program", "/no/such/program"),
    ],
)
def test_the_validator_refuses_what_systemd_would_ignore(
    rendered: Texts, tmp_path: Path, line: str, said: str
) -> None:
    text = rendered["plain"]["production"]
    broken = tmp_path / "broken"
    broken.write_text(text.replace("[Service]", f"[Service]\n{line}"), encoding="utf-8")
    done = verify("sglang-ddtree.service", broken)
    assert done.returncode == 1
    assert said in done.stderr
    assert str(tmp_path) not in done.stderr


def test_the_validator_survives_the_formatting_of_validate() -> None:
    """Ansible formats the whole `validate` command, program included, with the name of the file."""
    assert "%" not in (ROLE / "files" / "verify_unit.py").read_text(encoding="utf-8")


def verify(name: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROLE / "files" / "verify_unit.py"), name, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
