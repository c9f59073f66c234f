"""Sends a stream to several servers, and tells where their answers differ."""

import base64
import contextlib
import itertools
import select
import socket
import time
from dataclasses import dataclass

import replies
from streams import BinaryCommand, Names

DEADLINE_S = 20
SURELY_ARRIVED = 32 << 10  # bytes of replies that a reset has never thrown away
PAUSE_S = 0.0002  # the server takes one piece before the next comes
# memcached answers nothing more if the connection ends within a command: this ends one that is a little too short.
TEXT_ENDING = b"\r\n" * 4 + b"mn\r\n"
BINARY_ENDING = BinaryCommand(0x0a).render() * 12
KEPT_KEYS = 400
KEPT_BYTES = 16 << 20


@dataclass(frozen=True)
class Heard:
    """The bytes that a server has answered. It resets a connection that it closes before it has read all; then
    what was on its way is lost."""

    data: bytes
    is_reset: bool = False

    def may_lack_replies(self):
        return self.is_reset and len(self.data) > SURELY_ARRIVED


def talk(port, pieces):
    """What a server answers to pieces that are sent one by one, until it has closed the connection. Our end
    is closed behind them, so that it answers whatever it can and waits for no more."""
    received = []
    is_reset = True
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # it may have closed the connection
            for piece in pieces:
                send(connection, piece, received)
                if piece is not pieces[-1]:
                    time.sleep(PAUSE_S)  # tidy: allow
            connection.shutdown(socket.SHUT_WR)
            is_reset = False
        try:
            connection.settimeout(DEADLINE_S)
            while data := receive(connection):
                received.append(data)
        except ConnectionResetError:
            is_reset = True
    return Heard(b"".join(received), is_reset)


def receive(connection):
    try:
        return connection.recv(1 << 20)
    except TimeoutError as error:
        raise AssertionError("the server has not ended the connection") from error


def send(connection, piece, received):
    """Takes what comes meanwhile: a server may wait for that."""
    while piece:
        readable, writable, _ = select.select([connection], [connection], [], DEADLINE_S)
        assert readable or writable, "the server takes nothing and answers nothing"
        if readable:
            data = connection.recv(1 << 20)
            if not data:
                return  # it has closed
            received.append(data)
        if writable:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                piece = piece[connection.send(piece):]
            connection.settimeout(DEADLINE_S)


@dataclass(frozen=True)
class Answers:
    """What one server has answered in each round: as it was heard, and the replies."""

    heard: list
    rounds: list


@dataclass(frozen=True)
class Outcome:
    """What servers have answered to the same stream, by their names."""

    answers: dict

    def first_difference(self):
        """The first two replies that are not the same, ours first; nothing if all are."""
        ours, *references = self.answers.values()
        for reference in references:
            for at, replies_of_both in enumerate(zip(ours.rounds, reference.rounds)):
                # What comes behind lost replies cannot be compared either: a unique may not have been told.
                is_last = ours.heard[at].may_lack_replies() or reference.heard[at].may_lack_replies()
                compared = min(map(len, replies_of_both)) - 1 if is_last else None
                for one, other in list(itertools.zip_longest(*replies_of_both, fillvalue=[]))[:compared]:
                    if one != other:
                        return one, other
                if is_last:
                    break
        return None


class Exchange:
    """Servers by their names, the one that is tested first. Each run has keys of its own."""

    def __init__(self, ports, talk_to=talk):
        self.ports = ports
        self.talk_to = talk_to
        self.runs = 0
        self.keys = set()
        self.sent_bytes = 0

    def run(self, stream):
        self.runs += 1
        prefix = b"%06x" % self.runs
        self._remove(stream.stray_keys())
        outcome = Outcome({name: self._ask(port, stream, Names(prefix)) for name, port in self.ports.items()})
        self._remove_later(stream, prefix)
        return outcome

    def differs(self, stream):
        return self.run(stream).first_difference() is not None

    def _ask(self, port, stream, names):
        seen, heard, rounds = {}, [], []
        for one in stream.rounds:
            pieces = one.pieces(names)
            self.sent_bytes += sum(map(len, pieces))
            is_binary = isinstance(one.commands[0], BinaryCommand)
            heard.append(self.talk_to(port, [*pieces, BINARY_ENDING if is_binary else TEXT_ENDING]))
            cut, told = ((replies.binary_replies, replies.binary_uniques) if is_binary
                         else (replies.text_replies, replies.text_uniques))
            answered = list(cut(heard[-1].data))
            names.uniques.update(told(answered, one.commands, names))
            rounds.append([replies.numbered(reply, seen) for reply in answered])
        return Answers(heard, rounds)

    def _remove_later(self, stream, prefix):
        """Nothing is evicted from a cluster: what a run has stored must go."""
        self.keys.update(key.render(Names(prefix)) for key in stream.keys())
        if len(self.keys) < KEPT_KEYS and self.sent_bytes < KEPT_BYTES:
            return
        self._remove(self.keys)
        self.keys.clear()
        self.sent_bytes = 0

    def _remove(self, keys):
        request = b"".join(b"md %s b q\r\n" % base64.b64encode(key) for key in keys)
        for port in self.ports.values() if keys else ():
            self.talk_to(port, [request])
