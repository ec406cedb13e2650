"""The service life under load, and how it may end before the load does: seen within two seconds."""

from __future__ import annotations

import asyncio
import resource
import time
from dataclasses import dataclass
from typing import Callable, Optional, Sequence

from . import ready, systemd, unitwatch
from .load_client import Client
from .load_spec import Spec

POLL_S = 0.5
_SPARE_FILES = 256


@dataclass(frozen=True)
class Life:
    """The service life under load. Without `unit` nothing is watched.

    `look` asks systemd about the unit; `lease_lost` says why the lease is gone, None while it is held.
    """

    unit: Optional[str] = None
    invocation_id: str = ""
    found_units: Sequence[str] = ()
    look: Callable[[str], unitwatch.UnitState] = unitwatch.read_state
    lease_lost: Callable[[], Optional[str]] = lambda: None


@dataclass(frozen=True)
class End:
    """How a load ended: done, died, preempted, timeout or lease_lost, and in words.

    `reason` tells timeouts apart: `no_tokens` (the engine held requests and gave nobody a token) and `bound`.
    """

    outcome: str
    msg: str
    died_at_monotonic: Optional[float] = None
    reason: Optional[str] = None


async def watch(life: Life) -> End:
    """Return when the life is over or the lease is lost; runs for ever otherwise."""
    while True:
        end = await check(life)
        if end is not None:
            return end
        await asyncio.sleep(POLL_S)


async def check(life: Life) -> Optional[End]:
    """How the life ended, None while it goes on."""
    lost = life.lease_lost()
    if lost is not None:
        return End("lease_lost", lost)
    if life.unit is None:
        return None
    return await asyncio.get_running_loop().run_in_executor(None, _look, life, life.unit)


def _look(life: Life, unit: str) -> Optional[End]:
    try:
        state = life.look(unit)
    except systemd.CommandError:
        return None  # systemd is busy; the engine itself is being measured meanwhile
    why = unitwatch.why_over(state, life.invocation_id)
    if why is None:
        return None
    ours = state.invocation_id == life.invocation_id
    died_at = state.inactive_enter_monotonic if ours else ready.last_word(life.invocation_id)
    try:
        other = unitwatch.running_unit(life.found_units)
    except systemd.CommandError:
        other = None
    if other is not None:
        return End("preempted", "%s became active while the load ran: %s" % (other, why), died_at)
    return End("died", "%s died while the load ran: %s" % (unit, why), died_at)


async def watch_tokens(client: Client, spec: Spec) -> End:
    """Return when the engine holds requests and nobody has got a token for too long; runs for ever otherwise.

    An engine can answer its health probe and be dead in every other way. Without streaming, a whole answer
    has to be waited for.
    """
    bound = spec.limits.no_token_s
    if not spec.stream:
        bound = max(bound, spec.limits.request_s)
    while True:
        await asyncio.sleep(min(POLL_S, bound / 4))
        since = client.owes_since()
        if since is not None and time.monotonic() - since > bound:
            text = "the engine took %d requests and made no token for %g s" % (
                max(1, client.in_flight),
                bound,
            )
            return End("timeout", text, reason="no_tokens")


def allow_connections(concurrency: int) -> None:
    """Let this process have a connection for each request in flight. Raises ValueError where it may not."""
    wanted = concurrency + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise ValueError(
            "client_keys: concurrency %d needs %d open files, and this host allows %d (ulimit -Hn)"
            % (concurrency, wanted, hard)
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
