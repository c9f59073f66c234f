"""Processes die between two steps of updates and folds: at every named fail point of a proxy and of
a node that lies there (server-patches/node/format/fail_point.h).

What was acknowledged is there afterwards; what was not is there as a whole or not at all; it stays
as it is when the log is folded, parities match data, and no shard is left over. Repair is off, so
that it is known what is missing."""

import itertools

import pytest

from cluster import wait_for
from fail_points import Armed, fail_points, inspect, remove, wait_no_leaks
from updates import Connection, UpdateLedger

SCHEME = "ers:4,2,5"
SEGMENT_BYTES = 64 * 1024
# one short segment, and several
SIZES = [20_000, 300_000]
SETTINGS = [f"segment_bytes={SEGMENT_BYTES}", "timing.suspect_after_ms=500",
            "timing.lease_ms=1500", "timing.read_grace_ms=300", "timing.upload_idle_ms=800",
            "timing.fold_after_ms=100", "repair.automatic=false"]
VICTIMS = ("n2", "n6")
MOST_BYTES = 40_000

pytestmark = pytest.mark.usefixtures("parent_of_all")


@pytest.fixture(scope="module", params=["two", "one"])
def rounds(request):
    return request.param


@pytest.fixture(scope="module")
def cluster(make_cluster, rounds):
    return make_cluster(nodes=9, scheme=SCHEME, memory_mb=256,
                        settings=[*SETTINGS, f"pools.0.log_rounds={rounds}"])


def update_until(condition, cluster, ledger, what):
    """Updates one object after the other, by connections that may break, until it is so."""
    keys = itertools.cycle(ledger.values)
    connection = None

    def update():
        nonlocal connection
        try:
            connection = connection or Connection(cluster)
            ledger.update_one(connection, next(keys), MOST_BYTES)
        except OSError:
            if connection is not None:
                connection.close()
            connection = None
        return condition()
    wait_for(update, what)
    if connection is not None:
        connection.close()


def check(cluster, ledger):
    """As it was left, and once it is folded."""
    connection = Connection(cluster)
    ledger.check(connection)
    for key in ledger.values:
        cluster.cli("recycle", "--key", key)
        log = inspect(cluster, key)["log"]
        assert log is None or log["bytes"] == 0
    ledger.check(connection)
    connection.close()
    for scrubbed in cluster.scrub(*ledger.values):
        for segment in scrubbed["segments"]:
            assert not segment["wrong"] and segment["data_matches"], (scrubbed["key"], segment)


def test_a_proxy_dies_at_every_fail_point(cluster, rounds, tmp_path):
    ledger = UpdateLedger(cluster, "o/", SIZES)
    # Between two rounds; and after one.
    but = ("update/numbered",) if rounds == "one" else ("update/numbers-told",)
    # What comes with every commit and deletion does with folds.
    points = fail_points("proxy", "update/", "fold/", "commit/", "delete/told", but=but)
    # The first time it may be the first update of an object, or the first segment of a fold.
    cases = [(point, passes) for passes in (1, 2) for point in points]

    def armed_for(i):
        point, passes = cases[i % len(cases)]
        return Armed(cluster, "proxy", point, tmp_path, passes)

    proxy = armed_for(0)
    proxy.restart()
    for i in range(len(cases)):
        cluster.wait_serving()
        acked = ledger.acks
        update_until(lambda: ledger.acks >= acked + 4, cluster, ledger, "updates are acknowledged")
        proxy.trigger()
        update_until(proxy.has_died, cluster, ledger, f"the proxy dies at {proxy.point}")
        proxy.wait_death()
        proxy = armed_for(i + 1)
        proxy.restart()
        cluster.wait_serving()
        check(cluster, ledger)
    wait_no_leaks(cluster, ledger.values)
    remove(cluster, ledger.values)


def node_cases():
    """Two points a case: as many nodes die as the scheme survives."""
    points = fail_points("node", "log-", "shard-patch/", "record-apply/", "record-store/",
                         "shard-delete/")
    assert len(points) % 2 == 0
    return list(zip(points[::2], points[1::2]))


def passes(point, node, shown):
    """Whether updates of the object bring the node there."""
    kind = point.partition("/")[0]
    tail, *copies = shown["homes"]
    if kind in ("log-append", "log-settle"):
        return node == tail
    if kind == "log-store":
        return node in copies
    if kind == "record-apply":
        return node == shown["homes"][-1]
    if kind == "record-store":
        return node in shown["homes"][:-1]
    # Each update reaches some data shards, and all parities.
    parities = [shard["node"] for segment in shown["segments"] for shard in segment["shards"]
                if shard["role"].startswith("P")]
    return node in parities


def delete(cluster, ledger):
    client = cluster.client()
    for key in ledger.values:
        assert client.delete(key, noreply=False)


def ledger_for(cluster, armed, prefix):
    """Objects of which one brings the node there."""
    for number in range(100):
        ledger = UpdateLedger(cluster, f"{prefix}{number}/", SIZES)
        if any(passes(armed.point, armed.name, inspect(cluster, key)) for key in ledger.values):
            return ledger
        delete(cluster, ledger)
    raise AssertionError(f"{armed.name} is never asked for {armed.point}")


def test_two_nodes_die_one_after_the_other_at_every_pair_of_fail_points(cluster, tmp_path):
    cases = node_cases()
    nodes = [Armed(cluster, *names, tmp_path) for names in zip(VICTIMS, cases[0])]
    for node in nodes:
        node.restart()
    cluster.wait_serving()
    for i in range(len(cases)):
        ledgers = []
        for node in nodes:
            # What the second sees is written when the first is gone, so it is whole.
            ledger = ledger_for(cluster, node, f"{i}/{node.name}/")
            ledgers.append(ledger)
            node.trigger()
            update_until(node.has_died, cluster, ledger, f"{node.name} dies at {node.point}")
            node.wait_death()
            acked = ledger.acks
            update_until(lambda: ledger.acks >= acked + 4, cluster, ledger, "updates go on")
        for ledger in ledgers:
            check(cluster, ledger)
        nodes = [Armed(cluster, *names, tmp_path)
                 for names in zip(VICTIMS, cases[(i + 1) % len(cases)])]
        for node in nodes:
            node.restart()
        cluster.wait_serving()
        for ledger in ledgers:
            check(cluster, ledger)
            delete(cluster, ledger)
    wait_no_leaks(cluster, {})
