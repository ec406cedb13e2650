"""What GPUs say of themselves, in the words of real ones; nothing is made up where they say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_tools import B300, LOST, RESET, answers
from treeline_target import gpu_facts, preflight, preflight_gpus


def test_eight_b300_are_read(tmp_path: Path) -> None:
    rows = "\n".join(B300.format(index=index, used=5) for index in range(8)) + "\n"
    facts = gpu_facts.look(answers(tmp_path, rows))
    assert facts.problem is None
    assert (facts.hardware_class, facts.driver) == ("8x NVIDIA B300 SXM6 AC", "580.95.05")
    first = facts.gpus[0]
    assert set(gpu_facts.GPU_FIELDS) < set(first)
    assert (first["memory.total"], first["power.draw"], first["temperature.gpu"]) == (275040, 195.63, 31)
    assert first["ecc.errors.uncorrected.aggregate.total"] == 0
    assert first["retired_pages.double_bit.count"] is None
    assert (first["remapped_rows.failure"], first["gpu_recovery_action"]) == ("No", "None")
    assert (first["state"], facts.apps, facts.hidden) == ("ok", (), 0)


def test_mixed_gpus_make_a_class_and_none_make_cpu() -> None:
    named = [{"name": name, "driver_version": "1"} for name in ("A", "B", "A")]
    assert gpu_facts.Facts("x", gpus=tuple(named)).hardware_class == "2x A + 1x B"
    assert gpu_facts.Facts(None).hardware_class == "cpu"
    assert gpu_facts.look("/none-such").tool is None


def test_a_lost_gpu_and_one_that_wants_a_reset(tmp_path: Path) -> None:
    lost, reset = gpu_facts.look(answers(tmp_path, f"{LOST}\n{RESET}\n")).gpus
    assert (lost["state"], lost["power.draw"], lost["uuid"]) == ("lost", None, None)
    assert (reset["state"], reset["temperature.gpu"]) == ("requires reset", None)
    assert (reset["gpu_recovery_action"], reset["remapped_rows.pending"]) == ("Reset", "Yes")


def test_processes_of_which_not_all_may_be_seen(tmp_path: Path) -> None:
    apps = (
        '10525, /opt/tools/mem "q" hog, 1542, GPU-ae3738d5\n'
        "10529, /opt/tools/memhög ünïcode, 818, GPU-ae3738d5\n"
        "4711, [Not Found], [N/A], GPU-b\n"
        "[Insufficient Permissions], [Insufficient Permissions], [Insufficient Permissions], GPU-c\n"
    )
    facts = gpu_facts.look(answers(tmp_path, B300.format(index=0, used=0) + "\n", apps))
    assert [(app.pid, app.used_memory, app.process_name) for app in facts.apps] == [
        (10525, 1542, '/opt/tools/mem "q" hog'),
        (10529, 818, "/opt/tools/memhög ünïcode"),
        (4711, None, ""),
    ]
    assert facts.hidden == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.5", 12.5),
        ("12 MiB", 12),
        ("[N/A]", None),
        ("[Not Supported]", None),
        ("", None),
        ("nan", None),
        ("[GPU is lost]", None),
    ],
)
def test_cells_that_are_no_number_are_none(text: str, value: float | None) -> None:
    assert gpu_facts.number(text) == value


def test_preflight_refuses_gpus_that_need_somebody_first(tmp_path: Path) -> None:
    worn = B300.format(index=1, used=0).replace(
        "0, 0, [N/A], [N/A], 0, No, No", "3, 9, [N/A], [N/A], 1, Yes, Yes"
    )
    report = preflight.Report()
    preflight_gpus.check(answers(tmp_path, f"{LOST}\n{RESET}\n{worn}\n"), [], "trial.service", report)
    lost, reset = report.problems
    assert lost == "GPU 3 (None): its state is: lost; reset it or reboot the host"
    assert reset == "GPU 0 (GPU-0): its state is: requires reset; reset it or reboot the host"
    said = "\n".join(report.notes)
    assert "GPU 1 (GPU-1f6e7a7c-7314-46f8-abc4-b88b36dcf3aa) failed to remap a row" in said
    assert "has counted 3 uncorrected memory errors since its last reset" in said
    assert "has memory that is retired at its next reset" in said


def test_preflight_says_when_there_is_nothing_to_ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = preflight.Report()
    preflight_gpus.check("/none-such", [], "trial.service", report)
    assert report.problems == []
    assert report.notes == [
        "no GPU query tool on this host (/none-such): GPUs and their processes were not looked at"
    ]
    assert (report.facts["gpus"], report.facts["hardware_class_hint"]) == ([], "cpu")
    # A driver without its tool is a host that we would sweep blindly.
    monkeypatch.setattr(preflight_gpus.gpu_tool, "DRIVER_DEVICE", tmp_path)
    blind = preflight.Report()
    preflight_gpus.check("/none-such", [], "trial.service", blind)
    assert "set treeline_gpu_query to the tool's path" in blind.problems[0]
    allowed = preflight.Report()
    preflight_gpus.check("none", [], "trial.service", allowed)
    assert allowed.problems == []
