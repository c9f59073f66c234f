"""Settings that all proxies of a cluster have in common."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

import pytest

from cluster import BIN, Raw, Writers, another_proxy, free_ports, payload, run, wait_for

ROLLED = ["rs:3,2", "ers:4,2,5", "rep:3"]


@pytest.fixture(name="cluster")
def three_proxies(make_cluster):
    return make_cluster(nodes=8, scheme="ers:4,2,5", proxies=3, settings=["timing.lease_ms=3000"])


def server(cluster, name="proxy"):
    return f"127.0.0.1:{cluster.proxy_port(name)}"


def show(cluster, name="proxy"):
    return json.loads(run("elastripe", "--json", "--server", server(cluster, name), "config", "show").stdout)


def change(cluster, *words, name="proxy", check=True):
    return run("elastripe", "--server", server(cluster, name), "config", "set", *words, check=check)


def post_settings(cluster, name, *settings):
    """The version that is answered at once, where the command would look whether that is served."""
    first = name == cluster.proxies[0]
    port = cluster.port + cluster.nodes + 1 if first else cluster.proxy_port(name) + 1
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/settings",
                                     json.dumps({"set": settings}).encode(), {"X-Elastripe": "settings"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["version"]


def in_force(cluster, name):
    """What `stats settings` of that proxy tells."""
    raw = Raw(cluster.proxy_port(name))
    lines = raw.ask(b"stats settings\r\n").decode().splitlines()
    raw.close()
    return dict(line.split(" ", 2)[1:] for line in lines if line.startswith("STAT "))


def wait_followed(cluster, setting, value):
    def follow():
        return all(in_force(cluster, name).get(setting) == value for name in cluster.proxies)
    wait_for(follow, f"all proxies have {setting} {value}")


def test_any_proxy_changes_the_settings_of_all(cluster):
    assert show(cluster)["version"] == 1
    assert "prefix:" in show(cluster)["settings"]
    sizes = [100, 3000, 200_000]
    ports = [cluster.proxy_port(name) for name in cluster.proxies]
    with Writers(cluster, 3, sizes, ports=ports) as writers:
        writers.wait_acks(50)
        failures = sum(ledger.failures for ledger in writers.ledgers)
        for version, (name, scheme) in enumerate(zip(cluster.proxies, ROLLED), 2):
            change(cluster, f"pools.0.scheme='{scheme}'", f"timing.lease_ms={2000 + version}", name=name)
            wait_followed(cluster, "lease_ms", str(2000 + version))
            assert {show(cluster, at)["version"] for at in cluster.proxies} == {version}
            writers.wait_acks(50)
        # More copies of all records than before, while clients write.
        change(cluster, "pools.1={prefix: many/, scheme: 'rep:4'}")
        wait_followed(cluster, "pool_many/", "rep:4")
        writers.wait_acks(50)
        assert sum(ledger.failures for ledger in writers.ledgers) == failures
    for name in cluster.proxies:
        client = cluster.client(port=cluster.proxy_port(name))
        assert client.set(f"many/{name}", payload(100_000, 1), noreply=False)
        for ledger in writers.ledgers:
            ledger.check(client)
    assert cluster.object("many/proxy2")["scheme"] == "rep:4"


def test_settings_outlive_the_proxy_that_decides(cluster):
    change(cluster, "timing.heartbeat_ms=50", "timing.suspect_after_ms=400", "timing.lease_ms=900")
    wait_followed(cluster, "lease_ms", "900")
    decides = wait_for(cluster.decider, "one decides")
    # Whoever takes over may pass over a map that some node has not got yet. So it is not answered.
    pid = cluster.pid("n7")
    os.kill(pid, signal.SIGSTOP)
    try:
        assert post_settings(cluster, decides, "timing.lease_ms=1000") == 3
        assert show(cluster, decides)["version"] == 3
    finally:
        os.kill(pid, signal.SIGCONT)
    cluster.wait_serving()
    cluster.kill(decides)
    others = [name for name in cluster.proxies if name != decides]
    wait_for(lambda: cluster.decider() in others, "another one decides")
    assert show(cluster, others[0])["version"] == 3
    change(cluster, "timing.lease_ms=1200", name=others[1])
    wait_for(lambda: [show(cluster, name)["version"] for name in others] == [4, 4], "both have it")
    cluster.restart(decides)
    wait_followed(cluster, "lease_ms", "1200")
    # What its file says otherwise is logged, and nothing that the file leaves to its default.
    assert "and not these of the file: timing.lease_ms=3000\n" in cluster.log(decides)


def test_what_is_wrong_is_refused_and_changes_nothing(cluster):
    def settings():
        """Without the epoch: another map may come for another reason."""
        return {what: value for what, value in show(cluster).items() if what != "epoch"}

    before = settings()
    for wrong, reason in [
            (["timing.lease_ms=20"], "timing.lease_ms"),
            (["timing.lease_ms=500"], "must be above suspect_after_ms"),
            (["timing.lease_ms=4000", "pools.0.scheme='rs:7,2'"], "needs 9 nodes (k' + m), 8 are listed"),
            (["pools.0.log_copies=two"], "have them recycled first"),
            (["limits.connections=5"], "is not the cluster's: set it in the file of each proxy"),
            (["no.such=5"], "no"),
            (["pools.0.prefix=x"], "one pool must have the empty prefix"),
            (["timing.lease_ms=4000", "--of-version", "7"], "of version 1 by now, not of 7")]:
        done = change(cluster, *wrong, check=False)
        assert done.returncode == 1 and reason in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert settings() == before
    change(cluster, "timing.lease_ms=3000")
    assert settings() == before, "what is so already makes no version"
    change(cluster, "--recycled", "pools.0.log_copies=two", "--of-version", "1")
    assert show(cluster)["version"] == 2


def ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


def test_a_proxy_with_another_file_follows_or_serves_nothing(cluster):
    port = free_ports(2)
    own = ["--set", f"listen.port={port}", "--set", f"admin.port={port + 1}"]
    values = {}
    with another_proxy(cluster, *own, "--set", "pools=[{prefix: '', scheme: 'rs:2,1'}]",
                       "--set", "timing.tombstone_keep_ms=20000"):
        wait_for(lambda: ready(port + 1) == "ok\n", "it serves")
        client = cluster.client(port=port)
        values["by_another"] = payload(300_000, 5)
        assert client.set("by_another", values["by_another"], noreply=False)
        assert cluster.object("by_another")["scheme"] == "ers-2:4,2,5"
    log = (cluster.dir / "another.log").read_text()
    assert "timing.tombstone_keep_ms=20000, pools" in log
    # Shards of a quarter of 40 MiB do not fit into a frame.
    change(cluster, "pools.0.scheme='rs:6,2'")
    config = ["--set", "segment_bytes=40MiB", "--set", "pools.0.scheme='rs:6,2'"]
    with another_proxy(cluster, *own, *config):
        wait_for(lambda: ready(port + 1) == "ok\n", "it serves: a sixth fits")
        change(cluster, "pools.0.scheme='ers:4,2,5'")
        wait_for(lambda: "a shard of ers-2:4,2,5 would be above" in ready(port + 1),
                 lambda: f"it tells why it does not serve: {ready(port + 1)}")
        assert cluster.client().get("by_another") == values["by_another"]
        change(cluster, "pools.0.scheme='rs:6,2'")
        wait_for(lambda: ready(port + 1) == "ok\n", "it serves again")
        assert cluster.client(port=port).get("by_another") == values["by_another"]


def test_a_proxy_that_joins_needs_one_address(cluster, tmp_path):
    change(cluster, "pools.1={prefix: few/, scheme: 'rs:2,1'}")
    port = free_ports(2)
    file = tmp_path / "joins.yaml"
    file.write_text(json.dumps({"join": f"127.0.0.1:{cluster.port + 1 + 3}", "listen": {"port": port},
                                "admin": {"port": port + 1}}))
    cluster.kill("n3")
    with open(tmp_path / "joins.log", "w") as log:
        proxy = subprocess.Popen([BIN / "elastripe-proxy", "--config", file], stdout=log,
                                 stderr=subprocess.STDOUT)
    try:
        def told():
            return (tmp_path / "joins.log").read_text()
        wait_for(lambda: "trying again" in told(), "it can not ask that node")
        cluster.restart("n3")
        wait_for(lambda: ready(port + 1) == "ok\n", lambda: f"it serves: {told()}")
        client = cluster.client(port=port)
        value = payload(300_000, 5)
        assert client.set("few/key", value, noreply=False)
        assert cluster.object("few/key")["scheme"] == "rs:2,1"
        os.kill(proxy.pid, signal.SIGHUP)
        wait_for(lambda: "changed settings: none" in told(), "it reads its file again")
        assert "needs a restart" not in told()
        # It decides when all others have gone.
        cluster.kill(*cluster.proxies)
        wait_for(lambda: "event=takes_over" in told(), "it takes over")
        wait_for(lambda: client.get("few/key") == value, "it serves what was there")
        done = run("elastripe", "--server", f"127.0.0.1:{port}", "config", "set", "timing.lease_ms=4000")
        assert "version 3" in done.stdout
        cluster.restart(*cluster.proxies)
    finally:
        proxy.terminate()
        assert proxy.wait(30) == 0


def test_a_file_that_joins_is_checked(tmp_path):
    def refused(**settings):
        file = tmp_path / "joins.yaml"
        file.write_text(json.dumps(settings))
        done = run("elastripe-proxy", "--config", file, "--check-config", check=False)
        assert done.returncode == 1
        return done.stderr

    assert "join: is 'here', must be host:port" in refused(join="here")
    node = {"name": "n", "host": "127.0.0.1", "port": 5}
    assert "takes the place of nodes" in refused(join="127.0.0.1:5", nodes=[node])
    assert "at least one node" in refused(cluster="none")


def test_the_proxy_that_decides_refuses_what_it_could_not_follow(cluster, tmp_path):
    cluster.kill("proxy2", "proxy3")
    port = free_ports(2)
    own = ["--set", f"listen.port={port}", "--set", f"admin.port={port + 1}"]
    with another_proxy(cluster, *own, "--set", "timing.hedge_after_ms=3000"):
        wait_for(lambda: ready(port + 1) == "ok\n", "it serves")
        cluster.kill("proxy")
        wait_for(lambda: "event=takes_over" in (cluster.dir / "another.log").read_text(), "it decides")
        cluster.restart("proxy")
        cluster.wait_serving()
        done = change(cluster, "timing.request_timeout_ms=2000", "timing.upload_idle_ms=2000", check=False)
        assert "the proxy that decides could not follow" in done.stderr
        assert "hedge_after_ms" in done.stderr
        change(cluster, "timing.request_timeout_ms=4000")
        assert show(cluster)["version"] == 2
        assert cluster.client(port=port).set("key", "value", noreply=False)
