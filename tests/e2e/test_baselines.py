"""The baselines among the methods of updates, with real nodes: they change shards in place."""

import random
import subprocess
import threading

import pytest
from cluster import BIN, payload, wait_for
from updates import Connection

METHODS = ["fo", "pl", "plr", "cord", "dpu", "tsue", "tsue2", "parix"]
NODES = [f"n{number}" for number in range(6)]


@pytest.fixture(scope="module")
def cluster(make_cluster):
    pools = [f"pools.{i + 1}={{prefix: '{method}/', scheme: 'rs:3,2', updates: {method}}}"
             for i, method in enumerate(METHODS)]
    return make_cluster(nodes=6, scheme="rs:3,2",
                        settings=["segment_bytes=524288", "experimental=true",
                                  "repair.after_ms=600000", *pools])


def total(cluster, statistic):
    """Of all nodes."""
    return sum(int(cluster.node_client(number).stats("elastripe").get(statistic, 0))
               for number in range(len(NODES)))


def log_bytes(cluster):
    """What nodes keep for parities."""
    return sum(int(cluster.node_client(number).stats("elastripe")[b"log_bytes"])
               for number in range(len(NODES)))


class Writer(threading.Thread):
    """Updates bytes of an object that no other writer updates: each of `count` writers has every
    `count`th block, so that all have bytes in the same pages of the same shards."""

    BLOCK = 2100

    def __init__(self, cluster, key, size, number, count):
        super().__init__()
        self.cluster, self.key, self.number, self.count = cluster, key, number, count
        self.blocks = [at for at in range(0, size - self.BLOCK, self.BLOCK)][number::count]
        self.choose = random.Random(f"{key} {number}")
        self.written = {}  # place: byte
        self.error = None

    def run(self):
        try:
            connection = Connection(self.cluster)
            for _ in range(150):
                block = self.choose.choice(self.blocks)
                length = self.choose.randint(1, self.BLOCK)
                begin = block + self.choose.randrange(self.BLOCK - length + 1)
                data = self.choose.randbytes(length)
                assert connection.update(self.key, begin, data) == ["HD"]
                self.written.update(zip(range(begin, begin + length), data))
                if self.choose.random() < 0.1:
                    read = connection.get(self.key)[0]
                    assert all(read[at] == byte for at, byte in self.written.items())
            connection.close()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error


@pytest.mark.parametrize("method", METHODS)
def test_updates_of_several_clients_are_read_and_scrub_clean_when_drained(cluster, method):
    key, size = f"{method}/key", 700_001
    value = bytearray(payload(size, key))
    assert cluster.client().set(key, bytes(value), noreply=False)
    frames, refused = total(cluster, b"frames_SHARD_UPDATE"), total(cluster, b"refused_LOG_FULL")
    writers = [Writer(cluster, key, size, number, 4) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.error is None, writer.error
        for at, byte in writer.written.items():
            value[at] = byte
    assert total(cluster, b"frames_SHARD_UPDATE") >= frames + 600
    if method in ("cord", "dpu", "tsue", "tsue2", "parix"):  # what is kept was too much at times
        assert total(cluster, b"refused_LOG_FULL") > refused
    assert cluster.metrics()["elastripe_logged_updates_total"] == 0
    connection = Connection(cluster)
    assert connection.get(key)[0] == bytes(value)
    assert all(report["clean"] for report in cluster.scrub(key))
    # Over many shards and segments at once, and under a condition.
    data = payload(450_000, "large")
    cas = connection.get(key)[1]
    words = connection.update(key, 200_000, data, f"C{cas} c")
    assert words[0] == "HD"
    value[200_000:650_000] = data
    assert connection.get(key) == (bytes(value), int(words[1][1:]))
    assert connection.update(key, 0, b"x", f"C{cas}") == ["EX"]
    assert connection.update(key, size - 1, b"xy", "s") == ["NS", f"s{size}"]
    assert all(report["clean"] for report in cluster.scrub(key))
    assert total(cluster, b"log_bytes") == 0


def test_recycle_drains_parities(cluster):
    assert cluster.json("recycle")["state"] == "done"  # what other tests have left
    values = {}
    connection = Connection(cluster)
    for key in ["cord/a", "cord/b", "plr/a"]:
        value = bytearray(payload(200_000, key))
        assert cluster.client().set(key, bytes(value), noreply=False)
        for number in range(30):
            data = payload(900, f"{key} {number}")
            assert connection.update(key, number * 6_000, data) == ["HD"]
            value[number * 6_000:number * 6_000 + 900] = data
        values[key] = bytes(value)
    left = log_bytes(cluster)
    assert left >= 2 * 30 * 900 + 2 * 30 * 900  # at the collectors, and at two parities
    assert cluster.json("recycle", "--prefix", "cord/", "--dry-run")["planned"]["objects"] >= 2
    assert cluster.json("recycle", "--key", "cord/a")["counts"]["folded"] == 1
    assert 0 < log_bytes(cluster) < left
    counts = cluster.json("recycle", "--prefix", "cord/")["counts"]
    assert counts["folded"] >= 2 and counts["failed"] == 0
    assert log_bytes(cluster) == 2 * 30 * 900
    assert cluster.json("recycle")["counts"]["failed"] == 0
    assert log_bytes(cluster) == 0
    # So the scrub has nothing to drain, and compares what the recycle has left.
    assert all(report["clean"] for report in cluster.scrub(*values))
    for key, value in values.items():
        assert connection.get(key)[0] == value


def test_what_was_drained_is_read_after_a_death_and_not_updated(cluster):
    values = {}
    connection = Connection(cluster)
    for method in METHODS:
        key = f"{method}/drained"
        value = bytearray(payload(100_000, key))
        assert cluster.client().set(key, bytes(value), noreply=False)
        for number in range(40):
            data = payload(900, f"{key} {number}")
            assert connection.update(key, number * 2_345, data) == ["HD"]
            value[number * 2_345:number * 2_345 + 900] = data
        values[key] = bytes(value)
    assert all(report["clean"] for report in cluster.scrub(*values))
    cluster.kill("n1", "n2")
    wait_for(lambda: list(cluster.node_states().values()).count("up") == 4, "two nodes to be gone")
    connection = Connection(cluster)
    for key, value in values.items():
        assert connection.get(key)[0] == value
        words = " ".join(connection.update(key, 0, b"x"))
        assert "too_few_nodes: a node of the object is down" in words, words
        assert connection.get(key)[0] == value


def test_a_baseline_has_to_be_asked_for(tmp_path):
    config = tmp_path / "proxy.yaml"
    nodes = ", ".join(f"{{name: {name}, host: 127.0.0.1, port: {11500 + i}}}"
                      for i, name in enumerate(NODES))
    config.write_text(f"nodes: [{nodes}]\npools: [{{scheme: 'rs:3,2', updates: fo}}]\n")
    check = [BIN / "elastripe-proxy", "--config", config, "--check-config"]
    refused = subprocess.run(check, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "pools.0.updates: is a method that is there to be measured" in refused.stderr
    config.write_text(config.read_text() + "experimental: true\n")
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0
