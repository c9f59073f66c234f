"""Clients at all proxies of a cluster, and what these agree on."""

import contextlib
import functools
import random
import time
from typing import NamedTuple

from pymemcache.exceptions import MemcacheError

from cluster import Load, Writers, wait_for

SIZES = [100, 3000, 40_000]


class Readers(Load):
    """Through each proxy, of what clients of the others write: it is never older than what was
    acknowledged before the read."""

    def __init__(self, cluster, writers):
        self.reads = {name: 0 for name in cluster.proxies}
        jobs = [functools.partial(self._read, name, writers.ledgers) for name in cluster.proxies]
        super().__init__(cluster, jobs, ports=[cluster.proxy_port(name) for name in cluster.proxies])

    def _read(self, name, ledgers, client):
        chance = random.Random(name)
        while not self.stopping.is_set():
            ledger = chance.choice(ledgers)
            try:
                ledger.check_key(chance.choice(list(ledger.sequence)), client)
                self.reads[name] += 1
            except (MemcacheError, OSError):
                client.close()
                self.stopping.wait(0.05)


class Visits(Load):
    """Clients at each proxy, which ask for one thing after the other and note when each was asked for
    and answered, in seconds: how long does each do without service?"""

    def __init__(self, cluster, clients=2):
        self.answers = {(name, i): [] for name in cluster.proxies for i in range(clients)}
        self.failures = {name: 0 for name in cluster.proxies}
        super().__init__(cluster, [functools.partial(self._visit, *who) for who in self.answers],
                         ports=[cluster.proxy_port(name) for name, _ in self.answers])

    def _visit(self, name, i, client):
        chance = random.Random(f"{name}/{i}")
        values = {f"visits/{name}/{i}/{n}": None for n in range(16)}  # what may be found; None: anything
        while not self.stopping.is_set():
            key = chance.choice(list(values))
            asked = time.monotonic()
            try:
                if chance.random() < 0.5:
                    value = b"%d " % chance.getrandbits(60) + bytes(chance.choice(SIZES))
                    values[key] = None
                    assert client.set(key, value, noreply=False)
                    values[key] = value
                else:
                    known, found = values[key], client.get(key)
                    assert known is None or found == known, f"{key} is not what was written"
            except (MemcacheError, OSError):
                client.close()
                self.failures[name] += 1
                self.stopping.wait(0.01)
            else:
                self.answers[name, i].append((asked, time.monotonic()))

    def answered(self, name, since, until):
        """For each client of that proxy, how many of its requests began and ended in that time."""
        return [sum(since < asked and end < until for asked, end in list(self.answers[who]))
                for who in self.answers if who[0] == name]

    def longest(self, name, since, until):
        """The longest time between two answers to a client of that proxy."""
        def gaps(who):
            ends = [end for _, end in list(self.answers[who])]
            before = max((end for end in ends if end <= since), default=since)
            all_ends = [before, *(end for end in ends if since < end < until), until]
            return (after - end for end, after in zip(all_ends, all_ends[1:]))
        return max(max(gaps(who)) for who in self.answers if who[0] == name)

    def wait_answered(self, more, names=None):
        """So many more requests of each client, or of each of these proxies."""
        goals = {who: len(ends) + more for who, ends in self.answers.items() if who[0] in (names or self.failures)}
        wait_for(lambda: self.errors or all(len(self.answers[who]) >= goal for who, goal in goals.items()),
                 f"{more} more answers to each client")


def wait_taken_over(cluster, name, epoch):
    """Waits until another proxy than that one, which is gone and not asked, has made a map after `epoch`. The last
    time at which none of the others served such a map yet is returned."""
    others = [other for other in cluster.proxies if other != name]
    last = [time.monotonic()]

    def is_served():
        asked = time.monotonic()
        told = [cluster.proxy_status(other) for other in others]
        # On a busy machine an answer may come too late, which says nothing.
        if any(status and status["epoch"]["number"] > epoch for status in told):
            return True
        last[0] = asked
        return False
    wait_for(is_served, "another one has made a map")
    return last[0]


@contextlib.contextmanager
def load(cluster):
    """Two writers and a reader at each proxy."""
    names = cluster.proxies * 2
    writers = Writers(cluster, len(names), SIZES, ports=[cluster.proxy_port(n) for n in names])
    with writers, Readers(cluster, writers) as readers:
        writers.wait_acks(100)
        yield writers
    assert min(readers.reads.values()) > 0
    for name in cluster.proxies:
        client = cluster.client(port=cluster.proxy_port(name))
        for ledger in writers.ledgers:
            ledger.check(client)


def failures_beside(cluster, writers, name):
    """Of writers at the other proxies."""
    names = cluster.proxies * 2
    return sum(ledger.failures for at, ledger in zip(names, writers.ledgers) if at != name)


def wait_whole(cluster):
    """All serve the same map, and know who decides; that one's name."""
    def one_decides():
        told = [cluster.proxy_status(name) for name in cluster.proxies]
        if any(status.get("state") != "serving" or len(status["proxies"]) < 3 for status in told):
            return None
        is_agreed = len({status["epoch"]["number"] for status in told}) == 1
        is_synced = all(s["partitions"]["synced"] == s["partitions"]["total"] for s in told)
        return cluster.decider() if is_agreed and is_synced else None
    return wait_for(one_decides, "all proxies serve, and one decides")


@contextlib.contextmanager
def killed(cluster, *names):
    """They are started again at the end of the block."""
    cluster.kill(*names)
    yield
    for name in names:
        cluster.restart(name)


class Service(NamedTuple):
    """What clients of the other proxies had while the deciding one was gone, in seconds."""
    undecided: float  # until another proxy has made a map
    whole: float  # until the one that was gone follows
    longest: float  # between two answers to a client, in all that time


def serve_beside(cluster, visits, gone):
    """The proxy that decides is gone, in the context `gone(cluster, name)`, until another one decides. Clients of the
    others read no error. Nothing else is judged: returned are the Service, and for each of these clients how many
    requests were answered in each quarter of the time until another one has made a map."""
    name = wait_whole(cluster)
    others = [other for other in cluster.proxies if other != name]
    visits.wait_answered(5)
    failures = {other: visits.failures[other] for other in others}
    epoch = cluster.proxy_status(name)["epoch"]["number"]
    before = time.monotonic()
    with gone(cluster, name):
        since = time.monotonic()
        until = wait_taken_over(cluster, name, epoch)
        wait_for(lambda: cluster.decider(beside=name), "another one decides")
        visits.wait_answered(20, others)
    wait_whole(cluster)
    visits.wait_answered(20)
    after = time.monotonic()
    assert {other: visits.failures[other] for other in others} == failures, "others notice nothing"
    quarter = (until - since) / 4
    counts = [[visits.answered(other, since + i * quarter, since + (i + 1) * quarter) for i in range(4)]
              for other in others]
    longest = max(visits.longest(other, before, after) for other in others)
    return Service(until - since, after - before, longest), dict(zip(others, counts))


def check_service_beside(cluster, visits, gone):
    """As serve_beside(), and each client of the others was answered in each of those quarters. That is a second or
    so, and no duration is judged but this; the Service is returned."""
    service, counts = serve_beside(cluster, visits, gone)
    for name, quarters in counts.items():
        assert min(min(of_clients) for of_clients in quarters) > 0, (
            f"{name} has answered its clients {quarters} times in the quarters of {service.undecided:.2f} s")
    return service
