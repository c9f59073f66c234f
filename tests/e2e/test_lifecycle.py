"""A proxy that is told to end, or to read its settings again."""

import http.client
import json
import os
import signal
import socket
import subprocess

import pytest

from cluster import BIN, DEADLINE_S, Cluster, Raw, free_ports, payload, wait_for

MIB = 1 << 20
LONG_MS = 24 * 60 * 60 * 1000  # longer than any test


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """A cluster whose own proxy has gone."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), nodes=7)
    os.kill(cluster.pid("proxy"), signal.SIGKILL)
    yield cluster
    cluster.stop()


class Proxy:
    """A proxy of those nodes. `settings` override its file."""

    def __init__(self, nodes, directory, *settings):
        self.port = free_ports(2)
        self.log_file = directory / "proxy.log"
        words = [f"listen.port={self.port}", f"admin.port={self.port + 1}", *settings]
        with open(self.log_file, "w") as log:
            self.process = subprocess.Popen(
                [BIN / "elastripe-proxy", "--config", nodes.dir / "elastripe.yaml"]
                + [word for setting in words for word in ("--set", setting)],
                stdout=log, stderr=subprocess.STDOUT)
        wait_for(lambda: self.asks("/readyz") == (200, "ok\n"), lambda: f"ready: {self.log()}")

    def log(self):
        return self.log_file.read_text()

    def asks(self, path):
        """The status and the text of the admin interface; nothing if it does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port + 1, timeout=DEADLINE_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def send(self, number):
        self.process.send_signal(number)

    def wait_not_ready(self):
        wait_for(lambda: self.asks("/readyz") == (503, "shutting down\n"), "the proxy is not ready")

    def wait_ended(self):
        assert self.process.wait(DEADLINE_S) == 0, self.log()

    def refuses_connections(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S).close()
            return False
        except ConnectionError:
            return True


@pytest.fixture
def start(nodes, tmp_path):
    started = []

    def start_one(*settings):
        started.append(Proxy(nodes, tmp_path, *settings))
        return started[-1]
    yield start_one
    for proxy in started:
        proxy.process.kill()
        proxy.process.wait()


def begin_upload(proxy, key, value, sent):
    """A connection whose set has begun, with so many bytes of its value sent."""
    raw = Raw(proxy.port)
    raw.send(f"mn\r\nset {key} 0 0 {len(value)}\r\n".encode())
    raw.send(value[:sent])
    assert raw.line() == b"MN\r\n"
    return raw


def begin_download(proxy, key):
    """A connection whose get has begun to be answered, and that takes no more of it."""
    raw = Raw(proxy.port)
    raw.send(f"get {key}\r\n".encode())
    assert raw.line().startswith(b"VALUE ")
    return raw


def is_cut(raw):
    """It has ended; what the client had sent and nobody read may have made it a reset."""
    try:
        return raw.line() == b""
    except ConnectionResetError:
        return True


def test_a_proxy_is_not_ready_while_it_still_serves(start):
    proxy = start(f"timing.shutdown_delay_ms={LONG_MS}")
    before = Raw(proxy.port)
    assert before.ask(b"set key 0 0 1\r\na\r\n") == b"STORED\r\n"
    proxy.send(signal.SIGTERM)
    proxy.wait_not_ready()
    assert proxy.asks("/healthz") == (200, "ok\n")
    assert json.loads(proxy.asks("/v1/status")[1])["state"] == "stopping"
    assert before.ask(b"set key 0 0 1\r\nb\r\n") == b"STORED\r\n"
    after = Raw(proxy.port)
    assert after.ask(b"get key\r\n") == b"VALUE key 0 1\r\nb\r\nEND\r\n"
    proxy.send(signal.SIGTERM)
    assert before.line() == after.line() == b""
    proxy.wait_ended()


def test_what_clients_have_asked_for_ends_before_the_proxy_does(start):
    proxy = start(f"timing.shutdown_wait_ms={LONG_MS}")
    large, small = payload(48 * MIB, 1), b"v" * 1000
    idle = Raw(proxy.port)
    assert idle.ask(b"set large 0 0 %d\r\n%s\r\n" % (len(large), large)) == b"STORED\r\n"
    download = begin_download(proxy, "large")
    uploads = {"big": (begin_upload(proxy, "big", large, 5 * MIB), large, 5 * MIB),
               "little": (begin_upload(proxy, "little", small, 10), small, 10)}
    proxy.send(signal.SIGTERM)
    assert idle.line() == b""
    wait_for(proxy.refuses_connections, "no more connections are taken")
    assert proxy.asks("/readyz") == (503, "shutting down\n")
    assert proxy.asks("/healthz") == (200, "ok\n")
    for raw, value, sent in uploads.values():
        raw.send(value[sent:] + b"\r\n")
        assert raw.line() == b"STORED\r\n"
        assert raw.line() == b""
    assert proxy.process.poll() is None
    assert download.file.read() == large + b"\r\nEND\r\n"
    proxy.wait_ended()
    after = Raw(start().port)
    for key, (_, value, _) in uploads.items():
        expected = b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key.encode(), len(value), value)
        assert after.ask(b"get %s\r\n" % key.encode()) == expected


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_wait(start, number):
    proxy = start(f"timing.shutdown_wait_ms={LONG_MS}")
    idle = Raw(proxy.port)
    upload = begin_upload(proxy, "never", payload(8 * MIB, 2), MIB)
    proxy.send(signal.SIGTERM)
    assert idle.line() == b""
    proxy.wait_not_ready()
    proxy.send(number)
    proxy.wait_ended()
    assert is_cut(upload)


def test_the_wait_is_bounded(start):
    proxy = start("timing.shutdown_wait_ms=10")
    upload = begin_upload(proxy, "never", payload(8 * MIB, 3), MIB)
    proxy.send(signal.SIGINT)
    proxy.wait_ended()
    assert is_cut(upload)
