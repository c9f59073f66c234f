"""Out of memory is a clean refusal, and memory that was given back is used again."""

import pytest
from pymemcache.exceptions import MemcacheError

from cluster import payload, wait_for


@pytest.fixture()
def cluster(make_cluster):
    cluster = make_cluster(nodes=5, scheme="ers:2,1,3", memory_mb=32,
                           settings=["timing.read_grace_ms=200", "timing.tombstone_keep_ms=10000"])
    yield cluster
    cluster.stop()


def fill(client, prefix, size):
    """Stores objects until the first refusal; returns them."""
    values = {}
    for i in range(200_000):
        key = f"{prefix}{i}"
        value = payload(size, key)
        try:
            stored = client.set(key, value, noreply=False)
        except MemcacheError as error:
            assert "memory" in str(error), error
            return values
        assert stored
        values[key] = value
    raise AssertionError("never full")


def check(client, values):
    for key, value in values.items():
        assert client.get(key) == value, key


@pytest.mark.parametrize("first,second", [(300_000, 2_000), (2_000, 300_000)],
                         ids=["large then small", "small then large"])
def test_full_nodes_refuse_keep_what_they_have_and_take_another_size_after_deletes(
        cluster, first, second):
    client = cluster.client()
    values = fill(client, "first/", first)
    assert len(values) * first > 20 << 20, "most of the memory was used"
    check(client, values)
    assert client.get(f"first/{len(values)}") is None, "the refused one left nothing"
    for key in values:
        assert client.delete(key, noreply=False)
    count = max(len(values) * first // second // 2, 5)

    def fits():
        try:
            return client.set("probe", payload(second, "probe"), noreply=False)
        except MemcacheError:
            return False

    wait_for(fits, "memory comes back")
    stored = {}

    def store_more():
        while len(stored) < count:
            key = f"second/{len(stored)}"
            value = payload(second, key)
            try:
                client.set(key, value, noreply=False)
            except MemcacheError:
                return False
            stored[key] = value
        return True

    wait_for(store_more, f"{count} objects of {second} bytes fit where {len(values)} of {first} "
                         "were deleted")
    check(client, stored)


def test_a_long_run_of_overwrites_does_not_fill_the_nodes(cluster):
    client = cluster.client()
    # ten times what the nodes hold, in eight keys
    size, keys = 400_000, 8
    rounds = 10 * 5 * (32 << 20) // (size * 4 // 3) // keys // 4

    def put(key, value):
        def stored():
            try:
                return client.set(key, value, noreply=False)
            except MemcacheError:
                return False
        wait_for(stored, "superseded shards leave")

    for i in range(rounds):
        for k in range(keys):
            put(f"key{k}", payload(size, f"{i}/{k}"))
    for k in range(keys):
        assert client.get(f"key{k}") == payload(size, f"{rounds - 1}/{k}")
