"""A cluster of real processes, driven through the elastripe command, and clients for it."""

import contextlib
import functools
import hashlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

BIN = pathlib.Path(os.environ.get("ELASTRIPE_BIN", "build/bin")).resolve()
# sanitizers and a busy machine are slower; deadlines only bound how long a failure takes
DEADLINE_S = float(os.environ.get("ELASTRIPE_TEST_DEADLINE", "120"))


def wait_for(condition, what, deadline_s=None):
    """Polls until `condition()` is true and returns its value; fails with `what`, which
    may be a function, at the deadline."""
    end = time.monotonic() + (deadline_s or DEADLINE_S)
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"deadline: {what() if callable(what) else what}")
        pause.wait(0.02)


def free_ports(count):
    """The first of `count` consecutive free ports, below those that the kernel hands out."""
    for _ in range(200):
        base = random.randrange(12000, 30000)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(base, base + count):
                    s = stack.enter_context(socket.socket())
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    s.bind(("127.0.0.1", port))
                return base
            except OSError:
                continue
    raise AssertionError("no free ports")


def run(*words, check=True, timeout=None, bin_dir=BIN, **options):
    """Runs a binary of the build to its end."""
    done = subprocess.run([str(bin_dir / words[0]), *map(str, words[1:])], capture_output=True,
                          text=True, timeout=timeout or 2 * DEADLINE_S, check=False, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def payload(size, seed):
    """`size` bytes that no other seed gives, and that differ from place to place."""
    return random.Random(f"{seed}/{size}").randbytes(size)


class Cluster:
    """One running cluster. Commands go through the CLI, as a user's would."""

    def __init__(self, directory, nodes=9, scheme="ers:4,2,5", pools=None, memory_mb=256,
                 settings=(), bin_dir=BIN, flags=(), listeners=0, proxies=1):
        """`listeners`: ports for as many further listeners; `settings` name them %(0)d, %(1)d ...
        Not beside several proxies."""
        self.bin_dir = bin_dir
        self.dir = pathlib.Path(directory)
        self.nodes = nodes
        self.proxies = ["proxy"] + [f"proxy{i}" for i in range(2, proxies + 1)]
        self.port = free_ports(nodes + 2 * proxies + listeners)
        ports = {str(n): self.listener_port(n) for n in range(listeners)}
        self.server = f"127.0.0.1:{self.port}"
        words = ["--nodes", nodes, "--scheme", scheme, "--port", self.port,
                 "--memory-mb", memory_mb, "--proxies", proxies, *flags]
        for prefix, pool_scheme in (pools or {}).items():
            words += ["--pool", f"{prefix}={pool_scheme}"]
        for setting in settings:
            words += ["--set", setting % ports if ports else setting]
        self.cli("cluster", "start", "--dir", self.dir, *words)
        self.wait_serving()

    def listener_port(self, index):
        return self.port + self.nodes + 2 + index

    def proxy_port(self, name):
        """Where clients of that proxy connect; its admin interface is behind it, but for the first."""
        index = self.proxies.index(name)
        return self.port + self.nodes + 2 * index if index else self.port

    def admin_port(self, name):
        return self.port + self.nodes + 1 if name == "proxy" else self.proxy_port(name) + 1

    def proxy_status(self, name):
        return status_at(self.admin_port(name))

    def decider(self, beside=None):
        """The proxy that decides, once the others know it; nothing meanwhile. `beside`: one that is
        not asked, as it would not answer."""
        told = {name: self.proxy_status(name) for name in self.proxies if name != beside}
        names = [name for name, status in told.items() if status.get("decides")]
        return names[0] if len(names) == 1 else None

    # -- commands

    def cli(self, *words, **options):
        return run("elastripe", "--server", self.server, *words, bin_dir=self.bin_dir, **options)

    def json(self, *words):
        return json.loads(self.cli("--json", *words).stdout)

    def kill(self, *names):
        self.cli("cluster", "kill", "--dir", self.dir, *names)

    def restart(self, *names, **environment):
        """`environment`: variables that the processes get beside those of the test."""
        self.cli("cluster", "restart", "--dir", self.dir, *names, env=os.environ | environment)

    @contextlib.contextmanager
    def suspended(self, name):
        """That process does nothing until the end of the block."""
        pid = self.pid(name)
        os.kill(pid, signal.SIGSTOP)
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat")
            wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", f"{name} stands still")
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def stop(self):
        self.cli("cluster", "stop", "--dir", self.dir)

    def log(self, name):
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def pid(self, name):
        processes = self.json("cluster", "status", "--dir", self.dir)["processes"]
        return next(p["pid"] for p in processes if p["name"] == name)

    # -- what the proxy says of the cluster

    def status(self):
        return self.json("status")

    # These two are polled, so not through the CLI: a process for each answer would slow down what
    # is waited for.
    def node_states(self):
        nodes = json.loads(self.admin("/v1/nodes"))["nodes"]
        return {node["name"]: node["state"] for node in nodes}

    def is_serving(self, up=None):
        """Serving, with exactly `up` nodes up if that is given, and every partition synced."""
        try:
            status = json.loads(self.admin("/v1/status"))  # one answer: of one map
        except (OSError, http.client.HTTPException):
            return False
        return (status["state"] == "serving"
                and (up is None or status["nodes"]["up"] == up)
                and status["partitions"]["synced"] == status["partitions"]["total"])

    def wait_serving(self, up=None):
        up = self.nodes if up is None else up
        wait_for(lambda: self.is_serving(up),
                 lambda: f"{up} nodes up and every partition synced, not {self.status()}")

    def is_settled(self):
        """Nothing lacks redundancy, of what nodes there are."""
        status = self.status()
        return (self.is_serving() and status["epoch"]["number"] == status["repair"]["settled_epoch"]
                and status["objects"]["lacking_shards"] == 0)

    def wait_settled(self):
        wait_for(self.is_settled, lambda: f"full redundancy, not {self.status()}")

    def scrub(self, *keys):
        """Of each object: whether its shards are all there, and its parities match its data."""
        done = self.cli("--json", "scrub", *keys, check=False)
        reports = json.loads(done.stdout)
        assert len(reports) == len(keys), done.stderr
        return reports

    def object(self, key):
        return self.json("object", key)

    def ask_admin(self, path, name="proxy"):
        """The status and the text that the admin interface of that proxy answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port(name),
                                                timeout=DEADLINE_S)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def admin(self, path, name="proxy"):
        """The text that it answers with success."""
        status, text = self.ask_admin(path, name)
        assert status == 200, f"{path}: {status} {text}"
        return text

    def metrics(self, name="proxy"):
        """{series: value} of that proxy, a series being a name with its labels as /metrics writes them."""
        lines = self.admin("/metrics", name).splitlines()
        series = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in series}

    # -- clients

    def client(self, timeout=None, port=None):
        return Client(("127.0.0.1", port or self.port), connect_timeout=5,
                      timeout=timeout or DEADLINE_S, no_delay=True)

    def node_client(self, index):
        return self.client(port=self.port + 1 + index)


class Raw:
    """A connection that sends and receives exact bytes."""

    def __init__(self, port, timeout=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout or DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        return self.file.readline()

    def ask(self, data):
        """The answer's bytes up to where a marker request after `data` is answered."""
        self.send(data + b"version\r\n")
        lines = []
        while True:
            line = self.line()
            if line.startswith(b"VERSION ") or line == b"":
                return b"".join(lines)
            lines.append(line)

    def close(self):
        self.file.close()
        self.socket.close()


def status_at(admin_port):
    """What the proxy there tells; nothing if it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/v1/status", timeout=2) as answer:
            return json.load(answer)
    except OSError:
        return {}


@contextlib.contextmanager
def another_proxy(cluster, *options):
    """A proxy of the cluster's configuration, with these options besides. It may be killed."""
    with open(cluster.dir / "another.log", "w") as log:
        proxy = subprocess.Popen(
            [BIN / "elastripe-proxy", "--config", cluster.dir / "elastripe.yaml", *options],
            stdout=log, stderr=subprocess.STDOUT)
        try:
            yield proxy
        finally:
            proxy.terminate()
            assert proxy.wait(30) in (0, -signal.SIGKILL)


def store_objects(cluster, count, size):
    """{key: value} of `count` objects, of `size` bytes and a little more each."""
    client = cluster.client()
    values = {f"object{i}": payload(size + i, i) for i in range(count)}
    for key, value in values.items():
        assert client.set(key, value, noreply=False)
    return values


def check_objects(cluster, values):
    client = cluster.client()
    lost = [key for key, value in values.items() if client.get(key) != value]
    assert not lost, f"{len(lost)} of {len(values)} objects are not what they were"


class Ledger:
    """What one writer may find under its keys: the last acknowledged value or a later attempt.

    A value is "KEY SEQUENCE SHA256 FILL", so that torn or mixed bytes show.
    """

    def __init__(self, prefix, sizes, keys=8, seed=0):
        self.prefix = prefix
        self.sizes = sizes
        self.random = random.Random(f"{prefix}/{seed}")
        self.sequence = {f"{prefix}{i}": 0 for i in range(keys)}
        self.acknowledged = {}  # key -> sequence
        self.attempted = {}     # key -> last sequence sent
        self.acks = self.failures = 0
        self.reasons = []       # of the failures

    @staticmethod
    def value(key, sequence, size):
        fill = random.Random(f"{key}/{sequence}").randbytes(max(size - 128, 0))
        head = f"{key} {sequence} {hashlib.sha256(fill).hexdigest()} ".encode()
        return head + fill

    @staticmethod
    def parse(key, value):
        """The sequence number of a value that is whole."""
        name, sequence, digest, fill = value.split(b" ", 3)
        assert name == key.encode(), f"bytes of {name} under {key}"
        assert hashlib.sha256(fill).hexdigest().encode() == digest, f"torn value under {key}"
        return int(sequence)

    def put_one(self, client):
        """One PUT of a key in turn. A failure leaves its outcome open."""
        key = self.random.choice(list(self.sequence))
        self.sequence[key] += 1
        sequence = self.sequence[key]
        self.attempted[key] = sequence
        value = self.value(key, sequence, self.random.choice(self.sizes))
        try:
            stored = client.set(key, value, noreply=False)
        except (MemcacheError, OSError) as error:
            self.failures += 1
            self.reasons.append(str(error))
            return False
        if stored:
            self.acknowledged[key] = sequence
            self.acks += 1
        return stored

    def check_key(self, key, client):
        # The writer may go on meanwhile: what counts is what it had acknowledged before this
        # read was sent, and what it had sent before this read was answered.
        lowest = self.acknowledged.get(key, 0)
        value = client.get(key)
        if value is None:
            assert lowest == 0, f"{key}: acknowledged {lowest}, found nothing"
            return
        sequence = self.parse(key, value)
        assert lowest <= sequence <= self.attempted[key], (
            f"{key}: acknowledged {lowest}, attempted {self.attempted[key]}, found {sequence}")

    def check(self, client):
        """Reads every key back; an error is a failure too."""
        assert self.acks > 0, "nothing was acknowledged"
        for key in self.sequence:
            self.check_key(key, client)


class Load:
    """Threads that each do one of `jobs` with a client of its own until the `with` block ends,
    which fails if a job does. A job takes the client and checks `stopping`."""

    def __init__(self, cluster, jobs, timeout=15, ports=None):
        """`ports`: for each job, where it connects; of the first proxy, if there are none."""
        self.stopping = threading.Event()
        self.errors = []
        self.threads = [threading.Thread(target=self._run, args=(job, cluster, timeout, port))
                        for job, port in zip(jobs, ports or [None] * len(jobs))]

    def _run(self, job, cluster, timeout, port):
        try:
            job(cluster.client(timeout=timeout, port=port))
        except Exception as error:  # shown at the end
            self.errors.append(error)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        assert not self.errors, self.errors


class Writers(Load):
    """Write, each with a ledger of its own."""

    def __init__(self, cluster, count, sizes, prefix="", ports=None):
        self.cluster = cluster
        self.ledgers = [Ledger(f"{prefix}w{i}/", sizes) for i in range(count)]
        super().__init__(cluster, [functools.partial(self._write, l) for l in self.ledgers],
                         ports=ports)

    def _write(self, ledger, client):
        while not self.stopping.is_set():
            if not ledger.put_one(client):
                client.close()
                self.stopping.wait(0.05)

    def acks(self):
        return sum(ledger.acks for ledger in self.ledgers)

    def wait_acks(self, more):
        goal = self.acks() + more
        wait_for(lambda: self.acks() >= goal or self.errors, f"{more} more acknowledged writes")

    def check(self):
        for ledger in self.ledgers:
            ledger.check(self.cluster.client())


def sanitizer_reports(directory):
    """Lines of the logs that a sanitizer or a failed check wrote."""
    marks = re.compile(r"ERROR: AddressSanitizer|runtime error:|WARNING: ThreadSanitizer|"
                       r"LeakSanitizer|CHECK failed|Assertion .* failed")
    found = []
    for log in pathlib.Path(directory).glob("*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if marks.search(line):
                found.append(f"{log.name}: {line}")
    return found


def remove_tree(path):
    shutil.rmtree(path, ignore_errors=True)
