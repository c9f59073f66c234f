"""Operators see what lies in update logs, and have it folded."""

import itertools
import re
import threading

import pytest

from cluster import payload, run, wait_for
from updates import Connection, patched

KEYS = ["a/1", "a/2", "b"]
COPIES = 3  # of a log, with two parities
# Nothing is folded but by hand.
BY_HAND = ["segment_bytes=65536", "timing.fold_after_ms=3600000"]


@pytest.fixture(name="logged")
def make_logged(make_cluster):
    """A cluster with updates in logs, and the values that its keys have with them."""
    cluster = make_cluster(nodes=6, scheme="ers:2,2,3", settings=BY_HAND)
    connection = Connection(cluster)
    values = {}
    for key in [*KEYS, "none"]:
        values[key] = payload(200_000, key)
        assert cluster.client().set(key, values[key], noreply=False)
    for key in KEYS:
        # In two segments of three; the last lies over half of the one before.
        updates = [(10, b"x" * 100), (70_000, b"y" * 1000), (70_500, b"z" * 1000)]
        for update in updates:
            assert connection.update(key, *update) == ["HD"]
        values[key] = patched(values[key], updates)
    return cluster, values


def check(cluster, values):
    connection = Connection(cluster)
    for key, value in values.items():
        assert connection.get(key)[0] == value
    assert all(report["clean"] for report in cluster.scrub(*values))


def gauges(cluster, name):
    found = re.findall(rf'^{name}{{node="(n\d)"}} (\d+)$', cluster.admin("/metrics"), re.MULTILINE)
    return {node: int(value) for node, value in found}


def test_what_is_not_folded_is_told_of_nodes_cluster_and_objects(logged):
    cluster, values = logged
    # A copy settles an update with the next one that it gets.
    connection = Connection(cluster)
    for key in KEYS:
        assert connection.update(key, 10, b"w") == ["HD"]
        values[key] = patched(values[key], [(10, b"w")])
    logs = wait_for(lambda: (told := cluster.status()["update_logs"])["logs"] == len(KEYS) * COPIES
                    and told["merged_bytes"] > 0 and told, "what is not folded")
    assert len(KEYS) * 1600 * COPIES <= logs["bytes"] <= len(KEYS) * 2101 * COPIES
    assert logs["bytes"] <= logs["used_bytes"] <= logs["limit_bytes"]
    assert logs["age_ms"] > 0 and logs["refusals"] == 0

    def told_twice():
        """What nodes tell, once the metrics tell the same."""
        nodes = {node["name"]: node["statistics"] for node in cluster.json("node")["nodes"]}
        bytes_of = {name: node["log_bytes"] for name, node in nodes.items()}
        return nodes if gauges(cluster, "elastripe_node_log_bytes") == bytes_of else None

    nodes = wait_for(told_twice, "metrics and nodes to agree")
    assert sum(node["logs"] for node in nodes.values()) == len(KEYS) * COPIES
    assert {name for name, node in nodes.items() if node["log_age_ms"] > 0} == {
        name for name, node in nodes.items() if node["logs"] > 0}
    assert gauges(cluster, "elastripe_node_log_limit_bytes") == {
        name: node["log_limit_bytes"] for name, node in nodes.items()}
    assert set(gauges(cluster, "elastripe_node_log_age_milliseconds")) == set(nodes)
    stats = cluster.node_client(0).stats("elastripe")
    assert int(stats[b"log_bytes"]) == nodes["n0"]["log_bytes"]
    assert re.search(r"^updates +0\.0 MiB in logs, not folded for ", cluster.cli("status").stdout,
                     re.MULTILINE)

    for key in values:
        shown = cluster.object(key)
        assert all(segment["folded_lsn"] == 0 for segment in shown["segments"])
        text = cluster.cli("object", key).stdout
        if key == "none":
            assert (shown["last_lsn"], shown["log"]) == (0, None)
            assert "last update" not in text
            continue
        log = shown["log"]
        assert shown["last_lsn"] == shown["version"] + 4
        assert log["settled_bytes"] + log["unsettled_bytes"] == log["bytes"]
        assert 1600 <= log["bytes"] <= 2101 and log["age_ms"] > 0
        assert re.search(rf"^update log +{log['bytes']} bytes not folded", text, re.MULTILINE)
    check(cluster, values)


def test_logs_are_folded_when_somebody_says_so(logged):
    cluster, values = logged
    plan = cluster.json("recycle", "--dry-run")
    assert plan["planned"]["objects"] == len(KEYS)
    assert plan["counts"]["already_there"] == 1
    assert cluster.object("b")["log"] is not None

    one = cluster.json("recycle", "--key", "b")
    assert (one["state"], one["counts"]["folded"]) == ("done", 1)
    shown = cluster.object("b")
    assert shown["log"] is None
    assert [segment["folded_lsn"] == shown["last_lsn"] for segment in shown["segments"]] == [
        True, True, False, False]
    assert "updates folded up to" in cluster.cli("object", "b").stdout
    assert cluster.json("recycle", "--key", "b")["counts"]["already_there"] == 1
    assert cluster.cli("recycle", "--key", "nothing", check=False).returncode == 3

    assert cluster.json("recycle", "--prefix", "a/1")["counts"]["folded"] == 1
    assert cluster.object("a/2")["log"] is not None
    text = cluster.cli("recycle").stdout
    assert re.search(r"^folded +1 object", text, re.MULTILINE), text
    assert all(cluster.object(key)["log"] is None for key in values)
    wait_for(lambda: cluster.status()["update_logs"]["bytes"] == 0, "the logs to be gone")
    assert "\nupdates" not in cluster.cli("status").stdout
    check(cluster, values)
    assert [job["kind"] for job in cluster.json("job")["jobs"]] == ["recycle"] * 6


def test_what_was_updated_before_a_recycle_is_in_shards_though_updates_go_on(logged):
    cluster, values = logged
    stopping = threading.Event()
    others = Connection(cluster)

    def update_on():
        for number in itertools.takewhile(lambda _: not stopping.is_set(), itertools.count()):
            data = payload(500, number)
            assert others.update("b", 150_000, data) == ["HD"]
            values["b"] = patched(values["b"], [(150_000, data)])

    updates = threading.Thread(target=update_on)
    updates.start()
    try:
        for _ in range(10):
            before = cluster.object("b")["last_lsn"]
            assert cluster.json("recycle", "--key", "b")["counts"]["failed"] == 0
            assert cluster.object("b")["segments"][2]["folded_lsn"] >= before
    finally:
        stopping.set()
        updates.join()
    check(cluster, values)


@pytest.mark.parametrize("words, status", [
    (["--key", "a", "--prefix", "b"], 2), (["--rate", "x"], 2), (["key"], 2)])
def test_wrong_command_lines_are_refused(words, status):
    assert run("elastripe", "recycle", *words, check=False).returncode == status
