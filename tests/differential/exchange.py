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
PAUSE_S = 0.0002  # the server takes one piece before the next comes
# memcached answers nothing more if the connection ends within a command: this ends one that is a little too short.
TEXT_ENDING = b"\r\n" * 4 + b"mn\r\n"
BINARY_ENDING = BinaryCommand(0x0a).render() * 12
KEPT_KEYS = 400
KEPT_BYTES = 16 << 20


def talk(port, pieces):
    """What a server answers to pieces that are sent one by one, until it has closed the connection. Our end
    is closed behind them, so that it answers whatever it can and waits for no more."""
    received = []
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):  # it may have closed the connection
            for piece in pieces:
                send(connection, piece, received)
                if piece is not pieces[-1]:
                    time.sleep(PAUSE_S)  # tidy: allow
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            connection.settimeout(DEADLINE_S)
            while data := receive(connection):
                received.append(data)
    return b"".join(received)


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
    """What one server has answered: the bytes and the replies of each round."""

    raw: list
    rounds: list


@dataclass(frozen=True)
class Outcome:
    """What servers have answered to the same stream, by their names."""

    answers: dict

    def first_difference(self):
        """The first two replies that are not the same, ours first; nothing if all are."""
        ours, *references = self.answers.values()
        for reference in references:
            for one, other in zip(ours.rounds, reference.rounds):
                for pair in itertools.zip_longest(one, other, fillvalue=[]):
                    if pair[0] != pair[1]:
                        return pair
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
        seen, raw, rounds = {}, [], []
        for one in stream.rounds:
            pieces = one.pieces(names)
            self.sent_bytes += sum(map(len, pieces))
            is_binary = isinstance(one.commands[0], BinaryCommand)
            raw.append(self.talk_to(port, [*pieces, BINARY_ENDING if is_binary else TEXT_ENDING]))
            cut, told = ((replies.binary_replies, replies.binary_uniques) if is_binary
                         else (replies.text_replies, replies.text_uniques))
            answered = list(cut(raw[-1]))
            names.uniques.update(told(answered, one.commands, names))
            rounds.append([replies.numbered(reply, seen) for reply in answered])
        return Answers(raw, rounds)

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
