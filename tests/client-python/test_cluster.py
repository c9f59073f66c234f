"""Every call of the Python client, against real processes."""

import threading
import time

import pytest

import elastripe
from cluster import another_proxy, free_ports, payload, wait_for
from elastripe import (ConnectionFailed, Exists, Invalid, NotFound, OutOfRange, ServerError,
                       TimedOut)

SIZES = [0, 1, 3000, 100_000, 700_001]
SETTINGS = ["segment_bytes=65536", "repair.after_ms=1000"]


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=6, scheme="ers:2,2,3", settings=SETTINGS)


@pytest.fixture
def client(cluster):
    with elastripe.Client(cluster.server) as made:
        yield made


@pytest.mark.parametrize("size", SIZES)
def test_objects_are_stored_read_changed_and_removed(client, size):
    key = f"whole{size}"
    value = payload(size, key)
    for call in (client.get, client.gets, client.remove, lambda k: client.touch(k, 0),
                 lambda k: client.append(k, b"x"), lambda k: client.prepend(k, b"x")):
        with pytest.raises(NotFound):
            call(key)
    client.put(key, value, flags=0xFFFFFFFF)
    assert client.get(key) == value
    read = client.gets(key.encode())
    assert read.data == value and read.flags == 0xFFFFFFFF and read.cas > 0
    client.append(key, b"the end")
    client.prepend(key, memoryview(b"the beginning"))
    value = b"the beginning" + value + b"the end"
    assert client.gets(key)[:2] == (value, 0xFFFFFFFF)
    client.put(key, value, exptime=1000)
    client.touch(key, 2000)
    assert client.object_info(key)["exptime"] - time.time() > 1500
    client.touch(key, -1)
    with pytest.raises(NotFound):
        client.get(key)
    client.put(key, value)
    client.remove(key)
    with pytest.raises(NotFound):
        client.get(key)


@pytest.mark.parametrize("size", SIZES[1:])
def test_parts_are_read_and_changed(client, size):
    key = f"parts{size}"
    value = bytearray(payload(size, key))
    for call in (lambda: client.get_range(key, 0, 1), lambda: client.update(key, 0, b"x")):
        with pytest.raises(NotFound):
            call()
    client.put(key, value)
    for offset, length in ((0, size), (size // 2, 5000), (0, 0), (size - 1, 1), (size, 10),
                           (2 * size, 1)):
        part = client.get_range(key, offset, length)
        assert part.data == value[offset:offset + length] and part.object_bytes == size
    cas = client.gets(key).cas
    assert part.cas == cas
    for length in (1, min(size, 70_000)):
        data = payload(length, "new")
        offset = (size - length) // 2
        with pytest.raises(Exists):
            client.update(key, offset, data, cas=cas + 1)
        assert client.get(key) == value
        cas = client.update(key, offset, data, cas=cas)
        value[offset:offset + length] = data
        assert client.gets(key) == (value, 0, cas)
    assert client.update(key, 0, b"z") > cas
    with pytest.raises(OutOfRange, match=f"the object has {size} bytes"):
        client.update(key, size, b"x")


def test_a_put_with_a_cas_changes_only_what_was_read(client):
    with pytest.raises(NotFound):
        client.put("cas", b"x", cas=1)
    client.put("cas", b"1")
    read = client.gets("cas")
    client.put("cas", b"2", cas=read.cas)
    with pytest.raises(Exists):
        client.put("cas", b"3", cas=read.cas)
    assert client.get("cas") == b"2"


def test_an_add_changes_no_object_that_is_there(client):
    client.add("added", b"1", flags=9, exptime=1000)
    assert client.gets("added")[:2] == (b"1", 9)
    assert client.object_info("added")["exptime"] > time.time()
    for size in (1, 100_000):
        with pytest.raises(Exists):
            client.add("added", bytes(size))
    assert client.get("added") == b"1"
    client.remove("added")
    client.add("added", payload(100_000, 1))
    assert client.get("added") == payload(100_000, 1)


def test_numbers_are_counted(client):
    for call in (client.increment, client.decrement):
        with pytest.raises(NotFound):
            call("number")
    client.put("number", b"9", flags=3)
    assert client.increment("number") == 10 and client.increment("number", 5) == 15
    assert client.decrement(b"number", 3) == 12 and client.decrement("number") == 11
    assert int(client.get("number")) == 11 and client.gets("number").flags == 3
    assert client.decrement("number", (1 << 64) - 1) == 0
    assert client.increment("number", (1 << 64) - 1) == (1 << 64) - 1
    assert client.increment("number") == 0
    client.put("number", b"x")
    with pytest.raises(ServerError, match="non-numeric"):
        client.increment("number")


def test_many_objects_at_once(client):
    objects = {f"many{i}".encode(): payload(50_000 if i % 50 == 0 else i, i) for i in range(1500)}
    client.put_many(objects, flags=5)
    assert client.get_many([*objects, b"none"]) == objects
    assert client.gets(b"many700").flags == 5
    assert client.get_many([]) == {}


def test_keys_may_be_text_or_bytes(client):
    client.put("schlüssel/\x80", b"text")
    assert client.get("schlüssel/\x80".encode()) == b"text"
    client.put(b"\xff%/", b"bytes")
    both = {"schlüssel/\x80": b"text", b"\xff%/": b"bytes"}
    assert client.get_many(both) == both
    assert client.object_info(b"\xff%/")["size"] == 5
    assert client.object_info("schlüssel/\x80")["size"] == 4


def test_threads_share_a_client_and_lose_no_update(client):
    client.put("counter", b"%08d" % 0)
    client.put("large", bytes(100_000))
    errors = []

    def count():
        try:
            done = 0
            while done < 20:
                part = client.get_range("large", 50_000, 8)
                read = client.gets("counter")
                try:
                    client.put("counter", b"%08d" % (int(read.data) + 1), cas=read.cas)
                    done += 1
                except Exists:
                    pass
                try:
                    number = int.from_bytes(part.data, "big") + 1
                    client.update("large", 50_000, number.to_bytes(8, "big"), cas=part.cas)
                    counted.append(1)
                except Exists:
                    pass
        except Exception as error:  # shown at the end
            errors.append(error)

    counted = []
    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert client.get("counter") == b"%08d" % (6 * 20)
    assert int.from_bytes(client.get_range("large", 50_000, 8).data, "big") == len(counted) > 0


def test_statistics(client):
    assert int(client.stats()["cmd_set"]) > 0
    settings = client.stats("settings")
    assert settings["segment_bytes"] == "65536"
    assert client.stats("elastripe")["serving"] == "yes"
    with pytest.raises(ServerError):
        client.stats("nothing")
    with pytest.raises(Invalid):
        client.stats("two words")


def test_an_object_shows_where_its_shards_are(client):
    client.put("shown", payload(100_000, 1), flags=7)
    info = client.object_info("shown")
    assert (info["kind"], info["size"], info["flags"]) == ("striped", 100_000, 7)
    assert [segment["length"] for segment in info["segments"]] == [65536, 100_000 - 65536]
    with pytest.raises(NotFound):
        client.object_info("none")


def test_a_transition_is_started_waited_for_and_cancelled(client):
    for i in range(8):
        client.put(f"moving/{i}", payload(200_000 + i, i))
    counted = client.transition(3, prefix="moving/", dry_run=True).wait(timeout=60)
    assert counted["counts"]["seen"] == 8 == counted["planned"]["objects"]
    report = client.transition(3, prefix="moving/", parallel=2).wait()
    assert report["state"] == "done" and report["counts"]["transitioned"] == 8
    assert {s["state"] for s in client.object_info("moving/0")["segments"]} == {"k'"}
    assert client.get("moving/7") == payload(200_007, 7)
    assert client.transition(2, key="moving/3").wait()["counts"]["transitioned"] == 1
    slow = client.transition(2, all=True, rate=1)
    with pytest.raises(ServerError, match="is running"):
        client.transition(2, all=True)
    with pytest.raises(TimedOut):
        slow.wait(timeout=0.05)
    slow.cancel()
    assert slow.wait(timeout=60)["state"] == "cancelled"
    assert slow.report()["id"] == slow.id
    assert client.transition(2, prefix="moving/").wait()["state"] == "done"
    with pytest.raises(ServerError, match="to"):
        client.transition(0, all=True)


def test_the_admin_interface_may_be_named_and_must_be_the_proxys(cluster, client):
    client.put("shown", b"x")
    there = f"localhost:{cluster.port + 1 + cluster.nodes}"
    for named in (there, {cluster.server: there}):
        assert elastripe.Client(cluster.server, admin=named).object_info("shown")["size"] == 1
    nowhere = f"127.0.0.1:{free_ports(1)}"
    with pytest.raises(ConnectionFailed) as caught:
        elastripe.Client(cluster.server, admin=nowhere).transition(2, all=True)
    assert not caught.value.may_have_taken_effect
    # A node is a memcached, and no proxy.
    with pytest.raises(ServerError, match="no elastripe proxy"):
        elastripe.Client(f"127.0.0.1:{cluster.port + 1}").object_info("shown")


def test_a_proxy_that_died_is_found_again(cluster, client):
    client.put("kept", b"before")
    cluster.kill("proxy")
    for call in (lambda: client.get("kept"), lambda: client.put("kept", b"x"),
                 lambda: client.object_info("kept")):
        with pytest.raises(ConnectionFailed) as caught:
            call()
        assert not caught.value.may_have_taken_effect
    cluster.restart("proxy")
    cluster.wait_serving()
    assert client.get("kept") == b"before"
    client.put("kept", b"after")
    assert client.get("kept") == b"after"


def test_no_write_with_a_cas_takes_effect_twice_while_proxies_die(cluster, client):
    client.put("counter", b"0")
    done, unknown, errors = [], [], []
    stopping = threading.Event()

    def count():
        while not stopping.is_set():
            try:
                read = client.gets("counter")
                client.put("counter", b"%d" % (int(read.data) + 1), cas=read.cas)
                done.append(1)
            except elastripe.Error as error:
                if isinstance(error, (Invalid, NotFound, OutOfRange)):
                    errors.append(error)
                if error.may_have_taken_effect:
                    unknown.append(error)
                stopping.wait(0.01)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        goal = len(done) + 50
        wait_for(lambda: len(done) >= goal, "50 more writes")
        cluster.kill("proxy")
        cluster.restart("proxy")
    cluster.wait_serving()
    stopping.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(done) <= int(client.get("counter")) <= len(done) + len(unknown)


def test_the_proxy_that_serves_is_found_among_several(make_cluster):
    """Nobody listens at the first address, and the proxy at the second one is killed."""
    cluster = make_cluster(nodes=3, scheme="rep:2")
    ports = free_ports(3)
    second = f"127.0.0.1:{ports}"
    client = elastripe.Client([f"127.0.0.1:{ports + 2}", cluster.server, second])
    client.put("key", b"1")
    words = ["--set", f"listen.port={ports}", "--set", f"admin.port={ports + 1}"]
    with another_proxy(cluster, *words):
        asked = elastripe.Client(second)

        def serves():
            try:
                return asked.stats("elastripe")["serving"] == "yes"
            except elastripe.Error:
                return False
        wait_for(serves, "the second one serves, too")
        assert asked.get("key") == b"1"
        cluster.kill("proxy")
        client.put("key", b"2")
        assert client.get("key") == b"2"
        assert client.object_info("key")["kind"] == "inline"
        client.put_many({"a": b"1", "b": b"2"})
