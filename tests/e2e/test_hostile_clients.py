"""Clients that hold on to what they get keep no other waiting, and take no more than their share."""

import pathlib
import socket

import pytest

from cluster import DEADLINE_S, payload, wait_for

MIB = 1 << 20
CLIENTS = 60
LARGE = 9 * MIB
SMALL = {"get": payload(1000, "small"), "mg": payload(60_000, "striped")}
# Values that are read and written, what connections hold beside them, and the rest of the proxy.
PEAK_BYTES = 2 * 64 * MIB + CLIENTS * MIB + 128 * MIB


def line_of_keys(count):
    return b"get" + b" small/get" * count


KINDS = {
    "silent": b"",
    "lines without an end": line_of_keys(80_000),
    "large values not read": b"get large\r\n" * 2,
    "multi-gets not read": (line_of_keys(2000) + b"\r\n") * 64,
    "half uploads": b"set upload 0 0 %d\r\n" % LARGE + bytes(LARGE // 2),
    "uploads without a byte": b"set upload 0 0 %d\r\n" % LARGE,
}


def peak_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


class Hostile:
    """Sends until the proxy takes no more, and reads nothing."""

    def __init__(self, cluster, script):
        self.socket = socket.create_connection(("127.0.0.1", cluster.port), timeout=DEADLINE_S)
        self.socket.setblocking(False)
        self.left = memoryview(script)

    def send(self):
        """False when nothing more is taken."""
        try:
            self.left = self.left[self.socket.send(self.left[:MIB]):]
        except BlockingIOError:
            return False
        return len(self.left) > 0


def start(make_cluster, *settings):
    cluster = make_cluster(nodes=6, scheme="ers:2,1,3", memory_mb=256, settings=[
        "threads=1", "limits.staged_bytes=64MiB", "limits.read_bytes=64MiB",
        "timing.upload_idle_ms=3600000", *settings])
    client = cluster.client()
    for name, value in SMALL.items():
        assert client.set(f"small/{name}", value, noreply=False)
    assert client.set("large", payload(LARGE, "large"), noreply=False)
    return cluster, client


def hold(cluster, script):
    clients = [Hostile(cluster, script) for _ in range(CLIENTS)]
    stalled = [0]

    def are_stalled():
        stalled[0] = 0 if any([client.send() for client in clients]) else stalled[0] + 1
        return stalled[0] == 50
    wait_for(are_stalled, "the proxy takes no more of them")
    return clients


def connections(client):
    return client.stats()[b"curr_connections"]


@pytest.mark.parametrize("kind", KINDS)
def test_small_requests_are_answered_while_hostile_clients_hold_on(make_cluster, kind):
    cluster, client = start(make_cluster, "timing.client_yield_ms=3600000")
    before = connections(client)
    hostile = hold(cluster, KINDS[kind])
    for i in range(20):
        other = cluster.client()
        for name, value in SMALL.items():
            assert other.get(f"small/{name}") == value
        assert other.get_many([f"small/{name}" for name in SMALL]).keys() == {
            f"small/{name}" for name in SMALL}
        for size in (10, 20_000, 60_000):
            value = payload(size, i)
            assert other.set(f"mine/{size}", value, noreply=False)
            assert other.get(f"mine/{size}") == value
        other.close()
    wait_for(lambda: connections(client) == before + len(hostile), "all of them hold on to the end")
    assert peak_of(cluster.pid("proxy")) < PEAK_BYTES
    cluster.stop()


@pytest.mark.parametrize("kind", ["large values not read", "half uploads"])
def test_large_requests_are_answered_when_those_that_hold_them_up_are_cut(make_cluster, kind):
    cluster, client = start(make_cluster)
    hostile = hold(cluster, KINDS[kind])
    assert client.get("large") == payload(LARGE, "large")
    assert client.set("other", payload(LARGE, "other"), noreply=False)
    assert client.get("other") == payload(LARGE, "other")
    cut = cluster.metrics()["elastripe_client_connections_cut_total"]
    assert 0 < cut <= len(hostile)
    assert peak_of(cluster.pid("proxy")) < PEAK_BYTES
    cluster.stop()
