"""What a server has answered, cut into replies, so that two servers' can be compared.

Uniques are the server's own. In a reply stands instead which of those that it has told in the run it is:
so two servers have to agree on which are the same. Seconds that are left may differ by how long it takes.
"""

import base64
import re

from streams import HEADER

CLOCK_S = 30  # how far apart two servers may be asked


class Unique(int):
    """A cas unique as it was told."""


class Seconds(int):
    """A time that is left."""

    def __eq__(self, other):
        return isinstance(other, Seconds) and abs(int(self) - int(other)) <= CLOCK_S and (self < 0) == (other < 0)

    def __ne__(self, other):
        return not self == other

    __hash__ = int.__hash__


# memcached tells more of an item: when it was used, how, and what it takes in its memory.
OF_MEMORY = re.compile(rb"(la|fetch|cls|size)=")


def text_replies(data):
    """Yields each reply as a list of words, the value last, and the line ends left out."""
    at = 0
    while (end := data.find(b"\r\n", at)) >= 0:
        words = data[at:end].split(b" ")
        at = end + 2
        if words[0] == b"VALUE" and len(words) in (4, 5):
            size, words[4:] = int(words[3]), map(told_unique, words[4:])
        elif words[0] == b"VA":
            size, words[2:] = int(words[1]), map(meta_flag, words[2:])
        else:
            yield other_line(words)
            continue
        yield [*words, data[at:at + size], b"" if data[at + size:at + size + 2] == b"\r\n" else b"(cut)"]
        at += size + 2
    if at < len(data):
        yield [data[at:]]


def other_line(words):
    if words[0] == b"HD":
        return [words[0], *map(meta_flag, words[1:])]
    if words[0] == b"VERSION":
        return words[:1]
    if words[0] == b"ME":
        return [debug_field(word) for word in words if not OF_MEMORY.match(word)]
    return words


def told_unique(word):
    return Unique(word) if word.isdigit() else word


def meta_flag(word):
    if re.fullmatch(rb"c\d+", word):
        return Unique(word[1:])
    return Seconds(word[1:]) if re.fullmatch(rb"t-?\d+", word) else word


def debug_field(word):
    if re.fullmatch(rb"cas=\d+", word):
        return Unique(word[4:])
    return Seconds(word[4:]) if re.fullmatch(rb"exp=-?\d+", word) else word


def text_uniques(replies, _commands, _names):
    """Yields the keys whose unique a reply tells, and the unique."""
    for reply in replies:
        unique = next((word for word in reply if isinstance(word, Unique)), None)
        if unique is None:
            continue
        if reply[0] in (b"VALUE", b"ME"):
            yield reply[1], unique
        for word in reply[1:]:
            if isinstance(word, bytes) and word[:1] == b"k" and reply[0] in (b"HD", b"VA"):
                yield base64.b64decode(word[1:]) if b"b" in reply else word[1:], unique
                break


VERSION, STAT = 0x0b, 0x10


def binary_replies(data):
    """Yields each reply as its opcode, status, opaque, unique, extras, key and value."""
    at = 0
    while len(data) - at >= HEADER.size and data[at] == 0x81:
        _, opcode, key_bytes, extra_bytes, kind, status, body_bytes, opaque, cas = HEADER.unpack_from(data, at)
        body = data[at + HEADER.size:at + HEADER.size + body_bytes]
        value = body[extra_bytes + key_bytes:]
        at += HEADER.size + body_bytes
        if opcode == STAT and key_bytes > 0:
            continue  # docs/client-protocol.md tells what is left out
        if opcode == VERSION and status == 0:
            value = b"VERSION"
        yield [b"%02x" % opcode, b"status %02x" % status, b"opaque %x" % opaque, b"type %d" % kind, Unique(cas),
               body[:extra_bytes], body[extra_bytes:extra_bytes + key_bytes], value,
               b"" if len(body) == body_bytes else b"(cut)"]
    if at < len(data):
        yield [data[at:]]


def binary_uniques(replies, commands, names):
    key_by_opaque = {b"opaque %x" % command.opaque: command.key.render(names) for command in commands
                     if not isinstance(command.key, bytes)}
    for reply in replies:
        if len(reply) > 4 and reply[4] != 0 and reply[2] in key_by_opaque:
            yield key_by_opaque[reply[2]], reply[4]


def numbered(reply, seen):
    """With the place of each unique among those told so far in its place; 0 is none."""
    return [Unique(seen.setdefault(int(word), len(seen) + 1) if word else 0) if isinstance(word, Unique) else word
            for word in reply]
