"""Out of memory is a clean refusal, and memory that was given back is used again."""

import concurrent.futures
import pathlib
import socket

import pytest
from pymemcache.exceptions import MemcacheError

from cluster import DEADLINE_S, payload, wait_for


@pytest.fixture()
def cluster(make_cluster):
    cluster = make_cluster(nodes=5, scheme="ers:2,1,3", memory_mb=32,
                           settings=["timing.read_grace_ms=200", "timing.tombstone_keep_ms=10000"])
    yield cluster
    cluster.stop()


def fill(client, prefix, size):
    """Stores objects until the first refusal; returns them."""
    values = {}
    for i in range(200_000):
        key = f"{prefix}{i}"
        value = payload(size, key)
        try:
            stored = client.set(key, value, noreply=False)
        except MemcacheError as error:
            assert "memory" in str(error), error
            return values
        assert stored
        values[key] = value
    raise AssertionError("never full")


def check(client, values):
    for key, value in values.items():
        assert client.get(key) == value, key


@pytest.mark.parametrize("first,second", [(300_000, 2_000), (2_000, 300_000)],
                         ids=["large then small", "small then large"])
def test_full_nodes_refuse_keep_what_they_have_and_take_another_size_after_deletes(
        cluster, first, second):
    client = cluster.client()
    values = fill(client, "first/", first)
    assert len(values) * first > 20 << 20, "most of the memory was used"
    check(client, values)
    assert client.get(f"first/{len(values)}") is None, "the refused one left nothing"
    for key in values:
        assert client.delete(key, noreply=False)
    count = max(len(values) * first // second // 2, 5)

    def fits():
        try:
            return client.set("probe", payload(second, "probe"), noreply=False)
        except MemcacheError:
            return False

    wait_for(fits, "memory comes back")
    stored = {}

    def store_more():
        while len(stored) < count:
            key = f"second/{len(stored)}"
            value = payload(second, key)
            try:
                client.set(key, value, noreply=False)
            except MemcacheError:
                return False
            stored[key] = value
        return True

    wait_for(store_more, f"{count} objects of {second} bytes fit where {len(values)} of {first} "
                         "were deleted")
    check(client, stored)


def test_a_long_run_of_overwrites_does_not_fill_the_nodes(cluster):
    client = cluster.client()
    # ten times what the nodes hold, in eight keys
    size, keys = 400_000, 8
    rounds = 10 * 5 * (32 << 20) // (size * 4 // 3) // keys // 4

    def put(key, value):
        def stored():
            try:
                return client.set(key, value, noreply=False)
            except MemcacheError:
                return False
        wait_for(stored, "superseded shards leave")

    for i in range(rounds):
        for k in range(keys):
            put(f"key{k}", payload(size, f"{i}/{k}"))
    for k in range(keys):
        assert client.get(f"key{k}") == payload(size, f"{rounds - 1}/{k}")


MIB = 1 << 20
OBJECT_BYTES = 64 * MIB
READ_BYTES = 96 * MIB
# what a process needs beside the values: channels, connections, what the allocator keeps
BESIDE_BYTES = 64 * MIB


def memory_of(pid, field):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def take(stream, expected):
    """Reads exactly what is expected, in place: such replies are too large to collect."""
    part = bytearray(4 * MIB)
    done = 0
    while done < len(expected):
        count = stream.recv_into(part, min(len(part), len(expected) - done))
        assert count > 0, "the connection ended within the reply"
        assert part[:count] == expected[done:done + count]
        done += count


def test_large_objects_that_are_asked_for_together_take_the_memory_of_the_limit(make_cluster):
    cluster = make_cluster(nodes=4, scheme="ers:2,1,3", memory_mb=256,
                           settings=["threads=1", f"limits.read_bytes={READ_BYTES}"])
    value = payload(OBJECT_BYTES, "large")
    assert cluster.client().set("large", value, noreply=False)
    pid = cluster.pid("proxy")
    # from here on the peak is that of the reads
    pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
    before = memory_of(pid, "VmRSS")

    header = f"VALUE large 0 {OBJECT_BYTES}\r\n".encode()
    reply = header + value + b"\r\n"

    def ask(request, *expected):
        with socket.create_connection(("127.0.0.1", cluster.port), timeout=DEADLINE_S) as stream:
            stream.sendall(request)
            for part in expected:
                take(stream, part)

    # each takes its replies as they come: who does not keeps memory from the other
    with concurrent.futures.ThreadPoolExecutor() as clients:
        pipeline = clients.submit(ask, b"get large\r\n" * 24, *[reply, b"END\r\n"] * 24)
        line = clients.submit(ask, b"get" + b" large" * 30 + b"\r\n", *[reply] * 30, b"END\r\n")
        pipeline.result()
        line.result()
    peak = memory_of(pid, "VmHWM")
    assert peak - before <= READ_BYTES + BESIDE_BYTES, f"{before >> 20} -> {peak >> 20} MiB"
    cluster.stop()
