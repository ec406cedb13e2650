"""Results of a vLLM parameter sweep: a folder for each server and load, in it a file for each run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from treeline.exchange.row import ExchangeError, ForeignRow, of

_LATENCIES = {
    f"{ours}_{place}_ms": f"{theirs}_{name}_ms"
    for ours, name in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2el"))
    for place, theirs in (("p50", "median"), ("p90", "p90"), ("p99", "p99"), ("mean", "mean"))
    if (ours, place) != ("e2e", "mean")
}


def read(folder: Path) -> list[ForeignRow]:
    """Return a row for each run below a sweep's folder, failed ones (``*.failure.json``) included.

    Raises:
        ExchangeError: there is no run, or a file is damaged.
    """
    runs = [path for path in sorted(folder.rglob("run=*.json")) if not path.name.endswith(".failure.json")]
    failures = sorted(folder.rglob("*failure.json"))
    if not runs and not failures:
        raise ExchangeError(f"{folder}: no run=N.json below it; is it a folder of vllm bench sweep?")
    return [*(_run(path) for path in runs), *(_failure(path) for path in failures)]


def _load(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise ExchangeError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ExchangeError(f"{path} is no JSON object: {error}") from error


def _run(path: Path) -> ForeignRow:
    told = _load(path)
    rate = told.get("request_rate")
    rates = told.get("spec_decode_per_position_acceptance_rates")
    return of(
        "vllm",
        str(path),
        name=path.parent.name,
        engine=told.get("backend") or "vllm",
        model=told.get("model_id"),
        gpus=told.get("tensor_parallel_size"),
        maxreq=told.get("max_num_seqs"),
        concurrency=told.get("max_concurrency"),
        rate=rate if isinstance(rate, int | float) and rate != float("inf") else None,
        requests=told.get("completed"),
        failed=told.get("failed"),
        duration_s=told.get("duration"),
        prompt_tokens=told.get("total_input_tokens"),
        completion_tokens=told.get("total_output_tokens"),
        al=told.get("spec_decode_acceptance_length"),
        position_rates=rates if isinstance(rates, list) else None,
        output_tok_s=told.get("output_throughput"),
        total_tok_s=told.get("total_token_throughput"),
        request_s=told.get("request_throughput"),
        goodput_requests_s=told.get("request_goodput") or None,
        **{ours: told.get(theirs) for ours, theirs in _LATENCIES.items()},
    )


def _failure(path: Path) -> ForeignRow:
    told = _load(path)
    kind, error = told.get("error_type"), told.get("error")
    return of(
        "vllm",
        str(path),
        status="failed",
        engine="vllm",
        name=path.parent.name if path.name.startswith("run=") else path.name.removesuffix("-failure.json"),
        first_error=f"{kind}: {error}" if kind else str(error or "no reason given"),
    )
