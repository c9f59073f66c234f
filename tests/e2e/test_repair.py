"""Clusters that heal themselves: what crashes take is made again, while clients work."""

from cluster import Writers, check_objects, store_objects, wait_for


def is_settled(cluster):
    status = cluster.status()
    return (cluster.is_serving() and status["epoch"]["number"] == status["repair"]["settled_epoch"]
            and status["objects"]["lacking_shards"] == 0)


def wait_settled(cluster):
    wait_for(lambda: is_settled(cluster), lambda: f"full redundancy, not {cluster.status()}")


def test_all_nodes_are_restarted_one_by_one_and_nothing_is_written_again(make_cluster):
    cluster = make_cluster(nodes=6, scheme="ers:4,1,5")
    values = store_objects(cluster, 20, 300_000)
    with Writers(cluster, 2, [10, 2000, 100_000]) as writers:
        for name in [f"n{i}" for i in range(6)]:
            cluster.kill(name)
            cluster.restart(name)
            cluster.cli("node", "wait", name, "--timeout", 100)
            writers.wait_acks(20)
    writers.check()
    check_objects(cluster, values)
    assert cluster.metrics()["elastripe_repaired_shards_total"] > 0
    assert all(report["clean"] for report in cluster.scrub(*values))


def test_dead_nodes_are_made_up_for_on_spare_ones(make_cluster):
    cluster = make_cluster(nodes=9, scheme="ers:4,2,5", settings=["repair.after_ms=500"])
    values = store_objects(cluster, 20, 300_000)
    for dead in (("n0", "n1"), ("n2",)):
        cluster.kill(*dead)
        wait_for(lambda: all(cluster.node_states()[name] == "lost" for name in dead), "they are lost")
        check_objects(cluster, values)
        if dead == ("n0", "n1"):
            wait_settled(cluster)
            check_objects(cluster, values)
    # Six nodes are left, and an object needs seven: one more is to come back.
    wait_for(lambda: cluster.status()["repair"]["objects"]["refused"] > 0, "repair lacks a node")
    cluster.restart("n0")
    wait_settled(cluster)
    assert all(report["clean"] for report in cluster.scrub(*values))


def test_a_wait_ends_with_a_reason(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2", settings=["repair.automatic=false"])
    refused = cluster.cli("node", "wait", "n1", check=False)
    assert refused.returncode == 1 and "repair.automatic is off" in refused.stderr
    absent = cluster.cli("node", "wait", "n9", "--timeout", 0, check=False)
    assert absent.returncode == 1
