"""Nodes come and go while clients work: elastripe node add, drain, remove."""

import contextlib
import json
import subprocess

import pytest

from cluster import (BIN, Writers, check_objects, free_ports, payload, run, store_objects,
                     wait_for)
from proxies import wait_whole

# What a write that had to begin again has left on a node that drains is reclaimed soon.
SETTINGS = ["timing.read_grace_ms=1000", "timing.upload_idle_ms=2000"]


@contextlib.contextmanager
def node_process(tmp_path, name, port):
    """A node that belongs to nobody yet."""
    with open(tmp_path / f"{name}.log", "w") as log:
        process = subprocess.Popen(
            [BIN / "elastripe-node", "--name", name, "--port", str(port), "--memory-mb", "256",
             "--user", "root"], stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def nodes_of(cluster):
    return {node["name"]: node for node in json.loads(cluster.admin("/v1/nodes"))["nodes"]}


def wait_settled(cluster, up):
    """Each partition is where it belongs, and nothing lacks redundancy."""
    def is_settled():
        status = cluster.status()
        return (cluster.is_serving(up) and status["partitions"]["to_move"] == 0
                and status["epoch"]["number"] == status["repair"]["settled_epoch"])
    wait_for(is_settled, lambda: f"{up} nodes in their places, not {cluster.status()}")


def test_a_node_is_added_and_another_is_drained_and_removed_under_load(make_cluster, tmp_path):
    cluster = make_cluster(nodes=7, scheme="ers:4,1,5", settings=SETTINGS)
    values = store_objects(cluster, 20, 300_000)
    port = free_ports(1)
    with node_process(tmp_path, "n7", port):
        with Writers(cluster, 2, [10, 2000, 100_000]) as writers:
            writers.wait_acks(20)
            cluster.cli("node", "add", "n7", f"127.0.0.1:{port}")
            wait_settled(cluster, 8)
            assert nodes_of(cluster)["n7"]["partitions_home"] > 0
            writers.wait_acks(20)
            refused = cluster.cli("node", "remove", "n2", check=False)
            assert refused.returncode == 1 and "drain it first" in refused.stderr
            cluster.cli("node", "drain", "n2", "--timeout", 100)
            check_objects(cluster, values)
            cluster.cli("node", "remove", "n2", "--timeout", 30)
            assert "n2" not in nodes_of(cluster)
            assert 'elastripe_node_up{node="n2"}' not in cluster.metrics()
            cluster.kill("n2")
            writers.wait_acks(20)
            wait_settled(cluster, 7)
            # Its configuration knows nothing of that.
            cluster.kill("proxy")
            cluster.restart("proxy")
            wait_settled(cluster, 7)
            assert set(nodes_of(cluster)) == {"n0", "n1", "n3", "n4", "n5", "n6", "n7"}
            writers.wait_acks(20)
        writers.check()
        check_objects(cluster, values)
        assert all(report["clean"] for report in cluster.scrub(*values))
        assert cluster.metrics()['elastripe_node_up{node="n7"}'] == 1


def test_a_node_that_was_added_gets_its_part_of_the_shards_when_told_to(make_cluster, tmp_path):
    cluster = make_cluster(nodes=6, scheme="ers:2,2,3", settings=SETTINGS)
    values = store_objects(cluster, 40, 1_500_000)
    port = free_ports(1)

    def stored():
        return {name: node["statistics"]["shard_bytes"]
                for name, node in nodes_of(cluster).items()}
    with node_process(tmp_path, "n6", port), Writers(cluster, 1, [2000, 100_000]) as writers:
        cluster.cli("node", "add", "n6", f"127.0.0.1:{port}")
        wait_settled(cluster, 7)
        plan = cluster.cli("rebalance", "--dry-run").stdout
        assert "to move" in plan, plan
        done = json.loads(cluster.cli("--json", "rebalance", "--watch", "--rate", 0).stdout)
        assert done["counts"]["moved"] > 0 and done["done"]["shards"] > 20, done
        wait_for(lambda: stored()["n6"] > 0.5 * sum(stored().values()) / 7, stored)
        writers.wait_acks(20)
        assert cluster.cli("job").stdout.splitlines()[-1] == "rebalance 2: done"
        # What is not watched can be cancelled.
        cluster.cli("repair", "--rate", 1)
        cluster.cli("job", "cancel", 3)
        wait_for(lambda: "repair 3: running" not in cluster.cli("job").stdout, "it has ended")
        writers.check()
        check_objects(cluster, values)
        assert all(report["clean"] for report in cluster.scrub(*values))


def test_all_nodes_are_replaced_and_the_old_configuration_leads_to_the_new_ones(make_cluster,
                                                                              tmp_path):
    cluster = make_cluster(nodes=3, scheme="rep:2", settings=SETTINGS)
    client = cluster.client()
    values = {f"key{i}": payload(1000, i) for i in range(50)}
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    first = free_ports(3)
    with contextlib.ExitStack() as stack:
        for i in range(3):
            stack.enter_context(node_process(tmp_path, f"m{i}", first + i))
            cluster.cli("node", "add", f"m{i}", f"127.0.0.1:{first + i}")
        for name in ("n1", "n0", "n2"):
            cluster.cli("node", "drain", name, "--timeout", 60)
            cluster.cli("node", "remove", name, "--timeout", 30)
        cluster.kill("n1", "n2")
        wait_settled(cluster, 3)
        cluster.kill("proxy")
        cluster.restart("proxy")  # of the nodes that it is told of, only n0 runs
        wait_settled(cluster, 3)
        assert set(nodes_of(cluster)) == {"m0", "m1", "m2"}
        client = cluster.client()
        for key, value in values.items():
            assert client.get(key) == value
        cluster.kill("n0")


def test_a_node_that_is_not_there_is_added_as_lost_and_may_come_from_elsewhere(make_cluster,
                                                                              tmp_path):
    cluster = make_cluster(nodes=3, scheme="rep:2")
    ports = free_ports(2)
    added = cluster.cli("node", "add", "n3", f"127.0.0.1:{ports}", "--timeout", 1, check=False)
    assert added.returncode == 1 and f"no node answers at 127.0.0.1:{ports}." in added.stderr
    assert "elastripe node remove n3" in added.stderr
    assert nodes_of(cluster)["n3"]["state"] == "lost"
    with node_process(tmp_path, "n3", ports + 1):
        cluster.cli("node", "add", "n3", f"127.0.0.1:{ports + 1}")
        wait_settled(cluster, 4)
    wait_for(lambda: nodes_of(cluster)["n3"]["state"] == "lost", "n3 is lost")
    cluster.cli("node", "remove", "n3")
    assert set(nodes_of(cluster)) == {"n0", "n1", "n2"}


def test_a_node_of_another_cluster_is_added_as_lost(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2", proxies=3)
    other = make_cluster(nodes=3, scheme="rep:2")
    node = nodes_of(other)["n1"]
    wait_whole(cluster)
    for i, proxy in enumerate(cluster.proxies):
        added = run("elastripe", "--server", f"127.0.0.1:{cluster.proxy_port(proxy)}", "node", "add", f"m{i}",
                    node["address"], "--timeout", 2, check=False)
        assert added.returncode == 1 and "is not taken, as one of another cluster is not" in added.stderr
        assert f"elastripe node remove m{i}" in added.stderr
        cluster.cli("node", "remove", f"m{i}")
    assert any("event=other_cluster node=m0" in cluster.log(proxy) for proxy in cluster.proxies)


def test_who_drains_a_node_hears_at_once_that_somebody_has_undone_it(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rs:2,1")
    store_objects(cluster, 3, 100_000)
    with subprocess.Popen([BIN / "elastripe", "--server", cluster.server, "node", "drain", "n1"],
                          stderr=subprocess.PIPE, text=True) as drain:
        wait_for(lambda: nodes_of(cluster)["n1"]["role"] == "draining", "n1 drains")
        told = drain.stderr.readline()  # it has seen that
        assert told.startswith("waiting: node n1 still has"), told
        cluster.cli("node", "drain", "n1", "--undo")
        _, rest = drain.communicate(timeout=30)
    assert drain.returncode == 1 and "n1 takes new data again" in rest, rest


@pytest.mark.parametrize("words, problem", [
    (("add", "n1", "127.0.0.1:1"), "there is a node n1 already"),
    (("add", "no name", "127.0.0.1:1"), "a node's name is"),
    (("add", "n9", "nowhere"), "is not HOST:PORT"),
    (("add", "n9", "127.0.0.1:0"), "port"),
    (("add", "n9", "10.1.2.3:11401"), "insecure"),
    (("drain", "n9"), "no node is named n9"),
    (("remove", "n9"), "no node is named n9"),
])
def test_what_can_not_be_is_refused_with_the_reason(three, words, problem):
    refused = three.cli("node", *words, "--timeout", 0, check=False)
    assert refused.returncode == 1 and problem in refused.stderr, refused.stderr


@pytest.fixture(scope="module")
def three(make_cluster):
    return make_cluster(nodes=3, scheme="rep:2")


def test_a_drain_that_has_no_other_place_says_so_and_may_be_taken_back(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rs:2,1")
    values = store_objects(cluster, 3, 100_000)
    stuck = cluster.cli("node", "drain", "n1", "--timeout", 3, check=False)
    assert stuck.returncode == 1 and "shards" in stuck.stderr
    check_objects(cluster, values)
    assert nodes_of(cluster)["n1"]["role"] == "draining"
    assert cluster.client().set("new", payload(100_000, "new"), noreply=False)
    # Settings change meanwhile, and the node goes on leaving.
    cluster.cli("config", "set", "timing.lease_ms=2500", "pools.1={prefix: two/, scheme: 'rep:2'}")
    assert nodes_of(cluster)["n1"]["role"] == "draining"
    assert cluster.client().set("two/new", b"value", noreply=False)
    cluster.cli("node", "drain", "n1", "--undo")
    shown = cluster.json("config", "show")
    assert shown["version"] == 2 and "lease_ms: 2500" in shown["settings"]
    assert nodes_of(cluster)["n1"]["role"] == "member"
    check_objects(cluster, values)
