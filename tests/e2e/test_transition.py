"""Objects go to their other k and back while clients read and write them."""

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess

import pytest

from cluster import BIN, DEADLINE_S, Load, Writers, payload, run, wait_for

# inline, one block, odd sizes, one segment, several segments
SIZES = [100, 5_000, 16_385, 20_000, 77_777, 300_000, 1024 * 1024, 4 * 1024 * 1024 + 1, 9_000_000]
SETTINGS = ["timing.read_grace_ms=1000", "timing.suspect_after_ms=500", "timing.lease_ms=1500",
            "repair.after_ms=1000000"]
STATE = {4: "k", 5: "k'"}


@pytest.fixture(scope="module")
def cluster(make_cluster):
    return make_cluster(nodes=9, scheme="ers:4,2,5", pools={"plain:": "rs:4,2", "twice:": "rep:2"},
                        memory_mb=512, settings=SETTINGS)


@pytest.fixture(scope="module")
def objects(cluster):
    """{key: value} of what nobody writes to any more."""
    values = {f"o/{size}": payload(size, "o") for size in SIZES}
    values |= {f"{pool}:{size}": payload(size, pool) for pool in ("plain", "twice")
               for size in (100, 50_000)}
    client = cluster.client()
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    return values


def transition(cluster, *words, code=0):
    done = cluster.cli("--json", "transition", *words, check=False)
    assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def is_large(key):
    return key.startswith("o/") and int(key[2:]) > 16 * 1024


def check_objects(cluster, objects, k, missing=False):
    """The values, and the states of those that have one."""
    client = cluster.client()
    for key, value in objects.items():
        assert client.get(key) == value, key
        shown = cluster.object(key)
        if is_large(key):
            assert {s["state"] for s in shown["segments"]} == {STATE[k]}, key
        if not missing:
            assert shown.get("missing_shards", 0) == 0, key
    scrubs = cluster.scrub(*objects)
    if missing:
        assert not any(segment["wrong"] for scrub in scrubs for segment in scrub["segments"])
    else:
        assert all(scrub["clean"] for scrub in scrubs), scrubs


class Readers(Load):
    def __init__(self, cluster, objects, count=2):
        self.objects = objects
        self.reads = 0
        super().__init__(cluster, [self._read] * count)

    def _read(self, client):
        keys = list(self.objects)
        while not self.stopping.is_set():
            key = random.choice(keys)
            assert client.get(key) == self.objects[key], key
            self.reads += 1


@pytest.mark.parametrize("execution", ["delta", "proxy"])
def test_all_objects_go_there_and_back_under_reads_and_writes(cluster, objects, execution):
    client = cluster.client()
    cas = {key: client.gets(key)[1] for key in objects}
    large = sum(map(is_large, objects))
    words = ["--all", "--execution", execution, "--parallel", 2]
    with Writers(cluster, 2, [500, 30_000, 400_000], prefix=execution) as writers, \
            Readers(cluster, objects) as readers:
        writers.wait_acks(30)
        for k in (5, 4, 5):
            report = transition(cluster, "--to", k, *words)
            counts = report["counts"]
            assert report["state"] == "done"
            assert counts["transitioned"] >= large
            assert counts["refused"] == counts["failed"] == 0, report["problems"]
            assert counts["skipped"]["rs"] == 1 and counts["skipped"]["rep"] == 1
            assert counts["skipped"]["inline"] >= 4  # and what is written meanwhile
            before = readers.reads
            writers.wait_acks(20)
            wait_for(lambda: readers.reads > before or readers.errors, "reads go on")
    writers.check()
    check_objects(cluster, objects, 5)
    assert {key: client.gets(key)[1] for key in objects} == cas
    transition(cluster, "--to", 4, "--all")
    for ledger in writers.ledgers:
        for key in ledger.sequence:
            client.delete(key, noreply=False)


def test_a_dry_run_tells_what_the_transition_then_does(cluster, objects):
    before = {key: cluster.object(key) for key in objects}
    dry = transition(cluster, "--prefix", "o/", "--to", 5, "--dry-run")
    assert {key: cluster.object(key) for key in objects} == before
    assert dry["counts"]["skipped"] == {"inline": 2}
    assert dry["planned"]["objects"] == sum(map(is_large, objects))
    assert dry["planned"]["parity_bytes_after"] < dry["planned"]["parity_bytes_before"]
    text = cluster.cli("transition", "--prefix", "o/", "--to", 5, "--dry-run", "--rate", "1M").stdout
    assert "nothing was changed" in text and "by --rate" in text and "any m nodes may crash" in text

    metric = "elastripe_transition_bytes_total"
    moved = cluster.metrics()[metric]
    real = transition(cluster, "--prefix", "o/", "--to", 5)
    assert real["done"] == dry["planned"]
    assert real["counts"]["transitioned"] == dry["planned"]["objects"]
    assert cluster.metrics()[metric] - moved == (real["done"]["read_bytes"]
                                                 + real["done"]["sent_bytes"])
    again = cluster.cli("transition", "--prefix", "o/", "--to", 5)
    assert f"already there  {dry['planned']['objects']}\n" in again.stdout
    check_objects(cluster, objects, 5)
    transition(cluster, "--all", "--to", 4)
    check_objects(cluster, objects, 4)


def test_a_pool_says_in_which_state_new_values_are_written(make_cluster):
    pools = [f"pools.{i}={{prefix: {prefix}, scheme: 'ers:4,1,5', write_state: {state}}}"
             for i, (prefix, state) in enumerate([("w/", "wide"), ("b/", "as_before")], 1)]
    cluster = make_cluster(nodes=6, scheme="ers:4,1,5", memory_mb=64,
                           settings=[*pools, "threads=1"])  # a thread knows what it wrote itself
    client = cluster.client()
    values = {f"{prefix}{size}": payload(size, prefix)
              for prefix in ("n/", "w/", "b/") for size in (20_000, 9_000_000)}

    def states():
        return {key: {segment["state"] for segment in cluster.object(key)["segments"]}
                for key in values}

    def put_all():
        for key, value in values.items():
            assert client.set(key, value, noreply=False)

    put_all()
    assert states() == {key: {"k'" if key.startswith("w/") else "k"} for key in values}
    transition(cluster, "--all", "--to", 5)
    for key, value in values.items():  # the thread knows of no transition before it reads
        assert client.get(key) == value, key
    put_all()
    assert states() == {key: {"k" if key.startswith("n/") else "k'"} for key in values}
    assert client.append("b/20000", b"more", noreply=False)
    values["b/20000"] += b"more"
    assert states()["b/20000"] == {"k'"}
    for key, value in values.items():
        assert client.get(key) == value, key
    assert all(scrub["clean"] for scrub in cluster.scrub(*values))


def test_one_object_and_wrong_command_lines(cluster, objects):
    assert transition(cluster, "--key", "o/77777", "--to", 5)["counts"]["transitioned"] == 1
    assert cluster.object("o/77777")["segments"][0]["state"] == "k'"
    assert cluster.object("o/20000")["segments"][0]["state"] == "k"
    assert transition(cluster, "--key", "o/77777", "--to", 4)["counts"]["transitioned"] == 1
    assert transition(cluster, "--key", "o/100", "--to", 5)["counts"]["skipped"] == {"inline": 1}
    assert transition(cluster, "--key", "o/77777", "--to", 7)["counts"]["skipped"] == {
        "other scheme": 1}
    assert transition(cluster, "--key", "none", "--to", 5, code=3)["counts"]["no_object"] == 1
    for words in (["--to", 5], ["--all"], ["--all", "--key", "x", "--to", 5],
                  ["--all", "--to", 5, "--execution", "hub"], ["--all", "--to", 5, "--rate", "x"]):
        assert cluster.cli("transition", *words, check=False).returncode == 2, words
    elsewhere = ["--server", "127.0.0.1:1", "transition", "--all", "--to", 5]
    assert run("elastripe", *elsewhere, check=False).returncode == 1


class Slow:
    """Forty objects, and a transition of them that takes five minutes."""

    def __init__(self, cluster, prefix):
        self.cluster = cluster
        self.client = cluster.client()
        self.values = {f"{prefix}{i}": payload(60_000, i) for i in range(40)}
        for key, value in self.values.items():
            assert self.client.set(key, value, noreply=False)
        self.words = ["--prefix", prefix, "--to", 5]
        whole = transition(cluster, *self.words, "--dry-run")["planned"]
        rate = (whole["read_bytes"] + whole["sent_bytes"]) // 300
        command = [BIN / "elastripe", "--server", cluster.server, "transition", *self.words,
                   "--rate", rate, "--parallel", 1]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        wait_for(lambda: self.there() > 0, "the first object is there")

    def there(self):
        return sum(self.cluster.object(key)["segments"][0]["state"] == "k'" for key in self.values)

    def end(self):
        """Its exit status, and what it printed."""
        try:
            out, err = self.process.communicate(timeout=DEADLINE_S)
        finally:
            self.process.kill()
        return self.process.returncode, out, err

    def go_on(self):
        """Runs the rest, and removes the objects."""
        there = self.there()
        assert 0 < there < len(self.values)
        rest = transition(self.cluster, *self.words)["counts"]
        assert rest["already_there"] == there
        assert rest["transitioned"] == len(self.values) - there
        client = self.cluster.client()
        for key, value in self.values.items():
            assert client.get(key) == value
            client.delete(key, noreply=False)


def test_ctrl_c_ends_what_has_begun_and_running_it_again_goes_on(cluster, objects):
    slow = Slow(cluster, "many/")
    second = cluster.cli("transition", "--all", "--to", 4, check=False)
    assert second.returncode == 1 and "is running" in second.stderr
    slow.process.send_signal(signal.SIGINT)
    status, out, err = slow.end()
    assert status == 130, err
    assert "cancelled after" in out and "goes on with the rest" in out
    assert "cancelling" in err
    there = slow.there()
    assert f"transitioned   {there} object" in out
    slow.go_on()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_proxy_that_ends_leaves_its_transition_to_the_next(cluster, objects, number):
    slow = Slow(cluster, f"proxy/{number}/")
    os.kill(cluster.pid("proxy"), number)
    wait_for(lambda: cluster.pid("proxy") == 0, "the proxy has ended")
    status, out, err = slow.end()
    assert status == 1 and "another one goes on with the transition" in err, out + err
    cluster.restart("proxy")
    cluster.wait_serving()

    def last():
        return cluster.json("job")["jobs"][-1:]
    goes_on = wait_for(lambda: [job for job in last() if job["runs"] == 2], "it goes on")[0]
    assert goes_on["state"] == "running"
    cluster.cli("job", "cancel", goes_on["id"])
    wait_for(lambda: last()[0]["state"] == "cancelled", "it has ended")
    slow.go_on()


def test_the_last_16_transitions_are_remembered(cluster, objects):
    ids = [transition(cluster, "--key", "o/20000", "--to", 5, "--dry-run")["id"] for _ in range(18)]
    assert ids == list(range(ids[0], ids[0] + 18))
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port + 1 + cluster.nodes,
                                            timeout=DEADLINE_S)
    with contextlib.closing(connection):
        connection.request("GET", "/v1/transitions")
        reports = json.load(connection.getresponse())["transitions"]
    assert [report["id"] for report in reports] == ids[-16:]
    assert {report["state"] for report in reports} == {"done"}


def test_after_a_transition_any_m_nodes_may_die(cluster, objects):
    # last: nobody comes back, and repair waits for them
    transition(cluster, "--all", "--to", 5)
    cluster.kill("n2", "n6")
    cluster.wait_serving(up=7)
    check_objects(cluster, objects, 5, missing=True)
    report = transition(cluster, "--prefix", "o/", "--to", 4, code=3)
    assert report["counts"]["refused"] > 0
    assert all("is missing" in problem["reason"] for problem in report["problems"])
    client = cluster.client()
    for key, value in objects.items():
        assert client.get(key) == value, key
