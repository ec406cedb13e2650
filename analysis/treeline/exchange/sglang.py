"""Results of sglang's bench_serving: JSON lines, to which every run of the tool adds one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from treeline.exchange.row import ExchangeError, ForeignRow, of

_SAME_RUN = (
    "tag", "backend", "dataset_name", "request_rate", "max_concurrency", "sharegpt_output_len",
    "random_input_len", "random_output_len", "random_range_ratio",
)  # fmt: skip
_LATENCIES = {
    f"{ours}_{place}_ms": f"{theirs}_{name}_ms"
    for ours, name in (("ttft", "ttft"), ("tpot", "tpot"), ("itl", "itl"), ("e2e", "e2e_latency"))
    for place, theirs in (("p50", "median"), ("p90", "p90"), ("p99", "p99"), ("mean", "mean"))
    if (ours, place) != ("e2e", "mean")
}


def read(path: Path) -> list[ForeignRow]:
    """Return the rows of a file. Of runs with the same settings the last one counts: the file is appended to.

    Raises:
        ExchangeError: the file cannot be read, or a line is not of this tool.
    """
    last: dict[tuple[str, ...], ForeignRow] = {}
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ExchangeError(f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            told = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            if number == len(lines):
                continue  # the tool was stopped while it wrote its line
            raise ExchangeError(f"{path}: line {number} is no JSON object: {error}") from error
        if "output_throughput" not in told:
            raise ExchangeError(f"{path}: line {number} has no output_throughput; is it of bench_serving?")
        same = tuple(str(told.get(name)) for name in _SAME_RUN)
        last.pop(same, None)  # so that the order is that of the runs that count
        last[same] = _row(path, told)
    return list(last.values())


def _row(path: Path, told: dict[str, Any]) -> ForeignRow:
    server = told.get("server_info")
    server = server if isinstance(server, dict) else {}
    drafts = server.get("speculative_num_draft_tokens")
    rate = told.get("request_rate")
    slos = told.get("request_goodput")
    return of(
        "sglang",
        str(path),
        name=told.get("tag"),
        engine=told.get("backend"),
        model=server.get("model_path"),
        gpus=server.get("tp_size") and int(server["tp_size"]) * int(server.get("pp_size") or 1),
        # The verify width counts the root, a budget does not.
        budget=int(drafts) - 1 if drafts else None,
        topk=server.get("speculative_eagle_topk"),
        maxreq=server.get("max_running_requests"),
        graphs=None if "disable_cuda_graph" not in server else not server["disable_cuda_graph"],
        attention_backend=server.get("attention_backend"),
        concurrency=told.get("max_concurrency"),
        rate=rate if isinstance(rate, int | float) and rate != float("inf") else None,
        requests=told.get("completed"),
        duration_s=told.get("duration"),
        prompt_tokens=told.get("total_input_tokens"),
        completion_tokens=told.get("total_output_tokens"),
        input_length=told.get("random_input_len"),
        output_length=told.get("random_output_len"),
        al=told.get("accept_length"),
        output_tok_s=told.get("output_throughput"),
        total_tok_s=told.get("total_throughput"),
        request_s=told.get("request_throughput"),
        goodput_requests_s=slos if isinstance(slos, int | float) else None,
        **{ours: told.get(theirs) for ours, theirs in _LATENCIES.items()},
    )
