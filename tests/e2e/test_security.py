"""Clients that log in, TLS between all, and what may change while the proxy runs."""

import os
import signal
import socket
import ssl
import subprocess

import pylibmc
import pymemcache
import pytest

from authority import Authority
from cluster import DEADLINE_S, Cluster, Raw, payload, run, wait_for

USER = "alice"
PASSWORD = "secret"


def proxy_settings(authority):
    return [f"tls.certificate={authority.file('proxy.pem')}", f"tls.key={authority.file('proxy.key')}",
            f"tls.ca={authority.file('ca.pem')}"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("tls") / "ca")
    made.issue("proxy")
    made.issue("client")
    return made


def write_users(path, text):
    draft = path.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.rename(path)


@pytest.fixture(scope="module")
def secured(authority, tmp_path_factory):
    """A cluster with a listener of each kind. Its first one, in clear, wants a user."""
    directory = tmp_path_factory.mktemp("secured")
    users = directory / "users"
    write_users(users, f"# of the test\n{USER}:{PASSWORD}\n")
    cluster = Cluster(directory / "cluster", nodes=4, scheme="rs:2,1", listeners=3, settings=[
        f"users_file={users}", "listen.authenticate=true", *proxy_settings(authority),
        "listeners=[{port: %(0)d, tls: on}, {port: %(1)d, tls: mutual},"
        " {port: %(2)d, tls: on, authenticate: true}, {path: " + str(directory / "socket") + "}]"])
    cluster.users = users
    cluster.socket_path = str(directory / "socket")
    yield cluster
    cluster.stop()


def tls_client(cluster, listener, context):
    return pymemcache.Client(("localhost", cluster.listener_port(listener)), tls_context=context,
                             timeout=DEADLINE_S)


def answer(raw, request):
    """The line that comes back."""
    raw.send(request)
    return raw.line()


def test_ascii_authentication(secured):
    raw = Raw(secured.port)
    assert answer(raw, b"get key\r\n") == b"CLIENT_ERROR unauthenticated\r\n"
    assert answer(raw, b"set key 0 0 11\r\nalice wrong\r\n") == b"CLIENT_ERROR authentication failure\r\n"
    assert answer(raw, b"set key 0 0 12\r\nalice secret\r\n") == b"STORED\r\n"
    assert raw.ask(b"get key\r\n") == b"END\r\n"
    large = payload(100_000, "ascii")
    assert raw.ask(b"set large 0 0 100000\r\n" + large + b"\r\n") == b"STORED\r\n"
    statistics = raw.ask(b"stats\r\n")
    assert b"STAT auth_cmds 2\r\n" in statistics and b"STAT auth_errors 1\r\n" in statistics
    raw.close()


def test_sasl_of_libmemcached(secured):
    client = pylibmc.Client([f"127.0.0.1:{secured.port}"], binary=True, username=USER, password=PASSWORD)
    client["key"] = "value"
    assert client["key"] == "value"
    stranger = pylibmc.Client([f"127.0.0.1:{secured.port}"], binary=True, username=USER, password="wrong")
    with pytest.raises(pylibmc.Error):
        stranger.get("key")


def test_tls_of_pymemcache(secured, authority):
    for listener, context in ((0, authority.context()), (1, authority.context("client"))):
        client = tls_client(secured, listener, context)
        for size in (0, 1, 1000, 16_383, 16_384, 16_385, 3_000_000):
            value = payload(size, "tls")
            client.set("value", value)
            assert client.get("value") == value
        client.set_many({f"key{n}": payload(1000, n) for n in range(100)})
        assert len(client.get_many([f"key{n}" for n in range(100)])) == 100
        client.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_tls_wants_what_it_says(secured, authority, tmp_path):
    stranger = Authority(tmp_path / "other", "other")
    stranger.issue("client")
    with pytest.raises(ssl.SSLCertVerificationError):
        tls_client(secured, 0, stranger.context()).get("key")
    foreign = authority.context()
    foreign.load_cert_chain(stranger.file("client.pem"), stranger.file("client.key"))
    for context in (authority.context(), foreign):
        with pytest.raises(OSError):
            tls_client(secured, 1, context).get("key")
    old = authority.context()
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):
        tls_client(secured, 0, old).get("key")
    raw = Raw(secured.listener_port(0))  # in clear
    raw.send(b"get key\r\n")
    with pytest.raises(OSError):
        while raw.socket.recv(100):
            pass
        raise ConnectionError
    raw.close()
    failures = secured.metrics()["elastripe_client_tls_failures_total"]
    assert failures >= 4


def test_tls_cut_anywhere_and_with_a_login(secured, authority):
    """Records of one byte, commands that end in the middle of them, and SASL inside."""
    connection = socket.create_connection(("localhost", secured.listener_port(2)), timeout=DEADLINE_S)
    tls = authority.context().wrap_socket(connection, server_hostname="localhost")
    for byte in b"set a 0 0 12\r\nalice secret\r\nset tls 0 0 3\r\none\r\nget tls\r\n":
        tls.sendall(bytes([byte]))
    expected = b"STORED\r\nSTORED\r\nVALUE tls 0 3\r\none\r\nEND\r\n"
    got = b""
    while len(got) < len(expected):
        got += tls.recv(1000)
    assert got == expected
    # more pipelined than any buffer has
    tls.sendall(b"get tls\r\n" * 20_000)
    got = 0
    while got < 20_000 * 27 - 20_000 * 2:
        part = len(tls.recv(1 << 16))
        assert part
        got += part
    tls.close()


def test_a_unix_socket_is_for_its_owner(secured):
    assert os.stat(secured.socket_path).st_mode & 0o777 == 0o700
    client = pymemcache.Client(secured.socket_path, timeout=DEADLINE_S)
    client.set("unix", b"value")
    assert client.get("unix") == b"value"
    client.close()
    told = run("elastripe", "--server", secured.socket_path, "get", "unix").stdout
    assert told == "value"


def test_sighup_takes_new_users_and_certificates(secured, authority):
    def reload(expected):
        seen = len(secured.log("proxy"))
        os.kill(secured.pid("proxy"), signal.SIGHUP)
        wait_for(lambda: "reload: " in secured.log("proxy")[seen:], "the proxy reloads")
        assert expected in secured.log("proxy")[seen:]

    before = Raw(secured.port)
    assert answer(before, b"set key 0 0 12\r\nalice secret\r\n") == b"STORED\r\n"
    write_users(secured.users, "bob:other\n")
    old = ssl.get_server_certificate(("localhost", secured.listener_port(0)))
    authority.issue("proxy")
    reload("users and certificates are those of the files")
    assert ssl.get_server_certificate(("localhost", secured.listener_port(0))) != old
    after = Raw(secured.port)
    assert answer(after, b"set key 0 0 12\r\nalice secret\r\n") == b"CLIENT_ERROR authentication failure\r\n"
    assert answer(after, b"set key 0 0 9\r\nbob other\r\n") == b"STORED\r\n"
    assert answer(before, b"mn\r\n") == b"MN\r\n"
    # A file that is wrong changes nothing, and it is said why.
    os.chmod(secured.users, 0o644)
    reload("others than its owner may use it")
    again = Raw(secured.port)
    assert answer(again, b"set key 0 0 9\r\nbob other\r\n") == b"STORED\r\n"
    write_users(secured.users, f"{USER}:{PASSWORD}\n")
    reload("users and certificates are those of the files")
    for raw in (before, after, again):
        raw.close()


def test_a_cluster_of_certificates_and_users(tmp_path):
    """`cluster start --tls --auth`: what its files say is what works, with nodes over TLS as well."""
    cluster = Cluster(tmp_path / "c", nodes=4, scheme="rs:2,1", flags=["--tls", "--auth"])
    try:
        user, password = (tmp_path / "c" / "users").read_text().strip().split(":")
        context = ssl.create_default_context(cafile=str(tmp_path / "c" / "tls" / "ca.pem"))
        connection = socket.create_connection(("localhost", cluster.port), timeout=DEADLINE_S)
        tls = context.wrap_socket(connection, server_hostname="localhost")
        login = f"{user} {password}".encode()
        tls.sendall(b"set l 0 0 %d\r\n%b\r\nset key 0 0 5\r\nvalue\r\n" % (len(login), login))
        got = b""
        while len(got) < 16:
            got += tls.recv(100)
        assert got == b"STORED\r\nSTORED\r\n"
        large = payload(5_000_000, "large")
        local = pymemcache.Client(str(tmp_path / "c" / "proxy.sock"), timeout=DEADLINE_S)
        local.set("large", large)
        cluster.kill("n0")  # and its shards are decoded
        assert local.get("large") == large
        cluster.restart("n0")
        cluster.wait_serving()
        assert local.get("large") == large
        # A node speaks with nobody who has no certificate, or one of a client, and not in clear.
        as_client = ssl.create_default_context(cafile=str(tmp_path / "c" / "tls" / "ca.pem"))
        as_client.load_cert_chain(tmp_path / "c" / "tls" / "client.pem", tmp_path / "c" / "tls" / "client.key")
        for speak in (lambda s: context.wrap_socket(s, server_hostname="localhost"), lambda s: s,
                      lambda s: as_client.wrap_socket(s, server_hostname="localhost")):
            with socket.create_connection(("localhost", cluster.port + 1), timeout=DEADLINE_S) as node:
                with pytest.raises(OSError):
                    end = speak(node)
                    end.sendall(b"version\r\n")
                    if not end.recv(100):
                        raise ConnectionError
        certificate = ssl.get_server_certificate(("localhost", cluster.port))
        cluster.cli("tls", "init", "--dir", tmp_path / "c" / "tls")
        os.kill(cluster.pid("n1"), signal.SIGHUP)
        os.kill(cluster.pid("proxy"), signal.SIGHUP)
        wait_for(lambda: "read again" in cluster.log("n1"), "the node reloads")
        wait_for(lambda: ssl.get_server_certificate(("localhost", cluster.port)) != certificate,
                 "the proxy shows its new certificate")
        assert local.get("large") == large
        local.close()
    finally:
        cluster.stop()


@pytest.mark.parametrize("settings, reason", [
    (["listen.authenticate=true"], "listen.authenticate: needs users_file"),
    (["listen.tls=on"], "listen.tls: needs tls.certificate"),
    (["listen.tls=mutual", "tls.certificate=a", "tls.key=b"], "listen.tls: needs tls.ca"),
    (["tls.nodes=true", "tls.certificate=a", "tls.key=b"], "tls.nodes: needs tls.ca"),
    (["listeners=[{tls: on}]"], "port: is missing"),
    (["listeners=[{port: 0, mode: 999}]"], "must be an octal number"),
])
def test_settings_that_can_not_be(tmp_path, settings, reason):
    words = [word for setting in settings for word in ("--set", setting)]
    done = run("elastripe", "cluster", "start", "--dir", tmp_path, "--nodes", 4, "--scheme", "rs:2,1", *words,
               check=False)
    assert done.returncode == 1 and reason in done.stderr, done.stderr


def check_config(directory, text):
    """What the proxy says of a configuration with six nodes, and these settings."""
    config = directory / "config.yaml"
    config.write_text("nodes: [" + ", ".join(
        "{name: n%d, host: 127.0.0.1, port: %d}" % (n, 5000 + n) for n in range(6)) + "]\n" + text)
    return run("elastripe-proxy", "--config", config, "--check-config", check=False)


def files_of(authority, key="proxy.key"):
    return (f"tls: {{certificate: {authority.file('proxy.pem')}, key: {authority.file(key)},"
            f" ca: {authority.file('ca.pem')}}}\n")


def test_checking_a_configuration_reads_its_files(tmp_path, authority):
    users = tmp_path / "users"
    text = f"users_file: {users}\nlisten: {{port: 0, authenticate: true, tls: on}}\n"
    assert "users_file: " in check_config(tmp_path, text + files_of(authority)).stderr
    write_users(users, f"{USER}:{PASSWORD}\n")
    assert check_config(tmp_path, text + files_of(authority)).returncode == 0
    with_phrase = tmp_path / "phrase.key"
    subprocess.run(["openssl", "pkey", "-aes128", "-passout", "pass:secret", "-in",
                    authority.file("proxy.key"), "-out", with_phrase], check=True)
    for key in (authority.file("client.key"), with_phrase, tmp_path / "none"):
        refused = check_config(tmp_path, text + files_of(authority, key))
        assert refused.returncode == 1 and f"tls: key {key}: " in refused.stderr


def test_checking_a_configuration_reads_the_files_of_etcd(tmp_path, authority):
    """A proxy that runs would wait for them, and elect nobody."""
    password = tmp_path / "password"
    right = {"user": "stripes", "password_file": password, "ca": authority.file("ca.pem"),
             "certificate": authority.file("proxy.pem"), "key": authority.file("proxy.key")}

    def check(**others):
        etcd = ", ".join(f"{name}: {value}" for name, value in (right | others).items())
        return check_config(tmp_path, "etcd: {endpoints: https://127.0.0.1:1, %s}\n" % etcd)

    missing = f"etcd.password_file: {password}: No such file or directory"
    assert missing in check().stderr
    password.touch(mode=0o600)
    assert f"etcd.password_file: {password}: has no password" in check().stderr
    password.write_text("secret\n")
    done = check()
    assert (done.returncode, done.stderr) == (0, "")
    none = tmp_path / "none"
    for name in ("ca", "certificate", "key"):
        refused = check(**{name: none})
        assert refused.returncode == 1
        assert f"etcd: {name} {none}: No such file or directory" in refused.stderr
    other = authority.file("client.key")
    assert f"etcd: key {other}: " in check(key=other).stderr
    loose = tmp_path / "loose.key"
    loose.write_bytes((authority.dir / "proxy.key").read_bytes())
    loose.chmod(0o640)
    done = check(key=loose)
    assert done.returncode == 0
    assert f"etcd: key {loose}: others than its owner may use it (mode 640)" in done.stderr + done.stdout
    password.chmod(0o644)
    refused = check()
    assert refused.returncode == 1 and f"etcd.password_file: {password}: has a password" in refused.stderr


def test_nothing_listens_beyond_loopback_without_authentication(tmp_path, authority):
    """The place of a node or a client listener; its own check is of the same words."""
    def check(text):
        return check_config(tmp_path, text)

    users = tmp_path / "users"
    write_users(users, f"{USER}:{PASSWORD}\n")
    files = files_of(authority)
    assert "there is no authentication: have clients log in" in check("listen: {host: 10.1.2.3}\n").stderr
    assert check("listen: {host: 10.1.2.3, authenticate: true}\nusers_file: %s\n" % users).returncode == 0
    assert check(files + "listen: {host: 10.1.2.3, tls: mutual}\n").returncode == 0
    assert check(files + "listen: {host: 10.1.2.3, tls: on}\n").returncode == 1
    assert check("listeners: [{host: '::', port: 1}]\n").returncode == 1
    assert check("admin: {host: 10.1.2.3}\n" + files).returncode == 1
