"""The differences from memcached that are deliberate, and those that memcached has with itself. Each tells the
commands that it is about, and what both servers answer at the first place where their answers differ;
docs/client-protocol.md says more."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from streams import BinaryCommand, TextCommand


@dataclass(frozen=True)
class Difference:
    reason: str
    is_about: Callable  # of a command
    explains: Callable  # of our reply and of memcached's


def line(expression):
    """Text commands that begin with it. A command is tried as a whole, its value too."""
    pattern = re.compile(expression, re.DOTALL)
    return lambda command: isinstance(command, TextCommand) and pattern.match(command.render()) is not None


def answers(ours=rb".*", memcached=rb".*"):
    """Replies that are these, a value behind its line and uniques numbered."""
    patterns = [re.compile(expression, re.DOTALL) for expression in (ours, memcached)]
    return lambda *pair: all(pattern.fullmatch(shown(reply)) for pattern, reply in zip(patterns, pair))


def shown(reply):
    return b" ".join(word if isinstance(word, bytes) else b"%d" % word for word in reply)


def has_wrong_lengths(command):
    return isinstance(command, BinaryCommand) and command.beside != (0, 0, 0)


def has_too_much(command):
    return (isinstance(command, BinaryCommand) and command.opcode in (0x10, 0x1c, 0x1d, 0x1e, 0x23, 0x24)
            and (command.value != b"" or command.beside != (0, 0, 0)))


def is_unknown_with_a_key(command):
    return isinstance(command, BinaryCommand) and (0x1e < command.opcode < 0x23 or command.opcode in (0x1b, 0x22)
                                                   or command.opcode > 0x24) and bool(command.key or command.extras)


def counts(command):
    return command.opcode in (0x05, 0x06, 0x15, 0x16) if isinstance(command, BinaryCommand) else COUNTING(command)


def counts_if_unchanged(command):
    return command.cas != 0 if isinstance(command, BinaryCommand) and counts(command) else MA_IF_UNCHANGED(command)


def differs_in_spaces(ours, memcached):
    """But for the length that is told."""
    one, other = (re.sub(rb"(VALUE \S+ \d+|VA) \d+|(?<= )s\d+", rb"\1", shown(reply)).replace(b" ", b"") for reply in (ours, memcached))
    return one == other


def same_item(ours, memcached):
    return ours[:1] == memcached[:1] == [b"ME"] and ours[-1] == memcached[-1]


NO_ERROR = rb"(?!\w*ERROR).*"
REFUSED = rb"CLIENT_ERROR bad (command line|token in command line) format"
A_KEY = rb"[^ \0\n]{1,250} +"
NUMBERS = rb"\d{1,10} +-?\d{1,10} +\d{1,9}"
WELL_FORMED = (rb"((set|add|replace|append|prepend) +" + A_KEY + NUMBERS + rb"|cas +" + A_KEY + NUMBERS + rb" +\d{1,19})"
               rb"( +noreply)? *\r?\n|ms " + A_KEY + rb"\d{1,9}[ \r\n]")
MA_IF_UNCHANGED = line(rb"ma [^\n]* C")
DATA_EXISTS = rb".*Data exists.*"
COUNTING = line(rb"incr |decr |ma ")
REFUSED_RETRIEVAL = line(rb"g[ae]ts? [^\n]*[^ \n]{251}")
LONG_LINE = line(rb".*[^\n]{2048}")

LISTED = [
    Difference("A number is a whole word; memcached lets white space begin and end it.",
               line(rb"[^\n]*(\d[\t\r](?!\n)| [A-Z]?[\t\r]+[-+]?\d)"),
               answers(ours=rb"CLIENT_ERROR (bad|invalid) .*")),
    Difference("Numbers that overflow are refused; memcached wraps them.",
               line(rb"[^\n]* [A-Z]?[-+]?\d{10,}"), answers(ours=REFUSED + rb"|CLIENT_ERROR invalid or duplicate flag")),
    Difference("Numbers that overflow are refused; memcached wraps them.",
               line(rb"cache_memlimit (\d{10,}|[\t\r]|\d+[\t\r])"), answers(ours=rb"ERROR")),
    Difference("Numbers that overflow are refused; memcached wraps them.",
               line(rb"[^\n]* [-+]?\d{10,}[^\n]* noreply"), answers()),
    Difference("A line that is too long is told so before the connection is closed.",
               LONG_LINE, answers(ours=rb"CLIENT_ERROR line too long")),
    Difference("memcached drops what it has not sent yet when it closes the connection for a line that is too long.",
               LONG_LINE, answers(memcached=rb"")),
    Difference("The value behind a storage line that is refused is skipped; memcached reads it as commands.",
               line(rb"(?!" + WELL_FORMED + rb")(set|add|replace|append|prepend|cas|ms) "), answers()),
    Difference("memcached drops what it has not sent yet when it refuses a retrieval, and has touched the keys before.",
               REFUSED_RETRIEVAL, answers()),
    Difference("memcached pads a number that becomes shorter, unless a reply that is not sent yet has the value before.",
               counts, differs_in_spaces),
    Difference("The key is answered as it was sent; memcached answers it as it was when it was stored.",
               line(rb"m[gsda] [^\n]* k"), answers(ours=rb"(HD|VA|EN|NF|EX|NS).* k.*", memcached=rb"(HD|VA|EN|NF|EX|NS).* k.*")),
    Difference("What has expired at once is left 0 seconds; memcached's number underflows.",
               line(rb"m[ga] [^\n]* [TN]-\d"), answers(ours=rb"(HD|VA).* 0.*", memcached=rb"(HD|VA).* 4294\d{6}.*")),
    Difference("me tells the seconds that are left; memcached tells them as a negative number, and the key as it was when it was stored.",
               line(rb"me "), same_item),
    Difference("E and x are younger than this memcached.",
               line(rb"m[gsda] [^\n]* [Ex]"), answers(memcached=rb"CLIENT_ERROR invalid (or duplicate )?flag")),
    Difference("The time that is left is told as it is after the command; memcached obeys its flags from left to right.",
               line(rb"m[ga] [^\n]* ([tR].* [TN]|T.* R)"), answers(NO_ERROR, NO_ERROR)),
    Difference("Of a mode that is none and a key that is no base64, memcached tells the key.",
               line(rb"m[as] (?=[^\n]* M)(?=[^\n]* b)"), answers(ours=rb"CLIENT_ERROR invalid mode .*", memcached=rb"CLIENT_ERROR (invalid or duplicate flag|error decoding key)")),
    Difference("A counter that is made with q is not told; memcached tells it.",
               line(rb"ma (?=[^\n]* q)(?=[^\n]* N)"), answers(memcached=rb"(HD|VA).*")),
    Difference("memcached tells that an empty value is no number before it compares the unique.",
               counts_if_unchanged, answers(ours=rb"EX.*|" + DATA_EXISTS, memcached=rb".*[Nn]on-numeric.*")),
    Difference("Either protocol may follow the other; memcached closes the connection.",
               has_wrong_lengths, answers(memcached=rb"")),
    Difference("ms tells the size; memcached has no use for s there.",
               line(rb"ms [^\n]* s[ \r]"), answers(ours=rb"HD.* s\d+.*", memcached=rb"HD.*")),
    Difference("memcached forgets the exptime of an ma that does not write the number in its place: it becomes longer, or "
               "a reply that is not sent yet has it.", line(rb"ma [^\n]* T"), answers(NO_ERROR, NO_ERROR)),
    Difference("mg compares with C, and ms makes with N what is not there; memcached has no use for them there.",
               line(rb"mg [^\n]* C\d|ms [^\n]* N-?\d"), answers(NO_ERROR, NO_ERROR)),
    Difference("A request that has more than the parts of its opcode is refused; memcached reads on in the middle of it.",
               has_too_much, answers()),
    Difference("memcached skips the key of an unknown opcode twice.",
               is_unknown_with_a_key, answers()),
]


def is_left(exchange, stream, listed=None):
    """Whether the servers differ about the stream by more than what is listed. What is listed is taken out of
    the stream, so that the rest is compared still."""
    return difference_left(exchange, stream, LISTED if listed is None else listed) is not None


def difference_left(exchange, stream, listed):
    while (pair := exchange.run(stream).first_difference()) is not None:
        kept = without_listed(stream, pair, listed)
        if kept is None:
            return pair
        stream = kept
    return None


def without_listed(stream, pair, listed):
    """The stream without the commands whose listed difference explains the pair; nothing if none does."""
    for difference in listed:
        if difference.explains(*pair):
            kept = [place for place, command in zip(stream.places(), stream.commands())
                    if not difference.is_about(command)]
            if len(kept) < len(stream.places()):
                return stream.only(kept)
    return None
