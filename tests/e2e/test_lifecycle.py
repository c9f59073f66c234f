"""A proxy that is told to end, or to read its settings again."""

import concurrent.futures
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import types

import pytest

from cluster import BIN, DEADLINE_S, Cluster, Raw, free_ports, payload, run, wait_for

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
    """A proxy of those nodes, with a file of these settings."""

    def __init__(self, nodes, directory, is_served=True, **settings):
        self.port = free_ports(2)
        self.log_file = directory / "proxy.log"
        self.file = directory / "proxy.yaml"
        self.base = {
            "listen": {"port": self.port}, "admin": {"port": self.port + 1},
            "nodes": [{"name": f"n{i}", "host": "127.0.0.1", "port": nodes.port + 1 + i}
                      for i in range(nodes.nodes)],
            "pools": [{"prefix": "", "scheme": "ers:4,2,5"}]}
        self.write(**settings)
        with open(self.log_file, "w") as log:
            self.process = subprocess.Popen([BIN / "elastripe-proxy", "--config", self.file],
                                            stdout=log, stderr=subprocess.STDOUT)
        if is_served:
            self.wait_ready()

    def wait_ready(self):
        wait_for(lambda: self.asks("/readyz") == (200, "ok\n"), lambda: f"ready: {self.log()}")

    def write(self, **settings):
        self.file.write_text(json.dumps(self.base | settings, indent=1))  # which is YAML

    def reload(self, **settings):
        """What it logs when its file has these settings."""
        self.write(**settings)
        seen = len(self.log())
        self.send(signal.SIGHUP)

        def is_told():
            return any(word in self.log()[seen:] for word in ("changed settings: ", "nothing has changed"))
        wait_for(is_told, "the proxy reloads")
        return self.log()[seen:]

    def set_for_all(self, *settings):
        """Changes settings of the cluster."""
        run("elastripe", "--server", f"127.0.0.1:{self.port}", "config", "set", *settings)

    def settings(self):
        """What `stats settings` tells."""
        raw = Raw(self.port)
        lines = raw.ask(b"stats settings\r\n").decode().splitlines()
        raw.close()
        return dict(line.split(" ", 2)[1:] for line in lines if line.startswith("STAT "))

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

    def start_one(**settings):
        started.append(Proxy(nodes, tmp_path, **settings))
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
    proxy = start(timing={"shutdown_delay_ms": LONG_MS})
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
    proxy = start(timing={"shutdown_wait_ms": LONG_MS})
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


def test_what_is_asked_too_late_takes_no_reply_back(start):
    """Bytes that nobody reads make closing a reset, which drops what is yet on its way."""
    # One thread tells all its connections at once that it ends.
    proxy = start(threads=1, timing={"shutdown_wait_ms": LONG_MS})
    large = payload(48 * MIB, 4)
    idle = Raw(proxy.port)
    assert idle.ask(b"set large 0 0 %d\r\n%s\r\n" % (len(large), large)) == b"STORED\r\n"
    asks, quits = begin_download(proxy, "large"), Raw(proxy.port)
    quits.send(b"get large\r\nquit\r\nget large\r\n")
    expected = large + b"\r\nEND\r\n"
    assert quits.file.read() == b"VALUE large 0 %d\r\n" % len(large) + expected
    proxy.send(signal.SIGTERM)
    assert idle.line() == b""
    asks.send(b"get large\r\n")
    assert asks.file.read() == expected
    proxy.wait_ended()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_wait(start, number):
    proxy = start(timing={"shutdown_wait_ms": LONG_MS})
    idle = Raw(proxy.port)
    upload = begin_upload(proxy, "never", payload(8 * MIB, 2), MIB)
    proxy.send(signal.SIGTERM)
    assert idle.line() == b""
    proxy.wait_not_ready()
    proxy.send(number)
    proxy.wait_ended()
    assert is_cut(upload)


def test_the_wait_is_bounded(start):
    proxy = start(timing={"shutdown_wait_ms": 10})
    upload = begin_upload(proxy, "never", payload(8 * MIB, 3), MIB)
    proxy.send(signal.SIGINT)
    proxy.wait_ended()
    assert is_cut(upload)


def test_limits_and_times_change_for_connections_that_are_open(start):
    proxy = start()
    old = [Raw(proxy.port) for _ in range(2)]
    assert old[0].ask(b"set key 0 0 4\r\nabcd\r\n") == b"STORED\r\n"
    proxy.set_for_all("pools.0.inline_max_bytes=2")
    log = proxy.reload(max_object_bytes=3, flush_all="refuse", limits={"connections": 2},
                       pools=[{"prefix": "", "scheme": "ers:4,2,5", "inline_max_bytes": 2}])
    assert "max_object_bytes=3" in log and "limits.connections=2" in log
    assert old[0].ask(b"set key 0 0 4\r\nabcd\r\n") == b"SERVER_ERROR object too large for cache\r\n"
    assert old[1].ask(b"get key\r\n") == b"VALUE key 0 4\r\nabcd\r\nEND\r\n"
    assert old[1].ask(b"flush_all\r\n") == b"CLIENT_ERROR flush_all not allowed\r\n"
    assert Raw(proxy.port).line() == b"ERROR Too many open connections\r\n"
    proxy.reload(limits={"connections": 100}, flush_all="refuse")
    told = proxy.settings()
    assert told["maxconns"] == told["connections"] == "100"
    assert told["item_size_max"] == told["max_object_bytes"] == str(1 << 30)
    assert told["flush_enabled"] == "no"
    assert old[0].ask(b"set key 0 0 4\r\nabcd\r\n") == b"STORED\r\n"
    proxy.set_for_all("pools.0.inline_max_bytes=16KiB")
    # Idle connections that are open are closed, too.
    proxy.reload(timing={"client_idle_ms": 10})
    assert [is_cut(raw) for raw in old] == [True, True]


def scheme_of(proxy, key):
    return json.loads(proxy.asks(f"/v1/objects/{key.replace('/', '%2F')}")[1])["scheme"]


def test_pools_change_for_what_is_written_from_then_on(start):
    proxy = start()
    raw = Raw(proxy.port)
    value = payload(2 * MIB, 4)

    def put(key):
        assert raw.ask(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value), value)) == b"STORED\r\n"
        return scheme_of(proxy, key)

    assert put("a/before") == put("b") == "ers-2:4,2,5"
    proxy.set_for_all("pools.1={prefix: a/, scheme: 'rs:3,2'}")
    assert put("a/after") == "rs:3,2"
    assert put("b") == scheme_of(proxy, "a/before") == "ers-2:4,2,5"
    assert proxy.settings()["pool_a/"] == "rs:3,2"
    proxy.set_for_all("pools=[{prefix: '', scheme: 'ers:3,1,4'}]")
    assert put("a/after") == put("b") == "ers-2:3,1,4"
    assert scheme_of(proxy, "a/before") == "ers-2:4,2,5"
    # Records get as many copies as a pool wants.
    proxy.set_for_all("pools.1={prefix: a/, scheme: 'rep:4'}")
    assert put("a/before") == "rep:4"
    proxy.set_for_all("pools=[{prefix: '', scheme: 'ers:4,2,5'}]")
    assert put("a/before") == "ers-2:4,2,5"
    # A file does not change them.
    log = proxy.reload(pools=[{"prefix": "", "scheme": "rs:3,1"}])
    assert "what is the cluster's (elastripe config set): pools\n" in log
    assert put("a/before") == "ers-2:4,2,5"
    for key in (b"a/before", b"a/after", b"b"):
        assert raw.ask(b"get %s\r\n" % key) == b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (
            key, len(value), value)


def test_a_bad_file_changes_nothing_and_its_line_is_told(start):
    proxy = start()
    before = proxy.settings()
    proxy.write(flush_all="refuse", limits={"connections": "many"}, log_level="error")
    line = next(number for number, text in enumerate(proxy.file.read_text().splitlines(), 1)
                if "many" in text)
    log = proxy.reload(flush_all="refuse", limits={"connections": "many"}, log_level="error")
    assert f"{proxy.file}:{line}: limits.connections: is 'many'" in log
    assert "nothing has changed" in log
    log = proxy.reload(segment_bytes="1MiB", limits={"staged_bytes": "1MiB", "connections": 7})
    assert "together with what needs a restart: limits.staged_bytes" in log
    log = proxy.reload(no_such_setting=1, limits={"connections": 7})
    assert "no_such_setting" in log and "nothing has changed" in log
    assert proxy.settings() == before
    # Whoever decided before may be asked, and be gone.
    wait_for(lambda: json.loads(proxy.asks("/v1/status")[1])["decides"], "it decides")
    assert Raw(proxy.port).ask(b"flush_all\r\n") == b"OK\r\n"


def test_what_needs_a_restart_is_named_and_the_rest_is_taken(start):
    proxy = start()
    log = proxy.reload(threads=7, admin={"port": 1}, listeners=[{"port": 0}],
                       timing={"lease_ms": 5000, "request_timeout_ms": 6000},
                       repair={"automatic": False}, scrub={"every_ms": 0})
    assert "what differs and needs a restart: threads, admin.port, listeners\n" in log
    assert ("what is the cluster's (elastripe config set): timing.lease_ms=5000, "
            "timing.request_timeout_ms=6000\n" in log)
    assert "changed settings: repair.automatic=false, scrub.every_ms=0\n" in log
    told = proxy.settings()
    assert (told["request_timeout_ms"], told["lease_ms"]) == ("8000", "3000")
    proxy.set_for_all("timing.lease_ms=5000", "timing.request_timeout_ms=6000")
    told = proxy.settings()
    assert (told["request_timeout_ms"], told["lease_ms"]) == ("6000", "5000")
    proxy.set_for_all("timing.lease_ms=3000", "timing.request_timeout_ms=8000")

    def is_off():
        status = json.loads(proxy.asks("/v1/status")[1])
        return status["repair"]["state"] == status["scrub"]["state"] == "off"
    wait_for(is_off, "repair and scrubs are off")
    assert "changed settings: none" in proxy.reload(
        repair={"automatic": False}, scrub={"every_ms": 0})


def test_settings_change_before_there_is_a_cluster(tmp_path):
    """It forms with the pools of the file that was read last; what leases rest on needs a restart."""
    nodes = types.SimpleNamespace(port=free_ports(3), nodes=2)
    pools = [{"prefix": "", "scheme": "rep:2"}]
    proxy = Proxy(nodes, tmp_path, is_served=False, pools=pools)
    user = ["--user", "root"] if os.geteuid() == 0 else []
    started = [proxy.process]
    try:
        wait_for(lambda: "a new cluster needs all its nodes" in proxy.log(), "it waits for the nodes")
        log = proxy.reload(pools=[*pools, {"prefix": "a/", "scheme": "rep:2", "inline_max_bytes": 7}],
                           timing={"lease_ms": 2500}, limits={"connections": 77})
        assert "what differs and needs a restart: timing.lease_ms\n" in log
        assert "changed settings: limits.connections=77, pools\n" in log
        with open(tmp_path / "nodes.log", "w") as out:
            for i in range(nodes.nodes):
                command = [BIN / "elastripe-node", "--name", f"n{i}", "--port", str(nodes.port + 1 + i),
                           "--memory-mb", "64", *user]
                started.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT))
        proxy.wait_ready()
        told = proxy.settings()
        assert (told["maxconns"], told["lease_ms"], told["pool_a/"]) == ("77", "3000", "rep:2")
        of_cluster = json.loads(proxy.asks("/v1/settings")[1])
        assert of_cluster["version"] == 1 and "a/" in of_cluster["settings"]
        assert "lease_ms: 3000" in of_cluster["settings"]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_settings_change_under_load(start):
    proxy = start()
    ended = threading.Event()

    def work(name):
        raw = Raw(proxy.port)
        rounds = 0
        while not ended.is_set() or rounds < 3:
            key = b"load/%d/%d" % (name, rounds % 3)
            value = payload((rounds % 7) * MIB + 10_000, rounds)
            assert raw.ask(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value)) == b"STORED\r\n"
            assert raw.ask(b"get %s\r\n" % key) == b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (
                key, len(value), value)
            rounds += 1
        raw.close()

    configurations = [
        {"limits": {"staged_bytes": "4MiB", "read_bytes": "4MiB"}, "record_cache_bytes": 0},
        {},
    ]
    pools = ["[{prefix: '', scheme: 'rs:4,1', inline_max_bytes: 0}]",
             "[{prefix: '', scheme: 'ers:4,2,5'}, "
             "{prefix: load/1, scheme: 'rep:3', inline_max_bytes: 1MiB}]"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        workers = [pool.submit(work, name) for name in range(4)]
        try:
            for _ in range(5):
                for configuration in configurations:
                    assert "changed settings: none" not in proxy.reload(**configuration)
                for wanted in pools:
                    proxy.set_for_all(f"pools={wanted}")
        finally:
            ended.set()
        for worker in workers:
            worker.result()
