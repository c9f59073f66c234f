"""The proxies that a client may ask: their connections, and which of them is asked next."""

from __future__ import annotations

import collections
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from .bounds import Address
from .connection import Connection, Options
from .errors import ConnectionFailed, Error, PutManyFailed, UnknownOutcome, is_no_answer

Result = TypeVar("Result")


class _Proxy:
    """One proxy, and the connections to it that nobody uses just now."""

    def __init__(self, address: Address, options: Options, most_idle: int) -> None:
        self.address = address
        self._options = options
        self._most_idle = most_idle
        # The last used one is last. A deque needs no lock, which a fork could leave locked.
        self._idle: collections.deque[Connection] = collections.deque()
        self._process = os.getpid()

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection for one request. Raises what connecting raises: nothing was sent then."""
        connection = self._idle_one() or Connection(self.address, self._options)
        try:
            yield connection
        finally:
            self._give_back(connection)

    def _idle_one(self) -> Connection | None:
        # A child process that was forked must not speak on its parent's connections.
        if self._process != os.getpid():
            self._process = os.getpid()
            self._idle = collections.deque()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_quiet():
                return connection
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        if connection.is_usable and len(self._idle) < self._most_idle:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        idle, self._idle = self._idle, collections.deque()
        for connection in idle:
            connection.close()


class Proxies:
    """Several proxies of one cluster, of which the one that answered last is asked first; after
    one that did not answer, the one behind it.

    May be used by many threads: each request has a connection of its own meanwhile.
    """

    def __init__(self, addresses: Sequence[Address], options: Options, most_idle: int) -> None:
        self._proxies = [_Proxy(address, options, most_idle) for address in addresses]
        self._preferred = 0  # an int needs no lock, either: what is lost is one hint

    def run(self, request: Callable[[Connection], Result], *, is_read: bool = False,
            is_conditional: bool = False) -> Result:
        """What `request` returns, of the first proxy that can answer.

        The next proxy is asked when nothing was done: there is no connection, or the proxy says
        that it serves nothing. A read is also asked again when its answer did not come. A write is
        then sent again only if it is conditional, so that it takes effect once at most, as with a
        cas unique; if the later try is refused, nobody knows whether that is due to the first, and
        UnknownOutcome is raised. A connection that broke may have been of a process that has
        ended: its proxy is asked once more, after the others.
        """
        count = len(self._proxies)
        first = self._preferred
        queue = [(first + place) % count for place in range(count)]
        unknown: Error | None = None  # of a try that may have taken effect
        for place, number in enumerate(queue):  # which may grow meanwhile
            try:
                with self._proxies[number].connection() as connection:
                    result = request(connection)
                self._preferred = number
                return result
            except Error as error:
                failure = error
            self._note_failure(number, failure)
            if failure.may_have_taken_effect and not is_read:
                if not is_conditional:
                    break
                unknown = failure
            elif not is_no_answer(failure):
                break
            broke = isinstance(failure, ConnectionFailed) and failure.may_have_taken_effect
            if broke and place < count:
                queue.append(number)
        if unknown is not None and failure is not unknown:
            raise UnknownOutcome(f"{unknown.message}; when it was sent again: {failure.message}"
                                 ) from failure
        raise failure

    def _note_failure(self, number: int, failure: Error) -> None:
        """Remembers whom to ask first, by whether this proxy has answered at all."""
        errors = failure.errors.values() if isinstance(failure, PutManyFailed) else [failure]
        if not any(is_no_answer(error) for error in errors):
            self._preferred = number
        elif self._preferred == number:  # not where another thread has found one that answers
            self._preferred = (number + 1) % len(self._proxies)

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.close()
