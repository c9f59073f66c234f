"""The same random streams go to the proxy and to memcached: every byte that comes back is the same, or the
difference is listed in differences.py.

ELASTRIPE_DIFFERENTIAL_STREAMS: how many streams of each dialect. ELASTRIPE_DIFFERENTIAL_SEED: the seed of the first;
the others follow it.
"""

import os
import random

import pytest

import binary_dialect
import differences
import meta_dialect
import shrinker
import text_dialect
from exchange import Exchange
from plain_memcached import plain_memcached

DIALECTS = {"text": text_dialect, "meta": meta_dialect, "binary": binary_dialect}
STREAMS = int(os.environ.get("ELASTRIPE_DIFFERENTIAL_STREAMS", "300"))
FIRST_SEED = int(os.environ.get("ELASTRIPE_DIFFERENTIAL_SEED", "1"))


@pytest.fixture(scope="module")
def exchange(make_cluster):
    cluster = make_cluster(nodes=4, scheme="rs:2,1")
    with plain_memcached() as port:
        yield Exchange({"elastripe": cluster.port, "memcached": port})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_proxy_answers_as_memcached(exchange, dialect):
    for seed in range(FIRST_SEED, FIRST_SEED + STREAMS):
        stream = DIALECTS[dialect].stream(random.Random(f"{dialect}/{seed}"))
        if differences.is_left(exchange, stream):
            pytest.fail(report(exchange, shrinker.simplest(stream, lambda one: differences.is_left(exchange, one)), seed))


def report(exchange, stream, seed):
    outcome = exchange.run(stream)
    lines = [f"seed {seed}", f"{stream}"]
    for at, sent in enumerate(stream.wire()):
        lines.append(f"sent: {short(sent)}")
        lines += [f"{name}: {short(answers.heard[at].data)}" for name, answers in outcome.answers.items()]
    return "\n".join(lines)


def short(data):
    return repr(data) if len(data) <= 600 else f"{data[:400]!r} ({len(data)} bytes) {data[-100:]!r}"
