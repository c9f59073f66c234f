"""Any m nodes die, again and again: between two of these times only repair works, nothing is written anew."""

import itertools

from cluster import payload, wait_for

M = 2
# inline, one segment, several; each length another one
SIZES = [10, 5000, 16 * 1024, 16 * 1024 + 1, 50_000, 64 * 1024, 150_000, 400_000]
SETTINGS = ["segment_bytes=64KiB", "timing.profile=local", "timing.read_grace_ms=1000"]


def store(cluster):
    client = cluster.client()
    values = {f"{size}/{i}": payload(size + i, i) for size in SIZES for i in range(4)}
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    return values


def check(cluster, values, when):
    client = cluster.client()
    wrong = [key for key, value in values.items() if client.get(key) != value]
    assert not wrong, f"{wrong} {when}"


def striped(values):
    return [key for key, value in values.items() if len(value) > 16 * 1024]


def check_whole(cluster, values):
    reports = cluster.scrub(*striped(values))
    assert all(report["clean"] for report in reports), [r for r in reports if not r["clean"]]


def test_every_subset_of_m_nodes_dies_after_each_repair(make_cluster):
    cluster = make_cluster(nodes=6, scheme="ers:2,2,3", settings=SETTINGS)
    values = store(cluster)
    repaired = 0
    for dead in itertools.combinations([f"n{i}" for i in range(6)], M):
        cluster.kill(*dead)
        check(cluster, values, f"with {dead} dead")
        cluster.restart(*dead)
        for name in dead:
            cluster.cli("node", "wait", name, "--timeout", 100)
        before, repaired = repaired, cluster.metrics()["elastripe_repaired_shards_total"]
        assert repaired > before
    check_whole(cluster, values)
    check(cluster, values, "in the end")
    cluster.stop()


def test_m_more_nodes_die_as_often_as_repair_has_brought_their_shards_to_others(make_cluster):
    cluster = make_cluster(nodes=9, scheme="ers:2,2,3", settings=[*SETTINGS, "repair.after_ms=100"])
    values = store(cluster)
    for order in (range(9), range(8, -1, -1)):
        names = [f"n{i}" for i in order]
        for dead in (names[0:2], names[2:4]):
            cluster.kill(*dead)
            check(cluster, values, f"with {dead} dead")
            wait_for(lambda dead=dead: all(cluster.node_states()[name] == "lost" for name in dead),
                     "they are lost")
            cluster.wait_settled()
            check_whole(cluster, values)
        # five are left, as many as an object needs
        cluster.kill(*names[4:6])
        check(cluster, values, "with six of nine nodes dead")
        cluster.restart(*names[0:6])
        cluster.wait_settled()
        check_whole(cluster, values)
    check(cluster, values, "in the end")
    cluster.stop()
