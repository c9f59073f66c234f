"""elastripe bench, alone and large, degraded, crossover, scaling, reclaim, repair and sync, measures all cases there are."""

import json
import shutil
import xml.etree.ElementTree

import pytest

from cluster import free_ports, run

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SCHEMES = ["ers:4,1,5", "ers:4,2,5"]


def bench(name, directory, *words, ports=60):
    """A quick run: what it printed, its JSON, its charts."""
    done = run("elastripe", "bench", name, "--quick", "--port", free_ports(ports),
               "--output", directory / "out.json", "--svg", directory / "charts", *words,
               timeout=240)
    for chart in (directory / "charts").iterdir():
        root = xml.etree.ElementTree.parse(chart).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
    charts = sorted(path.stem for path in (directory / "charts").iterdir())
    return done.stdout, json.loads((directory / "out.json").read_text()), charts


def check_turns(turns):
    assert turns["requests"] >= 2
    assert 0 < turns["p25_us"] <= turns["p50_us"] <= turns["p75_us"] <= turns["p99_us"]


def test_the_overview_of_sizes_schemes_and_memory(tmp_path):
    done = run("elastripe", "bench", "--seconds", 1, "--nodes", 7, "--schemes", "rep:2",
               "--schemes", "ers:4,2,5", "--sizes", "4KiB", "--sizes", "100KiB",
               "--port", free_ports(60), "--output", tmp_path / "out.json", timeout=120)
    results = json.loads((tmp_path / "out.json").read_text())
    assert [(case["object_bytes"], case["scheme"], case["path"]) for case in results["latency"]] == [
        (4 << 10, "memcached", "direct"), (4 << 10, "rep:2", "inline"),
        (4 << 10, "rep:2", "striped"), (4 << 10, "ers:4,2,5", "inline"),
        (4 << 10, "ers:4,2,5", "striped"), (100 << 10, "memcached", "direct"),
        (100 << 10, "rep:2", "striped"), (100 << 10, "ers:4,2,5", "striped")]
    for case in results["latency"]:
        check_turns(case["put"])
        check_turns(case["get"])
    striped = {row["scheme"]: row for row in results["memory"] if row["path"] == "striped"}
    assert striped["ers:4,2,5"]["ideal"] == 1.5
    for row in striped.values():
        assert row["ideal"] <= row["bytes_per_byte"] <= 1.1 * row["ideal"]
    assert "| 4 KiB | ers:4,2,5 | striped |" in done.stdout


def test_large_objects_of_every_server_and_scheme(tmp_path):
    text, results, charts = bench("large", tmp_path, "--sizes", "64KiB", "--sizes", "1MiB",
                                  "--sizes", "5MiB")
    servers = ["memcached", "rep:2", "rep:3", *SCHEMES]
    if shutil.which("redis-server", path=SYSTEM_PATH):
        servers.append("redis, WAIT 1")
    else:
        assert any("redis-server" in note for note in results["notes"])
    assert {(case["object_bytes"], case["server"]) for case in results["cases"]} == {
        (size, server) for size in (64 << 10, 1 << 20, 5 << 20) for server in servers}
    for case in results["cases"]:
        check_turns(case["put"])
        check_turns(case["get"])
    assert charts == ["large-get", "large-put"]
    if "system_calls" in results:  # strace can
        assert {(row["request"], row["server"]) for row in results["system_calls"]} == {
            (request, server) for request in ("PUT", "GET") for server in servers}
        assert all(row["front_calls_per_operation"] > 0 for row in results["system_calls"])
    else:
        assert any(note.startswith("Without system calls") for note in results["notes"])
    assert "1 MiB PUT, p50: ers:4,1,5 / rep:2" in [goal["ratio"] for goal in results["goals"]]
    assert "5 MiB, one request at a time" in text


def test_degraded_gets_of_objects_that_miss_data_shards(tmp_path):
    text, results, charts = bench("degraded", tmp_path, "--size", "128KiB", "--objects", "40")
    cases = results["cases"]
    assert [(case["scheme"], case["missing_data_shards"]) for case in cases] == [
        (SCHEMES[0], 0), (SCHEMES[0], 1), (SCHEMES[1], 0), (SCHEMES[1], 1), (SCHEMES[1], 2)]
    for case in cases:
        check_turns(case["get"])
        assert case["objects"] > 0
        if case["missing_data_shards"] == 0:
            assert case["over_normal"] == 1
    assert len(results["goals"]) == 3 and "data shards missing" in text
    assert charts == ["degraded-get"]


def test_crossover_of_inline_and_striped(tmp_path):
    text, results, charts = bench("crossover", tmp_path)
    assert {(case["scheme"], case["object_bytes"], case["request"], case["connections"])
            for case in results["cases"]} == {
        (scheme, size, request, connections) for scheme in SCHEMES
        for size in (1 << 10, 64 << 10) for request in ("GET", "SET") for connections in (1, 32)}
    for case in results["cases"]:
        for path in ("inline", "striped"):
            assert case[path]["per_second"]["median"] > 0
    assert len(results["crossovers"]) == 8
    for row in results["crossovers"]:
        below = [case["striped_over_inline"] for case in results["cases"]
                 if all(case[name] == row[name] for name in ("scheme", "request", "connections"))]
        expected = "none" if below[1] > 2 else "64 KiB" if below[0] > 2 else "1 KiB"
        assert row["from_2.00"] == expected
    assert charts == ["crossover-ers-4-1-5", "crossover-ers-4-2-5"]
    assert "The least size from which on striping" in text


def test_scaling_with_connections_and_nodes(tmp_path):
    _, results, charts = bench("scaling", tmp_path)
    cases = {(case["what"], case["connections"], case["nodes"], case["proxies"])
             for case in results["cases"]}
    assert cases == {("connections", 1, 0, 1), ("connections", 100, 0, 1), ("connections", 1, 7, 1),
                     ("connections", 100, 7, 1), ("nodes", 32, 7, 1), ("nodes", 32, 8, 1),
                     ("proxies", 32, 7, 1), ("proxies", 32, 7, 2),
                     ("fleet", 32, 7, 1), ("fleet", 64, 7, 2)}
    assert {case["object_bytes"] for case in results["cases"]} == {1 << 10, 64 << 10}
    for case in results["cases"]:
        assert case["per_second"]["median"] > 0
    assert charts == ["scaling-connections-1kib", "scaling-connections-64kib",
                      "scaling-fleet-1kib", "scaling-fleet-64kib",
                      "scaling-nodes-1kib", "scaling-nodes-64kib",
                      "scaling-proxies-1kib", "scaling-proxies-64kib"]


def test_reclaim_beside_writes(tmp_path):
    done = run("elastripe", "bench", "reclaim", "--quick", "--port", free_ports(60),
               "--output", tmp_path / "out.json", timeout=120)
    results = json.loads((tmp_path / "out.json").read_text())
    assert [case["object_bytes"] for case in results["cases"]] == [1 << 10, 64 << 10]
    for case in results["cases"]:
        assert case["written"] > 0 and len(case["slices"]) >= 2
        assert all(row["items"] > 0 and row["used_bytes"] > 0 for row in case["slices"])
    assert "collected a second" in done.stdout


def test_repair_beside_its_steps_and_clients(tmp_path):
    done = run("elastripe", "bench", "repair", "--quick", "--port", free_ports(60),
               "--output", tmp_path / "out.json", timeout=180)
    results = json.loads((tmp_path / "out.json").read_text())
    row = results["speed"]["row"]
    assert all(row[step] > 0 for step in ("reading", "decoding", "writing"))
    assert row["repair"]["median"] > 0 and row["wire"]["median"] > 1
    assert [case["repair"] for case in results["clients"]] == ["none", "50 MiB/s", "no limit"]
    assert all(case["p99_us"]["median"] > 0 for case in results["clients"])
    assert 0 < results["crash"]["first_read_seconds"] < results["crash"]["back_to_full_seconds"] + 60
    assert "of the slowest" in done.stdout


def test_reclaim_of_all_sizes_at_once(tmp_path):
    done = run("elastripe", "bench", "reclaim", "--quick", "--together", "--port", free_ports(60),
               "--output", tmp_path / "out.json", timeout=120)
    slices = json.loads((tmp_path / "out.json").read_text())["together"]
    assert len(slices) >= 2
    for row in slices:
        assert set(row["per_second"]) == {"1 KiB", "64 KiB"}
        assert row["rate_of_1024"] > 0 and row["rate_of_65536"] > 0
        assert row["shards"] > 0 and row["records"] > 0 and row["used_bytes"] > 0
    assert "1 KiB: requests a second | 64 KiB: requests a second | shards" in done.stdout


def test_sync_after_a_return_and_a_death(tmp_path):
    done = run("elastripe", "bench", "sync", "--quick", "--port", free_ports(60),
               "--output", tmp_path / "out.json", timeout=120)
    results = json.loads((tmp_path / "out.json").read_text())
    assert [case["name"] for case in results["cases"]] == ["a node returns, 1 % missed", "a node dies"]
    for case in results["cases"]:
        assert case["records"] > 1000 and case["seconds"] > 0 and case["bytes_per_record"] > 0
    assert "bytes/record" in done.stdout


@pytest.mark.parametrize("words", [
    ["large", "--seconds", "0"], ["degraded", "--nodes", "8"], ["crossover", "--rounds", "0"],
    ["scaling", "--connections", "0"], ["large", "--repetitions", "3"]])
def test_wrong_command_lines_are_refused(words):
    assert run("elastripe", "bench", *words, check=False).returncode == 2


@pytest.mark.parametrize("words, reason", [
    (["large", "--sizes", "1TiB"], "1TiB"), (["degraded", "--size", "0"], "not a size"),
    (["crossover", "--sizes", "2MiB"], "no object above 1 MiB is stored whole"),
    (["crossover", "--schemes", "ers:1"], "ers:1"), (["scaling", "--sizes", "x"], "not a size")])
def test_values_that_cannot_be_are_refused_with_the_reason(words, reason):
    done = run("elastripe", "bench", *words, check=False)
    assert done.returncode == 1 and reason in done.stderr


def test_a_client_beside_hostile_ones(tmp_path):
    kinds = ["silent", "large values not read", "half uploads"]
    done = run("elastripe", "bench", "hostile", "--quick", "--clients", 20,
               *(word for kind in kinds for word in ("--kind", kind)),
               "--port", free_ports(60), "--output", tmp_path / "out.json", timeout=240)
    results = json.loads((tmp_path / "out.json").read_text())
    assert [case["clients"] for case in results["cases"]] == kinds
    for case in results["cases"]:
        assert case["peak_mib"] > 0
        for what in ("GET", "SET"):
            assert case[what]["requests"] > 0
            assert 0 < case[what]["alone_p99_us"] and 0 < case[what]["beside_p99_us"]
    assert len(results["goals"]) == 2 * len(kinds)
    assert "| half uploads |" in done.stdout
