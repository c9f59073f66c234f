"""Clusters that heal themselves: what crashes take is made again, while clients work."""

import json
import os
import pty
import signal
import subprocess

from cluster import BIN, DEADLINE_S, Writers, check_objects, store_objects, wait_for


def test_all_nodes_are_restarted_one_by_one_and_nothing_is_written_again(make_cluster):
    cluster = make_cluster(nodes=6, scheme="ers:4,1,5")
    values = store_objects(cluster, 20, 300_000)
    with Writers(cluster, 2, [10, 2000, 100_000]) as writers:
        for name in [f"n{i}" for i in range(6)]:
            cluster.kill(name)
            cluster.restart(name)
            cluster.cli("node", "wait", name, "--timeout", 100)
            writers.wait_acks(20)
    writers.check()
    check_objects(cluster, values)
    assert cluster.metrics()["elastripe_repaired_shards_total"] > 0
    assert all(report["clean"] for report in cluster.scrub(*values))


def test_dead_nodes_are_made_up_for_on_spare_ones(make_cluster):
    cluster = make_cluster(nodes=9, scheme="ers:4,2,5", settings=["repair.after_ms=500"])
    values = store_objects(cluster, 20, 300_000)
    for dead in (("n0", "n1"), ("n2",)):
        cluster.kill(*dead)
        wait_for(lambda: all(cluster.node_states()[name] == "lost" for name in dead), "they are lost")
        check_objects(cluster, values)
        if dead == ("n0", "n1"):
            cluster.wait_settled()
            check_objects(cluster, values)
    # Six nodes are left, and an object needs seven: one more is to come back.
    wait_for(lambda: cluster.status()["repair"]["objects"]["refused"] > 0, "repair lacks a node")
    cluster.restart("n0")
    cluster.wait_settled()
    assert all(report["clean"] for report in cluster.scrub(*values))


def test_a_wait_ends_with_a_reason(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2", settings=["repair.automatic=false"])
    refused = cluster.cli("node", "wait", "n1", check=False)
    assert refused.returncode == 1 and "repair.automatic is off" in refused.stderr
    absent = cluster.cli("node", "wait", "n9", "--timeout", 0, check=False)
    assert absent.returncode == 1


def repair(cluster, *words, code=0):
    done = cluster.cli("--json", "repair", *words, check=False)
    assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def jobs(cluster):
    return json.loads(cluster.admin("/v1/jobs"))["jobs"]


def restart_empty(cluster, name):
    cluster.kill(name)
    cluster.restart(name)
    cluster.wait_serving()


def lacking(cluster):
    return cluster.status()["objects"]["lacking_shards"]


def test_an_operator_repairs_where_nothing_is_automatic(make_cluster):
    cluster = make_cluster(nodes=7, scheme="ers:4,2,5", settings=["repair.automatic=false"])
    values = store_objects(cluster, 20, 300_000)
    for name in ("n0", "n1"):
        restart_empty(cluster, name)
    wait_for(lambda: lacking(cluster) == len(values), "all of them lack shards")
    assert cluster.status()["objects"]["surviving"] == {"0": len(values)}
    assert cluster.metrics()['elastripe_objects_surviving{failures="0"}'] == len(values)
    assert f"redundancy  {len(values)} survive 0 further failures\n" in cluster.cli("status").stdout

    all_gone = repair(cluster, "--dry-run")["planned"]
    first, second = (repair(cluster, "--node", name, "--dry-run")["planned"] for name in ("n0", "n1"))
    assert all_gone["objects"] == len(values)
    assert first["shards"] + second["shards"] == all_gone["shards"] == 2 * len(values)
    text = cluster.cli("repair", "--dry-run", "--rate", "1M").stdout
    assert f"to restore     {len(values)} objects" in text and "by --rate" in text
    assert lacking(cluster) == len(values)

    of_one = repair(cluster, "--node", "n0", "--watch")
    assert of_one["done"]["shards"] == first["shards"] and of_one["counts"]["restored"] == len(values)
    assert repair(cluster, "--dry-run")["planned"]["shards"] == second["shards"]

    # Without --watch it goes on by itself, and can be seen.
    started = repair(cluster, "--rate", 1 << 20)
    assert started["state"] == "running"
    assert f"repair {started['id']}: " in cluster.cli("status").stdout
    refused = cluster.cli("repair", check=False)
    assert refused.returncode == 1 and f"repair {started['id']} is running" in refused.stderr
    wait_for(lambda: jobs(cluster)[-1]["state"] == "done", "it has ended")
    wait_for(lambda: lacking(cluster) == 0, "nothing is lacking")
    assert cluster.status()["objects"]["surviving"] == {"0": 0, "1": 0, "2": len(values)}
    check_objects(cluster, values)
    assert all(report["clean"] for report in cluster.scrub(*values))
    assert repair(cluster, "--watch")["counts"]["already_there"] == len(values)
    unknown = cluster.cli("repair", "--node", "n9", check=False)
    assert unknown.returncode == 1 and "no node has this name" in unknown.stderr


def test_a_repair_is_cancelled_and_tells_what_it_could_not_restore(make_cluster):
    cluster = make_cluster(nodes=6, scheme="ers:4,1,5", settings=["repair.automatic=false"])
    values = store_objects(cluster, 20, 300_000)
    restart_empty(cluster, "n0")
    slow = subprocess.Popen([BIN / "elastripe", "--server", f"127.0.0.1:{cluster.port}", "repair",
                             "--watch", "--rate", "1M", "--parallel", "1"], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: cluster.metrics()["elastripe_repaired_shards_total"] > 0, "some are restored")
    slow.send_signal(signal.SIGINT)
    out, err = slow.communicate(timeout=DEADLINE_S)
    assert slow.returncode == 130, err
    assert "cancelled after" in out and "What was restored stays so" in out and "cancelling" in err
    restored = jobs(cluster)[-1]["counts"]["restored"]
    assert 0 < restored < len(values)

    # One more than m is gone of those that are left.
    restart_empty(cluster, "n1")
    report = repair(cluster, "--watch", code=3)
    assert report["counts"]["refused"] == len(values) - restored
    assert report["counts"]["restored"] == restored
    assert "more shards are gone" in report["problems"][0]["reason"]


def test_an_operator_repairs_beside_automatic_repair(make_cluster):
    cluster = make_cluster(nodes=6, scheme="ers:4,1,5", settings=["repair.rate=2MiB"])
    values = store_objects(cluster, 20, 300_000)
    restart_empty(cluster, "n0")
    wait_for(lambda: cluster.status()["repair"]["objects"]["restored"] > 0, "automatic repair runs")
    report = repair(cluster, "--watch")
    assert report["state"] == "done" and report["counts"]["refused"] == 0
    assert report["counts"]["failed"] == 0, report["problems"]
    check_objects(cluster, values)
    cluster.wait_settled()
    assert all(report["clean"] for report in cluster.scrub(*values))


def test_the_status_is_watched(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rs:2,1")
    store_objects(cluster, 5, 300_000)
    shown = cluster.cli("watch", "--every", 0.1, "--count", 3).stdout
    assert shown.count("state       serving\n") == 3 and "\x1b" not in shown
    memory = cluster.status()["memory"]
    kinds = [memory[f"{kind}_bytes"] for kind in ("record", "shard", "other")]
    assert min(kinds) > 0 and sum(kinds) == memory["used_bytes"] and memory["shard_bytes"] > 5 * 450_000

    words = [BIN / "elastripe", "--server", f"127.0.0.1:{cluster.port}", "watch", "--every", "0.1"]
    controller, terminal = pty.openpty()
    with subprocess.Popen(words, stdout=terminal, stderr=subprocess.PIPE, text=True) as watching:
        os.close(terminal)
        drawn = b""
        while drawn.count(b"\x1b[H\x1b[J") < 3:
            drawn += os.read(controller, 4096)
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=DEADLINE_S)
        assert watching.returncode == 0 and err == ""
    os.close(controller)
    cluster.kill("proxy")
    away = cluster.cli("watch", check=False)
    assert away.returncode == 1 and away.stdout == ""
