"""ms changes parts of values: what was acknowledged stays, whatever dies meanwhile."""

import random
import threading

import pytest

from cluster import payload, wait_for
from updates import Connection, UpdateLedger

SIZES = [10, 3000, 100_000, 700_001]


def test_updates_within_and_across_shards_and_segments(make_cluster):
    cluster = make_cluster(nodes=6, scheme="ers:2,2,3", settings=["segment_bytes=65536"])
    connection = Connection(cluster)
    choose = random.Random(1)
    for size in SIZES:
        key = f"key{size}"
        assert connection.update(key, 0, b"x", "k s") == ["NF", f"k{key}"]
        value = bytearray(payload(size, key))
        assert cluster.client().set(key, bytes(value), noreply=False, flags=9)
        cas = connection.get(key)[1]
        for length in (1, 7, min(size, 5000), min(size, 70_000), size):
            offset = choose.randrange(size - length + 1)
            data = choose.randbytes(length)
            assert connection.update(key, offset, data, "C1") == ["EX"]
            words = connection.update(key, offset, data, f"C{cas} c s Oab")
            value[offset:offset + length] = data
            assert [words[0], *words[2:]] == ["HD", f"s{size}", "Oab"], words
            assert connection.get(key) == (bytes(value), int(words[1][1:]))
            assert int(words[1][1:]) > cas
            cas = int(words[1][1:])
        assert connection.update(key, size - 1, b"xy", "s") == ["NS", f"s{size}"]
        assert connection.get(key) == (bytes(value), cas)
    large = payload((1 << 20) + 1, "large")
    assert cluster.client().set("large", large, noreply=False)
    refused = connection.update("large", 0, large)
    assert " ".join(refused) == "SERVER_ERROR object too large for cache"
    assert connection.get("large")[0] == large  # the connection goes on
    assert all(report["clean"] for report in cluster.scrub(*(f"key{size}" for size in SIZES)))


def test_the_command_updates_appends_and_reads_ranges(make_cluster, tmp_path):
    cluster = make_cluster(nodes=6, scheme="ers:2,2,3", settings=["segment_bytes=65536"])
    value = bytearray(payload(300_000, "command"))
    file = tmp_path / "file"

    def given(data):
        file.write_bytes(data)
        return file

    cluster.cli("put", "key", given(value))
    data = payload(70_000, "new")
    value[100_000:170_000] = data
    done = cluster.json("update", "key", given(data), "--offset", 100_000)
    part = tmp_path / "part"
    shown = cluster.json("get", "key", part, "--offset", 99_999, "--length", 70_002)
    assert part.read_bytes() == value[99_999:170_001]
    assert shown == {"key": "key", "bytes": 70_002, "object_bytes": 300_000, "cas": done["cas"]}
    for words, problem in ((("--offset", 299_999), "out_of_range: the object has 300000 bytes"),
                           (("--offset", 0, "--cas", 1), "exists: ")):
        refused = cluster.cli("update", "key", given(b"xy"), *words, check=False)
        assert refused.returncode == 1 and problem in refused.stderr, refused.stderr
    cluster.cli("append", "key", given(b"the end"))
    cluster.cli("get", "key", part)
    assert part.read_bytes() == bytes(value) + b"the end"
    for words in (("update", "none", file, "--offset", 0), ("append", "none", file),
                  ("get", "none", "--offset", 1)):
        assert "not_found" in cluster.cli(*words, check=False).stderr


class Updater(threading.Thread):
    """Updates objects of its own at random."""

    def __init__(self, cluster, number):
        super().__init__()
        self.cluster = cluster
        self.choose = random.Random(number)
        self.stopping = threading.Event()
        self.error = None
        self.ledger = UpdateLedger(cluster, f"u{number}/", SIZES, number)

    @property
    def acks(self):
        return self.ledger.acks

    def run(self):
        connection = None
        while not self.stopping.is_set() and self.error is None:
            try:
                connection = connection or Connection(self.cluster)
                key = self.choose.choice(list(self.ledger.values))
                if not self.ledger.update_one(connection, key):
                    self.stopping.wait(0.05)
            except OSError:
                if connection is not None:
                    connection.close()
                connection = None
                self.stopping.wait(0.05)
            except AssertionError as error:
                self.error = error


PAIRS = (("n0", "n1"), ("n4", "n2"), ("n6",), ("n3", "n5"))
ONE_BY_ONE = (("n0",), ("n4",), ("n6",))


@pytest.mark.parametrize("rounds, copies, deaths", [
    ("two", "all", PAIRS), ("one", "all", PAIRS), ("one", "two", ONE_BY_ONE)])
def test_acknowledged_updates_survive_the_deaths_that_were_promised(make_cluster, rounds, copies,
                                                                    deaths):
    """Nodes die by kill -9, as many at a time as the copies of logs survive; and the proxy."""
    cluster = make_cluster(nodes=7, scheme="ers:2,2,3",
                           settings=["segment_bytes=65536", "repair.after_ms=1000",
                                     f"pools.0.log_rounds={rounds}",
                                     f"pools.0.log_copies={copies}"])
    updaters = [Updater(cluster, number) for number in range(3)]

    def wait_acks(more, when):
        goal = sum(updater.acks for updater in updaters) + more
        wait_for(lambda: sum(updater.acks for updater in updaters) >= goal
                 or any(updater.error for updater in updaters), f"updates {when}")
    for updater in updaters:
        updater.start()
    try:
        for victims in deaths:
            wait_acks(60, "while all are up")
            cluster.kill("proxy")
            cluster.restart("proxy")
            wait_acks(30, "by the next proxy")
            cluster.wait_settled()
            cluster.kill(*victims)
            wait_acks(30, "while nodes are down")
            cluster.restart(*victims)
            for victim in victims:
                cluster.cli("node", "wait", victim, "--timeout", 60)
    finally:
        for updater in updaters:
            updater.stopping.set()
        for updater in updaters:
            updater.join()
    connection = Connection(cluster)
    for updater in updaters:
        assert updater.error is None, updater.error
        updater.ledger.check(connection)
        for key in updater.ledger.values:
            cluster.cli("recycle", "--key", key)
        updater.ledger.check(connection)
        assert all(report["clean"] for report in cluster.scrub(*updater.ledger.values))
