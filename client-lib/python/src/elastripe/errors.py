"""What can go wrong, of the same kinds as in the C++ client.

A write that ended with ConnectionFailed, TimedOut or UnknownOutcome may have taken effect, or may
yet: `may_have_taken_effect` says so. After any other error nothing was done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import ClassVar


class Error(Exception):
    """What all errors of this package have in common."""

    kind: ClassVar[str] = "error"  # the word that other clients and the command line have for it
    may_have_taken_effect: bool = False  # a write, that is

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message  # one line


class NotFound(Error):
    """There is no object under this key, or no such job."""

    kind = "not_found"


class OutOfRange(Error):
    """The object ends before the bytes do; nothing was done."""

    kind = "out_of_range"


class Exists(Error):
    """The object's cas unique is another one; nothing was done."""

    kind = "exists"


class Invalid(Error):
    """A key, a number or an object is out of bounds; nothing was sent."""

    kind = "invalid"


class ConnectionFailed(Error):
    """There is no connection, or it broke. A write may have taken effect, unless the connection
    was never made."""

    kind = "connection"
    may_have_taken_effect = True


class TimedOut(Error):
    """No answer came in time. A write may have taken effect, unless it was the connection that was
    not made in time."""

    kind = "timeout"
    may_have_taken_effect = True


class ServerError(Error):
    """The server refused: SERVER_ERROR, CLIENT_ERROR or ERROR; the message is its own."""

    kind = "server"


class NotServing(ServerError):
    """The server serves nothing now. The other proxies, if there are any, were tried too."""


class UnknownOutcome(Error):
    """An error that says "outcome unknown": a write may have taken effect, or may yet."""

    kind = "unknown_outcome"
    may_have_taken_effect = True


class PutManyFailed(Error):
    """Some of many objects were not stored, each for a reason of its own: `errors` has them by
    key. All others were stored."""

    kind = "put_many"

    def __init__(self, errors: Mapping[str | bytes, Error]) -> None:
        key, error = next(iter(errors.items()))
        super().__init__(f"{len(errors)} objects were not stored; {key!r}: {error}")
        self.errors = dict(errors)
        self.may_have_taken_effect = any(e.may_have_taken_effect for e in errors.values())


def is_no_answer(error: Error) -> bool:
    """Whether the error is no answer of a server that serves."""
    return isinstance(error, (ConnectionFailed, TimedOut, NotServing))


@contextlib.contextmanager
def nothing_is_sent() -> Iterator[None]:
    """Marks errors of a block that comes before any request."""
    try:
        yield
    except Error as error:
        error.may_have_taken_effect = False
        raise
