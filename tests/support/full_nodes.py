"""Clients of full nodes: each knows what its keys may hold, whatever was refused."""

import collections
import contextlib
import random
import threading

from pymemcache.exceptions import MemcacheError

from cluster import payload, wait_for

KEYS = 4000  # of each writer
SIZES = (100, 1024, 5000, 16_000, 65_536, 300_000, 1 << 20)
RECORDS = (5000, 16_000)  # inline: until there is no room for another node's records
MISS = None


class Writer:
    """One client with keys of its own: it knows what each of them may hold.

    `refusals`: after so many it has filled the nodes. `may_say`: what the text of a refusal has."""

    def __init__(self, cluster, name, refusals=150, may_say=("memory",)):
        self.client = cluster.client()
        self.enough = refusals
        self.may_say = may_say
        self.random = random.Random(name)
        self.name = name
        self.values = {}  # key: the set of values that a read may show
        self.refusals = collections.Counter()
        self.refused = set()
        self.written = 0
        self.error = None

    def run(self, all_sizes=(SIZES, RECORDS)):
        try:
            for sizes in all_sizes:
                self.refusals.clear()
                while self.refusals["set"] < self.enough:
                    self.step(sizes)
        except Exception as error:  # noqa: BLE001: told by the test
            self.error = error

    def go_on(self, stop):
        """Works as before, at nodes that are full or may be."""
        try:
            while not stop.is_set():
                self.step(SIZES)
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
            if any(words in text for words in self.may_say) and verb != "delete":
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
