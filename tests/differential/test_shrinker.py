"""The shrinker finds the one command that two servers differ about. They are faked: no process is started."""

import random

import pytest

import arguments
import differences
import shrinker
import text_dialect
from exchange import Exchange, Heard
from streams import Round, Stream, replaced, stream_of, text

OURS, REFERENCE = 1, 2


def two_servers(what_only_ours_refuses):
    """They answer every line alike, but that ours refuses one that has these bytes."""
    def talk(port, pieces):
        lines = b"".join(pieces).split(b"\r\n")[:-1]
        return Heard(b"".join(b"NO\r\n" if port == OURS and what_only_ours_refuses in line else b"OK\r\n" for line in lines))
    return Exchange({"ours": OURS, "reference": REFERENCE}, talk)


@pytest.mark.parametrize("seed", range(20))
def test_one_command_is_left(seed):
    generator = random.Random(seed)
    commands = [text("get", arguments.KEYS[0]), text("touch", arguments.KEYS[1], 1000),
                text("set", arguments.KEYS[2], 0, 0, 4, data=b"text")]
    rounds = [tuple(generator.choices(commands, k=generator.randint(1, 15))) for _ in range(3)]
    at = generator.randrange(3)
    rounds[at] = replaced(rounds[at], generator.randrange(len(rounds[at])), text("decr", arguments.KEYS[0], 123456))
    stream = Stream(tuple(Round(each, arguments.cuts(generator, 40)) for each in rounds))
    exchange = two_servers(b"decr")
    assert shrinker.simplest(stream, exchange.differs).wire() == [b"decr\r\n"]


def test_a_command_that_needs_another_keeps_it():
    def talk(port, pieces):
        data = b"".join(pieces)
        return Heard(b"NO\r\n" if port == OURS and b"first" in data and b"second" in data else b"OK\r\n")

    stream = stream_of([text("other")], [text("first"), text("other"), text("second"), text("other")])
    exchange = Exchange({"ours": OURS, "reference": REFERENCE}, talk)
    assert shrinker.simplest(stream, exchange.differs) == stream_of([text("first"), text("second")])


def test_a_cut_is_left_only_if_it_matters():
    def talk(port, pieces):
        return Heard(b"NO\r\n" if port == OURS and pieces[0] == b"get" else b"OK\r\n")

    stream = Stream((Round((text("get", "key"),), (1, 3, 5)),))
    exchange = Exchange({"ours": OURS, "reference": REFERENCE}, talk)
    assert not exchange.differs(stream)
    stream = Stream((Round((text("get", "key"),), (3, 5, 7)),))
    assert shrinker.simplest(stream, exchange.differs) == Stream((Round((text("get"),), (3,)),))


def test_a_value_becomes_as_long_as_it_has_to_be():
    def talk(port, pieces):
        return Heard(b"NO\r\n" if port == OURS and b"".join(pieces).count(b"x") > 20 else b"OK\r\n")

    exchange = Exchange({"ours": OURS, "reference": REFERENCE}, talk)
    [command] = shrinker.simplest(stream_of([text("set", data=b"x" * 5000)]), exchange.differs).commands()
    assert command.data == b"x" * 21


def test_each_run_has_keys_of_its_own():
    seen = []

    def talk(port, pieces):
        seen.append((port, pieces[0]))
        return Heard(b"")

    exchange = Exchange({"ours": OURS, "reference": REFERENCE}, talk)
    for _ in range(2):
        exchange.run(stream_of([text("get", arguments.KEYS[0])]))
    assert len(set(seen)) == 4 and len({data for _, data in seen}) == 2


def test_a_listed_difference_does_not_hide_another():
    listed = [differences.Difference("", differences.line(rb"known"), differences.answers(rb"NO", rb"OK"))]

    def talk(port, pieces):
        lines = b"".join(pieces).split(b"\r\n")[:-1]
        return Heard(b"".join(b"NO\r\n" if port == OURS and line in (b"known", b"unknown") else b"OK\r\n" for line in lines))

    exchange = Exchange({"ours": OURS, "reference": REFERENCE}, talk)
    assert not differences.is_left(exchange, stream_of([text("known"), text("other")]), listed)
    stream = stream_of([text("known"), text("other")], [text("unknown")])
    assert differences.is_left(exchange, stream, listed)
    shortest = shrinker.simplest(stream, lambda one: differences.is_left(exchange, one, listed))
    assert shortest == stream_of([text("unknown")])


def test_the_same_seed_gives_the_same_stream():
    assert text_dialect.stream(random.Random("text/1")) == text_dialect.stream(random.Random("text/1"))
