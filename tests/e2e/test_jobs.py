"""Jobs of a cluster with several proxies: any shows them, and they survive the one that runs them."""

import contextlib
import json
import os
import signal
import urllib.error
import urllib.request

import pytest

from cluster import payload, wait_for
from proxies import wait_whole

OBJECTS = 60
SIZE = 200_000


@pytest.fixture(name="cluster")
def three_proxies(make_cluster):
    return make_cluster(nodes=8, scheme="ers:4,2,5", proxies=3)


def fill(cluster):
    client = cluster.client()
    for i in range(OBJECTS):
        assert client.set(f"object{i}", payload(SIZE, i), noreply=False)


def check(cluster, name, state):
    """All objects are as they were written, and all are in that state."""
    client = cluster.client(port=cluster.proxy_port(name))
    for i in range(OBJECTS):
        assert client.get(f"object{i}") == payload(SIZE, i)
        status, shown = ask(cluster, name, f"/v1/objects/object{i}")
        assert status == 200 and {s["state"] for s in shown["segments"]} == {state}


def ask(cluster, name, path, **body):
    """Of that proxy: status and what it says. With a body, or to cancel, it is to do something."""
    port = cluster.admin_port(name)
    of_kind = path.split("/")[2].removesuffix("s")  # "/v1/jobs/3/cancel"
    action = of_kind if body or path.endswith("/cancel") else None
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if action:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(),
                                         {"X-Elastripe": action})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def job(cluster, name, number):
    """Nothing if that proxy does not answer, or knows of no such job."""
    with contextlib.suppress(OSError):
        status, told = ask(cluster, name, f"/v1/jobs/{number}")
        return told if status == 200 else None


def start_slow(cluster, name, to):
    """A transition of all objects, which takes some seconds; its id."""
    status, told = ask(cluster, name, "/v1/transitions", all=True, to=to, rate=1_000_000)
    assert status == 202, told
    return told["id"]


def wait_for_job(cluster, name, number, condition, what):
    def seen():
        told = job(cluster, name, number)
        return told if told and condition(told) else None
    return wait_for(seen, what)


def wait_begun(cluster, name, number):
    wait_for_job(cluster, name, number, lambda told: told["done"]["objects"] > 0, "it does something")


def wait_done(cluster, name, number):
    ends = ("done", "cancelled", "failed")
    return wait_for_job(cluster, name, number, lambda told: told["state"] in ends, "it has ended")


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_whoever_decides_next_goes_on_with_a_job(cluster, end):
    fill(cluster)
    decides = wait_whole(cluster)
    others = [name for name in cluster.proxies if name != decides]
    number = start_slow(cluster, others[0], 5)
    assert number == 1
    wait_begun(cluster, others[1], number)
    status, refused = ask(cluster, others[1], "/v1/transitions", all=True, to=4)
    assert status == 409 and "transition 1 is running: one at a time" in refused["message"]
    pid = cluster.pid(decides)
    os.kill(pid, end)
    try:
        taken = wait_for_job(cluster, others[0], number, lambda told: told["runs"] == 2,
                             "another proxy goes on")
        assert taken["state"] == "running"
        ended = wait_done(cluster, others[1], number)
        assert ended["state"] == "done" and ended["counts"]["failed"] == 0, ended
        assert ended["counts"]["transitioned"] + ended["counts"]["already_there"] == OBJECTS
        assert ended["counts"]["already_there"] > 0, "what was done is not done again"
        check(cluster, others[0], "k'")
    finally:
        if end == signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
    if end == signal.SIGTERM:
        wait_for(lambda: cluster.pid(decides) == 0, "it has ended")
        assert "event=left" in cluster.log(decides)
    if end != signal.SIGSTOP:
        cluster.restart(decides)
    wait_whole(cluster)
    # Who was away learns how it went, and does nothing more about it.
    wait_for_job(cluster, decides, number, lambda told: told["state"] == "done", "all know")
    assert start_slow(cluster, decides, 4) == 2
    # Others have hardly heard of it, and ask the one that decides.
    assert ask(cluster, others[1], "/v1/repairs/2/cancel")[0] == 404
    jobs = "jobs" if end == signal.SIGKILL else "transitions"
    status, told = ask(cluster, others[1], f"/v1/{jobs}/2/cancel")
    assert status == 202 and told["state"] in ("cancelling", "cancelled")
    assert wait_done(cluster, decides, 2)["state"] == "cancelled"


def test_a_job_that_was_cancelled_is_not_taken_up_again(cluster):
    fill(cluster)
    decides = wait_whole(cluster)
    others = [name for name in cluster.proxies if name != decides]
    number = start_slow(cluster, others[0], 5)
    wait_begun(cluster, others[1], number)
    assert ask(cluster, others[1], f"/v1/jobs/{number}/cancel")[0] == 202
    cluster.kill(decides)
    wait_for(lambda: cluster.decider() in others, "another one decides")
    ended = wait_done(cluster, others[0], number)
    assert ended["state"] == "cancelled" and ended["runs"] == 1
    cluster.restart(decides)


def test_a_single_proxy_that_starts_again_goes_on_with_its_job(make_cluster):
    cluster = make_cluster(nodes=8, scheme="ers:4,2,5")
    fill(cluster)
    for number, how, to in [(1, cluster.restart, 5), (2, cluster.kill, 4)]:
        assert start_slow(cluster, "proxy", to) == number
        wait_begun(cluster, "proxy", number)
        how("proxy")
        if how == cluster.kill:
            cluster.restart("proxy")
        ended = wait_done(cluster, "proxy", number)
        assert ended["state"] == "done" and ended["runs"] == 2, ended
        check(cluster, "proxy", "k'" if to == 5 else "k")
