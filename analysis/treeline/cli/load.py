"""`treeline load`: the load client of the sweeps, from here, against any server."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from treeline.cli.common import terminal_width

_HELP = """Load the server at URL and print what it gives: throughput, acceptance length, latencies.

This is the client that a sweep runs on its hosts, run from here. Each point is a closed loop, --concurrency
requests in flight at a time, busiest first; prompts are real text, every one of them different, so that no
prefix cache answers for the engine. Warm-up is not measured. Times include the network between here and
there.

\b
  treeline load http://127.0.0.1:30000
  treeline load http://127.0.0.1:30000 --concurrency 1,8,32 --context 4096
  treeline load http://127.0.0.1:30000 --concurrency 64 --rate 12 --slo-ttft-ms 500 --slo-tpot-ms 30
  treeline load http://10.0.0.5:8000 --api chat --prompts ShareGPT_V3.json --api-key-file key.txt
  treeline load http://127.0.0.1:30000 --concurrency 32 --target-rel-ci 0.01 --soak 10m --json > load.json

AL is the sum of completion tokens / the sum of verify calls, the bonus token included; a dash where the
server reports no verify calls. tok/s is taken while 0.8 of the peak is in flight. With --rate latencies count
from when a request was due, also where it had to wait. Ctrl-C ends the load and shows what there is.

Ends with 0 when the load ran to its end and a request succeeded at every point, else with 1.
"""


def _numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> list[int]:
    if value is None:
        return []
    words = [word.strip() for word in value.split(",")]
    if not all(word.isdigit() and int(word) > 0 for word in words):
        raise click.BadParameter(
            f"{value!r}: whole numbers above 0, separated by commas, are allowed (1,8,32)"
        )
    return list(dict.fromkeys(int(word) for word in words))


def _seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float:
    if not value:
        return 0.0
    unit = {"s": 1, "m": 60, "h": 3600}.get(value[-1])
    number = value[:-1] if unit else value
    try:
        seconds = float(number) * (unit or 1)
    except ValueError:
        raise click.BadParameter(
            f"{value!r}: seconds, or a number with s, m or h, are allowed (10m)"
        ) from None
    if not 0 < seconds < float("inf"):
        raise click.BadParameter(f"{value!r}: a time above 0 is needed")
    return seconds


@click.command("load", short_help="Load a server and print what it gives.", help=_HELP)
@click.argument("url")
@click.option(
    "--concurrency", default="1,8", show_default=True, callback=_numbers, help="Requests in flight."
)
@click.option("--context", callback=_numbers, help="Prompt lengths in tokens, about.  [default: about 320]")
@click.option(
    "--requests", default=0, help="Requests of each point.  [default: twice the concurrency, 8 to 256]"
)
@click.option("--max-tokens", default=128, show_default=True, help="Tokens that each request generates.")
@click.option("--rate", type=float, help="Requests per second, whatever the answers (open loop).")
@click.option(
    "--arrival", type=click.Choice(["poisson", "constant"]), default="poisson", show_default=True,
    help="How the requests of --rate come.",
)  # fmt: skip
@click.option(
    "--api", type=click.Choice(["native", "chat"]), default="native", show_default=True,
    help="SGLang's /generate, or OpenAI's chat completions.",
)  # fmt: skip
@click.option("--stream/--no-stream", default=True, help="Streamed answers, or whole ones (no TTFT then).")
@click.option("--repeats", type=int, help="Measure each point so often, in turns.")
@click.option(
    "--target-rel-ci", type=float, help="Repeat until the mean tok/s is known so well (0.01 = 1 %)."
)
@click.option(
    "--soak", callback=_seconds, help="Keep the busiest load up for so long at the end (90s, 10m, 1h)."
)
@click.option("--slo-ttft-ms", type=float, help="Count requests with a first token within this time.")
@click.option("--slo-tpot-ms", type=float, help="... and with no more than this time per output token.")
@click.option(
    "--prompts", "prompt_files", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of prompts: JSON lines, ShareGPT, GSM8K, HumanEval, MT-bench. May be given several times.",
)  # fmt: skip
@click.option("--seed", default="treeline", show_default=True, help="The same seed sends the same prompts.")
@click.option("--canaries", is_flag=True, help="Ask the shipped questions with known answers, too.")
@click.option("--retries", default=0, help="How often to send again what was turned away with 429 or 503.")
@click.option(
    "--flush/--no-flush", default=True, help="Empty the prefix cache before each point, where offered."
)
@click.option(
    "--timeout", "timeout_s", default="30m", show_default=True, callback=_seconds, help="Bound, no soak."
)
@click.option("--request-timeout", "request_s", default="10m", show_default=True, callback=_seconds,
              help="Bound of one request.")  # fmt: skip
@click.option(
    "--api-key-file", type=click.Path(exists=True, dir_okay=False), help="File that holds the API key."
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Keep requests.ndjson.gz here.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON instead of a table.")
def command(url: str, as_json: bool, out: Path | None, **given: Any) -> None:
    """Carry out the load; see the help text."""
    from treeline_target import http, load_run, load_spec

    from treeline import cross_checks, material

    try:
        with ExitStack() as stack:
            folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="treeline-load-")))
            spec = _spec(url, folder, given)
            result = load_run.run(spec, load_run.Life(lease_lost=_stop_flag(stack)), _Line(as_json))
            if out is None:
                result["requests_file"] = None
    except (load_spec.SpecError, material.MaterialError, http.KeyFileError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    cross_checks.settle(result)
    if result["outcome"] == "lease_lost":
        result["outcome"] = "stopped"
    if as_json:
        click.echo(json.dumps(result, indent=1))
    else:
        _show(result)
    good = result["outcome"] == "done" and all(point["ok"] for point in result["points"])
    sys.exit(0 if good else 1)


def _spec(url: str, folder: Path, given: dict[str, Any]) -> Any:
    """What the options ask for. Raises ValueError."""
    from treeline_target import http, load_spec

    from treeline import load_request, material, prompt_files

    if not url.startswith(("http://", "https://")):
        raise ValueError(f"URL: {url!r} is no address; http://HOST:PORT is needed")
    keys = [
        {"concurrency": concurrency, "context": context}
        for concurrency in given["concurrency"]
        for context in given["context"] or [None]
    ]
    repeats = load_spec.repeats_of(given["repeats"], None, None, given["target_rel_ci"])
    wanted = {"client_keys": keys, "requests_per_key": given["requests"], "repeats": repeats.high}
    files = given["prompt_files"]
    prompts = (
        prompt_files.choose(files, load_request.needed(wanted), given["seed"])
        if files
        else material.prompts()
    )
    return load_spec.Spec(
        base_url=url,
        client_keys=load_spec.parse_client_keys(keys),
        canaries=load_spec.parse_canaries(material.canaries() if given["canaries"] else []),
        prompts=prompts,
        questions=bool(files),
        prompts_seed=given["seed"],
        out_dir=str(folder),
        requests_per_key=given["requests"],
        max_tokens=given["max_tokens"],
        api=given["api"],
        stream=given["stream"],
        rate=given["rate"],
        arrival=given["arrival"],
        retries=given["retries"],
        repeats=repeats,
        slo=load_spec.Slo(given["slo_ttft_ms"], given["slo_tpot_ms"]),
        soak_s=given["soak"],
        flush=given["flush"],
        limits=load_spec.Limits(request_s=given["request_s"], total_s=given["timeout_s"]),
        api_key=http.read_key(given["api_key_file"]),
    ).checked()


def _stop_flag(stack: ExitStack) -> Any:
    """A function that says why to stop, once Ctrl-C was pressed; pressed again, the command ends."""
    why: list[str] = []

    def pressed(number: int, frame: object) -> None:
        if why:
            raise KeyboardInterrupt
        why.append("stopped with Ctrl-C")

    before = signal.signal(signal.SIGINT, pressed)
    stack.callback(signal.signal, signal.SIGINT, before)
    return lambda: why[0] if why else None


class _Line:
    """Shows the progress on standard error: one line that is written over, or now and then one into a log."""

    def __init__(self, quiet: bool) -> None:
        self._overwrites = sys.stderr.isatty()
        self._every = 0.0 if self._overwrites else 10.0
        self._quiet = quiet and not self._overwrites
        self._said = 0.0

    def __call__(self, progress: dict[str, Any]) -> None:
        from treeline.load_table import progress_line

        if self._quiet or time.monotonic() - self._said < self._every:
            return
        self._said = time.monotonic()
        text = progress_line(progress)[: (terminal_width() or 110) - 1]
        click.echo(f"\r\x1b[K{text}" if self._overwrites else text, err=True, nl=not self._overwrites)

    def __del__(self) -> None:
        if self._overwrites and self._said:
            click.echo("\r\x1b[K", err=True, nl=False)


def _show(result: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from treeline.load_table import notes, rows
    from treeline.plain import clean

    head, *points = rows(result)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in head:
        table.add_column(name, justify="right")
    for point in points:
        table.add_row(*point)
    console = Console(width=terminal_width() or 110, highlight=False)
    console.print(table)
    console.print("milliseconds from when a request was due; AL: completion tokens / verify calls")
    for note in notes(result):
        console.print(Text(f"- {clean(note)}"))
