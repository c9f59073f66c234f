"""Clients at all proxies of a cluster, and what these agree on."""

import contextlib
import functools
import random

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
