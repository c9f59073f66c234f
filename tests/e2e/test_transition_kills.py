"""Nodes and proxies are killed at any moment of a transition of many objects, while clients read and
write and repair restores what the nodes took with them: every acknowledged write reads back."""

import json
import random
import subprocess

import pytest
from pymemcache.exceptions import MemcacheError

from cluster import BIN, DEADLINE_S, Load, Writers, payload, wait_for

OBJECTS = 100
SIZES = [20_000, 65_536, 150_000, 400_000]
SETTINGS = ["segment_bytes=64KiB", "timing.suspect_after_ms=500", "timing.lease_ms=1500",
            "timing.read_grace_ms=1000"]


@pytest.fixture()
def cluster(make_cluster):
    # room for two dead nodes: 5 + 2 shards of 9 nodes
    cluster = make_cluster(nodes=9, scheme="ers:4,2,5", memory_mb=256, settings=SETTINGS)
    yield cluster
    cluster.stop()


class Readers(Load):
    """Read what nobody writes to: a value or an error, never another value or a miss."""

    def __init__(self, cluster, values, count=2):
        self.values = values
        self.reads = 0
        super().__init__(cluster, [self._read] * count)

    def _read(self, client):
        keys = list(self.values)
        while not self.stopping.is_set():
            key = random.choice(keys)
            try:
                value = client.get(key)
            except (MemcacheError, OSError):
                client.close()
                self.stopping.wait(0.05)
                continue
            assert value == self.values[key], key
            self.reads += 1

    def wait_reads(self, more):
        goal = self.reads + more
        wait_for(lambda: self.reads >= goal or self.errors, f"{more} more reads")


def transition(cluster, *words):
    """Its report. One whose proxy was killed and is back may go on before it."""
    def ended():
        done = cluster.cli("--json", "transition", *words, check=False)
        if done.returncode != 0 and "one at a time" in done.stderr:
            return None
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    return wait_for(ended, "the transition before has ended")


class Transition:
    """Of all objects, in about three seconds."""

    def __init__(self, cluster, to, execution):
        self.cluster = cluster
        words = ["transition", "--all", "--to", to, "--execution", execution]
        dry = transition(cluster, *words[1:], "--dry-run")
        self.id = dry["id"] + 1
        rate = (dry["planned"]["read_bytes"] + dry["planned"]["sent_bytes"]) // 3
        command = [BIN / "elastripe", "--server", cluster.server, "--json", *words,
                   "--parallel", 2, "--rate", rate]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)

    def _report(self):
        reports = json.loads(self.cluster.admin("/v1/transitions"))["transitions"]
        return next((report for report in reports if report["id"] == self.id), None)

    def wait_met(self, count):
        """Waits until it has met `count` objects; whether it is still running."""
        def far_enough():
            report = self._report()
            if report is None or report["phase"] == "counting":
                return None
            enough = report["counts"]["seen"] >= count or report["state"] != "running"
            return report if enough else None
        return wait_for(far_enough, f"{count} objects are met")["state"] == "running"

    def end(self):
        """Its exit status and what it complained of."""
        try:
            _, problem = self.process.communicate(timeout=DEADLINE_S)
        finally:
            self.process.kill()
        return self.process.returncode, problem


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_any_moment_of_a_transition_lose_no_acknowledged_write(cluster, seed, long_run):
    chance = random.Random(seed)
    values = {f"o/{i}": payload(SIZES[i % len(SIZES)], i) for i in range(OBJECTS)}
    client = cluster.client()
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    # repair may not be through when the second dies, so no third may
    victims = ["proxy"] * (20 if long_run else 3) + chance.sample([f"n{i}" for i in range(9)], 2)
    chance.shuffle(victims)
    landed = 0
    with Writers(cluster, 2, [500, 30_000, 200_000]) as writers, \
            Readers(cluster, values) as readers:
        for i, victim in enumerate(victims):
            job = Transition(cluster, (5, 4)[i % 2], chance.choice(["delta", "proxy"]))
            landed += job.wait_met(chance.randint(1, OBJECTS // 2))
            writers.wait_acks(chance.randint(1, 20))
            cluster.kill(victim)
            if victim != "proxy":
                writers.wait_acks(chance.randint(1, 30))
                readers.wait_reads(10)
            cluster.restart(victim)
            cluster.wait_serving()
            status, problem = job.end()
            assert status in ((0, 1, 3) if victim == "proxy" else (0, 3)), problem
            readers.wait_reads(10)
    writers.check()
    assert landed > len(victims) // 2, "most transitions ended before the kill"

    for victim in victims:
        if victim != "proxy":
            cluster.cli("node", "wait", victim, "--timeout", int(DEADLINE_S))
    report = transition(cluster, "--prefix", "o/", "--to", 5)
    counts = report["counts"]
    assert counts["transitioned"] + counts["already_there"] == OBJECTS, report
    scrubbed = [segment for report in cluster.scrub(*values) for segment in report["segments"]]
    assert all(not segment["wrong"] and segment["data_matches"] for segment in scrubbed)
    client = cluster.client()
    for key, value in values.items():
        assert client.get(key) == value, key
        shown = cluster.object(key)
        assert shown["missing_shards"] == 0, shown
        assert {segment["state"] for segment in shown["segments"]} == {"k'"}, key
