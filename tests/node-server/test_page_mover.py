"""Pages move between sizes while clients read, replace and delete what lies on them."""

import contextlib
import random
import threading

import node_frames as nf

SMALL = 1000
LARGE = 200 * 1024
RECORDS = 64
BATCH = 64
CHAINED = 70_000  # several chunks, each of which may be moved


def content(name, size):
    return random.Random(name).randbytes(size)


def fill(c, first, size):
    """Shards of one size until the node is full for good; their numbers."""
    stored = []
    refused = 0  # in a row: pages take their time to move
    n = first
    while refused < BATCH:
        status = c.write_shard(nf.shard_name(n), content(n, size)).status
        assert status in (nf.OK, nf.NO_SPACE), status
        if status == nf.OK:
            stored.append(n)
        refused = 0 if status == nf.OK else refused + 1
        n += 1
    return stored


class Traffic:
    """Threads that use the node, each on a connection of its own, until they are stopped."""

    def __init__(self, node, control):
        self.node, self.control = node, control
        self.stopping = threading.Event()
        self.failures = []
        self.rounds = []
        self.threads = []

    def add(self, work):
        index = len(self.rounds)
        self.rounds.append(0)

        def run():
            try:
                with self.node.connect() as c:
                    c.adopt(self.control)
                    rng = random.Random(index)
                    while not self.stopping.is_set():
                        work(c, rng)
                        self.rounds[index] += 1
            except Exception as error:  # whatever it is, the test is to fail with it
                self.failures.append(repr(error))

        self.threads.append(threading.Thread(target=run))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def test_pages_move_under_traffic(node):
    with contextlib.ExitStack() as stack:
        control = stack.enter_context(node.connect())
        control.join_cluster()
        chained = list(range(32))
        for n in chained:
            assert control.write_shard(nf.shard_name(n), content(n, CHAINED)).status == nf.OK
        for n in range(RECORDS):
            key = b"record%d" % n
            assert control.store_record(key, content(key, 300), 10).status == nf.OK
        small = fill(control, 1000, SMALL)
        kept = small[::2]
        gone = small[1::2]

        traffic = Traffic(node, control)

        def read_shards(c, rng):
            for n, size in ((rng.choice(kept), SMALL), (rng.choice(chained), CHAINED)):
                assert c.read_shard(nf.shard_name(n)).payload == content(n, size), n

        def replace_records(c, rng):
            key = b"record%d" % rng.randrange(RECORDS)
            version = rng.randrange(10, 1 << 30)  # an older one than is there changes nothing
            assert c.store_record(key, content(key, 300), version).status in (nf.OK, nf.NO_SPACE)
            assert c.read_record(key).payload.endswith(content(key, 300)), key

        def come_and_go(c, rng):
            name = nf.shard_name(rng.randrange(8), index=1)
            if c.write_shard(name, content(7, 3000)).status == nf.OK:
                c.delete_shards([name])

        for work in (read_shards, read_shards, replace_records, come_and_go):
            traffic.add(work)
        with traffic:
            for start in range(0, len(gone), 1000):
                names = [nf.shard_name(n) for n in gone[start:start + 1000]]
                assert control.delete_shards(names).status == nf.OK
            large = fill(control, small[-1] + BATCH, LARGE)
        assert not traffic.failures
        assert min(traffic.rounds) > 0
        assert large and int(node.statistics()["moved_pages"]) > 5
        for n in kept[::10]:
            assert control.read_shard(nf.shard_name(n)).payload == content(n, SMALL), n
        for n in large:
            assert control.read_shard(nf.shard_name(n)).payload == content(n, LARGE), n
