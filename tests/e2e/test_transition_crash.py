"""Processes die between two steps of a transition: at every named fail point of a proxy and of a
node (server-patches/node/format/fail_point.h), forward and backward, in both executions.

Repair is off, so that it is known which objects are whole: one that lost shards with a node reads
back, and is refused by the transitions that follow; those that are whole must go. All are written
anew for the next case. (test_transition_kills.py has transitions beside repair.)
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import urllib.parse

import pytest

from cluster import BIN, DEADLINE_S, payload, run, wait_for

SCHEME = "ers:4,2,5"
K, K_PRIME, M = 4, 5, 2
SEGMENT_BYTES = 64 * 1024
WINDOW_SEGMENTS = 4
# one short segment, one, two, a window and one more, three windows
SIZES = [20_000, 65_536, 100_000, 300_000, 600_000]
SETTINGS = [f"segment_bytes={SEGMENT_BYTES}", "timing.suspect_after_ms=500",
            "timing.lease_ms=1500", "timing.read_grace_ms=300", "timing.upload_idle_ms=800",
            "repair.automatic=false"]
STATES = {K: "k", K_PRIME: "k'"}
VICTIMS = ("n2", "n6")


def fail_points(process):
    """All that this build's `process` has, from the error that it starts with."""
    words = ["--config", "/dev/null"] if process == "proxy" else []
    done = run(f"elastripe-{process}", *words, check=False,
               env=os.environ | {"ELASTRIPE_FAIL_POINT": "none"})
    assert done.returncode != 0
    names = done.stderr.partition("only these fail points: ")[2].split()
    assert names, done.stderr
    return names


@pytest.fixture(scope="module", autouse=True)
def parent_of_all():
    """The processes that `elastripe cluster` leaves behind become this one's, so that it can ask
    how they ended."""
    pr_set_child_subreaper = 36
    libc = ctypes.CDLL(None)
    assert libc.prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(pr_set_child_subreaper, 0, 0, 0, 0) == 0


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=9, scheme=SCHEME, memory_mb=256, settings=SETTINGS)


@pytest.mark.parametrize("value", ["none", "", "shard-read/done:0", "shard-read/done:1x",
                                   "shard-read/done:", "transition/all-staged"])
def test_a_node_refuses_to_start_with_what_is_no_fail_point_of_its_own(value):
    done = run("elastripe-node", "--port", 0, check=False,
               env=os.environ | {"ELASTRIPE_FAIL_POINT": value})
    assert done.returncode == 2 and f"ELASTRIPE_FAIL_POINT={value}: " in done.stderr


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


def transition(cluster, to, execution, prefix=None):
    """The report."""
    which = ["--prefix", prefix] if prefix else ["--all"]
    done = cluster.cli("--json", "transition", *which, "--to", to, "--execution", execution,
                       check=False)
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


@contextlib.contextmanager
def transition_that_may_break_off(cluster, to, execution):
    """Runs beside the block, and has ended after it: well, or because its proxy is gone."""
    command = [BIN / "elastripe", "--server", cluster.server, "transition", "--all", "--to", to,
               "--execution", execution]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        yield
        _, problem = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0 or process.returncode == 1 and "run it again" in problem, (
            problem)
    finally:
        process.kill()


def write(cluster, prefix):
    values = {f"{prefix}{size}": payload(size, prefix) for size in SIZES}
    client = cluster.client()
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    return values


def inspect(cluster, key):
    return json.loads(cluster.admin(f"/v1/objects/{urllib.parse.quote(key, safe='')}"))


def is_whole(shown):
    return shown["missing_shards"] == shown["unreachable_shards"] == 0


def check_objects(cluster, values):
    """Every value, byte for byte; every window is in one of the two states; parities match data.
    The reports."""
    client = cluster.client()
    reports = {}
    for scrubbed in cluster.scrub(*values):
        for segment in scrubbed["segments"]:
            assert not segment["wrong"] and segment["data_matches"], (scrubbed["key"], segment)
    for key, value in values.items():
        assert client.get(key) == value, key
        shown = inspect(cluster, key)
        states = [segment["state"] for segment in shown["segments"]]
        assert set(states) <= set(STATES.values()), key
        # windows go one after another
        changes = [i for i in range(1, len(states)) if states[i] != states[i - 1]]
        assert len(changes) <= 1 and all(i % WINDOW_SEGMENTS == 0 for i in changes), (key, states)
        for segment in shown["segments"]:
            gone = [shard for shard in segment["shards"] if shard["missing"]]
            assert len(gone) <= M, (key, segment)
        reports[key] = shown
    return reports


def check_finished(cluster, values, to):
    for key, shown in check_objects(cluster, values).items():
        if is_whole(shown):
            assert {segment["state"] for segment in shown["segments"]} == {STATES[to]}, key


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


def test_a_proxy_dies_at_every_fail_point(cluster, tmp_path, long_run):
    values = write(cluster, "o/")
    points = fail_points("proxy")
    # twice, so that each has its turn in both directions, as there is an odd number of them
    assert len(points) % 2 == 1
    cases = [(point, (K_PRIME, K)[i % 2], ("delta", "proxy")[(i // 2 + i // len(points)) % 2])
             for i, point in enumerate(points * 2)]

    def armed_for(i):
        point = cases[i % len(cases)][0]
        # What a job supersedes is deleted together, so that only the first pass is certain.
        comes_once = point == "delete/superseded"
        return Armed(cluster, "proxy", point, tmp_path,
                     passes=1 if comes_once else 1 + i // len(points) % 2)

    proxy = armed_for(0)
    proxy.restart()
    for i, (point, to, execution) in enumerate(cases):
        proxy.trigger()
        with transition_that_may_break_off(cluster, to, execution):
            proxy.wait_death()
            # the next one is armed for the next case
            proxy = armed_for(i + 1)
            proxy.restart()
        cluster.wait_serving()
        check_objects(cluster, values)
        report = transition(cluster, to, execution)
        assert report["counts"]["transitioned"] + report["counts"]["already_there"] == len(values), (
            point, report)
        check_finished(cluster, values, to)
        # Orphans of any case before; and nothing but the next transition shall come to the points
        # that it shares with reclaim and deletion.
        if long_run or not proxy.point.startswith("transition/") or i == len(cases) - 1:
            wait_no_leaks(cluster, values)
    remove(cluster, values)


def node_cases():
    """Two points a case: as many nodes die as the scheme survives."""
    points = fail_points("node")
    assert len(points) % 2 == 0
    for i, pair in enumerate(zip(points[::2], points[1::2])):
        # execution delta stages by SHARD_BUILD, proxy by SHARD_WRITE
        execution = {"shard-build": "delta", "shard-write": "proxy"}.get(
            pair[0].partition("/")[0], ("proxy", "delta")[i // 2 % 2])
        yield pair, (K_PRIME, K)[i % 2], execution


def parts_of(node, point, reports):
    """Which of the parts that have the fail point `node` plays for these objects."""
    kind = point.partition("/")[0]
    if kind == "record-apply":
        return {"head" for shown in reports if shown["homes"][-1] == node}
    if kind == "record-store":
        return {"follower" for shown in reports if node in shown["homes"][:-1]}
    roles = {shard["role"] for shown in reports for segment in shown["segments"]
             for shard in segment["shards"] if shard["node"] == node}
    is_data = kind in ("shard-read", "shard-confirm")
    return {role for role in roles if role.startswith("D") == is_data}


def needed_parts(point):
    """Enough of them: a transition reads only some data shards, and asks for the others."""
    is_data = point.startswith(("shard-read", "shard-confirm"))
    return K_PRIME if is_data else 1


def write_for(cluster, armed, prefix):
    """Objects of all sizes, and small ones until the fail point must come up."""
    values = write(cluster, prefix)
    client = cluster.client()
    reports = [inspect(cluster, key) for key in values]
    while len(parts_of(armed.name, armed.point, reports)) < needed_parts(armed.point):
        key = f"{prefix}more/{len(values)}"
        values[key] = payload(SIZES[0], key)
        assert client.set(key, values[key], noreply=False)
        reports.append(inspect(cluster, key))
        assert len(values) < 300, f"{armed.name} is never asked for {armed.point}"
    return values


def die_in_transition(cluster, armed, prefix, to, execution):
    """Writes objects, and takes them to `to` while the node dies; the values."""
    values = write_for(cluster, armed, prefix)
    if to == K:
        report = transition(cluster, K_PRIME, "delta", prefix)
        assert report["counts"]["transitioned"] == len(values), report
    armed.trigger()
    report = transition(cluster, to, execution, prefix)
    armed.wait_death()
    assert report["counts"]["failed"] == 0, report["problems"]
    return values


def test_two_nodes_die_one_after_the_other_at_every_pair_of_fail_points(cluster, tmp_path):
    cases = list(node_cases())
    nodes = [Armed(cluster, *names, tmp_path) for names in zip(VICTIMS, cases[0][0])]
    for node in nodes:
        node.restart()
    cluster.wait_serving()
    for i, (pair, to, execution) in enumerate(cases):
        values = {}
        for j, node in enumerate(nodes):
            # what the second sees is written when the first is gone, so it is whole
            values |= die_in_transition(cluster, node, f"{i}/{j}/", to, execution)
            check_objects(cluster, values)
        nodes = [Armed(cluster, *names, tmp_path)
                 for names in zip(VICTIMS, cases[(i + 1) % len(cases)][0])]
        for node in nodes:
            node.restart()
        cluster.wait_serving()
        reports = check_objects(cluster, values)
        report = transition(cluster, to, execution)
        counts = report["counts"]
        whole = sum(map(is_whole, reports.values()))
        assert counts["failed"] == 0, report["problems"]
        assert counts["transitioned"] + counts["already_there"] >= whole
        assert all("is missing (on n" in problem["reason"] for problem in report["problems"])
        check_finished(cluster, values, to)
        wait_no_leaks(cluster, values)
        remove(cluster, values)


@pytest.mark.parametrize("point, state", [("commit/head-committed", K),
                                          ("commit/middles-stored", K_PRIME)])
def test_a_proxy_dies_in_its_commit_and_the_head_with_it(cluster, tmp_path, point, state):
    """What only the head knew is gone; what a middle knows is what the others learn."""
    key = point
    values = {key: payload(SIZES[2], key)}
    assert cluster.client().set(key, values[key], noreply=False)
    proxy = Armed(cluster, "proxy", point, tmp_path)
    proxy.restart()
    head = inspect(cluster, key)["homes"][-1]
    proxy.trigger()
    with transition_that_may_break_off(cluster, K_PRIME, "delta"):
        proxy.wait_death()
        cluster.kill(head)
        cluster.restart("proxy")
    cluster.wait_serving(up=cluster.nodes - 1)
    shown = check_objects(cluster, values)[key]
    assert {segment["state"] for segment in shown["segments"]} == {STATES[state]}
    cluster.restart(head)
    cluster.wait_serving()
    check_objects(cluster, values)
    counts = transition(cluster, K_PRIME, "delta")["counts"]
    assert counts["failed"] == 0 and counts["seen"] == 1
    check_finished(cluster, values, K_PRIME)
    wait_no_leaks(cluster, values)
    remove(cluster, values)
