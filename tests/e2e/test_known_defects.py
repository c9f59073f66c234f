"""What has broken memcached, by class: each is answered with a refusal or the end of its connection, and harms
nobody else. They are named by their CVE entries."""

import os
import pathlib
import re
import socket
import struct

import pytest

from cluster import DEADLINE_S, payload

LOGIN = b"set k 0 0 11\r\nalice secret\r\n"


def short(value):
    """The name of a case: pytest would take all of it."""
    return repr(value[:40]) if isinstance(value, bytes) else None


@pytest.fixture(scope="module")
def cluster(make_cluster, tmp_path_factory):
    users = tmp_path_factory.mktemp("users") / "users"
    users.touch(mode=0o600)
    users.write_text("alice:secret\n")
    cluster = make_cluster(nodes=4, scheme="rs:2,1", listeners=1, settings=[
        f"users_file={users}", "listeners=[{port: %(0)d, authenticate: true}]"])
    cluster.client().set("canary", payload(100_000, 1))
    cluster.proxy = cluster.pid("proxy")
    return cluster


def answers(port, data):
    """All that comes until the server closes, or has answered what is asked behind it."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as client:
        client.settimeout(DEADLINE_S)
        heard = b""
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(1 << 16):
                heard += part
        except OSError:  # it has closed while this was sent
            pass
        return heard


def check(cluster, data, expected, port=None):
    heard = answers(port or cluster.port, data)
    assert re.fullmatch(expected, heard, re.DOTALL), heard[:300]
    assert cluster.pid("proxy") == cluster.proxy
    assert cluster.client().get("canary") == payload(100_000, 1)


BAD_CHUNK = rb"CLIENT_ERROR bad data chunk\r\n"


@pytest.mark.parametrize("length", [-1, -2, -2147483648, -9223372036854775808, 2147483646, 2147483647, 2147483648, 4294967294,
                                    4294967295, 4294967296, 4294967297, 9223372036854775807, 18446744073709551615,
                                    18446744073709551616, 10 ** 40])
@pytest.mark.parametrize("command", [b"set k 0 0 %d\r\n", b"append k 0 0 %d noreply\r\n", b"cas k 0 0 %d 1\r\n", b"ms k %d\r\n",
                                     b"ms k %d o18446744073709551615\r\n"])
def test_lengths_that_overflow_or_are_negative(cluster, command, length):
    check(cluster, command % length + b"x\r\nget k\r\n", rb"(CLIENT_ERROR [^\r]*\r\n|SERVER_ERROR [^\r]*\r\n|ERROR\r\n|END\r\n)*")


def header(opcode, key=0, extras=0, body=0, magic=0x80):
    return struct.pack(">BBHBBHIIQ", magic, opcode, key, extras, 0, 0, body, 7, 0)


@pytest.mark.parametrize("opcode", range(0x23))
@pytest.mark.parametrize("lengths", [
    dict(key=65535, body=10), dict(key=10, body=9), dict(extras=255, body=3), dict(key=3, extras=8, body=10), dict(body=0xffffffff),
    dict(key=1, extras=8, body=0x80000000), dict(key=251, body=251), dict(extras=1, key=2, body=3), dict(key=1, extras=20, body=0xfffffff0)])
def test_binary_lengths_that_contradict_each_other(cluster, opcode, lengths):
    """CVE-2011-4971, CVE-2016-8704, 8705 and 8706, CVE-2020-10931: bodies without bounds, or shorter than what is in them."""
    data = header(opcode, **lengths) + b"k" * min(lengths["body"], 300)
    heard = answers(cluster.port, data + header(0x0b))
    assert len(heard) < 1000
    assert heard == b"" or heard[0] == 0x81


def test_the_proxy_is_well_after_them(cluster):
    check(cluster, header(0x0b), rb"\x81\x0b.{22}1\.6\.18.*")


@pytest.mark.parametrize("data, expected", [
    (b"\n\n\n", rb"(ERROR\r\n){3}"),
    (b"\r\n\n \n", rb"(ERROR\r\n){3}"),
    (b"get none\nget none\n", rb"(END\r\n){2}"),
    (b"set bare 0 0 1\nx\nget none\n", BAD_CHUNK + rb".*"),
    (b"set bare 0 0 1\nx\r\nget bare\n", rb"STORED\r\nVALUE bare 0 1\r\nx\r\nEND\r\n"),
    (b"mg none v\nmn\n", rb"EN\r\nMN\r\n"),
], ids=short)
def test_bare_line_feeds(cluster, data, expected):
    """CVE-2023-46853: one byte too few where a line has no CR."""
    check(cluster, data, expected)


@pytest.mark.parametrize("data, expected", [
    (b"get" + b" " * 900 + b"\r\n", rb"ERROR\r\n"),
    (b"get " + b" " * 100_000 + b"none\r\nget none\r\n", rb".*"),
    (b"get" + b" none" * 1000 + b" " * 500 + b"\r\n", rb"END\r\n"),
    (b"gets   none      none \r\nget none\r\n", rb"END\r\nEND\r\n"),
    (b"get " + b"k" * 251 + b" none\r\nget none\r\n", rb"CLIENT_ERROR [^\r]*\r\nEND\r\n"),
    (b"get " + b"  ".join(b"%d" % i for i in range(100_000)) + b"\r\n", rb".*"),
], ids=short)
def test_spaces_between_many_keys(cluster, data, expected):
    """CVE-2023-46852: more spaces than a multi-get was thought to have."""
    check(cluster, data, expected)


@pytest.mark.parametrize("data", [
    b"mg\r\n", b"mg \r\n", b"mg " + b"k" * 251 + b" v\r\n", b"mg k" + b" v" * 300 + b"\r\n", b"mg k O\r\n" * 3, b"mg k O" + b"o" * 33 + b"\r\n",
    b"mg " + b"A" * 400 + b" b\r\n", b"mg === b v\r\n", b"mg k Tx\r\n", b"mg k N99999999999999999999\r\n", b"ms k\r\n", b"ms k x\r\n",
    b"ms k S1\r\n", b"ma k N\r\n", b"ma k D-1\r\n", b"ma k MZZ\r\n", b"md k C18446744073709551616\r\n", b"me\r\n", b"mg k v v\r\n"], ids=short)
def test_meta_commands_that_make_no_sense(cluster, data):
    check(cluster, data + b"mn\r\n", rb"(((CLIENT_ERROR [^\r]*|ERROR|EN( O)?|NF)\r\n)*)MN\r\n")


@pytest.mark.parametrize("length", [-1, 0, 2, 3000, 2147483646, 2147483647, 4294967295, 4294967297])
def test_a_login_of_any_length(cluster, length):
    """memcached 1.6.18: `set x 0 0 2147483647` ends a server with an authfile."""
    check(cluster, b"set x 0 0 %d\r\n" % length + b"y" * 5000 + b"\r\n", rb"(CLIENT_ERROR [^\r]*\r\n|ERROR\r\n)*",
          cluster.listener_port(0))


@pytest.mark.parametrize("data", [b"x" * 1_000_000, header(0x01, key=1, extras=8, body=1 << 30) + b"x" * 500_000, header(0x21, key=5, body=1 << 20),
                                  b"get " + b"k " * 100_000 + b"\r\n"], ids=short)
def test_much_before_a_login(cluster, data):
    heard = answers(cluster.listener_port(0), data)
    assert len(heard) < 1000
    check(cluster, LOGIN.replace(b"11", b"12") + b"get none\r\n", rb"STORED\r\nEND\r\n", cluster.listener_port(0))


def test_nothing_listens_on_udp(cluster):
    """CVE-2018-1000115, CVE-2022-48571: replies to whom somebody else names."""
    udp = set()
    for table in ("udp", "udp6"):
        udp |= {line.split()[9] for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]}
    for name in ("proxy", "n0", "n1", "n2", "n3"):
        sockets = set()
        for entry in pathlib.Path(f"/proc/{cluster.pid(name)}/fd").iterdir():
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
            sockets |= {found[1]} if found else set()
        assert sockets
        assert not sockets & udp, name
