"""A cluster over TLS: another CA under load, certificates that nobody would believe, and IPv6."""

import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import threading

import pytest

from authority import Authority
from cluster import BIN, DEADLINE_S, Cluster, free_ports, payload, run, wait_for


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path / "c", nodes=4, scheme="rs:2,1", flags=["--tls"])
    yield cluster
    cluster.stop()


def reload_all(cluster):
    """All read their certificates again."""
    told = {"proxy": "reload: "} | {f"n{i}": "read again" for i in range(cluster.nodes)}
    seen = {name: cluster.log(name).count(text) for name, text in told.items()}
    for name in told:
        os.kill(cluster.pid(name), signal.SIGHUP)
    for name, text in told.items():
        wait_for(lambda name=name, text=text: cluster.log(name).count(text) > seen[name],
                 lambda name=name: f"{name} reloads: {cluster.log(name)}")


def asks(port, ca, request, answer):
    """One connection, of a client that believes the CAs of that file."""
    context = ssl.create_default_context(cafile=str(ca))
    with socket.create_connection(("localhost", port), timeout=DEADLINE_S) as connection:
        with context.wrap_socket(connection, server_hostname="localhost") as tls:
            tls.sendall(request)
            got = b""
            while len(got) < len(answer):
                part = tls.recv(1 << 16)
                if not part:
                    break
                got += part
            return got == answer


class Load(threading.Thread):
    """Writes and reads by new connections, one after the other."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster = cluster
        self.ca = cluster.dir / "tls" / "ca.pem"
        self.ends = threading.Event()
        self.rounds = 0
        self.failures = []

    def run(self):
        while not self.ends.is_set():
            value = payload(40_000, self.rounds)
            key = b"k%d" % (self.rounds % 50)
            request = b"set %b 0 0 %d\r\n%b\r\nget %b\r\n" % (key, len(value), value, key)
            answer = b"STORED\r\nVALUE %b 0 %d\r\n%b\r\nEND\r\n" % (key, len(value), value)
            try:
                if not asks(self.cluster.port, self.ca, request, answer):
                    self.failures.append("another answer")
            except OSError as error:
                self.failures.append(repr(error))
            self.rounds += 1

    def goes_on(self):
        before = self.rounds
        wait_for(lambda: self.rounds > before + 10, "the load goes on")
        assert not self.failures


def test_another_ca_under_load(cluster):
    tls = cluster.dir / "tls"
    old_ca = cluster.dir / "old.pem"
    old_ca.write_text((tls / "ca.pem").read_text())
    load = Load(cluster)
    load.start()
    try:
        for number, step in enumerate(("new-ca", "init", "forget-ca")):
            told = cluster.cli("tls", step, "--dir", tls).stdout
            assert str(tls / "ca.pem") in told
            reload_all(cluster)
            # Its channels are made anew, and its client certificates and ours are looked at again.
            cluster.kill(f"n{number}")
            cluster.restart(f"n{number}")
            cluster.wait_serving(up=4)
            load.goes_on()
    finally:
        load.ends.set()
        load.join()
    assert not load.failures
    with pytest.raises(ssl.SSLCertVerificationError):
        asks(cluster.port, old_ca, b"mn\r\n", b"MN\r\n")
    assert asks(cluster.port, tls / "ca.pem", b"mn\r\n", b"MN\r\n")


def test_certificates_that_nodes_would_not_believe_are_not_taken(cluster, tmp_path):
    tls = cluster.dir / "tls"

    def reload(files):
        for name, text in files.items():
            (tls / name).write_text(text)
        seen = len(cluster.log("proxy"))
        os.kill(cluster.pid("proxy"), signal.SIGHUP)
        wait_for(lambda: "reload: " in cluster.log("proxy")[seen:], "the proxy reloads")
        return cluster.log("proxy")[seen:]

    def certificate():
        return ssl.get_server_certificate(("localhost", cluster.port))

    other = Authority(tmp_path / "other", name="other")
    other.issue("proxy")
    before = certificate()
    ours = {name: (tls / name).read_text() for name in ("proxy.pem", "proxy.key")}
    told = reload({name: pathlib.Path(other.file(name)).read_text() for name in ours})
    assert f"tls: certificate {tls / 'proxy.pem'}: is not by the CA {tls / 'ca.pem'}: " in told
    told = reload({name: (tls / name.replace("proxy", "client")).read_text() for name in ours})
    assert "is for clients only" in told
    assert certificate() == before
    (tls / "proxy.key").chmod(0o644)
    told = reload(ours)
    assert f"tls: key {tls / 'proxy.key'}: others than its owner may use it" in told
    assert "users and certificates are those of the files" in told
    assert "elastripe_tls_valid_until_seconds " in cluster.admin("/metrics")


@pytest.mark.skipif(not pathlib.Path("/proc/net/if_inet6").exists(), reason="there is no IPv6 here")
def test_all_over_ipv6(tmp_path):
    run("elastripe", "tls", "init", "--dir", tmp_path / "tls")
    port = free_ports(6)
    file = {name: str(tmp_path / "tls" / name) for name in
            ("ca.pem", "proxy.pem", "proxy.key", "node.pem", "node.key")}
    config = tmp_path / "proxy.yaml"
    config.write_text(json.dumps({
        "listen": {"host": "::1", "port": port, "tls": "on"},
        "admin": {"host": "::1", "port": port + 1},
        "tls": {"certificate": file["proxy.pem"], "key": file["proxy.key"], "ca": file["ca.pem"],
                "nodes": True},
        "nodes": [{"name": f"n{i}", "host": "::1", "port": port + 2 + i} for i in range(4)],
        "pools": [{"prefix": "", "scheme": "rs:2,1"}]}))
    user = ["--user", "root"] if os.geteuid() == 0 else []
    commands = [[BIN / "elastripe-node", "--listen", "::1", "--port", str(port + 2 + i), "--memory-mb", "64",
                 "--tls-certificate", file["node.pem"], "--tls-key", file["node.key"],
                 "--tls-ca", file["ca.pem"], *user] for i in range(4)]
    log = open(tmp_path / "log", "w+")
    processes = [subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
                 for command in [*commands, [BIN / "elastripe-proxy", "--config", config]]]
    try:
        admin = f"[::1]:{port + 1}"
        wait_for(lambda: run("elastripe", "--admin", admin, "status", check=False).stdout.count("serving"),
                 lambda: (tmp_path / "log").read_text())
        context = ssl.create_default_context(cafile=file["ca.pem"])
        value = payload(3_000_000, 6)
        with socket.create_connection(("::1", port), timeout=DEADLINE_S) as connection:
            with context.wrap_socket(connection, server_hostname="::1") as tls:
                tls.sendall(b"set key 0 0 %d\r\n%b\r\nget key\r\n" % (len(value), value))
                expected = b"STORED\r\nVALUE key 0 %d\r\n%b\r\nEND\r\n" % (len(value), value)
                got = b""
                while len(got) < len(expected):
                    part = tls.recv(1 << 16)
                    assert part
                    got += part
        assert got == expected
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=DEADLINE_S)
        log.close()


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_handshake_that_does_not_go_on_keeps_no_proxy(tmp_path):
    """What clients have asked for may take a day: nobody has asked for anything there."""
    cluster = Cluster(tmp_path / "c", nodes=4, scheme="rs:2,1", flags=["--tls"],
                      settings=["timing.shutdown_wait_ms=86400000"])
    halves = [socket.create_connection(("localhost", cluster.port), timeout=DEADLINE_S) for _ in range(3)]
    halves[1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert asks(cluster.port, cluster.dir / "tls" / "ca.pem", b"mn\r\n", b"MN\r\n")
    pid = cluster.pid("proxy")
    os.kill(pid, signal.SIGTERM)
    for half in halves:
        try:
            assert half.recv(1) == b""
        except ConnectionResetError:
            pass
        half.close()
    wait_for(lambda: not is_running(pid), "the proxy ends")
    cluster.stop()
