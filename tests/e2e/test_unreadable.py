"""Keys that are lost and writes that are refused keep no client from its other keys. Real client
libraries: each goes on in its own way after an error, or does not."""

import memcache
import pylibmc
import pytest
from pymemcache.exceptions import MemcacheClientError

from cluster import Raw, wait_for

COUNT = 60
SIZES = (10, 100_000)  # inline and striped


@pytest.fixture(scope="module")
def cluster(make_cluster):
    """More nodes than m have crashed: of each pool some keys are lost and the others are healthy."""
    cluster = make_cluster(nodes=6, scheme="rs:2,1",
                           settings=['pools.1={prefix: "cache/", scheme: "rs:2,1", unreadable: miss}',
                                     'pools.2={prefix: "wide/", scheme: "rs:4,1"}'])
    client = cluster.client()
    for i in range(COUNT):
        for prefix in ("", "cache/"):
            client.set(f"{prefix}key{i}", value_of(i), noreply=False)
    cluster.kill("n1", "n4")
    wait_for(lambda: list(cluster.node_states().values()).count("lost") == 2, "two nodes are lost")
    lost, healthy = set(), set()
    raw = Raw(cluster.port)
    for i in range(COUNT):
        answer = raw.ask(f"get key{i}\r\n".encode())
        (healthy if answer.startswith(b"VALUE") else lost).add(i)
        assert answer.startswith(b"VALUE") or answer.startswith(b"CLIENT_ERROR lost"), answer[:100]
    raw.close()
    assert len(lost) > 2 and len(healthy) > 2
    cluster.lost, cluster.healthy = lost, healthy
    return cluster


def value_of(i):
    return b"%d " % i + b"v" * SIZES[i % 2]


def keys(numbers, prefix=""):
    return [f"{prefix}key{i}" for i in sorted(numbers)]


def test_values_that_can_be_read_arrive_before_the_error(cluster):
    raw = Raw(cluster.port)
    answer = raw.ask(b"get " + " ".join(keys(range(COUNT))).encode() + b"\r\n")
    found = [line.split()[1].decode() for line in answer.split(b"\r\n") if line.startswith(b"VALUE ")]
    assert found == keys(cluster.healthy)
    last = answer.split(b"\r\n")[-2]
    assert last.startswith(b"CLIENT_ERROR lost")
    assert last.endswith(b"(%d of %d keys)" % (len(cluster.lost), COUNT))
    raw.close()


def test_pymemcache_is_told_and_goes_on(cluster):
    client = cluster.client()
    with pytest.raises(MemcacheClientError, match="lost"):
        client.get_many(keys(range(COUNT)))
    for i in cluster.healthy:
        assert client.get(f"key{i}") == value_of(i)


def libmemcached(cluster):
    client = pylibmc.Client([cluster.server], behaviors={"tcp_nodelay": True})
    assert client.get(keys(cluster.healthy)[0]) is not None
    return client


def test_libmemcached_gets_the_values_and_goes_on(cluster):
    client = libmemcached(cluster)
    for _ in range(3):
        found = client.get_multi(keys(range(COUNT)))
        assert found == {f"key{i}": value_of(i) for i in cluster.healthy}
        with pytest.raises(pylibmc.Error):
            client.get(keys(cluster.lost)[0])
        assert client.get(keys(cluster.healthy)[0]) is not None


def test_libmemcached_goes_on_after_a_refused_write(cluster):
    """Two of six nodes are down, which leaves too few for a scheme of five."""
    client = libmemcached(cluster)
    for store in (client.set, client.add):
        with pytest.raises(pylibmc.Error):
            store("wide/key", b"x" * 100_000)
        assert client.get(keys(cluster.healthy)[0]) is not None


def test_python_memcached_loses_nothing_where_lost_keys_are_misses(cluster):
    client = memcache.Client([cluster.server])
    found = client.get_multi(keys(range(COUNT), "cache/"))
    assert found and all(found[key] == value_of(int(key.removeprefix("cache/key"))) for key in found)
    assert set(found) != set(keys(range(COUNT), "cache/"))
    for _ in range(3):
        for i in range(COUNT):
            key = f"cache/key{i}"
            assert client.get(key) == found.get(key)
    answered = cluster.metrics()
    assert answered['elastripe_unreadable_keys_total{answered="miss"}'] > 0
    assert answered['elastripe_unreadable_keys_total{answered="error"}'] > 0
