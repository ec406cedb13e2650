"""How fast results are read: a million measurements summarised, and many request rows aggregated.

By default a small part of it; the full sizes are

    python tests/bench/bench_analysis.py --measurements 1000000 --requests 100000000

which needs about 2.5 GB of disk below --folder and some minutes to make the data. Figures are printed; the
exit status is 1 where they are beyond what is allowed of the full sizes on two cores: 10 s for the
measurements, 60 s for the requests, 4 GB of memory.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from treeline.keys import RestartKey
from treeline.records import Measurement

PER_TRIAL = 50
PER_FILE = 500_000
MEASUREMENTS_S = 10.0
REQUESTS_S = 60.0
MEMORY_GB = 4.0


def main() -> None:
    """Make the data, read it, print the figures. Exits with 1 where one is beyond its bound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measurements", type=int, default=50_000)
    parser.add_argument("--requests", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, help="where the data is made (default: the temporary folder)")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="treeline-bench-", dir=given.folder))
    figures: list[tuple[str, float, float, str]] = []
    try:
        if given.measurements:
            took = _measurements(folder / "sweep", given.measurements)
            figures.append(("measurements", took, MEASUREMENTS_S, "s"))
        if given.requests:
            figures.append(("requests", _requests(folder / "requests", given.requests), REQUESTS_S, "s"))
    finally:
        shutil.rmtree(folder)
    figures.append(("memory", _peak_gb(), MEMORY_GB, "GB"))
    print(f"peak memory of this process {_peak_gb():.2f} GB", flush=True)
    beyond = [
        f"{name}: {figure:.2f} {unit}, allowed are {bound:g}"
        for name, figure, bound, unit in figures
        if figure > bound
    ]
    sys.exit("; ".join(beyond) or 0)


def _peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _measurements(folder: Path, number: int) -> float:
    """Seconds from the files to the summary."""
    from treeline.frames.measurements import measurements
    from treeline.frames.summaries import by_cell

    folder.mkdir(parents=True)
    trials = max(1, number // PER_TRIAL)
    with (folder / "measurements.jsonl").open("wb") as stream:
        for trial in range(trials):
            stream.write(_lines(trial, min(PER_TRIAL, number - trial * PER_TRIAL)))
    size = (folder / "measurements.jsonl").stat().st_size / 1e6
    begun, cpu = time.perf_counter(), time.process_time()
    frame = measurements(
        [folder],
        columns=[
            "completion_tokens",
            "verify_calls",
            "output_tok_s",
            "requests",
            "failed",
            "al",
            "tpot_p50_ms",
        ],
    )
    read = time.perf_counter() - begun
    summary = by_cell(frame)
    took = time.perf_counter() - begun
    print(
        f"measurements: {len(frame):,} of {trials:,} trials ({size:,.0f} MB of JSON) read in {read:.1f} s, "
        f"summarised to {len(summary):,} rows by {took:.1f} s ({len(frame) / took:,.0f}/s); "
        f"{time.process_time() - cpu:.1f} s of CPU"
    )
    return took


def _lines(trial: int, number: int) -> bytes:
    """One trial's measurements: one line that is encoded, the others with another concurrency and repeat."""
    key = RestartKey(
        budget=8 * (1 + trial % 8), topk=8, maxreq=8 * (1 + trial % 32), block_size=8, graphs=trial % 5 > 0
    )
    line = Measurement(
        trial_id=f"20260101T000000Z-abcdef01-{trial:06d}",
        sweep_id="20260101T000000Z-abcdef01",
        host="lab1",
        hardware_class="8x B300",
        key=key,
        concurrency=987,
        repeat=654,
        requests=64,
        ok=64,
        at="2026-01-01T00:00:00.000Z",
        completion_tokens=16384 + trial % 977,
        verify_calls=3900,
        al=4.2 + trial % 7 / 50,
        output_tok_s=2400.0 + trial % 311,
        duration_s=7.5,
        window={"start": 0.03, "end": 7.1, "peak": 32, "tokens": 15000},
        ttft_p50_ms=30.0,
        ttft_p90_ms=41.0,
        ttft_p99_ms=60.0,
        tpot_p50_ms=12.0,
        tpot_p90_ms=13.0,
        tpot_p99_ms=15.0,
        e2e_p50_ms=1200.0,
        e2e_p90_ms=1300.0,
        e2e_p99_ms=1500.0,
        prompt_tokens=32768,
        cached_tokens=0,
        accepted_histogram=[300, 500, 700, 900, 800, 400, 200, 100],
    )
    text = msgspec.json.encode(line) + b"\n"
    head, between = text.split(b'"concurrency":987')
    middle, tail = between.split(b'"repeat":654')
    return b"".join(
        b'%s"concurrency":%d%s"repeat":%d%s' % (head, 1 << (at % 10), middle, 1 + at // 10, tail)
        for at in range(number)
    )


def _requests(folder: Path, number: int) -> float:
    """Seconds from the files to the summary."""
    from treeline.frames.requests import request_summary

    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    files = []
    for place in range(-(-number // PER_FILE)):
        rows = min(PER_FILE, number - place * PER_FILE)
        sent = np.sort(random.random(rows) * 3600)
        first = sent + random.gamma(3.0, 0.02, rows)
        last = first + random.gamma(8.0, 0.2, rows)
        table = pa.table(
            {
                "trial_id": pa.DictionaryArray.from_arrays(
                    np.zeros(rows, np.int32), [f"20260101T000000Z-abcdef01-{place:06d}"]
                ),
                "phase": pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["point"]),
                "concurrency": random.choice([1, 8, 32, 128], rows),
                "sent": sent.round(4),
                "first": first.round(4),
                "last": last.round(4),
                "tokens": random.integers(64, 512, rows),
                "verify_calls": random.integers(20, 120, rows),
                "error": pa.nulls(rows, pa.string()),
            }
        )
        files.append(folder / f"{place:06d}.parquet")
        pq.write_table(table, files[-1], compression="zstd")
    size = sum(path.stat().st_size for path in files) / 1e6
    begun, cpu = time.perf_counter(), time.process_time()
    summary = request_summary(files)
    took = time.perf_counter() - begun
    print(
        f"requests: {number:,} rows in {len(files):,} files ({size:,.0f} MB) aggregated "
        f"to {len(summary):,} rows in {took:.1f} s ({number / took / 1e6:.2f} million/s), exact quantiles; "
        f"{time.process_time() - cpu:.1f} s of CPU"
    )
    return took


if __name__ == "__main__":
    main()
