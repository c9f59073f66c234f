"""A client of an elastripe proxy: objects by key, parts of objects, and their redundancy."""

from __future__ import annotations

import ssl
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from .admin import TRANSITION, TRANSITIONS, Admin, Report, Transition
from .bounds import Data, Key, checked_data, checked_key, checked_number, parse_address
from .connection import Answer, Connection, Options, Value
from .errors import (Error, Exists, Invalid, NotFound, OutOfRange, PutManyFailed, ServerError,
                     nothing_is_sent)
from .proxies import Proxies

KeyT = TypeVar("KeyT", bound=Key)

_KEYS_OF_A_REQUEST = 1000


class Range(NamedTuple):
    """A part of an object, and what it is a part of."""

    data: bytes
    cas: int
    object_bytes: int  # how long the whole object is


class Client:
    """Objects by key, bytes in and bytes out. May be used by many threads.

        client = Client("127.0.0.1:11311")
        client.put("greeting", b"hello")
        client.get("greeting")

    Connects when it is asked something, and again after a failure. A key is 1 to 250 bytes, or text
    that is so many in UTF-8, without white space and control bytes.

    Every call may raise Invalid (nothing was sent), ServerError (refused; nothing was done),
    ConnectionFailed and TimedOut; a write UnknownOutcome, too. What else it raises stands beside
    it. A write that ended with ConnectionFailed, TimedOut or UnknownOutcome may have taken effect:
    `may_have_taken_effect` of the error.

    Of several proxies the one that answered last is asked first, and the one behind a proxy that
    did not answer. The next one is asked if there is no connection, or the proxy serves nothing; a
    read also if no answer came. A write is never sent again when it may have taken effect, unless
    it has a cas unique.
    """

    def __init__(self, proxies: str | Sequence[str] = "127.0.0.1:11311", *,
                 connect_timeout: float = 2.0, request_timeout: float = 30.0,
                 idle_connections: int = 8, tls: ssl.SSLContext | None = None,
                 user: str | None = None, password: str = "",
                 admin: str | Mapping[str, str] | None = None) -> None:
        """Opens no connection yet. Raises Invalid for an impossible address, user or password.

        proxies: HOST:PORT, [IPV6]:PORT, the path of a Unix socket (/PATH), or several of them.
        connect_timeout: seconds in which a connection is made, with TLS and authentication.
        request_timeout: the longest wait, in seconds, for progress on a connection.
        idle_connections: how many connections to each proxy are kept while nobody uses them.
        tls: what to speak TLS with, e.g. ssl.create_default_context(cafile=...).
        user, password: what to authenticate with, by memcached's ASCII protocol. They are
            told only to a server that asks for them.
        admin: where the admin interface is, if not where the proxy says; of several proxies a
            mapping from their addresses.
        """
        names = [proxies] if isinstance(proxies, str) else list(proxies)
        if not names:
            raise Invalid("there is no proxy to ask")
        addresses = [parse_address(name) for name in names]
        if isinstance(admin, str):
            self._admin = {address: admin for address in addresses}
        else:
            self._admin = {parse_address(name): told for name, told in (admin or {}).items()}
        for told in self._admin.values():
            if parse_address(told).is_unix_socket:
                raise Invalid("an admin interface has no Unix socket")
        self._request_timeout = request_timeout
        options = Options(connect_timeout, request_timeout, tls, _credentials(user, password))
        self._proxies = Proxies(addresses, options, idle_connections)

    def close(self) -> None:
        """Closes the connections that nobody uses. A later call connects again."""
        self._proxies.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- whole objects

    def get(self, key: Key) -> bytes:
        """The object. Raises NotFound."""
        return self.gets(key).data

    def gets(self, key: Key) -> Value:
        """The object, with its flags and its cas unique. Raises NotFound."""
        name = checked_key(key)
        found = self._gets_many([name])
        if name not in found:
            raise _not_found()
        return found[name]

    def get_many(self, keys: Iterable[KeyT]) -> dict[KeyT, bytes]:
        """Those that exist, by key. An object that cannot be read now is an error, which hides the
        rest."""
        keys_of = {checked_key(key): key for key in keys}
        names = list(keys_of)
        found: dict[KeyT, bytes] = {}
        for first in range(0, len(names), _KEYS_OF_A_REQUEST):
            some = names[first:first + _KEYS_OF_A_REQUEST]
            values = self._gets_many(some)
            found |= {keys_of[name]: value.data for name, value in values.items()}
        return found

    def _gets_many(self, names: Sequence[bytes]) -> dict[bytes, Value]:
        return self._proxies.run(lambda connection: connection.gets_many(names), is_read=True)

    def put(self, key: Key, data: Data, *, flags: int = 0, exptime: int = 0,
            cas: int | None = None) -> None:
        """Stores up to 1 GiB; the object then survives what its pool's scheme promises.

        exptime: 0 never, up to 30 days in seconds from now, else unix time.
        cas: only if the object's cas unique is this one. Raises Exists if it is another one, and
            NotFound if there is no object.
        """
        name = checked_key(key)
        value = checked_data(data)
        options = {"expire": _exptime(exptime), "flags": _flags(flags), "noreply": False}
        if cas is None:
            stored = self._proxies.run(lambda c: c.classic("set", name, value, **options))
        else:
            unique = b"%d" % checked_number("cas", cas)
            stored = self._proxies.run(lambda c: _stored_by_cas(c, name, value, unique, options),
                                       is_conditional=True)
        if not stored:
            raise ServerError("the object is not stored")

    def add(self, key: Key, data: Data, *, flags: int = 0, exptime: int = 0) -> None:
        """Stores an object that is not there yet. Raises Exists if there is one."""
        name = checked_key(key)
        value = checked_data(data)
        options = {"expire": _exptime(exptime), "flags": _flags(flags), "noreply": False}
        if not self._proxies.run(lambda c: c.classic("add", name, value, **options)):
            raise Exists("there is such an object")

    def put_many(self, objects: Mapping[KeyT, Data], *, flags: int = 0, exptime: int = 0) -> None:
        """Stores each object for itself, many at a time. Raises PutManyFailed, which tells what
        became of those that are not stored; ConnectionFailed, TimedOut and ServerError if nothing
        was sent."""
        checked = [(checked_key(key), checked_data(data)) for key, data in objects.items()]
        _flags(flags)
        _exptime(exptime)
        if not checked:
            return

        def request(connection: Connection) -> None:
            outcomes = connection.put_many(checked, flags, exptime)
            errors: dict[Key, Error] = {
                key: error for key, error in zip(objects, outcomes) if error is not None}
            if errors:
                raise PutManyFailed(errors)
        self._proxies.run(request)

    def append(self, key: Key, data: Data) -> None:
        """Adds bytes to the end of an object. Raises NotFound."""
        self._add("append", key, data)

    def prepend(self, key: Key, data: Data) -> None:
        """Adds bytes to the beginning of an object. Raises NotFound."""
        self._add("prepend", key, data)

    def _add(self, command: str, key: Key, data: Data) -> None:
        name = checked_key(key)
        value = checked_data(data)
        if not self._proxies.run(lambda c: c.classic(command, name, value, noreply=False)):
            raise _not_found()

    def increment(self, key: Key, delta: int = 1) -> int:
        """Adds to an object that is a decimal number, and returns the new one; after 2**64 - 1
        comes 0. Raises NotFound, and ServerError if it is no number."""
        return self._count(b"incr", key, delta)

    def decrement(self, key: Key, delta: int = 1) -> int:
        """Subtracts from an object that is a decimal number, but stops at 0; see `increment`."""
        return self._count(b"decr", key, delta)

    def _count(self, command: bytes, key: Key, delta: int) -> int:
        # pymemcache takes any answer but NOT_FOUND for a number.
        line = b"%s %s %d" % (command, checked_key(key), checked_number("delta", delta))

        def request(connection: Connection) -> int:
            answer = connection.ask(line)
            if answer.line == "NOT_FOUND":
                raise _not_found()
            number = answer.as_number()
            if number is None:
                raise connection.give_up(answer)
            return number
        return self._proxies.run(request)

    def remove(self, key: Key) -> None:
        """Raises NotFound if there was no object."""
        name = checked_key(key)
        if not self._proxies.run(lambda c: c.classic("delete", name, noreply=False)):
            raise _not_found()

    def touch(self, key: Key, exptime: int) -> None:
        """Gives an object another exptime: see `put`. Raises NotFound."""
        name = checked_key(key)
        _exptime(exptime)
        if not self._proxies.run(lambda c: c.classic("touch", name, exptime, noreply=False)):
            raise _not_found()

    # -- parts of objects

    def get_range(self, key: Key, offset: int, length: int) -> Range:
        """So many bytes from `offset` on, fewer where the object ends. Raises NotFound."""
        line = b"mg %s v c s o%d n%d" % (checked_key(key), checked_number("offset", offset),
                                         checked_number("length", length))

        def request(connection: Connection) -> Range:
            answer = connection.ask(line)
            if answer.code == "EN":
                raise _not_found()
            if answer.code != "VA" or len(answer.data) > length:
                raise connection.give_up(answer)
            return Range(answer.data, answer.number("c"), answer.number("s"))
        return self._proxies.run(request, is_read=True)

    def update(self, key: Key, offset: int, data: Data, *, cas: int | None = None) -> int:
        """Puts bytes in the place of those that the object has from `offset` on: all of them at
        once. Returns the new cas unique; 0 if others have followed, so that nobody knows. Raises
        NotFound, and OutOfRange if the object ends before the bytes do.

        cas: only if the object's cas unique is this one; raises Exists if it is another one.
        """
        value = checked_data(data)
        line = b"ms %s %d c s o%d" % (checked_key(key), len(value),
                                      checked_number("offset", offset))
        if cas is not None:
            line += b" C%d" % checked_number("cas", cas)

        def request(connection: Connection) -> int:
            answer = connection.ask(line, value)
            if answer.code == "HD":
                return answer.number("c")
            raise _refused_update(answer) or connection.give_up(answer)
        return self._proxies.run(request, is_conditional=cas is not None)

    # -- the cluster

    def stats(self, group: str = "") -> dict[str, str]:
        """`stats` or `stats GROUP` of the proxy that answers, in its order."""
        if group:
            checked_key(group)
        return self._proxies.run(lambda connection: connection.stats(group.encode()), is_read=True)

    def object_info(self, key: Key) -> Report:
        """The object's record, where its shards are and which are missing: GET /v1/objects/KEY of
        docs/admin-api.md. Raises NotFound."""
        path = "/v1/objects/" + urllib.parse.quote(checked_key(key), safe="")
        return self._ask_admin("GET", path)

    def transition(self, to: int, *, key: Key | None = None, prefix: Key | None = None,
                   all: bool = False, dry_run: bool = False, rate: int = 0,
                   parallel: int = 4) -> Transition:
        """Starts taking objects to `to` data shards, the k or the k' of their scheme: one (`key`),
        those whose keys begin with `prefix`, or all. Returns at once: `wait` for the end.

        dry_run: only counts.
        rate: bytes a second to and from the nodes; 0: no limit.
        parallel: objects at a time.
        Raises ServerError also if another job runs.
        """
        body: Report = {"to": to, "dry_run": dry_run, "rate": rate, "parallel": parallel}
        chosen: Report = {name: _text_of(checked_key(what))
                          for name, what in (("key", key), ("prefix", prefix)) if what is not None}
        if all:
            chosen["all"] = True
        if len(chosen) != 1:
            raise Invalid("name one of key, prefix and all")
        body |= chosen

        report = self._ask_admin("POST", TRANSITIONS, TRANSITION, body)
        return Transition(self._ask_admin, int(report["id"]))

    def find_transition(self, id: int) -> Transition:
        """The transition of this id, which anybody may have started. Raises NotFound if the proxy
        that answers knows of none: of one that has begun within the last two seconds it may not
        have heard yet."""
        number = checked_number("id", id)
        self._ask_admin("GET", f"{TRANSITIONS}/{number}")
        return Transition(self._ask_admin, number)

    def _ask_admin(self, method: str, path: str, action: str = "", body: Report | None = None, *,
                   is_conditional: bool = False) -> Report:
        """What the admin interface of the first proxy answers that can."""
        return self._proxies.run(
            lambda connection: self._admin_of(connection).request(method, path, action, body),
            is_read=method == "GET", is_conditional=is_conditional)

    def _admin_of(self, connection: Connection) -> Admin:
        with nothing_is_sent():
            settings = connection.stats(b"settings")
            return Admin.of_proxy(settings, connection.address,
                                  self._admin.get(connection.address), self._request_timeout)


def _credentials(user: str | None, password: str) -> bytes | None:
    if user is None:
        return None
    said = f"{user} {password}".encode()
    if not user or " " in user or any(end in said for end in (b"\r", b"\n", b"\0")):
        raise Invalid("a user has no spaces, and neither user nor password has line ends")
    return said


def _stored_by_cas(connection: Connection, name: bytes, value: bytes, unique: bytes,
                   options: Mapping[str, int]) -> bool:
    stored = connection.classic("cas", name, value, unique, **options)
    if stored is None:
        raise _not_found()
    if not stored:
        raise _exists()
    return True


def _refused_update(answer: Answer) -> Error | None:
    if answer.code == "NF":
        return _not_found()
    if answer.code == "EX":
        return _exists()
    if answer.code == "NS":
        return OutOfRange(f"the object has {answer.number('s')} bytes")
    return None


def _not_found() -> Error:
    return NotFound("no such object")


def _exists() -> Error:
    return Exists("the object has another cas unique")


def _flags(flags: int) -> int:
    return checked_number("flags", flags, 32)


def _exptime(exptime: int) -> int:
    return checked_number("exptime", exptime, signed=True)


def _text_of(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise Invalid("a transition takes keys and prefixes that are text") from None
