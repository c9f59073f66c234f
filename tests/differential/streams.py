"""Streams of commands: what a generator makes, a shrinker takes apart and servers are sent.

A stream is some rounds, and a round is what one connection carries from its begin to its end. Keys and
cas uniques are names in it: what they stand for is another thing in each run, and at each server.
"""

import base64
import struct
from dataclasses import dataclass, field, replace


NEVER_TOLD = 1 << 63


@dataclass
class Names:
    """What the names of a stream stand for at one server in one run."""

    prefix: bytes = b"000000"
    uniques: dict = field(default_factory=dict)  # the cas last told for a key


@dataclass(frozen=True)
class Key:
    name: bytes = b"a"
    length: int = 0  # filled up to it

    def render(self, names, _data=b""):
        return (names.prefix + self.name).ljust(self.length, b"k")

    def simpler(self):
        return [Key(name) for name in (b"a", b"b", b"c") if (len(name), name) < (len(self.name), self.name)
                or self.length > 0]


@dataclass(frozen=True)
class Base64:
    key: Key

    def render(self, names, _data=b""):
        return base64.b64encode(self.key.render(names))


@dataclass(frozen=True)
class Unique:
    """The cas that the server last told for the key, or one beside it; one that no key has if it told none."""

    key: Key
    beside: int = 0
    flag: bytes = b""

    def number(self, names):
        return names.uniques.get(self.key.render(names), NEVER_TOLD) + self.beside

    def render(self, names, _data=b""):
        return self.flag + b"%d" % self.number(names)


@dataclass(frozen=True)
class Exptime:
    """A time that is simpler only if it is none: with a few seconds the outcome were one of luck."""

    seconds: int
    flag: bytes = b""

    def render(self, _names, _data=b""):
        return self.flag + b"%d" % self.seconds

    def simpler(self):
        return [Exptime(0, self.flag)] if self.seconds != 0 else []


@dataclass(frozen=True)
class Length:
    """How many bytes the value has, or what is told instead."""

    beside: int = 0

    def render(self, _names, data=b""):
        return b"%d" % (len(data) + self.beside)

    def simpler(self):
        return [Length()] if self.beside != 0 else []


def key_of(piece):
    return piece if isinstance(piece, Key) else getattr(piece, "key", None)


def with_key(piece, old, new):
    if piece == old:
        return new
    return replace(piece, key=new) if getattr(piece, "key", None) == old else piece


def smaller(candidates, than):
    return [each for each in candidates if (len(each), each) < (len(than), than)]


def simpler_bytes(data):
    """Shorter ones: the shortest first, then ever closer to all of it, so that a threshold is found."""
    steps, step = [b""], len(data)
    while step > 1:
        step -= step // 2
        steps.append(data[:len(data) - step])
    # Behind blanks only, memcached reads on in its memory for a number.
    candidates = dict.fromkeys([*steps, data[:-1], b"0" * len(data)])
    return smaller([each for each in candidates if not each.isspace()], data)


def simpler_piece(piece):
    if isinstance(piece, bytes):
        return smaller(dict.fromkeys([b"0", b"1", piece[:1], piece[:len(piece) // 2], piece[:-1], piece[1:]]),
                       piece) if len(piece) > 0 else []
    return piece.simpler() if isinstance(piece, (Exptime, Length)) else []


def replaced(sequence, at, *by):
    return (*sequence[:at], *by, *sequence[at + 1:])


@dataclass(frozen=True)
class TextCommand:
    """A line of words, each bytes or a piece with a name in it, and maybe a value."""

    words: tuple
    data: bytes | None = None
    end: bytes = b"\r\n"
    data_end: bytes = b"\r\n"

    def render(self, names=None):
        names = names or Names()
        data = self.data or b""
        words = [word if isinstance(word, bytes) else word.render(names, data) for word in self.words]
        value = b"" if self.data is None else self.data + self.data_end
        return b" ".join(words) + self.end + value

    def keys(self):
        return {key_of(word) for word in self.words} - {None}

    def stray_keys(self):
        """The words that may be taken for a key and are none of the stream's."""
        end = None if self.words[:1] in ((b"get",), (b"gets",), (b"gat",), (b"gats",)) else 2
        return {word if isinstance(word, bytes) else word.render(Names()) for word in self.words[1:end]
                if not isinstance(word, (Key, Base64))}

    def with_key(self, old, new):
        return replace(self, words=tuple(with_key(word, old, new) for word in self.words))

    def simpler(self):
        for at in range(len(self.words)):
            yield replace(self, words=replaced(self.words, at))
        for at, word in enumerate(self.words):
            for piece in simpler_piece(word):
                yield replace(self, words=replaced(self.words, at, piece))
        if self.data is not None:
            yield replace(self, data=None)
            for data in simpler_bytes(self.data):
                yield replace(self, data=data)
            for data_end in {b"\r\n", b""} - {self.data_end} if self.data_end != b"\r\n" else ():
                yield replace(self, data_end=data_end)
        if self.end != b"\r\n":
            yield replace(self, end=b"\r\n")


HEADER = struct.Struct(">BBHBBHIIQ")


@dataclass(frozen=True)
class BinaryCommand:
    opcode: int
    key: Key | bytes = b""
    extras: bytes = b""
    value: bytes = b""
    cas: int | Unique = 0
    opaque: int = 0
    reserved: tuple = (0, 0)  # the data type and the vbucket
    beside: tuple = (0, 0, 0)  # what is added to the lengths of the key, the extras and the body

    def render(self, names=None):
        names = names or Names()
        key = self.key if isinstance(self.key, bytes) else self.key.render(names)
        cas = self.cas if isinstance(self.cas, int) else self.cas.number(names)
        body = self.extras + key + self.value
        lengths = [length + beside for length, beside in zip((len(key), len(self.extras), len(body)), self.beside)]
        return HEADER.pack(0x80, self.opcode, lengths[0] % (1 << 16), lengths[1] % (1 << 8), self.reserved[0],
                           self.reserved[1], lengths[2] % (1 << 32), self.opaque, cas % (1 << 64)) + body

    def keys(self):
        return {key_of(piece) for piece in (self.key, self.cas)} - {None}

    def stray_keys(self):
        return {self.key} if isinstance(self.key, bytes) else set()

    def with_key(self, old, new):
        return replace(self, key=with_key(self.key, old, new), cas=with_key(self.cas, old, new))

    def simpler(self):
        for field_name, simplest in (("key", b""), ("extras", b""), ("value", b""), ("cas", 0), ("reserved", (0, 0)),
                                     ("beside", (0, 0, 0))):
            if getattr(self, field_name) != simplest:
                yield replace(self, **{field_name: simplest})
        for value in simpler_bytes(self.value):
            yield replace(self, value=value)
        for extras in smaller([bytes(len(self.extras)), self.extras[:-1]], self.extras):
            yield replace(self, extras=extras)


@dataclass(frozen=True)
class Round:
    """What one connection carries. Cuts are where one send ends and the next begins."""

    commands: tuple
    cuts: tuple = ()

    def bytes(self, names=None):
        return b"".join(command.render(names or Names()) for command in self.commands)

    def pieces(self, names):
        data = self.bytes(names)
        ends = [cut for cut in self.cuts if cut < len(data)]
        return [data[begin:end] for begin, end in zip([0, *ends], [*ends, len(data)])]


@dataclass(frozen=True)
class Stream:
    rounds: tuple

    def places(self):
        """Where its commands are."""
        return [(at, i) for at, one in enumerate(self.rounds) for i in range(len(one.commands))]

    def commands(self):
        return [command for one in self.rounds for command in one.commands]

    def keys(self):
        return set().union(*(command.keys() for command in self.commands()))

    def stray_keys(self):
        return set().union(*(command.stray_keys() for command in self.commands())) - {b""}

    def only(self, places):
        """With the commands at these places only; rounds that have none left go."""
        kept = set(places)
        rounds = [replace(one, commands=tuple(command for i, command in enumerate(one.commands) if (at, i) in kept))
                  for at, one in enumerate(self.rounds)]
        return Stream(tuple(one for one in rounds if one.commands))

    def with_command(self, place, command):
        at, i = place
        return self.with_round(at, replace(self.rounds[at], commands=replaced(self.rounds[at].commands, i, command)))

    def with_round(self, at, one):
        return Stream(replaced(self.rounds, at, one))

    def with_key(self, old, new):
        return Stream(tuple(replace(one, commands=tuple(command.with_key(old, new) for command in one.commands))
                            for one in self.rounds))

    def wire(self, names=None):
        """All of its bytes, a round each."""
        return [one.bytes(names) for one in self.rounds]


def text(*words, data=None, **more):
    """A text command from words that may be strings, numbers and pieces with names."""
    def piece(word):
        return b"%d" % word if isinstance(word, int) else word.encode() if isinstance(word, str) else word
    return TextCommand(tuple(map(piece, words)), data, **more)


def stream_of(*rounds):
    """Each round a list of commands."""
    return Stream(tuple(Round(tuple(commands)) for commands in rounds))
