"""A cluster whose nodes are full refuses new data, and loses nothing that it has acknowledged."""

import collections
import contextlib
import random
import threading

import pytest
from pymemcache.exceptions import MemcacheError

from cluster import payload, wait_for

WRITERS = 4
REFUSALS = 150  # of each writer: well beyond the first
KEYS = 4000  # of each writer
SIZES = (100, 1024, 5000, 16_000, 65_536, 300_000, 1 << 20)
RECORDS = (5000, 16_000)  # inline: until there is no room for another node's records
MISS = None


@pytest.fixture(params=["ers:4,1,5", "ers:2,2,3"])
def cluster(request, make_cluster):
    cluster = make_cluster(nodes=6, scheme=request.param, memory_mb=32,
                           settings=["timing.read_grace_ms=200", "timing.tombstone_keep_ms=10000"])
    yield cluster
    cluster.stop()


class Writer:
    """One client with keys of its own: it knows what each of them may hold."""

    def __init__(self, cluster, name):
        self.client = cluster.client()
        self.random = random.Random(name)
        self.name = name
        self.values = {}  # key: the set of values that a read may show
        self.refusals = collections.Counter()
        self.refused = set()
        self.written = 0
        self.error = None

    def run(self):
        try:
            for sizes in (SIZES, RECORDS):
                self.refusals.clear()
                while self.refusals["set"] < REFUSALS:
                    self.step(sizes)
        except Exception as error:  # noqa: BLE001: told by the test
            self.error = error

    def step(self, sizes):
        key = f"{self.name}/{self.random.randrange(KEYS)}"
        dice = self.random.random()
        before = self.values.get(key, {MISS})
        if dice < 0.85 or before == {MISS}:
            size = self.random.choice(sizes)
            value = payload(size, f"{key}/{self.written}")
            self.write("set", key, before, {value},
                       lambda: self.client.set(key, value, noreply=False))
        elif dice < 0.95:
            more = payload(self.random.choice((10, 2000)), f"{key}/+{self.written}")
            self.write("append", key, before, {v + more for v in before if v is not MISS},
                       lambda: self.client.append(key, more, noreply=False))
        else:
            self.write("delete", key, before, {MISS},
                       lambda: self.client.delete(key, noreply=False))

    def write(self, verb, key, before, after, ask):
        self.written += 1
        try:
            done = ask()
        except MemcacheError as error:
            text = str(error)
            if "memory" in text and verb != "delete":
                self.refusals[verb] += 1
                self.refused.add(key)
            else:
                assert "outcome unknown" in text, f"{verb} {key}: {text}"
                self.values[key] = before | after
            return
        if not done:  # nothing to append to, or to delete
            assert MISS in before, f"{verb} {key} found nothing"
            self.values[key] = {MISS}
            return
        self.values[key] = after

    def check(self, client):
        for key, possible in self.values.items():
            value = client.get(key)
            assert value in possible, f"{key}: {None if value is None else len(value)} bytes"
            self.values[key] = {value}

    def fill(self, stop):
        """Stores small objects under new keys, so that what is let go meanwhile is used at once."""
        try:
            while not stop.is_set():
                key = f"{self.name}/{self.written}"
                self.written += 1
                value = payload(self.random.choice(RECORDS), key)
                try:
                    self.client.set(key, value, noreply=False)
                    self.values[key] = {value}
                except (MemcacheError, OSError) as error:
                    self.refusals["set"] += 1
                    if "memory" not in str(error):
                        self.values[key] = {MISS, value}
        except Exception as error:  # noqa: BLE001: told by the test
            self.error = error

    def delete(self, keys):
        """Deletes what is there, and is told what is not."""
        for key in keys:
            held = self.values.get(key, {MISS}) != {MISS}
            assert self.client.delete(key, noreply=False) == held, key
            self.values[key] = {MISS}


def begin(jobs):
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    return threads


def together(jobs):
    for thread in begin(jobs):
        thread.join()


@contextlib.contextmanager
def kept_full(fillers):
    """Nothing that reclaim lets go stays free meanwhile."""
    stop = threading.Event()
    threads = begin([lambda f=filler: f.fill(stop) for filler in fillers])
    try:
        for filler in fillers:
            wait_for(lambda f=filler: f.refusals["set"] > 0 or f.error, "it is refused")
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for filler in fillers:
        assert filler.error is None, repr(filler.error)


def check(cluster, writers):
    client = cluster.client()
    for writer in writers:
        writer.check(client)


def metric(cluster, name):
    return cluster.metrics()[name]


def test_full_nodes_lose_nothing_and_deletes_make_room(cluster):
    writers = [Writer(cluster, f"w{n}") for n in range(WRITERS)]
    together([writer.run for writer in writers])
    for writer in writers:
        assert writer.error is None, repr(writer.error)
    stored = sum(value for name, value in cluster.metrics().items()
                 if name.startswith("elastripe_stored_bytes"))
    assert stored > 0.8 * 6 * (32 << 20)
    check(cluster, writers)

    # A node dies while all are full. Shards are read from the others; records go where there is
    # room, or stay at the homes that are left.
    fillers = [Writer(cluster, f"f{n}") for n in range(WRITERS)]
    with kept_full(fillers):
        cluster.kill("n2")
        wait_for(lambda: cluster.node_states()["n2"] == "lost" and cluster.is_serving(up=5),
                 "the node's death is dealt with")
        wait_for(lambda: not all(node["has_room"] for node in cluster.json("node")["nodes"]),
                 "some node has no room for its records")
    writers += fillers
    check(cluster, writers)
    for writer in writers:  # some of all sizes; those that were refused, too
        writer.delete(sorted(writer.values)[::5])
        writer.delete(sorted(writer.refused)[:20])
    check(cluster, writers)
    cluster.restart("n2")
    cluster.wait_serving()
    check(cluster, writers)

    # every second key, of all sizes, then the rest; none is stuck, refused ones neither
    for part in (0, 1):
        for writer in writers:
            writer.delete(sorted(writer.values)[part::2])
            writer.delete(sorted(writer.refused - writer.values.keys()))
        check(cluster, writers)
    wait_for(lambda: metric(cluster, "elastripe_partitions_short") == 0 and cluster.is_serving(),
             "all partitions have their homes", deadline_s=120)

    # what the deleted ones took is there for others
    fresh = cluster.client()
    stored = {}

    def store(key, value):
        try:
            return fresh.set(key, value, noreply=False)
        except MemcacheError as error:
            assert "memory" in str(error), error
            return False

    for n in range(100):
        stored[f"new{n}"] = payload(SIZES[n % len(SIZES)], f"new{n}")
        wait_for(lambda n=n: store(f"new{n}", stored[f"new{n}"]), "memory comes back")
    for key, value in stored.items():
        assert fresh.get(key) == value, key
