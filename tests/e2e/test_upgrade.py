"""A cluster whose programs are replaced by newer ones while clients work."""

import json
import shutil
import subprocess

from cluster import BIN, Writers, payload, wait_for

ALL = ("moved_shards, members, shard_fingerprints, shard_patches, update_logs, shard_updates, "
       "unnumbered_updates, marks, settings, even_ring")


def install(bin_dir, build):
    """Puts the programs of that build in the place of others, as a package manager does."""
    for program in ("elastripe-node", "elastripe-proxy"):
        shutil.copy(BIN / f"{program}{build}", bin_dir / "next")
        (bin_dir / "next").rename(bin_dir / program)


def reason(cluster):
    """Why the proxy does not serve; empty until it can be asked."""
    try:
        return json.loads(cluster.admin("/v1/status"))["reason"]
    except OSError:
        return ""


def test_nodes_then_the_proxy_are_upgraded_one_by_one(make_cluster, tmp_path):
    shutil.copy(BIN / "elastripe", tmp_path)
    install(tmp_path, "-older")
    cluster = make_cluster(nodes=4, scheme="ers:2,1,3", bin_dir=tmp_path)
    assert cluster.status()["capabilities"] == "none"
    client = cluster.client()
    assert client.set("large", payload(300_000, 1), noreply=False)

    install(tmp_path, "")
    with Writers(cluster, 2, [10, 2000]) as writers:
        for name in ("n0", "n1", "n2", "n3"):
            epoch = cluster.status()["epoch"]["number"]
            cluster.kill(name)
            cluster.restart(name)
            wait_for(lambda: cluster.status()["epoch"]["number"] > epoch, f"{name} is missed")
            cluster.wait_serving()
            # What it had of large objects is gone until they are written again: repair waits for
            # builds that know moved shards.
            assert client.set("large", payload(300_000, 1), noreply=False)
            writers.wait_acks(50)
    writers.check()
    assert cluster.status()["capabilities"] == "none"
    cluster.kill("proxy")
    cluster.restart("proxy")
    cluster.wait_serving()
    wait_for(lambda: "moved_shards" in cluster.status()["capabilities"], "the new proxy decides")
    assert cluster.client().get("large") == payload(300_000, 1)


def test_older_programs_stay_out_of_a_cluster_that_is_ahead_of_them(make_cluster, tmp_path):
    shutil.copy(BIN / "elastripe", tmp_path)
    install(tmp_path, "")
    cluster = make_cluster(nodes=3, scheme="rep:2", bin_dir=tmp_path)
    client = cluster.client()
    assert client.set("key", "value", noreply=False)

    install(tmp_path, "-older")
    cluster.kill("n2")
    restarted = cluster.cli("cluster", "restart", "--dir", cluster.dir, "n2", check=False)
    assert restarted.returncode == 1 and f"lacks {ALL}" in restarted.stderr
    lacks = {node["name"]: node["lacks"] for node in json.loads(cluster.admin("/v1/nodes"))["nodes"]}
    assert lacks == {"n0": "", "n1": "", "n2": ALL}
    cluster.wait_serving(up=2)
    assert cluster.node_states()["n2"] == "lost"
    assert "event=too_old node=n2 lacks=" in cluster.log("proxy")
    assert client.set("key", "newer value", noreply=False)

    cluster.kill("proxy")
    with subprocess.Popen([tmp_path / "elastripe-proxy", "--config", cluster.dir / "elastripe.yaml"],
                          stderr=subprocess.DEVNULL) as proxy:
        try:
            wait_for(lambda: "this proxy is too old" in reason(cluster), "the older proxy waits")
        finally:
            proxy.terminate()
    assert proxy.returncode == 0
    install(tmp_path, "")
    cluster.kill("n2")
    cluster.restart("n2", "proxy")
    cluster.wait_serving()
    assert cluster.client().get("key") == b"newer value"
