"""Processes die or stall in the middle of writes: no acknowledged write is lost or torn."""

import os
import signal

import pytest
from pymemcache.exceptions import MemcacheError

from cluster import Load, Writers, wait_for

SIZES = [10, 3000, 16 * 1024, 40_000, 300_000, 1024 * 1024]
SETTINGS = ["timing.read_grace_ms=2000", "timing.lease_ms=1500", "timing.suspect_after_ms=500"]


@pytest.fixture()
def cluster(make_cluster):
    # room for two dead nodes: 5 + 2 shards of 9 nodes
    cluster = make_cluster(nodes=9, scheme="ers:4,2,5", memory_mb=512, settings=SETTINGS)
    yield cluster
    cluster.stop()


class Readers(Load):
    """Read the writers' keys: whole values only, and nothing that was acknowledged before the read
    began may be missing."""

    def __init__(self, cluster, writers, count=2):
        self.writers = writers
        self.reads = self.refused = 0
        super().__init__(cluster, [self._read_all] * count)

    def _read_all(self, client):
        while not self.stopping.is_set():
            for ledger in self.writers.ledgers:
                for key in list(ledger.sequence):
                    self._read(client, ledger, key)

    def _read(self, client, ledger, key):
        lowest = ledger.acknowledged.get(key, 0)
        try:
            value = client.get(key)
        except (MemcacheError, OSError):
            self.refused += 1
            client.close()
            return
        self.reads += 1
        if value is None:
            assert lowest == 0, f"{key}: acknowledged {lowest}, read a miss"
        else:
            assert ledger.parse(key, value) >= lowest, f"{key}: a stale read"

    def __exit__(self, *exception):
        super().__exit__(*exception)
        assert self.reads > 0


def test_two_nodes_killed_during_puts_and_gets_lose_no_acknowledged_write(cluster):
    with Writers(cluster, 4, SIZES) as writers, Readers(cluster, writers):
        writers.wait_acks(200)
        cluster.kill("n3")
        writers.wait_acks(200)
        cluster.kill("n7")
        writers.wait_acks(200)
    writers.check()


def test_a_proxy_killed_again_and_again_during_puts_loses_no_acknowledged_write(cluster,
                                                                                 long_run):
    with Writers(cluster, 4, SIZES) as writers:
        for _ in range(30 if long_run else 4):
            writers.wait_acks(100)
            cluster.kill("proxy")
            cluster.restart("proxy")
        writers.wait_acks(100)
    writers.check()


def test_a_node_stopped_for_longer_than_its_lease_comes_back_without_a_stale_read(cluster):
    pid = cluster.pid("n4")
    with Writers(cluster, 3, SIZES) as writers, Readers(cluster, writers):
        writers.wait_acks(100)
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: cluster.node_states()["n4"] == "suspect", "n4 is suspect")
        writers.wait_acks(200)
        os.kill(pid, signal.SIGCONT)
        wait_for(lambda: cluster.node_states()["n4"] == "up", "n4 is up again")
        writers.wait_acks(100)
        assert cluster.pid("n4") == pid, "the same process"
    cluster.wait_serving()
    writers.check()


def test_nodes_that_die_one_after_another_and_return_empty_lose_nothing(cluster, long_run):
    # inline and replicated data is synced back; what was striped keeps its other shards
    with Writers(cluster, 3, [10, 3000, 16 * 1024]) as writers, Readers(cluster, writers):
        for name in [f"n{i}" for i in range(9 if long_run else 3)]:
            writers.wait_acks(100)
            cluster.kill(name)
            writers.wait_acks(100)
            cluster.restart(name)
            cluster.wait_serving()
    writers.check()
