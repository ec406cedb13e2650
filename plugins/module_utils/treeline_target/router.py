"""Take a worker out of an SGLang router and put it back, by the router's HTTP interface.

What is asked (sglang-router 0.3): GET /workers, DELETE /workers/{id}, POST /workers {"url": ...}. Changes are
answered with 202 before they are made, and every registration gives a new id: the id is looked up by address
each time, and the list is asked until it says what was wanted. How the router behaves, as far as a drain
rests on it, stands in the README of the role sglang_router_worker.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Mapping, Optional
from urllib.parse import quote

from . import http, traffic

POLL_S = 0.25
# A request that the router had assigned before the worker left the list may still be on its way to it.
SETTLE_S = 1.0
_TIMEOUT_S = 10.0
# Within it an entry is gone whose deletion was accepted.
_LEAVE_S = 5.0
_LOAD = "/get_load"
_METRICS = "/metrics"


class RouterError(Exception):
    """The router or the worker did not do what was asked within the bound; the message says which and why."""


@dataclass(frozen=True)
class Worker:
    """One worker as the router lists it. `known`: it told its model, so its key was right when it came."""

    worker_id: str
    url: str
    healthy: bool
    known: bool


@dataclass(frozen=True)
class Router:
    """A router and one of its workers, as this host reaches them."""

    router_url: str
    worker_url: str
    router_key: Optional[str] = None
    worker_key: Optional[str] = None

    def workers(self) -> list[Worker]:
        """The router's list. Raises RouterError."""
        try:
            answer = http.get_json(self._url("/workers"), _TIMEOUT_S, self.router_key)
        except http.HttpError as error:
            raise RouterError("the router does not tell its workers: %s" % error) from error
        listed = answer.get("workers") if isinstance(answer, Mapping) else None
        if not isinstance(listed, list):
            raise RouterError("%s gave no list of workers" % self._url("/workers"))
        return [_worker(entry) for entry in listed if isinstance(entry, Mapping)]

    def find(self) -> list[Worker]:
        """Entries of the worker in the router's list; empty where it has none. Raises RouterError."""
        return [worker for worker in self.workers() if _same(worker.url, self.worker_url)]

    def drain(self, timeout_s: float, allow_last: bool = False) -> tuple[bool, str]:
        """Take the worker off the list and wait until it is idle: (whether it was listed, a note or "").

        Args:
            allow_last: also where no other healthy worker is left, so that clients meet a router without one.

        Raises RouterError when its requests do not end in time, when it is the last worker, or when the
        router does not do or tell what it is asked. The worker is put back on the list then if it was on it.
        """
        deadline = time.monotonic() + timeout_s
        listed = self.find()
        if not listed:
            return False, self._wait_until_idle(deadline, timeout_s)
        self._refuse_last(allow_last)
        try:
            for worker in listed:
                self._send("DELETE", "/workers/%s" % quote(worker.worker_id, safe=""), None)
            while self._find_by(deadline):
                if time.monotonic() >= deadline:
                    raise RouterError(
                        "%s is still on the router's list after %g s" % (self.worker_url, timeout_s)
                    )
                time.sleep(POLL_S)
            # Another host may have left at the same moment, each seeing the other on the list.
            self._refuse_last(allow_last)
            return True, self._wait_until_idle(deadline, timeout_s)
        except RouterError as error:
            try:
                self._put_back({worker.worker_id for worker in listed})
            except RouterError as again:
                raise RouterError("%s. It is not back on the list: %s" % (error, again)) from error
            raise

    def _put_back(self, leaving: set[str]) -> None:
        """List the worker again after a drain that failed. Raises RouterError.

        Entries with the ids `leaving` may be gone a moment later: the router answers before it deletes.
        """
        deadline = time.monotonic() + _LEAVE_S
        while any(worker.worker_id in leaving for worker in self._find_by(deadline)):
            if time.monotonic() >= deadline:
                break
            time.sleep(POLL_S)
        self.register(_TIMEOUT_S)

    def register(self, timeout_s: float) -> bool:
        """Put the worker on the list and wait until it is healthy there; whether anything was done.

        One that is listed as unhealthy, or was listed without the key that it needs, is registered anew: the
        router looks at a new entry at once, at an old one only every minute.

        Raises RouterError when the router does not list it as healthy in time.
        """
        deadline = time.monotonic() + timeout_s
        found = self._find_by(deadline)
        if any(worker.healthy and (worker.known or not self.worker_key) for worker in found):
            return False
        body: dict[str, Any] = {"url": self.worker_url}
        if self.worker_key:
            body["api_key"] = self.worker_key
        earlier = {worker.worker_id for worker in found}
        self._send("POST", "/workers", body)
        while not any(worker.healthy and worker.worker_id not in earlier for worker in found):
            if time.monotonic() >= deadline:
                state = "lists it as unhealthy" if found else "does not list it"
                raise RouterError("the router %s: %s, after %g s" % (state, self.worker_url, timeout_s))
            time.sleep(POLL_S)
            found = self._find_by(deadline)
        return True

    def _find_by(self, deadline: float) -> list[Worker]:
        """The same as `find`, asked again until then: a busy router that is slow once spoils no change.

        Raises RouterError.
        """
        while True:
            try:
                return self.find()
            except RouterError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(POLL_S)

    def _wait_until_idle(self, deadline: float, timeout_s: float) -> str:
        """Return once the worker has been idle for SETTLE_S, with a note where it could not be asked."""
        idle_since: Optional[float] = None
        while True:
            counted = ask_worker(self.worker_url, self.worker_key)
            now = time.monotonic()
            if counted is None:
                return "nothing answers at %s, so nothing runs there" % self.worker_url
            idle = counted.known and not counted.busy
            idle_since = (idle_since or now) if idle else None
            if idle_since is not None and now - idle_since >= SETTLE_S:
                return ""
            if now >= deadline:
                break
            time.sleep(POLL_S)
        if not counted.known:
            return "%s does not tell its running requests (%s); waited %g s" % (
                self.worker_url,
                counted.note,
                timeout_s,
            )
        raise RouterError(
            "%s still has %s running and %s queued requests after %g s; it goes back on the list. Raise "
            "sglang_router_worker_drain_timeout, or look what keeps them"
            % (self.worker_url, counted.running, counted.queued, timeout_s)
        )

    def _refuse_last(self, allowed: bool) -> None:
        others = [one for one in self.workers() if one.healthy and not _same(one.url, self.worker_url)]
        if not others and not allowed:
            raise RouterError(
                "%s is the last healthy worker of %s: without it clients get errors. Make the waves smaller, "
                "or accept that with sglang_router_worker_allow_last=true"
                % (self.worker_url, self.router_url)
            )

    def _url(self, path: str) -> str:
        return self.router_url.rstrip("/") + path

    def _send(self, method: str, path: str, body: Optional[Mapping[str, Any]]) -> None:
        try:
            answer = http.request(
                self._url(path), _TIMEOUT_S, method=method, payload=body, api_key=self.router_key
            )
        except http.HttpError as error:
            raise RouterError("the router did not answer %s %s: %s" % (method, path, error)) from error
        # 404 to a DELETE: somebody else was quicker; the list is asked in any case.
        if answer.status >= 400 and not (method == "DELETE" and answer.status == 404):
            raise RouterError(
                "the router answered %d to %s %s: %s" % (answer.status, method, path, answer.body[:200])
            )


def ask_worker(url: str, key: Optional[str]) -> Optional[traffic.Traffic]:
    """Requests in work and in the queue; None where nothing listens.

    SGLang's gauges in /metrics follow its decode log and may be some steps old, so /get_load is asked too and
    the higher figure counts.
    """
    statuses, told = [], []
    for path, read in ((_LOAD, _from_load), (_METRICS, _from_metrics)):
        try:
            answer = http.request(url.rstrip("/") + path, _TIMEOUT_S, api_key=key)
        except http.HttpError as error:
            return None if "refused" in str(error) else traffic.Traffic(None, None, str(error))
        statuses.append("%s: %d" % (path, answer.status))
        counted = read(answer) if answer.status == 200 else None
        if counted is not None:
            told.append(counted)
    if not told:
        return traffic.Traffic(None, None, ", ".join(statuses))
    return traffic.Traffic(max(one.running or 0 for one in told), max(one.queued or 0 for one in told))


def _from_load(answer: http.Answer) -> Optional[traffic.Traffic]:
    try:
        return traffic.parse_load(answer.json())
    except ValueError:
        return None


def _from_metrics(answer: http.Answer) -> Optional[traffic.Traffic]:
    return traffic.parse_metrics(answer.body)


def _worker(entry: Mapping[str, Any]) -> Worker:
    return Worker(
        str(entry.get("id", "")),
        str(entry.get("url", "")),
        bool(entry.get("is_healthy")),
        entry.get("model_id", "unknown") != "unknown",
    )


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")
