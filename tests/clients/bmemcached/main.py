"""python-binary-memcached: the binary protocol, and SASL. It appends nothing and touches nothing."""

import sys
import time

import bmemcached

host, port, login_port = sys.argv[1:4]


def exercise(client):
    assert client.flush_all()
    assert client.get("absent") is None
    assert client.set("key", "value") and client.get("key") == "value"
    assert client.add("key", "x") is False and client.add("added", "1")
    assert client.replace("missing", "x") is False and client.replace("added", "2")
    value, cas = client.get("key", get_cas=True)
    assert value == "value" and client.cas("key", "changed", cas)
    assert client.cas("key", "late", cas) is False and client.get("key") == "changed"
    assert client.incr("counter", 5, default=10) == 10
    assert client.incr("counter", 5) == 15 and client.decr("counter", 3) == 12
    assert client.set("counter", "9", compress_level=0) and client.incr("counter", 1) == 10
    assert client.set_multi({f"many{i}": str(i) for i in range(100)}) == []
    found = client.get_multi([f"many{i}" for i in range(101)])
    assert found == {f"many{i}": str(i) for i in range(100)}
    large = bytes(range(256)) * 20_000
    assert client.set("large", large, compress_level=0) and client.get("large") == large
    assert client.set("long", "x", time=1000) and client.get("long") == "x"
    assert client.set("short", "x", time=1)
    end = time.monotonic() + 20
    while client.get("short"):
        assert time.monotonic() < end, "nothing expires"
        time.sleep(0.05)
    assert client.delete("key") and client.get("key") is None
    assert client.delete_multi([f"many{i}" for i in range(100)])
    assert client.get("many7") is None
    statistics = client.stats()
    assert all("curr_items" in server for server in statistics.values())
    client.disconnect_all()


exercise(bmemcached.Client([f"{host}:{port}"]))
if login_port != "-":
    server = [f"{host}:{login_port}"]
    exercise(bmemcached.Client(server, username="client", password="secret"))
    stranger = bmemcached.Client(server, username="client", password="wrong")
    try:
        stranger.get("large")
        raise AssertionError("a wrong password is right")
    except bmemcached.exceptions.MemcachedException as error:
        assert error.code == 0x20, error
