"""The differences from memcached that are deliberate. Each names the commands that it is about, and what both
servers answer at the first place where their answers differ; docs/client-protocol.md says more."""

import re
from dataclasses import dataclass


def pattern(expression):
    return re.compile(expression, re.DOTALL)


@dataclass(frozen=True)
class Difference:
    """Patterns are of whole commands and replies, the value of a reply behind its line."""

    reason: str
    command: re.Pattern
    ours: re.Pattern
    memcached: re.Pattern

    def explains(self, ours, memcached):
        return bool(self.ours.fullmatch(shown(ours)) and self.memcached.fullmatch(shown(memcached)))

    def is_about(self, command):
        return bool(self.command.match(command))


def shown(reply):
    """The bytes of a reply as they came, but that uniques are numbered."""
    return b" ".join(word if isinstance(word, bytes) else b"%d" % word for word in reply)


STORAGE = r"(set|add|replace|append|prepend|cas)"
WELL_FORMED = STORAGE + r" +[^ \0\n]{1,250} +\d{1,10} +-?\d+ +\d+( +\d+)?( +\S+)?"

LISTED = [
    Difference("A number is a whole word; memcached lets a tab, or another white space, end it.",
               pattern(rb"[^\n]*\d[\t\r][^\n]"), pattern(rb"CLIENT_ERROR (bad command line format|invalid .*)"), pattern(rb".*")),
    Difference("Numbers that overflow are refused; memcached wraps them.",
               pattern(rb"[^\n]* -?\d{10,}"), pattern(rb"CLIENT_ERROR bad command line format"), pattern(rb".*")),
    Difference("A line that is too long is told so before the connection is closed.",
               pattern(rb".*[^\n]{2048}"), pattern(rb"CLIENT_ERROR line too long"), pattern(rb".*")),
    Difference("The value behind a storage line that is refused is skipped; memcached reads it as commands.",
               pattern(rb"(?!" + WELL_FORMED.encode() + rb"\r?\n)" + STORAGE.encode()), pattern(rb".*"), pattern(rb"(ERROR)?")),
    Difference("memcached drops what it has not sent yet when a retrieval has a key that is too long.",
               pattern(rb"gat?s? [^\n]*[^ \n]{251}|get"), pattern(rb".*"), pattern(rb"CLIENT_ERROR bad command line format")),
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
                    if not difference.is_about(command.render())]
            if len(kept) < len(stream.places()):
                return stream.only(kept)
    return None
