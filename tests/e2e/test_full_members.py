"""Nodes leave, or die, while the others are nearly full: what has no room stays where it is, which the status tells."""

import contextlib
import json
import threading

import pytest

from cluster import wait_for
from full_nodes import Writer, begin, check, together

NODES = 7
MEMORY_MB = 32
WRITERS = 3
SIZES = (100, 5000, 20_000, 65_536, 300_000)
SETTINGS = ["segment_bytes=64KiB", "timing.profile=local", "timing.read_grace_ms=200",
            "timing.tombstone_keep_ms=10000", "timing.upload_idle_ms=1000", "repair.after_ms=300"]


@pytest.fixture()
def cluster(make_cluster):
    cluster = make_cluster(nodes=NODES, scheme="ers:2,2,3", memory_mb=MEMORY_MB, settings=SETTINGS)
    yield cluster
    cluster.stop()


def filled(cluster, **options):
    writers = [Writer(cluster, f"w{n}", refusals=40, **options) for n in range(WRITERS)]
    together([lambda w=writer: w.run([SIZES]) for writer in writers])
    for writer in writers:
        assert writer.error is None, repr(writer.error)
    return writers


@contextlib.contextmanager
def at_work(writers):
    """Clients go on meanwhile: whatever they are refused, each of their keys has what it should."""
    stop = threading.Event()
    before = [writer.written for writer in writers]
    threads = begin([lambda w=writer: w.go_on(stop) for writer in writers])
    try:
        yield
        for writer, written in zip(writers, before):
            wait_for(lambda w=writer, n=written: w.error or w.written > n + 20, "it gets answers")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for writer in writers:
        assert writer.error is None, repr(writer.error)


def delete_most(writers):
    for writer in writers:
        keys = sorted(writer.values)
        writer.delete([key for n, key in enumerate(keys) if n % 3 != 0])


def scrub(cluster):
    """Of all objects, once nobody writes: none lacks or has anything else than it should."""
    counts = json.loads(cluster.cli("--json", "scrub", "--all").stdout)["counts"]
    assert counts["clean"] > 0 and counts["refused"] == counts["failed"] == 0, counts


def wait_stuck(cluster):
    """Repair has tried, and tells why it could not."""
    def lacks_room():
        problem = cluster.status()["repair"]["problem"]
        return "room" in problem or "no_space: " in problem
    wait_for(lacks_room, lambda: f"repair lacks room, not {cluster.status()}")


def test_a_drain_waits_for_room_and_ends_when_there_is_some(cluster):
    writers = filled(cluster)
    cluster.cli("node", "drain", "n1", "--no-wait")
    wait_stuck(cluster)

    def is_told():
        stuck = cluster.cli("node", "drain", "n1", "--timeout", 0, check=False)
        assert stuck.returncode == 1 and "shards" in stuck.stderr, stuck.stderr
        return "room" in stuck.stderr
    wait_for(is_told, "the command tells that room is lacking")
    wait_for(lambda: "room" in cluster.cli("status").stdout, "so does the status")
    with at_work(writers):  # large values give way to small ones, so that some shards can move
        pass
    check(cluster, writers)
    refused = cluster.cli("node", "remove", "n1", "--timeout", 0, check=False)
    assert refused.returncode == 1

    delete_most(writers)
    cluster.cli("node", "drain", "n1", "--timeout", 150)
    cluster.cli("node", "remove", "n1", "--timeout", 30)
    cluster.kill("n1")
    check(cluster, writers)
    scrub(cluster)
    assert cluster.metrics()["elastripe_moved_shards_total"] > 0


def test_a_drain_ends_where_what_is_left_is_just_enough(cluster):
    writers = [Writer(cluster, f"w{n}") for n in range(WRITERS)]

    def used():
        memory = cluster.status()["memory"]
        return memory["used_bytes"] / memory["limit_bytes"]
    most = 0.75 * NODES / (NODES - 1)  # on the others, in the end
    assert most < 0.9
    while used() < 0.75:
        for writer in writers:
            for _ in range(20):
                writer.step(SIZES)
    check(cluster, writers)
    cluster.cli("node", "drain", "n1", "--timeout", 150)
    cluster.cli("node", "remove", "n1", "--timeout", 30)
    cluster.kill("n1")
    check(cluster, writers)
    scrub(cluster)


def test_a_dead_nodes_shards_wait_for_room(cluster):
    writers = filled(cluster, may_say=("memory", "too_few_nodes"))
    cluster.kill("n1")
    wait_for(lambda: cluster.node_states()["n1"] == "lost" and cluster.is_serving(),
             "its death is dealt with")
    wait_stuck(cluster)

    def is_told():
        shown = cluster.cli("status").stdout
        return "room" in shown and "lack shards" in shown
    wait_for(is_told, "the status tells that room is lacking")
    with at_work(writers):  # large values give way to small ones, so that some shards find room
        pass
    check(cluster, writers)

    delete_most(writers)
    cluster.wait_settled()
    check(cluster, writers)
    scrub(cluster)
    cluster.kill("n3", "n5")  # as many again as the scheme survives
    check(cluster, writers)
