"""Nodes and proxies that come back, take over, or are too few."""

import json
import signal
import urllib.request

import pytest
from pymemcache.exceptions import MemcacheError

from cluster import DEADLINE_S, Cluster, another_proxy, free_ports, payload, run, wait_for

MIB = 1024 * 1024


def test_a_restarted_empty_node_syncs_its_records_and_takes_new_shards(make_cluster):
    cluster = make_cluster(nodes=7, scheme="ers:4,2,5")
    client = cluster.client()
    values = {f"key{i}": payload(2000, i) for i in range(200)}
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    cluster.kill("n2")
    wait_for(lambda: cluster.node_states()["n2"] == "lost", "n2 is lost")
    cluster.restart("n2")
    cluster.wait_serving()
    assert cluster.json("node", "n2")["partitions_home"] > 0
    assert int(cluster.node_client(2).stats()[b"curr_items"]) > 0, "n2 holds synced records"
    # all seven nodes are needed for a stripe of seven shards
    assert client.set("large", payload(MIB, "large"), noreply=False)
    shards = cluster.object("large")["segments"][0]["shards"]
    assert "n2" in {shard["node"] for shard in shards}
    # n2 is a full home again: any two others may die
    cluster.kill("n0", "n5")
    for key, value in values.items():
        assert client.get(key) == value
    assert client.get("large") == payload(MIB, "large")


def test_a_restart_returns_when_the_proxy_has_taken_the_new_process_back(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2")

    def incarnations():
        nodes = cluster.json("node")["nodes"]
        assert all(node["state"] == "up" for node in nodes), nodes
        return {node["name"]: node["incarnation"] for node in nodes}

    before = incarnations()
    cluster.restart("n1")  # which ran
    after = incarnations()
    assert [n for n in before if before[n] != after[n]] == ["n1"]
    cluster.kill("n2")
    cluster.restart("n2")
    assert incarnations()["n2"] != before["n2"]
    # without a proxy there is nobody to wait for
    cluster.kill("proxy")
    cluster.restart("n0")
    cluster.restart("proxy")
    # it serves by the map that it finds, until it is sure that nobody else decides
    wait_for(lambda: incarnations()["n0"] != before["n0"], "n0 is taken back")


def test_a_new_proxy_needs_only_the_configuration_and_the_nodes(make_cluster):
    cluster = make_cluster(nodes=7, scheme="ers:4,2,5")
    values = {f"key{i}": payload([100, 200_000][i % 2], i) for i in range(50)}
    client = cluster.client()
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    epoch = cluster.status()["epoch"]["number"]
    cluster.kill("proxy")
    cluster.restart("proxy")
    client = cluster.client()
    for key, value in values.items():
        assert client.get(key) == value
    wait_for(lambda: cluster.status()["epoch"]["number"] > epoch, "it decides")
    for key, value in values.items():
        assert client.get(key) == value


def status_at(port):
    """The status that the proxy at that admin port tells; nothing if there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/status", timeout=DEADLINE_S) as answer:
            return json.load(answer)
    except OSError:
        return {}


def is_done(call):
    """Whether that works by now. Connections of before may have ended."""
    try:
        return call()
    except (MemcacheError, OSError):
        return False


def test_of_two_proxies_the_first_decides_and_both_serve(make_cluster):
    cluster = make_cluster(nodes=7, scheme="ers:4,2,5")
    large = payload(3 * MIB, "large")
    first = cluster.client()
    assert first.set("key", b"by the first", noreply=False)
    ports = free_ports(2)
    words = ["--set", f"listen.port={ports}", "--set", f"admin.port={ports + 1}"]
    with another_proxy(cluster, *words) as second_process:
        second = cluster.client(port=ports)
        wait_for(lambda: is_done(lambda: second.set("key2", large, noreply=False)), "the second proxy serves")
        assert cluster.status()["decides"] and not status_at(ports + 1)["decides"]
        assert first.get("key2") == large and second.get("key") == b"by the first"
        # One after the other, each through the other proxy: what was answered is seen by both.
        for number in range(200):
            writer, reader = (first, second) if number % 2 else (second, first)
            value = b"%d" % number
            assert writer.set("turns", value, noreply=False)
            assert reader.get("turns") == value
        # Each tells of both; what only the first does is asked of any.
        wait_for(lambda: len(cluster.status()["proxies"]) == 2 == len(status_at(ports + 1)["proxies"]),
                 "they know each other")
        assert [proxy["decides"] for proxy in status_at(ports + 1)["proxies"]] == [False, True]
        through_second = ["elastripe", "--server", f"127.0.0.1:{ports}"]
        shown = run(*through_second, "status").stdout
        assert f"127.0.0.1:{cluster.port} decides" in shown
        assert second.flush_all(noreply=False)
        assert first.get("key2") is None and second.get("turns") is None
        assert second.set("key2", large, noreply=False)
        done = run(*through_second, "node", "declare-dead", "n1", "--yes", check=False)
        assert done.returncode == 1 and "n1 answers" in done.stderr
        # A map that the first makes is the second one's, too.
        cluster.kill("n3")
        wait_for(lambda: "lost" in str(status_at(ports + 1)["nodes"]), "the second hears of it")
        assert second.get("key2") == large
        # The first is gone without a word: the second takes its place, and its clients see nothing.
        # A newer epoch alone would not tell: the first makes maps of n3's rounds until its end.
        cluster.kill("proxy")
        number, status = 0, {}
        while number < 200 or not (status["decides"] and status["state"] == "serving"):
            status = status_at(ports + 1)
            assert status["epoch"]["number"] > 0, "it shows what it serves by while it takes over"
            number += 1
            assert second.set("meanwhile", b"%d" % number, noreply=False)
            assert second.get("meanwhile") == b"%d" % number
        # It comes back and follows; and decides again when it is asked to.
        cluster.restart("proxy")
        assert not cluster.status()["decides"]
        first = cluster.client()
        second_process.send_signal(signal.SIGTERM)
        while not cluster.status()["decides"]:
            assert first.set("meanwhile", b"by the first", noreply=False)
        wait_for(lambda: cluster.is_serving(up=6), "the first decides again")
        assert first.set("meanwhile", b"by the first", noreply=False)
        assert first.get("key2") == large and first.get("meanwhile") == b"by the first"


def test_without_enough_nodes_striped_writes_are_refused_with_the_reason(make_cluster):
    cluster = make_cluster(nodes=7, scheme="ers:4,2,5",
                           settings=['pools.1={prefix: "soft/", scheme: "ers:4,2,5", '
                                     'degraded_writes: true}'])
    client = cluster.client()
    large = payload(MIB, "large")
    assert client.set("before", large, noreply=False)
    cluster.kill("n1", "n6")
    assert client.get("before") == large
    with pytest.raises(MemcacheError, match="node"):
        client.set("after", large, noreply=False)
    assert client.get("after") is None
    assert client.set("small", b"inline needs three homes", noreply=False)
    assert client.set("soft/after", large, noreply=False), "the pool allows degraded writes"
    assert client.get("soft/after") == large
    shards = cluster.object("soft/after")["segments"][0]["shards"]
    assert [shard["node"] is None for shard in shards].count(True) == 2
    assert cluster.cli("object", "soft/after").stdout.count("(not written)") == 2


def test_metrics_tell_what_the_flows_of_all_threads_have_counted(make_cluster):
    cluster = make_cluster(nodes=4, scheme="rs:2,1")
    large = payload(MIB, "large")
    assert cluster.client().set("large", large, noreply=False)
    shards = cluster.object("large")["segments"][0]["shards"]
    victim = next(shard["node"] for shard in shards if shard["role"] == "D0")
    # what the nodes store is as old as their last heartbeat
    wait_for(lambda: cluster.metrics()['elastripe_stored_bytes{kind="shard"}'] > 1.5 * MIB,
             "the nodes tell the shards")
    before = cluster.metrics()
    assert before[f'elastripe_node_up{{node="{victim}"}}'] == 1
    assert before["elastripe_degraded_reads_total"] == 0
    assert before['elastripe_commands_total{command="set",status="ok"}'] == 1
    assert before[
        'elastripe_request_duration_seconds_count{command="set",path="striped"}'] == 1
    cluster.kill(victim)
    wait_for(lambda: cluster.is_serving(up=3), "the others serve")
    # connections are dealt to the threads in turn
    for client in [cluster.client() for _ in range(4)]:
        assert client.get("large") == large
    wait_for(lambda: cluster.metrics()["elastripe_degraded_reads_total"] >= 4, "4 degraded reads")
    after = cluster.metrics()
    assert after["elastripe_degraded_reads_total"] == 4
    assert after[
        'elastripe_request_duration_seconds_count{command="get",path="degraded"}'] == 4
    assert after["elastripe_partition_syncs_total"] > 0, "what the control thread counts"
    assert after[f'elastripe_node_up{{node="{victim}"}}'] == 0
    assert after['elastripe_partitions{state="synced"}'] == 1024
    assert after["elastripe_epoch"] > before["elastripe_epoch"]


def test_more_crashes_than_the_scheme_survives_are_errors_never_misses_or_wrong_bytes(
        make_cluster):
    cluster = make_cluster(nodes=9, scheme="ers:4,1,5", settings=["timing.lease_ms=1500"])
    client = cluster.client()
    values = {f"key{i}": payload([50, 3000, 100_000, MIB][i % 4], i) for i in range(160)}
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    cluster.kill("n2", "n3")
    lost = intact = 0
    for key, value in values.items():
        try:
            found = client.get(key)
        except MemcacheError as error:
            assert str(error), "an error says why"
            lost += 1
            continue
        assert found == value, f"{key}: {'a miss' if found is None else 'wrong bytes'}"
        intact += 1
    assert lost > 0 and intact > 0
    # a conditional write must not take a lost key for an absent one
    refused = 0
    for key in list(values)[:40]:
        try:
            assert not client.add(key, b"added", noreply=False), f"{key} was added over"
        except MemcacheError:
            refused += 1
    assert refused > 0
    # a blind SET revives its key
    for key in list(values)[:40]:
        assert client.set(key, b"revived", noreply=False)
        assert client.get(key) == b"revived"


def test_only_a_loss_that_exists_can_be_accepted(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2")
    client = cluster.client()
    values = {f"key{i}": payload(2000, i) for i in range(60)}
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    refused = cluster.cli("accept-loss", check=False)
    assert refused.returncode == 1 and "nothing is lost" in refused.stderr
    cluster.kill("n0", "n1")
    cluster.restart("n0", "n1")
    lost = cluster.status()["partitions"]["lost"]
    assert lost > 0
    for key, value in values.items():
        try:
            assert client.get(key) == value
        except MemcacheError as error:
            assert "lost: every home of the key's partition crashed" in str(error)
    assert cluster.cli("accept-loss").stdout == f"accepted: {lost} partitions start empty\n"
    cluster.wait_serving()
    found = {key: client.get(key) for key in values}
    assert all(value in (None, values[key]) for key, value in found.items())
    assert None in found.values()


def test_a_cluster_refuses_to_start_twice_and_on_taken_ports(make_cluster, tmp_path):
    cluster = make_cluster(nodes=3, scheme="rep:3")
    again = cluster.cli("cluster", "start", "--dir", cluster.dir, "--nodes", 3, check=False)
    assert again.returncode == 1 and "runs in" in again.stderr
    taken = cluster.cli("cluster", "start", "--dir", tmp_path / "other", "--nodes", 3,
                        "--scheme", "rep:3", "--port", cluster.port - 1, check=False)
    assert taken.returncode == 1 and f"port {cluster.port} is taken" in taken.stderr
    few = cluster.cli("cluster", "start", "--dir", tmp_path / "few", "--nodes", 6, "--scheme",
                      "ers:4,2,5", "--port", free_ports(8), check=False)
    assert few.returncode == 1 and "7" in few.stderr, few.stderr


def test_the_command_stores_reads_and_removes_files(make_cluster, tmp_path):
    cluster = make_cluster(nodes=7, scheme="ers:4,2,5")
    source = tmp_path / "source"
    source.write_bytes(payload(3 * MIB + 1, "file"))
    cluster.cli("put", "a/file", source)
    cluster.cli("get", "a/file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    assert "a/file" in cluster.cli("object", "a/file").stdout
    cluster.cli("remove", "a/file")
    gone = cluster.cli("get", "a/file", tmp_path / "copy", check=False)
    assert gone.returncode == 1 and "not_found" in gone.stderr
    for words in (["status"], ["node"], ["node", "n0"]):
        assert cluster.cli(*words).stdout
        json.loads(cluster.cli("--json", *words).stdout)
