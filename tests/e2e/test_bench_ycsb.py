"""elastripe bench ycsb runs the core workloads on its own servers and on any others."""

import json
import socketserver
import threading
import xml.etree.ElementTree

import pytest

from cluster import free_ports, run, wait_for

OPERATIONS = {
    "A": {"read", "update"}, "B": {"read", "update"}, "C": {"read"}, "D": {"read", "insert"},
    "F": {"read", "update", "read-modify-write"}}
SMALL = ["--records", "300", "--operations", "1280", "--rounds", "2", "--connections", "8"]


def check_case(case, operations=1280):
    """All operations that were asked for, each under its own name."""
    assert case["operations"] == operations
    latencies = case["latencies"]
    assert set(latencies) == OPERATIONS[case["workload"]]
    for latency in latencies.values():
        assert 0 < latency["p50_us"] <= latency["p95_us"] <= latency["p99_us"]
        assert latency["p99_us"] <= latency["p99_9_us"]
    whole = latencies.get("read-modify-write")
    if whole:
        assert latencies["update"]["operations"] == whole["operations"]
        assert latencies["read"]["operations"] == operations
    else:
        assert sum(latency["operations"] for latency in latencies.values()) == operations


def test_every_workload_on_servers_of_its_own(tmp_path):
    done = run("elastripe", "bench", "ycsb", *SMALL, "--port", free_ports(60),
               "--output", tmp_path / "out.json", "--svg", tmp_path / "charts", timeout=240)
    results = json.loads((tmp_path / "out.json").read_text())
    servers = {case["server"] for case in results["cases"]}
    assert {"memcached", "elastripe, ers:4,1,5", "elastripe, ers:4,2,5"} <= servers
    assert {(case["workload"], case["server"]) for case in results["cases"]} == {
        (workload, server) for workload in OPERATIONS for server in servers}
    for case in results["cases"]:
        check_case(case)
        assert case["front_cpu_us"] > 0
    assert results["record_bytes"] == 1000
    assert "| F | read-modify-write | memcached |" in done.stdout
    assert [path.name for path in (tmp_path / "charts").iterdir()] == ["ycsb.svg"]
    xml.etree.ElementTree.parse(tmp_path / "charts" / "ycsb.svg")


def test_servers_that_run_already(make_cluster):
    one = make_cluster(nodes=3, scheme="rep:2").server
    two = make_cluster(nodes=3, scheme="rep:3").server
    done = run("elastripe", "--json", "bench", "ycsb", *SMALL, "--workload", "a,D",
               "--field-count", "3", "--field-bytes", "50", "--key-prefix", "bench/",
               "--server", one, "--server", two, timeout=120)
    results = json.loads(done.stdout)
    assert [(case["workload"], case["server"]) for case in results["cases"]] == [
        ("A", one), ("A", two), ("D", one), ("D", two)]
    for case in results["cases"]:
        check_case(case)
        assert "front_cpu_us" not in case
    assert results["record_bytes"] == 150


def test_updates_of_fields(tmp_path):
    done = run("elastripe", "bench", "ycsb", *SMALL, "--port", free_ports(60), "--field-updates",
               "--workload", "A,F", "--schemes", "ers:2,2,3", "--output", tmp_path / "out.json",
               timeout=240)
    results = json.loads((tmp_path / "out.json").read_text())
    assert (results["updates"], results["field_bytes"], results["record_bytes"]) == (
        "field", 100, 1000)
    kinds = {case["server"]: case["updates"] for case in results["cases"]}
    assert kinds["elastripe, ers:2,2,3"] == "field" and kinds["memcached"] == "record"
    for case in results["cases"]:
        check_case(case)
    assert "Updates are of one field of 100 bytes" in done.stdout


def test_updates_of_fields_of_large_records_go_to_logs(make_cluster):
    cluster = make_cluster(nodes=6, scheme="ers:2,2,3")
    run("elastripe", "--json", "bench", "ycsb", "--server", cluster.server, "--workload", "F",
        "--records", "20", "--operations", "400", "--rounds", "1", "--connections", "4",
        "--field-bytes", "5000", "--field-updates", timeout=120)
    wait_for(lambda: cluster.metrics()["elastripe_logged_updates_total"] > 0,
             "updates that went to logs")


class FakeServer:
    """Answers every request of a client with what `reply(words, data)` says."""

    def __init__(self, reply):
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while line := self.rfile.readline():
                    words = line.split()
                    size = {b"set": 4, b"ms": 2}.get(words[0])
                    data = self.rfile.read(int(words[size]) + 2) if size else b""
                    self.wfile.write(reply(words, data))

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def refuse(server, *words, workload="C"):
    done = run("elastripe", "bench", "ycsb", *SMALL, "--workload", workload, "--server", server,
               *words, check=False, timeout=60)
    assert done.returncode == 1
    return done.stderr


def test_a_server_that_cannot_store_is_an_error():
    with FakeServer(lambda words, data: b"SERVER_ERROR out of memory\r\n") as server:
        assert "SERVER_ERROR out of memory" in refuse(server)


def test_a_record_that_is_gone_is_an_error():
    with FakeServer(lambda words, data: b"STORED\r\n" if data else b"END\r\n") as server:
        assert "is gone" in refuse(server)


def test_a_record_with_one_wrong_byte_is_an_error():
    stored = {}

    def reply(words, data):
        if data:
            stored[words[1]] = data[:-2]
            return b"STORED\r\n"
        value = bytearray(stored[words[1]])
        value[-1] ^= 1
        return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (words[1], len(value), value)

    with FakeServer(reply) as server:
        assert "wrong bytes" in refuse(server)


def test_a_server_that_can_not_update_fields_is_an_error():
    stored = {}

    def reply(words, data):
        if words[0] == b"ms":
            return b"CLIENT_ERROR invalid flag\r\n"
        if data:
            stored[words[1]] = data
            return b"STORED\r\n"
        value = stored[words[1]]
        return b"VALUE %s 0 %d\r\n%sEND\r\n" % (words[1], len(value) - 2, value)

    with FakeServer(reply) as server:
        assert "invalid flag" in refuse(server, "--field-updates", workload="A")


def test_a_server_that_is_not_there_is_an_error():
    assert "cannot connect" in refuse(f"127.0.0.1:{free_ports(1)}")


@pytest.mark.parametrize("words, status", [
    (["--workload", "E"], 1), (["--schemes", "none"], 1), (["--records", "0"], 2),
    (["--field-count", "1", "--field-bytes", "8"], 1),
    (["--field-bytes", "8", "--field-updates"], 1), (["--sizes", "1KiB"], 2)])
def test_wrong_command_lines_are_refused(words, status):
    assert run("elastripe", "bench", "ycsb", *words, check=False).returncode == status
