"""What may be sent: addresses, keys, objects and numbers, by the rules of the C++ client."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from .errors import Invalid

MAX_KEY_BYTES = 250
MAX_OBJECT_BYTES = 1 << 30
_MAX_PATH_BYTES = 107  # of a Unix socket, by unix(7)

Key = str | bytes
Data = bytes | bytearray | memoryview

_CONTROL_OR_SPACE = re.compile(rb"[\x00-\x20\x7f]")


class Address(NamedTuple):
    host: str = "127.0.0.1"  # or the path of a Unix socket, which has no port
    port: int = 11311

    @property
    def is_unix_socket(self) -> bool:
        return self.host.startswith("/")

    def __str__(self) -> str:
        if self.is_unix_socket:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Reads `HOST:PORT`, `[IPV6]:PORT`, `HOST` or `:PORT`; what is left out keeps its default.
    What begins with `/` is the path of a Unix socket. Raises Invalid."""
    if text.startswith("/"):
        if "\0" in text or len(os.fsencode(text)) > _MAX_PATH_BYTES:
            raise Invalid(f"not the path of a Unix socket: {text}")
        return Address(text)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise Invalid(f"expected [ADDRESS]:PORT, not {text}")
        port = rest[1:]
    else:
        host, _, port = text.rpartition(":") if ":" in text else (text, "", "")
        if ":" in host:
            raise Invalid("write an IPv6 address as [ADDRESS]:PORT")
    try:
        host.encode("idna")
    except UnicodeError:
        raise Invalid(f"not a host: {host}") from None
    if port and not (re.fullmatch("[0-9]+", port) and 0 < int(port) <= 65535):
        raise Invalid(f"not a port: {port}")
    return Address(host or Address().host, int(port) if port else Address().port)


def checked_key(key: Key) -> bytes:
    """The key's bytes, those of text in UTF-8. Raises Invalid for what is no key of memcached's: 1
    to 250 bytes, none of them white space or control."""
    if not isinstance(key, (str, bytes)):
        raise TypeError(f"a key is str or bytes, not {type(key).__name__}")
    try:
        name = key.encode() if isinstance(key, str) else key
    except UnicodeEncodeError:
        raise Invalid("the key has no UTF-8 form") from None
    if not name:
        raise Invalid("the key is empty")
    if len(name) > MAX_KEY_BYTES:
        raise Invalid("the key is longer than 250 bytes")
    if _CONTROL_OR_SPACE.search(name):
        raise Invalid("the key has white space or control bytes")
    return name


def checked_data(data: Data) -> bytes:
    """The bytes. Raises Invalid above 1 GiB; what is not bytes is a TypeError."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"an object is bytes, not {type(data).__name__}")
    if memoryview(data).nbytes > MAX_OBJECT_BYTES:
        raise Invalid("the object is larger than 1 GiB")
    return bytes(data)


def checked_number(what: str, number: int, bits: int = 64, *, signed: bool = False) -> int:
    """The number. Raises Invalid unless it has so many bits at most."""
    if not isinstance(number, int):
        raise TypeError(f"{what} is an int, not {type(number).__name__}")
    lowest, beyond = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    if not lowest <= number < beyond:
        raise Invalid(f"{what} is out of bounds: {number}")
    return number
