"""A small client of the node protocol (docs/node-protocol.md) and a runner for elastripe-node.

    with NodeProcess(binary) as node, node.connect() as c:
        c.join_cluster()
        c.write_shard(shard_name(1), b"bytes")
"""

import ctypes
import ctypes.util
import os
import signal
import socket
import struct
import subprocess
import tempfile

from port_file import PortFile

REQUEST_MAGIC = 0xE5
REPLY_MAGIC = 0xE6
FORMAT_VERSION = 3
HEADER_BYTES = 64
MAX_BODY_BYTES = 8 << 20
MAX_LIST_ENTRIES = 4096  # of one DROP_TOMBSTONES, SHARD_CONFIRM or SHARD_DELETE

HELLO, HEARTBEAT, INSTALL_MAP, NOTICES = 1, 2, 3, 4
RECORD_READ, RECORD_APPLY, RECORD_STORE, RECORD_SCAN = 10, 11, 12, 13
MARK_SYNCED, RAISE_FLOOR, DROP_TOMBSTONES = 14, 15, 16
SHARD_WRITE, SHARD_READ, SHARD_CONFIRM, SHARD_DELETE, SHARD_SCAN = 20, 21, 22, 23, 24
SHARD_FINGERPRINT, SHARD_PATCH, SHARD_UPDATE = 26, 27, 28
LOG_APPEND, LOG_STORE, LOG_SETTLE, LOG_SCAN, LOG_CANCEL = range(30, 35)

OK, SAME, NOT_FOUND, CONDITION_FAILED, FENCED, NOT_SYNCED, LOST, STALE_EPOCH = range(8)
NO_LEASE, JOINING, NOT_HOME, NO_SPACE, NOT_HERE, BAD_PAGE, EXISTS, NOT_INLINE = range(8, 16)
NOT_NUMBER, TOO_LARGE, INVALID, SUPERSEDED = range(16, 20)
OTHER_VALUE, OUT_OF_RANGE, LOG_FULL, RENUMBER, FORGOTTEN = range(20, 25)

# Both directions: magic, version, opcode, flags or status, args_bytes, body_bytes, epoch.number,
# opaque, cluster_id or incarnation, epoch.decider, zero, epoch.map_hash, then incarnation and now_ms
# in requests, free_bytes and zero in replies.
_HEADER = struct.Struct("<BBBBIIIQQIIQQQ")
assert _HEADER.size == HEADER_BYTES

CLUSTER_ID = 0xC1
PARTITIONS = 16
LEASE_MS = 3_600_000

_xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
_xxhash.XXH3_64bits.restype = ctypes.c_uint64
_xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh3(data):
    return _xxhash.XXH3_64bits(data, len(data))


_isal = ctypes.CDLL(ctypes.util.find_library("isal") or "libisal.so.2")
_isal.crc32_iscsi.restype = ctypes.c_uint32
_isal.crc32_iscsi.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32]


def crc32c(data):
    return _isal.crc32_iscsi(data, len(data), 0xFFFFFFFF) ^ 0xFFFFFFFF


def short(data):
    return struct.pack("<H", len(data)) + data


def shard_name(number, index=0):
    """Distinct for distinct numbers: data_txid, segment, generation, index."""
    return struct.pack("<QQIIB", 0xDA7A, number, 0, 0, index)


def record_meta(version):
    meta = struct.pack("<QQQBB", version, version, 0, 0, 0)
    return meta + struct.pack("<I", crc32c(meta))


def inline_content(value, flags=0, exptime=0):
    # kind, flags, exptime, size, scheme {layout, k, m, k'} = rep(2), value
    content = struct.pack("<BIIQBBBBI", 0, flags, exptime, len(value), 0, 1, 1, 1, len(value)) + value
    return struct.pack("<I", crc32c(content)) + content


def tombstone_content():
    content = struct.pack("<BIIQBBBB", 2, 0, 0, 0, 0, 1, 1, 1)
    return struct.pack("<I", crc32c(content)) + content


def striped_content(size):
    """Of one segment, whose shards need not exist: k = 2, m = 1, on nodes 0 and 1."""
    content = struct.pack("<BIIQBBBBI", 1, 0, 0, size, 0, 2, 1, 2, 1)
    content += struct.pack("<QQQQIIBIII", 7, 7, 8, 8, 0, 0, 0, size, size, 0)
    content += struct.pack("<BHHH", 3, 0, 1, 0)
    return struct.pack("<I", crc32c(content)) + content


def make_map(incarnation, number=1, alone=False):
    """(encoded map, its hash): node 0 is the node under test and head of every partition for m = 1;
    node 1, the tail, does not exist. `alone`: node 0 is the only home, so it is the tail as well."""
    no_base = (0, 0, 0)
    no_flush = (0, 0)
    body = struct.pack("<QIIIIQQQIBH", CLUSTER_ID, number, 7, *no_base, number << 36, *no_flush, 1,
                       2)
    for node, inc in ((0, incarnation), (1, 1)):
        body += struct.pack("<H", node) + short(b"n%d" % node) + short(b"127.0.0.1")
        body += struct.pack("<H", 1) + short(b"d%d" % node) + struct.pack("<QB", inc, 0)
    body += struct.pack("<I", PARTITIONS)
    for _ in range(PARTITIONS):
        homes = (0,) if alone else (1, 0)
        body += struct.pack(f"<BB{len(homes)}H", 1, len(homes), *homes)  # synced
        body += struct.pack("<H", 0)  # no sources
    map_hash = xxh3(body)
    return struct.pack("<Q", map_hash) + body, map_hash


class Reply:
    def __init__(self, header, args, payload):
        (_, _, self.opcode, self.status, _, _, number, self.opaque, self.incarnation, decider, _,
         map_hash, self.free_bytes, _) = header
        self.epoch = (number, decider, map_hash)
        self.args = args
        self.payload = payload

    def __repr__(self):
        return f"Reply(opcode={self.opcode}, status={self.status}, payload={self.payload[:80]!r})"


class Connection:
    """One connection; requests may be pipelined with send() and receive()."""

    def __init__(self, port, host="127.0.0.1", timeout_s=60):
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.epoch = (0, 0, 0)
        self.incarnation = 0
        self.opaque = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # -- frames

    def frame(self, opcode, args=b"", payload=b"", header=None):
        """The bytes of a request; `header` replaces fields of the header by name."""
        self.opaque += 1
        f = dict(magic=REQUEST_MAGIC, version=FORMAT_VERSION, opcode=opcode, flags=0,
                 args_bytes=len(args), body_bytes=len(args) + len(payload), number=self.epoch[0],
                 opaque=self.opaque, cluster_id=CLUSTER_ID, decider=self.epoch[1], zero=0,
                 map_hash=self.epoch[2], incarnation=self.incarnation, now_ms=1_000_000)
        f.update(header or {})
        return _HEADER.pack(*f.values()) + args + payload

    def send(self, opcode, args=b"", payload=b"", header=None):
        self.socket.sendall(self.frame(opcode, args, payload, header))
        return self.opaque

    def receive_bytes(self, count):
        data = bytearray(count)
        view = memoryview(data)
        while view:
            got = self.socket.recv_into(view)
            if got == 0:
                raise ConnectionError("the node closed the connection")
            view = view[got:]
        return bytes(data)

    def receive(self):
        header = _HEADER.unpack(self.receive_bytes(HEADER_BYTES))
        assert header[0] == REPLY_MAGIC and header[1] == FORMAT_VERSION, header
        args_bytes, body_bytes = header[4], header[5]
        args = self.receive_bytes(args_bytes)
        return Reply(header, args, self.receive_bytes(body_bytes - args_bytes))

    def call(self, opcode, args=b"", payload=b"", header=None):
        opaque = self.send(opcode, args, payload, header)
        reply = self.receive()
        assert reply.opaque == opaque and reply.opcode == opcode, (reply.opaque, opaque)
        return reply

    def is_closed_by_node(self):
        """True once the node has closed; anything that it had still sent is dropped."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True

    # -- control

    def hello(self):
        return self.call(HELLO)

    def join_cluster(self, number=1, alone=False):
        """Makes the node serve: a map of which it is part, and a long lease."""
        hello = self.hello()
        self.incarnation = hello.incarnation
        encoded, map_hash = make_map(self.incarnation, number, alone)
        installed = self.call(INSTALL_MAP, payload=encoded)
        assert installed.status == OK, installed
        self.epoch = (number, 7, map_hash)
        stamp = struct.unpack_from("<Q", hello.args)[0]
        granted = self.call(HEARTBEAT, struct.pack("<QI", stamp, LEASE_MS))
        assert granted.status == OK, granted
        return self

    def adopt(self, other):
        """Speaks in the epoch that `other` made."""
        self.epoch, self.incarnation = other.epoch, other.incarnation
        return self

    # -- data

    def store_frame(self, key, value, version, content=None):
        record = record_meta(version) + (inline_content(value) if content is None else content)
        return self.frame(RECORD_STORE, struct.pack("<BBBQ", 1, 0, 0, 0) + short(key), record)

    def store_record(self, key, value, version, content=None):
        self.socket.sendall(self.store_frame(key, value, version, content))
        return self.receive()

    def store_tombstone(self, key, version):
        return self.store_record(key, b"", version, tombstone_content())

    def drop_tombstones(self, keys, version):
        by_partition = {}
        for key in keys:
            by_partition.setdefault(xxh3(key) % PARTITIONS, []).append(key)
        for partition, some in by_partition.items():
            raised = self.call(RAISE_FLOOR, struct.pack("<IQ", partition, version))
            assert raised.status == OK, raised
            for start in range(0, len(some), MAX_LIST_ENTRIES):
                entries = [short(key) + struct.pack("<Q", version)
                           for key in some[start : start + MAX_LIST_ENTRIES]]
                args = struct.pack("<II", partition, len(entries)) + b"".join(entries)
                dropped = self.call(DROP_TOMBSTONES, args)
                assert dropped.status == OK, dropped

    def read_record(self, key):
        return self.call(RECORD_READ, struct.pack("<BBQ", 2, 1, 0) + short(key))

    def append_update(self, key, number, value, offset, data, known=None):
        """`value`: the version of the record's value."""
        known = value if known is None else known
        args = struct.pack("<BQQQQQQI", 1, 0x0B, number, value, known, 0, offset, crc32c(data))
        return self.call(LOG_APPEND, args + short(key), data)

    def store_updates(self, key, value, settled_to, updates, unsettled=()):
        """`updates`: tuples of number, LSN, offset and bytes; `unsettled`: pairs of number and LSN."""
        args = struct.pack("<BQQI", 1, value, settled_to, len(updates))
        for number, lsn, offset, data in updates:
            args += struct.pack("<QQQQII", 0x0B, number, lsn, offset, len(data), crc32c(data))
        args += struct.pack("<I", len(unsettled))
        args += b"".join(struct.pack("<QQQ", 0x0B, number, lsn) for number, lsn in unsettled)
        return self.call(LOG_STORE, args + short(key), b"".join(data for *_, data in updates))

    def read_log(self, key, offset, length):
        """What lies over the range: tuples of LSN, offset and bytes, of what is settled and what is not;
        None if there is no log."""
        view = struct.pack("<BQQ", 1, offset, length)
        reply = self.call(RECORD_READ, struct.pack("<BBQ", 2, 1, 0) + short(key) + view)
        assert reply.status == OK, reply
        if len(reply.args) == 16:
            return None
        size = struct.unpack_from("<I", reply.args, 16)[0]
        log = reply.args[20:20 + size]
        place = 5 * 8
        names = struct.unpack_from("<I", log, place)[0]
        assert names == 0, names  # views do not have them
        place += 4
        lists = []
        for _ in range(3):
            count = struct.unpack_from("<I", log, place)[0]
            place += 4
            extents = []
            for _ in range(count):
                _, _, lsn, at, crc, size = struct.unpack_from("<QQQQII", log, place)
                data = log[place + 40 : place + 40 + size]
                assert crc32c(data) == crc
                extents.append((lsn, at, data))
                place += 40 + size
            lists.append(extents)
        assert place == len(log)
        *lists, unnumbered = lists
        assert unnumbered == []  # the tail has none
        return tuple(lists)

    def scan_all(self):
        """The keys of all records, and how many frames it took to tell them."""
        bits = bytes([0xff]) * (PARTITIONS // 8)
        keys, cursor, frames = [], 0, 0
        while frames == 0 or cursor != 0:
            limits = struct.pack("<QIBBBBIB", cursor, 1 << 20, 0, 0, 0, 0, 0, 0)
            reply = self.call(RECORD_SCAN, limits + short(b"") + struct.pack("<I", len(bits)) + bits)
            assert reply.status == OK, reply
            cursor, count = struct.unpack_from("<QI", reply.args)
            place = 12
            for _ in range(count):
                key_bytes = struct.unpack_from("<H", reply.args, place)[0]
                keys.append(reply.args[place + 2 : place + 2 + key_bytes])
                place += 2 + key_bytes
                place += 4 + struct.unpack_from("<I", reply.args, place)[0]
            frames += 1
        return keys, frames

    def shard_frame(self, name, payload, key=b"owner"):
        args = name + short(key) + struct.pack("<IQB", len(payload), 0, 0)
        return self.frame(SHARD_WRITE, args, payload)

    def write_shard(self, name, payload, key=b"owner"):
        self.socket.sendall(self.shard_frame(name, payload, key))
        return self.receive()

    def read_shard(self, name, offset=0, length=0):
        return self.call(SHARD_READ, name + struct.pack("<II", offset, length))

    def patch_shard(self, source, name, shard_bytes, patches, add=False, key=b"owner"):
        """`patches`: pairs of offset and bytes, which take the place of the source's or are XORed to them."""
        args = source + name + short(key) + struct.pack("<IQB", shard_bytes, 0, 0)
        args += struct.pack("<BI", add, len(patches))
        for offset, data in patches:
            args += struct.pack("<III", offset, len(data), crc32c(data))
        return self.call(SHARD_PATCH, args, b"".join(data for _, data in patches))

    def delete_shards(self, names, after_ms=0):
        return self.call(SHARD_DELETE, struct.pack("<II", after_ms, len(names)) + b"".join(names))


def has_sanitizer(binary):
    """Whether it was built with one, which has its own ways with memory."""
    with open(binary, "rb") as f:
        content = f.read()
    return b"__asan_init" in content or b"__tsan_init" in content


class NodeProcess:
    """elastripe-node on a free port."""

    def __init__(self, binary, memory_mb=64, threads=4, options=()):
        self.directory = tempfile.TemporaryDirectory(prefix="elastripe-node-")
        port_file = PortFile(self.directory.name)
        self.log_path = os.path.join(self.directory.name, "log")
        command = [binary, "--port", "0", "--port-file", port_file.path,
                   "--memory-mb", str(memory_mb), "--threads", str(threads), *options]
        if "--user" in options:
            os.chmod(self.directory.name, 0o777)  # that user writes the port there
        elif os.geteuid() == 0:
            command += ["--user", "root"]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.port = port_file.wait(self.process)
        if self.port is None:
            what = "does not listen" if self.is_running() else "ended at its start"
            raise RuntimeError(f"elastripe-node {what}:\n{self.log()}")

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def connect(self):
        return Connection(self.port)

    def text_connection(self):
        """A socket for memcached's own protocols."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def statistics(self):
        """`stats elastripe` as a dictionary."""
        with self.text_connection() as s:
            s.sendall(b"stats elastripe\r\n")
            text = b""
            while not text.endswith(b"END\r\n"):
                data = s.recv(65536)
                assert data, text
                text += data
        lines = text.decode().splitlines()[:-1]
        return dict(line.split(" ", 2)[1:] for line in lines)

    def terminate(self, timeout_s=60):
        """SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=timeout_s)

    def is_running(self):
        return self.process.poll() is None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_running():
            try:
                self.terminate()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.directory.cleanup()
