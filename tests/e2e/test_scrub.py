"""Shards that are there, but not what they were: a scrub finds them, and mends what it can tell."""

import json
import struct

import node_frames as nf
from cluster import check_objects, store_objects, wait_for


class Intruder(nf.Connection):
    """Changes shards on a node behind the proxy's back."""

    def __init__(self, cluster, index):
        super().__init__(cluster.port + 1 + index)
        self.cluster_id = int(cluster.status()["cluster_id"], 16)
        hello = self.hello()
        self.epoch, self.incarnation = hello.epoch, hello.incarnation

    def ask(self, opcode, args=b"", payload=b""):
        reply = self.call(opcode, args, payload, {"cluster_id": self.cluster_id})
        assert reply.status == nf.OK, reply
        return reply

    def shards_of(self, key):
        """Names and sizes."""
        found, cursor = [], 0
        while True:
            reply = self.ask(nf.SHARD_SCAN, struct.pack("<QIII", cursor, 1000, 0, 0))
            cursor, count = struct.unpack_from("<QI", reply.args)
            place = 12
            for _ in range(count):
                name = reply.args[place : place + 25]
                length = struct.unpack_from("<H", reply.args, place + 25)[0]
                owner = reply.args[place + 27 : place + 27 + length]
                place += 27 + length
                size = struct.unpack_from("<QI", reply.args, place)[1]
                place += 12
                if owner == key.encode():
                    found.append((name, size))
            if cursor == 0:
                return found

    def replace(self, key):
        """Other bytes under the same names, whole by their own checksums; how many shards."""
        shards = self.shards_of(key)
        for name, size in shards:
            payload = bytearray(self.ask(nf.SHARD_READ, name + struct.pack("<II", 0, 0)).payload)
            assert len(payload) == size
            payload[size // 2] ^= 0x40
            self.ask(nf.SHARD_DELETE, struct.pack("<II", 0, 1) + name)
            self.socket.sendall(self.frame(
                nf.SHARD_WRITE,
                name + nf.short(key.encode()) + struct.pack("<IQB", size, 0, 0),
                bytes(payload), {"cluster_id": self.cluster_id}))
            reply = self.receive()
            assert reply.status == nf.OK, reply
        return len(shards)


def test_wrong_shards_are_found_and_made_again(make_cluster):
    cluster = make_cluster(nodes=9, scheme="ers:4,2,5")
    values = store_objects(cluster, 6, 300_000)
    assert all(report["clean"] for report in cluster.scrub(*values))
    key = next(iter(values))
    wait_for(lambda: cluster.metrics()["elastripe_scrubbed_objects_total"] == 6, "all are counted")
    before = cluster.metrics()
    with Intruder(cluster, next(i for i in range(9) if has_shard(cluster, i, key))) as intruder:
        assert intruder.replace(key) == 1
    told = cluster.scrub(*values)
    unclean = [report for report in told if not report["clean"]]
    assert [report["key"] for report in unclean] == [key]
    (segment,) = [one for one in unclean[0]["segments"] if not one["clean"]]
    assert len(segment["wrong"]) == 1 and not segment["unexplained"]
    assert not segment["missing"] and not segment["bad"] and not segment["unreachable"]
    def scrubbed(what):
        name = f"elastripe_scrub{what}_total"
        return cluster.metrics()[name] - before[name]

    # Each thread of the proxy tells its counts at its own time.
    wait_for(lambda: scrubbed("bed_objects") == 6, "all are counted again")
    wait_for(lambda: scrubbed("_wrong") == 1, "what is wrong is counted")
    assert scrubbed("bed_bytes") > 6 * 400_000

    done = cluster.cli("--json", "scrub", "--all", check=False)
    assert done.returncode == 3
    counts = json.loads(done.stdout)["counts"]
    assert counts["clean"] == 5 and counts["refused"] == 1
    shown = cluster.cli("scrub", "--prefix", key, "--repair").stdout
    assert "clean" in shown
    assert all(report["clean"] for report in cluster.scrub(*values))
    report = json.loads(cluster.cli("--json", "scrub", "--all", "--rate", "100M").stdout)
    assert report["state"] == "done" and report["counts"]["clean"] == 6
    check_objects(cluster, values)


def has_shard(cluster, index, key):
    with Intruder(cluster, index) as intruder:
        return bool(intruder.shards_of(key))
