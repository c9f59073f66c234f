"""Memcached's own commands on a node's port: reads and statistics work, writes are refused."""

import struct

import node_frames as nf
import pytest

REFUSAL = b"SERVER_ERROR elastripe node: clients read and write through the proxy\r\n"

WITHOUT_VALUE = [
    b"delete k", b"incr k 1", b"decr k 1", b"touch k 0", b"gat 0 k", b"gats 0 k", b"flush_all",
    b"flush_all 0 noreply", b"mg k T1", b"md k", b"ma k", b"me k", b"slabs reassign 1 2",
    b"slabs automove 1", b"cache_memlimit 64", b"shutdown", b"lru tune 10 25 0.1 2.0",
    b"lru_crawler enable", b"lru_crawler metadump all", b"watch", b"nonsense",
    b"verbosity 2", b"verbosity 1 noreply",
]
WITH_VALUE = [
    b"set k 0 0 5", b"set k 0 0 5 noreply", b"add k 0 0 5", b"replace k 0 0 5", b"append k 0 0 5",
    b"prepend k 0 0 5", b"cas k 0 0 5 1", b"ms k 5", b"ms k 5 T0",
]


def ask(s, request, end):
    s.sendall(request)
    answer = b""
    while not answer.endswith(end):
        data = s.recv(65536)
        assert data, answer
        answer += data
    return answer


def test_reads_version_and_statistics_work(shared_node):
    with shared_node.text_connection() as s:
        assert ask(s, b"version\r\n", b"\r\n") == b"VERSION 1.6.18\r\n"
        assert ask(s, b"get nothing\r\n", b"END\r\n") == b"END\r\n"
        assert b"STAT pid " in ask(s, b"stats\r\n", b"END\r\n")
        settings = ask(s, b"stats settings\r\n", b"END\r\n")
        assert b"maxbytes" in settings
        assert b"hash_algorithm xxh3 with a secret\r\n" in settings  # or keys could be made to collide
        assert ask(s, b"mn\r\n", b"\r\n") == b"MN\r\n"
    statistics = shared_node.statistics()
    assert "moved_pages" in statistics and len(statistics) > 5
    assert int(statistics["cpu_us"]) > 0


@pytest.mark.parametrize("command", WITHOUT_VALUE)
def test_a_stock_command_is_refused(shared_node, command):
    with shared_node.text_connection() as s:
        assert ask(s, command + b"\r\nversion\r\n", b"18\r\n") == REFUSAL + b"VERSION 1.6.18\r\n"


@pytest.mark.parametrize("command", WITH_VALUE)
def test_a_stock_store_is_refused_and_its_value_skipped(shared_node, command):
    with shared_node.text_connection() as s:
        answer = ask(s, command + b"\r\nhello\r\nget k\r\n", b"END\r\n")
        assert answer == REFUSAL + b"END\r\n"
        value = b"shutdown\r\n" * 30_000
        line = command.replace(b" 5", b" %d" % len(value))
        assert ask(s, line + b"\r\n" + value + b"\r\nversion\r\n", b"18\r\n").startswith(REFUSAL)


@pytest.mark.parametrize("length", [b"-1", b"2147483647", b"4294967295", b"x"])
def test_a_store_of_an_impossible_length_closes_the_connection(shared_node, length):
    with shared_node.text_connection() as s:
        s.sendall(b"set k 0 0 " + length + b"\r\n")
        answer = b""
        while data := s.recv(65536):
            answer += data
        assert answer == REFUSAL


def binary_request(opcode, key=b"", extras=b"", value=b""):
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), len(extras), 0, 0,
                       len(key) + len(extras) + len(value), 0, 0) + extras + key + value


def test_binary_writes_are_refused_and_their_values_skipped(shared_node):
    store = struct.pack(">II", 0, 0)
    arithmetic = struct.pack(">QQI", 1, 1, 0)
    refused = [(op, b"k", store, b"hello") for op in (1, 2, 3, 0x11, 0x12, 0x13)]
    refused += [(op, b"k", b"", b"hello") for op in (0x0E, 0x0F, 0x19, 0x1A)]
    refused += [(op, b"k", arithmetic, b"") for op in (5, 6, 0x15, 0x16)]
    refused += [(op, b"k", b"", b"") for op in (4, 0x14)]
    refused += [(op, b"k", struct.pack(">I", 0), b"") for op in (0x1C, 0x1D, 0x1E, 0x23, 0x24)]
    refused += [(8, b"", b"", b""), (0x18, b"", b"", b"")]
    for request in refused:
        with shared_node.text_connection() as s:
            s.sendall(binary_request(*request) + binary_request(0x0B))
            stream = s.makefile("rb")
            status, bodies = [], []
            for _ in range(2):
                header = struct.unpack(">BBHBBHIIQ", stream.read(24))
                status.append(header[5])
                bodies.append(stream.read(header[6]))
            assert status == [0x81, 0], request
            assert bodies[0] + b"\r\n" == REFUSAL and bodies[1] == b"1.6.18", request


def test_what_the_engine_stored_survives_all_stock_commands(shared_node):
    with shared_node.connect() as c:
        c.join_cluster()
        c.store_record(b"k", b"value", 10)
        record = c.read_record(b"k").payload
        for prefix in (b"", b"\x01"):
            for command in WITHOUT_VALUE:
                with shared_node.text_connection() as s:
                    ask(s, command.replace(b" k", b" " + prefix + b"k") + b"\r\nversion\r\n", b"18\r\n")
            for command in WITH_VALUE:
                with shared_node.text_connection() as s:
                    line = command.replace(b" k", b" " + prefix + b"k")
                    ask(s, line + b"\r\nhello\r\nversion\r\n", b"18\r\n")
        assert c.read_record(b"k").payload == record
