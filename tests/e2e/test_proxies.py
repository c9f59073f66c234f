"""Three proxies of one cluster, which are killed and stopped while clients use all of them."""

import os
import signal

import pytest

from cluster import Cluster, Raw, payload, run, store_objects, wait_for
from proxies import Visits, check_service_beside, failures_beside, killed, load, wait_whole


@pytest.fixture(name="cluster")
def three_proxies(make_cluster):
    return make_cluster(nodes=8, scheme="ers:4,2,5", proxies=3)


def test_any_proxy_may_be_killed_while_clients_use_all(cluster):
    wait_whole(cluster)
    with load(cluster) as writers:
        for victim in ["proxy3", "the decider", "the decider"]:
            name = cluster.decider() if victim == "the decider" else victim
            before = failures_beside(cluster, writers, name)
            cluster.kill(name)
            writers.wait_acks(100)
            wait_for(lambda: cluster.decider() not in (None, name), "another one decides")
            writers.wait_acks(100)
            assert failures_beside(cluster, writers, name) == before, "others notice nothing"
            cluster.restart(name)
            assert wait_whole(cluster) != name, "who starts follows"
        # A node with the decider: then it is waited for, as for any node.
        decides = cluster.decider()
        cluster.kill(decides, "n2")
        writers.wait_acks(100)
        cluster.restart(decides, "n2")
        wait_whole(cluster)


def test_a_proxy_that_was_stopped_tells_nothing_old(cluster):
    wait_whole(cluster)
    with load(cluster) as writers:
        for _ in range(2):
            decides = wait_whole(cluster)
            with cluster.suspended(decides):
                wait_for(lambda: cluster.decider(beside=decides), "another one decides")
                writers.wait_acks(100)
            wait_whole(cluster)
            writers.wait_acks(100)


def answer_of_get(connection):
    """The value that the client asked for; nothing where the proxy refused to read it."""
    line = connection.line()
    if not line.startswith(b"VALUE "):
        return None
    value = connection.file.read(int(line.split()[3]))
    assert connection.file.read(7) == b"\r\nEND\r\n"
    return value


def read_first(cluster, name, change):
    """That proxy is suspended. Meanwhile another one writes, change() is done, and clients ask the suspended one, so
    that to read is the first thing that it does when it goes on: it finds what was written, and nothing older."""
    other = next(proxy for proxy in cluster.proxies if proxy != name and proxy != cluster.decider())
    connections = {f"read_first/{name}/{i}": Raw(cluster.proxy_port(name)) for i in range(12)}
    own, others = (cluster.client(port=cluster.proxy_port(proxy)) for proxy in (name, other))
    sizes = dict(zip(connections, [100, 5000, 60_000, 300_000] * 3))
    for key, connection in connections.items():
        assert own.set(key, payload(sizes[key], "old"), noreply=False)
        connection.send(f"get {key}\r\n".encode())
        assert answer_of_get(connection) == payload(sizes[key], "old")
    with cluster.suspended(name):
        for key in connections:
            assert others.set(key, payload(sizes[key], "between"), noreply=False)
        change()
        for key, connection in connections.items():
            assert others.set(key, payload(sizes[key], "new"), noreply=False)
            connection.send(f"get {key}\r\n".encode())
    for key, connection in connections.items():
        while (found := answer_of_get(connection)) is None:
            connection.send(f"get {key}\r\n".encode())
        assert found == payload(sizes[key], "new"), f"{key} is old"
        connection.close()


def test_a_follower_that_was_suspended_reads_nothing_old(cluster):
    decides = wait_whole(cluster)
    follower = [name for name in cluster.proxies if name != decides][-1]
    third = next(name for name in cluster.proxies if name not in (decides, follower))

    def new_maps():
        cluster.kill(decides)
        wait_for(lambda: cluster.decider(beside=follower) == third, "the third one decides")
        cluster.kill("n2")
        wait_for(lambda: cluster.proxy_status(third).get("nodes", {}).get("lost") == 1, "n2 is lost")
        # Proxies that are silent are told of for longer than any lease is.
        wait_for(lambda: len(cluster.proxy_status(third).get("proxies", [])) == 1, "the others are forgotten")

    with load(cluster) as writers:
        read_first(cluster, follower, lambda: writers.wait_acks(100))
        read_first(cluster, follower, new_maps)
        cluster.restart(decides, "n2")
        assert wait_whole(cluster) == third
        writers.wait_acks(100)


def test_repair_goes_on_while_proxies_are_killed(make_cluster):
    cluster = make_cluster(nodes=8, scheme="ers:4,2,5", proxies=3,
                           settings=["repair.after_ms=200", "repair.rate=4MiB"])
    decides = wait_whole(cluster)
    values = store_objects(cluster, 40, 300_000)

    def restored(name):
        told = cluster.proxy_status(name)
        return told and told["repair"]["objects"]["restored"]

    with load(cluster) as writers:
        cluster.kill("n2")
        wait_for(lambda: restored(decides), "it is repaired")
        cluster.kill(decides)
        after = wait_for(lambda: cluster.decider(beside=decides), "another one decides")
        wait_for(lambda: restored(after), "the next one goes on")
        third = next(name for name in cluster.proxies if name not in (decides, after))
        with killed(cluster, third):
            writers.wait_acks(50)
        cluster.restart(decides)

        def is_settled():
            told = cluster.proxy_status(after)
            return told and told["epoch"]["number"] == told["repair"]["settled_epoch"]

        assert wait_whole(cluster) == after
        wait_for(is_settled, "nothing lacks a shard")
    # n2 is still gone: its shards are on the node that had none of the object.
    assert cluster.proxy_status(after)["nodes"]["lost"] == 1
    assert all(report["clean"] for report in cluster.scrub(*values))
    for name in cluster.proxies:
        client = cluster.client(port=cluster.proxy_port(name))
        assert all(client.get(key) == value for key, value in values.items())


@pytest.mark.parametrize("gone", [killed, Cluster.suspended])
def test_clients_of_other_proxies_are_served_while_nobody_decides(make_cluster, gone, record_property):
    # Each quarter of that is long enough for a request on a busy machine.
    settings = ["timing.suspect_after_ms=2500", "timing.lease_ms=7500"]
    cluster = make_cluster(nodes=8, scheme="ers:4,2,5", proxies=3, settings=settings)
    with Visits(cluster) as visits:
        service = check_service_beside(cluster, visits, gone)
    record_property("seconds of clients of the others", service)


def test_a_transition_and_updates_run_beside_a_change_of_the_decider(cluster):
    wait_whole(cluster)
    client = cluster.client(port=cluster.proxy_port("proxy2"))
    values = {f"object{i}": payload(200_000, i) for i in range(40)}
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    server = f"127.0.0.1:{cluster.proxy_port('proxy3')}"
    with load(cluster) as writers:
        cluster.kill("proxy")
        done = run("elastripe", "--server", server, "transition", "--prefix", "object", "--to", 5)
        assert "transitioned   40 objects" in done.stdout
        connection = Raw(cluster.proxy_port("proxy2"))
        for key in values:
            assert connection.ask(f"ms {key} 4 o7\r\nABCD\r\n".encode()) == b"HD\r\n"
            values[key] = values[key][:7] + b"ABCD" + values[key][11:]
        cluster.restart("proxy")
        wait_whole(cluster)
        writers.wait_acks(100)
    for name in cluster.proxies:
        client = cluster.client(port=cluster.proxy_port(name))
        for key, value in values.items():
            assert client.get(key) == value


def test_a_proxy_that_is_stopped_hands_over(cluster):
    decides = wait_whole(cluster)
    with load(cluster) as writers:
        before = failures_beside(cluster, writers, decides)
        os.kill(cluster.pid(decides), signal.SIGTERM)
        wait_for(lambda: cluster.pid(decides) == 0, "it has ended")
        # It decides until another one has taken over, and so hears of that.
        told = cluster.log(decides).rpartition("shutting down")[2]
        assert "another proxy is to decide first" in told and "event=deposed" in told
        wait_for(lambda: cluster.decider() not in (None, decides), "another one decides")
        writers.wait_acks(100)
        assert failures_beside(cluster, writers, decides) == before
        cluster.restart(decides)
        wait_whole(cluster)
