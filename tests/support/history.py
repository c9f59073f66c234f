"""Clients that write down what they asked and were told, for a checker of linearizability (tests/porcupine)."""

import json
import random
import re
import threading
import time

from pymemcache.exceptions import (MemcacheClientError, MemcacheError, MemcacheUnexpectedCloseError)

from cluster import Load, wait_for

SIZES = (0, 30, 5_000, 60_000, 200_000)  # of values, or what their names take: inline, one segment, several
WEIGHTS = {"get": 30, "set": 22, "add": 3, "replace": 3, "append": 5, "prepend": 3, "cas": 8, "increment": 8,
           "decrement": 3, "delete": 8, "touch": 4}
KEYS = 4
OPERATIONS = 240  # with these keys; then come others, as the search grows with what one key has seen
KEPT = 8  # so many sets of keys stay: what is older is read once more, and deleted
AUDITOR = -1
PIECE = re.compile(rb"\{([^{}:]+):(\d+)\}")


def piece(name, size):
    """The bytes of one write: its name, and what nobody else writes."""
    head = f"{{{name}:{size}}}".encode()
    return head + random.Random(head).randbytes(max(size - len(head), 0))


def text_of(value):
    """The names of the pieces that a value is made of, and the digits of a counter; else what tells that it is torn."""
    text, at = "", 0
    while at < len(value):
        head = PIECE.match(value, at)
        if head is None:
            end = at + 1
            if value[at:end] not in b"0123456789 ":
                return f"{text}(torn at byte {at} of {len(value)})"
        else:
            end = at + max(int(head[2]), len(head[0]))
            if value[at:end] != piece(head[1].decode(), int(head[2])):
                return f"{text}(torn in {head[0].decode()}, of {len(value)} bytes)"
        text += (head[0] if head else value[at:end]).decode()
        at = end
    return text


class Recorder(Load):
    """Clients that do all that can be done with a few keys, at the same time; what they saw is in the file `path`."""

    def __init__(self, cluster, path, clients=3, seed=0):
        self.cluster = cluster
        self.file = open(path, "w")
        self.lock = threading.Lock()
        self.seed = seed
        self.operations = 0
        self.generation = 0
        self.last_read = {}  # (client, key): (cas unique, text)
        ports = [cluster.proxy_port(name) for name in cluster.proxies * clients]
        super().__init__(cluster, [lambda client, n=n: self._work(client, n) for n in range(clients)],
                         ports=ports)

    def _work(self, client, number):
        chance = random.Random(f"{self.seed}/{number}")
        while not self.stopping.wait(0.01):
            with self.lock:
                self.operations += 1
                is_first = self.operations % OPERATIONS == 0
                self.generation += is_first
                generation = self.generation
            if is_first and generation > KEPT:
                self._let_go(client, number, generation - KEPT - 1)
            self._step(client, number, f"h{generation}/{chance.randrange(KEYS)}", chance)

    def _let_go(self, client, number, generation):
        for key in range(KEYS):
            self._do(client, number, f"h{generation}/{key}", "get")
            self._do(client, number, f"h{generation}/{key}", "delete")

    def _step(self, client, number, key, chance):
        verb = chance.choices(list(WEIGHTS), WEIGHTS.values())[0]
        seen = self.last_read.get((number, key))
        if verb == "cas" and seen is None:
            verb = "get"
        request = {}
        if verb in ("increment", "decrement"):
            request["delta"] = chance.randrange(1, 1_000_000_000)
        elif verb == "touch":
            request["exptime"] = chance.choice((0, int(time.time()) + 3))
        elif verb not in ("get", "delete"):
            name = f"{number}.{self.operations}.{time.monotonic_ns()}"
            size = chance.choice(SIZES)
            request["value"] = piece(name, size)
            if size == 0 and verb not in ("append", "prepend"):
                request["value"] = str(chance.randrange(10**15, 10**16)).encode()
            if verb in ("set", "add") and chance.random() < 0.05:
                request["exptime"] = int(time.time()) + chance.randrange(1, 5)
        if verb == "cas":
            request["cas"], request["expected"] = seen
        self._do(client, number, key, verb, **request)

    def _do(self, client, number, key, verb, value=None, **request):
        line = {"client": number, "key": key, "verb": verb} | request
        cas = line.pop("cas", None)
        if value is not None:
            line["value"] = text_of(value)
        line |= {"call": time.monotonic_ns(), "call_ms": time.time_ns() // 1_000_000}
        try:
            line |= self._ask(client, key, verb, value, cas, request)
        except ConnectionRefusedError as error:  # nothing was sent
            line |= {"answer": "none", "error": str(error)}
        except (MemcacheUnexpectedCloseError, OSError) as error:
            line |= {"answer": "unknown", "error": str(error)}
        except MemcacheError as error:
            is_unknown = "outcome unknown" in str(error)
            line |= {"answer": "unknown" if is_unknown else "none", "error": str(error)}
        if "error" in line:
            client.close()
        if line["answer"] != "unknown":
            line |= {"return": time.monotonic_ns(), "return_ms": time.time_ns() // 1_000_000}
        if line["answer"] == "hit":
            self.last_read[number, key] = line.pop("cas"), line["read_value"]
        with self.lock:
            self.file.write(json.dumps(line) + "\n")
        return line["answer"]

    @staticmethod
    def _ask(client, key, verb, value, cas, request):
        """The fields of the answer."""
        def stored(done):
            return {"answer": "done" if done else "not_stored"}
        expire = request.get("exptime", 0)
        if verb == "get":
            found, unique = client.gets(key)
            if found is None:
                return {"answer": "miss"}
            return {"answer": "hit", "read_value": text_of(found), "cas": unique}
        if verb == "cas":
            done = client.cas(key, value, cas, noreply=False)
            return {"answer": {True: "done", False: "exists", None: "not_found"}[done]}
        if verb in ("increment", "decrement"):
            ask = client.incr if verb == "increment" else client.decr
            try:
                number = ask(key, request["delta"], noreply=False)
            except MemcacheClientError as error:
                if "non-numeric" in str(error):
                    return {"answer": "not_number"}
                raise
            return {"answer": "not_found"} if number is None else {"answer": "done", "number": number}
        if verb == "delete":
            return {"answer": "done" if client.delete(key, noreply=False) else "not_found"}
        if verb == "touch":
            return {"answer": "done" if client.touch(key, expire, noreply=False) else "not_found"}
        return stored(getattr(client, verb)(key, value, expire=expire, noreply=False))

    def finish(self):
        """When all has settled, after the `with` block: reads what is left. The number of operations."""
        client = self.cluster.client()
        for generation in range(max(self.generation - KEPT - 1, 0), self.generation + 1):
            for key in range(KEYS):
                name = f"h{generation}/{key}"
                wait_for(lambda n=name: self._do(client, AUDITOR, n, "get") in ("hit", "miss"), f"{name} is read")
        self.file.close()
        return self.operations
