"""Show a sweep until it ends: a view that is redrawn in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from treeline.live.playbook import Heard, Playbook, Starter
from treeline.live.state import State, look
from treeline.live.view import lines
from treeline.progress import verdict_line
from treeline.store import StoreError

EVERY_S = 0.5
READ_EVERY_S = 1.0
RESTORE_NOTE = "Ctrl-C stops after restoring the services"
WATCH_NOTE = "Ctrl-C ends this view, not the sweep"
# Options of ansible-playbook about hosts and how they are reached: restoring needs them, too.
_HOST_OPTIONS = (
    "-i", "--inventory", "-l", "--limit", "-e", "--extra-vars", "--vault-id", "--vault-password-file", "-u",
    "--user", "--private-key", "--key-file", "-c", "--connection", "-T", "--timeout", "--ssh-common-args",
    "--ssh-extra-args", "--become-method", "--become-user", "--become-password-file",
)  # fmt: skip


def watch(folder: Path, console: Console, *, every_s: float = READ_EVERY_S) -> None:
    """Show a sweep that another process runs until it ends. Raises StoreError, KeyboardInterrupt."""
    if not console.is_terminal:
        _watch_plainly(folder, console, every_s)
        return
    with _Screen(console) as screen:
        while True:
            state = look(folder)
            screen.show(_drawn(state, console, WATCH_NOTE if state.alive else ""))
            if not state.alive:
                return
            time.sleep(every_s)


def _watch_plainly(folder: Path, console: Console, every_s: float) -> None:
    """A line for each verdict and each new trial, none twice."""
    seen: set[str] = set()
    while True:
        state = look(folder)
        for line in state.verdicts:
            if line.trial_id not in seen:
                seen.add(line.trial_id)
                _say(console, verdict_line(line))
        for flight in state.flights:
            words = f"[{flight.host}] {flight.label}: {flight.purpose}, {state.done} done, {state.left} left"
            if words not in seen:
                seen.add(words)
                _say(console, words)
        if not state.alive:
            _say(console, state.ended or "its controller is gone; run the same command again to go on")
            return
        time.sleep(every_s)


def run_sweep(options: Sequence[str], console: Console, start: Starter = Playbook) -> tuple[int, Path | None]:
    """Run sweep.yml with the options of ansible-playbook and show it.

    An interrupt ends ansible-playbook and runs restore.yml on the same hosts; a second one leaves the rest to
    the lease on the hosts.

    Returns:
        The exit code (130 after an interrupt) and the sweep's folder, where one was opened.
    """
    heard = Heard()
    playbook = start("sweep.yml", options, heard)
    try:
        _follow(playbook, heard, console)
    except KeyboardInterrupt:
        _say(console, "Stopping: the trial under way is given up, then what ran before is restored.")
        playbook.stop()
        playbook.wait(30)
        return _restore(options, console, start), heard.sweep_dir
    code = playbook.close()
    for line in heard.lines() if not console.is_terminal else []:
        _say(console, line)
    for failure in heard.failures[-3:] if code else []:
        _say(console, failure)
    return code, heard.sweep_dir


def _restore(options: Sequence[str], console: Console, start: Starter) -> int:
    heard = Heard()
    restoring = start("restore.yml", host_options(options), heard)
    try:
        while not restoring.wait(EVERY_S):
            pass
    except KeyboardInterrupt:
        restoring.stop()
        restoring.wait(30)
        _say(console, "Not waiting: what is not restored yet is restored by the lease on each host.")
        return 130
    if restoring.close():
        for failure in heard.failures[-3:]:
            _say(console, failure)
        _say(console, "NOT restored everywhere: run ansible-playbook restore.yml, or wait for the leases.")
    else:
        _say(console, "What ran before is running again. The same command goes on with the sweep.")
    return 130


def host_options(options: Sequence[str]) -> list[str]:
    """Return those options of ansible-playbook that restore.yml needs, too."""
    kept: list[str] = []
    take_next = False
    for option in options:
        if take_next:
            kept.append(option)
            take_next = False
        elif option in _HOST_OPTIONS:
            kept.append(option)
            take_next = True
        elif option in ("-b", "--become") or _holds_value(option):
            kept.append(option)
    return kept


def _holds_value(option: str) -> bool:
    """Whether it is such an option with its value in one word: ``--limit=h1``, ``-lh1``."""
    if option.startswith("--"):
        return option.partition("=")[0] in _HOST_OPTIONS and "=" in option
    return option[:2] in _HOST_OPTIONS and len(option) > 2


def _follow(playbook: Playbook, heard: Heard, console: Console) -> None:
    if not console.is_terminal:
        while playbook.running:
            for line in heard.lines():
                _say(console, line)
            playbook.wait(EVERY_S)
        return
    with _Screen(console) as screen:
        state, read_at = None, 0.0
        while playbook.running:
            if time.monotonic() - read_at >= READ_EVERY_S:
                state, read_at = _looked(heard, state), time.monotonic()
            screen.show(_drawn(state, console, RESTORE_NOTE, heard))
            playbook.wait(EVERY_S)
        screen.show(_drawn(_looked(heard, state), console, ""))


def _looked(heard: Heard, before: State | None) -> State | None:
    if heard.sweep_dir is None:
        return None
    try:
        return look(heard.sweep_dir, dict(heard.steps))
    except StoreError:
        return before  # it is being written; the next look is a second away


def _drawn(state: State | None, console: Console, note: str, heard: Heard | None = None) -> list[Text]:
    if state is not None:
        return lines(state, console.width, console.height, note)
    task = heard.task if heard is not None else ""
    texts = [Text(f"before the first trial: {task or 'starting'}"), Text(note, "dim")]
    for text in texts:
        text.no_wrap = True
        text.truncate(console.width - 1, overflow="ellipsis")
    return texts


class _Screen:
    """The part of a terminal that is drawn again when something changed, and only then."""

    def __init__(self, console: Console) -> None:
        # Redrawn by us alone: a timer of its own would draw the same once more and flicker on slow links.
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._shown: list[str] = []

    def __enter__(self) -> _Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, texts: list[Text]) -> None:
        """Draw these lines, unless they stand there already."""
        plain = [text.markup for text in texts]
        if plain != self._shown:
            self._shown = plain
            self._live.update(Group(*texts), refresh=True)


def _say(console: Console, line: str) -> None:
    """Print one line as it is: not wrapped, not coloured, not read as markup."""
    console.print(Text(line), soft_wrap=True)
