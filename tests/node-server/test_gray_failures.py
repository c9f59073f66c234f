"""A node whose data threads make no progress, or whose memory beside the items is gone."""

import resource
import select
import struct
import threading

import node_frames as nf
import pytest
from cluster import wait_for
from stopped_threads import Stopped, worker_threads

def is_at_end(readable):
    """Whether the node has closed the connection of a socket that has something to read."""
    try:
        return readable.recv(1) == b""
    except ConnectionResetError:
        return True


def test_control_frames_are_answered_while_the_data_thread_stands_still(binary):
    with nf.NodeProcess(binary, threads=1) as node, node.connect() as control:
        control.join_cluster()
        with node.connect() as data:
            data.adopt(control)
            assert data.write_shard(nf.shard_name(1), b"x").status == nf.OK
            _, data_thread = worker_threads(node.process.pid)
            with Stopped(data_thread):
                data.send(nf.SHARD_READ, nf.shard_name(1) + struct.pack("<II", 0, 0))
                assert control.hello().status == nf.OK
                with node.connect() as late:  # connections that begin now, too
                    late.adopt(control)
                    stamp = struct.unpack_from("<Q", late.hello().args)[0]
                    beat = late.call(nf.HEARTBEAT, struct.pack("<QI", stamp, nf.LEASE_MS))
                    assert beat.status == nf.OK
                data.socket.setblocking(False)
                with pytest.raises(BlockingIOError):
                    data.socket.recv(1)
                data.socket.setblocking(True)
            assert data.receive().payload == b"x"
        assert node.terminate() == 0, node.log()


def test_a_connection_may_change_from_control_to_data_in_any_piece(node):
    with node.connect() as control:
        control.join_cluster()
        with node.connect() as c:
            c.adopt(control)
            payload = bytes(range(256)) * 1000
            frames = [c.frame(nf.HELLO), c.shard_frame(nf.shard_name(2), payload),
                      c.frame(nf.HELLO),
                      c.frame(nf.SHARD_READ, nf.shard_name(2) + struct.pack("<II", 0, 0))]
            c.socket.sendall(b"".join(frames))
            replies = [c.receive() for _ in frames]
            assert [r.status for r in replies] == [nf.OK] * 4
            assert replies[3].payload == payload
        for cut in (1, 2, 63, 64, 65, 100):
            with node.connect() as c:
                c.adopt(control)
                stream = c.frame(nf.HELLO) + c.shard_frame(nf.shard_name(3), b"payload")
                c.socket.sendall(stream[:cut])
                if cut >= nf.HEADER_BYTES:
                    assert c.receive().status == nf.OK
                c.socket.sendall(stream[cut:])
                if cut < nf.HEADER_BYTES:
                    assert c.receive().status == nf.OK
                assert c.receive().status == nf.OK


def test_a_node_without_memory_for_replies_closes_connections_and_lives_on(binary):
    if nf.has_sanitizer(binary):
        pytest.skip("sanitizers end the process where memory ends")
    # Each thread has 64 MiB of addresses beforehand, which are a quarter of what replies may take.
    with nf.NodeProcess(binary, threads=1) as node, node.connect() as control:
        control.join_cluster()
        assert control.write_shard(nf.shard_name(1), bytes(4 << 20)).status == nf.OK
        with open(f"/proc/{node.process.pid}/statm", encoding="ascii") as f:
            size = int(f.read().split()[0]) * resource.getpagesize()
        resource.prlimit(node.process.pid, resource.RLIMIT_AS, (size, size))
        # Replies that nobody reads, each in memory of its own.
        connections = [node.connect() for _ in range(200)]
        closed = 0
        for c in connections:
            c.adopt(control)
            c.send(nf.SHARD_READ, nf.shard_name(1) + struct.pack("<II", 0, 0))
        for c in connections:
            try:
                assert c.receive().status == nf.OK
            except ConnectionError:
                closed += 1
            c.socket.close()
        assert closed > 0
        assert "out of memory" in node.log()
        assert node.is_running(), node.log()
        assert control.read_shard(nf.shard_name(1)).status == nf.OK
        assert node.terminate() == 0, node.log()


def test_a_frame_takes_no_memory_before_there_is_room_for_it(binary):
    if nf.has_sanitizer(binary):
        pytest.skip("sanitizers end the process where memory ends")
    with nf.NodeProcess(binary) as node, node.connect() as control:
        control.join_cluster()
        late = node.connect().adopt(control)
        frame = late.frame(nf.SHARD_WRITE, payload=bytes(nf.MAX_BODY_BYTES - 1024))
        holders = [node.connect() for _ in range(32)]  # all the memory for frames
        for c in holders:
            c.socket.sendall(frame[:100_000])
        wait_for(lambda: int(node.statistics()["partial_data_bytes"]) >= 32 * (len(frame) - 1024),
                 "the frames to begin")
        with open(f"/proc/{node.process.pid}/status", encoding="ascii") as f:
            line = next(line for line in f if line.startswith("VmData:"))
        less_than_a_frame = (int(line.split()[1]) << 10) + len(frame) // 2
        unlimited = resource.prlimit(node.process.pid, resource.RLIMIT_DATA)
        resource.prlimit(node.process.pid, resource.RLIMIT_DATA, (less_than_a_frame, unlimited[1]))
        late.socket.sendall(frame[:100_000])
        wait_for(lambda: node.statistics()["partial_waiting"] == "1" or
                 select.select([late.socket], [], [], 0)[0], "the late one to wait")
        resource.prlimit(node.process.pid, resource.RLIMIT_DATA, unlimited)
        holders[0].socket.close()
        late.socket.sendall(frame[100_000:])
        assert late.receive().status == nf.INVALID  # no shard is that long
        for c in holders:
            c.socket.close()
        assert "out of memory" not in node.log()
        assert node.terminate() == 0, node.log()


def test_frames_that_are_never_finished_hold_up_others_for_a_while_only(binary):
    with nf.NodeProcess(binary) as node, node.connect() as control:
        control.join_cluster()
        payload = bytes(nf.MAX_BODY_BYTES - 1024)
        holders = []
        for number in range(32):  # all the memory for frames
            c = node.connect().adopt(control)
            c.socket.sendall(c.shard_frame(nf.shard_name(number), payload)[:100_000])
            holders.append(c)
        wait_for(lambda: int(node.statistics()["partial_data_bytes"]) >= 32 * len(payload),
                 "the frames to begin")
        with node.connect() as late:
            late.adopt(control)
            frame = late.shard_frame(nf.shard_name(100), bytes(nf.MAX_BODY_BYTES - 1024))
            sender = threading.Thread(target=late.socket.sendall, args=(frame,))
            sender.start()
            wait_for(lambda: node.statistics()["partial_waiting"] == "1" or
                     select.select([late.socket], [], [], 0)[0], "the late one to wait")
            assert control.hello().status == nf.OK
            assert late.receive().status == nf.OK  # once the others were cut
            sender.join()
        ended, _, _ = select.select([c.socket for c in holders], [], [], 60)
        assert ended and all(is_at_end(s) for s in ended)
        for c in holders:
            c.socket.close()
        assert node.terminate() == 0, node.log()


def test_control_frames_that_are_never_finished_give_way_to_others(binary):
    with nf.NodeProcess(binary) as node, node.connect() as control:
        control.join_cluster()
        frame = control.frame(nf.INSTALL_MAP, payload=bytes(nf.MAX_BODY_BYTES))
        holders = []
        for _ in range(7):  # all the memory for control frames, but for one that is smaller
            holders.append(node.connect())
            holders[-1].socket.sendall(frame[:100_000])
        wait_for(lambda: int(node.statistics()["partial_control_bytes"]) >= 7 * nf.MAX_BODY_BYTES,
                 "the frames to begin")

        def is_read():
            with node.connect() as late:
                try:
                    late.socket.sendall(frame)
                    return late.receive().status == nf.INVALID  # it is no map
                except ConnectionError:
                    return False

        assert not is_read()
        wait_for(is_read, "unfinished frames to give way")
        assert control.hello().status == nf.OK
        for c in holders:
            c.socket.close()
        assert node.terminate() == 0, node.log()
