"""elastripe node wait: what it tells of nodes that are back before anybody has missed them."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess

import pytest

from cluster import check_objects, run, store_objects, wait_for
from proxies import wait_whole


class Restarts:
    """Nodes are killed and started again at once, as a supervisor of theirs would."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.processes = {}

    def restart(self, name):
        pid = self.cluster.pid(name)
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.is_there(pid), f"{name} has ended")
        with open(self.cluster.dir / f"{name}.log", "a") as log:
            self.processes[name] = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)

    @staticmethod
    def is_there(pid):
        """A zombie has closed what it had open."""
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


@contextlib.contextmanager
def restarts_of(cluster):
    restarts = Restarts(cluster)
    try:
        yield restarts
    finally:
        restarts.end()


def node_of(cluster, proxy, name):
    nodes = json.loads(cluster.admin("/v1/nodes", proxy))["nodes"]
    return next(node for node in nodes if node["name"] == name)


def wait_through(cluster, proxy, name, *words, **options):
    return run("elastripe", "--server", f"127.0.0.1:{cluster.proxy_port(proxy)}", "node", "wait", name, *words,
               bin_dir=cluster.bin_dir, **options)


@pytest.mark.parametrize("role", ["decider", "follower"])
def test_who_waits_for_nodes_that_nobody_has_missed_yet_loses_nothing(make_cluster, role):
    cluster = make_cluster(nodes=6, scheme="ers:4,1,5", proxies=3)
    decides = wait_whole(cluster)
    asked = decides if role == "decider" else next(name for name in cluster.proxies if name != decides)
    values = store_objects(cluster, 20, 300_000)
    cluster.wait_settled()
    with restarts_of(cluster) as restarts:
        for name in ("n1", "n2", "n3"):
            before = node_of(cluster, decides, name)["incarnation"]
            restarts.restart(name)
            wait_through(cluster, asked, name, "--timeout", 100)
            assert node_of(cluster, asked, name)["incarnation"] != before
        check_objects(cluster, values)
        assert all(report["clean"] for report in cluster.scrub(*values))


def test_a_node_that_was_left_out_for_a_while_is_waited_for(make_cluster):
    """It is the same process that is back, and a proxy that follows may not know yet that it was away."""
    cluster = make_cluster(nodes=5, scheme="ers:2,1,3", proxies=3)
    decides = wait_whole(cluster)
    follower = next(name for name in cluster.proxies if name != decides)
    cluster.wait_settled()
    before = cluster.proxy_status(follower)["epoch"]["number"]
    with cluster.suspended(follower), cluster.suspended("n1"):
        wait_for(lambda: cluster.proxy_status(decides)["nodes"]["suspect"] == 1, "n1 is missed")
    wait_through(cluster, follower, "n1", "--timeout", 100)
    told = cluster.proxy_status(follower)
    assert told["epoch"]["number"] >= before + 2 and told["nodes"]["up"] == 5


def test_a_wait_goes_on_while_another_proxy_takes_over(make_cluster):
    cluster = make_cluster(nodes=5, scheme="ers:2,1,3", proxies=3)
    decides = wait_whole(cluster)
    asked = next(name for name in cluster.proxies if name != decides)
    values = store_objects(cluster, 10, 100_000)
    cluster.wait_settled()
    with restarts_of(cluster) as restarts:
        before = node_of(cluster, asked, "n1")["incarnation"]
        restarts.restart("n1")
        cluster.kill(decides)
        wait_through(cluster, asked, "n1", "--timeout", 100)
        assert node_of(cluster, asked, "n1")["incarnation"] != before
        restarts.restart("n2")
        wait_through(cluster, asked, "n2", "--timeout", 100)
        client = cluster.client(port=cluster.proxy_port(asked))
        assert all(client.get(key) == value for key, value in values.items())
        cluster.restart(decides)


def test_a_name_that_no_node_has_is_not_waited_for(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2")
    absent = cluster.cli("node", "wait", "n9", check=False, timeout=30)
    assert absent.returncode == 1 and "no node is named n9" in absent.stderr


def test_what_is_waited_for_is_told(make_cluster):
    cluster = make_cluster(nodes=3, scheme="rep:2")
    cluster.cli("node", "wait", "n1", "--timeout", 0)  # takes as long as it takes to know it
    cluster.kill("n1")
    wait_for(lambda: cluster.node_states()["n1"] == "lost", "n1 is lost")
    ended = cluster.cli("node", "wait", "n1", "--timeout", 5, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == ["waiting: node n1 is lost", "elastripe: node n1 is lost, after 5 s"]
