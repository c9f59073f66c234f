"""elastripe bench update loads every method that is asked for, and Redis where it is installed."""

import json
import shutil
import xml.etree.ElementTree

import pytest

from cluster import free_ports, run

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
METHODS = ["home", "home:two", "off"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The run: what it printed, its JSON, its charts."""
    directory = tmp_path_factory.mktemp("bench")
    done = run("elastripe", "bench", "update", "--quick", "--schemes", "rs:2,1", "--schemes",
               "rs:2,2", "--nodes", 3, "--memory-mb", 128, "--sizes", "512,16384", "--depth", "1,4",
               "--port", free_ports(20), "--output", directory / "out.json",
               "--svg", directory / "charts", timeout=200)
    return done.stdout, json.loads((directory / "out.json").read_text()), directory / "charts"


def methods_of(results):
    if shutil.which("redis-server", path=SYSTEM_PATH):
        return [*METHODS, "redis", "redis-wait"]
    assert any("scripts/install-packages --bench" in note for note in results["notes"])
    return METHODS


def test_every_method_is_measured_in_every_case(quick):
    text, results, _ = quick
    cases = {(case["update_bytes"], case["depth"], case["method"]) for case in results["cases"]}
    assert cases == {(size, depth, method) for size in (512, 16384) for depth in (1, 4)
                     for method in methods_of(results)}
    for case in results["cases"]:
        assert case["scheme"] == "rs:2,1" and case["pattern"] == "uniform"
        assert 0 < case["per_second"]["median"] <= case["loading_per_second"]["median"]
        assert 0 < case["p50_us"] <= case["p99_us"]
        assert case["updates"] > 0
        if case["method"] == "home":
            assert case["over_base"] == 1
        if not case["method"].startswith("home"):
            assert case["per_second"] == case["loading_per_second"]
    assert any(case["drain_s"]["median"] > 0 for case in results["cases"])
    assert "| rs:2,1 | 512 | uniform | 4 | home:two |" in text
    assert results["base"] == "home"
    assert "Without rs:2,2: it needs 4 nodes." in results["notes"]


def test_what_an_update_costs_the_nodes_is_counted(quick):
    text, results, _ = quick
    table = text[text.index("What an update cost the nodes"):]
    assert "| home:two |" in table and "redis" not in table
    for case in results["cases"]:
        if case["method"].startswith("redis"):
            assert "frames" not in case
            continue
        requests = case["frames_by_request"]
        assert case["sent_bytes"] > case["update_bytes"] and case["received_bytes"] > 0
        assert case["frames"] <= sum(requests.values())
        if case["method"] == "off":
            assert requests["SHARD_PATCH"] > 0 and "LOG_APPEND" not in requests
            # One data shard or more, and the parity.
            assert case["shard_changes"] >= 2
            assert case["shard_changed_kib"] * 1024 >= 2 * case["update_bytes"]
            assert case["folds"] == 0 and "merged_share" not in case
            continue
        # An update that found the log full is sent once more. Those of an object that come at the
        # same time share a round to the copies.
        assert requests["LOG_APPEND"] > 0.9 and requests["LOG_STORE"] > 0.1
        assert case["frames"] > 1
        assert case["folds"] > 0 and case["updates_per_fold"] > 1
        assert 0 < case["merged_share"] < 1
        # How long an update is on its way to the tail, lies in the log, and a fold takes.
        assert 1 < case["us_by_request"]["LOG_APPEND"] < 1e6
        assert case["fold_ms"] > 0 and 0 < case["log_age_ms"] < 20_000
        assert case["waits"] >= 0
        if case["update_bytes"] == 16384:
            # There are 16 places in all, and thousands of updates.
            assert case["merged_share"] > 0.5


def test_the_chart_is_an_svg_file(quick):
    charts = sorted(path.name for path in quick[2].iterdir())
    assert charts == ["update-rs-2-1-uniform.svg"]
    root = xml.etree.ElementTree.parse(quick[2] / charts[0]).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_parts_can_be_chosen():
    done = run("elastripe", "--json", "bench", "update", "--quick", "--schemes", "ers:2,1,3",
               "--nodes", 4, "--memory-mb", 128, "--methods", "off,home", "--base", "home",
               "--sizes", "4KiB", "--pattern", "hot,zipf", "--depth", 2, "--connections", 3,
               "--port", free_ports(10), timeout=120)
    results = json.loads(done.stdout)
    assert [(case["pattern"], case["method"]) for case in results["cases"]] == [
        ("hot", "off"), ("hot", "home"), ("zipf", "off"), ("zipf", "home")]
    for case in results["cases"]:
        assert (case["over_base"] == 1) == (case["method"] == "home")


def test_parts_are_read_beside_updates():
    done = run("elastripe", "--json", "bench", "update", "--quick", "--schemes", "rs:2,2", "--nodes", 4,
               "--memory-mb", 128, "--methods", "home,off,fo,redis-wait", "--sizes", 4096, "--depth", 4,
               "--connections", "1,3", "--update-percent", "100,20", "--port", free_ports(15),
               timeout=120)
    results = json.loads(done.stdout)
    methods = {"home", "off", "fo"} | ({"redis-wait"} if "redis-wait" in done.stdout else set())
    assert {(case["connections"], case["update_percent"], case["method"]) for case in
            results["cases"]} >= {(connections, percent, method) for connections in (1, 3)
                                  for percent in (100, 20) for method in methods - {"redis-wait"}}
    for case in results["cases"]:
        if case["update_percent"] == 100:
            assert "reads" not in case
            continue
        share = case["updates"] / (case["updates"] + case["reads"])
        assert 0.1 < share < 0.3
        assert 0 < case["read_p50_us"] <= case["read_p99_us"]
        if case["method"] == "home":
            assert case["frames_by_request"]["LOG_APPEND"] < 0.4


def test_clusters_with_different_logs_take_turns():
    done = run("elastripe", "bench", "update", "--quick", "--schemes", "rs:2,1", "--nodes", 3,
               "--memory-mb", 128, "--methods", "home,fo", "--sizes", 4096, "--depth", 4,
               "--log-units", "2,20", "--retained-bytes", "0,50%", "--fold-after-ms", 50,
               "--port", free_ports(20), "--output", "/dev/stderr", timeout=120)
    results = json.loads(done.stderr[done.stderr.index("\n{\n") + 1:])
    logs = ["0 retained, 2 units", "0 retained, 20 units", "50% retained, 2 units",
            "50% retained, 20 units"]
    assert [(case["logs"], case["method"]) for case in results["cases"]] == [
        (log, method) for log in logs for method in ("home", "fo")]
    for case in results["cases"]:
        assert (case["over_base"] == 1) == (case["method"] == "home")
        assert case["logs"] != logs[0] or case["over_first"] == 1
    table = done.stdout[done.stdout.index("Times of logs"):]
    assert "| rs:2,1 | 4096 | uniform | 4 | home | 50% retained, 20 units |" in table
    assert "| fo |" not in table


def replay(trace, *words):
    done = run("elastripe", "--json", "bench", "update", "--quick", "--schemes", "rs:2,2",
               "--nodes", 4, "--memory-mb", 128, "--depth", 4, "--connections", 3, "--trace", trace,
               "--port", free_ports(10), *words, timeout=120)
    return json.loads(done.stdout)


def test_writes_of_a_block_trace_are_replayed(tmp_path):
    trace = tmp_path / "disk.csv"
    lines = ["version,time,op,size,lbn"]
    for number in range(50):
        lines.append(f"1,{number},2a,{512 + number * 700},{number * 13}")
        lines.append(f"1,{number},28,512,{number}")
        # Again and again, so that updates of several connections overlap.
        lines.append(f"1,{number},2a,4096,{100_000_000 + number % 3}")
    lines.append("1,50,2a,65536,510")  # the object has 512 sectors
    trace.write_text("\n".join(lines) + "\n")
    results = replay(trace, "--methods", "home,home:two,off,cord", "--retained-bytes", "1MiB")
    told = results["traces"]
    assert len(told) == 1 and told[0]["writes"] == 101 and told[0]["left_out"] == 50
    assert told[0]["cut"] >= 1
    assert told[0]["replayed_bytes"] < told[0]["written_bytes"]
    assert told[0]["replayed_touched_bytes"] <= 256 << 10 < told[0]["touched_bytes"]
    assert "synthetic_write_percent" not in told[0]
    assert any(note.startswith("disk: 101 writes in each turn; 50 requests") for note in
               results["notes"])
    assert [case["method"] for case in results["cases"]] == ["home", "home:two", "off", "cord"]
    for case in results["cases"]:
        assert case["pattern"] == "disk" and case["updates"] == 101
        assert case["update_bytes"] == told[0]["replayed_bytes"] // 101
        assert case["sent_bytes"] > case["update_bytes"]
    assert results["retained_log_bytes"] == ["1MiB"]


def test_what_lies_in_logs_is_folded_at_once(tmp_path):
    # So few writes that no log is half full: until the drain nothing folds them.
    trace = tmp_path / "few.csv"
    trace.write_text("op,size,lbn\n" + "".join(f"2a,4096,{number}\n" for number in range(40)))
    results = replay(trace, "--methods", "home,cord", "--fold-after-ms", 60_000)
    for case in results["cases"]:
        assert 0 < case["drain_s"]["median"] < 30
        assert case["per_second"]["median"] < case["loading_per_second"]["median"]


def test_a_key_trace_is_labelled_as_synthetic(tmp_path):
    trace = tmp_path / "keys.trace"
    trace.write_bytes(b"".join((number * number % 97).to_bytes(4, "big") for number in range(900)))
    results = replay(trace, "--methods", "home,fo", "--synthetic-writes", 30, "--trace-writes", 200)
    told = results["traces"][0]
    assert told["writes"] == 200 and told["synthetic_write_percent"] == 30
    assert 350 < told["left_out"] < 600
    for case in results["cases"]:
        assert case["pattern"] == "keys, synthetic: 30% writes"
        assert case["update_bytes"] == 4096 and case["updates"] == 200


def test_a_trace_that_can_not_be_read_is_refused(tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("op,size,lbn\n2a,512,1\n2a,none,2\n")
    reads = tmp_path / "reads.csv"
    reads.write_text("op,size,lbn\n28,512,1\n")
    keys = tmp_path / "keys.trace"
    keys.write_bytes(b"12345")
    for file, problem in [(bad, f"{bad}: line 3 has no size"), (reads, "it has no writes"),
                          (keys, "it ends within request 2"), (tmp_path / "x.csv", "cannot be read"),
                          (tmp_path / "x.csv.xz", "ends neither in .csv nor in .trace")]:
        done = run("elastripe", "bench", "update", "--quick", "--trace", file, check=False)
        assert done.returncode == 1
        assert problem in done.stderr


@pytest.mark.parametrize("words, problem", [
    (["--pattern", "cold"], "--pattern: cold is none of uniform, zipf, hot"),
    (["--base", "off", "--methods", "home"], "--base: off is none of the methods"),
    (["--retained-bytes", "x%"], "--retained-bytes: x% is no percentage"),
    (["--retained-bytes", "200%"], "--retained-bytes: 200% is no percentage"),
    (["--trace", "no.csv", "--update-percent", "50"], "--update-percent: what a trace reads"),
    (["--sizes", "8"], "--sizes: 8 is not between 16 and"),
    (["--retained-bytes", "lots", "--methods", "home", "--schemes", "rs:2,1", "--nodes", 3],
     "limits.retained_log_bytes"),
    (["--methods", "nowhere", "--schemes", "rs:2,1", "--nodes", 3], "nowhere"),
])
def test_what_makes_no_sense_is_refused(words, problem):
    done = run("elastripe", "bench", "update", "--quick", *words, "--port", free_ports(10),
               check=False)
    assert done.returncode == 1
    assert problem in done.stderr
