"""Proxies that start among survivors: nothing that was kept is given up."""

import os
import signal

from cluster import another_proxy, check_objects, store_objects, wait_for


def kill_one_by_one(cluster, names):
    for left, name in enumerate(names):
        cluster.kill(name)
        wait_for(lambda: cluster.node_states()[name] == "lost", f"{name} is lost")
        cluster.wait_serving(up=cluster.nodes - 1 - left)


def test_a_restarted_proxy_keeps_what_is_left_after_synced_deaths(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2")
    values = store_objects(cluster, 100, 300)
    kill_one_by_one(cluster, ["n2", "n1"])
    check_objects(cluster, values)
    cluster.kill("proxy")
    cluster.restart("proxy")
    cluster.wait_serving(up=1)
    assert cluster.status()["partitions"]["lost"] == 0
    check_objects(cluster, values)


def test_three_synced_deaths_of_five_nodes_with_three_copies(make_cluster):
    cluster = make_cluster(nodes=5, scheme="rep:3")
    values = store_objects(cluster, 100, 300)
    kill_one_by_one(cluster, ["n0", "n3", "n4"])
    cluster.kill("proxy")
    cluster.restart("proxy")
    cluster.wait_serving(up=2)
    check_objects(cluster, values)


def test_silent_machines_are_declared_dead_by_the_operator(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2", settings=["timing.request_timeout_ms=20000"])
    values = store_objects(cluster, 100, 300)
    silent = {name: cluster.pid(name) for name in ("n1", "n2")}
    refused = cluster.cli("node", "declare-dead", "n2", "--yes", check=False)
    assert refused.returncode == 1 and "answers" in refused.stderr
    os.kill(silent["n2"], signal.SIGSTOP)
    try:
        wait_for(lambda: cluster.node_states()["n2"] == "suspect", "n2 is suspect")
        cluster.wait_serving(up=2)
        os.kill(silent["n1"], signal.SIGSTOP)
        wait_for(lambda: cluster.status()["state"] == "waiting", "the decider waits")
        # without a terminal nobody can be asked
        asked = cluster.cli("node", "declare-dead", "n2", check=False)
        assert asked.returncode == 1 and "--yes" in asked.stderr
        cluster.cli("node", "declare-dead", "n2", "--yes")
        cluster.cli("node", "declare-dead", "n1", "--yes")
        cluster.wait_serving(up=1)
        assert cluster.node_states() == {"n0": "up", "n1": "lost", "n2": "lost"}
        check_objects(cluster, values)
        # a proxy that starts now is vouched for once
        cluster.kill("proxy")
        with another_proxy(cluster, "--force-epoch"):
            wait_for(lambda: cluster.is_serving(up=1), "the proxy serves on the rest")
            check_objects(cluster, values)
    finally:
        for pid in silent.values():
            os.kill(pid, signal.SIGCONT)


def test_nodes_are_found_by_name(make_cluster):
    """localhost may have an address at which no node listens, before the one that serves."""
    cluster = make_cluster(nodes=3, scheme="rep:2")
    values = store_objects(cluster, 100, 300)
    cluster.kill("proxy")
    names = [word for i in range(3) for word in ("--set", f"nodes.{i}.host=localhost")]
    with another_proxy(cluster, *names):
        cluster.wait_serving(up=3)
        check_objects(cluster, values)
        cluster.kill("n1")
        wait_for(lambda: cluster.node_states()["n1"] == "lost", "n1 is lost")
        check_objects(cluster, values)
