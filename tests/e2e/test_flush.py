"""flush_all of real clients: everything is a miss, stays one, and gives its memory back."""

import json
import time

import pytest
from pymemcache.exceptions import MemcacheClientError

from cluster import Load, payload, wait_for

LARGE = 300_000
SETTINGS = ["timing.request_timeout_ms=2000", "timing.tombstone_keep_ms=4000",
            "timing.upload_idle_ms=2000", "timing.read_grace_ms=300"]


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=6, scheme="ers:2,2,3", memory_mb=64, settings=SETTINGS)


def fill(client, count=30):
    values = {f"key{i}": payload([10, 3000, LARGE][i % 3], i) for i in range(count)}
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    assert client.set("counter", "7", noreply=False)
    return values


def stored(cluster):
    """Records and shards of all nodes."""
    nodes = json.loads(cluster.admin("/v1/nodes"))["nodes"]
    return sum(n["statistics"]["records"] + n["statistics"]["shards"] for n in nodes)


def test_a_flush_makes_everything_a_miss_for_every_command(cluster):
    client = cluster.client()
    values = fill(client)
    assert client.get_many(values) == values
    assert client.flush_all(noreply=False)
    assert client.get_many([*values, "counter"]) == {}
    assert client.incr("counter", 1, noreply=False) is None
    for key in ("key0", "key2"):
        assert not client.append(key, b"more", noreply=False)
        assert not client.prepend(key, payload(LARGE, "more"), noreply=False)
        assert not client.replace(key, b"more", noreply=False)
        assert not client.touch(key, 100, noreply=False)
        assert not client.delete(key, noreply=False)
        assert client.add(key, values[key], noreply=False)
        assert client.append(key, b"more", noreply=False)
        assert client.get(key) == values[key] + b"more"
    assert client.stats()[b"cmd_flush"] == 1


def test_a_flush_without_a_reply_is_ordered_with_what_surrounds_it(cluster):
    client = cluster.client()
    for i in range(20):
        client.set("ordered", f"before {i}", noreply=True)
        client.flush_all(noreply=True)
        assert client.get("ordered") is None
        client.set("ordered", payload(LARGE, i), noreply=True)
        assert client.get("ordered") == payload(LARGE, i)


def test_what_was_flushed_gives_its_memory_back(cluster):
    client = cluster.client()
    fill(client)
    assert client.flush_all(noreply=False)
    wait_for(lambda: stored(cluster) == 0, lambda: f"{stored(cluster)} items are left")


def test_a_flush_outlives_the_proxy_and_nodes_that_die(cluster):
    client = cluster.client()
    values = fill(client)
    assert client.flush_all(noreply=False)
    assert client.set("after", payload(LARGE, "after"), noreply=False)
    client.close()
    cluster.kill("proxy", "n2")
    cluster.restart("proxy")
    cluster.wait_serving(up=5)
    client = cluster.client()
    assert client.get_many(values) == {}
    cluster.restart("n2")
    cluster.wait_serving()
    assert client.get_many([*values, "after"]) == {"after": payload(LARGE, "after")}


def test_many_clients_that_flush_share_epochs(cluster):
    before = cluster.status()["epoch"]["number"]
    flushes = []

    def flush(client):
        for _ in range(10):
            assert client.flush_all(noreply=False)
            flushes.append(1)

    with Load(cluster, [flush] * 16) as load:
        wait_for(lambda: len(flushes) == 160 or load.errors, "the flushes are answered")
    assert cluster.status()["epoch"]["number"] - before <= 40


def test_a_flush_for_later_takes_what_was_stored_until_then(cluster):
    client = cluster.client()
    assert client.set("early", "value", noreply=False)
    assert client.flush_all(delay=3600, noreply=False)
    at = cluster.status()["flush_at"]
    assert abs(at - time.time() - 3600) < 600
    assert client.get("early") == b"value"
    assert client.flush_all(delay=2, noreply=False)
    assert client.set("late", payload(LARGE, "late"), noreply=False)
    wait_for(lambda: client.get_many(["early", "late"]) == {}, "all is flushed")
    assert client.set("early", "again", noreply=False)
    assert client.get("early") == b"again"
    assert cluster.status()["flush_at"] is None


def test_a_proxy_that_refuses_says_so_as_memcached_does(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rs:2,1", settings=["flush_all=refuse"])
    client = cluster.client()
    assert client.set("key", "value", noreply=False)
    with pytest.raises(MemcacheClientError, match="flush_all not allowed"):
        client.flush_all(noreply=False)
    client.flush_all(noreply=True)
    assert client.get("key") == b"value"
