"""Replies that their peers do not take: the memory of all of them together is bounded."""

import contextlib
import select
import socket
import struct
import threading

import node_frames as nf
import pytest
from authority import Authority
from cluster import wait_for
from stopped_threads import Stopped, worker_threads

LIMIT = 256 << 20
THREADS = 4
# One more reply for each thread, and what the process takes otherwise.
ALLOWED = LIMIT + THREADS * nf.MAX_BODY_BYTES
OVERHEAD = 64 << 20
CONTROL_LIMIT = 64 << 20
LARGE = 4 << 20  # the largest shard
FILL = LIMIT // LARGE  # so many replies take all the memory
SLOW_S = 10


class TlsNode(nf.NodeProcess):
    def __init__(self, binary, directory, **options):
        self.authority = Authority(directory / "ca")
        self.authority.issue("node")
        self.authority.issue("proxy")
        self.context = self.authority.context("proxy")
        file = self.authority.file
        super().__init__(binary, options=["--tls-certificate", file("node.pem"), "--tls-key",
                                          file("node.key"), "--tls-ca", file("ca.pem")], **options)

    def text_connection(self):
        return self.context.wrap_socket(super().text_connection(), server_hostname="localhost")

    def connect(self):
        connection = super().connect()
        connection.socket = self.context.wrap_socket(connection.socket, server_hostname="localhost")
        return connection


class World:
    """A node with a large shard, and connections that ask for it."""

    def __init__(self, node, stack):
        self.node, self.stack = node, stack
        self.control = self.connection()
        self.control.join_cluster()
        self.payload = bytes(range(256)) * (LARGE // 256)
        with self.connection() as writer:
            assert writer.write_shard(nf.shard_name(1), self.payload).status == nf.OK
        self.text = stack.enter_context(node.text_connection())
        self.statistics()
        self.rss_before = self.rss()

    def connection(self):
        made = self.stack.enter_context(self.node.connect())
        return made.adopt(self.control) if hasattr(self, "control") else made

    def ask(self, c):
        c.send(nf.SHARD_READ, nf.shard_name(1) + struct.pack("<II", 0, 0))

    def known_connection(self):
        """One on which something has been served: it is no newcomer, which would be cut in time."""
        made = self.connection()
        assert made.call(nf.HELLO, struct.pack("<Q", self.control.epoch[2])).status == nf.OK
        return made

    def slow_connections(self, count):
        """They take nothing of what they ask for, nor do the buffers of their sockets take much."""
        made = [self.known_connection() for _ in range(count)]
        for c in made:
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        return made

    def stopped_clock(self):
        """However long it takes, nobody is cut: the node's main thread sets its clock, and accepts."""
        return Stopped(self.node.process.pid)

    def rss(self):
        with open(f"/proc/{self.node.process.pid}/status", encoding="ascii") as f:
            line = next(line for line in f if line.startswith("VmRSS:"))
        return int(line.split()[1]) << 10

    def is_within_budget(self):
        """With a sanitizer only as the node counts: what is freed stays with the process."""
        held = self.statistic("reply_data_bytes")
        rss = 0 if nf.has_sanitizer(self.node.process.args[0]) else self.rss() - self.rss_before
        return held <= ALLOWED and rss < ALLOWED + OVERHEAD

    def text_statistics(self, command):
        self.text.sendall(command)
        text = b""
        while not text.endswith(b"END\r\n"):
            part = self.text.recv(65536)
            assert part, text
            text += part
        lines = text.decode().splitlines()[:-1]
        return dict(line.split(" ", 2)[1:] for line in lines)

    def statistics(self):
        return self.text_statistics(b"stats elastripe\r\n")

    def statistic(self, name):
        return int(self.statistics().get(name, 0))

    def waiting(self):
        return self.statistic("reply_waiting")

    def has_looked_at(self, reads):
        """Whether so many large reads have been served, or wait."""
        statistics = self.statistics()
        return (int(statistics.get("frames_SHARD_READ", 0)) + int(statistics["reply_waiting"])
                >= reads)

    def memcached_statistic(self, name):
        return int(self.text_statistics(b"stats\r\n")[name])

    def uptime(self):
        return self.memcached_statistic("uptime")

    def connections(self):
        return self.memcached_statistic("curr_connections")


@contextlib.contextmanager
def running(node):
    with node, contextlib.ExitStack() as stack:
        yield World(node, stack)
        assert node.is_running(), node.log()
        stack.close()
        assert node.terminate() == 0, node.log()
        assert "ERROR: " not in node.log() and "WARNING: " not in node.log(), node.log()


@pytest.fixture(params=["clear", "tls"])
def world(request, binary, tmp_path):
    node = (nf.NodeProcess(binary, threads=THREADS) if request.param == "clear"
            else TlsNode(binary, tmp_path, threads=THREADS))
    with running(node) as made:
        yield made


@pytest.fixture
def clear_world(binary):
    with running(nf.NodeProcess(binary, threads=THREADS)) as made:
        yield made


def test_replies_that_nobody_takes_hold_up_others_for_a_while_only(world):
    slow = world.slow_connections(FILL + 40)
    several, long = world.known_connection(), world.known_connection()
    late = world.connection()
    wait_for(lambda: world.statistic("newcomers") == 1, "the late one to be accepted")
    connections = world.connections()
    with world.stopped_clock():
        for c in slow:
            world.ask(c)
        wait_for(lambda: world.has_looked_at(len(slow)), "all to be served or to wait")
        assert world.is_within_budget()
        assert world.statistic("reply_data_bytes") >= LIMIT
        assert 0 < world.waiting() <= 40

        # Whole in the read buffer, several at once; and one that arrives in part.
        several.socket.sendall(several.frame(nf.HELLO) + b"".join(
            several.frame(nf.SHARD_READ, nf.shard_name(1) + struct.pack("<II", 0, 5000))
            for _ in range(50)))
        long.socket.sendall(long.shard_frame(nf.shard_name(2), bytes(100_000)))
        wait_for(lambda: world.statistic("partial_data_bytes") >= 100_000,
                 "the long frame to arrive")

        # Control frames are answered meanwhile, also on a connection that is new.
        assert world.control.hello().status == nf.OK
        stamp = struct.unpack_from("<Q", late.hello().args)[0]
        beat = late.call(nf.HEARTBEAT, struct.pack("<QI", stamp, nf.LEASE_MS))
        assert beat.status == nf.OK
        assert several.receive().opcode == nf.HELLO
        assert not select.select([several.socket, long.socket], [], [], 0)[0]
        assert world.waiting() > 0

    # Once the slow ones have been cut.
    for _ in range(50):
        reply = several.receive()
        assert reply.status == nf.OK and len(reply.payload) == 5000
    assert long.receive().status == nf.OK
    assert world.is_within_budget()
    wait_for(lambda: world.waiting() == 0, "all others to be served")
    assert "others wait for the memory of its replies" in world.node.log()
    # In the place of these, the others are served.
    wait_for(lambda: world.connections() <= connections - (40 - THREADS), "slow ones to be cut")
    for c in slow:
        c.socket.close()
    wait_for(lambda: world.statistic("reply_data_bytes") == 0, "all replies to be dropped")


def test_all_who_wait_go_on_though_their_own_replies_take_no_memory(clear_world):
    """So that none of these tells the next one that there is room, by leaving; and some are gone."""
    world = clear_world
    slow = world.slow_connections(FILL + THREADS)
    others = [world.known_connection() for _ in range(3 * FILL)]
    with world.stopped_clock():
        for c in slow:
            world.ask(c)
        wait_for(lambda: world.has_looked_at(len(slow)), "all to be served or to wait")
        waiting = world.waiting()
        for c in others:
            c.send(nf.SHARD_READ, nf.shard_name(1) + struct.pack("<II", 0, 10))
        wait_for(lambda: world.waiting() == waiting + len(others), "all others to wait")
        for c in others[::3]:
            c.socket.close()
        del others[::3]
    for c in others:
        assert c.receive().payload == world.payload[:10]


def test_nobody_overtakes_who_waits(binary):
    """Not even while it is on its way, as it has been told that there is room."""
    with running(nf.NodeProcess(binary, threads=1)) as world:
        slow = world.slow_connections(FILL)
        first = world.known_connection()
        others = [world.known_connection() for _ in range(20)]
        for c in slow:
            world.ask(c)
        wait_for(lambda: world.statistic("reply_data_bytes") >= LIMIT, "all memory to be taken")
        first.socket.sendall(first.shard_frame(nf.shard_name(2), b"written by the first"))
        wait_for(lambda: world.waiting() == 1, "the first to wait")
        # So that the worker sees all of this at once, in this order.
        _, worker = worker_threads(world.node.process.pid)
        with Stopped(worker):
            slow[0].socket.close()
            for c in others:
                c.send(nf.SHARD_READ, nf.shard_name(2) + struct.pack("<II", 0, 0))
        assert first.receive().status == nf.OK
        for c in others:
            reply = c.receive()
            assert (reply.status, reply.payload) == (nf.OK, b"written by the first")


def test_who_takes_a_reply_slowly_is_not_cut_while_nobody_waits(clear_world):
    world = clear_world
    slow = world.connection()
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
    for _ in range(3):  # the sockets take one of them
        world.ask(slow)
    taken = b""
    served, since = 0, 0

    def takes_some():
        nonlocal taken, served, since
        taken += slow.receive_bytes(4096)
        so_far = world.statistic("frames_SHARD_READ")
        if so_far != served:
            served, since = so_far, world.uptime()
        return world.uptime() > since + SLOW_S + 1

    wait_for(takes_some, "a reply to be held for longer than others would be left waiting")
    assert world.statistic("reply_data_bytes") >= LARGE
    assert len(taken) < LARGE
    taken += slow.receive_bytes(nf.HEADER_BYTES + LARGE - len(taken))
    assert taken[nf.HEADER_BYTES:] == world.payload
    for _ in range(2):
        assert slow.receive().payload == world.payload


def test_who_waits_with_a_whole_frame_is_not_cut_for_it(clear_world):
    """Though others wait for the memory of frames, and it has begun before the replies were made."""
    world = clear_world
    whole = []
    slow = world.slow_connections(FILL + THREADS)
    last = world.known_connection()
    for _ in range(LIMIT // nf.MAX_BODY_BYTES - 1):
        c = world.known_connection()
        frame = c.frame(nf.SHARD_WRITE, payload=bytes(nf.MAX_BODY_BYTES))
        c.socket.sendall(frame[:100_000])
        whole.append((c, frame))
    wait_for(lambda: world.statistic("partial_data_bytes") >= len(whole) * nf.MAX_BODY_BYTES,
             "the frames to begin")
    begun = world.uptime()
    wait_for(lambda: world.uptime() > begun + 2, "replies to be made later than that")
    with contextlib.ExitStack() as stack:
        with world.stopped_clock():
            for c in slow:
                world.ask(c)
            wait_for(lambda: world.has_looked_at(len(slow)), "all to be served or to wait")
            waiting = world.waiting()
            for c, frame in whole:
                c.socket.sendall(frame[100_000:])
            wait_for(lambda: world.waiting() == waiting + len(whole),
                     "frames to wait for replies to leave")
            frame = last.frame(nf.SHARD_WRITE, payload=bytes(nf.MAX_BODY_BYTES))
            sender = threading.Thread(target=last.socket.sendall, args=(frame,))
            stack.callback(sender.join)
            sender.start()
            wait_for(lambda: world.statistic("partial_waiting") == 1,
                     "the last frame to wait for room")
        for c in [c for c, _ in whole] + [last]:
            assert c.receive().status == nf.INVALID  # no shard is that long


def test_control_replies_that_nobody_takes_give_way_to_others(binary, monkeypatch):
    monkeypatch.setattr(nf, "PARTITIONS", 1 << 16)  # so that maps are large, which HELLO tells
    with running(nf.NodeProcess(binary, threads=THREADS)) as world, world.node.connect() as stranger:
        map_bytes = len(stranger.hello().payload)
        assert map_bytes > 400_000

        def is_told(c):
            try:
                return len(c.hello().payload) == map_bytes
            except ConnectionError:
                return False

        def is_told_anew():
            with world.node.connect() as late:
                return is_told(late)

        slow = world.slow_connections(CONTROL_LIMIT // map_bytes + 20)
        reader = world.known_connection()
        with world.stopped_clock():
            for c in slow:
                # More than its socket takes.
                c.socket.sendall(b"".join(c.frame(nf.HELLO) for _ in range(20)))
            wait_for(lambda: not is_told(stranger), "all the memory to be taken")
            assert world.statistic("reply_control_bytes") <= CONTROL_LIMIT
            known_map = struct.pack("<Q", world.control.epoch[2])
            assert world.control.call(nf.HELLO, known_map).status == nf.OK  # this reply is small
            assert reader.read_shard(nf.shard_name(1)).payload == world.payload
        wait_for(is_told_anew, "slow ones to be cut")
