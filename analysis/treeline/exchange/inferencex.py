"""Rows like those of InferenceX: rates per GPU, latencies in seconds, interactivity = 1 / time per token."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from treeline.exchange.row import ExchangeError, ForeignRow, of

_TIMES = ("ttft", "tpot", "itl", "e2e")
_THEIR_TIMES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
_PLACES = {"p50": "median", "p90": "p90", "p99": "p99", "mean": "mean"}


def gpu_count(tp: int, pp: int = 1, pcp: int = 1) -> int:
    """Return the number of GPUs of one service: tensor x pipeline x prefill-context parallel sizes."""
    return tp * pp * pcp


def rates(total_tok_s: float, output_tok_s: float, gpus: int) -> dict[str, float]:
    """Return throughput per GPU in tokens/s; the total counts input tokens, too."""
    total, output = total_tok_s / gpus, output_tok_s / gpus
    return {"tput_per_gpu": total, "output_tput_per_gpu": output, "input_tput_per_gpu": total - output}


def interactivity(tpot_ms: float) -> float:
    """Return tokens/s that one user sees, from ms per output token."""
    return 1000 / tpot_ms


def row(measured: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a measurement as an InferenceX-like row.

    Args:
        measured: fields of ``records.Measurement``; the total rate is the output rate x all tokens / output
            tokens, over the same window.
        about: what a measurement does not say: ``hw``, ``model``, ``framework``, ``image``, ``precision``,
            ``tp``, ``pp``, ``pcp_size``, and anything else that the row shall have.

    Values that are not known are left out.
    """
    tp, pp, pcp = (int(about.get(name) or 1) for name in ("tp", "pp", "pcp_size"))
    made: dict[str, Any] = {
        **about,
        "conc": measured.get("concurrency"),
        "spec_decoding": "ddtree" if measured.get("budget") else "none",
        "disagg": False,
        "is_multinode": False,
        "tp": tp,
        "pp": pp,
        "pcp_size": pcp,
        "isl": measured.get("context") or _per_request(measured, "prompt_tokens"),
        "osl": measured.get("max_tokens") or _per_request(measured, "completion_tokens"),
    }
    output = _number(measured.get("output_tok_s"))
    prompt, completion = _number(measured.get("prompt_tokens")), _number(measured.get("completion_tokens"))
    if output is not None and prompt is not None and completion:
        made |= rates(output * (prompt + completion) / completion, output, gpu_count(tp, pp, pcp))
    elif output is not None:
        made["output_tput_per_gpu"] = output / gpu_count(tp, pp, pcp)
    for ours in _TIMES:
        for place, theirs in _PLACES.items():
            value = _number(measured.get(f"{ours}_{place}_ms"))
            if value is None:
                continue
            made[f"{theirs}_{_THEIR_TIMES[ours]}"] = value / 1000
            if ours == "tpot" and value > 0:
                made[f"{theirs}_intvty"] = interactivity(value)
    made |= {
        name: measured[name]
        for name in ("budget", "topk", "maxreq", "graphs", "al", "trial_id", "simulated", "status", "class")
        if name in measured
    }
    return {name: value for name, value in made.items() if value is not None and value == value}


def read(path: Path) -> list[ForeignRow]:
    """Return the rows of a JSON file: a list of rows, one row, or a line each.

    Raises:
        ExchangeError: the file cannot be read, or a row lacks its throughput.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ExchangeError(f"{path} cannot be read: {error.strerror}") from error
    try:
        told = msgspec.json.decode(data)
        found = told if isinstance(told, list) else [told]
    except msgspec.DecodeError:
        try:
            found = [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
        except msgspec.DecodeError as error:
            raise ExchangeError(f"{path} is no JSON: {error}") from error
    return [_foreign(path, number, entry) for number, entry in enumerate(found, 1)]


def _foreign(path: Path, number: int, told: Any) -> ForeignRow:
    if isinstance(told, dict) and told.get("status") not in (None, "ok"):
        return of(
            "inferencex", str(path), status="failed", hardware=told.get("hw"), model=told.get("model"),
            engine=told.get("framework"), budget=told.get("budget"), topk=told.get("topk"),
            maxreq=told.get("maxreq"), graphs=told.get("graphs"), concurrency=told.get("conc"),
            first_error=told.get("class") or told["status"],
        )  # fmt: skip
    if not isinstance(told, dict) or "output_tput_per_gpu" not in told:
        raise ExchangeError(f"{path}: row {number} has no output_tput_per_gpu; is it of InferenceX?")
    gpus = gpu_count(int(told.get("tp") or 1), int(told.get("pp") or 1), int(told.get("pcp_size") or 1))
    total = _number(told.get("tput_per_gpu"))
    times = {
        f"{ours}_{place}_ms": None if (seconds := _number(told.get(f"{theirs}_{_THEIR_TIMES[ours]}"))) is None
        else seconds * 1000
        for ours in _TIMES
        for place, theirs in _PLACES.items()
        if (ours, place) != ("e2e", "mean")
    }  # fmt: skip
    return of(
        "inferencex",
        str(path),
        name=told.get("recipe_fingerprint"),
        engine=told.get("framework"),
        model=told.get("model"),
        hardware=told.get("hw"),
        gpus=gpus,
        budget=told.get("budget"),
        topk=told.get("topk"),
        maxreq=told.get("maxreq"),
        graphs=told.get("graphs"),
        concurrency=told.get("conc"),
        input_length=told.get("isl"),
        output_length=told.get("osl"),
        al=told.get("al"),
        output_tok_s=float(told["output_tput_per_gpu"]) * gpus,
        total_tok_s=None if total is None else total * gpus,
        **times,
    )


def _per_request(measured: Mapping[str, Any], name: str) -> int | None:
    tokens, requests = _number(measured.get(name)), _number(measured.get("ok") or measured.get("requests"))
    return round(tokens / requests) if tokens and requests else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value == value else None
