"""Large objects pass through the proxy segment by segment: its memory is bounded, whatever clients do."""

import concurrent.futures
import os
import pathlib
import socket
import threading

import pytest

from cluster import DEADLINE_S, payload, wait_for

MIB = 1 << 20
# what a process needs beside the values: channels, connections, what the allocator keeps; a sanitizer
# also keeps what was freed
SANITIZED = bool(os.environ.get("ELASTRIPE_SANITIZE"))
BESIDE_BYTES = (64 if not SANITIZED else 640) * MIB


def memory_of(pid, field):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def forget_peak(pid):
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


class Stream:
    """A connection that sends and takes values in parts, so that the test holds none whole."""

    PART = payload(1 * MIB, "part")

    def __init__(self, cluster, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(("127.0.0.1", cluster.port))
        self.buffer = bytearray(MIB)
        self.held = b""

    @classmethod
    def bytes_at(cls, version, offset, count):
        """What a value has there: versions differ everywhere."""
        part = bytes(cls.PART[(version + offset) % MIB:])
        while len(part) < count:
            part += cls.PART
        return part[:count]

    def begin_set(self, key, size):
        self.socket.sendall(f"set {key} 0 0 {size}\r\n".encode())

    def send_value(self, version, begin, end):
        for offset in range(begin, end, MIB):
            self.socket.sendall(self.bytes_at(version, offset, min(MIB, end - offset)))

    def set(self, key, size, version=0):
        self.begin_set(key, size)
        self.send_value(version, 0, size)
        self.socket.sendall(b"\r\n")
        return self.line()

    def line(self):
        while b"\n" not in self.held:
            got = self.socket.recv(4096)
            if not got:
                return b"closed"
            self.held += got
        line, self.held = self.held.split(b"\n", 1)
        return line.rstrip(b"\r")

    def take(self, count):
        """So many bytes, or fewer if the connection ends."""
        part, self.held = self.held[:count], self.held[count:]
        parts = [part]
        count -= len(part)
        while count > 0:
            got = self.socket.recv_into(self.buffer, min(count, MIB))
            if got == 0:
                break
            parts.append(bytes(self.buffer[:got]))
            count -= got
        return b"".join(parts)

    def check_value(self, size, versions=(0,)):
        """The value's bytes as they come; the version that they are of, None if cut."""
        version = None
        for offset in range(0, size, MIB):
            count = min(MIB, size - offset)
            part = self.take(count)
            if version is None:
                version = next(v for v in versions
                               if part == self.bytes_at(v, offset, len(part)) and part)
            assert part == self.bytes_at(version, offset, len(part)), (version, offset)
            if len(part) < count:
                return None
        return version

    def get(self, key, size, versions=(0,)):
        self.socket.sendall(f"get {key}\r\n".encode())
        assert self.line() == f"VALUE {key} 0 {size}".encode()
        version = self.check_value(size, versions)
        if version is not None:
            assert self.line() == b""
            assert self.line() == b"END"
        return version

    def close(self):
        self.socket.close()


def shard_count(cluster):
    metrics = cluster.metrics()
    return metrics['elastripe_stored_bytes{kind="shard"}']


def start_small(make_cluster, idle_ms):
    return make_cluster(nodes=6, scheme="ers:2,1,3", memory_mb=256,
                        settings=["threads=1", "segment_bytes=1MiB",
                                  f"limits.staged_bytes={32 * MIB}",
                                  f"limits.read_bytes={32 * MIB}",
                                  f"timing.upload_idle_ms={idle_ms}", "timing.read_grace_ms=1000"])


@pytest.fixture(name="cluster")
def small_cluster(make_cluster):
    cluster = start_small(make_cluster, idle_ms=3000)
    yield cluster
    cluster.stop()


def test_an_object_of_a_gibibyte_takes_a_few_segments_of_memory(make_cluster):
    cluster = make_cluster(nodes=4, scheme="ers:2,1,3", memory_mb=1024, settings=["threads=1"])
    size = (1 << 30) if not SANITIZED else (1 << 28)
    pid = cluster.pid("proxy")
    client = Stream(cluster)
    client.set("warm", 8 * MIB)
    before = memory_of(pid, "VmRSS")
    forget_peak(pid)
    assert client.set("large", size) == b"STORED"
    assert client.get("large", size) == 0
    peak = memory_of(pid, "VmHWM")
    assert peak - before <= BESIDE_BYTES, f"{before >> 20} -> {peak >> 20} MiB"
    client.close()
    cluster.stop()


def run_all(jobs):
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(jobs)) as pool:
        for job in [pool.submit(*job) for job in jobs]:
            job.result()


def test_hundreds_of_connections_share_the_budgets_and_all_are_served(cluster):
    size, connections, keys = 6 * MIB, 200 if not SANITIZED else 60, 8
    pid = cluster.pid("proxy")
    first = Stream(cluster)
    for key in range(keys):
        assert first.set(f"key{key}", size, version=key) == b"STORED"
    forget_peak(pid)
    before = memory_of(pid, "VmRSS")

    def get(index):
        stream = Stream(cluster)
        assert stream.get(f"key{index % keys}", size, versions=range(keys)) == index % keys
        stream.close()

    def put(index):
        stream = Stream(cluster)
        key = index % keys
        assert stream.set(f"key{key}", size, version=key) == b"STORED"
        stream.close()

    run_all([(put if index % 4 == 0 else get, index) for index in range(connections)])
    peak = memory_of(pid, "VmHWM")
    assert peak - before <= 2 * 32 * MIB + BESIDE_BYTES, f"{before >> 20} -> {peak >> 20} MiB"
    first.close()


def test_readers_that_do_not_take_their_values_are_cut_and_cost_no_one_else(cluster):
    size = 8 * MIB
    client = Stream(cluster)
    assert client.set("large", size) == b"STORED"
    # enough of them to hold all memory of reads
    stalled = [Stream(cluster, receive_bytes=4096) for _ in range(20)]
    for stream in stalled:
        stream.socket.sendall(b"get large\r\n" * 4)

    def is_waited_for():
        return cluster.metrics()['elastripe_memory_waiters{for="read"}'] > 0
    wait_for(is_waited_for, "the memory of reads is used up")
    # inline values need no more than there is
    assert client.set("small", 100) == b"STORED"
    assert client.get("small", 100) == 0
    # a large one waits until those that hold the memory are cut
    assert client.get("large", size) == 0
    wait_for(lambda: cluster.metrics()["elastripe_client_connections_cut_total"] >= 20,
             "all of them are cut")
    for stream in stalled:
        stream.close()


def test_a_reader_that_trickles_is_cut(cluster):
    size = 8 * MIB
    client = Stream(cluster)
    assert client.set("large", size) == b"STORED"
    slow = Stream(cluster, receive_bytes=4096)
    slow.socket.sendall(b"get large\r\n")

    def is_cut():
        slow.socket.recv(1024)  # at the pace of wait_for
        return cluster.metrics()["elastripe_client_connections_cut_total"] >= 1
    wait_for(is_cut, "the slow reader is cut")
    assert client.get("large", size) == 0


def test_senders_that_stop_are_cut_and_leave_nothing(cluster):
    size = 8 * MIB
    client = Stream(cluster)
    assert client.set("key", size, version=1) == b"STORED"
    stalled = [Stream(cluster) for _ in range(20)]
    for index, stream in enumerate(stalled):
        stream.begin_set("key" if index % 2 else f"new{index}", size)
        stream.send_value(0, 0, 3 * MIB + 1000 * index)
    for stream in stalled[:10]:
        stream.close()
    # a writer behind them waits for memory, not for them
    assert client.set("other", size, version=2) == b"STORED"
    for stream in stalled[10:]:
        assert stream.line() == b"closed"
    assert client.get("key", size, versions=(0, 1)) == 1
    assert client.get("other", size, versions=(2,)) == 2
    for index in range(0, 20, 2):
        client.socket.sendall(f"get new{index}\r\n".encode())
        assert client.line() == b"END"
    stored = 2 * size * 3 // 2  # two objects, with their parities, and their headers
    wait_for(lambda: stored <= shard_count(cluster) <= 1.01 * stored, "what they sent is gone")


def test_a_value_without_its_line_end_is_refused_and_leaves_nothing(cluster):
    size = 3 * MIB
    client = Stream(cluster)
    client.begin_set("key", size)
    client.send_value(0, 0, size)
    client.socket.sendall(b"xyget key\r\n")
    assert client.line() == b"CLIENT_ERROR bad data chunk"
    assert client.line() == b"END"
    wait_for(lambda: shard_count(cluster) == 0, "its shards are gone")


def test_a_value_that_can_not_be_stored_is_skipped_and_the_connection_goes_on(make_cluster):
    size = 8 * MIB
    cluster = start_small(make_cluster, idle_ms=60_000)  # it pauses while nodes die
    client = Stream(cluster)
    client.begin_set("key", 10 * MIB)
    for dead in range(3):  # then there are fewer nodes than the scheme has shards
        cluster.kill(f"n{dead}")
        cluster.wait_serving(up=5 - dead)
    client.send_value(0, 0, 10 * MIB)
    client.socket.sendall(b"\r\n")
    assert client.line().startswith(b"CLIENT_ERROR ")
    client.begin_set("key", size)
    client.send_value(0, 0, size)
    client.socket.sendall(b"\r\nset small 0 0 1\r\nx\r\nget key\r\n")
    assert client.line().startswith(b"CLIENT_ERROR ")
    client.line()
    assert client.line() == b"END"
    cluster.stop()


def test_a_node_that_dies_in_mid_upload_costs_nothing_that_was_acknowledged(cluster):
    size = 24 * MIB
    client = Stream(cluster)
    client.begin_set("key", size)
    client.send_value(0, 0, size // 2)
    wait_for(lambda: shard_count(cluster) > 0, "segments are written")
    cluster.kill("n1")
    cluster.wait_serving(up=5)
    client.send_value(0, size // 2, size)
    client.socket.sendall(b"\r\n")
    assert client.line() == b"STORED"
    wait_for(lambda: cluster.metrics()["elastripe_reprepares_total"] >= 1, "it is counted")
    assert client.get("key", size) == 0
    # the shards of the dead node were rebuilt on others, so another may die
    cluster.kill("n4")
    assert client.get("key", size) == 0


def test_a_node_that_dies_in_mid_read_costs_nothing(cluster):
    size = 24 * MIB
    client = Stream(cluster)
    assert client.set("key", size) == b"STORED"
    client.socket.sendall(b"get key\r\n")
    assert client.line() == f"VALUE key 0 {size}".encode()
    assert client.take(MIB) == client.bytes_at(0, 0, MIB)
    cluster.kill("n3")
    for offset in range(MIB, size, MIB):
        assert client.take(MIB) == client.bytes_at(0, offset, MIB)
    assert client.line() == b""
    assert client.line() == b"END"


def test_a_value_that_is_overwritten_while_it_is_read_is_whole_or_cut(cluster):
    size = 24 * MIB
    writer = Stream(cluster)
    assert writer.set("key", size, version=0) == b"STORED"
    stop = threading.Event()
    outcomes = []

    def read(pause_s):
        while not stop.is_set():
            stream = Stream(cluster, receive_bytes=64 << 10)
            stream.socket.sendall(b"get key\r\n")
            assert stream.line() == f"VALUE key 0 {size}".encode()
            assert len(first := stream.take(MIB)) == MIB
            version = next(v for v in range(1000) if first == stream.bytes_at(v, 0, MIB))
            stop.wait(pause_s)  # the pace of this reader
            for offset in range(MIB, size, MIB):
                part = stream.take(MIB)
                assert part == stream.bytes_at(version, offset, len(part)), (version, offset)
                if len(part) < MIB:
                    outcomes.append("cut")
                    break
            else:
                assert stream.line() == b"" and stream.line() == b"END"
                outcomes.append("whole")
            stream.close()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        # some are slower than read_grace_ms, and may be cut
        readers = [pool.submit(read, pause_s) for pause_s in (0, 0, 2, 2)]
        try:
            for version in range(1, 13):
                assert writer.set("key", size, version=version) == b"STORED"
            wait_for(lambda: len(outcomes) >= 12 or any(r.done() for r in readers), "reads end")
        finally:
            stop.set()
        for reader in readers:
            reader.result()
    assert "whole" in outcomes


def test_a_range_is_read_alone(cluster):
    size = 5 * MIB + 12345
    client = Stream(cluster)
    assert client.set("key", size) == b"STORED"
    for offset, count in [(0, 1), (0, 100), (MIB - 1, 2), (MIB, 4096), (3 * MIB + 17, 2 * MIB),
                          (size - 5, 5)]:
        client.socket.sendall(f"mg key s v o{offset} n{count}\r\n".encode())
        assert client.line() == f"VA {count} s{size}".encode()
        assert client.take(count) == client.bytes_at(0, offset, count)
        assert client.line() == b""
    client.socket.sendall(f"mg key v o{size - 5} n10\r\nmg key v o{size}\r\nmg absent v\r\n".encode())
    assert client.line() == b"VA 5" and client.take(5) == client.bytes_at(0, size - 5, 5)
    assert client.line() == b"" and client.line() == b"VA 0" and client.line() == b""
    assert client.line() == b"EN"

    read = 'elastripe_node_received_bytes_total{node="n%d"}'

    def received():
        metrics = cluster.metrics()
        return sum(metrics[read % n] for n in range(6))
    before = received()
    client.socket.sendall(b"mg key v o2000000 n100\r\n")
    assert client.line() == b"VA 100" and client.take(100) == client.bytes_at(0, 2000000, 100)
    # not a segment: heartbeats and a few pages are less
    assert received() - before < MIB // 4
