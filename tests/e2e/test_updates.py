"""ms changes parts of values: what was acknowledged stays, whatever dies meanwhile."""

import itertools
import random
import socket
import threading

from cluster import DEADLINE_S, payload, wait_for

SIZES = [10, 3000, 100_000, 700_001]


class Connection:
    """One that speaks ms and mg."""

    def __init__(self, cluster):
        self.socket = socket.create_connection(("127.0.0.1", cluster.port), timeout=DEADLINE_S)
        self.lines = self.socket.makefile("rb")

    def close(self):
        self.lines.close()
        self.socket.close()

    def update(self, key, offset, data, flags=""):
        """The reply's words."""
        self.socket.sendall(f"ms {key} {len(data)} o{offset} {flags}\r\n".encode() + data + b"\r\n")
        return self.reply()

    def reply(self):
        line = self.lines.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed")
        return line.decode().split()

    def get(self, key):
        """Value and cas."""
        self.socket.sendall(f"mg {key} v c\r\n".encode())
        words = self.reply()
        if words[0] != "VA":
            raise ConnectionError(" ".join(words))
        return self.lines.read(int(words[1]) + 2)[:-2], int(words[2][1:])


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
    """Updates objects of its own at random; of what it was not told it allows for both."""

    def __init__(self, cluster, number):
        super().__init__()
        self.cluster = cluster
        self.choose = random.Random(number)
        self.stopping = threading.Event()
        self.error = None
        self.acks = 0
        self.values = {f"u{number}/{size}": payload(size, number) for size in SIZES}
        # By key: updates of unknown outcome since the last that was acknowledged. They may take
        # effect until then, in this order.
        self.unknown = {key: [] for key in self.values}
        for key, value in self.values.items():
            assert cluster.client().set(key, value, noreply=False)

    def run(self):
        connection = None
        while not self.stopping.is_set() and self.error is None:
            try:
                connection = connection or Connection(self.cluster)
                self.update_one(connection, self.choose.choice(list(self.values)))
            except OSError:
                if connection is not None:
                    connection.close()
                connection = None
                self.stopping.wait(0.05)
            except AssertionError as error:
                self.error = error

    def update_one(self, connection, key):
        if self.unknown[key]:
            self.check_one(connection, key)
        size = len(self.values[key])
        length = self.choose.randint(1, min(size, 3000))
        update = (self.choose.randrange(size - length + 1), self.choose.randbytes(length))
        self.unknown[key].append(update)
        words = connection.update(key, *update)
        if words == ["HD"]:
            self.values[key] = patched(self.values[key], [update])
            self.unknown[key].clear()
            self.acks += 1
        elif "unknown:" not in words:
            self.unknown[key].pop()
            self.stopping.wait(0.05)

    def check_one(self, connection, key):
        read = connection.get(key)[0]
        unknown = self.unknown[key]
        may_be = [patched(self.values[key], some) for count in range(len(unknown) + 1)
                  for some in itertools.combinations(unknown, count)]
        assert read in may_be, key
        self.values[key] = read

    def check(self, connection):
        assert self.error is None, self.error
        for key in self.values:
            self.check_one(connection, key)


def patched(value, updates):
    value = bytearray(value)
    for offset, data in updates:
        value[offset:offset + len(data)] = data
    return bytes(value)


def test_acknowledged_updates_survive_the_death_of_m_nodes_again_and_again(make_cluster):
    cluster = make_cluster(nodes=7, scheme="ers:2,2,3",
                           settings=["segment_bytes=65536", "repair.after_ms=1000"])
    updaters = [Updater(cluster, number) for number in range(3)]

    def wait_acks(more, when):
        goal = sum(updater.acks for updater in updaters) + more
        wait_for(lambda: sum(updater.acks for updater in updaters) >= goal
                 or any(updater.error for updater in updaters), f"updates {when}")
    for updater in updaters:
        updater.start()
    try:
        for victims in (("n0", "n1"), ("n4", "n2"), ("n6",), ("n3", "n5")):
            wait_acks(60, "while all are up")
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
        updater.check(connection)
        assert all(report["clean"] for report in cluster.scrub(*updater.values))
