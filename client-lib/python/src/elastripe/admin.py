"""The admin interface of a proxy: HTTP and JSON (docs/admin-api.md)."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Mapping
from typing import Any, Protocol

from .bounds import Address, parse_address
from .errors import (ConnectionFailed, Error, NotFound, NotServing, ServerError, TimedOut,
                     UnknownOutcome, nothing_is_sent)

Report = dict[str, Any]  # JSON, as the interface answers it

TRANSITIONS = "/v1/transitions"
TRANSITION = "transition"  # what its header says of a request that does something

_LONGEST_PAUSE_S = 1.0
# In which proxies that did not begin a job have heard of it: two seconds, and some more.
_HEARD_S = 5.0
_HEARD_PAUSE_S = 0.05


class Admin:
    """Where a proxy has its admin interface. Each request is a connection."""

    def __init__(self, told: str, address: Address, timeout: float) -> None:
        self._told = told  # the name that the interface knows itself by
        self._address = address
        self._timeout = timeout

    @classmethod
    def of_proxy(cls, settings: Mapping[str, str], proxy: Address, named: str | None,
                 timeout: float) -> Admin:
        """The interface of the proxy that has these settings, at the address `named`, or at the one
        that the proxy tells. Raises ServerError if it is not the interface of this proxy."""
        told = settings.get("admin_addr", "")
        if not told:
            raise ServerError(f"{proxy} is no elastripe proxy, or its admin interface is off")
        address = parse_address(named or told)
        if named is None and address.host in ("0.0.0.0", "::"):
            # A proxy that listens everywhere tells no address to connect to.
            host = Address().host if proxy.is_unix_socket else proxy.host
            address = Address(host, address.port)
        admin = cls(told, address, timeout)
        try:
            found = admin.request("GET", "/v1/status").get("proxy_id")
        except NotFound as error:  # which is not the object, or the job
            raise ServerError(error.message) from error
        if found != settings.get("proxy_id"):
            raise ServerError(f"the admin interface {address} is of another proxy than {proxy}: "
                              "name its address, or ask where the proxy runs")
        return admin

    def request(self, method: str, path: str, action: str = "",
                body: Report | None = None) -> Report:
        """The answer. Raises NotFound, ServerError, NotServing, ConnectionFailed, TimedOut or
        UnknownOutcome."""
        headers = {"Host": self._told} | ({"X-Elastripe": action} if action else {})
        connection = http.client.HTTPConnection(*self._address, timeout=self._timeout)
        try:
            with contextlib.closing(connection):
                with nothing_is_sent():
                    self._connect(connection)
                connection.request(method, path, json.dumps(body) if body else None, headers)
                response = connection.getresponse()
                text = response.read()
        except TimeoutError as error:
            raise TimedOut(f"{self._address}: no answer in time") from error
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionFailed(f"{self._address}: {error}") from error
        answer = _object_in(text)
        if response.status // 100 != 2:
            raise _refused(response.status, answer or {}, response.reason)
        if answer is None:
            raise ConnectionFailed(f"{self._address} does not answer with JSON")
        return answer

    def _connect(self, connection: http.client.HTTPConnection) -> None:
        try:
            connection.connect()
        except TimeoutError as error:
            raise TimedOut(f"{self._address}: no connection in time") from error
        except OSError as error:
            raise ConnectionFailed(f"{self._address}: {error}") from error


def _object_in(text: bytes) -> Report | None:
    """The JSON object that the text is; None if it is none."""
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _refused(status: int, answer: Report, reason: str) -> Error:
    message = str(answer.get("message", answer.get("error", reason)))
    if answer.get("error") == "unknown_outcome":
        return UnknownOutcome(f"outcome unknown: {message}")
    kinds: dict[int, type[Error]] = {404: NotFound, 503: NotServing}
    return kinds.get(status, ServerError)(message)


class AskAdmin(Protocol):
    """Has any proxy's interface answer: see Client."""

    def __call__(self, method: str, path: str, action: str = "", body: Report | None = None, *,
                 is_conditional: bool = False) -> Report: ...


class Transition:
    """A job of the cluster that takes objects to another k (docs/transitioning.md). It is not bound
    to the proxy that was asked for it: each call asks any of those that the client knows. Should
    the one end that runs the job, another one goes on with it.

    Another program may go on with the job by its `id`: Client.find_transition."""

    def __init__(self, ask: AskAdmin, id: int) -> None:
        self._ask = ask
        self._heard_by = time.monotonic() + _HEARD_S
        self.id = id

    def report(self) -> Report:
        """How far it is: GET /v1/transitions/ID of docs/admin-api.md. Raises NotFound when the
        cluster knows it no more, as of all but the last few, ConnectionFailed, TimedOut. A proxy
        that has not heard of a new one yet is given the time to."""
        while True:
            report = self._report()
            if report is not None:
                return report
            time.sleep(_HEARD_PAUSE_S)

    def _report(self) -> Report | None:
        """None where a proxy has not heard of it yet."""
        try:
            return self._ask("GET", f"{TRANSITIONS}/{self.id}")
        except NotFound:
            if time.monotonic() < self._heard_by:
                return None
            raise

    def cancel(self) -> Report:
        """No object begins any more; `wait` for those that have begun. What was not answered is
        asked for elsewhere: it is no harm twice. Raises as `report` does, ServerError and
        UnknownOutcome."""
        return self._ask("POST", f"{TRANSITIONS}/{self.id}/cancel", TRANSITION,
                         is_conditional=True)

    def wait(self, timeout: float | None = None) -> Report:
        """The last report, when it is done or cancelled: its counts tell what became of the
        objects. Raises ServerError if it failed as a whole, TimedOut while it runs after so many
        seconds, and as `report` does."""
        end = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        while True:
            report = self._report() or {"state": "not heard of"}
            if report["state"] in ("done", "cancelled"):
                return report
            if report["state"] == "failed":
                raise ServerError(f"the transition failed: {report['reason']}")
            if end is not None and time.monotonic() + pause > end:
                raise TimedOut(f"the transition is {report['state']}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
