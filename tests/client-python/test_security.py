"""TLS, and memcached's ASCII authentication: against a server that does as memcached does."""

import ssl
import subprocess

import pytest

import elastripe
from elastripe import ConnectionFailed, ServerError, TimedOut
from fake_proxy import SILENCE

VALUE = b"VALUE key 0 5 7\r\nhello\r\nEND\r\n"
ASKS = b"CLIENT_ERROR unauthenticated\r\n"
ASKED = (b"version",)
TOLD = (b"set elastripe 0 0 12", b"ann passw0rd")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificate")
    words = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=proxy"
    subprocess.run(["openssl", "req", *words.split(), "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", directory / "key", "-out", directory / "cert"],
                   check=True, capture_output=True)
    return directory


@pytest.fixture
def server_tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert", certificate / "key")
    return context


def test_a_server_that_does_not_ask_who_is_there_is_told_nothing(proxy):
    server = proxy(b"VERSION 1.6.18\r\n", VALUE)
    client = elastripe.Client(server.address, user="ann", password="passw0rd")
    assert client.get("key") == b"hello"
    assert server.requests == [ASKED, (b"gets key",)]


def test_the_begin_of_each_connection_tells_user_and_password(proxy):
    server = proxy(ASKS, b"STORED\r\n", VALUE, VALUE, ASKS, b"STORED\r\n", VALUE)
    client = elastripe.Client(server.address, user="ann", password="passw0rd")
    for _ in range(2):
        assert client.get("key") == b"hello"
    client.close()
    client.get("key")
    assert server.requests == [ASKED, TOLD, (b"gets key",), (b"gets key",),
                               ASKED, TOLD, (b"gets key",)]


def test_nothing_is_sent_behind_a_wrong_password(proxy):
    server = proxy(ASKS, b"CLIENT_ERROR authentication failure\r\n")
    client = elastripe.Client(server.address, user="ann", password="passw0rd")
    with pytest.raises(ServerError, match="authentication failure") as caught:
        client.put("key", b"x")
    assert not caught.value.may_have_taken_effect
    assert server.requests == [ASKED, TOLD]


def test_a_server_that_asks_for_a_password_is_understood(proxy):
    server = proxy(b"CLIENT_ERROR unauthenticated\r\n")
    with pytest.raises(ServerError, match="unauthenticated"):
        elastripe.Client(server.address).get("key")


def test_a_proxy_that_does_not_authenticate_in_time_is_left_for_the_next(proxy):
    silent, other = proxy(SILENCE), proxy(ASKS, b"STORED\r\n", b"STORED\r\n")
    client = elastripe.Client([silent.address, other.address], user="ann", connect_timeout=0.5)
    client.put("key", b"x")
    assert other.requests[2] == (b"set key 0 0 1", b"x")
    silent = proxy(SILENCE)
    with pytest.raises(TimedOut) as caught:
        elastripe.Client(silent.address, user="ann", connect_timeout=0.5).put("key", b"x")
    assert not caught.value.may_have_taken_effect


def test_everything_goes_through_tls(proxy, certificate, server_tls):
    large = bytes(range(256)) * 4096
    part = b"VA 1048576 c8 s1048576\r\n" + large + b"\r\n"
    server = proxy(ASKS, b"STORED\r\n", VALUE, b"HD c8 s5\r\n", part, VALUE, tls=server_tls)
    client = elastripe.Client(server.address, user="ann", password="passw0rd",
                              tls=ssl.create_default_context(cafile=certificate / "cert"))
    assert client.get("key") == b"hello"
    assert client.update("key", 1, large) == 8
    assert client.get_range("key", 0, 1 << 20).data == large
    assert client.get("key") == b"hello"
    assert server.connections == 1
    assert server.requests[3] == (b"ms key 1048576 c s o1", large)


def test_nothing_is_sent_to_a_server_that_is_not_trusted(proxy, server_tls):
    server = proxy(tls=server_tls)
    client = elastripe.Client(server.address, user="ann", tls=ssl.create_default_context())
    with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED") as caught:
        client.put("key", b"x")
    assert not caught.value.may_have_taken_effect
    assert server.requests == []


def test_a_server_that_speaks_no_tls_is_a_failed_connection(proxy):
    server = proxy(b"ERROR\r\n")
    client = elastripe.Client(server.address, tls=ssl.create_default_context(), connect_timeout=2)
    with pytest.raises((ConnectionFailed, TimedOut)) as caught:
        client.put("key", b"x")
    assert not caught.value.may_have_taken_effect
