"""append and prepend of large objects write what they add, and lose nothing, whatever dies."""

import itertools
import random
import threading

from cluster import DEADLINE_S, Raw, payload, wait_for

MIB = 1 << 20


def change(raw, verb, key, data):
    raw.send(f"{verb} {key} 0 0 {len(data)}\r\n".encode() + data + b"\r\n")
    line = raw.line()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("closed")
    return line.decode().strip()


def joined(value, verb, data):
    return data + value if verb == "prepend" else value + data


def bytes_to_nodes(cluster):
    return sum(int(cluster.node_client(i).stats("elastripe")[b"bytes_in"])
               for i in range(cluster.nodes))


def test_a_large_object_is_not_written_again(make_cluster):
    cluster = make_cluster(nodes=5, scheme="ers:2,2,3")  # segments of 4 MiB
    raw = Raw(cluster.port)
    value = payload(8 * MIB, "large")
    assert cluster.client().set("key", value, noreply=False, flags=7)
    choose = random.Random(1)
    for most, times in ((100, 20), (3000, 20), (100_000, 10), (MIB, 6)):
        before = bytes_to_nodes(cluster)
        added = 0
        for _ in range(times):
            verb = choose.choice(("append", "prepend"))
            data = choose.randbytes(choose.randint(1, most))
            assert change(raw, verb, "key", data) == "STORED"
            value = joined(value, verb, data)
            added += len(data)
        written = bytes_to_nodes(cluster) - before
        # Twice as many bytes as are coded, with two parities of a half of it each; what is short is
        # written again now and then. All of it each time would be 20 MiB at least.
        assert written < 12 * added + times * 300_000, (most, written)
        raw.send(b"get key\r\n")
        assert raw.line() == f"VALUE key 7 {len(value)}\r\n".encode()
        assert raw.file.read(len(value) + 7) == value + b"\r\nEND\r\n"
    large = payload(9 * MIB, "more")
    assert change(raw, "append", "key", large) == "SERVER_ERROR object too large for cache"
    lengths = [segment["length"] for segment in cluster.object("key")["segments"]]
    assert sum(lengths) == len(value) and len(lengths) < 20, lengths
    for to in (3, 2):
        cluster.cli("transition", "--key", "key", "--to", to)
        assert [report["clean"] for report in cluster.scrub("key")] == [True]
    assert cluster.client().get("key") == value


class Appender(threading.Thread):
    """Adds to objects of its own; of what it was not told it allows for both."""

    SIZES = [10, 60_000, 300_000]

    def __init__(self, cluster, number):
        super().__init__()
        self.cluster = cluster
        self.choose = random.Random(number)
        self.stopping = threading.Event()
        self.error = None
        self.acks = 0
        self.values = {f"a{number}/{size}": payload(size, number) for size in self.SIZES}
        # By key: changes of unknown outcome since the last that was acknowledged. None of them
        # takes effect after that one.
        self.unknown = {key: [] for key in self.values}
        for key, value in self.values.items():
            assert cluster.client().set(key, value, noreply=False)

    def run(self):
        raw = None
        while not self.stopping.is_set() and self.error is None:
            try:
                raw = raw or Raw(self.cluster.port)
                self.change_one(raw, self.choose.choice(list(self.values)))
            except OSError:
                if raw is not None:
                    raw.close()
                raw = None
                self.stopping.wait(0.05)
            except AssertionError as error:
                self.error = error

    def change_one(self, raw, key):
        if len(self.unknown[key]) > 6:
            self.stopping.wait(0.05)
            return
        verb = self.choose.choice(("append", "prepend"))
        data = self.choose.randbytes(self.choose.choice((7, 500, 20_000)))
        self.unknown[key].append((verb, data))
        answer = change(raw, verb, key, data)
        if answer == "STORED":
            self.acks += 1
            if len(self.unknown[key]) == 1:
                self.values[key] = joined(self.values[key], verb, data)
                self.unknown[key].clear()
            else:
                self.settle(raw, key)
        elif "unknown:" not in answer:
            assert answer != "NOT_STORED", key
            self.unknown[key].pop()
            self.stopping.wait(0.05)

    def settle(self, raw, key):
        """The last change is acknowledged: reads which of those before it are done."""
        *maybe, last = self.unknown[key]
        self.take(raw, key, maybe, [last])
        self.unknown[key].clear()

    def take(self, raw, key, maybe, done):
        read = get(raw, key)
        may_be = []
        for count in range(len(maybe) + 1):
            for some in itertools.combinations(maybe, count):
                value = self.values[key]
                for verb, data in (*some, *done):
                    value = joined(value, verb, data)
                may_be.append(value)
        assert read in may_be, key
        self.values[key] = read

    def check(self, raw):
        assert self.error is None, self.error
        for key in self.values:
            self.take(raw, key, self.unknown[key], [])


def get(raw, key):
    raw.send(f"get {key}\r\n".encode())
    words = raw.line().split()
    if words[:1] != [b"VALUE"]:
        raise ConnectionError(words)
    return raw.file.read(int(words[3]) + 7)[:-7]


def test_acknowledged_appends_survive_the_death_of_m_nodes_again_and_again(make_cluster):
    cluster = make_cluster(nodes=7, scheme="ers:2,2,3",
                           settings=["segment_bytes=65536", "repair.after_ms=1000"])
    appenders = [Appender(cluster, number) for number in range(3)]

    def wait_acks(more, when):
        goal = sum(appender.acks for appender in appenders) + more
        wait_for(lambda: sum(appender.acks for appender in appenders) >= goal
                 or any(appender.error for appender in appenders), f"appends {when}")
    for appender in appenders:
        appender.start()
    try:
        for to, victims in ((3, ("n0", "n1")), (2, ("n4", "n2")), (3, ("n6",)), (2, ("n3", "n5"))):
            wait_acks(40, "while all are up")
            cluster.cli("transition", "--all", "--to", to, check=False, timeout=DEADLINE_S)
            cluster.kill(*victims)
            wait_acks(20, "while nodes are down")
            cluster.restart(*victims)
            for victim in victims:
                cluster.cli("node", "wait", victim, "--timeout", 60)
    finally:
        for appender in appenders:
            appender.stopping.set()
        for appender in appenders:
            appender.join()
    raw = Raw(cluster.port)
    for appender in appenders:
        appender.check(raw)
        assert all(report["clean"] for report in cluster.scrub(*appender.values))
