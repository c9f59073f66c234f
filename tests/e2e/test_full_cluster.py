"""A cluster whose nodes are full refuses new data, and loses nothing that it has acknowledged."""

import pytest
from pymemcache.exceptions import MemcacheError

from cluster import payload, wait_for
from full_nodes import SIZES, Writer, check, kept_full, together

WRITERS = 4


@pytest.fixture(params=["ers:4,1,5", "ers:2,2,3"])
def cluster(request, make_cluster):
    cluster = make_cluster(nodes=6, scheme=request.param, memory_mb=32,
                           settings=["timing.read_grace_ms=200", "timing.tombstone_keep_ms=10000"])
    yield cluster
    cluster.stop()


def metric(cluster, name):
    return cluster.metrics()[name]


def test_full_nodes_lose_nothing_and_deletes_make_room(cluster):
    writers = [Writer(cluster, f"w{n}") for n in range(WRITERS)]
    together([writer.run for writer in writers])
    for writer in writers:
        assert writer.error is None, repr(writer.error)
    stored = sum(value for name, value in cluster.metrics().items()
                 if name.startswith("elastripe_stored_bytes"))
    assert stored > 0.8 * 6 * (32 << 20)
    check(cluster, writers)

    # A node dies while all are full. Shards are read from the others; records go where there is
    # room, or stay at the homes that are left.
    fillers = [Writer(cluster, f"f{n}") for n in range(WRITERS)]
    with kept_full(fillers):
        cluster.kill("n2")
        wait_for(lambda: cluster.node_states()["n2"] == "lost" and cluster.is_serving(up=5),
                 "the node's death is dealt with")
        wait_for(lambda: not all(node["has_room"] for node in cluster.json("node")["nodes"]),
                 "some node has no room for its records")
    writers += fillers
    check(cluster, writers)
    for writer in writers:  # some of all sizes; those that were refused, too
        writer.delete(sorted(writer.values)[::5])
        writer.delete(sorted(writer.refused)[:20])
    check(cluster, writers)
    cluster.restart("n2")
    cluster.wait_serving()
    check(cluster, writers)

    # every second key, of all sizes, then the rest; none is stuck, refused ones neither
    for part in (0, 1):
        for writer in writers:
            writer.delete(sorted(writer.values)[part::2])
            writer.delete(sorted(writer.refused - writer.values.keys()))
        check(cluster, writers)
    wait_for(lambda: metric(cluster, "elastripe_partitions_short") == 0 and cluster.is_serving(),
             "all partitions have their homes", deadline_s=120)

    # what the deleted ones took is there for others
    fresh = cluster.client()
    stored = {}

    def store(key, value):
        try:
            return fresh.set(key, value, noreply=False)
        except MemcacheError as error:
            assert "memory" in str(error), error
            return False

    for n in range(100):
        stored[f"new{n}"] = payload(SIZES[n % len(SIZES)], f"new{n}")
        wait_for(lambda n=n: store(f"new{n}", stored[f"new{n}"]), "memory comes back")
    for key, value in stored.items():
        assert fresh.get(key) == value, key
