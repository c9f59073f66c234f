"""Objects of every size read back byte for byte, under every kind of scheme."""

import pytest

from cluster import payload

KIB = 1024
MIB = 1024 * KIB
INLINE_MAX = 16 * KIB
SEGMENT = 4 * MIB
MAX_OBJECT = 64 * MIB

POOLS = {"rep/": "rep:3", "rs/": "rs:4,2", "srs/": "srs:4,2,5", "ers1/": "ers-1:4,2,5",
         "wide/": "ers:4,2,6"}
# around every threshold: inline, coding blocks, node's largest item, segment
SMALL = [0, 1, 2, 15, 16, 17, 1023, 1024, 4095, 4096, 4097, INLINE_MAX - 1, INLINE_MAX,
         INLINE_MAX + 1, 20 * KIB - 1, 64 * KIB, 100_003, MIB - 1, MIB, MIB + 1]
LARGE = [SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 2 * SEGMENT + 12_345]


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=9, scheme="ers:4,2,5", pools=POOLS, memory_mb=512,
                        settings=["timing.read_grace_ms=1000", f"max_object_bytes={MAX_OBJECT}"])


def put_and_get(client, key, size):
    value = payload(size, key)
    assert client.set(key, value, noreply=False)
    got = client.get(key)
    assert got is not None, f"{key}: a miss"
    assert len(got) == size and got == value, f"{key}: wrong bytes"


@pytest.mark.parametrize("prefix", ["", *POOLS])
def test_small_objects_read_back_around_every_threshold(cluster, prefix):
    client = cluster.client()
    for size in SMALL:
        put_and_get(client, f"{prefix}size{size}", size)


@pytest.mark.parametrize("prefix", ["", "rep/", "ers1/"])
def test_objects_of_several_segments_read_back(cluster, prefix):
    client = cluster.client()
    for size in LARGE:
        put_and_get(client, f"{prefix}size{size}", size)
        client.delete(f"{prefix}size{size}", noreply=False)


def test_an_object_of_64_MiB_reads_back(cluster):
    client = cluster.client()
    put_and_get(client, "largest", MAX_OBJECT)
    client.delete("largest", noreply=False)


def test_a_larger_object_is_refused_and_the_connection_goes_on(cluster):
    client = cluster.client()
    with pytest.raises(Exception, match="too large"):
        client.set("too-large", b"x" * (MAX_OBJECT + 1), noreply=False)
    assert client.set("after", b"value", noreply=False)
    assert client.get("after") == b"value"


def test_an_object_that_grows_and_shrinks_across_the_thresholds_is_always_the_last_one(cluster):
    client = cluster.client()
    for size in [10, MIB, 100, INLINE_MAX + 1, 0, SEGMENT + 1, INLINE_MAX, 5 * MIB, 1]:
        put_and_get(client, "changing", size)


def test_many_keys_are_read_in_one_request(cluster):
    client = cluster.client()
    values = {f"many{i}": payload([3, 2000, 40_000, 300_000][i % 4], i) for i in range(60)}
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    found = client.get_many([*values, "absent1", "absent2"])
    assert found == values


def test_object_reports_inline_and_striped_placement(cluster):
    client = cluster.client()
    client.set("reported/small", b"x" * 100, noreply=False)
    client.set("reported/large", payload(MIB, "reported"), noreply=False)
    small = cluster.object("reported/small")
    large = cluster.object("reported/large")
    assert small["kind"] == "inline" and small["size"] == 100
    assert large["kind"] == "striped" and large["size"] == MIB
    assert large["scheme"] == "ers-2:4,2,5"
    shards = large["segments"][0]["shards"]
    assert [shard["role"] for shard in shards] == ["D0", "D1", "D2", "D3", "D4", "P0", "P1"]
    assert large["missing_shards"] == 0
    assert len({shard["node"] for shard in shards}) == 7, "two shards on one node"
