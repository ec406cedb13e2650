"""One measurement of another tool, in the units and names of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

Source = Literal["sglang", "vllm", "inferencex"]
FOREIGN_SCHEMA = 1


class ExchangeError(Exception):
    """A foreign file cannot be read; the message names it and what is wrong."""


class ForeignRow(msgspec.Struct, kw_only=True):
    """A measurement that Treeline did not make. Names and units are those of ``records.Measurement``.

    What the tool did not say is missing: nothing is made up. ``status`` is ``ok`` or ``failed``; a failed row
    has no figures, and says why in ``first_error``. ``gpus`` is the number that rates per GPU refer to.
    """

    source: Source
    source_file: str
    foreign: Literal[True] = True
    status: Literal["ok", "failed"] = "ok"
    name: str | None = None
    engine: str | None = None
    model: str | None = None
    hardware: str | None = None
    gpus: int | None = None
    budget: int | None = None
    topk: int | None = None
    maxreq: int | None = None
    graphs: bool | None = None
    attention_backend: str | None = None
    concurrency: int | None = None
    rate: float | None = None
    requests: int | None = None
    failed: int | None = None
    duration_s: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_length: int | None = None
    output_length: int | None = None
    al: float | None = None
    position_rates: list[float] | None = None
    output_tok_s: float | None = None
    total_tok_s: float | None = None
    request_s: float | None = None
    ttft_p50_ms: float | None = None
    ttft_p90_ms: float | None = None
    ttft_p99_ms: float | None = None
    ttft_mean_ms: float | None = None
    tpot_p50_ms: float | None = None
    tpot_p90_ms: float | None = None
    tpot_p99_ms: float | None = None
    tpot_mean_ms: float | None = None
    itl_p50_ms: float | None = None
    itl_p90_ms: float | None = None
    itl_p99_ms: float | None = None
    itl_mean_ms: float | None = None
    e2e_p50_ms: float | None = None
    e2e_p90_ms: float | None = None
    e2e_p99_ms: float | None = None
    goodput_requests_s: float | None = None
    first_error: str | None = None
    schema_version: int = FOREIGN_SCHEMA


def of(source: Source, source_file: str, **values: object) -> ForeignRow:
    """Build a row; values that are None or of no use count as not said.

    Raises:
        ExchangeError: a value is of the wrong type.
    """
    told = {name: value for name, value in values.items() if value is not None and value != ""}
    try:
        return msgspec.convert(
            {"source": source, "source_file": source_file, **told}, ForeignRow, strict=False
        )
    except msgspec.ValidationError as error:
        raise ExchangeError(f"{source_file}: {error}") from error


def to_lines(rows: Iterable[ForeignRow]) -> bytes:
    """Return rows as JSON lines; what was not said is left out."""
    told = [{n: v for n, v in msgspec.to_builtins(row).items() if v is not None} for row in rows]
    return b"".join(msgspec.json.encode(row) + b"\n" for row in told)
