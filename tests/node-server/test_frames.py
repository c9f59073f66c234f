"""Frames against a real elastripe-node: round trips, pipelining, splitting, and hostile bytes."""

import os
import random
import struct

import node_frames as nf


def xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b, strict=True))


def test_hello_tells_a_random_incarnation(node):
    with node.connect() as c:
        first = c.hello()
        assert first.status == nf.OK
        assert first.incarnation != 0
        assert c.hello().incarnation == first.incarnation


def test_node_without_a_map_serves_no_data(node):
    with node.connect() as c:
        c.incarnation = c.hello().incarnation
        assert c.write_shard(nf.shard_name(1), b"x").status == nf.JOINING


def test_four_mib_shard_round_trip(node):
    payload = random.Random(1).randbytes(4 << 20)
    with node.connect() as c:
        c.join_cluster()
        assert c.write_shard(nf.shard_name(1), payload).status == nf.OK
        assert c.read_shard(nf.shard_name(1)).payload == payload
        assert c.read_shard(nf.shard_name(1), 65_000, 300_000).payload == payload[65_000:365_000]
        assert c.delete_shards([nf.shard_name(1)]).status == nf.OK
        assert c.read_shard(nf.shard_name(1)).status == nf.NOT_HERE


def test_records_of_all_sizes_round_trip(node):
    rng = random.Random(2)
    with node.connect() as c:
        c.join_cluster()
        sizes = [0, 1, 100, 4096, 16 << 10, 65_000, 65_536, 66_000, 131_072, 1 << 20]
        values = {b"key%d" % size: rng.randbytes(size) for size in sizes}
        for key, value in values.items():
            assert c.store_record(key, value, 10).status == nf.OK
        for key, value in values.items():
            assert c.read_record(key).payload == nf.record_meta(10) + nf.inline_content(value)


def test_a_scan_passes_over_what_is_empty_and_over_nothing_else(node):
    with node.connect() as c:
        c.join_cluster()
        assert c.scan_all() == ([], 1)  # one frame, however large the table is
        keys = [b"key%d" % i for i in range(3000)]
        for key in keys[:20]:
            assert c.store_record(key, b"v", 10).status == nf.OK
        found, frames = c.scan_all()
        assert (sorted(found), frames) == (sorted(keys[:20]), 1)
        for key in keys:
            assert c.store_record(key, b"w", 20).status == nf.OK
        assert sorted(c.scan_all()[0]) == sorted(keys)
        for key in keys:
            assert c.store_tombstone(key, 30).status == nf.OK
        c.drop_tombstones(keys, 30)
        assert c.scan_all() == ([], 1)


def test_replies_around_the_size_of_small_ones_round_trip(node):
    with node.connect() as c:
        c.join_cluster()
        fixed = 64 + 8 + len(nf.record_meta(10)) + len(nf.inline_content(b""))
        values = {size: b"v" * size for size in range(1020 - fixed, 1030 - fixed)}
        for size, value in values.items():
            assert c.store_record(b"key%d" % size, value, 10).status == nf.OK
        for size in values:
            c.send(nf.RECORD_READ, struct.pack("<BBQ", 2, 1, 0) + nf.short(b"key%d" % size))
        for value in values.values():
            assert c.receive().payload == nf.record_meta(10) + nf.inline_content(value)


def test_longest_key_round_trip(node):
    with node.connect() as c:
        c.join_cluster()
        assert c.store_record(b"k" * 250, b"value", 10).status == nf.OK
        assert c.read_record(b"k" * 250).payload.endswith(b"value")


def test_a_replaced_record_leaves_no_trace_of_the_old(node):
    with node.connect() as c:
        c.join_cluster()
        c.store_record(b"key", b"a" * 200_000, 10)
        c.store_record(b"key", b"b", 11)
        assert c.read_record(b"key").payload == nf.record_meta(11) + nf.inline_content(b"b")


def test_pipelined_frames_are_all_answered_in_order(node):
    with node.connect() as c:
        c.join_cluster()
        rng = random.Random(3)
        values = [rng.randbytes(rng.choice([10, 1000, 20_000, 200_000])) for _ in range(300)]
        c.socket.sendall(b"".join(c.shard_frame(nf.shard_name(i), v) for i, v in enumerate(values)))
        assert [c.receive().status for _ in values] == [nf.OK] * len(values)
        for i, _ in enumerate(values):
            c.send(nf.SHARD_READ, nf.shard_name(i) + struct.pack("<II", 0, 0))
        assert [c.receive().payload for _ in values] == values


def test_shards_are_patched_into_new_ones(node):
    rng = random.Random(5)
    with node.connect() as c:
        c.join_cluster()
        for size in (1, 5000, 1_000_000):  # the last takes several chunks of memory
            source, written, added = (nf.shard_name(3 * size + i) for i in range(3))
            old = rng.randbytes(size)
            assert c.write_shard(source, old).status == nf.OK
            patches = [(0, rng.randbytes(1))]
            if size > 1:
                patches += [(size // 2, rng.randbytes(100)), (size - 1, rng.randbytes(1))]
            new = bytearray(old)
            for offset, data in patches:
                new[offset:offset + len(data)] = data
            deltas = [(offset, xor(old[offset:offset + len(data)], data)) for offset, data in patches]

            reply = c.patch_shard(source, written, size, patches)
            assert reply.status == nf.OK and reply.args == b""
            assert reply.payload == b"".join(delta for _, delta in deltas)
            reply = c.patch_shard(source, added, size, deltas, add=True)
            assert reply.status == nf.OK and reply.args == b"" and reply.payload == b""
            assert c.read_shard(written).payload == new
            assert c.read_shard(added).payload == new
            assert c.read_shard(source).payload == old
            assert c.patch_shard(written, source, size, patches[:1]).status == nf.EXISTS
            assert c.patch_shard(nf.shard_name(2), written, size, patches).status == nf.NOT_HERE
            assert c.patch_shard(source, written, size, [(size, b"x")]).status == nf.INVALID


def test_a_shard_that_was_patched_is_patched_in_place(node):
    size = 300_000
    with node.connect() as c:
        c.join_cluster()
        assert c.write_shard(nf.shard_name(0), bytes(size)).status == nf.OK
        expected = bytearray(size)
        for number in range(1, 200):
            at = number * 1000
            expected[at:at + 3] = b"new"
            assert c.patch_shard(nf.shard_name(number - 1), nf.shard_name(number), size,
                                 [(at, b"new")]).status == nf.OK
        stored = int(node.statistics()["shard_bytes"])
        # The one that was written, what was made of it, and names. A patch that meets the mover of
        # pages at it makes a copy.
        assert stored < 10 * size, stored
        assert c.read_shard(nf.shard_name(199)).payload == expected
        expected[199_000:199_003] = bytes(3)
        assert c.read_shard(nf.shard_name(198)).payload == expected


def test_updates_are_logged_over_a_record_until_they_are_folded(node):
    version = (1 << 36) + (1 << 16)
    with node.connect() as c:
        c.join_cluster(alone=True)
        assert c.store_record(b"key", b"", version, nf.striped_content(100_000)).status == nf.OK
        assert c.read_log(b"key", 0, 100_000) is None
        first = c.append_update(b"key", 1, version, 10, b"first" * 10_000)
        assert first.status == nf.OK
        cost = 50_000 + 128
        assert struct.unpack("<QQQII", first.args) == (version + 1, version + 1, version + 1, 0, cost)
        assert c.append_update(b"key", 2, version, 15, b"second").status == nf.OK
        again = c.append_update(b"key", 1, version, 10, b"first" * 10_000)
        assert struct.unpack_from("<Q", again.args)[0] == version + 1
        settled, unsettled = c.read_log(b"key", 10, 12)
        assert unsettled == []
        assert settled == [(version + 1, 10, b"first"), (version + 2, 15, b"second"),
                           (version + 1, 21, (b"first" * 10_000)[11:])]
        assert c.read_log(b"key", 60_000, 1) == ([], [])

        # As a copy it takes numbered ones, and tells what it lacks.
        lacks = c.store_updates(b"key", version, version + 2, [(4, version + 4, 0, b"fourth")],
                                [(3, version + 3)])
        assert lacks.status == nf.OK
        # (It keeps what came too early only where all know that it does.)
        assert struct.unpack("<IQQQQI", lacks.args) == (2, 0x0B, 3, 0x0B, 4, 0)
        assert c.read_log(b"key", 0, 3) == ([], [])  # and nothing is stored over the gap
        stored = c.store_updates(b"key", version, version + 2,
                                 [(3, version + 3, 4, b"third"), (4, version + 4, 0, b"fourth")],
                                 [(3, version + 3)])
        assert (stored.status, stored.args) == (nf.OK, struct.pack("<II", 0, 0))
        assert c.read_log(b"key", 0, 3) == ([], [(version + 3, 4, b"third"),
                                                 (version + 4, 0, b"fourth")])

        assert c.append_update(b"key", 5, version, 99_999, b"xy").status == nf.OUT_OF_RANGE
        assert c.append_update(b"key", 6, version - 1, 0, b"x").status == nf.OTHER_VALUE
        assert c.append_update(b"key", 7, version, 0, b"x", known=0).status == nf.FORGOTTEN
        assert c.append_update(b"none", 8, version, 0, b"x").status == nf.NOT_FOUND
        # Another value takes the log with it.
        assert c.store_record(b"key", b"v", version + (1 << 16)).status == nf.OK
        assert c.read_log(b"key", 0, 100) is None


def test_frames_may_be_split_anywhere(node):
    with node.connect() as c:
        c.join_cluster()
        frame = c.shard_frame(nf.shard_name(1), b"p" * 300)
        for at in range(1, len(frame)):
            c.socket.sendall(frame[:at])
            c.socket.sendall(frame[at:])
            assert c.receive().status == nf.OK


def test_random_pieces_of_many_frames_make_the_same_answers(node):
    rng = random.Random(4)
    with node.connect() as c:
        c.join_cluster()
        values = [rng.randbytes(rng.randrange(1, 100_000)) for _ in range(50)]
        stream = b"".join(c.shard_frame(nf.shard_name(i), v) for i, v in enumerate(values))
        at = 0
        while at < len(stream):
            size = rng.randrange(1, 30_000)
            c.socket.sendall(stream[at:at + size])
            at += size
        assert [c.receive().status for _ in values] == [nf.OK] * len(values)


def test_a_reply_does_not_wait_for_the_rest_of_the_next_frame(node):
    with node.connect() as c:
        c.join_cluster()
        second = c.shard_frame(nf.shard_name(2), b"x" * 100_000)
        c.socket.sendall(c.shard_frame(nf.shard_name(1), b"y") + second[:500])
        assert c.receive().status == nf.OK
        c.socket.sendall(second[500:])
        assert c.receive().status == nf.OK


def test_malformed_args_are_answered_and_the_connection_goes_on(node):
    with node.connect() as c:
        c.join_cluster()
        for opcode in (nf.HEARTBEAT, nf.NOTICES, nf.RECORD_READ, nf.RECORD_APPLY, nf.RECORD_STORE,
                       nf.RECORD_SCAN, nf.SHARD_WRITE, nf.SHARD_READ, nf.SHARD_SCAN,
                       nf.SHARD_FINGERPRINT, nf.SHARD_PATCH, nf.SHARD_UPDATE):
            assert c.call(opcode, b"\xff\xff\xff").status == nf.INVALID
        assert c.hello().status == nf.OK


def test_what_only_a_newer_proxy_knows_is_refused_or_left_alone(node):
    with node.connect() as c:
        c.join_cluster()
        for opcode in (0, 9, 99, 255):
            reply = c.call(opcode, b"args of it")
            assert reply.status == nf.INVALID
            assert reply.payload == b"unknown opcode %d" % opcode
        known = struct.pack("<QBB", 0, 0, 0)
        c.send(nf.HELLO, known + b"fields behind those that are known", header=dict(zero=1))
        assert c.receive().status == nf.OK


def test_headers_not_to_be_trusted_close_only_their_connection(node):
    bad = [dict(magic=0xE6), dict(version=9), dict(body_bytes=nf.MAX_BODY_BYTES + 1),
           dict(body_bytes=0xFFFFFFFF), dict(args_bytes=1)]
    with node.connect() as witness:
        witness.join_cluster()
        for header in bad:
            with node.connect() as c:
                assert c.hello().status == nf.OK
                c.send(nf.HELLO, header=header)
                assert c.is_closed_by_node(), header
            assert witness.hello().status == nf.OK
    assert "closed: body of 8388609 bytes is too large" in node.log()


def test_bad_connections_do_not_fill_the_log(node):
    for _ in range(200):
        with node.connect() as c:
            c.send(nf.HELLO, header=dict(version=9))
            assert c.is_closed_by_node()
    assert 0 < node.log().count(" closed: ") <= 10


def test_replies_to_good_frames_arrive_before_a_bad_one_closes(node):
    with node.connect() as c:
        good, bad = c.frame(nf.HELLO), c.frame(nf.HELLO, header=dict(version=9))
        c.socket.sendall(good + good + bad)
        assert c.receive().status == nf.OK
        assert c.receive().status == nf.OK
        assert c.is_closed_by_node()


def test_frames_truncated_at_every_position_disturb_nobody(node):
    with node.connect() as witness:
        witness.join_cluster()
        frame = witness.shard_frame(nf.shard_name(77), b"z" * 200)
        for at in range(len(frame)):
            with node.connect() as c:
                c.socket.sendall(frame[:at])
        assert witness.read_shard(nf.shard_name(77)).status == nf.NOT_HERE


def test_random_damage_never_crashes_the_node(node):
    seed = int(os.environ.get("SEED", "5"))
    print("SEED", seed)
    rng = random.Random(seed)
    with node.connect() as witness:
        witness.join_cluster()
        witness.write_shard(nf.shard_name(0), b"kept")
        for _ in range(400):
            with node.connect() as c:
                c.adopt(witness)
                frames = bytearray(c.shard_frame(nf.shard_name(rng.randrange(1, 9)), rng.randbytes(300))
                                   + c.store_frame(b"key", rng.randbytes(100), 10)
                                   + c.frame(nf.RECORD_SCAN, rng.randbytes(30)))
                for _ in range(rng.randrange(1, 6)):
                    frames[rng.randrange(len(frames))] = rng.randrange(256)
                c.socket.sendall(frames)
        assert witness.read_shard(nf.shard_name(0)).payload == b"kept"
