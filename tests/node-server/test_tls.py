"""A node that speaks only TLS: what one connection does concerns no other, and files are read again."""

import contextlib
import os
import signal
import ssl
import subprocess
import time

import node_frames as nf
import pytest
from authority import Authority

VERSION = b"VERSION 1.6.18"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("tls") / "ca")
    made.issue("node")
    made.issue("proxy")
    return made


@pytest.fixture
def node(binary, authority):
    """One thread serves all clients, so that they share what OpenSSL keeps for each thread."""
    files = ["--tls-certificate", authority.file("node.pem"), "--tls-key", authority.file("node.key"),
             "--tls-ca", authority.file("ca.pem")]
    with nf.NodeProcess(binary, threads=1, options=files) as node:
        yield node
        assert node.terminate() == 0, node.log()


class Connection:
    """Over TLS; sends its records in halves."""

    def __init__(self, node, context, host="localhost"):
        self.raw = node.text_connection()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)
        self.until_done(self.tls.do_handshake)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.raw.close()

    def until_done(self, call):
        while True:
            try:
                return call()
            except ssl.SSLWantReadError:
                self.flush()
                self.receive()
            finally:
                self.flush()

    def flush(self):
        self.raw.sendall(self.outgoing.read())

    def receive(self):
        more = self.raw.recv(1 << 16)
        if not more:
            raise ConnectionError("the node closed the connection")
        self.incoming.write(more)

    def recv(self, count):
        return self.until_done(lambda: self.tls.read(count))

    def sendall(self, data):
        self.tls.write(data)
        self.flush()

    def send_in_halves(self, data, between):
        self.tls.write(data)
        record = self.outgoing.read()
        self.raw.sendall(record[:len(record) // 2])
        between()
        self.raw.sendall(record[len(record) // 2:])


def connect(node, authority):
    return Connection(node, authority.context("proxy"))


def is_served(connection, between=lambda: None):
    connection.send_in_halves(b"version\r\n", between)
    return connection.recv(100).startswith(VERSION)


def reads_end(connection):
    with contextlib.suppress(OSError):
        while connection.recv(4096):
            pass
    return True


def half_a_hello(node, authority):
    """Ends before its handshake is over."""
    with node.text_connection() as raw:
        raw.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")


def no_tls(node, authority):
    with node.text_connection() as raw:
        raw.sendall(b"version\r\n")
        assert reads_end(raw)


def nobody(node, authority):
    """Has no certificate."""
    context = ssl.create_default_context(cafile=authority.file("ca.pem"))
    with contextlib.suppress(OSError), Connection(node, context) as connection:
        assert reads_end(connection)


def broken_record(node, authority):
    with connect(node, authority) as connection:
        assert is_served(connection)
        connection.raw.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        assert reads_end(connection.raw)


def sudden_end(node, authority):
    """Closes without the notice that TLS wants."""
    with connect(node, authority) as connection:
        assert is_served(connection)


@pytest.mark.parametrize("breaks", [half_a_hello, no_tls, nobody, broken_record, sudden_end])
def test_a_connection_that_breaks_breaks_no_other(node, authority, breaks):
    with connect(node, authority) as healthy, connect(node, authority) as other:
        def between():  # the thread has read the first half, and looks for more in vain
            breaks(node, authority)
            assert is_served(other) and is_served(other)

        assert is_served(healthy)
        for _ in range(3):
            assert is_served(healthy, between)
            breaks(node, authority)
            assert is_served(healthy, lambda: is_served(other) and is_served(other))


def test_all_that_came_in_one_record_is_answered(node, authority):
    with connect(node, authority) as connection:
        connection.sendall(b"mn\r\n" * 4000)
        got = b""
        while len(got) < 4 * 4000:
            more = connection.recv(1 << 16)
            assert more, got
            got += more
        assert got == b"MN\r\n" * 4000


def test_files_that_do_not_fit_together_change_nothing(node, authority, tmp_path):
    def shown():
        with connect(node, authority) as connection:
            return connection.tls.getpeercert(binary_form=True)

    def reload(told):
        before = node.log().count(told)
        node.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while node.log().count(told) == before:
            assert time.monotonic() < end, node.log()
            time.sleep(0.01)

    before = shown()
    with connect(node, authority) as old:
        key = authority.dir / "node.key"
        good = key.read_text()
        key.write_text((authority.dir / "proxy.key").read_text())
        reload("the certificates stay as they were: key values mismatch")
        assert shown() == before
        key.unlink()
        reload("the certificates stay as they were: No such file or directory")
        # A pass phrase is not asked for: the thread that would ask takes connections.
        subprocess.run(["openssl", "pkey", "-aes128", "-passout", "pass:secret", "-out", key],
                       input=good, text=True, check=True)
        reload("the certificates stay as they were: ")
        assert shown() == before
        key.write_text(good)
        # By another CA than the one it believes: no proxy would believe it.
        other = Authority(tmp_path / "other", name="other")
        other.issue("node")
        files = [authority.dir / name for name in ("node.pem", "node.key")]
        ours = [file.read_text() for file in files]
        for file in files:
            file.write_text((other.dir / file.name).read_text())
        reload("the certificates stay as they were: unable to get local issuer certificate")
        assert shown() == before
        ended = subprocess.run(node.process.args, capture_output=True, text=True, check=False)
        assert ended.returncode == os.EX_USAGE
        assert f"{files[0]}: unable to get local issuer certificate" in ended.stderr
        for file, text in zip(files, ours):
            file.write_text(text)
        authority.issue("node")
        reload("the certificates have been read again")
        assert shown() != before
        assert is_served(old)
