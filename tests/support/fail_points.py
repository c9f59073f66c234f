"""Processes that die at a fail point (server-patches/node/format/fail_point.h), and what they leave
on nodes."""

import contextlib
import json
import os
import signal
import urllib.parse

from cluster import run, wait_for


def fail_points(process, *prefixes, but=()):
    """Those that this build's `process` has, from the error that it starts with: those that begin
    with a prefix, if there are any, and with none of `but`."""
    words = ["--config", "/dev/null"] if process == "proxy" else []
    done = run(f"elastripe-{process}", *words, check=False,
               env=os.environ | {"ELASTRIPE_FAIL_POINT": "none"})
    assert done.returncode != 0
    names = done.stderr.partition("only these fail points: ")[2].split()
    names = [name for name in names if name.startswith(prefixes or "") and not name.startswith(but)]
    assert names, done.stderr
    return names


class Armed:
    """A process that dies at a fail point from trigger() on, the `passes`-th time."""

    def __init__(self, cluster, name, point, directory, passes=1):
        self.cluster = cluster
        self.name = name
        self.point = point
        self.passes = passes
        self.trigger_file = directory / f"{name}-{point.replace('/', '-')}"
        self.trigger_file.unlink(missing_ok=True)
        self.earlier_deaths = cluster.log(name).count(self.last_words())
        self.pid = None

    def last_words(self):
        return f"fail point {self.point}: this process kills itself\n"

    def environment(self):
        return {"ELASTRIPE_FAIL_POINT": f"{self.point}:{self.passes}@{self.trigger_file}"}

    def restart(self):
        self.cluster.restart(self.name, **self.environment())
        self.pid = self.cluster.pid(self.name)

    def trigger(self):
        self.trigger_file.touch()

    def has_died(self):
        """Whether it died; only at its fail point, by SIGKILL."""
        if self.pid is None:
            return True
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return False
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (
            f"{self.name} ended with {status}")
        assert self.cluster.log(self.name).count(self.last_words()) == self.earlier_deaths + 1, (
            f"{self.name} died elsewhere")
        self.pid = None
        return True

    def wait_death(self):
        wait_for(self.has_died, f"{self.name} dies at {self.point}")
        self.trigger_file.unlink()


def inspect(cluster, key):
    return json.loads(cluster.admin(f"/v1/objects/{urllib.parse.quote(key, safe='')}"))


def stored_shards(cluster):
    """{node: shards that it holds}; none while a node does not answer."""
    counts = {}
    for i in range(cluster.nodes):
        with contextlib.closing(cluster.node_client(i)) as client:
            counts[f"n{i}"] = int(client.stats("elastripe")[b"shards"])
    return counts


def wait_no_leaks(cluster, values):
    """Waits until the nodes hold what the records refer to, and nothing else."""
    expected = {f"n{i}": 0 for i in range(cluster.nodes)}
    for key in values:
        for segment in inspect(cluster, key)["segments"]:
            for shard in segment["shards"]:
                expected[shard["node"]] += not shard["missing"]
    wait_for(lambda: stored_shards(cluster) == expected,
             lambda: f"only {expected} are stored, not {stored_shards(cluster)}")


def remove(cluster, values):
    client = cluster.client()
    for key in values:
        assert client.delete(key, noreply=False)
    wait_no_leaks(cluster, {})
