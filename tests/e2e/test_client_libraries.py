"""What client libraries and tools expect of a memcached, beside its commands: which answers they can
go on after, which fields they read."""

import json
import os
import re
import subprocess

import pytest

from cluster import BIN, DEADLINE_S, Raw, wait_for


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=4, scheme="rs:2,1")


@pytest.mark.parametrize("size", [1, 100_000])
def test_keys_with_control_bytes_are_escaped_where_they_are_shown(cluster, size):
    raw = Raw(cluster.port)
    key = b"a\x01\x7f\x1b[31m\xff"
    assert raw.ask(b"set " + key + b" 0 0 %d\r\n" % size + b"x" * size + b"\r\n") == b"STORED\r\n"
    raw.close()
    escaped = r"a\x01\x7f\x1b[31m\xff"
    assert json.loads(cluster.admin("/v1/objects/%" + key.hex("%")))["key"] == escaped
    assert escaped in cluster.cli("object", os.fsdecode(key)).stdout


def memcached_tool(cluster, mode, *words):
    """The tool of memcached's own source, which the build has fetched."""
    directory = next(d for d in BIN.parents if (d / ".memcached-src").exists())
    path = next(directory.glob(".memcached-src/memcached-*/scripts/memcached-tool"))
    return subprocess.run(["perl", path, cluster.server, mode, *words], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=True).stdout


def test_memcached_tool_is_answered(cluster):
    for mode, field in (("stats", "curr_items"), ("settings", "maxbytes"), ("sizes", "sizes_status")):
        assert re.search(rf"^ *{field} +\S+$", memcached_tool(cluster, mode), re.MULTILINE), mode
    assert memcached_tool(cluster, "display").startswith("  #  Item_Size")


def test_memcached_tool_dumps_what_there_is(make_cluster):
    cluster = make_cluster(nodes=4, scheme="rs:2,1")
    client = cluster.client()
    stored = {f"key{i}": b"x" * (i * 100) for i in range(500)}
    for key, value in stored.items():
        client.set(key, value, noreply=False)
    shown = re.findall(r"^key=(\S+) exp=-1 .* size=(\d+)$", memcached_tool(cluster, "keys"), re.MULTILINE)
    assert dict(shown) == {key: str(len(value)) for key, value in stored.items()}
    assert len(shown) == len(stored)
    assert memcached_tool(cluster, "dump").count("\nadd key") + 1 == len(stored)
    assert len(memcached_tool(cluster, "keys", "7").splitlines()) == 7


def test_a_listing_ends_with_its_client(make_cluster):
    """One that takes nothing is no hindrance, and the next one begins when it is gone."""
    cluster = make_cluster(nodes=4, scheme="rs:2,1", settings=["threads=1"])
    client = cluster.client()
    for i in range(30_000):
        client.set(f"{i:0240}", b"", noreply=i % 100 > 0)
    idle = Raw(cluster.port)
    idle.send(b"lru_crawler metadump all\r\n")
    assert idle.line().startswith(b"key=")
    assert client.get("0" * 240) == b""
    idle.close()
    other = Raw(cluster.port)
    wait_for(lambda: other.ask(b"stats cachedump 1 1\r\n").endswith(b"END\r\n"), "the first has ended")
    other.close()


def statistics(cluster, argument=""):
    raw = Raw(cluster.port)
    answer = raw.ask(f"stats {argument}\r\n".encode()).decode()
    raw.close()
    return dict(line.split(" ", 2)[1:] for line in answer.splitlines() if line.startswith("STAT "))


# What the memcached exporter of Prometheus shows of a memcached without LRU crawler and extstore;
# those that it computes from others are not named.
EXPORTED = """
    uptime time version rusage_user rusage_system bytes limit_maxbytes curr_items total_items bytes_read
    bytes_written curr_connections total_connections rejected_connections conn_yields
    listen_disabled_num evictions reclaimed store_too_large store_no_memory accepting_conns cmd_set
    cmd_flush cas_badval get_hits get_misses delete_hits delete_misses incr_hits incr_misses decr_hits
    decr_misses cas_hits cas_misses touch_hits touch_misses"""


def test_exporters_find_their_fields(cluster):
    found = statistics(cluster)
    for name in EXPORTED.split():
        assert name in found
        if name not in ("version", "rusage_user", "rusage_system"):
            assert float(found[name]) >= 0, name
    for name in ("rusage_user", "rusage_system"):
        assert re.fullmatch(r"\d+\.\d{6}", found[name])
    assert int(statistics(cluster, "settings")["maxconns"]) > 0
    for list_ in ("items", "slabs"):
        assert all(re.fullmatch(r"\w+", name) for name in statistics(cluster, list_))


def test_items_and_bytes_are_those_of_the_cluster(make_cluster):
    cluster = make_cluster(nodes=4, scheme="rs:2,1")
    client = cluster.client()
    for i in range(200):
        client.set(f"counted{i}", b"x" * (10 if i % 2 else 100_000), noreply=False)

    def are_counted():
        found = statistics(cluster)
        with_parities = 100 * 150_000
        return found["curr_items"] == "200" and int(found["bytes"]) > with_parities

    wait_for(are_counted, lambda: f"200 items: {statistics(cluster)}")
    found = statistics(cluster)
    assert int(found["bytes"]) < int(found["limit_maxbytes"]) == 4 * 256 * 1024 * 1024
    assert found["total_items"] == "200"
    assert statistics(cluster, "settings")["maxbytes"] == found["limit_maxbytes"]
