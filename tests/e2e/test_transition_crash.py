"""Processes die between two steps of a transition: at every named fail point of a proxy and of a
node (server-patches/node/format/fail_point.h), forward and backward, in both executions.

Repair is off, so that it is known which objects are whole: one that lost shards with a node reads
back, and is refused by the transitions that follow; those that are whole must go. All are written
anew for the next case. (test_transition_kills.py has transitions beside repair.)
"""

import contextlib
import json
import os
import subprocess

import pytest

from cluster import BIN, DEADLINE_S, payload, run, wait_for
from fail_points import Armed, fail_points, inspect, remove, wait_no_leaks

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
# Those of updates are for test_update_crash.py.
OTHERS = ("update/", "fold/", "log-", "shard-patch/")

pytestmark = pytest.mark.usefixtures("parent_of_all")


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=9, scheme=SCHEME, memory_mb=256, settings=SETTINGS)


@pytest.mark.parametrize("value", ["none", "", "shard-read/done:0", "shard-read/done:1x",
                                   "shard-read/done:", "transition/all-staged"])
def test_a_node_refuses_to_start_with_what_is_no_fail_point_of_its_own(value):
    done = run("elastripe-node", "--port", 0, check=False,
               env=os.environ | {"ELASTRIPE_FAIL_POINT": value})
    assert done.returncode == 2 and f"ELASTRIPE_FAIL_POINT={value}: " in done.stderr


def transition(cluster, to, execution, prefix=None):
    """The report. One that another proxy has left may have to end first."""
    which = ["--prefix", prefix] if prefix else ["--all"]

    def run_alone():
        done = cluster.cli("--json", "transition", *which, "--to", to, "--execution", execution,
                           check=False)
        return None if "one at a time" in done.stderr else done
    done = wait_for(run_alone, "no other job runs")
    assert done.returncode in (0, 3), done.stderr
    return json.loads(done.stdout)


def wait_no_job(cluster):
    """The proxy that starts again goes on with the job, if it was told of it."""
    def has_read():
        # Whoever decides knows only then that there is none of this number.
        none = 10**9
        return f"there is no job {none}" in cluster.cli("job", "cancel", none, check=False).stderr

    def runs():
        return any(job["state"] in ("running", "cancelling") for job in cluster.json("job")["jobs"])
    wait_for(has_read, "it has read what was told")
    wait_for(lambda: not runs(), "no job runs")


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
        is_gone = any(words in problem for words in ("another one goes on", "no answer",
                                                     "returned nothing", "Connection reset"))
        assert process.returncode == 0 or process.returncode == 1 and is_gone, problem
    finally:
        process.kill()


def write(cluster, prefix):
    values = {f"{prefix}{size}": payload(size, prefix) for size in SIZES}
    client = cluster.client()
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    return values


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


def test_a_proxy_dies_at_every_fail_point(cluster, tmp_path, long_run):
    values = write(cluster, "o/")
    points = fail_points("proxy", but=OTHERS)
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
        wait_no_job(cluster)
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
    points = fail_points("node", but=OTHERS)
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
