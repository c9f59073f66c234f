"""Clients that update parts of values, and remember what was acknowledged."""

import itertools
import random
import socket

from cluster import DEADLINE_S, payload


class Connection:
    """One that speaks ms and mg."""

    def __init__(self, cluster):
        self.socket = socket.create_connection(("127.0.0.1", cluster.port), timeout=DEADLINE_S)
        self.lines = self.socket.makefile("rb")

    def close(self):
        self.lines.close()
        self.socket.close()

    def update(self, key, offset, data, flags=""):
        """The reply's words."""
        self.socket.sendall(f"ms {key} {len(data)} o{offset} {flags}\r\n".encode() + data + b"\r\n")
        return self.reply()

    def reply(self):
        line = self.lines.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed")
        return line.decode().split()

    def get(self, key):
        """Value and cas."""
        self.socket.sendall(f"mg {key} v c\r\n".encode())
        words = self.reply()
        if words[0] != "VA":
            raise ConnectionError(" ".join(words))
        return self.lines.read(int(words[1]) + 2)[:-2], int(words[2][1:])


class UpdateLedger:
    """Objects that one client updates at random; of what it was not told it allows for both."""

    def __init__(self, cluster, prefix, sizes, seed=0):
        self.choose = random.Random(seed)
        self.acks = 0
        self.values = {f"{prefix}{size}": payload(size, f"{prefix}{seed}") for size in sizes}
        # By key: updates of unknown outcome since the last that was acknowledged. They may take
        # effect until then, in this order.
        self.unknown = {key: [] for key in self.values}
        for key, value in self.values.items():
            assert cluster.client().set(key, value, noreply=False)

    def update_one(self, connection, key, most_bytes=3000):
        """Whether it was acknowledged."""
        if self.unknown[key]:
            self.check_one(connection, key)
        size = len(self.values[key])
        length = self.choose.randint(1, min(size, most_bytes))
        update = (self.choose.randrange(size - length + 1), self.choose.randbytes(length))
        self.unknown[key].append(update)
        words = connection.update(key, *update)
        if words == ["HD"]:
            self.values[key] = patched(self.values[key], [update])
            self.unknown[key].clear()
            self.acks += 1
            return True
        if "unknown:" not in words:
            self.unknown[key].pop()
        return False

    def check_one(self, connection, key):
        read = connection.get(key)[0]
        unknown = self.unknown[key]
        may_be = [patched(self.values[key], some) for count in range(len(unknown) + 1)
                  for some in itertools.combinations(unknown, count)]
        assert read in may_be, key
        self.values[key] = read

    def check(self, connection):
        for key in self.values:
            self.check_one(connection, key)


def patched(value, updates):
    value = bytearray(value)
    for offset, data in updates:
        value[offset:offset + len(data)] = data
    return bytes(value)
