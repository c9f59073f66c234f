"""One connection to one proxy, used by one thread at a time.

memcached's classic commands are pymemcache's. It does not know the meta commands for parts of
objects, nor keeps apart what became of each of many stores: those are asked here, on the same
socket. Every request ends before the next one begins, so the two do not see each other's answers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import selectors
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pymemcache.exceptions as theirs
from pymemcache.client.base import Client as Classic

from .bounds import Address
from .errors import (ConnectionFailed, Error, Invalid, NotServing, ServerError, TimedOut,
                     UnknownOutcome, nothing_is_sent)

_MAX_LINE_BYTES = 4096
_LINE_END = b"\r\n"
# Stores that are sent before their answers are read: few enough that answers fit into the
# buffers of both sides.
_MAX_STORES_ON_THEIR_WAY = 128
_MAX_BYTES_ON_THEIR_WAY = 1 << 20


@dataclasses.dataclass(frozen=True)
class Options:
    connect_timeout: float
    request_timeout: float
    tls: ssl.SSLContext | None
    # as the server reads them: user and password
    credentials: bytes | None = dataclasses.field(repr=False)


class Value(NamedTuple):
    """An object as it was read."""

    data: bytes
    flags: int
    cas: int


class Answer(NamedTuple):
    """A line of the server's, and what follows it."""

    line: str
    data: bytes = b""

    @property
    def code(self) -> str:
        return self.line.partition(" ")[0]

    def as_number(self) -> int | None:
        """The number of 64 bits that the line is; None if it is none."""
        number = int(self.line) if re.fullmatch("[0-9]{1,20}", self.line) else 1 << 64
        return number if number < 1 << 64 else None

    def number(self, flag: str) -> int:
        """What the flag tells; 0 without it."""
        told = re.search(f" {flag}([0-9]+)(?: |$)", self.line)
        return int(told[1]) if told else 0


class _AsItIs:
    """The serializer of pymemcache's that changes nothing, and keeps the flags."""

    def serialize(self, key: bytes, value: bytes) -> tuple[bytes, int]:
        return value, 0

    def deserialize(self, key: bytes, value: bytes, flags: int) -> tuple[bytes, int]:
        return value, flags


def refusal(line: str) -> Error | None:
    """The error that the line tells, without the word that says whose it is; None if it tells
    none."""
    word, _, reason = line.partition(" ")
    if word not in ("SERVER_ERROR", "CLIENT_ERROR", "ERROR"):
        return None
    if "outcome unknown" in reason:
        return UnknownOutcome(reason)
    if word == "SERVER_ERROR" and reason.startswith("not serving"):
        return NotServing(reason)
    return ServerError(reason or word)


def _unlike_memcached(answer: object) -> Error:
    return ConnectionFailed(f"the server's answer is not understood: {answer}")


def _text(error: Exception) -> str:
    told = error.args[0] if error.args else b""
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)


@contextlib.contextmanager
def _our_errors(where: str = "") -> Iterator[None]:
    """Raises what the socket and pymemcache raise as errors of ours."""
    try:
        yield
    except TimeoutError as error:
        raise TimedOut(f"{where}no answer in time") from error
    except theirs.MemcacheUnexpectedCloseError as error:
        raise ConnectionFailed("the server closed the connection") from error
    except theirs.MemcacheUnknownCommandError as error:
        raise ServerError("ERROR") from error
    except theirs.MemcacheIllegalInputError as error:
        raise Invalid(_text(error)) from error
    except (theirs.MemcacheClientError, theirs.MemcacheServerError) as error:
        is_client = isinstance(error, theirs.MemcacheClientError)
        line = f"{'CLIENT' if is_client else 'SERVER'}_ERROR {_text(error)}"
        raise refusal(line) or ServerError(line) from error
    except OSError as error:
        raise ConnectionFailed(f"{where}{error.strerror or error}") from error
    except (theirs.MemcacheError, ValueError, KeyError) as error:  # pymemcache could not read it
        raise _unlike_memcached(_text(error)) from error


class Connection:
    """Connects when it is made. Raises ConnectionFailed or TimedOut when that fails, ServerError
    when the server does not take the credentials; nothing was sent then.

    `is_usable` tells whether another request may follow: not after an error in the middle of an
    answer.
    """

    def __init__(self, address: Address, options: Options) -> None:
        self.address = address
        self.is_usable = False
        self._socket: socket.socket | None = None
        try:
            with nothing_is_sent(), _our_errors(f"{address}: "):
                self._open(options)
        except BaseException:
            self.close()
            raise
        self._classic = Classic(tuple(address), serde=_AsItIs(), default_noreply=False)
        self._classic.sock = self._socket

    def _open(self, options: Options) -> None:
        # pymemcache connects to the first address of a name only, and knows no credentials.
        raw = self._socket = self._connected_socket(options.connect_timeout)
        if options.tls is not None:
            self._socket = options.tls.wrap_socket(raw, server_hostname=self.address.host)
        self._lines = self._socket.makefile("rb")
        self.is_usable = True
        if options.credentials is not None and self._has_to_log_in():
            said = options.credentials
            answer = self.ask(b"set elastripe 0 0 %d" % len(said), said)
            if answer.line != "STORED":
                raise _unlike_memcached(answer.line)
        self._socket.settimeout(options.request_timeout)

    def _has_to_log_in(self) -> bool:
        """Whether the server asks who we are; one that does not would store what it is told."""
        try:
            self.ask(b"version")
        except ServerError as error:
            return "unauthenticated" in str(error)
        return False

    def _connected_socket(self, timeout: float) -> socket.socket:
        if not self.address.is_unix_socket:
            connected = socket.create_connection(self.address, timeout)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connected
        unconnected = socket.socket(socket.AF_UNIX)
        try:
            unconnected.settimeout(timeout)
            unconnected.connect(self.address.host)
        except BaseException:
            unconnected.close()
            raise
        return unconnected

    def close(self) -> None:
        self.is_usable = False
        if self._socket is None:
            return
        with contextlib.suppress(OSError):
            if hasattr(self, "_lines"):
                self._lines.close()
            self._socket.close()

    def is_quiet(self) -> bool:
        """Whether the server has neither closed the connection nor said what nobody asked for."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket or -1, selectors.EVENT_READ)
            return not selector.select(0)

    @contextlib.contextmanager
    def _exchange(self) -> Iterator[None]:
        """A request and its whole answer: what is left of an answer belongs to no later request."""
        self.is_usable = False
        with _our_errors():
            yield
        self.is_usable = True

    # -- pymemcache's commands

    def gets_many(self, keys: Sequence[bytes]) -> dict[bytes, Value]:
        with self._exchange():
            found = self._classic.gets_many(list(keys))
            return {key: Value(data, flags, int(cas))
                    for key, ((data, flags), cas) in found.items()}

    def classic(self, command: str, *arguments: Any, **options: Any) -> bool | None:
        """Any other command of pymemcache's; it answers True, False or None."""
        with self._exchange():
            answer: bool | None = getattr(self._classic, command)(*arguments, **options)
            return answer

    # -- commands that pymemcache does not know

    def ask(self, line: bytes, data: bytes | None = None) -> Answer:
        """The answer to one command. Raises what the server refuses."""
        with self._exchange():
            self._send([line, data] if data is not None else [line])
            answer = self._answer()
        refused = refusal(answer.line)
        if refused is not None:
            raise refused
        return answer

    def give_up(self, answer: Answer) -> Error:
        """The error of an answer that is not understood: what follows it may not be, either."""
        self.is_usable = False
        return _unlike_memcached(answer.line)

    def stats(self, group: bytes = b"") -> dict[str, str]:
        found = {}
        with self._exchange():
            self._send([b"stats " + group if group else b"stats"])
            line = self._line()
            while line.startswith("STAT "):
                name, _, value = line[5:].partition(" ")
                found[name] = value
                line = self._line()
        if line not in ("END", "RESET", "OK"):
            raise refusal(line) or _unlike_memcached(line)
        return found

    def put_many(self, objects: Sequence[tuple[bytes, bytes]], flags: int,
                 exptime: int) -> list[Error | None]:
        """What became of each; None if it was stored. Raises NotServing if that became of all."""
        outcomes: list[Error | None] = []
        sent = 0
        try:
            with self._exchange():
                while len(outcomes) < len(objects):
                    request: list[bytes] = []
                    room = _MAX_BYTES_ON_THEIR_WAY
                    first = sent
                    while sent < len(objects) and room > 0 and (
                            sent - first < _MAX_STORES_ON_THEIR_WAY):
                        key, value = objects[sent]
                        request += [b"set %s %d %d %d" % (key, flags, exptime, len(value)), value]
                        room -= len(value)
                        sent += 1
                    self._send(request)
                    while len(outcomes) < sent:
                        outcomes.append(self._outcome_of_store())
        except Error as error:
            # What was not answered may be stored; what comes after it was not sent.
            outcomes += [error] * (sent - len(outcomes))
            unsent = type(error)(error.message)
            unsent.may_have_taken_effect = False
            outcomes += [unsent] * (len(objects) - sent)
        refused = outcomes[0] if outcomes else None
        if refused is not None and all(isinstance(outcome, NotServing) for outcome in outcomes):
            raise refused
        return outcomes

    def _outcome_of_store(self) -> Error | None:
        line = self._line()
        if line == "STORED":
            return None
        error = refusal(line)
        if error is None:
            raise _unlike_memcached(line)
        return error

    def _send(self, lines: Sequence[bytes]) -> None:
        assert self._socket is not None
        self._socket.sendall(_LINE_END.join([*lines, b""]))

    def _answer(self) -> Answer:
        line = self._line()
        if not line.startswith("VA "):
            return Answer(line)
        told = line.split(" ")[1]
        if not re.fullmatch("[0-9]{1,10}", told):  # read(-1) would wait for the connection's end
            raise _unlike_memcached(line)
        size = int(told)
        data = self._lines.read(size + len(_LINE_END))
        if len(data) < size + len(_LINE_END):
            raise ConnectionFailed("the server closed the connection")
        if not data.endswith(_LINE_END):
            raise _unlike_memcached("a value without an end")
        return Answer(line, data[:size])

    def _line(self) -> str:
        line = self._lines.readline(_MAX_LINE_BYTES)
        if line.endswith(_LINE_END):
            return line[:-2].decode(errors="replace")
        if len(line) == _MAX_LINE_BYTES:
            raise _unlike_memcached("a line without an end")
        raise ConnectionFailed("the server closed the connection")
