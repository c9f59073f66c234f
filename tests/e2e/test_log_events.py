"""The log of a proxy tells what happens to the cluster in lines that programs can read."""

import os
import shlex
import signal

from cluster import store_objects, wait_for


def events(cluster, subject):
    """The fields of all lines about it, oldest first."""
    lines = (line.partition(f" {subject}: ")[2] for line in cluster.log("proxy").splitlines())
    return [dict(field.split("=", 1) for field in shlex.split(line)) for line in lines if line]


def changes(cluster, node):
    return [(event["from"], event["to"], event["reason"]) for event in events(cluster, "membership")
            if event.get("node") == node and "to" in event]


def jobs(cluster, trigger):
    return [event for event in events(cluster, "repair") if event["trigger"] == trigger]


def test_membership_and_repair_are_told(make_cluster):
    cluster = make_cluster(nodes=6, scheme="ers:4,1,5", settings=["repair.after_ms=1000000"])
    values = store_objects(cluster, 10, 300_000)
    cluster.kill("n0")
    wait_for(lambda: cluster.node_states()["n0"] == "lost", "n0 is lost")
    cluster.restart("n0")
    cluster.cli("node", "wait", "n0", "--timeout", 100)
    assert changes(cluster, "n0") == [
        ("unknown", "up", "it answers"),
        ("up", "lost", "its address refuses connections"),
        ("lost", "up", "it answers, as a process that is empty")]
    assert len(changes(cluster, "n1")) == 1
    epoch = str(cluster.status()["epoch"]["number"])
    shown = [event for event in events(cluster, "membership") if event.get("epoch") == epoch]
    assert {"event": "serves", "epoch": epoch} in shown
    assert {"event": "map", "epoch": epoch, "nodes": "6", "up": "6", "suspect": "0", "away": "0",
            "lost": "0", "draining": "0"} in shown

    automatic = jobs(cluster, "automatic")
    assert [event["event"] for event in automatic] == ["started", "ended"] * (len(automatic) // 2)
    ended = [event for event in automatic if event["event"] == "ended"]
    assert sum(int(event["shards"]) for event in ended) == len(values)
    assert all(float(event["seconds"]) >= 0 and int(event["epoch"]) > 0 for event in ended)

    cluster.cli("repair", "--watch")
    started, ended = jobs(cluster, "operator")
    assert started == {"event": "started", "trigger": "operator", "id": "1", "epoch": epoch}
    assert (ended["event"], ended["id"], ended["state"], ended["shards"]) == ("ended", "1", "done", "0")


def test_what_an_operator_vouches_for_is_told(make_cluster):
    cluster = make_cluster(nodes=5, scheme="rep:2")
    node = cluster.pid("n1")
    os.kill(node, signal.SIGSTOP)
    try:
        wait_for(lambda: cluster.node_states()["n1"] in ("suspect", "away"), "n1 is silent")
        cluster.cli("node", "declare-dead", "n1", "--yes")
        wait_for(lambda: cluster.node_states()["n1"] == "lost", "n1 is given up")
    finally:
        os.kill(node, signal.SIGKILL)
    assert {"event": "declared_dead", "node": "n1"} in events(cluster, "membership")
    told = changes(cluster, "n1")
    assert told[1] == ("up", "suspect", "it does not answer")
    assert told[-1][1:] == ("lost", "the operator declares it dead")
