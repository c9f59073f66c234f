"""Memory of a real elastripe-node: full is a clean refusal, and no size keeps what another needs."""

import time

import node_frames as nf
import pytest

LARGE = 210 * 1024
BATCH = 32


def pattern(number, size):
    return (b"%016d" % number * (size // 16 + 1))[:size]


class Fullness:
    """Tells a full node from one that is busy moving a page from one size to another: that one refuses
    for a moment, says that it has bytes free, and takes more soon."""

    DEADLINE_S = 10

    def __init__(self, c):
        self.c = c
        self.last_progress = time.monotonic()

    def is_full(self, statuses):
        if nf.OK in statuses:
            self.last_progress = time.monotonic()
        if nf.NO_SPACE not in statuses:
            return False
        waited = time.monotonic() - self.last_progress
        return self.c.hello().free_bytes == 0 or waited > self.DEADLINE_S


def fill_shards(c, size, limit=1 << 20):
    """Writes shards until the node is full; returns their numbers."""
    fullness = Fullness(c)
    stored = []
    for start in range(0, limit, BATCH):
        numbers = range(start, start + BATCH)
        for n in numbers:
            c.socket.sendall(c.shard_frame(nf.shard_name(n), pattern(n, size)))
        statuses = [c.receive().status for _ in numbers]
        assert set(statuses) <= {nf.OK, nf.NO_SPACE}, statuses
        stored += [n for n, status in zip(numbers, statuses) if status == nf.OK]
        if fullness.is_full(statuses):
            return stored
    raise AssertionError("the node never became full")


def delete_shards(c, numbers):
    for start in range(0, len(numbers), 1000):
        reply = c.delete_shards([nf.shard_name(n) for n in numbers[start:start + 1000]])
        assert reply.status == nf.OK, reply


def fill_records(c, size, version):
    """RECORD_STORE of new keys until the node is full; returns their numbers."""
    fullness = Fullness(c)
    stored = []
    for start in range(0, 1 << 20, BATCH):
        numbers = range(start, start + BATCH)
        for n in numbers:
            c.socket.sendall(c.store_frame(b"record%d" % n, pattern(n, size), version))
        statuses = [c.receive().status for _ in numbers]
        assert set(statuses) <= {nf.OK, nf.NO_SPACE}, statuses
        stored += [n for n, status in zip(numbers, statuses) if status == nf.OK]
        if fullness.is_full(statuses):
            return stored
    raise AssertionError("the node never became full")


def delete_records(c, numbers, version):
    for n in numbers:
        assert c.store_tombstone(b"record%d" % n, version).status == nf.OK
    c.drop_tombstones([b"record%d" % n for n in numbers], version)


def check_shards(c, numbers, size):
    for n in numbers:
        assert c.read_shard(nf.shard_name(n)).payload == pattern(n, size), n


def test_a_full_node_refuses_and_keeps_what_it_has(node):
    with node.connect() as c:
        c.join_cluster()
        stored = fill_shards(c, LARGE)
        assert len(stored) * LARGE > 0.85 * (64 << 20)
        assert c.hello().free_bytes == 0
        for n in range(10_000, 10_050):
            assert c.write_shard(nf.shard_name(n), pattern(n, 4 << 20)).status == nf.NO_SPACE
        check_shards(c, stored, LARGE)


def test_a_failed_replacement_leaves_the_old_record(node):
    with node.connect() as c:
        c.join_cluster()
        assert c.store_record(b"key", b"old" * 1000, 10).status == nf.OK
        fill_records(c, 500_000, 10)
        assert c.store_record(b"key", pattern(1, 8_000_000), 11).status == nf.NO_SPACE
        assert c.read_record(b"key").payload == nf.record_meta(10) + nf.inline_content(b"old" * 1000)


def test_a_full_node_has_room_for_tombstones(node):
    with node.connect() as c:
        c.join_cluster()
        for n in range(200):
            assert c.store_record(b"doomed%d" % n, pattern(n, 5000), 10).status == nf.OK
        fill_shards(c, LARGE)
        for n in range(200):
            assert c.store_tombstone(b"doomed%d" % n, 11).status == nf.OK


@pytest.mark.parametrize("small", [100, 1000, 15_000])
def test_memory_of_large_shards_becomes_small_ones(node, small):
    with node.connect() as c:
        c.join_cluster()
        delete_shards(c, fill_shards(c, LARGE))
        stored = fill_shards(c, small)
        # at least the share that an untouched node reaches, less a few pages
        assert len(stored) * small > {100: 0.18, 1000: 0.65, 15_000: 0.75}[small] * (64 << 20)
        check_shards(c, stored[::37], small)


def test_memory_of_small_shards_becomes_large_ones(node):
    with node.connect() as c:
        c.join_cluster()
        delete_shards(c, fill_shards(c, 1000))
        stored = fill_shards(c, LARGE)
        assert len(stored) * LARGE > 0.80 * (64 << 20)
        check_shards(c, stored, LARGE)


def test_records_give_their_memory_to_shards_and_back(node):
    with node.connect() as c:
        c.join_cluster()
        records = fill_records(c, 10_000, 10)
        delete_records(c, records, 11)
        shards = fill_shards(c, LARGE)
        assert len(shards) * LARGE > 0.75 * (64 << 20)
        delete_shards(c, shards)
        again = fill_records(c, 10_000, 12)
        assert len(again) > 0.85 * len(records)


def test_pages_move_without_losing_a_live_item(node):
    """Half of the small items stay, scattered over all pages; memory is compacted under them."""
    with node.connect() as c:
        c.join_cluster()
        small = fill_shards(c, 1000)
        delete_shards(c, small[::2])
        kept = small[1::2]
        first = max(small) + 1
        large = []
        for n in range(first, first + 1000):
            status = c.write_shard(nf.shard_name(n), pattern(n, LARGE)).status
            if status == nf.NO_SPACE:
                break
            large.append(n)
        assert len(large) * LARGE > 0.2 * (64 << 20)
        assert int(node.statistics()["moved_pages"]) > 5
        check_shards(c, kept, 1000)
        check_shards(c, large, LARGE)
