"""elastripe bench small loads all servers there are and writes what it measured."""

import json
import shutil
import xml.etree.ElementTree

import pytest

from cluster import free_ports, run

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PORTS = 90


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The run: what it printed, its JSON, its charts."""
    directory = tmp_path_factory.mktemp("bench")
    done = run("elastripe", "bench", "small", "--quick", "--nodes", 3, "--port", free_ports(PORTS),
               "--output", directory / "out.json", "--svg", directory / "charts", timeout=240)
    return done.stdout, json.loads((directory / "out.json").read_text()), directory / "charts"


def servers_of(results):
    expected = ["memcached", "elastripe, 2 copies", "elastripe, 3 copies"]
    if shutil.which("nutcracker", path=SYSTEM_PATH):
        return [*expected, "twemproxy"]
    assert any("scripts/install-packages --bench" in note for note in results["notes"])
    return expected


def test_every_server_is_measured_in_every_case(quick):
    text, results, _ = quick
    cases = {(row["request"], row["threads"], row["depth"], row["server"])
             for row in results["rates"]}
    assert cases == {(request, threads, depth, server) for request in ("GET", "SET")
                     for threads in (1, 2) for depth in (1, 16) for server in servers_of(results)}
    for row in results["rates"]:
        assert row["per_second"]["rounds"] == 2
        assert 0 < row["p50_us"] <= row["p99_us"]
        if row["server"] == "memcached":
            assert row["over_memcached"] == 1
    assert "| GET | 1 | 16 | elastripe, 2 copies |" in text
    assert "/ memcached | >= 0.60 |" in text


def test_dialects_in_clear_and_over_tls(tmp_path):
    run("elastripe", "bench", "dialects", "--quick", "--port", free_ports(PORTS), "--output",
        tmp_path / "out.json", timeout=240)
    results = json.loads((tmp_path / "out.json").read_text())
    rows = {(row["request"], row["dialect"], row["tls"], row["depth"], row["server"])
            for row in results["rates"] if row["server"] != "twemproxy"}
    servers = {"off": ["memcached", "elastripe", "elastripe, in order"],
               "on": ["memcached", "elastripe", "elastripe, TLS to nodes"]}
    assert rows == {(request, dialect, tls, depth, server) for request in ("GET", "SET")
                    for dialect in ("text", "meta", "binary") for tls in servers for depth in (1, 16)
                    for server in servers[tls]}
    assert all(row["per_second"]["median"] > 0 for row in results["rates"])
    assert [(row["server"], row["tls"]) for row in results["idle"]] == [
        (server, tls) for tls in servers for server in servers[tls]]
    assert all(row["per_second"] > 0 for row in results["idle"])


def test_system_calls_are_counted_where_strace_can(quick):
    _, results, _ = quick
    if "system_calls" not in results:
        assert any(note.startswith("Without system calls") for note in results["notes"])
        return
    for row in results["system_calls"]:
        assert row["operations"] > 0
        assert row["front_calls_per_operation"] > 0
        assert (row["back_calls_per_operation"] > 0) == (row["server"] != "memcached")


def test_every_goal_says_whether_it_is_met(quick):
    _, results, _ = quick
    assert len(results["goals"]) >= 16
    for goal in results["goals"]:
        assert goal["met"] == (goal["measured"] >= goal["at_least"])


def test_the_charts_are_svg_files(quick):
    charts = sorted(path.name for path in quick[2].iterdir())
    assert charts == ["small-get.svg", "small-set.svg"]
    for name in charts:
        root = xml.etree.ElementTree.parse(quick[2] / name).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_parts_can_be_chosen():
    done = run("elastripe", "--json", "bench", "small", "--quick", "--nodes", 2, "--depth", 4,
               "--threads", 1, "--copies", 2, "--size", "100", "--no-system-calls",
               "--port", free_ports(PORTS), timeout=120)
    results = json.loads(done.stdout)
    assert {(row["threads"], row["depth"]) for row in results["rates"]} == {(1, 4)}
    assert results["object_bytes"] == 100 and "system_calls" not in results


@pytest.mark.parametrize("words", [["--depth", "0"], ["--copies", "1"], ["--sizes", "1KiB"],
                                   ["--seconds", "5"]])
def test_wrong_command_lines_are_refused(words):
    assert run("elastripe", "bench", "small", *words, check=False).returncode == 2
