"""Sampling beside a load: real processes, which never outlive it and never hold it up."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_tools import tool
from treeline_target import clock, telemetry_sampler
from treeline_target.telemetry_sampler import Sampler, cells_of, sample_of

ROOT = Path(__file__).resolve().parents[3]
ROW = "0, NVIDIA H200, 412.50, 97, 1980, 3201, 55, 120000"


def looping(folder: Path, *before: str, name: str = "gpu-tool") -> str:
    """A tool that answers once, or every 50 ms with -l; it leaves its pid."""
    return tool(
        folder,
        f"echo $$ >> {folder}/pids",
        *before,
        f'row() {{ echo "$(date +%Y/%m/%d\\ %H:%M:%S.%3N), {ROW}"; }}',
        'case "$*" in *" -l "*) while :; do row; sleep 0.05; done ;; *) row ;; esac',
        name=name,
    )


def wait(holds: Callable[[], object], timeout: float = 10.0) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def pids(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text().split()]


def test_samples_are_taken_until_it_is_stopped(tmp_path: Path) -> None:
    sampler = Sampler(looping(tmp_path), tmp_path / "new" / "telemetry.ndjson.gz")
    begun = clock.monotonic()
    sampler.start()
    wait(lambda: len(sampler._samples) >= 5)
    recording = sampler.stop()
    ended = clock.monotonic()
    assert recording.source == f"{tmp_path}/gpu-tool (NVIDIA H200)"
    assert recording.note is None
    first = recording.samples[0]
    assert (first.gpu, first.power_w, first.utilization, first.sm_mhz) == ("0", 412.5, 97, 1980)
    assert (first.memory_mhz, first.temperature_c, first.memory_mib) == (3201, 55, 120000)
    assert all(begun - 0.1 <= sample.at <= ended + 0.1 for sample in recording.samples)
    assert all(is_gone(pid) for pid in pids(tmp_path))
    with gzip.open(tmp_path / "new" / "telemetry.ndjson.gz", "rt") as stream:
        head, *rows = [json.loads(line) for line in stream]
    assert head["source"] == f"{tmp_path}/gpu-tool"
    assert rows == [sample.as_dict() for sample in recording.samples]
    assert sampler.stop() == recording


def test_without_a_tool_it_says_so_and_starts_nothing(tmp_path: Path) -> None:
    for command, says in (("/none-such", "no GPU query tool on this host (/none-such)"), ("none", "none)")):
        with Sampler(command, tmp_path / "t.gz") as sampler:
            pass
        recording = sampler.stop()
        assert (recording.source, recording.samples) == (None, ())
        assert says in str(recording.note)
    assert not (tmp_path / "t.gz").exists()


def test_a_tool_that_hangs_holds_nothing_up(tmp_path: Path) -> None:
    sampler = Sampler(tool(tmp_path, f"echo $$ >> {tmp_path}/pids", "sleep 600"))
    started = time.monotonic()
    sampler.start()
    assert time.monotonic() - started < 0.5
    wait((tmp_path / "pids").exists)
    stopped = time.monotonic()
    recording = sampler.stop()
    assert time.monotonic() - stopped < telemetry_sampler.JOIN_S
    assert recording.samples == ()
    assert all(is_gone(pid) for pid in pids(tmp_path))


def test_an_older_tool_is_asked_for_what_it_knows(tmp_path: Path) -> None:
    refusal = 'Field "clocks.current.sm" is not a valid field to query.'
    older = tool(
        tmp_path,
        f"""case "$*" in *clocks*) echo '{refusal}'; echo; exit 2 ;; esac""",
        'while :; do echo "[N/A], 0, Tesla P40, 50.25, 3, 41, 10"; sleep 0.05; done',
    )
    sampler = Sampler(older)
    sampler.start()
    wait(lambda: sampler._samples)
    recording = sampler.stop()
    assert (recording.note, recording.source) == (None, f"{older} (Tesla P40)")
    first = recording.samples[0]
    assert (first.power_w, first.sm_mhz, first.memory_mhz, first.memory_mib) == (50.25, None, None, 10)


def test_a_tool_that_ends_or_complains_leaves_a_note(tmp_path: Path) -> None:
    dies = looping(tmp_path, 'case "$*" in *" -l "*) echo "GPU is lost"; exit 15 ;; esac')
    sampler = Sampler(dies)
    sampler.start()
    wait(lambda: sampler._note)
    assert "said: GPU is lost" in str(sampler.stop().note)
    refuses = tool(tmp_path, "echo broken; exit 9", name="refuses")
    other = Sampler(refuses)
    other.start()
    wait(lambda: other._note)
    assert "said: broken" in str(other.stop().note)


def test_it_dies_with_us(tmp_path: Path) -> None:
    program = f"""
        import sys, time
        from treeline_target.telemetry_sampler import Sampler
        sampler = Sampler({looping(tmp_path)!r})
        sampler.start()
        while len(sampler._samples) < 2:
            time.sleep(0.02)
        print("sampling", flush=True)
        time.sleep(600)
    """
    ours = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins/module_utils")},
    )
    assert ours.stdout is not None
    assert ours.stdout.readline() == b"sampling\n"
    ours.kill()
    ours.wait()
    ours.stdout.close()
    wait(lambda: all(is_gone(pid) for pid in pids(tmp_path)), 5)


PYNVML = """
class NVMLError(Exception): pass
NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
class Memory: used = 3 * 2**30
class Rates: gpu = 42
def nvmlInit(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return b"NVIDIA H200"
def nvmlDeviceGetPowerUsage(handle): return 250500
def nvmlDeviceGetUtilizationRates(handle): return Rates
def nvmlDeviceGetClockInfo(handle, kind): return 1000 * kind
def nvmlDeviceGetTemperature(handle, kind): raise NVMLError("not supported")
def nvmlDeviceGetMemoryInfo(handle): return Memory
"""


def test_nvml_does_where_there_is_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The package of NVIDIA with the functions that are called, as nvidia-ml-py documents them.
    (tmp_path / "pynvml.py").write_text(PYNVML)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    sampler = Sampler("/none-such")
    sampler.start()
    wait(lambda: len(sampler._samples) >= 2)
    recording = sampler.stop()
    assert recording.source == "NVML (NVIDIA H200)"
    assert {sample.gpu for sample in recording.samples} == {"0", "1"}
    first = recording.samples[0]
    assert (first.power_w, first.utilization, first.sm_mhz, first.memory_mhz) == (250.5, 42, 1000, 2000)
    assert (first.temperature_c, first.memory_mib) == (None, 3072)
    assert Sampler("none").stop().samples == ()


FIELDS = telemetry_sampler.FIELDS


def test_stamps_place_a_sample_where_they_can_be_believed() -> None:
    offset = time.time() - clock.monotonic()
    now = 1_790_000_000.25 - offset
    stamp = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(1_790_000_000)) + ".250"

    def at(text: str, arrived: float) -> float:
        cells = cells_of(f"{text}, {ROW}", FIELDS)
        assert cells is not None
        return sample_of(cells, arrived, offset).at

    assert at(stamp, now + 4.0) == pytest.approx(now, abs=0.01)  # buffered for four seconds
    for arrived in (now + 3600, now - 900):  # another zone, or a clock that was set
        assert at(stamp, arrived) == pytest.approx(arrived, abs=0.01)
    assert at("[N/A]", 5.0) == 5.0


@pytest.mark.parametrize(
    "line", ["", "index, name", "GPU is lost", f"stamp, x, {ROW[3:]}", f"stamp, {ROW}, 1"]
)
def test_lines_that_are_no_rows(line: str) -> None:
    assert cells_of(line, FIELDS) is None
